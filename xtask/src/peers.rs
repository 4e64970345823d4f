//! `cargo xtask peers`: infc beside other inference engines, measured by `peers.py` in one interleaved run per model.
//!
//! The script lies outside this repository, with the models' recipes (`make_models.py`); `--scripts` says where. This
//! task builds infc, makes the models that are asked for by name and missing, compiles each one, hands
//! `cargo xtask peer-run` to the script as the external program, keeps its reports, and prints ratios.

mod report;

use crate::{peer_run, python, workspace};
use anyhow::{Context, Result, bail};
use report::Report;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What `peers.py` itself imports.
const MODULES: [&str; 4] = ["numpy", "onnx", "onnxruntime", "psutil"];
/// Peers that read a second form of the model, which `make_models.py` writes beside the ONNX file.
const TORCH_PEERS: [&str; 2] = ["torch", "inductor"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models: ONNX files with a NAME.inputs.npz beside them, or names that `make_models.py` knows.
    #[arg(value_name = "MODEL", default_values = ["resnet50", "mobilenet_v2", "minilm_l6"])]
    models: Vec<String>,
    /// Engines to compare with, by the names that `peers.py` gives them.
    #[arg(long, default_value = "ort", value_delimiter = ',', value_name = "NAMES")]
    peers: Vec<String>,
    /// Threads, for every engine.
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Counted runs per engine.
    #[arg(long, default_value_t = 30)]
    runs: u32,
    /// Measure this program instead of building infc.
    #[arg(long, value_name = "PATH")]
    infc: Option<PathBuf>,
    #[command(flatten)]
    flags: peer_run::CompileFlags,
    /// Python interpreter with the engines to compare with.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Folder of `peers.py` and `make_models.py` (default: ../shared/bench beside the workspace).
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// Folder of the models made by name (default: target/peers/models).
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Folder for the reports, one JSON file per model (default: target/peers).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File to lock during timed parts, where several measurements share the machine.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let bench = Bench::prepare(arguments)?;
    let mut reports = Vec::new();
    for asked_for in &arguments.models {
        let model = bench.model(asked_for)?;
        reports.push(bench.measure(&model)?);
    }
    let mut text = String::new();
    for peer in &arguments.peers {
        text.push_str(&report::table(&reports, peer));
    }
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the tables")
}

/// Everything about a measurement that does not depend on the model.
struct Bench<'a> {
    arguments: &'a Arguments,
    infc: PathBuf,
    python: PathBuf,
    scripts: PathBuf,
    models: PathBuf,
    out: PathBuf,
}

impl<'a> Bench<'a> {
    fn prepare(arguments: &'a Arguments) -> Result<Self> {
        let scripts = arguments.scripts.clone().unwrap_or_else(|| workspace::root().join("../shared/bench"));
        if !scripts.join("peers.py").is_file() {
            bail!("there is no peers.py in {}; say where it is with --scripts", scripts.display());
        }
        let python = python::find(arguments.python.as_deref(), &MODULES)?;
        let out = match &arguments.out {
            Some(folder) => folder.clone(),
            None => workspace::target_dir()?.join("peers"),
        };
        std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let models = arguments.models_dir.clone().unwrap_or_else(|| out.join("models"));
        let infc = match &arguments.infc {
            Some(program) => std::path::absolute(program).with_context(|| format!("no path: {}", program.display()))?,
            None => workspace::build_infc()?,
        };
        Ok(Self { arguments, infc, python, scripts, models, out })
    }

    /// The file of a model that was asked for by path or by name; makes it if it has a name and is missing.
    fn model(&self, asked_for: &str) -> Result<PathBuf> {
        if Path::new(asked_for).extension().is_some_and(|extension| extension == "onnx") {
            return std::path::absolute(asked_for).with_context(|| format!("not a path: {asked_for}"));
        }
        let file = self.models.join(format!("{asked_for}.onnx"));
        let wants_torch = self.arguments.peers.iter().any(|peer| TORCH_PEERS.contains(&peer.as_str()));
        if file.is_file() && (!wants_torch || file.with_extension("pt2").is_file()) {
            return Ok(file);
        }
        let mut make = Command::new(&self.python);
        make.arg(self.scripts.join("make_models.py")).arg(&self.models).arg(asked_for);
        if !wants_torch {
            make.arg("--no-torch");
        }
        let status = make.status().with_context(|| format!("cannot start {}", self.python.display()))?;
        if !status.success() {
            bail!("make_models.py could not make `{asked_for}`: {status}");
        }
        Ok(file)
    }

    /// Compiles and measures one model; the report stays in the output folder.
    fn measure(&self, model: &Path) -> Result<Report> {
        let stem = model.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.with_context(|| format!("the model's name is not Unicode: {}", model.display()))?;
        let artifacts = self.out.join("artifacts");
        let artifact = peer_run::artifact_path(&artifacts, model)?;
        let started = Instant::now();
        peer_run::compile(&self.infc, model, &artifact, &self.arguments.flags)?;
        let compile_s = started.elapsed().as_secs_f64();

        let json = self.out.join(format!("{stem}-{}.json", self.arguments.threads));
        let mut measure = Command::new(&self.python);
        measure
            .arg(self.scripts.join("peers.py"))
            .arg(model)
            .args(["--threads", &self.arguments.threads.to_string()])
            .args(["--runs", &self.arguments.runs.to_string()])
            .args(["--peers", &self.arguments.peers.join(",")])
            .args(["--cmd", &format!("{}={}", report::INFC, self.adapter(&artifacts)?)])
            .arg("--cache")
            .arg(self.out.join("compiled"))
            .arg("--json")
            .arg(&json);
        if let Some(lock) = &self.arguments.lock {
            measure.arg("--lock").arg(lock);
        }
        let status = measure.status().with_context(|| format!("cannot start {}", self.python.display()))?;
        if !status.success() {
            bail!("peers.py failed on {}: {status}", model.display());
        }
        let text = std::fs::read_to_string(&json).with_context(|| format!("cannot read {}", json.display()))?;
        Report::parse(stem, compile_s, &text).with_context(|| format!("cannot understand {}", json.display()))
    }

    /// The command that `peers.py` starts for infc, before it appends model, threads and runs.
    fn adapter(&self, artifacts: &Path) -> Result<String> {
        let xtask = std::env::current_exe().context("cannot tell where xtask itself lies")?;
        let mut words = vec![quoted(&xtask)?, "peer-run".to_owned(), "--infc".to_owned(), quoted(&self.infc)?];
        for word in self.arguments.flags.words() {
            words.push(quoted(Path::new(word))?);
        }
        words.push(quoted(artifacts)?);
        Ok(words.join(" "))
    }
}

/// A path as one word of a POSIX shell command line, which is how `peers.py` splits its commands.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("not Unicode: {}", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_the_shell() -> Result<()> {
        assert_eq!(quoted(Path::new("/a b/infc"))?, "'/a b/infc'");
        assert_eq!(quoted(Path::new("it's"))?, r"'it'\''s'");
        Ok(())
    }
}
