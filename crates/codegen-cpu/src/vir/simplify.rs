//! Local rewrites that the builder applies to every pure operation before making it.
//!
//! Each rule stands under its equation. A right side is never worse than its left, and every value that a rule makes
//! goes through the builder again, so rules need not know of each other. Floats are only rewritten where the result is
//! the same bit for bit (NaN payloads aside); contraction to fused multiply-add is the lowering's decision.

use super::builder::Builder;
use super::{BinaryOp, Convert, Elem, I64, Op, Type, UnaryOp, Value, eval};

/// A simpler value equal to the operation, if a rule finds one.
pub(super) fn rewrite(b: &mut Builder, op: &Op, ty: Type) -> Option<Value> {
    if let Some(bits) = fold(b, op, ty) {
        return Some(b.constant(ty, bits));
    }
    if let Some(bits) = fold_lanes(b, op, ty) {
        return Some(match ty.elem {
            Elem::Mask => b.constant(ty, bits.iter().rev().fold(0, |all, lane| all << 1 | lane)),
            _ => b.lane_bits(ty, &bits),
        });
    }
    match *op {
        Op::Binary(kind, x, y) if ty.elem == Elem::Mask => mask_logic(b, kind, x, y, ty),
        Op::Binary(kind, x, y) if ty.elem.is_float() => float_binary(b, kind, x, y, ty),
        Op::Binary(kind, x, y) => int_binary(b, kind, x, y, ty),
        Op::Unary(kind, x) => unary(b, kind, x),
        Op::Select(mask, x, y) => select(b, mask, x, y, ty),
        Op::Convert(kind, x) => convert(b, kind, x, ty),
        Op::Splat(x) => (ty.lanes == 1).then_some(x),
        Op::LowHalf(x) | Op::HighHalf(x) => match b.op(x) {
            Some(&Op::Splat(scalar)) => Some(b.splat(scalar, ty.lanes)),
            _ => None,
        },
        Op::Extract(x, lane) => extract(b, x, lane),
        _ => None,
    }
}

/// A mask constant with all lanes set.
fn all_lanes(ty: Type) -> u64 {
    u64::MAX >> (64 - u32::from(ty.lanes.min(64)))
}

/// The constant that an operation on constants is.
fn fold(b: &Builder, op: &Op, ty: Type) -> Option<u64> {
    let bits = |value: Value| b.const_bits(value);
    let elem = |value: Value| b.ty(value).elem;
    let whole = |set: bool| if set { all_lanes(ty) } else { 0 };
    match *op {
        Op::Unary(UnaryOp::Not, x) if ty.elem == Elem::Mask => Some(!bits(x)? & all_lanes(ty)),
        Op::Unary(kind, x) => Some(eval::unary(kind, ty.elem, bits(x)?)),
        Op::Binary(kind, x, y) => eval::binary(kind, ty.elem, bits(x)?, bits(y)?),
        Op::Fma(x, y, z) => Some(eval::fma(ty.elem, bits(x)?, bits(y)?, bits(z)?)),
        Op::Compare(cond, x, y) => Some(whole(eval::compare(cond, elem(x), bits(x)?, bits(y)?))),
        // Lanes of a wider mask differ, so only one-lane masks convert to a (splat) constant.
        Op::Convert(Convert::MaskToInt, x) => match bits(x)? {
            0 => Some(0),
            set if set == all_lanes(ty) => Some(1),
            _ => None,
        },
        Op::Convert(Convert::Bitcast, x) if b.ty(x).lanes != ty.lanes => None,
        Op::Convert(kind, x) => Some(eval::convert(kind, elem(x), ty.elem, bits(x)?)),
        Op::Splat(x) if ty.elem == Elem::Mask => Some(whole(bits(x)? & 1 == 1)),
        Op::Splat(x) => bits(x),
        Op::LowHalf(x) if ty.elem == Elem::Mask => Some(bits(x)? & all_lanes(ty)),
        Op::HighHalf(x) if ty.elem == Elem::Mask => Some(bits(x)? >> ty.lanes),
        Op::LowHalf(x) | Op::HighHalf(x) => bits(x),
        Op::Extract(x, lane) if ty.elem == Elem::Mask => Some(bits(x)? >> lane & 1),
        Op::Extract(x, lane) => match b.op(x)? {
            Op::Lanes(lanes) => lanes.get(usize::from(lane)).copied(),
            _ => bits(x),
        },
        Op::FirstLanes(n) => {
            let n = b.as_const(n)?.clamp(0, i64::from(ty.lanes));
            Some(if n == 0 { 0 } else { u64::MAX >> (64 - n) })
        }
        Op::MaskBits(x) => bits(x),
        _ => None,
    }
}

