//! What must hold of code for GPUs, and of no other.

use super::{Checked, ensure, expr};
use crate::container::SectionKind;
use crate::{Entry, KernelInfo, Program, Step};

/// Threads of a block.
const MAX_BLOCK_THREADS: u64 = 1024;
/// Shared memory of a block, more than any GPU has.
const MAX_SHARED_BYTES: u32 = 1 << 20;
/// Characters of the name of an entry.
const MAX_ENTRY_NAME: usize = 4096;

/// What is an entry of a PTX module has a name, and a block that there can be; machine code has neither.
pub(super) fn kernel(kernel: &KernelInfo, code: SectionKind) -> Checked {
    let what = || format!("the launch of kernel `{}`", kernel.name);
    let Some(device) = &kernel.device else {
        return ensure(code != SectionKind::PTX, what, "an entry and a block", "none");
    };
    ensure(code == SectionKind::PTX, what, "none for machine code", &device.entry)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let named = (1..=MAX_ENTRY_NAME).contains(&device.entry.len()) && device.entry.chars().all(is_name);
    ensure(named, what, "an entry's name of letters, digits and underscores", format!("{:?}", device.entry))?;
    let threads = device.block.iter().try_fold(1u64, |all, &n| all.checked_mul(u64::from(n)));
    let fits = threads.is_some_and(|threads| (1..=MAX_BLOCK_THREADS).contains(&threads));
    ensure(fits, what, format!("1 to {MAX_BLOCK_THREADS} threads"), format!("{:?}", device.block))?;
    let shared = device.dynamic_shared_bytes;
    ensure(shared <= MAX_SHARED_BYTES, what, format!("at most {MAX_SHARED_BYTES} bytes of shared memory"), shared)
}

/// Launches have grids on GPUs, and nowhere else.
pub(super) fn program(program: &Program, entry: &Entry, code: SectionKind) -> Checked {
    let on_device = code == SectionKind::PTX;
    for (index, step) in program.steps.iter().enumerate() {
        let what = || format!("step {index} of entry `{}`", entry.name);
        let Step::Launch(launch) = step else { continue };
        let expected = if on_device { "a launch with a grid" } else { "a launch without a grid" };
        let found = if launch.grid.is_some() { "one with a grid" } else { "one without" };
        ensure(launch.grid.is_some() == on_device, what, expected, found)?;
        launch.grid.iter().flatten().try_for_each(|blocks| expr(blocks, entry, "a grid"))?;
    }
    Ok(())
}
