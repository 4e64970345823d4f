//! Operators that rearrange or repeat elements: shapes, axes, concatenation, blocks.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::select::{common_dtype, gather, select};
use crate::shape::{self, Strided};
use infc_tensor::Tensor;

pub(crate) fn identity(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(call.input(0)?.clone())
}

/// `Dropout` as inference computes it: the input itself, and a mask that keeps everything.
///
/// Training mode draws random numbers and is refused, unless it drops nothing.
pub(crate) fn dropout(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let training = match call.optional(2) {
        Some(mode) if call.opset() >= 12 => mode.to_i64_vec().and_then(|v| v.first().copied()).unwrap_or(0) != 0,
        // Up to opset 6 the attribute `is_test` told; like the opsets between, those are evaluated for inference only.
        _ => false,
    };
    let ratio = call.optional(1).and_then(|t| t.get_f64(0)).unwrap_or(0.5);
    if training && ratio != 0.0 {
        let kept = crate::ops::random::kept_in_training(call, x.len_elems(), ratio)?;
        let scale = 1.0 / (1.0 - ratio);
        let values = crate::numeric::read_as_f64(x)?;
        let scaled = values.into_iter().zip(&kept).map(|(v, &kept)| if kept { v * scale } else { 0.0 });
        let scaled = crate::numeric::write_f64_as(x.dtype(), x.shape(), scaled)?;
        return Ok(vec![scaled, crate::numeric::write_bools(x.shape(), kept.into_iter())?]);
    }
    // The mask had the type of the data before it became bool.
    let mask = if call.opset() < 10 {
        crate::numeric::write_f64_as(x.dtype(), x.shape(), std::iter::repeat(1.0))?
    } else {
        crate::numeric::write_bools(x.shape(), std::iter::repeat(true))?
    };
    Ok(vec![x.clone(), mask])
}

/// `Reshape`: 0 keeps an extent (unless `allowzero`), -1 is inferred.
pub(crate) fn reshape(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let target =
        call.ints_or_input("shape", 1, 5)?.ok_or(EvalError::InvalidInput { index: 1, reason: "a shape is needed" })?;
    let keep_zero = call.flag("allowzero", false)?;
    one(x.reshaped(&reshape_target(x.shape(), &target, keep_zero)?)?)
}

fn reshape_target(from: &[usize], target: &[i64], keep_zero: bool) -> Result<Vec<usize>> {
    let bad = |reason| EvalError::InvalidInput { index: 1, reason };
    let mut inferred = None;
    let mut out = Vec::with_capacity(target.len());
    for (axis, &dim) in target.iter().enumerate() {
        out.push(match dim {
            -1 if inferred.replace(axis).is_some() => return Err(bad("-1 may stand only once")),
            -1 => 1,
            0 if !keep_zero => *from.get(axis).ok_or(bad("0 stands where the input has no axis"))?,
            _ => usize::try_from(dim).map_err(|_| EvalError::NegativeExtent { extent: dim })?,
        });
    }
    if let Some(axis) = inferred {
        let (all, known) = (shape::len(from), shape::len(&out));
        if known == 0 || all % known != 0 {
            return Err(bad("-1 cannot be inferred"));
        }
        out[axis] = all / known;
    }
    Ok(out)
}

pub(crate) fn flatten(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = call.int("axis", 1)?;
    let axis = if axis == x.rank() as i64 { x.rank() } else { shape::axis(axis, x.rank())? };
    one(x.reshaped(&[shape::len(&x.shape()[..axis]), shape::len(&x.shape()[axis..])])?)
}

pub(crate) fn squeeze(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let drop = match call.ints_or_input("axes", 1, 13)? {
        Some(axes) => shape::axes(&axes, x.rank())?,
        None => (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect(),
    };
    if drop.iter().any(|&axis| x.shape()[axis] != 1) {
        return Err(EvalError::InvalidInput { index: 1, reason: "only axes of length 1 can be squeezed" });
    }
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !drop.contains(axis)).map(|axis| x.shape()[axis]).collect();
    one(x.reshaped(&kept)?)
}

pub(crate) fn unsqueeze(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes =
        call.ints_or_input("axes", 1, 13)?.ok_or(EvalError::InvalidInput { index: 1, reason: "axes are needed" })?;
    let rank = x.rank() + axes.len();
    let inserted = shape::axes(&axes, rank)?;
    let mut own = x.shape().iter();
    let out: Vec<usize> =
        (0..rank).map(|axis| if inserted.contains(&axis) { 1 } else { own.next().copied().unwrap_or(1) }).collect();
    one(x.reshaped(&out)?)
}

