//! Results that are read tile by tile: intermediate stages are computed in blocks that stay in the second cache.
//!
//! If a stage's coordinate is `x div n` of the root's, one point of it serves a tile of `n` results, and a turn of a loop
//! over single results cannot compute it. So the root's loops are split in blocks of several tiles. At each block the
//! stages before it are computed in full, one after the other, in scratch memory; then the block's results. That is how
//! a Winograd convolution runs, but nothing here knows of it.
//!
//! The size of blocks is a compromise: what all blocks read again (weights) wants them large, what lies between the
//! stages has to stay in cache, and there must be chunks for threads. Axes that choose between formulas are unrolled, so
//! that the formulas share what they have in common.

use super::access::{Step, extent};
use super::chooser::Chooser;
use super::cycles;
use super::decide::MOST_ALTERNATIVES;
use super::tile::{self, Tile, View};
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::{AxisKind, OperandKind, Stage};
use infc_ir::scalar::{Load, ScalarOp, Source};
use infc_ir::schedule::{Scope, Step as ScheduleStep};

/// Chunks that a kernel is to have at least if it is large enough.
const CHUNKS: i64 = 8;
/// What a chunk less than that costs, as a part of the time of one thread,
const FEW_CHUNKS: f64 = 0.01;
/// and what it costs that there is only one: two threads would halve the time, and two blocks of 14² cost nothing on one where
/// they are estimated to take a sixth more.
const ALONE: f64 = 1.5;
/// What is more than an estimate over this is not compared with others that are about equal to it.
const NEARLY: f64 = 0.99;
/// Leaves what is least less than what is estimated, however both were rounded.
const ROUNDED: f64 = 1.0 - 1e-9;
/// Multiply-adds of vectors below which a chunk is not worth what it computes again.
const LEAST_CHUNK: f64 = 100_000.0;
/// What comes from memory takes so many times as long as from the last cache: it is read before it is written, too.
const MEMORY: f64 = 4.0;
/// Tiles of a block, where only the run tells how many there are: enough that weights need not be read more quickly than
/// they come, and few, so that most tiles are in whole blocks.
const TILES_OF_UNKNOWN: i64 = 36;
/// Columns that chunks consist of.
const PANEL: i64 = 64;
/// Columns of a chunk at least, where it is not known that there are blocks enough for all threads.
const LEAST_COLUMNS: i64 = 128;
/// An axis of more points does not choose between formulas.
const MOST_FORMULAS: i64 = 16;

/// What part of a stage's axis a block of the root needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    /// As many points as of this axis of the root.
    Axis(usize),
    /// One per so many points of the axis.
    Tile(usize, i64),
    All,
}

/// A kernel of one root whose stages follow it in tiles.
pub(super) struct Blocks {
    root: StageId,
    /// Stages with storage before the root, in order, and what of them a block needs.
    stages: Vec<(StageId, Vec<Follow>)>,
    /// Axes of the root in tiles, and the points of a tile.
    tiled: Vec<(usize, i64)>,
    /// The axis whose points are lanes.
    lanes_axis: usize,
}

/// A stage that sums, in a block.
struct Sum<'v> {
    id: StageId,
    view: View<'v>,
    /// Bytes of the constants that it reads.
    constant_bytes: f64,
}

/// Sizes of a block: points per axis of the root.
type Size = Vec<i64>;

impl Blocks {
    /// `None` if the root does not read stages in tiles.
    pub(super) fn of(chooser: &Chooser<'_>, root: StageId) -> Option<Self> {
        let kernel = chooser.kernel;
        let producers = chooser.producers(root);
        let axes = &kernel.stages[root].axes;
        if producers.is_empty() || axes.iter().any(|a| a.kind != AxisKind::Parallel) {
            return None;
        }
        let mut follows: Vec<Option<Vec<Follow>>> = vec![None; kernel.stages.len()];
        for reader in producers.iter().copied().chain([root]).rev() {
            let of_axis: Vec<Follow> = if reader == root {
                (0..axes.len()).map(Follow::Axis).collect()
            } else {
                let mut value = follows[reader.index()].clone()?.into_iter();
                let stage = &kernel.stages[reader];
                let is_reduced = |a: &infc_ir::kernel::Axis| a.kind == AxisKind::Reduce;
                stage
                    .axes
                    .iter()
                    .map(|a| if is_reduced(a) { Follow::All } else { value.next().unwrap_or(Follow::All) })
                    .collect()
            };
            for_each_stage_load(chooser, reader, &mut |source, index| {
                let new: Vec<Follow> = index.iter().map(|e| follow(e, &of_axis)).collect();
                let merged = match follows[source.index()].take() {
                    None => new,
                    Some(old) => old.into_iter().zip(new).map(|(a, b)| if a == b { a } else { Follow::All }).collect(),
                };
                follows[source.index()] = Some(merged);
            });
        }
        let stages: Vec<(StageId, Vec<Follow>)> =
            producers.into_iter().map(|id| Some((id, follows[id.index()].clone()?))).collect::<Option<_>>()?;
        let mut tiled: Vec<(usize, i64)> = Vec::new();
        for follow in stages.iter().flat_map(|(_, f)| f) {
            if let Follow::Tile(axis, points) = *follow
                && !tiled.contains(&(axis, points))
            {
                tiled.push((axis, points));
            }
        }
        tiled.sort_unstable();
        let distinct = tiled.windows(2).all(|pair| pair[0].0 != pair[1].0);
        if tiled.is_empty() || !distinct {
            return None;
        }
        let moves = chooser.store_moves(root);
        let lanes_axis = (0..axes.len()).find(|&a| moves[a].step == Step::One && tiled.iter().all(|&(t, _)| t != a))?;
        Some(Self { root, stages, tiled, lanes_axis })
    }

