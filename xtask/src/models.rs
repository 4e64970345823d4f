//! `cargo xtask models`: whole models, held to what every release promises of them.
//!
//! Per model: every node becomes a kernel; two compilations in different folders give the same bytes; on each level that
//! this machine has, the outputs agree with those recorded beside the model, or else with the definitions of its
//! operators; one thread and two give the same bits; and every node becomes a kernel for GPUs, too. The models are not part of the
//! repository.

use crate::workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Trained models that lie in folders of their own, with recorded data.
const RECORDED: [&str; 7] = [
    "g1_policy_mlp",
    "super_resolution",
    "ultraface_rfb320",
    "yolox_nano",
    "dnsmos_extdata",
    "magika_v3_3",
    "basic_pitch",
];
/// Models that `cargo xtask peers` makes, with inputs alone.
const MADE: [&str; 4] = ["resnet50", "mobilenet_v2", "minilm_l6", "deit_tiny"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models: ONNX files with NAME.inputs.npz beside them, or folders of a model.onnx and test_data_set_N. Without any,
    /// those of the first release, as far as they are on this machine.
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// The command `infc`; built in release mode unless given.
    #[arg(long, value_name = "PATH")]
    infc: Option<PathBuf>,
    /// Folder of the models with recorded data (default: ../shared/models beside the workspace).
    #[arg(long, value_name = "DIR")]
    recorded: Option<PathBuf>,
    /// Folder of the models without (default: target/peers/models).
    #[arg(long, value_name = "DIR")]
    made: Option<PathBuf>,
}

