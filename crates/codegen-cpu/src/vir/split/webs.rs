//! Which vectors are cut alike.
//!
//! Values that are connected by operations lane by lane form a *web*, found by union-find, and a web takes as many pieces as
//! its widest member needs. Where elements change their size, in conversions and where masks meet other masks and what they
//! select among, is a *seam*: on its two sides vectors may be cut otherwise, at the price of halving or joining them there. A
//! web that is cut in fewer pieces than what it meets keeps them if there is much in it for every seam: the sums of a product
//! stay in whole registers though something behind them is computed in `f64`. Half and dot-product operations connect webs of
//! different lane counts; constants belong to no web and are made anew for every number of pieces.

use super::pieces_for;
use crate::vir::{Block, Elem, Function, Inst, Op, Type, Value};

/// So many operations for each of its seams keep a web in whole registers: a seam takes an instruction or two, of masks with AVX2
/// three. With 1, conversions back and forth alone take a fifth longer, with 8 sines and sorts most of what seams save
/// (docs/perf-log.md, "sine, whole registers").
const OPS_PER_SEAM: u32 = 3;
/// What a value that goes around a loop counts for: it has a register all the time.
const CARRIED_OPS: u32 = 4;
/// The narrowest registers that are halved and joined.
const MIN_PIECE_BYTES: u32 = 16;
/// Registers of this many bytes have masks of their own, which are joined as vectors are.
const MASK_REGISTER_BYTES: u32 = 64;
/// The fewest lanes of masks that are joined.
const MIN_PIECE_LANES: u16 = 8;

/// In how many pieces each value is cut for registers of `register_bytes`. There are no seams where registers are of 128 bits.
pub(super) fn pieces(function: &Function, ops: &[Option<Op>], register_bytes: u32) -> Vec<u16> {
    let mut webs = Webs::new(function, ops, register_bytes);
    webs.connect();
    (0..function.types.len()).map(|n| webs.pieces_of(Value(n as u32))).collect()
}

/// A value and one that is made from it, of elements of another size.
#[derive(Clone, Copy)]
struct Seam {
    from: Value,
    to: Value,
}

/// Sets of values that are cut alike.
struct Webs<'a> {
    function: &'a Function,
    ops: &'a [Option<Op>],
    register_bytes: u32,
    parent: Vec<u32>,
    /// Per root: number of pieces.
    pieces: Vec<u16>,
    /// Per root: operations, and what counts as some.
    weight: Vec<u32>,
    /// Per value: in how many loops it is.
    loops: Vec<u32>,
    seams: Vec<Seam>,
}

impl<'a> Webs<'a> {
    fn new(function: &'a Function, ops: &'a [Option<Op>], register_bytes: u32) -> Self {
        let pieces = function.types.iter().zip(ops).map(|(&ty, op)| match op {
            Some(Op::Const(_)) => 1,
            _ => pieces_for(ty, register_bytes),
        });
        let is_work = |op: &Option<Op>| match op {
            Some(Op::Const(_) | Op::Param(_) | Op::Lanes(_) | Op::Splat(_) | Op::LoadSplat { .. }) | None => 0,
            Some(_) => 1,
        };
        Self {
            function,
            ops,
            register_bytes,
            parent: (0..function.types.len() as u32).collect(),
            pieces: pieces.collect(),
            weight: ops.iter().map(is_work).collect(),
            loops: loops(function),
            seams: Vec::new(),
        }
    }

    fn root(&mut self, value: Value) -> usize {
        let mut n = value.0;
        while self.parent[n as usize] != n {
            let up = self.parent[n as usize];
            self.parent[n as usize] = self.parent[up as usize];
            n = up;
        }
        n as usize
    }

