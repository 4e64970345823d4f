//! Sums of products of halves or bytes, or of f32 numbers that may be rounded to TF32, as products of matrices: a block computes a tile of the result, a warp a part of it in
//! fragments of 16×8 points ([`infc_ir::schedule::Intrinsic::Mma16`]), and both factors come to shared memory by asynchronous
//! copies some steps of the sum ahead, where their elements lie in aligned pieces. Where four warps can multiply together
//! ([`infc_ir::schedule::Intrinsic::Wgmma16`]), they do if there are large tiles for all processors.
//!
//! Rows, columns and what is summed are one axis each, joined from those that the kernel has: a convolution is a product whose
//! left factor is read at quotients and remainders. Only its tile's copy computes these; what is in shared memory is a matrix.

use super::super::access::extent;
use super::fragments::{Form, Fragments, WARP};
use super::points::spread;
use super::product::{Product, find, join, product};
use super::rewrite::Rewritten;
use super::{GpuMachine, Setting, is_fit};
use crate::ErrorClass;
use infc_ir::entity::{ScalarId, StageId};
use infc_ir::kernel::Kernel;
use infc_ir::scalar::{BinaryOp, ScalarOp, UnaryOp};
use infc_ir::schedule::{Schedule, Scope, Step};
use infc_tensor::DType;

/// Points along each side of the result below which most of a fragment would be of no use.
const LEAST: i64 = 16;

/// Part of a result that a block computes.
#[derive(Clone, Copy, PartialEq)]
struct Block {
    /// Rows and columns.
    points: [i64; 2],
    /// Warps along both.
    warps: [i64; 2],
    form: Form,
}

const fn block(rows: i64, columns: i64, warp_rows: i64, warp_columns: i64) -> Block {
    Block { points: [rows, columns], warps: [warp_rows, warp_columns], form: Form::Matrices }
}

/// Four warps have 64 rows.
const fn groups(rows: i64, columns: i64) -> Block {
    Block { points: [rows, columns], warps: [rows / 16, 1], form: Form::Groups }
}

/// Parts of groups of warps, the largest first.
const GROUP_BLOCKS: [Block; 2] = [groups(128, 256), groups(128, 128)];
/// Others that a tuner may try.
const OTHER_GROUP_BLOCKS: [Block; 3] = [groups(64, 256), groups(64, 128), groups(64, 64)];
/// Parts of warps, the largest first. Rows of columns are lines of memory, and reach all banks of shared memory.
const BLOCKS: [Block; 5] =
    [block(128, 128, 2, 2), block(128, 64, 2, 2), block(64, 64, 2, 2), block(32, 64, 1, 2), block(16, 64, 1, 4)];
/// Others that a tuner may try.
const OTHER_BLOCKS: [Block; 9] = [
    block(128, 256, 2, 4),
    block(256, 128, 4, 2),
    block(128, 128, 2, 4),
    block(64, 128, 2, 2),
    block(128, 32, 4, 1),
    block(64, 64, 2, 1),
    block(64, 32, 2, 2),
    block(32, 32, 2, 2),
    block(16, 32, 1, 2),
];
/// Bytes along the sum between two barriers: of a line of memory, or half of one.
const STEPS: [i64; 2] = [128, 64];
/// The part of a sum that zeros behind it may add.
const MOST_WASTE: i64 = 8;
/// Tiles that are copied ahead, the best first: what is behind the last buffer is the first one again, which is told by a mask where
/// there is a power of two of them (docs/perf-log.md).
const AHEAD: [u32; 6] = [3, 1, 2, 0, 4, 5];
/// The same for groups of warps, which have a buffer more.
const AHEAD_OF_GROUPS: [u32; 4] = [2, 1, 3, 4];

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let Setting { machine, allowed, .. } = setting;
    let (rewritten, factor) = as_matrices(kernel, &machine)?;
    // In which order an instruction sums floats is its own affair.
    let can = machine.multiplies_matrices && machine.warp == WARP;
    if (factor.is_float() && allowed < ErrorClass::Reassociating) || !can {
        return None;
    }
    let parts = Parts::of(rewritten, setting)?;
    let fits = |schedule: &Schedule| is_fit(kernel, schedule, &machine, allowed);
    // No more than there are.
    let is_there = |ahead: &u32| *ahead <= 1 || i64::from(*ahead) < parts.turns;
    let all: &[u32] = if parts.sum.form == Form::Groups { &AHEAD_OF_GROUPS } else { &AHEAD };
    let all = all.iter().copied();
    let mut ways = all.clone().filter(is_there);
    let usual = ways.find(|&ahead| parts.schedule(ahead).is_some_and(|schedule| fits(&schedule)))?;
    parts.schedule(setting.pick("tiles ahead", [usual].into_iter().chain(all))?)
}

