//! Kernels to measure: contractions and convolutions of any size, as formation makes them from models.

use infc_ir::access::Bound;
use infc_ir::entity::{IndexVec, OperandId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Operand, OperandKind, Output, Reducer, Stage, within};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source};
use infc_ir::symbol::Symbols;
use infc_passes::form::{LINE_BYTES, Packs, arena_layout, pack};
use infc_tensor::DType;

/// Columns per weight panel.
const PANEL: i64 = 16;

/// `f32(u8[M, K] · i8[K, N]) · scale[N]`, the weights as formation packs them for dot products.
///
/// # Panics
/// If K is no multiple of 4.
pub(crate) fn byte_matmul(m: i64, n: i64, k: i64) -> Kernel {
    assert_eq!(k % 4, 0, "bytes come in groups");
    let (panels, groups) = ((n + PANEL - 1) / PANEL, k / 4);
    let text = format!(
        "kernel @byte_matmul_{m}x{n}x{k}(a: u8[{m}, {k}], const w: i8[{panels}, {groups}, 16, 4], const s: f32[{n}]) \
           -> (y: f32[{m}, {n}]) {{
           stage acc[m: {m}, n: {n}, reduce k: {k}] =
             fold sum i32(a[m, k]) * i32(w[div(n, 16), div(k, 4), mod(n, 16), mod(k, 4)])
           stage out[m, n] = f32(acc[m, n]) * s[n]
           output y[m, n] = out[m, n]
         }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn var(i: u32) -> IndexExpr {
    IndexExpr::var(VarId(i))
}

fn dims(shape: &[i64]) -> Vec<IndexExpr> {
    shape.iter().map(|&d| IndexExpr::constant(d)).collect()
}

/// A kernel under construction.
#[derive(Default)]
struct Build {
    operands: IndexVec<OperandId, Operand>,
    stages: IndexVec<StageId, Stage>,
}

impl Build {
    fn constant(&mut self, name: &str, shape: &[i64]) -> OperandId {
        self.operand_in(name, shape, OperandKind::Constant, Layout::dense(&dims(shape)))
    }

    /// A value between kernels, laid out as in a model: axes in the given order, with a halo.
    fn activation(
        &mut self,
        name: &str,
        shape: &[i64],
        kind: OperandKind,
        order: &[usize],
        halo: &[(i64, i64)],
    ) -> OperandId {
        let layout = arena_layout(&dims(shape), order, halo, 4, LINE_BYTES);
        self.operand_in(name, shape, kind, layout)
    }

    fn operand_in(&mut self, name: &str, shape: &[i64], kind: OperandKind, layout: Layout) -> OperandId {
        self.operands.push(Operand { name: name.to_owned(), dtype: DType::F32, shape: dims(shape), kind, layout })
    }

    fn stage(&mut self, name: &str, axes: &[(&str, i64, AxisKind)], body: Body, result: ScalarId) -> StageId {
        let reduces = axes.iter().any(|a| a.2 == AxisKind::Reduce);
        let axes = axes
            .iter()
            .map(|&(name, extent, kind)| Axis { name: name.to_owned(), extent: extent.into(), kind })
            .collect();
        let reducer = reduces.then(|| Reducer::sum(DType::F32));
        self.stages.push(Stage { name: name.to_owned(), axes, body, results: vec![result], reducer })
    }

    /// `relu(acc + bias)` over the axes of `acc`, written to `y` at `index`.
    fn finish(
        mut self,
        name: String,
        acc: StageId,
        bias: OperandId,
        column: u32,
        y: OperandId,
        index: Vec<IndexExpr>,
    ) -> Kernel {
        let axes: Vec<Axis> = self.stages[acc].value_axes().map(|(_, a)| a.clone()).collect();
        let mut body = Body::default();
        let at: Vec<IndexExpr> = (0..axes.len() as u32).map(var).collect();
        let sum = load(&mut body, Source::Stage(acc, 0), at, Vec::new());
        let b = load(&mut body, Source::Operand(bias), vec![var(column)], Vec::new());
        let shifted = body.binary(BinaryOp::Add, sum, b);
        let zero = body.constant(DType::F32, 0.0);
        let relu = body.binary(BinaryOp::Max, shifted, zero);
        let stage = self.stages.push(Stage { name: "out".to_owned(), axes, body, results: vec![relu], reducer: None });
        let outputs = vec![Output { operand: y, stage, component: 0, index, onto: None }];
        let mut kernel =
            Kernel { name, symbols: Symbols::new(), operands: self.operands, stages: self.stages, outputs };
        pack(&mut kernel, Packs { reorders: true, line_bytes: None }, &mut |_, _| true);
        kernel
    }
}

fn load(body: &mut Body, source: Source, index: Vec<IndexExpr>, valid: Vec<Bound>) -> ScalarId {
    let otherwise = Const::zero(DType::F32);
    body.push(ScalarOp::Load(Load { source, index, gather: Vec::new(), valid, otherwise, dtype: DType::F32 }))
}

/// `y[M, N] = relu(x[M, K] · w[K, N] + b[N])`, w constant and packed as in models.
#[must_use]
pub(crate) fn matmul(m: i64, n: i64, k: i64) -> Kernel {
    let mut build = Build::default();
    let x = build.activation("x", &[m, k], OperandKind::Input, &[0, 1], &[(0, 0); 2]);
    let w = build.constant("w", &[k, n]);
    let b = build.constant("b", &[n]);
    let y = build.activation("y", &[m, n], OperandKind::Output, &[0, 1], &[(0, 0); 2]);
    let mut body = Body::default();
    let lhs = load(&mut body, Source::Operand(x), vec![var(0), var(2)], Vec::new());
    let rhs = load(&mut body, Source::Operand(w), vec![var(2), var(1)], Vec::new());
    let product = body.binary(BinaryOp::Mul, lhs, rhs);
    let axes = [("m", m, AxisKind::Parallel), ("n", n, AxisKind::Parallel), ("k", k, AxisKind::Reduce)];
    let acc = build.stage("acc", &axes, body, product);
    build.finish(format!("matmul {m}x{n}x{k}"), acc, b, 1, y, vec![var(0), var(1)])
}

/// A 2-D convolution, channels last, the input with a zero halo, followed by bias and ReLU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conv {
    /// Input height.
    pub(crate) height: i64,
    /// Input width.
    pub(crate) width: i64,
    /// Input channels.
    pub(crate) channels: i64,
    /// Output channels; equal to `channels` if depthwise.
    pub(crate) filters: i64,
    /// Kernel height and width.
    pub(crate) kernel: i64,
    /// In both directions.
    pub(crate) stride: i64,
    /// One filter per channel.
    pub(crate) depthwise: bool,
}

