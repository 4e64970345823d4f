//! Constant factors go into the constant operand of a contraction: batch normalisation after a convolution, `alpha` of
//! a matrix product, the scale of attention's queries, a multiplication in front of a layer.
//!
//! A factor commutes with the sum if it depends only on labels that the constant operand has. What is added stays a
//! map: a shift *before* a contraction whose operand is padded would be wrong at the borders, since padding is not
//! shifted. A factor is right there too, as zero times anything finite is zero.
//!
//! Of two operands that a run tells, the smaller one is scaled instead of the result: queries, not scores. What makes them may have
//! weights that take the factor in turn.

use super::evaluate::{self, for_each_point};
use super::hoist::{ConstParam, Small, axes_of, const_params, varies};
use super::map::{as_map, compact};
use super::movement::{constant, elements_at, static_len, var};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::replace;
use super::weighted::{Weighted, add_constant, combine};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, ScalarId, ValueId, VarId};
use infc_ir::graph::{Graph, Node};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{MapOp, Op, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, UnaryOp};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// What sizes that only the run tells are taken to be, where elements are counted.
const USUAL_SIZE: i64 = 64;

const RULES: &[Rule] = &[scale_after, scale_before, scale_operand];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

/// Adds `weights · factor` to a replacement, the factor read through `index` over the axes of the weights.
fn scale_weights(
    weighted: &Weighted<'_>,
    graph: &Graph,
    new: &mut Replacement,
    factor: Tensor,
    index: Vec<IndexExpr>,
) -> Operand {
    let ty = weighted.ty(graph);
    let factor = add_constant(new, "scale", factor);
    let map = AccessMap { rank: ty.shape.len(), index, valid: Vec::new() };
    combine(new, (weighted.weights().into(), ty), BinaryOp::Mul, factor, map)
}

/// What an affine part of a body does to its argument: `x·factor + shift`, both in a body of their own.
#[derive(Default)]
pub(super) struct Affine {
    pub(super) body: Body,
    pub(super) factor: Option<ScalarId>,
    shift: Option<ScalarId>,
}

impl Affine {
    fn take(&mut self, from: &Body, scalar: ScalarId) -> ScalarId {
        self.body.import(from, &[scalar], &mut |_, _| None)[0]
    }

    fn scale(&mut self, op: BinaryOp, by: ScalarId) {
        let one = |body: &mut Body| {
            let dtype = body.dtype(by);
            body.constant(dtype, 1.0)
        };
        let factor = match (self.factor, op) {
            (None, BinaryOp::Mul) => by,
            (old, op) => {
                let old = old.unwrap_or_else(|| one(&mut self.body));
                self.body.binary(op, old, by)
            }
        };
        self.factor = Some(factor);
        self.shift = self.shift.map(|shift| self.body.binary(op, shift, by));
    }

    fn add(&mut self, op: BinaryOp, by: ScalarId) {
        self.shift = Some(match (self.shift, op) {
            (None, BinaryOp::Add) => by,
            (None, _) => self.body.unary(UnaryOp::Neg, by),
            (Some(shift), op) => self.body.binary(op, shift, by),
        });
    }

    fn negate(&mut self, dtype: infc_tensor::DType) {
        let minus = self.body.constant(dtype, -1.0);
        self.scale(BinaryOp::Mul, minus);
    }
}

