//! Whether rows of a contraction, or rows and columns, are better counted along two axes as one.
//!
//! An image of 7×7 points has rows of 7, which leave remainders in tiles of 4 or 6 rows, and remainders hide less of
//! the latency of multiply-adds. Joined, its 49 points are nine tiles of 5 and one of 4. The price is that the addresses
//! of a tile's rows no longer differ by constants, so each takes a register of its own. The same goes for images whose size
//! only the run tells, where each row of a tile takes a division besides: nobody knows what tiles of their rows leave over.
//!
//! Three columns leave a quarter of a vector's lanes empty, or more. Joined with the rows before them, they fill vectors
//! of several rows, whose operands are put together of whole loads ([`super::regroup`]).
//! The same goes for groups of few columns, as in convolutions, whose weights share panels: each lane reads what its group
//! does, put in its place once for all taps that meet it ([`super::window`]).
//!
//! Lanes that lie along a sum of 24 channels leave a quarter of 32 empty. Where all that is read goes on at the next tap of a
//! window, channels and taps are one longer sum, which leaves fewer. Rows of tile registers are filled by that, too.

use super::access::{Access, Step, accesses};
use super::chooser::Chooser;
use super::decide::Decisions;
use super::machine::Machine;
use super::{dot, interleave, skip, steps, stored, tile, widen};
use crate::ErrorClass;
use crate::formulate::collapse;
use infc_ir::entity::StageId;
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::schedule::{Intrinsic, Schedule, Step as ScheduleStep};

/// How much of the time a join has to save: estimates are no better than that.
const WORTH: f64 = 0.93;

/// Bytes of the elements of which few columns leave lanes empty.
const COLUMN_BYTES: usize = 4;

/// A kernel as it is, or with two axes joined.
struct Way {
    /// The kernel with the axes joined, and the step that joins them.
    joined: Option<(Kernel, ScheduleStep)>,
    /// What the default schedule takes, and that schedule.
    cycles: f64,
    schedule: Schedule,
}

/// The cheaper of the schedule with axes as they are and those with two of them joined; gates of recurrences are taken
/// apart in front of either ([`steps`]), and factors that many rows share converted ([`widen`]).
pub(super) fn choose(kernel: &Kernel, machine: &Machine, allowed: ErrorClass, decisions: &Decisions) -> Schedule {
    let (apart, mut head) = steps::with_gates_apart(kernel);
    let kernel = apart.as_ref().unwrap_or(kernel);
    let (taken_apart, more) = interleave::with_sums_apart(kernel);
    let kernel = taken_apart.as_ref().filter(|_| allowed >= ErrorClass::Reassociating).unwrap_or(kernel);
    head.extend(more.into_iter().filter(|_| allowed >= ErrorClass::Reassociating));
    let (brought, more) = widen::with_factors_brought(kernel);
    let kernel = brought.as_ref().unwrap_or(kernel);
    head.extend(more);
    let usual = Decisions::default();
    let estimate = |kernel: &Kernel| Chooser::new(kernel, machine, allowed, &usual).run();
    let (schedule, cycles) = estimate(kernel);
    let mut ways = vec![Way { joined: None, cycles: cycles * WORTH, schedule }];
    let columns = pairs_of_columns(kernel, machine.lanes(COLUMN_BYTES));
    let sums = if allowed >= ErrorClass::Reassociating { pairs_of_sums(kernel, machine) } else { Vec::new() };
    let words = pairs_of_words(kernel, machine);
    for (stage, outer, inner) in pairs(kernel).into_iter().chain(columns).chain(sums).chain(words) {
        let s = &kernel.stages[stage];
        let [outer_name, inner_name] = [outer, inner].map(|a| s.axes[a].name.clone());
        let mut name = format!("{outer_name}{inner_name}");
        while s.axes.iter().any(|a| a.name == name) {
            name.push('_');
        }
        let Some(joined) = collapse::join(kernel, stage, outer, inner, &name) else { continue };
        // Of sizes that only the run tells, what holds along two axes need not show along one.
        if is_tested(&joined, stage) && !is_tested(kernel, stage) {
            continue;
        }
        let (schedule, cycles) = estimate(&joined);
        let step = ScheduleStep::Join { stage: s.name.clone(), outer: outer_name, inner: inner_name, joined: name };
        ways.push(Way { joined: Some((joined, step)), cycles, schedule });
    }
    ways.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    let way = ways.swap_remove(if ways.len() > 1 { decisions.pick("joined axes", "", ways.len()) } else { 0 });
    let chosen = way.joined.as_ref().map_or(kernel, |(joined, _)| joined);
    let mut schedule =
        if decisions.are_open() { Chooser::new(chosen, machine, allowed, decisions).run().0 } else { way.schedule };
    if let Some((_, step)) = way.joined {
        schedule.steps.insert(0, step);
    }
    schedule.steps.splice(..0, head);
    schedule
}

