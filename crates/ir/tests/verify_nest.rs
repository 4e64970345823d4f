//! Every invariant of loop nests, broken once; and how a nest prints.

use infc_ir::entity::{BufferId, OperandId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{OperandKind, Reducer};
use infc_ir::nest::{Buffer, BufferKind, Expr, LoopKind, LoopNest, LoopVar, ParallelAxis, Stmt, Target};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use infc_ir::schedule::Scope;
use infc_ir::symbol::{Symbol, Symbols};
use infc_ir::verify::{ViolationKind, verify_nest};
use infc_tensor::DType;
use std::sync::Arc;

const X: BufferId = BufferId(0);
const Y: BufferId = BufferId(1);
const ACC: BufferId = BufferId(2);

fn var(n: u32) -> IndexExpr {
    VarId(n).into()
}

fn read(buffer: BufferId, index: IndexExpr) -> Expr {
    let mut body = Body::default();
    let otherwise = Const::zero(DType::F32);
    let (source, index) = (Source::Buffer(buffer), vec![index]);
    let load = Load { source, index, gather: vec![], valid: vec![], otherwise, dtype: DType::F32 };
    let root = body.push(ScalarOp::Load(load));
    Expr { body, roots: vec![root] }
}

fn number(x: f64) -> Expr {
    let mut body = Body::default();
    let root = body.constant(DType::F32, x);
    Expr { body, roots: vec![root] }
}

fn store(buffer: BufferId, index: IndexExpr, value: Expr) -> Stmt {
    Stmt::Store { targets: vec![Target { buffer, index }], value, valid: vec![] }
}

fn repeat(n: u32, extent: impl Into<IndexExpr>, kind: LoopKind, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var: VarId(n), extent: extent.into(), kind, body }
}

/// Row sums: per chunk one row of K elements, folded into a register.
fn row_sums(body: Vec<Stmt>) -> LoopNest {
    let mut symbols = Symbols::new();
    let k = IndexExpr::symbol(symbols.push(Symbol { name: "K".into(), min: 1, max: Some(64) }));
    let buffer = |name: &str, kind, len: IndexExpr| Buffer {
        name: name.into(),
        dtype: DType::F32,
        kind,
        len_elems: len,
        swizzle_bytes: None,
        panel_rows: None,
    };
    let operand = |n: u32, role| BufferKind::Operand { operand: OperandId(n), argument: n, role };
    let loop_var = |name: &str, max| LoopVar { name: name.into(), range: (Some(0), Some(max)) };
    LoopNest {
        name: "row sums".into(),
        buffers: [
            buffer("x", operand(0, OperandKind::Input), k.scale(4)),
            buffer("y", operand(1, OperandKind::Output), 4.into()),
            buffer("acc", BufferKind::Local(Scope::Register), 4.into()),
        ]
        .into_iter()
        .collect(),
        symbols,
        vars: [loop_var("row", 3), loop_var("k", 63), loop_var("v", 3)].into_iter().collect(),
        parallel: Some(ParallelAxis { var: VarId(0), chunks: 4.into(), step_chunks: None }),
        body,
    }
}

/// Rows that are swizzled are whole ones of shared memory, which reach all of its banks.
#[test]
fn what_is_no_swizzle_is_refused() {
    let nest = |scope, len: i64, swizzle: u32, panel_rows: Option<u32>| {
        let mut nest = row_sums(good());
        let buffer = &mut nest.buffers[infc_ir::entity::BufferId(2)];
        *buffer = Buffer {
            kind: BufferKind::Local(scope),
            len_elems: len.into(),
            swizzle_bytes: Some(swizzle),
            panel_rows,
            ..buffer.clone()
        };
        infc_ir::verify::verify_nest(&nest).map_err(|error| error.to_string())
    };
    assert_eq!(nest(Scope::Shared, 64, 128, None), Ok(()));
    assert_eq!(nest(Scope::Shared, 512, 256, Some(8)), Ok(()));
    // Half of eight rows, rows of one line, part of a tile.
    for (len, swizzle, rows) in [(256, 256, 4), (256, 128, 8), (768, 256, 8)] {
        let refused = nest(Scope::Shared, len, swizzle, Some(rows));
        assert!(refused.as_ref().is_err_and(|error| error.contains("panels")), "{rows}: {refused:?}");
    }
    for (scope, len, swizzle) in
        [(Scope::Register, 64, 128), (Scope::Shared, 48, 128), (Scope::Shared, 64, 64), (Scope::Shared, 96, 192)]
    {
        let refused = nest(scope, len, swizzle, None);
        assert!(refused.as_ref().is_err_and(|error| error.contains("swizzle")), "{swizzle}: {refused:?}");
    }
}

