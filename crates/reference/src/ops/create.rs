//! Tensors made from shapes and scalars: `Constant`, `Shape`, `Range`, `EyeLike`, `OneHot`, windows, …

use crate::Attribute;
use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::{MAX_OUTPUT_ELEMS, checked_len};
use crate::numeric::{Scalar, read_as_f64, write_f64_as, write_i64s};
use crate::select::{gather, select};
use crate::shape;
use infc_tensor::{DType, Tensor};

pub(crate) fn constant(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let mut values = call.node.attributes.iter().filter(|(name, _)| name.starts_with("value"));
    let (Some((name, value)), None) = (values.next(), values.next()) else {
        return Err(EvalError::InvalidAttribute { name: "value", reason: "exactly one value is needed" });
    };
    one(match (name, value) {
        ("value", Attribute::Tensor(tensor)) => tensor.clone(),
        ("value_int", Attribute::Int(v)) => Tensor::scalar(*v),
        ("value_float", Attribute::Float(v)) => Tensor::scalar(*v),
        ("value_string", Attribute::String(v)) => Tensor::from_strings(&[], vec![v.clone()])?,
        ("value_ints", Attribute::Ints(v)) => Tensor::from_elements(&[v.len()], v)?,
        ("value_floats", Attribute::Floats(v)) => Tensor::from_elements(&[v.len()], v)?,
        ("value_strings", Attribute::Strings(v)) => Tensor::from_strings(&[v.len()], v.clone())?,
        _ => return Err(EvalError::InvalidAttribute { name: "value", reason: "it is of no kind that Constant knows" }),
    })
}

pub(crate) fn constant_of_shape(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dims = shape::dims(&int_list(call.input(0)?, 0)?)?;
    let zero = Tensor::scalar(0f32);
    let value = call.node.attributes.tensor("value")?.unwrap_or(&zero);
    if value.len_elems() != 1 {
        return Err(EvalError::InvalidAttribute { name: "value", reason: "one element is needed" });
    }
    one(gather(value, &dims, std::iter::repeat_n(0, checked_len(value.dtype(), &dims)?))?)
}

/// `Shape`: the extents, since opset 15 only those from `start` to `end`.
pub(crate) fn shape_of(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let bound = |name, default| -> Result<usize> {
        let bound = call.int(name, default)?;
        let from_front = if bound < 0 { bound.saturating_add(rank) } else { bound };
        Ok(from_front.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let dims: Vec<i64> = x.shape().get(start..end).unwrap_or(&[]).iter().map(|&d| d as i64).collect();
    one(write_i64s(&[dims.len()], &dims)?)
}

pub(crate) fn size(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(Tensor::scalar(call.input(0)?.len_elems() as i64))
}

/// `Range`: `start + i · delta` for as long as that lies before `limit`.
pub(crate) fn range(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    let scalar = |index: usize| -> Result<&Tensor> {
        match call.input(index)? {
            t if t.len_elems() != 1 => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
            t if t.dtype() != dtype => Err(EvalError::TypeMismatch { left: dtype, right: t.dtype() }),
            t => Ok(t),
        }
    };
    let (start, limit, delta) = (scalar(0)?, scalar(1)?, scalar(2)?);
    let too_large = || EvalError::TooLarge { dtype, shape: vec![MAX_OUTPUT_ELEMS + 1] };
    if dtype.is_float() {
        let [start, limit, delta] = [f64::read(start)?[0], f64::read(limit)?[0], f64::read(delta)?[0]];
        let count = ((limit - start) / delta).ceil();
        if count.is_nan() {
            return Err(EvalError::InvalidInput { index: 2, reason: "the range has no length" });
        }
        if count > MAX_OUTPUT_ELEMS as f64 {
            return Err(too_large());
        }
        let count = count.max(0.0) as usize;
        return one(f64::write(dtype, &[count], (0..count).map(|i| start + i as f64 * delta))?);
    }
    let [start, limit, delta] = [i128::read(start)?[0], i128::read(limit)?[0], i128::read(delta)?[0]];
    if delta == 0 {
        return Err(EvalError::InvalidInput { index: 2, reason: "the step is zero" });
    }
    // Divide rounding up; start, limit and delta have at most 65 bits.
    let distance = limit - start;
    let count = (distance / delta + i128::from(distance % delta != 0 && (distance < 0) == (delta < 0))).max(0);
    let count = usize::try_from(count).map_err(|_| too_large())?;
    one(i128::write(dtype, &[count], (0..count as i128).map(|i| start + i * delta))?)
}

pub(crate) fn eye_like(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let &[rows, columns] = x.shape() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a matrix is needed" });
    };
    let dtype = call.dtype("dtype")?.unwrap_or(x.dtype());
    let k = i128::from(call.int("k", 0)?);
    let len = checked_len(dtype, &[rows, columns])?;
    let values = (0..len).map(|flat| {
        let (row, column) = ((flat / columns) as i128, (flat % columns) as i128);
        if column - row == k { 1.0 } else { 0.0 }
    });
    one(write_f64_as(dtype, &[rows, columns], values)?)
}

/// `OneHot`: the second of `values` where the new axis' coordinate is the index, else the first.
pub(crate) fn one_hot(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (indices, depth, values) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let depth = match read_as_f64(depth)?[..] {
        [depth] if depth >= 0.0 && depth <= MAX_OUTPUT_ELEMS as f64 => depth as usize,
        _ => return Err(EvalError::InvalidInput { index: 1, reason: "a depth is needed" }),
    };
    if values.len_elems() != 2 {
        return Err(EvalError::InvalidInput { index: 2, reason: "an off and an on value are needed" });
    }
    let axis = shape::axis(call.int("axis", -1)?, indices.rank() + 1)?;
    let mut out = indices.shape().to_vec();
    out.insert(axis, depth);
    checked_len(values.dtype(), &out)?;
    let inner = shape::len(&indices.shape()[axis..]);
    let indices = read_as_f64(indices)?;
    let picks = (0..shape::len(&out)).map(|flat| {
        let (outer, at, inside) = (flat / inner / depth, flat / inner % depth, flat % inner);
        let index = indices[outer * inner + inside];
        let index = if index < 0.0 { index + depth as f64 } else { index };
        (0, usize::from(index == at as f64))
    });
    one(select(&[values], &out, picks)?)
}

/// `Trilu`: one triangle of every matrix, zeros elsewhere.
pub(crate) fn trilu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let Some(&[rows, columns]) = x.shape().last_chunk::<2>() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a tensor of rank 2 or more is needed" });
    };
    let k = i128::from(call.int_scalar(1)?.unwrap_or(0));
    let upper = call.flag("upper", true)?;
    let zero = Tensor::zeros(x.dtype(), &[])?;
    let picks = (0..x.len_elems()).map(|flat| {
        let (row, column) = ((flat / columns % rows) as i128, (flat % columns) as i128);
        let keep = if upper { column - row >= k } else { column - row <= k };
        if keep { (0, flat) } else { (1, 0) }
    });
    one(select(&[x, &zero], x.shape(), picks)?)
}

