//! Pools: reductions over a window view, and over all of the trailing axes.

use super::Operator;
use super::elementwise::require_float;
use crate::build::{Builder, Result, Window, WindowAxis, compute_type, index, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, Const, UnaryOp};
use infc_tensor::DType;

use super::reduce::{first_largest, largest, smallest_value};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("MaxPool", 1, max_pool),
    Operator::new("AveragePool", 1, average_pool),
    Operator::new("LpPool", 1, lp_pool),
    Operator::new("GlobalMaxPool", 1, global_max_pool),
    Operator::new("GlobalAveragePool", 1, global_average_pool),
    Operator::new("GlobalLpPool", 1, global_lp_pool),
];

/// The attributes that say how a window moves, for convolutions and pools.
///
/// `extents` are those of the input's trailing axes, `kernel` the window's: numbers, or what only the run tells.
pub(super) fn window_axes<K: Clone + Into<Dim>>(
    call: &mut Call<'_>,
    extents: &[Dim],
    kernel: &[K],
    ceil_mode: bool,
) -> Result<Vec<WindowAxis<K>>> {
    let rank = extents.len();
    let positive = |attribute: &'static str, default: i64| -> Result<Vec<i64>> {
        let found = call.ints(attribute)?.map_or_else(|| vec![default; rank], <[i64]>::to_vec);
        if found.len() == rank && found.iter().all(|&v| (1..1 << 31).contains(&v)) {
            return Ok(found);
        }
        let expected = "one positive number per spatial axis";
        Err(Problem::InvalidAttribute { attribute, expected, found: format!("{found:?}") })
    };
    let sizes: Vec<Dim> = kernel.iter().cloned().map(Into::into).collect();
    if sizes.len() != rank || !sizes.iter().all(|size| size.as_const().is_none_or(|v| (1..1 << 31).contains(&v))) {
        let expected = "one positive number per spatial axis";
        let found = sizes.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
        return Err(Problem::InvalidAttribute { attribute: "kernel_shape", expected, found });
    }
    let (strides, dilations) = (positive("strides", 1)?, positive("dilations", 1)?);
    let pads = call.ints("pads")?.map_or_else(|| vec![0; 2 * rank], <[i64]>::to_vec);
    if pads.len() != 2 * rank || !pads.iter().all(|v| (-(1 << 31)..1 << 31).contains(v)) {
        let expected = "two numbers per spatial axis";
        return Err(Problem::InvalidAttribute { attribute: "pads", expected, found: format!("{pads:?}") });
    }
    let auto_pad = call.string("auto_pad", "NOTSET")?;
    for size in &sizes {
        call.build.require_at_least("the extent of a window", size, &Dim::constant(1))?;
    }
    let ranges = call.build.ranges();
    let mut axes = Vec::with_capacity(rank);
    for n in 0..rank {
        let (extent, stride, dilation) = (extents[n].clone(), strides[n], dilations[n]);
        let reach = (sizes[n].clone() - 1).scale(dilation) + 1;
        let same = || {
            let count = extent.ceil_div(&Dim::constant(stride));
            let total = ((count.clone() - 1).scale(stride) + reach.clone() - extent.clone()).maximum(&Dim::constant(0));
            (count, total.simplify(&ranges))
        };
        let two = Dim::constant(2);
        let (begin, end, count) = match auto_pad.as_str() {
            "SAME_UPPER" => {
                let (count, total) = same();
                let begin = total.floor_div(&two);
                (begin.clone(), total - begin, Some(count))
            }
            "SAME_LOWER" => {
                let (count, total) = same();
                let begin = total.ceil_div(&two);
                (begin.clone(), total - begin, Some(count))
            }
            "VALID" => (Dim::constant(0), Dim::constant(0), None),
            "NOTSET" | "" => (Dim::constant(pads[n]), Dim::constant(pads[n + rank]), None),
            _ => {
                let expected = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
                return Err(Problem::InvalidAttribute { attribute: "auto_pad", expected, found: auto_pad });
            }
        };
        let count = count.unwrap_or_else(|| {
            let room = extent.clone() + begin.clone() + end.clone() - reach.clone();
            let step = Dim::constant(stride);
            if !ceil_mode {
                return room.floor_div(&step) + 1;
            }
            // A last window that starts beyond the input and its left padding does not count.
            let all = room.ceil_div(&step) + 1;
            let started = (extent.clone() + begin.clone() - 1).floor_div(&step) + 1;
            all.minimum(&started)
        });
        let count = count.simplify(&ranges);
        if ranges.interval(&count).max.is_some_and(|max| max < 0) {
            return Err(Problem::ShapeMismatch {
                expected: format!("an extent that a window of {reach} fits into"),
                found: format!("{extent} padded by {begin} and {end}"),
            });
        }
        // What symbols make of it shows when the model runs, before anything else that follows from the count.
        call.build.require_at_least("the number of windows", &count, &Dim::constant(0))?;
        // Without padding, rounding down keeps all windows inside.
        let padded = ceil_mode || !begin.is_const(0) || !end.is_const(0);
        axes.push(WindowAxis { extent, kernel: kernel[n].clone(), stride, dilation, begin, end, padded, count });
    }
    Ok(axes)
}

