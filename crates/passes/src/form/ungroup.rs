//! Copies of what contractions read through windows and divisions, or what else is no sum, at once.
//!
//! A norm over groups of channels computes `[n, group, c, h, w]`. A convolution behind it reads channel `k` at
//! `(k div 4, k mod 4)` and windows of `h` and `w`; laid out as it reads, each point would be there once per tap. So
//! what the divisions are of becomes an axis first: a copy has `[n, k, h, w]`, which the norm's kernel can write, and of
//! it windows are sums of coordinates. The same goes for a norm that has `[n, group, points]`,
//! if the windows are padded: what is tested tells which coordinates the points have. And for what is padded by mirroring
//! (`Pad` with `reflect`), by its border or from its other end: the copy has the padding, and windows of it are sums.

use super::bijection::is_affine;
use super::expand::Flat;
use super::prepare::{comes_from_constant, copy, padding, trace};
use crate::graph::movement;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{NodeId, ValueId, VarId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Atom, Dim, IndexExpr, Proof, Ranges, Term};
use infc_ir::scalar::Const;
use infc_ir::symbol::Symbols;
use std::collections::BTreeMap;

/// What sizes that only the run tells are taken to be, where it depends on them which of two shapes is the smaller one. By
/// judgement: windows are short beside it.
const USUAL_SIZE: i64 = 1024;

/// Copies that were made: by the condition under which they are, what they are of, and how they see it.
pub(super) type Copies = BTreeMap<(Option<usize>, ValueId, Vec<IndexExpr>, Vec<Dim>), ValueId>;

/// If an operand of a contraction reads through divisions and has more points than what it reads, makes it read a copy
/// without divisions.
pub(super) fn ungroup(flat: &mut Flat, copies: &mut Copies, user: NodeId, operand: usize) {
    let value = flat.graph.nodes[user].inputs[operand];
    let (root, map) = trace(&flat.graph, value);
    if comes_from_constant(&flat.graph, root) {
        return;
    }
    let Some(padding) = padding(&flat.graph, value) else { return };
    let Some((inner, shape, outer)) = factors(&flat.graph, root, value, &map) else { return };
    let origin = flat.graph.nodes[user].origin;
    let dtype = flat.graph.ty(root).dtype;
    let key = (flat.guard(user), root, inner.index.clone(), shape.clone());
    let joined = match copies.get(&key) {
        Some(&joined) => joined,
        None => {
            let ty = TensorType::new(dtype, shape.clone());
            let seen = flat.graph.add(movement::view(inner, &shape, Const::zero(dtype)), &[root], ty, origin);
            let joined = copy(&mut flat.graph, seen, user);
            copies.insert(key, joined);
            joined
        }
    };
    let ty = flat.graph.ty(value).clone();
    let seen = flat.graph.add(movement::view(outer, &ty.shape.clone(), padding), &[joined], ty, origin);
    flat.graph.nodes[user].inputs[operand] = seen;
}

/// A coordinate of what lies between a value and its root.
struct Coordinate {
    /// The variable of the value that it is, or that it is one of a window with; what orders coordinates.
    var: usize,
    /// Where the value reads it.
    at: IndexExpr,
    extent: Dim,
}

