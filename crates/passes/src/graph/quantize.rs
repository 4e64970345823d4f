//! Quantised arithmetic stays in integers (ARCHITECTURE.md D11).
//!
//! A quantised number `q` stands for `(q − zero)·scale`. Models say so in floats (`DequantizeLinear → Conv →
//! QuantizeLinear`) or in integers with zero points taken out (`ConvInteger`, `QLinearConv`). Both end in the same form:
//! a contraction of bytes, one of them signed and one not, that is summed in i32; corrections for zero points, which
//! constant folding computes where the other operand is constant; and a map that scales the sum.
//!
//! [`contraction`] takes scales out of contractions, [`offset`] zero points and signs, [`requantize`] divides by
//! multiplying, [`round_trip`] removes what returns to where it began. The pass runs before maps are fused and
//! constants folded, which hide what it looks for.

mod contraction;
mod offset;
mod operand;
mod requantize;
mod round_trip;

use super::rewrite::{Rule, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::graph::Graph;

const RULES: &[Rule] = &[
    round_trip::quantized_again,
    contraction::integers,
    offset::zero_point,
    offset::byte_constant,
    offset::equal_signs,
    requantize::product_for_quotient,
];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}
