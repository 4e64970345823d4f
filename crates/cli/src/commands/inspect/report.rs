//! What is told of an artifact; its JSON form is the one that scripts read.

use crate::error::CliError;
use crate::failure::Failure;
use crate::host;
use crate::sizes;
use crate::special_case::symbols_by_name;
use crate::tables::value;
use infc_artifact::{
    Artifact, ArtifactError, BindingSource, Crossing, Entry, MemoryPlan, PortSpec, Program, Side as CopySide, Slot,
    Step, VariantBody, VariantInfo, crossings,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Report {
    schema: &'static str,
    pub(super) artifact: String,
    pub(super) format: String,
    pub(super) bytes: u64,
    /// Whether all hashes were compared, not only those of what is shown.
    pub(super) verified: bool,
    pub(super) sections: Vec<SectionReport>,
    pub(super) entries: Vec<EntryReport>,
    pub(super) variants: Vec<VariantSummary>,
    /// Details of one variant.
    pub(super) variant: Option<VariantReport>,
    pub(super) weights: WeightsReport,
    /// The custom operators that a program needs to run it.
    pub(super) custom_ops: Vec<String>,
    pub(super) provenance: ProvenanceReport,
}

#[derive(Serialize)]
pub(super) struct SectionReport {
    pub(super) index: usize,
    pub(super) kind: String,
    /// The variant it belongs to.
    pub(super) target: Option<String>,
    /// Of machine code for GPUs, the generation that runs it.
    pub(super) generation: Option<String>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) schema: u32,
    pub(super) hash: String,
}

#[derive(Serialize)]
pub(super) struct EntryReport {
    pub(super) name: String,
    /// If it is another entry at fixed values of some of its dims: those, else `None`.
    pub(super) special_case: Option<BTreeMap<String, i64>>,
    pub(super) inputs: Vec<PortReport>,
    pub(super) outputs: Vec<PortReport>,
    pub(super) symbols: Vec<SymbolReport>,
    /// What is carried from run to run.
    pub(super) states: Vec<StateReport>,
    /// The dim along which large batches are run in slices.
    pub(super) slices: Option<String>,
}

#[derive(Serialize)]
pub(super) struct StateReport {
    pub(super) output: String,
    pub(super) input: String,
    /// Whether input and output are one memory.
    pub(super) in_place: bool,
    /// If it grows there, the axis and the largest extent.
    pub(super) append: Option<(u32, u64)>,
}

#[derive(Serialize)]
pub(super) struct PortReport {
    pub(super) name: String,
    pub(super) r#type: String,
}

#[derive(Serialize)]
pub(super) struct SymbolReport {
    pub(super) name: String,
    pub(super) min: i64,
    pub(super) max: Option<i64>,
    /// Where its value is read: `image[0]`; empty if the model computes it.
    pub(super) from: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct VariantSummary {
    pub(super) target: String,
    pub(super) required_features: Vec<String>,
    pub(super) runs_here: bool,
    pub(super) code_bytes: u64,
    pub(super) program_bytes: u64,
    #[serde(flatten)]
    pub(super) work: Work,
}

/// What one run of the default entry does, and how much of it in kernels of the wide emitter.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Work {
    /// Multiply-accumulates of all launches.
    pub(super) all_macs: u64,
    pub(super) wide_macs: u64,
    /// Bytes that they read and write at least.
    pub(super) all_bytes: u64,
    pub(super) wide_bytes: u64,
}

impl Work {
    fn of(kernels: &[KernelReport]) -> Self {
        let mut work = Self::default();
        for kernel in kernels {
            let times = |count: Option<u64>| count.unwrap_or(0).saturating_mul(kernel.launches as u64);
            let (macs, bytes) = (times(kernel.macs), times(kernel.bytes));
            work.all_macs = work.all_macs.saturating_add(macs);
            work.all_bytes = work.all_bytes.saturating_add(bytes);
            if kernel.emitter == "wide" {
                work.wide_macs = work.wide_macs.saturating_add(macs);
                work.wide_bytes = work.wide_bytes.saturating_add(bytes);
            }
        }
        work
    }
}

#[derive(Serialize)]
pub(super) struct VariantReport {
    pub(super) target: String,
    /// The sizes of the dynamic dims that sizes and the memory plan are told for.
    pub(super) dims: BTreeMap<String, i64>,
    pub(super) kernels: Vec<KernelReport>,
    pub(super) programs: Vec<ProgramReport>,
    #[serde(flatten)]
    pub(super) work: Work,
}

