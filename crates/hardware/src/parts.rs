//! The parts, each of which writes what it has seen as soon as it has.

use crate::arguments::{Arguments, Part};
use anyhow::{Result, bail, ensure};
use infc_hardware::device::Device;
use infc_hardware::instructions::Record;
use infc_hardware::kernels::{self, Outcome};
use infc_hardware::library::Python;
use infc_hardware::models::How;
use infc_hardware::report::Report;
use infc_hardware::speed::{self, Case, Launches};
use infc_hardware::sweep::{self, Sweep};
use infc_hardware::{child, today};
use infc_simgpu::Simulator;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the sanitizer looks for, and where what it says goes.
const TOOLS: [(&str, &str); 2] = [("memcheck", "memcheck.txt"), ("racecheck", "racecheck.txt")];
/// Random kernels that it watches.
const WATCHED: &str = "40";
/// The record of instructions.
const RECORD: &str = "instructions.json";
/// All that parts write but their reports.
pub(crate) const FILES: [&str; 3] = [RECORD, TOOLS[0].1, TOOLS[1].1];

/// Sees one part.
pub(crate) fn see(part: Part, arguments: &Arguments, deadline: Instant) -> Result<Report> {
    let device = if arguments.simulated {
        Device::new(Arc::new(Simulator::new(1).with_generation(90, 84).with_memory(1 << 30)))
    } else {
        match infc_runtime::installed_gpu() {
            Ok(gpu) => Device::new(gpu),
            Err(reason) => bail!("{reason}"),
        }
    };
    let mut report = Report::of(&device, today());
    report.write(&arguments.out)?;
    let seen = match part {
        Part::Instructions => instructions(&device, arguments, &mut report),
        Part::Kernels => kernels(&device, arguments, &mut report),
        Part::Speed => speed(&device, arguments, deadline, &mut report),
        Part::Models => models(arguments, deadline, &mut report),
        Part::Sanitizer => sanitizer(arguments, deadline, &mut report),
        Part::Sweep => sweep(&device, arguments, deadline, &mut report),
    };
    if let Err(error) = seen {
        report.broken(part.name(), &error);
    }
    Ok(report)
}

fn instructions(device: &Device, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let (record, failed) = Record::of(device, report.date.clone());
    std::fs::write(arguments.out.join(RECORD), record.text())?;
    report.outcome("instructions", Outcome { runs: record.outputs.len() + failed.len(), failed });
    let simulator = Device::new(Arc::new(Simulator::new(1).with_generation(90, 84)));
    report.instructions("instructions, as the simulator does them", record.compare(&simulator));
    Ok(())
}

fn kernels(device: &Device, arguments: &Arguments, report: &mut Report) -> Result<()> {
    ensure!(arguments.kernel_files.is_dir(), "{} is no folder", arguments.kernel_files.display());
    report.outcome("kernel files", kernels::files(device, &arguments.kernel_files, arguments.target));
    report.write(&arguments.out)?;
    report.outcome("products in large blocks", kernels::products(device, arguments.target, arguments.simulated));
    report.write(&arguments.out)?;
    report.outcome("random kernels", kernels::random(device, arguments.random, 1, arguments.target));
    Ok(())
}

fn speed(device: &Device, arguments: &Arguments, deadline: Instant, report: &mut Report) -> Result<()> {
    let (least, launches) = if arguments.simulated { (Duration::ZERO, 3) } else { (Duration::from_millis(20), 200) };
    let cases = cases(arguments);
    for case in &cases {
        match case.time(device, arguments.target, least) {
            Ok(speed) => report.speeds.push(speed),
            Err(error) => report.broken(&case.name, &error),
        }
        report.write(&arguments.out)?;
    }
    report.launches = Some(Launches::measure(device, arguments.target, launches)?);
    report.write(&arguments.out)?;
    if arguments.python == "off" {
        report.skipped.push("PyTorch was not asked for".to_owned());
        return Ok(());
    }
    // Half of what is left: models take time too.
    let until = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
    report.answer(python(arguments, until).cases(&cases)?);
    Ok(())
}

