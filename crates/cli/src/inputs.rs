//! The data that `run`, `bench` and `compare` feed to a model.
//!
//! [`InputArgs`] is what the command line says, [`InputOptions`] the same after checking, and
//! [`InputOptions::load`] the tensors for one entry of a model: one [`DataSet`], or one per `test_data_set_*` folder.

mod data_folder;
mod generate;
mod image;
mod spec;

use crate::console::Console;
use crate::convert::cast;
use crate::error::CliError;
use crate::failure::Failure;
use crate::npz::Npz;
pub(crate) use data_folder::read_data_sets;
pub(crate) use generate::Fill;
use generate::Generator;
use image::ImageOptions;
use infc_artifact::{Entry, PortSpec};
use infc_tensor::{DType, Tensor};
use spec::InputSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where inputs come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// ONNX test data: input_0.pb is the first input of the model, and so on; or a folder of test_data_set_*
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "input", "random"])]
    data: Option<PathBuf>,
    /// A NumPy archive with one array per input, by name
    #[arg(long, value_name = "FILE.npz", conflicts_with = "random")]
    inputs: Option<PathBuf>,
    /// One input: a file (.npy, .pb, .png, .jpg), `zeros`, `random` or a number for all elements
    #[arg(long, value_name = "NAME=SPEC")]
    input: Vec<String>,
    /// Make up all inputs that are not given: floats in [0,1), integers and states 0, bools true
    #[arg(long)]
    random: bool,
    /// Where made-up data starts from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The size of a dynamic dim in made-up data; its minimum, at least 1, or that doubled until the model takes it, unless given
    #[arg(long, value_name = "SYM=N")]
    dim: Vec<String>,
    #[command(flatten)]
    image: ImageOptions,
}

/// Checked [`InputArgs`].
#[derive(Debug)]
pub(crate) struct InputOptions {
    data: Option<PathBuf>,
    inputs: Option<PathBuf>,
    input: Vec<InputSpec>,
    random: bool,
    seed: u64,
    dims: BTreeMap<String, i64>,
    image: ImageOptions,
}

impl InputArgs {
    pub(crate) fn resolve(self) -> Result<InputOptions, CliError> {
        let Self { data, inputs, input, random, seed, dim, image } = self;
        image.check()?;
        let input = input.iter().map(|text| InputSpec::parse(text)).collect::<Result<Vec<_>, _>>()?;
        for (index, spec) in input.iter().enumerate() {
            if input[..index].iter().any(|earlier| earlier.name == spec.name) {
                return Err(CliError::usage(format!("--input: `{}` is given twice", spec.name)));
            }
        }
        let mut dims = BTreeMap::new();
        for text in &dim {
            let parsed = text.rsplit_once('=').and_then(|(name, value)| Some((name, value.parse::<i64>().ok()?)));
            let Some((name, value)) = parsed.filter(|&(name, value)| value >= 0 && !name.is_empty()) else {
                return Err(CliError::usage(format!("--dim `{text}`: expected SYM=N, a name and a size")));
            };
            if dims.insert(name.to_owned(), value).is_some_and(|earlier| earlier != value) {
                return Err(CliError::usage(format!("--dim: `{name}` is given twice")));
            }
        }
        Ok(InputOptions { data, inputs, input, random, seed, dims, image })
    }
}

/// What to do about inputs that nobody gives data for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Make them up and say so, for measurements.
    MakeUp,
    /// Ask for them.
    Refuse,
}

/// Inputs for one run, and what is expected of it as far as that is known.
#[derive(Debug)]
pub(crate) struct DataSet {
    /// The folder it comes from, if there are several.
    pub(crate) name: Option<String>,
    /// In the order of the entry's inputs; `None` of a state that the run is to begin with as it is.
    pub(crate) inputs: Vec<Option<Tensor>>,
    /// In the order of the entry's outputs.
    pub(crate) expected: Vec<Option<Tensor>>,
}

impl DataSet {
    /// The inputs as a run takes them.
    pub(crate) fn input_refs(&self) -> Vec<Option<&Tensor>> {
        self.inputs.iter().map(Option::as_ref).collect()
    }

    /// The inputs for who does not run the artifact, and so has no states.
    pub(crate) fn all_inputs(&self, entry: &Entry) -> Result<Vec<Tensor>, CliError> {
        let ports = entry.inputs.iter().zip(&self.inputs);
        let missing: Vec<String> =
            ports.filter(|(_, given)| given.is_none()).map(|(port, _)| input_text(entry, port)).collect();
        if missing.is_empty() {
            return Ok(self.inputs.iter().flatten().cloned().collect());
        }
        Err(CliError::MissingData { names: missing })
    }
}

