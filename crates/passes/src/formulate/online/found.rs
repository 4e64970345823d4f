//! The stages of a softmax and of the sum that it weighs: a product, the maximum of scores made of it, their exponentials, and two sums
//! of these, one of which weighs something.

use super::GONE;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;

/// What is to be rewritten. Axes are numbers in their stage.
pub(super) struct Found<'k> {
    pub(super) kernel: &'k Kernel,
    /// The sum of products behind the scores, and its axis of keys.
    pub(super) product: StageId,
    pub(super) product_keys: usize,
    /// Per axis of `rows`, the product's.
    pub(super) product_rows: Vec<usize>,
    pub(super) weights: StageId,
    /// The weights' axis of keys, and the others.
    pub(super) keys: usize,
    pub(super) rows: Vec<usize>,
    /// The score, in the weights' body.
    pub(super) score: ScalarId,
    /// Scores that are further below the maximum have no weight.
    pub(super) least: Option<f64>,
    /// The half type to which the weights are rounded, if they are.
    pub(super) half: Option<DType>,
    pub(super) total: Sum,
    pub(super) weighted: Sum,
}

/// A sum over keys.
pub(super) struct Sum {
    pub(super) stage: StageId,
    /// Its reduced axis.
    pub(super) keys: usize,
    /// Per axis of [`Found::rows`], its axis.
    pub(super) rows: Vec<usize>,
    /// What weights are multiplied with.
    pub(super) factor: Option<ScalarId>,
}

/// Exponents from here on down have exponentials that do not show beside one. Blocks of keys hold theirs against their own maximum,
/// which may be any number below the row's.
const NEGLIGIBLE: f64 = -80.0;

/// The axes that an index names one by one.
fn plain(index: &[IndexExpr], axes: usize) -> Option<Vec<usize>> {
    let axis_of = |e: &IndexExpr| (0..axes).find(|&axis| *e == IndexExpr::var(VarId::from_index(axis)));
    let found: Vec<usize> = index.iter().map(axis_of).collect::<Option<_>>()?;
    let is_once = |n: usize| found[..n].iter().all(|axis| *axis != found[n]);
    (0..found.len()).all(is_once).then_some(found)
}

/// A load of a stage's only component without conditions.
pub(super) fn stage_load(op: &ScalarOp) -> Option<(StageId, &[IndexExpr])> {
    match op {
        ScalarOp::Load(Load { source: Source::Stage(stage, 0), index, gather, valid, .. })
            if gather.is_empty() && valid.is_empty() =>
        {
            Some((*stage, index))
        }
        _ => None,
    }
}

/// A stage that is an exponential.
pub(super) struct Exponential {
    pub(super) exponent: ScalarId,
    /// It is 0 where the exponent is below that.
    pub(super) least: Option<f64>,
    /// The half type to which it is rounded.
    pub(super) half: Option<DType>,
}

/// The exponential that a stage is, if it is one.
pub(super) fn exponential(stage: &Stage) -> Option<Exponential> {
    let op = |id: ScalarId| &stage.body.ops[id];
    let &[result] = &stage.results[..] else { return None };
    let (exp, half) = match op(result) {
        ScalarOp::Cast(DType::F32, rounded) => match op(*rounded) {
            ScalarOp::Cast(half @ (DType::F16 | DType::BF16), exp) => (*exp, Some(*half)),
            _ => return None,
        },
        _ => (result, None),
    };
    let exponent = |exp: ScalarId| match *op(exp) {
        ScalarOp::Unary(UnaryOp::Exp, exponent) if stage.body.dtype(exp) == DType::F32 => Some(exponent),
        _ => None,
    };
    if let ScalarOp::Select(is_small, zero, exp) = *op(exp) {
        // 0 of what is below a number, as `exp_if_normal` has it.
        let ScalarOp::Compare(CompareOp::Lt, compared, bound) = *op(is_small) else { return None };
        let (ScalarOp::Const(least), ScalarOp::Const(zero)) = (op(bound), op(zero)) else { return None };
        let is_bounded = *op(exponent(exp)?) == ScalarOp::Select(is_small, bound, compared);
        let least = Some(least.to_f64()).filter(|&least| is_bounded && zero.bits == 0 && least <= NEGLIGIBLE)?;
        return Some(Exponential { exponent: compared, least: Some(least), half });
    }
    Some(Exponential { exponent: exponent(exp)?, least: None, half })
}

pub(super) fn reads(stage: &Stage, id: StageId) -> bool {
    let mut found = false;
    stage.for_each_load(&mut |_, load| found |= matches!(load.source, Source::Stage(source, _) if source == id));
    found
}

fn only_reduced(stage: &Stage) -> Option<usize> {
    let mut reduced = stage.reduce_axes().map(|(n, _)| n);
    reduced.next().filter(|_| reduced.next().is_none())
}

