//! Asking for memory before it is written or read.

use super::emit::Emitter;
use infc_ir::entity::{EntityId, OperandId, StageId};
use infc_ir::index::IndexExpr;
use infc_ir::nest::{Stmt, Target};
use infc_ir::scalar::{Load, ScalarOp, Source};

impl Emitter<'_> {
    /// Asks for what a point of a stage is to be followed by: see [`infc_ir::schedule::Step::Prefetch`] and `Fetch`.
    pub(super) fn prefetches(&self, stage: StageId, coordinates: &[IndexExpr]) -> Vec<Stmt> {
        let mut stmts = self.written_after(stage, coordinates);
        stmts.extend(self.used_later(stage, coordinates));
        stmts
    }

    /// Asks for what is written near a point of a stage after it.
    fn written_after(&self, stage: StageId, coordinates: &[IndexExpr]) -> Vec<Stmt> {
        let Some(prefetch) = &self.plans[stage].prefetches else { return Vec::new() };
        let ahead = |&(position, distance): &(usize, i64)| coordinates[position].clone() - distance;
        let there: Vec<IndexExpr> = prefetch.axes.iter().map(ahead).collect();
        let outputs = self.kernel.outputs.iter().filter(|o| o.stage == prefetch.stage);
        outputs.map(|output| self.prefetch(output.operand, &output.index, &there)).collect()
    }

    /// Asks for what a stage reads of its operands, or writes to them, some points later.
    fn used_later(&self, stage: StageId, coordinates: &[IndexExpr]) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        for fetch in &self.plans[stage].fetches {
            let mut there = coordinates.to_vec();
            there[fetch.axis] = there[fetch.axis].clone() + fetch.ahead;
            let reads = self.kernel.stages[stage].body.ops.iter().filter_map(|op| match op {
                ScalarOp::Load(Load { source, index, .. }) if *source == Source::Operand(fetch.operand) => Some(index),
                _ => None,
            });
            let outputs = self.kernel.outputs.iter().filter(|o| o.stage == stage && o.operand == fetch.operand);
            let places = reads.chain(outputs.map(|output| &output.index));
            stmts.extend(places.map(|index| self.prefetch(fetch.operand, index, &there)));
        }
        stmts
    }

    /// Asks for an element of an operand at a point.
    fn prefetch(&self, operand: OperandId, index: &[IndexExpr], point: &[IndexExpr]) -> Stmt {
        let index: Vec<IndexExpr> = index.iter().map(|e| e.substitute_vars(point)).collect();
        let flat = self.kernel.operands[operand].layout.flat(&index).simplify(&self.ranges);
        Stmt::Prefetch { target: Target { buffer: self.operand_buffers[operand.index()], index: flat } }
    }
}
