//! Tiles that are copied asynchronously some turns of a loop before they are read: see [`infc_ir::schedule::Step::Stream`].
//!
//! With tiles `n` turns ahead there are `n + 1` of each, and one more where the products that read them go on while the next turn
//! begins ([`Stmt::ProductsWait`]). A turn waits until its own tiles have arrived, meets the other
//! threads of the block, which sees to their copies and to that nobody reads any longer what the turn before read, starts to
//! copy the tiles of `n` turns later into the place of those, and computes. Products that go on are started before that, and what is copied
//! takes the place of what the turn before the last one read. Every turn makes one group of copies, also where
//! there is nothing left to be copied, so that the number of groups under way tells which have arrived.

use super::ScheduleError;
use super::emit::{AxisState, Emitter, State, Stmts, Storage};
use super::plan::{LoopMode, LoopPlan, Placement};
use super::region::Region;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr, Proof, Ranges};
use infc_ir::nest::{Expr, LoopKind, Stmt, Target};
use infc_ir::scalar::{Load, ScalarOp, Source};
use infc_ir::schedule::Scope;

/// Bytes that one asynchronous copy may have.
const COPIED_BYTES: [i64; 3] = [16, 8, 4];

/// A stage that is copied ahead.
struct Streamed {
    stage: StageId,
    storage: Storage,
    /// Elements of the tile of one turn.
    tile_elems: i64,
    /// How many of them there are.
    tiles_kept: i64,
    /// What a turn reads, by the loop's variable. That of a certain turn is this with its number in the variable's place: a box
    /// made of the number could be a narrower one, which readers know nothing of.
    region: Region,
}

