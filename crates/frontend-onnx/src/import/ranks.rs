//! Inputs of which the model does not say how many axes they have.
//!
//! A model often makes sense with one number of axes alone, because of a convolution somewhere. So each number is tried; if
//! all but one contradict the model, the input has that many. If more are possible, it has as many as a run gives it
//! ([`super::unranked`]).

use super::unranked::MOST_AXES;
use super::{ImportOptions, ShapeDim};
use crate::error::ImportError;
use crate::model::Model;
use crate::proto::{ValueInfoProto, type_proto};

/// Models with more nodes times inputs of this kind are not tried: an import of each takes too long.
const MOST_NODES: usize = 1 << 14;

/// True of a tensor of no known number of axes.
pub(super) fn is_unranked(input: &ValueInfoProto) -> bool {
    let value = input.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    matches!(value, Some(type_proto::Value::TensorType(tensor)) if tensor.shape.is_none())
}

/// True if a model cannot be what it is said to be; not if it is infc that cannot import it.
fn is_contradiction(error: &ImportError) -> bool {
    matches!(error, ImportError::Node { problem, .. } if problem.is_contradiction())
}

/// The options with the numbers of axes that inputs must have for the model to make sense; `outcome` tries some.
pub(super) fn with_ranks(
    model: &Model,
    options: &ImportOptions,
    outcome: impl Fn(&ImportOptions) -> Result<(), ImportError>,
) -> ImportOptions {
    let mut options = options.clone();
    let is_given = |name: &str| options.shapes.iter().any(|(given, _)| given == name);
    let open = model.inputs().filter(|&input| is_unranked(input) && !is_given(input.name()));
    let open: Vec<String> = open.map(|input| input.name().to_owned()).collect();
    if open.len().saturating_mul(model.graph().node.len()) > MOST_NODES {
        return options;
    }
    for name in open {
        let with = |rank: usize| {
            let mut options = options.clone();
            options.shapes.push((name.clone(), vec![ShapeDim::Dynamic; rank]));
            options
        };
        let outcomes = (0..=MOST_AXES).map(with).map(|options| (outcome(&options), options));
        let mut possible = outcomes.filter(|(outcome, _)| !outcome.as_ref().is_err_and(is_contradiction));
        if let (Some((Ok(()), only)), None) = (possible.next(), possible.next()) {
            options = only;
        }
    }
    options
}
