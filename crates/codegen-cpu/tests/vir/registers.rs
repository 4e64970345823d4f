//! What fits registers: vectors are split, and what finds no register is read again.

use super::{F32X8, expect};
use infc_codegen_cpu::vir::{
    Block, Builder, Convert, Elem, Function, Inst, Memory, Op, hold,
    reload::{self, Registers},
    split, verify,
};

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

/// The sum goes around the loop in one register. Behind it `f64` takes two: what is made of these alone is cut as they are, and
/// what much is made of is put together.
#[test]
fn sums_stay_whole_in_front_of_wider_elements() {
    let build = |more: bool| {
        let mut b = Builder::new("f");
        let p = b.param(0);
        let (zero, one, ten) = (b.fconst(F32X8, 0.0), b.iconst(32), b.iconst(320));
        let (at, sum) = b.loop_open(one, ten, 32, true, &[zero]);
        let address = b.add(p, at);
        let x = b.load(F32X8, address, 0, Memory::Written);
        let next = b.fma(x, x, sum[0]);
        let sum = b.loop_close(&[next])[0];
        let wide = b.convert(Convert::Float, sum, Elem::F64);
        let square = b.mul(wide, wide);
        let mut narrow = b.convert(Convert::Float, square, Elem::F32);
        for _ in 0..if more { 3 } else { 0 } {
            narrow = b.mul(narrow, narrow);
        }
        b.store(narrow, p, 0);
        let mut function = b.finish();
        split::run(&mut function, 32);
        verify::check(&function).expect("well-formed");
        function
    };
    expect(
        &build(false),
        "
          v0 = param 0 : i64
          v9 = loop v3 in 32..320 step 32 nonempty carry v5: f32x8 = f32x8 0.0 {
            v6 = add v0, v3 : i64
            v7 = load [v6] : f32x8
            v8 = fma v7, v7, v5 : f32x8
            yield v8
          }
          v12 = low_half v9 : f32x4
          v13 = high_half v9 : f32x4
          v10 = float v12 : f64x4
          v11 = float v13 : f64x4
          v14 = mul v10, v10 : f64x4
          v15 = mul v11, v11 : f64x4
          v16 = float v14 : f32x4
          v17 = float v15 : f32x4
          store [v0] = v16
          store [v0 + 16] = v17
        ",
    );
    let joined = build(true).to_string();
    assert_eq!((joined.matches("join").count(), joined.matches("store").count()), (1, 1), "{joined}");
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