/// Fails unless the value has a batch axis, a channel axis, and maybe others.
pub(super) fn require_channels(x: &Tracked) -> Result<()> {
    if x.rank() >= 2 {
        return Ok(());
    }
    Err(Problem::ShapeMismatch {
        expected: "a batch axis and a channel axis".to_owned(),
        found: format!("{} axes", x.rank()),
    })
}

/// Windows of one element each, along an axis of this extent.
fn alone(extent: &Dim) -> WindowAxis {
    let nothing = Dim::constant(0);
    WindowAxis {
        extent: extent.clone(),
        kernel: 1,
        stride: 1,
        dilation: 1,
        begin: nothing.clone(),
        end: nothing,
        padded: false,
        count: extent.clone(),
    }
}

/// Whether folding along one axis after the other takes at most four sevenths of the steps: of windows of 3×3 it takes two thirds,
/// and what lies between has to be written and read again.
fn folds_by_axis(axes: &[WindowAxis]) -> bool {
    // Windows and elements along an axis; of unknown ones the proportion.
    let sizes = |axis: &WindowAxis| match (axis.count.as_const(), axis.extent.as_const()) {
        (Some(windows), Some(elements)) => (windows, elements),
        _ => (1, axis.stride),
    };
    let whole = axes.iter().fold(1, |steps: i64, axis| steps.saturating_mul(sizes(axis).0).saturating_mul(axis.kernel));
    let along = |n: usize| {
        let all = axes.iter().enumerate().map(|(m, axis)| if m <= n { sizes(axis).0 } else { sizes(axis).1 });
        all.fold(axes[n].kernel, i64::saturating_mul)
    };
    let by_axis = (0..axes.len()).map(along).fold(0, i64::saturating_add);
    whole.saturating_mul(4) >= by_axis.saturating_mul(7)
}

struct Pool {
    x: Tracked,
    axes: Vec<WindowAxis>,
}

impl Pool {
    fn of(call: &mut Call<'_>, x: Tracked) -> Result<Self> {
        require_channels(&x)?;
        let kernel = call.ints("kernel_shape")?.unwrap_or_default().to_vec();
        let ceil_mode = call.flag("ceil_mode", false)?;
        let axes = window_axes(call, &x.shape()[2..], &kernel, ceil_mode)?;
        Ok(Self { x, axes })
    }

    /// Folds every window; `f` is applied to each element before.
    fn reduce(
        &self,
        build: &mut Builder,
        padding: Const,
        reducer: Reducer,
        f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
    ) -> Result<Tracked> {
        let lead = self.x.shape()[..2].to_vec();
        let window = Window { lead, lead_index: vec![var(0), var(1)], axes: &self.axes, padding };
        let reduced: Vec<usize> = (2..2 + window.kernel_axes().count()).collect();
        let windows = build.window(&self.x, &window)?;
        if reduced.is_empty() {
            // Windows of one element: what the reducer does to the element remains.
            let wide = reducer.init[0].dtype;
            return build.map(&[&windows], |body, p| {
                let x = body.cast(wide, p[0]);
                f(body, x)
            });
        }
        let wide = reducer.init[0].dtype;
        let folded = build.reduce(&[&windows], &reduced, reducer, |body, p| {
            let x = body.cast(wide, p[0]);
            vec![f(body, x)]
        })?;
        Ok(folded[0].clone())
    }

