//! The operations of the graph: a small closed set, and composites that keep their name (ARCHITECTURE.md D1).

use crate::access::AccessMap;
use crate::entity::{ScalarId, SymbolId};
use crate::graph::{Graph, Port, SymbolSource};
use crate::index::Dim;
use crate::kernel::Reducer;
use crate::scalar::{Body, Const};
use infc_tensor::{Attributes, Subgraphs, Tensor};
use std::fmt;
use std::sync::Arc;

/// A constant tensor, shared.
#[derive(Clone, PartialEq)]
pub struct ConstantOp {
    /// The name of the initializer it came from, or what it was folded from.
    pub name: String,
    /// The elements.
    pub tensor: Tensor,
}

/// An element-wise function: all inputs have the shape of the output (broadcasting is a [`Op::View`]).
#[derive(Clone, Debug, PartialEq)]
pub struct MapOp {
    /// Over `Param(n)`, the element of the n-th input; [`crate::scalar::ScalarOp::Index`] may use the coordinates.
    pub body: Body,
    /// The value, one per output.
    pub results: Vec<ScalarId>,
}

/// Movement: every output element is one input element, or `otherwise`.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewOp {
    /// From output coordinates to input coordinates.
    pub map: AccessMap,
    /// The output shape.
    pub shape: Vec<Dim>,
    /// Where the map is not valid (padding).
    pub otherwise: Const,
}

/// Folds axes of the inputs (all of one shape); the folded axes disappear from the outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceOp {
    /// Axes folded, ascending.
    pub axes: Vec<usize>,
    /// Per point, from `Param(n)` (and coordinates) to the tuple that is folded.
    pub body: Body,
    /// The tuple.
    pub elements: Vec<ScalarId>,
    /// How the tuples are folded; one output per component.
    pub reducer: Reducer,
}

/// A sum of products over labelled axes: `out[…] = Σ lhs[…]·rhs[…]` (matrix product, convolution over a window view).
///
/// Labels are small numbers; a label that is not in `output` is summed over. Products and sums are of the output's type:
/// the inputs may have others, bytes that are summed in i32 for instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContractOp {
    /// A label per axis of the first input.
    pub lhs: Vec<u8>,
    /// A label per axis of the second input.
    pub rhs: Vec<u8>,
    /// A label per axis of the output.
    pub output: Vec<u8>,
}

/// Reads slices of the first input at integer positions given by the second.
///
/// `out[…before, …indices axes, …after] = data[…before, indices[…], …after]`; negative positions count from the end,
/// and positions out of range are clamped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherOp {
    /// The axis of the data that is looked up.
    pub axis: usize,
}

/// Puts inputs one after the other along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConcatOp {
    /// The axis.
    pub axis: usize,
}

/// A running fold along an axis (CumSum).
#[derive(Clone, Debug, PartialEq)]
pub struct ScanOp {
    /// The axis.
    pub axis: usize,
    /// From the far end.
    pub reverse: bool,
    /// An element does not count itself.
    pub exclusive: bool,
    /// How it folds; one component.
    pub reducer: Reducer,
}

/// One graph per step, in order, where a step sees what the step before computed (LSTM, GRU, ONNX `Scan`).
///
/// Inputs are the initial values of the states, then *slices*, whose first axis is the step, then what every step sees
/// as it is. The body has one input for each: the state that the step before left, one step's slice without its first
/// axis, the value itself. Its first outputs are the new states. Output n of the node is output n of the body, of all
/// steps, along a new first axis; so the final state is the last row, if there is a step.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrenceOp {
    /// Number of steps.
    pub steps: Dim,
    /// How many inputs are states.
    pub states: usize,
    /// How many inputs after the states are slices.
    pub slices: usize,
    /// What one step computes; over the symbols of the graph around it.
    pub body: Arc<Graph>,
}

/// One of two graphs, as a condition says; the other is not computed.
///
/// The first input is the condition, a bool without axes; the others are the inputs of both graphs. Both have outputs
/// of the same types, those of the node, but for extents that are symbols which the operation produces.
#[derive(Clone, Debug, PartialEq)]
pub struct IfOp {
    /// Extents that the branch tells that is computed.
    pub produces: Vec<Produced>,
    /// Where the condition holds; over the symbols of the graph around it.
    pub then: Arc<Graph>,
    /// Where it does not.
    pub otherwise: Arc<Graph>,
}

