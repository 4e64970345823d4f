//! Where values lie: the order of their axes, halos, concatenations and growing states in place (ARCHITECTURE.md D6).
//!
//! Contractions have wishes: the columns of the right operand and of the result are to be contiguous, and the left
//! operand along what is summed. Wishes are weighed by work; values without any follow their
//! neighbours. Inputs and outputs of the model are row-major, as ONNX says. So convolutional networks become
//! channels-last and matrix networks stay as they are, without either being named here.

use super::append::PlannedState;
use super::choices::Choices;
use super::group::{Grouping, Home};
use super::halves::Types;
use super::lower::Lowered;
use super::plan::{BufferPlace, Part, PlannedBuffer, PlannedValue};
use super::wishes::inner_axes;
use crate::schedule::padding::padded_by;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, StageId, ValueId};
use infc_ir::graph::Port;
use infc_ir::index::{Dim, IndexExpr, Ranges};
use infc_ir::kernel::{Layout, Operand, OperandKind, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Load, Source, is_computable};
use std::collections::{BTreeMap, BTreeSet};

/// Wider halos are not worth the memory, unless they are at most a [`MAX_HALO_PART`] of the axis. Tiles that leave out taps which
/// meet nothing but padding need no more than that.
const MAX_HALO: i64 = 64;
/// See [`MAX_HALO`].
const MAX_HALO_PART: i64 = 16;
/// Rows that are a multiple of this many bytes apart meet in the same sets of a first-level cache.
const ALIASING_STRIDE_BYTES: i64 = 4096;
/// How much longer such rows are made: by a line of a processor's caches.
pub const LINE_BYTES: i64 = 64;

/// Where everything lies.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    pub(super) values: BTreeMap<ValueId, PlannedValue>,
    pub(super) buffers: Vec<PlannedBuffer>,
}

/// Chooses layouts for everything that is in memory.
///
/// `kernels` have the wishes; `formulated` are the same kernels as they will read what lies around values. The inputs of
/// states that grow in place are placed with the outputs that they begin.
pub(super) fn place(
    grouping: &Grouping<'_>,
    states: &[PlannedState],
    kernels: &[Lowered],
    formulated: &[Lowered],
    types: &Types,
    line_bytes: i64,
    choices: &mut Choices,
) -> Placement {
    let graph = &grouping.flat.graph;
    let families = Families::new(grouping);
    let hosts = || grouping.hosts.iter().map(|&id| &graph.nodes[id]);
    let read_by_hosts = hosts().flat_map(|node| &node.inputs).copied();
    let dense: BTreeSet<ValueId> = read_by_hosts.chain(grouping.reshaped.iter().map(|&(_, root)| root)).collect();
    let mut fixed: BTreeSet<ValueId> =
        graph.inputs.iter().chain(&graph.outputs).map(|p| families.root(p.value)).collect();
    fixed.extend(hosts().flat_map(|node| &node.outputs).chain(&dense).map(|&value| families.root(value)));
    fixed.extend(grouping.reshaped.iter().map(|&(value, _)| value));
    let inner = inner_axes(grouping, &families, &fixed, kernels, choices);
    let halos = halos(grouping, &families, &fixed, formulated);
    let mut placement = Placement::default();
    let mut place_root = |value: ValueId, place: BufferPlace| {
        let ty = graph.ty(value);
        let dtype = types.get(&value).copied().unwrap_or(ty.dtype);
        let layout = match place {
            BufferPlace::Arena if !dense.contains(&value) => {
                let halo = halos.get(&value).cloned().unwrap_or_else(|| Halo::none(ty.shape.len()));
                let order = order_of(ty.shape.len(), inner.get(&value).copied());
                let layout = arena_layout(&ty.shape, &order, &halo.reach, dtype.size_bytes().unwrap_or(1), line_bytes);
                Layout { fill: halo.fill, ..layout }
            }
            BufferPlace::Output(n) => match states.iter().find(|s| s.output == n).and_then(|s| s.append) {
                Some(append) => append.layout(&ty.shape),
                None => Layout::dense(&ty.shape),
            },
            _ => Layout::dense(&ty.shape),
        };
        let len_elems = layout.len_elems.clone();
        placement.buffers.push(PlannedBuffer { place, dtype, len_elems });
        let buffer = placement.buffers.len() - 1;
        placement.values.insert(value, PlannedValue { buffer, layout, part_of: None, reshape_of: None });
    };
    for (n, port) in graph.inputs.iter().enumerate() {
        place_root(port.value, BufferPlace::Input(n));
    }
    let is_written = |port: &&Port| is_computable(graph.ty(port.value).dtype);
    for (n, port) in graph.outputs.iter().enumerate().filter(|(_, port)| is_written(port)) {
        place_root(port.value, BufferPlace::Output(n));
    }
    for &value in hosts().flat_map(|node| &node.outputs).filter(|&&value| families.root(value) == value) {
        place_root(value, BufferPlace::Host);
    }
    for kernel in kernels {
        for (value, operand) in kernel.values.iter().zip(kernel.kernel.operands.iter()) {
            let is_root = families.root(*value) == *value;
            let is_port = graph.inputs.iter().chain(&graph.outputs).any(|p| p.value == *value);
            if operand.kind == OperandKind::Output && is_root && !is_port {
                place_root(*value, BufferPlace::Arena);
            }
        }
    }
    for whole in &grouping.wholes {
        let is_output = graph.outputs.iter().filter(is_written).any(|p| p.value == whole.value);
        if families.root(whole.value) == whole.value && !is_output {
            let is_host = whole.parts.iter().any(|(part, _)| matches!(grouping.home(*part), Some(Home::Host(_))));
            place_root(whole.value, if is_host { BufferPlace::Host } else { BufferPlace::Arena });
        }
    }
    // Wholes come after their parts in the graph, so going backwards places every whole before its parts.
    for whole in grouping.wholes.iter().rev() {
        let Some(outer) = placement.values.get(&whole.value).cloned() else { continue };
        for (n, (value, start)) in whole.parts.iter().enumerate() {
            let mut layout = outer.layout.clone();
            if let Some(axis) = whole.axis {
                layout.offset = layout.offset + start.clone() * layout.strides[axis].clone();
                let (before, after) = layout.halo[axis];
                let is_last = n + 1 == whole.parts.len();
                layout.halo[axis] = (if n == 0 { before } else { 0 }, if is_last { after } else { 0 });
            }
            let part_of = Some(Part { whole: whole.value, axis: whole.axis, start: start.clone() });
            let planned = PlannedValue { buffer: outer.buffer, layout, part_of, reshape_of: None };
            placement.values.insert(*value, planned);
        }
    }
    for &(value, root) in &grouping.reshaped {
        let Some(buffer) = placement.values.get(&root).map(|root| root.buffer) else { continue };
        let layout = Layout::dense(&graph.ty(value).shape);
        placement.values.insert(value, PlannedValue { buffer, layout, part_of: None, reshape_of: Some(root) });
    }
    placement
}