#[derive(Serialize)]
pub(super) struct KernelReport {
    pub(super) name: String,
    pub(super) emitter: String,
    pub(super) vector_bits: u32,
    /// How often a run of the default entry launches it.
    pub(super) launches: usize,
    pub(super) code_bytes: u64,
    pub(super) vector_insts: u64,
    pub(super) total_insts: u64,
    pub(super) macs: Option<u64>,
    pub(super) bytes: Option<u64>,
    /// Of the multiply-accumulates and bytes of a run, the part that all launches of this kernel have.
    pub(super) macs_share: Option<f64>,
    pub(super) bytes_share: Option<f64>,
    pub(super) origins: Vec<String>,
    pub(super) schedule: String,
}

#[derive(Serialize)]
pub(super) struct ProgramReport {
    pub(super) entry: String,
    pub(super) launches: usize,
    pub(super) copies: usize,
    /// Operators that no kernel computes.
    pub(super) host: Vec<HostReport>,
    /// Of a variant for GPUs, what a run copies between host and GPU.
    pub(super) crossings: Vec<CrossingReport>,
    pub(super) memory: MemoryReport,
}

#[derive(Serialize)]
pub(super) struct CrossingReport {
    /// The step that it happens before; the number of steps if that is the end of the run.
    pub(super) step: usize,
    pub(super) slot: usize,
    /// `host` or `gpu`.
    pub(super) to: &'static str,
    /// `None` if the dims are not known.
    pub(super) bytes: Option<u64>,
    /// Whether every run has it: an input or an output of the model.
    #[serde(skip)]
    pub(super) is_port: bool,
}

