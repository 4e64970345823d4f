//! `infc inspect ART`: what an artifact holds, without running it.

mod graph;
mod report;
mod text;
mod thin;

use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::model_file;
use infc_artifact::Artifact;
use infc_mapfile::MappedFile;
use report::Report;
use std::path::{Path, PathBuf};

/// Show what an artifact holds
///
/// Bytes per section, inputs and outputs, variants, kernels with how they were made, and the memory plan; -v tells of
/// schedules, weights and memory one by one. With --graph, kernels and what flows between them are drawn; with --thin,
/// an artifact with one variant only is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc inspect digits.infa\n  infc inspect digits.infa --graph digits.svg")]
pub(crate) struct InspectArgs {
    /// The artifact, or - for standard input
    artifact: PathBuf,
    /// Tell of this variant; of the one that this machine runs, or else the first, unless given
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// The size of a dynamic dim in the memory plan; its minimum, at least 1, or that doubled until the model takes it, unless given
    #[arg(long, value_name = "SYM=N")]
    dim: Vec<String>,
    /// Also read all sections and compare their hashes
    #[arg(long)]
    verify: bool,
    /// Draw the kernels of the variant and what flows between them: OUT.svg for browsers, OUT.onnx for viewers of
    /// ONNX, OUT.dot for Graphviz
    #[arg(long, value_name = "OUT", value_parser = graph::Target::parse)]
    graph: Option<graph::Target>,
    /// Write an artifact that holds this variant alone, and the weights that it needs
    #[arg(long, value_name = "TARGET", requires = "output", conflicts_with_all = ["target", "graph"])]
    thin: Option<String>,
    /// Where to write it, or - for standard output
    #[arg(short, long, value_name = "OUT.infa", requires = "thin")]
    output: Option<PathBuf>,
}

/// The bytes of an artifact.
enum Bytes {
    Mapped(MappedFile),
    Read(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file,
            Self::Read(bytes) => bytes,
        }
    }
}

fn read(path: &Path) -> Result<Bytes, CliError> {
    if model_file::is_stream(path) {
        return Ok(Bytes::Read(model_file::read_stdin()?));
    }
    let file = MappedFile::open(path).map_err(|source| CliError::CannotRead { path: path.to_owned(), source })?;
    Ok(Bytes::Mapped(file))
}

pub(crate) fn run(arguments: InspectArgs, console: &Console) -> Result<Exit, Failure> {
    let InspectArgs { artifact: path, target, dim, verify, graph, thin, output } = arguments;
    let bytes = read(&path)?;
    let at = |error: infc_artifact::ArtifactError| Failure::from(error).at(format_args!("`{}`", path.display()));
    let artifact = Artifact::read(&bytes).map_err(at)?;
    if verify {
        artifact.verify_all().map_err(at)?;
    }
    if let (Some(target), Some(output)) = (thin, output) {
        thin::write(&artifact, &bytes, &target, &output, console)?;
        return Ok(Exit::Done);
    }
    if let Some(graph) = graph {
        graph.write(&path, &artifact, target.as_deref(), &dim, console)?;
        return Ok(Exit::Done);
    }
    let report = Report::new(&path, &artifact, bytes.len(), target.as_deref(), &dim, verify)?;
    if console.is_json() {
        console.json(&report)?
    } else {
        text::print(&report, console)?
    }
    Ok(Exit::Done)
}
