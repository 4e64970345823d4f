//! The grammar of scalar expressions and blocks.

use super::super::canonical::canonical_body;
use super::super::error::ParseErrorKind;
use super::super::index::Scope;
use super::super::lexer::Kind;
use super::super::parser::{Mark, Parsed, Parser};
use super::expr::{CastKind, Expr, ExprKind};
use super::ops::{Infix, PREFIX_LEVEL, binary_named, infix_named, unary_named};
use crate::entity::{OperandId, ScalarId, StageId};
use crate::index::IndexExpr;
use crate::scalar::{Body, Const, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;

/// What a name in front of `[` stands for.
#[derive(Clone)]
pub(in super::super) enum SourceRef {
    Operand(OperandId, DType),
    /// A stage and the types of its components.
    Stage(StageId, Vec<DType>),
}

/// What scalar expressions may name.
#[derive(Clone, Copy)]
pub(in super::super) struct Env<'a> {
    pub(in super::super) scope: Scope<'a>,
    pub(in super::super) sources: &'a dyn Fn(&str) -> Option<SourceRef>,
    pub(in super::super) params: &'a [(String, DType)],
}

/// The names that `let` has given so far.
type Lets = Vec<(String, ScalarId)>;

impl Parser<'_> {
    /// `let a = …; let b = …; result`, where the result is one expression or a tuple in parentheses.
    ///
    /// The body is in canonical form. `expected` are the types of the results as far as known; it has one entry per result if `count` is given.
    pub(in super::super) fn block(
        &mut self,
        env: Env<'_>,
        count: Option<usize>,
        expected: &[DType],
    ) -> Parsed<(Body, Vec<ScalarId>)> {
        let mut body = Body::default();
        let mut lets = Lets::new();
        while self.eat_word("let") {
            let mark = self.mark();
            let name = self.name("a name")?;
            if lets.iter().any(|(n, _)| *n == name) || env.params.iter().any(|(n, _)| *n == name) {
                return Err(self.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
            self.expect("=")?;
            let value = self.expression(env, &lets, &body)?;
            let id = self.emit(&mut body, &value, None)?;
            self.expect(";")?;
            lets.push((name, id));
        }
        let mark = self.mark();
        let exprs = self.tuple_or_expression(env, count, &lets, &body)?;
        if let Some(expected) = count
            && exprs.len() != expected
        {
            let what = "results";
            return Err(self.error_at(mark, ParseErrorKind::WrongCount { what, expected, found: exprs.len() }));
        }
        let results = exprs
            .iter()
            .enumerate()
            .map(|(n, expr)| self.emit(&mut body, expr, expected.get(n).copied()))
            .collect::<Parsed<Vec<_>>>()?;
        Ok(canonical_body(&body, &results))
    }

    fn tuple_or_expression(
        &mut self,
        env: Env<'_>,
        count: Option<usize>,
        lets: &Lets,
        body: &Body,
    ) -> Parsed<Vec<Expr>> {
        if count != Some(1) && self.is("(") {
            let start = self.mark();
            self.advance();
            let first = self.expression(env, lets, body)?;
            if self.eat(",") {
                let mut exprs = vec![first];
                exprs.extend(self.list(")", |p| p.expression(env, lets, body))?);
                return Ok(exprs);
            }
            // Only parentheses around the beginning of an expression.
            self.reset(start);
        }
        Ok(vec![self.expression(env, lets, body)?])
    }

    fn expression(&mut self, env: Env<'_>, lets: &Lets, body: &Body) -> Parsed<Expr> {
        Grammar { env, lets, body }.infix(self, 0)
    }
}

/// One expression being parsed. The body is only asked for the types of names.
struct Grammar<'a> {
    env: Env<'a>,
    lets: &'a Lets,
    body: &'a Body,
}

