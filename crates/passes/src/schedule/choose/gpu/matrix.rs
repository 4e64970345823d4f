//! Sums of products of halves or bytes, or of f32 numbers that may be rounded to TF32, as products of matrices: a block computes a tile of the result, a warp a part of it in
//! fragments of 16×8 points ([`infc_ir::schedule::Intrinsic::Mma16`]), and both factors come to shared memory by asynchronous
//! copies some steps of the sum ahead, where their elements lie in aligned pieces.
//!
//! Rows, columns and what is summed are one axis each, joined from those that the kernel has: a convolution is a product whose
//! left factor is read at quotients and remainders. Only its tile's copy computes these; what is in shared memory is a matrix.

use super::super::access::extent;
use super::points::{give_axis, spread};
use super::product::{Product, copies_pieces, find, joined, moves_by_one, product};
use super::{GpuMachine, Plan, is_fit, rewrite};
use crate::ErrorClass;
use infc_ir::entity::{ScalarId, StageId};
use infc_ir::kernel::Kernel;
use infc_ir::scalar::{BinaryOp, ScalarOp, UnaryOp};
use infc_ir::schedule::{GpuDim, Intrinsic, Schedule, Scope, Step};
use infc_tensor::DType;

/// Threads of a warp, among which fragments are spread.
const WARP: i64 = 32;
/// Rows and columns of a fragment of the sum.
const FRAGMENT: (i64, i64) = (16, 8);
/// Rows of a fragment whose points are of one thread lie so far apart, and its columns side by side.
const HALF: i64 = 8;
const PAIR: i64 = 2;
/// Bytes along the sum that one instruction takes of a factor, and a step between two barriers.
const SLICE_BYTES: i64 = 32;
const STEP_BYTES: i64 = 64;
/// Points along each side of the result below which most of a fragment would be of no use.
const LEAST: i64 = 16;
/// Bytes that a thread copies at once, the most first.
const PIECES: [i64; 3] = [16, 8, 4];

/// Products of matrices, which differ in how many elements their 32 bytes are.
const INTRINSICS: [Intrinsic; 3] = [Intrinsic::Mma8, Intrinsic::Mma16, Intrinsic::Mma32];

/// Rows and columns of a block, and warps along both: the largest first.
const BLOCKS: [(i64, i64, i64, i64); 5] =
    [(128, 128, 2, 4), (128, 64, 2, 2), (64, 64, 2, 2), (64, 32, 2, 2), (32, 32, 2, 2)];

pub(super) fn candidate(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass) -> Option<(Kernel, Schedule)> {
    let (kernel, factor) = as_matrices(kernel, machine)?;
    // In which order an instruction sums floats is its own affair.
    let can = machine.multiplies_matrices && machine.warp == WARP;
    if (factor.is_float() && allowed < ErrorClass::Reassociating) || !can {
        return None;
    }
    let parts = Parts::of(kernel, machine)?;
    // As much ahead as shared memory has room for, then step by step.
    let ahead = (1..=machine.ahead).rev().chain([0]);
    ahead
        .filter_map(|ahead| parts.schedule(ahead))
        .find(|schedule| is_fit(&parts.kernel, schedule, machine, allowed))
        .map(|schedule| (parts.kernel.clone(), schedule))
}

/// The kernel with one axis of rows, one of columns and one that is summed along, and the type of its factors, if there is an
/// instruction for these.
fn as_matrices(kernel: &Kernel, machine: &GpuMachine) -> Option<(Kernel, DType)> {
    let mut kernel = kernel.clone();
    let mut found = product(&kernel)?;
    if machine.rounds_to_tf32 && multiplies_f32(&kernel, &found) {
        rewrite::rounded(&mut kernel, found.sum, &found.factors);
        found = product(&kernel)?;
    }
    let factor = factors(&kernel, &found)?;
    found.beside.into_iter().for_each(|root| give_axis(&mut kernel, root));
    let sides = |kernel: &Kernel, product: &Product| {
        vec![product.rows.clone(), product.columns.clone(), product.reduced(kernel)]
    };
    Some((joined(&kernel, sides)?, factor))
}

/// Whether the sum is one of products of two f32 numbers as they are read.
fn multiplies_f32(kernel: &Kernel, product: &Product) -> bool {
    let stage = &kernel.stages[product.sum];
    let is_factor = |id: ScalarId| product.factors.contains(&id) && stage.body.dtype(id) == DType::F32;
    matches!(stage.body.ops[stage.results[0]], ScalarOp::Binary(BinaryOp::Mul, a, b) if is_factor(a) && is_factor(b))
}

