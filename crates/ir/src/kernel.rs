//! Kernels: what to compute, as a small DAG of stages over axes (ARCHITECTURE.md D4).
//!
//! A stage computes a tuple of scalars per point of its axes, from operands and other stages, folds its reduction axes
//! with a monoid, and may read itself, or a later stage, at earlier steps of a sequential axis. What lies between stages has no storage
//! until a schedule gives it some. Softmax, layer norm, attention, Winograd, convolution, LSTM and CumSum are all just
//! kernels.

mod replaced;
mod scattered;

pub(crate) use replaced::stays;
pub use replaced::{Replaced, Span, Told};
pub use scattered::Scattered;

use crate::access::Bound;
use crate::entity::{EntityId, IndexVec, OperandId, ScalarId, StageId, SymbolId, VarId};
use crate::index::{Dim, IndexExpr, Ranges};
use crate::scalar::{BinaryOp, Body, Const, ScalarOp, Source};
use crate::symbol::Symbols;
use infc_tensor::DType;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// How points along an axis depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AxisKind {
    /// Not at all.
    Parallel,
    /// Folded by the stage's reducer; not an axis of the stage's value.
    Reduce,
    /// In order: the stage may read itself at smaller coordinates, and later stages as [`Kernel::recurrences`] says.
    Sequential,
}

/// One axis of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Unique within the stage; schedules use it.
    pub name: String,
    /// Coordinates go from 0 to `extent − 1`.
    pub extent: Dim,
    /// See [`AxisKind`].
    pub kind: AxisKind,
}

/// A monoid over tuples: how reduction axes are folded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reducer {
    /// The neutral element, one constant per component.
    pub init: Vec<Const>,
    /// Over `Param(0..n)` (the accumulator) and `Param(n..2n)` (the element).
    pub combine: Body,
    /// The new accumulator, one value per component.
    pub results: Vec<ScalarId>,
}

/// One step of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Unique within the kernel.
    pub name: String,
    /// In the body, axis `n` is the index variable `i<n>`.
    pub axes: Vec<Axis>,
    /// The expression per point.
    pub body: Body,
    /// Its values, one per component.
    pub results: Vec<ScalarId>,
    /// Present exactly if there is a reduction axis.
    pub reducer: Option<Reducer>,
}

/// What an operand is to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandKind {
    /// Read.
    Input,
    /// Read; its contents are known when compiling (weights).
    Constant,
    /// Written.
    Output,
}

/// Where the elements of an operand lie in its buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Elements between neighbours along each axis.
    pub strides: Vec<Dim>,
    /// Elements from the start of the buffer to coordinate (0, …, 0).
    pub offset: Dim,
    /// Per axis, how many coordinates before 0 and after the extent may be read.
    pub halo: Vec<(i64, i64)>,
    /// What the halo holds, as the bits of an element: zeros, or the zero point of quantised values.
    pub fill: u64,
    /// Elements in the buffer.
    pub len_elems: Dim,
}

/// A tensor that a kernel reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// For people.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<Dim>,
    /// See [`OperandKind`].
    pub kind: OperandKind,
    /// See [`Layout`].
    pub layout: Layout,
}

/// Which stage's value an output operand receives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// The operand written.
    pub operand: OperandId,
    /// The stage and its component; never a stage with a reducer (an identity stage follows such).
    pub stage: StageId,
    /// See `stage`.
    pub component: u8,
    /// Operand coordinates as expressions over the stage's axes; injective.
    pub index: Vec<IndexExpr>,
    /// An input that lies in the same memory, so that elements which stay what they were need not be written
    /// ([`Kernel::replaced`]). Nothing else of the kernel reads it.
    pub onto: Option<OperandId>,
}

/// What to compute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// For people: origin nodes and shape.
    pub name: String,
    /// The symbols that its dims mention (those of the graph).
    pub symbols: Symbols,
    /// Tensors read and written.
    pub operands: IndexVec<OperandId, Operand>,
    /// In dependency order.
    pub stages: IndexVec<StageId, Stage>,
    /// What is written.
    pub outputs: Vec<Output>,
}

