//! Algebra on scalar bodies: constants are computed, and operations that do nothing or cost too much are replaced.
//!
//! All rules are exact for every input, NaN and infinities included, with these exceptions, which ONNX leaves open: the
//! sign of a zero (`x + 0`), and `pow(x, 0.5)` at −∞.

use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::scalar::{
    BinaryOp, Body, Const, Scalar, ScalarOp, UnaryOp, eval_binary, eval_bit_cast, eval_cast, eval_compare, eval_unary,
};
use infc_tensor::{DType, DTypeClass};

/// The body with every operation simplified and only what the results need.
#[must_use]
pub fn simplify(body: &Body, results: &[ScalarId]) -> (Body, Vec<ScalarId>) {
    let mut new = Body::default();
    let results = new.import(body, results, &mut |body, op| {
        let op = commute(body, op);
        simplify_op(body, &op).or_else(|| Some(body.push(op)))
    });
    // Rules leave behind what they took apart.
    let mut clean = Body::default();
    let results = clean.import(&new, &results, &mut |_, _| None);
    (clean, results)
}

fn constant(body: &Body, id: ScalarId) -> Option<Const> {
    match body.ops[id] {
        ScalarOp::Const(c) => Some(c),
        _ => None,
    }
}

/// Constants on the right of what commutes, so that rules need only one form.
fn commute(body: &Body, op: &ScalarOp) -> ScalarOp {
    match *op {
        ScalarOp::Binary(f, a, b)
            if is_commutative(f) && constant(body, a).is_some() && constant(body, b).is_none() =>
        {
            ScalarOp::Binary(f, b, a)
        }
        _ => op.clone(),
    }
}

/// True if `f(a, b) = f(b, a)`.
#[must_use]
pub fn is_commutative(op: BinaryOp) -> bool {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    matches!(op, Add | Mul | Min | Max | And | Or | Xor)
}

/// What an operation is equal to, if that is simpler. Operands are simplified already.
fn simplify_op(body: &mut Body, op: &ScalarOp) -> Option<ScalarId> {
    match *op {
        ScalarOp::Unary(f, a) => unary(body, f, a),
        ScalarOp::Binary(f, a, b) => binary(body, f, a, b),
        ScalarOp::Compare(f, a, b) => {
            let (x, y) = (constant(body, a)?, constant(body, b)?);
            let value = eval_compare(f, x.dtype, Scalar::from_const(x), Scalar::from_const(y));
            Some(body.push(ScalarOp::Const(value.to_const(DType::Bool))))
        }
        // select(true, a, b) = a, select(c, a, a) = a
        ScalarOp::Select(c, a, b) => match constant(body, c) {
            _ if a == b => Some(a),
            Some(c) => Some(if Scalar::from_const(c).is_true() { a } else { b }),
            None => None,
        },
        ScalarOp::Cast(to, a) => cast(body, to, a),
        ScalarOp::CastSaturating(to, a) => {
            let c = constant(body, a)?;
            Some(body.push(ScalarOp::Const(eval_cast(c.dtype, to, true, Scalar::from_const(c)).to_const(to))))
        }
        ScalarOp::BitCast(to, a) => {
            let c = constant(body, a)?;
            Some(body.push(ScalarOp::Const(eval_bit_cast(c.dtype, to, Scalar::from_const(c)).to_const(to))))
        }
        ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) | ScalarOp::InBounds(_) | ScalarOp::Load(_) => {
            None
        }
    }
}

fn unary(body: &mut Body, f: UnaryOp, a: ScalarId) -> Option<ScalarId> {
    if let Some(c) = constant(body, a) {
        let dtype = body.dtype_of_unary(f, c.dtype);
        return Some(body.push(ScalarOp::Const(eval_unary(f, c.dtype, Scalar::from_const(c)).to_const(dtype))));
    }
    let ScalarOp::Unary(g, x) = body.ops[a] else { return None };
    match (f, g) {
        // −(−x) = x, not(not x) = x
        (UnaryOp::Neg, UnaryOp::Neg) => Some(x),
        (UnaryOp::Not, UnaryOp::Not) if !body.dtype(x).is_float() => Some(x),
        // |−x| = |x|, ||x|| = |x|
        (UnaryOp::Abs, UnaryOp::Neg | UnaryOp::Abs) => Some(body.unary(UnaryOp::Abs, x)),
        // What is rounded already stays.
        (UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round, g) if is_rounding(g) => Some(a),
        _ => None,
    }
}

