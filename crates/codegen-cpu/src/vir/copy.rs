//! Copies of code whose values are their own.

use super::{Block, Inst, Loop, Type, Value, fresh};
use std::collections::HashMap;

/// Names the values that a copy defines. What the copied code uses from outside keeps its name.
pub(super) struct Copier<'a> {
    types: &'a mut Vec<Type>,
    renamed: HashMap<Value, Value>,
}

impl<'a> Copier<'a> {
    pub(super) fn new(types: &'a mut Vec<Type>) -> Self {
        Self { types, renamed: HashMap::new() }
    }

    /// A copy of a loop, its results included.
    pub(super) fn counted_loop(&mut self, l: &Loop) -> Loop {
        let (start, end) = (self.used(l.start), self.used(l.end));
        let inits: Vec<Value> = l.carried.iter().map(|&(_, init)| self.used(init)).collect();
        let iv = self.defined(l.iv);
        let carried = l.carried.iter().zip(inits).map(|(&(value, _), init)| (self.defined(value), init)).collect();
        let body = self.block(&l.body);
        let results = l.results.iter().map(|&value| self.defined(value)).collect();
        Loop { iv, start, end, step: l.step, nonempty: l.nonempty, carried, body, results }
    }

    fn block(&mut self, block: &Block) -> Block {
        let insts = block.insts.iter().map(|inst| self.inst(inst)).collect();
        Block { insts, yields: block.yields.iter().map(|&value| self.used(value)).collect() }
    }

    fn inst(&mut self, inst: &Inst) -> Inst {
        match inst {
            Inst::Op { result, op } => {
                let mut op = op.clone();
                op.map_operands(|value| self.used(value));
                Inst::Op { result: self.defined(*result), op }
            }
            Inst::Store { value, base, disp, mask } => Inst::Store {
                value: self.used(*value),
                base: self.used(*base),
                disp: *disp,
                mask: mask.map(|mask| self.used(mask)),
            },
            Inst::Scatter { value, base, index, scale, disp, mask } => Inst::Scatter {
                value: self.used(*value),
                base: self.used(*base),
                index: self.used(*index),
                scale: *scale,
                disp: *disp,
                mask: mask.map(|mask| self.used(mask)),
            },
            Inst::Loop(l) => Inst::Loop(Box::new(self.counted_loop(l))),
            Inst::If { cond, then, otherwise, results } => {
                let cond = self.used(*cond);
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                let results = results.iter().map(|&value| self.defined(value)).collect();
                Inst::If { cond, then, otherwise, results }
            }
            &Inst::Prefetch { base, disp, write } => Inst::Prefetch { base: self.used(base), disp, write },
            Inst::Tile(tile) => {
                let mut tile = *tile;
                tile.map_uses(|value| self.used(value));
                Inst::Tile(tile)
            }
        }
    }

    fn used(&self, value: Value) -> Value {
        self.renamed.get(&value).copied().unwrap_or(value)
    }

    fn defined(&mut self, value: Value) -> Value {
        let ty = self.types[value.0 as usize];
        let copy = fresh(self.types, ty);
        self.renamed.insert(value, copy);
        copy
    }
}
