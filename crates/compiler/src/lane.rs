//! What targets share: the passes that their graph goes through, its plan, and the kernels of that.
//!
//! All targets share one plan, so that weights are in the file once. Graphs in half types are the exception where there are
//! processors and GPUs among the targets: tensor cores multiply halves as they are, and processors f32, so that one of them
//! would take several times as long by the plan of the other. Then there are two, and weights that lie in two ways.

use crate::bodies::{self, BodyPlan};
use crate::code::{self, Code, VariantTarget};
use crate::cuda;
use crate::dump::{self, Dump};
use crate::entry;
use crate::kernels::{self, Kernels, Scheduled};
use crate::specialize;
use crate::state;
use crate::{CompileError, CompileOptions, Phase, SpecialCase, SpecialPlan, Target};
use infc_artifact::Entry;
use infc_codegen_cpu::Feature;
use infc_ir::graph::Graph;
use infc_ir::op::HostBody;
use infc_ir::schedule::Intrinsic;
use infc_passes::form::{self, GraphPlan};
use infc_passes::graph::precision::{Which, multiplied_in_f32};
use infc_passes::graph::{self, Changed, PassContext};
use std::sync::Arc;

/// Targets that are for kernels with an operation of the machine only.
pub(crate) type Further = Vec<(Intrinsic, Vec<Target>)>;

/// Some of the targets, and what is made for them.
pub(crate) struct Lane {
    pub(crate) targets: Vec<VariantTarget>,
    further: Further,
    /// With the names of these targets alone.
    options: CompileOptions,
    dump: Dump,
    graphs: Vec<Graph>,
    /// What the last of the graphs are.
    bodies: Vec<Arc<HostBody>>,
    pub(crate) plans: Plans,
    pub(crate) kernels: Kernels,
    /// As [`Lane::targets`], with those of `further` that there is something for.
    pub(crate) scheduled: Vec<(VariantTarget, Vec<Scheduled>)>,
    pub(crate) compiled: Vec<Code>,
}

impl Lane {
    /// For all targets. The last of the graphs are those of the bodies.
    pub(crate) fn new(
        targets: Vec<VariantTarget>,
        further: Further,
        options: &CompileOptions,
        (graphs, bodies): (Vec<Graph>, Vec<Arc<HostBody>>),
        dump: Dump,
    ) -> Self {
        Self {
            targets,
            further,
            options: options.clone(),
            dump,
            graphs,
            bodies,
            plans: Plans::default(),
            kernels: Kernels::default(),
            scheduled: Vec::new(),
            compiled: Vec::new(),
        }
    }

    /// The lanes of GPUs and of processors, for the graphs as they were imported; `None` unless there are both, and halves
    /// to multiply in the graphs of this lane, which are simplified.
    pub(crate) fn apart(&self, imported: &[Graph]) -> Result<Option<[Self; 2]>, CompileError> {
        if self.halves_in_f32() == 0 {
            return Ok(None);
        }
        let is_gpu = |target: &VariantTarget| target.cpu().is_none();
        let (gpus, cpus): (Vec<_>, Vec<_>) = self.targets.iter().cloned().partition(is_gpu);
        if cpus.is_empty() {
            return Ok(None);
        }
        let of = |targets: Vec<VariantTarget>, further: Further, graphs: Vec<Graph>, dump: Dump| {
            let names = targets.iter().map(ToString::to_string).collect();
            let all = &self.options;
            let (mut byte_targets, mut bf16_targets) = (Vec::new(), Vec::new());
            if !further.is_empty() {
                (byte_targets, bf16_targets) = (all.byte_targets.clone(), all.bf16_targets.clone());
            }
            let options = CompileOptions { targets: names, byte_targets, bf16_targets, ..all.clone() };
            Self::new(targets, further, &options, (graphs, self.bodies.clone()), dump)
        };
        let mut for_gpus = of(gpus, Vec::new(), imported.to_vec(), self.dump.within("cuda")?);
        for_gpus.simplify()?;
        // What is simplified for both is so for processors.
        let for_cpus = of(cpus, self.further.clone(), self.graphs.clone(), self.dump.clone());
        Ok(Some([for_gpus, for_cpus]))
    }

