//! Sums of products in tile registers ([`Intrinsic::Tile4`]): which rows and columns a register has, and in which order blocks of
//! them come.
//!
//! A product takes a cycle per row of its left factor, but not less than some, however many columns and groups it has. So rows
//! are cut into tiles that are about equally long, and of groups a tile has as many as divide what is summed. Two tiles of rows
//! and two of columns at a time read each of their factors once for two products. The sums of such a block lie in
//! the first cache when they are done, where the root finishes them in vectors.

use super::access::{Access, Step, extent, step_of};
use super::chooser::Chooser;
use super::decide::MOST_ALTERNATIVES;
use super::dot::{Dot, has_even_groups, step_of_groups};
use super::loops::Loops;
use super::tile::Tile;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::{Intrinsic, Scope, Step as ScheduleStep};

/// Rows, and columns of 32 bits, of a register.
const SIDE: i64 = Intrinsic::TILE_TURNS;
/// Cycles that a product takes at least: measured on Emerald Rapids (docs/perf-log.md, "tile registers").
const LEAST_CYCLES: i64 = 10;
/// Tiles of rows and of columns that are multiplied at a time.
const BLOCKS: [(i64, i64); 4] = [(2, 2), (1, 2), (2, 1), (1, 1)];
/// Cycles that a tile of sums takes on its way through memory, and to begin the next: zeros, one product and the store take 35 there;
/// the rest is a guess at what the root's loads wait.
const CYCLES_OF_SUMS: f64 = 50.0;
/// Groups of a tile below which most of a product is empty.
const LEAST_GROUPS: i64 = 4;
/// Bytes of a line, which is a row of a tile.
const LINE_BYTES: f64 = 64.0;

/// A sum of products whose factors are rows of words, and the root that finishes it.
pub(super) struct Matrices {
    root: StageId,
    sum: StageId,
    intrinsic: Intrinsic,
    /// Axes of the sum: rows, columns, and what is summed in groups.
    axes: [usize; 3],
    /// Another axis that moves what rows do, of known extent.
    beside: Option<usize>,
    /// Per value axis of the sum, the root's.
    follow: Vec<usize>,
    /// Groups of a tile.
    groups: i64,
}

/// What is computed at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Block {
    /// Of a tile.
    rows: i64,
    /// Tiles of rows, along the axis of rows or, if that has no more than a tile, another one.
    row_tiles: i64,
    column_tiles: i64,
}

