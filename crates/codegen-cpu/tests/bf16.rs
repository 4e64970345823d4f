//! Instructions for bfloat16 against their definitions: rounding, and dot products of pairs, by hardware and without.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::vir::{Builder, Convert, Elem, Function, Memory, Type, eval};
use infc_codegen_cpu::{Target, emit};
use support::Executable;

/// Targets with a word on whether they flush subnormal numbers, and whether this machine runs them.
fn targets() -> Vec<(Target, bool)> {
    let all = [
        ("x86-64-v4+vnni+bf16", support::has_avx512_bf16()),
        ("x86-64-v4", support::has_avx512()),
        ("x86-64-v3", support::has_avx2()),
        ("x86-64-v2", support::has_sse42()),
    ];
    let parse = |(name, runs): (&str, bool)| {
        let mut target: Target = name.parse().expect("a known target");
        target.flush_bf16 = true;
        if !runs {
            eprintln!("skipped: this machine does not run {target}");
        }
        runs.then_some((target, name.ends_with("bf16")))
    };
    all.into_iter().filter_map(parse).collect()
}

fn call(function: &Function, target: &Target, inputs: &[&[u32]], output_bytes: usize) -> Vec<u8> {
    let compiled = emit(function, target).expect("it compiles");
    let mut output = vec![0xaa; output_bytes];
    let args: Vec<u64> = inputs.iter().map(|input| input.as_ptr() as u64).chain([output.as_mut_ptr() as u64]).collect();
    Executable::new(&compiled.code).call(&args, 0, 1, &mut []);
    output
}

/// The addresses that a function is given.
fn arguments<const N: usize>(b: &mut Builder) -> [infc_codegen_cpu::vir::Value; N] {
    let args = b.param(0);
    std::array::from_fn(|n| b.load(Type::scalar(Elem::I64), args, 8 * n as i32, Memory::ReadOnly))
}

#[test]
fn numbers_round_to_the_nearest() {
    // Every exponent and sign, with the last kept digit even and odd, at, below and above the middle.
    let numbers: Vec<u32> = (0..1u32 << 9)
        .flat_map(|high| {
            let digits =
                [0u32, 0x7fff, 0x8000, 0x8001, 0x1_7fff, 0x1_8000, 0x7f_8000, 0x7f_ffff, 0x40_0001, 1, 0x3_1234];
            let more = [0x2_8000u32, 0x5_8000, 0x7e_8000, 0x7e_8001, 0x10_0000];
            digits.into_iter().chain(more).map(move |low| high << 23 | low)
        })
        .collect();
    for (target, flushes) in targets() {
        for lanes in [2, 4, 8, 16, 32] {
            let mut b = Builder::new("round");
            let [input, output] = arguments(&mut b);
            for at in (0..numbers.len()).step_by(lanes.into()) {
                let x = b.load(Type::vector(Elem::F32, lanes), input, at as i32 * 4, Memory::ReadOnly);
                let y = b.convert(Convert::Float, x, Elem::BF16);
                b.store(y, output, at as i32 * 2);
            }
            let found = call(&b.finish(), &target, &[&numbers], numbers.len() * 2);
            for (&bits, found) in numbers.iter().zip(found.chunks(2)) {
                let found = u16::from_le_bytes([found[0], found[1]]);
                let is_zeroed = flushes && f32::from_bits(bits).is_subnormal();
                let expected = match is_zeroed {
                    true => (bits >> 16 & 0x8000) as u16,
                    false => eval::convert(Convert::Float, Elem::F32, Elem::BF16, bits.into()) as u16,
                };
                let both_nan = f32::from_bits(bits).is_nan() && found & 0x7fff > 0x7f80;
                assert!(
                    found == expected || both_nan,
                    "{bits:#x} by {lanes} for {target}: {found:#x}, not {expected:#x}"
                );
            }
        }
    }
}

/// Numbers of all kinds: what is none, subnormal ones, what is beyond the range when multiplied.
#[test]
fn pairs_are_summed_from_their_end() {
    let halves: [u16; 14] =
        [0, 0x8000, 0x3f80, 0xbf81, 0x4049, 0x0001, 0x8070, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x2b2d];
    let mut cases: Vec<[u32; 3]> = Vec::new();
    let mut state = 1u32;
    for &p in &halves {
        for &q in &halves {
            for _ in 0..16 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let pick = |n: u32| u32::from(halves[(state >> (4 * n + 3)) as usize % halves.len()]);
                let sums = [0, 0x3f80_0001, 0xc2f6_e979, 0x0000_0123, 0x7f7f_ffff, 0xff80_0000];
                cases.push([
                    sums[(state >> 20) as usize % sums.len()],
                    u32::from(p) << 16 | pick(0),
                    u32::from(q) << 16 | pick(1),
                ]);
            }
        }
    }
    let [sums, a, b]: [Vec<u32>; 3] = std::array::from_fn(|n| cases.iter().map(|case| case[n]).collect());
    for (target, flushes) in targets() {
        for lanes in [4, 8, 16, 32] {
            let mut f = Builder::new("dot");
            let [at_sums, at_a, at_b, output] = arguments(&mut f);
            for at in (0..cases.len()).step_by(lanes.into()) {
                let disp = at as i32 * 4;
                let sum = f.load(Type::vector(Elem::F32, lanes), at_sums, disp, Memory::ReadOnly);
                let words = [at_a, at_b].map(|p| f.load(Type::vector(Elem::I32, lanes), p, disp, Memory::ReadOnly));
                let sum = f.dot2_bf16(sum, words[0], words[1]);
                f.store(sum, output, disp);
            }
            let found = call(&f.finish(), &target, &[&sums, &a, &b], cases.len() * 4);
            for (case, found) in cases.iter().zip(found.chunks(4)) {
                let found = f32::from_le_bytes(found.try_into().expect("four bytes"));
                let [sum, a, b] = case.map(u64::from);
                let expected = f32::from_bits(eval::dot2_bf16(sum, a, b) as u32);
                // Where nothing is flushed, what is left of subnormal numbers is less than the smallest normal ones.
                let is_near = !flushes && (found - expected).abs() <= 4.0 * f32::MIN_POSITIVE;
                let is_same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                let factors =
                    [[a, b], [a << 16, b << 16]].map(|pair| pair.map(|half| f32::from_bits(half as u32 & 0xffff_0000)));
                let depends = factors.iter().any(|&[p, q]| {
                    // Subnormal numbers count if they are multiplied by a large one. Without fused multiply-adds products
                    // are beyond the range on their own.
                    (!flushes && (p.is_subnormal() || q.is_subnormal()))
                        || (p.is_finite() && q.is_finite() && !(p * q).is_finite())
                });
                assert!(is_same || is_near || depends, "{case:x?} by {lanes} for {target}: {found}, not {expected}");
            }
        }
    }
}
