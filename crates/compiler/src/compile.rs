//! The whole way, as one function.

use crate::bodies::{self, BodyPlan};
use crate::code::{Code, LaunchForm, VariantTarget};
use crate::dump::Dump;
use crate::fallback;
use crate::kernels::{self, Kernels, Scheduled};
use crate::lane::{Further, Lane, Plans};
use crate::program::{self, Parts};
use crate::size::size;
use crate::start;
use crate::taken;
use crate::weights::{self, Weights};
use crate::{
    CompileError, CompileOptions, CubinReport, HostNode, KernelReport, MAX_SPECIAL_CASES, Phase, Precision, Progress,
    Records, Report, Source, SpecialCase, SpecialCaseReport, VariantReport, specialize,
};
use infc_artifact::{ArtifactBuilder, EncodedArtifact, Entry, Hash, KernelInfo, Provenance, VariantBuilder, crossings};
use infc_frontend_onnx::{ImportOptions, Model, import, with_ranks};
use infc_ir::graph::{Graph, Node};
use infc_ir::nest::LoopNest;
use infc_ir::op::{HostBody, Op};
use infc_ir::schedule::Intrinsic;
use infc_passes::form::GraphPlan;
use infc_tensor::DType;
use std::cmp::Reverse;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// A compiled model.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// The artifact, unless the compilation was to stop earlier.
    pub artifact: Option<EncodedArtifact<'static>>,
    /// The plan that was compiled, unless the compilation was to stop earlier; for comparing kernel by kernel.
    pub plan: Option<GraphPlan>,
    /// Those of the special cases, unless the compilation was to stop earlier.
    pub special_plans: Vec<SpecialPlan>,
    /// Those of bodies of loops.
    body_plans: Vec<BodyPlan>,
    /// Where processors have plans of their own, these; `plan` and `special_plans` are those of GPUs then.
    cpu_plans: Plans,
    /// The loops of the kernels, for each target that there was time for.
    scheduled: Vec<LaneSchedules>,
    /// Figures.
    pub report: Report,
}

/// How the kernels of a lane run.
#[derive(Clone, Debug)]
struct LaneSchedules {
    /// For each kernel of the general plan, which one it is.
    of_planned: Vec<usize>,
    targets: Vec<(VariantTarget, Vec<Scheduled>)>,
}

/// The plan of a special case.
#[derive(Clone, Debug)]
pub struct SpecialPlan {
    /// Its dims and their values.
    pub case: SpecialCase,
    /// The plan.
    pub plan: GraphPlan,
}

impl Compilation {
    /// All plans: that of the general case, those of the special ones, and those of the bodies of loops that the host drives.
    #[must_use]
    pub fn plans(&self) -> Vec<&GraphPlan> {
        let special = self.special_plans.iter().map(|special| &special.plan);
        self.plan.iter().chain(special).chain(self.body_plans()).collect()
    }

    /// The same of the variant for a target.
    #[must_use]
    pub fn plans_for(&self, target: &str) -> Vec<&GraphPlan> {
        let is_for_cpu = target.parse().is_ok_and(|target: VariantTarget| target.cpu().is_some());
        if is_for_cpu && self.cpu_plans.general.is_some() { self.cpu_plans.iter().collect() } else { self.plans() }
    }

    /// The plans of the general case: one, or that of GPUs and that of processors.
    pub(crate) fn general_plans(&self) -> impl Iterator<Item = &GraphPlan> {
        self.plan.iter().chain(&self.cpu_plans.general)
    }

    /// The plans of the bodies of loops that the host drives.
    pub(crate) fn body_plans(&self) -> impl Iterator<Item = &GraphPlan> {
        self.body_plans.iter().map(|body| &body.plan)
    }

    /// What a target is for, and the loops of the kernels of the general plan for it, in order; `None` if the compilation was to
    /// stop before they are made.
    pub(crate) fn nests(&self, target: &str) -> Option<(&VariantTarget, Vec<&LoopNest>)> {
        self.scheduled.iter().find_map(|lane| {
            let (target, scheduled) = lane.targets.iter().find(|(of, _)| of.to_string() == target)?;
            Some((target, lane.of_planned.iter().map(|&n| &scheduled[n].nest).collect()))
        })
    }

