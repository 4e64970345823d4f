//! Gathers and scatters at known distances, made of whole loads and stores with lanes put in their places between.
//!
//! Instructions that gather read lane by lane inside of the processor. Where the distances between lanes are known (rows
//! of a few columns, every other pixel, columns of a small matrix), neighbours in memory are mostly lanes of some result,
//! and a whole load brings many of them at once. Two ways, the cheaper one per group of gathers from one address:
//!
//! - *windows*: loads that cover what is read, of which each result picks its lanes ([`Op::Permute`]);
//! - *groups*: where all groups of four lanes read alike, loads of four neighbours for each are joined, and lanes change
//!   their places within groups ([`Op::Shuffle`]): structures of arrays from arrays of structures.
//!
//! Scatters that together fill memory without holes become whole stores of lanes picked from what they store, or stores
//! of groups. It runs when vectors fit registers, on elements of 32 bits.

mod gathers;
mod groups;
mod lanes;
mod scatters;
mod windows;

use super::{Block, Function, Inst, Op, Type, Value, dce, emit, fresh};
use std::collections::HashMap;

/// What permutations cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permutes {
    /// One instruction takes lanes of two vectors (AVX-512).
    OfTwo,
    /// One takes lanes of a single vector, and another blends (AVX2).
    OfOne,
}

/// Bytes of an element.
const SIZE: i64 = 4;

/// Lanes of the groups in which shuffles work.
const GROUP: usize = 4;

/// Rewrites all blocks.
pub fn run(function: &mut Function, permutes: Permutes) {
    let mut any = false;
    function.body.for_each_inst(&mut |inst| {
        any |= matches!(inst, Inst::Scatter { .. } | Inst::Op { op: Op::Gather { .. }, .. });
    });
    if !any {
        return;
    }
    let ops = dce::definitions(function);
    let types = std::mem::take(&mut function.types);
    let mut pass = Pass { ops, types, permutes, constants: HashMap::new(), prelude: Vec::new() };
    pass.block(&mut function.body);
    function.types = pass.types;
    function.body.insts.splice(0..0, pass.prelude);
    dce::run(function);
}

/// The signed numbers in the lanes of a constant vector.
pub(crate) fn known_lanes(op: Option<&Op>, ty: Type) -> Option<Vec<i64>> {
    let signed = |bits: u64| super::eval::sign_extend(ty.elem, bits);
    match op? {
        Op::Lanes(lanes) => Some(lanes.iter().map(|&lane| signed(lane)).collect()),
        &Op::Const(bits) => Some(vec![signed(bits); usize::from(ty.lanes)]),
        _ => None,
    }
}

struct Pass {
    /// Of the values there were before the pass.
    ops: Vec<Option<Op>>,
    types: Vec<Type>,
    permutes: Permutes,
    /// Constants made by the pass, in front of the innermost loop around or of everything.
    constants: HashMap<(Type, Vec<u64>), Value>,
    prelude: Vec<Inst>,
}

/// A gather or scatter whose places are known.
#[derive(Clone, Debug)]
struct Access {
    /// Its number in the block.
    at: usize,
    /// What it makes, or what it stores.
    value: Value,
    ty: Type,
    base: Value,
    /// Bytes from the base per lane; `None` where a lane is off.
    places: Vec<Option<i64>>,
}

