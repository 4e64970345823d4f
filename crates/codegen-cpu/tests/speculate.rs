//! Loops that keep NaN in minima and maxima: what they are rewritten to, and that every emitter gives what the
//! interpreter gives, wherever NaN is.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::vir::{
    BinaryOp, Builder, Cond, Elem, Function, I64, Inst, Memory, Type, Value, interp, speculate, verify,
};
use infc_codegen_cpu::{Target, emit};
use support::Executable;

/// Turns of the loop.
const TURNS: usize = 6;

/// `a ≠ a ? a : extremum(a, b)`
fn keeping(b: &mut Builder, kind: BinaryOp, x: Value, y: Value) -> Value {
    let picked = b.binary(kind, x, y);
    let nan = b.compare(Cond::Ne, x, x);
    b.select(nan, x, picked)
}

/// How the loop folds.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: BinaryOp,
    elem: Elem,
    lanes: u16,
    /// The accumulator is the first operand of the extremum.
    accumulator_first: bool,
    /// The accumulators start from memory rather than from a constant.
    loaded_start: bool,
    /// Two loops, one inside the other.
    nested: bool,
}

/// Two accumulators over sums of the two inputs, and over the first input alone:
/// `y₀ = fold extremum a[k] + b[k]`, `y₁ = fold extremum a[k]`.
fn fold(shape: Shape) -> Function {
    let ty = Type::vector(shape.elem, shape.lanes);
    let bytes = i64::from(ty.size_bytes());
    let mut b = Builder::new("fold");
    let args = b.param(0);
    let [x, y, start, out] = [0, 8, 16, 24].map(|disp| b.load(I64, args, disp, Memory::ReadOnly));
    let init = if shape.loaded_start {
        b.load(ty, start, 0, Memory::ReadOnly)
    } else {
        b.fconst(ty, if shape.kind == BinaryOp::Min { f64::INFINITY } else { f64::NEG_INFINITY })
    };
    let zero = b.iconst(0);
    let turns = TURNS as i64;
    let (outer_turns, inner_turns) = if shape.nested { (2, turns / 2) } else { (1, turns) };
    let (outer_end, inner_end) = (b.iconst(outer_turns), b.iconst(inner_turns));
    let (outer, accumulators) = b.loop_open(zero, outer_end, 1, true, &[init, init]);
    let (inner, accumulators) = b.loop_open(zero, inner_end, 1, true, &accumulators);
    let (row, step) = (b.iconst(inner_turns * bytes), b.iconst(bytes));
    let (outer, inner) = (b.mul(outer, row), b.mul(inner, step));
    let offset = b.add(outer, inner);
    let [x, y] = [x, y].map(|base| {
        let at = b.add(base, offset);
        b.load(ty, at, 0, Memory::ReadOnly)
    });
    let sum = b.add(x, y);
    let next: Vec<Value> = [sum, x]
        .iter()
        .zip(&accumulators)
        .map(|(&value, &acc)| match shape.accumulator_first {
            true => keeping(&mut b, shape.kind, acc, value),
            false => keeping(&mut b, shape.kind, value, acc),
        })
        .collect();
    let results = b.loop_close(&next);
    let results = b.loop_close(&results);
    for (n, &result) in results.iter().enumerate() {
        b.store(result, out, n as i32 * bytes as i32);
    }
    b.finish()
}

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for kind in [BinaryOp::Min, BinaryOp::Max] {
        for (elem, lanes) in [(Elem::F32, 4), (Elem::F32, 8), (Elem::F32, 32), (Elem::F64, 8)] {
            for bits in 0..8 {
                let [accumulator_first, loaded_start, nested] = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
                shapes.push(Shape { kind, elem, lanes, accumulator_first, loaded_start, nested });
            }
        }
    }
    shapes
}

fn bytes(elem: Elem, values: &[f64]) -> Vec<u8> {
    match elem {
        Elem::F32 => values.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn numbers(elem: Elem, bytes: &[u8]) -> Vec<f64> {
    match elem {
        Elem::F32 => {
            bytes.chunks_exact(4).map(|x| f64::from(f32::from_le_bytes(x.try_into().expect("4 bytes")))).collect()
        }
        _ => bytes.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("8 bytes"))).collect(),
    }
}

