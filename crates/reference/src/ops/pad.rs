//! `Pad` and `CenterCropPad`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::write_f64_as;
use crate::select::select;
use crate::shape;
use infc_tensor::{DType, Tensor};

/// Where a padded element comes from when it lies outside of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

pub(crate) fn pad(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let mode = match call.string("mode", "constant")? {
        "constant" => Mode::Constant,
        "reflect" => Mode::Reflect,
        "edge" => Mode::Edge,
        "wrap" => Mode::Wrap,
        _ => return Err(EvalError::InvalidAttribute { name: "mode", reason: "it names no way of padding" }),
    };
    let pads = match call.opset() {
        1 => call.ints("paddings")?.map(<[i64]>::to_vec),
        _ => call.ints_or_input("pads", 1, 11)?,
    };
    let pads = pads.ok_or(EvalError::MissingInput { index: 1 })?;
    let axes = match if call.opset() >= 18 { call.int_list(3)? } else { None } {
        Some(list) => shape::axes(&list, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(EvalError::InvalidInput { index: 1, reason: "two pads per axis are needed" });
    }
    let fill = if call.opset() < 11 {
        let value = call.float("value", 0.0)?;
        write_f64_as(x.dtype(), &[], std::iter::once(value))?
    } else {
        match call.optional(2) {
            Some(value) if value.len_elems() == 1 => value.reshaped(&[])?,
            Some(_) => return Err(EvalError::InvalidInput { index: 2, reason: "one element is needed" }),
            None => Tensor::zeros(x.dtype(), &[])?,
        }
    };
    let mut before = vec![0i64; x.rank()];
    let mut out = x.shape().to_vec();
    for (i, &axis) in axes.iter().enumerate() {
        let (head, tail) = (pads[i], pads[i + axes.len()]);
        before[axis] = head;
        let padded = i128::from(head) + i128::from(tail) + x.shape()[axis] as i128;
        out[axis] = usize::try_from(padded).map_err(|_| EvalError::NegativeExtent { extent: padded as i64 })?;
        let kept = i128::from(x.shape()[axis] as i64) + i128::from(head.min(0)) + i128::from(tail.min(0));
        if mode != Mode::Constant && kept <= 0 && out[axis] > 0 {
            return Err(EvalError::InvalidInput { index: 0, reason: "there is nothing to pad with" });
        }
    }
    one(padded(x, &fill, &before, &out, mode)?)
}

/// `x` with its first element at `before`, in a tensor of shape `out`.
fn padded(x: &Tensor, fill: &Tensor, before: &[i64], out: &[usize], mode: Mode) -> Result<Tensor> {
    if checked_len(x.dtype(), out)? == 0 {
        return select(&[x, fill], out, std::iter::empty());
    }
    // Per axis, the input coordinate of every output coordinate; None is the fill value.
    let sources: Vec<Vec<Option<usize>>> = (0..out.len())
        .map(|axis| {
            // What negative pads cut off is no part of what the other side repeats.
            let first = (-before[axis]).max(0);
            let end = (x.shape()[axis] as i64).min(out[axis] as i64 - before[axis]);
            let within = |position| source(position - first, end - first, mode).map(|at| at + first as usize);
            (0..out[axis] as i64).map(|i| within(i - before[axis])).collect()
        })
        .collect();
    let strides = shape::strides(x.shape());
    let mut coords = vec![0; out.len()];
    let picks = (0..shape::len(out)).map(|flat| {
        shape::unravel(flat, out, &mut coords);
        let index = coords
            .iter()
            .zip(&sources)
            .zip(&strides)
            .try_fold(0usize, |index, ((&c, source), &stride)| source[c].map(|i| index + i * stride as usize));
        index.map_or((1, 0), |index| (0, index))
    });
    select(&[x, fill], out, picks)
}

/// The coordinate inside of `0..len` that stands for `position`.
fn source(position: i64, len: i64, mode: Mode) -> Option<usize> {
    if (0..len).contains(&position) {
        return Some(position as usize);
    }
    let inside = match mode {
        Mode::Constant => return None,
        Mode::Edge => position.clamp(0, len - 1),
        Mode::Wrap => position.rem_euclid(len),
        // Back and forth without repeating the ends: a period of 2·(len - 1).
        Mode::Reflect if len == 1 => 0,
        Mode::Reflect => {
            let folded = position.rem_euclid(2 * (len - 1));
            folded.min(2 * (len - 1) - folded)
        }
    };
    Some(inside as usize)
}

/// `CenterCropPad`: crops or zero-pads some axes to given lengths, evenly on both sides.
pub(crate) fn center_crop_pad(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let target = shape::dims(&call.int_list(1)?.ok_or(EvalError::MissingInput { index: 1 })?)?;
    let axes = match call.ints("axes")? {
        Some(list) => shape::axes(list, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    if target.len() != axes.len() {
        return Err(EvalError::InvalidInput { index: 1, reason: "one length per axis is needed" });
    }
    let mut before = vec![0i64; x.rank()];
    let mut out = x.shape().to_vec();
    for (&axis, &wanted) in axes.iter().zip(&target) {
        let len = x.shape()[axis];
        out[axis] = wanted;
        // An odd difference leaves the extra element at the end.
        before[axis] = if wanted >= len { ((wanted - len) / 2) as i64 } else { -(((len - wanted) / 2) as i64) };
    }
    let fill = if x.dtype() == DType::String {
        Tensor::from_strings(&[], vec![String::new()])?
    } else {
        Tensor::zeros(x.dtype(), &[])?
    };
    one(padded(x, &fill, &before, &out, Mode::Constant)?)
}
