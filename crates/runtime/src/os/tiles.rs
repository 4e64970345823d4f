//! Tile registers (Intel AMX), which Linux lets a process use that has asked for them: their state is large.
//! <https://docs.kernel.org/arch/x86/xstate.html>

/// Asks for the use of tile registers, for all threads of the process; false if there are none, or the system refuses.
#[cfg(all(target_arch = "x86_64", any(target_os = "linux", target_os = "android")))]
#[expect(unsafe_code, reason = "calls into the C library")]
pub(crate) fn may_use_tiles() -> bool {
    use std::ffi::c_long;
    use std::sync::OnceLock;

    const SYS_ARCH_PRCTL: c_long = 158;
    const ARCH_REQ_XCOMP_PERM: c_long = 0x1023;
    const XFEATURE_XTILEDATA: c_long = 18;

    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        // SAFETY: the call takes two numbers and touches no memory of the process; on processors and systems that do not know
        // it, it fails.
        unsafe { syscall(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    })
}

/// Nobody knows how to ask for them here.
#[cfg(not(all(target_arch = "x86_64", any(target_os = "linux", target_os = "android"))))]
pub(crate) fn may_use_tiles() -> bool {
    false
}