/// Pairs of axes along which a contraction has rows: one of its loads stays, none has neighbours there, and none is
/// tested for bounds, since tests that hold for tiles of one axis need not for tiles of both. A batch that only the run tells is
/// mostly one, and has no rows.
fn pairs(kernel: &Kernel) -> Vec<(StageId, usize, usize)> {
    let mut pairs = Vec::new();
    let inlined = stored::inlined(kernel);
    for (id, stage) in kernel.stages.iter_enumerated().filter(|(_, stage)| stage.reducer.is_some()) {
        if is_tested(kernel, id) {
            continue;
        }
        let accesses = accesses(kernel, id, &inlined);
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        // Sums whose loads all move along all axes (depthwise) share what neighbouring windows read instead.
        let is_shared = |x: &Access, axis: usize| {
            x.steps[axis] == Step::Far && value.iter().any(|&column| x.steps[column] == Step::Zero)
        };
        let is_row = |axis: usize| {
            let a = &stage.axes[axis];
            let of = |step: Step| accesses.iter().any(|x| x.steps[axis] == step);
            let is_long = a.kind == AxisKind::Parallel
                && a.extent.as_const().is_none_or(|n| n > 1)
                && !tile::is_batch(stage, axis);
            is_long && of(Step::Zero) && !of(Step::One) && accesses.iter().any(|x| is_shared(x, axis))
        };
        let rows: Vec<usize> = (0..stage.axes.len()).filter(|&axis| is_row(axis)).collect();
        // Positions that only the run divides are not known to be neighbours: something has to stay along both axes.
        let known = |axis: usize| stage.axes[axis].extent.as_const().is_some();
        let stays = |pair: &[usize]| accesses.iter().any(|x| pair.iter().all(|&axis| x.steps[axis] == Step::Zero));
        // Tiles of both are no boxes, of which it could be asked whether they meet nothing but padding.
        let worth = |pair: &&[usize]| {
            (pair.iter().all(|&axis| known(axis)) || stays(pair)) && !skip::meets_much_padding(kernel, id, pair)
        };
        pairs.extend(rows.windows(2).filter(worth).map(|pair| (id, pair[0], pair[1])));
    }
    pairs
}

/// Whether a load of a stage is tested for bounds at each point.
fn is_tested(kernel: &Kernel, stage: StageId) -> bool {
    accesses(kernel, stage, &stored::inlined(kernel)).iter().any(|a| a.guards.tested)
}

/// The last two axes of sums that have fewer columns than lanes. Dot products take operands that lie side by side along the sum
/// and along columns: joined with rows there are none.
fn pairs_of_columns(kernel: &Kernel, lanes: i64) -> Vec<(StageId, usize, usize)> {
    let mut pairs = Vec::new();
    for (id, stage) in kernel.stages.iter_enumerated().filter(|(_, stage)| stage.reducer.is_some()) {
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let [.., outer, inner] = value[..] else { continue };
        let known = |axis: usize| stage.axes[axis].extent.as_const().filter(|&n| n > 1);
        let is_parallel = |axis: usize| stage.axes[axis].kind == AxisKind::Parallel;
        let few = known(inner).is_some_and(|n| n < lanes) && known(outer).is_some();
        if few && is_parallel(outer) && is_parallel(inner) && dot::of(kernel, stage).is_none() && !is_tested(kernel, id)
        {
            pairs.push((id, outer, inner));
        }
    }
    pairs
}

/// The last two axes of sums of which lanes along the inner one would leave some empty, where everything that is read lies on
/// along the outer one where the inner one ends.
fn pairs_of_sums(kernel: &Kernel, machine: &Machine) -> Vec<(StageId, usize, usize)> {
    let inlined = stored::inlined(kernel);
    let mut pairs = Vec::new();
    for (id, stage) in kernel.stages.iter_enumerated().filter(|(_, stage)| stage.reducer.is_some()) {
        let summed: Vec<usize> = stage.reduce_axes().map(|(n, _)| n).collect();
        let [.., outer, inner] = summed[..] else { continue };
        let Some(points) = stage.axes[inner].extent.as_const() else { continue };
        let goes_on = |a: &Access| a.strides[inner] == Some(1) && a.strides[outer] == Some(points) && !a.guards.tested;
        let lanes = |a: &Access| machine.lanes(a.elem_bytes);
        let accesses = accesses(kernel, id, &inlined);
        if accesses.iter().all(goes_on) && accesses.iter().any(|a| points % lanes(a) != 0) {
            pairs.push((id, outer, inner));
        }
    }
    pairs
}

/// The last two axes of sums in dot products that are shorter than a row of a tile register, where the rows of what is multiplied go
/// on along the outer one where the inner one ends. Whether the other factor does too shows when they are joined.
fn pairs_of_words(kernel: &Kernel, machine: &Machine) -> Vec<(StageId, usize, usize)> {
    let inlined = stored::inlined(kernel);
    let mut pairs = Vec::new();
    for (id, stage) in kernel.stages.iter_enumerated().filter(|_| machine.tile_registers) {
        let summed: Vec<usize> = stage.reduce_axes().map(|(n, _)| n).collect();
        let [.., outer, inner] = summed[..] else { continue };
        let Some(points) = stage.axes[inner].extent.as_const() else { continue };
        let is_short = dot::of(kernel, stage)
            .is_some_and(|dot| dot.axis == inner && points < dot.intrinsic.turns() * Intrinsic::TILE_TURNS);
        let accesses = accesses(kernel, id, &inlined);
        let goes_on = |a: &Access| a.strides[inner] == Some(1) && a.strides[outer] == Some(points);
        if is_short && accesses.iter().any(goes_on) && !accesses.iter().any(|a| a.guards.tested) {
            pairs.push((id, outer, inner));
        }
    }
    pairs
}
