//! `infc run ART`.

use crate::console::{Console, Style};
use crate::convert::to_f64;
use crate::failure::{Exit, Failure};
use crate::inputs::{DataSet, InputArgs, Missing};
use crate::model_file::{self, LoadArgs};
use crate::npz;
use crate::special_case;
use crate::stats::millis;
use crate::tables;
use infc_runtime::{RunOptions, Session, SessionOptions};
use infc_tensor::Tensor;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Elements of an output that are printed.
const SHOWN: usize = 6;

/// Run an artifact
///
/// Prints a summary of its outputs; --save-output keeps them. States, which need not be given, are carried from one data
/// set to the next.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc run digits.infa --data test_data_set_0\n  \
                        infc run digits.infa --random --save-output out.npz")]
pub(crate) struct RunArgs {
    /// The artifact, or - for standard input
    artifact: PathBuf,
    /// The entry to run, if the artifact has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Write all outputs to a NumPy archive
    #[arg(long, value_name = "OUT.npz")]
    save_output: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    artifact: String,
    variant: String,
    data_sets: Vec<DataSetReport>,
}

#[derive(Serialize)]
struct DataSetReport {
    name: Option<String>,
    /// The dims and values that what ran is made for; `None` if it takes all.
    special_case: Option<String>,
    run_ms: f64,
    outputs: Vec<OutputReport>,
}

/// What is told of an output.
#[derive(Serialize)]
struct OutputReport {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    /// Of the elements that are numbers; `None` of none.
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    nan: usize,
    first: Vec<f64>,
    /// The first elements of text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    strings: Vec<String>,
    /// Of a sequence or an optional; the keys and values of a map.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<OutputReport>,
}

pub(crate) fn run(arguments: RunArgs, console: &Console) -> Result<Exit, Failure> {
    let RunArgs { artifact, entry, save_output, inputs, load } = arguments;
    let inputs = inputs.resolve()?;
    let model = model_file::open(&artifact, &load.options(), console)?;
    let mut session = model.session(&SessionOptions { entry, ..SessionOptions::default() })?;
    let sets = inputs.load(session.entry(), Missing::Refuse, console)?;
    let options = RunOptions { flush_denormals: load.ftz, ..RunOptions::default() };

    let mut reports = Vec::with_capacity(sets.len());
    let mut saved: Vec<(String, Tensor)> = Vec::new();
    for set in &sets {
        let started = Instant::now();
        let outputs = run_one(&mut session, set, &options)?;
        let run_ms = millis(started.elapsed());
        let names: Vec<&str> = session.entry().outputs.iter().map(|port| port.name.as_str()).collect();
        let summaries = names.iter().zip(&outputs).map(|(name, tensor)| OutputReport::of(name, tensor));
        let special_case = special_case::of_session(&model, &session);
        if !model.manifest().entries.iter().all(|entry| entry.specializes.is_none()) {
            let which = special_case.as_ref().map_or_else(|| "all values of dims".to_owned(), Clone::clone);
            let name = set.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            console.detail(format!("  {name}code for {which}"));
        }
        let (name, outputs_told) = (set.name.clone(), summaries.collect());
        reports.push(DataSetReport { name, special_case, run_ms, outputs: outputs_told });
        if save_output.is_some() {
            // Several data sets in one archive: each in a folder of its own.
            let prefix = set.name.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
            for (name, tensor) in names.iter().zip(outputs) {
                flatten(format!("{prefix}{name}"), tensor, &mut saved);
            }
        }
    }
    if let Some(path) = &save_output {
        npz::write(path, saved.iter().map(|(name, tensor)| (name.clone(), tensor)))?;
    }
    let report = Report {
        schema: "infc.run/1",
        artifact: artifact.display().to_string(),
        variant: model.selection().target.clone(),
        data_sets: reports,
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, save_output.as_deref(), console)?
    }
    Ok(Exit::Done)
}

