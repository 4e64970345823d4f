//! What a kernel takes by other decisions than those of the default choice: what the default's rules are made from.
//!
//! Every list of decisions is tried, those of the default's kind alone, up to a number of them. A driver translates one module after
//! the other, and takes longer for one than a GPU to run it: where there is `ptxas`, all processors of the host do.

use crate::device::{Code, Device, Times};
use crate::kernels::Compiled;
use crate::speed::Case;
use anyhow::{Context, Result, ensure};
use infc_codegen_ptx::PtxTarget;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::{self, GpuMachine};
use infc_runtime::GpuImage;
use infc_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How much slower than the default a choice may be to be timed again and again.
const HOPELESS: f64 = 4.0;

/// How it is done.
#[derive(Clone, Debug)]
pub struct How {
    /// Choices that are tried at most.
    pub most: usize,
    /// The time that a measurement takes, about.
    pub least: Duration,
    /// The assembler; the driver translates unless there is one.
    pub ptxas: Option<PathBuf>,
}

/// Lists of decisions that are looked at for each one that is tried: some give a schedule that others gave, or none.
const LISTS: usize = 20;

/// One list of decisions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Tried {
    /// What was decided otherwise: what it is about, and which alternative was taken.
    pub otherwise: Vec<(String, usize)>,
    /// Microseconds of a launch, the median.
    pub us: f64,
    /// The schedule.
    pub schedule: String,
}

/// What a case takes by other decisions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sweep {
    /// The case.
    pub name: String,
    /// Milliseconds that loading all modules took.
    pub load_ms: f64,
    /// All that ran, the quickest first.
    pub tried: Vec<Tried>,
    /// How many did not, and why one of them did not.
    pub failed: (usize, Option<String>),
}

impl Sweep {
    /// Microseconds of the default choice.
    #[must_use]
    pub fn default_us(&self) -> Option<f64> {
        self.tried.iter().find(|tried| tried.otherwise.is_empty()).map(|tried| tried.us)
    }

    /// Tries at most so many.
    ///
    /// # Errors
    /// The default choice cannot be timed.
    pub fn of(case: &Case, device: &Device, target: PtxTarget, how: &How) -> Result<Self> {
        let How { most, least, .. } = *how;
        let kernel = infc_passes::formulate::normalise(case.kernel()?);
        let choices = choices(&kernel, &case.machine(target), most);
        let operands: Vec<Tensor> =
            infc_testkit::buffers_of(&kernel, &[], &infc_testkit::random_inputs(&kernel, &[], 3));
        let begun = Instant::now();
        let loaded = loaded(&kernel, &choices, device, target, how);
        let load_ms = begun.elapsed().as_secs_f64() * 1e3;
        let mut sweep = Self { name: case.name.clone(), load_ms, tried: Vec::new(), failed: (0, None) };
        let mut default = f64::INFINITY;
        let buffers = operands.iter().map(|tensor| device.buffer(tensor.bytes())).collect::<Result<Vec<_>>>()?;
        for (choice, loaded) in choices.iter().zip(loaded) {
            let timed = loaded.and_then(|(compiled, code)| {
                let (grid, parameters) = compiled.launch(&[], &buffers)?;
                let operation = code.operation(grid, &parameters);
                let once = device.time(&[operation], Duration::ZERO)?;
                if once.seconds > HOPELESS * default { Ok(once) } else { device.time(&[operation], least) }
            });
            match timed {
                Ok(Times { seconds, .. }) => {
                    if choice.otherwise.is_empty() {
                        default = seconds;
                    }
                    let (otherwise, schedule) = (choice.otherwise.clone(), choice.schedule.to_string());
                    sweep.tried.push(Tried { otherwise, us: seconds * 1e6, schedule });
                }
                Err(error) => {
                    sweep.failed.0 += 1;
                    sweep.failed.1.get_or_insert(format!("{error:#}"));
                }
            }
        }
        sweep.default_us().context("the default choice was not timed")?;
        sweep.tried.sort_by(|a, b| a.us.total_cmp(&b.us));
        Ok(sweep)
    }
}

/// A list of decisions, and the schedule that follows from it.
struct Choice {
    otherwise: Vec<(String, usize)>,
    schedule: Schedule,
}

/// The default's and others, those with few decisions otherwise first.
fn choices(kernel: &Kernel, machine: &GpuMachine, most: usize) -> Vec<Choice> {
    let mut open: VecDeque<Vec<usize>> = VecDeque::from([Vec::new()]);
    let (mut found, mut seen): (Vec<Choice>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    let mut looked_at = 0;
    while let Some(picks) = open.pop_front() {
        let Some((schedule, met)) = gpu::decide(kernel, machine, ErrorClass::Reassociating, &picks) else { continue };
        for (n, decision) in met.iter().enumerate().skip(picks.len()).filter(|(_, d)| d.what != "kind") {
            let before: Vec<usize> = met[..n].iter().map(|decision| decision.picked).collect();
            open.extend((1..decision.alternatives).map(|other| [&before[..], &[other]].concat()));
        }
        if seen.insert(schedule.to_string()) {
            let changed = met.iter().filter(|decision| decision.picked > 0);
            let otherwise = changed.map(|decision| (decision.what.to_owned(), decision.picked)).collect();
            found.push(Choice { otherwise, schedule });
        }
        looked_at += 1;
        if found.len() >= most || looked_at >= LISTS * most {
            break;
        }
    }
    found
}

/// The modules of all choices, by as many threads as there are processors.
fn loaded(
    kernel: &Kernel,
    choices: &[Choice],
    device: &Device,
    target: PtxTarget,
    how: &How,
) -> Vec<Result<(Compiled, Code)>> {
    let next = Mutex::new(choices.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().ok().and_then(|mut next| next.next());
                    let Some((n, choice)) = taken else { return };
                    let compiled = Compiled::scheduled(kernel.clone(), &choice.schedule, target);
                    let loaded = compiled.and_then(|compiled| {
                        let image =
                            how.ptxas.as_deref().map(|ptxas| assembled(ptxas, compiled.text(), (target, device)));
                        let code = match image.transpose()? {
                            Some(image) => compiled.load(device, GpuImage::Cubin(&image))?,
                            None => compiled.load(device, GpuImage::Ptx(compiled.text()))?,
                        };
                        Ok((compiled, code))
                    });
                    if let Ok(mut done) = done.lock() {
                        done.push((n, loaded));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, loaded)| loaded).collect()
}

/// Machine code of a module for the GPU that there is.
fn assembled(ptxas: &Path, text: &str, (target, device): (PtxTarget, &Device)) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let [from, to] = ["kernel.ptx", "kernel.cubin"].map(|name| folder.path().join(name));
    std::fs::write(&from, text)?;
    let generation = format!("sm_{}", device.gpu().capability());
    let arch = if target.is_specific() { target.to_string() } else { generation };
    let said = Command::new(ptxas).args(["-arch", &arch]).arg(&from).arg("-o").arg(&to).output()?;
    ensure!(said.status.success(), "ptxas: {}", String::from_utf8_lossy(&said.stderr));
    Ok(std::fs::read(&to)?)
}
