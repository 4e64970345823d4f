//! The simulator in the place of a GPU and its driver, so that the runtime's own path runs whole artifacts.

use crate::STEP_LIMIT;
use infc_ptxsim::{Argument, Buffer, Launch, Module, SimError, buffer_address, buffer_at};
use infc_runtime::artifact::DeviceKernel;
use infc_runtime::{Gpu, GpuAddress, GpuError, GpuFunction, GpuGraph, GpuImage, GpuMark, GpuModule, GpuOperation};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Memory unless it is told otherwise.
const MEMORY_BYTES: usize = 64 << 20;

/// A GPU of compute capability 8.0 with a driver for PTX 7.0 and 64 MiB, unless it is told otherwise.
#[derive(Debug)]
pub struct Simulator {
    capability: u32,
    ptx_version: u32,
    memory_bytes: usize,
    /// Instructions that all launches together may take.
    step_limit: u64,
    seed: u64,
    takes_text_as_cubin: bool,
    has_graphs: bool,
    can_change: bool,
    state: Mutex<State>,
}

/// Bytes that were copied between the host and the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// To the GPU.
    pub there: usize,
    /// From the GPU.
    pub back: usize,
}

#[derive(Default)]
struct State {
    /// What was given back is empty, and its address is not used again.
    buffers: Vec<Buffer>,
    /// What was given back is `None`.
    modules: Vec<Option<Module>>,
    /// Per function, its module.
    functions: Vec<usize>,
    /// Modules that were loaded as cubins.
    cubins: usize,
    /// What was forgotten is `None`.
    graphs: Vec<Option<Vec<Recorded>>>,
    replays: usize,
    changes: usize,
    /// Steps that had been taken when each was marked.
    marks: BTreeMap<u64, u64>,
    marked: u64,
    launches: usize,
    steps: u64,
    copied: Copied,
    /// The launch of this number fails.
    fails_at: Option<usize>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buffers, {} modules", self.buffers.len(), self.modules.len())
    }
}

impl Simulator {
    /// What is drawn, such as the order of threads, is drawn from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            capability: 80,
            ptx_version: 70,
            memory_bytes: MEMORY_BYTES,
            step_limit: 20 * STEP_LIMIT,
            seed,
            takes_text_as_cubin: false,
            has_graphs: true,
            can_change: true,
            state: Mutex::default(),
        }
    }

    /// Another generation (compute capability, major·10 + minor), with a driver for PTX of this version (the same).
    #[must_use]
    pub fn with_generation(self, capability: u32, ptx_version: u32) -> Self {
        Self { capability, ptx_version, ..self }
    }

    /// With so much memory.
    #[must_use]
    pub fn with_memory(self, memory_bytes: usize) -> Self {
        Self { memory_bytes, ..self }
    }

    /// All launches together may take so many instructions, counted per thread; the one that takes more is ended as by a
    /// driver's limit of time.
    #[must_use]
    pub fn with_step_limit(self, step_limit: u64) -> Self {
        Self { step_limit, ..self }
    }

    /// Takes PTX for machine code of its generation, as an assembler would make it that changes nothing. Otherwise it refuses
    /// machine code.
    #[must_use]
    pub fn with_text_as_cubin(self) -> Self {
        Self { takes_text_as_cubin: true, ..self }
    }

    /// Records nothing, as older drivers.
    #[must_use]
    pub fn without_graphs(self) -> Self {
        Self { has_graphs: false, ..self }
    }

    /// With a driver that changes no graphs.
    #[must_use]
    pub fn without_changes(self) -> Self {
        Self { can_change: false, ..self }
    }

    /// Modules that were loaded as machine code so far.
    #[must_use]
    pub fn cubins(&self) -> usize {
        self.state().cubins
    }

    /// Modules that were loaded so far, as whatever.
    #[must_use]
    pub fn modules(&self) -> usize {
        self.state().modules.len()
    }

    /// Lets a launch fail, counted from the next one.
    pub fn fail_after(&self, launches: usize) {
        let mut state = self.state();
        state.fails_at = Some(state.launches + launches);
    }

    /// How often memory was allocated so far.
    #[must_use]
    pub fn allocations(&self) -> usize {
        // What is given back leaves an empty one.
        self.state().buffers.len()
    }

    /// Launches so far.
    #[must_use]
    pub fn launches(&self) -> usize {
        self.state().launches
    }

    /// How often graphs were changed so far.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.state().changes
    }

    /// Graphs that were started so far.
    #[must_use]
    pub fn replays(&self) -> usize {
        self.state().replays
    }

    /// Instructions executed so far, counted per thread.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// What was copied so far.
    #[must_use]
    pub fn copied(&self) -> Copied {
        self.state().copied
    }

    /// Whether memory, kernels, graphs and marks were all given back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.buffers.iter().all(|buffer| buffer.bytes.is_empty())
            && state.modules.iter().all(Option::is_none)
            && state.graphs.iter().all(Option::is_none)
            && state.marks.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the simulator leaves it as it was, less the buffers of that launch.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// The buffer and the range of some bytes.
    fn range(&self, start: GpuAddress, len: usize) -> Result<(usize, std::ops::Range<usize>), GpuError> {
        let found = buffer_at(start, self.buffers.len());
        let range = found.and_then(|(n, at)| Some((n, usize::try_from(at).ok()?)));
        let range = range.map(|(n, at)| (n, at..at + len)).filter(|(n, r)| r.end <= self.buffers[*n].bytes.len());
        range.ok_or_else(|| failed("a copy", &format!("{len} bytes at {start:#x} are outside of what was allocated")))
    }

    fn start(&mut self, gpu: &Simulator, operation: &Recorded) -> Result<(), GpuError> {
        match operation {
            Recorded::Launch { function, kernel, grid, parameters } => {
                self.launch(gpu, (*function, kernel), *grid, parameters)
            }
            &Recorded::Copy { from, to, len_bytes } => self.copy(from, to, len_bytes),
        }
    }

    fn copy(&mut self, from: GpuAddress, to: GpuAddress, len_bytes: usize) -> Result<(), GpuError> {
        let (source, range) = self.range(from, len_bytes)?;
        let bytes = self.buffers[source].bytes[range.clone()].to_vec();
        let initialised = self.buffers[source].initialised[range].to_vec();
        let (target, range) = self.range(to, len_bytes)?;
        self.buffers[target].bytes[range.clone()].copy_from_slice(&bytes);
        self.buffers[target].initialised[range].copy_from_slice(&initialised);
        Ok(())
    }

    fn launch(
        &mut self,
        gpu: &Simulator,
        (function, kernel): (GpuFunction, &DeviceKernel),
        grid: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        self.launches += 1;
        if self.fails_at == Some(self.launches) {
            return Err(failed("a launch", "it was told to fail"));
        }
        let arguments: Vec<Argument> = parameters.iter().map(|&word| Argument::Value(word)).collect();
        let launch = Launch {
            entry: &kernel.entry,
            grid,
            block: kernel.block,
            arguments: &arguments,
            dynamic_shared_bytes: u64::from(kernel.dynamic_shared_bytes),
            seed: gpu.seed,
            step_limit: gpu.step_limit.saturating_sub(self.steps),
        };
        let Self { buffers, modules, functions, steps, .. } = self;
        let module =
            modules[functions[function.0 as usize]].as_ref().ok_or_else(|| failed("a launch", "it was unloaded"))?;
        let stats = infc_ptxsim::run(module, &launch, buffers).map_err(|error| match error {
            SimError::StepLimit { .. } => {
                *steps = gpu.step_limit;
                GpuError::TimeLimit { what: kernel.entry.clone() }
            }
            error => failed(&kernel.entry, &format!("{}: {error}", error.code())),
        })?;
        *steps += stats.steps;
        Ok(())
    }
}

