//! What a loop nest asks of a GPU.

use super::straight_moving;
use super::walk::{self, Access, Home, Leaf, Turns};
use crate::schedule::gpu::GpuMachine;
use infc_ir::entity::SymbolId;
use infc_ir::nest::LoopNest;
use infc_ir::schedule::GpuDim;

/// Bytes of memory that are transferred at once.
const SECTOR_BYTES: f64 = 32.0;
/// Points of a product of matrices that each thread of a warp has, of 16×8: loops go over them, one instruction has them all.
const FRAGMENT_POINTS: f64 = 4.0;
/// Banks of shared memory, of four bytes each.
const BANKS: f64 = 32.0;

/// Counts of all that a nest does, per thread where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuCost {
    /// Blocks of threads.
    pub blocks: f64,
    /// Threads of a block.
    pub threads: f64,
    /// Arithmetic.
    pub arithmetic: f64,
    /// Products of matrices of a warp.
    pub matrices: f64,
    /// Accesses of memory.
    pub memory: f64,
    /// Sectors that a warp touches in these.
    pub sectors: f64,
    /// Accesses of shared memory.
    pub shared: f64,
    /// Lanes that wait for each other in these.
    pub conflicts: f64,
    /// Copies that are not waited for.
    pub copies: f64,
    /// Bytes of these.
    pub copied: f64,
    /// Operations in straight code.
    pub straight: f64,
    /// Elements in registers.
    pub register_elems: f64,
    /// Bytes of a block in shared memory.
    pub shared_bytes: f64,
    /// Bytes in local memory.
    pub local_bytes: f64,
    /// Turns of all serial loops.
    pub repeats: f64,
    /// Meetings of the threads of a block.
    pub barriers: f64,
}

impl GpuCost {
    /// What a nest does on a GPU where its symbols have these values.
    #[must_use]
    pub fn of(nest: &LoopNest, machine: &GpuMachine, at: &dyn Fn(SymbolId) -> i64) -> Self {
        let tree = walk::read(nest, at);
        let mut extents = [1.0f64; 6];
        let bound = tree.leaves.iter().flat_map(|leaf| &leaf.loops).filter_map(|l| Some((bound(l.kind)?, l.turns)));
        for (dim, turns) in bound {
            extents[dim as usize] = extents[dim as usize].max(turns);
        }
        let mut cost = Self {
            blocks: extents[..3].iter().product(),
            threads: extents[3..].iter().product(),
            register_elems: tree.register_elems,
            shared_bytes: tree.shared_bytes,
            local_bytes: tree.local_bytes,
            repeats: tree.repeats,
            barriers: tree.barriers,
            ..Self::default()
        };
        for leaf in &tree.leaves {
            cost.add(leaf, machine.warp as f64);
        }
        cost
    }

    /// Bytes of all sectors that are touched.
    #[must_use]
    pub fn sector_bytes(&self, machine: &GpuMachine) -> f64 {
        self.sectors * SECTOR_BYTES * (self.blocks * self.threads / machine.warp as f64)
    }

    fn add(&mut self, leaf: &Leaf, warp: f64) {
        let turns =
            |kind: fn(Turns) -> bool| leaf.loops.iter().filter(|l| kind(l.kind)).map(|l| l.turns).product::<f64>();
        let serial = turns(|kind| kind == Turns::Serial) * leaf.share;
        let straight = turns(|kind| kind == Turns::Straight);
        let lanes = turns(|kind| matches!(kind, Turns::Lanes(_)));
        self.straight += straight;
        if leaf.loops.iter().any(|l| l.kind == Turns::Matrix) {
            self.matrices += serial * straight / FRAGMENT_POINTS;
        } else {
            self.arithmetic += leaf.cost.max(0.1) * serial * straight * lanes;
        }
        for access in &leaf.accesses {
            let times = serial * straight_moving(access, leaf);
            match access.home {
                Home::Register => {}
                Home::Shared => {
                    self.shared += times;
                    self.conflicts += times * conflicts(access, leaf, warp);
                }
                Home::Memory => {
                    self.memory += times;
                    self.sectors += times * sectors(access, leaf, warp, lanes);
                }
            }
            if leaf.copies > 0.0 && !access.is_write {
                self.copies += times;
                self.copied += times * leaf.copies * access.elem_bytes;
            }
        }
    }
}

fn bound(kind: Turns) -> Option<GpuDim> {
    match kind {
        Turns::Bound(dim) => Some(dim),
        _ => None,
    }
}

/// Elements between what neighbouring threads of a warp access, and how many threads lie along that; 0 where all access the same.
fn neighbours(access: &Access, leaf: &Leaf, warp: f64) -> (f64, f64) {
    let along = |dim: GpuDim| {
        let mut of_dim = leaf.loops.iter().zip(&access.strides).filter(|(l, _)| l.kind == Turns::Bound(dim));
        // Of several loops over threads the innermost has the neighbours.
        of_dim.next_back().map(|(l, stride)| (stride.map_or(0.0, f64::abs), l.turns.min(warp)))
    };
    along(GpuDim::ThreadX).unwrap_or((0.0, 1.0))
}

/// Sectors that an access of a warp touches.
fn sectors(access: &Access, leaf: &Leaf, warp: f64, lanes: f64) -> f64 {
    let (stride, along) = neighbours(access, leaf, warp);
    let own = (lanes * access.elem_bytes / SECTOR_BYTES).max(1.0);
    if stride == 0.0 {
        return own;
    }
    let span = (stride * access.elem_bytes * along / SECTOR_BYTES).ceil();
    let rows = (warp / along).max(1.0);
    (span.min(along * own) * rows).clamp(1.0, warp * own)
}

/// Threads of a warp that wait for each other at one bank.
fn conflicts(access: &Access, leaf: &Leaf, warp: f64) -> f64 {
    let (stride, along) = neighbours(access, leaf, warp);
    let words = stride * access.elem_bytes / 4.0;
    if words <= 1.0 {
        return 1.0;
    }
    // So many words further lies the same bank again.
    let mut step = words as u64 % BANKS as u64;
    let mut banks = BANKS as u64;
    while step != 0 {
        (banks, step) = (step, banks % step);
    }
    (banks as f64).min(along)
}
