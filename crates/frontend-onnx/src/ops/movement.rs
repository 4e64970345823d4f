//! Movement: Transpose, Expand, Tile, Concat, CenterCropPad, DepthToSpace and their kin. Each is one access map.

use super::Operator;
use super::axes::position;
use crate::build::{Builder, Result, index, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::known::Item;
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::graph::{BROADCAST_EXTENTS, TensorType};
use infc_ir::index::{Dim, IndexExpr, Proof};
use infc_ir::scalar::{CompareOp, Const, ScalarOp, is_computable};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Transpose", 1, transpose),
    Operator::new("Expand", 8, expand),
    Operator::new("Tile", 1, tile),
    Operator::new("Concat", 1, concat),
    Operator::new("CenterCropPad", 18, center_crop_pad),
    Operator::new("DepthToSpace", 1, depth_to_space),
    Operator::new("SpaceToDepth", 1, space_to_depth),
    Operator::new("Trilu", 14, trilu),
    Operator::new("Dropout", 1, dropout),
];

fn transpose(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let order: Vec<usize> = match call.ints("perm")? {
        None => (0..x.rank()).rev().collect(),
        Some(order) => {
            let order: Vec<usize> = order.iter().map(|&a| axis(a, x.rank())).collect::<Result<_>>()?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..x.rank()) {
                return Err(mismatch(format!("as many axes as the order {order:?}, each once"), x.shape()));
            }
            order
        }
    };
    Ok(vec![call.build.transpose(&x, &order)?])
}

/// Broadcasts both ways: the target may have axes of extent 1.
fn expand(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let target = call.dims(1, "the target shape")?;
    if target.iter().any(|dim| call.build.is_signed(dim)) {
        return Ok(vec![expand_chosen(call.build, &x, &target)?]);
    }
    let shape = call.build.broadcast_shape(&[x.shape(), &target])?;
    Ok(vec![call.build.broadcast(&x, &shape)?])
}

/// As `expand`, where only the run will tell which extents are 1.
fn expand_chosen(build: &mut Builder, x: &Tracked, target: &[Dim]) -> Result<Tracked> {
    let one = Dim::constant(1);
    let rank = target.len().max(x.rank());
    let padded = |shape: &[Dim]| [vec![one.clone(); rank - shape.len()], shape.to_vec()].concat();
    let (from, to) = (padded(x.shape()), padded(target));
    let mut shape = Vec::with_capacity(rank);
    let mut index = Vec::with_capacity(rank);
    for (n, (extent, wanted)) in from.iter().zip(&to).enumerate() {
        let result =
            build.size("an extent that is broadcast", &truth::either(&truth::equal(wanted, &one), extent, wanted))?;
        if extent.as_const().is_some_and(|d| d != 1) {
            build.require_equal(BROADCAST_EXTENTS, extent, &result)?;
            shape.push(extent.clone());
            index.push(var(n));
            continue;
        }
        // Either there is one element to repeat, or as many as there will be.
        index.push(build.repeated(extent, &result, var(n))?);
        shape.push(result);
    }
    build.view(x, index.split_off(rank - x.rank()), shape)
}

/// Repeats along each axis; before opset 6 along one, which is an input.
fn tile(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if call.opset < 6 {
        call.take_for_integers(1)?;
        call.take_for_integers(2)?;
    }
    let mut repeats = call.sizes(1, "how often an axis is repeated")?;
    if call.opset < 6 {
        let given = call.dims(2, "the axis that is repeated")?;
        let ([times], [given]) = (&repeats[..], &given[..]) else {
            let found = format!("{} and {}", repeats.len(), given.len());
            return Err(Problem::ShapeMismatch { expected: "one number of repeats and one axis".to_owned(), found });
        };
        let axis = position(call.build, given, x.rank())?;
        let here = |n: usize| truth::equal(&axis, &Dim::constant(n as i64));
        repeats = (0..x.rank()).map(|n| truth::either(&here(n), times, &Dim::constant(1))).collect();
    }
    if repeats.len() != x.rank() {
        return Err(mismatch(format!("{} axes, one per number of repeats", repeats.len()), x.shape()));
    }
    let mut index = Vec::with_capacity(x.rank());
    let mut shape = Vec::with_capacity(x.rank());
    for (n, (extent, repeat)) in x.shape().iter().zip(&repeats).enumerate() {
        let once = repeat.is_const(1) || extent.is_const(0);
        index.push(if once { var(n) } else { var(n).modulo(extent) });
        shape.push(call.build.size("a repeated extent", &(extent.clone() * repeat.clone()))?);
    }
    Ok(vec![call.build.view(&x, index, shape)?])
}

