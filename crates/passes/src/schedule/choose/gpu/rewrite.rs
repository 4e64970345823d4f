//! What the steps at the head of a schedule make of a kernel while the others are chosen for it.

use super::Plan;
use crate::ErrorClass;
use crate::formulate::cache::axes_of;
use crate::schedule::prepare::rewritten;
use infc_ir::entity::{EntityId, ScalarId, StageId};
use infc_ir::kernel::{Kernel, Stage};
use infc_ir::scalar::ScalarOp;
use infc_ir::schedule::{Schedule, Step};

fn fresh(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut numbered = (1..).map(|n| if n == 1 { wanted.to_owned() } else { format!("{wanted}{n}") });
    numbered.find(|name| !is_taken(name)).unwrap_or_default()
}

fn fresh_axis(stage: &Stage, wanted: &str) -> String {
    fresh(wanted, |name| stage.axes.iter().any(|a| a.name == name))
}

/// The operation of a stage that is a load of another form of it.
pub(super) fn same_load(old: &Stage, load: ScalarId, new: &Stage) -> Option<ScalarId> {
    new.body.ops.iter_enumerated().find(|(_, op)| **op == old.body.ops[load]).map(|(id, _)| id)
}

/// A kernel, and the steps that have made it of another.
#[derive(Clone, Debug)]
pub(super) struct Rewritten {
    pub(super) kernel: Kernel,
    steps: Vec<Step>,
}

impl Rewritten {
    pub(super) fn of(kernel: &Kernel) -> Self {
        Self { kernel: kernel.clone(), steps: Vec::new() }
    }

    /// The steps, and those of a plan for the kernel that they have made.
    pub(super) fn scheduled(&self, plan: Schedule) -> Schedule {
        Schedule { steps: self.steps.iter().cloned().chain(plan.steps).collect() }
    }

    /// A plan for the kernel.
    pub(super) fn plan(&self) -> Plan<'_> {
        Plan::new(&self.kernel)
    }

    /// Whether results may differ is the caller's affair.
    fn step(&mut self, step: Step) -> Option<()> {
        self.kernel = rewritten(&self.kernel, &step, ErrorClass::Reassociating).ok()?;
        self.steps.push(step);
        Some(())
    }

    fn name(&self, id: StageId) -> String {
        self.kernel.stages[id].name.clone()
    }

    fn axis(&self, id: StageId, axis: usize) -> String {
        self.kernel.stages[id].axes[axis].name.clone()
    }

    fn fresh_stage(&self, wanted: &str) -> String {
        fresh(wanted, |name| self.kernel.stages.iter().any(|s| s.name == name))
    }

    /// The number of a load among those of its stage.
    fn number(&self, id: StageId, load: ScalarId) -> u32 {
        let ops = self.kernel.stages[id].body.ops.iter().take(load.index());
        ops.filter(|op| matches!(op, ScalarOp::Load(_))).count() as u32
    }

    /// See [`Step::Rfactor`]. The new stage has the id that the old one had, which follows it.
    pub(super) fn rfactor(&mut self, id: StageId, axis: usize, parts: i64) -> Option<()> {
        let stage = self.name(id);
        let into = self.fresh_stage(&format!("{stage}_parts"));
        let part = fresh_axis(&self.kernel.stages[id], "part");
        let axis = self.axis(id, axis);
        self.step(Step::Rfactor { stage, axis, parts: u32::try_from(parts).ok()?, into, part })
    }

    /// See [`Step::Pad`]; nothing is done where the axis is a multiple already.
    pub(super) fn pad(&mut self, id: StageId, axis: usize, to: i64) -> Option<()> {
        if crate::formulate::pad::is_multiple(&self.kernel, id, axis, to) {
            return Some(());
        }
        let (stage, axis) = (self.name(id), self.axis(id, axis));
        self.step(Step::Pad { stage, axis, to: u32::try_from(to).ok()? })
    }

    /// See [`Step::Round`]. Other operations of the stage may have other numbers afterwards.
    pub(super) fn round(&mut self, id: StageId, loads: &[ScalarId]) -> Option<()> {
        let before = self.kernel.stages[id].clone();
        for &load in loads {
            let load = same_load(&before, load, &self.kernel.stages[id])?;
            let (stage, load) = (self.name(id), self.number(id, load));
            self.step(Step::Round { stage, load })?;
        }
        Some(())
    }

    /// See [`Step::Cache`]; the new stage has the id that its reader had. Gives the reader's axes that it is over.
    pub(super) fn cache(&mut self, id: StageId, load: ScalarId) -> Option<Vec<usize>> {
        let reader = &self.kernel.stages[id];
        let ScalarOp::Load(what) = &reader.body.ops[load] else { return None };
        let axes = axes_of(reader, what);
        let stage = self.name(id);
        let into = self.fresh_stage(&format!("{stage}_tile"));
        self.step(Step::Cache { stage, load: self.number(id, load), into })?;
        Some(axes)
    }

    /// See [`Step::Single`]; nothing is done where there is a parallel axis already.
    pub(super) fn single(&mut self, id: StageId) -> Option<()> {
        let stage = &self.kernel.stages[id];
        if stage.axes.iter().any(|a| a.kind == infc_ir::kernel::AxisKind::Parallel) {
            return Some(());
        }
        let axis = fresh_axis(stage, "only");
        self.step(Step::Single { stage: self.name(id), axis })
    }

    /// See [`Step::Join`].
    pub(super) fn join(&mut self, id: StageId, outer: usize, inner: usize) -> Option<()> {
        let (stage, outer, inner) = (self.name(id), self.axis(id, outer), self.axis(id, inner));
        let joined = fresh_axis(&self.kernel.stages[id], &format!("{outer}_{inner}"));
        self.step(Step::Join { stage, outer, inner, joined })
    }

    /// See [`Step::Online`].
    pub(super) fn online(&mut self, keys: i64) -> Option<()> {
        self.step(Step::Online { keys: u32::try_from(keys).ok()? })
    }
}
