//! A loaded model: decoded, with its external data mapped, and checked to be a graph.

use crate::error::{ImportError, NodeRef};
use crate::proto::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::{check, external, functions};
use bytes::Bytes;
use infc_mapfile::MappedFile;
use prost::Message;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The newest IR version that is read.
pub const NEWEST_IR_VERSION: i64 = 14;

/// The oldest opset of a domain.
pub const OLDEST_OPSET: i64 = 1;

/// The newest opset of ONNX's own domain that is read.
pub const NEWEST_OPSET: i64 = 28;

/// How a model is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Where external data lies; `None` is the folder of the model.
    pub data_folder: Option<PathBuf>,
}

/// An ONNX model that passed all checks that need no knowledge of operators.
///
/// Tensor data points into the mapped files.
#[derive(Clone, Debug)]
pub struct Model {
    proto: ModelProto,
    /// As it was before calls of functions were replaced; `None` if there were none.
    with_calls: Option<Box<ModelProto>>,
    bytes: Bytes,
    data_files: BTreeMap<PathBuf, Bytes>,
    /// Nodes by position, operands before users.
    order: Vec<usize>,
}

impl Model {
    /// Reads a model file and maps its external data.
    ///
    /// # Errors
    /// [`ImportError`] if the file cannot be read, is no model, or fails a check.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, ImportError> {
        let mapped =
            MappedFile::open(path).map_err(|source| ImportError::CannotRead { path: path.to_owned(), source })?;
        let folder = options.data_folder.as_deref().or_else(|| path.parent());
        Self::from_bytes(Bytes::from_owner(mapped), folder)
    }

    /// Reads a model from memory; external data is looked for in `base_dir`.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(bytes: impl Into<Bytes>, base_dir: Option<&Path>) -> Result<Self, ImportError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(ImportError::NotAModel { reason: "it is empty" });
        }
        let mut proto = ModelProto::decode(bytes.clone()).map_err(|source| ImportError::Malformed { source })?;
        check::versions(&proto)?;
        let data_files = external::resolve(&mut proto, base_dir)?;
        Ok(Self { bytes, data_files, ..Self::from_proto(proto)? })
    }

    /// A model from its message, the data of which is in place.
    pub(crate) fn from_proto(mut proto: ModelProto) -> Result<Self, ImportError> {
        let with_calls = (!proto.functions.is_empty()).then(|| Box::new(proto.clone()));
        functions::inline(&mut proto)?;
        let order = check::graph(&proto)?;
        Ok(Self { proto, with_calls, bytes: Bytes::new(), data_files: BTreeMap::new(), order })
    }

    /// The decoded message; its external data is in `raw_data`, and calls of functions are replaced by their nodes.
    #[must_use]
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }

    /// The same with calls of functions, and the functions; `None` if it has none.
    pub(crate) fn with_calls(&self) -> Option<&ModelProto> {
        self.with_calls.as_deref()
    }

    /// The bytes of the model file.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The files of external data by their path relative to the model.
    #[must_use]
    pub fn data_files(&self) -> &BTreeMap<PathBuf, Bytes> {
        &self.data_files
    }

    /// The main graph.
    #[must_use]
    pub fn graph(&self) -> &GraphProto {
        self.proto.graph.as_ref().expect("checked when loading")
    }

    /// The positions of the nodes, operands before users.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The opset of a domain; `None` if the model does not import it.
    #[must_use]
    pub fn opset(&self, domain: &str) -> Option<i64> {
        check::opset(&self.proto, domain)
    }

    /// The inputs that a caller gives: those that are no initializers, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &ValueInfoProto> {
        let initializers: HashSet<&str> = self.graph().initializer.iter().map(|t| t.name()).collect();
        self.graph().input.iter().filter(move |i| !initializers.contains(i.name()))
    }

    /// The outputs, in order, each once: exporters list a value twice that a function returns twice.
    pub fn outputs(&self) -> impl Iterator<Item = &ValueInfoProto> {
        let mut known = HashSet::new();
        self.graph().output.iter().filter(move |output| known.insert(output.name()))
    }

    /// What an error says of the node at a position.
    #[must_use]
    pub fn node_ref(&self, index: usize) -> NodeRef {
        node_ref(&self.proto, &self.graph().node[index], index)
    }
}

/// The domain without a version of its own. ONNX's own domain has two names; the empty one is used throughout.
pub(crate) fn canonical_domain(domain: &str) -> &str {
    let (domain, _) = functions::split_domain(domain);
    if domain == "ai.onnx" { "" } else { domain }
}

pub(crate) fn node_ref(model: &ModelProto, node: &NodeProto, index: usize) -> NodeRef {
    let name = match node.name() {
        "" => node.output.iter().find(|o| !o.is_empty()).map_or("", String::as_str),
        name => name,
    };
    let domain = canonical_domain(node.domain());
    NodeRef {
        name: name.to_owned(),
        op_type: node.op_type().to_owned(),
        domain: domain.to_owned(),
        opset: check::opset(model, node.domain()).unwrap_or(0),
        index,
    }
}
