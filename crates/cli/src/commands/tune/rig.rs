//! One kernel on the test bench: its default choice as an artifact, and trials of other schedules beside it.

use super::extents::{TYPICAL, typical};
use super::judgement::Judgement;
use super::proof;
use super::report::Refuted;
use super::trial::Trial;
use super::worker;
use crate::error::CliError;
use crate::failure::Failure;
use infc::{KernelKey, KernelOptions, SingleKernel, Task, VariantTarget, compile_kernel};
use infc_ir::kernel::Kernel;
use infc_ir::schedule::{Schedule, Step};
use infc_passes::ErrorClass;
use infc_tune::{Logged, Measure, Verdict};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A run launches a kernel so often that it takes about this long.
const RUN_SECONDS: f64 = 300e-6;
/// A trial that takes longer is given up.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Artifacts that are kept per kernel: one to be tried, and those that it may be tried beside.
const KEPT: usize = 4;

/// What all kernels share.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Arena<'a> {
    pub(in crate::commands) target: &'a VariantTarget,
    pub(in crate::commands) allowed: ErrorClass,
    /// How many threads run kernels.
    pub(in crate::commands) threads: usize,
    /// Where artifacts of single kernels lie.
    pub(in crate::commands) folder: &'a Path,
}

/// A kernel whose default choice was measured.
pub(in crate::commands) struct Rig<'a> {
    arena: Arena<'a>,
    kernel: &'a Kernel,
    /// What its files are called.
    name: String,
    symbols: Vec<i64>,
    launches: usize,
    /// The text of the kernel.
    definition: PathBuf,
    /// Sizes of tiles in the default choice.
    tiles: Vec<i64>,
    /// The artifact of the default choice.
    default: PathBuf,
    /// Artifacts of other schedules, the last one used behind; `None`: it cannot be compiled.
    others: VecDeque<(Schedule, Option<PathBuf>)>,
    /// How many there were.
    compiled: u64,
    /// Seconds per launch of the default choice, at its quickest.
    default_seconds: f64,
}

/// What became of a kernel's default choice.
pub(in crate::commands) enum Stand<'a> {
    Measured(Box<Rig<'a>>),
    /// It does not finish as it should, or takes too long.
    NotMeasured,
    /// It does not compute what the kernel's definition says, which is a bug; and what is wrong.
    Refuted(String),
}

