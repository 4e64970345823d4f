//! Folds: how reduction axes are combined.
//!
//! ```text
//! fold sum x[r, c]                  a binary operation from its neutral element
//! fold max(0) x[r, c]               … from another element
//! fold (m: f32 = -inf, s: f32 = 0) with (n, t) => let k = max(m, n); (k, s*exp(m - k) + t*exp(n - k))
//!     over (x[r, c], 1)             any monoid over tuples
//! ```

use super::super::error::ParseErrorKind;
use super::super::index::Names;
use super::super::names::separated;
use super::super::parser::{Mark, Parsed, Parser};
use super::grammar::Env;
use super::literal::{Literal, constant_text};
use super::print::{Block, Printer};
use crate::entity::ScalarId;
use crate::kernel::Reducer;
use crate::scalar::{BinaryOp, Body, Const, has_arithmetic};
use crate::symbol::Symbols;
use infc_tensor::DType;
use std::fmt;

/// The folds that have a name.
const NAMED: [(&str, BinaryOp); 6] = [
    ("sum", BinaryOp::Add),
    ("prod", BinaryOp::Mul),
    ("max", BinaryOp::Max),
    ("min", BinaryOp::Min),
    ("all", BinaryOp::And),
    ("any", BinaryOp::Or),
];

/// What a fold starts from if nothing is said.
fn neutral(op: BinaryOp, dtype: DType) -> Const {
    let lowest = || {
        if dtype.is_float() {
            return Const::from_f64(dtype, f64::NEG_INFINITY);
        }
        let bits = dtype.size_bits() as u32;
        match dtype.class() {
            infc_tensor::DTypeClass::Signed => Const::from_i64(dtype, i64::MIN >> (64 - bits)),
            _ => Const::zero(dtype),
        }
    };
    let highest = || {
        if dtype.is_float() {
            return Const::from_f64(dtype, f64::INFINITY);
        }
        let bits = dtype.size_bits() as u32;
        match dtype.class() {
            infc_tensor::DTypeClass::Signed => Const::from_i64(dtype, i64::MAX >> (64 - bits)),
            infc_tensor::DTypeClass::Bool => Const::from_i64(dtype, 1),
            _ => Const::from_i64(dtype, -1),
        }
    };
    match op {
        BinaryOp::Mul => Const::from_i64(dtype, 1),
        BinaryOp::Max => lowest(),
        BinaryOp::Min => highest(),
        BinaryOp::And => Const::from_i64(dtype, if dtype == DType::Bool { 1 } else { -1 }),
        _ => Const::zero(dtype),
    }
}

/// A fold of which the element is not yet parsed.
pub(in super::super) struct Fold(Start);

/// What a fold says in front of its element.
enum Start {
    /// A binary operation with what it starts from, if that is said.
    Named(BinaryOp, Option<Literal>, Mark),
    /// A general fold.
    General(Reducer),
}

/// Parses what follows `fold`, up to the element.
pub(in super::super) fn parse_reducer(p: &mut Parser<'_>, env: Env<'_>) -> Parsed<Fold> {
    let mark = p.mark();
    if !p.eat("(") {
        let name = p.name("a fold")?;
        let Some((_, op)) = NAMED.iter().find(|(n, _)| *n == name) else {
            return Err(p.unknown(mark, "fold", name));
        };
        // `max(-inf) x` has a start, `max (x + y)` has not.
        let sign = usize::from(p.is_after(1, "-"));
        let mut init = None;
        let at = p.mark();
        if p.is("(") && p.is_literal_after(1 + sign) && p.is_after(2 + sign, ")") {
            p.advance();
            init = Some(p.literal()?);
            p.expect(")")?;
        }
        return Ok(Fold(Start::Named(*op, init, at)));
    }
    let mut params: Vec<(String, DType)> = Vec::new();
    let init = p.list(")", |p| {
        let at = p.mark();
        let name = p.name("a name")?;
        p.expect(":")?;
        let dtype = p.dtype()?;
        if params.iter().any(|(n, _)| *n == name) {
            return Err(p.error_at(at, ParseErrorKind::Duplicate { name }));
        }
        params.push((name, dtype));
        p.expect("=")?;
        p.constant(dtype)
    })?;
    let dtypes: Vec<DType> = params.iter().map(|(_, d)| *d).collect();
    p.expect_word("with")?;
    p.expect("(")?;
    let mut elements = dtypes.iter();
    let (mut names, at) = (Vec::new(), p.mark());
    p.list(")", |p| {
        let at = p.mark();
        let name = p.name("a name")?;
        if params.iter().chain(&names).any(|(n, _)| *n == name) {
            return Err(p.error_at(at, ParseErrorKind::Duplicate { name }));
        }
        names.push((name, elements.next().copied().unwrap_or(DType::F32)));
        Ok(())
    })?;
    if names.len() != dtypes.len() || 2 * dtypes.len() > usize::from(u8::MAX) {
        let (expected, found) = (dtypes.len(), names.len());
        return Err(p.error_at(at, ParseErrorKind::WrongCount { what: "elements of a fold", expected, found }));
    }
    params.extend(names);
    p.expect("=>")?;
    let inner = Env { params: &params, ..env };
    let (combine, results) = p.block(inner, Some(dtypes.len()), &dtypes)?;
    p.expect_word("over")?;
    Ok(Fold(Start::General(Reducer { init, combine, results })))
}

