//! What the functions do, on handles and addresses.

use infc_runtime::artifact::DeviceKernel;
use infc_runtime::{Gpu, GpuError, GpuFunction, GpuImage, GpuModule, GpuOperation};
use infc_simgpu::Simulator;
use std::collections::BTreeMap;

/// `CUresult`.
pub(crate) type Code = i32;

pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const INVALID_IMAGE: Code = 200;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const NO_BINARY_FOR_GPU: Code = 209;
pub(crate) const INVALID_PTX: Code = 218;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const LAUNCH_FAILED: Code = 719;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// The version of CUDA from which on kernels of graphs may begin early.
const EARLY_SINCE: i32 = 12_030;

/// Its compute capability: Hopper, major·10 + minor.
const CAPABILITY: u32 = 90;
/// Shared memory of a block that needs not be asked for, and the most that there is.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;
const MOST_SHARED_BYTES: u32 = 227 << 10;

/// The driver of a process.
pub(crate) struct Driver {
    gpu: Simulator,
    memory_bytes: usize,
    allocated: BTreeMap<u64, usize>,
    refuses: bool,
    /// Whether graphs fail of which nothing begins early.
    wants_early: bool,
    /// Whether it takes no PTX of several kernels.
    alone: bool,
    /// How often it was asked for a module with options that it does not know.
    pub(crate) unknown_options: usize,
    /// What is left to be launched before one fails.
    launches_left: Option<usize>,
    /// The same of those that are started one by one.
    singles_left: Option<usize>,
    /// What every call gives once a launch has failed.
    lost: Option<Code>,
    next: u64,
    modules: BTreeMap<u64, GpuModule>,
    functions: BTreeMap<u64, Function>,
    /// What each stream has to do.
    streams: BTreeMap<u64, Vec<Command>>,
    graphs: BTreeMap<u64, Graph>,
    instances: BTreeMap<u64, Graph>,
    /// Steps of the simulator at which each event came; `None` before it does.
    events: BTreeMap<u64, Option<u64>>,
    /// Memory of the host that was allocated as pinned.
    pinned: BTreeMap<usize, Vec<u8>>,
}

struct Function {
    module: u64,
    entry: String,
    shared_bytes: u32,
}

/// Nodes that follow each other, by their handles.
type Graph = Vec<Node>;

#[derive(Clone)]
struct Node {
    handle: u64,
    command: Command,
    begins: Begins,
}

/// When a node begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// Nothing has been said of it.
    Anytime,
    /// When the one before it has ended, if there is one.
    After,
    /// Perhaps before that.
    Early,
}

/// What a stream does, in order.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// From memory of the host, by its address.
    ToDevice {
        to: u64,
        from: usize,
        len: usize,
    },
    /// The same of bytes that the driver has taken already.
    Staged {
        to: u64,
        bytes: Vec<u8>,
    },
    /// To memory of the host, by its address.
    ToHost {
        to: usize,
        from: u64,
        len: usize,
    },
    OnDevice {
        to: u64,
        from: u64,
        len: usize,
    },
    Launch {
        function: u64,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        parameters: Vec<u64>,
    },
    Event {
        event: u64,
    },
}

fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// The version of CUDA that the driver is of: major·1000 + minor·10.
pub(crate) fn version() -> i32 {
    variable("SIMDRIVER_VERSION").and_then(|version| version.try_into().ok()).unwrap_or(12_080)
}

/// Whether it can translate the entries of a module on several threads: CUDA 12.9 brought that, but where
/// `SIMDRIVER_NO_SPLIT` is set.
pub(crate) fn splits() -> bool {
    version() >= 12_090 && variable("SIMDRIVER_NO_SPLIT").is_none()
}

/// How many GPUs there are.
pub(crate) fn devices() -> i32 {
    variable("SIMDRIVER_DEVICES").and_then(|count| count.try_into().ok()).unwrap_or(1)
}

/// Major and minor compute capability.
pub(crate) fn capability() -> (i32, i32) {
    ((CAPABILITY / 10) as i32, (CAPABILITY % 10) as i32)
}

impl Driver {
    pub(crate) fn new() -> Self {
        let memory_bytes = variable("SIMDRIVER_MEMORY").unwrap_or(256 << 20);
        Self {
            gpu: Simulator::new(1).with_generation(CAPABILITY, 87).with_memory(memory_bytes),
            memory_bytes,
            allocated: BTreeMap::new(),
            wants_early: variable("SIMDRIVER_EARLY").is_some(),
            refuses: variable("SIMDRIVER_REFUSE").is_some(),
            alone: variable("SIMDRIVER_ALONE").is_some(),
            unknown_options: 0,
            launches_left: variable("SIMDRIVER_FAILS_AT"),
            singles_left: variable("SIMDRIVER_SINGLE"),
            lost: None,
            next: 0x1000,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            graphs: BTreeMap::new(),
            instances: BTreeMap::new(),
            events: BTreeMap::new(),
            pinned: BTreeMap::new(),
        }
    }

