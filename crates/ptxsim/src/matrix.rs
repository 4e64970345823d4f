//! Where the elements of `mma.sync`'s matrices are among the lanes of a warp, and what they are worth.
//!
//! Source: PTX ISA 9.7.14.5, "Matrix Fragments for mma.m16n8k8, .m16n8k16 and .m16n8k32". Products are exact and summed in
//! f64, which is rounded once: what a GPU sums in which order, and how it rounds, is not documented.

use crate::value::sign_extend;
use half::{bf16, f16};

/// Rows of the left factor and of the sum.
pub(crate) const ROWS: usize = 16;
/// Columns of the right factor and of the sum.
pub(crate) const COLUMNS: usize = 8;
/// The type of a factor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
    /// An f32 of which the 13 lowest bits are not read.
    Tf32,
    S8,
    U8,
}

impl Factor {
    /// The type of a name without its dot.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Factor::F16,
            "bf16" => Factor::Bf16,
            "tf32" => Factor::Tf32,
            "s8" => Factor::S8,
            "u8" => Factor::U8,
            _ => return None,
        })
    }

    /// Elements of a 32-bit register.
    pub(crate) fn per_register(self) -> usize {
        match self {
            Factor::Tf32 => 1,
            Factor::F16 | Factor::Bf16 => 2,
            Factor::S8 | Factor::U8 => 4,
        }
    }

    /// Columns of the left factor, which are rows of the right one.
    pub(crate) fn depth(self) -> usize {
        8 * self.per_register()
    }

    /// Whether two factors can be of these types.
    pub(crate) fn goes_with(self, other: Factor) -> bool {
        self == other || (self.is_integer() && other.is_integer())
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Factor::S8 | Factor::U8)
    }

    /// The `n`-th element of a register, the first lowest.
    pub(crate) fn value(self, bits: u64, n: usize) -> f64 {
        let half = (bits >> (16 * (n % 2))) as u16;
        let byte = (bits >> (8 * n)) & 0xff;
        match self {
            Factor::F16 => f16::from_bits(half).to_f64(),
            Factor::Bf16 => bf16::from_bits(half).to_f64(),
            Factor::Tf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
            Factor::S8 => sign_extend(byte, 8) as f64,
            Factor::U8 => byte as f64,
        }
    }

    /// A sum of products and the bits that it is added to: f32 for floats, s32, which wraps, for integers.
    pub(crate) fn add(self, products: f64, to: u32) -> u32 {
        if self.is_integer() {
            return to.wrapping_add(products as i64 as u32);
        }
        ((products + f64::from(f32::from_bits(to))) as f32).to_bits()
    }
}

/// Row and column of the `n`-th element that a lane has of the left factor.
pub(crate) fn place_of_a(ty: Factor, lane: usize, n: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    match ty {
        Factor::Tf32 => (group + if n == 1 || n == 3 { 8 } else { 0 }, thread + if n >= 2 { 4 } else { 0 }),
        Factor::F16 | Factor::Bf16 => {
            let upper = n < 2 || (4..6).contains(&n);
            (group + if upper { 0 } else { 8 }, 2 * thread + (n & 1) + if n >= 4 { 8 } else { 0 })
        }
        Factor::S8 | Factor::U8 => {
            let upper = n < 4 || (8..12).contains(&n);
            (group + if upper { 0 } else { 8 }, 4 * thread + (n & 3) + if n >= 8 { 16 } else { 0 })
        }
    }
}

/// Row and column of the `n`-th element that a lane has of the right factor.
pub(crate) fn place_of_b(ty: Factor, lane: usize, n: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match ty {
        Factor::Tf32 => thread + if n == 1 { 4 } else { 0 },
        Factor::F16 | Factor::Bf16 => 2 * thread + (n & 1) + if n >= 2 { 8 } else { 0 },
        Factor::S8 | Factor::U8 => 4 * thread + (n & 3) + if n >= 4 { 16 } else { 0 },
    };
    (row, group)
}

/// Row and column of the `n`-th element that a lane has of the sum.
pub(crate) fn place_of_sum(lane: usize, n: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (group + if n < 2 { 0 } else { 8 }, 2 * thread + (n & 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_element_is_with_one_lane() {
        for ty in [Factor::F16, Factor::Tf32, Factor::S8] {
            let lanes = |count: usize, place: &dyn Fn(usize, usize) -> (usize, usize)| -> BTreeSet<(usize, usize)> {
                (0..32).flat_map(|lane| (0..count).map(move |n| (lane, n))).map(|(lane, n)| place(lane, n)).collect()
            };
            let a = lanes(4 * ty.per_register(), &|lane, n| place_of_a(ty, lane, n));
            assert_eq!((a.len(), a.last().copied()), (ROWS * ty.depth(), Some((ROWS - 1, ty.depth() - 1))));
            let b = lanes(2 * ty.per_register(), &|lane, n| place_of_b(ty, lane, n));
            assert_eq!((b.len(), b.last().copied()), (ty.depth() * COLUMNS, Some((ty.depth() - 1, COLUMNS - 1))));
            let sum = lanes(4, &place_of_sum);
            assert_eq!((sum.len(), sum.last().copied()), (ROWS * COLUMNS, Some((ROWS - 1, COLUMNS - 1))));
        }
    }

    #[test]
    fn integers_wrap_and_floats_round_once() {
        assert_eq!(Factor::S8.add(3.0, u32::MAX), 2);
        assert_eq!(Factor::S8.value(0xff00, 1), -1.0);
        assert_eq!(Factor::U8.value(0xff00, 1), 255.0);
        assert_eq!(f32::from_bits(Factor::F16.add(1e-9, 1f32.to_bits())), 1.0);
        assert_eq!(Factor::Tf32.value(u64::from(1.0001f32.to_bits()), 0), 1.0);
    }
}
