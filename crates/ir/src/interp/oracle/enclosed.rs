//! Numbers in `f64` with how far code may be off that computes them in their types: running error analysis (Wilkinson; Higham,
//! "Accuracy and Stability of Numerical Algorithms", 2002, section 3.3).
//!
//! Every operation passes the errors of its operands on and adds a rounding of its own. What is decided by numbers that are
//! known to within an error only (a comparison, a place in memory) may be decided either way.

use crate::scalar::{
    BinaryOp, CompareOp, Scalar, UnaryOp, eval_binary, eval_bit_cast, eval_cast, eval_compare, eval_unary,
};
use infc_tensor::{DType, DTypeClass};

/// A value and an error: what computes it right is at most that far from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enclosed {
    /// Floats without any rounding to their type, integers wrapped to theirs.
    pub(super) value: Scalar,
    /// Infinite if nothing is known; 0 if this is the value.
    pub(super) error: f64,
}

/// How many units in the last place functions and divisions may be off; what [`crate::math`] promises of most is 3 at most.
const FUNCTION_ULPS: f64 = 4.0;

/// Half a unit in the last place of 1, and the least number of a type.
fn precision(dtype: DType) -> (f64, f64) {
    let (bits, least) = match dtype {
        DType::F64 => (53, f64::MIN_POSITIVE),
        DType::F32 => (24, 2f64.powi(-149)),
        DType::F16 => (11, 2f64.powi(-24)),
        DType::BF16 => (8, 2f64.powi(-133)),
        // Of eight bits and fewer.
        _ => (2, 2f64.powi(-16)),
    };
    (2f64.powi(-bits), least)
}

/// Where rounding to the type gives an infinity.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        // Whether these saturate is the cast's.
        _ => 0.0,
    }
}

impl Enclosed {
    pub(super) fn exactly(value: Scalar) -> Self {
        Self { value, error: 0.0 }
    }

    fn unknown(like: Scalar) -> Self {
        Self { value: like, error: f64::INFINITY }
    }

    pub(super) fn is_known(self) -> bool {
        self.error < f64::INFINITY
    }

    fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// The value and what lies at the ends.
    fn ends(self, dtype: DType) -> Vec<Scalar> {
        match self.value {
            _ if self.is_exact() => vec![self.value],
            _ if dtype == DType::Bool => vec![self.value, Scalar::Int(1 - self.value.to_i64())],
            Scalar::Float(x) => vec![self.value, Scalar::Float(x - self.error), Scalar::Float(x + self.error)],
            Scalar::Int(n) => {
                let by = self.error.ceil() as i64;
                vec![self.value, Scalar::Int(n.saturating_sub(by)), Scalar::Int(n.saturating_add(by))]
            }
        }
    }

    /// Of values that the first of them stands for, rounded `ulps` half units in the last place of their type.
    fn spread(dtype: DType, values: impl Iterator<Item = Scalar>, ulps: f64) -> Self {
        let mut values = values.peekable();
        let Some(&value) = values.peek() else { return Self::unknown(Scalar::Int(0)) };
        let error = values.fold(0.0f64, |error, other| match (value, other) {
            // Infinities of one sign are the same, numbers that are none are not known.
            (Scalar::Float(x), Scalar::Float(y)) if x == y => error,
            (Scalar::Int(x), Scalar::Int(y)) => error.max(x.abs_diff(y) as f64),
            _ => {
                let apart = (other.to_f64() - value.to_f64()).abs();
                if apart.is_nan() { f64::INFINITY } else { error.max(apart) }
            }
        });
        Self { value, error }.rounded(dtype, ulps)
    }

    /// With a rounding to a type.
    fn rounded(self, dtype: DType, ulps: f64) -> Self {
        let Scalar::Float(x) = self.value else { return self };
        if x.is_nan() {
            return Self::unknown(self.value);
        }
        if x.is_infinite() || ulps == 0.0 {
            return self;
        }
        let (unit, least) = precision(dtype);
        let error = self.error + ulps * (unit * x.abs() + least);
        // Some compute an infinity there, and some do not.
        let is_large = x.abs() + self.error >= largest(dtype) * (1.0 + unit);
        Self { value: self.value, error: if is_large { f64::INFINITY } else { error } }
    }

