//! Stages of what folds: contractions, reductions, scans.

use super::{Lowering, Staged, axis_ranges, space_axes};
use crate::form::FormError;
use crate::form::body::coordinates;
use infc_ir::access::Bound;
use infc_ir::entity::{NodeId, StageId, ValueId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Reducer};
use infc_ir::op::{ContractOp, Op, ReduceOp, ScanOp};
use infc_ir::scalar::{BinaryOp, Load, ScalarOp, Source};
use infc_tensor::DType;
use std::collections::BTreeMap;

impl Lowering<'_> {
    /// A stage for a reduction, contraction or scan over the points of `space`, which see the result at `coords`.
    pub(super) fn anchor(&mut self, id: NodeId, space: &[Dim], coords: &[IndexExpr]) -> Result<(), FormError> {
        let node = self.graph().nodes[id].clone();
        let kept: Vec<bool> = space.iter().map(|d| !d.is_const(1)).collect();
        let at = coordinates(&kept);
        let axes = space_axes(space);
        let ranges = axis_ranges(&axes, &self.graph().symbols);
        let coords: Vec<IndexExpr> = coords.iter().map(|e| e.substitute_vars(&at).simplify(&ranges)).collect();
        let stage = match &node.op {
            Op::Contract(op) => self.contract(op, &node.inputs, node.outputs[0], axes, &coords)?,
            Op::Reduce(op) => self.reduce(op, &node.inputs, axes, &coords)?,
            Op::Scan(op) => self.scan(op, node.inputs[0], axes, &kept, &at)?,
            _ => {
                let what = "only reductions, contractions and scans are anchors".to_owned();
                return Err(FormError::Malformed { place: id.to_string(), what });
            }
        };
        let reversed = match &node.op {
            Op::Scan(op) if op.reverse && kept[op.axis] => Some((kept_before(&kept, op.axis), space[op.axis].clone())),
            _ => None,
        };
        for (component, &output) in node.outputs.iter().enumerate() {
            let component = component as u8;
            self.staged.insert(output, Staged { stage, component, kept: None, reversed: reversed.clone() });
        }
        if self.space_stage.is_none() {
            self.space_stage = Some(stage);
        }
        Ok(())
    }

    fn contract(
        &mut self,
        op: &ContractOp,
        inputs: &[ValueId],
        output: ValueId,
        mut axes: Vec<Axis>,
        coords: &[IndexExpr],
    ) -> Result<StageId, FormError> {
        let out = self.graph().ty(output).dtype;
        // Halves are summed in f32; the final stage rounds.
        let sum = if matches!(out, DType::F16 | DType::BF16) { DType::F32 } else { out };
        let mut at: BTreeMap<u8, IndexExpr> = op.output.iter().copied().zip(coords.iter().cloned()).collect();
        let summed = summed_labels(op);
        let extents: Vec<Dim> = summed.iter().map(|&l| self.label_extent(op, inputs, l)).collect();
        let places = if extents.is_empty() { Vec::new() } else { reduction_axes(&mut axes, "k", &extents) };
        at.extend(summed.into_iter().zip(places));
        let index = |labels: &[u8]| -> Vec<IndexExpr> {
            labels.iter().map(|l| at.get(l).cloned().unwrap_or_default()).collect()
        };
        let (lhs, rhs) = (index(&op.lhs), index(&op.rhs));
        let (body, results) = self.body(&axes, |b| {
            let x = b.read(inputs[0], &lhs, &[])?;
            let y = b.read(inputs[1], &rhs, &[])?;
            let (x, y) = (b.body.cast(sum, x), b.body.cast(sum, y));
            Ok(vec![b.body.binary(BinaryOp::Mul, x, y)])
        })?;
        let reducer = axes.iter().any(|a| a.kind == AxisKind::Reduce).then(|| Reducer::sum(sum));
        Ok(self.push("sum", axes, body, results, reducer))
    }

    fn label_extent(&self, op: &ContractOp, inputs: &[ValueId], label: u8) -> Dim {
        let find = |labels: &[u8], value: ValueId| {
            labels.iter().position(|&l| l == label).map(|n| self.graph().ty(value).shape[n].clone())
        };
        find(&op.lhs, inputs[0]).or_else(|| find(&op.rhs, inputs[1])).unwrap_or_else(|| Dim::constant(1))
    }

    fn reduce(
        &mut self,
        op: &ReduceOp,
        inputs: &[ValueId],
        mut axes: Vec<Axis>,
        coords: &[IndexExpr],
    ) -> Result<StageId, FormError> {
        let shape = self.graph().ty(inputs[0]).shape.clone();
        let extents: Vec<Dim> = op.axes.iter().map(|&a| shape[a].clone()).collect();
        let places = reduction_axes(&mut axes, "r", &extents);
        let (mut reduced, mut kept) = (places.into_iter(), coords.iter().cloned());
        let index: Vec<IndexExpr> = (0..shape.len())
            .map(|a| if op.axes.contains(&a) { reduced.next() } else { kept.next() }.unwrap_or_default())
            .collect();
        let (body, results) = self.body(&axes, |b| {
            let arguments = b.arguments(&op.body, &op.elements, inputs, &index, &[])?;
            Ok(b.import(&op.body, &op.elements, &arguments, &index))
        })?;
        Ok(self.push("fold", axes, body, results, Some(op.reducer.clone())))
    }

    fn scan(
        &mut self,
        op: &ScanOp,
        input: ValueId,
        mut axes: Vec<Axis>,
        kept: &[bool],
        at: &[IndexExpr],
    ) -> Result<StageId, FormError> {
        let extent = self.graph().ty(input).shape[op.axis].clone();
        let init = op.reducer.init[0];
        let step = at[op.axis].clone();
        let from_end = |e: &IndexExpr| if op.reverse { extent.clone() - 1 - e.clone() } else { e.clone() };
        // The element folded at step t is the t-th from the side where the scan begins; an exclusive one lags behind.
        let element_step = if op.exclusive { step.clone() - 1 } else { step.clone() };
        let mut element = at.to_vec();
        element[op.axis] = from_end(&element_step);
        let id = self.kernel.stages.next_id();
        let zero = IndexExpr::constant(0);
        let exists = |e: &IndexExpr| Bound { expr: e.clone(), lo: zero.clone(), hi: extent.clone() };
        if kept[op.axis] {
            let axis = &mut axes[kept_before(kept, op.axis)];
            axis.kind = AxisKind::Sequential;
            axis.name = "t".to_owned();
        }
        let previous = |e: IndexExpr| -> Vec<IndexExpr> {
            let mut index = at.to_vec();
            index[op.axis] = e;
            index.iter().zip(kept).filter(|(_, k)| **k).map(|(e, _)| e.clone()).collect()
        };
        let (body, results) = self.body(&axes, |b| {
            let guard: Vec<_> = if op.exclusive { vec![exists(&element_step)] } else { Vec::new() };
            let x = b.read(input, &element, &guard)?;
            let x = match &guard[..] {
                [] => x,
                guard => {
                    let holds = b.body.push(ScalarOp::InBounds(guard.to_vec()));
                    let neutral = b.body.push(ScalarOp::Const(init));
                    b.body.select(holds, x, neutral)
                }
            };
            let before = if kept[op.axis] {
                b.body.push(ScalarOp::Load(Load {
                    source: Source::Stage(id, 0),
                    index: previous(step.clone() - 1),
                    gather: Vec::new(),
                    valid: vec![exists(&(step.clone() - 1))],
                    otherwise: init,
                    dtype: init.dtype,
                }))
            } else {
                b.body.push(ScalarOp::Const(init))
            };
            Ok(b.import(&op.reducer.combine, &op.reducer.results, &[Some(before), Some(x)], &[]))
        })?;
        let stage = self.push("scan", axes, body, results, None);
        Ok(stage)
    }
}

