//! Which part of a stage its readers need.

use super::emit::{AxisState, Emitter, Storage};
use super::plan::{LoopMode, LoopPlan, Placement};
use super::reads::reads_neighbours;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr, Interval, Proof};
use infc_ir::scalar::{Load, ScalarOp, Source};
use infc_ir::schedule::Scope;

/// Bytes, of which what lies multiples apart shares few sets of the first cache: those repeat every 4 KiB.
const ALIASING_DISTANCE: i64 = 1024;
const CACHE_LINE: i64 = 64;

/// Bytes that a thread of a GPU reads or writes at once at most.
const PIECE: i64 = 16;
/// Bytes of all banks of shared memory.
const BANKS_BYTES: u32 = 128;

/// A box of coordinates: per value axis of the stage, where it begins and how many points it has.
pub(super) type Region = Vec<AxisState>;

/// Where a stage is read from.
struct Reading<'r> {
    /// Coordinates of the reading stage, over the offsets inside what is read at once.
    coordinates: &'r [IndexExpr],
    /// The variables of those offsets, by axis of the stage that is computed.
    deltas: &'r [Option<VarId>],
    /// What is computed of it.
    state: &'r [AxisState],
    /// Whether it happens under a condition.
    guarded: bool,
}

impl Emitter<'_> {
    /// The stages that are computed at a loop of `consumer`, in dependency order.
    pub(super) fn attached(&self, consumer: StageId, loop_name: &str) -> Vec<StageId> {
        let here = Placement::At(consumer, loop_name.to_owned());
        self.plans.iter_enumerated().filter(|(_, p)| p.placement == here).map(|(id, _)| id).collect()
    }

    /// The stages that are computed in a turn of a loop of `consumer`, at that loop or further inside, in dependency
    /// order.
    pub(super) fn computed_within(&self, consumer: StageId, loop_name: &str) -> Vec<StageId> {
        let loops = &self.plans[consumer].loops;
        let from = loops.iter().position(|l| l.name == loop_name).unwrap_or(loops.len());
        let mut within = Vec::new();
        for (id, plan) in self.plans.iter_enumerated().rev() {
            let Placement::At(at, name) = &plan.placement else { continue };
            let inside =
                if *at == consumer { loops[from..].iter().any(|l| l.name == *name) } else { within.contains(at) };
            if inside {
                within.push(id);
            }
        }
        within.reverse();
        within
    }

    /// The region of `stage` that is read when `readers` are computed over their given states.
    ///
    /// Inlined stages between are looked through. An axis whose need is not an affine box falls back to all of it.
    ///
    /// A read under a condition may reach beyond the stage, where nothing is computed: the box is moved inside then, so
    /// that it keeps its size.
    pub(super) fn needed(&mut self, stage: StageId, readers: &[(StageId, Vec<AxisState>)]) -> Region {
        let mut region: Option<Region> = None;
        let mut guarded = false;
        for (reader, state) in readers {
            let coordinates: Vec<IndexExpr> = self.spread(state);
            let deltas = self.delta_vars(state);
            let mut boxes = Vec::new();
            let reading = Reading { coordinates: &coordinates, deltas: &deltas, state, guarded: false };
            self.collect_boxes(stage, *reader, &reading, &mut boxes);
            for (b, under_condition) in boxes {
                guarded |= under_condition;
                region = Some(match region {
                    None => b,
                    Some(r) => self.hull(stage, r, b),
                });
            }
        }
        let mut region = region.unwrap_or_else(|| self.whole(stage));
        if guarded {
            region = region.into_iter().enumerate().map(|(axis, a)| self.moved_inside(stage, axis, a)).collect();
        }
        if self.kernel.outputs.iter().any(|o| o.stage == stage) {
            // All of an output is written; of one that is computed step by step with its reader, a step's worth.
            region = self.whole(stage);
            if self.kernel.recurrence_of(stage).is_some()
                && let Some((_, state)) = readers.first()
            {
                region[0] = state[0].clone();
            }
        }
        let axes: Vec<usize> = self.kernel.stages[stage].value_axes().map(|(n, _)| n).collect();
        for (position, axis) in axes.into_iter().enumerate() {
            if reads_neighbours(self.kernel, stage, VarId::from_index(axis)) {
                region[position] = self.whole_axis(stage, position);
            }
        }
        region
    }

    /// Coordinates with a fresh variable for the offset inside each axis's extent.
    fn spread(&mut self, state: &[AxisState]) -> Vec<IndexExpr> {
        let mut coordinates = Vec::new();
        for axis in state {
            if !is_spread(axis) {
                coordinates.push(axis.base.clone());
                continue;
            }
            // At least 1, so that the offset of a point that may not exist stays in sight.
            let max = self.ranges.interval(&axis.extent).max.map(|m| (m - 1).max(1));
            let var = self.scratch_var(Interval { min: Some(0), max });
            coordinates.push(axis.base.clone() + IndexExpr::var(var));
        }
        coordinates
    }

    /// The variables that [`Emitter::spread`] just made, per axis.
    fn delta_vars(&self, state: &[AxisState]) -> Vec<Option<VarId>> {
        let spread = state.iter().filter(|a| is_spread(a)).count();
        let mut next = self.next_scratch_var() - spread;
        state
            .iter()
            .map(|a| {
                if !is_spread(a) {
                    return None;
                }
                next += 1;
                Some(VarId::from_index(next - 1))
            })
            .collect()
    }

    fn collect_boxes(&self, stage: StageId, reader: StageId, reading: &Reading<'_>, boxes: &mut Vec<(Region, bool)>) {
        let reader_stage = &self.kernel.stages[reader];
        let visit = |load: &Load, boxes: &mut Vec<(Region, bool)>| {
            let guarded = reading.guarded || !load.valid.is_empty();
            let Source::Stage(source, _) = load.source else { return };
            if source == reader {
                return;
            }
            let index: Vec<IndexExpr> = load.index.iter().map(|e| e.substitute_vars(reading.coordinates)).collect();
            if source == stage {
                let gathered = |axis: usize| load.gather.iter().any(|(a, _, _)| usize::from(*a) == axis);
                let region = index
                    .iter()
                    .enumerate()
                    .map(|(axis, e)| {
                        if gathered(axis) {
                            return self.whole_axis(stage, axis);
                        }
                        self.span(e, reading.deltas, reading.state).unwrap_or_else(|| self.whole_axis(stage, axis))
                    })
                    .map(|a| a.simplified(&self.ranges))
                    .collect();
                boxes.push((region, guarded));
            } else if self.plans[source].placement == Placement::Inline {
                // The inlined stage's value axes take the reading coordinates; it has no others.
                let through = Reading { coordinates: &index, guarded, ..*reading };
                self.collect_boxes(stage, source, &through, boxes);
            }
        };
        for op in reader_stage.body.ops.iter() {
            if let ScalarOp::Load(load) = op {
                visit(load, boxes);
            }
        }
    }

    /// Least value and number of values of an expression affine in the offsets, or of a quotient of such by a number
    /// where how many there are does not depend on where the box begins, or the box begins at a multiple.
    fn span(&self, e: &IndexExpr, deltas: &[Option<VarId>], state: &[AxisState]) -> Option<AxisState> {
        let e = e.simplify(&self.ranges);
        if let Some((quotient, rest)) = quotient(&e, deltas) {
            let (dividend, divisor) = quotient;
            let inner = self.span(&dividend, deltas, state)?;
            let base = inner.base.floor_div(&divisor).simplify(&self.ranges);
            let is_multiple = inner.base.modulo(&divisor).simplify(&self.ranges).is_const(0);
            let extent = if is_multiple {
                inner.extent.ceil_div(&divisor)
            } else {
                let last = inner.base.clone() + inner.extent - 1;
                last.floor_div(&divisor) - base.clone() + 1
            };
            let extent = extent.simplify(&self.ranges);
            let known = inner.limit.is_none() && (is_multiple || extent.as_const().is_some());
            return known.then(|| AxisState { base: base + rest, extent, limit: None });
        }
        let mut base = e;
        let mut extent = IndexExpr::constant(1);
        let mut limit = None;
        for (delta, axis) in deltas.iter().zip(state) {
            let Some(var) = *delta else { continue };
            let (coefficient, rest) = base.linear_in(var)?;
            let c = coefficient.as_const()?;
            if c == 0 {
                continue;
            }
            let reach = (axis.extent.clone() - 1).scale(c.abs());
            extent = extent + reach.clone();
            base = if c < 0 { rest - reach } else { rest };
            if let Some(bound) = &axis.limit {
                if c != 1 || limit.is_some() {
                    return None;
                }
                // Coordinates from `limit` on are not computed by the reader, so they are not needed either.
                limit = Some(base.clone() + (bound.clone() - axis.base.clone()));
            }
        }
        Some(AxisState { base, extent, limit })
    }

    fn whole_axis(&self, stage: StageId, axis: usize) -> AxisState {
        let extent = self.kernel.stages[stage].value_axes().nth(axis).map(|(_, a)| a.extent.clone());
        AxisState { base: IndexExpr::constant(0), extent: extent.unwrap_or_default(), limit: None }
    }

    /// A span of coordinates as large as the given one, or all of them, with none that the axis does not have.
    fn moved_inside(&self, stage: StageId, axis: usize, span: AxisState) -> AxisState {
        let whole = self.whole_axis(stage, axis);
        let zero = IndexExpr::constant(0);
        let room = whole.extent.clone() - span.extent.clone();
        let inside = self.ranges.le(&zero, &span.base) == Proof::Yes
            && self.ranges.le(&span.base, &room) == Proof::Yes
            && span.limit.is_none();
        if inside {
            return span;
        }
        if span.limit.is_some() || self.ranges.le(&zero, &room) != Proof::Yes {
            return whole;
        }
        let base = span.base.maximum(&zero).minimum(&room);
        AxisState { base, ..span }.simplified(&self.ranges)
    }

    /// Every coordinate of the stage's value.
    pub(super) fn whole(&self, stage: StageId) -> Region {
        (0..self.kernel.stages[stage].value_axes().count()).map(|a| self.whole_axis(stage, a)).collect()
    }

    fn hull(&self, stage: StageId, a: Region, b: Region) -> Region {
        a.into_iter()
            .zip(b)
            .enumerate()
            .map(|(axis, (x, y))| {
                if x == y {
                    return x;
                }
                let whole = self.whole_axis(stage, axis);
                if x == whole || y == whole || x.limit.is_some() || y.limit.is_some() {
                    return whole;
                }
                let distance = (y.base.clone() - x.base.clone()).simplify(&self.ranges);
                match (distance.as_const(), x.extent.as_const(), y.extent.as_const()) {
                    (Some(d), Some(m), Some(n)) => {
                        let lo = d.min(0);
                        let hi = m.max(d + n);
                        AxisState { base: x.base + lo, extent: IndexExpr::constant(hi - lo), limit: None }
                    }
                    _ => whole,
                }
            })
            .collect()
    }

    /// Local storage for a region of a stage: one buffer per component, vector lanes adjacent, else row-major. What
    /// remains of a tile lies as if it were the largest remainder, so that distances in it are numbers.
    pub(super) fn allocate(&mut self, stage: StageId, region: &Region) -> Storage {
        let mut strides = vec![IndexExpr::constant(0); region.len()];
        let mut len = IndexExpr::constant(1);
        let scope = self.plans[stage].scope;
        let mut swizzle = None;
        for position in self.storage_order(stage).into_iter().rev() {
            match scope {
                Scope::Scratch => len = self.apart(stage, len),
                Scope::Shared if swizzle.is_none() => (len, swizzle) = self.banked(stage, len),
                Scope::Shared => {}
                Scope::Register | Scope::Stack => {}
            }
            strides[position] = len.clone();
            let AxisState { base, extent, .. } = &region[position];
            let whole = self.ranges.interval(&self.whole_axis(stage, position).extent).max;
            let largest = self.ranges.least(&extent.scale(-1)).map(|least| -least);
            let largest = largest.filter(|&n| !base.is_const(0) && whole.is_some_and(|whole| n < whole));
            len = len * largest.map_or_else(|| extent.clone(), IndexExpr::constant);
        }
        let origin = region.iter().map(|a| a.base.clone()).collect();
        let name = self.kernel.stages[stage].name.clone();
        let buffers = self.kernel.stages[stage]
            .dtypes()
            .into_iter()
            .map(|dtype| self.local_buffer(&name, dtype, scope, len.clone()))
            .collect::<Vec<_>>();
        let panel_rows = swizzle.filter(|_| self.is_of_group(stage)).and_then(|row| self.panel_rows(stage, row, &len));
        for &buffer in &buffers {
            (self.buffers[buffer].swizzle_bytes, self.buffers[buffer].panel_rows) = (swizzle, panel_rows);
        }
        let is_output = self.kernel.outputs.iter().any(|o| o.stage == stage);
        let complete = scope == Scope::Shared && self.kernel.stages[stage].reducer.is_none() && !is_output;
        Storage { buffers, origin, strides, start: IndexExpr::constant(0), complete }
    }

    /// A distance between neighbours that does not put many of them into the same few sets of the first cache.
    fn apart(&self, stage: StageId, distance: IndexExpr) -> IndexExpr {
        let size = self.kernel.stages[stage].dtypes()[0].size_bytes().unwrap_or(1) as i64;
        match distance.as_const() {
            Some(n) if n > 0 && (n * size) % ALIASING_DISTANCE == 0 => IndexExpr::constant(n + CACHE_LINE / size),
            _ => distance,
        }
    }

    /// A distance between neighbouring rows of a tile that threads of a GPU write in pieces of 16 bytes, such that eight rows at one
    /// column are in different banks of shared memory, which repeat every 128 bytes: rows that begin at the same banks are swizzled
    /// (the bytes of one, if so), others are made an odd number of pieces long.
    fn banked(&self, stage: StageId, distance: IndexExpr) -> (IndexExpr, Option<u32>) {
        let dtypes = self.kernel.stages[stage].dtypes();
        let size = dtypes[0].size_bytes().unwrap_or(1) as i64;
        let lanes = self.plans[stage].loops.iter().find_map(|l| match l.mode {
            LoopMode::Vector { lanes } => Some(i64::from(lanes)),
            _ => None,
        });
        let in_pieces = lanes.is_some_and(|lanes| lanes * size == PIECE);
        match distance.as_const() {
            Some(n) if n > 1 && in_pieces && (n * size) % (2 * PIECE) == 0 => {
                let row = u32::try_from(n * size).ok();
                let row = row.filter(|row| row.is_power_of_two() && *row >= BANKS_BYTES && dtypes.len() == 1);
                if row.is_some() { (distance, row) } else { (IndexExpr::constant(n + PIECE / size), None) }
            }
            _ => (distance, None),
        }
    }

    /// Whether four warps together read a stage, as a factor of a product of matrices.
    fn is_of_group(&self, stage: StageId) -> bool {
        self.kernel.stages.iter_enumerated().any(|(id, reader)| {
            let mut reads = false;
            reader.for_each_load(&mut |_, load| {
                reads |= matches!(load.source, Source::Stage(source, _) if source == stage);
            });
            reads && self.plans[id].loops.iter().any(LoopPlan::is_of_group)
        })
    }

    /// Rows of a tile of so many elements whose rows are longer than what the banks of shared memory have side by side.
    fn panel_rows(&self, stage: StageId, row_bytes: u32, len: &IndexExpr) -> Option<u32> {
        let size = self.kernel.stages[stage].dtypes()[0].size_bytes()? as i64;
        let rows = len.as_const()? * size / i64::from(row_bytes);
        let is_long = row_bytes > BANKS_BYTES && rows % 8 == 0;
        u32::try_from(rows).ok().filter(|_| is_long)
    }

    /// Positions of the value axes from outermost to innermost in local storage: the axis whose points are vector
    /// lanes, or columns of a tile, is innermost.
    pub(super) fn storage_order(&self, stage: StageId) -> Vec<usize> {
        let axes: Vec<usize> = self.kernel.stages[stage].value_axes().map(|(n, _)| n).collect();
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&p| self.plans[stage].lies_innermost(axes[p]));
        order
    }
}

/// Whether what is needed depends on where in the axis's part one is, or on whether that exists.
fn is_spread(axis: &AxisState) -> bool {
    !axis.extent.is_const(1) || axis.limit.is_some()
}

/// An expression as `dividend div number + rest`, with the offsets in the dividend alone.
fn quotient(e: &IndexExpr, deltas: &[Option<VarId>]) -> Option<((IndexExpr, IndexExpr), IndexExpr)> {
    let moves = |e: &IndexExpr| deltas.iter().flatten().any(|&delta| e.uses_var(delta));
    let mut found: Option<Atom> = None;
    for term in e.terms() {
        for atom in &term.atoms {
            if let Atom::FloorDiv(parts) = atom
                && moves(&parts.0)
            {
                found = Some(atom.clone());
            }
        }
    }
    let atom = found?;
    let Atom::FloorDiv(parts) = &atom else { return None };
    let (zero, one) = (e.replace(&atom, &IndexExpr::constant(0)), e.replace(&atom, &IndexExpr::constant(1)));
    let plain = (one - zero.clone()).is_const(1) && parts.1.as_const().is_some() && !moves(&zero);
    plain.then(|| (parts.as_ref().clone(), zero))
}
