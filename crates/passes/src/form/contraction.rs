//! Stages that sum products of two loads: what layouts and packing want to know of them.

use infc_ir::entity::{ScalarId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{AxisKind, Kernel, OperandKind, Stage};
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp, Source};

/// A stage that computes `Σ lhs·rhs` of two loads that are not the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contraction<'k> {
    pub(crate) stage: &'k Stage,
    pub(crate) lhs: &'k Load,
    /// The constant one, if one is: an operand, or made of constants by a stage.
    pub(crate) rhs: &'k Load,
    pub(crate) rhs_id: ScalarId,
    pub(crate) rhs_is_constant: bool,
}

fn through_casts(body: &Body, mut id: ScalarId) -> Option<(ScalarId, &Load)> {
    loop {
        match &body.ops[id] {
            ScalarOp::Cast(_, a) => id = *a,
            ScalarOp::Load(load) => return Some((id, load)),
            _ => return None,
        }
    }
}

/// Looks at a stage.
pub(crate) fn contraction<'k>(kernel: &'k Kernel, stage: &'k Stage) -> Option<Contraction<'k>> {
    if stage.reducer.as_ref()?.as_binary() != Some(BinaryOp::Add) {
        return None;
    }
    let [result] = stage.results[..] else { return None };
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = stage.body.ops[result] else { return None };
    let (a, b) = (through_casts(&stage.body, a)?, through_casts(&stage.body, b)?);
    // In a sum of squares no element is used twice: it is as quick whatever lies innermost, and has nothing to pack.
    if a.1 == b.1 {
        return None;
    }
    let is_constant = |load: &Load| match load.source {
        Source::Operand(id) => kernel.operands[id].kind == OperandKind::Constant,
        Source::Stage(id, _) => is_decoding(kernel, &kernel.stages[id]),
        Source::Buffer(_) => false,
    };
    let (lhs, rhs) = if is_constant(a.1) && !is_constant(b.1) { (b, a) } else { (a, b) };
    let rhs_is_constant = is_constant(rhs.1);
    Some(Contraction { stage, lhs: lhs.1, rhs: rhs.1, rhs_id: rhs.0, rhs_is_constant })
}

/// True for a stage that makes what it gives of constants, point by point: an operand that is stored in fewer bytes.
pub(crate) fn is_decoding(kernel: &Kernel, stage: &Stage) -> bool {
    let mut sources = Vec::new();
    stage.for_each_load(&mut |_, load| sources.push(load.source));
    let constant =
        |source: &Source| matches!(source, Source::Operand(id) if kernel.operands[*id].kind == OperandKind::Constant);
    stage.axes.iter().all(|a| a.kind == AxisKind::Parallel) && !sources.is_empty() && sources.iter().all(constant)
}

/// True if a load's coordinates depend on the variable.
pub(crate) fn uses(load: &Load, var: VarId) -> bool {
    load.index.iter().any(|e| e.uses_var(var))
}

impl Contraction<'_> {
    fn vars(&self, kind: AxisKind) -> impl Iterator<Item = VarId> + '_ {
        let axes = self.stage.axes.iter().enumerate();
        axes.filter(move |(_, a)| a.kind == kind).map(|(n, _)| VarId(n as u32))
    }

    /// The axes of the result that the right operand runs along: first those that the left does not, innermost first.
    pub(crate) fn columns(&self) -> Vec<VarId> {
        let mut columns: Vec<VarId> = self.vars(AxisKind::Parallel).filter(|&v| uses(self.rhs, v)).collect();
        // Of an axis split in two, the inner part has coefficient 1.
        let steps_one = |v: VarId| self.rhs.index.iter().any(|e| e.linear_in(v).is_some_and(|(c, _)| c.is_const(1)));
        columns.sort_by_key(|&v| (uses(self.lhs, v), !steps_one(v), std::cmp::Reverse(v)));
        columns
    }

    /// Along which of its axes the left operand wants to be contiguous: a summed one that no window slides over, else
    /// one shared by all three.
    pub(crate) fn lhs_inner_axis(&self) -> Option<usize> {
        let columns = self.columns();
        let is_free = |rest: &IndexExpr| {
            self.vars(AxisKind::Parallel).all(|v| columns.contains(&v) || !rest.uses_var(v))
                && self.vars(AxisKind::Reduce).all(|v| !rest.uses_var(v))
        };
        let summed = |e: &IndexExpr| {
            let found = self.vars(AxisKind::Reduce).find_map(|v| {
                let (step, rest) = e.linear_in(v)?;
                (step.is_const(1) && is_free(&rest) && !self.is_guarded(e)).then(|| self.extent(v))
            });
            found.filter(|&extent| extent > 1)
        };
        let shared = |e: &IndexExpr| e.as_var().filter(|v| columns.contains(v)).map(|v| self.extent(v));
        let best = |of: &dyn Fn(&IndexExpr) -> Option<i64>| {
            let candidates = self.lhs.index.iter().enumerate().filter_map(|(n, e)| Some((of(e)?, n)));
            candidates.max().map(|(_, n)| n)
        };
        best(&summed).or_else(|| best(&shared))
    }

    /// Along which of its axes, of this shape, the right operand wants to be contiguous: along the points of a group of what
    /// is summed ([`super::turned`]), else along its columns.
    pub(crate) fn rhs_inner_axis(&self, shape: &[Dim]) -> Option<usize> {
        let index = &self.rhs.index;
        let is_group = |(e, extent): (&IndexExpr, &Dim)| {
            let within = |v: VarId| *e == IndexExpr::var(v).modulo(extent);
            extent.as_const().is_some_and(|points| points > 1) && self.vars(AxisKind::Reduce).any(within)
        };
        let column = *self.columns().first()?;
        index.iter().zip(shape).position(is_group).or_else(|| index.iter().position(|e| e.as_var() == Some(column)))
    }

    fn is_guarded(&self, e: &IndexExpr) -> bool {
        self.lhs.valid.iter().any(|b| b.expr == *e)
    }

    /// The extent of an axis; a guess where it is symbolic.
    fn extent(&self, v: VarId) -> i64 {
        self.stage.axes[v.0 as usize].extent.as_const().unwrap_or(64)
    }

    /// About how many products are summed.
    pub(crate) fn work(&self) -> f64 {
        self.stage.axes.iter().map(|a| a.extent.as_const().unwrap_or(64) as f64).product()
    }
}