fn concat(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let inputs = call.variadic()?;
    let axis = call.axis("axis", 1, inputs[0].rank())?;
    Ok(vec![call.build.concat(&inputs.iter().collect::<Vec<_>>(), axis)?])
}

/// The middle of longer axes, zeros around shorter ones; of an odd difference the odd element is at the end.
fn center_crop_pad(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let wanted = call.sizes(1, "the shape that is cropped or padded to")?;
    let axes: Vec<usize> = match call.ints("axes")? {
        Some(given) => given.iter().map(|&a| axis(a, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    if wanted.len() != axes.len() {
        return Err(mismatch(format!("{} axes, one per extent", wanted.len()), x.shape()));
    }
    let mut index: Vec<IndexExpr> = (0..x.rank()).map(var).collect();
    let mut shape = x.shape().to_vec();
    let mut valid = Vec::new();
    for (&axis, wanted) in axes.iter().zip(&wanted) {
        call.build.require_at_least("an extent", wanted, &Dim::constant(0))?;
        let extent = x.shape()[axis].clone();
        let half = |more: &Dim, less: &Dim| {
            (more.clone() - less.clone()).maximum(&Dim::constant(0)).floor_div(&Dim::constant(2))
        };
        let position = var(axis) + half(&extent, wanted) - half(wanted, &extent);
        if call.build.ranges().le(wanted, &extent) != Proof::Yes {
            valid.push(Bound { expr: position.clone(), lo: Dim::constant(0), hi: extent });
        }
        index[axis] = position;
        shape[axis] = wanted.clone();
    }
    let map = AccessMap { rank: x.rank(), index, valid };
    Ok(vec![call.build.view_or(&x, map, shape, Const::zero(x.dtype()))?])
}

/// Batch, channels, height and width of an image, and the block size.
fn blocks(call: &Call<'_>) -> Result<(Tracked, [Dim; 4], i64)> {
    let x = call.input(0)?;
    let size = call.int_or("blocksize", 0)?;
    if !(1..1 << 16).contains(&size) {
        let found = size.to_string();
        return Err(Problem::InvalidAttribute { attribute: "blocksize", expected: "a positive number", found });
    }
    match x.shape() {
        [n, c, h, w] => {
            let dims = [n.clone(), c.clone(), h.clone(), w.clone()];
            Ok((x, dims, size))
        }
        shape => Err(mismatch("4 axes", shape)),
    }
}

/// `y[n, c, h, w] = x[n, channel, h div b, w div b]`, the channel made of `c`, `h mod b` and `w mod b`.
fn depth_to_space(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, [n, c, h, w], size) = blocks(call)?;
    let block = Dim::constant(size);
    let area = Dim::constant(size * size);
    if !c.modulo(&area).is_const(0) {
        return Err(mismatch(format!("channels that are a multiple of {area}"), x.shape()));
    }
    let channels = c.floor_div(&area);
    let inner = var(2).modulo(&block).scale(size) + var(3).modulo(&block);
    let mode = call.string("mode", "DCR")?;
    let channel = match mode.as_str() {
        "DCR" => inner * channels.clone() + var(1),
        "CRD" => var(1) * area + inner,
        _ => return Err(Problem::InvalidAttribute { attribute: "mode", expected: "DCR or CRD", found: mode }),
    };
    let index = vec![var(0), channel, var(2).floor_div(&block), var(3).floor_div(&block)];
    Ok(vec![call.build.view(&x, index, vec![n, channels, h.scale(size), w.scale(size)])?])
}

/// The inverse of DepthToSpace in the same mode (before opset 28 always DCR).
fn space_to_depth(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, [n, c, h, w], size) = blocks(call)?;
    let block = Dim::constant(size);
    for extent in [&h, &w] {
        if extent.modulo(&block).as_const().is_some_and(|rest| rest != 0) {
            return Err(mismatch(format!("height and width that are multiples of {size}"), x.shape()));
        }
        let whole = extent.floor_div(&block).scale(size);
        call.build.require_equal("height and width in whole blocks", &whole, extent)?;
    }
    if c.is_const(0) {
        return Err(mismatch("at least one channel", x.shape()));
    }
    let mode = call.string("mode", "DCR")?;
    let (inner, channel) = match mode.as_str() {
        "DCR" => (var(1).floor_div(&c), var(1).modulo(&c)),
        "CRD" => {
            let area = Dim::constant(size * size);
            (var(1).modulo(&area), var(1).floor_div(&area))
        }
        _ => return Err(Problem::InvalidAttribute { attribute: "mode", expected: "DCR or CRD", found: mode }),
    };
    let index =
        vec![var(0), channel, var(2).scale(size) + inner.floor_div(&block), var(3).scale(size) + inner.modulo(&block)];
    let shape = vec![n, c.scale(size * size), h.floor_div(&block), w.floor_div(&block)];
    Ok(vec![call.build.view(&x, index, shape)?])
}

/// Keeps the upper (or lower) triangle of the last two axes.
pub(super) fn trilu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let Some(row) = x.rank().checked_sub(2) else { return Err(mismatch("at least 2 axes", x.shape())) };
    let upper = call.flag("upper", true)?;
    let distance = var(row + 1) - var(row);
    let shape = x.shape().to_vec();
    if let Some(diagonal) = call.optional(1).filter(|d| d.dims().is_none()) {
        // Data like other data: the shape does not depend on it.
        let diagonal = call.build.reshape(&diagonal, &[])?;
        let result = call.build.map_over(shape, &[&x, &diagonal], |body, p| {
            let distance = index(body, distance);
            let diagonal = body.cast(DType::I64, p[1]);
            let kept = body.compare(if upper { CompareOp::Ge } else { CompareOp::Le }, distance, diagonal);
            let zero = body.push(ScalarOp::Const(Const::zero(body.dtype(p[0]))));
            body.select(kept, p[0], zero)
        })?;
        return Ok(vec![result]);
    }
    let diagonal = call.optional_dims(1, "the diagonal")?.and_then(|d| d.first().cloned()).unwrap_or_default();
    let distance = distance - diagonal;
    let (lo, hi) = (Dim::constant(0), x.shape()[row + 1].clone() + x.shape()[row].clone());
    let bound = if upper {
        Bound { expr: distance, lo, hi: hi.scale(2) }
    } else {
        Bound { expr: distance.scale(-1), lo, hi: hi.scale(2) }
    };
    let map = AccessMap { valid: vec![bound], ..AccessMap::identity(x.rank()) };
    Ok(vec![call.build.view_or(&x, map, shape, Const::zero(x.dtype()))?])
}

/// Nothing, outside of training; the mask is all true (before opset 10: one, in the type of the data).
///
/// Up to opset 6 an attribute told training from inference; a model that is compiled is there for inference.
fn dropout(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if let Some(training) = call.optional(2).filter(|_| call.opset >= 12) {
        match training.as_uniform().and_then(Item::scalar).map(|t| t.is_true()) {
            Some(false) => {}
            Some(true) => {
                return Err(Problem::UnsupportedAttribute {
                    attribute: "training_mode",
                    expected: "false",
                    found: "true".to_owned(),
                });
            }
            None => return Err(Problem::DynamicValue { what: "training_mode" }),
        }
    }
    let mask = if call.opset < 10 { x.dtype() } else { DType::Bool };
    if !is_computable(mask) {
        return Err(Problem::UnsupportedType { expected: "f16, f32 or f64", found: mask });
    }
    let mask =
        Tracked::uniform(TensorType::new(mask, x.shape().to_vec()), Item::from_const(Const::from_f64(mask, 1.0)));
    Ok(vec![x, mask])
}