fn good() -> Vec<Stmt> {
    let k = IndexExpr::symbol(infc_ir::entity::SymbolId(0));
    let fold = Stmt::Reduce {
        targets: vec![Target { buffer: ACC, index: 0.into() }],
        value: read(X, k.clone() * var(0) + var(1)),
        reducer: Arc::new(Reducer::sum(DType::F32)),
        valid: vec![],
    };
    vec![
        Stmt::Alloc(ACC),
        store(ACC, 0.into(), number(0.0)),
        repeat(1, k, LoopKind::Serial, vec![fold]),
        store(Y, var(0), read(ACC, 0.into())),
    ]
}

fn broken(body: Vec<Stmt>) -> Vec<ViolationKind> {
    let error = verify_nest(&row_sums(body)).expect_err("invalid");
    error.violations.into_iter().map(|v| v.kind).collect()
}

#[test]
fn a_nest_prints() {
    let nest = row_sums(good());
    assert_eq!(verify_nest(&nest), Ok(()));
    let expected = r#"nest @"row sums" where K in 1..=64 {
  buffer x: f32[4*K] argument 0 read_only
  buffer y: f32[4] argument 1
  buffer acc: f32[4] register
  parallel row in 0..4 {
    alloc acc
    acc[0] = 0
    for k in 0..K {
      acc[0] = fold sum x[K*row + k]
    }
    y[row] = acc[0]
  }
}
"#;
    assert_eq!(nest.to_string(), expected);
}

#[test]
fn variables_are_bound_once_and_used_in_scope() {
    let outside = broken(vec![store(Y, var(1), number(0.0))]);
    assert!(matches!(outside[..], [ViolationKind::VariableOutOfScope { .. }]), "{outside:?}");
    let serial = |body| repeat(1, 2, LoopKind::Serial, body);
    let twice = broken(vec![serial(vec![]), serial(vec![])]);
    assert!(matches!(twice[..], [ViolationKind::BoundTwice { .. }]), "{twice:?}");
    let unknown = broken(vec![Stmt::Let { var: VarId(9), value: 0.into() }]);
    assert!(matches!(unknown[..], [ViolationKind::Dangling { what: "variable", .. }]), "{unknown:?}");
}

#[test]
fn local_buffers_are_used_where_they_exist() {
    let early = broken(vec![store(ACC, 0.into(), number(0.0))]);
    assert!(matches!(early[..], [ViolationKind::NotAllocated { .. }]), "{early:?}");
    let inner = repeat(1, 2, LoopKind::Serial, vec![Stmt::Alloc(ACC)]);
    let late = broken(vec![inner, store(Y, 0.into(), read(ACC, 0.into()))]);
    assert!(matches!(late[..], [ViolationKind::NotAllocated { .. }]), "{late:?}");
    let again = broken(vec![Stmt::Alloc(ACC), Stmt::Alloc(ACC)]);
    assert!(matches!(again[..], [ViolationKind::NotAllowed { .. }]), "{again:?}");
    let unknown = broken(vec![Stmt::Alloc(BufferId(7))]);
    assert!(matches!(unknown[..], [ViolationKind::Dangling { what: "buffer", .. }]), "{unknown:?}");
}

