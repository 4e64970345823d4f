//! What a model comes to, worked out from its plan and the loops of its kernels: before anything is made or run.

use crate::code::VariantTarget;
use crate::kernels::{self, traffic, traffic_of};
use crate::{CompileError, CompileOptions, HostNode, Phase, Progress, Source, compile, entry, schedule_machine};
use infc_artifact::{Entry, PortSpec};
use infc_ir::entity::{EntityId, SymbolId};
use infc_ir::index::Dim;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::LoopNest;
use infc_passes::form::{BufferPlace, GraphPlan, OperandSource, PlannedKernel};
use infc_passes::schedule::{Machine, NestCost};
use infc_tensor::DType;
use std::collections::BTreeSet;

/// Cycles per second of the machine that times are told for: a server core of the last years that is kept busy.
pub const FORECAST_HERTZ: f64 = 3.5e9;

/// Bytes per second that such a core reads from memory.
const MEMORY_BYTES_PER_SECOND: f64 = 25e9;
/// What one thread has of its last-level cache.
const CACHE_BYTES: u64 = 16 << 20;
/// Bytes of vectors that such a core multiplies and adds in a cycle: on many, vectors of 512 bits take two passes.
const WIDE_BYTES: f64 = 64.0;
/// How many multiply-adds of a cycle are left where they are two instructions.
const UNFUSED: f64 = 0.7;

/// What a file has beside weights and variants, in the mean of ten networks: the manifest, and padding between sections.
const FILE_BYTES: u64 = 25 << 10;
/// Code and schedule of a kernel, for a processor (1.2 to 5.3 kB) and for GPUs (5 to 25 kB), and a step that launches one.
const KERNEL_BYTES: u64 = 3000;
const KERNEL_BYTES_OF_PTX: u64 = 11_000;
const LAUNCH_BYTES: u64 = 150;

/// Figures of a model, most of them at one choice of its dynamic dims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Nodes of the ONNX graph.
    pub onnx_nodes: usize,
    /// The ONNX nodes that run on the host instead of as kernels.
    pub on_host: Vec<String>,
    /// The loops whose steps are kernels, and that the host counts. What steps cost is in no figure but that of weights.
    pub loops: Vec<String>,
    /// The ONNX nodes for which sizes that kernels compute are read during a run.
    pub told_sizes: Vec<String>,
    /// Names and types of the inputs, types as in `f32[N, 3]`.
    pub inputs: Vec<(String, String)>,
    /// The same of the outputs.
    pub outputs: Vec<(String, String)>,
    /// The dynamic dims.
    pub dims: Vec<ForecastDim>,
    /// Kernels launched per run; this and what follows up to the arena is of GPUs where these have a plan of their own.
    pub kernels: usize,
    /// Multiply-adds of a run, or element-wise operations of kernels that have none.
    pub macs: u64,
    /// Bytes that kernels read and write in a run, each operand of a kernel once.
    pub bytes: u64,
    /// Bytes of constants.
    pub weight_bytes: u64,
    /// Bytes of the file, with code for all targets: what kernels take in the mean.
    pub artifact_bytes: u64,
    /// The most that values between kernels take at a time. The memory plan may need a little more.
    pub arena_bytes: u64,
    /// Seconds of a run on one thread, per target that is a processor, by [`NestCost`] of each kernel as it is scheduled: what the
    /// tuner is told of it, too. Weights come from memory where caches do not hold all of them. Steps on the host, and those of
    /// loops that it counts, are not among them.
    pub seconds: Vec<(String, f64)>,
}

/// A dynamic dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastDim {
    /// What the model calls it.
    pub name: String,
    /// Its least value.
    pub min: i64,
    /// Its greatest, if there is one.
    pub max: Option<i64>,
    /// What the figures suppose.
    pub value: i64,
}

