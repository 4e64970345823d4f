//! `--data DIR`: test data in the form of the ONNX backend tests.
//!
//! `input_<i>.pb` is a `TensorProto`, `SequenceProto`, `OptionalProto` or `MapProto` for the i-th input of the graph that
//! is not an initializer; the name inside is ignored. One that is a state need not be there: it is what the data set before
//! has left. `output_<i>.pb`, where there is one, is what output i should be.

use super::{DataSet, input_text};
use crate::error::CliError;
use bytes::Bytes;
use infc_artifact::Entry;
use infc_frontend_onnx::decode_value;
use infc_tensor::{DType, Tensor};
use std::path::{Path, PathBuf};

/// The data sets in `folder`: itself, or all its `test_data_set_*` in the order of their numbers.
pub(super) fn load(folder: &Path, entry: &Entry) -> Result<Vec<DataSet>, CliError> {
    if folder.join("input_0.pb").is_file() || (entry.inputs.is_empty() && folder.join("output_0.pb").is_file()) {
        return Ok(vec![load_one(folder, None, entry)?]);
    }
    sets(folder)?.into_iter().map(|(name, path)| load_one(&path, Some(name), entry)).collect()
}

/// The data sets `test_data_set_*` of a case, for a model whose inputs and outputs have these element types.
pub(crate) fn read_data_sets(folder: &Path, inputs: &[DType], outputs: &[DType]) -> Result<Vec<DataSet>, CliError> {
    let read = |(name, path): (String, PathBuf)| {
        let values = |kind: &str, dtypes: &[DType]| -> Result<Vec<Tensor>, CliError> {
            let places = dtypes.iter().enumerate();
            places.map(|(index, &dtype)| read_value(dtype, &path.join(format!("{kind}_{index}.pb")))).collect()
        };
        let expected = values("output", outputs)?.into_iter().map(Some).collect();
        Ok(DataSet { name: Some(name), inputs: values("input", inputs)?.into_iter().map(Some).collect(), expected })
    };
    sets(folder)?.into_iter().map(read).collect()
}

/// The folders `test_data_set_*` with their names, in the order of their numbers.
fn sets(folder: &Path) -> Result<Vec<(String, PathBuf)>, CliError> {
    let bad = |reason: String| CliError::BadDataFolder { path: folder.to_owned(), reason };
    let wrap = |source| CliError::CannotRead { path: folder.to_owned(), source };
    let mut sets: Vec<(u64, String, PathBuf)> = Vec::new();
    for item in std::fs::read_dir(folder).map_err(wrap)? {
        let item = item.map_err(wrap)?;
        let name = item.file_name().to_string_lossy().into_owned();
        if let Some(suffix) = name.strip_prefix("test_data_set_") {
            sets.push((suffix.parse().unwrap_or(u64::MAX), name.clone(), item.path()));
        }
    }
    if sets.is_empty() {
        return Err(bad("it holds neither input_0.pb nor folders test_data_set_*".to_owned()));
    }
    sets.sort();
    Ok(sets.into_iter().map(|(_, name, path)| (name, path)).collect())
}

fn load_one(folder: &Path, name: Option<String>, entry: &Entry) -> Result<DataSet, CliError> {
    let bad = |reason: String| CliError::BadDataFolder { path: folder.to_owned(), reason };
    let mut inputs = Vec::with_capacity(entry.inputs.len());
    for (index, port) in entry.inputs.iter().enumerate() {
        let path = folder.join(format!("input_{index}.pb"));
        if !path.is_file() && entry.state_of_input(index).is_some() {
            inputs.push(None);
            continue;
        }
        if !path.is_file() {
            return Err(bad(format!("input_{index}.pb is missing, which is for {}", input_text(entry, port))));
        }
        inputs.push(Some(read_value(port.element_type(), &path)?));
    }
    let extra = format!("input_{}.pb", inputs.len());
    if folder.join(&extra).is_file() {
        return Err(bad(format!("it holds {extra}, the model has {} inputs", inputs.len())));
    }
    let extra = format!("output_{}.pb", entry.outputs.len());
    if folder.join(&extra).is_file() {
        let count = entry.outputs.len();
        return Err(bad(format!(
            "it holds {extra}, the model has {count} outputs (one that is listed twice counts once)"
        )));
    }
    let expected = entry.outputs.iter().enumerate();
    let expected = expected
        .map(|(index, port)| {
            let path = folder.join(format!("output_{index}.pb"));
            path.is_file().then(|| read_value(port.element_type(), &path)).transpose()
        })
        .collect::<Result<_, _>>()?;
    Ok(DataSet { name, inputs, expected })
}

/// Reads a file with one value of this element type.
pub(super) fn read_value(dtype: DType, path: &Path) -> Result<Tensor, CliError> {
    let bytes = std::fs::read(path).map_err(|source| CliError::CannotRead { path: path.to_owned(), source })?;
    decode_value(dtype, Bytes::from(bytes))
        .map_err(|error| CliError::BadDataFolder { path: path.to_owned(), reason: error.to_string() })
}
