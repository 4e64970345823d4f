//! Powers of integers: squares of the base, multiplied where the exponent has a bit.

use super::Lower;
use super::ops::is_unsigned;
use crate::vir::{Cond, Value};
use infc_tensor::DType;

impl Lower<'_> {
    /// `a^b`, wrapping. Under a negative exponent only 1 and −1 have a power that is an integer; all others give 0.
    pub(super) fn integer_power(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let ty = self.b.ty(a);
        let unsigned = is_unsigned(dtype);
        let (zero, one) = (self.b.constant(ty, 0), self.b.constant(ty, 1));
        let bits = dtype.size_bits() - usize::from(!unsigned);
        let (mut power, mut square) = (one, a);
        for bit in 0..bits {
            let mask = self.b.constant(ty, 1 << bit);
            let masked = self.b.and(b, mask);
            let has = self.b.compare(Cond::Ne, masked, zero);
            let times = self.b.mul(power, square);
            power = self.b.select(has, times, power);
            square = self.b.mul(square, square);
        }
        if unsigned {
            return power;
        }
        let minus_one = self.b.constant(ty, (-1i64).cast_unsigned());
        let last = self.b.and(b, one);
        let odd = self.b.compare(Cond::Ne, last, zero);
        let of_minus_one = self.b.select(odd, minus_one, one);
        let is_minus_one = self.b.compare(Cond::Eq, a, minus_one);
        let inverse = self.b.select(is_minus_one, of_minus_one, zero);
        let is_one = self.b.compare(Cond::Eq, a, one);
        let inverse = self.b.select(is_one, one, inverse);
        let negative = self.b.compare(Cond::Lt, b, zero);
        self.b.select(negative, inverse, power)
    }
}
