//! Conversions between element types.
//!
//! Those of 16-bit floats are spelled out before translation. Integers change width in the low lanes. Floats become
//! integers by the x86 rule: what does not fit gives the minimum integer.

use super::lanes::lane_number;
use super::repr;
use super::translate::{Machine, Translator};
use crate::vir::{Convert, Elem, Type, Value, eval};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

impl Translator<'_, '_> {
    pub(super) fn convert(&mut self, kind: Convert, a: Value, ty: Type) -> ir::Value {
        let from = self.ty(a);
        let value = self.get(a);
        match kind {
            Convert::SignExtend | Convert::ZeroExtend => self.extend(kind == Convert::SignExtend, value, ty),
            Convert::Truncate => self.truncate(value, from, ty),
            Convert::IntToFloat => self.int_to_float(a, ty),
            Convert::FloatToInt => self.float_to_int(value, from, ty),
            Convert::FloatToIntRound => {
                let rounded = self.b.ins().nearest(value);
                self.float_to_int(rounded, from, ty)
            }
            Convert::Float => self.float_to_float(value, from, ty),
            Convert::Bitcast => self.reinterpret(value, from, ty),
            Convert::MaskToInt if ty.lanes == 1 => self.zero_extend(value, repr::of(ty)),
            Convert::MaskToInt => {
                let mask = self.mask_for(a, ty.elem);
                let ones = self.constant(ty, 1);
                self.b.ins().band(mask, ones)
            }
        }
    }

    fn extend(&mut self, signed: bool, value: ir::Value, ty: Type) -> ir::Value {
        let target = repr::of(ty);
        if ty.lanes == 1 {
            return if signed { self.b.ins().sextend(target, value) } else { self.b.ins().uextend(target, value) };
        }
        let mut value = value;
        while self.held_as(value) != target {
            value = if signed { self.b.ins().swiden_low(value) } else { self.b.ins().uwiden_low(value) };
        }
        value
    }

    fn truncate(&mut self, value: ir::Value, from: Type, ty: Type) -> ir::Value {
        if ty.lanes == 1 {
            return self.b.ins().ireduce(repr::of(ty), value);
        }
        // The low bytes of every lane, side by side.
        let (from, to) = (from.elem.size_bytes(), ty.elem.size_bytes());
        let picks = std::array::from_fn(|n| {
            let (lane, byte) = (n as u32 / to, n as u32 % to);
            ((lane * from + byte) % repr::REGISTER_BYTES) as u8
        });
        let picked = self.shuffle(value, picks);
        self.bitcast(picked, repr::container(ty.elem))
    }

    fn int_to_float(&mut self, a: Value, ty: Type) -> ir::Value {
        let value = self.get(a);
        let target = repr::of(ty);
        match (self.ty(a).elem, ty.elem) {
            _ if ty.lanes == 1 => self.b.ins().fcvt_from_sint(target, value),
            (Elem::I32, Elem::F32) => self.b.ins().fcvt_from_sint(target, value),
            (Elem::I32, _) => {
                let wide = self.b.ins().swiden_low(value);
                self.b.ins().fcvt_from_sint(target, wide)
            }
            _ => self.per_lane(ty, &[a], |t, lane| t.b.ins().fcvt_from_sint(repr::scalar(ty.elem), lane[0])),
        }
    }

    /// Truncates towards zero.
    fn float_to_int(&mut self, value: ir::Value, from: Type, ty: Type) -> ir::Value {
        if self.machine != Machine::Aarch64 && ty.elem == Elem::I32 {
            // The instructions for vectors have the wanted rule; scalars use them, too.
            let vector = if ty.lanes == 1 { self.in_low_lane(value) } else { value };
            let ints = if from.elem == Elem::F32 {
                self.b.ins().x86_cvtt2dq(types::I32X4, vector)
            } else {
                let wide = self.b.ins().x86_cvtt2dq(types::I64X2, vector);
                let zeros = self.vector(types::I64X2, &[0; 16]);
                self.b.ins().snarrow(wide, zeros)
            };
            return if ty.lanes == 1 { self.b.ins().extractlane(ints, 0) } else { ints };
        }
        if ty.lanes == 1 {
            return self.scalar_to_int(value, from.elem, ty.elem);
        }
        let zeros = self.constant(ty, 0);
        (0..ty.lanes).fold(zeros, |lanes, lane| {
            let float = self.extract_from(value, from, lane);
            let int = self.scalar_to_int(float, from.elem, ty.elem);
            self.b.ins().insertlane(lanes, int, lane_number(lane))
        })
    }

    /// Saturating conversion is right but for NaN and what is too large.
    fn scalar_to_int(&mut self, value: ir::Value, from: Elem, to: Elem) -> ir::Value {
        let target = repr::scalar(to);
        let limit = eval::from_f64(from, 2f64.powi(target.bits().cast_signed() - 1));
        let limit = self.constant(Type::scalar(from), limit);
        let fits = self.b.ins().fcmp(FloatCC::LessThan, value, limit);
        let saturated = self.b.ins().fcvt_to_sint_sat(target, value);
        let lowest = self.integer(target, 1 << (target.bits() - 1));
        self.b.ins().select(fits, saturated, lowest)
    }

    fn float_to_float(&mut self, value: ir::Value, from: Type, ty: Type) -> ir::Value {
        match (from.elem, ty.elem, ty.lanes) {
            (Elem::F32, Elem::F64, 1) => self.b.ins().fpromote(types::F64, value),
            (Elem::F64, Elem::F32, 1) => self.b.ins().fdemote(types::F32, value),
            (Elem::F32, Elem::F64, _) => self.b.ins().fvpromote_low(value),
            (Elem::F64, Elem::F32, _) => self.b.ins().fvdemote(value),
            _ => value,
        }
    }

    /// The same bits; lanes may be divided in another way.
    fn reinterpret(&mut self, value: ir::Value, from: Type, ty: Type) -> ir::Value {
        match (from.lanes, ty.lanes) {
            (1, 1) => self.bitcast(value, repr::of(ty)),
            (1, _) => {
                let vector = self.in_low_lane(value);
                self.bitcast(vector, repr::of(ty))
            }
            (_, 1) => {
                let vector = self.bitcast(value, repr::container(ty.elem));
                self.b.ins().extractlane(vector, 0)
            }
            _ => self.bitcast(value, repr::of(ty)),
        }
    }

    /// A scalar in the lowest lane of a vector.
    pub(super) fn in_low_lane(&mut self, scalar: ir::Value) -> ir::Value {
        // Narrower integers have no such move.
        let scalar = match self.held_as(scalar) {
            types::I8 | types::I16 => self.b.ins().uextend(types::I32, scalar),
            _ => scalar,
        };
        let ty = self.held_as(scalar);
        let vector = ty.by(repr::REGISTER_BYTES / ty.bytes()).expect("there is a vector of every scalar");
        self.b.ins().scalar_to_vector(vector, scalar)
    }

    /// A scalar integer in a type at least as wide.
    pub(super) fn zero_extend(&mut self, value: ir::Value, ty: ir::Type) -> ir::Value {
        if self.held_as(value) == ty { value } else { self.b.ins().uextend(ty, value) }
    }
}
