//! Proofs that numbers are too coarse for: of variables that stay below sizes which nobody knows yet.
//!
//! `0 ≤ H − h` does not follow from the intervals of `h` and `H`, but from `h ≤ H − 1`, which is what the loop says.

use super::{Atom, Dim, IndexExpr, Interval, Ranges, Term};
use crate::access::Bound;
use crate::entity::VarId;

/// Expressions that a proof may look at. Those of loops take less than ten.
const MOST_STEPS: usize = 32;

/// Coefficients and constants beyond this size end a proof, long before arithmetic saturates.
const LARGEST: u64 = 1 << 40;

impl Ranges {
    /// Says that a variable never exceeds an expression, over symbols and variables of loops around its own.
    pub fn set_upper(&mut self, var: VarId, upper: IndexExpr) {
        self.uppers.retain(|(known, _)| *known != var);
        self.uppers.push((var, upper));
    }

    /// Says that a variable goes along an axis: from 0 to the last point of its extent.
    pub fn set_axis(&mut self, var: VarId, extent: &Dim) {
        let max = self.interval(extent).max.map(|m| m.saturating_sub(1));
        self.set_var(var, Interval { min: Some(0), max });
        self.uppers.retain(|(known, _)| *known != var);
        if extent.as_const().is_none() {
            self.set_upper(var, extent.clone() - 1);
        }
    }

    /// What is known where some conditions hold as well.
    #[must_use]
    pub fn given(&self, conditions: &[Bound]) -> Self {
        let mut ranges = self.clone();
        for Bound { expr, lo, hi } in conditions {
            ranges.not_negative.push(expr.clone() - lo.clone());
            ranges.not_negative.push(hi.clone() - expr.clone() - 1);
        }
        ranges
    }

    /// A number that an expression is never less than, as large as can be shown; `None` if nothing can.
    #[must_use]
    pub fn least(&self, e: &IndexExpr) -> Option<i64> {
        self.least_of(e, i64::MAX)
    }

    /// As [`Ranges::least`]; what is `enough` need not be larger.
    pub(super) fn least_of(&self, e: &IndexExpr, enough: i64) -> Option<i64> {
        let known = self.interval(e).min;
        // Without variables and divisions there is nothing to put in.
        let composite = e.terms().iter().flat_map(|t| &t.atoms).any(|a| !matches!(a, Atom::Symbol(_)));
        if known.is_some_and(|min| min >= enough) || !composite {
            return known;
        }
        // A variable that has a value is of a loop with turns.
        let exists = |var: VarId| e.uses_var(var) && self.var(var).min.is_some_and(|min| min >= 0);
        let of_loops = self.uppers.iter().filter(|(var, _)| exists(*var));
        let sizes = of_loops.map(|(_, upper)| upper.clone() + 1).filter(|size| size.constant_part() != 0).collect();
        self.show(e, enough, &mut Search { steps: MOST_STEPS, sizes })
    }

    /// What can be shown of an expression by others that are never larger, or that are equal and have fewer parts.
    fn show(&self, e: &IndexExpr, enough: i64, search: &mut Search) -> Option<i64> {
        let known = self.interval(e).min;
        let too_large = |n: i64| n.unsigned_abs() > LARGEST;
        if known.is_some_and(|min| min >= enough)
            || search.steps == 0
            || too_large(e.constant_part())
            || e.terms().iter().any(|t| too_large(t.coefficient))
        {
            return known;
        }
        search.steps -= 1;
        for condition in &self.not_negative {
            let without = e.clone() - condition.clone();
            if without.terms().len() < e.terms().len() {
                let shown = self.show(&without, enough, search);
                if shown.is_some_and(|min| min >= enough) {
                    return shown;
                }
            }
        }
        // A condition on a coordinate counts for whole rows of it.
        let factored = || e.terms().iter().filter(|_| !self.not_negative.is_empty());
        if let Some(shown) = factored().find_map(|term| self.show_by_factor(e, term, enough, search)).flatten()
            && shown >= enough
        {
            return Some(shown);
        }
        // Variables of inner loops first, since their bounds have those of outer ones in them.
        let lower = self.uppers.iter().rev().find_map(|(var, upper)| self.with_upper(e, *var, upper, search));
        let shown = match lower {
            Some(lower) => self.show(&lower, enough, search),
            None => {
                // What makes it less comes first: the others may do as they are.
                let (less, more): (Vec<_>, Vec<_>) = e.terms().iter().partition(|term| term.coefficient < 0);
                less.into_iter().chain(more).find_map(|term| self.show_by_parts(e, term, enough, search)).flatten()
            }
        };
        known.max(shown)
    }