/// Inputs without NaN: finite numbers, zeros of both signs, infinities whose sums are not NaN.
fn plain(shape: Shape) -> [Vec<f64>; 3] {
    const VALUES: [f64; 11] = [1.5, -2.0, 0.0, -0.0, 7.25, f64::INFINITY, -9.0, 3e30, -0.0, 0.0, 0.5];
    let lanes = usize::from(shape.lanes);
    let x = (0..TURNS * lanes).map(|n| VALUES[n * 7 % VALUES.len()]).collect();
    let y = (0..TURNS * lanes).map(|n| VALUES[n * 5 % VALUES.len()].abs()).collect();
    let start = (0..lanes).map(|n| VALUES[n % VALUES.len()]).collect();
    [x, y, start]
}

/// Inputs with NaN at one place each, made there or by a sum; and without.
fn inputs(shape: Shape) -> Vec<[Vec<f64>; 3]> {
    let lanes = usize::from(shape.lanes);
    let mut all = vec![plain(shape)];
    for turn in 0..TURNS {
        for (operand, lane) in [(0, 0), (1, lanes - 1), (0, lanes / 2)] {
            let mut with = plain(shape);
            with[operand][turn * lanes + lane] = f64::NAN;
            all.push(with);
        }
        let mut with = plain(shape);
        with[0][turn * lanes] = f64::INFINITY;
        with[1][turn * lanes] = f64::NEG_INFINITY;
        all.push(with);
    }
    let mut with = plain(shape);
    with[2][lanes - 1] = f64::NAN;
    all.push(with);
    all
}

fn interpreted(function: &Function, shape: Shape, [x, y, start]: &[Vec<f64>; 3]) -> Vec<f64> {
    let mut memory = interp::AddressSpace::new();
    let pointers: Vec<u64> = [x, y, start].iter().map(|values| memory.add(bytes(shape.elem, values))).collect();
    let out = memory.add(vec![0; 2 * usize::from(shape.lanes) * shape.elem.size_bytes() as usize]);
    let args = memory.add(pointers.iter().chain([&out]).flat_map(|p| p.to_le_bytes()).collect());
    interp::run(function, [args, 0, 1, 0], &mut memory, 100_000).expect("the program does not trap");
    numbers(shape.elem, memory.region(out))
}

/// The same bits, whatever NaN.
fn assert_same(found: &[f64], expected: &[f64], context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (n, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{context}: element {n} is {a}, not {b}");
    }
}

#[test]
fn speculation_keeps_the_meaning() {
    for shape in shapes() {
        let function = fold(shape);
        let mut rewritten = function.clone();
        speculate::run(&mut rewritten, 2);
        verify::check(&rewritten).unwrap_or_else(|errors| panic!("{}\n{rewritten}", errors.join("\n")));
        assert_ne!(function, rewritten, "{shape:?}");
        let mut with_nan = 0;
        for inputs in inputs(shape) {
            let expected = interpreted(&function, shape, &inputs);
            with_nan += usize::from(expected.iter().any(|x| x.is_nan()));
            assert_same(&interpreted(&rewritten, shape, &inputs), &expected, &format!("{shape:?}\n{rewritten}"));
        }
        assert!(with_nan > TURNS, "NaN is kept");
    }
}

#[test]
fn emitters_keep_nan() {
    for (target, available) in
        [("x86-64-v4", support::has_avx512()), ("x86-64-v3", support::has_avx2()), ("x86-64-v2", support::has_sse42())]
    {
        let parsed: Target = target.parse().expect("a known target");
        for shape in shapes() {
            let function = fold(shape);
            let compiled = emit(&function, &parsed).unwrap_or_else(|error| panic!("{shape:?} on {target}: {error}"));
            if !available {
                continue;
            }
            let code = Executable::new(&compiled.code);
            for inputs in inputs(shape) {
                let expected = interpreted(&function, shape, &inputs);
                let data: Vec<Vec<u8>> = inputs.iter().map(|values| bytes(shape.elem, values)).collect();
                let mut out = vec![0u8; 2 * usize::from(shape.lanes) * shape.elem.size_bytes() as usize];
                let mut args: Vec<u64> = data.iter().map(|bytes| bytes.as_ptr() as u64).collect();
                args.push(out.as_mut_ptr() as u64);
                code.call(&args, 0, 1, &mut []);
                assert_same(&numbers(shape.elem, &out), &expected, &format!("{shape:?} on {target}"));
            }
        }
        if !available {
            eprintln!("skipped: this machine does not run {target}, code was made but not run");
        }
    }
}

