//! Index expressions and access maps.

use super::{Choices, generated};
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{SymbolId, VarId};
use infc_ir::index::{IndexExpr, Interval, Ranges};
use infc_ir::symbol::{Symbol, Symbols};
use proptest::prelude::*;

/// An expression with a value for everything in it, and ranges that contain these values.
#[derive(Clone, Debug)]
pub struct IndexCase {
    /// Two expressions over three variables and two symbols.
    pub exprs: [IndexExpr; 2],
    /// Values of the variables.
    pub vars: Vec<i64>,
    /// Values of the symbols, positive.
    pub symbols: Vec<i64>,
    /// The symbols themselves.
    pub table: Symbols,
    /// Ranges that contain the values.
    pub ranges: Ranges,
}

impl IndexCase {
    /// The value of an expression.
    #[must_use]
    pub fn eval(&self, expr: &IndexExpr) -> Option<i64> {
        expr.eval(&|s| self.symbols.get(s.0 as usize).copied(), &|v| self.vars.get(v.0 as usize).copied())
    }
}

/// Pairs of expressions with values.
pub fn index_exprs() -> impl Strategy<Value = IndexCase> + Clone {
    generated(80, |c| {
        let mut table = Symbols::new();
        let mut symbols = Vec::new();
        for name in ["N", "M"] {
            let value = c.between(1, 9);
            let max = c.once_in(2).then(|| value + c.between(0, 9));
            table.push(Symbol { name: name.to_owned(), min: c.between(1, value), max });
            symbols.push(value);
        }
        let mut ranges = Ranges::of_symbols(&table);
        let mut vars = Vec::new();
        for n in 0..3 {
            let value = c.between(0, 20) - if c.once_in(4) { 10 } else { 0 };
            let (min, max) = (value - c.between(0, 5), value + c.between(0, 5));
            ranges.set_var(VarId(n), Interval { min: Some(min), max: (!c.once_in(4)).then_some(max) });
            vars.push(value);
        }
        let exprs = [expr(c, 4, 3, 2), expr(c, 4, 3, 2)];
        IndexCase { exprs, vars, symbols, table, ranges }
    })
}

/// An expression over so many variables and symbols; divisors are positive if symbols are.
pub(super) fn expr(c: &mut Choices, depth: usize, vars: u32, symbols: u32) -> IndexExpr {
    let leaf = |c: &mut Choices| match c.pick(if symbols > 0 { 4 } else { 3 }) {
        0 if vars > 0 => IndexExpr::var(VarId(c.pick(vars as usize) as u32)),
        3 => IndexExpr::symbol(SymbolId(c.pick(symbols as usize) as u32)),
        _ => IndexExpr::constant(c.between(-9, 9)),
    };
    if depth == 0 {
        return leaf(c);
    }
    let divisor = |c: &mut Choices| match c.pick(if symbols > 0 { 3 } else { 2 }) {
        0 | 1 => IndexExpr::constant(c.between(1, 8)),
        _ => IndexExpr::symbol(SymbolId(c.pick(symbols as usize) as u32)).scale(c.between(1, 2)),
    };
    let inner = |c: &mut Choices| expr(c, depth - 1, vars, symbols);
    match c.pick(9) {
        0 => leaf(c),
        1 | 2 => inner(c) + inner(c),
        3 => inner(c) - inner(c),
        4 => inner(c).scale(c.between(-4, 8)),
        5 => {
            let left = inner(c);
            left.floor_div(&divisor(c))
        }
        6 => {
            let left = inner(c);
            left.modulo(&divisor(c))
        }
        7 => {
            let (a, b) = (inner(c), inner(c));
            if c.once_in(2) { a.minimum(&b) } else { a.maximum(&b) }
        }
        _ => leaf(c) * leaf(c),
    }
}

/// Two access maps that compose: the second takes what the first gives.
pub fn access_maps() -> impl Strategy<Value = (AccessMap, AccessMap)> + Clone {
    generated(60, |c| {
        let rank = 1 + c.pick(3);
        let middle = 1 + c.pick(3);
        let outer = 1 + c.pick(3);
        (access_map(c, rank, middle), access_map(c, middle, outer))
    })
}

fn access_map(c: &mut Choices, rank: usize, results: usize) -> AccessMap {
    let index = (0..results).map(|_| expr(c, 2, rank as u32, 0)).collect();
    let bound = |c: &mut Choices| {
        let lo = c.between(-3, 3);
        Bound { expr: expr(c, 2, rank as u32, 0), lo: lo.into(), hi: (lo + c.between(0, 12)).into() }
    };
    let valid = (0..c.pick(3)).map(|_| bound(c)).collect();
    AccessMap { rank, index, valid }
}
