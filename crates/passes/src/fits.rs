//! Which half types hold numbers of f32 bit for bit.
//!
//! Half types are computed in f32 (ARCHITECTURE.md D11), so that a graph in FP16 is one of f32 whose values end in
//! `f32(f16(x))`. What follows from that alone: such numbers may be stored, or multiplied, as halves, and nothing is lost.

use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, UnaryOp};
use infc_tensor::{DType, Tensor, bf16, f16};

/// The half types that hold a number of f32 bit for bit, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fits {
    f16: bool,
    bf16: bool,
    /// Some of the numbers were halves: those that only are so by chance, such as masks of zeros, stay as they are.
    pub(crate) was_half: bool,
}

impl Fits {
    pub(crate) const NONE: Self = Self { f16: false, bf16: false, was_half: false };
    pub(crate) const ALL: Self = Self { f16: true, bf16: true, was_half: false };

    pub(crate) fn of_type(dtype: DType) -> Self {
        let (f16, bf16) = (dtype == DType::F16, dtype == DType::BF16);
        Self { f16, bf16, was_half: f16 || bf16 }
    }

    fn of_number(x: f32) -> Self {
        let comes_back = |back: f32| back.to_bits() == x.to_bits();
        let (f16, bf16) = (comes_back(f16::from_f32(x).to_f32()), comes_back(bf16::from_f32(x).to_f32()));
        Self { f16, bf16, was_half: false }
    }

    pub(crate) fn of_const(value: Const) -> Self {
        if value.dtype == DType::F32 { Self::of_number(f32::from_bits(value.bits as u32)) } else { Self::NONE }
    }

    /// Of all numbers of a tensor.
    pub(crate) fn of_tensor(tensor: &Tensor) -> Self {
        let Ok(numbers) = tensor.elements::<f32>() else { return Self::NONE };
        let mut all = Self::ALL;
        for &x in numbers {
            all = all.and(Self::of_number(x));
            if all.dtype().is_none() {
                break;
            }
        }
        all
    }

    /// What every operation of a body fits; `of_leaf` knows of what a body reads.
    pub(crate) fn of_ops(body: &Body, of_leaf: &dyn Fn(&ScalarOp) -> Self) -> Vec<Self> {
        let mut ops: Vec<Self> = Vec::new();
        for op in body.ops.iter() {
            let of = |id: &ScalarId| ops.get(id.0 as usize).copied().unwrap_or(Self::NONE);
            let fits = match op {
                ScalarOp::Const(value) => Self::of_const(*value),
                ScalarOp::Load(_) | ScalarOp::Param(..) => of_leaf(op),
                ScalarOp::Cast(DType::F32, from) => Self::of_type(body.dtype(*from)),
                ScalarOp::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => of(a),
                ScalarOp::Binary(BinaryOp::Min | BinaryOp::Max, a, b) | ScalarOp::Select(_, a, b) => of(a).and(of(b)),
                _ => Self::NONE,
            };
            ops.push(fits);
        }
        ops
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let was_half = self.was_half || other.was_half;
        Self { f16: self.f16 && other.f16, bf16: self.bf16 && other.bf16, was_half }
    }

    /// The type, f16 if both fit.
    pub(crate) fn dtype(self) -> Option<DType> {
        if self.f16 { Some(DType::F16) } else { self.bf16.then_some(DType::BF16) }
    }

    pub(crate) fn holds(self, dtype: DType) -> bool {
        match dtype {
            DType::F16 => self.f16,
            DType::BF16 => self.bf16,
            _ => false,
        }
    }
}
