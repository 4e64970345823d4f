//! The builder keeps functions in good order, passes rewrite them as stated, and the verifier finds what is wrong.

use infc_codegen_cpu::vir::{
    BinaryOp, Block, Builder, Cond, Convert, Elem, Function, I64, Inst, Memory, Op, Type, Value, balance, expand, hold,
    interleave, interp, pack,
    reload::{self, Registers},
    split, strength, verify,
};

const F32X8: Type = Type::vector(Elem::F32, 8);

/// The text of a function's body, without the frame around it.
fn text(function: &Function) -> String {
    verify::check(function).expect("the function is well-formed");
    let whole = function.to_string();
    let lines: Vec<&str> = whole.lines().collect();
    lines[1..lines.len() - 1].join("\n")
}

/// Compares line by line, indentation included; the expected text is indented as it stands in the test.
fn expect(function: &Function, expected: &str) {
    let lines = expected.lines().skip(1).map(|line| line.strip_prefix("        ").unwrap_or(line.trim_start()));
    let expected: Vec<&str> = lines.collect();
    let expected = expected[..expected.len() - 1].join("\n");
    assert_eq!(text(function), expected, "\n{function}");
}

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

#[test]
fn wide_vectors_are_split_with_what_belongs_to_them() {
    let mut b = Builder::new("f");
    let (p, n) = (b.param(0), b.param(1));
    let mask = b.first_lanes(n, 8);
    let narrow = b.load_masked(F32X8, p, 0, mask, Memory::ReadOnly);
    let wide = b.convert(Convert::Float, narrow, Elem::F64);
    b.store(wide, p, 32);
    let high = b.high_half(wide);
    b.store(high, p, 96);
    let mut function = b.finish();
    split::run(&mut function, 32);
    expect(
        &function,
        "
          v0 = param 0 : i64
          v1 = param 1 : i64
          v2 = first_lanes v1 : maskx4
          v6 = sub v1, 4 : i64
          v3 = first_lanes v6 : maskx4
          v7 = load [v0] where v2 : f32x4
          v8 = load [v0 + 16] where v3 : f32x4
          v9 = float v7 : f64x4
          v10 = float v8 : f64x4
          store [v0 + 32] = v9
          store [v0 + 64] = v10
          store [v0 + 96] = v10
        ",
    );
}

/// Two of a window's three elements are needed again, far apart; a store lies in front of the last use of one.
#[test]
fn loads_are_repeated_when_registers_run_out() {
    let taps = |registers: usize| {
        let mut b = Builder::new("f");
        let p = b.param(0);
        let [x, y, z] = [0, 32, 64].map(|disp| b.load(F32X8, p, disp, Memory::Written));
        let xy = b.mul(x, y);
        let xyz = b.mul(xy, z);
        let again = b.add(xyz, x);
        b.store(again, p, 96);
        b.store(y, p, 128);
        let mut function = b.finish();
        reload::run(&mut function, Registers { vectors: registers, hold_masks: true });
        function
    };
    let all_at_once = "
          v0 = param 0 : i64
          v1 = load [v0] : f32x8
          v2 = load [v0 + 32] : f32x8
          v3 = load [v0 + 64] : f32x8
          v4 = mul v1, v2 : f32x8
          v5 = mul v3, v4 : f32x8
          v6 = add v1, v5 : f32x8
          store [v0 + 96] = v6
          store [v0 + 128] = v2
        ";
    expect(&taps(4), all_at_once);
    // With three, one of them has to go after the first product. It is x: y is used behind a store.
    let with_three =
        all_at_once.replace("          v6 = add v1, v5", "          v7 = load [v0] : f32x8\n          v6 = add v7, v5");
    expect(&taps(3), &with_three);
}