    /// Products and attentions of halves that GPUs of this lane would compute in f32.
    pub(crate) fn halves_in_f32(&self) -> usize {
        let for_gpus = self.targets.iter().any(|target| target.cpu().is_none());
        if !for_gpus || self.options.strict {
            return 0;
        }
        let bodies = &self.graphs[self.graphs.len() - self.bodies.len()..];
        self.graphs.iter().take(1).chain(bodies).map(multiplied_in_f32).sum()
    }

    /// Nodes of the general graph.
    pub(crate) fn nodes(&self) -> usize {
        self.graphs.first().map_or(0, |graph| graph.order.len())
    }

    pub(crate) fn simplify(&mut self) -> Result<(), CompileError> {
        let options = &self.options;
        let first_body = self.graphs.len() - self.bodies.len();
        for (n, graph) in self.graphs.iter_mut().enumerate() {
            let is_body = n >= first_body;
            // A loop may take no step.
            let cx = PassContext::new(options.passes()).of_what_may_never_run(is_body);
            graph::optimize(graph, &cx).map_err(|source| CompileError::Pass { source })?;
            let halves = options.multiplies_halves().map(|half| (half, Which::Halves));
            for (to, which) in halves.chain(options.precision.stored().map(|to| (to, Which::Weighted))) {
                if graph::precision::run(graph, to, which) == Changed::Yes {
                    graph::optimize(graph, &cx).map_err(|source| CompileError::Pass { source })?;
                }
            }
            if let Some(blocks) = cuda::busy_blocks(&self.targets, options)
                && graph::split_k::run(graph, blocks) == Changed::Yes
            {
                graph::dce::run(graph, &cx).map_err(|source| CompileError::Pass { source })?;
            }
            if graph::blocked_scan::run(graph, !options.strict) == Changed::Yes {
                graph::dce::run(graph, &cx).map_err(|source| CompileError::Pass { source })?;
            }
            graph::tabulate::run(graph, &cx);
            kernels::check_graph(Phase::Simplify, graph)?;
            match n.checked_sub(first_body) {
                Some(body) => self.dump.body(Phase::Simplify, body, graph)?,
                None => self.dump.graph(Phase::Simplify, n, graph)?,
            }
        }
        Ok(())
    }

    pub(crate) fn plan(&mut self, cases: Vec<SpecialCase>) -> Result<(), CompileError> {
        let graphs = (std::mem::take(&mut self.graphs), std::mem::take(&mut self.bodies));
        self.plans = Plans::new(graphs, cases, &self.options)?;
        let first_body = 1 + self.plans.special.len();
        for (n, plan) in self.plans.iter().enumerate() {
            kernels::check_graph(Phase::Plan, &plan.graph)?;
            match n.checked_sub(first_body) {
                Some(body) => self.dump.of_body(Phase::Plan, body, || plan.to_string())?,
                None => self.dump.of_case(Phase::Plan, n, || plan.to_string())?,
            }
        }
        Ok(())
    }

    pub(crate) fn formulate(&mut self) -> Result<(), CompileError> {
        self.kernels = kernels::formulate(&self.plans.iter().collect::<Vec<_>>());
        self.dump.phase(Phase::Formulate, || dump::kernels(&self.kernels))
    }

    pub(crate) fn schedule(&mut self) -> Result<(), CompileError> {
        let Self { kernels, options, scheduled, .. } = self;
        for target in &self.targets {
            scheduled.push((target.clone(), kernels::schedule(kernels, target, options)?));
        }
        for (intrinsic, further) in &self.further {
            let takes = |scheduled: &Scheduled| scheduled.takes(*intrinsic);
            if !scheduled.iter().flat_map(|(_, schedules)| schedules).any(takes) {
                continue;
            }
            for target in further {
                // In front of the level that it extends, so that it is taken where it can be.
                let extended = options.with_machine(Target::new(target.level()));
                let level = scheduled.iter().position(|(other, _)| other.cpu() == Some(&extended));
                let Some(level) = level else { continue };
                let has_tiles = target.has(Feature::Amx);
                let target = VariantTarget::Cpu(target.clone());
                let schedules = kernels::schedule(kernels, &target, options)?;
                // Where nothing is multiplied in tile registers, what comes behind says the same.
                let in_tiles = |scheduled: &Scheduled| intrinsic.in_tiles().is_some_and(|tile| scheduled.takes(tile));
                if !has_tiles || schedules.iter().any(in_tiles) {
                    scheduled.insert(level, (target, schedules));
                }
            }
        }
        self.dump.phase(Phase::Schedule, || dump::schedules(kernels, scheduled))
    }

