//! Constants that a contraction makes its right operand of where it reads it, in panels.
//!
//! What a column is made of (packed numbers, scales, zero points) has an axis for the columns and others along which its
//! elements are shared by neighbouring points of the sum. Whatever these are, they keep their order, and the columns go
//! inside by sixteens: `[ceil(N/16)][others…][16]`. Bytes that dot products take in groups have the points of a group inside
//! of that, `[ceil(N/16)][others…][K/4][16][4]`.
//!
//! So lies what a sum of a contraction's sums reads beside them (the scales of blocks).

use super::{Change, MIN_COLUMNS, PANEL, Packs, dot, read_count};
use crate::form::contraction::{contraction, uses};
use crate::form::plan::Packing;
use crate::form::reorder::reorder_axes;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{AxisKind, Kernel, OperandKind, Stage};
use infc_ir::scalar::{Load, Source};

/// The changes to the stage that makes the right operand of a contraction; its columns become the innermost axis.
pub(super) fn changes(kernel: &mut Kernel, stage: StageId, packs: Packs) -> Vec<Change> {
    let Some((decoding, position)) = columns(kernel, stage) else { return Vec::new() };
    let rank = kernel.stages[decoding].axes.len();
    let order: Vec<usize> = (0..rank).filter(|&axis| axis != position).chain([position]).collect();
    reorder_axes(kernel, decoding, &order);
    let group = group(kernel, stage, decoding).filter(|_| packs.line_bytes.is_none());
    constants(kernel, decoding, VarId::from_index(rank - 1), group)
}

/// The changes to stages that sum a contraction's sums.
pub(super) fn beside(kernel: &Kernel, stage: StageId) -> Vec<Change> {
    let readers = sums_of_sums(kernel, stage);
    readers.into_iter().flat_map(|(reader, column)| constants(kernel, reader, column, None)).collect()
}

/// The changes to what a stage reads of constants along its axis of columns.
fn constants(kernel: &Kernel, stage: StageId, column: VarId, group: Option<i64>) -> Vec<Change> {
    let mut changes = Vec::new();
    let n = kernel.stages[stage].axes[column.index()].extent.as_const();
    let Some(n) = n.filter(|&n| n >= MIN_COLUMNS) else { return changes };
    kernel.stages[stage].for_each_load(&mut |id, load| {
        if let Source::Operand(operand) = load.source
            && kernel.operands[operand].kind == OperandKind::Constant
            && read_count(kernel, operand) == 1
            && let Some((index, packing)) = panels(kernel, operand, load, column, n, group)
        {
            changes.push(Change { stage, operand, load: id, index, packing });
        }
    });
    changes
}

/// How many points of the sum dot products take together whose right operand is bits of bytes.
fn group(kernel: &Kernel, stage: StageId, decoding: StageId) -> Option<i64> {
    let made = &kernel.stages[decoding];
    let &[result] = &made.results[..] else { return None };
    made.body.bits_of_byte(result)?;
    let intrinsic = dot(&contraction(kernel, &kernel.stages[stage])?)?;
    intrinsic.is_exact().then_some(intrinsic.turns())
}

/// The stages that sum a contraction's sums, with their axis of its columns.
fn sums_of_sums(kernel: &Kernel, stage: StageId) -> Vec<(StageId, VarId)> {
    let Some(c) = contraction(kernel, &kernel.stages[stage]) else { return Vec::new() };
    let column = c.columns().into_iter().next();
    let Some(place) = c.stage.value_axes().position(|(axis, _)| column == Some(VarId::from_index(axis))) else {
        return Vec::new();
    };
    let mut readers = Vec::new();
    // Another contraction packs its own.
    let sums = |reader: &Stage| reader.reducer.is_some() && contraction(kernel, reader).is_none();
    for (id, reader) in kernel.stages.iter_enumerated().filter(|(_, reader)| sums(reader)) {
        reader.for_each_load(&mut |_, load| {
            if matches!(load.source, Source::Stage(source, _) if source == stage)
                && let Some(column) = load.index[place].as_var()
                && reader.axes[column.index()].kind == AxisKind::Parallel
                && !readers.contains(&(id, column))
            {
                readers.push((id, column));
            }
        });
    }
    readers
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

/// A constant with one axis of columns: the reader's coordinates, and how it is packed. Its last other axis is in groups of
/// so many neighbours, if it is whole ones.
fn panels(
    kernel: &Kernel,
    operand: OperandId,
    load: &Load,
    column: VarId,
    n: i64,
    group: Option<i64>,
) -> Option<(Vec<IndexExpr>, Packing)> {
    let shape: Vec<i64> = kernel.operands[operand].shape.iter().map(Dim::as_const).collect::<Option<_>>()?;
    let along = load.index.iter().position(|e| e.as_var() == Some(column))?;
    let alone = load.index.iter().filter(|e| e.uses_var(column)).count() == 1;
    if !alone || !load.valid.is_empty() || !load.gather.is_empty() || shape[along] != n {
        return None;
    }
    let others: Vec<usize> = (0..shape.len()).filter(|&axis| axis != along).collect();
    let grouped = others.last().copied().zip(group).filter(|&(axis, group)| group > 1 && shape[axis] % group == 0);
    let points = |axis: usize| grouped.filter(|&(of, _)| of == axis).map_or(1, |(_, group)| group);
    let sixteen = IndexExpr::constant(PANEL);
    let (panel, lane) = (IndexExpr::var(column).floor_div(&sixteen), IndexExpr::var(column).modulo(&sixteen));
    let of_group = |axis: usize| load.index[axis].floor_div(&points(axis).into());
    let in_group = grouped.map(|(axis, group)| (load.index[axis].modulo(&group.into()), group));
    let index = [panel].into_iter().chain(others.iter().map(|&axis| of_group(axis))).chain([lane]);
    let index = index.chain(in_group.iter().map(|(place, _)| place.clone())).collect();
    let packed: Vec<Dim> = [(n + PANEL - 1) / PANEL]
        .into_iter()
        .chain(others.iter().map(|&axis| shape[axis] / points(axis)))
        .chain([PANEL])
        .chain(in_group.iter().map(|(_, group)| *group))
        .map(Dim::constant)
        .collect();
    // Back from packed coordinates to those of the constant.
    let at = |n: usize| IndexExpr::var(VarId::from_index(n));
    let lane_at = others.len() + 1;
    let columns = at(0).scale(PANEL) + at(lane_at);
    let mut original = vec![IndexExpr::constant(0); shape.len()];
    original[along] = columns.clone();
    for (n, &axis) in others.iter().enumerate() {
        let within = if points(axis) > 1 { at(lane_at + 1) } else { IndexExpr::constant(0) };
        original[axis] = at(n + 1).scale(points(axis)) + within;
    }
    let bound = Bound { expr: columns, lo: IndexExpr::constant(0), hi: IndexExpr::constant(n) };
    let valid = if n % PANEL == 0 { Vec::new() } else { vec![bound] };
    let names = |extents: &[Dim]| extents.iter().map(|extent| format!("[{extent}]")).collect::<String>();
    let map = AccessMap { rank: packed.len(), index: original, valid };
    let layout = format!("panels[N/16]{}", names(&packed[1..]));
    Some((index, Packing { transform: None, map, shape: packed, narrow: None, layout }))
}
