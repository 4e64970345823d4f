//! What a cost model is told of a schedule: numbers that follow from the loop nest and the machine, whatever is computed.
//!
//! They are counts that bound how long a core takes (arithmetic, loads, chains of dependent additions, bytes from beyond each
//! cache), what disturbs it (spilled registers, gathers, masks, lanes that are off, loops that are short) and how work is
//! shared. The idea is that of Zheng et al., "Ansor" (2020), section 5.2, with counts of whole nests in the place of
//! features per statement. A nest is taken as it is lowered: what does not move with a loop is loaded before it, unrolled
//! turns share loads.

mod gpu;
mod traffic;
mod walk;

pub use gpu::{GPU_FEATURE_NAMES, gpu_features};

use infc_ir::nest::LoopNest;
use infc_passes::schedule::{AnyMachine, Machine};
use walk::{Access, Home, Leaf, Turns};

/// What the features are called, in order.
pub const FEATURE_NAMES: [&str; 34] = [
    "arithmetic",
    "loads",
    "broadcasts",
    "gathered lanes",
    "stores",
    "scattered lanes",
    "chain cycles",
    "arithmetic cycles",
    "load cycles",
    "L2 cycles",
    "L3 cycles",
    "bound cycles",
    "sum of cycles",
    "bytes beyond L1",
    "bytes beyond L2",
    "bytes touched",
    "accumulators",
    "registers",
    "registers beyond those there are",
    "spilled work",
    "lanes in use",
    "conditional work",
    "straight-line operations",
    "local bytes",
    "chunks",
    "work per chunk",
    "repeats of loops",
    "work per repeat",
    "innermost turns",
    "innermost bytes",
    "streams",
    "greatest stride",
    "aliasing streams",
    "hints",
];

/// The features of a nest on a machine of either kind: [`features`] or [`gpu_features`].
#[must_use]
pub fn any_features(nest: &LoopNest, machine: &AnyMachine) -> Vec<f64> {
    match machine {
        AnyMachine::Cpu(machine) => features(nest, machine),
        AnyMachine::Gpu(machine) => gpu_features(nest, machine),
    }
}

/// The features of a nest on a machine; counts as logarithms, since ratios are what matters.
#[must_use]
pub fn features(nest: &LoopNest, machine: &Machine) -> Vec<f64> {
    let tree = walk::read(nest);
    let mut counts = Counts::default();
    for leaf in &tree.leaves {
        counts.add(leaf, machine);
    }
    let beyond_l1 = traffic::beyond(&tree, machine.l1_bytes as f64);
    let beyond_l2 = traffic::beyond(&tree, machine.l2_bytes as f64);
    let all: f64 = tree.roots.iter().map(|node| traffic::touched(&tree, node, 0)).sum();
    let arithmetic_cycles = counts.arithmetic / machine.arithmetic_per_cycle;
    // A gathered lane is a load of its own, a scattered one a store.
    let load_cycles = (counts.loads + counts.stores + counts.gathered + counts.scattered) / machine.loads_per_cycle;
    let l2_cycles = beyond_l1 / machine.l2_bytes_per_cycle;
    let l3_cycles = beyond_l2 / machine.l3_bytes_per_cycle;
    let cycles = [arithmetic_cycles, load_cycles, counts.chain_cycles, l2_cycles, l3_cycles];
    let bound = cycles.iter().copied().fold(0.0, f64::max);
    let excess = (counts.registers - f64::from(machine.vector_registers)).max(0.0);
    let work = counts.arithmetic.max(1.0);
    vec![
        log(counts.arithmetic),
        log(counts.loads),
        log(counts.broadcasts),
        log(counts.gathered),
        log(counts.stores),
        log(counts.scattered),
        log(counts.chain_cycles),
        log(arithmetic_cycles),
        log(load_cycles),
        log(l2_cycles),
        log(l3_cycles),
        log(bound),
        log(cycles.iter().sum()),
        log(beyond_l1),
        log(beyond_l2),
        log(all),
        counts.accumulators,
        counts.registers,
        excess,
        log(counts.spilled),
        counts.lanes_on / counts.lanes.max(1.0),
        counts.conditional / work,
        log(counts.straight),
        log(tree.local_bytes),
        log(tree.chunks),
        log(work / tree.chunks.max(1.0)),
        log(tree.repeats),
        log(work / tree.repeats.max(1.0)),
        log(counts.innermost_turns / work),
        log(counts.innermost_bytes / work),
        counts.streams / work,
        log(counts.greatest_stride),
        counts.aliasing / work,
        log(counts.hints),
    ]
}

/// A logarithm that 0 has, too.
fn log(count: f64) -> f64 {
    (1.0 + count.max(0.0)).log2()
}

/// Counts of all leaves together; averages are weighted by arithmetic.
#[derive(Default)]
struct Counts {
    arithmetic: f64,
    loads: f64,
    broadcasts: f64,
    gathered: f64,
    stores: f64,
    scattered: f64,
    chain_cycles: f64,
    accumulators: f64,
    registers: f64,
    spilled: f64,
    lanes: f64,
    lanes_on: f64,
    conditional: f64,
    straight: f64,
    innermost_turns: f64,
    innermost_bytes: f64,
    streams: f64,
    greatest_stride: f64,
    aliasing: f64,
    hints: f64,
}

