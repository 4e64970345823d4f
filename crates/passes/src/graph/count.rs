//! Running sums of a constant are positions: `Σ c` over the first `n` elements is `c·n`.
//!
//! Frameworks without another way to number rows add up ones (causal masks, positions of tokens). Of integers, for sums of
//! floats round.

use super::movement::constant;
use super::rewrite::{Replacement, Rule, Site, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::entity::{EntityId, VarId};
use infc_ir::graph::Graph;
use infc_ir::index::IndexExpr;
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp};
use infc_tensor::DType;

const RULES: &[Rule] = &[count];

/// Beyond this what is counted may not fit.
const FAR: f64 = 1e6;

/// Applies the rule.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

// scan_+(spread(c)) = map [i -> c·(i + 1)], from the far end c·(extent − i), without itself c less
fn count(site: &Site<'_>) -> Option<Replacement> {
    let Op::Scan(scan) = &site.node().op else { return None };
    let ty = site.output_type(0);
    let is_sum = scan.reducer.as_binary() == Some(BinaryOp::Add) && matches!(ty.dtype, DType::I32 | DType::I64);
    let Op::View(spread) = &site.producer(site.node().inputs[0]).filter(|_| is_sum)?.op else { return None };
    let from = site.producer(site.node().inputs[0])?.inputs[0];
    let tensor = &constant(site.graph, from)?.tensor;
    if tensor.len_elems() != 1 || !spread.map.valid.is_empty() {
        return None;
    }
    let each = tensor.get_f64(0).filter(|each| each.abs() <= FAR)?;
    let at = IndexExpr::var(VarId::from_index(scan.axis));
    let own = IndexExpr::constant(if scan.exclusive { 0 } else { 1 });
    let before = if scan.reverse { ty.shape[scan.axis].clone() - at - 1 } else { at };
    let mut body = Body::default();
    let counted = body.push(ScalarOp::Index(before + own));
    let counted = body.cast(ty.dtype, counted);
    let each = body.constant(ty.dtype, each);
    let result = body.binary(BinaryOp::Mul, counted, each);
    Some(Replacement::node(Op::Map(MapOp { body, results: vec![result] }), &[], vec![ty.clone()]))
}
