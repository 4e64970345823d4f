//! A failed command: every error of every library, in the form that is rendered, with the exit code.

use crate::console::{Console, Style};
use crate::error::CliError;
use infc::CompileError;
use infc_artifact::ArtifactError;
use infc_frontend_onnx::ImportError;
use infc_runtime::RuntimeError;
use serde::Serialize;
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// How the process ends; the numbers are a contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Done,
    /// A bad input file, I/O, or a run that failed.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// All was done, but a condition that the user set does not hold.
    Condition,
    /// The model cannot be compiled.
    CannotCompile,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Condition => 3,
            Exit::CannotCompile => 4,
        })
    }
}

/// A node of the model that an error is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FailedNode {
    /// Its name, or that of its first output.
    name: String,
    op_type: String,
    domain: String,
    opset: i64,
    /// Position in the model's list of nodes.
    index: usize,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    message: String,
    /// What lies beneath, outermost first.
    causes: Vec<String>,
    nodes: Vec<FailedNode>,
    help: Option<String>,
    exit: Exit,
    /// The reader of standard output has gone: nothing to complain about.
    broken_pipe: bool,
}

impl Failure {
    /// Whether an entry is not for the extents that inputs have, or for those that a run tells, though a special case of it may be.
    pub(crate) fn is_of_dims(&self) -> bool {
        matches!(self.code, "runtime::assumption-failed" | "runtime::unmet-requirement" | "runtime::unexpected-result")
    }

