//! The register tile of a stage: vector axis, vectors, and unrolled rows.

use super::access::{Access, Move, PANEL, Period, Step};
use super::cycles;
use super::decode::Work;
use super::machine::Machine;
use super::{regroup, window};
use infc_ir::kernel::{Axis, AxisKind, Stage};
use infc_ir::schedule::Intrinsic;

/// What is less than this of another estimate is taken to be less.
pub(super) const LESS: f64 = 0.999;

/// What one innermost body computes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tile {
    /// The axis whose points are vector lanes; `None` for scalar code.
    pub(super) vector_axis: Option<usize>,
    /// Lanes per vector.
    pub(super) lanes: i64,
    /// Vectors along the vector axis; for a reduction along it, independent accumulators.
    pub(super) vectors: i64,
    /// Unrolled axes with their number of points.
    pub(super) rows: Vec<(usize, i64)>,
    /// The reduction axis that is unrolled with them, since rows share what they read along it.
    pub(super) slides: Option<usize>,
}

impl Tile {
    /// No vectors, nothing unrolled.
    pub(super) fn scalar() -> Self {
        Self { vector_axis: None, lanes: 1, vectors: 1, rows: Vec::new(), slides: None }
    }

    /// Points along the vector axis in one tile.
    pub(super) fn points_along_vectors(&self) -> i64 {
        self.lanes * self.vectors
    }

    /// Makes the tile one of so many points along the vector axis, in vectors no longer than they are, without a rest.
    pub(super) fn with_points_of_vectors(&mut self, points: i64) {
        self.lanes = (1 << points.trailing_zeros()).min(self.lanes);
        self.vectors = points / self.lanes;
    }

    /// Points along an axis in one tile.
    pub(super) fn points(&self, axis: usize) -> i64 {
        if self.vector_axis == Some(axis) {
            return self.points_along_vectors();
        }
        self.rows.iter().find(|&&(r, _)| r == axis).map_or(1, |&(_, n)| n)
    }
}

/// A stage with what was found out about it.
#[derive(Clone)]
pub(super) struct View<'a> {
    pub(super) stage: &'a Stage,
    pub(super) accesses: &'a [Access],
    /// What it takes to make what is read.
    pub(super) works: &'a [Work],
    /// Movement of the stores along each axis; `None` where the stage has storage of its own.
    pub(super) stores: Option<Vec<Move>>,
    /// Points along each axis in one computation of the stage.
    pub(super) extents: Vec<i64>,
    /// The axes that are probably a batch ([`is_batch`]).
    pub(super) batches: Vec<bool>,
    /// Widest element of the stage in bytes.
    pub(super) elem_bytes: usize,
    /// Whether the reduction may be folded in another order, so that its axes may be lanes.
    pub(super) reorders: bool,
    /// The dot product that folds several reduction points at once per lane.
    pub(super) dot: Option<Intrinsic>,
    /// How what is read beside the stage's sums where another stage finishes them tile by tile (a bias) moves along each axis,
    /// if its lanes are put together; empty where none does.
    pub(super) finishing: Vec<Option<Period>>,
    /// Vector instructions that finish a point of the sums there.
    pub(super) finishing_cost: f64,
    /// The axis that lanes lie along, if that follows from other stages than this one.
    pub(super) lanes_along: Option<usize>,
    /// Registers that what each sum is added to takes meanwhile.
    pub(super) totals: usize,
}

impl View<'_> {
    /// Reduction points that one operation folds per lane.
    pub(super) fn points_at_once(&self) -> f64 {
        self.dot.map_or(1.0, |dot| dot.turns() as f64)
    }
}

/// The cheapest tile by a simple model of the core, and the cycles that the stage takes by it. Its lanes lie along a
/// reduction if that is asked for.
pub(super) fn choose(view: &View<'_>, machine: &Machine, along_reduction: bool) -> (Tile, f64) {
    let mut best = (Tile::scalar(), f64::INFINITY);
    for_each(view, machine, along_reduction, &mut |tile| {
        let cycles = cycles::estimate(view, machine, &tile, best.1 * LESS);
        if cycles < best.1 * LESS {
            best = (tile, cycles);
        }
    });
    best
}