/// Runs one data set; the error says which.
pub(super) fn run_one(session: &mut Session, set: &DataSet, options: &RunOptions<'_>) -> Result<Vec<Tensor>, Failure> {
    session.advance(&set.input_refs(), options).map_err(|error| {
        let failure = Failure::from(error);
        match &set.name {
            Some(name) => failure.at(name),
            None => failure,
        }
    })
}

/// The tensors in a value: those of sequences and optionals under the name and their number, `name.0`, those of maps under
/// `name.keys` and `name.values`.
fn flatten(name: String, value: Tensor, into: &mut Vec<(String, Tensor)>) {
    if let Ok((keys, values)) = value.map_entries() {
        into.push((format!("{name}.keys"), keys.clone()));
        into.push((format!("{name}.values"), values.clone()));
        return;
    }
    match value.values() {
        Ok(values) => {
            for (n, value) in values.iter().enumerate() {
                flatten(format!("{name}.{n}"), value.clone(), into);
            }
        }
        Err(_) => into.push((name, value)),
    }
}

impl OutputReport {
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn of(name: &str, tensor: &Tensor) -> Self {
        let elements = if tensor.dtype().has_bytes() { to_f64(tensor).unwrap_or_default() } else { Vec::new() };
        let numbers: Vec<f64> = elements.iter().copied().filter(|x| !x.is_nan()).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        Self {
            name: name.to_owned(),
            dtype: tensor.dtype().name(),
            shape: tensor.shape().to_vec(),
            min: numbers.iter().copied().reduce(f64::min),
            max: numbers.iter().copied().reduce(f64::max),
            mean: (!numbers.is_empty()).then_some(mean),
            nan: elements.len() - numbers.len(),
            first: elements.into_iter().take(SHOWN).collect(),
            strings: tensor.strings().unwrap_or_default().iter().take(SHOWN).cloned().collect(),
            values: tensor.values().unwrap_or_default().iter().map(|value| Self::of("", value)).collect(),
        }
    }

    fn text(&self, console: &Console) -> String {
        let elements: usize = self.shape.iter().product();
        let numbers = self.first.iter().map(|&x| tables::number(x));
        let first: Vec<String> = numbers.chain(self.strings.iter().map(|text| format!("{text:?}"))).collect();
        let more = if elements > SHOWN && !first.is_empty() { ", …" } else { "" };
        let mut text = format!(
            "  {} {}{:?}  {}{more}",
            console.paint(Style::Label, &self.name),
            self.dtype,
            self.shape,
            first.join(", ")
        );
        if let (Some(min), Some(max), Some(mean), true) = (self.min, self.max, self.mean, elements > 1) {
            text.push_str(&format!(
                "\n    min {}  max {}  mean {}",
                tables::number(min),
                tables::number(max),
                tables::number(mean)
            ));
        }
        if self.nan > 0 {
            text.push_str(&format!("\n    {} of {elements} elements are NaN", self.nan));
        }
        for value in &self.values {
            text.push_str("\n  ");
            text.push_str(&value.text(console).replace('\n', "\n  "));
        }
        text
    }
}

fn print(report: &Report, saved: Option<&Path>, console: &Console) -> Result<(), Failure> {
    for set in &report.data_sets {
        let name = set.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        let case = special_case::suffix(set.special_case.as_deref());
        let heading = format!("{name}{} on {}{case}", tables::millis(set.run_ms), report.variant);
        console.line(console.paint(Style::Dim, &heading))?;
        for output in &set.outputs {
            console.line(output.text(console))?;
        }
    }
    if let Some(path) = saved {
        console.note(format!("  outputs  {}", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_outputs() {
        let tensor = Tensor::from_elements(&[4], &[1.0f32, f32::NAN, 3.0, -1.0]).unwrap();
        let report = OutputReport::of("y", &tensor);
        assert_eq!((report.min, report.max, report.mean, report.nan), (Some(-1.0), Some(3.0), Some(1.0), 1));
        let empty = OutputReport::of("y", &Tensor::from_elements::<i64>(&[0], &[]).unwrap());
        assert_eq!((empty.min, empty.mean, empty.nan), (None, None, 0));
    }
}
