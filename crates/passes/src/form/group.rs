//! Which nodes share a kernel.
//!
//! A group has at most one *anchor* (a contraction, reduction, scan, or a composite that contains such) and any number
//! of point-wise nodes. It is grown by composition: a point-wise node joins the group that computes what it reads if
//! nobody else reads that, and the view between them only renames coordinates. A point-wise group is taken in by the
//! reader that needs each of its elements once. Views never make a group of their own unless something must have their
//! result in memory.

mod decode;
mod fuse;
mod reshape;

use super::bijection::{is_affine, is_group_of_one_of, reads_once};
use super::choices::{Choices, Way, origins_of, text_of};
use super::expand::Flat;
use super::log::{PlanLog, Refusal};
use super::prepare::Readers;
use super::turned::is_in_groups;
use crate::graph::movement;
use crate::graph::view::moves_over_joined;
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, NodeId, ValueId, VarId};
use infc_ir::graph::{Definition, Node};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::Op;
use std::collections::BTreeSet;

/// The most nodes of one kernel.
const MAX_NODES: usize = 48;

/// The most scalar operations of one kernel: what makes code of them takes more than linear time, and more of them would
/// not save any traffic that counts.
const MAX_OPS: usize = 1024;

/// What one kernel is grown from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Node(NodeId),
    Region(usize),
}

/// A value that a kernel writes.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) value: ValueId,
    /// The coordinates that the kernel goes through to write it.
    pub(super) space: Vec<Dim>,
    /// The value's coordinates from those.
    pub(super) index: Vec<IndexExpr>,
}

/// The nodes of one kernel.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) anchor: Option<Unit>,
    /// Coordinates of the anchor's result from those of the first tail's space.
    pub(super) anchor_coords: Vec<IndexExpr>,
    pub(super) tails: Vec<Tail>,
    pub(super) nodes: Vec<NodeId>,
}

/// A concatenation whose parts are written in place, or a value that one of two branches writes.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) value: ValueId,
    /// The axis of the concatenation; `None` if each part is all of it.
    pub(super) axis: Option<usize>,
    /// Parts and where they begin along the axis.
    pub(super) parts: Vec<(ValueId, Dim)>,
}

/// Who puts a value into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The caller: it is an input.
    Input,
    /// A group.
    Group(usize),
    /// A concatenation.
    Whole(usize),
    /// A host operation, by its place in [`Grouping::hosts`].
    Host(usize),
    /// Who puts another value there, of which it is a reshape: it lies in that one's memory.
    Reshaped(ValueId),
}

/// All groups.
pub(super) struct Grouping<'a> {
    pub(super) flat: &'a Flat,
    /// Of a step of a recurrence: how many of its inputs, the first ones, are not the same in all steps.
    pub(super) stepped: Option<usize>,
    pub(super) readers: Readers,
    /// `None` where a group was taken in by another.
    pub(super) groups: Vec<Option<Group>>,
    pub(super) wholes: Vec<Whole>,
    /// Values that lie in the memory of others, of which they are reshapes.
    pub(super) reshaped: Vec<(ValueId, ValueId)>,
    /// Those others.
    roots_of_reshaped: BTreeSet<ValueId>,
    /// Host operations, in the graph's order.
    pub(super) hosts: Vec<NodeId>,
    /// Choices that tell symbols their values, in the graph's order.
    pub(super) binds: Vec<NodeId>,
    homes: Vec<Option<Home>>,
    /// Per node, its place in the graph's order.
    positions: Vec<usize>,
    pub(super) log: PlanLog,
    pub(super) choices: Choices,
}

/// A shape's coordinates, unchanged.
pub(super) fn identity(rank: usize) -> Vec<IndexExpr> {
    (0..rank).map(|n| IndexExpr::var(VarId(n as u32))).collect()
}

impl<'a> Grouping<'a> {
    /// No groups yet.
    fn empty(flat: &'a Flat) -> Self {
        let graph = &flat.graph;
        let mut homes = vec![None; graph.values.len()];
        for port in &graph.inputs {
            homes[port.value.index()] = Some(Home::Input);
        }
        let mut positions = vec![usize::MAX; graph.nodes.len()];
        for (n, id) in graph.order.iter().enumerate() {
            positions[id.index()] = n;
        }
        Self {
            flat,
            stepped: None,
            readers: Readers::new(graph),
            groups: Vec::new(),
            wholes: Vec::new(),
            reshaped: Vec::new(),
            roots_of_reshaped: BTreeSet::new(),
            hosts: Vec::new(),
            binds: Vec::new(),
            homes,
            positions,
            log: PlanLog::default(),
            choices: Choices::default(),
        }
    }