/// Operations of a kind in the innermost loop of the first way.
fn count_in_loops(function: &Function, wanted: &dyn Fn(&Inst) -> bool) -> Vec<usize> {
    let mut counts = Vec::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Loop(l) = inst {
            counts.push(l.body.insts.iter().filter(|inst| wanted(inst)).count());
        }
    });
    counts
}

#[test]
fn two_operands_are_watched_by_one_comparison() {
    use infc_codegen_cpu::vir::Op;
    let shape = Shape {
        kind: BinaryOp::Min,
        elem: Elem::F32,
        lanes: 16,
        accumulator_first: true,
        loaded_start: false,
        nested: false,
    };
    let mut function = fold(shape);
    speculate::run(&mut function, 4);
    // The loop that speculates, then the loop as it was.
    let selections = count_in_loops(&function, &|inst| matches!(inst, Inst::Op { op: Op::Select(..), .. }));
    assert_eq!(selections, [0, 2], "{function}");
    let observed =
        count_in_loops(&function, &|inst| matches!(inst, Inst::Op { op: Op::Compare(Cond::Ordered, ..), .. }));
    assert_eq!(observed, [1, 0], "{function}");
}

/// A value that goes around the loop and ends as a constant, of another number of lanes than the minimum, and a number
/// that does: nothing relies on what they start from.
#[test]
fn what_no_minimum_relies_on_is_not_watched() {
    let shape = Shape {
        kind: BinaryOp::Min,
        elem: Elem::F32,
        lanes: 8,
        accumulator_first: true,
        loaded_start: true,
        nested: false,
    };
    let (ty, narrow) = (Type::vector(Elem::F32, 8), Type::vector(Elem::F32, 4));
    let mut b = Builder::new("beside");
    let args = b.param(0);
    let [x, start, out] = [0, 16, 24].map(|disp| b.load(I64, args, disp, Memory::ReadOnly));
    let (init, beside) = (b.load(ty, start, 0, Memory::ReadOnly), b.load(narrow, start, 0, Memory::ReadOnly));
    let (zero, end) = (b.iconst(0), b.iconst(TURNS as i64));
    let (turn, carried) = b.loop_open(zero, end, 1, true, &[init, beside, args]);
    let size = b.iconst(i64::from(ty.size_bytes()));
    let offset = b.mul(turn, size);
    let at = b.add(x, offset);
    let x = b.load(ty, at, 0, Memory::ReadOnly);
    let next = keeping(&mut b, shape.kind, carried[0], x);
    let one = b.fconst(narrow, 1.0);
    let results = b.loop_close(&[next, one, zero]);
    let last = b.add(out, results[2]);
    b.store(results[0], last, 0);
    b.store(results[1], last, ty.size_bytes() as i32);
    let function = b.finish();
    let mut rewritten = function.clone();
    speculate::run(&mut rewritten, 2);
    verify::check(&rewritten).unwrap_or_else(|errors| panic!("{}\n{rewritten}", errors.join("\n")));
    assert_ne!(function, rewritten);
    for inputs in inputs(shape) {
        let expected = interpreted(&function, shape, &inputs);
        assert_same(&interpreted(&rewritten, shape, &inputs), &expected, &format!("{rewritten}"));
    }
}

#[test]
fn loops_that_write_memory_are_left_alone() {
    let ty = Type::vector(Elem::F32, 8);
    let mut b = Builder::new("writes");
    let (args, zero, end) = (b.param(0), b.iconst(0), b.param(2));
    let infinity = b.fconst(ty, f64::INFINITY);
    let (iv, acc) = b.loop_open(zero, end, 1, false, &[infinity]);
    let at = b.add(args, iv);
    let x = b.load(ty, at, 0, Memory::Written);
    let next = keeping(&mut b, BinaryOp::Min, acc[0], x);
    b.store(next, args, 64);
    let result = b.loop_close(&[next]);
    b.store(result[0], args, 0);
    let function = b.finish();
    let mut same = function.clone();
    speculate::run(&mut same, 2);
    assert_eq!(function, same);
}
