//! What `infc tune` says at the end.

use super::formation::Formed;
use crate::console::Console;
use crate::failure::Failure;
use crate::tables::{self, Side, table};
use infc_tune::{Contest, Measured};
use serde::Serialize;

/// What was found for one kernel.
#[derive(Debug, Serialize)]
pub(super) struct KernelResult {
    /// What records call it.
    key: String,
    kernel: String,
    origins: Vec<String>,
    launches: usize,
    /// Of the model's time in kernels.
    share: f64,
    default_us: f64,
    best_us: f64,
    trials: u64,
    failed: u64,
    schedule: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: &'static str,
    /// `None` of the built-in kernels.
    pub(super) model: Option<String>,
    pub(super) target: String,
    /// What `infc compile` is told to compile for what was found.
    #[serde(skip)]
    pub(super) compiled_for: String,
    /// Further words of that command, which what was found depends on.
    #[serde(skip)]
    pub(super) compiled_like: String,
    pub(super) machine: String,
    /// How many threads ran kernels.
    pub(super) threads: usize,
    pub(super) trials: u64,
    pub(super) seconds: f64,
    /// Of all launches of a run, by default and by the best.
    pub(super) default_ms: f64,
    pub(super) best_ms: f64,
    /// By how much of that more trials were expected to make it less, at the end.
    pub(super) expected_gain: f64,
    pub(super) records: String,
    /// What was found of ways to form kernels.
    pub(super) formed: Formed,
    /// What was measured of the machine, if there was no model.
    pub(super) profile: Option<ProfileReport>,
    pub(super) kernels: Vec<KernelResult>,
    pub(super) refuted: Vec<Refuted>,
}

/// A kernel whose default choice does not compute what the kernel is: a bug.
#[derive(Debug, Serialize)]
pub(super) struct Refuted {
    pub(super) kernel: String,
    pub(super) what: String,
}

/// What became of the machine's profile.
#[derive(Debug, Serialize)]
pub(super) struct ProfileReport {
    /// Where it was written.
    pub(super) file: String,
    /// What schedules are told.
    pub(super) told: String,
    pub(super) measured: Measured,
}

