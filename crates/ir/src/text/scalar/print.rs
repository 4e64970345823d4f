//! How blocks and expressions print.

use super::super::index::{Bounds, Index, Names};
use super::super::names::{Name, separated};
use super::literal::constant_text;
use super::ops::{PREFIX_LEVEL, binary_text, compare_text, unary_name};
use super::plan::Plan;
use crate::entity::{EntityId, ScalarId};
use crate::scalar::{Body, Const, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;
use std::fmt;

/// The names that a block prints.
#[derive(Clone, Copy)]
pub(in super::super) struct Printer<'a> {
    pub(in super::super) names: Names<'a>,
    /// The name in front of the index of a load.
    pub(in super::super) source: &'a dyn Fn(Source) -> String,
    /// Names of the parameters.
    pub(in super::super) params: &'a [String],
}

/// `let v0 = …; results`.
pub(in super::super) struct Block<'a> {
    pub(in super::super) printer: Printer<'a>,
    pub(in super::super) body: &'a Body,
    pub(in super::super) roots: &'a [ScalarId],
    /// Types of the results that the reader knows.
    pub(in super::super) expected: &'a [DType],
    /// What stands between two parts: `"; "`, or a line break.
    pub(in super::super) separator: &'a str,
}

impl fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !in_order(self.body) {
            return f.write_str("?");
        }
        let plan = Plan::new(self.body, self.roots);
        let writer = Writer { block: self, lets: &plan.lets, natural: natural_types(self.body, &plan.lets) };
        for &id in &plan.lets {
            write!(f, "let v{} = ", writer.let_number(id).unwrap_or_default())?;
            writer.write_op(f, id, None, 0)?;
            f.write_str(self.separator)?;
        }
        let root = |f: &mut fmt::Formatter<'_>, (n, id): (usize, &ScalarId)| {
            writer.write(f, *id, self.expected.get(n).copied(), 0)
        };
        match self.roots {
            [only] => root(f, (0, only)),
            roots => {
                f.write_str("(")?;
                separated(f, ", ", roots.iter().enumerate(), root)?;
                f.write_str(")")
            }
        }
    }
}

/// False for bodies that no verifier lets pass, and that would print forever.
fn in_order(body: &Body) -> bool {
    let mut in_order = true;
    for (id, op) in body.ops.iter_enumerated() {
        op.for_each_operand(&mut |o| in_order &= o < id);
    }
    in_order
}

/// The types that the reader knows without surroundings; see `expr.rs` for the other side.
fn natural_types(body: &Body, lets: &[ScalarId]) -> Vec<Option<DType>> {
    let mut natural: Vec<Option<DType>> = Vec::with_capacity(body.ops.len());
    for (id, op) in body.ops.iter_enumerated() {
        let of = |o: &ScalarId| natural.get(o.index()).copied().flatten();
        let dtype = match op {
            ScalarOp::Const(Const { dtype: DType::Bool, .. }) => Some(DType::Bool),
            ScalarOp::Const(_) => None,
            ScalarOp::Param(_, dtype)
            | ScalarOp::Cast(dtype, _)
            | ScalarOp::CastSaturating(dtype, _)
            | ScalarOp::BitCast(dtype, _) => Some(*dtype),
            ScalarOp::Index(_) => Some(DType::I64),
            ScalarOp::InBounds(_) | ScalarOp::Compare(..) | ScalarOp::Unary(UnaryOp::IsNan | UnaryOp::IsInf, _) => {
                Some(DType::Bool)
            }
            ScalarOp::Load(load) => Some(load.dtype),
            ScalarOp::Unary(_, a) => of(a),
            ScalarOp::Binary(_, a, b) | ScalarOp::Select(_, a, b) => of(a).or(of(b)),
        };
        let named = dtype.is_none() && lets.contains(&id);
        natural.push(if named { Some(body.dtype(id)) } else { dtype });
    }
    natural
}

struct Writer<'a> {
    block: &'a Block<'a>,
    lets: &'a [ScalarId],
    natural: Vec<Option<DType>>,
}

