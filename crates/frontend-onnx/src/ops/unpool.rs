//! Windows put back: Col2Im, which adds blocks up, and MaxUnpool, which puts maxima where they were.
//!
//! ONNX operators of these names, opset 18 and 9. Both are the transposed movement of a window: an element of the image
//! asks every window that covers it, so nothing is written twice.

use super::Operator;
use super::elementwise::require_float;
use super::pool::{require_channels, window_axes};
use super::reduce::largest_value;
use crate::build::{Result, WindowAxis, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Col2Im", 18, col2im), Operator::new("MaxUnpool", 9, max_unpool)];

/// How many elements of windows, of so many elements each, a position asks: of windows that lie `stride` apart only every
/// `stride`-th element can be at one place.
fn asked<K>(axis: &WindowAxis<K>, block: &Dim) -> Dim {
    if axis.dilation == 1 { block.ceil_div(&Dim::constant(axis.stride)) } else { block.clone() }
}

/// The `n`-th element of a window that position `p` asks.
struct Covering {
    /// Its window.
    window: IndexExpr,
    /// Its place in the window.
    element: IndexExpr,
    /// When there is one.
    valid: Vec<Bound>,
}

fn covering<K>(axis: &WindowAxis<K>, block: &Dim, p: IndexExpr, n: IndexExpr) -> Covering {
    let (p, stride) = (p + axis.begin.clone(), Dim::constant(axis.stride));
    let zero = || Dim::constant(0);
    if axis.dilation == 1 {
        let window = p.floor_div(&stride) - n.clone();
        let element = p.modulo(&stride) + n.scale(axis.stride);
        let mut valid = vec![Bound { expr: window.clone(), lo: zero(), hi: axis.count.clone() }];
        if !block.modulo(&stride).is_const(0) {
            valid.push(Bound { expr: element.clone(), lo: zero(), hi: block.clone() });
        }
        return Covering { window, element, valid };
    }
    let from_first = p - n.scale(axis.dilation);
    let window = from_first.floor_div(&stride);
    let mut valid = vec![Bound { expr: window.clone(), lo: zero(), hi: axis.count.clone() }];
    if axis.stride > 1 {
        valid.push(Bound { expr: from_first.modulo(&stride), lo: zero(), hi: Dim::constant(1) });
    }
    Covering { window, element: n, valid }
}

/// `y[n, c, p…] = Σ x[n, (c, r…), (q…)]` over the elements `r` of windows `q` that lie at `p`.
fn col2im(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let (image, block) = (call.dims(1, "the shape of the image")?, call.sizes(2, "the shape of a block")?);
    let rank = image.len();
    if block.len() != rank || x.rank() != 3 {
        return Err(mismatch("blocks [N, C·r…, q…] with as many axes as the image", x.shape()));
    }
    let mut axes = window_axes(call, &image, &block, false)?;
    let build = &mut *call.build;
    for axis in &mut axes {
        axis.count = build.short_extent("the number of blocks", &axis.count);
    }
    // What is made of several numbers of a run stays short.
    let size = build.short_extent("the elements of a block", &product(&block)?);
    let channels = build.short_extent("the channels", &x.shape()[1].floor_div(&size));
    let counts: Vec<Dim> = axes.iter().map(|a| a.count.clone()).collect();
    build.require_equal("the channels and elements of blocks", &x.shape()[1], &(channels.clone() * size))?;
    build.require_equal("the numbers of blocks", &x.shape()[2], &product(&counts)?)?;
    let batch = x.shape()[0].clone();
    // Over [n, c, p…, r…].
    let asked: Vec<Dim> = axes.iter().zip(&block).map(|(axis, block)| asked(axis, block)).collect();
    let shape: Vec<Dim> = [&batch, &channels].into_iter().chain(&image).chain(&asked).cloned().collect();
    let (mut windows, mut elements, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (axis, block)) in axes.iter().zip(&block).enumerate() {
        let covering = covering(axis, block, var(2 + n), var(2 + rank + n));
        windows.push(covering.window);
        elements.push(covering.element);
        valid.extend(covering.valid);
    }
    let row_major = |first: IndexExpr, extents: &[Dim], at: Vec<IndexExpr>| {
        extents.iter().zip(at).fold(first, |before, (extent, at)| before * extent.clone() + at)
    };
    let channel = row_major(var(1), &block, elements);
    let window = row_major(IndexExpr::constant(0), &counts, windows);
    let map = AccessMap { rank: shape.len(), index: vec![var(0), channel, window], valid };
    let spread = build.view_or(&x, map, shape, Const::zero(x.dtype()))?;
    let wide = compute_type(x.dtype());
    let folded: Vec<usize> = (2 + rank..2 + 2 * rank).collect();
    let sum = build.reduce(&[&spread], &folded, Reducer::sum(wide), |body, p| vec![body.cast(wide, p[0])])?;
    Ok(vec![build.cast(&sum[0], x.dtype())?])
}

/// Each element of the result is the maximum of a window over it that says so, else zero.
///
/// Indices count the elements of the result whose shape follows from the windows; a given shape adds zeros behind it.
/// They are those that MaxPool gives: within their own window.
fn max_unpool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    require_channels(&x)?;
    require_float(&x)?;
    if indices.dtype() != DType::I64 {
        return Err(Problem::UnsupportedType { expected: "i64 indices", found: indices.dtype() });
    }
    let kernel = call.ints("kernel_shape")?.unwrap_or_default().to_vec();
    let given = call.optional_dims(2, "the shape of the result")?;
    let rank = x.rank() - 2;
    let axes = unpooled_axes(call, &x.shape()[2..], &kernel)?;
    let build = &mut *call.build;
    if indices.rank() != x.rank() {
        return Err(mismatch(format!("{} axes of indices", x.rank()), indices.shape()));
    }
    for (mine, theirs) in x.shape().iter().zip(indices.shape()) {
        build.require_equal("the extents of maxima and indices", mine, theirs)?;
    }
    let lead = [x.shape()[0].clone(), x.shape()[1].clone()];
    let inferred: Vec<Dim> = lead.iter().chain(axes.iter().map(|a| &a.extent)).cloned().collect();
    let mut shape = inferred.clone();
    let kernel: Vec<Dim> = kernel.iter().copied().map(Dim::constant).collect();
    shape.extend(axes.iter().zip(&kernel).map(|(axis, kernel)| asked(axis, kernel)));
    let (mut index_map, mut valid) = (vec![var(0), var(1)], Vec::new());
    for (n, (axis, kernel)) in axes.iter().zip(&kernel).enumerate() {
        let covering = covering(axis, kernel, var(2 + n), var(2 + rank + n));
        index_map.push(covering.window);
        valid.extend(covering.valid);
    }
    let map = AccessMap { rank: shape.len(), index: index_map, valid };
    let values = build.view_or(&x, map.clone(), shape.clone(), Const::zero(x.dtype()))?;
    let places = build.view_or(&indices, map, shape, largest_value(DType::I64))?;
    let mut here = IndexExpr::constant(0);
    for (n, extent) in inferred.iter().enumerate() {
        here = here * extent.clone() + var(n);
    }
    let dtype = x.dtype();
    let folded: Vec<usize> = (2 + rank..2 + 2 * rank).collect();
    let found = if folded.is_empty() {
        values
    } else {
        let found = build.reduce(&[&values, &places], &folded, chosen(dtype), |body, p| {
            let place = index(body, here);
            let is_here = body.compare(CompareOp::Eq, p[1], place);
            vec![p[0], is_here]
        })?;
        let zero = build.scalar(dtype, 0.0);
        build.map(&[&found[1], &found[0], &zero], |body, p| body.select(p[0], p[1], p[2]))?
    };
    let Some(given) = given else { return Ok(vec![found]) };
    if given.len() != inferred.len() {
        return Err(mismatch(format!("a shape of {} axes", inferred.len()), &given));
    }
    let valid =
        inferred.iter().enumerate().map(|(n, d)| Bound { expr: var(n), lo: Dim::constant(0), hi: d.clone() }).collect();
    let map = AccessMap { rank: given.len(), index: (0..given.len()).map(var).collect(), valid };
    Ok(vec![build.view_or(&found, map, given, Const::zero(dtype))?])
}

/// A value that is chosen over those that are not.
fn chosen(dtype: DType) -> Reducer {
    let mut combine = Body::default();
    let (value, is_chosen) = (combine.param(0, dtype), combine.param(1, DType::Bool));
    let (new_value, is_new) = (combine.param(2, dtype), combine.param(3, DType::Bool));
    let results = vec![combine.select(is_new, new_value, value), combine.binary(BinaryOp::Or, is_chosen, is_new)];
    Reducer { init: vec![Const::zero(dtype), Const::zero(DType::Bool)], combine, results }
}

/// The axes of the image whose windows have these counts.
fn unpooled_axes(call: &mut Call<'_>, counts: &[Dim], kernel: &[i64]) -> Result<Vec<WindowAxis>> {
    // The attributes are read for axes that any window fits into; the extents follow from them.
    let axes = window_axes(call, &vec![Dim::constant(1 << 40); counts.len()], kernel, false)?;
    Ok(axes
        .into_iter()
        .zip(counts)
        .map(|(axis, count)| {
            let extent = (count.clone() - 1).scale(axis.stride) + axis.kernel - axis.begin.clone() - axis.end.clone();
            WindowAxis { extent, count: count.clone(), ..axis }
        })
        .collect())
}
