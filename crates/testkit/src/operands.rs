//! Between logical tensors and the buffers that nests and compiled code see.

use crate::inputs::operand_shape;
use infc_ir::entity::EntityId;
use infc_ir::index::Dim;
use infc_ir::interp::{InterpError, run_nest};
use infc_ir::kernel::{Kernel, Operand, OperandKind};
use infc_ir::nest::{BufferKind, LoopNest};
use infc_tensor::{AlignedBytes, Tensor};

fn size(dim: &Dim, symbols: &[i64]) -> usize {
    let value = dim.eval(&|s| symbols.get(s.index()).copied(), &|_| None);
    usize::try_from(value.expect("dims have values")).expect("a size")
}

/// Calls `f` with the positions of every element: in the dense tensor, in the buffer.
fn for_each_element(operand: &Operand, symbols: &[i64], mut f: impl FnMut(usize, usize)) {
    let shape = operand_shape(operand, symbols);
    let strides: Vec<usize> = operand.layout.strides.iter().map(|d| size(d, symbols)).collect();
    let offset = size(&operand.layout.offset, symbols);
    for dense in 0..shape.iter().product() {
        let mut rest = dense;
        let mut at = offset;
        for (extent, stride) in shape.iter().zip(&strides).rev() {
            at += rest % extent * stride;
            rest /= extent;
        }
        f(dense, at);
    }
}

/// The buffer of an operand, filled from a dense tensor; halos and gaps are zero.
///
/// # Panics
/// If the tensor does not fit the operand, or its elements are not whole bytes.
#[must_use]
pub fn pack_operand(operand: &Operand, symbols: &[i64], tensor: &Tensor) -> Tensor {
    assert_eq!(tensor.shape(), operand_shape(operand, symbols), "`{}`", operand.name);
    let width = operand.dtype.size_bytes().expect("whole bytes");
    let len = size(&operand.layout.len_elems, symbols);
    let mut bytes = AlignedBytes::zeroed(len * width);
    for_each_element(operand, symbols, |from, to| {
        bytes[to * width..][..width].copy_from_slice(&tensor.bytes()[from * width..][..width]);
    });
    Tensor::from_bytes(operand.dtype, vec![len], bytes).expect("as many bytes as elements")
}

/// The dense tensor in the buffer of an operand.
///
/// # Panics
/// If the buffer is too short, or its elements are not whole bytes.
#[must_use]
pub fn unpack_operand(operand: &Operand, symbols: &[i64], buffer: &Tensor) -> Tensor {
    let width = operand.dtype.size_bytes().expect("whole bytes");
    let mut tensor = Tensor::zeros(operand.dtype, &operand_shape(operand, symbols)).expect("small");
    let bytes = tensor.bytes_mut();
    for_each_element(operand, symbols, |to, from| {
        bytes[to * width..][..width].copy_from_slice(&buffer.bytes()[from * width..][..width]);
    });
    tensor
}

/// A buffer for an output: all bits set (NaN, −1), so that what is not written shows.
///
/// # Panics
/// If its elements are not whole bytes.
#[must_use]
pub fn poisoned_buffer(operand: &Operand, symbols: &[i64]) -> Tensor {
    let len = size(&operand.layout.len_elems, symbols);
    let mut tensor = Tensor::zeros(operand.dtype, &[len]).expect("small");
    tensor.bytes_mut().fill(0xff);
    tensor
}

/// Interprets the loop nest of a kernel on dense inputs, as [`infc_ir::interp::run_kernel`] does with the kernel.
///
/// # Errors
/// What [`run_nest`] finds wrong.
///
/// # Panics
/// If the nest's arguments are not the kernel's operands.
pub fn run_nest_of(
    kernel: &Kernel,
    nest: &LoopNest,
    symbols: &[i64],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, InterpError> {
    let mut inputs = inputs.iter();
    let packed: Vec<Tensor> = kernel
        .operands
        .iter()
        .map(|operand| match operand.kind {
            OperandKind::Output => poisoned_buffer(operand, symbols),
            _ => pack_operand(operand, symbols, inputs.next().expect("one tensor per input")),
        })
        .collect();
    let mut arguments: Vec<_> = nest
        .buffers
        .iter()
        .filter_map(|b| match b.kind {
            BufferKind::Operand { operand, argument, .. } => Some((argument, operand)),
            BufferKind::Local(_) => None,
        })
        .collect();
    arguments.sort_unstable();
    let mut buffers: Vec<Tensor> = arguments.iter().map(|(_, operand)| packed[operand.index()].clone()).collect();
    run_nest(nest, symbols, &mut buffers)?;
    let outputs = kernel.operands.iter_enumerated().filter(|(_, o)| o.kind == OperandKind::Output);
    Ok(outputs
        .map(|(id, operand)| {
            let at = arguments.iter().position(|(_, o)| *o == id).expect("every output is an argument");
            unpack_operand(operand, symbols, &buffers[at])
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::kernel::Kernel;

    #[test]
    fn packing_puts_elements_where_the_layout_says() {
        let text = "kernel @k(x: f32[2, 3] layout(order [1, 0], halo [1:0, 0:1])) {}";
        let kernel: Kernel = text.parse().expect("parses");
        let operand = kernel.operands.iter().next().expect("one operand");
        let x = Tensor::from_elements(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("fits");
        let packed = pack_operand(operand, &[], &x);
        let expected = [0f32, 1.0, 4.0, 0.0, 2.0, 5.0, 0.0, 3.0, 6.0, 0.0, 0.0, 0.0];
        assert_eq!(packed.elements::<f32>(), Ok(&expected[..]));
        assert_eq!(unpack_operand(operand, &[], &packed), x);
    }
}
