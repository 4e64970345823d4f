//! Sums of products of matrices in tile registers.
//!
//! A buffer that is filled with zeros and then summed into by loops of the kind [`Intrinsic::Tile4`] or [`Intrinsic::Tile2`] is
//! kept in tile registers meanwhile, and written once all is summed. Whether that can be is found out before: what is read has
//! to be rows of words, and each sum has a register that is known here. Else the loops run over memory like all others, which
//! is what they do on machines that have no such registers.

use super::dot::widened;
use super::{Lower, LowerError, VarValue};
use crate::vir::tile::{MOST_ROW_BYTES, MOST_ROWS, TileProduct};
use crate::vir::{TileShape, TileShapes, Value};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::nest::{LoopKind, Stmt};
use infc_ir::scalar::{BinaryOp, Const, Load, ScalarOp, Source};
use infc_ir::schedule::Intrinsic;
use infc_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// Registers of sums, and of either factor: two of a factor meet four sums.
const FOUR_SUMS: (usize, [&[u8]; 2]) = (4, [&[4, 5], &[6, 7]]);
/// The same for more sums.
const SIX_SUMS: (usize, [&[u8]; 2]) = (6, [&[6], &[7]]);

/// Nests of tiles in one region, at most: unrolled loops around them are few.
const MOST_NESTS: usize = 256;

/// What a nest of tiles does.
enum Work<'s> {
    Zero,
    Multiply { product: TileProduct, factors: [Factor<'s>; 2] },
}

/// A factor: rows of words.
struct Factor<'s> {
    load: &'s Load,
    shape: TileShape,
    /// Where the first row begins, in elements.
    start: IndexExpr,
    /// Elements from one row to the next.
    stride: IndexExpr,
}

/// A nest of loops over a tile.
struct Nest<'s> {
    /// Of the sum's register.
    shape: TileShape,
    /// Its first element, and elements from one row to the next.
    start: i64,
    stride: i64,
    work: Work<'s>,
}

/// A sum: its register, and what lies between its rows in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    tile: u8,
    shape: TileShape,
    stride: i64,
}

/// A factor in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    base: Value,
    disp: i32,
    stride: Value,
}

/// Sums in registers.
#[derive(Clone, Debug)]
pub(super) struct Tiled {
    buffer: BufferId,
    /// By the first element.
    sums: BTreeMap<i64, Sum>,
    /// Per factor: registers with their sizes, and what they hold, the one that was used last behind.
    factors: [Vec<(u8, TileShape, Option<Held>)>; 2],
}

impl Tiled {
    fn shapes(&self) -> TileShapes {
        let mut shapes = TileShapes::default();
        let factors = self.factors.iter().flatten().map(|&(tile, shape, _)| (tile, shape));
        for (tile, shape) in self.sums.values().map(|sum| (sum.tile, sum.shape)).chain(factors) {
            shapes.0[usize::from(tile)] = shape;
        }
        shapes
    }
}

/// What one finds of a region.
#[derive(Default)]
struct Survey {
    sums: BTreeMap<i64, (TileShape, i64)>,
    /// Per factor: sizes in the order in which they are met, each with the places.
    factors: [Vec<(TileShape, BTreeSet<IndexExpr>)>; 2],
    nests: usize,
    multiplies: bool,
}

impl Survey {
    /// Gives everything a register.
    fn assigned(self, buffer: BufferId) -> Option<Tiled> {
        let (_, registers) = [FOUR_SUMS, SIX_SUMS].into_iter().find(|&(most, _)| self.sums.len() <= most)?;
        let mut tiled = Tiled { buffer, sums: BTreeMap::new(), factors: Default::default() };
        for (n, (start, (shape, stride))) in self.sums.into_iter().enumerate() {
            tiled.sums.insert(start, Sum { tile: n as u8, shape, stride });
        }
        for ((found, registers), into) in self.factors.into_iter().zip(registers).zip(&mut tiled.factors) {
            if found.len() > registers.len() {
                return None;
            }
            // One for each size; those left for sizes of which there are several.
            let several = found.iter().filter(|(_, places)| places.len() > 1).map(|&(shape, _)| shape);
            let shapes = found.iter().map(|&(shape, _)| shape).chain(several);
            into.extend(registers.iter().zip(shapes).map(|(&tile, shape)| (tile, shape, None)));
        }
        self.multiplies.then_some(tiled)
    }
}

