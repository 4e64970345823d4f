//! What a register tile costs: cycles by a simple model of the core.

use super::access::{Access, Step, cost};
use super::lines::{self, Lines};
use super::machine::Machine;
use super::regroup;
use super::tile::{Tile, View};
use super::window::{self, Window, window};
use infc_ir::kernel::{AxisKind, Reducer};
use infc_ir::scalar::BinaryOp;
use infc_tensor::DTypeClass;

/// Loads that one lane of a gather or scatter is worth: processors with mitigations are slow at them.
const GATHER_LANE: f64 = 3.0;

/// Cycles between two tiles for each element that an instruction of its own spreads over all lanes.
const OWN_SPREAD: f64 = 3.0;

/// Accumulators that are finished while the next tile begins.
const FINISHED_ASIDE: f64 = 16.0;

/// Cycles for each accumulator more.
const FINISHED: f64 = 1.5;

/// The part of a function's instructions that shows there: all of it made tiles too small behind sums of 192 terms
/// (docs/perf-log.md, "functions behind sums").
const FUNCTION_SHOWN: f64 = 0.5;

/// Cycles for a lane whose place is a remainder that only the run tells.
const FOUND_LANE: f64 = 20.0;

/// Cycles for a row of a tile whose place is a quotient and a remainder by a size that only the run tells.
const FOUND_ROW: f64 = 10.0;

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

/// Cycles before the first turn of a tile's loop, beside those of its accumulators.
const BEGINNING: f64 = 8.0;

/// Ways of a cache set that rows of a tile may take; the others are for what streams by.
const CACHE_WAYS_FOR_ROWS: i64 = 6;

/// Rows whose addresses do not differ by constants: each takes a register, of which there are 15 for all purposes.
const ADDRESS_ROWS: i64 = 8;

/// Of a batch of unknown size as many rows are taken to stand alone, beside those that are in tiles: mostly it is one.
const BATCHES_OF_ONE: f64 = 16.0;

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

/// Cycles that the whole stage takes at least, by any tile: those of its arithmetic, without anything beside it.
pub(super) fn least(view: &View<'_>, machine: &Machine) -> f64 {
    let points: f64 = view.extents.iter().map(|&n| n as f64).product();
    let cost = view.dot.map_or_else(|| cost(view.stage), |intrinsic| machine.dot(intrinsic).cost);
    points / view.points_at_once() / machine.lanes(view.elem_bytes) as f64 * cost / machine.arithmetic_per_cycle
}

/// What all tiles of a stage have in common, full ones and remainders.
struct Common {
    /// How often what moves along the vector axis alone (weights) is streamed.
    passes: f64,
    /// Turns of the loop over what is summed.
    turns: f64,
    /// Vector instructions per point.
    cost: f64,
}

