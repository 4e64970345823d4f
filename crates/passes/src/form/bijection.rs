//! Views that only rename coordinates: reshapes and transpositions, and how to go back through them.
//!
//! A view that merges axes reads at `(i div n, i mod n)`; going back is affine (`a·n + b`). A view that splits an axis
//! reads at `i·n + j`, which is affine already. Fusing through a view means to work in the coordinates of the side from
//! which the other is affine.

use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::index::{Atom, Dim, IndexExpr};
use infc_ir::kernel::Layout;

/// A one-to-one view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bijection {
    /// The map itself has no divisions.
    pub(super) forward_is_affine: bool,
    /// View coordinates from operand coordinates, if that has no divisions.
    pub(super) inverse: Option<Vec<IndexExpr>>,
}

/// What an index expression takes from one variable: `(var div place) mod radix`.
struct Digit {
    var: VarId,
    place: Dim,
}

/// True if the expression has no division, modulo, minimum or maximum.
pub(super) fn is_affine(expr: &IndexExpr) -> bool {
    let mut plain = true;
    expr.for_each_atom(&mut |a| plain &= matches!(a, Atom::Var(_) | Atom::Symbol(_)));
    plain
}

/// True if the expression is which group of so many points of one of these variables a point is in: a head of keys that
/// several heads of queries share.
pub(super) fn is_group_of_one_of(expr: &IndexExpr, vars: &[usize]) -> bool {
    let Some(Atom::FloorDiv(p)) = single_atom(expr) else { return false };
    p.1.as_const().is_some() && p.0.as_var().is_some_and(|var| vars.contains(&(var.0 as usize)))
}

fn single_atom(expr: &IndexExpr) -> Option<&Atom> {
    match expr.terms() {
        [term] if term.coefficient == 1 && expr.constant_part() == 0 => match &term.atoms[..] {
            [atom] => Some(atom),
            _ => None,
        },
        _ => None,
    }
}

fn place_of(expr: &IndexExpr) -> Option<Digit> {
    if let Some(var) = expr.as_var() {
        return Some(Digit { var, place: Dim::constant(1) });
    }
    match single_atom(expr)? {
        Atom::FloorDiv(p) => Some(Digit { var: p.0.as_var()?, place: p.1.clone() }),
        _ => None,
    }
}

fn digit(expr: &IndexExpr, operand_extent: &Dim) -> Option<Digit> {
    if let Some(Atom::Mod(p)) = single_atom(expr) {
        return (p.1 == *operand_extent).then(|| place_of(&p.0)).flatten();
    }
    place_of(expr)
}

/// The variables of a sum `Σ cₙ·vₙ`.
fn sum_of(expr: &IndexExpr) -> Option<Vec<(VarId, Dim)>> {
    let mut vars: Vec<VarId> = Vec::new();
    expr.for_each_atom(&mut |a| {
        if let Atom::Var(v) = a
            && !vars.contains(v)
        {
            vars.push(*v);
        }
    });
    let mut rest = expr.clone();
    let mut sum = Vec::new();
    for var in vars {
        let (coefficient, without) = rest.linear_in(var)?;
        sum.push((var, coefficient));
        rest = without;
    }
    rest.is_const(0).then_some(sum)
}

/// Orders `(place, extent)` pairs so that each place is the product of the extents before; true if they make up `total`.
fn tiles(mut parts: Vec<(Dim, Dim)>, total: &Dim) -> bool {
    let mut expected = Dim::constant(1);
    while let Some(at) = parts.iter().position(|(place, _)| *place == expected) {
        let (_, extent) = parts.swap_remove(at);
        expected = expected * extent;
    }
    parts.is_empty() && expected == *total
}

