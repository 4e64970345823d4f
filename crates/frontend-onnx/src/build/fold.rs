//! Computing small known values during import, with the same bodies and maps that nodes would have.

use super::Builder;
use crate::known::{self, Folding, Item};
use crate::tracked::{Tracked, static_len};
use infc_ir::access::AccessMap;
use infc_ir::entity::ScalarId;
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::ReduceOp;
use infc_ir::scalar::{Body, Const};

impl Builder {
    /// The elements of a map, if its operands' are known.
    pub(super) fn map_known(
        &self,
        body: &Body,
        result: ScalarId,
        read: &[&Tracked],
        ty: &TensorType,
    ) -> Option<Tracked> {
        let ranges = self.ranges();
        let folding = Folding { ranges: &ranges, choices: self.exact };
        if read.is_empty()
            && let Some(mut item) = known::eval(body, &[result], &[], &[], folding)
        {
            return Some(Tracked::uniform(ty.clone(), item.remove(0)));
        }
        let len = static_len(&ty.shape)?;
        let columns: Vec<Vec<Item>> = read.iter().map(|t| t.items()).collect::<Option<_>>()?;
        let mut items = Vec::with_capacity(len);
        for (n, coordinate) in coordinates(&ty.shape).enumerate().take(len) {
            let params: Vec<Item> = columns.iter().map(|c| c[n].clone()).collect();
            items.push(known::eval(body, &[result], &params, &coordinate, folding)?.remove(0));
        }
        Some(Tracked::of_items(ty.clone(), items))
    }

    /// The elements of a reduction, one value per component, if its operands' are known.
    pub(super) fn reduce_known(
        &self,
        inputs: &[&Tracked],
        shape: &[Dim],
        op: &ReduceOp,
        types: &[TensorType],
    ) -> Option<Vec<Tracked>> {
        let (len, kept_len) = (static_len(shape)?, static_len(&types[0].shape)?);
        let columns: Vec<Vec<Item>> = inputs.iter().map(|t| t.items()).collect::<Option<_>>()?;
        let ranges = self.ranges();
        let folding = Folding { ranges: &ranges, choices: self.exact };
        let init: Vec<Item> = op.reducer.init.iter().map(|&c| Item::from_const(c)).collect();
        let mut folded = vec![init; kept_len];
        for (n, coordinate) in coordinates(shape).enumerate().take(len) {
            let params: Vec<Item> = columns.iter().map(|c| c[n].clone()).collect();
            let element = known::eval(&op.body, &op.elements, &params, &coordinate, folding)?;
            let at = (0..shape.len()).filter(|axis| !op.axes.contains(axis)).try_fold(0usize, |flat, axis| {
                let (extent, i) = (shape[axis].as_const()?, coordinate[axis].as_const()?);
                Some(flat * usize::try_from(extent).ok()? + usize::try_from(i).ok()?)
            })?;
            let arguments: Vec<Item> = folded[at].iter().chain(&element).cloned().collect();
            folded[at] = known::eval(&op.reducer.combine, &op.reducer.results, &arguments, &[], folding)?;
        }
        let component = |n: usize| folded.iter().map(|items| items[n].clone()).collect::<Vec<_>>();
        Some(types.iter().enumerate().map(|(n, ty)| Tracked::of_items(ty.clone(), component(n))).collect())
    }
}

/// Every coordinate of a static shape, in row-major order.
fn coordinates(shape: &[Dim]) -> impl Iterator<Item = Vec<IndexExpr>> {
    let extents: Vec<i64> = shape.iter().map(|d| d.as_const().unwrap_or(0)).collect();
    let len = extents.iter().product::<i64>();
    (0..len).map(move |flat| {
        let mut rest = flat;
        let mut coordinate: Vec<IndexExpr> = extents
            .iter()
            .rev()
            .map(|&extent| {
                let i = rest % extent;
                rest /= extent;
                IndexExpr::constant(i)
            })
            .collect();
        coordinate.reverse();
        coordinate
    })
}

/// The elements of a view, if the operand's are known and the map depends on no symbol.
pub(super) fn view_items(x: &Tracked, map: &AccessMap, shape: &[Dim], otherwise: Const) -> Option<Vec<Item>> {
    let len = static_len(shape)?;
    let items = x.items()?;
    let extents: Vec<i64> = x.shape().iter().map(Dim::as_const).collect::<Option<_>>()?;
    let mut moved = Vec::with_capacity(len);
    for coordinate in coordinates(shape).take(len) {
        let at = |e: &IndexExpr| e.substitute_vars(&coordinate).as_const();
        let mut valid = true;
        for bound in &map.valid {
            let (e, lo, hi) = (at(&bound.expr)?, at(&bound.lo)?, at(&bound.hi)?);
            valid &= lo <= e && e < hi;
        }
        if !valid {
            moved.push(Item::from_const(otherwise));
            continue;
        }
        let mut flat = 0i64;
        for (e, &extent) in map.index.iter().zip(&extents) {
            flat = flat * extent + at(e)?;
        }
        moved.push(items.get(usize::try_from(flat).ok()?)?.clone());
    }
    Some(moved)
}

/// The elements of a concatenation, if the operands' are known.
pub(super) fn concat_items(inputs: &[&Tracked], axis: usize, ty: &TensorType) -> Option<Vec<Item>> {
    static_len(&ty.shape)?;
    let columns: Vec<Vec<Item>> = inputs.iter().map(|t| t.items()).collect::<Option<_>>()?;
    let outer = static_len(&ty.shape[..axis])?;
    let mut items = Vec::new();
    for row in 0..outer {
        for column in &columns {
            let len = column.len() / outer;
            items.extend_from_slice(&column[row * len..(row + 1) * len]);
        }
    }
    Some(items)
}