impl InputOptions {
    /// Reads or makes the inputs of `entry`.
    pub(crate) fn load(&self, entry: &Entry, missing: Missing, console: &Console) -> Result<Vec<DataSet>, Failure> {
        if let Some(folder) = &self.data {
            return Ok(data_folder::load(folder, entry)?);
        }
        let mut given: Vec<Option<Tensor>> = vec![None; entry.inputs.len()];
        if let Some(path) = &self.inputs {
            self.read_archive(path, entry, &mut given)?;
        }
        let mut fills: Vec<Option<Fill>> = vec![None; entry.inputs.len()];
        for spec in &self.input {
            let index = entry.inputs.iter().position(|port| port.name == spec.name);
            let index = index.ok_or_else(|| unknown_input(entry, &spec.name))?;
            match spec.read(&entry.inputs[index], &self.image)? {
                spec::Value::Tensor(tensor) => given[index] = Some(tensor),
                spec::Value::Fill(fill) => fills[index] = Some(fill),
            }
        }
        let open: Vec<usize> = (0..given.len()).filter(|&i| given[i].is_none() && fills[i].is_none()).collect();
        if !open.is_empty() {
            if missing == Missing::Refuse && !self.random {
                let names = open.iter().filter(|&&i| entry.state_of_input(i).is_none());
                let names: Vec<String> = names.map(|&i| input_text(entry, &entry.inputs[i])).collect();
                if !names.is_empty() {
                    return Err(CliError::MissingData { names }.into());
                }
                let inputs = self.fill(entry, given, &fills)?.into_iter().enumerate();
                let inputs = inputs.map(|(n, tensor)| (!open.contains(&n)).then_some(tensor)).collect();
                return Ok(vec![DataSet { name: None, inputs, expected: vec![None; entry.outputs.len()] }]);
            }
            for &index in &open {
                fills[index] =
                    Some(if entry.state_of_input(index).is_some() { Fill::Value(0.0) } else { Fill::Random });
            }
        }
        let inputs = self.fill(entry, given, &fills)?;
        // Who has asked for it need not be told.
        if !open.is_empty() && !self.random {
            let shapes = open.iter().map(|&i| {
                let tensor: &Tensor = &inputs[i];
                format!("{} {}{:?}", entry.inputs[i].name, tensor.dtype(), tensor.shape())
            });
            let shapes: Vec<String> = shapes.collect();
            console.note(format!("  inputs made up with seed {}: {}", self.seed, shapes.join(", ")));
        }
        let inputs = inputs.into_iter().map(Some).collect();
        Ok(vec![DataSet { name: None, inputs, expected: vec![None; entry.outputs.len()] }])
    }

    fn read_archive(&self, path: &Path, entry: &Entry, given: &mut [Option<Tensor>]) -> Result<(), CliError> {
        let mut npz = Npz::open(path)?;
        for (port, slot) in entry.inputs.iter().zip(given.iter_mut()) {
            if let Some(tensor) = npz.read(&port.name)? {
                *slot = Some(fit(tensor, port.element_type(), || format!("{}: {}", path.display(), port.name))?);
            }
        }
        let is_state = |port: &&PortSpec| entry.state.iter().any(|pair| entry.inputs[pair.input as usize] == **port);
        let is_open = |port: &&PortSpec| !is_state(port) && !self.input.iter().any(|spec| spec.name == port.name);
        let missing = entry.inputs.iter().zip(&*given).filter(|(_, tensor)| tensor.is_none()).map(|(port, _)| port);
        let names: Vec<String> = missing.filter(is_open).map(|port| input_text(entry, port)).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(CliError::MissingArray { path: path.to_owned(), names, known: npz.names() })
    }

    /// Makes the tensors that are described rather than given.
    fn fill(&self, entry: &Entry, given: Vec<Option<Tensor>>, fills: &[Option<Fill>]) -> Result<Vec<Tensor>, CliError> {
        let shapes = generate::input_shapes(entry, &given, &self.dims)?;
        let mut generator = Generator::new(self.seed);
        let mut tensors = Vec::with_capacity(given.len());
        for (((port, tensor), fill), shape) in entry.inputs.iter().zip(given).zip(fills).zip(shapes) {
            tensors.push(match (tensor, fill) {
                (Some(tensor), _) => tensor,
                (None, Some(fill)) => generator.tensor(port, &shape, *fill)?,
                (None, None) => generator.tensor(port, &shape, Fill::Random)?,
            });
        }
        Ok(tensors)
    }
}

/// `"image" (f32[N, 1, 8, 8])`.
fn input_text(entry: &Entry, port: &PortSpec) -> String {
    format!("input `{}` ({})", port.name, port.type_text(&entry.symbol_names()))
}

fn unknown_input(entry: &Entry, wanted: &str) -> infc_runtime::RuntimeError {
    let known = entry.inputs.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", ");
    infc_runtime::RuntimeError::UnknownInput { wanted: wanted.to_owned(), known }
}

/// Tensors from NumPy files, which lack some types, in the type that is wanted: what [`crate::npy::write`] widens is
/// narrowed again. Other types stay as they are, for the runtime to complain about.
pub(crate) fn fit(tensor: Tensor, wanted: DType, place: impl FnOnce() -> String) -> Result<Tensor, CliError> {
    let stand_in = match wanted {
        DType::I4 | DType::I2 => DType::I8,
        DType::U4 | DType::U2 => DType::U8,
        DType::BF16 => DType::F32,
        dtype if dtype.is_float() && dtype.size_bits() <= 8 => DType::F32,
        _ => return Ok(tensor),
    };
    if tensor.dtype() != stand_in {
        return Ok(tensor);
    }
    let found = tensor.dtype();
    cast(&tensor, wanted).ok_or_else(|| CliError::WrongElements { place: place(), expected: wanted, found })
}

/// Made-up data for a port of a shape, the same for the same seed.
pub(crate) fn made_up(
    port: &infc_artifact::PortSpec,
    shape: &[usize],
    seed: u64,
    fill: Fill,
) -> Result<Tensor, CliError> {
    Generator::new(seed).tensor(port, shape, fill)
}
