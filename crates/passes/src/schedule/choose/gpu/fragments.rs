//! A sum of products whose tile the warps of a block have: how its points are spread over threads, so that a warp multiplies
//! matrices, or that a thread has a patch of them, and how factors come to shared memory.

use super::super::access::extent;
use super::Plan;
use super::product::{copies_pieces, find, moves_by_one};
use super::rewrite::Rewritten;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::kernel::Kernel;
use infc_ir::scalar::{ScalarOp, Source};
use infc_ir::schedule::{GpuDim, Intrinsic, Scope, Step};

/// Threads of a warp, among which fragments are spread.
pub(super) const WARP: i64 = 32;
/// Rows and columns of a fragment of the sum.
const FRAGMENT: (i64, i64) = (16, 8);
/// Rows of a fragment whose points are of one thread lie so far apart, and its columns side by side.
const HALF: i64 = 8;
const PAIR: i64 = 2;
/// Rows of what a thread has, where it multiplies by itself.
const PATCH_ROWS: i64 = 4;
/// Bytes along the sum that one instruction takes of a factor.
const SLICE_BYTES: i64 = 32;
/// Neighbours of which it makes a difference whether they follow each other: all that a block has.
const LONGEST_RUN: i64 = 256;
/// Bytes along the sum that groups of warps take at a time: rows of what they read.
const LINE_BYTES: i64 = 128;
/// Bytes that a thread copies at once, the most first.
const PIECES: [i64; 3] = [16, 8, 4];

/// Products of matrices, which differ in how many elements their 32 bytes are.
const INTRINSICS: [Intrinsic; 3] = [Intrinsic::Mma8, Intrinsic::Mma16, Intrinsic::Mma32];

/// A factor of the product: the stage that is its tile.
struct Tile {
    stage: String,
    /// Its axes, by their number in the sum.
    axes: Vec<usize>,
    /// Of these the one whose points are neighbours in memory, and how many of them are copied at once.
    along: usize,
    piece: i64,
    /// Neighbours that follow each other in memory: a panel's width, or as many as the tile has.
    run: i64,
    /// Whether an asynchronous copy can do that.
    copied: bool,
}

/// How the points that a warp has are spread over its threads.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// As `mma.sync` has them.
    Matrices,
    /// The same, where four warps multiply together (`wgmma`): each has 16 rows of the block, and all of its columns.
    Groups,
    /// A thread multiplies by itself: it has rows side by side, and columns as far apart as there are threads along them, so that
    /// threads side by side read words side by side, or rows of an odd number of pieces, in shared memory.
    Patches,
}

/// A sum of products in a kernel.
pub(super) struct Fragments {
    pub(super) form: Form,
    /// The stage.
    pub(super) sum: String,
    /// Its axes: rows, columns and what is summed.
    pub(super) axes: [usize; 3],
    tiles: Vec<Tile>,
    /// Points of a block along rows and columns.
    pub(super) block: [i64; 2],
    pub(super) warps: [i64; 2],
    /// Points of the sum between two barriers, and those of one instruction.
    step: i64,
    slice: i64,
}

/// Loops of a stage whose points are spread over warps and threads.
pub(super) struct Spread {
    warps: Vec<String>,
    /// From the fragments of a warp to its threads.
    fragments: Vec<String>,
    /// Over the points of a thread.
    points: Vec<String>,
    /// Whether the last of these are as many neighbours as are stored at once.
    is_vector: bool,
}

impl Spread {
    /// From the outermost to the innermost.
    pub(super) fn loops(&self) -> impl Iterator<Item = String> + use<'_> {
        self.warps.iter().chain(&self.fragments).chain(&self.points).cloned()
    }

    /// How the innermost loop is done where results are stored.
    pub(super) fn stored(&self, stage: String) -> Step {
        let axis = self.points.last().cloned().unwrap_or_default();
        if self.is_vector { Step::Vectorize { stage, axis } } else { Step::Unroll { stage, axis } }
    }
}

/// How far apart in memory neighbours along an axis of a stage that only loads from an operand are, if always as far.
fn distance(kernel: &Kernel, id: StageId, axis: usize) -> Option<i64> {
    let stage = &kernel.stages[id];
    let ScalarOp::Load(load) = &stage.body.ops[stage.results[0]] else { return None };
    let Source::Operand(operand) = load.source else { return None };
    let flat = kernel.operands[operand].layout.flat(&load.index).simplify(&stage.ranges(&kernel.symbols));
    flat.linear_in(VarId::from_index(axis)).and_then(|(step, _)| step.as_const())
}

