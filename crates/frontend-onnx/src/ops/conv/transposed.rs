//! Transposed convolutions, as convolutions of stride 1: one per phase of the stride.

use super::{Channels, Labels, add_bias, kernel_shape, require_same_rank};
use crate::build::{Builder, Result, WindowAxis, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::elementwise::require_float;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::Const;

/// `y[n, g·m, q…] = Σ x[n, g·c, p…] · w[g·c, m, r…]` over the `p` and `r` with `q = p·stride + r·dilation − begin`.
///
/// Positions of one phase, `q = u·stride + φ`, meet the same taps, so the phases are convolutions of stride 1 over the
/// input with every so many-th tap each; none multiplies by the zeros between the elements.
pub(super) fn conv_transpose(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, weights) = (call.input(0)?, call.input(1)?);
    require_float(&x)?;
    require_same_rank(&x, &weights)?;
    let kernel = kernel_shape(call, &weights)?;
    let axes = transposed_axes(call, &x.shape()[2..], &kernel)?;
    let group = call.int_or("group", 1)?.max(1);
    let all = &weights.shape()[0];
    let inputs = all.floor_div(&Dim::constant(group)).simplify(&call.build.ranges());
    call.build.require_equal("input channels and those that groups share", all, &inputs.scale(group))?;
    let channels = Channels::new(call, &x, &inputs, &weights.shape()[1])?;
    let sums = Sums { axes: &axes, channels: &channels };
    let all: Vec<Phases> = axes.iter().map(Phases::new).collect();
    let mut product = match apart(&axes, &all) {
        Some(each) => sums.apart(call.build, &x, &weights, &each)?,
        None => sums.of(call.build, &x, &weights, &all)?,
    };
    for (n, axis) in axes.iter().enumerate() {
        product = call.build.slice_axis(&product, 2 + n, Dim::constant(0), axis.count.clone())?;
    }
    Ok(vec![add_bias(call, &product, 2)?])
}

/// More phases than these are not computed each by itself, as each is a kernel of its own. With so many it was still quicker in all
/// cases measured (docs/perf-log.md, "long kernels").
const MOST_APART: i64 = 64;

/// The phases along each axis, each by itself, if there are few and some have several taps. All in one product would read copies
/// of the image, one per tap and phase, and multiply by zeros where some have fewer taps than others.
fn apart(axes: &[WindowAxis<Dim>], all: &[Phases]) -> Option<Vec<Vec<Phases>>> {
    let count: i64 = all.iter().map(|phases| phases.count).fold(1, i64::saturating_mul);
    if count == 1 || count > MOST_APART || all.iter().all(|phases| phases.taps.is_const(1)) {
        return None;
    }
    let along = |(axis, all): (&WindowAxis<Dim>, &Phases)| (0..all.count).map(|phase| all.only(axis, phase)).collect();
    axes.iter().zip(all).map(along).collect()
}

/// The products of a transposed convolution.
struct Sums<'a> {
    axes: &'a [WindowAxis<Dim>],
    channels: &'a Channels,
}