impl<'a> Rig<'a> {
    /// Compiles the default choice, holds it against the kernel's definition, and measures it.
    pub(in crate::commands) fn stand(kernel: &'a Kernel, name: &str, arena: Arena<'a>) -> Result<Stand<'a>, Failure> {
        let mut rig = Self::unmeasured(kernel, name, arena);
        write(&rig.definition, kernel.to_string().as_bytes())?;
        let mut tried = Vec::new();
        for most in TYPICAL {
            rig.symbols = typical(kernel, most);
            if tried.contains(&rig.symbols) {
                continue;
            }
            let mut refuted = None;
            let is_measured = rig.measure_default(|rig| {
                let trial = rig.points(&[]).and_then(|_| rig.trial(&rig.default, &rig.default))?;
                refuted = trial.refuted().map(str::to_owned);
                Some(trial).filter(Trial::agrees).map(|trial| trial.incumbent_seconds)
            })?;
            if is_measured {
                return Ok(Stand::Measured(Box::new(rig)));
            }
            if let Some(refuted) = refuted {
                return Ok(Stand::Refuted(refuted));
            }
            rig.launches = 1;
            tried.push(rig.symbols.clone());
        }
        Ok(Stand::NotMeasured)
    }

    fn unmeasured(kernel: &'a Kernel, name: &str, arena: Arena<'a>) -> Self {
        Self {
            arena,
            kernel,
            name: name.to_owned(),
            symbols: typical(kernel, TYPICAL[0]),
            launches: 1,
            definition: arena.folder.join(format!("{name}.kernel")),
            tiles: Vec::new(),
            default: arena.folder.join(format!("{name}.infa")),
            others: VecDeque::new(),
            compiled: 0,
            default_seconds: 0.0,
        }
    }

    /// Settles how many launches a run has, for this choice and all that are compared with it, and how long one takes; false
    /// if that cannot be measured. `run_seconds` measures a run of the artifact that there is.
    fn measure_default(&mut self, mut run_seconds: impl FnMut(&Self) -> Option<f64>) -> Result<bool, Failure> {
        // Of one launch of a small kernel most is what a run costs, so the first count is too small.
        for pass in 0..3 {
            if pass > 0 {
                self.launches = ((RUN_SECONDS / self.default_seconds.max(1e-9)).ceil() as usize).clamp(1, 1000);
            }
            let default = self.compile_launches(None, self.launches)?;
            self.tiles = tiles(&default.scheduled.schedule);
            write(&self.default, &default.artifact)?;
            let Some(seconds) = run_seconds(self) else { return Ok(false) };
            self.default_seconds = seconds / self.launches as f64;
        }
        Ok(true)
    }

    /// How a schedule does beside another, or beside the default choice.
    pub(in crate::commands) fn compare(
        &mut self,
        candidate: &Schedule,
        incumbent: Option<&Schedule>,
    ) -> Result<Option<Verdict>, Failure> {
        Ok(self.trial_of(candidate, incumbent)?.and_then(|trial| trial.verdict()))
    }

    /// Whether a schedule computes what the default choice does for other values of the kernel's symbols, too; `None` if
    /// that cannot be found out.
    pub(in crate::commands) fn proves(&self, candidate: &Schedule) -> Result<Option<bool>, Failure> {
        if self.kernel.symbols.is_empty() {
            return Ok(Some(true));
        }
        let sets = proof::ragged(self.kernel);
        // One launch each: of large extents a run would take long.
        let paths = ["proof", "proof-default"].map(|what| self.arena.folder.join(format!("{}.{what}.infa", self.name)));
        for (path, schedule) in paths.iter().zip([Some(candidate), None]) {
            match self.compile_launches(schedule, 1) {
                Ok(single) => write(path, &single.artifact)?,
                Err(_) => return Ok(None),
            }
        }
        let [candidate, default] = &paths;
        let Some(points) = self.points(&sets) else { return Ok(None) };
        Ok(self.trial_process(candidate, default, &points, &proven_for(&sets)).map(|trial| trial.agrees()))
    }

    /// What two trials say of a schedule beside the default choice.
    pub(in crate::commands) fn judge(&mut self, candidate: &Schedule) -> Result<Judgement, Failure> {
        let mut trials = Vec::new();
        for _ in 0..2 {
            trials.extend(self.trial_of(candidate, None)?);
        }
        Ok(Judgement::of(&trials, self.proves(candidate)?, self.default_seconds))
    }

    /// A schedule beside another, or beside the default choice; `None` if one cannot be compiled or measured.
    fn trial_of(&mut self, candidate: &Schedule, incumbent: Option<&Schedule>) -> Result<Option<Trial>, Failure> {
        let beside = match incumbent {
            None => Some(self.default.clone()),
            Some(schedule) => self.artifact(schedule)?,
        };
        let candidate = self.artifact(candidate)?;
        Ok(candidate.zip(beside).and_then(|(candidate, beside)| self.trial(&candidate, &beside)))
    }

    /// The artifact of a schedule; `None` if it cannot be compiled.
    fn artifact(&mut self, schedule: &Schedule) -> Result<Option<PathBuf>, Failure> {
        let known = self.others.iter().position(|(other, _)| other == schedule);
        let entry = match known.and_then(|at| self.others.remove(at)) {
            Some(entry) => entry,
            None => {
                let path = self.arena.folder.join(format!("{}.{}.infa", self.name, self.compiled));
                self.compiled += 1;
                match self.compile_launches(Some(schedule), self.launches) {
                    Ok(single) => {
                        write(&path, &single.artifact)?;
                        (schedule.clone(), Some(path))
                    }
                    Err(_) => (schedule.clone(), None),
                }
            }
        };
        let path = entry.1.clone();
        self.others.push_back(entry);
        if self.others.len() > KEPT
            && let Some((_, Some(old))) = self.others.pop_front()
        {
            // The folder goes away at the end, whatever is left in it.
            drop(std::fs::remove_file(old));
        }
        Ok(path)
    }

    /// Measures an artifact beside another, in a process of its own; `None` if it does not finish as it should, or takes too
    /// long.
    fn trial(&self, candidate: &Path, incumbent: &Path) -> Option<Trial> {
        self.trial_process(candidate, incumbent, &self.points(&[])?, &self.measured_for())
    }

    /// What a trial says in a process of its own. One that crashes, as where memory beyond an operand is touched, says that the
    /// candidate computes something else.
    fn trial_process(&self, candidate: &Path, incumbent: &Path, points: &Path, arguments: &[String]) -> Option<Trial> {
        let mut words: Vec<OsString> = vec!["--definition".into(), self.definition.clone().into()];
        words.extend(["--trial".into(), candidate.into(), incumbent.into()]);
        words.extend(["--points".into(), points.into()]);
        words.extend(arguments.iter().map(OsString::from));
        words.extend((self.arena.allowed == ErrorClass::Exact).then(|| "--strict".into()));
        words.extend(["--threads".into(), self.arena.threads.to_string().into()]);
        if self.arena.target.cpu().is_none() {
            return serde_json::from_str(&worker::ask(&words, TRIAL_TIMEOUT)?).ok();
        }
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("tune").args(words);
        let (status, text) = finished(command, TRIAL_TIMEOUT)?;
        if has_crashed(status) {
            return Some(Trial::default());
        }
        serde_json::from_str(text.lines().last()?).ok().filter(|_| status.success())
    }

    /// The file that says what some elements of the outputs have to be, for these values of symbols, or for those that the
    /// kernel is measured with if there are none; `None` if that cannot be found out. It is computed when it is first asked for.
    fn points(&self, sets: &[Vec<i64>]) -> Option<PathBuf> {
        let of = if sets.is_empty() { listed(&self.symbols) } else { "proof".to_owned() };
        let path = self.arena.folder.join(format!("{}.{of}.points", self.name));
        if !path.exists() {
            let arguments = if sets.is_empty() { self.measured_for() } else { proven_for(sets) };
            let mut command = self.process()?;
            command.arg("--points").arg(&path).args(arguments);
            if self.arena.target.cpu().is_none() && self.arena.allowed > ErrorClass::Exact {
                command.arg("--matrices");
            }
            if !self.tiles.is_empty() {
                command.arg("--tiles").arg(listed(&self.tiles));
            }
            finished(command, TRIAL_TIMEOUT).filter(|(status, _)| status.success())?;
        }
        Some(path)
    }

    /// What judges this kernel.
    fn process(&self) -> Option<Command> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("tune").arg("--definition").arg(&self.definition);
        Some(command)
    }

    fn measured_for(&self) -> Vec<String> {
        if self.symbols.is_empty() { Vec::new() } else { vec!["--symbols".to_owned(), listed(&self.symbols)] }
    }

    fn compile_launches(&self, schedule: Option<&Schedule>, launches: usize) -> Result<SingleKernel, Failure> {
        let options = KernelOptions {
            schedule: schedule.cloned(),
            allowed: self.arena.allowed,
            launches,
            ..KernelOptions::new(self.arena.target.clone())
        };
        Ok(compile_kernel(self.kernel, &options)?)
    }
}

