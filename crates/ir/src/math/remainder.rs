//! Remainders of floats.

use super::Arithmetic;
use crate::scalar::{BinaryOp, CompareOp};

/// Remainders of floats ([`BinaryOp::Mod`], else [`BinaryOp::Rem`]), exact while the quotient's integer part is (below 2²⁴
/// in f32, 2⁵³ in f64).
///
/// A quotient that rounds up to an integer gives a remainder of the wrong sign, which the divisor mends: the sum is
/// exact, as the true remainder is a float.
pub fn remainder<B: Arithmetic>(b: &mut B, f: BinaryOp, x: B::Value, y: B::Value) -> B::Value {
    let zero = b.fconst(b.ty(x), 0.0);
    let quotient = b.div(x, y);
    let whole = b.trunc(quotient);
    let minus = b.neg(whole);
    let rest = b.fma(minus, y, x);
    // An infinite divisor leaves a finite dividend as it is, where 0·∞ would be NaN.
    let smaller = b.compare(CompareOp::Eq, whole, zero);
    let rest = b.select(smaller, x, rest);

    let below = b.compare(CompareOp::Lt, rest, zero);
    let (sign, period) = if f == BinaryOp::Mod {
        (y, y)
    } else {
        let magnitude = b.abs(y);
        let negated = b.neg(magnitude);
        let negative = b.compare(CompareOp::Lt, x, zero);
        (x, b.select(negative, negated, magnitude))
    };
    let wanted = b.compare(CompareOp::Lt, sign, zero);
    let differ = b.xor(below, wanted);
    let some = b.compare(CompareOp::Ne, rest, zero);
    let fix = b.and(differ, some);
    let moved = b.add(rest, period);
    b.select(fix, moved, rest)
}