impl Matrices {
    /// `None` if the root does not finish such a sum, or nothing is gained by tile registers.
    pub(super) fn of(chooser: &Chooser<'_>, root: StageId) -> Option<Self> {
        let kernel = chooser.kernel;
        let [sum] = chooser.producers(root)[..] else { return None };
        let reads_too = |other: StageId| other != root && chooser.producers(other).contains(&sum);
        let is_shared = kernel.outputs.iter().any(|output| reads_too(output.stage));
        if !chooser.machine.tile_registers || is_shared || chooser.run_of(root).is_some() {
            return None;
        }
        let Dot { axis: summed, intrinsic } = chooser.dots[sum.index()]?;
        let (intrinsic, points) = (intrinsic.in_tiles()?, intrinsic.turns());
        let stage = &kernel.stages[sum];
        if chooser.accesses[sum.index()].iter().any(|a| a.guards.tested) {
            return None;
        }
        let mut memo = vec![None; kernel.stages.len()];
        let follow: Vec<usize> = chooser.depends(root, sum, &mut memo)?.into_iter().collect::<Option<_>>()?;
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let root_axes = &kernel.stages[root].axes;
        let all_follow = (0..root_axes.len()).all(|a| follow.iter().filter(|&&f| f == a).count() == 1);
        let is_plain = |a: &Access| a.stage != Some(sum) || (a.axes.iter().all(Option::is_some) && !a.guards.any);
        // The root has the points of the sum, no more and no fewer.
        let is_as_long = |(&axis, &own): (&usize, &usize)| stage.axes[axis].extent == root_axes[own].extent;
        let all_there = value.iter().zip(&follow).all(is_as_long);
        if !all_follow || !all_there || !chooser.accesses[root.index()].iter().all(is_plain) {
            return None;
        }
        let [a, b] = &chooser.accesses[sum.index()][..] else { return None };
        let step = |access: &Access, axis: usize| step_of(kernel, stage, &access.flat, axis, points);
        let is_parallel = |axis: usize| stage.axes[axis].kind == AxisKind::Parallel;
        let known = |axis: usize| stage.axes[axis].extent.as_const();
        let roles = |of_rows: &Access, of_columns: &Access| {
            let column = |&axis: &usize| {
                let side_by_side = step(of_columns, axis) == Step::One && step(of_rows, axis) == Step::Zero;
                side_by_side && is_parallel(axis) && known(axis).is_some()
            };
            let is_row = |&axis: &usize| {
                let moves = of_rows.strides[axis].is_some_and(|stride| stride != 0);
                moves && of_columns.steps[axis] == Step::Zero && is_parallel(axis)
            };
            let columns = value.iter().copied().find(column)?;
            let rows = value
                .iter()
                .copied()
                .filter(is_row)
                .max_by_key(|&axis| (extent(kernel, stage, axis).min(SIDE), axis))?;
            let mut beside =
                value.iter().copied().filter(|axis| *axis != rows && known(*axis).is_some()).filter(is_row);
            // As many groups as divide what is summed, lie side by side in rows, and as far apart in columns.
            let all_groups = known(summed).filter(|n| n % points == 0)? / points;
            let lie_so = |n: &i64| {
                step_of_groups(kernel, stage, &of_rows.flat, summed, n * points) == Some(1)
                    && has_even_groups(kernel, stage, &of_columns.flat, summed, [*n, points])
            };
            let groups = (1..=SIDE).rev().find(|n| all_groups % n == 0 && lie_so(n))?;
            Some((rows, columns, beside.next_back(), groups, all_groups))
        };
        let (rows, columns, beside, groups, all_groups) = roles(a, b).or_else(|| roles(b, a))?;
        if groups < LEAST_GROUPS.min(all_groups) {
            return None;
        }
        let axes = [rows, columns, summed];
        Some(Self { root, sum, intrinsic, axes, beside, follow, groups })
    }

    /// The blocks that may be worth a trial, the best by estimate first, with the cycles that they take.
    fn blocks(&self, chooser: &Chooser<'_>) -> Vec<(Block, f64)> {
        let stage = &chooser.kernel.stages[self.sum];
        let all_rows = extent(chooser.kernel, stage, self.axes[0]);
        let is_known = stage.axes[self.axes[0]].extent.as_const().is_some();
        // As few tiles as can be, all about as long.
        let even = |rows: i64| {
            let tiles = (rows + SIDE - 1) / SIDE;
            (rows + tiles - 1) / tiles
        };
        let mut sizes = vec![SIDE];
        if is_known {
            sizes = (LEAST_CYCLES.min(all_rows)..=SIDE.min(all_rows)).collect();
            sizes.push(even(all_rows));
        }
        sizes.sort_unstable();
        sizes.dedup();
        let mut blocks = Vec::new();
        for rows in sizes {
            // Several tiles of rows lie along another axis if one has all.
            let has_several = |&(row_tiles, _): &(i64, i64)| row_tiles == 1 || all_rows > rows || self.beside.is_some();
            for (row_tiles, column_tiles) in BLOCKS.into_iter().filter(has_several) {
                let block = Block { rows, row_tiles, column_tiles };
                blocks.push((block, self.cycles(chooser, block)));
            }
        }
        blocks.sort_by(|a, b| a.1.total_cmp(&b.1));
        blocks.truncate(MOST_ALTERNATIVES - 1);
        blocks
    }