    /// `e` with the greatest value in the place of a variable, or the least, where that makes nothing larger.
    fn with_upper(&self, e: &IndexExpr, var: VarId, upper: &IndexExpr, search: &Search) -> Option<IndexExpr> {
        // Rows as long as an axis: that these are no less than 0 shows as a whole, not in each term.
        if !search.sizes.is_empty()
            && let Some((row, rest)) = e.linear_in(var)
        {
            if search.sizes.contains(&row) && self.var(var).min.is_some_and(|min| min >= 0) {
                return Some(rest);
            }
            if search.sizes.contains(&(IndexExpr::constant(0) - row.clone())) {
                return Some(rest + row * upper.clone());
            }
        }
        let term = e.terms().iter().find(|t| t.coefficient < 0 && t.atoms.contains(&Atom::Var(var)))?;
        let at = term.atoms.iter().position(|a| *a == Atom::Var(var))?;
        let others: IndexExpr =
            term.atoms.iter().enumerate().filter(|&(n, _)| n != at).map(|(_, a)| IndexExpr::atom(a.clone())).product();
        let others_min = self.interval(&others).min?;
        let factor = others.scale(term.coefficient);
        (others_min >= 0).then(|| e.clone() - factor.clone() * IndexExpr::var(var) + factor * upper.clone())
    }

    /// Takes a division, a remainder or an extremum apart that stands alone in a term, or a factor out; `None` if there is
    /// nothing of that kind in it.
    fn show_by_parts(&self, e: &IndexExpr, term: &Term, enough: i64, search: &mut Search) -> Option<Option<i64>> {
        let [atom] = &term.atoms[..] else { return self.show_by_factor(e, term, enough, search) };
        let factor = term.coefficient;
        let rest = e.clone() - IndexExpr::atom(atom.clone()).scale(factor);
        match atom {
            Atom::Symbol(_) | Atom::Var(_) => None,
            // What is left over is less than the divisor.
            Atom::Mod(pair) => (factor < 0 && pair.1.as_const().is_none() && self.is_positive(&pair.1, &pair.0))
                .then(|| self.show(&(rest + (pair.1.clone() - 1).scale(factor)), enough, search)),
            Atom::FloorDiv(pair) => {
                let Some(divisor) = pair.1.as_const() else {
                    let bound = match factor {
                        ..0 => self.most_quotient(pair, search)?,
                        _ if self.interval(&pair.0).min? >= 0 && self.is_positive(&pair.1, &pair.0) => 0.into(),
                        _ => return None,
                    };
                    return Some(self.show(&(rest + bound.scale(factor)), enough, search));
                };
                // d·(x div d) = x − x mod d.
                let divisor = Some(divisor).filter(|d| (1..1 << 20).contains(d))?;
                let whole = pair.0.clone() - pair.0.modulo(&pair.1);
                let scaled = rest.scale(divisor) + whole.scale(factor);
                let shown = self.show(&scaled, enough.saturating_mul(divisor), search);
                // What d·e is no less than, e is no less than by a d-th, rounded up.
                Some(shown.map(|min| min.div_euclid(divisor) + i64::from(min.rem_euclid(divisor) != 0)))
            }
            Atom::Min(pair) | Atom::Max(pair) => {
                let first = self.show(&(rest.clone() + pair.0.scale(factor)), enough, search);
                let either_will_do = matches!(atom, Atom::Min(_)) == (factor < 0);
                let settled = if either_will_do { first.is_some_and(|min| min >= enough) } else { first.is_none() };
                if settled {
                    return Some(first);
                }
                let second = self.show(&(rest + pair.1.scale(factor)), enough, search);
                Some(if either_will_do { first.max(second) } else { first.zip(second).map(|(a, b)| a.min(b)) })
            }
        }
    }