impl Access {
    fn on(&self) -> impl Iterator<Item = i64> + '_ {
        self.places.iter().copied().flatten()
    }

    fn all_on(&self) -> bool {
        self.places.iter().all(Option::is_some)
    }

    /// How far groups of four lanes are from the first one, and the places of that one's lanes; if lanes within all are
    /// as far from each other. Groups behind the first may be off.
    fn grouped(&self) -> Option<(Vec<Option<i64>>, [i64; GROUP])> {
        let (first, _) = self.places.split_first_chunk::<GROUP>()?;
        let first = [first[0]?, first[1]?, first[2]?, first[3]?];
        let distance = |group: &[Option<i64>]| {
            let mut all = group.iter().zip(first).filter_map(|(place, first)| Some((*place)? - first));
            let distance = all.next();
            all.all(|other| Some(other) == distance).then_some(distance)
        };
        let distances = self.places.chunks(GROUP).map(distance).collect::<Option<_>>()?;
        Some((distances, first))
    }

    /// Which lanes are on.
    fn on_bits(&self) -> u64 {
        self.places.iter().rev().fold(0, |bits, place| bits << 1 | u64::from(place.is_some()))
    }

    /// Accesses of one kind read or write elements of one type, whole elements apart.
    fn kind(&self) -> (Value, Type, i64) {
        (self.base, self.ty, self.on().next().unwrap_or(0).rem_euclid(SIZE))
    }
}

impl Pass {
    /// Rewrites a block; constants that it needs are left in `prelude`.
    fn block(&mut self, block: &mut Block) {
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                // Constants of a loop are made in front of it, and kept if there are registers.
                Inst::Loop(l) => {
                    let outside = (std::mem::take(&mut self.constants), std::mem::take(&mut self.prelude));
                    self.block(&mut l.body);
                    self.constants = outside.0;
                    insts.append(&mut self.prelude);
                    self.prelude = outside.1;
                }
                Inst::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                _ => {}
            }
            insts.push(inst);
        }
        block.insts = insts;
        let mut gathers = self.plan(block);
        let mut stores = self.stores(block);
        if gathers.is_empty() && stores.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(2 * block.insts.len());
        for (at, inst) in block.insts.drain(..).enumerate() {
            if let Some(insts) = stores.remove(&at) {
                out.extend(insts);
            } else if !self.gather(at, &mut gathers, &mut out) {
                out.push(inst);
            }
        }
        block.insts = out;
    }

    fn op(&self, value: Value) -> Option<&Op> {
        self.ops.get(value.0 as usize)?.as_ref()
    }

    /// The places of an indexed access of 32-bit elements, if they are known.
    fn access(
        &self,
        (at, value): (usize, Value),
        base: Value,
        (index, scale, disp): (Value, u8, i32),
        mask: Option<Value>,
    ) -> Option<Access> {
        let ty = self.types[value.0 as usize];
        if ty.elem.size_bytes() != SIZE as u32 || !matches!(ty.lanes, 4 | 8 | 16) {
            return None;
        }
        let on = match mask {
            None => u64::MAX,
            Some(mask) => match self.op(mask)? {
                &Op::Const(bits) => bits,
                _ => return None,
            },
        };
        let numbers = known_lanes(self.op(index), self.types[index.0 as usize])?;
        let place = |(lane, n): (usize, &i64)| {
            let place = n.checked_mul(i64::from(scale))?.checked_add(i64::from(disp))?;
            i32::try_from(place).ok()?;
            Some((on >> lane & 1 == 1).then_some(place))
        };
        let places: Vec<Option<i64>> = numbers.iter().enumerate().map(place).collect::<Option<_>>()?;
        let access = Access { at, value, ty, base, places };
        let first = access.on().next()?;
        let whole = access.on().all(|place| (place - first) % SIZE == 0);
        whole.then_some(access)
    }

    fn fresh(&mut self, ty: Type) -> Value {
        fresh(&mut self.types, ty)
    }

    fn make(&mut self, ty: Type, op: Op, out: &mut Vec<Inst>) -> Value {
        emit(&mut self.types, out, ty, op)
    }

    /// A constant by the bits of all lanes, or of each.
    fn constant(&mut self, ty: Type, bits: Vec<u64>) -> Value {
        if let Some(&known) = self.constants.get(&(ty, bits.clone())) {
            return known;
        }
        let value = self.fresh(ty);
        let op = if let [all] = bits[..] { Op::Const(all) } else { Op::Lanes(bits.clone().into()) };
        self.prelude.push(Inst::Op { result: value, op });
        self.constants.insert((ty, bits), value);
        value
    }
}