/// Follows `x` through the body as long as it is only multiplied by and added to constants: the last operation reached,
/// and what it does.
fn affine_chain(op: &MapOp, x: ScalarId, varies: &[bool]) -> (ScalarId, Affine) {
    let body = &op.body;
    let dtype = body.dtype(x);
    let mut at = x;
    let mut affine = Affine::default();
    loop {
        let mut users = body.ops.iter_enumerated().filter(|(_, o)| {
            let mut reads = false;
            o.for_each_operand(&mut |operand| reads |= operand == at);
            reads
        });
        let (Some((user, operation)), None) = (users.next(), users.next()) else { return (at, affine) };
        if op.results.contains(&at) || body.dtype(user) != dtype {
            return (at, affine);
        }
        match *operation {
            ScalarOp::Unary(UnaryOp::Neg, _) => affine.negate(dtype),
            ScalarOp::Binary(f @ (BinaryOp::Mul | BinaryOp::Div | BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let right = a == at && b != at && !varies[b.index()];
                let left = b == at && a != at && !varies[a.index()];
                match f {
                    BinaryOp::Mul | BinaryOp::Div if right => {
                        let by = affine.take(body, b);
                        affine.scale(f, by);
                    }
                    BinaryOp::Mul if left => {
                        let by = affine.take(body, a);
                        affine.scale(f, by);
                    }
                    BinaryOp::Add | BinaryOp::Sub if right => {
                        let by = affine.take(body, b);
                        affine.add(f, by);
                    }
                    BinaryOp::Add if left => {
                        let by = affine.take(body, a);
                        affine.add(f, by);
                    }
                    // c − x = (−x) + c
                    BinaryOp::Sub if left => {
                        affine.negate(dtype);
                        let by = affine.take(body, a);
                        affine.add(BinaryOp::Add, by);
                    }
                    _ => return (at, affine),
                }
            }
            _ => return (at, affine),
        }
        at = user;
    }
}

/// The value of a constant part of a body over the axes that it depends on.
pub(super) fn evaluate_small(
    site: &Site<'_>,
    body: &Body,
    root: ScalarId,
    params: &[Option<ConstParam>],
    axes: &[usize],
    shape: &[Dim],
) -> Option<Tensor> {
    let small = Small::new(body, root, params, axes, shape)?;
    let extents: Option<Vec<usize>> = small.shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect();
    let extents = extents?;
    static_len(&small.shape).filter(|&len| len <= site.cx.options.fold_limit_bytes)?;
    let mut inputs = Vec::new();
    for (value, map) in &small.inputs {
        let tensor = &constant(site.graph, *value)?.tensor;
        let op = ViewOp { map: map.clone(), shape: small.shape.clone(), otherwise: Const::zero(tensor.dtype()) };
        inputs.push(evaluate::view(site.id, &op, tensor).ok()??);
    }
    evaluate::map(site.id, &small.op, &extents, &inputs.iter().collect::<Vec<_>>()).ok()??.pop()
}

// contract(x, w)·a + b = contract(x, w·a) + b, also through a view that only rearranges the result
fn scale_after(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    let shape = &site.output_type(0).shape;
    let params = const_params(site.graph, &site.node().inputs, shape);
    let varies = varies(&map.body, &params);
    site.node().inputs.iter().enumerate().find_map(|(n, &input)| {
        let (between, contract) = contract_behind(site, input)?;
        let weighted = Weighted::new(site, contract)?;
        let x = map.body.ops.iter_enumerated().find_map(|(id, op)| match op {
            ScalarOp::Param(p, _) if usize::from(*p) == n => Some(id),
            _ => None,
        })?;
        let (end, affine) = affine_chain(map, x, &varies);
        let factor = affine.factor?;
        if map.body.dtype(x) != site.graph.ty(weighted.weights()).dtype {
            return None;
        }
        let axes = axes_of(&affine.body, factor, &params);
        let value = evaluate_small(site, &affine.body, factor, &params, &axes, shape)?;
        // To the coordinates of the contraction's result.
        let inner = &site.graph.ty(contract.outputs[0]).shape;
        let rearranged = match between {
            None => (axes.clone(), value),
            Some((op, _)) => rearrange(&value, &axes, op, inner).or_else(|| {
                site.cx.note(site.id, "scale not folded: a view mixes the axes along which it varies with others");
                None
            })?,
        };
        let (axes, value) = rearranged;
        let index = axes.iter().map(|&a| position(weighted.labels(), weighted.op.output[a]).map(var)).collect();
        let Some(index) = index else {
            site.cx.note(site.id, "scale not folded: it varies along an axis that the weights do not have");
            return None;
        };

        let mut new = Replacement::new();
        let weights = scale_weights(&weighted, site.graph, &mut new, value, index);
        let mut x = weighted.with_weights(site.graph, &mut new, weights);
        if let Some((_, node)) = between {
            x = new.add(node.op.clone(), &[x], site.graph.ty(node.outputs[0]).clone());
        }
        let dtype = map.body.dtype(end);
        let (body, results) = replace(&map.body, &map.results, &mut |body, id| {
            (id == end).then(|| {
                let x = body.param(n as u8, dtype);
                match affine.shift {
                    None => x,
                    Some(shift) => {
                        let shift = body.import(&affine.body, &[shift], &mut |_, _| None)[0];
                        body.binary(BinaryOp::Add, x, shift)
                    }
                }
            })
        });
        let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&v| v.into()).collect();
        inputs[n] = x;
        let (map, inputs) = compact(&body, &results, &inputs)?;
        let node = new.add_node(Op::Map(map), &inputs, site.output_types());
        new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
        Some(new.absorbing(contract))
    })
}

