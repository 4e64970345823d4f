//! Operators that pick elements by positions that are data.

use super::Drawer;
use crate::draft::{Candidate, Draft};
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] =
    &[gather, gather, gather_elements, gather_nd, scatter_elements, scatter, scatter_nd, one_hot, compress, non_zero];

/// Positions within an extent, from either end, as a constant.
fn positions(d: &mut Draft, shape: &[usize], extent: usize) -> usize {
    let extent = extent as i64;
    let count = shape.iter().product();
    let numbers: Vec<i64> = (0..count).map(|_| d.random.between(-extent, extent - 1)).collect();
    let tensor = Tensor::from_elements(shape, &numbers).expect("as many as the shape has");
    d.constant(&tensor)
}

fn extent_of(d: &mut Draft, x: usize) -> Option<(i64, Vec<usize>, usize)> {
    let (axis, shape) = (d.axis(x)?, d.shape(x));
    let extent = shape[axis.rem_euclid(shape.len() as i64) as usize];
    (extent > 0).then_some((axis, shape, extent))
}

fn gather(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() > 0)?;
    let (axis, _, extent) = extent_of(d, x)?;
    let within = |t: &Tensor| t.to_i64_vec().is_some_and(|v| v.iter().all(|&n| n.unsigned_abs() < extent as u64));
    let computed = d.any(|t| matches!(t.dtype(), DType::I64 | DType::I32) && t.rank() < 3 && within(t));
    let indices = match computed.filter(|_| d.random.one_in(2)) {
        Some(indices) => indices,
        None => {
            let shape = d.random.pick(&[&[][..], &[1], &[3], &[2, 2]]).to_vec();
            positions(d, &shape, extent)
        }
    };
    Some(Candidate::new("Gather", &[x, indices]).with("axis", axis).exact())
}

fn gather_elements(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0)?;
    let (axis, mut shape, extent) = extent_of(d, x)?;
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    shape[at] = d.random.between(1, 4) as usize;
    let indices = positions(d, &shape, extent);
    Some(Candidate::new("GatherElements", &[x, indices]).with("axis", axis).exact())
}

fn gather_nd(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let shape = d.shape(x);
    let depth = d.random.between(1, shape.len() as i64) as usize;
    let least = shape[..depth].iter().copied().min()?;
    let indices = positions(d, &[3, depth], least);
    Some(Candidate::new("GatherND", &[x, indices]).exact())
}

fn scatter_elements(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0)?;
    let dtype = d.dtype(x);
    let (axis, mut shape, extent) = extent_of(d, x)?;
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    shape[at] = d.random.between(1, extent as i64) as usize;
    let reduction = *d.random.pick(&["add", "mul", "max", "min"]);
    let updates = d.weight(dtype, &shape);
    let indices = positions(d, &shape, extent);
    let candidate = Candidate::new("ScatterElements", &[x, indices, updates]).with("axis", axis);
    Some(candidate.with("reduction", reduction))
}

/// Without a reduction no element may be meant twice. Before opset 11 it was called `Scatter`.
fn scatter(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let dtype = d.dtype(x);
    let (axis, mut shape, extent) = extent_of(d, x)?;
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    let order = d.random.permutation(extent);
    shape[at] = d.random.between(1, extent as i64) as usize;
    let inner: usize = shape[at + 1..].iter().product();
    let count: usize = shape.iter().product();
    let numbers: Vec<i64> = (0..count).map(|n| order[n / inner % shape[at]] as i64).collect();
    let indices = d.constant(&Tensor::from_elements(&shape, &numbers).ok()?);
    let updates = d.weight(dtype, &shape);
    let op = if d.opset < 11 { "Scatter" } else { "ScatterElements" };
    Some(Candidate::new(op, &[x, indices, updates]).with("axis", axis).exact())
}

fn scatter_nd(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let depth = d.random.between(1, shape.len() as i64) as usize;
    let least = shape[..depth].iter().copied().min()?;
    let indices = positions(d, &[2, depth], least);
    let updates = d.weight(dtype, &[&[2], &shape[depth..]].concat());
    let reduction = *d.random.pick(&["add", "mul", "max", "min"]);
    Some(Candidate::new("ScatterND", &[x, indices, updates]).with("reduction", reduction))
}

fn one_hot(d: &mut Draft) -> Option<Candidate> {
    let indices = d.any(|t| matches!(t.dtype(), DType::I64 | DType::I32) && t.rank() < 4)?;
    let depth = d.random.between(1, 6);
    let depth = d.int(depth);
    let dtype = *d.random.pick(&[DType::F32, DType::I64, DType::I32]);
    let values = d.weight(dtype, &[2]);
    let rank = d.at(indices).rank() as i64 + 1;
    let axis = d.random.between(-rank, rank - 1);
    Some(Candidate::new("OneHot", &[indices, depth, values]).with("axis", axis).exact())
}

/// A number of elements that depends on data.
fn compress(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0)?;
    let (axis, _, extent) = extent_of(d, x)?;
    let known = d.any(|t| t.dtype() == DType::Bool && t.shape() == [extent]);
    let condition = known.unwrap_or_else(|| d.weight(DType::Bool, &[extent]));
    Some(Candidate::new("Compress", &[x, condition]).with("axis", axis).exact())
}

fn non_zero(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0)?;
    Some(Candidate::new("NonZero", &[x]).exact())
}
