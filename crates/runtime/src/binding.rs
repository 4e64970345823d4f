//! One binding of an entry's symbols: every size of a segment of the Program as a number, checked.
//!
//! Making one is the slow path, taken once per new combination of dims; running from it is the fast path, which
//! evaluates no expressions and makes no heap calls. Whatever could be wrong with sizes is found here, before the first
//! kernel of the segment starts.

use crate::code::KernelEntry;
use crate::error::RuntimeError;
use crate::state::{Port, States};
use crate::view::{TensorView, dense_size};
use infc_artifact::{
    ArenaSlot, Arg, Assumption, BindFrom, BindingSource, Entry, HostArg, HostSlot, KernelInfo, MemoryPlan, PortSpec,
    Program, Relation, Segments, SizeExpr, Slot, Step, SymbolSpec,
};
use infc_tensor::{DType, integer_element};
use std::ops::Range;

/// Distance between the scratch memories of two threads is a multiple of this: two cache lines, since processors fetch
/// lines in pairs.
const SCRATCH_ALIGN: usize = 128;
/// Outputs in the session's memory begin at multiples of this.
const OUTPUT_ALIGN: usize = 64;
/// A launch shorter than this is faster on one thread.
const PARALLEL_MIN_NS: u64 = 4_000;
/// Waking a parked thread takes the waker a few microseconds and the sleeper some tens, so a run must have this much to
/// share.
const WAKE_MIN_NS: u64 = 40_000;

/// The values of an entry's symbols, and everything that follows from them in one segment of its Program.
#[derive(Debug)]
pub(crate) struct Binding {
    /// What the symbols are bound to; 0 where that is not known yet.
    pub(crate) symbols: Vec<i64>,
    /// The shapes of all inputs.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// The outputs whose shapes are known from this segment on; `None` for others.
    pub(crate) outputs: Vec<Option<OutputPlace>>,
    /// Where the slots are that have their place from this segment on; `None` for others.
    pub(crate) slots: Vec<Option<Place>>,
    /// The index of the first step.
    pub(crate) first_step: usize,
    pub(crate) steps: Vec<BoundStep>,
    /// Arguments of all launches, one after the other.
    pub(crate) args: Vec<BoundArg>,
    /// Values of all launches, one after the other.
    pub(crate) values: Vec<i64>,
    /// Shapes of the inputs of all host steps, one after the other; empty for those that are left out.
    pub(crate) host_inputs: Vec<Vec<usize>>,
    pub(crate) arena_bytes: usize,
    pub(crate) outputs_bytes: usize,
    /// Scratch memory per thread.
    pub(crate) scratch_bytes: usize,
    /// Whether the run has enough to do for more than one thread.
    pub(crate) is_wide: bool,
}

/// An output's shape, and its place if the session keeps it for the caller.
#[derive(Debug)]
pub(crate) struct OutputPlace {
    pub(crate) shape: Vec<usize>,
    pub(crate) range: Range<usize>,
}

/// Where a slot is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Input(usize),
    Output(usize),
    Weight(usize),
    Arena(Range<usize>),
    /// A tensor that a host step makes, with the shape it must have.
    Host {
        dtype: DType,
        shape: Vec<usize>,
    },
}

/// A step with its sizes.
#[derive(Clone, Debug)]
pub(crate) enum BoundStep {
    Launch(BoundLaunch),
    Copy {
        src: usize,
        dst: usize,
        len_bytes: usize,
    },
    /// The next `then` steps if the byte at the start of the slot is not zero, else the `otherwise` steps behind them.
    If {
        condition: usize,
        then: usize,
        otherwise: usize,
    },
    /// A requirement, with the values that do not meet it, if so.
    Require {
        unmet: Option<(i64, i64)>,
    },
    /// The symbols of the step of this index get their values, and the next segment begins.
    Bind,
    /// Gives an output what a slot holds.
    Give {
        slot: usize,
        output: usize,
    },
    /// The operator of the step of this index, and where [`Binding::host_inputs`] has the shapes of its inputs.
    Host {
        inputs: Range<usize>,
    },
}