fn position(labels: &[u8], label: u8) -> Option<usize> {
    labels.iter().position(|&l| l == label)
}

/// The contraction that a value comes from, directly or through a view without conditions, read by nobody else.
fn contract_behind<'a>(site: &Site<'a>, value: ValueId) -> Option<(Option<(&'a ViewOp, &'a Node)>, &'a Node)> {
    let node = site.producer(value).filter(|_| site.is_only_use(value))?;
    match &node.op {
        Op::Contract(_) => Some((None, node)),
        Op::View(op) if op.map.valid.is_empty() => {
            let inner = node.inputs[0];
            let contract =
                site.producer(inner).filter(|c| matches!(c.op, Op::Contract(_)) && site.is_only_use(inner))?;
            Some((Some((op, node)), contract))
        }
        _ => None,
    }
}

/// `a` over the axes of a view's result as `a'` over axes of its operand, `a'(view(y)) = a(y)`: possible if the operand
/// axes that depend on those of `a` depend on nothing else, and every coordinate occurs once.
fn rearrange(a: &Tensor, axes: &[usize], op: &ViewOp, inner: &[Dim]) -> Option<(Vec<usize>, Tensor)> {
    let uses = |e: &IndexExpr, axis: usize| e.uses_var(VarId(axis as u32));
    let to: Vec<usize> = (0..inner.len()).filter(|&k| axes.iter().any(|&x| uses(&op.map.index[k], x))).collect();
    let alone = to.iter().all(|&k| (0..op.map.rank).all(|x| axes.contains(&x) || !uses(&op.map.index[k], x)));
    let extents: Option<Vec<usize>> = to.iter().map(|&k| usize::try_from(inner[k].as_const()?).ok()).collect();
    let extents = extents?;
    if !alone || extents.iter().try_fold(1usize, |n, &d| n.checked_mul(d))? != a.len_elems() {
        return None;
    }
    let size = a.dtype().size_bytes()?;
    let mut bytes = AlignedBytes::zeroed(a.bytes().len());
    let mut written = vec![false; a.len_elems()];
    let mut elements = a.bytes().chunks_exact(size);
    let mut good = a.len_elems() > 0;
    for_each_point(a.shape(), &mut |point| {
        let var = |v: VarId| axes.iter().position(|&x| x == v.index()).map(|n| point[n]);
        let target = to.iter().zip(&extents).try_fold(0usize, |flat, (&k, &extent)| {
            let i = usize::try_from(op.map.index[k].eval(&|_| None, &var)?).ok()?;
            (i < extent).then_some(flat * extent + i)
        });
        match (target, elements.next()) {
            (Some(t), Some(element)) if !std::mem::replace(&mut written[t], true) => {
                bytes[t * size..(t + 1) * size].copy_from_slice(element);
            }
            _ => good = false,
        }
    });
    let tensor = Tensor::from_bytes(a.dtype(), extents, bytes).ok()?;
    good.then_some((to, tensor))
}

