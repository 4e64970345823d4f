//! Single points of what a kernel writes, and how far code may be off that computes them.
//!
//! [`run_kernel`](super::run_kernel) defines a kernel by all of its points, rounded to their types. Of a large kernel only some
//! are looked at, so here a point of a stage is computed when somebody reads it, in `f64` and without roundings; a bound on
//! the errors of code that does round is computed with it (`enclosed.rs`).
//!
//! Operands are buffers as the kernel's layouts say, which is what generated code reads.

mod enclosed;
mod run;

use super::array::read_bits;
use super::body::{Program, bind};
use super::fold::Fold;
use super::index_fn::IndexFn;
use super::points::check_points;
use super::{InterpError, check_symbols, eval_shape};
use crate::entity::{EntityId, OperandId, StageId};
use crate::kernel::{AxisKind, Kernel, Operand, OperandKind};
use crate::scalar::{Const, Scalar, Source};
use enclosed::Enclosed;
use infc_tensor::{DType, Tensor};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Points that are computed inside of each other at most; steps of a recurrence stand on earlier ones.
const MOST_DEEP: usize = 4096;

/// Computes single points of what a kernel writes.
pub struct Oracle<'k> {
    kernel: &'k Kernel,
    symbols: Vec<i64>,
    operands: Vec<Buffer<'k>>,
    stages: Vec<Computed>,
    /// Operations that may still be computed.
    left: Cell<u64>,
    deep: Cell<usize>,
    by_matrices: bool,
}

/// An element that a kernel writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The operand.
    pub operand: OperandId,
    /// Which element of its buffer.
    pub position: usize,
    /// What it has to be.
    pub expected: Expected,
}

/// What an element has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// These bits.
    Bits(Const),
    /// A number between these two, and those.
    Within(f64, f64),
}

impl Expected {
    /// Whether this is it.
    #[must_use]
    pub fn allows(&self, found: Const) -> bool {
        match *self {
            Self::Bits(bits) => bits == found,
            Self::Within(low, high) => (low..=high).contains(&found.to_f64()),
        }
    }
}

/// The buffer of an operand.
struct Buffer<'k> {
    name: &'k str,
    dtype: DType,
    shape: Vec<i64>,
    halo: &'k [(i64, i64)],
    fill: Scalar,
    strides: Vec<i64>,
    offset: i64,
    /// `None` of what is written.
    bytes: Option<&'k [u8]>,
    len_elems: usize,
}

/// A stage, and what is known of its points.
struct Computed {
    name: String,
    body: Program,
    fold: Option<Fold>,
    extents: Vec<i64>,
    reduced: Vec<usize>,
    value_axes: Vec<usize>,
    /// By flat coordinates.
    points: RefCell<HashMap<u64, Box<[Enclosed]>>>,
}

/// Why a point is not computed.
enum Stop {
    /// It would take too long.
    TooMuch,
    Wrong(InterpError),
}

impl From<InterpError> for Stop {
    fn from(error: InterpError) -> Self {
        Self::Wrong(error)
    }
}

impl<'k> Oracle<'k> {
    /// Of a kernel on buffers, one for each operand that is not an output, in their order. `budget` is how many
    /// operations of scalars are computed at most.
    ///
    /// # Errors
    /// [`InterpError`]: values of symbols or buffers do not fit, or sizes are none.
    pub fn new(kernel: &'k Kernel, symbols: &[i64], inputs: &'k [Tensor], budget: u64) -> Result<Self, InterpError> {
        check_symbols(&kernel.symbols, symbols)?;
        let mut tensors = inputs.iter();
        let mut operands = Vec::new();
        for operand in kernel.operands.iter() {
            let tensor = (operand.kind != OperandKind::Output).then(|| tensors.next());
            let missing = || InterpError::WrongCount {
                what: "inputs",
                expected: kernel.operands.iter().filter(|o| o.kind != OperandKind::Output).count(),
                found: inputs.len(),
            };
            let tensor = tensor.map(|tensor| tensor.ok_or_else(missing)).transpose()?;
            operands.push(Buffer::new(operand, symbols, tensor)?);
        }
        let stages = (0..kernel.stages.len()).map(|id| Computed::new(kernel, id, symbols)).collect::<Result<_, _>>()?;
        let (left, deep) = (Cell::new(budget), Cell::new(0));
        Ok(Self { kernel, symbols: symbols.to_vec(), operands, stages, left, deep, by_matrices: false })
    }

    /// The same where instructions of GPUs that multiply matrices may make sums: these do not round, but cut off.
    #[must_use]
    pub fn by_matrices(self, by_matrices: bool) -> Self {
        Self { by_matrices, ..self }
    }

    /// The extents of what each of [`Kernel::outputs`] writes.
    #[must_use]
    pub fn extents(&self) -> Vec<Vec<i64>> {
        let of = |stage: &Computed| stage.value_axes.iter().map(|&axis| stage.extents[axis]).collect();
        self.kernel.outputs.iter().map(|output| of(&self.stages[output.stage.index()])).collect()
    }

