//! Convolutions: contractions over a window view.
//!
//! One form for any number of spatial axes, groups, strides, dilations and paddings. With one group there is no group
//! label, with one channel per group no channel label, and windows of one element have no axis, so that a 1×1
//! convolution is a plain matrix product and a depthwise one has a single channel axis.

mod transposed;

use super::Operator;
use super::elementwise::require_float;
use super::pool::{require_channels, window_axes};
use crate::build::{Result, Window, WindowAxis, compute_type, mismatch, show, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Const};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Conv", 1, conv), Operator::new("ConvTranspose", 1, transposed::conv_transpose)];

/// The channels of a grouped convolution.
pub(super) struct Channels {
    pub(super) group: i64,
    /// Input channels of one group.
    pub(super) inputs: Dim,
    /// Output channels of one group.
    pub(super) outputs: Dim,
}

impl Channels {
    /// From the extents that the weights give: input channels per group (or in all), and output channels in all (or
    /// per group).
    pub(super) fn new(call: &mut Call<'_>, x: &Tracked, inputs: &Dim, outputs: &Dim) -> Result<Self> {
        let group = call.int_or("group", 1)?;
        if !(1..1 << 31).contains(&group) {
            let found = group.to_string();
            return Err(Problem::InvalidAttribute { attribute: "group", expected: "a positive number", found });
        }
        call.build.require_equal("the channels of input and weights", &x.shape()[1], &inputs.scale(group))?;
        Ok(Self { group, inputs: inputs.clone(), outputs: outputs.clone() })
    }

    /// From weights that have all output channels along their first axis, of which each group has as many.
    pub(super) fn shared(call: &mut Call<'_>, x: &Tracked, weights: &Tracked) -> Result<Self> {
        let all = &weights.shape()[0];
        let channels = Self::new(call, x, &weights.shape()[1], all)?;
        let outputs = all.floor_div(&Dim::constant(channels.group)).simplify(&call.build.ranges());
        call.build.require_equal("output channels and those that groups share", all, &outputs.scale(channels.group))?;
        Ok(Self { outputs, ..channels })
    }

    /// The axes of the input after the batch: `[g, cg]` without those of extent 1 (one remains).
    fn split(&self, per_group: &Dim) -> Vec<Dim> {
        let group = Dim::constant(self.group);
        match self.group {
            1 => vec![per_group.clone()],
            _ if per_group.is_const(1) => vec![group],
            _ => vec![group, per_group.clone()],
        }
    }
}

/// Numbers labels in the order they are asked for.
#[derive(Default)]
struct Labels(u8);

