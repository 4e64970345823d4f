//! Facts about dims that a model relies on: what is taken to be equal, and what is taken not to be negative.
//!
//! An equality is solved for one of its atoms where it can be, and that atom is then replaced wherever it occurs:
//! from `T = P + S` on, nothing mentions `T`. Facts are taken here, not proven; who takes one must see to it that it
//! is checked when the model runs ([`crate::graph::Assumption`]).

use super::{Atom, IndexExpr, Ranges, Term};
use crate::entity::SymbolId;
use std::collections::BTreeSet;

/// How often replacing may give rise to replacing; rules cannot go in circles, but dims are hostile input.
const MAX_ROUNDS: usize = 16;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What stands for an atom. No replacement has an atom in it that has a replacement.
    rules: Vec<(Atom, IndexExpr)>,
    /// Products of several atoms that are a number: as many patches as there are positions.
    products: Vec<(Vec<Atom>, i64)>,
    /// How many rules and products there have been.
    replaced: usize,
    /// Expressions that are 0, but cannot be solved for an atom or a product.
    zero: Vec<IndexExpr>,
    /// Expressions that are at least 0, with everything replaced that something stands for.
    not_negative: Vec<IndexExpr>,
    /// Symbols that are no sizes: where one is 0, that says nothing.
    numbers: BTreeSet<SymbolId>,
    /// Symbols whose values are known only while the model runs.
    late: BTreeSet<SymbolId>,
}

impl Facts {
    /// How many atoms and products something has been put in the place of; it only grows.
    #[must_use]
    pub fn replaced_atoms(&self) -> usize {
        self.replaced
    }

    /// What kinds of symbols there are, without anything that is taken to be.
    #[must_use]
    pub fn kinds_alone(&self) -> Self {
        Self { numbers: self.numbers.clone(), late: self.late.clone(), ..Self::default() }
    }

    /// Learns what kinds of symbols others know of, and nothing that they take to be.
    pub fn take_kinds_of(&mut self, others: &Self) {
        self.numbers.extend(&others.numbers);
        self.late.extend(&others.late);
    }

    /// Says that a symbol is no size but a number: an axis, a count.
    pub fn take_as_number(&mut self, symbol: SymbolId) {
        self.numbers.insert(symbol);
    }

    /// Says that the value of a symbol is known only while the model runs: it stands for no other, but others for it.
    pub fn take_as_late(&mut self, symbol: SymbolId) {
        self.late.insert(symbol);
    }

    /// True if an expression has symbols whose values are known only while the model runs.
    #[must_use]
    pub fn is_late(&self, e: &IndexExpr) -> bool {
        e.symbols().iter().any(|symbol| self.late.contains(symbol))
    }

    /// The expression with every atom and product replaced that something stands for.
    #[must_use]
    pub fn apply(&self, e: &IndexExpr) -> IndexExpr {
        let mut e = self.apply_to(e, &|_| true);
        if self.products.is_empty() {
            return e;
        }
        // Of a quotient, only a product within it may have been replaced.
        for _ in 0..MAX_ROUNDS {
            let replaced = self.with_products(&e);
            if replaced == e {
                break;
            }
            e = self.apply_to(&replaced, &|_| true);
        }
        e
    }

    /// The expression with every product replaced that is a number, in what is divided, too.
    fn with_products(&self, e: &IndexExpr) -> IndexExpr {
        let within = e.substitute(&|atom| {
            let both = |p: &(IndexExpr, IndexExpr)| (self.with_products(&p.0), self.with_products(&p.1));
            let is_divisor = |e: &IndexExpr| e.as_const().is_none_or(|divisor| divisor > 0);
            match atom {
                Atom::FloorDiv(p) => Some(both(p)).filter(|(_, b)| is_divisor(b)).map(|(a, b)| a.floor_div(&b)),
                Atom::Mod(p) => Some(both(p)).filter(|(_, b)| is_divisor(b)).map(|(a, b)| a.modulo(&b)),
                Atom::Min(p) => Some(both(p)).map(|(a, b)| a.minimum(&b)),
                Atom::Max(p) => Some(both(p)).map(|(a, b)| a.maximum(&b)),
                Atom::Symbol(_) | Atom::Var(_) => None,
            }
        });
        let mut constant = within.constant_part();
        let mut terms = Vec::with_capacity(within.terms().len());
        for term in within.terms() {
            let Term { mut atoms, mut coefficient } = term.clone();
            for (product, number) in &self.products {
                while let Some(rest) = without(&atoms, product) {
                    (atoms, coefficient) = (rest, coefficient.saturating_mul(*number));
                }
            }
            if atoms.is_empty() {
                constant = constant.saturating_add(coefficient);
            } else {
                terms.push(Term { atoms, coefficient });
            }
        }
        IndexExpr::from_terms(terms, constant)
    }

