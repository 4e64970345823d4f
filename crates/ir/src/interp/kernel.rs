//! The meaning of a kernel: stages in order, point by point, reductions folded in the order of their axes.
//!
//! Sequential axes run outermost, so that a stage sees all of its own value at earlier steps; the stages of a recurrence
//! run together, step by step. Nothing here knows of
//! layouts except that reads in a halo give what it holds: inputs and outputs are dense tensors of the operands' shapes.

use super::array::Array;
use super::body::{Leaves, Program, Registers, bind};
use super::fold::{Fold, Scratch};
use super::points::{check_points, for_each_point};
use super::{InterpError, check_symbols, eval_shape};
use crate::entity::{EntityId, OperandId, StageId};
use crate::kernel::{AxisKind, Kernel, Operand, OperandKind, Output, Stage};
use crate::scalar::{Const, Scalar, Source};
use infc_tensor::Tensor;
use std::ops::Range;

/// Computes a kernel.
///
/// `symbols` has one value per symbol. `inputs` has one dense tensor per operand that is not an output, in operand
/// order; the result has one per output operand, in operand order.
///
/// # Errors
/// [`InterpError`] if the inputs do not fit, an index leaves its operand (and its halo), a stage reads what is not yet
/// computed, or an output element is written twice or never.
pub fn run_kernel(kernel: &Kernel, symbols: &[i64], inputs: &[Tensor]) -> Result<Vec<Tensor>, InterpError> {
    check_symbols(&kernel.symbols, symbols)?;
    let mut state = State { operands: bind_operands(kernel, symbols, inputs)?, ..State::default() };
    let runs = kernel.recurrences();
    let mut next = 0;
    while next < kernel.stages.len() {
        let run = runs.iter().find(|r| r.start == next).cloned().unwrap_or(next..next + 1);
        next = run.end.min(kernel.stages.len());
        run_stages(kernel, run.start..next, symbols, &mut state)?;
    }
    let mut written: Vec<Option<Vec<bool>>> = kernel
        .operands
        .iter_enumerated()
        .map(|(id, o)| (o.kind == OperandKind::Output).then(|| vec![false; state.operands[id.index()].len()]))
        .collect();
    for output in &kernel.outputs {
        write_output(kernel, output, symbols, &mut state, &mut written)?;
    }
    let mut outputs = Vec::new();
    for (array, written) in state.operands.iter().zip(&written) {
        let Some(written) = written else { continue };
        if let Some(index) = written.iter().position(|w| !w) {
            return Err(InterpError::NeverWritten { name: array.name.clone(), index });
        }
        outputs.push(array.to_tensor()?);
    }
    Ok(outputs)
}

/// Everything computed so far.
#[derive(Default)]
struct State {
    operands: Vec<Array>,
    /// Per stage and component.
    stages: Vec<Vec<Array>>,
    /// Per stage, which of its points are computed, while it may be read before all are.
    done: Vec<Option<Vec<bool>>>,
    current: String,
}

impl Leaves for State {
    fn load(&self, source: Source, index: &[i64]) -> Result<Scalar, InterpError> {
        let malformed = |what| InterpError::Malformed { place: self.current.clone(), what };
        let array = match source {
            Source::Operand(id) => {
                self.operands.get(id.index()).ok_or_else(|| malformed("an operand that does not exist"))?
            }
            Source::Stage(id, component) => self
                .stages
                .get(id.index())
                .and_then(|components| components.get(usize::from(component)))
                .ok_or_else(|| malformed("a stage or component that does not come before"))?,
            Source::Buffer(_) => return Err(malformed("a load from a buffer")),
        };
        let Some(at) = array.position(index) else {
            if array.in_halo(index) {
                return Ok(array.fill);
            }
            return Err(InterpError::ReadOutOfBounds {
                reader: self.current.clone(),
                name: array.name.clone(),
                index: index.to_vec(),
                shape: array.shape.clone(),
            });
        };
        if let Source::Stage(id, _) = source
            && let Some(Some(done)) = self.done.get(id.index())
            && !done[at]
        {
            let (reader, name) = (self.current.clone(), array.name.clone());
            return Err(InterpError::NotYetComputed { reader, name, index: index.to_vec() });
        }
        Ok(array.get(at))
    }
}