impl Conv {
    /// Output height and width; the padding is half the kernel.
    #[must_use]
    pub(crate) fn output(&self) -> (i64, i64) {
        let pad = self.kernel / 2;
        let out = |d: i64| (d + 2 * pad - self.kernel) / self.stride + 1;
        (out(self.height), out(self.width))
    }

    /// Multiply-adds.
    #[must_use]
    pub(crate) fn macs(&self) -> i64 {
        let (p, q) = self.output();
        p * q * self.filters * self.kernel * self.kernel * if self.depthwise { 1 } else { self.channels }
    }

    /// The kernel.
    #[must_use]
    pub(crate) fn build(&self) -> Kernel {
        let Conv { height, width, channels, filters, kernel, stride, depthwise } = *self;
        let pad = kernel / 2;
        let (p, q) = self.output();
        let mut build = Build::default();
        let shape = [channels, height, width];
        let halo = [(0, 0), (pad, pad), (pad, pad)];
        let x = build.activation("x", &shape, OperandKind::Input, &[1, 2, 0], &halo);
        // As models have it: filters, channels, window.
        let shape_of_filters = [filters, if depthwise { 1 } else { channels }, kernel, kernel];
        let w = build.constant("w", &shape_of_filters);
        let b = build.constant("b", &[filters]);
        let out = [filters, p, q];
        let y = build.activation("y", &out, OperandKind::Output, &[1, 2, 0], &[(0, 0); 3]);

        // Axes: p q f, then r s (c).
        let mut body = Body::default();
        let channel = if depthwise { var(2) } else { var(5) };
        let at = vec![channel, var(0).scale(stride) + var(3) - pad, var(1).scale(stride) + var(4) - pad];
        let valid = within(&at[1..], &dims(&shape[1..]));
        let lhs = load(&mut body, Source::Operand(x), at, valid);
        let at = vec![var(2), if depthwise { 0.into() } else { var(5) }, var(3), var(4)];
        let rhs = load(&mut body, Source::Operand(w), at, Vec::new());
        let product = body.binary(BinaryOp::Mul, lhs, rhs);
        let mut axes = vec![
            ("p", p, AxisKind::Parallel),
            ("q", q, AxisKind::Parallel),
            ("f", filters, AxisKind::Parallel),
            ("r", kernel, AxisKind::Reduce),
            ("s", kernel, AxisKind::Reduce),
        ];
        if !depthwise {
            axes.push(("c", channels, AxisKind::Reduce));
        }
        let acc = build.stage("acc", &axes, body, product);
        let kind = if depthwise { "depthwise" } else { "conv" };
        let name = format!("{kind} {kernel}x{kernel}/{stride} {height}x{width}x{channels}->{filters}");
        build.finish(name, acc, b, 2, y, vec![var(2), var(0), var(1)])
    }
}