impl Sums<'_> {
    /// How many positions have the same phase, along an axis.
    fn positions(&self, n: usize, stride: i64) -> Dim {
        self.axes[n].count.ceil_div(&Dim::constant(stride))
    }

    /// Each combination of phases by itself, put together: `[n, g·m, q…]`.
    fn apart(&self, build: &mut Builder, x: &Tracked, weights: &Tracked, each: &[Vec<Phases>]) -> Result<Tracked> {
        let all_outputs = self.channels.outputs.scale(self.channels.group);
        let rank = self.axes.len();
        let strides: Vec<i64> = each.iter().map(|phases| phases.len() as i64).collect();
        // [n, g·m, u0, φ0, u1, φ1, …], the last phases side by side first.
        let mut shape = vec![x.shape()[0].clone(), all_outputs.clone()];
        shape.extend((0..rank).flat_map(|n| [self.positions(n, strides[n]), Dim::constant(1)]));
        let combinations: i64 = strides.iter().product();
        let mut parts = Vec::with_capacity(combinations as usize);
        for combination in 0..combinations {
            let mut rest = combination;
            let mut chosen: Vec<Phases> = Vec::with_capacity(rank);
            for phases in each.iter().rev() {
                let of = phases.len() as i64;
                chosen.insert(0, phases[(rest % of) as usize].clone());
                rest /= of;
            }
            let part = if chosen.iter().any(|phase| phase.taps.is_const(0)) {
                let nothing = build.scalar(x.dtype(), 0.0);
                build.broadcast(&nothing, &shape)?
            } else {
                let part = self.of(build, x, weights, &chosen)?;
                build.reshape(&part, &shape)?
            };
            parts.push(part);
        }
        for (n, &stride) in strides.iter().enumerate().rev() {
            let beside = |parts: &[Tracked]| build.concat(&parts.iter().collect::<Vec<_>>(), 3 + 2 * n);
            parts = parts.chunks(stride as usize).map(beside).collect::<Result<_>>()?;
        }
        let mut merged = vec![x.shape()[0].clone(), all_outputs];
        merged.extend((0..rank).map(|n| self.positions(n, strides[n]).scale(strides[n])));
        build.reshape(&parts[0], &merged)
    }

    /// All positions of these phases: `[n, g·m, q…]`.
    fn of(&self, build: &mut Builder, x: &Tracked, weights: &Tracked, phases: &[Phases]) -> Result<Tracked> {
        let (axes, Channels { group, inputs: c, outputs: m }) = (self.axes, self.channels);
        let g = Dim::constant(*group);
        // windows[n, g, c, φ…, j…, u…] and filters[g, c, m, φ…, j…], without the axes of one point
        let rank = axes.len();
        let mut window_shape = vec![x.shape()[0].clone(), g.clone(), c.clone()];
        let mut filter_shape = vec![g.clone(), c.clone(), m.clone()];
        let mut labels = Labels::default();
        let (n_label, g_label, m_label, c_label) = (labels.next(), labels.next(), labels.next(), labels.next());
        let (mut lhs, mut rhs) = (vec![n_label, g_label, c_label], vec![g_label, c_label, m_label]);
        let mut inner_axis = |extent: &Dim, label: u8| {
            if extent.is_const(1) {
                return IndexExpr::constant(0);
            }
            window_shape.push(extent.clone());
            filter_shape.push(extent.clone());
            lhs.push(label);
            rhs.push(label);
            var(window_shape.len() - 1)
        };
        let phase_labels = labels.take(rank);
        let phase: Vec<IndexExpr> =
            (0..rank).map(|n| inner_axis(&Dim::constant(phases[n].count), phase_labels[n]) + phases[n].first).collect();
        let tap: Vec<IndexExpr> = (0..rank).map(|n| inner_axis(&phases[n].taps, labels.next())).collect();
        let u_labels = labels.take(rank);
        let first_u = window_shape.len();
        window_shape.extend((0..rank).map(|n| self.positions(n, axes[n].stride)));
        lhs.extend(&u_labels);

        let mut index = vec![var(0), var(1) * c.clone() + var(2)];
        let mut filter_index = vec![var(0) * c.clone() + var(1), var(2)];
        let (mut valid, mut filter_valid) = (Vec::new(), Vec::new());
        for (n, axis) in axes.iter().enumerate() {
            let position = phases[n].position(axis, &phase[n], &tap[n], var(first_u + n));
            valid.push(Bound { expr: position.clone(), lo: IndexExpr::constant(0), hi: axis.extent.clone() });
            index.push(position);
            filter_valid.extend(phases[n].exists(axis, &phase[n], &tap[n]));
            filter_index.push(phases[n].tap(axis, &phase[n], &tap[n]));
        }
        let map = AccessMap { rank: window_shape.len(), index, valid };
        let windows = build.view_or(x, map, window_shape.clone(), Const::zero(x.dtype()))?;
        let map = AccessMap { rank: filter_shape.len(), index: filter_index, valid: filter_valid };
        let filters = build.view_or(weights, map, filter_shape, Const::zero(weights.dtype()))?;

        let mut output = vec![n_label, g_label, m_label];
        let mut merged = vec![x.shape()[0].clone(), g * m.clone()];
        for n in 0..rank {
            output.push(u_labels[n]);
            if phases[n].count > 1 {
                output.push(phase_labels[n]);
            }
            merged.push(window_shape[first_u + n].scale(phases[n].count));
        }
        let product = build.contract((&windows, &lhs), (&filters, &rhs), &output)?;
        build.reshape(&product, &merged)
    }
}

