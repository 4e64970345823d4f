//! Measures single kernels against the roofline of the machine: `cargo xtask bench` builds and runs it.
//!
//! Kernels run through the whole line (schedule, code, artifact, runtime) on one thread. Cases and targets are
//! interleaved, so that a machine that changes its speed does so for all alike; the quickest run counts, since
//! everything else on the machine only makes runs slower.

#![forbid(unsafe_code)]

mod compiled;
mod kernels;
mod roofline;
mod suite;

use anyhow::{Context, Result};
use clap::Parser;
use comfy_table::{Cell, Table};
use compiled::Compiled;
use infc_codegen_cpu::Target;
use roofline::Ceilings;
use std::io::Write;
use std::path::PathBuf;

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
    /// The ceilings program in C.
    #[arg(long, default_value = "../shared/bench/ceilings.c")]
    ceilings: PathBuf,
    /// A schedule to use instead of the untuned default, for experiments with one case.
    #[arg(long)]
    schedule: Option<String>,
    /// Also print each schedule.
    #[arg(long, short)]
    verbose: bool,
}

/// A run launches a kernel so often that it takes about this long at best.
const RUN_SECONDS: f64 = 20e-6;

fn main() -> Result<()> {
    let options = Options::parse();
    let ceilings = Ceilings::measure(&options.ceilings)?;
    let targets: Vec<Target> =
        options.targets.iter().map(|t| t.parse().with_context(|| format!("target {t}"))).collect::<Result<_>>()?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "peak {:.1} (512 bit) {:.1} (256 bit) GFLOP/s; L2 {:.0}, L3 {:.0}, DRAM {:.0} GB/s; one thread",
        ceilings.f32_fma_512 / 1e9,
        ceilings.f32_fma_256 / 1e9,
        ceilings.l2 / 1e9,
        ceilings.l3 / 1e9,
        ceilings.dram / 1e9
    )?;
    let wanted = |c: &suite::Case| {
        options.filter.as_ref().is_none_or(|f| c.group.contains(f.as_str()) || c.kernel.name.contains(f.as_str()))
    };
    let cases: Vec<suite::Case> = suite::cases(options.seed).into_iter().filter(wanted).collect();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    let mut header = vec!["group".to_owned(), "kernel".to_owned()];
    for target in &targets {
        header.extend([format!("{target} GFLOP/s"), "of roof".to_owned()]);
    }
    table.set_header(header);
    let mut shares: Vec<(usize, &'static str, f64)> = Vec::new();
    for case in &cases {
        let mut row = vec![Cell::new(case.group), Cell::new(&case.kernel.name)];
        let repeats =
            (RUN_SECONDS / ceilings.bound(512, case.operations, case.bytes)).ceil().clamp(1.0, 1000.0) as usize;
        let mut compiled: Vec<Compiled> = targets
            .iter()
            .map(|t| Compiled::new(&case.kernel, t, 1, repeats, options.schedule.as_deref()))
            .collect::<Result<_>>()
            .with_context(|| case.kernel.name.clone())?;
        let mut best = vec![f64::INFINITY; compiled.len()];
        for round in 0..options.runs {
            for (kernel, best) in compiled.iter_mut().zip(&mut best) {
                kernel.run()?;
                // Short kernels are run more often per turn.
                let turns = ((2e-3 / (*best * repeats as f64).max(1e-7)) as usize).clamp(1, 40);
                for _ in 0..if round == 0 { 1 } else { turns } {
                    *best = best.min(kernel.run()?);
                }
            }
        }
        for (n, (target, seconds)) in targets.iter().zip(&best).enumerate() {
            let bits = if target.to_string().contains("v4") { 512 } else { 256 };
            let share = ceilings.bound(bits, case.operations, case.bytes) / seconds;
            shares.push((n, case.group, share));
            row.push(Cell::new(format!("{:.1}", case.operations / seconds / 1e9)));
            row.push(Cell::new(format!("{:.0} %", share * 100.0)));
            if options.verbose {
                let c = &compiled[n];
                let name = &case.kernel.name;
                writeln!(
                    out,
                    "{name} {target}: {} spills, {} bytes: {}",
                    c.inner_loop_spills, c.code_bytes, c.schedule
                )?;
            }
        }
        table.add_row(row);
    }
    writeln!(out, "{table}")?;
    for (n, target) in targets.iter().enumerate() {
        for group in ["gemm", "conv3x3", "conv1x1", "random"] {
            let mut group_shares: Vec<f64> = shares.iter().filter(|s| s.0 == n && s.1 == group).map(|s| s.2).collect();
            if group_shares.is_empty() {
                continue;
            }
            group_shares.sort_by(f64::total_cmp);
            let median = group_shares[group_shares.len() / 2];
            writeln!(out, "{target} {group}: worst {:.0} %, median {:.0} %", group_shares[0] * 100.0, median * 100.0)?;
        }
    }
    Ok(())
}
