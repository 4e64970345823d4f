//! The meaning of scalar operations, one value at a time: the definition that interpreters and constant folding use.

use super::{BinaryOp, CompareOp, Const, UnaryOp};
use infc_tensor::{DType, DTypeClass, bf16, f16, minifloat, nearest_bf16, nearest_f16, nearest_tf32};

/// A value during evaluation: floats are held as f64 and rounded to their type after every operation, integers as
/// i64 wrapped to their type (u64 by its bits), bools as 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Any float type.
    Float(f64),
    /// Any integer type or bool.
    Int(i64),
}

impl Scalar {
    /// A float, rounded to the type; for integer types truncated and wrapped.
    #[must_use]
    pub fn from_f64(dtype: DType, value: f64) -> Self {
        if dtype.is_float() { Scalar::Float(round_to(dtype, value)) } else { Self::from_i64(dtype, value as i64) }
    }

    /// An integer, wrapped to the type; for float types converted.
    #[must_use]
    pub fn from_i64(dtype: DType, value: i64) -> Self {
        if dtype.is_float() {
            return match dtype {
                // Directly, to round once.
                DType::F32 => Scalar::Float(f64::from(value as f32)),
                _ => Scalar::Float(round_to(dtype, value as f64)),
            };
        }
        Scalar::Int(wrap(dtype, value))
    }

    /// The value of a constant.
    #[must_use]
    pub fn from_const(constant: Const) -> Self {
        let bits = constant.bits;
        match constant.dtype {
            DType::F64 => Scalar::Float(f64::from_bits(bits)),
            DType::F32 => Scalar::Float(f64::from(f32::from_bits(bits as u32))),
            DType::F16 => Scalar::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).to_f64()),
            dtype if dtype.is_float() => Scalar::Float(minifloat::decode(dtype, bits as u8)),
            dtype => Scalar::Int(wrap(dtype, bits as i64)),
        }
    }

    /// As a constant of the type; floats narrower than 16 bits saturate.
    #[must_use]
    pub fn to_const(self, dtype: DType) -> Const {
        let bits = match (self, dtype) {
            (Scalar::Float(x), DType::F64) => x.to_bits(),
            (Scalar::Float(x), DType::F32) => u64::from((x as f32).to_bits()),
            (Scalar::Float(x), DType::F16) => u64::from(nearest_f16(x).to_bits()),
            (Scalar::Float(x), DType::BF16) => u64::from(nearest_bf16(x).to_bits()),
            (Scalar::Float(x), _) if dtype.is_float() => u64::from(minifloat::encode(dtype, x, true)),
            (Scalar::Float(x), _) => return Scalar::Int(x as i64).to_const(dtype),
            (Scalar::Int(x), _) if dtype.is_float() => return Scalar::from_i64(dtype, x).to_const(dtype),
            (Scalar::Int(x), _) => match dtype.size_bits() {
                64.. => x as u64,
                bits => x as u64 & ((1 << bits) - 1),
            },
        };
        Const { dtype, bits }
    }

    /// The value as f64; integers above 2⁵³ are rounded.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(x) => x,
            Scalar::Int(x) => x as f64,
        }
    }

    /// The value as an integer; floats truncate and saturate.
    #[must_use]
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Float(x) => x as i64,
            Scalar::Int(x) => x,
        }
    }

    /// True if not zero.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Scalar::Float(x) => x != 0.0,
            Scalar::Int(x) => x != 0,
        }
    }
}

fn round_to(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => nearest_f16(x).to_f64(),
        DType::BF16 => nearest_bf16(x).to_f64(),
        dtype if dtype.is_float() && dtype != DType::F64 => minifloat::decode(dtype, minifloat::encode(dtype, x, true)),
        _ => x,
    }
}

fn wrap(dtype: DType, x: i64) -> i64 {
    if dtype == DType::Bool {
        return i64::from(x != 0);
    }
    match (dtype.size_bits(), dtype.class()) {
        (64.., _) | (0, _) => x,
        (bits, DTypeClass::Unsigned) => x & ((1 << bits) - 1),
        (bits, _) => x << (64 - bits) >> (64 - bits),
    }
}