    pub(super) fn schedule(&self, chooser: &mut Chooser<'_>) {
        let size = self.size(chooser);
        let block_loop = self.root_loops(chooser, &size);
        let consumer = chooser.name(self.root);
        for (id, follow) in &self.stages {
            let stage = chooser.name(*id);
            let (consumer, axis) = (consumer.clone(), block_loop.clone());
            chooser.steps.push(ScheduleStep::ComputeAt { stage: stage.clone(), consumer, axis });
            chooser.steps.push(ScheduleStep::StoreIn { stage, scope: Scope::Scratch });
            let extents = self.extents(chooser, *id, follow, &size);
            if chooser.kernel.stages[*id].reducer.is_some() {
                reduction_loops(chooser, *id, extents);
            } else {
                formula_loops(chooser, *id, extents);
            }
        }
    }

    /// The points of each axis of a stage in a block.
    fn extents(&self, chooser: &Chooser<'_>, id: StageId, follow: &[Follow], size: &Size) -> Vec<i64> {
        let mut extents = chooser.extents(id);
        for ((axis, _), follow) in chooser.kernel.stages[id].value_axes().zip(follow) {
            let part = match *follow {
                Follow::Axis(of) => size[of],
                Follow::Tile(of, points) => (size[of] + points - 1) / points,
                Follow::All => continue,
            };
            extents[axis] = extents[axis].min(part);
        }
        extents
    }

    // ---------------------------------------------------------------------------------------------- block size --

    fn size(&self, chooser: &Chooser<'_>) -> Size {
        let axes = &chooser.kernel.stages[self.root].axes;
        let mut whole: Size = chooser.extents(self.root);
        let is_unknown = |axis: usize| axes[axis].extent.as_const().is_none();
        let unknown = self.tiled.iter().filter(|&&(axis, _)| is_unknown(axis)).count();
        for axis in (0..axes.len()).filter(|&axis| is_unknown(axis)) {
            // What is no image is one of a batch, for all that is known.
            let points = self.tiled.iter().find(|&&(tiled, _)| tiled == axis).map(|&(_, points)| points);
            let tiles = (TILES_OF_UNKNOWN as f64).powf(1.0 / unknown as f64) as i64;
            whole[axis] = points.map_or(1, |points| whole[axis].min(tiles * points));
        }
        // Blocks are one point of all axes but the tiled ones and the lanes.
        let mut size: Size = vec![1; axes.len()];
        size[self.lanes_axis] = whole[self.lanes_axis];
        let mut sizes = Vec::new();
        self.each_size(&whole, 0, &mut size, &mut |size| sizes.push(size.clone()));
        let sizes = self.estimated(chooser, &whole, sizes);
        let mut size = self.pick_size(chooser, sizes).unwrap_or(size);
        // Threads share what is left: columns, whose blocks compute the stages that do not follow them again.
        let blocks = self.blocks(&whole, &size);
        let columns = whole[self.lanes_axis];
        let panels = if unknown == 0 { (columns + PANEL - 1) / PANEL } else { columns / LEAST_COLUMNS };
        let worth = (self.work(chooser, &whole) / LEAST_CHUNK) as i64;
        let parts = (CHUNKS / blocks.max(1)).min(panels).min(worth / blocks.max(1));
        if parts > 1 {
            size[self.lanes_axis] = ((columns + parts - 1) / parts + PANEL - 1) / PANEL * PANEL;
        }
        size
    }

