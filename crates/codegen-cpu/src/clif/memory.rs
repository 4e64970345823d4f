//! Loads and stores, whole, masked and indexed.
//!
//! Bytes outside a value's lanes are never touched, nor are lanes that a mask leaves out: masked accesses test for the
//! common case that all lanes are on, and else branch around each lane.

use super::lanes::lane_number;
use super::repr;
use super::translate::{Machine, Translator};
use crate::vir::{Elem, Type, Value};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, Endianness, InstBuilder, MemFlagsData, types};

/// Accesses stay inside buffers, so none traps; buffers may lie anywhere.
const FLAGS: MemFlagsData = MemFlagsData::new().with_notrap().with_endianness(Endianness::Little);

impl Translator<'_, '_> {
    pub(super) fn load(&mut self, ty: Type, base: Value, disp: i32) -> ir::Value {
        let base = self.get(base);
        self.load_at(ty, base, disp)
    }

    /// Reads a few neighbours and repeats them over the lanes.
    pub(super) fn load_splat(&mut self, ty: Type, base: Value, disp: i32, period: u16) -> ir::Value {
        if period == 1 {
            let scalar = self.load(Type::scalar(ty.elem), base, disp);
            return if ty.lanes == 1 { scalar } else { self.b.ins().splat(repr::container(ty.elem), scalar) };
        }
        // Together they are an integer. (Those that fill a register are loaded as they are.)
        let bytes = u32::from(period) * ty.elem.size_bytes();
        let integers = repr::ints(bytes);
        let base = self.get(base);
        let together = self.b.ins().load(integers.lane_type(), FLAGS, base, disp);
        let repeated = self.b.ins().splat(integers, together);
        self.bitcast(repeated, repr::container(ty.elem))
    }

    fn load_at(&mut self, ty: Type, base: ir::Value, disp: i32) -> ir::Value {
        // A float of the vector's size gets into the low lanes at once.
        let part = match ty.size_bytes() {
            _ if ty.lanes == 1 => return self.b.ins().load(repr::scalar(ty.elem), FLAGS, base, disp),
            16 => return self.load_register(repr::container(ty.elem), base, disp),
            8 => types::F64,
            4 => types::F32,
            _ => types::I16,
        };
        let part = self.b.ins().load(part, FLAGS, base, disp);
        let vector = self.in_low_lane(part);
        self.bitcast(vector, repr::container(ty.elem))
    }

    /// Reads a whole register. Without AVX, memory operands must be aligned, which Cranelift overlooks in comparisons of
    /// floats; operands that were loaded as integers are no candidates.
    fn load_register(&mut self, ty: ir::Type, base: ir::Value, disp: i32) -> ir::Value {
        let loaded_as = if self.machine == Machine::Sse { ty.as_int() } else { ty };
        let loaded = self.b.ins().load(loaded_as, FLAGS, base, disp);
        self.bitcast(loaded, ty)
    }

    fn store_at(&mut self, value: ir::Value, ty: Type, base: ir::Value, disp: i32) {
        let part = match ty.size_bytes() {
            8 => types::F64X2,
            4 => types::F32X4,
            _ => types::I16X8,
        };
        let value = if ty.lanes == 1 || ty.size_bytes() == repr::REGISTER_BYTES {
            value
        } else {
            let vector = self.bitcast(value, part);
            self.b.ins().extractlane(vector, 0)
        };
        self.b.ins().store(FLAGS, value, base, disp);
    }

    pub(super) fn load_masked(&mut self, ty: Type, base: Value, disp: i32, mask: Value) -> ir::Value {
        let base = self.get(base);
        let every = |t: &mut Self| Some(t.load_at(ty, base, disp));
        let one = |t: &mut Self, lane: u16, so_far: Option<ir::Value>| {
            let (address, disp) = t.lane_address(ty, base, disp, lane);
            Some(t.load_lane(ty, address, disp, lane, so_far))
        };
        self.masked(mask, Some(ty), every, one).expect("a load has a result")
    }

    pub(super) fn store(&mut self, value: Value, base: Value, disp: i32, mask: Option<Value>) {
        let ty = self.ty(value);
        let (value, base) = (self.get(value), self.get(base));
        let Some(mask) = mask else { return self.store_at(value, ty, base, disp) };
        let every = |t: &mut Self| {
            t.store_at(value, ty, base, disp);
            None
        };
        let one = |t: &mut Self, lane: u16, _: Option<ir::Value>| {
            let (address, disp) = t.lane_address(ty, base, disp, lane);
            t.store_lane(value, ty, address, disp, lane);
            None
        };
        self.masked(mask, None, every, one);
    }

    pub(super) fn gather(
        &mut self,
        ty: Type,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) -> ir::Value {
        let base = self.get(base);
        let one = |t: &mut Self, lane: u16, so_far: Option<ir::Value>| {
            let address = t.indexed(base, index, scale, lane);
            Some(t.load_lane(ty, address, disp, lane, so_far))
        };
        let every = |t: &mut Self| {
            let zeros = t.constant(ty, 0);
            (0..ty.lanes).try_fold(zeros, |so_far, lane| one(t, lane, Some(so_far)))
        };
        let result = match mask {
            None => every(self),
            Some(mask) => self.masked(mask, Some(ty), every, one),
        };
        result.expect("a gather has a result")
    }

