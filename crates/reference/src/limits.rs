//! Limits that keep hostile shapes from taking all memory or all time.
//!
//! A model file of a few bytes may ask for `ConstantOfShape([2^40])` or for a window of `2^40` positions. Whatever makes
//! a tensor goes through [`checked_len`] first, and whatever loops more than once per element through [`check_work`].

use crate::error::{EvalError, Result};
use infc_tensor::DType;

/// The most bytes one output may have: 2 GiB.
pub const MAX_OUTPUT_BYTES: usize = 1 << 31;

/// The most elements one output may have, since an element may take 16 bytes while it is computed.
pub const MAX_OUTPUT_ELEMS: usize = 1 << 28;

/// The most inner steps (a multiply-add, one comparison of a window) one operator may take.
pub const MAX_WORK_STEPS: u64 = 1 << 34;

/// The longest axis an input may have; only one without elements could be longer, and only to overflow something.
pub(crate) const MAX_EXTENT: usize = 1 << 40;

/// The number of elements of `shape`.
///
/// # Errors
/// [`EvalError::TooLarge`] beyond [`MAX_OUTPUT_ELEMS`] or [`MAX_OUTPUT_BYTES`].
pub(crate) fn checked_len(dtype: DType, shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |len, &dim| len.checked_mul(dim))
        .filter(|&len| len <= MAX_OUTPUT_ELEMS && dtype.storage_bytes(len).unwrap_or(0) <= MAX_OUTPUT_BYTES)
        .ok_or_else(|| EvalError::TooLarge { dtype, shape: shape.to_vec() })
}

/// Refuses loops whose extents multiply to more than [`MAX_WORK_STEPS`].
///
/// # Errors
/// [`EvalError::TooMuchWork`].
pub(crate) fn check_work<'a>(extents: impl IntoIterator<Item = &'a usize>) -> Result<()> {
    let mut steps = 1u64;
    let mut too_much = false;
    for &extent in extents {
        if extent == 0 {
            return Ok(());
        }
        steps = steps.saturating_mul(extent as u64);
        too_much |= steps > MAX_WORK_STEPS;
    }
    if too_much { Err(EvalError::TooMuchWork { limit: MAX_WORK_STEPS }) } else { Ok(()) }
}
