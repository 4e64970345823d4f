//! Inputs of which the model does not say how many axes they have.
//!
//! A model often makes sense with one number of axes alone, because of a convolution somewhere. So numbers are tried: first one
//! for all inputs of an element type (tokens have as many axes as masks, caches as many as each other), then one input after
//! the other. If all but one contradict the model, it is taken, and a run with another one is refused. If more are possible, the
//! input has as many as a run gives it ([`super::unranked`]).
//!
//! Beside others of its type an input may often have fewer axes, too, and repeat. A model of many nodes is not left to the host
//! for that.

use super::demand::Demand;
use super::unranked::MOST_AXES;
use super::{ImportOptions, ShapeDim, attempts};
use crate::element::declared_dtype;
use crate::error::ImportError;
use crate::model::Model;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto, type_proto};
use infc_tensor::DType;

/// Models with more nodes times imports are not tried: it takes too long.
const MOST_NODES: usize = 1 << 17;

/// Models with more nodes times imports are not tried input by input, where what is left open makes an import slow.
const MOST_NODES_ALONE: usize = 1 << 12;

/// More than so many element types are not tried together.
const MOST_TYPES: u32 = 2;

/// Whoever evaluates so many nodes takes little time.
const FEW_NODES: usize = 100;

/// So many answers to questions about dims are tried of each.
const MOST_ANSWERS: usize = 8;

/// How many nodes a graph has, with those of graphs within.
fn nodes_of(graph: &GraphProto) -> usize {
    let held = |node: &NodeProto| -> usize {
        node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)).map(nodes_of).sum()
    };
    graph.node.iter().map(|node| 1 + held(node)).sum()
}

/// True of a tensor of no known number of axes.
fn is_unranked(input: &ValueInfoProto) -> bool {
    let value = input.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    matches!(value, Some(type_proto::Value::TensorType(tensor)) if tensor.shape.is_none())
}

/// What comes of an import; of one that fails, also whether it had taken something for granted before.
type Attempt = Result<(), (ImportError, bool)>;

/// Says whether a model of so many nodes cannot be what it is said to be; not if it is infc that cannot import it, or if it
/// may be what was taken for granted that is wrong.
fn is_contradiction(attempt: &Attempt, nodes: usize) -> bool {
    match attempt {
        // What the user says of an axis, that axis has.
        Err((ImportError::UnknownDim { .. }, _)) => true,
        Err((ImportError::Node { problem, .. }, has_assumed)) => {
            problem.is_contradiction() && (nodes > FEW_NODES || !has_assumed)
        }
        _ => false,
    }
}

/// The options with the numbers of axes that inputs must have for the model to make sense, where it does not declare them.
/// [`import`](super::import) leaves them to the run.
#[must_use]
pub fn with_ranks(model: &Model, options: &ImportOptions) -> ImportOptions {
    let attempt = |options: &ImportOptions| {
        let mut demand = Demand::default();
        let attempt = attempts(model, options, &mut demand, MOST_ANSWERS).map(|_| ());
        attempt.map_err(|error| (error, demand.has_assumed))
    };
    let is_given = |name: &str| options.shapes.iter().any(|(given, _)| given == name);
    let open = model.inputs().filter(|&input| is_unranked(input) && !is_given(input.name()));
    let open: Vec<(String, Option<DType>)> =
        open.map(|input| (input.name().to_owned(), declared_dtype(input))).collect();
    let mut types: Vec<Option<DType>> = Vec::new();
    for (_, dtype) in &open {
        if !types.contains(dtype) {
            types.push(*dtype);
        }
    }
    let nodes = nodes_of(model.graph());
    let count = MOST_AXES + 1;
    let mut options = options.clone();
    let together = count.pow((types.len() as u32).min(MOST_TYPES));
    let certain = count.saturating_mul(open.len());
    if !open.is_empty() && types.len() <= MOST_TYPES as usize && together.saturating_mul(nodes) <= MOST_NODES {
        let with = |n: usize| {
            let rank =
                |dtype| types.iter().position(|ty| *ty == dtype).map_or(0, |ty| n / count.pow(ty as u32) % count);
            with_shapes(&options, open.iter().map(|(name, dtype)| (name, rank(*dtype))))
        };
        let is_certain = |of: &ImportOptions| {
            certain.saturating_mul(nodes) <= MOST_NODES
                && open.iter().all(|(name, _)| is_only(of, name, &attempt, nodes))
        };
        let only = only_possible((0..together).map(with), &attempt, nodes);
        if let Some(only) = only.filter(|only| nodes > FEW_NODES || is_certain(only)) {
            return only;
        }
    }
    if open.len() > 1 && count.saturating_mul(open.len()).saturating_mul(nodes) <= MOST_NODES_ALONE {
        for (name, _) in &open {
            let with = |rank| with_shapes(&options, std::iter::once((name, rank)));
            if let Some(only) = only_possible((0..count).map(with), &attempt, nodes) {
                options = only;
            }
        }
    }
    options
}

/// True if an input can have no other number of axes beside the others.
fn is_only(options: &ImportOptions, input: &str, attempt: &impl Fn(&ImportOptions) -> Attempt, nodes: usize) -> bool {
    (0..=MOST_AXES).all(|rank| {
        let mut options = options.clone();
        let Some((_, shape)) = options.shapes.iter_mut().find(|(name, _)| name == input) else { return false };
        if shape.len() == rank {
            return true;
        }
        *shape = vec![ShapeDim::Dynamic; rank];
        is_contradiction(&attempt(&options), nodes)
    })
}

/// The options with so many axes for some inputs.
fn with_shapes<'n>(options: &ImportOptions, ranks: impl Iterator<Item = (&'n String, usize)>) -> ImportOptions {
    let mut options = options.clone();
    options.shapes.extend(ranks.map(|(name, rank)| (name.clone(), vec![ShapeDim::Dynamic; rank])));
    options
}

/// The one of several options that does not contradict the model.
fn only_possible(
    options: impl Iterator<Item = ImportOptions>,
    attempt: &impl Fn(&ImportOptions) -> Attempt,
    nodes: usize,
) -> Option<ImportOptions> {
    let attempts = options.map(|options| (attempt(&options), options));
    let mut possible = attempts.filter(|(attempt, _)| !is_contradiction(attempt, nodes));
    match (possible.next(), possible.next()) {
        (Some((Ok(()), only)), None) => Some(only),
        _ => None,
    }
}
