//! The functions of the driver, found in the library that is installed.
//!
//! Declared as in `cuda.h` of CUDA 11.0, the oldest release whose driver takes the code that is made; the names are those
//! that the header's macros stand for (`cuMemAlloc` is `cuMemAlloc_v2`). Results are numbers, not an `enum`: a driver may
//! know more of them than this crate.

#![expect(unsafe_code, reason = "functions of a foreign library")]

use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `CUresult`: 0 is success.
pub(super) type CuResult = c_int;
/// `CUdeviceptr`.
pub(super) type CuAddress = u64;

/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`, `CUevent`, `CUgraph` and `CUgraphExec`: pointers to what only the driver
/// knows.
pub(super) type Handle = *mut c_void;

pub(super) const INVALID_VALUE: CuResult = 1;
pub(super) const OUT_OF_MEMORY: CuResult = 2;
pub(super) const LAUNCH_TIMEOUT: CuResult = 702;
pub(super) const NOT_SUPPORTED: CuResult = 801;
/// What is said of an image that is not taken: an invalid value, an invalid image, no code for the GPU, invalid PTX, no
/// translator, a version of PTX that is too new, no translation allowed, an invalid source, a symbol not found, not supported.
pub(super) const OF_AN_IMAGE: [CuResult; 10] = [INVALID_VALUE, 200, 209, 218, 221, 222, 223, 300, 500, NOT_SUPPORTED];
pub(super) const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
pub(super) const COMPUTE_CAPABILITY_MINOR: c_int = 76;
pub(super) const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
/// `CU_MEMORYTYPE_DEVICE`.
pub(super) const MEMORY_OF_DEVICE: c_uint = 2;
pub(super) const STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const EVENT_DEFAULT: c_uint = 0;
pub(super) const JIT_ERROR_LOG_BUFFER: c_int = 5;
pub(super) const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
/// `CU_JIT_SPLIT_COMPILE`: how many threads translate the entries of a module; 0 for as many as there are processors.
pub(super) const JIT_SPLIT_COMPILE: c_int = 34;
/// The first version of CUDA whose driver knows [`JIT_SPLIT_COMPILE`]; older ones refuse options that they do not know.
pub(super) const SPLIT_COMPILE_SINCE: c_int = 12_090;
pub(super) const LAUNCH_PARAM_END: *mut c_void = std::ptr::without_provenance_mut(0);
pub(super) const LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
pub(super) const LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// What the library is called.
#[cfg(windows)]
const LIBRARIES: [&str; 1] = ["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

macro_rules! functions {
    ($(#[$about:meta])* $table:ident: $($(#[$doc:meta])* $field:ident = $symbol:literal: ($($argument:ty),*);)*) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(super) struct $table {
            $($(#[$doc])* pub(super) $field: unsafe extern "system" fn($($argument),*) -> CuResult,)*
        }

        impl $table {
            /// The functions of a library; the name of one that it lacks otherwise. They may be called while it is loaded.
            fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the driver exports a function of this name with the type that `cuda.h` declares, which
                        // is the one written down here.
                        let found = unsafe { library.get(concat!($symbol, "\0").as_bytes()) };
                        *found.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// What every driver has that takes the code that is made.
    Functions:
    init = "cuInit": (c_uint);
    driver_version = "cuDriverGetVersion": (*mut c_int);
    error_string = "cuGetErrorString": (CuResult, *mut *const c_char);
    device_count = "cuDeviceGetCount": (*mut c_int);
    device = "cuDeviceGet": (*mut c_int, c_int);
    device_name = "cuDeviceGetName": (*mut c_char, c_int, c_int);
    device_attribute = "cuDeviceGetAttribute": (*mut c_int, c_int, c_int);
    retain_context = "cuDevicePrimaryCtxRetain": (*mut Handle, c_int);
    release_context = "cuDevicePrimaryCtxRelease_v2": (c_int);
    set_context = "cuCtxSetCurrent": (Handle);
    load_module = "cuModuleLoadDataEx": (*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload_module = "cuModuleUnload": (Handle);
    function = "cuModuleGetFunction": (*mut Handle, Handle, *const c_char);
    set_function_attribute = "cuFuncSetAttribute": (Handle, c_int, c_int);
    allocate = "cuMemAlloc_v2": (*mut CuAddress, usize);
    free = "cuMemFree_v2": (CuAddress);
    memory_info = "cuMemGetInfo_v2": (*mut usize, *mut usize);
    copy_to_device = "cuMemcpyHtoDAsync_v2": (CuAddress, *const c_void, usize, Handle);
    copy_to_host = "cuMemcpyDtoHAsync_v2": (*mut c_void, CuAddress, usize, Handle);
    copy_on_device = "cuMemcpyDtoDAsync_v2": (CuAddress, CuAddress, usize, Handle);
    create_stream = "cuStreamCreate": (*mut Handle, c_uint);
    destroy_stream = "cuStreamDestroy_v2": (Handle);
    synchronize = "cuStreamSynchronize": (Handle);
    create_event = "cuEventCreate": (*mut Handle, c_uint);
    destroy_event = "cuEventDestroy_v2": (Handle);
    record_event = "cuEventRecord": (Handle, Handle);
    synchronize_event = "cuEventSynchronize": (Handle);
    milliseconds_between = "cuEventElapsedTime": (*mut f32, Handle, Handle);
    launch = "cuLaunchKernel": (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    allocate_pinned = "cuMemAllocHost_v2": (*mut *mut c_void, usize);
    free_pinned = "cuMemFreeHost": (*mut c_void);
}

functions! {
    /// Edges of graphs along which a kernel may begin before the one before it has ended. They came with CUDA 12.3.
    EarlyStarts:
    add_edges = "cuGraphAddDependencies_v2": (Handle, *const Handle, *const Handle, *const EdgeData, usize);
}

functions! {
    /// Graphs, made node by node. `cuGraphInstantiateWithFlags` came with CUDA 11.4.
    Graphs:
    create = "cuGraphCreate": (*mut Handle, c_uint);
    add_kernel = "cuGraphAddKernelNode": (*mut Handle, Handle, *const Handle, usize, *const KernelNode);
    add_copy = "cuGraphAddMemcpyNode": (*mut Handle, Handle, *const Handle, usize, *const CopyNode, Handle);
    instantiate = "cuGraphInstantiateWithFlags": (*mut Handle, Handle, u64);
    change_kernel = "cuGraphExecKernelNodeSetParams": (Handle, Handle, *const KernelNode);
    change_copy = "cuGraphExecMemcpyNodeSetParams": (Handle, Handle, *const CopyNode, Handle);
    launch = "cuGraphLaunch": (Handle, Handle);
    destroy = "cuGraphDestroy": (Handle);
    destroy_instance = "cuGraphExecDestroy": (Handle);
}

/// `CUgraphEdgeData`: what is waited for of the node that an edge comes from.
#[repr(C)]
pub(super) struct EdgeData {
    pub(super) from_port: u8,
    pub(super) to_port: u8,
    pub(super) kind: u8,
    pub(super) reserved: [u8; 5],
}

/// That all blocks of a kernel have ended, though not all that they have written need be there, or have let the next one begin:
/// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` and `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
pub(super) static EARLY: EdgeData = EdgeData { from_port: 1, to_port: 0, kind: 1, reserved: [0; 5] };

/// `CUDA_KERNEL_NODE_PARAMS`: a launch.
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) function: Handle,
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    /// Parameters one by one: none.
    pub(super) parameters: *mut *mut c_void,
    pub(super) extra: *mut *mut c_void,
}

/// `CUDA_MEMCPY3D`: a box of bytes from one place to another.
#[repr(C)]
pub(super) struct CopyNode {
    pub(super) from: PlaceOfCopy,
    pub(super) to: PlaceOfCopy,
    pub(super) width_bytes: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// One side of [`CopyNode`].
#[repr(C)]
pub(super) struct PlaceOfCopy {
    /// Bytes, rows and layers from the address on, and a level of detail: zeros.
    pub(super) offsets: [usize; 4],
    pub(super) memory: c_uint,
    pub(super) on_host: *mut c_void,
    pub(super) on_device: CuAddress,
    pub(super) array: Handle,
    pub(super) reserved: *mut c_void,
    /// Bytes from row to row.
    pub(super) pitch_bytes: usize,
    /// Rows from layer to layer.
    pub(super) height: usize,
}

/// The functions that this crate calls. The library stays loaded as long as the table exists.
pub(super) struct Table {
    functions: Functions,
    /// `None` for a driver that is older than these.
    pub(super) graphs: Option<Graphs>,
    /// The same.
    pub(super) early_starts: Option<EarlyStarts>,
    _library: Library,
}

impl std::ops::Deref for Table {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl Table {
    fn of(library: Library) -> Result<Self, String> {
        let functions = Functions::of(&library);
        let functions = functions.map_err(|name| format!("the NVIDIA driver is too old: it has no {name}"))?;
        let (graphs, early_starts) = (Graphs::of(&library).ok(), EarlyStarts::of(&library).ok());
        Ok(Self { functions, graphs, early_starts, _library: library })
    }

    /// The functions of the driver that is installed.
    pub(super) fn load() -> Result<Self, String> {
        for name in LIBRARIES {
            // SAFETY: the driver's library, by the name under which NVIDIA installs it; it may be loaded and unloaded at any
            // time, which programs that use CUDA rely on.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Self::of(library);
            }
        }
        Err(format!("no NVIDIA driver is installed ({} was not found)", LIBRARIES[0]))
    }
}
