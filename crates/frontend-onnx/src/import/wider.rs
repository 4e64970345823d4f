//! Elements that are only moved and converted, in operators that compute with them: as wider ones, which have all of their
//! values.

use crate::build::Result;
use crate::call::Call;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::ops::Operator;
use crate::proto::{GraphProto, NodeProto};
use crate::tensor_proto::dtype_to_onnx;
use crate::tracked::Tracked;
use infc_ir::scalar::is_computable;
use infc_tensor::{DType, DTypeClass};

/// Operators whose results follow from the values of their elements, whatever else their type could hold: what is asked of
/// elements, and where they go.
fn goes_by_values(op_type: &str) -> bool {
    matches!(op_type, "Cast" | "CastLike" | "Dropout" | "IsInf" | "IsNaN" | "Pad" | "TensorScatter" | "Trilu")
}

fn is_narrow(dtype: DType) -> bool {
    matches!(dtype.class(), DTypeClass::Float | DTypeClass::Signed | DTypeClass::Unsigned) && !is_computable(dtype)
}

/// The type that elements of a narrow type are computed in.
fn wider(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype.widened() }
}

/// The outputs of a node that takes narrow elements, or makes them of text, and cannot be expanded as it is, in kernels or on
/// the host; `None` if none of its elements are narrow, or that does not help either.
pub(super) fn import(
    call: &mut Call<'_>,
    node_ref: &NodeRef,
    graph: &GraphProto,
    operator: &Operator,
    problem: &Problem,
) -> std::result::Result<Option<Vec<Tracked>>, ImportError> {
    let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
    let first = call.inputs.first().and_then(|input| input.as_ref()).map(Tracked::dtype);
    let is_standard = node_ref.domain.is_empty() && goes_by_values(&node_ref.op_type);
    let target = if node_ref.op_type == "Cast" { call.dtype("to").map_err(in_node)? } else { None };
    let types = call.inputs.iter().flatten().map(Tracked::dtype);
    let Some(narrow) = target.into_iter().chain(types).find(|&dtype| is_narrow(dtype)).filter(|_| is_standard) else {
        return Ok(None);
    };
    let mut node: NodeProto = call.node.clone();
    for to in node.attribute.iter_mut().filter(|attribute| target == Some(narrow) && attribute.name() == "to") {
        to.i = Some(i64::from(dtype_to_onnx(wider(narrow))));
    }
    let inputs = call.inputs.clone();
    let inputs = inputs.into_iter().map(|input| input.map(|input| widened(call, input, narrow)).transpose());
    let inputs = inputs.collect::<Result<Vec<_>>>().map_err(in_node)?;
    let mut wide = Call { node: &node, opset: call.opset, inputs, build: call.build, wanted: call.wanted.clone() };
    let outputs = match (operator.import)(&mut wide) {
        Ok(outputs) => outputs,
        Err(_) => match host::import(&mut wide, node_ref, graph, Some(problem))? {
            Some(outputs) => outputs,
            None => return Ok(None),
        },
    };
    // What is moved or converted to them stays narrow.
    let stays = first == Some(narrow) || target == Some(narrow) || node_ref.op_type == "CastLike";
    let narrowed = outputs.into_iter().map(|output| match output.dtype() {
        dtype if dtype == wider(narrow) && stays => call.build.cast(&output, narrow),
        _ => Ok(output),
    });
    narrowed.collect::<Result<Vec<_>>>().map(Some).map_err(in_node)
}

fn widened(call: &mut Call<'_>, input: Tracked, narrow: DType) -> Result<Tracked> {
    if input.dtype() == narrow { call.build.cast(&input, wider(narrow)) } else { Ok(input) }
}
