//! What this machine's processor can do, as targets name it.

use infc_artifact::features;
use infc_codegen_cpu::Target;
use infc_codegen_cpu::target::{Feature, Level};

/// The architecture at the front of a target; `None` if infc makes no code for this machine.
pub(crate) fn arch() -> Option<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Some("x86-64"),
        "aarch64" => Some("aarch64"),
        _ => None,
    }
}

/// Whether this machine runs code for a target that needs these features.
pub(crate) fn runs<'a>(target: &str, required: impl IntoIterator<Item = &'a str>) -> bool {
    features::arch_of(target) == arch() && required.into_iter().all(has)
}

/// Whether this machine runs code that the compiler makes for a target.
pub(crate) fn runs_target(target: &Target) -> bool {
    runs(&target.to_string(), target.required_features())
}

/// The levels that artifacts can be compiled for, best first.
pub(crate) const LEVELS: [Level; 4] = [Level::X86V4, Level::X86V3, Level::X86V2, Level::Aarch64];

/// The best level that this machine runs.
pub(crate) fn best_level() -> Option<Target> {
    LEVELS.into_iter().map(Target::new).find(runs_target)
}

/// The target that is this machine alone: its level, and every further feature that the compiler knows.
pub(crate) fn native_target() -> Option<Target> {
    let with = |target: Target, feature| match target.clone().with(feature) {
        Ok(extended) if runs_target(&extended) => extended,
        _ => target,
    };
    Some(Feature::ALL.into_iter().fold(best_level()?, with))
}

/// Whether this processor, and the operating system on it, has a feature; unknown names are absent.
fn has(feature: &str) -> bool {
    macro_rules! detect {
        ($detect:ident: $($name:tt)*) => {
            match feature {
                $($name => std::arch::$detect!($name),)*
                _ => false,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    return detect!(is_x86_feature_detected:
        "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "movbe"
        "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16" "avx512vbmi"
        "avx512vbmi2" "avx512ifma" "avx512bitalg" "avx512vpopcntdq" "avxvnni" "gfni");
    #[cfg(target_arch = "aarch64")]
    return detect!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = feature;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_a_target_that_it_runs() {
        if arch().is_some() {
            let native = native_target().unwrap();
            assert!(runs_target(&native), "{native}");
            assert_eq!(native.level(), best_level().unwrap().level());
        }
        assert!(!runs("cuda", []) && !runs("x86-64", ["flux"]));
    }
}