pub(crate) fn transpose(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let permutation = match call.ints("perm")? {
        Some(list) => shape::axes(list, x.rank())?,
        None => (0..x.rank()).rev().collect(),
    };
    if permutation.len() != x.rank() {
        return Err(EvalError::InvalidAttribute { name: "perm", reason: "it must name every axis" });
    }
    one(permute(x, &permutation)?)
}

/// `tensor` with axis `i` of the result being its axis `permutation[i]`.
pub(crate) fn permute(tensor: &Tensor, permutation: &[usize]) -> Result<Tensor> {
    let strides = shape::strides(tensor.shape());
    let out: Vec<usize> = permutation.iter().map(|&axis| tensor.shape()[axis]).collect();
    let moved = permutation.iter().map(|&axis| strides[axis]).collect();
    gather(tensor, &out, Strided::new(&out, moved, 0))
}

pub(crate) fn expand(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let target = call.int_list(1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    let out = shape::broadcast(&[x.shape(), &shape::dims(&target)?])?;
    one(gather(x, &out, Strided::broadcast(x.shape(), &out))?)
}

/// `Tile`: repeats along every axis, or before opset 6 along one.
pub(crate) fn tile(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let repeats = if call.opset() < 6 {
        let times = call.int_scalar(1)?.ok_or(EvalError::MissingInput { index: 1 })?;
        let axis = shape::axis(call.int_scalar(2)?.ok_or(EvalError::MissingInput { index: 2 })?, x.rank())?;
        (0..x.rank()).map(|a| if a == axis { times } else { 1 }).collect()
    } else {
        call.int_list(1)?.ok_or(EvalError::MissingInput { index: 1 })?
    };
    if repeats.len() != x.rank() {
        return Err(EvalError::InvalidInput { index: 1, reason: "one repeat per axis is needed" });
    }
    let repeats = shape::dims(&repeats)?;
    // A view of shape [r0, d0, r1, d1, …] that does not move along the repeats.
    let view: Vec<usize> = repeats.iter().zip(x.shape()).flat_map(|(&r, &d)| [r, d]).collect();
    let strides = shape::strides(x.shape()).into_iter().flat_map(|s| [0, s]).collect();
    let out: Vec<usize> = repeats.iter().zip(x.shape()).map(|(&r, &d)| r.saturating_mul(d)).collect();
    one(gather(x, &out, Strided::new(&view, strides, 0))?)
}

pub(crate) fn concat(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let tensors = call.variadic()?;
    // Axis 1 was the default before opset 4, and there was none since.
    let axis = if call.opset() < 4 { call.int("axis", 1)? } else { call.required_int("axis")? };
    one(concatenate(&tensors, axis)?)
}

/// All `tensors`, which agree in every other axis, one after another along `axis`.
pub(crate) fn concatenate(tensors: &[&Tensor], axis: i64) -> Result<Tensor> {
    common_dtype(tensors)?;
    let first = tensors[0];
    let axis = shape::axis(axis, first.rank())?;
    let mut out = first.shape().to_vec();
    for tensor in &tensors[1..] {
        let fits = tensor.rank() == first.rank()
            && (0..first.rank()).all(|a| a == axis || tensor.shape()[a] == first.shape()[a]);
        if !fits {
            return Err(EvalError::ShapeMismatch {
                left: first.shape().to_vec(),
                right: tensor.shape().to_vec(),
                reason: "they differ beside the axis of concatenation",
            });
        }
        out[axis] = out[axis].saturating_add(tensor.shape()[axis]);
    }
    let (outer, _, inner) = shape::around(&out, axis);
    let picks = (0..outer).flat_map(move |o| {
        tensors.iter().enumerate().flat_map(move |(source, tensor)| {
            let run = tensor.shape()[axis] * inner;
            (0..run).map(move |i| (source, o * run + i))
        })
    });
    select(tensors, &out, picks)
}

/// `Split`: into given lengths, or into equal ones, the last being shorter if it must.
pub(crate) fn split(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    let len = x.shape()[axis];
    // In opset 1 the lengths could be an attribute or the second input.
    let given = match call.ints_or_input("split", 1, 13)? {
        None if call.opset() < 2 => call.int_list(1)?,
        given => given,
    };
    let lengths = match given {
        Some(given) => shape::dims(&given)?,
        None => {
            let parts = match usize::try_from(call.int("num_outputs", call.node.num_outputs as i64)?) {
                // Every part comes back as a tensor, so there are no more of them than the node has outputs.
                Ok(parts) if parts > 0 && parts <= call.node.num_outputs.max(1) => parts,
                _ => {
                    return Err(EvalError::InvalidAttribute {
                        name: "num_outputs",
                        reason: "it must count the outputs",
                    });
                }
            };
            let part = len.div_ceil(parts);
            (0..parts).map(|i| part.min(len.saturating_sub(i * part))).collect()
        }
    };
    if lengths.iter().try_fold(0usize, |sum, &l| sum.checked_add(l)) != Some(len) {
        return Err(EvalError::InvalidInput { index: 1, reason: "the lengths must sum to that of the axis" });
    }
    cut(x, axis, &lengths)
}

/// Parts of these lengths, one after another along `axis`; the lengths sum to that of the axis.
pub(crate) fn cut(x: &Tensor, axis: usize, lengths: &[usize]) -> Result<Vec<Tensor>> {
    let strides = shape::strides(x.shape());
    let mut start = 0usize;
    lengths
        .iter()
        .map(|&length| {
            let mut out = x.shape().to_vec();
            out[axis] = length;
            let part =
                gather(x, &out, Strided::new(&out, strides.clone(), start.wrapping_mul(strides[axis] as usize)))?;
            start += length;
            Ok(part)
        })
        .collect()
}

/// The batch, channel, height and width of an image tensor, and a block size.
fn image_and_block(call: &Call<'_>) -> Result<([usize; 4], usize)> {
    let x = call.input(0)?;
    let &[n, c, h, w] = x.shape() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a tensor of rank 4 is needed" });
    };
    match usize::try_from(call.required_int("blocksize")?) {
        Ok(block) if block > 0 && block < 1 << 16 => Ok(([n, c, h, w], block)),
        _ => Err(EvalError::InvalidAttribute { name: "blocksize", reason: "it must be positive and small" }),
    }
}

