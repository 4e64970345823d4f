//! Contraction: sums of products over labelled axes.
//!
//! Products and sums are computed in the output's type, rounded after every operation; half types are summed in f32 and
//! rounded once. Labels are summed in the order in which they appear in the first input, then in the second.

use super::super::array::Array;
use super::super::points::for_each_point;
use super::super::{InterpError, check_points};
use super::Context;
use crate::op::ContractOp;
use crate::scalar::Scalar;
use infc_tensor::DType;

/// `out[…] = Σ lhs[…]·rhs[…]`.
pub(super) fn contract(cx: &Context<'_>, op: &ContractOp, lhs: &Array, rhs: &Array) -> Result<Array, InterpError> {
    let shape = cx.output_shape(0)?;
    let output = cx.node.outputs.first().and_then(|&v| cx.graph.values.get(v));
    let dtype = output.ok_or_else(|| cx.malformed("an output that does not exist"))?.ty.dtype;
    let mut labels: Vec<(u8, i64)> = Vec::new();
    for (list, extents) in [(&op.output, &shape), (&op.lhs, &lhs.shape), (&op.rhs, &rhs.shape)] {
        if list.len() != extents.len() {
            return Err(cx.malformed("a contraction with another number of labels than axes"));
        }
        for (&label, &extent) in list.iter().zip(extents) {
            match labels.iter().find(|(l, _)| *l == label) {
                Some(&(_, known)) if known != extent => {
                    return Err(cx.malformed("a contraction whose label has two extents"));
                }
                Some(_) => {}
                None => labels.push((label, extent)),
            }
        }
    }
    let covered = |label: &u8| op.lhs.contains(label) || op.rhs.contains(label);
    if !op.output.iter().all(covered) {
        return Err(cx.malformed("a contraction with an output label that no input has"));
    }
    let extents: Vec<i64> = labels.iter().map(|(_, e)| *e).collect();
    check_points(cx.place, &extents)?;
    let kept: Vec<usize> = (0..op.output.len()).collect();
    let summed: Vec<usize> = (op.output.len()..labels.len()).collect();
    let strides = |list: &[u8], array: &Array| -> Vec<usize> {
        labels.iter().map(|(label, _)| stride(list, array, *label)).collect()
    };
    let (left, right) = (strides(&op.lhs, lhs), strides(&op.rhs, rhs));
    let mut output = Array::zeros(cx.place, dtype, shape)?;
    let mut vars = vec![0; labels.len()];
    let mut to = 0;
    for_each_point(&kept, &extents, &mut vars, &mut |vars| {
        let dot =
            |vars: &[i64], strides: &[usize]| -> usize { vars.iter().zip(strides).map(|(&v, s)| v as usize * s).sum() };
        for &axis in &summed {
            vars[axis] = 0;
        }
        let start = (dot(vars, &left), dot(vars, &right));
        let mut points = Summed { axes: &summed, extents: &extents, left: &left, right: &right };
        output.set(to, points.sum(dtype, lhs, rhs, start));
        to += 1;
        Ok(())
    })?;
    Ok(output)
}

/// Elements between neighbours along a label; 0 if the operand does not have it.
fn stride(list: &[u8], array: &Array, label: u8) -> usize {
    match list.iter().position(|l| *l == label) {
        Some(axis) => array.shape[axis + 1..].iter().fold(1, |n, &d| n.saturating_mul(d as usize)),
        None => 0,
    }
}

/// The summed labels of one output element.
struct Summed<'a> {
    axes: &'a [usize],
    extents: &'a [i64],
    left: &'a [usize],
    right: &'a [usize],
}

impl Summed<'_> {
    fn sum(&mut self, dtype: DType, lhs: &Array, rhs: &Array, start: (usize, usize)) -> Scalar {
        if !dtype.is_float() {
            // Wrapping once at the end is the same as wrapping always.
            let mut sum = 0i64;
            self.walk(0, start, &mut |a, b| {
                sum = sum.wrapping_add(lhs.get(a).to_i64().wrapping_mul(rhs.get(b).to_i64()));
            });
            return Scalar::from_i64(dtype, sum);
        }
        let mut sum = 0.0;
        if dtype == DType::F64 {
            self.walk(0, start, &mut |a, b| sum += lhs.get(a).to_f64() * rhs.get(b).to_f64());
        } else {
            let round = |x: f64| f64::from(x as f32);
            self.walk(0, start, &mut |a, b| sum = round(sum + round(lhs.get(a).to_f64() * rhs.get(b).to_f64())));
        }
        Scalar::from_f64(dtype, sum)
    }

    /// Calls `f` with the positions of all factors from the given level inwards.
    fn walk(&self, level: usize, (a, b): (usize, usize), f: &mut impl FnMut(usize, usize)) {
        let Some(&axis) = self.axes.get(level) else { return f(a, b) };
        for n in 0..self.extents[axis] as usize {
            self.walk(level + 1, (a + n * self.left[axis], b + n * self.right[axis]), f);
        }
    }
}