/// The cheapest tile, then others from the cheaper to the dearer, `most` at most.
pub(super) fn ranked(view: &View<'_>, machine: &Machine, along_reduction: bool, most: usize) -> Vec<(Tile, f64)> {
    let best = choose(view, machine, along_reduction);
    let mut others = Vec::new();
    let free = View { lanes_along: None, ..view.clone() };
    for_each(&free, machine, along_reduction, &mut |tile| {
        let cycles = cycles::estimate(&free, machine, &tile, f64::INFINITY);
        if cycles.is_finite() && tile != best.0 {
            others.push((tile, cycles));
        }
    });
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    others.truncate(most - 1);
    others.insert(0, best);
    others
}

/// Calls `f` with every tile.
fn for_each(view: &View<'_>, machine: &Machine, along_reduction: bool, f: &mut dyn FnMut(Tile)) {
    let lanes = machine.lanes(view.elem_bytes);
    let allowed = |kind| !along_reduction || kind == AxisKind::Reduce;
    for axis in 0..view.stage.axes.len() {
        let possible = match view.stage.axes[axis].kind {
            AxisKind::Parallel => true,
            // The points of a dot product lie within a lane.
            AxisKind::Reduce => view.reorders && view.dot.is_none(),
            AxisKind::Sequential => false,
        };
        let is_settled = view.lanes_along.is_none_or(|along| along == axis);
        if !possible || !is_settled || !allowed(view.stage.axes[axis].kind) || lanes < 2 {
            continue;
        }
        let points = view.extents[axis];
        if points < 2 {
            continue;
        }
        // A short axis takes a short vector: half a vector is as quick as a whole one, and masks are avoided.
        let lanes = lanes.min(next_power_of_two(points));
        // Three vectors of a dot product are taken apart element by element (docs/ideas.md).
        let vectors: &[i64] = if view.dot.is_some() { &[1, 2, 4, 8] } else { &[1, 2, 3, 4, 6, 8] };
        // A tile of whole panels, or one that is all of a narrow panel, finds its columns by constants; so does a tile of which
        // several make a wide panel.
        let panel = view.accesses.iter().filter_map(|a| a.panelled[axis]).max();
        let divides = |width: i64| panel.is_none_or(|panel| panel % width == 0 || width % panel == 0);
        let is_whole = |width: i64| width % PANEL == 0 && divides(width) || (points <= PANEL && width >= points);
        // Where all that is read moves along, nothing is gained by several vectors at once: parts of panels do as well.
        let all_move = view.accesses.iter().all(|a| a.steps[axis] != Step::Zero);
        let is_part = |width: i64| all_move && panel.is_some_and(|panel| panel % width == 0);
        let panelled = panel.is_some();
        let whole = |n: i64| !panelled || is_whole(n * lanes) || is_part(n * lanes);
        // Panels are padded, so that a tile may be of whole ones.
        let most = if panelled { (points + PANEL - 1) / PANEL * PANEL } else { points };
        let fits = |n: i64, lanes: i64| n == 1 || (n - 1) * lanes < most;
        let mut shapes: Vec<(i64, i64)> = vectors.iter().map(|&n| (n, lanes)).filter(|&(n, _)| whole(n)).collect();
        if view.stage.axes[axis].kind == AxisKind::Reduce && lanes > 2 && points % lanes != 0 {
            // A remainder of partial sums is masked; half vectors may leave none.
            shapes.extend(vectors.iter().map(|&n| (n, lanes / 2)));
        }
        let choices = row_choices(view, axis);
        for (vectors, lanes) in shapes.into_iter().filter(|&(n, lanes)| fits(n, lanes)) {
            for rows in &choices {
                let sliding = window::sliding(view, machine, axis, vectors, rows);
                for slides in std::iter::once(None).chain(sliding.into_iter().map(Some)) {
                    f(Tile { vector_axis: Some(axis), lanes, vectors, rows: rows.clone(), slides });
                }
            }
        }
    }
}

fn next_power_of_two(n: i64) -> i64 {
    n.max(1).unsigned_abs().next_power_of_two().cast_signed()
}

