//! Between logical tensors and the buffers that loop nests and machine code see.

use crate::inputs::operand_shape;
use infc_ir::entity::EntityId;
use infc_ir::entity::SymbolId;
use infc_ir::index::Dim;
use infc_ir::interp::{InterpError, run_nest};
use infc_ir::kernel::{Kernel, Operand, OperandKind};
use infc_ir::nest::LoopNest;
use infc_tensor::{AlignedBytes, Tensor};

/// The buffer of an operand: a logical tensor laid out, with its fill in halo and gaps; without a value, poison (all
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
            let fill = operand.layout.fill.to_le_bytes();
            bytes.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(&fill[..size]));
            assert_eq!(value.len_elems(), positions(operand, symbols).count(), "`{}`", operand.name);
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

/// The buffers of a kernel's operands, in their order: inputs laid out, outputs poisoned so that what is not written
/// shows, but for those that are written onto an input: they are that input's.
///
/// # Panics
/// If there are not as many inputs as the kernel has, or a size is not one.
#[must_use]
pub fn buffers_of(kernel: &Kernel, symbols: &[i64], inputs: &[Tensor]) -> Vec<Tensor> {
    let mut inputs = inputs.iter();
    let mut buffers: Vec<Tensor> = kernel
        .operands
        .iter()
        .map(|operand| {
            let value = (operand.kind != OperandKind::Output).then(|| inputs.next().expect("an input per operand"));
            to_physical(operand, symbols, value)
        })
        .collect();
    assert!(inputs.next().is_none(), "more inputs than `{}` has", kernel.name);
    for output in &kernel.outputs {
        if let Some(onto) = output.onto {
            buffers[output.operand.index()] = buffers[onto.index()].clone();
        }
    }
    buffers
}

/// The logical outputs in the buffers of a kernel's operands.
///
/// # Panics
/// If a size is not one.
#[must_use]
pub fn outputs_in(kernel: &Kernel, symbols: &[i64], buffers: &[Tensor]) -> Vec<Tensor> {
    let outputs = kernel.operands.iter().zip(buffers).filter(|(o, _)| o.kind == OperandKind::Output);
    outputs.map(|(operand, buffer)| from_physical(operand, symbols, buffer)).collect()
}

/// Interprets the loop nest of a kernel on logical inputs, as [`infc_ir::interp::run_kernel`] does with the kernel.
///
/// # Errors
/// What [`run_nest`] finds wrong.
///
/// # Panics
/// If there are not as many inputs as the kernel has.
pub fn run_nest_of(
    kernel: &Kernel,
    nest: &LoopNest,
    symbols: &[i64],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, InterpError> {
    let mut buffers = buffers_of(kernel, symbols, inputs);
    run_nest(nest, symbols, &mut buffers)?;
    Ok(outputs_in(kernel, symbols, &buffers))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_where_the_layout_says() {
        let text = "kernel @k(x: f32[2, 3] layout(order [1, 0], halo [1:0, 0:1])) {}";
        let kernel: Kernel = text.parse().expect("parses");
        let operand = kernel.operands.iter().next().expect("one operand");
        let x = Tensor::from_elements(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("fits");
        let buffer = to_physical(operand, &[], Some(&x));
        let expected = [0f32, 1.0, 4.0, 0.0, 2.0, 5.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0];
        assert_eq!(buffer.elements::<f32>(), Ok(&expected[..]));
        assert_eq!(from_physical(operand, &[], &buffer), x);
    }
}
