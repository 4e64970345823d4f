//! Expansions of elementary functions into arithmetic of `vir`.
//!
//! Every function takes a value of `f32` or `f64` of any lane count and gives one of the same type. There are no tables
//! and, but for huge angles, no branches: all lanes run the same polynomials and selections pick among them, so the code
//! vectorises at every width. Signed zeros, subnormals, infinities and NaN come out as IEEE 754 and C99 ask.
//!
//! Largest errors in units of the last place (tested densely). Without fused multiply-add it is up to one unit more, and
//! up to 1000 for [`pow`] of `f64`:
//!
//! | function | `f32` | `f64` |
//! |---|---|---|
//! | [`exp`] | 1 | 1 |
//! | [`log`] | 1 | 1 |
//! | [`sin`], [`cos`] (`f64` up to 2²⁰) | 2 | 1 |
//! | [`tanh`] | 2 | 2 |
//! | [`sigmoid`] | 2 | 2 |
//! | [`erf`] | 1.5 | 3 |
//! | [`pow`] | 1 | 16 |
//! | [`asin`], [`acos`], [`atan`] | 2.5 | 2 |
//! | [`sinh`], [`cosh`] | 2 | 2 |
//! | [`asinh`], [`acosh`], [`atanh`] | 4 | 4 |
//!
//! Coefficients are minimax fits of the functions named beside them. Constants of range reductions have trailing zeros,
//! so that their products are exact even where [`Op::Fma`](crate::vir::Op::Fma) rounds twice.

mod erf;
mod exp;
mod hyperbolic;
mod inverse;
mod log;
mod pow;
mod tanh;
mod trig;

pub use erf::erf;
pub use exp::{exp, sigmoid};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use inverse::{acos, asin, atan};
pub use log::log;
pub use pow::pow;
pub use tanh::tanh;
pub use trig::{cos, sin};

use crate::vir::{BinaryOp, Builder, Convert, Elem, Value};

/// A polynomial by Horner's rule, highest power first.
fn polynomial(b: &mut Builder, x: Value, coefficients: &[f64]) -> Value {
    let ty = b.ty(x);
    let (&first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
    let mut sum = b.fconst(ty, first);
    for &coefficient in rest {
        let coefficient = b.fconst(ty, coefficient);
        sum = b.fma(sum, x, coefficient);
    }
    sum
}

/// The integer type as wide as a float type.
fn bits_elem(elem: Elem) -> Elem {
    match elem {
        Elem::F32 => Elem::I32,
        Elem::F64 => Elem::I64,
        _ => panic!("elementary functions take f32 and f64, not {elem:?}"),
    }
}

fn to_bits(b: &mut Builder, x: Value) -> Value {
    let elem = bits_elem(b.ty(x).elem);
    b.convert(Convert::Bitcast, x, elem)
}

fn from_bits(b: &mut Builder, bits: Value, elem: Elem) -> Value {
    b.convert(Convert::Bitcast, bits, elem)
}

/// `x` with every sign that is set in `sign` flipped.
fn flip_sign(b: &mut Builder, x: Value, sign: Value) -> Value {
    b.binary(BinaryOp::Xor, x, sign)
}

/// The sign bit of `x` alone, as a float.
fn sign_of(b: &mut Builder, x: Value) -> Value {
    let ty = b.ty(x);
    let minus_zero = b.fconst(ty, -0.0);
    b.and(x, minus_zero)
}

/// `lo ≤ x ≤ hi`; NaN stays, since minimum and maximum give their second operand then.
fn clamp(b: &mut Builder, x: Value, lo: f64, hi: f64) -> Value {
    let ty = b.ty(x);
    let (lo, hi) = (b.fconst(ty, lo), b.fconst(ty, hi));
    let capped = b.min(hi, x);
    b.max(lo, capped)
}
