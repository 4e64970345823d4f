//! The memory planner: where each arena slot lies.
//!
//! Greedy by size: the largest block is placed first, each at the lowest gap free for its whole lifetime that fits it
//! best. It is what TensorFlow Lite's planner does (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
//! Net Inference", 2020); on networks of the usual shape it reaches the lower bound (the largest sum of live sizes) or
//! comes within a few percent. The result depends on the Program and the symbol values alone.

use crate::{ArtifactError, Program, Segments, Slot};
use serde::{Deserialize, Serialize};

/// Every slot begins at a multiple of this many bytes: a cache line, and the widest vector.
pub const ARENA_ALIGN: u64 = 64;

/// Offsets of all arena slots of a [`Program`], for one binding of its symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// How large the arena must be.
    pub arena_bytes: u64,
    /// For each slot of the Program where it begins; `None` for slots outside the arena.
    pub offsets: Vec<Option<u64>>,
}

/// Slots that share memory by aliasing, seen as one.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The slot that the others are aliases of.
    root: usize,
    size_bytes: u64,
    first_step: u32,
    last_step: u32,
}

impl Block {
    fn lives_with(&self, other: &Block) -> bool {
        self.first_step <= other.last_step && other.first_step <= self.last_step
    }
}

impl MemoryPlan {
    /// Plans the arena of `program` when symbol `i` has the value `symbols[i]`.
    ///
    /// # Errors
    /// [`ArtifactError::Size`] if a size has no value, [`ArtifactError::Malformed`] if an alias does not refer to an
    /// earlier arena slot, [`ArtifactError::TooLarge`] if the arena would not fit in an address space.
    pub fn new(program: &Program, symbols: &[i64]) -> Result<Self, ArtifactError> {
        let mut planner = Planner::default();
        planner.place(program, symbols, &|_| true)?;
        Ok(planner.plan)
    }

    /// Plans the slots of one segment, in an arena of its own; all others have no place in it.
    ///
    /// # Errors
    /// As [`MemoryPlan::new`].
    pub fn of_segment(
        program: &Program,
        symbols: &[i64],
        segments: &Segments,
        segment: usize,
    ) -> Result<Self, ArtifactError> {
        let mut planner = Planner::default();
        planner.segment(program, symbols, segments, segment)?;
        Ok(planner.plan)
    }

    /// The largest sum of sizes that live at one step: no plan can need less. For judging plans.
    ///
    /// # Errors
    /// As [`MemoryPlan::new`].
    pub fn lower_bound(program: &Program, symbols: &[i64]) -> Result<u64, ArtifactError> {
        let mut planner = Planner::default();
        planner.find_blocks(program, symbols, &|_| true)?;
        let blocks = &planner.blocks;
        let live_at = |step: u32| {
            let live = blocks.iter().filter(|b| b.first_step <= step && step <= b.last_step);
            live.fold(0u64, |sum, b| sum.saturating_add(b.size_bytes))
        };
        // The sum only grows where a block begins.
        Ok(blocks.iter().map(|b| live_at(b.first_step)).max().unwrap_or(0))
    }
}

/// Makes plans one after the other. After the first one of a Program it makes no heap call for another.
#[derive(Debug, Default)]
pub struct Planner {
    /// For each slot the root of its block.
    roots: Vec<Option<usize>>,
    block_of_root: Vec<Option<Block>>,
    blocks: Vec<Block>,
    /// Sorted by offset.
    placed: Vec<(u64, Block)>,
    offset_of_root: Vec<u64>,
    plan: MemoryPlan,
}

impl Planner {
    /// As [`MemoryPlan::of_segment`].
    ///
    /// # Errors
    /// As [`MemoryPlan::new`].
    pub fn segment(
        &mut self,
        program: &Program,
        symbols: &[i64],
        segments: &Segments,
        segment: usize,
    ) -> Result<&MemoryPlan, ArtifactError> {
        self.place(program, symbols, &|slot| segments.of_slot.get(slot) == Some(&segment))?;
        Ok(&self.plan)
    }

