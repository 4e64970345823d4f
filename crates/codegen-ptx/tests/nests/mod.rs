//! Nests written by hand, as a schedule for a GPU would make them.

use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, EntityId, IndexVec, OperandId, ScalarId, SymbolId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::Reducer;
use infc_ir::nest::{Buffer, BufferKind, Expr, LoopKind, LoopNest, LoopVar, Stmt, Target};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source, UnaryOp};
use infc_ir::schedule::{GpuDim, Scope};
use infc_ir::symbol::Symbol;
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

    pub(crate) fn operand(&mut self, name: &str, dtype: DType, len: impl Into<IndexExpr>, read_only: bool) -> BufferId {
        let argument = self.arguments;
        self.arguments += 1;
        let kind = BufferKind::Operand { operand: OperandId::from_index(argument as usize), argument, read_only };
        self.nest.buffers.push(Buffer { name: name.to_owned(), dtype, kind, len_elems: len.into() })
    }

    pub(crate) fn local(&mut self, name: &str, len: i64, scope: Scope) -> BufferId {
        let kind = BufferKind::Local(scope);
        self.nest.buffers.push(Buffer { name: name.to_owned(), dtype: DType::F32, kind, len_elems: c(len) })
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

/// `y = max(x·0.5 + b[i mod 64], 0)` for N elements, four per thread.
pub(crate) fn element_wise() -> LoopNest {
    let mut n = Nest::new("scale_bias_relu");
    let len = n.symbol("N", 1 << 20);
    let len = IndexExpr::symbol(len).scale(64);
    let x = n.operand("x", DType::F32, len.clone(), true);
    let b = n.operand("b", DType::F32, 64, true);
    let y = n.operand("y", DType::F32, len.clone(), false);
    let (block, thread, lane) = (n.var("block", 1 << 16), n.var("thread", 256), n.var("lane", 4));
    let at = i(block).scale(1024) + i(thread).scale(4) + i(lane);
    let first = i(block).scale(1024) + i(thread).scale(4);
    let value = store(y, at.clone(), vec![below(first, len.clone())], |body| {
        let v = body.push(load(x, DType::F32, at.clone()));
        let half = number(body, 0.5);
        let v = body.binary(BinaryOp::Mul, v, half);
        let bias = body.push(load(b, DType::F32, (i(thread).scale(4) + i(lane)).modulo(&c(64))));
        let v = body.binary(BinaryOp::Add, v, bias);
        let zero = number(body, 0.0);
        body.binary(BinaryOp::Max, v, zero)
    });
    let lanes = for_(lane, 4, LoopKind::Vector { lanes: 4 }, vec![value]);
    let threads = bound(thread, 256, GpuDim::ThreadX, vec![lanes]);
    let blocks = bound(block, len.ceil_div(&c(1024)), GpuDim::BlockX, vec![threads]);
    n.finish(vec![blocks])
}

/// Every function that takes more than one instruction, and types: `y[i] = f(x[i])`.
pub(crate) fn functions(op: UnaryOp, from: DType, to: DType) -> LoopNest {
    let mut n = Nest::new(&format!("{op:?}_{from}_{to}"));
    let x = n.operand("x", from, 128, true);
    let y = n.operand("y", to, 128, false);
    let thread = n.var("thread", 128);
    let value = store(y, i(thread), vec![], |body| {
        let v = body.push(load(x, from, i(thread)));
        let v = body.unary(op, v);
        body.cast(to, v)
    });
    n.finish(vec![bound(thread, 128, GpuDim::ThreadX, vec![value])])
}

/// Softmax of `[rows, 1000]`: a block of 128 threads per row, partial maxima and sums through shared memory.
pub(crate) fn softmax() -> LoopNest {
    const WIDTH: i64 = 1000;
    const THREADS: i64 = 128;
    let turns = c(WIDTH).ceil_div(&c(THREADS));
    let mut n = Nest::new("softmax");
    let rows = n.symbol("rows", 65535);
    let rows = IndexExpr::symbol(rows);
    let x = n.operand("x", DType::F32, rows.scale(WIDTH), true);
    let y = n.operand("y", DType::F32, rows.scale(WIDTH), false);
    let partial = n.local("partial", THREADS, Scope::Shared);
    let total = n.local("total", 2, Scope::Register);
    let row = n.var("row", 65535);
    let mut body = Vec::new();
    // Two reductions of the same form: the maximum, then the sum of exponentials.
    for (slot, op, start) in [(0, BinaryOp::Max, f64::NEG_INFINITY), (1, BinaryOp::Add, 0.0)] {
        let (thread, k, all) = (n.var("thread", THREADS), n.var("k", 8), n.var("all", THREADS));
        let column = i(k).scale(THREADS) + i(thread);
        let element = |body: &mut Body| {
            let v = body.push(load(x, DType::F32, i(row).scale(WIDTH) + column.clone()));
            if slot == 0 {
                return v;
            }
            let max = body.push(load(total, DType::F32, c(0)));
            let shifted = body.binary(BinaryOp::Sub, v, max);
            body.unary(UnaryOp::Exp, shifted)
        };
        let Stmt::Reduce { targets, value, reducer, .. } = fold(partial, i(thread), op, element) else {
            unreachable!()
        };
        let step = Stmt::Reduce { targets, value, reducer, valid: vec![below(column.clone(), WIDTH)] };
        let own = vec![
            store(partial, i(thread), vec![], |body| number(body, start)),
            for_(k, turns.clone(), LoopKind::Serial, vec![step]),
        ];
        body.push(bound(thread, THREADS, GpuDim::ThreadX, own));
        body.push(Stmt::Barrier);
        body.push(store(total, c(slot), vec![], |body| number(body, start)));
        let add = fold(total, c(slot), op, |body| body.push(load(partial, DType::F32, i(all))));
        body.push(for_(all, THREADS, LoopKind::Serial, vec![add]));
        body.push(Stmt::Barrier);
    }
    let (thread, k) = (n.var("thread", THREADS), n.var("k", 8));
    let column = i(k).scale(THREADS) + i(thread);
    let at = i(row).scale(WIDTH) + column.clone();
    let result = store(y, at.clone(), vec![below(column, WIDTH)], |body| {
        let v = body.push(load(x, DType::F32, at.clone()));
        let max = body.push(load(total, DType::F32, c(0)));
        let shifted = body.binary(BinaryOp::Sub, v, max);
        let e = body.unary(UnaryOp::Exp, shifted);
        let sum = body.push(load(total, DType::F32, c(1)));
        body.binary(BinaryOp::Div, e, sum)
    });
    body.push(bound(thread, THREADS, GpuDim::ThreadX, vec![for_(k, turns, LoopKind::Serial, vec![result])]));
    body.insert(0, Stmt::Alloc(partial));
    body.insert(0, Stmt::Alloc(total));
    let blocks = bound(row, rows, GpuDim::BlockX, body);
    n.finish(vec![blocks])
}

/// `C[M, N] = A[M, K]·B[K, N]`: blocks of 32×32 by 8×8 threads with 4×4 registers each, K in steps of 16 through shared
/// memory. M, N and K need not be multiples of anything.
pub(crate) fn matmul(m: i64, nn: i64, kk: i64) -> LoopNest {
    let mut n = Nest::new(&format!("matmul_{m}x{nn}x{kk}"));
    let a = n.operand("a", DType::F32, m * kk, true);
    let b = n.operand("b", DType::F32, kk * nn, true);
    let y = n.operand("c", DType::F32, m * nn, false);
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
    n.finish(vec![bound(by, tiles_m, GpuDim::BlockY, vec![bound(bx, tiles_n, GpuDim::BlockX, block)])])
}