/// The type of the left factor, if the sum is one of products of f16, of bf16 or of TF32 in f32, or of bytes in i32.
fn factors(kernel: &Kernel, product: &Product) -> Option<DType> {
    let stage = &kernel.stages[product.sum];
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = stage.body.ops[stage.results[0]] else { return None };
    let factor = |id| match &stage.body.ops[id] {
        ScalarOp::Cast(to, inner) if product.factors.contains(inner) => Some((*to, stage.body.dtype(*inner))),
        ScalarOp::Unary(UnaryOp::Tf32, inner) if product.factors.contains(inner) => Some((DType::F32, DType::F32)),
        _ => None,
    };
    let sums = stage.reducer.as_ref().is_some_and(|reducer| reducer.as_binary() == Some(BinaryOp::Add));
    let is_byte = |dtype| matches!(dtype, DType::I8 | DType::U8);
    match (factor(a)?, factor(b)?) {
        ((DType::F32, a @ (DType::F16 | DType::BF16 | DType::F32)), (DType::F32, b)) if sums && a == b => Some(a),
        ((DType::I32, a), (DType::I32, b)) if sums && is_byte(a) && is_byte(b) => Some(a),
        _ => None,
    }
}

/// A factor of the product: the stage that is its tile.
struct Tile {
    stage: String,
    /// Its axes, by their number in the sum.
    axes: Vec<usize>,
    /// Of these the one whose points are neighbours in memory, and how many of them are copied at once.
    along: usize,
    piece: i64,
    /// Whether an asynchronous copy can do that.
    copied: bool,
}

/// What the schedule is made of.
struct Parts {
    kernel: Kernel,
    root: StageId,
    sum: StageId,
    /// Further roots.
    beside: Vec<String>,
    /// Axes of the root: rows and columns.
    root_axes: [usize; 2],
    /// Axes of the sum: rows, columns and what is summed.
    axes: [usize; 3],
    tiles: Vec<Tile>,
    /// Points of a block along rows and columns.
    block: [i64; 2],
    warps: [i64; 2],
    /// Points of the sum between two barriers, and those of one instruction.
    step: i64,
    slice: i64,
}

impl Parts {
    fn of(mut kernel: Kernel, machine: &GpuMachine) -> Option<Self> {
        let found = product(&kernel)?;
        let ([row], [column]) = (&found.rows[..], &found.columns[..]) else { return None };
        let axes = [*row, *column, found.depth];
        let root_axes = [found.root_axis(*row), found.root_axis(*column)];
        let stage = &kernel.stages[found.sum];
        let [rows, columns, depth] = axes.map(|axis| extent(&kernel, stage, axis));
        let factor = stage.body.dtype(found.factors[0]).size_bytes()? as i64;
        if rows < LEAST || columns < LEAST || depth < LEAST / 2 {
            return None;
        }
        let others = stage.value_axes().filter(|(n, _)| !axes.contains(n)).map(|(n, _)| extent(&kernel, stage, n));
        let batch: i64 = others.product();
        let tiles_of = |block: &(i64, i64, i64, i64)| {
            let of = |points: i64, block: i64| (points + block - 1) / block;
            of(rows, block.0).saturating_mul(of(columns, block.1)).saturating_mul(batch)
        };
        let holds = |(rows, columns, warp_rows, warp_columns): &(i64, i64, i64, i64)| {
            rows * columns / (warp_rows * warp_columns * machine.warp) <= machine.fragment_registers
        };
        let mut blocks = BLOCKS.iter().filter(|block| holds(block));
        let busy = blocks.clone().find(|block| tiles_of(block) >= machine.busy_blocks);
        let &(block_rows, block_columns, warp_rows, warp_columns) = busy.or_else(|| blocks.next_back())?;
        let slice = SLICE_BYTES / factor;
        let step = if depth <= slice { slice } else { STEP_BYTES / factor };

        let beside = found.beside.iter().map(|&root| kernel.stages[root].name.clone()).collect();
        let names = [kernel.stages[found.root].name.clone(), stage.name.clone()];
        if !rewrite::padded(&mut kernel, found.sum, found.depth, step) {
            return None;
        }
        let mut tiles = Vec::new();
        for load in found.factors {
            let id = find(&kernel, &names[1])?;
            let near = moves_by_one(&kernel, id, load);
            let own = rewrite::load_apart(&mut kernel, id, load);
            // Only rows or columns, and what is summed, lie in the tile.
            let inside: Vec<usize> = own.iter().copied().filter(|axis| axes.contains(axis)).collect();
            // Bytes are loaded as pairs, which are neighbours along what is summed.
            let pairs = Some(found.depth).filter(|axis| factor == 1 && inside.contains(axis));
            let along = pairs.or(near.filter(|axis| inside.contains(axis))).or(inside.last().copied())?;
            let size = kernel.stages[id].dtypes()[0].size_bytes()? as i64;
            let position = own.iter().position(|&axis| axis == along)?;
            let copied = PIECES.into_iter().find(|bytes| copies_pieces(&kernel, id, position, bytes / size));
            let piece = copied.unwrap_or(PIECES[0]) / size;
            let stage = kernel.stages[id].name.clone();
            tiles.push(Tile { stage, axes: own, along, piece, copied: copied.is_some() });
        }
        let (root, sum) = (find(&kernel, &names[0])?, find(&kernel, &names[1])?);
        let (block, warps) = ([block_rows, block_columns], [warp_rows, warp_columns]);
        Some(Self { kernel, root, sum, beside, root_axes, axes, tiles, block, warps, step, slice })
    }