    /// Cycles of the sum by such blocks.
    fn cycles(&self, chooser: &Chooser<'_>, block: Block) -> f64 {
        let (kernel, machine) = (chooser.kernel, chooser.machine);
        let stage = &kernel.stages[self.sum];
        let points = |axis: usize| extent(kernel, stage, axis);
        let [row_axis, column_axis, summed] = self.axes;
        let tiles = |points: i64, of: i64| (points + of - 1) / of;
        let (rows, columns) = (points(row_axis), points(column_axis));
        let (whole, rest) = (rows / block.rows, rows % block.rows);
        let least = |rows: i64| rows.max(LEAST_CYCLES);
        let in_rows = whole * least(block.rows) + if rest > 0 { least(rest) } else { 0 };
        let others = |axis: &usize| *axis != row_axis && *axis != column_axis && *axis != summed;
        let others: f64 = (0..stage.axes.len()).filter(others).map(|axis| points(axis) as f64).product();
        let steps = points(summed) as f64 / (self.groups * self.intrinsic.turns()) as f64;
        let products = steps * others * tiles(columns, SIDE) as f64;
        // Of a block's factors, each is read once a step. Either comes from the first cache, or from the second.
        let lines = (block.row_tiles * block.rows + block.column_tiles * self.groups) as f64;
        let read = lines * LINE_BYTES / machine.l2_bytes_per_cycle / 2.0;
        let multiplied = (block.row_tiles * block.column_tiles * least(block.rows)) as f64;
        let sums = others_of_sums(stage, self.axes, &points) * (tiles(columns, SIDE) * tiles(rows, block.rows)) as f64;
        products * in_rows as f64 * (read / multiplied).max(1.0) + sums * CYCLES_OF_SUMS
    }

    /// Schedules the root and the sum by tile registers, if that is estimated to be worth it; false if not.
    pub(super) fn schedule(&self, chooser: &mut Chooser<'_>) -> bool {
        let usual = {
            let usual = super::decide::Decisions::default();
            let mut other = Chooser::new(chooser.kernel, chooser.machine, chooser.allowed(), &usual);
            other.root(self.root);
            other.cycles
        };
        let blocks = self.blocks(chooser);
        let Some((_, least)) = blocks.first() else { return false };
        let is_worth = *least < usual;
        // Behind all blocks, or in front of them, none.
        let picked = chooser.decisions.pick("tile registers", &chooser.name(self.sum), blocks.len() + 1);
        let picked = if is_worth { blocks.get(picked) } else { picked.checked_sub(1).and_then(|n| blocks.get(n)) };
        let Some(&(block, cycles)) = picked else { return false };
        chooser.count(cycles);
        self.place(chooser, block);
        true
    }

