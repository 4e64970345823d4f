//! Which elements of a list are among the first `k`, in time linear in its length.
//!
//! Elements become integers of the same order. A few are found one after the other, each as the largest below the one before.
//! Of many the `k`-th one is found bit by bit, the highest first: a bit is set if as many elements are no less than what that
//! makes. What comes before that number is taken, and of what is equal to it the first ones; a running count says where they
//! go. So `k` candidates are left, equals in their order, for whatever sorts them.

use super::reduce::smallest_value;
use super::scatter::sums_by_target;
use crate::build::{Builder, Result, index, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::op::ScanOp;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// A list of at least so many elements is worth selecting from: below, comparing each with each is as quick (docs/perf-log.md).
pub(super) const LEAST: i64 = 320;

/// A list of at most so many is selected from: elements are counted in 31 bits.
pub(super) const MOST: i64 = i32::MAX as i64;

/// So many elements at most are found one after the other.
pub(super) const FEW: i64 = 16;

/// Two counts in one `i64`, or a key and a place: the higher one is counted in these.
const HALF: f64 = (1u64 << 32) as f64;

/// How far the higher one is shifted.
const HALF_BITS: f64 = 32.0;

/// The lists along an axis of a value.
struct Lists<'b> {
    build: &'b mut Builder,
    shape: Vec<Dim>,
    axis: usize,
}

/// Integers, `i32` or `i64`, that are larger where elements are taken before others: where these are larger, or smaller. NaN is
/// larger than everything.
pub(super) fn keys(build: &mut Builder, x: &Tracked, largest: bool) -> Result<Tracked> {
    build.map(&[x], |body, p| {
        let key = ascending(body, p[0]);
        if largest { key } else { body.unary(UnaryOp::Not, key) }
    })
}

/// The positions of the `k` largest keys along an axis, in their order, equal ones in that of their positions: `[…, k, …]` of
/// `i64`. For few of them, and keys of 32 bits.
pub(super) fn few(build: &mut Builder, keys: &Tracked, axis: usize, k: i64) -> Result<Tracked> {
    let mut lists = Lists { build, shape: keys.shape().to_vec(), axis };
    // No two are equal: those of earlier positions are larger.
    let keys = lists.build.map_over(keys.shape().to_vec(), &[keys], |body, p| {
        let (key, by) = (body.cast(DType::I64, p[0]), body.constant(DType::I64, HALF_BITS));
        let (key, last) = (body.binary(BinaryOp::Shl, key, by), body.constant(DType::I64, HALF - 1.0));
        let place = index(body, var(axis));
        let place = body.binary(BinaryOp::Sub, last, place);
        body.binary(BinaryOp::Or, key, place)
    })?;
    let mut found: Vec<Tracked> = Vec::new();
    for _ in 0..k {
        let next = match found.last() {
            Some(last) => {
                let extent = lists.shape[axis].clone();
                let last = lists.spread(last, &extent)?;
                let least = smallest_value(DType::I64);
                lists.fold(&[&keys, &last], Reducer::binary(BinaryOp::Max, least), |body, p| {
                    let below = body.compare(CompareOp::Lt, p[0], p[1]);
                    let least = body.push(ScalarOp::Const(least));
                    body.select(below, p[0], least)
                })?
            }
            None => lists.fold(&[&keys], Reducer::binary(BinaryOp::Max, smallest_value(DType::I64)), |_, p| p[0])?,
        };
        found.push(next);
    }
    let found = lists.build.concat(&found.iter().collect::<Vec<_>>(), axis)?;
    lists.build.map(&[&found], |body, p| {
        let last = body.constant(DType::I64, HALF - 1.0);
        let place = body.binary(BinaryOp::And, p[0], last);
        body.binary(BinaryOp::Sub, last, place)
    })
}