impl Grammar<'_> {
    /// Operators of at least the given strength, by precedence climbing.
    fn infix(&self, p: &mut Parser<'_>, least: u8) -> Parsed<Expr> {
        p.nested(|p| {
            let mark = p.mark();
            let mut left = self.prefix(p)?;
            loop {
                let Kind::Punct(text) = *p.peek() else { return Ok(left) };
                let Some((op, level)) = infix_named(text).filter(|&(_, level)| level >= least) else {
                    return Ok(left);
                };
                p.advance();
                let right = self.infix(p, level + 1)?;
                let pair = Box::new((left, right));
                left = p.expr(
                    mark,
                    match op {
                        Infix::Binary(op) => ExprKind::Binary(op, pair),
                        Infix::Compare(op) => ExprKind::Compare(op, pair),
                    },
                )?;
            }
        })
    }

    fn prefix(&self, p: &mut Parser<'_>) -> Parsed<Expr> {
        let mark = p.mark();
        if p.is_literal() {
            let literal = p.literal()?;
            return p.expr(mark, ExprKind::Literal(literal));
        }
        let op = match p.peek() {
            Kind::Punct("-") => UnaryOp::Neg,
            Kind::Punct("!") => UnaryOp::Not,
            _ => return self.primary(p),
        };
        p.advance();
        let value = self.infix(p, PREFIX_LEVEL)?;
        p.expr(mark, ExprKind::Unary(op, Box::new(value)))
    }

    fn primary(&self, p: &mut Parser<'_>) -> Parsed<Expr> {
        let mark = p.mark();
        match p.peek().clone() {
            Kind::Punct("(") => {
                p.advance();
                let inner = self.infix(p, 0)?;
                p.expect(")")?;
                Ok(inner)
            }
            Kind::Ident(name) if p.is_after(1, "(") => self.call(p, name),
            Kind::Ident(_) | Kind::Str(_) => {
                let name = p.name("a value")?;
                if p.is("[") || p.is(".") { self.load(p, mark, name) } else { self.value(p, mark, name) }
            }
            _ => p.expected("an expression"),
        }
    }

    fn value(&self, p: &Parser<'_>, mark: Mark, name: String) -> Parsed<Expr> {
        if let Some((_, id)) = self.lets.iter().find(|(n, _)| *n == name) {
            return p.expr(mark, ExprKind::Value(*id, self.body.dtype(*id)));
        }
        match self.env.params.iter().position(|(n, _)| *n == name) {
            Some(n) => p.expr(mark, ExprKind::Leaf(ScalarOp::Param(n as u8, self.env.params[n].1))),
            None => Err(p.unknown(mark, "value", name)),
        }
    }

    fn call(&self, p: &mut Parser<'_>, name: &str) -> Parsed<Expr> {
        let mark = p.mark();
        if name == "bits" {
            let constant = p.bits()?;
            return p.expr(mark, ExprKind::Leaf(ScalarOp::Const(constant)));
        }
        p.advance();
        p.expect("(")?;
        if name == "index" {
            let index = p.index(self.env.scope)?;
            p.expect(")")?;
            return p.expr(mark, ExprKind::Leaf(ScalarOp::Index(index)));
        }
        if name == "inbounds" {
            let bounds = if p.is(")") { Vec::new() } else { p.bounds(self.env.scope)? };
            p.expect(")")?;
            return p.expr(mark, ExprKind::Leaf(ScalarOp::InBounds(bounds)));
        }
        let conversion =
            CastKind::PREFIXES.iter().find_map(|(p, kind)| Some((name.strip_prefix(p)?.parse::<DType>().ok()?, *kind)));
        if let Some((to, kind)) = conversion {
            // A converted number is a number of that type.
            if kind == CastKind::Plain && p.is_literal() && p.is_after(if p.is("-") { 2 } else { 1 }, ")") {
                let constant = p.constant(to)?;
                p.expect(")")?;
                return p.expr(mark, ExprKind::Leaf(ScalarOp::Const(constant)));
            }
            let value = Box::new(self.infix(p, 0)?);
            p.expect(")")?;
            return p.expr(mark, ExprKind::Cast { to, kind, value });
        }
        let arguments = p.list(")", |p| self.infix(p, 0))?;
        let found = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut next = |expected| {
            arguments
                .next()
                .filter(|_| found == expected)
                .ok_or_else(|| p.error_at(mark, ParseErrorKind::WrongCount { what: "arguments", expected, found }))
        };
        let kind = if name == "select" {
            ExprKind::Select(Box::new((next(3)?, next(3)?, next(3)?)))
        } else if let Some(op) = unary_named(name) {
            ExprKind::Unary(op, Box::new(next(1)?))
        } else if let Some(op) = binary_named(name) {
            ExprKind::Binary(op, Box::new((next(2)?, next(2)?)))
        } else {
            return Err(p.unknown(mark, "function", name.to_owned()));
        };
        p.expr(mark, kind)
    }

    /// `.1[i, {ids[i]}*2] if 0 <= i < N else 0`, behind the name.
    fn load(&self, p: &mut Parser<'_>, mark: Mark, name: String) -> Parsed<Expr> {
        let Some(source) = (self.env.sources)(&name) else {
            return Err(p.unknown(mark, "operand or stage", name));
        };
        let component = if p.eat(".") { p.count(usize::from(u8::MAX))? } else { 0 };
        let (source, dtype) = match source {
            SourceRef::Operand(id, dtype) => (Source::Operand(id), Some(dtype).filter(|_| component == 0)),
            SourceRef::Stage(id, dtypes) => (Source::Stage(id, component as u8), dtypes.get(component).copied()),
        };
        let Some(dtype) = dtype else {
            return Err(p.unknown(mark, "component", format!("{name}.{component}")));
        };
        p.expect("[")?;
        let mut gathered = Vec::new();
        let mut axis = 0u8;
        let index = p.list("]", |p| {
            let index = self.gathered_index(p, axis, &mut gathered)?;
            axis = axis
                .checked_add(1)
                .ok_or_else(|| p.error(ParseErrorKind::TooMany { what: "axes", limit: usize::from(u8::MAX) }))?;
            Ok(index)
        })?;
        let (mut valid, mut otherwise) = (Vec::new(), Const::zero(dtype));
        if p.eat_word("if") {
            valid = p.bounds(self.env.scope)?;
            p.expect_word("else")?;
            otherwise = p.constant(dtype)?;
        }
        let load = Load { source, index, gather: Vec::new(), valid, otherwise, dtype };
        p.expr(mark, ExprKind::Load(Box::new(load), gathered))
    }

    /// `index + {value}*factor + …`, where the index may be left out.
    fn gathered_index(
        &self,
        p: &mut Parser<'_>,
        axis: u8,
        gathered: &mut Vec<(u8, Expr, IndexExpr)>,
    ) -> Parsed<IndexExpr> {
        let index = if p.is("{") { IndexExpr::constant(0) } else { p.index(self.env.scope)? };
        while p.is("{") || (p.is("+") && p.is_after(1, "{")) {
            p.eat("+");
            p.expect("{")?;
            let value = self.infix(p, 0)?;
            p.expect("}")?;
            let factor = if p.eat("*") { p.index_factor(self.env.scope)? } else { IndexExpr::constant(1) };
            gathered.push((axis, value, factor));
        }
        Ok(index)
    }
}