    /// The artifact's bytes; none if the compilation was to stop early.
    ///
    /// # Errors
    /// None that a vector in memory could give.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CompileError> {
        Ok(self.artifact.as_ref().map(EncodedArtifact::to_vec).transpose()?.unwrap_or_default())
    }

    /// Writes the artifact; nothing if the compilation was to stop early.
    ///
    /// # Errors
    /// `artifact::cannot-write` with what the writer said.
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), CompileError> {
        match &self.artifact {
            Some(artifact) => Ok(artifact.write_to(out)?),
            None => Ok(()),
        }
    }
}

/// Times phases and decides where to stop.
struct Run<'p> {
    progress: &'p mut dyn Progress,
    stop_after: Option<Phase>,
    report: Report,
    begun: Instant,
}

impl Run<'_> {
    fn begin(&mut self, phase: Phase) {
        self.progress.begin(phase);
        self.begun = Instant::now();
    }

    /// Ends a phase; true if the compilation is to end with it.
    fn end(&mut self, phase: Phase, summary: &str) -> bool {
        let elapsed = self.begun.elapsed();
        self.report.phases.push((phase, elapsed));
        self.progress.end(phase, elapsed, summary);
        self.stop_after == Some(phase)
    }

    fn stop(self, mut lanes: Vec<Lane>) -> Compilation {
        let scheduled = lanes.iter_mut().map(|lane| LaneSchedules {
            of_planned: lane.kernels.of_planned.first().cloned().unwrap_or_default(),
            targets: std::mem::take(&mut lane.scheduled),
        });
        let scheduled = scheduled.collect();
        let mut plans = lanes.into_iter().map(|lane| lane.plans);
        let Plans { general, special, bodies } = plans.next().unwrap_or_default();
        let cpu_plans = plans.next().unwrap_or_default();
        let report = self.report;
        Compilation {
            artifact: None,
            plan: general,
            special_plans: special,
            body_plans: bodies,
            cpu_plans,
            scheduled,
            report,
        }
    }
}

