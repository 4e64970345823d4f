//! One binding of an entry's symbols: every size of a segment of the Program as a number, checked.
//!
//! Filling one is the slow path, taken once per new combination of dims; running from it is the fast path, which
//! evaluates no expressions. Whatever could be wrong with sizes is found here, before the first kernel of the segment
//! starts. A binding that is filled again, for other dims of the same segment, makes no heap call: all of its lists are as
//! long as before.

use crate::code::KernelEntry;
use crate::error::RuntimeError;
use crate::shapes::Shapes;
use crate::view::dense_size;
use infc_artifact::{
    ArenaSlot, Arg, Assumption, Entry, HostArg, HostSlot, KernelInfo, Planner, PortSpec, Program, Relation, Segments,
    SizeExpr, Slot, Step,
};
use infc_tensor::DType;
use std::ops::Range;

/// Distance between the scratch memories of two threads is a multiple of this: two cache lines, since processors fetch
/// lines in pairs.
const SCRATCH_ALIGN: usize = 128;
/// Outputs in the session's memory begin at multiples of this.
const OUTPUT_ALIGN: usize = 64;
/// A launch shorter than this is faster on one thread.
const PARALLEL_MIN_NS: u64 = 4_000;
/// A step of a recurrence shorter than this is: threads that have met before it take less to begin.
const STEP_MIN_NS: u64 = 1_000;
/// Waking a parked thread takes the waker a few microseconds and the sleeper some tens, so a run must have this much to
/// share.
const WAKE_MIN_NS: u64 = 40_000;

/// The values of an entry's symbols, and everything that follows from them in one segment of its Program.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    /// What the symbols are bound to; 0 where that is not known yet.
    pub(crate) symbols: Vec<i64>,
    /// The shapes of all inputs, and behind them those that the rest refers to.
    pub(crate) shapes: Shapes,
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
    pub(crate) arena_bytes: usize,
    pub(crate) outputs_bytes: usize,
    /// Scratch memory per thread; on a GPU per launch.
    pub(crate) scratch_bytes: usize,
    /// What is used of that.
    pub(crate) scratch_used_bytes: usize,
    /// Whether the run has enough to do for more than one thread.
    pub(crate) is_wide: bool,
    /// Per slot the bytes that are used of it.
    pub(crate) lens: Vec<usize>,
}

/// What bindings of an entry are filled from.
pub(crate) struct Sources<'s> {
    pub(crate) entry: &'s Entry,
    pub(crate) program: &'s Program,
    pub(crate) segments: &'s Segments,
    pub(crate) segment: usize,
    pub(crate) kernels: &'s [KernelInfo],
    pub(crate) kernel_entry: &'s dyn Fn(usize) -> Option<KernelEntry>,
    pub(crate) weight_len: &'s dyn Fn(usize) -> usize,
}

/// An output's shape, and its place if the session keeps it for the caller.
#[derive(Clone, Debug)]
pub(crate) struct OutputPlace {
    /// Its number among [`Binding::shapes`].
    pub(crate) shape: usize,
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
        /// Its number among [`Binding::shapes`].
        shape: usize,
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
    /// The operator of the step of this index, and where [`Binding::shapes`] has those of its inputs; without axes for
    /// those that are left out.
    Host {
        inputs: Range<usize>,
    },
    /// A step of a branch whose sizes make no sense, as they may where it is not taken.
    Unfit,
}

/// What a launch starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BoundCode {
    /// Machine code.
    Cpu(KernelEntry),
    /// A kernel of a GPU, on so many blocks.
    Gpu { grid: [u32; 3] },
}

/// A launch with its sizes.
#[derive(Clone, Debug)]
pub(crate) struct BoundLaunch {
    pub(crate) code: BoundCode,
    /// Index into the variant's kernels.
    pub(crate) kernel: usize,
    pub(crate) args: Range<usize>,
    pub(crate) values: Range<usize>,
    pub(crate) chunks: u64,
    /// See [`Launch::step_chunks`].
    pub(crate) step_chunks: Option<u64>,
    pub(crate) is_parallel: bool,
    /// Whether a kernel of a GPU takes the address of memory for its launch.
    pub(crate) takes_scratch: bool,
}

