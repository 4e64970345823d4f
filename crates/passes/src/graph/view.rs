//! Views: composition, identities, and what is a view in disguise.

use super::evaluate::{element, splat};
use super::movement::{axis_map, canonical, composed, constant, is_identity, no_larger, var, view};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, ValueId, VarId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::IndexExpr;
use infc_ir::op::{ConstantOp, Op, ViewOp};
use infc_ir::scalar::Const;
use infc_tensor::{AlignedBytes, Tensor};
use std::sync::Arc;

const RULES: &[Rule] = &[
    view_of_view,
    identity,
    view_of_splat,
    gather_of_line,
    concat_of_one,
    map_of_concat,
    map_of_views,
    view_of_map,
    tidy,
];

/// Applies the rules until none fits. Each makes the graph smaller or moves a view towards the outputs, but for `view_of_map`, which
/// takes away a pair of views at least: what it leaves, a map that reads something other than a view, `map_of_views` does not take
/// back.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

fn as_view<'a>(site: &Site<'a>) -> Option<(&'a ViewOp, &'a TensorType)> {
    match &site.node().op {
        Op::View(op) => Some((op, site.graph.ty(site.node().inputs[0]))),
        _ => None,
    }
}

// view_q(view_p(x)) = view_(p∘q)(x), if what both write outside is the same, or only one writes outside.
fn view_of_view(site: &Site<'_>) -> Option<Replacement> {
    let (outer, _) = as_view(site)?;
    let inner_node = site.producer(site.node().inputs[0])?;
    let Op::View(inner) = &inner_node.op else { return None };
    if moves_over_joined(&outer.map, &inner.map) {
        site.cx
            .note(site.id, "padded windows over axes that are joined in memory stay apart from what separates these");
        return None;
    }
    let otherwise = match (inner.map.valid.is_empty(), outer.map.valid.is_empty()) {
        (true, _) => outer.otherwise,
        (_, true) => inner.otherwise,
        _ if inner.otherwise == outer.otherwise => inner.otherwise,
        _ => {
            site.cx.note(site.id, "views that pad with different values stay apart");
            return None;
        }
    };
    let Some(map) = composed(&inner.map, &outer.map, &outer.shape, &site.graph.symbols) else {
        site.cx.note(site.id, "views that would be a long expression together stay apart");
        return None;
    };
    let op = view(map, &outer.shape, otherwise);
    Some(Replacement::node(op, &inner_node.inputs, site.output_types()).absorbing(inner_node))
}

/// Whether padded windows move along axes of an image that are joined in what it shows (tokens, as transformers have them). Where
/// the image lies in memory by itself it may have room around it; seen through both at once, each element of a window is tested.
pub(crate) fn moves_over_joined(windows: &AccessMap, image: &AccessMap) -> bool {
    let vars = |e: &IndexExpr, rank: usize| (0..rank).filter(|&n| e.uses_var(VarId::from_index(n))).count();
    let is_padded = |e: &IndexExpr| vars(e, windows.rank) > 1 && windows.valid.iter().any(|bound| bound.expr == *e);
    let mut axes =
        windows.index.iter().enumerate().filter(|(_, e)| is_padded(e)).map(|(axis, _)| VarId::from_index(axis));
    let is_joined = |axis: VarId| image.index.iter().any(|e| e.uses_var(axis) && vars(e, image.rank) > 1);
    image.valid.is_empty() && axes.any(is_joined)
}

// view_id(x) = x
fn identity(site: &Site<'_>) -> Option<Replacement> {
    let (op, operand) = as_view(site)?;
    is_identity(&op.map, &operand.shape, &op.shape, &site.graph.symbols)
        .then(|| Replacement::with(vec![site.node().inputs[0].into()]))
}

// view_p(splat(c)) = splat(c) of the new shape, if nothing else is written outside
fn view_of_splat(site: &Site<'_>) -> Option<Replacement> {
    let (op, operand) = as_view(site)?;
    if operand.shape.is_empty() && op.map.valid.is_empty() {
        return None;
    }
    let constant = constant(site.graph, site.node().inputs[0])?;
    let value = splat(&constant.tensor)?;
    if !op.map.valid.is_empty() && op.otherwise != value {
        return None;
    }
    let mut new = Replacement::new();
    let scalar = new.add(scalar_constant(&constant.name, value)?, &[], TensorType::new(value.dtype, Vec::new()));
    let map = AccessMap { rank: op.shape.len(), index: Vec::new(), valid: Vec::new() };
    let spread = new.add(view(map, &op.shape, value), &[scalar], site.output_type(0).clone());
    new.set_outputs(vec![spread]);
    Some(new)
}

