//! Parts of a value: Slice, Split.

use super::Operator;
use super::axes::ChosenAxes;
use crate::build::{AxisSlice, Builder, Result, is_long};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::graph::SLICE_POSITION;
use infc_ir::index::{Dim, Ranges};

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Slice", 1, slice), Operator::new("Split", 1, split)];

/// Positions as large as these mean "the end", whatever the extent.
const ENDS: [i64; 2] = [i32::MAX as i64, 1 << 41];

/// As far as numbers of the run may go.
const FAR: i64 = 1 << 40;

/// What is "the end", or beyond the start, no further than arithmetic with numbers of the run allows. A step that leads
/// beyond the axis may be any that does.
fn near(build: &mut Builder, position: &Dim) -> Dim {
    match position.as_const() {
        Some(position) => Dim::constant(position.clamp(-FAR, FAR)),
        None => build.saturated(position),
    }
}

/// Positions are attributes before opset 10, inputs from then on; they may be negative, or lie outside of the axis.
fn slice(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let attribute = |name: &'static str| -> Result<Option<Vec<Dim>>> {
        Ok(call.ints(name)?.map(|list| list.iter().map(|&v| Dim::constant(v)).collect()))
    };
    let (starts, ends, axes, steps) = if call.opset < 10 {
        let missing = |name| Problem::InvalidAttribute { attribute: name, expected: "a list", found: "missing".into() };
        let starts = attribute("starts")?.ok_or_else(|| missing("starts"))?;
        let ends = attribute("ends")?.ok_or_else(|| missing("ends"))?;
        (starts, ends, attribute("axes")?, None)
    } else {
        let starts = call.dims(1, "where a slice starts")?;
        let ends = call.dims(2, "where a slice ends")?;
        (starts, ends, call.optional_dims(3, "axes")?, call.optional_dims(4, "the step of a slice")?)
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).map(Dim::constant).collect());
    let steps = steps.unwrap_or_else(|| vec![Dim::constant(1); starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(Problem::ShapeMismatch {
            expected: "starts, ends, axes and steps of one length".to_owned(),
            found: format!("{}, {}, {} and {}", starts.len(), ends.len(), axes.len(), steps.len()),
        });
    }
    let mut slices: Vec<AxisSlice> = x.shape().iter().map(Builder::whole).collect();
    if let Some(known) = axes.iter().map(Dim::as_const).collect::<Option<Vec<i64>>>() {
        for (((start, end), &given), step) in starts.iter().zip(&ends).zip(&known).zip(&steps) {
            let axis = axis(given, x.rank())?;
            slices[axis] = axis_slice(call.build, &x.shape()[axis], start, end, step)?;
        }
        return Ok(vec![call.build.slice(&x, &slices)?]);
    }
    let axes = ChosenAxes::of(call.build, &axes, x.rank())?;
    let [starts, ends, steps] =
        [starts, ends, steps].map(|list| list.iter().map(|p| near(call.build, p)).collect::<Vec<_>>());
    for (axis, slice) in slices.iter_mut().enumerate() {
        // What is taken whole goes from 0 to the extent.
        let extent = slice.len.clone();
        let start = axes.value_for(axis, &starts, &Dim::constant(0));
        let end = axes.value_for(axis, &ends, &extent);
        let step = axes.value_for(axis, &steps, &Dim::constant(1));
        *slice = chosen_slice(call.build, &extent, &start, &end, &step)?;
    }
    Ok(vec![call.build.slice(&x, &slices)?])
}

/// A position counted from the start, where negative ones count from the end. One that may be either is taken to count
/// from the start, unless it is at most 0 whatever the dims are, follows from numbers of the run, or nothing is taken for
/// granted of it (`Builder::extents_differ`).
pub(super) fn from_start(build: &mut Builder, what: &'static str, p: &Dim, extent: &Dim) -> Result<Dim> {
    let either = || p.clone() + truth::negative(p) * extent.clone();
    if build.is_signed(p) {
        return Ok(either());
    }
    let interval = build.ranges().interval(&build.restated(std::slice::from_ref(p))[0]);
    match (interval.min, interval.max) {
        (_, Some(max)) if max < 0 => Ok(p.clone() + extent.clone()),
        (Some(0..), _) => Ok(p.clone()),
        _ if build.extents_differ => Ok(either()),
        (Some(min), Some(0)) if min < 0 => {
            build.require_at_least(what, &p.scale(-1), &Dim::constant(1))?;
            Ok(p.clone() + extent.clone())
        }
        _ => {
            build.require_at_least(what, p, &Dim::constant(0))?;
            Ok(p.clone())
        }
    }
}

