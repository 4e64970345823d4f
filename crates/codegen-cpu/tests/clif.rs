//! What the Cranelift emitter makes of typical kernels.

use infc_codegen_cpu::vir::{Builder, Elem, Function, I64, Memory, Type, Value};
use infc_codegen_cpu::{Target, clif};

fn target(name: &str) -> Target {
    name.parse().expect("a known target")
}

/// `C[rows, columns] = A[rows, k] · B[k, columns]` with the tile of C in registers.
fn gemm(rows: usize, vectors: usize, lanes: u16) -> Function {
    let vector = Type::vector(Elem::F32, lanes);
    let mut b = Builder::new("gemm");
    let args = b.param(0);
    let [a, panel, c] = [0, 8, 16].map(|at| b.load(I64, args, at, Memory::ReadOnly));
    let zero = b.fconst(vector, 0.0);
    let (start, end) = (b.iconst(0), b.iconst(256));
    let (iv, sums) = b.loop_open(start, end, 1, true, &vec![zero; rows * vectors]);
    let (four, row) = (b.iconst(4), b.iconst(vectors as i64 * i64::from(vector.size_bytes())));
    let (a_offset, b_offset) = (b.mul(iv, four), b.mul(iv, row));
    let (a_at, b_at) = (b.add(a, a_offset), b.add(panel, b_offset));
    let step = vector.size_bytes().cast_signed();
    let columns: Vec<Value> = (0..vectors as i32).map(|n| b.load(vector, b_at, n * step, Memory::ReadOnly)).collect();
    let mut next = Vec::new();
    for m in 0..rows {
        let left = b.load_splat(vector, a_at, m as i32 * 1024, Memory::ReadOnly);
        next.extend((0..vectors).map(|n| b.fma(left, columns[n], sums[m * vectors + n])));
    }
    let sums = b.loop_close(&next);
    for (n, &sum) in sums.iter().enumerate() {
        b.store(sum, c, n as i32 * step);
    }
    b.finish()
}

/// The instructions of an innermost loop, by its listing.
fn hot(function: &Function, target: &Target) -> Vec<String> {
    let text = clif::listing(function, target).expect("the kernel compiles");
    let from = text.split("block1:").nth(1).expect("the loop is the second block");
    from.split("block2:").next().unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_product_keeps_its_sums_in_registers() {
    let function = gemm(4, 2, 4);
    let stats = clif::emit(&function, &target("x86-64-v2")).expect("compiles").stats;
    // One copy per element of A, since SSE products overwrite a factor.
    assert_eq!((stats.inner_loop_spills, stats.inner_loop_moves), (0, 4));
    let stats = clif::emit(&gemm(4, 4, 4), &target("aarch64")).expect("compiles").stats;
    assert_eq!((stats.inner_loop_spills, stats.inner_loop_moves), (0, 0));
    let fused = hot(&gemm(4, 4, 4), &target("aarch64")).iter().filter(|inst| inst.starts_with("fmla")).count();
    assert_eq!(fused, 16);
}

#[test]
fn wide_vectors_are_cut() {
    let stats = clif::emit(&gemm(2, 1, 16), &target("x86-64-v2")).expect("compiles").stats;
    assert_eq!(stats.inner_loop_spills, 0);
    let products = hot(&gemm(2, 1, 16), &target("x86-64-v2")).iter().filter(|inst| inst.starts_with("mulps")).count();
    assert_eq!(products, 8);
}

#[test]
fn the_baseline_has_no_avx() {
    let text = clif::listing(&gemm(4, 2, 4), &target("x86-64-v2")).expect("compiles");
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(names.filter(|name| name.starts_with('v')).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn other_levels_use_what_they_have() {
    let text = clif::listing(&gemm(4, 2, 4), &target("x86-64-v3")).expect("compiles");
    assert!(text.contains("vfmadd"), "{text}");
}

#[test]
fn the_same_function_gives_the_same_bytes() {
    let once = clif::emit(&gemm(4, 2, 8), &target("x86-64-v2")).expect("compiles");
    let again = clif::emit(&gemm(4, 2, 8), &target("x86-64-v2")).expect("compiles");
    assert_eq!(once, again);
}