impl Fragments {
    /// Prepares a sum of products: what is summed becomes a multiple of a step long, and `factors`, the loads of it that come from
    /// operands, stages of their own, which lie in front of it. `None` if something else is read along the sum.
    pub(super) fn of(
        rewritten: &mut Rewritten,
        sum: StageId,
        axes: [usize; 3],
        factors: &[ScalarId],
        [block, warps]: [[i64; 2]; 2],
        (form, step_bytes): (Form, i64),
    ) -> Option<Self> {
        let kernel = &rewritten.kernel;
        let stage = &kernel.stages[sum];
        let [_, _, along_sum] = axes;
        let factor = stage.body.dtype(*factors.first()?).size_bytes()? as i64;
        let depth = extent(kernel, stage, along_sum);
        let slice = if form == Form::Patches { 1 } else { SLICE_BYTES / factor };
        let step = if depth <= slice { slice } else { step_bytes / factor };
        let name = stage.name.clone();
        rewritten.pad(sum, along_sum, step)?;
        let mut tiles = Vec::new();
        for &load in factors {
            let id = find(&rewritten.kernel, &name)?;
            let near = moves_by_one(&rewritten.kernel, id, load);
            let own = rewritten.cache(id, load)?;
            let kernel = &rewritten.kernel;
            // Only rows or columns, and what is summed, lie in the tile.
            let inside: Vec<usize> = own.iter().copied().filter(|axis| axes.contains(axis)).collect();
            // Bytes are loaded as pairs, which are neighbours along what is summed.
            let pairs = Some(along_sum).filter(|axis| factor == 1 && inside.contains(axis));
            let along = pairs.or(near.filter(|axis| inside.contains(axis))).or(inside.last().copied())?;
            let size = kernel.stages[id].dtypes()[0].size_bytes()? as i64;
            let position = own.iter().position(|&axis| axis == along)?;
            let copied = PIECES.into_iter().find(|bytes| copies_pieces(kernel, id, position, bytes / size));
            let piece = copied.unwrap_or(PIECES[0]) / size;
            let longer = std::iter::successors(Some(piece), |run| Some(run * 2)).take_while(|&run| run <= LONGEST_RUN);
            let follows = |&run: &i64| run == piece || copies_pieces(kernel, id, position, run);
            let run = longer.take_while(follows).last()?;
            // Where what is across follows them.
            let across = inside.iter().find(|&&axis| axis != along).and_then(|axis| own.iter().position(|a| a == axis));
            let is_panel = copied.is_some() && across.is_some_and(|across| distance(kernel, id, across) == Some(run));
            let run = if is_panel { run } else { LONGEST_RUN };
            let stage = kernel.stages[id].name.clone();
            tiles.push(Tile { stage, axes: own, along, piece, run, copied: copied.is_some() });
        }
        Some(Self { form, sum: name, axes, tiles, block, warps, step, slice })
    }

    /// Whether four warps together can multiply what lies in the tiles: what is summed are neighbours in memory, or of the right factor
    /// columns, if these are halves; copied in whole pieces.
    pub(super) fn suits_groups(&self, kernel: &Kernel) -> bool {
        let [_, columns, depth] = self.axes;
        let suits = |tile: &Tile| {
            let size = find(kernel, &tile.stage).and_then(|id| kernel.stages[id].dtypes()[0].size_bytes());
            let size = size.unwrap_or(0) as i64;
            let along = tile.along == depth || (tile.along == columns && size == 2);
            along && size <= 2 && tile.copied && tile.piece * size == PIECES[0] && self.step * size == LINE_BYTES
        };
        self.form != Form::Patches && self.tiles.iter().all(suits)
    }

    /// Whether a stage is the tile of a factor, which could be computed where it is read.
    pub(super) fn is_tile(&self, name: &str) -> bool {
        self.tiles.iter().any(|tile| tile.stage == name)
    }