/// The map as two: from coordinates without windows to the root, and from the value to these, without divisions. With the
/// extents in between. Coordinates are what is tested for bounds, axes of the root that windows run along, and variables.
fn factors(graph: &Graph, root: ValueId, value: ValueId, map: &AccessMap) -> Option<(AccessMap, Vec<Dim>, AccessMap)> {
    if map.index.iter().all(is_affine) {
        return None;
    }
    let (of_root, of_value) = (&graph.ty(root).shape, &graph.ty(value).shape);
    let mut ranges = Ranges::of_symbols(&graph.symbols);
    of_value.iter().enumerate().for_each(|(axis, extent)| ranges.set_axis(VarId(axis as u32), extent));
    let mut coordinates: Vec<Coordinate> = Vec::new();
    // What is tested becomes a variable of its own in place of one that it is a sum with.
    let mut index = map.index.clone();
    for bound in &map.valid {
        let taken = |var: usize| coordinates.iter().any(|c| c.var == var);
        if bound.lo.uses_vars() || bound.hi.uses_vars() {
            return None;
        }
        let (var, rest) = (0..map.rank).rev().filter(|&var| !taken(var)).find_map(|var| {
            let (step, rest) = bound.expr.linear_in(VarId(var as u32))?;
            step.is_const(1).then_some((var, rest))
        })?;
        let own = map.rank + coordinates.len();
        let extent = bound.hi.clone() - bound.lo.clone();
        ranges.set_axis(VarId(own as u32), &extent);
        let by = replacing(map.rank, var, movement::var(own) + bound.lo.clone() - rest);
        index = index.iter().map(|e| e.substitute_vars(&by)).collect();
        coordinates.push(Coordinate { var, at: bound.expr.clone() - bound.lo.clone(), extent });
    }
    let bounds = coordinates.len();
    index = index.iter().map(|e| e.simplify(&ranges)).collect();
    // What is mirrored, divided or kept within bounds as a sum becomes a variable of its own, too.
    while let Some(Sum { var, at, rest }) = index.iter().find_map(|e| sum_inside(e, map.rank)) {
        let own = map.rank + coordinates.len();
        let extent = greatest(&at, of_value) + 1;
        ranges.set_axis(VarId(own as u32), &extent);
        let by = replacing(map.rank + coordinates.len(), var, movement::var(own) - rest);
        index = index.iter().map(|e| e.substitute_vars(&by).simplify(&ranges)).collect();
        coordinates.push(Coordinate { var, at, extent });
    }
    // A window that is not tested is along an axis of the root, which nothing else reads by the same variables.
    for n in 0..index.len() {
        let vars: Vec<usize> = (0..map.rank).filter(|&var| uses(&index[n], var)).collect();
        let alone = |var: &usize| (0..index.len()).all(|other| other == n || !uses(&index[other], *var));
        // What is tested has a coordinate already, and is no variable of the value.
        let tested = (0..bounds).any(|own| uses(&index[n], map.rank + own));
        if vars.len() > 1 && is_affine(&index[n]) && !tested && vars.iter().all(alone) {
            let own = map.rank + coordinates.len();
            ranges.set_axis(VarId(own as u32), &of_root[n]);
            let at = std::mem::replace(&mut index[n], movement::var(own));
            coordinates.push(Coordinate { var: vars[0], at, extent: of_root[n].clone() });
        }
    }
    // That what is read is there is promised, but not of all that the copy has: of the rest, some may be tested.
    let within_root = |(e, hi): (&IndexExpr, &Dim)| Bound { expr: e.clone(), lo: Dim::constant(0), hi: hi.clone() };
    let is_there = |bound: &Bound| bound.proof(&ranges) == Proof::Yes;
    let tested: Vec<Bound> = index.iter().zip(of_root).map(within_root).filter(|bound| !is_there(bound)).collect();
    if bounds > 0 && !tested.is_empty() {
        return None;
    }
    let windows = coordinates.len();
    for (var, extent) in of_value.iter().enumerate() {
        if index.iter().any(|e| uses(e, var)) {
            coordinates.push(Coordinate { var, at: movement::var(var), extent: extent.clone() });
        }
    }
    debug_assert!(coordinates.iter().all(|c| (map.rank..map.rank + windows).all(|own| !uses(&c.at, own))));
    let mut order: Vec<usize> = (0..coordinates.len()).collect();
    order.sort_by_key(|&n| coordinates[n].var);
    let place = |n: usize| order.iter().position(|&at| at == n).map(movement::var);
    let shape: Vec<Dim> = order.iter().map(|&n| coordinates[n].extent.clone()).collect();
    if !is_smaller(&shape, of_value, &graph.symbols) {
        return None;
    }
    // Variables of the value that are no coordinates are in no index.
    let of_var = |var: usize| (windows..coordinates.len()).find(|&n| coordinates[n].var == var).and_then(place);
    let by: Vec<IndexExpr> =
        (0..map.rank).map(of_var).chain((0..windows).map(place)).map(Option::unwrap_or_default).collect();
    let inner = AccessMap {
        rank: shape.len(),
        index: index.iter().map(|e| e.substitute_vars(&by)).collect(),
        valid: tested.iter().map(|bound| bound.map(|e| e.substitute_vars(&by))).collect(),
    };
    let within = |c: &Coordinate| Bound { expr: c.at.clone(), lo: IndexExpr::constant(0), hi: c.extent.clone() };
    let outer = AccessMap {
        rank: map.rank,
        index: order.iter().map(|&n| coordinates[n].at.clone()).collect(),
        valid: coordinates[..bounds].iter().map(within).collect(),
    };
    Some((inner, shape, outer))
}

