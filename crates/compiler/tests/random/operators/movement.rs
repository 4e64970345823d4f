//! Operators that move elements, and those that make tensors from shapes.

use super::Drawer;
use crate::draft::{Candidate, Draft, Id};
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[
    transpose, reshape, reshape, flatten, squeeze, unsqueeze, expand, tile, concat, concat, split, slice, slice, pad,
    blocks, reverse, triangle, resize, upsample, crop, shape_of, filled, range, eye,
];

fn some(d: &mut Draft) -> Option<Id> {
    d.any_type(|t| t.len_elems() > 0)
}

fn transpose(d: &mut Draft) -> Option<Candidate> {
    let x = some(d)?;
    let order: Vec<i64> = d.random.permutation(d.at(x).rank()).into_iter().map(|a| a as i64).collect();
    let candidate = Candidate::new("Transpose", &[x]).exact();
    Some(if d.random.one_in(5) { candidate } else { candidate.with("perm", order) })
}

fn reshape(d: &mut Draft) -> Option<Candidate> {
    let x = some(d)?;
    let mut left = d.at(x).len_elems();
    let mut target = Vec::new();
    for _ in 0..d.random.below(4) {
        let divisors: Vec<usize> = (1..=left).filter(|&n| left.is_multiple_of(n)).collect();
        let extent = *d.random.pick(&divisors);
        left /= extent;
        target.push(extent as i64);
    }
    target.push(left as i64);
    let at = d.random.below(target.len());
    match d.random.below(4) {
        0 | 1 => target[at] = -1,
        2 if d.shape(x).get(at) == Some(&(target[at] as usize)) => target[at] = 0,
        _ => {}
    }
    let target = d.ints(&target);
    Some(Candidate::new("Reshape", &[x, target]).exact())
}

fn flatten(d: &mut Draft) -> Option<Candidate> {
    let x = some(d)?;
    let rank = d.at(x).rank() as i64;
    let axis = d.random.between(-rank, rank);
    Some(Candidate::new("Flatten", &[x]).with("axis", axis).exact())
}

fn squeeze(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.shape().contains(&1))?;
    let ones: Vec<i64> = d.shape(x).iter().enumerate().filter(|(_, d)| **d == 1).map(|(n, _)| n as i64).collect();
    let count = d.random.between(1, ones.len() as i64) as usize;
    let axes = d.ints(&ones[..count]);
    Some(Candidate::new("Squeeze", &[x, axes]).exact())
}

fn unsqueeze(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() < 5)?;
    let rank = d.at(x).rank() as i64 + 1;
    let axis = d.random.between(-rank, rank - 1);
    let axes = d.ints(&[axis]);
    Some(Candidate::new("Unsqueeze", &[x, axes]).exact())
}

fn expand(d: &mut Draft) -> Option<Candidate> {
    let x = some(d)?;
    let random = &mut d.random;
    let target: Vec<i64> = d.values[x].samples[0]
        .shape()
        .iter()
        .map(|&n| if n == 1 { random.between(1, 4) } else { *random.pick(&[1, n as i64]) })
        .collect();
    let target = if d.random.one_in(3) { [&[2], &target[..]].concat() } else { target };
    let target = d.ints(&target);
    Some(Candidate::new("Expand", &[x, target]).exact())
}

fn tile(d: &mut Draft) -> Option<Candidate> {
    let x = some(d)?;
    let repeats: Vec<i64> = (0..d.at(x).rank()).map(|_| d.random.between(1, 3)).collect();
    let repeats = d.ints(&repeats);
    Some(Candidate::new("Tile", &[x, repeats]).exact())
}

