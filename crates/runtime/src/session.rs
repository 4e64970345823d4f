//! A session: the memory a model runs in, and the runs themselves.

use crate::arena::{Arena, Span};
use crate::binding::{Binding, BoundLaunch, BoundStep, OutputPlace, Place, Sources, wrong_shape};
use crate::code::{FpMode, FpScope, KernelCall};
use crate::error::RuntimeError;
use crate::host::HostValues;
use crate::model::Loaded;
use crate::observer::{Event, Observer, Planned, StepEvent};
use crate::pool::{Entered, Pool, Task};
use crate::state::{Port, States};
use crate::symbols::{Given, Inputs, bind_late, bind_symbols, skip_late};
use crate::view::{TensorView, TensorViewMut};
use infc_artifact::{Entry, Planner, Program, Segments, Step};
use infc_tensor::{AlignedBytes, Tensor};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bindings kept for the next run with the same dims.
const KEPT_BINDINGS: usize = 8;

/// How a session is made. Fields may be added: end a literal with `..SessionOptions::default()`.
#[derive(Clone, Default)]
pub struct SessionOptions {
    /// The entry to run; `None` for the one named `main`, else the first.
    pub entry: Option<String>,
    /// Threads a run may use at most, the caller included; `None` for all of the pool.
    pub max_threads: Option<usize>,
    /// Who is told about plans, steps and runs.
    pub observer: Option<Arc<dyn Observer>>,
}

impl std::fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let observed = self.observer.is_some();
        write!(f, "SessionOptions({:?}, max_threads {:?}, observed {observed})", self.entry, self.max_threads)
    }
}

/// How one run goes. Fields may be added: end a literal with `..RunOptions::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Threads to use at most, the caller included; `None` for what the session allows. 1 uses the caller alone.
    pub max_threads: Option<usize>,
    /// Fail with `runtime::deadline-exceeded` instead of starting another step after this.
    pub deadline: Option<Instant>,
    /// Fail with `runtime::cancelled` instead of starting another step once this is true.
    pub cancel: Option<&'a AtomicBool>,
    /// Read and write denormal numbers as zero, which is faster where they are frequent. By default they are kept.
    pub flush_denormals: bool,
}

/// Runs one entry of a model, in memory of its own.
///
/// After some runs a run makes no heap call, whatever its dims are, unless they need more memory than those before, or the
/// Program has host steps. A run that fails leaves the session usable.
pub struct Session {
    model: Arc<Loaded>,
    /// Index of the entry.
    entry: usize,
    /// What runs it.
    form: Form,
    pool: Pool,
    max_threads: usize,
    observer: Option<Arc<dyn Observer>>,
    planner: Planner,
    scratch: Arena,
    /// Inputs that had to be made dense.
    staging: Arena,
    /// What is carried from run to run.
    states: States,
    /// Outputs of the last run that no kernel writes.
    given: Vec<Option<Tensor>>,
    /// The slots of the run in progress.
    slots: Vec<Span>,
    /// The inputs of the run in progress.
    inputs: Vec<Span>,
    task: Arc<SessionTask>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session(entry `{}`, {} bindings)", self.entry().name, self.form.parts[0].bindings.len())
    }
}

/// An entry with what its runs need.
#[derive(Debug)]
struct Form {
    segments: Segments,
    /// Per segment of the Program.
    parts: Vec<Part>,
    /// The symbol values of the run in progress; 0 where they are not known yet.
    symbols: Vec<i64>,
    /// What host steps of the run in progress have made.
    host: HostValues,
}

impl Form {
    fn new(model: &Loaded, entry: usize) -> Self {
        let (spec, program) = (&model.manifest.entries[entry], &model.body.programs[entry]);
        let segments = Segments::new(spec, program);
        Self {
            parts: segments.steps.iter().map(|_| Part::new()).collect(),
            segments,
            symbols: Vec::new(),
            host: HostValues::new(spec, program),
        }
    }
}

/// What belongs to one segment of the Program.
#[derive(Debug)]
struct Part {
    /// The last used comes first.
    bindings: Vec<Binding>,
    arena: Arena,
    /// Outputs the session keeps.
    outputs: Arena,
}

impl Part {
    fn new() -> Self {
        Self { bindings: Vec::with_capacity(KEPT_BINDINGS), arena: Arena::empty(), outputs: Arena::empty() }
    }
}

