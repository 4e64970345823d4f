//! Kernel formation: from a graph to a plan of kernels and the memory between them.
//!
//! ```text
//! expand    composites written out, their nodes kept together
//! outputs   outputs that nothing computes are copied
//! append    states that grow in place
//! replace   states of which a part is replaced in place
//! nest      concatenations that are parts of others
//! convolved outputs of convolutions are turned round behind them
//! prepare   copies that nothing can do without
//! group     which nodes share a kernel                    (fuse, bijection)
//! lower     a group's stages and their expressions        (anchor, body)
//! order     kernels in an order in which they can run
//! layout    axis orders, halos, concatenations in place   (contraction)
//! filtering correlations that take fewer products at points
//! halves    values that are halves stored as halves
//! reorder   loops in the order of memory
//! pack      constants in panels                           (budget)
//! narrow    constants that are halves stored as halves
//! border    zeros around what is read beyond its extents
//! ```
//!
//! [`form`] is that list as one function. The result is a [`GraphPlan`]; every fusion that was refused is in its log.

mod append;
mod bijection;
mod body;
mod border;
mod branches;
mod budget;
mod choices;
pub(crate) mod contraction;
mod convolved;
mod error;
mod expand;
mod filtering;
mod group;
mod halves;
mod interpret;
mod layout;
mod log;
mod lower;
mod narrow;
mod nest;
mod options;
mod order;
mod outputs;
pub(crate) mod pack;
mod plan;
mod prepare;
mod reorder;
mod replace;
mod slices;
mod turned;
mod ungroup;
mod wishes;

pub use append::{Append, PlannedState};
pub use choices::{Answers, Choice, NoWay, Way};
pub use error::FormError;
pub use interpret::{InterpretError, Interpreter};
pub use layout::{LINE_BYTES, arena_layout};
pub use log::{PlanLog, Refusal};
pub use options::FormOptions;
pub use pack::{Packs, pack};
pub use plan::{
    BufferPlace, GraphPlan, OperandSource, PackedConstant, Packing, Part, PlannedBind, PlannedBuffer, PlannedHost,
    PlannedKernel, PlannedStep, PlannedValue,
};
pub use slices::slices;

use crate::ErrorClass;
use crate::formulate::{self, defer};
use crate::schedule::gpu::{self, GpuMachine};
use budget::WeightBudget;
use group::{Grouping, Unit};
use infc_ir::entity::{EntityId, NodeId, OperandId, StageId, ValueId};
use infc_ir::graph::{Graph, Node};
use infc_ir::kernel::{AxisKind, Kernel, OperandKind};
use infc_ir::op::{CompositeKind, Op};
use infc_ir::scalar::{ScalarOp, Source};
use infc_tensor::DType;
use layout::Placement;
use lower::Lowered;
use std::collections::BTreeMap;

/// The most nodes a graph may have to be planned.
const MAX_GRAPH_NODES: usize = 1 << 17;

/// Plans a graph.
///
/// # Errors
/// [`FormError`] if the graph is malformed, or has elements of a type that no kernel computes with.
pub fn form(graph: &Graph, options: &FormOptions) -> Result<GraphPlan, FormError> {
    let options = options.clone();
    if !options.keeps_any_size && options.reorders() && has_attention_of_any_size(graph) {
        let plan = plan(graph, &FormOptions { attends_any_size: true, ..options.clone() })?;
        let machine = GpuMachine::for_capability(0);
        let fits = |kernel: &Kernel| gpu::fits(&formulate::normalise(kernel.clone()), &machine, options.allowed);
        if plan.kernels.iter().all(|planned| fits(&planned.kernel)) {
            return Ok(plan);
        }
    }
    plan(graph, &options)
}

/// Whether there is attention whose size only a run tells in a graph, or in a branch of it.
fn has_attention_of_any_size(graph: &Graph) -> bool {
    let is_known = |body: &Graph| body.values.iter().all(|value| value.ty.static_shape().is_some());
    graph.order.iter().any(|&id| match &graph.nodes[id].op {
        Op::Composite(composite) => composite.kind == CompositeKind::Attention && !is_known(&composite.body),
        Op::If(branches) => [&branches.then, &branches.otherwise].into_iter().any(|b| has_attention_of_any_size(b)),
        _ => false,
    })
}

