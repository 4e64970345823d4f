//! `cargo xtask`: the chores of infc's developers, written in Rust so that they run wherever infc builds.
//!
//! Each subcommand is one module: its arguments as a clap struct, and `run`. Nothing here is part of what users get.
#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod cost_model;
mod demo_train;
mod models;
mod peer_run;
mod peers;
mod python;
mod random_models;
mod simplified;
mod workspace;

use clap::{Parser, Subcommand};

/// Automation for infc's developers.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure single kernels against the machine's roofline.
    Bench(bench::Arguments),
    /// Run ONNX's conformance cases and compare with the list of those that pass.
    Conformance(conformance::Arguments),
    /// Tell how well the tuner's cost model orders schedules of models that it has not seen.
    CostModel(cost_model::Arguments),
    /// Hold whole models to what is promised of them: kernels alone, the same bytes, agreement, the same bits.
    Models(models::Arguments),
    /// Measure infc beside other inference engines on the same models, and print the ratios.
    Peers(peers::Arguments),
    /// Run one turn of infc in the way `peers.py` asks of an external program.
    PeerRun(peer_run::Arguments),
    /// Compile and run random models, and compare with the definitions of their operators.
    RandomModels(random_models::Arguments),
    /// Simplify models, and hold what is written to ONNX's checker and to the outputs of the original.
    Simplified(simplified::Arguments),
    /// Train the network of `infc demo` again and write its files.
    DemoTrain(demo_train::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Conformance(arguments) => conformance::run(&arguments),
        Task::CostModel(arguments) => cost_model::run(&arguments),
        Task::Models(arguments) => models::run(&arguments),
        Task::Peers(arguments) => peers::run(&arguments),
        Task::PeerRun(arguments) => peer_run::run(&arguments),
        Task::RandomModels(arguments) => random_models::run(&arguments),
        Task::Simplified(arguments) => simplified::run(&arguments),
        Task::DemoTrain(arguments) => demo_train::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Arguments::command().debug_assert();
    }
}
