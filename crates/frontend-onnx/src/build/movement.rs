//! Movement: broadcast, reshape, transpose, slices. Each is one access map.

use super::shapes::{self, product, without_common};
use super::{Builder, Result};
use crate::tracked::Tracked;
use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::graph::{BROADCAST_EXTENTS, REPEATED_EXTENT};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::Op;
use infc_ir::scalar::Const;

/// The coordinate along axis `n` of the reader.
pub(crate) fn var(n: usize) -> IndexExpr {
    IndexExpr::var(VarId(n as u32))
}

/// Along one axis: element `i` is element `start + i·step`, for `len` elements.
#[derive(Clone, Debug)]
pub(crate) struct AxisSlice {
    pub(crate) start: Dim,
    pub(crate) step: Dim,
    pub(crate) len: Dim,
}

impl Builder {
    /// Repeats along axes of extent 1 and along new leading axes; the shapes must be known to fit.
    pub(crate) fn broadcast(&mut self, x: &Tracked, shape: &[Dim]) -> Result<Tracked> {
        if x.shape() == shape {
            return Ok(x.clone());
        }
        let Some(missing) = shape.len().checked_sub(x.rank()) else {
            return Err(shapes::mismatch(format!("at most {} axes", shape.len()), x.shape()));
        };
        let mut index = Vec::with_capacity(x.rank());
        for (n, extent) in x.shape().iter().enumerate() {
            let target = &shape[missing + n];
            if self.facts.apply(extent).is_const(1) && !target.is_const(1) {
                index.push(IndexExpr::constant(0));
            } else if self.may_repeat(extent, target) {
                // None repeats only to none.
                self.require_at_least(REPEATED_EXTENT, extent, &target.minimum(&Dim::constant(1)))?;
                index.push(IndexExpr::constant(0));
            } else if self.is_folded(extent, target) {
                self.require_at_least(REPEATED_EXTENT, extent, &target.minimum(&Dim::constant(1)))?;
                index.push(var(missing + n).minimum(&(extent.clone() - 1)));
            } else if self.may_differ(extent, target) {
                index.push(self.repeated(extent, target, var(missing + n))?);
            } else {
                self.require_equal(BROADCAST_EXTENTS, extent, target)?;
                index.push(var(missing + n));
            }
        }
        self.view(x, index, shape.to_vec())
    }

    /// What a view repeats along some of its axes, and how; the value itself and the identity where it is no such view. What
    /// is computed of every element is computed of fewer then.
    pub(crate) fn spread_from(&self, x: &Tracked) -> (Tracked, AccessMap) {
        let own = || (x.clone(), AccessMap::identity(x.rank()));
        let Some((_, node)) = x.value().and_then(|value| self.graph.producer(value)) else { return own() };
        let Op::View(view) = &node.op else { return own() };
        let used = |axis: usize| view.map.index.iter().any(|e| e.uses_var(VarId(axis as u32)));
        let repeats = (0..x.rank()).any(|axis| !used(axis) && !x.shape()[axis].is_const(1));
        if !view.map.valid.is_empty() || !repeats {
            return own();
        }
        let operand = node.inputs[0];
        (Tracked::of_value(self.graph.ty(operand).clone(), operand), view.map.clone())
    }

    /// Reorders axes: axis `n` of the result is axis `order[n]` of `x`.
    pub(crate) fn transpose(&mut self, x: &Tracked, order: &[usize]) -> Result<Tracked> {
        let mut index = vec![IndexExpr::constant(0); order.len()];
        for (n, &axis) in order.iter().enumerate() {
            index[axis] = var(n);
        }
        let shape = order.iter().map(|&axis| x.shape()[axis].clone()).collect();
        self.view(x, index, shape)
    }

    /// Part of every axis.
    pub(crate) fn slice(&mut self, x: &Tracked, slices: &[AxisSlice]) -> Result<Tracked> {
        let index = slices.iter().enumerate().map(|(n, s)| s.start.clone() + var(n) * s.step.clone()).collect();
        let shape = slices.iter().map(|s| s.len.clone()).collect();
        self.view(x, index, shape)
    }

    /// The slice that takes an axis whole.
    pub(crate) fn whole(extent: &Dim) -> AxisSlice {
        AxisSlice { start: Dim::constant(0), step: Dim::constant(1), len: extent.clone() }
    }