/// Row-major, but with one axis moved innermost.
fn order_of(rank: usize, inner: Option<usize>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).filter(|&a| Some(a) != inner).collect();
    order.extend(inner);
    order
}

/// The layout of a value between kernels: axes in the given order, from outermost, with a halo of zeros, and rows that do not
/// meet in the same cache sets, for which they are made longer by a line.
#[must_use]
pub fn arena_layout(
    shape: &[Dim],
    order: &[usize],
    halo: &[(i64, i64)],
    element_bytes: usize,
    line_bytes: i64,
) -> Layout {
    let element_bytes = element_bytes as i64;
    let mut strides = vec![Dim::constant(0); shape.len()];
    let mut stride = Dim::constant(1);
    let mut offset = Dim::constant(0);
    for (n, &axis) in order.iter().rev().enumerate() {
        let (before, after) = halo[axis];
        strides[axis] = stride.clone();
        offset = offset + stride.scale(before);
        stride = stride * (shape[axis].clone() + (before + after));
        let bytes = stride.as_const().map_or(0, |s| s.saturating_mul(element_bytes));
        let is_row = n == 0 && order.len() > 1 && shape[order[order.len() - 2]].as_const() != Some(1);
        if is_row && bytes > 0 && bytes % ALIASING_STRIDE_BYTES == 0 {
            stride = stride + line_bytes / element_bytes;
        }
    }
    Layout { strides, offset, halo: halo.to_vec(), fill: 0, len_elems: stride }
}

// ------------------------------------------------------------------------------------------------------ families --

/// Values that share a buffer: a concatenation and its parts.
pub(super) struct Families {
    whole_of: BTreeMap<ValueId, ValueId>,
}

impl Families {
    fn new(grouping: &Grouping<'_>) -> Self {
        let parts = grouping.wholes.iter().flat_map(|w| w.parts.iter().map(|(part, _)| (*part, w.value)));
        Self { whole_of: parts.collect() }
    }

    pub(super) fn root(&self, mut value: ValueId) -> ValueId {
        while let Some(&whole) = self.whole_of.get(&value) {
            value = whole;
        }
        value
    }
}

