//! The fused graph of an artifact as a picture: what a run launches, and what flows between.
//!
//! [`Picture`] says what is drawn, [`layers`] where, and one file per format how: [`svg`], [`dot`], [`onnx`].

pub(crate) mod dot;
mod layers;
pub(crate) mod onnx;
pub(crate) mod svg;

use crate::tables::{self, value};
use infc_artifact::{Access, Entry, Program, Slot, Step, VariantBody, WeightRecord};
use std::collections::BTreeMap;

/// Steps of a Program as nodes of a graph, with the inputs and outputs of the entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Input,
    Output,
    /// A launch of a kernel.
    Kernel,
    /// An operator that the host evaluates.
    Host,
    /// A copy of bytes, or a choice between steps.
    Other,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Index of the step; `None` of inputs and outputs.
    pub(crate) step: Option<usize>,
    /// Name of the kernel, operator, input or output.
    pub(crate) title: String,
    /// The ONNX nodes that it stands for.
    pub(crate) origins: Vec<String>,
    /// A type, or figures: what is written below the title.
    pub(crate) facts: Vec<String>,
    /// Constants that it reads, with type and layout.
    pub(crate) weights: Vec<String>,
    pub(crate) schedule: String,
    /// Part of the time of a run, where that was measured.
    pub(crate) share: Option<f64>,
}

/// A value on its way from a node that writes it to one that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Index of the slot.
    pub(crate) slot: u32,
    /// Its type, or its size where the file knows no more.
    pub(crate) label: String,
}

impl Node {
    fn new(kind: Kind, title: impl Into<String>) -> Self {
        Self {
            kind,
            step: None,
            title: title.into(),
            origins: Vec::new(),
            facts: Vec::new(),
            weights: Vec::new(),
            schedule: String::new(),
            share: None,
        }
    }
}

impl Picture {
    /// The graph of an entry's Program in a variant, at values of the entry's symbols. `shares` has, by step, parts of
    /// the time of a run.
    pub(crate) fn new(
        entry: &Entry,
        program: &Program,
        body: &VariantBody,
        weights: &[WeightRecord],
        symbols: &[i64],
        shares: Option<&[f64]>,
    ) -> Self {
        let names = entry.symbol_names();
        let mut draft = Draft { entry, program, symbols, picture: Self::default(), writers: BTreeMap::new() };
        for (index, port) in entry.inputs.iter().enumerate() {
            let node = draft.add(Node { facts: vec![port.type_text(&names)], ..Node::new(Kind::Input, &port.name) });
            for slot in slots(program, &Slot::Input(index as u32)) {
                draft.writers.insert(slot, vec![node]);
            }
        }
        for (index, step) in program.steps.iter().enumerate() {
            let Some(node) = node_of(step, body, weights, program, symbols) else { continue };
            let share = shares.and_then(|shares| shares.get(index).copied());
            let node = draft.add(Node { step: Some(index), share, ..node });
            draft.connect(step, node);
        }
        for (index, port) in entry.outputs.iter().enumerate() {
            let node = draft.add(Node { facts: vec![port.type_text(&names)], ..Node::new(Kind::Output, &port.name) });
            let given = program.steps.iter().filter_map(|step| match step {
                Step::Give(give) if give.output as usize == index => Some(give.slot),
                _ => None,
            });
            for slot in slots(program, &Slot::Output(index as u32)).into_iter().chain(given) {
                draft.read(slot, node);
            }
        }
        draft.picture
    }
}

/// The slots that are this one.
fn slots(program: &Program, wanted: &Slot) -> Vec<u32> {
    (0..).zip(&program.slots).filter(|(_, slot)| *slot == wanted).map(|(index, _)| index).collect()
}

/// A picture in the making.
struct Draft<'a> {
    entry: &'a Entry,
    program: &'a Program,
    symbols: &'a [i64],
    picture: Picture,
    /// By slot, the nodes that have written it.
    writers: BTreeMap<u32, Vec<usize>>,
}

