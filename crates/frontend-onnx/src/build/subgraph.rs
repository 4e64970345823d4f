//! Graphs inside of graphs: those that run once per step, and those of which one runs.

use super::{Builder, Result, carried, mismatch, var};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{IfOp, Op, RecurrenceOp};
use std::sync::Arc;

/// What goes into a recurrence.
pub(crate) struct Steps<'a> {
    /// How many there are.
    pub(crate) steps: Dim,
    /// Initial states.
    pub(crate) states: &'a [&'a Tracked],
    /// Values whose first axis is the step.
    pub(crate) slices: &'a [&'a Tracked],
    /// What every step sees.
    pub(crate) shared: &'a [&'a Tracked],
}

/// The same, as one step sees it.
pub(crate) struct Step {
    pub(crate) states: Vec<Tracked>,
    pub(crate) slices: Vec<Tracked>,
    pub(crate) shared: Vec<Tracked>,
}

impl Builder {
    /// One of two graphs, as the condition says when the model runs; of one element, whatever its rank.
    pub(crate) fn choose(
        &mut self,
        condition: &Tracked,
        captured: &[&Tracked],
        branches: IfOp,
        types: Vec<TensorType>,
    ) -> Result<Vec<Tracked>> {
        let condition = self.view(condition, vec![IndexExpr::constant(0); condition.rank()], Vec::new())?;
        let mut values = vec![self.value(&condition)?];
        values.extend(self.values(captured)?);
        let held = types.iter().map(carried).collect();
        let outputs = self.graph.add_node(Op::If(branches), &values, held, self.origin);
        Ok(types.into_iter().zip(outputs).map(|(ty, value)| Tracked::of_value(ty, value)).collect())
    }

    /// A graph per step. `define` builds it; its first results are the new states. The outputs are all results, stacked
    /// along a new first axis.
    pub(crate) fn recurrence(
        &mut self,
        of: &Steps<'_>,
        define: impl FnOnce(&mut Builder, &Step) -> Result<Vec<Tracked>>,
    ) -> Result<Vec<Tracked>> {
        for slice in of.slices {
            let extent = slice.shape().first().ok_or_else(|| mismatch("an axis of steps", slice.shape()))?;
            self.assume_equal("numbers of steps", &of.steps, extent)?;
        }
        if of.steps.is_const(1) {
            return self.single_step(of, define);
        }
        let mut body = self.nested();
        let mut input = |name: &str, n: usize, ty: TensorType| body.input(&format!("{name}{n}"), ty);
        let states: Vec<Tracked> =
            of.states.iter().enumerate().map(|(n, s)| input("state", n, s.ty().clone())).collect::<Result<_>>()?;
        let row = |t: &Tracked| TensorType::new(t.dtype(), t.shape()[1..].to_vec());
        let slices: Vec<Tracked> =
            of.slices.iter().enumerate().map(|(n, s)| input("slice", n, row(s))).collect::<Result<_>>()?;
        let shared: Vec<Tracked> =
            of.shared.iter().enumerate().map(|(n, s)| input("shared", n, s.ty().clone())).collect::<Result<_>>()?;
        let results = define(&mut body, &Step { states, slices, shared })?;
        self.stacked(of, body, results)
    }

    /// The recurrence over a graph whose inputs are those of a step; its results stacked. That the slices have as many
    /// steps is known already.
    pub(crate) fn stacked(&mut self, of: &Steps<'_>, mut body: Builder, results: Vec<Tracked>) -> Result<Vec<Tracked>> {
        let results = body.conform_states(of, results)?;
        let mut types = Vec::new();
        for (n, result) in results.iter().enumerate() {
            body.output(&format!("result{n}"), result)?;
            let shape = std::iter::once(of.steps.clone()).chain(result.shape().iter().cloned()).collect();
            types.push(TensorType::new(result.dtype(), shape));
        }
        body.graph.requires.drain(..).for_each(|r| self.graph.require(r));
        self.adopt(&mut body);
        types.iter().try_for_each(|ty| self.check(ty))?;
        let inputs: Vec<&Tracked> = [of.states, of.slices, of.shared].concat();
        let values = self.values(&inputs)?;
        let (states, slices) = (of.states.len(), of.slices.len());
        let op = RecurrenceOp { steps: of.steps.clone(), states, slices, body: Arc::new(body.graph) };
        let held = types.iter().map(carried).collect();
        let outputs = self.graph.add_node(Op::Recurrence(op), &values, held, self.origin);
        Ok(types.into_iter().zip(outputs).map(|(ty, value)| Tracked::of_value(ty, value)).collect())
    }

    /// One step is its graph: nothing needs to be carried.
    fn single_step(
        &mut self,
        of: &Steps<'_>,
        define: impl FnOnce(&mut Builder, &Step) -> Result<Vec<Tracked>>,
    ) -> Result<Vec<Tracked>> {
        let owned = |list: &[&Tracked]| list.iter().map(|&t| t.clone()).collect::<Vec<_>>();
        let mut slices = Vec::new();
        for slice in of.slices {
            slices.push(self.reshape(slice, &slice.shape()[1..])?);
        }
        let results = define(self, &Step { states: owned(of.states), slices, shared: owned(of.shared) })?;
        let results = self.conform_states(of, results)?;
        results.iter().map(|result| self.insert_axis(result, 0)).collect()
    }

    /// New states keep the types of the initial ones.
    fn conform_states(&mut self, of: &Steps<'_>, mut results: Vec<Tracked>) -> Result<Vec<Tracked>> {
        for (state, result) in of.states.iter().zip(&mut results) {
            if state.dtype() != result.dtype() {
                return Err(Problem::TypeMismatch { left: state.dtype(), right: result.dtype() });
            }
            *result = self.conform("extents of a state", result, state.shape())?;
        }
        Ok(results)
    }

    /// The same rows from the last to the first.
    pub(crate) fn flip(&mut self, x: &Tracked, axis: usize) -> Result<Tracked> {
        let mut index: Vec<_> = (0..x.rank()).map(var).collect();
        index[axis] = x.shape()[axis].clone() - 1 - var(axis);
        self.view(x, index, x.shape().to_vec())
    }
}
