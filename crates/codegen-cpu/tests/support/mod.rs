//! Runs generated code in tests. The crate itself never executes what it emits.

#![expect(unsafe_code, reason = "generated code can only be run by calling into it")]
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::c_void;

unsafe extern "C" {
    fn mmap(addr: *mut c_void, length: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut c_void;
    fn mprotect(addr: *mut c_void, length: usize, prot: i32) -> i32;
    fn munmap(addr: *mut c_void, length: usize) -> i32;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
    // Of the compiler's runtime library: instructions are fetched anew.
    #[cfg(target_arch = "aarch64")]
    fn __clear_cache(begin: *mut c_void, end: *mut c_void);
}

/// Whether the machine at hand has a feature of x86-64.
macro_rules! has {
    ($name:tt) => {{
        #[cfg(target_arch = "x86_64")]
        let has = is_x86_feature_detected!($name);
        #[cfg(not(target_arch = "x86_64"))]
        let has = false;
        has
    }};
}

const PROT_READ: i32 = 1;
const PROT_WRITE: i32 = 2;
const PROT_EXEC: i32 = 4;
const MAP_PRIVATE: i32 = 2;
const MAP_ANONYMOUS: i32 = 0x20;

/// Machine code in executable pages.
pub(crate) struct Executable {
    start: *mut c_void,
    length: usize,
}

impl Executable {
    /// Copies code to pages of its own.
    pub(crate) fn new(code: &[u8]) -> Self {
        let length = code.len().max(1);
        // SAFETY: a fresh anonymous mapping is asked for, so nothing existing is touched; the result is checked.
        unsafe {
            let start = mmap(std::ptr::null_mut(), length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_ne!(start as isize, -1, "mmap failed");
            std::ptr::copy_nonoverlapping(code.as_ptr(), start.cast(), code.len());
            assert_eq!(mprotect(start, length, PROT_READ | PROT_EXEC), 0, "mprotect failed");
            #[cfg(target_arch = "aarch64")]
            __clear_cache(start, start.byte_add(length));
            Self { start, length }
        }
    }

    /// Calls the code as a kernel.
    pub(crate) fn call(&self, args: &[u64], begin: u64, end: u64, scratch: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        type Kernel = extern "sysv64" fn(*const u64, u64, u64, *mut u8);
        #[cfg(not(target_arch = "x86_64"))]
        type Kernel = extern "C" fn(*const u64, u64, u64, *mut u8);
        // SAFETY: the pages hold a function of this signature, made by an emitter under test; that it touches only the
        // buffers it is given is what the tests establish first with the interpreter.
        unsafe {
            let kernel: Kernel = std::mem::transmute(self.start);
            kernel(args.as_ptr(), begin, end, scratch.as_mut_ptr());
        }
    }
}

/// Bytes at the end of memory that can be read: what is behind them faults.
pub(crate) struct AtEnd {
    start: *mut c_void,
    len_bytes: usize,
}

impl AtEnd {
    const PAGE: usize = 4096;

    /// A copy of at most a page.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        assert!(bytes.len() <= Self::PAGE, "one page");
        // SAFETY: as in `Executable::new`; the copy lies within the first of two pages, and only the second is closed.
        unsafe {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS;
            let start = mmap(std::ptr::null_mut(), 2 * Self::PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
            assert_ne!(start as isize, -1, "mmap failed");
            let to = start.cast::<u8>().add(Self::PAGE - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            assert_eq!(mprotect(start.cast::<u8>().add(Self::PAGE).cast(), Self::PAGE, 0), 0, "mprotect failed");
            Self { start, len_bytes: bytes.len() }
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.start as u64 + (Self::PAGE - self.len_bytes) as u64
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and is not used any more.
        unsafe {
            munmap(self.start, 2 * Self::PAGE);
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and is not used any more.
        unsafe {
            munmap(self.start, self.length);
        }
    }
}

/// Whether the machine at hand runs x86-64-v4 code.
pub(crate) fn has_avx512() -> bool {
    let all = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    all && has_avx2()
}

/// Whether the machine at hand runs x86-64-v3 code.
pub(crate) fn has_avx2() -> bool {
    has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2")
}

/// Whether the machine at hand has 512-bit byte dot products.
pub(crate) fn has_avx512_vnni() -> bool {
    has_avx512() && has!("avx512vnni")
}

/// Whether the machine at hand has dot products of bfloat16 pairs.
pub(crate) fn has_avx512_bf16() -> bool {
    has_avx512_vnni() && has!("avx512bf16")
}

/// Whether the machine at hand runs x86-64-v2 code.
pub(crate) fn has_sse42() -> bool {
    has!("sse4.2") && has!("popcnt")
}

/// Whether the machine at hand has 256-bit byte dot products without AVX-512.
pub(crate) fn has_avx_vnni() -> bool {
    has_avx2() && has!("avxvnni")
}

/// Whether the machine at hand has tile registers for bytes and bfloat16 numbers, which it lets this process use.
pub(crate) fn has_amx() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        const ARCH_PRCTL: std::ffi::c_long = 158;
        const REQUEST_PERMISSION: std::ffi::c_long = 0x1023;
        const TILE_DATA: std::ffi::c_long = 18;
        let has = |bit: u32| std::arch::x86_64::__cpuid_count(7, 0).edx >> bit & 1 == 1;
        // SAFETY: takes numbers and touches no memory of the process.
        let may = || unsafe { syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0 };
        has_avx512() && has(22) && has(24) && has(25) && may()
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

/// A core as the untuned choice has it in mind for x86-64-v4 with dot products.
pub(crate) fn machine() -> infc_passes::schedule::Machine {
    use infc_passes::schedule::{DotCost, Machine};
    Machine {
        vector_bytes: 64,
        vector_registers: 32,
        mask_registers: true,
        arithmetic_per_cycle: 2.0,
        byte_dot: DotCost::of_instruction(4.0),
        pair_dot: DotCost::of_instruction(6.0),
        tile_registers: false,
        permuted_vectors: 2,
        loads_per_cycle: 2.0,
        latency_cycles: 4.0,
        l2_bytes_per_cycle: 24.0,
        l3_bytes_per_cycle: 16.0,
        l1_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        l3_bytes: 2 << 20,
        threads: 1,
    }
}
