//! Worker processes that run cases, replaced when they crash or take too long.

use super::find::Case;
use super::outcome::{CaseResult, Message, Outcome};
use crate::error::CliError;
use crate::stats::millis;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs all cases, `jobs` at a time, in processes of a program that serves them as `infc conformance --worker` does.
pub(super) fn run(
    program: &Path,
    cases: &[Case],
    targets: &[String],
    jobs: usize,
    limit: Duration,
) -> Result<BTreeMap<String, CaseResult>, CliError> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), CliError> {
        let mut worker = None;
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run_case(&mut worker, program, case, targets, limit)?;
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(case.name.clone(), result);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.clamp(1, cases.len().max(1))).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Runs one case in the worker, which is started if there is none and gone if it did not survive the case.
fn run_case(
    worker: &mut Option<Worker>,
    program: &Path,
    case: &Case,
    targets: &[String],
    limit: Duration,
) -> Result<CaseResult, CliError> {
    let begun = Instant::now();
    let mut result = CaseResult::default();
    let running = match worker {
        Some(running) => running,
        None => worker.insert(Worker::start(program, targets)?),
    };
    let end = match running.hand_out(case) {
        Ok(()) => loop {
            match running.messages.recv_timeout(limit) {
                Ok(Message::Outcome { target, outcome, runs, why }) => {
                    result.targets.insert(target, outcome);
                    result.runs = result.runs.or(runs);
                    result.why = result.why.or(why);
                }
                Ok(Message::Done) => break None,
                Err(RecvTimeoutError::Timeout) => break Some("time-limit"),
                Err(RecvTimeoutError::Disconnected) => break Some("crash"),
            }
        },
        // It died between two cases.
        Err(_) => Some("crash"),
    };
    if let Some(reason) = end {
        // The target in progress is to blame; those behind it were not begun.
        *worker = None;
        let mut left = targets.iter().filter(|target| !result.targets.contains_key(*target)).collect::<Vec<_>>();
        if !left.is_empty() {
            let guilty = left.remove(0).clone();
            result.targets.insert(guilty, Outcome::Fail(reason.to_owned()));
            let left: Vec<String> = left.into_iter().cloned().collect();
            if !left.is_empty() {
                let rest = run_case(&mut None, program, case, &left, limit)?;
                result.targets.extend(rest.targets);
                result.runs = result.runs.or(rest.runs);
                result.why = result.why.or(rest.why);
            }
        }
    }
    result.ms = millis(begun.elapsed());
    Ok(result)
}

/// A process that runs cases. It ends when this is dropped.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Message>,
}

impl Worker {
    fn start(program: &Path, targets: &[String]) -> Result<Self, CliError> {
        let wrap = |source| CliError::CannotRead { path: program.to_owned(), source };
        let mut command = Command::new(program);
        command.args(["conformance", "--worker", "--target", &targets.join(",")]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(wrap)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| wrap(std::io::ErrorKind::BrokenPipe.into()))?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, stdin, messages })
    }

    fn hand_out(&mut self, case: &Case) -> std::io::Result<()> {
        writeln!(self.stdin, "{}", case.folder.display())?;
        self.stdin.flush()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Serves cases by their names: some it does not survive.
    const SCRIPT: &str = r#"#!/bin/sh
while read -r case; do
  echo '{"Outcome":{"target":"a","outcome":"pass","runs":"native"}}'
  case $case in
    *crash*) exit 1 ;;
    *hang*) exec sleep 100 ;;
    *) echo '{"Outcome":{"target":"b","outcome":"wrong-values","runs":"native"}}'; echo '"Done"' ;;
  esac
done
"#;

    #[test]
    fn what_crashes_or_hangs_costs_one_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("worker");
        std::fs::write(&program, SCRIPT).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let case = |name: &str| Case { name: name.to_owned(), folder: name.into() };
        let cases = ["1", "2-crash", "3", "4-hang", "5"].map(case);
        let targets = ["a", "b"].map(str::to_owned);
        let results = run(&program, &cases, &targets, 2, Duration::from_secs(2)).unwrap();
        let outcome = |name: &str, target: &str| results[name].targets[target].to_string();
        for name in ["1", "2-crash", "3", "4-hang", "5"] {
            assert_eq!(outcome(name, "a"), "pass", "{name}");
        }
        for name in ["1", "3", "5"] {
            assert_eq!(outcome(name, "b"), "wrong-values", "{name}");
        }
        assert_eq!((outcome("2-crash", "b"), outcome("4-hang", "b")), ("crash".to_owned(), "time-limit".to_owned()));
        assert_eq!(results["1"].runs.as_deref(), Some("native"));
    }
}
