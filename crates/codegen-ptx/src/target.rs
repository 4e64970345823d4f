//! GPU generations.

use std::fmt;
use std::str::FromStr;

/// What a module is made for: the `.target` and the lowest `.version` that has what this backend prints.
///
/// A module runs on its generation and, unless it is architecture-specific, on every later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PtxTarget {
    /// Compute capability, major·10 + minor.
    sm: u16,
}

impl Default for PtxTarget {
    /// `sm_80`, `.version 7.0`: every driver since 450.
    fn default() -> Self {
        Self { sm: 80 }
    }
}

/// The text names no supported GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GPU target: sm_75, sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120")]
pub struct ParsePtxTargetError(String);

/// Compute capability, lowest PTX version, shared memory per block in KiB.
const TARGETS: &[(u16, &str, u64)] = &[
    (75, "6.3", 64),
    (80, "7.0", 163),
    (86, "7.1", 99),
    (89, "7.8", 99),
    (90, "7.8", 227),
    (100, "8.6", 227),
    (120, "8.7", 99),
];

/// From here on GPUs have what the backend's products of matrices take, asynchronous copies, extremes that keep NaN, and
/// conversions to bfloat16.
const AMPERE: u16 = 80;

impl PtxTarget {
    fn row(self) -> &'static (u16, &'static str, u64) {
        TARGETS.iter().find(|t| t.0 == self.sm).expect("only listed targets are made")
    }

    /// All targets, the oldest GPU first.
    pub fn all() -> impl Iterator<Item = Self> {
        TARGETS.iter().map(|target| Self { sm: target.0 })
    }

    /// The compute capability, major·10 + minor.
    #[must_use]
    pub fn capability(self) -> u32 {
        u32::from(self.sm)
    }

    /// The `.version` of modules as a number, major·10 + minor.
    #[must_use]
    pub fn version_number(self) -> u32 {
        self.row().1.bytes().filter(u8::is_ascii_digit).fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    }

    /// The `.version` of modules.
    #[must_use]
    pub fn version(self) -> &'static str {
        self.row().1
    }

    /// Whether it multiplies matrices of the shapes that are printed, copies asynchronously, has extremes that keep NaN, and
    /// converts to bfloat16.
    ///
    /// Source: PTX ISA, "Target ISA notes" of `mma`, `cp.async`, `max` and `cvt`.
    #[must_use]
    pub fn is_ampere(self) -> bool {
        self.sm >= AMPERE
    }

    /// Bytes of shared memory that one block may have.
    #[must_use]
    pub fn shared_limit_bytes(self) -> u64 {
        self.row().2 * 1024
    }
}

impl fmt::Display for PtxTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.sm)
    }
}

impl FromStr for PtxTarget {
    type Err = ParsePtxTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sm = text.strip_prefix("sm_").and_then(|n| n.parse().ok());
        sm.and_then(|sm| TARGETS.iter().find(|t| t.0 == sm))
            .map(|t| Self { sm: t.0 })
            .ok_or_else(|| ParsePtxTargetError(text.to_owned()))
    }
}
