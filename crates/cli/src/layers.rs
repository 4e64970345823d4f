//! Fused kernel by fused kernel: what an artifact's kernels write, beside what the interpreter makes of the same plan.
//!
//! The model is planned again, in the same way, and the plan is interpreted in step with a run: after each launch the
//! interpreter computes that one kernel, and what it says is compared with the memory that the launch has written. So
//! fusion stays as it is, and no more is kept than the interpreter needs: the run waits until it has caught up.

use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::Failure;
use infc::{GraphPlan, Interpreter};
use infc_artifact::{BindingSource, Entry, Program, Slot, Step};
use infc_ir::entity::ValueId;
use infc_ir::index::Dim;
use infc_ir::interp::Host;
use infc_ir::op::HostOp;
use infc_reference::Node;
use infc_runtime::{Event, Model, Observer, RunOptions, SessionOptions};
use infc_tensor::{AlignedBytes, Tensor, integer_element};
use serde::Serialize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What a kernel wrote to one value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Layer {
    /// Index of the launch.
    pub(crate) step: usize,
    pub(crate) kernel: String,
    /// The dims and values that it is made for; `None` of the general case.
    pub(crate) special_case: Option<String>,
    /// The ONNX nodes that the kernel computes.
    pub(crate) origins: Vec<String>,
    #[serde(flatten)]
    pub(crate) agreement: Agreement,
}

/// The memory that a launch has written: one copy per value.
struct Written {
    /// Which of the plan's kernels it was.
    kernel: usize,
    slots: Vec<Vec<u8>>,
}

/// Copies what launches write and hands it over; waits if the one before has not been looked at.
struct Recorder {
    /// The entry that is looked at.
    entry: usize,
    /// Per step, if it is a launch, the kernel of the plan and the slots that it writes.
    wanted: Vec<Option<(usize, Vec<usize>)>>,
    sender: Mutex<SyncSender<Written>>,
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        let Event::Step(step) = event else { return };
        // Steps of loops are of other entries.
        let of_entry = self.wanted.get(step.step).filter(|_| step.entry == self.entry);
        let Some(Some((kernel, wanted))) = of_entry else { return };
        let slots = wanted.iter().map(|&slot| step.slot_bytes(slot).unwrap_or_default().into_owned()).collect();
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody listens any more after an error, which is told already.
        let _ = sender.send(Written { kernel: *kernel, slots });
    }
}

/// Runs the artifact on `inputs` and compares every kernel with the interpreter of its plan, of which there is one per
/// entry: that of the special case which fits the inputs, if there is one, and that of the general case, or, if neither is
/// for the extents that a run tells, that of the entry which takes less for granted.
pub(crate) fn check(
    plans: &[&GraphPlan],
    model: &Model,
    inputs: &[Tensor],
    tolerance: Tolerance,
) -> Result<Vec<Layer>, Failure> {
    let manifest = model.manifest();
    let symbols = symbol_values(model.default_entry(), inputs);
    let special = manifest.special_cases(0).find(|(_, case)| case.fits(&symbols)).map(|(index, _)| index);
    let takes_less = manifest.special_cases(0).find(|(_, case)| case.takes_less()).map(|(index, _)| index);
    let mut layers = Vec::new();
    for entry in special.into_iter().chain([0]).chain(takes_less) {
        if Some(entry) == takes_less && !layers.is_empty() {
            break;
        }
        let may_fail = takes_less.is_some_and(|less| less != entry) || (entry == 0 && special.is_some());
        let of_entry = match check_entry(plans, model, entry, inputs, tolerance) {
            Err(failure) if may_fail && failure.is_of_dims() => continue,
            of_entry => of_entry?,
        };
        let case = manifest.special_case_text(entry);
        layers.extend(of_entry.into_iter().map(|layer| Layer { special_case: case.clone(), ..layer }));
    }
    Ok(layers)
}

/// The same for the entry of an index.
fn check_entry(
    plans: &[&GraphPlan],
    model: &Model,
    entry: usize,
    inputs: &[Tensor],
    tolerance: Tolerance,
) -> Result<Vec<Layer>, Failure> {
    let program = model.variant().programs.get(entry).ok_or_else(|| other_model("entries", entry + 1, 0))?;
    let plan = *plans.get(entry).ok_or_else(|| other_model("entries", entry + 1, plans.len()))?;
    same_plan(plan, program)?;
    let written: Vec<Vec<ValueId>> = plan.kernels.iter().map(outputs_of).collect();
    let slot_of = |value: &ValueId| plan.values.get(value).map(|planned| planned.buffer);
    // Launches are in the order of the plan's kernels; between them stand choices.
    let mut kernels = written.iter().enumerate();
    let wanted = program
        .steps
        .iter()
        .map(|step| {
            let (kernel, values) = matches!(step, Step::Launch(_)).then(|| kernels.next()).flatten()?;
            Some((kernel, values.iter().filter_map(slot_of).collect()))
        })
        .collect();
    // One waiting, one being interpreted: that is all the memory this takes.
    let (sender, receiver) = sync_channel(1);
    let recorder = Recorder { entry, wanted, sender: Mutex::new(sender) };
    let name = Some(model.manifest().entries[entry].name.clone());
    let options =
        SessionOptions { entry: name, general_only: true, observer: Some(Arc::new(recorder)), ..Default::default() };
    let session = model.session(&options)?;
    drop(options);
    let symbols = symbol_values(session.entry(), inputs);
    std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            // The session, and with it the sender, goes when the run is over.
            let mut session = session;
            session.advance(&inputs.iter().map(Some).collect::<Vec<_>>(), &RunOptions::default()).map(drop)
        });
        let compared = compare(plan, &written, &symbols, inputs, receiver, tolerance);
        let ran = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ran?;
        Ok(compared?)
    })
}

