//! Constants that a contraction makes its right operand of where it reads it, in panels.
//!
//! What a column is made of (packed numbers, scales, zero points) has an axis for the columns and others along which its
//! elements are shared by neighbouring points of the sum. Whatever these are, they keep their order, and the columns go
//! inside by sixteens: `[ceil(N/16)][others…][16]`.

use super::{Change, MIN_COLUMNS, PANEL, read_count};
use crate::form::contraction::{contraction, uses};
use crate::form::plan::Packing;
use crate::form::reorder::reorder_axes;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::scalar::{Load, Source};

/// The changes to the stage that makes the right operand of a contraction; its columns become its innermost axis.
pub(super) fn changes(kernel: &mut Kernel, stage: StageId) -> Vec<Change> {
    let Some((decoding, position)) = columns(kernel, stage) else { return Vec::new() };
    let rank = kernel.stages[decoding].axes.len();
    let order: Vec<usize> = (0..rank).filter(|&axis| axis != position).chain([position]).collect();
    reorder_axes(kernel, decoding, &order);
    let column = VarId::from_index(rank - 1);
    let mut changes = Vec::new();
    let s = &kernel.stages[decoding];
    let Some(n) = s.axes[column.index()].extent.as_const() else { return Vec::new() };
    s.for_each_load(&mut |id, load| {
        if let Source::Operand(operand) = load.source
            && kernel.operands[operand].kind == OperandKind::Constant
            && read_count(kernel, operand) == 1
            && let Some((index, packing)) = panels(kernel, operand, load, column, n)
        {
            changes.push(Change { stage: decoding, operand, load: id, index, packing });
        }
    });
    changes
}

/// The stage that makes the right operand of a contraction out of constants, and the axis of it that is the columns.
fn columns(kernel: &Kernel, stage: StageId) -> Option<(StageId, usize)> {
    let c = contraction(kernel, &kernel.stages[stage])?;
    let Source::Stage(decoding, _) = c.rhs.source else { return None };
    let column = c.columns().into_iter().next()?;
    if !c.rhs_is_constant || uses(c.lhs, column) {
        return None;
    }
    let place = c.rhs.index.iter().position(|e| e.as_var() == Some(column))?;
    let (axis, a) = kernel.stages[decoding].value_axes().nth(place)?;
    let alone = c.rhs.index.iter().filter(|e| e.uses_var(column)).count() == 1;
    (alone && a.extent.as_const().is_some_and(|n| n >= MIN_COLUMNS)).then_some((decoding, axis))
}

/// A constant with one axis of columns: the reader's coordinates, and how it is packed.
fn panels(
    kernel: &Kernel,
    operand: OperandId,
    load: &Load,
    column: VarId,
    n: i64,
) -> Option<(Vec<IndexExpr>, Packing)> {
    let shape: Vec<i64> = kernel.operands[operand].shape.iter().map(Dim::as_const).collect::<Option<_>>()?;
    let along = load.index.iter().position(|e| e.as_var() == Some(column))?;
    let alone = load.index.iter().filter(|e| e.uses_var(column)).count() == 1;
    if !alone || !load.valid.is_empty() || !load.gather.is_empty() || shape[along] != n {
        return None;
    }
    let others: Vec<usize> = (0..shape.len()).filter(|&axis| axis != along).collect();
    let sixteen = IndexExpr::constant(PANEL);
    let (panel, lane) = (IndexExpr::var(column).floor_div(&sixteen), IndexExpr::var(column).modulo(&sixteen));
    let index = [panel].into_iter().chain(others.iter().map(|&axis| load.index[axis].clone())).chain([lane]).collect();
    let packed: Vec<Dim> = [(n + PANEL - 1) / PANEL]
        .into_iter()
        .chain(others.iter().map(|&axis| shape[axis]))
        .chain([PANEL])
        .map(Dim::constant)
        .collect();
    // Back from packed coordinates to those of the constant.
    let at = |n: usize| IndexExpr::var(VarId::from_index(n));
    let columns = at(0).scale(PANEL) + at(packed.len() - 1);
    let mut original = vec![IndexExpr::constant(0); shape.len()];
    original[along] = columns.clone();
    for (n, &axis) in others.iter().enumerate() {
        original[axis] = at(n + 1);
    }
    let bound = Bound { expr: columns, lo: IndexExpr::constant(0), hi: IndexExpr::constant(n) };
    let valid = if n % PANEL == 0 { Vec::new() } else { vec![bound] };
    let middle: String = others.iter().map(|&axis| format!("[{}]", shape[axis])).collect();
    let map = AccessMap { rank: packed.len(), index: original, valid };
    let layout = format!("panels[N/16]{middle}[16]");
    Some((index, Packing { transform: None, map, shape: packed, narrow: None, layout }))
}
