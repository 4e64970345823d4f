//! A model evaluated node by node, by the definitions of its operators: what an artifact should compute.
//!
//! Nothing here goes through the compiler: no import, no pass, no kernel. It is slow, and meant to be.

use crate::error::CliError;
use crate::failure::Failure;
use bytes::Bytes;
use infc_frontend_onnx::proto::{NodeProto, TensorProto};
use infc_frontend_onnx::{ImportError, Model, decode_tensor, node_graphs};
use infc_reference::{Attributes, EvalError, Node, evaluate_with};
use infc_tensor::{Subgraphs, Tensor};
use prost::Message;
use std::collections::HashMap;

/// A model ready to be evaluated.
pub(crate) struct OnnxEvaluator {
    model: Model,
    constants: HashMap<String, Tensor>,
    /// Of each node, and the graphs that it holds.
    attributes: Vec<(Attributes, Subgraphs)>,
}

impl OnnxEvaluator {
    /// Decodes constants and attributes.
    pub(crate) fn new(model: Model) -> Result<Self, Failure> {
        let mut constants = HashMap::new();
        for proto in &model.graph().initializer {
            constants.insert(proto.name().to_owned(), tensor(proto)?);
        }
        let nodes = &model.graph().node;
        let attributes = nodes.iter().enumerate().map(|(index, node)| {
            node_graphs(&model, node)?.ok_or_else(|| {
                let node = model.node_ref(index);
                let reason = "it holds a graph with operators that have no definition".to_owned();
                CliError::CannotEvaluate { node: node.to_string(), reason }.into()
            })
        });
        let attributes = attributes.collect::<Result<_, Failure>>()?;
        Ok(Self { model, constants, attributes })
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The names of the inputs, in order; initializers are none.
    pub(crate) fn input_names(&self) -> Vec<&str> {
        self.model.inputs().map(|input| input.name()).collect()
    }

    /// The names of the outputs, in order.
    pub(crate) fn output_names(&self) -> Vec<&str> {
        self.model.outputs().map(|output| output.name()).collect()
    }

    /// Computes the outputs from the inputs, both in the model's order.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, CliError> {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        let nodes = &self.model.graph().node;
        let reads = |index: usize| nodes[index].input.iter().chain(&self.attributes[index].1.captures);
        for name in (0..nodes.len()).flat_map(reads).map(String::as_str).chain(self.output_names()) {
            *uses.entry(name).or_default() += 1;
        }
        let mut values: HashMap<&str, Tensor> = self.input_names().into_iter().zip(inputs.iter().cloned()).collect();
        for &index in self.model.order() {
            let node = &nodes[index];
            let outputs = self.evaluate(index, node, &values)?;
            for name in reads(index) {
                // What nobody reads any more is let go.
                let left = uses.entry(name).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    values.remove(name.as_str());
                }
            }
            for (name, tensor) in node.output.iter().zip(outputs) {
                if uses.contains_key(name.as_str()) {
                    values.insert(name, tensor);
                }
            }
        }
        let output = |name: &str| {
            // The model was checked: every output is defined.
            let value = values.get(name).or_else(|| self.constants.get(name)).cloned();
            value.ok_or_else(|| CliError::CannotEvaluate {
                node: format!("output `{name}`"),
                reason: "nothing defines it".to_owned(),
            })
        };
        self.output_names().into_iter().map(output).collect()
    }

    fn evaluate(
        &self,
        index: usize,
        node: &NodeProto,
        values: &HashMap<&str, Tensor>,
    ) -> Result<Vec<Tensor>, CliError> {
        let (attributes, graphs) = &self.attributes[index];
        let names = node.input.iter().chain(&graphs.captures);
        let inputs: Vec<Option<&Tensor>> =
            names.map(|name| values.get(name.as_str()).or_else(|| self.constants.get(name))).collect();
        let definition = Node {
            op_type: node.op_type(),
            domain: node.domain(),
            opset: self.model.opset(node.domain()).unwrap_or_default(),
            attributes,
            num_outputs: node.output.len(),
        };
        evaluate_with(&definition, graphs, &inputs).map_err(|error: EvalError| CliError::CannotEvaluate {
            node: self.model.node_ref(index).to_string(),
            reason: error.to_string(),
        })
    }
}

/// A tensor of the model. Its external data, if any, is in place already.
fn tensor(proto: &TensorProto) -> Result<Tensor, ImportError> {
    decode_tensor(Bytes::from(proto.encode_to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_model_knows_its_digits() {
        let model = include_bytes!("../../../demo/digits.onnx");
        let images = crate::npy::read(include_bytes!("../../../demo/test_images.npy")).unwrap();
        let labels = crate::npy::read(include_bytes!("../../../demo/test_labels.npy")).unwrap();
        let evaluator = OnnxEvaluator::new(Model::from_bytes(&model[..], None).unwrap()).unwrap();
        let some: Vec<f32> = images.bytes()[..10 * 64].iter().map(|&ink| f32::from(ink) / 16.0).collect();
        let input = Tensor::from_elements(&[10, 1, 8, 8], &some).unwrap();
        let outputs = evaluator.run(&[input]).unwrap();
        assert_eq!(outputs[0].shape(), [10, 10]);
        let probabilities = outputs[0].elements::<f32>().unwrap();
        for (row, &label) in probabilities.chunks(10).zip(labels.elements::<i64>().unwrap()) {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            assert_eq!(best, usize::try_from(label).unwrap());
        }
    }
}