    /// Groups all nodes of the graph.
    pub(super) fn new(flat: &'a Flat, choices: Choices) -> Self {
        let graph = &flat.graph;
        let mut this = Self { choices, ..Self::empty(flat) };
        let mut begun = BTreeSet::new();
        for &node in &graph.order {
            match flat.region(node) {
                Some(region) => {
                    if begun.insert(region) {
                        this.region(region);
                    }
                }
                None => this.node(node),
            }
        }
        for port in &graph.outputs {
            this.ensure_in_memory(port.value);
        }
        this
    }

    /// All nodes of the body of a recurrence in one group that computes its outputs. Those that are computed with new
    /// states, the first outputs, come last.
    pub(super) fn of_step(flat: &'a Flat, [states, slices]: [usize; 2]) -> Self {
        let graph = &flat.graph;
        let mut this = Self { stepped: Some(states + slices), ..Self::empty(flat) };
        let nodes: Vec<NodeId> =
            graph.order.iter().copied().filter(|&n| !matches!(graph.nodes[n].op, Op::Constant(_))).collect();
        let mut outputs: Vec<ValueId> = graph.outputs.iter().map(|p| p.value).collect();
        let shapes: Vec<&Vec<Dim>> = outputs.iter().take(states).map(|&v| &graph.ty(v).shape).collect();
        outputs.sort_by_key(|&v| shapes.contains(&&graph.ty(v).shape));
        this.begin(None, &nodes, &outputs);
        this
    }

    /// Who puts the value into memory, if anybody does.
    pub(super) fn home(&self, value: ValueId) -> Option<Home> {
        self.homes[value.index()]
    }

    /// The node's place in the graph's order.
    pub(super) fn position(&self, node: NodeId) -> usize {
        self.positions[node.index()]
    }

    fn refuse(&mut self, node: NodeId, reason: &'static str) {
        let origins = self.flat.graph.origins[self.flat.graph.nodes[node].origin].clone();
        self.log.refusals.push(Refusal { node, origins, reason });
    }

    // ---------------------------------------------------------------------------------------------------- nodes --

    fn node(&mut self, id: NodeId) {
        let node = &self.flat.graph.nodes[id];
        match &node.op {
            Op::Constant(_) | Op::DimValue(_) | Op::View(_) | Op::Composite(_) => {}
            Op::Map(_) => self.pointwise(Unit::Node(id)),
            Op::Gather(_) if self.is_table(node.inputs[0]) => self.pointwise(Unit::Node(id)),
            Op::Gather(_) => {
                // A position computed at run time cannot go through a view's arithmetic.
                let data = node.inputs[0];
                if self.trace(data).0 != data {
                    self.ensure_in_memory(data);
                }
                self.begin(None, &[id], &node.outputs);
            }
            Op::Reduce(_) | Op::Scan(_) => self.reduction(Unit::Node(id)),
            Op::If(branches) => {
                if !branches.produces.is_empty() {
                    self.binds.push(id);
                }
                self.ensure_in_memory(node.inputs[0]);
                let (first, second) = node.inputs[1..].split_at(node.outputs.len());
                for ((&value, &a), &b) in node.outputs.iter().zip(first).zip(second) {
                    let parts = [a, b].map(|part| (part, Dim::constant(0))).to_vec();
                    self.homes[value.index()] = Some(Home::Whole(self.wholes.len()));
                    self.wholes.push(Whole { value, axis: None, parts });
                }
            }
            Op::Host(_) => {
                for &operand in &node.inputs {
                    if !matches!(self.flat.graph.producer(operand), Some((_, n)) if matches!(n.op, Op::Constant(_))) {
                        self.ensure_in_memory(operand);
                    }
                }
                for &output in &node.outputs {
                    self.homes[output.index()] = Some(Home::Host(self.hosts.len()));
                }
                self.hosts.push(id);
            }
            Op::Recurrence(_) => {
                for &operand in &node.inputs {
                    if !matches!(self.flat.graph.producer(operand), Some((_, n)) if matches!(n.op, Op::Constant(_))) {
                        self.ensure_in_memory(operand);
                    }
                }
                self.begin(Some(Unit::Node(id)), &[id], &node.outputs);
            }
            Op::Contract(_) => {
                let mut nodes = vec![id];
                for &operand in &node.inputs {
                    self.ensure_affine(id, operand);
                    nodes.extend(self.decode(id, operand));
                }
                self.begin(Some(Unit::Node(id)), &nodes, &node.outputs);
            }
            Op::Concat(concat) => {
                let mut start = Dim::constant(0);
                let mut parts = Vec::new();
                for &part in &node.inputs {
                    self.ensure_in_memory(part);
                    parts.push((part, start.clone()));
                    start = start + self.flat.graph.ty(part).shape[concat.axis].clone();
                }
                let value = node.outputs[0];
                self.homes[value.index()] = Some(Home::Whole(self.wholes.len()));
                self.wholes.push(Whole { value, axis: Some(concat.axis), parts });
            }
        }
    }

