//! Parsed expressions before their numbers have types, and how they become operations.

use super::super::MAX_BODY_OPS;
use super::super::error::ParseErrorKind;
use super::super::parser::{Mark, Parsed, Parser};
use super::literal::Literal;
use crate::entity::ScalarId;
use crate::index::IndexExpr;
use crate::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// How high an expression tree may be: this bounds recursion over it.
const MAX_HEIGHT: u32 = 256;

/// An expression.
pub(super) struct Expr {
    mark: Mark,
    height: u32,
    /// The type, unless it is up to the surroundings.
    natural: Option<DType>,
    kind: ExprKind,
}

pub(super) enum ExprKind {
    Literal(Literal),
    /// An operation without operands.
    Leaf(ScalarOp),
    /// Something that has a name already.
    Value(ScalarId, DType),
    /// A load and its gathered indices.
    Load(Box<Load>, Vec<(u8, Expr, IndexExpr)>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<(Expr, Expr)>),
    Compare(CompareOp, Box<(Expr, Expr)>),
    Select(Box<(Expr, Expr, Expr)>),
    Cast {
        to: DType,
        kind: CastKind,
        value: Box<Expr>,
    },
}

/// The conversions: `i32(x)`, `sat_u8(x)`, `bits_u32(x)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CastKind {
    Plain,
    Saturating,
    Bits,
}

impl CastKind {
    /// How the name of a conversion begins, before the type.
    pub(super) const PREFIXES: [(&'static str, CastKind); 3] =
        [("sat_", CastKind::Saturating), ("bits_", CastKind::Bits), ("", CastKind::Plain)];
}

impl Parser<'_> {
    /// Puts a node together.
    pub(super) fn expr(&self, mark: Mark, kind: ExprKind) -> Parsed<Expr> {
        let (natural, height) = match &kind {
            ExprKind::Literal(literal) => (literal.is_bool().then_some(DType::Bool), 0),
            ExprKind::Leaf(op) => (leaf_type(op), 0),
            ExprKind::Value(_, dtype) => (Some(*dtype), 0),
            ExprKind::Load(load, gather) => {
                (Some(load.dtype), gather.iter().map(|(_, v, _)| v.height).max().unwrap_or(0))
            }
            ExprKind::Unary(UnaryOp::IsNan | UnaryOp::IsInf, a) => (Some(DType::Bool), a.height),
            ExprKind::Unary(_, a) => (a.natural, a.height),
            ExprKind::Binary(_, p) => (p.0.natural.or(p.1.natural), p.0.height.max(p.1.height)),
            ExprKind::Compare(_, p) => (Some(DType::Bool), p.0.height.max(p.1.height)),
            ExprKind::Select(p) => (p.1.natural.or(p.2.natural), p.0.height.max(p.1.height).max(p.2.height)),
            ExprKind::Cast { to, value, .. } => (Some(*to), value.height),
        };
        if height == MAX_HEIGHT {
            let limit = MAX_HEIGHT as usize;
            return Err(self.error_at(mark, ParseErrorKind::TooMany { what: "operations in a row", limit }));
        }
        Ok(Expr { mark, height: height + 1, natural, kind })
    }

    /// Adds the operations of an expression to a body. `expected` is the type of numbers that nothing else types.
    pub(super) fn emit(&self, body: &mut Body, expr: &Expr, expected: Option<DType>) -> Parsed<ScalarId> {
        let op = match &expr.kind {
            ExprKind::Literal(literal) => {
                let Some(dtype) = expr.natural.or(expected) else {
                    let text = literal.signed_text();
                    return Err(self.error_at(expr.mark, ParseErrorKind::UntypedLiteral { text }));
                };
                ScalarOp::Const(self.typed(expr.mark, literal, dtype)?)
            }
            ExprKind::Leaf(op) => op.clone(),
            ExprKind::Value(id, _) => return Ok(*id),
            ExprKind::Load(load, gathered) => {
                let mut load = (**load).clone();
                for (axis, value, factor) in gathered {
                    load.gather.push((*axis, self.emit(body, value, Some(DType::I64))?, factor.clone()));
                }
                ScalarOp::Load(load)
            }
            ExprKind::Unary(op, a) => {
                let outside = if matches!(op, UnaryOp::IsNan | UnaryOp::IsInf) { None } else { expected };
                ScalarOp::Unary(*op, self.emit(body, a, a.natural.or(outside))?)
            }
            ExprKind::Binary(op, p) => {
                let common = p.0.natural.or(p.1.natural).or(expected);
                let a = self.emit(body, &p.0, common)?;
                ScalarOp::Binary(*op, a, self.emit(body, &p.1, common)?)
            }
            ExprKind::Compare(op, p) => {
                let common = p.0.natural.or(p.1.natural);
                let a = self.emit(body, &p.0, common)?;
                ScalarOp::Compare(*op, a, self.emit(body, &p.1, common)?)
            }
            ExprKind::Select(p) => {
                let common = p.1.natural.or(p.2.natural).or(expected);
                let c = self.emit(body, &p.0, Some(DType::Bool))?;
                let a = self.emit(body, &p.1, common)?;
                ScalarOp::Select(c, a, self.emit(body, &p.2, common)?)
            }
            ExprKind::Cast { to, kind, value } => {
                let value = self.emit(body, value, None)?;
                match kind {
                    CastKind::Plain => ScalarOp::Cast(*to, value),
                    CastKind::Saturating => ScalarOp::CastSaturating(*to, value),
                    CastKind::Bits => ScalarOp::BitCast(*to, value),
                }
            }
        };
        let id = body.push(op);
        if body.ops.len() > MAX_BODY_OPS {
            let kind = ParseErrorKind::TooMany { what: "operations in one body", limit: MAX_BODY_OPS };
            return Err(self.error_at(expr.mark, kind));
        }
        Ok(id)
    }
}

fn leaf_type(op: &ScalarOp) -> Option<DType> {
    match op {
        ScalarOp::Const(Const { dtype, .. }) | ScalarOp::Param(_, dtype) => Some(*dtype),
        ScalarOp::Index(_) => Some(DType::I64),
        ScalarOp::InBounds(_) => Some(DType::Bool),
        _ => None,
    }
}
