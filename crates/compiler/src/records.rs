//! Schedules that were found by measuring, to be taken instead of the default choice.

use crate::single::{KernelOptions, compile_kernel};
use crate::{Target, VariantTarget, kernels};
use infc_artifact::Hash;
use infc_codegen_cpu::lower::lower;
use infc_codegen_cpu::target::Level;
use infc_codegen_ptx::emit;
use infc_ir::index::{IndexExpr, Ranges};
use infc_ir::kernel::{Axis, Kernel};
use infc_ir::schedule::{Schedule, Scope, Step};
use infc_ir::verify::{verify_kernel, verify_nest};
use infc_passes::ErrorClass;
use infc_passes::form::{Answers, Way};
use infc_passes::schedule::{AnyMachine, apply_within, gpu};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a kernel computes on operands of which layout, whatever its name: the hash of its text as it was planned, before
/// it is formulated, so that a release which formulates otherwise does not void what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelKey([u8; 32]);

impl KernelKey {
    /// The key of a planned kernel.
    #[must_use]
    pub fn of(kernel: &Kernel) -> Self {
        Self::of_text(&key_text(kernel))
    }

    /// The key of the planned kernel that has this text ([`key_text`]).
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self(Hash::of(text.as_bytes()).0)
    }
}

/// The text of a planned kernel without its name, whose hash is its [`KernelKey`].
#[must_use]
pub fn key_text(planned: &Kernel) -> String {
    Kernel { name: String::new(), ..planned.clone() }.to_string()
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is no [`KernelKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct NoKernelKey;

impl FromStr for KernelKey {
    type Err = NoKernelKey;

    fn from_str(text: &str) -> Result<Self, NoKernelKey> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoKernelKey);
        }
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| NoKernelKey)?;
        }
        Ok(Self(key))
    }
}

/// The machine code that a schedule makes of a kernel, and that the default choice makes: hashes, to tell whether what was
/// measured once is what would run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCode {
    /// By the schedule.
    pub code: String,
    /// By the default choice.
    pub default_code: String,
}

/// Compiles a kernel by a schedule that was found for it, held to the same conditions as when a model is compiled.
///
/// `text` is that of the planned kernel ([`key_text`]).
///
/// # Errors
/// The reason why a compilation would not take the schedule, or why the text is no kernel.
pub fn recorded_code(
    text: &str,
    schedule: &Schedule,
    target: &VariantTarget,
    allowed: ErrorClass,
) -> Result<RecordedCode, String> {
    let kernel = recorded_kernel(text)?;
    applies(&kernel, schedule, target, allowed)?;
    let hash = |schedule: Option<Schedule>| {
        let options = KernelOptions { schedule, allowed, ..KernelOptions::new(target.clone()) };
        let compiled = compile_kernel(&kernel, &options).map_err(|error| error.to_string())?;
        Ok::<_, String>(KernelKey(Hash::of(&compiled.code).0).to_string())
    };
    Ok(RecordedCode { code: hash(Some(schedule.clone()))?, default_code: hash(None)? })
}

/// The kernel of a record as schedules see it: formulated.
///
/// # Errors
/// The reason why the text is no kernel.
pub fn recorded_kernel(text: &str) -> Result<Kernel, String> {
    let planned: Kernel =
        text.parse().map_err(|error: infc_ir::text::ParseError| format!("the kernel's text: {error}"))?;
    verify_kernel(&planned).map_err(|error| format!("the kernel's text: {error}"))?;
    check_sizes(&planned).map_err(|what| format!("the kernel's text: {what} of more than any machine could hold"))?;
    Ok(kernels::nameless(&planned))
}

/// Extents, coordinates and distances are at most this in size in kernels of records.
const MOST_ELEMENTS: i64 = 1 << 40;
/// So many points a stage has at most, those that are added up with the others.
const MOST_POINTS: i64 = 1 << 48;

/// Text that was not written by infc may have any numbers; what is computed of them must not leave the range of `i64`. The
/// error says what is too large.
fn check_sizes(kernel: &Kernel) -> Result<(), String> {
    let ranges = Ranges::of_symbols(&kernel.symbols);
    let fits = |e: &IndexExpr| {
        let interval = ranges.interval(e);
        let is_small = |n: i64| n.unsigned_abs() <= MOST_ELEMENTS.unsigned_abs();
        is_small(e.constant_part())
            && e.terms().iter().all(|term| is_small(term.coefficient))
            && interval.min.is_none_or(is_small)
            && (e.as_const().is_none() || interval.max.is_some_and(is_small))
    };
    for symbol in kernel.symbols.iter() {
        if [Some(symbol.min), symbol.max].into_iter().flatten().any(|n| n > MOST_ELEMENTS) {
            return Err(format!("symbol `{}`: a range", symbol.name));
        }
    }
    for operand in kernel.operands.iter() {
        let layout = &operand.layout;
        let halo_fits = layout.halo.iter().all(|&(before, after)| before.max(after) <= MOST_ELEMENTS);
        let mut sizes = operand.shape.iter().chain(&layout.strides).chain([&layout.offset, &layout.len_elems]);
        if !halo_fits || !sizes.all(fits) {
            return Err(format!("operand `{}`: a size", operand.name));
        }
    }
    for stage in kernel.stages.iter() {
        let least = |axis: &Axis| ranges.interval(&axis.extent).min.unwrap_or(1).max(1);
        let points = stage.axes.iter().try_fold(1i64, |n, axis| n.checked_mul(least(axis)));
        if !stage.axes.iter().all(|axis| fits(&axis.extent)) || points.is_none_or(|n| n > MOST_POINTS) {
            return Err(format!("stage `{}`: a number", stage.name));
        }
    }
    Ok(())
}

/// For which processor, and under which promise of exactness, a schedule was found.
type Place = (KernelKey, String, bool);

/// Schedules by kernel and target, and ways to form kernels by question and target. What does not apply to the kernel is reported
/// and not taken ([`Report::refused_records`](crate::Report::refused_records)).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    found: BTreeMap<Place, Schedule>,
    settled: BTreeMap<Place, Way>,
}

/// The answers of records for the targets that share a plan.
#[derive(Debug)]
struct Settled(BTreeMap<KernelKey, Way>);

impl Answers for Settled {
    fn way(&self, question: &str) -> Option<Way> {
        self.0.get(&KernelKey::of_text(question)).copied()
    }
}

impl Records {
    /// Notes a schedule; the last one for a place counts. `strict` says whether it was found with
    /// [`CompileOptions::strict`](crate::CompileOptions::strict): it is taken by such compilations, or else by the others.
    pub fn insert(&mut self, key: KernelKey, target: &VariantTarget, strict: bool, schedule: Schedule) {
        self.found.insert((key, target.to_string(), strict), schedule);
    }

    /// Notes which way was found to be the quickest for a question of kernel formation ([`infc_passes::form::Choice`]), whose
    /// text has this key; otherwise as [`Records::insert`].
    pub fn settle(&mut self, question: KernelKey, target: &VariantTarget, strict: bool, way: Way) {
        self.settled.insert((question, target.to_string(), strict), way);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len() + self.settled.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What kernel formation is told. Targets share a plan: where several have an answer, that of the first one counts.
    pub(crate) fn answers(&self, targets: &[String], strict: bool) -> Option<Arc<dyn Answers>> {
        let mut ways = BTreeMap::new();
        for target in targets.iter().rev() {
            let of_target = |(_, of, is_strict): &&Place| of == target && *is_strict == strict;
            let settled = self.settled.iter().filter(|(place, _)| of_target(place));
            ways.extend(settled.map(|((key, ..), way)| (*key, *way)));
        }
        (!ways.is_empty()).then(|| Arc::new(Settled(ways)) as Arc<dyn Answers>)
    }

    /// A hash of all, for provenance.
    pub(crate) fn fingerprint(&self) -> String {
        let lines =
            self.found.iter().map(|((key, target, strict), schedule)| format!("{key} {target} {strict} {schedule}\n"));
        let ways = self.settled.iter().map(|((key, target, strict), way)| format!("{key} {target} {strict} {way}\n"));
        KernelKey(Hash::of(lines.chain(ways).collect::<String>().as_bytes()).0).to_string()
    }

    /// The schedule for a kernel, which goes by any of these keys, if one was found; and if that can be applied.
    pub(crate) fn schedule(
        &self,
        keys: &[KernelKey],
        kernel: &Kernel,
        target: &VariantTarget,
        allowed: ErrorClass,
    ) -> Option<Result<Schedule, String>> {
        let strict = allowed < ErrorClass::Reassociating;
        let schedule = keys.iter().find_map(|&key| self.found.get(&(key, target.to_string(), strict)))?;
        Some(applies(kernel, schedule, target, allowed).map(|()| schedule.clone()))
    }
}

/// Fails with the reason if a schedule does not make code for a target, or code whose results differ from the kernel's own by
/// more than is allowed.
fn applies(kernel: &Kernel, schedule: &Schedule, target: &VariantTarget, allowed: ErrorClass) -> Result<(), String> {
    let refused = |is_foreign: fn(&Step) -> bool, why: &str| match schedule.steps.iter().find(|step| is_foreign(step)) {
        Some(step) => Err(format!("step `{step}`: {why}")),
        None => Ok(()),
    };
    refused(|step| matches!(step, Step::Round { .. }), "it rounds, which nobody asked for")?;
    if target.cpu().is_some() {
        refused(is_for_gpus, "it is for GPUs")?;
    } else {
        refused(is_for_processors, "it is for processors")?;
    }
    let nest = apply_within(kernel, schedule, allowed).map_err(|error| error.to_string())?;
    verify_nest(&nest).map_err(|error| error.to_string())?;
    match (target, target.machine()) {
        (VariantTarget::Cuda(generation), AnyMachine::Gpu(machine)) => {
            if !gpu::takes(kernel, schedule, &machine, allowed) {
                return Err("what it keeps does not fit the memory of blocks".to_owned());
            }
            emit(&nest, generation).map(drop).map_err(|error| error.to_string())
        }
        // What cannot be lowered cannot be for any of them.
        _ => lower(&nest, &Target::new(Level::X86V3)).map(drop).map_err(|error| error.to_string()),
    }
}

fn is_for_gpus(step: &Step) -> bool {
    matches!(
        step,
        Step::Bind { .. }
            | Step::StoreIn { scope: Scope::Shared, .. }
            | Step::Stream { .. }
            | Step::Rfactor { .. }
            | Step::Pad { .. }
            | Step::Cache { .. }
            | Step::Single { .. }
            | Step::Online { .. }
    )
}

fn is_for_processors(step: &Step) -> bool {
    matches!(step, Step::Parallel { .. } | Step::Prefetch { .. } | Step::Fetch { .. } | Step::Scatter { .. })
}
