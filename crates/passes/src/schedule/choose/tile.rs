//! The register tile of a stage: vector axis, vectors, and unrolled rows.

use super::access::{Access, Move, PANEL, Period, Step, cost};
use super::decode::Work;
use super::lines::{self, Lines};
use super::machine::Machine;
use super::regroup;
use super::window::{self, Window, window};
use infc_ir::kernel::{Axis, AxisKind, Reducer, Stage};
use infc_ir::scalar::BinaryOp;
use infc_ir::schedule::Intrinsic;
use infc_tensor::DTypeClass;

/// Loads that one lane of a gather or scatter is worth: processors with mitigations are slow at them.
const GATHER_LANE: f64 = 3.0;

/// Cycles between two tiles for each element that an instruction of its own spreads over all lanes.
const OWN_SPREAD: f64 = 3.0;

/// Accumulators that are finished while the next tile begins.
const FINISHED_ASIDE: f64 = 16.0;

/// Cycles for each accumulator more.
const FINISHED: f64 = 1.5;

/// Cycles for a lane whose place is a remainder that only the run tells.
const FOUND_LANE: f64 = 20.0;

/// Vector arithmetic instructions that convert a vector of halves as it is loaded.
const WIDENED: f64 = 1.0;

/// The same for a half that all lanes get: one more moves it, and one spreads it.
const WIDENED_BROADCAST: f64 = 3.0;

/// By how much independent work has to exceed the latency of a multiply-add to hide it in practice.
const LATENCY_SLACK: f64 = 1.25;

/// The part of a load that shows if only one multiply-add waits for it: cache lines that come in take turns with loads.
const OWN_LOAD: f64 = 0.5;

/// How long it takes at least to fold the lanes of an accumulator, one step waiting for the other.
const COMBINE_CYCLES: f64 = 12.0;

/// What a turn of the innermost loop costs beside its work.
const LOOP_CYCLES: f64 = 0.5;

/// Ways of a cache set that rows of a tile may take; the others are for what streams by.
const CACHE_WAYS_FOR_ROWS: i64 = 6;

/// Rows whose addresses do not differ by constants: each takes a register, of which there are 15 for all purposes.
const ADDRESS_ROWS: i64 = 8;

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
pub(super) struct View<'a> {
    pub(super) stage: &'a Stage,
    pub(super) accesses: &'a [Access],
    /// What it takes to make what is read.
    pub(super) works: &'a [Work],
    /// Movement of the stores along each axis; `None` where the stage has storage of its own.
    pub(super) stores: Option<Vec<Move>>,
    /// Points along each axis in one computation of the stage.
    pub(super) extents: Vec<i64>,
    /// Widest element of the stage in bytes.
    pub(super) elem_bytes: usize,
    /// Whether the reduction may be folded in another order, so that its axes may be lanes.
    pub(super) reorders: bool,
    /// The dot product that folds several reduction points at once per lane.
    pub(super) dot: Option<Intrinsic>,
    /// How what is read beside the stage's sums where another stage finishes them tile by tile (a bias) moves along each axis,
    /// if its lanes are put together; empty where none does.
    pub(super) finishing: Vec<Option<Period>>,
}

impl View<'_> {
    /// Reduction points that one operation folds per lane.
    fn points_at_once(&self) -> f64 {
        self.dot.map_or(1.0, |dot| dot.turns() as f64)
    }
}

/// The cheapest tile by a simple model of the core, and the cycles that the stage takes by it. Its lanes lie along a
/// reduction if that is asked for.
pub(super) fn choose(view: &View<'_>, machine: &Machine, along_reduction: bool) -> (Tile, f64) {
    let mut best = (Tile::scalar(), f64::INFINITY);
    for_each(view, machine, along_reduction, &mut |tile, cycles| {
        if cycles < best.1 * 0.999 {
            best = (tile, cycles);
        }
    });
    best
}

/// The cheapest tile, then others from the cheaper to the dearer, `most` at most.
pub(super) fn ranked(view: &View<'_>, machine: &Machine, along_reduction: bool, most: usize) -> Vec<(Tile, f64)> {
    let best = choose(view, machine, along_reduction);
    let mut others = Vec::new();
    for_each(view, machine, along_reduction, &mut |tile, cycles| {
        if cycles.is_finite() && tile != best.0 {
            others.push((tile, cycles));
        }
    });
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    others.truncate(most - 1);
    others.insert(0, best);
    others
}

