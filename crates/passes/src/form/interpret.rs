//! Runs a plan with the kernel interpreter: the definition that compiled kernels are compared with.

use super::FormError;
use super::plan::{GraphPlan, OperandSource, PlannedBind, PlannedHost, PlannedKernel, PlannedStep};
use infc_ir::entity::{EntityId, ValueId};
use infc_ir::graph::Port;
use infc_ir::index::Dim;
use infc_ir::interp::{Host, InterpError, NoHost, evaluate_host, run_kernel, update_late_symbols};
use infc_ir::kernel::OperandKind;
use infc_tensor::{AlignedBytes, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// Why a plan cannot be interpreted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InterpretError {
    /// A kernel cannot be interpreted.
    #[error("kernel `{kernel}`: {source}")]
    Kernel {
        /// Which kernel.
        kernel: String,
        /// What the interpreter said.
        source: InterpError,
    },
    /// The plan does not hold together.
    #[error(transparent)]
    Plan(#[from] FormError),
}

/// What each kernel of the plan reads and writes, step by step.
pub struct Interpreter<'p> {
    plan: &'p GraphPlan,
    symbols: Vec<i64>,
    host: &'p dyn Host,
    /// How many steps of the plan are done.
    done: usize,
    /// Dense tensors of what is computed so far.
    values: BTreeMap<ValueId, Tensor>,
}

impl<'p> Interpreter<'p> {
    /// Starts with the inputs of the model, in order; host operations have no definition.
    #[must_use]
    pub fn new(plan: &'p GraphPlan, symbols: &[i64], inputs: &[Tensor]) -> Self {
        Self::with_host(plan, symbols, inputs, &NoHost)
    }

    /// As [`Interpreter::new`], with somebody to evaluate host operations. The values of symbols that such produce do
    /// not count.
    #[must_use]
    pub fn with_host(plan: &'p GraphPlan, symbols: &[i64], inputs: &[Tensor], host: &'p dyn Host) -> Self {
        let held = |port: &Port, tensor: &Tensor| match port.declared {
            // One value is never too deep, unless the tensor is.
            Some(_) if plan.graph.is_unranked(port) => {
                Tensor::sequence(vec![tensor.clone()]).unwrap_or_else(|_| tensor.clone())
            }
            Some(_) => tensor.as_byte_tensor(),
            None => tensor.clone(),
        };
        let ports = plan.graph.inputs.iter().zip(inputs);
        let values = ports.map(|(port, tensor)| (port.value, held(port, tensor))).collect();
        Self { plan, symbols: symbols.to_vec(), host, done: 0, values }
    }

    /// Runs the n-th kernel and the host operations before it; kernels must be run in order. Returns its outputs in
    /// operand order.
    ///
    /// # Errors
    /// [`InterpretError`] if the plan is wrong or too large to interpret.
    pub fn step(&mut self, n: usize) -> Result<Vec<(ValueId, Tensor)>, InterpretError> {
        self.hosts_before(Some(n))?;
        let planned: &PlannedKernel = &self.plan.kernels[n];
        if !self.is_taken(&planned.guard)? {
            return Ok(Vec::new());
        }
        let mut inputs = Vec::new();
        let mut written = Vec::new();
        for (operand, source) in planned.accesses() {
            match source {
                OperandSource::Value(value) if operand.kind == OperandKind::Output => written.push(*value),
                OperandSource::Value(value) => inputs.push(self.read(*value)?),
                OperandSource::Constant(constant) => {
                    inputs.push(constant.tensor().map_err(|e| malformed(&planned.kernel.name, &e.to_string()))?)
                }
            }
        }
        let outputs = run_kernel(&planned.kernel, &self.symbols, &inputs)
            .map_err(|source| InterpretError::Kernel { kernel: planned.kernel.name.clone(), source })?;
        let results: Vec<(ValueId, Tensor)> = written.into_iter().zip(outputs).collect();
        self.values.extend(results.iter().cloned());
        Ok(results)
    }

    /// Runs all kernels and returns the outputs of the model.
    ///
    /// # Errors
    /// As [`Interpreter::step`].
    pub fn run(mut self) -> Result<Vec<Tensor>, InterpretError> {
        for n in 0..self.plan.kernels.len() {
            self.step(n)?;
        }
        self.hosts_before(None)?;
        let shown = |port: &Port| {
            let held = self.read(port.value)?;
            infc_ir::interp::shown(port, &self.symbols, held).map_err(|e| malformed(&port.name, &e.to_string()))
        };
        self.plan.graph.outputs.iter().map(shown).collect()
    }