#[derive(Serialize)]
pub(super) struct HostReport {
    /// Index of the step.
    pub(super) step: usize,
    pub(super) op_type: String,
    pub(super) domain: String,
    pub(super) opset: i64,
    pub(super) origins: Vec<String>,
    /// Why no kernel computes it.
    pub(super) reason: String,
    /// Of a loop whose steps are kernels, the index of the entry that they are.
    pub(super) steps: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct MemoryReport {
    /// The arena that all intermediate values live in.
    pub(super) arena_bytes: u64,
    /// What any plan needs at least.
    pub(super) lower_bound_bytes: u64,
    /// What the values would take side by side.
    pub(super) unshared_bytes: u64,
    pub(super) slots: Vec<SlotReport>,
}

#[derive(Serialize)]
pub(super) struct SlotReport {
    pub(super) slot: usize,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
    /// The slot that it shares its place with.
    pub(super) alias: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct WeightsReport {
    pub(super) count: usize,
    pub(super) bytes: u64,
    pub(super) records: Vec<WeightReport>,
}

#[derive(Serialize)]
pub(super) struct WeightReport {
    pub(super) name: String,
    pub(super) original_names: Vec<String>,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: u64,
    pub(super) layout: String,
    pub(super) recipe: String,
    pub(super) encoding: String,
}

#[derive(Serialize)]
pub(super) struct ProvenanceReport {
    pub(super) infc_version: String,
    pub(super) model_hash: String,
    pub(super) producer: String,
    pub(super) flags: Vec<String>,
    pub(super) records: Vec<String>,
    pub(super) assembler: Option<String>,
}

impl Report {
    pub(super) fn new(
        path: &Path,
        artifact: &Artifact<'_>,
        len_bytes: usize,
        target: Option<&str>,
        dims: &[String],
        verified: bool,
    ) -> Result<Self, Failure> {
        let manifest = artifact.manifest();
        let (major, minor) = artifact.container().format();
        let chosen = choose(artifact, target)?;
        let symbols = symbol_values(manifest.entries.first(), dims)?;
        let variant = chosen
            .map(|index| {
                let body = artifact.variant(index)?;
                VariantReport::new(&manifest.variants[index].target, &body, &manifest.entries, &symbols)
            })
            .transpose()?;
        let section_bytes = |index: u32| {
            artifact.container().sections().get(index as usize).map_or(0, |section| section.range.len() as u64)
        };
        let variants = manifest.variants.iter().enumerate().map(|(index, info)| {
            Ok(VariantSummary {
                target: info.target.clone(),
                required_features: info.required_features.clone(),
                runs_here: runs_here(info),
                code_bytes: section_bytes(info.code_section),
                program_bytes: section_bytes(info.program_section),
                work: Work::of(&kernel_reports(&artifact.variant(index)?, &manifest.entries, &symbols)),
            })
        });
        let variants = variants.collect::<Result<_, ArtifactError>>()?;
        let records: Vec<WeightReport> = manifest.weights.iter().map(WeightReport::new).collect();
        let weight_sections = || artifact.container().sections().iter().filter(|s| s.kind.name() == Some("weights"));
        let provenance = &manifest.provenance;
        Ok(Self {
            schema: "infc.inspect/1",
            artifact: path.display().to_string(),
            format: format!("{major}.{minor}"),
            bytes: len_bytes as u64,
            verified,
            sections: sections(artifact),
            entries: manifest.entries.iter().map(|entry| EntryReport::new(entry, &manifest.entries)).collect(),
            variants,
            variant,
            weights: WeightsReport {
                count: records.len(),
                bytes: weight_sections().map(|section| section.range.len() as u64).sum(),
                records,
            },
            custom_ops: manifest.custom_ops.clone(),
            provenance: ProvenanceReport {
                infc_version: provenance.infc_version.clone(),
                model_hash: provenance.model_hash.clone(),
                producer: provenance.producer.clone(),
                flags: provenance.flags.clone(),
                records: provenance.records.clone(),
                assembler: provenance.assembler.clone(),
            },
        })
    }
}

fn runs_here(info: &VariantInfo) -> bool {
    host::runs(&info.target, info.required_features.iter().map(String::as_str))
}

/// The variant to tell of; `None` if there is none at all.
pub(super) fn choose(artifact: &Artifact<'_>, target: Option<&str>) -> Result<Option<usize>, ArtifactError> {
    let variants = &artifact.manifest().variants;
    let Some(wanted) = target else {
        let runs = variants.iter().position(runs_here);
        return Ok(runs.or(if variants.is_empty() { None } else { Some(0) }));
    };
    let found = variants.iter().position(|info| info.target == wanted);
    found.map(Some).ok_or_else(|| no_such_target(artifact, wanted))
}

pub(super) fn no_such_target(artifact: &Artifact<'_>, wanted: &str) -> ArtifactError {
    let targets: Vec<&str> = artifact.manifest().variants.iter().map(|info| info.target.as_str()).collect();
    ArtifactError::NoSuchTarget { wanted: wanted.to_owned(), available: targets.join(", ") }
}

/// The values of the entry's symbols: what the user says, else [`sizes::least`].
pub(super) fn symbol_values(entry: Option<&Entry>, dims: &[String]) -> Result<Vec<i64>, CliError> {
    let symbols = entry.map_or(&[][..], |entry| &entry.symbols);
    let mut said: Vec<Option<i64>> = vec![None; symbols.len()];
    for text in dims {
        let parsed = text.rsplit_once('=').and_then(|(name, value)| Some((name, value.parse::<i64>().ok()?)));
        let Some((name, value)) = parsed.filter(|&(_, value)| value >= 0) else {
            return Err(CliError::usage(format!("--dim `{text}`: expected SYM=N, a name and a size")));
        };
        let index = symbols.iter().position(|symbol| symbol.name == name);
        let index = index.ok_or_else(|| CliError::usage(format!("--dim: there is no dynamic dim `{name}`")))?;
        said[index] = Some(value);
    }
    Ok(entry.map(|entry| sizes::least(entry, &said)).unwrap_or_default())
}

fn sections(artifact: &Artifact<'_>) -> Vec<SectionReport> {
    let variants = &artifact.manifest().variants;
    let owner = |index: usize| {
        variants.iter().find(|info| info.program_section as usize == index || info.code_section as usize == index)
    };
    // What cannot be read belongs to nobody here; `--verify` and a loader say what is wrong with it.
    let cubins: Vec<(usize, &str, String)> = (0..)
        .zip(variants)
        .flat_map(|(n, info)| artifact.cubins(n).unwrap_or_default().into_iter().map(move |cubin| (cubin, info)))
        .map(|(cubin, info)| (cubin.section, info.target.as_str(), format!("sm_{}", cubin.capability)))
        .collect();
    let cubin = |index: usize| cubins.iter().find(|(section, ..)| *section == index);
    let sections = artifact.container().sections().iter().enumerate();
    sections
        .map(|(index, section)| SectionReport {
            index,
            kind: section.kind.name().map_or_else(|| format!("unknown kind {}", section.kind.0), str::to_owned),
            target: owner(index)
                .map(|info| info.target.clone())
                .or_else(|| cubin(index).map(|(_, target, _)| (*target).to_owned())),
            generation: cubin(index).map(|(_, _, generation)| generation.clone()),
            offset: section.range.start as u64,
            bytes: section.range.len() as u64,
            schema: section.schema,
            hash: section.hash.to_string(),
        })
        .collect()
}

impl EntryReport {
    fn new(entry: &Entry, entries: &[Entry]) -> Self {
        let special_case = entry.specializes.as_ref().map(|case| {
            let names = entries[case.general as usize].symbol_names();
            case.fixed.iter().map(|fixed| (names[fixed.symbol as usize].to_owned(), fixed.value)).collect()
        });
        let names = entry.symbol_names();
        let port = |port: &PortSpec| PortReport { name: port.name.clone(), r#type: port.type_text(&names) };
        let from = |symbol: usize| {
            let bindings = entry.bindings.iter().filter(|binding| binding.symbol as usize == symbol);
            let input = |n: u32| entry.inputs.get(n as usize).map_or("?", |input| &input.name);
            let place = |binding: &infc_artifact::Binding| match &binding.source {
                BindingSource::Axis { input: n, axis } | BindingSource::State { input: n, axis, .. } => {
                    format!("{}[{axis}]", input(*n))
                }
                BindingSource::Element { input: n, index } => format!("element {index} of {}", input(*n)),
                BindingSource::Nearest { input: n, index } => format!("element {index} of {}, nearly", input(*n)),
                BindingSource::Computed(value) => value.to_text(&names),
            };
            bindings.map(place).collect()
        };
        let symbols = entry.symbols.iter().enumerate().map(|(index, symbol)| SymbolReport {
            name: symbol.name.clone(),
            min: symbol.min,
            max: symbol.max,
            from: from(index),
        });
        Self {
            name: entry.name.clone(),
            special_case,
            inputs: entry.inputs.iter().map(port).collect(),
            outputs: entry.outputs.iter().map(port).collect(),
            symbols: symbols.collect(),
            states: entry.state.iter().map(|pair| StateReport::new(entry, pair)).collect(),
            slices: entry.slices.and_then(|symbol| Some((*names.get(symbol as usize)?).to_owned())),
        }
    }
}

impl StateReport {
    fn new(entry: &Entry, pair: &infc_artifact::StatePair) -> Self {
        let (output, input) = (&entry.outputs[pair.output as usize], &entry.inputs[pair.input as usize]);
        let grown = pair.append.filter(|_| !entry.is_replaced_in_place(pair));
        let append = grown.map(|append| (append.axis, append.capacity));
        Self { output: output.name.clone(), input: input.name.clone(), in_place: pair.append.is_some(), append }
    }
}

impl VariantReport {
    fn new(target: &str, body: &VariantBody, entries: &[Entry], symbols: &[i64]) -> Result<Self, Failure> {
        let names = entries.first().map(Entry::symbol_names).unwrap_or_default();
        let mut kernels = kernel_reports(body, entries, symbols);
        let work = Work::of(&kernels);
        for kernel in &mut kernels {
            let share = |count: Option<u64>, all: u64| {
                let times = count? as f64 * kernel.launches as f64;
                (all > 0).then(|| times / all as f64)
            };
            kernel.macs_share = share(kernel.macs, work.all_macs);
            kernel.bytes_share = share(kernel.bytes, work.all_bytes);
        }
        let programs = body.programs.iter().zip(entries).enumerate().map(|(index, (program, entry))| {
            let on_gpu = body.kernels.iter().any(|kernel| kernel.device.is_some());
            ProgramReport::new(entry, program, &symbols_of(index, entry, entries, symbols), on_gpu)
        });
        Ok(Self {
            target: target.to_owned(),
            dims: names.iter().zip(symbols).map(|(name, &value)| ((*name).to_owned(), value)).collect(),
            programs: programs.collect::<Result<_, Failure>>()?,
            kernels,
            work,
        })
    }
}

/// The values of an entry's symbols, given those of the first entry's: a special case has the same but for its own,
/// others are told at their minimum.
fn symbols_of(index: usize, entry: &Entry, entries: &[Entry], symbols: &[i64]) -> Vec<i64> {
    match (index, &entry.specializes) {
        (0, _) => symbols.to_vec(),
        (_, Some(_)) => symbols_by_name(entry, &entries[0], symbols),
        (_, None) => sizes::least(entry, &[]),
    }
}

/// All kernels of a variant; what they do at the given values of the first entry's symbols, as the compiler described
/// it.
fn kernel_reports(body: &VariantBody, entries: &[Entry], symbols: &[i64]) -> Vec<KernelReport> {
    let mut launches = vec![0usize; body.kernels.len()];
    // A kernel tells of its work over the symbols of an entry that launches it.
    let mut symbols_of_kernel: Vec<Option<Vec<i64>>> = vec![None; body.kernels.len()];
    for (index, (program, entry)) in body.programs.iter().zip(entries).enumerate() {
        for step in &program.steps {
            if let Step::Launch(launch) = step
                && let Some(known) = symbols_of_kernel.get_mut(launch.kernel as usize)
                && known.is_none()
            {
                *known = Some(symbols_of(index, entry, entries, symbols));
            }
        }
    }
    for step in body.programs.first().into_iter().flat_map(|program| &program.steps) {
        if let Step::Launch(launch) = step
            && let Some(count) = launches.get_mut(launch.kernel as usize)
        {
            *count += 1;
        }
    }
    let evaluated = |size: &Option<infc_artifact::SizeExpr>, symbols: &Option<Vec<i64>>| {
        value(size.as_ref()?, symbols.as_deref().unwrap_or_default())
    };
    let kernels = body.kernels.iter().zip(&launches).zip(&symbols_of_kernel);
    let kernels = kernels.map(|((info, &launches), symbols)| KernelReport {
        name: info.name.clone(),
        emitter: info.emitter.clone(),
        vector_bits: info.vector_bits,
        launches,
        code_bytes: info.code_len,
        vector_insts: info.vector_insts,
        total_insts: info.total_insts,
        macs: evaluated(&info.macs, symbols),
        bytes: evaluated(&info.bytes, symbols),
        macs_share: None,
        bytes_share: None,
        origins: info.origins.clone(),
        schedule: info.schedule.clone(),
    });
    kernels.collect()
}

impl ProgramReport {
    fn new(entry: &Entry, program: &Program, symbols: &[i64], on_gpu: bool) -> Result<Self, Failure> {
        let plan = match &program.static_plan {
            Some(plan) => plan.clone(),
            None => MemoryPlan::new(program, symbols)?,
        };
        let slots: Vec<SlotReport> = program
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| {
                let Slot::Arena(slot) = slot else { return None };
                Some(SlotReport {
                    slot: index,
                    offset: plan.offsets.get(index).copied().flatten()?,
                    bytes: value(&slot.size_bytes, symbols)?,
                    first_step: slot.first_step,
                    last_step: slot.last_step,
                    alias: slot.alias,
                })
            })
            .collect();
        let launches = program.steps.iter().filter(|step| matches!(step, Step::Launch(_))).count();
        Ok(Self {
            entry: entry.name.clone(),
            launches,
            copies: program.steps.iter().filter(|step| matches!(step, Step::Copy(_))).count(),
            host: host_reports(program),
            crossings: if on_gpu { crossing_reports(entry, program, symbols) } else { Vec::new() },
            memory: MemoryReport {
                arena_bytes: plan.arena_bytes,
                lower_bound_bytes: MemoryPlan::lower_bound(program, symbols)?,
                unshared_bytes: slots.iter().map(|slot| slot.bytes).sum(),
                slots,
            },
        })
    }
}

fn host_reports(program: &Program) -> Vec<HostReport> {
    let report = |(step, host): (usize, &Step)| {
        let Step::Host(host) = host else { return None };
        Some(HostReport {
            step,
            op_type: host.innermost_operator().to_owned(),
            domain: host.domain.clone(),
            opset: host.opset,
            origins: host.origins.clone(),
            reason: host.reason.clone(),
            steps: host.body.as_ref().map(|body| body.entry),
        })
    };
    program.steps.iter().enumerate().filter_map(report).collect()
}

fn crossing_reports(entry: &Entry, program: &Program, symbols: &[i64]) -> Vec<CrossingReport> {
    let report = |crossing: Crossing| CrossingReport {
        step: crossing.step,
        slot: crossing.slot,
        to: if crossing.to == CopySide::Host { "host" } else { "gpu" },
        bytes: value(&crossing.size_bytes, symbols),
        is_port: crossing.is_port(entry, program),
    };
    crossings(entry, program).into_iter().map(report).collect()
}

impl WeightReport {
    fn new(record: &infc_artifact::WeightRecord) -> Self {
        Self {
            name: record.name.clone(),
            original_names: record.original_names.clone(),
            dtype: record.dtype.name(),
            shape: record.shape.clone(),
            bytes: record.len_bytes,
            layout: record.layout.clone(),
            recipe: record.recipe.clone(),
            encoding: record.encoding.clone(),
        }
    }
}
