//! Quantised products all the way to machine code: bit for bit what the reference computes, on every level that this
//! machine has, with and without dot-product instructions.

mod chain;
#[path = "../here/mod.rs"]
mod here;
#[path = "../net/mod.rs"]
mod net;
mod steps;

use infc::{CompileOptions, Source};
use infc_frontend_onnx::proto::tensor_shape_proto::dimension;
use infc_frontend_onnx::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use infc_frontend_onnx::to_proto;
use infc_reference::{Attribute, Attributes, Node, evaluate};
use infc_runtime::{LoadOptions, Model, SessionOptions, Tensor};
use infc_tensor::{DType, Element};
use net::{attribute, port};
use prost::Message;

const TARGETS: [&str; 6] =
    ["x86-64-v4+vnni+amx", "x86-64-v4+vnni", "x86-64-v4", "x86-64-v3+avxvnni", "x86-64-v3", "x86-64-v2"];

/// One node; inputs are given when the model runs, or constants of it.
struct Case {
    op: &'static str,
    inputs: Vec<(Tensor, bool)>,
    ints: Vec<(&'static str, Vec<i64>)>,
}

impl Case {
    fn new(op: &'static str) -> Self {
        Self { op, inputs: Vec::new(), ints: Vec::new() }
    }

    fn data(mut self, tensor: Tensor) -> Self {
        self.inputs.push((tensor, false));
        self
    }

    fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push((tensor, true));
        self
    }

    fn ints(mut self, name: &'static str, values: &[i64]) -> Self {
        self.ints.push((name, values.to_vec()));
        self
    }