    pub(crate) fn codegen(&mut self) -> Result<(), CompileError> {
        let Self { kernels, options, scheduled, compiled, .. } = self;
        // Of GPUs the newer ones come first.
        let mut newer = None;
        for (target, scheduled) in scheduled.iter_mut() {
            let mut code = code::codegen(kernels, scheduled, target)?;
            if let (VariantTarget::Cuda(generation), Code::Cuda(code)) = (&target, &mut code) {
                let range = (*generation, newer);
                // What one generation alone runs is for none of those behind it.
                newer = if generation.is_specific() { newer } else { Some(*generation) };
                cuda::assemble(kernels, scheduled, code, range, options)?;
            }
            compiled.push(code);
        }
        self.dump.code(kernels, scheduled, compiled)
    }
}

/// The plans of a model: one for all values of its dims, one per special case, and one per body of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    pub(crate) general: Option<GraphPlan>,
    pub(crate) special: Vec<SpecialPlan>,
    pub(crate) bodies: Vec<BodyPlan>,
}

impl Plans {
    /// Of the graph in general, behind it those of the cases, and behind these those of the bodies.
    fn new(
        (graphs, bodies): (Vec<Graph>, Vec<Arc<HostBody>>),
        cases: Vec<SpecialCase>,
        options: &CompileOptions,
    ) -> Result<Self, CompileError> {
        let mut graphs = graphs.into_iter();
        let nothing = || CompileError::Internal { what: "a compilation without a graph".to_owned() };
        let mut graph = graphs.next().ok_or_else(nothing)?;
        let states = state::resolve(&mut graph, &options.states)?;
        let general = form::form(&graph, &options.form(states, None)).map_err(CompileError::Form)?;
        drop(graph);
        let mut special = Vec::with_capacity(cases.len());
        for (case, graph) in cases.into_iter().zip(&mut graphs) {
            let states = state::of_special_case(&graph, &options.states)?;
            let appends = general.states.iter().map(|state| state.append).collect();
            let plan = form::form(&graph, &options.form(states, Some(appends))).map_err(CompileError::Form)?;
            special.push(SpecialPlan { case, plan });
        }
        let mut of_bodies = Vec::with_capacity(bodies.len());
        for (body, graph) in bodies.into_iter().zip(graphs) {
            let plan = form::form(&graph, &options.form(Vec::new(), None)).map_err(CompileError::Form)?;
            of_bodies.push(BodyPlan { body, plan });
        }
        Ok(Self { general: Some(general), special, bodies: of_bodies })
    }

    /// The general one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &GraphPlan> {
        let behind = self.bodies.iter().map(|body| &body.plan);
        self.general.iter().chain(self.special.iter().map(|special| &special.plan)).chain(behind)
    }

    /// What the last plans are of.
    pub(crate) fn loop_bodies(&self) -> impl Iterator<Item = Arc<HostBody>> {
        self.bodies.iter().map(|body| Arc::clone(&body.body))
    }

    /// The entry `main`, one per special case, and one per body.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, CompileError> {
        let Some(general) = &self.general else { return Ok(Vec::new()) };
        let main = entry::entry(general)?;
        let mut entries = vec![main.clone()];
        for special in &self.special {
            entries.push(specialize::entry(entry::entry(&special.plan)?, &main, &special.case)?);
        }
        for (number, BodyPlan { plan, .. }) in self.bodies.iter().enumerate() {
            entries.push(bodies::entry(plan, number)?);
        }
        Ok(entries)
    }
}
