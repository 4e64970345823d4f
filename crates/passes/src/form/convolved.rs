//! Graph outputs that are made by convolutions.
//!
//! Their kernels would like channels to be neighbours, but outputs are row-major: vectors of channels would be written element by
//! element, and there would be no minimal filtering. A copy in a kernel of its own turns round what lies as the convolution likes
//! it.

use super::expand::Flat;
use super::prepare::{Readers, comes_from_constant, copy};
use infc_ir::entity::{EntityId, ValueId, VarId};
use infc_ir::graph::{Graph, Node};
use infc_ir::op::{ContractOp, Op};
use std::collections::BTreeSet;

/// Products per result that make a copy of it cheap.
const MANY_POINTS: i64 = 64;

/// Channels that fill a vector.
const MANY_CHANNELS: i64 = 16;

/// Puts an identity map behind convolutions whose results are outputs, which stays a kernel of its own.
pub(super) fn run(flat: &mut Flat) {
    let readers = Readers::new(&flat.graph);
    for n in 0..flat.graph.outputs.len() {
        let value = flat.graph.outputs[n].value;
        if !readers.nodes(value).is_empty() || !is_of_convolution(&flat.graph, &readers, value) {
            continue;
        }
        let Some((user, _)) = flat.graph.producer(value) else { continue };
        let copied = copy(&mut flat.graph, value, user);
        flat.graph.outputs[n].value = copied;
        flat.apart.extend(flat.graph.producer(copied).map(|(id, _)| id));
    }
}

/// Whether a value is computed, through maps and views that keep the last axis and that nobody else reads, of a convolution of
/// many taps and channels to many channels, which are not its last axis.
fn is_of_convolution(graph: &Graph, readers: &Readers, value: ValueId) -> bool {
    let mut work = vec![value];
    let mut seen = BTreeSet::new();
    while let Some(at) = work.pop() {
        let Some((id, node)) = graph.producer(at).filter(|_| seen.insert(at)) else { continue };
        let shape = &graph.ty(at).shape;
        let is_alone = |input: &ValueId| readers.nodes(*input) == [id] && !readers.is_output(*input);
        match &node.op {
            Op::Map(_) => {
                let same = |input: &&ValueId| graph.ty(**input).shape == *shape && is_alone(input);
                work.extend(node.inputs.iter().filter(same));
            }
            // Groups of channels that are put together.
            Op::View(view) if view.map.valid.is_empty() => {
                let last = shape.len().checked_sub(1).map(VarId::from_index);
                let keeps_last = view.map.index.last().is_some_and(|e| last.is_some() && e.as_var() == last);
                work.extend(node.inputs.iter().filter(|input| keeps_last && is_alone(input)));
            }
            Op::Contract(op) if convolves(graph, node, op) => return true,
            _ => {}
        }
    }
    false
}

/// Whether a contraction is such a convolution.
fn convolves(graph: &Graph, node: &Node, op: &ContractOp) -> bool {
    let &[lhs, rhs] = &node.inputs[..] else { return false };
    let (image, filter) = match [lhs, rhs].map(|value| comes_from_constant(graph, value)) {
        [false, true] => (&op.lhs, (&op.rhs, rhs)),
        [true, false] => (&op.rhs, (&op.lhs, lhs)),
        _ => return false,
    };
    let extent =
        |label: u8| filter.0.iter().position(|&l| l == label).and_then(|n| graph.ty(filter.1).shape[n].as_const());
    let of_filter = |summed: bool| {
        let chosen = move |label: &&u8| if summed { !op.output.contains(label) } else { !image.contains(label) };
        filter.0.iter().filter(chosen).filter_map(|&label| extent(label)).filter(|&extent| extent > 1)
    };
    let is_last = op.output.last().is_none_or(|last| !image.contains(last) || filter.0.contains(last));
    // With one label summed, lanes along an image's rows do as well.
    !is_last
        && of_filter(true).count() > 1
        && of_filter(true).product::<i64>() >= MANY_POINTS
        && of_filter(false).product::<i64>() >= MANY_CHANNELS
}
