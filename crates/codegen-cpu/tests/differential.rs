//! Random programs give the same bytes in the interpreter and from every emitter, NaN payloads aside.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

#[path = "support/programs.rs"]
mod programs;
mod support;

use infc_codegen_cpu::vir::hold;
use infc_codegen_cpu::vir::reload::{self, Registers};
use infc_codegen_cpu::vir::{Function, interp, verify};
use infc_codegen_cpu::{CompiledFunction, Emitter, Target, clif, emit};
use support::Executable;

/// Runs a program in the interpreter.
fn expected(function: &Function, data: &[u8]) -> Vec<u8> {
    let mut memory = interp::AddressSpace::new();
    let input = memory.add(data.to_vec());
    let output = memory.add(vec![0xaa; programs::OUTPUT]);
    let args = memory.add([input, output].iter().flat_map(|p| p.to_le_bytes()).collect());
    interp::run(function, [args, 0, 1, 0], &mut memory, 1_000_000).expect("programs do not trap");
    memory.region(output).to_vec()
}

fn actual(compiled: &CompiledFunction, data: &[u8]) -> Vec<u8> {
    let mut output = vec![0xaa; programs::OUTPUT];
    let args = [data.as_ptr() as u64, output.as_mut_ptr() as u64];
    Executable::new(&compiled.code).call(&args, 0, 1, &mut []);
    output
}

/// Equal bytes, or both NaN when read as a float of some width at the difference: payloads are not defined.
fn same(a: &[u8], b: &[u8]) -> Option<usize> {
    let nan = |bytes: &[u8], at: usize| {
        let wide = (at.saturating_sub(7)..=at).any(|start| {
            bytes.get(start..start + 8).is_some_and(|x| f64::from_le_bytes(x.try_into().expect("8 bytes")).is_nan())
        });
        let narrow = (at.saturating_sub(3)..=at).any(|start| {
            bytes.get(start..start + 4).is_some_and(|x| f32::from_le_bytes(x.try_into().expect("4 bytes")).is_nan())
        });
        let half = (at.saturating_sub(1)..=at).any(|start| {
            let word = bytes.get(start..start + 2).map(|x| u16::from_le_bytes([x[0], x[1]]));
            word.is_some_and(|x| x & 0x7fff > 0x7c00)
        });
        wide || narrow || half
    };
    (0..a.len()).find(|&n| a[n] != b[n] && !(nan(a, n) && nan(b, n)))
}

/// What is wrong with one program, if anything is; whether the expected emitter made its code comes beside it.
fn check(
    (seed, lanes, size): (u64, u16, usize),
    fma: bool,
    target: &Target,
    emitter: Emitter,
    run: bool,
) -> Result<Emitter, String> {
    let (function, data) = programs::program(seed, lanes, size, fma);
    let context = |what: String| format!("{what}\nseed {seed}, {lanes} lanes, size {size}\n{function}");
    verify::check(&function).map_err(|errors| context(errors.join("\n")))?;
    let compiled = match emitter {
        Emitter::Wide => emit(&function, target),
        Emitter::Cranelift => clif::emit(&function, target),
    };
    let compiled = compiled.map_err(|error| context(error.to_string()))?;
    if run {
        let (want, got) = (expected(&function, &data), actual(&compiled, &data));
        if let Some(at) = same(&want, &got) {
            return Err(context(format!("byte {at} is {:#x}, not {:#x}", got[at], want[at])));
        }
    }
    Ok(compiled.emitter)
}

fn run(target: &str, available: bool, emitter: Emitter, fma: bool) {
    let target: Target = target.parse().expect("a known target");
    let mut compiled_by_it = 0;
    // Cranelift takes its time, above all with its verifier on.
    let usual = if emitter == Emitter::Wide { 40 } else { 15 };
    let count = std::env::var("PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    for seed in 0..count {
        for lanes in [1, 2, 4, 8, 16, 32, 64] {
            match check((seed, lanes, 20), fma, &target, emitter, available) {
                Ok(by) => compiled_by_it += u64::from(by == emitter),
                Err(error) => {
                    // The same seed with fewer steps begins with the same program.
                    let shorter =
                        (0..20).find_map(|size| check((seed, lanes, size), fma, &target, emitter, available).err());
                    panic!("{}", shorter.unwrap_or(error));
                }
            }
        }
    }
    assert!(compiled_by_it > 0, "{target}: no program was taken");
    if !available {
        eprintln!("skipped: this machine does not run {target}, code was made but not run");
    }
}

/// Loads made again give what they gave; two registers make nearly every load one that is.
#[test]
fn reloads() {
    let mut repeated = 0;
    for seed in 0..200 {
        let (function, data) = programs::program(seed, 4, 20, true);
        let mut after = function.clone();
        reload::run(&mut after, Registers { vectors: 2, hold_masks: true });
        let checked = verify::check(&after).map_err(|errors| errors.join("\n"));
        assert_eq!(checked, Ok(()), "seed {seed}\n{after}");
        assert_eq!(expected(&function, &data), expected(&after, &data), "seed {seed}\n{function}\n{after}");
        repeated += after.types.len() - function.types.len();
    }
    assert!(repeated > 0, "no load was repeated");
}

/// Constants in registers give what constants in memory gave.
#[test]
fn holds() {
    let mut held = 0;
    for (seed, registers) in (0..200).zip([6, 12, 24].into_iter().cycle()) {
        let (function, data) = programs::program(seed, 4, 20, true);
        let mut after = function.clone();
        hold::run(&mut after, Registers { vectors: registers, hold_masks: true });
        let checked = verify::check(&after).map_err(|errors| errors.join("\n"));
        assert_eq!(checked, Ok(()), "seed {seed}\n{after}");
        assert_eq!(expected(&function, &data), expected(&after, &data), "seed {seed}\n{function}\n{after}");
        held += after.types.len() - function.types.len();
    }
    assert!(held > 0, "no constant was held");
}

#[test]
fn avx512() {
    run("x86-64-v4", support::has_avx512(), Emitter::Wide, true);
}

#[test]
fn avx512_with_vnni() {
    run("x86-64-v4+vnni", support::has_avx512_vnni(), Emitter::Wide, true);
}

#[test]
fn avx512_with_bf16() {
    run("x86-64-v4+vnni+bf16", support::has_avx512_bf16(), Emitter::Wide, true);
}

#[test]
fn avx2() {
    run("x86-64-v3", support::has_avx2(), Emitter::Wide, true);
}

#[test]
fn avx2_with_vnni() {
    run("x86-64-v3+avxvnni", support::has_avx_vnni(), Emitter::Wide, true);
}

#[test]
fn sse() {
    // Without hardware for it, a fused multiply-add rounds twice.
    run("x86-64-v2", support::has_sse42(), Emitter::Cranelift, false);
}

#[test]
fn avx_without_the_wide_emitter() {
    run("x86-64-v3", support::has_avx2(), Emitter::Cranelift, true);
}

#[test]
fn aarch64() {
    run("aarch64", cfg!(target_arch = "aarch64"), Emitter::Cranelift, true);
}
