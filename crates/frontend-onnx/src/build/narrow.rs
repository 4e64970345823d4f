//! Element types that are stored and moved but not computed with: floats of at most a byte, and integers narrower than
//! one.
//!
//! In the graph each element has a byte, its *carrier*: integers as `i8` or `u8`, floats as their bits in `u8`. Only
//! conversions look inside. What users give and get is packed; see [`Port::declared`](infc_ir::graph::Port::declared).
//!
//! Bits follow ONNX's notes on float8 and float4 and the tables of its `Cast`; [`minifloat`] has the formats. All rounding
//! is to nearest even, but for scales of bare exponents (E8M0), for which `Cast` has an attribute.

use super::{Builder, Result, index, product, var};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::ScalarId;
use infc_ir::graph::{Port, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp, is_computable};
use infc_tensor::{DType, DTypeClass, minifloat};

/// What conversions to narrow floats do with values that these do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounding {
    /// Values beyond the largest become the largest, not infinity or NaN.
    pub(crate) saturate: bool,
    pub(crate) scale: ScaleRounding,
}

/// Which power of two a value between two of them becomes as E8M0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleRounding {
    Up,
    Down,
    /// Upwards from the middle on.
    Nearest,
}

impl Default for Rounding {
    fn default() -> Self {
        Self { saturate: true, scale: ScaleRounding::Up }
    }
}

/// The type that a graph has in the place of a type; the type itself if it is computed with.
pub(crate) fn carrier(dtype: DType) -> DType {
    match dtype.class() {
        DTypeClass::Float if !is_computable(dtype) => DType::U8,
        DTypeClass::Signed | DTypeClass::Unsigned => dtype.widened(),
        _ => dtype,
    }
}

/// As [`carrier`], with the shape.
pub(crate) fn carried(ty: &TensorType) -> TensorType {
    TensorType::new(carrier(ty.dtype), ty.shape.clone())
}

/// How many elements one byte of packed data has.
fn per_byte(dtype: DType) -> i64 {
    (8 / dtype.size_bits()) as i64
}

impl Builder {
    /// Adds an input of the model.
    pub(crate) fn model_input(&mut self, name: &str, ty: TensorType) -> Result<Tracked> {
        if carrier(ty.dtype) == ty.dtype {
            return self.input(name, ty);
        }
        self.check(&ty)?;
        let packed = ty.dtype.size_bits() < 8;
        let bytes =
            if packed { vec![product(&ty.shape)?.ceil_div(&per_byte(ty.dtype).into())] } else { ty.shape.clone() };
        let bytes = self.input(name, TensorType::new(DType::U8, bytes))?;
        if let Some(port) = self.graph.inputs.last_mut() {
            port.declared = Some(ty.clone());
        }
        if packed { self.unpack(&bytes, ty) } else { self.retyped(&bytes, ty.dtype) }
    }

    /// Adds an input of the model with as many axes as each run has.
    pub(crate) fn unranked_input(&mut self, name: &str, dtype: DType) -> Result<Tracked> {
        let sequence = self.input(name, TensorType::new(DType::Sequence, vec![Dim::constant(1)]))?;
        if let Some(port) = self.graph.inputs.last_mut() {
            port.declared = Some(TensorType::new(dtype, Vec::new()));
        }
        Ok(Tracked::unranked(&sequence, dtype))
    }

    /// Adds an output of the model.
    pub(crate) fn model_output(&mut self, name: &str, tracked: &Tracked) -> Result<()> {
        if let Some(element) = tracked.element().filter(|_| tracked.is_unranked()) {
            let value = self.value(tracked)?;
            let declared = Some(TensorType::new(element.dtype, Vec::new()));
            self.graph.outputs.push(Port { declared, ..Port::new(name, value) });
            return Ok(());
        }
        if carrier(tracked.dtype()) == tracked.dtype() {
            return self.output(name, tracked);
        }
        self.check(tracked.ty())?;
        let bytes = if tracked.dtype().size_bits() < 8 { self.pack(tracked)? } else { tracked.clone() };
        let value = self.value(&bytes)?;
        self.graph.outputs.push(Port { declared: Some(tracked.ty().clone()), ..Port::new(name, value) });
        Ok(())
    }