    fn handle(&mut self) -> u64 {
        self.next += 0x10;
        self.next
    }

    /// The failure that nothing comes after.
    pub(crate) fn check(&self) -> Result<(), Code> {
        self.lost.map_or(Ok(()), Err)
    }

    /// `threads` is how many may translate it, as what is refused tells.
    pub(crate) fn load(&mut self, image: &GpuImage<'_>, threads: usize) -> Result<u64, (Code, String)> {
        if self.refuses {
            let said = "ptxas application ptx input, line 7; fatal   : refused on demand";
            let times = self.unknown_options;
            return Err((INVALID_PTX, format!("{said}, by {threads} threads, with {times} unknown options before")));
        }
        if let GpuImage::Ptx(text) = image
            && self.alone
            && text.matches(".entry").count() > 1
        {
            return Err((INVALID_PTX, "one entry at a time".to_owned()));
        }
        let code = match image {
            GpuImage::Ptx(_) => INVALID_PTX,
            GpuImage::Cubin(_) => NO_BINARY_FOR_GPU,
        };
        let module = self.gpu.load(*image).map_err(|error| (code, error.to_string()))?;
        let handle = self.handle();
        self.modules.insert(handle, module);
        Ok(handle)
    }

    pub(crate) fn unload(&mut self, module: u64) -> Result<(), Code> {
        let known = self.modules.remove(&module).ok_or(INVALID_HANDLE)?;
        self.functions.retain(|_, function| function.module != module);
        self.gpu.unload(known);
        Ok(())
    }

    pub(crate) fn function(&mut self, module: u64, entry: &str) -> Result<u64, Code> {
        let known = *self.modules.get(&module).ok_or(INVALID_HANDLE)?;
        let kernel = DeviceKernel { entry: entry.to_owned(), ..DeviceKernel::default() };
        self.gpu.function(known, &kernel).map_err(|_| NOT_FOUND)?;
        let handle = self.handle();
        let (entry, shared_bytes) = (entry.to_owned(), PLAIN_SHARED_BYTES);
        self.functions.insert(handle, Function { module, entry, shared_bytes });
        Ok(handle)
    }

    /// Asks for shared memory of a block.
    pub(crate) fn allow_shared(&mut self, function: u64, bytes: i32) -> Result<(), Code> {
        let function = self.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        let bytes = u32::try_from(bytes).ok().filter(|&bytes| bytes <= MOST_SHARED_BYTES).ok_or(INVALID_VALUE)?;
        function.shared_bytes = bytes.max(PLAIN_SHARED_BYTES);
        Ok(())
    }

    pub(crate) fn allocate(&mut self, len: usize) -> Result<u64, Code> {
        if len == 0 {
            return Err(INVALID_VALUE);
        }
        let start = self.gpu.allocate(len).map_err(|_| OUT_OF_MEMORY)?;
        self.allocated.insert(start, len);
        Ok(start)
    }

    /// Gives memory back, after all streams have been waited for.
    pub(crate) fn free(&mut self, start: u64) -> Result<(), Code> {
        self.allocated.remove(&start).ok_or(INVALID_VALUE)?;
        self.gpu.free(start);
        Ok(())
    }