/// The bits per lane of an operation on constants, of which one at least has lanes that differ. Masks have 0 or 1.
fn fold_lanes(b: &Builder, op: &Op, ty: Type) -> Option<Vec<u64>> {
    let mut differ = false;
    op.for_each_operand(|x| differ |= matches!(b.op(x), Some(Op::Lanes(_))));
    if !differ {
        return None;
    }
    let lane = |x: Value, n: usize| match b.op(x)? {
        Op::Lanes(lanes) => lanes.get(n).copied(),
        _ => b.const_bits(x),
    };
    let elem = |x: Value| b.ty(x).elem;
    let lanes = usize::from(ty.lanes);
    let each = |f: &dyn Fn(usize) -> Option<u64>| (0..lanes).map(f).collect::<Option<Vec<u64>>>();
    match *op {
        Op::Unary(kind, x) => each(&|n| Some(eval::unary(kind, ty.elem, lane(x, n)?))),
        Op::Binary(kind, x, y) => each(&|n| eval::binary(kind, ty.elem, lane(x, n)?, lane(y, n)?)),
        Op::Compare(cond, x, y) => each(&|n| Some(u64::from(eval::compare(cond, elem(x), lane(x, n)?, lane(y, n)?)))),
        Op::Convert(Convert::Bitcast, _) => None,
        Op::Convert(kind, x) => each(&|n| Some(eval::convert(kind, elem(x), ty.elem, lane(x, n)?))),
        Op::LowHalf(x) => each(&|n| lane(x, n)),
        Op::HighHalf(x) => each(&|n| lane(x, lanes + n)),
        _ => None,
    }
}

fn unary(b: &Builder, kind: UnaryOp, x: Value) -> Option<Value> {
    let &Op::Unary(inner, y) = b.op(x)? else { return None };
    match (kind, inner) {
        // −(−x) = x, ¬(¬x) = x
        (UnaryOp::Neg, UnaryOp::Neg) | (UnaryOp::Not, UnaryOp::Not) => Some(y),
        // | |x| | = |x|
        (UnaryOp::Abs, UnaryOp::Abs) => Some(x),
        _ => None,
    }
}

fn extract(b: &mut Builder, x: Value, lane: u16) -> Option<Value> {
    if b.ty(x).lanes == 1 {
        return Some(x);
    }
    match *b.op(x)? {
        Op::Splat(scalar) => Some(scalar),
        Op::LowHalf(whole) => Some(b.extract(whole, lane)),
        Op::HighHalf(whole) => {
            let half = b.ty(x).lanes;
            Some(b.extract(whole, lane + half))
        }
        _ => None,
    }
}

fn select(b: &mut Builder, mask: Value, x: Value, y: Value, ty: Type) -> Option<Value> {
    // m ? x : x = x
    if x == y {
        return Some(x);
    }
    // ¬m ? x : y = m ? y : x
    if let Some(&Op::Unary(UnaryOp::Not, inner)) = b.op(mask) {
        return Some(b.select(inner, y, x));
    }
    match b.const_bits(mask)? {
        0 => Some(y),
        bits if bits == all_lanes(ty) => Some(x),
        _ => None,
    }
}