/// Works out the figures. Dynamic dims have the values that `dims` gives by name, else their minimum, at least 1.
///
/// # Errors
/// As [`compile`], of the phases up to the schedule.
pub fn forecast(
    source: &Source,
    options: &CompileOptions,
    dims: &dyn Fn(&str) -> Option<i64>,
    progress: &mut dyn Progress,
) -> Result<Forecast, CompileError> {
    let options = CompileOptions { stop_after: Some(Phase::Schedule), ..options.clone() };
    let compilation = compile(source, &options, progress)?;
    let nothing = || CompileError::Internal { what: "a compilation that stops after schedules has none".to_owned() };
    let plan = compilation.plan.as_ref().ok_or_else(nothing)?;
    let entry = entry::entry(plan)?;
    let symbols: Vec<ForecastDim> = plan
        .graph
        .symbols
        .iter()
        .map(|s| {
            let value = dims(&s.name).unwrap_or_else(|| s.min.max(1));
            ForecastDim { name: s.name.clone(), min: s.min, max: s.max, value }
        })
        .collect();
    let at = |dim: &Dim| value(dim, &symbols);
    let costs = costs(plan, &at);
    let weight_bytes = weight_bytes(compilation.general_plans().chain(compilation.body_plans()));
    let mut artifact_bytes = weight_bytes + FILE_BYTES;
    let mut seconds = Vec::new();
    for (n, text) in options.targets.iter().chain(&further_targets(plan, &options)).enumerate() {
        let target: VariantTarget =
            text.parse().map_err(|reason| CompileError::UnknownTarget { target: text.clone(), reason })?;
        let plans = compilation.plans_for(text);
        let own = *plans.first().ok_or_else(nothing)?;
        let distinct = kernels::formulate(&[own]).distinct.len() as u64;
        let kernel_bytes = if target.cpu().is_some() { KERNEL_BYTES } else { KERNEL_BYTES_OF_PTX };
        artifact_bytes += distinct * kernel_bytes + own.kernels.len() as u64 * LAUNCH_BYTES;
        if target.cpu().is_some() && n < options.targets.len() {
            let kernels = own.kernels.iter().map(|planned| &planned.kernel);
            let (target, nests) = compilation.nests(text).ok_or_else(nothing)?;
            let core = Core::of(target, &options).ok_or_else(nothing)?;
            let of_symbol = |symbol: SymbolId| symbols.get(symbol.index()).map_or(1, |s| s.value);
            seconds.push((target.to_string(), core.seconds(kernels.zip(nests), &at, &of_symbol)));
        }
    }
    let nodes = |of: &[HostNode], is_so: fn(&HostNode) -> bool| {
        of.iter().filter(|host| is_so(host)).map(|host| host.node.clone()).collect()
    };
    Ok(Forecast {
        onnx_nodes: compilation.report.onnx_nodes,
        on_host: nodes(&compilation.report.on_host, |host| host.steps.is_none()),
        loops: nodes(&compilation.report.on_host, |host| host.steps.is_some()),
        told_sizes: nodes(&compilation.report.told_sizes, |_| true),
        inputs: types(&entry, &entry.inputs),
        outputs: types(&entry, &entry.outputs),
        kernels: plan.kernels.len(),
        macs: costs.iter().fold(0, |sum, cost| sum.saturating_add(cost.macs)),
        bytes: costs.iter().fold(0, |sum, cost| sum.saturating_add(cost.bytes)),
        weight_bytes,
        artifact_bytes,
        arena_bytes: arena_bytes(plan, &at),
        seconds,
        dims: symbols,
    })
}

/// What the kernels of a plan do.
fn costs(plan: &GraphPlan, at: &dyn Fn(&Dim) -> u64) -> Vec<Cost> {
    let of = |planned: &PlannedKernel| Cost { macs: at(&planned.kernel.work()), bytes: at(&traffic(&planned.kernel)) };
    plan.kernels.iter().map(of).collect()
}

/// One core that runs kernels.
struct Core {
    machine: Machine,
}

impl Core {
    fn of(target: &VariantTarget, options: &CompileOptions) -> Option<Self> {
        let name = target.to_string();
        let is_measured = options.machines.iter().any(|(of, _)| *of == name);
        let machine = schedule_machine(target.cpu()?);
        let most = WIDE_BYTES / f64::from(machine.vector_bytes);
        let usual = machine.arithmetic_per_cycle.min(most) * if machine.vector_bytes < 32 { UNFUSED } else { 1.0 };
        let arithmetic_per_cycle = if is_measured { machine.arithmetic_per_cycle } else { usual };
        Some(Self { machine: Machine { arithmetic_per_cycle, ..machine } })
    }

    /// How long kernels take, one after the other.
    fn seconds<'k>(
        &self,
        kernels: impl Iterator<Item = (&'k Kernel, &'k LoopNest)>,
        at: &dyn Fn(&Dim) -> u64,
        of_symbol: &dyn Fn(SymbolId) -> i64,
    ) -> f64 {
        let of = |(kernel, nest): (&Kernel, &LoopNest)| {
            let constants = at(&traffic_of(kernel, |kind| kind == OperandKind::Constant));
            (NestCost::of(nest, &self.machine, of_symbol), constants)
        };
        let costs: Vec<(NestCost, u64)> = kernels.map(of).collect();
        // What the next run reads again has gone from the cache by then.
        let come_anew = costs.iter().fold(0u64, |sum, (_, constants)| sum.saturating_add(*constants)) > CACHE_BYTES;
        let of = |(cost, constants): &(NestCost, u64)| {
            let constants = if come_anew { *constants as f64 } else { 0.0 };
            let from_memory = (cost.touched - CACHE_BYTES as f64).max(constants);
            (cost.cycles() / FORECAST_HERTZ).max(from_memory / MEMORY_BYTES_PER_SECOND)
        };
        costs.iter().map(of).sum()
    }
}

