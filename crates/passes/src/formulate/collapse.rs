//! Joins axes that all accesses walk through together.
//!
//! Where every load and store moves by `stride·E` along one axis and by `stride` along another of extent `E`, both are
//! one longer axis: a 1×1 convolution over an image becomes a matrix product over its pixels, an element-wise kernel a
//! single loop. The rewrite puts `x div E` and `x mod E` for the two coordinates, and the simplifier joins them again
//! wherever they meet. That holds for extents that only the run tells, too: where a batch and a sequence lie behind each
//! other, rows are tiled along both. Error class: exact.

use crate::schedule::point::outside_halo;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, Dim, IndexExpr, Ranges};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Reducer, Stage};
use infc_ir::scalar::{Load, ScalarOp, Source};

/// Lanes of a vector that is worth using: multiples of it leave nothing over.
const SHORT_VECTOR: i64 = 8;

/// Joins as many axes as possible.
#[must_use]
pub fn run(mut kernel: Kernel) -> Kernel {
    // Each join removes an axis, so this ends.
    while let Some(joined) = join_some(&kernel) {
        kernel = joined;
    }
    kernel
}

/// The kernel with two axes of a stage, and of all stages in step with it, made one, however accesses move along them:
/// what does not walk through both as through one axis gets quotients and remainders. `None` if some stage reads others
/// in a way that mixes the two with more than each other.
pub(crate) fn join(kernel: &Kernel, stage: StageId, outer: usize, inner: usize, name: &str) -> Option<Kernel> {
    let pairs = spread(kernel, stage, outer, inner)?;
    possible(kernel, &pairs).then(|| rewrite(kernel, &pairs, Some(name)))
}

/// The two axes of each stage that are to be joined, if the stage has them.
type Pairs = Vec<Option<(usize, usize)>>;

fn join_some(kernel: &Kernel) -> Option<Kernel> {
    // Known inner extents first: vectors lie along them, and what they leave over is known then.
    [true, false].into_iter().find_map(|known| {
        kernel.stages.ids().rev().find_map(|id| {
            let axes = &kernel.stages[id].axes;
            let inner_axes = || (0..axes.len()).filter(|&a| axes[a].extent.as_const().is_some() == known);
            let pairs = (0..axes.len()).flat_map(|outer| inner_axes().map(move |inner| (outer, inner)));
            pairs.filter(|(outer, inner)| outer != inner).find_map(|(outer, inner)| {
                let pairs = spread(kernel, id, outer, inner)?;
                allowed(kernel, &pairs).then(|| rewrite(kernel, &pairs, None))
            })
        })
    })
}

/// Follows a pair of axes from one stage to all stages that read it or are read by it.
fn spread(kernel: &Kernel, start: StageId, outer: usize, inner: usize) -> Option<Pairs> {
    let mut pairs: Pairs = vec![None; kernel.stages.len()];
    pairs[start.index()] = Some((outer, inner));
    let mut changed = true;
    while changed {
        changed = false;
        for (reader, stage) in kernel.stages.iter_enumerated() {
            for op in stage.body.ops.iter() {
                let ScalarOp::Load(load) = op else { continue };
                let Source::Stage(source, _) = load.source else { continue };
                let value: Vec<usize> = kernel.stages[source].value_axes().map(|(n, _)| n).collect();
                let plain = |p: usize| load.index.get(p).and_then(IndexExpr::as_var).map(EntityId::index);
                if let Some((a, b)) = pairs[source.index()] {
                    // Reduction axes of the source do not reach its readers.
                    let (Some(pa), Some(pb)) = (value.iter().position(|&v| v == a), value.iter().position(|&v| v == b))
                    else {
                        continue;
                    };
                    // Of a diagonal both are one axis of the reader's, which cannot be joined with itself.
                    let found = (plain(pa)?, plain(pb)?);
                    if found.0 == found.1 {
                        return None;
                    }
                    changed |= merge(&mut pairs[reader.index()], found)?;
                } else if let Some((a, b)) = pairs[reader.index()] {
                    let at = |axis: usize| (0..value.len()).find(|&p| plain(p) == Some(axis));
                    match (at(a), at(b)) {
                        (Some(pa), Some(pb)) => {
                            changed |= merge(&mut pairs[source.index()], (value[pa], value[pb]))?;
                        }
                        (None, None) if !load.index.iter().any(|e| uses(e, a) || uses(e, b)) => {}
                        _ => return None,
                    }
                }
            }
        }
    }
    Some(pairs)
}

fn merge(place: &mut Option<(usize, usize)>, found: (usize, usize)) -> Option<bool> {
    match *place {
        None => {
            *place = Some(found);
            Some(true)
        }
        Some(there) => (there == found).then_some(false),
    }
}

fn uses(e: &IndexExpr, axis: usize) -> bool {
    e.uses_var(VarId::from_index(axis))
}

