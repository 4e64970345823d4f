//! Discrete Fourier transforms: DFT, STFT, and MelWeightMatrix, which sums their bins.
//!
//! ONNX operators of these names, opset 17 and later (DFT's axis is an input since 20). A transform of length `N` is a
//! product with a matrix of cosines and sines. Where `N = A·B`, it is a transform of length `A` of every `B`-th element,
//! a rotation, and one of length `B` over the results (Cooley and Tukey 1965), so that long ones cost the sum of the
//! factors and not the length per element. Complex numbers are pairs along a last axis.

use super::Operator;
use super::elementwise::require_float;
use crate::build::{Builder, Result, compute_type, index, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};
use infc_tensor::DType;
use std::f64::consts::TAU;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("DFT", 17, dft),
    Operator::new("STFT", 17, stft),
    Operator::new("MelWeightMatrix", 17, mel_weight_matrix),
];

/// Up to this length a transform is one product.
const DIRECT: i64 = 64;

/// Numbers as their real and imaginary parts; without the latter they are real.
#[derive(Clone)]
struct Complex {
    re: Tracked,
    im: Option<Tracked>,
}

impl Complex {
    /// From pairs along the last axis, or single numbers.
    fn of(build: &mut Builder, x: &Tracked) -> Result<Self> {
        let Some((parts, shape)) = x.shape().split_last() else { return Err(mismatch("pairs of numbers", x.shape())) };
        let (parts, shape) = (parts.as_const(), shape.to_vec());
        let x = build.cast(x, compute_type(x.dtype()))?;
        let part = |build: &mut Builder, n: i64| {
            let own = (0..shape.len()).map(var).chain([IndexExpr::constant(n)]).collect();
            build.view(&x, own, shape.clone())
        };
        match parts {
            Some(1) => Ok(Self { re: part(build, 0)?, im: None }),
            Some(2) => Ok(Self { re: part(build, 0)?, im: Some(part(build, 1)?) }),
            _ => Err(mismatch("numbers or pairs of numbers along the last axis", x.shape())),
        }
    }

    fn shape(&self) -> &[Dim] {
        self.re.shape()
    }

    /// The same movement of both parts.
    fn moved(self, build: &mut Builder, f: impl Fn(&mut Builder, &Tracked) -> Result<Tracked>) -> Result<Self> {
        Ok(Self { re: f(build, &self.re)?, im: self.im.map(|im| f(build, &im)).transpose()? })
    }

    /// Pairs along a new last axis.
    fn pairs(self, build: &mut Builder) -> Result<Tracked> {
        let im = match self.im {
            Some(im) => im,
            None => {
                let zero = build.scalar(self.re.dtype(), 0.0);
                build.broadcast(&zero, self.re.shape())?
            }
        };
        let last = self.re.rank();
        let (re, im) = (build.insert_axis(&self.re, last)?, build.insert_axis(&im, last)?);
        build.concat(&[&re, &im], last)
    }
}

/// The transform along the last axis of `x`, of the axis' length: the first `bins` results.
fn transform(build: &mut Builder, x: Complex, bins: &Dim, inverse: bool) -> Result<Complex> {
    let (length, lead) = x.shape().split_last().map(|(n, lead)| (n.clone(), lead.to_vec())).expect("an axis");
    let factor = length.as_const().and_then(|n| factor(n).map(|a| (a, n / a)));
    let Some((a, b)) = factor else {
        return product(build, &x, &length, bins, inverse);
    };
    // x[j·B + m] over [m, j]; then X[k₁ + A·k₂] = Σₘ e^(m·k₁/N) e^(m·k₂/B) Σⱼ x[j·B + m] e^(j·k₁/A).
    let split: Vec<Dim> = lead.iter().cloned().chain([Dim::constant(a), Dim::constant(b)]).collect();
    let order: Vec<usize> = (0..lead.len()).chain([lead.len() + 1, lead.len()]).collect();
    let columns = x.moved(build, |build, x| {
        let split = build.reshape(x, &split)?;
        build.transpose(&split, &order)
    })?;
    let inner = transform(build, columns, &Dim::constant(a), inverse)?;
    let turned = rotated(build, &inner, &length, inverse)?;
    let rows = turned.moved(build, |build, x| build.transpose(x, &order))?;
    let outer = transform(build, rows, &Dim::constant(b), inverse)?;
    let merged: Vec<Dim> = lead.iter().cloned().chain([length.clone()]).collect();
    let last = lead.len();
    outer.moved(build, |build, x| {
        let turned = build.transpose(x, &order)?;
        let all = build.reshape(&turned, &merged)?;
        build.slice_axis(&all, last, Dim::constant(0), bins.clone())
    })
}

