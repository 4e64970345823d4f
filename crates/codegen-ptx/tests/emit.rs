//! What nests become: snapshots, refusals, and the assembler's opinion where there is one.

mod assembler;
mod nests;

use infc_codegen_ptx::{PtxError, PtxModule, PtxTarget, emit};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::OperandKind;
use infc_ir::nest::{LoopKind, LoopNest, Stmt};
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_ir::schedule::{GpuDim, Scope};
use infc_tensor::DType;
use nests::{Nest, below, bound, c, for_, i, load, store};

fn module(nest: &LoopNest) -> PtxModule {
    emit(nest, &PtxTarget::default()).expect("the nest suits a GPU")
}

fn describe(nest: &LoopNest) -> String {
    let m = module(nest);
    let grid: Vec<String> = m.launch.grid.iter().map(IndexExpr::to_string).collect();
    format!("// grid {} block {:?} shared {}\n{}", grid.join(", "), m.launch.block, m.shared_bytes, m.text)
}

/// Compares with `tests/snapshots`, wherever the test is run from.
fn snapshot(name: &str, nest: &LoopNest) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, describe(nest)));
}

#[test]
fn element_wise() {
    snapshot("element_wise", &nests::element_wise(1024).1);
}

#[test]
fn a_remainder_of_a_bound_loop_is_masked() {
    let text = module(&nests::element_wise(50).1).text;
    let of_y = text.lines().filter(|l| l.contains("st.global"));
    assert!(of_y.clone().count() > 0 && of_y.clone().all(|l| l.trim_start().starts_with('@')), "{text}");
}

#[test]
fn softmax() {
    snapshot("softmax", &nests::softmax().1);
}

#[test]
fn plain_matmul() {
    snapshot("plain_matmul", &nests::plain_matmul(64, 96, 48).1);
}

#[test]
fn matmul() {
    snapshot("matmul", &nests::matmul(64, 96, 48).1);
}

#[test]
fn matmul_with_remainders_is_masked() {
    let text = module(&nests::matmul(33, 50, 17).1).text;
    // A load is masked where its row or column may be outside, and a store as well.
    assert!(text.contains("@%p") && text.contains("ld.global.nc.f32"));
    let stores = text.lines().filter(|l| l.contains("st.global")).count();
    let masked = text.lines().filter(|l| l.contains("st.global") && l.trim_start().starts_with('@')).count();
    assert_eq!((stores, masked), (16, 16));
}

#[test]
fn whole_tiles_are_not_masked() {
    let text = module(&nests::matmul(64, 96, 48).1).text;
    assert!(!text.lines().any(|l| l.contains(".global") && l.trim_start().starts_with('@')));
}

const FUNCTIONS: [UnaryOp; 14] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Sign,
    UnaryOp::Sqrt,
    UnaryOp::Reciprocal,
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Sigmoid,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
    UnaryOp::IsNan,
];

const TYPES: [DType; 13] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
];

/// Nests over everything that this backend knows.
fn everything() -> Vec<LoopNest> {
    let mut nests = vec![
        nests::element_wise(1024).1,
        nests::element_wise(50).1,
        nests::softmax().1,
        nests::plain_matmul(64, 96, 48).1,
        nests::matmul(64, 96, 48).1,
        nests::matmul(33, 50, 17).1,
    ];
    for op in FUNCTIONS {
        nests.push(nests::functions(op, DType::F32, if op == UnaryOp::IsNan { DType::Bool } else { DType::F32 }));
        nests.push(nests::functions(op, DType::F16, DType::F32));
    }
    for from in TYPES {
        // From these two the functions above go to f32 already.
        for to in TYPES.into_iter().filter(|&to| !(to == DType::F32 && matches!(from, DType::F32 | DType::F16))) {
            nests.push(nests::functions(if from == DType::Bool { UnaryOp::Not } else { UnaryOp::Abs }, from, to));
        }
    }
    nests
}

#[test]
fn the_assembler_takes_everything() {
    let nests = everything();
    assembler::assemble(|target| nests.iter().map(|n| emit(n, target).expect("suits a GPU")).collect());
}

