//! Which records are meant.

use crate::commands::dims;
use crate::error::CliError;
use crate::failure::Failure;
use crate::process;
use infc::{CompileOptions, KernelKey, Phase, Source};
use infc_tune::{ChoiceRecord, Place, Proven, RecordFile};
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

/// What a record has to be like; all of what is given.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Of kernels, or questions of how kernels are formed, whose hash begins so
    #[arg(long, value_name = "HASH")]
    kernel: Option<String>,
    /// Of kernels that this model has, or questions that it asks, compiled with --strict where the record was found so
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
        let keys = self.keys_of_model(file)?;
        let processor = process::processor();
        let is_meant = |(key, of, machine, _, strict): Place<'_>, ratio_at_most: f64| {
            self.kernel.as_ref().is_none_or(|prefix| key.starts_with(&prefix.to_ascii_lowercase()))
                && keys.as_ref().is_none_or(|keys| keys[usize::from(strict)].contains(key))
                && target.as_ref().is_none_or(|target| of == *target)
                && (!self.here || machine == processor)
                && self.min_gain.is_none_or(|gain| 1.0 - ratio_at_most >= gain)
        };
        file.records.retain(|record| is_meant(record.place(), record.ratio_at_most));
        file.choices.retain(|choice| is_meant(choice.place(), choice.ratio_at_most));
        Ok(())
    }

    /// Those of kernels and of questions: of usual compilations, and of strict ones. Kernels are also those that the model has
    /// when it is formed as the records say.
    fn keys_of_model(&self, file: &RecordFile) -> Result<Option<[HashSet<String>; 2]>, Failure> {
        let Some(model) = &self.model else { return Ok(None) };
        let source = Source::file(model);
        let usual = CompileOptions {
            dims: self.dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
            specialize: self.specialize.iter().map(|text| dims::parse_specialize(text)).collect::<Result<_, _>>()?,
            lists_choices: true,
            stop_after: Some(Phase::Plan),
            ..CompileOptions::default()
        };
        let keys_of = |options: &CompileOptions, keys: &mut HashSet<String>| -> Result<(), Failure> {
            let compilation = infc::compile(&source, options, &mut ())?;
            let plans = compilation.plans();
            let kernels = infc::tasks(&plans).into_iter().map(|task| task.key);
            let choices = plans.iter().flat_map(|plan| &plan.log.choices);
            let questions = choices.map(|choice| KernelKey::of_text(&choice.question));
            keys.extend(kernels.chain(questions).map(|key| key.to_string()));
            Ok(())
        };
        let keys = |strict: bool| -> Result<HashSet<String>, Failure> {
            let mut keys = HashSet::new();
            keys_of(&CompileOptions { strict, ..usual.clone() }, &mut keys)?;
            // Choices of different machines and threads need not go together.
            let settled: BTreeSet<_> = file
                .choices
                .iter()
                .map(|choice| {
                    let (_, target, machine, threads, is_strict) = choice.place();
                    (target, machine, threads, is_strict)
                })
                .collect();
            for set in settled.into_iter().filter(|(.., is_strict)| *is_strict == strict) {
                let of_set = |choice: &&ChoiceRecord| {
                    let (_, target, machine, threads, is_strict) = choice.place();
                    (target, machine, threads, is_strict) == set
                };
                let choices = file.choices.iter().filter(of_set).cloned().collect();
                let records = RecordFile { choices, ..RecordFile::default() }.to_records(None);
                let targets = vec![set.0.to_owned()];
                keys_of(&CompileOptions { strict, targets, records, ..usual.clone() }, &mut keys)?;
            }
            Ok(keys)
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
