//! The graph plan: kernels in order, where every value lies, and how constants are packed.

use super::append::PlannedState;
use super::log::PlanLog;
use super::narrow;
use crate::formulate::FilterTransform;
use crate::graph::{PassError, evaluate};
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, OperandId, SymbolId, ValueId};
use infc_ir::graph::{Graph, Requirement};
use infc_ir::index::Dim;
use infc_ir::kernel::{Kernel, Layout};
use infc_ir::op::{ConstantOp, HostOp, ViewOp};
use infc_ir::scalar::Const;
use infc_tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// All kernels of a graph, and the memory between them.
#[derive(Clone, Debug)]
pub struct GraphPlan {
    /// The graph that is planned, composites written out. Value and node ids of the plan are those of this graph.
    pub graph: Graph,
    /// In an order in which they can run.
    pub kernels: Vec<PlannedKernel>,
    /// What the host library computes, in an order in which it can run.
    pub hosts: Vec<PlannedHost>,
    /// Symbols that choices tell their values.
    pub binds: Vec<PlannedBind>,
    /// All kernels, host operations and such symbols, in an order in which they can run.
    pub steps: Vec<PlannedStep>,
    /// Every value that lies in memory.
    pub values: BTreeMap<ValueId, PlannedValue>,
    /// What the values lie in.
    pub buffers: Vec<PlannedBuffer>,
    /// What is carried from run to run. The input of a state that grows in place lies where the output begins.
    pub states: Vec<PlannedState>,
    /// What must hold of the symbols, and under which conditions ([`PlannedKernel::guard`]).
    pub requires: Vec<(Vec<(ValueId, bool)>, Requirement)>,
    /// Fusions that were refused.
    pub log: PlanLog,
}

/// A kernel with its operands.
#[derive(Clone, Debug)]
pub struct PlannedKernel {
    /// What to compute. Operands carry the layouts of the values they stand for.
    pub kernel: Kernel,
    /// Per operand.
    pub operands: Vec<OperandSource>,
    /// The ONNX nodes it computes, sorted.
    pub origins: Vec<String>,
    /// How many nodes of the graph it computes.
    pub fused_nodes: usize,
    /// The conditions under which it is run, from the outermost inwards: values of the plan, bools without axes, and
    /// whether they must hold or not.
    pub guard: Vec<(ValueId, bool)>,
    /// Outputs that may be written onto an input which nobody needs afterwards: `(input, output)`.
    pub in_place: Vec<(OperandId, OperandId)>,
}

/// A host operation with its operands, which are dense and row-major.
#[derive(Clone, Debug)]
pub struct PlannedHost {
    /// What to compute.
    pub op: Arc<HostOp>,
    /// What it reads: one for each input that is given.
    pub inputs: Vec<OperandSource>,
    /// What it makes: one for each output that is asked for.
    pub outputs: Vec<ValueId>,
    /// The ONNX nodes it stands for, sorted.
    pub origins: Vec<String>,
    /// As [`PlannedKernel::guard`].
    pub guard: Vec<(ValueId, bool)>,
}

/// One step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedStep {
    /// Index into [`GraphPlan::kernels`].
    Kernel(usize),
    /// Index into [`GraphPlan::hosts`].
    Host(usize),
    /// Index into [`GraphPlan::binds`].
    Bind(usize),
}

/// Symbols that get their values from the results of a choice, which a host operation of the branch that is taken makes.
#[derive(Clone, Debug)]
pub struct PlannedBind {
    /// The symbol, the value, and the axis of the value whose extent it is.
    pub symbols: Vec<(SymbolId, ValueId, u32)>,
    /// As [`PlannedKernel::guard`].
    pub guard: Vec<(ValueId, bool)>,
}

/// What an operand of a kernel is.
#[derive(Clone, Debug)]
pub enum OperandSource {
    /// A value of the plan.
    Value(ValueId),
    /// A constant.
    Constant(PackedConstant),
}

/// A constant as a kernel wants to read it.
#[derive(Clone, Debug)]
pub struct PackedConstant {
    /// The value in the plan's graph.
    pub value: ValueId,
    /// Its elements as they are.
    pub constant: Arc<ConstantOp>,
    /// How they are arranged; `None` for row-major as they are.
    pub packing: Option<Packing>,
}