    fn schedule(&self, ahead: u32) -> Option<Schedule> {
        let mut plan = Plan::new(&self.kernel);
        // What is put into shared memory is a stage that could be computed where it is read.
        let is_tile = |name: &str| self.tiles.iter().any(|tile| tile.stage == name);
        plan.steps.retain(|step| !matches!(step, Step::Inline { stage } if is_tile(stage)));
        let root_stage = &self.kernel.stages[self.root];
        let mut blocks = Vec::new();
        for (axis, a) in root_stage.axes.iter().enumerate() {
            match self.root_axes.iter().position(|&own| own == axis) {
                None => blocks.push(a.name.clone()),
                Some(side) => {
                    let (outer, inner) = (format!("{}_b", a.name), format!("{}_in", a.name));
                    plan.split(self.root, &a.name, self.block[side], &outer, &inner);
                    blocks.push(outer);
                }
            }
        }
        let names = self.root_axes.map(|axis| root_stage.axes[axis].name.clone());
        let inside = [format!("{}_in", names[0]), format!("{}_in", names[1])];
        let order = self.spread(&mut plan, self.root, &names, &inside);
        plan.reorder(self.root, blocks.iter().cloned().chain(order.warps).chain(order.fragments).collect());
        blocks.iter().for_each(|name| plan.bind(self.root, name, GpuDim::BlockX));
        plan.steps.push(Step::Vectorize { stage: root_stage.name.clone(), axis: order.pair });

        plan.compute_at(self.sum, self.root, blocks.last()?, Scope::Register);
        let stage = &self.kernel.stages[self.sum];
        let names = self.axes.map(|axis| stage.axes[axis].name.clone());
        let [outer, step, slice, inner] = ["_o", "_step", "_s", "_i"].map(|suffix| format!("{}{suffix}", names[2]));
        plan.split(self.sum, &names[2], self.step, &outer, &step);
        plan.split(self.sum, &step, self.slice, &slice, &inner);
        let sides = [names[0].clone(), names[1].clone()];
        let order = self.spread(&mut plan, self.sum, &sides, &sides);
        let others = (0..stage.axes.len()).filter(|axis| !self.axes.contains(axis));
        let mut loops: Vec<String> = others.map(|axis| stage.axes[axis].name.clone()).collect();
        loops.push(outer.clone());
        loops.extend(order.warps);
        loops.push(slice.clone());
        loops.extend(order.fragments);
        loops.push(inner.clone());
        plan.reorder(self.sum, loops);
        let sum = stage.name.clone();
        let intrinsic = INTRINSICS.into_iter().find(|intrinsic| intrinsic.turns() == self.slice)?;
        for axis in [slice, order.pair] {
            plan.steps.push(Step::Unroll { stage: sum.clone(), axis });
        }
        plan.steps.push(Step::Tensorize { stage: sum, axis: inner, intrinsic });
        self.tiles.iter().for_each(|tile| self.tile(&mut plan, tile, &outer, ahead));
        for name in &self.beside {
            spread(&mut plan, find(&self.kernel, name)?, [WARP, self.warps[0] * self.warps[1]])?;
        }
        Some(plan.schedule())
    }