    /// Of what has a factor in common with a negative term, the rest of the product: `f·a + b` is no less than `b` where neither
    /// `f` nor `a` is negative.
    fn show_by_factor(&self, e: &IndexExpr, term: &Term, enough: i64, search: &mut Search) -> Option<Option<i64>> {
        if term.coefficient > 0 {
            return None;
        }
        term.atoms.iter().find_map(|factor| {
            let atom = IndexExpr::atom(factor.clone());
            if self.interval(&atom).min.is_none_or(|min| min < 0) {
                return None;
            }
            let with: Vec<Term> = e.terms().iter().filter(|t| t.atoms.contains(factor)).cloned().collect();
            if with.len() < 2 {
                return None;
            }
            let product = IndexExpr::from_terms(with, 0);
            let other = product.divide_by_monomial(&atom)?;
            let shown = self.show(&other, 0, search)?;
            (shown >= 0).then(|| self.show(&(e.clone() - product), enough, search))
        })
    }

    /// What a quotient by a size never exceeds: where it is of variables that together go through so many times the size.
    fn most_quotient(&self, (point, size): &(IndexExpr, IndexExpr), search: &mut Search) -> Option<IndexExpr> {
        if !self.is_positive(size, point) {
            return None;
        }
        let whole = self.turns_of(point).into_iter().find_map(|turns| {
            let (step, _) = point.linear_in(turns.var)?;
            let points = step.as_const().filter(|step| step % turns.tiles == 0)? / turns.tiles;
            turns.product.scale(points).divide_by_monomial(size)
        })?;
        let left = whole.clone() * size.clone() - 1 - point.clone();
        self.show(&left, 0, search).is_some_and(|min| min >= 0).then(|| whole - 1)
    }

    /// Whether a size is at least 1: by its interval, or since variables of loops that an expression has would not exist otherwise.
    fn is_positive(&self, size: &IndexExpr, of: &IndexExpr) -> bool {
        if self.interval(size).min.is_some_and(|min| min >= 1) {
            return true;
        }
        let ([Term { atoms, coefficient: 1.. }], 0) = (size.terms(), size.constant_part()) else { return false };
        let factors = IndexExpr::from_terms(vec![Term { atoms: atoms.clone(), coefficient: 1 }], 0);
        self.turns_of(of).iter().any(|turns| turns.product.divide_by_monomial(&factors).is_some())
    }

    /// Products of sizes, none of which is 0 as there are variables of loops in an expression: numbers of turns, and what these
    /// are parts of.
    fn turns_of(&self, e: &IndexExpr) -> Vec<Turns> {
        let at_least = |e: &IndexExpr, least: i64| self.interval(e).min.is_some_and(|min| min >= least);
        let is_product = |e: &IndexExpr| {
            let size = |atom: &Atom| at_least(&IndexExpr::atom(atom.clone()), 0);
            matches!(e.terms(), [term] if term.coefficient > 0 && term.atoms.iter().all(size)) && e.constant_part() == 0
        };
        let mut found = Vec::new();
        for &(var, ref upper) in &self.uppers {
            if !e.uses_var(var) || !at_least(&IndexExpr::var(var), 0) {
                continue;
            }
            let (mut product, mut tiles) = (upper.clone() + 1, 1i64);
            while is_product(&product) {
                found.push(Turns { var, product: product.clone(), tiles });
                // A part of a number that is not negative is at least 1 only if the number is.
                let [Term { atoms, coefficient: 1 }] = product.terms() else { break };
                let ([Atom::FloorDiv(pair)] | [Atom::Mod(pair)]) = &atoms[..] else { break };
                let Some(divisor) = pair.1.as_const().filter(|d| (1..1 << 20).contains(d)) else { break };
                if matches!(atoms[0], Atom::FloorDiv(_)) {
                    tiles = tiles.saturating_mul(divisor);
                }
                product = pair.0.clone();
            }
        }
        found
    }
}

/// What is left to a proof, and what it may rely on.
struct Search {
    /// Expressions that it may still look at.
    steps: usize,
    /// Sums that are numbers of turns of loops, and at least 1 as there are variables of these.
    sizes: Vec<IndexExpr>,
}