    fn model(&self) -> Vec<u8> {
        let names: Vec<String> = (0..self.inputs.len()).map(|n| format!("x{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        model(&self.inputs, &[node(self.op, &names, "y", &self.ints)])
    }

    fn expected(&self) -> Tensor {
        let attributes: Attributes =
            self.ints.iter().map(|(name, values)| (*name, Attribute::Ints(values.clone()))).collect();
        let node = Node { op_type: self.op, domain: "", opset: 21, attributes: &attributes, num_outputs: 1 };
        let inputs: Vec<Option<&Tensor>> = self.inputs.iter().map(|(t, _)| Some(t)).collect();
        evaluate(&node, &inputs).expect("the reference has it").swap_remove(0)
    }

    #[track_caller]
    fn agrees(&self) {
        let expected = self.expected();
        let targets: Vec<String> = TARGETS.map(str::to_owned).to_vec();
        let options = CompileOptions { targets: targets.clone(), ..CompileOptions::default() };
        let compilation = infc::compile(&Source::bytes(self.model()), &options, &mut ()).expect("it compiles");
        let bytes = compilation.to_bytes().expect("an artifact");
        here::on_each(&bytes, &targets, |target, session| {
            let data: Vec<&Tensor> = self.inputs.iter().filter(|(_, c)| !c).map(|(t, _)| t).collect();
            let found = session.run_owned(&data).expect("it runs").swap_remove(0);
            assert_eq!(found.shape(), expected.shape(), "{} on {target}", self.op);
            for at in 0..expected.len_elems() {
                let (a, b) = (found.get_f64(at).expect("a number"), expected.get_f64(at).expect("a number"));
                assert!(a == b, "{} on {target}, element {at} of {:?}: {a}, expected {b}", self.op, found.shape());
            }
        });
    }
}

fn node(op: &str, inputs: &[&str], output: &str, ints: &[(&'static str, Vec<i64>)]) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: vec![output.to_owned()],
        attribute: ints.iter().map(|(name, values)| attribute(name, &Attribute::Ints(values.clone()))).collect(),
        ..NodeProto::default()
    }
}

/// A model over inputs `x0`, `x1`, … (those marked are constants) whose output is `y`.
fn model(inputs: &[(Tensor, bool)], nodes: &[NodeProto]) -> Vec<u8> {
    let name = |n: usize| format!("x{n}");
    let fixed = |t: &Tensor| t.shape().iter().map(|&d| dimension::Value::DimValue(d as i64)).collect();
    let of = |constant: bool| inputs.iter().enumerate().filter(move |(_, (_, c))| *c == constant);
    let graph = GraphProto {
        name: Some("test".to_owned()),
        node: nodes.to_vec(),
        input: of(false).map(|(n, (t, _))| port(&name(n), t.dtype(), fixed(t))).collect(),
        initializer: of(true).map(|(n, (t, _))| to_proto(&name(n), t)).collect(),
        output: vec![ValueInfoProto { name: Some("y".to_owned()), ..ValueInfoProto::default() }],
        ..GraphProto::default()
    };
    let opset =
        |(domain, version): (&str, i64)| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
    let opset_import = [(chain::ONNX, 21), (chain::MICROSOFT, 1)].map(opset).to_vec();
    let model = ModelProto { ir_version: Some(8), opset_import, graph: Some(graph), ..ModelProto::default() };
    model.encode_to_vec()
}

/// All values of a byte in an order that mixes them; every third is an extreme.
fn bytes<T: Element + Copy>(shape: &[usize], extremes: [T; 2], of: impl Fn(u8) -> T) -> Tensor {
    let elements: Vec<T> = (0..shape.iter().product::<usize>())
        .map(|n| if n % 3 == 0 { extremes[n / 3 % 2] } else { of((n * 167 + 43) as u8) })
        .collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

fn u8s(shape: &[usize]) -> Tensor {
    bytes(shape, [255, 0], |b| b)
}

fn i8s(shape: &[usize]) -> Tensor {
    bytes(shape, [-128, 127], |b| b.cast_signed())
}

/// Nothing but one value: sums as large as they get.
fn all<T: Element + Copy>(shape: &[usize], value: T) -> Tensor {
    bytes(shape, [value, value], |_| value)
}

#[test]
fn products_of_every_signs() {
    for (m, k, n) in [(1, 64, 16), (5, 20, 21), (17, 96, 48), (3, 7, 33), (6, 40, 5)] {
        let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger").data(a).constant(b);
        case(u8s(&[m, k]), i8s(&[k, n])).agrees();
        case(u8s(&[m, k]), u8s(&[k, n])).agrees();
        case(i8s(&[m, k]), i8s(&[k, n])).agrees();
        case(i8s(&[m, k]), u8s(&[k, n])).agrees();
    }
    Case::new("MatMulInteger").data(u8s(&[2, 5, 24])).data(i8s(&[2, 24, 9])).agrees();
}

/// Quotients by scales are products where these round the same: next to the middles between whole numbers, and far outside.
#[test]
fn numbers_are_quantised_as_their_quotients_round() {
    for scale in [0.022_142_978f32, 0.007_804_935, 1.0 / 3.0, 0.1, 0.25, 1e-12, 7.3e8] {
        let around = (-300..300).flat_map(|n| {
            let middle = (n as f32 + 0.5) * scale;
            [middle.next_down().next_down(), middle.next_down(), middle, middle.next_up(), middle.next_up().next_up()]
        });
        let beyond = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, -0.0, 1e-45];
        let numbers: Vec<f32> = around.chain(beyond).collect();
        let x = Tensor::from_elements(&[numbers.len()], &numbers).expect("fits");
        let scale = Tensor::from_elements(&[], &[scale]).expect("fits");
        let case = |zero: Tensor| {
            Case::new("QuantizeLinear").data(x.clone()).constant(scale.clone()).constant(zero).agrees();
        };
        for zero in [0u8, 131, 255] {
            case(Tensor::from_elements(&[], &[zero]).expect("fits"));
        }
        for zero in [-128i8, 0, 3, 127] {
            case(Tensor::from_elements(&[], &[zero]).expect("fits"));
        }
    }
}

/// Of two computed factors the right one is copied into groups along the sum, if that has whole ones.
#[test]
fn products_of_computed_factors() {
    for (m, k, n) in [(17, 64, 33), (16, 4, 16), (40, 20, 21), (23, 6, 40), (1, 32, 32)] {
        let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger").data(a).data(b).agrees();
        case(u8s(&[m, k]), i8s(&[k, n]));
        case(i8s(&[3, m, k]), u8s(&[3, k, n]));
        case(u8s(&[2, 3, m, k]), u8s(&[2, 3, k, n]));
        case(all(&[m, k], 255u8), all(&[k, n], -128i8));
    }
}

/// Code for processors with the instruction is made by itself, in front of the rest; of other models it is not.
#[test]
fn products_of_bytes_get_targets_of_their_own() {
    let targets = |bytes: Vec<u8>, options: &CompileOptions| -> Vec<String> {
        let compilation = infc::compile(&Source::bytes(bytes), options, &mut ()).expect("a model that compiles");
        compilation.report.variants.into_iter().map(|variant| variant.target).collect()
    };
    let of_bytes = || Case::new("MatMulInteger").data(u8s(&[3, 40])).constant(i8s(&[40, 24])).model();
    let floats = |shape: &[usize]| all(shape, 0.5f32);
    let of_floats = Case::new("MatMul").data(floats(&[3, 40])).constant(floats(&[40, 24])).model();
    let default = CompileOptions::default();
    assert_eq!(
        targets(of_bytes(), &default),
        ["x86-64-v4+vnni", "x86-64-v4", "x86-64-v3+avxvnni", "x86-64-v3", "x86-64-v2"]
    );
    assert_eq!(targets(of_floats, &default), ["x86-64-v4", "x86-64-v3", "x86-64-v2"]);
    let named = ["x86-64-v4+vnni", "x86-64-v2"].map(str::to_owned).to_vec();
    let only = CompileOptions { targets: named.clone(), ..default };
    assert_eq!(targets(of_bytes(), &only), named);
}

#[test]
fn the_largest_sums_do_not_saturate() {
    let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger").data(a).constant(b);
    case(all(&[3, 256], 255u8), all(&[256, 32], 127i8)).agrees();
    case(all(&[3, 256], 255u8), all(&[256, 32], -128i8)).agrees();
    case(all(&[3, 256], -128i8), all(&[256, 32], -128i8)).agrees();
    case(all(&[3, 256], 255u8), all(&[256, 32], 255u8)).agrees();
}

#[test]
fn zero_points() {
    let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger").data(a).constant(b);
    let columns = Tensor::from_elements(&[20], &[-128i8; 20]).expect("a vector");
    case(u8s(&[5, 24]), i8s(&[24, 20])).constant(Tensor::scalar(131u8)).constant(Tensor::scalar(3i8)).agrees();
    case(u8s(&[5, 24]), i8s(&[24, 20])).data(Tensor::scalar(255u8)).constant(columns).agrees();
    case(i8s(&[5, 24]), u8s(&[24, 20])).data(Tensor::scalar(-128i8)).constant(Tensor::scalar(128u8)).agrees();
}

#[test]
fn convolutions() {
    let case = |w: &[usize]| Case::new("ConvInteger").data(u8s(&[1, 8, 9, 7])).constant(i8s(w));
    case(&[20, 8, 1, 1]).agrees();
    case(&[20, 8, 3, 3]).ints("pads", &[1, 1, 1, 1]).agrees();
    case(&[20, 8, 3, 3]).constant(Tensor::scalar(131u8)).ints("pads", &[1, 1, 1, 1]).agrees();
    case(&[20, 8, 3, 3]).constant(Tensor::scalar(7u8)).ints("strides", &[2, 2]).ints("pads", &[1, 0, 1, 2]).agrees();
}

#[test]
fn requantised() {
    // Powers of two, so that no quotient is rounded and ties are ties.
    let case = |x_zero: u8| {
        let case = Case::new("QLinearConv").data(u8s(&[1, 8, 6, 5])).constant(Tensor::scalar(0.5f32));
        let case = case.constant(Tensor::scalar(x_zero)).constant(i8s(&[20, 8, 3, 3]));
        let scales: Vec<f32> = (0..20).map(|n| if n % 2 == 0 { 0.25 } else { 0.0625 }).collect();
        let case = case.constant(Tensor::from_elements(&[20], &scales).expect("a vector"));
        let case = case.constant(all(&[20], 0i8)).constant(Tensor::scalar(64f32)).constant(Tensor::scalar(113u8));
        let bias: Vec<i32> = (0..20).map(|n| (n - 10) * 1234).collect();
        case.constant(Tensor::from_elements(&[20], &bias).expect("a vector")).ints("pads", &[1, 1, 1, 1])
    };
    case(0).agrees();
    case(128).agrees();
    case(77).agrees();
}

#[test]
fn dequantised_operands_are_multiplied_as_integers() {
    // x0 x, x1 its scale and x2 zero point; x3 w, x4 its scales, x5 zero points; x6 y's scale, x7 zero point.
    let scales: Vec<f32> = (0..20).map(|n| if n % 2 == 0 { 0.25 } else { 0.0625 }).collect();
    for zero in [0u8, 128, 77] {
        let inputs = [
            (u8s(&[1, 8, 6, 5]), false),
            (Tensor::scalar(0.5f32), true),
            (Tensor::scalar(zero), true),
            (i8s(&[20, 8, 3, 3]), true),
            (Tensor::from_elements(&[20], &scales).expect("a vector"), true),
            (all(&[20], 0i8), true),
            (Tensor::scalar(64f32), true),
            (Tensor::scalar(113u8), true),
        ];
        let pads = [("pads", vec![1, 1, 1, 1])];
        let weights = node("DequantizeLinear", &["x3", "x4", "x5"], "w", &[]);
        let nodes = [
            node("DequantizeLinear", &["x0", "x1", "x2"], "x", &[]),
            NodeProto { attribute: vec![attribute("axis", &Attribute::Int(0))], ..weights },
            node("Conv", &["x", "w"], "s", &pads),
            node("QuantizeLinear", &["s", "x6", "x7"], "y", &[]),
        ];
        // With powers of two nothing is rounded in between, so that the operator in one means the same.
        let whole = Case {
            op: "QLinearConv",
            inputs: vec![0, 1, 2, 3, 4, 5, 6, 7].into_iter().map(|n| inputs[n].clone()).collect(),
            ints: pads.to_vec(),
        };
        let options = CompileOptions { targets: vec!["x86-64-v2".to_owned()], ..CompileOptions::default() };
        let source = Source::bytes(model(&inputs, &nodes));
        let compilation = infc::compile(&source, &options, &mut ()).expect("it compiles");
        let graph = &compilation.plan.as_ref().expect("a plan").graph;
        let contracts: Vec<Vec<DType>> = (graph.order.iter().map(|&n| &graph.nodes[n]))
            .filter(|n| n.op.name() == "contract")
            .map(|n| n.inputs.iter().chain(&n.outputs).map(|&v| graph.ty(v).dtype).collect())
            .collect();
        assert_eq!(contracts, [[DType::U8, DType::I8, DType::I32]], "zero point {zero}");
        let bytes = compilation.to_bytes().expect("an artifact");
        let loaded = Model::from_vec_with(bytes, &LoadOptions::default()).expect("every machine runs v2");
        let mut session = loaded.session(&SessionOptions::default()).expect("a session");
        let found = session.run_owned(&[&inputs[0].0]).expect("it runs").swap_remove(0);
        assert_eq!(found, whole.expected(), "zero point {zero}");
    }
}
