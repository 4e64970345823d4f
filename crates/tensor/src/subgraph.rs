//! The graphs that an ONNX node holds, for operators that are evaluated by their definitions: `Loop`, `SequenceMap`.
//!
//! They lie in one list, and nodes refer to graphs further on by number. So what is read from a file has no nesting of
//! its own, and evaluation goes no deeper than the list is long.

use crate::{Attributes, DType, Tensor};
use serde::{Deserialize, Serialize};

/// How many graphs a node may hold, those of nodes within included.
pub const MAX_SUBGRAPHS: usize = 64;

/// The graphs of a node, and those of the nodes in them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraphs {
    /// The attributes of the node that are graphs: their names, and indices into `graphs`.
    pub roots: Vec<(String, u32)>,
    /// The names that the graphs take from around the node, in the order of the node's last inputs.
    pub captures: Vec<String>,
    /// All graphs; nodes of one refer to those behind it only.
    pub graphs: Vec<Subgraph>,
}

/// One graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraph {
    /// The names of the inputs.
    pub inputs: Vec<String>,
    /// Constants by name.
    pub constants: Vec<(String, Tensor)>,
    /// The nodes, in an order in which they can be evaluated.
    pub nodes: Vec<SubgraphNode>,
    /// The outputs.
    pub outputs: Vec<SubgraphOutput>,
}

/// An output of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubgraphOutput {
    /// The name.
    pub name: String,
    /// The element type that the model declares.
    pub dtype: DType,
    /// The extents; 0 where the model does not say one.
    pub shape: Vec<u64>,
}

/// One node of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubgraphNode {
    /// The operator.
    pub op_type: String,
    /// Its domain; empty for ONNX's own.
    pub domain: String,
    /// The version of the domain.
    pub opset: i64,
    /// The attributes but for graphs.
    pub attributes: Attributes,
    /// The attributes that are graphs: names, and indices into [`Subgraphs::graphs`].
    pub graphs: Vec<(String, u32)>,
    /// The names of the inputs; empty where one is left out.
    pub inputs: Vec<String>,
    /// The names of the outputs; empty where nobody reads one.
    pub outputs: Vec<String>,
}

impl Subgraphs {
    /// True if the node holds no graph.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The operator that is evaluated in the end, of a node that holds these graphs: of a `SequenceMap` over the graph of one
    /// node, which is how values of any number of axes are computed, that node's.
    #[must_use]
    pub fn innermost_operator<'a>(&'a self, op_type: &'a str) -> &'a str {
        match self.graphs.first().map(|graph| &graph.nodes[..]) {
            Some([node]) if op_type == "SequenceMap" && self.captures.is_empty() => &node.op_type,
            _ => op_type,
        }
    }

    /// What is wrong with the numbers of graphs, if something is.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        if self.graphs.len() > MAX_SUBGRAPHS {
            return Some("more graphs than a node may hold");
        }
        let behind = |first: usize, list: &[(String, u32)]| {
            list.iter().all(|&(_, graph)| (first..self.graphs.len()).contains(&(graph as usize)))
        };
        let ordered =
            self.graphs.iter().enumerate().all(|(n, g)| g.nodes.iter().all(|node| behind(n + 1, &node.graphs)));
        (!ordered || !behind(0, &self.roots)).then_some("a graph that does not lie behind the one that refers to it")
    }
}
