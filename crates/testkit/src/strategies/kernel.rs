//! Kernels.

use super::body::{DTYPES, reducer, value};
use super::index::expr;
use super::{Choices, generated};
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, OperandId, ScalarId, StageId, SymbolId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Operand, OperandKind, Output, Stage};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use infc_ir::symbol::Symbol;
use infc_tensor::DType;
use proptest::prelude::*;

/// Kernels of a few stages with reductions, recurrences, halos, permuted layouts and symbols from 1 to 4.
pub fn kernels() -> impl Strategy<Value = Kernel> + Clone {
    generated(400, kernel)
}

/// Such kernels in which floats are only added, compared, rounded and converted: whoever keeps the order of sums gets
/// the same bits, on every machine.
pub fn exact_kernels() -> impl Strategy<Value = Kernel> + Clone {
    prop::collection::vec(any::<u16>(), 0..400).prop_map(exact_kernel)
}

/// The kernel of [`exact_kernels`] that follows from a list of numbers.
#[must_use]
pub fn exact_kernel(numbers: Vec<u16>) -> Kernel {
    kernel(&mut Choices::exact(numbers))
}

fn kernel(c: &mut Choices) -> Kernel {
    let mut kernel = Kernel { name: "random".to_owned(), ..Kernel::default() };
    for name in ["N", "batch size"].iter().take(c.pick(3)) {
        kernel.symbols.push(Symbol { name: (*name).to_owned(), min: 1, max: Some(4) });
    }
    for n in 0..1 + c.pick(3) {
        let kind = if c.once_in(3) { OperandKind::Constant } else { OperandKind::Input };
        let operand = operand(c, &format!("x{n}"), kind, kernel.symbols.len());
        kernel.operands.push(operand);
    }
    for n in 0..1 + c.pick(4) {
        let stage = stage(c, &kernel, n);
        kernel.stages.push(stage);
    }
    add_output(c, &mut kernel);
    kernel
}

fn dim(c: &mut Choices, symbols: usize) -> Dim {
    match c.pick(3) {
        2 if symbols > 0 => {
            let symbol = IndexExpr::symbol(SymbolId::from_index(c.pick(symbols)));
            symbol + c.between(0, 1)
        }
        _ => Dim::constant(c.between(1, 4)),
    }
}

fn operand(c: &mut Choices, name: &str, kind: OperandKind, symbols: usize) -> Operand {
    let shape: Vec<Dim> = (0..c.pick(4)).map(|_| dim(c, symbols)).collect();
    let mut layout = layout(c, &shape);
    let dtype = c.of(&DTYPES);
    if kind == OperandKind::Input && layout.has_halo() && c.once_in(2) {
        layout.fill = super::body::constant(c, dtype).bits;
    }
    Operand { name: name.to_owned(), dtype, shape, kind, layout }
}

fn layout(c: &mut Choices, shape: &[Dim]) -> Layout {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if c.once_in(3) {
        order.rotate_left(c.pick(shape.len()));
    }
    let halo: Vec<(i64, i64)> =
        shape.iter().map(|_| if c.once_in(4) { (c.between(0, 2), c.between(0, 2)) } else { (0, 0) }).collect();
    Layout::padded(shape, &order, &halo)
}

fn stage(c: &mut Choices, kernel: &Kernel, n: usize) -> Stage {
    let id = StageId::from_index(n);
    let mut axes: Vec<Axis> = Vec::new();
    let mut sequential = None;
    for i in 0..c.pick(4) {
        let kind = match c.pick(5) {
            3 => AxisKind::Reduce,
            4 if sequential.is_none() => AxisKind::Sequential,
            _ => AxisKind::Parallel,
        };
        if kind == AxisKind::Sequential {
            sequential = Some(i);
        }
        let name = ["a", "b", "N", "long name"][i].to_owned();
        axes.push(Axis { name, extent: dim(c, kernel.symbols.len()), kind });
    }
    let reduces = axes.iter().any(|a| a.kind == AxisKind::Reduce);
    let dtype = c.of(&DTYPES);
    let components = 1 + if c.once_in(3) { c.pick(3) } else { 0 };
    let mut body = Body::default();
    let reads_itself = sequential.filter(|_| c.once_in(2));
    let mut results: Vec<ScalarId> = Vec::new();
    for _ in 0..components {
        let mut leaf = |c: &mut Choices, body: &mut Body, dtype: DType| leaf(c, body, kernel, &axes, dtype);
        let mut result = value(c, &mut body, dtype, 3, &mut leaf);
        if let Some(axis) = reads_itself {
            let before = own_value(&mut body, id, &axes, axis, dtype);
            result = body.binary(infc_ir::scalar::BinaryOp::Add, result, before);
        }
        results.push(result);
    }
    let reducer = reduces.then(|| reducer(c, dtype, components));
    Stage { name: format!("s{n}"), axes, body, results, reducer }
}