/// The reference as the definition of host operations.
struct Definitions;

impl Host for Definitions {
    fn evaluate(&self, op: &HostOp, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        let HostOp { op_type, domain, opset, attributes, graphs, outputs, .. } = op;
        let node = Node { op_type, domain, opset: *opset, attributes, num_outputs: outputs.len() };
        infc_reference::evaluate_with(&node, graphs, inputs).map_err(|error| error.to_string())
    }
}

/// Interprets the plan kernel by kernel, as the run gets on.
fn compare(
    plan: &GraphPlan,
    written: &[Vec<ValueId>],
    symbols: &[i64],
    inputs: &[Tensor],
    receiver: Receiver<Written>,
    tolerance: Tolerance,
) -> Result<Vec<Layer>, CliError> {
    let mut interpreter = Interpreter::with_host(plan, symbols, inputs, &Definitions);
    let mut layers = Vec::new();
    for Written { kernel: step, slots } in receiver {
        let planned = &plan.kernels[step];
        let cannot =
            |reason: String| CliError::CannotEvaluate { node: format!("kernel `{}`", planned.kernel.name), reason };
        let expected = interpreter.step(step).map_err(|error| cannot(error.to_string()))?;
        for (value, bytes) in written[step].iter().zip(&slots) {
            let Some((_, expected)) = expected.iter().find(|(id, _)| id == value) else { continue };
            let found = gather(plan, *value, expected, bytes, symbols);
            let found = found.ok_or_else(|| cannot("its output lies outside of its memory".to_owned()))?;
            let agreement = Agreement::of(&found, expected, tolerance);
            let (kernel, origins) = (planned.kernel.name.clone(), planned.origins.clone());
            layers.push(Layer { step, kernel, special_case: None, origins, agreement });
        }
    }
    Ok(layers)
}

/// The values that a kernel writes, in the order of its operands.
fn outputs_of(planned: &infc_passes::form::PlannedKernel) -> Vec<ValueId> {
    use infc_ir::kernel::OperandKind;
    use infc_passes::form::OperandSource;
    let outputs = planned.accesses().filter(|(operand, _)| operand.kind == OperandKind::Output);
    outputs
        .filter_map(|(_, source)| if let OperandSource::Value(value) = source { Some(*value) } else { None })
        .collect()
}

/// Whether the plan is the one that the Program was made from.
fn same_plan(plan: &GraphPlan, program: &Program) -> Result<(), CliError> {
    let launches = program.steps.iter().filter(|step| matches!(step, Step::Launch(_))).count();
    if launches != plan.kernels.len() {
        return Err(other_model("kernels", plan.kernels.len(), launches));
    }
    let memory = program.slots.iter().filter(|slot| !matches!(slot, Slot::Weight(_))).count();
    if memory != plan.buffers.len() {
        return Err(other_model("buffers", plan.buffers.len(), memory));
    }
    Ok(())
}

fn other_model(what: &str, expected: usize, found: usize) -> CliError {
    CliError::OtherModel { what: what.to_owned(), expected: expected.to_string(), found: found.to_string() }
}

/// The values of the symbols, as the inputs say.
pub(crate) fn symbol_values(entry: &Entry, inputs: &[Tensor]) -> Vec<i64> {
    let mut symbols = vec![0; entry.symbols.len()];
    for binding in &entry.bindings {
        let value = match &binding.source {
            BindingSource::Axis { input, axis } | BindingSource::State { input, axis, .. } => {
                let extent = inputs.get(*input as usize).and_then(|tensor| tensor.shape().get(*axis as usize));
                extent.map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX))
            }
            BindingSource::Element { input, index } => {
                let tensor = inputs.get(*input as usize);
                tensor.and_then(|t| integer_element(t.dtype(), t.bytes(), *index as usize))
            }
            BindingSource::Nearest { input, index } => {
                let spec = &entry.symbols[binding.symbol as usize];
                let tensor = inputs.get(*input as usize);
                let found = tensor.and_then(|t| integer_element(t.dtype(), t.bytes(), *index as usize));
                found.map(|value| spec.nearest(value))
            }
            BindingSource::Computed(value) => value.eval(&symbols).ok(),
        };
        if let (Some(symbol), Some(value)) = (symbols.get_mut(binding.symbol as usize), value) {
            *symbol = value;
        }
    }
    symbols
}

/// A value as a dense tensor of the type and shape of `like`, from the buffer that it lies in with strides and halo.
fn gather(plan: &GraphPlan, value: ValueId, like: &Tensor, buffer: &[u8], symbols: &[i64]) -> Option<Tensor> {
    let layout = &plan.values.get(&value)?.layout;
    let eval = |dim: &Dim| dim.eval(&|symbol| symbols.get(symbol.0 as usize).copied(), &|_| None);
    let strides: Vec<i64> = layout.strides.iter().map(eval).collect::<Option<_>>()?;
    let mut at = eval(&layout.offset)?;
    let size = like.dtype().size_bytes()?;
    let mut bytes = AlignedBytes::zeroed(like.bytes().len());
    let mut index = vec![0usize; like.rank()];
    for element in bytes.chunks_exact_mut(size) {
        let start = usize::try_from(at).ok()?.checked_mul(size)?;
        element.copy_from_slice(buffer.get(start..start.checked_add(size)?)?);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            at = at.checked_add(strides[axis])?;
            if index[axis] < like.shape()[axis] {
                break;
            }
            at = at.checked_sub(strides[axis].checked_mul(i64::try_from(index[axis]).ok()?)?)?;
            index[axis] = 0;
        }
    }
    Tensor::from_bytes(like.dtype(), like.shape().to_vec(), bytes).ok()
}
