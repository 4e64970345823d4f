//! The instruction set that Cranelift is told to use.

use crate::CodegenError;
use crate::target::{Level, Target};
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use target_lexicon::{Aarch64Architecture, Architecture, BinaryFormat, OperatingSystem, Triple, Vendor};

/// What x86-64-v2 has beyond the first x86-64.
const V2: [&str; 6] = ["has_sse3", "has_ssse3", "has_cmpxchg16b", "has_sse41", "has_sse42", "has_popcnt"];
/// What x86-64-v3 adds. Vectors stay at 128 bits.
const V3: [&str; 6] = ["has_avx", "has_avx2", "has_fma", "has_bmi1", "has_bmi2", "has_lzcnt"];

/// The instruction set of a target, without what its level does not promise.
pub(super) fn of(target: &Target) -> Result<OwnedTargetIsa, CodegenError> {
    let fail = |message: String| CodegenError::Cranelift { message };
    let architecture = match target.level() {
        Level::Aarch64 => Architecture::Aarch64(Aarch64Architecture::Aarch64),
        Level::X86V2 | Level::X86V3 | Level::X86V4 => Architecture::X86_64,
    };
    // The calling convention is stated per function, so the system does not matter.
    let triple = Triple {
        architecture,
        vendor: Vendor::Unknown,
        operating_system: OperatingSystem::None_,
        binary_format: BinaryFormat::Elf,
        ..Triple::unknown()
    };
    let mut shared = settings::builder();
    let verifier = if cfg!(debug_assertions) { "true" } else { "false" };
    for (name, value) in [
        // Its optimiser keeps loads in their order and puts what is pure where it is used last: all loads of an unrolled body
        // come first, more than there are registers for, and then one sum after the other. `vir` has its operations in the
        // order that registers want, without what is common or constant; what translation adds of it (masks, constants) stays.
        ("opt_level", "none"),
        ("enable_verifier", verifier),
        ("enable_probestack", "false"),
        ("unwind_info", "false"),
    ] {
        shared.set(name, value).map_err(|error| fail(error.to_string()))?;
    }
    let mut builder = isa::lookup(triple).map_err(|error| fail(error.to_string()))?;
    let extensions: &[&[&str]] = match target.level() {
        Level::Aarch64 => &[],
        Level::X86V2 => &[&V2],
        Level::X86V3 | Level::X86V4 => &[&V2, &V3],
    };
    for name in extensions.iter().copied().flatten() {
        builder.enable(name).map_err(|error| fail(error.to_string()))?;
    }
    builder.finish(settings::Flags::new(shared)).map_err(|error| fail(error.to_string()))
}