impl Emitter<'_> {
    /// Whether tiles are copied ahead that are read in the turns of a loop.
    pub(super) fn is_streamed_at(&self, stage: StageId, loop_name: &str) -> bool {
        self.attached(stage, loop_name).iter().any(|&id| self.plans[id].ahead > 0)
    }

    /// A serial loop over turns that read what is copied ahead.
    pub(super) fn streamed(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        state: &State,
        rest: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let attached = self.attached(stage, &l.name);
        let ahead = self.plans[attached[0]].ahead;
        let later_products = u32::from(self.plans[stage].loops.iter().any(LoopPlan::is_of_group));
        let tiles_kept = i64::from(ahead + 1 + later_products);
        let axis = state[l.axis].simplified(&self.ranges);
        let tile = IndexExpr::constant(l.tile);
        let whole = axis.extent.modulo(&tile).simplify(&self.ranges).is_const(0) && axis.limit.is_none();
        let alike = attached.iter().all(|&id| self.plans[id].ahead == ahead && self.plans[id].scope == Scope::Shared);
        if !whole || !alike || l.partial || l.mode != LoopMode::Serial {
            let why = "what is copied ahead is in shared memory, all of it equally far ahead, and the loop is serial, without \
                       a remainder and not partial";
            return self.no_stream(stage, why);
        }
        let turns = axis.extent.floor_div(&tile).simplify(&self.ranges);
        let at_turn = |turn: &IndexExpr| {
            let mut s = state.clone();
            s[l.axis].base = axis.base.clone() + turn.clone().scale(l.tile);
            s[l.axis].extent = tile.clone();
            s
        };

        let mut stmts = Vec::new();
        let mut tiles = Vec::new();
        let var = self.loop_var(format!("{}.{}", self.kernel.stages[stage].name, l.name), &turns);
        let this = IndexExpr::var(var);
        for (id, region) in self.regions(stage, &l.name, &at_turn(&this)) {
            let storage = self.allocate(id, &region);
            let mut tile_elems = 0;
            for &buffer in &storage.buffers {
                let Some(len) = self.buffers[buffer].len_elems.as_const() else {
                    return self.no_stream(id, "a tile that is copied ahead has a size that is known when compiling");
                };
                let in_piece = COPIED_BYTES[0] / self.buffers[buffer].dtype.size_bytes().unwrap_or(1) as i64;
                tile_elems = (len + in_piece - 1) / in_piece.max(1) * in_piece.max(1);
                self.buffers[buffer].len_elems = IndexExpr::constant(tile_elems * tiles_kept);
                stmts.push(Stmt::Alloc(buffer));
            }
            tiles.push(Streamed { stage: id, storage, tile_elems, tiles_kept, region });
        }

        for n in 0..i64::from(ahead) {
            let turn = IndexExpr::constant(n);
            let there = Bound { expr: turn.clone(), lo: IndexExpr::constant(0), hi: turns.clone() };
            match there.proof(&self.ranges) {
                Proof::Yes => stmts.extend(self.copies(&tiles, var, &turn)?),
                Proof::No => {}
                Proof::Unknown => {
                    let then = self.copies(&tiles, var, &turn)?;
                    stmts.push(Stmt::If { cond: vec![there], then, otherwise: Vec::new() });
                }
            }
            stmts.push(Stmt::AsyncCommit);
        }

        let mut copies = Vec::new();
        let later = this.clone() + i64::from(ahead);
        let there = Bound { expr: later.clone(), lo: IndexExpr::constant(0), hi: turns.clone() };
        if there.proof(&self.ranges) != Proof::No && turns.as_const().is_none_or(|turns| turns > i64::from(ahead)) {
            let next = self.loop_var(format!("{}.{}_next", self.kernel.stages[stage].name, l.name), &turns);
            let mut then = vec![Stmt::Let { var: next, value: later }];
            let next = IndexExpr::var(next);
            then.extend(self.copies(&tiles, var, &next)?);
            copies.push(Stmt::If { cond: vec![there], then, otherwise: Vec::new() });
        }
        copies.push(Stmt::AsyncCommit);
        for tile in &tiles {
            let storage = tile.at(tile.region.iter().map(|a| a.base.clone()).collect(), &this, &self.ranges);
            self.storage[tile.stage.index()] = Some(storage);
        }
        let products = rest(self, at_turn(&this))?;
        for tile in &tiles {
            self.storage[tile.stage.index()] = None;
        }
        let mut body = vec![Stmt::AsyncWait { pending: ahead - 1 }, Stmt::Barrier];
        if later_products > 0 {
            // These go on while threads copy.
            body.extend(products);
            body.extend(copies);
            body.push(Stmt::ProductsWait { pending: later_products });
        } else {
            body.extend(copies);
            body.extend(products);
        }
        stmts.push(Stmt::For { var, extent: turns, kind: LoopKind::Serial, body });
        if later_products > 0 {
            stmts.push(Stmt::ProductsWait { pending: 0 });
        }
        if self.is_repeated(stage, &l.name) {
            // Nobody copies for the next time what others still read.
            stmts.push(Stmt::Barrier);
        }
        Ok(stmts)
    }

    /// The copies of the tiles of a turn, whose number stands for the loop's variable.
    fn copies(&mut self, tiles: &[Streamed], var: VarId, turn: &IndexExpr) -> Stmts {
        let mut stmts = Vec::new();
        for tile in tiles {
            let id = tile.stage;
            let there = |e: &IndexExpr| e.replace(&Atom::Var(var), turn).simplify(&self.ranges);
            let region: Region = tile
                .region
                .iter()
                .map(|a| AxisState {
                    base: there(&a.base),
                    extent: there(&a.extent),
                    limit: a.limit.as_ref().map(there),
                })
                .collect();
            let origin = region.iter().map(|a| a.base.clone()).collect();
            self.storage[id.index()] = Some(tile.at(origin, turn, &self.ranges));
            let state = self.state_over(id, &region);
            let mut stores = self.loops(id, 0, state)?;
            self.storage[id.index()] = None;
            if !stores.iter_mut().all(|stmt| self.make_copy(stmt)) {
                let why = "it is not copied in aligned pieces of 4, 8 or 16 bytes, as vectors, from an operand";
                return self.no_stream(id, why);
            }
            stmts.extend(stores);
        }
        Ok(stmts)
    }

    /// Makes asynchronous copies of all stores of a statement; false if one is none.
    fn make_copy(&self, stmt: &mut Stmt) -> bool {
        match stmt {
            Stmt::For { var, extent, kind: LoopKind::Vector { lanes }, body } => {
                let copy = match &body[..] {
                    [Stmt::Store { targets, value, valid }] if valid.is_empty() => extent
                        .as_const()
                        .filter(|n| *n == i64::from(*lanes))
                        .and_then(|n| self.copy(*var, n, targets, value)),
                    _ => None,
                };
                copy.map(|copy| *stmt = copy).is_some()
            }
            Stmt::For { body, .. } => body.iter_mut().all(|stmt| self.make_copy(stmt)),
            Stmt::If { then, otherwise, .. } => then.iter_mut().chain(otherwise).all(|stmt| self.make_copy(stmt)),
            Stmt::Let { .. } => true,
            _ => false,
        }
    }

    /// The copy that a vector store of so many lanes is.
    fn copy(&self, lane: VarId, lanes: i64, targets: &[Target], value: &Expr) -> Option<Stmt> {
        let ([target], [root]) = (targets, &value.roots[..]) else { return None };
        let ScalarOp::Load(Load { source: Source::Buffer(from), index, gather, valid, otherwise, dtype }) =
            &value.body.ops[*root]
        else {
            return None;
        };
        let bytes = lanes * dtype.size_bytes()? as i64;
        if !gather.is_empty() || otherwise.bits != 0 || !COPIED_BYTES.contains(&bytes) {
            return None;
        }
        let piece = |e: &IndexExpr| in_pieces(&e.simplify(&self.ranges), lane, lanes);
        let target = Target { buffer: target.buffer, index: piece(&target.index)? };
        let source = Target { buffer: *from, index: piece(&index[0])? };
        let valid = valid.iter().map(|b| same_in_piece(b, lane, lanes, &self.ranges)).collect::<Option<Vec<_>>>()?;
        Some(Stmt::AsyncCopy { target, source, len_elems: u32::try_from(lanes).ok()?, valid })
    }

    /// Whether a loop of a stage is gone through again and again by the same threads.
    fn is_repeated(&self, stage: StageId, loop_name: &str) -> bool {
        let again = |l: &&LoopPlan| matches!(l.mode, LoopMode::Serial | LoopMode::Unrolled);
        let plan = &self.plans[stage];
        let outside = plan.loops.iter().take_while(|l| l.name != loop_name).any(|l| again(&l));
        let around = match &plan.placement {
            Placement::At(consumer, axis) => {
                let at = self.plans[*consumer].loops.iter().find(|l| l.name == *axis);
                at.as_ref().is_some_and(again) || self.is_repeated(*consumer, axis)
            }
            Placement::Root | Placement::Inline => false,
        };
        outside || around
    }

    fn no_stream<T>(&self, stage: StageId, why: &str) -> Result<T, ScheduleError> {
        Err(ScheduleError::Stage { stage: self.kernel.stages[stage].name.clone(), reason: why.to_owned() })
    }
}

