//! Simplification that needs to know ranges.

use super::facts::gcd;
use super::{Atom, IndexExpr, Interval, Ranges, Term};
use std::sync::Arc;

impl IndexExpr {
    /// An expression with the same value for all values within the ranges. It has no more divisions than this one, and what they
    /// are of is no larger, but for a remainder's divisor; remainders may become sums.
    #[must_use]
    pub fn simplify(&self, ranges: &Ranges) -> Self {
        let mut sum = Self::constant(self.constant_part());
        for term in self.terms() {
            let mut product = Self::constant(term.coefficient);
            for atom in &term.atoms {
                product = product * simplify_atom(atom, ranges);
            }
            sum = sum + product;
        }
        let sum = join_padding(join_divisions(sum));
        let interval = ranges.interval(&sum);
        match (interval.min, interval.max) {
            (Some(a), Some(b)) if a == b => Self::constant(a),
            _ => sum,
        }
    }
}

/// `c·(x mod d)`, a term of a sum.
struct Remainder {
    /// `c`.
    factor: IndexExpr,
    /// `x` and `d`.
    of: Arc<(IndexExpr, IndexExpr)>,
}

impl Remainder {
    fn of_term(term: &Term) -> Option<Self> {
        let (at, of) = term.atoms.iter().enumerate().find_map(|(at, atom)| match atom {
            Atom::Mod(of) => Some((at, Arc::clone(of))),
            _ => None,
        })?;
        let others = term.atoms.iter().enumerate().filter(|&(n, _)| n != at);
        let others: IndexExpr = others.map(|(_, atom)| IndexExpr::atom(atom.clone())).product();
        Some(Self { factor: others.scale(term.coefficient), of })
    }

    fn term(&self) -> IndexExpr {
        self.factor.clone() * IndexExpr::atom(Atom::Mod(Arc::clone(&self.of)))
    }
}

/// The sum with its remainders put otherwise, as long as there is a way.
fn put_otherwise(mut e: IndexExpr, way: impl Fn(&IndexExpr, &Remainder) -> Option<IndexExpr>) -> IndexExpr {
    while let Some(other) = e.terms().iter().filter_map(Remainder::of_term).find_map(|r| way(&e, &r)) {
        e = other;
    }
    e
}

fn has_terms_of(e: &IndexExpr, part: &IndexExpr) -> bool {
    part.terms().iter().all(|t| e.terms().contains(t))
}

/// `c·d·(x div d) + c·(x mod d) = c·x`, which undoes the splitting of a coordinate.
fn join_divisions(e: IndexExpr) -> IndexExpr {
    put_otherwise(e, |e, r| {
        let (x, d) = &*r.of;
        let whole = r.factor.clone() * d.clone() * IndexExpr::atom(Atom::FloorDiv(Arc::clone(&r.of)));
        has_terms_of(e, &whole).then(|| e.clone() - r.term() - whole + r.factor.clone() * x.clone())
    })
}

/// `c·x + c·(−x mod d) = c·d·⌈x / d⌉` and `c·x − c·(x mod d) = c·d·⌊x / d⌋`: what is padded or cut to a multiple is one.
fn join_padding(e: IndexExpr) -> IndexExpr {
    put_otherwise(e, |e, r| {
        let (x, d) = &*r.of;
        d.as_const()?;
        let rest = r.factor.clone() * x.scale(-1);
        let multiple = match x.terms().first() {
            Some(first) if first.coefficient > 0 => x.floor_div(d).scale(-1),
            _ => x.scale(-1).ceil_div(d),
        };
        has_terms_of(e, &rest).then(|| e.clone() - r.term() - rest + r.factor.clone() * multiple * d.clone())
    })
}

/// What has the same remainder by a number: `(a − x mod d·e) mod d = (a − x) mod d`, by which padding is told. What is added
/// stays a remainder: it may be of a coordinate that is split, and joins again.
fn without_remainders(a: IndexExpr, by: &IndexExpr, ranges: &Ranges) -> IndexExpr {
    let Some(by) = by.as_const().filter(|by| *by > 0) else { return a };
    put_otherwise(a, |a, r| {
        let (x, d) = &*r.of;
        let is_multiple = r.factor.is_const(-1) && d.as_const().is_some_and(|d| d % by == 0);
        is_multiple.then(|| (a.clone() - r.term() - x.clone()).simplify(ranges))
    })
}

