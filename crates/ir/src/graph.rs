//! Graphs: dataflow over core ops with symbolic dims.

mod rewrite;

use crate::entity::{EntityId, IndexVec, NodeId, OriginId, SymbolId, ValueId};
use crate::index::Dim;
use crate::op::Op;
use crate::symbol::Symbols;
use infc_tensor::DType;

/// Element type and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents; empty for a scalar.
    pub shape: Vec<Dim>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// The n-th input of the graph.
    Input(u32),
    /// An output of a node.
    Node(NodeId, u32),
}

/// A tensor flowing through the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Type and shape.
    pub ty: TensorType,
    /// See [`Definition`].
    pub definition: Definition,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Operands, in order.
    pub inputs: Vec<ValueId>,
    /// Results, in order.
    pub outputs: Vec<ValueId>,
    /// The ONNX nodes it stands for.
    pub origin: OriginId,
}

/// A named input or output of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name in the model.
    pub name: String,
    /// The value.
    pub value: ValueId,
    /// The type that users see, where elements have at most a byte and no arithmetic. The value then holds the bytes as
    /// `u8`: one per element in the same shape, or a vector of packed elements, low bits first. Or where the value is a sequence
    /// of one tensor, which users see without the sequence: its element type, and no axes, as only a run tells how many it has
    /// ([`Graph::is_unranked`]).
    pub declared: Option<TensorType>,
}

impl Port {
    /// A port whose type is that of its value.
    #[must_use]
    pub fn new(name: &str, value: ValueId) -> Self {
        Self { name: name.to_owned(), value, declared: None }
    }
}

/// Something that must hold of the dims when the graph is computed; what it is computed with relies on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Two extents.
    pub left: Dim,
    /// See `left`.
    pub right: Dim,
    /// Whether they must be equal, or must differ.
    pub equal: bool,
    /// What they are, for people.
    pub what: String,
}

impl Requirement {
    /// What is taken for granted, as something that must hold where it stands; `origin` names the nodes that need it.
    #[must_use]
    pub fn of(assumption: &Assumption, origin: &[String]) -> Self {
        let Assumption { what, left, relation, right, .. } = assumption;
        let nodes = origin.iter().map(|node| format!("`{node}`")).collect::<Vec<_>>().join(", ");
        let of = if nodes.is_empty() { String::new() } else { format!(" of {nodes}") };
        match relation {
            Relation::Equal => {
                Self { left: left.clone(), right: right.clone(), equal: true, what: format!("{what}{of}") }
            }
            Relation::AtMost => Self {
                left: left.minimum(right),
                right: left.clone(),
                equal: true,
                what: format!("{what}{of}, as far as it counts, and the least that it may be"),
            },
        }
    }

    /// Whether it is an assumption that said `what` ([`Requirement::of`]).
    #[must_use]
    pub fn was(&self, what: &str) -> bool {
        self.equal
            && self
                .what
                .strip_prefix(what)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(" of `") || rest.starts_with(','))
    }
}

/// Where the value of a symbol comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SymbolSource {
    /// The extent of an axis of an input.
    Axis {
        /// Number of the input.
        input: u32,
        /// The axis.
        axis: u32,
    },
    /// An element of an input of integers or bools.
    Element {
        /// Number of the input.
        input: u32,
        /// Position in row-major order.
        index: u32,
    },
    /// The number within the symbol's range that is nearest to an element of an input of integers or bools: for what means
    /// the same from somewhere on.
    Nearest {
        /// Number of the input.
        input: u32,
        /// Position in row-major order.
        index: u32,
    },
    /// The value of an expression of earlier symbols; where those are known late, so is this.
    Computed(Dim),
    /// The extent of an axis of a value that an operation computes; known once that is done.
    Produced {
        /// The value.
        value: ValueId,
        /// The axis.
        axis: u32,
    },
}

/// How two sizes relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// They are the same.
    Equal,
    /// The first is at most the second.
    AtMost,
}

/// What [`Assumption::what`] says of extents of operands that are broadcast to each other: they are equal, unless one is 1.
pub const BROADCAST_EXTENTS: &str = "broadcast extents";

/// What is taken for granted of an extent of 1 or none where it is broadcast to another one: that it is 1 if there is anything.
pub const REPEATED_EXTENT: &str = "an extent that is repeated";

/// What is taken for granted of a position of a slice that may count from either end: that it counts from the one that dims of
/// models count from.
pub const SLICE_POSITION: &str = "the positions of a slice";

/// As [`SLICE_POSITION`], of positions that are looked up.
pub const LOOKED_UP_POSITION: &str = "the positions that are looked up";