/// Compiles a model.
///
/// # Errors
/// [`CompileError`]; nothing is written anywhere but, if asked for, dumps of phases.
pub fn compile(
    source: &Source,
    options: &CompileOptions,
    progress: &mut dyn Progress,
) -> Result<Compilation, CompileError> {
    let (targets, further) = targets(options)?;
    let mut cases = specialize::cases(&options.specialize)?;
    let dump = Dump::new(options.dump_phases.as_deref())?;
    let mut run = Run { progress, stop_after: options.stop_after, report: Report::default(), begun: Instant::now() };

    let (graphs, mut provenance) = if let Some(phase) = options.start_from {
        if let Some(case) = cases.first() {
            let reason = format!("the compilation starts from phase `{phase}`, and dims have their values before it");
            return Err(CompileError::BadSpecialCase { case: case.to_string(), reason });
        }
        let start = start::read(source, phase)?;
        (vec![start.graph], Provenance { model_hash: start.model_hash, ..provenance(options) })
    } else {
        run.begin(Phase::Load);
        let model = source.load()?;
        run.report.onnx_nodes = model.graph().node.len();
        if run.end(Phase::Load, &format!("{} nodes", run.report.onnx_nodes)) {
            return Ok(run.stop(Vec::new()));
        }

        run.begin(Phase::Import);
        let import_options = with_ranks(&model, &import_options(options));
        let taken = import_options.shapes.iter().filter(|shape| !options.shapes.contains(shape));
        run.report.taken_ranks = taken.map(|(name, shape)| (name.clone(), shape.len())).collect();
        let graphs = import_all(&model, &import_options, &mut cases, !options.states.is_empty())?;
        for (n, graph) in graphs.iter().enumerate() {
            kernels::check_graph(Phase::Import, graph)?;
            dump.graph(Phase::Import, n, graph)?;
        }
        let opset = model.opset("").unwrap_or_default();
        let special = if cases.is_empty() { String::new() } else { format!(", {} special cases", cases.len()) };
        if run.end(Phase::Import, &format!("{} nodes, opset {opset}{special}", run.report.onnx_nodes)) {
            return Ok(run.stop(Vec::new()));
        }
        (graphs, provenance_of(&model, options))
    };

    let bodies = bodies::of_graphs(&graphs);
    for (n, body) in bodies.iter().enumerate() {
        kernels::check_graph(Phase::Import, &body.graph)?;
        dump.body(Phase::Import, n, &body.graph)?;
    }
    let graphs: Vec<Graph> = graphs.into_iter().chain(bodies.iter().map(|body| body.graph.clone())).collect();
    // Kept where there may be a plan of their own for GPUs.
    let is_mixed = targets.iter().any(|t| t.cpu().is_some()) && targets.iter().any(|t| t.cpu().is_none());
    let imported = if is_mixed { graphs.clone() } else { Vec::new() };
    let mut together = Lane::new(targets, further, options, (graphs, bodies), dump);
    let mut lanes = Vec::new();
    if options.start_from.is_none_or(|first| first <= Phase::Simplify) {
        run.begin(Phase::Simplify);
        together.simplify()?;
        lanes.extend(together.apart(&imported)?.into_iter().flatten());
        drop(imported);
        run.report.nodes = lanes.first().unwrap_or(&together).nodes();
        if run.end(Phase::Simplify, &format!("{} nodes", run.report.nodes)) {
            return Ok(run.stop(Vec::new()));
        }
    }

    run.begin(Phase::Plan);
    let mut entries = Vec::new();
    for lane in &mut lanes {
        lane.plan(cases.clone())?;
        entries.push(lane.plans.entries()?);
    }
    // Variants are of one model as callers see it.
    let is_one = entries.windows(2).all(|pair| pair[0] == pair[1]);
    if lanes.is_empty() || !is_one {
        run.report.halves_in_f32 = if is_mixed { together.halves_in_f32() } else { 0 };
        together.plan(cases)?;
        entries = vec![together.plans.entries()?];
        lanes = vec![together];
    }
    run.report.has_gpu_plan = lanes.len() > 1;
    for lane in lanes.iter().rev() {
        describe_plans(&mut run.report, &lane.plans, options);
    }
    lanes.first().into_iter().for_each(|lane| taken::describe_choices(&mut run.report, lane.plans.iter()));
    fallback::check(&run.report.on_host, run.report.onnx_nodes, options)?;
    if run.end(Phase::Plan, &plan_summary(&run.report)) {
        return Ok(run.stop(lanes));
    }

    run.begin(Phase::Formulate);
    for lane in &mut lanes {
        lane.formulate()?;
    }
    run.report.distinct_kernels = lanes.first().map_or(0, |lane| lane.kernels.distinct.len());
    lanes.first().into_iter().for_each(|lane| describe_cases(&mut run.report, &lane.kernels));
    if run.end(Phase::Formulate, &format!("{} distinct kernels", run.report.distinct_kernels)) {
        return Ok(run.stop(lanes));
    }

    run.begin(Phase::Schedule);
    for lane in &mut lanes {
        lane.schedule()?;
        taken::describe(&mut run.report, &lane.kernels, &lane.scheduled);
    }
    let all_targets: usize = lanes.iter().map(|lane| lane.scheduled.len()).sum();
    if run.end(Phase::Schedule, &format!("{all_targets} targets")) {
        return Ok(run.stop(lanes));
    }

    run.begin(Phase::Codegen);
    for lane in &mut lanes {
        lane.codegen()?;
    }
    let code_bytes: usize = lanes.iter().flat_map(|lane| &lane.compiled).map(Code::len_bytes).sum();
    if run.end(Phase::Codegen, &format!("{} KB of code", code_bytes.div_ceil(1024))) {
        return Ok(run.stop(lanes));
    }

    run.begin(Phase::Weights);
    let records = lanes.iter().filter_map(|lane| taken::builtin_fingerprint(&lane.kernels, &lane.scheduled));
    provenance.records.extend(records);
    let mut builder = ArtifactBuilder::new(provenance);
    let entries = entries.swap_remove(0);
    for entry in &entries {
        builder.entry(entry.clone());
    }
    fallback::needed_custom_ops(&run.report.on_host).into_iter().for_each(|name| builder.custom_op(name.to_owned()));
    let all_plans: Vec<&GraphPlan> = lanes.iter().flat_map(|lane| lane.plans.iter()).collect();
    let bodies: Vec<Arc<HostBody>> = lanes.iter().flat_map(|lane| lane.plans.loop_bodies()).collect();
    let weights = weights::add(&all_plans, &bodies, &mut builder)?;
    run.report.weight_bytes = weights.first().map_or(0, |weights| weights.bytes);
    run.report.original_weight_bytes = weights.first().map_or(0, |weights| weights.original_bytes);
    if run.end(Phase::Weights, &format!("{:.1} MB", run.report.weight_bytes as f64 / 1e6)) {
        return Ok(run.stop(lanes));
    }

    run.begin(Phase::Artifact);
    let mut weights = weights.as_slice();
    for lane in &lanes {
        let of_lane;
        (of_lane, weights) = weights.split_at(lane.plans.iter().count());
        add_variants(lane, of_lane, &entries, &mut builder, &mut run.report)?;
    }
    let artifact = builder.finish()?;
    run.report.artifact_bytes = artifact.len_bytes();
    run.end(Phase::Artifact, &format!("{:.1} MB", run.report.artifact_bytes as f64 / 1e6));
    Ok(Compilation { artifact: Some(artifact), ..run.stop(lanes) })
}

