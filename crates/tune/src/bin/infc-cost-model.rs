//! How well the cost model orders schedules of models that it has not seen: `cargo xtask cost-model LOG…`.
//!
//! Each log is of one model (`infc tune MODEL --search random --log LOG`). The model is learned from the trials of all other
//! logs, and for each kernel of this one Spearman's rank correlation is told of expected and measured times, among
//! schedules that take at most [`WITHIN`] times as long as the quickest. `--csv FILE` writes all samples, for other learners.

use infc_tune::{CostModel, FEATURE_NAMES, Lesson, lessons, spearman};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Schedules that are told apart: within so many times of the quickest.
const WITHIN: f64 = 3.0;
/// A kernel with fewer such schedules says little.
const FEWEST: usize = 10;

fn main() -> ExitCode {
    let (text, exit) = match run(std::env::args().skip(1).collect()) {
        Ok(report) => (report, ExitCode::SUCCESS),
        Err(error) => (format!("error: {error}\n"), ExitCode::FAILURE),
    };
    // Whoever reads may have enough of it.
    drop(std::io::stdout().write_all(text.as_bytes()));
    exit
}

/// The report.
fn run(mut arguments: Vec<String>) -> Result<String, String> {
    let csv = match arguments.iter().position(|argument| argument == "--csv") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        Some(_) => return Err("--csv takes the name of a file".to_owned()),
        None => None,
    };
    if arguments.len() < 2 {
        return Err("expected the logs of two models or more".to_owned());
    }
    let mut logs = Vec::new();
    for path in &arguments {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let name = std::path::Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        logs.push((name, lessons(&text, None, 1)));
    }
    if let Some(path) = csv {
        std::fs::write(&path, table(&logs)).map_err(|error| format!("{path}: {error}"))?;
    }
    let mut report = String::from(
        "| model held out | kernels | trials | median | weighted by time |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut all = Vec::new();
    for (held_out, (name, kernels)) in logs.iter().enumerate() {
        let model = learned(logs.iter().enumerate().filter(|(n, _)| *n != held_out).map(|(_, log)| log));
        let told = ranked(&model, kernels);
        let weight: f64 = told.iter().map(|ranked| ranked.seconds).sum();
        let weighted = told.iter().map(|ranked| ranked.rank * ranked.seconds).sum::<f64>() / weight.max(1e-12);
        let trials: usize = told.iter().map(|ranked| ranked.trials).sum();
        let _ = writeln!(report, "| {name} | {} | {trials} | {:.2} | {weighted:.2} |", told.len(), median(&told));
        all.extend(told.into_iter().map(|ranked| Ranked { name: format!("{name} {}", ranked.name), ..ranked }));
    }
    all.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    let _ =
        writeln!(report, "\nall {} kernels: median {:.2}, mean {:.2}; by kernel:", all.len(), median(&all), mean(&all));
    for Ranked { rank, name, trials, .. } in all.iter().rev() {
        let _ = writeln!(report, "  {rank:5.2}  {name} ({trials})");
    }
    let model = learned(logs.iter());
    let names =
        FEATURE_NAMES.iter().map(|n| (*n).to_owned()).chain(FEATURE_NAMES.iter().map(|n| format!("{n}, change")));
    let mut importance: Vec<(f64, String)> = model.importance().into_iter().zip(names).collect();
    importance.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ = writeln!(report, "\nwhat splits are made by, of all that is learned:");
    for (part, name) in importance.iter().take(12) {
        let _ = writeln!(report, "  {:4.1} %  {name}", part * 100.0);
    }
    Ok(report)
}

/// How well a kernel's schedules were ordered.
struct Ranked {
    /// Spearman's correlation of expected and measured times.
    rank: f64,
    name: String,
    /// Of its launches in a run of the model, by the default choice.
    seconds: f64,
    /// How many schedules were ordered.
    trials: usize,
}

/// The kernels that have enough schedules near the quickest, in the order of their ranks.
fn ranked(model: &CostModel, kernels: &[Lesson]) -> Vec<Ranked> {
    let mut told = Vec::new();
    for kernel in kernels {
        let quickest = kernel.trials.iter().map(|(_, time)| *time).fold(1.0, f64::min);
        let near = kernel.trials.iter().filter(|(_, time)| *time <= WITHIN * quickest);
        let both = near.filter_map(|(sample, time)| Some((model.predict(sample)?, *time)));
        let (expected, measured): (Vec<f64>, Vec<f64>) = both.unzip();
        if expected.len() < FEWEST {
            continue;
        }
        if let Some(rank) = spearman(&expected, &measured) {
            let seconds = kernel.default_seconds * kernel.launches as f64;
            told.push(Ranked { rank, name: kernel.name.clone(), seconds, trials: expected.len() });
        }
    }
    told.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    told
}

/// A model of all trials of some logs.
fn learned<'l>(logs: impl Iterator<Item = &'l (String, Vec<Lesson>)>) -> CostModel {
    let mut model = CostModel::default();
    for (sample, relative) in logs.flat_map(|(_, kernels)| kernels).flat_map(|kernel| &kernel.trials) {
        model.note(sample.clone(), *relative);
    }
    model.fit();
    model
}

/// Of ranks; not a number of none.
fn median(ranked: &[Ranked]) -> f64 {
    let ranks: Vec<f64> = ranked.iter().map(|ranked| ranked.rank).collect();
    infc_tune::median(&ranks).unwrap_or(f64::NAN)
}

/// The mean over kernels, whatever their time.
fn mean(ranked: &[Ranked]) -> f64 {
    ranked.iter().map(|ranked| ranked.rank).sum::<f64>() / ranked.len() as f64
}

/// A line per trial: model, kernel, relative time, features.
fn table(logs: &[(String, Vec<Lesson>)]) -> String {
    let mut text = String::from("model,kernel,time");
    for n in 0..2 * FEATURE_NAMES.len() {
        let _ = write!(text, ",f{n}");
    }
    text.push('\n');
    for (model, kernel) in logs.iter().flat_map(|(model, kernels)| kernels.iter().map(move |kernel| (model, kernel))) {
        for (sample, time) in &kernel.trials {
            let _ = write!(text, "{model},{},{time}", kernel.name);
            for feature in sample {
                let _ = write!(text, ",{feature}");
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let of = |ranks: &[f64]| {
            let ranked = |&rank: &f64| Ranked { rank, name: String::new(), seconds: 1.0, trials: 10 };
            ranks.iter().map(ranked).collect::<Vec<_>>()
        };
        assert_eq!((median(&of(&[0.1, 0.25, 0.9])), median(&of(&[0.0, 0.25, 0.5, 1.0]))), (0.25, 0.375));
        assert_eq!(mean(&of(&[0.0, 0.25, 0.5, 1.25])), 0.5);
        assert!(median(&[]).is_nan());
    }
}
