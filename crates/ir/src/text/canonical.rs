//! The form that text has: what nothing needs is gone, and operations come in the order in which they print.
//!
//! Bodies mean the same in any order of their operations, so a structure and its canonical form are
//! interchangeable; the canonical form is what `parse(print(x))` gives.

use super::scalar::ordered;
use crate::entity::{EntityId, ScalarId};
use crate::kernel::{Kernel, Reducer};
use crate::scalar::{Body, Const, ScalarOp};

/// A body in canonical form, and its results.
#[must_use]
pub fn canonical_body(body: &Body, roots: &[ScalarId]) -> (Body, Vec<ScalarId>) {
    // First without duplicates, as their number of uses decides what gets a name.
    let mut all: Vec<ScalarId> = body.ops.ids().collect();
    let mut needed = vec![false; all.len()];
    for root in roots.iter().filter(|r| r.index() < all.len()) {
        needed[root.index()] = true;
    }
    for &id in all.iter().rev() {
        if needed[id.index()] {
            body.ops[id].for_each_operand(&mut |o| {
                if o < id {
                    needed[o.index()] = true;
                }
            });
        }
    }
    all.retain(|id| needed[id.index()]);
    let (unique, roots) = rebuild(body, &all, roots);
    rebuild(&unique, &ordered(&unique, &roots), &roots)
}

/// The operations in the given order.
fn rebuild(body: &Body, order: &[ScalarId], roots: &[ScalarId]) -> (Body, Vec<ScalarId>) {
    let mut result = Body::default();
    let mut new: Vec<Option<ScalarId>> = vec![None; body.ops.len()];
    let renamed = |new: &[Option<ScalarId>], id: ScalarId| new.get(id.index()).copied().flatten().unwrap_or(id);
    for &id in order {
        let mut op = body.ops[id].map_operands(&mut |o| renamed(&new, o));
        if let ScalarOp::Load(load) = &mut op {
            load.gather.sort_by_key(|(axis, _, _)| *axis);
            if load.valid.is_empty() {
                load.otherwise = Const::zero(load.dtype);
            }
        }
        new[id.index()] = Some(result.push(op));
    }
    let roots = roots.iter().map(|&r| renamed(&new, r)).collect();
    (result, roots)
}

/// A reducer in canonical form.
#[must_use]
pub fn canonical_reducer(reducer: &Reducer) -> Reducer {
    let (combine, results) = canonical_body(&reducer.combine, &reducer.results);
    Reducer { init: reducer.init.clone(), combine, results }
}

/// A kernel in canonical form.
#[must_use]
pub fn canonical_kernel(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    for stage in kernel.stages.iter_mut() {
        (stage.body, stage.results) = canonical_body(&stage.body, &stage.results);
        stage.reducer = stage.reducer.as_ref().map(canonical_reducer);
    }
    kernel
}
