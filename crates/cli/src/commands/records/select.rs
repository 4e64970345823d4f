//! Which records are meant.

use crate::commands::dims;
use crate::error::CliError;
use crate::failure::Failure;
use crate::process;
use infc::{CompileOptions, Phase, Source};
use infc_tune::RecordFile;
use std::collections::HashSet;
use std::path::PathBuf;

/// What a record has to be like; all of what is given.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Of kernels whose hash begins so
    #[arg(long, value_name = "HASH")]
    kernel: Option<String>,
    /// Of kernels that this model has, compiled with --strict where the record was found so
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// A dynamic dim of the model: its value, or its range with both ends, as it is compiled
    #[arg(long, value_name = "SYM=A..B", requires = "model")]
    dim: Vec<String>,
    /// Values of a dynamic dim that the model is compiled for with --specialize
    #[arg(long, value_name = "SYM=V,V", requires = "model")]
    specialize: Vec<String>,
    /// For this target
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Measured on this machine
    #[arg(long)]
    here: bool,
    /// That are quicker than the default choice by so much at least, at the lower end of the 95 % interval
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    min_gain: Option<f64>,
}

/// `5%` or `5` as 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let share = number.ok().map(|number| number / 100.0).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a part such as 5%".to_owned())
}

impl Selection {
    /// Keeps what is meant.
    pub(super) fn apply(&self, file: &mut RecordFile) -> Result<(), Failure> {
        let target = self.target.as_ref().map(|text| match text.parse::<infc::Target>() {
            Ok(target) => Ok(target.to_string()),
            Err(error) => Err(CliError::usage(format!("--target {text}: {error}"))),
        });
        let target = target.transpose()?;
        let keys = self.keys_of_model()?;
        let processor = process::processor();
        file.records.retain(|record| {
            self.kernel.as_ref().is_none_or(|prefix| record.kernel.starts_with(&prefix.to_ascii_lowercase()))
                && keys.as_ref().is_none_or(|keys| keys[usize::from(record.strict)].contains(&record.kernel))
                && target.as_ref().is_none_or(|target| record.target == *target)
                && (!self.here || record.machine == processor)
                && self.min_gain.is_none_or(|gain| 1.0 - record.ratio_at_most >= gain)
        });
        Ok(())
    }

    /// Those of usual compilations, and those of strict ones.
    fn keys_of_model(&self) -> Result<Option<[HashSet<String>; 2]>, Failure> {
        let Some(model) = &self.model else { return Ok(None) };
        let keys = |strict: bool| -> Result<HashSet<String>, Failure> {
            let options = CompileOptions {
                dims: self.dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
                specialize: self
                    .specialize
                    .iter()
                    .map(|text| dims::parse_specialize(text))
                    .collect::<Result<_, _>>()?,
                strict,
                stop_after: Some(Phase::Plan),
                ..CompileOptions::default()
            };
            let compilation = infc::compile(&Source::file(model), &options, &mut ())?;
            let tasks = infc::tasks(&compilation.plans());
            Ok(tasks.into_iter().map(|task| task.key.to_string()).collect())
        };
        Ok(Some([keys(false)?, keys(true)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        assert_eq!((percent("5%"), percent("2.5"), percent("0 %")), (Ok(0.05), Ok(0.025), Ok(0.0)));
        assert!(percent("-1%").is_err() && percent("100%").is_err() && percent("many").is_err());
    }
}
