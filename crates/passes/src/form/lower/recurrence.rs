//! Recurrences: the body's stages, once per step, in one kernel.
//!
//! The body is lowered as one group. Then every stage gets the steps as a sequential axis in front, slices and outputs
//! get them as their first coordinate, and each state becomes a stage of its own that gives what the step before has
//! written, or the initial value at the first step. So a state that many points read (the hidden state of an LSTM) is
//! fetched once per step and not once per product, and no load of an inner loop has a condition.

use super::{Lowered, lower, outputs_last};
use crate::form::FormError;
use crate::form::body::{constant_splat, coordinates};
use crate::form::expand::Flat;
use crate::form::group::{Group, Grouping};
use crate::form::outputs::compute_outputs;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, IndexVec, NodeId, OperandId, ScalarId, StageId, ValueId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Operand, OperandKind, Stage};
use infc_ir::op::{Op, RecurrenceOp};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use std::collections::BTreeMap;

/// What an operand of the body's kernel is to the recurrence.
#[derive(Clone, Copy)]
enum Role {
    /// The n-th input: a state.
    State(usize),
    /// An input that is seen one step at a time.
    Slice(usize),
    /// An input that all steps see.
    Shared(usize),
    /// The n-th output.
    Output(usize),
}

/// The kernel of a group that is one recurrence.
pub(super) fn recurrence(
    grouping: &Grouping<'_>,
    id: usize,
    group: &Group,
    node: NodeId,
) -> Result<Lowered, FormError> {
    let outer = &grouping.flat.graph;
    let Op::Recurrence(op) = &outer.nodes[node].op else {
        let what = "it is no recurrence".to_owned();
        return Err(FormError::Malformed { place: node.to_string(), what });
    };
    let mut flat = Flat::of(op.body.as_ref().clone());
    // Where the results lie may depend on a symbol that came up after the body.
    flat.graph.symbols.clone_from(&outer.symbols);
    compute_outputs(&mut flat.graph);
    let inner = Grouping::of_step(&flat, [op.states, op.slices]);
    let Some(body_group) = &inner.groups[0] else {
        return Err(FormError::Malformed { place: node.to_string(), what: "its body is empty".to_owned() });
    };
    let body = lower(&inner, 0, body_group)?;
    let roles = roles(&flat, op, &body)?;

    let mut this = Steps { grouping, node, op, roles, previous: BTreeMap::new(), values: Vec::new() };
    let mut kernel = this.kernel(body)?;
    kernel.name.clone_from(&outer.name);
    let mut lowered = Lowered { group: id, kernel, values: this.values, space_stage: None, filters: Vec::new() };
    debug_assert_eq!(group.nodes, [node]);
    outputs_last(&mut lowered);
    Ok(lowered)
}

/// The roles of the operands of the body's kernel.
fn roles(flat: &Flat, op: &RecurrenceOp, body: &Lowered) -> Result<Vec<Role>, FormError> {
    let role = |(operand, value): (&Operand, &ValueId)| {
        let ports = if operand.kind == OperandKind::Output { &flat.graph.outputs } else { &flat.graph.inputs };
        let n = ports.iter().position(|p| p.value == *value);
        match (operand.kind, n) {
            (OperandKind::Output, Some(n)) => Ok(Role::Output(n)),
            (_, Some(n)) if n < op.states => Ok(Role::State(n)),
            (_, Some(n)) if n < op.states + op.slices => Ok(Role::Slice(n)),
            (OperandKind::Input, Some(n)) => Ok(Role::Shared(n)),
            _ => Err(FormError::Malformed {
                place: "the body of a recurrence".to_owned(),
                what: format!("{value} is neither an input nor an output of it"),
            }),
        }
    };
    body.kernel.operands.iter().zip(&body.values).map(role).collect()
}

/// A body's kernel on its way to one that computes all steps.
struct Steps<'a> {
    grouping: &'a Grouping<'a>,
    node: NodeId,
    op: &'a RecurrenceOp,
    /// Per operand of the body's kernel.
    roles: Vec<Role>,
    /// The stage that gives a state as the step before left it, by operand of the body's kernel.
    previous: BTreeMap<OperandId, StageId>,
    /// Per operand of the new kernel.
    values: Vec<ValueId>,
}

