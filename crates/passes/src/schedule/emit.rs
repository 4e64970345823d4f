//! The walk over stages and loops that makes the nest.

use super::ScheduleError;
use super::code::StraightCode;
use super::plan::{LoopMode, Placement, Plans, is_in_steps};
use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, EntityId, IndexVec, StageId, VarId};
use infc_ir::index::{IndexExpr, Interval, Ranges};
use infc_ir::kernel::Kernel;
use infc_ir::nest::{Buffer, BufferKind, LoopNest, LoopVar, ParallelAxis, Stmt};
use infc_ir::scalar::Source;
use infc_ir::schedule::{GpuDim, Scope};
use infc_tensor::DType;

/// Where the walk stands along one axis of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AxisState {
    /// The first coordinate still to be covered.
    pub(super) base: IndexExpr,
    /// How many coordinates from there; 1 at a point.
    pub(super) extent: IndexExpr,
    /// Coordinates from here on do not exist (a masked remainder).
    pub(super) limit: Option<IndexExpr>,
}

impl AxisState {
    pub(super) fn simplified(&self, ranges: &Ranges) -> Self {
        Self {
            base: self.base.simplify(ranges),
            extent: self.extent.simplify(ranges),
            limit: self.limit.as_ref().map(|l| l.simplify(ranges)),
        }
    }

    /// The first coordinate that is not covered, or does not exist.
    pub(super) fn end(&self) -> IndexExpr {
        let end = self.base.clone() + self.extent.clone();
        self.limit.as_ref().map_or_else(|| end.clone(), |limit| limit.minimum(&end))
    }
}

/// Where the value of a stage can be read at the moment.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// One per component.
    pub(super) buffers: Vec<BufferId>,
    /// The coordinate at element 0.
    pub(super) origin: Vec<IndexExpr>,
    /// Elements between neighbours.
    pub(super) strides: Vec<IndexExpr>,
    /// Where it begins in the buffers: other than 0 if they have tiles for several turns of a loop.
    pub(super) start: IndexExpr,
    /// All of it has been written, also at coordinates that the stage does not have: whoever reads need not ask.
    pub(super) complete: bool,
}

pub(super) type State = Vec<AxisState>;
pub(super) type Stmts = Result<Vec<Stmt>, ScheduleError>;

