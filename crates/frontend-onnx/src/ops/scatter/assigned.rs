//! Updates of a slice: positions that are known to be a grid.
//!
//! What exporters make of `x[a:b:c] = y` names every position. Each element then knows which update is meant for it, and nothing
//! is searched for.

use crate::build::{Builder, Result, var};
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{EntityId, VarId};
use infc_ir::index::{Dim, IndexExpr, Proof};
use infc_ir::scalar::{BinaryOp, Const, ScalarOp};

/// The positions that updates along an axis of theirs go to: from `start` on, so far apart.
#[derive(Clone, Debug)]
struct Progression {
    start: Dim,
    step: i64,
    /// The axis of the updates; `None` if there is one position.
    axis: Option<usize>,
}

impl Progression {
    /// Of the positions along an axis of so many elements, over the axes of the updates.
    fn of(build: &Builder, positions: &Tracked, extent: &Dim) -> Option<Self> {
        let at = build.element_at(positions)?;
        let used: Vec<usize> = (0..positions.rank()).filter(|&n| at.uses_var(VarId::from_index(n))).collect();
        let (start, step, axis) = match used[..] {
            [] => (at, 1, None),
            [axis] => {
                let (step, start) = at.linear_in(VarId::from_index(axis))?;
                (start, step.as_const().filter(|&step| step > 0)?, Some(axis))
            }
            _ => return None,
        };
        let start = match start.as_const() {
            // From the end, which all of them have to be.
            Some(from_end) if from_end < 0 => {
                let count = axis.map_or(Some(1), |axis| positions.shape()[axis].as_const())?;
                let last = count.checked_sub(1)?.checked_mul(step)?.checked_add(from_end)?;
                if last >= 0 {
                    return None;
                }
                extent.clone() + from_end
            }
            _ => start,
        };
        (build.ranges().le(&Dim::constant(0), &start) == Proof::Yes).then_some(Self { start, step, axis })
    }

    /// Which of so many updates an element is for, and the conditions under which there is one.
    fn inverse(&self, coordinate: IndexExpr, count: &Dim) -> (IndexExpr, Vec<Bound>) {
        let behind = coordinate - self.start.clone();
        let (step, zero, one) = (Dim::constant(self.step), Dim::constant(0), Dim::constant(1));
        let inside = Bound { expr: behind.clone(), lo: zero.clone(), hi: count.scale(self.step) };
        if self.step == 1 {
            return (behind, vec![inside]);
        }
        let on_grid = Bound { expr: behind.modulo(&step), lo: zero, hi: one };
        (behind.floor_div(&step), vec![inside, on_grid])
    }
}

/// `x` with the updates where they are for, combined with what is there as `reduction` says: along each of the leading axes of
/// `x` that `positions` are given for, and along all others where the update itself is. `None` if they are no grid.
pub(super) fn assigned(
    build: &mut Builder,
    x: &Tracked,
    positions: &[Tracked],
    updates: &Tracked,
    reduction: Option<BinaryOp>,
) -> Result<Option<Tracked>> {
    let (looked_up, slice) = x.shape().split_at(positions.len());
    let lead = updates.rank() - slice.len();
    let known = positions.iter().zip(looked_up).map(|(at, extent)| Progression::of(build, at, extent));
    let Some(known) = known.collect::<Option<Vec<_>>>() else { return Ok(None) };
    // Two updates for one element are told apart by their order, which a grid does not have.
    let is_own = |axis: usize| {
        let users = known.iter().filter(|progression| progression.axis == Some(axis)).count();
        users == 1 || users == 0 && updates.shape()[axis].is_const(1)
    };
    if !(0..lead).all(is_own) {
        return Ok(None);
    }
    let mut index = vec![Dim::constant(0); lead];
    let mut valid = Vec::new();
    for (n, progression) in known.iter().enumerate() {
        let one = Dim::constant(1);
        let count = progression.axis.map_or(&one, |axis| &updates.shape()[axis]);
        let (at, conditions) = progression.inverse(var(n), count);
        if let Some(axis) = progression.axis {
            index[axis] = at;
        }
        valid.extend(conditions);
    }
    index.extend((positions.len()..x.rank()).map(var));
    let ranges = build.ranges_over(x.shape());
    let map = AccessMap { rank: x.rank(), index, valid }.simplify(&ranges);
    let valid = map.valid.clone();
    let shape = x.shape().to_vec();
    let found = build.view_or(updates, map, shape.clone(), Const::zero(updates.dtype()))?;
    if valid.is_empty() && reduction.is_none() {
        return Ok(Some(found));
    }
    let dtype = x.dtype();
    let result = build.map_over(shape, &[&found, x], |body, p| {
        let new = match reduction {
            None => p[0],
            Some(op) => {
                let wide = crate::build::compute_type(dtype);
                let [update, old] = [p[0], p[1]].map(|value| body.cast(wide, value));
                let sum = body.binary(op, old, update);
                body.cast(dtype, sum)
            }
        };
        let inside = body.push(ScalarOp::InBounds(valid));
        body.select(inside, new, p[1])
    })?;
    Ok(Some(result))
}