/// A factor of a length that is not transformed in one product, near its root.
fn factor(length: i64) -> Option<i64> {
    if length <= DIRECT {
        return None;
    }
    let root = (length as f64).sqrt() as i64 + 1;
    (2..=root.min(1 << 20)).rev().find(|a| length % a == 0 && *a < length)
}

/// `cos` and `sin` of `part/whole` of a turn; the part is taken modulo the whole first, as large angles lose digits.
fn turn(body: &mut Body, dtype: DType, part: &IndexExpr, whole: &Dim, inverse: bool) -> (ScalarId, ScalarId) {
    // In f64: the angle's error is that of the result.
    let (part, whole) = (index(body, part.modulo(whole)), index(body, whole.clone()));
    let (part, whole) = (body.cast(DType::F64, part), body.cast(DType::F64, whole));
    let fraction = body.binary(BinaryOp::Div, part, whole);
    let full = body.constant(DType::F64, if inverse { TAU } else { -TAU });
    let angle = body.binary(BinaryOp::Mul, fraction, full);
    let (cos, sin) = (body.unary(UnaryOp::Cos, angle), body.unary(UnaryOp::Sin, angle));
    (body.cast(dtype, cos), body.cast(dtype, sin))
}

/// Each number at `[…, m, k]` turned by `m·k/whole` of a turn.
fn rotated(build: &mut Builder, x: &Complex, whole: &Dim, inverse: bool) -> Result<Complex> {
    let table = |build: &mut Builder, sine: bool| {
        let last = x.shape()[x.shape().len() - 2..].to_vec();
        let table = build.generate(last, |body| {
            let (cos, sin) = turn(body, x.re.dtype(), &(var(0) * var(1)), whole, inverse);
            if sine { sin } else { cos }
        })?;
        build.broadcast(&table, x.shape())
    };
    let (cos, sin) = (table(build, false)?, table(build, true)?);
    let one = |build: &mut Builder, (of_re, of_im): (&Tracked, &Tracked), imaginary: bool| match &x.im {
        None => build.map(&[&x.re, of_re], |body, p| body.binary(BinaryOp::Mul, p[0], p[1])),
        Some(im) => build.map(&[&x.re, of_re, im, of_im], |body, p| {
            let (re, im) = (body.binary(BinaryOp::Mul, p[0], p[1]), body.binary(BinaryOp::Mul, p[2], p[3]));
            body.binary(if imaginary { BinaryOp::Add } else { BinaryOp::Sub }, re, im)
        }),
    };
    Ok(Complex { re: one(build, (&cos, &sin), false)?, im: Some(one(build, (&sin, &cos), true)?) })
}

