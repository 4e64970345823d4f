//! Pad: elements before 0 and after the extents, by one access map.
//!
//! Since opset 11 paddings and value are inputs, since 18 the axes, too.

use super::Operator;
use super::axes::ChosenAxes;
use crate::build::{AxisSlice, Builder, MAX_SIZE, Result, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::known::Item;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{Const, ScalarOp};

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Pad", 1, pad)];

/// Positions before 0 and after the extent get a value, or that of another position.
pub(super) fn pad(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let mode = call.string("mode", "constant")?;
    let (before, after) = paddings(call, x.rank())?;
    let value = padding_value(call, &x)?;
    let Cropped { x, before, after, both } = crop(call.build, &x, (&before, &after), mode == "constant")?;
    let mut index: Vec<IndexExpr> = (0..x.rank()).map(var).collect();
    let mut shape = x.shape().to_vec();
    let mut valid = Vec::new();
    for (axis, (before, after)) in before.iter().zip(&after).enumerate() {
        let extent = x.shape()[axis].clone();
        if before.is_const(0) && after.is_const(0) {
            continue;
        }
        let position = var(axis) - before.clone();
        let last = extent.clone() - 1;
        index[axis] = match mode.as_str() {
            "constant" => {
                valid.push(Bound { expr: position.clone(), lo: Dim::constant(0), hi: extent.clone() });
                position
            }
            "edge" => position.maximum(&Dim::constant(0)).minimum(&last),
            // Mirrored at 0, then at the last position.
            "reflect" => {
                for side in [before, after] {
                    call.build.require_at_least("the elements to reflect, but one,", &last, side)?;
                }
                let folded = position.maximum(&position.scale(-1));
                folded.minimum(&(last.scale(2) - folded.clone()))
            }
            "wrap" if extent.is_const(0) => return Err(mismatch("elements to repeat", x.shape())),
            "wrap" => position.modulo(&extent),
            _ => {
                let expected = "constant, edge, reflect or wrap";
                return Err(Problem::InvalidAttribute { attribute: "mode", expected, found: mode });
            }
        };
        shape[axis] = call.build.size("a padded extent", &(extent + both[axis].clone()))?;
    }
    if mode != "constant" {
        for (extent, _) in x.shape().iter().zip(&shape).filter(|(extent, padded)| extent != padded) {
            call.build.require_at_least("the elements to repeat", extent, &Dim::constant(1))?;
        }
    }
    let padded = |build: &mut Builder, otherwise: Const| {
        let map = AccessMap { rank: x.rank(), index: index.clone(), valid: valid.clone() };
        build.view_or(&x, map, shape.clone(), otherwise)
    };
    match value {
        Padding::Known(value) => Ok(vec![padded(call.build, value)?]),
        Padding::Computed(value) => {
            let zero = Const::zero(x.dtype());
            let inner = padded(call.build, zero)?;
            let result = call.build.map_over(shape.clone(), &[&inner, &value], |body, p| {
                let inside = body.push(ScalarOp::InBounds(valid.clone()));
                body.select(inside, p[0], p[1])
            })?;
            Ok(vec![result])
        }
    }
}

/// How much is added before and behind each axis.
fn paddings(call: &mut Call<'_>, rank: usize) -> Result<(Vec<Dim>, Vec<Dim>)> {
    let pads: Vec<Dim> = if call.opset < 11 {
        let pads = call.ints("pads")?.or(call.ints("paddings")?).unwrap_or_default();
        pads.iter().map(|&p| Dim::constant(p)).collect()
    } else {
        call.dims(1, "how much is padded")?
    };
    let given = if call.opset < 18 { None } else { call.optional_dims(3, "the axes that are padded")? };
    let given = given.unwrap_or_else(|| (0..rank as i64).map(Dim::constant).collect());
    if pads.len() != 2 * given.len() {
        return Err(Problem::ShapeMismatch {
            expected: format!("{} paddings", 2 * given.len()),
            found: format!("{}", pads.len()),
        });
    }
    let (first, second) = pads.split_at(given.len());
    let zero = Dim::constant(0);
    if let Some(known) = given.iter().map(Dim::as_const).collect::<Option<Vec<i64>>>() {
        let (mut before, mut after) = (vec![zero.clone(); rank], vec![zero; rank]);
        for ((&given, first), second) in known.iter().zip(first).zip(second) {
            let axis = axis(given, rank)?;
            (before[axis], after[axis]) = (first.clone(), second.clone());
        }
        return Ok((before, after));
    }
    let axes = ChosenAxes::of(call.build, &given, rank)?;
    let side = |pads: &[Dim]| (0..rank).map(|axis| axes.value_for(axis, pads, &zero)).collect();
    Ok((side(first), side(second)))
}

/// What is left of a value whose elements are taken away, and what is added to it.
struct Cropped {
    x: Tracked,
    before: Vec<Dim>,
    after: Vec<Dim>,
    /// On both sides together: known where what is added on one side is what the other one leaves, though neither is.
    both: Vec<Dim>,
}

/// Negative paddings take elements away, before anything is added on other sides, since what is added may be of what is left.
/// Where it is a `constant` it is not, and where both happen to an axis, more may be taken away than is there.
fn crop(build: &mut Builder, x: &Tracked, (before, after): (&[Dim], &[Dim]), constant: bool) -> Result<Cropped> {
    let zero = Dim::constant(0);
    let (mut added, mut both) = ([Vec::new(), Vec::new()], Vec::new());
    let mut slices: Vec<AxisSlice> = x.shape().iter().map(Builder::whole).collect();
    for (slice, pads) in slices.iter_mut().zip(before.iter().zip(after)) {
        let adds = |pad: &Dim| pad.as_const().is_none_or(|pad| pad > 0);
        if constant && (adds(pads.0) || adds(pads.1)) {
            for (added, pad) in added.iter_mut().zip([pads.0, pads.1]) {
                added.push(build.number("a padding", pad, -MAX_SIZE, MAX_SIZE)?);
            }
            both.push(pads.0.clone() + pads.1.clone());
            continue;
        }
        let mut taken = Vec::new();
        for (added, pad) in added.iter_mut().zip([pads.0, pads.1]) {
            let may_crop = pad.as_const().map_or_else(|| build.is_signed(pad), |pad| pad < 0);
            let (plus, minus) = match may_crop {
                true => (pad.maximum(&zero), pad.scale(-1).maximum(&zero)),
                false => (pad.clone(), zero.clone()),
            };
            added.push(build.size("a padding", &plus)?);
            taken.push(build.size("how much is taken away", &minus)?);
        }
        both.extend(added[0].last().zip(added[1].last()).map(|(before, after)| before.clone() + after.clone()));
        if taken.iter().any(|t| !t.is_const(0)) {
            let rest = slice.len.clone() - taken[0].clone() - taken[1].clone();
            slice.len = build.size("what is left of an extent", &rest)?;
            slice.start = taken[0].clone();
        }
    }
    let [before, after] = added;
    Ok(Cropped { x: build.slice(x, &slices)?, before, after, both })
}

/// What padded elements are.
enum Padding {
    Known(Const),
    /// A scalar.
    Computed(Tracked),
}

fn padding_value(call: &mut Call<'_>, x: &Tracked) -> Result<Padding> {
    if call.opset < 11 {
        return Ok(Padding::Known(Const::from_f64(x.dtype(), call.float_or("value", 0.0)?)));
    }
    let Some(value) = call.optional(2) else { return Ok(Padding::Known(Const::zero(x.dtype()))) };
    if value.dtype() != x.dtype() {
        return Err(Problem::TypeMismatch { left: x.dtype(), right: value.dtype() });
    }
    if let Some(known) = value.as_uniform().and_then(Item::scalar) {
        return Ok(Padding::Known(known.to_const(x.dtype())));
    }
    Ok(Padding::Computed(call.build.reshape(&value, &[])?))
}