fn plan(graph: &Graph, options: &FormOptions) -> Result<GraphPlan, FormError> {
    let mut flat = expand::expand(graph, false, options)?;
    outputs::compute_outputs(&mut flat.graph);
    let count = flat.graph.order.len();
    if count > MAX_GRAPH_NODES {
        return Err(FormError::TooMany { what: "nodes", count, limit: MAX_GRAPH_NODES });
    }
    let mut states = append::plan(&mut flat, &options.states, options.appends.as_deref());
    nest::nest(&mut flat);
    if options.turns {
        convolved::run(&mut flat);
    }
    prepare::prepare(&mut flat, &states, options.turns);
    let choices = std::mem::take(&mut flat.choices);
    let mut grouping = Grouping::new(&flat, choices);
    let mut choices = std::mem::take(&mut grouping.choices);
    let mut kernels = Vec::new();
    for (id, group) in grouping.groups.iter().enumerate() {
        if let Some(group) = group {
            let mut lowered = lower::lower(&grouping, id, group)?;
            if options.allowed >= ErrorClass::Reassociating
                && let Some(kernel) = defer::run(&lowered.kernel)
            {
                lowered.kernel = kernel;
            }
            kernels.push(lowered);
        }
    }
    replace::write_onto(&grouping.flat.graph, &mut states, &mut kernels);
    let (kernels, steps) = order::order(&grouping, kernels)?;
    let as_computed = halves::Types::new();
    let line_bytes = options.line_bytes.unwrap_or(layout::LINE_BYTES);
    let mut placement = layout::place(&grouping, &states, &kernels, &kernels, &as_computed, line_bytes, &mut choices);
    let mut finished = finish_all(&grouping, &placement, options, &kernels)?;
    let filtered = filtering::filter(&grouping, &placement, options, &kernels, &finished, &mut choices);
    let types = halves::stored(&grouping, &placement, filtered.as_ref().unwrap_or(&kernels));
    if filtered.is_some() || !types.is_empty() {
        let mut formulated = filtered.unwrap_or_else(|| kernels.clone());
        halves::narrow(&mut formulated, &types);
        placement = layout::place(&grouping, &states, &kernels, &formulated, &types, line_bytes, &mut choices);
        finished = finish_all(&grouping, &placement, options, &formulated)?;
    }
    let Finished { mut planned, budget } = finished;
    order::mark_in_place(&grouping, &placement, &mut planned);
    let hosts = grouping.hosts.iter().filter_map(|&id| planned_host(&grouping, id)).collect();
    let binds = grouping.binds.iter().map(|&id| planned_bind(&grouping, id)).collect();
    let Placement { values, buffers } = placement;
    let mut log = grouping.log;
    log.refusals.extend(budget.refusals);
    log.choices = choices.into_made();
    let requires = flat.requires.iter().map(|(guard, r)| (flat.path(*guard), r.clone())).collect();
    let graph = flat.graph;
    Ok(GraphPlan { graph, kernels: planned, hosts, binds, steps, values, buffers, states, requires, log })
}

/// A host operation with its operands.
fn planned_host(grouping: &Grouping<'_>, id: NodeId) -> Option<PlannedHost> {
    let graph = &grouping.flat.graph;
    let node = &graph.nodes[id];
    let Op::Host(op) = &node.op else { return None };
    let source = |&value: &ValueId| match graph.producer(value) {
        Some((_, Node { op: Op::Constant(constant), .. })) => {
            OperandSource::Constant(PackedConstant { value, constant: constant.clone(), packing: None })
        }
        _ => OperandSource::Value(value),
    };
    Some(PlannedHost {
        op: op.clone(),
        inputs: node.inputs.iter().map(source).collect(),
        outputs: node.outputs.clone(),
        origins: graph.origins[node.origin].clone(),
        guard: grouping.flat.path(grouping.flat.guard(id)),
    })
}

/// All kernels as planned, and what they left of the budget.
struct Finished {
    planned: Vec<PlannedKernel>,
    budget: WeightBudget,
}

fn finish_all(
    grouping: &Grouping<'_>,
    placement: &Placement,
    options: &FormOptions,
    kernels: &[Lowered],
) -> Result<Finished, FormError> {
    let mut budget = WeightBudget::new(&grouping.flat.graph, options.max_weight_growth);
    let finish = |lowered: &Lowered| finish(grouping, placement, options, &mut budget, lowered.clone());
    let planned = kernels.iter().map(finish).collect::<Result<_, _>>()?;
    Ok(Finished { planned, budget })
}

