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

#[test]
fn show() {
    let f = gemm(4, 2, 4);
    println!("{}", clif::listing(&f, &target("x86-64-v2")).unwrap());
    println!("{}", clif::listing(&f, &target("aarch64")).unwrap());
}