    /// Sizes with their cycles, in order; where there is no choice, without those that take more than the best in any case: all are
    /// as quick as their arithmetic allows at most, and the one that is quickest then is nearly the best.
    fn estimated(&self, chooser: &Chooser<'_>, whole: &Size, sizes: Vec<Size>) -> Vec<(f64, Size)> {
        let machine = chooser.machine;
        let mut sums = self.sums(chooser, whole);
        let mut least = |size: &Size| self.cycles(chooser, &mut sums, whole, size, &|sum| cycles::least(sum, machine));
        let sizes: Vec<(f64, Size)> = sizes.into_iter().map(|size| (least(&size) * ROUNDED, size)).collect();
        let mut cycles =
            |size: &Size| self.cycles(chooser, &mut sums, whole, size, &|sum| tile::choose(sum, machine, false).1);
        let mut most = f64::INFINITY;
        if !chooser.decisions.are_open()
            && let Some((_, promising)) = sizes.iter().min_by(|a, b| a.0.total_cmp(&b.0))
        {
            most = cycles(promising) / NEARLY;
        }
        sizes.into_iter().filter(|&(least, _)| least <= most).map(|(_, size)| (cycles(&size), size)).collect()
    }

    /// The cheapest size, unless it is decided otherwise.
    fn pick_size(&self, chooser: &Chooser<'_>, mut sizes: Vec<(f64, Size)>) -> Option<Size> {
        let mut best = 0;
        for (n, (cycles, _)) in sizes.iter().enumerate() {
            if *cycles < sizes[best].0 * tile::LESS {
                best = n;
            }
        }
        let first = sizes.get(best)?.1.clone();
        sizes.remove(best);
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let alternatives = (sizes.len() + 1).min(MOST_ALTERNATIVES);
        let picked = chooser.decisions.pick("block", &chooser.kernel.stages[self.root].name, alternatives);
        Some(picked.checked_sub(1).map_or(first, |n| sizes.swap_remove(n).1))
    }

    /// All sizes along the tiled axes from `at` on: whole tiles, in parts that are as equal as can be.
    fn each_size(&self, whole: &Size, at: usize, size: &mut Size, f: &mut dyn FnMut(&Size)) {
        let Some(&(axis, points)) = self.tiled.get(at) else { return f(size) };
        let tiles = (whole[axis] + points - 1) / points;
        let mut last = 0;
        for parts in 1..=tiles {
            let part = (tiles + parts - 1) / parts;
            if part != last {
                last = part;
                size[axis] = (part * points).min(whole[axis]);
                self.each_size(whole, at + 1, size, f);
            }
        }
    }

    fn blocks(&self, whole: &Size, size: &Size) -> i64 {
        whole.iter().zip(size).map(|(w, s)| (w + s - 1) / s.max(&1)).product()
    }

    /// Vector operations of all sums.
    fn work(&self, chooser: &Chooser<'_>, whole: &Size) -> f64 {
        let lanes = chooser.machine.lanes(4) as f64;
        let points = |(id, follow): &(StageId, Vec<Follow>)| -> f64 {
            self.extents(chooser, *id, follow, whole).into_iter().map(|n| n as f64).product()
        };
        self.stages.iter().filter(|(id, _)| chooser.kernel.stages[*id].reducer.is_some()).map(points).sum::<f64>()
            / lanes
    }