    fn union(&mut self, a: Value, b: Value) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parent[a] = b as u32;
            self.pieces[b] = self.pieces[b].max(self.pieces[a]);
            self.weight[b] = self.weight[b].saturating_add(self.weight[a]);
        }
    }

    fn pieces_of(&mut self, value: Value) -> u16 {
        let root = self.root(value);
        self.pieces[root]
    }

    fn raise(&mut self, value: Value, pieces: u16) -> bool {
        let root = self.root(value);
        let higher = pieces > self.pieces[root];
        self.pieces[root] = self.pieces[root].max(pieces);
        higher
    }

    fn is_const(&self, value: Value) -> bool {
        matches!(self.ops[value.0 as usize], Some(Op::Const(_)))
    }

    /// Puts values that must be cut alike into one web; constants among them only say how many pieces they need.
    fn together(&mut self, values: &[Value]) {
        let vectors = values.iter().copied().filter(|&value| self.function.ty(value).lanes > 1);
        let (constants, members): (Vec<Value>, Vec<Value>) = vectors.partition(|&value| self.is_const(value));
        let Some(&first) = members.first() else { return };
        members[1..].iter().for_each(|&member| self.union(first, member));
        for constant in constants {
            self.raise(first, pieces_for(self.function.ty(constant), self.register_bytes));
        }
    }

    fn connect(&mut self) {
        let function = self.function;
        let mut halves = Vec::new();
        function.body.for_each_inst(&mut |inst| match inst {
            Inst::Op { result, op } => match *op {
                Op::LowHalf(a) | Op::HighHalf(a) => halves.push((*result, a)),
                Op::Extract(..) | Op::MaskBits(_) | Op::Const(_) => {}
                Op::Convert(_, from) if self.is_seam(from, *result) => self.seams.push(Seam { from, to: *result }),
                Op::Select(mask, a, b) if self.is_seam(mask, *result) => {
                    self.seams.push(Seam { from: mask, to: *result });
                    self.together(&[*result, a, b]);
                }
                Op::Binary(_, a, b) if function.ty(*result).elem == Elem::Mask => {
                    for mask in [a, b] {
                        if self.is_seam(mask, *result) {
                            self.seams.push(Seam { from: mask, to: *result });
                        } else {
                            self.together(&[*result, mask]);
                        }
                    }
                }
                _ => {
                    let mut values = vec![*result];
                    op.for_each_operand(|operand| values.push(operand));
                    self.together(&values);
                }
            },
            Inst::Store { value, .. } | Inst::Scatter { value, .. } => {
                let mut values = Vec::new();
                inst.for_each_use(|value| values.push(value));
                self.together(&values);
                let root = self.root(*value);
                self.weight[root] = self.weight[root].saturating_add(1);
            }
            Inst::Loop(l) => {
                for (n, &(inside, init)) in l.carried.iter().enumerate() {
                    self.together(&[inside, init, l.body.yields[n], l.results[n]]);
                    let root = self.root(inside);
                    self.weight[root] = self.weight[root].saturating_add(CARRIED_OPS);
                }
            }
            Inst::If { then, otherwise, results, .. } => {
                for (n, &result) in results.iter().enumerate() {
                    self.together(&[result, then.yields[n], otherwise.yields[n]]);
                }
            }
            Inst::Prefetch { .. } | Inst::Tile(_) => {}
        });
        loop {
            let mut changed = false;
            for &(half, whole) in &halves {
                // A piece of a half is at most as long as a piece of the whole, so that it is one or lies in one.
                let [half_lanes, whole_lanes] = [half, whole].map(|value| function.ty(value).lanes);
                let whole_piece = whole_lanes / self.pieces_of(whole);
                changed |=
                    whole_piece < half_lanes / self.pieces_of(half) && self.raise(half, half_lanes / whole_piece);
            }
            changed |= self.close_seams();
            if !changed {
                break;
            }
        }
    }

    /// Whether two values may be cut otherwise: not where the first one would be cut anew in every turn of a loop.
    fn is_seam(&self, from: Value, to: Value) -> bool {
        let [from_ty, to_ty] = [from, to].map(|value| self.function.ty(value));
        let wide_registers = self.register_bytes > MIN_PIECE_BYTES;
        let is_vector = from_ty.lanes > 1 && to_ty.lanes > 1;
        let is_cut_once = self.loops[from.0 as usize] == self.loops[to.0 as usize];
        let changes = from_ty.elem == Elem::Mask || from_ty.elem.size_bytes() != to_ty.elem.size_bytes();
        wide_registers && !self.is_const(from) && is_vector && is_cut_once && changes
    }

    /// Makes one web of both sides of each seam that does not pay or cannot be; whether there was one.
    fn close_seams(&mut self) -> bool {
        let mut of_webs = vec![0u32; self.parent.len()];
        let seams = self.seams.clone();
        for &Seam { from, to } in &seams {
            if self.pieces_of(from) != self.pieces_of(to) {
                let narrow = self.whole_side(from, to);
                of_webs[narrow] += 1;
            }
        }
        let mut changed = false;
        for &Seam { from, to } in &seams {
            let (before, behind) = (self.pieces_of(from), self.pieces_of(to));
            if before == behind {
                continue;
            }
            let narrow = self.whole_side(from, to);
            let pays = self.weight[narrow] >= OPS_PER_SEAM.saturating_mul(of_webs[narrow]);
            if !(pays && self.is_possible(from, to, before, behind)) {
                self.union(from, to);
                changed = true;
            }
        }
        changed
    }

    /// Whether a value in so many pieces can be made one in so many others, which are of the same lanes.
    fn is_possible(&self, from: Value, to: Value, before: u16, behind: u16) -> bool {
        let (most, joins) = (before.max(behind), before > behind);
        let [from, to] = [from, to].map(|value| self.function.ty(value));
        let is_wide = |ty: Type| ty.size_bytes() / u32::from(most) >= MIN_PIECE_BYTES;
        match from.elem {
            Elem::Mask if joins => self.register_bytes >= MASK_REGISTER_BYTES && from.lanes / most >= MIN_PIECE_LANES,
            Elem::Mask => true,
            _ => is_wide(from) && (!joins || is_wide(to)),
        }
    }

    /// The root of the side of a seam that has fewer pieces.
    fn whole_side(&mut self, from: Value, to: Value) -> usize {
        if self.pieces_of(from) < self.pieces_of(to) { self.root(from) } else { self.root(to) }
    }
}

/// In how many loops each value is made.
fn loops(function: &Function) -> Vec<u32> {
    fn walk(block: &Block, depth: u32, loops: &mut [u32]) {
        for inst in &block.insts {
            inst.for_each_result(|value| loops[value.0 as usize] = depth);
            match inst {
                Inst::Loop(l) => {
                    let carried = l.carried.iter().map(|&(inside, _)| inside);
                    carried.chain([l.iv]).for_each(|value| loops[value.0 as usize] = depth + 1);
                    walk(&l.body, depth + 1, loops);
                }
                Inst::If { then, otherwise, .. } => {
                    walk(then, depth, loops);
                    walk(otherwise, depth, loops);
                }
                _ => {}
            }
        }
    }
    let mut all = vec![0; function.types.len()];
    walk(&function.body, 0, &mut all);
    all
}
