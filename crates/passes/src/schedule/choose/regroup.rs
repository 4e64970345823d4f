//! What gathers and scatters take whose lanes are known distances apart: emitters make whole loads and stores of them,
//! and put lanes into their places between.

use super::access::{Access, Move, Period, Step};
use super::machine::Machine;
use super::tile::{Tile, View};
use infc_ir::kernel::AxisKind;

/// Bytes of the elements whose lanes can be moved.
const ELEM_BYTES: usize = 4;

/// Lanes of the groups that shuffles work in.
const GROUP: f64 = 4.0;

/// Multiply-adds per point of a sum up to which points are unrolled.
const MOST_IN_BODY: i64 = 32;

/// Points of an unrolled sum of which neighbours share loads, at most.
const MOST_SHARING: i64 = 4;

/// The same where the taps of what slides are unrolled, too.
const MOST_WHOLE: i64 = 8;

/// Multiply-adds that an instruction is worth which moves lanes: of long vectors, one unit does.
pub(super) fn unit(machine: &Machine) -> f64 {
    if machine.permuted_vectors > 1 { 2.5 } else { 2.0 }
}

/// The part of [`unit`] that a join or a shuffle within groups of lanes is worth where whole rows are read: more units do
/// these.
const WITHIN_GROUPS: f64 = 0.5;

/// As [`unit`], of lanes that are moved long before they are wanted: such an instruction takes a multiply-add's place.
pub(super) const UNIT_AHEAD: f64 = 1.0;

/// Registers for what is loaded and for numbers of lanes, beside vectors that slide.
pub(super) const BESIDE_WINDOW: f64 = 2.0;

/// What a gather takes whose lanes are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moved {
    /// Instructions for one vector.
    pub(super) instructions: f64,
    /// Vectors that are made together, for as many points of the innermost sum.
    pub(super) together: i64,
}

/// A gather along the vector axis of a tile, if its lanes are moved.
pub(super) fn gather(machine: &Machine, view: &View<'_>, access: &Access, tile: &Tile) -> Option<Moved> {
    let axis = tile.vector_axis?;
    // Where lanes sum, constants are packed so that they need not be gathered.
    let sums_in_lanes = view.stage.axes[axis].kind == AxisKind::Reduce;
    if sums_in_lanes || access.guards.tested || access.elem_bytes != ELEM_BYTES {
        return None;
    }
    if let Some(period) = access.periods[axis] {
        let whole = begins_with_period(view, tile, period);
        let instructions = (0..tile.vectors)
            .map(|vector| putting_together(machine, period.windows(vector * tile.lanes, tile.lanes) as f64))
            .sum::<Option<f64>>();
        let instructions = instructions.filter(|_| whole)? / tile.vectors as f64;
        return Some(Moved { instructions, together: 1 });
    }
    // Neighbours that are read at each lane.
    let rows: i64 = tile.rows.iter().filter(|&&(row, _)| access.steps[row] == Step::One).map(|&(_, n)| n).product();
    let innermost = view.stage.axes.iter().rposition(|a| a.kind == AxisKind::Reduce);
    let taps = innermost.map_or(1, |tap| taps(access, tile, tap, view.extents[tap]));
    let instructions = instructions(machine, tile.lanes, access.strides[axis]?, rows * taps)?;
    if taps > 1 && tile.vectors > MOST_VECTORS {
        return None;
    }
    Some(Moved { instructions, together: taps })
}

/// Whether tiles begin at the beginning of a period along their vectors, so that places of lanes are known.
pub(super) fn begins_with_period(view: &View<'_>, tile: &Tile, period: Period) -> bool {
    let width = tile.points_along_vectors();
    width % period.points == 0 || tile.vector_axis.is_some_and(|axis| width >= view.extents[axis])
}

/// Registers for what is loaded and shuffled on the way.
pub(super) const ON_THE_WAY: f64 = 4.0;

/// Vectors of a tile beyond which more only take registers, where each needs lanes moved.
const MOST_VECTORS: i64 = 4;