/// Adds the variants of a lane to the artifact. What the report tells of all of them, it tells of the first lane.
fn add_variants(
    lane: &Lane,
    weights: &[Weights],
    entries: &[Entry],
    builder: &mut ArtifactBuilder<'static>,
    of_all: &mut Report,
) -> Result<(), CompileError> {
    let Lane { plans, kernels, .. } = lane;
    let bodies: Vec<Arc<HostBody>> = plans.loop_bodies().collect();
    let is_first = of_all.variants.is_empty();
    for ((target, scheduled), compiled) in lane.scheduled.iter().zip(&lane.compiled) {
        let features = target.required_features();
        let features: Vec<&str> = features.iter().map(String::as_str).collect();
        let mut variant = VariantBuilder::new(target.to_string(), &features);
        variant.head(compiled.head().as_bytes());
        let mut report = VariantReport { target: target.to_string(), ..VariantReport::default() };
        let mut launches: Vec<LaunchForm> = Vec::with_capacity(scheduled.len());
        for (n, scheduled) in scheduled.iter().enumerate() {
            let info = kernel_info(kernels, n, scheduled, compiled)?;
            report.code_bytes += compiled.bytes(n).len() as u64;
            report.tf32_kernels += usize::from(scheduled.takes(Intrinsic::Mma8));
            report.kernels.push(kernel_report(kernels, n, &info, compiled));
            variant.kernel(info, compiled.bytes(n));
            launches.push(compiled.launch(n, scheduled)?);
        }
        for (n, (plan, weights)) in plans.iter().zip(weights).enumerate() {
            let parts = Parts {
                plan,
                of_planned: &kernels.of_planned[n],
                weights,
                launches: &launches,
                bodies: &bodies,
                first_body: 1 + plans.special.len(),
            };
            let program = program::program(&parts)?;
            let arena_bytes = program.static_plan.as_ref().map(|p| p.arena_bytes);
            let place = match n.checked_sub(1) {
                Some(case) => of_all.special_cases.get_mut(case).map(|case| &mut case.arena_bytes),
                None => Some(&mut of_all.arena_bytes),
            };
            if let Some(place) = place.filter(|_| is_first) {
                *place = arena_bytes;
            }
            if let (VariantTarget::Cuda(_), 0, Some(entry)) = (target, n, entries.first()) {
                report.crossings = crossings(entry, &program);
                report.crossings.retain(|crossing| !crossing.is_port(entry, &program));
            }
            variant.program(program);
        }
        if let Code::Cuda(code) = compiled {
            report.unknown_generations = code.unknown.iter().map(ToString::to_string).collect();
            for cubin in &code.cubins {
                let (generation, bytes) = (cubin.generation.to_string(), cubin.image.len() as u64);
                report.cubins.push(CubinReport { generation, bytes });
                variant.cubin(cubin.generation.capability(), cubin.image.clone());
            }
        }
        builder.variant(variant);
        of_all.variants.push(report);
    }
    Ok(())
}