    /// Makes sure that what a contraction reads lies in memory at places that are sums of multiples of coordinates.
    fn ensure_affine(&mut self, contraction: NodeId, operand: ValueId) {
        self.ensure_image(operand);
        let (root, map) = self.trace(operand);
        let is_constant = matches!(self.flat.graph.producer(root), Some((_, n)) if matches!(n.op, Op::Constant(_)));
        let shared = self.shared_axes(contraction, operand);
        let is_plain = |e: &IndexExpr| is_affine(e) || is_group_of_one_of(e, &shared);
        let plain = map.index.iter().all(is_plain) || is_in_groups(&map);
        if !plain
            && !is_constant
            && self.home(operand).is_none()
            && !self.absorb(root, operand)
            && !self.reshape(operand)
        {
            self.refuse(contraction, "an operand is read through divisions; it is copied first");
            self.ensure_in_memory(operand);
        }
    }

    /// Makes sure that what padded windows move over lies in memory by itself where its axes are joined in what it shows.
    fn ensure_image(&mut self, operand: ValueId) {
        let flat = self.flat;
        let graph = &flat.graph;
        let mut at = operand;
        loop {
            let Some((_, Node { op: Op::View(view), inputs, .. })) = graph.producer(at) else { return };
            if self.home(at).is_some() {
                return;
            }
            let image = inputs[0];
            let (root, map) = self.trace(image);
            if root != image && moves_over_joined(&view.map, &map) {
                if !self.absorb(root, image) {
                    let nodes: Vec<NodeId> = self.flat.graph.producer(image).map(|(n, _)| n).into_iter().collect();
                    self.begin(None, &nodes, &[image]);
                }
                return;
            }
            at = image;
        }
    }

    /// The axes of an operand of a contraction that the other operand and the result have, too: what is computed for each of
    /// their points has nothing to do with the others.
    fn shared_axes(&self, contraction: NodeId, operand: ValueId) -> Vec<usize> {
        let node = &self.flat.graph.nodes[contraction];
        let (Op::Contract(op), [lhs, _]) = (&node.op, &node.inputs[..]) else { return Vec::new() };
        let (own, other) = if *lhs == operand { (&op.lhs, &op.rhs) } else { (&op.rhs, &op.lhs) };
        let is_shared = |label: &u8| other.contains(label) && op.output.contains(label);
        (0..own.len()).filter(|&axis| is_shared(&own[axis])).collect()
    }

    fn region(&mut self, region: usize) {
        for id in self.flat.regions[region].nodes.clone() {
            let node = &self.flat.graph.nodes[id];
            if matches!(node.op, Op::Contract(_)) {
                for &operand in &node.inputs {
                    let inside =
                        self.flat.graph.producer(operand).is_some_and(|(n, _)| self.flat.region(n) == Some(region));
                    if !inside {
                        self.ensure_affine(id, operand);
                    }
                }
            }
        }
        let is_anchor = self.flat.regions[region]
            .nodes
            .iter()
            .any(|&n| matches!(self.flat.graph.nodes[n].op, Op::Reduce(_) | Op::Contract(_) | Op::Scan(_)));
        if is_anchor { self.reduction(Unit::Region(region)) } else { self.pointwise(Unit::Region(region)) }
    }

