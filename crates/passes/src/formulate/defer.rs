//! Factors that a sum does not see leave it: `Σ_k (x_k / z)·y_k = (Σ_k x_k·y_k) / z`.
//!
//! Attention divides every weight by its row's sum before it multiplies values with it. Behind the sum there is one
//! division per result instead of one per product, and what is left is a plain sum of products. Error class:
//! reassociating.

use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, Source};

/// What leaves a sum, over the axes of its stage.
struct Factors {
    /// What stays.
    product: (Body, ScalarId),
    /// What the sum is multiplied with, and divided by.
    outside: Body,
    multipliers: Vec<ScalarId>,
    divisors: Vec<ScalarId>,
}

/// Moves factors out of all sums of products of floats; `None` if there are none.
#[must_use]
pub fn run(kernel: &Kernel) -> Option<Kernel> {
    let mut kernel = kernel.clone();
    let mut any = false;
    for stage in kernel.stages.ids().collect::<Vec<_>>() {
        let Some(factors) = factors(&kernel.stages[stage]) else { continue };
        if kernel.recurrence_of(stage).is_some() || !is_read_plainly(&kernel, stage) {
            continue;
        }
        let (body, result) = &factors.product;
        let s = &mut kernel.stages[stage];
        s.body = body.clone();
        s.results = vec![*result];
        for reader in kernel.stages.ids().skip(stage.index() + 1).collect::<Vec<_>>() {
            outside(&mut kernel, stage, reader, &factors);
        }
        any = true;
    }
    any.then_some(kernel)
}

/// Whether all readers of a stage read it always, at places that are known.
fn is_read_plainly(kernel: &Kernel, stage: StageId) -> bool {
    let mut plain = true;
    for reader in kernel.stages.iter() {
        reader.for_each_load(&mut |_, load| {
            let is_it = matches!(load.source, Source::Stage(source, _) if source == stage);
            plain &= !is_it || (load.valid.is_empty() && load.gather.is_empty());
        });
    }
    plain
}

/// The factors of a sum that do not depend on what is summed, if others do and at least one is no constant.
fn factors(stage: &Stage) -> Option<Factors> {
    let sums = stage.reducer.as_ref()?.as_binary() == Some(BinaryOp::Add);
    let [result] = stage.results[..] else { return None };
    if !sums || !stage.body.dtype(result).is_float() {
        return None;
    }
    let fixed = fixed(stage);
    let (mut inside, mut multipliers, mut divisors) = (Vec::new(), Vec::new(), Vec::new());
    let mut open = vec![result];
    while let Some(id) = open.pop() {
        match stage.body.ops[id] {
            _ if fixed[id.index()] => multipliers.push(id),
            ScalarOp::Binary(BinaryOp::Mul, a, b) => open.extend([b, a]),
            ScalarOp::Binary(BinaryOp::Div, a, b) if fixed[b.index()] => {
                divisors.push(b);
                open.push(a);
            }
            _ => inside.push(id),
        }
    }
    let is_constant = |id: &ScalarId| matches!(stage.body.ops[*id], ScalarOp::Const(_));
    if inside.len() < 2 || multipliers.iter().chain(&divisors).all(is_constant) {
        return None;
    }
    let mut body = Body::default();
    let kept = body.import(&stage.body, &inside, &mut |_, _| None);
    let (&first, rest) = kept.split_first()?;
    let product = rest.iter().fold(first, |product, &x| body.binary(BinaryOp::Mul, product, x));
    let mut outside = Body::default();
    let multipliers = outside.import(&stage.body, &multipliers, &mut |_, _| None);
    let divisors = outside.import(&stage.body, &divisors, &mut |_, _| None);
    Some(Factors { product: (body, product), outside, multipliers, divisors })
}

/// Per operation, whether it has the same value at all points that are summed.
fn fixed(stage: &Stage) -> Vec<bool> {
    let moves = |e: &IndexExpr| {
        let is_reduced = |n: usize| stage.axes[n].kind == AxisKind::Reduce;
        (0..stage.axes.len()).any(|n| is_reduced(n) && e.uses_var(VarId::from_index(n)))
    };
    let mut fixed: Vec<bool> = Vec::with_capacity(stage.body.ops.len());
    for op in stage.body.ops.iter() {
        let mut all = match op {
            ScalarOp::Index(e) => !moves(e),
            ScalarOp::InBounds(bounds) => !bounds.iter().any(|b| moves(&b.expr) || moves(&b.lo) || moves(&b.hi)),
            ScalarOp::Load(load) => {
                let bounds = load.valid.iter().any(|b| moves(&b.expr) || moves(&b.lo) || moves(&b.hi));
                !bounds && !load.index.iter().any(moves) && !load.gather.iter().any(|(_, _, by)| moves(by))
            }
            _ => true,
        };
        op.for_each_operand(&mut |operand| all &= fixed[operand.index()]);
        fixed.push(all);
    }
    fixed
}

/// Applies the factors where a stage reads the sum.
fn outside(kernel: &mut Kernel, sum: StageId, reader: StageId, factors: &Factors) {
    let value: Vec<usize> = kernel.stages[sum].value_axes().map(|(n, _)| n).collect();
    let rank = kernel.stages[sum].axes.len();
    let ranges = kernel.stages[reader].ranges(&kernel.symbols);
    let stage = &mut kernel.stages[reader];
    let old = std::mem::take(&mut stage.body);
    let results = stage.results.clone();
    stage.results = stage.body.import(&old, &results, &mut |body, op| {
        let ScalarOp::Load(load) = op else { return None };
        if !matches!(load.source, Source::Stage(source, _) if source == sum) {
            return None;
        }
        let mut at = vec![IndexExpr::constant(0); rank];
        for (position, &axis) in value.iter().enumerate() {
            at[axis] = load.index[position].clone();
        }
        let mut total = body.push(op.clone());
        let place = |op: &ScalarOp| op.map_indices(&|e| e.substitute_vars(&at).simplify(&ranges));
        for (ids, combine) in [(&factors.multipliers, BinaryOp::Mul), (&factors.divisors, BinaryOp::Div)] {
            let moved = body.import(&factors.outside, ids, &mut |body, op| Some(body.push(place(op))));
            total = moved.into_iter().fold(total, |total, factor| body.binary(combine, total, factor));
        }
        Some(total)
    });
}