// contract(view(x·a), w) = contract(view(x), w·a), if the view pads with zeros or not at all
fn scale_before(site: &Site<'_>) -> Option<Replacement> {
    let weighted = Weighted::new(site, site.node())?;
    let value = site.node().inputs[1 - weighted.side];
    let producer = site.producer(value)?;
    let (window, scaled) = match &producer.op {
        Op::View(op) => (Some((op, producer)), producer.inputs[0]),
        _ => (None, value),
    };
    let node = site.producer(scaled)?;
    let map = as_map(node).filter(|m| m.results.len() == 1)?;
    if !site.is_only_use(value) || !site.is_only_use(scaled) {
        return None;
    }
    let shape = &site.graph.ty(scaled).shape;
    let params = const_params(site.graph, &node.inputs, shape);
    let varies = varies(&map.body, &params);
    let Some((rest, affine)) = trailing_factor(&map.body, map.results[0], &varies) else {
        let shifted = matches!(map.body.ops[map.results[0]], ScalarOp::Binary(BinaryOp::Add | BinaryOp::Sub, a, b)
            if varies[a.index()] != varies[b.index()]);
        if shifted && window.is_some_and(|(op, _)| !op.map.valid.is_empty()) {
            site.cx.note(site.id, "a shift before a padded contraction stays: the padding is not shifted");
        }
        return None;
    };
    let factor = affine.factor?;
    if site.graph.ty(scaled).dtype != site.graph.ty(weighted.weights()).dtype {
        return None;
    }
    if window.is_some_and(|(op, _)| !op.map.valid.is_empty() && op.otherwise.to_f64() != 0.0) {
        site.cx.note(site.id, "scale not folded: the padding is not zero");
        return None;
    }
    let axes = axes_of(&affine.body, factor, &params);
    let small = evaluate_small(site, &affine.body, factor, &params, &axes, shape)?;

    // From the weights' axes, by their labels, to the coordinates of `a`.
    let rank = weighted.other_labels().len();
    let to_weights: Vec<Option<IndexExpr>> =
        weighted.other_labels().iter().map(|&l| position(weighted.labels(), l).map(var)).collect();
    let identity = AccessMap::identity(rank);
    let read = window.map_or(&identity, |(op, _)| &op.map);
    let mut index = Vec::new();
    for &axis in &axes {
        let expr = &read.index[axis];
        let known = (0..rank).all(|v| !expr.uses_var(VarId(v as u32)) || to_weights[v].is_some());
        let guarded = read
            .valid
            .iter()
            .flat_map(|b| [&b.expr, &b.lo, &b.hi])
            .any(|e| (0..rank).any(|v| e.uses_var(VarId(v as u32)) && expr.uses_var(VarId(v as u32))));
        if !known || guarded {
            site.cx.note(site.id, "scale not folded: it varies along an axis that the weights do not have");
            return None;
        }
        let by: Vec<IndexExpr> = to_weights.iter().map(|e| e.clone().unwrap_or_default()).collect();
        index.push(expr.substitute_vars(&by));
    }

    let mut new = Replacement::new();
    let weights = scale_weights(&weighted, site.graph, &mut new, small, index);
    let (op, inputs) = compact(&map.body, &[rest], &node.inputs)?;
    let inputs: Vec<Operand> = inputs.into_iter().map(Operand::Old).collect();
    let mut x = new.add(Op::Map(op), &inputs, site.graph.ty(scaled).clone());
    if let Some((_, node)) = window {
        x = new.add(node.op.clone(), &[x], site.graph.ty(node.outputs[0]).clone());
    }
    let mut inputs = [x, x];
    inputs[weighted.side] = weights;
    let contract = new.add(site.node().op.clone(), &inputs, site.output_type(0).clone());
    new.set_outputs(vec![contract]);
    Some(new.absorbing(node))
}

