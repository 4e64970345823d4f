//! A GPU by way of the NVIDIA driver: nothing else of CUDA is used.
//!
//! One context (the primary one, which other libraries of the process share), and one stream on which everything happens in
//! order.
//!
//! What the unsafe code relies on: handles come from the driver and are used only while it keeps what they stand for, which
//! is until the methods that give them back; pointers to memory of the host are valid until the stream has been waited for;
//! every call comes after `cuCtxSetCurrent` on its thread. Addresses of the GPU's memory are numbers: a wrong one is an
//! error of the driver's, not memory of this process.

#![expect(unsafe_code, reason = "calls of the driver")]

mod elf;
mod graph;
mod staging;
mod table;

use super::{Gpu, GpuAddress, GpuError, GpuFunction, GpuGraph, GpuImage, GpuMark, GpuModule, GpuOperation};
use graph::Chain;
use infc_artifact::DeviceKernel;
use staging::Staging;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use table::{CuResult, Handle, Table};

/// Bytes for what the driver says of a module.
const LOG_BYTES: usize = 8 << 10;
/// Shared memory of a block that needs not be asked for.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

/// The first GPU of the machine.
pub(crate) struct NvidiaGpu {
    table: Table,
    device: c_int,
    context: Handle,
    stream: Handle,
    name: String,
    capability: u32,
    /// Of CUDA: major·1000 + minor·10.
    version: c_int,
    loaded: Mutex<Loaded>,
    staging: Mutex<Staging>,
}

/// What is loaded, by number.
#[derive(Default)]
struct Loaded {
    modules: BTreeMap<u64, Handle>,
    /// With the number of the module.
    functions: BTreeMap<u64, (u64, Handle)>,
    /// Operations that were recorded.
    graphs: BTreeMap<u64, Chain>,
    /// Events that are marks.
    marks: BTreeMap<u64, Handle>,
    /// Events that are none any more.
    spare: Vec<Handle>,
    next: u64,
}

impl Loaded {
    /// One that nothing has yet.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

// SAFETY: the driver's functions may be called by any thread, and handles be used by all threads on which their context is
// current.
unsafe impl Send for NvidiaGpu {}
// SAFETY: as above; what this type changes itself is behind a mutex.
unsafe impl Sync for NvidiaGpu {}

impl fmt::Debug for NvidiaGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NvidiaGpu({})", self.name)
    }
}

/// The machine's first GPU, found at the first call; or why there is none.
pub(crate) fn installed() -> Result<Arc<dyn Gpu>, String> {
    static FOUND: OnceLock<Result<Arc<NvidiaGpu>, String>> = OnceLock::new();
    FOUND.get_or_init(|| NvidiaGpu::first().map(Arc::new)).clone().map(|gpu| gpu as _)
}

impl NvidiaGpu {
    fn first() -> Result<Self, String> {
        let table = Table::load()?;
        let said = |what: &str, code: CuResult| {
            let text = error_text(&table, code);
            if code == 0 { Ok(()) } else { Err(format!("the NVIDIA driver finds no GPU it can use: {what}: {text}")) }
        };
        let (mut version, mut count, mut device) = (0, 0, 0);
        let (mut major, mut minor) = (0, 0);
        let mut name = [0 as c_char; 256];
        // SAFETY: every pointer is to a variable of the type that the function writes, and as long as is said.
        unsafe {
            said("cuInit", (table.init)(0))?;
            said("cuDriverGetVersion", (table.driver_version)(&raw mut version))?;
            said("cuDeviceGetCount", (table.device_count)(&raw mut count))?;
            if count == 0 {
                return Err("the NVIDIA driver finds no GPU".to_owned());
            }
            said("cuDeviceGet", (table.device)(&raw mut device, 0))?;
            said("cuDeviceGetName", (table.device_name)(name.as_mut_ptr(), name.len() as c_int - 1, device))?;
            let attribute = |value: *mut c_int, which| (table.device_attribute)(value, which, device);
            said("cuDeviceGetAttribute", attribute(&raw mut major, table::COMPUTE_CAPABILITY_MAJOR))?;
            said("cuDeviceGetAttribute", attribute(&raw mut minor, table::COMPUTE_CAPABILITY_MINOR))?;
        }
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as above; the device exists. The context is current when the stream is made for it.
        unsafe {
            said("cuDevicePrimaryCtxRetain", (table.retain_context)(&raw mut context, device))?;
            let made = said("cuCtxSetCurrent", (table.set_context)(context)).and_then(|()| {
                said("cuStreamCreate", (table.create_stream)(&raw mut stream, table::STREAM_NON_BLOCKING))
            });
            if made.is_err() {
                (table.release_context)(device);
            }
            made?;
        }
        // SAFETY: the array outlives this, and its last byte is zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let capability = u32::try_from(major * 10 + minor).unwrap_or(0);
        let (loaded, staging) = (Mutex::default(), Mutex::default());
        Ok(Self { table, device, context, stream, name, capability, version, loaded, staging })
    }