    pub(super) fn unary(op: UnaryOp, dtype: DType, a: Self) -> Self {
        if !a.is_known() {
            return Self::unknown(eval_unary(op, dtype, a.value));
        }
        if !dtype.is_float() {
            return Self::spread(dtype, a.ends(dtype).into_iter().map(|x| eval_unary(op, dtype, x)), 0.0);
        }
        let exact = |x: Scalar| eval_unary(op, DType::F64, x);
        let ulps = match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Not | UnaryOp::Tf32 => 0.0,
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round | UnaryOp::IsNan | UnaryOp::IsInf => 0.0,
            _ => 2.0 * FUNCTION_ULPS,
        };
        let mut result = Self::spread(dtype, a.ends(dtype).into_iter().map(exact), ulps);
        // They turn round within the interval.
        if matches!(op, UnaryOp::Sin | UnaryOp::Cos) {
            result.error = result.error.max(a.error + 2.0 * FUNCTION_ULPS * precision(dtype).0);
        }
        result
    }

    pub(super) fn binary(op: BinaryOp, dtype: DType, a: Self, b: Self) -> Self {
        let of = if dtype.is_float() { DType::F64 } else { dtype };
        if !a.is_known() || !b.is_known() {
            return Self::unknown(eval_binary(op, of, a.value, b.value));
        }
        let (Scalar::Float(x), Scalar::Float(y)) = (a.value, b.value) else {
            return Self::corners(dtype, a, b, 0.0, |x, y| eval_binary(op, dtype, x, y));
        };
        let value = eval_binary(op, of, a.value, b.value);
        let error = match op {
            _ if !value.to_f64().is_finite() || (a.is_exact() && b.is_exact()) => None,
            BinaryOp::Add | BinaryOp::Sub => Some(a.error + b.error),
            BinaryOp::Mul => Some(x.abs() * b.error + y.abs() * a.error + a.error * b.error),
            BinaryOp::Div if y.abs() <= b.error => return Self::unknown(value),
            BinaryOp::Div => Some((a.error + value.to_f64().abs() * b.error) / (y.abs() - b.error)),
            // They jump.
            BinaryOp::Mod | BinaryOp::Rem => Some(a.error.max(y.abs() + b.error)),
            _ => None,
        };
        let ulps = match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => 1.0,
            BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => 0.0,
            _ => 2.0 * FUNCTION_ULPS,
        };
        match error {
            Some(error) => Self { value, error }.rounded(dtype, ulps),
            None => Self::corners(dtype, a, b, ulps, |x, y| eval_binary(op, of, x, y)),
        }
    }

    fn corners(dtype: DType, a: Self, b: Self, ulps: f64, f: impl Fn(Scalar, Scalar) -> Scalar) -> Self {
        let (xs, ys) = (a.ends(dtype), b.ends(dtype));
        Self::spread(dtype, xs.iter().flat_map(|&x| ys.iter().map(move |&y| (x, y))).map(|(x, y)| f(x, y)), ulps)
    }

    pub(super) fn compare(op: CompareOp, dtype: DType, a: Self, b: Self) -> Self {
        let value = eval_compare(op, dtype, a.value, b.value);
        let is_open = a.error + b.error > 0.0
            && (a.value.to_f64() - b.value.to_f64()).abs() <= a.error + b.error
            && a.value.to_f64().is_finite();
        Self { value, error: if is_open || !a.is_known() || !b.is_known() { 1.0 } else { 0.0 } }
    }

    /// `self ? a : b`, of a type.
    pub(super) fn select(self, dtype: DType, a: Self, b: Self) -> Self {
        let (chosen, other) = if self.value.is_true() { (a, b) } else { (b, a) };
        if self.is_exact() {
            return chosen;
        }
        let open = Self::spread(dtype, [chosen.value, other.value].into_iter(), 0.0);
        Self { error: open.error + a.error.max(b.error), ..open }
    }

    pub(super) fn cast(from: DType, to: DType, saturating: bool, a: Self) -> Self {
        let wide = if from.is_float() { DType::F64 } else { from };
        let cast = |x: Scalar| eval_cast(wide, to, saturating, x);
        if !a.is_known() {
            return Self::unknown(cast(a.value));
        }
        if to == DType::Bool {
            let is_open = !a.is_exact() && a.value.to_f64().abs() <= a.error;
            return Self { value: cast(a.value), error: if is_open { 1.0 } else { 0.0 } };
        }
        if !to.is_float() || a.is_exact() {
            return Self::spread(to, a.ends(from).into_iter().map(cast), 0.0);
        }
        // A rounding that falls the other way.
        let value = Scalar::Float(a.value.to_f64());
        let widens = from.is_float() && precision(from).0 >= precision(to).0;
        Self { value, error: a.error }.rounded(to, if widens { 0.0 } else { 2.0 })
    }

    pub(super) fn bit_cast(from: DType, to: DType, a: Self) -> Self {
        let value = eval_bit_cast(from, to, a.value);
        if a.is_exact() { Self::exactly(value) } else { Self::unknown(value) }
    }
}

/// A sum in any order: its rounding goes by the number of its terms and their sizes.
pub(super) struct Sum {
    dtype: DType,
    value: f64,
    /// Of the terms.
    error: f64,
    sizes: f64,
    terms: f64,
    /// Whether instructions that multiply matrices may make it.
    by_matrices: bool,
}

/// Errors of `n` roundings add up to this times √n of one, or to less with all but certainty (Higham and Mary, "A new approach
/// to probabilistic rounding error analysis", 2019: with probability `1 − 2·e^(−18)`).
const DEVIATIONS: f64 = 6.0;

/// Products that instructions for matrices add up at once, at least, before they cut off what does not fit, which is a unit in the last
/// place at most, and always the same way (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021: 4 of Volta, more of
/// later ones; an H100 was 2.3e-5 off a sum of 4,096, where 6e-5 would be 8).
const AT_ONCE: f64 = 4.0;

impl Sum {
    pub(super) fn from(dtype: DType, init: Scalar, by_matrices: bool) -> Self {
        let value = init.to_f64();
        Self { dtype, value, error: 0.0, sizes: value.abs(), terms: 0.0, by_matrices }
    }

    pub(super) fn add(&mut self, term: Enclosed) {
        let x = term.value.to_f64();
        self.value += x;
        self.sizes += x.abs();
        self.error += term.error;
        self.terms += 1.0;
    }

    pub(super) fn total(&self) -> Enclosed {
        let value = Scalar::Float(self.value);
        let roundings = self.terms.min(DEVIATIONS * self.terms.sqrt());
        // A unit in the last place is two of what a rounding is off.
        let cut = if self.by_matrices { 2.0 * self.terms / AT_ONCE } else { 0.0 };
        let roundings = roundings.max(cut);
        let error = self.error + roundings * precision(self.dtype).0 * self.sizes;
        let error = if error.is_nan() { f64::INFINITY } else { error };
        Enclosed { value, error }.rounded(self.dtype, 1.0)
    }
}

/// Whether sums of a type are of floats, which no order gives the same of.
pub(super) fn is_rounded(dtype: DType) -> bool {
    dtype.class() == DTypeClass::Float
}