/// What of the options the import asks for.
fn import_options(options: &CompileOptions) -> ImportOptions {
    ImportOptions {
        dims: options.dims.clone(),
        shapes: options.shapes.clone(),
        strict: options.strict,
        custom_ops: options.custom_ops.clone(),
        extents_differ: false,
    }
}

/// The model's graph in general, and behind it those of the cases; to these come cases of values that graphs leave out.
fn import_all(
    model: &Model,
    import_options: &ImportOptions,
    cases: &mut Vec<SpecialCase>,
    has_states: bool,
) -> Result<Vec<Graph>, CompileError> {
    let mut graphs = vec![import(model, import_options)?];
    for case in &*cases {
        specialize::check(&graphs[0], case)?;
        let graph = import(model, &specialize::import_options(import_options, case));
        let graph = graph.map_err(|error| specialize::failed(case, &error))?;
        if let Some(reason) = specialize::unlike(&graphs[0], &graph) {
            return Err(CompileError::BadSpecialCase { case: case.to_string(), reason });
        }
        graphs.push(graph);
    }
    let usual = specialize::usual(&graphs[0]);
    if cases.is_empty() && !usual.dims.is_empty() && specialize::check(&graphs[0], &usual).is_ok() {
        // As of those below, nobody has asked for it.
        if let Some(graph) = unasked(model, import_options, &usual, &graphs[0]) {
            graphs.push(graph);
            cases.push(usual);
        }
    }
    let is_small = specialize::is_small(model.graph());
    let general = SpecialCase::default();
    let mut further = Vec::new();
    let mut at = 0;
    while at < graphs.len() {
        let of = if at == 0 { &general } else { &cases[at - 1] };
        let left_out: Vec<SpecialCase> =
            specialize::left_out(&graphs[at], is_small).into_iter().map(|dim| of.with(dim)).collect();
        for case in left_out {
            let is_known = cases.contains(&case) || further.contains(&case);
            if is_known || cases.len() + further.len() >= MAX_SPECIAL_CASES {
                continue;
            }
            // Nobody has asked for these: what the model is not for either is left to the requirement.
            if let Some(graph) = unasked(model, import_options, &case, &graphs[0]) {
                graphs.push(graph);
                further.push(case);
            }
        }
        cases.append(&mut further);
        at += 1;
    }
    let has_room = cases.len() < MAX_SPECIAL_CASES;
    if is_small && has_room && !has_states && graphs.iter().any(specialize::differ) {
        let options = ImportOptions { extents_differ: true, ..import_options.clone() };
        // Where the host has to compute more for it, nobody has asked for that.
        let on_host = |graph: &Graph| graph.order.iter().filter(|&&n| matches!(graph.nodes[n].op, Op::Host(_))).count();
        let other = unasked(model, &options, &general, &graphs[0]);
        if let Some(graph) = other.filter(|graph| on_host(graph) <= on_host(&graphs[0])) {
            graphs.push(graph);
            cases.push(general);
        }
    }
    // A run takes the first case that fits it: those that say more come before those that they are cases of.
    let special = graphs.split_off(1);
    let mut special: Vec<(SpecialCase, Graph)> = cases.drain(..).zip(special).collect();
    special.sort_by_key(|(case, _)| Reverse(case.dims.len()));
    for (case, graph) in special {
        cases.push(case);
        graphs.push(graph);
    }
    Ok(graphs)
}

/// The graph of a case that nobody has asked for, if there can be one.
fn unasked(model: &Model, options: &ImportOptions, case: &SpecialCase, general: &Graph) -> Option<Graph> {
    let graph = import(model, &specialize::import_options(options, case)).ok()?;
    specialize::unlike(general, &graph).is_none().then_some(graph)
}

fn target(text: &str) -> Result<VariantTarget, CompileError> {
    text.parse().map_err(|reason| CompileError::UnknownTarget { target: text.to_owned(), reason })
}

