//! Sums of products: matrices, convolutions, attention.

use super::Drawer;
use crate::draft::{Candidate, Draft, Id};
use crate::random::cast;
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] =
    &[matmul, matmul, gemm, einsum, conv, conv, conv_transpose, integer, attention, linear_attention, causal_conv];

fn matmul(d: &mut Draft) -> Option<Candidate> {
    let a = d.float_of_rank(1, 4)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let k = *shape.last()?;
    let fits = |s: &[usize]| match s {
        [n] => *n == k,
        [.., n, _] => *n == k,
        [] => false,
    };
    let other = d.any(|t| t.dtype() == dtype && fits(t.shape())).filter(|_| d.random.one_in(3));
    let b = match other {
        Some(b) => b,
        None => {
            let columns = d.random.between(1, 20) as usize;
            d.weight(dtype, &[k, columns])
        }
    };
    Some(Candidate::new("MatMul", &[a, b]))
}

fn gemm(d: &mut Draft) -> Option<Candidate> {
    let a = d.float_of_rank(2, 2)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let (left, right) = (d.random.flag(), d.random.flag());
    let k = if left == 1 { shape[0] } else { shape[1] };
    let n = d.random.between(1, 20) as usize;
    let b = d.weight(dtype, &if right == 1 { [n, k] } else { [k, n] });
    let shape: &[usize] = if d.random.one_in(2) { &[n] } else { &[1, n] };
    let c = (!d.random.one_in(3)).then(|| d.weight(dtype, shape));
    let (alpha, beta) = (d.random.between(1, 4) as f32 / 2.0, d.random.between(1, 4) as f32 / 2.0);
    let candidate = Candidate::new("Gemm", &[a, b]).input(c).with("transA", left).with("transB", right);
    Some(candidate.with("alpha", alpha).with("beta", beta))
}

fn einsum(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(1, 4)?;
    let equations = match d.at(x).rank() {
        1 => ["i,i->", "i,j->ij", "i->", "i,i->i"],
        2 => ["ij,jk->ik", "ij,ij->i", "ij->ji", "ij,kj->ik"],
        3 => ["bij,bjk->bik", "bij->bi", "bij,bij->b", "bij,jk->bki"],
        _ => ["abij,abjk->abik", "abij->aj", "...ij->...ji", "abij,abij->ab"],
    };
    let equation = *d.random.pick(&equations);
    let (operands, _) = equation.split_once("->")?;
    let Some((own, labels)) = operands.split_once(',') else {
        return Some(Candidate::new("Einsum", &[x]).with("equation", equation));
    };
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let extent =
        |d: &mut Draft, label: char| own.find(label).map_or_else(|| d.random.between(1, 6) as usize, |at| shape[at]);
    let shape: Vec<usize> = labels.chars().map(|label| extent(d, label)).collect();
    let other = d.weight(dtype, &shape);
    Some(Candidate::new("Einsum", &[x, other]).with("equation", equation))
}

/// Strides, dilations, pads and a kernel for as many axes, as attributes.
pub(super) fn window(d: &mut Draft, candidate: Candidate, axes: usize) -> (Candidate, Vec<usize>) {
    let kernel: Vec<i64> = (0..axes).map(|_| d.random.between(1, 3)).collect();
    let candidate = moved(d, candidate.with("kernel_shape", kernel.clone()), axes);
    (candidate, kernel.into_iter().map(|k| k as usize).collect())
}

/// The same without the kernel, which the weights have.
fn moved(d: &mut Draft, mut candidate: Candidate, axes: usize) -> Candidate {
    let some = |d: &mut Draft, n: usize, low: i64, high: i64| -> Vec<i64> {
        (0..n).map(|_| d.random.between(low, high)).collect()
    };
    if d.random.one_in(2) {
        candidate = candidate.with("strides", some(d, axes, 1, 3));
    }
    if d.random.one_in(4) {
        candidate = candidate.with("dilations", some(d, axes, 1, 2));
    }
    match d.random.below(4) {
        0 | 1 => candidate.with("pads", some(d, 2 * axes, 0, 1)),
        2 => candidate.with("auto_pad", *d.random.pick(&["SAME_UPPER", "SAME_LOWER", "VALID"])),
        _ => candidate,
    }
}

/// A value as the weights of a convolution, whose channels are along `axis`: of extents that the run may tell.
fn filter(d: &mut Draft, x: Id, axis: usize) -> Option<Id> {
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let fits = |w: &Tensor| w.dtype() == dtype && w.rank() == shape.len() && w.shape()[axis] == shape[1];
    d.any(|w| fits(w) && w.shape()[2..].iter().zip(&shape[2..]).all(|(k, extent)| k <= extent)).filter(|&w| w != x)
}

fn conv(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 5)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let channels = shape[1];
    let group = *d.random.pick(&[1, 1, channels]);
    let outputs = group * d.random.between(1, 4) as usize;
    if let Some(weights) = filter(d, x, 1).filter(|_| d.random.one_in(4)) {
        return Some(moved(d, Candidate::new("Conv", &[x, weights]), shape.len() - 2));
    }
    let (candidate, kernel) = window(d, Candidate::new("Conv", &[x]), shape.len() - 2);
    let weights = d.weight(dtype, &[&[outputs, channels / group][..], &kernel].concat());
    let bias = d.random.one_in(2).then(|| d.weight(dtype, &[outputs]));
    Some(candidate.input(Some(weights)).input(bias).with("group", group as i64))
}