    /// Cuts rows and columns of a stage into those of warps, fragments, and what a thread has of one. The loops `from` are cut,
    /// and new ones named after `names`.
    pub(super) fn spread(&self, plan: &mut Plan<'_>, id: StageId, names: &[String; 2], from: &[String; 2]) -> Spread {
        let of = |side: usize, suffix: &str| format!("{}_{suffix}", names[side]);
        for side in [0, 1] {
            plan.split(id, &from[side], self.block[side] / self.warps[side], &of(side, "w"), &of(side, "wi"));
        }
        let warps = vec![of(0, "w"), of(1, "w")];
        warps.iter().for_each(|axis| plan.bind(id, axis, GpuDim::ThreadY));
        let (fragments, points, bound, is_vector) = match self.form {
            Form::Matrices | Form::Groups => {
                for (side, fragment) in [FRAGMENT.0, FRAGMENT.1].into_iter().enumerate() {
                    let within = if side == 0 { HALF } else { PAIR };
                    plan.split(id, &of(side, "wi"), fragment, &of(side, "f"), &of(side, "fi"));
                    plan.split(id, &of(side, "fi"), within, &of(side, "p"), &of(side, "t"));
                }
                // A thread has rows eight apart, and pairs of columns.
                let (half, group, thread, pair) = (of(0, "p"), of(0, "t"), of(1, "p"), of(1, "t"));
                let bound = [group.clone(), thread.clone()];
                (vec![of(0, "f"), of(1, "f"), half, group, thread], vec![pair], bound, true)
            }
            Form::Patches => {
                let along = WARP * PATCH_ROWS * self.warps[0] / self.block[0];
                plan.split(id, &of(0, "wi"), PATCH_ROWS, &of(0, "t"), &of(0, "r"));
                plan.split(id, &of(1, "wi"), along.max(1), &of(1, "r"), &of(1, "t"));
                let bound = [of(0, "t"), of(1, "t")];
                (vec![of(1, "r"), of(0, "t"), of(1, "t")], vec![of(0, "r")], bound, false)
            }
        };
        bound.iter().for_each(|axis| plan.bind(id, axis, GpuDim::ThreadX));
        let innermost = points.last();
        let straight = fragments.iter().chain(&points).filter(|axis| !bound.contains(axis) && Some(*axis) != innermost);
        let stage = plan.name(id);
        plan.steps.extend(straight.map(|axis| Step::Unroll { stage: stage.clone(), axis: axis.clone() }));
        Spread { warps, fragments, points, is_vector }
    }

    /// Spreads a result whose rows and columns are those of the sum: over blocks, then as the sum is. Gives the innermost loop over
    /// blocks.
    pub(super) fn result(&self, plan: &mut Plan<'_>, root: StageId, sides: [usize; 2]) -> Option<String> {
        let stage = &plan.kernel.stages[root];
        let mut blocks = Vec::new();
        for (axis, a) in stage.axes.iter().enumerate() {
            match sides.iter().position(|&own| own == axis) {
                None => blocks.push(a.name.clone()),
                Some(side) => {
                    let (outer, inner) = (format!("{}_b", a.name), format!("{}_in", a.name));
                    plan.split(root, &a.name, self.block[side], &outer, &inner);
                    blocks.push(outer);
                }
            }
        }
        let names = sides.map(|axis| stage.axes[axis].name.clone());
        let inside = [format!("{}_in", names[0]), format!("{}_in", names[1])];
        let order = self.spread(plan, root, &names, &inside);
        plan.reorder(root, blocks.iter().cloned().chain(order.loops()).collect());
        blocks.iter().for_each(|name| plan.bind(root, name, GpuDim::BlockX));
        plan.steps.push(order.stored(stage.name.clone()));
        blocks.pop()
    }

    /// Schedules the sum, within what it is computed at, and its tiles; `None` if no instruction takes so many elements.
    pub(super) fn schedule(&self, plan: &mut Plan<'_>, ahead: u32) -> Option<()> {
        let kernel = plan.kernel;
        let id = find(kernel, &self.sum)?;
        let stage = &kernel.stages[id];
        let names = self.axes.map(|axis| stage.axes[axis].name.clone());
        let [outer, step, slice, inner] = ["_o", "_step", "_s", "_i"].map(|suffix| format!("{}{suffix}", names[2]));
        plan.split(id, &names[2], self.step, &outer, &step);
        if self.form != Form::Patches {
            plan.split(id, &step, self.slice, &slice, &inner);
        }
        let sides = [names[0].clone(), names[1].clone()];
        let order = self.spread(plan, id, &sides, &sides);
        let others = (0..stage.axes.len()).filter(|axis| !self.axes.contains(axis));
        let mut loops: Vec<String> = others.map(|axis| stage.axes[axis].name.clone()).collect();
        loops.push(outer.clone());
        let sum = stage.name.clone();
        let innermost = order.points.last().cloned()?;
        match self.form {
            Form::Matrices | Form::Groups => {
                loops.extend(order.warps);
                loops.push(slice.clone());
                loops.extend(order.fragments.into_iter().chain(order.points));
                loops.push(inner.clone());
                plan.reorder(id, loops);
                let mut intrinsic = INTRINSICS.into_iter().find(|intrinsic| intrinsic.turns() == self.slice)?;
                if self.form == Form::Groups {
                    intrinsic = intrinsic.of_group()?;
                }
                for axis in [slice, innermost] {
                    plan.steps.push(Step::Unroll { stage: sum.clone(), axis });
                }
                plan.steps.push(Step::Tensorize { stage: sum, axis: inner, intrinsic });
            }
            Form::Patches => {
                loops.extend(order.warps);
                loops.push(step);
                loops.extend(order.fragments.into_iter().chain(order.points));
                plan.reorder(id, loops);
                plan.steps.push(Step::Unroll { stage: sum, axis: innermost });
            }
        }
        self.tiles.iter().for_each(|tile| self.tile(plan, tile, &outer, ahead));
        Some(())
    }

