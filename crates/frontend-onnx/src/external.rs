//! External data: tensors whose elements lie in files beside the model.
//!
//! The files are mapped, and the tensors point into the mapping. A model may name any path, so nothing outside of its
//! own folder is opened: no absolute path, no `..`, no link that leads out.

use crate::error::ImportError;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use crate::tensor_proto;
use bytes::Bytes;
use infc_mapfile::MappedFile;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The data files of one model, mapped when first needed.
struct DataFiles {
    /// The model's folder, with links resolved; `None` if the model came from memory.
    folder: Option<PathBuf>,
    mapped: BTreeMap<PathBuf, Bytes>,
}

/// Makes every tensor of the model that has external data point into the mapped file; returns the files by their path
/// relative to the model.
pub(crate) fn resolve(model: &mut ModelProto, folder: Option<&Path>) -> Result<BTreeMap<PathBuf, Bytes>, ImportError> {
    let folder = match folder {
        Some(folder) => {
            let path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let resolved =
                path.canonicalize().map_err(|source| ImportError::CannotRead { path: path.to_owned(), source })?;
            Some(resolved)
        }
        None => None,
    };
    let mut files = DataFiles { folder, mapped: BTreeMap::new() };
    if let Some(graph) = &mut model.graph {
        files.graph(graph)?;
    }
    for function in &mut model.functions {
        function.node.iter_mut().try_for_each(|node| files.node(node))?;
    }
    Ok(files.mapped)
}

impl DataFiles {
    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), ImportError> {
        graph.initializer.iter_mut().try_for_each(|tensor| self.tensor(tensor))?;
        graph.node.iter_mut().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &mut NodeProto) -> Result<(), ImportError> {
        for attribute in &mut node.attribute {
            attribute.t.iter_mut().chain(&mut attribute.tensors).try_for_each(|tensor| self.tensor(tensor))?;
            attribute.g.iter_mut().chain(&mut attribute.graphs).try_for_each(|graph| self.graph(graph))?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &mut TensorProto) -> Result<(), ImportError> {
        if tensor.data_location() != DataLocation::External {
            return Ok(());
        }
        let (dtype, shape) = tensor_proto::signature(tensor)?;
        let mut location = None;
        let mut offset = 0u64;
        let mut length = None;
        for entry in &tensor.external_data {
            let number = |key| {
                entry.value().parse::<u64>().map_err(|_| invalid(tensor, key, "a number of bytes", entry.value()))
            };
            match entry.key() {
                "location" => location = Some(entry.value().to_owned()),
                "offset" => offset = number("offset")?,
                "length" => length = Some(number("length")?),
                // `checksum`, and what later versions add.
                _ => {}
            }
        }
        let location = location.ok_or_else(|| invalid(tensor, "location", "a path", ""))?;
        let size = dtype
            .storage_bytes(shape.iter().product())
            .ok_or_else(|| invalid(tensor, "location", "a tensor of numbers", "strings"))? as u64;
        if length.is_some_and(|length| length != size) {
            return Err(invalid(tensor, "length", "the size of the tensor", &length.unwrap_or(0).to_string()));
        }
        let file = self.file(tensor, &location)?;
        let found = file.len() as u64;
        let needed = offset.saturating_add(size);
        if needed > found {
            let path = PathBuf::from(location);
            return Err(ImportError::ExternalDataTooShort { tensor: tensor.name().to_owned(), path, needed, found });
        }
        #[expect(clippy::cast_possible_truncation, reason = "both lie within the mapped file")]
        let data = file.slice(offset as usize..needed as usize);
        tensor.raw_data = Some(data);
        tensor.external_data.clear();
        tensor.data_location = None;
        Ok(())
    }

    /// The mapped file at a location relative to the model's folder.
    fn file(&mut self, tensor: &TensorProto, location: &str) -> Result<Bytes, ImportError> {
        let relative = Path::new(location);
        if let Some(bytes) = self.mapped.get(relative) {
            return Ok(bytes.clone());
        }
        let outside =
            || ImportError::ExternalDataOutside { tensor: tensor.name().to_owned(), location: location.to_owned() };
        let inside = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || location.contains('\0') || !relative.components().all(inside) {
            return Err(outside());
        }
        let missing =
            || ImportError::ExternalDataMissing { tensor: tensor.name().to_owned(), path: relative.to_owned() };
        let Some(folder) = &self.folder else { return Err(missing()) };
        let path = folder.join(relative).canonicalize().map_err(|_| missing())?;
        if !path.starts_with(folder) {
            return Err(outside());
        }
        let mapped =
            MappedFile::open(&path).map_err(|source| ImportError::CannotRead { path: relative.to_owned(), source })?;
        let bytes = Bytes::from_owner(mapped);
        self.mapped.insert(relative.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

fn invalid(tensor: &TensorProto, key: &'static str, expected: &'static str, found: &str) -> ImportError {
    ImportError::ExternalDataInvalid { tensor: tensor.name().to_owned(), key, expected, found: found.to_owned() }
}
