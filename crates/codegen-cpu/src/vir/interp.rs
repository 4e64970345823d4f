//! Runs a [`Function`] instruction by instruction: the definition that both emitters are tested against.
//!
//! Memory is an [`AddressSpace`]: regions at made-up addresses with wide gaps between them, so that an access outside
//! a buffer is an error here even where machine code would get away with it.

mod tile;

use super::{Block, Convert, Elem, Function, Inst, Loop, Op, Type, UnaryOp, Value, eval};
use smallvec::{SmallVec, smallvec};
use tile::Tiles;

/// Distance between regions; far more than any displacement that a test would get wrong.
const GAP: u64 = 1 << 40;

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    /// An access touched bytes that belong to no region.
    #[error("access of {size} bytes at {address:#x} is outside every buffer")]
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Number of bytes.
        size: u32,
    },
    /// A division by zero or an overflowing one, or a shift by the width or more.
    #[error("{op} of {a:#x} and {b:#x} traps")]
    Arithmetic {
        /// Which operation.
        op: super::BinaryOp,
        /// First operand's bits.
        a: u64,
        /// Second operand's bits.
        b: u64,
    },
    /// A tile register of another size than an instruction needs, or of none.
    #[error("tile register {tile} has no size that fits")]
    Tile {
        /// Which.
        tile: u8,
    },
    /// More steps than allowed.
    #[error("the step limit is reached")]
    StepLimit,
}

/// The memory a function sees.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    regions: Vec<Vec<u8>>,
}

impl AddressSpace {
    /// Memory without regions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region and gives its address.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.regions.push(bytes);
        self.regions.len() as u64 * GAP
    }

    /// The bytes of the region that was added at this address.
    ///
    /// # Panics
    /// If no region was.
    #[must_use]
    pub fn region(&self, address: u64) -> &[u8] {
        &self.regions[(address / GAP) as usize - 1]
    }

    fn find(&mut self, address: u64, size: u32) -> Result<&mut [u8], Trap> {
        let out = Trap::OutOfBounds { address, size };
        // A small negative offset from a region's start lies in the gap below it.
        let number = (address / GAP) as usize;
        let region = number.checked_sub(1).and_then(|n| self.regions.get_mut(n)).ok_or_else(|| out.clone())?;
        let start = (address % GAP) as usize;
        region.get_mut(start..start + size as usize).ok_or(out)
    }

    fn read(&mut self, address: u64, elem: Elem) -> Result<u64, Trap> {
        let bytes = self.find(address, elem.size_bytes())?;
        Ok(bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
    }

    fn write(&mut self, address: u64, elem: Elem, bits: u64) -> Result<(), Trap> {
        let size = elem.size_bytes() as usize;
        self.find(address, elem.size_bytes())?.copy_from_slice(&bits.to_le_bytes()[..size]);
        Ok(())
    }
}

/// Runs a function with the given parameters (args, begin, end, scratch).
///
/// # Errors
/// See [`Trap`].
pub fn run(function: &Function, params: [u64; 4], memory: &mut AddressSpace, step_limit: u64) -> Result<(), Trap> {
    let values = vec![Lanes::new(); function.types.len()];
    Machine { function, params, memory, values, tiles: Tiles::default(), steps: step_limit }.block(&function.body)
}

type Lanes = SmallVec<[u64; 16]>;

struct Machine<'a> {
    function: &'a Function,
    params: [u64; 4],
    memory: &'a mut AddressSpace,
    values: Vec<Lanes>,
    tiles: Tiles,
    steps: u64,
}