    /// `len` elements from `start` along one axis.
    pub(crate) fn slice_axis(&mut self, x: &Tracked, axis: usize, start: Dim, len: Dim) -> Result<Tracked> {
        let mut slices: Vec<AxisSlice> = x.shape().iter().map(Self::whole).collect();
        slices[axis] = AxisSlice { start, step: Dim::constant(1), len };
        self.slice(x, &slices)
    }

    /// Adds an axis of extent 1 before axis `axis`.
    pub(crate) fn insert_axis(&mut self, x: &Tracked, axis: usize) -> Result<Tracked> {
        let mut shape = x.shape().to_vec();
        shape.insert(axis, Dim::constant(1));
        self.reshape(x, &shape)
    }

    /// Puts a vector along one axis of the given rank, ready to broadcast.
    pub(crate) fn along_axis(&mut self, x: &Tracked, axis: usize, rank: usize) -> Result<Tracked> {
        let mut shape = vec![Dim::constant(1); rank];
        shape[axis] = x.shape().first().cloned().unwrap_or_else(|| Dim::constant(1));
        self.reshape(x, &shape)
    }

    /// The same elements in row-major order under another shape.
    pub(crate) fn reshape(&mut self, x: &Tracked, shape: &[Dim]) -> Result<Tracked> {
        if x.shape() == shape {
            return Ok(x.clone());
        }
        if let Some(reshaped) = reshaped_constant(x, shape) {
            return Ok(reshaped);
        }
        // What follows from facts that contradict each other may be less than nothing; a requirement refuses the run.
        let is_none = |d: &Dim| d.as_const().is_some_and(|d| d <= 0);
        let empty = |old: &[Dim], new: &[Dim]| old.iter().chain(new).any(is_none);
        let nowhere = vec![IndexExpr::constant(0); x.rank()];
        let (mut old, mut new) = (self.restated(x.shape()), self.restated(shape));
        if empty(&old, &new) {
            // That a product is 0 says nothing of a factor, and there is no element to find.
            let (left, right) = (product(x.shape())?, product(shape)?);
            self.assume_equal("the numbers of elements", &left, &right)?;
            return self.view(x, nowhere, shape.to_vec());
        }
        let mut groups = groups(&old, &new)?;
        if groups.is_none() {
            let (left, right) = without_common(&old, &new);
            self.require_equal("the numbers of elements", &product(&left)?, &product(&right)?)?;
            (old, new) = (self.restated(&old), self.restated(&new));
            if empty(&old, &new) {
                return self.view(x, nowhere, shape.to_vec());
            }
            groups = self::groups(&old, &new)?;
        }
        // What cannot be taken apart is linearised as a whole.
        let groups = groups.unwrap_or_else(|| vec![Group { from: wide(&old), to: wide(&new) }]);
        let mut index = vec![IndexExpr::constant(0); x.rank()];
        for group in groups {
            group.index(&old, &new, &mut index)?;
        }
        let map = AccessMap { rank: shape.len(), index, valid: Vec::new() };
        self.view_or(x, map, shape.to_vec(), Const::zero(x.dtype()))
    }

    /// The value that `x` is a reshape of, if it is one: both have the same elements in row-major order.
    pub(crate) fn reshaped_from(&mut self, x: &Tracked) -> Result<Option<Tracked>> {
        if x.constant().is_some() || x.as_uniform().is_some() {
            return Ok(None);
        }
        let value = self.value(x)?;
        let of_view = self.graph.producer(value).and_then(|(_, node)| match &node.op {
            Op::View(view) => Some((view.clone(), *node.inputs.first()?)),
            _ => None,
        });
        let Some((view, source)) = of_view.filter(|(view, _)| view.map.valid.is_empty()) else { return Ok(None) };
        let ty = self.graph.ty(source).clone();
        let (from, to) = (self.restated(&ty.shape), self.restated(x.shape()));
        let ranges = self.ranges_over(x.shape());
        let flat = |shape: &[Dim], index: &[IndexExpr]| {
            let flat = shape.iter().zip(index).fold(IndexExpr::constant(0), |sum, (d, i)| sum * d.clone() + i.clone());
            flat.simplify(&ranges)
        };
        let own: Vec<IndexExpr> = (0..x.rank()).map(var).collect();
        let simple = |index: &[IndexExpr]| -> Vec<IndexExpr> { index.iter().map(|e| e.simplify(&ranges)).collect() };
        // What sizes of the run divide does not become one number again: it is compared with what a reshape makes.
        let is_reshape = || -> Result<bool> {
            let elements = product(&from)?;
            if elements.is_const(0) || elements != product(&to)? {
                return Ok(false);
            }
            if flat(&ty.shape, &view.map.index) == flat(x.shape(), &own) {
                return Ok(true);
            }
            let Some(groups) = groups(&from, &to)? else { return Ok(false) };
            let mut index = vec![IndexExpr::constant(0); from.len()];
            groups.into_iter().try_for_each(|group| group.index(&from, &to, &mut index))?;
            Ok(simple(&index) == simple(&view.map.index))
        };
        // Numbers that are too large, or too long to write down, are of no reshape that anybody looks for.
        let same = is_reshape().unwrap_or(false);
        Ok(same.then(|| Tracked::of_value(ty, source)))
    }
}