    /// Makes the context that of this thread, and calls the driver.
    ///
    /// # Safety
    /// The call is right, given that the context is current.
    unsafe fn call(&self, what: &str, call: impl FnOnce(&Table) -> CuResult) -> Result<(), GpuError> {
        // SAFETY: the context is kept until this is dropped.
        let code = match unsafe { (self.table.set_context)(self.context) } {
            0 => call(&self.table),
            code => code,
        };
        if code == 0 { Ok(()) } else { Err(self.failed(what, code)) }
    }

    fn failed(&self, what: &str, code: CuResult) -> GpuError {
        if code == table::LAUNCH_TIMEOUT {
            return GpuError::TimeLimit { what: what.to_owned() };
        }
        GpuError::Failed { what: what.to_owned(), reason: error_text(&self.table, code) }
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        locked(&self.loaded)
    }

    /// Waits for everything that was started.
    fn wait(&self) -> Result<(), GpuError> {
        // SAFETY: the stream is kept until this is dropped.
        unsafe { self.call("cuStreamSynchronize", |table| (table.synchronize)(self.stream)) }
    }

    /// Memory of the host that the GPU reads and writes.
    fn allocate_pinned(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        let mut start = std::ptr::null_mut();
        // SAFETY: a pointer to a variable of the type that is written.
        let allocated =
            unsafe { self.call("cuMemAllocHost", |table| (table.allocate_pinned)(&raw mut start, len_bytes)) };
        allocated.ok().and_then(|()| NonNull::new(start.cast()))
    }

    fn launch(
        &self,
        function: GpuFunction,
        (grid, kernel): ([u32; 3], &DeviceKernel),
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let known = self.loaded().functions.get(&function.0).copied();
        let Some((_, function)) = known else {
            let reason = "the kernel was unloaded".to_owned();
            return Err(GpuError::Failed { what: "cuLaunchKernel".to_owned(), reason });
        };
        let mut len_bytes = size_of_val(parameters);
        let mut extra = extra_of(parameters, &mut len_bytes);
        let ([x, y, z], [a, b, c]): ([c_uint; 3], [c_uint; 3]) = (grid, kernel.block);
        let (shared, stream) = (kernel.dynamic_shared_bytes, self.stream);
        // SAFETY: the function is loaded. The list ends as it must; the parameters are copied before the call returns.
        unsafe {
            self.call("cuLaunchKernel", |table| {
                let none = std::ptr::null_mut();
                (table.launch)(function, x, y, z, a, b, c, shared, stream, none, extra.as_mut_ptr())
            })
        }
    }

    fn create_event(&self) -> Result<Handle, GpuError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: a pointer to a variable of the type that is written.
        unsafe {
            self.call("cuEventCreate", |table| (table.create_event)(&raw mut event, table::EVENT_DEFAULT))?;
        }
        Ok(event)
    }
}

impl Gpu for NvidiaGpu {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capability(&self) -> u32 {
        self.capability
    }

    fn ptx_version(&self) -> u32 {
        ptx_version(self.version)
    }

