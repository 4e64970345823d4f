//! Running PTX: a module through the simulator, on the buffers of a kernel.

#![allow(dead_code, reason = "each test file uses its part")]

use infc_codegen_ptx::PtxModule;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::LoopNest;
use infc_ptxsim::{Buffer, SimError};
use infc_simgpu::launch;
use infc_tensor::{AlignedBytes, Tensor};

/// Launches text that may differ from the module's own, on logical inputs; gives the logical outputs.
///
/// Outputs begin uninitialised, and everything outside of the inputs is poison.
pub(crate) fn execute(
    kernel: &Kernel,
    nest: &LoopNest,
    module: &PtxModule,
    text: &str,
    symbols: &[i64],
    inputs: &[Tensor],
    seed: u64,
) -> Result<Vec<Tensor>, SimError> {
    let mut tensors = infc_testkit::buffers_of(kernel, symbols, inputs);
    let mut buffers: Vec<Buffer> = kernel
        .operands
        .iter_enumerated()
        .zip(&tensors)
        .map(|((id, operand), tensor)| match operand.kind {
            OperandKind::Output if kernel.outputs.iter().any(|o| o.operand == id && o.onto.is_some()) => {
                Buffer::replaceable(tensor.bytes().to_vec())
            }
            OperandKind::Output => Buffer::output(tensor.bytes().len()),
            OperandKind::Input | OperandKind::Constant => Buffer::input(tensor.bytes().to_vec()),
        })
        .collect();
    let places: Vec<usize> = (0..buffers.len()).collect();
    launch(nest, module, text, symbols, &mut buffers, &places, seed)?;
    for ((operand, tensor), buffer) in kernel.operands.iter().zip(&mut tensors).zip(buffers) {
        if operand.kind == OperandKind::Output {
            let bytes = AlignedBytes::from_slice(&buffer.bytes);
            *tensor = Tensor::from_bytes(tensor.dtype(), tensor.shape().to_vec(), bytes).expect("the same size");
        }
    }
    Ok(infc_testkit::outputs_in(kernel, symbols, &tensors))
}
