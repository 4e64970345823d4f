//! Sizes that depend on the dims of the inputs.
//!
//! A [`SizeExpr`] is kept as postfix code rather than as a tree of boxes: it decodes, prints, evaluates and drops
//! without recursion (an artifact is hostile input), and evaluation needs a fixed stack and no heap, so a runtime may
//! do it on every run.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Mul, Sub};

/// Operands that may wait on the evaluation stack.
const MAX_DEPTH: usize = 32;
/// Operations in one expression.
const MAX_OPS: usize = 4096;

/// One operation of the postfix form. The order of the variants is part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SizeOp {
    /// Pushes a number.
    Const(i64),
    /// Pushes the value of the entry's symbol of this index.
    Symbol(u32),
    /// Pops two, pushes their sum.
    Add,
    /// Pops two, pushes their product.
    Mul,
    /// Pops `b`, then `a`, pushes ⌊a / b⌋.
    FloorDiv,
    /// Pops `b`, then `a`, pushes ⌈a / b⌉.
    CeilDiv,
    /// Pops `b`, then `a`, pushes a − b·⌊a / b⌋.
    Mod,
    /// Pops two, pushes the smaller.
    Min,
    /// Pops two, pushes the larger.
    Max,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum EvalError {
    #[error("the value does not fit in 64 bits")]
    Overflow,
    #[error("division by {divisor}; only positive divisors are defined")]
    Divisor { divisor: i64 },
    #[error("symbol {symbol} is not among the {known} known ones")]
    UnknownSymbol { symbol: u32, known: usize },
    #[error("the value {value} is negative, a size was expected")]
    Negative { value: i64 },
    #[error("the expression is malformed or too deep (at most {MAX_DEPTH} operands may wait)")]
    Malformed,
}

/// An integer expression over the symbols of an [`Entry`](crate::Entry), with checked 64-bit arithmetic.
///
/// Built with the operators `+`, `-`, `*` and the methods below; constant parts fold on construction.
///
/// ```
/// use infc_artifact::SizeExpr;
/// let rows = SizeExpr::symbol(0);
/// let bytes = rows.ceil_div(SizeExpr::constant(16)) * SizeExpr::constant(64);
/// assert_eq!(bytes.eval(&[17]), Ok(128));
/// assert_eq!(bytes.to_string(), "ceil(s0 / 16) * 64");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Repr", into = "Repr")]
pub struct SizeExpr(Repr);

/// Constants, by far the most frequent, need no heap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
enum Repr {
    Const(i64),
    Postfix(Vec<SizeOp>),
}

impl SizeExpr {
    /// A number.
    #[must_use]
    pub const fn constant(value: i64) -> Self {
        Self(Repr::Const(value))
    }

    /// A number of bytes or elements; saturates at `i64::MAX`, which no buffer reaches.
    #[must_use]
    pub fn size(value: usize) -> Self {
        Self::constant(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// The symbol of this index.
    #[must_use]
    pub fn symbol(index: u32) -> Self {
        Self(Repr::Postfix(vec![SizeOp::Symbol(index)]))
    }

    /// The expression with this postfix code, or `None` if it is not one value or exceeds the limits of the format.
    #[must_use]
    pub fn from_ops(ops: &[SizeOp]) -> Option<Self> {
        Self::try_from(Repr::Postfix(ops.to_vec())).ok()
    }

    /// The postfix code.
    #[must_use]
    pub fn ops(&self) -> Vec<SizeOp> {
        self.code().to_vec()
    }

    /// ⌊self / divisor⌋.
    #[must_use]
    pub fn floor_div(self, divisor: Self) -> Self {
        if divisor.as_const() == Some(1) { self } else { Self::binary(SizeOp::FloorDiv, self, divisor) }
    }

    /// ⌈self / divisor⌉.
    #[must_use]
    pub fn ceil_div(self, divisor: Self) -> Self {
        if divisor.as_const() == Some(1) { self } else { Self::binary(SizeOp::CeilDiv, self, divisor) }
    }

    /// The remainder of [`SizeExpr::floor_div`].
    #[must_use]
    pub fn modulo(self, divisor: Self) -> Self {
        Self::binary(SizeOp::Mod, self, divisor)
    }

    /// The smaller of the two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::binary(SizeOp::Min, self, other)
    }

    /// The larger of the two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self::binary(SizeOp::Max, self, other)
    }