/// A symbol that gets its value from what an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Produced {
    /// Number of the node's output.
    pub output: u32,
    /// Its axis, whose extent is the value.
    pub axis: u32,
    /// The symbol; defined here and nowhere else.
    pub symbol: SymbolId,
}

/// An ONNX operator as it is: what no kernel computes. The runtime evaluates it by the operator's definition.
///
/// The node's inputs are those that are given, its outputs those that have a name. Extents that only the evaluation
/// tells are symbols, which the operation defines; all other extents of the outputs are checked against it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostOp {
    /// The operator: `NonMaxSuppression`.
    pub op_type: String,
    /// Its domain; empty for ONNX's own.
    pub domain: String,
    /// The version of the domain.
    pub opset: i64,
    /// Its attributes but for graphs.
    pub attributes: Attributes,
    /// The graphs that it holds.
    pub graphs: Subgraphs,
    /// One step of a loop, compiled. What it means is what `graphs` say; text has no place for it.
    pub body: Option<Arc<HostBody>>,
    /// Per input of the operator, whether it is given; then the values that its graphs take from around it.
    pub inputs: Vec<bool>,
    /// Per output of the operator, whether it is asked for.
    pub outputs: Vec<bool>,
    /// The symbols that it defines.
    pub produces: Vec<Produced>,
    /// Why no kernel computes it, for people.
    pub reason: String,
}

/// What a loop that the host drives computes in each step, as a graph of its own that becomes kernels (ONNX `Loop`).
///
/// Its inputs are the number of the step (i64, no axes), whether the loop goes on (bool, no axes), the states, and what it reads
/// from around the loop; its outputs whether the loop goes on, the states, and what each step adds to the outputs of the loop
/// behind its states.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBody {
    /// The graph, over symbols of its own.
    pub graph: Graph,
    /// What it reads behind the states: numbers of inputs of the operator, as in [`HostOp::inputs`].
    pub captures: Vec<u32>,
}

impl HostBody {
    /// What stands in front of the states among the inputs.
    pub const BEFORE_STATES: usize = 2;

    /// How many states the loop has.
    #[must_use]
    pub fn states(&self) -> usize {
        self.graph.inputs.len().saturating_sub(Self::BEFORE_STATES + self.captures.len())
    }

    /// Whether the graph is for all that the loop may give it, so that nobody has to evaluate the loop by its definition: it
    /// takes nothing for granted of extents, and nothing that it is given has to be within bounds to be a size, but for the
    /// number of the step, which is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let graph = &self.graph;
        let is_bounded = |source: &SymbolSource| match source {
            SymbolSource::Element { input, .. } if *input > 0 => {
                let port = graph.inputs.get(*input as usize);
                port.is_none_or(|port| graph.port_type(port).dtype.size_bits() >= 64)
            }
            SymbolSource::Computed(_) => true,
            _ => false,
        };
        !graph.takes_for_granted() && !graph.sources.iter().any(|(_, source)| is_bounded(source))
    }

    /// Whether no step changes an extent of a state; only of a body that [is whole](HostBody::is_whole) it is certain that
    /// none does.
    #[must_use]
    pub fn keeps(&self, state: usize, axis: usize) -> bool {
        let extent = |port: Option<&Port>| self.graph.port_type(port?).shape.get(axis).cloned();
        let (before, after) = (self.graph.inputs.get(Self::BEFORE_STATES + state), self.graph.outputs.get(1 + state));
        extent(before).is_some_and(|before| extent(after) == Some(before))
    }
}

impl HostOp {
    /// What makes a value of a shape (an input, i64) that other operations compute. If the value has no elements, it only makes
    /// the shape known, for which a runtime needs no definitions.
    #[must_use]
    pub fn shaping(reason: &str) -> Self {
        Self {
            op_type: "ConstantOfShape".to_owned(),
            domain: String::new(),
            opset: 9,
            attributes: Attributes::new(),
            graphs: Subgraphs::default(),
            body: None,
            inputs: vec![true],
            outputs: vec![true],
            produces: Vec::new(),
            reason: reason.to_owned(),
        }
    }

