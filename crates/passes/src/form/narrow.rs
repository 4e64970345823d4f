//! Constants whose numbers are all halves lie in memory as halves.
//!
//! Half types are computed in f32 (ARCHITECTURE.md D11), so the weights of a model in FP16 are f32 once passes have
//! folded their conversion, or once they are rounded. Of what a sum of products reads in vectors of columns, a vector is
//! converted as it is loaded, once for all rows of a tile; that takes half of the bytes, in the file and of what each run
//! streams. The numbers are the same, and so are the results.
//!
//! Constants that minimal filtering brings to its points are no halves then. Those that are read at other places (one
//! factor per channel, tables) are small, or would be converted at each use.

use super::contraction::{contraction, uses};
use crate::fits::Fits;
use infc_ir::entity::OperandId;
use infc_ir::kernel::Kernel;
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use infc_tensor::{AlignedBytes, DType, Tensor, bf16, f16};

/// Fewer columns than this are less than a vector.
const FEWEST_COLUMNS: i64 = 8;

/// The half type that holds all numbers of an f32 tensor, bit for bit; f16 if both do.
pub(super) fn half_of(tensor: &Tensor) -> Option<DType> {
    Fits::of_tensor(tensor).dtype()
}

/// An f32 tensor in a half type.
pub(super) fn converted(tensor: &Tensor, dtype: DType) -> Option<Tensor> {
    let numbers = tensor.elements::<f32>().ok()?;
    let bytes: Vec<u8> = match dtype {
        DType::F16 => numbers.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => numbers.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
        _ => return None,
    };
    Tensor::from_bytes(dtype, tensor.shape().to_vec(), AlignedBytes::from_slice(&bytes)).ok()
}

/// The constants of f32 that sums of products read in vectors of columns, which no other factor runs along, and nobody
/// else reads.
pub(super) fn streamed(kernel: &Kernel) -> Vec<OperandId> {
    let mut reads = vec![0usize; kernel.operands.len()];
    for stage in kernel.stages.iter() {
        stage.for_each_load(&mut |_, load| {
            if let Source::Operand(operand) = load.source {
                reads[operand.0 as usize] += 1;
            }
        });
    }
    let streamed = kernel.stages.iter().filter_map(|stage| {
        let c = contraction(kernel, stage)?;
        let Source::Operand(operand) = c.rhs.source else { return None };
        let column = c.columns().into_iter().next()?;
        let is_long = stage.axes[column.0 as usize].extent.as_const().is_some_and(|n| n >= FEWEST_COLUMNS);
        let is_own = !uses(c.lhs, column) && reads[operand.0 as usize] == 1;
        // What stands for elements that are not there need not be such a number.
        let is_plain = c.rhs.dtype == DType::F32 && c.rhs.gather.is_empty() && c.rhs.valid.is_empty();
        (c.rhs_is_constant && is_long && is_own && is_plain).then_some(operand)
    });
    streamed.collect()
}

/// Makes a kernel read an operand in a narrower type.
pub(super) fn read(kernel: &mut Kernel, operand: OperandId, dtype: DType) {
    kernel.operands[operand].dtype = dtype;
    for stage in kernel.stages.iter_mut() {
        let mut body = Body::default();
        stage.results = body.import(&stage.body, &stage.results, &mut |body, op| match op {
            ScalarOp::Load(load) if load.source == Source::Operand(operand) => {
                let otherwise = Const::from_f64(dtype, load.otherwise.to_f64());
                let narrow = body.push(ScalarOp::Load(Load { dtype, otherwise, ..load.clone() }));
                Some(body.cast(load.dtype, narrow))
            }
            _ => None,
        });
        stage.body = body;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f32]) -> Option<DType> {
        half_of(&Tensor::from_elements(&[numbers.len()], numbers).expect("a vector"))
    }

    #[test]
    fn halves_are_what_comes_back_bit_for_bit() {
        assert_eq!(
            of(&[0.0, -0.0, 1.0, 65504.0, f32::INFINITY, 5.960_464_5e-8]),
            Some(DType::F16),
            "subnormal halves too"
        );
        assert_eq!(of(&[1.0, 65536.0, f32::MIN_POSITIVE]), Some(DType::BF16));
        assert_eq!(of(&[1.0, 65505.0]), None);
        assert_eq!(of(&[1.0 / 3.0]), None);
        // A number that is none keeps its bits, if they are a half's.
        assert_eq!(of(&[f32::from_bits(0x7fc0_0000)]), Some(DType::F16));
        assert_eq!(of(&[f32::from_bits(0x7fc0_0001)]), None);
        assert_eq!(of(&[f32::from_bits(0x7f80_0001)]), None, "signalling ones become quiet");
    }

    #[test]
    fn what_is_converted_is_the_same() {
        let numbers = [0.0, -0.0, 1.5, -65504.0, 5.960_464_5e-8, f32::NEG_INFINITY];
        let tensor = Tensor::from_elements(&[2, 3], &numbers).expect("a matrix");
        let half = converted(&tensor, DType::F16).expect("a half type");
        assert_eq!(half.shape(), [2, 3]);
        let back: Vec<u32> = half.elements::<f16>().expect("halves").iter().map(|x| x.to_f32().to_bits()).collect();
        assert_eq!(back, numbers.map(f32::to_bits));
    }
}