fn bind_operands(kernel: &Kernel, symbols: &[i64], inputs: &[Tensor]) -> Result<Vec<Array>, InterpError> {
    let expected = kernel.operands.iter().filter(|o| o.kind != OperandKind::Output).count();
    if expected != inputs.len() {
        return Err(InterpError::WrongCount { what: "inputs", expected, found: inputs.len() });
    }
    let mut tensors = inputs.iter();
    let bind_operand = |operand: &Operand| {
        let shape = eval_shape(&operand.name, &operand.shape, symbols)?;
        let mut array = if operand.kind == OperandKind::Output {
            Array::zeros(&operand.name, operand.dtype, shape)?
        } else {
            let tensor = tensors.next().expect("counted above");
            Array::from_tensor(&operand.name, operand.dtype, shape, tensor)?
        };
        array.halo.clone_from(&operand.layout.halo);
        array.fill = Scalar::from_const(Const { dtype: operand.dtype, bits: operand.layout.fill });
        Ok(array)
    };
    kernel.operands.iter().map(bind_operand).collect()
}

/// A stage, ready to be computed.
struct Prepared<'k> {
    id: usize,
    stage: &'k Stage,
    body: Program,
    fold: Option<Fold>,
    extents: Vec<i64>,
    /// Sequential axes, then parallel ones.
    outer: Vec<usize>,
    reduced: Vec<usize>,
    value_axes: Vec<usize>,
}

/// Computes stages whose steps belong together, or a single one.
fn run_stages(kernel: &Kernel, run: Range<usize>, symbols: &[i64], state: &mut State) -> Result<(), InterpError> {
    let together = run.len() > 1;
    let mut stages = Vec::new();
    for id in run.clone() {
        let prepared = Prepared::new(kernel, id, symbols, state)?;
        let mut tracked = together;
        prepared.stage.for_each_load(&mut |_, load| {
            tracked |= matches!(load.source, Source::Stage(s, _) if s.index() == id);
        });
        let len = state.stages[id].first().map_or(0, Array::len);
        state.done.push(tracked.then(|| vec![false; len]));
        stages.push(prepared);
    }
    if !together {
        for stage in &stages {
            stage.run(None, state)?;
        }
    } else {
        let steps = stages.first().and_then(|s| s.extents.first()).copied().unwrap_or(0);
        let leads = |s: &Prepared<'_>| {
            s.stage.axes.first().is_some_and(|a| a.kind == AxisKind::Sequential) && s.extents.first() == Some(&steps)
        };
        if !stages.iter().all(leads) {
            let what = "a recurrence whose stages do not begin with one sequential axis";
            return Err(InterpError::Malformed { place: kernel.name.clone(), what });
        }
        for step in 0..steps {
            for stage in &stages {
                stage.run(Some(step), state)?;
            }
        }
    }
    for id in run {
        state.done[id] = None;
    }
    Ok(())
}

impl<'k> Prepared<'k> {
    /// Makes room for the stage's value.
    fn new(kernel: &'k Kernel, id: usize, symbols: &[i64], state: &mut State) -> Result<Self, InterpError> {
        let stage = &kernel.stages[StageId::from_index(id)];
        let name = &stage.name;
        let extents = eval_shape(name, &stage.axes.iter().map(|a| a.extent.clone()).collect::<Vec<_>>(), symbols)?;
        check_points(name, &extents)?;
        let body = Program::new(name, &stage.body, &stage.results, symbols)?;
        let positions = |kind| (0..stage.axes.len()).filter(move |&i| stage.axes[i].kind == kind);
        let outer: Vec<usize> = positions(AxisKind::Sequential).chain(positions(AxisKind::Parallel)).collect();
        let reduced: Vec<usize> = positions(AxisKind::Reduce).collect();
        let shape: Vec<i64> = stage.value_axes().map(|(i, _)| extents[i]).collect();
        let value_axes: Vec<usize> = stage.value_axes().map(|(i, _)| i).collect();
        let fold = match &stage.reducer {
            Some(reducer) => Some(Fold::new(name, reducer, body.dtypes().len(), symbols)?),
            None if reduced.is_empty() => None,
            None => {
                let what = "a reduction axis without a reducer";
                return Err(InterpError::Malformed { place: name.clone(), what });
            }
        };
        let arrays: Vec<Array> =
            body.dtypes().iter().map(|&dtype| Array::zeros(name, dtype, shape.clone())).collect::<Result<_, _>>()?;
        state.stages.push(arrays);
        Ok(Self { id, stage, body, fold, extents, outer, reduced, value_axes })
    }