/// `op(a)` in the type of `a`.
#[must_use]
pub fn eval_unary(op: UnaryOp, dtype: DType, a: Scalar) -> Scalar {
    if let Scalar::Float(x) = a {
        let y = match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Sign if x.is_nan() || x == 0.0 => x,
            UnaryOp::Sign => x.signum(),
            UnaryOp::Not => return Scalar::Int(i64::from(x == 0.0)),
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Reciprocal => 1.0 / x,
            UnaryOp::Exp => x.exp(),
            UnaryOp::Log => x.ln(),
            UnaryOp::Sin => x.sin(),
            UnaryOp::Cos => x.cos(),
            UnaryOp::Tan => x.tan(),
            UnaryOp::Asin => x.asin(),
            UnaryOp::Acos => x.acos(),
            UnaryOp::Atan => x.atan(),
            UnaryOp::Sinh => x.sinh(),
            UnaryOp::Cosh => x.cosh(),
            UnaryOp::Asinh => x.asinh(),
            UnaryOp::Acosh => x.acosh(),
            UnaryOp::Atanh => x.atanh(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            UnaryOp::Erf => erf(x),
            UnaryOp::Floor => x.floor(),
            UnaryOp::Ceil => x.ceil(),
            UnaryOp::Trunc => x.trunc(),
            UnaryOp::Round => x.round_ties_even(),
            UnaryOp::Tf32 => f64::from(nearest_tf32(x as f32)),
            UnaryOp::IsNan => return Scalar::Int(i64::from(x.is_nan())),
            UnaryOp::IsInf => return Scalar::Int(i64::from(x.is_infinite())),
        };
        return Scalar::from_f64(dtype, y);
    }
    let x = a.to_i64();
    let y = match op {
        UnaryOp::Neg => x.wrapping_neg(),
        UnaryOp::Abs if dtype.class() == DTypeClass::Unsigned => x,
        UnaryOp::Abs => x.wrapping_abs(),
        UnaryOp::Sign if dtype.class() == DTypeClass::Unsigned => i64::from(x != 0),
        UnaryOp::Sign => x.signum(),
        UnaryOp::Not if dtype == DType::Bool => i64::from(x == 0),
        UnaryOp::Not => !x,
        UnaryOp::IsNan | UnaryOp::IsInf => 0,
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => x,
        // The verifier lets transcendental functions have float arguments only.
        _ => return Scalar::from_f64(dtype, eval_unary(op, DType::F64, Scalar::Float(x as f64)).to_f64()),
    };
    Scalar::from_i64(dtype, y)
}

/// `op(a, b)` in the common type of both. Integer division by zero gives 0, as no kernel may trap.
#[must_use]
pub fn eval_binary(op: BinaryOp, dtype: DType, a: Scalar, b: Scalar) -> Scalar {
    if dtype.is_float() {
        let (x, y) = (a.to_f64(), b.to_f64());
        let z = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Mod => {
                let r = x % y;
                if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
            }
            BinaryOp::Rem => x % y,
            BinaryOp::Min | BinaryOp::Max if x.is_nan() || y.is_nan() => f64::NAN,
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            BinaryOp::Pow => x.powf(y),
            BinaryOp::And => f64::from(u8::from(x != 0.0 && y != 0.0)),
            BinaryOp::Or => f64::from(u8::from(x != 0.0 || y != 0.0)),
            BinaryOp::Xor => f64::from(u8::from((x != 0.0) != (y != 0.0))),
            BinaryOp::Shl | BinaryOp::Shr => f64::NAN,
        };
        return Scalar::from_f64(dtype, z);
    }
    let unsigned = dtype.class() == DTypeClass::Unsigned;
    let (x, y) = (a.to_i64(), b.to_i64());
    let bits = dtype.size_bits() as i64;
    let z = match op {
        BinaryOp::Add => x.wrapping_add(y),
        BinaryOp::Sub => x.wrapping_sub(y),
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::Rem if y == 0 => 0,
        BinaryOp::Div if unsigned => (x as u64 / y as u64) as i64,
        BinaryOp::Div => x.wrapping_div(y),
        BinaryOp::Mod | BinaryOp::Rem if unsigned => (x as u64 % y as u64) as i64,
        BinaryOp::Mod => {
            let r = x.wrapping_rem(y);
            if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
        }
        BinaryOp::Rem => x.wrapping_rem(y),
        BinaryOp::Min if unsigned => (x as u64).min(y as u64) as i64,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max if unsigned => (x as u64).max(y as u64) as i64,
        BinaryOp::Max => x.max(y),
        BinaryOp::Pow if y < 0 && !unsigned => reciprocal_power(x, y),
        BinaryOp::Pow => power(x, y as u64),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl | BinaryOp::Shr if !(0..bits).contains(&y) => 0,
        BinaryOp::Shl => x << y,
        BinaryOp::Shr if unsigned => (x as u64 >> y) as i64,
        BinaryOp::Shr => x >> y,
    };
    Scalar::from_i64(dtype, z)
}

