//! Inputs and outputs that the graph holds as bytes, or in sequences; see [`Port::declared`].

use super::super::{InterpError, eval_shape};
use crate::graph::{Graph, Port};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// What the value of an input holds, given the tensor that the user has.
///
/// # Errors
/// [`InterpError`] if the tensor is not of the declared type.
pub fn held(graph: &Graph, port: &Port, symbols: &[i64], tensor: &Tensor) -> Result<Tensor, InterpError> {
    let Some(declared) = &port.declared else { return Ok(tensor.clone()) };
    let (name, expected) = (port.name.clone(), declared.dtype);
    if tensor.dtype() != expected {
        return Err(InterpError::WrongType { name, expected, found: tensor.dtype() });
    }
    if graph.is_unranked(port) {
        return Ok(Tensor::sequence(vec![tensor.clone()])?);
    }
    let expected = eval_shape(&name, &declared.shape, symbols)?;
    if !tensor.shape().iter().map(|&d| i64::try_from(d).ok()).eq(expected.iter().map(|&d| Some(d))) {
        return Err(InterpError::WrongShape { name, expected, found: tensor.shape().to_vec() });
    }
    Ok(tensor.as_byte_tensor())
}

/// What the user sees of the value of an output.
///
/// # Errors
/// [`InterpError`] if the value is not the bytes of the declared type.
pub fn shown(port: &Port, symbols: &[i64], held: Tensor) -> Result<Tensor, InterpError> {
    let Some(declared) = &port.declared else { return Ok(held) };
    if held.dtype() == DType::Sequence {
        let one = held.values()?.first().cloned();
        return one.ok_or_else(|| InterpError::WrongType {
            name: port.name.clone(),
            expected: declared.dtype,
            found: held.dtype(),
        });
    }
    let shape = if declared.dtype.size_bits() == 8 {
        held.shape().to_vec()
    } else {
        let shape = eval_shape(&port.name, &declared.shape, symbols)?;
        shape.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect()
    };
    Ok(Tensor::from_bytes(declared.dtype, shape, AlignedBytes::from_slice(held.bytes()))?)
}
