//! States of which a run replaces a part: input and output are the same memory.
//!
//! A cache of one size has rows replaced as `present = select(is_new, new, past)`, and what is present is past in the next
//! run. If nobody else reads what was there, both are one memory, of which the kernel writes what is replaced
//! ([`Output::onto`](infc_ir::kernel::Output::onto)). To the runtime such a state is one that grows, and is full.

use super::append::{Append, MAX_CAPACITY, PlannedState};
use super::expand::Flat;
use super::lower::Lowered;
use infc_ir::entity::{EntityId, OperandId, ScalarId, ValueId};
use infc_ir::graph::{Graph, Node};
use infc_ir::op::Op;
use infc_ir::scalar::{ScalarOp, is_computable};
use infc_ir::verify::verify_kernel;

/// How a state lies that keeps its size, of which a run replaces elements; nobody else reads what it was. `None` where data
/// might make a run fail when some are replaced.
pub(super) fn replaces_a_part(flat: &Flat, output: usize, input: usize, known: Option<Append>) -> Option<Append> {
    let graph = &flat.graph;
    let (from, to) = (graph.inputs.get(input)?, graph.outputs.get(output)?);
    let (id, node) = graph.producer(to.value)?;
    let Op::Map(map) = &node.op else { return None };
    let ([result], None, None) = (&map.results[..], flat.guard(id), flat.region(id)) else { return None };
    let ScalarOp::Select(_, then, otherwise) = map.body.ops[*result] else { return None };
    let is_old = |id: ScalarId| match map.body.ops[id] {
        ScalarOp::Param(n, _) => node.inputs.get(usize::from(n)) == Some(&from.value),
        _ => false,
    };
    let (before, after) = (graph.ty(from.value), graph.ty(to.value));
    let plain = from.declared.is_none() && to.declared.is_none() && before.dtype.size_bytes().is_some();
    if is_old(then) == is_old(otherwise) || !plain || !is_computable(before.dtype) || before.shape != after.shape {
        return None;
    }
    let reads = |node: &Node| node.inputs.iter().filter(|&&value| value == from.value).count();
    let is_read_once = graph.order.iter().map(|&id| reads(&graph.nodes[id])).sum::<usize>() == 1;
    let ports = graph.inputs.iter().chain(&graph.outputs);
    let is_once = ports.filter(|port| port.value == from.value || port.value == to.value).count() == 2;
    let may_fail = graph.order.iter().any(|&id| matches!(graph.nodes[id].op, Op::Host(_) | Op::If(_)));
    let is_late = graph.late_symbols().contains(&true);
    if !is_read_once || !is_once || may_fail || is_late {
        return None;
    }
    let extent = |axis: usize| after.shape.get(axis)?.as_const().filter(|n| (1..=MAX_CAPACITY).contains(n));
    let full = |axis: usize| Some(Append { axis, capacity: extent(axis)? });
    match known {
        Some(known) => full(known.axis).filter(|append| *append == known),
        None => (0..after.shape.len()).rev().find_map(full),
    }
}

/// Says of the kernels that replace elements of a state that they write onto it. A state that is not read as it has to be has
/// memory of its own.
pub(super) fn write_onto(graph: &Graph, states: &mut [PlannedState], kernels: &mut [Lowered]) {
    for state in states.iter_mut().filter(|state| state.append.is_some()) {
        let (from, to) = (graph.inputs[state.input].value, graph.outputs[state.output].value);
        if graph.producer(to).is_none_or(|(_, node)| matches!(node.op, Op::Concat(_))) {
            continue;
        }
        let mut readers = kernels.iter_mut().filter(|kernel| kernel.values.contains(&from));
        let written = match (readers.next(), readers.next()) {
            (Some(kernel), None) => write_one_onto(kernel, from, to),
            _ => None,
        };
        if written.is_none() {
            state.append = None;
        }
    }
}

/// `None`, and nothing is changed, if the kernel does more with what was there than to keep it.
fn write_one_onto(kernel: &mut Lowered, from: ValueId, to: ValueId) -> Option<()> {
    let place = |value: ValueId| kernel.values.iter().position(|&v| v == value).map(OperandId::from_index);
    let (old, new) = (place(from)?, place(to)?);
    let output = kernel.kernel.outputs.iter_mut().find(|output| output.operand == new)?;
    output.onto = Some(old);
    let stage = output.stage;
    if kernel.kernel.replaced(stage).is_some() && verify_kernel(&kernel.kernel).is_ok() {
        return Some(());
    }
    kernel.kernel.outputs.iter_mut().filter(|output| output.operand == new).for_each(|output| output.onto = None);
    None
}
