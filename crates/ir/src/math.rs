//! Expansions of elementary functions into arithmetic that backends have.
//!
//! Every function takes a value of `f32` or `f64` of any lane count and gives one of the same type, as instructions of
//! whatever is being built ([`Arithmetic`]). There are no tables of more than sixteen constants ([`Table`]) and, but for huge angles, no branches: all lanes run the
//! same polynomials and selections pick among them, so the code vectorises at every width. Signed zeros, subnormals,
//! infinities and NaN come out as IEEE 754 and C99 ask.
//!
//! Largest errors in units of the last place (tested densely). Without fused multiply-add it is up to one unit more, and
//! up to 1000 for [`pow`] of `f64`:
//!
//! | function | `f32` | `f64` |
//! |---|---|---|
//! | [`exp`] | 1 | 1 |
//! | [`log`] | 1 | 1 |
//! | [`sin`], [`cos`] (`f64` up to 2²⁰) | 2 | 1 |
//! | [`tan`] | 5 | not measured |
//! | [`tanh`] | 2 | 2 |
//! | [`sigmoid`] | 3 | 3 |
//! | [`erf`] | 1.5 | 3 |
//! | [`pow`] | 1 | 16 |
//! | [`asin`], [`acos`], [`atan`] | 2.5 | 2 |
//! | [`sinh`], [`cosh`] | 2 | 2 |
//! | [`asinh`], [`acosh`], [`atanh`] | 4 | 4 |
//!
//! Coefficients are minimax fits of the functions named beside them. Constants of range reductions have trailing zeros,
//! so that their products are exact even where [`Arithmetic::fma`] rounds twice.

mod arithmetic;
mod erf;
mod exp;
mod hyperbolic;
mod inverse;
mod log;
mod pow;
mod remainder;
mod table;
mod tanh;
mod trig;

pub use arithmetic::{Arithmetic, Float};
pub use erf::erf;
pub use exp::{exp, sigmoid};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use inverse::{acos, asin, atan};
pub use log::log;
pub use pow::{integer_power, pow};
pub use remainder::remainder;
pub use table::Table;
pub use tanh::tanh;
pub use trig::{cos, sin, tan};

use crate::scalar::UnaryOp;

/// The value of a function that has an expansion; `None` of all other operations.
pub fn unary<B: Arithmetic>(b: &mut B, f: UnaryOp, x: B::Value) -> Option<B::Value> {
    Some(match f {
        UnaryOp::Exp => exp(b, x),
        UnaryOp::Log => log(b, x),
        UnaryOp::Sigmoid => sigmoid(b, x),
        UnaryOp::Erf => erf(b, x),
        UnaryOp::Sin => sin(b, x),
        UnaryOp::Cos => cos(b, x),
        UnaryOp::Tan => tan(b, x),
        UnaryOp::Asin => asin(b, x),
        UnaryOp::Acos => acos(b, x),
        UnaryOp::Atan => atan(b, x),
        UnaryOp::Sinh => sinh(b, x),
        UnaryOp::Cosh => cosh(b, x),
        UnaryOp::Tanh => tanh(b, x),
        UnaryOp::Asinh => asinh(b, x),
        UnaryOp::Acosh => acosh(b, x),
        UnaryOp::Atanh => atanh(b, x),
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Sign
        | UnaryOp::Not
        | UnaryOp::Sqrt
        | UnaryOp::Reciprocal
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Trunc
        | UnaryOp::Round
        | UnaryOp::Tf32
        | UnaryOp::IsNan
        | UnaryOp::IsInf => return None,
    })
}

/// A polynomial by Horner's rule, highest power first.
fn polynomial<B: Arithmetic>(b: &mut B, x: B::Value, coefficients: &[f64]) -> B::Value {
    let ty = b.ty(x);
    let (&first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
    let mut sum = b.fconst(ty, first);
    for &coefficient in rest {
        let coefficient = b.fconst(ty, coefficient);
        sum = b.fma(sum, x, coefficient);
    }
    sum
}

/// `x` with every sign that is set in `sign` flipped.
fn flip_sign<B: Arithmetic>(b: &mut B, x: B::Value, sign: B::Value) -> B::Value {
    b.xor(x, sign)
}

/// The sign bit of `x` alone, as a float.
fn sign_of<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let minus_zero = b.fconst(ty, -0.0);
    b.and(x, minus_zero)
}

/// `lo ≤ x ≤ hi`; NaN stays, since minimum and maximum give their second operand then.
fn clamp<B: Arithmetic>(b: &mut B, x: B::Value, lo: f64, hi: f64) -> B::Value {
    let ty = b.ty(x);
    let (lo, hi) = (b.fconst(ty, lo), b.fconst(ty, hi));
    let capped = b.min(hi, x);
    b.max(lo, capped)
}
