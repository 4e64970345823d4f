//! Which variant of an artifact this machine runs, and why not a better one.

use crate::code::HOST_ARCH;
use crate::error::RuntimeError;
use crate::gpu::{self, Gpu};
use crate::model::LoadOptions;
use infc_artifact::features::GpuFeature;
use infc_artifact::{ArtifactError, VariantInfo, features};
use std::sync::Arc;

/// The outcome of choosing a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Index of the variant in the manifest.
    pub variant: usize,
    /// Its target.
    pub target: String,
    /// The variants before it (better ones), which were passed over.
    pub skipped: Vec<Skipped>,
    /// Of a variant for GPUs, what the GPU runs.
    pub gpu: Option<GpuSelection>,
}

/// What a GPU runs of a variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSelection {
    /// What the GPU is called.
    pub name: String,
    /// Its compute capability, major·10 + minor.
    pub capability: u32,
    /// It runs machine code from the artifact; otherwise the driver has translated PTX.
    pub is_machine_code: bool,
    /// Why machine code that the artifact has for it was not taken.
    pub refused: Option<String>,
    /// Why the driver did not take the PTX of all kernels together, though it took that of each alone, which takes longer.
    pub refused_together: Option<String>,
}

/// A variant that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its target.
    pub target: String,
    /// Why, as a phrase: `needs avx512f, which this processor lacks`.
    pub reason: String,
}

/// Chooses the first variant that this machine can run, or the one for [`LoadOptions::target`].
///
/// Gives the GPU, too, if the variant is for one.
pub(crate) fn select(variants: &[VariantInfo], options: &LoadOptions) -> Result<Chosen, RuntimeError> {
    let Some(arch) = HOST_ARCH else {
        return Err(RuntimeError::UnsupportedHost { found: std::env::consts::ARCH.to_owned() });
    };
    let gpus = Gpus { gpu: &|| options.gpu.clone().map_or_else(gpu::installed_gpu, Ok), allow_cpu: options.allow_cpu };
    select_on(variants, options.target.as_deref(), arch, &host_has, gpus)
}

/// The same where the GPU that was chosen has failed while this target's variant was loaded; `None` if there is no code for the
/// processor.
pub(crate) fn without_gpu(
    variants: &[VariantInfo],
    options: &LoadOptions,
    (target, error): (&str, &RuntimeError),
) -> Option<Chosen> {
    let gpus = Gpus { gpu: &|| Err(error.to_string()), allow_cpu: true };
    let (mut selection, gpu) = select_on(variants, options.target.as_deref(), HOST_ARCH?, &host_has, gpus).ok()?;
    let tried = selection.skipped.iter_mut().filter(|skipped| skipped.target == target);
    tried.for_each(|skipped| skipped.reason = error.to_string());
    Some((selection, gpu))
}

/// The outcome of choosing, with the GPU that is to run the variant.
pub(crate) type Chosen = (Selection, Option<Arc<dyn Gpu>>);

/// What there is besides the processor.
#[derive(Clone, Copy)]
struct Gpus<'g> {
    /// Looked for only if a variant is for GPUs.
    gpu: &'g dyn Fn() -> Result<Arc<dyn Gpu>, String>,
    /// Whether the processor may do what was compiled for GPUs, too.
    allow_cpu: bool,
}