/// Sizes of the tiles that a schedule makes.
fn tiles(schedule: &Schedule) -> Vec<i64> {
    let sizes = schedule.steps.iter().filter_map(|step| match step {
        Step::Split { factor, .. } => Some(i64::from(*factor)),
        _ => None,
    });
    let mut sizes: Vec<i64> = sizes.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn proven_for(sets: &[Vec<i64>]) -> Vec<String> {
    sets.iter().flat_map(|set| ["--proof".to_owned(), listed(set)]).collect()
}

/// Numbers as an argument.
fn listed(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// How a process ended and what it said; `None` if it cannot be begun, or takes too long.
pub(super) fn finished(mut command: Command, timeout: Duration) -> Option<(ExitStatus, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut said = child.stdout.take()?;
    // A pipe that nobody reads holds little.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut said, &mut text).map(|_| text)
    });
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill().ok()?;
                child.wait().ok()?;
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    Some((status, reader.join().ok()?.ok()?))
}

/// Whether a process was ended for what its code did: by a signal of the processor's, and not by other processes or the
/// system. 4, 5, 7, 8, 10 and 11 are SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGBUS of macOS and SIGSEGV.
#[cfg(unix)]
fn has_crashed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal().is_some_and(|signal| [4, 5, 7, 8, 10, 11].contains(&signal))
}

/// The same of systems where an exception's code is the process's: 0xC0000005 and others, of severity "error".
#[cfg(not(unix))]
fn has_crashed(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| code.cast_unsigned() >> 28 == 0xc)
}

fn write(path: &Path, artifact: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, artifact).map_err(|source| CliError::CannotWrite { path: path.to_owned(), source }.into())
}

/// Measures on this machine, one kernel at a time, and writes down what it finds.
pub(super) struct Bench<'a> {
    pub(super) arena: Arena<'a>,
    rigs: HashMap<KernelKey, Rig<'a>>,
    log: Option<(PathBuf, File)>,
    /// Kernels whose default choice does not compute what they are, and what is wrong.
    pub(super) refuted: Vec<Refuted>,
}

