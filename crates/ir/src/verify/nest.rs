//! What must hold of a loop nest:
//!
//! - buffer arguments are numbered from 0 without gaps; sizes are dims;
//! - every variable is bound once, by a loop, a `let` or the parallel axis, and used only where it is bound;
//! - unrolled and vector loops have constant extents, vector loops at most as many turns as lanes, no vector loop and no
//!   barrier inside;
//! - local buffers are allocated once, and used within the block of their allocation;
//! - registers are indexed by what unrolling makes constant, and by coordinates of threads, over which they are spread;
//! - bodies are well typed, their loads read buffers at one flat index, in the buffer's type;
//! - stores and folds have one target per value, of its type, never in a read-only operand;
//! - asynchronous copies go from operands to shared memory.

use super::body::Leaves;
use super::{Report, VerifyError, ViolationKind};
use crate::access::Bound;
use crate::entity::{BufferId, EntityId, VarId};
use crate::index::{Atom, IndexExpr, Ranges};
use crate::kernel::OperandKind;
use crate::nest::{BufferKind, LoopKind, LoopNest, Stmt, Target};
use crate::scalar::{Load, Source, has_arithmetic};
use crate::schedule::{GpuDim, Scope};
use infc_tensor::DType;

/// Checks everything that the module's header lists.
///
/// # Errors
/// [`VerifyError`] with all violations.
pub fn verify_nest(nest: &LoopNest) -> Result<(), VerifyError> {
    let mut report = Report::default();
    report.symbols(&nest.symbols);
    let mut ranges = Ranges::of_symbols(&nest.symbols);
    for (id, var) in nest.vars.iter_enumerated() {
        ranges.set_var(id, var.interval());
    }
    check_buffers(&mut report, nest, &ranges);
    let mut checker = Checker {
        nest,
        report,
        ranges,
        scope: Vec::new(),
        bound: vec![false; nest.vars.len()],
        of_thread: vec![false; nest.vars.len()],
        live: Vec::new(),
        allocated: vec![false; nest.buffers.len()],
        in_vector: false,
    };
    checker.report.at("the parallel axis");
    if let Some(parallel) = &nest.parallel {
        for dim in std::iter::once(&parallel.chunks).chain(&parallel.step_chunks) {
            checker.report.dim(dim, &checker.ranges, nest.symbols.len());
        }
        checker.bind(parallel.var, false);
    }
    checker.report.at("the body");
    checker.block(&nest.body);
    checker.report.finish(format!("loop nest `{}`", nest.name))
}

/// Bytes of a row that reaches all banks of shared memory.
const LEAST_SWIZZLE_BYTES: u32 = 128;

fn check_buffers(report: &mut Report, nest: &LoopNest, ranges: &Ranges) {
    let mut arguments = Vec::new();
    for (id, buffer) in nest.buffers.iter_enumerated() {
        report.at(format!("buffer `{}` ({id})", buffer.name));
        if !has_arithmetic(buffer.dtype) {
            report.push(ViolationKind::UnsupportedType { op: "a loop nest".to_owned(), dtype: buffer.dtype });
        }
        report.extent("the buffer", &buffer.len_elems, ranges, nest.symbols.len());
        if let Some(row) = buffer.swizzle_bytes {
            let size = buffer.dtype.size_bytes().unwrap_or(0) as i64;
            let is_shared = buffer.kind == BufferKind::Local(Scope::Shared);
            let whole = buffer.len_elems.scale(size).is_multiple_of(i64::from(row.max(1)));
            if !(is_shared && row.is_power_of_two() && row >= LEAST_SWIZZLE_BYTES && whole) {
                report.push(ViolationKind::NotAllowed { what: "a swizzle of other than whole rows of shared memory" });
            }
        }
        if let Some(rows) = buffer.panel_rows {
            let row = i64::from(buffer.swizzle_bytes.unwrap_or(0));
            let size = buffer.dtype.size_bytes().unwrap_or(0) as i64;
            let tile = row.saturating_mul(i64::from(rows));
            let whole = tile > 0 && buffer.len_elems.scale(size).is_multiple_of(tile);
            if !(whole && row > i64::from(LEAST_SWIZZLE_BYTES) && rows % 8 == 0) {
                report.push(ViolationKind::NotAllowed { what: "panels of other than whole tiles of swizzled rows" });
            }
        }
        if let BufferKind::Operand { argument, .. } = buffer.kind {
            arguments.push(argument);
        }
    }
    report.at("buffer arguments");
    arguments.sort_unstable();
    if arguments.iter().enumerate().any(|(n, &a)| n != a as usize) {
        report.push(ViolationKind::NotAllowed { what: "a gap or a repetition in the numbers of arguments" });
    }
}

