//! Operations that move lanes: splats, halves, single lanes, and the forms of masks.

use super::repr;
use super::translate::Translator;
use crate::vir::{Elem, Type, Value};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

impl Translator<'_, '_> {
    /// 0, 1, 2, … in integers of so many bytes.
    pub(super) fn lane_index(&mut self, lane_bytes: u32) -> ir::Value {
        let lanes = repr::REGISTER_BYTES / lane_bytes;
        let numbers: Vec<u64> = (0..u64::from(lanes)).collect();
        self.vector(repr::ints(lane_bytes), &bytes_of(&numbers, lane_bytes))
    }

    /// A constant by the bits of each lane; the register's other lanes are zero.
    pub(super) fn lanes(&mut self, elem: Elem, lanes: &[u64]) -> ir::Value {
        let mut bytes = bytes_of(lanes, elem.size_bytes());
        bytes.resize(repr::REGISTER_BYTES as usize, 0);
        self.vector(repr::container(elem), &bytes)
    }

    pub(super) fn splat(&mut self, a: Value, ty: Type) -> ir::Value {
        let scalar = self.get(a);
        match (ty.elem, ty.lanes) {
            (_, 1) => scalar,
            (Elem::Mask, _) => {
                // 1 becomes all ones of the lane.
                let whole = repr::of(ty);
                let wide = self.zero_extend(scalar, whole.lane_type());
                let ones = self.b.ins().ineg(wide);
                self.b.ins().splat(whole, ones)
            }
            (elem, _) => self.b.ins().splat(repr::container(elem), scalar),
        }
    }

    /// The lanes from `first` on, of a vector of twice as many.
    pub(super) fn half(&mut self, a: Value, ty: Type, first: u16) -> ir::Value {
        if ty.lanes == 1 {
            return self.extract(a, first);
        }
        let whole = self.get(a);
        match (ty.elem, first) {
            // Masks of half the lanes have lanes twice as wide.
            (Elem::Mask, 0) => self.b.ins().swiden_low(whole),
            (Elem::Mask, _) => self.b.ins().swiden_high(whole),
            (_, 0) => whole,
            (elem, _) => {
                let skipped = u32::from(first) * elem.size_bytes();
                let mask: [u8; 16] = std::array::from_fn(|n| (n as u32 + skipped) as u8 & 15);
                let moved = self.shuffle(whole, mask);
                self.bitcast(moved, repr::container(elem))
            }
        }
    }

    /// Bytes of a vector picked by number.
    pub(super) fn shuffle(&mut self, value: ir::Value, picks: [u8; 16]) -> ir::Value {
        let bytes = self.bitcast(value, types::I8X16);
        let picks = self.b.func.dfg.immediates.push(picks.to_vec().into());
        self.b.ins().shuffle(bytes, bytes, picks)
    }

    pub(super) fn extract(&mut self, a: Value, lane: u16) -> ir::Value {
        let ty = self.ty(a);
        let whole = self.get(a);
        self.extract_from(whole, ty, lane)
    }

    /// One lane of a value held as `ty` says.
    pub(super) fn extract_from(&mut self, whole: ir::Value, ty: Type, lane: u16) -> ir::Value {
        if ty.lanes == 1 {
            return whole;
        }
        let scalar = self.b.ins().extractlane(whole, lane_number(lane));
        if ty.elem != Elem::Mask {
            return scalar;
        }
        let byte = match self.held_as(scalar) {
            types::I8 => scalar,
            _ => self.b.ins().ireduce(types::I8, scalar),
        };
        self.b.ins().band_imm_u(byte, 1)
    }

    /// The lanes whose number is below `n`.
    pub(super) fn first_lanes(&mut self, n: Value, lanes: u16) -> ir::Value {
        let n = self.get(n);
        if lanes == 1 {
            return self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
        }
        let ty = repr::ints(repr::mask_lane_bytes(lanes));
        let count = if ty.lane_type() == types::I64 {
            n
        } else {
            // What is outside of 0..=lanes may not survive the narrowing.
            let (least, most) = (self.b.ins().iconst(types::I64, 0), self.b.ins().iconst(types::I64, i64::from(lanes)));
            let count = self.b.ins().smax(n, least);
            let count = self.b.ins().smin(count, most);
            self.b.ins().ireduce(ty.lane_type(), count)
        };
        let counts = self.b.ins().splat(ty, count);
        let numbers = self.lane_index(ty.lane_type().bytes());
        self.b.ins().icmp(IntCC::SignedGreaterThan, counts, numbers)
    }

    pub(super) fn mask_bits(&mut self, a: Value) -> ir::Value {
        let lanes = self.ty(a).lanes;
        let mask = self.get(a);
        let bits = if lanes == 1 { mask } else { self.b.ins().vhigh_bits(types::I32, mask) };
        self.b.ins().uextend(types::I64, bits)
    }

    /// A mask with lanes of another width, more or less of the register being in use.
    pub(super) fn resize_mask(&mut self, mask: ir::Value, lane_bytes: u32) -> ir::Value {
        let mut mask = mask;
        loop {
            let bytes = self.held_as(mask).lane_type().bytes();
            mask = match bytes.cmp(&lane_bytes) {
                std::cmp::Ordering::Equal => return mask,
                std::cmp::Ordering::Less => self.b.ins().swiden_low(mask),
                std::cmp::Ordering::Greater if bytes == 8 => {
                    let even = self.shuffle(mask, [0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11]);
                    self.bitcast(even, types::I32X4)
                }
                // Saturation keeps 0 and −1 as they are.
                std::cmp::Ordering::Greater => self.b.ins().snarrow(mask, mask),
            };
        }
    }

    /// A mask of `vir` as lanes of a data type.
    pub(super) fn mask_for(&mut self, mask: Value, elem: Elem) -> ir::Value {
        let mask = self.get(mask);
        let narrow = self.resize_mask(mask, elem.size_bytes());
        self.bitcast(narrow, repr::container(elem))
    }

    /// Applies an operation on scalars to every lane.
    pub(super) fn per_lane(
        &mut self,
        ty: Type,
        operands: &[Value],
        mut f: impl FnMut(&mut Self, &[ir::Value]) -> ir::Value,
    ) -> ir::Value {
        if ty.lanes == 1 {
            let scalars: Vec<ir::Value> = operands.iter().map(|&operand| self.get(operand)).collect();
            return f(self, &scalars);
        }
        let zeros = self.constant(ty, 0);
        (0..ty.lanes).fold(zeros, |lanes, lane| {
            let scalars: Vec<ir::Value> = operands.iter().map(|&operand| self.extract(operand, lane)).collect();
            let result = f(self, &scalars);
            self.b.ins().insertlane(lanes, result, lane_number(lane))
        })
    }
}

/// A lane number as Cranelift takes it.
pub(super) fn lane_number(lane: u16) -> u8 {
    u8::try_from(lane).expect("a register has at most sixteen lanes")
}

/// The lowest bytes of each lane, one after the other.
fn bytes_of(lanes: &[u64], lane_bytes: u32) -> Vec<u8> {
    lanes.iter().flat_map(|lane| lane.to_le_bytes().into_iter().take(lane_bytes as usize)).collect()
}