    fn new(code: &'static str, error: &dyn Error, help: Option<String>, exit: Exit) -> Self {
        let message = error.to_string();
        let mut causes: Vec<String> = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            // Some messages tell their cause themselves.
            if !message.contains(&text) {
                causes.push(text);
            }
            next = cause.source();
        }
        Self { code, message, causes, nodes: Vec::new(), help, exit, broken_pipe: false }
    }

    /// Writing to standard output failed.
    pub(crate) fn stdout(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Self { broken_pipe, ..CliError::Stdout { source: error }.into() }
    }

    /// A message of the argument parser.
    pub(crate) fn usage(message: String, help: Option<String>) -> Self {
        Self { help, ..CliError::Usage { message }.into() }
    }

    /// The stable code, for tests.
    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// What happened, in a sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The code and the operators concerned, as one word: `onnx::unsupported-operator(TopK)`.
    pub(crate) fn word(&self) -> String {
        let mut operators: Vec<&str> = self.nodes.iter().map(|node| node.op_type.as_str()).collect();
        operators.sort_unstable();
        operators.dedup();
        if operators.is_empty() { self.code.to_owned() } else { format!("{}({})", self.code, operators.join(",")) }
    }

    /// How the process ends with this failure.
    pub(crate) fn exit(&self) -> Exit {
        if self.broken_pipe { Exit::Done } else { self.exit }
    }

    /// The same failure, said to have happened at a place: a file, an artifact of several.
    pub(crate) fn at(self, place: impl std::fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Tells the user.
    pub(crate) fn report(&self, console: &Console, command: &str) {
        if self.broken_pipe {
            return;
        }
        if console.is_json() {
            // A reader that has gone needs no message.
            let _ = console.json(&self.to_json(command));
        } else {
            console.stderr(&self.render(console));
        }
    }

    fn to_json(&self, command: &str) -> impl Serialize {
        #[derive(Serialize)]
        struct Report<'a> {
            schema: String,
            code: &'static str,
            message: &'a str,
            causes: &'a [String],
            nodes: &'a [FailedNode],
            help: Option<&'a str>,
        }
        Report {
            schema: format!("infc.{command}/1"),
            code: self.code,
            message: &self.message,
            causes: &self.causes,
            nodes: &self.nodes,
            help: self.help.as_deref(),
        }
    }

    fn render(&self, console: &Console) -> String {
        const NODES_SHOWN: usize = 8;
        let label = |text: &str| console.paint_err(Style::Label, text);
        let mut text = console.paint_err(Style::Error, &format!("error[{}]:", self.code));
        text.push_str(&format!(" {}", self.message));
        for cause in &self.causes {
            text.push_str(&format!("\n  {} {cause}", label("because:")));
        }
        // A single node is named by the message.
        if self.nodes.len() > 1 {
            let shown = if console.is_verbose() { self.nodes.len() } else { NODES_SHOWN };
            for node in self.nodes.iter().take(shown) {
                let FailedNode { name, op_type, opset, .. } = node;
                text.push_str(&format!("\n  {} {op_type} `{name}` (opset {opset})", label("node:")));
            }
            if self.nodes.len() > shown {
                text.push_str(&format!("\n  … and {} more (-v shows all)", self.nodes.len() - shown));
            }
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\n  {} {help}", label("help:")));
        }
        if self.code != "cli::usage" {
            text.push_str(&format!("\n  {} infc explain {}", label("more:"), self.code));
        }
        text
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        let exit = if error.is_usage() { Exit::Usage } else { Exit::Failed };
        Self::new(error.code(), &error, error.help(), exit)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let help = match &error {
            RuntimeError::CustomOps { .. } => {
                Some("infc has no custom operators: run it in the program that has".to_owned())
            }
            _ => None,
        };
        Self::new(error.code(), &error, help, Exit::Failed)
    }
}

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        Self::new(error.code(), &error, None, Exit::Failed)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let nodes = error.nodes().into_iter().map(|node| FailedNode {
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
            index: node.index,
        });
        let nodes = nodes.collect();
        let help = error.help().map(str::to_owned);
        Self { nodes, ..Self::new(error.code(), &error, help, import_exit(&error)) }
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Self {
        let exit = match &error {
            CompileError::UnknownTarget { .. }
            | CompileError::DuplicateTarget { .. }
            | CompileError::NoTargets
            | CompileError::Precision { .. }
            | CompileError::CannotStart { .. }
            | CompileError::UnknownSpecialCase { .. }
            | CompileError::BadSpecialCase { .. }
            | CompileError::TooManySpecialCases { .. } => Exit::Usage,
            CompileError::Dump { .. } | CompileError::BadDump { .. } | CompileError::Ptxas { .. } => Exit::Failed,
            CompileError::Fallback { .. } => Exit::Condition,
            _ => Exit::CannotCompile,
        };
        let help = match &error {
            CompileError::UnknownTarget { .. } => Some("`infc targets` lists them".to_owned()),
            CompileError::NoGpuCode { .. } => {
                Some("compile with `--target cpu`, or take these nodes out of the model".to_owned())
            }
            CompileError::Fallback { .. } => Some("leave out --deny-fallback to compile the model as it is".to_owned()),
            _ => None,
        };
        match error {
            CompileError::Import(error) => error.into(),
            CompileError::Artifact(error) => error.into(),
            error => Self::new(error.code(), &error, help, exit),
        }
    }
}

/// A file that is no valid model is a bad input file; flags that do not fit the model are a matter of usage; the rest
/// are models that infc cannot compile.
fn import_exit(error: &ImportError) -> Exit {
    match error {
        ImportError::Several { first, .. } => import_exit(first),
        ImportError::CannotRead { .. }
        | ImportError::Malformed { .. }
        | ImportError::NotAModel { .. }
        | ImportError::DanglingName { .. }
        | ImportError::DanglingOutput { .. }
        | ImportError::DuplicateName { .. }
        | ImportError::Cycle { .. }
        | ImportError::InvalidTensor { .. }
        | ImportError::ExternalDataMissing { .. }
        | ImportError::ExternalDataTooShort { .. }
        | ImportError::ExternalDataOutside { .. }
        | ImportError::ExternalDataInvalid { .. }
        | ImportError::CustomOpsSyntax { .. }
        | ImportError::InvalidCustomOp { .. } => Exit::Failed,
        ImportError::UnknownInput { .. } | ImportError::UnknownDim { .. } | ImportError::InvalidRange { .. } => {
            Exit::Usage
        }
        _ => Exit::CannotCompile,
    }
}
