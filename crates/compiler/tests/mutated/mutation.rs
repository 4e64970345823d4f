//! Changes to ONNX models that keep them decodable.

use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use prost::Message;

/// Numbers that break arithmetic, and those that mean something as axes, extents and counts.
const NUMBERS: [i64; 20] = [
    0,
    1,
    -1,
    2,
    3,
    -2,
    7,
    64,
    255,
    256,
    -128,
    1 << 16,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 32,
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

const FLOATS: [f32; 9] = [0.0, -0.0, 1.0, -1.5, 1e-30, 1e30, f32::INFINITY, f32::NAN, f32::MAX];

const TEXTS: [&str; 16] = [
    "",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "linear",
    "nearest",
    "cubic",
    "reflect",
    "wrap",
    "edge",
    "add",
    "none",
    "bidirectional",
    "align_corners",
    "ij,jk->ik",
];

/// Xorshift.
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u32) -> Self {
        Self(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    fn number(&mut self, near: i64) -> i64 {
        match self.below(3) {
            0 => near.wrapping_add(self.below(7) as i64 - 3),
            _ => NUMBERS[self.below(NUMBERS.len())],
        }
    }
}

/// The model with a few things changed; `None` if the bytes are no model.
pub(crate) fn mutated(bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut model = ModelProto::decode(bytes).ok()?;
    for _ in 0..1 + random.below(3) {
        change(&mut model, random);
    }
    Some(model.encode_to_vec())
}

fn change(model: &mut ModelProto, random: &mut Random) {
    if random.one_in(12) {
        let at = random.below(model.opset_import.len());
        if let Some(import) = model.opset_import.get_mut(at) {
            import.version = Some(if random.one_in(8) { random.number(20) } else { 1 + random.below(28) as i64 });
        }
        return;
    }
    let Some(mut graph) = model.graph.as_mut() else { return };
    // Sometimes a graph within.
    while random.one_in(2) && holds_graph(graph) {
        let holder = graph.node.iter_mut().flat_map(|node| &mut node.attribute).find_map(|a| a.g.as_mut());
        match holder {
            Some(inner) => graph = inner,
            None => return,
        }
    }
    change_graph(graph, random);
}

fn holds_graph(graph: &GraphProto) -> bool {
    graph.node.iter().flat_map(|node| &node.attribute).any(|a| a.g.is_some())
}

fn change_graph(graph: &mut GraphProto, random: &mut Random) {
    let names = names(graph);
    match random.below(10) {
        0..5 => {
            let at = random.below(graph.node.len());
            let other = random.pick(&graph.node).cloned();
            if let (Some(node), Some(other)) = (graph.node.get_mut(at), other) {
                change_node(node, &other, &names, random);
            }
        }
        5 | 6 => {
            let count = graph.input.len();
            if let Some(input) = graph.input.get_mut(random.below(count)) {
                change_port(input, random);
            }
        }
        7 => {
            let count = graph.initializer.len();
            if let Some(tensor) = graph.initializer.get_mut(random.below(count)) {
                change_tensor(tensor, random);
            }
        }
        8 => {
            let name = random.pick(&names).cloned();
            let count = graph.output.len();
            match graph.output.get_mut(random.below(count)) {
                Some(output) if random.one_in(2) => change_port(output, random),
                Some(output) => output.name = name,
                None => {}
            }
        }
        _ => change_nodes(graph, &names, random),
    }
}

fn names(graph: &GraphProto) -> Vec<String> {
    let inputs = graph.input.iter().filter_map(|input| input.name.clone());
    let constants = graph.initializer.iter().filter_map(|tensor| tensor.name.clone());
    let results = graph.node.iter().flat_map(|node| node.output.iter().cloned());
    inputs.chain(constants).chain(results).collect()
}

/// One more node, one less, or two that change places.
fn change_nodes(graph: &mut GraphProto, names: &[String], random: &mut Random) {
    let count = graph.node.len();
    match random.below(4) {
        0 if count > 1 => {
            graph.node.remove(random.below(count));
        }
        1 if count > 1 => graph.node.swap(random.below(count), random.below(count)),
        // An input becomes a constant's name, or the other way round.
        2 => {
            let count = graph.input.len();
            if count > 1 {
                graph.input.remove(random.below(count));
            }
        }
        _ => {
            // A node once more, behind its first result, which is what the graph gives then.
            let Some(node) = random.pick(&graph.node).cloned() else { return };
            let again: Vec<String> = node.output.iter().map(|name| format!("{name}'")).collect();
            let mut node = NodeProto { output: again, ..node };
            let given = graph.output.first().and_then(|output| output.name.clone());
            if let Some(input) = node.input.first_mut()
                && let Some(name) = given.or_else(|| random.pick(names).cloned())
            {
                *input = name;
            }
            if let (Some(output), Some(name)) = (graph.output.first_mut(), node.output.first()) {
                output.name = Some(name.clone());
                output.r#type = None;
            }
            if graph.node.len() < 64 {
                graph.node.push(node);
            }
        }
    }
}

fn change_node(node: &mut NodeProto, other: &NodeProto, names: &[String], random: &mut Random) {
    match random.below(8) {
        0 => {
            node.op_type.clone_from(&other.op_type);
            node.domain.clone_from(&other.domain);
        }
        1 => {
            let domain = ["", "", "", "com.microsoft"][random.below(4)];
            let all = infc_frontend_onnx::supported_operators(domain);
            if let Some(name) = random.pick(&all) {
                node.op_type = Some((*name).to_owned());
                node.domain = Some(domain.to_owned());
            }
        }
        2 => {
            let at = random.below(node.input.len());
            if let (Some(input), Some(name)) = (node.input.get_mut(at), random.pick(names)) {
                input.clone_from(name);
            }
        }
        3 => match random.below(4) {
            0 => drop(node.input.pop()),
            1 => node.input.push(String::new()),
            2 => {
                let at = random.below(node.input.len());
                node.input.get_mut(at).into_iter().for_each(String::clear);
            }
            _ => node.input.extend(random.pick(names).cloned()),
        },
        4 => match random.below(2) {
            0 => drop(node.output.pop()),
            _ => node.output.push(format!("more{}", random.below(1000))),
        },
        5 => {
            let count = node.attribute.len();
            if count > 0 {
                node.attribute.remove(random.below(count));
            }
        }
        _ => {
            let at = random.below(node.attribute.len());
            if let Some(attribute) = node.attribute.get_mut(at) {
                change_attribute(attribute, random);
            }
        }
    }
}

fn change_attribute(attribute: &mut AttributeProto, random: &mut Random) {
    if let Some(number) = &mut attribute.i {
        *number = random.number(*number);
    }
    if let Some(number) = &mut attribute.f {
        *number = FLOATS[random.below(FLOATS.len())];
    }
    if attribute.s.is_some() {
        attribute.s = Some(TEXTS[random.below(TEXTS.len())].as_bytes().to_vec().into());
    }
    if let Some(tensor) = &mut attribute.t {
        change_tensor(tensor, random);
    }
    change_list(&mut attribute.ints, random, |random, near| random.number(near));
    change_list(&mut attribute.floats, random, |random, _| FLOATS[random.below(FLOATS.len())]);
}

fn change_list<T: Copy>(list: &mut Vec<T>, random: &mut Random, other: impl Fn(&mut Random, T) -> T) {
    let at = random.below(list.len());
    let Some(&element) = list.get(at) else { return };
    match random.below(6) {
        0 => drop(list.pop()),
        1 if list.len() < 64 => list.push(other(random, element)),
        _ => list[at] = other(random, element),
    }
}

fn change_port(port: &mut ValueInfoProto, random: &mut Random) {
    let Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), .. }) = &mut port.r#type else { return };
    match random.below(5) {
        0 => tensor.elem_type = Some(random.below(27) as i32),
        1 if random.one_in(3) => tensor.shape = None,
        _ => change_shape(tensor.shape.get_or_insert_with(TensorShapeProto::default), random),
    }
}