/// A launch with its sizes.
#[derive(Clone, Debug)]
pub(crate) struct BoundLaunch {
    pub(crate) entry: KernelEntry,
    /// Index into the variant's kernels.
    pub(crate) kernel: usize,
    pub(crate) args: Range<usize>,
    pub(crate) values: Range<usize>,
    pub(crate) chunks: u64,
    pub(crate) is_parallel: bool,
}

/// A buffer argument; the offset lies within the slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundArg {
    pub(crate) slot: usize,
    pub(crate) offset_bytes: usize,
}

/// What is known of the inputs when symbols are bound.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Those of the caller.
    pub(crate) given: Given<'a>,
    /// The others.
    pub(crate) states: &'a States,
}

/// What the caller tells of inputs.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// Their shapes alone.
    Shapes(&'a [&'a [usize]]),
    /// All of them.
    Views(&'a [TensorView<'a>]),
}

impl Given<'_> {
    /// How many there are.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Shapes(shapes) => shapes.len(),
            Self::Views(views) => views.len(),
        }
    }
}

/// What is known of the elements of an input.
enum Elements<'a> {
    Known(TensorView<'a>),
    /// A state that begins with this run.
    Zeros,
    /// Only a run tells.
    Unknown,
}

impl<'a> Inputs<'a> {
    /// The shape of an input of the entry; `None` of a state that has no value yet.
    pub(crate) fn shape(self, input: usize) -> Option<&'a [usize]> {
        match (self.states.input(input), self.given) {
            (Port::State(state), _) => self.states.value(state).map(|value| value.shape()),
            (Port::Caller(n), Given::Shapes(shapes)) => Some(shapes[n]),
            (Port::Caller(n), Given::Views(views)) => Some(views[n].shape()),
        }
    }

    fn elements(self, input: usize) -> Elements<'a> {
        match (self.states.input(input), self.given) {
            (Port::State(state), _) => self.states.value(state).map_or(Elements::Zeros, Elements::Known),
            (Port::Caller(_), Given::Shapes(_)) => Elements::Unknown,
            (Port::Caller(n), Given::Views(views)) => Elements::Known(views[n]),
        }
    }
}

/// Finds the values of the entry's symbols from its inputs, of which there are as many as the entry has.
///
/// # Errors
/// An input of the wrong rank, a value outside the symbol's range, or a value that the shapes of inputs do not tell.
pub(crate) fn bind_symbols(
    entry: &Entry,
    segments: &Segments,
    inputs: Inputs<'_>,
    symbols: &mut Vec<i64>,
) -> Result<(), RuntimeError> {
    symbols.clear();
    symbols.resize(entry.symbols.len(), 0);
    for binding in &entry.bindings {
        let symbol = binding.symbol as usize;
        if segments.of_symbol[symbol] != Some(0) {
            continue;
        }
        symbols[symbol] = match &binding.source {
            BindingSource::Axis { input, axis } => {
                let found = extent(entry, symbol, inputs, *input as usize, *axis as usize)?;
                found.unwrap_or(entry.symbols[symbol].min)
            }
            BindingSource::State { input, axis, begin } => {
                match extent(entry, symbol, inputs, *input as usize, *axis as usize)? {
                    Some(found) => found,
                    None => computed(entry, symbol, begin, symbols)?,
                }
            }
            BindingSource::Element { input, index } => {
                element(entry, symbol, inputs, *input as usize, *index as usize)?
            }
            BindingSource::Computed(value) => computed(entry, symbol, value, symbols)?,
        };
    }
    Ok(())
}