    /// The carrier of a value, as what it is.
    fn bits_of(&mut self, x: &Tracked) -> Result<Tracked> {
        let value = self.value(x)?;
        Ok(Tracked::of_value(carried(x.ty()), value))
    }

    /// A carrier as the value that it holds.
    fn retyped(&mut self, carrier: &Tracked, dtype: DType) -> Result<Tracked> {
        let value = self.value(carrier)?;
        Ok(Tracked::of_value(TensorType::new(dtype, carrier.shape().to_vec()), value))
    }

    /// Element `n` lies in byte `n div k`, low bits first.
    fn unpack(&mut self, bytes: &Tracked, ty: TensorType) -> Result<Tracked> {
        let (count, bits) = (per_byte(ty.dtype), ty.dtype.size_bits() as i64);
        let mut flat = IndexExpr::constant(0);
        for (n, extent) in ty.shape.iter().enumerate() {
            flat = flat * extent.clone() + var(n);
        }
        let spread = self.view(bytes, vec![flat.floor_div(&count.into())], ty.shape.clone())?;
        let carrier = self.map(&[&spread], |body, p| {
            let shift = index(body, flat.modulo(&count.into()).scale(bits));
            let shift = body.cast(DType::U8, shift);
            let element = body.binary(BinaryOp::Shr, p[0], shift);
            low_bits(body, element, ty.dtype)
        })?;
        self.retyped(&carrier, ty.dtype)
    }

    /// The inverse of [`Builder::unpack`]; bits behind the last element are 0.
    fn pack(&mut self, x: &Tracked) -> Result<Tracked> {
        let (count, bits) = (per_byte(x.dtype()), x.dtype().size_bits() as i64);
        let carrier = self.bits_of(x)?;
        let len = product(x.shape())?;
        let flat = self.reshape(&carrier, std::slice::from_ref(&len))?;
        let shape = vec![len.ceil_div(&count.into())];
        let mut parts = Vec::new();
        for n in 0..count {
            let position = var(0).scale(count) + n;
            let within = Bound { expr: position.clone(), lo: Dim::constant(0), hi: len.clone() };
            let map = AccessMap { rank: 1, index: vec![position], valid: vec![within] };
            parts.push(self.view_or(&flat, map, shape.clone(), Const::zero(flat.dtype()))?);
        }
        self.map(&parts.iter().collect::<Vec<_>>(), |body, p| {
            let mut byte = None;
            for (n, &part) in p.iter().enumerate() {
                let part = body.cast(DType::U8, part);
                let mask = body.constant(DType::U8, ((1i64 << bits) - 1) as f64);
                let low = body.binary(BinaryOp::And, part, mask);
                let distance = body.constant(DType::U8, (n as i64 * bits) as f64);
                let placed = body.binary(BinaryOp::Shl, low, distance);
                byte = Some(byte.map_or(placed, |byte| body.binary(BinaryOp::Or, byte, placed)));
            }
            byte.expect("a byte has elements")
        })
    }

    /// A value that can be computed with: those of narrow types become values of
    /// [`DType::widened`](infc_tensor::DType::widened) types, or wider ones.
    pub(crate) fn widened(&mut self, x: &Tracked) -> Result<Tracked> {
        let dtype = x.dtype();
        match x.constant() {
            _ if is_computable(dtype) => Ok(x.clone()),
            Some(constant) => Ok(self.constant(&constant.name, constant.tensor.widened())),
            None => {
                let bits = self.bits_of(x)?;
                self.map(&[&bits], |body, p| decoded(body, p[0], dtype))
            }
        }
    }

    /// Converts as ONNX `Cast` does.
    pub(crate) fn cast(&mut self, x: &Tracked, dtype: DType) -> Result<Tracked> {
        self.cast_rounding(x, dtype, Rounding::default())
    }

    /// As [`Builder::cast`], with what the attributes of `Cast` say of narrow floats.
    pub(crate) fn cast_rounding(&mut self, x: &Tracked, dtype: DType, rounding: Rounding) -> Result<Tracked> {
        if x.dtype() == dtype {
            return Ok(x.clone());
        }
        super::check_storable(dtype)?;
        let x = self.widened(x)?;
        if is_computable(dtype) {
            return self.map(&[&x], |body, p| body.cast(dtype, p[0]));
        }
        let carrier = self.map(&[&x], |body, p| encoded(body, p[0], dtype, rounding))?;
        self.retyped(&carrier, dtype)
    }