/// The outputs of a transposed convolution along one axis, `q = u·stride + φ`, by their phase `φ`.
///
/// `q + begin = p·stride + r·dilation` has solutions for `φ + begin` a multiple of `gcd = gcd(stride, dilation)` only:
/// `r = r₀ + j·stride/gcd`, and `p` goes down by `dilation/gcd` with each `j`.
#[derive(Clone)]
struct Phases {
    /// The first one.
    first: i64,
    /// How many: the stride, if it is all.
    count: i64,
    /// Taps of a phase, at most.
    taps: Dim,
    gcd: i64,
    /// `r₀ = (φ + begin)/gcd · inverse mod stride/gcd`.
    inverse: i64,
}

impl Phases {
    fn new(axis: &WindowAxis<Dim>) -> Self {
        // Euclid's algorithm; `a` keeps a·dilation ≡ first (mod stride).
        let (mut first, mut second) = (axis.stride, axis.dilation);
        let (mut a, mut b) = (0i64, 1i64);
        while second != 0 {
            let quotient = first / second;
            (first, second) = (second, first - quotient * second);
            (a, b) = (b, a - quotient * b);
        }
        let modulus = axis.stride / first;
        let taps = axis.kernel.ceil_div(&Dim::constant(modulus));
        Self { first: 0, count: axis.stride, taps, gcd: first, inverse: a.rem_euclid(modulus) }
    }

    /// One phase of all, with the taps that it has; `None` where only the run tells which these are.
    fn only(&self, axis: &WindowAxis<Dim>, phase: i64) -> Option<Self> {
        let (begin, kernel) = (axis.begin.as_const()?, axis.kernel.as_const()?);
        let first_tap = self.first_tap(axis, &IndexExpr::constant(phase)).as_const()?;
        let modulus = axis.stride / self.gcd;
        let meets = (phase + begin) % self.gcd == 0;
        let taps = if meets { ((kernel - first_tap).max(0) + modulus - 1) / modulus } else { 0 };
        Some(Self { first: phase, count: 1, taps: Dim::constant(taps), ..*self })
    }

    fn first_tap(&self, axis: &WindowAxis<Dim>, phase: &IndexExpr) -> IndexExpr {
        let modulus = axis.stride / self.gcd;
        let whole = (phase.clone() + axis.begin.clone()).floor_div(&IndexExpr::constant(self.gcd));
        whole.scale(self.inverse).modulo(&IndexExpr::constant(modulus))
    }

    /// `r`, the position in the kernel of the phase's j-th tap.
    fn tap(&self, axis: &WindowAxis<Dim>, phase: &IndexExpr, j: &IndexExpr) -> IndexExpr {
        self.first_tap(axis, phase) + j.scale(axis.stride / self.gcd)
    }

    /// The conditions under which the phase has a j-th tap.
    fn exists(&self, axis: &WindowAxis<Dim>, phase: &IndexExpr, j: &IndexExpr) -> Vec<Bound> {
        let mut bounds = Vec::new();
        let zero = IndexExpr::constant(0);
        if !axis.kernel.modulo(&Dim::constant(axis.stride / self.gcd)).is_const(0) {
            let expr = self.tap(axis, phase, j);
            bounds.push(Bound { expr, lo: zero.clone(), hi: axis.kernel.clone() });
        }
        if self.gcd > 1 {
            let expr = (phase.clone() + axis.begin.clone()).modulo(&IndexExpr::constant(self.gcd));
            bounds.push(Bound { expr, lo: zero, hi: IndexExpr::constant(1) });
        }
        bounds
    }

