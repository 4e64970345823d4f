//! Operators of ONNX Runtime's domain `com.microsoft` that exporters and optimisers write, as its `ContribOperators.md`
//! describes them. Most are made of what imports the standard operators.

mod attention;
mod fused;
mod gather_block_quantized;
mod matmul_n_bits;
mod older;
mod packed_bits;
mod quantized;
mod shorthands;

use super::{Operator, linear_attention};

pub(super) const OPERATORS: &[&[Operator]] = &[
    attention::OPERATORS,
    fused::OPERATORS,
    gather_block_quantized::OPERATORS,
    linear_attention::MICROSOFT,
    matmul_n_bits::OPERATORS,
    older::OPERATORS,
    quantized::OPERATORS,
    shorthands::OPERATORS,
];