    /// As [`Subgraphs::innermost_operator`].
    #[must_use]
    pub fn innermost_operator(&self) -> &str {
        self.graphs.innermost_operator(&self.op_type)
    }

    /// What copies a value of any type.
    #[must_use]
    pub fn identity(reason: &str) -> Self {
        Self { op_type: "Identity".to_owned(), opset: 13, ..Self::shaping(reason) }
    }

    /// Whether it is a [`HostOp::shaping`].
    #[must_use]
    pub fn is_shaping(&self) -> bool {
        let is_plain = self.domain.is_empty() && self.attributes.is_empty() && self.graphs.is_empty();
        self.op_type == "ConstantOfShape" && is_plain
    }
}

/// What a composite is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named after the ONNX operators or the usual names")]
pub enum CompositeKind {
    Softmax,
    LogSoftmax,
    LayerNorm,
    Gelu,
    Attention,
    /// A product of matrices that are quantised in blocks along what is summed: integers are summed block by block, and the
    /// sums of blocks, scaled, in floats (`MatMulNBits` of ONNX Runtime).
    BlockProduct,
}

/// A known pattern with a definition in core ops.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeOp {
    /// What it is.
    pub kind: CompositeKind,
    /// Its definition: a graph with as many inputs and outputs.
    pub body: Arc<Graph>,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A constant tensor.
    Constant(Arc<ConstantOp>),
    /// See [`MapOp`].
    Map(MapOp),
    /// See [`ViewOp`].
    View(ViewOp),
    /// See [`ReduceOp`].
    Reduce(ReduceOp),
    /// See [`ContractOp`].
    Contract(ContractOp),
    /// See [`GatherOp`].
    Gather(GatherOp),
    /// See [`ConcatOp`].
    Concat(ConcatOp),
    /// See [`ScanOp`].
    Scan(ScanOp),
    /// See [`RecurrenceOp`].
    Recurrence(RecurrenceOp),
    /// See [`IfOp`].
    If(IfOp),
    /// The value of a dim (rank 0, i64): what remains of `Shape` where it is used as data.
    DimValue(Dim),
    /// See [`HostOp`].
    Host(Arc<HostOp>),
    /// See [`CompositeOp`].
    Composite(CompositeOp),
}

impl Op {
    /// Whether it matters that the operation is computed though nobody reads its results: it tells the values of symbols, or a
    /// branch requires something of the dims where it is taken, on which shapes rely.
    #[must_use]
    pub fn has_influence(&self) -> bool {
        let asks = matches!(self, Op::If(of) if of.then.takes_for_granted() || of.otherwise.takes_for_granted());
        asks || !self.produces().is_empty()
    }

    /// The symbols that get their values from what the operation computes.
    #[must_use]
    pub fn produces(&self) -> &[Produced] {
        match self {
            Op::Host(host) => &host.produces,
            Op::If(branches) => &branches.produces,
            Op::Constant(_)
            | Op::Map(_)
            | Op::View(_)
            | Op::Reduce(_)
            | Op::Contract(_)
            | Op::Gather(_)
            | Op::Concat(_)
            | Op::Scan(_)
            | Op::Recurrence(_)
            | Op::DimValue(_)
            | Op::Composite(_) => &[],
        }
    }

    /// The name in IR text.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Op::Constant(_) => "const",
            Op::Map(_) => "map",
            Op::View(_) => "view",
            Op::Reduce(_) => "reduce",
            Op::Contract(_) => "contract",
            Op::Gather(_) => "gather",
            Op::Concat(_) => "concat",
            Op::Scan(_) => "scan",
            Op::Recurrence(_) => "recurrence",
            Op::If(_) => "if",
            Op::DimValue(_) => "dim",
            Op::Host(_) => "host",
            Op::Composite(_) => "composite",
        }
    }
}

impl fmt::Debug for ConstantOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "const {:?} {}{:?}", self.name, self.tensor.dtype(), self.tensor.shape())
    }
}
