//! What can be asked of a compilation.

use crate::code::VariantTarget;
use crate::{CustomOps, DimChoice, MachineModel, Phase, Ptxas, Records, ShapeDim, Target, specialize};
use infc_passes::ErrorClass;
use infc_passes::form::{Append, FormOptions};
use infc_passes::graph::PassOptions;
use infc_tensor::DType;
use std::fmt;
use std::path::PathBuf;

/// What artifacts are compiled for unless somebody says otherwise: best first.
pub const DEFAULT_TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

/// What artifacts are also compiled for, each in front of its level, if the model multiplies bytes: processors with the
/// instruction that does it four at a time are several times faster there, and of other models they would get the same
/// code twice. Tile registers multiply four times as many again.
pub const BYTE_TARGETS: [&str; 3] = ["x86-64-v4+vnni+amx", "x86-64-v4+vnni", "x86-64-v3+avxvnni"];

/// What artifacts are also compiled for, in front of its level, if a schedule multiplies bfloat16 numbers in pairs: that
/// is twice as many products an instruction. Processors that have the instruction multiply bytes by one, too.
pub const BF16_TARGETS: [&str; 2] = ["x86-64-v4+vnni+bf16+amx", "x86-64-v4+vnni+bf16"];

/// In which numbers sums of products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// As the model says.
    #[default]
    F32,
    /// On GPUs with tensor cores, factors of matrix products of f32 are rounded to TF32 (11 significant bits, the range of
    /// f32) as they are multiplied, and summed in f32; in memory they stay what they are. Code for processors is that of `F32`.
    Tf32,
    /// Factors of matrix products and convolutions with weights are rounded to bfloat16 and summed in f32, and values
    /// between kernels that are such factors are stored so. What a model computes changes by that. What other products of
    /// matrices there are is multiplied as `Tf32` says.
    Bf16,
    /// The same with IEEE halves, which have three more significant bits and end at 65504: what is larger becomes infinite.
    F16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 4] = [Precision::F32, Precision::Tf32, Precision::Bf16, Precision::F16];

    /// The type that factors with weights are stored in, if it is another one than the model's.
    pub(crate) fn stored(self) -> Option<DType> {
        match self {
            Precision::F32 | Precision::Tf32 => None,
            Precision::Bf16 => Some(DType::BF16),
            Precision::F16 => Some(DType::F16),
        }
    }

    /// Whether products of f32 may have their factors rounded to TF32, which is no less exact than the halves that were
    /// asked for.
    pub(crate) fn rounds_to_tf32(self) -> bool {
        self != Precision::F32
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        })
    }
}

/// How a model is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// The processors to make code for, best first, such as `x86-64-v4+vnni`.
    pub targets: Vec<String>,
    /// Further processors to make code for if the model multiplies bytes, each in front of its level; those whose level
    /// is not among the targets are left out.
    pub byte_targets: Vec<String>,
    /// The same, if the model multiplies bfloat16 numbers.
    pub bf16_targets: Vec<String>,
    /// In which numbers sums of products are computed. Decided in phase `simplify`.
    pub precision: Precision,
    /// Values and ranges of symbolic dims, by name.
    pub dims: Vec<(String, DimChoice)>,
    /// Values of dynamic dims, by name, that the model is compiled for once more, in each combination of those of
    /// several dims, beside code for all values: a run takes what fits its inputs. All share their weights.
    pub specialize: Vec<(String, Vec<i64>)>,
    /// Shapes of inputs, by name.
    pub shapes: Vec<(String, Vec<ShapeDim>)>,
    /// Outputs that are inputs of the next run: the names of output and input.
    pub states: Vec<(String, String)>,
    /// Forbids rewrites that reassociate floating-point operations.
    pub strict: bool,
    /// Refuses a model of which nodes would run on the host instead of as kernels, unless their operators are custom ones.
    pub deny_fallback: bool,
    /// Operators that the program which runs the model brings. They are no fallback.
    pub custom_ops: CustomOps,
    /// How large the constants in the file may become, over their size in the model: padded panels, several
    /// arrangements of one constant.
    pub max_weight_growth: f64,
    /// Schedules to take instead of the default choice, and ways to form kernels.
    pub records: Records,
    /// Lists all choices of kernel formation that records can settle in the plans' logs, and not only those that records have
    /// settled.
    pub lists_choices: bool,
    /// The same, of records that ship with infc: for kernels of which `records` has none that can be taken.
    pub builtin_records: Records,
    /// The machines that schedules have in mind for targets, by name, where that is not the target's fixed model.
    pub machines: Vec<(String, MachineModel)>,
    /// The assembler that adds machine code to what is made for GPUs; without it there is PTX alone, and the same options
    /// give the same bytes everywhere.
    pub ptxas: Option<Ptxas>,
    /// Starts with this phase; the source is then what the phase before it dumped.
    pub start_from: Option<Phase>,
    /// Writes what each phase made into this folder.
    pub dump_phases: Option<PathBuf>,
    /// Ends after this phase; there is no artifact then unless it is the last one.
    pub stop_after: Option<Phase>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            targets: DEFAULT_TARGETS.map(str::to_owned).to_vec(),
            byte_targets: BYTE_TARGETS.map(str::to_owned).to_vec(),
            bf16_targets: BF16_TARGETS.map(str::to_owned).to_vec(),
            precision: Precision::default(),
            dims: Vec::new(),
            specialize: Vec::new(),
            shapes: Vec::new(),
            states: Vec::new(),
            strict: false,
            deny_fallback: false,
            custom_ops: CustomOps::default(),
            max_weight_growth: FormOptions::default().max_weight_growth,
            records: Records::default(),
            lists_choices: false,
            builtin_records: Records::default(),
            machines: Vec::new(),
            ptxas: None,
            start_from: None,
            dump_phases: None,
            stop_after: None,
        }
    }
}

