//! The engine of peephole passes: rules look at one node and say what replaces it.
//!
//! A rule is `fn(&Site) -> Option<Replacement>`, written under its equation. It sees the node with operands that were
//! rewritten already, so chains collapse in one sweep. The engine keeps the order topological, forwards users to the
//! replacement, and merges origins.

use super::{Changed, PassContext};
use infc_ir::entity::{NodeId, OriginId, ValueId};
use infc_ir::graph::{Definition, Graph, Node, TensorType};
use infc_ir::op::Op;

/// Where users of replaced values go.
#[derive(Debug)]
pub struct Forward {
    to: Vec<ValueId>,
}

impl Forward {
    /// Every value goes to itself.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        Self { to: graph.values.ids().collect() }
    }

    /// Users of `old` are to read `new`, which is not replaced later.
    pub fn set(&mut self, old: ValueId, new: ValueId) {
        self.to[old.0 as usize] = new;
    }

    /// What to read instead of a value.
    #[must_use]
    pub fn resolve(&self, value: ValueId) -> ValueId {
        // Values made after this table are never replaced in the same sweep. Replacements refer to resolved values.
        self.to.get(value.0 as usize).copied().unwrap_or(value)
    }

    /// Makes a node read the replacements.
    pub fn resolve_inputs(&self, graph: &mut Graph, node: NodeId) {
        for input in &mut graph.nodes[node].inputs {
            *input = self.resolve(*input);
        }
    }

    /// Makes the graph's outputs the replacements.
    pub fn resolve_outputs(&self, graph: &mut Graph) {
        for output in &mut graph.outputs {
            output.value = self.resolve(output.value);
        }
    }
}

/// An operand of a node of a [`Replacement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A value that the graph has.
    Old(ValueId),
    /// An output of a node of the replacement.
    New(usize, usize),
}

impl From<ValueId> for Operand {
    fn from(value: ValueId) -> Self {
        Operand::Old(value)
    }
}

#[derive(Clone, Debug)]
struct Draft {
    op: Op,
    inputs: Vec<Operand>,
    types: Vec<TensorType>,
}

/// New nodes, and what the outputs of the replaced node become.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    drafts: Vec<Draft>,
    outputs: Vec<Operand>,
    absorbed: Vec<OriginId>,
}

impl Replacement {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The outputs become these values.
    #[must_use]
    pub fn with(outputs: Vec<Operand>) -> Self {
        Self { outputs, ..Self::default() }
    }

    /// One node with as many outputs takes the place.
    #[must_use]
    pub fn node(op: Op, inputs: &[ValueId], types: Vec<TensorType>) -> Self {
        let inputs = inputs.iter().map(|&v| v.into()).collect();
        let outputs = (0..types.len()).map(|n| Operand::New(0, n)).collect();
        Self { drafts: vec![Draft { op, inputs, types }], outputs, absorbed: Vec::new() }
    }

    /// Adds a node of one output.
    pub fn add(&mut self, op: Op, inputs: &[Operand], ty: TensorType) -> Operand {
        self.add_node(op, inputs, vec![ty]);
        Operand::New(self.drafts.len() - 1, 0)
    }

    /// Adds a node and returns its number.
    pub fn add_node(&mut self, op: Op, inputs: &[Operand], types: Vec<TensorType>) -> usize {
        self.drafts.push(Draft { op, inputs: inputs.to_vec(), types });
        self.drafts.len() - 1
    }

    /// What the outputs of the replaced node become.
    pub fn set_outputs(&mut self, outputs: Vec<Operand>) {
        self.outputs = outputs;
    }

    /// The new nodes also stand for the ONNX nodes of this one.
    #[must_use]
    pub fn absorbing(mut self, node: &Node) -> Self {
        self.absorbed.push(node.origin);
        self
    }
}

/// What a rule sees.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The graph; nodes before this one are rewritten already.
    pub graph: &'a Graph,
    /// The node that may be replaced.
    pub id: NodeId,
    /// How often values are read; never less than the truth.
    uses: &'a [u32],
    /// For notes and options.
    pub cx: &'a PassContext,
}

