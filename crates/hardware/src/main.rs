//! `infc-hardware`: everything that has to be seen on a GPU, in one command.
//!
//! ```text
//! cargo build --release -p infc-cli -p infc-hardware
//! target/release/infc-hardware --out seen --models model.onnx …
//! ```
//!
//! The executables need nothing but the driver, so that they can be carried to a machine that has a GPU and no compiler; there
//! they are started in a checkout of the project, whose kernel files they read.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "what a command says")]

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use infc_codegen_ptx::PtxTarget;
use infc_hardware::device::Device;
use infc_hardware::instructions::Record;
use infc_hardware::kernels::{self, Outcome};
use infc_hardware::library::{self, Answer};
use infc_hardware::models::How;
use infc_hardware::report::Report;
use infc_hardware::speed;
use infc_simgpu::Simulator;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What there is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Every instruction: recorded, and held to the simulator
    Instructions,
    /// Kernel files and random kernels, against the interpreter
    Kernels,
    /// Single kernels and launches, timed
    Speed,
    /// Models, against the processor, and timed
    Models,
    /// The same kernels, and networks, by PyTorch
    Library,
    /// Kernels again, watched by compute-sanitizer
    Sanitizer,
}

const PARTS: [Part; 6] = [Part::Instructions, Part::Kernels, Part::Speed, Part::Models, Part::Library, Part::Sanitizer];
/// What the sanitizer looks for.
const TOOLS: [&str; 2] = ["memcheck", "racecheck"];
/// Random kernels that it watches.
const WATCHED: &str = "40";

