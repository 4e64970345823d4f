//! Shapes that are computed from dims, as constants where `Reshape` has a word for what is not known: 0 for an extent that
//! stays, or -1 for the only one that is left.

use super::{Known, names};
use crate::model::canonical_domain;
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::{check, tensor_proto};
use infc_ir::index::Dim;
use infc_tensor::Tensor;
use std::collections::HashSet;

/// The first opset in which the shape is an input.
const SHAPE_IS_INPUT: i64 = 5;

/// Gives each `Reshape` whose shape can be written as a constant that constant; returns whether there was one.
pub(super) fn resolve(model: &ModelProto, graph: &mut GraphProto, known: &Known) -> bool {
    if !known.certain || check::opset(model, "").is_none_or(|opset| opset < SHAPE_IS_INPUT) {
        return false;
    }
    let constants: HashSet<String> = graph.initializer.iter().map(|t| t.name().to_owned()).collect();
    let found: Vec<(usize, Vec<i64>)> = (graph.node.iter().enumerate())
        .filter_map(|(index, node)| Some((index, constant_shape(node, known, &constants)?)))
        .collect();
    if found.is_empty() {
        return false;
    }
    let mut taken = names::taken(graph);
    for (index, shape) in found {
        let output = graph.node[index].output.first().map_or("", String::as_str);
        let name = names::fresh(&format!("{output}/shape"), &mut taken);
        if let Ok(tensor) = Tensor::from_elements(&[shape.len()], &shape) {
            graph.initializer.push(tensor_proto::to_proto(&name, &tensor));
            graph.node[index].input[1] = name;
        }
    }
    true
}

/// The shape of a `Reshape` as a constant, if it is none and can be one.
fn constant_shape(node: &NodeProto, known: &Known, constants: &HashSet<String>) -> Option<Vec<i64>> {
    let [data, shape] = &node.input[..] else { return None };
    let is_reshape = node.op_type() == "Reshape" && canonical_domain(node.domain()).is_empty();
    let zero_is_zero = node.attribute.iter().any(|a| a.name() == "allowzero" && a.i() != 0);
    if !is_reshape || zero_is_zero || constants.contains(shape) {
        return None;
    }
    written(&known.value(shape)?.dims()?, known.value(data)?.shape())
}

/// The words for the extents of a shape, given those of what is reshaped. Numbers are words already.
///
/// One -1 stands for what is left of the number of elements, which nothing can tell if another extent is 0.
fn written(wanted: &[Dim], given: &[Dim]) -> Option<Vec<i64>> {
    let numbers: Vec<Option<i64>> = wanted.iter().map(Dim::as_const).collect();
    let is_only = numbers.iter().filter(|n| n.is_none()).count() == 1;
    if is_only && numbers.iter().flatten().all(|&number| number > 0) {
        return Some(numbers.into_iter().map(|n| n.unwrap_or(-1)).collect());
    }
    let word = |(axis, number): (usize, Option<i64>)| match number {
        Some(number) => Some(number),
        None => (given.get(axis)? == wanted.get(axis)?).then_some(0),
    };
    numbers.into_iter().enumerate().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::entity::SymbolId;

    #[test]
    fn words_for_extents() {
        let symbol = |n: u32| Dim::symbol(SymbolId(n));
        let number = Dim::constant;
        let given = [symbol(0), symbol(1), number(12)];
        assert_eq!(written(&[symbol(1), number(3)], &given), Some(vec![-1, 3]));
        assert_eq!(written(&[symbol(0), symbol(1), number(3), number(4)], &given), Some(vec![0, 0, 3, 4]));
        // Two extents move: neither word says which is which.
        assert_eq!(written(&[symbol(1), symbol(0), number(12)], &given), None);
        // What the model has said already: one extent is whatever is left, one stays.
        assert_eq!(written(&[symbol(0), number(-1)], &given), Some(vec![0, -1]));
        assert_eq!(written(&[symbol(1), number(-1)], &given), None);
        assert_eq!(written(&[number(0), symbol(1), number(-1)], &given), Some(vec![0, 0, -1]));
    }
}