/// Views `x` as `view`, permutes that, and gives the result the shape `out`.
fn permute_view(x: &Tensor, view: &[usize], permutation: &[usize], out: &[usize]) -> Result<Vec<Tensor>> {
    one(permute(&x.reshaped(view)?, permutation)?.reshaped(out)?)
}

pub(crate) fn depth_to_space(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let ([n, c, h, w], b) = image_and_block(call)?;
    if c % (b * b) != 0 {
        return Err(EvalError::InvalidAttribute { name: "blocksize", reason: "its square must divide the channels" });
    }
    let depth = c / (b * b);
    let out = [n, depth, h * b, w * b];
    match call.string("mode", "DCR")? {
        "DCR" => permute_view(call.input(0)?, &[n, b, b, depth, h, w], &[0, 3, 4, 1, 5, 2], &out),
        "CRD" => permute_view(call.input(0)?, &[n, depth, b, b, h, w], &[0, 1, 4, 2, 5, 3], &out),
        _ => Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be `DCR` or `CRD`" }),
    }
}

pub(crate) fn space_to_depth(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let ([n, c, h, w], b) = image_and_block(call)?;
    if h % b != 0 || w % b != 0 {
        return Err(EvalError::InvalidAttribute { name: "blocksize", reason: "it must divide height and width" });
    }
    let out = [n, c * b * b, h / b, w / b];
    match call.string("mode", "DCR")? {
        "CRD" => permute_view(call.input(0)?, &[n, c, h / b, b, w / b, b], &[0, 1, 3, 5, 2, 4], &out),
        _ => permute_view(call.input(0)?, &[n, c, h / b, b, w / b, b], &[0, 3, 5, 1, 2, 4], &out),
    }
}

/// `ReverseSequence`: reverses the first `sequence_lens[b]` steps of every batch entry.
pub(crate) fn reverse_sequence(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let lengths = call.int_list(1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    let (batch_axis, time_axis) = (call.int("batch_axis", 1)?, call.int("time_axis", 0)?);
    let (batch_axis, time_axis) = (shape::axis(batch_axis, x.rank())?, shape::axis(time_axis, x.rank())?);
    if batch_axis == time_axis || lengths.len() != x.shape()[batch_axis] {
        return Err(EvalError::InvalidInput { index: 1, reason: "one length per batch entry is needed" });
    }
    let lengths = shape::dims(&lengths)?;
    if lengths.iter().any(|&l| l > x.shape()[time_axis]) {
        return Err(EvalError::InvalidInput { index: 1, reason: "a sequence is longer than the time axis" });
    }
    let strides = shape::strides(x.shape());
    let mut coords = vec![0; x.rank()];
    let indices = (0..x.len_elems()).map(|flat| {
        shape::unravel(flat, x.shape(), &mut coords);
        let length = lengths[coords[batch_axis]];
        if coords[time_axis] < length {
            coords[time_axis] = length - 1 - coords[time_axis];
        }
        shape::ravel(&coords, &strides)
    });
    one(gather(x, x.shape(), indices)?)
}