impl<'k> Found<'k> {
    /// What there is in a kernel; `None` if there is nothing of the kind, or more than one.
    pub(super) fn of(kernel: &'k Kernel) -> Option<Self> {
        let mut candidates = kernel.stages.ids().filter_map(|id| Self::with_weights(kernel, id));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    fn with_weights(kernel: &'k Kernel, weights: StageId) -> Option<Self> {
        let stage = &kernel.stages[weights];
        let is_output = |id: StageId| kernel.outputs.iter().any(|output| output.stage == id);
        let (&[result], None) = (&stage.results[..], &stage.reducer) else { return None };
        let Exponential { exponent, least, half } = exponential(stage)?;
        let ScalarOp::Binary(BinaryOp::Sub, score, most) = stage.body.ops[exponent] else { return None };
        let (maximum, index) = stage_load(&stage.body.ops[most])?;
        if stage.body.dtype(result) != DType::F32 || stage.axes.iter().any(|a| a.kind != AxisKind::Parallel) {
            return None;
        }
        let rows_of_maximum = plain(index, stage.axes.len())?;
        let mut keys = (0..stage.axes.len()).filter(|axis| !rows_of_maximum.contains(axis));
        let (Some(keys), None) = (keys.next(), keys.next()) else { return None };

        // The maximum is that of the same scores.
        let of_maximum = &kernel.stages[maximum];
        let reducer = of_maximum.reducer.as_ref()?;
        let along = only_reduced(of_maximum)?;
        // It begins with nothing: else it would not be that of the blocks' maxima.
        let begins = reducer.init.iter().all(|init| init.to_f64() <= f64::from(f32::MIN));
        if reducer.as_binary() != Some(BinaryOp::Max)
            || !begins
            || of_maximum.axes[along].extent != stage.axes[keys].extent
        {
            return None;
        }
        let mut place = vec![IndexExpr::var(VarId::from_index(keys)); of_maximum.axes.len()];
        for ((axis, _), &row) in of_maximum.value_axes().zip(&rows_of_maximum) {
            place[axis] = IndexExpr::var(VarId::from_index(row));
        }
        let mut both = Body::default();
        let mine = both.import(&stage.body, &[score], &mut |_, _| None);
        let its = both.import(&of_maximum.body, &of_maximum.results, &mut |body, op| {
            Some(body.push(op.map_indices(&|e| e.substitute_vars(&place))))
        });
        if mine != its {
            return None;
        }

        // Scores are made of one sum of products, and of operands.
        let mut product = None;
        for op in both.ops.iter() {
            let ScalarOp::Load(Load { source: Source::Stage(..), .. }) = op else { continue };
            let (id, index) = stage_load(op)?;
            let axes = plain(index, stage.axes.len())?;
            let along = axes.iter().position(|&axis| axis == keys)?;
            if product.replace((id, along, axes)).is_some() {
                return None;
            }
        }
        let (product, along, axes) = product?;
        let reads_operands = |id: StageId| {
            let mut all = true;
            kernel.stages[id].for_each_load(&mut |_, load| all &= matches!(load.source, Source::Operand(_)));
            all
        };
        let product_keys = kernel.stages[product].value_axes().nth(along)?.0;
        if kernel.stages[product].reducer.is_none() || !reads_operands(product) {
            return None;
        }

        let rows: Vec<usize> = (0..stage.axes.len()).filter(|&axis| axis != keys).collect();
        let of_product = |row: &usize| {
            let position = axes.iter().position(|axis| axis == row)?;
            Some(kernel.stages[product].value_axes().nth(position)?.0)
        };
        let product_rows: Vec<usize> = rows.iter().map(of_product).collect::<Option<_>>()?;
        let mut sums = Vec::new();
        for id in kernel.stages.ids().filter(|&id| reads(&kernel.stages[id], weights)) {
            sums.push(Sum::of(kernel, id, weights, keys, &rows)?);
        }
        let [a, b] = <[Sum; 2]>::try_from(sums).ok()?;
        let (total, weighted) = if a.factor.is_none() { (a, b) } else { (b, a) };
        if total.factor.is_some() || weighted.factor.is_none() {
            return None;
        }
        let readers = |of: StageId| kernel.stages.ids().filter(move |&id| reads(&kernel.stages[id], of));
        let only_here = readers(product).all(|id| id == maximum || id == weights)
            && readers(maximum).all(|id| id == weights)
            && ![product, maximum, weights, total.stage, weighted.stage].into_iter().any(is_output);
        let first = [product, maximum, weights, total.stage, weighted.stage].iter().all(|id| id.index() < GONE);
        (only_here && first).then_some(Self {
            kernel,
            product,
            product_keys,
            product_rows,
            weights,
            keys,
            rows,
            score,
            least,
            half,
            total,
            weighted,
        })
    }
}

impl Sum {
    fn of(kernel: &Kernel, id: StageId, weights: StageId, keys: usize, rows: &[usize]) -> Option<Self> {
        let stage = &kernel.stages[id];
        let along = only_reduced(stage)?;
        let (&[result], Some(BinaryOp::Add)) = (&stage.results[..], stage.reducer.as_ref()?.as_binary()) else {
            return None;
        };
        let load_of = |id: ScalarId| {
            stage_load(&stage.body.ops[id]).filter(|(source, _)| *source == weights).map(|(_, index)| index)
        };
        let (weight, factor) = match stage.body.ops[result] {
            ScalarOp::Binary(BinaryOp::Mul, a, b) if load_of(a).is_some() => (a, Some(b)),
            ScalarOp::Binary(BinaryOp::Mul, a, b) => (b, Some(a)),
            _ => (result, None),
        };
        let axes = plain(load_of(weight)?, stage.axes.len())?;
        let loads =
            stage.body.ops.iter().filter(|op| matches!(op, ScalarOp::Load(Load { source: Source::Stage(..), .. })));
        // Of stages only the weights are read, and once.
        if loads.count() != 1 || axes[keys] != along || stage.body.dtype(result) != DType::F32 {
            return None;
        }
        let rows: Vec<usize> = rows.iter().map(|&row| axes[row]).collect();
        let is_plain = factor.is_some() || rows.len() == stage.value_axes().count();
        is_plain.then_some(Self { stage: id, keys: along, rows, factor })
    }
}