fn conv_transpose(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 4)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let channels = shape[1];
    let group = *d.random.pick(&[1, 1, channels]);
    let outputs = d.random.between(1, 3) as usize;
    if let Some(weights) = filter(d, x, 0).filter(|_| d.random.one_in(4)) {
        return Some(moved(d, Candidate::new("ConvTranspose", &[x, weights]), shape.len() - 2));
    }
    let (candidate, kernel) = window(d, Candidate::new("ConvTranspose", &[x]), shape.len() - 2);
    let weights = d.weight(dtype, &[&[channels, outputs][..], &kernel].concat());
    let bias = d.random.one_in(2).then(|| d.weight(dtype, &[outputs * group]));
    Some(candidate.input(Some(weights)).input(bias).with("group", group as i64))
}

fn bytes(d: &mut Draft) -> Option<Id> {
    d.any(|t| matches!(t.dtype(), DType::I8 | DType::U8) && t.rank() >= 2)
}

/// Products of bytes.
fn integer(d: &mut Draft) -> Option<Candidate> {
    let a = bytes(d)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let n = d.random.between(1, 20) as usize;
    let of = *d.random.pick(&[DType::I8, DType::U8]);
    let b = d.weight(of, &[*shape.last()?, n]);
    let (left, right) = (d.random.one_in(2), d.random.one_in(2));
    let left = left.then(|| d.weight(dtype, &[]));
    let right = right.then(|| d.weight(of, &[]));
    Some(Candidate::new("MatMulInteger", &[a, b]).input(left).input(right).exact())
}

fn attention(d: &mut Draft) -> Option<Candidate> {
    let q = d.float_of_rank(4, 4).filter(|_| d.opset >= 23)?;
    let (dtype, shape) = (d.dtype(q), d.shape(q));
    let keys = d.random.between(1, 6) as usize;
    let kv = [shape[0], shape[1], keys, shape[3]];
    let (k, v) = (d.weight(dtype, &kv), d.weight(dtype, &kv));
    let causal = d.random.flag();
    let candidate = Candidate::new("Attention", &[q, k, v]).with("is_causal", causal);
    Some(if d.random.one_in(3) { candidate.with("softcap", 2.0f32) } else { candidate })
}

/// Numbers from −1 to 1, so that what is carried from step to step stays small.
fn unit(d: &mut Draft, dtype: DType, shape: &[usize]) -> Id {
    let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| d.random.between(-8, 8) as f64 / 8.0).collect();
    d.constant(&cast(&Tensor::from_elements(shape, &numbers).expect("as many"), dtype))
}

/// A state of keys and values per head. The values are computed, keys and what gates are constants.
fn linear_attention(d: &mut Draft) -> Option<Candidate> {
    let v = d.float_of_rank(3, 3).filter(|_| d.opset >= 27)?;
    let (dtype, shape) = (d.dtype(v), d.shape(v));
    let heads = if shape[2].is_multiple_of(2) { *d.random.pick(&[1, 2]) } else { 1 };
    let (group, size) = (d.random.between(1, 2) as usize, d.random.between(1, 3) as usize);
    let rule = *d.random.pick(&["linear", "gated", "delta", "gated_delta"]);
    let of = |features: usize| [shape[0], shape[1], features];
    let (q, k) = (unit(d, dtype, &of(heads * group * size)), unit(d, dtype, &of(heads * size)));
    let past = [shape[0], heads, size, shape[2] / heads];
    let past = d.random.one_in(2).then(|| unit(d, dtype, &past));
    let per_feature = d.random.one_in(2);
    let decay = rule.starts_with("gated").then(|| {
        let shape = of(if per_feature { heads * size } else { heads });
        let count = shape.iter().product();
        let numbers: Vec<f64> = (0..count).map(|_| -(d.random.between(0, 16) as f64) / 8.0).collect();
        d.constant(&cast(&Tensor::from_elements(&shape, &numbers).expect("as many"), dtype))
    });
    let beta = *d.random.pick(&[1, heads]);
    let beta = rule.ends_with("delta").then(|| unit(d, dtype, &of(beta)));
    let candidate = Candidate::new("LinearAttention", &[q, k, v]).input(past).input(decay).input(beta).outputs(2);
    let candidate = candidate.with("q_num_heads", (heads * group) as i64).with("kv_num_heads", heads as i64);
    Some(candidate.with("update_rule", rule))
}

/// What came before the input is an input, too.
fn causal_conv(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 3).filter(|_| d.opset >= 27)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let kernel = d.random.between(1, 4) as usize;
    let weights = d.weight(dtype, &[shape[1], 1, kernel]);
    let bias = d.random.one_in(2).then(|| d.weight(dtype, &[shape[1]]));
    let past = d.random.one_in(2).then(|| d.weight(dtype, &[shape[0], shape[1], kernel - 1]));
    let activation = *d.random.pick(&["none", "silu", "swish"]);
    let candidate = Candidate::new("CausalConvWithState", &[x, weights]).input(bias).input(past).outputs(2);
    Some(candidate.with("activation", activation))
}
