//! Operators of ONNX Runtime that the standard has, too, since: what exporters wrote before it had them.

use crate::build::Result;
use crate::call::Call;
use crate::ops::Operator;
use crate::ops::grid_sample::grid_sample;
use crate::ops::movement::trilu;
use crate::ops::pad::pad;
use crate::ops::reshape::unsqueeze;
use crate::tracked::Tracked;
use std::cell::Cell;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("ExpandDims", 1, |c| as_of(c, 13, unsqueeze)),
    Operator::new("GridSample", 1, |c| as_of(c, 16, grid_sample)),
    Operator::new("Pad", 1, |c| as_of(c, 11, pad)),
    Operator::new("Trilu", 1, |c| as_of(c, 14, trilu)),
];

/// The outputs of a node as those of the standard's operator in an opset, whose inputs and attributes it has.
fn as_of(call: &mut Call<'_>, opset: i64, import: fn(&mut Call<'_>) -> Result<Vec<Tracked>>) -> Result<Vec<Tracked>> {
    let inputs = call.inputs.clone();
    let mut standard = Call { node: call.node, opset, inputs, build: call.build, wanted: Cell::default() };
    let outputs = import(&mut standard);
    let wanted = standard.wanted.take();
    call.wanted.set(wanted);
    outputs
}
