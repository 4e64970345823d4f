//! Taps of windows that only ever meet padding are left out.
//!
//! A convolution dilated beyond the image, as the last ones of segmentation networks are on small images, multiplies
//! most of its weights by zeros.

use super::movement::{ranges, var, view};
use super::quantize::dot;
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr, Interval, Proof};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::Const;
use infc_ir::schedule::Intrinsic;

/// Longer axes are not the taps of a window.
const MAX_TAPS: i64 = 128;

const RULES: &[Rule] = &[padding_alone];

/// Applies the rule.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

// contract(view_p(x), w) = contract(view_p(x)[from..to], w[from..to]) along a summed axis, if p is outside of x before
// `from` and from `to` on, and gives zero there
fn padding_alone(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    let labels = [&op.lhs, &op.rhs];
    for side in 0..2 {
        let Some(producer) = site.producer(site.node().inputs[side]) else { continue };
        let Op::View(window) = &producer.op else { continue };
        if window.map.valid.is_empty() || window.otherwise.bits != 0 {
            continue;
        }
        for (axis, label) in labels[side].iter().enumerate().filter(|(_, label)| !op.output.contains(label)) {
            let Some((from, to)) = live(site.graph, window, axis) else { continue };
            // What is summed in whole groups stays so.
            let group = dot(site).map_or(1, Intrinsic::turns);
            let breaks_groups = |extent: i64| extent % group == 0 && (to - from) % group != 0;
            if window.shape[axis].as_const().is_some_and(breaks_groups) {
                continue;
            }
            let mut new = Replacement::new();
            let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&input| input.into()).collect();
            inputs[side] = {
                let (op, ty) = part(site.graph.ty(site.node().inputs[side]), window, axis, from, to);
                new.add(op, &[producer.inputs[0].into()], ty)
            };
            if let Some(other_axis) = labels[1 - side].iter().position(|other| other == label) {
                let whole = site.graph.ty(site.node().inputs[1 - side]);
                let map = AccessMap::identity(whole.shape.len());
                let all = ViewOp { map, shape: whole.shape.clone(), otherwise: Const::zero(whole.dtype) };
                let (op, ty) = part(whole, &all, other_axis, from, to);
                inputs[1 - side] = new.add(op, &[site.node().inputs[1 - side].into()], ty);
            }
            let sum = new.add(site.node().op.clone(), &inputs, site.output_type(0).clone());
            new.set_outputs(vec![sum]);
            return Some(new.absorbing(producer));
        }
    }
    None
}

/// Coordinates of an axis outside of which a view is padding whatever the others are, if those are fewer than all; at
/// least one coordinate.
fn live(graph: &Graph, window: &ViewOp, axis: usize) -> Option<(i64, i64)> {
    let extent = window.shape[axis].as_const().filter(|&n| (2..=MAX_TAPS).contains(&n))?;
    let moved: Vec<_> = window.map.valid.iter().filter(|b| b.expr.uses_var(VarId(axis as u32))).collect();
    let is_dead = |tap: i64| {
        let mut ranges = ranges(&graph.symbols, &window.shape);
        ranges.set_var(VarId(axis as u32), Interval { min: Some(tap), max: Some(tap) });
        moved.iter().any(|bound| bound.proof(&ranges) == Proof::No)
    };
    let from = (0..extent).take_while(|&tap| is_dead(tap)).count() as i64;
    let to = extent - (from..extent).rev().take_while(|&tap| is_dead(tap)).count() as i64;
    let (from, to) = if from < to { (from, to) } else { (0, 1) };
    (to - from < extent).then_some((from, to))
}

/// The view of those coordinates, and its type.
fn part(ty: &TensorType, whole: &ViewOp, axis: usize, from: i64, to: i64) -> (Op, TensorType) {
    let mut shape = whole.shape.clone();
    shape[axis] = Dim::constant(to - from);
    let shifted: Vec<IndexExpr> = (0..shape.len()).map(|a| if a == axis { var(a) + from } else { var(a) }).collect();
    let through = |e: &IndexExpr| e.substitute_vars(&shifted);
    let map = AccessMap {
        rank: whole.map.rank,
        index: whole.map.index.iter().map(through).collect(),
        valid: whole.map.valid.iter().map(|b| b.map(through)).collect(),
    };
    let ty = TensorType::new(ty.dtype, shape.clone());
    (view(map, &shape, whole.otherwise), ty)
}
