//! Between logical tensors and the buffers that loop nests and machine code see.

use crate::inputs::operand_shape;
use infc_ir::entity::EntityId;
use infc_ir::entity::SymbolId;
use infc_ir::index::Dim;
use infc_ir::kernel::{Kernel, Operand};
use infc_tensor::{AlignedBytes, Tensor};

/// The buffer of an operand: a logical tensor laid out, with zeros in halo and gaps; without a value, poison (all
/// bits set, which is a NaN for floats).
///
/// # Panics
/// If a size is not one.
#[must_use]
pub fn to_physical(operand: &Operand, symbols: &[i64], value: Option<&Tensor>) -> Tensor {
    let size = operand.dtype.size_bytes().expect("whole bytes");
    let len = eval(&operand.layout.len_elems, symbols);
    let mut bytes = AlignedBytes::zeroed(len * size);
    match value {
        Some(value) => {
            for (logical, physical) in positions(operand, symbols).enumerate() {
                bytes[physical * size..][..size].copy_from_slice(&value.bytes()[logical * size..][..size]);
            }
        }
        None => bytes.fill(0xff),
    }
    Tensor::from_bytes(operand.dtype, vec![len], bytes).expect("as many bytes as elements need")
}

/// The logical tensor in a buffer.
///
/// # Panics
/// If a size is not one.
#[must_use]
pub fn from_physical(operand: &Operand, symbols: &[i64], buffer: &Tensor) -> Tensor {
    let size = operand.dtype.size_bytes().expect("whole bytes");
    let shape = operand_shape(operand, symbols);
    let mut bytes = AlignedBytes::zeroed(shape.iter().product::<usize>() * size);
    for (logical, physical) in positions(operand, symbols).enumerate() {
        bytes[logical * size..][..size].copy_from_slice(&buffer.bytes()[physical * size..][..size]);
    }
    Tensor::from_bytes(operand.dtype, shape, bytes).expect("as many bytes as the shape needs")
}

/// Symbol values worth trying: small ones, and such that fill a vector and leave a remainder.
#[must_use]
pub fn symbol_choices(kernel: &Kernel) -> Vec<Vec<i64>> {
    if kernel.symbols.is_empty() {
        return vec![Vec::new()];
    }
    let of = |wanted: i64| kernel.symbols.iter().map(|s| wanted.min(s.max.unwrap_or(wanted)).max(s.min)).collect();
    let mut choices: Vec<Vec<i64>> = [1, 5, 17, 33].into_iter().map(of).collect();
    choices.dedup();
    choices
}

fn eval(dim: &Dim, symbols: &[i64]) -> usize {
    let symbol = |s: SymbolId| symbols.get(s.index()).copied();
    let value = dim.eval(&symbol, &|_| None).expect("all symbols have values");
    usize::try_from(value).expect("sizes are not negative")
}

/// Flat buffer positions of an operand's elements, in row-major order of their coordinates.
fn positions(operand: &Operand, symbols: &[i64]) -> impl Iterator<Item = usize> {
    let shape = operand_shape(operand, symbols);
    let strides: Vec<usize> = operand.layout.strides.iter().map(|s| eval(s, symbols)).collect();
    let offset = eval(&operand.layout.offset, symbols);
    let len: usize = shape.iter().product();
    (0..len).map(move |logical| {
        let mut rest = logical;
        let mut physical = offset;
        for (extent, stride) in shape.iter().zip(&strides).rev() {
            physical += (rest % extent) * stride;
            rest /= extent;
        }
        physical
    })
}