/// The value of a symbol that follows from others.
fn computed(entry: &Entry, symbol: usize, value: &SizeExpr, symbols: &[i64]) -> Result<i64, RuntimeError> {
    let spec = &entry.symbols[symbol];
    let place = || value.to_text(&entry.symbol_names());
    match value.eval(symbols) {
        Ok(value) if in_range(spec, value) => Ok(value),
        Ok(value) => Err(out_of_range(spec, place(), value.to_string())),
        Err(error) => Err(out_of_range(spec, place(), error.to_string())),
    }
}

/// The symbols that a segment begins to know and that follow from others, with what they are.
fn computed_in<'e>(
    entry: &'e Entry,
    segments: &'e Segments,
    segment: usize,
) -> impl Iterator<Item = (usize, &'e SizeExpr)> {
    entry.bindings.iter().filter_map(move |binding| match &binding.source {
        BindingSource::Computed(value) if segments.of_symbol[binding.symbol as usize] == Some(segment) => {
            Some((binding.symbol as usize, value))
        }
        _ => None,
    })
}

fn in_range(spec: &SymbolSpec, value: i64) -> bool {
    value >= spec.min && spec.max.is_none_or(|max| value <= max)
}

fn range_text(spec: &SymbolSpec) -> String {
    match spec.max {
        Some(max) => format!("{} to {max}", spec.min),
        None => format!("at least {}", spec.min),
    }
}

fn out_of_range(spec: &SymbolSpec, place: String, found: String) -> RuntimeError {
    RuntimeError::ValueOutOfRange { symbol: spec.name.clone(), place, expected: range_text(spec), found }
}

/// The extent of an input along an axis; `None` of a state that has no value yet.
fn extent(
    entry: &Entry,
    symbol: usize,
    inputs: Inputs<'_>,
    input: usize,
    axis: usize,
) -> Result<Option<i64>, RuntimeError> {
    let port = &entry.inputs[input];
    let Some(shape) = inputs.shape(input) else { return Ok(None) };
    if shape.len() != port.shape.len() {
        return Err(wrong_shape(entry, port, "input", shape, None));
    }
    extent_in_range(&entry.symbols[symbol], shape[axis], &port.name, axis).map(Some)
}

/// The value of a symbol that is an extent of something.
fn extent_in_range(spec: &SymbolSpec, found: usize, of: &str, axis: usize) -> Result<i64, RuntimeError> {
    let value = i64::try_from(found).ok().filter(|&v| in_range(spec, v));
    value.ok_or_else(|| RuntimeError::DimOutOfRange {
        symbol: spec.name.clone(),
        input: of.to_owned(),
        axis,
        expected: range_text(spec),
        found,
    })
}

fn element(entry: &Entry, symbol: usize, inputs: Inputs<'_>, input: usize, index: usize) -> Result<i64, RuntimeError> {
    let (port, spec) = (&entry.inputs[input], &entry.symbols[symbol]);
    let value = match inputs.elements(input) {
        Elements::Known(view) => match view.element(index) {
            Some(bytes) => integer_element(view.dtype(), bytes, 0),
            None => return Err(wrong_shape(entry, port, "input", view.shape(), None)),
        },
        Elements::Zeros => Some(0),
        Elements::Unknown => {
            return Err(RuntimeError::ValueNeeded { symbol: spec.name.clone(), input: port.name.clone() });
        }
    };
    let place = || format!("element {index} of `{}`", port.name);
    match value {
        Some(value) if in_range(spec, value) => Ok(value),
        Some(value) => Err(out_of_range(spec, place(), value.to_string())),
        None => Err(out_of_range(spec, place(), "no such integer".to_owned())),
    }
}