/// Calls `f` with every tile and its cycles.
fn for_each(view: &View<'_>, machine: &Machine, along_reduction: bool, f: &mut dyn FnMut(Tile, f64)) {
    let lanes = machine.lanes(view.elem_bytes);
    let allowed = |kind| !along_reduction || kind == AxisKind::Reduce;
    for axis in 0..view.stage.axes.len() {
        let possible = match view.stage.axes[axis].kind {
            AxisKind::Parallel => true,
            // The points of a dot product lie within a lane.
            AxisKind::Reduce => view.reorders && view.dot.is_none(),
            AxisKind::Sequential => false,
        };
        if !possible || !allowed(view.stage.axes[axis].kind) || lanes < 2 {
            continue;
        }
        let points = view.extents[axis];
        if points < 2 {
            continue;
        }
        // A short axis takes a short vector: half a vector is as quick as a whole one, and masks are avoided.
        let lanes = lanes.min(next_power_of_two(points));
        // Three vectors of a dot product are taken apart element by element (docs/status.md).
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
        for (vectors, lanes) in shapes.into_iter().filter(|&(n, lanes)| fits(n, lanes)) {
            for rows in row_choices(view, axis) {
                let sliding = window::sliding(view, machine, axis, vectors, &rows);
                for slides in std::iter::once(None).chain(sliding.into_iter().map(Some)) {
                    let tile = Tile { vector_axis: Some(axis), lanes, vectors, rows: rows.clone(), slides };
                    let cycles = estimate(view, machine, &tile);
                    f(tile, cycles);
                }
            }
        }
    }
}

fn next_power_of_two(n: i64) -> i64 {
    n.max(1).unsigned_abs().next_power_of_two().cast_signed()
}

/// Of a batch of unknown size as many rows are taken to stand alone, beside those that are in tiles: mostly it is one.
const BATCHES_OF_ONE: f64 = 16.0;

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
        // Unrolling pays where some load does not move with the axis.
        .filter(|&a| view.accesses.iter().any(|x| x.steps[a] == Step::Zero))
        .collect();
    // A batch that may be anything is mostly one: a tile of its rows would be a remainder of one row. Other symbolic axes
    // (a sequence, the width of an image) are mostly long.
    let known = |a: usize| stage.axes[a].extent.as_const().is_some();
    let is_batch = |a: usize| is_batch(stage, a);
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
/// wherever it stands; of one alone, an outermost one. What several symbols make, a batch and the sequences in it, is none.
fn is_batch(stage: &Stage, axis: usize) -> bool {
    let symbols = |axis: &Axis| axis.extent.symbols();
    let of_axis = symbols(&stage.axes[axis]);
    let is_other = |other: &Axis| {
        let found = symbols(other);
        !found.is_empty() && found != of_axis
    };
    let mut others = stage.axes.iter().filter(|a| a.kind == AxisKind::Parallel && is_other(a)).peekable();
    if others.peek().is_none() {
        return of_axis.len() == 1 && axis == 0;
    }
    stage.axes[axis].extent.as_symbol().is_some()
        && others.all(|other| of_axis.iter().min() < symbols(other).iter().min())
}

/// Points of the reduction axes together.
fn reduction_points(view: &View<'_>) -> f64 {
    let points: f64 = view.stage.reduce_axes().map(|(axis, _)| view.extents[axis] as f64).product();
    points / view.points_at_once()
}

/// Points of the reduction axes at which an access reads different elements.
fn summed_points(view: &View<'_>, access: &Access) -> f64 {
    let moving = view.stage.reduce_axes().filter(|&(axis, _)| access.steps[axis] != Step::Zero);
    moving.map(|(axis, _)| view.extents[axis] as f64).product()
}

