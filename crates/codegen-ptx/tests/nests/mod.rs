//! Nests: of kernels by schedules, and, where schedules have no words for it yet, written by hand.

#![allow(dead_code, reason = "each test file uses its part")]

use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, EntityId, IndexVec, OperandId, ScalarId, SymbolId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind, Reducer};
use infc_ir::nest::{Buffer, BufferKind, Expr, LoopKind, LoopNest, LoopVar, Stmt, Target};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source, UnaryOp};
use infc_ir::schedule::{GpuDim, Scope};
use infc_ir::symbol::Symbol;
use infc_ir::verify::verify_nest;
use infc_passes::schedule::apply;
use infc_tensor::DType;
use std::sync::Arc;

/// A nest under construction.
pub(crate) struct Nest {
    nest: LoopNest,
    arguments: u32,
}

pub(crate) fn c(value: i64) -> IndexExpr {
    IndexExpr::constant(value)
}

impl Nest {
    pub(crate) fn new(name: &str) -> Self {
        let nest = LoopNest {
            name: name.to_owned(),
            symbols: IndexVec::new(),
            buffers: IndexVec::new(),
            vars: IndexVec::new(),
            parallel: None,
            body: Vec::new(),
        };
        Self { nest, arguments: 0 }
    }

    pub(crate) fn symbol(&mut self, name: &str, max: i64) -> SymbolId {
        self.nest.symbols.push(Symbol { name: name.to_owned(), min: 1, max: Some(max) })
    }

    pub(crate) fn operand(
        &mut self,
        name: &str,
        dtype: DType,
        len: impl Into<IndexExpr>,
        role: OperandKind,
    ) -> BufferId {
        let argument = self.arguments;
        self.arguments += 1;
        let kind = BufferKind::Operand { operand: OperandId::from_index(argument as usize), argument, role };
        self.nest.buffers.push(Buffer {
            name: name.to_owned(),
            dtype,
            kind,
            len_elems: len.into(),
            swizzle_bytes: None,
            panel_rows: None,
        })
    }

    pub(crate) fn local(&mut self, name: &str, len: i64, scope: Scope) -> BufferId {
        let kind = BufferKind::Local(scope);
        self.nest.buffers.push(Buffer {
            name: name.to_owned(),
            dtype: DType::F32,
            kind,
            len_elems: c(len),
            swizzle_bytes: None,
            panel_rows: None,
        })
    }

    /// A loop variable below `extent`.
    pub(crate) fn var(&mut self, name: &str, extent: i64) -> VarId {
        self.nest.vars.push(LoopVar { name: name.to_owned(), range: (Some(0), Some(extent - 1)) })
    }

    pub(crate) fn finish(mut self, body: Vec<Stmt>) -> LoopNest {
        self.nest.body = body;
        self.nest
    }
}

pub(crate) fn i(var: VarId) -> IndexExpr {
    IndexExpr::var(var)
}

pub(crate) fn for_(var: VarId, extent: impl Into<IndexExpr>, kind: LoopKind, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var, extent: extent.into(), kind, body }
}

pub(crate) fn bound(var: VarId, extent: impl Into<IndexExpr>, dim: GpuDim, body: Vec<Stmt>) -> Stmt {
    for_(var, extent, LoopKind::Bound(dim), body)
}

pub(crate) fn below(expr: IndexExpr, hi: impl Into<IndexExpr>) -> Bound {
    Bound { expr, lo: c(0), hi: hi.into() }
}

pub(crate) fn load(buffer: BufferId, dtype: DType, index: IndexExpr) -> ScalarOp {
    masked_load(buffer, dtype, index, vec![])
}

pub(crate) fn masked_load(buffer: BufferId, dtype: DType, index: IndexExpr, valid: Vec<Bound>) -> ScalarOp {
    let otherwise = Const::zero(dtype);
    ScalarOp::Load(Load { source: Source::Buffer(buffer), index: vec![index], gather: vec![], valid, otherwise, dtype })
}

pub(crate) fn expr(build: impl FnOnce(&mut Body) -> ScalarId) -> Expr {
    let mut body = Body::default();
    let root = build(&mut body);
    Expr { body, roots: vec![root] }
}

pub(crate) fn store(
    buffer: BufferId,
    index: IndexExpr,
    valid: Vec<Bound>,
    build: impl FnOnce(&mut Body) -> ScalarId,
) -> Stmt {
    Stmt::Store { targets: vec![Target { buffer, index }], value: expr(build), valid }
}

pub(crate) fn fold(
    buffer: BufferId,
    index: IndexExpr,
    op: BinaryOp,
    build: impl FnOnce(&mut Body) -> ScalarId,
) -> Stmt {
    // A nest's reducer has an init of no interest: what is folded into is stored before.
    let reducer = Arc::new(Reducer::binary(op, Const::zero(DType::F32)));
    Stmt::Reduce { targets: vec![Target { buffer, index }], value: expr(build), reducer, valid: vec![] }
}

fn number(body: &mut Body, value: f64) -> ScalarId {
    body.constant(DType::F32, value)
}