/// Points of a sum that are unrolled since gathers share what is loaded for them.
pub(super) fn taps(access: &Access, tile: &Tile, axis: usize, extent: i64) -> i64 {
    let body = tile.vectors * tile.rows.iter().map(|&(_, n)| n).product::<i64>();
    if access.steps[axis] == Step::One && body <= MOST_IN_BODY { extent.clamp(1, MOST_SHARING) } else { 1 }
}

/// Points of a sum that are unrolled with the taps of what slides, where all of them together read whole vectors, and
/// each alone parts of them: a load that is masked takes a multiply-add's place.
pub(super) fn whole_points(access: &Access, lanes: usize, axis: usize, extent: i64) -> i64 {
    let is_whole = |period: Period| period.within == 0 && period.across == extent;
    let is_part = access.steps[axis] == Step::One && access.periods[lanes].is_some_and(is_whole);
    if is_part && extent <= MOST_WHOLE { extent } else { 1 }
}

/// Instructions for one vector of a scatter, if rows of the tile fill what lies between its lanes, or are there to be stored side
/// by side.
pub(super) fn scatter(machine: &Machine, view: &View<'_>, moves: &[Move], tile: &Tile, axis: usize) -> Option<f64> {
    let rows: i64 = tile.rows.iter().filter(|&&(row, _)| moves[row].step == Step::One).map(|&(_, n)| n).product();
    let stride = moves[axis].stride.filter(|&stride| stride > 1 && view.elem_bytes == ELEM_BYTES)?;
    if rows < stride {
        let is_beside = |&(row, _): &(usize, i64)| gathers_stores(view, axis, row);
        let is_of_groups = tile.lanes as f64 % GROUP == 0.0 && rows as f64 >= GROUP && machine.permuted_vectors > 0;
        // Four rows' lanes change places in two steps, and each group of lanes is taken out and stored.
        let in_groups = 2.0 + 2.0 * tile.lanes as f64 / GROUP;
        return (is_of_groups && tile.rows.iter().all(is_beside)).then_some(in_groups);
    }
    instructions(machine, tile.lanes, stride, rows).map(|n| n + 1.0)
}

/// Whether all that rows of a tile bring is that elements which a stage stores far apart along its vectors lie side by side: a
/// fold of neighbours, stored by columns.
pub(super) fn gathers_stores(view: &View<'_>, vector_axis: usize, row: usize) -> bool {
    let is_turned = |moves: &Vec<Move>| moves[row].step == Step::One && moves[vector_axis].step == Step::Far;
    view.elem_bytes == ELEM_BYTES
        && view.stores.as_ref().is_some_and(is_turned)
        && view.accesses.iter().all(|access| access.steps[row] != Step::Zero)
}

/// Instructions that put lanes of so many vectors together.
fn putting_together(machine: &Machine, vectors: f64) -> Option<f64> {
    match machine.permuted_vectors {
        0 => None,
        1 => Some(2.0 * vectors - 1.0),
        _ => Some((vectors - 1.0).max(1.0)),
    }
}

/// The fewer of what lanes picked from whole vectors take, and what joined groups take.
fn instructions(machine: &Machine, lanes: i64, stride: i64, neighbours: i64) -> Option<f64> {
    let stride = stride.unsigned_abs() as f64;
    let (lanes, neighbours) = (lanes as f64, neighbours as f64);
    if lanes % GROUP != 0.0 || stride < 1.0 {
        return None;
    }
    let windows = stride.min(lanes);
    let picked = putting_together(machine, windows)? + windows / 2.0 / neighbours.min(stride);
    let loads = if stride >= GROUP { GROUP * (neighbours / GROUP).ceil() } else { stride };
    let pairs = (stride - 1.0).min(GROUP) / 4.0 * neighbours;
    let joined = loads * (1.5 * lanes / GROUP - 1.0) + pairs + neighbours;
    let joined = if stride < GROUP { joined * WITHIN_GROUPS } else { joined };
    let fewest = picked.min(joined / neighbours);
    (fewest < lanes).then_some(fewest)
}
