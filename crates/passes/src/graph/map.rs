//! Maps: simplification of bodies, constants into bodies, and fusion of chains.
//!
//! Kernel formation fuses maps by composition too, so fusion here is modest: it takes what has no other reader, or costs
//! next to nothing.

use super::evaluate::splat;
use super::movement::{constant, no_larger};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::{cost, simplify};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{ScalarId, ValueId};
use infc_ir::graph::{Graph, Node, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{Body, Const, ScalarOp};

/// Operands that a fused map may have.
const MAX_OPERANDS: usize = 24;

/// Operations that a fused map may have.
const MAX_OPS: usize = 256;

/// A map of no more than this [`cost`] is computed again by each of its readers rather than stored.
const CHEAP: usize = 1;

const RULES: &[Rule] = &[constants_into_body, fuse, tidy, identity, constant_result, gather_of_map];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

pub(super) fn as_map(node: &Node) -> Option<&MapOp> {
    match &node.op {
        Op::Map(op) => Some(op),
        _ => None,
    }
}

/// The value of an operand that is the same everywhere: a splat constant, or a view that spreads one.
pub(super) fn splat_value(graph: &Graph, value: ValueId) -> Option<Const> {
    if let Some(constant) = constant(graph, value) {
        return splat(&constant.tensor);
    }
    let (_, node) = graph.producer(value)?;
    let Op::View(view) = &node.op else { return None };
    let value = splat(&constant(graph, node.inputs[0])?.tensor)?;
    (view.map.valid.is_empty() || view.otherwise == value).then_some(value)
}

// map(x, splat(c)) = map(x) with c in the body
fn constants_into_body(site: &Site<'_>) -> Option<Replacement> {
    let op = as_map(site.node())?;
    let inputs = &site.node().inputs;
    let values: Vec<Option<Const>> = inputs.iter().map(|&v| splat_value(site.graph, v)).collect();
    if values.iter().all(Option::is_none) {
        return None;
    }
    let mut body = Body::default();
    let results = body.import(&op.body, &op.results, &mut |body, op| match op {
        ScalarOp::Param(n, _) => values[usize::from(*n)].map(|c| body.push(ScalarOp::Const(c))),
        _ => None,
    });
    rebuild(site, body, &results, inputs)
}

/// True for a map that makes fewer bytes of what `is_wide`: where kernels meet, that is what is stored.
fn narrows_any(site: &Site<'_>, map: &Node, is_wide: impl Fn(ValueId) -> bool) -> bool {
    let bits = |value: ValueId| site.graph.ty(value).dtype.size_bits();
    let out = map.outputs.iter().map(|&o| bits(o)).max().unwrap_or(0);
    map.inputs.iter().any(|&value| bits(value) > out && is_wide(value))
}

/// True for a map that makes fewer bytes of anything.
fn narrows(site: &Site<'_>, map: &Node) -> bool {
    narrows_any(site, map, |_| true)
}

/// True for a map that makes fewer bytes of a sum.
fn narrows_sum(site: &Site<'_>, map: &Node) -> bool {
    let is_sum = |value: ValueId| matches!(site.producer(value).map(|n| &n.op), Some(Op::Contract(_) | Op::Reduce(_)));
    narrows_any(site, map, is_sum)
}

/// Whether the map at the site reads more than a value and constants, so that its operands may be of several kernels.
fn joins(site: &Site<'_>, value: ValueId) -> bool {
    let is_constant = |mut value: ValueId| {
        while let Some(node) = site.producer(value)
            && let Op::View(_) = &node.op
        {
            value = node.inputs[0];
        }
        constant(site.graph, value).is_some()
    };
    site.node().inputs.iter().any(|&other| other != value && !is_constant(other))
}

// map_f(map_g(x), y) = map_(f∘g)(x, y)
fn fuse(site: &Site<'_>) -> Option<Replacement> {
    let outer = as_map(site.node())?;
    let (at, producer) = site.node().inputs.iter().enumerate().find_map(|(n, &value)| {
        let producer = site.producer(value)?;
        let inner = as_map(producer)?;
        let alone =
            producer.outputs.iter().all(|&o| if o == value { site.is_only_use(o) } else { site.use_count(o) == 0 });
        let small = outer.body.ops.len() + inner.body.ops.len() <= MAX_OPS
            && site.node().inputs.len() + producer.inputs.len() <= MAX_OPERANDS;
        let cheap = cost(&inner.body) <= CHEAP && producer.inputs.len() == 1 && !narrows(site, producer);
        if narrows_sum(site, producer) && joins(site, value) {
            return None;
        }
        if !small {
            site.cx.note(site.id, "maps not fused: the body would be too large");
        }
        ((alone || cheap) && small).then_some((n, producer))
    })?;
    let inner = as_map(producer)?;
    let value = site.node().inputs[at];
    let component = producer.outputs.iter().position(|&o| o == value)?;
    let inputs: Vec<ValueId> = site.node().inputs.iter().chain(&producer.inputs).copied().collect();
    let offset = u8::try_from(site.node().inputs.len()).ok()?;
    let mut body = Body::default();
    let inlined = body.import(&inner.body, &inner.results[component..=component], &mut |body, op| match op {
        ScalarOp::Param(n, dtype) => Some(body.param(n + offset, *dtype)),
        _ => None,
    })[0];
    let results = body.import(&outer.body, &outer.results, &mut |_, op| match op {
        ScalarOp::Param(n, _) if usize::from(*n) == at => Some(inlined),
        _ => None,
    });
    Some(rebuild(site, body, &results, &inputs)?.absorbing(producer))
}

// map_f = map_f', f' simplified, without operands that are not read or appear twice
fn tidy(site: &Site<'_>) -> Option<Replacement> {
    let op = as_map(site.node())?;
    let (body, results) = simplify(&op.body, &op.results);
    let inputs = &site.node().inputs;
    let mut read = vec![false; inputs.len()];
    for op in body.ops.iter() {
        if let ScalarOp::Param(n, _) = op {
            read[usize::from(*n)] = true;
        }
    }
    let repeated = inputs.iter().enumerate().any(|(n, v)| inputs[..n].contains(v));
    if body == op.body && results == op.results && read.iter().all(|&r| r) && !repeated {
        return None;
    }
    rebuild(site, body, &results, inputs)
}

// map_id(x) = x
fn identity(site: &Site<'_>) -> Option<Replacement> {
    let op = as_map(site.node())?;
    let outputs: Option<Vec<Operand>> = op
        .results
        .iter()
        .map(|&r| match op.body.ops[r] {
            ScalarOp::Param(n, _) => Some(site.node().inputs[usize::from(n)].into()),
            _ => None,
        })
        .collect();
    outputs.map(Replacement::with)
}

// map_c() = splat(c)
fn constant_result(site: &Site<'_>) -> Option<Replacement> {
    let op = as_map(site.node())?;
    let [result] = op.results[..] else { return None };
    let ScalarOp::Const(value) = op.body.ops[result] else { return None };
    let shape = &site.output_type(0).shape;
    let mut new = Replacement::new();
    let ty = TensorType::new(value.dtype, Vec::new());
    let scalar = new.add(super::view::scalar_constant("splat", value)?, &[], ty);
    let map = AccessMap { rank: shape.len(), index: Vec::new(), valid: Vec::new() };
    let spread = if shape.is_empty() {
        scalar
    } else {
        new.add(super::movement::view(map, shape, value), &[scalar], site.output_type(0).clone())
    };
    new.set_outputs(vec![spread]);
    Some(new)
}

// gather(map(c), i) = map(gather(c, i)) of a table that is stored in another type than it is used in (an embedding of
// bytes): what is looked up is converted, not the whole table at every run. Tables that do not grow much by it have been
// converted when compiling.
fn gather_of_map(site: &Site<'_>) -> Option<Replacement> {
    let Op::Gather(op) = &site.node().op else { return None };
    let [data, indices] = site.node().inputs[..] else { return None };
    let producer = site.producer(data)?;
    let map = as_map(producer)?;
    let ([table], [_]) = (&producer.inputs[..], &map.results[..]) else { return None };
    let (shape, looked_up) = (&site.graph.ty(*table).shape, &site.output_type(0).shape);
    // Of an unknown number of positions nobody expects as many as the table has.
    let known = |shape: &[Dim]| shape.iter().all(|extent| extent.as_const().is_some());
    let fewer = !known(looked_up) || no_larger(looked_up, shape, &site.graph.symbols);
    if constant(site.graph, *table).is_none() || map.body.reads_place() || !fewer {
        return None;
    }
    let mut new = Replacement::new();
    let ty = TensorType::new(site.graph.ty(*table).dtype, looked_up.clone());
    let rows = new.add(Op::Gather(op.clone()), &[(*table).into(), indices.into()], ty);
    let mapped = new.add(Op::Map(map.clone()), &[rows], site.output_type(0).clone());
    new.set_outputs(vec![mapped]);
    Some(new.absorbing(producer))
}

/// A map with this body over those of the inputs that it reads, each once.
fn rebuild(site: &Site<'_>, body: Body, results: &[ScalarId], inputs: &[ValueId]) -> Option<Replacement> {
    let (op, inputs) = compact(&body, results, inputs)?;
    Some(Replacement::node(Op::Map(op), &inputs, site.output_types()))
}

/// Renumbers parameters so that every input is read and none appears twice; simplifies. `None` if there are too many.
pub(super) fn compact<T: Copy + PartialEq>(body: &Body, results: &[ScalarId], inputs: &[T]) -> Option<(MapOp, Vec<T>)> {
    let (body, results) = simplify(body, results);
    let mut kept: Vec<T> = Vec::new();
    let mut overflow = false;
    let mut renumbered = Body::default();
    let results = renumbered.import(&body, &results, &mut |body, op| match op {
        ScalarOp::Param(n, dtype) => {
            let input = inputs[usize::from(*n)];
            let at = kept.iter().position(|&k| k == input).unwrap_or_else(|| {
                kept.push(input);
                kept.len() - 1
            });
            overflow |= at > usize::from(u8::MAX);
            Some(body.param(at as u8, *dtype))
        }
        _ => None,
    });
    (!overflow).then_some((MapOp { body: renumbered, results }, kept))
}
