//! Values that are the same under another name: what `Identity`, a reshape to the same shape, or a cast to the same type
//! makes.

use super::{Known, names};
use crate::proto::GraphProto;
use infc_ir::entity::ValueId;
use infc_tensor::DType;
use std::collections::HashMap;

/// Lets readers read the first value of several that are the same; returns whether there were any.
pub(super) fn merge(graph: &mut GraphProto, known: &Known) -> bool {
    if !known.certain {
        return false;
    }
    let mut first: HashMap<(ValueId, DType), &str> = HashMap::new();
    let mut pairs = Vec::new();
    let inputs = graph.input.iter().map(|input| input.name());
    let outputs = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    for name in inputs.chain(outputs) {
        let Some(value) = known.value(name) else { continue };
        let (Some(id), None) = (value.value(), value.constant()) else { continue };
        match first.get(&(id, value.dtype())) {
            Some(same) => pairs.push((name.to_owned(), (*same).to_owned())),
            None => drop(first.insert((id, value.dtype()), name)),
        }
    }
    names::merge(graph, pairs)
}