fn is_gpu(target: &str) -> bool {
    matches!(target.parse(), Ok(VariantTarget::Cuda(_)))
}

/// What a GPU's memory is read by, all generations.
const GPU_LINE_BYTES: i64 = 128;

impl CompileOptions {
    /// How far rewrites and schedules may move results.
    pub(crate) fn allowed(&self) -> ErrorClass {
        if self.strict { ErrorClass::Exact } else { ErrorClass::Reassociating }
    }

    /// What kernel formation is told; `states` are those asked for, by number, and `appends` how they lie if the plan
    /// of the general case has decided that.
    pub(crate) fn form(&self, states: Vec<(usize, usize)>, appends: Option<Vec<Option<Append>>>) -> FormOptions {
        let only_gpus = self.only_gpus();
        FormOptions {
            allowed: self.allowed(),
            // Variants share the plan: what one of them cannot do none does, and what slows GPUs down is done for others.
            keeps_any_size: !self.targets.iter().any(|target| is_gpu(target)),
            attends_any_size: false,
            filters: !only_gpus,
            turns: !only_gpus,
            line_bytes: only_gpus.then_some(GPU_LINE_BYTES),
            max_weight_growth: self.max_weight_growth,
            states,
            appends,
            answers: self.records.answers(&self.target_names(), self.strict),
            lists_choices: self.lists_choices,
        }
    }

    /// The targets as records name them, further ones last.
    fn target_names(&self) -> Vec<String> {
        let parsed = |target: &String| target.parse::<VariantTarget>().map(|target| target.to_string());
        let all = self.targets.iter().chain(&self.byte_targets).chain(&self.bf16_targets);
        all.filter_map(|target| parsed(target).ok()).collect()
    }

    /// What graph passes are told.
    pub(crate) fn passes(&self) -> PassOptions {
        // A GPU is kept busy by few wide products rather than by many.
        PassOptions { allowed: self.allowed(), horizontal: self.only_gpus(), ..PassOptions::default() }
    }

    /// The half types that all targets multiply as they are.
    pub(crate) fn multiplies_halves(&self) -> impl Iterator<Item = DType> {
        [DType::F16, DType::BF16].into_iter().filter(|_| self.only_gpus())
    }

    /// Whether there is no code for processors.
    fn only_gpus(&self) -> bool {
        self.targets.iter().all(|target| is_gpu(target))
    }

    /// A target with the machine that its schedules have in mind, and what its code may do.
    pub(crate) fn with_machine(&self, mut target: Target) -> Target {
        target.flush_bf16 = self.precision == Precision::Bf16;
        let name = target.to_string();
        if let Some((_, machine)) = self.machines.iter().find(|(of, _)| *of == name) {
            target.machine = *machine;
        }
        target
    }

    /// The flags that change the result, in one order, for the artifact's provenance.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("target={}", self.targets.join(","))];
        if !self.byte_targets.is_empty() {
            flags.push(format!("byte-target={}", self.byte_targets.join(",")));
        }
        if self.precision != Precision::default() {
            flags.push(format!("precision={}", self.precision));
            if self.precision == Precision::Bf16 && !self.bf16_targets.is_empty() {
                flags.push(format!("bf16-target={}", self.bf16_targets.join(",")));
            }
        }
        let mut dims: Vec<String> = self
            .dims
            .iter()
            .map(|(name, choice)| match choice {
                DimChoice::Fixed(value) => format!("dim={name}={value}"),
                DimChoice::Range(min, Some(max)) => format!("dim={name}={min}..{max}"),
                DimChoice::Range(min, None) => format!("dim={name}={min}.."),
            })
            .collect();
        let shape_dim = |dim: &ShapeDim| match dim {
            ShapeDim::Fixed(value) => value.to_string(),
            ShapeDim::Dynamic => "?".to_owned(),
        };
        dims.extend(self.shapes.iter().map(|(name, shape)| {
            let extents: Vec<String> = shape.iter().map(shape_dim).collect();
            format!("shape={name}={}", if extents.is_empty() { "scalar".to_owned() } else { extents.join("x") })
        }));
        dims.extend(specialize::values(&self.specialize).iter().map(|(name, values)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("specialize={name}={}", values.join(","))
        }));
        dims.extend(self.states.iter().map(|(output, input)| format!("state={output}={input}")));
        dims.sort();
        flags.extend(dims);
        if self.max_weight_growth != Self::default().max_weight_growth {
            flags.push(format!("max-weight-growth={}", self.max_weight_growth));
        }
        if self.strict {
            flags.push("strict".to_owned());
        }
        flags.extend(self.machines.iter().map(|(target, machine)| format!("machine={target}:{machine}")));
        flags.extend(self.custom_ops.names().iter().map(|name| format!("custom-op={name}")));
        flags
    }
}
