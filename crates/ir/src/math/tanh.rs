//! The hyperbolic tangent.

use super::exp::{Argument, power_of_e};
use super::{Arithmetic, Float, flip_sign, polynomial, sign_of};
use crate::scalar::CompareOp;

/// `(tanh(x) − x) / x³` in x² up to 0.625².
const F32: [f64; 5] =
    [-0.005705119272043034, 0.020639270762427803, -0.05373979760724145, 0.13331443585138364, -0.3333328200847946];

/// The same up to 0.55².
const F64: [f64; 11] = [
    -1.949469207970883e-5,
    8.331645511752743e-5,
    -0.00023338157084431377,
    0.0005884444884546781,
    -0.001455542846309475,
    0.003592092030523247,
    -0.0088632326014497,
    0.021869488385856294,
    -0.05396825396376062,
    0.13333333333326622,
    -0.333333333333333,
];

/// The hyperbolic tangent.
pub fn tanh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    // All of it on |x|; the sign of x, that of −0 included, comes last.
    let magnitude = b.abs(x);
    // Near zero: |x| + |x|³ p(x²)
    let square = b.mul(magnitude, magnitude);
    let p = polynomial(b, square, if single { &F32[..] } else { &F64[..] });
    let cube = b.mul(square, magnitude);
    let near = b.fma(p, cube, magnitude);
    // Elsewhere: 1 − 2/(e^2|x| + 1). Beyond the bound the result is 1, and needs no infinities.
    let most = b.fconst(ty, if single { 10.0 } else { 20.0 });
    let bounded = b.min(most, magnitude);
    let twice = b.add(bounded, bounded);
    let e = power_of_e(b, twice, None, Argument::Moderate);
    let (one, two) = (b.fconst(ty, 1.0), b.fconst(ty, 2.0));
    let denominator = b.add(e, one);
    let quotient = b.div(two, denominator);
    let far = b.sub(one, quotient);
    let bound = b.fconst(ty, if single { 0.625 } else { 0.55 });
    let is_near = b.compare(CompareOp::Lt, magnitude, bound);
    let value = b.select(is_near, near, far);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}
