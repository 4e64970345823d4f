//! Operators that text may go through: they move elements, or compare or convert them. So may complex numbers, which no kernel
//! moves.
//!
//! What such an operator gives has the same shape whatever its elements are. So the node is imported with bytes in the
//! place of text, and the types of its outputs are those, with text in the place of bytes. What was added to the graph
//! for that is read by nobody.

use super::Typing;
use crate::build::Result;
use crate::call::Call;
use crate::error::Problem;
use crate::known::Item;
use crate::ops;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_tensor::{DType, DTypeClass};

/// Stands for them.
const STAND_IN: DType = DType::U8;

/// True if the shape of what the operator gives does not depend on its elements.
fn is_known(op_type: &str) -> bool {
    matches!(
        op_type,
        "Cast"
            | "CastLike"
            | "CenterCropPad"
            | "Concat"
            | "DepthToSpace"
            | "Equal"
            | "Expand"
            | "Flatten"
            | "Gather"
            | "GatherElements"
            | "GatherND"
            | "Pad"
            | "Reshape"
            | "ReverseSequence"
            | "Scatter"
            | "ScatterElements"
            | "ScatterND"
            | "Shape"
            | "Size"
            | "Slice"
            | "SpaceToDepth"
            | "Split"
            | "Squeeze"
            | "Tile"
            | "Transpose"
            | "Trilu"
            | "Unsqueeze"
            | "Where"
    )
}

/// The type that a conversion is to; `None` for other operators.
fn cast_target(call: &Call<'_>, op_type: &str) -> Result<Option<DType>> {
    match op_type {
        "Cast" => call.dtype("to"),
        "CastLike" => Ok(Some(call.input(1)?.dtype())),
        _ => Ok(None),
    }
}

/// The type of text that a node takes, or of complex numbers that its import refused.
pub(in crate::host) fn strange(call: &Call<'_>, problem: Option<&Problem>) -> Option<DType> {
    let refused = match problem {
        Some(Problem::UnsupportedType { found, .. }) => {
            Some(*found).filter(|dtype| dtype.class() == DTypeClass::Complex)
        }
        _ => None,
    };
    let takes = |dtype: &DType| call.inputs.iter().flatten().any(|input| input.dtype() == *dtype);
    [Some(DType::String), refused].into_iter().flatten().find(takes)
}

/// The types of the outputs of a node that takes text or complex numbers, or makes text; `None` if no rule for them is known here.
pub(in crate::host) fn types(
    t: &mut Typing<'_, '_>,
    (op_type, domain): (&str, &str),
    problem: Option<&Problem>,
) -> Result<Option<Vec<TensorType>>> {
    let operator = ops::find(op_type, domain, t.call.opset).filter(|_| domain.is_empty() && is_known(op_type));
    let Some(operator) = operator else { return Ok(None) };
    let of_text = matches!(problem, Some(Problem::UnsupportedType { found: DType::String, .. }));
    if let Some(to) = cast_target(t.call, op_type)?.filter(|_| of_text) {
        return Ok(Some(vec![TensorType::new(to, t.call.input(0)?.shape().to_vec())]));
    }
    let Some(strange) = strange(t.call, problem) else { return Ok(None) };
    let as_bytes = |input: &Tracked| match input.dtype() {
        dtype if dtype == strange => Tracked::uniform(TensorType::new(STAND_IN, input.shape().to_vec()), Item::int(0)),
        _ => input.clone(),
    };
    let stand_ins = t.call.inputs.iter().map(|input| input.as_ref().map(as_bytes)).collect();
    let inputs = std::mem::replace(&mut t.call.inputs, stand_ins);
    let outputs = (operator.import)(t.call);
    t.call.inputs = inputs;
    let types = outputs?.into_iter().map(|output| match output.dtype() {
        STAND_IN => TensorType::new(strange, output.shape().to_vec()),
        _ => output.ty().clone(),
    });
    Ok(Some(types.collect()))
}
