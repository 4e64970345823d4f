//! Values that are known become initializers.
//!
//! Small ones are known from the import, dims included; large ones are evaluated by the definitions of their operators.

use super::{Known, is_pure, names};
use crate::attributes::node_attributes;
use crate::error::ImportError;
use crate::model::canonical_domain;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use crate::{check, tensor_proto};
use infc_tensor::{DTypeClass, Tensor};
use std::collections::{HashMap, HashSet};

/// Constants made of less than this may grow to [`GROWN_BYTES`]; of others, folding must not make more than there was, so
/// that no file becomes much larger.
const SEED_BYTES: usize = 4096;
const GROWN_BYTES: usize = 1 << 20;

/// Replaces nodes whose outputs are known; returns whether there were any. `model` is the model without its graph.
///
/// What is dequantised stays computed: its integers are what the model is about.
pub(super) fn fold(model: &ModelProto, graph: &mut GraphProto, known: &Known) -> Result<bool, ImportError> {
    let outputs = names::outputs(graph);
    let mut constants = Constants::of(std::mem::take(&mut graph.initializer));
    let mut dequantised: HashSet<String> = HashSet::new();
    let mut changed = false;
    for mut node in std::mem::take(&mut graph.node) {
        if node.op_type() == "DequantizeLinear" || node.input.iter().any(|name| dequantised.contains(name)) {
            dequantised.extend(node.output.iter().cloned());
            graph.node.push(node);
            continue;
        }
        let is_output = node.output.iter().any(|name| outputs.contains(name));
        let is_constant = node.op_type() == "Constant" && canonical_domain(node.domain()).is_empty();
        if is_output && (is_constant || node.output.len() != 1) {
            graph.node.push(node);
            continue;
        }
        if is_constant && let Some(value) = literal(&mut node) {
            constants.push(value);
            changed = true;
            continue;
        }
        let values = match known_outputs(&node, known) {
            Some(values) => Some(values),
            None => constants.evaluate(model, &node)?,
        };
        let Some(values) = values else {
            graph.node.push(node);
            continue;
        };
        changed = true;
        for (name, value) in node.output.iter().zip(&values).filter(|(name, _)| !name.is_empty()) {
            let proto = tensor_proto::to_proto(name, value);
            if is_output {
                graph.node.push(constant_node(node.name(), name, proto));
            } else {
                constants.push(proto);
            }
        }
    }
    graph.initializer = constants.all;
    Ok(changed)
}

/// The tensor of a `Constant`, under its output's name.
fn literal(node: &mut NodeProto) -> Option<TensorProto> {
    let value = node.attribute.iter_mut().find(|a| a.name() == "value")?.t.take()?;
    Some(TensorProto { name: Some(node.output.first()?.clone()), ..value })
}

/// An output of the graph must come from a node.
fn constant_node(name: &str, output: &str, value: TensorProto) -> NodeProto {
    let value = AttributeProto {
        name: Some("value".to_owned()),
        r#type: Some(AttributeType::Tensor as i32),
        t: Some(value),
        ..AttributeProto::default()
    };
    NodeProto {
        op_type: Some("Constant".to_owned()),
        name: Some(name.to_owned()),
        output: vec![output.to_owned()],
        attribute: vec![value],
        ..NodeProto::default()
    }
}

/// All outputs of a node, if the import knows them.
fn known_outputs(node: &NodeProto, known: &Known) -> Option<Vec<Tensor>> {
    let value = |name: &String| match name.as_str() {
        "" => Some(Tensor::scalar(0i64)),
        name => known.constant(name),
    };
    node.output.iter().map(value).collect()
}

/// The constants of the graph.
struct Constants {
    all: Vec<TensorProto>,
    /// Positions by name.
    by_name: HashMap<String, usize>,
    /// Those that were needed as tensors.
    read: HashMap<String, Tensor>,
}

impl Constants {
    fn of(all: Vec<TensorProto>) -> Self {
        let by_name = all.iter().enumerate().map(|(n, t)| (t.name().to_owned(), n)).collect();
        Self { all, by_name, read: HashMap::new() }
    }

    fn push(&mut self, tensor: TensorProto) {
        self.by_name.insert(tensor.name().to_owned(), self.all.len());
        self.all.push(tensor);
    }

    fn tensor(&mut self, name: &str) -> Result<Option<Tensor>, ImportError> {
        let Some(&index) = self.by_name.get(name) else { return Ok(None) };
        if let Some(tensor) = self.read.get(name) {
            return Ok(Some(tensor.clone()));
        }
        let tensor = tensor_proto::read(&self.all[index])?;
        self.read.insert(name.to_owned(), tensor.clone());
        Ok(Some(tensor))
    }

    /// The outputs of a node of which all inputs are constants, unless they are too large; `None` also if there is no
    /// definition to evaluate, or it refuses.
    fn evaluate(&mut self, model: &ModelProto, node: &NodeProto) -> Result<Option<Vec<Tensor>>, ImportError> {
        let is_known = |name: &String| name.is_empty() || self.by_name.contains_key(name);
        if !is_pure(model, node) || !node.input.iter().all(is_known) {
            return Ok(None);
        }
        let Some(attributes) = node_attributes(node)? else { return Ok(None) };
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(self.tensor(name)?);
        }
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let definition = infc_reference::Node {
            op_type: node.op_type(),
            domain: canonical_domain(node.domain()),
            opset: check::opset(model, node.domain()).unwrap_or_default(),
            attributes: &attributes,
            num_outputs: node.output.len(),
        };
        let Ok(outputs) = infc_reference::evaluate(&definition, &inputs) else { return Ok(None) };
        let given: usize = inputs.iter().flatten().map(|t| t.bytes().len()).sum();
        let made: usize = outputs.iter().map(|t| t.bytes().len()).sum();
        let most = if given <= SEED_BYTES { GROWN_BYTES } else { given };
        let are_tensors = outputs.iter().all(|t| t.dtype().class() != DTypeClass::Value);
        Ok((made <= most && are_tensors).then_some(outputs))
    }
}