fn convert(b: &mut Builder, kind: Convert, x: Value, ty: Type) -> Option<Value> {
    let from = b.ty(x);
    // No conversion at all.
    if from == ty && kind != Convert::MaskToInt {
        return Some(x);
    }
    match (kind, b.op(x)?) {
        // truncate(extend(x)) = x
        (Convert::Truncate, &Op::Convert(Convert::SignExtend | Convert::ZeroExtend, y)) if b.ty(y) == ty => Some(y),
        // extend(extend(x)) = extend(x)
        (Convert::SignExtend, &Op::Convert(Convert::SignExtend, y))
        | (Convert::ZeroExtend, &Op::Convert(Convert::ZeroExtend, y)) => Some(b.convert(kind, y, ty.elem)),
        // half(f32(half(x))) = half(x): what was rounded is a half already, and no NaN that signals.
        (Convert::Float, &Op::Convert(Convert::Float, y))
            if b.ty(y) == ty
                && matches!(ty.elem, Elem::F16 | Elem::BF16)
                && matches!(b.op(y), Some(Op::Convert(Convert::Float, _))) =>
        {
            Some(y)
        }
        // bitcast(bitcast(x)) = bitcast(x)
        (Convert::Bitcast, &Op::Convert(Convert::Bitcast, y)) => Some(b.bitcast(y, ty)),
        _ => None,
    }
}

fn mask_logic(b: &mut Builder, kind: BinaryOp, x: Value, y: Value, ty: Type) -> Option<Value> {
    if b.const_bits(x).is_some() && b.const_bits(y).is_none() {
        return Some(b.binary(kind, y, x));
    }
    let all = all_lanes(ty);
    match (kind, b.const_bits(y)) {
        // m ∧ m = m, m ∨ m = m
        (BinaryOp::And | BinaryOp::Or, _) if x == y => Some(x),
        (BinaryOp::And, Some(bits)) if bits == all => Some(x),
        (BinaryOp::And, Some(0)) => Some(y),
        (BinaryOp::Or | BinaryOp::Xor, Some(0)) => Some(x),
        (BinaryOp::Or, Some(bits)) if bits == all => Some(y),
        (BinaryOp::Xor, Some(bits)) if bits == all => Some(b.unary(UnaryOp::Not, x)),
        _ => None,
    }
}