/// A buffer argument; the offset lies within the slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundArg {
    pub(crate) slot: usize,
    pub(crate) offset_bytes: usize,
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
    /// Evaluates all sizes for the given symbol values, in the place of those that the binding had.
    ///
    /// # Errors
    /// A size that has no value or does not fit; these are faults of the artifact. The binding is of no use then.
    pub(crate) fn fill(
        &mut self,
        sources: &Sources<'_>,
        planner: &mut Planner,
        symbols: &[i64],
    ) -> Result<(), RuntimeError> {
        let &Sources { entry, segments, segment, .. } = sources;
        for assumption in &entry.assumptions {
            if segments.knows([&assumption.left, &assumption.right]) == segment {
                check(assumption, entry, symbols)?;
            }
        }
        self.symbols.clear();
        self.symbols.extend_from_slice(symbols);
        self.shapes.clear();
        for port in &entry.inputs {
            self.port_shape(port)?;
        }
        self.place_outputs(entry, segments, segment)?;
        self.place_slots(sources, planner)?;
        self.bind_steps(sources)
    }

    /// Says where the slots of the segment lie, and how long those are that it or an earlier one has begun.
    fn place_slots(&mut self, sources: &Sources<'_>, planner: &mut Planner) -> Result<(), RuntimeError> {
        let &Sources { entry, program, segments, segment, .. } = sources;
        let plan = match &program.static_plan {
            Some(plan) if entry.symbols.is_empty() => plan,
            _ => planner.segment(program, &self.symbols, segments, segment)?,
        };
        self.arena_bytes = usize::try_from(plan.arena_bytes).map_err(|_| RuntimeError::OutOfMemory {
            // More than the address space; the exact number does not matter.
            len_bytes: usize::MAX,
        })?;
        self.slots.clear();
        self.lens.clear();
        for (index, (slot, offset)) in program.slots.iter().zip(&plan.offsets).enumerate() {
            // What comes later has no size yet, and nothing of this segment touches it.
            let begins = segments.of_slot[index];
            let place = if begins <= segment { Some(self.place(slot, *offset)?) } else { None };
            let len = match &place {
                None => 0,
                // Representable: checked with the shape.
                Some(Place::Input(i)) => dense_size(entry.inputs[*i].dtype, self.shapes.get(*i)).unwrap_or(0),
                Some(Place::Output(i)) => self.port_len(&entry.outputs[*i])?,
                Some(Place::Weight(i)) => (sources.weight_len)(*i),
                Some(Place::Arena(range)) => range.len(),
                Some(Place::Host { dtype, shape }) => host_size(*dtype, self.shapes.get(*shape))?,
            };
            self.lens.push(len);
            self.slots.push(place.filter(|_| begins == segment));
        }
        Ok(())
    }

    /// Evaluates the steps of the segment.
    fn bind_steps(&mut self, sources: &Sources<'_>) -> Result<(), RuntimeError> {
        let &Sources { program, segments, segment, .. } = sources;
        let steps = segments.steps[segment].clone();
        self.first_step = steps.start;
        self.scratch_bytes = 0;
        self.scratch_used_bytes = 0;
        self.steps.clear();
        self.args.clear();
        self.values.clear();
        let mut shared_ns = 0u64;
        // Where the steps of branches end.
        let mut under_condition = 0;
        for (index, step) in program.steps.iter().enumerate().take(steps.end) {
            if let Step::If(choice) = step {
                let both = (choice.then_steps as usize).saturating_add(choice.else_steps as usize);
                under_condition = under_condition.max(index.saturating_add(1).saturating_add(both));
            }
            if index < steps.start {
                continue;
            }
            let step = match self.bind_step(sources, index, step, &mut shared_ns) {
                Err(RuntimeError::BadSize { .. } | RuntimeError::BadProgram { .. }) if index < under_condition => {
                    BoundStep::Unfit
                }
                bound => bound?,
            };
            self.steps.push(step);
        }
        self.is_wide = shared_ns >= WAKE_MIN_NS;
        Ok(())
    }

    /// Evaluates one step. Adds what a launch for several threads takes.
    fn bind_step(
        &mut self,
        sources: &Sources<'_>,
        index: usize,
        step: &Step,
        shared_ns: &mut u64,
    ) -> Result<BoundStep, RuntimeError> {
        Ok(match step {
            Step::Launch(launch) => {
                let (launch, work_ns) = self.launch(sources, index, launch)?;
                if launch.is_parallel {
                    *shared_ns = shared_ns.saturating_add(work_ns);
                }
                BoundStep::Launch(launch)
            }
            Step::Copy(copy) => {
                let what = || format!("the length of copy step {index}");
                let len_bytes = size(&copy.size_bytes, &self.symbols, what)?;
                let (src, dst) = (copy.src as usize, copy.dst as usize);
                within(index, len_bytes, self.lens[src].min(self.lens[dst]))?;
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
                    expr.eval(&self.symbols).map_err(|source| RuntimeError::BadSize { what: what(), source })
                };
                let (left, right) = (of(&require.left)?, of(&require.right)?);
                BoundStep::Require { unmet: ((left == right) != require.equal).then_some((left, right)) }
            }
            Step::Bind(_) => BoundStep::Bind,
            Step::Give(give) => BoundStep::Give { slot: give.slot as usize, output: give.output as usize },
            Step::Host(host) => {
                let start = self.shapes.len();
                for arg in &host.inputs {
                    match arg {
                        Some(arg) => self.host_input(index, arg)?,
                        None => drop(self.shapes.push(std::iter::empty::<Result<usize, RuntimeError>>())?),
                    }
                }
                BoundStep::Host { inputs: start..self.shapes.len() }
            }
            // Steps that this runtime does not know are refused when the artifact is read.
            _ => {
                return Err(RuntimeError::BadProgram {
                    what: format!("step {index}"),
                    expected: "a step that this runtime knows".to_owned(),
                    found: "another step".to_owned(),
                });
            }
        })
    }

    /// The shape of an output of this segment.
    pub(crate) fn output_shape(&self, output: usize) -> Option<&[usize]> {
        let place = self.outputs.get(output)?.as_ref()?;
        Some(self.shapes.get(place.shape))
    }

    /// Notes the shape of an input or output; gives its number.
    fn port_shape(&mut self, port: &PortSpec) -> Result<usize, RuntimeError> {
        let (symbols, what) = (&self.symbols, || format!("the shape of `{}`", port.name));
        let number = self.shapes.push(port.shape.iter().map(|dim| size(dim, symbols, what)))?;
        let shape = self.shapes.get(number);
        if port.dtype.has_bytes() && dense_size(port.dtype, shape).is_none() {
            return Err(RuntimeError::BadProgram {
                what: what(),
                expected: "a tensor that fits in memory".to_owned(),
                found: format!("{}{shape:?}", port.dtype),
            });
        }
        Ok(number)
    }

    /// The bytes of an output that may have been placed by an earlier segment.
    fn port_len(&self, port: &PortSpec) -> Result<usize, RuntimeError> {
        let extents = port.shape.iter().map(|dim| size(dim, &self.symbols, || format!("the shape of `{}`", port.name)));
        let mut len = 1usize;
        for extent in extents {
            len = len.checked_mul(extent?).ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?;
        }
        host_size(port.dtype, &[len])
    }

    /// The outputs of a segment in the session's memory one after the other, and the length of them all.
    fn place_outputs(&mut self, entry: &Entry, segments: &Segments, segment: usize) -> Result<(), RuntimeError> {
        let mut end = 0usize;
        self.outputs.clear();
        for (output, (port, &begins)) in entry.outputs.iter().zip(&segments.of_output).enumerate() {
            if begins != segment {
                self.outputs.push(None);
                continue;
            }
            let shape = self.port_shape(port)?;
            let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
            // States have memory of their own.
            let is_state = entry.state_of_output(output).is_some();
            let len = if is_state { 0 } else { host_size(port.dtype, self.shapes.get(shape))? };
            let start = end.checked_next_multiple_of(OUTPUT_ALIGN).ok_or_else(too_large)?;
            end = start.checked_add(len).ok_or_else(too_large)?;
            self.outputs.push(Some(OutputPlace { shape, range: start..end }));
        }
        self.outputs_bytes = end;
        Ok(())
    }

    fn place(&mut self, slot: &Slot, offset: Option<u64>) -> Result<Place, RuntimeError> {
        let symbols = &self.symbols;
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
                let shape = self.shapes.push(shape.iter().map(|dim| size(dim, symbols, what)))?;
                Place::Host { dtype: *dtype, shape }
            }
        })
    }

    /// Notes the shape of an operand of a host step, which lies within its slot.
    fn host_input(&mut self, step: usize, arg: &HostArg) -> Result<(), RuntimeError> {
        let (symbols, what) = (&self.symbols, || format!("an operand of step {step}"));
        let shape = self.shapes.push(arg.shape.iter().map(|dim| size(dim, symbols, what)))?;
        within(step, host_size(arg.dtype, self.shapes.get(shape))?, self.lens[arg.slot as usize])
    }

    /// Evaluates one launch; also returns an estimate of its work.
    fn launch(
        &mut self,
        sources: &Sources<'_>,
        step: usize,
        launch: &infc_artifact::Launch,
    ) -> Result<(BoundLaunch, u64), RuntimeError> {
        let symbols = &self.symbols;
        let number = launch.kernel as usize;
        let kernel = &sources.kernels[number];
        let no_code = || RuntimeError::BadProgram {
            what: format!("kernel {number}"),
            expected: "code".to_owned(),
            found: "none".to_owned(),
        };
        let code = match &launch.grid {
            Some(blocks) => BoundCode::Gpu { grid: grid(step, blocks, symbols)? },
            None => BoundCode::Cpu((sources.kernel_entry)(number).ok_or_else(no_code)?),
        };
        let of = |what: &str| format!("{what} of step {step} (`{}`)", kernel.name);
        let (args_start, values_start) = (self.args.len(), self.values.len());
        for Arg { slot, offset_bytes, .. } in &launch.args {
            let slot = *slot as usize;
            let offset_bytes = size(offset_bytes, symbols, || of("an offset"))?;
            within(step, offset_bytes, self.lens[slot])?;
            self.args.push(BoundArg { slot, offset_bytes });
        }
        for value in &launch.values {
            let value = value.eval(symbols);
            self.values.push(value.map_err(|source| RuntimeError::BadSize { what: of("a value"), source })?);
        }
        let chunks = size(&launch.chunks, symbols, || of("the chunk count"))? as u64;
        let step_chunks = launch.step_chunks.as_ref();
        let step_chunks = step_chunks.map(|n| size(n, symbols, || of("the chunk count of its steps"))).transpose()?;
        let scratch = size(&launch.scratch_bytes, symbols, || of("the scratch size"))?;
        self.scratch_used_bytes = self.scratch_used_bytes.max(scratch);
        let scratch = scratch.checked_next_multiple_of(SCRATCH_ALIGN);
        self.scratch_bytes =
            self.scratch_bytes.max(scratch.ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?);
        let work_ns = estimate_ns(kernel, symbols);
        let is_long = match step_chunks {
            None => work_ns >= PARALLEL_MIN_NS,
            Some(n) => work_ns / chunks.div_ceil(n.max(1) as u64).max(1) >= STEP_MIN_NS,
        };
        let bound = BoundLaunch {
            code,
            kernel: launch.kernel as usize,
            args: args_start..self.args.len(),
            values: values_start..self.values.len(),
            chunks,
            step_chunks: step_chunks.map(|n| n as u64),
            is_parallel: chunks > 1 && is_long,
            takes_scratch: launch.scratch_bytes.as_const() != Some(0),
        };
        Ok((bound, work_ns))
    }
}

