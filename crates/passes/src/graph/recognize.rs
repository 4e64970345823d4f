//! Composites recognised from spelled-out forms: softmax, layer norm, GELU, attention.
//!
//! Point-wise patterns are matched as terms ([`super::term`]), so it does not matter how exporters cut them into nodes,
//! nor how far maps are fused. What is recognised may lie in the middle of a map: then the map is split around it.

mod attention;
mod gelu;
mod norm;
mod softmax;
mod turned;

use super::map::{as_map, compact};
use super::movement::view;
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::replace;
use super::term::{Leaf, Term, Terms};
use super::{Changed, PassContext, PassError};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::op::{CompositeOp, Op};
use infc_ir::scalar::{BinaryOp, Const, ScalarOp};

const RULES: &[Rule] = &[within_map, turned::turned, attention::rounded, attention::normal, attention::attention];

/// Patterns over one operation of a map's body, tried in order.
const PATTERNS: &[fn(&Terms<'_>, &Term) -> Option<Found>] =
    &[softmax::softmax, norm::layer_norm, norm::spread_norm, gelu::gelu];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

/// A recognised pattern: `composite(argument) · times… + plus`.
struct Found {
    composite: CompositeOp,
    argument: Term,
    times: Vec<Term>,
    plus: Option<Term>,
}

impl Found {
    /// The composite and nothing else.
    fn alone(composite: CompositeOp, argument: Term) -> Self {
        Self { composite, argument, times: Vec::new(), plus: None }
    }
}

/// Two numbers that were the same before somebody printed and rounded them.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * b.abs()
}

// map_f(x…) = map_f'(composite(y), x…), where f computes what the composite is, anywhere within
fn within_map(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    let shape = &site.output_type(0).shape;
    let terms = Terms { graph: site.graph, shape };
    let (root, found) = map.body.ops.iter_enumerated().find_map(|(id, op)| {
        // Everything recognised ends in one of these.
        if !matches!(op, ScalarOp::Binary(..)) {
            return None;
        }
        let term = terms.of_scalar(site.id, id);
        let found = PATTERNS.iter().find_map(|pattern| pattern(&terms, &term))?;
        Some((id, found))
    })?;
    let dtype = map.body.dtype(root);
    let mut new = Replacement::new();
    let argument = materialize(&terms, &found.argument, &mut new)?;
    let ty = TensorType::new(dtype, shape.clone());
    let composite = new.add(Op::Composite(found.composite), &[argument], ty);
    let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&v| v.into()).chain([composite]).collect();
    for term in found.times.iter().chain(&found.plus) {
        inputs.push(materialize(&terms, term, &mut new)?);
    }
    let first = u8::try_from(site.node().inputs.len()).ok()?;
    u8::try_from(inputs.len()).ok()?;
    let (body, results) = replace(&map.body, &map.results, &mut |body, id| {
        (id == root).then(|| {
            let mut result = body.param(first, dtype);
            for n in 0..found.times.len() {
                let factor = body.param(first + 1 + n as u8, dtype);
                result = body.binary(BinaryOp::Mul, result, factor);
            }
            if found.plus.is_some() {
                let shift = body.param(first + 1 + found.times.len() as u8, dtype);
                result = body.binary(BinaryOp::Add, result, shift);
            }
            result
        })
    });
    let (op, inputs) = compact(&body, &results, &inputs)?;
    let node = new.add_node(Op::Map(op), &inputs, site.output_types());
    new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
    Some(new)
}

/// The value of a term at the pattern's coordinates, by a map and a view of its own if no node gives it.
fn materialize(terms: &Terms<'_>, term: &Term, new: &mut Replacement) -> Option<Operand> {
    if let Some(value) = term.value {
        return Some(value.into());
    }
    let dtype = terms.dtype(term)?;
    let there = match term.leaf {
        Leaf::Value(value) => Operand::Old(value),
        Leaf::Op(node, scalar) => {
            let node = &terms.graph.nodes[node];
            let map = as_map(node)?;
            let (op, inputs) = compact(&map.body, &[scalar], &node.inputs)?;
            let ty = TensorType::new(dtype, terms.graph.ty(node.outputs[0]).shape.clone());
            let inputs: Vec<Operand> = inputs.into_iter().map(Operand::Old).collect();
            new.add(Op::Map(op), &inputs, ty)
        }
    };
    let ty = TensorType::new(dtype, terms.shape.to_vec());
    Some(new.add(view(term.map.clone(), terms.shape, Const::zero(dtype)), &[there], ty))
}
