//! What a loop nest asks of a machine: the one cost model that the tuner learns from and that forecasts are made with.
//!
//! They are counts that bound how long a core takes (arithmetic, loads, chains of dependent additions, bytes from beyond each
//! cache), what disturbs it (spilled registers, gathers, masks, lanes that are off, loops that are short) and how work is
//! shared. The idea is that of Zheng et al., "Ansor" (2020), section 5.2, with counts of whole nests in the place of
//! features per statement. A nest is taken as it is lowered: what does not move with a loop is loaded before it, unrolled
//! turns share loads.

mod gpu;
mod traffic;
mod unrolled;
mod walk;

pub use gpu::GpuCost;

use super::Machine;
use infc_ir::entity::SymbolId;
use infc_ir::nest::LoopNest;
use walk::{Access, Home, Leaf, Turns};

/// Counts of all that a nest does on one thread of a processor. Ratios are means, weighted by arithmetic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NestCost {
    /// Vector instructions of arithmetic.
    pub arithmetic: f64,
    /// Vector loads.
    pub loads: f64,
    /// Of these, loads of one element for all lanes.
    pub broadcasts: f64,
    /// Lanes that are loaded each from its own place.
    pub gathered: f64,
    /// Vector stores.
    pub stores: f64,
    /// Lanes that are stored each to its own place.
    pub scattered: f64,
    /// Cycles of additions that wait for each other.
    pub chain_cycles: f64,
    /// Cycles of the arithmetic.
    pub arithmetic_cycles: f64,
    /// Cycles of loads and stores.
    pub load_cycles: f64,
    /// Cycles in which the level-2 cache gives what the first has not.
    pub l2_cycles: f64,
    /// Cycles in which the level-3 cache gives what the second has not.
    pub l3_cycles: f64,
    /// Bytes from beyond the level-1 cache.
    pub beyond_l1: f64,
    /// Bytes from beyond the level-2 cache.
    pub beyond_l2: f64,
    /// Bytes touched, in whole lines.
    pub touched: f64,
    /// Vectors in registers that are folded into, in the statement that has most.
    pub accumulators: f64,
    /// Vector registers, in the statement that needs most.
    pub registers: f64,
    /// Of these, as many as there are not.
    pub excess: f64,
    /// Work of statements whose operands have no registers.
    pub spilled: f64,
    /// The part of the lanes that is on.
    pub lanes_in_use: f64,
    /// The part of the work under conditions.
    pub conditional: f64,
    /// Operations in straight code.
    pub straight: f64,
    /// Bytes on the stack and in scratch memory.
    pub local_bytes: f64,
    /// Parts that threads take.
    pub chunks: f64,
    /// Turns of all serial loops.
    pub repeats: f64,
    /// Turns of the innermost loop.
    pub innermost_turns: f64,
    /// Bytes by which accesses move with the innermost loop.
    pub innermost_bytes: f64,
    /// Accesses that move with the innermost loop.
    pub streams: f64,
    /// The farthest that one of them moves, in bytes.
    pub greatest_stride: f64,
    /// Those whose steps are multiples of 4,096 bytes.
    pub aliasing: f64,
    /// Hints to load what is read later.
    pub hints: f64,
}

impl NestCost {
    /// What a nest does on a machine where its symbols have these values.
    #[must_use]
    pub fn of(nest: &LoopNest, machine: &Machine, at: &dyn Fn(SymbolId) -> i64) -> Self {
        let tree = walk::read(nest, at);
        let mut cost = Self::default();
        let mut lanes = 0.0;
        for leaf in &tree.leaves {
            lanes += cost.add(leaf, machine);
        }
        let work = cost.arithmetic.max(1.0);
        for sum in [
            &mut cost.conditional,
            &mut cost.innermost_turns,
            &mut cost.innermost_bytes,
            &mut cost.streams,
            &mut cost.aliasing,
        ] {
            *sum /= work;
        }
        cost.lanes_in_use /= f64::max(lanes, 1.0);
        cost.excess = (cost.registers - f64::from(machine.vector_registers)).max(0.0);
        cost.beyond_l1 = traffic::beyond(&tree, machine.l1_bytes as f64);
        cost.beyond_l2 = traffic::beyond(&tree, machine.l2_bytes as f64);
        cost.touched = tree.roots.iter().map(|node| traffic::touched(&tree, node, 0)).sum();
        cost.arithmetic_cycles = cost.arithmetic / machine.arithmetic_per_cycle;
        // A gathered lane is a load of its own, a scattered one a store.
        cost.load_cycles = (cost.loads + cost.stores + cost.gathered + cost.scattered) / machine.loads_per_cycle;
        cost.l2_cycles = cost.beyond_l1 / machine.l2_bytes_per_cycle;
        cost.l3_cycles = cost.beyond_l2 / machine.l3_bytes_per_cycle;
        (cost.local_bytes, cost.chunks, cost.repeats) = (tree.local_bytes, tree.chunks, tree.repeats);
        cost
    }

    /// Cycles of each thing that a core does at the same time as the others.
    #[must_use]
    pub fn parts(&self) -> [f64; 5] {
        [self.arithmetic_cycles, self.load_cycles, self.chain_cycles, self.l2_cycles, self.l3_cycles]
    }

    /// Cycles of the whole nest.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        self.parts().iter().copied().fold(0.0, f64::max)
    }

    /// Adds what a leaf does; gives its lanes, weighted by its arithmetic.
    fn add(&mut self, leaf: &Leaf, machine: &Machine) -> f64 {
        let lanes = leaf.loops.iter().rev().find_map(|l| match l.kind {
            Turns::Lanes(lanes) if lanes > 1 => Some((l.turns, f64::from(lanes))),
            _ => None,
        });
        let widest = leaf.accesses.iter().map(|access| access.elem_bytes).fold(1.0, f64::max);
        // A vector wider than a register is several.
        let vectors =
            lanes.map_or(1.0, |(_, lanes)| (lanes * widest / f64::from(machine.vector_bytes)).ceil().max(1.0));
        let turns = |kind: Turns| leaf.loops.iter().filter(|l| l.kind == kind).map(|l| l.turns).product::<f64>();
        let (serial, straight) = (turns(Turns::Serial) * leaf.share, turns(Turns::Straight));
        let times = serial * straight * vectors;
        if leaf.is_hint {
            self.hints += times;
            return 0.0;
        }
        // What only moves takes a little, too.
        let work = (leaf.cost.max(0.1)) * times;
        self.arithmetic += work;
        self.straight += straight * vectors;
        let (on, of) = lanes.map_or((1.0, machine.lanes(widest as usize) as f64), |(on, of)| (on, of));
        self.lanes_in_use += work * on;
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
        work * of
    }

    /// Loads, or stores, of a statement from memory.
    fn memory(&mut self, access: &Access, leaf: &Leaf, vectors: f64) {
        // What does not move with the inner loops is loaded before them.
        let moving = |n: &usize| leaf.loops[*n].kind == Turns::Serial && access.strides[*n].is_some();
        let deepest = (0..leaf.loops.len()).rev().find(moving).map_or(0, |n| n + 1);
        let depth = if access.is_write && !leaf.folds { leaf.loops.len() } else { deepest };
        let turns = leaf.loops[..depth].iter().filter(|l| l.kind == Turns::Serial).map(|l| l.turns);
        let serial = turns.product::<f64>() * leaf.share;
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
