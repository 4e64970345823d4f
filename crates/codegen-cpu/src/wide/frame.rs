//! The stack frame of a function.

use super::alloc::CALLEE_SAVED;
use super::inst::{INT, Kind, MachFunction};
use super::lanes;
use regalloc2::{Allocation, Edit, Output, RegClass};

/// Alignment of a frame with vectors in it.
pub(super) const VECTOR_ALIGNMENT: usize = 64;

/// The stack below the return address: saved registers, then what spilled, then space for lane-by-lane work.
pub(super) struct Frame {
    pub(super) saved: Vec<usize>,
    /// Bytes for lane-by-lane work, at `rsp`.
    pub(super) lanes: usize,
    /// Where the number of the sizes is that tile registers have, if there are any; from `rsp`.
    pub(super) tiles: Option<i32>,
    /// Bytes in all, below the saved registers.
    pub(super) size: usize,
    /// Vectors are in it: `rsp` is aligned, and what it was stands at the end of the frame.
    pub(super) aligned: bool,
}

impl Frame {
    pub(super) fn of(allocation: &Output, function: &MachFunction) -> Self {
        let mut used = [false; 16];
        let mut vectors = false;
        let mut note = |alloc: Allocation| {
            if let Some(reg) = alloc.as_reg()
                && reg.class() == INT
            {
                used[reg.hw_enc()] = true;
            }
        };
        allocation.allocs.iter().copied().for_each(&mut note);
        for (_, Edit::Move { from, to }) in &allocation.edits {
            note(*from);
            note(*to);
            let spills = from.is_stack() || to.is_stack();
            vectors |= spills && [from, to].iter().any(|a| a.as_reg().is_some_and(|r| r.class() == RegClass::Float));
        }
        let insts = || function.blocks.iter().flat_map(|block| &block.insts);
        for inst in insts() {
            for reg in inst.clobbers {
                if reg.class() == INT {
                    used[reg.hw_enc()] = true;
                }
            }
        }
        let lanes = if insts().any(|inst| matches!(inst.kind, Kind::Lanes(_))) { lanes::STACK_BYTES } else { 0 };
        let aligned = vectors || lanes > 0;
        let has_tiles = insts().any(|inst| matches!(inst.kind, Kind::ConfigureTiles { .. }));
        let spilled = lanes + allocation.num_spillslots * 8;
        let tiles = has_tiles.then_some(spilled as i32);
        let content = spilled + if has_tiles { 8 } else { 0 } + if aligned { 8 } else { 0 };
        let size = content.next_multiple_of(if aligned { VECTOR_ALIGNMENT } else { 16 });
        let saved = CALLEE_SAVED.into_iter().filter(|&n| used[n]).collect();
        Self { saved, lanes, tiles, size, aligned }
    }

    pub(super) fn slot(&self, alloc: Allocation) -> Option<i32> {
        alloc.as_stack().map(|slot| (self.lanes + slot.index() * 8) as i32)
    }
}
