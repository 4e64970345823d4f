//! Integer expressions over symbols and index variables, in one canonical form.
//!
//! An [`IndexExpr`] is a polynomial with integer coefficients whose atoms are symbols, variables, and the
//! non-polynomial operations (floor division, modulo, minimum, maximum) of smaller expressions. It is canonical on
//! construction: terms are sorted and merged, so that equal polynomials are equal values and hash alike. What needs
//! facts about ranges (`(16·i + j) div 16 = i` for `0 ≤ j < 16`) is done by [`IndexExpr::simplify`].
//!
//! A *dim* is an index expression without variables.

mod display;
mod facts;
mod proof;
mod ranges;
mod simplify;

pub use facts::Facts;
pub use ranges::{Interval, Proof, Ranges};

use crate::entity::{SymbolId, VarId};
use crate::symbol::Symbols;
use std::sync::Arc;

/// A dimension: an index expression over symbols alone.
pub type Dim = IndexExpr;

/// The indivisible parts of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A symbolic dimension.
    Symbol(SymbolId),
    /// An index variable.
    Var(VarId),
    /// Division rounding to minus infinity; the divisor is positive.
    FloorDiv(Arc<(IndexExpr, IndexExpr)>),
    /// `a − b·(a floordiv b)`.
    Mod(Arc<(IndexExpr, IndexExpr)>),
    /// The smaller.
    Min(Arc<(IndexExpr, IndexExpr)>),
    /// The larger.
    Max(Arc<(IndexExpr, IndexExpr)>),
}

/// `coefficient · Π atoms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// Sorted, never empty.
    pub atoms: Vec<Atom>,
    /// Never zero.
    pub coefficient: i64,
}

/// `constant + Σ terms`, terms sorted by their atoms, no two alike.
///
/// Arithmetic saturates at the ends of `i64`; the frontend refuses models whose sizes come near that.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexExpr {
    terms: Arc<[Term]>,
    constant: i64,
}

impl Default for IndexExpr {
    fn default() -> Self {
        Self::constant(0)
    }
}

impl From<i64> for IndexExpr {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

impl From<SymbolId> for IndexExpr {
    fn from(symbol: SymbolId) -> Self {
        Self::atom(Atom::Symbol(symbol))
    }
}

impl From<Atom> for IndexExpr {
    fn from(atom: Atom) -> Self {
        Self::atom(atom)
    }
}

impl From<VarId> for IndexExpr {
    fn from(var: VarId) -> Self {
        Self::atom(Atom::Var(var))
    }
}

impl IndexExpr {
    /// A number.
    #[must_use]
    pub fn constant(value: i64) -> Self {
        Self { terms: Arc::new([]), constant: value }
    }

    /// A single variable.
    #[must_use]
    pub fn var(var: VarId) -> Self {
        var.into()
    }

    /// A single symbol.
    #[must_use]
    pub fn symbol(symbol: SymbolId) -> Self {
        symbol.into()
    }

    fn atom(atom: Atom) -> Self {
        Self { terms: Arc::new([Term { atoms: vec![atom], coefficient: 1 }]), constant: 0 }
    }

    fn from_terms(mut terms: Vec<Term>, constant: i64) -> Self {
        terms.sort_by(|a, b| a.atoms.cmp(&b.atoms));
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match merged.last_mut() {
                Some(last) if last.atoms == term.atoms => {
                    last.coefficient = last.coefficient.saturating_add(term.coefficient);
                }
                _ => merged.push(term),
            }
        }
        merged.retain(|t| t.coefficient != 0);
        Self { terms: merged.into(), constant }
    }