    /// `p`, the input position that the j-th tap of output `u·stride + φ` meets.
    fn position(&self, axis: &WindowAxis<Dim>, phase: &IndexExpr, j: &IndexExpr, u: IndexExpr) -> IndexExpr {
        let stride = IndexExpr::constant(axis.stride);
        let first = if axis.dilation == 1 {
            (phase.clone() + axis.begin.clone()).floor_div(&stride)
        } else {
            let reach = self.first_tap(axis, phase).scale(axis.dilation);
            (phase.clone() + axis.begin.clone() - reach).floor_div(&stride)
        };
        u + first - j.scale(axis.dilation / self.gcd)
    }
}

/// As for a convolution, with `count` the extent of the (larger) output.
fn transposed_axes(call: &mut Call<'_>, extents: &[Dim], kernel: &[Dim]) -> Result<Vec<WindowAxis<Dim>>> {
    let rank = extents.len();
    let mut axes = window_axes_of_transposed(call, extents, kernel)?;
    let list = |attribute: &'static str, len: usize| -> Result<Option<Vec<i64>>> {
        let Some(found) = call.ints(attribute)? else { return Ok(None) };
        if found.len() == len && found.iter().all(|v| (0..1 << 31).contains(v)) {
            return Ok(Some(found.to_vec()));
        }
        let expected = "one number per spatial axis (two for pads), not negative";
        Err(Problem::InvalidAttribute { attribute, expected, found: format!("{found:?}") })
    };
    let pads = list("pads", 2 * rank)?.unwrap_or_else(|| vec![0; 2 * rank]);
    let extra = list("output_padding", rank)?.unwrap_or_else(|| vec![0; rank]);
    let output_shape = list("output_shape", rank)?;
    let auto_pad = call.string("auto_pad", "NOTSET")?;
    for extent in kernel {
        call.build.require_at_least("the extent of a window", extent, &Dim::constant(1))?;
    }
    let ranges = call.build.ranges();
    for (n, axis) in axes.iter_mut().enumerate() {
        let reach = (kernel[n].clone() - 1).scale(axis.dilation) + 1;
        let full = (axis.extent.clone() - 1).scale(axis.stride) + reach + extra[n];
        let same = auto_pad.starts_with("SAME");
        let wanted = match &output_shape {
            Some(shape) => Some(Dim::constant(shape[n])),
            None if same => Some(axis.extent.scale(axis.stride)),
            None => None,
        };
        let (begin, count) = match wanted {
            Some(count) => {
                let total = (full - count.clone()).maximum(&Dim::constant(0)).simplify(&ranges);
                let half = total.floor_div(&Dim::constant(2));
                (if auto_pad == "SAME_UPPER" { half } else { total - half }, count)
            }
            None => (Dim::constant(pads[n]), full - pads[n] - pads[n + rank]),
        };
        call.build.require_at_least("an extent of a transposed convolution", &count, &Dim::constant(0))?;
        axis.begin = begin;
        // The elements of the phases are a product of these.
        let is_number = kernel[n].as_const().is_some();
        axis.count = if is_number { count } else { call.build.named_extent("an extent of an image", &count) };
    }
    Ok(axes)
}

/// Strides and dilations, checked; paddings and counts follow in the caller.
fn window_axes_of_transposed(call: &Call<'_>, extents: &[Dim], kernel: &[Dim]) -> Result<Vec<WindowAxis<Dim>>> {
    let numbers = |attribute: &'static str| -> Result<Vec<i64>> {
        let found = call.ints(attribute)?.map_or_else(|| vec![1; extents.len()], <[i64]>::to_vec);
        if found.len() == extents.len() && found.iter().all(|&v| (1..1 << 31).contains(&v)) {
            return Ok(found);
        }
        let expected = "one positive number per spatial axis";
        Err(Problem::InvalidAttribute { attribute, expected, found: format!("{found:?}") })
    };
    let (strides, dilations) = (numbers("strides")?, numbers("dilations")?);
    Ok(extents
        .iter()
        .enumerate()
        .map(|(n, extent)| WindowAxis {
            extent: extent.clone(),
            kernel: kernel[n].clone(),
            stride: strides[n],
            dilation: dilations[n],
            begin: Dim::constant(0),
            end: Dim::constant(0),
            padded: true,
            count: extent.clone(),
        })
        .collect())
}