    pub(super) fn unit_nodes(&self, unit: Unit) -> Vec<NodeId> {
        match unit {
            Unit::Node(node) => vec![node],
            Unit::Region(region) => self.flat.regions[region].nodes.clone(),
        }
    }

    fn unit_outputs(&self, unit: Unit) -> Vec<ValueId> {
        let all = match unit {
            Unit::Node(node) => &self.flat.graph.nodes[node].outputs,
            Unit::Region(region) => &self.flat.regions[region].outputs,
        };
        let mut outputs: Vec<ValueId> = Vec::new();
        for &value in all {
            // A composite may hand one of its inputs or an earlier result through.
            if self.is_read_outside(value, unit) && self.home(value).is_none() && !outputs.contains(&value) {
                outputs.push(value);
            }
        }
        if outputs.is_empty() { all.first().into_iter().copied().collect() } else { outputs }
    }

    fn is_read_outside(&self, value: ValueId, unit: Unit) -> bool {
        match unit {
            Unit::Node(_) => self.readers.is_read(value),
            Unit::Region(region) => {
                self.readers.is_output(value)
                    || self.readers.nodes(value).iter().any(|&n| self.flat.region(n) != Some(region))
            }
        }
    }

    /// What a unit reads from outside, each value once.
    fn unit_inputs(&self, unit: Unit) -> Vec<ValueId> {
        let nodes = self.unit_nodes(unit);
        let mut inputs = Vec::new();
        for &node in &nodes {
            for &input in &self.flat.graph.nodes[node].inputs {
                let inside = matches!(self.flat.graph.values[input].definition,
                    Definition::Node(n, _) if nodes.contains(&n));
                if !inside && !inputs.contains(&input) {
                    inputs.push(input);
                }
            }
        }
        inputs
    }

    // --------------------------------------------------------------------------------------------------- groups --

    /// A new group that writes the given values.
    fn begin(&mut self, anchor: Option<Unit>, nodes: &[NodeId], outputs: &[ValueId]) -> usize {
        let tails: Vec<Tail> = outputs
            .iter()
            .map(|&value| {
                let space = self.flat.graph.ty(value).shape.clone();
                Tail { value, index: identity(space.len()), space }
            })
            .collect();
        let id = self.groups.len();
        for tail in &tails {
            self.homes[tail.value.index()] = Some(Home::Group(id));
        }
        let anchor_coords = identity(tails.first().map_or(0, |t| t.space.len()));
        self.groups.push(Some(Group { anchor, anchor_coords, tails, nodes: nodes.to_vec() }));
        id
    }

    /// The guard under which a group is computed: that of all its nodes.
    pub(super) fn guard(&self, group: &Group) -> Option<usize> {
        group.nodes.first().and_then(|&node| self.flat.guard(node))
    }

    /// The group that writes this value and nothing else, if it is computed under the same conditions as a reader.
    fn sole_group(&self, value: ValueId, reader: NodeId) -> Option<usize> {
        let Some(Home::Group(id)) = self.home(value) else { return None };
        let group = self.groups[id].as_ref().filter(|_| !self.is_seen_reshaped(value))?;
        (group.tails.len() == 1 && self.guard(group) == self.flat.guard(reader)).then_some(id)
    }

    /// True for a list of constants, in which a look-up finds a number per point as a function would.
    fn is_table(&self, data: ValueId) -> bool {
        movement::constant(&self.flat.graph, data).is_some_and(|table| table.tensor.rank() == 1)
    }

    /// Takes a group apart: its nodes, which will be computed elsewhere.
    fn dissolve(&mut self, id: usize) -> Vec<NodeId> {
        let Some(group) = self.groups[id].take() else { return Vec::new() };
        for tail in group.tails {
            self.homes[tail.value.index()] = None;
        }
        group.nodes
    }