/// Finds the values of the symbols that a bind step names, and of those that follow, which a segment begins to know;
/// `shape_of` gives the shape of what a host step has made.
///
/// # Errors
/// A value outside the symbol's range, or none.
pub(crate) fn bind_late<'s>(
    entry: &Entry,
    bind: &infc_artifact::Bind,
    (segments, segment): (&Segments, usize),
    shape_of: impl Fn(usize) -> Option<&'s [usize]>,
    symbols: &mut [i64],
) -> Result<(), RuntimeError> {
    for bound in &bind.symbols {
        let spec = &entry.symbols[bound.symbol as usize];
        let BindFrom::Axis { slot, axis } = bound.from;
        let found = shape_of(slot as usize).and_then(|shape| shape.get(axis as usize));
        let found = found.ok_or_else(|| RuntimeError::BadProgram {
            what: format!("the value of symbol `{}`", spec.name),
            expected: format!("axis {axis} of what a host step has made"),
            found: "none".to_owned(),
        })?;
        symbols[bound.symbol as usize] = extent_in_range(spec, *found, "a computed value", axis as usize)?;
    }
    for (symbol, value) in computed_in(entry, segments, segment) {
        symbols[symbol] = computed(entry, symbol, value, symbols)?;
    }
    Ok(())
}

/// Gives the symbols of a bind step that is not run, in a branch that is not taken, a value that is as good as any.
pub(crate) fn skip_late(
    entry: &Entry,
    bind: &infc_artifact::Bind,
    (segments, segment): (&Segments, usize),
    symbols: &mut [i64],
) {
    for bound in &bind.symbols {
        symbols[bound.symbol as usize] = entry.symbols[bound.symbol as usize].min;
    }
    for (symbol, value) in computed_in(entry, segments, segment) {
        symbols[symbol] = computed(entry, symbol, value, symbols).unwrap_or(entry.symbols[symbol].min);
    }
}

/// The error about a shape that is not what the port says, with the symbols' names and, if known, their values.
pub(crate) fn wrong_shape(
    entry: &Entry,
    port: &PortSpec,
    kind: &str,
    found: &[usize],
    expected: Option<&[usize]>,
) -> RuntimeError {
    let spec = port.type_text(&entry.symbol_names());
    let expected = match expected {
        Some(shape) if port.shape.iter().any(|dim| dim.as_const().is_none()) => format!("{spec}, here {shape:?}"),
        _ => spec,
    };
    RuntimeError::WrongShape { port: format!("{kind} `{}`", port.name), expected, found: found.to_vec() }
}

