//! What is told in the end: tables for people, one object for machines.

use crate::device::Device;
use crate::instructions::Recorded;
use crate::kernels::Outcome;
use crate::library::{Answer, Timed};
use crate::models::Ran;
use crate::speed::{Launches, Speed};
use crate::sweep::{Sweep, Tried};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Failures that are shown of each part.
const SHOWN: usize = 10;

/// All that was seen.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// The GPU and its driver.
    pub machine: String,
    /// The day.
    pub date: String,
    /// By part, how many runs there were.
    pub runs: Vec<(String, usize)>,
    /// By part, what failed.
    pub failed: Vec<(String, String)>,
    /// Kernels.
    pub speeds: Vec<Speed>,
    /// What starting kernels costs.
    pub launches: Option<Launches>,
    /// Models.
    pub models: Vec<Ran>,
    /// Models by a library: name and milliseconds.
    pub library: Vec<(String, f64)>,
    /// Kernels by other decisions than the default's.
    pub sweeps: Vec<Sweep>,
    /// Checks that did not happen, with why.
    pub skipped: Vec<String>,
}

impl Report {
    /// Adds what came of a part.
    pub fn outcome(&mut self, part: &str, outcome: Outcome) {
        self.runs.push((part.to_owned(), outcome.runs));
        self.failed.extend(outcome.failed.into_iter().map(|failed| (part.to_owned(), failed)));
    }

    /// Adds what came of instructions that were held to a record.
    pub fn instructions(&mut self, part: &str, recorded: Recorded) {
        self.runs.push((part.to_owned(), recorded.same + recorded.different.len()));
        let different = recorded.different.into_iter();
        self.failed.extend(different.map(|(name, found)| (part.to_owned(), format!("{name}: {found}"))));
    }

    /// Adds what kept a part from being done.
    pub fn broken(&mut self, part: &str, error: &anyhow::Error) {
        self.failed.push((part.to_owned(), format!("{error:#}")));
    }

