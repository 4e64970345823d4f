//! What this machine does, one core of it: measured with kernels that infc compiles for it.
//!
//! Nothing but the compiler's own code is needed, and what it does not reach is no use to it. Every time is that of the
//! quickest run: whatever else the machine does only makes a run slower. Caches are as large as the system says.

use super::report::ProfileReport;
use super::rig::{Arena, Bench};
use crate::error::CliError;
use crate::failure::Failure;
use crate::{host, output_file, process, quickest};
use infc::{CompileError, KernelOptions, MachineModel, Target, Task, compile_kernel, schedule_machine};
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::schedule;
use infc_runtime::{LoadOptions, Model, Pool};
use infc_tensor::{AlignedBytes, DType, Tensor};
use infc_tune::{Arithmetic, Compared, MachineProfile, Measure, Measured, Memory, plausible, with_machine};
use std::path::PathBuf;

/// A run launches a kernel so often that it takes about this long.
const RUN_SECONDS: f64 = 200e-6;
/// The product that tells how much arithmetic there is; it fits the second cache.
const PRODUCT: [usize; 3] = [96, 256, 256];
/// Additions of a chain.
const CHAIN: usize = 2048;
/// Numbers in a row of what is read.
const ROW: usize = 2048;

/// What kernels are measured with.
struct Measuring<'a> {
    target: &'a Target,
    pool: Pool,
    /// Seconds of a launch that does nothing.
    launch: f64,
}

/// What a profile is of, and where it is written.
pub(super) struct Place {
    /// This machine, as a target with a fixed machine.
    pub(super) target: Target,
    file: PathBuf,
}

/// Where this machine's profile is written. Only `native` takes profiles.
pub(super) fn place(target: &str) -> Result<Place, Failure> {
    if target != "native" {
        return Err(CliError::usage(format!("--target {target}: without a model, this machine is measured")).into());
    }
    let target = host::native_target().ok_or_else(|| CliError::usage("infc makes no code for this machine"))?;
    let Some(file) = host::profile_path(&target) else {
        return Err(CliError::usage("there is no folder for the user's data: HOME is not set").into());
    };
    // What was measured is not lost for want of a folder.
    let folder = file.parent().unwrap_or(&file).to_owned();
    std::fs::create_dir_all(&folder).map_err(|source| CliError::CannotWrite { path: folder, source })?;
    Ok(Place { target, file })
}

/// Measures this machine and writes its profile; `arena` is that of the target with the fixed machine.
///
/// Numbers alone do not say whether schedules that follow from them are quicker. So those of the built-in kernels are
/// measured, for the fixed machine, for that with the right caches, and for all that was measured; the profile tells the
/// one whose schedules are the quickest.
pub(super) fn profile<'t>(
    place: &Place,
    arena: Arena<'t>,
    tasks: &'t [Task],
    mut begun: impl FnMut(String),
) -> Result<(Target, ProfileReport), Failure> {
    let target = &place.target;
    let (mut measured, model) = measure(target, |what| begun(format!("measures {what}")))?;
    // What the system tells of the last cache is the whole.
    let share = |model: MachineModel| MachineModel { l3_bytes: model.l3_bytes / process::cores() as u64, ..model };
    let described = [
        ("fixed", target.machine),
        ("caches", plausible(share(caches(target)))),
        ("measured", plausible(share(model))),
    ];
    let mut bench = Bench::new(arena, None)?;
    let mut logs: [Vec<f64>; 3] = Default::default();
    for (n, task) in tasks.iter().enumerate() {
        begun(format!("schedules of built-in kernel {} of {} for the machine", n + 1, tasks.len()));
        if bench.default_seconds(task)?.is_none() {
            continue;
        }
        let chosen = described.map(|(_, machine)| {
            schedule::choose(&task.kernel, &schedule_machine(&with_machine(target, machine)), arena.allowed)
        });
        let mut of_task = [0.0; 3];
        let mut is_measured = true;
        for n in 1..chosen.len() {
            // The same schedule is measured once.
            of_task[n] = match (0..n).find(|&before| chosen[before] == chosen[n]) {
                Some(before) => of_task[before],
                None => match bench.compare(task, &chosen[n], None)? {
                    Some(verdict) => verdict.ratio.ln(),
                    None => {
                        is_measured = false;
                        0.0
                    }
                },
            };
        }
        if is_measured {
            logs.iter_mut().zip(of_task).for_each(|(all, log)| all.push(log));
        }
    }
    let best = taken(&logs);
    let ratios = logs.map(|logs| mean(&logs).exp());
    measured.compared = described
        .iter()
        .zip(ratios)
        .enumerate()
        .map(|(n, ((description, _), ratio))| Compared {
            description: (*description).to_owned(),
            ratio,
            taken: n == best,
        })
        .collect();
    let target = with_machine(target, described[best].1);
    let profile = MachineProfile::new(&target, process::processor(), measured);
    output_file::write(&place.file, profile.to_text().as_bytes())?;
    let (file, told) = (place.file.display().to_string(), target.machine.to_string());
    Ok((target, ProfileReport { file, told, measured: profile.measured }))
}

