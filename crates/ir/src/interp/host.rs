//! Operators that no level of the compiler computes: whoever interprets a graph that has some brings their definitions.

use super::InterpError;
use crate::entity::EntityId;
use crate::op::{HostOp, Produced};
use crate::symbol::Symbols;
use infc_tensor::Tensor;

/// The definitions of ONNX operators.
pub trait Host {
    /// Evaluates an operator; an input that is left out is `None`. As many outputs come back as it names.
    ///
    /// # Errors
    /// What is wrong, for people.
    fn evaluate(&self, op: &HostOp, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String>;
}

/// Defines no operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn evaluate(&self, op: &HostOp, _inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        Err(format!("nobody defines {}", op.op_type))
    }
}

/// Evaluates an operation on the operands that its node has, and gives the symbols that it produces their values.
/// Returns one tensor per output of the node, whose types are not checked.
///
/// # Errors
/// [`InterpError::Host`] with what the host says, [`InterpError::Malformed`] if operands, results or axes are missing,
/// [`InterpError::SymbolOutOfRange`].
pub fn evaluate_host(
    op: &HostOp,
    operands: &[Tensor],
    host: &dyn Host,
    known: &Symbols,
    symbols: &mut [i64],
) -> Result<Vec<Tensor>, InterpError> {
    let place = &op.op_type;
    let malformed = |what| InterpError::Malformed { place: place.to_owned(), what };
    let mut given = operands.iter();
    let mut inputs = Vec::with_capacity(op.inputs.len());
    for &is_given in &op.inputs {
        inputs.push(if is_given { Some(given.next().ok_or_else(|| malformed("a missing operand"))?) } else { None });
    }
    let results = host.evaluate(op, &inputs).map_err(|reason| InterpError::Host { place: place.to_owned(), reason })?;
    if results.len() < op.outputs.len() {
        return Err(malformed("an operator with fewer outputs than its node"));
    }
    let named = results.into_iter().zip(&op.outputs).filter(|(_, named)| **named);
    let results: Vec<Tensor> = named.map(|(tensor, _)| tensor).collect();
    let extent = |output: usize, axis: usize| i64::try_from(*results.get(output)?.shape().get(axis)?).ok();
    bind_produced(place, &op.produces, &extent, known, symbols)?;
    Ok(results)
}

/// Gives the symbols that an operation produces their values, which are extents of its outputs.
///
/// # Errors
/// [`InterpError::Malformed`] if there is no such extent, [`InterpError::SymbolOutOfRange`].
pub fn bind_produced(
    place: &str,
    produces: &[Produced],
    extent: &dyn Fn(usize, usize) -> Option<i64>,
    known: &Symbols,
    symbols: &mut [i64],
) -> Result<(), InterpError> {
    for produced in produces {
        let malformed = || InterpError::Malformed {
            place: place.to_owned(),
            what: "an extent that the operation does not produce",
        };
        let value = extent(produced.output as usize, produced.axis as usize).ok_or_else(malformed)?;
        let symbol = known.get(produced.symbol).ok_or_else(malformed)?;
        if value < symbol.min || symbol.max.is_some_and(|max| value > max) {
            let (name, min, max) = (symbol.name.clone(), symbol.min, symbol.max);
            return Err(InterpError::SymbolOutOfRange { name, value, min, max });
        }
        *symbols.get_mut(produced.symbol.index()).ok_or_else(malformed)? = value;
    }
    Ok(())
}
