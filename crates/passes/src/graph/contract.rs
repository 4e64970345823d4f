//! Contractions take up views that only rename axes: transposes and broadcasts of operands, transposes of the result.

use super::movement::static_len;
use super::rewrite::{Replacement, Rule, Site, sweep};
use super::view::axes_of;
use super::{Changed, PassContext, PassError};
use infc_ir::graph::Graph;
use infc_ir::op::{ContractOp, Op};

const RULES: &[Rule] = &[operand_view, result_view];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

// contract(view_p(x), y) = contract'(x, y): labels go with their axes. A label along which x repeats is dropped from x;
// the other operand must have it, or its extent would be lost.
fn operand_view(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    for side in 0..2 {
        let Some(producer) = site.producer(site.node().inputs[side]) else { continue };
        let Op::View(view) = &producer.op else { continue };
        let (labels, others) = if side == 0 { (&op.lhs, &op.rhs) } else { (&op.rhs, &op.lhs) };
        let inner = site.graph.ty(producer.inputs[0]);
        let Some(axes) = axes_of(site.graph, view, inner) else { continue };
        // An axis that stays at 0 has no label: views that drop axes of extent 1 are taken up only when none is left.
        let Some(axes) = axes.into_iter().collect::<Option<Vec<usize>>>() else { continue };
        let kept: Vec<u8> = axes.iter().map(|&a| labels[a]).collect();
        let lost_by_view = labels.iter().filter(|&l| !kept.contains(l));
        if !lost_by_view.clone().all(|l| others.contains(l)) {
            continue;
        }
        let (lhs, rhs) = if side == 0 { (kept, op.rhs.clone()) } else { (op.lhs.clone(), kept) };
        let mut inputs = site.node().inputs.clone();
        inputs[side] = producer.inputs[0];
        let new = Op::Contract(ContractOp { lhs, rhs, output: op.output.clone() });
        return Some(Replacement::node(new, &inputs, site.output_types()));
    }
    None
}

// view_p(contract(x, y)) = contract'(x, y) with the output's labels permuted
fn result_view(site: &Site<'_>) -> Option<Replacement> {
    let Op::View(view) = &site.node().op else { return None };
    let value = site.node().inputs[0];
    let producer = site.producer(value)?;
    let Op::Contract(op) = &producer.op else { return None };
    let axes: Vec<usize> =
        axes_of(site.graph, view, site.graph.ty(value))?.into_iter().collect::<Option<Vec<usize>>>()?;
    if axes.len() != view.shape.len() || !site.is_only_use(value) {
        return None;
    }
    let mut output = op.output.clone();
    for (from, &to) in axes.iter().enumerate() {
        output[to] = op.output[from];
    }
    let new = Op::Contract(ContractOp { output, ..op.clone() });
    Some(Replacement::node(new, &producer.inputs, site.output_types()).absorbing(producer))
}

/// The constant operand of a contraction: its side (0 or 1).
pub(super) fn constant_side(site: &Graph, inputs: &[infc_ir::entity::ValueId]) -> Option<usize> {
    (0..2).rev().find(|&side| {
        super::movement::constant(site, inputs[side])
            .is_some_and(|_| static_len(&site.ty(inputs[side]).shape).is_some())
    })
}
