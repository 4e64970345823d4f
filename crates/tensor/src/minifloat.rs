//! Floats of one byte or less, by their bits.
//!
//! Layouts and special values follow ONNX's notes on float8 (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ), on the scale format
//! E8M0 and on 4-bit E2M1.

use crate::DType;

/// How a format spends its bits.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Behind the sign.
    pub exponent_bits: u32,
    /// Behind the exponent.
    pub mantissa_bits: u32,
    /// What is taken off the exponent's code.
    pub bias: i32,
    /// The largest magnitude's code; whatever lies above it (below the sign) is infinity or NaN.
    pub max_code: u8,
    /// The code of infinity, or `None` if the format has none.
    pub infinity: Option<u8>,
    /// The code of NaN, or `None` if the format has none.
    pub nan: Option<u8>,
    /// The FNUZ formats have one zero; their NaN takes the place of -0.
    pub negative_zero: bool,
}

/// The format of a type; `None` if it is none of this kind, or only an exponent (E8M0).
#[must_use]
pub fn layout(dtype: DType) -> Option<Layout> {
    let of = |exponent_bits, mantissa_bits, bias, max_code, infinity, nan, negative_zero| Layout {
        exponent_bits,
        mantissa_bits,
        bias,
        max_code,
        infinity,
        nan,
        negative_zero,
    };
    Some(match dtype {
        DType::F8E4M3FN => of(4, 3, 7, 0x7e, None, Some(0x7f), true),
        DType::F8E4M3FNUZ => of(4, 3, 8, 0x7f, None, Some(0x80), false),
        DType::F8E5M2 => of(5, 2, 15, 0x7b, Some(0x7c), Some(0x7e), true),
        DType::F8E5M2FNUZ => of(5, 2, 16, 0x7f, None, Some(0x80), false),
        DType::F4E2M1 => of(2, 1, 1, 0x7, None, None, true),
        _ => return None,
    })
}

/// The value of a code; `dtype` must be a float type of at most a byte.
#[must_use]
pub fn decode(dtype: DType, code: u8) -> f64 {
    if dtype == DType::F8E8M0 {
        // A bare exponent: no sign, no zero.
        return if code == 0xff { f64::NAN } else { 2f64.powi(i32::from(code) - 127) };
    }
    let Some(layout) = layout(dtype) else { return f64::NAN };
    let sign_bit = 1u8 << (layout.exponent_bits + layout.mantissa_bits);
    let magnitude = code & (sign_bit - 1);
    if !layout.negative_zero && code == sign_bit {
        return f64::NAN;
    }
    let value = if magnitude <= layout.max_code {
        magnitude_value(layout, magnitude)
    } else if Some(magnitude) == layout.infinity {
        f64::INFINITY
    } else {
        f64::NAN
    };
    if code & sign_bit != 0 { -value } else { value }
}

fn magnitude_value(layout: Layout, magnitude: u8) -> f64 {
    let exponent = i32::from(magnitude >> layout.mantissa_bits);
    let mantissa = f64::from(magnitude & ((1 << layout.mantissa_bits) - 1));
    let unit = 2f64.powi(-(layout.mantissa_bits as i32));
    if exponent == 0 {
        mantissa * unit * 2f64.powi(1 - layout.bias)
    } else {
        (1.0 + mantissa * unit) * 2f64.powi(exponent - layout.bias)
    }
}

/// The code nearest to `value`, ties to the even code.
///
/// A value that rounds beyond the largest finite one becomes that one if `saturate`, else infinity or, where there is
/// none, NaN. E2M1 has neither and always saturates.
#[must_use]
pub fn encode(dtype: DType, value: f64, saturate: bool) -> u8 {
    if dtype == DType::F8E8M0 {
        return encode_e8m0(value, saturate);
    }
    let Some(layout) = layout(dtype) else { return 0 };
    let sign_bit = 1u8 << (layout.exponent_bits + layout.mantissa_bits);
    let sign = if value.is_sign_negative() { sign_bit } else { 0 };
    if value.is_nan() {
        return match layout.nan {
            Some(nan) if nan == sign_bit => nan,
            Some(nan) => nan | sign,
            // ONNX leaves this open; a zero, negative to be noticed, is what ml_dtypes stores.
            None => sign_bit,
        };
    }
    let target = value.abs();
    let max = magnitude_value(layout, layout.max_code);
    // Half a step above the largest value still rounds down to it, if its code is even.
    let step = max - magnitude_value(layout, layout.max_code - 1);
    let halfway = max + step / 2.0;
    let overflows = target > halfway || (target == halfway && layout.max_code % 2 == 1);
    let magnitude = if overflows {
        match (saturate, layout.infinity, layout.nan) {
            // An infinity is not rounded: it is kept where the format has one.
            (true, _, _) | (false, None, None) => layout.max_code,
            (false, Some(infinity), _) => infinity,
            (false, None, Some(nan)) if nan == sign_bit => return nan,
            (false, None, Some(nan)) => nan,
        }
    } else {
        nearest(layout, target)
    };
    if magnitude == 0 && !layout.negative_zero { 0 } else { magnitude | sign }
}

/// The magnitude code whose value is nearest to `target`, which is at most half a step above the largest.
fn nearest(layout: Layout, target: f64) -> u8 {
    // Codes are ordered as their values are: find the last one not above the target.
    let (mut below, mut above) = (0u8, layout.max_code + 1);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if magnitude_value(layout, middle) <= target {
            below = middle;
        } else {
            above = middle;
        }
    }
    if below == layout.max_code {
        return below;
    }
    let down = target - magnitude_value(layout, below);
    let up = magnitude_value(layout, below + 1) - target;
    if down < up || (down == up && below.is_multiple_of(2)) { below } else { below + 1 }
}

/// E8M0 holds powers of two only; ONNX's default rounds up to the next one.
fn encode_e8m0(value: f64, saturate: bool) -> u8 {
    const MAX: u8 = 0xfe;
    const NAN: u8 = 0xff;
    if value.is_nan() || value.is_sign_negative() && value != 0.0 {
        return NAN;
    }
    if value > decode(DType::F8E8M0, MAX) {
        return if saturate { MAX } else { NAN };
    }
    if value < decode(DType::F8E8M0, 0) {
        return if saturate { 0 } else { NAN };
    }
    (0..=MAX).find(|&code| decode(DType::F8E8M0, code) >= value).unwrap_or(MAX)
}
