//! Constant parts of maps are computed where they vary: `γ/√(σ²+ε)` over channels, not over pixels.
//!
//! A map's operand that is a constant, or a constant spread by a view, depends on few axes. A part of the body that
//! depends on such operands alone becomes a map over just those axes, which constant folding then computes.

use super::map::{as_map, compact};
use super::movement::{axes_used, canonical, constant, static_len, var, view};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::{reaches, replace};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, ScalarId, ValueId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{Body, Const, ScalarOp};

const RULES: &[Rule] = &[hoist];

/// Applies the rule.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

/// An operand of a map that is a spread constant.
#[derive(Clone, Debug)]
pub(super) struct ConstParam {
    /// The constant.
    pub(super) value: ValueId,
    /// From the map's coordinates to the constant's, without conditions.
    pub(super) map: AccessMap,
    /// The map's axes that matter.
    pub(super) axes: Vec<usize>,
}

/// Which operands of a map over the given shape are constants. Those without elements do not count: what is read of them
/// for no point at all must not be read for the one point of a map over fewer axes.
pub(super) fn const_params(graph: &Graph, inputs: &[ValueId], shape: &[Dim]) -> Vec<Option<ConstParam>> {
    inputs
        .iter()
        .map(|&input| {
            let of_elements = |value| constant(graph, value).filter(|c| c.tensor.len_elems() > 0);
            let (value, map) = if of_elements(input).is_some() {
                (input, AccessMap::identity(shape.len()))
            } else {
                let (_, node) = graph.producer(input)?;
                let Op::View(op) = &node.op else { return None };
                of_elements(node.inputs[0])?;
                (node.inputs[0], op.map.clone())
            };
            let map = canonical(&map, shape, &graph.symbols);
            let axes = axes_used(&map);
            map.valid.is_empty().then_some(ConstParam { value, map, axes })
        })
        .collect()
}

/// For every operation of a body, whether it depends on something else than these operands and numbers.
pub(super) fn varies(body: &Body, params: &[Option<ConstParam>]) -> Vec<bool> {
    reaches(body, |op| match op {
        ScalarOp::Param(n, _) => params[usize::from(*n)].is_none(),
        ScalarOp::Index(_) | ScalarOp::InBounds(_) | ScalarOp::Load(_) => true,
        _ => false,
    })
}

/// The axes that the value of a constant operation depends on.
pub(super) fn axes_of(body: &Body, root: ScalarId, params: &[Option<ConstParam>]) -> Vec<usize> {
    let mut axes = Vec::new();
    for_each_param(body, root, &mut |n| axes.extend(params[n].iter().flat_map(|p| &p.axes).copied()));
    axes.sort_unstable();
    axes.dedup();
    axes
}

fn for_each_param(body: &Body, root: ScalarId, f: &mut dyn FnMut(usize)) {
    let mut needed = vec![false; body.ops.len()];
    needed[root.index()] = true;
    for (id, op) in body.ops.iter_enumerated().rev() {
        if needed[id.index()] {
            op.for_each_operand(&mut |o| needed[o.index()] = true);
            if let ScalarOp::Param(n, _) = op {
                f(usize::from(*n));
            }
        }
    }
}

/// A constant part of a body as a map over `axes` alone: the map, its operands (a constant and the view of it that is
/// read), and its shape.
pub(super) struct Small {
    pub(super) op: MapOp,
    pub(super) inputs: Vec<(ValueId, AccessMap)>,
    pub(super) shape: Vec<Dim>,
}

impl Small {
    /// `root` must be constant as [`varies`] says, and depend on no more than `axes`.
    pub(super) fn new(
        body: &Body,
        root: ScalarId,
        params: &[Option<ConstParam>],
        axes: &[usize],
        shape: &[Dim],
    ) -> Option<Self> {
        let by: Vec<IndexExpr> = (0..shape.len())
            .map(|axis| axes.iter().position(|&a| a == axis).map_or(IndexExpr::constant(0), var))
            .collect();
        let numbers: Vec<usize> = (0..params.len()).collect();
        let (op, kept) = compact(body, &[root], &numbers)?;
        let mut inputs = Vec::new();
        for n in kept {
            let param = params[n].as_ref()?;
            let index = param.map.index.iter().map(|e| e.substitute_vars(&by)).collect();
            inputs.push((param.value, AccessMap { rank: axes.len(), index, valid: Vec::new() }));
        }
        Some(Self { op, inputs, shape: axes.iter().map(|&a| shape[a].clone()).collect() })
    }

