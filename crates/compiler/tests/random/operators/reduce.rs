//! Operators that fold axes, run along them, or sort.

use super::Drawer;
use crate::draft::{Candidate, Draft, Id, is_float};

pub(super) const DRAWERS: &[Drawer] = &[fold, fold, exact_fold, arg, running, top_k];

/// With axes, or without for all of them.
fn with_axes(d: &mut Draft, op: &'static str, x: Id) -> Candidate {
    let rank = d.at(x).rank();
    let candidate = Candidate::new(op, &[x]).with("keepdims", d.random.flag());
    if d.opset >= 18 && d.random.one_in(5) {
        let noop = d.random.flag();
        return candidate.with("noop_with_empty_axes", noop);
    }
    let count = d.random.below(rank + 1);
    let order = d.random.permutation(rank);
    let negative = d.random.one_in(2);
    let axes: Vec<i64> =
        order[..count].iter().map(|&a| if negative { a as i64 - rank as i64 } else { a as i64 }).collect();
    let axes = d.ints(&axes);
    candidate.input(Some(axes))
}

fn fold(d: &mut Draft) -> Option<Candidate> {
    let ops = [
        "ReduceSum",
        "ReduceMean",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
    ];
    let op = *d.random.pick(&ops);
    let x = d.float()?;
    Some(with_axes(d, op, x))
}

fn exact_fold(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"]);
    let ordered = matches!(op, "ReduceMax" | "ReduceMin");
    let x = d.any(|t| if ordered { true } else { t.dtype().is_int() })?;
    Some(with_axes(d, op, x).exact())
}

fn arg(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["ArgMax", "ArgMin"]);
    let x = d.any(|t| t.rank() > 0)?;
    let axis = d.axis(x)?;
    let (keep, last) = (d.random.flag(), d.random.flag());
    let candidate = Candidate::new(op, &[x]).with("axis", axis).with("keepdims", keep);
    Some(candidate.with("select_last_index", last).exact())
}

fn running(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0 && !matches!(t.dtype().size_bits(), 8 | 1))?;
    let axis = d.axis(x)?;
    let axis = d.int(axis);
    let (exclusive, reverse) = (d.random.flag(), d.random.flag());
    let candidate = Candidate::new("CumSum", &[x, axis]).with("exclusive", exclusive).with("reverse", reverse);
    Some(if is_float(d.dtype(x)) { candidate } else { candidate.exact() })
}

fn top_k(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0)?;
    let axis = d.axis(x)?;
    let shape = d.shape(x);
    let extent = shape[axis.rem_euclid(shape.len() as i64) as usize];
    let k = d.random.between(1, extent as i64);
    let k = d.ints(&[k]);
    let (largest, sorted) = (d.random.flag(), 1i64);
    let candidate = Candidate::new("TopK", &[x, k]).with("axis", axis).with("largest", largest);
    Some(candidate.with("sorted", sorted).outputs(2).exact())
}