pub(super) struct Emitter<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) plans: &'a Plans,
    pub(super) ranges: Ranges,
    pub(super) buffers: IndexVec<BufferId, Buffer>,
    pub(super) vars: IndexVec<VarId, LoopVar>,
    /// Per operand, its buffer.
    pub(super) operand_buffers: Vec<BufferId>,
    /// Per stage, where its value is stored at this point of the walk.
    pub(super) storage: Vec<Option<Storage>>,
    /// The dimensions of a launch that several loops share, and what counts their turns together.
    pub(super) shared_dims: Vec<(StageId, GpuDim, VarId)>,
    pub(super) code: StraightCode,
    /// While the terms of a fold in registers are put together, what is known where its guard need not hold: what is folded there
    /// is never stored, so that elements that exist there, too, are read without asking.
    pub(super) beyond: Option<Ranges>,
    /// Within what data says of what is replaced (`replaced.rs`).
    pub(super) asked: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(kernel: &'a Kernel, plans: &'a Plans) -> Result<Self, ScheduleError> {
        let mut buffers = IndexVec::new();
        let operand_buffers = kernel
            .operands
            .iter_enumerated()
            .map(|(operand, o)| {
                buffers.push(Buffer {
                    name: o.name.clone(),
                    dtype: o.dtype,
                    kind: BufferKind::Operand { operand, argument: operand.0, role: o.kind },
                    len_elems: o.layout.len_elems.clone(),
                    swizzle_bytes: None,
                    panel_rows: None,
                })
            })
            .collect();
        Ok(Self {
            kernel,
            plans,
            ranges: Ranges::of_symbols(&kernel.symbols),
            buffers,
            vars: IndexVec::new(),
            operand_buffers,
            storage: vec![None; kernel.stages.len()],
            shared_dims: Vec::new(),
            code: StraightCode::default(),
            beyond: None,
            asked: false,
        })
    }

    pub(super) fn run(mut self) -> Result<LoopNest, ScheduleError> {
        let roots: Vec<StageId> =
            self.plans.iter_enumerated().filter(|(_, p)| p.placement == Placement::Root).map(|(id, _)| id).collect();
        // Storage of root stages lives as long as the kernel; outputs are their own storage.
        let mut body = Vec::new();
        for &root in &roots {
            let is_output = self.kernel.outputs.iter().any(|o| o.stage == root);
            if !is_output {
                let region = self.whole(root);
                let storage = self.allocate(root, &region);
                body.extend(storage.buffers.iter().map(|&b| Stmt::Alloc(b)));
                self.storage[root.index()] = Some(storage);
            }
        }
        let chunk = self.vars.push(LoopVar { name: "chunk".to_owned(), range: (Some(0), None) });
        let mut first = IndexExpr::constant(0);
        let mut step_chunks = None;
        let mut parts = Vec::new();
        for &root in &roots {
            let turns = self.parallel_turns(root);
            if turns.is_empty() && roots.len() > 1 {
                // A serial root beside others: it must see what came before, so everything is one chunk.
                return self.run_serial(&roots, body);
            }
            if let Some(read) = self.root_read_by(root).filter(|_| !turns.is_empty()) {
                let read = &self.kernel.stages[read].name;
                let reason =
                    format!("it is parallel and reads `{read}`, of which its chunks do not know when it is there");
                return Err(ScheduleError::Stage { stage: self.kernel.stages[root].name.clone(), reason });
            }
            if is_in_steps(self.kernel, root, &self.plans[root]) {
                if roots.len() > 1 {
                    let reason = "its steps cannot be parallel beside another root stage".to_owned();
                    return Err(ScheduleError::Stage { stage: self.kernel.stages[root].name.clone(), reason });
                }
                step_chunks = Some(turns[1..].iter().cloned().product());
            }
            let chunks: IndexExpr = turns.iter().cloned().product();
            let index = IndexExpr::var(chunk) - first.clone();
            let state = self.initial_state(root);
            let stmts = self.parallel(root, 0, &turns, index, state)?;
            let stmts = if self.holds_outputs(root) { stmts } else { self.unless_empty(root, stmts) };
            parts.push((chunks.clone(), stmts));
            first = first + chunks;
        }
        // Several independent roots share the chunk numbers, one after the other.
        let mut chain: Option<Vec<Stmt>> = None;
        let mut upper = first.clone();
        for (chunks, stmts) in parts.into_iter().rev() {
            let start = upper.clone() - chunks;
            chain = Some(match chain {
                None => stmts,
                Some(after) => vec![stmts_before(chunk, &upper, stmts, after)],
            });
            upper = start;
        }
        body.extend(chain.unwrap_or_default());
        let parallel = (!first.is_const(1)).then_some(ParallelAxis { var: chunk, chunks: first, step_chunks });
        Ok(self.finish(parallel, body))
    }

    /// Another root that this one reads, itself or by what is computed within it.
    fn root_read_by(&self, root: StageId) -> Option<StageId> {
        let mut read = vec![root];
        let mut at = 0;
        while let Some(&reader) = read.get(at) {
            at += 1;
            self.kernel.stages[reader].for_each_load(&mut |_, load| {
                if let Source::Stage(source, _) = load.source
                    && !read.contains(&source)
                {
                    read.push(source);
                }
            });
        }
        read.into_iter().skip(1).find(|&id| self.plans[id].placement == Placement::Root)
    }

    /// All roots in one chunk, in order.
    fn run_serial(mut self, roots: &[StageId], mut body: Vec<Stmt>) -> Result<LoopNest, ScheduleError> {
        for &root in roots {
            let state = self.initial_state(root);
            let turns = self.parallel_turns(root);
            if turns.is_empty() {
                let is_bound =
                    |id: &StageId| self.plans[*id].loops.iter().any(|l| matches!(l.mode, LoopMode::Bound(_)));
                if self.root_read_by(root).is_some() && roots.iter().any(is_bound) {
                    // What other threads of the block have stored is there now.
                    body.push(Stmt::Barrier);
                }
                let stmts = self.loops(root, 0, state)?;
                body.extend(if self.holds_outputs(root) { stmts } else { self.unless_empty(root, stmts) });
                continue;
            }
            let reason = "a root stage with parallel loops cannot stand beside a serial one".to_owned();
            return Err(ScheduleError::Stage { stage: self.kernel.stages[root].name.clone(), reason });
        }
        Ok(self.finish(None, body))
    }

    /// Whether outputs are computed within a root besides itself, which it may have nothing to do with: each stage within it is
    /// computed if it has elements then, and not if the root has.
    pub(super) fn holds_outputs(&self, root: StageId) -> bool {
        self.kernel.outputs.iter().any(|output| output.stage != root && self.root_of(output.stage) == root)
    }

    /// The root that a stage is computed within, or itself.
    pub(super) fn root_of(&self, mut stage: StageId) -> StageId {
        while let Placement::At(consumer, _) = &self.plans[stage].placement {
            stage = *consumer;
        }
        stage
    }

    /// What computes a stage, under the condition that there is something to compute where that cannot be told by its
    /// loops: a coordinate along an axis of at most one point is 0 to the simplifier, so that what is computed for it in
    /// front of the loop over the axis does not know of it.
    pub(super) fn unless_empty(&self, root: StageId, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let may_be_empty = |extent: &IndexExpr| {
            let Interval { min, max } = self.ranges.interval(extent);
            max.is_some_and(|max| max <= 1) && min.is_none_or(|min| min < 1)
        };
        let zero = IndexExpr::constant(0);
        let cond: Vec<Bound> = self.kernel.stages[root]
            .value_axes()
            .filter(|(_, axis)| may_be_empty(&axis.extent))
            .map(|(_, axis)| Bound { expr: zero.clone(), lo: zero.clone(), hi: axis.extent.clone() })
            .collect();
        if cond.is_empty() { stmts } else { vec![Stmt::If { cond, then: stmts, otherwise: Vec::new() }] }
    }

    fn finish(self, parallel: Option<ParallelAxis>, body: Vec<Stmt>) -> LoopNest {
        LoopNest {
            name: self.kernel.name.clone(),
            symbols: self.kernel.symbols.clone(),
            buffers: self.buffers,
            vars: self.vars,
            parallel,
            body,
        }
    }

    fn initial_state(&self, stage: StageId) -> State {
        self.kernel.stages[stage]
            .axes
            .iter()
            .map(|a| AxisState { base: IndexExpr::constant(0), extent: a.extent.clone(), limit: None })
            .collect()
    }

    // ---------------------------------------------------------------------------------------------- variables --

    pub(super) fn loop_var(&mut self, name: String, turns: &IndexExpr) -> VarId {
        let max = self.ranges.interval(turns).max.map(|m| (m - 1).max(0));
        let var = self.vars.push(LoopVar { name, range: (Some(0), max) });
        // A single turn that is not sure to be there: as a variable it tells that so many points are left.
        let sure = turns.as_const().is_some();
        let max_known = if sure { max } else { max.map(|max| max.max(1)) };
        self.ranges.set_var(var, Interval { min: Some(0), max: max_known });
        if !sure {
            self.ranges.set_upper(var, turns.clone() - 1);
        }
        var
    }

    /// A variable that stands for an offset during bounds inference and never reaches the nest.
    pub(super) fn scratch_var(&mut self, interval: Interval) -> VarId {
        let var = self.vars.push(LoopVar { name: "offset".to_owned(), range: (interval.min, interval.max) });
        self.ranges.set_var(var, interval);
        var
    }

    pub(super) fn next_scratch_var(&self) -> usize {
        self.vars.len()
    }

    pub(super) fn local_buffer(&mut self, name: &str, dtype: DType, scope: Scope, len: IndexExpr) -> BufferId {
        // The bound over all iterations, where the extent of a remainder is smaller than a tile. What depends on the
        // model's dims alone is known when the kernel runs.
        let len_elems = match self.ranges.interval(&len).max {
            Some(max) if len.uses_vars() => IndexExpr::constant(max),
            _ => len,
        };
        let (name, kind) = (name.to_owned(), BufferKind::Local(scope));
        self.buffers.push(Buffer { name, dtype, kind, len_elems, swizzle_bytes: None, panel_rows: None })
    }
}

/// `if chunk < end { before } else { after }`.
fn stmts_before(chunk: VarId, end: &IndexExpr, before: Vec<Stmt>, after: Vec<Stmt>) -> Stmt {
    let cond = Bound { expr: IndexExpr::var(chunk), lo: IndexExpr::constant(0), hi: end.clone() };
    Stmt::If { cond: vec![cond], then: before, otherwise: after }
}