/// A window function of `N` samples with the cosine series `Σ c_k · cos(2πkn / M)`.
fn cosine_window(call: &Call<'_>, coefficients: &[f64]) -> Result<Vec<Tensor>> {
    let dtype = call.dtype("output_datatype")?.unwrap_or(DType::F32);
    let count = call.int_scalar(0)?.ok_or(EvalError::MissingInput { index: 0 })?;
    let count = usize::try_from(count).map_err(|_| EvalError::NegativeExtent { extent: count })?;
    let period = if call.flag("periodic", true)? { count as f64 } else { count as f64 - 1.0 };
    checked_len(dtype, &[count])?;
    let values = (0..count).map(|n| {
        let angle = 2.0 * std::f64::consts::PI * n as f64 / period;
        coefficients.iter().enumerate().map(|(k, c)| c * (k as f64 * angle).cos()).sum()
    });
    one(write_f64_as(dtype, &[count], values)?)
}

pub(crate) fn hann_window(call: &Call<'_>) -> Result<Vec<Tensor>> {
    cosine_window(call, &[0.5, -0.5])
}

pub(crate) fn hamming_window(call: &Call<'_>) -> Result<Vec<Tensor>> {
    cosine_window(call, &[25.0 / 46.0, -21.0 / 46.0])
}

pub(crate) fn blackman_window(call: &Call<'_>) -> Result<Vec<Tensor>> {
    cosine_window(call, &[0.42, -0.5, 0.08])
}

/// `Det`: determinants of square matrices, by elimination with partial pivoting.
pub(crate) fn det(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (batch, n) = match x.shape() {
        [batch @ .., rows, columns] if rows == columns => (batch, *rows),
        _ => return Err(EvalError::InvalidInput { index: 0, reason: "square matrices are needed" }),
    };
    crate::limits::check_work(&[shape::len(batch), n, n, n])?;
    let values = f64::read(x)?;
    let dets = (0..shape::len(batch)).map(|b| determinant(values[b * n * n..(b + 1) * n * n].to_vec(), n));
    one(f64::write(x.dtype(), batch, dets)?)
}

fn determinant(mut m: Vec<f64>, n: usize) -> f64 {
    let mut det = 1.0;
    for k in 0..n {
        let pivot = (k..n).max_by(|&a, &b| m[a * n + k].abs().total_cmp(&m[b * n + k].abs())).unwrap_or(k);
        if m[pivot * n + k] == 0.0 {
            return 0.0;
        }
        if pivot != k {
            (0..n).for_each(|j| m.swap(pivot * n + j, k * n + j));
            det = -det;
        }
        det *= m[k * n + k];
        for row in k + 1..n {
            let factor = m[row * n + k] / m[k * n + k];
            (k..n).for_each(|j| m[row * n + j] -= factor * m[k * n + j]);
        }
    }
    det
}
