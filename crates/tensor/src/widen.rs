//! Elements narrower than a byte, and floats of a byte, as numbers that can be computed with.

use crate::{DType, DTypeClass, Element, Tensor, f16, minifloat};

impl DType {
    /// The type of whole bytes and usual arithmetic that holds all values of this one; the type itself if it is one.
    ///
    /// Packed integers become bytes, floats of a byte or less `f16`, scales of bare exponents (E8M0) `f32`.
    #[must_use]
    pub const fn widened(self) -> DType {
        use DType::*;
        match self {
            I4 | I2 => I8,
            U4 | U2 => U8,
            F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F4E2M1 => F16,
            F8E8M0 => F32,
            other => other,
        }
    }
}

impl Tensor {
    /// The same values in [`DType::widened`].
    #[must_use]
    pub fn widened(&self) -> Tensor {
        let from = self.dtype();
        let codes = (0..self.len_elems()).map(|n| self.code(n));
        match from.widened() {
            to if to == from => self.clone(),
            DType::F16 => self.of_elements(codes.map(|c| f16::from_f64(minifloat::decode(from, c)))),
            DType::F32 => self.of_elements(codes.map(|c| minifloat::decode(from, c) as f32)),
            // The sign is the highest bit that the code has.
            _ if from.class() == DTypeClass::Signed => {
                let unused = 8 - from.size_bits() as u32;
                self.of_elements(codes.map(|c| ((c << unused) as i8) >> unused))
            }
            _ => self.of_elements(codes),
        }
    }

    /// The elements' bytes as `u8`, for types of at most a byte: one per element in the same shape, or a vector of
    /// packed elements.
    #[must_use]
    pub fn as_byte_tensor(&self) -> Tensor {
        let bytes = self.bytes();
        let shape = if self.dtype().size_bits() == 8 { self.shape().to_vec() } else { vec![bytes.len()] };
        Tensor::from_elements(&shape, bytes).expect("as many as there are")
    }

    /// The bits of each element, for types of at most a byte, unpacked: integers extended to a byte of their sign, floats
    /// as `u8`.
    #[must_use]
    pub fn unpacked(&self) -> Tensor {
        if self.dtype().is_int() {
            return self.widened();
        }
        self.of_elements((0..self.len_elems()).map(|n| self.code(n)))
    }

    /// The bits of element `index` of a type of at most a byte.
    fn code(&self, index: usize) -> u8 {
        let bits = self.dtype().size_bits();
        let per_byte = 8 / bits;
        let shifted = self.bytes()[index / per_byte] >> (index % per_byte * bits);
        if bits == 8 { shifted } else { shifted & ((1 << bits) - 1) }
    }

    fn of_elements<T: Element>(&self, elements: impl Iterator<Item = T>) -> Tensor {
        let elements: Vec<T> = elements.collect();
        Tensor::from_elements(self.shape(), &elements).expect("as many elements as before")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBytes;

    fn packed(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
        Tensor::from_bytes(dtype, shape.to_vec(), AlignedBytes::from_slice(bytes)).expect("fits")
    }

    #[test]
    fn packed_integers_become_bytes() {
        let signed = packed(DType::I4, &[3], &[0x8f, 0x07]).widened();
        assert_eq!(signed.elements::<i8>().expect("bytes"), [-1, -8, 7]);
        let unsigned = packed(DType::U4, &[3], &[0x8f, 0x07]).widened();
        assert_eq!(unsigned.elements::<u8>().expect("bytes"), [15, 8, 7]);
        let pairs = packed(DType::I2, &[4], &[0b10_01_11_00]).widened();
        assert_eq!(pairs.elements::<i8>().expect("bytes"), [0, -1, 1, -2]);
    }

    #[test]
    fn small_floats_become_halves_exactly() {
        for dtype in DType::ALL.into_iter().filter(|d| d.is_float() && d.size_bits() == 8) {
            let codes: Vec<u8> = (0..=255).collect();
            let wide = packed(dtype, &[256], &codes).widened();
            for (n, &code) in codes.iter().enumerate() {
                let (found, expected) = (wide.get_f64(n).expect("a float"), minifloat::decode(dtype, code));
                assert!(found == expected || found.is_nan() && expected.is_nan(), "{dtype} {code:#x}: {found}");
            }
        }
    }

    #[test]
    fn bits_of_elements_and_their_bytes() {
        let floats = packed(DType::F4E2M1, &[3], &[0x8f, 0x07]);
        assert_eq!(floats.unpacked().elements::<u8>().expect("bytes"), [15, 8, 7]);
        assert_eq!(floats.as_byte_tensor().elements::<u8>().expect("bytes"), [0x8f, 0x07]);
        let small = packed(DType::F8E5M2, &[2, 1], &[0x8f, 0x07]);
        assert_eq!((small.as_byte_tensor(), small.unpacked().shape()), (small.unpacked(), &[2, 1][..]));
        let one = packed(DType::I4, &[1, 1], &[0x0f]);
        assert_eq!(one.unpacked().elements::<i8>().expect("bytes"), [-1]);
        assert_eq!(one.as_byte_tensor().len_elems(), 1);
    }

    #[test]
    fn what_is_wide_enough_stays() {
        let x = Tensor::from_elements(&[2], &[1.5f32, -2.0]).expect("fits");
        assert_eq!(x.widened(), x);
    }
}