impl Draft<'_> {
    fn add(&mut self, node: Node) -> usize {
        self.picture.nodes.push(node);
        self.picture.nodes.len() - 1
    }

    fn connect(&mut self, step: &Step, node: usize) {
        for (slot, access) in step.accesses() {
            if access != Access::Write {
                self.read(slot, node);
            }
        }
        for (slot, access) in step.accesses() {
            let writers = self.writers.entry(slot).or_default();
            if access == Access::ReadWrite {
                writers.clear();
            }
            if access.writes() && !writers.contains(&node) {
                // A value may be put together by several, each writing its part.
                writers.push(node);
            }
        }
    }

    fn read(&mut self, slot: u32, to: usize) {
        for from in self.writers.get(&slot).cloned().unwrap_or_default() {
            let edge = Edge { from, to, slot, label: self.label(slot) };
            if from != to && !self.picture.edges.contains(&edge) {
                self.picture.edges.push(edge);
            }
        }
    }

    fn label(&self, slot: u32) -> String {
        let names = self.entry.symbol_names();
        match self.program.slots.get(slot as usize) {
            Some(Slot::Input(n)) => self.entry.inputs.get(*n as usize).map(|port| port.type_text(&names)),
            Some(Slot::Output(n)) => self.entry.outputs.get(*n as usize).map(|port| port.type_text(&names)),
            Some(Slot::Arena(slot)) => value(&slot.size_bytes, self.symbols).map(tables::bytes),
            Some(Slot::Host(slot)) => {
                let extents: Vec<String> = slot.shape.iter().map(|extent| extent.to_text(&names)).collect();
                Some(format!("{}[{}]", slot.dtype.name(), extents.join(", ")))
            }
            Some(Slot::Weight(_)) | None => None,
        }
        .unwrap_or_default()
    }
}

/// How a step is drawn; `None` of those that move no data.
fn node_of(
    step: &Step,
    body: &VariantBody,
    weights: &[WeightRecord],
    program: &Program,
    symbols: &[i64],
) -> Option<Node> {
    let mut node = match step {
        Step::Launch(launch) => {
            let kernel = body.kernels.get(launch.kernel as usize)?;
            let count = |size: &Option<infc_artifact::SizeExpr>| value(size.as_ref()?, symbols);
            let macs = count(&kernel.macs).map(|macs| format!("{} MAC", tables::count(macs)));
            let bytes = count(&kernel.bytes).map(tables::bytes);
            Node {
                origins: kernel.origins.clone(),
                facts: macs.into_iter().chain(bytes).collect(),
                schedule: kernel.schedule.clone(),
                ..Node::new(Kind::Kernel, &kernel.name)
            }
        }
        Step::Host(host) => Node {
            origins: host.origins.clone(),
            facts: vec!["on the host".to_owned()],
            ..Node::new(Kind::Host, &host.op_type)
        },
        Step::Copy(copy) => {
            let facts = value(&copy.size_bytes, symbols).map(tables::bytes).into_iter().collect();
            Node { facts, ..Node::new(Kind::Other, "copy") }
        }
        Step::If(_) => Node::new(Kind::Other, "if"),
        _ => return None,
    };
    let records = step.accesses().filter_map(|(slot, _)| match program.slots.get(slot as usize)? {
        Slot::Weight(index) => weights.get(*index as usize),
        _ => None,
    });
    node.weights = records
        .map(|w| {
            let shape: Vec<String> = w.shape.iter().map(u64::to_string).collect();
            format!(
                "{}  {}[{}]  {}  {}",
                w.name,
                w.dtype.name(),
                shape.join(", "),
                w.layout,
                tables::bytes(w.len_bytes)
            )
        })
        .collect();
    Some(node)
}

/// The last parts of the names of ONNX nodes, which tell most: `conv1/Conv` of `/layer1/layer1.0/conv1/Conv`.
fn short(origin: &str) -> String {
    let parts: Vec<&str> = origin.split('/').filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}