fn is_rounding(op: UnaryOp) -> bool {
    matches!(op, UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round)
}

trait UnaryType {
    fn dtype_of_unary(&self, op: UnaryOp, operand: DType) -> DType;
}

impl UnaryType for Body {
    fn dtype_of_unary(&self, op: UnaryOp, operand: DType) -> DType {
        if matches!(op, UnaryOp::IsNan | UnaryOp::IsInf) { DType::Bool } else { operand }
    }
}

fn binary(body: &mut Body, f: BinaryOp, a: ScalarId, b: ScalarId) -> Option<ScalarId> {
    let dtype = body.dtype(a);
    let float = dtype.is_float();
    let (x, y) = (constant(body, a), constant(body, b));
    if let (Some(x), Some(y)) = (x, y) {
        let value = eval_binary(f, dtype, Scalar::from_const(x), Scalar::from_const(y));
        return Some(body.push(ScalarOp::Const(value.to_const(dtype))));
    }
    if a == b && matches!(f, BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or) && !(float && is_logic(f)) {
        return Some(a);
    }
    let is = |c: Option<Const>, value: f64| c.is_some_and(|c| c.to_f64() == value);
    match f {
        // x + 0 = x
        BinaryOp::Add if is(y, 0.0) => Some(a),
        // x − 0 = x, 0 − x = −x
        BinaryOp::Sub if is(y, 0.0) => Some(a),
        BinaryOp::Sub if is(x, 0.0) => Some(body.unary(UnaryOp::Neg, b)),
        // x·1 = x, x·0 = 0 for integers, x·(−1) = −x
        BinaryOp::Mul if is(y, 1.0) => Some(a),
        BinaryOp::Mul if is(y, 0.0) && !float => Some(b),
        BinaryOp::Mul if is(y, -1.0) => Some(body.unary(UnaryOp::Neg, a)),
        // x/1 = x, x/2ⁿ = x·2⁻ⁿ (exact)
        BinaryOp::Div if is(y, 1.0) => Some(a),
        BinaryOp::Div if float => {
            let inverse = exact_inverse(y?)?;
            let inverse = body.push(ScalarOp::Const(inverse));
            Some(body.binary(BinaryOp::Mul, a, inverse))
        }
        BinaryOp::Pow if float => power(body, a, y?.to_f64()),
        // max(x, −∞) = x, min(x, ∞) = x, NaN included
        BinaryOp::Max if float && is(y, f64::NEG_INFINITY) => Some(a),
        BinaryOp::Min if float && is(y, f64::INFINITY) => Some(a),
        // true and x = x, false or x = x, …
        BinaryOp::And | BinaryOp::Or if dtype == DType::Bool => {
            let known = Scalar::from_const(y?).is_true();
            Some(if known == (f == BinaryOp::And) { a } else { b })
        }
        _ => None,
    }
}

fn is_logic(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::And | BinaryOp::Or)
}

/// `1/c`, if multiplying by it rounds as dividing by `c` does: `c` and `1/c` are normal powers of two.
fn exact_inverse(c: Const) -> Option<Const> {
    let value = c.to_f64();
    let mantissa = value.to_bits() & ((1 << 52) - 1);
    let inverse = Const::from_f64(c.dtype, 1.0 / value);
    let normal = |x: f64| match c.dtype {
        DType::F32 => (x as f32).is_normal(),
        DType::F64 => x.is_normal(),
        // Halves: far from the ends of their range.
        _ => (1.0 / 8192.0..=8192.0).contains(&x.abs()),
    };
    (mantissa == 0 && normal(value) && normal(1.0 / value)).then_some(inverse)
}

