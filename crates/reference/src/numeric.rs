//! Numbers of any element type, computed in two domains only.
//!
//! Floats of every width are computed as `f64` and rounded once, to nearest even, when they are stored: a sum or a
//! product of `f32` operands is then correctly rounded, and a contraction is far more exact than any kernel it is
//! compared with. Integers and bools are computed as `i128` with wrapping arithmetic and truncated when they are
//! stored, which is two's-complement arithmetic at every width.

use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::select::{pack, unpack};
use half::{bf16, f16};
use infc_tensor::{AlignedBytes, DType, DTypeClass, Element, Tensor, minifloat, nearest_bf16, nearest_f16};

/// A domain of computation: `f64` for floats, `i128` for integers and bools.
pub(crate) trait Scalar: Copy + PartialEq + PartialOrd + std::fmt::Debug + 'static {
    const ZERO: Self;
    const ONE: Self;
    /// The elements of a tensor of this domain.
    fn read(tensor: &Tensor) -> Result<Vec<Self>>;
    /// A tensor of an element type of this domain.
    fn write(dtype: DType, shape: &[usize], values: impl Iterator<Item = Self>) -> Result<Tensor>;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn magnitude(self) -> Self;
    fn is_nan(self) -> bool;
    /// The larger; NaN if either is NaN.
    fn larger(self, other: Self) -> Self;
    /// The smaller; NaN if either is NaN.
    fn smaller(self, other: Self) -> Self;
    /// The value below all others of the type: what a maximum over nothing is.
    fn lowest(dtype: DType) -> Self;
    /// The value above all others of the type: what a minimum over nothing is.
    fn highest(dtype: DType) -> Self;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Scalar for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    fn read(tensor: &Tensor) -> Result<Vec<f64>> {
        read_floats(tensor)
    }

    fn write(dtype: DType, shape: &[usize], values: impl Iterator<Item = f64>) -> Result<Tensor> {
        write_floats(dtype, shape, values, true)
    }

    fn plus(self, other: f64) -> f64 {
        self + other
    }

    fn times(self, other: f64) -> f64 {
        self * other
    }

    fn magnitude(self) -> f64 {
        self.abs()
    }

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn larger(self, other: f64) -> f64 {
        if self.is_nan() || self > other { self } else { other }
    }

    fn smaller(self, other: f64) -> f64 {
        if self.is_nan() || self < other { self } else { other }
    }

    fn lowest(_: DType) -> f64 {
        f64::NEG_INFINITY
    }

    fn highest(_: DType) -> f64 {
        f64::INFINITY
    }

    fn from_f64(value: f64) -> f64 {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}

impl Scalar for i128 {
    const ZERO: i128 = 0;
    const ONE: i128 = 1;

    fn read(tensor: &Tensor) -> Result<Vec<i128>> {
        read_ints(tensor)
    }

    fn write(dtype: DType, shape: &[usize], values: impl Iterator<Item = i128>) -> Result<Tensor> {
        write_ints(dtype, shape, values)
    }

    fn plus(self, other: i128) -> i128 {
        self.wrapping_add(other)
    }

    fn times(self, other: i128) -> i128 {
        self.wrapping_mul(other)
    }

    fn magnitude(self) -> i128 {
        self.wrapping_abs()
    }

    fn is_nan(self) -> bool {
        false
    }

    fn larger(self, other: i128) -> i128 {
        self.max(other)
    }

    fn smaller(self, other: i128) -> i128 {
        self.min(other)
    }

    fn lowest(dtype: DType) -> i128 {
        int_range(dtype).0
    }

    fn highest(dtype: DType) -> i128 {
        int_range(dtype).1
    }

    fn from_f64(value: f64) -> i128 {
        value as i128
    }

    fn to_f64(self) -> f64 {
        self as f64
    }
}