fn python(arguments: &Arguments, deadline: Instant) -> Python<'_> {
    Python { command: &arguments.python, small: arguments.simulated, deadline }
}

/// Those that are wanted.
fn cases(arguments: &Arguments) -> Vec<Case> {
    let mut cases = if arguments.simulated { speed::small_cases() } else { speed::cases() };
    cases.retain(|case| arguments.filter.as_ref().is_none_or(|filter| case.name.contains(filter)));
    cases
}

fn sweep(device: &Device, arguments: &Arguments, deadline: Instant, report: &mut Report) -> Result<()> {
    let least = if arguments.simulated { Duration::ZERO } else { Duration::from_millis(3) };
    let ptxas = match &*arguments.ptxas {
        _ if arguments.simulated => None,
        "off" => None,
        "auto" => Some(PathBuf::from("ptxas")).filter(|ptxas| Command::new(ptxas).arg("--version").output().is_ok()),
        path => Some(PathBuf::from(path)),
    };
    let how = sweep::How { most: arguments.choices, least, ptxas };
    for case in &cases(arguments) {
        if Instant::now() >= deadline {
            report.skipped.push(format!("{}: no time was left", case.name));
            continue;
        }
        match Sweep::of(case, device, arguments.target, &how) {
            Ok(sweep) => report.sweeps.push(sweep),
            Err(error) => report.broken(&case.name, &error),
        }
        report.write(&arguments.out)?;
    }
    Ok(())
}

fn models(arguments: &Arguments, deadline: Instant, report: &mut Report) -> Result<()> {
    if arguments.models.is_empty() {
        report.skipped.push("no models were given".to_owned());
        return Ok(());
    }
    let beside = std::env::current_exe()?.with_file_name("infc");
    let how = How {
        infc: arguments.infc.clone().unwrap_or(beside),
        precision: arguments.precision.clone(),
        ptxas: arguments.ptxas.clone(),
        tolerance: arguments.tolerance,
        runs: if arguments.simulated { 2 } else { 200 },
        dims: arguments.dims.clone(),
        target: format!("cuda:{}", arguments.target),
        deadline,
    };
    // Artifacts are as large as their models: they go when this ends.
    let folder = tempfile::tempdir_in(&arguments.out)?;
    for model in &arguments.models {
        let name = model.display().to_string();
        match how.run(model, folder.path()) {
            Ok(ran) => {
                if !ran.agrees {
                    report.failed.push((name, "it does not agree with the processor".to_owned()));
                }
                report.models.push(ran);
            }
            Err(error) => report.broken(&name, &error),
        }
        report.write(&arguments.out)?;
    }
    if arguments.python == "off" {
        report.skipped.push("ONNX Runtime was not asked for".to_owned());
        return Ok(());
    }
    report.answer(python(arguments, deadline).models(&arguments.models, &arguments.dims, &arguments.precision)?);
    Ok(())
}

/// Runs the kernels once more in processes that the sanitizer watches.
fn sanitizer(arguments: &Arguments, deadline: Instant, report: &mut Report) -> Result<()> {
    if arguments.simulated {
        report.skipped.push("the simulator is its own sanitizer".to_owned());
        return Ok(());
    }
    for (tool, file) in TOOLS {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new("compute-sanitizer");
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(std::env::current_exe()?);
        command.args(["--only", "kernels", "--random", WATCHED, "--target", &arguments.target.to_string()]);
        command.arg("--out").arg(folder.path()).arg("--kernel-files").arg(&arguments.kernel_files);
        let Some(said) = child::run(&mut command, "", deadline)? else {
            report.skipped.push("there is no compute-sanitizer on PATH".to_owned());
            return Ok(());
        };
        std::fs::write(arguments.out.join(file), said.output + &said.errors)?;
        let failed = (!said.status.success()).then(|| format!("{} (see {file})", said.status));
        report.outcome(tool, Outcome { runs: 1, failed: failed.into_iter().collect() });
        report.write(&arguments.out)?;
    }
    Ok(())
}