impl Streamed {
    /// Where the tile of a turn is that begins at the given coordinates.
    fn at(&self, origin: Vec<IndexExpr>, turn: &IndexExpr, ranges: &Ranges) -> Storage {
        let slot = turn.modulo(&IndexExpr::constant(self.tiles_kept)).simplify(ranges);
        Storage { origin, start: slot.scale(self.tile_elems), ..self.storage.clone() }
    }
}

/// The place of the first of so many neighbours, if they are neighbours in memory and aligned as one: an expression of which
/// the variable counts them.
pub(in crate::schedule) fn in_pieces(e: &IndexExpr, lane: VarId, lanes: i64) -> Option<IndexExpr> {
    let (step, first) = of_first(e, lane, lanes).linear_in(lane)?;
    (step.is_const(1) && first.is_multiple_of(lanes)).then_some(first)
}

/// With quotients and remainders by multiples of the number of neighbours as those of the first of them, where it is at a
/// multiple: `(x + lane) div d = x div d` and `(x + lane) mod d = x mod d + lane`.
fn of_first(e: &IndexExpr, lane: VarId, lanes: i64) -> IndexExpr {
    e.substitute(&|atom| match atom {
        Atom::FloorDiv(p) if p.0.uses_var(lane) && p.1.is_multiple_of(lanes) => {
            in_pieces(&p.0, lane, lanes).map(|first| first.floor_div(&p.1))
        }
        Atom::Mod(p) if p.0.uses_var(lane) && p.1.is_multiple_of(lanes) => {
            in_pieces(&p.0, lane, lanes).map(|first| first.modulo(&p.1) + IndexExpr::var(lane))
        }
        _ => None,
    })
}

/// A condition that holds for all of so many neighbours or for none, as one on the first of them.
pub(in crate::schedule) fn same_in_piece(bound: &Bound, lane: VarId, lanes: i64, ranges: &Ranges) -> Option<Bound> {
    let bound = bound.map(|e| e.simplify(ranges));
    let bound = bound.map(|e| of_first(e, lane, lanes));
    if ![&bound.expr, &bound.lo, &bound.hi].iter().any(|e| e.uses_var(lane)) {
        return Some(bound);
    }
    let expr = in_pieces(&bound.expr, lane, lanes)?;
    (bound.lo.is_multiple_of(lanes) && bound.hi.is_multiple_of(lanes)).then_some(Bound { expr, ..bound })
}
