//! A loop nest as a tree of loops with, at its leaves, what is computed and which memory that touches.

use super::super::operation_cost;
use super::unrolled;
use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, SymbolId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::nest::{BufferKind, Expr, LoopKind, LoopNest, Stmt, Target};
use infc_ir::scalar::{BinaryOp, ScalarOp, Source};
use infc_ir::schedule::{GpuDim, Intrinsic, Scope};

/// In how many turns of the loops around it a condition is looked at, at most.
const SAMPLES: f64 = 512.0;

/// The golden ratio less 1: multiples of it, and of its powers, lie evenly between integers.
const GOLDEN: f64 = 0.618_033_988_749_894_8;

/// How a loop runs, as far as costs care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// One after the other.
    Serial,
    /// As straight code.
    Straight,
    /// As lanes of a vector.
    Lanes(u16),
    /// As one operation of a warp.
    Matrix,
    /// As blocks or threads of a GPU.
    Bound(GpuDim),
}

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Register,
    Shared,
    Memory,
}

/// A loop around what is looked at.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    var: VarId,
    pub(super) turns: f64,
    pub(super) kind: Turns,
}

/// Elements of a buffer that a statement reads or writes.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) buffer: BufferId,
    pub(super) elem_bytes: f64,
    /// Elements of the buffer.
    pub(super) len_elems: f64,
    pub(super) is_write: bool,
    pub(super) home: Home,
    /// Per loop around it, from outermost to innermost, by how many elements it moves from the first turn to the second;
    /// `None` if it stays in all turns.
    pub(super) strides: Vec<Option<f64>>,
}

/// What a statement does once.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// From outermost to innermost, the parallel axis first.
    pub(super) loops: Vec<Loop>,
    /// Vector instructions of arithmetic.
    pub(super) cost: f64,
    pub(super) accesses: Vec<Access>,
    /// Whether it folds into what it writes.
    pub(super) folds: bool,
    pub(super) is_hint: bool,
    /// Elements that it copies asynchronously at once; 0 if it does not.
    pub(super) copies: f64,
    /// Whether it happens under a condition.
    pub(super) is_conditional: bool,
    /// The part of the turns in which it happens.
    pub(super) share: f64,
}

/// A loop or a statement.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Depth (number of loops around it), turns, and what is in it.
    Loop(usize, f64, Vec<Node>),
    /// What happens in some of the turns around it, and in which part of them.
    Branch(f64, Vec<Node>),
    /// Which one.
    Leaf(usize),
}

/// A nest, read.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) roots: Vec<Node>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) chunks: f64,
    /// Bytes of buffers on the stack and in scratch memory.
    pub(super) local_bytes: f64,
    /// Of those in shared memory.
    pub(super) shared_bytes: f64,
    /// Elements of those in registers.
    pub(super) register_elems: f64,
    /// Turns of all serial loops.
    pub(super) repeats: f64,
    /// Meetings of the threads of a block, in all turns.
    pub(super) barriers: f64,
}

/// Reads a nest with its symbols at these values.
pub(super) fn read(nest: &LoopNest, at: &dyn Fn(SymbolId) -> i64) -> Tree {
    let symbols: Vec<i64> = nest.symbols.ids().map(at).collect();
    let mut walk = Walk {
        nest,
        symbols,
        loops: Vec::new(),
        lets: Vec::new(),
        told: Vec::new(),
        conditions: Vec::new(),
        share: 1.0,
        tree: Tree::default(),
    };
    walk.tree.chunks = 1.0;
    for buffer in nest.buffers.iter() {
        let BufferKind::Local(scope) = buffer.kind else { continue };
        let elems = walk.at_start(&buffer.len_elems).unwrap_or(0.0).max(0.0);
        let bytes = elems * buffer.dtype.size_bytes().unwrap_or(1) as f64;
        match scope {
            Scope::Stack | Scope::Scratch => walk.tree.local_bytes += bytes,
            Scope::Shared => walk.tree.shared_bytes += bytes,
            Scope::Register => walk.tree.register_elems += elems,
        }
    }
    walk.tree.roots = match &nest.parallel {
        None => walk.block(&nest.body),
        Some(parallel) => {
            walk.tree.chunks = walk.at_start(&parallel.chunks).unwrap_or(1.0).max(1.0);
            vec![walk.inside(parallel.var, walk.tree.chunks, Turns::Serial, &nest.body)]
        }
    };
    walk.tree
}

struct Walk<'n> {
    nest: &'n LoopNest,
    symbols: Vec<i64>,
    loops: Vec<Loop>,
    lets: Vec<(VarId, IndexExpr)>,
    /// Variables that data tells.
    told: Vec<VarId>,
    /// The conditions around, and whether they hold.
    conditions: Vec<(&'n [Bound], bool)>,
    /// The part of the turns that is looked at.
    share: f64,
    tree: Tree,
}