/// Which description to take, by the logarithms of the kernels' times over those of the first one: that with the least mean,
/// if it gains half a percent at least and more than chance; otherwise the first.
fn taken(logs: &[Vec<f64>]) -> usize {
    let is_quicker = |logs: &Vec<f64>| {
        let (count, mean) = (logs.len() as f64, mean(logs));
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Two standard errors: kernels differ, so that this is more than their noise.
        mean < 0.995f64.ln() && mean + 2.0 * (variance / count).sqrt() < 0.0
    };
    let quicker = logs.iter().enumerate().filter(|(_, logs)| is_quicker(logs));
    quicker.min_by(|a, b| mean(a.1).total_cmp(&mean(b.1))).map_or(0, |(n, _)| n)
}

/// 0 of nothing.
fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / (logs.len() as f64).max(1.0)
}

/// Measures the machine with code for a target, and says what schedules are to be told of it.
pub(super) fn measure(target: &Target, mut begun: impl FnMut(&str)) -> Result<(Measured, MachineModel), Failure> {
    let pool = Pool::builder().threads(1).build();
    let mut measuring = Measuring { target, pool, launch: 0.0 };
    begun("arithmetic");
    measuring.launch = measuring.seconds(&nothing(1), "")?;
    let lanes = f64::from(target.lanes(4));
    let chained = "split s.k by 16 -> o, i; unroll s.i";
    let of_chain = |text: &str| -> Result<f64, Failure> {
        Ok(measuring.seconds(&format!("kernel @chain({text}"), chained)? / (8 * CHAIN) as f64)
    };
    let ports = |dtype: &str| format!("x: {dtype}[{}]) -> (y: {dtype}[8])", CHAIN + 9);
    let stage = |what: &str| {
        format!("{{ stage s[n: 8, reduce k: {CHAIN}] = fold sum {what} stage o[n] = s[n] output y[n] = o[n] }}")
    };
    let cycle = of_chain(&format!("{} {}", ports("i32"), stage("x[n + k]")))?;
    let multiply_add = of_chain(&format!("{} {}", ports("f32"), stage("x[n + k] * x[n + k + 1]")))?;
    let mut arithmetic = Vec::new();
    let narrower = host::LEVELS.into_iter().map(Target::new).filter(host::runs_target);
    let narrower = narrower.filter(|level| level.machine.vector_bits < target.machine.vector_bits);
    for target in std::iter::once(target.clone()).chain(narrower) {
        let gflops = Measuring { target: &target, pool: measuring.pool.clone(), launch: 0.0 }.gflops()?;
        arithmetic.push(Arithmetic { target: target.to_string(), vector_bits: target.machine.vector_bits, gflops });
    }
    let caches = caches(target);
    let mut memory = Vec::new();
    for (level, bytes) in working_sets(&caches) {
        begun(level);
        memory.push(measuring.memory(level, bytes)?);
    }
    begun("threads");
    let (threads, hand_off) = measuring.hand_off()?;

    let per_cycle = |n: usize| memory.get(n).map_or(0.0, |memory| memory.read_gb_per_s * 1e9 * cycle);
    let loads_per_cycle = per_cycle(0) / f64::from(target.machine.vector_bits / 8);
    let fma_per_cycle = arithmetic.first().map_or(0.0, |first| first.gflops * 1e9 * cycle / (2.0 * lanes));
    let model = plausible(MachineModel {
        fma_per_cycle: whole(fma_per_cycle.round()),
        loads_per_cycle: whole(loads_per_cycle.round()),
        fma_latency: whole((multiply_add / cycle).round()),
        l2_bytes_per_cycle: whole(per_cycle(1)),
        l3_bytes_per_cycle: whole(per_cycle(2)),
        ..caches
    });
    let measured = Measured {
        cycle_ns: cycle * 1e9,
        multiply_add_cycles: multiply_add / cycle,
        loads_per_cycle,
        arithmetic,
        memory,
        threads,
        hand_off_us: hand_off.map(|seconds| seconds * 1e6),
        compared: Vec::new(),
    };
    Ok((measured, model))
}

