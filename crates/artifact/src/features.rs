//! The names by which a code variant states what the processor, or the GPU and its driver, must have.
//!
//! The names are those of rustc's `target_feature`. They are part of the file format: never rename one. A runtime that
//! meets a name it does not know treats the feature as missing, so new names need no new format version.

/// What a GPU has from a compute capability on: `sm_80`.
const COMPUTE_CAPABILITY: &str = "sm_";
/// What follows a compute capability that has to be the GPU's own: `sm_90a`.
const ONLY: &str = "a";
/// What a driver has from a version of the PTX instruction set on: `ptx7.0`.
const PTX_VERSION: &str = "ptx";

/// What the x86-64-v2 level of the psABI adds to the baseline (SSE2) and a kernel may rely on.
const V2: &[&str] = &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b"];
/// What v3 adds to v2.
const V3: &[&str] = &["avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "movbe"];
/// What v4 adds to v3.
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// Features beyond a psABI level: the short name in a target (`x86-64-v4+vnni`) and the features' own.
const X86_EXTRAS: &[(&str, &[&str])] = &[
    ("vnni", &["avx512vnni"]),
    ("bf16", &["avx512bf16"]),
    ("fp16", &["avx512fp16"]),
    ("vbmi", &["avx512vbmi"]),
    ("vbmi2", &["avx512vbmi2"]),
    ("ifma", &["avx512ifma"]),
    ("bitalg", &["avx512bitalg"]),
    ("vpopcntdq", &["avx512vpopcntdq"]),
    ("avxvnni", &["avxvnni"]),
    ("gfni", &["gfni"]),
    // All processors that multiply tiles at all have both kinds.
    ("amx", &["amx-tile", "amx-int8", "amx-bf16"]),
];

/// Features of 64-bit ARM; NEON is its baseline.
const AARCH64_EXTRAS: &[(&str, &[&str])] = &[
    ("fp16", &["fp16"]),
    ("dotprod", &["dotprod"]),
    ("i8mm", &["i8mm"]),
    ("bf16", &["bf16"]),
    ("sve", &["sve"]),
    ("sve2", &["sve2"]),
];

/// The architecture at the front of a target: `x86-64`, `aarch64` or `cuda`; `None` for another.
#[must_use]
pub fn arch_of(target: &str) -> Option<&'static str> {
    ["x86-64", "aarch64", "cuda"]
        .into_iter()
        .find(|arch| target.strip_prefix(arch).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '+', ':'])))
}

/// All features that a CPU target (`x86-64-v3`, `x86-64-v4+vnni`, `aarch64+dotprod`) lets kernels use, in a fixed
/// order; `None` if the text is no such target.
#[must_use]
pub fn required_by(target: &str) -> Option<Vec<&'static str>> {
    let (base, extras) = target.split_once('+').map_or((target, ""), |(base, extras)| (base, extras));
    let levels: &[&[&'static str]] = match base {
        "x86-64" | "x86-64-v1" | "aarch64" => &[],
        "x86-64-v2" => &[V2],
        "x86-64-v3" => &[V2, V3],
        "x86-64-v4" => &[V2, V3, V4],
        _ => return None,
    };
    let table = if base == "aarch64" { AARCH64_EXTRAS } else { X86_EXTRAS };
    let mut features = levels.concat();
    for extra in extras.split('+').filter(|extra| !extra.is_empty()) {
        let is_meant = |(short, own): &&(&str, &[&str])| *short == extra || own[..] == [extra];
        let &(_, own) = table.iter().find(is_meant)?;
        for feature in own.iter().filter(|own| !features.contains(own)).collect::<Vec<_>>() {
            features.push(feature);
        }
    }
    Some(features)
}

/// The features that PTX needs: of a GPU its compute capability, major·10 + minor; of its driver the instruction set's
/// version, major·10 + minor. `only`: no GPU of another compute capability runs it.
#[must_use]
pub fn required_by_ptx(capability: u32, only: bool, version: u32) -> [String; 2] {
    let only = if only { ONLY } else { "" };
    [format!("{COMPUTE_CAPABILITY}{capability}{only}"), format!("{PTX_VERSION}{}.{}", version / 10, version % 10)]
}

/// A feature of GPUs or of their drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuFeature {
    /// A GPU of this compute capability, major·10 + minor, or of any later one.
    Capability(u32),
    /// A GPU of this compute capability, major·10 + minor, and no other.
    OnlyCapability(u32),
    /// A driver that knows this version of the PTX instruction set, major·10 + minor.
    PtxVersion(u32),
}

/// What a name of [`required_by_ptx`] says; `None` for all other names.
#[must_use]
pub fn gpu_feature(name: &str) -> Option<GpuFeature> {
    let number = |text: &str| text.parse().ok().filter(|n| *n < 10_000);
    if let Some(capability) = name.strip_prefix(COMPUTE_CAPABILITY) {
        return match capability.strip_suffix(ONLY) {
            Some(only) => number(only).map(GpuFeature::OnlyCapability),
            None => number(capability).map(GpuFeature::Capability),
        };
    }
    let (major, minor) = name.strip_prefix(PTX_VERSION)?.split_once('.')?;
    let minor = number(minor).filter(|minor| *minor < 10)?;
    Some(GpuFeature::PtxVersion(number(major)? * 10 + minor))
}

/// Every feature name of processors that the format knows.
#[must_use]
pub fn all() -> Vec<&'static str> {
    let extras = X86_EXTRAS.iter().chain(AARCH64_EXTRAS).flat_map(|&(_, features)| features).copied();
    V2.iter().chain(V3).chain(V4).copied().chain(extras).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_contain_each_other() {
        let [v2, v3, v4] = ["x86-64-v2", "x86-64-v3", "x86-64-v4"].map(|t| required_by(t).unwrap());
        assert!(v4.starts_with(&v3) && v3.starts_with(&v2));
        assert!(!v4.contains(&"avx512vnni"), "a bare level is exactly the psABI level");
    }

    #[test]
    fn extras_by_short_and_full_name() {
        assert_eq!(required_by("x86-64-v4+vnni"), required_by("x86-64-v4+avx512vnni"));
        assert!(required_by("x86-64-v3+avxvnni+avxvnni").unwrap().iter().filter(|f| **f == "avxvnni").count() == 1);
        assert_eq!(required_by("x86-64-v3+flux"), None);
        assert_eq!(required_by("x86-64-v9"), None);
    }

    #[test]
    fn features_of_gpus() {
        let names = required_by_ptx(90, true, 80);
        assert_eq!(names, ["sm_90a", "ptx8.0"]);
        assert_eq!(gpu_feature(&names[0]), Some(GpuFeature::OnlyCapability(90)));
        let names = required_by_ptx(80, false, 70);
        assert_eq!(names, ["sm_80", "ptx7.0"]);
        assert_eq!(gpu_feature(&names[0]), Some(GpuFeature::Capability(80)));
        assert_eq!(gpu_feature(&names[1]), Some(GpuFeature::PtxVersion(70)));
        for other in ["avx2", "sm_", "sm_a", "sm_90f", "ptx7", "ptx7.12", "ptx99999999999.0"] {
            assert_eq!(gpu_feature(other), None, "{other}");
        }
    }

    #[test]
    fn architectures() {
        assert_eq!(arch_of("x86-64-v3+avxvnni"), Some("x86-64"));
        assert_eq!(arch_of("aarch64"), Some("aarch64"));
        assert_eq!(arch_of("cuda:sm_90"), Some("cuda"));
        assert_eq!(arch_of("x86-649"), None);
        assert_eq!(arch_of(""), None);
    }
}