struct Checker<'a> {
    nest: &'a LoopNest,
    report: Report,
    ranges: Ranges,
    /// Variables in scope, and whether unrolling makes them constants.
    scope: Vec<(VarId, bool)>,
    bound: Vec<bool>,
    /// Variables that differ from thread to thread of a block.
    of_thread: Vec<bool>,
    live: Vec<BufferId>,
    allocated: Vec<bool>,
    in_vector: bool,
}

impl Checker<'_> {
    fn block(&mut self, stmts: &[Stmt]) {
        let (scope, live) = (self.scope.len(), self.live.len());
        for stmt in stmts {
            self.stmt(stmt);
        }
        self.scope.truncate(scope);
        self.live.truncate(live);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, extent, kind, body } => self.repeat(*var, extent, *kind, body),
            Stmt::Let { var, value } => {
                self.index(value);
                let constant = self.is_constant(value);
                self.bind(*var, constant);
                let of_thread = uses_any(value, &self.of_thread);
                self.of_thread.get_mut(var.index()).into_iter().for_each(|own| *own = of_thread);
            }
            Stmt::LetValue { var, value } => {
                let dtypes = self.expr(value);
                self.report.count("values of a variable", 1, dtypes.len());
                for dtype in dtypes {
                    self.report.dtype("the value of a variable", DType::I64, dtype);
                }
                self.bind(*var, false);
            }
            Stmt::If { cond, then, otherwise } => {
                self.bounds(cond);
                self.block(then);
                self.block(otherwise);
            }
            Stmt::Alloc(id) => match self.nest.buffers.get(*id) {
                None => self.report.push(ViolationKind::Dangling { what: "buffer", id: id.to_string() }),
                Some(buffer) => {
                    let again = std::mem::replace(&mut self.allocated[id.index()], true);
                    if again || !matches!(buffer.kind, BufferKind::Local(_)) {
                        let what = "allocating an operand, or a buffer in two places";
                        self.report.push(ViolationKind::NotAllowed { what });
                    }
                    self.live.push(*id);
                }
            },
            Stmt::Store { targets, value, valid } => {
                self.bounds(valid);
                let dtypes = self.expr(value);
                self.targets(targets, &dtypes);
            }
            Stmt::Reduce { targets, value, reducer, valid } => {
                self.bounds(valid);
                let dtypes = self.expr(value);
                self.report.reducer(reducer, &dtypes);
                self.targets(targets, &dtypes);
            }
            Stmt::Barrier if self.in_vector => {
                self.report.push(ViolationKind::NotAllowed { what: "a barrier in a vector loop" });
            }
            Stmt::Barrier if self.nest.parallel.as_ref().is_some_and(|parallel| parallel.step_chunks.is_some()) => {
                self.report.push(ViolationKind::NotAllowed { what: "a barrier among chunks that come in steps" });
            }
            Stmt::Barrier | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::ProductsWait { .. } => {}
            Stmt::Prefetch { target } => {
                if let Some(id) = self.place(target)
                    && !matches!(self.nest.buffers[id].kind, BufferKind::Operand { .. })
                {
                    let what = "a hint on memory that is of no operand";
                    self.report.push(ViolationKind::NotAllowed { what });
                }
            }
            Stmt::AsyncCopy { target, source, valid, .. } => {
                self.bounds(valid);
                let from = self.place(source);
                let to = self.place(target);
                if let (Some(from), Some(to)) = (from, to) {
                    let (from, to) = (&self.nest.buffers[from], &self.nest.buffers[to]);
                    self.report.dtype("the target of a copy", from.dtype, to.dtype);
                    let is_operand = matches!(from.kind, BufferKind::Operand { .. });
                    if !is_operand || to.kind != BufferKind::Local(Scope::Shared) {
                        let what = "an asynchronous copy other than from an operand to shared memory";
                        self.report.push(ViolationKind::NotAllowed { what });
                    }
                }
            }
        }
    }

    fn repeat(&mut self, var: VarId, extent: &IndexExpr, kind: LoopKind, body: &[Stmt]) {
        self.index(extent);
        // A thread has registers of its own for the elements that its coordinates lead to.
        let is_thread = matches!(kind, LoopKind::Bound(GpuDim::ThreadX | GpuDim::ThreadY | GpuDim::ThreadZ));
        let constant = is_thread || matches!(kind, LoopKind::Unrolled | LoopKind::Vector { .. } | LoopKind::Tensor(_));
        match (kind, extent.as_const()) {
            (LoopKind::Unrolled | LoopKind::Vector { .. } | LoopKind::Tensor(_), None) => {
                let what = "an unrolled or vector loop whose extent is not constant";
                self.report.push(ViolationKind::NotAllowed { what });
            }
            (LoopKind::Vector { lanes }, Some(n)) if n > i64::from(lanes) => {
                self.report.push(ViolationKind::NotAllowed { what: "a vector loop with more turns than lanes" });
            }
            _ => {}
        }
        let is_vector = matches!(kind, LoopKind::Vector { .. });
        if is_vector && self.in_vector {
            self.report.push(ViolationKind::NotAllowed { what: "a vector loop in a vector loop" });
        }
        let before = self.in_vector;
        self.in_vector |= is_vector;
        let scope = self.scope.len();
        self.bind(var, constant);
        self.of_thread.get_mut(var.index()).into_iter().for_each(|own| *own = is_thread);
        self.block(body);
        self.scope.truncate(scope);
        self.in_vector = before;
    }

    fn bind(&mut self, var: VarId, constant: bool) {
        match self.bound.get_mut(var.index()) {
            None => self.report.push(ViolationKind::Dangling { what: "variable", id: var.to_string() }),
            Some(bound) => {
                if std::mem::replace(bound, true) {
                    self.report.push(ViolationKind::BoundTwice { id: var.to_string() });
                }
            }
        }
        self.scope.push((var, constant));
    }

    fn index(&mut self, expr: &IndexExpr) {
        let scope = &self.scope;
        let in_scope = |var| scope.iter().any(|(v, _)| *v == var);
        self.report.index(expr, &self.ranges, self.nest.symbols.len(), &in_scope);
    }

    fn bounds(&mut self, bounds: &[Bound]) {
        let scope = &self.scope;
        let in_scope = |var| scope.iter().any(|(v, _)| *v == var);
        self.report.bounds(bounds, &self.ranges, self.nest.symbols.len(), &in_scope);
    }

    /// True if unrolling makes this a constant.
    fn is_constant(&self, expr: &IndexExpr) -> bool {
        is_constant(&self.scope, expr)
    }

    fn expr(&mut self, expr: &crate::nest::Expr) -> Vec<DType> {
        let Self { nest, report, scope, of_thread, live, ranges, .. } = self;
        let leaves = NestLeaves { nest, scope, of_thread, live, ranges };
        report.body(&expr.body, &expr.roots, &leaves)
    }

    fn targets(&mut self, targets: &[Target], dtypes: &[DType]) {
        self.report.count("targets", dtypes.len(), targets.len());
        for (n, target) in targets.iter().enumerate() {
            let Some(id) = self.place(target) else { continue };
            let buffer = &self.nest.buffers[id];
            if matches!(buffer.kind, BufferKind::Operand { role, .. } if role != OperandKind::Output) {
                self.report.push(ViolationKind::WriteToReadOnly { name: buffer.name.clone() });
            }
            if let Some(&dtype) = dtypes.get(n) {
                self.report.dtype(&format!("what is written to `{}`", buffer.name), buffer.dtype, dtype);
            }
        }
    }

    /// Checks a place in a buffer.
    fn place(&mut self, target: &Target) -> Option<BufferId> {
        self.index(&target.index);
        let Self { nest, report, scope, of_thread, live, ranges, .. } = self;
        let leaves = NestLeaves { nest, scope, of_thread, live, ranges };
        leaves.place(report, target.buffer, &target.index).then_some(target.buffer)
    }
}