fn concat(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() > 0)?;
    let (dtype, shape, axis) = (d.dtype(x), d.shape(x), d.axis(x)?);
    let at = axis.rem_euclid(shape.len() as i64) as usize;
    let fits = |s: &[usize]| s.len() == shape.len() && (0..s.len()).all(|n| n == at || s[n] == shape[n]);
    let mut inputs = vec![x];
    for _ in 0..d.random.between(1, 2) {
        let other = d.any_type(|t| t.dtype() == dtype && fits(t.shape()));
        inputs.push(match other.filter(|_| !d.random.one_in(3)) {
            Some(other) => other,
            None => {
                let mut shape = shape.clone();
                shape[at] = d.random.between(1, 3) as usize;
                d.weight(dtype, &shape)
            }
        });
    }
    Some(Candidate::new("Concat", &inputs).with("axis", axis).exact())
}

fn split(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let (shape, axis) = (d.shape(x), d.axis(x)?);
    let extent = shape[axis.rem_euclid(shape.len() as i64) as usize];
    if d.random.one_in(2) {
        let first = d.random.between(0, extent as i64);
        let parts = d.ints(&[first, extent as i64 - first]);
        return Some(Candidate::new("Split", &[x, parts]).with("axis", axis).outputs(2).exact());
    }
    Some(Candidate::new("Split", &[x]).with("axis", axis).with("num_outputs", 2i64).outputs(2).exact())
}

fn slice(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let shape = d.shape(x);
    let count = d.random.between(1, shape.len() as i64) as usize;
    let axes = d.random.permutation(shape.len())[..count].to_vec();
    let (mut starts, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for &axis in &axes {
        let extent = shape[axis] as i64;
        let step = *d.random.pick(&[1, 1, 1, 2, -1, -2]);
        let (low, high) =
            (d.random.between(0, extent - 1), *d.random.pick(&[extent, extent, i64::MAX, -1, extent - 1]));
        let (start, end) =
            if step > 0 { (low, high) } else { (high.min(extent + 3), *d.random.pick(&[low, i64::MIN])) };
        starts.push(if d.random.one_in(3) && start < extent { start - extent } else { start });
        ends.push(end);
        steps.push(step);
    }
    let axes: Vec<i64> = axes.into_iter().map(|a| a as i64).collect();
    let inputs = [starts, ends, axes, steps].map(|numbers| d.ints(&numbers));
    Some(Candidate::new("Slice", &[&[x], &inputs[..]].concat()).exact())
}

fn pad(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let mode = *d.random.pick(&["constant", "constant", "reflect", "edge", "wrap"]);
    let low = if d.random.one_in(4) { -1 } else { 0 };
    let pads: Vec<i64> = (0..2 * d.at(x).rank()).map(|_| d.random.between(low, 2)).collect();
    let pads = d.ints(&pads);
    let dtype = d.dtype(x);
    let value = (mode == "constant" && d.random.one_in(2)).then(|| d.weight(dtype, &[]));
    Some(Candidate::new("Pad", &[x, pads]).input(value).with("mode", mode).exact())
}

fn blocks(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() == 4)?;
    let size = d.random.between(1, 3);
    if d.random.one_in(2) {
        return Some(Candidate::new("SpaceToDepth", &[x]).with("blocksize", size).exact());
    }
    let mode = *d.random.pick(&["DCR", "CRD"]);
    Some(Candidate::new("DepthToSpace", &[x]).with("blocksize", size).with("mode", mode).exact())
}

fn reverse(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() >= 2)?;
    let shape = d.shape(x);
    let time = d.random.flag();
    let (steps, batch) = (shape[time as usize], shape[1 - time as usize]);
    let lengths: Vec<i64> = (0..batch).map(|_| d.random.between(1, steps as i64)).collect();
    let lengths = d.ints(&lengths);
    let candidate = Candidate::new("ReverseSequence", &[x, lengths]);
    Some(candidate.with("time_axis", time).with("batch_axis", 1 - time).exact())
}

fn triangle(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|t| t.rank() >= 2)?;
    let upper = d.random.flag();
    let candidate = Candidate::new("Trilu", &[x]).with("upper", upper).exact();
    if d.random.one_in(2) {
        return Some(candidate);
    }
    let k = d.random.between(-2, 2);
    let k = d.int(k);
    Some(candidate.input(Some(k)))
}