    fn load(&self, image: GpuImage<'_>) -> Result<GpuModule, GpuError> {
        let refused = |log: &str| GpuError::Refused { log: log.to_owned() };
        let text;
        let is_translated = matches!(image, GpuImage::Ptx(_));
        let image = match image {
            GpuImage::Ptx(ptx) => {
                text = CString::new(ptx).map_err(|_| refused("a zero byte within the text"))?;
                text.as_ptr().cast::<c_void>()
            }
            GpuImage::Cubin(bytes) if elf::is_whole(bytes) => bytes.as_ptr().cast::<c_void>(),
            GpuImage::Cubin(_) => return Err(refused("no machine code, or a part of it")),
        };
        let mut log = vec![0u8; LOG_BYTES];
        // Numbers are values themselves, not pointers to them.
        let mut options =
            [table::JIT_ERROR_LOG_BUFFER, table::JIT_ERROR_LOG_BUFFER_SIZE_BYTES, table::JIT_SPLIT_COMPILE];
        let text_of_log = log.as_mut_ptr().cast::<c_void>();
        // As many as this process may use: 0 would be for all of the machine.
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let count = if is_translated && self.version >= table::SPLIT_COMPILE_SINCE { 3 } else { 2 };
        let (mut module, mut result) = (std::ptr::null_mut(), 0);
        // SAFETY: text ends with a zero byte, and machine code has all that it says of its length; there are three options
        // and values, of which no more are read or written; the log is as long as is said and lives until the call returns.
        let loaded = unsafe {
            self.call("cuModuleLoadDataEx", |table| {
                let mut load = |count| {
                    // The driver writes there how much of the log it has filled.
                    let [length, threads] = [LOG_BYTES - 1, threads].map(std::ptr::without_provenance_mut);
                    let mut values = [text_of_log, length, threads];
                    (table.load_module)(&raw mut module, image, count, options.as_mut_ptr(), values.as_mut_ptr())
                };
                result = load(count);
                // One that does not know the last option in spite of its version, or has no memory for so many threads.
                if count == 3 && matches!(result, table::INVALID_VALUE | table::NOT_SUPPORTED | table::OUT_OF_MEMORY) {
                    result = load(2);
                }
                result
            })
        };
        loaded.map_err(|error| {
            // Others have nothing to do with the image: no context, no memory, a device that is lost.
            if !table::OF_AN_IMAGE.contains(&result) {
                return error;
            }
            let said = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
            GpuError::Refused { log: format!("{error}; {}", said.trim()) }
        })?;
        let mut loaded = self.loaded();
        let number = loaded.number();
        loaded.modules.insert(number, module);
        Ok(GpuModule(number))
    }

    fn function(&self, module: GpuModule, kernel: &DeviceKernel) -> Result<GpuFunction, GpuError> {
        let refused = |log: &str| GpuError::Refused { log: log.to_owned() };
        let entry = CString::new(kernel.entry.as_str()).map_err(|_| refused("a zero byte within the entry's name"))?;
        let mut loaded = self.loaded();
        let handle = *loaded.modules.get(&module.0).ok_or_else(|| refused("the module was unloaded"))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, and stays so while the list of them is locked; the name ends with a zero byte. The
        // attribute takes a number.
        let found = unsafe {
            let name = entry.as_ptr();
            self.call("cuModuleGetFunction", |table| (table.function)(&raw mut function, handle, name)).and_then(|()| {
                let bytes = kernel.dynamic_shared_bytes;
                if bytes <= PLAIN_SHARED_BYTES {
                    return Ok(());
                }
                let attribute = table::MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
                self.call("cuFuncSetAttribute", |table| (table.set_function_attribute)(function, attribute, bytes))
            })
        };
        found.map_err(|error| GpuError::Refused { log: format!("`{}`: {error}", kernel.entry) })?;
        let number = loaded.number();
        loaded.functions.insert(number, (module.0, function));
        Ok(GpuFunction(number))
    }

    fn unload(&self, module: GpuModule) {
        let known = {
            let mut loaded = self.loaded();
            loaded.functions.retain(|_, (of, _)| *of != module.0);
            loaded.modules.remove(&module.0)
        };
        if let Some(module) = known {
            // SAFETY: the module was loaded, and it and its functions have just been forgotten.
            let _ = unsafe { self.call("cuModuleUnload", |table| (table.unload_module)(module)) };
        }
    }

    fn allocate(&self, len_bytes: usize) -> Result<GpuAddress, GpuError> {
        let mut start = 0;
        let (mut free_bytes, mut total_bytes) = (0, 0);
        let mut result = 0;
        // SAFETY: pointers to variables of the types that are written.
        unsafe {
            self.call("cuMemAlloc", |table| {
                result = (table.allocate)(&raw mut start, len_bytes);
                if result == table::OUT_OF_MEMORY {
                    return (table.memory_info)(&raw mut free_bytes, &raw mut total_bytes);
                }
                result
            })?;
        }
        if result == 0 { Ok(start) } else { Err(GpuError::OutOfMemory { needed_bytes: len_bytes, free_bytes }) }
    }

    fn free(&self, start: GpuAddress) {
        // SAFETY: an address is a number to this process.
        let _ = unsafe { self.call("cuMemFree", |table| (table.free)(start)) };
    }

