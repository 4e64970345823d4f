//! Reading between elements: weighted sums of neighbours at positions that are computed when the model runs.
//!
//! A point has a coordinate per axis, in elements from the first one. Along each axis it has one, two or four
//! neighbours; their products over the axes are its *taps*. A value at a point is the sum of the taps' elements, each
//! with its weight: a product of the weights with rows that are looked up. What lies outside is zero, the nearest
//! element, or a reflection.

use super::resize::polynomial;
use crate::build::{Builder, Result, index, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::DType;

/// How many neighbours count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Interpolation {
    /// The nearest, of two equally near the even one.
    Nearest,
    /// The two around.
    Linear,
    /// Four, with Keys' coefficients for this `a`.
    Cubic(f64),
}

/// What a neighbour outside of the axis is. The border is the first and last element (`at_centres`), or their edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// Zero.
    Zero,
    /// The nearest element.
    Border { at_centres: bool },
    /// What lies on the other side of the border.
    Reflection { at_centres: bool },
}

impl Interpolation {
    /// Neighbours along one axis.
    pub(super) fn neighbours(self) -> i64 {
        match self {
            Self::Nearest => 1,
            Self::Linear => 2,
            Self::Cubic(_) => 4,
        }
    }

    /// The distance of the first neighbour from the element at or before the point.
    fn first(self) -> i64 {
        if matches!(self, Self::Cubic(_)) { -1 } else { 0 }
    }

    /// The weight of neighbour `which` of a point that lies `t` after the element before it.
    fn weight(self, body: &mut Body, t: ScalarId, which: &IndexExpr) -> ScalarId {
        let number = |body: &mut Body, value: f64| body.constant(body.dtype(t), value);
        let one = number(body, 1.0);
        let rest = body.binary(BinaryOp::Sub, one, t);
        let is = |body: &mut Body, n: i64| {
            let (which, n) = (index(body, which.clone()), index(body, IndexExpr::constant(n)));
            body.compare(CompareOp::Eq, which, n)
        };
        match self {
            Self::Nearest => one,
            Self::Linear => {
                let first = is(body, 0);
                body.select(first, rest, t)
            }
            Self::Cubic(a) => {
                // (a+2)d³ − (a+3)d² + 1 up to a distance of 1, a·d³ − 5a·d² + 8a·d − 4a up to 2.
                let near = |body: &mut Body, d: ScalarId| polynomial(body, d, &[a + 2.0, -(a + 3.0), 0.0, 1.0]);
                let far = |body: &mut Body, d: ScalarId| polynomial(body, d, &[a, -5.0 * a, 8.0 * a, -4.0 * a]);
                let beyond = body.binary(BinaryOp::Add, t, one);
                let rest_beyond = body.binary(BinaryOp::Add, rest, one);
                let weights = [far(body, beyond), near(body, t), near(body, rest), far(body, rest_beyond)];
                let mut weight = weights[3];
                for n in (0..3).rev() {
                    let here = is(body, n);
                    weight = body.select(here, weights[n as usize], weight);
                }
                weight
            }
        }
    }
}

/// Along one axis.
pub(super) struct Axis {
    /// Its elements.
    pub(super) extent: Dim,
    /// From one element to the next in the table of rows.
    pub(super) stride: Dim,
    /// Where the points are, in elements: a float over their axes.
    pub(super) at: Tracked,
}

/// Which rows points read, and with what weights; both are over the points and one more, last axis.
pub(super) struct Taps {
    /// i64.
    pub(super) rows: Tracked,
    /// Of the coordinates' type.
    pub(super) weights: Tracked,
}

/// The taps of points with coordinates over `shape`; `base` is the first row, over the axes of the points.
pub(super) fn taps(
    build: &mut Builder,
    shape: &[Dim],
    axes: &[Axis],
    interpolation: Interpolation,
    outside: Outside,
    base: IndexExpr,
) -> Result<Taps> {
    let each = interpolation.neighbours();
    let last = shape.len();
    let mut with_taps = shape.to_vec();
    with_taps.push(Dim::constant(each.pow(axes.len() as u32)));
    // The neighbour along each axis, of which the last changes fastest.
    let which = |n: usize| {
        let below = Dim::constant(each.pow((axes.len() - 1 - n) as u32));
        var(last).floor_div(&below).modulo(&Dim::constant(each))
    };
    let own: Vec<IndexExpr> = (0..last).map(var).collect();
    let mut points = Vec::new();
    for axis in axes {
        let settled = build.map(&[&axis.at], |body, p| settle(body, p[0], &axis.extent, interpolation, outside))?;
        let settled = build.broadcast(&settled, shape)?;
        points.push(build.view(&settled, own.clone(), with_taps.clone())?);
    }
    let inputs: Vec<&Tracked> = points.iter().collect();
    let rows = build.map_over(with_taps.clone(), &inputs, |body, p| {
        let mut row = index(body, base);
        for (n, axis) in axes.iter().enumerate() {
            let neighbour = Neighbour::of(body, p[n], interpolation, &which(n));
            let position = neighbour.position(body, &axis.extent, outside);
            let stride = index(body, axis.stride.clone());
            let offset = body.binary(BinaryOp::Mul, position, stride);
            row = body.binary(BinaryOp::Add, row, offset);
        }
        row
    })?;
    let weights = build.map_over(with_taps, &inputs, |body, p| {
        let mut weight = body.constant(body.dtype(p[0]), 1.0);
        for (n, axis) in axes.iter().enumerate() {
            let neighbour = Neighbour::of(body, p[n], interpolation, &which(n));
            let mut along = interpolation.weight(body, neighbour.t, &which(n));
            if outside == Outside::Zero {
                let inside = neighbour.is_inside(body, &axis.extent);
                let zero = body.constant(body.dtype(along), 0.0);
                along = body.select(inside, along, zero);
            }
            weight = body.binary(BinaryOp::Mul, weight, along);
        }
        weight
    })?;
    Ok(Taps { rows, weights })
}

