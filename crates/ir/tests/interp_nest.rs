//! Loop nests built by hand, interpreted: every kind of mistake that a schedule can make is caught.

use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, OperandId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::interp::{InterpError, run_nest};
use infc_ir::kernel::{OperandKind, Reducer};
use infc_ir::nest::{Buffer, BufferKind, Expr, LoopKind, LoopNest, LoopVar, ParallelAxis, Stmt, Target};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source};
use infc_ir::schedule::{GpuDim, Scope};
use infc_ir::symbol::Symbols;
use infc_tensor::{DType, Tensor};
use std::sync::Arc;

const X: BufferId = BufferId(0);
const Y: BufferId = BufferId(1);
const T: BufferId = BufferId(2);

fn var(n: u32) -> IndexExpr {
    VarId(n).into()
}

fn read(buffer: BufferId, index: IndexExpr, plus: f64) -> Expr {
    let mut body = Body::default();
    let load = Load {
        source: Source::Buffer(buffer),
        index: vec![index],
        gather: vec![],
        valid: vec![],
        otherwise: Const::zero(DType::F32),
        dtype: DType::F32,
    };
    let value = body.push(ScalarOp::Load(load));
    let plus = body.constant(DType::F32, plus);
    let root = body.binary(BinaryOp::Add, value, plus);
    Expr { body, roots: vec![root] }
}

fn store(buffer: BufferId, index: IndexExpr, value: Expr) -> Stmt {
    Stmt::Store { targets: vec![Target { buffer, index }], value, valid: vec![] }
}

fn repeat(n: u32, extent: i64, kind: LoopKind, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var: VarId(n), extent: extent.into(), kind, body }
}

/// Buffers x and y of `len` elements each, and a local t; two chunks.
fn nest(len: i64, scope: Scope, body: Vec<Stmt>) -> LoopNest {
    let operand = |n: u32, name: &str, role| Buffer {
        name: name.to_owned(),
        dtype: DType::F32,
        kind: BufferKind::Operand { operand: OperandId(n), argument: n, role },
        len_elems: len.into(),
        swizzle_bytes: None,
        panel_rows: None,
    };
    let kind = BufferKind::Local(scope);
    let local = Buffer {
        name: "t".into(),
        dtype: DType::F32,
        kind,
        len_elems: len.into(),
        swizzle_bytes: None,
        panel_rows: None,
    };
    let var = |name: &str, max| LoopVar { name: name.to_owned(), range: (Some(0), Some(max)) };
    LoopNest {
        name: "nest".to_owned(),
        symbols: Symbols::new(),
        buffers: [operand(0, "x", OperandKind::Input), operand(1, "y", OperandKind::Output), local]
            .into_iter()
            .collect(),
        vars: [var("chunk", 1), var("i", 7), var("j", 7)].into_iter().collect(),
        parallel: Some(ParallelAxis { var: VarId(0), chunks: 2.into(), step_chunks: None }),
        body,
    }
}

fn run(nest: &LoopNest) -> Result<Vec<f32>, InterpError> {
    let len = nest.buffers[X].len_elems.as_const().expect("static") as usize;
    let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
    let mut buffers =
        [Tensor::from_elements(&[len], &x).expect("fits"), Tensor::zeros(DType::F32, &[len]).expect("fits")];
    run_nest(nest, &[], &mut buffers)?;
    Ok(buffers[1].elements::<f32>().expect("f32").to_vec())
}

#[test]
fn chunks_vectors_and_locals() {
    // Each chunk copies its four elements through t, in vectors, and doubles them with a fold.
    let at = var(0) * 4 + var(1);
    let fold = Stmt::Reduce {
        targets: vec![Target { buffer: T, index: var(1) }],
        value: read(X, at.clone(), 0.0),
        reducer: Arc::new(Reducer::sum(DType::F32)),
        valid: vec![Bound { expr: at.clone(), lo: 0.into(), hi: 7.into() }],
    };
    let body = vec![
        Stmt::Alloc(T),
        repeat(1, 4, LoopKind::Vector { lanes: 8 }, vec![store(T, var(1), read(X, at.clone(), 0.0)), fold]),
        repeat(1, 4, LoopKind::Unrolled, vec![store(Y, at, read(T, var(1), 1.0))]),
    ];
    // The last fold is masked off.
    assert_eq!(run(&nest(8, Scope::Register, body)), Ok(vec![1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 8.0]));
}

#[test]
fn an_index_outside_of_its_buffer_names_buffer_index_and_place() {
    let body = vec![repeat(1, 4, LoopKind::Serial, vec![store(Y, var(0) * 4 + var(1), read(X, var(1) * 3, 0.0))])];
    let error = run(&nest(8, Scope::Stack, body)).expect_err("leaves x");
    let (reader, name) = ("nest at chunk=0, i=3, j=0".to_owned(), "x".to_owned());
    assert_eq!(error, InterpError::ReadOutOfBounds { reader, name, index: vec![9], shape: vec![8] });
}

