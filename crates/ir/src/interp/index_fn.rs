//! Index expressions, flattened once so that evaluating one per point is cheap.

use crate::access::Bound;
use crate::entity::EntityId;
use crate::index::{Atom, IndexExpr};

/// An [`IndexExpr`] with its symbols bound.
#[derive(Clone, Debug)]
pub(super) struct IndexFn {
    constant: i64,
    /// `(variable, coefficient)`.
    linear: Vec<(usize, i64)>,
    rest: Vec<(i64, Vec<AtomFn>)>,
    /// For messages.
    pub(super) source: IndexExpr,
}

#[derive(Clone, Debug)]
enum AtomFn {
    Value(i64),
    Var(usize),
    Div(Box<(IndexFn, IndexFn)>),
    Mod(Box<(IndexFn, IndexFn)>),
    Min(Box<(IndexFn, IndexFn)>),
    Max(Box<(IndexFn, IndexFn)>),
}

/// A [`Bound`] with its symbols bound.
#[derive(Clone, Debug)]
pub(super) struct BoundFn {
    expr: IndexFn,
    lo: IndexFn,
    hi: IndexFn,
}

impl IndexFn {
    /// Binds the symbols; `None` if one has no value or a product of them overflows.
    pub(super) fn new(expr: &IndexExpr, symbols: &[i64]) -> Option<Self> {
        let mut this = Self { constant: expr.constant_part(), linear: vec![], rest: vec![], source: expr.clone() };
        for term in expr.terms() {
            let mut coefficient = term.coefficient;
            let mut atoms = Vec::new();
            for atom in &term.atoms {
                match AtomFn::new(atom, symbols)? {
                    AtomFn::Value(value) => coefficient = coefficient.checked_mul(value)?,
                    atom => atoms.push(atom),
                }
            }
            match atoms[..] {
                [] => this.constant = this.constant.checked_add(coefficient)?,
                [AtomFn::Var(var)] => this.linear.push((var, coefficient)),
                _ => this.rest.push((coefficient, atoms)),
            }
        }
        Some(this)
    }

    /// The value; `None` on overflow, division by zero, or an unknown variable.
    pub(super) fn eval(&self, vars: &[i64]) -> Option<i64> {
        let mut sum = self.constant;
        for &(var, coefficient) in &self.linear {
            sum = sum.checked_add(coefficient.checked_mul(*vars.get(var)?)?)?;
        }
        for (coefficient, atoms) in &self.rest {
            let mut product = *coefficient;
            for atom in atoms {
                product = product.checked_mul(atom.eval(vars)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
}

impl AtomFn {
    fn new(atom: &Atom, symbols: &[i64]) -> Option<Self> {
        let both =
            |p: &(IndexExpr, IndexExpr)| Some(Box::new((IndexFn::new(&p.0, symbols)?, IndexFn::new(&p.1, symbols)?)));
        let this = match atom {
            Atom::Symbol(symbol) => AtomFn::Value(*symbols.get(symbol.index())?),
            Atom::Var(var) => AtomFn::Var(var.index()),
            Atom::FloorDiv(p) => AtomFn::Div(both(p)?),
            Atom::Mod(p) => AtomFn::Mod(both(p)?),
            Atom::Min(p) => AtomFn::Min(both(p)?),
            Atom::Max(p) => AtomFn::Max(both(p)?),
        };
        Some(match this {
            AtomFn::Div(ref p) | AtomFn::Mod(ref p) | AtomFn::Min(ref p) | AtomFn::Max(ref p)
                if p.0.is_constant() && p.1.is_constant() =>
            {
                AtomFn::Value(this.eval(&[])?)
            }
            other => other,
        })
    }

    fn eval(&self, vars: &[i64]) -> Option<i64> {
        let both = |p: &(IndexFn, IndexFn)| Some((p.0.eval(vars)?, p.1.eval(vars)?));
        Some(match self {
            AtomFn::Value(value) => *value,
            AtomFn::Var(var) => *vars.get(*var)?,
            AtomFn::Div(p) => both(p).filter(|&(_, b)| b > 0).map(|(a, b)| a.div_euclid(b))?,
            AtomFn::Mod(p) => both(p).filter(|&(_, b)| b > 0).map(|(a, b)| a.rem_euclid(b))?,
            AtomFn::Min(p) => both(p).map(|(a, b)| a.min(b))?,
            AtomFn::Max(p) => both(p).map(|(a, b)| a.max(b))?,
        })
    }
}

impl IndexFn {
    fn is_constant(&self) -> bool {
        self.linear.is_empty() && self.rest.is_empty()
    }
}

impl BoundFn {
    pub(super) fn new(bound: &Bound, symbols: &[i64]) -> Option<Self> {
        Some(Self {
            expr: IndexFn::new(&bound.expr, symbols)?,
            lo: IndexFn::new(&bound.lo, symbols)?,
            hi: IndexFn::new(&bound.hi, symbols)?,
        })
    }

    /// Whether the condition holds; `None` as [`IndexFn::eval`].
    pub(super) fn holds(&self, vars: &[i64]) -> Option<bool> {
        let value = self.expr.eval(vars)?;
        Some(self.lo.eval(vars)? <= value && value < self.hi.eval(vars)?)
    }

    pub(super) fn all(bounds: &[Self], vars: &[i64]) -> Option<bool> {
        for bound in bounds {
            if !bound.holds(vars)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{SymbolId, VarId};

    #[test]
    fn flattening_keeps_the_value() {
        let (i, j) = (IndexExpr::var(VarId(0)), IndexExpr::var(VarId(1)));
        let n = IndexExpr::symbol(SymbolId(0));
        let e = (i.clone() * n.clone() + j.clone()).floor_div(&IndexExpr::constant(3))
            + i.clone().minimum(&j) * j.clone()
            - (j.clone() + 5).modulo(&n);
        let f = IndexFn::new(&e, &[7]).expect("bound");
        for i in 0..5 {
            for j in 0..9 {
                let expected = e.eval(&|_| Some(7), &|v| Some([i, j][v.index()]));
                assert_eq!(f.eval(&[i, j]), expected);
            }
        }
    }

    #[test]
    fn overflow_and_division_by_zero_are_no_value() {
        let i = IndexExpr::var(VarId(0));
        let n = IndexExpr::symbol(SymbolId(0));
        assert_eq!(IndexFn::new(&i.scale(i64::MAX), &[]).expect("no symbols").eval(&[2]), None);
        assert_eq!(IndexFn::new(&i.floor_div(&n), &[0]).expect("bound").eval(&[2]), None);
    }
}
