//! Index expressions and conditions with names for their variables.

use super::error::ParseErrorKind;
use super::lexer::Kind;
use super::names::{Name, separated};
use super::parser::{Mark, Parsed, Parser};
use crate::access::Bound;
use crate::entity::{EntityId, VarId};
use crate::index::{Atom, IndexExpr};
use crate::symbol::Symbols;
use std::collections::HashMap;
use std::fmt;

/// The most terms of a product of two sums.
const MAX_TERMS: usize = 512;

/// The most factors of one term.
const MAX_FACTORS: usize = 16;

/// What names mean in index expressions.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Names of the variables, by position.
    pub(super) vars: &'a [String],
    pub(super) symbols: &'a Symbols,
    /// Named numbers; only text has them.
    pub(super) constants: &'a HashMap<String, i64>,
}

impl Scope<'_> {
    fn symbol(&self, name: &str) -> Option<IndexExpr> {
        let constant = || self.constants.get(name).map(|&c| IndexExpr::constant(c));
        let symbol = self.symbols.iter_enumerated().find(|(_, s)| s.name == name);
        symbol.map(|(id, _)| IndexExpr::symbol(id)).or_else(constant)
    }

    fn name(&self, name: &str) -> Option<IndexExpr> {
        let var = self.vars.iter().position(|v| v == name).map(|n| IndexExpr::var(VarId(n as u32)));
        var.or_else(|| self.symbol(name))
    }
}

impl Parser<'_> {
    /// `term ± term …`; stops before `+ {`, which begins a gathered index.
    pub(super) fn index(&mut self, scope: Scope<'_>) -> Parsed<IndexExpr> {
        self.nested(|p| {
            let negative = p.eat("-");
            let mut sum = p.index_term(scope, negative)?;
            loop {
                if p.is("+") && !p.is_after(1, "{") {
                    p.advance();
                    sum = sum + p.index_term(scope, false)?;
                } else if p.eat("-") {
                    sum = sum + p.index_term(scope, true)?;
                } else {
                    return Ok(sum);
                }
                if sum.terms().len() > MAX_TERMS {
                    return Err(p.error(ParseErrorKind::TooMany { what: "terms in an index", limit: MAX_TERMS }));
                }
            }
        })
    }

    fn index_term(&mut self, scope: Scope<'_>, negative: bool) -> Parsed<IndexExpr> {
        // The sign belongs to a leading number, so that the least number can be written.
        let mut product = if let Kind::Int(_) = self.peek() {
            let mark = self.mark();
            let magnitude = i128::from(self.unsigned()?);
            let value = if negative { -magnitude } else { magnitude };
            IndexExpr::constant(i64::try_from(value).map_err(|_| self.too_large(mark, &value.to_string()))?)
        } else {
            self.index_factor(scope)?.scale(if negative { -1 } else { 1 })
        };
        while self.eat("*") {
            let mark = self.mark();
            let factor = self.index_factor(scope)?;
            product = self.product(mark, product, factor)?;
        }
        Ok(product)
    }

    fn product(&self, mark: Mark, a: IndexExpr, b: IndexExpr) -> Parsed<IndexExpr> {
        let too_many = |what, limit| Err(self.error_at(mark, ParseErrorKind::TooMany { what, limit }));
        if (a.terms().len() + 1) * (b.terms().len() + 1) > MAX_TERMS {
            return too_many("terms in an index", MAX_TERMS);
        }
        let degree = |e: &IndexExpr| e.terms().iter().map(|t| t.atoms.len()).max().unwrap_or(0);
        if degree(&a) + degree(&b) > MAX_FACTORS {
            return too_many("factors in an index", MAX_FACTORS);
        }
        Ok(a * b)
    }

    /// A number, a name, a function, or a sum in parentheses.
    pub(super) fn index_factor(&mut self, scope: Scope<'_>) -> Parsed<IndexExpr> {
        let mark = self.mark();
        match self.peek().clone() {
            Kind::Int(text) => {
                let value = self.unsigned()?;
                Ok(IndexExpr::constant(i64::try_from(value).map_err(|_| self.too_large(mark, text))?))
            }
            Kind::Punct("(") => {
                self.advance();
                let sum = self.index(scope)?;
                self.expect(")")?;
                Ok(sum)
            }
            Kind::Punct("$") => {
                self.advance();
                let mark = self.mark();
                let name = self.name("a symbol")?;
                scope.symbol(&name).ok_or_else(|| self.unknown(mark, "symbol", name))
            }
            Kind::Ident(function @ ("div" | "mod" | "min" | "max")) if self.is_after(1, "(") => {
                self.advance();
                self.advance();
                let a = self.index(scope)?;
                self.expect(",")?;
                let b = self.index(scope)?;
                self.expect(")")?;
                match function {
                    "min" => Ok(a.minimum(&b)),
                    "max" => Ok(a.maximum(&b)),
                    _ if b.as_const().is_some_and(|d| d <= 0) => Err(self.error_at(mark, ParseErrorKind::BadDivisor)),
                    "div" => Ok(a.floor_div(&b)),
                    _ => Ok(a.modulo(&b)),
                }
            }
            Kind::Ident(_) | Kind::Str(_) => {
                let name = self.name("an index")?;
                scope.name(&name).ok_or_else(|| self.unknown(mark, "axis or symbol", name))
            }
            _ => self.expected("an index"),
        }
    }

    /// `lo <= expr < hi and …`
    pub(super) fn bounds(&mut self, scope: Scope<'_>) -> Parsed<Vec<Bound>> {
        let mut bounds = Vec::new();
        loop {
            let lo = self.index(scope)?;
            self.expect("<=")?;
            let expr = self.index(scope)?;
            self.expect("<")?;
            let hi = self.index(scope)?;
            bounds.push(Bound { expr, lo, hi });
            if !self.eat_word("and") {
                return Ok(bounds);
            }
        }
    }

    /// Dims in brackets, `[N, 3]`; nothing stands for a scalar's shape.
    pub(super) fn shape(&mut self, scope: Scope<'_>) -> Parsed<Vec<IndexExpr>> {
        if !self.eat("[") {
            return Ok(Vec::new());
        }
        self.list("]", |p| p.index(scope))
    }

    fn too_large(&self, mark: Mark, text: &str) -> super::ParseError {
        self.error_at(mark, ParseErrorKind::NumberOutOfRange { text: text.to_owned(), what: "64 bits".to_owned() })
    }

    pub(super) fn unknown(&self, mark: Mark, what: &'static str, name: String) -> super::ParseError {
        self.error_at(mark, ParseErrorKind::Unknown { what, name })
    }
}