    /// Folds every window; large ones along several axes along one axis after the other, in fewer steps.
    fn fold(
        &self,
        build: &mut Builder,
        padding: impl Fn(DType) -> Const,
        reducer: impl Fn(DType) -> Reducer,
    ) -> Result<Tracked> {
        let fold = |pool: &Self, build: &mut Builder| {
            let dtype = pool.x.dtype();
            pool.reduce(build, padding(dtype), reducer(dtype), |_, x| x)
        };
        if self.axes.len() < 2 || !folds_by_axis(&self.axes) {
            return fold(self, build);
        }
        let mut folded = self.x.clone();
        for n in 0..self.axes.len() {
            let along =
                |(m, axis): (usize, &WindowAxis)| if m == n { axis.clone() } else { alone(&folded.shape()[2 + m]) };
            let axes = self.axes.iter().enumerate().map(along).collect();
            folded = fold(&Self { x: folded.clone(), axes }, build)?;
        }
        Ok(folded)
    }

    /// The largest element of each window.
    fn largest(&self, build: &mut Builder) -> Result<Tracked> {
        self.fold(build, smallest_value, largest)
    }

    /// The number of the first largest element of each window, in row-major order.
    fn where_largest(&self, build: &mut Builder, columns_first: bool) -> Result<Tracked> {
        let shape = self.x.shape();
        let mut flat = IndexExpr::constant(0);
        for (n, extent) in shape.iter().enumerate() {
            flat = flat * extent.clone() + var(n);
        }
        let numbers = build.generate(shape.to_vec(), |body| index(body, flat))?;
        let (dtype, lead_index) = (self.x.dtype(), vec![var(0), var(1)]);
        let window = |padding: Const| Window {
            lead: shape[..2].to_vec(),
            lead_index: lead_index.clone(),
            axes: &self.axes,
            padding,
        };
        let (values, nowhere) = (window(smallest_value(dtype)), window(Const::from_i64(DType::I64, i64::MAX)));
        let reduced: Vec<usize> = (2..2 + values.kernel_axes().count()).collect();
        let (values, numbers) = (build.window(&self.x, &values)?, build.window(&numbers, &nowhere)?);
        let places = if reduced.is_empty() {
            numbers
        } else {
            let reducer = first_largest(dtype);
            build.reduce(&[&values, &numbers], &reduced, reducer, |_, p| p.to_vec())?[1].clone()
        };
        if columns_first { column_major(build, &places, shape, 2) } else { Ok(places) }
    }
}

/// The number of an element in row-major order, counted with the axes from `from` on in column-major order.
fn column_major(build: &mut Builder, places: &Tracked, shape: &[Dim], from: usize) -> Result<Tracked> {
    build.map(&[places], |body, p| {
        let mut rest = p[0];
        let mut coordinates = Vec::new();
        for extent in shape[from..].iter().rev() {
            let extent = index(body, extent.clone());
            coordinates.push((body.binary(BinaryOp::Mod, rest, extent), extent));
            rest = body.binary(BinaryOp::Div, rest, extent);
        }
        // `rest` numbers the planes; their last axis changes slowest.
        for (coordinate, extent) in coordinates {
            let before = body.binary(BinaryOp::Mul, rest, extent);
            rest = body.binary(BinaryOp::Add, before, coordinate);
        }
        rest
    })
}

fn max_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let pool = Pool::of(call, x)?;
    let mut outputs = vec![pool.largest(call.build)?];
    if call.wants_output(1) {
        outputs.push(pool.where_largest(call.build, call.flag("storage_order", false)?)?);
    }
    Ok(outputs)
}

/// The largest elements of windows over `x`, which the node's attributes describe.
pub(super) fn maximum(call: &mut Call<'_>, x: Tracked) -> Result<Tracked> {
    Pool::of(call, x)?.largest(call.build)
}

fn average_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    Ok(vec![average(call, x)?])
}