/// A nest of one thread loop around `body`.
fn threads(extent: i64, build: impl FnOnce(&mut Nest, infc_ir::entity::VarId) -> Vec<Stmt>) -> LoopNest {
    let mut n = Nest::new("t");
    let thread = n.var("thread", extent);
    let body = build(&mut n, thread);
    n.finish(vec![bound(thread, extent, GpuDim::ThreadX, body)])
}

fn error(nest: &LoopNest) -> PtxError {
    emit(nest, &PtxTarget::default()).expect_err("does not suit a GPU")
}

#[test]
fn a_barrier_that_some_threads_skip_is_refused() {
    let nest = threads(64, |_, thread| {
        vec![Stmt::If { cond: vec![below(i(thread), 32)], then: vec![Stmt::Barrier], otherwise: vec![] }]
    });
    assert_eq!(error(&nest), PtxError::DivergentBarrier);
    // Two loops over threads, of which the smaller has the barrier.
    let mut n = Nest::new("t");
    let (a, b) = (n.var("a", 64), n.var("b", 32));
    let nest =
        n.finish(vec![bound(a, 64, GpuDim::ThreadX, vec![]), bound(b, 32, GpuDim::ThreadX, vec![Stmt::Barrier])]);
    assert_eq!(error(&nest), PtxError::DivergentBarrier);
}

#[test]
fn a_barrier_under_a_condition_of_the_block_is_fine() {
    let mut n = Nest::new("t");
    let (block, thread) = (n.var("block", 8), n.var("thread", 64));
    let barrier = Stmt::If { cond: vec![below(i(block), 4)], then: vec![Stmt::Barrier], otherwise: vec![] };
    let nest = n.finish(vec![bound(block, 8, GpuDim::BlockX, vec![bound(thread, 64, GpuDim::ThreadX, vec![barrier])])]);
    assert!(module(&nest).text.contains("bar.sync 0"));
}

#[test]
fn launches_that_no_gpu_has_are_refused() {
    assert_eq!(error(&threads(2048, |_, _| vec![])), PtxError::BlockTooLarge { threads: 2048 });
    let nest = threads(8, |n, _| {
        let inner = n.var("inner", 8);
        vec![bound(inner, 8, GpuDim::ThreadX, vec![])]
    });
    assert_eq!(error(&nest), PtxError::BoundTwice { dim: GpuDim::ThreadX });
    let mut n = Nest::new("t");
    let len = n.symbol("N", 100);
    let thread = n.var("thread", 100);
    let nest = n.finish(vec![bound(thread, len, GpuDim::ThreadX, vec![])]);
    assert!(matches!(error(&nest), PtxError::Extent { dim: GpuDim::ThreadX, .. }));
}

#[test]
fn a_register_needs_a_number_for_its_index() {
    let nest = threads(8, |n, _| {
        let acc = n.local("acc", 8, Scope::Register);
        let turn = n.var("turn", 8);
        let zero = store(acc, i(turn), vec![], |b| b.constant(DType::F32, 0.0));
        vec![Stmt::Alloc(acc), for_(turn, 8, LoopKind::Serial, vec![zero])]
    });
    assert!(matches!(error(&nest), PtxError::RegisterIndex { len: 8, .. }));
}

/// Two loops over the threads of a block, the first writing a buffer of registers at one index, the second at another.
fn spread(first: impl Fn(IndexExpr) -> IndexExpr, second: impl Fn(IndexExpr) -> IndexExpr) -> LoopNest {
    let mut n = Nest::new("t");
    let acc = n.local("acc", 64, Scope::Register);
    let (a, b) = (n.var("a", 8), n.var("b", 8));
    let zero = |index| store(acc, index, vec![], |b| b.constant(DType::F32, 0.0));
    let of = |var, index| bound(var, 8, GpuDim::ThreadX, vec![zero(index)]);
    n.finish(vec![Stmt::Alloc(acc), of(a, first(i(a))), of(b, second(i(b)))])
}