// pow(x, 1) = x, pow(x, 2) = x·x, pow(x, 3) = x·x·x, pow(x, 0.5) = √x, pow(x, −1) = 1/x, pow(x, −0.5) = 1/√x
fn power(body: &mut Body, x: ScalarId, exponent: f64) -> Option<ScalarId> {
    let square = |body: &mut Body| body.binary(BinaryOp::Mul, x, x);
    if exponent == 1.0 {
        Some(x)
    } else if exponent == 2.0 {
        Some(square(body))
    } else if exponent == 3.0 {
        let squared = square(body);
        Some(body.binary(BinaryOp::Mul, squared, x))
    } else if exponent == 0.5 {
        Some(body.unary(UnaryOp::Sqrt, x))
    } else if exponent == -1.0 {
        Some(body.unary(UnaryOp::Reciprocal, x))
    } else if exponent == -0.5 {
        let root = body.unary(UnaryOp::Sqrt, x);
        Some(body.unary(UnaryOp::Reciprocal, root))
    } else {
        None
    }
}

// cast_t(x) = x if x is a t; cast_t(cast_u(x)) = cast_t(x) if u holds every value of x's type
fn cast(body: &mut Body, to: DType, a: ScalarId) -> Option<ScalarId> {
    if body.dtype(a) == to {
        return Some(a);
    }
    if let Some(c) = constant(body, a) {
        return Some(body.push(ScalarOp::Const(eval_cast(c.dtype, to, false, Scalar::from_const(c)).to_const(to))));
    }
    let ScalarOp::Cast(through, x) = body.ops[a] else { return None };
    holds(through, body.dtype(x)).then(|| body.cast(to, x))
}

/// True if every value of type `small` is a value of type `large`.
fn holds(large: DType, small: DType) -> bool {
    // Bits of the significand, and for floats whether the exponents fit.
    let precision = |d: DType| match d {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::Bool => 1,
        d if d.class() == DTypeClass::Signed => d.size_bits() - 1,
        d if d.class() == DTypeClass::Unsigned => d.size_bits(),
        _ => usize::MAX,
    };
    if large == small {
        return true;
    }
    match (large.class(), small.class()) {
        (DTypeClass::Float, DTypeClass::Float) => {
            matches!((large, small), (DType::F64, DType::F32 | DType::F16 | DType::BF16))
                || matches!((large, small), (DType::F32, DType::F16 | DType::BF16))
        }
        (DTypeClass::Float, DTypeClass::Signed | DTypeClass::Unsigned | DTypeClass::Bool) => {
            // f16 ends at 65504, so a type of 11 bits fits by its precision alone; so it is for the others.
            matches!(large, DType::F64 | DType::F32 | DType::F16) && precision(small) <= precision(large)
        }
        (DTypeClass::Signed, DTypeClass::Signed | DTypeClass::Unsigned | DTypeClass::Bool)
        | (DTypeClass::Unsigned, DTypeClass::Unsigned | DTypeClass::Bool) => precision(small) <= precision(large),
        _ => false,
    }
}

/// The body with some operations replaced: `by` is asked for every operation by its id in the old body and may answer
/// with an id of the new one. What is no longer needed stays until [`simplify`].
pub fn replace(
    body: &Body,
    results: &[ScalarId],
    by: &mut dyn FnMut(&mut Body, ScalarId) -> Option<ScalarId>,
) -> (Body, Vec<ScalarId>) {
    let mut new = Body::default();
    let mut renumbered: Vec<ScalarId> = Vec::with_capacity(body.ops.len());
    for (id, op) in body.ops.iter_enumerated() {
        let op = op.map_operands(&mut |o| renumbered[o.index()]);
        let id = by(&mut new, id).unwrap_or_else(|| new.push(op));
        renumbered.push(id);
    }
    let results = results.iter().map(|r| renumbered[r.index()]).collect();
    (new, results)
}

