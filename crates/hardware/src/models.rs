//! Whole models by the command `infc`, as users have it: compiled, compared with what the processor computes, and timed.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Sizes of dynamic dims, as in `N=1`.
    pub dims: Vec<String>,
}

/// What came of a model.
#[derive(Clone, Debug, Serialize)]
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
        command.args(arguments).args(["--format", "json", "-q"]);
        let output = command.output().with_context(|| self.infc.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.code().is_some_and(|code| codes.contains(&code)) {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("infc {}: {}\n{said}{errors}", arguments.join(" "), output.status);
        }
        serde_json::from_str(&said).with_context(|| format!("infc {}", arguments.join(" ")))
    }

    fn number(value: &Value, path: &[&str]) -> Result<f64> {
        let found = path.iter().fold(value, |value, name| &value[*name]);
        found.as_f64().with_context(|| format!("no {}", path.join(".")))
    }

    /// Compiles a model for GPU and processor, and runs it on both.
    ///
    /// # Errors
    /// A command fails.
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
        let alone = compile("cuda", "off", "ptx")?;
        compile("cuda,x86-64-v3", "off", "both")?;
        let mut inputs = vec!["--random".to_owned()];
        inputs.extend(self.dims.iter().flat_map(|dim| ["--dim".to_owned(), dim.clone()]));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let (both, expected) = (artifact("both"), text(&folder.join(format!("{name}.npz"))));
        let on_cpu = ["run", &both, "--target", "x86-64-v3", "--save-output", &expected];
        self.json(&[&on_cpu[..], &inputs].concat(), &[0])?;
        let tolerance = self.tolerance.to_string();
        let on_gpu =
            ["compare", &both, "--target", "cuda", "--expected", &expected, "--rtol", &tolerance, "--atol", &tolerance];
        let compared = self.json(&[&on_gpu[..], &inputs].concat(), &[0, 3])?;
        let bench = |kind: &str| {
            let (artifact, runs) = (artifact(kind), self.runs.to_string());
            let arguments = ["bench", &artifact, "--target", "cuda", "--runs", &runs];
            self.json(&[&arguments[..], &inputs].concat(), &[0])
        };
        let timed = bench("ptx")?;
        let load_cubin_ms = match self.ptxas.as_str() {
            "off" => None,
            ptxas => {
                compile("cuda", ptxas, "cubin")?;
                Some(Self::number(&bench("cubin")?, &["load_ms"])?)
            }
        };
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
