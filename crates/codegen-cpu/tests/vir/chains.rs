//! Operations in another order, or several as one: sums, chains, windows, what lies side by side.

use super::{F32X8, text};
use infc_codegen_cpu::vir::{
    BinaryOp, Builder, Convert, Elem, Function, Inst, Memory, Op, Type, Value, balance, interleave, interp, pack,
    reload::Registers, verify,
};

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