    /// What is known of the stages that sum, whatever the size of blocks.
    fn sums<'v>(&'v self, chooser: &'v Chooser<'_>, whole: &Size) -> Vec<Sum<'v>> {
        let of_stage = |(id, follow): &'v (StageId, Vec<Follow>)| {
            let stage = &chooser.kernel.stages[*id];
            stage.reducer.as_ref()?;
            let extents = self.extents(chooser, *id, follow, whole);
            let view = chooser.view(*id, Some(chooser.store_moves(*id)), extents);
            Some(Sum { id: *id, view, constant_bytes: constants(chooser, stage) })
        };
        self.stages.iter().filter_map(of_stage).collect()
    }

    /// Cycles that depend on the size of blocks: memory traffic, and lanes and rows that stay empty, by what the sums' arithmetic
    /// takes.
    fn cycles(
        &self,
        chooser: &Chooser<'_>,
        sums: &mut [Sum<'_>],
        whole: &Size,
        size: &Size,
        arithmetic: &dyn Fn(&View<'_>) -> f64,
    ) -> f64 {
        let machine = chooser.machine;
        let blocks = self.blocks(whole, size) as f64;
        let mut stored = 0.0;
        for (id, follow) in &self.stages {
            let extents = self.extents(chooser, *id, follow, size);
            stored +=
                chooser.kernel.stages[*id].value_axes().map(|(axis, _)| extents[axis] as f64).product::<f64>() * 4.0;
            if let Some(sum) = sums.iter_mut().find(|sum| sum.id == *id) {
                sum.view.extents = extents;
            }
        }
        let weights: f64 = sums.iter().map(|sum| sum.constant_bytes).sum();
        let near = machine.l2_bytes as f64;
        let rate =
            |bytes: f64| if bytes > near / 2.0 { machine.l3_bytes_per_cycle } else { machine.l2_bytes_per_cycle };
        // What streams is fetched ahead: half of it shows.
        let streamed = weights / rate(weights) * 0.5;
        let spilled = stored + weights.min(near / 4.0) > near;
        let moved = 2.0 * stored
            / match spilled {
                false => machine.l2_bytes_per_cycle,
                true if stored <= machine.l3_bytes as f64 => machine.l3_bytes_per_cycle,
                true => machine.l3_bytes_per_cycle / MEMORY,
            };
        let few = if blocks < CHUNKS as f64 { 1.0 + FEW_CHUNKS * (CHUNKS as f64 - blocks) } else { 1.0 };
        // A single block of few columns is one thread's.
        let alone = blocks < 2.0 && whole[self.lanes_axis] <= PANEL && self.work(chooser, whole) >= 2.0 * LEAST_CHUNK;
        let arithmetic: f64 = sums.iter().map(|sum| arithmetic(&sum.view)).sum();
        blocks * (arithmetic + streamed + moved) * few * if alone { ALONE } else { 1.0 }
    }

    // --------------------------------------------------------------------------------------------------- loops --

    /// Splits the root's loops; gives the loop at whose turns blocks begin.
    fn root_loops(&self, chooser: &mut Chooser<'_>, size: &Size) -> String {
        let stage = &chooser.kernel.stages[self.root];
        let name = stage.name.clone();
        let (mut blocks, mut tiles, mut places, mut lanes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (axis, a) in stage.axes.iter().enumerate() {
            let part = |suffix: &str| format!("{}_{suffix}", a.name);
            if axis == self.lanes_axis {
                let mut rest = a.name.clone();
                if size[axis] < extent(chooser.kernel, stage, axis) {
                    chooser.split_step(&name, &rest, size[axis], &part("b"), &part("i"));
                    blocks.push(part("b"));
                    rest = part("i");
                }
                let count =
                    chooser.machine.lanes(4).min(size[axis].max(1).unsigned_abs().next_power_of_two().cast_signed());
                chooser.split_step(&name, &rest, count, &part("o"), &part("l"));
                tiles.push(part("o"));
                lanes.push(part("l"));
            } else if let Some(&(_, points)) = self.tiled.iter().find(|&&(t, _)| t == axis) {
                let whole = (size[axis] + points - 1) / points * points;
                chooser.split_step(&name, &a.name, whole, &part("b"), &part("i"));
                if a.extent.as_const().is_none() {
                    // What is read place by place is stored then.
                    blocks.push(part("b"));
                    tiles.push(part("i"));
                    continue;
                }
                chooser.split_step(&name, &part("i"), points, &part("t"), &part("p"));
                chooser.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: part("p") });
                blocks.push(part("b"));
                tiles.push(part("t"));
                places.push(part("p"));
            } else {
                blocks.push(a.name.clone());
            }
        }
        let block_loop = blocks.last().cloned().unwrap_or_default();
        let axes = blocks[..chooser.shared_loops(&name, blocks.len(), blocks.len())].to_vec();
        let order: Vec<String> = blocks.into_iter().chain(tiles).chain(places).chain(lanes.iter().cloned()).collect();
        chooser.reorder(&name, order);
        chooser.steps.extend(lanes.into_iter().map(|axis| ScheduleStep::Vectorize { stage: name.clone(), axis }));
        chooser.steps.push(ScheduleStep::Parallel { stage: name, axes });
        block_loop
    }
}

/// Bytes of constants that a stage reads.
fn constants(chooser: &Chooser<'_>, stage: &Stage) -> f64 {
    let mut bytes = 0.0;
    stage.for_each_load(&mut |_, load| {
        if let Source::Operand(operand) = load.source
            && chooser.kernel.operands[operand].kind == OperandKind::Constant
        {
            let elems = chooser.kernel.operands[operand].layout.len_elems.as_const().unwrap_or(0);
            bytes += elems as f64 * load.dtype.size_bytes().unwrap_or(1) as f64;
        }
    });
    bytes
}

