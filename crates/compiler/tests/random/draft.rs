//! A model while it is drawn: values with samples of what they are, and the nodes between them.

use crate::definition::{Beside, Definition};
use crate::evaluate::{Operation, samples, show};
use crate::operators;
use crate::random::Random;
use infc_tensor::{Attribute, Attributes, DType, Subgraphs, Tensor};
use std::fmt;

/// Number of a value in [`Draft::values`].
pub(crate) type Id = usize;

/// Larger tensors are not drawn.
const MAX_ELEMENTS: usize = 1500;

/// Few operators of the older ones are drawn: axes were attributes.
const OPSETS: [i64; 10] = [9, 13, 17, 18, 20, 22, 24, 26, 28, 28];

/// The types of inputs; the usual ones more often.
const TYPES: [DType; 30] = [
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F64,
    DType::F16,
    DType::F16,
    DType::BF16,
    DType::BF16,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::F4E2M1,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
    DType::I64,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];

/// More types, which only some models have: what kernels do with them is to move them, if that.
const RARE_TYPES: [DType; 5] = [DType::String, DType::String, DType::String, DType::Complex64, DType::Complex128];

/// One model in so many has inputs of these.
const RARE: u64 = 8;

/// The size of an axis of an input; the model names it, or says how long it is.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) name: Option<String>,
    pub(crate) size: usize,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// An input, data of any size that its extents say.
    Input(Vec<Extent>),
    /// An input of numbers that mean something to the operator that reads it: axes, a shape.
    Numbers,
    Constant,
    Node,
}

#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) origin: Origin,
    /// See [`crate::evaluate`].
    pub(crate) samples: Vec<Tensor>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) operation: Operation,
    pub(crate) inputs: Vec<Option<Id>>,
    /// Its results are this value and the next ones.
    pub(crate) first: Id,
}

/// A node that may be added.
pub(crate) struct Candidate {
    operation: Operation,
    inputs: Vec<Option<Id>>,
}

impl Candidate {
    pub(crate) fn new(op_type: &'static str, inputs: &[Id]) -> Self {
        let operation = Operation {
            op_type,
            domain: "",
            graphs: Subgraphs::default(),
            attributes: Attributes::new(),
            outputs: 1,
            exact: false,
            definition: Definition::default(),
            beside: None,
        };
        Self { operation, inputs: inputs.iter().map(|&id| Some(id)).collect() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Attribute>) -> Self {
        self.operation.attributes.insert(name, value);
        self
    }

    /// Of another domain than ONNX's own.
    pub(crate) fn of(mut self, domain: &'static str) -> Self {
        self.operation.domain = domain;
        self
    }

    /// With graphs, and the values that these take from around the node.
    pub(crate) fn holding(mut self, graphs: Subgraphs, captures: &[Id]) -> Self {
        self.operation.graphs = graphs;
        self.inputs.extend(captures.iter().map(|&id| Some(id)));
        self
    }

    /// With an input that is left out, or one more.
    pub(crate) fn input(mut self, id: Option<Id>) -> Self {
        self.inputs.push(id);
        self
    }

    /// Its results are not rounded: it moves, selects, converts to what holds more, or computes with integers.
    pub(crate) fn exact(mut self) -> Self {
        self.operation.exact = true;
        self
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.operation.attributes
    }

    /// The steps of a cross entropy with these inputs and attributes.
    pub(crate) fn as_cross_entropy(&self) -> Definition {
        Definition::cross_entropy(self.inputs.len(), &self.operation.attributes)
    }

    /// What is rounded between the steps that it is defined by shows in its result.
    pub(crate) fn defined_by(mut self, definition: Definition) -> Self {
        self.operation.definition = definition;
        self
    }

    /// It adds roundings of more than its operands and results.
    pub(crate) fn beside(mut self, beside: Beside) -> Self {
        self.operation.beside = Some(beside);
        self
    }

    pub(crate) fn outputs(mut self, outputs: usize) -> Self {
        self.operation.outputs = outputs;
        self
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) seed: u64,
    pub(crate) opset: i64,
    /// Whether strings and complex numbers may be among its inputs.
    pub(crate) has_text: bool,
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    /// Results that nobody reads.
    pub(crate) outputs: Vec<Id>,
    pub(crate) random: Random,
}

impl Draft {
    /// The model of a seed.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let opset = *random.pick(&OPSETS);
        let has_text = seed % RARE == RARE / 2;
        let (values, nodes, outputs) = (Vec::new(), Vec::new(), Vec::new());
        let mut draft = Self { seed, opset, has_text, values, nodes, outputs, random };
        let random = &mut draft.random;
        let mut extents = vec![Extent { name: None, size: 1 }];
        for n in 0..4 {
            let name = random.one_in(2).then(|| format!("N{n}"));
            let size = if random.one_in(16) { 0 } else { random.between(2, 7) as usize };
            extents.push(Extent { name, size });
        }
        for _ in 0..draft.random.between(1, 4) {
            let random = &mut draft.random;
            let rank = *random.pick(&[0, 1, 2, 2, 3, 3, 4, 4]);
            let shape: Vec<Extent> = (0..rank).map(|_| random.pick(&extents).clone()).collect();
            let types = if has_text && random.one_in(2) { &RARE_TYPES[..] } else { &TYPES };
            let dtype = *random.pick(types);
            draft.add_input(dtype, shape);
        }
        let nodes = draft.random.between(3, 30) as usize;
        for _ in 0..nodes * 20 {
            if draft.nodes.len() == nodes {
                break;
            }
            if let Some(candidate) = operators::draw(&mut draft) {
                draft.add(candidate);
            }
        }
        let read = |id: &Id| draft.nodes.iter().any(|node| node.inputs.contains(&Some(*id)));
        let results = |node: &Node| node.first..node.first + node.operation.outputs;
        draft.outputs = draft.nodes.iter().flat_map(results).filter(|id| !read(id)).collect();
        draft
    }

