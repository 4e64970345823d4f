//! What this machine's processor can do, as targets name it.

use infc_artifact::features;
use infc_codegen_cpu::Target;
use infc_codegen_cpu::target::{Feature, Level};
use infc_runtime::{host_arch, host_has};

/// Whether this machine runs code for a target that needs these features.
pub(crate) fn runs<'a>(target: &str, required: impl IntoIterator<Item = &'a str>) -> bool {
    host_arch().is_some() && features::arch_of(target) == host_arch() && required.into_iter().all(host_has)
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
