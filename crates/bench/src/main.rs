//! Measures single kernels against the roofline of the machine: `cargo xtask bench` builds and runs it.
//!
//! Kernels run through the whole line (schedule, code, artifact, runtime) on one thread. Cases and targets are
//! interleaved, so that a machine that changes its speed does so for all alike; the quickest run counts, since
//! everything else on the machine only makes runs slower.

#![forbid(unsafe_code)]

mod compiled;
mod kernels;
mod report;
mod roofline;
mod suite;
mod untuned;

use anyhow::{Context, Result};
use clap::Parser;
use compiled::{Compiled, Operands};
use infc_codegen_cpu::Target;
use report::{Measured, OnTarget, Report};
use roofline::Ceilings;
use std::io::Write;

/// Measures single kernels against the machine's roofline.
#[derive(Parser)]
struct Options {
    /// Targets, comma-separated.
    #[arg(long, default_value = "x86-64-v4,x86-64-v3", value_delimiter = ',')]
    targets: Vec<String>,
    /// Only cases whose group or name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Seed of the random cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs per case and target, at least.
    #[arg(long, default_value_t = 12)]
    runs: usize,
    /// A schedule to use instead of the untuned default, for experiments with one case.
    #[arg(long)]
    schedule: Option<String>,
    /// Measure the kernel in this file (IR text) instead of the suite's, as if each point of its stages took one
    /// multiply-add.
    #[arg(long, value_name = "FILE")]
    kernel: Option<std::path::PathBuf>,
    /// Write the code of each case and target as text to this folder, which must exist.
    #[arg(long, value_name = "DIR")]
    listing: Option<std::path::PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Also print each schedule.
    #[arg(long, short)]
    verbose: bool,
}

/// A run launches a kernel so often that it takes about this long at best.
const RUN_SECONDS: f64 = 20e-6;

/// But no more often than this.
const MAX_REPEATS: usize = 1000;

fn main() -> Result<()> {
    let options = Options::parse();
    let targets: Vec<Target> =
        options.targets.iter().map(|t| t.parse().with_context(|| format!("target {t}"))).collect::<Result<_>>()?;
    let wanted = |c: &suite::Case| {
        options.filter.as_ref().is_none_or(|f| c.group.contains(f.as_str()) || c.kernel.name.contains(f.as_str()))
    };
    let cases: Vec<suite::Case> = match &options.kernel {
        Some(path) => {
            vec![suite::of_text(&std::fs::read_to_string(path).with_context(|| path.display().to_string())?)?]
        }
        None => suite::cases(options.seed).into_iter().filter(wanted).collect(),
    };
    let ceilings = Ceilings::measure()?;
    let launch_seconds = launches(&targets, &options)?;
    let mut kernels = Vec::new();
    for case in &cases {
        let measured = measure(case, &targets, &ceilings, &launch_seconds, &options);
        kernels.push(measured.with_context(|| case.kernel.name.clone())?);
    }
    let targets = targets.iter().map(ToString::to_string).collect();
    let report = Report { schema: "infc-bench/1", seed: options.seed, ceilings, targets, launch_seconds, kernels };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        report.print(&mut out, options.verbose)?;
    }
    Ok(())
}

/// Seconds per launch of a kernel that does next to nothing, per target.
fn launches(targets: &[Target], options: &Options) -> Result<Vec<f64>> {
    let kernel = suite::nothing();
    let compile = |target| Compiled::new(&kernel, target, 1, MAX_REPEATS, None);
    let mut compiled: Vec<Compiled> = targets.iter().map(compile).collect::<Result<_>>()?;
    quickest(&mut compiled, &mut Operands::new(&kernel), MAX_REPEATS, options.runs)
}

/// Runs what was compiled in turns; seconds per launch.
fn quickest(compiled: &mut [Compiled], operands: &mut Operands, repeats: usize, runs: usize) -> Result<Vec<f64>> {
    let mut best = vec![f64::INFINITY; compiled.len()];
    for round in 0..runs {
        for (kernel, best) in compiled.iter_mut().zip(&mut best) {
            kernel.run(operands)?;
            // Short kernels are run more often per turn.
            let turns = ((2e-3 / (*best * repeats as f64).max(1e-7)) as usize).clamp(1, 40);
            for _ in 0..if round == 0 { 1 } else { turns } {
                *best = best.min(kernel.run(operands)?);
            }
        }
    }
    Ok(best)
}

/// Runs a case on all targets in turns.
fn measure(
    case: &suite::Case,
    targets: &[Target],
    ceilings: &Ceilings,
    launch_seconds: &[f64],
    options: &Options,
) -> Result<Measured> {
    let repeats = (RUN_SECONDS / ceilings.bound(512, &case.demand)).ceil().clamp(1.0, MAX_REPEATS as f64) as usize;
    let mut compiled: Vec<Compiled> = targets
        .iter()
        .map(|target| Compiled::new(&case.kernel, target, 1, repeats, options.schedule.as_deref()))
        .collect::<Result<_>>()?;
    if let Some(folder) = &options.listing {
        for (target, kernel) in targets.iter().zip(&compiled) {
            let name = format!("{} {target}.s", case.kernel.name).replace([' ', '/'], "_");
            std::fs::write(folder.join(name), kernel.listing(target)?)?;
        }
    }
    let best = quickest(&mut compiled, &mut Operands::new(&case.kernel), repeats, options.runs)?;
    let on_target = |(((target, kernel), seconds), launch): (((&Target, Compiled), &f64), &f64)| {
        let bound = ceilings.bound(target.machine.vector_bits, &case.demand).max(*launch);
        OnTarget {
            target: target.to_string(),
            seconds: *seconds,
            gflops: case.operations / seconds / 1e9,
            gb_per_s: case.demand.bytes() / seconds / 1e9,
            share: bound / seconds,
            inner_loop_spills: kernel.inner_loop_spills,
            code_bytes: kernel.code_bytes,
            schedule: kernel.schedule,
        }
    };
    Ok(Measured {
        group: case.group,
        kernel: case.kernel.name.clone(),
        demand: case.demand,
        operations: case.operations,
        results: targets.iter().zip(compiled).zip(&best).zip(launch_seconds).map(on_target).collect(),
    })
}
