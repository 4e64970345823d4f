//! Conditions of kernels as choices between steps, and what must hold of dims before them.

use crate::CompileError;
use crate::size::size;
use infc_artifact::{If, Require, Step};
use infc_ir::entity::ValueId;
use infc_passes::form::GraphPlan;
use std::collections::VecDeque;

/// The launches of a plan's kernels, in order, under the conditions that they have.
///
/// Neighbouring kernels under one condition share a choice: first those for which it holds, then those for which it
/// does not.
pub(super) fn steps(plan: &GraphPlan, launches: Vec<Step>) -> Result<Vec<Step>, CompileError> {
    let guards = plan.kernels.iter().map(|k| k.guard.as_slice());
    let mut control = Control { plan, stated: vec![false; plan.requires.len()] };
    control.under(&[], &mut guards.zip(launches).collect())
}

type Guarded<'p> = VecDeque<(&'p [(ValueId, bool)], Step)>;

struct Control<'p> {
    plan: &'p GraphPlan,
    /// Which requirements have been made steps.
    stated: Vec<bool>,
}

impl<'p> Control<'p> {
    /// The steps of kernels that stand under `path`, taken from the front as long as they do.
    fn under(&mut self, path: &[(ValueId, bool)], kernels: &mut Guarded<'p>) -> Result<Vec<Step>, CompileError> {
        let mut steps = self.requirements(path)?;
        while let Some((guard, _)) = kernels.front().filter(|(guard, _)| guard.starts_with(path)) {
            let Some(&(condition, _)) = guard.get(path.len()) else {
                steps.extend(kernels.pop_front().map(|(_, launch)| launch));
                continue;
            };
            let inner = |holds: bool| path.iter().copied().chain([(condition, holds)]).collect::<Vec<_>>();
            let then = self.under(&inner(true), kernels)?;
            let otherwise = self.under(&inner(false), kernels)?;
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

    /// What must hold under a path, the first time that it is entered.
    fn requirements(&mut self, path: &[(ValueId, bool)]) -> Result<Vec<Step>, CompileError> {
        let mut steps = Vec::new();
        for ((under, requirement), stated) in self.plan.requires.iter().zip(&mut self.stated) {
            if under != path || std::mem::replace(stated, true) {
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