/// Of a negative exponent: `1 / base^(−exponent)`, truncated.
fn reciprocal_power(base: i64, exponent: i64) -> i64 {
    match base {
        1 => 1,
        -1 if exponent % 2 == 0 => 1,
        -1 => -1,
        _ => 0,
    }
}

/// Wrapping.
fn power(base: i64, exponent: u64) -> i64 {
    let (mut result, mut base, mut exponent) = (1i64, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// `a op b` on values of the given type.
#[must_use]
pub fn eval_compare(op: CompareOp, dtype: DType, a: Scalar, b: Scalar) -> Scalar {
    let holds = if dtype.is_float() {
        let (x, y) = (a.to_f64(), b.to_f64());
        match op {
            CompareOp::Eq => x == y,
            CompareOp::Ne => x != y,
            CompareOp::Lt => x < y,
            CompareOp::Le => x <= y,
            CompareOp::Gt => x > y,
            CompareOp::Ge => x >= y,
        }
    } else {
        let (x, y) = (a.to_i64(), b.to_i64());
        let order = if dtype.class() == DTypeClass::Unsigned { (x as u64).cmp(&(y as u64)) } else { x.cmp(&y) };
        match op {
            CompareOp::Eq => order.is_eq(),
            CompareOp::Ne => order.is_ne(),
            CompareOp::Lt => order.is_lt(),
            CompareOp::Le => order.is_le(),
            CompareOp::Gt => order.is_gt(),
            CompareOp::Ge => order.is_ge(),
        }
    };
    Scalar::Int(i64::from(holds))
}

/// ONNX `Cast` from one type to another, or with saturation and rounding half to even.
#[must_use]
pub fn eval_cast(from: DType, to: DType, saturating: bool, a: Scalar) -> Scalar {
    if to == DType::Bool {
        return Scalar::Int(i64::from(a.is_true()));
    }
    match a {
        Scalar::Float(x) if to.is_float() => Scalar::from_f64(to, x),
        // A cast of f64 to u64 saturates by itself.
        Scalar::Float(x) if saturating && to == DType::U64 => Scalar::Int(x.round_ties_even() as u64 as i64),
        Scalar::Float(x) if saturating => {
            let bits = to.size_bits();
            let (lo, hi) = match to.class() {
                DTypeClass::Unsigned => (0.0, 2f64.powi(bits as i32) - 1.0),
                _ => (-(2f64.powi(bits as i32 - 1)), 2f64.powi(bits as i32 - 1) - 1.0),
            };
            Scalar::from_i64(to, x.round_ties_even().clamp(lo, hi) as i64)
        }
        Scalar::Float(x) if to == DType::U64 && x >= 2f64.powi(63) => Scalar::Int(x as u64 as i64),
        // What x86 conversions give for values out of range is the minimum; ONNX leaves it open.
        Scalar::Float(x) => Scalar::from_i64(to, x as i64),
        // Directly, to round once.
        Scalar::Int(x) if to == DType::F32 && from == DType::U64 => Scalar::Float(f64::from(x as u64 as f32)),
        Scalar::Int(x) if to.is_float() && from == DType::U64 => Scalar::from_f64(to, x as u64 as f64),
        Scalar::Int(x) => Scalar::from_i64(to, x),
    }
}

/// The bits of a value of type `from` as an element of type `to`, which is as wide.
#[must_use]
pub fn eval_bit_cast(from: DType, to: DType, a: Scalar) -> Scalar {
    Scalar::from_const(Const { dtype: to, bits: a.to_const(from).bits })
}

/// The error function to double precision: Taylor series near zero, continued fraction of erfc elsewhere.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if x.is_nan() {
        return x;
    }
    if magnitude > 6.0 {
        return 1f64.copysign(x);
    }
    if magnitude < 2.5 {
        let (mut term, mut sum) = (magnitude, magnitude);
        for n in 1..200 {
            term *= -magnitude * magnitude / f64::from(n);
            let next = term / f64::from(2 * n + 1);
            sum += next;
            if next.abs() < 1e-18 * sum.abs() {
                break;
            }
        }
        return (sum * std::f64::consts::FRAC_2_SQRT_PI).copysign(x);
    }
    // erfc(x) = exp(−x²)/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …))))
    let mut fraction = magnitude;
    for n in (1..=60).rev() {
        fraction = magnitude + f64::from(n) / 2.0 / fraction;
    }
    let erfc = (-magnitude * magnitude).exp() / (fraction * std::f64::consts::PI.sqrt());
    (1.0 - erfc).copysign(x)
}