/// What a loop reads in front of its first turn is read in the loop as far as registers do not suffice, in spite of
/// stores to other memory, and what is needed last goes first.
#[test]
fn what_registers_cannot_hold_through_a_loop_is_read_in_it() {
    let sums = |registers: usize| {
        let mut b = Builder::new("f");
        let (p, q) = (b.param(0), b.param(1));
        let (zero, ten, stride) = (b.iconst(0), b.iconst(10), b.iconst(32));
        let (iv, _) = b.loop_open(zero, ten, 1, true, &[]);
        let offset = b.mul(iv, stride);
        let to = b.add(q, offset);
        let [x, y] = [0, 32].map(|disp| b.load(F32X8, p, disp, Memory::ReadOnly));
        let old = b.load(F32X8, to, 0, Memory::Written);
        let first = b.mul(old, x);
        b.store(first, to, 0);
        let second = b.mul(old, y);
        b.store(second, to, 512);
        b.loop_close(&[]);
        let mut function = b.finish();
        reload::run(&mut function, Registers { vectors: registers, hold_masks: true });
        verify::check(&function).expect("a rewritten function is well formed");
        function
    };
    let in_loop = |function: &Function| {
        let body =
            function.body.insts.iter().find_map(|inst| if let Inst::Loop(l) = inst { Some(&l.body) } else { None });
        let is_load = |inst: &&Inst| matches!(inst, Inst::Op { op: Op::Load { .. }, .. });
        body.expect("a loop").insts.iter().filter(is_load).count()
    };
    let in_front = |function: &Function| {
        let is_load =
            |inst: &&Inst| matches!(inst, Inst::Op { op: Op::Load { .. }, result } if function.ty(*result) == F32X8);
        function.body.insts.iter().filter(is_load).count()
    };
    // x, y, the old value, and a product.
    for (registers, inside, outside) in [(4, 1, 2), (3, 2, 1)] {
        let function = sums(registers);
        assert_eq!((in_loop(&function), in_front(&function)), (inside, outside), "{registers} registers: {function}");
    }
}

/// Constants stay in registers that are left over: through a loop those that it uses most, from one use to the next where
/// that is all there is room for.
#[test]
fn constants_stay_in_registers_that_are_left_over() {
    let scaled = |registers: usize| {
        let mut b = Builder::new("f");
        let (p, q) = (b.param(0), b.param(1));
        let (zero, ten, stride) = (b.iconst(0), b.iconst(10), b.iconst(32));
        let (iv, _) = b.loop_open(zero, ten, 1, true, &[]);
        let offset = b.mul(iv, stride);
        let (from, to) = (b.add(p, offset), b.add(q, offset));
        let (two, three) = (b.fconst(F32X8, 2.0), b.fconst(F32X8, 3.0));
        let x = b.load(F32X8, from, 0, Memory::Written);
        let once = b.mul(x, three);
        let sum = b.add(once, two);
        let product = b.mul(sum, two);
        let result = b.max(product, two);
        b.store(result, to, 0);
        b.loop_close(&[]);
        let mut function = b.finish();
        hold::run(&mut function, Registers { vectors: registers, hold_masks: true });
        verify::check(&function).expect("a rewritten function is well formed");
        function
    };
    let held = |block: &Block| -> Vec<f32> {
        let constant = |inst: &Inst| match inst {
            Inst::Op { op: Op::Lanes(lanes), .. } => Some(f32::from_bits(lanes[0] as u32)),
            _ => None,
        };
        block.insts.iter().filter_map(constant).collect()
    };
    // One register is for x and what becomes of it, two are spare.
    for (registers, in_front) in [(5, vec![2.0, 3.0]), (4, vec![2.0]), (3, vec![])] {
        let function = scaled(registers);
        let body =
            function.body.insts.iter().find_map(|inst| if let Inst::Loop(l) = inst { Some(&l.body) } else { None });
        assert_eq!(held(&function.body), in_front, "{registers} registers: {function}");
        assert_eq!(held(body.expect("a loop")), [0.0; 0], "{registers} registers: {function}");
    }

    // Outside of loops: three has one use, and nothing to stay for.
    let mut b = Builder::new("f");
    let p = b.param(0);
    let (two, three) = (b.fconst(F32X8, 2.0), b.fconst(F32X8, 3.0));
    let x = b.load(F32X8, p, 0, Memory::Written);
    let once = b.mul(x, two);
    let sum = b.add(once, three);
    let result = b.max(sum, two);
    b.store(result, p, 32);
    let mut function = b.finish();
    hold::run(&mut function, Registers { vectors: 4, hold_masks: true });
    verify::check(&function).expect("a rewritten function is well formed");
    assert_eq!(held(&function.body), [2.0], "{function}");
}

