//! The names by which a code variant states what the processor must have.
//!
//! The names are those of rustc's `target_feature`. They are part of the file format: never rename one. A runtime that
//! meets a name it does not know treats the feature as missing, so new names need no new format version.

/// What the x86-64-v2 level of the psABI adds to the baseline (SSE2) and a kernel may rely on.
const V2: &[&str] = &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b"];
/// What v3 adds to v2.
const V3: &[&str] = &["avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "movbe"];
/// What v4 adds to v3.
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// Features beyond a psABI level: the short name in a target (`x86-64-v4+vnni`) and the feature's own.
const X86_EXTRAS: &[(&str, &str)] = &[
    ("vnni", "avx512vnni"),
    ("bf16", "avx512bf16"),
    ("fp16", "avx512fp16"),
    ("vbmi", "avx512vbmi"),
    ("vbmi2", "avx512vbmi2"),
    ("ifma", "avx512ifma"),
    ("bitalg", "avx512bitalg"),
    ("vpopcntdq", "avx512vpopcntdq"),
    ("avxvnni", "avxvnni"),
    ("gfni", "gfni"),
];

/// Features of 64-bit ARM; NEON is its baseline.
const AARCH64_EXTRAS: &[(&str, &str)] =
    &[("fp16", "fp16"), ("dotprod", "dotprod"), ("i8mm", "i8mm"), ("bf16", "bf16"), ("sve", "sve"), ("sve2", "sve2")];

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
        let &(_, feature) = table.iter().find(|(short, feature)| *short == extra || *feature == extra)?;
        if !features.contains(&feature) {
            features.push(feature);
        }
    }
    Some(features)
}

/// Every feature name the format knows.
#[must_use]
pub fn all() -> Vec<&'static str> {
    let extras = X86_EXTRAS.iter().chain(AARCH64_EXTRAS).map(|&(_, feature)| feature);
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
    fn architectures() {
        assert_eq!(arch_of("x86-64-v3+avxvnni"), Some("x86-64"));
        assert_eq!(arch_of("aarch64"), Some("aarch64"));
        assert_eq!(arch_of("cuda:sm_90"), Some("cuda"));
        assert_eq!(arch_of("x86-649"), None);
        assert_eq!(arch_of(""), None);
    }
}
