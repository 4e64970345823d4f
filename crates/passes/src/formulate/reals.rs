//! Sums of products of bytes are computed in floats, where these are exact and no dot product takes the sum.
//!
//! A depthwise convolution has one product per channel and tap, so that there are no neighbours that a dot product would
//! sum, and multiplying 32-bit integers takes two instructions on one port of Intel's processors (`vpmulld`), where two
//! fused multiply-adds start in a cycle. A product of two bytes has 16 bits; as long as sums stay below 2²⁴, every float is
//! the integer that it stands for. Error class: exact.

use infc_ir::entity::{ScalarId, StageId};
use infc_ir::kernel::{AxisKind, Kernel, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Body, Const, Load, ScalarOp, Source};
use infc_tensor::DType;

/// Integers up to here are floats of 32 bits.
const LARGEST_EXACT: i64 = 1 << 24;
/// The largest product of two bytes, as to its size.
const LARGEST_PRODUCT: i64 = 255 * 255;
/// Axes with whole groups of so many are what dot products sum along.
const GROUP: i64 = 4;

/// Runs over all stages.
#[must_use]
pub fn run(mut kernel: Kernel) -> Kernel {
    for id in kernel.stages.ids() {
        if let Some(body) = in_floats(&kernel, id) {
            let stage = &mut kernel.stages[id];
            (stage.body, stage.results) = body;
            stage.reducer = Some(Reducer::sum(DType::F32));
            for reader in kernel.stages.iter_mut() {
                read_floats(reader, id);
            }
        }
    }
    kernel
}

/// The body of a stage in floats, if its sum is one that is to be.
fn in_floats(kernel: &Kernel, id: StageId) -> Option<(Body, Vec<ScalarId>)> {
    let stage = &kernel.stages[id];
    if stage.reducer.as_ref() != Some(&Reducer::sum(DType::I32)) || kernel.outputs.iter().any(|o| o.stage == id) {
        return None;
    }
    let mut points = 1i64;
    for axis in stage.axes.iter().filter(|axis| axis.kind == AxisKind::Reduce) {
        let extent = axis.extent.as_const().filter(|extent| extent % GROUP != 0)?;
        points = points.checked_mul(extent)?;
    }
    if points.checked_mul(LARGEST_PRODUCT)? > LARGEST_EXACT || kernel.recurrence_of(id).is_some() {
        return None;
    }
    let factors = factors(stage)?;
    let [a, b] = factors.map(|load| parallel_axes(stage, load));
    let within = |small: &[usize], large: &[usize]| !small.is_empty() && small.iter().all(|axis| large.contains(axis));
    if !within(&a, &b) && !within(&b, &a) {
        return None;
    }
    let mut body = Body::default();
    let [a, b] = factors.map(|load| {
        let byte = body.push(ScalarOp::Load(load.clone()));
        body.cast(DType::F32, byte)
    });
    let product = body.binary(BinaryOp::Mul, a, b);
    Some((body, vec![product]))
}

/// The two bytes that a stage multiplies, if it does nothing else.
fn factors(stage: &Stage) -> Option<[&Load; 2]> {
    let [result] = stage.results[..] else { return None };
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = stage.body.ops[result] else { return None };
    let byte = |id: ScalarId| match &stage.body.ops[id] {
        ScalarOp::Cast(DType::I32, of) => match &stage.body.ops[*of] {
            ScalarOp::Load(load) => {
                (matches!(load.dtype, DType::U8 | DType::I8) && load.gather.is_empty()).then_some(load)
            }
            _ => None,
        },
        _ => None,
    };
    Some([byte(a)?, byte(b)?])
}

/// The axes of results along which a load moves.
fn parallel_axes(stage: &Stage, load: &Load) -> Vec<usize> {
    let axes = stage.axes.iter().enumerate().filter(|(_, axis)| axis.kind == AxisKind::Parallel);
    axes.map(|(n, _)| n).filter(|&n| load.index.iter().any(|e| e.uses_var(infc_ir::entity::VarId(n as u32)))).collect()
}

/// What reads the stage reads floats, and makes integers of them where it does not want floats.
fn read_floats(reader: &mut Stage, id: StageId) {
    let is_sum = |load: &Load| matches!(load.source, Source::Stage(of, _) if of == id);
    if !reader.body.ops.iter().any(|op| matches!(op, ScalarOp::Load(load) if is_sum(load))) {
        return;
    }
    let mut body = Body::default();
    let results = body.import(&reader.body, &reader.results, &mut |body, op| match op {
        ScalarOp::Load(load) if is_sum(load) => {
            let otherwise = Const::from_f64(DType::F32, load.otherwise.to_f64());
            let sum = body.push(ScalarOp::Load(Load { dtype: DType::F32, otherwise, ..load.clone() }));
            Some(body.cast(DType::I32, sum))
        }
        ScalarOp::Cast(DType::F32, of) => match &body.ops[*of] {
            ScalarOp::Cast(DType::I32, sum) if matches!(&body.ops[*sum], ScalarOp::Load(load) if is_sum(load)) => {
                Some(*sum)
            }
            _ => None,
        },
        _ => None,
    });
    // Without the integers that nobody wants.
    let mut needed = Body::default();
    reader.results = needed.import(&body, &results, &mut |_, _| None);
    reader.body = needed;
}