pub(super) fn results(contests: &[Contest<'_>]) -> Vec<KernelResult> {
    let total: f64 = contests.iter().map(|c| c.default_seconds * c.task.launches as f64).sum();
    let mut results: Vec<KernelResult> = contests
        .iter()
        .map(|c| KernelResult {
            key: c.task.key.to_string(),
            kernel: c.task.kernel.name.clone(),
            origins: c.task.origins.clone(),
            launches: c.task.launches,
            share: c.default_seconds * c.task.launches as f64 / total.max(1e-12),
            default_us: c.default_seconds * 1e6,
            best_us: c.default_seconds * c.relative() * 1e6,
            trials: c.trials,
            failed: c.failed,
            schedule: c.found.as_ref().map(|(schedule, _)| schedule.to_string()),
        })
        .collect();
    results.sort_by(|a, b| b.share.total_cmp(&a.share));
    results
}

impl ProfileReport {
    fn print(&self, console: &Console) -> Result<(), Failure> {
        let Measured { cycle_ns, multiply_add_cycles, arithmetic, memory, hand_off_us, threads, compared, .. } =
            &self.measured;
        let clock = 1.0 / cycle_ns.max(1e-9);
        console
            .line(format!("  cycle     {cycle_ns:.3} ns ({clock:.2} GHz), a multiply-add {multiply_add_cycles:.1}"))?;
        let arithmetic: Vec<String> =
            arithmetic.iter().map(|a| format!("{:.0} GFLOP/s by {} bits", a.gflops, a.vector_bits)).collect();
        console.line(format!("  products  {}", arithmetic.join(", ")))?;
        for memory in memory {
            let (level, bytes) = (&memory.level, tables::bytes(memory.bytes));
            let (read, written) = (memory.read_gb_per_s, memory.write_gb_per_s);
            console.line(format!("  {level:9} {read:.0} GB/s read, {written:.0} GB/s written, of {bytes}"))?;
        }
        if let Some(hand_off) = hand_off_us {
            console.line(format!("  threads   {threads}, which take {hand_off:.2} us to share a launch"))?;
        }
        for compared in compared {
            let taken = if compared.taken { ", which is taken" } else { "" };
            let (ratio, description) = (compared.ratio, &compared.description);
            console.line(format!("  schedules {ratio:.3} of the time for the {description} machine{taken}"))?;
        }
        console.line(format!("  told      {}", self.told))?;
        console.line(format!("  written   {}\n", self.file))
    }
}

impl Formed {
    fn print(&self, console: &Console) -> Result<(), Failure> {
        for choice in &self.choices {
            let first = choice.origins.first().map_or("-", String::as_str);
            let more =
                if choice.origins.len() > 1 { format!(", … ({})", choice.origins.len()) } else { String::new() };
            let (kind, way, instead, gain) =
                (&choice.kind, &choice.way, &choice.instead_of, 100.0 * (1.0 - choice.ratio));
            console.line(format!(
                "  formed    {kind} of {first}{more}: {way} instead of {instead}, {gain:.1} % quicker"
            ))?;
        }
        if let (Some(default), Some(best), trials) = (self.default_ms, self.best_ms, self.trials) {
            let gain = 100.0 * self.gain();
            let (default, best) = (tables::millis(default), tables::millis(best));
            console.line(format!(
                "  plans     a run takes {default}, {best} by the best of {trials} other plans ({gain:.1} % quicker)\n"
            ))?;
        }
        Ok(())
    }
}

impl Report {
    pub(super) fn print(&self, console: &Console) -> Result<(), Failure> {
        if let Some(profile) = &self.profile {
            profile.print(console)?;
        }
        self.formed.print(console)?;
        let columns = [
            ("kernel", Side::Left),
            ("launches", Side::Right),
            ("share", Side::Right),
            ("default", Side::Right),
            ("best", Side::Right),
            ("quicker", Side::Right),
            ("tried", Side::Right),
        ];
        const SHOWN: usize = 20;
        let rows = self.kernels.iter().take(SHOWN).map(|k| {
            vec![
                k.kernel.clone(),
                k.launches.to_string(),
                format!("{:.1} %", k.share * 100.0),
                tables::millis(k.default_us / 1e3),
                tables::millis(k.best_us / 1e3),
                if k.schedule.is_some() {
                    format!("{:.1} %", 100.0 * (1.0 - k.best_us / k.default_us))
                } else {
                    "-".to_owned()
                },
                k.trials.to_string(),
            ]
        });
        console.write(table(&columns, rows).as_bytes())?;
        if self.kernels.len() > SHOWN {
            console.line(format!("  and {} more", self.kernels.len() - SHOWN))?;
        }
        console.line(format!("\n  {}", self.summary()))?;
        if self.kernels.iter().any(|k| k.schedule.is_some()) || !self.formed.choices.is_empty() {
            let (model, target, records) =
                (self.model.as_deref().unwrap_or("MODEL"), &self.compiled_for, &self.records);
            let like = &self.compiled_like;
            console.line(format!("  next      infc compile {model} --target {target} --records {records}{like}"))?;
        } else if self.profile.is_some() {
            console.line("  next      infc compile MODEL --target native")?;
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let Self { default_ms, best_ms, trials, .. } = *self;
        if default_ms <= 0.0 {
            return "no kernel could be measured".to_owned();
        }
        let gain = 100.0 * (1.0 - best_ms / default_ms);
        let (default, best) = (tables::millis(default_ms), tables::millis(best_ms));
        format!(
            "kernels of a run: {default} by default, {best} by the best of {trials} schedules ({gain:.1} % quicker)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_gain() {
        let report = |default_ms: f64, best_ms: f64| Report {
            schema: "infc.tune/1",
            model: None,
            target: String::new(),
            compiled_for: String::new(),
            compiled_like: String::new(),
            machine: String::new(),
            threads: 1,
            trials: 3,
            seconds: 0.0,
            default_ms,
            best_ms,
            expected_gain: 0.0,
            records: String::new(),
            formed: Formed::default(),
            profile: None,
            kernels: Vec::new(),
            refuted: Vec::new(),
        };
        assert_eq!(report(0.0, 0.0).summary(), "no kernel could be measured");
        assert!(report(2.0, 1.5).summary().ends_with("the best of 3 schedules (25.0 % quicker)"));
    }
}
