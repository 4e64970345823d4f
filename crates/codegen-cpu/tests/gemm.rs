//! A matrix-product kernel written by hand in `vir`: right results, a clean inner loop, and (with `--ignored`) speed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "measurements are printed, and so is what is skipped")]

mod support;

use infc_codegen_cpu::vir::{Builder, Elem, Function, Memory, Type, Value, interp, verify};
use infc_codegen_cpu::wide::{self, Isa};
use std::time::Instant;
use support::Executable;

/// `C[rows, columns] = A[rows, k] · B[k, columns]`, all of the tile in registers.
fn gemm(rows: usize, vectors: usize, lanes: u16, k: i64) -> Function {
    let vector = Type::vector(Elem::F32, lanes);
    let row_bytes = vectors as i32 * i32::from(lanes) * 4;
    let mut b = Builder::new("gemm");
    let args = b.param(0);
    let i64 = Type::scalar(Elem::I64);
    let a = b.load(i64, args, 0, Memory::ReadOnly);
    let panel = b.load(i64, args, 8, Memory::ReadOnly);
    let c = b.load(i64, args, 16, Memory::ReadOnly);
    let zero = b.fconst(vector, 0.0);
    let (start, end) = (b.iconst(0), b.iconst(k));
    let inits = vec![zero; rows * vectors];
    let (iv, sums) = b.loop_open(start, end, 1, false, &inits);
    let four = b.iconst(4);
    let a_offset = b.mul(iv, four);
    let a_at = b.add(a, a_offset);
    let row = b.iconst(i64::from(row_bytes));
    let b_offset = b.mul(iv, row);
    let b_at = b.add(panel, b_offset);
    let columns: Vec<Value> =
        (0..vectors).map(|n| b.load(vector, b_at, n as i32 * i32::from(lanes) * 4, Memory::ReadOnly)).collect();
    let mut next = Vec::new();
    for m in 0..rows {
        let left = b.load_splat(vector, a_at, m as i32 * k as i32 * 4, Memory::ReadOnly);
        for (n, &column) in columns.iter().enumerate() {
            next.push(b.fma(left, column, sums[m * vectors + n]));
        }
    }
    let sums = b.loop_close(&next);
    for (n, &sum) in sums.iter().enumerate() {
        b.store(sum, c, n as i32 * i32::from(lanes) * 4);
    }
    b.finish()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn check(rows: usize, vectors: usize, lanes: u16, isa: Isa) {
    let k = 37;
    let columns = vectors * usize::from(lanes);
    let function = gemm(rows, vectors, lanes, k);
    verify::check(&function).expect("the kernel is well-formed");
    let a: Vec<f32> = (0..rows * k as usize).map(|n| (n % 13) as f32 - 5.5).collect();
    let b: Vec<f32> = (0..columns * k as usize).map(|n| (n % 17) as f32 * 0.25 - 2.0).collect();

    let mut memory = interp::AddressSpace::new();
    let (pa, pb) = (memory.add(bytes(&a)), memory.add(bytes(&b)));
    let pc = memory.add(vec![0; rows * columns * 4]);
    let args: Vec<u8> = [pa, pb, pc].iter().flat_map(|p| p.to_le_bytes()).collect();
    let args = memory.add(args);
    interp::run(&function, [args, 0, 1, 0], &mut memory, 10_000_000).expect("the interpreter runs it");

    let compiled = wide::emit(&function, isa).expect("the kernel compiles");
    assert_eq!(compiled.stats.inner_loop_spills, 0, "{:?}", compiled.stats);
    assert_eq!(compiled.stats.inner_loop_moves, 0, "{:?}", compiled.stats);
    let mut c = vec![0f32; rows * columns];
    let args = [a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64];
    Executable::new(&compiled.code).call(&args, 0, 1, &mut []);
    assert_eq!(bytes(&c), memory.region(pc));
}

/// The instructions of the loop, by its listing: everything between its header and the jump back.
fn inner_loop(rows: usize, vectors: usize, lanes: u16, isa: Isa) -> Vec<String> {
    let text = wide::listing(&gemm(rows, vectors, lanes, 512), isa).expect("the kernel compiles");
    let mut block = Vec::new();
    for line in text.lines() {
        if line.starts_with("block") {
            block.clear();
        } else {
            block.push(line[8..].to_owned());
        }
        if line.contains("if Less") {
            return block;
        }
    }
    panic!("no loop in\n{text}");
}

#[test]
fn the_loop_has_three_instructions_of_overhead() {
    for (rows, vectors, lanes, isa) in [(8, 3, 16, AVX512), (14, 2, 16, AVX512), (6, 2, 8, AVX2), (4, 3, 8, AVX2)] {
        let insts = inner_loop(rows, vectors, lanes, isa);
        let count = |start: &str| insts.iter().filter(|inst| inst.starts_with(start)).count();
        assert_eq!(count("vfmadd231ps"), rows * vectors, "{insts:#?}");
        assert_eq!(count("vmovups"), vectors, "{insts:#?}");
        assert_eq!(count("vbroadcastss"), rows, "{insts:#?}");
        // Two pointers or indices move on; comparison and jump are one to the processor.
        assert_eq!(insts.len(), rows * vectors + vectors + rows + 4, "{insts:#?}");
    }
}

fn measure(rows: usize, vectors: usize, lanes: u16, isa: Isa) {
    let k = 512;
    let columns = vectors * usize::from(lanes);
    let compiled = wide::emit(&gemm(rows, vectors, lanes, k), isa).expect("the kernel compiles");
    if let Ok(path) = std::env::var("CODE_OUT") {
        std::fs::write(path, &compiled.code).expect("the path is writable");
    }
    let code = Executable::new(&compiled.code);
    let a = vec![1f32; rows * k as usize];
    let b = vec![1f32; columns * k as usize];
    let mut c = vec![0f32; rows * columns];
    let args = [a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64];
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..100 {
            code.call(&args, 0, 1, &mut []);
        }
        best = best.min(start.elapsed().as_secs_f64() / 100.0);
    }
    let flops = 2.0 * rows as f64 * columns as f64 * k as f64;
    println!("{rows}x{columns}: {:.1} GFLOP/s {:?}", flops / best / 1e9, compiled.stats);
}

const AVX512: Isa = Isa { avx512: true, vnni: false, bf16: false, flush_bf16: false };
const AVX2: Isa = Isa { avx512: false, vnni: false, bf16: false, flush_bf16: false };

#[test]
fn avx512_tile_is_right_and_stays_in_registers() {
    if !support::has_avx512() {
        eprintln!("skipped: no AVX-512 here");
        return;
    }
    check(8, 3, 16, AVX512);
    check(14, 2, 16, AVX512);
    check(1, 1, 16, AVX512);
}

#[test]
fn avx2_tile_is_right_and_stays_in_registers() {
    if !support::has_avx2() {
        eprintln!("skipped: no AVX2 here");
        return;
    }
    check(6, 2, 8, AVX2);
    check(4, 3, 8, AVX2);
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    if support::has_avx512() {
        measure(8, 3, 16, AVX512);
        measure(14, 2, 16, AVX512);
    }
    measure(6, 2, 8, AVX2);
    measure(4, 3, 8, AVX2);
}