    /// Whether nodes are to be computed by the kernel of a group, of those that may be; that is usually so.
    fn joins(&mut self, group: usize, nodes: &[NodeId]) -> bool {
        if !self.choices.are_asked() {
            return true;
        }
        let Some(group) = &self.groups[group] else { return true };
        let mut all: Vec<NodeId> = [&group.nodes[..], nodes, &self.views_between(&group.nodes, nodes)].concat();
        all.sort_unstable_by_key(|&node| (self.position(node), node));
        all.dedup();
        let joined: Vec<usize> = (0..all.len()).filter(|&n| nodes.contains(&all[n])).collect();
        let (flat, origins) = (self.flat, origins_of(self.flat, nodes));
        // Which of them join is part of the question.
        let question = || format!("fusion\nof nodes {joined:?} of\n{}", text_of(flat, &all));
        let ways = [Way::Together, Way::Apart];
        self.choices.answer(question, &ways, Way::Together, &origins) != Some(Way::Apart)
    }

    /// The views through which nodes read what a group computes, or the other way round.
    fn views_between(&self, group: &[NodeId], nodes: &[NodeId]) -> Vec<NodeId> {
        let graph = &self.flat.graph;
        let mut views = Vec::new();
        for (readers, read) in [(nodes, group), (group, nodes)] {
            for &input in readers.iter().flat_map(|&reader| &graph.nodes[reader].inputs) {
                let (mut at, mut chain) = (input, Vec::new());
                while let Some((id, node)) = graph.producer(at)
                    && !read.contains(&id)
                    && matches!(node.op, Op::View(_))
                {
                    chain.push(id);
                    at = node.inputs[0];
                }
                if graph.producer(at).is_some_and(|(id, _)| read.contains(&id)) {
                    views.extend(chain);
                }
            }
        }
        views
    }

    /// Whether nodes would make a kernel of bearable size.
    fn fits_a_kernel(&self, nodes: &[NodeId], more: &[NodeId]) -> bool {
        let ops = |&n: &NodeId| match &self.flat.graph.nodes[n].op {
            Op::Map(map) => map.body.ops.len(),
            _ => 1,
        };
        nodes.len() + more.len() <= MAX_NODES && nodes.iter().chain(more).map(ops).sum::<usize>() <= MAX_OPS
    }

    /// The value that a chain of views begins with, and the map there from the value's coordinates.
    pub(super) fn trace(&self, value: ValueId) -> (ValueId, AccessMap) {
        let graph = &self.flat.graph;
        let shape = &graph.ty(value).shape;
        let mut map = AccessMap::identity(shape.len());
        let mut at = value;
        while self.home(at).is_none()
            && let Some((_, node)) = graph.producer(at)
            && let Op::View(view) = &node.op
        {
            map = view.map.compose(&map);
            at = node.inputs[0];
        }
        (at, movement::canonical(&map, shape, &graph.symbols))
    }

    // --------------------------------------------------------------------------------------------------- memory --

    /// Makes sure that some kernel puts the value into memory.
    fn ensure_in_memory(&mut self, value: ValueId) {
        if self.home(value).is_some() {
            return;
        }
        let (root, _) = self.trace(value);
        if self.absorb(root, value) || self.reshape(value) {
            return;
        }
        let nodes: Vec<NodeId> = self.flat.graph.producer(value).map(|(n, _)| n).into_iter().collect();
        self.begin(None, &nodes, &[value]);
    }

    /// Makes the group that writes `root` write `view` instead, if nobody needs anything else.
    fn absorb(&mut self, root: ValueId, view: ValueId) -> bool {
        let Some((reader, _)) = self.flat.graph.producer(view) else { return false };
        let Some(id) = self.sole_group(root, reader) else { return false };
        // Everybody between must read nothing but this chain.
        let mut nodes = Vec::new();
        let mut at = view;
        while at != root {
            let Some((node, n)) = self.flat.graph.producer(at) else { return false };
            at = n.inputs[0];
            if self.readers.is_output(at) || self.readers.nodes(at) != [node] {
                return false;
            }
            nodes.push(node);
        }
        let shape = self.flat.graph.ty(view).shape.clone();
        let (_, map) = self.trace(view);
        let operand = self.flat.graph.ty(root).shape.clone();
        let Some(group) = &self.groups[id] else { return false };
        if group.anchor.is_none() {
            if !reads_once(&map, &shape, &operand) {
                return false;
            }
            nodes.extend(self.dissolve(id));
            self.begin(None, &nodes, &[view]);
            return true;
        }
        if !self.can_follow(group, &map, &shape, &operand) || !self.joins(id, &nodes) {
            return false;
        }
        self.follow(id, &map, &nodes, &[view]);
        true
    }
}
