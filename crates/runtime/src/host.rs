//! Host steps: operators that no kernel computes, evaluated by their definitions.
//!
//! The definitions are those of crate `reference`, which is part of the runtime with the feature `host-ops`. Without it
//! an artifact that needs some is refused when it is loaded; reading sizes that kernels compute needs none. Custom operators are functions of the program
//! ([`crate::custom`]). What a host step makes lies in memory of its own until the
//! run is over; each host step makes heap calls.

use crate::arena::Span;
use crate::custom::operator_name;
use crate::error::RuntimeError;
use crate::model::Loaded;
use crate::shapes::Shapes;
use infc_artifact::{Entry, Host, HostArg, Program, Slot, Step, VariantBody};
use infc_tensor::{AlignedBytes, DType, Tensor};
use std::ops::Range;

/// What the host steps of a run have made so far.
#[derive(Debug)]
pub(crate) struct HostValues {
    /// Per slot of the Program; empty if none is for host steps.
    values: Vec<HostValue>,
}

#[derive(Clone, Debug)]
enum HostValue {
    /// The slot is not for host steps.
    Elsewhere,
    /// Nothing has been made yet.
    Missing,
    /// Its shape is not checked yet.
    Made(Tensor),
    Accepted(Tensor),
}

impl HostValues {
    pub(crate) fn new(entry: &Entry, program: &Program) -> Self {
        // Strings and values of the caller are held here as well: they have no bytes.
        let is_host = |slot: &Slot| match slot {
            Slot::Host(_) => true,
            Slot::Input(input) => entry.inputs.get(*input as usize).is_some_and(|port| !port.dtype.has_bytes()),
            _ => false,
        };
        let value = |slot: &Slot| if is_host(slot) { HostValue::Missing } else { HostValue::Elsewhere };
        let has_some = program.slots.iter().any(is_host);
        Self { values: if has_some { program.slots.iter().map(value).collect() } else { Vec::new() } }
    }

    /// Forgets what was made.
    pub(crate) fn clear(&mut self) {
        for value in &mut self.values {
            if !matches!(value, HostValue::Elsewhere) {
                *value = HostValue::Missing;
            }
        }
    }

    /// Takes in an input without bytes, wherever the Program reads it.
    pub(crate) fn take_input(&mut self, program: &Program, input: usize, tensor: &Tensor) {
        for (value, slot) in self.values.iter_mut().zip(&program.slots) {
            if matches!(slot, Slot::Input(n) if *n as usize == input) {
                *value = HostValue::Accepted(tensor.clone());
            }
        }
    }

    pub(crate) fn tensor(&self, slot: usize) -> Option<&Tensor> {
        match self.values.get(slot)? {
            HostValue::Made(tensor) | HostValue::Accepted(tensor) => Some(tensor),
            HostValue::Elsewhere | HostValue::Missing => None,
        }
    }

    /// The shape of what was made.
    pub(crate) fn shape(&self, slot: usize) -> Option<&[usize]> {
        self.tensor(slot).map(Tensor::shape)
    }

