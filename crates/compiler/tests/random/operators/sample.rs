//! Operators that sample images and signals, and losses.

use super::Drawer;
use crate::draft::{Candidate, Draft, Id};
use crate::random::cast;
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[
    grid_sample,
    roi_align,
    max_roi_pool,
    affine_grid,
    deform,
    columns,
    unpool,
    dft,
    stft,
    window_function,
    mel_weights,
    det,
    loss,
    cross_entropy,
    rotary,
    swish,
    cum_prod,
    bit_cast,
    scatter_rows,
    dropout,
    lp,
];

/// Floats of the given type from −`by` to `by`, in 64ths.
fn within(d: &mut Draft, dtype: DType, shape: &[usize], by: f64) -> Id {
    let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| d.random.between(-64, 64) as f64 / 64.0 * by).collect();
    d.constant(&cast(&Tensor::from_elements(shape, &numbers).expect("as many"), dtype))
}

fn grid_sample(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && (4..=5).contains(&t.rank()) && t.len_elems() > 0)?;
    let shape = d.shape(x);
    let space = shape.len() - 2;
    let mut grid = vec![shape[0]];
    grid.extend((0..space).map(|_| d.random.between(1, 4) as usize));
    grid.push(space);
    let grid = within(d, DType::F32, &grid, 1.25);
    let mode = *d.random.pick(&["linear", "nearest", "cubic"]);
    let mode = match mode {
        "linear" if d.opset < 20 => "bilinear",
        "cubic" if d.opset < 20 => "bicubic",
        mode => mode,
    };
    let padding = *d.random.pick(&["zeros", "border", "reflection"]);
    let corners = d.random.flag();
    let candidate = Candidate::new("GridSample", &[x, grid]).with("mode", mode).with("padding_mode", padding);
    Some(candidate.with("align_corners", corners))
}

/// Boxes `x1, y1, x2, y2`.
fn boxes(d: &mut Draft, dtype: DType, count: usize, with_batch: Option<usize>) -> Id {
    let mut numbers = Vec::new();
    for _ in 0..count {
        if let Some(batch) = with_batch {
            numbers.push(d.random.below(batch) as f64);
        }
        let (x, y) = (d.random.between(0, 8) as f64 / 2.0, d.random.between(0, 8) as f64 / 2.0);
        numbers.extend([x, y, x + d.random.between(1, 8) as f64 / 2.0, y + d.random.between(1, 8) as f64 / 2.0]);
    }
    let shape = [count, numbers.len() / count];
    d.constant(&cast(&Tensor::from_elements(&shape, &numbers).expect("as many"), dtype))
}

fn roi_align(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && t.rank() == 4 && t.len_elems() > 0)?;
    let batch = d.shape(x)[0];
    let rois = boxes(d, DType::F32, 2, None);
    let numbers: Vec<i64> = (0..2).map(|_| d.random.below(batch) as i64).collect();
    let batches = d.constant(&Tensor::from_elements(&[2], &numbers).ok()?);
    let mode = *d.random.pick(&["avg", "max"]);
    let transform = *d.random.pick(&["half_pixel", "output_half_pixel"]);
    let [height, width] = [0; 2].map(|_| d.random.between(1, 3));
    let candidate = Candidate::new("RoiAlign", &[x, rois, batches]).with("mode", mode).with("sampling_ratio", 2i64);
    let candidate = candidate.with("coordinate_transformation_mode", transform).with("spatial_scale", 0.5f32);
    Some(candidate.with("output_height", height).with("output_width", width))
}

fn max_roi_pool(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && t.rank() == 4 && t.len_elems() > 0)?;
    let batch = d.shape(x)[0];
    let rois = boxes(d, DType::F32, 2, Some(batch));
    Some(Candidate::new("MaxRoiPool", &[x, rois]).with("pooled_shape", vec![2i64, 2]).exact())
}

fn affine_grid(d: &mut Draft) -> Option<Candidate> {
    let three = d.random.one_in(3);
    let n = d.random.between(1, 2) as usize;
    let shape = if three { [n, 3, 4] } else { [n, 2, 3] };
    let theta = d.float_of_rank(3, 3).filter(|&x| d.shape(x) == shape && d.dtype(x) == DType::F32);
    let theta = theta.unwrap_or_else(|| d.weight(DType::F32, &shape));
    let mut size = vec![n as i64, 1];
    size.extend((0..if three { 3 } else { 2 }).map(|_| d.random.between(1, 4)));
    let size = d.ints(&size);
    let corners = d.random.flag();
    Some(Candidate::new("AffineGrid", &[theta, size]).with("align_corners", corners))
}

