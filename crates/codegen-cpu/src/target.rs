//! What code is made for.
//!
//! A [`Target`] is an architecture level with features on top, written `x86-64-v4+vnni+bf16`. A bare level is exactly
//! the level of the psABI. Named targets have fixed machine models: nothing here asks the machine it runs on, so the
//! same target gives the same code everywhere. Whoever has measured a machine replaces [`Target::machine`].

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// An architecture level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// SSE4.2, POPCNT.
    X86V2,
    /// AVX2, FMA, F16C, BMI2.
    X86V3,
    /// AVX-512 F, BW, CD, DQ, VL.
    X86V4,
    /// ARMv8-A with Advanced SIMD.
    Aarch64,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 4] = [Level::X86V2, Level::X86V3, Level::X86V4, Level::Aarch64];

    const fn name(self) -> &'static str {
        match self {
            Level::X86V2 => "x86-64-v2",
            Level::X86V3 => "x86-64-v3",
            Level::X86V4 => "x86-64-v4",
            Level::Aarch64 => "aarch64",
        }
    }
}

/// An extension on top of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// AVX512-VNNI: byte dot products of AVX-512.
    Vnni,
    /// AVX-VNNI: byte dot products without AVX-512.
    AvxVnni,
    /// AVX512-BF16.
    Bf16,
    /// Intel AMX: products of matrices of bytes and of bfloat16 numbers.
    Amx,
}

impl Feature {
    /// All features, in the order they are written in.
    pub const ALL: [Feature; 4] = [Feature::Vnni, Feature::AvxVnni, Feature::Bf16, Feature::Amx];

    const fn name(self) -> &'static str {
        match self {
            Feature::Vnni => "vnni",
            Feature::AvxVnni => "avxvnni",
            Feature::Bf16 => "bf16",
            Feature::Amx => "amx",
        }
    }

    /// Whether the feature extends a level.
    const fn extends(self, level: Level) -> bool {
        match self {
            Feature::Vnni | Feature::Bf16 | Feature::Amx => matches!(level, Level::X86V4),
            Feature::AvxVnni => matches!(level, Level::X86V3 | Level::X86V4),
        }
    }

    /// How the processor calls it.
    const fn cpuid_names(self) -> &'static [&'static str] {
        match self {
            Feature::Vnni => &["avx512vnni"],
            Feature::AvxVnni => &["avxvnni"],
            Feature::Bf16 => &["avx512bf16"],
            Feature::Amx => &["amx-tile", "amx-int8", "amx-bf16"],
        }
    }
}

/// What schedules and cost models are told about a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineModel {
    /// First-level data cache of a core.
    pub l1d_bytes: u64,
    /// Second-level cache of a core.
    pub l2_bytes: u64,
    /// Last-level cache, a core's share.
    pub l3_bytes: u64,
    /// Architectural vector registers.
    pub vector_regs: u32,
    /// Width of a vector register.
    pub vector_bits: u32,
    /// Fused multiply-adds of full width started per cycle.
    pub fma_per_cycle: u32,
    /// Vector loads of full width per cycle.
    pub loads_per_cycle: u32,
    /// Cycles from a fused multiply-add to the next that needs its result.
    pub fma_latency: u32,
    /// Bytes per cycle that the second-level cache delivers, sustained.
    pub l2_bytes_per_cycle: u32,
    /// Bytes per cycle from beyond the second-level cache, sustained.
    pub l3_bytes_per_cycle: u32,
}

/// What does not follow from a target: caches, what begins in a cycle, how long a multiply-add takes, what caches deliver.
impl Display for MachineModel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { l1d_bytes, l2_bytes, l3_bytes, fma_per_cycle, loads_per_cycle, fma_latency, .. } = self;
        let (l2, l3) = (self.l2_bytes_per_cycle, self.l3_bytes_per_cycle);
        write!(f, "L1 {} KiB, L2 {} KiB, L3 {} KiB", l1d_bytes >> 10, l2_bytes >> 10, l3_bytes >> 10)?;
        write!(f, ", {fma_per_cycle} multiply-adds of {fma_latency} cycles and {loads_per_cycle} loads a cycle")?;
        write!(f, ", {l2} and {l3} bytes a cycle from L2 and beyond")
    }
}

/// What code is made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    level: Level,
    /// Sorted, without repetition.
    features: Vec<Feature>,
    /// The machine that schedules have in mind.
    pub machine: MachineModel,
    /// Whether subnormal numbers may become zero where numbers are rounded to bfloat16; they are kept otherwise, which takes
    /// more than the instruction.
    pub flush_bf16: bool,
}