/// The stage's number of an axis of a shape.
fn kept_before(kept: &[bool], axis: usize) -> usize {
    kept[..axis].iter().filter(|k| **k).count()
}

/// Labels that are summed over, in the order of the left operand, then the right.
fn summed_labels(op: &ContractOp) -> Vec<u8> {
    let mut labels = Vec::new();
    for &label in op.lhs.iter().chain(&op.rhs) {
        if !op.output.contains(&label) && !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// Adds reduction axes and returns the coordinate along each. Extents of 1 need no axis, but there is at least one.
fn reduction_axes(axes: &mut Vec<Axis>, base: &str, extents: &[Dim]) -> Vec<IndexExpr> {
    let real = extents.iter().filter(|e| !e.is_const(1)).count();
    let mut places = Vec::new();
    if extents.is_empty() {
        axes.push(Axis { name: base.to_owned(), extent: Dim::constant(1), kind: AxisKind::Reduce });
    }
    for (n, extent) in extents.iter().enumerate() {
        if extent.is_const(1) && (real > 0 || n > 0) {
            places.push(IndexExpr::constant(0));
            continue;
        }
        places.push(IndexExpr::var(VarId(axes.len() as u32)));
        let name = if real > 1 { format!("{base}{n}") } else { base.to_owned() };
        axes.push(Axis { name, extent: extent.clone(), kind: AxisKind::Reduce });
    }
    places
}