/// `Σ weights · table[rows, …]` over the taps: `[points…, C]` of the table's type, for a table `[rows, C]`.
pub(super) fn weighted_sum(build: &mut Builder, table: &Tracked, taps: &Taps) -> Result<Tracked> {
    let found = build.gather(table, &taps.rows, 0)?;
    let weights = build.cast(&taps.weights, table.dtype())?;
    let points = weights.rank() - 1;
    let labels: Vec<u8> = (0..=weights.rank() as u8).collect();
    let output: Vec<u8> = labels.iter().copied().filter(|&l| usize::from(l) != points).collect();
    build.contract((&weights, &labels[..=points]), (&found, &labels), &output)
}

/// An extent as a number of the type of `like`.
fn size(body: &mut Body, extent: &Dim, like: ScalarId) -> ScalarId {
    let extent = index(body, extent.clone());
    body.cast(body.dtype(like), extent)
}

/// The coordinate as it is where it lies inside; otherwise moved to where the padding is taken from.
fn settle(body: &mut Body, at: ScalarId, extent: &Dim, interpolation: Interpolation, outside: Outside) -> ScalarId {
    let at = if interpolation == Interpolation::Nearest { body.unary(UnaryOp::Round, at) } else { at };
    match outside {
        Outside::Zero => at,
        // Each of four elements is moved by itself, as PyTorch and ONNX Runtime do: two elements outside all are the one at the
        // border.
        Outside::Border { .. } if matches!(interpolation, Interpolation::Cubic(_)) => {
            let (low, high) = (body.constant(body.dtype(at), -2.0), size(body, extent, at));
            let one = body.constant(body.dtype(at), 1.0);
            let high = body.binary(BinaryOp::Add, high, one);
            let at = body.binary(BinaryOp::Min, at, high);
            body.binary(BinaryOp::Max, at, low)
        }
        Outside::Border { at_centres } => {
            // What lies between the first element and its edge stays there: all of its neighbours are clamped.
            let (low, high) = edges(body, at, extent, at_centres);
            let (below, above) = (body.compare(CompareOp::Lt, at, low), body.compare(CompareOp::Gt, at, high));
            let out = body.binary(BinaryOp::Or, below, above);
            let clamped = clamp(body, at, extent);
            body.select(out, clamped, at)
        }
        Outside::Reflection { at_centres } => reflected(body, at, extent, at_centres),
    }
}

/// The coordinates of the borders: of the first and last element, or half an element beyond.
fn edges(body: &mut Body, like: ScalarId, extent: &Dim, at_centres: bool) -> (ScalarId, ScalarId) {
    let dtype = body.dtype(like);
    let (low, less) = if at_centres { (0.0, 1.0) } else { (-0.5, 0.5) };
    let (size, low, less) = (size(body, extent, like), body.constant(dtype, low), body.constant(dtype, less));
    (low, body.binary(BinaryOp::Sub, size, less))
}

fn clamp(body: &mut Body, at: ScalarId, extent: &Dim) -> ScalarId {
    let (low, high) = edges(body, at, extent, true);
    let at = body.binary(BinaryOp::Min, at, high);
    body.binary(BinaryOp::Max, at, low)
}

/// Back and forth between the borders until inside.
fn reflected(body: &mut Body, at: ScalarId, extent: &Dim, at_centres: bool) -> ScalarId {
    let (low, high) = edges(body, at, extent, at_centres);
    let span = body.binary(BinaryOp::Sub, high, low);
    let twice = body.binary(BinaryOp::Add, span, span);
    let beyond = body.binary(BinaryOp::Sub, at, low);
    let beyond = body.unary(UnaryOp::Abs, beyond);
    let along = body.binary(BinaryOp::Rem, beyond, twice);
    let back = body.binary(BinaryOp::Sub, twice, along);
    let along = body.binary(BinaryOp::Min, along, back);
    let inside = body.binary(BinaryOp::Add, low, along);
    // A single element is its own reflection.
    let zero = body.constant(body.dtype(at), 0.0);
    let single = body.compare(CompareOp::Eq, span, zero);
    body.select(single, zero, inside)
}

/// One neighbour of a point, along one axis.
struct Neighbour {
    /// Where it is, a whole number as a float.
    at: ScalarId,
    /// How far the point lies behind the element before it.
    t: ScalarId,
}

impl Neighbour {
    fn of(body: &mut Body, point: ScalarId, interpolation: Interpolation, which: &IndexExpr) -> Self {
        let before = body.unary(UnaryOp::Floor, point);
        let t = body.binary(BinaryOp::Sub, point, before);
        let offset = index(body, which.clone() + interpolation.first());
        let offset = body.cast(body.dtype(point), offset);
        Self { at: body.binary(BinaryOp::Add, before, offset), t }
    }

    fn is_inside(&self, body: &mut Body, extent: &Dim) -> ScalarId {
        let (low, high) = edges(body, self.at, extent, true);
        let (from, to) = (body.compare(CompareOp::Ge, self.at, low), body.compare(CompareOp::Le, self.at, high));
        body.binary(BinaryOp::And, from, to)
    }

    /// The position of the element, which exists.
    fn position(&self, body: &mut Body, extent: &Dim, outside: Outside) -> ScalarId {
        let at = match outside {
            Outside::Reflection { at_centres } => reflected(body, self.at, extent, at_centres),
            _ => self.at,
        };
        let at = clamp(body, at, extent);
        body.cast(DType::I64, at)
    }
}