/// The symbols that a choice tells their values.
fn planned_bind(grouping: &Grouping<'_>, id: NodeId) -> PlannedBind {
    let node = &grouping.flat.graph.nodes[id];
    let symbols = node.op.produces().iter().map(|p| (p.symbol, node.outputs[p.output as usize], p.axis));
    PlannedBind { symbols: symbols.collect(), guard: grouping.flat.path(grouping.flat.guard(id)) }
}

/// Gives the operands their layouts, the loops their order and the constants their panels.
fn finish(
    grouping: &Grouping<'_>,
    placement: &Placement,
    options: &FormOptions,
    budget: &mut WeightBudget,
    lowered: Lowered,
) -> Result<PlannedKernel, FormError> {
    let Lowered { group, mut kernel, values, filters, .. } = lowered;
    for (operand, value) in kernel.operands.iter_mut().zip(&values) {
        if let Some(planned) = placement.values.get(value)
            && operand.kind != OperandKind::Constant
        {
            operand.layout = planned.layout.clone();
            operand.layout.len_elems = placement.buffers[planned.buffer].len_elems.clone();
        }
    }
    order_loops(&mut kernel, options.allowed);
    let graph = &grouping.flat.graph;
    // What is transformed is another constant, arranged in rows if not in panels.
    let transform = |operand| filters.iter().find(|(o, _)| *o == operand).map(|(_, t)| t.clone());
    let mut packings: BTreeMap<OperandId, Packing> = BTreeMap::new();
    for (operand, _) in &filters {
        packings.insert(*operand, Packing::rows(&kernel.operands[*operand].shape));
    }
    // So is what is stored narrower than it is computed with.
    let mut narrowed: BTreeMap<OperandId, DType> = BTreeMap::new();
    for operand in narrow::streamed(&kernel).into_iter().filter(|&operand| transform(operand).is_none()) {
        narrowed.extend(budget.half_of(values[operand.index()]).map(|dtype| (operand, dtype)));
    }
    let stored = |operand, packing: &Packing| {
        let narrow = narrowed.get(&operand).copied();
        Packing { transform: transform(operand), narrow, ..packing.clone() }
    };
    packings.extend(pack::pack(&mut kernel, options.packs(), &mut |operand, packing| {
        budget.admits(graph, values[operand.index()], &stored(operand, packing))
    }));
    for &operand in narrowed.keys() {
        packings.entry(operand).or_insert_with(|| Packing::rows(&kernel.operands[operand].shape));
    }
    packings.iter_mut().for_each(|(&operand, packing)| *packing = stored(operand, packing));
    narrowed.iter().for_each(|(&operand, &dtype)| narrow::read(&mut kernel, operand, dtype));
    border::write_borders(&mut kernel);

    let mut operands = Vec::new();
    for (id, operand) in kernel.operands.iter_enumerated() {
        let value = values[id.index()];
        operands.push(match (operand.kind, graph.producer(value)) {
            (OperandKind::Constant, Some((_, node))) if matches!(node.op, Op::Constant(_)) => {
                let Op::Constant(constant) = &node.op else { continue };
                let packing = packings.remove(&id);
                OperandSource::Constant(PackedConstant { value, constant: constant.clone(), packing })
            }
            _ => OperandSource::Value(value),
        });
    }
    let Some(group) = &grouping.groups[group] else {
        return Err(FormError::Malformed { place: "a kernel".to_owned(), what: "its group is gone".to_owned() });
    };
    kernel.name = name(grouping, group);
    let mut origins: Vec<String> =
        group.nodes.iter().flat_map(|&n| graph.origins[graph.nodes[n].origin].iter().cloned()).collect();
    origins.sort();
    origins.dedup();
    let guard = grouping.flat.path(grouping.guard(group));
    Ok(PlannedKernel { kernel, operands, origins, fused_nodes: group.nodes.len(), in_place: Vec::new(), guard })
}