/// The nest of a kernel by a schedule, both as text; it computes what the kernel says.
#[track_caller]
fn scheduled(kernel: &str, schedule: &str, symbols: &[&[i64]]) -> (Kernel, LoopNest) {
    let kernel: Kernel = kernel.parse().unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let nest = apply(&kernel, &schedule.parse().expect("a schedule")).unwrap_or_else(|e| panic!("{e}"));
    verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
    for symbols in symbols {
        let inputs = infc_testkit::random_inputs(&kernel, symbols, 7);
        let expected = run_kernel(&kernel, symbols, &inputs).expect("it can be interpreted");
        let found =
            infc_testkit::run_nest_of(&kernel, &nest, symbols, &inputs).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        infc_testkit::assert_close(&format!("{} {symbols:?}", kernel.name), &found, &expected, 1e-5, 1e-6);
    }
    (kernel, nest)
}

/// A chain over any number of rows of so many elements: a block of 256 threads takes 1024 of them, a thread four that
/// are neighbours. Rows that fill no block leave a remainder, which is masked.
pub(crate) fn element_wise(row: i64) -> (Kernel, LoopNest) {
    let kernel = format!(
        "kernel @scale_bias_relu_{row}(x: f32[{row}*N], b: f32[64]) -> (y: f32[{row}*N]) where N in 1..=16384 {{
          stage o[i: {row}*N] = max(x[i] * 0.5 + b[mod(i, 64)], 0)
          output y[i] = o[i]
        }}"
    );
    let schedule = "split o.i by 1024 -> block, i1; split o.i1 by 4 -> thread, lane;
      bind o.block to block.x; bind o.thread to thread.x; vectorize o.lane";
    scheduled(&kernel, schedule, &[&[1], &[16], &[21]])
}

/// Softmax of rows of 1000: a block of 128 threads per row, partial maxima and sums through shared memory.
pub(crate) fn softmax() -> (Kernel, LoopNest) {
    let kernel = "kernel @softmax(x: f32[R, 1000]) -> (y: f32[R, 1000]) where R in 1..=65535 {
      stage maxima[r: R, t: 128, reduce k: 8] =
        fold max (x[r, 128*k + t] if 0 <= 128*k + t < 1000 else -inf)
      stage m[r, reduce t: 128] = fold max maxima[r, t]
      stage sums[r: R, t: 128, reduce k: 8] =
        fold sum exp((x[r, 128*k + t] if 0 <= 128*k + t < 1000 else -inf) - m[r])
      stage s[r, reduce t: 128] = fold sum sums[r, t]
      stage o[r: R, c: 1000] = exp(x[r, c] - m[r]) / s[r]
      output y[r, c] = o[r, c]
    }";
    let schedule = "bind o.r to block.x;
      compute maxima at o.r; store maxima in shared; bind maxima.t to thread.x;
      compute m at o.r; store m in register;
      compute sums at o.r; store sums in shared; bind sums.t to thread.x;
      compute s at o.r; store s in register;
      split o.c by 128 -> turn, thread; bind o.thread to thread.x";
    scheduled(kernel, schedule, &[&[1], &[3]])
}

fn matmul_kernel(name: &str, m: i64, n: i64, k: i64) -> Kernel {
    let text = format!(
        "kernel @{name}_{m}x{n}x{k}(a: f32[{m}, {k}], b: f32[{k}, {n}]) -> (c: f32[{m}, {n}]) {{
          stage sum[m: {m}, n: {n}, reduce k: {k}] = fold sum a[m, k] * b[k, n]
          stage o[m, n] = sum[m, n]
          output c[m, n] = o[m, n]
        }}"
    );
    text.parse().expect("it parses")
}

/// `C[M, N] = A[M, K]·B[K, N]`: blocks of 32×32 by 8×8 threads, each with 4×4 sums in registers.
pub(crate) fn plain_matmul(m: i64, n: i64, k: i64) -> (Kernel, LoopNest) {
    let kernel = matmul_kernel("plain_matmul", m, n, k).to_string();
    let schedule = "split o.m by 32 -> mb, m1; split o.m1 by 4 -> mt, mi;
      split o.n by 32 -> nb, n1; split o.n1 by 4 -> nt, ni;
      reorder o: mb, nb, mt, nt, mi, ni;
      bind o.mb to block.y; bind o.nb to block.x; bind o.mt to thread.y; bind o.nt to thread.x;
      unroll o.mi; unroll o.ni;
      compute sum at o.nt; store sum in register; reorder sum: k, m, n; unroll sum.m; unroll sum.n";
    scheduled(&kernel, schedule, &[&[]])
}

/// Every function that takes more than one instruction, and types: `y[i] = f(x[i])`.
pub(crate) fn functions(op: UnaryOp, from: DType, to: DType) -> LoopNest {
    let mut n = Nest::new(&format!("{op:?}_{from}_{to}"));
    let x = n.operand("x", from, 128, OperandKind::Constant);
    let y = n.operand("y", to, 128, OperandKind::Output);
    let thread = n.var("thread", 128);
    let value = store(y, i(thread), vec![], |body| {
        let v = body.push(load(x, from, i(thread)));
        let v = body.unary(op, v);
        body.cast(to, v)
    });
    n.finish(vec![bound(thread, 128, GpuDim::ThreadX, vec![value])])
}

