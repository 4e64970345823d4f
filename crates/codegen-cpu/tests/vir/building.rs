//! What the builder does by itself: where code is placed, and what is simplified.

use super::{F32X8, expect};
use infc_codegen_cpu::vir::{BinaryOp, Builder, Cond, Convert, Elem, Function, I64, Inst, Memory, Op, Type, strength};

#[test]
fn invariant_code_is_placed_in_front_of_loops() {
    let mut b = Builder::new("f");
    let (base, count) = (b.param(0), b.param(2));
    let zero = b.iconst(0);
    let (i, _) = b.loop_open(zero, count, 1, true, &[]);
    let (j, _) = b.loop_open(zero, count, 8, true, &[]);
    // Written in the innermost loop, in an order that mixes the two variables.
    let (row, four) = (b.iconst(400), b.iconst(4));
    let column_offset = b.mul(j, four);
    let row_offset = b.mul(i, row);
    let offset = b.add(column_offset, row_offset);
    let sixteen = b.iconst(16);
    let offset = b.add(offset, sixteen);
    let at = b.add(offset, base);
    let value = b.load(F32X8, at, 8, Memory::Written);
    b.store(value, at, 0);
    b.loop_close(&[]);
    b.loop_close(&[]);
    expect(
        &b.finish(),
        "
          v0 = param 0 : i64
          v1 = param 2 : i64
          loop v3 in 0..v1 step 1 nonempty {
            v9 = mul v3, 400 : i64
            v13 = add v0, v9 : i64
            loop v4 in 0..v1 step 8 nonempty {
              v8 = shl v4, 2 : i64
              v14 = add v8, v13 : i64
              v16 = load [v14 + 24] : f32x8
              store [v14 + 16] = v16
            }
          }
        ",
    );
}

#[test]
fn loads_move_only_where_they_are_certain_to_run() {
    let build = |nonempty: bool, memory: Memory| {
        let mut b = Builder::new("f");
        let (base, count) = (b.param(0), b.param(2));
        let zero = b.iconst(0);
        b.loop_open(zero, count, 1, nonempty, &[]);
        let value = b.load(I64, base, 0, memory);
        b.store(value, base, 8);
        b.loop_close(&[]);
        b.finish()
    };
    let load_is_in_loop = |function: &Function| {
        let load = function.body.insts.iter().position(|i| matches!(i, Inst::Op { op: Op::Load { .. }, .. }));
        load.is_none()
    };
    assert!(!load_is_in_loop(&build(true, Memory::ReadOnly)));
    assert!(load_is_in_loop(&build(false, Memory::ReadOnly)));
    assert!(load_is_in_loop(&build(true, Memory::Written)));
}

#[test]
fn divisions_by_what_may_be_zero_stay_behind_their_test() {
    let mut b = Builder::new("f");
    let (p, x, y) = (b.param(0), b.param(1), b.param(2));
    let zero = b.iconst(0);
    let safe = b.compare(Cond::Ne, y, zero);
    b.if_open(safe);
    let quotient = b.div(x, y);
    b.store(quotient, p, 0);
    b.if_close(&[]);
    let function = b.finish();
    let outside = function.body.insts.iter().any(|i| matches!(i, Inst::Op { op: Op::Binary(BinaryOp::Div, ..), .. }));
    assert!(!outside, "{function}");
}

/// Of a branch that is rarely taken nothing leaves, though it could; of others arithmetic does.
#[test]
fn what_is_rarely_needed_stays_behind_its_test() {
    for (rarely, expected) in [(false, 0), (true, 2)] {
        let mut b = Builder::new("f");
        let (p, x, y) = (b.param(0), b.param(1), b.param(2));
        let is_large = b.compare(Cond::Lt, x, y);
        if rarely {
            b.if_open_rarely(is_large);
        } else {
            b.if_open(is_large);
        }
        let product = b.mul(x, y);
        let sum = b.add(product, p);
        b.store(sum, p, 0);
        b.if_close(&[]);
        let function = b.finish();
        let inside = function.body.insts.iter().find_map(|inst| match inst {
            Inst::If { then, .. } => Some(then.insts.iter().filter(|inst| matches!(inst, Inst::Op { .. })).count()),
            _ => None,
        });
        assert_eq!(inside, Some(expected), "{function}");
    }
}

#[test]
fn equal_operations_are_made_once() {
    let mut b = Builder::new("f");
    let (x, y) = (b.param(1), b.param(2));
    let (sum, mirrored) = (b.add(x, y), b.add(y, x));
    assert_eq!(sum, mirrored);
    let float = Type::scalar(Elem::F32);
    let (a, again) = (b.load(float, x, 0, Memory::ReadOnly), b.load(float, x, 0, Memory::ReadOnly));
    assert_eq!(a, again);
    let int = b.load(Type::scalar(Elem::I32), x, 0, Memory::ReadOnly);
    assert_ne!(a, int);
    let (a, again) = (b.load(float, x, 0, Memory::Written), b.load(float, x, 0, Memory::Written));
    assert_ne!(a, again);
}