/// Calls `f` with every stage with storage that a stage reads, through inlined ones, and the coordinates.
fn for_each_stage_load(chooser: &Chooser<'_>, reader: StageId, f: &mut dyn FnMut(StageId, Vec<IndexExpr>)) {
    let stage = &chooser.kernel.stages[reader];
    let identity: Vec<IndexExpr> = (0..stage.axes.len()).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    let ranges = stage.ranges(&chooser.kernel.symbols);
    let mut open = vec![(reader, identity)];
    while let Some((at, coordinates)) = open.pop() {
        chooser.kernel.stages[at].for_each_load(&mut |_, load: &Load| {
            let Source::Stage(source, _) = load.source else { return };
            if source == at {
                return;
            }
            let index: Vec<IndexExpr> =
                load.index.iter().map(|e| e.substitute_vars(&coordinates).simplify(&ranges)).collect();
            if chooser.inlined[source.index()] { open.push((source, index)) } else { f(source, index) }
        });
    }
}

/// What part of an axis is read at a coordinate.
fn follow(e: &IndexExpr, of_axis: &[Follow]) -> Follow {
    if let Some(var) = e.as_var() {
        return of_axis[var.index()];
    }
    if let [term] = e.terms()
        && e.constant_part() == 0
        && term.coefficient == 1
        && let [Atom::FloorDiv(parts)] = &term.atoms[..]
        && let (Some(var), Some(points)) = (parts.0.as_var(), parts.1.as_const())
        && let Follow::Axis(axis) = of_axis[var.index()]
    {
        return Follow::Tile(axis, points);
    }
    Follow::All
}

/// Loops of a sum: what its constants move along outside, so that they are read once per turn of the rows.
fn reduction_loops(chooser: &mut Chooser<'_>, id: StageId, extents: Vec<i64>) {
    let (tile, _) = chooser.pick_tile(&chooser.view(id, Some(chooser.store_moves(id)), extents), false);
    let mut loops = chooser.split(id, &tile);
    let (reduction, lanes) = chooser.reduction_loops(id, &tile);
    let stage = &chooser.kernel.stages[id];
    let moves_constants = |axis: usize| {
        stage.body.ops.iter().any(|op| match op {
            ScalarOp::Load(load) => {
                let constant = matches!(load.source, Source::Operand(o) if chooser.kernel.operands[o].kind == OperandKind::Constant);
                constant && load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)))
            }
            _ => false,
        })
    };
    loops.outer.sort_by_key(|(_, axis)| !moves_constants(*axis));
    finish(chooser, id, &tile, loops.outer.into_iter().map(|(n, _)| n).chain(reduction).chain(loops.inner), lanes);
}

/// Loops of a stage without a sum: axes that choose between formulas innermost and unrolled.
fn formula_loops(chooser: &mut Chooser<'_>, id: StageId, mut extents: Vec<i64>) {
    let stage = &chooser.kernel.stages[id];
    let name = stage.name.clone();
    let chooses = |axis: usize| {
        let var = VarId::from_index(axis);
        let few = stage.axes[axis].extent.as_const().is_some_and(|n| n <= MOST_FORMULAS);
        few && stage.body.ops.iter().any(|op| matches!(op, ScalarOp::Index(e) if e.uses_var(var)))
    };
    let formulas: Vec<usize> = (0..stage.axes.len()).filter(|&axis| chooses(axis)).collect();
    // They are not lanes.
    formulas.iter().for_each(|&axis| extents[axis] = 1);
    let (tile, _) = chooser.pick_tile(&chooser.view(id, Some(chooser.store_moves(id)), extents), false);
    let tile = Tile { vectors: 1, ..tile };
    let loops = chooser.split(id, &tile);
    let is_formula = |axis: usize| formulas.contains(&axis);
    let (inside, outside): (Vec<_>, Vec<_>) = loops.outer.into_iter().partition(|(_, axis)| is_formula(*axis));
    let inside: Vec<String> = inside.into_iter().map(|(n, _)| n).collect();
    for axis in &inside {
        chooser.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: axis.clone() });
    }
    let order = outside.into_iter().map(|(n, _)| n).chain(inside).chain(loops.inner);
    finish(chooser, id, &tile, order, Vec::new());
}

fn finish(
    chooser: &mut Chooser<'_>,
    id: StageId,
    tile: &Tile,
    order: impl Iterator<Item = String>,
    lanes: Vec<String>,
) {
    let name = chooser.name(id);
    let order: Vec<String> = order.chain(lanes).collect();
    let last = order.last().cloned();
    chooser.reorder(&name, order);
    if tile.vector_axis.is_some()
        && let Some(axis) = last
    {
        chooser.steps.push(ScheduleStep::Vectorize { stage: name, axis });
    }
}