    fn write(&self, to: GpuAddress, bytes: &[u8]) -> Result<(), GpuError> {
        let mut staging = locked(&self.staging);
        let place = staging.place(self, bytes.len())?;
        if let Some(place) = place {
            // SAFETY: so many bytes of the ring that nothing uses, and the lock is held.
            unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        }
        let from = place.map_or(bytes.as_ptr(), |place| place.as_ptr().cast_const()).cast::<c_void>();
        // SAFETY: bytes of the ring stay until the stream has been waited for; the others are borrowed until then.
        unsafe {
            self.call("cuMemcpyHtoDAsync", |table| (table.copy_to_device)(to, from, bytes.len(), self.stream))?;
        }
        if place.is_none() { self.wait() } else { Ok(()) }
    }

    fn read(&self, from: GpuAddress, bytes: &mut [u8]) -> Result<(), GpuError> {
        let mut staging = locked(&self.staging);
        let place = staging.place(self, bytes.len())?;
        let to = place.map_or(bytes.as_mut_ptr(), NonNull::as_ptr).cast::<c_void>();
        // SAFETY: bytes of the ring stay until the stream has been waited for; the others are borrowed until then, for writing.
        unsafe {
            self.call("cuMemcpyDtoHAsync", |table| (table.copy_to_host)(to, from, bytes.len(), self.stream))?;
        }
        self.wait()?;
        if let Some(place) = place {
            // SAFETY: so many bytes of the ring, which the copy has written; the lock is held.
            unsafe { NonNull::from(&mut *bytes).cast().copy_from_nonoverlapping(place, bytes.len()) };
            staging.is_unused();
        }
        Ok(())
    }

    fn start(&self, operation: &GpuOperation<'_>) -> Result<(), GpuError> {
        match *operation {
            GpuOperation::Copy { from, to, len_bytes } => {
                // SAFETY: addresses are numbers to this process.
                unsafe {
                    self.call("cuMemcpyDtoDAsync", |table| (table.copy_on_device)(to, from, len_bytes, self.stream))
                }
            }
            GpuOperation::Launch { function, kernel, grid, parameters } => {
                self.launch(function, (grid, kernel), parameters)
            }
        }
    }

