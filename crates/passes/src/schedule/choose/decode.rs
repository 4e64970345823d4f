//! What is made where it is read: stages without storage in front of a sum, such as numbers that are stored in fewer bits.
//!
//! They cost their reader operations, though not for every product: a tile's rows share what only columns tell apart, and
//! neighbouring points of the sum share a byte or a scale (`k div 32`). Loops that are cut there find what is shared
//! outside, or by constants.

use super::access::{extent, operation_cost};
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::{ScalarOp, Source};

/// From so many rows on, what they share is better made once for all of them, in memory.
pub(super) const STORED_ROWS: i64 = 24;

/// How operations move along each axis of a stage: with every so manieth point of it, or not at all.
type Pace = Vec<Option<i64>>;

/// Operations that a stage takes beside its own.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Vector instructions per point of what they move along.
    pub(super) cost: f64,
    /// Per axis, whether they differ along it.
    pub(super) moves: Vec<bool>,
}

/// The operations of stages that are inlined into one that sums.
pub(super) fn works(kernel: &Kernel, id: StageId, inlined: &[bool]) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    for_each_inlined(kernel, id, inlined, &mut |cost, pace| {
        let moves: Vec<bool> = pace.iter().map(Option::is_some).collect();
        let shared: i64 = pace.iter().flatten().product();
        let cost = cost / shared as f64;
        match works.iter_mut().find(|w| w.moves == moves) {
            Some(work) => work.cost += cost,
            None => works.push(Work { cost, moves }),
        }
    });
    works
}

/// Into groups of how many points of an axis inlined stages divide it, ascending.
pub(super) fn groups(kernel: &Kernel, id: StageId, inlined: &[bool], axis: usize) -> Vec<i64> {
    let mut groups = Vec::new();
    for_each_inlined(kernel, id, inlined, &mut |_, pace| groups.extend(pace[axis].filter(|&n| n > 1)));
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Calls `f` with the cost and the pace of every operation of the stages that a sum makes where it reads them.
fn for_each_inlined(kernel: &Kernel, id: StageId, inlined: &[bool], f: &mut dyn FnMut(f64, &Pace)) {
    let stage = &kernel.stages[id];
    if stage.reducer.is_none() {
        return;
    }
    let identity: Vec<IndexExpr> = (0..stage.axes.len()).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    let mut open = vec![(id, identity)];
    while let Some((at, coordinates)) = open.pop() {
        let body = &kernel.stages[at].body;
        let mut paces: Vec<Pace> = Vec::with_capacity(body.ops.len());
        for op in body.ops.iter() {
            let mut pace: Pace = vec![None; stage.axes.len()];
            let mut see = |e: &IndexExpr| {
                let e = e.substitute_vars(&coordinates);
                for (axis, pace) in pace.iter_mut().enumerate() {
                    *pace = quicker(*pace, pace_of(&e, VarId::from_index(axis)));
                }
                e
            };
            if let ScalarOp::Load(load) = op {
                let index: Vec<IndexExpr> = load.index.iter().map(&mut see).collect();
                if let Source::Stage(source, _) = load.source
                    && source != at
                    && inlined[source.index()]
                {
                    open.push((source, index));
                }
            } else {
                let see = std::cell::RefCell::new(see);
                drop(op.map_indices(&|e| (*see.borrow_mut())(e)));
            }
            op.for_each_operand(&mut |o| {
                for (axis, pace) in pace.iter_mut().enumerate() {
                    *pace = quicker(*pace, paces[o.index()][axis]);
                }
            });
            if at != id {
                f(operation_cost(op), &pace);
            }
            paces.push(pace);
        }
    }
}

fn quicker(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// With every how manieth point of the variable the expression moves.
fn pace_of(e: &IndexExpr, var: VarId) -> Option<i64> {
    let mut pace = None;
    for atom in e.terms().iter().flat_map(|term| &term.atoms) {
        let of_atom = match atom {
            Atom::Symbol(_) => None,
            Atom::Var(v) => (*v == var).then_some(1),
            Atom::FloorDiv(parts) => match (parts.0.as_var(), parts.1.as_const()) {
                (Some(v), Some(n)) if v == var => Some(n),
                _ => quicker(pace_of(&parts.0, var), pace_of(&parts.1, var)),
            },
            Atom::Mod(parts) | Atom::Min(parts) | Atom::Max(parts) => {
                quicker(pace_of(&parts.0, var), pace_of(&parts.1, var))
            }
        };
        pace = quicker(pace, of_atom);
    }
    pace
}

/// Per stage, whether it is made of constants for sums that share it among many rows, so that it is better stored; `None`
/// if it is not made of constants.
pub(super) fn is_stored(kernel: &Kernel) -> Vec<Option<bool>> {
    let mut stored = vec![None; kernel.stages.len()];
    for (id, stage) in kernel.stages.iter_enumerated() {
        if crate::form::contraction::is_decoding(kernel, stage) {
            stored[id.index()] = Some(false);
        }
    }
    for (id, stage) in kernel.stages.iter_enumerated().filter(|(_, stage)| stage.reducer.is_some()) {
        stage.for_each_load(&mut |_, load| {
            let Source::Stage(source, _) = load.source else { return };
            let is_row = |axis: usize| {
                let var = VarId::from_index(axis);
                stage.axes[axis].kind != AxisKind::Reduce && !load.index.iter().any(|e| e.uses_var(var))
            };
            // Of rows that the run tells there may be one.
            let known = |axis: usize| stage.axes[axis].extent.as_const().map_or(1, |_| extent(kernel, stage, axis));
            let rows: i64 = (0..stage.axes.len()).filter(|&axis| is_row(axis)).map(known).product();
            // Bits of bytes are taken out of as many at once as a vector has.
            let at_once = super::dot::of(kernel, stage).is_some();
            if source != id
                && !at_once
                && let Some(stored) = &mut stored[source.index()]
            {
                *stored |= rows >= STORED_ROWS;
            }
        });
    }
    stored
}
