//! What a cost model is told of a schedule for a GPU: how its work is spread over blocks and threads, what a thread does, and what
//! warps ask of memory.

use super::walk::{self, Access, Home, Leaf, Turns};
use super::{log, straight_moving};
use infc_ir::nest::LoopNest;
use infc_ir::schedule::GpuDim;
use infc_passes::schedule::gpu::GpuMachine;

/// What the features are called, in order.
pub const GPU_FEATURE_NAMES: [&str; 20] = [
    "blocks",
    "threads of a block",
    "waves",
    "arithmetic of a thread",
    "arithmetic of all",
    "matrix instructions of a warp",
    "matrix instructions of all",
    "memory accesses of a thread",
    "sectors of a warp's access",
    "bytes of all sectors",
    "shared accesses of a thread",
    "lanes that meet in a bank",
    "copies of a thread",
    "bytes of a copy",
    "register elements",
    "shared bytes",
    "local bytes",
    "turns of a thread",
    "straight-line operations",
    "barriers",
];

/// Bytes of memory that are transferred at once.
const SECTOR_BYTES: f64 = 32.0;
/// Points of a product of matrices that each thread of a warp has, of 16×8: loops go over them, one instruction has them all.
const FRAGMENT_POINTS: f64 = 4.0;
/// Banks of shared memory, of four bytes each.
const BANKS: f64 = 32.0;

/// The features of a nest on a GPU; counts as logarithms, since ratios are what matters.
#[must_use]
pub fn gpu_features(nest: &LoopNest, machine: &GpuMachine) -> Vec<f64> {
    let tree = walk::read(nest);
    let mut extents = [1.0f64; 6];
    for (dim, turns) in tree.leaves.iter().flat_map(|leaf| &leaf.loops).filter_map(|l| Some((bound(l.kind)?, l.turns)))
    {
        extents[dim as usize] = extents[dim as usize].max(turns);
    }
    let blocks: f64 = extents[..3].iter().product();
    let threads: f64 = extents[3..].iter().product();
    let mut counts = Counts::default();
    for leaf in &tree.leaves {
        counts.add(leaf, machine.warp as f64);
    }
    let all = blocks * threads;
    let warps = all / machine.warp as f64;
    vec![
        log(blocks),
        log(threads),
        log(all / machine.busy_threads as f64),
        log(counts.arithmetic),
        log(counts.arithmetic * all),
        log(counts.matrices),
        log(counts.matrices * warps),
        log(counts.memory),
        log(counts.sectors / counts.memory.max(1.0)),
        log(counts.sectors * SECTOR_BYTES * warps),
        log(counts.shared),
        log(counts.conflicts / counts.shared.max(1.0)),
        log(counts.copies),
        log(counts.copied / counts.copies.max(1.0)),
        log(tree.register_elems),
        log(tree.shared_bytes),
        log(tree.local_bytes),
        log(tree.repeats),
        log(counts.straight),
        log(tree.barriers),
    ]
}

fn bound(kind: Turns) -> Option<GpuDim> {
    match kind {
        Turns::Bound(dim) => Some(dim),
        _ => None,
    }
}

/// Counts of all leaves together, per thread or warp.
#[derive(Default)]
struct Counts {
    arithmetic: f64,
    matrices: f64,
    memory: f64,
    sectors: f64,
    shared: f64,
    conflicts: f64,
    copies: f64,
    copied: f64,
    straight: f64,
}

impl Counts {
    fn add(&mut self, leaf: &Leaf, warp: f64) {
        let turns =
            |kind: fn(Turns) -> bool| leaf.loops.iter().filter(|l| kind(l.kind)).map(|l| l.turns).product::<f64>();
        let serial = turns(|kind| kind == Turns::Serial);
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