impl Writer<'_> {
    fn let_number(&self, id: ScalarId) -> Option<usize> {
        self.lets.iter().position(|l| *l == id)
    }

    fn natural(&self, id: ScalarId) -> Option<DType> {
        self.natural.get(id.index()).copied().flatten()
    }

    /// An operand, in parentheses if it binds more weakly than `least`.
    fn write(&self, f: &mut fmt::Formatter<'_>, id: ScalarId, expected: Option<DType>, least: u8) -> fmt::Result {
        match self.let_number(id) {
            Some(n) => write!(f, "v{n}"),
            None => self.write_op(f, id, expected, least),
        }
    }

    fn write_op(&self, f: &mut fmt::Formatter<'_>, id: ScalarId, expected: Option<DType>, least: u8) -> fmt::Result {
        let Some(op) = self.block.body.ops.get(id) else { return write!(f, "{id}") };
        let names = self.block.printer.names;
        match op {
            ScalarOp::Const(c) => write_const(f, *c, self.natural(id).or(expected)),
            ScalarOp::Param(n, _) => match self.block.printer.params.get(usize::from(*n)) {
                Some(name) => write!(f, "{}", Name(name)),
                None => write!(f, "p{n}"),
            },
            ScalarOp::Index(e) => write!(f, "index({})", Index(e, names)),
            ScalarOp::InBounds(bounds) => write!(f, "inbounds({})", Bounds(bounds, names)),
            ScalarOp::Load(load) => self.write_load(f, load, least),
            ScalarOp::Unary(op, a) => {
                let outside = if matches!(op, UnaryOp::IsNan | UnaryOp::IsInf) { None } else { expected };
                let expected = self.natural(*a).or(outside);
                // A sign in front of a number would become part of it.
                let number = matches!(self.block.body.ops.get(*a), Some(ScalarOp::Const(_)));
                let sign = match op {
                    UnaryOp::Neg if !number => "-",
                    UnaryOp::Not if !number => "!",
                    _ => {
                        write!(f, "{}(", unary_name(*op))?;
                        self.write(f, *a, expected, 0)?;
                        return f.write_str(")");
                    }
                };
                f.write_str(sign)?;
                self.write(f, *a, expected, PREFIX_LEVEL)
            }
            ScalarOp::Binary(op, a, b) => {
                let common = self.natural(*a).or(self.natural(*b)).or(expected);
                match binary_text(*op) {
                    (text, Some(level)) => self.write_infix(f, (*a, text, *b), common, level, least),
                    (text, None) => self.write_call(f, text, &[(*a, common), (*b, common)]),
                }
            }
            ScalarOp::Compare(op, a, b) => {
                let common = self.natural(*a).or(self.natural(*b));
                let (text, level) = compare_text(*op);
                self.write_infix(f, (*a, text, *b), common, level, least)
            }
            ScalarOp::Select(c, a, b) => {
                let common = self.natural(*a).or(self.natural(*b)).or(expected);
                self.write_call(f, "select", &[(*c, Some(DType::Bool)), (*a, common), (*b, common)])
            }
            ScalarOp::Cast(to, a) => self.write_call(f, to.name(), &[(*a, None)]),
            ScalarOp::CastSaturating(to, a) => self.write_call(f, &format!("sat_{to}"), &[(*a, None)]),
            ScalarOp::BitCast(to, a) => self.write_call(f, &format!("bits_{to}"), &[(*a, None)]),
        }
    }

    fn write_infix(
        &self,
        f: &mut fmt::Formatter<'_>,
        (a, text, b): (ScalarId, &str, ScalarId),
        common: Option<DType>,
        level: u8,
        least: u8,
    ) -> fmt::Result {
        let parentheses = level < least;
        f.write_str(if parentheses { "(" } else { "" })?;
        self.write(f, a, common, level)?;
        write!(f, " {text} ")?;
        self.write(f, b, common, level + 1)?;
        f.write_str(if parentheses { ")" } else { "" })
    }

    fn write_call(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        arguments: &[(ScalarId, Option<DType>)],
    ) -> fmt::Result {
        write!(f, "{name}(")?;
        separated(f, ", ", arguments, |f, (id, expected)| self.write(f, *id, *expected, 0))?;
        f.write_str(")")
    }

    fn write_load(&self, f: &mut fmt::Formatter<'_>, load: &Load, least: u8) -> fmt::Result {
        let names = self.block.printer.names;
        let parentheses = !load.valid.is_empty() && least > 0;
        f.write_str(if parentheses { "(" } else { "" })?;
        write!(f, "{}[", (self.block.printer.source)(load.source))?;
        separated(f, ", ", load.index.iter().enumerate(), |f, (axis, index)| {
            let gathered = || load.gather.iter().filter(move |(a, _, _)| usize::from(*a) == axis);
            let mut plus = "";
            if gathered().next().is_none() || !index.is_const(0) {
                write!(f, "{}", Index(index, names))?;
                plus = " + ";
            }
            for (_, value, factor) in gathered() {
                write!(f, "{plus}{{")?;
                self.write(f, *value, Some(DType::I64), 0)?;
                f.write_str("}")?;
                plus = " + ";
                match factor.as_const() {
                    Some(1) => {}
                    Some(c) if c >= 0 => write!(f, "*{c}")?,
                    _ => write!(f, "*({})", Index(factor, names))?,
                }
            }
            Ok(())
        })?;
        f.write_str("]")?;
        if !load.valid.is_empty() {
            let otherwise = constant_text(load.otherwise);
            write!(f, " if {} else {otherwise}", Bounds(&load.valid, names))?;
        }
        f.write_str(if parentheses { ")" } else { "" })
    }
}

/// A number, bare if the reader knows its type.
fn write_const(f: &mut fmt::Formatter<'_>, c: Const, expected: Option<DType>) -> fmt::Result {
    let text = constant_text(c);
    if expected == Some(c.dtype) || text.starts_with("bits") {
        f.write_str(&text)
    } else {
        write!(f, "{}({text})", c.dtype)
    }
}