    /// Adds what asking a library gave.
    pub fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Said(timed) => self.library(timed),
            Answer::Missing(reason) => self.skipped.push(reason),
        }
    }

    /// Adds what a library was timed at.
    fn library(&mut self, timed: Vec<Timed>) {
        for Timed { name, ms, error } in timed {
            if let Some(error) = error {
                self.skipped.push(format!("{name} by a library: {error}"));
            }
            match self.speeds.iter_mut().find(|speed| speed.name == name) {
                Some(speed) => speed.library_us = ms.map(|ms| ms * 1e3),
                None => self.library.extend(ms.map(|ms| (name, ms))),
            }
        }
    }

    /// Of a device, with nothing seen.
    #[must_use]
    pub fn of(device: &Device, date: String) -> Self {
        let gpu = device.gpu();
        let (capability, version) = (gpu.capability(), gpu.ptx_version());
        let decimal = |tenths: u32| format!("{}.{}", tenths / 10, tenths % 10);
        let machine =
            format!("{}, compute capability {}, driver for PTX {}", gpu.name(), decimal(capability), decimal(version));
        Self { machine, date, ..Self::default() }
    }

    /// Adds what a process of its own has seen.
    pub fn absorb(&mut self, other: Self) {
        let Self { machine, date, runs, failed, speeds, launches, models, library, sweeps, skipped } = other;
        (self.machine, self.date) = (machine, date);
        self.runs.extend(runs);
        self.failed.extend(failed);
        self.speeds.extend(speeds);
        self.launches = launches.or(self.launches);
        self.models.extend(models);
        self.library.extend(library);
        self.sweeps.extend(sweeps);
        self.skipped.extend(skipped);
    }

    /// Notes that a process ended before it had seen all.
    pub fn ended(&mut self, part: &str, said: &str) {
        self.failed.push((part.to_owned(), format!("it ended too soon: {said}")));
    }

    /// Writes `report.txt` and `report.json`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        for (name, text) in [("report.txt", self.text()), ("report.json", json)] {
            // Whole or not at all: the process may be ended at any time.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(folder.join(name))?;
        }
        Ok(())
    }

    /// The report in a folder, if there is one.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("report.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}, {}\n\n", self.machine, self.date);
        for (part, runs) in &self.runs {
            let failed: Vec<&str> =
                self.failed.iter().filter(|(of, _)| of == part).map(|(_, failed)| failed.as_str()).collect();
            let _ = writeln!(text, "  {part}: {runs} runs, {} failed", failed.len());
            failed.iter().take(SHOWN).for_each(|failed| {
                let _ = writeln!(text, "    {failed}");
            });
        }
        for (part, failed) in self.failed.iter().filter(|(part, _)| self.runs.iter().all(|(of, _)| of != part)) {
            let _ = writeln!(text, "  {part}: {failed}");
        }
        if !self.speeds.is_empty() {
            let rows = self.speeds.iter().map(|speed| {
                vec![
                    speed.name.clone(),
                    format!("{:.2}", speed.us),
                    format!("{:.0} %", 100.0 * speed.spread),
                    format!("{:.1}", speed.tflops),
                    format!("{:.0}", speed.gb_per_s),
                    speed.library_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}")),
                ]
            });
            let _ = writeln!(text, "\n{}", table(&["kernel", "µs", "±", "TFLOP/s", "GB/s", "library µs"], rows));
        }
        if let Some(Launches { graph_us, single_us, host_us, change_us, changed_us }) = self.launches {
            let _ = writeln!(
                text,
                "\n  from kernel to kernel {graph_us:.2} µs in a graph, {single_us:.2} µs one by one; the host takes {host_us:.2} µs to start one"
            );
            if let Some((change_us, changed_us)) = change_us.zip(changed_us) {
                let _ = writeln!(
                    text,
                    "  from kernel to kernel {changed_us:.2} µs in a graph that is changed before each start; the host takes {change_us:.2} µs to change one"
                );
            }
        }
        if !self.models.is_empty() {
            let columns =
                ["model", "kernels", "on host", "agrees", "load PTX", "load cubin", "first", "run", "GPU", "code kB"];
            let rows = self.models.iter().map(|ran| {
                vec![
                    ran.name.clone(),
                    ran.kernels.to_string(),
                    ran.on_host.to_string(),
                    if ran.agrees { "yes" } else { "no" }.to_owned(),
                    format!("{:.0}", ran.load_ptx_ms),
                    ran.load_cubin_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}")),
                    format!("{:.2}", ran.first_ms),
                    format!("{:.3}", ran.run_ms),
                    format!("{:.3}", ran.device_ms),
                    (ran.code_bytes / 1000).to_string(),
                ]
            });
            let _ = writeln!(text, "\n{}", table(&columns, rows));
        }
        for Sweep { name, load_ms, tried, failed, .. } in &self.sweeps {
            let _ = writeln!(
                text,
                "\n  {name}: {} choices, {} failed, loaded in {load_ms:.0} ms",
                tried.len() + failed.0,
                failed.0
            );
            failed.1.iter().for_each(|why| {
                let _ = writeln!(text, "    {why}");
            });
            let default = |tried: &&Tried| tried.otherwise.is_empty();
            for Tried { otherwise, us, .. } in tried.iter().take(SHOWN).chain(tried.iter().skip(SHOWN).filter(default))
            {
                let said: Vec<String> = otherwise.iter().map(|(what, which)| format!("{what} {which}")).collect();
                let said = if said.is_empty() { "as it is".to_owned() } else { said.join(", ") };
                let _ = writeln!(text, "    {us:9.2} µs  {said}");
            }
        }
        for (name, ms) in &self.library {
            let _ = writeln!(text, "  by a library: {name} {ms:.3} ms");
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "  skipped: {skipped}");
        }
        text
    }
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns);
    table.add_rows(rows);
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(if n == 0 { CellAlignment::Left } else { CellAlignment::Right });
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}