/// Evaluates an expression with the type name given bound to the [`Scalar`] domain of an element type.
///
/// Returns [`EvalError::UnsupportedType`] from the enclosing function for strings and complex numbers.
macro_rules! with_scalar {
    ($dtype:expr, $scalar:ident => $body:expr) => {
        match $dtype.class() {
            infc_tensor::DTypeClass::Float => {
                type $scalar = f64;
                $body
            }
            infc_tensor::DTypeClass::Signed | infc_tensor::DTypeClass::Unsigned | infc_tensor::DTypeClass::Bool => {
                type $scalar = i128;
                $body
            }
            _ => return Err($crate::error::EvalError::UnsupportedType { dtype: $dtype }),
        }
    };
}
pub(crate) use with_scalar;

/// Least and greatest value of an integer type (0 and 1 for bool).
pub(crate) fn int_range(dtype: DType) -> (i128, i128) {
    let bits = dtype.size_bits() as u32;
    match dtype.class() {
        DTypeClass::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        DTypeClass::Unsigned => (0, (1i128 << bits) - 1),
        _ => (0, 1),
    }
}

fn read_floats(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(match tensor.dtype() {
        DType::F64 => tensor.elements::<f64>()?.to_vec(),
        DType::F32 => tensor.elements::<f32>()?.iter().map(|&x| f64::from(x)).collect(),
        DType::F16 => tensor.elements::<f16>()?.iter().map(|x| x.to_f64()).collect(),
        DType::BF16 => tensor.elements::<bf16>()?.iter().map(|x| x.to_f64()).collect(),
        dtype if dtype.is_float() => unpack(tensor).into_iter().map(|code| minifloat::decode(dtype, code)).collect(),
        dtype => return Err(EvalError::UnsupportedType { dtype }),
    })
}

fn read_ints(tensor: &Tensor) -> Result<Vec<i128>> {
    fn widen<T: Element + Into<i128>>(tensor: &Tensor) -> Result<Vec<i128>> {
        Ok(tensor.elements::<T>()?.iter().map(|&x| x.into()).collect())
    }
    Ok(match tensor.dtype() {
        DType::I64 => widen::<i64>(tensor)?,
        DType::I32 => widen::<i32>(tensor)?,
        DType::I16 => widen::<i16>(tensor)?,
        DType::I8 => widen::<i8>(tensor)?,
        DType::U64 => widen::<u64>(tensor)?,
        DType::U32 => widen::<u32>(tensor)?,
        DType::U16 => widen::<u16>(tensor)?,
        DType::U8 => widen::<u8>(tensor)?,
        DType::Bool => tensor.bytes().iter().map(|&x| i128::from(x != 0)).collect(),
        dtype @ (DType::U4 | DType::U2 | DType::I4 | DType::I2) => {
            let max = int_range(dtype).1;
            let span = 1i128 << dtype.size_bits();
            let signed = |code: i128| if code > max { code - span } else { code };
            unpack(tensor).into_iter().map(|code| signed(i128::from(code))).collect()
        }
        dtype => return Err(EvalError::UnsupportedType { dtype }),
    })
}

/// The elements of a tensor of floats, integers or bools as `f64`.
pub(crate) fn read_as_f64(tensor: &Tensor) -> Result<Vec<f64>> {
    match tensor.dtype().class() {
        DTypeClass::Float => read_floats(tensor),
        _ => Ok(read_ints(tensor)?.into_iter().map(|x| x as f64).collect()),
    }
}

fn store<T: Element>(dtype: DType, shape: &[usize], values: impl Iterator<Item = T>) -> Result<Tensor> {
    let len = checked_len(dtype, shape)?;
    let mut tensor = Tensor::from_bytes(dtype, shape.to_vec(), AlignedBytes::zeroed(len * size_of::<T>()))?;
    for (slot, value) in tensor.elements_mut::<T>()?.iter_mut().zip(values) {
        *slot = value;
    }
    Ok(tensor)
}

