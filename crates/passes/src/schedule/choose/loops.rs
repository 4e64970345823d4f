//! A stage's loops: cut by its tile, put in an order, and made parallel.

use super::access::{Access, Step, cost, extent};
use super::chooser::Chooser;
use super::dot::Dot;
use super::tile::Tile;
use super::{decode, regroup};
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::Step as ScheduleStep;

/// Chunks that suffice to keep many cores busy evenly.
const ENOUGH_CHUNKS: i64 = 64;
/// As many points as a symbolic extent is sure to have, as far as threads share them: a batch is often of one.
const SURE_POINTS: i64 = 8;
/// Work below which a chunk is not worth handing out, in vector operations.
const LEAST_CHUNK: f64 = 2000.0;
/// Multiply-adds in one innermost body beyond which unrolling no longer pays, by the default and to be tried.
const BODY_LIMITS: [i64; 4] = [64, 16, 128, 1];

/// Points of a sum up to which larger bodies pay, if it is unrolled as a whole: sums of 3 points gained 8 to 27 %, of 8
/// points with AVX2 lost 13 %. Where lanes lie along them, as many turns: 24 points for three columns gained 3 to 8 %.
const SHORT_SUM: i64 = 4;

/// The largest group of points of a sum that share what they are made of and are unrolled for it: those in a byte.
const MOST_UNROLLED_GROUP: i64 = 8;

/// The loops of a stage by role.
#[derive(Default)]
pub(super) struct Loops {
    /// Over tiles, from outermost to innermost, with the axis.
    pub(super) outer: Vec<(String, usize)>,
    /// Inside a tile: rows, then vectors, then points along a cache line, then lanes.
    pub(super) inner: Vec<String>,
    /// The axis along which a turn takes all of a cache line, and how many points that is.
    pub(super) line: Option<(usize, i64)>,
    /// Rows of a turn of the first outer loop, if that is over strips or chunks of rows.
    pub(super) strip_rows: Option<i64>,
}