fn deform(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && t.rank() == 4 && t.len_elems() > 0)?;
    let shape = d.shape(x);
    if shape[2] < 2 || shape[3] < 2 {
        return None;
    }
    let (height, width) = (shape[2] - 1, shape[3] - 1);
    let outputs = d.random.between(1, 3) as usize;
    let weights = d.weight(DType::F32, &[outputs, shape[1], 2, 2]);
    let offset = within(d, DType::F32, &[shape[0], 8, height, width], 1.0);
    let mask = d.random.one_in(2).then(|| within(d, DType::F32, &[shape[0], 4, height, width], 1.0));
    let candidate = Candidate::new("DeformConv", &[x, weights, offset]).input(None).input(mask);
    Some(candidate.with("kernel_shape", vec![2i64, 2]))
}

/// The inverse of taking windows apart.
fn columns(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 3)?;
    let shape = d.shape(x);
    let (block, image) = ([1, *d.random.pick(&[1, shape[1] as i64])], [1, shape[2] as i64 + d.random.between(0, 2)]);
    let [image, block] = [image, block].map(|numbers| d.constant(&Tensor::from_elements(&[2], &numbers).expect("two")));
    Some(Candidate::new("Col2Im", &[x, image, block]))
}

fn unpool(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(4, 4)?;
    let shape = d.shape(x);
    let mut numbers = Vec::new();
    // The first of each window of 2 × 2, by planes.
    for plane in 0..shape[0] * shape[1] {
        for n in 0..shape[2] * shape[3] {
            let (row, column) = (2 * (n / shape[3]), 2 * (n % shape[3]));
            numbers.push(((plane * 2 * shape[2] + row) * 2 * shape[3] + column) as i64);
        }
    }
    let indices = d.constant(&Tensor::from_elements(&shape, &numbers).ok()?);
    let candidate = Candidate::new("MaxUnpool", &[x, indices]).with("kernel_shape", vec![2i64, 2]);
    Some(candidate.with("strides", vec![2i64, 2]).exact())
}

fn dft(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| {
        matches!(t.dtype(), DType::F32 | DType::F64)
            && t.rank() >= 2
            && t.len_elems() > 0
            && t.shape().last() <= Some(&2)
    })?;
    let rank = d.at(x).rank() as i64;
    let axis = d.random.between(0, rank - 2);
    let complex = d.shape(x).last() == Some(&2);
    let (inverse, onesided) = (d.random.flag(), if complex { 0 } else { d.random.flag() });
    let candidate = Candidate::new("DFT", &[x]).with("inverse", if onesided == 1 { 0 } else { inverse });
    let candidate = candidate.with("onesided", onesided);
    if d.opset < 20 {
        return Some(candidate.with("axis", axis));
    }
    let axis = d.int(axis);
    Some(candidate.input(None).input(Some(axis)))
}

fn stft(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && t.rank() == 3 && t.shape()[2] == 1 && t.shape()[1] >= 4);
    let x = x.unwrap_or_else(|| {
        let (batch, len) = (d.random.between(1, 2) as usize, d.random.between(4, 16) as usize);
        d.weight(DType::F32, &[batch, len, 1])
    });
    let step = d.random.between(1, 3);
    let [step, length] = [step, 4].map(|n| d.constant(&Tensor::scalar(n)));
    let window = d.random.one_in(2).then(|| within(d, DType::F32, &[4], 1.0));
    let onesided = d.random.flag();
    let candidate = Candidate::new("STFT", &[x, step]).input(window).input(Some(length));
    Some(candidate.with("onesided", onesided))
}

fn window_function(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["HannWindow", "HammingWindow", "BlackmanWindow"]);
    let size = d.random.between(2, 9);
    let size = d.int(size);
    let periodic = d.random.flag();
    Some(Candidate::new(op, &[size]).with("periodic", periodic))
}

/// Edges of bands are rounded down to whole bins, so frequencies are such that none is a whole bin already.
fn mel_weights(d: &mut Draft) -> Option<Candidate> {
    let bands = d.random.between(1, 6);
    let length = *d.random.pick(&[8, 16, 31]);
    let [bands, length, rate] = [bands, length, 8000].map(|n| d.int(n));
    let (low, high) = (d.random.between(1, 9) as f32 * 11.0, 1500.0 + d.random.between(1, 9) as f32 * 111.0);
    let [low, high] = [low, high].map(|hertz| d.constant(&Tensor::scalar(hertz)));
    Some(Candidate::new("MelWeightMatrix", &[bands, length, rate, low, high]))
}

