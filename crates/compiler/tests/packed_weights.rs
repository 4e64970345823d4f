//! Products with weights of few bits, all the way to machine code: what the reference computes, on every level that this
//! machine has, out of the packed numbers, of which no copy in floats is kept.

use infc::{CompileOptions, Source};
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use infc_frontend_onnx::{dtype_to_onnx, to_proto};
use infc_reference::{Attribute, Attributes, Node, evaluate};
use infc_runtime::{LoadOptions, Model, Pool, SessionOptions, Tensor};
use infc_tensor::DType;
use prost::Message;

const MICROSOFT: &str = "com.microsoft";
const TARGETS: [&str; 5] = ["x86-64-v4", "x86-64-v4+vnni", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v2"];
/// Values of `accuracy_level`: products of floats, and of bytes.
const LEVELS: [i64; 2] = [0, 4];

#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Absent,
    Packed,
    Float,
}

/// A product of `[rows, k]` by weights `[n, k]`.
#[derive(Clone, Copy)]
struct Case {
    bits: usize,
    block: usize,
    k: usize,
    n: usize,
    zeros: Zeros,
    level: i64,
}

/// Numbers that look random, below 1.
fn number(n: usize) -> f32 {
    (n.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 65536.0
}

fn floats(shape: &[usize], of: impl Fn(f32) -> f32) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product()).map(|n| of(number(n))).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