/// Cycles for the whole stage.
fn estimate(view: &View<'_>, machine: &Machine, tile: &Tile) -> f64 {
    let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
    let reduces = view.stage.axes[vector_axis].kind == AxisKind::Reduce;
    let mut total = 0.0;
    // Full tiles and remainders, per axis of the tile.
    let mut parts: Vec<Vec<(i64, f64)>> = Vec::new();
    let along = view.extents[vector_axis];
    let width = tile.vectors * tile.lanes;
    if reduces {
        parts.push(vec![(tile.vectors, 1.0)]);
    } else {
        let rest = along % width;
        let mut p = vec![(tile.vectors, (along / width) as f64)];
        if rest > 0 {
            p.push(((rest + tile.lanes - 1) / tile.lanes, 1.0));
        }
        if is_batch(view.stage, vector_axis) {
            p.push((1, BATCHES_OF_ONE));
        }
        parts.push(p);
    }
    for &(axis, n) in &tile.rows {
        let points = view.extents[axis];
        let mut p = vec![(n, (points / n) as f64)];
        if points % n > 0 {
            p.push((points % n, 1.0));
        }
        if is_batch(view.stage, axis) && n > 1 {
            p.push((1, BATCHES_OF_ONE));
        }
        parts.push(p);
    }
    let passes = passes(view, tile, &parts);
    let mut index = vec![0usize; parts.len()];
    loop {
        let sizes: Vec<i64> = index.iter().zip(&parts).map(|(&i, p)| p[i].0).collect();
        let count: f64 = index.iter().zip(&parts).map(|(&i, p)| p[i].1).product();
        if count > 0.0 {
            let Some(cycles) = tile_cycles(view, machine, tile, &sizes, passes) else { return f64::INFINITY };
            total += count * cycles;
        }
        let Some(next) = (0..index.len()).find(|&d| index[d] + 1 < parts[d].len()) else { break };
        index[next] += 1;
        index[..next].fill(0);
    }
    let others: f64 = (0..view.stage.axes.len())
        .filter(|&a| view.stage.axes[a].kind != AxisKind::Reduce)
        .filter(|&a| a != vector_axis && tile.rows.iter().all(|&(r, _)| r != a))
        .map(|a| view.extents[a] as f64)
        .product();
    total * others
}

/// How often what moves along the vector axis alone (weights) is streamed.
fn passes(view: &View<'_>, tile: &Tile, parts: &[Vec<(i64, f64)>]) -> f64 {
    let tiles: f64 = parts[1..].iter().map(|p| p.iter().map(|(_, count)| count).sum::<f64>()).product();
    let others: f64 = view
        .stage
        .value_axes()
        .filter(|(a, _)| tile.vector_axis != Some(*a) && tile.rows.iter().all(|&(r, _)| r != *a))
        .map(|(a, _)| view.extents[a] as f64)
        .product();
    (tiles * others).max(1.0)
}

/// Instructions that fold the lanes of a tile's accumulators, of which there are so many along each of its rows.
///
/// Four whose results are neighbours in memory are transposed on the way: two and then one more pair of vectors, each pair by
/// two shuffles and an operation; what is left of wider vectors is halved.
fn folding(view: &View<'_>, tile: &Tile, sizes: &[i64]) -> f64 {
    let halves = f64::from(tile.lanes.ilog2());
    let results: i64 = sizes.iter().product();
    let fours = fours(view, tile, sizes);
    let of_four = 9.0 + 2.0 * (halves - 2.0);
    fours as f64 * of_four + (results - 4 * fours) as f64 * 2.0 * halves
}

/// Groups of four results of a tile whose lanes sum that are neighbours in memory, and so lanes of one vector in the end.
fn fours(view: &View<'_>, tile: &Tile, sizes: &[i64]) -> i64 {
    let mut neighbours = 1;
    if let Some(moves) = view.stores.as_ref().filter(|_| view.elem_bytes == 4 && tile.lanes >= 4) {
        let along = |stride: i64| {
            let at = |(&(axis, _), &size): (&(usize, i64), &i64)| (moves[axis].stride == Some(stride)).then_some(size);
            tile.rows.iter().zip(sizes).filter(|&(_, &size)| size > 1).find_map(at)
        };
        while let Some(size) = along(neighbours) {
            neighbours *= size;
        }
    }
    sizes.iter().product::<i64>() / neighbours.max(1) * (neighbours / 4)
}

