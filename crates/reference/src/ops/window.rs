//! Windows that slide over spatial axes, as convolutions and poolings share them.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::limits::MAX_OUTPUT_ELEMS;

/// How a window moves over the spatial axes of an input.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) kernel: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    /// Padding before the first element, per axis.
    pub(super) pads_before: Vec<i64>,
    /// Padding behind the last element, per axis.
    pub(super) pads_after: Vec<i64>,
    /// How many positions the window takes, per axis.
    pub(super) out: Vec<usize>,
}

/// A list attribute with one positive entry per spatial axis, all ones by default.
pub(super) fn positive(call: &Call<'_>, name: &'static str, rank: usize) -> Result<Vec<usize>> {
    let Some(list) = call.ints(name)? else { return Ok(vec![1; rank]) };
    if list.len() != rank {
        return Err(EvalError::InvalidAttribute { name, reason: "one entry per spatial axis is needed" });
    }
    list.iter()
        .map(|&v| match usize::try_from(v) {
            Ok(v) if v > 0 && v <= MAX_OUTPUT_ELEMS => Ok(v),
            _ => Err(EvalError::InvalidAttribute { name, reason: "the entries must be positive and not huge" }),
        })
        .collect()
}

/// The `pads` attribute as paddings before and after, zeros by default.
pub(super) fn explicit_pads(call: &Call<'_>, rank: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let Some(list) = call.ints("pads")?.filter(|list| !list.is_empty()) else {
        return Ok((vec![0; rank], vec![0; rank]));
    };
    let small = |&pad: &i64| pad.unsigned_abs() <= MAX_OUTPUT_ELEMS as u64;
    if list.len() != 2 * rank || !list.iter().all(small) {
        return Err(EvalError::InvalidAttribute { name: "pads", reason: "two entries per spatial axis are needed" });
    }
    Ok((list[..rank].to_vec(), list[rank..].to_vec()))
}

impl Window {
    /// Reads `strides`, `dilations`, `pads`, `auto_pad` and `ceil_mode` for an input of these spatial extents.
    pub(super) fn new(call: &Call<'_>, input: &[usize], kernel: Vec<usize>) -> Result<Self> {
        let rank = input.len();
        if kernel.len() != rank || kernel.iter().any(|&k| k == 0 || k > MAX_OUTPUT_ELEMS) {
            return Err(EvalError::InvalidAttribute { name: "kernel_shape", reason: "it does not fit the input" });
        }
        let (strides, dilations) = (positive(call, "strides", rank)?, positive(call, "dilations", rank)?);
        let ceil = call.flag("ceil_mode", false)?;
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        let mut out = vec![0; rank];
        let auto_pad = call.string("auto_pad", "NOTSET")?;
        if auto_pad == "NOTSET" {
            (before, after) = explicit_pads(call, rank)?;
        }
        for axis in 0..rank {
            let len = input[axis] as i64;
            let stride = strides[axis] as i64;
            let extent = reach(kernel[axis], dilations[axis]);
            match auto_pad {
                "SAME_UPPER" | "SAME_LOWER" => {
                    let positions = (len + stride - 1) / stride;
                    let total = ((positions - 1) * stride + extent - len).max(0);
                    let smaller = total / 2;
                    before[axis] = if auto_pad == "SAME_UPPER" { smaller } else { total - smaller };
                    after[axis] = total - before[axis];
                    out[axis] = positions.max(0) as usize;
                    continue;
                }
                "NOTSET" | "VALID" => {}
                _ => {
                    return Err(EvalError::InvalidAttribute { name: "auto_pad", reason: "it names no way of padding" });
                }
            }
            let room = len + before[axis] + after[axis] - extent;
            let mut positions = room.div_euclid(stride) + 1;
            if ceil {
                positions += i64::from(room.rem_euclid(stride) != 0);
                // A window that starts in the padding behind the input does not count.
                positions = positions.min((len + before[axis] - 1).div_euclid(stride) + 1);
            }
            out[axis] = positions.max(0) as usize;
        }
        Ok(Self { kernel, strides, dilations, pads_before: before, pads_after: after, out })
    }

    /// The entries of the window at `position` of an axis whose coordinates lie inside of an input of length `len`.
    pub(super) fn entries_inside(&self, axis: usize, position: usize, len: i64) -> std::ops::Range<usize> {
        let start = self.start(axis, position);
        let dilation = self.dilations[axis] as i64;
        // Both divisions round up; entries are at start, start + dilation, …
        let first = if start < 0 { (-start + dilation - 1) / dilation } else { 0 };
        let end = if start < len { (len - start + dilation - 1) / dilation } else { 0 };
        let end = end.clamp(0, self.kernel[axis] as i64) as usize;
        (first as usize).min(end)..end
    }

    /// The input coordinate along `axis` of the first entry of the window at `position`; may lie in the padding.
    pub(super) fn start(&self, axis: usize, position: usize) -> i64 {
        (position * self.strides[axis]) as i64 - self.pads_before[axis]
    }

    /// Visits the entries of the window at `position` that lie inside of the input: the entry's flat index in the
    /// kernel and its flat index in the input's spatial extents.
    pub(super) fn for_each_inside(&self, input: &[usize], position: &[usize], mut visit: impl FnMut(usize, usize)) {
        let rank = input.len();
        let ranges: Vec<_> =
            (0..rank).map(|axis| self.entries_inside(axis, position[axis], input[axis] as i64)).collect();
        let counts: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
        if counts.contains(&0) {
            return;
        }
        let mut offset = vec![0; rank];
        loop {
            let (mut flat_entry, mut flat) = (0, 0);
            for axis in 0..rank {
                let entry = ranges[axis].start + offset[axis];
                let at = self.start(axis, position[axis]) + (entry * self.dilations[axis]) as i64;
                flat_entry = flat_entry * self.kernel[axis] + entry;
                flat = flat * input[axis] + at as usize;
            }
            visit(flat_entry, flat);
            if !crate::shape::advance(&mut offset, &counts) {
                return;
            }
        }
    }
}

/// How many input elements a dilated kernel spans.
pub(super) fn reach(kernel: usize, dilation: usize) -> i64 {
    (kernel as i64 - 1) * dilation as i64 + 1
}
