//! Arithmetic, logic, comparisons and selection.

use super::repr;
use super::translate::{Machine, Translator};
use crate::vir::{BinaryOp, Cond, Elem, Op, Type, UnaryOp, Value};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};

impl Translator<'_, '_> {
    pub(super) fn unary(&mut self, kind: UnaryOp, a: Value) -> ir::Value {
        let ty = self.ty(a);
        let a = self.get(a);
        match kind {
            UnaryOp::Neg if ty.elem.is_float() => self.b.ins().fneg(a),
            UnaryOp::Abs if ty.elem.is_float() => self.b.ins().fabs(a),
            UnaryOp::Neg => self.b.ins().ineg(a),
            UnaryOp::Abs => self.b.ins().iabs(a),
            UnaryOp::Not if ty == Type::scalar(Elem::Mask) => self.b.ins().bxor_imm_u(a, 1),
            UnaryOp::Not => self.b.ins().bnot(a),
            UnaryOp::Sqrt => self.b.ins().sqrt(a),
            UnaryOp::RoundEven => self.b.ins().nearest(a),
            UnaryOp::Floor => self.b.ins().floor(a),
            UnaryOp::Ceil => self.b.ins().ceil(a),
            UnaryOp::Trunc => self.b.ins().trunc(a),
            UnaryOp::Table(_) => unreachable!("spelled out before"),
        }
    }

    pub(super) fn binary(&mut self, kind: BinaryOp, a: Value, b: Value) -> ir::Value {
        let ty = self.ty(a);
        match kind {
            BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU => return self.shift(kind, ty, a, b),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivU | BinaryOp::RemU if !ty.elem.is_float() => {
                return self.divide(kind, ty, a, b);
            }
            _ => {}
        }
        let (x, y) = (self.get(a), self.get(b));
        if ty.elem.is_float() {
            return self.float_binary(kind, ty, x, y);
        }
        match kind {
            BinaryOp::Add => self.b.ins().iadd(x, y),
            BinaryOp::Sub => self.b.ins().isub(x, y),
            BinaryOp::Mul if ty.elem == Elem::I8 && ty.lanes > 1 => self.multiply_bytes(x, y),
            BinaryOp::Mul => self.b.ins().imul(x, y),
            BinaryOp::Min => self.b.ins().smin(x, y),
            BinaryOp::Max => self.b.ins().smax(x, y),
            BinaryOp::MinU => self.b.ins().umin(x, y),
            BinaryOp::MaxU => self.b.ins().umax(x, y),
            BinaryOp::And => self.b.ins().band(x, y),
            BinaryOp::Or => self.b.ins().bor(x, y),
            BinaryOp::Xor => self.b.ins().bxor(x, y),
            _ => unreachable!("shifts and divisions are done"),
        }
    }

    fn float_binary(&mut self, kind: BinaryOp, ty: Type, x: ir::Value, y: ir::Value) -> ir::Value {
        match kind {
            BinaryOp::Add => self.b.ins().fadd(x, y),
            BinaryOp::Sub => self.b.ins().fsub(x, y),
            BinaryOp::Mul => self.b.ins().fmul(x, y),
            BinaryOp::Div => self.b.ins().fdiv(x, y),
            // The forms that become one minimum or maximum instruction of x86.
            BinaryOp::Min | BinaryOp::Max => {
                let picks_x = if kind == BinaryOp::Min {
                    self.b.ins().fcmp(FloatCC::LessThan, x, y)
                } else {
                    self.b.ins().fcmp(FloatCC::LessThan, y, x)
                };
                if ty.lanes == 1 {
                    return self.b.ins().select(picks_x, x, y);
                }
                let picks_x = self.bitcast(picks_x, repr::container(ty.elem));
                self.b.ins().bitselect(picks_x, x, y)
            }
            _ => self.float_logic(kind, ty, x, y),
        }
    }

    /// Bitwise operations on floats. x86 has them; elsewhere scalars go through integers.
    fn float_logic(&mut self, kind: BinaryOp, ty: Type, x: ir::Value, y: ir::Value) -> ir::Value {
        let ints = match ty {
            Type { elem: Elem::F32, lanes: 1 } if self.machine == Machine::Aarch64 => Some(types::I32),
            Type { elem: Elem::F64, lanes: 1 } if self.machine == Machine::Aarch64 => Some(types::I64),
            _ => None,
        };
        let (x, y) = match ints {
            Some(ints) => (self.bitcast(x, ints), self.bitcast(y, ints)),
            None => (x, y),
        };
        let result = match kind {
            BinaryOp::And => self.b.ins().band(x, y),
            BinaryOp::Or => self.b.ins().bor(x, y),
            BinaryOp::Xor => self.b.ins().bxor(x, y),
            _ => unreachable!("the verifier admits no other operation on floats"),
        };
        self.bitcast(result, repr::of(ty))
    }

