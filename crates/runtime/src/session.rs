//! A session: the memory a model runs in, and the runs themselves.

mod gpu;
mod loops;
mod observed;
mod ports;
mod slices;
mod steps;

pub(crate) use self::gpu::DeviceSlots;
use self::gpu::OnGpu;
use self::loops::Loops;
use self::observed::Observed;
pub use self::ports::{RunInput, RunOutput};
use crate::arena::{Arena, Span};
use crate::binding::{Place, Sources, wrong_shape};
use crate::code::{FpMode, KernelCall};
use crate::error::RuntimeError;
use crate::form::{Form, Forms, Memory, argument_words};
use crate::model::Loaded;
use crate::observer::{Event, Observer, Planned};
use crate::pool::{Pool, Task};
use crate::scratch::{GuardedScratch, Scratch};
use crate::state::{Port, States};
use crate::symbols::{Given, Inputs, bind_symbols};
use crate::view::{TensorView, TensorViewMut};
use infc_artifact::{Entry, Planner, Program, Step};
use infc_tensor::Tensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How a session is made. Fields may be added: end a literal with `..SessionOptions::default()`.
#[derive(Clone, Default)]
pub struct SessionOptions {
    /// The entry to run; `None` for the one named `main`, else the first.
    pub entry: Option<String>,
    /// Run the entry's Program for all values of its dims even where there is a special case for those of a run.
    pub general_only: bool,
    /// Threads a run may use at most, the caller included; `None` for all of the pool.
    pub max_threads: Option<usize>,
    /// Who is told about plans, steps and runs.
    pub observer: Option<Arc<dyn Observer>>,
    /// Let a GPU tell how long it takes ([`Session::device_time`]).
    pub device_time: bool,
    /// Keep scratch memory between inaccessible pages; `None` for memory like all other. Where a system has no such pages, runs
    /// fail with `runtime::out-of-memory`.
    pub guarded_scratch: Option<GuardedScratch>,
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
    /// Fail with `runtime::deadline-exceeded` instead of starting another step after this, those of loops included, or, in a loop
    /// that the host evaluates, another node.
    pub deadline: Option<Instant>,
    /// Fail with `runtime::cancelled` instead of starting another step, those of loops included, or another node of a loop that the
    /// host evaluates, once this is true.
    pub cancel: Option<&'a AtomicBool>,
    /// Read and write denormal numbers as zero, which is faster where they are frequent. By default they are kept.
    pub flush_denormals: bool,
}