/// The kernel with one axis of rows, one of columns and one that is summed along, and the type of its factors, if there is an
/// instruction for these.
fn as_matrices(kernel: &Kernel, machine: &GpuMachine) -> Option<(Rewritten, DType)> {
    let mut rewritten = Rewritten::of(kernel);
    let mut found = product(kernel)?;
    if machine.rounds_to_tf32 && multiplies_f32(kernel, &found) {
        rewritten.round(found.sum, &found.factors)?;
        found = product(&rewritten.kernel)?;
    }
    let factor = factors(&rewritten.kernel, &found)?;
    found.beside.into_iter().try_for_each(|root| rewritten.single(root))?;
    join(&mut rewritten, |kernel, product| {
        vec![product.rows.clone(), product.columns.clone(), product.reduced(kernel)]
    })?;
    Some((rewritten, factor))
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

/// What the schedule is made of.
struct Parts {
    rewritten: Rewritten,
    root: StageId,
    /// Further roots.
    beside: Vec<String>,
    /// Axes of the root: rows and columns.
    root_axes: [usize; 2],
    sum: Fragments,
    /// Steps of the sum between barriers.
    turns: i64,
}

impl Parts {
    fn of(mut rewritten: Rewritten, setting: Setting<'_>) -> Option<Self> {
        let machine = &setting.machine;
        let kernel = &rewritten.kernel;
        let found = product(kernel)?;
        let ([row], [column]) = (&found.rows[..], &found.columns[..]) else { return None };
        let axes = [*row, *column, found.depth];
        let root_axes = [found.root_axis(*row), found.root_axis(*column)];
        let stage = &kernel.stages[found.sum];
        let [rows, columns, depth] = axes.map(|axis| extent(kernel, stage, axis));
        if rows < LEAST || columns < LEAST || depth < LEAST / 2 {
            return None;
        }
        let others = stage.value_axes().filter(|(n, _)| !axes.contains(n)).map(|(n, _)| extent(kernel, stage, n));
        let batch = others.fold(1, i64::saturating_mul);
        let tiles_of = |block: &Block| {
            let of = |points: i64, block: i64| points.saturating_add(block - 1) / block;
            of(rows, block.points[0]).saturating_mul(of(columns, block.points[1])).saturating_mul(batch)
        };
        let holds = |block: &Block| {
            let threads = block.warps.iter().product::<i64>() * machine.warp;
            block.points.iter().product::<i64>() / threads <= machine.fragment_registers
        };
        let in_groups = machine.multiplies_in_groups && {
            let Block { points, warps, form } = GROUP_BLOCKS[0];
            let mut tried = rewritten.clone();
            let sum = Fragments::of(&mut tried, found.sum, axes, &found.factors, [points, warps], (form, STEPS[0]));
            sum.is_some_and(|sum| sum.suits_groups(&tried.kernel))
        };
        let factor_bytes = kernel.stages[found.sum].body.dtype(found.factors[0]).size_bytes()? as i64;
        let padded = |bytes: i64| {
            let terms = bytes / factor_bytes;
            (depth.saturating_add(terms - 1) / terms).saturating_mul(terms)
        };
        // Zeros behind a short sum are multiplied, too.
        let [whole, part] = STEPS;
        let usual_step = if padded(whole) - padded(part) > padded(part) / MOST_WASTE { part } else { whole };
        let of_groups = |all: &'static [Block]| all.iter().copied().filter(move |_| in_groups);
        let by_default = of_groups(&GROUP_BLOCKS).filter(|_| usual_step == whole);
        let mut blocks = by_default.chain(BLOCKS).filter(holds);
        let busy = blocks.clone().find(|block| tiles_of(block) >= machine.busy_blocks);
        let usual = busy.or_else(|| blocks.next_back())?;
        let others = of_groups(&GROUP_BLOCKS).chain(of_groups(&OTHER_GROUP_BLOCKS)).chain(BLOCKS).chain(OTHER_BLOCKS);
        let block = setting.pick("block", [usual].into_iter().chain(others.filter(holds)))?;
        let beside = found.beside.iter().map(|&root| kernel.stages[root].name.clone()).collect();
        let root = kernel.stages[found.root].name.clone();
        // A group takes lines.
        let steps = if block.form == Form::Groups { [whole; 3] } else { [usual_step, whole, part] };
        let step = setting.pick("bytes of a step", steps)?;
        let turns = padded(step) / (step / factor_bytes);
        let (shape, form) = ([block.points, block.warps], (block.form, step));
        let sum = Fragments::of(&mut rewritten, found.sum, axes, &found.factors, shape, form)?;
        let root = find(&rewritten.kernel, &root)?;
        Some(Self { rewritten, root, beside, root_axes, sum, turns })
    }

    fn schedule(&self, ahead: u32) -> Option<Schedule> {
        let kernel = &self.rewritten.kernel;
        let mut plan = self.rewritten.plan();
        // What is put into shared memory is a stage that could be computed where it is read.
        plan.steps.retain(|step| !matches!(step, Step::Inline { stage } if self.sum.is_tile(stage)));
        let at = self.sum.result(&mut plan, self.root, self.root_axes)?;
        plan.compute_at(find(kernel, &self.sum.sum)?, self.root, &at, Scope::Register);
        self.sum.schedule(&mut plan, ahead)?;
        for name in &self.beside {
            spread(&mut plan, find(kernel, name)?, [WARP, self.sum.warps[0] * self.sum.warps[1]])?;
        }
        Some(self.rewritten.scheduled(plan.schedule()))
    }
}
