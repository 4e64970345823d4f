//! Which stretches are graphs of the GPU's.
//!
//! A stretch that has been there before, with the same kernels, grids, parameters and addresses, is recorded by the GPU and
//! started as a whole from then on (a CUDA graph). Runs of one shape have the same stretches, since memory stays where it is; a
//! session keeps those of a few shapes.
//!
//! Runs of other shapes have stretches *alike*: the same kernels with other grids and parameters, as each step of a decoder
//! has whose cache grows. So one that is there for the first time has a graph, too, if there was one like it: a graph of its own as long as there
//! are few, and from then on that of the one like it that was used longest ago, changed in place. That costs the host half a
//! microsecond for each kernel whose parameters are others, the start included, and the GPU nothing.

use super::stretch::Stretch;
use super::{Gpu, GpuGraph};
use infc_artifact::KernelInfo;
use std::sync::Arc;

/// Graphs that are kept.
const KEPT: usize = 16;
/// Stretches without a graph that are remembered.
const REMEMBERED: usize = 16;
/// Graphs of stretches that are alike, from which on one is changed for another stretch like them that was never there before.
const ALIKE: usize = 2;

/// Stretches that a session remembers, and the graphs that some of them have.
#[derive(Debug)]
pub(super) struct Graphs {
    gpu: Arc<dyn Gpu>,
    known: Vec<Known>,
    /// Counts what is asked for, to know what was used last.
    clock: u64,
    /// Whether the GPU has changed all graphs that it was asked to change.
    can_change: bool,
}

#[derive(Debug)]
struct Known {
    stretch: Stretch,
    record: Record,
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Record {
    /// It has been there once since it had one.
    NotYet,
    Made(GpuGraph),
    /// The GPU makes none.
    Refused,
}

impl Graphs {
    pub(super) fn new(gpu: Arc<dyn Gpu>) -> Self {
        Self { gpu, known: Vec::new(), clock: 0, can_change: true }
    }

    /// The graph of a stretch, if it, or one like it, has been there before.
    pub(super) fn graph_of(&mut self, stretch: &Stretch, kernels: &[KernelInfo]) -> Option<GpuGraph> {
        self.clock += 1;
        let known = self.known.iter().position(|known| known.stretch == *stretch);
        if let Some(n) = known {
            self.known[n].used = self.clock;
            match self.known[n].record {
                Record::NotYet => {}
                Record::Made(graph) => return Some(graph),
                Record::Refused => return None,
            }
        }
        let alike = |known: &Known| known.record != Record::Refused && known.stretch.is_like(stretch);
        let alike_with_graph = |known: &Known| known.graph().is_some() && alike(known);
        let graphs = self.known.iter().filter(|known| alike_with_graph(known)).count();
        // One that comes again gets a graph of its own as long as none has to go for it.
        let enough = if known.is_some() { KEPT } else { ALIKE };
        if self.can_change && graphs >= enough {
            let oldest = self.oldest(alike_with_graph)?;
            if let Some(n) = known {
                // It is remembered anew, with the graph; the last takes its place.
                let last = self.known.len() - 1;
                self.known.swap_remove(n);
                return self.change(if oldest == last { n } else { oldest }, stretch, kernels);
            }
            return self.change(oldest, stretch, kernels);
        }
        let has_alike = self.can_change && self.known.iter().any(alike);
        match known {
            Some(n) => self.record(n, kernels),
            None => {
                let n = self.remember(stretch);
                if has_alike { self.record(n, kernels) } else { None }
            }
        }
    }

    /// Has the GPU record the stretch of this number.
    fn record(&mut self, n: usize, kernels: &[KernelInfo]) -> Option<GpuGraph> {
        let graph = self.known[n].stretch.record(&*self.gpu, kernels);
        self.known[n].record = graph.map_or(Record::Refused, Record::Made);
        // It was used last, so that it is another one that is forgotten.
        while self.known.iter().filter(|known| known.graph().is_some()).count() > KEPT {
            let oldest = self.oldest(|known| known.graph().is_some())?;
            self.known.swap_remove(oldest).forget(&*self.gpu);
        }
        graph
    }

    /// Gives the graph of the stretch of this number to one that is not known; its own is remembered without one.
    fn change(&mut self, n: usize, stretch: &Stretch, kernels: &[KernelInfo]) -> Option<GpuGraph> {
        let graph = self.known[n].graph()?;
        if !stretch.change(&self.known[n].stretch, graph, &*self.gpu, kernels) {
            self.can_change = false;
            self.known.swap_remove(n).forget(&*self.gpu);
            return None;
        }
        self.known[n].record = Record::NotYet;
        let new = self.remember(stretch);
        self.known[new].record = Record::Made(graph);
        Some(graph)
    }

    /// Remembers a stretch, which is used now; its number.
    fn remember(&mut self, stretch: &Stretch) -> usize {
        let is_without = |known: &Known| known.graph().is_none();
        let without = self.known.iter().filter(|known| is_without(known)).count();
        let forgotten = if without < REMEMBERED { None } else { self.oldest(is_without) };
        // What is forgotten leaves its memory.
        let mut own = forgotten.map(|n| self.known.swap_remove(n).stretch).unwrap_or_default();
        own.assign(stretch);
        self.known.push(Known { stretch: own, record: Record::NotYet, used: self.clock });
        self.known.len() - 1
    }

    /// The number of the one of a kind that was used longest ago.
    fn oldest(&self, is_of: impl Fn(&Known) -> bool) -> Option<usize> {
        let of_kind = (0..self.known.len()).filter(|&n| is_of(&self.known[n]));
        of_kind.min_by_key(|&n| self.known[n].used)
    }
}

impl Known {
    fn graph(&self) -> Option<GpuGraph> {
        match self.record {
            Record::Made(graph) => Some(graph),
            Record::NotYet | Record::Refused => None,
        }
    }

    fn forget(self, gpu: &dyn Gpu) {
        if let Some(graph) = self.graph() {
            // It may be running.
            let _ = gpu.synchronize();
            gpu.forget(graph);
        }
    }
}

impl Drop for Graphs {
    fn drop(&mut self) {
        self.known.drain(..).for_each(|known| known.forget(&*self.gpu));
    }
}