impl Kernel {
    /// Points that reductions go through, or all points if there are none: about its multiply-adds. What counts at one
    /// point of an axis alone ([`Stage::scattered`]) is one point.
    #[must_use]
    pub fn work(&self) -> Dim {
        let counts = |s: &Stage, axis: usize| s.scattered(axis).is_none();
        let axes = |s: &Stage| -> Dim {
            let counted = s.axes.iter().enumerate().filter(|(n, _)| counts(s, *n));
            counted.map(|(_, a)| a.extent.clone()).product()
        };
        let points = |reduces: bool| -> Dim {
            self.stages.iter().filter(|s| !reduces || s.reduce_axes().next().is_some()).map(axes).sum()
        };
        let reduced = points(true);
        if reduced.is_const(0) { points(false) } else { reduced }
    }

    /// The symbols that extents, coordinates and layouts mention, each once.
    #[must_use]
    pub fn used_symbols(&self) -> BTreeSet<SymbolId> {
        let found = RefCell::new(BTreeSet::new());
        let see = |e: &IndexExpr| {
            found.borrow_mut().extend(e.symbols());
            e.clone()
        };
        for operand in self.operands.iter() {
            let Layout { strides, offset, len_elems, .. } = &operand.layout;
            operand.shape.iter().chain(strides).chain([offset, len_elems]).for_each(|e| drop(see(e)));
        }
        for stage in self.stages.iter() {
            stage.axes.iter().for_each(|axis| drop(see(&axis.extent)));
            stage.body.ops.iter().for_each(|op| drop(op.map_indices(&see)));
        }
        self.outputs.iter().flat_map(|output| &output.index).for_each(|e| drop(see(e)));
        found.into_inner()
    }
}

impl Layout {
    /// Row-major without gaps.
    #[must_use]
    pub fn dense(shape: &[Dim]) -> Self {
        let order: Vec<usize> = (0..shape.len()).collect();
        Self::permuted(shape, &order)
    }

    /// Dense, with the axes from slowest to fastest in the given order.
    #[must_use]
    pub fn permuted(shape: &[Dim], order: &[usize]) -> Self {
        Self::padded(shape, order, &vec![(0, 0); shape.len()])
    }

    /// Dense apart from a halo of zeros around the extents.
    #[must_use]
    pub fn padded(shape: &[Dim], order: &[usize], halo: &[(i64, i64)]) -> Self {
        let mut strides = vec![Dim::constant(0); shape.len()];
        let mut stride = Dim::constant(1);
        let mut offset = Dim::constant(0);
        for &axis in order.iter().rev() {
            let (before, after) = halo[axis];
            strides[axis] = stride.clone();
            offset = offset + stride.scale(before);
            stride = stride * (shape[axis].clone() + (before + after));
        }
        Self { strides, offset, halo: halo.to_vec(), fill: 0, len_elems: stride }
    }

    /// The flat element index of a coordinate.
    #[must_use]
    pub fn flat(&self, index: &[IndexExpr]) -> IndexExpr {
        index.iter().zip(&self.strides).fold(self.offset.clone(), |sum, (i, s)| sum + i.clone() * s.clone())
    }

    /// True if any coordinate outside the extents may be read.
    #[must_use]
    pub fn has_halo(&self) -> bool {
        self.halo.iter().any(|&(a, b)| a > 0 || b > 0)
    }
}

impl Kernel {
    /// Runs of stages that are computed step by step together, because some of them read later ones.
    ///
    /// The first axis of every stage of a run is sequential, of one extent. At one step of it, the stages are computed
    /// one after the other; a stage may read earlier ones of the run at this step or before, and later ones before.
    #[must_use]
    pub fn recurrences(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (id, stage) in self.stages.iter_enumerated() {
            let mut end = id.index();
            stage.for_each_load(&mut |_, load| {
                if let Source::Stage(source, _) = load.source {
                    end = end.max(source.index());
                }
            });
            if end == id.index() {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end > id.index() => last.end = last.end.max(end + 1),
                _ => runs.push(id.index()..end + 1),
            }
        }
        runs
    }