    /// Computes all points, or those of one step of the first axis.
    fn run(&self, step: Option<i64>, state: &mut State) -> Result<(), InterpError> {
        let name = &self.stage.name;
        state.current.clone_from(name);
        let mut vars = vec![0; self.extents.len()];
        let mut outer = &self.outer[..];
        if let Some(step) = step {
            vars[0] = step;
            outer = &outer[1..];
        }
        let (mut registers, mut scratch) = (Registers::default(), Scratch::default());
        let (mut value, mut element) = (Vec::new(), Vec::new());
        let mut coordinates = Vec::new();
        for_each_point(outer, &self.extents, &mut vars, &mut |vars| {
            match &self.fold {
                None => self.body.run(vars, &[], state, &mut registers, &mut value)?,
                Some(fold) => {
                    value.clear();
                    value.extend_from_slice(fold.init());
                    for_each_point(&self.reduced, &self.extents, vars, &mut |vars| {
                        self.body.run(vars, &[], state, &mut registers, &mut element)?;
                        fold.fold(name, &mut scratch, &mut value, &element)
                    })?;
                }
            }
            coordinates.clear();
            coordinates.extend(self.value_axes.iter().map(|&axis| vars[axis]));
            for (array, &v) in state.stages[self.id].iter_mut().zip(&value) {
                let at = array.position(&coordinates).expect("within the extents");
                array.set(at, v);
                if let Some(done) = &mut state.done[self.id] {
                    done[at] = true;
                }
            }
            Ok(())
        })
    }
}

fn write_output(
    kernel: &Kernel,
    output: &Output,
    symbols: &[i64],
    state: &mut State,
    written: &mut [Option<Vec<bool>>],
) -> Result<(), InterpError> {
    let malformed = |what| InterpError::Malformed { place: kernel.name.clone(), what };
    let stage = kernel.stages.get(output.stage).ok_or_else(|| malformed("an output of a stage that does not exist"))?;
    let source = state.stages[output.stage.index()]
        .get(usize::from(output.component))
        .ok_or_else(|| malformed("an output of a component that does not exist"))?;
    let operand: OperandId = output.operand;
    let Some(Some(written)) = written.get_mut(operand.index()) else {
        return Err(malformed("an output that is not written to an output operand"));
    };
    let target = &mut state.operands[operand.index()];
    let index = output.index.iter().map(|e| bind(&stage.name, e, symbols)).collect::<Result<Vec<_>, _>>()?;
    let value_axes: Vec<usize> = stage.value_axes().map(|(i, _)| i).collect();
    let mut extents = vec![0; stage.axes.len()];
    for (&axis, &extent) in value_axes.iter().zip(&source.shape) {
        extents[axis] = extent;
    }
    let mut vars = vec![0; stage.axes.len()];
    let mut coordinates = Vec::new();
    let mut from = 0;
    for_each_point(&value_axes, &extents, &mut vars, &mut |vars| {
        coordinates.clear();
        for f in &index {
            coordinates.push(f.eval(vars).ok_or_else(|| InterpError::UndefinedIndex {
                place: stage.name.clone(),
                expr: f.source.to_string(),
            })?);
        }
        let Some(at) = target.position(&coordinates) else {
            // What the halo holds may be written there.
            if target.in_halo(&coordinates) && source.get(from) == target.fill {
                from += 1;
                return Ok(());
            }
            return Err(InterpError::WriteOutOfBounds {
                writer: stage.name.clone(),
                name: target.name.clone(),
                index: coordinates.clone(),
                shape: target.shape.clone(),
            });
        };
        if std::mem::replace(&mut written[at], true) {
            return Err(InterpError::WrittenTwice { name: target.name.clone(), index: coordinates.clone() });
        }
        target.set(at, source.get(from));
        from += 1;
        Ok(())
    })
}
