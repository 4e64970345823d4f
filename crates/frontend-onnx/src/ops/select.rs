//! Which elements of a list are among the first `k`, in time linear in its length.
//!
//! Floats become integers of the same order. The `k`-th one is found digit by digit, the highest first: of those that begin
//! with the digits found so far, how many have which next digit is counted (scattered additions of one), and the digit is the
//! one at which there are `k`. What comes before that number is taken, and of what is equal to it the first ones; a running
//! count says where they go. So `k` candidates are left, equals in their order, for whatever sorts them.

use super::scatter::sums_by_target;
use crate::build::{Builder, Result, index, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::op::ScanOp;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// Digits of a number from the highest on: by how many bits it is shifted for them, and how many they have.
const DIGITS: [(u32, u32); 3] = [(21, 11), (10, 11), (0, 10)];

/// A list of at least so many elements is worth counting: comparing 256 with each other takes 8.3 µs and selecting 10 of them
/// 10.4, of 512 it is 31 and 12 (docs/perf-log.md).
pub(super) const LEAST: i64 = 320;

/// The sign bit of an `i32`.
const SIGN: f64 = i32::MIN as f64;

/// Two counts in one `i64`: the second is counted in these.
const HALF: f64 = (1u64 << 32) as f64;

/// The lists along an axis of a value.
struct Lists<'b> {
    build: &'b mut Builder,
    shape: Vec<Dim>,
    axis: usize,
}

/// Integers that are larger where floats of 32 bits are taken before others: where these are larger, or smaller. NaN is
/// larger than everything.
pub(super) fn keys(build: &mut Builder, x: &Tracked, largest: bool) -> Result<Tracked> {
    build.map(&[x], |body, p| key(body, p[0], largest))
}

/// The positions of the `k` largest keys along an axis: `[…, k, …]` of `i64`, in an order in which equal keys have theirs.
pub(super) fn candidates(build: &mut Builder, keys: &Tracked, axis: usize, k: &Dim) -> Result<Tracked> {
    let mut lists = Lists { build, shape: keys.shape().to_vec(), axis };
    let one = lists.per_list(Dim::constant(1));
    let counted = |body: &mut Body, n: &Dim| {
        let n = index(body, n.clone());
        body.cast(DType::I32, n)
    };
    let mut left = lists.build.map_over(one.clone(), &[], |body, _| counted(body, k))?;
    let mut before = lists.build.map_over(one, &[], |body, _| counted(body, &Dim::constant(0)))?;
    let mut last = before.clone();
    for (shift, bits) in DIGITS {
        let digits = lists.digits(keys, Some(&last).filter(|_| shift + bits < 32), shift, bits)?;
        let Digit { digit, ahead } = lists.digit(&digits, bits, &left)?;
        left = lists.build.map(&[&left, &ahead], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))?;
        before = lists.build.map(&[&before, &ahead], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
        last = lists.build.map(&[&last, &digit], |body, p| {
            let bits = body.constant(DType::I32, f64::from(bits));
            let higher = body.binary(BinaryOp::Shl, p[0], bits);
            body.binary(BinaryOp::Or, higher, p[1])
        })?;
    }
    lists.taken(keys, &last, &before, &left, k)
}

/// The key of one float.
fn key(body: &mut Body, x: ScalarId, largest: bool) -> ScalarId {
    // Both zeros are equal.
    let zero = body.constant(DType::F32, 0.0);
    let is_zero = body.compare(CompareOp::Eq, x, zero);
    let x = body.select(is_zero, zero, x);
    let bits = body.push(ScalarOp::BitCast(DType::I32, x));
    let (zero, magnitude) = (body.constant(DType::I32, 0.0), body.constant(DType::I32, f64::from(i32::MAX)));
    let negative = body.compare(CompareOp::Lt, bits, zero);
    let flipped = body.binary(BinaryOp::Xor, bits, magnitude);
    let ordered = body.select(negative, flipped, bits);
    let none = body.unary(UnaryOp::IsNan, x);
    let ordered = body.select(none, magnitude, ordered);
    if largest { ordered } else { body.unary(UnaryOp::Not, ordered) }
}

/// The next digit of the number up to which elements are taken, per list.
struct Digit {
    digit: Tracked,
    /// How many elements have a larger one there.
    ahead: Tracked,
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

