//! Every import agrees with the reference: one ONNX node is imported, run by the graph interpreter, and compared with
//! `infc_reference::evaluate`.

mod activation;
mod attention;
mod classical;
mod constant;
mod conv;
mod einsum;
mod elementwise;
mod fourier;
mod gather_elements;
mod host;
mod linear_attention;
mod loss;
mod matmul;
mod movement;
mod narrow;
mod norm;
mod old_opsets;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod run_time;
mod sample;
mod scatter;
mod top_k;
mod training;
mod trees;
mod unpool;

use crate::hostile::survives;
use crate::support::{Builder, Extent, Value, node};
use infc_frontend_onnx::ImportOptions;
use infc_frontend_onnx::proto::NodeProto;
use infc_ir::graph::Graph;
use infc_ir::interp::{Host, run_graph_with, symbol_values};
use infc_ir::op::{HostOp, Op};
use infc_ir::verify::verify_graph;
use infc_reference::{Attribute, Attributes, Node, evaluate, evaluate_with};
use infc_tensor::{DType, Element, Tensor, f16};

/// Integers that break arithmetic.
const EXTREMES: [i64; 8] = [i64::MIN, i64::MAX, -1, 0, 1 << 31, 1 << 40, (1 << 62) + 1, -(1 << 33)];

/// Floats that do.
const EXTREME_FLOATS: [f32; 8] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, 0.0, -0.0, 1e30, -3e9];

/// One node with its inputs.
#[derive(Clone)]
pub(crate) struct Case {
    op: &'static str,
    domain: &'static str,
    opset: i64,
    inputs: Vec<Option<(Tensor, bool)>>,
    attributes: Vec<(&'static str, Value)>,
    outputs: usize,
    dynamic: Vec<usize>,
    strict: bool,
    tolerance: f64,
}

impl Case {
    pub(crate) fn new(op: &'static str, opset: i64) -> Self {
        let (inputs, attributes, dynamic) = (Vec::new(), Vec::new(), Vec::new());
        Self { op, domain: "", opset, inputs, attributes, outputs: 1, dynamic, strict: false, tolerance: 1e-5 }
    }

    /// A node of ONNX Runtime's own domain.
    pub(crate) fn microsoft(op: &'static str) -> Self {
        Self::new(op, 1).domain("com.microsoft")
    }