impl Machine<'_> {
    fn get(&self, value: Value) -> &Lanes {
        &self.values[value.0 as usize]
    }

    fn scalar(&self, value: Value) -> u64 {
        self.get(value)[0]
    }

    fn set(&mut self, value: Value, lanes: Lanes) {
        self.values[value.0 as usize] = lanes;
    }

    fn address(&self, base: Value, disp: i32) -> u64 {
        self.scalar(base).wrapping_add_signed(i64::from(disp))
    }

    fn indexed(&self, base: Value, index: Value, scale: u8, disp: i32, lane: usize) -> u64 {
        let step = eval::sign_extend(self.function.ty(index).elem, self.get(index)[lane]);
        self.address(base, disp).wrapping_add_signed(step.wrapping_mul(i64::from(scale)))
    }

    fn is_on(&self, mask: Option<Value>, lane: usize) -> bool {
        mask.is_none_or(|mask| self.get(mask)[lane] == 1)
    }

    fn copy_all(&mut self, from: &[Value], to: impl Iterator<Item = Value>) {
        let lanes: Vec<Lanes> = from.iter().map(|&value| self.get(value).clone()).collect();
        to.zip(lanes).for_each(|(value, lanes)| self.set(value, lanes));
    }

    fn block(&mut self, block: &Block) -> Result<(), Trap> {
        block.insts.iter().try_for_each(|inst| self.inst(inst))
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), Trap> {
        self.steps = self.steps.checked_sub(1).ok_or(Trap::StepLimit)?;
        match inst {
            Inst::Op { result, op } => {
                let lanes = self.op(op, self.function.ty(*result))?;
                self.set(*result, lanes);
            }
            Inst::Store { value, base, disp, mask } => {
                let ty = self.function.ty(*value);
                let start = self.address(*base, *disp);
                for lane in 0..usize::from(ty.lanes) {
                    if self.is_on(*mask, lane) {
                        let address = start.wrapping_add(lane as u64 * u64::from(ty.elem.size_bytes()));
                        let bits = self.get(*value)[lane];
                        self.memory.write(address, ty.elem, bits)?;
                    }
                }
            }
            Inst::Scatter { value, base, index, scale, disp, mask } => {
                let ty = self.function.ty(*value);
                for lane in 0..usize::from(ty.lanes) {
                    if self.is_on(*mask, lane) {
                        let address = self.indexed(*base, *index, *scale, *disp, lane);
                        let bits = self.get(*value)[lane];
                        self.memory.write(address, ty.elem, bits)?;
                    }
                }
            }
            Inst::Loop(l) => self.counted_loop(l)?,
            Inst::If { cond, then, otherwise, results } => {
                let way = if self.scalar(*cond) == 1 { then } else { otherwise };
                self.block(way)?;
                self.copy_all(&way.yields, results.iter().copied());
            }
            Inst::Tile(tile) => self.tile(tile)?,
            Inst::Prefetch { .. } => {}
        }
        Ok(())
    }

    fn counted_loop(&mut self, l: &Loop) -> Result<(), Trap> {
        let inits: Vec<Value> = l.carried.iter().map(|&(_, init)| init).collect();
        let inside: Vec<Value> = l.carried.iter().map(|&(value, _)| value).collect();
        self.copy_all(&inits, inside.iter().copied());
        let mut iv = self.scalar(l.start).cast_signed();
        let end = self.scalar(l.end).cast_signed();
        while iv < end {
            self.steps = self.steps.checked_sub(1).ok_or(Trap::StepLimit)?;
            self.set(l.iv, smallvec![iv.cast_unsigned()]);
            self.block(&l.body)?;
            self.copy_all(&l.body.yields, inside.iter().copied());
            let Some(next) = iv.checked_add(l.step) else { break };
            iv = next;
        }
        self.copy_all(&inside, l.results.iter().copied());
        Ok(())
    }

    fn op(&mut self, op: &Op, ty: Type) -> Result<Lanes, Trap> {
        let count = usize::from(ty.lanes);
        let elem_of = |value: Value| self.function.ty(value).elem;
        Ok(match *op {
            Op::Param(n) => smallvec![self.params[usize::from(n)]],
            Op::Const(bits) if ty.elem == Elem::Mask => (0..count).map(|lane| bits >> lane & 1).collect(),
            Op::Const(bits) => smallvec![bits; count],
            Op::Lanes(ref lanes) => lanes.iter().copied().collect(),
            Op::Unary(UnaryOp::Not, a) if ty.elem == Elem::Mask => self.get(a).iter().map(|&a| a ^ 1).collect(),
            Op::Unary(kind, a) => self.get(a).iter().map(|&a| eval::unary(kind, ty.elem, a)).collect(),
            Op::Binary(kind, a, b) => {
                let pairs = self.get(a).iter().zip(self.get(b));
                pairs
                    .map(|(&a, &b)| eval::binary(kind, ty.elem, a, b).ok_or(Trap::Arithmetic { op: kind, a, b }))
                    .collect::<Result<_, _>>()?
            }
            Op::Fma(a, b, c) => {
                (0..count).map(|n| eval::fma(ty.elem, self.get(a)[n], self.get(b)[n], self.get(c)[n])).collect()
            }
            Op::Compare(cond, a, b) => {
                let pairs = self.get(a).iter().zip(self.get(b));
                pairs.map(|(&x, &y)| u64::from(eval::compare(cond, elem_of(a), x, y))).collect()
            }
            Op::Select(mask, a, b) => {
                (0..count).map(|n| self.get(if self.is_on(Some(mask), n) { a } else { b })[n]).collect()
            }
            Op::Convert(Convert::Bitcast, a) => {
                let from = elem_of(a).size_bytes() as usize;
                let bytes: Vec<u8> = self.get(a).iter().flat_map(|x| x.to_le_bytes()[..from].to_vec()).collect();
                let lanes = bytes.chunks(ty.elem.size_bytes() as usize);
                lanes.map(|lane| lane.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))).collect()
            }
            Op::Convert(kind, a) => self.get(a).iter().map(|&x| eval::convert(kind, elem_of(a), ty.elem, x)).collect(),
            Op::Splat(a) => smallvec![self.scalar(a); count],
            Op::LowHalf(a) => self.get(a)[..count].iter().copied().collect(),
            Op::HighHalf(a) => self.get(a)[count..].iter().copied().collect(),
            Op::Extract(a, lane) => smallvec![self.get(a)[usize::from(lane)]],
            Op::Join(a, b) => self.get(a).iter().chain(self.get(b)).copied().collect(),
            Op::Permute(a, b, from) => {
                let (a, b) = (self.get(a), self.get(b));
                let lane = |n: u64| a.iter().chain(b).nth(n as usize % (2 * count)).copied().unwrap_or_default();
                self.get(from).iter().map(|&n| lane(n)).collect()
            }
            Op::Shuffle(a, b, lanes) => {
                let (a, b) = (self.get(a), self.get(b));
                let four = |at: usize| [a, a, b, b].into_iter().zip(lanes).map(move |(x, n)| x[at + usize::from(n)]);
                (0..count).step_by(4).flat_map(four).collect()
            }
            Op::FirstLanes(n) => {
                let n = self.scalar(n).cast_signed();
                (0..count as i64).map(|lane| u64::from(lane < n)).collect()
            }
            Op::MaskBits(a) => smallvec![self.get(a).iter().rev().fold(0, |bits, &lane| bits << 1 | lane)],
            Op::Load { base, disp, .. } => self.read_lanes(ty, base, disp, None)?,
            Op::LoadMasked { base, disp, mask } => self.read_lanes(ty, base, disp, Some(mask))?,
            Op::LoadSplat { base, disp, period, .. } => {
                let some = self.read_lanes(Type { lanes: period, ..ty }, base, disp, None)?;
                (0..count).map(|lane| some[lane % usize::from(period)]).collect()
            }
            Op::Gather { base, index, scale, disp, mask } => {
                let mut lanes: Lanes = smallvec![0; count];
                for (lane, bits) in lanes.iter_mut().enumerate() {
                    if self.is_on(mask, lane) {
                        let address = self.indexed(base, index, scale, disp, lane);
                        *bits = self.memory.read(address, ty.elem)?;
                    }
                }
                lanes
            }
            Op::Lookup { base, disp, index } => {
                let first = self.address(base, disp);
                let mut lanes: Lanes = smallvec![0; count];
                for (lane, bits) in lanes.iter_mut().enumerate() {
                    *bits = self.memory.read(first.wrapping_add(self.get(index)[lane] & 0xff), ty.elem)?;
                }
                lanes
            }
            Op::Dot4(acc, a, b) => (0..count)
                .map(|n| {
                    let bytes = 4 * n..4 * n + 4;
                    eval::dot4(self.get(acc)[n], &self.get(a)[bytes.clone()], &self.get(b)[bytes])
                })
                .collect(),
            Op::Dot2(a, b) => {
                (0..count).map(|n| eval::dot2(&self.get(a)[2 * n..2 * n + 2], &self.get(b)[2 * n..2 * n + 2])).collect()
            }
            Op::Dot2Bf16(acc, a, b) => {
                (0..count).map(|n| eval::dot2_bf16(self.get(acc)[n], self.get(a)[n], self.get(b)[n])).collect()
            }
        })
    }

    fn read_lanes(&mut self, ty: Type, base: Value, disp: i32, mask: Option<Value>) -> Result<Lanes, Trap> {
        let start = self.address(base, disp);
        let mut lanes: Lanes = smallvec![0; usize::from(ty.lanes)];
        for (lane, bits) in lanes.iter_mut().enumerate() {
            if self.is_on(mask, lane) {
                let address = start.wrapping_add(lane as u64 * u64::from(ty.elem.size_bytes()));
                *bits = self.memory.read(address, ty.elem)?;
            }
        }
        Ok(lanes)
    }
}
