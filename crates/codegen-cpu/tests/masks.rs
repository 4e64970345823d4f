//! Constant masks are made once, where a function begins, and right wherever they are used.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::vir::{Builder, Cond, Elem, Function, I64, Memory, Type};
use infc_codegen_cpu::wide::{self, Isa};
use support::Executable;

const AVX512: Isa = Isa { avx512: true, vnni: false, bf16: false, flush_bf16: false };

/// `y[i·16 ..] = x[i·16 ..] + x[i·16 + 1 ..]` in as many lanes of each vector as the masks have.
fn masked(masks: &[u64]) -> Function {
    let ty = Type::vector(Elem::F32, 16);
    let mut b = Builder::new("masked");
    let args = b.param(0);
    let (x, y) = (b.load(I64, args, 0, Memory::ReadOnly), b.load(I64, args, 8, Memory::ReadOnly));
    let (begin, end) = (b.param(1), b.param(2));
    let (iv, _) = b.loop_open(begin, end, 1, false, &[]);
    let step = b.iconst(64 * masks.len() as i64);
    let offset = b.mul(iv, step);
    let (from, to) = (b.add(x, offset), b.add(y, offset));
    for (n, &bits) in masks.iter().enumerate() {
        let mask = b.constant(ty.mask(), bits);
        let disp = 64 * n as i32;
        let first = b.load_masked(ty, from, disp, mask, Memory::ReadOnly);
        let second = b.load_masked(ty, from, disp + 4, mask, Memory::ReadOnly);
        let sum = b.add(first, second);
        b.store_masked(sum, to, disp, mask);
    }
    b.loop_close(&[]);
    b.finish()
}

#[test]
fn constant_masks_are_made_outside_of_loops() {
    let text = wide::listing(&masked(&[0x1fff, 0x1fff, 0x7]), AVX512).expect("it compiles");
    let made: Vec<&str> = text.lines().filter(|line| line.contains("kmov")).collect();
    assert_eq!(made.len(), 2, "{text}");
    let first_use = text.find(" {k").expect("masks are used");
    assert!(text.rfind("kmov").expect("masks are made") < first_use, "{text}");
}

#[test]
fn more_masks_than_registers_are_right() {
    // Ten masks, seven registers.
    let masks: Vec<u64> = (0..10).map(|n| 0x5a5a_u64.rotate_left(n) & 0xffff | 1 << n).collect();
    let compiled = wide::emit(&masked(&masks), AVX512).expect("it compiles");
    if !support::has_avx512() {
        eprintln!("skipped: no AVX-512 here, code was made but not run");
        return;
    }
    let turns = 3;
    let len = turns * masks.len() * 16;
    let x: Vec<f32> = (0..=len).map(|n| n as f32).collect();
    let mut y = vec![-1f32; len];
    let args = [x.as_ptr() as u64, y.as_mut_ptr() as u64];
    Executable::new(&compiled.code).call(&args, 0, turns as u64, &mut []);
    for (n, &found) in y.iter().enumerate() {
        let on = masks[n / 16 % masks.len()] >> (n % 16) & 1 == 1;
        let expected = if on { x[n] + x[n + 1] } else { -1.0 };
        assert!((found - expected).abs() < f32::EPSILON, "element {n} is {found}, not {expected}");
    }
}

const TIMES: u16 = 20;

/// Numbers in 64 bits say which of those in 32 count, and the other way round, for vectors of so many lanes: `y[i]` is `x[i]²` and
/// `TIMES` times `x[i]` more where `p[i] < 5` and `x[i] < 100`, else `x[i]`, and `q[i]` is `p[i] + 1` where `x[i] < 100`.
fn chosen(lanes: u16) -> Function {
    let (narrow, wide) = (Type::vector(Elem::F32, lanes), Type::vector(Elem::I64, lanes));
    let mut b = Builder::new("chosen");
    let args = b.param(0);
    let [x, p, y, q] = [0, 8, 16, 24].map(|at| b.load(I64, args, at, Memory::ReadOnly));
    let x = b.load(narrow, x, 0, Memory::ReadOnly);
    let p = b.load(wide, p, 0, Memory::ReadOnly);
    let (five, one) = (b.constant(wide, 5), b.constant(wide, 1));
    let hundred = b.fconst(narrow, 100.0);
    let (low, small) = (b.compare(Cond::Lt, p, five), b.compare(Cond::Lt, x, hundred));
    let mut sum = b.mul(x, x);
    // Much enough for whole registers.
    for _ in 0..TIMES {
        sum = b.add(sum, x);
    }
    let mask = b.and(low, small);
    let found = b.select(mask, sum, x);
    b.store(found, y, 0);
    let next = b.add(p, one);
    let moved = b.select(small, next, p);
    b.store(moved, q, 0);
    b.finish()
}

#[test]
fn masks_of_elements_of_other_sizes() {
    for (lanes, joined) in [(8, false), (16, true), (32, true), (64, true)] {
        let function = chosen(lanes);
        let text = wide::listing(&function, AVX512).expect("it compiles");
        assert_eq!(text.contains("kunpck"), joined, "{lanes} lanes: {text}");
        for (isa, available) in
            [(AVX512, support::has_avx512()), (Isa { avx512: false, ..AVX512 }, support::has_avx2())]
        {
            let compiled = wide::emit(&function, isa).expect("it compiles");
            if !available {
                eprintln!("skipped: this machine does not run the code that was made");
                continue;
            }
            let lanes = usize::from(lanes);
            let x: Vec<f32> = (0..lanes).map(|n| (n * 37 % 23) as f32 * 7.0).collect();
            let p: Vec<i64> = (0..lanes).map(|n| n as i64 * 5 % 11).collect();
            let (mut y, mut q) = (vec![0f32; lanes], vec![0i64; lanes]);
            let args = [x.as_ptr() as u64, p.as_ptr() as u64, y.as_mut_ptr() as u64, q.as_mut_ptr() as u64];
            Executable::new(&compiled.code).call(&args, 0, 0, &mut []);
            for n in 0..lanes {
                let expected = if p[n] < 5 && x[n] < 100.0 { x[n] * x[n] + f32::from(TIMES) * x[n] } else { x[n] };
                assert!((y[n] - expected).abs() < f32::EPSILON, "{n} of {lanes}: {} is not {expected}", y[n]);
                assert_eq!(q[n], p[n] + i64::from(x[n] < 100.0), "{n} of {lanes}");
            }
        }
    }
}
