//! What this machine's processor can do, as targets name it.

use infc_artifact::features;

/// The architecture at the front of a target; `None` if infc makes no code for this machine.
pub(crate) fn arch() -> Option<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Some("x86-64"),
        "aarch64" => Some("aarch64"),
        _ => None,
    }
}

/// Whether this machine runs code for a target.
pub(crate) fn runs(target: &str) -> bool {
    features::arch_of(target) == arch()
        && features::required_by(target).is_some_and(|all| all.iter().all(|feature| has(feature)))
}

/// The target that is this machine alone: its level, and every further feature that infc knows.
pub(crate) fn native_target() -> Option<String> {
    let levels: &[&str] = match arch()? {
        "x86-64" => &["x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"],
        arch => &[arch][..],
    };
    let level = levels.iter().find(|level| runs(level))?;
    let contained = features::required_by(level)?;
    let mut target = (*level).to_owned();
    for feature in features::all() {
        let extended = format!("{target}+{feature}");
        if !contained.contains(&feature) && runs(&extended) {
            target = extended;
        }
    }
    Some(target)
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
            assert!(runs(&native), "{native}");
        }
        assert!(!runs("cuda") && !runs("x86-64-v9"));
    }
}