impl Labels {
    fn next(&mut self) -> u8 {
        self.0 += 1;
        self.0 - 1
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// The extents of the window, which the weights have, and the attribute if it is there.
pub(super) fn kernel_shape(call: &mut Call<'_>, weights: &Tracked) -> Result<Vec<Dim>> {
    let found = &weights.shape()[2..];
    let Some(kernel) = call.ints("kernel_shape")? else { return Ok(found.to_vec()) };
    let kernel: Vec<Dim> = kernel.iter().map(|&extent| Dim::constant(extent)).collect();
    let differs = |(a, b): (&Dim, &Dim)| a.as_const().is_some_and(|a| b.as_const() != Some(a));
    if kernel.len() != found.len() || found.iter().zip(&kernel).any(differs) {
        return Err(mismatch(format!("weights with a window of [{}]", show(&kernel)), weights.shape()));
    }
    for (found, extent) in found.iter().zip(&kernel) {
        call.build.require_equal("the window of weights and attributes", found, extent)?;
    }
    Ok(kernel)
}

pub(super) fn require_same_rank(x: &Tracked, weights: &Tracked) -> Result<()> {
    require_channels(x)?;
    if x.rank() == weights.rank() {
        return Ok(());
    }
    Err(Problem::ShapeMismatch {
        expected: format!("weights with {} axes", x.rank()),
        found: format!("{} axes", weights.rank()),
    })
}

/// `y[n, g·m, p…] = Σ x[n, g·c, p·stride + r·dilation − begin] · w[g·m, c, r…] (+ b[g·m])`
pub(super) fn conv(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, weights) = (call.input(0)?, call.input(1)?);
    require_float(&x)?;
    if x.dtype() != weights.dtype() {
        return Err(Problem::TypeMismatch { left: x.dtype(), right: weights.dtype() });
    }
    let wide = compute_type(x.dtype());
    let (wide_x, weights) = (call.build.cast(&x, wide)?, call.build.cast(&weights, wide)?);
    let product = convolve(call, &wide_x, &weights, wide)?;
    let product = call.build.cast(&product, x.dtype())?;
    Ok(vec![add_bias(call, &product, 2)?])
}

/// The sums of a convolution in the given type; the operands may have others. The padding is zero.
pub(super) fn convolve(call: &mut Call<'_>, x: &Tracked, weights: &Tracked, dtype: DType) -> Result<Tracked> {
    require_same_rank(x, weights)?;
    let kernel = kernel_shape(call, weights)?;
    let axes = window_axes(call, &x.shape()[2..], &kernel, false)?;
    let channels = Channels::shared(call, x, weights)?;

    let mut lead = vec![x.shape()[0].clone()];
    let split = channels.split(&channels.inputs);
    let channel = if split.len() == 1 { var(1) } else { var(1) * channels.inputs.clone() + var(2) };
    lead.extend(split);
    let window = Window { lead, lead_index: vec![var(0), channel], axes: &axes, padding: Const::zero(x.dtype()) };
    let kernel_axes: Vec<usize> = window.kernel_axes().collect();
    let windows = call.build.window(x, &window)?;

    let grouped = channels.group > 1;
    let many_outputs = !grouped || !channels.outputs.is_const(1);
    let many_inputs = !grouped || !channels.inputs.is_const(1);
    let shape = [grouped.then(|| Dim::constant(channels.group)), many_outputs.then(|| channels.outputs.clone())];
    let shape = shape.into_iter().chain([many_inputs.then(|| channels.inputs.clone())]).flatten();
    let shape: Vec<Dim> = shape.chain(kernel_axes.iter().map(|&n| kernel[n].clone())).collect();
    let weights = call.build.reshape(weights, &shape)?;

    let mut labels = Labels::default();
    let n = labels.next();
    let g = grouped.then(|| labels.next());
    let m = many_outputs.then(|| labels.next());
    let c = many_inputs.then(|| labels.next());
    let r = labels.take(kernel_axes.len());
    let p = labels.take(axes.len());
    let lhs: Vec<u8> = [n].into_iter().chain(g).chain(c).chain(r.iter().copied()).chain(p.iter().copied()).collect();
    let rhs: Vec<u8> = g.into_iter().chain(m).chain(c).chain(r).collect();
    let output: Vec<u8> = [n].into_iter().chain(g).chain(m).chain(p).collect();
    let product = call.build.contract_in(dtype, (&windows, &lhs), (&weights, &rhs), &output)?;
    merge_channels(call, x, &product, channels.outputs.scale(channels.group), &axes)
}

/// Merges the group and output channel axes.
fn merge_channels<K>(
    call: &mut Call<'_>,
    x: &Tracked,
    product: &Tracked,
    channels: Dim,
    axes: &[WindowAxis<K>],
) -> Result<Tracked> {
    let mut shape = vec![x.shape()[0].clone(), channels];
    shape.extend(axes.iter().map(|a| a.count.clone()));
    call.build.reshape(product, &shape)
}

/// Adds the optional input `index`, one number per channel.
pub(super) fn add_bias(call: &mut Call<'_>, product: &Tracked, index: usize) -> Result<Tracked> {
    let Some(bias) = call.optional(index) else { return Ok(product.clone()) };
    let channels = &product.shape()[1];
    if bias.rank() != 1 {
        return Err(mismatch(format!("a bias for {channels} channels"), bias.shape()));
    }
    call.build.require_equal("the channels of a bias and of what it is added to", &bias.shape()[0], channels)?;
    let bias = call.build.along_axis(&bias, 1, product.rank())?;
    call.build.compute(&[product, &bias], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))
}
