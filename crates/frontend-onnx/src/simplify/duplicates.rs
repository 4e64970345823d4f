//! Nodes that compute the same, and constants that are the same, once each.

use super::{is_pure, names};
use crate::model::canonical_domain;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use bytes::Bytes;
use prost::Message;
use std::collections::HashMap;

/// Lets readers read the first of several that are the same; returns whether there were any. `model` is the model
/// without its graph.
pub(super) fn merge(model: &ModelProto, graph: &mut GraphProto) -> bool {
    let constants = names::merge(graph, same_constants(graph));
    let nodes = names::merge(graph, same_nodes(model, graph));
    constants | nodes
}

fn same_constants(graph: &GraphProto) -> Vec<(String, String)> {
    let mut first: HashMap<(i32, &[i64], Bytes), &TensorProto> = HashMap::new();
    let mut pairs = Vec::new();
    for tensor in &graph.initializer {
        // Whoever wrote elements one by one wrote few.
        let data = tensor.raw_data.clone().unwrap_or_else(|| {
            let bare = TensorProto { name: None, doc_string: None, ..tensor.clone() };
            Bytes::from(bare.encode_to_vec())
        });
        match first.get(&(tensor.data_type(), &tensor.dims[..], data.clone())) {
            Some(same) => pairs.push((tensor.name().to_owned(), same.name().to_owned())),
            None => drop(first.insert((tensor.data_type(), &tensor.dims[..], data), tensor)),
        }
    }
    pairs
}

fn same_nodes(model: &ModelProto, graph: &GraphProto) -> Vec<(String, String)> {
    let mut first: HashMap<Vec<u8>, &NodeProto> = HashMap::new();
    let mut pairs: Vec<(String, String)> = Vec::new();
    // Inputs that are the same, so that nodes behind each other are found at once.
    let mut same: HashMap<&str, &str> = HashMap::new();
    for node in graph.node.iter().filter(|node| is_pure(model, node)) {
        let mut attribute = node.attribute.clone();
        attribute.sort_by(|a, b| a.name().cmp(b.name()));
        attribute.iter_mut().for_each(|a| a.doc_string = None);
        let key = NodeProto {
            op_type: node.op_type.clone(),
            domain: Some(canonical_domain(node.domain()).to_owned()),
            overload: node.overload.clone(),
            input: node
                .input
                .iter()
                .map(|name| (*same.get(name.as_str()).unwrap_or(&name.as_str())).to_owned())
                .collect(),
            // Which outputs there are may matter.
            output: node.output.iter().map(|name| if name.is_empty() { "" } else { "y" }.to_owned()).collect(),
            attribute,
            ..NodeProto::default()
        };
        match first.get(&key.encode_to_vec()) {
            Some(known) => {
                for (output, known) in node.output.iter().zip(&known.output).filter(|(output, _)| !output.is_empty()) {
                    same.insert(output, known);
                    pairs.push((output.clone(), known.clone()));
                }
            }
            None => drop(first.insert(key.encode_to_vec(), node)),
        }
    }
    pairs
}
