//! Quantised arithmetic stays in integers (ARCHITECTURE.md D11).
//!
//! A quantised number `q` stands for `(q − zero)·scale`. Models say so in floats (`DequantizeLinear → Conv →
//! QuantizeLinear`) or in integers with zero points taken out (`ConvInteger`, `QLinearConv`). Both end in the same form:
//! a contraction of bytes, one of them signed and one not, that is summed in i32; corrections for zero points, which
//! constant folding computes where the other operand is constant; and a map that scales the sum.
//!
//! [`contraction`] takes scales out of contractions, [`offset`] zero points and signs, [`extremum`] both out of maxima,
//! [`gaps`] sums what lies between what is summed as well, [`group`] makes whole groups of it, [`requantize`] divides by
//! multiplying, [`round_trip`] removes what returns to where it began. The pass runs before maps are fused and constants
//! folded, which hide what it looks for.

mod contraction;
mod extremum;
mod gaps;
mod group;
mod offset;
mod operand;
mod requantize;
mod round_trip;

pub(super) use group::dot;

use super::rewrite::{Rule, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::graph::Graph;

/// More than rules that follow on each other.
const MOST_SWEEPS: u32 = 8;

const RULES: &[Rule] = &[
    round_trip::quantized_again,
    extremum::of_steps,
    contraction::integers,
    offset::zero_point,
    offset::constant_zero_point,
    offset::byte_constant,
    offset::equal_signs,
    gaps::filled,
    group::whole_groups,
    requantize::product_for_quotient,
];

/// Applies the rules.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    let mut any = Changed::No;
    // One rule makes what the next one looks for, and other passes would fuse it away in between.
    for _ in 0..MOST_SWEEPS {
        let changed = sweep(graph, cx, RULES);
        any = any.or(changed);
        if changed == Changed::No {
            break;
        }
    }
    Ok(any)
}
