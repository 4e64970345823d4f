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
    /// Whether it has instructions that no later generation has.
    specific: bool,
}

impl Default for PtxTarget {
    /// `sm_80`, `.version 7.0`: every driver since 450.
    fn default() -> Self {
        Self { sm: 80, specific: false }
    }
}

/// The text names no supported GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GPU target: sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100 or sm_120")]
pub struct ParsePtxTargetError(String);

/// Compute capability, whether that alone, lowest PTX version, shared memory per block in KiB.
const TARGETS: &[(u16, bool, &str, u64)] = &[
    (75, false, "6.3", 64),
    (80, false, "7.0", 163),
    (86, false, "7.1", 99),
    (89, false, "7.8", 99),
    (90, false, "7.8", 227),
    // Groups multiply bytes with a sign by bytes without one from 8.4 on.
    (90, true, "8.4", 227),
    (100, false, "8.6", 227),
    (120, false, "8.7", 99),
];

/// From here on GPUs have what the backend's products of matrices take, asynchronous copies, extremes that keep NaN, and
/// conversions to bfloat16.
const AMPERE: u16 = 80;
/// The first that starts kernels before those before them have ended, and the only one whose warps multiply in groups.
const HOPPER: u16 = 90;

impl PtxTarget {
    fn row(self) -> &'static (u16, bool, &'static str, u64) {
        TARGETS.iter().find(|t| (t.0, t.1) == (self.sm, self.specific)).expect("only listed targets are made")
    }

    /// All targets, the oldest GPU first.
    pub fn all() -> impl Iterator<Item = Self> {
        TARGETS.iter().map(|target| Self { sm: target.0, specific: target.1 })
    }

    /// The compute capability, major·10 + minor.
    #[must_use]
    pub fn capability(self) -> u32 {
        u32::from(self.sm)
    }

    /// The `.version` of modules as a number, major·10 + minor.
    #[must_use]
    pub fn version_number(self) -> u32 {
        self.row().2.bytes().filter(u8::is_ascii_digit).fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    }

    /// The `.version` of modules.
    #[must_use]
    pub fn version(self) -> &'static str {
        self.row().2
    }

    /// Whether it multiplies matrices of the shapes that are printed, copies asynchronously, has extremes that keep NaN, and
    /// converts to bfloat16.
    ///
    /// Source: PTX ISA, "Target ISA notes" of `mma`, `cp.async`, `max` and `cvt`.
    #[must_use]
    pub fn is_ampere(self) -> bool {
        self.sm >= AMPERE
    }

    /// Whether GPUs of later generations do not run what is made for it: `sm_90a`.
    ///
    /// Source: PTX ISA, `.target`, "architecture-specific features".
    #[must_use]
    pub fn is_specific(self) -> bool {
        self.specific
    }

    /// Whether four warps multiply matrices together.
    ///
    /// Source: PTX ISA, "Target ISA notes" of `wgmma.mma_async`.
    #[must_use]
    pub fn multiplies_in_groups(self) -> bool {
        self.specific && self.sm == HOPPER
    }

    /// Whether kernels may begin before those before them have ended, for which they wait themselves (programmatic dependent
    /// launch).
    ///
    /// Source: PTX ISA, "Target ISA notes" of `griddepcontrol`.
    #[must_use]
    pub fn starts_early(self) -> bool {
        self.sm >= HOPPER
    }

    /// Whether GPUs of a compute capability, major·10 + minor, run what is made for it.
    #[must_use]
    pub fn runs_on(self, capability: u32) -> bool {
        if self.specific { capability == self.capability() } else { capability >= self.capability() }
    }

    /// Bytes of shared memory that one block may have.
    #[must_use]
    pub fn shared_limit_bytes(self) -> u64 {
        self.row().3 * 1024
    }
}

impl fmt::Display for PtxTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.specific { "a" } else { "" })
    }
}

impl FromStr for PtxTarget {
    type Err = ParsePtxTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::all().find(|target| target.to_string() == text).ok_or_else(|| ParsePtxTargetError(text.to_owned()))
    }
}