    /// The tile of a factor: neighbours in memory by the threads of a warp, in pieces, and what is across by all.
    fn tile(&self, plan: &mut Plan<'_>, tile: &Tile, at: &str, ahead: u32) {
        let kernel = plan.kernel;
        let (Some(id), Some(sum)) = (find(kernel, &tile.stage), find(kernel, &self.sum)) else { return };
        plan.compute_at(id, sum, at, Scope::Shared);
        let stage = &kernel.stages[sum];
        let name = |axis: usize| stage.axes[axis].name.clone();
        let size = |axis: usize| match self.axes.iter().position(|&own| own == axis) {
            Some(2) => self.step,
            Some(side) => self.block[side],
            None => 1,
        };
        let mut order: Vec<String> =
            tile.axes.iter().filter(|&&axis| size(axis) == 1).map(|&axis| name(axis)).collect();
        let (along, across) = (tile.along, tile.axes.iter().copied().find(|&a| a != tile.along && size(a) > 1));
        let piece = tile.piece.min(size(along));
        let pieces = size(along) / piece;
        // Where neighbours end after a few, as in panels, threads side by side have the next ones across, which follow them.
        let lanes = pieces.min(WARP).min((tile.run / piece).max(1));
        let own = name(along);
        let [pieces_loop, turn, thread, vector] = ["p", "u", "t", "v"].map(|suffix| format!("{own}_{suffix}"));
        plan.split(id, &own, piece, &pieces_loop, &vector);
        plan.split(id, &pieces_loop, lanes, &turn, &thread);
        order.push(turn.clone());
        if let Some(across) = across {
            let across_name = name(across);
            let [across_turn, rest, warp, lane] = ["u", "i", "y", "x"].map(|suffix| format!("{across_name}_{suffix}"));
            // Each takes as many, so that none takes what is not there.
            let part_of = |points: i64, most: i64| (1..=most).rev().find(|n| points % n == 0).unwrap_or(1);
            let in_warp = part_of(size(across), WARP / lanes);
            let all = self.warps[0] * self.warps[1];
            let warps = part_of(size(across) / in_warp, all);
            plan.split(id, &across_name, in_warp * warps, &across_turn, &rest);
            plan.split(id, &rest, in_warp, &warp, &lane);
            order.push(across_turn);
            // Warps that are left have other neighbours.
            let left = part_of(pieces / lanes, all / warps);
            if left > 1 {
                let [own_turn, own_warp] = ["o", "y"].map(|suffix| format!("{own}_{suffix}"));
                plan.split(id, &turn, left, &own_turn, &own_warp);
                order.iter_mut().filter(|name| **name == turn).for_each(|name| name.clone_from(&own_turn));
                plan.bind(id, &own_warp, GpuDim::ThreadY);
                order.push(own_warp);
            }
            order.extend([warp.clone(), lane.clone()]);
            plan.bind(id, &warp, GpuDim::ThreadY);
            plan.bind(id, &lane, GpuDim::ThreadX);
        }
        order.extend([thread.clone(), vector.clone()]);
        plan.reorder(id, order);
        plan.bind(id, &thread, GpuDim::ThreadX);
        plan.steps.push(Step::Vectorize { stage: tile.stage.clone(), axis: vector });
        if ahead > 0 && self.tiles.iter().all(|tile| tile.copied) {
            plan.steps.push(Step::Stream { stage: tile.stage.clone(), ahead });
        }
    }
}