    fn place(
        &mut self,
        program: &Program,
        symbols: &[i64],
        is_meant: &dyn Fn(usize) -> bool,
    ) -> Result<(), ArtifactError> {
        self.find_blocks(program, symbols, is_meant)?;
        // Largest first; equal ones in the order they are needed, then in slot order, so that the result is one.
        self.blocks.sort_unstable_by_key(|b| (std::cmp::Reverse(b.size_bytes), b.first_step, b.root));
        self.placed.clear();
        self.offset_of_root.clear();
        self.offset_of_root.resize(program.slots.len(), 0);
        let mut arena_bytes = 0;
        for &block in &self.blocks {
            let offset = best_gap(&self.placed, &block);
            let end = offset.checked_add(block.size_bytes).filter(|&end| end <= i64::MAX as u64);
            let end = end.ok_or_else(|| ArtifactError::TooLarge {
                what: "bytes of the arena".into(),
                limit: i64::MAX as u64,
                found: u64::MAX,
            })?;
            arena_bytes = arena_bytes.max(end);
            self.offset_of_root[block.root] = offset;
            let at = self.placed.partition_point(|(o, b)| (*o, b.root) < (offset, block.root));
            self.placed.insert(at, (offset, block));
        }
        self.plan.arena_bytes = arena_bytes;
        self.plan.offsets.clear();
        self.plan.offsets.extend(self.roots.iter().map(|root| root.map(|root| self.offset_of_root[root])));
        Ok(())
    }

    /// Finds the blocks to place, and for each slot the root of its block. Sizes are rounded up to [`ARENA_ALIGN`],
    /// which keeps every offset aligned.
    fn find_blocks(
        &mut self,
        program: &Program,
        symbols: &[i64],
        is_meant: &dyn Fn(usize) -> bool,
    ) -> Result<(), ArtifactError> {
        let Self { roots, block_of_root, blocks, .. } = self;
        roots.clear();
        block_of_root.clear();
        block_of_root.resize(program.slots.len(), None);
        for (index, slot) in program.slots.iter().enumerate() {
            let (Slot::Arena(slot), true) = (slot, is_meant(index)) else {
                roots.push(None);
                continue;
            };
            let size = slot.size_bytes.eval_size(symbols).map_err(|source| ArtifactError::Size {
                what: format!("the size of slot {index}"),
                expr: slot.size_bytes.clone(),
                source,
            })?;
            let size_bytes = (size as u64).checked_next_multiple_of(ARENA_ALIGN).unwrap_or(u64::MAX);
            let root = match slot.alias {
                None => index,
                // Earlier slots have their root already, so chains of aliases need no search.
                Some(alias) => roots.get(alias as usize).copied().flatten().ok_or_else(|| {
                    ArtifactError::malformed(format!("the alias of slot {index}"), "an earlier arena slot", alias)
                })?,
            };
            roots.push(Some(root));
            let own = Block { root, size_bytes, first_step: slot.first_step, last_step: slot.last_step };
            let block = block_of_root[root].get_or_insert(own);
            block.size_bytes = block.size_bytes.max(size_bytes);
            block.first_step = block.first_step.min(slot.first_step);
            block.last_step = block.last_step.max(slot.last_step);
        }
        blocks.clear();
        blocks.extend(block_of_root.iter().flatten());
        Ok(())
    }
}

/// The start of the smallest gap between blocks alive with `block` that holds it; else the end of the last of them.
fn best_gap(placed: &[(u64, Block)], block: &Block) -> u64 {
    let mut best: Option<(u64, u64)> = None; // (gap size, offset)
    let mut end = 0u64;
    for &(offset, other) in placed.iter().filter(|(_, other)| other.lives_with(block)) {
        if offset > end {
            let gap = offset - end;
            if gap >= block.size_bytes && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, end));
            }
        }
        end = end.max(offset.saturating_add(other.size_bytes));
    }
    best.map_or(end, |(_, offset)| offset)
}