/// An arrangement of a constant: a view of it, perhaps after a transform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    /// What is computed of the constant before it is arranged.
    pub transform: Option<FilterTransform>,
    /// From packed coordinates to those of the constant, transformed; where it is not valid, there are zeros.
    pub map: AccessMap,
    /// The packed extents; numbers.
    pub shape: Vec<Dim>,
    /// A narrower type that holds all the numbers as they are, in which they are stored.
    pub narrow: Option<DType>,
    /// For people, such as `panels[N/16][K][16]`.
    pub layout: String,
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedValue {
    /// Index into [`GraphPlan::buffers`].
    pub buffer: usize,
    /// Where in the buffer; its offset counts from the start of the buffer.
    pub layout: Layout,
    /// If the value is a part of a concatenation and lies inside of the whole.
    pub part_of: Option<Part>,
    /// If the value lies in the memory of another, of which it is a reshape.
    pub reshape_of: Option<ValueId>,
}

impl PlannedValue {
    /// Whether it is what its buffer was made for.
    #[must_use]
    pub fn owns_its_buffer(&self) -> bool {
        self.part_of.is_none() && self.reshape_of.is_none()
    }
}

/// A place in a whole: in a concatenation, or all of a value that one of two branches computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The whole.
    pub whole: ValueId,
    /// The axis of the concatenation; `None` if each part is all of it.
    pub axis: Option<usize>,
    /// Where the part begins.
    pub start: Dim,
}

/// Whose memory a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferPlace {
    /// The caller's, for the n-th input.
    Input(usize),
    /// The caller's, for the n-th output.
    Output(usize),
    /// Ours.
    Arena,
    /// That of what a host operation makes.
    Host,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBuffer {
    /// See [`BufferPlace`].
    pub place: BufferPlace,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len_elems: Dim,
}

impl PackedConstant {
    /// The elements as the kernel reads them.
    ///
    /// # Errors
    /// If the packing reads outside of the constant, or its transform does not fit, which is an error of who made it.
    pub fn tensor(&self) -> Result<Tensor, PassError> {
        let Some(packing) = &self.packing else { return Ok(self.constant.tensor.clone()) };
        let malformed = |expected| PassError::Malformed { node: NodeId(0), expected };
        let transformed = match &packing.transform {
            Some(transform) => {
                let result = transform.apply(&self.constant.tensor);
                Some(result.ok_or_else(|| malformed("a filter that fits its transform"))?)
            }
            None => None,
        };
        let dtype = self.constant.tensor.dtype();
        let view = ViewOp { map: packing.map.clone(), shape: packing.shape.clone(), otherwise: Const::zero(dtype) };
        let packed = evaluate::view(NodeId(0), &view, transformed.as_ref().unwrap_or(&self.constant.tensor))?;
        let packed = packed.ok_or_else(|| malformed("a packing of constant size"))?;
        match packing.narrow {
            Some(dtype) => narrow::converted(&packed, dtype).ok_or_else(|| malformed("numbers that the type holds")),
            None => Ok(packed),
        }
    }
}

impl Packing {
    /// Row-major, of a constant of that shape.
    pub(super) fn rows(shape: &[Dim]) -> Self {
        let map = AccessMap::identity(shape.len());
        Self { transform: None, map, shape: shape.to_vec(), narrow: None, layout: String::new() }
    }

    /// Bytes, where the constant's elements have that size unless they are stored narrower; `None` if that is more than there
    /// are numbers for.
    #[must_use]
    pub fn len_bytes(&self, elem_bytes: u64) -> Option<u64> {
        let elem_bytes = self.narrow.and_then(DType::size_bytes).map_or(elem_bytes, |size| size as u64);
        self.shape.iter().try_fold(elem_bytes, |n, d| n.checked_mul(u64::try_from(d.as_const()?).ok()?))
    }
}