impl<'n> Walk<'n> {
    fn block(&mut self, body: &'n [Stmt]) -> Vec<Node> {
        let lets = self.lets.len();
        let mut nodes = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::For { var, extent, kind, body } => {
                    let turns = self.at_start(extent).unwrap_or(1.0).max(0.0);
                    let kind = match kind {
                        LoopKind::Serial => Turns::Serial,
                        LoopKind::Bound(dim) => Turns::Bound(*dim),
                        // An operation of the machine does all turns at once.
                        LoopKind::Tensor(Intrinsic::Dot4 | Intrinsic::Dot2) => Turns::Lanes(1),
                        LoopKind::Tensor(
                            Intrinsic::Mma8
                            | Intrinsic::Mma16
                            | Intrinsic::Mma32
                            | Intrinsic::Wgmma16
                            | Intrinsic::Wgmma32
                            | Intrinsic::Tile4
                            | Intrinsic::Tile2,
                        ) => Turns::Matrix,
                        LoopKind::Unrolled => Turns::Straight,
                        LoopKind::Vector { lanes } => Turns::Lanes(*lanes),
                    };
                    nodes.push(self.inside(*var, turns, kind, body));
                }
                Stmt::Let { var, value } => {
                    if self.is_told(value) {
                        self.told.push(*var);
                    }
                    self.lets.push((*var, value.clone()));
                }
                Stmt::LetValue { var, value } => {
                    self.told.push(*var);
                    nodes.push(self.leaf(&[], Some(value), 0.0, false, false));
                }
                Stmt::If { cond, then, otherwise } => {
                    nodes.push(self.branch((cond, true), then));
                    nodes.push(self.branch((cond, false), otherwise));
                }
                Stmt::Store { targets, value, valid } => {
                    nodes.push(self.leaf(targets, Some(value), 0.0, false, !valid.is_empty()));
                }
                Stmt::Reduce { targets, value, reducer, valid } => {
                    let combine: f64 = reducer.combine.ops.iter().map(operation_cost).sum();
                    // A product that is summed is one multiply-add.
                    let root = value.roots.first().map(|&root| &value.body.ops[root]);
                    let is_fused = reducer.as_binary() == Some(BinaryOp::Add)
                        && matches!(root, Some(ScalarOp::Binary(BinaryOp::Mul, ..)));
                    let combine = if is_fused { 0.0 } else { combine };
                    nodes.push(self.leaf(targets, Some(value), combine, true, !valid.is_empty()));
                }
                Stmt::Prefetch { target } => {
                    nodes.push(self.leaf(std::slice::from_ref(target), None, 0.0, false, false))
                }
                Stmt::AsyncCopy { target, source, len_elems, valid } => {
                    let accesses = vec![
                        self.access(target.buffer, &target.index, true),
                        self.access(source.buffer, &source.index, false),
                    ];
                    nodes.push(self.push(Leaf {
                        loops: self.loops.clone(),
                        cost: 0.0,
                        accesses,
                        folds: false,
                        is_hint: false,
                        copies: f64::from(*len_elems),
                        is_conditional: !valid.is_empty() || !self.conditions.is_empty(),
                        share: self.share,
                    }));
                }
                Stmt::Barrier => self.tree.barriers += self.serial_turns() * self.share,
                Stmt::Alloc(_) | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::ProductsWait { .. } => {}
            }
        }
        self.lets.truncate(lets);
        nodes
    }

    /// What happens where conditions hold, or where they do not.
    fn branch(&mut self, condition: (&'n [Bound], bool), body: &'n [Stmt]) -> Node {
        let around = self.share;
        self.conditions.push(condition);
        self.share = self.part_taken().min(around);
        let nodes = self.block(body);
        let part = if around > 0.0 { self.share / around } else { 0.0 };
        self.conditions.pop();
        self.share = around;
        Node::Branch(part, nodes)
    }

    /// The part of the turns of the loops around in which all conditions around are as they are to be: of all turns, or of
    /// [`SAMPLES`] that are spread over each loop.
    fn part_taken(&self) -> f64 {
        let bounds = || self.conditions.iter().flat_map(|(bounds, _)| *bounds);
        let moves = |l: &&Loop| bounds().any(|bound| self.stride(&bound.expr, l).is_some());
        let moving: Vec<&Loop> = self.loops.iter().filter(|l| l.turns > 1.0).filter(moves).collect();
        let all: f64 = moving.iter().map(|l| l.turns).product();
        let samples = all.min(SAMPLES);
        let turns_of = |n: f64| -> Vec<(VarId, i64)> {
            let mut rest = n;
            let mut step = GOLDEN;
            let turn = |l: &&Loop| {
                let turn = if all <= SAMPLES {
                    let own = rest % l.turns;
                    rest = (rest / l.turns).floor();
                    own
                } else {
                    // Each loop goes its own way, so that none keeps step with another.
                    let own = ((n + 0.5) * step).fract() * l.turns;
                    step = (step * GOLDEN).fract();
                    own.floor()
                };
                (l.var, turn as i64)
            };
            moving.iter().map(turn).collect()
        };
        let is_taken = |n: usize| {
            let turns = turns_of(n as f64);
            self.conditions.iter().all(|&(bounds, wanted)| {
                let hold = bounds.iter().map(|bound| self.holds(bound, &turns));
                // What data tells is taken to be as it is to be.
                hold.collect::<Option<Vec<bool>>>().is_none_or(|hold| hold.iter().all(|holds| *holds) == wanted)
            })
        };
        (0..samples as usize).filter(|&n| is_taken(n)).count() as f64 / samples
    }

    /// Whether data tells what an expression is.
    fn is_told(&self, e: &IndexExpr) -> bool {
        self.told.iter().any(|var| e.uses_var(*var))
    }

    /// Whether a condition holds in these turns; `None` if data tells.
    fn holds(&self, bound: &Bound, turns: &[(VarId, i64)]) -> Option<bool> {
        let sides = [&bound.expr, &bound.lo, &bound.hi];
        if sides.into_iter().any(|e| self.is_told(e)) {
            return None;
        }
        let [value, lo, hi] = sides.map(|e| self.at(e, turns));
        Some(lo? <= value? && value? < hi?)
    }

    fn inside(&mut self, var: VarId, turns: f64, kind: Turns, body: &'n [Stmt]) -> Node {
        if kind == Turns::Serial {
            self.tree.repeats += self.serial_turns() * turns * self.share;
        }
        self.loops.push(Loop { var, turns, kind });
        let nodes = self.block(body);
        self.loops.pop();
        Node::Loop(self.loops.len(), turns, nodes)
    }

    /// Turns of the serial loops around.
    fn serial_turns(&self) -> f64 {
        self.loops.iter().filter(|l| l.kind == Turns::Serial).map(|l| l.turns).product()
    }

    fn push(&mut self, leaf: Leaf) -> Node {
        self.tree.leaves.push(leaf);
        Node::Leaf(self.tree.leaves.len() - 1)
    }

    fn leaf(&mut self, targets: &[Target], value: Option<&Expr>, cost: f64, folds: bool, is_masked: bool) -> Node {
        let mut accesses: Vec<Access> = targets.iter().map(|t| self.access(t.buffer, &t.index, true)).collect();
        let mut cost = cost;
        let mut is_conditional = is_masked || !self.conditions.is_empty();
        let straight = self.loops.iter().filter(|l| l.kind == Turns::Straight).map(|l| (l.var, l.turns as i64));
        let straight: Vec<(VarId, i64)> = straight.collect();
        cost += match value.and_then(|value| unrolled::cost(value, &straight)) {
            Some(of_one) => of_one,
            None => value.iter().flat_map(|value| value.body.ops.iter()).map(operation_cost).sum(),
        };
        for op in value.iter().flat_map(|value| value.body.ops.iter()) {
            if let ScalarOp::Load(load) = op
                && let (Source::Buffer(buffer), Some(index)) = (load.source, load.index.first())
            {
                accesses.push(self.access(buffer, index, false));
                is_conditional |= !load.valid.is_empty();
            }
        }
        let (loops, is_hint) = (self.loops.clone(), value.is_none());
        self.push(Leaf { loops, cost, accesses, folds, is_hint, copies: 0.0, is_conditional, share: self.share })
    }

    fn access(&self, buffer: BufferId, index: &IndexExpr, is_write: bool) -> Access {
        let declared = &self.nest.buffers[buffer];
        Access {
            buffer,
            elem_bytes: declared.dtype.size_bytes().unwrap_or(1) as f64,
            len_elems: self.at_start(&declared.len_elems).unwrap_or(f64::INFINITY).max(1.0),
            is_write,
            home: match declared.kind {
                BufferKind::Local(Scope::Register) => Home::Register,
                BufferKind::Local(Scope::Shared) => Home::Shared,
                _ => Home::Memory,
            },
            strides: self.loops.iter().map(|l| self.stride(index, l)).collect(),
        }
    }

    /// By how much an expression moves from the first turn of a loop to the second; `None` if it stays in all turns.
    fn stride(&self, e: &IndexExpr, l: &Loop) -> Option<f64> {
        let last = l.turns as i64 - 1;
        let start = self.at_start(e);
        let moved = |turn: i64| Some(self.at(e, &[(l.var, turn)])? - start?);
        let far = [1, last / 2, last].into_iter().filter(|&turn| turn > 0 && turn <= last);
        let is_still = far.into_iter().all(|turn| moved(turn) == Some(0.0));
        (!is_still).then(|| moved(1).unwrap_or(1.0))
    }

    fn at_start(&self, e: &IndexExpr) -> Option<f64> {
        self.at(e, &[])
    }

    /// The value of an expression in these turns of some loops, and the first of all others.
    fn at(&self, e: &IndexExpr, turns: &[(VarId, i64)]) -> Option<f64> {
        let mut lets: Vec<(VarId, i64)> = Vec::with_capacity(self.lets.len());
        let value = |e: &IndexExpr, lets: &[(VarId, i64)]| {
            let of_var = |var: VarId| {
                let bound = lets.iter().rev().chain(turns).find(|(v, _)| *v == var);
                Some(bound.map_or(0, |(_, value)| *value))
            };
            e.eval(&|symbol| self.symbols.get(symbol.0 as usize).copied(), &of_var)
        };
        for (var, bound) in &self.lets {
            let bound = value(bound, &lets)?;
            lets.push((*var, bound));
        }
        value(e, &lets).map(|value| value as f64)
    }
}
