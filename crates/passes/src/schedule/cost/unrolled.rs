//! What unrolled turns of a statement compute together: what several of them share once, and nothing that none asks for.
//!
//! Bodies that choose by the turn, as transforms of convolutions by minimal filtering (Winograd) do, are a choice among all
//! rows as they are written, and one row each when their loops are unrolled.

use super::super::operation_cost;
use infc_ir::entity::{EntityId, ScalarId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::nest::Expr;
use infc_ir::scalar::{Body, Const, Scalar, ScalarOp, eval_compare};
use infc_tensor::DType;
use std::collections::HashMap;

/// Operations in all turns together; of what has more, a turn is as dear as it is written.
const MOST: usize = 1 << 14;

/// Vector instructions of a turn of these loops in the mean; `None` if the turns are alike, or too many.
pub(super) fn cost(value: &Expr, loops: &[(VarId, i64)]) -> Option<f64> {
    let moves = |e: &IndexExpr| loops.iter().any(|(var, _)| e.uses_var(*var));
    let chooses = value.body.ops.iter().any(|op| matches!(op, ScalarOp::Index(e) if moves(e)));
    let turns = loops.iter().try_fold(1usize, |all, (_, turns)| all.checked_mul(usize::try_from(*turns).ok()?))?;
    if !chooses || turns.checked_mul(value.body.ops.len())? > MOST {
        return None;
    }
    let mut unrolled = Unrolled::default();
    let mut roots = Vec::new();
    for turn in 0..turns {
        let mut rest = turn as i64;
        let at: Vec<(VarId, i64)> = loops
            .iter()
            .map(|&(var, turns)| {
                let own = rest % turns;
                rest /= turns;
                (var, own)
            })
            .collect();
        roots.extend(unrolled.turn(value, &at));
    }
    Some(unrolled.cost_of(&roots) / turns.max(1) as f64)
}

/// Operations of several turns, each once.
#[derive(Default)]
struct Unrolled {
    body: Body,
    known: HashMap<ScalarOp, ScalarId>,
}

impl Unrolled {
    /// Adds a turn; gives its values.
    fn turn(&mut self, value: &Expr, at: &[(VarId, i64)]) -> Vec<ScalarId> {
        let here = |e: &IndexExpr| {
            e.substitute(&|atom| match atom {
                Atom::Var(var) => at.iter().find(|(v, _)| v == var).map(|(_, n)| IndexExpr::constant(*n)),
                _ => None,
            })
        };
        let mut ids: Vec<ScalarId> = Vec::with_capacity(value.body.ops.len());
        for op in value.body.ops.iter() {
            let op = op.map_operands(&mut |id| ids[id.index()]).map_indices(&here);
            ids.push(self.folded(op));
        }
        value.roots.iter().map(|root| ids[root.index()]).collect()
    }

    /// The operation, or what it comes to.
    fn folded(&mut self, op: ScalarOp) -> ScalarId {
        let op = match op {
            ScalarOp::Index(e) => match e.as_const() {
                Some(n) => ScalarOp::Const(Const::from_i64(DType::I64, n)),
                None => ScalarOp::Index(e),
            },
            ScalarOp::Compare(how, a, b) => match (self.constant(a), self.constant(b)) {
                (Some(left), Some(right)) => {
                    let [x, y] = [left, right].map(Scalar::from_const);
                    ScalarOp::Const(eval_compare(how, left.dtype, x, y).to_const(DType::Bool))
                }
                _ => ScalarOp::Compare(how, a, b),
            },
            ScalarOp::Select(c, a, b) => match self.constant(c) {
                Some(truth) => return if Scalar::from_const(truth).is_true() { a } else { b },
                None => ScalarOp::Select(c, a, b),
            },
            other => other,
        };
        let Self { body, known } = self;
        *known.entry(op).or_insert_with_key(|op| body.ops.push(op.clone()))
    }

    fn constant(&self, id: ScalarId) -> Option<Const> {
        match &self.body.ops[id] {
            ScalarOp::Const(constant) => Some(*constant),
            _ => None,
        }
    }

    /// Vector instructions of what these values need.
    fn cost_of(&self, roots: &[ScalarId]) -> f64 {
        let mut needed = vec![false; self.body.ops.len()];
        roots.iter().for_each(|root| needed[root.index()] = true);
        let mut cost = 0.0;
        for (id, op) in self.body.ops.iter_enumerated().rev() {
            if needed[id.index()] {
                cost += operation_cost(op);
                op.for_each_operand(&mut |operand| needed[operand.index()] = true);
            }
        }
        cost
    }
}
