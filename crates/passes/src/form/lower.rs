//! From a group of nodes to a kernel: which values become stages, and what each stage computes.
//!
//! Reductions, contractions and scans are stages. So is what is expensive and needed at more than one place. All else
//! is inlined where it is read. Last comes, per shape that is written, a stage that computes the kernel's results.
//! Operands are dense at this point; layouts are chosen once all kernels are known.

mod anchor;
mod recurrence;

use super::FormError;
use super::body::{BodyBuilder, constant_splat, coordinates};
use super::group::{Group, Grouping, Home, Tail, Unit};
use crate::formulate::FilterTransform;
use infc_ir::entity::{EntityId, NodeId, OperandId, ScalarId, StageId, ValueId};
use infc_ir::graph::{Graph, Node};
use infc_ir::index::{Dim, IndexExpr, Ranges};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Operand, OperandKind, Output, Reducer, Stage};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, Source, UnaryOp, is_computable};
use infc_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// A kernel with the values its operands stand for.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    pub(super) group: usize,
    pub(super) kernel: Kernel,
    /// Per operand.
    pub(super) values: Vec<ValueId>,
    /// The anchor's stage, if its axes are those of the first stage that writes results.
    pub(super) space_stage: Option<StageId>,
    /// Constants that the kernel reads transformed.
    pub(super) filters: Vec<(OperandId, FilterTransform)>,
}

/// Where a value can be read.
pub(super) enum Place {
    Operand(OperandId),
    /// Stage, component, and the coordinates to read.
    Stage(StageId, u8, Vec<IndexExpr>),
    Const(Const),
}

/// A value computed by a stage of the kernel.
#[derive(Clone, Debug)]
struct Staged {
    stage: StageId,
    component: u8,
    /// Which axes of the value the stage has; `None` if the stage runs over the kernel's own space, where it is only
    /// read at the same point.
    kept: Option<Vec<bool>>,
    /// A scan from the far end: the stage's axis that runs backwards, and its extent.
    reversed: Option<(usize, Dim)>,
}

/// One group on its way to a kernel.
pub(super) struct Lowering<'a> {
    grouping: &'a Grouping<'a>,
    id: usize,
    kernel: Kernel,
    /// Per operand.
    values: Vec<ValueId>,
    operands: BTreeMap<ValueId, OperandId>,
    staged: BTreeMap<ValueId, Staged>,
    space_stage: Option<StageId>,
}

/// Makes the kernel of a group.
pub(super) fn lower(grouping: &Grouping<'_>, id: usize, group: &Group) -> Result<Lowered, FormError> {
    let graph = &grouping.flat.graph;
    if let Some(Unit::Node(node)) = group.anchor
        && matches!(graph.nodes[node].op, Op::Recurrence(_))
    {
        return recurrence::recurrence(grouping, id, group, node);
    }
    let kernel = Kernel {
        name: String::new(),
        symbols: graph.symbols.clone(),
        operands: Default::default(),
        stages: Default::default(),
        outputs: Vec::new(),
    };
    let mut this = Lowering {
        grouping,
        id,
        kernel,
        values: Vec::new(),
        operands: BTreeMap::new(),
        staged: BTreeMap::new(),
        space_stage: None,
    };
    this.stages(group)?;
    this.results(group)?;
    let mut lowered =
        Lowered { group: id, kernel: this.kernel, values: this.values, space_stage: None, filters: Vec::new() };
    if matches!(group.anchor, Some(Unit::Node(_))) {
        lowered.space_stage = this.space_stage;
    }
    outputs_last(&mut lowered);
    Ok(lowered)
}

