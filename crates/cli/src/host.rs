//! What this machine's processor can do, as targets name it, and what was measured of it.

use crate::process;
use infc::VariantTarget;
use infc_artifact::{Hash, features};
use infc_codegen_cpu::Target;
use infc_codegen_cpu::target::{Feature, Level, MachineModel};
use infc_runtime::{Gpu, host_arch, host_has, installed_gpu};
use infc_tune::{MachineProfile, PROFILE_BYTES};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether this machine runs code for a target that needs these features.
pub(crate) fn runs<'a>(target: &str, required: impl IntoIterator<Item = &'a str>) -> bool {
    host_arch().is_some() && features::arch_of(target) == host_arch() && required.into_iter().all(host_has)
}

/// Whether this machine runs code that the compiler makes for a target.
pub(crate) fn runs_target(target: &Target) -> bool {
    runs(&target.to_string(), target.required_features())
}

/// The GPU of this machine, or why there is none.
fn gpu() -> Result<Arc<dyn Gpu>, String> {
    crate::gpu::for_model().map_or_else(installed_gpu, Ok)
}

/// Fails with the reason if this machine does not run code that the compiler makes for a target.
pub(crate) fn check_runs(target: &VariantTarget) -> Result<(), String> {
    match target {
        VariantTarget::Cpu(cpu) if runs_target(cpu) => Ok(()),
        VariantTarget::Cpu(_) => Err("this machine does not run such code".to_owned()),
        VariantTarget::Cuda(generation) => {
            let gpu = gpu()?;
            if !generation.runs_on(gpu.capability()) {
                let reason =
                    if gpu.capability() < generation.capability() { "is older" } else { "is of another generation" };
                return Err(format!("`{}` {reason}", gpu.name()));
            }
            if gpu.ptx_version() < generation.version_number() {
                return Err(format!("the driver of `{}` is too old", gpu.name()));
            }
            Ok(())
        }
    }
}

/// What runs code for a target here, as records name where they were measured: the processor with its caches, or the GPU.
pub(crate) fn device(target: &VariantTarget) -> String {
    match target {
        VariantTarget::Cpu(_) => process::processor(),
        VariantTarget::Cuda(_) => gpu().map_or_else(
            |reason| reason,
            |gpu| format!("{}, compute capability {}.{}", gpu.name(), gpu.capability() / 10, gpu.capability() % 10),
        ),
    }
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

/// The target that is this machine alone, with what is known of the machine.
pub(crate) struct Native {
    /// Its machine is the profile's, or the target's fixed one if there is none.
    pub(crate) target: Target,
    pub(crate) profile: Profile,
}

/// Whether this machine was measured.
pub(crate) enum Profile {
    /// `infc tune` has measured it, and written that down here.
    Taken(PathBuf),
    /// There is a file, which is not taken for this reason.
    Refused(PathBuf, String),
    /// Nobody has measured it, or there is no place for profiles.
    None,
}

/// [`native_target`] with this machine's profile, if there is one.
pub(crate) fn native() -> Option<Native> {
    let target = native_target()?;
    let Some(path) = profile_path(&target).filter(|path| path.exists()) else {
        return Some(Native { target, profile: Profile::None });
    };
    Some(match read_profile(&path, &target) {
        Ok(profile) => Native { target: profile.applied_to(&target), profile: Profile::Taken(path) },
        Err(reason) => Native { target, profile: Profile::Refused(path, reason) },
    })
}

impl Native {
    /// The target and what was measured of the machine, as options of compilations name it.
    pub(crate) fn measured(&self) -> Option<(String, MachineModel)> {
        matches!(self.profile, Profile::Taken(_)).then(|| (self.target.to_string(), self.target.machine))
    }

    /// What is to be said of the profile.
    pub(crate) fn note(&self) -> Option<String> {
        match &self.profile {
            Profile::Taken(path) => Some(format!("measured: {}, in {}", self.target.machine, path.display())),
            Profile::Refused(path, reason) => Some(format!("machine profile not taken  {}: {reason}", path.display())),
            Profile::None => None,
        }
    }
}

/// Where the profile of this machine and a target lies: one file per kind of processor and target in the user's folder of
/// data, since home folders are shared by machines; `None` if the user has no such folder.
pub(crate) fn profile_path(target: &Target) -> Option<PathBuf> {
    let name = Hash::of(format!("{}\n{target}", process::processor()).as_bytes());
    let name: String = name.0[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Some(data_folder()?.join("infc").join("machines").join(format!("{name}.json")))
}

/// Where programs keep data of a user: `$XDG_DATA_HOME`, or what stands for it on the system.
fn data_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME");
    absolute("XDG_DATA_HOME").or_else(|| {
        if cfg!(windows) {
            absolute("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            Some(home()?.join("Library/Application Support"))
        } else {
            Some(home()?.join(".local/share"))
        }
    })
}

fn read_profile(path: &Path, target: &Target) -> Result<MachineProfile, String> {
    let mut text = String::new();
    // Of a pipe nobody would know when it ends.
    if !path.is_file() {
        return Err("expected a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(PROFILE_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > PROFILE_BYTES {
        return Err(format!("expected {PROFILE_BYTES} bytes at most, found more"));
    }
    MachineProfile::parse(&text, target, &process::processor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_a_target_that_it_runs() {
        if host_arch().is_some() {
            let native = native_target().unwrap();
            assert!(runs_target(&native), "{native}");
            assert_eq!(native.level(), best_level().unwrap().level());
        }
        assert!(!runs("cuda", []) && !runs("x86-64", ["flux"]));
    }
}
