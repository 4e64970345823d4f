//! ONNX to simpler ONNX: the same model with everything left out that is known before it runs.
//!
//! The import already knows which values are constants, which follow from dims, and which are the same value under two
//! names. Here that knowledge goes back into the model: constants become initializers, nodes that change nothing
//! disappear, a shape that is computed becomes a constant where the definition of `Reshape` can say it, and a branch whose
//! condition is known takes the place of its `If`. What remains are the model's own operators at its own opsets: nothing
//! is fused, and no number is computed in another way.
//!
//! What the import takes for granted of dims, and an artifact checks, a model cannot check. Where it did, only what
//! follows from constants alone is used.
//!
//! Calls of functions are written out, unless a function means other opsets than the model: then all calls stay.

mod branches;
mod constants;
mod duplicates;
mod names;
mod reshapes;
mod same;
mod types;
mod unused;

use crate::error::ImportError;
use crate::import::{ImportOptions, Values, import_values};
use crate::known;
use crate::model::Model;
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::tracked::Tracked;
use crate::{check, functions};
use infc_tensor::{DTypeClass, Tensor};
use std::collections::HashMap;

/// How often the model is looked at again. A round without a change ends it; each level of a branch within a branch
/// takes one.
const MAX_ROUNDS: usize = 16;

/// The first IR version in which an initializer needs no input of its name.
const FREE_INITIALIZERS: i64 = 4;

/// A simplified model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simplified {
    /// The model. Its tensors may point into the files of the one that it was made of.
    pub model: ModelProto,
    /// Whether sizes had to be taken for granted, so that only constants were used.
    pub supposes: bool,
}

/// What the import knows of the names of the main graph.
struct Known {
    values: Values,
    /// Whether what follows from dims holds for all inputs.
    certain: bool,
}

impl Known {
    fn of(model: &Model, options: &ImportOptions) -> Result<Self, ImportError> {
        let (graph, values) = import_values(model, options)?;
        let certain = graph.assumptions.is_empty() && graph.requires.is_empty();
        Ok(Self { values, certain })
    }

    /// What is known of a tensor.
    fn value(&self, name: &str) -> Option<&Tracked> {
        self.values.names.get(name).filter(|value| value.dtype().class() != DTypeClass::Value)
    }

    /// The tensor that a name always stands for.
    fn constant(&self, name: &str) -> Option<Tensor> {
        let value = self.value(name)?;
        let shape: Vec<usize> =
            value.shape().iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<_>>()?;
        if let Some(constant) = value.constant() {
            let tensor = &constant.tensor;
            return (tensor.dtype() == value.dtype() && tensor.shape() == shape).then(|| tensor.clone());
        }
        if !self.certain {
            return None;
        }
        known::tensor_of(value.dtype(), &shape, &value.items()?)
    }
}

/// Simplifies a model. Dims that the options fix are fixed in its inputs.
///
/// # Errors
/// As [`import`](crate::import).
pub fn simplify(model: &Model, options: &ImportOptions) -> Result<Simplified, ImportError> {
    let mut draft = match model.with_calls() {
        Some(with_calls) if functions::means_other_opsets(model.proto()) => with_calls.clone(),
        _ => functions::with_plain_domains(model.proto().clone()),
    };
    let mut graph = draft.graph.take().ok_or(ImportError::NotAModel { reason: "it has no graph" })?;
    names::drop_defaults(&mut graph);
    draft.ir_version = draft.ir_version.map(|version| version.max(FREE_INITIALIZERS));
    let mut known = Known::of(model, options)?;
    for _ in 0..MAX_ROUNDS {
        in_order(&mut draft, &mut graph)?;
        // Not one `||`: all of them are to happen.
        let mut changed = branches::take_known(&mut graph, &known);
        changed |= constants::fold(&draft, &mut graph, &known)?;
        changed |= same::merge(&mut graph, &known);
        changed |= reshapes::resolve(&draft, &mut graph, &known);
        changed |= duplicates::merge(&draft, &mut graph);
        changed |= unused::remove(&mut graph);
        if !changed {
            break;
        }
        let view = ModelProto { graph: Some(graph.clone()), ..draft.clone() };
        known = Known::of(&Model::from_proto(view)?, options)?;
    }
    types::declare(&mut graph, &known);
    names::part(&mut graph, &mut HashMap::new());
    draft.graph = Some(graph);
    Ok(Simplified { model: draft, supposes: !known.certain })
}

/// Puts operands before users.
fn in_order(draft: &mut ModelProto, graph: &mut GraphProto) -> Result<(), ImportError> {
    draft.graph = Some(std::mem::take(graph));
    let order = check::graph(draft)?;
    *graph = draft.graph.take().unwrap_or_default();
    let mut nodes: Vec<Option<NodeProto>> = std::mem::take(&mut graph.node).into_iter().map(Some).collect();
    graph.node = order.into_iter().filter_map(|index| nodes[index].take()).collect();
    Ok(())
}

/// Operators that give something else whenever they are asked, or may.
const RANDOM: [&str; 7] =
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];

/// Whether a node always gives the same for the same inputs, and holds no graph.
pub(crate) fn is_pure(model: &ModelProto, node: &NodeProto) -> bool {
    let domain = crate::model::canonical_domain(node.domain());
    let opset = check::opset(model, node.domain()).unwrap_or_default();
    let is_function = model.functions.iter().any(|f| f.name() == node.op_type() && f.domain() == node.domain());
    let defined = crate::host::defines(node.op_type(), domain, opset)
        || crate::ops::find(node.op_type(), domain, opset).is_some();
    let holds_graph = node.attribute.iter().any(|a| a.g.is_some() || !a.graphs.is_empty());
    defined && !is_function && !holds_graph && !RANDOM.contains(&node.op_type())
}