#[test]
fn local_memory_is_poison_until_written() {
    let again = vec![repeat(
        1,
        2,
        LoopKind::Serial,
        vec![
            Stmt::Alloc(T),
            Stmt::If {
                cond: vec![Bound { expr: var(1), lo: 0.into(), hi: 1.into() }],
                then: vec![store(T, 0.into(), read(X, 0.into(), 0.0))],
                otherwise: vec![],
            },
            store(Y, var(0), read(T, 0.into(), 0.0)),
        ],
    )];
    assert!(matches!(run(&nest(8, Scope::Stack, again)), Err(InterpError::NotYetComputed { .. })));
    let gone = vec![
        repeat(1, 1, LoopKind::Serial, vec![Stmt::Alloc(T), store(T, 0.into(), read(X, 0.into(), 0.0))]),
        store(Y, var(0), read(T, 0.into(), 0.0)),
    ];
    assert_eq!(run(&nest(8, Scope::Stack, gone)), Err(InterpError::NotAllocated { name: "t".to_owned() }));
}

#[test]
fn chunks_that_touch_the_same_element_race_unless_they_meet() {
    let write = store(Y, var(0), read(X, var(0), 5.0));
    let swap = store(Y, var(0) + 2, read(Y, IndexExpr::constant(1) - var(0), 0.0));
    let error = run(&nest(4, Scope::Stack, vec![write.clone(), swap.clone()])).expect_err("chunk 1 reads y[0]");
    assert!(matches!(error, InterpError::Race { index: 0, .. }), "{error}");
    assert_eq!(run(&nest(4, Scope::Stack, vec![write, Stmt::Barrier, swap])), Ok(vec![5.0, 6.0, 6.0, 5.0]));
}

/// A chunk reads what those of steps before it wrote, not what others of its own step write.
#[test]
fn chunks_see_the_steps_before_theirs() {
    let next = store(Y, var(0) + 1, read(Y, var(0), 5.0));
    let mut steps = nest(4, Scope::Stack, vec![next]);
    let step_chunks = |nest: &mut LoopNest, n: i64| {
        nest.parallel.as_mut().expect("is parallel").step_chunks = Some(n.into());
    };
    step_chunks(&mut steps, 1);
    assert_eq!(run(&steps), Ok(vec![0.0, 5.0, 10.0, 0.0]));
    step_chunks(&mut steps, 2);
    let error = run(&steps).expect_err("chunk 1 reads y[1]");
    assert!(matches!(error, InterpError::Race { index: 1, .. }), "{error}");
}

#[test]
fn threads_of_a_block_share_memory_and_meet() {
    let thread = |n: u32, body| repeat(n, 4, LoopKind::Bound(GpuDim::ThreadX), body);
    let reversed = IndexExpr::constant(3) - var(1);
    let body = vec![
        Stmt::Alloc(T),
        thread(
            1,
            vec![
                store(T, var(1), read(X, var(0) * 4 + var(1), 0.0)),
                Stmt::Barrier,
                store(Y, var(0) * 4 + var(1), read(T, reversed, 0.0)),
            ],
        ),
    ];
    assert_eq!(run(&nest(8, Scope::Shared, body)), Ok(vec![3.0, 2.0, 1.0, 0.0, 7.0, 6.0, 5.0, 4.0]));
}

#[test]
fn an_asynchronous_copy_is_poison_until_waited_for() {
    let place = |buffer, index: i64| Target { buffer, index: index.into() };
    let copy = |valid| Stmt::AsyncCopy { target: place(T, 0), source: place(X, 2), len_elems: 2, valid };
    let write = store(Y, var(0), read(T, 1.into(), 0.0));
    let body = |valid, committed: bool, pending| {
        let mut body = vec![Stmt::Alloc(T), copy(valid)];
        body.extend(committed.then_some(Stmt::AsyncCommit));
        body.extend([Stmt::AsyncWait { pending }, write.clone()]);
        nest(4, Scope::Shared, body)
    };
    assert_eq!(run(&body(vec![], true, 0)), Ok(vec![3.0, 3.0, 0.0, 0.0]));
    assert!(matches!(run(&body(vec![], true, 1)), Err(InterpError::NotYetComputed { .. })));
    assert!(matches!(run(&body(vec![], false, 0)), Err(InterpError::NotYetComputed { .. })));
    // Where the condition fails, zeros are copied, and nothing is read.
    let never = Bound { expr: 5.into(), lo: 0.into(), hi: 5.into() };
    assert_eq!(run(&body(vec![never], true, 0)), Ok(vec![0.0; 4]));
}

#[test]
fn variables_keep_to_their_declared_range_and_read_only_operands_stay() {
    let body = vec![repeat(1, 9, LoopKind::Serial, vec![])];
    let error = run(&nest(8, Scope::Stack, body)).expect_err("i reaches 8");
    assert!(matches!(error, InterpError::VariableOutOfRange { value: 8, .. }), "{error}");
    let body = vec![store(X, 0.into(), read(X, 0.into(), 0.0))];
    assert_eq!(run(&nest(8, Scope::Stack, body)), Err(InterpError::WriteToReadOnly { name: "x".to_owned() }));
}