impl Binding {
    /// Evaluates all sizes for the given symbol values.
    ///
    /// # Errors
    /// A size that has no value or does not fit; these are faults of the artifact.
    pub(crate) fn new(
        entry: &Entry,
        program: &Program,
        (segments, segment): (&Segments, usize),
        kernels: &[KernelInfo],
        entry_of: impl Fn(usize) -> Option<KernelEntry>,
        weight_len: impl Fn(usize) -> usize,
        symbols: &[i64],
    ) -> Result<Self, RuntimeError> {
        for assumption in &entry.assumptions {
            let sizes = [assumption.left.clone(), assumption.right.clone()];
            if segments.knows(&sizes) == segment {
                check(assumption, entry, symbols)?;
            }
        }
        let inputs = entry.inputs.iter().map(|port| shape(port, symbols)).collect::<Result<Vec<_>, _>>()?;
        let (outputs, outputs_bytes) = output_places(entry, segments, segment, symbols)?;
        let plan = match &program.static_plan {
            Some(plan) if entry.symbols.is_empty() => plan.clone(),
            _ => MemoryPlan::of_segment(program, symbols, segments, segment)?,
        };
        let arena_bytes = usize::try_from(plan.arena_bytes).map_err(|_| RuntimeError::OutOfMemory {
            // More than the address space; the exact number does not matter.
            len_bytes: usize::MAX,
        })?;
        let mut slots = Vec::with_capacity(program.slots.len());
        let mut lens = Vec::with_capacity(program.slots.len());
        for (index, (slot, offset)) in program.slots.iter().zip(&plan.offsets).enumerate() {
            // What comes later has no size yet, and nothing of this segment touches it.
            let begins = segments.of_slot[index];
            let place = if begins <= segment { Some(place(slot, *offset, symbols)?) } else { None };
            lens.push(match &place {
                None => 0,
                // Checked to be representable by `shape` above.
                Some(Place::Input(i)) => dense_size(entry.inputs[*i].dtype, &inputs[*i]).unwrap_or(0),
                Some(Place::Output(i)) => shape(&entry.outputs[*i], symbols)
                    .map(|shape| dense_size(entry.outputs[*i].dtype, &shape).unwrap_or(0))?,
                Some(Place::Weight(i)) => weight_len(*i),
                Some(Place::Arena(range)) => range.len(),
                Some(Place::Host { dtype, shape }) => host_size(*dtype, shape)?,
            });
            slots.push(place.filter(|_| begins == segment));
        }
        let steps = segments.steps[segment].clone();
        let mut binding = Self {
            symbols: symbols.to_vec(),
            slots,
            inputs,
            outputs,
            first_step: steps.start,
            steps: Vec::with_capacity(steps.len()),
            args: Vec::new(),
            values: Vec::new(),
            host_inputs: Vec::new(),
            arena_bytes,
            outputs_bytes,
            scratch_bytes: 0,
            is_wide: false,
        };
        let mut shared_ns = 0u64;
        for (index, step) in program.steps.iter().enumerate().take(steps.end).skip(steps.start) {
            let step = match step {
                Step::Launch(launch) => {
                    let kernel = launch.kernel as usize;
                    let entry_point = entry_of(kernel).ok_or_else(|| RuntimeError::BadProgram {
                        what: format!("kernel {kernel}"),
                        expected: "code".to_owned(),
                        found: "none".to_owned(),
                    })?;
                    let (launch, work_ns) = binding.launch(index, launch, &kernels[kernel], entry_point, &lens)?;
                    if launch.is_parallel {
                        shared_ns = shared_ns.saturating_add(work_ns);
                    }
                    BoundStep::Launch(launch)
                }
                Step::Copy(copy) => {
                    let len_bytes = size(&copy.size_bytes, symbols, || format!("the length of copy step {index}"))?;
                    let (src, dst) = (copy.src as usize, copy.dst as usize);
                    within(index, len_bytes, lens[src].min(lens[dst]))?;
                    BoundStep::Copy { src, dst, len_bytes }
                }
                Step::If(choice) => BoundStep::If {
                    condition: choice.condition as usize,
                    then: choice.then_steps as usize,
                    otherwise: choice.else_steps as usize,
                },
                Step::Require(require) => {
                    let of = |expr: &SizeExpr| {
                        let what = || require.what.clone();
                        expr.eval(symbols).map_err(|source| RuntimeError::BadSize { what: what(), source })
                    };
                    let (left, right) = (of(&require.left)?, of(&require.right)?);
                    BoundStep::Require { unmet: ((left == right) != require.equal).then_some((left, right)) }
                }
                Step::Bind(_) => BoundStep::Bind,
                Step::Give(give) => BoundStep::Give { slot: give.slot as usize, output: give.output as usize },
                Step::Host(host) => {
                    let start = binding.host_inputs.len();
                    for arg in &host.inputs {
                        let shape = match arg {
                            Some(arg) => host_input(index, arg, symbols, &lens)?,
                            None => Vec::new(),
                        };
                        binding.host_inputs.push(shape);
                    }
                    BoundStep::Host { inputs: start..binding.host_inputs.len() }
                }
                // Steps that this runtime does not know are refused when the artifact is read.
                _ => {
                    return Err(RuntimeError::BadProgram {
                        what: format!("step {index}"),
                        expected: "a step that this runtime knows".to_owned(),
                        found: "another step".to_owned(),
                    });
                }
            };
            binding.steps.push(step);
        }
        binding.is_wide = shared_ns >= WAKE_MIN_NS;
        Ok(binding)
    }