/// Whether the pair is of one kind in every stage, and stages that read each other do so at the same place of it.
fn possible(kernel: &Kernel, pairs: &Pairs) -> bool {
    let ranges = Ranges::of_symbols(&kernel.symbols);
    kernel.stages.iter_enumerated().all(|(id, stage)| {
        let Some((a, b)) = pairs[id.index()] else { return true };
        let (outer, inner) = (&stage.axes[a], &stage.axes[b]);
        if outer.kind != inner.kind || outer.kind == AxisKind::Sequential {
            return false;
        }
        // There is no point to be at, whatever the symbols are. Otherwise extents are taken not to be negative, as two that are
        // would make a positive product: a run is refused where they would be (`require_at_least` of the import).
        if ranges.interval(&inner.extent).max.is_some_and(|most| most < 1) {
            return false;
        }
        if !folds_in_order(stage, a, b) {
            return false;
        }
        stage.body.ops.iter().all(|op| match op {
            // Checked when the pair was spread.
            ScalarOp::Load(Load { source: Source::Stage(source, _), .. }) if *source == id => false,
            ScalarOp::Load(load) => match load.source {
                Source::Stage(source, _) => pair_read_plainly(load, pairs, source, kernel, a, b),
                Source::Operand(_) => true,
                Source::Buffer(_) => false,
            },
            _ => true,
        })
    })
}

/// Whether a reduction along both axes as one folds in the order that it has: the inner axis comes next to the outer one,
/// or the order does not show.
fn folds_in_order(stage: &Stage, outer: usize, inner: usize) -> bool {
    let place = |axis: usize| stage.reduce_axes().position(|(n, _)| n == axis);
    let (Some(outer), Some(inner)) = (place(outer), place(inner)) else { return true };
    inner == outer + 1 || stage.reducer.as_ref().is_none_or(Reducer::is_associative)
}

/// Whether every access of every stage moves through the pair as through one axis.
fn allowed(kernel: &Kernel, pairs: &Pairs) -> bool {
    possible(kernel, pairs)
        && kernel.stages.iter_enumerated().all(|(id, stage)| {
            let Some((a, b)) = pairs[id.index()] else { return true };
            let ranges = stage.ranges(&kernel.symbols);
            // Of axes that were joined before, quotients and remainders meet again. Known extents are left apart then: loops over
            // three axes of a border are short, and schedules that were recorded name them.
            let is_known = [a, b].into_iter().all(|axis| stage.axes[axis].extent.as_const().is_some());
            let together = |flat: &IndexExpr| {
                let flat = if is_known { flat.clone() } else { flat.simplify(&ranges) };
                moves_together(&flat, a, b, &stage.axes[b].extent)
            };
            let is_dot = sums_neighbours(kernel, stage, b);
            let loads = stage.body.ops.iter().all(|op| match op {
                ScalarOp::Index(e) => !uses(e, a) && !uses(e, b),
                ScalarOp::InBounds(bounds) => bounds.iter().all(|x| !uses(&x.expr, a) && !uses(&x.expr, b)),
                ScalarOp::Load(load) => {
                    let tested = match load.source {
                        // Zeros around an operand stand for its conditions.
                        Source::Operand(operand) if is_dot => outside_halo(&kernel.operands[operand], load, &ranges),
                        _ => load.valid.clone(),
                    };
                    let free = tested.iter().all(|x| !uses(&x.expr, a) && !uses(&x.expr, b));
                    free && match load.source {
                        Source::Operand(operand) => together(&kernel.operands[operand].layout.flat(&load.index)),
                        Source::Stage(..) | Source::Buffer(_) => true,
                    }
                }
                _ => true,
            });
            let stores = kernel
                .outputs
                .iter()
                .filter(|o| o.stage == id)
                .all(|o| together(&kernel.operands[o.operand].layout.flat(&o.index)));
            loads && stores
        })
}

/// Whether a sum's operands all have the points of an axis next to each other, so that its lanes will lie along it, and
/// some would be left over that a longer axis has fewer of.
fn sums_neighbours(kernel: &Kernel, stage: &Stage, axis: usize) -> bool {
    let mut loads = stage.body.ops.iter().filter_map(|op| match op {
        ScalarOp::Load(load) => Some(load),
        _ => None,
    });
    let steps_one = |flat: IndexExpr| flat.linear_in(VarId::from_index(axis)).is_some_and(|(step, _)| step.is_const(1));
    stage.axes[axis].kind == AxisKind::Reduce
        && stage.axes[axis].extent.as_const().is_some_and(|len| len % SHORT_VECTOR != 0)
        && loads.all(|load| match load.source {
            Source::Operand(operand) => steps_one(kernel.operands[operand].layout.flat(&load.index)),
            Source::Stage(..) | Source::Buffer(_) => false,
        })
}

/// Reads of other stages use either both axes plainly or neither.
fn pair_read_plainly(load: &Load, pairs: &Pairs, source: StageId, kernel: &Kernel, a: usize, b: usize) -> bool {
    let users: Vec<&IndexExpr> = load.index.iter().filter(|e| uses(e, a) || uses(e, b)).collect();
    match pairs[source.index()] {
        Some((x, y)) => {
            let value: Vec<usize> = kernel.stages[source].value_axes().map(|(n, _)| n).collect();
            value.contains(&x) && value.contains(&y) && users.len() == 2 && users.iter().all(|e| e.as_var().is_some())
        }
        None => users.is_empty(),
    }
}

