//! Checks of index expressions, shared by all levels.

use super::{Report, ViolationKind};
use crate::access::Bound;
use crate::entity::{EntityId, VarId};
use crate::index::{Atom, Dim, IndexExpr, Ranges};
use crate::symbol::Symbols;

impl Report {
    /// Symbols exist, variables satisfy `in_scope`, and no divisor is known to be zero or negative.
    pub(super) fn index(
        &mut self,
        expr: &IndexExpr,
        ranges: &Ranges,
        symbols: usize,
        in_scope: &dyn Fn(VarId) -> bool,
    ) {
        expr.for_each_atom(&mut |atom| match atom {
            Atom::Symbol(id) if id.index() >= symbols => {
                self.push(ViolationKind::Dangling { what: "symbol", id: id.to_string() });
            }
            Atom::Var(id) if !in_scope(*id) => {
                self.push(ViolationKind::VariableOutOfScope { id: id.to_string() });
            }
            Atom::FloorDiv(pair) | Atom::Mod(pair) if ranges.interval(&pair.1).max.is_some_and(|max| max < 1) => {
                self.push(ViolationKind::BadDivisor { expr: expr.to_string() });
            }
            _ => {}
        });
    }

    /// All three parts of conditions.
    pub(super) fn bounds(
        &mut self,
        bounds: &[Bound],
        ranges: &Ranges,
        symbols: usize,
        in_scope: &dyn Fn(VarId) -> bool,
    ) {
        for expr in bounds.iter().flat_map(|b| [&b.expr, &b.lo, &b.hi]) {
            self.index(expr, ranges, symbols, in_scope);
        }
    }

    /// A dim has no variables.
    pub(super) fn dim(&mut self, dim: &Dim, ranges: &Ranges, symbols: usize) {
        self.index(dim, ranges, symbols, &|_| true);
        dim.for_each_atom(&mut |atom| {
            if let Atom::Var(id) = atom {
                self.push(ViolationKind::VariableInDim { id: id.to_string() });
            }
        });
    }

    /// A dim that is a size.
    pub(super) fn extent(&mut self, what: &str, dim: &Dim, ranges: &Ranges, symbols: usize) {
        self.dim(dim, ranges, symbols);
        if ranges.interval(dim).max.is_some_and(|max| max < 0) {
            self.push(ViolationKind::NegativeExtent { what: what.to_owned(), extent: dim.to_string() });
        }
    }

    /// Names are unique and ranges are not empty.
    pub(super) fn symbols(&mut self, symbols: &Symbols) {
        self.at("symbols");
        self.unique(symbols.iter().map(|s| &*s.name));
        for symbol in symbols.iter() {
            if symbol.max.is_some_and(|max| max < symbol.min) {
                self.push(ViolationKind::BadRange { name: symbol.name.clone() });
            }
        }
    }
}