    /// Evaluates one launch; also returns an estimate of its work.
    fn launch(
        &mut self,
        step: usize,
        launch: &infc_artifact::Launch,
        kernel: &KernelInfo,
        entry: KernelEntry,
        lens: &[usize],
    ) -> Result<(BoundLaunch, u64), RuntimeError> {
        let symbols = &self.symbols;
        let of = |what: &str| format!("{what} of step {step} (`{}`)", kernel.name);
        let (args_start, values_start) = (self.args.len(), self.values.len());
        for Arg { slot, offset_bytes, .. } in &launch.args {
            let slot = *slot as usize;
            let offset_bytes = size(offset_bytes, symbols, || of("an offset"))?;
            within(step, offset_bytes, lens[slot])?;
            self.args.push(BoundArg { slot, offset_bytes });
        }
        for value in &launch.values {
            let value = value.eval(symbols);
            self.values.push(value.map_err(|source| RuntimeError::BadSize { what: of("a value"), source })?);
        }
        let chunks = size(&launch.chunks, symbols, || of("the chunk count"))? as u64;
        let scratch = size(&launch.scratch_bytes, symbols, || of("the scratch size"))?;
        let scratch = scratch.checked_next_multiple_of(SCRATCH_ALIGN);
        self.scratch_bytes =
            self.scratch_bytes.max(scratch.ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?);
        let work_ns = estimate_ns(kernel, symbols);
        let bound = BoundLaunch {
            entry,
            kernel: launch.kernel as usize,
            args: args_start..self.args.len(),
            values: values_start..self.values.len(),
            chunks,
            is_parallel: chunks > 1 && work_ns >= PARALLEL_MIN_NS,
        };
        Ok((bound, work_ns))
    }
}

/// Fails if what the compiler took for granted does not hold.
fn check(assumption: &Assumption, entry: &Entry, symbols: &[i64]) -> Result<(), RuntimeError> {
    let names = entry.symbol_names();
    let value = |expr: &SizeExpr| {
        expr.eval(symbols).map_err(|source| RuntimeError::BadSize { what: assumption.what.clone(), source })
    };
    let (left, right) = (value(&assumption.left)?, value(&assumption.right)?);
    let (holds, relation) = match assumption.relation {
        Relation::Equal => (left == right, "equal"),
        Relation::AtMost => (left <= right, "in ascending order"),
    };
    if holds {
        return Ok(());
    }
    Err(RuntimeError::AssumptionFailed {
        place: match &assumption.origins[..] {
            [] => format!("entry `{}`", entry.name),
            origins => format!("node {}", origins.iter().map(|o| format!("`{o}`")).collect::<Vec<_>>().join(", ")),
        },
        what: assumption.what.clone(),
        relation,
        left: assumption.left.to_text(&names),
        left_value: left,
        right: assumption.right.to_text(&names),
        right_value: right,
    })
}

/// About how long a kernel takes on one thread; very long if nothing is known, so that it is run in parallel.
fn estimate_ns(kernel: &KernelInfo, symbols: &[i64]) -> u64 {
    let value = |expr: &Option<SizeExpr>| expr.as_ref().and_then(|e| e.eval(symbols).ok()?.try_into().ok());
    let (macs, bytes): (Option<u64>, Option<u64>) = (value(&kernel.macs), value(&kernel.bytes));
    if macs.is_none() && bytes.is_none() {
        return u64::MAX;
    }
    // Some 3 vectors of 32-bit lanes, and 10 bytes, per nanosecond. Only the order of magnitude matters.
    let macs_per_ns = 3 * u64::from(kernel.vector_bits / 32).max(1);
    (macs.unwrap_or(0) / macs_per_ns).max(bytes.unwrap_or(0) / 10)
}

