//! The floating-point control state that kernels rely on: round to nearest even, no exceptions, denormals as asked.

#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "the control register has no other access")
)]

/// What becomes of denormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpMode {
    /// Kept, as IEEE 754 has it.
    KeepDenormals,
    /// Read and written as zero.
    FlushDenormals,
}

/// Sets the state of this thread, and puts the former one back when dropped.
#[derive(Debug)]
pub(crate) struct FpScope {
    former: u64,
    // The state belongs to the thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl FpScope {
    /// Sets the state.
    pub(crate) fn enter(mode: FpMode) -> Self {
        let former = read();
        write(control_word(mode));
        Self { former, _not_send: std::marker::PhantomData }
    }
}

impl Drop for FpScope {
    fn drop(&mut self) {
        // Sticky exception flags raised by kernels go with it.
        write(self.former);
    }
}

/// MXCSR: all exceptions masked, round to nearest; flush-to-zero (bit 15) and denormals-are-zero (bit 6) as asked.
#[cfg(target_arch = "x86_64")]
fn control_word(mode: FpMode) -> u64 {
    match mode {
        FpMode::KeepDenormals => 0x1f80,
        FpMode::FlushDenormals => 0x9fc0,
    }
}

#[cfg(target_arch = "x86_64")]
fn read() -> u64 {
    let mut word = 0u32;
    // SAFETY: stores MXCSR to the four bytes of `word` and changes nothing else.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    u64::from(word)
}

#[cfg(target_arch = "x86_64")]
fn write(word: u64) {
    #[expect(clippy::cast_possible_truncation, reason = "made by `read` or `control_word`, 32 bits each")]
    let word = word as u32;
    // SAFETY: `word` has no reserved bit set (it was read from MXCSR or is a constant above). Rust code assumes the
    // default state; between `enter` and drop only kernels and the runtime's integer code run, and no Rust
    // floating-point operation depends on the flags.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, readonly, preserves_flags)) };
}

/// FPCR: traps off, round to nearest; flush-to-zero is bit 24.
#[cfg(target_arch = "aarch64")]
fn control_word(mode: FpMode) -> u64 {
    match mode {
        FpMode::KeepDenormals => 0,
        FpMode::FlushDenormals => 1 << 24,
    }
}

#[cfg(target_arch = "aarch64")]
fn read() -> u64 {
    let word: u64;
    // SAFETY: reads FPCR, changes nothing.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn write(word: u64) {
    // SAFETY: `word` was read from FPCR or is a constant above; see the x86-64 version for the surroundings.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nomem, nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control_word(_mode: FpMode) -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write(_word: u64) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_former_state_comes_back() {
        let before = read();
        write(0x9fc0 | 0x6000); // flush, round towards zero
        {
            let _scope = FpScope::enter(FpMode::KeepDenormals);
            assert_eq!(read(), 0x1f80);
        }
        assert_eq!(read(), 0x9fc0 | 0x6000);
        write(before);
    }
}