/// The transform as a product with a matrix.
fn product(build: &mut Builder, x: &Complex, length: &Dim, bins: &Dim, inverse: bool) -> Result<Complex> {
    let dtype = x.re.dtype();
    let matrix = |build: &mut Builder, sine: bool| {
        build.generate(vec![length.clone(), bins.clone()], |body| {
            let (cos, sin) = turn(body, dtype, &(var(0) * var(1)), length, inverse);
            if sine { sin } else { cos }
        })
    };
    let (cos, sin) = (matrix(build, false)?, matrix(build, true)?);
    let rank = x.re.rank() as u8;
    let lead: Vec<u8> = (0..rank - 1).collect();
    let labels: Vec<u8> = lead.iter().copied().chain([rank]).collect();
    let output: Vec<u8> = lead.into_iter().chain([rank + 1]).collect();
    let mut times = |x: &Tracked, matrix: &Tracked| build.contract((x, &labels), (matrix, &[rank, rank + 1]), &output);
    let (re, im) = (times(&x.re, &cos)?, times(&x.re, &sin)?);
    let Some(other) = &x.im else { return Ok(Complex { re, im: Some(im) }) };
    let (of_cos, of_sin) = (times(other, &cos)?, times(other, &sin)?);
    let re = build.map(&[&re, &of_sin], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))?;
    let im = build.map(&[&im, &of_cos], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
    Ok(Complex { re, im: Some(im) })
}

/// The first `length` elements of the last axis, zeros behind its end.
fn fitted(build: &mut Builder, x: &Tracked, length: &Dim) -> Result<Tracked> {
    let last = x.rank() - 1;
    let extent = x.shape()[last].clone();
    if extent == *length {
        return Ok(x.clone());
    }
    let mut shape = x.shape().to_vec();
    shape[last] = length.clone();
    let valid = vec![Bound { expr: var(last), lo: Dim::constant(0), hi: extent }];
    let map = AccessMap { rank: shape.len(), index: (0..shape.len()).map(var).collect(), valid };
    build.view_or(x, map, shape, Const::zero(x.dtype()))
}

/// `x / length`
fn divided(build: &mut Builder, x: &Tracked, length: &Dim) -> Result<Tracked> {
    super::reduce::divide(build, x, length.clone(), x.dtype())
}