fn bytes(shape: &[usize]) -> Tensor {
    let elements: Vec<u8> = (0..shape.iter().product::<usize>()).map(|n| (n * 167 + n / 256 * 31 + 43) as u8).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

impl Case {
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// The same numbers in a byte each: what the reference is told of numbers that cross bytes, which it has not.
    fn in_bytes(&self) -> (Self, Vec<Tensor>) {
        let mut constants = self.constants();
        let widen = |packed: &Tensor, shape: &[usize], row_bytes: usize, per_row: usize| {
            let bit = |at: usize| packed.bytes()[at / 8] >> (at % 8) & 1;
            let number = |at: usize| {
                let first = at / per_row * row_bytes * 8 + at % per_row * self.bits;
                (0..self.bits).map(|n| bit(first + n) << n).sum::<u8>()
            };
            let elements: Vec<u8> = (0..shape.iter().product()).map(number).collect();
            Tensor::from_elements(shape, &elements).expect("as many as the shape says")
        };
        let blocks = self.blocks();
        let row_bytes = blocks * self.block * self.bits / 8;
        constants[0] = widen(&constants[0], &[self.n, blocks, self.block], row_bytes, blocks * self.block);
        constants[2] = widen(&constants[2], &[self.n * blocks], (blocks * self.bits).div_ceil(8), blocks);
        (Self { bits: 8, ..*self }, constants)
    }

    fn constants(&self) -> Vec<Tensor> {
        let blocks = self.blocks();
        let numbers = bytes(&[self.n, blocks, self.block * self.bits / 8]);
        let scales = floats(&[self.n * blocks], |x| 0.01 + 0.04 * x);
        let zeros = match self.zeros {
            Zeros::Absent => None,
            Zeros::Packed => Some(bytes(&[self.n * (blocks * self.bits).div_ceil(8)])),
            Zeros::Float => Some(floats(&[self.n, blocks], |x| 15.0 * x)),
        };
        [numbers, scales].into_iter().chain(zeros).collect()
    }

    fn ints(&self) -> [(&'static str, i64); 5] {
        let values = [self.bits, self.block, self.k, self.n].map(|n| n as i64);
        let [bits, block, k, n] = values;
        [("bits", bits), ("block_size", block), ("K", k), ("N", n), ("accuracy_level", self.level)]
    }

    /// A model of so many rows, or of any number.
    fn model(&self, rows: Option<usize>) -> Vec<u8> {
        let constants = self.constants();
        let names: Vec<String> = (0..=constants.len()).map(|n| format!("x{n}")).collect();
        let attribute = |(name, value): (&str, i64)| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::Int as i32),
            i: Some(value),
            ..AttributeProto::default()
        };
        let node = NodeProto {
            op_type: Some("MatMulNBits".to_owned()),
            domain: Some(MICROSOFT.to_owned()),
            input: names.clone(),
            output: vec!["y".to_owned()],
            attribute: self.ints().map(attribute).to_vec(),
            ..NodeProto::default()
        };
        let dim = |value| Dimension { denotation: None, value: Some(value) };
        let rows = match rows {
            Some(rows) => dimension::Value::DimValue(rows as i64),
            None => dimension::Value::DimParam("rows".to_owned()),
        };
        let dims = vec![dim(rows), dim(dimension::Value::DimValue(self.k as i64))];
        let elem_type = Some(dtype_to_onnx(DType::F32));
        let ty = type_proto::Tensor { elem_type, shape: Some(TensorShapeProto { dim: dims }) };
        let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(ty)) };
        let port = |name: &str, r#type| ValueInfoProto { name: Some(name.to_owned()), r#type, ..Default::default() };
        let graph = GraphProto {
            name: Some("test".to_owned()),
            node: vec![node],
            input: vec![port("x0", Some(ty))],
            initializer: constants.iter().zip(&names[1..]).map(|(t, name)| to_proto(name, t)).collect(),
            output: vec![port("y", None)],
            ..GraphProto::default()
        };
        let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let opset_import = [("", 21), (MICROSOFT, 1)].map(opset).to_vec();
        let model = ModelProto { ir_version: Some(8), opset_import, graph: Some(graph), ..ModelProto::default() };
        model.encode_to_vec()
    }

    fn expected(&self, x: &Tensor) -> Tensor {
        let crosses = 8 % self.bits != 0;
        let (case, constants) = if crosses { self.in_bytes() } else { (*self, self.constants()) };
        let attributes: Attributes = case.ints().into_iter().map(|(name, i)| (name, Attribute::Int(i))).collect();
        let node =
            Node { op_type: "MatMulNBits", domain: MICROSOFT, opset: 1, attributes: &attributes, num_outputs: 1 };
        let inputs: Vec<Option<&Tensor>> = [x].into_iter().chain(&constants).map(Some).collect();
        evaluate(&node, &inputs).expect("the reference has it").swap_remove(0)
    }

    /// Compiles and runs with each number of rows; what is kept of the weights must not be more than is packed.
    #[track_caller]
    fn agrees(&self, rows: Option<usize>, runs: &[usize]) {
        let Self { bits, block, k, n, level, .. } = *self;
        let what = format!("{bits} bits, {k} by {n}, blocks of {block}, level {level}");
        let targets = TARGETS.map(str::to_owned).to_vec();
        let options = CompileOptions { targets: targets.clone(), ..CompileOptions::default() };
        let compilation = infc::compile(&Source::bytes(self.model(rows)), &options, &mut ()).expect("it compiles");
        // Numbers below this size become floats when compiling.
        let is_large = self.n * self.k * 4 > 1 << 20;
        let packed: usize = self.constants().iter().map(|t| t.bytes().len()).sum();
        // Columns go by sixteens, and constants begin at multiples of 64 bytes.
        let most = packed / self.n * self.n.next_multiple_of(16) + 4096;
        let kept = compilation.report.weight_bytes as usize;
        assert!(!is_large || kept <= most, "{what}: {kept} bytes of weights for {packed}");
        let kernels = compilation.plan.as_ref().expect("a plan").kernels.len();
        assert_eq!(kernels, if level == 0 { 1 } else { 5 }, "{what}");
        let artifact = compilation.to_bytes().expect("an artifact");
        let mut ran = 0;
        for target in targets {
            let pool = Some(Pool::builder().threads(1).build());
            let load = LoadOptions { target: Some(target.clone()), pool, ..LoadOptions::default() };
            let Ok(model) = Model::from_vec_with(artifact.clone(), &load) else { continue };
            let mut session = model.session(&SessionOptions::default()).expect("a session");
            for &rows in runs {
                let x = floats(&[rows, self.k], |x| x - 0.5);
                let expected = self.expected(&x);
                let found = session.run_owned(&[&x]).expect("it runs").swap_remove(0);
                assert_eq!(found.shape(), expected.shape(), "{what} on {target}");
                // Sums of k products of up to (2^bits − 1)·0.05·0.5.
                let tolerance = 1e-6 * (self.k * (1 << self.bits)) as f64 * 0.025;
                for at in 0..expected.len_elems() {
                    let (a, b) = (found.get_f64(at).expect("a number"), expected.get_f64(at).expect("a number"));
                    let agrees = (a - b).abs() <= tolerance;
                    assert!(agrees, "{what}, {rows} rows on {target}, element {at}: {a}, expected {b}");
                }
            }
            let arena = session.arena_bytes();
            assert!(
                arena < if level == 0 { 1 << 16 } else { 1 << 18 },
                "{what} on {target}: {arena} bytes beside the weights"
            );
            ran += 1;
        }
        assert!(ran > 0, "this machine runs none of the targets");
    }
}