/// `C[M, N] = A[M, K]·B[K, N]`: blocks of 32×32 by 8×8 threads with 4×4 registers each, K in steps of 16 through shared
/// memory. M, N and K need not be multiples of anything. By hand: no schedule spreads a stage's registers over threads.
pub(crate) fn matmul(m: i64, nn: i64, kk: i64) -> (Kernel, LoopNest) {
    let mut n = Nest::new(&format!("matmul_{m}x{nn}x{kk}"));
    let a = n.operand("a", DType::F32, m * kk, OperandKind::Constant);
    let b = n.operand("b", DType::F32, kk * nn, OperandKind::Constant);
    let y = n.operand("c", DType::F32, m * nn, OperandKind::Output);
    let a_tile = n.local("a_tile", 32 * 16, Scope::Shared);
    let b_tile = n.local("b_tile", 16 * 32, Scope::Shared);
    let acc = n.local("acc", 16, Scope::Register);
    let (tiles_m, tiles_n, tiles_k) = ((m + 31) / 32, (nn + 31) / 32, (kk + 15) / 16);
    let (by, bx, ko) = (n.var("by", tiles_m), n.var("bx", tiles_n), n.var("ko", tiles_k));
    let (ty, tx) = (n.var("ty", 8), n.var("tx", 8));
    let (r0, s0) = (n.var("r0", 4), n.var("s0", 4));
    let clear = for_(
        r0,
        4,
        LoopKind::Unrolled,
        vec![for_(s0, 4, LoopKind::Unrolled, vec![store(acc, i(r0).scale(4) + i(s0), vec![], |b| number(b, 0.0))])],
    );
    // 512 elements of each tile by 64 threads: eight each.
    let (ca, cb) = (n.var("ca", 8), n.var("cb", 8));
    let flat = |v: VarId| i(v).scale(64) + i(ty).scale(8) + i(tx);
    let (ra, ka) = (flat(ca).floor_div(&c(16)), flat(ca).modulo(&c(16)));
    let (row, depth) = (i(by).scale(32) + ra, i(ko).scale(16) + ka);
    let copy_a = store(a_tile, flat(ca), vec![], |body| {
        let valid = vec![below(row.clone(), m), below(depth.clone(), kk)];
        body.push(masked_load(a, DType::F32, row.scale(kk) + depth.clone(), valid))
    });
    let (kb, cn) = (flat(cb).floor_div(&c(32)), flat(cb).modulo(&c(32)));
    let (depth, column) = (i(ko).scale(16) + kb, i(bx).scale(32) + cn);
    let copy_b = store(b_tile, flat(cb), vec![], |body| {
        let valid = vec![below(depth.clone(), kk), below(column.clone(), nn)];
        body.push(masked_load(b, DType::F32, depth.scale(nn) + column.clone(), valid))
    });
    let (ki, r, s) = (n.var("ki", 16), n.var("r", 4), n.var("s", 4));
    let step = fold(acc, i(r).scale(4) + i(s), BinaryOp::Add, |body| {
        let x = body.push(load(a_tile, DType::F32, i(ty).scale(64) + i(r).scale(16) + i(ki)));
        let w = body.push(load(b_tile, DType::F32, i(ki).scale(32) + i(tx).scale(4) + i(s)));
        body.binary(BinaryOp::Mul, x, w)
    });
    let inner = for_(r, 4, LoopKind::Unrolled, vec![for_(s, 4, LoopKind::Vector { lanes: 4 }, vec![step])]);
    let tile = vec![
        for_(ca, 8, LoopKind::Unrolled, vec![copy_a]),
        for_(cb, 8, LoopKind::Unrolled, vec![copy_b]),
        Stmt::Barrier,
        for_(ki, 16, LoopKind::Serial, vec![inner]),
        Stmt::Barrier,
    ];
    let (r1, s1) = (n.var("r1", 4), n.var("s1", 4));
    let (row, column) = (i(by).scale(32) + i(ty).scale(4) + i(r1), i(bx).scale(32) + i(tx).scale(4) + i(s1));
    let result = store(y, row.scale(nn) + column.clone(), vec![below(row.clone(), m), below(column, nn)], |body| {
        body.push(load(acc, DType::F32, i(r1).scale(4) + i(s1)))
    });
    let write = for_(r1, 4, LoopKind::Unrolled, vec![for_(s1, 4, LoopKind::Unrolled, vec![result])]);
    let thread = vec![Stmt::Alloc(acc), clear, for_(ko, tiles_k, LoopKind::Serial, tile), write];
    let threads = bound(ty, 8, GpuDim::ThreadY, vec![bound(tx, 8, GpuDim::ThreadX, thread)]);
    let block = vec![Stmt::Alloc(a_tile), Stmt::Alloc(b_tile), threads];
    let nest = n.finish(vec![bound(by, tiles_m, GpuDim::BlockY, vec![bound(bx, tiles_n, GpuDim::BlockX, block)])]);
    (matmul_kernel("matmul", m, nn, kk), nest)
}
