//! Which variant of an artifact this machine runs, and why not a better one.

use crate::code::HOST_ARCH;
use crate::error::RuntimeError;
use infc_artifact::{ArtifactError, VariantInfo, features};

/// The outcome of choosing a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Index of the variant in the manifest.
    pub variant: usize,
    /// Its target.
    pub target: String,
    /// The variants before it (better ones), which were passed over.
    pub skipped: Vec<Skipped>,
}

/// A variant that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its target.
    pub target: String,
    /// Why, as a phrase: `needs avx512f, which this processor lacks`.
    pub reason: String,
}

/// Chooses the first variant that this machine can run, or the one for `wanted`.
pub(crate) fn select(variants: &[VariantInfo], wanted: Option<&str>) -> Result<Selection, RuntimeError> {
    let Some(arch) = HOST_ARCH else {
        return Err(RuntimeError::UnsupportedHost { found: std::env::consts::ARCH.to_owned() });
    };
    select_on(variants, wanted, arch, &host_has)
}

fn select_on(
    variants: &[VariantInfo],
    wanted: Option<&str>,
    arch: &str,
    has: &dyn Fn(&str) -> bool,
) -> Result<Selection, RuntimeError> {
    let targets = || list(variants.iter().map(|v| v.target.as_str()));
    let mut skipped = Vec::new();
    for (variant, info) in variants.iter().enumerate() {
        if wanted.is_some_and(|wanted| wanted != info.target) {
            continue;
        }
        let Some(reason) = obstacle(info, arch, has) else {
            return Ok(Selection { variant, target: info.target.clone(), skipped });
        };
        skipped.push(Skipped { target: info.target.clone(), reason });
    }
    let error = match (wanted, skipped.last()) {
        (Some(wanted), None) => ArtifactError::NoSuchTarget { wanted: wanted.to_owned(), available: targets() },
        (_, Some(last)) => ArtifactError::WrongTarget {
            available: targets(),
            machine: format!("cannot run {}: it {}", last.target, last.reason),
            suggestion: best_level(arch, has).to_owned(),
        },
        (None, None) => ArtifactError::WrongTarget {
            available: "nothing".to_owned(),
            machine: format!("is {arch}"),
            suggestion: best_level(arch, has).to_owned(),
        },
    };
    Err(error.into())
}

/// Why the machine cannot run a variant; `None` if it can.
fn obstacle(info: &VariantInfo, arch: &str, has: &dyn Fn(&str) -> bool) -> Option<String> {
    if features::arch_of(&info.target) != Some(arch) {
        return Some(format!("is not for this architecture, {arch}"));
    }
    let mut missing = info.required_features.iter().map(String::as_str).filter(|feature| !has(feature)).peekable();
    missing.peek()?;
    Some(format!("needs {}, which this processor lacks", list(missing)))
}

/// The highest level to recommend.
fn best_level(arch: &str, has: &dyn Fn(&str) -> bool) -> &'static str {
    let levels: &[&'static str] =
        if arch == "x86-64" { &["x86-64-v4", "x86-64-v3", "x86-64-v2"] } else { &["aarch64"] };
    let runs = |level: &&&'static str| features::required_by(level).is_some_and(|all| all.iter().all(|f| has(f)));
    levels.iter().find(runs).copied().unwrap_or("x86-64")
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The architecture of this machine as targets name it; `None` if no artifact has code for it.
#[must_use]
pub fn host_arch() -> Option<&'static str> {
    HOST_ARCH
}

/// Whether this processor, and the operating system on it, has a feature of [`infc_artifact::features`]; unknown names
/// are absent.
#[must_use]
pub fn host_has(feature: &str) -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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

    fn variant(target: &str) -> VariantInfo {
        let required = features::required_by(target).unwrap_or_default();
        VariantInfo {
            target: target.to_owned(),
            required_features: required.iter().map(|&f| f.to_owned()).collect(),
            program_section: 0,
            code_section: 0,
        }
    }

    #[test]
    fn the_first_that_runs_is_taken_and_the_others_explained() {
        let variants = ["x86-64-v4", "x86-64-v3", "x86-64-v2"].map(variant);
        let v3 = features::required_by("x86-64-v3").unwrap();
        let selection = select_on(&variants, None, "x86-64", &|f| v3.contains(&f)).unwrap();
        assert_eq!((selection.variant, selection.target.as_str()), (1, "x86-64-v3"));
        assert!(selection.skipped[0].reason.contains("needs avx512f"), "{selection:?}");
    }

    #[test]
    fn a_wish_is_kept_or_refused() {
        let variants = ["x86-64-v4", "x86-64-v3"].map(variant);
        let all = |_: &str| true;
        assert_eq!(select_on(&variants, Some("x86-64-v3"), "x86-64", &all).unwrap().variant, 1);
        let error = select_on(&variants, Some("x86-64-v2"), "x86-64", &all).unwrap_err();
        assert_eq!(error.code(), "artifact::no-such-target");
        let error = select_on(&variants, Some("x86-64-v4"), "x86-64", &|_| false).unwrap_err();
        assert_eq!(error.code(), "artifact::wrong-target");
    }

    #[test]
    fn another_architecture_is_the_wrong_target() {
        for variants in [vec![variant("aarch64")], vec![]] {
            let error = select_on(&variants, None, "x86-64", &|_| true).unwrap_err();
            assert_eq!(error.code(), "artifact::wrong-target");
            assert!(error.to_string().contains("--target x86-64-v4"), "{error}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_x86_feature_of_the_format_can_be_asked_for() {
        // Asking must not depend on the name being known: unknown ones are absent.
        assert!(!host_has("flux"));
        assert_eq!(host_has("fma"), std::arch::is_x86_feature_detected!("fma"));
    }
}