#[test]
fn registers_need_constant_indices() {
    let index = |kind| {
        let body = vec![store(ACC, var(2), number(0.0))];
        verify_nest(&row_sums(vec![Stmt::Alloc(ACC), repeat(2, 4, kind, body)]))
    };
    assert_eq!(index(LoopKind::Unrolled), Ok(()));
    assert_eq!(index(LoopKind::Vector { lanes: 8 }), Ok(()));
    let serial = index(LoopKind::Serial).expect_err("not constant").violations;
    assert!(matches!(serial[0].kind, ViolationKind::RegisterIndex { .. }));
}

#[test]
fn vector_loops_are_bounded() {
    let k = IndexExpr::symbol(infc_ir::entity::SymbolId(0));
    let symbolic = broken(vec![repeat(1, k, LoopKind::Unrolled, vec![])]);
    assert!(matches!(symbolic[..], [ViolationKind::NotAllowed { .. }]), "{symbolic:?}");
    let long = broken(vec![repeat(1, 9, LoopKind::Vector { lanes: 8 }, vec![])]);
    assert!(matches!(long[..], [ViolationKind::NotAllowed { .. }]), "{long:?}");
    let lanes = LoopKind::Vector { lanes: 8 };
    let nested = broken(vec![repeat(1, 4, lanes, vec![repeat(2, 4, lanes, vec![])])]);
    assert!(matches!(nested[..], [ViolationKind::NotAllowed { .. }]), "{nested:?}");
    let barrier = broken(vec![repeat(1, 4, lanes, vec![Stmt::Barrier])]);
    assert!(matches!(barrier[..], [ViolationKind::NotAllowed { .. }]), "{barrier:?}");
}

#[test]
fn stores_fit_their_buffers() {
    let read_only = broken(vec![store(X, 0.into(), number(0.0))]);
    assert!(matches!(read_only[..], [ViolationKind::WriteToReadOnly { .. }]), "{read_only:?}");
    let mut wide = number(0.0);
    wide.roots.push(wide.roots[0]);
    let count = broken(vec![store(Y, 0.into(), wide)]);
    assert!(matches!(count[..], [ViolationKind::WrongCount { what: "targets", .. }]), "{count:?}");
    let mut other = Expr { body: Body::default(), roots: vec![] };
    other.roots.push(other.body.constant(DType::I32, 1.0));
    let dtype = broken(vec![store(Y, 0.into(), other)]);
    assert!(matches!(dtype[..], [ViolationKind::WrongType { .. }]), "{dtype:?}");
    let copy = Stmt::AsyncCopy {
        target: Target { buffer: Y, index: 0.into() },
        source: Target { buffer: X, index: 0.into() },
        len_elems: 4,
        valid: vec![],
    };
    assert!(matches!(broken(vec![copy])[..], [ViolationKind::NotAllowed { .. }]));
}

#[test]
fn arguments_are_numbered_without_gaps() {
    let mut nest = row_sums(good());
    for buffer in nest.buffers.iter_mut() {
        if let BufferKind::Operand { argument, .. } = &mut buffer.kind {
            *argument = 0;
        }
    }
    let violations = verify_nest(&nest).expect_err("invalid").violations;
    assert!(matches!(violations[0].kind, ViolationKind::NotAllowed { .. }));
}

/// Chunks that come in steps meet between them, and nowhere else.
#[test]
fn chunks_in_steps_have_no_barriers() {
    let mut nest = row_sums(good());
    nest.parallel.as_mut().expect("is parallel").step_chunks = Some(2.into());
    assert_eq!(verify_nest(&nest), Ok(()));
    assert!(nest.to_string().contains("parallel row in 0..4 in steps of 2 {"), "{nest}");
    nest.body.push(Stmt::Barrier);
    let found = verify_nest(&nest).expect_err("a barrier").violations;
    assert!(matches!(found[0].kind, ViolationKind::NotAllowed { .. }), "{found:?}");
}