/// Runs one entry of a model, in memory of its own.
///
/// After some runs a run makes no heap call, whatever its dims are, unless they need more memory than those before, the
/// Program has host steps, or the run begins anew. A run that fails leaves the session usable.
pub struct Session {
    /// What it has on a GPU, if that runs the model. Dropped before the kernels that its graphs have.
    on_gpu: Option<OnGpu>,
    model: Arc<Loaded>,
    /// Index of the entry.
    entry: usize,
    /// What runs it.
    forms: Forms,
    /// What runs steps of loops, made when a run first comes to them.
    loops: Loops,
    pool: Pool,
    max_threads: usize,
    observer: Option<Arc<dyn Observer>>,
    observed: Observed,
    planner: Planner,
    scratch: Scratch,
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
    /// What a run in slices remembers.
    whole: slices::Whole,
    task: Arc<SessionTask>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session(entry `{}`, {} bindings)", self.entry().name, self.forms.kept_bindings())
    }
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
    /// One for each output of the entry: parts of where a run in slices puts them.
    Spans(&'r [Span]),
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
        let forms = Forms::new(&model, entry, !options.general_only);
        let programs = || forms.entries().map(|entry| &model.body.programs[entry]);
        let words = programs().map(argument_words).max().unwrap_or(0);
        let slots = programs().map(|program| program.slots.len()).max().unwrap_or(0);
        let task = SessionTask { call: KernelCall::with_capacity(words), flush_denormals: AtomicBool::new(false) };
        let mut session = Self {
            entry,
            max_threads: options.max_threads.unwrap_or(usize::MAX).clamp(1, pool.threads()),
            pool,
            observer: options.observer.clone(),
            observed: Observed::new(options),
            planner: Planner::default(),
            scratch: Scratch::empty(options.guarded_scratch),
            staging: Arena::empty(),
            states: States::new(&entries[entry]),
            given: vec![None; entries[entry].outputs.len()],
            slots: Vec::with_capacity(slots),
            inputs: Vec::with_capacity(entries[entry].inputs.len()),
            whole: slices::Whole::default(),
            task: Arc::new(task),
            on_gpu: model
                .gpu()
                .map(|code| OnGpu::new(code, forms.memory.len(), options.observer.is_some() || options.device_time)),
            forms,
            loops: Loops::default(),
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

    /// The index, in [`Manifest::entries`](infc_artifact::Manifest::entries), of the entry that the last run took, or
    /// the last question for shapes: that of [`Session::entry`], or of a special case of it.
    #[must_use]
    pub fn entry_in_use(&self) -> usize {
        self.forms.current().entry
    }

    /// The size in bytes of the arena, or of the arenas of all segments: the most that any run so far has needed, of a batch
    /// in slices the largest slice. On a GPU inputs and outputs are part of it.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        if let Some(on_gpu) = &self.on_gpu {
            return on_gpu.len_bytes();
        }
        self.forms.memory.iter().map(|memory| memory.arena.bytes().len()).sum()
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
        let binding = self.form().binding(0);
        let taken = (0..binding.outputs.len()).filter(|&output| matches!(self.states.output(output), Port::Caller(_)));
        let shapes = taken.filter_map(|output| binding.output_shape(output));
        Ok(shapes.map(<[usize]>::to_vec).collect())
    }

    /// Whether only a run tells what an output is: its shape, or what has no bytes.
    pub(crate) fn has_given_outputs(&self) -> bool {
        self.forms.any(|form| {
            let program = &self.model.body.programs[form.entry];
            self.late_output_of(form).is_some() || program.steps.iter().any(|step| matches!(step, Step::Give(_)))
        })
    }

    /// An output of the last run that no kernel writes.
    pub(crate) fn given(&self, index: usize) -> Option<&Tensor> {
        self.given.get(index)?.as_ref()
    }

    /// The first output that the caller takes whose shape depends on what is computed.
    pub(crate) fn late_output(&self) -> Option<usize> {
        let unranked = self.entry().outputs.iter().position(|port| port.unranked.is_some());
        unranked.or_else(|| self.late_output_of(self.form()))
    }

    fn late_output_of(&self, form: &Form) -> Option<usize> {
        let is_taken = |output: usize| matches!(self.states.output(output), Port::Caller(_));
        let of_output = &form.segments.of_output;
        (0..of_output.len()).find(|&output| of_output[output] > 0 && is_taken(output))
    }

    /// Runs the entry. Inputs and outputs come in the order of the entry's, without those that are states; outputs must
    /// have the shapes that [`Session::output_shapes`] tells, or those that are computed. Dense inputs and all outputs
    /// are used where they are. Where a run finds that extents are not equal which the entry takes to be equal, and begins anew
    /// with an entry that does not, outputs may turn out to have other shapes, which is an error.
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
        self.observed.begin(started);
        self.check_count(inputs.len())?;
        for (input, port) in self.entry().inputs.iter().enumerate() {
            let Port::Caller(n) = self.states.input(input) else { continue };
            let view = &inputs[n];
            let expected = port.element_type();
            if expected != view.dtype() {
                let found = view.dtype();
                return Err(RuntimeError::WrongType { port: format!("input `{}`", port.name), expected, found });
            }
        }
        self.bind(Given::Views(inputs))?;
        let mut done = self.run_form(inputs, held, &mut destination, options);
        // What it takes for granted may show not to be so in the midst of it.
        if done.as_ref().is_err_and(RuntimeError::is_of_extents) && self.bind_with_less(Given::Views(inputs)) {
            self.observed.begin(started);
            if let Some(observer) = &self.observer {
                observer.event(&Event::RunBeginsAnew);
            }
            let again = self.run_form(inputs, held, &mut destination, options);
            // Of what neither is for, the entry that takes less for granted says more, if it is extents that do not fit.
            let tells =
                |error: &RuntimeError| error.is_final() || matches!(error, RuntimeError::AssumptionFailed { .. });
            done = if again.as_ref().err().is_none_or(tells) { again } else { done };
        }
        done?;
        let form = self.forms.current();
        self.states.advance(|output| form.output_place(output).map(|(shape, _)| shape));
        if let (Some(observer), Some(started), false) = (&self.observer, started, self.observed.is_part()) {
            observer.event(&Event::RunFinished { took: started.elapsed() });
        }
        Ok(())
    }

    /// Runs the form in use, whose symbols are bound.
    fn run_form(
        &mut self,
        inputs: &[TensorView<'_>],
        held: &[(usize, &Tensor)],
        destination: &mut Destination<'_, '_>,
        options: &RunOptions<'_>,
    ) -> Result<(), RuntimeError> {
        let form = self.forms.current();
        self.states.lie(&self.model.manifest.entries[form.entry].state)?;
        self.states.begin(|input| form.binding(0).shapes.get(input))?;
        self.stage(inputs)?;
        self.given.fill(None);
        for &(input, tensor) in held {
            self.take_input(input, tensor);
        }
        let has_unranked = self.take_unranked(inputs, held)?;
        self.slots.clear();
        self.slots.resize(self.program().slots.len(), Span::EMPTY);

        let done = match self.slices() {
            Ok(Some(slices)) if held.is_empty() && !has_unranked => self.run_slices(slices, options, destination),
            Ok(_) => self.run_steps(options, destination),
            Err(error) => Err(error),
        };
        // No address outlives the borrow of the buffers.
        self.task.call.clear();
        self.slots.clear();
        self.inputs.clear();
        self.forms.current_mut().host.clear();
        done
    }

    /// Takes in an input that lies in no memory of the caller's.
    fn take_input(&mut self, input: usize, tensor: &Tensor) {
        let form = self.forms.current_mut();
        form.host.take_input(&self.model.body.programs[form.entry], input, tensor);
    }

    /// Takes in the inputs of any number of axes, as the sequences that the Program has; false if there are none.
    fn take_unranked(&mut self, inputs: &[TensorView<'_>], held: &[(usize, &Tensor)]) -> Result<bool, RuntimeError> {
        let mut found = false;
        for input in 0..self.entry().inputs.len() {
            let Port::Caller(n) = self.states.input(input) else { continue };
            if self.entry().inputs[input].unranked.is_none() {
                continue;
            }
            let tensor = match held.iter().find(|(number, _)| *number == input) {
                Some((_, tensor)) => (*tensor).clone(),
                None if inputs[n].is_elsewhere() => {
                    let port = format!("input `{}`", self.entry().inputs[input].name);
                    return Err(RuntimeError::GpuTensor { port, reason: "a step on the host needs it".to_owned() });
                }
                None => inputs[n].to_tensor()?,
            };
            self.take_input(input, &Tensor::sequence(vec![tensor])?);
            found = true;
        }
        Ok(found)
    }

    /// What runs the entry, or its special case, for the dims that were bound last.
    fn form(&self) -> &Form {
        self.forms.current()
    }

    fn program(&self) -> &Program {
        &self.model.body.programs[self.form().entry]
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
        let form = self.form();
        let (shape, place) = form.output_place(index)?;
        let outputs = &self.forms.memory[form.segments.of_output[index]].outputs;
        Some((shape, outputs.bytes().get(place.range.clone())?))
    }

    fn check_count(&self, found: usize) -> Result<(), RuntimeError> {
        let expected = self.states.given();
        if found == expected { Ok(()) } else { Err(RuntimeError::InputCount { expected, found }) }
    }

    /// Chooses the form that fits these inputs, finds or makes the binding for them and puts it first.
    fn bind(&mut self, given: Given<'_>) -> Result<(), RuntimeError> {
        self.check_count(given.len())?;
        let bound = self.bind_as_fits(given);
        let begins_anew = bound.as_ref().is_err_and(RuntimeError::is_of_extents) && self.bind_with_less(given);
        if begins_anew { Ok(()) } else { bound }
    }

    fn bind_as_fits(&mut self, given: Given<'_>) -> Result<(), RuntimeError> {
        let entries = &self.model.manifest.entries;
        let inputs = Inputs { given, states: &self.states };
        let general = self.forms.general_mut();
        let bound = bind_symbols(&entries[self.entry], &general.segments, inputs, &mut general.symbols);
        // What the last run took counts no more, whatever comes of this one.
        self.forms.choose(|entry| entries[entry].specializes.as_ref());
        bound?;
        let form = self.forms.current_mut();
        if form.entry != self.entry {
            bind_symbols(&entries[form.entry], &form.segments, inputs, &mut form.symbols)?;
        }
        self.bind_form(given)
    }

    /// Goes on to the form that takes less for granted; false if there is none for these inputs.
    fn bind_with_less(&mut self, given: Given<'_>) -> bool {
        let entries = &self.model.manifest.entries;
        let Some(before) = self.forms.take_less(|entry| entries[entry].specializes.as_ref()) else { return false };
        let form = self.forms.current_mut();
        let inputs = Inputs { given, states: &self.states };
        let bound = bind_symbols(&entries[form.entry], &form.segments, inputs, &mut form.symbols);
        let is_bound = bound.and_then(|()| self.bind_form(given)).is_ok();
        if !is_bound {
            self.forms.return_to(before);
        }
        is_bound
    }

    /// Finds or makes the binding of the form in use, whose symbols are bound, and puts it first.
    fn bind_form(&mut self, given: Given<'_>) -> Result<(), RuntimeError> {
        self.use_binding(0)?;
        let entry = &self.model.manifest.entries[self.entry];
        for (input, port) in entry.inputs.iter().enumerate().filter(|(_, port)| port.unranked.is_none()) {
            let expected = self.form().binding(0).shapes.get(input);
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
        let form = self.forms.current_mut();
        let bindings = &mut form.bindings[segment];
        if let Some(found) = bindings.iter().position(|binding| binding.symbols == form.symbols) {
            bindings[..=found].rotate_right(1);
            return Ok(());
        }
        let started = self.observer.is_some().then(Instant::now);
        let mut binding = form.spare(segment);
        let (model, body) = (&self.model, &self.model.body);
        let sources = Sources {
            entry: &model.manifest.entries[form.entry],
            program: &body.programs[form.entry],
            segments: &form.segments,
            segment,
            kernels: &body.kernels,
            kernel_entry: &|kernel| model.kernel(kernel),
            weight_len: &|weight| model.weight(weight).len(),
        };
        binding.fill(&sources, &mut self.planner, &form.symbols)?;
        if let (Some(observer), Some(started)) = (&self.observer, started) {
            let (entry, symbols, arena_bytes) = (form.entry, form.symbols.as_slice(), binding.arena_bytes);
            observer.event(&Event::Planned(Planned { entry, symbols, arena_bytes, took: started.elapsed() }));
        }
        form.bindings[segment].insert(0, binding);
        Ok(())
    }

    /// Compares the buffers for a segment's outputs with what the entry says.
    fn check_outputs(&self, segment: usize, outputs: &[TensorViewMut<'_>]) -> Result<(), RuntimeError> {
        let entry = self.entry();
        if outputs.len() != self.states.taken() {
            return Err(RuntimeError::OutputCount { expected: self.states.taken(), found: outputs.len() });
        }
        let binding = self.form().binding(segment);
        for (output, port) in entry.outputs.iter().enumerate() {
            let shape = binding.output_shape(output);
            let (Some(shape), Port::Caller(n)) = (shape, self.states.output(output)) else { continue };
            let view = &outputs[n];
            let expected = port.element_type();
            if expected != view.dtype() {
                let found = view.dtype();
                return Err(RuntimeError::WrongType { port: format!("output `{}`", port.name), expected, found });
            }
            // Of any number of axes it is looked at when it is there.
            if port.unranked.is_none() && view.shape() != shape {
                return Err(wrong_shape(entry, port, "output", view.shape(), Some(shape)));
            }
        }
        Ok(())
    }

    /// Grows arena and scratch memory to what the binding of a segment needs.
    fn reserve(&mut self, segment: usize) -> Result<(), RuntimeError> {
        if self.on_gpu.is_some() && !gpu::reads_arena(self.program()) {
            // Its memory is reserved when the sizes of inputs and outputs are known, too.
            return Ok(());
        }
        let (form, memory) = self.forms.with_memory(segment);
        let binding = form.binding(segment);
        // On a GPU it is part of the memory there.
        let threads = if self.on_gpu.is_some() { 0 } else { self.max_threads };
        self.scratch.reserve(threads, binding.scratch_bytes, binding.scratch_used_bytes)?;
        memory.arena.reserve(binding.arena_bytes)
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
        self.place_slots(segment, destination)?;
        self.place_on_gpu(segment)
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
        let (form, memory) = self.forms.with_memory(segment);
        let Memory { arena, outputs: kept } = memory;
        let Form { bindings, host, .. } = form;
        let binding = &bindings[segment][0];
        if let Destination::Session = destination {
            kept.reserve(binding.outputs_bytes)?;
        }
        let (arena, kept) = (arena.span(), kept.span());
        let has_arena = gpu::reads_arena(&self.model.body.programs[form.entry]);
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
                    (Port::Caller(_), Destination::Spans(spans), _) => spans.get(*i).copied(),
                    (_, _, None) => None,
                },
                Place::Weight(i) => Some(Span::read_only(self.model.weight(*i))),
                // Not on the host, unless something there reads it.
                Place::Arena(_) if self.on_gpu.is_some() && !has_arena => Some(Span::EMPTY),
                Place::Arena(range) => arena.get(range.clone()),
                // What is made later has its place then.
                Place::Host { dtype, shape } => {
                    host.accept(index, *dtype, binding.shapes.get(*shape))?.or(Some(Span::EMPTY))
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
}