// contract(view(x), y)·a = contract(view(x·a), y) for a number a and operands that a run tells, if x has fewer elements than the
// result, as queries have fewer than scores
fn scale_operand(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    let shape = &site.output_type(0).shape;
    let params = const_params(site.graph, &site.node().inputs, shape);
    let varies = varies(&map.body, &params);
    site.node().inputs.iter().enumerate().find_map(|(n, &input)| {
        let (between, contract) = contract_behind(site, input)?;
        if site.graph.ty(input).dtype != DType::F32 || Weighted::new(site, contract).is_some() {
            return None;
        }
        let (scaled, op, by) = scaled_at_once(map, n, &varies)?;
        if !axes_of(&map.body, by, &params).is_empty() {
            return None;
        }
        let by = evaluate::splat(&evaluate_small(site, &map.body, by, &params, &[], shape)?)?;
        // Neither zero nor infinite, nor so small or large that one of both is near: a sum of quotients is not that of the sum then.
        let (size, least) = (by.to_f64().abs(), f64::from(f32::EPSILON));
        if !(least..=1.0 / least).contains(&size) {
            return None;
        }
        let elements = |value: ValueId| {
            elements_at(&site.graph.ty(value).shape, &site.graph.symbols, USUAL_SIZE).unwrap_or(i64::MAX)
        };
        let sides = if elements(contract.inputs[0]) <= elements(contract.inputs[1]) { [0, 1] } else { [1, 0] };
        let fits = |&side: &usize| elements(contract.inputs[side]) < elements(contract.outputs[0]);
        // Whoever makes the operand scales it.
        let (side, views, made) = sides.into_iter().filter(fits).find_map(|side| {
            let (mut value, mut views) = (contract.inputs[side], Vec::new());
            loop {
                let node = site.producer(value).filter(|_| site.is_only_use(value))?;
                match &node.op {
                    Op::View(view) if view.map.valid.is_empty() => views.push(node),
                    Op::Map(_) | Op::Contract(_) => return Some((side, views, value)),
                    _ => return None,
                }
                value = node.inputs[0];
            }
        })?;
        let mut new = Replacement::new();
        let mut body = Body::default();
        let (x, by) = (body.param(0, by.dtype), body.push(ScalarOp::Const(by)));
        let results = vec![body.binary(op, x, by)];
        let mut x = new.add(Op::Map(MapOp { body, results }), &[made.into()], site.graph.ty(made).clone());
        for view in views.into_iter().rev() {
            x = new.add(view.op.clone(), &[x], site.graph.ty(view.outputs[0]).clone());
        }
        let mut operands: Vec<Operand> = contract.inputs.iter().map(|&value| value.into()).collect();
        operands[side] = x;
        let mut sum = new.add(contract.op.clone(), &operands, site.graph.ty(contract.outputs[0]).clone());
        if let Some((_, node)) = between {
            sum = new.add(node.op.clone(), &[sum], site.graph.ty(node.outputs[0]).clone());
        }
        let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&v| v.into()).collect();
        inputs[n] = sum;
        let (body, results) =
            replace(&map.body, &map.results, &mut |body, id| (id == scaled).then(|| body.param(n as u8, DType::F32)));
        let (map, inputs) = compact(&body, &results, &inputs)?;
        let node = new.add_node(Op::Map(map), &inputs, site.output_types());
        new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
        Some(new.absorbing(contract))
    })
}

/// The product or quotient that an operand of a map goes into, if it goes nowhere else and the other factor is constant: it, the
/// operation, and the factor.
fn scaled_at_once(map: &MapOp, n: usize, varies: &[bool]) -> Option<(ScalarId, BinaryOp, ScalarId)> {
    let is_operand = |op: &ScalarOp| matches!(op, ScalarOp::Param(p, _) if usize::from(*p) == n);
    let (x, _) = map.body.ops.iter_enumerated().find(|(_, op)| is_operand(op))?;
    let mut users = map.body.ops.iter_enumerated().filter(|(_, op)| {
        let mut reads = false;
        op.for_each_operand(&mut |operand| reads |= operand == x);
        reads
    });
    let (Some((user, operation)), None) = (users.next(), users.next()) else { return None };
    match *operation {
        _ if map.results.contains(&x) => None,
        ScalarOp::Binary(op @ (BinaryOp::Mul | BinaryOp::Div), a, b) if a == x && !varies[b.index()] => {
            Some((user, op, b))
        }
        ScalarOp::Binary(BinaryOp::Mul, a, b) if b == x && !varies[a.index()] => Some((user, BinaryOp::Mul, a)),
        _ => None,
    }
}

/// `(t, a)` if `root` is `t·a` with `a` constant.
pub(super) fn trailing_factor(body: &Body, root: ScalarId, varies: &[bool]) -> Option<(ScalarId, Affine)> {
    let mut at = root;
    let mut affine = Affine::default();
    while let ScalarOp::Binary(op @ (BinaryOp::Mul | BinaryOp::Div), a, b) = body.ops[at] {
        let (rest, by) = match (varies[a.index()], varies[b.index()]) {
            (true, false) => (a, b),
            (false, true) if op == BinaryOp::Mul => (b, a),
            _ => break,
        };
        let by = affine.take(body, by);
        affine.scale(op, by);
        at = rest;
    }
    affine.factor.is_some().then_some((at, affine))
}