impl Lower<'_> {
    /// The registers of a buffer's sums, if all that is done with it up to its last sum can be done in registers.
    pub(super) fn in_tiles(&mut self, buffer: BufferId, after: &[Stmt]) -> Option<Tiled> {
        if !self.has_tiles || self.tiled.is_some() || self.lane.is_some() {
            return None;
        }
        let last = last_sum(buffer, after)?;
        let mut survey = Survey::default();
        self.survey(buffer, &after[..=last], &mut survey)?;
        survey.assigned(buffer)
    }

    /// Lowers what comes up to the last sum, then writes the buffer; gives what follows.
    pub(super) fn tiled_sums<'s>(&mut self, tiled: Tiled, after: &'s [Stmt]) -> Result<&'s [Stmt], LowerError> {
        let last = last_sum(tiled.buffer, after).unwrap_or(0);
        let shapes = tiled.shapes();
        let known = self.b.tile_shapes.iter().position(|other| other.merged(shapes).is_some());
        let number = known.unwrap_or(self.b.tile_shapes.len());
        match known {
            Some(at) => self.b.tile_shapes[at] = self.b.tile_shapes[at].merged(shapes).unwrap_or(shapes),
            None => self.b.tile_shapes.push(shapes),
        }
        self.b.tile_configure(u32::try_from(number).expect("sizes are few"));
        self.tiled = Some(tiled);
        for stmt in &after[..=last] {
            self.stmt(stmt)?;
        }
        let Some(tiled) = self.tiled.take() else { return Ok(after) };
        for (start, sum) in tiled.sums {
            let (base, disp) = self.address(tiled.buffer, &IndexExpr::constant(start), 4)?;
            let stride = self.b.iconst(4 * sum.stride);
            self.b.tile_store(sum.tile, base, disp, stride);
        }
        Ok(&after[last + 1..])
    }

    /// What registers hold of factors is not there any more, or not known to be.
    pub(super) fn forget_factors(&mut self) {
        for (.., held) in self.tiled.iter_mut().flat_map(|tiled| tiled.factors.iter_mut().flatten()) {
            *held = None;
        }
    }

    /// Lowers a nest over a tile of what is in registers; false, and nothing done, if it is none.
    pub(super) fn tile_nest(&mut self, stmt: &Stmt) -> Result<bool, LowerError> {
        let Some(tiled) = &self.tiled else { return Ok(false) };
        let Some(nest) = self.nest_over_tile(tiled.buffer, stmt) else {
            // It would be summed in memory, over which the registers are written in the end.
            let is_tile = matches!(stmt, Stmt::For { kind: LoopKind::Tensor(intrinsic), .. } if intrinsic.is_tile());
            return if is_tile {
                self.unsupported("a product of tiles that is none when it is lowered")
            } else {
                Ok(false)
            };
        };
        let Some(&sum) = tiled.sums.get(&nest.start) else {
            return self.unsupported("a sum has no tile register, though all had");
        };
        match nest.work {
            Work::Zero => self.b.tile_zero(sum.tile),
            Work::Multiply { product, factors } => {
                let [rows, columns] = factors;
                let (rows, columns) = (self.factor(0, &rows)?, self.factor(1, &columns)?);
                self.b.tile_multiply(product, sum.tile, rows, columns);
            }
        }
        Ok(true)
    }

    /// The register that holds a factor.
    fn factor(&mut self, side: usize, factor: &Factor<'_>) -> Result<u8, LowerError> {
        let buffer = self.buffer_of(factor.load)?;
        let elem_bytes = self.memory_type(self.nest.buffers[buffer].dtype)?.size_bytes();
        let (base, disp) = self.address(buffer, &factor.start, elem_bytes)?;
        let stride = self.index_value(&factor.stride.scale(i64::from(elem_bytes)))?;
        let held = Held { base, disp, stride };
        let Some(tiled) = &mut self.tiled else { return self.unsupported("a factor of no sum") };
        let registers = &mut tiled.factors[side];
        let fits = |&(_, shape, _): &(u8, TileShape, Option<Held>)| shape == factor.shape;
        let known = registers.iter().position(|register| fits(register) && register.2 == Some(held));
        let Some(at) = known.or_else(|| registers.iter().position(fits)) else {
            return self.unsupported("a factor has no tile register, though all had");
        };
        let (tile, shape, _) = registers.remove(at);
        registers.push((tile, shape, Some(held)));
        if known.is_none() {
            self.b.tile_load(tile, base, disp, stride);
        }
        Ok(tile)
    }

    /// Takes note of all nests over tiles; `None` if something cannot be done in registers.
    fn survey(&mut self, buffer: BufferId, stmts: &[Stmt], survey: &mut Survey) -> Option<()> {
        for stmt in stmts {
            if let Some(nest) = self.nest_over_tile(buffer, stmt) {
                survey.nests += 1;
                let same =
                    *survey.sums.entry(nest.start).or_insert((nest.shape, nest.stride)) == (nest.shape, nest.stride);
                if !same || survey.nests > MOST_NESTS {
                    return None;
                }
                if let Work::Multiply { factors, .. } = nest.work {
                    survey.multiplies = true;
                    for (factor, found) in factors.into_iter().zip(&mut survey.factors) {
                        let known = found.iter().position(|(shape, _)| *shape == factor.shape);
                        let at = known.unwrap_or(found.len());
                        if known.is_none() {
                            found.push((factor.shape, BTreeSet::new()));
                        }
                        found[at].1.insert(factor.start);
                    }
                }
                continue;
            }
            match stmt {
                Stmt::For { var, extent, kind: LoopKind::Unrolled, body } => {
                    for turn in 0..self.resolve(extent).as_const()? {
                        self.vars[var.index()] = Some(VarValue::Const(turn));
                        let done = self.survey(buffer, body, survey);
                        self.vars[var.index()] = None;
                        done?;
                    }
                }
                Stmt::For { kind: LoopKind::Serial, body, .. } => self.survey(buffer, body, survey)?,
                Stmt::Prefetch { .. } => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// The nest of loops over a tile that a statement is: zeros, or a product of matrices that is added.
    fn nest_over_tile<'s>(&self, buffer: BufferId, stmt: &'s Stmt) -> Option<Nest<'s>> {
        let tile_loop = |stmt: &'s Stmt, most: i64| match stmt {
            Stmt::For { var, extent, kind: LoopKind::Tensor(intrinsic), body } if intrinsic.is_tile() => {
                let turns = self.resolve(extent).as_const().filter(|turns| (1..=most).contains(turns))?;
                let [inner] = &body[..] else { return None };
                Some((*var, turns, *intrinsic, inner))
            }
            _ => None,
        };
        let most_words = i64::from(MOST_ROW_BYTES) / 4;
        let (row, rows, intrinsic, inner) = tile_loop(stmt, i64::from(MOST_ROWS))?;
        let (column, columns, _, inner) = tile_loop(inner, most_words)?;
        let shape = |rows: i64, words: i64| TileShape { rows: rows as u8, row_bytes: 4 * words as u8 };
        let (targets, work) = match inner {
            Stmt::Store { targets, value, valid } => {
                let [root] = value.roots[..] else { return None };
                let ScalarOp::Const(zero) = value.body.ops[root] else { return None };
                (valid.is_empty() && zero == Const::zero(zero.dtype)).then_some((targets, Work::Zero))?
            }
            group_loop => {
                let (group, groups, _, inner) = tile_loop(group_loop, most_words)?;
                let (point, points, _, inner) = tile_loop(inner, intrinsic.turns())?;
                let Stmt::Reduce { targets, value, reducer, valid } = inner else { return None };
                let sums = reducer.as_binary() == Some(BinaryOp::Add) && valid.is_empty();
                let [root] = value.roots[..] else { return None };
                let ScalarOp::Binary(BinaryOp::Mul, a, b) = value.body.ops[root] else { return None };
                if !sums || points != intrinsic.turns() {
                    return None;
                }
                let sum = if intrinsic == Intrinsic::Tile4 { DType::I32 } else { DType::F32 };
                let (a, b) = (widened(&value.body, a, sum)?, widened(&value.body, b, sum)?);
                let factor = |load: &'s Load, [across, along, other]: [VarId; 3], shape: TileShape, of_rows: bool| {
                    let [index] = &load.index[..] else { return None };
                    let index = self.resolve(index);
                    let (of_point, index) = index.linear_in(point)?;
                    let (of_group, index) = index.linear_in(along)?;
                    let (of_across, start) = index.linear_in(across)?;
                    let turns = intrinsic.turns();
                    // Words side by side along one axis, rows along the other.
                    let (neighbours, stride) = if of_rows { (of_group, of_across) } else { (of_across, of_group) };
                    let inside = [point, along, across, other];
                    let is_free = |e: &IndexExpr| inside.iter().all(|&var| !e.uses_var(var));
                    let words = of_point.is_const(1) && (neighbours.is_const(turns) || shape.row_bytes == 4);
                    let plain = matches!(load.source, Source::Buffer(_)) && is_free(&start) && is_free(&stride);
                    (words && plain).then_some(Factor { load, shape, start, stride })
                };
                let of_rows = |load| factor(load, [row, group, column], shape(rows, groups), true);
                let of_columns = |load| factor(load, [column, group, row], shape(groups, columns), false);
                let (rows, columns) = match (of_rows(a), of_columns(b)) {
                    (Some(rows), Some(columns)) => (rows, columns),
                    _ => (of_rows(b)?, of_columns(a)?),
                };
                let product = match (intrinsic, rows.load.dtype, columns.load.dtype) {
                    (Intrinsic::Tile4, DType::U8, DType::I8) => TileProduct::UnsignedSigned,
                    (Intrinsic::Tile4, DType::I8, DType::U8) => TileProduct::SignedUnsigned,
                    (Intrinsic::Tile2, DType::BF16, DType::BF16) => TileProduct::Bf16,
                    _ => return None,
                };
                (targets, Work::Multiply { product, factors: [rows, columns] })
            }
        };
        let [target] = &targets[..] else { return None };
        let (of_column, index) = self.resolve(&target.index).linear_in(column)?;
        let (of_row, start) = index.linear_in(row)?;
        let side_by_side = of_column.is_const(1) || columns == 1;
        let (start, stride) = (start.as_const()?, of_row.as_const()?);
        let fits = target.buffer == buffer && side_by_side;
        fits.then_some(Nest { shape: shape(rows, columns), start, stride, work })
    }
}

/// The last of some statements that sums into a buffer.
fn last_sum(buffer: BufferId, stmts: &[Stmt]) -> Option<usize> {
    fn sums_into(buffer: BufferId, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For { body, .. } => body.iter().any(|stmt| sums_into(buffer, stmt)),
            Stmt::Reduce { targets, .. } => targets.iter().any(|target| target.buffer == buffer),
            _ => false,
        }
    }
    stmts.iter().rposition(|stmt| sums_into(buffer, stmt))
}