fn float_binary(b: &mut Builder, kind: BinaryOp, x: Value, y: Value, ty: Type) -> Option<Value> {
    let commutes = matches!(kind, BinaryOp::Add | BinaryOp::Mul | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
    if commutes && out_of_order(b, x, y) {
        return Some(b.binary(kind, y, x));
    }
    // min(x, x) = x; true of NaN, too.
    if x == y && matches!(kind, BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or) {
        return Some(x);
    }
    let bits = b.const_bits(y)?;
    let value = eval::to_f64(ty.elem, bits);
    match kind {
        // x · 1 = x, x / 1 = x
        BinaryOp::Mul | BinaryOp::Div if value == 1.0 => Some(x),
        // x + (−0) = x, x − 0 = x; x + 0 is not x for x = −0.
        BinaryOp::Add if value == 0.0 && value.is_sign_negative() => Some(x),
        BinaryOp::Sub if value == 0.0 && value.is_sign_positive() => Some(x),
        // x / 2ⁿ = x · 2⁻ⁿ, exact as long as both are normal numbers.
        BinaryOp::Div if exact_reciprocal(ty.elem, bits) => {
            let reciprocal = b.fconst(ty, 1.0 / value);
            Some(b.mul(x, reciprocal))
        }
        _ => None,
    }
}

/// Whether a float constant is a power of two whose reciprocal is a normal number.
fn exact_reciprocal(elem: Elem, bits: u64) -> bool {
    let (mantissa, bias) = match elem {
        Elem::F32 => (23, 127),
        _ => (52, 1023),
    };
    let exponent = (bits >> mantissa & (2 * bias + 1)) as i64 - bias as i64;
    bits & ((1 << mantissa) - 1) == 0 && exponent.abs() < bias as i64 - 1
}

/// Canonical order of commutative operands: constants last, else older values first.
fn out_of_order(b: &Builder, x: Value, y: Value) -> bool {
    match (b.const_bits(x), b.const_bits(y)) {
        (Some(_), None) => true,
        (None, Some(_)) => false,
        _ => y < x,
    }
}

fn int_binary(b: &mut Builder, kind: BinaryOp, x: Value, y: Value, ty: Type) -> Option<Value> {
    use BinaryOp::{Add, And, Div, DivU, Max, MaxU, Min, MinU, Mul, Or, Rem, RemU, Shl, ShrS, ShrU, Sub, Xor};
    let commutes = matches!(kind, Add | Mul | And | Or | Xor | Min | Max | MinU | MaxU);
    if commutes && out_of_order(b, x, y) {
        return Some(b.binary(kind, y, x));
    }
    if x == y {
        match kind {
            And | Or | Min | Max | MinU | MaxU => return Some(x),
            Sub | Xor => return Some(b.constant(ty, 0)),
            _ => {}
        }
    }
    if kind == Add {
        return sum(b, x, y, ty);
    }
    let constant = b.as_const(y)?;
    match kind {
        // x − c = x + (−c)
        Sub => {
            let negated = b.constant(ty, constant.wrapping_neg().cast_unsigned());
            Some(b.add(x, negated))
        }
        Mul => product(b, x, constant, ty),
        Shl => shifted(b, x, constant, ty),
        And | Or | Xor | MaxU | ShrS | ShrU if constant == 0 => Some(if kind == And { y } else { x }),
        MinU if constant == 0 => Some(y),
        And if constant == -1 => Some(x),
        Div | DivU if constant == 1 => Some(x),
        Rem | RemU if constant == 1 => Some(b.constant(ty, 0)),
        DivU | RemU | Div | Rem => division(b, kind, x, constant, ty),
        _ => None,
    }
}

/// Sums keep their constant outermost, where loads and stores take it into the displacement; below it, parts defined
/// in outer blocks are added first, so that they float out of inner loops together.
fn sum(b: &mut Builder, x: Value, y: Value, ty: Type) -> Option<Value> {
    if let Some(constant) = b.as_const(y) {
        if constant == 0 {
            return Some(x);
        }
        // (z + c) + d = z + (c + d)
        let (inner, first) = plus_constant(b, x)?;
        let total = b.constant(ty, first.wrapping_add(constant).cast_unsigned());
        return Some(b.add(inner, total));
    }
    for (with, other) in [(x, y), (y, x)] {
        // (z + c) + y = (z + y) + c
        if let Some((inner, constant)) = plus_constant(b, with) {
            let inner = b.add(inner, other);
            let constant = b.constant(ty, constant.cast_unsigned());
            return Some(b.add(inner, constant));
        }
    }
    if ty != I64 {
        return None;
    }
    let (outer, deep) = if b.depth(x) <= b.depth(y) { (x, y) } else { (y, x) };
    let (shallow, rest) = split_by_depth(b, deep)?;
    if b.depth(outer) < b.depth(deep) {
        // outer + (shallow + deep) = (outer + shallow) + deep
        let together = b.add(outer, shallow);
        return Some(b.add(together, rest));
    }
    // (s + p) + (t + q) = ((s + t) + p) + q; the last two are made as they are, lest this rule runs for ever.
    let (other_shallow, other_rest) = split_by_depth(b, outer)?;
    let together = b.add(shallow, other_shallow);
    let partial = b.pure(Op::Binary(BinaryOp::Add, together, other_rest), ty);
    Some(b.pure(Op::Binary(BinaryOp::Add, partial, rest), ty))
}

/// `z + c` as its parts.
fn plus_constant(b: &Builder, value: Value) -> Option<(Value, i64)> {
    match b.op(value)? {
        &Op::Binary(BinaryOp::Add, inner, constant) => Some((inner, b.as_const(constant)?)),
        _ => None,
    }
}

/// A sum of a value from an outer block and one from its own.
fn split_by_depth(b: &Builder, value: Value) -> Option<(Value, Value)> {
    let &Op::Binary(BinaryOp::Add, p, q) = b.op(value)? else { return None };
    match b.depth(p).cmp(&b.depth(q)) {
        std::cmp::Ordering::Less => Some((p, q)),
        std::cmp::Ordering::Greater => Some((q, p)),
        std::cmp::Ordering::Equal => None,
    }
}

fn product(b: &mut Builder, x: Value, factor: i64, ty: Type) -> Option<Value> {
    match factor {
        0 => return Some(b.constant(ty, 0)),
        1 => return Some(x),
        _ => {}
    }
    match b.op(x) {
        // (z · c) · d = z · (c · d)
        Some(&Op::Binary(BinaryOp::Mul, inner, constant)) if b.as_const(constant).is_some() => {
            let first = b.as_const(constant)?;
            let total = b.constant(ty, first.wrapping_mul(factor).cast_unsigned());
            return Some(b.mul(inner, total));
        }
        // (z << c) · d = z · (d << c)
        Some(&Op::Binary(BinaryOp::Shl, inner, constant)) if b.as_const(constant).is_some() => {
            let shift = u32::try_from(b.as_const(constant)?).ok()?;
            let total = b.constant(ty, factor.checked_shl(shift)?.cast_unsigned());
            return Some(b.mul(inner, total));
        }
        _ => {}
    }
    // (z + c) · d = z · d + c · d
    if let Some((inner, constant)) = plus_constant(b, x) {
        let factor_value = b.constant(ty, factor.cast_unsigned());
        let scaled = b.mul(inner, factor_value);
        let offset = b.constant(ty, constant.wrapping_mul(factor).cast_unsigned());
        return Some(b.add(scaled, offset));
    }
    // x · 2ⁿ = x << n; there are no vector shifts of bytes, which multiply as well as they shift.
    if factor > 1 && factor & (factor - 1) == 0 && ty.elem != Elem::I8 {
        let shift = b.constant(ty, u64::from(factor.trailing_zeros()));
        return Some(b.shl(x, shift));
    }
    None
}

fn shifted(b: &mut Builder, x: Value, shift: i64, ty: Type) -> Option<Value> {
    if shift == 0 {
        return Some(x);
    }
    let width = i64::from(eval::bits_of(ty.elem));
    if !(0..width).contains(&shift) {
        return None;
    }
    match b.op(x) {
        // (z << c) << d = z << (c + d)
        Some(&Op::Binary(BinaryOp::Shl, inner, constant)) => {
            let total = b.as_const(constant)? + shift;
            let total = (total < width).then(|| b.constant(ty, total.cast_unsigned()))?;
            Some(b.shl(inner, total))
        }
        // (z · c) << d = z · (c << d)
        Some(&Op::Binary(BinaryOp::Mul, inner, constant)) => {
            let factor = b.as_const(constant)?.wrapping_shl(shift as u32);
            let factor = b.constant(ty, factor.cast_unsigned());
            Some(b.mul(inner, factor))
        }
        // (z + c) << d = (z << d) + (c << d)
        Some(&Op::Binary(BinaryOp::Add, inner, constant)) => {
            let offset = b.as_const(constant)?.wrapping_shl(shift as u32);
            let amount = b.constant(ty, shift.cast_unsigned());
            let inner = b.shl(inner, amount);
            let offset = b.constant(ty, offset.cast_unsigned());
            Some(b.add(inner, offset))
        }
        _ => None,
    }
}

/// Divisions by powers of two become shifts.
fn division(b: &mut Builder, kind: BinaryOp, x: Value, divisor: i64, ty: Type) -> Option<Value> {
    if divisor <= 1 || divisor & (divisor - 1) != 0 {
        return None;
    }
    let log2 = u64::from(divisor.trailing_zeros());
    let amount = b.constant(ty, log2);
    let low_bits = b.constant(ty, divisor.cast_unsigned() - 1);
    match kind {
        BinaryOp::DivU => Some(b.shr_u(x, amount)),
        BinaryOp::RemU => Some(b.and(x, low_bits)),
        // Towards zero: add divisor − 1 to negative values before shifting.
        BinaryOp::Div | BinaryOp::Rem => {
            let width = u64::from(eval::bits_of(ty.elem));
            let sign_shift = b.constant(ty, width - 1);
            let sign = b.shr_s(x, sign_shift);
            let bias = b.and(sign, low_bits);
            let biased = b.add(x, bias);
            if kind == BinaryOp::Div {
                return Some(b.shr_s(biased, amount));
            }
            let high_bits = b.constant(ty, divisor.wrapping_neg().cast_unsigned());
            let multiple = b.and(biased, high_bits);
            Some(b.sub(x, multiple))
        }
        _ => None,
    }
}