    /// The same bits as elements of another type of the same width.
    pub(crate) fn bit_cast(&mut self, x: &Tracked, dtype: DType) -> Result<Tracked> {
        let from = x.dtype();
        if from.size_bits() != dtype.size_bits() {
            let expected = "an element type as wide as that of the input";
            return Err(Problem::InvalidAttribute { attribute: "to", expected, found: dtype.to_string() });
        }
        super::check_storable(dtype)?;
        let bits = self.bits_of(x)?;
        let to = carrier(dtype);
        let carrier = self.map(&[&bits], |body, p| match (body.dtype(p[0]), to) {
            // Bools are 0 and 1, and whatever is not 0 is true.
            (DType::Bool, to) | (_, to @ DType::Bool) => body.cast(to, p[0]),
            // The sign is extended or not.
            _ if dtype.size_bits() < 8 => low_bits(body, p[0], dtype),
            (_, to) => body.bit_cast(to, p[0]),
        })?;
        self.retyped(&carrier, dtype)
    }
}

fn number(body: &mut Body, dtype: DType, value: i64) -> ScalarId {
    body.push(ScalarOp::Const(Const::from_i64(dtype, value)))
}

/// The low bits of an integer as the carrier of a type narrower than a byte.
fn low_bits(body: &mut Body, x: ScalarId, dtype: DType) -> ScalarId {
    let (carrier, bits) = (carrier(dtype), dtype.size_bits() as i64);
    let x = body.cast(carrier, x);
    if dtype.class() == DTypeClass::Signed {
        let unused = number(body, carrier, 8 - bits);
        let high = body.binary(BinaryOp::Shl, x, unused);
        return body.binary(BinaryOp::Shr, high, unused);
    }
    let mask = number(body, carrier, (1 << bits) - 1);
    body.binary(BinaryOp::And, x, mask)
}

/// What a carrier holds: integers as they are, floats as `f32`.
fn decoded(body: &mut Body, carrier: ScalarId, dtype: DType) -> ScalarId {
    if dtype.is_int() {
        return carrier;
    }
    let word = |body: &mut Body, value: i64| number(body, DType::U32, value);
    let code = body.cast(DType::U32, carrier);
    let nan = body.constant(DType::F32, f64::NAN);
    let Some(format) = minifloat::layout(dtype) else {
        // E8M0: the exponent of an f32, whose least code is that of a subnormal number.
        let (shift, last, first) = (word(body, 23), word(body, 255), word(body, 0));
        let moved = body.binary(BinaryOp::Shl, code, shift);
        let power = body.bit_cast(DType::F32, moved);
        let least = body.constant(DType::F32, 2f64.powi(-127));
        let is_first = body.compare(CompareOp::Eq, code, first);
        let power = body.select(is_first, least, power);
        let is_nan = body.compare(CompareOp::Eq, code, last);
        return body.select(is_nan, nan, power);
    };
    let mantissa = i64::from(format.mantissa_bits);
    let sign_at = mantissa + i64::from(format.exponent_bits);
    let mask = word(body, (1 << sign_at) - 1);
    let magnitude = body.binary(BinaryOp::And, code, mask);
    // Normal numbers: the fields in their places in an f32, the exponent with its bias.
    let distance = word(body, 23 - mantissa);
    let placed = body.binary(BinaryOp::Shl, magnitude, distance);
    let bias = word(body, i64::from(127 - format.bias) << 23);
    let biased = body.binary(BinaryOp::Add, placed, bias);
    let normal = body.bit_cast(DType::F32, biased);
    let unit = body.constant(DType::F32, 2f64.powi(1 - format.bias - format.mantissa_bits as i32));
    let steps = body.cast(DType::F32, magnitude);
    let subnormal = body.binary(BinaryOp::Mul, steps, unit);
    let least_normal = word(body, 1 << mantissa);
    let is_subnormal = body.compare(CompareOp::Lt, magnitude, least_normal);
    let mut value = body.select(is_subnormal, subnormal, normal);
    if i64::from(format.max_code) < (1 << sign_at) - 1 {
        let max = word(body, i64::from(format.max_code));
        let above = body.compare(CompareOp::Gt, magnitude, max);
        let mut special = nan;
        if let Some(infinity) = format.infinity {
            let infinite = body.constant(DType::F32, f64::INFINITY);
            let code = word(body, i64::from(infinity));
            let is_infinite = body.compare(CompareOp::Eq, magnitude, code);
            special = body.select(is_infinite, infinite, nan);
        }
        value = body.select(above, special, value);
    }
    let sign = word(body, 1 << sign_at);
    let signed = body.binary(BinaryOp::And, code, sign);
    let up = word(body, 31 - sign_at);
    let sign_bit = body.binary(BinaryOp::Shl, signed, up);
    let bits = body.bit_cast(DType::U32, value);
    let bits = body.binary(BinaryOp::Or, bits, sign_bit);
    let value = body.bit_cast(DType::F32, bits);
    if format.negative_zero {
        return value;
    }
    // What would be −0 is NaN.
    let is_nan = body.compare(CompareOp::Eq, code, sign);
    body.select(is_nan, nan, value)
}