impl<'a> Site<'a> {
    /// The node.
    #[must_use]
    pub fn node(&self) -> &'a Node {
        &self.graph.nodes[self.id]
    }

    /// The type of the node's n-th output.
    #[must_use]
    pub fn output_type(&self, n: usize) -> &'a TensorType {
        self.graph.ty(self.node().outputs[n])
    }

    /// The types of all outputs.
    #[must_use]
    pub fn output_types(&self) -> Vec<TensorType> {
        self.node().outputs.iter().map(|&o| self.graph.ty(o).clone()).collect()
    }

    /// True if nobody but this node reads the value, and it only once.
    #[must_use]
    pub fn is_only_use(&self, value: ValueId) -> bool {
        self.uses.get(value.0 as usize).copied().unwrap_or(0) <= 1
    }

    /// How often the value is read.
    #[must_use]
    pub fn use_count(&self, value: ValueId) -> u32 {
        self.uses.get(value.0 as usize).copied().unwrap_or(0)
    }

    /// The node that makes the value.
    #[must_use]
    pub fn producer(&self, value: ValueId) -> Option<&'a Node> {
        self.graph.producer(value).map(|(_, node)| node)
    }
}

/// A rewrite of one node.
pub type Rule = fn(&Site<'_>) -> Option<Replacement>;

/// Goes once over the graph and applies to every node the first rule that fits.
pub fn sweep(graph: &mut Graph, cx: &PassContext, rules: &[Rule]) -> Changed {
    let mut uses = graph.use_counts();
    let mut forward = Forward::new(graph);
    let mut changed = false;
    for id in std::mem::take(&mut graph.order) {
        forward.resolve_inputs(graph, id);
        let outputs = graph.nodes[id].outputs.clone();
        if outputs.iter().all(|o| uses[o.0 as usize] == 0) {
            // Replaced by a rule that looked through it. Leaving it out needs no pass of its own.
            changed = true;
            continue;
        }
        let site = Site { graph, id, uses: &uses, cx };
        let Some(replacement) = rules.iter().find_map(|rule| rule(&site)) else {
            graph.order.push(id);
            continue;
        };
        changed = true;
        let new = insert(graph, id, &replacement);
        uses.resize(graph.values.len(), 0);
        for (&old, &value) in outputs.iter().zip(&new.outputs) {
            forward.set(old, value);
            uses[value.0 as usize] += uses[old.0 as usize];
            uses[old.0 as usize] = 0;
        }
        for node in new.nodes {
            graph.nodes[node].inputs.iter().for_each(|i| uses[i.0 as usize] += 1);
        }
        release(graph, id, &mut uses);
    }
    forward.resolve_outputs(graph);
    changed.into()
}

struct Inserted {
    nodes: Vec<NodeId>,
    outputs: Vec<ValueId>,
}

fn insert(graph: &mut Graph, replaced: NodeId, replacement: &Replacement) -> Inserted {
    let origin = replacement
        .absorbed
        .iter()
        .fold(graph.nodes[replaced].origin, |origin, &other| graph.merge_origins(origin, other));
    let mut nodes = Vec::with_capacity(replacement.drafts.len());
    let value = |graph: &Graph, nodes: &[NodeId], operand: Operand| match operand {
        Operand::Old(value) => value,
        Operand::New(n, output) => graph.nodes[nodes[n]].outputs[output],
    };
    for draft in &replacement.drafts {
        let inputs: Vec<ValueId> = draft.inputs.iter().map(|&o| value(graph, &nodes, o)).collect();
        nodes.push(graph.nodes.next_id());
        graph.add_node(draft.op.clone(), &inputs, draft.types.clone(), origin);
    }
    let outputs = replacement.outputs.iter().map(|&o| value(graph, &nodes, o)).collect();
    Inserted { nodes, outputs }
}

/// The node reads nothing any more; what only it read is not read either.
fn release(graph: &Graph, node: NodeId, uses: &mut [u32]) {
    let mut work = vec![node];
    while let Some(node) = work.pop() {
        for input in &graph.nodes[node].inputs {
            let count = &mut uses[input.0 as usize];
            *count = count.saturating_sub(1);
            if let (0, Definition::Node(producer, _)) = (*count, graph.values[*input].definition)
                && graph.nodes[producer].outputs.iter().all(|o| uses[o.0 as usize] == 0)
            {
                work.push(producer);
            }
        }
    }
}