    /// The number, if no symbol is involved.
    #[must_use]
    pub fn as_const(&self) -> Option<i64> {
        match self.0 {
            Repr::Const(value) => Some(value),
            Repr::Postfix(_) => None,
        }
    }

    /// The symbol's index, if the expression is nothing but one symbol.
    #[must_use]
    pub fn as_symbol(&self) -> Option<u32> {
        match &self.0 {
            Repr::Postfix(ops) => match ops[..] {
                [SizeOp::Symbol(index)] => Some(index),
                _ => None,
            },
            Repr::Const(_) => None,
        }
    }

    /// The largest symbol index used, if any.
    #[must_use]
    pub fn max_symbol(&self) -> Option<u32> {
        self.code().iter().filter_map(|op| if let SizeOp::Symbol(s) = op { Some(*s) } else { None }).max()
    }

    /// Calls `f` for every mention of a symbol.
    pub fn for_each_symbol(&self, f: &mut dyn FnMut(u32)) {
        for op in self.code().iter() {
            if let SizeOp::Symbol(symbol) = op {
                f(*symbol);
            }
        }
    }

    /// The value when symbol `i` is `symbols[i]`. Makes no heap call.
    ///
    /// # Errors
    /// [`EvalError`] on overflow, a divisor below one, or a symbol beyond `symbols`.
    pub fn eval(&self, symbols: &[i64]) -> Result<i64, EvalError> {
        let ops = match &self.0 {
            Repr::Const(value) => return Ok(*value),
            Repr::Postfix(ops) => ops,
        };
        let mut stack = [0i64; MAX_DEPTH];
        let mut len = 0;
        for &op in ops {
            let value = match op {
                SizeOp::Const(value) => value,
                SizeOp::Symbol(symbol) => {
                    *symbols.get(symbol as usize).ok_or(EvalError::UnknownSymbol { symbol, known: symbols.len() })?
                }
                _ => {
                    if len < 2 {
                        return Err(EvalError::Malformed);
                    }
                    len -= 2;
                    apply(op, stack[len], stack[len + 1])?
                }
            };
            *stack.get_mut(len).ok_or(EvalError::Malformed)? = value;
            len += 1;
        }
        if len == 1 { Ok(stack[0]) } else { Err(EvalError::Malformed) }
    }

    /// As [`SizeExpr::eval`], for values that must be sizes.
    ///
    /// # Errors
    /// Also [`EvalError::Negative`].
    pub fn eval_size(&self, symbols: &[i64]) -> Result<usize, EvalError> {
        let value = self.eval(symbols)?;
        usize::try_from(value).map_err(|_| EvalError::Negative { value })
    }

    /// The expression as text, symbols by name (`s<index>` where there is no name).
    #[must_use]
    pub fn to_text(&self, symbol_names: &[&str]) -> String {
        // Each entry is a text and whether it is a sum (to be put in parentheses inside a product).
        let mut stack: Vec<(String, bool)> = Vec::new();
        for &op in self.code().iter() {
            let item = match op {
                SizeOp::Const(value) => (value.to_string(), false),
                SizeOp::Symbol(s) => {
                    (symbol_names.get(s as usize).map_or_else(|| format!("s{s}"), |&n| n.to_owned()), false)
                }
                _ => {
                    let (Some((b, b_sum)), Some((a, a_sum))) = (stack.pop(), stack.pop()) else {
                        return "malformed".to_owned();
                    };
                    let factor = |text: String, sum: bool| if sum { format!("({text})") } else { text };
                    match op {
                        SizeOp::Add => (format!("{a} + {b}"), true),
                        SizeOp::Mul => (format!("{} * {}", factor(a, a_sum), factor(b, b_sum)), false),
                        SizeOp::FloorDiv => (format!("floor({} / {})", factor(a, a_sum), factor(b, b_sum)), false),
                        SizeOp::CeilDiv => (format!("ceil({} / {})", factor(a, a_sum), factor(b, b_sum)), false),
                        SizeOp::Mod => (format!("mod({a}, {b})"), false),
                        SizeOp::Min => (format!("min({a}, {b})"), false),
                        _ => (format!("max({a}, {b})"), false),
                    }
                }
            };
            stack.push(item);
        }
        stack.pop().map_or_else(|| "malformed".to_owned(), |(text, _)| text)
    }

    /// True if the expression is within the limits that the format sets.
    pub(crate) fn is_within_limits(&self) -> bool {
        is_one_value(&self.code())
    }

