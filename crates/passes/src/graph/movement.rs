//! What passes ask of access maps: canonical forms, permutations, broadcasts.

use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr, Ranges};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::Const;
use infc_ir::symbol::Symbols;

/// What is known of the coordinates of a tensor of the given shape.
#[must_use]
pub fn ranges(symbols: &Symbols, shape: &[Dim]) -> Ranges {
    let mut ranges = Ranges::of_symbols(symbols);
    for (axis, extent) in shape.iter().enumerate() {
        ranges.set_axis(VarId(axis as u32), extent);
    }
    ranges
}

/// The variable of an axis.
#[must_use]
pub fn var(axis: usize) -> IndexExpr {
    IndexExpr::var(VarId(axis as u32))
}

/// The map in the form that passes compare: simplified, and coordinates that can only be 0 written as 0.
#[must_use]
pub fn canonical(map: &AccessMap, shape: &[Dim], symbols: &Symbols) -> AccessMap {
    let axes: Vec<IndexExpr> =
        shape.iter().enumerate().map(|(a, d)| if d.is_const(1) { IndexExpr::constant(0) } else { var(a) }).collect();
    let through = |e: &IndexExpr| e.substitute_vars(&axes);
    let zeroed = AccessMap {
        rank: map.rank,
        index: map.index.iter().map(through).collect(),
        valid: map.valid.iter().map(|b| b.map(through)).collect(),
    };
    zeroed.simplify(&ranges(symbols, shape))
}

/// The most atoms in a map of several views. Blocks of an image that are put in order time and again, their sizes symbols, take
/// thousands, each a division per element.
const MAX_ATOMS: usize = 128;

/// The most atoms in a map that it is worth to simplify.
const MAX_RAW_ATOMS: usize = 4096;

/// What two views are as one, in canonical form over the outer one's shape; `None` if that takes a longer expression than is worth it.
#[must_use]
pub fn composed(inner: &AccessMap, outer: &AccessMap, shape: &[Dim], symbols: &Symbols) -> Option<AccessMap> {
    let map = inner.compose(outer);
    if atoms(&map) > MAX_RAW_ATOMS {
        return None;
    }
    let map = canonical(&map, shape, symbols);
    (atoms(&map) <= MAX_ATOMS.max(atoms(inner)).max(atoms(outer))).then_some(map)
}

/// How many atoms the expressions of a map have.
fn atoms(map: &AccessMap) -> usize {
    let bounds = map.valid.iter().flat_map(|b| [&b.expr, &b.lo, &b.hi]);
    let mut count = 0;
    map.index.iter().chain(bounds).for_each(|e| e.for_each_atom(&mut |_| count += 1));
    count
}

/// For every operand axis the axis it runs along, or `None` where it stays at 0; the answer is `None` if the map does
/// anything else (offsets, divisions, conditions), or uses an axis twice.
///
/// Such maps insert, drop (of extent 1), repeat and permute axes. Axes of extent 1 are matched with each other in order,
/// as far as there are any.
#[must_use]
pub fn axis_map(map: &AccessMap, operand: &[Dim], shape: &[Dim], symbols: &Symbols) -> Option<Vec<Option<usize>>> {
    let map = canonical(map, shape, symbols);
    if !map.valid.is_empty() || map.index.len() != operand.len() {
        return None;
    }
    let mut used = vec![false; shape.len()];
    let mut axes: Vec<Option<usize>> = Vec::with_capacity(operand.len());
    for (index, extent) in map.index.iter().zip(operand) {
        if index.is_const(0) && extent.is_const(1) {
            axes.push(None);
            continue;
        }
        let axis = index.as_var()?.0 as usize;
        if shape.get(axis)? != extent || std::mem::replace(&mut used[axis], true) {
            return None;
        }
        axes.push(Some(axis));
    }
    let mut ones = (0..shape.len()).filter(|&a| shape[a].is_const(1));
    for axis in axes.iter_mut().filter(|a| a.is_none()) {
        *axis = ones.next();
    }
    Some(axes)
}

/// True if the view gives its operand back unchanged.
#[must_use]
pub fn is_identity(map: &AccessMap, operand: &[Dim], shape: &[Dim], symbols: &Symbols) -> bool {
    operand == shape
        && axis_map(map, operand, shape, symbols)
            .is_some_and(|axes| axes.iter().enumerate().all(|(n, axis)| *axis == Some(n)))
}

/// The axes of the reader whose coordinates change what the map reads.
#[must_use]
pub fn axes_used(map: &AccessMap) -> Vec<usize> {
    let bounds = map.valid.iter().flat_map(|b| [&b.expr, &b.lo, &b.hi]);
    let exprs: Vec<&IndexExpr> = map.index.iter().chain(bounds).collect();
    (0..map.rank).filter(|&axis| exprs.iter().any(|e| e.uses_var(VarId(axis as u32)))).collect()
}

/// A view without conditions.
#[must_use]
pub fn view(map: AccessMap, shape: &[Dim], otherwise: Const) -> Op {
    Op::View(ViewOp { map, shape: shape.to_vec(), otherwise })
}

/// The view that spreads an operand whose n-th axis is axis `axes[n]` of the result.
#[must_use]
pub fn broadcast(operand: &TensorType, axes: &[usize], shape: &[Dim]) -> Op {
    let index = operand
        .shape
        .iter()
        .zip(axes)
        .map(|(extent, &axis)| if extent.is_const(1) { IndexExpr::constant(0) } else { var(axis) })
        .collect();
    let map = AccessMap { rank: shape.len(), index, valid: Vec::new() };
    view(map, shape, Const::zero(operand.dtype))
}

/// Number of elements, if it is a number.
#[must_use]
pub fn static_len(shape: &[Dim]) -> Option<usize> {
    let mut len = 1usize;
    for dim in shape {
        len = len.checked_mul(usize::try_from(dim.as_const()?).ok()?)?;
    }
    Some(len)
}

/// True if `a` provably has no more elements than `b`.
#[must_use]
pub fn no_larger(a: &[Dim], b: &[Dim], symbols: &Symbols) -> bool {
    let product = |shape: &[Dim]| shape.iter().cloned().product::<IndexExpr>();
    Ranges::of_symbols(symbols).le(&product(a), &product(b)) == infc_ir::index::Proof::Yes
}

/// How many elements a shape has if sizes that only the run tells are `size`, or as near to it as their bounds let them be.
#[must_use]
pub fn elements_at(shape: &[Dim], symbols: &Symbols, size: i64) -> Option<i64> {
    shape.iter().try_fold(1i64, |all, extent| Some(all.saturating_mul(extent.at_size(symbols, size)?.max(0))))
}

/// The tensor of a constant node.
#[must_use]
pub fn constant(graph: &Graph, value: infc_ir::entity::ValueId) -> Option<&infc_ir::op::ConstantOp> {
    match &graph.producer(value)?.1.op {
        Op::Constant(constant) => Some(constant),
        _ => None,
    }
}