    /// Cuts rows and columns into those of warps, fragments, and what a thread has of one. The loops `from` are cut, and new
    /// ones named after `names`.
    fn spread(&self, plan: &mut Plan<'_>, id: StageId, names: &[String; 2], from: &[String; 2]) -> Spread {
        let of = |side: usize, suffix: &str| format!("{}_{suffix}", names[side]);
        for (side, fragment) in [FRAGMENT.0, FRAGMENT.1].into_iter().enumerate() {
            let within = if side == 0 { HALF } else { PAIR };
            plan.split(id, &from[side], self.block[side] / self.warps[side], &of(side, "w"), &of(side, "wi"));
            plan.split(id, &of(side, "wi"), fragment, &of(side, "f"), &of(side, "fi"));
            plan.split(id, &of(side, "fi"), within, &of(side, "p"), &of(side, "t"));
        }
        // A thread has rows eight apart, and pairs of columns.
        let (half, group, thread, pair) = (of(0, "p"), of(0, "t"), of(1, "p"), of(1, "t"));
        let warps = vec![of(0, "w"), of(1, "w")];
        let stage = plan.name(id);
        warps.iter().for_each(|axis| plan.bind(id, axis, GpuDim::ThreadY));
        [&group, &thread].into_iter().for_each(|axis| plan.bind(id, axis, GpuDim::ThreadX));
        for axis in [of(0, "f"), of(1, "f"), half.clone()] {
            plan.steps.push(Step::Unroll { stage: stage.clone(), axis });
        }
        let fragments = vec![of(0, "f"), of(1, "f"), half, group, thread, pair.clone()];
        Spread { warps, fragments, pair }
    }

    /// The tile of a factor: neighbours in memory by the threads of a warp, in pieces, and what is across by all.
    fn tile(&self, plan: &mut Plan<'_>, tile: &Tile, at: &str, ahead: u32) {
        let Some(id) = find(&self.kernel, &tile.stage) else { return };
        plan.compute_at(id, self.sum, at, Scope::Shared);
        let stage = &self.kernel.stages[self.sum];
        let name = |axis: usize| stage.axes[axis].name.clone();
        let size = |axis: usize| match self.axes.iter().position(|&own| own == axis) {
            Some(2) => self.step,
            Some(side) => self.block[side],
            None => 1,
        };
        let mut order: Vec<String> =
            tile.axes.iter().filter(|&&axis| size(axis) == 1).map(|&axis| name(axis)).collect();
        let (along, across) = (tile.along, tile.axes.iter().copied().find(|&a| a != tile.along && size(a) > 1));
        let piece = tile.piece.min(size(along));
        let pieces = size(along) / piece;
        let lanes = pieces.min(WARP);
        let own = name(along);
        let [pieces_loop, turn, thread, vector] = ["p", "u", "t", "v"].map(|suffix| format!("{own}_{suffix}"));
        plan.split(id, &own, piece, &pieces_loop, &vector);
        plan.split(id, &pieces_loop, lanes, &turn, &thread);
        order.push(turn);
        if let Some(across) = across {
            let own = name(across);
            let [turn, rest, warp, lane] = ["u", "i", "y", "x"].map(|suffix| format!("{own}_{suffix}"));
            let in_warp = (WARP / lanes).min(size(across));
            let warps = (self.warps[0] * self.warps[1]).min(size(across) / in_warp).max(1);
            plan.split(id, &own, in_warp * warps, &turn, &rest);
            plan.split(id, &rest, in_warp, &warp, &lane);
            order.extend([turn, warp.clone(), lane.clone()]);
            plan.bind(id, &warp, GpuDim::ThreadY);
            plan.bind(id, &lane, GpuDim::ThreadX);
        }
        order.extend([thread.clone(), vector.clone()]);
        plan.reorder(id, order);
        plan.bind(id, &thread, GpuDim::ThreadX);
        plan.steps.push(Step::Vectorize { stage: tile.stage.clone(), axis: vector });
        if ahead > 0 && self.tiles.iter().all(|tile| tile.copied) {
            plan.steps.push(Step::Stream { stage: tile.stage.clone(), ahead });
        }
    }
}

/// Loops of a stage whose points are spread over warps and threads.
struct Spread {
    warps: Vec<String>,
    /// From the fragments of a warp to the points of a thread.
    fragments: Vec<String>,
    /// The innermost of them.
    pair: String,
}
