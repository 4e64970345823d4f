//! What is known of the values of variables and symbols, and interval arithmetic over it.

use super::{Atom, IndexExpr, Term};
use crate::entity::{EntityId, SymbolId, VarId};
use crate::symbol::Symbols;

/// All integers from `min` to `max`, both included; `None` is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interval {
    /// Least value.
    pub min: Option<i64>,
    /// Greatest value.
    pub max: Option<i64>,
}

/// How many minima and maxima within each other are looked into for what they share with the rest.
const NESTED: usize = 3;
/// Of how many in a sum; each asks for what the others are with its sides in its place.
const EXTREMES: usize = 4;

/// The lesser of two upper bounds, of which either may not be there.
fn least(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    [a, b].into_iter().flatten().min()
}

impl Interval {
    /// A single value.
    #[must_use]
    pub const fn point(value: i64) -> Self {
        Self { min: Some(value), max: Some(value) }
    }

    /// From `min` to `max`, both included.
    #[must_use]
    pub const fn new(min: i64, max: i64) -> Self {
        Self { min: Some(min), max: Some(max) }
    }

    fn add(self, other: Self) -> Self {
        let sum = |a: Option<i64>, b: Option<i64>| a?.checked_add(b?);
        Self { min: sum(self.min, other.min), max: sum(self.max, other.max) }
    }

    /// What is in both.
    fn meet(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: least(self.max, other.max) }
    }

    /// What the larger of two numbers is in.
    fn larger(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.zip(other.max).map(|(a, b)| a.max(b)) }
    }

    /// What the smaller of two numbers is in.
    fn smaller(self, other: Self) -> Self {
        Self { min: self.min.zip(other.min).map(|(a, b)| a.min(b)), max: least(self.max, other.max) }
    }

    fn scale(self, by: i64) -> Self {
        let times = |a: Option<i64>| a?.checked_mul(by);
        match by {
            0 => Self::point(0),
            1.. => Self { min: times(self.min), max: times(self.max) },
            _ => Self { min: times(self.max), max: times(self.min) },
        }
    }

    fn mul(self, other: Self) -> Self {
        // Sizes and coordinates are not negative in practice; other signs give up unless all ends are known.
        let (Some(a), Some(c)) = (self.min, other.min) else { return Self::default() };
        if a >= 0 && c >= 0 {
            let max = match (self.max, other.max) {
                (Some(b), Some(d)) => b.checked_mul(d),
                _ => None,
            };
            return Self { min: a.checked_mul(c), max };
        }
        let (Some(b), Some(d)) = (self.max, other.max) else { return Self::default() };
        let products: Option<Vec<i64>> =
            [(a, c), (a, d), (b, c), (b, d)].into_iter().map(|(x, y)| x.checked_mul(y)).collect();
        products.map_or_else(Self::default, |p| Self { min: p.iter().copied().min(), max: p.iter().copied().max() })
    }
}

/// The answer to a question about an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds for all values.
    Yes,
    /// It holds for no value.
    No,
    /// It cannot be decided.
    Unknown,
}

/// Ranges of symbols and variables.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    symbols: Vec<Interval>,
    vars: Vec<Interval>,
    /// The greatest values of variables, where these are no numbers; see [`Ranges::set_upper`].
    pub(super) uppers: Vec<(VarId, IndexExpr)>,
    /// What is not negative by conditions that hold.
    pub(super) not_negative: Vec<IndexExpr>,
}

impl Ranges {
    /// What the symbols say of themselves; nothing on variables.
    #[must_use]
    pub fn of_symbols(symbols: &Symbols) -> Self {
        let symbols = symbols.iter().map(|s| Interval { min: Some(s.min), max: s.max }).collect();
        Self { symbols, ..Self::default() }
    }

    /// Says that an expression is not negative. What that says of a symbol is kept if the expression is linear in it and has
    /// no other atoms.
    pub fn set_not_negative(&mut self, e: &IndexExpr) {
        let [term] = e.terms() else { return };
        let &[Atom::Symbol(symbol)] = &term.atoms[..] else { return };
        let Some(place) = self.symbols.get_mut(symbol.index()) else { return };
        // c·s + k ≥ 0: s is at least ⌈-k / c⌉ where c is positive, at most ⌊k / -c⌋ where it is negative.
        let (c, k) = (term.coefficient, e.constant_part());
        if c > 0 {
            let least = k.checked_div_euclid(c).and_then(i64::checked_neg);
            place.min = place.min.max(least);
        } else {
            let most = c.checked_neg().and_then(|c| k.checked_div_euclid(c));
            place.max = [place.max, most].into_iter().flatten().min();
        }
    }

    /// Says that a variable stays within an interval, replacing what was known of it.
    pub fn set_var(&mut self, var: VarId, interval: Interval) {
        if self.vars.len() <= var.index() {
            self.vars.resize(var.index() + 1, Interval::default());
        }
        self.vars[var.index()] = interval;
    }

    /// What is known of a variable.
    #[must_use]
    pub fn var(&self, var: VarId) -> Interval {
        self.vars.get(var.index()).copied().unwrap_or_default()
    }

    /// What is known of a symbol; at least that it is not negative.
    #[must_use]
    pub fn symbol(&self, symbol: SymbolId) -> Interval {
        self.symbols.get(symbol.index()).copied().unwrap_or(Interval { min: Some(0), max: None })
    }

    /// An interval that contains every value of the expression.
    #[must_use]
    pub fn interval(&self, expr: &IndexExpr) -> Interval {
        let mut sum = Interval::point(expr.constant_part());
        for term in expr.terms() {
            let mut product: Option<Interval> = None;
            for atom in &term.atoms {
                let a = self.atom(atom);
                product = Some(product.map_or(a, |p| p.mul(a)));
            }
            sum = sum.add(product.unwrap_or(Interval::point(1)).scale(term.coefficient));
        }
        sum
    }