/// The positions of the `k` largest keys along an axis: `[…, k, …]` of `i64`, in an order in which equal keys have theirs.
pub(super) fn candidates(build: &mut Builder, keys: &Tracked, axis: usize, k: &Dim) -> Result<Tracked> {
    let mut lists = Lists { build, shape: keys.shape().to_vec(), axis };
    let last = lists.last(keys, k)?;
    lists.taken(keys, &last, k)
}

/// An integer for a number, in the same order.
fn ascending(body: &mut Body, x: ScalarId) -> ScalarId {
    match body.dtype(x) {
        DType::F32 => of_float(body, x, DType::I32),
        DType::F64 => of_float(body, x, DType::I64),
        DType::I64 => x,
        dtype @ (DType::U32 | DType::U64) => {
            let signed = signed(dtype);
            let (bits, sign) =
                (body.push(ScalarOp::BitCast(signed, x)), body.push(ScalarOp::Const(smallest_value(signed))));
            body.binary(BinaryOp::Xor, bits, sign)
        }
        _ => body.cast(DType::I32, x),
    }
}

/// The signed integers that have the bits of a type.
fn signed(dtype: DType) -> DType {
    if matches!(dtype, DType::U64 | DType::F64 | DType::I64) { DType::I64 } else { DType::I32 }
}

/// The integer for one float.
fn of_float(body: &mut Body, x: ScalarId, bits: DType) -> ScalarId {
    // Both zeros are equal.
    let zero = body.constant(body.dtype(x), 0.0);
    let is_zero = body.compare(CompareOp::Eq, x, zero);
    let x = body.select(is_zero, zero, x);
    let none = body.unary(UnaryOp::IsNan, x);
    let x = body.push(ScalarOp::BitCast(bits, x));
    let (zero, sign) = (body.constant(bits, 0.0), body.push(ScalarOp::Const(smallest_value(bits))));
    let magnitude = body.unary(UnaryOp::Not, sign);
    let negative = body.compare(CompareOp::Lt, x, zero);
    let flipped = body.binary(BinaryOp::Xor, x, magnitude);
    let ordered = body.select(negative, flipped, x);
    body.select(none, magnitude, ordered)
}

