//! Which sums can be dot products: several points of a reduction axis at a time.

use super::access::{Step, step_of};
use infc_ir::entity::{EntityId, ScalarId, VarId};
use infc_ir::index::{IndexExpr, Interval};
use infc_ir::kernel::{AxisKind, Kernel, Layout, Stage};
use infc_ir::scalar::{BinaryOp, BitShift, Load, ScalarOp, Source};
use infc_ir::schedule::Intrinsic;
use infc_tensor::DType;

/// How a stage sums in dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dot {
    /// The reduction axis of which several points are summed at once.
    pub(super) axis: usize,
    pub(super) intrinsic: Intrinsic,
}

/// A factor of the products: what is loaded, or bits of the bytes that are.
struct Factor {
    dtype: DType,
    /// Where the element lies in its operand, in the axes of the stage.
    flat: IndexExpr,
    /// By how much its byte is shifted, in the axes of the stage.
    shift: IndexExpr,
}

/// The dot products of a stage that sums products of an unsigned and a signed byte in i32, or of bfloat16 numbers in f32,
/// along an axis where both lie next to each other in groups. Bytes may be made of bits of others, all of a group of the same.
pub(super) fn of(kernel: &Kernel, stage: &Stage) -> Option<Dot> {
    if stage.reducer.as_ref()?.as_binary() != Some(BinaryOp::Add) {
        return None;
    }
    let &[sum] = &stage.dtypes()[..] else { return None };
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = stage.body.ops[*stage.results.first()?] else { return None };
    let factors = [factor(kernel, stage, a, sum)?, factor(kernel, stage, b, sum)?];
    let intrinsic = Intrinsic::of(sum, factors.each_ref().map(|factor| factor.dtype))?;
    let points = intrinsic.turns();
    // Lanes need groups side by side.
    let ranges = stage.ranges(&kernel.symbols);
    let flats = factors.each_ref().map(|factor| factor.flat.simplify(&ranges));
    let has_lanes = stage.value_axes().any(|(axis, _)| {
        let steps = flats.each_ref().map(|flat| step_of(kernel, stage, flat, axis, points));
        steps.contains(&Step::One) && !steps.contains(&Step::Far)
    });
    if !has_lanes {
        return None;
    }
    let along = |&axis: &usize| {
        let whole = stage.axes[axis].extent.as_const().is_some_and(|n| n % points == 0);
        let step = |e: &IndexExpr| step_of_groups(kernel, stage, e, axis, points);
        let lies_so = |factor: &Factor| step(&factor.flat) == Some(1) && step(&factor.shift) == Some(0);
        whole && factors.iter().all(lies_so)
    };
    let axis = (0..stage.axes.len()).rev().filter(|&n| stage.axes[n].kind == AxisKind::Reduce).find(along)?;
    Some(Dot { axis, intrinsic })
}

/// What is behind a conversion to the type of the sum, if it is loaded whatever the coordinates.
fn factor(kernel: &Kernel, stage: &Stage, id: ScalarId, sum: DType) -> Option<Factor> {
    let ScalarOp::Cast(to, inner) = stage.body.ops[id] else { return None };
    let ScalarOp::Load(load) = &stage.body.ops[inner] else { return None };
    if to != sum || !load.gather.is_empty() {
        return None;
    }
    if let Some(flat) = flat_of(kernel, load) {
        return Some(Factor { dtype: load.dtype, flat, shift: IndexExpr::constant(0) });
    }
    let Source::Stage(source, _) = load.source else { return None };
    bits(kernel, &kernel.stages[source], &load.index)
}

/// Where in memory an element lies that is loaded: of an operand, or of a stage of a recurrence, which is stored in any case. That
/// its last axis is innermost there is taken for granted: code that finds it otherwise multiplies one by one.
fn flat_of(kernel: &Kernel, load: &Load) -> Option<IndexExpr> {
    match load.source {
        Source::Operand(operand) => Some(kernel.operands[operand].layout.flat(&load.index)),
        Source::Stage(source, _) => {
            kernel.recurrence_of(source)?;
            Some(Layout::dense(&kernel.stages[source].value_shape()).flat(&load.index))
        }
        Source::Buffer(_) => None,
    }
}