/// What a loop's number of turns is, or is a part of.
struct Turns {
    var: VarId,
    /// Of sizes, each of which is at least 1 where the variable has a value.
    product: IndexExpr,
    /// By how much it was divided to be a number of turns; remainders are not counted.
    tiles: i64,
}

#[cfg(test)]
mod tests {
    use super::super::Proof;
    use super::*;
    use crate::entity::{EntityId, SymbolId};

    const SIZE: SymbolId = SymbolId(0);

    fn var(n: usize) -> IndexExpr {
        IndexExpr::var(VarId::from_index(n))
    }

    /// Variables of loops, by their numbers of turns.
    fn loops(turns: &[IndexExpr]) -> Ranges {
        let mut ranges = Ranges::default();
        for (n, turns) in turns.iter().enumerate() {
            ranges.set_axis(VarId::from_index(n), turns);
        }
        ranges
    }

    #[test]
    fn a_window_of_three_stays_within_a_halo_of_one() {
        let size = IndexExpr::symbol(SIZE);
        let ranges = loops(&[size.clone(), 3.into()]);
        let index = var(0) + var(1) - 1;
        assert_eq!(ranges.lt(&index, &(size.clone() + 1)), Proof::Yes);
        assert_eq!(ranges.lt(&index, &size), Proof::Unknown);
    }

    /// Six points a turn, then four, two and one, as tiles leave them over; with a window of three around each.
    #[test]
    fn tiles_and_what_they_leave_over_stay_below_the_size() {
        let size = IndexExpr::symbol(SIZE);
        let (mut base, mut left) = (IndexExpr::constant(0), size.clone());
        for step in [6, 4, 2, 1] {
            let turns = left.floor_div(&step.into());
            let mut ranges = loops(&[turns.clone(), step.into(), 3.into()]);
            // A single turn is not known to be there.
            ranges.set_var(VarId(0), Interval { min: Some(0), max: None });
            let index = base.clone() + var(0).scale(step) + var(1) + var(2) - 1;
            assert_eq!(ranges.lt(&index, &(size.clone() + 1)), Proof::Yes, "{step}");
            assert_eq!(ranges.lt(&index, &size), Proof::Unknown, "{step}");
            base = base + turns.scale(step);
            left = left.modulo(&step.into());
        }
    }

    #[test]
    fn strides_halve_what_they_read() {
        let size = IndexExpr::symbol(SIZE);
        let ranges = loops(&[(size.clone() - 1).floor_div(&2.into()) + 1, 3.into()]);
        let index = var(0).scale(2) + var(1) - 1;
        assert_eq!(ranges.lt(&index, &(size.clone() + 1)), Proof::Yes);
        assert_eq!(ranges.lt(&index, &size), Proof::Unknown);
    }

    /// Of a vector's lanes those exist that a condition names, and what is read around them is within the halo.
    #[test]
    fn conditions_of_remainders_count() {
        let size = IndexExpr::symbol(SIZE);
        let lanes = IndexExpr::constant(16);
        let ranges = loops(&[size.ceil_div(&lanes), lanes.clone(), 3.into()]);
        let at = var(0).scale(16) + var(1);
        let index = at.clone() + var(2) - 1;
        assert_eq!(ranges.lt(&index, &(size.clone() + 1)), Proof::Unknown);
        let exists = Bound { expr: at, lo: 0.into(), hi: size.clone() };
        let given = ranges.given(&[exists]);
        assert_eq!(given.lt(&index, &(size.clone() + 1)), Proof::Yes);
        assert_eq!(given.lt(&index, &size), Proof::Unknown);
    }

    #[test]
    fn extrema_hold_for_one_or_for_both() {
        let size = IndexExpr::symbol(SIZE);
        let ranges = loops(std::slice::from_ref(&size));
        let room = size.clone() - 4;
        let inside = var(0).minimum(&room);
        assert_eq!(ranges.le(&inside, &room), Proof::Yes);
        assert_eq!(ranges.le(&inside, &(size.clone() - 1)), Proof::Yes);
        assert_eq!(ranges.le(&var(0).maximum(&room), &(size.clone() - 1)), Proof::Yes);
        assert_eq!(ranges.le(&var(0).maximum(&room), &room), Proof::Unknown);
    }

