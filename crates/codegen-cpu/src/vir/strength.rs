//! Multiples of induction variables become carried values that grow by addition.
//!
//! In a loop over `iv`, `iv · c` with a constant `c` that no addressing mode scales by (1, 2, 4, 8 do) turns into a
//! value that starts as `start · c` and grows by `step · c`. If its only use is to be added to something that the loop
//! does not change, the sum itself is carried: a pointer that walks. Several bases with one stride keep sharing one
//! offset, which costs one register and one addition for all of them.

use super::{BinaryOp, Block, Function, I64, Inst, Loop, Op, Value, dce, fresh};
use std::collections::HashSet;

/// Rewrites all loops.
pub fn run(function: &mut Function) {
    let mut uses = vec![0u32; function.types.len()];
    function.body.for_each_inst(&mut |inst| inst.for_each_use(|value| uses[value.0 as usize] += 1));
    let mut pass = Pass { ops: dce::definitions(function), uses, types: std::mem::take(&mut function.types) };
    pass.block(&mut function.body);
    function.types = pass.types;
    dce::run(function);
}

struct Pass {
    ops: Vec<Option<Op>>,
    uses: Vec<u32>,
    types: Vec<super::Type>,
}

/// A value in the loop's body that grows by a constant every turn.
struct Grows {
    /// The operation to be dropped in favour of a carried value.
    value: Value,
    /// `iv · factor` is what it is, or what it adds to `base`.
    factor: i64,
    base: Option<Value>,
}

impl Pass {
    fn block(&mut self, block: &mut Block) {
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                Inst::Loop(l) => {
                    self.block(&mut l.body);
                    self.counted_loop(l, &mut insts);
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
    }

    /// `before` is the code in front of the loop.
    fn counted_loop(&mut self, l: &mut Loop, before: &mut Vec<Inst>) {
        let mut inside = HashSet::from([l.iv]);
        inside.extend(l.carried.iter().map(|&(value, _)| value));
        l.body.for_each_inst(&mut |inst| inst.for_each_result(|value| _ = inside.insert(value)));
        let found: Vec<Grows> = l.body.insts.iter().filter_map(|inst| self.growing(inst, l, &inside)).collect();
        for Grows { value, factor, base } in found {
            let Some(growth) = factor.checked_mul(l.step) else { continue };
            let offset = self.multiple(l.start, factor, before);
            let init = match base {
                Some(base) => self.make(Op::Binary(BinaryOp::Add, base, offset), before),
                None => offset,
            };
            let growth = self.make(Op::Const(growth.cast_unsigned()), before);
            l.body.insts.retain(|inst| !matches!(inst, Inst::Op { result, .. } if *result == value));
            let next = self.make(Op::Binary(BinaryOp::Add, value, growth), &mut l.body.insts);
            self.ops[value.0 as usize] = None;
            l.carried.push((value, init));
            l.body.yields.push(next);
            let result = self.fresh(None);
            l.results.push(result);
        }
    }

    /// Whether an instruction of the body is worth carrying.
    fn growing(&self, inst: &Inst, l: &Loop, inside: &HashSet<Value>) -> Option<Grows> {
        let &Inst::Op { result, op: Op::Binary(kind, a, b) } = inst else { return None };
        if let Some(factor) = self.factor(result, l.iv) {
            // Left to the sum below if that is all it is for.
            let only_summed = self.uses[result.0 as usize] == 1
                && l.body.insts.iter().any(|user| {
                    matches!(user, Inst::Op { op: Op::Binary(BinaryOp::Add, p, q), .. }
                        if (*p == result && !inside.contains(q)) || (*q == result && !inside.contains(p)))
                });
            return (!only_summed && self.types[result.0 as usize] == I64).then_some(Grows {
                value: result,
                factor,
                base: None,
            });
        }
        if kind != BinaryOp::Add || self.types[result.0 as usize] != I64 {
            return None;
        }
        for (base, multiple) in [(a, b), (b, a)] {
            if let Some(factor) = self.factor(multiple, l.iv)
                && self.uses[multiple.0 as usize] == 1
                && !inside.contains(&base)
            {
                return Some(Grows { value: result, factor, base: Some(base) });
            }
        }
        None
    }

    /// The constant that a value is the induction variable times, unless addressing modes do that.
    fn factor(&self, value: Value, iv: Value) -> Option<i64> {
        let Some(Op::Binary(kind, a, b)) = self.ops[value.0 as usize] else { return None };
        let constant = self.constant(b)?;
        if a != iv {
            return None;
        }
        match kind {
            BinaryOp::Mul => Some(constant),
            BinaryOp::Shl if (4..63).contains(&constant) => Some(1 << constant),
            _ => None,
        }
    }

    fn constant(&self, value: Value) -> Option<i64> {
        match self.ops[value.0 as usize] {
            Some(Op::Const(bits)) => Some(bits.cast_signed()),
            _ => None,
        }
    }

    /// `value · factor`, made in front of the loop.
    fn multiple(&mut self, value: Value, factor: i64, before: &mut Vec<Inst>) -> Value {
        if let Some(constant) = self.constant(value) {
            return self.make(Op::Const(constant.wrapping_mul(factor).cast_unsigned()), before);
        }
        let factor = self.make(Op::Const(factor.cast_unsigned()), before);
        self.make(Op::Binary(BinaryOp::Mul, value, factor), before)
    }

    fn make(&mut self, op: Op, block: &mut Vec<Inst>) -> Value {
        // Adding nothing to a base is common: loops mostly start at zero.
        if let Op::Binary(BinaryOp::Add, base, offset) = op
            && self.constant(offset) == Some(0)
        {
            return base;
        }
        let result = self.fresh(Some(op.clone()));
        block.push(Inst::Op { result, op });
        result
    }

    fn fresh(&mut self, op: Option<Op>) -> Value {
        let value = fresh(&mut self.types, I64);
        self.ops.push(op);
        self.uses.push(0);
        value
    }
}