/// Rows of an axis of known extent that make tiles along a batch of unknown size unnecessary.
const ENOUGH_ROWS: i64 = 4;

/// Unrolled axes to try beside a vector axis.
fn row_choices(view: &View<'_>, vector_axis: usize) -> Vec<Vec<(usize, i64)>> {
    let stage = view.stage;
    let mut choices = vec![Vec::new()];
    if stage.reducer.is_none() {
        return choices;
    }
    let mut candidates: Vec<usize> = (0..stage.axes.len())
        .filter(|&a| a != vector_axis && stage.axes[a].kind == AxisKind::Parallel)
        .filter(|&a| view.extents[a] > 1)
        // Unrolling pays where some load does not move with the axis, or what is stored lies side by side then.
        .filter(|&a| {
            view.accesses.iter().any(|x| x.steps[a] == Step::Zero) || regroup::gathers_stores(view, vector_axis, a)
        })
        .collect();
    // A batch that may be anything is mostly one: a tile of its rows would be a remainder of one row. Other symbolic axes
    // (a sequence, the width of an image) are mostly long.
    let known = |a: usize| stage.axes[a].extent.as_const().is_some();
    let is_batch = |a: usize| view.batches[a];
    let has_rows = |a: usize| !is_batch(a) && (!known(a) || view.extents[a] >= ENOUGH_ROWS);
    if candidates.iter().any(|&a| has_rows(a)) {
        candidates.retain(|&a| !is_batch(a));
    }
    // Where lanes sum, all operands are vectors, and both axes share loads.
    let most_outer = if stage.axes[vector_axis].kind == AxisKind::Reduce { 8 } else { 4 };
    const ROWS: [i64; 16] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 28];
    // Later axes first: of equals, the one whose points lie closer together; and known ones before those that may leave
    // fewer rows than a tile.
    let later_first = candidates.iter().enumerate().rev();
    let (sure, unsure): (Vec<_>, Vec<_>) = later_first.partition(|&(_, &a)| known(a));
    for (i, &a) in sure.into_iter().chain(unsure) {
        let points = view.extents[a];
        for &n in ROWS.iter().filter(|&&n| n <= points) {
            choices.push(vec![(a, n)]);
            for &b in &candidates[..i] {
                let outer = view.extents[b];
                for m in (2..=most_outer).filter(|&m| known(b) && m <= outer && m * n <= 28) {
                    choices.push(vec![(b, m), (a, n)]);
                }
            }
        }
    }
    choices
}

/// Whether an axis of unknown extent is probably a batch: of several such axes the one whose symbol the model has first,
/// wherever it stands; of one alone, an outermost one, but for the steps of a recurrence. What several symbols make, a batch and the sequences in it, is none.
pub(super) fn is_batch(stage: &Stage, axis: usize) -> bool {
    let symbols = |axis: &Axis| axis.extent.symbols();
    let of_axis = symbols(&stage.axes[axis]);
    let is_other = |other: &Axis| {
        let found = symbols(other);
        !found.is_empty() && found != of_axis
    };
    let mut others = stage.axes.iter().filter(|a| a.kind == AxisKind::Parallel && is_other(a)).peekable();
    if others.peek().is_none() {
        let is_outermost = stage.axes[..axis].iter().all(|a| a.kind == AxisKind::Sequential);
        return of_axis.len() == 1 && is_outermost;
    }
    stage.axes[axis].extent.as_symbol().is_some()
        && others.all(|other| of_axis.iter().min() < symbols(other).iter().min())
}

/// Whether the rows that a stage folds lie along an axis, neighbour by neighbour: whoever laid them out so had many points of
/// it in mind, and no batch of one.
pub(super) fn lies_along(stage: &Stage, accesses: &[Access], axis: usize) -> bool {
    let folds =
        |a: &&Access| (0..stage.axes.len()).any(|n| stage.axes[n].kind == AxisKind::Reduce && a.steps[n] != Step::Zero);
    let mut moving = accesses.iter().filter(|a| a.operand.is_some() && a.steps[axis] != Step::Zero).peekable();
    moving.peek().is_some() && moving.all(|a| a.steps[axis] == Step::One && folds(&a))
}
