//! Launches and copies that follow each other, as one thing that is asked of a GPU.
//!
//! A run asks for some hundred kernels, each of which takes a GPU microseconds, and so does a driver to start it. So what is
//! asked for is listed until the host needs a result: a stretch, which is started as a whole if there is a graph for it
//! ([`Graphs`]).

use super::graphs::Graphs;
use super::{Gpu, GpuAddress, GpuError, GpuFunction, GpuGraph, GpuMark, GpuOperation};
use infc_artifact::{DeviceKernel, KernelInfo};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Operations from which on a record is worth it.
const LEAST: usize = 2;

/// What has been asked for and not been started, and what was before.
#[derive(Debug)]
pub(crate) struct Stretches {
    gpu: Arc<dyn Gpu>,
    queued: Stretch,
    graphs: Graphs,
    /// Whether the GPU marks when each begins and ends.
    is_timed: bool,
    /// The marks of what was started since they were last given.
    marks: Vec<(GpuMark, GpuMark)>,
}

/// A list of operations.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stretch {
    operations: Vec<Queued>,
    /// Parameters of all launches.
    words: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Queued {
    Launch {
        function: GpuFunction,
        /// Its number among those of the variant.
        kernel: usize,
        grid: [u32; 3],
        /// Its parameters.
        words: Range<usize>,
    },
    Copy {
        from: GpuAddress,
        to: GpuAddress,
        len_bytes: usize,
    },
}

impl Stretch {
    fn operation<'s>(&'s self, kernels: &'s [KernelInfo], queued: &Queued) -> Option<GpuOperation<'s>> {
        Some(match queued {
            Queued::Launch { function, kernel, grid, words } => GpuOperation::Launch {
                function: *function,
                kernel: device(kernels, *kernel)?,
                grid: *grid,
                parameters: &self.words[words.clone()],
            },
            Queued::Copy { from, to, len_bytes } => GpuOperation::Copy { from: *from, to: *to, len_bytes: *len_bytes },
        })
    }

    /// Starts one after the other.
    fn start(&self, gpu: &dyn Gpu, kernels: &[KernelInfo]) -> Result<(), GpuError> {
        let operations = self.operations.iter().filter_map(|queued| self.operation(kernels, queued));
        operations.into_iter().try_for_each(|operation| gpu.start(&operation))
    }

    /// Whether it is the other one but for grids, parameters and addresses.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let alike = |(own, other): (&Queued, &Queued)| match (own, other) {
            (Queued::Launch { function, words, .. }, Queued::Launch { function: other, words: others, .. }) => {
                function == other && words == others
            }
            (Queued::Copy { .. }, Queued::Copy { .. }) => true,
            _ => false,
        };
        self.operations.len() == other.operations.len() && self.operations.iter().zip(&other.operations).all(alike)
    }

    /// Becomes a copy of another one, in the memory that it has.
    pub(super) fn assign(&mut self, other: &Self) {
        self.operations.clone_from(&other.operations);
        self.words.clone_from(&other.words);
    }

    /// The graph of these operations, if the GPU makes one.
    pub(super) fn record(&self, gpu: &dyn Gpu, kernels: &[KernelInfo]) -> Option<GpuGraph> {
        let operations: Vec<_> = self.operations.iter().filter_map(|queued| self.operation(kernels, queued)).collect();
        gpu.record(&operations)
    }

    /// Makes the graph of one like this one its own; whether the GPU has done it.
    pub(super) fn change(&self, of: &Self, graph: GpuGraph, gpu: &dyn Gpu, kernels: &[KernelInfo]) -> bool {
        let is_changed = |(own, before): (&Queued, &Queued)| match own {
            Queued::Launch { words, .. } => {
                own != before || self.words.get(words.clone()) != of.words.get(words.clone())
            }
            Queued::Copy { .. } => own != before,
        };
        let pairs = self.operations.iter().zip(&of.operations).enumerate();
        let changed = pairs.filter(|&(_, pair)| is_changed(pair));
        gpu.change(graph, &mut changed.filter_map(|(n, (own, _))| Some((n, self.operation(kernels, own)?))))
    }
}

fn device(kernels: &[KernelInfo], kernel: usize) -> Option<&DeviceKernel> {
    kernels.get(kernel)?.device.as_ref()
}

impl Stretches {
    pub(crate) fn new(gpu: Arc<dyn Gpu>, is_timed: bool) -> Self {
        let graphs = Graphs::new(Arc::clone(&gpu));
        Self { gpu, queued: Stretch::default(), graphs, is_timed, marks: Vec::new() }
    }

    /// Forgets what has not been started, and what was timed.
    pub(crate) fn clear(&mut self) {
        self.clear_queued();
        self.unmark();
    }

    fn clear_queued(&mut self) {
        self.queued.operations.clear();
        self.queued.words.clear();
    }

    fn unmark(&mut self) {
        for (from, to) in self.marks.drain(..) {
            self.gpu.unmark(from);
            self.gpu.unmark(to);
        }
    }

    /// Stretches that were started and timed since their times were asked for last.
    pub(crate) fn timed(&self) -> usize {
        self.marks.len()
    }

    /// When each stretch began that was started and timed since this was asked for last, from the beginning of the first of them,
    /// and how long it took; waits for them.
    pub(crate) fn times(&mut self, times: &mut Vec<(Duration, Duration)>) -> Result<(), GpuError> {
        times.clear();
        let first = self.marks.first().map(|(from, _)| *from);
        let between = |from, to| self.gpu.between(from, to);
        let timed = first.map_or(Ok(()), |first| {
            self.marks.iter().try_for_each(|&(from, to)| {
                times.push((between(first, from)?, between(from, to)?));
                Ok(())
            })
        });
        self.unmark();
        timed
    }

    /// Asks for the launch of a kernel, whose number among those of the variant is told.
    pub(crate) fn launch(
        &mut self,
        (function, kernel): (GpuFunction, usize),
        grid: [u32; 3],
        parameters: impl Iterator<Item = u64>,
    ) {
        let start = self.queued.words.len();
        self.queued.words.extend(parameters);
        let words = start..self.queued.words.len();
        self.queued.operations.push(Queued::Launch { function, kernel, grid, words });
    }

    /// Asks for a copy on the GPU.
    pub(crate) fn copy(&mut self, from: GpuAddress, to: GpuAddress, len_bytes: usize) {
        self.queued.operations.push(Queued::Copy { from, to, len_bytes });
    }

    /// Starts what has been asked for, if anything has.
    pub(crate) fn start(&mut self, kernels: &[KernelInfo]) -> Result<(), GpuError> {
        let started = if self.queued.operations.is_empty() { Ok(()) } else { self.start_queued(kernels) };
        self.clear_queued();
        started
    }

    fn start_queued(&mut self, kernels: &[KernelInfo]) -> Result<(), GpuError> {
        let Self { gpu, queued, graphs, .. } = self;
        let graph = if queued.operations.len() < LEAST { None } else { graphs.graph_of(queued, kernels) };
        let start = || match graph {
            Some(graph) => gpu.replay(graph),
            None => queued.start(&**gpu, kernels),
        };
        if !self.is_timed {
            return start();
        }
        let from = gpu.mark()?;
        let to = start().and_then(|()| gpu.mark());
        match to {
            Ok(to) => self.marks.push((from, to)),
            Err(_) => gpu.unmark(from),
        }
        to.map(drop)
    }
}

impl Drop for Stretches {
    fn drop(&mut self) {
        self.unmark();
    }
}