/// A constant keeps its bytes.
fn reshaped_constant(x: &Tracked, shape: &[Dim]) -> Option<Tracked> {
    let constant = x.constant()?;
    let shape: Vec<usize> = shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<_>>()?;
    Some(Tracked::of_constant(&constant.name, constant.tensor.reshaped(&shape).ok()?))
}

/// Axes that are not known to have one element.
fn wide(shape: &[Dim]) -> Vec<usize> {
    (0..shape.len()).filter(|&n| !shape[n].is_const(1)).collect()
}

/// Neighbouring axes before and after a reshape that hold the same elements.
///
/// Keeping groups small keeps divisions away: `[N, A·B] → [N, A, B]` is `N` by itself and one split.
struct Group {
    from: Vec<usize>,
    to: Vec<usize>,
}

/// The groups of a reshape, each as short as can be; `None` if the numbers of elements cannot be shown to be equal.
fn groups(old: &[Dim], new: &[Dim]) -> Result<Option<Vec<Group>>> {
    let (from, to) = (wide(old), wide(new));
    let (mut i, mut j) = (0, 0);
    let mut groups = Vec::new();
    while i < from.len() || j < to.len() {
        let Some((m, n)) = next_group(old, &from[i..], new, &to[j..])? else { return Ok(None) };
        groups.push(Group { from: from[i..i + m].to_vec(), to: to[j..j + n].to_vec() });
        (i, j) = (i + m, j + n);
    }
    Ok(Some(groups))
}

/// How many of the axes on both sides, all with extents other than 1, are the shortest first group.
fn next_group(old: &[Dim], from: &[usize], new: &[Dim], to: &[usize]) -> Result<Option<(usize, usize)>> {
    let (mut m, mut n) = (from.len().min(1), to.len().min(1));
    loop {
        let of = |shape: &[Dim], axes: &[usize]| -> Result<Dim> {
            product(&axes.iter().map(|&a| shape[a].clone()).collect::<Vec<_>>())
        };
        let (left, right) = (of(old, &from[..m])?, of(new, &to[..n])?);
        if left == right {
            return Ok(Some((m, n)));
        }
        let divides = |a: &Dim, b: &Dim| a.as_const().is_none_or(|a| a > 0) && b.modulo(a).is_const(0);
        let (grow_left, grow_right) = match (left.as_const(), right.as_const()) {
            (Some(a), Some(b)) => (a < b, a > b),
            _ if divides(&left, &right) => (true, false),
            _ if divides(&right, &left) => (false, true),
            _ => (true, true),
        };
        let (more_left, more_right) = (grow_left && m < from.len(), grow_right && n < to.len());
        if !more_left && !more_right {
            return match (left.as_const(), right.as_const()) {
                (Some(_), Some(_)) => {
                    Err(shapes::mismatch(format!("as many elements as [{}] has", shapes::show(old)), new))
                }
                _ => Ok(None),
            };
        }
        m += usize::from(more_left);
        n += usize::from(more_right);
    }
}

impl Group {
    /// Linearises the new coordinates and splits the sum into the old ones.
    fn index(&self, old: &[Dim], new: &[Dim], index: &mut [IndexExpr]) -> Result<()> {
        let mut flat = IndexExpr::constant(0);
        let mut stride = Dim::constant(1);
        for &axis in self.to.iter().rev() {
            flat = flat + var(axis) * stride.clone();
            stride = product(&[stride, new[axis].clone()])?;
        }
        let mut stride = Dim::constant(1);
        for (n, &axis) in self.from.iter().enumerate().rev() {
            let above = flat.floor_div(&stride);
            index[axis] = if n == 0 { above } else { above.modulo(&old[axis]) };
            stride = product(&[stride, old[axis].clone()])?;
        }
        Ok(())
    }
}