fn resize(d: &mut Draft) -> Option<Candidate> {
    // Positions are f32 whatever the elements are, which decides ties.
    let x = d.float_of_rank(3, 4).filter(|&x| d.dtype(x) != DType::F64)?;
    let shape = d.shape(x);
    let mode = *d.random.pick(&["nearest", "linear", "cubic"]);
    let transform = *d.random.pick(&["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]);
    let candidate = Candidate::new("Resize", &[x]).input(None);
    let candidate = if d.random.one_in(2) {
        let scales: Vec<f32> =
            (0..shape.len()).map(|n| if n < 2 { 1.0 } else { *d.random.pick(&[0.5, 1.0, 1.5, 2.0, 3.0]) }).collect();
        let scales = d.constant(&Tensor::from_elements(&[scales.len()], &scales).ok()?);
        candidate.input(Some(scales))
    } else {
        let sizes: Vec<i64> =
            shape.iter().enumerate().map(|(n, &e)| if n < 2 { e as i64 } else { d.random.between(1, 9) }).collect();
        let sizes = d.ints(&sizes);
        candidate.input(None).input(Some(sizes))
    };
    let nearest = *d.random.pick(&["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"]);
    let candidate = candidate.with("mode", mode).with("coordinate_transformation_mode", transform);
    Some(if mode == "nearest" { candidate.with("nearest_mode", nearest).exact() } else { candidate })
}

/// What `Resize` was called before opset 10.
fn upsample(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 4).filter(|&x| d.opset < 10 && d.dtype(x) != DType::F64)?;
    let rank = d.at(x).rank();
    let scales: Vec<f32> = (0..rank).map(|n| if n < 2 { 1.0 } else { *d.random.pick(&[1.0, 1.5, 2.0, 3.0]) }).collect();
    let scales = d.constant(&Tensor::from_elements(&[rank], &scales).ok()?);
    let mode = *d.random.pick(&["nearest", "linear"]);
    let candidate = Candidate::new("Upsample", &[x, scales]).with("mode", mode);
    Some(if mode == "nearest" { candidate.exact() } else { candidate })
}

fn crop(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() > 0 && t.len_elems() > 0)?;
    let sizes: Vec<i64> = (0..d.at(x).rank()).map(|_| d.random.between(1, 8)).collect();
    let sizes = d.ints(&sizes);
    Some(Candidate::new("CenterCropPad", &[x, sizes]).exact())
}

fn shape_of(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|_| true)?;
    let op = *d.random.pick(&["Shape", "Size"]);
    Some(Candidate::new(op, &[x]).exact())
}

/// Of a shape that another value has.
fn filled(d: &mut Draft) -> Option<Candidate> {
    let small = |t: &Tensor| t.to_i64_vec().is_some_and(|v| v.iter().all(|n| (0..8).contains(n)));
    let target = d.any(|t| t.dtype() == DType::I64 && t.rank() == 1 && t.len_elems() <= 4 && small(t));
    let target = match target {
        Some(target) => target,
        None => d.ints(&[2, 3]),
    };
    let dtype = *d.random.pick(&[DType::F32, DType::I64, DType::F16, DType::I32]);
    let value = d.random.tensor(dtype, &[1]);
    Some(Candidate::new("ConstantOfShape", &[target]).with("value", value).exact())
}

fn range(d: &mut Draft) -> Option<Candidate> {
    let (start, step) = (d.random.between(-3, 3), *d.random.pick(&[1, 2, -1]));
    let count = d.random.between(1, 7);
    let [start, end, step] = [start, start + step * count, step].map(|n| d.int(n));
    Some(Candidate::new("Range", &[start, end, step]).exact())
}

fn eye(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.rank() == 2)?;
    let k = d.random.between(-1, 1);
    Some(Candidate::new("EyeLike", &[x]).with("k", k).exact())
}