/// What a run takes along from step to step.
struct Run<'r, 'd, 'v> {
    options: &'r RunOptions<'r>,
    entered: Option<&'r Entered<'r>>,
    destination: &'r mut Destination<'d, 'v>,
}

/// What the threads of a run share.
#[derive(Debug)]
struct SessionTask {
    call: KernelCall,
    flush_denormals: AtomicBool,
}

impl Task for SessionTask {
    fn run_chunks(&self, begin: u64, end: u64, lane: usize) {
        self.call.run_chunks(begin, end, lane);
    }

    fn fp_mode(&self) -> FpMode {
        // Written before the run enters the pool, and published by that.
        if self.flush_denormals.load(Ordering::Relaxed) { FpMode::FlushDenormals } else { FpMode::KeepDenormals }
    }
}

/// Where a run puts its outputs.
pub(crate) enum Destination<'r, 'v> {
    Caller(&'r mut [TensorViewMut<'v>]),
    Session,
}

impl Session {
    pub(crate) fn new(model: Arc<Loaded>, options: &SessionOptions) -> Result<Self, RuntimeError> {
        let entries = &model.manifest.entries;
        let entry = match &options.entry {
            Some(name) => entries.iter().position(|entry| entry.name == *name),
            None => Some(entries.iter().position(|entry| entry.name == "main").unwrap_or(0)),
        };
        let entry = entry.ok_or_else(|| RuntimeError::UnknownEntry {
            wanted: options.entry.clone().unwrap_or_default(),
            known: entries.iter().map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>().join(", "),
        })?;
        let pool = model.pool.clone().unwrap_or_else(Pool::shared);
        let form = Form::new(&model, entry);
        let words = argument_words(&model.body.programs[entry]);
        let task = SessionTask { call: KernelCall::with_capacity(words), flush_denormals: AtomicBool::new(false) };
        let mut session = Self {
            entry,
            max_threads: options.max_threads.unwrap_or(usize::MAX).clamp(1, pool.threads()),
            pool,
            observer: options.observer.clone(),
            planner: Planner::default(),
            scratch: Arena::empty(),
            staging: Arena::empty(),
            states: States::new(&entries[entry]),
            given: vec![None; entries[entry].outputs.len()],
            slots: Vec::with_capacity(model.body.programs[entry].slots.len()),
            inputs: Vec::with_capacity(entries[entry].inputs.len()),
            task: Arc::new(task),
            form,
            model,
        };
        if session.entry().symbols.is_empty() {
            // Nothing to wait for: errors show now, and the first run is like the others.
            session.use_binding(0)?;
            session.reserve(0)?;
        }
        Ok(session)
    }