/// Looks at a simplified map from a view of `shape` to an operand of shape `operand`.
pub(super) fn bijection(map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> Option<Bijection> {
    if !map.valid.is_empty() {
        return None;
    }
    let inverse = inverse_of_digits(map, shape, operand);
    let forward_is_affine = is_sums(map, shape, operand);
    (forward_is_affine || inverse.is_some()).then_some(Bijection { forward_is_affine, inverse })
}

fn inverse_of_digits(map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> Option<Vec<IndexExpr>> {
    let mut digits: Vec<Vec<(Dim, Dim)>> = vec![Vec::new(); shape.len()];
    let mut inverse = vec![IndexExpr::constant(0); shape.len()];
    for (axis, index) in map.index.iter().enumerate() {
        if operand[axis].is_const(1) {
            continue;
        }
        let Digit { var, place } = digit(index, &operand[axis])?;
        let at = var.0 as usize;
        digits.get_mut(at)?.push((place.clone(), operand[axis].clone()));
        inverse[at] = inverse[at].clone() + IndexExpr::var(VarId(axis as u32)) * place;
    }
    digits.into_iter().zip(shape).all(|(digits, extent)| tiles(digits, extent)).then_some(inverse)
}

fn is_sums(map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> bool {
    let mut used = vec![false; shape.len()];
    for (axis, index) in map.index.iter().enumerate() {
        if operand[axis].is_const(1) {
            continue;
        }
        let Some(sum) = sum_of(index) else { return false };
        let mut parts = Vec::new();
        for (var, coefficient) in sum {
            let at = var.0 as usize;
            if at >= shape.len() || std::mem::replace(&mut used[at], true) {
                return false;
            }
            parts.push((coefficient, shape[at].clone()));
        }
        if !tiles(parts, &operand[axis]) {
            return false;
        }
    }
    used.iter().zip(shape).all(|(&used, extent)| used || extent.is_const(1))
}

/// True if the view shows all elements in their order: a reshape, so that row-major memory of one is that of the other.
pub(super) fn keeps_order(map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> bool {
    let place = |index: &[IndexExpr], shape: &[Dim]| {
        let terms = index.iter().zip(Layout::dense(shape).strides);
        without_modulo(&terms.fold(IndexExpr::constant(0), |sum, (at, stride)| sum + at.clone() * stride))
    };
    let own = shape.iter().enumerate().map(|(n, extent)| match extent.is_const(1) {
        true => IndexExpr::constant(0),
        false => IndexExpr::var(VarId(n as u32)),
    });
    let len = |shape: &[Dim]| shape.iter().cloned().product::<Dim>();
    let own = place(&own.collect::<Vec<_>>(), shape);
    map.valid.is_empty() && len(shape) == len(operand) && place(&map.index, operand) == own
}

/// The expression with `e mod n` as `e − n·(e div n)`, so that the digits of a number add up to it again.
fn without_modulo(e: &IndexExpr) -> IndexExpr {
    e.substitute(&|atom| match atom {
        Atom::Mod(p) => {
            let (e, n) = (without_modulo(&p.0), without_modulo(&p.1));
            let quotient = match single_atom(&e) {
                Some(Atom::FloorDiv(inner)) => inner.0.floor_div(&(inner.1.clone() * n.clone())),
                _ => e.floor_div(&n),
            };
            Some(e - quotient * n)
        }
        _ => None,
    })
}

/// True if no operand element is read twice; where the map is not valid does not matter.
pub(super) fn reads_once(map: &AccessMap, shape: &[Dim], operand: &[Dim]) -> bool {
    let plain = AccessMap { valid: Vec::new(), ..map.clone() };
    if bijection(&plain, shape, operand).is_some() {
        return true;
    }
    let mut used = vec![false; shape.len()];
    for index in &map.index {
        let moving = index.without_constant();
        if moving.is_const(0) {
            continue;
        }
        let sum = sum_of(&moving).unwrap_or_default();
        let [(var, coefficient)] = &sum[..] else { return false };
        if coefficient.as_const().is_none_or(|c| c == 0) {
            return false;
        }
        if let Some(used) = used.get_mut(var.0 as usize) {
            *used = true;
        }
    }
    used.iter().zip(shape).all(|(&used, extent)| used || extent.is_const(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::entity::SymbolId;

    fn v(n: u32) -> IndexExpr {
        IndexExpr::var(VarId(n))
    }

    fn dims(d: &[i64]) -> Vec<Dim> {
        d.iter().map(|&d| Dim::constant(d)).collect()
    }

    fn map(rank: usize, index: Vec<IndexExpr>) -> AccessMap {
        AccessMap { rank, index, valid: Vec::new() }
    }

    #[test]
    fn merging_goes_back_affinely() {
        // [2, 3, 4] transposed and merged into [3, 8].
        let four = Dim::constant(4);
        let m = map(2, vec![v(1).floor_div(&four), v(0), v(1).modulo(&four)]);
        let b = bijection(&m, &dims(&[3, 8]), &dims(&[2, 3, 4])).expect("one to one");
        assert!(!b.forward_is_affine);
        assert_eq!(b.inverse.expect("affine"), vec![v(1), v(0).scale(4) + v(2)]);
    }

    #[test]
    fn splitting_is_affine() {
        let m = map(3, vec![v(0).scale(4) + v(2), v(1)]);
        let b = bijection(&m, &dims(&[2, 3, 4]), &dims(&[8, 3])).expect("one to one");
        assert!(b.forward_is_affine && b.inverse.is_none());
    }

    #[test]
    fn a_reshape_keeps_the_order_a_transposition_does_not() {
        let (four, shape) = (Dim::constant(4), dims(&[2, 3, 4]));
        let merged = |index| map(2, index);
        let rows = merged(vec![v(0).floor_div(&Dim::constant(3)), v(0).modulo(&Dim::constant(3)), v(1)]);
        assert!(keeps_order(&rows, &dims(&[6, 4]), &shape));
        let turned = merged(vec![v(1).floor_div(&four), v(0), v(1).modulo(&four)]);
        assert!(!keeps_order(&turned, &dims(&[3, 8]), &shape));
        let split = map(3, vec![v(0).scale(3) + v(1), v(2)]);
        assert!(keeps_order(&split, &shape, &dims(&[6, 4])));
        let crossed = map(3, vec![v(0).scale(4) + v(2), v(1)]);
        assert!(!keeps_order(&crossed, &shape, &dims(&[8, 3])));
        let twelve = Dim::constant(12);
        let second = v(0).floor_div(&four) - v(0).floor_div(&twelve).scale(3);
        let digits = map(1, vec![v(0).floor_div(&twelve), second, v(0).modulo(&four)]);
        assert!(keeps_order(&digits, &dims(&[24]), &shape));
        let mixed = map(2, vec![v(0).scale(4) + v(1).floor_div(&Dim::constant(2)), v(1).modulo(&Dim::constant(2))]);
        assert!(keeps_order(&mixed, &dims(&[3, 8]), &dims(&[12, 2])));
        assert!(!keeps_order(&mixed, &dims(&[3, 8]), &dims(&[13, 2])));
        let s = IndexExpr::symbol(SymbolId(0));
        let of_symbols =
            map(1, vec![v(0).floor_div(&s.scale(4)), v(0).floor_div(&four).modulo(&s), v(0).modulo(&four)]);
        assert!(keeps_order(&of_symbols, &[s.scale(8)], &[Dim::constant(2), s, four.clone()]));
        let one = map(3, vec![v(0), v(2)]);
        assert!(keeps_order(&one, &dims(&[2, 1, 4]), &dims(&[2, 4])));
    }

    #[test]
    fn windows_broadcasts_and_slices_are_not_one_to_one() {
        let window = map(2, vec![v(0) + v(1)]);
        assert_eq!(bijection(&window, &dims(&[4, 3]), &dims(&[6])), None);
        let broadcast = map(2, vec![v(1)]);
        assert_eq!(bijection(&broadcast, &dims(&[4, 3]), &dims(&[3])), None);
        let slice = map(1, vec![v(0) + 2]);
        assert_eq!(bijection(&slice, &dims(&[4]), &dims(&[6])), None);
        assert!(reads_once(&slice, &dims(&[4]), &dims(&[6])));
        assert!(!reads_once(&window, &dims(&[4, 3]), &dims(&[6])));
        assert!(!reads_once(&broadcast, &dims(&[4, 3]), &dims(&[3])));
    }
}