fn select_on(
    variants: &[VariantInfo],
    wanted: Option<&str>,
    arch: &str,
    has: &dyn Fn(&str) -> bool,
    gpus: Gpus<'_>,
) -> Result<Chosen, RuntimeError> {
    let targets = || list(variants.iter().map(|v| v.target.as_str()));
    let mut skipped = Vec::new();
    for (variant, info) in variants.iter().enumerate() {
        let is_for_gpus = features::arch_of(&info.target) == Some("cuda");
        let is_wanted = |wanted: &str| wanted == info.target || (wanted == "cuda" && is_for_gpus);
        if !wanted.is_none_or(is_wanted) {
            continue;
        }
        let found = if is_for_gpus { runs_on(info, (gpus.gpu)()).map(Some) } else { obstacle(info, arch, has) };
        let reason = match found {
            Ok(gpu) => return Ok((Selection { variant, target: info.target.clone(), skipped, gpu: None }, gpu)),
            Err(reason) => reason,
        };
        // What is made for older GPUs stands behind.
        let is_last = !variants[variant + 1..].iter().any(|other| features::arch_of(&other.target) == Some("cuda"));
        let is_named = wanted.is_some_and(|wanted| wanted == info.target || is_last);
        if is_for_gpus && ((is_last && !gpus.allow_cpu) || is_named) {
            let has_cpu_code = variants.iter().any(|other| features::arch_of(&other.target) == Some(arch));
            return Err(RuntimeError::NoGpu { target: info.target.clone(), reason, has_cpu_code });
        }
        skipped.push(Skipped { target: info.target.clone(), reason });
    }
    let error = match (wanted, skipped.last()) {
        (Some(wanted), None) => ArtifactError::NoSuchTarget { wanted: wanted.to_owned(), available: targets() },
        (_, Some(last)) => ArtifactError::WrongTarget {
            available: targets(),
            machine: match features::arch_of(&last.target) {
                Some("cuda") => format!("cannot run {}: {}", last.target, last.reason),
                _ => format!("cannot run {}: it {}", last.target, last.reason),
            },
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

/// Fails with the reason if the processor cannot run a variant; it needs no GPU.
fn obstacle(info: &VariantInfo, arch: &str, has: &dyn Fn(&str) -> bool) -> Result<Option<Arc<dyn Gpu>>, String> {
    if features::arch_of(&info.target) != Some(arch) {
        return Err(format!("is not for this architecture, {arch}"));
    }
    let mut missing = info.required_features.iter().map(String::as_str).filter(|feature| !has(feature)).peekable();
    if missing.peek().is_none() {
        return Ok(None);
    }
    Err(format!("needs {}, which this processor lacks", list(missing)))
}

/// The GPU if it runs a variant, else why it does not, or why there is none.
fn runs_on(info: &VariantInfo, gpu: Result<Arc<dyn Gpu>, String>) -> Result<Arc<dyn Gpu>, String> {
    let needs = info.required_features.iter().map(|name| (name, features::gpu_feature(name)));
    let gpu = gpu.map_err(|reason| {
        let driver = needs.clone().find_map(|(_, feature)| match feature {
            Some(GpuFeature::PtxVersion(version)) => Some(driver_for(version)),
            _ => None,
        });
        let driver = driver.unwrap_or_else(|| "its driver".to_owned());
        format!("{reason}; it needs an NVIDIA GPU with {driver}")
    })?;
    let obstacle = needs.clone().find_map(|(name, feature)| match feature {
        Some(GpuFeature::Capability(needed)) if gpu.capability() >= needed => None,
        Some(GpuFeature::OnlyCapability(needed)) if gpu.capability() == needed => None,
        Some(GpuFeature::PtxVersion(needed)) if gpu.ptx_version() >= needed => None,
        Some(GpuFeature::Capability(needed)) => Some(format!(
            "`{}` has compute capability {}, it needs {}",
            gpu.name(),
            decimal(gpu.capability()),
            decimal(needed)
        )),
        Some(GpuFeature::OnlyCapability(needed)) => Some(format!(
            "`{}` has compute capability {}, it runs on {} alone",
            gpu.name(),
            decimal(gpu.capability()),
            decimal(needed)
        )),
        Some(GpuFeature::PtxVersion(needed)) => {
            Some(format!("the driver of `{}` is too old, it needs {}", gpu.name(), driver_for(needed)))
        }
        None => Some(format!("it needs {name}, which this version of infc does not know")),
    });
    obstacle.map_or(Ok(gpu), Err)
}

fn decimal(tenths: u32) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The first driver for Linux that knows a version of the PTX instruction set.
///
/// Source: PTX ISA, release notes (version and CUDA release); CUDA release notes, "CUDA Toolkit and Corresponding Driver
/// Versions".
fn driver_for(ptx_version: u32) -> String {
    // Of the versions that modules are made for (`codegen-ptx`).
    // Those before 450 know 6.3 and lack functions that the runtime calls.
    const DRIVERS: [(u32, u32); 7] = [(63, 450), (70, 450), (71, 455), (78, 520), (84, 550), (86, 565), (87, 570)];
    let known = DRIVERS.iter().find(|(version, _)| *version == ptx_version);
    let ptx = decimal(ptx_version);
    known.map_or_else(
        || format!("a driver for PTX {ptx}"),
        |(_, driver)| format!("driver {driver} or newer (PTX {ptx})"),
    )
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

/// Features of tile registers, which the standard library does not detect yet, and their bits in register `edx` of leaf 7 of
/// `cpuid`.
#[cfg(target_arch = "x86_64")]
const TILE_FEATURES: [(&str, u32); 3] = [("amx-bf16", 22), ("amx-tile", 24), ("amx-int8", 25)];

#[cfg(target_arch = "x86_64")]
fn has_tile_feature(bit: u32) -> bool {
    const LEAF: u32 = 7;
    let knows_leaf = std::arch::x86_64::__cpuid(0).eax >= LEAF;
    let has = |bit: u32| knows_leaf && std::arch::x86_64::__cpuid_count(LEAF, 0).edx >> bit & 1 == 1;
    has(bit) && crate::os::may_use_tiles()
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
    if let Some(bit) = TILE_FEATURES.iter().find(|(name, _)| *name == feature).map(|&(_, bit)| bit) {
        return has_tile_feature(bit);
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

    const NO_GPU: Gpus<'_> = Gpus { gpu: &|| Err("none".to_owned()), allow_cpu: false };

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
        let (selection, gpu) = select_on(&variants, None, "x86-64", &|f| v3.contains(&f), NO_GPU).unwrap();
        assert!(gpu.is_none());
        assert_eq!((selection.variant, selection.target.as_str()), (1, "x86-64-v3"));
        assert!(selection.skipped[0].reason.contains("needs avx512f"), "{selection:?}");
    }

    #[test]
    fn a_wish_is_kept_or_refused() {
        let variants = ["x86-64-v4", "x86-64-v3"].map(variant);
        let all = |_: &str| true;
        assert_eq!(select_on(&variants, Some("x86-64-v3"), "x86-64", &all, NO_GPU).unwrap().0.variant, 1);
        let error = select_on(&variants, Some("x86-64-v2"), "x86-64", &all, NO_GPU).unwrap_err();
        assert_eq!(error.code(), "artifact::no-such-target");
        let error = select_on(&variants, Some("x86-64-v4"), "x86-64", &|_| false, NO_GPU).unwrap_err();
        assert_eq!(error.code(), "artifact::wrong-target");
    }

    #[test]
    fn another_architecture_is_the_wrong_target() {
        for variants in [vec![variant("aarch64")], vec![]] {
            let error = select_on(&variants, None, "x86-64", &|_| true, NO_GPU).unwrap_err();
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