impl Target {
    /// A bare level.
    #[must_use]
    pub fn new(level: Level) -> Self {
        let (vector_regs, vector_bits, loads_per_cycle) = match level {
            Level::X86V2 => (16, 128, 2),
            Level::X86V3 => (16, 256, 2),
            Level::X86V4 => (32, 512, 2),
            Level::Aarch64 => (32, 128, 2),
        };
        let machine = MachineModel {
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            l3_bytes: 2 << 20,
            vector_regs,
            vector_bits,
            fma_per_cycle: 2,
            loads_per_cycle,
            fma_latency: 4,
            // Sustained, not the width of the path: what streaming loops reach on server cores of the last years.
            l2_bytes_per_cycle: 24,
            l3_bytes_per_cycle: 16,
        };
        Self { level, features: Vec::new(), machine, flush_bf16: false }
    }

    /// With a feature added.
    ///
    /// # Errors
    /// If the feature does not extend the level.
    pub fn with(mut self, feature: Feature) -> Result<Self, ParseTargetError> {
        if !feature.extends(self.level) {
            return Err(ParseTargetError::FeatureOfOtherLevel { feature: feature.name(), level: self.level.name() });
        }
        if let Err(at) = self.features.binary_search(&feature) {
            self.features.insert(at, feature);
        }
        Ok(self)
    }

    /// Without a feature.
    #[must_use]
    pub fn without(mut self, feature: Feature) -> Self {
        self.features.retain(|own| *own != feature);
        self
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The features beyond the level.
    #[must_use]
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Whether the target has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The lanes of a full vector of elements of so many bytes.
    #[must_use]
    pub const fn lanes(&self, elem_bytes: u32) -> u32 {
        self.machine.vector_bits / 8 / elem_bytes
    }

    /// What a machine must have to run the code, by the processor's names, the level's features included.
    #[must_use]
    pub fn required_features(&self) -> Vec<&'static str> {
        const V2: [&str; 6] = ["cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"];
        const V3: [&str; 8] = ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"];
        const V4: [&str; 5] = ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];
        let mut names = Vec::new();
        if self.level == Level::Aarch64 {
            names.push("neon");
        } else {
            names.extend(V2);
        }
        if matches!(self.level, Level::X86V3 | Level::X86V4) {
            names.extend(V3);
        }
        if self.level == Level::X86V4 {
            names.extend(V4);
        }
        names.extend(self.features.iter().flat_map(|feature| feature.cpuid_names()));
        names
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        self.features.iter().try_for_each(|feature| write!(f, "+{}", feature.name()))
    }
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseTargetError {
    /// The part before the first `+`.
    #[error("unknown architecture `{found}`; known are x86-64-v2, x86-64-v3, x86-64-v4 and aarch64")]
    UnknownLevel {
        /// What was found.
        found: String,
    },
    /// A part after a `+`.
    #[error("unknown feature `{found}`; known are vnni, avxvnni, bf16 and amx")]
    UnknownFeature {
        /// What was found.
        found: String,
    },
    /// The level does not have such a feature.
    #[error("feature `{feature}` does not extend {level}")]
    FeatureOfOtherLevel {
        /// Which feature.
        feature: &'static str,
        /// Which level.
        level: &'static str,
    },
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let level = Level::ALL.into_iter().find(|level| level.name() == name);
        let level = level.ok_or_else(|| ParseTargetError::UnknownLevel { found: name.to_owned() })?;
        parts.try_fold(Target::new(level), |target, part| {
            let feature = Feature::ALL.into_iter().find(|feature| feature.name() == part);
            target.with(feature.ok_or_else(|| ParseTargetError::UnknownFeature { found: part.to_owned() })?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_print_in_canonical_order_and_parse_back() {
        let target: Target = "x86-64-v4+bf16+vnni+bf16".parse().expect("a known target");
        assert_eq!(target.to_string(), "x86-64-v4+vnni+bf16");
        assert_eq!(target.to_string().parse(), Ok(target));
    }

    #[test]
    fn wrong_targets_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Target>().expect_err("not a target").to_string();
        assert!(error("x86-64").contains("unknown architecture `x86-64`"));
        assert!(error("x86-64-v3+fast").contains("unknown feature `fast`"));
        assert!(error("x86-64-v2+vnni").contains("does not extend x86-64-v2"));
    }

    #[test]
    fn requirements_grow_with_the_level() {
        let names = |text: &str| text.parse::<Target>().expect("a known target").required_features();
        assert!(!names("x86-64-v3").contains(&"avx512f"));
        assert!(names("x86-64-v4+vnni").ends_with(&["avx512vl", "avx512vnni"]));
        assert!(names("x86-64-v4").starts_with(&names("x86-64-v3")));
    }
}
