//! Operators that keep the elements in row-major order: Reshape, Flatten, Squeeze, Unsqueeze.

use super::Operator;
use super::axes::Axes;
use crate::build::{Builder, Result, mismatch, product, quotient, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::index::Dim;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Reshape", 1, reshape),
    Operator::new("Flatten", 1, flatten),
    Operator::new("Squeeze", 1, squeeze),
    Operator::new("Unsqueeze", 1, unsqueeze),
    Operator::new("Identity", 1, |c| Ok(vec![c.input(0)?])),
];

/// The target is an attribute before opset 5, an input from then on. In it, 0 stands for the input's extent (unless `allowzero`), and one −1 for what is left.
fn reshape(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let allow_zero = call.flag("allowzero", false)?;
    let mut target: Vec<Dim> = match call.opset {
        ..5 => {
            let given = call.ints("shape")?.ok_or(Problem::InvalidAttribute {
                attribute: "shape",
                expected: "the target shape",
                found: "missing".to_owned(),
            })?;
            given.iter().map(|&d| Dim::constant(d)).collect()
        }
        _ => call.dims(1, "the target shape")?,
    };
    if target.iter().any(|dim| call.build.is_signed(dim)) {
        let shape = chosen_shape(call.build, x.shape(), &target, allow_zero)?;
        return Ok(vec![call.build.reshape(&x, &shape)?]);
    }
    let mut inferred = None;
    for (n, dim) in target.iter_mut().enumerate() {
        match dim.as_const() {
            Some(0) if !allow_zero => {
                *dim =
                    x.shape().get(n).cloned().ok_or_else(|| mismatch(format!("at least {} axes", n + 1), x.shape()))?;
            }
            Some(-1) if inferred.is_none() => inferred = Some(n),
            Some(d) if d < 0 => {
                return Err(Problem::ShapeMismatch {
                    expected: "extents, and -1 at most once".to_owned(),
                    found: format!("the target shape has {d} on axis {n}"),
                });
            }
            _ => {}
        }
    }
    if let Some(n) = inferred {
        let others: Vec<Dim> = target.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, d)| d.clone()).collect();
        let whole = call.build.restated(x.shape());
        let unequal =
            || -> Result<Problem> { Ok(mismatch(format!("a multiple of {} elements", product(&others)?), x.shape())) };
        target[n] = match quotient(&whole, &call.build.restated(&others))? {
            Some((rest, true)) => rest,
            // Whether it goes without remainder is seen by `reshape`.
            Some((rest, false)) if rest.as_const().is_none() => {
                call.build.short_extent("what is left of a shape", &rest)
            }
            _ => return Err(unequal()?),
        };
    }
    Ok(vec![call.build.reshape(&x, &target)?])
}

/// The shape for a target in which only the run will tell what is 0 or −1. Whatever does not fit makes another number of
/// elements, or an extent below 0.
fn chosen_shape(build: &mut Builder, shape: &[Dim], target: &[Dim], allow_zero: bool) -> Result<Vec<Dim>> {
    const WHAT: &str = "an extent of the target shape";
    let mut known = Vec::with_capacity(target.len());
    let mut inferred = Vec::with_capacity(target.len());
    for (n, dim) in target.iter().enumerate() {
        let kept = if allow_zero { None } else { shape.get(n) };
        let copied = kept.map(|kept| truth::equal(dim, &Dim::constant(0)) * kept.clone()).unwrap_or_default();
        let rest = truth::equal(dim, &Dim::constant(-1));
        // For what is left stands 1 for now.
        known.push(build.size(WHAT, &(dim.clone() + copied + rest.scale(2)))?);
        inferred.push(rest);
    }
    if inferred.iter().all(|rest| rest.is_const(0)) {
        return Ok(known);
    }
    let whole = product(&build.restated(shape))?;
    let others = build.size("the elements of the other axes", &product(&known)?)?;
    let rest = whole.floor_div(&others.maximum(&Dim::constant(1)));
    known
        .iter()
        .zip(&inferred)
        .map(|(extent, inferred)| build.size(WHAT, &truth::either(inferred, &rest, extent)))
        .collect()
}

/// Two axes: what is before `axis`, and the rest.
fn flatten(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let given = call.int_or("axis", 1)?;
    let axis = if given == x.rank() as i64 { x.rank() } else { crate::call::axis(given, x.rank())? };
    let shape = [product(&x.shape()[..axis])?, product(&x.shape()[axis..])?];
    Ok(vec![call.build.reshape(&x, &shape)?])
}

fn squeeze(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let dropped = match call.dims_moved("axes", 1, 13)? {
        Some(given) => match Axes::of(call.build, &given, x.rank())? {
            Axes::Known(axes) => axes,
            Axes::Chosen(axes) => {
                let shape = axes.removed(call.build, x.shape())?;
                return Ok(vec![call.build.reshape(&x, &shape)?]);
            }
        },
        None => call.build.ones(x.shape())?,
    };
    for &n in &dropped {
        call.build.assume_equal("a squeezed extent and 1", &x.shape()[n], &Dim::constant(1))?;
    }
    let kept: Vec<Dim> = (0..x.rank()).filter(|n| !dropped.contains(n)).map(|n| x.shape()[n].clone()).collect();
    if dropped.iter().all(|&n| x.shape()[n].is_const(1)) {
        return Ok(vec![call.build.reshape(&x, &kept)?]);
    }
    // Of an extent that only the run will show to be 1, the first element is the one.
    let mut coordinates = (0..kept.len()).map(var);
    let index = (0..x.rank())
        .map(|n| if dropped.contains(&n) { None } else { coordinates.next() }.unwrap_or_default())
        .collect();
    Ok(vec![call.build.view(&x, index, kept)?])
}

pub(super) fn unsqueeze(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let given = call.dims_moved("axes", 1, 13)?.ok_or(Problem::MissingInput { index: 1 })?;
    let shape = match Axes::of(call.build, &given, x.rank() + given.len())? {
        Axes::Known(added) => {
            let mut shape = x.shape().to_vec();
            added.iter().for_each(|&axis| shape.insert(axis, Dim::constant(1)));
            shape
        }
        Axes::Chosen(axes) => axes.inserted(call.build, x.shape())?,
    };
    Ok(vec![call.build.reshape(&x, &shape)?])
}
