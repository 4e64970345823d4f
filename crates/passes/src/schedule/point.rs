//! What is computed at one point: a stage's expression over buffers instead of operands and stages.

use super::ScheduleError;
use super::emit::{AxisState, Emitter, State, Stmts, Storage};
use super::plan::Placement;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId};
use infc_ir::index::{Atom, Dim, IndexExpr, Interval, Proof, Ranges};
use infc_ir::kernel::Operand;
use infc_ir::nest::{Expr, Stmt, Target};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};

/// Conditions under which the points of a state exist.
pub(super) fn limits<'s>(axes: impl Iterator<Item = &'s AxisState>) -> Vec<Bound> {
    axes.filter_map(|a| {
        let limit = a.limit.as_ref()?;
        Some(Bound { expr: a.base.clone(), lo: IndexExpr::constant(0), hi: limit.clone() })
    })
    .collect()
}

impl Emitter<'_> {
    /// Stores the value of a stage without a reducer at one point.
    pub(super) fn point(&mut self, stage: StageId, state: &State) -> Stmts {
        let coordinates: Vec<IndexExpr> = state.iter().map(|a| a.base.clone()).collect();
        let valid = self.open_bounds(limits(state.iter()));
        let value = self.value(stage, &coordinates, &valid, &self.kernel.stages[stage].results)?;
        let complete = self.storage[stage.index()].as_ref().is_some_and(|s| s.complete);
        // Where all of a tile is written, what lies beyond the stage is what its loads give there.
        let valid = if complete { Vec::new() } else { valid };
        let mut targets = Vec::new();
        let mut roots = Vec::new();
        if let Some(storage) = &self.storage[stage.index()] {
            for (component, &buffer) in storage.buffers.iter().enumerate() {
                let index = offset(&coordinates, storage).simplify(&self.ranges);
                targets.push(Target { buffer, index });
                roots.push(value.roots[component]);
            }
        }
        for output in self.kernel.outputs.iter().filter(|o| o.stage == stage) {
            let index: Vec<IndexExpr> = output.index.iter().map(|e| e.substitute_vars(&coordinates)).collect();
            let flat = self.kernel.operands[output.operand].layout.flat(&index).simplify(&self.ranges);
            targets.push(Target { buffer: self.operand_buffers[output.operand.index()], index: flat });
            roots.push(value.roots[usize::from(output.component)]);
        }
        let mut stmts = vec![Stmt::Store { targets, value: Expr { body: value.body, roots }, valid }];
        stmts.extend(self.prefetches(stage, &coordinates));
        Ok(stmts)
    }

    /// The bounds that are not known to hold, simplified.
    pub(super) fn open_bounds(&self, bounds: Vec<Bound>) -> Vec<Bound> {
        let mut open: Vec<Bound> = Vec::new();
        for bound in bounds {
            let bound = bound.map(|e| e.simplify(&self.ranges));
            if bound.proof(&self.ranges) != Proof::Yes && !open.contains(&bound) {
                open.push(bound);
            }
        }
        open
    }

    /// The bounds of a load: its own that are not known to hold, and the guard, which is what is not known outside of the
    /// expression; inside of it, its variables are taken to be within ([`Self::narrow`]).
    fn guarded(&self, own: Vec<Bound>, guard: &[Bound]) -> Vec<Bound> {
        let mut valid = self.open_bounds(own);
        let others = guard.iter().filter(|bound| !valid.contains(bound)).cloned().collect::<Vec<_>>();
        valid.extend(others);
        valid
    }

    /// Operations of a stage at the given coordinates. Loads are made only where `guard` holds, but for those of elements that
    /// are there anyway ([`Emitter::beyond`]).
    pub(super) fn value(
        &mut self,
        stage: StageId,
        coordinates: &[IndexExpr],
        guard: &[Bound],
        roots: &[ScalarId],
    ) -> Result<Expr, ScheduleError> {
        let ranges = self.ranges.clone();
        // What is not stored where the guard fails may be computed as if it held everywhere. Where all of a tile is
        // written, the loads alone keep to the guard.
        if !self.storage[stage.index()].as_ref().is_some_and(|s| s.complete) {
            guard.iter().for_each(|bound| self.narrow(bound));
        }
        let mut body = Body::default();
        self.begin_expression();
        let roots = self.import(&mut body, stage, roots, coordinates, guard, 0);
        self.ranges = ranges;
        let roots = roots?;
        self.spend(stage, body.ops.len())?;
        Ok(Expr { body, roots })
    }

    /// Takes note of what a bound that holds says of the variables in it: how large they can be at most.
    fn narrow(&mut self, bound: &Bound) {
        let Some(end) = self.ranges.interval(&bound.hi).max else { return };
        for var in bound.expr.terms().iter().flat_map(|term| &term.atoms).filter_map(|atom| match atom {
            Atom::Var(var) => Some(*var),
            _ => None,
        }) {
            let Some((step, rest)) = bound.expr.linear_in(var) else { continue };
            let (Some(least), known) = (self.ranges.interval(&rest).min, self.ranges.var(var)) else { continue };
            let Some(max) = step.is_const(1).then(|| end.checked_sub(least)?.checked_sub(1)).flatten() else {
                continue;
            };
            let max = known.max.map_or(max, |known| known.min(max)).max(0);
            self.ranges.set_var(var, Interval { max: Some(max), ..known });
        }
    }

    fn import(
        &self,
        out: &mut Body,
        stage: StageId,
        roots: &[ScalarId],
        coordinates: &[IndexExpr],
        guard: &[Bound],
        depth: usize,
    ) -> Result<Vec<ScalarId>, ScheduleError> {
        let s = &self.kernel.stages[stage];
        self.import_one(stage)?;
        if depth > self.kernel.stages.len() {
            let reason = "inlined stages read each other in a circle".to_owned();
            return Err(ScheduleError::Stage { stage: s.name.clone(), reason });
        }
        let at = |e: &IndexExpr| e.substitute_vars(coordinates).simplify(&self.ranges);
        let mut only = Body::default();
        let roots = only.import(&s.body, roots, &mut |_, _| None);
        let mut renumbered: Vec<ScalarId> = Vec::with_capacity(only.ops.len());
        for op in only.ops.iter() {
            let op = op.map_operands(&mut |o| renumbered[o.index()]).map_indices(&at);
            let new = match op {
                ScalarOp::Load(load) => self.load(out, stage, load, guard, depth)?,
                ScalarOp::InBounds(bounds) => {
                    let open = self.open_bounds(bounds);
                    if open.is_empty() {
                        out.push(ScalarOp::Const(Const { dtype: infc_tensor::DType::Bool, bits: 1 }))
                    } else {
                        out.push(ScalarOp::InBounds(open))
                    }
                }
                other => out.push(other),
            };
            renumbered.push(new);
        }
        Ok(roots.iter().map(|r| renumbered[r.index()]).collect())
    }

    /// A load whose index is already in terms of loop variables.
    fn load(
        &self,
        out: &mut Body,
        reader: StageId,
        load: Load,
        guard: &[Bound],
        depth: usize,
    ) -> Result<ScalarId, ScheduleError> {
        match load.source {
            Source::Operand(id) => {
                let operand = &self.kernel.operands[id];
                // Under the guard, what it implies need not be asked.
                let guarded = self.ranges.given(guard);
                let mut kept = outside_halo(operand, &load, &guarded);
                kept.retain(|bound| bound.proof(&guarded) != Proof::Yes);
                let beyond = self.beyond.as_ref().filter(|ranges| is_there(operand, &load, ranges));
                let valid = self.guarded(kept, if beyond.is_some() { &[] } else { guard });
                let flat = operand.layout.flat(&load.index).simplify(beyond.unwrap_or(&self.ranges));
                let strides = &operand.layout.strides;
                let buffer = self.operand_buffers[id.index()];
                Ok(out.push(ScalarOp::Load(flat_load(load, buffer, flat, strides, valid))))
            }
            Source::Stage(id, component) if self.plans[id].placement == Placement::Inline => {
                if !load.gather.is_empty() {
                    let reason = format!("reads inlined stage `{}` at computed positions", self.kernel.stages[id].name);
                    return Err(ScheduleError::Stage { stage: self.kernel.stages[reader].name.clone(), reason });
                }
                let conditions = self.open_bounds(load.valid);
                let mut inner_guard = guard.to_vec();
                inner_guard.extend(conditions.iter().cloned());
                let results =
                    self.import(out, id, &self.kernel.stages[id].results, &load.index, &inner_guard, depth + 1)?;
                let value = results[usize::from(component)];
                if conditions.is_empty() {
                    return Ok(value);
                }
                let holds = out.push(ScalarOp::InBounds(conditions));
                let otherwise = out.push(ScalarOp::Const(load.otherwise));
                Ok(out.select(holds, value, otherwise))
            }
            Source::Stage(id, component) => {
                let complete = self.storage[id.index()].as_ref().is_some_and(|s| s.complete);
                let guard = if complete { &[] } else { guard };
                let valid = self.guarded(load.valid.clone(), guard);
                if let Some(storage) = &self.storage[id.index()] {
                    let flat = offset(&load.index, storage).simplify(&self.ranges);
                    let buffer = storage.buffers[usize::from(component)];
                    let strides = storage.strides.clone();
                    return Ok(out.push(ScalarOp::Load(flat_load(load, buffer, flat, &strides, valid))));
                }
                let output = self.kernel.outputs.iter().find(|o| o.stage == id && o.component == component);
                let Some(output) = output else {
                    let name = &self.kernel.stages[id].name;
                    let reason = format!("reads stage `{name}`, which is not computed at this point");
                    return Err(ScheduleError::Stage { stage: self.kernel.stages[reader].name.clone(), reason });
                };
                let index: Vec<IndexExpr> = output.index.iter().map(|e| e.substitute_vars(&load.index)).collect();
                let layout = &self.kernel.operands[output.operand].layout;
                let flat = layout.flat(&index).simplify(&self.ranges);
                let buffer = self.operand_buffers[output.operand.index()];
                Ok(out.push(ScalarOp::Load(flat_load(load, buffer, flat, &layout.strides, valid))))
            }
            Source::Buffer(_) => {
                let reason = "a kernel stage cannot read a nest buffer".to_owned();
                Err(ScheduleError::Stage { stage: self.kernel.stages[reader].name.clone(), reason })
            }
        }
    }
}

