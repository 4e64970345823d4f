//! `MatMulNBits` of ONNX Runtime's domain `com.microsoft`: a matrix product whose right operand is quantised in blocks.
//!
//! The right operand is `[N, K]` in blocks of `block_size` along K, each with a scale and a zero point (2^(bits−1) if
//! none is given). Its numbers of `bits` bits are packed into bytes `[N, blocks, bytes]`, low bits first. They are multiplied as
//! floats, or, where `accuracy_level` lets the left operand be bytes, as integers ([`integer`]).

mod integer;

use super::packed_bits::PackedBits;
use crate::build::{Builder, Result, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::gather_elements::require_indices;
use crate::ops::matmul::product;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::BinaryOp;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("MatMulNBits", 1, matmul_n_bits)];

/// How the numbers lie in bytes.
#[derive(Clone, Copy)]
struct Packing {
    bits: PackedBits,
    block: i64,
    k: i64,
    n: i64,
}

impl Packing {
    fn of(call: &Call<'_>) -> Result<Self> {
        let this = Self {
            bits: PackedBits::of(call)?,
            block: call.positive("block_size", 0)?,
            k: call.positive("K", 0)?,
            n: call.positive("N", 0)?,
        };
        if this.block * this.bits.width() % 8 != 0 {
            let (attribute, expected) = ("block_size", "blocks of whole bytes");
            return Err(Problem::InvalidAttribute { attribute, expected, found: this.block.to_string() });
        }
        Ok(this)
    }

    fn blocks(&self) -> i64 {
        (self.k + self.block - 1) / self.block
    }

    /// The bytes in which the number at `place` of each row of `[N, K]` lies, one or two operands of a map over that shape.
    /// The packed rows have `len` numbers each; `bytes` is reshaped to one row of bytes per row.
    fn bytes(&self, build: &mut Builder, bytes: &Tracked, len: i64, place: &IndexExpr) -> Result<Vec<Tracked>> {
        if bytes.dtype() != DType::U8 {
            return Err(Problem::UnsupportedType { expected: "u8", found: bytes.dtype() });
        }
        let elems = bytes.shape().iter().cloned().product::<Dim>();
        let row = elems.as_const().filter(|e| e % self.n == 0).map(|e| e / self.n);
        let row = row.filter(|&bytes| bytes.saturating_mul(8) / self.bits.width() >= len);
        let row = row.ok_or_else(|| mismatch(format!("{} rows of {len} packed numbers", self.n), bytes.shape()))?;
        let rows = build.reshape(bytes, &[Dim::constant(self.n), Dim::constant(row)])?;
        let bytes = self.bits.bytes(place, row).into_iter();
        bytes.map(|at| build.view(&rows, vec![var(0), at], self.shape())).collect()
    }

    fn shape(&self) -> Vec<Dim> {
        vec![Dim::constant(self.n), Dim::constant(self.k)]
    }

    /// The block that a column of `[N, K]` belongs to, if that is its neighbours'.
    fn block_of(&self) -> IndexExpr {
        var(1).floor_div(&Dim::constant(self.block))
    }

    /// One parameter per block, as `[N, K]`; `groups` says which block a column belongs to, if not its neighbours'.
    fn spread(&self, build: &mut Builder, parameter: &Tracked, groups: Option<&Tracked>) -> Result<Tracked> {
        let blocks = build.reshape(parameter, &[Dim::constant(self.n), Dim::constant(self.blocks())])?;
        if let Some(groups) = groups {
            let columns = Dim::constant(self.k);
            let groups = build.view(groups, vec![var(0)], vec![columns])?;
            return build.gather(&blocks, &groups, 1);
        }
        build.view(&blocks, vec![var(0), self.block_of()], self.shape())
    }

