//! What the machine can do at most, and what a kernel needs at least.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Ceilings of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// Multiply-add operations per second (one multiply-add is 2) with 256-bit vectors.
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
    /// Compiles and runs the ceilings program (C) with the system's compiler.
    ///
    /// # Errors
    /// If there is no compiler, or the program fails.
    pub(crate) fn measure(source: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("infc-ceilings-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let program = folder.join("ceilings");
        let compiled = Command::new("cc")
            .args(["-O3", "-march=native", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-lm")
            .status()
            .context("running the C compiler `cc`")?;
        anyhow::ensure!(compiled.success(), "{} does not compile", source.display());
        let output = Command::new(&program).output()?;
        std::fs::remove_dir_all(&folder)?;
        let json: Value = serde_json::from_slice(&output.stdout).context("the ceilings program prints JSON")?;
        let first = |path: &[&str]| {
            let mut at = &json;
            for key in path {
                at = &at[*key];
            }
            number(at).with_context(|| format!("ceiling {}", path.join(".")))
        };
        Ok(Self {
            f32_fma_256: first(&["compute_gops", "f32_fma_256"])? * 1e9,
            f32_fma_512: first(&["compute_gops", "f32_fma_512"])? * 1e9,
            l2: first(&["bandwidth_gb_per_s", "l2_512k_read"])? * 1e9,
            l3: first(&["bandwidth_gb_per_s", "l3_8m_read"])? * 1e9,
            dram: first(&["bandwidth_gb_per_s", "dram_256m_read"])? * 1e9,
        })
    }

    /// Seconds that a kernel takes at least: arithmetic at the peak, or its bytes from where they lie.
    #[must_use]
    pub(crate) fn bound(&self, bits: u32, operations: f64, bytes: f64) -> f64 {
        let peak = if bits >= 512 { self.f32_fma_512 } else { self.f32_fma_256 };
        let bandwidth = if bytes < 1.5e6 {
            self.l2
        } else if bytes < 24e6 {
            self.l3
        } else {
            self.dram
        };
        (operations / peak).max(bytes / bandwidth)
    }
}

/// The one-core figure, whether it is given alone, first of a list, or by name.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.get(0)?.as_f64()).or_else(|| {
        let object = value.as_object()?;
        ["1", "one", "one_core", "1_core", "1 core", "single"].iter().find_map(|k| object.get(*k)?.as_f64())
    })
}