/// A float tensor; `saturate` is for formats of a byte or less, see [`minifloat::encode`].
pub(crate) fn write_floats(
    dtype: DType,
    shape: &[usize],
    values: impl Iterator<Item = f64>,
    saturate: bool,
) -> Result<Tensor> {
    match dtype {
        DType::F64 => store::<f64>(dtype, shape, values),
        DType::F32 => store::<f32>(dtype, shape, values.map(|x| x as f32)),
        DType::F16 => store::<f16>(dtype, shape, values.map(nearest_f16)),
        DType::BF16 => store::<bf16>(dtype, shape, values.map(nearest_bf16)),
        _ if dtype.is_float() => {
            checked_len(dtype, shape)?;
            pack(dtype, shape, values.map(|x| minifloat::encode(dtype, x, saturate)))
        }
        _ => Err(EvalError::UnsupportedType { dtype }),
    }
}

/// An integer or bool tensor of wrapped values; a bool is whether the value is not zero.
pub(crate) fn write_ints(dtype: DType, shape: &[usize], values: impl Iterator<Item = i128>) -> Result<Tensor> {
    match dtype {
        DType::I64 => store::<i64>(dtype, shape, values.map(|x| x as i64)),
        DType::I32 => store::<i32>(dtype, shape, values.map(|x| x as i32)),
        DType::I16 => store::<i16>(dtype, shape, values.map(|x| x as i16)),
        DType::I8 => store::<i8>(dtype, shape, values.map(|x| x as i8)),
        DType::U64 => store::<u64>(dtype, shape, values.map(|x| x as u64)),
        DType::U32 => store::<u32>(dtype, shape, values.map(|x| x as u32)),
        DType::U16 => store::<u16>(dtype, shape, values.map(|x| x as u16)),
        DType::U8 => store::<u8>(dtype, shape, values.map(|x| x as u8)),
        DType::Bool => write_bools(shape, values.map(|x| x != 0)),
        DType::U4 | DType::U2 | DType::I4 | DType::I2 => {
            checked_len(dtype, shape)?;
            pack(dtype, shape, values.map(|x| x as u8))
        }
        _ => Err(EvalError::UnsupportedType { dtype }),
    }
}

/// A bool tensor.
pub(crate) fn write_bools(shape: &[usize], values: impl Iterator<Item = bool>) -> Result<Tensor> {
    let len = checked_len(DType::Bool, shape)?;
    let mut bytes = AlignedBytes::zeroed(len);
    for (slot, value) in bytes.iter_mut().zip(values) {
        *slot = u8::from(value);
    }
    Ok(Tensor::from_bytes(DType::Bool, shape.to_vec(), bytes)?)
}

/// A tensor of any numeric type out of `f64` values: floats are rounded, integers truncated and saturated.
pub(crate) fn write_f64_as(dtype: DType, shape: &[usize], values: impl Iterator<Item = f64>) -> Result<Tensor> {
    match dtype.class() {
        DTypeClass::Float => write_floats(dtype, shape, values, true),
        DTypeClass::Bool => write_bools(shape, values.map(|x| x != 0.0)),
        _ => {
            let (low, high) = int_range(dtype);
            write_ints(dtype, shape, values.map(|x| (x as i128).clamp(low, high)))
        }
    }
}

/// A vector of `i64` as a tensor.
pub(crate) fn write_i64s(shape: &[usize], values: &[i64]) -> Result<Tensor> {
    Ok(Tensor::from_elements(shape, values)?)
}

/// Rounds every value to a float type and back, for steps that the specification computes in that type.
pub(crate) fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        DType::F16 => nearest_f16(value).to_f64(),
        DType::BF16 => nearest_bf16(value).to_f64(),
        _ => minifloat::decode(dtype, minifloat::encode(dtype, value, true)),
    }
}

/// A value between the steps of an operator that ONNX defines by other operators: rounded if the type is half a float.
/// Wider types keep the precision of the computation.
pub(crate) fn rounded_half(dtype: DType, value: f64) -> f64 {
    if matches!(dtype, DType::F16 | DType::BF16) { round_to(dtype, value) } else { value }
}