/// An operation with what it needs.
#[derive(Clone, Debug)]
enum Recorded {
    Launch { function: GpuFunction, kernel: DeviceKernel, grid: [u32; 3], parameters: Vec<u64> },
    Copy { from: GpuAddress, to: GpuAddress, len_bytes: usize },
}

impl Recorded {
    fn of(operation: &GpuOperation<'_>) -> Self {
        match *operation {
            GpuOperation::Launch { function, kernel, grid, parameters } => {
                Self::Launch { function, kernel: kernel.clone(), grid, parameters: parameters.to_vec() }
            }
            GpuOperation::Copy { from, to, len_bytes } => Self::Copy { from, to, len_bytes },
        }
    }

    /// Whether a graph may have one in the place of the other.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Launch { function, kernel, parameters, .. },
                Self::Launch { function: other, kernel: as_kernel, parameters: with, .. },
            ) => (function, kernel, parameters.len()) == (other, as_kernel, with.len()),
            (Self::Copy { .. }, Self::Copy { .. }) => true,
            _ => false,
        }
    }
}

fn failed(what: &str, reason: &str) -> GpuError {
    GpuError::Failed { what: what.to_owned(), reason: reason.to_owned() }
}

impl Gpu for Simulator {
    fn name(&self) -> String {
        "simulator".to_owned()
    }

    fn capability(&self) -> u32 {
        self.capability
    }

    fn ptx_version(&self) -> u32 {
        self.ptx_version
    }

    fn load(&self, image: GpuImage<'_>) -> Result<GpuModule, GpuError> {
        let refused = |log: &str| GpuError::Refused { log: log.to_owned() };
        let text = match image {
            GpuImage::Ptx(text) => text,
            GpuImage::Cubin(image) if self.takes_text_as_cubin => {
                std::str::from_utf8(image).map_err(|_| refused("machine code that is no text"))?
            }
            GpuImage::Cubin(_) => return Err(refused("the simulator executes PTX")),
        };
        let module = Module::parse(text).map_err(|error| refused(&error.to_string()))?;
        let mut state = self.state();
        state.modules.push(Some(module));
        state.cubins += usize::from(matches!(image, GpuImage::Cubin(_)));
        Ok(GpuModule(state.modules.len() as u64 - 1))
    }

