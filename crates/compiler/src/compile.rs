//! The whole way, as one function.

use crate::dump::{self, Dump};
use crate::fallback;
use crate::kernels::{self, Kernels, Scheduled};
use crate::program::{self, Parts};
use crate::size::size;
use crate::start;
use crate::state;
use crate::weights;
use crate::{
    CompileError, CompileOptions, KernelReport, Phase, Progress, Records, Report, Source, Target, VariantReport, entry,
};
use infc_artifact::{ArtifactBuilder, EncodedArtifact, Hash, KernelInfo, Provenance, VariantBuilder};
use infc_codegen_cpu::CompiledKernel;
use infc_frontend_onnx::{ImportOptions, Model, import};
use infc_passes::form::{self, GraphPlan};
use infc_passes::graph::{self, PassContext, PassOptions};
use std::io::Write;
use std::time::Instant;

/// A compiled model.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// The artifact, unless the compilation was to stop earlier.
    pub artifact: Option<EncodedArtifact<'static>>,
    /// The plan that was compiled, unless the compilation was to stop earlier; for comparing kernel by kernel.
    pub plan: Option<GraphPlan>,
    /// Figures.
    pub report: Report,
}

impl Compilation {
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

    fn stop(self, plan: Option<GraphPlan>) -> Compilation {
        Compilation { artifact: None, plan, report: self.report }
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
    let (targets, byte_targets) = targets(options)?;
    let dump = Dump::new(options.dump_phases.as_deref())?;
    let mut run = Run { progress, stop_after: options.stop_after, report: Report::default(), begun: Instant::now() };

    let (mut graph, provenance) = if let Some(phase) = options.start_from {
        let start = start::read(source, phase)?;
        (start.graph, Provenance { model_hash: start.model_hash, ..provenance(options) })
    } else {
        run.begin(Phase::Load);
        let model = source.load()?;
        run.report.onnx_nodes = model.graph().node.len();
        if run.end(Phase::Load, &format!("{} nodes", run.report.onnx_nodes)) {
            return Ok(run.stop(None));
        }

        run.begin(Phase::Import);
        let import_options = ImportOptions {
            dims: options.dims.clone(),
            shapes: options.shapes.clone(),
            strict: options.strict,
            custom_ops: options.custom_ops.clone(),
        };
        let graph = import(&model, &import_options)?;
        kernels::check_graph(Phase::Import, &graph)?;
        dump.graph(Phase::Import, &graph)?;
        let opset = model.opset("").unwrap_or_default();
        if run.end(Phase::Import, &format!("{} nodes, opset {opset}", run.report.onnx_nodes)) {
            return Ok(run.stop(None));
        }
        (graph, provenance_of(&model, options))
    };

    if options.start_from.is_none_or(|first| first <= Phase::Simplify) {
        run.begin(Phase::Simplify);
        let pass_options = PassOptions { allowed: options.allowed(), ..PassOptions::default() };
        graph::optimize(&mut graph, &PassContext::new(pass_options)).map_err(|source| CompileError::Pass { source })?;
        run.report.nodes = graph.order.len();
        kernels::check_graph(Phase::Simplify, &graph)?;
        dump.graph(Phase::Simplify, &graph)?;
        if run.end(Phase::Simplify, &format!("{} nodes", run.report.nodes)) {
            return Ok(run.stop(None));
        }
    }

    run.begin(Phase::Plan);
    let states = state::resolve(&mut graph, &options.states)?;
    let plan = form::form(&graph, &options.form(states)).map_err(CompileError::Form)?;
    drop(graph);
    kernels::check_graph(Phase::Plan, &plan.graph)?;
    describe_plan(&mut run.report, &plan, options);
    fallback::check(&run.report.on_host, run.report.onnx_nodes, options)?;
    dump.phase(Phase::Plan, || plan.to_string())?;
    if run.end(Phase::Plan, &plan_summary(&run.report)) {
        return Ok(run.stop(Some(plan)));
    }

    run.begin(Phase::Formulate);
    let kernels = kernels::formulate(&plan);
    run.report.distinct_kernels = kernels.distinct.len();
    dump.phase(Phase::Formulate, || dump::kernels(&kernels))?;
    if run.end(Phase::Formulate, &format!("{} distinct kernels", kernels.distinct.len())) {
        return Ok(run.stop(Some(plan)));
    }

    run.begin(Phase::Schedule);
    let mut scheduled: Vec<(Target, Vec<Scheduled>)> = Vec::new();
    for target in targets {
        let schedules = kernels::schedule(&kernels, &target, options)?;
        scheduled.push((target, schedules));
    }
    if scheduled.iter().flat_map(|(_, schedules)| schedules).any(Scheduled::multiplies_bytes) {
        for target in byte_targets {
            // In front of the level that it extends, so that it is taken where it can be.
            let level = scheduled.iter().position(|(other, _)| *other == Target::new(target.level()));
            if let Some(level) = level {
                let schedules = kernels::schedule(&kernels, &target, options)?;
                scheduled.insert(level, (target, schedules));
            }
        }
    }
    describe_records(&mut run.report, &kernels, &scheduled);
    dump.phase(Phase::Schedule, || dump::schedules(&kernels, &scheduled))?;
    if run.end(Phase::Schedule, &format!("{} targets", scheduled.len())) {
        return Ok(run.stop(Some(plan)));
    }

    run.begin(Phase::Codegen);
    let mut compiled: Vec<Vec<CompiledKernel>> = Vec::new();
    for (target, scheduled) in &scheduled {
        compiled.push(kernels::codegen(&kernels, scheduled, target)?);
    }
    dump.code(&kernels, &scheduled)?;
    let code_bytes: usize = compiled.iter().flatten().map(|f| f.function.code.len()).sum();
    if run.end(Phase::Codegen, &format!("{} KB of code", code_bytes.div_ceil(1024))) {
        return Ok(run.stop(Some(plan)));
    }

    run.begin(Phase::Weights);
    let mut builder = ArtifactBuilder::new(provenance);
    builder.entry(entry::entry(&plan)?);
    fallback::needed_custom_ops(&run.report.on_host).into_iter().for_each(|name| builder.custom_op(name.to_owned()));
    let weights = weights::add(&plan, &mut builder)?;
    run.report.weight_bytes = weights.bytes;
    run.report.original_weight_bytes = weights.original_bytes;
    if run.end(Phase::Weights, &format!("{:.1} MB", weights.bytes as f64 / 1e6)) {
        return Ok(run.stop(Some(plan)));
    }

    run.begin(Phase::Artifact);
    for ((target, scheduled), compiled) in scheduled.iter().zip(&compiled) {
        let parts = Parts { plan: &plan, kernels: &kernels, weights: &weights, scheduled, compiled };
        let program = program::program(&parts)?;
        run.report.arena_bytes = program.static_plan.as_ref().map(|p| p.arena_bytes);
        let mut variant = VariantBuilder::new(target.to_string(), &target.required_features());
        let mut report = VariantReport { target: target.to_string(), ..VariantReport::default() };
        for n in 0..kernels.distinct.len() {
            let info = kernel_info(&kernels, n, &scheduled[n], &compiled[n])?;
            report.code_bytes += compiled[n].function.code.len() as u64;
            report.kernels.push(kernel_report(&kernels, n, &info, &compiled[n]));
            variant.kernel(info, &compiled[n].function.code);
        }
        variant.program(program);
        builder.variant(variant);
        run.report.variants.push(report);
    }
    let artifact = builder.finish()?;
    run.report.artifact_bytes = artifact.len_bytes();
    run.end(Phase::Artifact, &format!("{:.1} MB", run.report.artifact_bytes as f64 / 1e6));
    Ok(Compilation { artifact: Some(artifact), plan: Some(plan), report: run.report })
}

/// The targets, and those that are for products of bytes only.
fn targets(options: &CompileOptions) -> Result<(Vec<Target>, Vec<Target>), CompileError> {
    let mut known: Vec<String> = Vec::new();
    let mut parse = |text: &String| {
        let target: Target = text.parse().map_err(|e: infc_codegen_cpu::ParseTargetError| {
            CompileError::UnknownTarget { target: text.clone(), reason: e.to_string() }
        })?;
        if known.contains(&target.to_string()) {
            return Err(CompileError::DuplicateTarget { target: text.clone() });
        }
        known.push(target.to_string());
        Ok(target)
    };
    let targets = options.targets.iter().map(&mut parse).collect::<Result<Vec<_>, _>>()?;
    // What is asked for by name need not be asked for again.
    let further = options.byte_targets.iter().filter(|text| !options.targets.contains(text));
    let byte_targets = further.map(&mut parse).collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() { Err(CompileError::NoTargets) } else { Ok((targets, byte_targets)) }
}

fn plan_summary(report: &Report) -> String {
    let Report { onnx_nodes, nodes, launches, on_host, .. } = report;
    let from = if *onnx_nodes > 0 { onnx_nodes } else { nodes };
    if on_host.is_empty() {
        format!("{from} → {launches} kernels")
    } else {
        format!("{from} → {launches} kernels, {} on the host", on_host.len())
    }
}

fn describe_plan(report: &mut Report, plan: &GraphPlan, options: &CompileOptions) {
    if report.nodes == 0 {
        report.nodes = plan.graph.order.len();
    }
    report.on_host = fallback::on_host(plan, &options.custom_ops);
    report.launches = plan.kernels.len();
    let mut fused: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    for kernel in &plan.kernels {
        *fused.entry(kernel.fused_nodes).or_default() += 1;
    }
    report.fused = fused.into_iter().collect();
    report.refusals = plan.log.refusals.iter().map(ToString::to_string).collect();
}

fn describe_records(report: &mut Report, kernels: &Kernels, scheduled: &[(Target, Vec<Scheduled>)]) {
    for (target, schedules) in scheduled {
        report.recorded_schedules += schedules.iter().filter(|scheduled| scheduled.is_recorded).count();
        for (distinct, scheduled) in kernels.distinct.iter().zip(schedules) {
            let refused = scheduled.refused.as_ref();
            report.refused_records.extend(refused.map(|why| format!("{} for {target}: {why}", distinct.kernel.name)));
        }
    }
}

/// Where the artifact comes from. Nothing of the machine or the moment.
fn provenance(options: &CompileOptions) -> Provenance {
    let infc_version = env!("CARGO_PKG_VERSION").to_owned();
    let records = Some(&options.records).filter(|records| !records.is_empty()).map(Records::fingerprint);
    Provenance { infc_version, flags: options.flags(), records: records.into_iter().collect(), ..Provenance::default() }
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
    compiled: &CompiledKernel,
) -> Result<KernelInfo, CompileError> {
    let Some(distinct) = kernels.distinct.get(n) else {
        return Err(CompileError::Internal { what: format!("kernel {n} is missing") });
    };
    Ok(KernelInfo {
        name: distinct.kernel.name.clone(),
        emitter: compiled.function.emitter.to_string(),
        vector_bits: compiled.function.vector_bits,
        origins: distinct.origins.clone(),
        schedule: scheduled.schedule.to_string(),
        macs: Some(size(&distinct.kernel.work())?),
        bytes: Some(size(&kernels::traffic(&distinct.kernel))?),
        vector_insts: u64::from(compiled.function.stats.vector_insts),
        total_insts: u64::from(compiled.function.stats.insts),
        ..KernelInfo::default()
    })
}

fn kernel_report(kernels: &Kernels, n: usize, info: &KernelInfo, compiled: &CompiledKernel) -> KernelReport {
    KernelReport {
        name: info.name.clone(),
        origins: info.origins.clone(),
        launches: kernels.of_planned.iter().filter(|&&k| k == n).count(),
        emitter: info.emitter.clone(),
        vector_bits: info.vector_bits,
        code_bytes: compiled.function.code.len() as u64,
        schedule: info.schedule.clone(),
        inner_loop_spills: compiled.function.stats.inner_loop_spills,
    }
}
