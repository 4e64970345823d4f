//! The functions by the names that `cuda.h` gives them.
//!
//! Source: CUDA driver API, reference manual, the chapters of the functions.
//!
//! What the unsafe code relies on is what every caller of a C library owes it: pointers are null or to what the reference
//! says, and stay so as long as it says.

#![expect(unsafe_code, reason = "functions that a foreign caller calls with pointers")]
#![expect(unsafe_op_in_unsafe_fn, reason = "the whole of each function is what a C library is")]

use crate::driver::{self, Code, Command, Driver, INVALID_CONTEXT, INVALID_IMAGE, INVALID_VALUE, NOT_INITIALIZED};
use infc_runtime::GpuImage;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard};

type Handle = *mut c_void;

/// The context of the only device.
const CONTEXT: usize = 0xc0;
const ATTRIBUTE_MAJOR: c_int = 75;
const ATTRIBUTE_MINOR: c_int = 76;
const FUNCTION_DYNAMIC_SHARED: c_int = 8;
const JIT_ERROR_LOG: c_int = 5;
const JIT_ERROR_LOG_BYTES: c_int = 6;
const JIT_SPLIT_COMPILE: c_int = 34;
/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_OF_DEVICE: c_uint = 2;
const PARAM_POINTER: usize = 1;
const PARAM_SIZE: usize = 2;

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

fn driver() -> MutexGuard<'static, Option<Driver>> {
    DRIVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn code(result: Result<(), Code>) -> c_int {
    result.err().unwrap_or(0)
}

/// A call of a context.
fn with(call: impl FnOnce(&mut Driver) -> Result<(), Code>) -> c_int {
    let mut driver = driver();
    let Some(driver) = driver.as_mut() else { return NOT_INITIALIZED };
    if CURRENT.get() != CONTEXT {
        return INVALID_CONTEXT;
    }
    code(driver.check().and_then(|()| call(driver)))
}

fn pointer(handle: u64) -> Handle {
    std::ptr::without_provenance_mut(handle as usize)
}

fn number(handle: Handle) -> u64 {
    handle.addr() as u64
}