    /// The run of [`Kernel::recurrences`] that a stage belongs to.
    #[must_use]
    pub fn recurrence_of(&self, stage: StageId) -> Option<Range<usize>> {
        self.recurrences().into_iter().find(|run| run.contains(&stage.index()))
    }
}

impl Reducer {
    /// A reducer of one component that folds with a binary operation.
    #[must_use]
    pub fn binary(op: BinaryOp, init: Const) -> Self {
        let mut combine = Body::default();
        let (a, b) = (combine.param(0, init.dtype), combine.param(1, init.dtype));
        let result = combine.binary(op, a, b);
        Self { init: vec![init], combine, results: vec![result] }
    }

    /// Σ from zero.
    #[must_use]
    pub fn sum(dtype: DType) -> Self {
        Self::binary(BinaryOp::Add, Const::zero(dtype))
    }

    /// The operation, if this folds one component with a plain binary operation.
    #[must_use]
    pub fn as_binary(&self) -> Option<BinaryOp> {
        let [result] = self.results[..] else { return None };
        match self.combine.ops[result] {
            ScalarOp::Binary(op, a, b) => match (&self.combine.ops[a], &self.combine.ops[b]) {
                (ScalarOp::Param(0, _), ScalarOp::Param(1, _)) => Some(op),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether every order of folding gives the same bits. Of sums and products only those of integers do; extremes
    /// always do, as neither which NaN nor which zero they give is promised.
    #[must_use]
    pub fn is_associative(&self) -> bool {
        let float = self.init.iter().any(|init| init.dtype.is_float());
        match self.as_binary() {
            Some(BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) => true,
            Some(BinaryOp::Add | BinaryOp::Mul) => !float,
            _ => false,
        }
    }
}

impl Stage {
    /// The types of the components.
    #[must_use]
    pub fn dtypes(&self) -> Vec<DType> {
        self.results.iter().map(|&r| self.body.dtype(r)).collect()
    }

    /// The extents of the stage's value: its axes without the reduced ones.
    #[must_use]
    pub fn value_shape(&self) -> Vec<Dim> {
        self.value_axes().map(|(_, a)| a.extent.clone()).collect()
    }

    /// The axes that the stage's value has, with their positions.
    pub fn value_axes(&self) -> impl Iterator<Item = (usize, &Axis)> {
        self.axes.iter().enumerate().filter(|(_, a)| a.kind != AxisKind::Reduce)
    }

    /// The reduced axes, with their positions.
    pub fn reduce_axes(&self) -> impl Iterator<Item = (usize, &Axis)> {
        self.axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Reduce)
    }

    /// Ranges of the stage's index variables, given those of the symbols.
    #[must_use]
    pub fn ranges(&self, symbols: &Symbols) -> Ranges {
        let mut ranges = Ranges::of_symbols(symbols);
        for (n, axis) in self.axes.iter().enumerate() {
            ranges.set_axis(VarId(n as u32), &axis.extent);
        }
        ranges
    }

    /// Calls `f` with every load of the body.
    pub fn for_each_load(&self, f: &mut dyn FnMut(ScalarId, &crate::scalar::Load)) {
        for (id, op) in self.body.ops.iter_enumerated() {
            if let ScalarOp::Load(load) = op {
                f(id, load);
            }
        }
    }
}

/// Conditions that a coordinate lies within a shape.
#[must_use]
pub fn within(index: &[IndexExpr], shape: &[Dim]) -> Vec<Bound> {
    index.iter().zip(shape).map(|(i, d)| Bound { expr: i.clone(), lo: IndexExpr::constant(0), hi: d.clone() }).collect()
}
