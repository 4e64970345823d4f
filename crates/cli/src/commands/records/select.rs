//! Which records are meant.

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
    /// Of kernels that this model has, with its dims as they are
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
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
                && keys.as_ref().is_none_or(|keys| keys.contains(&record.kernel))
                && target.as_ref().is_none_or(|target| record.target == *target)
                && (!self.here || record.machine == processor)
                && self.min_gain.is_none_or(|gain| 1.0 - record.ratio_at_most >= gain)
        });
        Ok(())
    }

    fn keys_of_model(&self) -> Result<Option<HashSet<String>>, Failure> {
        let Some(model) = &self.model else { return Ok(None) };
        let options = CompileOptions { stop_after: Some(Phase::Plan), ..CompileOptions::default() };
        let compilation = infc::compile(&Source::file(model), &options, &mut ())?;
        let tasks = infc::tasks(&compilation.plans());
        Ok(Some(tasks.into_iter().map(|task| task.key.to_string()).collect()))
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