impl<'a> Lowering<'a> {
    pub(super) fn graph(&self) -> &'a Graph {
        &self.grouping.flat.graph
    }

    /// The type in which a stage holds a component.
    pub(super) fn stage_dtype(&self, stage: StageId, component: u8) -> DType {
        let stage = &self.kernel.stages[stage];
        stage.body.dtype(stage.results[usize::from(component)])
    }

    // --------------------------------------------------------------------------------------------------- places --

    /// True if the value is in memory or a stage.
    pub(super) fn is_placed(&self, value: ValueId) -> bool {
        self.staged.contains_key(&value) || self.grouping.home(value).is_some_and(|h| h != Home::Group(self.id))
    }

    /// Where to read the value at `index`; `None` if it is to be computed on the spot.
    pub(super) fn place(&mut self, value: ValueId, index: &[IndexExpr]) -> Result<Option<Place>, FormError> {
        if let Some(staged) = self.staged.get(&value) {
            let mut at: Vec<IndexExpr> = match &staged.kept {
                Some(kept) => index.iter().zip(kept).filter(|(_, k)| **k).map(|(e, _)| e.clone()).collect(),
                None => super::group::identity(self.kernel.stages[staged.stage].value_axes().count()),
            };
            if let Some((axis, extent)) = &staged.reversed {
                at[*axis] = extent.clone() - 1 - at[*axis].clone();
            }
            return Ok(Some(Place::Stage(staged.stage, staged.component, at)));
        }
        let graph = &self.grouping.flat.graph;
        if let Some((_, node)) = graph.producer(value)
            && let Op::Constant(constant) = &node.op
        {
            if let Some(c) = constant_splat(&constant.tensor) {
                return Ok(Some(Place::Const(c)));
            }
            return self.operand(value, OperandKind::Constant).map(|o| Some(Place::Operand(o)));
        }
        if self.is_placed(value) {
            return self.operand(value, OperandKind::Input).map(|o| Some(Place::Operand(o)));
        }
        Ok(None)
    }

    /// Which axis of its stage the axis of a value is: `None` if the stage does not have it, since its extent is 1, or if
    /// the value is only read at one point. With the extent if the stage runs through it backwards.
    pub(super) fn stage_axis(&self, value: ValueId, axis: usize) -> Option<(usize, Option<Dim>)> {
        let staged = self.staged.get(&value)?;
        let kept = staged.kept.as_ref()?;
        kept.get(axis).filter(|kept| **kept)?;
        let at = kept[..axis].iter().filter(|kept| **kept).count();
        let reversed = staged.reversed.as_ref().filter(|(reversed, _)| *reversed == at);
        Some((at, reversed.map(|(_, extent)| extent.clone())))
    }

    fn operand(&mut self, value: ValueId, kind: OperandKind) -> Result<OperandId, FormError> {
        if let Some(&operand) = self.operands.get(&value) {
            return Ok(operand);
        }
        let ty = self.grouping.flat.graph.ty(value);
        if !is_computable(ty.dtype) {
            return Err(FormError::UnsupportedType { place: value.to_string(), dtype: ty.dtype });
        }
        let operand = self.kernel.operands.push(Operand {
            name: String::new(),
            dtype: ty.dtype,
            shape: ty.shape.clone(),
            kind,
            layout: Layout::dense(&ty.shape),
        });
        self.values.push(value);
        self.operands.insert(value, operand);
        Ok(operand)
    }

    // --------------------------------------------------------------------------------------------------- stages --

    fn stages(&mut self, group: &Group) -> Result<(), FormError> {
        let mut nodes = group.nodes.clone();
        // Nodes are numbered in the order they were made; the graph's order is what counts.
        nodes.sort_by_key(|&n| self.grouping.position(n));
        nodes.dedup();
        // What positions are looked up in has to be stored, whatever it costs to compute.
        let graph = self.graph();
        let looked_up: Vec<ValueId> = nodes.iter().filter_map(|&id| looked_up(graph, id)).collect();
        for &id in &nodes {
            let node = self.graph().nodes[id].clone();
            if group.anchor == Some(Unit::Node(id)) {
                let space = group.tails[0].space.clone();
                self.anchor(id, &space, &group.anchor_coords)?;
                continue;
            }
            match &node.op {
                Op::Reduce(_) | Op::Contract(_) | Op::Scan(_) => {
                    let space = self.graph().ty(node.outputs[0]).shape.clone();
                    let coords = super::group::identity(space.len());
                    self.anchor(id, &space, &coords)?;
                    // Read from anywhere in the kernel, not only at the point that is computed.
                    let kept: Vec<bool> = space.iter().map(|d| !d.is_const(1)).collect();
                    for output in &node.outputs {
                        if let Some(staged) = self.staged.get_mut(output) {
                            staged.kept = Some(kept.clone());
                        }
                    }
                }
                Op::Map(_) | Op::Gather(_) => {
                    for &output in &node.outputs {
                        let is_stage = looked_up.contains(&output)
                            || self.deserves_a_stage(output, &nodes)
                            || self.is_decoded(group, output, &nodes);
                        if is_stage {
                            self.pointwise_stage(output)?;
                        }
                    }
                }
                Op::View(_) | Op::Concat(_) | Op::DimValue(_) => {
                    for &output in node.outputs.iter().filter(|output| looked_up.contains(output)) {
                        if !self.is_placed(output) {
                            self.pointwise_stage(output)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True if the value is expensive and would be computed more than once. In a step of a recurrence, what a step makes to be
    /// multiplied would be computed for each column of the other factor.
    fn deserves_a_stage(&self, value: ValueId, nodes: &[NodeId]) -> bool {
        let graph = self.graph();
        let Some((_, node)) = graph.producer(value) else { return false };
        let cost = match &node.op {
            Op::Map(map) => map.body.ops.iter().map(cost).sum(),
            _ => 4,
        };
        let len = |v: ValueId| graph.ty(v).shape.iter().cloned().product::<Dim>();
        let own = len(value);
        // Readers through views, and whether any of them reads elements again and again.
        let mut readers = 0;
        let mut spreads = false;
        let mut work = vec![value];
        while let Some(at) = work.pop() {
            for &reader in self.grouping.readers.nodes(at).iter().filter(|r| nodes.contains(r)) {
                let n = &graph.nodes[reader];
                if matches!(n.op, Op::View(_)) {
                    spreads |= len(n.outputs[0]) != own;
                    work.extend(&n.outputs);
                } else {
                    readers += 1;
                    spreads |= self.repeats_of_step(n, at);
                }
            }
        }
        let reduces = nodes.iter().any(|&n| matches!(graph.nodes[n].op, Op::Reduce(_) | Op::Contract(_) | Op::Scan(_)));
        reduces && ((readers > 1 && cost >= 4) || (spreads && cost >= 2))
    }

    /// True if a contraction in a step of a recurrence reads each element of the value several times, and other ones in other
    /// steps.
    fn repeats_of_step(&self, node: &Node, value: ValueId) -> bool {
        let graph = self.graph();
        let (Some(stepped), Op::Contract(op)) = (self.grouping.stepped, &node.op) else { return false };
        let labels = [&op.lhs, &op.rhs];
        let repeats = |side: usize| {
            let extents = op.output.iter().zip(&graph.ty(node.outputs[0]).shape);
            extents.into_iter().any(|(label, extent)| !labels[side].contains(label) && !extent.is_const(1))
        };
        let mut work = vec![value];
        let mut seen = BTreeSet::new();
        let mut follows_step = false;
        while let Some(at) = work.pop().filter(|_| !follows_step) {
            follows_step |= graph.inputs[..stepped].iter().any(|port| port.value == at);
            if let Some((_, node)) = graph.producer(at) {
                work.extend(node.inputs.iter().filter(|&&input| seen.insert(input)));
            }
        }
        follows_step && (0..2).any(|side| node.inputs[side] == value && repeats(side))
    }

    /// True if the contraction that the kernel is grown around reads the value, and it is more than a conversion: as a
    /// stage, it can be computed for a tile of columns in front of all rows. Of a region, any contraction counts, and only
    /// what is made of constants.
    fn is_decoded(&self, group: &Group, value: ValueId, nodes: &[NodeId]) -> bool {
        let graph = self.graph();
        let anchor = match group.anchor {
            Some(Unit::Node(anchor)) => Some(anchor),
            Some(Unit::Region(_)) if self.is_of_constants(value, nodes) => None,
            _ => return false,
        };
        let Some((_, Node { op: Op::Map(map), .. })) = graph.producer(value) else { return false };
        let converts = map.body.ops.iter().all(|op| matches!(op, ScalarOp::Param(..) | ScalarOp::Cast(..)));
        let mut work = vec![value];
        while let Some(at) = work.pop() {
            for &reader in self.grouping.readers.nodes(at).iter().filter(|r| nodes.contains(r)) {
                match &graph.nodes[reader].op {
                    Op::Contract(_) if anchor.is_none_or(|anchor| reader == anchor) => return !converts,
                    Op::View(_) => work.extend(&graph.nodes[reader].outputs),
                    _ => {}
                }
            }
        }
        false
    }

    /// True if the nodes make the value of constants alone.
    fn is_of_constants(&self, value: ValueId, nodes: &[NodeId]) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![value];
        while let Some(at) = work.pop() {
            match self.graph().producer(at) {
                Some((_, Node { op: Op::Constant(_), .. })) => {}
                Some((id, node)) if nodes.contains(&id) => work.extend(node.inputs.iter().filter(|&&v| seen.insert(v))),
                _ => return false,
            }
        }
        true
    }

    fn pointwise_stage(&mut self, value: ValueId) -> Result<(), FormError> {
        let shape = self.graph().ty(value).shape.clone();
        let kept: Vec<bool> = shape.iter().map(|d| !d.is_const(1)).collect();
        let axes = space_axes(&shape);
        let at = coordinates(&kept);
        let (body, results) = self.body(&axes, |b| Ok(vec![b.read(value, &at, &[])?]))?;
        let stage = self.push("map", axes, body, results, None);
        self.staged.insert(value, Staged { stage, component: 0, kept: Some(kept), reversed: None });
        Ok(())
    }

    fn body(
        &mut self,
        axes: &[Axis],
        make: impl FnOnce(&mut BodyBuilder<'_, 'a>) -> Result<Vec<ScalarId>, FormError>,
    ) -> Result<(Body, Vec<ScalarId>), FormError> {
        let ranges = axis_ranges(axes, &self.graph().symbols);
        let mut builder = BodyBuilder::new(self, ranges);
        let results = make(&mut builder)?;
        Ok((builder.body, results))
    }

    fn push(
        &mut self,
        base: &str,
        axes: Vec<Axis>,
        body: Body,
        results: Vec<ScalarId>,
        reducer: Option<Reducer>,
    ) -> StageId {
        // Dead operations would look like reads to whoever asks what the stage needs.
        let mut clean = Body::default();
        let results = clean.import(&body, &results, &mut |_, _| None);
        let name = format!("{base}{}", self.kernel.stages.len());
        self.kernel.stages.push(Stage { name, axes, body: clean, results, reducer })
    }

    // -------------------------------------------------------------------------------------------------- results --

    /// The stages that compute what is written: one per space.
    fn results(&mut self, group: &Group) -> Result<(), FormError> {
        let mut rest: Vec<&Tail> = group.tails.iter().collect();
        while let Some(first) = rest.first().copied() {
            let (now, later): (Vec<&Tail>, Vec<&Tail>) = rest.into_iter().partition(|t| t.space == first.space);
            rest = later;
            let kept: Vec<bool> = first.space.iter().map(|d| !d.is_const(1)).collect();
            let axes = space_axes(&first.space);
            let at = coordinates(&kept);
            let ranges = axis_ranges(&axes, &self.graph().symbols);
            let indices: Vec<Vec<IndexExpr>> = now
                .iter()
                .map(|t| t.index.iter().map(|e| e.substitute_vars(&at).simplify(&ranges)).collect())
                .collect();
            let types: Vec<DType> = now.iter().map(|t| self.graph().ty(t.value).dtype).collect();
            let (body, results) = self.body(&axes, |b| {
                let reads = now.iter().zip(&indices).zip(&types);
                reads
                    .map(|((tail, index), &dtype)| {
                        let value = b.read(tail.value, index, &[])?;
                        Ok(b.body.cast(dtype, value))
                    })
                    .collect()
            })?;
            let stage = self.push("out", axes, body, results, None);
            for (component, (tail, index)) in now.into_iter().zip(indices).enumerate() {
                let operand = self.operand(tail.value, OperandKind::Output)?;
                self.kernel.outputs.push(Output { operand, stage, component: component as u8, index, onto: None });
            }
        }
        Ok(())
    }
}

/// What a look-up finds its elements in.
fn looked_up(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = &graph.nodes[id];
    matches!(node.op, Op::Gather(_)).then(|| node.inputs[0])
}

/// What one operation costs beside an addition.
fn cost(op: &ScalarOp) -> u32 {
    match op {
        ScalarOp::Unary(op, _) => match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not | UnaryOp::Sign | UnaryOp::IsNan | UnaryOp::IsInf => 1,
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round | UnaryOp::Tf32 => 1,
            UnaryOp::Sqrt | UnaryOp::Reciprocal => 4,
            _ => 12,
        },
        ScalarOp::Binary(BinaryOp::Pow, ..) => 24,
        ScalarOp::Binary(BinaryOp::Div | BinaryOp::Mod | BinaryOp::Rem, ..) => 4,
        ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) => 0,
        _ => 1,
    }
}

/// Parallel axes over a shape, without those of extent 1, named as people name tensors of that rank.
fn space_axes(shape: &[Dim]) -> Vec<Axis> {
    let names: &[&str] = match shape.len() {
        1 => &["n"],
        2 => &["m", "n"],
        3 => &["b", "m", "n"],
        4 => &["n", "c", "h", "w"],
        5 => &["n", "c", "d", "h", "w"],
        _ => &[],
    };
    shape
        .iter()
        .enumerate()
        .filter(|(_, d)| !d.is_const(1))
        .map(|(n, extent)| Axis {
            name: names.get(n).map_or_else(|| format!("d{n}"), |&name| name.to_owned()),
            extent: extent.clone(),
            kind: AxisKind::Parallel,
        })
        .collect()
}

/// What is known of axes' variables.
pub(super) fn axis_ranges(axes: &[Axis], symbols: &infc_ir::symbol::Symbols) -> Ranges {
    let shape: Vec<Dim> = axes.iter().map(|a| a.extent.clone()).collect();
    crate::graph::movement::ranges(symbols, &shape)
}

/// Orders operands: inputs, then constants, then outputs; and names them.
fn outputs_last(lowered: &mut Lowered) {
    let kernel = &mut lowered.kernel;
    let mut order: Vec<OperandId> = kernel.operands.ids().collect();
    let rank = |kind| match kind {
        OperandKind::Input => 0,
        OperandKind::Constant => 1,
        OperandKind::Output => 2,
    };
    order.sort_by_key(|&o| (rank(kernel.operands[o].kind), o));
    let mut new_id = vec![OperandId(0); order.len()];
    let mut count = [0usize; 3];
    let mut operands = infc_ir::entity::IndexVec::new();
    for &old in &order {
        let mut operand = kernel.operands[old].clone();
        let kind = rank(operand.kind);
        operand.name = format!("{}{}", ["x", "w", "y"][kind], count[kind]);
        count[kind] += 1;
        new_id[old.index()] = operands.push(operand);
    }
    kernel.operands = operands;
    lowered.values = order.iter().map(|o| lowered.values[o.index()]).collect();
    for stage in kernel.stages.iter_mut() {
        for op in stage.body.ops.iter_mut() {
            if let ScalarOp::Load(load) = op
                && let Source::Operand(old) = load.source
            {
                load.source = Source::Operand(new_id[old.index()]);
            }
        }
    }
    for output in &mut kernel.outputs {
        output.operand = new_id[output.operand.index()];
    }
}