/// What the graph takes for granted of its dims because it cannot be proven; it is checked before a model runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// What the sizes are, for people: `broadcast extents`.
    pub what: String,
    /// One size.
    pub left: Dim,
    /// What must hold.
    pub relation: Relation,
    /// The other.
    pub right: Dim,
    /// The ONNX nodes that need it.
    pub origin: OriginId,
}

/// A dataflow graph. Nodes are in topological order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// For people.
    pub name: String,
    /// Symbolic dims.
    pub symbols: Symbols,
    /// Every value ever made; dead ones are not reachable from nodes, inputs or outputs.
    pub values: IndexVec<ValueId, Value>,
    /// Every node ever made; only those in `order` count.
    pub nodes: IndexVec<NodeId, Node>,
    /// The living nodes, operands before users.
    pub order: Vec<NodeId>,
    /// Inputs of the model, in order.
    pub inputs: Vec<Port>,
    /// Outputs of the model, in order.
    pub outputs: Vec<Port>,
    /// What must hold of the symbols; that of a branch of an [`Op::If`] only where the branch is taken.
    pub requires: Vec<Requirement>,
    /// Names of ONNX nodes, sorted, per origin.
    pub origins: IndexVec<OriginId, Vec<String>>,
    /// Where symbols come from that are not themselves an axis of an input; see [`Graph::source`].
    pub sources: Vec<(SymbolId, SymbolSource)>,
    /// What is taken for granted of dims.
    pub assumptions: Vec<Assumption>,
    /// Values that dims of inputs have in most runs, by name, as operators tell: a decoder that keeps a cache is given one
    /// token at a time, trees are asked about one row. Nothing rests on it, and text has none of it.
    pub usual: Vec<(String, i64)>,
}

impl TensorType {
    /// A type from its parts.
    #[must_use]
    pub fn new(dtype: DType, shape: Vec<Dim>) -> Self {
        Self { dtype, shape }
    }

    /// The shape, if every extent is a number.
    #[must_use]
    pub fn static_shape(&self) -> Option<Vec<i64>> {
        self.shape.iter().map(Dim::as_const).collect()
    }
}

/// Names of ONNX nodes that an origin keeps: a value may stand for any number of equal ones.
pub const MAX_ORIGIN_NAMES: usize = 64;

impl Graph {
    /// Adds an input.
    pub fn add_input(&mut self, name: &str, ty: TensorType) -> ValueId {
        let n = self.inputs.len() as u32;
        let value = self.values.push(Value { ty, definition: Definition::Input(n) });
        self.inputs.push(Port::new(name, value));
        value
    }

    /// Adds a node at the end of the order and makes its output values.
    pub fn add_node(&mut self, op: Op, inputs: &[ValueId], types: Vec<TensorType>, origin: OriginId) -> Vec<ValueId> {
        let node = self.nodes.next_id();
        let outputs: Vec<ValueId> = types
            .into_iter()
            .enumerate()
            .map(|(n, ty)| self.values.push(Value { ty, definition: Definition::Node(node, n as u32) }))
            .collect();
        self.nodes.push(Node { op, inputs: inputs.to_vec(), outputs: outputs.clone(), origin });
        self.order.push(node);
        outputs
    }

    /// As [`Graph::add_node`], for the usual case of one output.
    pub fn add(&mut self, op: Op, inputs: &[ValueId], ty: TensorType, origin: OriginId) -> ValueId {
        self.add_node(op, inputs, vec![ty], origin)[0]
    }

    /// Says that something must hold, once.
    pub fn require(&mut self, requirement: Requirement) {
        let same = |r: &Requirement| {
            (&r.left, &r.right, r.equal) == (&requirement.left, &requirement.right, requirement.equal)
        };
        if !self.requires.iter().any(same) {
            self.requires.push(requirement);
        }
    }

    /// Whether something is assumed or required of dims, in branches, too: else the graph is for all values that its symbols
    /// may have.
    #[must_use]
    pub fn takes_for_granted(&self) -> bool {
        let within = |id: &NodeId| match &self.nodes[*id].op {
            Op::If(branches) => branches.then.takes_for_granted() || branches.otherwise.takes_for_granted(),
            _ => false,
        };
        !self.assumptions.is_empty() || !self.requires.is_empty() || self.order.iter().any(within)
    }

    /// Where the value of a symbol comes from: what `sources` says, else the first axis of an input that it is, else the
    /// operation that produces it; `None` if there is none.
    #[must_use]
    pub fn source(&self, symbol: SymbolId) -> Option<SymbolSource> {
        if let Some((_, source)) = self.sources.iter().find(|(s, _)| *s == symbol) {
            return Some(source.clone());
        }
        let of_input = self.inputs.iter().enumerate().find_map(|(input, port)| {
            let axis = self.port_type(port).shape.iter().position(|d| d.as_symbol() == Some(symbol))?;
            Some(SymbolSource::Axis { input: input as u32, axis: axis as u32 })
        });
        of_input.or_else(|| self.produced(symbol))
    }