/// One axis, by NumPy's rules.
fn axis_slice(build: &mut Builder, extent: &Dim, start: &Dim, end: &Dim, step: &Dim) -> Result<AxisSlice> {
    if [start, end, step].into_iter().any(|d| build.is_signed(d)) {
        return chosen_slice(build, extent, start, end, step);
    }
    let step = step.as_const().ok_or(Problem::DynamicValue { what: "the step of a slice" })?;
    if step == 0 || step.unsigned_abs() > 1 << 41 {
        return Err(Problem::ShapeMismatch {
            expected: "a step other than 0".to_owned(),
            found: format!("step {step}"),
        });
    }
    let mut position = |p: &Dim| -> Result<Dim> {
        match p.as_const() {
            Some(p) if p == ENDS[0] || p >= ENDS[1] => Ok(extent.clone()),
            Some(p) if p <= -ENDS[0] => Ok(Dim::constant(-1)),
            _ => from_start(build, SLICE_POSITION, p, extent),
        }
    };
    let (start, end) = (position(start)?, position(end)?);
    let slice = known_slice(&build.ranges(), extent, &start, &end, step);
    if slice.len == *extent || !is_long(&slice.len) || step < 0 {
        return Ok(slice);
    }
    // The lesser of two sums of many extents is neither. What lies before the axis begins where it does.
    let what = "an extent of a slice";
    let zero = Dim::constant(0);
    let [extent, start, end] =
        [extent.clone(), start.maximum(&zero), end.maximum(&zero)].map(|d| build.short_extent(what, &d));
    Ok(known_slice(&build.ranges(), &extent, &start, &end, step))
}

/// The slice between two positions that are counted from the start, and may lie outside of the axis.
fn known_slice(ranges: &Ranges, extent: &Dim, start: &Dim, end: &Dim, step: i64) -> AxisSlice {
    let zero = Dim::constant(0);
    let simple = |d: Dim| d.simplify(ranges);
    let clamp = |p: &Dim, lo: &Dim, hi: &Dim| simple(simple(p.maximum(lo)).minimum(hi));
    let (start, len) = if step > 0 {
        let end = clamp(end, &zero, extent);
        // From within the first step there are as many as up to the end, though that may come before the start.
        let is_in_first = start.as_const().is_some_and(|start| (0..step).contains(&start));
        let start = if is_in_first { start.clone() } else { clamp(start, &zero, extent) };
        let len = (end - start.clone()).ceil_div(&Dim::constant(step));
        (start, len)
    } else {
        let (last, before) = (extent.clone() - 1, Dim::constant(-1));
        let (start, end) = (clamp(start, &zero, &last), clamp(end, &before, &last));
        let len = (start.clone() - end).ceil_div(&Dim::constant(-step));
        (start, len)
    };
    AxisSlice { start, step: Dim::constant(step), len: simple(simple(len).maximum(&zero)) }
}

/// As `axis_slice`, where only the run will tell which positions count from the end, and perhaps the direction.
fn chosen_slice(build: &mut Builder, extent: &Dim, start: &Dim, end: &Dim, step: &Dim) -> Result<AxisSlice> {
    let what = "a position of a slice";
    let mut position = |p: &Dim| -> Result<Dim> {
        let p = near(build, p);
        let counted = p.clone() + truth::negative(&p) * extent.clone();
        build.number(what, &counted, -2 * FAR, 2 * FAR)
    };
    let (start, end) = (position(start)?, position(end)?);
    let step = near(build, step);
    let step = build.number("the step of a slice", &step, -FAR, FAR)?;
    let length = build.number("the length of a step", &truth::magnitude(&step), 1, FAR)?;
    let backwards = truth::negative(&step);
    // Forwards from 0 to the extent, backwards from the last to before the first.
    let last = extent.clone() - backwards.clone();
    let start = truth::clamp(&start, &Dim::constant(0), &last);
    let end = truth::clamp(&end, &backwards.scale(-1), &last);
    let start = build.number("the start of a slice", &start, -1, FAR)?;
    let span = truth::either(&backwards, &(start.clone() - end.clone()), &(end - start.clone()));
    // Whatever the positions are, there is no more than the axis has.
    let len = span.maximum(&Dim::constant(0)).ceil_div(&length).minimum(extent);
    Ok(AxisSlice { start, step, len: build.size("the length of a slice", &len)? })
}

/// Lengths are an attribute before opset 13 (in opset 1 maybe an input) and an input from then on; without them the
/// parts are equal.
fn split(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.rank())?;
    let extent = x.shape()[axis].clone();
    if call.opset < 2 {
        call.take_for_integers(1)?;
    }
    let attribute = match call.opset {
        ..13 => call.ints("split")?.map(|list| list.iter().map(|&v| Dim::constant(v)).collect()),
        _ => None,
    };
    let given = match call.opset {
        2..13 => attribute,
        _ if attribute.is_some() => attribute,
        _ => call.optional_sizes(1, "the lengths of the parts")?,
    };
    let count = call.output_count() as i64;
    let lengths = match given {
        Some(lengths) => lengths,
        None => {
            // The last part may be shorter.
            let parts = call.int_or("num_outputs", count)?;
            if !(1..=count).contains(&parts) {
                let expected = "the number of outputs";
                let found = parts.to_string();
                return Err(Problem::InvalidAttribute { attribute: "num_outputs", expected, found });
            }
            let length = extent.ceil_div(&Dim::constant(parts));
            let mut lengths = vec![length.clone(); parts as usize - 1];
            lengths.push(extent.clone() - length.scale(parts - 1));
            lengths
        }
    };
    if (lengths.len() as i64) < count {
        return Err(Problem::ShapeMismatch {
            expected: format!("{count} parts"),
            found: format!("{} lengths", lengths.len()),
        });
    }
    let total: Dim = lengths.iter().cloned().sum();
    call.build.require_equal("the lengths of the parts and the whole", &total, &extent)?;
    let mut start = Dim::constant(0);
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        parts.push(call.build.slice_axis(&x, axis, start.clone(), length.clone())?);
        start = start + length;
    }
    Ok(parts)
}
