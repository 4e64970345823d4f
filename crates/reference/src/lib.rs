//! ONNX operators computed plainly, per opset: the definition that the rest of infc is tested against.
//!
//! [`evaluate`] takes one node (operator, opset, attributes) and its input tensors and returns the outputs. Nothing is
//! clever: loops over output elements that follow the text of the [operator specification][spec]. The compiler folds
//! constants with it, tests compare the import's expansions and the backends with it, and operators that are not worth
//! compiling run on it.
//!
//! - **Numbers.** Floats of every width are computed in `f64` and rounded once when stored; integers wrap.
//! - **Movement** works for every element type, strings and packed types included.
//! - **Sequences and optionals** are tensors of values; only operators that are about them take them.
//! - **Opsets.** The table in [`registry`] gives, per operator, the opsets it exists in; differences between opsets are
//!   handled by the operator where they arise.
//! - **Limits.** Shapes that ask for too much memory or time are refused with [`EvalError::TooLarge`] and
//!   [`EvalError::TooMuchWork`]; see [`MAX_OUTPUT_BYTES`], [`MAX_OUTPUT_ELEMS`] and [`MAX_WORK_STEPS`].
//!
//! Left out: operators on maps, and those that [`registry::OPERATORS`] does not list yet.
//!
//! [spec]: https://onnx.ai/onnx/operators/

#![forbid(unsafe_code)]

mod call;
pub mod dtypes;
mod error;
mod limits;
mod numeric;
mod ops;
pub mod registry;
mod select;
mod shape;
mod subgraph;

pub use error::EvalError;
pub use infc_tensor::{Attribute, AttributeError, Attributes};
pub use limits::{MAX_OUTPUT_BYTES, MAX_OUTPUT_ELEMS, MAX_WORK_STEPS};
pub use ops::ml::forest::{Branch, Forest, Next, Test};
pub use registry::is_supported;

use call::Call;
use infc_tensor::{Subgraphs, Tensor};
use subgraph::Held;

/// What there is to know of a node besides its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The operator: `Conv`.
    pub op_type: &'a str,
    /// The operator's domain; ONNX's own is empty or `ai.onnx`.
    pub domain: &'a str,
    /// The version of the domain that the model imports.
    pub opset: i64,
    /// The attributes.
    pub attributes: &'a Attributes,
    /// How many outputs the node names, those left out in between included.
    pub num_outputs: usize,
}

/// Evaluates one node.
///
/// An optional input that is left out is `None`. As many outputs come back as the node names, in order.
///
/// # Errors
/// [`EvalError`] if the operator is unknown, the inputs do not fit it, or a limit is exceeded. Never panics.
///
/// # Examples
/// ```
/// use infc_reference::{Attributes, Node, evaluate};
/// use infc_tensor::Tensor;
///
/// let x = Tensor::from_elements(&[3], &[-1.0f32, 0.0, 2.0])?;
/// let attributes = Attributes::new();
/// let relu = Node { op_type: "Relu", domain: "", opset: 21, attributes: &attributes, num_outputs: 1 };
/// assert_eq!(evaluate(&relu, &[Some(&x)])?, [Tensor::from_elements(&[3], &[0.0f32, 0.0, 2.0])?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate(node: &Node<'_>, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, EvalError> {
    evaluate_in(node, inputs, Held::default())
}

/// As [`evaluate`], of a node that holds graphs. The values that these take from around the node are its last inputs.
///
/// # Errors
/// As [`evaluate`], also for nodes within.
pub fn evaluate_with(
    node: &Node<'_>,
    graphs: &Subgraphs,
    inputs: &[Option<&Tensor>],
) -> Result<Vec<Tensor>, EvalError> {
    subgraph::evaluate(node, graphs, inputs, None)
}

/// As [`evaluate_with`], as long as `goes_on`, which is asked before each node of the graphs within: a `Loop` may be long,
/// or without end.
///
/// # Errors
/// As [`evaluate_with`], and [`EvalError::Interrupted`] once the answer is no.
pub fn evaluate_while(
    node: &Node<'_>,
    graphs: &Subgraphs,
    inputs: &[Option<&Tensor>],
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Tensor>, EvalError> {
    subgraph::evaluate(node, graphs, inputs, Some(goes_on))
}

fn evaluate_in(node: &Node<'_>, inputs: &[Option<&Tensor>], held: Held<'_>) -> Result<Vec<Tensor>, EvalError> {
    let operator = registry::find(node.op_type, node.domain, node.opset).ok_or_else(|| EvalError::Unsupported {
        op_type: node.op_type.to_owned(),
        domain: node.domain.to_owned(),
        opset: node.opset,
    })?;
    for tensor in inputs.iter().copied().flatten() {
        if tensor.values().is_ok() && !operator.takes_values {
            return Err(EvalError::UnsupportedType { dtype: tensor.dtype() });
        }
        if tensor.shape().iter().any(|&dim| dim > limits::MAX_EXTENT) {
            return Err(EvalError::TooLarge { dtype: tensor.dtype(), shape: tensor.shape().to_vec() });
        }
    }
    let mut outputs = operator.evaluate(&Call { node, inputs, held })?;
    if outputs.len() < node.num_outputs {
        return Err(EvalError::TooManyOutputs { found: node.num_outputs, available: outputs.len() });
    }
    outputs.truncate(node.num_outputs);
    Ok(outputs)
}