#[test]
fn registers_are_spread_over_threads_that_share_none() {
    let fine = spread(|t| t.scale(4), |t| t.scale(4) + 3);
    assert!(module(&fine).text.contains(".reg .f32 %f<4>"), "{}", module(&fine).text);
    // Another thread's element; elements of two threads.
    assert!(matches!(error(&spread(|t| t.scale(4), |t| t.scale(2))), PtxError::RegisterIndex { .. }));
    assert!(matches!(error(&spread(|t| t.scale(4), |t| t.scale(4) + 4)), PtxError::RegisterIndex { .. }));
}

#[test]
fn too_much_shared_memory_is_refused_and_much_is_dynamic() {
    let shared = |len| {
        threads(8, |n, thread| {
            let tile = n.local("tile", len, Scope::Shared);
            vec![Stmt::Alloc(tile), store(tile, i(thread), vec![], |b| b.constant(DType::F32, 0.0))]
        })
    };
    assert!(matches!(error(&shared(1 << 20)), PtxError::SharedMemory { .. }));
    let large = module(&shared(16 << 10));
    assert!(large.dynamic_shared && large.text.contains(".extern .shared"));
    assert!(!module(&shared(8)).dynamic_shared);
}

#[test]
fn functions_without_a_form_are_refused_by_name() {
    let nest = nests::functions(UnaryOp::Asinh, DType::I32, DType::I32);
    assert_eq!(error(&nest), PtxError::Operation { operation: "Asinh".to_owned(), dtype: DType::I32 });
}

#[test]
fn small_indices_are_32_bits_and_large_ones_64() {
    let at = |factor: i64| {
        let nest = threads(256, |n, thread| {
            let x = n.operand("x", DType::F32, 256 * factor, OperandKind::Output);
            vec![store(x, i(thread).scale(factor), vec![], |b| b.constant(DType::F32, 1.0))]
        });
        module(&nest).text
    };
    assert!(at(1000).contains("mad.wide.s32"));
    assert!(!at(1 << 30).contains("mad.wide.s32"));
}

#[test]
fn negative_coordinates_divide_downwards() {
    let nest = threads(64, |n, thread| {
        let x = n.operand("x", DType::F32, 64, OperandKind::Constant);
        let y = n.operand("y", DType::F32, 64, OperandKind::Output);
        let seventh = (c(0) - i(thread)).floor_div(&c(7)) + 9;
        vec![store(y, i(thread), vec![], |b| b.push(load(x, DType::F32, seventh)))]
    });
    let text = module(&nest).text;
    assert!(text.contains("rem.s32") && text.contains("selp.s32"));
}

#[test]
fn copies_wait_in_groups() {
    let nest = threads(64, |n, thread| {
        let x = n.operand("x", DType::F32, 512, OperandKind::Constant);
        let tile = n.local("tile", 512, Scope::Shared);
        let copy = |at: IndexExpr| Stmt::AsyncCopy {
            target: infc_ir::nest::Target { buffer: tile, index: at.clone() },
            source: infc_ir::nest::Target { buffer: x, index: at },
            len_elems: 4,
            valid: vec![],
        };
        let (a, b) = (i(thread).scale(4), i(thread).scale(4) + 256);
        vec![Stmt::Alloc(tile), copy(a), copy(b), Stmt::AsyncCommit, Stmt::AsyncWait { pending: 0 }, Stmt::Barrier]
    });
    let text = module(&nest).text;
    let order: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| l.starts_with("cp.") || l.starts_with("bar"))
        .map(|l| l.split([' ', ';']).next().expect("a word"))
        .collect();
    assert_eq!(
        order,
        ["cp.async.cg.shared.global"; 2]
            .into_iter()
            .chain(["cp.async.commit_group", "cp.async.wait_group", "bar.sync"])
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_loop_that_may_not_turn_is_guarded() {
    let nest = threads(32, |n, thread| {
        let x = n.operand("x", DType::F32, 1024, OperandKind::Output);
        let k = n.var("k", 32);
        let one = nests::fold(x, i(thread), BinaryOp::Add, |b| b.constant(DType::F32, 1.0));
        vec![for_(k, i(thread), LoopKind::Serial, vec![one])]
    });
    let text = module(&nest).text;
    assert!(text.contains("setp.gt.s32") && text.contains("@!%p"));
}
