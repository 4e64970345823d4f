//! `--start-from`: the graph that an earlier compilation wrote out stands for the model.

use crate::dump::CONSTANTS;
use crate::{CompileError, Phase, Source};
use infc_frontend_onnx::decode_tensor;
use infc_ir::graph::Graph;
use infc_ir::text::{constant_hash, parse_graph};
use infc_ir::verify::verify_graph;
use infc_tensor::Tensor;
use std::path::Path;

/// The phases that can be the first: those that take a graph, which is what dumps hold in full.
pub(crate) const STARTS: [Phase; 2] = [Phase::Simplify, Phase::Plan];

/// A dumped graph.
pub(crate) struct Start {
    pub(crate) graph: Graph,
    /// The text's hash; constants are part of it by theirs.
    pub(crate) model_hash: String,
}

/// Reads the dump that `phase` is to start from. Constants that the text names by hash lie in a folder beside it.
pub(crate) fn read(source: &Source, phase: Phase) -> Result<Start, CompileError> {
    if !STARTS.contains(&phase) {
        return Err(CompileError::CannotStart { phase });
    }
    let (bytes, folder) = match source {
        Source::File(path) => {
            let bytes = std::fs::read(path).map_err(|source| bad(format!("`{}`: {source}", path.display())))?;
            (bytes, path.parent())
        }
        Source::Bytes { bytes, folder } => (bytes.clone(), folder.as_deref()),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| bad("it is not text".to_owned()))?;
    let graph = parse_graph(text, &|hash| constant(folder?, hash)).map_err(|error| bad(error.to_string()))?;
    verify_graph(&graph).map_err(|error| bad(error.to_string()))?;
    Ok(Start { graph, model_hash: blake3::hash(&bytes).to_hex().to_string() })
}

fn bad(reason: String) -> CompileError {
    CompileError::BadDump { reason }
}

/// A constant by its hash; `None` unless there is one of that very content.
fn constant(folder: &Path, hash: &str) -> Option<Tensor> {
    // The hash comes from outside, and becomes part of a path.
    if hash.is_empty() || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bytes = std::fs::read(folder.join(CONSTANTS).join(format!("{hash}.pb"))).ok()?;
    decode_tensor(bytes.into()).ok().filter(|tensor| constant_hash(tensor) == hash)
}