fn det(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| {
        let shape = t.shape();
        matches!(t.dtype(), DType::F32 | DType::F64)
            && shape.len() >= 2
            && shape[shape.len() - 1] == shape[shape.len() - 2]
            && (1..5).contains(&shape[shape.len() - 1])
    })?;
    Some(Candidate::new("Det", &[x]))
}

/// Classes, and weights for them.
fn classes(d: &mut Draft, shape: &[usize]) -> (Id, usize) {
    let of: Vec<usize> = shape.iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, &d)| d).collect();
    let count = shape[1];
    let numbers: Vec<i64> = (0..of.iter().product()).map(|_| d.random.below(count) as i64).collect();
    (d.constant(&Tensor::from_elements(&of, &numbers).expect("as many")), count)
}

fn reduced(d: &mut Draft, op: &'static str) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && (2..=4).contains(&t.rank()) && t.len_elems() > 0)?;
    let shape = d.shape(x);
    let (target, count) = classes(d, &shape);
    let weights = d.random.one_in(2).then(|| {
        let numbers: Vec<f32> = (0..count).map(|_| d.random.between(1, 8) as f32 / 4.0).collect();
        d.constant(&Tensor::from_elements(&[count], &numbers).expect("as many"))
    });
    let reduction = *d.random.pick(&["none", "mean", "sum"]);
    let candidate = Candidate::new(op, &[x, target]).input(weights).with("reduction", reduction);
    Some(if d.random.one_in(3) { candidate.with("ignore_index", 0i64) } else { candidate })
}

fn loss(d: &mut Draft) -> Option<Candidate> {
    reduced(d, "NegativeLogLikelihoodLoss")
}

fn cross_entropy(d: &mut Draft) -> Option<Candidate> {
    let candidate = reduced(d, "SoftmaxCrossEntropyLoss")?;
    let definition = candidate.as_cross_entropy();
    Some(candidate.defined_by(definition))
}

fn rotary(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(4, 4).filter(|&x| d.opset >= 23 && d.shape(x)[3].is_multiple_of(2))?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let table = [shape[0], shape[2], shape[3] / 2];
    let (cos, sin) = (within(d, dtype, &table, 1.0), within(d, dtype, &table, 1.0));
    let interleaved = d.random.flag();
    Some(Candidate::new("RotaryEmbedding", &[x, cos, sin]).with("interleaved", interleaved))
}

fn swish(d: &mut Draft) -> Option<Candidate> {
    let x = d.float().filter(|_| d.opset >= 24)?;
    let alpha = d.random.between(1, 8) as f32 / 4.0;
    Some(Candidate::new("Swish", &[x]).with("alpha", alpha))
}

fn cum_prod(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(1, 4).filter(|_| d.opset >= 26)?;
    let axis = d.axis(x)?;
    let axis = d.int(axis);
    let (exclusive, reverse) = (d.random.flag(), d.random.flag());
    Some(Candidate::new("CumProd", &[x, axis]).with("exclusive", exclusive).with("reverse", reverse))
}

fn bit_cast(d: &mut Draft) -> Option<Candidate> {
    let (from, to) = *d.random.pick(&[(DType::I32, DType::U32), (DType::I8, DType::U8), (DType::U64, DType::I64)]);
    let x = d.any(|t| t.dtype() == from).filter(|_| d.opset >= 26)?;
    let code = infc_reference::dtypes::to_onnx(to)?;
    Some(Candidate::new("BitCast", &[x]).with("to", code).exact())
}

fn scatter_rows(d: &mut Draft) -> Option<Candidate> {
    let cache = d.float_of_rank(3, 4).filter(|_| d.opset >= 24)?;
    let (dtype, mut shape) = (d.dtype(cache), d.shape(cache));
    let at = shape.len() - 2;
    let rows = d.random.between(1, shape[at] as i64);
    let last = shape[at] as i64 - rows;
    shape[at] = rows as usize;
    let update = d.weight(dtype, &shape);
    let numbers: Vec<i64> = (0..shape[0]).map(|_| d.random.between(0, last)).collect();
    let starts = d.ints(&numbers);
    Some(Candidate::new("TensorScatter", &[cache, update, starts]).exact())
}

fn dropout(d: &mut Draft) -> Option<Candidate> {
    let x = d.float()?;
    Some(Candidate::new("Dropout", &[x]).exact())
}

fn lp(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(3, 5)?;
    let p = d.random.between(1, 2);
    Some(Candidate::new("GlobalLpPool", &[x]).with("p", p))
}