    /// Adds the map to a replacement.
    pub(super) fn emit(&self, graph: &Graph, new: &mut Replacement) -> Operand {
        let dtype = self.op.body.dtype(self.op.results[0]);
        let ty = |dtype| TensorType::new(dtype, self.shape.clone());
        let inputs: Vec<Operand> = self
            .inputs
            .iter()
            .map(|(value, map)| {
                let dtype = graph.ty(*value).dtype;
                new.add(view(map.clone(), &self.shape, Const::zero(dtype)), &[(*value).into()], ty(dtype))
            })
            .collect();
        new.add(Op::Map(self.op.clone()), &inputs, ty(dtype))
    }
}

// map_f(x, spread(c)) = map_f'(x, spread(map_g(c))) where g is a part of f that reads c alone
fn hoist(site: &Site<'_>) -> Option<Replacement> {
    let op = as_map(site.node())?;
    let shape = &site.output_type(0).shape;
    let params = const_params(site.graph, &site.node().inputs, shape);
    if params.iter().all(Option::is_none) {
        return None;
    }
    let varies = varies(&op.body, &params);
    // Constant operations that compute something, and whose value something varying (or the result) reads.
    let mut read = vec![false; op.body.ops.len()];
    op.results.iter().for_each(|r| read[r.index()] = true);
    for (id, operation) in op.body.ops.iter_enumerated() {
        if varies[id.index()] {
            operation.for_each_operand(&mut |o| read[o.index()] = true);
        }
    }
    let full: Vec<usize> = (0..shape.len()).filter(|&a| !shape[a].is_const(1)).collect();
    let (root, axes) = op.body.ops.iter_enumerated().find_map(|(id, operation)| {
        let leaf = matches!(operation, ScalarOp::Const(_) | ScalarOp::Param(..));
        if leaf || varies[id.index()] || !read[id.index()] {
            return None;
        }
        let axes = axes_of(&op.body, id, &params);
        // A map that is constant as it stands is folded as it stands.
        if axes == full && op.results.contains(&id) {
            return None;
        }
        let extents: Vec<Dim> = axes.iter().map(|&a| shape[a].clone()).collect();
        let mut source_bytes = 0;
        for_each_param(&op.body, id, &mut |n| {
            let constant = params[n].as_ref().and_then(|p| constant(site.graph, p.value));
            source_bytes += constant.map_or(0, |c| c.tensor.bytes().len());
        });
        let bytes = op.body.dtype(id).storage_bytes(static_len(&extents)?)?;
        // Of all axes there are no fewer points to compute: only what is not larger than what it is made of is worth it.
        let limit = if axes == full { 0 } else { site.cx.options.fold_limit_bytes };
        (bytes <= source_bytes.max(limit)).then_some((id, axes))
    })?;
    let small = Small::new(&op.body, root, &params, &axes, shape)?;
    let mut new = Replacement::new();
    let computed = small.emit(site.graph, &mut new);
    let dtype = op.body.dtype(root);
    let back = AccessMap { rank: shape.len(), index: axes.iter().map(|&a| var(a)).collect(), valid: Vec::new() };
    let spread = new.add(view(back, shape, Const::zero(dtype)), &[computed], TensorType::new(dtype, shape.clone()));
    let next = u8::try_from(site.node().inputs.len()).ok()?;
    let (body, results) = replace(&op.body, &op.results, &mut |body, id| (id == root).then(|| body.param(next, dtype)));
    let inputs: Vec<Operand> = site.node().inputs.iter().map(|&v| v.into()).chain([spread]).collect();
    let (map, inputs) = compact(&body, &results, &inputs)?;
    let node = new.add_node(Op::Map(map), &inputs, site.output_types());
    new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
    Some(new)
}
