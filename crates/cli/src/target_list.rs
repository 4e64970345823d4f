//! What `--target` of `compile` and `check` stands for.

use crate::error::CliError;
use crate::host::{self, Native};

/// Names of targets, and further ones that some models only are compiled for.
#[derive(Default)]
pub(crate) struct TargetList {
    pub(crate) targets: Vec<String>,
    pub(crate) byte_targets: Vec<String>,
    pub(crate) bf16_targets: Vec<String>,
    /// What `native` stood for.
    pub(crate) native: Option<Native>,
}

impl TargetList {
    /// `cpu`, `native`, and names of targets.
    ///
    /// # Errors
    /// If `native` is among them, and there is no code for this machine.
    pub(crate) fn of(texts: Vec<String>) -> Result<Self, CliError> {
        let mut list = Self::default();
        for text in texts {
            match text.as_str() {
                "cpu" => {
                    list.targets.extend(infc::DEFAULT_TARGETS.map(str::to_owned));
                    list.byte_targets = infc::BYTE_TARGETS.map(str::to_owned).to_vec();
                    list.bf16_targets = infc::BF16_TARGETS.map(str::to_owned).to_vec();
                }
                "native" => {
                    let found = host::native();
                    let found = found.ok_or_else(|| CliError::usage("infc makes no code for this machine"))?;
                    list.targets.push(found.target.to_string());
                    list.native = Some(found);
                }
                _ => list.targets.push(text),
            }
        }
        Ok(list)
    }
}
