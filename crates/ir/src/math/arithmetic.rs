//! What expansions are made of.

use super::Table;
use crate::scalar::CompareOp;

/// The two kinds of floats that are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the types")]
pub enum Float {
    F32,
    F64,
}

/// A builder of instructions, as far as expansions need it.
///
/// Values are floats, integers as wide as these, or masks, the results of comparisons; all operands of an operation have
/// one type. A value may have several lanes, all of which are computed alike.
pub trait Arithmetic: Sized {
    /// A value of the function that is built.
    type Value: Copy;
    /// The type of a value, with the number of its lanes.
    type Type: Copy;

    /// The type of a value.
    fn ty(&self, a: Self::Value) -> Self::Type;

    /// Which float a type of floats is.
    ///
    /// # Panics
    /// If it is none.
    fn float(ty: Self::Type) -> Float;

    /// Which float a value is.
    ///
    /// # Panics
    /// If it is none.
    fn float_type(&self, a: Self::Value) -> Float {
        Self::float(self.ty(a))
    }

    /// A constant by its bits, in all lanes.
    fn constant(&mut self, ty: Self::Type, bits: u64) -> Self::Value;

    /// A constant of a float type, rounded to nearest, in all lanes.
    fn fconst(&mut self, ty: Self::Type, value: f64) -> Self::Value;

    /// What a float is in all lanes, if that is known.
    fn constant_of(&self, a: Self::Value) -> Option<f64>;

    /// `a + b`; integers wrap.
    fn add(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a − b`; integers wrap.
    fn sub(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a · b`; integers wrap.
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a / b` of floats.
    fn div(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a · b + c` of floats, rounded once where the machine can.
    fn fma(&mut self, a: Self::Value, b: Self::Value, c: Self::Value) -> Self::Value;
    /// Whether the machine rounds [`Arithmetic::fma`] once.
    fn fuses(&self) -> bool;
    /// `a < b ? a : b`, so the second operand if either is NaN.
    fn min(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `a > b ? a : b`, so the second operand if either is NaN.
    fn max(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `−a`.
    fn neg(&mut self, a: Self::Value) -> Self::Value;
    /// `|a|`.
    fn abs(&mut self, a: Self::Value) -> Self::Value;
    /// √a, correctly rounded.
    fn sqrt(&mut self, a: Self::Value) -> Self::Value;
    /// To a whole number, towards zero.
    fn trunc(&mut self, a: Self::Value) -> Self::Value;
    /// To a whole number, to nearest, half to even.
    fn round_even(&mut self, a: Self::Value) -> Self::Value;

    /// `a · 2^⌊n + more⌋` of floats, rounded once; `None` where the machine has no instruction for it.
    fn scale(&mut self, _a: Self::Value, _n: Self::Value, _more: i32) -> Option<Self::Value> {
        None
    }

    /// Whether the machine has instructions for [`Arithmetic::look_up`] and [`Arithmetic::scale`].
    fn has_tables(&self) -> bool {
        false
    }

    /// The constant of a table, as an `f32`, at the number that the lowest four bits of an `f32` are.
    ///
    /// # Panics
    /// Where the machine has no instruction for it.
    fn look_up(&mut self, _table: Table, _a: Self::Value) -> Self::Value {
        panic!("this machine looks nothing up");
    }

    /// Bit by bit, also of floats and masks.
    fn and(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// See [`Arithmetic::and`].
    fn or(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// See [`Arithmetic::and`].
    fn xor(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// See [`Arithmetic::and`].
    fn not(&mut self, a: Self::Value) -> Self::Value;
    /// Integers, shifted by less than their width.
    fn shl(&mut self, a: Self::Value, by: Self::Value) -> Self::Value;
    /// See [`Arithmetic::shl`]; the sign is shifted in.
    fn shr_s(&mut self, a: Self::Value, by: Self::Value) -> Self::Value;
    /// See [`Arithmetic::shl`]; zeros are shifted in.
    fn shr_u(&mut self, a: Self::Value, by: Self::Value) -> Self::Value;

    /// A comparison; integers are signed. The result is a mask.
    fn compare(&mut self, f: CompareOp, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `mask ? a : b`.
    fn select(&mut self, mask: Self::Value, a: Self::Value, b: Self::Value) -> Self::Value;

    /// A float's bits, as an integer.
    fn bits_of(&mut self, a: Self::Value) -> Self::Value;
    /// The float of an integer's bits.
    fn float_of(&mut self, a: Self::Value) -> Self::Value;
    /// An `f32` as `f64`.
    fn double_of(&mut self, a: Self::Value) -> Self::Value;
    /// An `f64`, or a 32-bit integer, as the nearest `f32`.
    fn single_of(&mut self, a: Self::Value) -> Self::Value;
    /// An `f64` towards zero as a 32-bit integer; any number if it is out of range.
    fn whole_of(&mut self, a: Self::Value) -> Self::Value;

    /// What `then` gives if any lane of the mask is set, else `otherwise`: a branch around what is rarely needed.
    fn if_any(
        &mut self,
        mask: Self::Value,
        otherwise: [Self::Value; 2],
        then: impl FnOnce(&mut Self) -> [Self::Value; 2],
    ) -> [Self::Value; 2];
}