    /// The value of this graph, not of one inside of it, whose extent a symbol is.
    fn produced(&self, symbol: SymbolId) -> Option<SymbolSource> {
        self.order.iter().find_map(|&id| {
            let node = self.nodes.get(id)?;
            let found = node.op.produces().iter().find(|p| p.symbol == symbol)?;
            let value = *node.outputs.get(found.output as usize)?;
            Some(SymbolSource::Produced { value, axis: found.axis })
        })
    }

    /// For each symbol whether its value is known only when something has been computed: what an operation produces, and
    /// what follows from that.
    #[must_use]
    pub fn late_symbols(&self) -> Vec<bool> {
        let count = self.symbols.ids().count();
        let mut late = vec![false; count];
        for node in self.order.iter().filter_map(|&id| self.nodes.get(id)) {
            let produced = node.op.produces().iter().filter(|p| (p.output as usize) < node.outputs.len());
            produced.map(|p| p.symbol.index()).filter(|&symbol| symbol < count).for_each(|symbol| late[symbol] = true);
        }
        // What the graph says of a symbol comes first, then what its inputs do (see `source`).
        let axes = self.inputs.iter().flat_map(|input| &self.port_type(input).shape).filter_map(Dim::as_symbol);
        for symbol in axes.map(EntityId::index).filter(|&symbol| symbol < count) {
            late[symbol] = false;
        }
        let mut said: Vec<Option<&SymbolSource>> = vec![None; count];
        for (symbol, source) in &self.sources {
            if let Some(said) = said.get_mut(symbol.index()) {
                said.get_or_insert(source);
            }
        }
        // Of earlier symbols, so one pass is enough.
        for (symbol, source) in said.into_iter().enumerate() {
            late[symbol] = match source {
                Some(SymbolSource::Produced { .. }) => true,
                Some(SymbolSource::Computed(value)) => {
                    value.symbols().iter().any(|s| s.index() < symbol && late[s.index()])
                }
                Some(SymbolSource::Axis { .. } | SymbolSource::Element { .. } | SymbolSource::Nearest { .. }) => false,
                None => late[symbol],
            };
        }
        late
    }

    /// The type of an input or output as users see it.
    #[must_use]
    pub fn port_type<'a>(&'a self, port: &'a Port) -> &'a TensorType {
        port.declared.as_ref().unwrap_or_else(|| self.ty(port.value))
    }

    /// True of an input or output with as many axes as each run has.
    #[must_use]
    pub fn is_unranked(&self, port: &Port) -> bool {
        port.declared.is_some() && self.ty(port.value).dtype == DType::Sequence
    }

    /// The type of a value.
    #[must_use]
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value].ty
    }

    /// The node that computes a value, unless it is an input.
    #[must_use]
    pub fn producer(&self, value: ValueId) -> Option<(NodeId, &Node)> {
        match self.values[value].definition {
            Definition::Input(_) => None,
            Definition::Node(node, _) => Some((node, &self.nodes[node])),
        }
    }

    /// The origin that stands for both, by the first [`MAX_ORIGIN_NAMES`] of their names.
    pub fn merge_origins(&mut self, a: OriginId, b: OriginId) -> OriginId {
        let (x, y) = (&self.origins[a], &self.origins[b]);
        let mut names: Vec<&String> = x.iter().chain(y).collect();
        names.sort();
        names.dedup();
        names.truncate(MAX_ORIGIN_NAMES);
        let is = |own: &[String]| names.iter().copied().eq(own);
        if is(x) {
            return a;
        }
        if is(y) {
            return b;
        }
        let names = names.into_iter().cloned().collect();
        self.origins.push(names)
    }

    /// How often each value is read: by nodes in `order`, as graph outputs, and by what else a node has influence on
    /// ([`Op::has_influence`]), for which its first output counts.
    #[must_use]
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        for &node in &self.order {
            for input in &self.nodes[node].inputs {
                counts[input.0 as usize] += 1;
            }
            let has_influence = self.nodes[node].op.has_influence();
            if let Some(first) = self.nodes[node].outputs.first().filter(|_| has_influence) {
                counts[first.0 as usize] += 1;
            }
        }
        for output in &self.outputs {
            counts[output.value.0 as usize] += 1;
        }
        counts
    }

    /// Makes every reader of `old` read `new`.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        for &node in &self.order {
            for input in &mut self.nodes[node].inputs {
                if *input == old {
                    *input = new;
                }
            }
        }
        for output in &mut self.outputs {
            if output.value == old {
                output.value = new;
            }
        }
    }
}