impl Chooser<'_> {
    /// Splits a stage's loops by its tile and gives them by role. Reduction loops are not among them.
    pub(super) fn split(&mut self, id: StageId, tile: &Tile) -> Loops {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let mut loops = Loops::default();
        let mut vectors = Vec::new();
        // One vector after the other uses up the cache lines of all its lanes: those of all vectors may be more than a cache
        // has places for, as they are far apart.
        let only_moves = tile.rows.is_empty() && self.accesses[id.index()].iter().all(|a| a.stage.is_none());
        let lines = self.gathered_lines(id, tile).filter(|_| tile.vectors > 1 && only_moves);
        let mut along_line = None;
        for (axis, a) in stage.axes.iter().enumerate() {
            if a.kind == AxisKind::Reduce {
                continue;
            }
            let points = a.extent.as_const();
            let mut outer = a.name.clone();
            if tile.vector_axis == Some(axis) {
                let (o, u, l) = (format!("{}_o", a.name), format!("{}_u", a.name), format!("{}_l", a.name));
                let vector = format!("{}_v", a.name);
                if tile.vectors > 1 {
                    self.split_step(&name, &a.name, tile.lanes * tile.vectors, &o, &u);
                    self.split_step(&name, &u, tile.lanes, &vector, &l);
                    if lines.is_none() {
                        self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: vector.clone() });
                    }
                    vectors.push(vector);
                } else {
                    self.split_step(&name, &a.name, tile.lanes, &o, &l);
                }
                vectors.push(l);
                outer = o;
            } else if let Some((_, elements)) = lines.filter(|&(along, _)| along == axis) {
                if points.is_some_and(|points| points <= elements) {
                    along_line = Some(a.name.clone());
                    continue;
                }
                loops.line = Some((axis, elements));
                let (o, i) = (format!("{}_o", a.name), format!("{}_i", a.name));
                self.split_step(&name, &a.name, elements, &o, &i);
                along_line = Some(i);
                outer = o;
            } else if let Some(&(_, n)) = tile.rows.iter().find(|&&(r, _)| r == axis) {
                let (o, i) = (format!("{}_o", a.name), format!("{}_i", a.name));
                if points == Some(n) {
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: a.name.clone() });
                    loops.inner.push(a.name.clone());
                    continue;
                }
                self.split_step(&name, &a.name, n, &o, &i);
                self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: i.clone() });
                loops.inner.push(i);
                outer = o;
            }
            loops.outer.push((outer, axis));
        }
        let lanes = vectors.pop();
        loops.inner.extend(vectors.into_iter().chain(along_line).chain(lanes));
        loops
    }

    /// Lets it be decided which two neighbours among a stage's outer loops change places.
    pub(super) fn reorder_outer(&self, id: StageId, loops: &mut Loops) {
        let stage = &self.kernel.stages[id];
        let can_move = |at: usize| {
            let (_, axis) = loops.outer[at];
            stage.axes[axis].kind == AxisKind::Parallel && !stage.axes[axis].extent.is_const(1)
        };
        let places: Vec<usize> = (1..loops.outer.len()).filter(|&at| can_move(at) && can_move(at - 1)).collect();
        if places.is_empty() {
            return;
        }
        if let Some(place) = self.decisions.pick("order of loops", &stage.name, places.len() + 1).checked_sub(1) {
            loops.outer.swap(places[place] - 1, places[place]);
        }
    }

    pub(super) fn split_step(&mut self, stage: &str, axis: &str, factor: i64, outer: &str, inner: &str) {
        self.steps.push(ScheduleStep::Split {
            stage: stage.to_owned(),
            axis: axis.to_owned(),
            factor: u32::try_from(factor).unwrap_or(1),
            outer: outer.to_owned(),
            inner: inner.to_owned(),
        });
    }

    /// Whether gathers along a tile's lanes share what they load with those at neighbouring points of the innermost sum.
    pub(super) fn shares_taps(&self, id: StageId, tile: &Tile) -> bool {
        let stage = &self.kernel.stages[id];
        let sums_in_lanes = tile.vector_axis.is_some_and(|axis| stage.axes[axis].kind == AxisKind::Reduce);
        let innermost = stage.axes.iter().rposition(|a| a.kind == AxisKind::Reduce).filter(|_| !sums_in_lanes);
        innermost.is_some_and(|axis| self.shared_taps(id, tile, axis) > 1)
    }

    /// Points of a reduction axis at which gathers along a tile's lanes read neighbours.
    fn shared_taps(&self, id: StageId, tile: &Tile, axis: usize) -> i64 {
        let view = self.view(id, None, self.extents(id));
        let is_gather = |a: &&Access| tile.vector_axis.is_some_and(|v| a.steps[v] == Step::Far);
        let gathers = view.accesses.iter().filter(is_gather).filter_map(|a| {
            let known = regroup::gather(self.machine, &view, a, tile).is_some();
            known.then(|| regroup::taps(a, tile, axis, view.extents[axis]))
        });
        gathers.max().unwrap_or(1)
    }

    /// Points of a reduction axis that are unrolled with the taps of what slides.
    fn whole_points(&self, id: StageId, tile: &Tile, axis: usize) -> i64 {
        let points = extent(self.kernel, &self.kernel.stages[id], axis);
        let of = |a: &Access| tile.vector_axis.map_or(1, |lanes| regroup::whole_points(a, lanes, axis, points));
        self.accesses[id.index()].iter().map(of).max().unwrap_or(1)
    }

    /// Reduction loops: the innermost short ones unrolled, long ones unrolled in part where the tile is small.
    pub(super) fn reduction_loops(&mut self, id: StageId, tile: &Tile) -> (Vec<String>, Vec<String>) {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let rows: i64 = tile.rows.iter().map(|&(_, n)| n).product();
        let mut body = (rows * tile.vectors).max(1);
        let mut order: Vec<String> = Vec::new();
        let mut lanes = Vec::new();
        // Loads that differ for every accumulator are operands of the arithmetic. Unrolled, neighbouring points would
        // share them, which costs more registers than it saves loads.
        let own_loads = tile.vector_axis.is_some_and(|v| {
            self.accesses[id.index()]
                .iter()
                .any(|a| a.steps[v] != Step::Zero && tile.rows.iter().any(|&(r, _)| a.steps[r] != Step::Zero))
        });
        let registers = i64::from(self.machine.vector_registers);
        let limit = BODY_LIMITS[self.decisions.pick("body", &name, BODY_LIMITS.len())];
        // A sum that is unrolled as a whole begins with its first products, not with zeros; which shows if it is short.
        let is_whole = stage.reduce_axes().filter(|(_, a)| !a.extent.is_const(1)).count() == 1;
        let mut unrolling = !own_loads || tile.slides.is_some() || body * 4 <= registers;
        let mut axes: Vec<usize> = stage.reduce_axes().map(|(n, _)| n).collect();
        // What slides is innermost. (The axis is one of the stage that the tile was chosen for.)
        if self.may_fold_anyhow(id) {
            axes.sort_by_key(|&axis| tile.slides == Some(axis));
        }
        for &axis in axes.iter().rev() {
            let a = &stage.axes[axis];
            if tile.vector_axis == Some(axis) {
                let (o, u, l) = (format!("{}_o", a.name), format!("{}_u", a.name), format!("{}_l", a.name));
                if tile.vectors > 1 {
                    let vector = format!("{}_v", a.name);
                    self.split_step(&name, &a.name, tile.lanes * tile.vectors, &o, &u);
                    self.split_step(&name, &u, tile.lanes, &vector, &l);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: vector.clone() });
                    self.steps.push(ScheduleStep::Partial { stage: name.clone(), axis: vector.clone() });
                    lanes.push(vector);
                } else {
                    self.split_step(&name, &a.name, tile.lanes, &o, &l);
                }
                self.steps.push(ScheduleStep::Partial { stage: name.clone(), axis: l.clone() });
                lanes.push(l);
                // Where several short sums are made at a time, what is left of each has no loop: its turns are few beside what
                // is added up across lanes.
                let of_a_turn = tile.lanes * tile.vectors;
                let turns = a.extent.as_const().map(|n| (n + of_a_turn - 1) / of_a_turn);
                let is_short = |n: i64| n > 1 && n <= SHORT_SUM && body * n <= limit + limit / 2;
                if is_whole && rows > 1 && turns.is_some_and(is_short) {
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: o.clone() });
                }
                order.push(o);
                unrolling = false;
                continue;
            }
            let (mut loop_name, mut extent) = (a.name.clone(), a.extent.as_const());
            let groups = decode::groups(self.kernel, id, &self.inlined, axis);
            if unrolling && tile.vector_axis.is_some() && !groups.is_empty() {
                self.grouped_loops(&name, &a.name, &groups, body, limit, &mut order);
                unrolling = false;
                continue;
            }
            let dot = self.dots[id.index()].filter(|dot| tile.vector_axis.is_some() && dot.axis == axis);
            if let Some(Dot { intrinsic, .. }) = dot {
                let (o, q) = (format!("{}_o", a.name), format!("{}_q", a.name));
                self.split_step(&name, &a.name, intrinsic.turns(), &o, &q);
                self.steps.push(ScheduleStep::Tensorize { stage: name.clone(), axis: q.clone(), intrinsic });
                lanes.push(q);
                loop_name = o;
                extent = extent.map(|n| n / intrinsic.turns());
            }
            // Gathers at neighbouring points share loads.
            let shared = match order.len() {
                0 => self.shared_taps(id, tile, axis),
                1 if tile.slides.is_some() => self.whole_points(id, tile, axis),
                _ => 1,
            };
            match extent {
                Some(n) if shared > 1 && n <= shared => {
                    body *= n;
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: loop_name.clone() });
                    order.push(loop_name);
                }
                Some(n)
                    if unrolling
                        && n <= 16
                        && (body * n <= if is_whole && n <= SHORT_SUM { limit + limit / 2 } else { limit }
                            || (tile.slides == Some(axis) && order.is_empty())) =>
                {
                    body *= n.max(1);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: loop_name.clone() });
                    order.push(loop_name);
                }
                _ if shared > 1 || (unrolling && body * 2 <= limit / 2) => {
                    let by = if shared > 1 || body * 4 <= limit { 4 } else { 2 };
                    let (o, i) = (format!("{loop_name}_o"), format!("{loop_name}_i"));
                    self.split_step(&name, &loop_name, by, &o, &i);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: i.clone() });
                    order.push(i);
                    order.push(o);
                    unrolling = false;
                }
                _ => {
                    order.push(loop_name);
                    unrolling = false;
                }
            }
        }
        order.reverse();
        self.move_reduction(id, &mut order);
        (order, lanes)
    }

    /// Loops over a reduction axis along which what is made on the way is shared by groups of points: those of small
    /// groups are unrolled, so that it is known where in a group they are; large groups get a loop of their own. Loops are
    /// added from the innermost.
    fn grouped_loops(
        &mut self,
        stage: &str,
        axis: &str,
        groups: &[i64],
        body: i64,
        limit: i64,
        order: &mut Vec<String>,
    ) {
        let small = groups.iter().copied().filter(|&n| n <= MOST_UNROLLED_GROUP).max().unwrap_or(1);
        let usual = if body * 8 <= limit {
            4
        } else if body * 4 <= limit {
            2
        } else {
            1
        };
        let by = (usual + small - 1) / small * small;
        let large = groups.iter().copied().filter(|&n| n > by && n % by == 0).max();
        let part = |suffix: &str| format!("{axis}_{suffix}");
        let mut rest = axis.to_owned();
        if let Some(large) = large {
            self.split_step(stage, axis, large, &part("g"), &part("p"));
            rest = part("p");
        }
        if by > 1 {
            let (outer, inner) = (format!("{rest}_o"), format!("{rest}_i"));
            self.split_step(stage, &rest, by, &outer, &inner);
            self.steps.push(ScheduleStep::Unroll { stage: stage.to_owned(), axis: inner.clone() });
            order.push(inner);
            rest = outer;
        }
        order.push(rest);
        order.extend(large.map(|_| part("g")));
    }

    /// Lets it be decided that one reduction loop goes around all others: with channels outside of taps, what neighbouring
    /// taps read stays in the first cache.
    fn move_reduction(&self, id: StageId, order: &mut [String]) {
        let stage = &self.kernel.stages[id];
        let unrolled = |name: &String| {
            self.steps.iter().any(
                |step| matches!(step, ScheduleStep::Unroll { stage: of, axis } if *of == stage.name && axis == name),
            )
        };
        let places: Vec<usize> = (1..order.len()).filter(|&at| !unrolled(&order[at])).collect();
        if places.is_empty() || !self.may_fold_anyhow(id) {
            return;
        }
        if let Some(place) = self.decisions.pick("outermost sum", &stage.name, places.len() + 1).checked_sub(1) {
            order[..=places[place]].rotate_right(1);
        }
    }

    pub(super) fn reorder(&mut self, stage: &str, order: Vec<String>) {
        if order.len() > 1 {
            self.steps.push(ScheduleStep::Reorder { stage: stage.to_owned(), order });
        }
    }

    /// Makes outer loops parallel until there are chunks enough, as far as chunks stay worth handing out.
    pub(super) fn parallel(&mut self, root: StageId, loops: &Loops, tile: &Tile, limit: usize) {
        let stage = &self.kernel.stages[root];
        let turns = |place: usize, axis: usize| {
            let is_known = stage.axes[axis].extent.as_const().is_some();
            let points = extent(self.kernel, stage, axis).min(if is_known { i64::MAX } else { SURE_POINTS });
            let along_line = loops.line.filter(|&(along, _)| along == axis).map(|(_, elements)| elements);
            let per_turn = loops.strip_rows.filter(|_| place == 0).or(along_line).unwrap_or_else(|| tile.points(axis));
            (points + per_turn - 1) / per_turn
        };
        let points: f64 = (0..stage.axes.len()).map(|a| extent(self.kernel, stage, a) as f64).product();
        let per_point: f64 = cost(stage)
            + self
                .producers(root)
                .iter()
                .map(|&p| {
                    let s = &self.kernel.stages[p];
                    let all: f64 = (0..s.axes.len()).map(|a| extent(self.kernel, s, a) as f64).product();
                    all * cost(s) / points
                })
                .sum::<f64>();
        let work = points * per_point / tile.lanes as f64;
        let mut chunks = 1;
        let mut depth = 0;
        // A loop from where to where data tells has as many turns as it tells, maybe one.
        let is_alone = self.kernel.outputs.iter().all(|output| output.stage == root);
        let replaced = self.kernel.replaced(root).filter(|replaced| replaced.when && is_alone);
        let is_told = |axis: usize| replaced.is_some_and(|told| stage.span(told.condition, axis).is_some());
        let shared = loops.outer.iter().position(|(_, axis)| is_told(*axis)).unwrap_or(loops.outer.len());
        let most = shared.min(limit.max(1));
        for (place, (_, axis)) in loops.outer[..most].iter().enumerate() {
            let next = chunks * turns(place, *axis);
            if depth > 0 && (chunks >= ENOUGH_CHUNKS || work / (next as f64) < LEAST_CHUNK) {
                break;
            }
            chunks = next;
            depth += 1;
        }
        let depth = self.shared_loops(&stage.name, depth, most);
        let mut axes: Vec<String> = loops.outer[..depth].iter().map(|(name, _)| name.clone()).collect();
        if let ([axis], Some((whole, _))) = (&mut axes[..], loops.outer.first()) {
            let together = self.turns_of_chunk(root, loops, chunks, work);
            if together > 1 {
                let (outer, inner) = (format!("{whole}_c"), format!("{whole}_r"));
                self.split_step(&stage.name, whole, together, &outer, &inner);
                *axis = outer;
            }
        }
        if !axes.is_empty() {
            self.steps.push(ScheduleStep::Parallel { stage: stage.name.clone(), axes });
        }
    }

    /// How many of its outer loops a root's threads share, of so many that they can: a decision where it is known that there
    /// are several threads.
    pub(super) fn shared_loops(&self, stage: &str, default: usize, most: usize) -> usize {
        if self.machine.threads < 2 || most < 2 {
            return default;
        }
        let others: Vec<usize> = (1..=most).filter(|&depth| depth != default).collect();
        let picked = self.decisions.pick("shared loops", stage, others.len() + 1);
        picked.checked_sub(1).map_or(default, |other| others[other])
    }

    /// How many turns of its one parallel loop a root makes a chunk of, which has so many turns and so much work.
    ///
    /// Roots of a kernel share the chunk numbers, of which threads take equal parts: many chunks with next to no work (the
    /// borders of an image) beside few with much would give one thread all the work.
    fn turns_of_chunk(&self, root: StageId, loops: &Loops, turns: i64, work: f64) -> i64 {
        let beside_others = self.kernel.outputs.iter().any(|o| o.stage != root);
        let known = |&(_, axis): &(String, usize)| self.kernel.stages[root].axes[axis].extent.as_const().is_some();
        let all_known = loops.outer.first().is_some_and(known);
        // What is computed at the loop names it.
        if !beside_others || !all_known || !self.producers(root).is_empty() || work / turns as f64 >= LEAST_CHUNK {
            return 1;
        }
        let wanted = (LEAST_CHUNK * turns as f64 / work.max(1.0)).min(turns as f64) as i64;
        // A remainder would be code of its own.
        (wanted.max(1)..=turns).find(|n| turns % n == 0).unwrap_or(turns)
    }
}
