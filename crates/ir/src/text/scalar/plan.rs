//! What of a body prints as `let`, and the order of operations that follows from it.

use crate::entity::{EntityId, ScalarId};
use crate::scalar::{Body, ScalarOp};

/// Expressions higher than this are cut by a `let`.
const MAX_HEIGHT: u32 = 16;

/// How a body prints.
pub(in super::super) struct Plan {
    /// The operations that get names, in the order in which they print.
    pub(in super::super) lets: Vec<ScalarId>,
}

impl Plan {
    /// Names what is used more than once and is not a plain leaf, and what is nested too deeply.
    pub(in super::super) fn new(body: &Body, roots: &[ScalarId]) -> Self {
        let len = body.ops.len();
        let mut uses = vec![0u32; len];
        let mut needed = vec![false; len];
        for root in roots.iter().filter(|r| r.index() < len) {
            uses[root.index()] += 1;
            needed[root.index()] = true;
        }
        for (id, op) in body.ops.iter_enumerated().rev() {
            if !needed[id.index()] {
                continue;
            }
            op.for_each_operand(&mut |o| {
                if o < id {
                    uses[o.index()] += 1;
                    needed[o.index()] = true;
                }
            });
        }
        let mut height = vec![0u32; len];
        let mut named = vec![false; len];
        for (id, op) in body.ops.iter_enumerated() {
            let mut highest = 0;
            op.for_each_operand(&mut |o| {
                if o < id {
                    highest = highest.max(height[o.index()]);
                }
            });
            let n = id.index();
            named[n] = needed[n] && ((uses[n] > 1 && !is_leaf(op)) || highest >= MAX_HEIGHT);
            height[n] = if named[n] || is_leaf(op) { 0 } else { highest + 1 };
        }
        Self { lets: postorder(body, roots).into_iter().filter(|id| named[id.index()]).collect() }
    }
}

/// What is as short as its name.
fn is_leaf(op: &ScalarOp) -> bool {
    match op {
        ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) => true,
        ScalarOp::Load(load) => load.gather.is_empty() && load.valid.is_empty(),
        _ => false,
    }
}

/// What the roots need, operands first, in the order of operands; without recursion.
fn postorder(body: &Body, roots: &[ScalarId]) -> Vec<ScalarId> {
    let len = body.ops.len();
    let mut seen = vec![false; len];
    let mut order = Vec::new();
    for root in roots.iter().filter(|r| r.index() < len) {
        let mut stack = vec![(*root, false)];
        while let Some((id, visited)) = stack.pop() {
            if visited {
                order.push(id);
                continue;
            }
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            stack.push((id, true));
            let mut operands = Vec::new();
            body.ops[id].for_each_operand(&mut |o| operands.push(o));
            stack.extend(operands.into_iter().rev().filter(|o| *o < id && !seen[o.index()]).map(|o| (o, false)));
        }
    }
    order
}

/// The needed operations in the order in which the parser makes them: names first, then the results.
pub(in super::super) fn ordered(body: &Body, roots: &[ScalarId]) -> Vec<ScalarId> {
    let mut starts = Plan::new(body, roots).lets;
    starts.extend_from_slice(roots);
    postorder(body, &starts)
}