fn dft(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    if x.rank() < 2 {
        return Err(mismatch("an axis of signals and one of parts", x.shape()));
    }
    let along = if call.opset < 20 {
        call.int_or("axis", 1)?
    } else {
        let given = call.optional_ints(2, "the axis")?;
        given.and_then(|a| a.first().copied()).unwrap_or(-2)
    };
    let along = axis(along, x.rank())?;
    if along + 1 == x.rank() {
        return Err(mismatch("an axis of signals, not of the parts of a number", x.shape()));
    }
    let (inverse, one_sided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let given = call.optional_dims(1, "the length of the transform")?.and_then(|d| d.first().cloned());
    let extent = x.shape()[along].clone();
    let length = given.unwrap_or_else(|| if inverse && one_sided { (extent.clone() - 1).scale(2) } else { extent });
    let build = &mut *call.build;
    build.require_at_least("the length of a transform", &length, &Dim::constant(1))?;
    let dtype = x.dtype();
    let signals = x.rank() - 1;
    let to_last: Vec<usize> = (0..signals).filter(|&n| n != along).chain([along]).collect();
    let mut back: Vec<usize> = (0..signals - 1).collect();
    back.insert(along, signals - 1);
    let half = length.floor_div(&Dim::constant(2)) + 1;
    let x = Complex::of(build, &x)?;
    let x = x.moved(build, |build, x| build.transpose(x, &to_last))?;
    let y = if inverse && one_sided {
        let x = x.moved(build, |build, x| fitted(build, x, &half))?;
        let y = real_inverse(build, &x, &length)?;
        let y = build.transpose(&y, &back)?;
        build.insert_axis(&y, signals)?
    } else {
        let x = x.moved(build, |build, x| fitted(build, x, &length))?;
        let bins = if one_sided { &half } else { &length };
        let mut y = transform(build, x, bins, inverse)?;
        if inverse {
            y = y.moved(build, |build, y| divided(build, y, &length))?;
        }
        y.moved(build, |build, y| build.transpose(y, &back))?.pairs(build)?
    };
    Ok(vec![build.cast(&y, dtype)?])
}

/// The real signal with these bins, of which the second half is the first one's conjugate: the real part of the inverse
/// over all bins, where those in between count twice.
fn real_inverse(build: &mut Builder, x: &Complex, length: &Dim) -> Result<Tracked> {
    let last = x.re.rank() - 1;
    let half = x.shape()[last].clone();
    let weighted = x.clone().moved(build, |build, x| {
        build.map(&[x], |body, p| {
            let (bin, zero) = (index(body, var(last)), index(body, Dim::constant(0)));
            let mirror = index(body, length.clone() - var(last));
            let first = body.compare(CompareOp::Eq, bin, zero);
            let middle = body.compare(CompareOp::Eq, bin, mirror);
            let single = body.binary(BinaryOp::Or, first, middle);
            let twice = body.binary(BinaryOp::Add, p[0], p[0]);
            body.select(single, p[0], twice)
        })
    })?;
    let padded = weighted.moved(build, |build, x| fitted(build, x, length))?;
    debug_assert!(half.as_const().is_none_or(|h| h >= 1));
    let all = transform(build, padded, length, true)?;
    divided(build, &all.re, length)
}

/// Transforms of windows: `[B, frames, bins, 2]`.
fn stft(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (mut x, window) = (call.input(0)?, call.optional(2));
    require_float(&x)?;
    if x.rank() == 2 {
        // Real signals without an axis of parts, as exporters write them and ONNX Runtime takes them.
        x = call.build.insert_axis(&x, 2)?;
    }
    let [batch, samples, parts] = x.shape() else { return Err(mismatch("batch, samples and parts", x.shape())) };
    let (batch, samples, parts) = (batch.clone(), samples.clone(), parts.clone());
    let one = |dims: Vec<Dim>| dims.first().cloned();
    let step = one(call.dims(1, "the distance of frames")?).ok_or(Problem::MissingInput { index: 1 })?;
    let given = call.optional_dims(3, "the length of a frame")?.and_then(one);
    let length = match (given, &window) {
        (Some(length), _) => length,
        (None, Some(window)) => window.shape().first().cloned().ok_or_else(|| mismatch("a vector", window.shape()))?,
        (None, None) => samples.clone(),
    };
    let one_sided = call.flag("onesided", true)?;
    let build = &mut *call.build;
    build.require_at_least("the distance of frames", &step, &Dim::constant(1))?;
    build.require_at_least("the length of a frame", &length, &Dim::constant(1))?;
    build.require_at_least("the signal", &samples, &length)?;
    let frames = (samples - length.clone()).floor_div(&step) + 1;
    let shape = vec![batch, frames, length.clone(), parts];
    let framed = build.view(&x, vec![var(0), var(1) * step + var(2), var(3)], shape)?;
    let mut framed = Complex::of(build, &framed)?;
    if let Some(window) = window {
        if window.rank() != 1 {
            return Err(mismatch("a vector", window.shape()));
        }
        build.require_equal("the lengths of window and frame", &window.shape()[0], &length)?;
        let window = build.cast(&window, framed.re.dtype())?;
        framed = framed
            .moved(build, |build, x| build.map(&[x, &window], |body, p| body.binary(BinaryOp::Mul, p[0], p[1])))?;
    }
    let bins = if one_sided { length.floor_div(&Dim::constant(2)) + 1 } else { length };
    let y = transform(build, framed, &bins, false)?.pairs(build)?;
    Ok(vec![build.cast(&y, x.dtype())?])
}

/// Triangles over the bins of a transform, evenly spaced on the mel scale: `[bins, bands]`.
///
/// Band `i` rises from edge `i` to edge `i + 1` and falls to edge `i + 2`, where an edge is the bin of its frequency.
fn mel_weight_matrix(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let one = |dims: Vec<Dim>| dims.first().cloned().ok_or_else(|| mismatch("one number", &[]));
    let bands = one(call.dims(0, "the number of bands")?)?;
    let length = one(call.dims(1, "the length of the transform")?)?;
    let dtype = call.dtype("output_datatype")?.unwrap_or(DType::F32);
    let build = &mut *call.build;
    let bins = length.floor_div(&Dim::constant(2)) + 1;
    let mut numbers = Vec::new();
    for n in 2..5 {
        let given = call.inputs.get(n).cloned().flatten().ok_or(Problem::MissingInput { index: n })?;
        let scalar = build.reshape(&given, &[])?;
        numbers.push(build.cast(&scalar, DType::F64)?);
    }
    let inputs: Vec<&Tracked> = numbers.iter().collect();
    let weights = build.map_over(vec![bins, bands.clone()], &inputs, |body, p| {
        let edges = [0, 1, 2].map(|n| mel_edge(body, p, var(1) + n, &bands, &length));
        let bin = index(body, var(0));
        let bin = body.cast(DType::F64, bin);
        let slope = |body: &mut Body, from: ScalarId, to: ScalarId| {
            let (along, width) = (body.binary(BinaryOp::Sub, bin, from), body.binary(BinaryOp::Sub, to, from));
            body.binary(BinaryOp::Div, along, width)
        };
        let (rising, falling) = (slope(body, edges[0], edges[1]), slope(body, edges[2], edges[1]));
        let (zero, one) = (body.constant(DType::F64, 0.0), body.constant(DType::F64, 1.0));
        let before = body.compare(CompareOp::Lt, bin, edges[1]);
        let side = body.select(before, rising, falling);
        let from = body.compare(CompareOp::Ge, bin, edges[0]);
        let to = body.compare(CompareOp::Lt, bin, edges[2]);
        let inside = body.binary(BinaryOp::And, from, to);
        let side = body.select(inside, side, zero);
        // The peak, also of a band that only has this bin.
        let peak = body.compare(CompareOp::Eq, bin, edges[1]);
        let weight = body.select(peak, one, side);
        body.cast(dtype, weight)
    })?;
    Ok(vec![weights])
}

/// The bin of the n-th edge between the lowest and the highest frequency; `p` has sample rate, lowest and highest.
fn mel_edge(body: &mut Body, p: &[ScalarId], n: IndexExpr, bands: &Dim, length: &Dim) -> ScalarId {
    let number = |body: &mut Body, e: IndexExpr| {
        let e = index(body, e);
        body.cast(DType::F64, e)
    };
    // Natural units of the scale: mel/2595·ln 10 = ln(1 + f/700).
    let mel = |body: &mut Body, f: ScalarId| {
        let (width, one) = (body.constant(DType::F64, 700.0), body.constant(DType::F64, 1.0));
        let part = body.binary(BinaryOp::Div, f, width);
        let sum = body.binary(BinaryOp::Add, part, one);
        body.unary(UnaryOp::Log, sum)
    };
    let (low, high) = (mel(body, p[1]), mel(body, p[2]));
    let range = body.binary(BinaryOp::Sub, high, low);
    let (n, steps) = (number(body, n), number(body, bands.clone() + 2));
    let step = body.binary(BinaryOp::Div, range, steps);
    let offset = body.binary(BinaryOp::Mul, n, step);
    let at = body.binary(BinaryOp::Add, low, offset);
    let power = body.unary(UnaryOp::Exp, at);
    let one = body.constant(DType::F64, 1.0);
    let above = body.binary(BinaryOp::Sub, power, one);
    let width = body.constant(DType::F64, 700.0);
    let frequency = body.binary(BinaryOp::Mul, above, width);
    let samples = number(body, length.clone() + 1);
    let scaled = body.binary(BinaryOp::Mul, frequency, samples);
    let bin = body.binary(BinaryOp::Div, scaled, p[0]);
    body.unary(UnaryOp::Floor, bin)
}