    /// What is shown is so: many expressions of some loops, at all points of these for many sizes.
    #[test]
    fn nothing_is_shown_that_does_not_hold() {
        let size = IndexExpr::symbol(SIZE);
        let turns = size.floor_div(&6.into());
        let ranges = loops(&[turns, 6.into()]);
        let parts = [
            size.clone(),
            size.floor_div(&4.into()),
            size.modulo(&5.into()),
            var(0).scale(6) + var(1),
            var(0),
            (var(0) + var(1)).floor_div(&3.into()),
            var(0).scale(6).minimum(&(size.clone() - 4)),
            var(0).maximum(&(size.clone() - 9)),
        ];
        let points: Vec<(i64, i64, i64)> =
            (0..40).flat_map(|n| (0..n / 6).flat_map(move |i| (0..6).map(move |j| (n, i, j)))).collect();
        let mut shown = 0;
        for (a, b) in parts.iter().flat_map(|a| parts.iter().map(move |b| (a, b))) {
            for (f, g) in [(1, -1), (2, -1), (1, -2), (-1, 1), (-3, 2), (4, -3)] {
                let e = a.scale(f) + b.scale(g) + 2;
                let Some(least) = ranges.least(&e) else { continue };
                shown += 1;
                for &(n, i, j) in &points {
                    let at = e.eval(&|_| Some(n), &|v: VarId| Some([i, j][v.index()]));
                    assert!(at.is_some_and(|at| at >= least), "{e} is {at:?} at {i}, {j} of {n}, not {least}");
                }
            }
        }
        assert!(shown > 100, "{shown}");
    }

    /// Rows and columns of an image whose size nobody knows, counted as one, eight points a turn and then four, two and one: what a
    /// window reads around them, with a stride or without, is within the halo, and not within less.
    #[test]
    fn joined_rows_and_columns_stay_below_their_sizes() {
        let (height, width) = (IndexExpr::symbol(SIZE), IndexExpr::symbol(SymbolId(1)));
        let doubled = [height.clone(), width.clone()].map(|size| size.scale(2));
        for (stride, [height, width]) in [(1, [height.clone(), width.clone()]), (2, [height, width]), (1, doubled)] {
            let size = |of: &IndexExpr| if stride == 1 { of.clone() } else { of.ceil_div(&2.into()) };
            let (rows, columns) = (size(&height), size(&width));
            let (mut base, mut left) = (IndexExpr::constant(0), rows.clone() * columns.clone());
            for step in [8, 4, 2, 1] {
                let turns = left.floor_div(&step.into());
                let mut ranges = loops(&[turns.clone(), step.into(), 3.into()]);
                ranges.set_var(VarId(0), Interval { min: Some(0), max: None });
                let point = base.clone() + var(0).scale(step) + var(1);
                let row = point.floor_div(&columns).scale(stride) + var(2) - 1;
                let column = point.modulo(&columns).scale(stride) + var(2) - 1;
                for (at, of) in [(&row, &height), (&column, &width)] {
                    assert_eq!(ranges.lt(at, &(of.clone() + 1)), Proof::Yes, "{at} of {of}, {step} at once");
                    assert_eq!(ranges.le(&(-1).into(), at), Proof::Yes, "{at}");
                    assert_eq!(ranges.lt(at, of), Proof::Unknown, "{at} of {of}");
                }
                base = base + turns.scale(step);
                left = left.modulo(&step.into());
            }
        }
    }

    /// A loop that is over tells nothing of what comes after it.
    #[test]
    fn only_variables_of_an_expression_make_its_divisors_positive() {
        let (height, width) = (IndexExpr::symbol(SIZE), IndexExpr::symbol(SymbolId(1)));
        let ranges = loops(&[height.clone() * width.clone(), 8.into()]);
        assert_eq!(ranges.lt(&var(0).modulo(&width), &width), Proof::Yes);
        assert_eq!(ranges.lt(&var(1).modulo(&width), &width), Proof::Unknown);
        assert_eq!(ranges.lt(&var(0).floor_div(&width), &height), Proof::Yes);
        assert_eq!(ranges.lt(&var(1).floor_div(&width), &height), Proof::Unknown);
    }