    fn record(&self, operations: &[GpuOperation<'_>]) -> Option<GpuGraph> {
        let chain = Chain::of(self, operations)?;
        let mut loaded = self.loaded();
        let number = loaded.number();
        loaded.graphs.insert(number, chain);
        Some(GpuGraph(number))
    }

    fn change(&self, graph: GpuGraph, operations: &mut dyn Iterator<Item = (usize, GpuOperation<'_>)>) -> bool {
        let loaded = self.loaded();
        let Some(chain) = loaded.graphs.get(&graph.0) else { return false };
        for (at, operation) in operations {
            if chain.change(self, &loaded.functions, at, &operation).is_none() {
                return false;
            }
        }
        true
    }

    fn replay(&self, graph: GpuGraph) -> Result<(), GpuError> {
        let known = self.table.graphs.zip(self.loaded().graphs.get(&graph.0).map(Chain::instance));
        let Some((graphs, instance)) = known else {
            let reason = "the graph was forgotten".to_owned();
            return Err(GpuError::Failed { what: "cuGraphLaunch".to_owned(), reason });
        };
        // SAFETY: the instance exists; the kernels in it are loaded, as whoever asks for this has to see to.
        unsafe { self.call("cuGraphLaunch", |_| (graphs.launch)(instance, self.stream)) }
    }

    fn forget(&self, graph: GpuGraph) {
        let known = self.loaded().graphs.remove(&graph.0);
        known.into_iter().for_each(|chain| chain.destroy(self));
    }

    fn mark(&self) -> Result<GpuMark, GpuError> {
        let spare = self.loaded().spare.pop();
        let event = spare.map_or_else(|| self.create_event(), Ok)?;
        let number = {
            let mut loaded = self.loaded();
            let number = loaded.number();
            loaded.marks.insert(number, event);
            number
        };
        // SAFETY: the event exists until it is taken out of the lists.
        let recorded = unsafe { self.call("cuEventRecord", |table| (table.record_event)(event, self.stream)) };
        recorded.inspect_err(|_| self.unmark(GpuMark(number))).map(|()| GpuMark(number))
    }

    fn between(&self, from: GpuMark, to: GpuMark) -> Result<Duration, GpuError> {
        let known = |mark: GpuMark| {
            let reason = || "the mark was forgotten".to_owned();
            let event = self.loaded().marks.get(&mark.0).copied();
            event.ok_or_else(|| GpuError::Failed { what: "cuEventElapsedTime".to_owned(), reason: reason() })
        };
        let (from, to) = (known(from)?, known(to)?);
        let mut milliseconds = 0.0f32;
        // SAFETY: the events exist; a pointer to a variable of the type that is written.
        unsafe {
            self.call("cuEventSynchronize", |table| (table.synchronize_event)(from))?;
            self.call("cuEventSynchronize", |table| (table.synchronize_event)(to))?;
            self.call("cuEventElapsedTime", |table| (table.milliseconds_between)(&raw mut milliseconds, from, to))?;
        }
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }

    fn unmark(&self, mark: GpuMark) {
        let mut loaded = self.loaded();
        let event = loaded.marks.remove(&mark.0);
        loaded.spare.extend(event);
    }

    fn synchronize(&self) -> Result<(), GpuError> {
        self.wait()
    }
}

/// Parameters as one block of bytes with its length, so that the driver reads no more than there is, whatever the kernel takes.
fn extra_of(parameters: &[u64], len_bytes: &mut usize) -> [*mut c_void; 5] {
    [
        table::LAUNCH_PARAM_BUFFER_POINTER,
        parameters.as_ptr().cast_mut().cast::<c_void>(),
        table::LAUNCH_PARAM_BUFFER_SIZE,
        std::ptr::from_mut(len_bytes).cast::<c_void>(),
        table::LAUNCH_PARAM_END,
    ]
}

/// What a mutex holds.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held; if something did, what they hold would be whole all the same.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Drop for NvidiaGpu {
    fn drop(&mut self) {
        let modules = std::mem::take(&mut self.loaded().modules);
        for module in modules.into_values() {
            // SAFETY: it was loaded, and nobody can launch what is in it any more.
            let _ = unsafe { self.call("cuModuleUnload", |table| (table.unload_module)(module)) };
        }
        let graphs = std::mem::take(&mut self.loaded().graphs);
        graphs.into_values().for_each(|chain| chain.destroy(self));
        let events = {
            let mut loaded = self.loaded();
            let marks = std::mem::take(&mut loaded.marks).into_values();
            marks.chain(std::mem::take(&mut loaded.spare)).collect::<Vec<_>>()
        };
        for event in events {
            // SAFETY: the event exists, and nobody can ask for it any more.
            let _ = unsafe { self.call("cuEventDestroy", |table| (table.destroy_event)(event)) };
        }
        let pinned = locked(&self.staging).take();
        if let Some(pinned) = pinned {
            // SAFETY: it was allocated as such, and nobody can copy through it any more.
            let _ = unsafe { self.call("cuMemFreeHost", |table| (table.free_pinned)(pinned)) };
        }
        // SAFETY: the stream is this one's own.
        let _ = unsafe { self.call("cuStreamDestroy", |table| (table.destroy_stream)(self.stream)) };
        // SAFETY: retained once when this was made.
        let _ = unsafe { (self.table.release_context)(self.device) };
    }
}

/// What the driver says of a result.
fn error_text(table: &Table, code: CuResult) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: a pointer to a variable that is written, or left null if the driver does not know the number.
    let known = unsafe { (table.error_string)(code, &raw mut text) } == 0 && !text.is_null();
    // SAFETY: a text of the driver's that it keeps.
    let text = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    text.map_or_else(|| format!("error {code}"), |text| format!("{text} (error {code})"))
}

/// The newest version of the PTX instruction set, major·10 + minor, that a driver takes which calls itself the one of this
/// release of CUDA, major·1000 + minor·10.
///
/// Source: PTX ISA, release notes. From 11.0 to 12.5 and from 13.0 on minors go in step; 12.6 has what 12.5 has.
fn ptx_version(cuda: c_int) -> u32 {
    let (major, minor) = (cuda / 1000, u32::try_from(cuda % 1000 / 10).unwrap_or(0));
    match major {
        11 => 70 + minor.min(8),
        12 if minor <= 5 => 80 + minor,
        12 => 80 + (minor - 1).min(8),
        13 => 90 + minor.min(9),
        later if later > 13 => 99,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_ptx_by_release() {
        let of = |releases: &[c_int]| releases.iter().map(|&release| ptx_version(release)).collect::<Vec<_>>();
        assert_eq!(of(&[10_020, 11_000, 11_080, 12_000]), [0, 70, 78, 80]);
        assert_eq!(of(&[12_050, 12_060, 12_070, 12_080, 12_090, 13_000]), [85, 85, 86, 87, 88, 90]);
    }

    /// There may be a GPU, or not: asking for it is never a panic, and a reason is told.
    #[test]
    fn asking_for_a_gpu_is_harmless() {
        match installed() {
            Ok(gpu) => assert!(gpu.capability() > 0),
            Err(reason) => assert!(reason.contains("NVIDIA"), "{reason}"),
        }
    }
}
