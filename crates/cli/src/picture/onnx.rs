//! The picture as an ONNX model, for viewers of such: a node of domain `infc` per step, whose attributes tell what is
//! known of it. Nobody can run it.
//!
//! Of what lies between kernels an artifact knows the size alone, so that is what its type says: so many bytes.

use super::{Kind, Node, Picture};
use infc_artifact::{Entry, PortSpec, Program, Slot};
use infc_frontend_onnx::dtype_to_onnx;
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use infc_tensor::DType;
use prost::Message;
use std::collections::BTreeMap;

/// The oldest version of the format that says all this.
const IR_VERSION: i64 = 8;
const DOMAIN: &str = "infc";

/// The whole file.
pub(crate) fn file(picture: &Picture, entry: &Entry, program: &Program, symbols: &[i64]) -> Vec<u8> {
    let names = entry.symbol_names();
    let slot_name = |slot: u32| match program.slots.get(slot as usize) {
        Some(Slot::Input(n)) => entry.inputs.get(*n as usize).map(|port| port.name.clone()),
        Some(Slot::Output(n)) => entry.outputs.get(*n as usize).map(|port| port.name.clone()),
        _ => None,
    };
    // A value has one writer in ONNX: where several write their parts, each makes a value of its own.
    let value = |from: usize, slot: u32| match (&picture.nodes[from].kind, slot_name(slot)) {
        (Kind::Input, _) => picture.nodes[from].title.clone(),
        (_, Some(name)) if sole_writer(picture, slot, from) => name,
        _ => format!("{} {slot}", picture.nodes[from].step.unwrap_or_default()),
    };
    let mut inputs: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut outputs: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut values: BTreeMap<String, u32> = BTreeMap::new();
    for edge in &picture.edges {
        let name = value(edge.from, edge.slot);
        let made = outputs.entry(edge.from).or_default();
        if !made.contains(&name) {
            made.push(name.clone());
        }
        inputs.entry(edge.to).or_default().push(name.clone());
        values.insert(name, edge.slot);
    }
    let mut nodes: Vec<NodeProto> = Vec::new();
    for (index, node) in picture.nodes.iter().enumerate() {
        let (reads, makes) = (inputs.remove(&index).unwrap_or_default(), outputs.remove(&index).unwrap_or_default());
        match node.kind {
            Kind::Input => {}
            // What no kernel writes under that name, or several do in parts.
            Kind::Output if reads == [node.title.clone()] => {}
            Kind::Output => nodes.push(step("Output", node, reads, vec![node.title.clone()])),
            Kind::Kernel | Kind::Host | Kind::Other => nodes.push(step(&node.title, node, reads, makes)),
        }
    }
    let ports = |ports: &[PortSpec]| ports.iter().map(|port| info(port, &names)).collect::<Vec<_>>();
    let known: Vec<&str> = entry.inputs.iter().chain(&entry.outputs).map(|port| port.name.as_str()).collect();
    let between = values.into_iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let value_info = between.filter_map(|(name, slot)| bytes_of(&name, program.slots.get(slot as usize)?, symbols));
    let graph = GraphProto {
        name: Some(entry.name.clone()),
        node: nodes,
        input: ports(&entry.inputs),
        output: ports(&entry.outputs),
        value_info: value_info.collect(),
        ..GraphProto::default()
    };
    let import = |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("infc".to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        doc_string: Some("The kernels of an artifact, for looking at".to_owned()),
        opset_import: vec![import("", 17), import(DOMAIN, 1)],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn sole_writer(picture: &Picture, slot: u32, from: usize) -> bool {
    picture.edges.iter().all(|edge| edge.slot != slot || edge.from == from)
}

fn step(op_type: &str, node: &Node, input: Vec<String>, output: Vec<String>) -> NodeProto {
    let list = |name: &str, texts: &[String]| {
        (!texts.is_empty()).then(|| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::Strings as i32),
            strings: texts.iter().map(|text| text.clone().into_bytes().into()).collect(),
            ..AttributeProto::default()
        })
    };
    let schedule: Vec<String> = node.schedule.lines().map(str::to_owned).collect();
    let lists =
        [("onnx_nodes", &node.origins), ("work", &node.facts), ("weights", &node.weights), ("schedule", &schedule)];
    NodeProto {
        op_type: Some(op_type.to_owned()),
        domain: Some(DOMAIN.to_owned()),
        name: Some(node.step.map_or_else(|| node.title.clone(), |step| format!("step {step}"))),
        input,
        output,
        attribute: lists.into_iter().filter_map(|(name, texts)| list(name, texts)).collect(),
        ..NodeProto::default()
    }
}

fn tensor(name: &str, dtype: DType, dims: Vec<dimension::Value>) -> ValueInfoProto {
    let dim = dims.into_iter().map(|value| Dimension { denotation: None, value: Some(value) }).collect();
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(dtype)), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}

fn info(port: &PortSpec, symbols: &[&str]) -> ValueInfoProto {
    let extent = |size: &infc_artifact::SizeExpr| match size.as_const() {
        Some(number) => dimension::Value::DimValue(number),
        None => dimension::Value::DimParam(size.to_text(symbols)),
    };
    let mut info = tensor(&port.name, port.element_type(), port.shape.iter().map(extent).collect());
    if let (Some(_), Some(type_proto::Value::TensorType(tensor))) =
        (port.unranked, info.r#type.as_mut().and_then(|ty| ty.value.as_mut()))
    {
        tensor.shape = None;
    }
    info
}

fn bytes_of(name: &str, slot: &Slot, symbols: &[i64]) -> Option<ValueInfoProto> {
    let Slot::Arena(slot) = slot else { return None };
    let bytes = slot.size_bytes.eval(symbols).ok()?;
    Some(tensor(name, DType::U8, vec![dimension::Value::DimValue(bytes)]))
}