fn simplify_atom(atom: &Atom, ranges: &Ranges) -> IndexExpr {
    let both = |p: &(IndexExpr, IndexExpr)| (p.0.simplify(ranges), p.1.simplify(ranges));
    // A size that can only be 0 divides nothing: there is no point at which that is asked.
    let quotient = |p: &(IndexExpr, IndexExpr)| {
        let (a, b) = both(p);
        if b.as_const().is_some_and(|d| d <= 0) { (a, p.1.clone()) } else { (a, b) }
    };
    match atom {
        Atom::Symbol(s) => only_value(ranges.symbol(*s)).unwrap_or_else(|| IndexExpr::symbol(*s)),
        Atom::Var(v) => only_value(ranges.var(*v)).unwrap_or_else(|| IndexExpr::var(*v)),
        Atom::FloorDiv(p) => {
            let (a, b) = quotient(p);
            divide(&a, &b, ranges).map_or_else(|| a.floor_div(&b), |(quotient, _)| quotient)
        }
        Atom::Mod(p) => {
            let (a, b) = quotient(p);
            let a = without_remainders(a, &b, ranges);
            divide(&a, &b, ranges).map_or_else(|| a.modulo(&b), |(_, remainder)| remainder)
        }
        Atom::Min(p) => {
            let (a, b) = both(p);
            match (ranges.le(&a, &b), ranges.le(&b, &a)) {
                (super::Proof::Yes, _) => a,
                (_, super::Proof::Yes) => b,
                _ => a.minimum(&b),
            }
        }
        Atom::Max(p) => {
            let (a, b) = both(p);
            match (ranges.le(&a, &b), ranges.le(&b, &a)) {
                (super::Proof::Yes, _) => b,
                (_, super::Proof::Yes) => a,
                _ => a.maximum(&b),
            }
        }
    }
}

/// The number, if an interval has just one.
fn only_value(interval: Interval) -> Option<IndexExpr> {
    match (interval.min, interval.max) {
        (Some(a), Some(b)) if a == b => Some(IndexExpr::constant(a)),
        _ => None,
    }
}

/// Quotient and remainder, where ranges show which parts divide: `(d·q + r) div d = q` if `0 ≤ r < d`.
fn divide(a: &IndexExpr, b: &IndexExpr, ranges: &Ranges) -> Option<(IndexExpr, IndexExpr)> {
    let below = |r: &IndexExpr, b: &IndexExpr| {
        ranges.le(&0.into(), r) == super::Proof::Yes && ranges.lt(r, b) == super::Proof::Yes
    };
    let within = |r: &IndexExpr| below(r, b);
    if within(a) {
        return Some((IndexExpr::constant(0), a.clone()));
    }
    if let Some(d) = b.as_const() {
        let (whole, rest) = a.split_multiples(d);
        if within(&rest) {
            return Some((whole.divided_by(d), rest));
        }
        // div(div(x, c) + k, d) = div(x + c·k, c·d)
        if let [term] = a.terms()
            && term.coefficient == 1
            && let [Atom::FloorDiv(inner)] = &term.atoms[..]
            && let Some(c) = inner.1.as_const()
            && let (Some(cd), Some(ck)) = (c.checked_mul(d), c.checked_mul(a.constant_part()))
        {
            let quotient = (inner.0.clone() + ck).floor_div(&IndexExpr::constant(cd)).simplify(ranges);
            let remainder = a.clone() - quotient.scale(d);
            // Only a quotient that became simpler is worth taking.
            if quotient.terms().len() <= 1 {
                return Some((quotient, remainder));
            }
        }
        let factor = |t: &Term| i64::try_from(gcd(t.coefficient.unsigned_abs(), d.unsigned_abs())).ok();
        let mut factors: Vec<i64> = a.terms().iter().filter_map(factor).filter(|g| (2..d).contains(g)).collect();
        factors.sort_unstable_by(|a, b| b.cmp(a));
        return factors.into_iter().find_map(|g| {
            let (whole, rest) = a.split_multiples(g);
            below(&rest, &g.into()).then(|| in_steps(&whole.divided_by(g), &(d / g).into(), &g.into(), rest, ranges))
        });
    }
    // A symbolic divisor: its multiples come out.
    let content = b.terms().iter().fold(b.constant_part().unsigned_abs(), |g, t| gcd(g, t.coefficient.unsigned_abs()));
    let content = i64::try_from(content).ok().filter(|c| *c >= 1)?;
    let g = b.divided_by(content);
    let (quotient, rest) = without_multiples(a, &g)?;
    // Where nothing is left over, the size may be what it likes: by 0 nothing is ever divided.
    (rest.is_const(0) || below(&rest, &g)).then(|| match content {
        1 => (quotient, rest),
        c => in_steps(&quotient, &c.into(), &g, rest, ranges),
    })
}

