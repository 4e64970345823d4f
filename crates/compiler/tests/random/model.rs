//! A draft as an ONNX model.

use crate::draft::{Draft, Extent, Id, Origin};
use crate::evaluate::Operation;
use crate::net::{attribute, port};
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::dimension;
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto, type_proto,
};
use infc_frontend_onnx::to_proto;
use infc_tensor::{DType, Subgraph, SubgraphNode};
use prost::Message;

/// The inputs that the model has, in order.
pub(crate) fn inputs(draft: &Draft) -> Vec<Id> {
    let is_input = |id: &Id| matches!(draft.values[*id].origin, Origin::Input(_) | Origin::Numbers);
    (0..draft.values.len()).filter(is_input).filter(|&id| is_read(draft, id)).collect()
}

fn is_read(draft: &Draft, id: Id) -> bool {
    draft.nodes.iter().any(|node| node.inputs.contains(&Some(id)))
}

fn name(id: Id) -> String {
    format!("v{id}")
}

/// Some models do not say of some inputs how many axes they have.
fn is_unranked(draft: &Draft, id: Id) -> bool {
    const ONE_IN: u64 = 16;
    draft.seed % ONE_IN == ONE_IN / 2 + 1 && (draft.seed / ONE_IN + id as u64).is_multiple_of(2)
}

fn without_shape(ty: &mut type_proto::Value) {
    if let type_proto::Value::TensorType(tensor) = ty {
        tensor.shape = None;
    }
}

/// The model's bytes.
pub(crate) fn bytes(draft: &Draft) -> Vec<u8> {
    let mut graph = GraphProto { name: Some("random".to_owned()), ..GraphProto::default() };
    for id in inputs(draft) {
        let tensor = draft.at(id);
        let extents = match &draft.values[id].origin {
            Origin::Input(extents) => extents.clone(),
            _ => tensor.shape().iter().map(|&size| Extent { name: None, size }).collect(),
        };
        let mut info = value_info(id, tensor.dtype(), &extents);
        if is_unranked(draft, id) {
            info.r#type.iter_mut().filter_map(|ty| ty.value.as_mut()).for_each(without_shape);
        }
        graph.input.push(info);
    }
    for (id, value) in draft.values.iter().enumerate() {
        if matches!(value.origin, Origin::Constant) && is_read(draft, id) {
            graph.initializer.push(to_proto(&name(id), &value.samples[0]));
        }
    }
    for (n, node) in draft.nodes.iter().enumerate() {
        let Operation { op_type, domain, attributes, graphs, outputs, .. } = &node.operation;
        let inputs: Vec<String> = node.inputs.iter().map(|id| id.map_or_else(String::new, name)).collect();
        let (own, captured) = inputs.split_at(inputs.len() - graphs.captures.len());
        let captures: Vec<(&str, &str)> =
            graphs.captures.iter().zip(captured).map(|(inside, around)| (&**inside, &**around)).collect();
        let plain = attributes.iter().map(|(name, value)| attribute(name, value));
        let holds = graphs.roots.iter().map(|(name, root)| AttributeProto {
            name: Some(name.clone()),
            g: Some(subgraph(&graphs.graphs[*root as usize], &captures, &format!("n{n}.{name}"))),
            r#type: Some(AttributeType::Graph as i32),
            ..AttributeProto::default()
        });
        graph.node.push(NodeProto {
            name: Some(format!("{op_type}{n}")),
            op_type: Some((*op_type).to_owned()),
            domain: Some((*domain).to_owned()),
            input: own.to_vec(),
            output: (node.first..node.first + outputs).map(name).collect(),
            attribute: plain.chain(holds).collect(),
            ..NodeProto::default()
        });
    }
    for &id in &draft.outputs {
        graph.output.push(ValueInfoProto { name: Some(name(id)), ..ValueInfoProto::default() });
    }
    let opset = |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
    let opset_import = vec![opset("", draft.opset), opset("com.microsoft", 1), opset("ai.onnx.ml", 3)];
    let model = ModelProto { ir_version: Some(10), opset_import, graph: Some(graph), ..ModelProto::default() };
    model.encode_to_vec()
}

/// A graph within a node, whose nodes hold no graphs. Its own names get a prefix, captured ones are those around it.
fn subgraph(graph: &Subgraph, captures: &[(&str, &str)], prefix: &str) -> GraphProto {
    let named = |name: &String| match captures.iter().find(|(inside, _)| inside == name) {
        Some((_, around)) => (*around).to_owned(),
        None => format!("{prefix}.{name}"),
    };
    let port = |name: String| ValueInfoProto { name: Some(name), ..ValueInfoProto::default() };
    let node = |node: &SubgraphNode| NodeProto {
        op_type: Some(node.op_type.clone()),
        input: node.inputs.iter().map(named).collect(),
        output: node.outputs.iter().map(named).collect(),
        attribute: node.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
        ..NodeProto::default()
    };
    GraphProto {
        name: Some(prefix.to_owned()),
        node: graph.nodes.iter().map(node).collect(),
        input: graph.inputs.iter().map(|name| port(named(name))).collect(),
        output: graph.outputs.iter().map(|output| port(named(&output.name))).collect(),
        ..GraphProto::default()
    }
}

fn value_info(id: Id, dtype: DType, extents: &[Extent]) -> ValueInfoProto {
    let dim = |extent: &Extent| match &extent.name {
        Some(name) => dimension::Value::DimParam(name.clone()),
        None => dimension::Value::DimValue(extent.size as i64),
    };
    port(&name(id), dtype, extents.iter().map(dim).collect())
}