    /// As [`Facts::apply`], but only symbols are replaced. What was taken of a larger expression before something was taken
    /// of the symbols in it shows there whether both can be.
    #[must_use]
    pub fn apply_to_symbols(&self, e: &IndexExpr) -> IndexExpr {
        self.apply_to(e, &|atom| matches!(atom, Atom::Symbol(_)))
    }

    /// The symbols that are taken to be a number.
    pub fn fixed_symbols(&self) -> impl Iterator<Item = (SymbolId, i64)> {
        self.rules.iter().filter_map(|(atom, by)| match atom {
            Atom::Symbol(symbol) => Some((*symbol, by.as_const()?)),
            _ => None,
        })
    }

    /// Symbols for which another one stands, with that one.
    pub fn same_symbols(&self) -> impl Iterator<Item = (SymbolId, SymbolId)> {
        self.rules.iter().filter_map(|(atom, by)| match atom {
            Atom::Symbol(symbol) => Some((*symbol, by.as_symbol()?)),
            _ => None,
        })
    }

    fn apply_to(&self, e: &IndexExpr, admits: &dyn Fn(&Atom) -> bool) -> IndexExpr {
        let mut e = e.clone();
        for _ in 0..MAX_ROUNDS {
            let mut replaced = false;
            for (atom, by) in self.rules.iter().filter(|(atom, _)| admits(atom)) {
                if e.contains(atom) {
                    e = e.replace(atom, by);
                    replaced = true;
                }
            }
            if !replaced {
                break;
            }
        }
        e
    }

    /// Takes it that two expressions are equal.
    pub fn take_equal(&mut self, left: &IndexExpr, right: &IndexExpr, ranges: &Ranges) {
        let difference = self.primitive(&self.apply(&(left.clone() - right.clone())));
        if difference.is_const(0) {
            return;
        }
        match solve(&difference, ranges, &self.late) {
            Some((atom, by)) => {
                for (_, known) in &mut self.rules {
                    *known = known.replace(&atom, &by);
                }
                self.rules.push((atom, by));
                self.replaced += 1;
                let is_new = |e: &IndexExpr| self.rules.last().is_some_and(|(atom, _)| e.contains(atom));
                let not_negative = self.not_negative.iter().map(|e| if is_new(e) { self.apply(e) } else { e.clone() });
                self.not_negative = not_negative.collect();
                self.take_products_anew(ranges);
            }
            None => match number_of_product(&difference) {
                Some(product) => {
                    self.products.push(product);
                    self.replaced += 1;
                    self.not_negative = self.not_negative.iter().map(|e| self.apply(e)).collect();
                }
                None => self.zero.push(difference),
            },
        }
    }

    /// Says again of products what their number is, as something stands for one of their atoms now.
    fn take_products_anew(&mut self, ranges: &Ranges) {
        let Some((atom, _)) = self.rules.last().cloned() else { return };
        let product = |atoms: &[Atom]| IndexExpr::from_terms(vec![Term { atoms: atoms.to_vec(), coefficient: 1 }], 0);
        let is_other = |(atoms, _): &(Vec<Atom>, i64)| product(atoms).contains(&atom);
        let (anew, kept) = std::mem::take(&mut self.products).into_iter().partition::<Vec<_>, _>(is_other);
        self.products = kept;
        for (atoms, number) in anew {
            self.take_equal(&product(&atoms), &IndexExpr::constant(number), ranges);
        }
    }

    /// Takes it that `least ≤ e`.
    pub fn take_at_least(&mut self, e: &IndexExpr, least: &IndexExpr) {
        self.not_negative.push(self.apply(&(e.clone() - least.clone())));
    }

    /// True if two expressions are known to be equal by these facts.
    #[must_use]
    pub fn equal(&self, left: &IndexExpr, right: &IndexExpr) -> bool {
        let difference = self.primitive(&self.apply(&(left.clone() - right.clone())));
        difference.is_const(0) || self.zero.iter().any(|z| self.primitive(&self.apply(z)) == difference)
    }