    /// The point of [`Kernel::outputs`]`[output]` at these coordinates; `None` if it takes more than is left of the budget, if
    /// nothing is known of it (an infinity to one who rounds, a number to one who does not), or if it lies in a halo.
    ///
    /// # Errors
    /// [`InterpError`]: an index leaves its operand and its halo, or an expression has no value.
    pub fn point(&self, output: usize, at: &[i64]) -> Result<Option<Point>, InterpError> {
        let output = &self.kernel.outputs[output];
        let stage = &self.stages[output.stage.index()];
        let found = match self.at(output.stage, output.component, at) {
            Ok(found) => found,
            Err(Stop::TooMuch) => return Ok(None),
            Err(Stop::Wrong(error)) => return Err(error),
        };
        let mut vars = vec![0; stage.extents.len()];
        stage.value_axes.iter().zip(at).for_each(|(&axis, &n)| vars[axis] = n);
        let index = output.index.iter().map(|e| {
            let f: IndexFn = bind(&stage.name, e, &self.symbols)?;
            f.eval(&vars)
                .ok_or_else(|| InterpError::UndefinedIndex { place: stage.name.clone(), expr: f.source.to_string() })
        });
        let index = index.collect::<Result<Vec<i64>, _>>()?;
        let target = &self.operands[output.operand.index()];
        let Some(position) = target.position(&index).filter(|_| found.is_known()) else { return Ok(None) };
        let expected = match found.value {
            Scalar::Float(x) if x.is_finite() => Expected::Within(x - found.error, x + found.error),
            value if found.error == 0.0 => Expected::Bits(value.to_const(target.dtype)),
            value => Expected::Within(value.to_f64() - found.error, value.to_f64() + found.error),
        };
        Ok(Some(Point { operand: output.operand, position, expected }))
    }

    /// A component of a stage's value.
    fn at(&self, id: StageId, component: u8, at: &[i64]) -> Result<Enclosed, Stop> {
        let malformed = |what| Stop::Wrong(InterpError::Malformed { place: self.kernel.name.clone(), what });
        let stage = self.stages.get(id.index()).ok_or_else(|| malformed("a stage that does not exist"))?;
        let of = |values: &[Enclosed]| {
            values.get(usize::from(component)).copied().ok_or_else(|| malformed("a component that does not exist"))
        };
        let flat = stage.flat(at)?;
        if let Some(values) = stage.points.borrow().get(&flat) {
            return of(values);
        }
        if self.deep.get() >= MOST_DEEP {
            return Err(Stop::TooMuch);
        }
        self.deep.set(self.deep.get() + 1);
        let values = self.compute(stage, at);
        self.deep.set(self.deep.get() - 1);
        let values = values?;
        let result = of(&values);
        stage.points.borrow_mut().insert(flat, values.into_boxed_slice());
        result
    }

    fn compute(&self, stage: &Computed, at: &[i64]) -> Result<Vec<Enclosed>, Stop> {
        let mut vars = vec![0; stage.extents.len()];
        stage.value_axes.iter().zip(at).for_each(|(&axis, &n)| vars[axis] = n);
        let body = |vars: &[i64]| {
            let left = self.left.get().checked_sub(stage.body.instrs.len() as u64).ok_or(Stop::TooMuch)?;
            self.left.set(left);
            run::run(&stage.body, vars, &[], &mut |source, index| self.load(&stage.name, source, index))
        };
        let Some(fold) = &stage.fold else { return body(&vars) };
        let mut is_over = stage.reduced.iter().any(|&axis| stage.extents[axis] == 0);
        run::fold(fold, self.by_matrices, &mut || {
            if is_over {
                return Ok(None);
            }
            let element = body(&vars)?;
            is_over = !stage.advance(&mut vars);
            Ok(Some(element))
        })
    }

    fn load(&self, reader: &str, source: Source, index: &[i64]) -> Result<Enclosed, Stop> {
        let malformed = |what| Stop::Wrong(InterpError::Malformed { place: reader.to_owned(), what });
        match source {
            Source::Operand(id) => {
                let operand = self.operands.get(id.index()).ok_or_else(|| malformed("no such operand"))?;
                operand.get(reader, index).map(Enclosed::exactly).map_err(Stop::Wrong)
            }
            Source::Stage(id, component) => self.at(id, component, index),
            Source::Buffer(_) => Err(malformed("a load from a buffer")),
        }
    }
}