#[test]
fn all_numbers_of_bits() {
    for bits in [2, 4, 8] {
        for zeros in [Zeros::Absent, Zeros::Packed, Zeros::Float] {
            for level in LEVELS {
                let case = Case { bits, block: 32, k: 512, n: 528, zeros, level };
                case.agrees(Some(1), &[1]);
                case.agrees(Some(5), &[5]);
            }
        }
    }
}

#[test]
fn numbers_that_cross_bytes() {
    for bits in [3, 5] {
        Case { bits, block: 16, k: 512, n: 528, zeros: Zeros::Packed, level: 0 }.agrees(Some(3), &[3]);
    }
}

#[test]
fn ragged_extents() {
    for (k, n, block) in [(331, 797, 16), (257, 1031, 32), (17, 1031, 16), (1, 33, 16), (1000, 1, 32), (640, 419, 128)]
    {
        for zeros in [Zeros::Absent, Zeros::Packed] {
            for level in LEVELS {
                let case = Case { bits: 4, block, k, n, zeros, level };
                case.agrees(Some(1), &[1]);
                case.agrees(Some(7), &[7]);
            }
        }
    }
}

#[test]
fn many_rows_share_what_is_unpacked() {
    for (rows, k, n) in [(64, 544, 496), (61, 289, 911)] {
        for level in LEVELS {
            let case = Case { bits: 4, block: 32, k, n, zeros: Zeros::Packed, level };
            case.agrees(Some(rows), &[rows]);
        }
    }
}

#[test]
fn rows_that_the_run_tells() {
    for level in LEVELS {
        let case = Case { bits: 4, block: 32, k: 544, n: 496, zeros: Zeros::Packed, level };
        case.agrees(None, &[1, 2, 13, 14, 40]);
    }
}

/// However long blocks are, the left operand lies so that four neighbours meet the same bits of four bytes.
#[test]
fn bytes_lie_as_dot_products_take_them() {
    for (bits, block) in [(4, 16), (4, 32), (4, 64), (4, 128), (2, 32), (2, 128)] {
        let case = Case { bits, block, k: 512, n: 528, zeros: Zeros::Absent, level: 4 };
        let options = CompileOptions { targets: vec!["x86-64-v3".to_owned()], ..CompileOptions::default() };
        let compilation = infc::compile(&Source::bytes(case.model(None)), &options, &mut ()).expect("it compiles");
        let plan = compilation.plan.as_ref().expect("a plan");
        let bytes = plan.kernels.iter().flat_map(|k| k.kernel.operands.iter()).filter(|o| o.dtype == DType::I8);
        let strides: Vec<_> = bytes.map(|o| o.layout.strides.last().and_then(|step| step.as_const())).collect();
        assert!(strides.len() >= 2 && strides.iter().all(|&step| step == Some(1)), "{bits}, {block}: {strides:?}");
    }
}
