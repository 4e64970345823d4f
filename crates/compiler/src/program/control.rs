//! Conditions of the plan's steps as choices between steps, and what must hold of dims before them.

use crate::CompileError;
use crate::size::size;
use infc_artifact::{If, Require, Step};
use infc_ir::entity::{EntityId, ValueId};
use infc_ir::graph::SymbolSource;
use infc_passes::form::GraphPlan;
use std::collections::VecDeque;

/// The steps of a plan, in order, under the conditions that they have; `steps` has those for each step of the plan.
///
/// Neighbours under one condition share a choice: first those for which it holds, then those for which it does not.
pub(super) fn steps(plan: &GraphPlan, steps: Vec<Vec<Step>>) -> Result<Vec<Step>, CompileError> {
    let guards = plan.steps.iter().map(|&step| plan.guard(step));
    let known = plan.graph.late_symbols().into_iter().map(|late| !late).collect();
    let mut control = Control { plan, known, stated: vec![false; plan.requires.len()] };
    control.under(&[], &mut guards.zip(steps).collect())
}

type Guarded<'p> = VecDeque<(&'p [(ValueId, bool)], Vec<Step>)>;

struct Control<'p> {
    plan: &'p GraphPlan,
    /// Per symbol, whether it has its value.
    known: Vec<bool>,
    /// Which requirements have been made steps.
    stated: Vec<bool>,
}

impl<'p> Control<'p> {
    /// The steps that stand under `path`, taken from the front as long as they do.
    fn under(&mut self, path: &[(ValueId, bool)], waiting: &mut Guarded<'p>) -> Result<Vec<Step>, CompileError> {
        let mut steps = self.requirements(path)?;
        while let Some((guard, _)) = waiting.front().filter(|(guard, _)| guard.starts_with(path)) {
            let Some(&(condition, _)) = guard.get(path.len()) else {
                for step in waiting.pop_front().into_iter().flat_map(|(_, steps)| steps) {
                    let bound = if let Step::Bind(bind) = &step { &bind.symbols[..] } else { &[] };
                    bound.iter().for_each(|b| self.known[b.symbol as usize] = true);
                    self.know_computed();
                    let any = !bound.is_empty();
                    steps.push(step);
                    if any {
                        steps.extend(self.requirements(path)?);
                    }
                }
                continue;
            };
            let inner = |holds: bool| path.iter().copied().chain([(condition, holds)]).collect::<Vec<_>>();
            let then = self.under(&inner(true), waiting)?;
            let otherwise = self.under(&inner(false), waiting)?;
            let slot = self.plan.values.get(&condition).ok_or_else(|| CompileError::Internal {
                what: format!("condition {condition} has no place in memory"),
            })?;
            let count = |steps: &[Step]| u32::try_from(steps.len()).unwrap_or(u32::MAX);
            let (then_steps, else_steps) = (count(&then), count(&otherwise));
            steps.push(Step::If(If { condition: slot.buffer as u32, then_steps, else_steps }));
            steps.extend(then);
            steps.extend(otherwise);
        }
        Ok(steps)
    }

    /// What follows from symbols that are known is known.
    fn know_computed(&mut self) {
        for (symbol, source) in &self.plan.graph.sources {
            let SymbolSource::Computed(value) = source else { continue };
            if value.symbols().iter().all(|s| self.known[s.index()]) {
                self.known[symbol.index()] = true;
            }
        }
    }

    /// What must hold under a path, as soon as it is entered and the symbols are known.
    fn requirements(&mut self, path: &[(ValueId, bool)]) -> Result<Vec<Step>, CompileError> {
        let mut steps = Vec::new();
        for ((under, requirement), stated) in self.plan.requires.iter().zip(&mut self.stated) {
            let symbols = [requirement.left.symbols(), requirement.right.symbols()];
            let is_known = symbols.iter().flatten().all(|symbol| self.known[symbol.index()]);
            if under != path || !is_known || std::mem::replace(stated, true) {
                continue;
            }
            steps.push(Step::Require(Require {
                left: size(&requirement.left)?,
                right: size(&requirement.right)?,
                equal: requirement.equal,
                what: requirement.what.clone(),
            }));
        }
        Ok(steps)
    }
}
