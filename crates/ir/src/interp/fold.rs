//! Folding with the combine function of a reducer.

use super::InterpError;
use super::body::{NoLoads, Program, Registers};
use crate::kernel::Reducer;
use crate::scalar::{BinaryOp, Scalar, eval_binary};
use infc_tensor::DType;

/// A flattened [`Reducer`].
pub(super) struct Fold {
    init: Vec<Scalar>,
    dtypes: Vec<DType>,
    pub(super) combine: Combine,
}

/// Memory for folding, kept between folds to save the allocation.
#[derive(Default)]
pub(super) struct Scratch {
    registers: Registers,
    arguments: Vec<Scalar>,
}

pub(super) enum Combine {
    /// The usual case, without the detour over a program.
    Binary(BinaryOp, DType),
    Program(Program),
}

impl Fold {
    /// Flattens a reducer over so many components.
    pub(super) fn new(place: &str, reducer: &Reducer, components: usize, symbols: &[i64]) -> Result<Self, InterpError> {
        let program = Program::new(place, &reducer.combine, &reducer.results, symbols)?;
        if reducer.init.len() != components || program.dtypes().len() != components {
            let what = "a fold with another number of components";
            return Err(InterpError::Malformed { place: place.to_owned(), what });
        }
        let dtypes: Vec<DType> = reducer.init.iter().map(|c| c.dtype).collect();
        let combine = match (reducer.as_binary(), &dtypes[..], program.dtypes()) {
            (Some(op), [a], [b]) if a == b => Combine::Binary(op, *a),
            _ => Combine::Program(program),
        };
        let init = reducer.init.iter().map(|&c| Scalar::from_const(c)).collect();
        Ok(Self { init, dtypes, combine })
    }

    /// What a fold starts from.
    pub(super) fn init(&self) -> &[Scalar] {
        &self.init
    }

    /// The types of the components.
    pub(super) fn dtypes(&self) -> &[DType] {
        &self.dtypes
    }

    /// `accumulator = combine(accumulator, element)`.
    pub(super) fn fold(
        &self,
        place: &str,
        scratch: &mut Scratch,
        accumulator: &mut Vec<Scalar>,
        element: &[Scalar],
    ) -> Result<(), InterpError> {
        match &self.combine {
            Combine::Binary(op, dtype) => {
                accumulator[0] = eval_binary(*op, *dtype, accumulator[0], element[0]);
                Ok(())
            }
            Combine::Program(program) => {
                scratch.arguments.clear();
                scratch.arguments.extend_from_slice(accumulator);
                scratch.arguments.extend_from_slice(element);
                program.run(&[], &scratch.arguments, &NoLoads(place), &mut scratch.registers, accumulator)
            }
        }
    }
}
