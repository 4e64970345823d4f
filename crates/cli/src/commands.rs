//! The commands, one file each.

mod bench;
mod check;
mod compare;
mod compile;
mod completions;
mod conformance;
mod custom_ops;
mod demo;
mod dims;
mod doctor;
mod explain;
mod inspect;
mod ops;
mod profile;
mod ptxas;
mod records;
mod run;
mod simplify;
mod targets;
mod tune;

use crate::console::Console;
use crate::failure::{Exit, Failure};
use crate::process::Start;

/// What infc is to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Check(check::CheckArgs),
    Compile(compile::CompileArgs),
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Bench(bench::BenchArgs),
    Profile(profile::ProfileArgs),
    Tune(tune::TuneArgs),
    Records(records::RecordsArgs),
    Inspect(inspect::InspectArgs),
    Simplify(simplify::SimplifyArgs),
    Demo(demo::DemoArgs),
    Targets(targets::TargetsArgs),
    Ops(ops::OpsArgs),
    Doctor(doctor::DoctorArgs),
    Explain(explain::ExplainArgs),
    Completions(completions::CompletionsArgs),
    Conformance(conformance::ConformanceArgs),
}

impl Command {
    /// As typed by the user, and part of the name of the JSON schema.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Check(_) => "check",
            Self::Compile(_) => "compile",
            Self::Run(_) => "run",
            Self::Compare(_) => "compare",
            Self::Bench(_) => "bench",
            Self::Profile(_) => "profile",
            Self::Tune(_) => "tune",
            Self::Records(_) => "records",
            Self::Inspect(_) => "inspect",
            Self::Simplify(_) => "simplify",
            Self::Demo(_) => "demo",
            Self::Targets(_) => "targets",
            Self::Ops(_) => "ops",
            Self::Doctor(_) => "doctor",
            Self::Explain(_) => "explain",
            Self::Completions(_) => "completions",
            Self::Conformance(_) => "conformance",
        }
    }

    pub(crate) fn run(self, console: &Console, started: Start) -> Result<Exit, Failure> {
        match self {
            Self::Check(arguments) => check::run(arguments, console),
            Self::Compile(arguments) => compile::run(arguments, console),
            Self::Run(arguments) => run::run(arguments, console),
            Self::Compare(arguments) => compare::run(arguments, console),
            Self::Bench(arguments) => bench::run(arguments, console, started),
            Self::Profile(arguments) => profile::run(arguments, console),
            Self::Tune(arguments) => tune::run(arguments, console),
            Self::Records(arguments) => records::run(arguments, console),
            Self::Inspect(arguments) => inspect::run(arguments, console),
            Self::Simplify(arguments) => simplify::run(arguments, console),
            Self::Demo(arguments) => demo::run(arguments, console),
            Self::Targets(arguments) => targets::run(&arguments, console),
            Self::Ops(arguments) => ops::run(&arguments, console),
            Self::Doctor(arguments) => doctor::run(&arguments, console),
            Self::Explain(arguments) => explain::run(&arguments, console),
            Self::Completions(arguments) => completions::run(&arguments, console),
            Self::Conformance(arguments) => conformance::run(arguments, console),
        }
    }
}