/// A rank-0 constant.
pub(super) fn scalar_constant(name: &str, value: Const) -> Option<Op> {
    let size = value.dtype.size_bytes()?;
    let bytes = AlignedBytes::from_slice(value.bits.to_le_bytes().get(..size)?);
    let tensor = Tensor::from_bytes(value.dtype, Vec::new(), bytes).ok()?;
    Some(Op::Constant(Arc::new(ConstantOp { name: name.to_owned(), tensor })))
}

// gather(x, [c, c+s, c+2s, …]) = view(x): constant positions on a line are a slice
fn gather_of_line(site: &Site<'_>) -> Option<Replacement> {
    let Op::Gather(op) = &site.node().op else { return None };
    let [data, indices] = site.node().inputs[..] else { return None };
    let positions = &constant(site.graph, indices)?.tensor;
    let data_shape = &site.graph.ty(data).shape;
    let extent = data_shape.get(op.axis)?.as_const()?;
    if positions.rank() > 1 || positions.len_elems() == 0 || extent <= 0 {
        return None;
    }
    // As the operation says: negative positions count from the end, the rest is clamped.
    let at = |n| {
        let position = element(positions, n)?.to_i64();
        Some(if position < 0 { position.saturating_add(extent) } else { position }.clamp(0, extent - 1))
    };
    let first = at(0)?;
    let step = if positions.len_elems() > 1 { at(1)? - first } else { 0 };
    for n in 0..positions.len_elems() {
        if at(n)? != first + step * n as i64 {
            return None;
        }
    }
    let rank = site.output_type(0).shape.len();
    let along = if positions.rank() == 0 { IndexExpr::constant(first) } else { var(op.axis).scale(step) + first };
    let index = (0..data_shape.len())
        .map(|axis| match axis.cmp(&op.axis) {
            std::cmp::Ordering::Less => var(axis),
            std::cmp::Ordering::Equal => along.clone(),
            std::cmp::Ordering::Greater => var(axis + positions.rank() - 1),
        })
        .collect();
    let map = AccessMap { rank, index, valid: Vec::new() };
    let op = view(map, &site.output_type(0).shape, Const::zero(site.output_type(0).dtype));
    Some(Replacement::node(op, &[data], site.output_types()))
}

// concat(x) = x
fn concat_of_one(site: &Site<'_>) -> Option<Replacement> {
    match (&site.node().op, &site.node().inputs[..]) {
        (Op::Concat(_), [only]) => Some(Replacement::with(vec![(*only).into()])),
        _ => None,
    }
}

// map(concat(x, y, …)) = concat(map(x), map(y), …) where the map makes fewer bytes of each element and nobody else reads the
// concatenation (parts that are quantised together): parts are stored as what is read of them, by who computes them.
fn map_of_concat(site: &Site<'_>) -> Option<Replacement> {
    let Op::Map(op) = &site.node().op else { return None };
    let ([whole], [ty]) = (&site.node().inputs[..], &site.output_types()[..]) else { return None };
    let producer = site.producer(*whole)?;
    let Op::Concat(concat) = &producer.op else { return None };
    let narrows = ty.dtype.size_bits() < site.graph.ty(*whole).dtype.size_bits();
    if !narrows || op.body.reads_place() || !site.is_only_use(*whole) {
        return None;
    }
    let mut new = Replacement::new();
    let mut parts = Vec::with_capacity(producer.inputs.len());
    for &part in &producer.inputs {
        let ty = TensorType::new(ty.dtype, site.graph.ty(part).shape.clone());
        parts.push(new.add(site.node().op.clone(), &[part.into()], ty));
    }
    let joined = new.add(Op::Concat(concat.clone()), &parts, ty.clone());
    new.set_outputs(vec![joined]);
    Some(new.absorbing(producer))
}