/// The point of a stage that takes bits out of a byte.
fn bits(kernel: &Kernel, stage: &Stage, at: &[IndexExpr]) -> Option<Factor> {
    let &[result] = &stage.results[..] else { return None };
    let bits = stage.body.bits_of_byte(result).filter(|_| stage.reducer.is_none())?;
    let Source::Operand(operand) = bits.load.source else { return None };
    let through = |e: &IndexExpr| e.substitute_vars(at);
    let index: Vec<IndexExpr> = bits.load.index.iter().map(through).collect();
    let flat = kernel.operands[operand].layout.flat(&index);
    let shift = match bits.shift {
        BitShift::Number(n) => IndexExpr::constant(n.into()),
        BitShift::Index(e) => through(e),
    };
    Some(Factor { dtype: DType::U8, flat, shift })
}

/// True if every so many points of the axis from a multiple of them on are neighbours, whatever the other coordinates.
pub(super) fn in_groups(kernel: &Kernel, stage: &Stage, load: &Load, axis: usize, points: i64) -> bool {
    let whole = stage.axes[axis].extent.as_const().is_some_and(|n| n % points == 0);
    whole && step_in_groups(kernel, stage, load, axis, points) == Some(1)
}

/// Elements from each point of the axis to the next within every so many from a multiple of them on, whatever the other
/// coordinates, if that is a number.
pub(crate) fn step_in_groups(kernel: &Kernel, stage: &Stage, load: &Load, axis: usize, points: i64) -> Option<i64> {
    step_of_groups(kernel, stage, &flat_of(kernel, load)?, axis, points)
}

/// Whether groups of so many neighbours lie at the same distance from each other within every so many groups from a multiple of
/// them on.
pub(super) fn has_even_groups(
    kernel: &Kernel,
    stage: &Stage,
    flat: &IndexExpr,
    axis: usize,
    [groups, points]: [i64; 2],
) -> bool {
    let [tile, group, place] = [0, 1, 2].map(|n| VarId::from_index(stage.axes.len() + n));
    let mut ranges = stage.ranges(&kernel.symbols);
    ranges.set_var(tile, Interval { min: Some(0), max: None });
    ranges.set_var(group, Interval::new(0, groups - 1));
    ranges.set_var(place, Interval::new(0, points - 1));
    let within = IndexExpr::var(group).scale(points) + IndexExpr::var(place);
    let split = IndexExpr::var(tile).scale(groups * points) + within;
    let split = flat
        .substitute(&|atom| match atom {
            infc_ir::index::Atom::Var(v) if *v == VarId::from_index(axis) => Some(split.clone()),
            _ => None,
        })
        .simplify(&ranges);
    let Some((of_place, rest)) = split.linear_in(place) else { return false };
    of_place.is_const(1) && rest.linear_in(group).is_some_and(|(step, _)| !step.uses_var(tile))
}

/// As [`step_in_groups`], of an element's position.
pub(super) fn step_of_groups(
    kernel: &Kernel,
    stage: &Stage,
    flat: &IndexExpr,
    axis: usize,
    points: i64,
) -> Option<i64> {
    let var = VarId::from_index(axis);
    let (group, place) = (VarId::from_index(stage.axes.len()), VarId::from_index(stage.axes.len() + 1));
    let mut ranges = stage.ranges(&kernel.symbols);
    ranges.set_var(place, Interval::new(0, points - 1));
    ranges.set_var(group, Interval { min: Some(0), max: None });
    let split = flat
        .substitute(&|atom| match atom {
            infc_ir::index::Atom::Var(v) if *v == var => {
                Some(IndexExpr::var(group).scale(points) + IndexExpr::var(place))
            }
            _ => None,
        })
        .simplify(&ranges);
    split.linear_in(place)?.0.as_const()
}