    fn place(&self, chooser: &mut Chooser<'_>, block: Block) {
        let kernel = chooser.kernel;
        let (root, sum) = (&kernel.stages[self.root], &kernel.stages[self.sum]);
        let value: Vec<usize> = sum.value_axes().map(|(n, _)| n).collect();
        let in_root = |axis: usize| {
            let position = value.iter().position(|&v| v == axis).unwrap_or(0);
            self.follow[position]
        };
        let [rows, columns, summed] = self.axes;
        let points = |axis: usize| sum.axes[axis].extent.as_const();
        // Tiles of rows along another axis, if one tile has all rows.
        let one_tile = points(rows).is_some_and(|n| n <= block.rows);
        let beside = self.beside.filter(|_| one_tile && block.row_tiles > 1);
        let rows_of_block = if one_tile { block.rows } else { block.rows * block.row_tiles };
        let in_block = |axis: usize| match axis {
            axis if axis == columns => SIDE * block.column_tiles,
            axis if axis == rows => rows_of_block,
            axis if beside == Some(axis) => block.row_tiles,
            _ => 1,
        };

        // The root: blocks, then rows of a block in vectors.
        let (root_name, sum_name) = (root.name.clone(), sum.name.clone());
        let mut loops = Loops::default();
        let mut lanes = Vec::new();
        for axis in 0..root.axes.len() {
            let name = &root.axes[axis].name;
            let own = value.iter().copied().find(|&v| in_root(v) == axis).unwrap_or(axis);
            let size = in_block(own);
            if size == 1 {
                loops.outer.push((name.clone(), axis));
                continue;
            }
            let part = |suffix: &str| format!("{name}_{suffix}");
            chooser.split_step(&root_name, name, size, &part("o"), &part("i"));
            loops.outer.push((part("o"), axis));
            if own != columns {
                loops.inner.push(part("i"));
                continue;
            }
            chooser.split_step(&root_name, &part("i"), SIDE, &part("v"), &part("l"));
            chooser.steps.push(ScheduleStep::Unroll { stage: root_name.clone(), axis: part("v") });
            lanes.extend([part("v"), part("l")]);
        }
        loops.inner.extend(lanes.iter().cloned());
        let column = in_root(columns);
        let columns_outermost = self.columns_outermost(chooser);
        loops.outer.sort_by_key(|&(_, axis)| if columns_outermost { axis != column } else { axis == column });
        chooser.reorder_outer(self.root, &mut loops);
        let order = loops.outer.iter().map(|(name, _)| name).chain(&loops.inner).cloned().collect();
        chooser.reorder(&root_name, order);
        if let Some(axis) = lanes.pop() {
            chooser.steps.push(ScheduleStep::Vectorize { stage: root_name.clone(), axis });
        }
        if let Some((axis, _)) = loops.outer.last() {
            let (stage, consumer, axis) = (sum_name.clone(), root_name.clone(), axis.clone());
            chooser.steps.push(ScheduleStep::ComputeAt { stage: stage.clone(), consumer, axis });
            chooser.steps.push(ScheduleStep::StoreIn { stage, scope: Scope::Stack });
        }

        // The sum: what is summed, then tiles of a block, then a tile.
        let part = |axis: usize, suffix: &str| format!("{}_{suffix}", sum.axes[axis].name);
        for (axis, size) in [(rows, block.rows), (columns, SIDE)] {
            chooser.split_step(&sum_name, &sum.axes[axis].name, size, &part(axis, "b"), &part(axis, "t"));
        }
        let turns = self.intrinsic.turns();
        chooser.split_step(
            &sum_name,
            &sum.axes[summed].name,
            self.groups * turns,
            &part(summed, "o"),
            &part(summed, "t"),
        );
        chooser.split_step(&sum_name, &part(summed, "t"), turns, &part(summed, "g"), &part(summed, "q"));
        let mut order: Vec<String> =
            value.iter().filter(|axis| in_block(**axis) == 1).map(|&axis| sum.axes[axis].name.clone()).collect();
        let reduced = sum.reduce_axes().map(|(axis, a)| if axis == summed { part(axis, "o") } else { a.name.clone() });
        order.extend(reduced);
        let tiles: Vec<String> = beside
            .map(|axis| sum.axes[axis].name.clone())
            .into_iter()
            .chain([part(rows, "b"), part(columns, "b")])
            .collect();
        order.extend(tiles.iter().cloned());
        order.extend([part(rows, "t"), part(columns, "t"), part(summed, "g"), part(summed, "q")]);
        chooser.reorder(&sum_name, order);
        for axis in tiles {
            chooser.steps.push(ScheduleStep::Unroll { stage: sum_name.clone(), axis });
        }
        let (axis, intrinsic) = (part(summed, "q"), self.intrinsic);
        chooser.steps.push(ScheduleStep::Tensorize { stage: sum_name, axis, intrinsic });

        // As the root's tile sees it.
        let rows = [Some((in_root(rows), rows_of_block)), beside.map(|axis| (in_root(axis), block.row_tiles))];
        let tile = Tile {
            vector_axis: Some(column),
            lanes: SIDE,
            vectors: block.column_tiles,
            rows: rows.into_iter().flatten().filter(|&(_, n)| n > 1).collect(),
            slides: None,
        };
        let depth = loops.outer.len();
        chooser.parallel(self.root, &loops, &tile, depth);
    }

    /// Whether blocks of columns are outermost, so that all rows pass by them, which stay in the second cache: where not all
    /// columns do.
    fn columns_outermost(&self, chooser: &Chooser<'_>) -> bool {
        let stage = &chooser.kernel.stages[self.sum];
        let [_, columns, _] = self.axes;
        let of_columns = chooser.accesses[self.sum.index()].iter().filter(|a| a.steps[columns] != Step::Zero);
        let bytes = |a: &Access| {
            let moved = (0..stage.axes.len()).filter(|&axis| a.steps[axis] != Step::Zero);
            moved.map(|axis| extent(chooser.kernel, stage, axis) as f64).product::<f64>() * a.elem_bytes as f64
        };
        of_columns.map(bytes).sum::<f64>() > chooser.machine.l2_bytes as f64 / 2.0
    }
}

/// How often the tiles of a sum are begun, beside its rows and columns.
fn others_of_sums(stage: &infc_ir::kernel::Stage, axes: [usize; 3], points: &dyn Fn(usize) -> i64) -> f64 {
    stage.value_axes().filter(|(axis, _)| !axes.contains(axis)).map(|(axis, _)| points(axis) as f64).product()
}
