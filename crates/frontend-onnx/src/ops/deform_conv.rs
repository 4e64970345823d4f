//! DeformConv: a convolution whose window reads at positions that are computed.
//!
//! ONNX operator `DeformConv`, opset 19 and later: each element of a window is moved by its own offsets, shared by the
//! channels of an offset group, and maybe scaled by a mask; between elements the image is interpolated linearly, outside
//! it is zero. What is read is a weighted sum of rows ([`super::sample`]); the rest is a contraction, as in [`super::conv`].

use super::Operator;
use super::conv::{Channels, add_bias, kernel_shape, require_same_rank};
use super::elementwise::require_float;
use super::pool::window_axes;
use super::sample::{Axis, Interpolation, Outside, Taps, taps, weighted_sum};
use crate::build::{Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::BinaryOp;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("DeformConv", 19, deform_conv)];

/// `y[n, g·m, o…] = Σ x[n, g·c, at(n, c, r…, o…)] · mask · w[g·m, c, r…] (+ b[g·m])`
fn deform_conv(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, weights, offset, mask) = (call.input(0)?, call.input(1)?, call.input(2)?, call.optional(4));
    require_float(&x)?;
    require_same_rank(&x, &weights)?;
    if x.rank() < 3 {
        return Err(mismatch("a batch, channels and an image", x.shape()));
    }
    let dtype = x.dtype();
    let wide = compute_type(dtype);
    let kernel = kernel_shape(call, &weights)?;
    let spatial = x.shape()[2..].to_vec();
    let windows = window_axes(call, &spatial, &kernel, false)?;
    let channels = Channels::shared(call, &x, &weights)?;
    let offset_groups = call.int_or("offset_group", 1)?;
    let all = channels.inputs.scale(channels.group);
    if offset_groups < 1 || all.as_const().is_some_and(|all| all % offset_groups != 0) {
        let found = offset_groups.to_string();
        let expected = "a divisor of the number of channels";
        return Err(Problem::InvalidAttribute { attribute: "offset_group", expected, found });
    }
    let per_group = all.floor_div(&Dim::constant(offset_groups));
    call.build.require_equal("channels and those that offsets share", &all, &per_group.scale(offset_groups))?;

    // Over [n, offset group, r…, o…].
    let count = spatial.len();
    let outputs: Vec<Dim> = windows.iter().map(|w| w.count.clone()).collect();
    let groups = Dim::constant(offset_groups);
    let batch = x.shape()[0].clone();
    let points: Vec<Dim> = [&batch, &groups].into_iter().chain(&kernel).chain(&outputs).cloned().collect();
    let build = &mut *call.build;
    let split: Vec<Dim> = [&batch, &groups]
        .into_iter()
        .chain(&kernel)
        .chain([&Dim::constant(count as i64)])
        .chain(&outputs)
        .cloned()
        .collect();
    let offset = build.cast(&offset, wide)?;
    let offset = build.reshape(&offset, &split)?;
    let mut axes = Vec::new();
    for (n, window) in windows.iter().enumerate() {
        let read: Vec<IndexExpr> = (0..2 + count)
            .map(var)
            .chain([IndexExpr::constant(n as i64)])
            .chain((2 + count..points.len()).map(var))
            .collect();
        let moved = build.view(&offset, read, points.clone())?;
        let start = window.start(var(2 + count + n)) + var(2 + n).scale(window.dilation);
        let at = build.map(&[&moved], |body, p| {
            let start = index(body, start);
            let start = body.cast(wide, start);
            body.binary(BinaryOp::Add, start, p[0])
        })?;
        axes.push(Axis { extent: spatial[n].clone(), stride: product(&spatial[n + 1..])?, at });
    }
    let image = product(&spatial)?;
    let base = (var(0) * groups.clone() + var(1)) * image.clone();
    let Taps { rows, weights: mut shares } = taps(build, &points, &axes, Interpolation::Linear, Outside::Zero, base)?;
    if let Some(mask) = mask {
        let mask = build.reshape(&mask, &points)?;
        let mask = build.view(&mask, (0..points.len()).map(var).collect(), shares.shape().to_vec())?;
        shares = build.map(&[&shares, &mask], |body, p| {
            let mask = body.cast(wide, p[1]);
            body.binary(BinaryOp::Mul, p[0], mask)
        })?;
    }

    // Rows of the channels of an offset group: [n · offset group · d…, c].
    let grouped: Vec<Dim> = [&batch, &groups, &per_group].into_iter().chain(&spatial).cloned().collect();
    let grouped = build.reshape(&x, &grouped)?;
    let order: Vec<usize> = [0, 1].into_iter().chain(3..3 + count).chain([2]).collect();
    let last = build.transpose(&grouped, &order)?;
    let table = build.reshape(&last, &[product(&[batch.clone(), groups, image])?, per_group])?;
    let table = build.cast(&table, wide)?;
    let read = weighted_sum(build, &table, &Taps { rows, weights: shares })?;

    // [n, offset group, r…, o…, c] as [n, g, c, r…, o…].
    let order: Vec<usize> = [0, 1, 2 + 2 * count].into_iter().chain(2..2 + 2 * count).collect();
    let read = build.transpose(&read, &order)?;
    let (g, c, m) = (Dim::constant(channels.group), channels.inputs, channels.outputs);
    let shape: Vec<Dim> = [&batch, &g, &c].into_iter().chain(&kernel).chain(&outputs).cloned().collect();
    let read = build.reshape(&read, &shape)?;
    let weights = build.cast(&weights, wide)?;
    let shape: Vec<Dim> = [&g, &m, &c].into_iter().chain(&kernel).cloned().collect();
    let weights = build.reshape(&weights, &shape)?;
    const N: u8 = 0;
    const G: u8 = 1;
    const C: u8 = 2;
    const M: u8 = 3;
    let r: Vec<u8> = (4..4 + count as u8).collect();
    let o: Vec<u8> = (4 + count as u8..4 + 2 * count as u8).collect();
    let lhs: Vec<u8> = [N, G, C].into_iter().chain(r.clone()).chain(o.clone()).collect();
    let rhs: Vec<u8> = [G, M, C].into_iter().chain(r).collect();
    let output: Vec<u8> = [N, G, M].into_iter().chain(o).collect();
    let y = build.contract((&read, &lhs), (&weights, &rhs), &output)?;
    let shape: Vec<Dim> = [batch, g * m].into_iter().chain(outputs).collect();
    let y = build.reshape(&y, &shape)?;
    let y = call.build.cast(&y, dtype)?;
    Ok(vec![add_bias(call, &y, 3)?])
}