/// Whether a load reads an element that its operand has, wherever variables have these ranges.
pub(crate) fn is_there(operand: &Operand, load: &Load, ranges: &Ranges) -> bool {
    let exists = |(index, extent): (&IndexExpr, &Dim)| {
        let bound = Bound { expr: index.clone(), lo: IndexExpr::constant(0), hi: extent.clone() };
        bound.proof(ranges) == Proof::Yes
    };
    load.gather.is_empty() && load.index.iter().zip(&operand.shape).all(exists)
}

/// The conditions of a load that its operand's halo does not make unnecessary.
///
/// Beyond its extents an operand with a halo holds its fill, so where that is also what the reader wants there, it may
/// simply read.
pub(crate) fn outside_halo(operand: &Operand, load: &Load, ranges: &Ranges) -> Vec<Bound> {
    if load.otherwise.bits != operand.layout.fill {
        return load.valid.clone();
    }
    let is_reached = |axis: usize, ranges: &Ranges| {
        let (before, after) = operand.layout.halo[axis];
        let (lo, hi) = (IndexExpr::constant(-before), operand.shape[axis].clone() + after);
        Bound { expr: load.index[axis].clone(), lo, hi }.proof(ranges) == Proof::Yes
    };
    let axes = 0..load.index.len();
    let zero = IndexExpr::constant(0);
    let covers = |bound: &Bound, axis: usize| {
        let same = bound.expr.simplify(ranges) == load.index[axis].simplify(ranges);
        same && bound.lo == zero && bound.hi == operand.shape[axis] && is_reached(axis, ranges)
    };
    // Where axes share a coordinate, as on a diagonal, a condition may be what keeps another axis within the memory. One goes
    // after the other, since two may each do instead of the other.
    let is_safe_without = |bound: &Bound, others: &[Bound]| {
        axes.clone()
            .filter(|&axis| !is_reached(axis, ranges))
            .all(|axis| !shares_a_variable(&bound.expr, &load.index[axis]) || is_reached(axis, &ranges.given(others)))
    };
    let mut kept = load.valid.clone();
    for bound in &load.valid {
        if axes.clone().any(|axis| covers(bound, axis)) {
            let others: Vec<Bound> = kept.iter().filter(|other| *other != bound).cloned().collect();
            if is_safe_without(bound, &others) {
                kept = others;
            }
        }
    }
    kept
}

fn shares_a_variable(a: &IndexExpr, b: &IndexExpr) -> bool {
    let mut shares = false;
    a.for_each_atom(&mut |atom| {
        if let Atom::Var(var) = atom {
            shares |= b.uses_var(*var);
        }
    });
    shares
}

/// `start + Σ (index − origin)·stride`.
pub(super) fn offset(index: &[IndexExpr], storage: &Storage) -> IndexExpr {
    let Storage { origin, strides, start, .. } = storage;
    let within: IndexExpr =
        index.iter().zip(origin).zip(strides).map(|((i, o), s)| (i.clone() - o.clone()) * s.clone()).sum();
    start.clone() + within
}

fn flat_load(
    load: Load,
    buffer: infc_ir::entity::BufferId,
    flat: IndexExpr,
    strides: &[IndexExpr],
    valid: Vec<Bound>,
) -> Load {
    let gather = load
        .gather
        .iter()
        .map(|(axis, v, factor)| (0, *v, factor.clone() * strides[usize::from(*axis)].clone()))
        .collect();
    Load { source: Source::Buffer(buffer), index: vec![flat], gather, valid, ..load }
}
