//! Loads and stores.

use super::{Builder, Memory};
use crate::vir::regroup::known_lanes;
use crate::vir::tile::{TileInst, TileProduct};
use crate::vir::{BinaryOp, Elem, I64, Inst, Op, Type, Value};

impl Builder {
    /// Reads a whole value at `base + disp`.
    pub fn load(&mut self, ty: Type, base: Value, disp: i32, memory: Memory) -> Value {
        assert_ne!(ty.elem, Elem::Mask, "masks have no memory form");
        let (base, disp) = self.address(base, disp);
        self.make(Op::Load { base, disp, invariant: memory == Memory::ReadOnly }, ty, memory.motion())
    }

    /// Reads the lanes that the mask sets; the others are zero.
    pub fn load_masked(&mut self, ty: Type, base: Value, disp: i32, mask: Value, memory: Memory) -> Value {
        assert_eq!(ty.mask(), self.ty(mask), "mask of a load");
        match self.const_bits(mask) {
            Some(0) => return self.constant(ty, 0),
            Some(bits) if bits.count_ones() == u32::from(ty.lanes) => return self.load(ty, base, disp, memory),
            _ => {}
        }
        let (base, disp) = self.address(base, disp);
        self.make(Op::LoadMasked { base, disp, mask }, ty, memory.motion())
    }

    /// Reads one element and puts it in all lanes.
    pub fn load_splat(&mut self, ty: Type, base: Value, disp: i32, memory: Memory) -> Value {
        let (base, disp) = self.address(base, disp);
        let invariant = memory == Memory::ReadOnly;
        let op = match ty.lanes {
            1 => Op::Load { base, disp, invariant },
            _ => Op::LoadSplat { base, disp, period: 1, invariant },
        };
        self.make(op, ty, memory.motion())
    }

    /// Reads `period` neighbours, a power of two, and puts them in all lanes, again and again.
    fn load_repeated(&mut self, ty: Type, base: Value, disp: i32, period: u16, memory: Memory) -> Value {
        let (base, disp) = self.address(base, disp);
        let invariant = memory == Memory::ReadOnly;
        self.make(Op::LoadSplat { base, disp, period, invariant }, ty, memory.motion())
    }

    /// Reads `base + index·scale + disp` per lane; lanes off in the mask are zero.
    #[expect(clippy::too_many_arguments, reason = "an address has four parts")]
    pub fn gather(
        &mut self,
        elem: Elem,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
        memory: Memory,
    ) -> Value {
        let ty = self.ty(index).with_elem(elem);
        self.check_index(index, scale, mask);
        if mask.is_none()
            && u32::from(scale) == elem.size_bytes()
            && let Some(numbers) = known_lanes(self.op(index), self.ty(index))
            && let Some(period) = period(&numbers)
            && let Some(disp) =
                numbers[0].checked_mul(i64::from(scale)).and_then(|first| first.checked_add(disp.into()))
            && let Ok(disp) = i32::try_from(disp)
        {
            return self.load_repeated(ty, base, disp, period, memory);
        }
        let (base, disp) = self.address(base, disp);
        self.make(Op::Gather { base, index, scale, disp, mask }, ty, memory.motion())
    }

    /// Looks the lowest bytes of the index's lanes up in a table of 256 bytes at `base + disp`, which nobody writes.
    pub fn lookup(&mut self, base: Value, disp: i32, index: Value) -> Value {
        let ty = self.ty(index);
        assert!(ty.elem == Elem::I32 && ty.lanes > 1, "an index of a look-up");
        let (base, disp) = self.address(base, disp);
        self.make(Op::Lookup { base, disp, index }, ty.with_elem(Elem::I8), Memory::ReadOnly.motion())
    }

    /// Writes a value at `base + disp`.
    pub fn store(&mut self, value: Value, base: Value, disp: i32) {
        assert_ne!(self.ty(value).elem, Elem::Mask, "masks have no memory form");
        let (base, disp) = self.address(base, disp);
        self.emit(Inst::Store { value, base, disp, mask: None });
    }

    /// Writes the lanes that the mask sets.
    pub fn store_masked(&mut self, value: Value, base: Value, disp: i32, mask: Value) {
        let ty = self.ty(value);
        assert_eq!(ty.mask(), self.ty(mask), "mask of a store");
        let (base, disp) = self.address(base, disp);
        let mask = match self.const_bits(mask) {
            Some(0) => return,
            Some(bits) if bits.count_ones() == u32::from(ty.lanes) => None,
            _ => Some(mask),
        };
        self.emit(Inst::Store { value, base, disp, mask });
    }

