//! Dot products where no instruction makes them: even and odd elements apart, widened.
//!
//! Products of bytes fit 16 bits with nothing to spare, so that adding two of them there may saturate (`vpmaddubsw`);
//! products of the bytes widened to 16 bits are added in 32. A lane's first and third byte, and its second and fourth,
//! are taken out in place, which needs no bytes to cross lanes:
//!
//! `dot4(c, a, b) = c + (dot2(a even, b even) + dot2(a odd, b odd))`
//!
//! A bfloat16 number is the upper half of an `f32`, so that a lane's two numbers are widened by a shift and a mask:
//!
//! `dot2_bf16(c, a, b) = (c + a odd · b odd) + a even · b even`
//!
//! An operand is widened once, however many products it is part of: a tile of rows and columns shares the bytes of both.
//! It runs when vectors fit registers, since pieces of one broadcast are one value then.

use super::expand::Lacks;
use super::{BinaryOp, Block, Convert, Elem, Function, Inst, Op, Type, Value, dce, emit};
use std::collections::HashMap;

/// Rewrites a function for a target that lacks some of these instructions.
pub fn run(function: &mut Function, lacks: Lacks) {
    let is_lacking = |op: &Op| match op {
        Op::Dot4(..) => lacks.dot_bytes,
        Op::Dot2Bf16(..) => lacks.dot_bf16,
        _ => false,
    };
    let mut any = false;
    function.body.for_each_inst(&mut |inst| any |= matches!(inst, Inst::Op { op, .. } if is_lacking(op)));
    if !any {
        return;
    }
    let ops = dce::definitions(function);
    let types = std::mem::take(&mut function.types);
    let mut pass = Pass { ops: &ops, types, lacks, known: HashMap::new() };
    pass.block(&mut function.body);
    function.types = pass.types;
    dce::run(function);
}

/// What the elements of an operand are widened from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Element {
    /// Bytes, to 16 bits.
    Unsigned,
    Signed,
    /// To `f32`.
    Bf16,
}

struct Pass<'a> {
    ops: &'a [Option<Op>],
    types: Vec<Type>,
    lacks: Lacks,
    /// Even and odd elements of what was widened in this block and those around it, by what they are bits of.
    known: HashMap<(Value, Element), [Value; 2]>,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let around = self.known.clone();
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                Inst::Op { result, op: Op::Dot4(acc, a, b) } if self.lacks.dot_bytes => {
                    let [a_even, a_odd] = self.widened(*a, Element::Unsigned, &mut out);
                    let [b_even, b_odd] = self.widened(*b, Element::Signed, &mut out);
                    let ty = self.types[result.0 as usize];
                    let even = self.op(ty, Op::Dot2(a_even, b_even), &mut out);
                    let odd = self.op(ty, Op::Dot2(a_odd, b_odd), &mut out);
                    // The accumulator last, which waits for one addition then.
                    let sum = self.op(ty, Op::Binary(BinaryOp::Add, even, odd), &mut out);
                    let total = Op::Binary(BinaryOp::Add, sum, *acc);
                    out.push(Inst::Op { result: *result, op: total });
                    continue;
                }
                Inst::Op { result, op: Op::Dot2Bf16(acc, a, b) } if self.lacks.dot_bf16 => {
                    let [a_even, a_odd] = self.widened(*a, Element::Bf16, &mut out);
                    let [b_even, b_odd] = self.widened(*b, Element::Bf16, &mut out);
                    let ty = self.types[result.0 as usize];
                    let odd = self.multiply_add(ty, a_odd, b_odd, *acc, &mut out);
                    let odd = self.op(ty, odd, &mut out);
                    let op = self.multiply_add(ty, a_even, b_even, odd, &mut out);
                    out.push(Inst::Op { result: *result, op });
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

    /// `a·b + c`; products of two bfloat16 numbers are exact within the range of `f32`, so that it is rounded once either way.
    fn multiply_add(&mut self, ty: Type, a: Value, b: Value, c: Value, out: &mut Vec<Inst>) -> Op {
        if !self.lacks.fma {
            return Op::Fma(a, b, c);
        }
        let product = self.op(ty, Op::Binary(BinaryOp::Mul, a, b), out);
        Op::Binary(BinaryOp::Add, c, product)
    }

    /// Even and odd elements of a vector.
    fn widened(&mut self, elements: Value, of: Element, out: &mut Vec<Inst>) -> [Value; 2] {
        let source = self.source(elements);
        if let Some(&known) = self.known.get(&(source, of)) {
            return known;
        }
        let lanes = self.types[elements.0 as usize].lanes;
        let (ty, bits) = match of {
            Element::Unsigned | Element::Signed => (Type::vector(Elem::I16, lanes / 2), 8),
            Element::Bf16 => (Type::vector(Elem::I32, lanes), 16),
        };
        let halves = self.op(ty, Op::Convert(Convert::Bitcast, elements), out);
        let width = self.op(ty, Op::Const(bits), out);
        let pair = match of {
            Element::Bf16 => {
                let floats = Type::vector(Elem::F32, lanes);
                let raised = self.op(ty, Op::Binary(BinaryOp::Shl, halves, width), out);
                let upper = self.op(ty, Op::Const(0xffff_0000), out);
                let kept = self.op(ty, Op::Binary(BinaryOp::And, halves, upper), out);
                [raised, kept].map(|bits| self.op(floats, Op::Convert(Convert::Bitcast, bits), out))
            }
            Element::Unsigned => {
                let low = self.op(ty, Op::Const(0xff), out);
                let even = self.op(ty, Op::Binary(BinaryOp::And, halves, low), out);
                [even, self.op(ty, Op::Binary(BinaryOp::ShrU, halves, width), out)]
            }
            Element::Signed => {
                let raised = self.op(ty, Op::Binary(BinaryOp::Shl, halves, width), out);
                let even = self.op(ty, Op::Binary(BinaryOp::ShrS, raised, width), out);
                [even, self.op(ty, Op::Binary(BinaryOp::ShrS, halves, width), out)]
            }
        };
        self.known.insert((source, of), pair);
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
        emit(&mut self.types, out, ty, op)
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
        run(&mut function, Lacks { dot_bytes: true, ..Lacks::default() });
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