/// Does what a stream has to do, on memory of the host too.
unsafe fn perform(driver: &mut Driver, commands: Vec<Command>) -> Result<(), Code> {
    for command in commands {
        match command {
            Command::ToDevice { to, from, len } => {
                let bytes = std::slice::from_raw_parts(std::ptr::with_exposed_provenance(from), len).to_vec();
                driver.write(to, &bytes)?;
            }
            Command::ToHost { to, from, len } => {
                let mut bytes = vec![0; len];
                driver.read(from, &mut bytes)?;
                std::ptr::with_exposed_provenance_mut::<u8>(to).copy_from_nonoverlapping(bytes.as_ptr(), len);
            }
            other => driver.perform(&other)?,
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuInit(flags: c_uint) -> c_int {
    if flags != 0 {
        return INVALID_VALUE;
    }
    driver().get_or_insert_with(Driver::new);
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    version.write(driver::version());
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    let found = match error {
        driver::OUT_OF_MEMORY => c"out of memory",
        driver::INVALID_PTX => c"a PTX JIT compilation failed",
        driver::LAUNCH_FAILED => c"unspecified launch failure",
        driver::INVALID_VALUE => c"invalid argument",
        driver::INVALID_HANDLE => c"invalid resource handle",
        _ => {
            text.write(std::ptr::null());
            return INVALID_VALUE;
        }
    };
    text.write(found.as_ptr());
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    count.write(driver::devices());
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    if ordinal != 0 {
        return INVALID_VALUE;
    }
    device.write(0);
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDeviceGetName(name: *mut c_char, len: c_int, _: c_int) -> c_int {
    let text = c"Simulated GPU".to_bytes_with_nul();
    if usize::try_from(len).unwrap_or(0) < text.len() {
        return INVALID_VALUE;
    }
    name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    let (major, minor) = driver::capability();
    let found = match attribute {
        ATTRIBUTE_MAJOR => major,
        ATTRIBUTE_MINOR => minor,
        _ => return INVALID_VALUE,
    };
    value.write(found);
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDevicePrimaryCtxRetain(context: *mut Handle, _: c_int) -> c_int {
    context.write(pointer(CONTEXT as u64));
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuCtxSetCurrent(context: Handle) -> c_int {
    CURRENT.set(context.addr());
    if context.addr() == CONTEXT { 0 } else { INVALID_CONTEXT }
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *mut c_int,
    values: *mut *mut c_void,
) -> c_int {
    let first = image.cast::<[u8; 4]>().read_unaligned();
    // Nothing of it can be executed, so how long it is does not matter.
    let is_machine_code = first == *b"\x7fELF";
    let text = if is_machine_code { c"" } else { CStr::from_ptr(image.cast()) };
    let Ok(text) = text.to_str() else { return INVALID_IMAGE };
    let image = if is_machine_code { GpuImage::Cubin(b"\x7fELF") } else { GpuImage::Ptx(text) };
    let (mut log, mut log_bytes, mut threads) = (std::ptr::null_mut::<u8>(), 0, 1);
    // How much of the log is filled is written where its length was.
    let mut filled = None;
    for n in 0..count as usize {
        match options.add(n).read() {
            JIT_ERROR_LOG => log = values.add(n).read().cast(),
            JIT_ERROR_LOG_BYTES => {
                log_bytes = values.add(n).read().addr();
                filled = Some(values.add(n));
                values.add(n).write(pointer(0));
            }
            JIT_SPLIT_COMPILE if driver::splits() => threads = values.add(n).read().addr(),
            _ => {
                return with(|driver| {
                    driver.unknown_options += 1;
                    Err(INVALID_VALUE)
                });
            }
        }
    }
    with(|driver| {
        let handle = driver.load(&image, threads).map_err(|(code, said)| {
            let said = &said.as_bytes()[..said.len().min(log_bytes.saturating_sub(1))];
            if !log.is_null() && log_bytes > 0 {
                log.copy_from_nonoverlapping(said.as_ptr(), said.len());
                log.add(said.len()).write(0);
                filled.into_iter().for_each(|filled| filled.write(pointer(said.len() as u64)));
            }
            code
        })?;
        module.write(pointer(handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuModuleUnload(module: Handle) -> c_int {
    with(|driver| {
        let waiting = driver.all_waiting();
        perform(driver, waiting)?;
        driver.unload(number(module))
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> c_int {
    let Ok(name) = CStr::from_ptr(name).to_str() else { return INVALID_VALUE };
    with(|driver| {
        function.write(pointer(driver.function(number(module), name)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> c_int {
    if attribute != FUNCTION_DYNAMIC_SHARED {
        return INVALID_VALUE;
    }
    with(|driver| driver.allow_shared(number(function), value))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemAlloc_v2(start: *mut u64, len: usize) -> c_int {
    with(|driver| {
        start.write(driver.allocate(len)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemFree_v2(start: u64) -> c_int {
    with(|driver| {
        let waiting = driver.all_waiting();
        perform(driver, waiting)?;
        driver.free(start)
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    with(|driver| {
        let (left, all) = driver.memory();
        free.write(left);
        total.write(all);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemAllocHost_v2(start: *mut *mut c_void, len: usize) -> c_int {
    with(|driver| {
        start.write(std::ptr::with_exposed_provenance_mut(driver.allocate_pinned(len)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemFreeHost(start: *mut c_void) -> c_int {
    with(|driver| {
        let waiting = driver.all_waiting();
        perform(driver, waiting)?;
        driver.free_pinned(start.addr())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, len: usize, stream: Handle) -> c_int {
    with(|driver| {
        // Pinned memory is read when the copy happens, other memory before this returns.
        let command = if driver.is_pinned(from.addr(), len) {
            Command::ToDevice { to, from: from.expose_provenance(), len }
        } else {
            Command::Staged { to, bytes: std::slice::from_raw_parts(from.cast::<u8>(), len).to_vec() }
        };
        driver.list(number(stream), command)
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, stream: Handle) -> c_int {
    with(|driver| driver.list(number(stream), Command::ToHost { to: to.expose_provenance(), from, len }))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: Handle) -> c_int {
    with(|driver| driver.list(number(stream), Command::OnDevice { to, from, len }))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuStreamCreate(stream: *mut Handle, _: c_uint) -> c_int {
    with(|driver| {
        stream.write(pointer(driver.create_stream()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuStreamDestroy_v2(stream: Handle) -> c_int {
    with(|driver| driver.destroy_stream(number(stream)))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuStreamSynchronize(stream: Handle) -> c_int {
    with(|driver| {
        let waiting = driver.waiting(number(stream))?;
        perform(driver, waiting)
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuEventCreate(event: *mut Handle, _: c_uint) -> c_int {
    with(|driver| {
        event.write(pointer(driver.create_event()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuEventDestroy_v2(event: Handle) -> c_int {
    with(|driver| driver.destroy_event(number(event)))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuEventRecord(event: Handle, stream: Handle) -> c_int {
    with(|driver| driver.record_event(number(event), number(stream)))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuEventSynchronize(event: Handle) -> c_int {
    with(|driver| {
        let Some(stream) = driver.stream_of_event(number(event))? else { return Ok(()) };
        let waiting = driver.waiting(stream)?;
        perform(driver, waiting)
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuEventElapsedTime(milliseconds: *mut f32, from: Handle, to: Handle) -> c_int {
    with(|driver| {
        milliseconds.write(driver.milliseconds_between(number(from), number(to))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    let Some(parameters) = parameters_of(parameters, extra) else { return INVALID_VALUE };
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    with(|driver| {
        driver.start_single()?;
        let function = number(function);
        driver.list(number(stream), Command::Launch { function, grid, block, shared_bytes, parameters })
    })
}

/// Parameters that are told as one block of bytes; `None` if they are not told so.
unsafe fn parameters_of(parameters: *mut *mut c_void, extra: *mut *mut c_void) -> Option<Vec<u64>> {
    if !parameters.is_null() || extra.is_null() {
        return None;
    }
    let (mut start, mut len) = (std::ptr::null::<u8>(), 0);
    let mut at = extra;
    while !at.read().is_null() {
        match at.read().addr() {
            PARAM_POINTER => start = at.add(1).read().cast(),
            PARAM_SIZE => len = at.add(1).read().cast::<usize>().read(),
            _ => return None,
        }
        at = at.add(2);
    }
    // Kernels here have parameters of eight bytes each.
    let word = |n: usize| start.add(8 * n).cast::<u64>().read_unaligned();
    len.is_multiple_of(8).then(|| (0..len / 8).map(word).collect())
}

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
struct KernelNode {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl KernelNode {
    unsafe fn command(&self) -> Result<Command, Code> {
        let parameters = parameters_of(self.parameters, self.extra).ok_or(INVALID_VALUE)?;
        let Self { function, grid, block, shared_bytes, .. } = *self;
        Ok(Command::Launch { function: number(function), grid, block, shared_bytes, parameters })
    }
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
struct CopyNode {
    sides: [CopySide; 2],
    width_bytes: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
struct CopySide {
    offsets: [usize; 4],
    memory: c_uint,
    on_host: *mut c_void,
    on_device: u64,
    array: Handle,
    reserved: *mut c_void,
    pitch_bytes: usize,
    height: usize,
}

impl CopyNode {
    /// Rows between places of the device's memory are all that is known here.
    fn command(&self) -> Result<Command, Code> {
        let Self { sides: [from, to], width_bytes: len, height, depth } = self;
        let is_row =
            |side: &CopySide| side.memory == MEMORY_OF_DEVICE && side.offsets == [0; 4] && side.pitch_bytes >= *len;
        if !is_row(from) || !is_row(to) || (*height, *depth) != (1, 1) {
            return Err(INVALID_VALUE);
        }
        Ok(Command::OnDevice { to: to.on_device, from: from.on_device, len: *len })
    }
}

/// The node that another one is to follow; at most one can be told here.
unsafe fn before(nodes: *const Handle, count: usize) -> Result<Option<u64>, Code> {
    match count {
        0 => Ok(None),
        1 => Ok(Some(number(nodes.read()))),
        _ => Err(INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphCreate(graph: *mut Handle, flags: c_uint) -> c_int {
    if flags != 0 {
        return INVALID_VALUE;
    }
    with(|driver| {
        graph.write(pointer(driver.create_graph()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphAddKernelNode(
    node: *mut Handle,
    graph: Handle,
    nodes: *const Handle,
    count: usize,
    kernel: *const KernelNode,
) -> c_int {
    with(|driver| {
        let (before, command) = (before(nodes, count)?, (*kernel).command()?);
        node.write(pointer(driver.add_node(number(graph), before, command)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphAddMemcpyNode(
    node: *mut Handle,
    graph: Handle,
    nodes: *const Handle,
    count: usize,
    copy: *const CopyNode,
    context: Handle,
) -> c_int {
    if context.addr() != CONTEXT {
        return INVALID_CONTEXT;
    }
    with(|driver| {
        let (before, command) = (before(nodes, count)?, (*copy).command()?);
        node.write(pointer(driver.add_node(number(graph), before, command)?));
        Ok(())
    })
}

/// `CUgraphEdgeData`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct EdgeData {
    from_port: u8,
    to_port: u8,
    kind: u8,
    reserved: [u8; 5],
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphAddDependencies_v2(
    graph: Handle,
    from: *const Handle,
    to: *const Handle,
    edges: *const EdgeData,
    count: usize,
) -> c_int {
    with(|driver| {
        // One at a time, from a kernel that lets the next one begin.
        let early = EdgeData { from_port: 1, to_port: 0, kind: 1, reserved: [0; 5] };
        if count != 1 || *edges != early {
            return Err(INVALID_VALUE);
        }
        driver.add_early_edge(number(graph), number(*from), number(*to))
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphExecKernelNodeSetParams(
    instance: Handle,
    node: Handle,
    kernel: *const KernelNode,
) -> c_int {
    with(|driver| driver.change_node(number(instance), number(node), (*kernel).command()?))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphExecMemcpyNodeSetParams(
    instance: Handle,
    node: Handle,
    copy: *const CopyNode,
    context: Handle,
) -> c_int {
    if context.addr() != CONTEXT {
        return INVALID_CONTEXT;
    }
    with(|driver| driver.change_node(number(instance), number(node), (*copy).command()?))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphInstantiateWithFlags(instance: *mut Handle, graph: Handle, flags: u64) -> c_int {
    if flags != 0 {
        return INVALID_VALUE;
    }
    with(|driver| {
        instance.write(pointer(driver.instantiate(number(graph))?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphLaunch(instance: Handle, stream: Handle) -> c_int {
    with(|driver| driver.launch_graph(number(instance), number(stream)))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphDestroy(graph: Handle) -> c_int {
    with(|driver| driver.destroy_graph(number(graph)))
}

#[unsafe(no_mangle)]
unsafe extern "system" fn cuGraphExecDestroy(instance: Handle) -> c_int {
    with(|driver| driver.destroy_instance(number(instance)))
}