    /// The digits of all keys that begin with those found, as `i64`; −1 for the others.
    fn digits(&mut self, keys: &Tracked, found: Option<&Tracked>, shift: u32, bits: u32) -> Result<Tracked> {
        let part = |body: &mut Body, key: ScalarId, shift: u32, bits: u32| {
            let by = body.constant(DType::I32, f64::from(shift));
            let all = body.constant(DType::I32, f64::from((1u32 << bits) - 1));
            let moved = body.binary(BinaryOp::Shr, key, by);
            body.binary(BinaryOp::And, moved, all)
        };
        let extent = self.shape[self.axis].clone();
        let unsigned = |body: &mut Body, key: ScalarId| {
            let sign = body.constant(DType::I32, SIGN);
            body.binary(BinaryOp::Xor, key, sign)
        };
        let Some(found) = found else {
            return self.build.map(&[keys], |body, p| {
                let key = unsigned(body, p[0]);
                let digit = part(body, key, shift, bits);
                body.cast(DType::I64, digit)
            });
        };
        let found = self.spread(found, &extent)?;
        self.build.map(&[keys, &found], |body, p| {
            let key = unsigned(body, p[0]);
            let digit = part(body, key, shift, bits);
            let higher = part(body, key, shift + bits, 32 - shift - bits);
            let same = body.compare(CompareOp::Eq, higher, p[1]);
            let other = body.constant(DType::I32, -1.0);
            let digit = body.select(same, digit, other);
            body.cast(DType::I64, digit)
        })
    }

    /// The largest digit such that at least `left` elements have it or a larger one.
    fn digit(&mut self, digits: &Tracked, bits: u32, left: &Tracked) -> Result<Digit> {
        let (axis, rank) = (self.axis, self.shape.len());
        let kinds = Dim::constant(1 << bits);
        let one = |body: &mut Body, _| body.constant(DType::I32, 1.0);
        let counts = sums_by_target(self.build, digits, axis, kinds.clone(), DType::I32, one)?;
        let sum = ScanOp { axis, reverse: true, exclusive: false, reducer: Reducer::sum(DType::I32) };
        let from_here_on = self.build.scan(&counts, sum)?;
        let left = self.spread(left, &kinds)?;
        let largest = || Reducer::binary(BinaryOp::Max, Const::zero(DType::I32));
        let inputs = [&from_here_on, &left];
        let digit = self.build.reduce(&inputs, &[axis], largest(), |body, p| {
            let enough = body.compare(CompareOp::Ge, p[0], p[1]);
            let (kind, none) = (index(body, var(axis)), body.constant(DType::I32, 0.0));
            let kind = body.cast(DType::I32, kind);
            vec![body.select(enough, kind, none)]
        })?;
        let ahead = self.build.reduce(&inputs, &[axis], largest(), |body, p| {
            let too_few = body.compare(CompareOp::Lt, p[0], p[1]);
            let none = body.constant(DType::I32, 0.0);
            vec![body.select(too_few, p[0], none)]
        })?;
        let kept: Vec<IndexExpr> = (0..rank).filter(|&n| n != axis).map(var).collect();
        let one = self.per_list(Dim::constant(1));
        let digit = self.build.view(&digit[0], kept.clone(), one.clone())?;
        let ahead = self.build.view(&ahead[0], kept, one)?;
        Ok(Digit { digit, ahead })
    }

    /// Where the elements are that come before the last one, and as many of its equals as are left.
    fn taken(&mut self, keys: &Tracked, last: &Tracked, before: &Tracked, left: &Tracked, k: &Dim) -> Result<Tracked> {
        let axis = self.axis;
        let extent = self.shape[axis].clone();
        let [last, before, left] = [last, before, left].map(|x| self.spread(x, &extent));
        let (last, before, left) = (last?, before?, left?);
        let compared = |body: &mut Body, key: ScalarId, last: ScalarId| {
            let sign = body.constant(DType::I32, SIGN);
            let last = body.binary(BinaryOp::Xor, last, sign);
            [CompareOp::Gt, CompareOp::Eq].map(|op| body.compare(op, key, last))
        };
        // Both are counted at once: the equals above the low half.
        let marks = self.build.map(&[keys, &last], |body, p| {
            let [ahead, equal] = compared(body, p[0], p[1]);
            let [one, above, none] = [1.0, HALF, 0.0].map(|n| body.constant(DType::I64, n));
            let equal = body.select(equal, above, none);
            body.select(ahead, one, equal)
        })?;
        let sum = ScanOp { axis, reverse: false, exclusive: true, reducer: Reducer::sum(DType::I64) };
        let counts = self.build.scan(&marks, sum)?;
        let inputs = [keys, &last, &counts, &before, &left];
        let targets = self.build.map_over(self.shape.clone(), &inputs, |body, p| {
            let [ahead, equal] = compared(body, p[0], p[1]);
            let (low, bits) = (body.constant(DType::I64, HALF - 1.0), body.constant(DType::I64, 32.0));
            let (aheads, equals) = (body.binary(BinaryOp::And, p[2], low), body.binary(BinaryOp::Shr, p[2], bits));
            let (before, left) = (body.cast(DType::I64, p[3]), body.cast(DType::I64, p[4]));
            let wanted = body.compare(CompareOp::Lt, equals, left);
            let wanted = body.binary(BinaryOp::And, equal, wanted);
            let (behind, nowhere) = (body.binary(BinaryOp::Add, before, equals), body.constant(DType::I64, -1.0));
            let of_equals = body.select(wanted, behind, nowhere);
            body.select(ahead, aheads, of_equals)
        })?;
        sums_by_target(self.build, &targets, axis, k.clone(), DType::I64, index)
    }
}