// -------------------------------------------------------------------------------------------------------- halos --

/// How far outside of the extents a value is read, and what is wanted there.
#[derive(Clone, Debug)]
struct Halo {
    reach: Vec<(i64, i64)>,
    /// The bits of an element.
    fill: u64,
}

impl Halo {
    fn none(rank: usize) -> Self {
        Self { reach: vec![(0, 0); rank], fill: 0 }
    }

    fn is_none(&self) -> bool {
        self.reach.iter().all(|&reach| reach == (0, 0))
    }

    /// What is wanted first counts; who wants something else there tests for it.
    fn widen(&mut self, other: &Self, along: impl Fn(usize) -> bool) {
        if other.is_none() {
            return;
        }
        if self.is_none() {
            self.fill = other.fill;
        }
        if self.fill != other.fill {
            return;
        }
        for (axis, (all, reach)) in self.reach.iter_mut().zip(&other.reach).enumerate() {
            if along(axis) {
                *all = (all.0.max(reach.0), all.1.max(reach.1));
            }
        }
    }
}

/// Per family root and per part: the halo that sums, and stages before them, want.
fn halos(
    grouping: &Grouping<'_>,
    families: &Families,
    fixed: &BTreeSet<ValueId>,
    kernels: &[Lowered],
) -> BTreeMap<ValueId, Halo> {
    let mut halos: BTreeMap<ValueId, Halo> = BTreeMap::new();
    let sums = |stage: &Stage| stage.reducer.as_ref().and_then(Reducer::as_binary) == Some(BinaryOp::Add);
    // Where readers want different things, those that sum take precedence.
    for (lowered, summing) in kernels.iter().map(|k| (k, true)).chain(kernels.iter().map(|k| (k, false))) {
        let is_output = |id: StageId| lowered.kernel.outputs.iter().any(|o| o.stage == id);
        let stages = lowered.kernel.stages.iter_enumerated();
        for (id, stage) in stages.filter(|&(id, stage)| !is_output(id) && sums(stage) == summing) {
            let ranges = stage.ranges(&lowered.kernel.symbols);
            let leaves_out = !padded_by(&lowered.kernel, id).is_empty();
            stage.for_each_load(&mut |_, load| {
                let Source::Operand(id) = load.source else { return };
                let operand = &lowered.kernel.operands[id];
                let value = lowered.values[id.index()];
                let movable = operand.kind == OperandKind::Input && !fixed.contains(&families.root(value));
                if !movable || load.valid.is_empty() || !load.gather.is_empty() {
                    return;
                }
                let wanted = Halo { reach: reach(operand, load, &ranges, leaves_out), fill: load.otherwise.bits };
                let halo = halos.entry(value).or_insert_with(|| Halo::none(operand.shape.len()));
                halo.widen(&wanted, |_| true);
            });
        }
    }
    // A part has the halo of its whole. Along the axis of the concatenation only the whole can have one.
    for whole in &grouping.wholes {
        let rank = grouping.flat.graph.ty(whole.value).shape.len();
        let mut all = halos.remove(&whole.value).unwrap_or_else(|| Halo::none(rank));
        for (part, _) in &whole.parts {
            if let Some(halo) = halos.remove(part) {
                all.widen(&halo, |axis| Some(axis) != whole.axis);
            }
        }
        halos.insert(whole.value, all);
    }
    halos
}

/// How far before 0 and beyond the extent each coordinate of the load goes, where a condition cuts that off. Of what is too far, a
/// part is enough for readers that leave out what meets nothing but padding.
fn reach(operand: &Operand, load: &Load, ranges: &Ranges, leaves_out: bool) -> Vec<(i64, i64)> {
    let zero = IndexExpr::constant(0);
    load.index
        .iter()
        .zip(&operand.shape)
        .map(|(index, extent)| {
            let plain = |b: &Bound| b.expr == *index && b.lo == zero && b.hi == *extent;
            if !load.valid.iter().any(plain) {
                return (0, 0);
            }
            let before = ranges.interval(index).min.map(|min| min.saturating_neg().max(0));
            let after = ranges.least(&(extent.clone() - 1 - index.clone())).map(|min| min.saturating_neg().max(0));
            let most = ranges.interval(extent).min.map_or(MAX_HALO, |len| MAX_HALO.max(len / MAX_HALO_PART));
            let part = |reach: i64| if reach <= most { reach } else { MAX_HALO };
            match (before, after) {
                (Some(before), Some(after)) if leaves_out || before.max(after) <= most => (part(before), part(after)),
                _ => (0, 0),
            }
        })
        .collect()
}