impl<'k> Buffer<'k> {
    fn new(operand: &'k Operand, symbols: &[i64], tensor: Option<&'k Tensor>) -> Result<Self, InterpError> {
        let (name, layout) = (operand.name.as_str(), &operand.layout);
        let shape = eval_shape(name, &operand.shape, symbols)?;
        let strides = eval_shape(name, &layout.strides, symbols)?;
        let ends = eval_shape(name, &[layout.offset.clone(), layout.len_elems.clone()], symbols)?;
        let negative = || InterpError::NegativeExtent { name: name.to_owned(), shape: ends.clone() };
        let len_elems = usize::try_from(ends[1]).map_err(|_| negative())?;
        if let Some(tensor) = tensor {
            if tensor.dtype() != operand.dtype {
                let (expected, found) = (operand.dtype, tensor.dtype());
                return Err(InterpError::WrongType { name: name.to_owned(), expected, found });
            }
            if tensor.len_elems() != len_elems {
                let (expected, found) = (vec![ends[1]], tensor.shape().to_vec());
                return Err(InterpError::WrongShape { name: name.to_owned(), expected, found });
            }
        }
        Ok(Self {
            name,
            dtype: operand.dtype,
            shape,
            halo: &layout.halo,
            fill: Scalar::from_const(Const { dtype: operand.dtype, bits: layout.fill }),
            strides,
            offset: ends[0],
            bytes: tensor.map(Tensor::bytes),
            len_elems,
        })
    }

    /// Where an element of the shape lies; `None` outside.
    fn position(&self, index: &[i64]) -> Option<usize> {
        let is_within =
            index.len() == self.shape.len() && index.iter().zip(&self.shape).all(|(i, n)| (0..*n).contains(i));
        if !is_within {
            return None;
        }
        let mut steps = index.iter().zip(&self.strides);
        let place = steps.try_fold(self.offset, |place, (i, stride)| place.checked_add(i.checked_mul(*stride)?))?;
        usize::try_from(place).ok().filter(|&place| place < self.len_elems)
    }

    fn get(&self, reader: &str, index: &[i64]) -> Result<Scalar, InterpError> {
        if let (Some(at), Some(bytes)) = (self.position(index), self.bytes) {
            let bits = read_bits(bytes, self.dtype.size_bits(), at);
            return Ok(Scalar::from_const(Const { dtype: self.dtype, bits }));
        }
        let in_halo = index.len() == self.shape.len()
            && index
                .iter()
                .zip(&self.shape)
                .zip(self.halo)
                .all(|((i, n), (before, after))| (before.saturating_neg()..n.saturating_add(*after)).contains(i));
        if in_halo && self.bytes.is_some() {
            return Ok(self.fill);
        }
        let (reader, name) = (reader.to_owned(), self.name.to_owned());
        Err(InterpError::ReadOutOfBounds { reader, name, index: index.to_vec(), shape: self.shape.clone() })
    }
}

impl Computed {
    fn new(kernel: &Kernel, id: usize, symbols: &[i64]) -> Result<Self, InterpError> {
        let stage = &kernel.stages[StageId::from_index(id)];
        let name = stage.name.clone();
        let extents = eval_shape(&name, &stage.axes.iter().map(|a| a.extent.clone()).collect::<Vec<_>>(), symbols)?;
        // Only some of its points are computed, of which each folds all that it folds.
        for of_fold in [true, false] {
            let axes = stage.axes.iter().zip(&extents).filter(|(axis, _)| (axis.kind == AxisKind::Reduce) == of_fold);
            check_points(&name, &axes.map(|(_, &extent)| extent).collect::<Vec<_>>())?;
        }
        let body = Program::new(&name, &stage.body, &stage.results, symbols)?;
        let fold = stage.reducer.as_ref();
        let fold = fold.map(|reducer| Fold::new(&name, reducer, body.dtypes().len(), symbols)).transpose()?;
        let axes = |reduced: bool| {
            (0..stage.axes.len()).filter(|&n| (stage.axes[n].kind == AxisKind::Reduce) == reduced).collect()
        };
        let (reduced, value_axes) = (axes(true), axes(false));
        Ok(Self { name, body, fold, extents, reduced, value_axes, points: RefCell::default() })
    }

    /// Coordinates as one number.
    fn flat(&self, at: &[i64]) -> Result<u64, InterpError> {
        let extents = self.value_axes.iter().map(|&axis| self.extents[axis]);
        if at.len() != self.value_axes.len() || at.iter().zip(extents.clone()).any(|(n, end)| !(0..end).contains(n)) {
            return Err(InterpError::ReadOutOfBounds {
                reader: self.name.clone(),
                name: self.name.clone(),
                index: at.to_vec(),
                shape: extents.collect(),
            });
        }
        Ok(at.iter().zip(extents).fold(0, |flat, (&n, end)| flat * end as u64 + n as u64))
    }

    /// The next point of the reduced axes; false if there is none.
    fn advance(&self, vars: &mut [i64]) -> bool {
        for &axis in self.reduced.iter().rev() {
            vars[axis] += 1;
            if vars[axis] < self.extents[axis] {
                return true;
            }
            vars[axis] = 0;
        }
        false
    }
}