/// The carrier of a number that can be computed with.
fn encoded(body: &mut Body, x: ScalarId, dtype: DType, rounding: Rounding) -> ScalarId {
    let from = body.dtype(x);
    if dtype.is_int() {
        let whole = if from.is_float() { body.cast(DType::I32, x) } else { x };
        return low_bits(body, whole, dtype);
    }
    match minifloat::layout(dtype) {
        Some(format) => {
            let wide = if from == DType::F64 { from } else { DType::F32 };
            let x = body.cast(wide, x);
            encoded_float(body, x, format, rounding.saturate)
        }
        None => {
            let x = body.cast(DType::F32, x);
            encoded_scale(body, x, rounding)
        }
    }
}

/// The code of an `f32` or `f64` as a small float: exponent and mantissa are shortened as one number, with the carry
/// going where it should; what is less than the least normal number is a number of steps.
fn encoded_float(body: &mut Body, x: ScalarId, format: minifloat::Layout, saturate: bool) -> ScalarId {
    let wide = body.dtype(x);
    let (bits_type, wide_bits, wide_mantissa, wide_bias) =
        if wide == DType::F64 { (DType::U64, 64, 52, 1023) } else { (DType::U32, 32, 23, 127) };
    let word = |body: &mut Body, value: i64| number(body, bits_type, value);
    let mantissa = i64::from(format.mantissa_bits);
    let sign_at = mantissa + i64::from(format.exponent_bits);
    let bits = body.bit_cast(bits_type, x);
    let top = word(body, wide_bits - 1);
    let sign = body.binary(BinaryOp::Shr, bits, top);
    let up = word(body, sign_at);
    let sign = body.binary(BinaryOp::Shl, sign, up);
    let without_sign = word(body, if wide_bits == 64 { i64::MAX } else { i64::from(i32::MAX) });
    let magnitude_bits = body.binary(BinaryOp::And, bits, without_sign);
    let magnitude = body.unary(UnaryOp::Abs, x);

    let shift = wide_mantissa - mantissa;
    let distance = word(body, shift);
    let below_half = word(body, (1 << (shift - 1)) - 1);
    let one = word(body, 1);
    let last_kept = body.binary(BinaryOp::Shr, magnitude_bits, distance);
    let odd = body.binary(BinaryOp::And, last_kept, one);
    let raised = body.binary(BinaryOp::Add, magnitude_bits, below_half);
    let raised = body.binary(BinaryOp::Add, raised, odd);
    let shortened = body.binary(BinaryOp::Shr, raised, distance);
    let rebias = word(body, (wide_bias - i64::from(format.bias)) << mantissa);
    let normal = body.binary(BinaryOp::Sub, shortened, rebias);

    let least_normal = body.constant(wide, 2f64.powi(1 - format.bias));
    let is_subnormal = body.compare(CompareOp::Lt, magnitude, least_normal);
    let steps_per_one = body.constant(wide, 2f64.powi(format.bias - 1 + format.mantissa_bits as i32));
    let small = body.binary(BinaryOp::Min, magnitude, least_normal);
    let steps = body.binary(BinaryOp::Mul, small, steps_per_one);
    let steps = body.unary(UnaryOp::Round, steps);
    let subnormal = body.cast(DType::I32, steps);
    let subnormal = body.cast(bits_type, subnormal);
    let code = body.select(is_subnormal, subnormal, normal);

    let max = word(body, i64::from(format.max_code));
    let overflows = body.compare(CompareOp::Gt, code, max);
    let overflow = match (saturate, format.infinity.or(format.nan)) {
        (false, Some(code)) => word(body, i64::from(code)),
        _ => max,
    };
    let code = body.select(overflows, overflow, code);
    // ONNX leaves NaN open where there is none; a negative zero is to be noticed.
    let nan = word(body, format.nan.map_or(1 << sign_at, i64::from));
    let is_nan = body.unary(UnaryOp::IsNan, x);
    let code = body.select(is_nan, nan, code);
    let signed = body.binary(BinaryOp::Or, code, sign);
    let signed = match (format.negative_zero, format.nan) {
        (true, Some(_)) => signed,
        (true, None) => body.select(is_nan, nan, signed),
        // One zero, and one NaN in the place of the other.
        (false, _) => {
            let zero = word(body, 0);
            let is_zero = body.compare(CompareOp::Eq, code, zero);
            body.select(is_zero, zero, signed)
        }
    };
    body.cast(DType::U8, signed)
}