    /// Whether all conditions hold as they must.
    fn is_taken(&self, guard: &[(ValueId, bool)]) -> Result<bool, InterpretError> {
        for &(condition, holds) in guard {
            if (self.read(condition)?.get_f64(0) == Some(1.0)) != holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the host operations up to a kernel, or to the end.
    fn hosts_before(&mut self, kernel: Option<usize>) -> Result<(), InterpretError> {
        let plan = self.plan;
        while let Some(&step) = plan.steps.get(self.done) {
            self.done += 1;
            match step {
                PlannedStep::Kernel(n) if Some(n) == kernel => break,
                PlannedStep::Kernel(_) => {}
                PlannedStep::Host(n) => self.host(&plan.hosts[n])?,
                PlannedStep::Bind(n) => self.bind(&plan.binds[n])?,
            }
        }
        Ok(())
    }

    fn bind(&mut self, planned: &PlannedBind) -> Result<(), InterpretError> {
        if !self.is_taken(&planned.guard)? {
            return Ok(());
        }
        for &(symbol, value, axis) in &planned.symbols {
            let extent = self.read(value)?.shape().get(axis as usize).copied();
            let extent = extent.and_then(|extent| i64::try_from(extent).ok());
            match (self.symbols.get_mut(symbol.index()), extent) {
                (Some(slot), Some(extent)) => *slot = extent,
                _ => return Err(malformed(&value.to_string(), "an extent has no value")),
            }
        }
        Ok(())
    }

    fn host(&mut self, planned: &PlannedHost) -> Result<(), InterpretError> {
        if !self.is_taken(&planned.guard)? {
            return Ok(());
        }
        let mut operands = Vec::with_capacity(planned.inputs.len());
        for source in &planned.inputs {
            operands.push(match source {
                OperandSource::Value(value) => self.read(*value)?,
                OperandSource::Constant(constant) => constant.constant.tensor.clone(),
            });
        }
        let graph = &self.plan.graph;
        let results = evaluate_host(&planned.op, &operands, self.host, &graph.symbols, &mut self.symbols);
        update_late_symbols(graph, &mut self.symbols);
        let kernel = || planned.op.op_type.clone();
        let results = results.map_err(|source| InterpretError::Kernel { kernel: kernel(), source })?;
        for (&value, result) in planned.outputs.iter().zip(results) {
            let (ty, shape) = (graph.ty(value), self.shape(&graph.ty(value).shape, value)?);
            if ty.dtype != result.dtype() || shape != result.shape() {
                return Err(malformed(&kernel(), "a result of another type than the model says"));
            }
            self.values.insert(value, result);
        }
        Ok(())
    }

    /// A value, put together from its parts if it is a concatenation.
    ///
    /// # Errors
    /// If it is not computed yet.
    pub fn read(&self, value: ValueId) -> Result<Tensor, InterpretError> {
        if let Some(tensor) = self.values.get(&value) {
            return Ok(tensor.clone());
        }
        if let Some(other) = self.plan.values.get(&value).and_then(|planned| planned.reshape_of) {
            let tensor = self.read(other)?;
            let shape = self.shape(&self.plan.graph.ty(value).shape, value)?;
            let reshaped = Tensor::from_bytes(tensor.dtype(), shape, AlignedBytes::from_slice(tensor.bytes()));
            return reshaped.map_err(|e| malformed(&value.to_string(), &e.to_string()));
        }
        let parts = self.plan.values.iter().filter_map(|(part, planned)| {
            let place = planned.part_of.as_ref().filter(|p| p.whole == value)?;
            Some((*part, place))
        });
        let shape = self.shape(&self.plan.graph.ty(value).shape, value)?;
        let dtype = self.plan.stored_dtype(value);
        let size = dtype.size_bytes().unwrap_or(1);
        let mut bytes = AlignedBytes::zeroed(shape.iter().product::<usize>() * size);
        let mut found = false;
        for (part, place) in parts {
            found |= place.axis.is_some();
            let Some(axis) = place.axis else {
                // One of two branches has computed it.
                match self.read(part) {
                    Ok(tensor) => return Ok(tensor),
                    Err(_) => continue,
                }
            };
            let tensor = self.read(part)?;
            let start = self.shape(std::slice::from_ref(&place.start), value)?[0];
            let inner: usize = shape[axis + 1..].iter().product::<usize>() * size;
            let (row, whole_row) = (tensor.shape()[axis] * inner, shape[axis] * inner);
            let outer: usize = shape[..axis].iter().product();
            for n in 0..outer {
                let to = n * whole_row + start * inner;
                let target = bytes.get_mut(to..to + row);
                let source = tensor.bytes().get(n * row..(n + 1) * row);
                match (target, source) {
                    (Some(target), Some(source)) => target.copy_from_slice(source),
                    _ => return Err(malformed(&value.to_string(), "a part lies outside of its whole")),
                }
            }
        }
        if !found {
            return Err(malformed(&value.to_string(), "read before it is computed"));
        }
        Tensor::from_bytes(dtype, shape, bytes).map_err(|e| malformed(&value.to_string(), &e.to_string()))
    }

    fn shape(&self, dims: &[Dim], value: ValueId) -> Result<Vec<usize>, InterpretError> {
        dims.iter()
            .map(|d| {
                let extent = d.eval(&|s| self.symbols.get(s.0 as usize).copied(), &|_| None);
                extent
                    .and_then(|e| usize::try_from(e).ok())
                    .ok_or_else(|| malformed(&value.to_string(), "an extent has no value"))
            })
            .collect()
    }
}

impl fmt::Debug for Interpreter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter")
            .field("symbols", &self.symbols)
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

fn malformed(place: &str, what: &str) -> InterpretError {
    InterpretError::Plan(FormError::Malformed { place: place.to_owned(), what: what.to_owned() })
}