/// A loop of additions, differences and minima becomes one that multiplies as well, and gives the same bits.
#[test]
fn additions_are_balanced_with_multiply_adds() {
    let special = [0.0, -0.0, 1.5, -2.25, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE / 4.0];
    let mut b = Builder::new("f");
    let (p, q) = (b.param(0), b.param(1));
    let (zero, eight, stride) = (b.iconst(0), b.iconst(8), b.iconst(4));
    let start = b.constant(F32X8, 0);
    let (iv, sums) = b.loop_open(zero, eight, 1, true, &[start; 4]);
    let offset = b.mul(iv, stride);
    let at = b.add(p, offset);
    let x = b.load(F32X8, p, 0, Memory::ReadOnly);
    let y = b.load_splat(F32X8, at, 0, Memory::ReadOnly);
    let terms = [b.add(x, y), b.sub(x, y), b.sub(y, x), b.min(x, y)];
    let next: Vec<Value> = sums.iter().zip(terms).map(|(&sum, term)| b.max(sum, term)).collect();
    let results = b.loop_close(&next);
    for (n, &result) in results.iter().enumerate() {
        b.store(result, q, 32 * n as i32);
    }
    let plain = b.finish();
    let mut balanced = plain.clone();
    balance::run(&mut balanced);
    verify::check(&balanced).expect("the function is well-formed");
    let mut moved = 0;
    balanced.body.for_each_inst(&mut |inst| moved += usize::from(matches!(inst, Inst::Op { op: Op::Fma(..), .. })));
    // Eight operations on sums, one load: of three candidates, all may move.
    assert_eq!(moved, 3, "{balanced}");
    let result = |function: &Function| {
        let mut memory = interp::AddressSpace::new();
        let input = memory.add(special.iter().flat_map(|x| x.to_le_bytes()).collect());
        let output = memory.add(vec![0; 128]);
        interp::run(function, [input, output, 0, 0], &mut memory, 10_000).expect("it runs");
        memory.region(output).to_vec()
    };
    assert_eq!(result(&plain), result(&balanced));
}