    fn function(&self, module: GpuModule, kernel: &DeviceKernel) -> Result<GpuFunction, GpuError> {
        let refused = |log: &str| GpuError::Refused { log: format!("`{}`: {log}", kernel.entry) };
        let mut state = self.state();
        let loaded = state.modules.get(module.0 as usize).and_then(Option::as_ref);
        let loaded = loaded.ok_or_else(|| refused("the module was unloaded"))?;
        if !loaded.entry_names().any(|name| name == kernel.entry) {
            return Err(refused("there is no such entry"));
        }
        if kernel.waits && !loaded.waits(&kernel.entry) {
            return Err(refused("it does not wait for kernels before it"));
        }
        state.functions.push(module.0 as usize);
        Ok(GpuFunction(state.functions.len() as u64 - 1))
    }

    fn unload(&self, module: GpuModule) {
        self.state().modules[module.0 as usize] = None;
    }

    fn allocate(&self, len_bytes: usize) -> Result<GpuAddress, GpuError> {
        let mut state = self.state();
        let used: usize = state.buffers.iter().map(|buffer| buffer.bytes.len()).sum();
        let free_bytes = self.memory_bytes.saturating_sub(used);
        if len_bytes > free_bytes {
            return Err(GpuError::OutOfMemory { needed_bytes: len_bytes, free_bytes });
        }
        state.buffers.push(Buffer::output(len_bytes));
        Ok(buffer_address(state.buffers.len() - 1))
    }

    fn free(&self, start: GpuAddress) {
        let mut state = self.state();
        let (buffer, _) = buffer_at(start, state.buffers.len()).expect("it was allocated");
        state.buffers[buffer] = Buffer::output(0);
    }

    fn write(&self, to: GpuAddress, bytes: &[u8]) -> Result<(), GpuError> {
        let mut state = self.state();
        let (buffer, range) = state.range(to, bytes.len())?;
        state.copied.there += bytes.len();
        state.buffers[buffer].bytes[range.clone()].copy_from_slice(bytes);
        state.buffers[buffer].initialised[range].fill(true);
        Ok(())
    }

    fn read(&self, from: GpuAddress, bytes: &mut [u8]) -> Result<(), GpuError> {
        let mut state = self.state();
        let (buffer, range) = state.range(from, bytes.len())?;
        state.copied.back += bytes.len();
        // Rows may be longer than what is written of them; whoever takes the rest for numbers gets NaN.
        let known = &state.buffers[buffer].initialised[range.clone()];
        if !known.is_empty() && !known.contains(&true) {
            return Err(failed("a copy to the host", "nothing has been written there"));
        }
        for ((to, &from), &known) in bytes.iter_mut().zip(&state.buffers[buffer].bytes[range]).zip(known) {
            *to = if known { from } else { 0xff };
        }
        Ok(())
    }

    fn start(&self, operation: &GpuOperation<'_>) -> Result<(), GpuError> {
        self.state().start(self, &Recorded::of(operation))
    }

    fn record(&self, operations: &[GpuOperation<'_>]) -> Option<GpuGraph> {
        if !self.has_graphs {
            return None;
        }
        let mut state = self.state();
        state.graphs.push(Some(operations.iter().map(Recorded::of).collect()));
        Some(GpuGraph(state.graphs.len() as u64 - 1))
    }

    fn change(&self, graph: GpuGraph, operations: &mut dyn Iterator<Item = (usize, GpuOperation<'_>)>) -> bool {
        let mut state = self.state();
        state.changes += 1;
        let Some(Some(recorded)) = state.graphs.get_mut(graph.0 as usize) else { return false };
        if !self.can_change {
            return false;
        }
        for (at, operation) in operations {
            let operation = Recorded::of(&operation);
            let Some(place) = recorded.get_mut(at).filter(|place| place.is_alike(&operation)) else { return false };
            *place = operation;
        }
        true
    }

    fn replay(&self, graph: GpuGraph) -> Result<(), GpuError> {
        let mut state = self.state();
        let recorded = state.graphs.get(graph.0 as usize).cloned().flatten();
        let recorded = recorded.ok_or_else(|| failed("a graph", "it was forgotten"))?;
        state.replays += 1;
        recorded.iter().try_for_each(|operation| state.start(self, operation))
    }

    fn forget(&self, graph: GpuGraph) {
        self.state().graphs[graph.0 as usize] = None;
    }

    fn mark(&self) -> Result<GpuMark, GpuError> {
        let mut state = self.state();
        state.marked += 1;
        let (number, steps) = (state.marked, state.steps);
        state.marks.insert(number, steps);
        Ok(GpuMark(number))
    }

    /// A nanosecond for every instruction of a thread.
    fn between(&self, from: GpuMark, to: GpuMark) -> Result<Duration, GpuError> {
        let state = self.state();
        let at = |mark: GpuMark| state.marks.get(&mark.0).ok_or_else(|| failed("a mark", "it was forgotten"));
        let steps = at(to)?.checked_sub(*at(from)?).ok_or_else(|| failed("a mark", "it is before the first"))?;
        Ok(Duration::from_nanos(steps))
    }

    fn unmark(&self, mark: GpuMark) {
        self.state().marks.remove(&mark.0);
    }

    fn synchronize(&self) -> Result<(), GpuError> {
        Ok(())
    }
}
