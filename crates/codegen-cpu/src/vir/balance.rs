//! Some additions become multiply-adds by one, where only additions would keep the core waiting.
//!
//! Several families of cores have units of their own for sums, extrema and comparisons of floats, which do not multiply,
//! beside those that multiply (AMD, "Software Optimization Guide for the Zen4 Microarchitecture", on floating-point
//! pipes). `a · 1 + b` is `a + b` bit for bit (the payload of a NaN aside), and runs on the latter. So an innermost loop that adds and compares more
//! than it multiplies has additions moved over until neither side, nor reading the one, takes longer than the others.
//! Where all units do everything, that changes nothing but one operand.
//!
//! Additions that a carried value waits for stay: a multiply-add takes longer.

use super::{BinaryOp, Block, Elem, Function, Inst, Op, Type, UnaryOp, Value, fresh};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Fewer operations are not worth it.
const LEAST_MOVED: usize = 2;

/// Rewrites all innermost loops.
pub fn run(function: &mut Function) {
    let mut constants = HashSet::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op: Op::Const(_) } = inst {
            constants.insert(*result);
        }
    });
    let mut pass = Pass { types: std::mem::take(&mut function.types), constants, ones: BTreeMap::new() };
    pass.block(&mut function.body);
    let ones = pass.ones.into_iter().map(|((elem, lanes, negative), result)| {
        let one: f64 = if negative { -1.0 } else { 1.0 };
        let bits = super::eval::from_f64(elem, one);
        debug_assert_eq!(pass.types[result.0 as usize], Type::vector(elem, lanes), "constants have their types");
        Inst::Op { result, op: Op::Const(bits) }
    });
    function.body.insts.splice(..0, ones);
    function.types = pass.types;
}

struct Pass {
    types: Vec<Type>,
    /// Vectors of them are mostly operands from memory.
    constants: HashSet<Value>,
    /// Constants that are 1, or −1, by type.
    ones: BTreeMap<(Elem, u16, bool), Value>,
}

/// Vector operations of a loop's body by what they keep busy.
#[derive(Default)]
struct Work {
    sums: usize,
    products: usize,
    /// Of memory, constants included.
    reads: usize,
}

impl Pass {
    fn block(&mut self, block: &mut Block) {
        for inst in &mut block.insts {
            match inst {
                Inst::Loop(l) => {
                    let innermost = !l.body.insts.iter().any(|inst| inst.blocks().next().is_some());
                    if innermost {
                        let carried: Vec<Value> = l.carried.iter().map(|&(inside, _)| inside).collect();
                        self.innermost(&mut l.body, &carried);
                    } else {
                        self.block(&mut l.body);
                    }
                }
                Inst::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                _ => {}
            }
        }
    }

    fn is_vector(&self, value: Value) -> bool {
        let ty = self.types[value.0 as usize];
        ty.elem.is_float() && ty.lanes > 1
    }

    fn innermost(&mut self, body: &mut Block, carried: &[Value]) {
        // What depends on the last turn.
        let mut waits: HashSet<Value> = carried.iter().copied().collect();
        let mut work = Work::default();
        let mut candidates = Vec::new();
        for (place, inst) in body.insts.iter().enumerate() {
            let Inst::Op { result, op } = inst else { continue };
            let mut is_waiting = false;
            let mut has_constant = matches!(op, Op::Unary(UnaryOp::Abs | UnaryOp::Neg, _));
            op.for_each_operand(|operand| {
                is_waiting |= waits.contains(&operand);
                has_constant |= self.is_vector(operand) && self.constants.contains(&operand);
            });
            if is_waiting {
                waits.insert(*result);
            }
            work.reads += usize::from(has_constant && self.is_vector(*result));
            match op {
                Op::Compare(_, a, _) if self.is_vector(*a) => work.sums += 1,
                _ if !self.is_vector(*result) => {}
                Op::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => {
                    work.sums += 1;
                    candidates.extend((!is_waiting).then_some(place));
                }
                Op::Binary(BinaryOp::Min | BinaryOp::Max, ..) => work.sums += 1,
                Op::Binary(BinaryOp::Mul, ..) | Op::Fma(..) => work.products += 1,
                Op::Load { .. } | Op::LoadSplat { .. } | Op::LoadMasked { .. } => work.reads += 1,
                _ => {}
            }
        }
        let moved = work.sums.saturating_sub(work.products.max(work.reads)) / 2;
        let moved = moved.min(candidates.len());
        if moved < LEAST_MOVED {
            return;
        }
        // Spread evenly, so that no stretch of the loop is out of balance.
        let chosen: BTreeSet<usize> = (0..moved).map(|n| candidates[n * candidates.len() / moved]).collect();
        for place in chosen {
            let Inst::Op { result, op } = &mut body.insts[place] else { continue };
            let ty = self.types[result.0 as usize];
            let &mut Op::Binary(kind, a, b) = op else { continue };
            let negative = kind == BinaryOp::Sub;
            let one = self.ones.entry((ty.elem, ty.lanes, negative)).or_insert_with(|| fresh(&mut self.types, ty));
            let one = *one;
            // a + b = b · 1 + a, and a − b = b · (−1) + a.
            *op = Op::Fma(b, one, a);
        }
    }
}