impl Steps<'_> {
    fn kernel(&mut self, body: Lowered) -> Result<Kernel, FormError> {
        let Lowered { kernel: body, .. } = body;
        let mut kernel = Kernel { symbols: body.symbols.clone(), ..Kernel::default() };
        let operands: Vec<OperandId> = body
            .operands
            .iter_enumerated()
            .map(|(id, operand)| self.operand(&mut kernel, operand, self.roles[id.index()]))
            .collect();
        let states: Vec<OperandId> =
            body.operands.ids().filter(|id| matches!(self.roles[id.index()], Role::State(_))).collect();
        for (n, &operand) in states.iter().enumerate() {
            self.previous.insert(operand, StageId::from_index(n));
        }
        let first = states.len();
        for &operand in &states {
            let stage = self.state(&body, operand, operands[operand.index()], first)?;
            kernel.stages.push(stage);
        }
        for stage in body.stages.iter() {
            let stage = self.stage(&body, stage, &operands, first);
            kernel.stages.push(stage);
        }
        for output in &body.outputs {
            let index = self.stepped(&output.index);
            let (operand, stage) =
                (operands[output.operand.index()], StageId::from_index(output.stage.index() + first));
            kernel.outputs.push(infc_ir::kernel::Output {
                operand,
                stage,
                component: output.component,
                index,
                onto: None,
            });
        }
        self.drop_unread(&mut kernel);
        Ok(kernel)
    }

    /// The value outside that an operand of the body stands for.
    fn value(&self, role: Role) -> ValueId {
        let node = &self.grouping.flat.graph.nodes[self.node];
        match role {
            Role::State(n) | Role::Slice(n) | Role::Shared(n) => node.inputs[n],
            Role::Output(n) => node.outputs[n],
        }
    }

    fn operand(&mut self, kernel: &mut Kernel, operand: &Operand, role: Role) -> OperandId {
        let graph = &self.grouping.flat.graph;
        let value = self.value(role);
        let is_constant = matches!(graph.producer(value), Some((_, n)) if matches!(n.op, Op::Constant(_)));
        let kind = match role {
            Role::Output(_) => OperandKind::Output,
            _ if is_constant => OperandKind::Constant,
            _ => OperandKind::Input,
        };
        let shape = graph.ty(value).shape.clone();
        let layout = Layout::dense(&shape);
        self.values.push(value);
        kernel.operands.push(Operand { name: String::new(), dtype: operand.dtype, shape, kind, layout })
    }

    fn steps_axis(&self) -> Axis {
        Axis { name: "t".to_owned(), extent: self.op.steps.clone(), kind: AxisKind::Sequential }
    }

    /// Coordinates of the body, behind the step.
    fn stepped(&self, index: &[IndexExpr]) -> Vec<IndexExpr> {
        std::iter::once(step()).chain(index.iter().map(shift)).collect()
    }

    /// `t ≥ 1 ? what step t − 1 has written : the initial value`.
    fn state(&self, body: &Kernel, of: OperandId, initial: OperandId, first: usize) -> Result<Stage, FormError> {
        let Role::State(n) = self.roles[of.index()] else { unreachable!("only states have such a stage") };
        let writes = |o: &&infc_ir::kernel::Output| matches!(self.roles[o.operand.index()], Role::Output(m) if m == n);
        let output = body.outputs.iter().find(writes).ok_or_else(|| FormError::Malformed {
            place: self.node.to_string(),
            what: format!("nothing computes its state {n}"),
        })?;
        let operand = &body.operands[of];
        let kept: Vec<bool> = operand.shape.iter().map(|d| !d.is_const(1)).collect();
        let mut axes = vec![self.steps_axis()];
        for (position, extent) in operand.shape.iter().enumerate().filter(|(n, _)| kept[*n]) {
            axes.push(Axis { name: format!("d{position}"), extent: extent.clone(), kind: AxisKind::Parallel });
        }
        let at: Vec<IndexExpr> = coordinates(&kept).iter().map(shift).collect();
        // The stage that writes the state goes through its coordinates, those of extent 1 left out.
        let mut before = vec![step() - 1];
        before.extend(at.iter().zip(&kept).filter(|(_, k)| **k).map(|(e, _)| e.clone()));
        let started = Bound { expr: step(), lo: IndexExpr::constant(1), hi: self.op.steps.clone() };

        let mut expr = Body::default();
        let left = expr.push(ScalarOp::Load(Load {
            source: Source::Stage(StageId::from_index(output.stage.index() + first), output.component),
            index: before,
            gather: Vec::new(),
            valid: vec![started.clone()],
            otherwise: Const::zero(operand.dtype),
            dtype: operand.dtype,
        }));
        let load = Load {
            source: Source::Operand(initial),
            index: at,
            gather: Vec::new(),
            valid: Vec::new(),
            otherwise: Const::zero(operand.dtype),
            dtype: operand.dtype,
        };
        let given = match self.splat(of) {
            Some(c) => expr.push(ScalarOp::Const(c)),
            None => expr.push(ScalarOp::Load(load)),
        };
        let holds = expr.push(ScalarOp::InBounds(vec![started]));
        let result = expr.select(holds, left, given);
        Ok(Stage { name: format!("state{n}"), axes, body: expr, results: vec![result], reducer: None })
    }

    /// The value of all elements of an operand, if that is one constant.
    fn splat(&self, operand: OperandId) -> Option<Const> {
        let graph = &self.grouping.flat.graph;
        let (_, node) = graph.producer(self.value(self.roles[operand.index()]))?;
        let Op::Constant(constant) = &node.op else { return None };
        constant_splat(&constant.tensor)
    }

    /// A stage of the body, at every step.
    fn stage(&self, body: &Kernel, stage: &Stage, operands: &[OperandId], first: usize) -> Stage {
        let mut axes = vec![self.steps_axis()];
        axes.extend(
            stage
                .axes
                .iter()
                .map(|a| Axis { name: if a.name == "t" { "t1".to_owned() } else { a.name.clone() }, ..a.clone() }),
        );
        let mut expr = Body::default();
        let mut renumbered: Vec<ScalarId> = Vec::with_capacity(stage.body.ops.len());
        for op in stage.body.ops.iter() {
            let op = op.map_operands(&mut |o| renumbered[o.index()]).map_indices(&shift);
            renumbered.push(match op {
                ScalarOp::Load(load) => self.load(&mut expr, body, load, operands, first),
                other => expr.push(other),
            });
        }
        let results = stage.results.iter().map(|r| renumbered[r.index()]).collect();
        Stage { name: stage.name.clone(), axes, body: expr, results, reducer: stage.reducer.clone() }
    }

    /// A load of the body whose coordinates are shifted already.
    fn load(&self, expr: &mut Body, body: &Kernel, mut load: Load, operands: &[OperandId], first: usize) -> ScalarId {
        let in_front = |load: &mut Load| {
            load.index.insert(0, step());
            load.gather.iter_mut().for_each(|(axis, _, _)| *axis = axis.saturating_add(1));
        };
        match load.source {
            Source::Stage(stage, component) => {
                load.source = Source::Stage(StageId::from_index(stage.index() + first), component);
                in_front(&mut load);
            }
            Source::Operand(operand) => {
                if let (Some(c), [], Role::Shared(_) | Role::Slice(_)) =
                    (self.splat(operand), &load.valid[..], self.roles[operand.index()])
                {
                    return expr.push(ScalarOp::Const(c));
                }
                match self.roles[operand.index()] {
                    Role::State(_) => {
                        let kept: Vec<bool> = body.operands[operand].shape.iter().map(|d| !d.is_const(1)).collect();
                        // Along an axis of one element there is nothing to look up.
                        load.gather.retain(|(axis, _, _)| kept[usize::from(*axis)]);
                        for (axis, _, _) in &mut load.gather {
                            let before = kept[..usize::from(*axis)].iter().filter(|k| **k).count();
                            *axis = u8::try_from(before).unwrap_or(u8::MAX);
                        }
                        load.source = Source::Stage(self.previous[&operand], 0);
                        let index = load.index.iter().zip(&kept).filter(|(_, k)| **k).map(|(e, _)| e.clone());
                        load.index = index.collect();
                        in_front(&mut load);
                    }
                    role => {
                        load.source = Source::Operand(operands[operand.index()]);
                        if matches!(role, Role::Slice(_)) {
                            in_front(&mut load);
                        }
                    }
                }
            }
            Source::Buffer(_) => {}
        }
        expr.push(ScalarOp::Load(load))
    }

    /// Operands that nothing reads any more: splats, and initial values that are.
    fn drop_unread(&mut self, kernel: &mut Kernel) {
        let mut used: Vec<bool> = kernel.operands.iter().map(|o| o.kind == OperandKind::Output).collect();
        for stage in kernel.stages.iter() {
            stage.for_each_load(&mut |_, load| {
                if let Source::Operand(id) = load.source {
                    used[id.index()] = true;
                }
            });
        }
        let mut kept = IndexVec::new();
        let mut new_id = vec![OperandId(0); used.len()];
        let mut values = Vec::new();
        for (id, operand) in kernel.operands.iter_enumerated().filter(|(id, _)| used[id.index()]) {
            new_id[id.index()] = kept.push(operand.clone());
            values.push(self.values[id.index()]);
        }
        (kernel.operands, self.values) = (kept, values);
        for stage in kernel.stages.iter_mut() {
            for op in stage.body.ops.iter_mut() {
                if let ScalarOp::Load(Load { source: Source::Operand(id), .. }) = op {
                    *id = new_id[id.index()];
                }
            }
        }
        for output in &mut kernel.outputs {
            output.operand = new_id[output.operand.index()];
        }
    }
}

/// The step: the first coordinate of every stage.
fn step() -> IndexExpr {
    IndexExpr::var(VarId(0))
}

/// An expression over the axes of a stage of the body, over those of the stage behind the steps.
fn shift(e: &IndexExpr) -> IndexExpr {
    e.substitute(&|atom| match atom {
        infc_ir::index::Atom::Var(v) => Some(IndexExpr::var(VarId(v.0 + 1))),
        _ => None,
    })
}