    /// The number, if this is one.
    #[must_use]
    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// True if this is the given number.
    #[must_use]
    pub fn is_const(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    /// The constant part.
    #[must_use]
    pub fn constant_part(&self) -> i64 {
        self.constant
    }

    /// The terms without the constant part, sorted.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The expression without its constant part.
    #[must_use]
    pub fn without_constant(&self) -> Self {
        Self { terms: self.terms.clone(), constant: 0 }
    }

    /// The variable, if this is a single one with coefficient 1 and nothing else.
    #[must_use]
    pub fn as_var(&self) -> Option<VarId> {
        match &*self.terms {
            [Term { atoms, coefficient: 1 }] if self.constant == 0 => match atoms[..] {
                [Atom::Var(var)] => Some(var),
                _ => None,
            },
            _ => None,
        }
    }

    /// The symbol, if this is a single one with coefficient 1 and nothing else.
    #[must_use]
    pub fn as_symbol(&self) -> Option<SymbolId> {
        match &*self.terms {
            [Term { atoms, coefficient: 1 }] if self.constant == 0 => match atoms[..] {
                [Atom::Symbol(symbol)] => Some(symbol),
                _ => None,
            },
            _ => None,
        }
    }

    /// `self · factor`.
    #[must_use]
    pub fn scale(&self, factor: i64) -> Self {
        if factor == 0 {
            return Self::constant(0);
        }
        let terms = self
            .terms
            .iter()
            .map(|t| Term { atoms: t.atoms.clone(), coefficient: t.coefficient.saturating_mul(factor) })
            .collect();
        Self { terms, constant: self.constant.saturating_mul(factor) }
    }

    /// Floor division. Exact where every term divides; a division by 1 vanishes.
    ///
    /// # Panics
    /// If the divisor is the constant 0 or negative: divisors are sizes.
    #[must_use]
    pub fn floor_div(&self, divisor: &Self) -> Self {
        match (self.as_const(), divisor.as_const()) {
            (_, Some(d)) if d <= 0 => panic!("division of an index by {d}"),
            (_, Some(1)) => return self.clone(),
            (Some(a), Some(d)) => return Self::constant(a.div_euclid(d)),
            (_, Some(d)) if self.divisible_by(d) => return self.divided_by(d),
            _ if self == divisor => return Self::constant(1),
            _ => {}
        }
        if let Some(quotient) = self.divide_by_monomial(divisor) {
            return quotient;
        }
        // Whole multiples of a constant divisor come out: (a·d·x + r) div d = a·x + r div d.
        if let Some(d) = divisor.as_const() {
            let (whole, rest) = self.split_multiples(d);
            if !whole.is_const(0) {
                return whole.divided_by(d) + rest.floor_div(divisor);
            }
        }
        Self::atom(Atom::FloorDiv(Arc::new((self.clone(), divisor.clone()))))
    }

    /// Division rounding up.
    #[must_use]
    pub fn ceil_div(&self, divisor: &Self) -> Self {
        (self.clone() + divisor.clone() - 1).floor_div(divisor)
    }

    /// `self mod divisor`, in `0..divisor`.
    ///
    /// # Panics
    /// As [`IndexExpr::floor_div`].
    #[must_use]
    pub fn modulo(&self, divisor: &Self) -> Self {
        match (self.as_const(), divisor.as_const()) {
            (_, Some(d)) if d <= 0 => panic!("index modulo {d}"),
            (_, Some(1)) => return Self::constant(0),
            (Some(a), Some(d)) => return Self::constant(a.rem_euclid(d)),
            (_, Some(d)) => {
                let (whole, rest) = self.split_multiples(d);
                if rest.is_const(0) {
                    return rest;
                }
                if !whole.is_const(0) {
                    return rest.modulo(divisor);
                }
            }
            _ => {
                if self.divide_by_monomial(divisor).is_some() {
                    return Self::constant(0);
                }
            }
        }
        Self::atom(Atom::Mod(Arc::new((self.clone(), divisor.clone()))))
    }

    /// The smaller of two.
    #[must_use]
    pub fn minimum(&self, other: &Self) -> Self {
        self.pick(other, i64::min, Atom::Min)
    }

    /// The larger of two.
    #[must_use]
    pub fn maximum(&self, other: &Self) -> Self {
        self.pick(other, i64::max, Atom::Max)
    }

    fn pick(&self, other: &Self, known: fn(i64, i64) -> i64, atom: fn(Arc<(Self, Self)>) -> Atom) -> Self {
        if let Some(difference) = (self.clone() - other.clone()).as_const() {
            // self = other + difference, so the constant decides.
            let offset = known(difference, 0);
            return other.clone() + offset;
        }
        let (a, b) = if self <= other { (self, other) } else { (other, self) };
        Self::atom(atom(Arc::new((a.clone(), b.clone()))))
    }

    fn divisible_by(&self, d: i64) -> bool {
        self.constant % d == 0 && self.terms.iter().all(|t| t.coefficient % d == 0)
    }

    fn divided_by(&self, d: i64) -> Self {
        let terms =
            self.terms.iter().map(|t| Term { atoms: t.atoms.clone(), coefficient: t.coefficient / d }).collect();
        Self { terms, constant: self.constant / d }
    }

    /// The terms for which something holds, each as an expression of its own, and all others with the constant part.
    #[must_use]
    pub fn partition(&self, holds: impl Fn(&Self) -> bool) -> (Self, Self) {
        let alone = |term: &Term| Self { terms: Arc::new([term.clone()]), constant: 0 };
        let (some, others): (Vec<_>, Vec<_>) = self.terms.iter().cloned().partition(|term| holds(&alone(term)));
        (Self { terms: some.into(), constant: 0 }, Self { terms: others.into(), constant: self.constant })
    }

    /// `(m, r)` with `self = m + r`, every coefficient of `m` a multiple of a positive `d`, and the constant of `r` in `0..d`.
    #[must_use]
    pub fn split_multiples(&self, d: i64) -> (Self, Self) {
        let (whole, rest): (Vec<_>, Vec<_>) = self.terms.iter().cloned().partition(|t| t.coefficient % d == 0);
        let remainder = self.constant.rem_euclid(d);
        (
            Self { terms: whole.into(), constant: self.constant.saturating_sub(remainder) },
            Self { terms: rest.into(), constant: remainder },
        )
    }

    /// True if the value is a multiple of a positive number whatever symbols and variables are, as far as its parts show.
    #[must_use]
    pub fn is_multiple_of(&self, of: i64) -> bool {
        let is_multiple = |atom: &Atom| match atom {
            // A remainder of a multiple by a multiple.
            Atom::Mod(p) => p.0.is_multiple_of(of) && p.1.is_multiple_of(of),
            _ => false,
        };
        let holds = |t: &Term| t.coefficient % of == 0 || t.atoms.iter().any(is_multiple);
        self.constant % of == 0 && self.terms.iter().all(holds)
    }

    /// Exact division by `c·Π atoms`, if every term has these factors.
    fn divide_by_monomial(&self, divisor: &Self) -> Option<Self> {
        let [by] = &*divisor.terms else { return None };
        if divisor.constant != 0 || self.constant != 0 || self.terms.is_empty() {
            return None;
        }
        let mut terms = Vec::new();
        let mut constant = 0i64;
        for term in self.terms.iter() {
            if term.coefficient % by.coefficient != 0 {
                return None;
            }
            let mut atoms = term.atoms.clone();
            for atom in &by.atoms {
                let at = atoms.iter().position(|a| a == atom)?;
                atoms.remove(at);
            }
            let coefficient = term.coefficient / by.coefficient;
            if atoms.is_empty() {
                constant = constant.saturating_add(coefficient);
            } else {
                terms.push(Term { atoms, coefficient });
            }
        }
        Some(Self::from_terms(terms, constant))
    }

    /// Calls `f` for every atom, also inside divisions and extrema.
    pub fn for_each_atom(&self, f: &mut dyn FnMut(&Atom)) {
        for atom in self.terms.iter().flat_map(|t| &t.atoms) {
            f(atom);
            match atom {
                Atom::Symbol(_) | Atom::Var(_) => {}
                Atom::FloorDiv(p) | Atom::Mod(p) | Atom::Min(p) | Atom::Max(p) => {
                    p.0.for_each_atom(f);
                    p.1.for_each_atom(f);
                }
            }
        }
    }

    /// The symbols that occur, each once, in order.
    #[must_use]
    pub fn symbols(&self) -> Vec<SymbolId> {
        let mut symbols = Vec::new();
        self.for_each_atom(&mut |atom| {
            if let Atom::Symbol(symbol) = atom {
                symbols.push(*symbol);
            }
        });
        symbols.sort_unstable();
        symbols.dedup();
        symbols
    }

    /// True if the variable occurs.
    #[must_use]
    pub fn uses_var(&self, var: VarId) -> bool {
        let mut found = false;
        self.for_each_atom(&mut |a| found |= *a == Atom::Var(var));
        found
    }

    /// True if any variable occurs.
    #[must_use]
    pub fn uses_vars(&self) -> bool {
        let mut found = false;
        self.for_each_atom(&mut |a| found |= matches!(a, Atom::Var(_)));
        found
    }

    /// True if the atom occurs, also inside divisions and extrema.
    #[must_use]
    pub fn contains(&self, atom: &Atom) -> bool {
        let mut found = false;
        self.for_each_atom(&mut |a| found |= a == atom);
        found
    }

    /// The expression with one atom replaced wherever it occurs.
    #[must_use]
    pub fn replace(&self, atom: &Atom, by: &IndexExpr) -> Self {
        self.substitute(&|a| (a == atom).then(|| by.clone()))
    }

    /// The coefficient `c` of a variable in `self = c·var + rest`, with `rest` free of it; `None` if it is not linear.
    #[must_use]
    pub fn linear_in(&self, var: VarId) -> Option<(Self, Self)> {
        let mut coefficient = Vec::new();
        let mut coefficient_constant = 0i64;
        let mut rest = Vec::new();
        for term in self.terms.iter() {
            let uses = |a: &Atom| {
                let mut found = false;
                IndexExpr::atom(a.clone()).for_each_atom(&mut |x| found |= *x == Atom::Var(var));
                found
            };
            let users: Vec<usize> = (0..term.atoms.len()).filter(|&i| uses(&term.atoms[i])).collect();
            match users[..] {
                [] => rest.push(term.clone()),
                [at] if term.atoms[at] == Atom::Var(var) => {
                    let mut atoms = term.atoms.clone();
                    atoms.remove(at);
                    if atoms.is_empty() {
                        coefficient_constant = coefficient_constant.saturating_add(term.coefficient);
                    } else {
                        coefficient.push(Term { atoms, coefficient: term.coefficient });
                    }
                }
                _ => return None,
            }
        }
        Some((Self::from_terms(coefficient, coefficient_constant), Self::from_terms(rest, self.constant)))
    }

    /// Replaces atoms, the outer ones first; `None` keeps one, with what is inside of it replaced.
    ///
    /// A division by what is replaced by a number that is no divisor stays a division by the old divisor.
    #[must_use]
    pub fn substitute(&self, replace: &dyn Fn(&Atom) -> Option<IndexExpr>) -> Self {
        let mut sum = Self::constant(self.constant);
        for term in self.terms.iter() {
            let mut product = Self::constant(term.coefficient);
            for atom in &term.atoms {
                product = product * substitute_atom(atom, replace);
            }
            sum = sum + product;
        }
        sum
    }

    /// Replaces variables by position: variable `i` by `by[i]`; variables beyond stay.
    #[must_use]
    pub fn substitute_vars(&self, by: &[IndexExpr]) -> Self {
        self.substitute(&|atom| match atom {
            Atom::Var(var) => by.get(var.0 as usize).cloned(),
            _ => None,
        })
    }

    /// The value if every symbol is `size`, or as near to it as its bounds let it be; `None` as for [`IndexExpr::eval`].
    #[must_use]
    pub fn at_size(&self, symbols: &Symbols, size: i64) -> Option<i64> {
        let of = |symbol| symbols.get(symbol).map(|s| size.clamp(s.min, s.max.unwrap_or(size).max(s.min)));
        self.eval(&of, &|_| None)
    }

    /// The value when symbols and variables have values; `None` on overflow, a missing value or a division by zero.
    #[must_use]
    pub fn eval(&self, symbol: &dyn Fn(SymbolId) -> Option<i64>, var: &dyn Fn(VarId) -> Option<i64>) -> Option<i64> {
        let mut sum = self.constant;
        for term in self.terms.iter() {
            let mut product = term.coefficient;
            for atom in &term.atoms {
                let both = |p: &(IndexExpr, IndexExpr)| Some((p.0.eval(symbol, var)?, p.1.eval(symbol, var)?));
                let value = match atom {
                    Atom::Symbol(s) => symbol(*s)?,
                    Atom::Var(v) => var(*v)?,
                    Atom::FloorDiv(p) => {
                        let (a, b) = both(p)?;
                        if b <= 0 {
                            return None;
                        }
                        a.div_euclid(b)
                    }
                    Atom::Mod(p) => {
                        let (a, b) = both(p)?;
                        if b <= 0 {
                            return None;
                        }
                        a.rem_euclid(b)
                    }
                    Atom::Min(p) => both(p).map(|(a, b)| a.min(b))?,
                    Atom::Max(p) => both(p).map(|(a, b)| a.max(b))?,
                };
                product = product.checked_mul(value)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
}

fn substitute_atom(atom: &Atom, replace: &dyn Fn(&Atom) -> Option<IndexExpr>) -> IndexExpr {
    if let Some(by) = replace(atom) {
        return by;
    }
    let both = |p: &(IndexExpr, IndexExpr)| (p.0.substitute(replace), p.1.substitute(replace));
    match atom {
        Atom::Symbol(_) | Atom::Var(_) => IndexExpr::atom(atom.clone()),
        Atom::FloorDiv(p) => {
            let (a, b) = both(p);
            if b.as_const().is_some_and(|d| d <= 0) { a.floor_div(&p.1) } else { a.floor_div(&b) }
        }
        Atom::Mod(p) => {
            let (a, b) = both(p);
            if b.as_const().is_some_and(|d| d <= 0) { a.modulo(&p.1) } else { a.modulo(&b) }
        }
        Atom::Min(p) => {
            let (a, b) = both(p);
            a.minimum(&b)
        }
        Atom::Max(p) => {
            let (a, b) = both(p);
            a.maximum(&b)
        }
    }
}

impl<T: Into<IndexExpr>> std::ops::Add<T> for IndexExpr {
    type Output = IndexExpr;

    fn add(self, other: T) -> IndexExpr {
        let other = other.into();
        let constant = self.constant.saturating_add(other.constant);
        if other.terms.is_empty() {
            return IndexExpr { terms: self.terms, constant };
        }
        if self.terms.is_empty() {
            return IndexExpr { terms: other.terms, constant };
        }
        IndexExpr::from_terms(self.terms.iter().chain(other.terms.iter()).cloned().collect(), constant)
    }
}

impl<T: Into<IndexExpr>> std::ops::Sub<T> for IndexExpr {
    type Output = IndexExpr;

    fn sub(self, other: T) -> IndexExpr {
        self + other.into().scale(-1)
    }
}

impl<T: Into<IndexExpr>> std::ops::Mul<T> for IndexExpr {
    type Output = IndexExpr;

    fn mul(self, other: T) -> IndexExpr {
        let other = other.into();
        if let Some(factor) = other.as_const() {
            return self.scale(factor);
        }
        if let Some(factor) = self.as_const() {
            return other.scale(factor);
        }
        let mut terms = Vec::new();
        for a in self.terms.iter() {
            for b in other.terms.iter() {
                let mut atoms = a.atoms.clone();
                atoms.extend(b.atoms.iter().cloned());
                atoms.sort();
                terms.push(Term { atoms, coefficient: a.coefficient.saturating_mul(b.coefficient) });
            }
        }
        terms.extend(self.scale(other.constant).terms.iter().cloned());
        terms.extend(other.scale(self.constant).terms.iter().cloned());
        IndexExpr::from_terms(terms, self.constant.saturating_mul(other.constant))
    }
}

impl std::iter::Sum for IndexExpr {
    fn sum<It: Iterator<Item = Self>>(iter: It) -> Self {
        iter.fold(Self::constant(0), |a, b| a + b)
    }
}

impl std::iter::Product for IndexExpr {
    fn product<It: Iterator<Item = Self>>(iter: It) -> Self {
        iter.fold(Self::constant(1), |a, b| a * b)
    }
}
