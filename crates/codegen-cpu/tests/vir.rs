//! The builder keeps functions in good order, passes rewrite them as stated, and the verifier finds what is wrong.

#[path = "vir/building.rs"]
mod building;
#[path = "vir/chains.rs"]
mod chains;
#[path = "vir/registers.rs"]
mod registers;

use infc_codegen_cpu::vir::{
    BinaryOp, Block, Builder, Cond, Convert, Elem, Function, I64, Inst, Memory, Op, Type, Value, expand, interp, pack,
    verify,
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
        let function =
            Function { name: "f".to_owned(), body, types: types.to_vec(), scratch_bytes: 0, tile_shapes: Vec::new() };
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