/// Orders the axes of stages as memory lies: value axes by what is written, reduction axes by what is read.
fn order_loops(kernel: &mut Kernel, allowed: ErrorClass) {
    for stage in kernel.stages.ids().collect::<Vec<StageId>>() {
        let s = &kernel.stages[stage];
        let rank = s.axes.len();
        let reduced: Vec<usize> = s.reduce_axes().map(|(n, _)| n).collect();
        let kept: Vec<usize> = s.value_axes().map(|(n, _)| n).collect();
        let by_output = kernel
            .outputs
            .iter()
            .find(|o| o.stage == stage)
            .map(|o| reorder::memory_steps(&kernel.operands[o.operand].layout, &o.index, rank));
        let mut order = match by_output {
            Some(steps) => reorder::by_step(&kept, &steps),
            None => kept,
        };
        // The order of a fold is part of its meaning unless it is a plain sum or extremum.
        let may_reorder = s
            .reducer
            .as_ref()
            .is_some_and(|r| r.is_associative() || (allowed >= ErrorClass::Reassociating && r.as_binary().is_some()));
        keep_steps_first(kernel, stage, &mut order);
        // Whether anything is replaced is asked around the other loops.
        if let Some(replaced) = kernel.replaced(stage) {
            let asks = s.axes_of(replaced.condition);
            order.sort_by_key(|&axis| !asks[axis]);
        }
        order.extend(match largest_read(kernel, stage) {
            Some(steps) if may_reorder => reorder::by_step(&reduced, &steps),
            _ => reduced,
        });
        reorder::reorder_axes(kernel, stage, &order);
    }
    // A stage that is read by the final one, point by point, runs in the same order.
    let Some(last) = kernel.outputs.first().map(|o| o.stage) else { return };
    for stage in kernel.stages.ids().filter(|&s| s != last).collect::<Vec<StageId>>() {
        let kept: Vec<usize> = kernel.stages[stage].value_axes().map(|(n, _)| n).collect();
        let mut read: Option<Vec<usize>> = None;
        kernel.stages[last].for_each_load(&mut |_, load| {
            if matches!(load.source, Source::Stage(id, _) if id == stage) {
                read = load.index.iter().map(|e| e.as_var().map(|v| v.0 as usize)).collect();
            }
        });
        let Some(read) = read.filter(|r| r.len() == kept.len()) else { continue };
        let mut places: Vec<usize> = (0..kept.len()).collect();
        places.sort_by_key(|&n| read[n]);
        let mut order: Vec<usize> = places.into_iter().map(|n| kept[n]).collect();
        keep_steps_first(kernel, stage, &mut order);
        order.extend(kernel.stages[stage].reduce_axes().map(|(n, _)| n));
        reorder::reorder_axes(kernel, stage, &order);
    }
}

/// Stages that are computed together begin with their common axis.
fn keep_steps_first(kernel: &Kernel, stage: StageId, order: &mut [usize]) {
    if kernel.recurrence_of(stage).is_some() {
        order.sort_by_key(|&axis| axis != 0);
    }
}

/// The memory steps of the stage's axes in the operand that it streams: an input before a constant.
fn largest_read(kernel: &Kernel, stage: StageId) -> Option<Vec<Option<i64>>> {
    let s = &kernel.stages[stage];
    let mut best: Option<(usize, Vec<Option<i64>>)> = None;
    for op in s.body.ops.iter() {
        let ScalarOp::Load(load) = op else { continue };
        let Source::Operand(id) = load.source else { continue };
        let operand = &kernel.operands[id];
        let steps = reorder::memory_steps(&operand.layout, &load.index, s.axes.len());
        let used = s.axes.iter().zip(&steps).filter(|(a, t)| a.kind == AxisKind::Reduce && **t != Some(0)).count();
        let score = 2 * used + usize::from(operand.kind == OperandKind::Input);
        if best.as_ref().is_none_or(|(b, _)| score > *b) {
            best = Some((score, steps));
        }
    }
    best.map(|(_, steps)| steps)
}

/// What the kernel is, in short: its anchor and the extents it writes.
fn name(grouping: &Grouping<'_>, group: &group::Group) -> String {
    let graph = &grouping.flat.graph;
    let base = match group.anchor {
        Some(Unit::Node(node)) => graph.nodes[node].op.name(),
        Some(Unit::Region(_)) => "composite",
        None => "map",
    };
    let shape = group.tails.first().map_or(&[][..], |t| &graph.ty(t.value).shape);
    let extents: Vec<String> =
        shape.iter().map(|d| d.as_const().map_or_else(|| "s".to_owned(), |n| n.to_string())).collect();
    let maps = group.nodes.iter().filter(|&&n| matches!(graph.nodes[n].op, Op::Map(_))).count();
    let fused = if group.anchor.is_some() && maps > 0 { "_map" } else { "" };
    if extents.is_empty() { format!("{base}{fused}") } else { format!("{base}{fused}_{}", extents.join("x")) }
}