/// The means of windows over `x`, which the node's attributes describe.
pub(super) fn average(call: &mut Call<'_>, x: Tracked) -> Result<Tracked> {
    let pool = Pool::of(call, x)?;
    let dtype = pool.x.dtype();
    require_float(&pool.x)?;
    let wide = compute_type(dtype);
    let include_padding = call.flag("count_include_pad", false)?;
    let sum = pool.fold(call.build, Const::zero, |dtype| Reducer::sum(compute_type(dtype)))?;
    // How many elements of the window count, per axis: a number, or a function of the window's position.
    let mut numbers = 1.0;
    let mut counts: Vec<IndexExpr> = Vec::new();
    let ceil_mode = call.flag("ceil_mode", false)?;
    for (n, axis) in pool.axes.iter().enumerate() {
        let padded = if include_padding {
            // The padding counts, what ceil mode adds beyond it does not.
            ceil_mode
        } else {
            axis.padded
        };
        if !padded {
            numbers *= axis.kernel as f64;
            continue;
        }
        let end = if include_padding { axis.extent.clone() + axis.end.clone() } else { axis.extent.clone() };
        let low = if include_padding { axis.begin.scale(-1) } else { Dim::constant(0) };
        let start = axis.start(var(2 + n));
        let dilation = Dim::constant(axis.dilation);
        // Elements r with low ≤ start + r·dilation < end.
        let first = (low - start.clone()).ceil_div(&dilation).maximum(&Dim::constant(0));
        let last = (end - start).ceil_div(&dilation).minimum(&Dim::constant(axis.kernel));
        counts.push(last - first);
    }
    let shape = sum.shape().to_vec();
    let ranges = call.build.ranges_over(&shape);
    call.build.map(&[&sum], |body, p| {
        let mut divisor = body.constant(wide, numbers);
        for count in counts {
            let count = index(body, count.simplify(&ranges));
            let count = body.cast(wide, count);
            divisor = body.binary(BinaryOp::Mul, divisor, count);
        }
        let mean = body.binary(BinaryOp::Div, p[0], divisor);
        body.cast(dtype, mean)
    })
}

/// The exponent of an Lp pool, a float in the first version.
fn exponent(call: &Call<'_>) -> Result<f64> {
    if call.opset < 2 { call.float_or("p", 2.0) } else { Ok(call.int_or("p", 2)? as f64) }
}

/// `(Σ |x|^p)^(1/p)`
fn lp_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let pool = Pool::of(call, x)?;
    require_float(&pool.x)?;
    let p = exponent(call)?;
    let dtype = pool.x.dtype();
    let sum = pool.reduce(call.build, Const::zero(dtype), Reducer::sum(compute_type(dtype)), |body, x| {
        absolute_power(body, x, p)
    })?;
    Ok(vec![root(call.build, &sum, p, dtype)?])
}

fn absolute_power(body: &mut Body, x: ScalarId, p: f64) -> ScalarId {
    let magnitude = body.unary(UnaryOp::Abs, x);
    if p == 1.0 {
        return magnitude;
    }
    if p == 2.0 {
        return body.binary(BinaryOp::Mul, x, x);
    }
    let exponent = body.constant(body.dtype(x), p);
    body.binary(BinaryOp::Pow, magnitude, exponent)
}

fn root(build: &mut Builder, sum: &Tracked, p: f64, dtype: infc_tensor::DType) -> Result<Tracked> {
    build.map(&[sum], |body, s| {
        let x = s[0];
        let root = if p == 1.0 {
            x
        } else if p == 2.0 {
            body.unary(UnaryOp::Sqrt, x)
        } else {
            let exponent = body.constant(body.dtype(x), 1.0 / p);
            body.binary(BinaryOp::Pow, x, exponent)
        };
        body.cast(dtype, root)
    })
}

/// Folds all axes but the first two, which stay with extent 1.
fn global(
    call: &mut Call<'_>,
    x: &Tracked,
    reducer: Reducer,
    f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
) -> Result<Tracked> {
    require_channels(x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let mut shape = x.shape().to_vec();
    shape[2..].fill(Dim::constant(1));
    let wide = reducer.init[0].dtype;
    if axes.is_empty() {
        return call.build.map(&[x], |body, p| {
            let x = body.cast(wide, p[0]);
            f(body, x)
        });
    }
    let folded = call.build.reduce(&[x], &axes, reducer, |body, p| {
        let x = body.cast(wide, p[0]);
        vec![f(body, x)]
    })?;
    call.build.reshape(&folded[0], &shape)
}

fn global_max_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let reducer = largest(x.dtype());
    Ok(vec![global(call, &x, reducer, |_, x| x)?])
}

fn global_average_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    Ok(vec![global_average(call, &x)?])
}

/// The means over all axes but the first two, which stay with extent 1.
pub(super) fn global_average(call: &mut Call<'_>, x: &Tracked) -> Result<Tracked> {
    require_float(x)?;
    let dtype = x.dtype();
    let sum = global(call, x, Reducer::sum(compute_type(dtype)), |_, x| x)?;
    let count = x.shape()[2..].iter().cloned().product::<Dim>();
    super::reduce::divide(call.build, &sum, count, dtype)
}

fn global_lp_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let p = exponent(call)?;
    let dtype = x.dtype();
    let sum = global(call, &x, Reducer::sum(compute_type(dtype)), |body, x| absolute_power(body, x, p))?;
    Ok(vec![root(call.build, &sum, p, dtype)?])
}