/// Cycles between two tiles of long vectors that a processor does not hide behind multiply-adds, where one element is
/// multiplied by vectors and another stage finishes the sums: they show where sums are short.
fn between_tiles(view: &View<'_>, vector_axis: usize, rows: f64, vectors: f64, accumulators: f64) -> f64 {
    let spreads = view.dot.is_none() && view.accesses.iter().any(|a| a.steps[vector_axis] == Step::Zero);
    if view.finishing.is_empty() || !spreads || view.stage.axes[vector_axis].kind == AxisKind::Reduce {
        return 0.0;
    }
    // With a single vector, spreading an element is part of the multiply-add.
    let spread = if vectors > 1.0 { OWN_SPREAD * rows } else { 0.0 };
    spread + FINISHED * (accumulators - FINISHED_ASIDE).max(0.0)
}

/// Cycles of one tile, or `None` if it does not fit into registers.
fn tile_cycles(view: &View<'_>, machine: &Machine, tile: &Tile, sizes: &[i64], passes: f64) -> Option<f64> {
    let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
    let reduces = view.stage.axes[vector_axis].kind == AxisKind::Reduce;
    let vectors = sizes[0] as f64;
    let rows: f64 = sizes[1..].iter().map(|&n| n as f64).product();
    let components = view.stage.results.len() as f64;
    let accumulators = vectors * rows * components;
    let reduction = view.stage.reducer.is_some();
    // Extrema of floats keep NaN: an operand waits for the next one to be looked at, and what was seen is remembered. Both
    // the comparison's result and what is remembered are vectors where masks have no registers.
    let extremum = |op| matches!(op, BinaryOp::Min | BinaryOp::Max);
    let floats = view.stage.dtypes().iter().any(|dtype| dtype.class() == DTypeClass::Float);
    let reducer = view.stage.reducer.as_ref().and_then(Reducer::as_binary);
    let watched = match floats && reducer.is_some_and(extremum) {
        true if machine.mask_registers => 2.0,
        true => 4.0,
        false => 0.0,
    };

    // How long a sum waits for the one before.
    let dot = view.dot.map(|intrinsic| machine.dot(intrinsic));
    let latency_cycles = dot.map_or(machine.latency_cycles, |dot| dot.latency_cycles);
    let size_of = |axis: usize| tile.rows.iter().position(|&(a, _)| a == axis).map_or(1, |row| sizes[1 + row]);
    let sliding = |access: &Access| tile.slides.and_then(|taps| window(view, access, &tile.rows, taps));
    // Of what slides, either all elements stay in registers; or what is read beside them at each tap, while they pass by
    // one after the other, those of one vector after those of another.
    let beside = tile.slides.map_or(0.0, |taps| window::read_beside(view, vector_axis, taps, &tile.rows));
    let rows_of = |access: &Access| {
        let moves = tile.rows.iter().zip(&sizes[1..]).filter(|&(&(axis, _), _)| access.steps[axis] != Step::Zero);
        moves.map(|(_, &size)| size as f64).product::<f64>()
    };
    let elements = |access: &Access, window: Window| {
        let size = size_of(window.row_axis);
        vectors * rows_of(access) / size as f64 * window.elements(size) as f64
    };
    // Registers for windows, beside accumulators and a row of weights.
    let free_beside = |weights: f64| f64::from(machine.vector_registers) - accumulators - weights - 2.0 - watched;
    let most = |found: f64, access: &Access| sliding(access).map_or(found, |w| elements(access, w).max(found));
    let widest = view.accesses.iter().fold(0.0, most);
    let passes_by = widest > free_beside(vectors).max(1.0 + beside);
    let at_once = if passes_by { 1.0 } else { vectors };
    let free = free_beside(at_once);
    // The part of what is read beside that stays; the rest is read again for every row.
    let beside_kept = (free / (1.0 + beside)).clamp(0.0, 1.0);
    // Loads per point of the reduction that is not along lanes.
    let mut loads = 0.0;
    let mut held = 0.0;
    let mut streamed = 0.0;
    let mut streamed_total = 0.0;
    let mut lines = Lines::default();
    let mut gathers = 0.0;
    // Instructions that move lanes.
    let mut moved = 0.0;
    // Such instructions that nothing waits for.
    let mut others = 0.0;
    // Loads that a single multiply-add each is waiting for.
    let mut own = 0.0;
    let mut vector_loads = Vec::new();
    // Conversions of what is loaded.
    let mut widened = 0.0;
    for access in view.accesses {
        let irregular = tile.rows.iter().zip(&sizes[1..]).filter(|&(&(axis, _), _)| access.irregular[axis]);
        if irregular.map(|(_, size)| size).product::<i64>() > ADDRESS_ROWS {
            return None;
        }
        let mut n = 1.0;
        for (&(axis, _), &size) in tile.rows.iter().zip(&sizes[1..]) {
            if access.steps[axis] != Step::Zero {
                // More rows than a cache set has ways evict each other before their lines are used up.
                let evicted = size > CACHE_WAYS_FOR_ROWS * access.cache_sets[axis];
                n *= size as f64 * if evicted { 3.0 } else { 1.0 };
            }
        }
        // What stays beside windows that pass by, as far as it finds registers.
        let again = if passes_by && n == 1.0 { beside_kept + (1.0 - beside_kept) * rows } else { 1.0 };
        match access.steps[vector_axis] {
            // Broadcasts out of windows cost twice their number, tested or not: so it was measured.
            Step::Zero => {
                loads += n * if access.guards.any { 2.0 } else { 1.0 };
                widened += n * if access.widened { WIDENED_BROADCAST } else { 0.0 };
            }
            Step::One => {
                let mut each = if access.guards.tested { 2.0 } else { 1.0 };
                if n > 1.0 {
                    each *= 1.0 + access.crossing(vector_axis, tile.lanes);
                    lines = lines.and(lines::of_rows(view, machine, access, tile, &size_of));
                }
                if let Some(window) = sliding(access) {
                    let elements = elements(access, window);
                    let once = elements / window.taps as f64;
                    widened += once * if access.widened { WIDENED } else { 0.0 };
                    // Rows that the first cache does not hold, as below; what slides is read once for all taps.
                    let bytes = access.elem_bytes as f64;
                    if reduces && once * summed_points(view, access) * bytes > machine.l1_bytes as f64 {
                        streamed += once * tile.lanes as f64 * bytes;
                    }
                    if passes_by {
                        loads += once * each;
                        held += (1.0 + beside) * beside_kept;
                        continue;
                    }
                    // What finds no register is read again.
                    let kept = (free / elements).clamp(0.0, 1.0);
                    loads += (n * vectors + (once - n * vectors) * kept) * each;
                    held += elements * kept;
                    continue;
                }
                loads += n * vectors * each * again;
                widened += n * vectors * again * if access.widened { WIDENED } else { 0.0 };
                vector_loads.push(n * vectors);
                // Where lanes sum, rows and columns share their loads.
                let is_own = n > 1.0 && (!reduces || n >= rows);
                own += if is_own { n * vectors } else { 0.0 };
                let bytes = access.elem_bytes as f64;
                if reduces && n > 1.0 && n * summed_points(view, access) * bytes > machine.l1_bytes as f64 {
                    streamed += n * vectors * tile.lanes as f64 * bytes;
                }
                if n == 1.0 {
                    held += at_once;
                    streamed += vectors * tile.lanes as f64 * bytes * view.points_at_once();
                    streamed_total += bytes
                        * (0..view.extents.len())
                            .filter(|&a| access.steps[a] != Step::Zero)
                            .map(|a| view.extents[a] as f64)
                            .product::<f64>();
                }
            }
            Step::Far => match regroup::gather(machine, view, access, tile) {
                // What slides is put together once for all taps, long before the last of them wants it.
                Some(gather) if let Some(window) = sliding(access) => {
                    let elements = elements(access, window);
                    // Only whole loads pass by.
                    if passes_by {
                        return None;
                    }
                    others += elements / window.taps as f64 * gather.instructions;
                    held += elements + regroup::BESIDE_WINDOW;
                }
                Some(gather) => {
                    moved += n * vectors * gather.instructions * again;
                    // Vectors with several points come one after the other.
                    held += if gather.together > 1 { gather.together as f64 } else { at_once };
                    // Where elements pass by, the weights of one tap are put together while those of others wait.
                    held += if passes_by { 0.0 } else { regroup::ON_THE_WAY };
                }
                None => gathers += n * vectors * tile.lanes as f64 * GATHER_LANE,
            },
        }
    }
    let mut stores = 0.0;
    if let Some(moves) = &view.stores {
        let scattered = || regroup::scatter(machine, view, moves, tile, vector_axis);
        let each = match moves[vector_axis].step {
            Step::Far if !reduces => scattered().unwrap_or(tile.lanes as f64 * GATHER_LANE),
            _ => 1.0,
        };
        stores = if reduces { rows - 3.0 * fours(view, tile, &sizes[1..]) as f64 } else { rows * vectors * each };
    }
    if let Some(period) = view.finishing.get(vector_axis).copied().flatten()
        && !regroup::begins_with_period(view, tile, period)
    {
        stores += vectors * tile.lanes as f64 * FOUND_LANE;
    }
    if reduces {
        // What has one use is an operand of the arithmetic. Of two that are both vectors, the fewer stay until all
        // accumulators have had them.
        held = if vector_loads.len() > 1 { vector_loads.into_iter().fold(f64::INFINITY, f64::min) } else { 0.0 };
    }
    // Bytes that are taken apart first are two vectors each.
    let operand_cost = dot.map_or(0.0, |dot| dot.operand_cost);
    let apart = operand_cost > 0.0;
    if apart {
        held = 2.0 * held + 2.0;
    }
    // Where lanes sum, one operand comes after the other beside those that stay; not if what stays are windows.
    let passing = if reduces && tile.slides.is_none() { 1.0 } else { 2.0 };
    let registers = if reduction { accumulators + held + passing + watched } else { vectors + 4.0 };
    if registers > f64::from(machine.vector_registers) {
        return None;
    }
    let cost = dot.map_or_else(|| cost(view.stage), |dot| dot.cost);
    // Dot products take halves as they are, or have what it takes in the cost of their operands.
    let widened = if dot.is_some() { 0.0 } else { widened };
    let mut prepared = loads * operand_cost + widened + moved * regroup::unit(machine) + others * regroup::UNIT_AHEAD;
    for work in view.works {
        let lanes = if work.moves[vector_axis] { vectors } else { 1.0 };
        let rows = tile.rows.iter().zip(&sizes[1..]).filter(|&(&(axis, _), _)| work.moves[axis]);
        prepared += work.cost * lanes * rows.map(|(_, &size)| size as f64).product::<f64>();
    }
    let arithmetic = (vectors * rows * cost + prepared) / machine.arithmetic_per_cycle;
    // The lanes of a gather are read by many small operations, which take the arithmetic's place.
    let memory = loads / machine.loads_per_cycle;
    let mut step = arithmetic.max(memory) + (gathers + own * OWN_LOAD) / machine.loads_per_cycle;
    let mut steps = 1.0;
    if reduction {
        // Chains that are just long enough to hide the latency leave nothing for hiccups of memory, which operands that
        // stay in registers do not have.
        step = step.max(latency_cycles * if tile.slides.is_some() && !passes_by { 1.0 } else { LATENCY_SLACK });
        step = lines.step(step, reduction_points(view), machine);
        // Weights, and where lanes sum also rows that the first cache does not hold, come from the second cache; weights
        // on their first pass from beyond if they do not fit there.
        let near = step.max(streamed / machine.l2_bytes_per_cycle);
        let far = step.max(streamed / machine.l3_bytes_per_cycle);
        let first = if streamed_total > machine.l2_bytes as f64 / 2.0 { far } else { near };
        step = near + (first - near) / passes + LOOP_CYCLES;
        steps = reduction_points(view);
        if reduces {
            let along = view.extents[vector_axis];
            let width = tile.lanes * tile.vectors;
            // A remainder is masked, which costs about a step more.
            let turns = along / width + if along % width == 0 { 0 } else { 2 };
            steps = steps / along as f64 * turns as f64;
        }
    }
    // Starting a tile, and combining lanes where they are accumulators.
    let combine = if reduces {
        let instructions = folding(view, tile, &sizes[1..]) + rows * (vectors - 1.0);
        (components * instructions / machine.arithmetic_per_cycle).max(COMBINE_CYCLES)
    } else {
        0.0
    };
    let start = if reduction { 8.0 + accumulators } else { 1.0 };
    let start = start
        + if machine.mask_registers { between_tiles(view, vector_axis, rows, vectors, accumulators) } else { 0.0 };
    Some(step * steps + start + combine + stores)
}