impl Fold {
    /// How many elements the fold takes.
    pub(in super::super) fn count(&self) -> usize {
        match &self.0 {
            Start::Named(..) => 1,
            Start::General(reducer) => reducer.init.len(),
        }
    }

    /// The types of numbers among the elements.
    pub(in super::super) fn expected(&self) -> Vec<DType> {
        match &self.0 {
            Start::Named(..) => Vec::new(),
            Start::General(reducer) => reducer.init.iter().map(|c| c.dtype).collect(),
        }
    }

    /// The reducer, now that the element is known.
    pub(in super::super) fn finish(self, p: &Parser<'_>, body: &Body, elements: &[ScalarId]) -> Parsed<Reducer> {
        match self.0 {
            Start::General(reducer) => Ok(reducer),
            Start::Named(op, init, mark) => {
                let dtype = elements.first().map_or(DType::F32, |&e| body.dtype(e));
                let init = match init {
                    Some(literal) => p.typed(mark, &literal, dtype)?,
                    None if has_arithmetic(dtype) => neutral(op, dtype),
                    None => {
                        let text = dtype.name().to_owned();
                        return Err(p.error_at(mark, ParseErrorKind::UntypedLiteral { text }));
                    }
                };
                Ok(Reducer::binary(op, init))
            }
        }
    }
}

/// `fold …` up to the blank in front of the element.
pub(in super::super) struct FoldText<'a>(pub(in super::super) &'a Reducer, pub(in super::super) &'a Symbols);

impl FoldText<'_> {
    fn named(&self) -> Option<(&'static str, BinaryOp, Const)> {
        let op = self.0.as_binary()?;
        let [init] = self.0.init[..] else { return None };
        let (name, _) = NAMED.iter().find(|(_, o)| *o == op)?;
        let readable = has_arithmetic(init.dtype) && !constant_text(init).starts_with("bits");
        (readable && *self.0 == Reducer::binary(op, init)).then_some((name, op, init))
    }

    /// The types that the reader knows of the elements.
    pub(in super::super) fn expected(&self) -> Vec<DType> {
        if self.named().is_some() { Vec::new() } else { self.0.init.iter().map(|c| c.dtype).collect() }
    }
}

impl fmt::Display for FoldText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, op, init)) = self.named() {
            write!(f, "fold {name}")?;
            if init != neutral(op, init.dtype) {
                write!(f, "({})", constant_text(init))?;
            }
            return Ok(());
        }
        let Self(reducer, symbols) = self;
        let count = reducer.init.len();
        f.write_str("fold (")?;
        separated(f, ", ", reducer.init.iter().enumerate(), |f, (n, c)| {
            write!(f, "a{n}: {} = {}", c.dtype, constant_text(*c))
        })?;
        f.write_str(") with (")?;
        separated(f, ", ", 0..count, |f, n| write!(f, "e{n}"))?;
        f.write_str(") => ")?;
        let params: Vec<String> =
            (0..count).map(|n| format!("a{n}")).chain((0..count).map(|n| format!("e{n}"))).collect();
        let printer = Printer { names: Names { vars: &[], symbols }, source: &|s| format!("{s:?}"), params: &params };
        let expected: Vec<DType> = reducer.init.iter().map(|c| c.dtype).collect();
        let (body, roots) = (&reducer.combine, &reducer.results[..]);
        write!(f, "{} over", Block { printer, body, roots, expected: &expected, separator: "; " })
    }
}
