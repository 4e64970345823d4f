//! `GatherBlockQuantized` of ONNX Runtime's domain `com.microsoft`: a look-up in a table that is quantised in blocks.
//!
//! Along `quantize_axis` each block of `block_size` numbers has a scale and maybe a zero point. Bytes hold several numbers
//! of `bits` bits each along their last axis, and so do their zero points; other tables have an element per number.

use super::Operator;
use super::gather_elements::require_indices;
use super::packed_bits::PackedBits;
use crate::build::{Builder, Result, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::BinaryOp;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("GatherBlockQuantized", 1, gather_block_quantized)];

/// Numbers that were looked up, as integers of 32 bits over `shape`; `at` says where along the last axis each lies.
fn numbers(
    build: &mut Builder,
    x: &Tracked,
    packed: Option<PackedBits>,
    shape: &[Dim],
    at: &[IndexExpr],
) -> Result<Tracked> {
    let Some(bits) = packed else {
        let x = build.widened(x)?;
        let x = build.view(&x, at.to_vec(), shape.to_vec())?;
        return build.map(&[&x], |body, p| body.cast(DType::I32, p[0]));
    };
    let (last, before) = at.split_last().expect("a table has an axis");
    let row = x.shape().last().and_then(Dim::as_const).ok_or(Problem::DynamicValue { what: "bytes of a row" })?;
    let bytes = bits.bytes(last, row).into_iter().map(|byte| {
        let index = before.iter().cloned().chain([byte]).collect();
        build.view(x, index, shape.to_vec())
    });
    let bytes = bytes.collect::<Result<Vec<_>>>()?;
    build.map(&bytes.iter().collect::<Vec<_>>(), |body, p| bits.unpack(body, p, last))
}

fn gather_block_quantized(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (table, indices, scales, zeros) = (call.input(0)?, call.input(1)?, call.input(2)?, call.optional(3));
    require_indices(&indices)?;
    super::elementwise::require_float(&scales)?;
    let rank = table.rank();
    if rank == 0 || scales.rank() != rank {
        return Err(mismatch(format!("scales with {rank} axes, at least one"), scales.shape()));
    }
    let (gathered, quantised) = (call.axis("gather_axis", 0, rank)?, call.axis("quantize_axis", 1, rank)?);
    let block = call.int_or("block_size", 128)?;
    if !(1..1 << 31).contains(&block) {
        let (attribute, expected) = ("block_size", "a positive number");
        return Err(Problem::InvalidAttribute { attribute, expected, found: block.to_string() });
    }
    let packed = (table.dtype() == DType::U8).then(|| PackedBits::of(call)).transpose()?;
    if gathered == quantised || packed.is_some() && (gathered == rank - 1 || quantised != rank - 1) {
        let (attribute, expected) = ("quantize_axis", "an axis that is not looked up along, the last one of bytes");
        return Err(Problem::UnsupportedAttribute { attribute, expected, found: quantised.to_string() });
    }
    let build = &mut *call.build;
    let mut wide = table.shape().to_vec();
    if let Some(bits) = packed {
        wide[rank - 1] = wide[rank - 1].scale(8).floor_div(&Dim::constant(bits.width()));
    }
    let blocks = wide[quantised].ceil_div(&Dim::constant(block));
    build.require_equal("the number of scales and of blocks", &scales.shape()[quantised], &blocks)?;
    // Whole rows are looked up as they are stored, and become numbers behind that.
    let mut shape = wide[..gathered].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&wide[gathered + 1..]);
    let quantised = if quantised > gathered { quantised + indices.rank() - 1 } else { quantised };
    let own: Vec<IndexExpr> = (0..shape.len()).map(var).collect();
    let mut of_block = own.clone();
    of_block[quantised] = var(quantised).floor_div(&Dim::constant(block));
    let rows = build.gather(&table, &indices, gathered)?;
    let rows = numbers(build, &rows, packed, &shape, &own)?;
    let scale = build.gather(&scales, &indices, gathered)?;
    let scale = build.view(&scale, of_block.clone(), shape.clone())?;
    let zero = match zeros {
        Some(zeros) => {
            let zeros = build.gather(&zeros, &indices, gathered)?;
            Some(numbers(build, &zeros, packed, &shape, &of_block)?)
        }
        None => None,
    };
    let dtype = scales.dtype();
    let wide = compute_type(dtype);
    let inputs: Vec<&Tracked> = [&rows, &scale].into_iter().chain(&zero).collect();
    let y = build.map(&inputs, |body, p| {
        let zero = match (p.get(2), packed) {
            (Some(&zero), _) => Some(zero),
            (None, Some(bits)) => Some(body.constant(DType::I32, bits.middle())),
            (None, None) => None,
        };
        let steps = zero.map_or(p[0], |zero| body.binary(BinaryOp::Sub, p[0], zero));
        let (steps, scale) = (body.cast(wide, steps), body.cast(wide, p[1]));
        let y = body.binary(BinaryOp::Mul, steps, scale);
        body.cast(dtype, y)
    })?;
    Ok(vec![y])
}