    pub(super) fn lookup(&mut self, ty: Type, base: Value, disp: i32, index: Value) -> ir::Value {
        let base = self.get(base);
        (0..ty.lanes).fold(self.constant(ty, 0), |so_far, lane| {
            let index = self.extract(index, lane);
            let byte = self.b.ins().band_imm_u(index, 0xff);
            let offset = self.b.ins().uextend(types::I64, byte);
            let address = self.b.ins().iadd(base, offset);
            self.load_lane(ty, address, disp, lane, Some(so_far))
        })
    }

    pub(super) fn scatter(
        &mut self,
        value: Value,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) {
        let ty = self.ty(value);
        let (value, base) = (self.get(value), self.get(base));
        let one = |t: &mut Self, lane: u16, _: Option<ir::Value>| {
            let address = t.indexed(base, index, scale, lane);
            t.store_lane(value, ty, address, disp, lane);
            None
        };
        let every = |t: &mut Self| (0..ty.lanes).fold(None, |_, lane| one(t, lane, None));
        match mask {
            None => every(self),
            Some(mask) => self.masked(mask, None, every, one),
        };
    }

    /// The address of one indexed lane, less its displacement.
    fn indexed(&mut self, base: ir::Value, index: Value, scale: u8, lane: u16) -> ir::Value {
        let elem = self.ty(index).elem;
        let index = self.extract(index, lane);
        let index = if elem == Elem::I64 { index } else { self.b.ins().sextend(types::I64, index) };
        let shift = i64::from(scale.trailing_zeros());
        let offset = if shift == 0 { index } else { self.b.ins().ishl_imm_u(index, shift) };
        self.b.ins().iadd(base, offset)
    }

    /// Where a lane lies; a displacement that does not fit goes to the base.
    fn lane_address(&mut self, ty: Type, base: ir::Value, disp: i32, lane: u16) -> (ir::Value, i32) {
        let offset = i64::from(lane) * i64::from(ty.elem.size_bytes());
        match i32::try_from(i64::from(disp) + offset) {
            Ok(disp) => (base, disp),
            Err(_) => (self.b.ins().iadd_imm_s(base, offset), disp),
        }
    }

    /// Reads one lane into what the other lanes are so far.
    fn load_lane(
        &mut self,
        ty: Type,
        address: ir::Value,
        disp: i32,
        lane: u16,
        so_far: Option<ir::Value>,
    ) -> ir::Value {
        let scalar = self.b.ins().load(repr::scalar(ty.elem), FLAGS, address, disp);
        match so_far {
            Some(lanes) if ty.lanes > 1 => self.b.ins().insertlane(lanes, scalar, lane_number(lane)),
            _ => scalar,
        }
    }

    fn store_lane(&mut self, value: ir::Value, ty: Type, address: ir::Value, disp: i32, lane: u16) {
        let scalar = self.extract_from(value, ty, lane);
        self.b.ins().store(FLAGS, scalar, address, disp);
    }

    /// Does `every` if all lanes are on, and else `one` per lane that is, beginning with zeros if there is a result.
    fn masked(
        &mut self,
        mask: Value,
        result: Option<Type>,
        every: impl FnOnce(&mut Self) -> Option<ir::Value>,
        one: impl Fn(&mut Self, u16, Option<ir::Value>) -> Option<ir::Value>,
    ) -> Option<ir::Value> {
        let lanes = self.ty(mask).lanes;
        let bits = self.mask_bits(mask);
        let end = self.join(result);
        let (all, some) = (self.b.create_block(), self.b.create_block());
        let full = self.b.ins().icmp_imm_s(IntCC::Equal, bits, (1i64 << lanes) - 1);
        self.b.ins().brif(full, all, &[], some, &[]);
        self.b.switch_to_block(all);
        let value = every(self);
        self.jump(end, value);
        self.b.switch_to_block(some);
        let mut so_far = result.map(|ty| self.constant(ty, 0));
        for lane in 0..lanes {
            let on = self.b.create_block();
            let next = if lane + 1 == lanes { end } else { self.join(result) };
            let bit = self.b.ins().band_imm_u(bits, 1i64 << lane);
            self.b.ins().brif(bit, on, &[], next, &arguments(so_far));
            self.b.switch_to_block(on);
            let value = one(self, lane, so_far);
            self.jump(next, value);
            self.b.switch_to_block(next);
            so_far = self.b.block_params(next).first().copied();
        }
        so_far
    }

    /// A block that takes the result, if there is one.
    fn join(&mut self, result: Option<Type>) -> ir::Block {
        let block = self.b.create_block();
        if let Some(ty) = result {
            self.b.append_block_param(block, repr::of(ty));
        }
        block
    }

    fn jump(&mut self, block: ir::Block, value: Option<ir::Value>) {
        self.b.ins().jump(block, &arguments(value));
    }
}

fn arguments(value: Option<ir::Value>) -> Vec<BlockArg> {
    value.into_iter().map(BlockArg::Value).collect()
}