/// The target's machine with the caches that the system tells of.
pub(super) fn caches(target: &Target) -> MachineModel {
    let mut machine = target.machine;
    for (level, bytes) in process::data_caches() {
        match level {
            1 => machine.l1d_bytes = bytes,
            2 => machine.l2_bytes = bytes,
            3 => machine.l3_bytes = bytes,
            _ => {}
        }
    }
    plausible(machine)
}

/// What is gone through to find out about each level: half of a core's own caches, less of what cores share.
fn working_sets(machine: &MachineModel) -> [(&'static str, u64); 4] {
    let third = (machine.l3_bytes / 4).max(2 * machine.l2_bytes);
    let memory = (3 * machine.l3_bytes).clamp(64 << 20, 512 << 20);
    [("L1", machine.l1d_bytes / 2), ("L2", machine.l2_bytes / 2), ("L3", third), ("memory", memory)]
}

fn whole(number: f64) -> u32 {
    // Saturates, and NaN is 0.
    number as u32
}

/// A kernel with so many chunks that do next to nothing.
fn nothing(chunks: usize) -> String {
    let points = 16 * chunks;
    format!(
        "kernel @nothing(x: f32[{points}]) -> (y: f32[{points}]) {{ stage o[n: {points}] = x[n] output y[n] = o[n] }}"
    )
}

impl Measuring<'_> {
    /// Seconds of a launch of a kernel, without what any launch costs; by the default choice if there is no schedule.
    fn seconds(&self, text: &str, schedule: &str) -> Result<f64, Failure> {
        let broken =
            |error: &dyn std::fmt::Display| CompileError::Internal { what: format!("kernel `{text}`: {error}") };
        let kernel: Kernel = text.parse().map_err(|error| broken(&error))?;
        let schedule: Option<Schedule> = match schedule {
            "" => None,
            steps => Some(steps.parse().map_err(|error| broken(&error))?),
        };
        let mut options = KernelOptions { schedule, ..KernelOptions::new(self.target.clone()) };
        // Of one launch of a small kernel most is what a run costs, so the first count is too small.
        let mut seconds = 0.0;
        for pass in 0..3 {
            if pass > 0 {
                options.launches = ((RUN_SECONDS / f64::max(seconds, 1e-9)).ceil() as usize).clamp(1, 1000);
            }
            let artifact = compile_kernel(&kernel, &options)?.artifact;
            let load = LoadOptions { pool: Some(self.pool.clone()), ..LoadOptions::default() };
            let model = Model::from_vec_with(artifact, &load)?;
            let ports = model.default_entry().inputs.clone();
            let inputs: Vec<Tensor> = ports.iter().map(made_up).collect::<Result<_, _>>()?;
            seconds = quickest::run_seconds(&model, &inputs)? / options.launches as f64;
            if pass == 0 && seconds >= RUN_SECONDS {
                break;
            }
        }
        Ok((seconds - self.launch).max(1e-12))
    }

    fn gflops(&self) -> Result<f64, Failure> {
        let [m, n, k] = PRODUCT;
        let text = format!(
            "kernel @product(x: f32[{m}, {k}], const w: f32[{}, {k}, 16]) -> (y: f32[{m}, {n}]) {{ \
               stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum x[m, k] * w[div(n, 16), k, mod(n, 16)] \
               stage o[m, n] = s[m, n] output y[m, n] = o[m, n] }}",
            n / 16
        );
        Ok(2.0 * (m * n * k) as f64 / self.seconds(&text, "")? / 1e9)
    }

    fn memory(&self, level: &str, bytes: u64) -> Result<Memory, Failure> {
        let count = usize::try_from(bytes / 4).unwrap_or(usize::MAX);
        let rows = (count / ROW).max(2);
        let read = format!(
            "kernel @read(x: f32[{rows}, {ROW}]) -> (y: f32[{rows}]) {{ \
               stage s[r: {rows}, reduce k: {ROW}] = fold max x[r, k] stage o[r] = s[r] output y[r] = o[r] }}"
        );
        let written = format!(
            "kernel @write(x: f32[16]) -> (y: f32[{count}]) {{ stage o[n: {count}] = x[0] output y[n] = o[n] }}"
        );
        let rate = |count: usize, seconds: f64| (4 * count) as f64 / seconds / 1e9;
        Ok(Memory {
            level: level.to_owned(),
            bytes,
            read_gb_per_s: rate(rows * ROW, self.seconds(&read, "")?),
            write_gb_per_s: rate(count, self.seconds(&written, "")?),
        })
    }

    /// How many threads there are, and how much longer a launch takes that all of them take part in.
    fn hand_off(&self) -> Result<(usize, Option<f64>), Failure> {
        let pool = Pool::shared();
        let threads = pool.threads();
        if threads < 2 {
            return Ok((threads, None));
        }
        let schedule = "split o.n by 16 -> c, i; parallel o: c";
        let of = |pool: Pool| Measuring { target: self.target, pool, launch: 0.0 }.seconds(&nothing(threads), schedule);
        let (alone, together) = (of(self.pool.clone())?, of(pool)?);
        Ok((threads, Some((together - alone).max(0.0))))
    }
}