    fn code(&self) -> CodeRef<'_> {
        match &self.0 {
            Repr::Const(value) => CodeRef::Const([SizeOp::Const(*value)]),
            Repr::Postfix(ops) => CodeRef::Postfix(ops),
        }
    }

    fn binary(op: SizeOp, a: Self, b: Self) -> Self {
        if let (Some(x), Some(y)) = (a.as_const(), b.as_const())
            && let Ok(value) = apply(op, x, y)
        {
            return Self::constant(value);
        }
        let mut ops = a.into_code();
        ops.extend_from_slice(&b.code());
        ops.push(op);
        Self(Repr::Postfix(ops))
    }

    fn into_code(self) -> Vec<SizeOp> {
        match self.0 {
            Repr::Const(value) => vec![SizeOp::Const(value)],
            Repr::Postfix(ops) => ops,
        }
    }
}

/// The postfix code of either representation.
enum CodeRef<'a> {
    Const([SizeOp; 1]),
    Postfix(&'a [SizeOp]),
}

impl std::ops::Deref for CodeRef<'_> {
    type Target = [SizeOp];

    fn deref(&self) -> &[SizeOp] {
        match self {
            CodeRef::Const(one) => one,
            CodeRef::Postfix(ops) => ops,
        }
    }
}

/// One binary operation, checked.
fn apply(op: SizeOp, a: i64, b: i64) -> Result<i64, EvalError> {
    if matches!(op, SizeOp::FloorDiv | SizeOp::CeilDiv | SizeOp::Mod) && b < 1 {
        return Err(EvalError::Divisor { divisor: b });
    }
    match op {
        SizeOp::Add => a.checked_add(b),
        SizeOp::Mul => a.checked_mul(b),
        // The divisor is positive, so Euclidean division is floor division and cannot overflow.
        SizeOp::FloorDiv => Some(a.div_euclid(b)),
        SizeOp::CeilDiv => a.div_euclid(b).checked_add(i64::from(a.rem_euclid(b) != 0)),
        SizeOp::Mod => Some(a.rem_euclid(b)),
        SizeOp::Min => Some(a.min(b)),
        SizeOp::Max => Some(a.max(b)),
        SizeOp::Const(_) | SizeOp::Symbol(_) => return Err(EvalError::Malformed),
    }
    .ok_or(EvalError::Overflow)
}

/// True if running `ops` leaves exactly one value and stays within the limits.
fn is_one_value(ops: &[SizeOp]) -> bool {
    let mut depth = 0usize;
    for op in ops {
        match op {
            SizeOp::Const(_) | SizeOp::Symbol(_) => depth += 1,
            _ if depth >= 2 => depth -= 1,
            _ => return false,
        }
        if depth > MAX_DEPTH {
            return false;
        }
    }
    depth == 1 && ops.len() <= MAX_OPS
}

impl TryFrom<Repr> for SizeExpr {
    type Error = EvalError;

    fn try_from(repr: Repr) -> Result<Self, EvalError> {
        match repr {
            // A constant has one form only, so that equal expressions are equal bytes.
            Repr::Postfix(ops) => match ops[..] {
                [SizeOp::Const(value)] => Ok(Self(Repr::Const(value))),
                _ if is_one_value(&ops) => Ok(Self(Repr::Postfix(ops))),
                _ => Err(EvalError::Malformed),
            },
            Repr::Const(_) => Ok(Self(repr)),
        }
    }
}

impl From<SizeExpr> for Repr {
    fn from(expr: SizeExpr) -> Self {
        expr.0
    }
}

impl From<i64> for SizeExpr {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

impl Add for SizeExpr {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        match (self.as_const(), other.as_const()) {
            (Some(0), _) => other,
            (_, Some(0)) => self,
            _ => Self::binary(SizeOp::Add, self, other),
        }
    }
}

impl Sub for SizeExpr {
    type Output = Self;

    /// a − b is kept as a + b · (−1): the file format has no subtraction.
    fn sub(self, other: Self) -> Self {
        self + other * Self::constant(-1)
    }
}

impl Mul for SizeExpr {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        match (self.as_const(), other.as_const()) {
            (Some(1), _) => other,
            (_, Some(1)) => self,
            (Some(0), _) | (_, Some(0)) => Self::constant(0),
            _ => Self::binary(SizeOp::Mul, self, other),
        }
    }
}

impl fmt::Display for SizeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_text(&[]))
    }
}

impl fmt::Debug for SizeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SizeExpr({self})")
    }
}
