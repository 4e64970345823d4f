//! What the machine can do at most, and what a kernel needs at least.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// Measures the ceilings; in C, since it wants instructions by name.
const PROGRAM: &str = include_str!("ceilings.c");

/// Ceilings of one core.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ceilings {
    /// Multiply-add operations per second (one multiply-add is 2) with 256-bit vectors; 0 without them.
    pub(crate) f32_fma_256: f64,
    /// The same with 512-bit vectors.
    pub(crate) f32_fma_512: f64,
    /// Bytes per second read from the second-level cache, the third, and memory.
    pub(crate) l2: f64,
    /// See `l2`.
    pub(crate) l3: f64,
    /// See `l2`.
    pub(crate) dram: f64,
}

impl Ceilings {
    /// Compiles and runs the ceilings program with the system's C compiler.
    ///
    /// # Errors
    /// If there is no compiler, or the program fails.
    pub(crate) fn measure() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("infc-ceilings-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let measured = Self::measure_in(&folder);
        std::fs::remove_dir_all(&folder)?;
        measured
    }

    fn measure_in(folder: &Path) -> Result<Self> {
        let (source, program) = (folder.join("ceilings.c"), folder.join("ceilings"));
        std::fs::write(&source, PROGRAM)?;
        let compiled = Command::new("cc")
            .args(["-O3", "-march=native", "-o"])
            .arg(&program)
            .arg(&source)
            .status()
            .context("running the C compiler `cc`")?;
        anyhow::ensure!(compiled.success(), "ceilings.c does not compile");
        let output = Command::new(&program).output()?;
        anyhow::ensure!(output.status.success(), "the ceilings program failed: {}", output.status);
        serde_json::from_slice(&output.stdout).context("the ceilings program prints JSON")
    }

    /// Seconds that a kernel takes at least: its vector instructions (times lanes) at the rate at which multiply-adds
    /// are started, or its bytes from where they lie.
    #[must_use]
    pub(crate) fn bound(&self, bits: u32, instructions: f64, bytes: f64) -> f64 {
        let peak = if bits >= 512 { self.f32_fma_512 } else { self.f32_fma_256 };
        let bandwidth = if bytes < 1.5e6 {
            self.l2
        } else if bytes < 24e6 {
            self.l3
        } else {
            self.dram
        };
        (instructions / (peak / 2.0)).max(bytes / bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_bounds() {
        let ceilings = Ceilings { f32_fma_256: 64.0, f32_fma_512: 128.0, l2: 8.0, l3: 4.0, dram: 2.0 };
        assert_eq!(ceilings.bound(512, 64.0, 0.0), 1.0);
        assert_eq!(ceilings.bound(256, 64.0, 0.0), 2.0);
        assert_eq!(ceilings.bound(512, 64.0, 24.0), 3.0);
    }
}
