//! Attention in one kernel.

use crate::build::Net;
use crate::run::check;
use infc_ir::entity::{ValueId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::scalar::BinaryOp;
use infc_passes::form::GraphPlan;

/// Self-attention of `heads` heads as exporters write it, planned.
fn attention(batch: i64, rows: i64, columns: i64, heads: i64, depth: i64, mask: bool) -> GraphPlan {
    let mut net = Net::new();
    let y = attend(&mut net, [batch, rows, columns, heads, depth], mask);
    net.output(y);
    net.optimize();
    check(&net)
}

/// The result of that: extents of the batch, rows, columns, heads and of each head.
pub(crate) fn attend(net: &mut Net, [batch, rows, columns, heads, depth]: [i64; 5], mask: bool) -> ValueId {
    let q = net.input(&[batch, rows, heads, depth]);
    let (k, v) = (net.input(&[batch, columns, heads, depth]), net.input(&[batch, columns, heads, depth]));
    let q = net.transpose(q, &[0, 2, 1, 3]);
    let kt = net.transpose(k, &[0, 2, 3, 1]);
    let v = net.transpose(v, &[0, 2, 1, 3]);
    let scores = net.contract("bhmd,bhdn->bhmn", q, kt);
    let mut scores = net.with_number(BinaryOp::Div, scores, 2.0);
    if mask {
        let m = net.input(&[batch, 1, 1, columns]);
        scores = net.binary(BinaryOp::Add, scores, m);
    }
    let p = net.softmax(scores, 3);
    let y = net.contract("bhmn,bhnd->bhmd", p, v);
    net.transpose(y, &[0, 2, 1, 3])
}

fn var(n: u32) -> IndexExpr {
    IndexExpr::var(VarId(n))
}

/// Elements of the largest value that lies in memory between kernels.
fn largest(plan: &GraphPlan) -> i64 {
    plan.buffers.iter().filter_map(|b| b.len_elems.as_const()).max().unwrap_or(0)
}

#[test]
fn scores_are_never_in_memory() {
    let (rows, heads, depth) = (37, 2, 8);
    for mask in [false, true] {
        let plan = attention(1, rows, rows, heads, depth, mask);
        // Keys are turned round first.
        assert_eq!(plan.kernels.len(), 2, "{plan}");
        assert!(largest(&plan) <= rows * heads * depth, "{plan}");
    }
}

/// Values of a head among those of all heads are copied together where no first-level cache holds them.
#[test]
fn values_of_a_head_lie_together_if_they_are_many() {
    for (columns, copied) in [(64, false), (600, true)] {
        let plan = attention(1, 20, columns, 2, 64, false);
        let steps = |kernel: &infc_passes::form::PlannedKernel| {
            let values = kernel.kernel.operands.iter().filter(|o| o.shape.last().is_some_and(|d| d.is_const(64)));
            values.map(|o| o.layout.strides[o.layout.strides.len() - 2].as_const()).collect::<Vec<_>>()
        };
        let kernel = plan.kernels.iter().find(|k| k.kernel.stages.len() > 2).unwrap_or_else(|| panic!("{plan}"));
        assert_eq!(steps(kernel).contains(&Some(64)) && plan.kernels.len() == 3, copied, "{columns}: {plan}");
    }
}

#[test]
fn ragged_extents() {
    for (batch, rows, columns, heads, depth) in
        [(1, 8, 1, 1, 1), (2, 9, 16, 2, 5), (1, 16, 33, 3, 16), (1, 13, 7, 1, 17)]
    {
        attention(batch, rows, columns, heads, depth, true);
    }
}

/// A step of decoding streams keys and values once; there is nothing to share.
#[test]
fn single_rows_stay_apart() {
    assert!(attention(1, 1, 32, 2, 8, false).kernels.len() > 1);
}

/// Every product would be divided, instead of every result.
#[test]
fn divisions_leave_the_sum() {
    let plan = attention(1, 16, 16, 1, 8, false);
    let kernel = &plan.kernels.last().expect("attention").kernel;
    for stage in kernel.stages.iter().filter(|s| s.reducer.is_some()) {
        let divides =
            stage.body.ops.iter().any(|op| matches!(op, infc_ir::scalar::ScalarOp::Binary(BinaryOp::Div, ..)));
        assert!(!divides, "{kernel}");
    }
}

/// Several heads of queries share one of keys, which exporters repeat: it is read where it lies, by all of them, unless its
/// columns are turned round.
#[test]
fn heads_that_are_shared_are_not_repeated() {
    for (rows, turned) in [(1, false), (37, true)] {
        let (heads, shared, columns, depth) = (6, 3, 40, 8);
        let mut net = Net::new();
        let q = net.input(&[heads, rows, depth]);
        let (k, v) = (net.input(&[heads / shared, columns, depth]), net.input(&[heads / shared, columns, depth]));
        let group = var(0).floor_div(&IndexExpr::constant(shared));
        let kt = net.view(k, &[group.clone(), var(2), var(1)], &[heads, depth, columns]);
        let v = net.view(v, &[group, var(1), var(2)], &[heads, columns, depth]);
        let scores = net.contract("hmd,hdn->hmn", q, kt);
        let p = net.softmax(scores, 2);
        let y = net.contract("hmn,hnd->hmd", p, v);
        net.output(y);
        net.optimize();
        let plan = check(&net);
        let copies = plan.kernels.iter().filter(|k| k.kernel.stages.len() == 1 && k.operands.len() == 2).count();
        assert_eq!(copies, usize::from(turned), "{plan}");
    }
}

/// A coordinate that is summed, or that the other operand has not, is no head.
#[test]
fn what_is_summed_is_not_read_through_divisions() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[5, 12]), net.input(&[4, 7]));
    let b = net.view(b, &[var(0).floor_div(&IndexExpr::constant(3)), var(1)], &[12, 7]);
    let y = net.contract("mk,kn->mn", a, b);
    net.output(y);
    assert_eq!(check(&net).kernels.len(), 2, "it is copied first");
}

/// Values times weights, as networks write it that keep channels in front: the weights are the right operand, in no memory that
/// they could be turned round in.
#[test]
fn weights_may_be_the_right_operand() {
    for (heads, rows, columns, depth) in [(4, 49, 49, 16), (2, 5, 40, 8), (1, 37, 3, 20)] {
        let mut net = Net::new();
        let (q, k) = (net.input(&[heads, rows, depth]), net.input(&[heads, depth, columns]));
        let v = net.input(&[heads, depth, columns]);
        let scores = net.contract("abc,acd->abd", q, k);
        let p = net.softmax(scores, 2);
        let y = net.contract("abc,adc->abd", v, p);
        net.output(y);
        net.optimize();
        check(&net);
    }
}
