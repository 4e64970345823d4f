//! A process that tries one schedule after the other on a GPU: a driver takes as long to begin as many trials, and what a wrong
//! kernel does to a GPU's memory does nothing to a process. One that a wrong kernel has ended is begun anew.
//!
//! A question is a line with the arguments that a process of its own would have been given, as a list in JSON; the answer is the
//! line that it would have said.

use super::{Definition, TuneArgs, judge};
use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use clap::Parser;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The process, once it was needed.
static WORKER: Mutex<Option<Worker>> = Mutex::new(None);

struct Worker {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    fn begin() -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.args(["tune", "--serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (questions, said) = (child.stdin.take()?, child.stdout.take()?);
        let (told, answers) = channel();
        // It ends with the process, or when nobody listens any more.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(said).lines();
            while let Some(Ok(line)) = lines.next()
                && told.send(line).is_ok()
            {}
        });
        Some(Self { child, questions, answers })
    }

    fn ask(&mut self, arguments: &[OsString], timeout: Duration) -> Option<String> {
        let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str()).collect();
        let mut line = serde_json::to_string(&words?).ok()?;
        line.push('\n');
        self.questions.write_all(line.as_bytes()).and_then(|()| self.questions.flush()).ok()?;
        self.answers.recv_timeout(timeout).ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended already where it was not too slow.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a process of these arguments would say; `None` if it fails, or takes too long. The next question is for another process
/// then.
pub(super) fn ask(arguments: &[OsString], timeout: Duration) -> Option<String> {
    let mut worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner);
    if worker.is_none() {
        *worker = Worker::begin();
    }
    let answer = worker.as_mut()?.ask(arguments, timeout);
    if answer.is_none() {
        *worker = None;
    }
    answer
}

/// The arguments of a question.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct Question {
    #[command(flatten)]
    arguments: TuneArgs,
}

/// Answers questions until there are none, or one cannot be answered: after a GPU has failed once it may fail for ever.
pub(super) fn serve(console: &Console) -> Result<Exit, Failure> {
    for line in io::stdin().lock().lines() {
        let usage = |error: &dyn std::fmt::Display| CliError::usage(format!("--serve: {error}"));
        let line = line.map_err(|error| usage(&error))?;
        let words: Vec<String> = serde_json::from_str(&line).map_err(|error| usage(&error))?;
        let question = Question::try_parse_from(words).map_err(|error| usage(&error))?;
        let definition = question.arguments.definition.as_deref();
        let definition = Definition::read(definition.ok_or_else(|| usage(&"expected --definition"))?)?;
        judge(&question.arguments, &definition, console)?;
    }
    Ok(Exit::Done)
}