    /// True if `least ≤ e` is known by these facts.
    #[must_use]
    pub fn at_least(&self, e: &IndexExpr, least: &IndexExpr) -> bool {
        let difference = self.apply(&(e.clone() - least.clone()));
        self.not_negative.iter().any(|known| (difference.clone() - known.clone()).as_const().is_some_and(|d| d >= 0))
    }

    /// The ranges, with what is taken not to be negative.
    #[must_use]
    pub fn narrowed(&self, mut ranges: Ranges) -> Ranges {
        self.not_negative.iter().for_each(|e| ranges.set_not_negative(e));
        ranges
    }

    /// What is 0 if `e` is, without the symbols that all terms share (sizes, which make everything empty where they are 0)
    /// and the number that divides all of them, and with the sign of the first term positive.
    fn primitive(&self, e: &IndexExpr) -> IndexExpr {
        let Some(first) = e.terms().first() else { return e.clone() };
        let mut shared = if e.constant_part() == 0 { first.atoms.clone() } else { Vec::new() };
        shared.retain(|atom| matches!(atom, Atom::Symbol(symbol) if !self.numbers.contains(symbol)));
        let mut divisor = e.constant_part().unsigned_abs();
        for term in e.terms() {
            divisor = gcd(divisor, term.coefficient.unsigned_abs());
            let mut rest = term.atoms.clone();
            shared.retain(|atom| match rest.iter().position(|a| a == atom) {
                Some(at) => {
                    rest.remove(at);
                    true
                }
                None => false,
            });
        }
        // That one product is 0 is all that there is to say; without its sizes nothing would be left of it.
        if e.terms().len() == 1 && e.constant_part() == 0 {
            shared.clear();
        }
        let Ok(divisor) = i64::try_from(divisor.max(1)) else { return e.clone() };
        let sign = first.coefficient.signum() * divisor;
        let mut constant = e.constant_part() / sign;
        let mut terms = Vec::new();
        for term in e.terms() {
            let mut atoms = term.atoms.clone();
            for atom in &shared {
                if let Some(at) = atoms.iter().position(|a| a == atom) {
                    atoms.remove(at);
                }
            }
            let coefficient = term.coefficient / sign;
            if atoms.is_empty() {
                constant = constant.saturating_add(coefficient);
            } else {
                terms.push(Term { atoms, coefficient });
            }
        }
        IndexExpr::from_terms(terms, constant)
    }
}

/// The product of several atoms that has to be a number for `e` to be 0, if that is all that `e` says.
fn number_of_product(e: &IndexExpr) -> Option<(Vec<Atom>, i64)> {
    let [term] = e.terms() else { return None };
    let is_product = term.atoms.len() > 1 && !term.atoms.iter().any(|atom| matches!(atom, Atom::Var(_)));
    let number = e.constant_part().checked_neg()?;
    (is_product && number.checked_rem(term.coefficient)? == 0)
        .then(|| (term.atoms.clone(), number / term.coefficient))
        .filter(|(_, number)| *number > 0)
}