/// The stage's own first component one step before; reduced axes take no part.
fn own_value(body: &mut Body, id: StageId, axes: &[Axis], sequential: usize, dtype: DType) -> ScalarId {
    let mut index = Vec::new();
    for (n, axis) in axes.iter().enumerate().filter(|(_, a)| a.kind != AxisKind::Reduce) {
        let var = IndexExpr::var(VarId::from_index(n));
        index.push(if n == sequential { var - 1 } else { var });
        debug_assert_ne!(axis.kind, AxisKind::Reduce);
    }
    let now = IndexExpr::var(VarId::from_index(sequential));
    let valid = vec![Bound { expr: now, lo: 1.into(), hi: axes[sequential].extent.clone() }];
    let otherwise = Const::zero(dtype);
    body.push(ScalarOp::Load(Load { source: Source::Stage(id, 0), index, gather: vec![], valid, otherwise, dtype }))
}

/// A number, a coordinate, or an element of an operand or earlier stage.
fn leaf(c: &mut Choices, body: &mut Body, kernel: &Kernel, axes: &[Axis], dtype: DType) -> ScalarId {
    let sources = kernel.operands.len() + kernel.stages.len();
    let chosen = c.pick(sources + 2);
    let (source, shape, found, halo) = if chosen < kernel.operands.len() {
        let id = OperandId::from_index(chosen);
        let operand = &kernel.operands[id];
        (Source::Operand(id), operand.shape.clone(), operand.dtype, operand.layout.halo.clone())
    } else if chosen < sources {
        let id = StageId::from_index(chosen - kernel.operands.len());
        let stage = &kernel.stages[id];
        let component = c.pick(stage.results.len());
        let shape = stage.value_shape();
        let halo = vec![(0, 0); shape.len()];
        (Source::Stage(id, component as u8), shape, stage.dtypes()[component], halo)
    } else {
        let index = body.push(ScalarOp::Index(expr(c, 1, axes.len() as u32, kernel.symbols.len() as u32)));
        return body.cast(dtype, index);
    };
    let mut load = Load {
        source,
        index: Vec::new(),
        gather: Vec::new(),
        valid: Vec::new(),
        otherwise: super::body::constant(c, found),
        dtype: found,
    };
    for (n, (extent, (before, after))) in shape.into_iter().zip(halo).enumerate() {
        // A coordinate of the same extent needs no guard.
        let same = axes.iter().position(|a| a.extent == extent).filter(|_| !c.once_in(3));
        if let Some(axis) = same {
            load.index.push(IndexExpr::var(VarId::from_index(axis)));
            continue;
        }
        if c.once_in(4) {
            // Some number modulo the extent.
            let seed = body.push(ScalarOp::Index(expr(c, 1, axes.len() as u32, 0)));
            let size = body.push(ScalarOp::Index(extent.clone()));
            let gathered = body.binary(infc_ir::scalar::BinaryOp::Mod, seed, size);
            load.index.push(IndexExpr::constant(0));
            load.gather.push((n as u8, gathered, IndexExpr::constant(1)));
            continue;
        }
        let index = expr(c, 2, axes.len() as u32, 0);
        let (lo, hi) = (IndexExpr::constant(-before), extent + after);
        load.valid.push(Bound { expr: index.clone(), lo, hi });
        load.index.push(index);
    }
    if load.valid.is_empty() {
        load.otherwise = Const::zero(found);
    }
    let value = body.push(ScalarOp::Load(load));
    if !dtype.is_float() && found.is_float() {
        return body.push(ScalarOp::CastSaturating(dtype, value));
    }
    body.cast(dtype, value)
}

/// A last stage that copies the one before, and the operand that it writes, with its axes turned around or not.
fn add_output(c: &mut Choices, kernel: &mut Kernel) {
    let from = StageId::from_index(kernel.stages.len() - 1);
    let last = &kernel.stages[from];
    let axes: Vec<Axis> = last.value_axes().map(|(_, a)| Axis { kind: AxisKind::Parallel, ..a.clone() }).collect();
    let dtypes = last.dtypes();
    let index: Vec<IndexExpr> = (0..axes.len()).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    let mut body = Body::default();
    let mut results = Vec::new();
    for (component, &dtype) in dtypes.iter().enumerate() {
        let source = Source::Stage(from, component as u8);
        let (valid, otherwise) = (Vec::new(), Const::zero(dtype));
        let load = Load { source, index: index.clone(), gather: Vec::new(), valid, otherwise, dtype };
        results.push(body.push(ScalarOp::Load(load)));
    }
    let stage = StageId::from_index(kernel.stages.len());
    for (component, &dtype) in dtypes.iter().enumerate() {
        let mut index = index.clone();
        let mut shape: Vec<Dim> = axes.iter().map(|a| a.extent.clone()).collect();
        if c.once_in(2) {
            index.reverse();
            shape.reverse();
        }
        let layout = layout(c, &shape);
        let name = format!("y{component}");
        let operand = kernel.operands.push(Operand { name, dtype, shape, kind: OperandKind::Output, layout });
        kernel.outputs.push(Output { operand, stage, component: component as u8, index, onto: None });
    }
    kernel.stages.push(Stage { name: "out".to_owned(), axes, body, results, reducer: None });
}
