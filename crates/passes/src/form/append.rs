//! States that grow in place: an output that is an input with more behind it lies in the memory of that input.
//!
//! A cache of keys grows as `present = concat(past, new)`, and what is present is past in the next run. If the largest
//! extent is known, the *capacity*, then both can have strides as if they were as long as that: `past` is where
//! `present` begins, only `new` is written, and nothing is copied. Where one of the conditions does not hold, input and
//! output have memory of their own, and the concatenation copies its first part as any other does.
//! States that keep their size lie in place, too, where a run replaces a part of them (`replace.rs`).

use super::expand::Flat;
use super::replace::replaces_a_part;
use infc_ir::entity::{EntityId, ValueId};
use infc_ir::graph::{Assumption, Graph, Relation};
use infc_ir::index::{Dim, Proof, Ranges};
use infc_ir::kernel::Layout;
use infc_ir::op::Op;
use infc_ir::scalar::is_computable;

/// A larger extent is what nobody has limited, rather than memory that somebody wants to be there from the first run.
pub(super) const MAX_CAPACITY: i64 = 1 << 24;

/// An output that is an input of the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedState {
    /// Index into the graph's outputs.
    pub output: usize,
    /// Index into the graph's inputs.
    pub input: usize,
    /// How the state grows in place; `None` if input and output have memory of their own.
    pub append: Option<Append>,
}

/// How an input becomes an output in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append {
    /// The axis that grows.
    pub axis: usize,
    /// The largest extent there.
    pub capacity: i64,
}

impl Append {
    /// The layout of the output, of the given shape, and so of the input: row-major as if the axis were full.
    pub(super) fn layout(&self, shape: &[Dim]) -> Layout {
        let mut full = shape.to_vec();
        full[self.axis] = Dim::constant(self.capacity);
        Layout::dense(&full)
    }
}

/// Decides how states lie, which are given as the numbers of outputs and inputs, with what is known of them
/// ([`FormOptions::appends`](super::FormOptions::appends)). That capacities suffice is then taken for granted by the
/// graph.
pub(super) fn plan(flat: &mut Flat, states: &[(usize, usize)], known: Option<&[Option<Append>]>) -> Vec<PlannedState> {
    let planned = |(n, &(output, input)): (usize, &(usize, usize))| {
        let lies = |known| append(flat, output, input, known).or_else(|| replaces_a_part(flat, output, input, known));
        let append = match known {
            None => lies(None),
            Some(known) => known.get(n).copied().flatten().and_then(|known| lies(Some(known))),
        };
        PlannedState { output, input, append }
    };
    let states: Vec<PlannedState> = states.iter().enumerate().map(planned).collect();
    let ranges = Ranges::of_symbols(&flat.graph.symbols);
    for state in &states {
        let Some(append) = state.append else { continue };
        let value = flat.graph.outputs[state.output].value;
        let extent = flat.graph.ty(value).shape[append.axis].clone();
        let capacity = Dim::constant(append.capacity);
        let Some((_, node)) = flat.graph.producer(value) else { continue };
        if ranges.le(&extent, &capacity) != Proof::Yes {
            let what = format!("the extent of state `{}` and its capacity", flat.graph.inputs[state.input].name);
            let origin = node.origin;
            let assumption = Assumption { what, left: extent, relation: Relation::AtMost, right: capacity, origin };
            flat.graph.assumptions.push(assumption);
        }
    }
    states
}

/// How a state grows in place; the capacity is that of `known`, if it is.
fn append(flat: &Flat, output: usize, input: usize, known: Option<Append>) -> Option<Append> {
    let graph = &flat.graph;
    let (from, to) = (graph.inputs.get(input)?, graph.outputs.get(output)?);
    let (id, node) = graph.producer(to.value)?;
    let Op::Concat(concat) = &node.op else { return None };
    let axis = concat.axis;
    if known.is_some_and(|known| known.axis != axis) {
        return None;
    }
    let (before, after) = (graph.ty(from.value), graph.ty(to.value));
    let plain = from.declared.is_none() && to.declared.is_none() && before.dtype.size_bytes().is_some();
    let begins = node.inputs.first() == Some(&from.value) && flat.guard(id).is_none() && flat.region(id).is_none();
    if !plain || !is_computable(before.dtype) || !begins || has_late_extent(graph, to.value) {
        return None;
    }
    let same = |n: usize| n == axis || before.shape[n] == after.shape[n];
    if !(0..after.shape.len()).all(same) {
        return None;
    }
    // Who wants its operand dense, or as the part of something else, cannot have it in strides.
    let wants_dense =
        graph.order.iter().map(|&n| &graph.nodes[n]).any(|n| {
            matches!(n.op, Op::Host(_) | Op::If(_)) && n.inputs.iter().any(|&v| v == from.value || v == to.value)
        });
    if wants_dense {
        return None;
    }
    let ranges = Ranges::of_symbols(&graph.symbols);
    let most = |shape: &[Dim]| ranges.interval(&shape[axis]).max;
    // What is present must fit as what is past.
    let decided = || [most(&before.shape), most(&after.shape)].into_iter().flatten().min();
    let capacity = known.map(|known| known.capacity).or_else(decided).filter(|c| (1..=MAX_CAPACITY).contains(c))?;
    let append = Append { axis, capacity };
    // Symbolic extents are checked when they are known.
    let full = append.layout(&after.shape).len_elems;
    full.as_const().is_none_or(|len| len.checked_mul(8).is_some()).then_some(append)
}

/// Whether an extent of a value is only known when something has been computed.
pub(super) fn has_late_extent(graph: &Graph, value: ValueId) -> bool {
    let symbols = graph.ty(value).shape.iter().flat_map(Dim::symbols).collect::<Vec<_>>();
    let late = if symbols.is_empty() { Vec::new() } else { graph.late_symbols() };
    symbols.iter().any(|symbol| late.get(symbol.index()) == Some(&true))
}
