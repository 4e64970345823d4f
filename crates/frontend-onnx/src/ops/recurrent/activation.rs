//! The activation functions that recurrent operators name, with their parameters.

use crate::build::Result;
use crate::call::Call;
use crate::error::Problem;
use crate::ops::activation::{elu, hard_sigmoid_of, leaky, number, scale, softplus, softsign_of, split_at};
use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, UnaryOp};

/// A function by its name; the names are without regard to case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Relu,
    Tanh,
    Sigmoid,
    Affine,
    LeakyRelu,
    ThresholdedRelu,
    ScaledTanh,
    HardSigmoid,
    Elu,
    Softsign,
    Softplus,
}

/// All functions, with the parameters that hold where the node gives none.
const FUNCTIONS: [(&str, Function, f32, f32); 11] = [
    ("relu", Function::Relu, 0.0, 0.0),
    ("tanh", Function::Tanh, 0.0, 0.0),
    ("sigmoid", Function::Sigmoid, 0.0, 0.0),
    ("affine", Function::Affine, 1.0, 0.0),
    ("leakyrelu", Function::LeakyRelu, 0.01, 0.0),
    ("thresholdedrelu", Function::ThresholdedRelu, 1.0, 0.0),
    ("scaledtanh", Function::ScaledTanh, 1.0, 1.0),
    ("hardsigmoid", Function::HardSigmoid, 0.2, 0.5),
    ("elu", Function::Elu, 1.0, 0.0),
    ("softsign", Function::Softsign, 0.0, 0.0),
    ("softplus", Function::Softplus, 0.0, 0.0),
];

/// A function with its parameters.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Activation {
    function: Function,
    alpha: f64,
    beta: f64,
}

impl Activation {
    /// The function of this name, its first parameters as given.
    pub(in crate::ops) fn named(name: &str, given: &[f32]) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let &(_, function, alpha, beta) = FUNCTIONS.iter().find(|(name, ..)| *name == lower)?;
        let parameter = |n: usize, default: f32| f64::from(given.get(n).copied().unwrap_or(default));
        Some(Self { function, alpha: parameter(0, alpha), beta: parameter(1, beta) })
    }

    /// The function of `x`.
    pub(in crate::ops) fn apply(&self, body: &mut Body, x: ScalarId) -> ScalarId {
        let (alpha, beta) = (self.alpha, self.beta);
        match self.function {
            Function::Relu => {
                let zero = number(body, x, 0.0);
                body.binary(BinaryOp::Max, x, zero)
            }
            Function::Tanh => body.unary(UnaryOp::Tanh, x),
            Function::Sigmoid => body.unary(UnaryOp::Sigmoid, x),
            Function::Affine => {
                let scaled = scale(body, x, alpha);
                let beta = number(body, x, beta);
                body.binary(BinaryOp::Add, scaled, beta)
            }
            Function::LeakyRelu => leaky(body, x, alpha),
            Function::ThresholdedRelu => {
                let zero = number(body, x, 0.0);
                split_at(body, x, alpha, zero, x)
            }
            Function::ScaledTanh => {
                let inner = scale(body, x, beta);
                let bent = body.unary(UnaryOp::Tanh, inner);
                scale(body, bent, alpha)
            }
            Function::HardSigmoid => hard_sigmoid_of(body, x, alpha, beta),
            Function::Elu => elu(body, x, alpha),
            Function::Softsign => softsign_of(body, x),
            Function::Softplus => softplus(body, x),
        }
    }
}

/// The activations of every direction: those that the node names, or the defaults.
pub(super) fn of_directions(call: &Call<'_>, directions: usize, defaults: &[&str]) -> Result<Vec<Vec<Activation>>> {
    let invalid = |found: String| Problem::InvalidAttribute {
        attribute: "activations",
        expected: "as many names of activation functions as the operator has per direction",
        found,
    };
    let given = call.strings("activations")?;
    let names = match &given {
        Some(names) => names.clone(),
        None => defaults.iter().cycle().take(defaults.len() * directions).map(|n| (*n).to_owned()).collect(),
    };
    if names.len() != defaults.len() * directions {
        return Err(invalid(format!("{} names", names.len())));
    }
    let (alphas, betas) =
        (call.floats("activation_alpha")?.unwrap_or(&[]), call.floats("activation_beta")?.unwrap_or(&[]));
    let mut all = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let known = Activation::named(name, &[]).ok_or_else(|| invalid(name.clone()))?;
        let given = |list: &[f32], default: f64| list.get(n).map_or(default, |&given| f64::from(given));
        all.push(Activation { alpha: given(alphas, known.alpha), beta: given(betas, known.beta), ..known });
    }
    Ok(all.chunks(defaults.len()).map(<[Activation]>::to_vec).collect())
}