impl Lists<'_> {
    /// The shape with another extent along the lists.
    fn per_list(&self, extent: Dim) -> Vec<Dim> {
        let mut shape = self.shape.clone();
        shape[self.axis] = extent;
        shape
    }

    /// What there is one of per list, over lists of this extent.
    fn spread(&mut self, x: &Tracked, extent: &Dim) -> Result<Tracked> {
        let place = |n: usize| if n == self.axis { IndexExpr::constant(0) } else { var(n) };
        let index = (0..self.shape.len()).map(place).collect();
        self.build.view(x, index, self.per_list(extent.clone()))
    }

    /// A fold over each list: one element per list.
    fn fold(
        &mut self,
        inputs: &[&Tracked],
        reducer: Reducer,
        f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
    ) -> Result<Tracked> {
        let folded = self.build.reduce(inputs, &[self.axis], reducer, |body, p| vec![f(body, p)])?;
        let kept = (0..self.shape.len()).filter(|&n| n != self.axis).map(var).collect();
        self.build.view(&folded[0], kept, self.per_list(Dim::constant(1)))
    }

    /// How many keys of each list compare so with a number.
    fn count(&mut self, keys: &Tracked, op: CompareOp, than: &Tracked) -> Result<Tracked> {
        let extent = self.shape[self.axis].clone();
        let than = self.spread(than, &extent)?;
        self.fold(&[keys, &than], Reducer::sum(DType::I32), |body, p| {
            let holds = body.compare(op, p[0], p[1]);
            let [one, none] = [1.0, 0.0].map(|n| body.constant(DType::I32, n));
            body.select(holds, one, none)
        })
    }

    /// The `k`-th largest key of each list.
    ///
    /// Seen as an unsigned number, what is tried next is what was found and one bit more: its lowest bit says which that is,
    /// so that the steps are all alike, one kernel for all of them.
    fn last(&mut self, keys: &Tracked, k: &Dim) -> Result<Tracked> {
        let dtype = keys.dtype();
        let sign = smallest_value(dtype);
        let bits = dtype.size_bytes().unwrap_or(4) * 8;
        let one = self.per_list(Dim::constant(1));
        let mut tried = self.build.map_over(one, &[], |body, _| body.constant(dtype, 0.0))?;
        for bit in (0..bits).rev() {
            let count = self.count(keys, CompareOp::Ge, &tried)?;
            tried = self.build.map(&[&count, &tried], |body, p| {
                let k = index(body, k.clone());
                let k = body.cast(DType::I32, k);
                let are_enough = body.compare(CompareOp::Ge, p[0], k);
                if bit == 0 {
                    let one = body.constant(dtype, 1.0);
                    let less = body.binary(BinaryOp::Sub, p[1], one);
                    return body.select(are_enough, p[1], less);
                }
                let sign = body.push(ScalarOp::Const(sign));
                let number = body.binary(BinaryOp::Xor, p[1], sign);
                let negated = body.unary(UnaryOp::Neg, number);
                let lowest = body.binary(BinaryOp::And, number, negated);
                let (by, most) = (body.constant(dtype, 1.0), body.unary(UnaryOp::Not, sign));
                // Half of the highest bit, too, is no negative number.
                let half = body.binary(BinaryOp::Shr, lowest, by);
                let half = body.binary(BinaryOp::And, half, most);
                let (more, less) = (body.binary(BinaryOp::Add, number, half), body.binary(BinaryOp::Sub, number, half));
                let number = body.select(are_enough, more, less);
                body.binary(BinaryOp::Xor, number, sign)
            })?;
        }
        Ok(tried)
    }

    /// Where the elements are that come before the last one, and as many of its equals as are left.
    fn taken(&mut self, keys: &Tracked, last: &Tracked, k: &Dim) -> Result<Tracked> {
        let axis = self.axis;
        let extent = self.shape[axis].clone();
        let before = self.count(keys, CompareOp::Gt, last)?;
        let [last, before] = [last, &before].map(|x| self.spread(x, &extent));
        let (last, before) = (last?, before?);
        let compared =
            |body: &mut Body, key, last| [CompareOp::Gt, CompareOp::Eq].map(|op| body.compare(op, key, last));
        // Both are counted at once: the equals above the low half.
        let marks = self.build.map(&[keys, &last], |body, p| {
            let [ahead, equal] = compared(body, p[0], p[1]);
            let [one, above, none] = [1.0, HALF, 0.0].map(|n| body.constant(DType::I64, n));
            let equal = body.select(equal, above, none);
            body.select(ahead, one, equal)
        })?;
        let sum = ScanOp { axis, reverse: false, exclusive: true, reducer: Reducer::sum(DType::I64) };
        let counts = self.build.scan(&marks, sum)?;
        let targets = self.build.map_over(self.shape.clone(), &[keys, &last, &counts, &before], |body, p| {
            let [ahead, equal] = compared(body, p[0], p[1]);
            let (low, bits) = (body.constant(DType::I64, HALF - 1.0), body.constant(DType::I64, HALF_BITS));
            let (aheads, equals) = (body.binary(BinaryOp::And, p[2], low), body.binary(BinaryOp::Shr, p[2], bits));
            let (before, k) = (body.cast(DType::I64, p[3]), index(body, k.clone()));
            let behind = body.binary(BinaryOp::Add, before, equals);
            let wanted = body.compare(CompareOp::Lt, behind, k);
            let wanted = body.binary(BinaryOp::And, equal, wanted);
            let nowhere = body.constant(DType::I64, -1.0);
            let of_equals = body.select(wanted, behind, nowhere);
            body.select(ahead, aheads, of_equals)
        })?;
        sums_by_target(self.build, &targets, axis, k.clone(), DType::I64, index)
    }
}