    /// Products of 16 bits, of which the low halves are put together again.
    fn multiply_bytes(&mut self, x: ir::Value, y: ir::Value) -> ir::Value {
        let low_bytes = self.vector(types::I16X8, &[0xff, 0].repeat(8));
        let low = (self.b.ins().uwiden_low(x), self.b.ins().uwiden_low(y));
        let high = (self.b.ins().uwiden_high(x), self.b.ins().uwiden_high(y));
        let [low, high] = [low, high].map(|(x, y)| {
            let product = self.b.ins().imul(x, y);
            self.b.ins().band(product, low_bytes)
        });
        self.b.ins().unarrow(low, high)
    }

    /// x86 shifts all lanes by one amount; amounts that differ are done lane by lane.
    fn shift(&mut self, kind: BinaryOp, ty: Type, a: Value, amount: Value) -> ir::Value {
        let uniform = match self.definition(amount) {
            Some(&Op::Const(bits)) => Some(self.b.ins().iconst(types::I32, bits.cast_signed())),
            Some(&Op::Splat(scalar)) => Some(self.get(scalar)),
            _ if ty.lanes == 1 => Some(self.get(amount)),
            _ => None,
        };
        match uniform {
            Some(amount) => {
                let value = self.get(a);
                self.shift_by(kind, value, amount)
            }
            None => self.per_lane(ty, &[a, amount], |t, lane| t.shift_by(kind, lane[0], lane[1])),
        }
    }

    fn shift_by(&mut self, kind: BinaryOp, value: ir::Value, amount: ir::Value) -> ir::Value {
        match kind {
            BinaryOp::Shl => self.b.ins().ishl(value, amount),
            BinaryOp::ShrS => self.b.ins().sshr(value, amount),
            _ => self.b.ins().ushr(value, amount),
        }
    }

    /// No processor divides vectors of integers.
    fn divide(&mut self, kind: BinaryOp, ty: Type, a: Value, b: Value) -> ir::Value {
        self.per_lane(ty, &[a, b], |t, lane| {
            let (x, y) = (lane[0], lane[1]);
            match kind {
                BinaryOp::Div => t.b.ins().sdiv(x, y),
                BinaryOp::Rem => t.b.ins().srem(x, y),
                BinaryOp::DivU => t.b.ins().udiv(x, y),
                _ => t.b.ins().urem(x, y),
            }
        })
    }

    pub(super) fn compare(&mut self, cond: Cond, a: Value, b: Value) -> ir::Value {
        let ty = self.ty(a);
        let (x, y) = (self.get(a), self.get(b));
        let result = if ty.elem.is_float() {
            self.b.ins().fcmp(float_condition(cond), x, y)
        } else {
            self.b.ins().icmp(int_condition(cond), x, y)
        };
        if ty.lanes == 1 { result } else { self.resize_mask(result, repr::mask_lane_bytes(ty.lanes)) }
    }

    pub(super) fn select(&mut self, mask: Value, a: Value, b: Value) -> ir::Value {
        let ty = self.ty(a);
        if ty.lanes == 1 {
            let (mask, x, y) = (self.get(mask), self.get(a), self.get(b));
            return self.b.ins().select(mask, x, y);
        }
        let mask = if ty.elem == Elem::Mask { self.get(mask) } else { self.mask_for(mask, ty.elem) };
        let (x, y) = (self.get(a), self.get(b));
        self.b.ins().bitselect(mask, x, y)
    }

    /// Per 32-bit lane, two products of signed 16-bit numbers. This form becomes one multiply-and-add of pairs.
    pub(super) fn dot2(&mut self, a: Value, b: Value) -> ir::Value {
        let lanes = self.ty(a).lanes / 2;
        let (a, b) = (self.get(a), self.get(b));
        let (a_low, b_low) = (self.b.ins().swiden_low(a), self.b.ins().swiden_low(b));
        let (a_high, b_high) = (self.b.ins().swiden_high(a), self.b.ins().swiden_high(b));
        let (low, high) = (self.b.ins().imul(a_low, b_low), self.b.ins().imul(a_high, b_high));
        let sums = self.b.ins().iadd_pairwise(low, high);
        if lanes == 1 { self.b.ins().extractlane(sums, 0) } else { sums }
    }
}

fn float_condition(cond: Cond) -> FloatCC {
    match cond {
        Cond::Eq => FloatCC::Equal,
        Cond::Ne => FloatCC::NotEqual,
        Cond::Lt | Cond::LtU => FloatCC::LessThan,
        Cond::Le | Cond::LeU => FloatCC::LessThanOrEqual,
        Cond::Gt => FloatCC::GreaterThan,
        Cond::Ge => FloatCC::GreaterThanOrEqual,
        Cond::Ordered => FloatCC::Ordered,
    }
}

fn int_condition(cond: Cond) -> IntCC {
    match cond {
        // No two integers are unordered; the verifier lets nobody ask.
        Cond::Eq | Cond::Ordered => IntCC::Equal,
        Cond::Ne => IntCC::NotEqual,
        Cond::Lt => IntCC::SignedLessThan,
        Cond::Le => IntCC::SignedLessThanOrEqual,
        Cond::Gt => IntCC::SignedGreaterThan,
        Cond::Ge => IntCC::SignedGreaterThanOrEqual,
        Cond::LtU => IntCC::UnsignedLessThan,
        Cond::LeU => IntCC::UnsignedLessThanOrEqual,
    }
}