    /// Fails if a slot that is read has not been made, or not as it should be.
    pub(crate) fn check_made(&self, mut slots: impl Iterator<Item = usize>) -> Result<(), RuntimeError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let is_missing = |slot: &usize| matches!(self.values[*slot], HostValue::Missing | HostValue::Made(_));
        match slots.find(is_missing) {
            None => Ok(()),
            Some(slot) => Err(RuntimeError::BadProgram {
                what: format!("slot {slot}"),
                expected: "what a host step has made".to_owned(),
                found: "nothing".to_owned(),
            }),
        }
    }

    /// Compares what was made with what the artifact says of it; `None` if nothing was.
    pub(crate) fn accept(&mut self, slot: usize, dtype: DType, shape: &[usize]) -> Result<Option<Span>, RuntimeError> {
        let Some(value) = self.values.get_mut(slot) else { return Ok(None) };
        let tensor = match std::mem::replace(value, HostValue::Missing) {
            HostValue::Made(tensor) | HostValue::Accepted(tensor) => tensor,
            other => {
                *value = other;
                return Ok(None);
            }
        };
        if tensor.dtype() != dtype || tensor.shape() != shape {
            return Err(RuntimeError::UnexpectedResult {
                expected: format!("{dtype}{shape:?}"),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
        let span = Span::read_only(tensor.bytes());
        *value = HostValue::Accepted(tensor);
        Ok(Some(span))
    }

    /// Evaluates an operator on what is in the slots; the shapes of its inputs have the given numbers. Graphs within are
    /// evaluated as long as `goes_on`.
    pub(crate) fn evaluate(
        &mut self,
        model: &Loaded,
        step: &Host,
        (shapes, numbers): (&Shapes, Range<usize>),
        slots: &[Span],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        let mut inputs: Vec<Option<Tensor>> = Vec::with_capacity(step.inputs.len());
        for (arg, number) in step.inputs.iter().zip(numbers) {
            inputs.push(arg.as_ref().map(|arg| self.operand(arg, shapes.get(number), slots)).transpose()?);
        }
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let failed = |reason: String| RuntimeError::HostStep {
            op_type: step.innermost_operator().to_owned(),
            nodes: step.origins.iter().map(|o| format!("`{o}`")).collect::<Vec<_>>().join(", "),
            reason,
        };
        let outputs = model.evaluate(step, &inputs, goes_on).map_err(failed)?;
        if outputs.len() < step.outputs.len() {
            return Err(failed(format!("it has {} outputs of {}", outputs.len(), step.outputs.len())));
        }
        self.put(step, outputs);
        Ok(())
    }

    /// What is in the slot of an operand, of this shape.
    pub(crate) fn operand(&self, arg: &HostArg, shape: &[usize], slots: &[Span]) -> Result<Tensor, RuntimeError> {
        if let Some(tensor) = self.tensor(arg.slot as usize) {
            return Ok(tensor.clone());
        }
        self.check_made(std::iter::once(arg.slot as usize))?;
        let span = slots[arg.slot as usize];
        // Checked to lie within the slot when the sizes were bound.
        let len = crate::view::dense_size(arg.dtype, shape).unwrap_or(0).min(span.len_bytes());
        Ok(Tensor::from_bytes(arg.dtype, shape.to_vec(), AlignedBytes::from_slice(&span.bytes()[..len]))?)
    }

    /// Takes in the outputs of an operator.
    pub(crate) fn put(&mut self, step: &Host, outputs: Vec<Tensor>) {
        for (output, slot) in outputs.into_iter().zip(&step.outputs) {
            if let Some(value) = slot.and_then(|slot| self.values.get_mut(slot as usize)) {
                *value = HostValue::Made(output);
            }
        }
    }
}

/// The outputs of an operator by its definition; graphs within are evaluated as long as `goes_on`.
pub(crate) fn evaluate(
    step: &Host,
    inputs: &[Option<&Tensor>],
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Tensor>, String> {
    match told_shape(step, inputs) {
        Some(shape) => match Tensor::zeros(DType::F32, &shape) {
            Ok(tensor) => Ok(vec![tensor]),
            Err(error) => Err(error.to_string()),
        },
        None => library::evaluate(step, inputs, goes_on),
    }
}

/// True if an operator only makes sizes that kernels compute known, as the shape of a tensor that has no elements. That
/// takes no definition.
fn tells_sizes(program: &Program, step: &Host) -> bool {
    let has_no_elements = |slot: &Option<u32>| match slot.and_then(|slot| program.slots.get(slot as usize)) {
        Some(Slot::Host(made)) => {
            made.dtype == DType::F32 && made.shape.iter().any(|extent| extent.as_const() == Some(0))
        }
        _ => false,
    };
    is_shaping(step) && step.outputs.len() == 1 && step.outputs.iter().all(has_no_elements)
}

fn is_shaping(step: &Host) -> bool {
    let is_plain = step.domain.is_empty() && step.attributes.is_empty() && step.graphs.is_empty();
    step.op_type == "ConstantOfShape" && is_plain
}

/// The shape that [`tells_sizes`] is about; `None` if there would be elements.
fn told_shape(step: &Host, inputs: &[Option<&Tensor>]) -> Option<Vec<usize>> {
    let [Some(extents)] = inputs else { return None };
    let extents = extents.elements::<i64>().ok().filter(|_| is_shaping(step))?;
    let shape: Vec<usize> = extents.iter().map(|&extent| usize::try_from(extent).ok()).collect::<Option<_>>()?;
    shape.contains(&0).then_some(shape)
}

/// Fails if a variant has host steps that this build cannot evaluate, custom operators aside.
pub(crate) fn check(body: &VariantBody, custom_ops: &[String]) -> Result<(), RuntimeError> {
    let mut missing: Vec<String> = Vec::new();
    let steps = body.programs.iter().flat_map(|program| program.steps.iter().map(move |step| (program, step)));
    for (program, step) in steps {
        let Step::Host(host) = step else { continue };
        let is_compiled = host.body.as_ref().is_some_and(|body| !body.may_fail);
        if !is_compiled
            && !tells_sizes(program, host)
            && !library::knows(host)
            && !custom_ops.contains(&operator_name(host))
        {
            let domain = if host.domain.is_empty() { "ai.onnx" } else { &host.domain };
            let name = format!("{domain}.{} (opset {})", host.op_type, host.opset);
            if !missing.contains(&name) {
                missing.push(name);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(RuntimeError::HostOps { names: missing.join(", "), has_library: library::IS_THERE })
}

#[cfg(feature = "host-ops")]
mod library {
    use infc_artifact::Host;
    use infc_reference::Node;
    use infc_tensor::Tensor;

    pub(super) const IS_THERE: bool = true;

    pub(super) fn knows(host: &Host) -> bool {
        let defined =
            |op_type: &str, domain: &str, opset| infc_reference::registry::find(op_type, domain, opset).is_some();
        let mut inner = host.graphs.graphs.iter().flat_map(|graph| &graph.nodes);
        defined(&host.op_type, &host.domain, host.opset) && inner.all(|n| defined(&n.op_type, &n.domain, n.opset))
    }

    pub(super) fn evaluate(
        host: &Host,
        inputs: &[Option<&Tensor>],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Tensor>, String> {
        let node = Node {
            op_type: &host.op_type,
            domain: &host.domain,
            opset: host.opset,
            attributes: &host.attributes,
            num_outputs: host.outputs.len(),
        };
        infc_reference::evaluate_while(&node, &host.graphs, inputs, goes_on).map_err(|error| error.to_string())
    }
}

#[cfg(not(feature = "host-ops"))]
mod library {
    use infc_artifact::Host;
    use infc_tensor::Tensor;

    pub(super) const IS_THERE: bool = false;

    pub(super) fn knows(_host: &Host) -> bool {
        false
    }

    pub(super) fn evaluate(
        _host: &Host,
        _inputs: &[Option<&Tensor>],
        _goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Tensor>, String> {
        Err("this build of the runtime evaluates no operators".to_owned())
    }
}