fn is_constant(scope: &[(VarId, bool)], expr: &IndexExpr) -> bool {
    let mut constant = true;
    expr.for_each_atom(&mut |atom| match atom {
        Atom::Var(var) => constant &= scope.iter().any(|(v, c)| v == var && *c),
        Atom::Symbol(_) => constant = false,
        _ => {}
    });
    constant
}

fn uses_any(expr: &IndexExpr, vars: &[bool]) -> bool {
    let mut uses = false;
    expr.for_each_atom(&mut |atom| {
        if let Atom::Var(var) = atom {
            uses |= vars.get(var.index()).copied().unwrap_or(false);
        }
    });
    uses
}

/// The rules for the leaves of expressions in a nest.
struct NestLeaves<'a> {
    nest: &'a LoopNest,
    scope: &'a [(VarId, bool)],
    of_thread: &'a [bool],
    live: &'a [BufferId],
    ranges: &'a Ranges,
}

impl NestLeaves<'_> {
    /// Whether a buffer exists; also checks that it is allocated and may be indexed so.
    fn place(&self, report: &mut Report, id: BufferId, index: &IndexExpr) -> bool {
        let Some(buffer) = self.nest.buffers.get(id) else {
            report.push(ViolationKind::Dangling { what: "buffer", id: id.to_string() });
            return false;
        };
        if let BufferKind::Local(scope) = buffer.kind {
            if !self.live.contains(&id) {
                report.push(ViolationKind::NotAllocated { name: buffer.name.clone() });
            }
            // One register of each thread's is the only one it has.
            let only = || buffer.len_elems.is_const(1) && uses_any(&index.simplify(self.ranges), self.of_thread);
            if scope == Scope::Register && (!is_constant(self.scope, index) || only()) {
                let (name, index) = (buffer.name.clone(), index.to_string());
                report.push(ViolationKind::RegisterIndex { name, index });
            }
        }
        true
    }
}

impl Leaves for NestLeaves<'_> {
    fn params(&self) -> &[DType] {
        &[]
    }

    fn index(&self, report: &mut Report, expr: &IndexExpr) {
        let in_scope = |var| self.scope.iter().any(|(v, _)| *v == var);
        report.index(expr, self.ranges, self.nest.symbols.len(), &in_scope);
    }

    fn bounds(&self, report: &mut Report, bounds: &[Bound]) {
        let in_scope = |var| self.scope.iter().any(|(v, _)| *v == var);
        report.bounds(bounds, self.ranges, self.nest.symbols.len(), &in_scope);
    }

    fn load(&self, report: &mut Report, load: &Load) {
        let Source::Buffer(id) = load.source else {
            return report.push(ViolationKind::NotAllowed { what: "a load from something other than a buffer" });
        };
        if !report.count("indices", 1, load.index.len()) {
            return;
        }
        if self.place(report, id, &load.index[0]) {
            report.dtype("a load", self.nest.buffers[id].dtype, load.dtype);
        }
    }
}