fn shape(port: &PortSpec, symbols: &[i64]) -> Result<Vec<usize>, RuntimeError> {
    let what = || format!("the shape of `{}`", port.name);
    let shape = port.shape.iter().map(|dim| size(dim, symbols, what)).collect::<Result<Vec<_>, _>>()?;
    match dense_size(port.dtype, &shape) {
        Some(_) => Ok(shape),
        None if !port.dtype.has_bytes() => Ok(shape),
        None => Err(RuntimeError::BadProgram {
            what: what(),
            expected: "a tensor that fits in memory".to_owned(),
            found: format!("{}{shape:?}", port.dtype),
        }),
    }
}

/// The outputs of a segment in the session's memory one after the other, and the length of them all.
fn output_places(
    entry: &Entry,
    segments: &Segments,
    segment: usize,
    symbols: &[i64],
) -> Result<(Vec<Option<OutputPlace>>, usize), RuntimeError> {
    let mut end = 0usize;
    let mut places = Vec::with_capacity(entry.outputs.len());
    for (port, &begins) in entry.outputs.iter().zip(&segments.of_output) {
        if begins != segment {
            places.push(None);
            continue;
        }
        let shape = shape(port, symbols)?;
        let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
        // States have memory of their own.
        let is_state = entry.state_of_output(places.len()).is_some();
        let len = if is_state { 0 } else { host_size(port.dtype, &shape)? };
        let start = end.checked_next_multiple_of(OUTPUT_ALIGN).ok_or_else(too_large)?;
        end = start.checked_add(len).ok_or_else(too_large)?;
        places.push(Some(OutputPlace { shape, range: start..end }));
    }
    Ok((places, end))
}

fn place(slot: &Slot, offset: Option<u64>, symbols: &[i64]) -> Result<Place, RuntimeError> {
    Ok(match slot {
        Slot::Input(i) => Place::Input(*i as usize),
        Slot::Output(i) => Place::Output(*i as usize),
        Slot::Weight(i) => Place::Weight(*i as usize),
        Slot::Arena(ArenaSlot { size_bytes, .. }) => {
            let len = size(size_bytes, symbols, || "the size of a slot".to_owned())?;
            // The plan was checked, or made from the same sizes: the range lies within the arena.
            let start = offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
            Place::Arena(start..start.saturating_add(len))
        }
        Slot::Host(HostSlot { dtype, shape }) => {
            let what = || "the shape of what a host step makes".to_owned();
            let shape = shape.iter().map(|dim| size(dim, symbols, what)).collect::<Result<_, _>>()?;
            Place::Host { dtype: *dtype, shape }
        }
    })
}

/// Bytes of a dense tensor; none for strings and values, which kernels do not see.
fn host_size(dtype: DType, shape: &[usize]) -> Result<usize, RuntimeError> {
    if !dtype.has_bytes() {
        return Ok(0);
    }
    dense_size(dtype, shape).ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })
}

/// The shape of an operand of a host step, which lies within its slot.
fn host_input(step: usize, arg: &HostArg, symbols: &[i64], lens: &[usize]) -> Result<Vec<usize>, RuntimeError> {
    let what = || format!("an operand of step {step}");
    let shape = arg.shape.iter().map(|dim| size(dim, symbols, what)).collect::<Result<Vec<_>, _>>()?;
    within(step, host_size(arg.dtype, &shape)?, lens[arg.slot as usize])?;
    Ok(shape)
}

fn size(expr: &SizeExpr, symbols: &[i64], what: impl Fn() -> String) -> Result<usize, RuntimeError> {
    expr.eval_size(symbols).map_err(|source| RuntimeError::BadSize { what: what(), source })
}

/// Checks that `found` bytes are within a slot of `len` bytes.
fn within(step: usize, found: usize, len: usize) -> Result<(), RuntimeError> {
    if found <= len {
        return Ok(());
    }
    Err(RuntimeError::BadProgram {
        what: format!("an argument of step {step}"),
        expected: format!("within the {len} bytes of its slot"),
        found: format!("{found}"),
    })
}
