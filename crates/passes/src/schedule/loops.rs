//! The loops around a stage's computation: parallel ones as parts of the chunk number, full turns, remainders, vectors.

use super::ScheduleError;
use super::emit::{AxisState, Emitter, State, Stmts};
use super::plan::{LoopMode, LoopPlan, is_in_steps};
use super::region::Region;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::index::{Atom, IndexExpr, Interval};
use infc_ir::kernel::AxisKind;
use infc_ir::nest::{LoopKind, Stmt};
use infc_ir::schedule::{GpuDim, Scope};

/// Rows that are computed together where fewer than a tile are left, and nobody knows how many when compiling.
const ROWS_OF_REST: [i64; 3] = [4, 2, 1];

/// The same where they are multiplied as matrices, of which few rows take about as long as one: no more than three times what is
/// multiplied with them is read.
const MATRIX_ROWS_OF_REST: [i64; 6] = [16, 12, 8, 4, 2, 1];

impl Emitter<'_> {
    /// Turns of the stage's parallel loops, outermost first.
    pub(super) fn parallel_turns(&self, stage: StageId) -> Vec<IndexExpr> {
        let plan = &self.plans[stage];
        let extents: Vec<IndexExpr> = self.kernel.stages[stage].axes.iter().map(|a| a.extent.clone()).collect();
        plan.loops
            .iter()
            .take_while(|l| l.mode == LoopMode::Parallel)
            .map(|l| extents[l.axis].ceil_div(&IndexExpr::constant(l.tile)))
            .collect()
    }

    /// The parallel loops, decoded from the chunk number.
    pub(super) fn parallel(
        &mut self,
        stage: StageId,
        at: usize,
        turns: &[IndexExpr],
        chunk: IndexExpr,
        state: State,
    ) -> Stmts {
        if at == turns.len() {
            return self.loops(stage, at, state);
        }
        if turns.iter().any(|turns| turns.is_const(0)) {
            return Err(self.nothing_to_share(stage));
        }
        let l = self.plans[stage].loops[at].clone();
        let inner: IndexExpr = turns[at + 1..].iter().cloned().product();
        let turn = if at == 0 { chunk.floor_div(&inner) } else { chunk.floor_div(&inner).modulo(&turns[at]) };
        let (index, mut stmts) = if turns[at].is_const(1) {
            (IndexExpr::constant(0), Vec::new())
        } else {
            let var = self.loop_var(format!("{}.{}", self.kernel.stages[stage].name, l.name), &turns[at]);
            (IndexExpr::var(var), vec![Stmt::Let { var, value: turn }])
        };
        let chunk = if at == 0 && is_in_steps(self.kernel, stage, &self.plans[stage]) && !inner.is_const(1) {
            let name = format!("{}.place", self.kernel.stages[stage].name);
            let place = self.loop_var(name, &inner);
            stmts.push(Stmt::Let { var: place, value: forth_and_back(&index, &chunk.modulo(&inner), &inner) });
            IndexExpr::var(place)
        } else {
            chunk
        };
        let axis = &state[l.axis];
        let tile = IndexExpr::constant(l.tile);
        let full = axis.extent.floor_div(&tile).simplify(&self.ranges);
        let rest = axis.extent.modulo(&tile).simplify(&self.ranges);
        let with = |turn: &IndexExpr, extent: IndexExpr| {
            let mut s = state.clone();
            let base = axis.base.clone() + turn.clone().scale(l.tile);
            s[l.axis] = AxisState { base, extent, limit: None };
            s
        };
        if rest.is_const(0) {
            stmts.extend(self.parallel_turn(stage, at, turns, chunk, with(&index, tile.clone()))?);
        } else if full.is_const(0) {
            stmts.extend(self.parallel_rest(stage, at, turns, &chunk, with(&index, rest))?);
        } else {
            // Among the full tiles the turn is below their number; the remainder is the turn after them.
            let known = index.as_var().map(|var| (var, self.ranges.var(var)));
            if let Some((var, interval)) = known {
                let max = self.ranges.interval(&full).max.map(|m| (m - 1).max(0));
                self.ranges.set_var(var, Interval { max, ..interval });
                self.ranges.set_upper(var, full.clone() - 1);
            }
            let then = self.parallel_turn(stage, at, turns, chunk.clone(), with(&index, tile.clone()))?;
            if let Some((var, interval)) = known {
                self.ranges.set_var(var, interval);
                self.ranges.set_upper(var, turns[at].clone() - 1);
            }
            let otherwise = self.parallel_rest(stage, at, turns, &chunk, with(&full, rest))?;
            let in_full = Bound { expr: index, lo: IndexExpr::constant(0), hi: full };
            stmts.push(Stmt::If { cond: vec![in_full], then, otherwise });
        }
        Ok(stmts)
    }

    /// The error of a stage without points whose turns are to be told by one number.
    fn nothing_to_share(&self, stage: StageId) -> ScheduleError {
        let reason = "it has no points, so there is nothing to be shared among threads".to_owned();
        ScheduleError::Stage { stage: self.kernel.stages[stage].name.clone(), reason }
    }

    /// The last turn of a parallel loop, of fewer points than a tile.
    fn parallel_rest(
        &mut self,
        stage: StageId,
        at: usize,
        turns: &[IndexExpr],
        chunk: &IndexExpr,
        state: State,
    ) -> Stmts {
        let l = self.plans[stage].loops[at].clone();
        if state[l.axis].extent.as_const().is_some() {
            return self.parallel_turn(stage, at, turns, chunk.clone(), state);
        }
        self.symbolic_rest(stage, &l, state, &mut |e, s| e.parallel_turn(stage, at, turns, chunk.clone(), s))
    }

    fn parallel_turn(
        &mut self,
        stage: StageId,
        at: usize,
        turns: &[IndexExpr],
        chunk: IndexExpr,
        state: State,
    ) -> Stmts {
        let name = self.plans[stage].loops[at].name.clone();
        self.with_attached(stage, &name, state, &mut |e, s| e.parallel(stage, at + 1, turns, chunk.clone(), s))
    }

    /// Loops from position `at` inwards, around the stage's computation.
    pub(super) fn loops(&mut self, stage: StageId, at: usize, state: State) -> Stmts {
        if let Some(asked) = self.asks_what_is_replaced(stage, at, &state) {
            return self.where_replaced(stage, at, asked, state);
        }
        let plan = &self.plans[stage];
        let Some(l) = plan.loops.get(at).cloned() else { return self.point(stage, &state) };
        if self.kernel.stages[stage].axes[l.axis].kind == AxisKind::Reduce {
            return self.reduction(stage, at, state);
        }
        self.open(stage, &l, state, &mut |e, s| {
            e.with_attached(stage, &l.name, s, &mut |e, s| e.loops(stage, at + 1, s))
        })
    }

    /// Computes what is attached at a loop, then the rest of the turn.
    pub(super) fn with_attached(
        &mut self,
        stage: StageId,
        loop_name: &str,
        state: State,
        rest: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let attached = self.attached(stage, loop_name);
        if attached.is_empty() {
            return rest(self, state);
        }
        if let Some(&id) = attached.iter().find(|&&id| self.plans[id].ahead > 0) {
            let reason = "it can be copied ahead only where it is read in a reduction's serial loop".to_owned();
            return Err(ScheduleError::Stage { stage: self.kernel.stages[id].name.clone(), reason });
        }
        let mut stmts = Vec::new();
        for (id, region) in self.regions(stage, loop_name, &state) {
            let storage = self.allocate(id, &region);
            stmts.extend(storage.buffers.iter().map(|&b| Stmt::Alloc(b)));
            self.storage[id.index()] = Some(storage);
            let state = self.state_over(id, &region);
            let own = self.loops(id, 0, state)?;
            let is_apart = self.holds_outputs(self.root_of(id));
            stmts.extend(if is_apart { self.unless_empty(id, own) } else { own });
            if self.plans[id].scope == Scope::Shared {
                // Every thread of the block sees what the others have stored.
                stmts.push(Stmt::Barrier);
            }
        }
        stmts.extend(rest(self, state)?);
        let shares = attached.iter().any(|&id| self.plans[id].scope == Scope::Shared);
        let plan = self.plans[stage].loops.iter().find(|l| l.name == loop_name);
        if shares && plan.is_some_and(|l| matches!(l.mode, LoopMode::Serial | LoopMode::Unrolled)) {
            // Nobody stores for the next turn what others still read in this one.
            stmts.push(Stmt::Barrier);
        }
        for id in attached {
            self.storage[id.index()] = None;
        }
        Ok(stmts)
    }

    /// Which parts of the stages that are computed at a loop one turn needs, in dependency order.
    pub(super) fn regions(&mut self, stage: StageId, loop_name: &str, state: &State) -> Vec<(StageId, Region)> {
        let attached = self.attached(stage, loop_name);
        // Needs flow from readers to what they read: last stage first. What is computed further inside reads too.
        let mut readers = vec![(stage, state.clone())];
        let mut regions = Vec::new();
        for id in self.computed_within(stage, loop_name).into_iter().rev() {
            let region = self.needed(id, &readers);
            readers.push((id, self.state_over(id, &region)));
            if attached.contains(&id) {
                regions.push((id, region));
            }
        }
        regions.reverse();
        regions
    }

    /// The state of a stage that covers a region: reduction axes in full.
    pub(super) fn state_over(&self, stage: StageId, region: &[AxisState]) -> State {
        let mut region = region.iter();
        self.kernel.stages[stage]
            .axes
            .iter()
            .map(|a| match a.kind {
                AxisKind::Reduce => AxisState { base: IndexExpr::constant(0), extent: a.extent.clone(), limit: None },
                _ => region.next().expect("a region has an entry per value axis").clone(),
            })
            .collect()
    }

    /// One loop: full turns, then the remainder with its own extents.
    pub(super) fn open(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        state: State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let axis = state[l.axis].simplified(&self.ranges);
        let at = |base: IndexExpr, extent: IndexExpr, limit: Option<IndexExpr>| {
            let mut s = state.clone();
            s[l.axis] = AxisState { base, extent, limit };
            s
        };
        match l.mode {
            LoopMode::Vector { lanes } => return self.open_vector(stage, l, lanes, &axis, &at, body),
            LoopMode::Bound(dim) => return self.open_bound(stage, l, dim, &state, &at, body),
            _ => {}
        }
        let tile = IndexExpr::constant(l.tile);
        let full = axis.extent.floor_div(&tile).simplify(&self.ranges);
        let rest = axis.extent.modulo(&tile).simplify(&self.ranges);
        let mut stmts = Vec::new();
        // A product of matrices has all its loops, of one turn too.
        let is_tile = matches!(l.mode, LoopMode::Tensor(intrinsic) if intrinsic.is_tile());
        if full.is_const(1) && !is_tile {
            stmts.extend(body(self, at(axis.base.clone(), tile.clone(), axis.limit.clone()))?);
        } else if !full.is_const(0) {
            let var = self.loop_var(format!("{}.{}", self.kernel.stages[stage].name, l.name), &full);
            let base = axis.base.clone() + IndexExpr::var(var).scale(l.tile);
            let kind = match l.mode {
                LoopMode::Unrolled if full.as_const().is_some() => LoopKind::Unrolled,
                // Registers of tiles have as many rows and columns as it takes.
                LoopMode::Tensor(intrinsic) if is_tile && full.as_const().is_some() => LoopKind::Tensor(intrinsic),
                LoopMode::Tensor(_) if is_tile => LoopKind::Serial,
                // A remainder has fewer turns than the operation takes.
                LoopMode::Tensor(intrinsic) if Some(full.clone()) == l.turns.map(IndexExpr::constant) => {
                    LoopKind::Tensor(intrinsic)
                }
                LoopMode::Tensor(_) if full.as_const().is_some() => LoopKind::Unrolled,
                _ => LoopKind::Serial,
            };
            let copies = self.code.enter(kind, &full);
            let inner = body(self, at(base, tile.clone(), axis.limit.clone()))?;
            self.code.leave(copies);
            stmts.push(Stmt::For { var, extent: full.clone(), kind, body: inner });
        }
        if !rest.is_const(0) {
            let base = axis.base.clone() + full.scale(l.tile);
            let s = at(base, rest.clone(), axis.limit.clone());
            if rest.as_const().is_some() {
                stmts.extend(body(self, s)?);
            } else {
                stmts.extend(self.symbolic_rest(stage, l, s, body)?);
            }
        }
        Ok(stmts)
    }

    /// A dimension of a launch: all turns run at once, so the remainder is one more of them, masked. Neighbouring loops
    /// bound to the same dimension are one loop over all their turns, from which each takes its own.
    fn open_bound(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        dim: GpuDim,
        state: &State,
        at: &dyn Fn(IndexExpr, IndexExpr, Option<IndexExpr>) -> State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let axis = state[l.axis].simplified(&self.ranges);
        let tile = IndexExpr::constant(l.tile);
        let turns = axis.extent.ceil_div(&tile).simplify(&self.ranges);
        let exact = axis.extent.modulo(&tile).simplify(&self.ranges).is_const(0);
        let limit = if exact { axis.limit.clone() } else { Some(axis.end()) };
        let name = format!("{}.{}", self.kernel.stages[stage].name, l.name);
        let at_turn = |turn: IndexExpr| at(axis.base.clone() + turn.scale(l.tile), tile.clone(), limit.clone());

        let loops = &self.plans[stage].loops;
        let position = loops.iter().position(|other| other.name == l.name).unwrap_or(0);
        let shares = |other: &LoopPlan| other.mode == LoopMode::Bound(dim);
        let is_first = position == 0 || !shares(&loops[position - 1]);
        let members: Vec<LoopPlan> = loops[position + 1..].iter().take_while(|other| shares(other)).cloned().collect();
        if is_first && members.is_empty() {
            let var = self.loop_var(name, &turns);
            let inner = body(self, at_turn(IndexExpr::var(var)))?;
            return Ok(vec![Stmt::For { var, extent: turns, kind: LoopKind::Bound(dim), body: inner }]);
        }
        let turns_of = |m: &LoopPlan| state[m.axis].extent.ceil_div(&IndexExpr::constant(m.tile));
        let inside = members.iter().map(turns_of).product::<IndexExpr>().simplify(&self.ranges);
        if turns.is_const(0) || inside.is_const(0) {
            return Err(self.nothing_to_share(stage));
        }
        let known = self.shared_dims.iter().rev().find(|(s, d, _)| (*s, *d) == (stage, dim)).filter(|_| !is_first);
        let (flat, all) = match known {
            Some(&(.., flat)) => (flat, None),
            None => {
                let all = (turns.clone() * inside.clone()).simplify(&self.ranges);
                let flat = self.loop_var(format!("{name}_all"), &all);
                self.shared_dims.push((stage, dim, flat));
                (flat, Some(all))
            }
        };
        let mut stmts = Vec::new();
        let turn = if turns.is_const(1) {
            IndexExpr::constant(0)
        } else {
            let var = self.loop_var(name, &turns);
            let quotient = IndexExpr::var(flat).floor_div(&inside);
            let value = if all.is_some() { quotient } else { quotient.modulo(&turns) };
            stmts.push(Stmt::Let { var, value: value.simplify(&self.ranges) });
            IndexExpr::var(var)
        };
        let inner = body(self, at_turn(turn));
        if let Some(extent) = all {
            self.shared_dims.pop();
            stmts.extend(inner?);
            return Ok(vec![Stmt::For { var: flat, extent, kind: LoopKind::Bound(dim), body: stmts }]);
        }
        stmts.extend(inner?);
        Ok(stmts)
    }

    /// Whether a stage that is computed at a loop, or inside of it, multiplies matrices, whose rows and columns are numbers.
    fn multiplies_matrices_within(&self, stage: StageId, loop_name: &str) -> bool {
        let is_tile = |l: &LoopPlan| matches!(l.mode, LoopMode::Tensor(intrinsic) if intrinsic.is_tile());
        self.computed_within(stage, loop_name).into_iter().any(|id| self.plans[id].loops.iter().any(is_tile))
    }

    /// A remainder whose extent is symbolic: as it is where a further loop over the axis cuts it; one masked vector at a
    /// time; or, of the rows of a tile, some together while there are so many, then fewer, so that few points stand alone,
    /// whose sums would wait for themselves.
    fn symbolic_rest(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        state: State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let plan = &self.plans[stage];
        let inside = plan.loops.iter().skip_while(|other| other.name != l.name).skip(1);
        let in_matrices = self.multiplies_matrices_within(stage, &l.name);
        if !in_matrices && inside.clone().any(|inner| inner.axis == l.axis && inner.mode == LoopMode::Serial) {
            return self.if_left(&state[l.axis].extent.clone(), l.tile, state, body);
        }
        let lanes = plan.lanes_of(l.axis).map(i64::from);
        let is_row = plan.loops.iter().any(|inner| inner.axis == l.axis && inner.mode == LoopMode::Unrolled)
            && self.kernel.stages[stage].axes[l.axis].kind == AxisKind::Parallel;
        let steps: Vec<i64> = match lanes {
            Some(lanes) => vec![lanes],
            None if in_matrices => MATRIX_ROWS_OF_REST.into_iter().filter(|&rows| rows == 1 || rows < l.tile).collect(),
            None if is_row => ROWS_OF_REST.into_iter().filter(|&rows| rows == 1 || rows < l.tile).collect(),
            None => vec![1],
        };
        let axis = state[l.axis].clone();
        let (mut base, mut extent) = (axis.base.clone(), axis.extent.clone());
        let mut stmts = Vec::new();
        for step in steps {
            let points = IndexExpr::constant(step);
            let turns = if lanes.is_some() { extent.ceil_div(&points) } else { extent.floor_div(&points) };
            let turns = turns.simplify(&self.ranges);
            if turns.is_const(0) {
                continue;
            }
            let var = self.loop_var(format!("{}.{}_rest", self.kernel.stages[stage].name, l.name), &turns);
            let limit = lanes.filter(|&n| n > 1).map(|_| axis.base.clone() + axis.extent.clone());
            let mut s = state.clone();
            s[l.axis] = AxisState {
                base: base.clone() + IndexExpr::var(var).scale(step),
                extent: points.clone(),
                limit: limit.or(axis.limit.clone()),
            };
            let inner = body(self, s)?;
            base = base + turns.clone().scale(step);
            extent = extent.modulo(&points).simplify(&self.ranges);
            stmts.push(Stmt::For { var, extent: turns, kind: LoopKind::Serial, body: inner });
        }
        Ok(stmts)
    }

    /// A remainder as it is, if there is one: what is read around its points need not exist without them.
    fn if_left(
        &mut self,
        rest: &IndexExpr,
        tile: i64,
        state: State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        // As `x − d·(x div d)` it meets the bases of what follows.
        let expr = rest.substitute(&|atom| match atom {
            Atom::Mod(pair) => Some(pair.0.clone() - pair.1.clone() * pair.0.floor_div(&pair.1)),
            _ => None,
        });
        let left = Bound { expr, lo: IndexExpr::constant(1), hi: IndexExpr::constant(tile) };
        let ranges = std::mem::take(&mut self.ranges);
        self.ranges = ranges.given(std::slice::from_ref(&left));
        let then = body(self, state);
        self.ranges = ranges;
        Ok(vec![Stmt::If { cond: vec![left], then: then?, otherwise: Vec::new() }])
    }

    fn open_vector(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        lanes: u16,
        axis: &AxisState,
        at: &dyn Fn(IndexExpr, IndexExpr, Option<IndexExpr>) -> State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let name = format!("{}.{}", self.kernel.stages[stage].name, l.name);
        let one = IndexExpr::constant(1);
        match axis.extent.as_const() {
            // A partial accumulator's lanes are all folded in the end, so a remainder must mask its own lanes off.
            Some(extent) if extent == i64::from(lanes) || (extent < i64::from(lanes) && !l.partial) => {
                let var = self.loop_var(name, &axis.extent);
                let base = axis.base.clone() + IndexExpr::var(var);
                let inner = body(self, at(base, one, axis.limit.clone()))?;
                // A short remainder takes a short vector, which is quicker on some machines and often needs no mask.
                let lanes = lanes.min(extent.max(1).unsigned_abs().next_power_of_two() as u16);
                let kind = LoopKind::Vector { lanes };
                Ok(vec![Stmt::For { var, extent: axis.extent.clone(), kind, body: inner }])
            }
            // More than one vector, or an unknown number of points: whole vectors, the last one masked.
            constant => {
                let width = IndexExpr::constant(i64::from(lanes));
                let turns = axis.extent.ceil_div(&width).simplify(&self.ranges);
                let exact = constant.is_some_and(|e| e % i64::from(lanes) == 0);
                let limit = if exact { axis.limit.clone() } else { Some(axis.end()) };
                let outer = self.loop_var(format!("{name}_vectors"), &turns);
                let var = self.loop_var(name, &width);
                let base = axis.base.clone() + IndexExpr::var(outer).scale(i64::from(lanes)) + IndexExpr::var(var);
                let inner = body(self, at(base, one, limit))?;
                let kind = LoopKind::Vector { lanes };
                let vector = Stmt::For { var, extent: width, kind, body: inner };
                Ok(vec![Stmt::For { var: outer, extent: turns, kind: LoopKind::Serial, body: vec![vector] }])
            }
        }
    }
}

/// The place among those of a step that is computed in a place's turn: in odd steps the last comes first, so that what
/// caches hold at the end of a step is what the next one begins with. Weights that all steps read and that do not fit would be
/// read from behind the cache otherwise, all of them, at every step.
fn forth_and_back(step: &IndexExpr, place: &IndexExpr, places: &IndexExpr) -> IndexExpr {
    let last = step.modulo(&IndexExpr::constant(2)) * (places.clone() - 1);
    // The distance from the first place or the last.
    (place.clone() - last.clone()).maximum(&(last - place.clone()))
}
