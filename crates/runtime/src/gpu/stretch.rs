//! Launches and copies that follow each other, as one thing that is asked of a GPU.
//!
//! A run asks for some hundred kernels, each of which takes a GPU microseconds, and so does a driver to start it. So what is
//! asked for is listed until the host needs a result: a stretch. A stretch that has been there before, with the same kernels,
//! grids, parameters and addresses, is recorded by the GPU and started as a whole from then on (a CUDA graph). Runs of one
//! shape have the same stretches, since memory stays where it is; a session keeps those of a few shapes.

use super::{Gpu, GpuAddress, GpuError, GpuFunction, GpuGraph, GpuMark, GpuOperation};
use infc_artifact::{DeviceKernel, KernelInfo};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Stretches that a session remembers.
const KEPT: usize = 16;
/// Operations from which on a record is worth it.
const LEAST: usize = 2;

/// What has been asked for and not been started, and what was before.
#[derive(Debug)]
pub(crate) struct Stretches {
    gpu: Arc<dyn Gpu>,
    queued: Stretch,
    known: Vec<Known>,
    /// Counts what is started, to know what was used last.
    clock: u64,
    /// Whether the GPU marks when each begins and ends.
    is_timed: bool,
    /// The marks of what was started since they were last given.
    marks: Vec<(GpuMark, GpuMark)>,
}

/// A list of operations.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stretch {
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

#[derive(Debug)]
struct Known {
    stretch: Stretch,
    record: Record,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
enum Record {
    /// It has been there once.
    NotYet,
    Made(GpuGraph),
    /// The GPU makes none.
    Refused,
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

    fn record(&self, gpu: &dyn Gpu, kernels: &[KernelInfo]) -> Record {
        let operations: Vec<_> = self.operations.iter().filter_map(|queued| self.operation(kernels, queued)).collect();
        gpu.record(&operations).map_or(Record::Refused, Record::Made)
    }
}

fn device(kernels: &[KernelInfo], kernel: usize) -> Option<&DeviceKernel> {
    kernels.get(kernel)?.device.as_ref()
}

impl Stretches {
    pub(crate) fn new(gpu: Arc<dyn Gpu>, is_timed: bool) -> Self {
        Self { gpu, queued: Stretch::default(), known: Vec::new(), clock: 0, is_timed, marks: Vec::new() }
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
        let graph = self.graph_of_queued(kernels);
        let Self { gpu, queued, .. } = self;
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

    /// The graph that what has been asked for is, if it has been there before; it is recorded the second time.
    fn graph_of_queued(&mut self, kernels: &[KernelInfo]) -> Option<GpuGraph> {
        let Self { gpu, queued, known, clock, .. } = self;
        if queued.operations.len() < LEAST {
            return None;
        }
        *clock += 1;
        let Some(known) = known.iter_mut().find(|known| known.stretch == *queued) else {
            if known.len() >= KEPT {
                let oldest = (0..known.len()).min_by_key(|&n| known[n].used).unwrap_or(0);
                known.swap_remove(oldest).forget(&**gpu);
            }
            known.push(Known { stretch: queued.clone(), record: Record::NotYet, used: *clock });
            return None;
        };
        known.used = *clock;
        if let Record::NotYet = known.record {
            known.record = queued.record(&**gpu, kernels);
        }
        match known.record {
            Record::Made(graph) => Some(graph),
            Record::NotYet | Record::Refused => None,
        }
    }
}

impl Known {
    fn forget(self, gpu: &dyn Gpu) {
        if let Record::Made(graph) = self.record {
            // It may be running.
            let _ = gpu.synchronize();
            gpu.forget(graph);
        }
    }
}

impl Drop for Stretches {
    fn drop(&mut self) {
        self.known.drain(..).for_each(|known| known.forget(&*self.gpu));
        self.unmark();
    }
}
