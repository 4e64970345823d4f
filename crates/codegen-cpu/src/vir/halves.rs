//! Dot products of bytes where no instruction makes them: even and odd bytes apart, as 16-bit numbers.
//!
//! Products of bytes fit 16 bits with nothing to spare, so that adding two of them there may saturate (`vpmaddubsw`);
//! products of the bytes widened to 16 bits are added in 32. A lane's first and third byte, and its second and fourth,
//! are taken out in place, which needs no bytes to cross lanes:
//!
//! `dot4(c, a, b) = c + (dot2(a even, b even) + dot2(a odd, b odd))`
//!
//! An operand is widened once, however many products it is part of: a tile of rows and columns shares the bytes of both.
//! It runs when vectors fit registers, since pieces of one broadcast are one value then.

use super::{BinaryOp, Block, Convert, Elem, Function, Inst, Op, Type, Value, dce};
use std::collections::HashMap;

/// Rewrites a function.
pub fn run(function: &mut Function) {
    let mut any = false;
    function.body.for_each_inst(&mut |inst| any |= matches!(inst, Inst::Op { op: Op::Dot4(..), .. }));
    if !any {
        return;
    }
    let ops = dce::definitions(function);
    let types = std::mem::take(&mut function.types);
    let mut pass = Pass { ops: &ops, types, known: HashMap::new() };
    pass.block(&mut function.body);
    function.types = pass.types;
    dce::run(function);
}

/// How bytes become 16-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sign {
    Unsigned,
    Signed,
}

struct Pass<'a> {
    ops: &'a [Option<Op>],
    types: Vec<Type>,
    /// Even and odd bytes of what was widened in this block and those around it, by what the bytes are bits of.
    known: HashMap<(Value, Sign), [Value; 2]>,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let around = self.known.clone();
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                Inst::Op { result, op: Op::Dot4(acc, a, b) } => {
                    let [a_even, a_odd] = self.widened(*a, Sign::Unsigned, &mut out);
                    let [b_even, b_odd] = self.widened(*b, Sign::Signed, &mut out);
                    let ty = self.types[result.0 as usize];
                    let even = self.op(ty, Op::Dot2(a_even, b_even), &mut out);
                    let odd = self.op(ty, Op::Dot2(a_odd, b_odd), &mut out);
                    // The accumulator last, which waits for one addition then.
                    let sum = self.op(ty, Op::Binary(BinaryOp::Add, even, odd), &mut out);
                    let total = Op::Binary(BinaryOp::Add, sum, *acc);
                    out.push(Inst::Op { result: *result, op: total });
                    continue;
                }
                Inst::Loop(l) => self.block(&mut l.body),
                Inst::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                _ => {}
            }
            out.push(inst);
        }
        block.insts = out;
        self.known = around;
    }

    /// Even and odd bytes of a vector.
    fn widened(&mut self, bytes: Value, sign: Sign, out: &mut Vec<Inst>) -> [Value; 2] {
        let source = self.source(bytes);
        if let Some(&known) = self.known.get(&(source, sign)) {
            return known;
        }
        let ty = Type::vector(Elem::I16, self.types[bytes.0 as usize].lanes / 2);
        let halves = self.op(ty, Op::Convert(Convert::Bitcast, bytes), out);
        let eight = self.op(ty, Op::Const(8), out);
        let pair = match sign {
            Sign::Unsigned => {
                let low = self.op(ty, Op::Const(0xff), out);
                let even = self.op(ty, Op::Binary(BinaryOp::And, halves, low), out);
                [even, self.op(ty, Op::Binary(BinaryOp::ShrU, halves, eight), out)]
            }
            Sign::Signed => {
                let raised = self.op(ty, Op::Binary(BinaryOp::Shl, halves, eight), out);
                let even = self.op(ty, Op::Binary(BinaryOp::ShrS, raised, eight), out);
                [even, self.op(ty, Op::Binary(BinaryOp::ShrS, halves, eight), out)]
            }
        };
        self.known.insert((source, sign), pair);
        pair
    }

    /// What a value is another view of.
    fn source(&self, mut value: Value) -> Value {
        while let Some(Some(Op::Convert(Convert::Bitcast, inner))) = self.ops.get(value.0 as usize) {
            value = *inner;
        }
        value
    }

    fn op(&mut self, ty: Type, op: Op, out: &mut Vec<Inst>) -> Value {
        let result = Value(u32::try_from(self.types.len()).expect("fewer than 2³² values"));
        self.types.push(ty);
        out.push(Inst::Op { result, op });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vir::verify;
    use crate::vir::{Builder, Memory};

    /// Two rows and two columns of dot products.
    fn tile() -> Function {
        let mut b = Builder::new("tile");
        let args = b.param(0);
        let lanes = 8;
        let bytes = Type::vector(Elem::I8, lanes * 4);
        let rows: Vec<Value> = (0..2)
            .map(|n| {
                let words = b.load_splat(Type::vector(Elem::I32, lanes), args, n * 4, Memory::ReadOnly);
                b.bitcast(words, bytes)
            })
            .collect();
        let columns: Vec<Value> = (0..2).map(|n| b.load(bytes, args, 64 + n * 32, Memory::ReadOnly)).collect();
        for (r, &row) in rows.iter().enumerate() {
            for (c, &column) in columns.iter().enumerate() {
                let zero = b.constant(Type::vector(Elem::I32, lanes), 0);
                let sum = b.dot4(zero, row, column);
                b.store(sum, args, 256 + (r * 2 + c) as i32 * 32);
            }
        }
        b.finish()
    }

    #[test]
    fn rows_and_columns_are_widened_once() {
        let mut function = tile();
        run(&mut function);
        verify::check(&function).expect("a well-formed function");
        let mut count = [0usize; 3];
        function.body.for_each_inst(&mut |inst| match inst {
            Inst::Op { op: Op::Dot4(..), .. } => count[0] += 1,
            Inst::Op { op: Op::Dot2(..), .. } => count[1] += 1,
            Inst::Op {
                op: Op::Binary(BinaryOp::Shl | BinaryOp::ShrU | BinaryOp::ShrS | BinaryOp::And, ..), ..
            } => {
                count[2] += 1;
            }
            _ => {}
        });
        // Two operations for each row, three for each column.
        assert_eq!(count, [0, 8, 2 * 2 + 2 * 3]);
    }
}
