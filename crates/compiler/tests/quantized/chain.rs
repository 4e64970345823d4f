//! Chains of quantised operators with the data they are drawn with, and what their definitions make of it.

use crate::net::attribute;
use crate::{TARGETS, here, model};
use infc::{Compilation, CompileOptions, Source};
use infc_frontend_onnx::proto::NodeProto;
use infc_reference::{Attribute, Attributes, Node, evaluate};
use infc_runtime::Tensor;
use infc_tensor::DType;
use infc_testkit::Random;
use std::collections::HashMap;

pub(crate) const ONNX: &str = "";
pub(crate) const MICROSOFT: &str = "com.microsoft";

struct Step {
    domain: &'static str,
    op: &'static str,
    inputs: Vec<String>,
    attributes: Attributes,
}

/// A graph whose last node makes its output `y`.
pub(crate) struct Chain {
    random: Random,
    inputs: Vec<(Tensor, bool)>,
    steps: Vec<Step>,
}

/// How a value is quantised: the names of its scale and zero point.
pub(crate) type Quantization = [String; 2];

impl Chain {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), inputs: Vec::new(), steps: Vec::new() }
    }

    /// From 0 to `below − 1`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.random.below(below as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the types of bytes.
    pub(crate) fn byte(&mut self) -> DType {
        if self.one_in(2) { DType::I8 } else { DType::U8 }
    }

    /// Bytes, a fourth of them extremes.
    fn bytes(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let mut draw = || match self.random.below(8) {
            0 => 0u8,
            1 => 255,
            _ => self.random.below(256) as u8,
        };
        let drawn: Vec<u8> = (0..shape.iter().product()).map(|_| draw()).collect();
        match dtype {
            // 0 and 255 become the extremes −128 and 127.
            DType::I8 => {
                let signed: Vec<i8> = drawn.iter().map(|&b| (b ^ 0x80).cast_signed()).collect();
                Tensor::from_elements(shape, &signed)
            }
            _ => Tensor::from_elements(shape, &drawn),
        }
        .expect("as many as the shape says")
    }

    fn input(&mut self, tensor: Tensor, constant: bool) -> String {
        self.inputs.push((tensor, constant));
        format!("x{}", self.inputs.len() - 1)
    }

    /// Bytes that are given when the model runs.
    pub(crate) fn data(&mut self, dtype: DType, shape: &[usize]) -> String {
        let tensor = self.bytes(dtype, shape);
        self.input(tensor, false)
    }

    /// Bytes that are constants of the model.
    pub(crate) fn weights(&mut self, dtype: DType, shape: &[usize]) -> String {
        let tensor = self.bytes(dtype, shape);
        self.input(tensor, true)
    }

    pub(crate) fn constant(&mut self, tensor: Tensor) -> String {
        self.input(tensor, true)
    }

    /// A number that is no power of two, within a factor of two of the given one.
    pub(crate) fn near(&mut self, scale: f64) -> f32 {
        (scale * (1.0 + 0.9 * self.random.signed_unit().abs())) as f32
    }

    /// A scale near the given one, and a zero point that is often at an end of the range.
    pub(crate) fn quantization(&mut self, scale: f64, dtype: DType) -> Quantization {
        let scale = self.near(scale);
        let scale = self.constant(Tensor::scalar(scale));
        let zero = self.bytes(dtype, &[]);
        [scale, self.constant(zero)]
    }

    /// Scales near the given one and zero points, one per slice.
    pub(crate) fn quantizations(&mut self, count: usize, scale: f64, dtype: DType, zeros: bool) -> Quantization {
        let scales: Vec<f32> = (0..count).map(|_| self.near(scale)).collect();
        let scales = self.constant(Tensor::from_elements(&[count], &scales).expect("a vector"));
        let zero = match (zeros, dtype) {
            (true, _) => self.bytes(dtype, &[count]),
            (false, DType::I8) => Tensor::from_elements(&[count], &vec![0i8; count]).expect("a vector"),
            (false, _) => Tensor::from_elements(&[count], &vec![128u8; count]).expect("a vector"),
        };
        [scales, self.constant(zero)]
    }

    /// Sums of about the given size.
    pub(crate) fn bias(&mut self, count: usize, size: f64) -> String {
        let values: Vec<i32> = (0..count).map(|_| (size * self.random.signed_unit()) as i32).collect();
        self.constant(Tensor::from_elements(&[count], &values).expect("a vector"))
    }

    /// Adds a node; gives its result.
    pub(crate) fn node(
        &mut self,
        (domain, op): (&'static str, &'static str),
        inputs: &[&str],
        attributes: &[(&'static str, Attribute)],
    ) -> String {
        let inputs = inputs.iter().map(|&s| s.to_owned()).collect();
        let attributes = attributes.iter().cloned().collect();
        self.steps.push(Step { domain, op, inputs, attributes });
        format!("t{}", self.steps.len() - 1)
    }

    /// The real numbers behind a quantised value.
    pub(crate) fn dequantized(&mut self, q: &str, by: &Quantization, axis: Option<i64>) -> String {
        let axis: Vec<_> = axis.map(|axis| ("axis", Attribute::Int(axis))).into_iter().collect();
        self.node((ONNX, "DequantizeLinear"), &[q, &by[0], &by[1]], &axis)
    }

    pub(crate) fn quantized(&mut self, x: &str, by: &Quantization) -> String {
        self.node((ONNX, "QuantizeLinear"), &[x, &by[0], &by[1]], &[])
    }

    fn expected(&self) -> Tensor {
        let mut values: HashMap<String, Tensor> = HashMap::new();
        for (n, (tensor, _)) in self.inputs.iter().enumerate() {
            values.insert(format!("x{n}"), tensor.clone());
        }
        for (n, step) in self.steps.iter().enumerate() {
            let opset = if step.domain == ONNX { 21 } else { 1 };
            let node =
                Node { op_type: step.op, domain: step.domain, opset, attributes: &step.attributes, num_outputs: 1 };
            let inputs: Vec<Option<&Tensor>> = step.inputs.iter().map(|name| values.get(name)).collect();
            let result = evaluate(&node, &inputs).unwrap_or_else(|e| panic!("{}: {e}", step.op)).swap_remove(0);
            values.insert(format!("t{n}"), result);
        }
        values.remove(&format!("t{}", self.steps.len() - 1)).expect("a chain has nodes")
    }

    fn proto(&self) -> Vec<u8> {
        let last = format!("t{}", self.steps.len() - 1);
        let name = |name: String| if name == last { "y".to_owned() } else { name };
        let nodes = self.steps.iter().enumerate().map(|(n, step)| NodeProto {
            op_type: Some(step.op.to_owned()),
            domain: Some(step.domain.to_owned()),
            input: step.inputs.iter().cloned().map(name).collect(),
            output: vec![name(format!("t{n}"))],
            attribute: step.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..NodeProto::default()
        });
        model(&self.inputs, &nodes.collect::<Vec<_>>())
    }

    fn compiled(&self) -> Compilation {
        let options = CompileOptions { targets: vec!["x86-64-v2".to_owned()], ..CompileOptions::default() };
        let compilation = infc::compile(&Source::bytes(self.proto()), &options, &mut ());
        compilation.unwrap_or_else(|e| panic!("{e}"))
    }

    /// The graph that kernels are made of, as text.
    pub(crate) fn graph(&self) -> String {
        self.compiled().plan.as_ref().expect("a plan").graph.to_string()
    }

    /// Every contraction has bytes on both sides.
    #[track_caller]
    pub(crate) fn multiplies_bytes(&self) {
        let compilation = self.compiled();
        let graph = &compilation.plan.as_ref().expect("a plan").graph;
        let contractions = graph.order.iter().map(|&n| &graph.nodes[n]).filter(|n| n.op.name() == "contract");
        let types: Vec<DType> = contractions.flat_map(|n| &n.inputs).map(|&v| graph.ty(v).dtype).collect();
        assert!(!types.is_empty() && types.iter().all(|t| matches!(t, DType::U8 | DType::I8)), "{types:?}\n{graph}");
    }

    /// Compiles and runs on every target of this machine: no element is off by more than a step, and hardly any by one.
    #[track_caller]
    pub(crate) fn holds(&self) {
        let expected = self.expected();
        let ops: Vec<&str> = self.steps.iter().map(|step| step.op).collect();
        let targets: Vec<String> = TARGETS.map(str::to_owned).to_vec();
        let options = CompileOptions { targets: targets.clone(), ..CompileOptions::default() };
        let compilation = infc::compile(&Source::bytes(self.proto()), &options, &mut ());
        let compilation = compilation.unwrap_or_else(|e| panic!("{ops:?}: {e}"));
        let bytes = compilation.to_bytes().expect("an artifact");
        here::on_each(&bytes, &targets, |target, session| {
            let data: Vec<&Tensor> = self.inputs.iter().filter(|(_, c)| !c).map(|(t, _)| t).collect();
            let found = session.run_owned(&data).expect("it runs").swap_remove(0);
            assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{ops:?} on {target}");
            let mut off = 0;
            for at in 0..expected.len_elems() {
                let (a, b) = (found.get_f64(at).expect("a number"), expected.get_f64(at).expect("a number"));
                assert!((a - b).abs() <= 1.0, "{ops:?} on {target}, element {at}: {a}, expected {b}");
                off += usize::from(a != b);
            }
            let count = expected.len_elems();
            assert!(off * 1000 <= count, "{ops:?} on {target}: {off} of {count} elements are off by a step");
        });
    }
}