#[expect(clippy::print_stdout, reason = "what holds is output of the task")]
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let models = models(arguments)?;
    let infc = match &arguments.infc {
        Some(path) => fs::canonicalize(path).with_context(|| path.display().to_string())?,
        None => workspace::build_infc()?,
    };
    let mut failed = Vec::new();
    for path in &models {
        let Some(model) = Model::find(path) else {
            println!("skipped: there is no model at {}", path.display());
            continue;
        };
        match model.check(&infc) {
            Ok(targets) => println!("{:24} holds on {}", model.name, targets.join(", ")),
            Err(error) => {
                println!("{:24} {error:#}", model.name);
                failed.push(model.name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{} does not keep what is promised", failed.join(", ")) }
}

/// Where the models are, or would be.
fn models(arguments: &Arguments) -> Result<Vec<PathBuf>> {
    if !arguments.models.is_empty() {
        return Ok(arguments.models.clone());
    }
    let recorded = arguments.recorded.clone().unwrap_or_else(|| workspace::root().join("../shared/models"));
    let made = match &arguments.made {
        Some(folder) => folder.clone(),
        None => workspace::target_dir()?.join("peers/models"),
    };
    let of_made = MADE.iter().map(|name| made.join(format!("{name}.onnx")));
    Ok(RECORDED.iter().map(|name| recorded.join(name)).chain(of_made).collect())
}

/// A model, and what to feed it with.
struct Model {
    name: String,
    file: PathBuf,
    /// Inputs, and how expected outputs are known, as arguments of `infc`.
    inputs: Vec<String>,
    expected: Vec<String>,
}

impl Model {
    fn find(path: &Path) -> Option<Self> {
        let path = fs::canonicalize(path).ok()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if path.is_dir() {
            let file = path.join("model.onnx");
            let data = vec!["--data".to_owned(), text(&path.join("test_data_set_0"))];
            let name = path.file_name()?.to_string_lossy().into_owned();
            return file.is_file().then_some(Self { name, file, inputs: data, expected: Vec::new() });
        }
        let name = path.file_stem()?.to_string_lossy().into_owned();
        let inputs = vec!["--inputs".to_owned(), text(&path.with_extension("inputs.npz"))];
        let expected = vec!["--model".to_owned(), text(&path)];
        Some(Self { name, file: path, inputs, expected })
    }

    /// The targets on which everything holds.
    fn check(&self, infc: &Path) -> Result<Vec<String>> {
        let folders = ["one", "a/longer/two"].map(|name| -> Result<PathBuf> {
            let folder = workspace::target_dir()?.join("models").join(name);
            fs::create_dir_all(&folder)?;
            Ok(folder)
        });
        let [one, two] = folders;
        let (one, two) = (one?, two?);
        let artifact = one.join(format!("{}.infa", self.name));
        self.compile(infc, &self.file, &one, &artifact)?;
        let copy = copy_beside_data(&self.file, &two)?;
        let again = two.join("again.infa");
        self.compile(infc, &copy, &two, &again)?;
        if fs::read(&artifact)? != fs::read(&again)? {
            bail!("two folders give two artifacts");
        }
        fs::remove_dir_all(&two)?;

        let (file, for_gpus) = (self.file.to_string_lossy(), one.join("cuda.infa"));
        let for_gpus = for_gpus.to_string_lossy();
        checked(infc, &one, &["compile", &file, "--target", "cuda", "--deny-fallback", "-o", &for_gpus])
            .context("cuda")?;

        let artifact_name = artifact.to_string_lossy().into_owned();
        let inspected = checked(infc, &one, &["inspect", &artifact_name, "--format", "json"])?;
        let targets = runnable(&inspected.stdout)?;
        for target in &targets {
            let on = ["--target", target];
            let run = |what: &str, threads: &str, further: &[&str]| {
                let inputs = self.inputs.iter().map(String::as_str);
                let arguments: Vec<&str> = [what, &artifact_name, "--threads", threads]
                    .into_iter()
                    .chain(on)
                    .chain(inputs)
                    .chain(further.iter().copied())
                    .collect();
                checked(infc, &one, &arguments).with_context(|| target.clone())
            };
            run("compare", "1", &self.expected.iter().map(String::as_str).collect::<Vec<_>>())?;
            let outputs = ["1", "2"].map(|threads| {
                let saved = one.join(format!("{threads}.npz"));
                run("run", threads, &["--save-output", &saved.to_string_lossy()])?;
                fs::read(&saved).context("outputs were not saved")
            });
            let [with_one, with_two] = outputs;
            if with_one? != with_two? {
                bail!("{target}: one thread and two give different bits");
            }
        }
        Ok(targets)
    }

    fn compile(&self, infc: &Path, model: &Path, folder: &Path, artifact: &Path) -> Result<()> {
        let arguments =
            ["compile", &model.to_string_lossy(), "--deny-fallback", "-q", "-o", &artifact.to_string_lossy()];
        checked(infc, folder, &arguments).map(drop)
    }
}

/// Copies a model, and the files beside it that may hold its weights, into a folder.
fn copy_beside_data(model: &Path, folder: &Path) -> Result<PathBuf> {
    let name = model.file_name().context("a model is a file")?;
    let beside = model.parent().context("a file lies in a folder")?;
    for entry in fs::read_dir(beside)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default();
        let is_data = file.to_string_lossy().starts_with(&*format!("{}.", name.to_string_lossy()));
        if path.is_file() && (file == name || is_data) {
            fs::copy(&path, folder.join(file))?;
        }
    }
    Ok(folder.join(name))
}

/// The targets of an inspected artifact that run here.
fn runnable(json: &[u8]) -> Result<Vec<String>> {
    let inspected: Value = serde_json::from_slice(json).context("`infc inspect` printed no JSON")?;
    let variants = inspected["variants"].as_array().context("`infc inspect` lists no variants")?;
    let here = variants.iter().filter(|v| v["runs_here"] == Value::Bool(true));
    let targets: Vec<String> = here.filter_map(|v| v["target"].as_str().map(str::to_owned)).collect();
    if targets.is_empty() { bail!("this machine runs none of the targets") } else { Ok(targets) }
}

/// Runs `infc`; what it said on standard error is the error.
fn checked(infc: &Path, folder: &Path, arguments: &[&str]) -> Result<Output> {
    let output = Command::new(infc).args(arguments).current_dir(folder).output().context("infc does not start")?;
    if !output.status.success() {
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
        bail!("infc {} ({}): {}", arguments[0], output.status, said.join("\n").trim());
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_that_run_here_are_asked_for() {
        let json =
            br#"{"variants":[{"target":"x86-64-v4","runs_here":false},{"target":"x86-64-v3","runs_here":true}]}"#;
        assert_eq!(runnable(json).expect("one"), ["x86-64-v3"]);
        assert!(runnable(br#"{"variants":[{"target":"x86-64-v4","runs_here":false}]}"#).is_err());
        assert!(runnable(b"{}").is_err());
    }
}