// map(view_p(x), view_p(y), …) = view_p(map(x, y, …)) where p only permutes or reshapes: the map then fuses with what
// makes x, and opposite permutations meet and cancel. Scalars spread over the shape spread over the other just as well.
fn map_of_views(site: &Site<'_>) -> Option<Replacement> {
    let Op::Map(op) = &site.node().op else { return None };
    if op.results.len() != 1 || op.body.reads_place() {
        return None;
    }
    let graph = site.graph;
    let shape = &site.output_type(0).shape;
    let mut common: Option<(&AccessMap, &TensorType)> = None;
    for &input in &site.node().inputs {
        let producer = site.producer(input)?;
        let Op::View(operand) = &producer.op else { return None };
        let from = graph.ty(producer.inputs[0]);
        if from.shape.is_empty() && operand.map.valid.is_empty() {
            continue;
        }
        let same = common.is_none_or(|(map, ty)| *map == operand.map && ty.shape == from.shape);
        // More elements below the view than above would be more work.
        let cheap = operand.map.valid.is_empty() && no_larger(&from.shape, shape, &graph.symbols);
        if !same || !cheap || !site.is_only_use(input) || constant(graph, producer.inputs[0]).is_some() {
            return None;
        }
        common = Some((&operand.map, from));
    }
    let (map, inner) = common?;
    // Sinking a broadcast is less work too, but hides from the map's reader that its operand is small.
    if !no_larger(shape, &inner.shape, &graph.symbols) {
        return None;
    }
    let mut new = Replacement::new();
    let mut inputs = Vec::new();
    for &input in &site.node().inputs {
        let producer = site.producer(input)?;
        let from = graph.ty(producer.inputs[0]);
        inputs.push(if from.shape.is_empty() && !inner.shape.is_empty() {
            let map = AccessMap { rank: inner.shape.len(), index: Vec::new(), valid: Vec::new() };
            let ty = TensorType::new(from.dtype, inner.shape.clone());
            new.add(view(map, &inner.shape, Const::zero(from.dtype)), &[producer.inputs[0].into()], ty)
        } else {
            Operand::Old(producer.inputs[0])
        });
    }
    let dtype = site.output_type(0).dtype;
    let computed = new.add(site.node().op.clone(), &inputs, TensorType::new(dtype, inner.shape.clone()));
    let moved = new.add(view(map.clone(), shape, Const::zero(dtype)), &[computed], site.output_type(0).clone());
    new.set_outputs(vec![moved]);
    Some(new)
}

// view_q(map(view_p(x), y, …)) = map(x, view_q(y), …) where q undoes p: what is reshaped for a map alone, such as the scores of
// windows for a mask of each, need not be.
fn view_of_map(site: &Site<'_>) -> Option<Replacement> {
    let (back, _) = as_view(site)?;
    let graph = site.graph;
    let mapped = site.node().inputs[0];
    let map_node = site.producer(mapped).filter(|_| site.is_only_use(mapped))?;
    let Op::Map(op) = &map_node.op else { return None };
    if op.results.len() != 1 || op.body.reads_place() || !back.map.valid.is_empty() {
        return None;
    }
    let shape = &back.shape;
    let through = |map: &AccessMap| canonical(&map.compose(&back.map), shape, &graph.symbols);
    // What the map reads of a value that has the shape that there is going to be.
    let undone = |&input: &ValueId| {
        let producer = site.producer(input)?;
        let Op::View(forth) = &producer.op else { return None };
        let value = producer.inputs[0];
        let is_undone = forth.map.valid.is_empty()
            && constant(graph, value).is_none()
            && is_identity(&through(&forth.map), &graph.ty(value).shape, shape, &graph.symbols);
        is_undone.then_some(value)
    };
    let undone: Vec<Option<ValueId>> = map_node.inputs.iter().map(undone).collect();
    // There are as many elements, and every one is read once.
    if undone.iter().all(Option::is_none) || !no_larger(shape, &graph.ty(mapped).shape, &graph.symbols) {
        return None;
    }
    let mut new = Replacement::new();
    let mut inputs = Vec::with_capacity(undone.len());
    for (&input, undone) in map_node.inputs.iter().zip(undone) {
        inputs.push(undone.map_or_else(
            || {
                let ty = TensorType::new(graph.ty(input).dtype, shape.clone());
                new.add(view(back.map.clone(), shape, Const::zero(ty.dtype)), &[input.into()], ty)
            },
            Operand::Old,
        ));
    }
    let computed = new.add(map_node.op.clone(), &inputs, site.output_type(0).clone());
    new.set_outputs(vec![computed]);
    Some(new.absorbing(map_node))
}

// view_p(x) = view_p'(x), p' the canonical form of p; without conditions, what is written outside does not matter
fn tidy(site: &Site<'_>) -> Option<Replacement> {
    let (op, _) = as_view(site)?;
    let map = canonical(&op.map, &op.shape, &site.graph.symbols);
    let otherwise = if map.valid.is_empty() { Const::zero(op.otherwise.dtype) } else { op.otherwise };
    if map == op.map && otherwise == op.otherwise {
        return None;
    }
    let op = view(map, &op.shape, otherwise);
    Some(Replacement::node(op, &site.node().inputs, site.output_types()))
}

/// For the axes of a broadcast or permuting view, see [`axis_map`].
pub(super) fn axes_of(graph: &Graph, op: &ViewOp, operand: &TensorType) -> Option<Vec<Option<usize>>> {
    axis_map(&op.map, &operand.shape, &op.shape, &graph.symbols)
}