/// Fails if what the compiler took for granted does not hold.
pub(crate) fn check(assumption: &Assumption, entry: &Entry, symbols: &[i64]) -> Result<(), RuntimeError> {
    let value = |expr: &SizeExpr| {
        expr.eval(symbols).map_err(|source| RuntimeError::BadSize { what: assumption.what.clone(), source })
    };
    let (left, right) = (value(&assumption.left)?, value(&assumption.right)?);
    let holds = match assumption.relation {
        Relation::Equal => left == right,
        Relation::AtMost => left <= right,
    };
    if holds {
        return Ok(());
    }
    let names = entry.symbol_names();
    let shown = |expr: &SizeExpr, value: i64| match expr.as_const() {
        Some(_) => value.to_string(),
        None => format!("{} = {value}", expr.to_text(&names)),
    };
    let (left, right) = (shown(&assumption.left, left), shown(&assumption.right, right));
    let (expected, found) = match assumption.relation {
        Relation::Equal => ("equal".to_owned(), format!("{left} and {right}")),
        Relation::AtMost => (format!("at least {left}"), right),
    };
    let place = match &assumption.origins[..] {
        [] => format!("entry `{}`", entry.name),
        origins => format!("node {}", origins.iter().map(|o| format!("`{o}`")).collect::<Vec<_>>().join(", ")),
    };
    Err(RuntimeError::AssumptionFailed { place, what: assumption.what.clone(), expected, found })
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

/// Bytes of a dense tensor; none for strings and values, which kernels do not see.
fn host_size(dtype: DType, shape: &[usize]) -> Result<usize, RuntimeError> {
    if !dtype.has_bytes() {
        return Ok(0);
    }
    dense_size(dtype, shape).ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })
}

fn size(expr: &SizeExpr, symbols: &[i64], what: impl Fn() -> String) -> Result<usize, RuntimeError> {
    expr.eval_size(symbols).map_err(|source| RuntimeError::BadSize { what: what(), source })
}

/// The blocks of a launch on a GPU. CUDA's limits: 2³¹ − 1 along x, 65535 along y and z.
fn grid(step: usize, blocks: &[SizeExpr; 3], symbols: &[i64]) -> Result<[u32; 3], RuntimeError> {
    let mut grid = [0; 3];
    for ((blocks, found), limit) in blocks.iter().zip(&mut grid).zip([i32::MAX as usize, 0xffff, 0xffff]) {
        let wanted = size(blocks, symbols, || format!("the grid of step {step}"))?;
        *found = u32::try_from(wanted).ok().filter(|_| wanted <= limit).ok_or_else(|| RuntimeError::BadProgram {
            what: format!("the grid of step {step}"),
            expected: format!("at most {limit} blocks"),
            found: wanted.to_string(),
        })?;
    }
    Ok(grid)
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