impl Counts {
    fn add(&mut self, leaf: &Leaf, machine: &Machine) {
        let lanes = leaf.loops.iter().rev().find_map(|l| match l.kind {
            Turns::Lanes(lanes) if lanes > 1 => Some((l.turns, f64::from(lanes))),
            _ => None,
        });
        let widest = leaf.accesses.iter().map(|access| access.elem_bytes).fold(1.0, f64::max);
        // A vector wider than a register is several.
        let vectors =
            lanes.map_or(1.0, |(_, lanes)| (lanes * widest / f64::from(machine.vector_bytes)).ceil().max(1.0));
        let turns = |kind: Turns| leaf.loops.iter().filter(|l| l.kind == kind).map(|l| l.turns).product::<f64>();
        let (serial, straight) = (turns(Turns::Serial), turns(Turns::Straight));
        let times = serial * straight * vectors;
        if leaf.is_hint {
            self.hints += times;
            return;
        }
        // What only moves takes a little, too.
        let work = (leaf.cost.max(0.1)) * times;
        self.arithmetic += work;
        self.straight += straight * vectors;
        let (on, of) = lanes.map_or((1.0, machine.lanes(widest as usize) as f64), |(on, of)| (on, of));
        self.lanes += work * of;
        self.lanes_on += work * on;
        if leaf.is_conditional {
            self.conditional += work;
        }
        let innermost = leaf.loops.iter().rposition(|l| l.kind == Turns::Serial);
        self.innermost_turns += work * innermost.map_or(1.0, |n| leaf.loops[n].turns);
        let mut operands = 0.0;
        for access in &leaf.accesses {
            let live = vectors * straight_moving(access, leaf);
            if access.home == Home::Register {
                if access.is_write && leaf.folds {
                    self.accumulators = self.accumulators.max(live);
                    // One accumulator's additions wait for each other, those of several do not.
                    self.chain_cycles += serial * straight / straight_moving(access, leaf) * machine.latency_cycles;
                }
                operands += if access.is_write { live } else { 0.0 };
                continue;
            }
            self.memory(access, leaf, vectors);
            if !access.is_write {
                // Of the vectors of a tile the operand that has fewer is kept while the other passes.
                operands += live.min(4.0);
            }
            if let Some(n) = innermost
                && let Some(stride) = access.strides[n]
            {
                let bytes = stride.abs() * access.elem_bytes;
                self.streams += work;
                self.innermost_bytes += work * bytes;
                self.greatest_stride = self.greatest_stride.max(bytes);
                if bytes >= 4096.0 && bytes % 4096.0 == 0.0 {
                    self.aliasing += work;
                }
            }
        }
        self.registers = self.registers.max(operands);
        let excess = (operands - f64::from(machine.vector_registers)).max(0.0);
        self.spilled += excess / operands.max(1.0) * times;
    }

    /// Loads, or stores, of a statement from memory.
    fn memory(&mut self, access: &Access, leaf: &Leaf, vectors: f64) {
        // What does not move with the inner loops is loaded before them.
        let moving = |n: &usize| leaf.loops[*n].kind == Turns::Serial && access.strides[*n].is_some();
        let deepest = (0..leaf.loops.len()).rev().find(moving).map_or(0, |n| n + 1);
        let depth = if access.is_write && !leaf.folds { leaf.loops.len() } else { deepest };
        let serial: f64 = leaf.loops[..depth].iter().filter(|l| l.kind == Turns::Serial).map(|l| l.turns).product();
        let lane =
            leaf.loops.iter().zip(&access.strides).rev().find(|(l, _)| matches!(l.kind, Turns::Lanes(n) if n > 1));
        let count = serial * straight_moving(access, leaf);
        let along = lane.map_or(Some(1.0), |(_, stride)| *stride);
        let lanes = lane.map_or(1.0, |(l, _)| l.turns);
        match along {
            None => self.broadcasts += count,
            Some(stride) if stride.abs() > 1.0 && access.is_write => self.scattered += count * lanes,
            Some(stride) if stride.abs() > 1.0 => self.gathered += count * lanes,
            Some(_) => {}
        }
        let count = if along.is_none() { count } else { count * vectors };
        if access.is_write {
            self.stores += count;
        }
        // What is folded in memory is read, too.
        if !access.is_write || leaf.folds {
            self.loads += count;
        }
    }
}

/// How many different places an access has in one turn of the serial loops, but for threads and lanes.
fn straight_moving(access: &Access, leaf: &Leaf) -> f64 {
    let moving = leaf.loops.iter().zip(&access.strides).filter(|(l, s)| l.kind == Turns::Straight && s.is_some());
    moving.map(|(l, _)| l.turns).product::<f64>().max(1.0)
}

#[cfg(test)]
mod tests;