impl<'a> Bench<'a> {
    /// Nothing was measured yet. A log is begun anew.
    pub(super) fn new(arena: Arena<'a>, log: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(source) => Err(CliError::CannotWrite { path: path.to_owned(), source }),
        };
        Ok(Self { arena, rigs: HashMap::new(), log: log.map(open).transpose()?, refuted: Vec::new() })
    }

    fn note(&mut self, line: &Logged) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.log else { return Ok(()) };
        let wrap = |source| CliError::CannotWrite { path: path.clone(), source };
        Ok(file.write_all(line.to_line().as_bytes()).map_err(wrap)?)
    }
}

impl<'a> Measure<'a> for Bench<'a> {
    type Error = Failure;

    fn default_seconds(&mut self, task: &'a Task) -> Result<Option<f64>, Failure> {
        let rig = match Rig::stand(&task.kernel, &task.key.to_string(), self.arena)? {
            Stand::Measured(rig) => Some(rig),
            Stand::NotMeasured => None,
            Stand::Refuted(what) => {
                self.refuted.push(Refuted { kernel: task.kernel.name.clone(), what });
                None
            }
        };
        let seconds = rig.as_ref().map(|rig| rig.default_seconds);
        self.rigs.extend(rig.map(|rig| (task.key, *rig)));
        self.note(&Logged::kernel(task, &self.arena.target.to_string(), self.arena.threads, seconds))?;
        Ok(seconds)
    }

    fn compare(
        &mut self,
        task: &'a Task,
        candidate: &Schedule,
        incumbent: Option<&Schedule>,
    ) -> Result<Option<Verdict>, Failure> {
        let Some(rig) = self.rigs.get_mut(&task.key) else { return Ok(None) };
        let verdict = rig.compare(candidate, incumbent)?;
        self.note(&Logged::trial(task, candidate, incumbent, verdict))?;
        Ok(verdict)
    }

    fn proves(&mut self, task: &'a Task, candidate: &Schedule) -> Result<bool, Failure> {
        let Some(rig) = self.rigs.get(&task.key) else { return Ok(false) };
        let holds = rig.proves(candidate)?.unwrap_or(false);
        self.note(&Logged::proof(task, candidate, holds))?;
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_runtime::Model;

    /// The launches of a run.
    fn launches(artifact: &Path) -> usize {
        Model::open(artifact).expect("an artifact for this machine").variant().programs[0].steps.len()
    }

    /// A process that was stopped says nothing of what it was to find out; one that crashed does.
    #[cfg(unix)]
    #[test]
    fn what_was_stopped_has_not_crashed() {
        let status = |script: &str| {
            Command::new("sh").args(["-c", script]).status().unwrap_or_else(|error| panic!("{script}: {error}"))
        };
        assert!(has_crashed(status("kill -SEGV $$")) && has_crashed(status("kill -ILL $$")));
        for other in ["kill -KILL $$", "kill -TERM $$", "exit 1", "exit 0"] {
            assert!(!has_crashed(status(other)), "{other}");
        }
    }

    /// What is compared launches the kernel equally often, or else the ratio of runs is not that of launches.
    #[test]
    fn all_artifacts_have_as_many_launches_as_the_default() {
        let text = "kernel @\"\"(x0: f32[64]) -> (y0: f32[64]) {\n  stage out0[n: 64] = x0[n] + x0[n]\n  \
                    output y0[n] = out0[n]\n}\n";
        let kernel = infc::recorded_kernel(text).expect("a kernel");
        let Some(target) = crate::host::native_target() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let target = target.into();
        let arena = Arena { target: &target, allowed: ErrorClass::Reassociating, threads: 1, folder: folder.path() };
        let mut rig = Rig::unmeasured(&kernel, "sum", arena);
        // A launch of 300 ns, and a microsecond for the run itself.
        let made_up = |rig: &Rig<'_>| Some(1e-6 + 300e-9 * launches(&rig.default) as f64);
        assert!(rig.measure_default(made_up).expect("it compiles"));
        let candidate = rig.artifact(&Schedule::default()).expect("a folder").expect("it compiles");
        assert_eq!(launches(&candidate), launches(&rig.default));
        // Enough for a run that takes about as long as it should, and the time is that of these runs.
        assert!((950..=1000).contains(&launches(&candidate)), "{}", launches(&candidate));
        assert!((300e-9..305e-9).contains(&rig.default_seconds), "{}", rig.default_seconds);
        assert!(!rig.measure_default(|_| None).expect("it compiles"));
    }
}
