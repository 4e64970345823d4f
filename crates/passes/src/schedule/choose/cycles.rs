//! What a register tile costs: cycles by a simple model of the core.

use super::access::{Step, cost};
use super::machine::Machine;
use super::regroup;
use super::tile::{Tile, View};
use super::traffic::{GATHER_LANE, SizedTile, Traffic};
use infc_ir::kernel::AxisKind;

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

/// Of a batch of unknown size as many rows are taken to stand alone, beside those that are in tiles: mostly it is one.
const BATCHES_OF_ONE: f64 = 16.0;

/// Points of the reduction axes together.
fn reduction_points(view: &View<'_>) -> f64 {
    let points: f64 = view.stage.reduce_axes().map(|(axis, _)| view.extents[axis] as f64).product();
    points / view.points_at_once()
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
    let of_one = &mut |sizes: &[i64]| tile_cycles(&SizedTile::new(view, machine, tile, sizes), &common);
    total(&parts, of_one).map_or(f64::INFINITY, |t| t * others)
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
fn between_tiles(tile: &SizedTile<'_>) -> f64 {
    let &SizedTile { view, machine, vector_axis, vectors, rows, .. } = tile;
    if view.finishing.is_empty() || tile.reduces {
        return 0.0;
    }
    let late = (rows * vectors * view.stage.results.len() as f64 - FINISHED_ASIDE).max(0.0);
    let of_batch = tile.row_axes().any(|(axis, _)| view.batches[axis]);
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
fn tile_cycles(tile: &SizedTile<'_>, common: &Common) -> Option<f64> {
    let &SizedTile { view, machine, vectors, rows, reduces, .. } = tile;
    let traffic = Traffic::of(tile)?;
    if registers(tile, &traffic) > f64::from(machine.vector_registers) {
        return None;
    }
    let turns = if view.stage.reducer.is_some() { common.turns } else { 1.0 };
    let components = view.stage.results.len() as f64;
    // Combining lanes where they are accumulators.
    let combine = if reduces {
        let instructions = folding(view, tile.tile, tile.sizes) + rows * (vectors - 1.0);
        (components * instructions / machine.arithmetic_per_cycle).max(COMBINE_CYCLES)
    } else {
        0.0
    };
    let is_found = |axis: usize| {
        view.stage.axes[axis].extent.as_const().is_none() && view.accesses.iter().any(|a| a.irregular[axis])
    };
    let found: f64 = tile.row_axes().filter(|&(axis, _)| is_found(axis)).map(|(_, size)| size as f64 * FOUND_ROW).sum();
    let start = if view.stage.reducer.is_some() { BEGINNING + vectors * rows * components + found } else { 1.0 };
    let between = if machine.mask_registers { between_tiles(tile) } else { 0.0 };
    Some(turn_cycles(tile, &traffic, common) * turns + (start + between) + combine + stores(tile))
}

/// Registers that a tile takes.
fn registers(tile: &SizedTile<'_>, traffic: &Traffic) -> f64 {
    if tile.view.stage.reducer.is_none() {
        return tile.vectors + 4.0;
    }
    let apart = tile.view.dot.is_some_and(|dot| tile.machine.dot(dot).operand_cost > 0.0);
    // Bytes that are taken apart first are two vectors each.
    let held = if apart { 2.0 * traffic.held + 2.0 } else { traffic.held };
    // Where lanes sum, one operand comes after the other beside those that stay; not if what stays are windows.
    let passing = if tile.reduces && tile.tile.slides.is_none() { 1.0 } else { 2.0 };
    tile.sums + held + passing + tile.watched
}

/// Cycles of a turn of a tile's loop.
fn turn_cycles(tile: &SizedTile<'_>, traffic: &Traffic, common: &Common) -> f64 {
    let &SizedTile { view, machine, vectors, rows, .. } = tile;
    let dot = view.dot.map(|intrinsic| machine.dot(intrinsic));
    let operand_cost = dot.map_or(0.0, |dot| dot.operand_cost);
    // Dot products take halves as they are, or have what it takes in the cost of their operands.
    let widened = if dot.is_some() { 0.0 } else { traffic.widened };
    let mut prepared = traffic.loads * operand_cost
        + widened
        + traffic.moved * regroup::unit(machine)
        + traffic.others * regroup::UNIT_AHEAD;
    for work in view.works {
        let lanes = if work.moves[tile.vector_axis] { vectors } else { 1.0 };
        let rows = tile.row_axes().filter(|&(axis, _)| work.moves[axis]);
        prepared += work.cost * lanes * rows.map(|(_, size)| size as f64).product::<f64>();
    }
    let arithmetic = (vectors * rows * common.cost + prepared) / machine.arithmetic_per_cycle;
    // The lanes of a gather are read by many small operations, which take the arithmetic's place.
    let memory = traffic.loads / machine.loads_per_cycle;
    let turn = arithmetic.max(memory) + (traffic.gathers + traffic.own * OWN_LOAD) / machine.loads_per_cycle;
    if view.stage.reducer.is_none() {
        return turn;
    }
    // How long a sum waits for the one before. Chains that are just long enough to hide the latency leave nothing for hiccups
    // of memory, which operands that stay in registers do not have.
    let latency_cycles = dot.map_or(machine.latency_cycles, |dot| dot.latency_cycles);
    let stay = tile.tile.slides.is_some() && !traffic.windows.pass_by;
    let turn = turn.max(latency_cycles * if stay { 1.0 } else { LATENCY_SLACK });
    let turn = traffic.lines.step(turn, reduction_points(view), machine);
    // Weights, and where lanes sum also rows that the first cache does not hold, come from the second cache; weights on their
    // first pass from beyond if they do not fit there.
    let near = turn.max(traffic.streamed / machine.l2_bytes_per_cycle);
    let far = turn.max(traffic.streamed / machine.l3_bytes_per_cycle);
    let first = if traffic.streamed_total > machine.l2_bytes as f64 / 2.0 { far } else { near };
    near + (first - near) / common.passes + LOOP_CYCLES
}

/// Cycles of what a tile stores.
fn stores(tile: &SizedTile<'_>) -> f64 {
    let &SizedTile { view, machine, vector_axis, vectors, rows, reduces, .. } = tile;
    let lanes = tile.tile.lanes as f64;
    let mut stores = 0.0;
    if let Some(moves) = &view.stores {
        let scattered = || regroup::scatter(machine, view, moves, tile.tile, vector_axis);
        let each = match moves[vector_axis].step {
            Step::Far if !reduces => scattered().unwrap_or(lanes * GATHER_LANE),
            _ => 1.0,
        };
        let in_fours = 3.0 * fours(view, tile.tile, tile.sizes) as f64;
        stores = if reduces { rows - in_fours } else { rows * vectors * each };
    }
    if let Some(period) = view.finishing.get(vector_axis).copied().flatten()
        && !regroup::begins_with_period(view, tile.tile, period)
    {
        stores += vectors * lanes * FOUND_LANE;
    }
    stores
}