/// See on a GPU what only a GPU shows
#[derive(Debug, Parser)]
#[command(name = "infc-hardware")]
struct Arguments {
    /// Parts to be done; all unless given
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// A folder for `report.txt`, `report.json` and `instructions.json`
    #[arg(long, default_value = "hardware")]
    out: PathBuf,
    /// The folder of kernel files
    #[arg(long, default_value = "tests/filetests/kernel")]
    kernel_files: PathBuf,
    /// Random kernels
    #[arg(long, default_value_t = 300)]
    random: usize,
    /// The generation that code is made for; the oldest unless given
    #[arg(long, default_value = "sm_80")]
    target: PtxTarget,
    /// Models to be run
    #[arg(long, num_args = 1..)]
    models: Vec<PathBuf>,
    /// The sizes of their dynamic dims
    #[arg(long = "dim", value_name = "SYM=N")]
    dims: Vec<String>,
    /// Numbers that models are compiled to compute in
    #[arg(long, default_value = "f32")]
    precision: String,
    /// How far their outputs may be from the processor's
    #[arg(long, default_value_t = 1e-3)]
    tolerance: f64,
    /// The assembler that machine code is made with: `off`, `auto`, or where it is
    #[arg(long, default_value = "auto")]
    ptxas: String,
    /// The command for models; the one beside this executable unless given
    #[arg(long)]
    infc: Option<PathBuf>,
    /// A Python that has PyTorch; `off` for none
    #[arg(long, default_value = "python3")]
    python: String,
    /// Seconds after which no further part, and no further model, is begun
    #[arg(long, default_value_t = 480)]
    seconds: u64,
    /// Put the simulator in the place of the GPU, with kernels of a size for it
    #[arg(long)]
    simulated: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let begun = Instant::now();
    let device = if arguments.simulated {
        Device::new(Arc::new(Simulator::new(1).with_memory(1 << 30)))
    } else {
        match infc_runtime::installed_gpu() {
            Ok(gpu) => Device::new(gpu),
            Err(reason) => bail!("{reason}"),
        }
    };
    std::fs::create_dir_all(&arguments.out).with_context(|| arguments.out.display().to_string())?;
    let gpu = device.gpu();
    let (capability, version) = (gpu.capability(), gpu.ptx_version());
    let mut report = Report {
        machine: format!(
            "{}, compute capability {}.{}, driver for PTX {}.{}",
            gpu.name(),
            capability / 10,
            capability % 10,
            version / 10,
            version % 10
        ),
        date: today(),
        ..Report::default()
    };
    for part in PARTS {
        if !arguments.only.is_empty() && !arguments.only.contains(&part) {
            continue;
        }
        if begun.elapsed() > Duration::from_secs(arguments.seconds) {
            report.failed.push((format!("{part:?}"), "no time was left".to_owned()));
            continue;
        }
        println!("{part:?} …");
        if let Err(error) = see(part, &device, &arguments, begun, &mut report) {
            report.broken(&format!("{part:?}"), &error);
        }
        // What was seen so far, in case that the next part takes the process with it.
        write(&arguments, &report)?;
    }
    print!("{}", report.text());
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn see(part: Part, device: &Device, arguments: &Arguments, begun: Instant, report: &mut Report) -> Result<()> {
    match part {
        Part::Instructions => {
            let record = Record::of(device, report.date.clone())?;
            std::fs::write(arguments.out.join("instructions.json"), record.text())?;
            let simulator = Device::new(Arc::new(Simulator::new(1)));
            report.instructions("instructions, as the simulator does them", record.compare(&simulator));
        }
        Part::Kernels => {
            ensure!(arguments.kernel_files.is_dir(), "{} is no folder", arguments.kernel_files.display());
            report.outcome("kernel files", kernels::files(device, &arguments.kernel_files, arguments.target));
            report.outcome("random kernels", kernels::random(device, arguments.random, 1, arguments.target));
        }
        Part::Speed => {
            let (cases, least, launches) = if arguments.simulated {
                (speed::small_cases(), Duration::ZERO, 3)
            } else {
                (speed::cases(), Duration::from_millis(20), 200)
            };
            for case in cases {
                match case.time(device, arguments.target, least) {
                    Ok(speed) => report.speeds.push(speed),
                    Err(error) => report.broken(&case.name, &error),
                }
            }
            report.launches = Some(speed::Launches::measure(device, arguments.target, launches)?);
        }
        Part::Models => {
            let beside = std::env::current_exe()?.with_file_name("infc");
            let how = How {
                infc: arguments.infc.clone().unwrap_or(beside),
                precision: arguments.precision.clone(),
                ptxas: arguments.ptxas.clone(),
                tolerance: arguments.tolerance,
                runs: if arguments.simulated { 2 } else { 200 },
                dims: arguments.dims.clone(),
            };
            let folder = arguments.out.join("models");
            std::fs::create_dir_all(&folder)?;
            for model in &arguments.models {
                let name = model.display().to_string();
                if begun.elapsed() > Duration::from_secs(arguments.seconds) {
                    report.failed.push((name, "no time was left".to_owned()));
                    continue;
                }
                println!("  {name}");
                match how.run(model, &folder) {
                    Ok(ran) => {
                        if !ran.agrees {
                            report.failed.push((name, "it does not agree with the processor".to_owned()));
                        }
                        report.models.push(ran);
                    }
                    Err(error) => report.broken(&name, &error),
                }
            }
            // Artifacts are as large as their models.
            std::fs::remove_dir_all(&folder)?;
        }
        Part::Library if arguments.python == "off" => report.skipped.push("PyTorch was not asked for".to_owned()),
        Part::Library => {
            let cases = if arguments.simulated { speed::small_cases() } else { speed::cases() };
            match library::ask(&arguments.python, &cases, arguments.simulated)? {
                Answer::Said(said) => report.library(&said),
                Answer::Missing(reason) => report.skipped.push(reason),
            }
        }
        Part::Sanitizer if arguments.simulated => report.skipped.push("the simulator is its own sanitizer".to_owned()),
        Part::Sanitizer => sanitize(arguments, report)?,
    }
    Ok(())
}

/// Runs the kernels once more in processes that the sanitizer watches.
fn sanitize(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let own = std::env::current_exe()?;
    for tool in TOOLS {
        let mut command = Command::new("compute-sanitizer");
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(&own);
        command.args(["--only", "kernels", "--random", WATCHED, "--out"]).arg(arguments.out.join(tool));
        command.arg("--kernel-files").arg(&arguments.kernel_files);
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                report.skipped.push("there is no compute-sanitizer on PATH".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                std::fs::write(arguments.out.join(format!("{tool}.txt")), &said)?;
                let failed = (!output.status.success()).then(|| format!("{} (see {tool}.txt)", output.status));
                report.outcome(tool, Outcome { runs: 1, failed: failed.into_iter().collect() });
            }
        }
    }
    Ok(())
}

fn write(arguments: &Arguments, report: &Report) -> Result<()> {
    std::fs::write(arguments.out.join("report.txt"), report.text())?;
    let mut json = serde_json::to_string_pretty(report)?;
    json.push('\n');
    Ok(std::fs::write(arguments.out.join("report.json"), json)?)
}

/// As in 2026-11-25, by the clock of the machine, in its time zone zero.
fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = i64::try_from(seconds / 86_400).unwrap_or(0);
    // From days to the civil calendar (years that begin in March, eras of 400 years).
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (month, day) = (if month < 10 { month + 3 } else { month - 9 }, of_year - (153 * month + 2) / 5 + 1);
    let year = year + 400 * era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