/// Checks the name of a target, of a processor or a GPU.
///
/// # Errors
/// [`CompileError::UnknownTarget`].
pub fn check_target(text: &str) -> Result<(), CompileError> {
    target(text).map(drop)
}

/// The targets, and further ones: those for an operation that better processors have come first.
fn targets(options: &CompileOptions) -> Result<(Vec<VariantTarget>, Further), CompileError> {
    let mut known: Vec<String> = Vec::new();
    let mut parse = |text: &String| {
        let target = target(text)?;
        if known.contains(&target.to_string()) {
            return Err(CompileError::DuplicateTarget { target: text.clone() });
        }
        known.push(target.to_string());
        Ok(match target {
            VariantTarget::Cpu(target) => VariantTarget::Cpu(options.with_machine(target)),
            other @ VariantTarget::Cuda(_) => other,
        })
    };
    let mut targets = options.targets.iter().map(&mut parse).collect::<Result<Vec<_>, _>>()?;
    // A GPU is preferred to the processor wherever it stands in the list: whoever asks for code for it wants it used.
    // Of GPUs the newest comes first, since what is made for older ones runs there, too.
    targets.sort_by_key(VariantTarget::preference);
    let mut further = Vec::new();
    for (intrinsic, texts) in [(Intrinsic::Dot2, &options.bf16_targets), (Intrinsic::Dot4, &options.byte_targets)] {
        // What is asked for by name need not be asked for again.
        let texts = texts.iter().filter(|text| !options.targets.contains(text));
        let parsed = texts.map(&mut parse).collect::<Result<Vec<_>, _>>()?;
        further.push((intrinsic, parsed.iter().filter_map(VariantTarget::cpu).cloned().collect()));
    }
    let for_gpus = targets.iter().any(|target| matches!(target, VariantTarget::Cuda(_)));
    match (targets.is_empty(), options.precision) {
        (true, _) => Err(CompileError::NoTargets),
        (false, Precision::Tf32) if !for_gpus => {
            Err(CompileError::Precision { precision: Precision::Tf32, targets: options.targets.clone() })
        }
        _ => Ok((targets, further)),
    }
}

fn plan_summary(report: &Report) -> String {
    let Report { onnx_nodes, nodes, launches, on_host, .. } = report;
    let from = if *onnx_nodes > 0 { onnx_nodes } else { nodes };
    let loops = on_host.iter().filter(|host| host.steps.is_some()).count();
    let mut summary = format!("{from} → {launches} kernels");
    for (count, what) in [(loops, "loops of kernels"), (on_host.len() - loops, "on the host")] {
        if count > 0 {
            summary += &format!(", {count} {what}");
        }
    }
    summary
}

/// Adds nodes that are not there yet. Of loops that plans have in several ways, the one of which kernels do least counts.
fn add_new(known: &mut Vec<HostNode>, nodes: Vec<HostNode>) {
    for node in nodes {
        match known.iter_mut().find(|other| other.node == node.node && other.op_type == node.op_type) {
            Some(other) => other.steps = other.steps.min(node.steps),
            None => known.push(node),
        }
    }
}

fn describe_plans(report: &mut Report, plans: &Plans, options: &CompileOptions) {
    let Some(plan) = &plans.general else { return };
    if report.nodes == 0 {
        report.nodes = plan.graph.order.len();
    }
    let bodies: Vec<Arc<HostBody>> = plans.loop_bodies().collect();
    for plan in plans.iter() {
        let (on_host, told_sizes) = fallback::on_host(plan, &bodies, &options.custom_ops);
        add_new(&mut report.on_host, on_host);
        add_new(&mut report.told_sizes, told_sizes);
    }
    let unranked = plan.graph.inputs.iter().filter(|port| plan.graph.is_unranked(port));
    report.unranked = unranked.map(|port| port.name.clone()).collect();
    report.launches = plan.kernels.len();
    let bodies = plans.bodies.iter().map(|body| &body.plan);
    let with_bodies = std::iter::once(plan).chain(bodies);
    report.rounded_contractions = with_bodies.map(|plan| rounded_contractions(&plan.graph, options.precision)).sum();
    let mut fused: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    for kernel in &plan.kernels {
        *fused.entry(kernel.fused_nodes).or_default() += 1;
    }
    report.fused = fused.into_iter().collect();
    report.refusals = plan.log.refusals.iter().map(ToString::to_string).collect();
    let case = |special: &SpecialPlan| SpecialCaseReport {
        case: special.case.clone(),
        launches: special.plan.kernels.len(),
        ..SpecialCaseReport::default()
    };
    report.special_cases = plans.special.iter().map(case).collect();
}