/// The code of an `f32` as a bare exponent.
fn encoded_scale(body: &mut Body, x: ScalarId, rounding: Rounding) -> ScalarId {
    /// Codes of the largest power and of NaN.
    const LAST: i64 = 254;
    const NAN: i64 = 255;
    let word = |body: &mut Body, value: i64| number(body, DType::U32, value);
    let bits = body.bit_cast(DType::U32, x);
    let (distance, zero, one) = (word(body, 23), word(body, 0), word(body, 1));
    let exponent = body.binary(BinaryOp::Shr, bits, distance);
    let mask = word(body, (1 << 23) - 1);
    let mantissa = body.binary(BinaryOp::And, bits, mask);
    // The least mantissa that goes up, of normal numbers and of those between the two least powers, which are
    // subnormal; and the least bits that do not lie below the least power once rounded.
    let (up, up_subnormal, least) = match rounding.scale {
        ScaleRounding::Up => (1, 0x40_0001, 0x20_0001),
        ScaleRounding::Down => (1 << 23, 1 << 23, 0x40_0000),
        ScaleRounding::Nearest => (0x40_0000, 0x60_0000, 0x30_0000),
    };
    let is_subnormal = body.compare(CompareOp::Eq, exponent, zero);
    let (up, up_subnormal) = (word(body, up), word(body, up_subnormal));
    let limit = body.select(is_subnormal, up_subnormal, up);
    let goes_up = body.compare(CompareOp::Ge, mantissa, limit);
    let raised = body.binary(BinaryOp::Add, exponent, one);
    let code = body.select(goes_up, raised, exponent);
    let last = word(body, LAST);
    let above = body.compare(CompareOp::Gt, code, last);
    let nan = word(body, NAN);
    let code = body.select(above, if rounding.saturate { last } else { nan }, code);
    let code = if rounding.saturate {
        code
    } else {
        let least = word(body, least);
        let below = body.compare(CompareOp::Lt, bits, least);
        body.select(below, nan, code)
    };
    // Negative numbers and NaN; −0 is a zero.
    let nothing = body.constant(DType::F32, 0.0);
    let negative = body.compare(CompareOp::Lt, x, nothing);
    let is_zero = body.compare(CompareOp::Eq, x, nothing);
    let of_zero = if rounding.saturate { zero } else { nan };
    let code = body.select(is_zero, of_zero, code);
    let is_nan = body.unary(UnaryOp::IsNan, x);
    let none = body.binary(BinaryOp::Or, negative, is_nan);
    let code = body.select(none, nan, code);
    body.cast(DType::U8, code)
}