    /// The weights `[N, K]` as floats: one map of what is packed, so that who reads it sees that little is stored.
    fn weights(&self, build: &mut Builder, packed: &Packed<'_>, wide: DType) -> Result<Tracked> {
        let place = var(1);
        let mut operands = self.bytes(build, packed.numbers, self.k, &place)?;
        let numbers = operands.len();
        let of_zero = self.block_of();
        let zeros_are_packed = packed.zeros.is_some_and(|zeros| zeros.dtype() == DType::U8);
        match packed.zeros {
            Some(zeros) if zeros_are_packed && packed.groups.is_none() => {
                operands.extend(self.bytes(build, zeros, self.blocks(), &of_zero)?);
            }
            Some(zeros) if zeros_are_packed => {
                let blocks = Packing { k: self.blocks(), ..*self };
                let bytes = blocks.bytes(build, zeros, blocks.k, &place)?;
                let zeros =
                    build.map(&bytes.iter().collect::<Vec<_>>(), |body, p| blocks.bits.unpack(body, p, &place))?;
                operands.push(self.spread(build, &zeros, packed.groups)?);
            }
            Some(zeros) => operands.push(self.spread(build, zeros, packed.groups)?),
            None => {}
        }
        operands.push(self.spread(build, packed.scales, packed.groups)?);
        build.map(&operands.iter().collect::<Vec<_>>(), |body, p| {
            let (&scale, p) = p.split_last().expect("scales are among the operands");
            let (numbers, zeros) = p.split_at(numbers);
            let number = self.bits.unpack(body, numbers, &place);
            let zero = match zeros {
                [] => body.constant(wide, self.bits.middle()),
                zeros if zeros_are_packed && packed.groups.is_none() => self.bits.unpack(body, zeros, &of_zero),
                zeros => zeros[0],
            };
            let [number, zero, scale] = [number, zero, scale].map(|x| body.cast(wide, x));
            let steps = body.binary(BinaryOp::Sub, number, zero);
            body.binary(BinaryOp::Mul, steps, scale)
        })
    }
}

/// The `accuracy_level` that lets the left operand be rounded to bytes.
const BYTES: i64 = 4;

/// What the weights are made of.
struct Packed<'a> {
    numbers: &'a Tracked,
    scales: &'a Tracked,
    /// Packed as the numbers are, or in floats; `None` for 2^(bits−1).
    zeros: Option<&'a Tracked>,
    groups: Option<&'a Tracked>,
}

fn matmul_n_bits(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let packing = Packing::of(call)?;
    let groups = call.optional(4);
    if let Some(groups) = &groups {
        require_indices(groups)?;
        if groups.rank() != 1 || groups.shape()[0].as_const().is_none_or(|n| n < packing.k) {
            return Err(mismatch("one block for each row of the weights", groups.shape()));
        }
    }
    let (a, b, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    crate::ops::elementwise::require_float(&a)?;
    let wide = compute_type(a.dtype());
    let in_integers = call.int_or("accuracy_level", 0)? == BYTES;
    let build = &mut *call.build;
    let zeros = call.inputs.get(3).cloned().flatten();
    let packed = Packed { numbers: &b, scales: &scales, zeros: zeros.as_ref(), groups: groups.as_ref() };
    let x = build.cast(&a, wide)?;
    let parts = packing.parts().filter(|_| in_integers && groups.is_none() && packing.has_whole_rows(&packed));
    let sums = match parts {
        Some(parts) => packing.product(build, &x, &packed, parts, wide)?,
        None => {
            let weights = packing.weights(build, &packed, wide)?;
            let weights = build.transpose(&weights, &[1, 0])?;
            product(build, &x, &weights, wide)?
        }
    };
    let inputs: Vec<Tracked> = [sums.clone()].into_iter().chain(call.inputs.get(5).cloned().flatten()).collect();
    let inputs: Vec<&Tracked> = inputs.iter().collect();
    let result = build.map_over(sums.shape().to_vec(), &inputs, |body, p| {
        let sum = p.get(1).map_or(p[0], |&bias| {
            let bias = body.cast(wide, bias);
            body.binary(BinaryOp::Add, p[0], bias)
        });
        body.cast(a.dtype(), sum)
    })?;
    Ok(vec![result])
}
