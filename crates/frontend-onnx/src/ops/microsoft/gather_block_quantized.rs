//! `GatherBlockQuantized` of ONNX Runtime's domain `com.microsoft`: a look-up in a table that is quantised in blocks.
//!
//! Along `quantize_axis` each block of `block_size` numbers has a scale and maybe a zero point. Bytes hold several numbers
//! of `bits` bits each along their last axis, and so do their zero points; other tables have an element per number.

use super::packed_bits::PackedBits;
use crate::build::{Builder, Result, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::elementwise::require_float;
use crate::ops::gather_elements::require_indices;
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
    require_float(&scales)?;
    let rank = table.rank();
    if !table.dtype().is_int() {
        return Err(Problem::UnsupportedType { expected: "integers", found: table.dtype() });
    }
    if let Some(zeros) = zeros.as_ref().filter(|zeros| zeros.dtype() != table.dtype()) {
        return Err(Problem::TypeMismatch { left: table.dtype(), right: zeros.dtype() });
    }
    if let Some(other) = [Some(&scales), zeros.as_ref()].into_iter().flatten().find(|x| rank == 0 || x.rank() != rank) {
        return Err(mismatch(format!("as many axes as the table has, {rank}, and at least one"), other.shape()));
    }
    let (gathered, quantised) = (call.axis("gather_axis", 0, rank)?, call.axis("quantize_axis", 1, rank)?);
    let block = Dim::constant(call.positive("block_size", 128)?);
    let packed = (table.dtype() == DType::U8).then(|| PackedBits::of(call)).transpose()?;
    if gathered == quantised || packed.is_some() && (gathered == rank - 1 || quantised != rank - 1) {
        let (attribute, expected) = ("quantize_axis", "an axis that is not looked up along, the last one of bytes");
        return Err(Problem::UnsupportedAttribute { attribute, expected, found: quantised.to_string() });
    }
    let build = &mut *call.build;
    // Numbers, not bytes.
    let mut wide = table.shape().to_vec();
    if let Some(bits) = packed {
        wide[rank - 1] = wide[rank - 1].scale(8).floor_div(&Dim::constant(bits.width()));
    }
    for (axis, numbers) in wide.iter().enumerate() {
        let extent = if axis == quantised { numbers.ceil_div(&block) } else { numbers.clone() };
        build.require_equal("the extents of scales and of blocks", &scales.shape()[axis], &extent)?;
        if let Some(zeros) = &zeros {
            let bits = packed.filter(|_| axis == rank - 1);
            let extent = bits.map_or_else(|| extent.clone(), |b| extent.scale(b.width()).ceil_div(&Dim::constant(8)));
            build.require_equal("the extents of zero points and of blocks", &zeros.shape()[axis], &extent)?;
        }
    }
    // Whole rows are looked up as they are stored, and become numbers behind that.
    let mut shape = wide[..gathered].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&wide[gathered + 1..]);
    let quantised = if quantised > gathered { quantised + indices.rank() - 1 } else { quantised };
    let own: Vec<IndexExpr> = (0..shape.len()).map(var).collect();
    let mut of_block = own.clone();
    of_block[quantised] = var(quantised).floor_div(&block);
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