impl GraphPlan {
    /// The type in which a value lies in memory: that of the graph, or a half type that holds all its numbers.
    #[must_use]
    pub fn stored_dtype(&self, value: ValueId) -> DType {
        let stored = self.values.get(&value).and_then(|planned| self.buffers.get(planned.buffer));
        stored.map_or_else(|| self.graph.ty(value).dtype, |buffer| buffer.dtype)
    }

    /// Whether an operation of the host only makes sizes that kernels compute known, as the shape of a value without
    /// elements: it computes nothing.
    #[must_use]
    pub fn tells_sizes(&self, host: &PlannedHost) -> bool {
        let is_empty = |&output: &ValueId| self.graph.ty(output).shape.iter().any(|extent| extent.is_const(0));
        host.op.is_shaping() && host.outputs.iter().all(is_empty)
    }

    /// The conditions under which a step is run.
    #[must_use]
    pub fn guard(&self, step: PlannedStep) -> &[(ValueId, bool)] {
        match step {
            PlannedStep::Kernel(n) => &self.kernels[n].guard,
            PlannedStep::Host(n) => &self.hosts[n].guard,
            PlannedStep::Bind(n) => &self.binds[n].guard,
        }
    }
}

impl PlannedKernel {
    /// The values and constants it reads, and the values it writes.
    pub fn accesses(&self) -> impl Iterator<Item = (&infc_ir::kernel::Operand, &OperandSource)> {
        self.kernel.operands.iter().zip(&self.operands)
    }
}

impl fmt::Display for GraphPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "buffer {n}: {:?} {}[{}]", buffer.place, buffer.dtype, buffer.len_elems)?;
        }
        for (value, planned) in &self.values {
            let strides: Vec<String> = planned.layout.strides.iter().map(ToString::to_string).collect();
            write!(f, "value {value}: buffer {} + {}", planned.buffer, planned.layout.offset)?;
            write!(f, " strides [{}] halo {:?}", strides.join(", "), planned.layout.halo)?;
            if planned.layout.fill != 0 {
                write!(f, " of {}", planned.layout.fill)?;
            }
            match (&planned.part_of, planned.reshape_of) {
                (Some(part), _) => writeln!(f, " part of {} at {}", part.whole, part.start)?,
                (None, Some(other)) => writeln!(f, " as {other}")?,
                (None, None) => writeln!(f)?,
            }
        }
        for (n, kernel) in self.kernels.iter().enumerate() {
            write!(f, "kernel {n} {} of {}", kernel.kernel.name, kernel.origins.join(", "))?;
            for (condition, holds) in &kernel.guard {
                write!(f, " if {}{condition}", if *holds { "" } else { "not " })?;
            }
            writeln!(f)?;
            for (operand, source) in kernel.accesses() {
                let shape: Vec<String> = operand.shape.iter().map(ToString::to_string).collect();
                write!(f, "  {} {}[{}] = ", operand.name, operand.dtype, shape.join(", "))?;
                match source {
                    OperandSource::Value(value) => writeln!(f, "{value}")?,
                    OperandSource::Constant(c) => {
                        let layout = c.packing.as_ref().map_or("", |p| p.layout.as_str());
                        write!(f, "constant {:?} {layout}", c.constant.name)?;
                        match c.packing.as_ref().and_then(|p| p.transform.as_ref()) {
                            Some(transform) => writeln!(f, " of {transform}")?,
                            None => writeln!(f)?,
                        }
                    }
                }
            }
        }
        for (n, host) in self.hosts.iter().enumerate() {
            let position = self.steps.iter().position(|step| *step == PlannedStep::Host(n)).unwrap_or(0);
            write!(f, "host {n} (step {position}) {} of {}", host.op.op_type, host.origins.join(", "))?;
            let list = |values: &[String]| values.join(", ");
            let inputs: Vec<String> = host
                .inputs
                .iter()
                .map(|source| match source {
                    OperandSource::Value(value) => value.to_string(),
                    OperandSource::Constant(c) => format!("constant {:?}", c.constant.name),
                })
                .collect();
            let outputs: Vec<String> = host.outputs.iter().map(ToString::to_string).collect();
            writeln!(f, ": {} from {}; {}", list(&outputs), list(&inputs), host.op.reason)?;
        }
        write!(f, "{}", self.log)
    }
}
