//! Normalizations, softmax and poolings.

use super::Drawer;
use super::contract::window;
use crate::definition::Definition;
use crate::draft::{Candidate, Draft};

pub(super) const DRAWERS: &[Drawer] =
    &[softmax, softmax, layer, group, batch, lp, local, pool, pool, global_pool, mean_variance];

/// What variances are raised by.
const EPSILON: f64 = 1e-2;

fn softmax(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["Softmax", "LogSoftmax", "Hardmax"]);
    let x = d.float_of_rank(1, 5)?;
    let axis = d.axis(x)?;
    let candidate = Candidate::new(op, &[x]).with("axis", axis);
    // Until opset 13 all axes from this one on were one.
    let rank = d.at(x).rank() as i64;
    let last = if d.opset < 13 { rank - 1 } else { axis.rem_euclid(rank) };
    let axes: Vec<i64> = (axis.rem_euclid(rank)..=last).collect();
    Some(match op {
        "Hardmax" => candidate.exact(),
        "LogSoftmax" => candidate.defined_by(Definition::log_softmax(&axes)),
        _ => candidate.defined_by(Definition::softmax(&axes)),
    })
}

fn layer(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(1, 4)?;
    let axis = d.axis(x)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let rest = &shape[axis.rem_euclid(shape.len() as i64) as usize..];
    let scale = d.weight(dtype, rest);
    if d.opset >= 23 && d.random.one_in(2) {
        return Some(Candidate::new("RMSNormalization", &[x, scale]).with("axis", axis));
    }
    let bias = d.random.one_in(2).then(|| d.weight(dtype, rest));
    let axes: Vec<i64> = (axis.rem_euclid(shape.len() as i64)..shape.len() as i64).collect();
    let definition = Definition::normalized(&axes, EPSILON, rest, bias.is_some());
    let candidate = Candidate::new("LayerNormalization", &[x, scale]).input(bias).with("axis", axis);
    Some(candidate.with("epsilon", EPSILON as f32).defined_by(definition))
}

fn group(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 5)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let (scale, bias) = (d.weight(dtype, &[shape[1]]), d.weight(dtype, &[shape[1]]));
    let rank = shape.len() as i64;
    let mut parameters = vec![1; shape.len() - 1];
    parameters[0] = shape[1];
    let apart = Definition::normalized(&(2..rank).collect::<Vec<i64>>(), EPSILON, &parameters, true);
    if d.opset < 21 || d.random.one_in(2) {
        let candidate = Candidate::new("InstanceNormalization", &[x, scale, bias]).with("epsilon", EPSILON as f32);
        return Some(candidate.defined_by(apart));
    }
    let groups = *d.random.pick(&[1, shape[1] as i64]);
    let together = Definition::normalized(&(1..rank).collect::<Vec<i64>>(), EPSILON, &parameters, true);
    let definition = if groups == 1 { together } else { apart };
    let candidate = Candidate::new("GroupNormalization", &[x, scale, bias]).with("num_groups", groups);
    Some(candidate.with("epsilon", EPSILON as f32).defined_by(definition))
}

fn batch(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(2, 5)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let [scale, bias, mean] = [0; 3].map(|_| d.weight(dtype, &[shape[1]]));
    let variance: Vec<f64> = (0..shape[1]).map(|_| d.random.between(1, 9) as f64 / 4.0).collect();
    let variance = infc_tensor::Tensor::from_elements(&[shape[1]], &variance).ok()?;
    let variance = d.constant(&crate::random::cast(&variance, dtype));
    Some(Candidate::new("BatchNormalization", &[x, scale, bias, mean, variance]))
}

fn lp(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(1, 5)?;
    let (axis, p) = (d.axis(x)?, d.random.between(1, 2));
    Some(Candidate::new("LpNormalization", &[x]).with("axis", axis).with("p", p))
}

fn local(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 4)?;
    let size = *d.random.pick(&[1i64, 3, 5]);
    Some(Candidate::new("LRN", &[x]).with("size", size).with("alpha", 0.5f32))
}

fn mean_variance(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(2, 4)?;
    let rank = d.at(x).rank();
    let count = d.random.between(1, rank as i64) as usize;
    let axes: Vec<i64> = d.random.permutation(rank)[..count].iter().map(|&a| a as i64).collect();
    let definition = Definition::mean_variance(&axes);
    Some(Candidate::new("MeanVarianceNormalization", &[x]).with("axes", axes).defined_by(definition))
}

fn pool(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["MaxPool", "AveragePool", "LpPool"]);
    let x = d.float_of_rank(3, 5)?;
    let axes = d.at(x).rank() - 2;
    let (candidate, _) = window(d, Candidate::new(op, &[x]), axes);
    let ceil = d.random.flag();
    let candidate = candidate.with("ceil_mode", ceil);
    let include = d.random.flag();
    Some(match op {
        "MaxPool" if d.random.one_in(3) => candidate.outputs(2).exact(),
        "MaxPool" => candidate.exact(),
        "AveragePool" => candidate.with("count_include_pad", include),
        _ => candidate.with("p", 2i64),
    })
}

fn global_pool(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["GlobalAveragePool", "GlobalMaxPool"]);
    let x = d.float_of_rank(3, 5)?;
    Some(Candidate::new(op, &[x]))
}