    /// As [`Self::interval`], with what minima and maxima have in common with what they are added to: `N − max(0, N − 1)` is 0
    /// or 1, however large `N` is, and so is `min(2, N) − min(1, N)`.
    #[must_use]
    pub fn interval_of_difference(&self, expr: &IndexExpr) -> Interval {
        self.of_difference(expr, NESTED)
    }

    /// The same, as deep as that.
    fn of_difference(&self, expr: &IndexExpr, depth: usize) -> Interval {
        let Some(within) = depth.checked_sub(1) else { return self.interval(expr) };
        let extreme = |term: &Term| match (&term.atoms[..], term.coefficient) {
            ([atom @ (Atom::Min(_) | Atom::Max(_))], 1 | -1) => Some((atom.clone(), term.coefficient)),
            _ => None,
        };
        let extremes: Vec<(Atom, i64)> = expr.terms().iter().filter_map(extreme).take(EXTREMES).collect();
        let mut interval = self.interval(expr);
        for (atom, sign) in &extremes {
            let (Atom::Min(sides) | Atom::Max(sides)) = atom else { continue };
            let rest = expr.clone() - IndexExpr::atom(atom.clone()).scale(*sign);
            let [a, b] =
                [&sides.0, &sides.1].map(|side| self.of_difference(&(rest.clone() + side.scale(*sign)), within));
            // Of a negative sign the larger makes the sum the smaller.
            let is_larger = matches!(atom, Atom::Max(_)) == (*sign > 0);
            interval = interval.meet(if is_larger { a.larger(b) } else { a.smaller(b) });
            // Neither moves further than its sides do.
            for (other, _) in extremes.iter().filter(|(other, of_other)| (sign, *of_other) == (&1, -1) && other != atom)
            {
                let ((Atom::Min(first), Atom::Min(second)) | (Atom::Max(first), Atom::Max(second))) = (atom, other)
                else {
                    continue;
                };
                let by = [first.0.clone() - second.0.clone(), first.1.clone() - second.1.clone()];
                if let [Some(a), Some(b)] = by.map(|by| by.as_const()) {
                    let others = rest.clone() + IndexExpr::atom(other.clone());
                    interval =
                        interval.meet(self.of_difference(&others, within).add(Interval::new(a.min(b), a.max(b))));
                }
            }
        }
        interval
    }

    fn atom(&self, atom: &Atom) -> Interval {
        match atom {
            Atom::Symbol(s) => self.symbol(*s),
            Atom::Var(v) => self.var(*v),
            Atom::FloorDiv(p) => {
                let (a, b) = (self.interval(&p.0), self.interval(&p.1));
                match (b.min, b.max) {
                    (Some(d), Some(e)) if d == e && d > 0 => {
                        Interval { min: a.min.map(|x| x.div_euclid(d)), max: a.max.map(|x| x.div_euclid(d)) }
                    }
                    (Some(d), _) if d > 0 && a.min.is_some_and(|x| x >= 0) => {
                        Interval { min: Some(0), max: a.max.map(|x| x.div_euclid(d)) }
                    }
                    _ => Interval::default(),
                }
            }
            Atom::Mod(p) => {
                let (a, b) = (self.interval(&p.0), self.interval(&p.1));
                let below = b.max.map(|d| d - 1);
                match (a.min, a.max, b.min) {
                    (Some(lo), Some(hi), Some(d)) if lo >= 0 && hi < d => a,
                    (Some(lo), Some(hi), _) if lo >= 0 => {
                        Interval { min: Some(0), max: Some(below.map_or(hi, |x| x.min(hi))) }
                    }
                    _ => Interval { min: Some(0), max: below },
                }
            }
            Atom::Min(p) => {
                let lesser = self.interval(&p.0).smaller(self.interval(&p.1));
                // Of two numbers with a known sum, the lesser is at most half of it: what is mirrored stays inside.
                let half = (p.0.clone() + p.1.clone()).as_const().map(|sum| sum.div_euclid(2));
                Interval { max: least(lesser.max, half), ..lesser }
            }
            Atom::Max(p) => {
                let greater = self.interval(&p.0).larger(self.interval(&p.1));
                let half = (p.0.clone() + p.1.clone()).as_const().map(|sum| sum.div_euclid(2) + sum.rem_euclid(2));
                Interval { min: greater.min.max(half), ..greater }
            }
        }
    }

    /// Is `a ≤ b`?
    #[must_use]
    pub fn le(&self, a: &IndexExpr, b: &IndexExpr) -> Proof {
        let difference = b.clone() - a.clone();
        let interval = self.interval(&difference);
        match (interval.min, interval.max) {
            (Some(min), _) if min >= 0 => Proof::Yes,
            (_, Some(max)) if max < 0 => Proof::No,
            _ if self.least_of(&difference, 0).is_some_and(|min| min >= 0) => Proof::Yes,
            _ => Proof::Unknown,
        }
    }

    /// Is `a < b`?
    #[must_use]
    pub fn lt(&self, a: &IndexExpr, b: &IndexExpr) -> Proof {
        self.le(&(a.clone() + 1), b)
    }

    /// Is `a = b`?
    #[must_use]
    pub fn eq(&self, a: &IndexExpr, b: &IndexExpr) -> Proof {
        let difference = a.clone() - b.clone();
        if difference.is_const(0) {
            return Proof::Yes;
        }
        let interval = self.interval(&difference);
        match (interval.min, interval.max) {
            (Some(0), Some(0)) => Proof::Yes,
            (Some(min), _) if min > 0 => Proof::No,
            (_, Some(max)) if max < 0 => Proof::No,
            _ => Proof::Unknown,
        }
    }
}
