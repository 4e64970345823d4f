//! Operators that text may go through: they move elements, or compare or convert them.
//!
//! What such an operator gives has the same shape whatever its elements are. So the node is imported with bytes in the
//! place of text, and the types of its outputs are those, with text in the place of bytes. What was added to the graph
//! for that is read by nobody.

use super::Typing;
use crate::build::Result;
use crate::known::Item;
use crate::ops;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_tensor::DType;

/// Stands for text.
const STAND_IN: DType = DType::U8;

/// True if the shape of what the operator gives does not depend on its elements.
fn is_known(op_type: &str) -> bool {
    matches!(
        op_type,
        "Cast"
            | "Concat"
            | "DepthToSpace"
            | "Equal"
            | "Expand"
            | "Flatten"
            | "Gather"
            | "GatherElements"
            | "GatherND"
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
            | "Unsqueeze"
            | "Where"
    )
}

/// The types of the outputs of a node that takes text; `None` if no rule for them is known here.
pub(in crate::host) fn types(t: &mut Typing<'_, '_>, op_type: &str, domain: &str) -> Result<Option<Vec<TensorType>>> {
    let operator = ops::find(op_type, domain, t.call.opset).filter(|_| domain.is_empty() && is_known(op_type));
    let takes_text = t.call.inputs.iter().flatten().any(|input| input.dtype() == DType::String);
    let Some(operator) = operator.filter(|_| takes_text) else { return Ok(None) };
    let as_bytes = |input: &Tracked| match input.dtype() {
        DType::String => Tracked::uniform(TensorType::new(STAND_IN, input.shape().to_vec()), Item::int(0)),
        _ => input.clone(),
    };
    let stand_ins = t.call.inputs.iter().map(|input| input.as_ref().map(as_bytes)).collect();
    let inputs = std::mem::replace(&mut t.call.inputs, stand_ins);
    let outputs = (operator.import)(t.call);
    t.call.inputs = inputs;
    let types = outputs?.into_iter().map(|output| match output.dtype() {
        STAND_IN => TensorType::new(DType::String, output.shape().to_vec()),
        _ => output.ty().clone(),
    });
    Ok(Some(types.collect()))
}