    /// As above, with quotients and remainders by sizes that may be 0.
    #[test]
    fn nothing_is_shown_of_divisions_by_sizes_that_does_not_hold() {
        let (height, width) = (IndexExpr::symbol(SIZE), IndexExpr::symbol(SymbolId(1)));
        let half = width.ceil_div(&2.into());
        let ranges = loops(&[(height.clone() * half.clone()).floor_div(&2.into()), 2.into()]);
        let point = var(0).scale(2) + var(1);
        let parts = [
            height.clone(),
            width.clone(),
            half.clone(),
            height.clone() * width.clone(),
            point.clone(),
            point.floor_div(&half),
            point.modulo(&half),
            point.floor_div(&width),
            point.modulo(&width),
            point.floor_div(&half) * width.clone(),
            point.modulo(&half) * height.clone(),
            (point.clone() + height.clone()).floor_div(&half),
            (width.clone() + 3).floor_div(&(height.clone() + 1)),
        ];
        let points: Vec<[i64; 4]> = (0..7)
            .flat_map(|h| (0..9).map(move |w| (h, w)))
            .flat_map(|(h, w)| (0..h * ((w + 1) / 2) / 2).flat_map(move |i| [[h, w, i, 0], [h, w, i, 1]]))
            .collect();
        let mut shown = 0;
        for (a, b) in parts.iter().flat_map(|a| parts.iter().map(move |b| (a, b))) {
            for (f, g) in [(1, -1), (2, -1), (1, -2), (-1, 1), (-3, 2), (4, -3)] {
                let e = a.scale(f) + b.scale(g) + 2;
                let Some(least) = ranges.least_of(&e, 0) else { continue };
                shown += 1;
                for &[h, w, i, j] in &points {
                    let at = e.eval(&|s: SymbolId| Some([h, w][s.index()]), &|v: VarId| Some([i, j][v.index()]));
                    assert!(at.is_some_and(|at| at >= least), "{e} is {at:?} at {i}, {j} of {h}x{w}, not {least}");
                }
            }
        }
        assert!(shown > 50, "{shown}");
    }

    /// Of rows and columns that a convolution without padding leaves, which may be none.
    #[test]
    fn nothing_is_shown_of_sizes_that_are_differences_that_does_not_hold() {
        let (height, width) = (IndexExpr::symbol(SIZE), IndexExpr::symbol(SymbolId(1)));
        let (rows, columns) = (height.clone() - 2, width.clone() - 2);
        let ranges = loops(&[rows.clone(), columns.clone()]);
        let flat = var(0) * columns.clone() + var(1);
        let parts = [
            rows.clone(),
            columns.clone(),
            rows.clone() * columns.clone(),
            height * width,
            var(0),
            var(1),
            flat.clone(),
            flat.floor_div(&columns),
            flat.modulo(&columns),
            (flat.clone() + 1).modulo(&columns),
            var(0) * columns,
            var(1) * rows,
        ];
        let points: Vec<[i64; 4]> = (0..6)
            .flat_map(|h| (0..6).map(move |w| (h, w)))
            .flat_map(|(h, w)| (0..h - 2).flat_map(move |i| (0..w - 2).map(move |j| [h, w, i, j])))
            .collect();
        let mut shown = 0;
        for (a, b) in parts.iter().flat_map(|a| parts.iter().map(move |b| (a, b))) {
            for (f, g) in [(1, -1), (2, -1), (1, -2), (-1, 1), (-3, 2), (4, -3)] {
                let e = a.scale(f) + b.scale(g) + 2;
                let Some(least) = ranges.least(&e) else { continue };
                shown += 1;
                for &[h, w, i, j] in &points {
                    let at = e.eval(&|s: SymbolId| Some([h, w][s.index()]), &|v: VarId| Some([i, j][v.index()]));
                    assert!(at.is_some_and(|at| at >= least), "{e} is {at:?} at {i}, {j} of {h}x{w}, not {least}");
                }
            }
        }
        assert!(shown > 50, "{shown}");
    }
}