    pub(crate) fn domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    /// An input that is given when the model runs.
    pub(crate) fn data(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, false)));
        self
    }

    /// An initializer.
    pub(crate) fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, true)));
        self
    }

    /// An input that is left out.
    pub(crate) fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    pub(crate) fn int(mut self, name: &'static str, value: i64) -> Self {
        self.attributes.push((name, Value::Int(value)));
        self
    }

    pub(crate) fn float(mut self, name: &'static str, value: f32) -> Self {
        self.attributes.push((name, Value::Float(value)));
        self
    }

    pub(crate) fn text(mut self, name: &'static str, value: &str) -> Self {
        self.attributes.push((name, Value::Text(value.to_owned())));
        self
    }

    pub(crate) fn texts(mut self, name: &'static str, value: &[&str]) -> Self {
        self.attributes.push((name, Value::Texts(value.iter().map(|&v| v.to_owned()).collect())));
        self
    }

    pub(crate) fn ints(mut self, name: &'static str, value: &[i64]) -> Self {
        self.attributes.push((name, Value::Ints(value.to_vec())));
        self
    }

    pub(crate) fn floats(mut self, name: &'static str, value: &[f32]) -> Self {
        self.attributes.push((name, Value::Floats(value.to_vec())));
        self
    }

    pub(crate) fn tensor(mut self, name: &'static str, value: Tensor) -> Self {
        self.attributes.push((name, Value::Tensor(value)));
        self
    }

    pub(crate) fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = outputs;
        self
    }

    pub(crate) fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Imports strictly: half types are to be rounded as the definition rounds them, bit for bit.
    pub(crate) fn strict(self) -> Self {
        Self { strict: true, tolerance: 0.0, ..self }
    }

    /// Checks again with these axes of every data input symbolic (one symbol per extent, so that equal ones stay
    /// equal).
    pub(crate) fn dynamic(mut self, axes: &[usize]) -> Self {
        self.dynamic = axes.to_vec();
        self
    }

    /// As [`Case::agrees_at_run_time`], and the host does nothing but read sizes.
    #[track_caller]
    pub(crate) fn is_of_kernels_at_run_time(&self) {
        let graph = self.agrees_at_run_time();
        let is_computed = |op: &Op| matches!(op, Op::Host(host) if !host.is_shaping());
        assert!(!graph.nodes.iter().any(|node| is_computed(&node.op)), "the host computes something");
    }

    /// Checks again with its constants as inputs; then what shapes follow from may be anything, too.
    #[track_caller]
    pub(crate) fn agrees_at_run_time(&self) -> Graph {
        self.agrees();
        let mut changed = self.clone();
        for input in changed.inputs.iter_mut().flatten() {
            input.1 = false;
        }
        let graph = changed.agrees();
        changed.survives_extreme_values(&graph);
        graph
    }

    /// Runs the graph with numbers that break arithmetic; any error will do.
    fn survives_extreme_values(&self, graph: &Graph) {
        let data: Vec<Tensor> = self.inputs.iter().flatten().map(|(t, _)| t.clone()).collect();
        for n in 0..data.len() {
            for (at, extreme) in
                (0..data[n].len_elems().min(4)).flat_map(|at| (0..EXTREMES.len()).map(move |e| (at, e)))
            {
                let mut data = data.clone();
                if let Ok(elements) = data[n].elements_mut::<i64>() {
                    elements[at] = EXTREMES[extreme];
                } else if let Ok(elements) = data[n].elements_mut::<f32>() {
                    elements[at] = EXTREME_FLOATS[extreme];
                } else {
                    break;
                }
                if let Ok(symbols) = symbol_values(graph, &data) {
                    let _ = run_graph_with(graph, &symbols, &data, &Definitions);
                }
            }
        }
    }

    fn model(&self, dynamic: &[usize]) -> Builder {
        let mut model = match self.domain {
            "" => Builder::new(self.opset),
            domain => Builder::new(21).import_opset(domain, self.opset),
        };
        let names: Vec<String> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(n, i)| i.as_ref().map_or(String::new(), |_| format!("x{n}")))
            .collect();
        for (name, input) in names.iter().zip(&self.inputs) {
            match input {
                Some((tensor, true)) => model = model.initializer(name, tensor),
                Some((tensor, false)) => {
                    let symbols: Vec<String> = tensor.shape().iter().map(|d| format!("D{d}")).collect();
                    let shape: Vec<Extent<'_>> = tensor
                        .shape()
                        .iter()
                        .zip(&symbols)
                        .enumerate()
                        .map(|(axis, (&d, symbol))| {
                            if dynamic.contains(&axis) && d != 1 {
                                Extent::Named(symbol)
                            } else {
                                Extent::Number(d as i64)
                            }
                        })
                        .collect();
                    model = model.input(name, tensor.dtype(), &shape);
                }
                None => {}
            }
        }
        let outputs: Vec<String> = (0..self.outputs).map(|n| format!("y{n}")).collect();
        let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
        let named: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let node = node(self.op, &inputs, &named, &self.attributes);
        model = model.node(NodeProto { domain: Some(self.domain.to_owned()), ..node });
        for output in &outputs {
            model = model.output(output);
        }
        model
    }

    fn expected(&self) -> Vec<Tensor> {
        let attributes: Attributes = self
            .attributes
            .iter()
            .map(|(name, value)| {
                let value = match value.clone() {
                    Value::Int(v) => Attribute::Int(v),
                    Value::Float(v) => Attribute::Float(v),
                    Value::Text(v) => Attribute::String(v),
                    Value::Texts(v) => Attribute::Strings(v),
                    Value::Ints(v) => Attribute::Ints(v),
                    Value::Floats(v) => Attribute::Floats(v),
                    Value::Tensor(v) => Attribute::Tensor(v),
                    Value::Graph(_) => panic!("the reference has no subgraphs"),
                };
                (*name, value)
            })
            .collect();
        let node = Node {
            op_type: self.op,
            domain: self.domain,
            opset: self.opset,
            attributes: &attributes,
            num_outputs: self.outputs,
        };
        let inputs: Vec<Option<&Tensor>> = self.inputs.iter().map(|i| i.as_ref().map(|(t, _)| t)).collect();
        evaluate(&node, &inputs).unwrap_or_else(|e| panic!("the reference refuses {}: {e}", self.op))
    }

    /// Imports the node with each of its integers replaced by those that break arithmetic; any error will do.
    fn survives_extremes(&self) {
        for extreme in EXTREMES {
            for n in 0..self.attributes.len() {
                let mut changed = self.clone();
                match &mut changed.attributes[n].1 {
                    Value::Int(v) => *v = extreme,
                    Value::Ints(v) if !v.is_empty() => v[0] = extreme,
                    _ => continue,
                }
                let _ = changed.model(&self.dynamic).import();
            }
            for n in 0..self.inputs.len() {
                let mut changed = self.clone();
                let Some((tensor, true)) = &mut changed.inputs[n] else { continue };
                for at in 0..tensor.len_elems().min(4) {
                    let mut damaged = tensor.clone();
                    let Ok(elements) = damaged.elements_mut::<i64>() else { break };
                    elements[at] = extreme;
                    let mut changed = self.clone();
                    changed.inputs[n] = Some((damaged, true));
                    let _ = changed.model(&self.dynamic).import();
                }
            }
        }
    }

    /// What the import says against it.
    #[track_caller]
    pub(crate) fn refused(&self) -> infc_frontend_onnx::ImportError {
        let error = self.model(&[]).import().expect_err("it is refused");
        survives(&self.model(&[]), 20);
        error
    }

    /// Imports, runs and compares, and survives what damages it; returns the graph that was run last.
    #[track_caller]
    pub(crate) fn agrees(&self) -> Graph {
        let graph = self.computes();
        survives(&self.model(&self.dynamic), 20);
        self.survives_extremes();
        graph
    }

    /// Imports, runs and compares; returns the graph that was run last.
    #[track_caller]
    pub(crate) fn computes(&self) -> Graph {
        let expected = self.expected();
        let mut settings = vec![Vec::new()];
        if !self.dynamic.is_empty() {
            settings.push(self.dynamic.clone());
        }
        let mut last = None;
        for dynamic in settings {
            let model = self.model(&dynamic);
            let options = ImportOptions { strict: self.strict, ..ImportOptions::default() };
            let graph = model.import_with(&options).unwrap_or_else(|e| panic!("{} {dynamic:?}: {e}", self.op));
            verify_graph(&graph).unwrap_or_else(|e| panic!("{} {dynamic:?}: {e}", self.op));
            let data: Vec<Tensor> =
                self.inputs.iter().flatten().filter(|(_, constant)| !constant).map(|(t, _)| t.clone()).collect();
            let symbols = symbol_values(&graph, &data).unwrap_or_else(|e| panic!("{} {dynamic:?}: {e}", self.op));
            let found = run_graph_with(&graph, &symbols, &data, &Definitions)
                .unwrap_or_else(|e| panic!("{} {dynamic:?}: {e}", self.op));
            assert_eq!(found.len(), expected.len());
            for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                compare(
                    &format!("{} {:?} {dynamic:?} output {n}", self.op, self.attributes),
                    found,
                    expected,
                    self.tolerance,
                );
            }
            last = Some(graph);
        }
        last.expect("one setting at least")
    }
}