/// The atoms without those of a product; both are sorted. `None` if they are not all among them.
fn without(atoms: &[Atom], product: &[Atom]) -> Option<Vec<Atom>> {
    let mut rest = atoms.to_vec();
    for atom in product {
        rest.remove(rest.iter().position(|a| a == atom)?);
    }
    Some(rest)
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Solves `e = 0` for the atom whose replacement reads best: a symbol that is a sum of sizes, then an atom that is
/// not a symbol, then any symbol.
/// What is known when the model begins never stands for less: a symbol that is late has to be later than all in its place.
fn solve(e: &IndexExpr, ranges: &Ranges, late: &BTreeSet<SymbolId>) -> Option<(Atom, IndexExpr)> {
    let latest = |e: &IndexExpr| e.symbols().iter().filter(|s| late.contains(s)).max().copied();
    let solutions = e.terms().iter().filter_map(|term| {
        let [atom] = &term.atoms[..] else { return None };
        let rest = e.clone() - IndexExpr::from_terms(vec![term.clone()], 0);
        if rest.contains(atom) || !rest.divisible_by(term.coefficient.saturating_abs()) {
            return None;
        }
        let by = rest.divided_by(term.coefficient).scale(-1);
        if latest(&by) > latest(&IndexExpr::atom(atom.clone())) {
            return None;
        }
        let sum = by.constant_part() >= 0 && by.terms().iter().all(|t| t.coefficient > 0);
        // A symbol must stay within its range, whatever stands for it.
        let possible = ranges.eq(&IndexExpr::atom(atom.clone()), &by) != super::Proof::No;
        let rank = match (atom, sum) {
            (Atom::Symbol(_), true) => 0,
            (Atom::Symbol(_), false) => 2,
            (Atom::Var(_), _) => return None,
            _ => 1,
        };
        possible.then(|| (rank, atom.clone(), by))
    });
    solutions.min_by_key(|(rank, _, by)| (*rank, by.terms().len())).map(|(_, atom, by)| (atom, by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::SymbolId;
    use crate::index::Interval;
    use crate::symbol::{Symbol, Symbols};

    fn symbols() -> [IndexExpr; 3] {
        [0, 1, 2].map(|n| IndexExpr::symbol(SymbolId(n)))
    }

    #[test]
    fn a_sum_stands_for_a_symbol() {
        let [past, total, new] = symbols();
        let mut facts = Facts::default();
        facts.take_equal(&(past.clone() + new.clone()), &total, &Ranges::default());
        assert_eq!(facts.apply(&(total.clone() * 3 + 1)), (past.clone() + new.clone()) * 3 + 1);
        assert_eq!(facts.apply(&total.floor_div(&IndexExpr::constant(2))).to_string(), "div($0 + $2, 2)");
        assert!(facts.equal(&(total - past), &new));
    }

    #[test]
    fn factors_that_both_sides_share_do_not_matter() {
        let [n, w, h] = symbols();
        let height = (h + 1).floor_div(&IndexExpr::constant(2));
        let mut facts = Facts::default();
        facts.take_equal(&(n.clone() * height.clone() * w.clone() * 120), &(n * w * 120), &Ranges::default());
        assert_eq!(facts.apply(&height), IndexExpr::constant(1));
    }

    #[test]
    fn a_size_may_be_none() {
        let [n, m, _] = symbols();
        let mut facts = Facts::default();
        facts.take_equal(&IndexExpr::constant(0), &(n.clone() * 3), &Ranges::default());
        assert_eq!(facts.apply(&(n.clone() + 1)), IndexExpr::constant(1));
        assert!(!facts.equal(&m, &IndexExpr::constant(0)));
        // Of a product nobody knows which.
        let mut facts = Facts::default();
        facts.take_equal(&(n.clone() * m.clone()), &IndexExpr::constant(0), &Ranges::default());
        assert!(facts.equal(&(n.clone() * m.clone() * 2), &IndexExpr::constant(0)));
        assert!(!facts.equal(&n, &IndexExpr::constant(0)) && !facts.equal(&m, &IndexExpr::constant(0)));
    }

    #[test]
    fn numbers_may_be_zero_where_sizes_are_not() {
        // p·(1 − p) = 0 says p = 1 of a size, and nothing that can be solved of an axis.
        let [p, _, _] = symbols();
        let (left, right) = (p.clone() * p.clone() * 4, p.clone() * 4);
        let mut facts = Facts::default();
        facts.take_equal(&left, &right, &Ranges::default());
        assert_eq!(facts.apply(&p), IndexExpr::constant(1));
        let mut facts = Facts::default();
        facts.take_as_number(SymbolId(0));
        facts.take_equal(&left, &right, &Ranges::default());
        assert_eq!(facts.apply(&p), p);
        assert!(facts.equal(&left, &right));
    }

    #[test]
    fn what_is_known_early_stands_for_what_is_known_late() {
        let [early, first, second] = symbols();
        let mut facts = Facts::default();
        facts.take_as_late(SymbolId(1));
        facts.take_as_late(SymbolId(2));
        facts.take_equal(&early, &first, &Ranges::default());
        assert_eq!(facts.apply(&first), early);
        facts.take_equal(&(early.clone() * 2), &(second.clone() + 1), &Ranges::default());
        assert_eq!(facts.apply(&second), early * 2 - 1);
        let mut facts = Facts::default();
        facts.take_as_late(SymbolId(1));
        facts.take_equal(&(first.clone() * 2), &second, &Ranges::default());
        assert_eq!(facts.apply(&second), second);
    }

    #[test]
    fn replacements_follow_each_other() {
        let [a, b, c] = symbols();
        let mut facts = Facts::default();
        facts.take_equal(&a, &(b.clone() + 1), &Ranges::default());
        facts.take_equal(&b, &(c.clone() + 1), &Ranges::default());
        assert_eq!(facts.apply(&a), c.clone() + 2);
        assert!(facts.equal(&(a + b), &(c * 2 + 3)));
    }

    #[test]
    fn a_number_stands_for_a_product() {
        let [height, width, n] = symbols();
        let of = |e: &IndexExpr, by: i64| e.floor_div(&IndexExpr::constant(by));
        let patches = of(&height, 4) * of(&width, 4);
        let mut facts = Facts::default();
        facts.take_equal(&(patches.clone() * n.clone()), &(n.clone() * 3136), &Ranges::default());
        assert_eq!(facts.replaced_atoms(), 1);
        assert_eq!(facts.apply(&(patches.clone() * n.clone() * 2 + 1)), n.clone() * 6272 + 1);
        assert_eq!(facts.apply(&of(&(patches.clone() + 4), 64)), IndexExpr::constant(49));
        // One of them alone may be anything.
        assert_eq!(facts.apply(&of(&height, 4)), of(&height, 4));
        facts.take_equal(&(of(&height, 8) * of(&width, 8) * 4), &patches, &Ranges::default());
        assert_eq!(facts.apply(&(of(&height, 8) * of(&width, 8))), IndexExpr::constant(784));
        // With one of the atoms known, the other one is.
        facts.take_equal(&of(&height, 4), &IndexExpr::constant(56), &Ranges::default());
        assert_eq!(facts.apply(&of(&width, 4)), IndexExpr::constant(56));
    }

    #[test]
    fn what_cannot_be_solved_is_remembered() {
        let [a, b, c] = symbols();
        let mut facts = Facts::default();
        facts.take_equal(&(a.clone() * b.clone()), &(c.clone() * c.clone()), &Ranges::default());
        assert!(facts.equal(&(c.clone() * c.clone() * 4), &(a.clone() * b.clone() * 4)));
        assert!(!facts.equal(&(a.clone() * b), &(a * c)));
    }

    #[test]
    fn bounds_of_symbols_narrow_their_ranges() {
        let [a, b, c] = symbols();
        let mut facts = Facts::default();
        facts.take_at_least(&IndexExpr::constant(7), &(a.clone() * 2));
        facts.take_at_least(&(b.clone() * 3), &IndexExpr::constant(7));
        facts.take_at_least(&(a.clone() + b.clone()), &IndexExpr::constant(50));
        let mut known = Symbols::default();
        for name in ["a", "b", "c"] {
            known.push(Symbol { name: name.to_owned(), min: 0, max: Some(100) });
        }
        let ranges = facts.narrowed(Ranges::of_symbols(&known));
        let found = [&a, &b, &c].map(|e| ranges.interval(e));
        assert_eq!(found, [Interval::new(0, 3), Interval::new(3, 100), Interval::new(0, 100)]);
    }

    /// What is cut out of `n` elements: the last one, the last but one, the second one.
    #[test]
    fn differences_are_no_larger_than_what_they_are_of() {
        let [n, m, _] = symbols();
        let mut known = Symbols::default();
        for name in ["n", "m"] {
            known.push(Symbol { name: name.to_owned(), min: 0, max: None });
        }
        let ranges = Ranges::of_symbols(&known);
        let zero = IndexExpr::constant(0);
        let last = n.clone() - zero.maximum(&(n.clone() - 1));
        let last_but_one = zero.maximum(&(n.clone() - 1)) - zero.maximum(&(n.clone() - 2));
        let second = n.minimum(&2.into()) - n.minimum(&1.into());
        for one in [last.clone(), last_but_one, second] {
            assert_eq!(ranges.interval_of_difference(&one), Interval::new(0, 1), "{one}");
        }
        assert_eq!(ranges.interval_of_difference(&(last + m.clone())), Interval { min: Some(0), max: None });
        let rest = n.clone() - n.minimum(&m);
        assert_eq!(ranges.interval_of_difference(&rest), Interval { min: Some(0), max: None });
        assert_eq!(ranges.interval_of_difference(&(n.minimum(&3.into()) - m)), Interval { min: None, max: Some(3) });
        // A sum of many is looked into only so far.
        let many =
            (1..=60).fold(zero, |sum, k| sum + n.minimum(&k.into()).maximum(&(n.scale(2) - k)).scale(1 - k % 2 * 2));
        assert_eq!(ranges.interval_of_difference(&many).min, ranges.interval(&many).min);
    }

    #[test]
    fn lower_bounds_are_kept_by_difference() {
        let [a, b, _] = symbols();
        let mut facts = Facts::default();
        facts.take_at_least(&(a.clone() - b.clone()), &IndexExpr::constant(1));
        assert!(facts.at_least(&(a.clone() - b.clone() + 1), &IndexExpr::constant(2)));
        assert!(!facts.at_least(&(a - b), &IndexExpr::constant(2)));
    }
}