/// Names for printing.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) vars: &'a [String],
    pub(super) symbols: &'a Symbols,
}

/// An index expression with names.
pub(super) struct Index<'a>(pub(super) &'a IndexExpr, pub(super) Names<'a>);

impl fmt::Display for Index<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(expr, names) = self;
        let mut first = true;
        for term in expr.terms() {
            f.write_str(match (first, term.coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            })?;
            first = false;
            let magnitude = term.coefficient.unsigned_abs();
            if magnitude != 1 {
                write!(f, "{magnitude}*")?;
            }
            separated(f, "*", &term.atoms, |f, atom| write_atom(f, atom, *names))?;
        }
        match expr.constant_part() {
            c if first => write!(f, "{c}"),
            0 => Ok(()),
            c if c > 0 => write!(f, " + {c}"),
            c => write!(f, " - {}", c.unsigned_abs()),
        }
    }
}

fn write_atom(f: &mut fmt::Formatter<'_>, atom: &Atom, names: Names<'_>) -> fmt::Result {
    let (function, pair) = match atom {
        Atom::Symbol(id) => {
            return match names.symbols.get(*id) {
                // An axis of the same name comes first.
                Some(symbol) if names.vars.contains(&symbol.name) => write!(f, "${}", Name(&symbol.name)),
                Some(symbol) => write!(f, "{}", Name(&symbol.name)),
                None => write!(f, "{id}"),
            };
        }
        Atom::Var(id) => {
            return match names.vars.get(id.index()) {
                Some(name) => write!(f, "{}", Name(name)),
                None => write!(f, "{id}"),
            };
        }
        Atom::FloorDiv(pair) => ("div", pair),
        Atom::Mod(pair) => ("mod", pair),
        Atom::Min(pair) => ("min", pair),
        Atom::Max(pair) => ("max", pair),
    };
    write!(f, "{function}({}, {})", Index(&pair.0, names), Index(&pair.1, names))
}

/// Conditions with names.
pub(super) struct Bounds<'a>(pub(super) &'a [Bound], pub(super) Names<'a>);

impl fmt::Display for Bounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, " and ", self.0, |f, b| {
            write!(f, "{} <= {} < {}", Index(&b.lo, self.1), Index(&b.expr, self.1), Index(&b.hi, self.1))
        })
    }
}