/// Whether a shape has fewer elements than another one; at [`USUAL_SIZE`], if neither is known to have no more than the other.
fn is_smaller(shape: &[Dim], other: &[Dim], symbols: &Symbols) -> bool {
    match (movement::no_larger(shape, other, symbols), movement::no_larger(other, shape, symbols)) {
        (true, is_larger) => !is_larger,
        (false, true) => false,
        (false, false) => {
            let at_usual = |shape: &[Dim]| movement::elements_at(shape, symbols, USUAL_SIZE);
            at_usual(shape).zip(at_usual(other)).is_some_and(|(a, b)| a < b)
        }
    }
}

/// A window: a sum of variables of the value, with positive factors.
struct Sum {
    /// One whose factor is 1, of these the last.
    var: usize,
    at: IndexExpr,
    /// The others.
    rest: IndexExpr,
}

/// The first sum of several of the first `rank` variables inside of an expression that is more than a sum.
fn sum_inside(e: &IndexExpr, rank: usize) -> Option<Sum> {
    let mut found = None;
    e.for_each_atom(&mut |atom| {
        if let Atom::FloorDiv(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) = atom {
            found = found.take().or_else(|| [&p.0, &p.1].into_iter().find_map(|e| as_sum(e, rank)));
        }
    });
    found
}

/// What of the expression moves with variables, or its negative, if that is such a sum.
fn as_sum(e: &IndexExpr, rank: usize) -> Option<Sum> {
    let (moving, _) = e.partition(IndexExpr::uses_vars);
    let at = moving.scale(moving.terms().first()?.coefficient.signum());
    let factor = |term: &Term| match term.atoms[..] {
        [Atom::Var(v)] if (v.0 as usize) < rank && term.coefficient > 0 => Some((v, term.coefficient)),
        _ => None,
    };
    let factors: Vec<(VarId, i64)> = at.terms().iter().map(factor).collect::<Option<_>>()?;
    let var = factors.iter().filter(|(_, factor)| *factor == 1).map(|(v, _)| *v).max()?;
    let rest = at.clone() - IndexExpr::var(var);
    (factors.len() > 1).then_some(Sum { var: var.0 as usize, at, rest })
}

/// The greatest value of a sum of coordinates of a shape with positive factors.
fn greatest(sum: &IndexExpr, shape: &[Dim]) -> Dim {
    let last: Vec<IndexExpr> = shape.iter().map(|extent| extent.clone() - 1).collect();
    sum.substitute_vars(&last)
}

fn uses(e: &IndexExpr, var: usize) -> bool {
    e.uses_var(VarId(var as u32))
}

/// All variables as they are, but one.
fn replacing(rank: usize, var: usize, by: IndexExpr) -> Vec<IndexExpr> {
    (0..rank).map(|v| if v == var { by.clone() } else { movement::var(v) }).collect()
}