/// The number of operations that compute something.
#[must_use]
pub fn cost(body: &Body) -> usize {
    body.ops
        .iter()
        .map(|op| match op {
            ScalarOp::Const(_) | ScalarOp::Param(..) => 0,
            ScalarOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not, _) => 1,
            ScalarOp::Unary(..) | ScalarOp::Binary(BinaryOp::Pow | BinaryOp::Div, ..) => 8,
            _ => 1,
        })
        .sum()
}

/// True for every operation that the results depend on through `from`.
#[must_use]
pub fn reaches(body: &Body, from: impl Fn(&ScalarOp) -> bool) -> Vec<bool> {
    let mut reached = vec![false; body.ops.len()];
    for (id, op) in body.ops.iter_enumerated() {
        let mut hit = from(op);
        op.for_each_operand(&mut |o| hit |= reached[o.index()]);
        reached[id.index()] = hit;
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simplifies `f(x)` and says what is left, operation by operation.
    fn left(build: impl Fn(&mut Body, ScalarId) -> ScalarId) -> Vec<ScalarOp> {
        let mut body = Body::default();
        let x = body.param(0, DType::F32);
        let root = build(&mut body, x);
        simplify(&body, &[root]).0.ops.iter().cloned().collect()
    }

    fn with_constant(op: BinaryOp, value: f64) -> Vec<ScalarOp> {
        left(|body, x| {
            let c = body.constant(DType::F32, value);
            body.binary(op, x, c)
        })
    }

    const X: ScalarOp = ScalarOp::Param(0, DType::F32);
    const V0: ScalarId = ScalarId(0);

    #[test]
    fn neutral_elements_vanish() {
        for (op, c) in [(BinaryOp::Add, 0.0), (BinaryOp::Sub, 0.0), (BinaryOp::Mul, 1.0), (BinaryOp::Div, 1.0)] {
            assert_eq!(with_constant(op, c), [X], "{op:?}");
        }
        assert_eq!(with_constant(BinaryOp::Max, f64::NEG_INFINITY), [X]);
        assert_eq!(with_constant(BinaryOp::Min, f64::NEG_INFINITY).len(), 3);
    }

    #[test]
    fn only_exact_divisions_become_multiplications() {
        let eighth = ScalarOp::Const(Const::from_f64(DType::F32, 0.125));
        assert_eq!(with_constant(BinaryOp::Div, 8.0)[1..], [eighth, ScalarOp::Binary(BinaryOp::Mul, V0, ScalarId(1))]);
        assert!(matches!(with_constant(BinaryOp::Div, 3.0)[..], [_, _, ScalarOp::Binary(BinaryOp::Div, ..)]));
        // 1/2¹²⁷ is denormal: the product would round twice.
        let huge = 2f64.powi(127);
        assert!(matches!(with_constant(BinaryOp::Div, huge)[..], [_, _, ScalarOp::Binary(BinaryOp::Div, ..)]));
    }

    #[test]
    fn powers_become_products_and_roots() {
        assert_eq!(with_constant(BinaryOp::Pow, 2.0), [X, ScalarOp::Binary(BinaryOp::Mul, V0, V0)]);
        assert_eq!(with_constant(BinaryOp::Pow, 0.5), [X, ScalarOp::Unary(UnaryOp::Sqrt, V0)]);
        assert_eq!(with_constant(BinaryOp::Pow, 2.5).len(), 3);
    }

    #[test]
    fn casts_through_a_wider_type_are_one_cast() {
        let through = |wide| {
            left(|body, x| {
                let small = body.cast(DType::F16, x);
                let wide = body.cast(wide, small);
                body.cast(DType::F16, wide)
            })
        };
        assert_eq!(through(DType::F32), [X, ScalarOp::Cast(DType::F16, V0)]);
        // Through integers the fraction is lost.
        assert_eq!(through(DType::I32).len(), 4);
    }

    #[test]
    fn zero_times_a_float_is_not_zero() {
        assert_eq!(with_constant(BinaryOp::Mul, 0.0).len(), 3, "NaN and infinity stay NaN");
    }
}