/// `(q, r)` with `a = g·q + r`, where no term of `r` has the factors of the term of `g` with most of them; `None` if none of `a`
/// has, or so many that no end is in sight. So `m·S + n − m = (S − 1)·m + n`.
fn without_multiples(a: &IndexExpr, g: &IndexExpr) -> Option<(IndexExpr, IndexExpr)> {
    const MOST_TERMS: usize = 32;
    let leading = g.terms().iter().rev().filter(|t| t.coefficient > 0).max_by_key(|t| t.atoms.len())?;
    let leading = IndexExpr::from_terms(vec![leading.clone()], 0);
    let part = |rest: &IndexExpr| {
        rest.terms().iter().find_map(|t| IndexExpr::from_terms(vec![t.clone()], 0).divide_by_monomial(&leading))
    };
    let (mut quotient, mut rest) = (IndexExpr::constant(0), a.clone());
    for _ in 0..MOST_TERMS {
        let Some(part) = part(&rest) else { break };
        rest = rest - part.clone() * g.clone();
        quotient = quotient + part;
    }
    (!quotient.is_const(0) && part(&rest).is_none()).then_some((quotient, rest))
}

/// Quotient and remainder of `g·q + r` by `g·c`, if `0 ≤ r < g`: those of `q` by `c`, with `r` left over. It is what a
/// coordinate of axes becomes that were joined and are split in another place.
fn in_steps(q: &IndexExpr, c: &IndexExpr, g: &IndexExpr, r: IndexExpr, ranges: &Ranges) -> (IndexExpr, IndexExpr) {
    let (quotient, remainder) = divide(q, c, ranges).unwrap_or_else(|| (q.floor_div(c), q.modulo(c)));
    (quotient, remainder * g.clone() + r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{EntityId, VarId};

    #[test]
    fn a_tile_index_divides_by_the_tile() {
        let (i, j) = (VarId(0), VarId(1));
        let mut ranges = Ranges::default();
        ranges.set_var(i, Interval::new(0, 9));
        ranges.set_var(j, Interval::new(0, 15));
        let e = IndexExpr::var(i).scale(48) + IndexExpr::var(j) + 16;
        let sixteen = IndexExpr::constant(16);
        assert_eq!(e.floor_div(&sixteen).simplify(&ranges).to_string(), "3*i0 + 1");
        assert_eq!(e.modulo(&sixteen).simplify(&ranges).to_string(), "i1");
    }

    /// 8 groups of 4 channels, which were joined with 32×32 points, seen as 32 channels.
    #[test]
    fn axes_that_were_joined_split_in_another_place() {
        let vars = [0, 1, 2].map(VarId);
        let [c, h, w] = vars.map(IndexExpr::var);
        let mut ranges = Ranges::default();
        for (var, extent) in vars.into_iter().zip([32, 32, 32]) {
            ranges.set_var(var, Interval::new(0, extent - 1));
        }
        let flat = c.scale(1024) + h.scale(32) + w.clone();
        let group = IndexExpr::constant(4096);
        assert_eq!(flat.floor_div(&group).simplify(&ranges).to_string(), "div(i0, 4)");
        assert_eq!(flat.modulo(&group).simplify(&ranges).to_string(), "32*i1 + i2 + 1024*mod(i0, 4)");
        // What leaves the image is in a neighbour's, so that nothing is to be said.
        let window = flat.clone() - 33;
        assert_eq!(window.floor_div(&group).simplify(&ranges), window.floor_div(&group));
        // Of any size.
        let [height, width] = [0, 1].map(|n| IndexExpr::symbol(crate::entity::SymbolId(n)));
        ranges.set_var(vars[1], Interval { min: Some(0), max: None });
        ranges.set_var(vars[2], Interval { min: Some(0), max: None });
        ranges.set_upper(vars[1], height.clone() - 1);
        ranges.set_upper(vars[2], width.clone() - 1);
        let image = height * width.clone();
        let flat = c * image.clone() + h * width + w;
        assert_eq!(flat.floor_div(&image.scale(4)).simplify(&ranges).to_string(), "div(i0, 4)");
        let rest = flat.modulo(&image.scale(4)).simplify(&ranges);
        assert_eq!(rest.floor_div(&image).simplify(&ranges).to_string(), "mod(i0, 4)");
    }

    /// Channels and points of an image or a sound that lost its ends in a convolution without padding, joined and split again.
    #[test]
    fn sizes_that_are_differences_divide() {
        let [c, h, w] = [0, 1, 2].map(|n| IndexExpr::var(VarId(n)));
        let [height, width] = [0, 1].map(|n| IndexExpr::symbol(crate::entity::SymbolId(n)) - 2);
        let mut ranges = Ranges::default();
        for (var, extent) in [32.into(), height.clone(), width.clone()].into_iter().enumerate() {
            ranges.set_axis(VarId::from_index(var), &extent);
        }
        let length = width.clone();
        let flat = c.clone() * length.clone() + w.clone();
        assert_eq!(flat.floor_div(&length).simplify(&ranges), c);
        assert_eq!(flat.modulo(&length).simplify(&ranges), w);
        assert_eq!(flat.floor_div(&length.scale(4)).simplify(&ranges).to_string(), "div(i0, 4)");
        let image = height.clone() * width.clone();
        let flat = c.clone() * image.clone() + h.clone() * width.clone() + w.clone();
        assert_eq!(flat.floor_div(&width).simplify(&ranges), c.clone() * height + h.clone());
        assert_eq!(flat.modulo(&width).simplify(&ranges), w);
        assert_eq!(flat.floor_div(&image).simplify(&ranges), c);
        assert_eq!(flat.modulo(&image).simplify(&ranges), h * width.clone() + w);
        // What leaves the row is in the next one.
        let beyond = flat + 1;
        assert!(beyond.modulo(&width).simplify(&ranges).to_string().starts_with("mod("));
    }

    /// The extent of a convolution of a convolution of stride 2.
    #[test]
    fn a_half_of_a_half_is_a_quarter() {
        let (n, two) = (IndexExpr::symbol(crate::entity::SymbolId(0)), IndexExpr::constant(2));
        let halved = |e: &IndexExpr| (e.clone() + 1).floor_div(&two);
        let eighth = halved(&halved(&halved(&n)));
        let simple = eighth.simplify(&Ranges::default());
        assert_eq!(simple.to_string(), "div($0 + 7, 8)");
        let at = |e: &IndexExpr, n: i64| e.eval(&|_| Some(n), &|_| None);
        for n in -20..40 {
            assert_eq!(at(&eighth, n), at(&simple, n));
        }
    }

    #[test]
    fn what_is_padded_to_a_multiple_is_one() {
        let (h, twelve) = (IndexExpr::var(VarId(0)), IndexExpr::constant(12));
        let mut ranges = Ranges::default();
        ranges.set_var(VarId(0), Interval::new(0, 1000));
        let padded = h.clone() + h.scale(-1).modulo(&twelve);
        let windows = padded.floor_div(&twelve);
        assert_eq!(padded.simplify(&ranges), h.ceil_div(&twelve).scale(12));
        assert_eq!(windows.simplify(&ranges), h.ceil_div(&twelve));
        assert_eq!((padded.clone() - windows.scale(12)).simplify(&ranges), IndexExpr::constant(0));
        let rows = IndexExpr::var(VarId(1));
        let image = (rows.clone() * padded).simplify(&ranges);
        assert_eq!(image, rows * h.ceil_div(&twelve).scale(12));
        let cut = h.clone() - h.modulo(&twelve);
        assert_eq!(cut.simplify(&ranges), h.floor_div(&twelve).scale(12));
        let told = (IndexExpr::constant(12) - h.modulo(&twelve)).modulo(&twelve);
        assert_eq!(told.simplify(&ranges), h.scale(-1).modulo(&twelve));
        assert_eq!((h.clone() + told).simplify(&ranges), h.ceil_div(&twelve).scale(12));
        // A coordinate that is split twice joins again.
        let row = h.modulo(&IndexExpr::constant(24));
        let split = row.floor_div(&twelve).scale(12) + row.modulo(&twelve);
        ranges.set_var(VarId(0), Interval { min: Some(0), max: None });
        assert_eq!(split.simplify(&ranges), row);
        // Something else is left as it is.
        let other = h.clone() + h.scale(-5).modulo(&twelve);
        assert_eq!(other.simplify(&ranges), other);
    }

    #[test]
    fn a_split_coordinate_joins_again() {
        let x = IndexExpr::var(VarId(0));
        let n = IndexExpr::constant(7);
        let e = x.floor_div(&n).scale(7 * 64) + x.modulo(&n).scale(64) + 5;
        assert_eq!(e.simplify(&Ranges::default()).to_string(), "64*i0 + 5");
        let n = IndexExpr::symbol(crate::entity::SymbolId(0));
        let e = x.floor_div(&n) * n.clone() * 3 + x.modulo(&n) * 3;
        assert_eq!(e.simplify(&Ranges::default()).to_string(), "3*i0");
    }
}