/// `flat = c·(E·a + b) + rest`, with `c` and `rest` free of both.
fn moves_together(flat: &IndexExpr, a: usize, b: usize, extent: &Dim) -> bool {
    let (Some((ca, rest)), Some((cb, _))) =
        (flat.linear_in(VarId::from_index(a)), flat.linear_in(VarId::from_index(b)))
    else {
        return false;
    };
    let Some((_, rest)) = rest.linear_in(VarId::from_index(b)) else { return false };
    let free = |e: &IndexExpr| !uses(e, a) && !uses(e, b);
    free(&ca) && free(&cb) && free(&rest) && ca == cb * extent.clone()
}

/// Puts one axis in the place of the inner one and takes the outer one away. Without a name, both names make one.
fn rewrite(kernel: &Kernel, pairs: &Pairs, name: Option<&str>) -> Kernel {
    let mut new = kernel.clone();
    for (id, stage) in kernel.stages.iter_enumerated() {
        let renumber: Option<Vec<IndexExpr>> = pairs[id.index()].map(|(a, b)| {
            let extent = &stage.axes[b].extent;
            let at = |axis: usize| IndexExpr::var(VarId::from_index(if axis > a { axis - 1 } else { axis }));
            let joined = at(b);
            (0..stage.axes.len())
                .map(|axis| match axis {
                    _ if axis == a => joined.floor_div(extent),
                    _ if axis == b => joined.modulo(extent),
                    _ => at(axis),
                })
                .collect()
        });
        let replace = |e: &IndexExpr| match &renumber {
            Some(by) => e.substitute(&|atom| match atom {
                Atom::Var(v) => by.get(v.index()).cloned(),
                _ => None,
            }),
            None => e.clone(),
        };
        let target = &mut new.stages[id];
        if let Some((a, b)) = pairs[id.index()] {
            let (outer, inner) = (&stage.axes[a], &stage.axes[b]);
            target.axes[b] = Axis {
                name: name.map_or_else(|| format!("{}{}", outer.name, inner.name), str::to_owned),
                extent: outer.extent.clone() * inner.extent.clone(),
                kind: inner.kind,
            };
            target.axes.remove(a);
            make_names_unique(&mut target.axes, if b > a { b - 1 } else { b });
        }
        let ranges = target.ranges(&kernel.symbols);
        for op in target.body.ops.iter_mut() {
            let mut mapped = op.map_indices(&|e| replace(e).simplify(&ranges));
            if let ScalarOp::Load(load) = &mut mapped
                && let Source::Stage(source, _) = load.source
                && let Some((x, y)) = pairs[source.index()]
            {
                join_index(load, kernel, source, x, y);
                load.index.iter_mut().for_each(|e| *e = e.simplify(&ranges));
            }
            *op = mapped;
        }
        for output in new.outputs.iter_mut().filter(|o| o.stage == id) {
            output.index = output.index.iter().map(|e| replace(e).simplify(&ranges)).collect();
        }
    }
    new
}

/// The reading index of a stage whose axes `x` and `y` have become one.
fn join_index(load: &mut Load, kernel: &Kernel, source: StageId, x: usize, y: usize) {
    let value: Vec<usize> = kernel.stages[source].value_axes().map(|(n, _)| n).collect();
    let (Some(px), Some(py)) = (value.iter().position(|&v| v == x), value.iter().position(|&v| v == y)) else {
        return;
    };
    let extent = kernel.stages[source].axes[y].extent.clone();
    load.index[py] = load.index[px].clone() * extent + load.index[py].clone();
    load.index.remove(px);
    for (axis, _, _) in &mut load.gather {
        if usize::from(*axis) > px {
            *axis -= 1;
        }
    }
}

pub(super) fn make_names_unique(axes: &mut [Axis], at: usize) {
    let base = axes[at].name.clone();
    let mut name = base.clone();
    let mut n = 2;
    while axes.iter().enumerate().any(|(i, a)| i != at && a.name == name) {
        name = format!("{base}{n}");
        n += 1;
    }
    axes[at].name = name;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Axes that were joined join others: a map over three axes of unknown extents is a single loop.
    #[test]
    fn all_axes_of_unknown_extents_join() {
        let text = "kernel @volume(x: f32[4, D, H, W], b: f32[4]) -> (y: f32[4, D, H, W])
              where D in 0..=99, H in 0..=99, W in 0..=99 {
            stage o[c: 4, d: D, h: H, w: W] = x[c, d, h, w] - b[c]
            output y[c, d, h, w] = o[c, d, h, w]
          }";
        let joined = run(text.parse().expect("a kernel"));
        let axes = &joined.stages[StageId::from_index(0)].axes;
        assert_eq!(axes.iter().map(|axis| axis.extent.to_string()).collect::<Vec<_>>(), ["4", "$0*$1*$2"], "{joined}");
    }
}
