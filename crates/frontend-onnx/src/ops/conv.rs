//! Convolutions: contractions over a window view.
//!
//! One form for any number of spatial axes, groups, strides, dilations and paddings. With one group there is no group
//! label, with one channel per group no channel label, and windows of one element have no axis, so that a 1×1
//! convolution is a plain matrix product and a depthwise one has a single channel axis.

mod transposed;

use super::Operator;
use super::elementwise::require_float;
use super::pool::{require_channels, window_axes};
use crate::build::{Result, Window, WindowAxis, compute_type, var};
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
    pub(super) inputs: i64,
    /// Output channels of one group.
    pub(super) outputs: i64,
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
        let (Some(inputs), Some(outputs)) = (inputs.as_const(), outputs.as_const()) else {
            return Err(Problem::DynamicValue { what: "the number of channels" });
        };
        call.build.require_equal("the channels of input and weights", &x.shape()[1], &Dim::constant(inputs * group))?;
        Ok(Self { group, inputs, outputs })
    }

    /// The axes of the input after the batch: `[g, cg]` without those of extent 1 (one remains).
    fn split(&self, per_group: i64) -> Vec<i64> {
        match (self.group, per_group) {
            (1, n) => vec![n],
            (g, 1) => vec![g],
            (g, n) => vec![g, n],
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

pub(super) fn kernel_shape(call: &Call<'_>, weights: &Tracked) -> Result<Vec<i64>> {
    let found: Vec<i64> = weights.shape()[2..]
        .iter()
        .map(|d| d.as_const().ok_or(Problem::DynamicValue { what: "the shape of the window" }))
        .collect::<Result<_>>()?;
    match call.ints("kernel_shape")? {
        Some(kernel) if kernel != found => Err(Problem::ShapeMismatch {
            expected: format!("weights with a window of {kernel:?}"),
            found: format!("{found:?}"),
        }),
        _ => Ok(found),
    }
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
    let all_outputs = &weights.shape()[0];
    let mut channels = Channels::new(call, x, &weights.shape()[1], all_outputs)?;
    if channels.outputs % channels.group != 0 {
        return Err(Problem::ShapeMismatch {
            expected: format!("output channels that {} groups share", channels.group),
            found: channels.outputs.to_string(),
        });
    }
    channels.outputs /= channels.group;

    let mut lead = vec![x.shape()[0].clone()];
    lead.extend(channels.split(channels.inputs).into_iter().map(Dim::constant));
    let channel = match channels.split(channels.inputs).len() {
        1 => var(1),
        _ => var(1).scale(channels.inputs) + var(2),
    };
    let window = Window { lead, lead_index: vec![var(0), channel], axes: &axes, padding: Const::zero(x.dtype()) };
    let kernel_axes: Vec<usize> = window.kernel_axes().collect();
    let windows = call.build.window(x, &window)?;

    let mut shape: Vec<i64> = Vec::new();
    let grouped = channels.group > 1;
    if grouped {
        shape.push(channels.group);
    }
    let many_outputs = !grouped || channels.outputs > 1;
    if many_outputs {
        shape.push(channels.outputs);
    }
    let many_inputs = !grouped || channels.inputs > 1;
    if many_inputs {
        shape.push(channels.inputs);
    }
    shape.extend(kernel_axes.iter().map(|&n| kernel[n]));
    let shape: Vec<Dim> = shape.into_iter().map(Dim::constant).collect();
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
    merge_channels(call, x, &product, channels.group * channels.outputs, &axes)
}

/// Merges the group and output channel axes.
fn merge_channels(
    call: &mut Call<'_>,
    x: &Tracked,
    product: &Tracked,
    channels: i64,
    axes: &[WindowAxis],
) -> Result<Tracked> {
    let mut shape = vec![x.shape()[0].clone(), Dim::constant(channels)];
    shape.extend(axes.iter().map(|a| a.count.clone()));
    call.build.reshape(product, &shape)
}

/// Adds the optional input `index`, one number per channel.
pub(super) fn add_bias(call: &mut Call<'_>, product: &Tracked, index: usize) -> Result<Tracked> {
    let Some(bias) = call.optional(index) else { return Ok(product.clone()) };
    let channels = &product.shape()[1];
    if bias.rank() != 1 || bias.shape()[0] != *channels {
        return Err(Problem::ShapeMismatch {
            expected: format!("a bias for {channels} channels"),
            found: format!("shape {:?}", bias.shape()),
        });
    }
    let bias = call.build.along_axis(&bias, 1, product.rank())?;
    call.build.compute(&[product, &bias], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))
}
