//! What a GPU made of the small kernels, as a file: which GPU, driver and day, and a hash of each output.

use super::all;
use crate::device::Device;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file's name of its format.
const SCHEMA: &str = "infc.instructions/1";

/// What was recorded of a GPU.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    schema: String,
    /// The GPU.
    pub gpu: String,
    /// Its compute capability, major·10 + minor.
    pub capability: u32,
    /// The newest version of PTX that its driver took, major·10 + minor.
    pub ptx_version: u32,
    /// The day, as in 2026-11-25.
    pub date: String,
    /// Per instruction, a hash of what its kernel wrote (BLAKE3, the first 16 bytes).
    pub outputs: BTreeMap<String, String>,
}

/// What comes of holding a device to a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Instructions that do the same.
    pub same: usize,
    /// Those that do something else, with the hash that the device made, and why there is none.
    pub different: Vec<(String, String)>,
    /// Those that were not recorded.
    pub unknown: Vec<String>,
}

impl Record {
    /// Runs all small kernels that the GPU has instructions for; those that it refuses are told beside, with why.
    #[must_use]
    pub fn of(device: &Device, date: String) -> (Self, Vec<String>) {
        let gpu = device.gpu();
        let mut this = Self {
            schema: SCHEMA.to_owned(),
            gpu: gpu.name(),
            capability: gpu.capability(),
            ptx_version: gpu.ptx_version(),
            date,
            outputs: BTreeMap::new(),
        };
        let mut failed = Vec::new();
        for micro in all().into_iter().filter(|micro| micro.runs_on(gpu.capability())) {
            match micro.run(device) {
                Ok(output) => {
                    this.outputs.insert(micro.instruction, hash(&output));
                }
                Err(error) => failed.push(format!("{}: {error:#}", micro.instruction)),
            }
        }
        (this, failed)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self> {
        let this: Self = serde_json::from_str(text)?;
        ensure!(this.schema == SCHEMA, "`{}` is not `{SCHEMA}`", this.schema);
        Ok(this)
    }

    /// The text of its file.
    ///
    /// # Panics
    /// Never: all of it has a text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers");
        text.push('\n');
        text
    }

    /// Holds a device to it.
    #[must_use]
    pub fn compare(&self, device: &Device) -> Recorded {
        let mut found = Recorded::default();
        for micro in all() {
            match (self.outputs.get(&micro.instruction), micro.run(device)) {
                (None, _) => found.unknown.push(micro.instruction),
                (Some(expected), Ok(output)) if *expected == hash(&output) => found.same += 1,
                (Some(_), Ok(output)) => found.different.push((micro.instruction, hash(&output))),
                (Some(_), Err(error)) => found.different.push((micro.instruction, format!("{error:#}"))),
            }
        }
        found
    }
}

fn hash(output: &[u8]) -> String {
    blake3::hash(output).to_hex()[..32].to_owned()
}