/// Two chains of products take turns, as far as registers go; what is read behind a store is still read behind it.
#[test]
fn long_chains_take_turns() {
    let chains = |memory: Memory, to: i32| {
        let mut b = Builder::new("f");
        let p = b.param(0);
        for n in 0..2 {
            let x = b.load(F32X8, p, 32 * n, memory);
            let chain = (0..9).fold(x, |product, _| b.mul(product, x));
            b.store(chain, p, to + 32 * n);
        }
        b.finish()
    };
    // The second chain starts from what the first one stores, so nothing can move.
    let plain = chains(Memory::Written, 32);
    let mut function = plain.clone();
    interleave::run(&mut function, Registers { vectors: 16, hold_masks: true }, 4);
    assert_eq!(text(&function), text(&plain));

    let switches = |vectors: usize| {
        let mut function = chains(Memory::ReadOnly, 64);
        interleave::run(&mut function, Registers { vectors, hold_masks: true }, 4);
        verify::check(&function).expect("the function is well-formed");
        // How often a product follows one of the other chain.
        let mut chain_of = std::collections::HashMap::new();
        let mut chains = Vec::new();
        for inst in &function.body.insts {
            match inst {
                Inst::Op { result, op: Op::Load { disp, .. } } => _ = chain_of.insert(*result, *disp),
                Inst::Op { result, op: Op::Binary(BinaryOp::Mul, a, _) } => {
                    chain_of.insert(*result, chain_of[a]);
                    chains.push(chain_of[a]);
                }
                _ => {}
            }
        }
        chains.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    assert_eq!(switches(16), 17);
    assert_eq!(switches(5), 1, "two registers do for one chain");
}

/// Narrow integers are held extended: what makes them narrow again takes what was extended, and constants as they are.
#[test]
fn what_was_extended_is_there_already() {
    let mut b = Builder::new("f");
    let p = b.param(0);
    let bytes = b.load(Type::vector(Elem::I8, 8), p, 0, Memory::ReadOnly);
    for extend in [Convert::ZeroExtend, Convert::SignExtend] {
        let wide = b.convert(extend, bytes, Elem::I32);
        assert_eq!(b.convert(Convert::Truncate, wide, Elem::I8), bytes);
        let words = b.convert(Convert::Truncate, wide, Elem::I16);
        assert_eq!(b.ty(words), Type::vector(Elem::I16, 8), "not what was extended");
    }
    let wide = b.constant(Type::vector(Elem::I32, 8), 0xffff_ff80);
    let narrow = b.convert(Convert::Truncate, wide, Elem::I8);
    assert_eq!((b.const_bits(narrow), b.as_const(narrow)), (Some(0x80), Some(-128)));
}

/// A row of taps that slide over a row of elements: with few registers, element after element passes by, and every sum
/// has its operands in the order that it had. So it is if elements are bytes that are made floats.
#[test]
fn windows_pass_by_in_the_order_of_memory() {
    for bytes in [false, true] {
        window_passes_by(bytes);
    }
}

fn window_passes_by(bytes: bool) {
    let (points, taps) = (8, 5);
    let function = {
        let mut b = Builder::new("f");
        let (x, y) = (b.param(0), b.param(1));
        let start = b.load(F32X8, y, 32 * 20, Memory::ReadOnly);
        let mut sums = vec![start; 8];
        for tap in 0..taps {
            let weight = b.load(F32X8, y, 32 * (8 + tap), Memory::ReadOnly);
            for (point, sum) in (0..points).zip(&mut sums) {
                let element = if bytes {
                    let element = b.load(Type::vector(Elem::I8, 8), x, 32 * (point + tap), Memory::ReadOnly);
                    let wide = b.convert(Convert::ZeroExtend, element, Elem::I32);
                    b.convert(Convert::IntToFloat, wide, Elem::F32)
                } else {
                    b.load(F32X8, x, 32 * (point + tap), Memory::ReadOnly)
                };
                *sum = b.fma(element, weight, *sum);
            }
        }
        for (point, sum) in (0..points).zip(sums) {
            b.store(sum, y, 32 * point);
        }
        b.finish()
    };
    let most_at_once = |vectors: usize| {
        let mut function = function.clone();
        interleave::run(&mut function, Registers { vectors, hold_masks: true }, 4);
        verify::check(&function).expect("the function is well-formed");
        // How many taps come before all elements have been met at the first one: all of them, where elements pass by.
        let mut tap_of = std::collections::HashMap::new();
        let mut order = Vec::new();
        for inst in &function.body.insts {
            match inst {
                Inst::Op { result, op: Op::Load { disp, .. } } => _ = tap_of.insert(*result, disp / 32 - 8),
                Inst::Op { op: Op::Fma(_, weight, _), .. } => order.push(tap_of[weight]),
                _ => {}
            }
        }
        assert_eq!(order.len(), (points * taps) as usize);
        let last_of_first = order.iter().rposition(|&tap| tap == 0).expect("the first tap is there");
        order[..last_of_first].iter().copied().max()
    };
    assert_eq!(most_at_once(32), Some(0), "all elements have registers, so taps come one after the other");
    assert_eq!(most_at_once(14), Some(taps - 1), "eight sums, five weights and an element do");

    // The same bits: sums of numbers that round have one order only.
    let result = |vectors: usize| {
        let mut function = function.clone();
        interleave::run(&mut function, Registers { vectors, hold_masks: true }, 4);
        let numbers = |seed: i32| (0..21 * 8).map(move |n| (((n + seed) * 7919) % 1013) as f32 / 97.0);
        let mut memory = interp::AddressSpace::new();
        let x = memory.add(numbers(1).flat_map(f32::to_le_bytes).collect());
        let y = memory.add(numbers(5).flat_map(f32::to_le_bytes).collect());
        interp::run(&function, [x, y, 0, 0], &mut memory, 10_000).expect("it runs");
        memory.region(y).to_vec()
    };
    assert_eq!(result(14), result(32));
}

/// Folds of vectors that are stored side by side, with a bias that repeats and a ramp, are computed four at a time; what
/// is left over, and what something may have written in between, stays as it is.
#[test]
fn scalars_stored_side_by_side_are_packed() {
    // Numbers whose sums are exact in any order.
    let numbers = |count: i32| (0..count).map(|n| ((n * 37) % 64 - 30) as f32).collect::<Vec<f32>>();
    let function = |lanes: u16, results: i32, clobbers: bool| {
        let mut b = Builder::new("f");
        let (p, bias, out) = (b.param(0), b.param(1), b.param(2));
        let ty = Type::vector(Elem::F32, lanes);
        let zero = b.fconst(Type::scalar(Elem::F32), 0.0);
        // A loop that may not run at all keeps the biases inside.
        let (start, turns) = (b.iconst(0), if lanes == 8 { b.param(3) } else { b.iconst(2) });
        b.loop_open(start, turns, 1, lanes != 8, &[]);
        for n in 0..results {
            let mut fold = b.load(ty, p, n * i32::from(lanes) * 4, Memory::ReadOnly);
            while b.ty(fold).lanes > 1 {
                let (low, high) = (b.low_half(fold), b.high_half(fold));
                fold = b.add(low, high);
            }
            let memory = if clobbers { Memory::Written } else { Memory::ReadOnly };
            let bias = b.load(Type::scalar(Elem::F32), bias, n % 3 * 4, memory);
            let sum = b.add(fold, bias);
            let ramp = b.max(sum, zero);
            b.store(ramp, out, n * 4);
        }
        b.loop_close(&[]);
        b.finish()
    };
    let run = |function: &Function, lanes: u16, results: i32| {
        let mut memory = interp::AddressSpace::new();
        let mut add = |numbers: &[f32]| memory.add(numbers.iter().flat_map(|x| x.to_le_bytes()).collect());
        let (p, bias) = (add(&numbers(results * i32::from(lanes))), add(&[0.5, -1.0, 3.0]));
        let out = add(&vec![0.0; results as usize]);
        interp::run(function, [p, bias, out, 2], &mut memory, 100_000).expect("it runs");
        memory.region(out).to_vec()
    };
    for lanes in [4, 8, 16] {
        for (results, clobbers, packed) in [(3, false, 0), (4, false, 1), (9, false, 2), (24, false, 6), (8, true, 0)] {
            let plain = function(lanes, results, clobbers);
            let mut function = plain.clone();
            pack::run(&mut function);
            verify::check(&function).expect("the function is well-formed");
            let mut vectors = 0;
            function.body.for_each_inst(&mut |inst| {
                vectors += usize::from(matches!(inst, Inst::Store { value, .. } if function.ty(*value).lanes == 4));
            });
            assert_eq!(vectors, packed, "{results} folds of {lanes} lanes: {function}");
            // Biases that do not change in the loop are put together in front of it.
            let mut inside = 0;
            for inst in &function.body.insts {
                let Inst::Loop(l) = inst else { continue };
                l.body.for_each_inst(&mut |inst| {
                    let op = if let Inst::Op { op, .. } = inst { Some(op) } else { None };
                    inside += usize::from(matches!(op, Some(Op::LoadSplat { .. })));
                });
            }
            assert_eq!(inside, 0, "{results} folds of {lanes} lanes: {function}");
            assert_eq!(run(&plain, lanes, results), run(&function, lanes, results), "{results} folds of {lanes} lanes");
        }
    }
}

/// What lanes share is put together where it is surely read: not in front of a branch, nor of an inner loop that may have
/// no turns.
#[test]
fn what_may_not_be_read_stays_inside() {
    /// Emits what is around the stores in a loop over chunks, and the stores by the function, which is given the turn.
    type Around = fn(&mut Builder, Value, &mut dyn FnMut(&mut Builder, Value));
    let function = |inner: Around| {
        let mut b = Builder::new("f");
        let (p, bias, out) = (b.param(0), b.param(1), b.param(2));
        let (zero, chunks) = (b.iconst(0), b.param(3));
        let (chunk, _) = b.loop_open(zero, chunks, 1, false, &[]);
        inner(&mut b, chunk, &mut |b, turn| {
            let row = b.iconst(64);
            let offset = b.mul(turn, row);
            let p = b.add(p, offset);
            for n in 0..4 {
                let mut fold = b.load(Type::vector(Elem::F32, 4), p, n * 16, Memory::ReadOnly);
                while b.ty(fold).lanes > 1 {
                    let (low, high) = (b.low_half(fold), b.high_half(fold));
                    fold = b.add(low, high);
                }
                let bias = b.load(Type::scalar(Elem::F32), bias, n % 3 * 4, Memory::ReadOnly);
                let sum = b.add(fold, bias);
                b.store(sum, out, n * 4);
            }
        });
        b.loop_close(&[]);
        let mut function = b.finish();
        pack::run(&mut function);
        verify::check(&function).expect("the function is well-formed");
        function
    };
    /// Loads of one lane for all, by how many blocks are around them.
    fn splats(block: &Block, depth: usize, found: &mut Vec<usize>) {
        for inst in &block.insts {
            if let Inst::Op { op: Op::LoadSplat { .. }, .. } = inst {
                found.push(depth);
            }
            inst.blocks().for_each(|inside| splats(inside, depth + 1, found));
        }
    }
    let depths = |function: &Function| {
        let mut found = Vec::new();
        splats(&function.body, 0, &mut found);
        found
    };
    let in_branch = function(|b, chunk, body| {
        let (x, y) = (b.param(3), b.iconst(3));
        let cond = b.compare(Cond::Lt, x, y);
        b.if_open(cond);
        body(b, chunk);
        b.if_close(&[]);
    });
    let in_loop = |nonempty: bool| match nonempty {
        true => function(|b, _, body| {
            let (start, end) = (b.iconst(0), b.iconst(3));
            let (turn, _) = b.loop_open(start, end, 1, true, &[]);
            body(b, turn);
            b.loop_close(&[]);
        }),
        false => function(|b, _, body| {
            let (start, end) = (b.iconst(0), b.param(3));
            let (turn, _) = b.loop_open(start, end, 1, false, &[]);
            body(b, turn);
            b.loop_close(&[]);
        }),
    };
    assert_eq!(depths(&in_branch), [2; 4], "{in_branch}");
    assert_eq!(depths(&in_loop(false)), [2; 4], "{}", in_loop(false));
    assert_eq!(depths(&in_loop(true)), [0; 4], "{}", in_loop(true));
}

/// All 16-bit patterns, and `f32` numbers around every boundary, through the spelled-out conversions.
#[test]
fn spelled_out_half_conversions_round_right() {
    let convert = |from: Elem, to: Elem, bits: &[u64], lacks: expand::Lacks| -> Vec<u64> {
        let mut b = Builder::new("f");
        let (p, q) = (b.param(0), b.param(1));
        let count = b.param(2);
        let zero = b.iconst(0);
        let (iv, _) = b.loop_open(zero, count, 1, false, &[]);
        let (a, r) = (b.iconst(i64::from(from.size_bytes())), b.iconst(i64::from(to.size_bytes())));
        let (a, r) = (b.mul(iv, a), b.mul(iv, r));
        let (a, r) = (b.add(p, a), b.add(q, r));
        let value = b.load(Type::scalar(from), a, 0, Memory::ReadOnly);
        let value = b.convert(Convert::Float, value, to);
        b.store(value, r, 0);
        b.loop_close(&[]);
        let mut function = b.finish();
        expand::run(&mut function, lacks);
        verify::check(&function).expect("the function is well-formed");
        let mut memory = interp::AddressSpace::new();
        let size = from.size_bytes() as usize;
        let input = memory.add(bits.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect());
        let size = to.size_bytes() as usize;
        let output = memory.add(vec![0; bits.len() * size]);
        interp::run(&function, [input, output, bits.len() as u64, 0], &mut memory, 1 << 26).expect("it runs");
        let lane = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        memory.region(output).chunks(size).map(lane).collect()
    };
    let lacks = expand::Lacks { half: true, bf16: true, ..expand::Lacks::default() };
    let halves: Vec<u64> = (0..=0xffff).collect();
    // Numbers just at, below and above every half, and the middles between neighbours.
    let singles: Vec<u64> = (0..=0xffffu64)
        .step_by(5)
        .flat_map(|high| [0, 0x7fff, 0x8000, 0x8001].map(|low| high << 16 | low))
        .chain((0..1u64 << 19).step_by(21).flat_map(|n| [0x0fff, 0x1000, 0x1001].map(|low| n << 13 | low)))
        .collect();
    for half in [Elem::F16, Elem::BF16] {
        for (from, to, bits) in [(half, Elem::F32, &halves), (Elem::F32, half, &singles)] {
            let (spelled, plain) = (convert(from, to, bits, lacks), convert_by_definition(from, to, bits));
            for ((&bits, spelled), plain) in bits.iter().zip(spelled).zip(plain) {
                let nan = |bits: u64| infc_codegen_cpu::vir::eval::to_f64(to, bits).is_nan();
                assert!(
                    spelled == plain || (nan(spelled) && nan(plain)),
                    "{from} {bits:#x}: {spelled:#x}, not {plain:#x}"
                );
            }
        }
    }
}

fn convert_by_definition(from: Elem, to: Elem, bits: &[u64]) -> Vec<u64> {
    bits.iter().map(|&bits| infc_codegen_cpu::vir::eval::convert(Convert::Float, from, to, bits)).collect()
}

#[test]
fn the_verifier_finds_violations() {
    let op = |n: u32, op: Op| Inst::Op { result: Value(n), op };
    let complain = |insts: Vec<Inst>, types: &[Type]| {
        let body = Block { insts, yields: Vec::new() };
        let function = Function { name: "f".to_owned(), body, types: types.to_vec(), scratch_bytes: 0 };
        verify::check(&function).expect_err("it is wrong").join("\n")
    };
    let add = Op::Binary(BinaryOp::Add, Value(0), Value(1));
    assert!(complain(vec![op(0, add.clone())], &[I64, I64]).contains("v1 is used before it is defined"));
    assert!(complain(vec![op(0, Op::Param(0)), op(0, Op::Param(0))], &[I64]).contains("v0 is defined twice"));
    let mixed = vec![op(0, Op::Param(0)), op(1, Op::Const(0)), op(2, add)];
    assert!(complain(mixed, &[I64, F32X8, I64]).contains("operands of the result's type"));
    assert!(complain(vec![op(0, Op::Const(0))], &[Type::vector(Elem::F32, 3)]).contains("3 lanes"));
    let inner = Block { insts: vec![op(1, Op::Param(1))], yields: Vec::new() };
    let escaped = vec![
        op(0, Op::Const(1)),
        Inst::If { cond: Value(0), then: inner, otherwise: Block::default(), results: Vec::new() },
        Inst::Store { value: Value(1), base: Value(1), disp: 0, mask: None },
    ];
    assert!(complain(escaped, &[Type::scalar(Elem::Mask), I64]).contains("outside the block that defines it"));
}

#[test]
fn the_interpreter_stops_at_the_edge_of_buffers() {
    let mut b = Builder::new("f");
    let p = b.param(0);
    let value = b.load(F32X8, p, 4, Memory::ReadOnly);
    b.store(value, p, 0);
    let function = b.finish();
    let mut memory = interp::AddressSpace::new();
    let region = memory.add(vec![0; 35]);
    let trap = interp::run(&function, [region, 0, 0, 0], &mut memory, 100);
    assert_eq!(trap, Err(interp::Trap::OutOfBounds { address: region + 32, size: 4 }));
    let mut memory = interp::AddressSpace::new();
    let region = memory.add(vec![0; 36]);
    assert_eq!(interp::run(&function, [region, 0, 0, 0], &mut memory, 100), Ok(()));
}
