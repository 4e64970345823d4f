//! Takes sums apart: neighbours along a summed axis are summed each for themselves, beside the columns.
//!
//! Sums of few columns, or of a few more than fill vectors, leave lanes empty. Where `points` neighbours of what is summed
//! lie next to each other, as many sums per column fill them: `m[n] = Σ_k a[k]·w[k, n]` becomes
//! `p[points·n + q] = Σ_k a[points·k + q]·w[points·k + q, n]`, and whoever reads `m[n]` adds the neighbours `p[points·n + q]`
//! up. Of `a`, all lanes get a few neighbours, again and again, which takes no more than one element for all lanes.
//! Error class: reassociating.

use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Reducer};
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp, Source};

/// Sums that one may be taken apart into: each is a load and an addition of everybody who reads it.
const MOST_SUMS: i64 = 16;

/// Whether the order in which a stage sums would show.
pub(crate) fn shows(kernel: &Kernel, stage: StageId) -> bool {
    kernel.stages[stage].reducer.as_ref().is_none_or(|reducer| !reducer.is_associative())
}

/// Whether a stage's sums can be taken apart at all: it sums, is no output and no part of a recurrence, and is read without
/// conditions and at known places.
pub(crate) fn is_possible(kernel: &Kernel, stage: StageId) -> bool {
    // Each of the sums would begin with what one begins with.
    let begins_with_nothing = |reducer: &&Reducer| reducer.init.iter().all(|init| init.to_f64() == 0.0);
    let reducer = kernel.stages[stage].reducer.as_ref().filter(begins_with_nothing);
    let is_sum = reducer.and_then(Reducer::as_binary) == Some(BinaryOp::Add);
    let is_output = kernel.outputs.iter().any(|o| o.stage == stage);
    let mut plain = true;
    for reader in kernel.stages.iter() {
        reader.for_each_load(&mut |_, load| {
            let is_read = matches!(load.source, Source::Stage(of, _) if of == stage);
            plain &= !is_read || (load.gather.is_empty() && load.valid.is_empty());
        });
    }
    is_sum && !is_output && plain && kernel.recurrence_of(stage).is_none()
}

/// The kernel with a stage's sums along the axis `summed` taken apart into `points`, which lie beside the columns along the
/// axis `columns`; both axes become one with the given name. `None` if that is not possible ([`is_possible`]), if `summed` is
/// not reduced, or its extent no multiple of `points` that is known, or if `columns` is not parallel.
pub(crate) fn interleave(
    kernel: &Kernel,
    stage: StageId,
    summed: usize,
    columns: usize,
    points: i64,
    name: &str,
) -> Option<Kernel> {
    let old = &kernel.stages[stage];
    let [long, wide] = [&old.axes[summed], &old.axes[columns]];
    let kinds = long.kind == AxisKind::Reduce && wide.kind == AxisKind::Parallel;
    let few = points > 1 && points <= MOST_SUMS;
    let whole = few && long.extent.as_const().is_some_and(|n| n % points == 0);
    if !is_possible(kernel, stage) || !kinds || !whole {
        return None;
    }
    let extent = wide.extent.as_const()?.checked_mul(points)?;
    let position = old.value_axes().position(|(axis, _)| axis == columns)?;

    let mut new = kernel.clone();
    let target = &mut new.stages[stage];
    target.axes[summed].extent = IndexExpr::constant(long.extent.as_const()? / points);
    target.axes[columns] = Axis { name: name.to_owned(), extent: extent.into(), kind: AxisKind::Parallel };
    let var = |axis: usize| IndexExpr::var(VarId::from_index(axis));
    let by = IndexExpr::constant(points);
    let (column, point) = (var(columns).floor_div(&by), var(summed).scale(points) + var(columns).modulo(&by));
    let ranges = target.ranges(&kernel.symbols);
    for op in target.body.ops.iter_mut() {
        *op = op.map_indices(&|e| {
            let replaced = e.substitute(&|atom| match atom {
                Atom::Var(v) if v.index() == columns => Some(column.clone()),
                Atom::Var(v) if v.index() == summed => Some(point.clone()),
                _ => None,
            });
            replaced.simplify(&ranges)
        });
    }
    for id in kernel.stages.ids().filter(|&id| id != stage) {
        let reader = &kernel.stages[id];
        let is_read =
            |op: &ScalarOp| matches!(op, ScalarOp::Load(Load { source: Source::Stage(of, _), .. }) if *of == stage);
        if !reader.body.ops.iter().any(is_read) {
            continue;
        }
        let mut body = Body::default();
        let results = body.import(&reader.body, &reader.results, &mut |body, op| match op {
            ScalarOp::Load(load) if is_read(op) => {
                let part = |q: i64| {
                    let mut load = load.clone();
                    load.index[position] = load.index[position].scale(points) + q;
                    ScalarOp::Load(load)
                };
                let parts: Vec<ScalarId> = (0..points).map(|q| body.push(part(q))).collect();
                Some(total(body, parts))
            }
            _ => None,
        });
        let reader = &mut new.stages[id];
        (reader.body, reader.results) = (body, results);
    }
    Some(new)
}

/// The sum of some values, neighbours first.
fn total(body: &mut Body, mut parts: Vec<ScalarId>) -> ScalarId {
    while parts.len() > 1 {
        parts = parts
            .chunks(2)
            .map(|pair| match *pair {
                [a, b] => body.binary(BinaryOp::Add, a, b),
                _ => pair[0],
            })
            .collect();
    }
    parts[0]
}
