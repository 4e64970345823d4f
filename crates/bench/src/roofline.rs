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
    /// Bytes per second written to the second-level cache, the third, and memory: less, since lines are read first.
    pub(crate) l2_write: f64,
    /// See `l2_write`.
    pub(crate) l3_write: f64,
    /// See `l2_write`.
    pub(crate) dram_write: f64,
}

/// What a kernel needs at least.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Demand {
    /// Vector instructions that its arithmetic takes at least, times the lanes of a vector. A multiply-add is 1.
    pub(crate) instructions: f64,
    /// The same with AVX-512, which has instructions of its own for what functions are expanded into.
    pub(crate) instructions_512: f64,
    /// Bytes read at least once.
    pub(crate) read_bytes: f64,
    /// Bytes written.
    pub(crate) written_bytes: f64,
}

impl Demand {
    /// Bytes read or written.
    #[must_use]
    pub(crate) fn bytes(&self) -> f64 {
        self.read_bytes + self.written_bytes
    }
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
    /// are started, or its bytes from where they lie and to there.
    #[must_use]
    pub(crate) fn bound(&self, bits: u32, demand: &Demand) -> f64 {
        let peak = if bits >= 512 { self.f32_fma_512 } else { self.f32_fma_256 };
        let (read, write) = if demand.bytes() < 1.5e6 {
            (self.l2, self.l2_write)
        } else if demand.bytes() < 24e6 {
            (self.l3, self.l3_write)
        } else {
            (self.dram, self.dram_write)
        };
        let instructions = if bits == 512 { demand.instructions_512 } else { demand.instructions };
        let arithmetic = instructions / (peak / 2.0);
        arithmetic.max(demand.bytes() / read).max(demand.written_bytes / write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_bounds() {
        let ceilings = Ceilings {
            f32_fma_256: 64.0,
            f32_fma_512: 128.0,
            l2: 8.0,
            l3: 4.0,
            dram: 2.0,
            l2_write: 4.0,
            l3_write: 2.0,
            dram_write: 1.0,
        };
        let bound = |bits, read_bytes, written_bytes| {
            ceilings.bound(bits, &Demand { instructions: 64.0, instructions_512: 64.0, read_bytes, written_bytes })
        };
        assert_eq!(bound(512, 0.0, 0.0), 1.0);
        assert_eq!(bound(256, 0.0, 0.0), 2.0);
        assert_eq!(bound(512, 24.0, 0.0), 3.0);
        assert_eq!(bound(512, 8.0, 16.0), 4.0);
    }
}
