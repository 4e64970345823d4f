//! Constant masks are made once, where a function begins, and right wherever they are used.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::vir::{Builder, Elem, Function, I64, Memory, Type};
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