/// An operand whose numbers are none that arithmetic is slow with.
fn made_up(port: &infc_artifact::PortSpec) -> Result<Tensor, Failure> {
    let too_large = || CliError::TooLarge { what: format!("operand `{}`", port.name) };
    let shape: Option<Vec<usize>> =
        port.shape.iter().map(|extent| extent.as_const().and_then(|n| usize::try_from(n).ok())).collect();
    let shape = shape.ok_or_else(too_large)?;
    let bytes = port.dtype.storage_bytes(shape.iter().product()).ok_or_else(too_large)?;
    let mut storage = AlignedBytes::zeroed(bytes);
    // 0.747 of 32-bit floats.
    storage.fill(if port.dtype == DType::F32 { 0x3f } else { 1 });
    Ok(Tensor::from_bytes(port.dtype, shape, storage).map_err(infc_runtime::RuntimeError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_description_has_to_be_quicker() {
        let taken = |ratios: [&[f64]; 3]| taken(&ratios.map(|ratios| ratios.iter().map(|ratio| ratio.ln()).collect()));
        let same = &[1.0; 6][..];
        assert_eq!(taken([same, &[0.9, 0.91, 0.9, 1.0, 0.92, 0.9], &[0.8, 0.82, 0.81, 0.8, 0.83, 0.8]]), 2);
        assert_eq!(taken([same, &[0.9, 0.91, 0.9, 1.0, 0.92, 0.9], &[1.0, 0.99, 0.98, 0.99, 0.98, 0.99]]), 1);
        assert_eq!(taken([same, &[0.998, 0.998, 0.997, 0.998, 0.998, 0.999], same]), 0, "less than half a percent");
        assert_eq!(taken([same, &[0.93, 1.02, 1.0, 0.95, 1.04, 0.99], same]), 0, "as likely chance");
        assert_eq!(taken([same, &[1.1, 0.5, f64::NAN, 0.5, 0.5, 0.5], same]), 0);
        assert_eq!(taken([&[], &[], &[]]), 0);
        assert_eq!(taken([&[1.0], &[0.5], &[1.0]]), 0, "one kernel says nothing of others");
    }

    /// Not how quick anything is, but that all was measured, and in the order that any machine has.
    #[test]
    fn machines_are_measured() {
        let Some(target) = host::native_target() else { return };
        let (measured, model) = measure(&target, |_| ()).expect("it is measured");
        assert!((0.05..5.0).contains(&measured.cycle_ns), "{measured:?}");
        assert!((1.5..20.0).contains(&measured.multiply_add_cycles), "{measured:?}");
        assert_eq!(measured.memory.len(), 4);
        assert!(measured.memory.iter().all(|memory| memory.read_gb_per_s > 0.1 && memory.write_gb_per_s > 0.1));
        assert!(measured.arithmetic.iter().all(|arithmetic| arithmetic.gflops > 0.1), "{measured:?}");
        assert_eq!(measured.arithmetic[0].target, target.to_string());
        assert_eq!(model, plausible(model));
        assert_eq!((model.vector_bits, model.vector_regs), (target.machine.vector_bits, target.machine.vector_regs));
    }
}