/// Counts the sums, in f32, of products of the numbers of 16 bits that were asked for, those of a step of recurrences too.
fn rounded_contractions(graph: &Graph, precision: Precision) -> usize {
    let ty = |value| graph.ty(value).dtype;
    let rounded = |node: &Node| match (&node.op, &node.inputs[..], &node.outputs[..]) {
        (Op::Contract(_), &[a, b], &[sum]) => {
            usize::from(ty(sum) == DType::F32 && [ty(a), ty(b)].map(Some) == [precision.stored(); 2])
        }
        (Op::Recurrence(recurrence), ..) => rounded_contractions(&recurrence.body, precision),
        _ => 0,
    };
    graph.order.iter().map(|&id| rounded(&graph.nodes[id])).sum()
}

/// Counts the kernels that each special case adds.
fn describe_cases(report: &mut Report, kernels: &Kernels) {
    let mut plans = kernels.of_planned.iter();
    let mut known: std::collections::BTreeSet<usize> = plans.next().into_iter().flatten().copied().collect();
    for (case, of_case) in report.special_cases.iter_mut().zip(plans) {
        case.own_kernels = of_case.iter().filter(|&&kernel| known.insert(kernel)).count();
    }
}

/// Where the artifact comes from. Nothing of the machine or the moment.
fn provenance(options: &CompileOptions) -> Provenance {
    let infc_version = env!("CARGO_PKG_VERSION").to_owned();
    let records = Some(&options.records).filter(|records| !records.is_empty()).map(Records::fingerprint);
    let assembler = options.ptxas.as_ref().map(|ptxas| format!("ptxas {}", ptxas.version()));
    let (flags, records) = (options.flags(), records.into_iter().collect());
    Provenance { infc_version, flags, records, assembler, ..Provenance::default() }
}

/// The same, of an ONNX model.
fn provenance_of(model: &Model, options: &CompileOptions) -> Provenance {
    let mut hasher = blake3::Hasher::new();
    hasher.update(model.bytes());
    for (path, bytes) in model.data_files() {
        // File names count, folders do not.
        hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(Hash::of(bytes).0.as_slice());
    }
    let proto = model.proto();
    let producer = [proto.producer_name(), proto.producer_version()].join(" ").trim().to_owned();
    Provenance { model_hash: hasher.finalize().to_hex().to_string(), producer, ..provenance(options) }
}

fn kernel_info(
    kernels: &Kernels,
    n: usize,
    scheduled: &Scheduled,
    compiled: &Code,
) -> Result<KernelInfo, CompileError> {
    let Some(distinct) = kernels.distinct.get(n) else {
        return Err(CompileError::Internal { what: format!("kernel {n} is missing") });
    };
    Ok(KernelInfo {
        name: distinct.kernel.name.clone(),
        origins: distinct.origins.clone(),
        schedule: scheduled.schedule.to_string(),
        macs: Some(size(&distinct.kernel.work())?),
        bytes: Some(size(&kernels::traffic(&distinct.kernel))?),
        ..compiled.info(n)?
    })
}

fn kernel_report(kernels: &Kernels, n: usize, info: &KernelInfo, compiled: &Code) -> KernelReport {
    KernelReport {
        name: info.name.clone(),
        origins: info.origins.clone(),
        launches: kernels.of_planned.iter().flatten().filter(|&&k| k == n).count(),
        emitter: info.emitter.clone(),
        vector_bits: info.vector_bits,
        code_bytes: compiled.bytes(n).len() as u64,
        schedule: info.schedule.clone(),
        inner_loop_spills: compiled.inner_loop_spills(n),
        spill_bytes: compiled.spill_bytes(n),
    }
}
