//! What a kernel is that sums products of factors which are read again at other points: which axes are whose.

use super::super::access::{Access, Step as Movement, accesses, extent, reduction_points};
use super::follow::follow;
use super::points::contiguous;
use super::rewrite::Rewritten;
use super::{Plan, independent_roots};
use crate::formulate::cache::axes_of;
use crate::schedule::point::is_there;
use crate::schedule::stream::{in_pieces, same_in_piece};
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Interval};
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{Load, ScalarOp, Source};

/// Points along a side of the result, and along the sum, below which shared memory gains nothing.
pub(super) const LEAST: i64 = 8;

/// A sum of products, and the root that reads every point of it once.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) root: StageId,
    pub(super) sum: StageId,
    /// The axis along which neighbouring points of the root are neighbours in memory.
    pub(super) innermost: Option<usize>,
    /// Axes of the sum that only one of the factors moves along.
    pub(super) rows: Vec<usize>,
    /// Those that only the other does; the innermost axis is among them, if it is among either.
    pub(super) columns: Vec<usize>,
    /// The loads of the factors, the later one first.
    pub(super) factors: [ScalarId; 2],
    /// The longest reduced axis of the sum.
    pub(super) depth: usize,
    /// Further roots, which need nothing that is kept: the borders of an image.
    pub(super) beside: Vec<StageId>,
    /// Per value axis of the sum, its number and the root's axis that it follows.
    axes: Vec<(usize, usize)>,
}

impl Product {
    /// The axes of the sum that it is summed along.
    pub(super) fn reduced(&self, kernel: &Kernel) -> Vec<usize> {
        kernel.stages[self.sum].reduce_axes().map(|(n, _)| n).collect()
    }

    /// The root's axis that a value axis of the sum follows.
    pub(super) fn root_axis(&self, axis: usize) -> usize {
        self.axes.iter().find(|(own, _)| *own == axis).expect("a value axis").1
    }
}

/// The product that a kernel is, if it is one.
pub(super) fn product(kernel: &Kernel) -> Option<Product> {
    let roots = independent_roots(kernel)?;
    if kernel.stages.iter().any(|s| s.axes.iter().any(|a| a.kind == AxisKind::Sequential)) {
        return None;
    }
    let inlined = Plan::new(kernel).inlined;
    let reads: Vec<Vec<Access>> = kernel.stages.ids().map(|id| accesses(kernel, id, &inlined)).collect();
    // What is kept for a root.
    let kept_for = |root: StageId| -> bool {
        let follows = follow(kernel, &inlined, &reads, root);
        kernel.stages.ids().any(|id| id != root && !inlined[id.index()] && follows[id.index()].is_some())
    };
    let (of_product, beside): (Vec<StageId>, Vec<StageId>) = roots.into_iter().partition(|&root| kept_for(root));
    let [root] = of_product[..] else { return None };
    let follows = follow(kernel, &inlined, &reads, root);
    // The only stored stage, with a point per point of the root.
    let mut stored =
        kernel.stages.ids().filter(|&id| id != root && !inlined[id.index()] && follows[id.index()].is_some());
    let sum = stored.next().filter(|_| stored.next().is_none())?;
    let to_root: Vec<usize> = follows[sum.index()].clone()?.into_iter().collect::<Option<_>>()?;
    let stage = &kernel.stages[sum];
    let root_stage = &kernel.stages[root];
    let covers = (0..root_stage.axes.len()).all(|a| to_root.contains(&a) || root_stage.axes[a].extent.is_const(1));
    if stage.reducer.is_none() || !covers || stage.results.len() != 1 {
        return None;
    }
    let axes: Vec<(usize, usize)> = stage.value_axes().map(|(n, _)| n).zip(to_root).collect();
    let root_axis = |axis: usize| axes.iter().find(|(own, _)| *own == axis).expect("a value axis").1;
    let innermost = contiguous(kernel, root);
    let (rows, columns, factors) = sides(kernel, stage, &|axis| innermost == Some(root_axis(axis)))?;
    let (depth, _) = stage.reduce_axes().max_by_key(|(a, _)| extent(kernel, stage, *a))?;
    (reduction_points(kernel, stage) >= LEAST as f64).then_some(Product {
        root,
        sum,
        innermost,
        rows,
        columns,
        factors,
        depth,
        beside,
        axes,
    })
}

/// Makes every list of axes of the sum that `sides` gives one axis, each list from the outermost axis on; `None` if the kernel is
/// no product, or some of them cannot be joined.
pub(super) fn join(rewritten: &mut Rewritten, sides: impl Fn(&Kernel, &Product) -> Vec<Vec<usize>>) -> Option<()> {
    loop {
        let product = product(&rewritten.kernel)?;
        let sides = sides(&rewritten.kernel, &product);
        let Some([.., outer, inner]) = sides.iter().find(|axes| axes.len() > 1).map(|axes| &axes[..]) else {
            return Some(());
        };
        rewritten.join(product.sum, *outer, *inner)?;
    }
}

/// A stage by its name.
pub(super) fn find(kernel: &Kernel, name: &str) -> Option<StageId> {
    kernel.stages.iter_enumerated().find(|(_, s)| s.name == name).map(|(id, _)| id)
}

