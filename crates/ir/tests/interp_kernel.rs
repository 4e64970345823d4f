//! Kernels built by hand, interpreted: what file tests cannot say, such as halos and errors.

use infc_ir::access::Bound;
use infc_ir::entity::{IndexVec, OperandId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::interp::{InterpError, run_kernel};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Operand, OperandKind, Output, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source};
use infc_ir::symbol::Symbols;
use infc_tensor::{DType, Tensor};

fn operand(name: &str, len: i64, kind: OperandKind, halo: (i64, i64)) -> Operand {
    let shape = vec![IndexExpr::constant(len)];
    let layout = Layout::padded(&shape, &[0], &[halo]);
    Operand { name: name.to_owned(), dtype: DType::F32, shape, kind, layout }
}

fn axis(name: &str, extent: i64, kind: AxisKind) -> Axis {
    Axis { name: name.to_owned(), extent: extent.into(), kind }
}

fn load(source: Source, index: IndexExpr, valid: Vec<Bound>) -> ScalarOp {
    let otherwise = Const::zero(DType::F32);
    ScalarOp::Load(Load { source, index: vec![index], gather: vec![], valid, otherwise, dtype: DType::F32 })
}

fn copy_of(stage: u32, axis: Axis) -> Stage {
    let mut body = Body::default();
    let value = body.push(load(Source::Stage(StageId(stage), 0), VarId(0).into(), vec![]));
    Stage { name: "copy".to_owned(), axes: vec![axis], body, results: vec![value], reducer: None }
}

/// `y[i] = Σ_r x[i + r − 1]`, three taps over an input of four elements.
fn stencil(halo: (i64, i64)) -> Kernel {
    let mut body = Body::default();
    let index = IndexExpr::var(VarId(0)) + IndexExpr::var(VarId(1)) - 1;
    let value = body.push(load(Source::Operand(OperandId(0)), index, vec![]));
    let axes = vec![axis("i", 4, AxisKind::Parallel), axis("r", 3, AxisKind::Reduce)];
    let reducer = Some(Reducer::sum(DType::F32));
    let sum = Stage { name: "sum".to_owned(), axes, body, results: vec![value], reducer };
    let copy = copy_of(0, axis("i", 4, AxisKind::Parallel));
    Kernel {
        name: "stencil".to_owned(),
        symbols: Symbols::new(),
        operands: [operand("x", 4, OperandKind::Input, halo), operand("y", 4, OperandKind::Output, (0, 0))]
            .into_iter()
            .collect(),
        stages: [sum, copy].into_iter().collect(),
        outputs: vec![Output {
            operand: OperandId(1),
            stage: StageId(1),
            component: 0,
            index: vec![VarId(0).into()],
            onto: None,
        }],
    }
}

fn x() -> Tensor {
    Tensor::from_elements(&[4], &[1f32, 2.0, 4.0, 8.0]).expect("four elements")
}

#[test]
fn a_halo_reads_as_zero() {
    let y = run_kernel(&stencil((1, 1)), &[], &[x()]).expect("runs");
    assert_eq!(y[0].elements::<f32>(), Ok(&[3f32, 7.0, 14.0, 12.0][..]));
}

#[test]
fn a_read_beyond_the_halo_names_operand_and_index() {
    let error = run_kernel(&stencil((1, 0)), &[], &[x()]).expect_err("leaves the input");
    let expected =
        InterpError::ReadOutOfBounds { reader: "sum".to_owned(), name: "x".to_owned(), index: vec![4], shape: vec![4] };
    assert_eq!(error, expected);
}

/// `s[t] = s[t − back] + x[t]`.
fn cumsum(back: i64) -> Kernel {
    let mut kernel = stencil((0, 0));
    let mut body = Body::default();
    let t = IndexExpr::var(VarId(0));
    let before = t.clone() - back;
    let valid = vec![Bound { expr: before.clone(), lo: 0.into(), hi: 4.into() }];
    let x = body.push(load(Source::Operand(OperandId(0)), t, vec![]));
    let s = body.push(load(Source::Stage(StageId(0), 0), before, valid));
    let sum = body.binary(BinaryOp::Add, s, x);
    let axes = vec![axis("t", 4, AxisKind::Sequential)];
    let stage = Stage { name: "sum".to_owned(), axes, body, results: vec![sum], reducer: None };
    kernel.stages = IndexVec::from_iter([stage, copy_of(0, axis("i", 4, AxisKind::Parallel))]);
    kernel
}

#[test]
fn a_sequential_stage_reads_itself_at_earlier_steps_only() {
    let y = run_kernel(&cumsum(1), &[], &[x()]).expect("runs");
    assert_eq!(y[0].elements::<f32>(), Ok(&[1f32, 3.0, 7.0, 15.0][..]));
    let error = run_kernel(&cumsum(-1), &[], &[x()]).expect_err("reads the future");
    assert!(matches!(error, InterpError::NotYetComputed { .. }), "{error}");
}

#[test]
fn outputs_are_written_exactly_once() {
    let mut kernel = stencil((1, 1));
    kernel.outputs[0].index = vec![IndexExpr::var(VarId(0)).floor_div(&2.into())];
    let error = run_kernel(&kernel, &[], &[x()]).expect_err("two points to one element");
    assert_eq!(error, InterpError::WrittenTwice { name: "y".to_owned(), index: vec![0] });
    kernel.outputs.clear();
    let error = run_kernel(&kernel, &[], &[x()]).expect_err("no output");
    assert_eq!(error, InterpError::NeverWritten { name: "y".to_owned(), index: 0 });
}

#[test]
fn inputs_must_fit() {
    let kernel = stencil((1, 1));
    assert!(matches!(run_kernel(&kernel, &[], &[]), Err(InterpError::WrongCount { .. })));
    let ints = Tensor::from_elements(&[4], &[1i32; 4]).expect("four elements");
    assert!(matches!(run_kernel(&kernel, &[], &[ints]), Err(InterpError::WrongType { .. })));
    let long = Tensor::from_elements(&[5], &[1f32; 5]).expect("five elements");
    assert!(matches!(run_kernel(&kernel, &[], &[long]), Err(InterpError::WrongShape { .. })));
}
