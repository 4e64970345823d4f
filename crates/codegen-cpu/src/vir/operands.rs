//! Walking over the values that operations and instructions use and define.

use super::{Block, Inst, Op, Value};

impl Op {
    /// Calls `f` with every operand, in order.
    pub fn for_each_operand(&self, mut f: impl FnMut(Value)) {
        self.clone().map_operands(|value| {
            f(value);
            value
        });
    }

    /// Replaces every operand.
    pub fn map_operands(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Op::Param(_) | Op::Const(_) | Op::Lanes(_) => {}
            Op::Unary(_, a)
            | Op::Convert(_, a)
            | Op::Splat(a)
            | Op::LowHalf(a)
            | Op::HighHalf(a)
            | Op::Extract(a, _)
            | Op::FirstLanes(a)
            | Op::MaskBits(a) => *a = f(*a),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::Join(a, b) | Op::Shuffle(a, b, _) | Op::Dot2(a, b) => {
                *a = f(*a);
                *b = f(*b);
            }
            Op::Fma(a, b, c)
            | Op::Select(a, b, c)
            | Op::Permute(a, b, c)
            | Op::Dot4(a, b, c)
            | Op::Dot2Bf16(a, b, c) => {
                *a = f(*a);
                *b = f(*b);
                *c = f(*c);
            }
            Op::Load { base, .. } | Op::LoadSplat { base, .. } => *base = f(*base),
            Op::LoadMasked { base, mask, .. } => {
                *base = f(*base);
                *mask = f(*mask);
            }
            Op::Lookup { base, index, .. } => {
                *base = f(*base);
                *index = f(*index);
            }
            Op::Gather { base, index, mask, .. } => {
                *base = f(*base);
                *index = f(*index);
                if let Some(mask) = mask {
                    *mask = f(*mask);
                }
            }
        }
    }

    /// Whether the operation is a load from memory that nobody writes while the function runs, so that it may be made
    /// anywhere and again.
    #[must_use]
    pub const fn is_invariant_load(&self) -> bool {
        matches!(self, Op::Load { invariant: true, .. } | Op::LoadSplat { invariant: true, .. })
    }

    /// Whether the operation reads memory.
    #[must_use]
    pub const fn reads_memory(&self) -> bool {
        matches!(
            self,
            Op::Load { .. } | Op::LoadMasked { .. } | Op::LoadSplat { .. } | Op::Gather { .. } | Op::Lookup { .. }
        )
    }
}

impl Inst {
    /// Calls `f` with every value that the instruction itself uses: not what its blocks use inside, but their yields.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        match self {
            Inst::Op { op, .. } => op.for_each_operand(f),
            Inst::Store { value, base, mask, .. } => {
                f(*value);
                f(*base);
                mask.iter().copied().for_each(f);
            }
            Inst::Scatter { value, base, index, mask, .. } => {
                f(*value);
                f(*base);
                f(*index);
                mask.iter().copied().for_each(f);
            }
            Inst::Loop(body) => {
                f(body.start);
                f(body.end);
                body.carried.iter().for_each(|&(_, init)| f(init));
                body.body.yields.iter().copied().for_each(f);
            }
            Inst::If { cond, then, otherwise, .. } => {
                f(*cond);
                then.yields.iter().chain(&otherwise.yields).copied().for_each(f);
            }
            Inst::Prefetch { base, .. } => f(*base),
            Inst::Tile(tile) => tile.for_each_use(f),
        }
    }

    /// Replaces what the instruction itself uses; not what its blocks use, nor their yields.
    pub fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Inst::Op { op, .. } => op.map_operands(f),
            Inst::Store { value, base, mask, .. } => {
                *value = f(*value);
                *base = f(*base);
                mask.iter_mut().for_each(|mask| *mask = f(*mask));
            }
            Inst::Scatter { value, base, index, mask, .. } => {
                *value = f(*value);
                *base = f(*base);
                *index = f(*index);
                mask.iter_mut().for_each(|mask| *mask = f(*mask));
            }
            Inst::Loop(body) => {
                body.start = f(body.start);
                body.end = f(body.end);
                body.carried.iter_mut().for_each(|(_, init)| *init = f(*init));
            }
            Inst::If { cond, .. } => *cond = f(*cond),
            Inst::Prefetch { base, .. } => *base = f(*base),
            Inst::Tile(tile) => tile.map_uses(f),
        }
    }

    /// Replaces every value that the instruction uses, or that its blocks use or yield.
    pub fn map_all_uses(&mut self, f: &mut impl FnMut(Value) -> Value) {
        self.map_uses(&mut *f);
        match self {
            Inst::Loop(l) => l.body.map_all_uses(f),
            Inst::If { then, otherwise, .. } => {
                then.map_all_uses(f);
                otherwise.map_all_uses(f);
            }
            Inst::Op { .. } | Inst::Store { .. } | Inst::Scatter { .. } | Inst::Prefetch { .. } | Inst::Tile(_) => {}
        }
    }

    /// Calls `f` with every value that the instruction defines in its own block.
    pub fn for_each_result(&self, mut f: impl FnMut(Value)) {
        match self {
            Inst::Op { result, .. } => f(*result),
            Inst::Loop(body) => body.results.iter().copied().for_each(f),
            Inst::If { results, .. } => results.iter().copied().for_each(f),
            Inst::Store { .. } | Inst::Scatter { .. } | Inst::Prefetch { .. } | Inst::Tile(_) => {}
        }
    }

    /// Whether it writes memory itself, or lets others write.
    #[must_use]
    pub fn writes_memory(&self) -> bool {
        matches!(self, Inst::Store { .. } | Inst::Scatter { .. } | Inst::Tile(super::TileInst::Store { .. }))
    }

    /// The blocks inside.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (first, second) = match self {
            Inst::Loop(body) => (Some(&body.body), None),
            Inst::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl Block {
    /// Replaces every value that instructions use, and those that the block yields.
    fn map_all_uses(&mut self, f: &mut impl FnMut(Value) -> Value) {
        self.insts.iter_mut().for_each(|inst| inst.map_all_uses(f));
        self.yields.iter_mut().for_each(|value| *value = f(*value));
    }

    /// Calls `f` with every instruction of the block and of the blocks inside, outer ones first.
    pub fn for_each_inst<'a>(&'a self, f: &mut impl FnMut(&'a Inst)) {
        for inst in &self.insts {
            f(inst);
            for block in inst.blocks() {
                block.for_each_inst(f);
            }
        }
    }
}