    /// Free and total bytes.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let used: usize = self.allocated.values().sum();
        (self.memory_bytes.saturating_sub(used), self.memory_bytes)
    }

    pub(crate) fn allocate_pinned(&mut self, len: usize) -> usize {
        // What nobody has written is no zeros.
        let mut bytes = vec![0xa5; len];
        let start = bytes.as_mut_ptr().addr();
        self.pinned.insert(start, bytes);
        start
    }

    pub(crate) fn free_pinned(&mut self, start: usize) -> Result<(), Code> {
        self.pinned.remove(&start).map(drop).ok_or(INVALID_VALUE)
    }

    /// Whether bytes of the host lie in memory that is pinned.
    pub(crate) fn is_pinned(&self, start: usize, len: usize) -> bool {
        let below = self.pinned.range(..=start).next_back();
        below.is_some_and(|(&of, bytes)| start + len <= of + bytes.len())
    }

    pub(crate) fn create_event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, None);
        handle
    }

    pub(crate) fn destroy_event(&mut self, event: u64) -> Result<(), Code> {
        self.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }

    /// Lists an event, which has not come any more until its turn does.
    pub(crate) fn record_event(&mut self, event: u64, stream: u64) -> Result<(), Code> {
        *self.events.get_mut(&event).ok_or(INVALID_HANDLE)? = None;
        self.list(stream, Command::Event { event })
    }

    /// The stream that an event waits on.
    pub(crate) fn stream_of_event(&self, event: u64) -> Result<Option<u64>, Code> {
        self.events.get(&event).ok_or(INVALID_HANDLE)?;
        let waits = |stream: &[Command]| stream.iter().any(|c| matches!(c, Command::Event { event: e } if *e == event));
        Ok(self.streams.iter().find(|(_, stream)| waits(stream)).map(|(handle, _)| *handle))
    }

    /// A nanosecond for each step of the simulator.
    pub(crate) fn milliseconds_between(&self, from: u64, to: u64) -> Result<f32, Code> {
        let at = |event: u64| self.events.get(&event).ok_or(INVALID_HANDLE)?.ok_or(NOT_READY);
        let (from, to) = (at(from)?, at(to)?);
        Ok((to as f64 - from as f64) as f32 / 1e6)
    }

    pub(crate) fn create_stream(&mut self) -> u64 {
        let handle = self.handle();
        self.streams.insert(handle, Vec::new());
        handle
    }

    pub(crate) fn destroy_stream(&mut self, stream: u64) -> Result<(), Code> {
        self.streams.remove(&stream).map(drop).ok_or(INVALID_HANDLE)
    }

    /// Whether a command can be carried out as far as shows before it is.
    fn check_command(&self, command: &Command) -> Result<(), Code> {
        if let Command::Launch { function, block, shared_bytes, .. } = command {
            let function = self.functions.get(function).ok_or(INVALID_HANDLE)?;
            if *shared_bytes > function.shared_bytes || block.contains(&0) {
                return Err(INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Counts a kernel that is started by itself.
    pub(crate) fn start_single(&mut self) -> Result<(), Code> {
        if let Some(left) = &mut self.singles_left {
            *left = left.checked_sub(1).ok_or(LAUNCH_FAILED)?;
        }
        Ok(())
    }

    /// Lists a command on a stream.
    pub(crate) fn list(&mut self, stream: u64, command: Command) -> Result<(), Code> {
        self.check_command(&command)?;
        self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.push(command);
        Ok(())
    }

    pub(crate) fn create_graph(&mut self) -> u64 {
        let handle = self.handle();
        self.graphs.insert(handle, Vec::new());
        handle
    }

    /// Adds a node behind the last one, which is told, or one of which [`Driver::add_early_edge`] says that.
    pub(crate) fn add_node(&mut self, graph: u64, before: Option<u64>, command: Command) -> Result<u64, Code> {
        self.check_command(&command)?;
        let handle = self.handle();
        let nodes = self.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
        // Others are not made here; a node that is told is one of this graph.
        if before.is_some() && nodes.last().map(|node| node.handle) != before {
            return Err(INVALID_VALUE);
        }
        let begins = if before.is_some() || nodes.is_empty() { Begins::After } else { Begins::Anytime };
        nodes.push(Node { handle, command, begins });
        Ok(handle)
    }

    /// The last node of a graph may begin before the one in front of it has ended: both are kernels, and it waits itself.
    pub(crate) fn add_early_edge(&mut self, graph: u64, from: u64, to: u64) -> Result<(), Code> {
        if version() < EARLY_SINCE {
            return Err(NOT_SUPPORTED);
        }
        let nodes = self.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        let [.., before, last] = nodes.as_slice() else { return Err(INVALID_VALUE) };
        let function = match (&before.command, &last.command) {
            (Command::Launch { .. }, Command::Launch { function, .. }) => *function,
            _ => return Err(INVALID_VALUE),
        };
        if (before.handle, last.handle, last.begins) != (from, to, Begins::Anytime) || !self.waits(function) {
            return Err(INVALID_VALUE);
        }
        let last = self.graphs.get_mut(&graph).and_then(|nodes| nodes.last_mut()).ok_or(INVALID_HANDLE)?;
        last.begins = Begins::Early;
        Ok(())
    }

    /// Whether a kernel waits for those before it, as a driver does not ask.
    fn waits(&self, function: u64) -> bool {
        let Some(known) = self.functions.get(&function) else { return false };
        let Some(module) = self.modules.get(&known.module) else { return false };
        let kernel = DeviceKernel { entry: known.entry.clone(), waits: true, ..DeviceKernel::default() };
        self.gpu.function(*module, &kernel).is_ok()
    }

    /// Changes what an instance does for a node of the graph that it was made of.
    pub(crate) fn change_node(&mut self, instance: u64, node: u64, command: Command) -> Result<(), Code> {
        self.check_command(&command)?;
        // A node is known as long as its graph is.
        let mut nodes = self.graphs.values().flatten();
        nodes.find(|known| known.handle == node).ok_or(INVALID_HANDLE)?;
        let nodes = self.instances.get_mut(&instance).ok_or(INVALID_HANDLE)?;
        let place = nodes.iter_mut().find(|known| known.handle == node).ok_or(INVALID_VALUE)?;
        let place = &mut place.command;
        if std::mem::discriminant(place) != std::mem::discriminant(&command) {
            return Err(INVALID_VALUE);
        }
        *place = command;
        Ok(())
    }

    pub(crate) fn instantiate(&mut self, graph: u64) -> Result<u64, Code> {
        let nodes = self.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
        if !nodes.iter().all(|node| node.begins != Begins::Anytime) {
            return Err(INVALID_VALUE);
        }
        let handle = self.handle();
        self.instances.insert(handle, nodes);
        Ok(handle)
    }

    pub(crate) fn destroy_graph(&mut self, graph: u64) -> Result<(), Code> {
        self.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn destroy_instance(&mut self, instance: u64) -> Result<(), Code> {
        self.instances.remove(&instance).map(drop).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn launch_graph(&mut self, instance: u64, stream: u64) -> Result<(), Code> {
        let nodes = self.instances.get(&instance).ok_or(INVALID_HANDLE)?.clone();
        let begins_early = nodes.iter().any(|node| node.begins == Begins::Early);
        if self.wants_early && nodes.len() > 1 && !begins_early {
            return Err(self.fail());
        }
        nodes.into_iter().try_for_each(|node| self.list(stream, node.command))
    }

    /// What a stream has to do, which is then done by [`Driver::perform`].
    pub(crate) fn waiting(&mut self, stream: u64) -> Result<Vec<Command>, Code> {
        Ok(std::mem::take(self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?))
    }

    /// The same of all streams.
    pub(crate) fn all_waiting(&mut self) -> Vec<Command> {
        self.streams.values_mut().flat_map(std::mem::take).collect()
    }

    /// Does what needs no memory of the host.
    pub(crate) fn perform(&mut self, command: &Command) -> Result<(), Code> {
        let done = match command {
            Command::Staged { to, bytes } => self.gpu.write(*to, bytes),
            &Command::OnDevice { to, from, len } => self.gpu.start(&GpuOperation::Copy { from, to, len_bytes: len }),
            Command::Launch { function, grid, block, shared_bytes, parameters } => {
                self.launch(*function, (*grid, *block, *shared_bytes), parameters)
            }
            Command::Event { event } => {
                let steps = self.gpu.steps();
                self.events.entry(*event).and_modify(|at| *at = Some(steps));
                Ok(())
            }
            Command::ToDevice { .. } | Command::ToHost { .. } => Ok(()),
        };
        done.map_err(|_| self.fail())
    }

    pub(crate) fn write(&mut self, to: u64, bytes: &[u8]) -> Result<(), Code> {
        self.gpu.write(to, bytes).map_err(|_| self.fail())
    }

    pub(crate) fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Code> {
        self.gpu.read(from, bytes).map_err(|_| self.fail())
    }

    fn fail(&mut self) -> Code {
        self.lost = Some(LAUNCH_FAILED);
        LAUNCH_FAILED
    }

    fn launch(
        &mut self,
        function: u64,
        (grid, block, dynamic_shared_bytes): ([u32; 3], [u32; 3], u32),
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let failed = |reason: &str| GpuError::Failed { what: "a launch".to_owned(), reason: reason.to_owned() };
        if let Some(left) = &mut self.launches_left {
            *left = left.checked_sub(1).ok_or_else(|| failed("it was told to"))?;
        }
        let known = self.functions.get(&function).ok_or_else(|| failed("its module was unloaded"))?;
        let module = *self.modules.get(&known.module).ok_or_else(|| failed("its module was unloaded"))?;
        let entry = known.entry.clone();
        let kernel = DeviceKernel { entry, block, dynamic_shared_bytes, waits: false };
        let function: GpuFunction = self.gpu.function(module, &kernel)?;
        self.gpu.start(&GpuOperation::Launch { function, kernel: &kernel, grid, parameters })
    }
}