fn change_shape(shape: &mut TensorShapeProto, random: &mut Random) {
    let near = |dim: &Dimension| match dim.value {
        Some(dimension::Value::DimValue(value)) => value,
        _ => 1,
    };
    let at = random.below(shape.dim.len());
    match random.below(8) {
        0 => drop(shape.dim.pop()),
        1 => shape.dim.push(Dimension { denotation: None, value: Some(dimension::Value::DimValue(1)) }),
        2..5 => {
            let Some(dim) = shape.dim.get_mut(at) else { return };
            let name = ["N", "M", "", "?"][random.below(4)].to_owned();
            dim.value = Some(dimension::Value::DimParam(name));
        }
        _ => {
            let Some(dim) = shape.dim.get_mut(at) else { return };
            dim.value = Some(dimension::Value::DimValue(random.number(near(dim))));
        }
    }
}

fn change_tensor(tensor: &mut TensorProto, random: &mut Random) {
    match random.below(6) {
        0 => tensor.data_type = Some(random.below(27) as i32),
        1 => change_list(&mut tensor.dims, random, |random, near| random.number(near)),
        2 => change_list(&mut tensor.int64_data, random, |random, near| random.number(near)),
        _ => {
            let Some(raw) = &mut tensor.raw_data else { return };
            let mut bytes = raw.to_vec();
            // Most of what matters are integers of eight bytes.
            let words = bytes.len() / 8;
            if words > 0 && random.one_in(2) {
                let at = 8 * random.below(words);
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[at..at + 8]);
                let number = random.number(i64::from_le_bytes(word));
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            } else if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            *raw = bytes.into();
        }
    }
}