/// Evaluates host operations by the reference.
pub(crate) struct Definitions;

impl Host for Definitions {
    fn evaluate(&self, op: &HostOp, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        let HostOp { op_type, domain, opset, attributes, graphs, outputs, .. } = op;
        let node = Node { op_type, domain, opset: *opset, attributes, num_outputs: outputs.len() };
        evaluate_with(&node, graphs, inputs).map_err(|error| error.to_string())
    }
}

#[track_caller]
pub(crate) fn compare(what: &str, found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(found.dtype(), expected.dtype(), "{what}: element type");
    assert_eq!(found.shape(), expected.shape(), "{what}: shape");
    // Floats of a byte or less are compared by their bits.
    if !found.dtype().is_float() || found.dtype().size_bits() <= 8 {
        assert_eq!(found, expected, "{what}");
        return;
    }
    for n in 0..found.len_elems() {
        let (a, b) = (found.get_f64(n).expect("a float"), expected.get_f64(n).expect("a float"));
        let agrees = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * (1.0 + b.abs());
        assert!(agrees, "{what}: element {n} is {a}, expected {b}");
    }
}

/// Seeded floats in −2…2.
pub(crate) fn floats(shape: &[usize]) -> Tensor {
    floats_from(shape, -2.0, 2.0)
}

/// Seeded floats in a range.
pub(crate) fn floats_from(shape: &[usize], lo: f32, hi: f32) -> Tensor {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ shape.iter().fold(7, |h, &d| h * 31 + d as u64);
    let elements: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            lo + (hi - lo) * ((state >> 40) as f32 / (1u64 << 24) as f32)
        })
        .collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

/// The same, rounded to half precision.
pub(crate) fn halves(shape: &[usize]) -> Tensor {
    let elements: Vec<f16> =
        floats(shape).elements::<f32>().expect("floats").iter().map(|&x| f16::from_f32(x)).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

/// Floats of any type.
pub(crate) fn floats_of(dtype: DType, shape: &[usize]) -> Tensor {
    let attributes = Attributes::from_iter([("to", Attribute::Int(code(dtype)))]);
    let node = Node { op_type: "Cast", domain: "", opset: 21, attributes: &attributes, num_outputs: 1 };
    evaluate(&node, &[Some(&floats(shape))]).expect("floats can be converted").swap_remove(0)
}

/// Seeded integers over the whole range of a type of up to 32 bits, both ends among them.
pub(crate) fn integers<T: Element + TryFrom<i64>>(shape: &[usize], lo: T, hi: T) -> Tensor
where
    i64: From<T>,
{
    let (lo, hi) = (i64::from(lo), i64::from(hi));
    let random = floats_from(shape, 0.0, 1.0);
    let elements: Vec<T> = random
        .elements::<f32>()
        .expect("floats")
        .iter()
        .enumerate()
        .map(|(n, &x)| match n {
            1 => lo,
            2 => hi,
            _ => lo + (f64::from(x) * (hi - lo + 1) as f64) as i64,
        })
        .map(|v| T::try_from(v.clamp(lo, hi)).unwrap_or_else(|_| panic!("{v} is between two of the type")))
        .collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

/// 0, 1, 2, …
pub(crate) fn counting(shape: &[usize]) -> Tensor {
    let elements: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

pub(crate) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

pub(crate) fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

/// ONNX's number of an element type.
pub(crate) fn code(dtype: DType) -> i64 {
    i64::from(infc_frontend_onnx::dtype_to_onnx(dtype))
}