    /// Writes lane i at `base + index[i]·scale + disp`, in lane order.
    pub fn scatter(&mut self, value: Value, base: Value, index: Value, scale: u8, disp: i32, mask: Option<Value>) {
        self.check_index(index, scale, mask);
        assert_eq!(self.ty(value).lanes, self.ty(index).lanes, "lanes of a scatter");
        let (base, disp) = self.address(base, disp);
        self.emit(Inst::Scatter { value, base, index, scale, disp, mask });
    }

    /// Asks for the cache line at `base + disp`, which is going to be written or read, unless the block has asked
    /// for it.
    pub fn prefetch(&mut self, base: Value, disp: i32, write: bool) {
        let (base, disp) = self.address(base, disp);
        // Nothing is stored yet, so what was loaded is still there.
        let frame = self.frames.last_mut().expect("the outermost block is always there");
        let inst = Inst::Prefetch { base, disp, write };
        if !frame.insts.contains(&inst) {
            frame.insts.push(inst);
        }
    }

    /// The tile registers have the sizes of a number in what [`Builder::tile_shapes`] holds in the end.
    pub fn tile_configure(&mut self, shapes: u32) {
        self.tile(TileInst::Configure { shapes });
    }

    /// A tile register holds zeros.
    pub fn tile_zero(&mut self, tile: u8) {
        self.tile(TileInst::Zero { tile });
    }

    /// Reads the rows of a tile register, which begin `stride` bytes apart.
    pub fn tile_load(&mut self, tile: u8, base: Value, disp: i32, stride: Value) {
        let (base, disp) = self.address(base, disp);
        self.tile(TileInst::Load { tile, base, disp, stride });
    }

    /// Writes the rows of a tile register, which begin `stride` bytes apart.
    pub fn tile_store(&mut self, tile: u8, base: Value, disp: i32, stride: Value) {
        let (base, disp) = self.address(base, disp);
        self.emit(Inst::Tile(TileInst::Store { tile, base, disp, stride }));
    }

    /// Adds the product of two tile registers to a third.
    pub fn tile_multiply(&mut self, product: TileProduct, sum: u8, rows: u8, columns: u8) {
        self.tile(TileInst::Multiply { product, sum, rows, columns });
    }

    fn tile(&mut self, inst: TileInst) {
        // Nothing is stored, so what was loaded is still there.
        let frame = self.frames.last_mut().expect("the outermost block is always there");
        frame.insts.push(Inst::Tile(inst));
    }

    fn check_index(&self, index: Value, scale: u8, mask: Option<Value>) {
        let ty = self.ty(index);
        assert!(matches!(ty.elem, Elem::I32 | Elem::I64), "an index is I32 or I64");
        assert!(matches!(scale, 1 | 2 | 4 | 8), "scale {scale}");
        assert!(mask.is_none_or(|mask| self.ty(mask) == ty.mask()), "mask of a gather or scatter");
    }

    /// Moves constant parts of the base into the displacement, as long as that fits.
    fn address(&mut self, base: Value, disp: i32) -> (Value, i32) {
        assert_eq!(self.ty(base), I64, "an address is an i64");
        if let Some(&Op::Binary(BinaryOp::Add, inner, constant)) = self.op(base)
            && let Some(constant) = self.as_const(constant)
            && let Some(sum) = constant.checked_add(i64::from(disp))
            && let Ok(sum) = i32::try_from(sum)
        {
            return (inner, sum);
        }
        (base, disp)
    }
}

/// How many neighbours the lanes read again and again, if that is what they do.
fn period(numbers: &[i64]) -> Option<u16> {
    let apart = |lane: usize| numbers[lane].checked_sub(numbers[0]);
    let points = (1..numbers.len()).find(|&lane| apart(lane) == Some(0))?;
    let repeats = (0..numbers.len()).all(|lane| apart(lane) == i64::try_from(lane % points).ok());
    (points.is_power_of_two() && repeats).then_some(points as u16)
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn neighbours_that_come_again_have_a_period() {
        assert_eq!(period(&[5, 6, 5, 6, 5, 6, 5, 6]), Some(2));
        assert_eq!(period(&[0, 1, 2, 3, 0, 1, 2, 3]), Some(4));
        assert_eq!(period(&[7, 7, 7, 7]), Some(1));
        assert_eq!(period(&[0, 1, 2, 3]), None, "all are different");
        assert_eq!(period(&[0, 1, 0, 1, 0, 1, 1, 0]), None);
        assert_eq!(period(&[0, 2, 0, 2]), None, "no neighbours");
        assert_eq!(period(&[0, 1, 2, 0, 1, 2, 0, 1]), None, "lanes would begin within a period");
        assert_eq!(period(&[i64::MAX, i64::MIN, 0, 0]), None);
    }
}