/// Cycles for the whole stage; infinitely many if the tile does not fit into registers, or if it takes `most` or more.
pub(super) fn estimate(view: &View<'_>, machine: &Machine, tile: &Tile, most: f64) -> f64 {
    let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
    let reduces = view.stage.axes[vector_axis].kind == AxisKind::Reduce;
    // Most tiles that are tried are too large.
    let along = view.extents[vector_axis];
    let width = tile.vectors * tile.lanes;
    let operations = tile.vectors * tile.rows.iter().map(|&(_, n)| n).product::<i64>();
    let are_full = (reduces || along >= width) && tile.rows.iter().all(|&(axis, n)| view.extents[axis] >= n);
    if are_full && !has_room(view, machine, operations as f64) {
        return f64::INFINITY;
    }
    // Full tiles and remainders, per axis of the tile.
    let mut parts: Vec<Vec<(i64, f64)>> = Vec::new();
    if reduces {
        parts.push(vec![(tile.vectors, 1.0)]);
    } else {
        let rest = along % width;
        let mut p = vec![(tile.vectors, (along / width) as f64)];
        if rest > 0 {
            p.push(((rest + tile.lanes - 1) / tile.lanes, 1.0));
        }
        if view.batches[vector_axis] {
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
        if view.batches[axis] && n > 1 {
            p.push((1, BATCHES_OF_ONE));
        }
        parts.push(p);
    }
    let others: f64 = (0..view.stage.axes.len())
        .filter(|&a| view.stage.axes[a].kind != AxisKind::Reduce)
        .filter(|&a| a != vector_axis && tile.rows.iter().all(|&(r, _)| r != a))
        .map(|a| view.extents[a] as f64)
        .product();
    let common = Common {
        passes: passes(view, tile, &parts),
        turns: turns(view, tile),
        cost: view.dot.map_or_else(|| cost(view.stage), |dot| machine.dot(dot).cost),
    };
    // Many are so small or leave so much over that nothing else need be known of them.
    let least = total(&parts, &mut |sizes| least_tile_cycles(view, machine, tile, sizes, &common));
    if least.is_none_or(|least| least * others >= most) {
        return f64::INFINITY;
    }
    total(&parts, &mut |sizes| tile_cycles(view, machine, tile, sizes, &common)).map_or(f64::INFINITY, |t| t * others)
}

/// The cycles of all tiles, given those of one of each size; `None` if there are none of one that exists.
fn total(parts: &[Vec<(i64, f64)>], of_one: &mut dyn FnMut(&[i64]) -> Option<f64>) -> Option<f64> {
    let mut total = 0.0;
    let mut index = vec![0usize; parts.len()];
    let mut sizes = vec![0; parts.len()];
    loop {
        sizes.iter_mut().zip(index.iter().zip(parts)).for_each(|(size, (&i, p))| *size = p[i].0);
        let count: f64 = index.iter().zip(parts).map(|(&i, p)| p[i].1).product();
        if count > 0.0 {
            total += count * of_one(&sizes)?;
        }
        let Some(next) = (0..index.len()).find(|&d| index[d] + 1 < parts[d].len()) else { return Some(total) };
        index[next] += 1;
        index[..next].fill(0);
    }
}

/// Turns of a tile's loop over what is summed.
fn turns(view: &View<'_>, tile: &Tile) -> f64 {
    let points = reduction_points(view);
    let Some(axis) = tile.vector_axis.filter(|&axis| view.stage.axes[axis].kind == AxisKind::Reduce) else {
        return points;
    };
    let along = view.extents[axis];
    let width = tile.lanes * tile.vectors;
    // A remainder is masked, which costs about a step more.
    let turns = along / width + if along % width == 0 { 0 } else { 2 };
    points / along as f64 * turns as f64
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

/// Cycles between two tiles of long vectors that a processor does not hide behind multiply-adds, where another stage finishes
/// the sums. Where one element is multiplied by vectors they show if sums are short; what a function takes shows anywhere, but
/// where few rows of a batch are as likely as many, in which more chains matter more.
fn between_tiles(view: &View<'_>, machine: &Machine, tile: &Tile, (rows, vectors): (f64, f64)) -> f64 {
    let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
    if view.finishing.is_empty() || view.stage.axes[vector_axis].kind == AxisKind::Reduce {
        return 0.0;
    }
    let late = (rows * vectors * view.stage.results.len() as f64 - FINISHED_ASIDE).max(0.0);
    let of_batch = tile.rows.iter().any(|&(axis, _)| view.batches[axis]);
    let instructions = if of_batch { 0.0 } else { FUNCTION_SHOWN * view.finishing_cost };
    // Beyond what any stage takes that finishes sums.
    let function = (instructions / machine.arithmetic_per_cycle - FINISHED).max(0.0);
    let spreads = view.dot.is_none() && view.accesses.iter().any(|a| a.steps[vector_axis] == Step::Zero);
    if !spreads {
        return function * late;
    }
    // With a single vector, spreading an element is part of the multiply-add.
    let spread = if vectors > 1.0 { OWN_SPREAD * rows } else { 0.0 };
    spread + (FINISHED + function) * late
}

/// Cycles of one tile at least, if there is nothing but its arithmetic; `None` if its accumulators do not fit into registers.
fn least_tile_cycles(view: &View<'_>, machine: &Machine, tile: &Tile, sizes: &[i64], common: &Common) -> Option<f64> {
    let operations = sizes.iter().map(|&n| n as f64).product::<f64>();
    let arithmetic = operations * common.cost / machine.arithmetic_per_cycle;
    if view.stage.reducer.is_none() {
        return Some(arithmetic);
    }
    let accumulators = operations * view.stage.results.len() as f64;
    let latency_cycles = view.dot.map_or(machine.latency_cycles, |dot| machine.dot(dot).latency_cycles);
    let latency = latency_cycles * if tile.slides.is_some() { 1.0 } else { LATENCY_SLACK };
    let cycles = (arithmetic.max(latency) + LOOP_CYCLES) * common.turns + BEGINNING + accumulators;
    has_room(view, machine, operations).then_some(cycles)
}

/// Whether the accumulators of so many sums leave a register for what is summed.
fn has_room(view: &View<'_>, machine: &Machine, sums: f64) -> bool {
    let registers = (view.stage.results.len() + view.totals) as f64;
    view.stage.reducer.is_none() || sums * registers < f64::from(machine.vector_registers)
}

/// Cycles of one tile, or `None` if it does not fit into registers.
fn tile_cycles(view: &View<'_>, machine: &Machine, tile: &Tile, sizes: &[i64], common: &Common) -> Option<f64> {
    let vector_axis = tile.vector_axis.expect("only vector tiles are estimated");
    let reduces = view.stage.axes[vector_axis].kind == AxisKind::Reduce;
    let vectors = sizes[0] as f64;
    let rows: f64 = sizes[1..].iter().map(|&n| n as f64).product();
    let components = view.stage.results.len() as f64;
    let accumulators = vectors * rows * components;
    // Registers for these, and for what they are added to.
    let sums = vectors * rows * (components + view.totals as f64);
    let reduction = view.stage.reducer.is_some();
    // Extrema of floats keep NaN: an operand waits for the next one to be looked at, and what was seen is remembered. Both
    // the comparison's result and what is remembered are vectors where masks have no registers.
    let extremum = |op| matches!(op, BinaryOp::Min | BinaryOp::Max);
    let floats = || view.stage.dtypes().iter().any(|dtype| dtype.class() == DTypeClass::Float);
    let reducer = view.stage.reducer.as_ref().and_then(Reducer::as_binary);
    let watched = match reducer.is_some_and(extremum) && floats() {
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
    let free_beside = |weights: f64| f64::from(machine.vector_registers) - sums - weights - 2.0 - watched;
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
    // Accesses that are vectors, and the loads of the one that has fewest.
    let (mut vector_accesses, mut fewest_loads) = (0, f64::INFINITY);
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
                vector_accesses += 1;
                fewest_loads = fewest_loads.min(n * vectors);
                // Where lanes sum, rows and columns share their loads.
                let is_own = n > 1.0 && (!reduces || n >= rows);
                own += if is_own { n * vectors } else { 0.0 };
                let bytes = access.elem_bytes as f64;
                if reduces && n > 1.0 && n * summed_points(view, access) * bytes > machine.l1_bytes as f64 {
                    streamed += n * vectors * tile.lanes as f64 * bytes;
                }
                if n == 1.0 {
                    held += at_once;
                    let of_turn = vectors * tile.lanes as f64 * bytes * view.points_at_once();
                    streamed += lines::streamed(view, access, tile, of_turn, &size_of);
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
        held = if vector_accesses > 1 { fewest_loads } else { 0.0 };
    }
    // Bytes that are taken apart first are two vectors each.
    let operand_cost = dot.map_or(0.0, |dot| dot.operand_cost);
    let apart = operand_cost > 0.0;
    if apart {
        held = 2.0 * held + 2.0;
    }
    // Where lanes sum, one operand comes after the other beside those that stay; not if what stays are windows.
    let passing = if reduces && tile.slides.is_none() { 1.0 } else { 2.0 };
    let registers = if reduction { sums + held + passing + watched } else { vectors + 4.0 };
    if registers > f64::from(machine.vector_registers) {
        return None;
    }
    // Dot products take halves as they are, or have what it takes in the cost of their operands.
    let widened = if dot.is_some() { 0.0 } else { widened };
    let mut prepared = loads * operand_cost + widened + moved * regroup::unit(machine) + others * regroup::UNIT_AHEAD;
    for work in view.works {
        let lanes = if work.moves[vector_axis] { vectors } else { 1.0 };
        let rows = tile.rows.iter().zip(&sizes[1..]).filter(|&(&(axis, _), _)| work.moves[axis]);
        prepared += work.cost * lanes * rows.map(|(_, &size)| size as f64).product::<f64>();
    }
    let arithmetic = (vectors * rows * common.cost + prepared) / machine.arithmetic_per_cycle;
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
        step = near + (first - near) / common.passes + LOOP_CYCLES;
        steps = common.turns;
    }
    // Starting a tile, and combining lanes where they are accumulators.
    let combine = if reduces {
        let instructions = folding(view, tile, &sizes[1..]) + rows * (vectors - 1.0);
        (components * instructions / machine.arithmetic_per_cycle).max(COMBINE_CYCLES)
    } else {
        0.0
    };
    let is_found = |axis: usize| {
        view.stage.axes[axis].extent.as_const().is_none() && view.accesses.iter().any(|a| a.irregular[axis])
    };
    let found = tile.rows.iter().zip(&sizes[1..]).filter(|&(&(axis, _), _)| is_found(axis));
    let found: f64 = found.map(|(_, &size)| size as f64 * FOUND_ROW).sum();
    let start = if reduction { BEGINNING + accumulators + found } else { 1.0 };
    let start = start + if machine.mask_registers { between_tiles(view, machine, tile, (rows, vectors)) } else { 0.0 };
    Some(step * steps + start + combine + stores)
}
