//! What was measured, as a table for people or as JSON for scripts.

use crate::roofline::{Ceilings, Demand};
use crate::suite::GROUPS;
use anyhow::Result;
use comfy_table::{Cell, Table};
use serde::Serialize;
use std::io::Write;

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: &'static str,
    /// Of the random cases.
    pub(crate) seed: u64,
    pub(crate) ceilings: Ceilings,
    pub(crate) targets: Vec<String>,
    /// Per target, seconds of a launch of a kernel that copies one element: no kernel takes less.
    pub(crate) launch_seconds: Vec<f64>,
    pub(crate) kernels: Vec<Measured>,
}

/// One kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) group: &'static str,
    pub(crate) kernel: String,
    #[serde(flatten)]
    pub(crate) demand: Demand,
    pub(crate) operations: f64,
    /// Per target, in order.
    pub(crate) results: Vec<OnTarget>,
}

/// One kernel on one target.
#[derive(Debug, Serialize)]
pub(crate) struct OnTarget {
    pub(crate) target: String,
    /// Of the quickest run.
    pub(crate) seconds: f64,
    pub(crate) gflops: f64,
    pub(crate) gb_per_s: f64,
    /// Of the roofline: the time it takes at least, which is not less than an empty launch, over the time it took.
    pub(crate) share: f64,
    pub(crate) inner_loop_spills: u32,
    pub(crate) code_bytes: usize,
    pub(crate) schedule: String,
}

impl Report {
    /// Prints the table, then the worst and the median share of each group.
    pub(crate) fn print(&self, out: &mut impl Write, verbose: bool) -> Result<()> {
        let c = &self.ceilings;
        let giga = |x: f64| x / 1e9;
        let rates = |read: f64, write: f64| format!("{:.0}/{:.0}", giga(read), giga(write));
        let (l2, l3, dram) = (rates(c.l2, c.l2_write), rates(c.l3, c.l3_write), rates(c.dram, c.dram_write));
        let launches: Vec<String> = self.launch_seconds.iter().map(|s| format!("{:.1}", s * 1e9)).collect();
        writeln!(
            out,
            "peak {:.1} (512 bit) {:.1} (256 bit) GFLOP/s; read/write L2 {l2}, L3 {l3}, DRAM {dram} GB/s; \
             a launch {} ns; one thread",
            giga(c.f32_fma_512),
            giga(c.f32_fma_256),
            launches.join(", ")
        )?;
        let mut table = Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        let mut header = vec!["group".to_owned(), "kernel".to_owned()];
        for target in &self.targets {
            header.extend([format!("{target} GFLOP/s"), "GB/s".to_owned(), "of roof".to_owned()]);
        }
        table.set_header(header);
        for measured in &self.kernels {
            let mut row = vec![Cell::new(measured.group), Cell::new(&measured.kernel)];
            for result in &measured.results {
                row.push(Cell::new(format!("{:.1}", result.gflops)));
                row.push(Cell::new(format!("{:.1}", result.gb_per_s)));
                row.push(Cell::new(format!("{:.0} %", result.share * 100.0)));
                if verbose {
                    let OnTarget { target, inner_loop_spills, code_bytes, schedule, .. } = result;
                    let name = &measured.kernel;
                    writeln!(out, "{name} {target}: {inner_loop_spills} spills, {code_bytes} bytes: {schedule}")?;
                }
            }
            table.add_row(row);
        }
        writeln!(out, "{table}")?;
        for (n, target) in self.targets.iter().enumerate() {
            for group in GROUPS {
                let of_group = self.kernels.iter().filter(|measured| measured.group == group);
                let mut shares: Vec<f64> = of_group.map(|measured| measured.results[n].share).collect();
                shares.sort_by(f64::total_cmp);
                let (Some(worst), Some(median)) = (shares.first(), shares.get(shares.len() / 2)) else { continue };
                writeln!(out, "{target} {group}: worst {:.0} %, median {:.0} %", worst * 100.0, median * 100.0)?;
            }
        }
        Ok(())
    }
}
