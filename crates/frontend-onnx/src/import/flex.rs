//! `FlexAttention`: attention whose scores and weights are changed by graphs of the model.
//!
//! ONNX operator of the domain `ai.onnx.preview`, opset 1: queries `[B, N, S, H]`, keys and values with as many heads or
//! fewer. The graphs see all scores, before and after the softmax; their nodes join those around the operator, so that
//! they fuse like any others.

use super::Importer;
use crate::build::{Result as Built, compute_type, mismatch};
use crate::call::Call;
use crate::error::{ImportError, NodeRef, Problem};
use crate::ops::attention;
use crate::proto::NodeProto;
use crate::tracked::Tracked;
use infc_tensor::DType;

/// How many axes queries, keys and values have.
pub(super) const RANK: usize = 4;

/// True if the node is one.
pub(super) fn is_flex_attention(node: &NodeProto) -> bool {
    node.op_type() == "FlexAttention" && node.domain() == "ai.onnx.preview"
}

/// Queries, keys and values, and the type that scores have.
struct Operands {
    q: Tracked,
    k: Tracked,
    v: Tracked,
    scale: f64,
    precision: DType,
}

impl Operands {
    fn of(call: &Call<'_>) -> Built<Self> {
        let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
        for x in [&q, &k, &v] {
            if x.rank() != RANK {
                return Err(mismatch("heads: 4 axes", x.shape()));
            }
            if !x.dtype().is_float() {
                return Err(Problem::UnsupportedType { expected: "floats", found: x.dtype() });
            }
        }
        let precision = call.dtype("softmax_precision")?.unwrap_or_else(|| compute_type(q.dtype()));
        if !precision.is_float() {
            return Err(Problem::UnsupportedType { expected: "floats", found: precision });
        }
        let size = q.shape()[3].as_const();
        let scale = call.float("scale")?.or_else(|| Some(1.0 / (size? as f64).sqrt()));
        let scale = scale.ok_or(Problem::DynamicValue { what: "the size of a head" })?;
        Ok(Self { q, k, v, scale, precision })
    }
}

impl<'m> Importer<'m, '_> {
    /// The output of a `FlexAttention` node.
    pub(super) fn flex_attention(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let call = Call {
            node,
            opset: node_ref.opset,
            inputs,
            build: self.scopes.build(),
            wanted: std::cell::Cell::default(),
        };
        let Operands { q, k, v, scale, precision } = Operands::of(&call).map_err(in_node)?;
        let wide = compute_type(q.dtype());
        let build = self.scopes.build();
        let scores = attention::scores(build, &q, &k, wide).map_err(in_node)?;
        let scores = attention::scaled(build, &scores, scale, precision).map_err(in_node)?;
        let scores = self.modified(node, "score_mod", node_ref, scores)?;
        let weights = attention::weights(self.scopes.build(), &scores).map_err(in_node)?;
        let weights = self.modified(node, "prob_mod", node_ref, weights)?;
        let build = self.scopes.build();
        let y = attention::weighted(build, &weights, &v, compute_type(precision)).map_err(in_node)?;
        Ok(vec![build.cast(&y, v.dtype()).map_err(in_node)?])
    }

    /// What the graph of an attribute makes of a value, of which it keeps type and shape.
    fn modified(
        &mut self,
        node: &'m NodeProto,
        attribute: &'static str,
        node_ref: &NodeRef,
        x: Tracked,
    ) -> Result<Tracked, ImportError> {
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let Some(given) = node.attribute.iter().find(|a| a.name() == attribute) else { return Ok(x) };
        let expected = "a graph with one input and one output";
        let invalid = |found: String| in_node(Problem::InvalidAttribute { attribute, expected, found });
        let graph = given.g.as_ref().ok_or_else(|| invalid("none".to_owned()))?;
        let ([input], [_]) = (&graph.input[..], &graph.output[..]) else {
            return Err(invalid(format!("one with {} and {}", graph.input.len(), graph.output.len())));
        };
        self.scopes.enter(graph);
        self.scopes.define(input.name(), x.clone());
        let outputs = self.block(graph);
        self.scopes.leave();
        let result = outputs?.remove(0);
        let build = self.scopes.build();
        build.set_origin(&node_ref.name);
        if result.dtype() != x.dtype() {
            return Err(in_node(Problem::TypeMismatch { left: x.dtype(), right: result.dtype() }));
        }
        build.conform("the extents of modified scores", &result, x.shape()).map_err(in_node)
    }
}
