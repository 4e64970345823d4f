//! `MatMulNBits` of ONNX Runtime's domain `com.microsoft`: a matrix product whose right operand is quantised in blocks.
//!
//! The right operand is `[N, K]` in blocks of `block_size` along K, each with a scale and a zero point (2^(bits−1) if
//! none is given). Its numbers of `bits` bits are packed into bytes `[N, blocks, bytes]`, low bits first.

use super::Operator;
use super::gather_elements::require_indices;
use super::matmul::product;
use crate::build::{Builder, Result, compute_type, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::BinaryOp;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("MatMulNBits", 1, matmul_n_bits)];

/// How the numbers lie in bytes.
struct Packing {
    bits: i64,
    block: i64,
    k: i64,
    n: i64,
}

impl Packing {
    fn of(call: &Call<'_>) -> Result<Self> {
        let positive = |attribute: &'static str, default: i64| -> Result<i64> {
            let found = call.int_or(attribute, default)?;
            if (1..1 << 31).contains(&found) {
                return Ok(found);
            }
            let expected = "a positive number";
            Err(Problem::InvalidAttribute { attribute, expected, found: found.to_string() })
        };
        let this = Self {
            bits: positive("bits", 4)?,
            block: positive("block_size", 0)?,
            k: positive("K", 0)?,
            n: positive("N", 0)?,
        };
        if this.bits > 8 {
            let (attribute, expected) = ("bits", "1 to 8");
            return Err(Problem::InvalidAttribute { attribute, expected, found: this.bits.to_string() });
        }
        if this.block * this.bits % 8 != 0 {
            let (attribute, expected) = ("block_size", "blocks of whole bytes");
            return Err(Problem::InvalidAttribute { attribute, expected, found: this.block.to_string() });
        }
        Ok(this)
    }

    fn blocks(&self) -> i64 {
        (self.k + self.block - 1) / self.block
    }

    /// The numbers `[N, len]` that are packed into the rows of `bytes`, which is reshaped to one row of bytes per row.
    fn unpack(&self, build: &mut Builder, bytes: &Tracked, len: i64) -> Result<Tracked> {
        if bytes.dtype() != DType::U8 {
            return Err(Problem::UnsupportedType { expected: "u8", found: bytes.dtype() });
        }
        let elems = bytes.shape().iter().cloned().product::<Dim>();
        let row = elems.as_const().filter(|e| e % self.n == 0).map(|e| e / self.n);
        let row = row.filter(|&bytes| bytes.saturating_mul(8) / self.bits >= len);
        let row = row.ok_or_else(|| mismatch(format!("{} rows of {len} packed numbers", self.n), bytes.shape()))?;
        let rows = build.reshape(bytes, &[Dim::constant(self.n), Dim::constant(row)])?;
        let shape = vec![Dim::constant(self.n), Dim::constant(len)];
        let (bit, byte) = (var(1).scale(self.bits), Dim::constant(8));
        let at = bit.floor_div(&byte);
        let first = build.view(&rows, vec![var(0), at.clone()], shape.clone())?;
        if self.bits == 8 {
            return Ok(first);
        }
        let mut parts = vec![first];
        if 8 % self.bits != 0 {
            // A number may begin in one byte and end in the next.
            let next = (at + 1).minimum(&Dim::constant(row - 1));
            parts.push(build.view(&rows, vec![var(0), next], shape)?);
        }
        build.map(&parts.iter().collect::<Vec<_>>(), |body, p| {
            let place = index(body, bit.modulo(&byte));
            let place = body.cast(DType::U16, place);
            let mut bits = body.cast(DType::U16, p[0]);
            if let Some(&next) = p.get(1) {
                let (next, eight) = (body.cast(DType::U16, next), body.constant(DType::U16, 8.0));
                let next = body.binary(BinaryOp::Shl, next, eight);
                bits = body.binary(BinaryOp::Or, bits, next);
            }
            let shifted = body.binary(BinaryOp::Shr, bits, place);
            let mask = body.constant(DType::U16, f64::from((1u32 << self.bits) - 1));
            let number = body.binary(BinaryOp::And, shifted, mask);
            body.cast(DType::U8, number)
        })
    }

    /// One parameter per block, as `[N, K]`; `groups` says which block a column belongs to, if not its neighbours'.
    fn spread(&self, build: &mut Builder, parameter: &Tracked, groups: Option<&Tracked>) -> Result<Tracked> {
        let blocks = build.reshape(parameter, &[Dim::constant(self.n), Dim::constant(self.blocks())])?;
        if let Some(groups) = groups {
            let columns = Dim::constant(self.k);
            let groups = build.view(groups, vec![var(0)], vec![columns])?;
            return build.gather(&blocks, &groups, 1);
        }
        let at: Vec<IndexExpr> = vec![var(0), var(1).floor_div(&Dim::constant(self.block))];
        build.view(&blocks, at, vec![Dim::constant(self.n), Dim::constant(self.k)])
    }
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
    super::elementwise::require_float(&a)?;
    let wide = compute_type(a.dtype());
    let build = &mut *call.build;
    let q = packing.unpack(build, &b, packing.k)?;
    let scales = packing.spread(build, &scales, groups.as_ref())?;
    let zeros = match call.inputs.get(3).cloned().flatten() {
        Some(zeros) if zeros.dtype() == DType::U8 => {
            let unpacked = packing.unpack(build, &zeros, packing.blocks())?;
            packing.spread(build, &unpacked, groups.as_ref())?
        }
        Some(zeros) => packing.spread(build, &zeros, groups.as_ref())?,
        None => build.scalar(DType::U8, f64::from(1u32 << (packing.bits - 1))),
    };
    let weights = build.map(&[&q, &zeros, &scales], |body, p| {
        let [q, zero, scale] = [p[0], p[1], p[2]].map(|x| body.cast(wide, x));
        let steps = body.binary(BinaryOp::Sub, q, zero);
        body.binary(BinaryOp::Mul, steps, scale)
    })?;
    let weights = build.transpose(&weights, &[1, 0])?;
    let x = build.cast(&a, wide)?;
    let sums = product(build, &x, &weights, wide)?;
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
