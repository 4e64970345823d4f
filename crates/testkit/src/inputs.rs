//! Seeded inputs for kernels.

use infc_ir::entity::{EntityId, OperandId, ScalarId};
use infc_ir::kernel::{Kernel, Operand, OperandKind};
use infc_ir::scalar::{Const, Scalar, ScalarOp, Source};
use infc_tensor::{AlignedBytes, DType, DTypeClass, Tensor};

/// A small, fast, repeatable source of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A source that always gives the same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `below − 1`.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// In [−1, 1).
    pub fn signed_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A value for every symbol: 5 where its range allows that, else what is nearest.
#[must_use]
pub fn default_symbols(kernel: &Kernel) -> Vec<i64> {
    kernel.symbols.iter().map(|s| 5.min(s.max.unwrap_or(5)).max(s.min)).collect()
}

/// The shape of an operand for given symbols.
///
/// # Panics
/// If an extent is not a size.
#[must_use]
pub fn operand_shape(operand: &Operand, symbols: &[i64]) -> Vec<usize> {
    let symbol = |s: infc_ir::entity::SymbolId| symbols.get(s.index()).copied();
    let extent = |d: &infc_ir::index::Dim| d.eval(&symbol, &|_| None).and_then(|v| usize::try_from(v).ok());
    operand.shape.iter().map(|d| extent(d).expect("extents are sizes")).collect()
}

/// Inputs for [`infc_ir::interp::run_kernel`]: floats in [−1, 1), integers from −8 to 7 (of 8 bits: all values), and
/// integers that index something within its extent.
///
/// # Panics
/// If a shape is not one.
#[must_use]
pub fn random_inputs(kernel: &Kernel, symbols: &[i64], seed: u64) -> Vec<Tensor> {
    let mut random = Random::new(seed);
    let inputs = kernel.operands.iter_enumerated().filter(|(_, o)| o.kind != OperandKind::Output);
    inputs
        .map(|(id, operand)| {
            let shape = operand_shape(operand, symbols);
            let below = indexed_extent(kernel, id, symbols);
            draw_tensor(&mut random, operand.dtype, shape, below)
        })
        .collect()
}

/// A tensor of such values.
///
/// # Panics
/// If the elements are not whole bytes.
#[must_use]
pub fn random_tensor(dtype: DType, shape: Vec<usize>, seed: u64) -> Tensor {
    draw_tensor(&mut Random::new(seed), dtype, shape, None)
}

fn draw_tensor(random: &mut Random, dtype: DType, shape: Vec<usize>, below: Option<u64>) -> Tensor {
    let len: usize = shape.iter().product();
    let size = dtype.size_bytes().expect("whole bytes");
    let mut bytes = AlignedBytes::zeroed(len * size);
    for element in bytes.chunks_exact_mut(size) {
        let constant: Const = match (dtype.class(), below) {
            (_, Some(below)) => Const::from_i64(dtype, random.below(below) as i64),
            (DTypeClass::Float, _) => Const::from_f64(dtype, random.signed_unit()),
            (DTypeClass::Bool, _) => Const::from_i64(dtype, random.below(2) as i64),
            (DTypeClass::Unsigned, _) if size > 1 => Const::from_i64(dtype, random.below(16) as i64),
            (_, _) if size > 1 => Const::from_i64(dtype, random.below(16) as i64 - 8),
            _ => Scalar::Int(random.next_u64() as i64).to_const(dtype),
        };
        element.copy_from_slice(&constant.bits.to_le_bytes()[..size]);
    }
    Tensor::from_bytes(dtype, shape, bytes).expect("as many bytes as the shape needs")
}

/// The extent that the elements of an operand index, if they are used to gather.
fn indexed_extent(kernel: &Kernel, wanted: OperandId, symbols: &[i64]) -> Option<u64> {
    for stage in kernel.stages.iter() {
        for (_, op) in stage.body.ops.iter_enumerated() {
            let ScalarOp::Load(load) = op else { continue };
            let Source::Operand(source) = load.source else { continue };
            for (axis, value, _) in &load.gather {
                if stage_reads(&stage.body, *value, wanted) {
                    let extent = operand_shape(&kernel.operands[source], symbols)[usize::from(*axis)];
                    return Some(extent as u64);
                }
            }
        }
    }
    None
}

fn stage_reads(body: &infc_ir::scalar::Body, root: ScalarId, wanted: OperandId) -> bool {
    let op = &body.ops[root];
    if matches!(op, ScalarOp::Load(load) if load.source == Source::Operand(wanted)) {
        return true;
    }
    let mut found = false;
    op.for_each_operand(&mut |o| found |= stage_reads(body, o, wanted));
    found
}