    /// The entry this session runs.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.model.manifest.entries[self.entry]
    }

    /// The size in bytes of the arena, or of the arenas of all segments: the most that any binding so far has needed.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.form.parts.iter().map(|part| part.arena.bytes().len()).sum()
    }

    /// The shapes that the outputs have when the inputs have the given shapes.
    ///
    /// # Errors
    /// What a run with such inputs would say; `runtime::value-needed` if shapes follow from the values of inputs, which
    /// [`Session::output_shapes_for`] looks at; `runtime::late-shape` if an output's shape depends on what is computed.
    pub fn output_shapes(&mut self, input_shapes: &[&[usize]]) -> Result<Vec<Vec<usize>>, RuntimeError> {
        self.bind(Given::Shapes(input_shapes))?;
        self.bound_shapes()
    }

    /// The shapes that the outputs have for the given inputs.
    ///
    /// # Errors
    /// What a run with these inputs would say; `runtime::late-shape` if an output's shape depends on what is computed.
    pub fn output_shapes_for(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<Vec<usize>>, RuntimeError> {
        self.bind(Given::Views(inputs))?;
        self.bound_shapes()
    }

    fn bound_shapes(&self) -> Result<Vec<Vec<usize>>, RuntimeError> {
        if let Some(output) = self.late_output() {
            return Err(RuntimeError::LateShape { output: self.entry().outputs[output].name.clone() });
        }
        let binding = &self.form.parts[0].bindings[0];
        let taken = (0..binding.outputs.len()).filter(|&output| matches!(self.states.output(output), Port::Caller(_)));
        let shapes = taken.filter_map(|output| binding.output_shape(output));
        Ok(shapes.map(<[usize]>::to_vec).collect())
    }

    /// Whether only a run tells what an output is: its shape, or what has no bytes.
    pub(crate) fn has_given_outputs(&self) -> bool {
        self.late_output().is_some() || self.program().steps.iter().any(|step| matches!(step, Step::Give(_)))
    }

    /// An output of the last run that no kernel writes.
    pub(crate) fn given(&self, index: usize) -> Option<&Tensor> {
        self.given.get(index)?.as_ref()
    }

    /// The first output that the caller takes whose shape depends on what is computed.
    pub(crate) fn late_output(&self) -> Option<usize> {
        let is_taken = |output: usize| matches!(self.states.output(output), Port::Caller(_));
        (0..self.form.segments.of_output.len())
            .find(|&output| self.form.segments.of_output[output] > 0 && is_taken(output))
    }

    /// Runs the entry. Inputs and outputs come in the order of the entry's, without those that are states; outputs must
    /// have the shapes that [`Session::output_shapes`] tells, or those that are computed. Dense inputs and all outputs
    /// are used where they are.
    ///
    /// # Errors
    /// Inputs or outputs that do not fit, `runtime::deadline-exceeded`, `runtime::cancelled`, or
    /// `runtime::out-of-memory`. The contents of the outputs are unspecified then.
    pub fn run(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        options: &RunOptions<'_>,
    ) -> Result<(), RuntimeError> {
        self.execute(inputs, &[], Destination::Caller(outputs), options)
    }

    /// The common part of all runs. `held` has inputs without bytes, by the entry's number; their views only tell shapes.
    pub(crate) fn execute(
        &mut self,
        inputs: &[TensorView<'_>],
        held: &[(usize, &Tensor)],
        mut destination: Destination<'_, '_>,
        options: &RunOptions<'_>,
    ) -> Result<(), RuntimeError> {
        let started = self.observer.is_some().then(Instant::now);
        self.check_count(inputs.len())?;
        for (input, port) in self.entry().inputs.iter().enumerate() {
            let Port::Caller(n) = self.states.input(input) else { continue };
            let view = &inputs[n];
            if port.dtype != view.dtype() {
                let (expected, found) = (port.dtype, view.dtype());
                return Err(RuntimeError::WrongType { port: format!("input `{}`", port.name), expected, found });
            }
        }
        self.bind(Given::Views(inputs))?;
        let binding = &self.form.parts[0].bindings[0];
        self.states.begin(|input| binding.shapes.get(input))?;
        self.stage(inputs)?;
        self.given.fill(None);
        for &(input, tensor) in held {
            self.form.host.take_input(&self.model.body.programs[self.entry], input, tensor);
        }
        self.slots.clear();
        self.slots.resize(self.program().slots.len(), Span::EMPTY);

        let done = self.run_steps(options, &mut destination);
        // No address outlives the borrow of the buffers.
        self.task.call.clear();
        self.slots.clear();
        self.inputs.clear();
        self.form.host.clear();
        done?;
        let (segments, parts) = (&self.form.segments, &self.form.parts);
        self.states.advance(|output| output_place(segments, parts, output).map(|(shape, _)| shape));
        if let (Some(observer), Some(started)) = (&self.observer, started) {
            observer.event(&Event::RunFinished { took: started.elapsed() });
        }
        Ok(())
    }

    fn program(&self) -> &Program {
        &self.model.body.programs[self.entry]
    }

    /// Shape and place of an output after a run.
    fn output_place(&self, index: usize) -> Option<(&[usize], &OutputPlace)> {
        output_place(&self.form.segments, &self.form.parts, index)
    }

    /// What is carried from run to run.
    pub(crate) fn carried(&self) -> &States {
        &self.states
    }

    /// As [`Session::carried`].
    pub(crate) fn carried_mut(&mut self) -> &mut States {
        &mut self.states
    }

    /// The shape of an output after a run, and its bytes if the session keeps it.
    pub(crate) fn kept_output(&self, index: usize) -> Option<(&[usize], &[u8])> {
        let (shape, place) = self.output_place(index)?;
        let outputs = &self.form.parts[self.form.segments.of_output[index]].outputs;
        Some((shape, outputs.bytes().get(place.range.clone())?))
    }

    fn check_count(&self, found: usize) -> Result<(), RuntimeError> {
        let expected = self.states.given();
        if found == expected { Ok(()) } else { Err(RuntimeError::InputCount { expected, found }) }
    }

    /// Finds or makes the binding for these inputs and puts it first.
    fn bind(&mut self, given: Given<'_>) -> Result<(), RuntimeError> {
        self.check_count(given.len())?;
        let entry = &self.model.manifest.entries[self.entry];
        let inputs = Inputs { given, states: &self.states };
        bind_symbols(entry, &self.form.segments, inputs, &mut self.form.symbols)?;
        self.use_binding(0)?;
        let entry = &self.model.manifest.entries[self.entry];
        for (input, port) in entry.inputs.iter().enumerate() {
            let expected = self.form.parts[0].bindings[0].shapes.get(input);
            let inputs = Inputs { given, states: &self.states };
            // A state without a value takes the shape that is expected.
            if let Some(found) = inputs.shape(input).filter(|&found| found != expected) {
                let kind = if matches!(self.states.input(input), Port::State(_)) { "state" } else { "input" };
                return Err(wrong_shape(entry, port, kind, found, Some(expected)));
            }
        }
        Ok(())
    }

    /// Puts the binding of a segment for the symbols' values first, making it if need be.
    fn use_binding(&mut self, segment: usize) -> Result<(), RuntimeError> {
        let bindings = &mut self.form.parts[segment].bindings;
        if let Some(found) = bindings.iter().position(|binding| binding.symbols == self.form.symbols) {
            bindings[..=found].rotate_right(1);
            return Ok(());
        }
        let started = self.observer.is_some().then(Instant::now);
        let (model, body) = (&self.model, &self.model.body);
        let sources = Sources {
            entry: &model.manifest.entries[self.entry],
            program: &body.programs[self.entry],
            segments: &self.form.segments,
            segment,
            kernels: &body.kernels,
            kernel_entry: &|kernel| model.kernel(kernel),
            weight_len: &|weight| model.weight(weight).len(),
        };
        // The one that was not used for longest makes room; its memory is used again.
        let oldest = if bindings.len() < KEPT_BINDINGS { None } else { bindings.pop() };
        let mut binding = oldest.unwrap_or_default();
        binding.fill(&sources, &mut self.planner, &self.form.symbols)?;
        if let (Some(observer), Some(started)) = (&self.observer, started) {
            let (symbols, arena_bytes) = (self.form.symbols.as_slice(), binding.arena_bytes);
            observer.event(&Event::Planned(Planned { symbols, arena_bytes, took: started.elapsed() }));
        }
        self.form.parts[segment].bindings.insert(0, binding);
        Ok(())
    }

    /// Compares the buffers for a segment's outputs with what the entry says.
    fn check_outputs(&self, segment: usize, outputs: &[TensorViewMut<'_>]) -> Result<(), RuntimeError> {
        let entry = self.entry();
        if outputs.len() != self.states.taken() {
            return Err(RuntimeError::OutputCount { expected: self.states.taken(), found: outputs.len() });
        }
        let binding = &self.form.parts[segment].bindings[0];
        for (output, port) in entry.outputs.iter().enumerate() {
            let shape = binding.output_shape(output);
            let (Some(shape), Port::Caller(n)) = (shape, self.states.output(output)) else { continue };
            let view = &outputs[n];
            if port.dtype != view.dtype() {
                let (expected, found) = (port.dtype, view.dtype());
                return Err(RuntimeError::WrongType { port: format!("output `{}`", port.name), expected, found });
            }
            if view.shape() != shape {
                return Err(wrong_shape(entry, port, "output", view.shape(), Some(shape)));
            }
        }
        Ok(())
    }

    /// Grows arena and scratch memory to what the binding of a segment needs.
    fn reserve(&mut self, segment: usize) -> Result<(), RuntimeError> {
        let part = &mut self.form.parts[segment];
        let binding = &part.bindings[0];
        let scratch = binding.scratch_bytes.checked_mul(self.max_threads);
        self.scratch.reserve(scratch.ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?)?;
        part.arena.reserve(binding.arena_bytes)
    }

    /// Begins a segment whose symbols are known: its sizes, its memory, and the places of its slots.
    fn begin(&mut self, segment: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        if segment > 0 {
            self.use_binding(segment)?;
        }
        if let Destination::Caller(outputs) = &destination {
            self.check_outputs(segment, outputs)?;
        }
        self.reserve(segment)?;
        self.place_slots(segment, destination)
    }

    /// Notes where the inputs are, after copying those that are not dense.
    fn stage(&mut self, inputs: &[TensorView<'_>]) -> Result<(), RuntimeError> {
        const ALIGN: usize = 64;
        let staged = inputs.iter().filter(|view| view.dense_bytes().is_none());
        let total = staged
            .clone()
            .try_fold(0usize, |sum, view| sum.checked_add(view.dense_size())?.checked_next_multiple_of(ALIGN));
        self.staging.reserve(total.ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?)?;
        let mut at = 0;
        for view in staged {
            let end = at + view.dense_size();
            view.copy_dense(&mut self.staging.bytes_mut()[at..end]);
            at = end.next_multiple_of(ALIGN);
        }
        let staging = self.staging.span();
        let mut at = 0;
        self.inputs.clear();
        for input in 0..self.model.manifest.entries[self.entry].inputs.len() {
            let view = match self.states.input(input) {
                Port::Caller(n) => &inputs[n],
                Port::State(state) => {
                    self.inputs.push(self.states.read(state));
                    continue;
                }
            };
            self.inputs.push(match view.dense_bytes() {
                Some(bytes) => Span::read_only(bytes),
                None => {
                    let end = at + view.dense_size();
                    let span = staging.get(at..end).unwrap_or(Span::EMPTY);
                    at = end.next_multiple_of(ALIGN);
                    span
                }
            });
        }
        Ok(())
    }

    /// Notes where the slots of a segment are.
    fn place_slots(&mut self, segment: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        let Part { bindings, arena, outputs: kept } = &mut self.form.parts[segment];
        let binding = &bindings[0];
        if let Destination::Session = destination {
            kept.reserve(binding.outputs_bytes)?;
        }
        let (arena, kept) = (arena.span(), kept.span());
        for (index, place) in binding.slots.iter().enumerate() {
            let Some(place) = place else { continue };
            let span = match place {
                Place::Input(i) => Some(self.inputs[*i]),
                Place::Output(i) => match (self.states.output(*i), &mut *destination, &binding.outputs[*i]) {
                    (Port::State(state), _, Some(output)) => {
                        Some(self.states.write(state, binding.shapes.get(output.shape))?)
                    }
                    (Port::Caller(n), Destination::Caller(outputs), _) => Some(Span::writable(outputs[n].bytes_mut())),
                    (Port::Caller(_), Destination::Session, Some(output)) => kept.get(output.range.clone()),
                    (_, _, None) => None,
                },
                Place::Weight(i) => Some(Span::read_only(self.model.weight(*i))),
                Place::Arena(range) => arena.get(range.clone()),
                // What is made later has its place then.
                Place::Host { dtype, shape } => {
                    self.form.host.accept(index, *dtype, binding.shapes.get(*shape))?.or(Some(Span::EMPTY))
                }
            };
            self.slots[index] = span.ok_or_else(|| RuntimeError::BadProgram {
                what: "a slot".to_owned(),
                expected: format!("a place within the {} bytes of the arena", arena.len_bytes()),
                found: format!("{place:?}"),
            })?;
        }
        Ok(())
    }

    fn run_steps(
        &mut self,
        options: &RunOptions<'_>,
        destination: &mut Destination<'_, '_>,
    ) -> Result<(), RuntimeError> {
        self.begin(0, destination)?;
        self.task.flush_denormals.store(options.flush_denormals, Ordering::Relaxed);
        let _fp = FpScope::enter(self.task.fp_mode());
        let lanes = options.max_threads.unwrap_or(usize::MAX).clamp(1, self.max_threads);
        // What later segments have to do, their last bindings tell.
        let is_wide = self.form.parts.iter().any(|part| part.bindings.first().is_some_and(|binding| binding.is_wide));
        let (pool, task) = (self.pool.clone(), Arc::clone(&self.task));
        let entered = if is_wide { pool.enter(&task, lanes) } else { None };
        let steps = self.program().steps.len();
        self.run_range(0..steps, &mut Run { options, entered: entered.as_ref(), destination })
    }

    /// Runs some steps: all, or those of a branch.
    fn run_range(&mut self, range: Range<usize>, run: &mut Run<'_, '_, '_>) -> Result<(), RuntimeError> {
        let steps = self.program().steps.len();
        let mut next = range.start;
        while next < range.end {
            let index = next;
            next += 1;
            let segment = self.form.segments.of_step(index);
            let binding = &self.form.parts[segment].bindings[0];
            let step = binding.steps[index - binding.first_step].clone();
            check_interruption(run.options, index, steps)?;
            let started = self.observer.is_some().then(Instant::now);
            match &step {
                BoundStep::Launch(launch) => {
                    self.form.host.check_made(binding.args[launch.args.clone()].iter().map(|arg| arg.slot))?;
                    let scratch = self.scratch.span();
                    let binding = &self.form.parts[segment].bindings[0];
                    self.launch(binding, launch, run.entered, scratch);
                }
                BoundStep::Copy { src, dst, len_bytes } => {
                    self.form.host.check_made(std::iter::once(*src))?;
                    // Both lengths were checked when the sizes were bound.
                    let copied = self.slots[*src].copy_to(self.slots[*dst], *len_bytes);
                    debug_assert!(copied, "checked by `Binding::new`");
                }
                BoundStep::If { condition, then, otherwise } => {
                    let middle = next + then;
                    next = middle + otherwise;
                    let (first, second) = (middle - then..middle, middle..next);
                    if self.slots[*condition].first_byte().is_some_and(|byte| byte != 0) {
                        self.run_range(first, run)?;
                        self.skip(second, run)?;
                    } else {
                        self.skip(first, run)?;
                        self.run_range(second, run)?;
                    }
                }
                BoundStep::Require { unmet: None } => {}
                BoundStep::Require { unmet: Some((left, right)) } => {
                    return Err(self.unmet(index, *left, *right));
                }
                BoundStep::Bind => self.bind_step(index, run.destination)?,
                BoundStep::Give { slot, output } => self.give(*slot, *output, run.destination)?,
                BoundStep::Host { inputs } => self.host_step(index, segment, inputs.clone())?,
            }
            if let (Some(observer), Some(started)) = (&self.observer, started) {
                let took = started.elapsed();
                let (kernel, chunks, threads) = match &step {
                    BoundStep::Launch(l) => {
                        let threads = run.entered.filter(|_| l.is_parallel).map_or(1, Entered::lanes);
                        (Some((l.kernel, self.model.body.kernels[l.kernel].name.as_str())), l.chunks, threads)
                    }
                    BoundStep::Copy { .. }
                    | BoundStep::If { .. }
                    | BoundStep::Require { .. }
                    | BoundStep::Bind
                    | BoundStep::Give { .. }
                    | BoundStep::Host { .. } => (None, 1, 1),
                };
                let slots = &self.slots;
                observer.event(&Event::Step(StepEvent { step: index, kernel, chunks, threads, took, slots }));
            }
        }
        Ok(())
    }

    /// Passes over steps of a branch that is not taken: the segments that begin in it begin all the same.
    fn skip(&mut self, range: Range<usize>, run: &mut Run<'_, '_, '_>) -> Result<(), RuntimeError> {
        if self.form.parts.len() == 1 {
            return Ok(());
        }
        let model = Arc::clone(&self.model);
        for index in range {
            if let Step::Bind(bind) = &model.body.programs[self.entry].steps[index] {
                let segment = self.form.segments.of_step(index) + 1;
                let entry = &model.manifest.entries[self.entry];
                skip_late(entry, bind, (&self.form.segments, segment), &mut self.form.symbols);
                self.begin(segment, run.destination)?;
            }
        }
        Ok(())
    }

    /// Gives symbols their values and begins the segment that knows them.
    fn bind_step(&mut self, index: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        let model = Arc::clone(&self.model);
        let Step::Bind(bind) = &model.body.programs[self.entry].steps[index] else { return Ok(()) };
        let (entry, segment) = (&model.manifest.entries[self.entry], self.form.segments.of_step(index) + 1);
        let shape_of = |slot| self.form.host.shape(slot);
        bind_late(entry, bind, (&self.form.segments, segment), shape_of, &mut self.form.symbols)?;
        self.begin(segment, destination)
    }

    /// Makes an output what a slot holds.
    fn give(&mut self, slot: usize, output: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        self.form.host.check_made(std::iter::once(slot))?;
        let port = &self.entry().outputs[output];
        let place = self.output_place(output).map(|(shape, _)| shape.to_vec()).unwrap_or_default();
        let tensor = match self.form.host.tensor(slot) {
            Some(tensor) => tensor.clone(),
            None => Tensor::from_bytes(port.dtype, place.clone(), AlignedBytes::from_slice(self.slots[slot].bytes()))?,
        };
        if tensor.dtype() != port.dtype || tensor.shape() != place.as_slice() {
            return Err(RuntimeError::UnexpectedResult {
                expected: format!("{}{place:?}", port.dtype),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
        match (self.states.output(output), destination) {
            // Compared with the output's shape when its segment began; what has no bytes has no views.
            (Port::Caller(n), Destination::Caller(outputs)) => {
                let to = outputs[n].bytes_mut();
                if to.len() == tensor.bytes().len() {
                    to.copy_from_slice(tensor.bytes());
                }
            }
            (Port::Caller(_), Destination::Session) => self.given[output] = Some(tensor),
            (Port::State(state), _) => self.states.give(state, &place, tensor.bytes())?,
        }
        Ok(())
    }

    /// Evaluates an operator.
    fn host_step(&mut self, index: usize, segment: usize, inputs: Range<usize>) -> Result<(), RuntimeError> {
        let Step::Host(step) = &self.model.body.programs[self.entry].steps[index] else { return Ok(()) };
        let shapes = &self.form.parts[segment].bindings[0].shapes;
        self.form.host.evaluate(&self.model, step, (shapes, inputs), &self.slots)?;
        for &slot in step.outputs.iter().flatten() {
            let begins = self.form.segments.of_slot[slot as usize];
            if begins > segment {
                continue;
            }
            let binding = &self.form.parts[begins].bindings[0];
            if let Some(Some(Place::Host { dtype, shape })) = binding.slots.get(slot as usize)
                && let Some(span) = self.form.host.accept(slot as usize, *dtype, binding.shapes.get(*shape))?
            {
                self.slots[slot as usize] = span;
            }
        }
        Ok(())
    }

    /// The error about a requirement that these dims do not meet.
    fn unmet(&self, step: usize, left: i64, right: i64) -> RuntimeError {
        let (what, equal) = match &self.model.body.programs[self.entry].steps[step] {
            Step::Require(require) => (require.what.clone(), require.equal),
            _ => (String::new(), true),
        };
        RuntimeError::UnmetRequirement { what, left, right, equal }
    }

    /// Runs one kernel over all its chunks.
    fn launch(&self, binding: &Binding, launch: &BoundLaunch, entered: Option<&Entered<'_>>, scratch: Span) {
        if launch.chunks == 0 {
            return;
        }
        let call = &self.task.call;
        let mut word = 0;
        for arg in &binding.args[launch.args.clone()] {
            let slot = self.slots[arg.slot];
            // Checked when the sizes were bound.
            let span = slot.get(arg.offset_bytes..slot.len_bytes()).unwrap_or(Span::EMPTY);
            call.set_address(word, span);
            word += 1;
        }
        for &value in &binding.values[launch.values.clone()] {
            call.set_value(word, value);
            word += 1;
        }
        // The barrier of kernels that synchronise inside; none do yet.
        call.set_value(word, 0);
        call.set_kernel(launch.entry, scratch, binding.scratch_bytes);
        match entered {
            Some(entered) if launch.is_parallel => entered.region(launch.chunks),
            _ => call.run_chunks(0, launch.chunks, 0),
        }
    }
}

/// Shape and place of an output after a run.
fn output_place<'p>(segments: &Segments, parts: &'p [Part], output: usize) -> Option<(&'p [usize], &'p OutputPlace)> {
    let binding = parts[*segments.of_output.get(output)?].bindings.first()?;
    Some((binding.output_shape(output)?, binding.outputs.get(output)?.as_ref()?))
}

/// The longest argument block of a Program's launches, the reserved word included.
fn argument_words(program: &Program) -> usize {
    let words = program.steps.iter().map(|step| match step {
        Step::Launch(launch) => launch.args.len() + launch.values.len() + 1,
        _ => 0,
    });
    words.max().unwrap_or(0)
}

fn check_interruption(options: &RunOptions<'_>, step: usize, steps: usize) -> Result<(), RuntimeError> {
    if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
        return Err(RuntimeError::Cancelled { step, steps });
    }
    if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(RuntimeError::DeadlineExceeded { step, steps });
    }
    Ok(())
}