/// The value axes that only one of two loads moves along, and those that only the other does, with the loads, the later
/// one first. The axis that `is_innermost` is among the second.
fn sides(
    kernel: &Kernel,
    stage: &Stage,
    is_innermost: &dyn Fn(usize) -> bool,
) -> Option<(Vec<usize>, Vec<usize>, [ScalarId; 2])> {
    let loads: Vec<(ScalarId, Vec<usize>)> = stage
        .body
        .ops
        .iter_enumerated()
        .filter_map(|(id, op)| match op {
            ScalarOp::Load(load) if load.gather.is_empty() => Some((id, axes_of(stage, load))),
            _ => None,
        })
        .collect();
    let values: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
    let points = |axes: &[usize]| axes.iter().map(|&a| extent(kernel, stage, a)).fold(1, i64::saturating_mul);
    for (n, (a, of_a)) in loads.iter().enumerate() {
        for (b, of_b) in &loads[n + 1..] {
            let alone = |mine: &[usize], other: &[usize]| -> Vec<usize> {
                values.iter().copied().filter(|v| mine.contains(v) && !other.contains(v)).collect()
            };
            let (rows, columns) = (alone(of_a, of_b), alone(of_b, of_a));
            if points(&rows) < LEAST || points(&columns) < LEAST {
                continue;
            }
            let swap = rows.iter().any(|&axis| is_innermost(axis));
            let (rows, columns) = if swap { (columns, rows) } else { (rows, columns) };
            return Some((rows, columns, [*b, *a]));
        }
    }
    None
}

/// The axis of a stage along which a load moves to neighbours in memory.
pub(super) fn moves_by_one(kernel: &Kernel, id: StageId, load: ScalarId) -> Option<usize> {
    let inlined = Plan::new(kernel).inlined;
    let ScalarOp::Load(what) = &kernel.stages[id].body.ops[load] else { return None };
    // A load through stages that are computed where they are read moves as what they read does.
    let direct = accesses(kernel, id, &inlined);
    let loads = kernel.stages[id].body.ops.iter().filter(|op| matches!(op, ScalarOp::Load(_)));
    let position = loads.clone().position(|op| matches!(op, ScalarOp::Load(l) if l == what));
    let access = position.filter(|_| direct.len() == loads.count()).and_then(|n| direct.get(n))?;
    access.steps.iter().position(|s| *s == Movement::One)
}

/// Whether a stage only copies from an operand, in aligned pieces of so many neighbours along an axis of it, of which all
/// exist or none.
pub(super) fn copies_pieces(kernel: &Kernel, id: StageId, axis: usize, points: i64) -> bool {
    let stage = &kernel.stages[id];
    let ScalarOp::Load(load) = &stage.body.ops[stage.results[0]] else { return false };
    load.otherwise.bits == 0 && reads_pieces(kernel, id, load, axis, points)
}

/// Whether a load of a stage reads aligned pieces of so many neighbours of an operand along an axis, of which all exist or none.
pub(super) fn reads_pieces(kernel: &Kernel, id: StageId, load: &Load, axis: usize, points: i64) -> bool {
    // The last piece of the axis ends with it.
    kernel.stages[id].axes[axis].extent.is_multiple_of(points) && lies_in_pieces(kernel, id, load, axis, points)
}

/// The same of an axis of which `points` divide `tile`, whose last tile may go beyond its end: the operand has elements there.
pub(super) fn has_pieces(kernel: &Kernel, id: StageId, load: &Load, axis: usize, [points, tile]: [i64; 2]) -> bool {
    let stage = &kernel.stages[id];
    let Source::Operand(operand) = load.source else { return false };
    let Some(len) = stage.axes[axis].extent.as_const() else { return reads_pieces(kernel, id, load, axis, points) };
    let mut ranges = stage.ranges(&kernel.symbols);
    let last = len.checked_add(tile - 1).map(|end| end / tile * tile - 1);
    ranges.set_var(VarId::from_index(axis), Interval { min: Some(0), max: last });
    let is_there = is_there(&kernel.operands[operand], load, &ranges);
    (is_there || len % points == 0) && lies_in_pieces(kernel, id, load, axis, points)
}

/// Whether a load reads aligned pieces of so many neighbours of an operand along an axis, of which all exist or none, as far as the
/// axis goes.
fn lies_in_pieces(kernel: &Kernel, id: StageId, load: &Load, axis: usize, points: i64) -> bool {
    let stage = &kernel.stages[id];
    let Source::Operand(operand) = load.source else { return false };
    if points < 2 || !load.gather.is_empty() {
        return false;
    }
    // The axis as pieces and points of one.
    let lane = VarId::from_index(stage.axes.len());
    let mut ranges = stage.ranges(&kernel.symbols);
    ranges.set_var(lane, Interval { min: Some(0), max: Some(points - 1) });
    let own = VarId::from_index(axis);
    let cut = |e: &IndexExpr| {
        let mut place: Vec<IndexExpr> = (0..stage.axes.len()).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
        place[axis] = IndexExpr::var(own).scale(points) + IndexExpr::var(lane);
        e.substitute_vars(&place).simplify(&ranges)
    };
    let flat = kernel.operands[operand].layout.flat(&load.index);
    in_pieces(&cut(&flat), lane, points).is_some()
        && load.valid.iter().all(|bound| same_in_piece(&bound.map(|e| cut(e)), lane, points, &ranges).is_some())
}
