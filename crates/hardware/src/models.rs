//! Whole models by the command `infc`, as users have it: compiled, compared with what the processor computes, and timed.

use crate::child;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How models are compiled and run.
#[derive(Clone, Debug)]
pub struct How {
    /// The command: `infc`, or what stands for it.
    pub infc: PathBuf,
    /// In which numbers, as `--precision` takes it.
    pub precision: String,
    /// What makes machine code, as `--ptxas` takes it.
    pub ptxas: String,
    /// How far outputs may be from the processor's, relative to themselves and absolutely.
    pub tolerance: f64,
    /// Runs that are timed.
    pub runs: usize,
    /// Sizes of dynamic dims, as in `N=1`; a model gets those that it has.
    pub dims: Vec<String>,
    /// The GPU's target, as `--target` takes it.
    pub target: String,
    /// When no command may go on.
    pub deadline: Instant,
}

/// What came of a model.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ran {
    /// The file's name.
    pub name: String,
    /// Milliseconds that compiling took.
    pub compile_ms: f64,
    /// Bytes of the artifact beyond its weights, for the GPU alone.
    pub code_bytes: u64,
    /// Milliseconds from the artifact to a session that is ready, with PTX that the driver translates.
    pub load_ptx_ms: f64,
    /// The same with machine code.
    pub load_cubin_ms: Option<f64>,
    /// Milliseconds of the first run.
    pub first_ms: f64,
    /// Milliseconds of a run with its copies, by the host's clock, the median.
    pub run_ms: f64,
    /// What of it the GPU took by its own clock, the median.
    pub device_ms: f64,
    /// Launches of a run.
    pub kernels: u64,
    /// Nodes of the model that run on the host.
    pub on_host: usize,
    /// Whether the outputs are the processor's.
    pub agrees: bool,
}

impl How {
    /// What a command says, as JSON; it may end with any of these codes.
    fn json(&self, arguments: &[&str], codes: &[i32]) -> Result<Value> {
        let mut command = Command::new(&self.infc);
        // What a driver has translated before must not count as translating.
        command.args(arguments).args(["--format", "json", "-q"]).env("CUDA_CACHE_DISABLE", "1");
        let said = child::run(&mut command, "", self.deadline)?;
        let said = said.with_context(|| format!("there is no {}", self.infc.display()))?;
        if !said.status.code().is_some_and(|code| codes.contains(&code)) {
            bail!("infc {}: {}\n{}{}", arguments.join(" "), said.status, said.output, said.errors);
        }
        serde_json::from_str(&said.output).with_context(|| format!("infc {}", arguments.join(" ")))
    }

    fn number(value: &Value, path: &[&str]) -> Result<f64> {
        let found = path.iter().fold(value, |value, name| &value[*name]);
        found.as_f64().with_context(|| format!("no {}", path.join(".")))
    }

    /// Those of the sizes that a model has dims for.
    fn dims_of(&self, model: &str) -> Result<Vec<&str>> {
        if self.dims.is_empty() {
            return Ok(Vec::new());
        }
        let checked = self.json(&["check", model], &[0, 3])?;
        let known: Vec<&str> =
            checked["dims"].as_array().into_iter().flatten().filter_map(|d| d["name"].as_str()).collect();
        let is_known = |dim: &&String| dim.split('=').next().is_some_and(|name| known.contains(&name));
        Ok(self.dims.iter().filter(is_known).map(String::as_str).collect())
    }

    /// Compiles a model for GPU and processor, and runs it on both.
    ///
    /// # Errors
    /// A command fails, or takes longer than there is time.
    pub fn run(&self, path: &Path, folder: &Path) -> Result<Ran> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let model = text(path);
        let artifact = |kind: &str| text(&folder.join(format!("{name}-{kind}.infa")));
        let compile = |target: &str, ptxas: &str, kind: &str| {
            let out = artifact(kind);
            let arguments = ["compile", &model, "--target", target, "--precision", &self.precision, "--ptxas", ptxas];
            self.json(&[&arguments[..], &["-o", &out]].concat(), &[0])
        };
        let alone = compile(&self.target, "off", "ptx")?;
        compile("x86-64-v3", "off", "cpu")?;
        let dims = self.dims_of(&model)?.into_iter().flat_map(|dim| ["--dim", dim]);
        let inputs: Vec<&str> = std::iter::once("--random").chain(dims).collect();
        let (on_cpu, on_gpu, expected) = (artifact("cpu"), artifact("ptx"), text(&folder.join(format!("{name}.npz"))));
        self.json(&[&["run", &on_cpu, "--save-output", &expected][..], &inputs].concat(), &[0])?;
        let tolerance = self.tolerance.to_string();
        let compare = ["compare", &on_gpu, "--expected", &expected, "--rtol", &tolerance, "--atol", &tolerance];
        let compared = self.json(&[&compare[..], &inputs].concat(), &[0, 3])?;
        let bench = |kind: &str| {
            let (artifact, runs) = (artifact(kind), self.runs.to_string());
            self.json(&[&["bench", &artifact, "--runs", &runs][..], &inputs].concat(), &[0])
        };
        let timed = bench("ptx")?;
        let mut load_cubin_ms = None;
        if self.ptxas != "off" {
            let compiled = compile(&self.target, &self.ptxas, "cubin")?;
            // Where there is no assembler there is no machine code.
            let has_cubins = compiled["variants"][0]["cubins"].as_array().is_some_and(|cubins| !cubins.is_empty());
            if has_cubins {
                load_cubin_ms = Some(Self::number(&bench("cubin")?, &["load_ms"])?);
            }
        }
        let code_bytes = Self::number(&alone, &["bytes"])? - Self::number(&alone, &["weight_bytes"])?;
        Ok(Ran {
            compile_ms: Self::number(&alone, &["total_ms"])?,
            code_bytes: code_bytes.max(0.0) as u64,
            load_ptx_ms: Self::number(&timed, &["load_ms"])?,
            load_cubin_ms,
            first_ms: Self::number(&timed, &["first_ms"])?,
            run_ms: Self::number(&timed, &["latency_ms", "median"])?,
            device_ms: Self::number(&timed, &["device_ms", "median"])?,
            kernels: Self::number(&alone, &["kernels"])? as u64,
            on_host: alone["on_host"].as_array().map_or(0, Vec::len),
            agrees: compared["agrees"] == Value::Bool(true),
            name,
        })
    }
}