    fn add_input(&mut self, dtype: DType, shape: Vec<Extent>) {
        let sizes: Vec<usize> = shape.iter().map(|extent| extent.size).collect();
        let tensor = self.random.tensor(dtype, &sizes);
        self.push(Origin::Input(shape), &tensor);
    }

    fn push(&mut self, origin: Origin, tensor: &Tensor) -> Id {
        self.values.push(Value { origin, samples: vec![tensor.clone(); crate::evaluate::SAMPLES] });
        self.values.len() - 1
    }

    /// Adds a node unless it makes no sense, or its results are too large.
    fn add(&mut self, candidate: Candidate) {
        let Candidate { operation, inputs } = candidate;
        let operands: Vec<Option<&Vec<Tensor>>> =
            inputs.iter().map(|id| id.map(|id| &self.values[id].samples)).collect();
        let Some(results) = samples(&operation, self.opset, &operands, &mut self.random) else { return };
        if results.iter().any(|samples| samples[0].len_elems() > MAX_ELEMENTS || samples[0].rank() > 6) {
            return;
        }
        let first = self.values.len();
        self.values.extend(results.into_iter().map(|samples| Value { origin: Origin::Node, samples }));
        self.nodes.push(Node { operation, inputs, first });
    }

    /// What a value is.
    pub(crate) fn at(&self, id: Id) -> &Tensor {
        &self.values[id].samples[0]
    }

    pub(crate) fn dtype(&self, id: Id) -> DType {
        self.at(id).dtype()
    }

    pub(crate) fn shape(&self, id: Id) -> Vec<usize> {
        self.at(id).shape().to_vec()
    }

    /// Data of a type that is computed with, and that is as it should be, the later the more likely.
    pub(crate) fn any(&mut self, fits: impl Fn(&Tensor) -> bool) -> Option<Id> {
        self.any_type(|t| {
            (t.dtype().size_bits() >= if t.dtype().is_float() { 16 } else { 8 } || t.dtype() == DType::Bool) && fits(t)
        })
    }

    /// The same of any type: of those of at most a byte without arithmetic, too.
    pub(crate) fn any_type(&mut self, fits: impl Fn(&Tensor) -> bool) -> Option<Id> {
        let is_data = |value: &Value| matches!(value.origin, Origin::Input(_) | Origin::Node);
        let all: Vec<Id> =
            (0..self.values.len()).filter(|&id| is_data(&self.values[id]) && fits(self.at(id))).collect();
        let one = (!all.is_empty()).then(|| self.random.below(all.len()).max(self.random.below(all.len())))?;
        Some(all[one])
    }

    /// Floats that are computed with.
    pub(crate) fn float(&mut self) -> Option<Id> {
        self.any(|t| is_float(t.dtype()))
    }

    /// Floats with so many axes.
    pub(crate) fn float_of_rank(&mut self, low: usize, high: usize) -> Option<Id> {
        self.any(|t| is_float(t.dtype()) && (low..=high).contains(&t.rank()) && t.len_elems() > 0)
    }

    pub(crate) fn constant(&mut self, tensor: &Tensor) -> Id {
        self.push(Origin::Constant, tensor)
    }

    /// Numbers that an operator asks for, as a constant or an input.
    pub(crate) fn ints(&mut self, numbers: &[i64]) -> Id {
        let tensor = Tensor::from_elements(&[numbers.len()], numbers).expect("a vector");
        let origin = if self.random.one_in(4) { Origin::Numbers } else { Origin::Constant };
        self.push(origin, &tensor)
    }

    /// One number, without an axis.
    pub(crate) fn int(&mut self, number: i64) -> Id {
        let tensor = Tensor::scalar(number);
        let origin = if self.random.one_in(4) { Origin::Numbers } else { Origin::Constant };
        self.push(origin, &tensor)
    }

