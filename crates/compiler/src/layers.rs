//! Values of a running model, kernel by kernel, for whoever compares them with the interpreter.
//!
//! The Program has a launch per kernel of the plan, in the same order, and its first slots are the plan's buffers, so
//! step `n` of a run is kernel `n` of the plan, and buffer `b` of the plan is slot `b`.

use infc_ir::entity::ValueId;
use infc_ir::index::Dim;
use infc_ir::kernel::OperandKind;
use infc_passes::form::{GraphPlan, OperandSource};
use infc_tensor::{AlignedBytes, Tensor};

/// A value that a kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The value in the plan's graph.
    pub value: ValueId,
    /// The slot of the Program that it lies in.
    pub slot: usize,
}

/// What the n-th kernel of the plan writes, in the order of its operands.
#[must_use]
pub fn written_by(plan: &GraphPlan, kernel: usize) -> Vec<Written> {
    let Some(planned) = plan.kernels.get(kernel) else { return Vec::new() };
    planned
        .accesses()
        .filter_map(|(operand, source)| match source {
            OperandSource::Value(value) if operand.kind == OperandKind::Output => {
                let slot = plan.values.get(value)?.buffer;
                Some(Written { value: *value, slot })
            }
            _ => None,
        })
        .collect()
}

/// Takes a value out of the bytes of its slot as a dense tensor; `None` if it does not lie within them, or its dims
/// have no value under the given symbols.
#[must_use]
pub fn read_value(plan: &GraphPlan, value: ValueId, symbols: &[i64], slot: &[u8]) -> Option<Tensor> {
    let planned = plan.values.get(&value)?;
    let ty = plan.graph.values.get(value).map(|v| &v.ty)?;
    let dtype = plan.stored_dtype(value);
    let size = dtype.size_bytes()?;
    let number = |dim: &Dim| dim.eval(&|s| symbols.get(s.0 as usize).copied(), &|_| None);
    let extent = |dim: &Dim| number(dim).and_then(|n| usize::try_from(n).ok());
    let shape: Vec<usize> = ty.shape.iter().map(extent).collect::<Option<_>>()?;
    let strides: Vec<usize> = planned.layout.strides.iter().map(extent).collect::<Option<_>>()?;
    let offset = extent(&planned.layout.offset)?;
    let len = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
    if len > slot.len() {
        return None;
    }
    let mut bytes = AlignedBytes::zeroed(len.checked_mul(size)?);
    let mut at = vec![0usize; shape.len()];
    for element in bytes.chunks_exact_mut(size) {
        let place = at.iter().zip(&strides).try_fold(offset, |sum, (&i, &s)| sum.checked_add(i.checked_mul(s)?))?;
        let start = place.checked_mul(size)?;
        element.copy_from_slice(slot.get(start..start.checked_add(size)?)?);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < shape[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Tensor::from_bytes(dtype, shape, bytes).ok()
}
