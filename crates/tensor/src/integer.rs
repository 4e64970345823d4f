//! Single elements as integers: numbers that shapes follow from.

use crate::{DType, bf16, f16};

/// Element `index` of dense elements as an integer, floats truncated toward zero as conversions do. `None` if there is no
/// such element, if it is not finite or beyond `i64`, and for strings, complex numbers and types narrower than a byte.
#[must_use]
pub fn integer_element(dtype: DType, bytes: &[u8], index: usize) -> Option<i64> {
    let size = dtype.size_bytes()?;
    let start = index.checked_mul(size)?;
    let raw = bytes.get(start..start.checked_add(size)?)?;
    macro_rules! read {
        ($t:ty) => {
            bytemuck::pod_read_unaligned::<$t>(raw)
        };
    }
    match dtype {
        DType::I64 => Some(read!(i64)),
        DType::I32 => Some(i64::from(read!(i32))),
        DType::I16 => Some(i64::from(read!(i16))),
        DType::I8 => Some(i64::from(read!(i8))),
        DType::U64 => i64::try_from(read!(u64)).ok(),
        DType::U32 => Some(i64::from(read!(u32))),
        DType::U16 => Some(i64::from(read!(u16))),
        DType::U8 => Some(i64::from(read!(u8))),
        DType::Bool => Some(i64::from(read!(u8) != 0)),
        DType::F64 => truncated(read!(f64)),
        DType::F32 => truncated(f64::from(read!(f32))),
        DType::F16 => truncated(read!(f16).to_f64()),
        DType::BF16 => truncated(read!(bf16).to_f64()),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncated(value: f64) -> Option<i64> {
    /// 2⁶³, the first float beyond.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    (-BEYOND..BEYOND).contains(&value).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_kind() {
        let of = |dtype, bytes: &[u8], index| integer_element(dtype, bytes, index);
        assert_eq!(of(DType::I64, &(-3i64).to_le_bytes(), 0), Some(-3));
        assert_eq!(of(DType::I32, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], 1), Some(-1));
        assert_eq!(of(DType::U64, &u64::MAX.to_le_bytes(), 0), None);
        assert_eq!(of(DType::Bool, &[0, 7], 1), Some(1));
        assert_eq!(of(DType::F32, &(-2.75f32).to_le_bytes(), 0), Some(-2));
        assert_eq!(of(DType::I64, &[0; 8], 1), None);
        assert_eq!(of(DType::I64, &[0; 8], usize::MAX), None);
        assert_eq!(of(DType::String, &[0; 8], 0), None);
    }

    #[test]
    fn floats_without_an_integer() {
        for x in [f64::NAN, f64::INFINITY, 1e19, -1e19, 9_223_372_036_854_775_808.0] {
            assert_eq!(integer_element(DType::F64, &x.to_le_bytes(), 0), None, "{x}");
        }
        let least = -9_223_372_036_854_775_808.0f64;
        assert_eq!(integer_element(DType::F64, &least.to_le_bytes(), 0), Some(i64::MIN));
    }
}