/// The targets that a model may get besides those that are asked for: where a kernel sums products of such numbers.
fn further_targets(plan: &GraphPlan, options: &CompileOptions) -> Vec<String> {
    let multiplies = |wanted: &[DType]| {
        let reads = |kernel: &Kernel| kernel.operands.iter().filter(|o| wanted.contains(&o.dtype)).count() >= 2;
        let sums = |kernel: &Kernel| kernel.stages.iter().any(|stage| stage.reduce_axes().next().is_some());
        plan.kernels.iter().any(|planned| sums(&planned.kernel) && reads(&planned.kernel))
    };
    let mut further = Vec::new();
    for (wanted, targets) in
        [(&[DType::I8, DType::U8][..], &options.byte_targets), (&[DType::BF16], &options.bf16_targets)]
    {
        if multiplies(wanted) {
            further.extend(targets.iter().filter(|target| !options.targets.contains(target)).cloned());
        }
    }
    further
}

/// The value of a dim; what overflows, or cannot be said, is as large as can be.
fn value(dim: &Dim, symbols: &[ForecastDim]) -> u64 {
    let symbol = |id: SymbolId| symbols.get(id.index()).map(|s| s.value);
    dim.eval(&symbol, &|_| None).map_or(u64::MAX, |value| u64::try_from(value).unwrap_or(0))
}

/// What one kernel does.
struct Cost {
    macs: u64,
    bytes: u64,
}

fn types(entry: &Entry, ports: &[PortSpec]) -> Vec<(String, String)> {
    let names: Vec<&str> = entry.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    ports.iter().map(|port| (port.name.clone(), port.type_text(&names))).collect()
}

/// Constants of some plans as they are packed, each packing once.
fn weight_bytes<'p>(plans: impl Iterator<Item = &'p GraphPlan>) -> u64 {
    let mut known = BTreeSet::new();
    let mut bytes = 0u64;
    for source in plans.flat_map(|plan| &plan.kernels).flat_map(|k| &k.operands) {
        let OperandSource::Constant(constant) = source else { continue };
        let layout = constant.packing.as_ref().map(|p| p.layout.clone());
        let tensor = &constant.constant.tensor;
        // Plans share what passes have left as it was.
        if known.insert((std::ptr::from_ref(&*constant.constant) as usize, layout)) {
            let elem_bytes = tensor.dtype().size_bytes().unwrap_or(1) as u64;
            let all = (tensor.len_elems() as u64).saturating_mul(elem_bytes);
            bytes =
                bytes.saturating_add(constant.packing.as_ref().map_or(all, |p| p.len_bytes(elem_bytes).unwrap_or(0)));
        }
    }
    bytes
}

/// The largest sum of the buffers that are in use by one kernel or across it.
fn arena_bytes(plan: &GraphPlan, at: &dyn Fn(&Dim) -> u64) -> u64 {
    let mut uses: Vec<Option<(usize, usize)>> = vec![None; plan.buffers.len()];
    for (n, planned) in plan.kernels.iter().enumerate() {
        for source in &planned.operands {
            if let OperandSource::Value(value) = source
                && let Some(place) = plan.values.get(value)
                && let Some(used) = uses.get_mut(place.buffer)
            {
                *used = Some((used.map_or(n, |(first, _)| first), n));
            }
        }
    }
    let mut change = vec![0i128; plan.kernels.len() + 1];
    for (buffer, used) in plan.buffers.iter().zip(&uses) {
        if let (BufferPlace::Arena, Some((first, last))) = (buffer.place, *used) {
            let bytes = i128::from(at(&buffer.len_elems)) * buffer.dtype.size_bytes().unwrap_or(1) as i128;
            change[first] += bytes;
            change[last + 1] -= bytes;
        }
    }
    let mut now = 0i128;
    let peak = change.iter().map(|c| {
        now += c;
        now
    });
    u64::try_from(peak.max().unwrap_or(0)).unwrap_or(u64::MAX)
}