#[test]
fn arithmetic_simplifies() {
    let mut b = Builder::new("f");
    let x = b.param(1);
    let n = |b: &mut Builder, value: i64| b.iconst(value);
    let (zero, one, eight, minus) = (n(&mut b, 0), n(&mut b, 1), n(&mut b, 8), n(&mut b, -3));
    assert_eq!(b.add(x, zero), x);
    assert_eq!(b.mul(one, x), x);
    assert_eq!(b.mul(x, zero), zero);
    assert_eq!(b.sub(x, x), zero);
    assert_eq!(b.shr_u(x, zero), x);
    let sum = b.add(eight, minus);
    assert_eq!(b.as_const(sum), Some(5));
    let product = b.mul(x, eight);
    assert!(matches!(b.op(product), Some(Op::Binary(BinaryOp::Shl, a, _)) if *a == x));
    let quotient = b.div_u(x, eight);
    assert!(matches!(b.op(quotient), Some(Op::Binary(BinaryOp::ShrU, ..))));
    // (x − 3 + 8) · 8 = (x << 3) + 40
    let moved = b.add(x, minus);
    let moved = b.add(moved, eight);
    let scaled = b.mul(moved, eight);
    assert!(matches!(b.op(scaled), Some(Op::Binary(BinaryOp::Add, a, c))
        if *a == product && b.as_const(*c) == Some(40)));

    let ty = Type::scalar(Elem::F32);
    let f = b.load(ty, x, 0, Memory::ReadOnly);
    let (plus_zero, minus_zero, two) = (b.fconst(ty, 0.0), b.fconst(ty, -0.0), b.fconst(ty, 2.0));
    assert_ne!(b.add(f, plus_zero), f, "−0 + 0 is 0");
    assert_eq!(b.add(f, minus_zero), f);
    let halved = b.div(f, two);
    assert!(matches!(b.op(halved), Some(Op::Binary(BinaryOp::Mul, ..))));
    let negated = b.neg(f);
    assert_eq!(b.neg(negated), f);
}

#[test]
fn loops_of_one_turn_and_certain_branches_dissolve() {
    let mut b = Builder::new("f");
    let p = b.param(3);
    let (three, five) = (b.iconst(3), b.iconst(5));
    let (iv, carried) = b.loop_open(three, five, 2, false, &[p]);
    assert_eq!((iv, &carried[..]), (three, &[p][..]));
    let next = b.add(carried[0], iv);
    let results = b.loop_close(&[next]);
    let holds = b.compare(Cond::Lt, three, five);
    b.if_open(holds);
    let inside = b.add(results[0], five);
    b.if_else(&[inside]);
    let results = b.if_close(&[p]);
    b.store(results[0], p, 0);
    let (never, _) = b.loop_open(five, three, 1, false, &[]);
    b.store(never, p, 8);
    b.loop_close(&[]);
    expect(
        &b.finish(),
        "
          v0 = param 3 : i64
          v6 = add v0, 8 : i64
          store [v0] = v6
        ",
    );
}

#[test]
fn unused_carried_values_disappear() {
    let mut b = Builder::new("f");
    let (p, count) = (b.param(3), b.param(2));
    let zero = b.iconst(0);
    let (_, carried) = b.loop_open(zero, count, 1, false, &[zero, p]);
    let (next, walked) = (b.add(carried[0], count), b.add(carried[1], count));
    b.store(zero, carried[1], 0);
    b.loop_close(&[next, walked]);
    let function = b.finish();
    let Some(Inst::Loop(l)) = function.body.insts.last() else { panic!("{function}") };
    assert_eq!(l.carried.len(), 1, "{function}");
}

#[test]
fn multiples_of_the_induction_variable_are_carried() {
    let mut b = Builder::new("f");
    let (base, count) = (b.param(0), b.param(2));
    let zero = b.iconst(0);
    let (iv, _) = b.loop_open(zero, count, 2, true, &[]);
    let stride = b.iconst(192);
    let offset = b.mul(iv, stride);
    let at = b.add(base, offset);
    let four = b.iconst(4);
    let near = b.mul(iv, four);
    let near = b.add(base, near);
    let value = b.load(F32X8, at, 32, Memory::ReadOnly);
    b.store(value, near, 0);
    b.loop_close(&[]);
    let mut function = b.finish();
    strength::run(&mut function);
    expect(
        &function,
        "
          v0 = param 0 : i64
          v1 = param 2 : i64
          v15 = loop v3 in 0..v1 step 2 nonempty carry v6: i64 = v0 {
            v9 = shl v3, 2 : i64
            v10 = add v0, v9 : i64
            v11 = load [v6 + 32] : f32x8
            store [v10] = v11
            v14 = add v6, 384 : i64
            yield v14
          }
        ",
    );
}

/// What was rounded to a half is one: it is not widened to be rounded again. A half from memory may be a NaN that signals.
#[test]
fn what_was_rounded_is_not_rounded_again() {
    for half in [Elem::BF16, Elem::F16] {
        let mut b = Builder::new("f");
        let base = b.param(0);
        let x = b.load(F32X8, base, 0, Memory::ReadOnly);
        let rounded = b.convert(Convert::Float, x, half);
        let wide = b.convert(Convert::Float, rounded, Elem::F32);
        assert_eq!(b.convert(Convert::Float, wide, half), rounded, "{half}");
        let stored = b.load(F32X8.with_elem(half), base, 32, Memory::ReadOnly);
        let wide = b.convert(Convert::Float, stored, Elem::F32);
        assert_ne!(b.convert(Convert::Float, wide, half), stored, "{half}");
    }
}
