//! Sliding windows: what convolutions and pools read, as one access map.
//!
//! `view[lead…, r…, p…] = x[…, p·stride + r·dilation − begin, …]`, where positions outside of `x` are padding.

use super::movement::var;
use super::{Builder, Result};
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::Const;

/// How a window moves along one axis.
#[derive(Clone, Debug)]
pub(crate) struct WindowAxis<K = i64> {
    /// Elements of the input.
    pub(crate) extent: Dim,
    /// Elements in the window.
    pub(crate) kernel: K,
    /// From one window to the next.
    pub(crate) stride: i64,
    /// From one element of the window to the next.
    pub(crate) dilation: i64,
    /// Padding before the first element.
    pub(crate) begin: Dim,
    /// Padding after the last element.
    pub(crate) end: Dim,
    /// True if some window reaches beyond the input.
    pub(crate) padded: bool,
    /// Number of windows.
    pub(crate) count: Dim,
}

/// Windows over the trailing axes of a value.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a, K = i64> {
    /// Extents of the leading axes of the result.
    pub(crate) lead: Vec<Dim>,
    /// The leading axes of the operand, over the leading axes of the result.
    pub(crate) lead_index: Vec<IndexExpr>,
    /// The other axes.
    pub(crate) axes: &'a [WindowAxis<K>],
    /// What padding holds.
    pub(crate) padding: Const,
}

impl<K> WindowAxis<K> {
    /// First input position of window `p` (maybe negative).
    pub(crate) fn start(&self, p: IndexExpr) -> IndexExpr {
        p.scale(self.stride) - self.begin.clone()
    }
}

impl<K: Clone + Into<Dim>> Window<'_, K> {
    /// The axes with more than one element in the window; the others have no axis in the view.
    pub(crate) fn kernel_axes(&self) -> impl Iterator<Item = usize> {
        self.axes.iter().enumerate().filter(|(_, a)| !a.kernel.clone().into().is_const(1)).map(|(n, _)| n)
    }
}

impl Builder {
    /// The view `[lead…, r…, p…]`; axes `r` of extent 1 are left out.
    pub(crate) fn window<K: Clone + Into<Dim>>(&mut self, x: &Tracked, window: &Window<'_, K>) -> Result<Tracked> {
        let mut shape = window.lead.clone();
        let mut kernel_var = vec![None; window.axes.len()];
        for n in window.kernel_axes() {
            kernel_var[n] = Some(var(shape.len()));
            shape.push(window.axes[n].kernel.clone().into());
        }
        let mut index = window.lead_index.clone();
        let mut valid = Vec::new();
        for (axis, r) in window.axes.iter().zip(kernel_var) {
            let mut position = axis.start(var(shape.len()));
            if let Some(r) = r {
                position = position + r.scale(axis.dilation);
            }
            if axis.padded {
                valid.push(Bound { expr: position.clone(), lo: IndexExpr::constant(0), hi: axis.extent.clone() });
            }
            index.push(position);
            shape.push(axis.count.clone());
        }
        let map = AccessMap { rank: shape.len(), index, valid };
        self.view_or(x, map, shape, window.padding)
    }
}
