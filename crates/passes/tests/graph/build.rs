//! Small graphs by hand, and comparing what they compute.

use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{OriginId, ScalarId, ValueId, VarId};
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::interp::run_graph;
use infc_ir::kernel::Reducer;
use infc_ir::op::{ConcatOp, ConstantOp, ContractOp, GatherOp, MapOp, Op, ReduceOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, UnaryOp};
use infc_passes::graph::{Changed, Pass, PassContext, composites, optimize, run_pass};
use infc_tensor::{DType, Tensor};
use std::sync::Arc;

/// A graph under construction; all values are f32.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) graph: Graph,
    origin: OriginId,
}

pub(crate) fn i(n: u32) -> IndexExpr {
    IndexExpr::var(VarId(n))
}

pub(crate) fn c(value: i64) -> IndexExpr {
    IndexExpr::constant(value)
}

pub(crate) fn within(expr: IndexExpr, extent: i64) -> Bound {
    Bound { expr, lo: c(0), hi: c(extent) }
}

/// Numbers that look random and are not round.
pub(crate) fn noise(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let elements: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

/// A graph made elsewhere.
impl From<Graph> for Net {
    fn from(mut graph: Graph) -> Self {
        let origin = graph.origins.push(Vec::new());
        Self { graph, origin }
    }
}

impl Net {
    pub(crate) fn new() -> Self {
        let mut graph = Graph::default();
        let origin = graph.origins.push(vec!["test".to_owned()]);
        Self { graph, origin }
    }

    pub(crate) fn ty(shape: &[i64]) -> TensorType {
        TensorType::new(DType::F32, shape.iter().map(|&d| Dim::constant(d)).collect())
    }

    pub(crate) fn shape(&self, x: ValueId) -> Vec<i64> {
        self.graph.ty(x).static_shape().expect("these graphs are static")
    }

    pub(crate) fn add(&mut self, op: Op, inputs: &[ValueId], shape: &[i64]) -> ValueId {
        self.graph.add(op, inputs, Self::ty(shape), self.origin)
    }

    pub(crate) fn input(&mut self, shape: &[i64]) -> ValueId {
        let name = format!("x{}", self.graph.inputs.len());
        self.graph.add_input(&name, Self::ty(shape))
    }

    pub(crate) fn output(&mut self, value: ValueId) {
        let name = format!("y{}", self.graph.outputs.len());
        self.graph.outputs.push(Port::new(&name, value));
    }

    pub(crate) fn tensor(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let shape = tensor.shape().iter().map(|&d| Dim::constant(d as i64)).collect();
        let ty = TensorType::new(tensor.dtype(), shape);
        self.graph.add(Op::Constant(Arc::new(ConstantOp { name: name.to_owned(), tensor })), &[], ty, self.origin)
    }

    pub(crate) fn weights(&mut self, shape: &[usize], seed: u32) -> ValueId {
        self.tensor(&format!("w{seed}"), noise(shape, seed))
    }

    /// Weights between 0.5 and 1.5: variances, divisors.
    pub(crate) fn positive(&mut self, shape: &[usize], seed: u32) -> ValueId {
        let elements: Vec<f32> =
            noise(shape, seed).elements::<f32>().expect("f32").iter().map(|x| 1.0 + x / 2.0).collect();
        self.tensor(&format!("p{seed}"), Tensor::from_elements(shape, &elements).expect("same shape"))
    }

    pub(crate) fn number(&mut self, value: f32) -> ValueId {
        self.tensor("number", Tensor::scalar(value))
    }

    pub(crate) fn view(&mut self, x: ValueId, index: &[IndexExpr], shape: &[i64]) -> ValueId {
        self.view_or(x, index, vec![], 0.0, shape)
    }

    pub(crate) fn view_or(
        &mut self,
        x: ValueId,
        index: &[IndexExpr],
        valid: Vec<Bound>,
        otherwise: f64,
        shape: &[i64],
    ) -> ValueId {
        let map = AccessMap { rank: shape.len(), index: index.to_vec(), valid };
        let op = ViewOp { map, shape: Self::ty(shape).shape, otherwise: Const::from_f64(DType::F32, otherwise) };
        self.add(Op::View(op), &[x], shape)
    }

    /// The operand's axes are the last of the result's, as in numpy; extents of 1 are repeated.
    pub(crate) fn spread(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        let from = self.shape(x);
        if from == shape {
            return x;
        }
        let skip = shape.len() - from.len();
        let index: Vec<IndexExpr> =
            from.iter().enumerate().map(|(n, &d)| if d == 1 { c(0) } else { i((n + skip) as u32) }).collect();
        self.view(x, &index, shape)
    }

    /// A per-channel constant over `[N, C, H, W]`.
    pub(crate) fn per_channel(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        self.view(x, &[i(1)], shape)
    }

    pub(crate) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        let from = self.shape(x);
        let shape: Vec<i64> = perm.iter().map(|&p| from[p]).collect();
        let mut index = vec![c(0); perm.len()];
        for (to, &p) in perm.iter().enumerate() {
            index[p] = i(to as u32);
        }
        self.view(x, &index, &shape)
    }

    pub(crate) fn map(&mut self, inputs: &[ValueId], f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId) -> ValueId {
        let mut body = Body::default();
        let params: Vec<ScalarId> = (0..inputs.len()).map(|n| body.param(n as u8, DType::F32)).collect();
        let result = f(&mut body, &params);
        let shape = self.shape(inputs[0]);
        self.add(Op::Map(MapOp { body, results: vec![result] }), inputs, &shape)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, x: ValueId) -> ValueId {
        self.map(&[x], |body, p| body.unary(op, p[0]))
    }

    /// With the operands spread over the larger shape, as exporters write it.
    pub(crate) fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let (sa, sb) = (self.shape(a), self.shape(b));
        let rank = sa.len().max(sb.len());
        let at = |s: &[i64], n: usize| if n + s.len() < rank { 1 } else { s[n + s.len() - rank] };
        let shape: Vec<i64> = (0..rank).map(|n| at(&sa, n).max(at(&sb, n))).collect();
        let (a, b) = (self.spread(a, &shape), self.spread(b, &shape));
        self.map(&[a, b], |body, p| body.binary(op, p[0], p[1]))
    }

    pub(crate) fn with_number(&mut self, op: BinaryOp, a: ValueId, b: f32) -> ValueId {
        let b = self.number(b);
        self.binary(op, a, b)
    }

    /// With the folded axis kept as 1.
    pub(crate) fn reduce(&mut self, x: ValueId, axis: usize, op: BinaryOp, init: f64) -> ValueId {
        let shape = self.shape(x);
        let mut folded = shape.clone();
        folded.remove(axis);
        let mut body = Body::default();
        let element = body.param(0, DType::F32);
        let reducer = Reducer::binary(op, Const::from_f64(DType::F32, init));
        let op = Op::Reduce(ReduceOp { axes: vec![axis], body, elements: vec![element], reducer });
        let result = self.add(op, &[x], &folded);
        let mut kept = shape;
        kept[axis] = 1;
        let index: Vec<IndexExpr> = (0..kept.len()).filter(|&a| a != axis).map(|a| i(a as u32)).collect();
        self.view(result, &index, &kept)
    }

    /// As exporters spell it out.
    pub(crate) fn softmax(&mut self, x: ValueId, axis: usize) -> ValueId {
        let max = self.reduce(x, axis, BinaryOp::Max, f64::NEG_INFINITY);
        let shifted = self.binary(BinaryOp::Sub, x, max);
        let exp = self.unary(UnaryOp::Exp, shifted);
        let sum = self.reduce(exp, axis, BinaryOp::Add, 0.0);
        self.binary(BinaryOp::Div, exp, sum)
    }

    /// A value in another type.
    pub(crate) fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        let ty = TensorType::new(dtype, self.graph.ty(x).shape.clone());
        let op = cast(self.graph.ty(x).dtype, dtype);
        self.graph.add(op, &[x], ty, self.origin)
    }

    /// A value as a number of f32 that a half type holds, as graphs in half types have them.
    pub(crate) fn rounded(&mut self, x: ValueId, half: DType) -> ValueId {
        let rounded = if self.graph.ty(x).dtype == half { x } else { self.cast(x, half) };
        self.cast(rounded, DType::F32)
    }

    /// Softmax of a half type, as it is imported: it converts before and behind.
    pub(crate) fn softmax_of(&mut self, x: ValueId, axis: usize, half: DType) -> ValueId {
        let x = self.cast(x, half);
        let ty = TensorType::new(DType::F32, self.graph.ty(x).shape.clone());
        let mut op = composites::softmax(&self.graph.symbols, &ty, &[axis]);
        let body = Arc::make_mut(&mut op.body);
        let origin = OriginId(0);
        let input = body.inputs[0].value;
        body.values[input].ty.dtype = half;
        let order = std::mem::take(&mut body.order);
        let wide = body.add(cast(half, DType::F32), &[input], ty.clone(), origin);
        for &id in &order {
            body.nodes[id].inputs.iter_mut().filter(|read| **read == input).for_each(|read| *read = wide);
        }
        body.order.extend(order);
        let of_half = TensorType::new(half, ty.shape);
        body.outputs[0].value = body.add(cast(DType::F32, half), &[body.outputs[0].value], of_half.clone(), origin);
        self.graph.add(Op::Composite(op), &[x], of_half, self.origin)
    }

    pub(crate) fn mean(&mut self, x: ValueId, axis: usize) -> ValueId {
        let count = self.shape(x)[axis] as f32;
        let sum = self.reduce(x, axis, BinaryOp::Add, 0.0);
        self.with_number(BinaryOp::Div, sum, count)
    }

    /// Labels as letters: `"mk,kn->mn"`.
    pub(crate) fn contract(&mut self, labels: &str, a: ValueId, b: ValueId) -> ValueId {
        let (inputs, output) = labels.split_once("->").expect("an arrow");
        let (lhs, rhs) = inputs.split_once(',').expect("a comma");
        let extent = |l: u8| {
            let at = |labels: &str, v| labels.bytes().position(|x| x == l).map(|n| self.shape(v)[n]);
            at(lhs, a).or(at(rhs, b)).expect("every label occurs in an operand")
        };
        let shape: Vec<i64> = output.bytes().map(extent).collect();
        let op =
            ContractOp { lhs: lhs.bytes().collect(), rhs: rhs.bytes().collect(), output: output.bytes().collect() };
        self.add(Op::Contract(op), &[a, b], &shape)
    }

    /// 3×3 convolution of `[N, C, H, W]`, padded by `pad`, stride 1, weights `[O, C, 3, 3]`.
    pub(crate) fn conv(&mut self, x: ValueId, w: ValueId, pad: i64, padding: f64) -> ValueId {
        self.dilated_conv(x, w, pad, 1, padding)
    }

    /// As [`Net::conv`], with taps that far apart.
    pub(crate) fn dilated_conv(&mut self, x: ValueId, w: ValueId, pad: i64, dilation: i64, padding: f64) -> ValueId {
        let [n, ch, h, wd] = self.shape(x)[..] else { panic!("four axes") };
        let (ho, wo) = (h + 2 * (pad - dilation), wd + 2 * (pad - dilation));
        let (y, z) = (i(2) + i(4).scale(dilation) - pad, i(3) + i(5).scale(dilation) - pad);
        let valid = if pad == 0 { vec![] } else { vec![within(y.clone(), h), within(z.clone(), wd)] };
        let window = self.view_or(x, &[i(0), i(1), y, z], valid, padding, &[n, ch, ho, wo, 3, 3]);
        self.contract("nchwyx,ocyx->nohw", window, w)
    }

    pub(crate) fn gather(&mut self, x: ValueId, positions: Tensor, axis: usize) -> ValueId {
        let mut shape = self.shape(x);
        shape.splice(axis..=axis, positions.shape().iter().map(|&d| d as i64));
        let indices = self.tensor("indices", positions);
        self.add(Op::Gather(GatherOp { axis }), &[x, indices], &shape)
    }

    pub(crate) fn concat(&mut self, inputs: &[ValueId], axis: usize) -> ValueId {
        let mut shape = self.shape(inputs[0]);
        shape[axis] = inputs.iter().map(|&v| self.shape(v)[axis]).sum();
        self.add(Op::Concat(ConcatOp { axis }), inputs, &shape)
    }

    /// What the graph computes from noise.
    pub(crate) fn outputs(&self) -> Vec<Tensor> {
        let inputs: Vec<Tensor> = self
            .graph
            .inputs
            .iter()
            .enumerate()
            .map(|(n, port)| {
                let shape: Vec<usize> = self.shape(port.value).iter().map(|&d| d as usize).collect();
                noise(&shape, 1000 + n as u32)
            })
            .collect();
        run_graph(&self.graph, &[], &inputs).expect("the graph is well formed")
    }

    /// Runs one pass and checks that the meaning stays; true if it changed something.
    pub(crate) fn pass(&mut self, name: &str, cx: &PassContext) -> bool {
        let before = self.outputs();
        let pass: &Pass = infc_passes::graph::PIPELINE.iter().find(|p| p.name == name).expect("a pass of that name");
        let changed = run_pass(pass, &mut self.graph, cx).expect("the pass succeeds");
        assert_close(&before, &self.outputs());
        changed == Changed::Yes
    }

    /// Runs all passes and checks that the meaning stays.
    pub(crate) fn optimize(&mut self) -> PassContext {
        self.optimize_with(PassContext::default())
    }

    pub(crate) fn optimize_with(&mut self, cx: PassContext) -> PassContext {
        let before = self.outputs();
        optimize(&mut self.graph, &cx).expect("the passes succeed");
        assert_close(&before, &self.outputs());
        let again = optimize(&mut self.graph, &cx).expect("the passes succeed");
        assert_eq!(again, Changed::No, "the pipeline must come to an end");
        cx
    }

    /// The names of the living operations in order, constants left out.
    pub(crate) fn ops(&self) -> Vec<&'static str> {
        self.graph.order.iter().map(|&n| self.graph.nodes[n].op.name()).filter(|&n| n != "const").collect()
    }

    pub(crate) fn maps(&self) -> Vec<&MapOp> {
        self.graph
            .order
            .iter()
            .filter_map(|&n| match &self.graph.nodes[n].op {
                Op::Map(op) => Some(op),
                _ => None,
            })
            .collect()
    }
}

/// Element-wise within the rounding of a few float operations, whose terms may be as large as the largest output.
pub(crate) fn assert_close(expected: &[Tensor], found: &[Tensor]) {
    assert_close_within(2e-4, expected, found);
}

/// The same for other roundings.
pub(crate) fn assert_close_within(bound: f64, expected: &[Tensor], found: &[Tensor]) {
    let elements = |t: &Tensor| (0..t.len_elems()).filter_map(|n| t.get_f64(n)).map(f64::abs).collect::<Vec<_>>();
    let largest = expected.iter().flat_map(elements).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let share = if bound > 2e-4 { bound } else { LARGEST_SHARE };
    infc_testkit::assert_close("outputs", found, expected, bound, f64::max(1e-5, share * largest));
}

/// A map that converts.
fn cast(from: DType, to: DType) -> Op {
    let mut body = Body::default();
    let x = body.param(0, from);
    let results = vec![body.cast(to, x)];
    Op::Map(MapOp { body, results })
}

/// What sums of terms that cancel may lose: some roundings of the largest term.
const LARGEST_SHARE: f64 = 8.0 * f32::EPSILON as f64;
