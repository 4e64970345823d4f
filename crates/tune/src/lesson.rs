//! What earlier runs have to teach a cost model: their logs and records.

use crate::features::any_features;
use crate::file::RecordFile;
use crate::measure::Logged;
use crate::model::sample;
use crate::proven::Proven;
use infc::{KernelKey, MachineModel, VariantTarget, recorded_kernel};
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{AnyMachine, apply};
use std::collections::BTreeMap;

/// A kernel and the schedules of it that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// What the kernel was called.
    pub name: String,
    /// Launches in a run of the model; 1 where nobody says.
    pub launches: usize,
    /// Seconds per launch of the default choice.
    pub default_seconds: f64,
    /// What a cost model is told of a schedule ([`sample`]), and its time in times of the default.
    pub trials: Vec<(Vec<f64>, f64)>,
}

/// What a file tells: the lines of a log, of records, or both. Lines that are neither, of kernels that cannot be compiled or
/// schedules that do not apply are left out, and so is what was measured with another number of threads. `native` is a target
/// whose machine is not the fixed one.
#[must_use]
pub fn lessons(text: &str, native: Option<&VariantTarget>, threads: usize) -> Vec<Lesson> {
    let lines: Vec<Logged> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // Times in times of the default, per kernel and schedule; the last measurement counts.
    let mut times: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for line in &lines {
        if let Logged::Trial { kernel, schedule, beside, ratio: Some((ratio, _)) } = line {
            let of_kernel = times.entry(kernel).or_default();
            let unit = beside.as_ref().map_or(1.0, |beside| of_kernel.get(beside.as_str()).copied().unwrap_or(1.0));
            of_kernel.insert(schedule, ratio * unit);
        }
    }
    let of_log = lines.iter().filter_map(|line| {
        let Logged::Kernel { kernel, name, target, launches, threads: ran, text, default_seconds } = line else {
            return None;
        };
        let default_seconds = default_seconds.filter(|_| *ran == threads)?;
        // Of damaged lines nobody knows what was measured.
        if KernelKey::of_text(text).to_string() != *kernel {
            return None;
        }
        let classroom = Classroom::new(text, target, native)?;
        let times = times.get(kernel.as_str()).into_iter().flatten().map(|(schedule, time)| (*schedule, *time));
        let (name, launches) = (name.clone(), *launches);
        Some(Lesson { name, launches, default_seconds, trials: classroom.trials(times) })
    });
    let of_log: Vec<Lesson> = of_log.collect();
    let records = RecordFile::parse(text).records.into_iter().filter(|record| record.threads == threads);
    let of_records = records.filter_map(|record| {
        let classroom = Classroom::new(&record.text, &record.target, native)?;
        let trials = classroom.trials([(record.schedule.as_str(), record.ratio())].into_iter());
        Some(Lesson { name: record.name, launches: 1, default_seconds: record.default_seconds, trials })
    });
    of_log.into_iter().chain(of_records).collect()
}

/// A kernel that schedules are compared for.
struct Classroom {
    kernel: Kernel,
    machine: AnyMachine,
    of_default: Vec<f64>,
}

impl Classroom {
    fn new(text: &str, target: &str, native: Option<&VariantTarget>) -> Option<Self> {
        let mut target: VariantTarget = target.parse().ok()?;
        if let (VariantTarget::Cpu(target), Some(VariantTarget::Cpu(native))) = (&mut target, native)
            && native.to_string() == target.to_string()
        {
            target.machine = MachineModel { ..native.machine };
        }
        // What processors and GPUs are asked about schedules is not the same.
        if native.is_some_and(|native| native.cpu().is_some() != target.cpu().is_some()) {
            return None;
        }
        let machine = target.machine();
        let kernel = recorded_kernel(text).ok()?;
        let default = machine.choose(&kernel, ErrorClass::Reassociating);
        let of_default = any_features(&apply(&kernel, &default).ok()?, &machine);
        Some(Self { kernel, machine, of_default })
    }

    fn trials<'s>(&self, times: impl Iterator<Item = (&'s str, f64)>) -> Vec<(Vec<f64>, f64)> {
        let trial = |(schedule, time): (&str, f64)| {
            let nest = apply(&self.kernel, &schedule.parse().ok()?).ok()?;
            (time.is_finite() && time > 0.0)
                .then(|| (sample(&any_features(&nest, &self.machine), &self.of_default), time))
        };
        times.filter_map(trial).collect()
    }
}
