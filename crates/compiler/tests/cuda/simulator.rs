//! The simulator in the place of a GPU and its driver, so that the runtime's own path runs whole artifacts.

use infc_ptxsim::{Argument, Buffer, Launch, Module, buffer_address, buffer_at};
use infc_runtime::artifact::DeviceKernel;
use infc_runtime::{Gpu, GpuAddress, GpuError, GpuFunction};
use std::sync::{Arc, Mutex, MutexGuard};

/// Instructions that a launch may take.
const STEP_LIMIT: u64 = 200_000_000;

/// A GPU of compute capability 8.0 with a driver for PTX 7.0, unless it is told otherwise.
#[derive(Debug)]
pub(crate) struct Simulator {
    capability: u32,
    ptx_version: u32,
    memory_bytes: usize,
    seed: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was given back is empty, and its address is not used again.
    buffers: Vec<Buffer>,
    functions: Vec<Option<Module>>,
    launches: usize,
    /// The launch of this number fails.
    fails_at: Option<usize>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} buffers, {} functions", self.buffers.len(), self.functions.len())
    }
}

impl Simulator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { capability: 80, ptx_version: 70, memory_bytes: 64 << 20, seed, state: Mutex::default() }
    }

    /// Another generation, or an older driver.
    pub(crate) fn of(capability: u32, ptx_version: u32) -> Arc<Self> {
        Arc::new(Self { capability, ptx_version, ..Self::new(0) })
    }

    pub(crate) fn with_memory(memory_bytes: usize) -> Arc<Self> {
        Arc::new(Self { memory_bytes, ..Self::new(0) })
    }

    /// Lets a launch fail, counted from the next one.
    pub(crate) fn fail_after(&self, launches: usize) {
        let mut state = self.state();
        state.fails_at = Some(state.launches + launches);
    }

    /// Launches so far.
    pub(crate) fn launches(&self) -> usize {
        self.state().launches
    }

    /// Memory and kernels that nobody has given back.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.buffers.iter().all(|buffer| buffer.bytes.is_empty()) && state.functions.iter().all(Option::is_none)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
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

    fn load(&self, ptx: &str, _: &DeviceKernel) -> Result<GpuFunction, GpuError> {
        let module = Module::parse(ptx).map_err(|error| GpuError::Refused { log: error.to_string() })?;
        let mut state = self.state();
        state.functions.push(Some(module));
        Ok(GpuFunction(state.functions.len() as u64 - 1))
    }

    fn unload(&self, function: GpuFunction) {
        self.state().functions[function.0 as usize] = None;
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
        state.buffers[buffer].bytes[range.clone()].copy_from_slice(bytes);
        state.buffers[buffer].initialised[range].fill(true);
        Ok(())
    }

    fn read(&self, from: GpuAddress, bytes: &mut [u8]) -> Result<(), GpuError> {
        let state = self.state();
        let (buffer, range) = state.range(from, bytes.len())?;
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

    fn copy(&self, from: GpuAddress, to: GpuAddress, len_bytes: usize) -> Result<(), GpuError> {
        let mut state = self.state();
        let (source, range) = state.range(from, len_bytes)?;
        let bytes = state.buffers[source].bytes[range.clone()].to_vec();
        let initialised = state.buffers[source].initialised[range].to_vec();
        let (target, range) = state.range(to, len_bytes)?;
        state.buffers[target].bytes[range.clone()].copy_from_slice(&bytes);
        state.buffers[target].initialised[range].copy_from_slice(&initialised);
        Ok(())
    }

    fn launch(
        &self,
        function: GpuFunction,
        kernel: &DeviceKernel,
        grid: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let mut state = self.state();
        state.launches += 1;
        if state.fails_at == Some(state.launches) {
            return Err(failed("a launch", "it was told to fail"));
        }
        let arguments: Vec<Argument> = parameters.iter().map(|&word| Argument::Value(word)).collect();
        let launch = Launch {
            entry: &kernel.entry,
            grid,
            block: kernel.block,
            arguments: &arguments,
            dynamic_shared_bytes: u64::from(kernel.dynamic_shared_bytes),
            seed: self.seed,
            step_limit: STEP_LIMIT,
        };
        let State { buffers, functions, .. } = &mut *state;
        let module = functions[function.0 as usize].as_ref().ok_or_else(|| failed("a launch", "it was unloaded"))?;
        let done = infc_ptxsim::run(module, &launch, buffers);
        done.map(drop).map_err(|error| failed(&kernel.entry, &error.to_string()))
    }

    fn synchronize(&self) -> Result<(), GpuError> {
        Ok(())
    }
}