    /// A constant of random numbers.
    pub(crate) fn weight(&mut self, dtype: DType, shape: &[usize]) -> Id {
        let tensor = self.random.tensor(dtype, shape);
        self.constant(&tensor)
    }

    /// Something of the same type that broadcasts with a value: another one, or a constant.
    pub(crate) fn partner(&mut self, id: Id) -> Id {
        let (dtype, shape) = (self.dtype(id), self.shape(id));
        let fits = |t: &Tensor| t.dtype() == dtype && broadcasts(t.shape(), &shape);
        let found = if dtype == DType::String { self.any_type(fits) } else { self.any(fits) };
        match found.filter(|_| !self.random.one_in(4)) {
            Some(other) => other,
            None => {
                let from = self.random.below(shape.len() + 1);
                let thin = |(random, d): (&mut Random, usize)| if random.one_in(3) { 1 } else { d };
                let shape: Vec<usize> = shape[from..].iter().map(|&d| thin((&mut self.random, d))).collect();
                self.weight(dtype, &shape)
            }
        }
    }

    /// An axis of a value, counted from either end; `None` if it has none.
    pub(crate) fn axis(&mut self, id: Id) -> Option<i64> {
        let rank = self.at(id).rank() as i64;
        (rank > 0).then(|| self.random.between(-rank, rank - 1))
    }

    /// The samples of all values for other sizes of named extents; `None` if some node makes no sense then.
    pub(crate) fn elsewhere(&self, turn: u64) -> Option<Vec<Vec<Tensor>>> {
        let mut random = Random::new(!(self.seed + (turn << 32)));
        let mut sizes: Vec<(String, usize)> = Vec::new();
        let mut all: Vec<Vec<Tensor>> = Vec::new();
        let mut nodes = self.nodes.iter().peekable();
        while all.len() < self.values.len() {
            let value = &self.values[all.len()];
            match &value.origin {
                Origin::Input(extents) => {
                    let mut shape = Vec::new();
                    for extent in extents {
                        let known = sizes.iter().find(|(name, _)| Some(name) == extent.name.as_ref());
                        shape.push(match (&extent.name, known) {
                            (None, _) => extent.size,
                            (_, Some((_, size))) => *size,
                            (Some(name), None) => {
                                // Of nothing, or of one element, which broadcasts.
                                let small = random.one_in(if turn == 0 { 6 } else { 2 });
                                let size = if small { random.below(2) } else { random.between(2, 9) as usize };
                                sizes.push((name.clone(), size));
                                size
                            }
                        });
                    }
                    let tensor = random.tensor(value.samples[0].dtype(), &shape);
                    all.push(vec![tensor; crate::evaluate::SAMPLES]);
                }
                Origin::Numbers | Origin::Constant => all.push(value.samples.clone()),
                Origin::Node => {
                    let Some(node) = nodes.next_if(|node| node.first == all.len()) else {
                        // Nobody computes it any more.
                        all.push(value.samples.clone());
                        continue;
                    };
                    let operands: Vec<Option<&Vec<Tensor>>> =
                        node.inputs.iter().map(|id| id.map(|id| &all[id])).collect();
                    all.extend(samples(&node.operation, self.opset, &operands, &mut random)?);
                }
            }
        }
        (!sizes.is_empty()).then_some(all)
    }
}

pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

fn broadcasts(a: &[usize], b: &[usize]) -> bool {
    a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1)
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "opset {}", self.opset)?;
        let used = |id: Id| self.nodes.iter().any(|node| node.inputs.contains(&Some(id)));
        for (id, value) in self.values.iter().enumerate().filter(|(id, _)| used(*id)) {
            let elements = show(&value.samples[0]);
            match &value.origin {
                Origin::Input(extents) => {
                    let names: Vec<&str> = extents.iter().map(|e| e.name.as_deref().unwrap_or("-")).collect();
                    writeln!(f, "  v{id} = input {names:?} {elements}")?;
                }
                Origin::Numbers => writeln!(f, "  v{id} = numbers {elements}")?,
                Origin::Constant => writeln!(f, "  v{id} = constant {elements}")?,
                Origin::Node => {}
            }
        }
        for node in &self.nodes {
            let inputs: Vec<String> =
                node.inputs.iter().map(|id| id.map_or_else(|| "-".to_owned(), |id| format!("v{id}"))).collect();
            let results = (node.first..node.first + node.operation.outputs).map(|id| {
                let tensor = self.at(id);
                format!("v{id}: {}{:?}", tensor.dtype(), tensor.shape())
            });
            let results: Vec<String> = results.collect();
            let attributes = &node.operation.attributes;
            writeln!(f, "  {} = {} {} {attributes:?}", results.join(", "), node.operation.op_type, inputs.join(", "))?;
        }
        writeln!(f, "  outputs {:?}", self.outputs)
    }
}
