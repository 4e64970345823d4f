//! Custom operators: functions of the program around the runtime that models call by name.
//!
//! A model is compiled against declarations (`infc compile --custom-ops`), and its artifact lists the operators that it
//! needs. They are steps of the Program like other operators that no kernel computes, but need no feature: what they
//! compute is the program's own. Loading fails with `runtime::custom-ops` where one is missing.

use crate::error::RuntimeError;
use infc_artifact::Host;
use infc_tensor::{Attributes, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Function = dyn Fn(&CustomCall<'_>) -> Result<Vec<Tensor>, CustomOpError> + Send + Sync;

/// What a program brings to the models that it loads: custom operators, by name.
///
/// # Examples
/// ```no_run
/// use infc_runtime::{LoadOptions, Model, Runtime, Tensor};
///
/// let mut runtime = Runtime::new();
/// runtime.register("my.domain::Clamp01@1", |call| {
///     let x = call.input(0)?;
///     let clamped: Vec<f32> = x.elements::<f32>()?.iter().map(|x| x.clamp(0.0, 1.0)).collect();
///     Ok(vec![Tensor::from_elements(x.shape(), &clamped)?])
/// })?;
/// let model = Model::open_with("model.infa", &LoadOptions { runtime, ..LoadOptions::default() })?;
/// # Ok::<(), infc_runtime::RuntimeError>(())
/// ```
#[derive(Clone, Default)]
pub struct Runtime {
    operators: BTreeMap<String, Arc<Function>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.operators.keys()).finish()
    }
}

/// One evaluation of a custom operator.
#[derive(Clone, Copy, Debug)]
pub struct CustomCall<'a> {
    /// The inputs; `None` where one is left out.
    pub inputs: &'a [Option<&'a Tensor>],
    /// The node's attributes.
    pub attributes: &'a Attributes,
    /// How many outputs the function returns at least, those in between that nobody reads included.
    pub num_outputs: usize,
}

impl<'a> CustomCall<'a> {
    /// Input `index`, which the operator cannot do without.
    ///
    /// # Errors
    /// If it is left out.
    pub fn input(&self, index: usize) -> Result<&'a Tensor, CustomOpError> {
        let input = self.inputs.get(index).copied().flatten();
        input.ok_or_else(|| CustomOpError::new(format!("input {index} is missing")))
    }
}

/// Why a custom operator has no value for what it was given. Every error converts into one.
#[derive(Debug)]
pub struct CustomOpError {
    reason: String,
}

impl CustomOpError {
    /// With a reason for people.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl<E: std::error::Error> From<E> for CustomOpError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

impl Runtime {
    /// Without custom operators.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a custom operator its meaning. The name is that of its declaration, `domain::Op@version`. Sessions of many
    /// threads may call the function at once; what it returns is checked against the declared types and shapes.
    ///
    /// # Errors
    /// `runtime::operator-name` if the name has another form or is taken.
    pub fn register<F>(&mut self, name: &str, function: F) -> Result<&mut Self, RuntimeError>
    where
        F: Fn(&CustomCall<'_>) -> Result<Vec<Tensor>, CustomOpError> + Send + Sync + 'static,
    {
        let expected = if !is_operator_name(name) {
            "a name like `my.domain::Op@1`"
        } else if self.operators.contains_key(name) {
            "a name that is not registered yet"
        } else {
            self.operators.insert(name.to_owned(), Arc::new(function));
            return Ok(self);
        };
        Err(RuntimeError::OperatorName { name: name.to_owned(), expected })
    }

    /// Fails if an operator that an artifact needs is not registered.
    pub(crate) fn check(&self, needed: &[String]) -> Result<(), RuntimeError> {
        let missing: Vec<&str> =
            needed.iter().map(String::as_str).filter(|name| !self.operators.contains_key(*name)).collect();
        if missing.is_empty() { Ok(()) } else { Err(RuntimeError::CustomOps { names: missing.join(", ") }) }
    }

    /// The outputs of a custom operator; `None` if the step is of another operator.
    pub(crate) fn evaluate(
        &self,
        needed: &[String],
        step: &Host,
        inputs: &[Option<&Tensor>],
    ) -> Option<Result<Vec<Tensor>, String>> {
        let name = operator_name(step);
        let function = self.operators.get(&name).filter(|_| needed.contains(&name))?;
        let call = CustomCall { inputs, attributes: &step.attributes, num_outputs: step.outputs.len() };
        // Nothing of ours is changed while the function runs.
        let outputs = catch_unwind(AssertUnwindSafe(|| function(&call)));
        Some(match outputs {
            Ok(outputs) => outputs.map_err(|error| error.reason),
            Err(_) => Err("its function panicked".to_owned()),
        })
    }
}

/// What the artifact's list calls the operator of a step.
pub(crate) fn operator_name(step: &Host) -> String {
    format!("{}::{}@{}", step.domain, step.op_type, step.opset)
}

fn is_operator_name(name: &str) -> bool {
    let parts = name.split_once("::").and_then(|(domain, rest)| Some((domain, rest.split_once('@')?)));
    parts.is_some_and(|(domain, (op, version))| {
        !domain.is_empty() && !op.is_empty() && version.parse::<u32>().is_ok_and(|version| version > 0)
    })
}
