//! The Program: the numbered steps that run one entry, over slots of memory.
//!
//! A Program is data, interpreted by the runtime. Steps run in order; parallelism is inside a [`Launch`]. Memory is
//! named by [`Slot`]s: the caller's buffers, the file's weights, and ranges of the session's arena that live from their
//! first step to their last.

use crate::{MemoryPlan, SizeExpr};
use infc_tensor::{Attributes, DType, Subgraphs};
use serde::{Deserialize, Serialize};

/// How one entry is run by one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Program {
    /// The memory that steps name by index.
    pub slots: Vec<Slot>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The finished memory plan of an entry without symbols; `None` if the runtime is to make one per binding.
    pub static_plan: Option<MemoryPlan>,
}

/// A piece of memory. The order of the variants is part of the file format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// The caller's buffer for the input of this index; never written.
    Input(u32),
    /// The caller's (or session's) buffer for the output of this index.
    Output(u32),
    /// The weight of this index; never written.
    Weight(u32),
    /// A range of the arena.
    Arena(ArenaSlot),
    /// What a [`Host`] step makes, in memory of its own.
    Host(HostSlot),
}

/// A tensor that a [`Host`] step makes. Data is dense and row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSlot {
    /// The element type.
    pub dtype: DType,
    /// The extents; what the step makes is checked against them as soon as their symbols are bound.
    pub shape: Vec<SizeExpr>,
}

/// A value that lives in the arena for some steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaSlot {
    /// Its size.
    pub size_bytes: SizeExpr,
    /// The first step that touches it (it is not zeroed before).
    pub first_step: u32,
    /// The last step that touches it.
    pub last_step: u32,
    /// In-place reuse: it begins at the same address as this earlier arena slot, and whoever says so knows that the
    /// steps touching both are right with that.
    pub alias: Option<u32>,
}

/// One step of a Program.
///
/// In the file each step is a code number and a body, so an older runtime can name a step it does not know. The codes
/// (see `wire`) are never reused; 4 is spoken for by loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Step {
    /// Runs a kernel over all its chunks. Code 0.
    Launch(Launch),
    /// Copies bytes, where an output is just an input or a weight. Code 1.
    Copy(Copy),
    /// Gives symbols values that earlier steps have computed. Code 2.
    Bind(Bind),
    /// Runs some of the steps that follow, as a condition says. Code 3.
    If(If),
    /// Evaluates an ONNX operator by its definition, outside of the artifact's code. Code 5; 8 if it holds graphs.
    Host(Host),
    /// Ends the run with an error unless sizes are as they must be. Code 6.
    Require(Require),
    /// Gives an output what a host step has made, where no kernel writes it: strings, narrow numbers. Code 7.
    Give(Give),
}

/// An output that is what a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Give {
    /// Index of a [`Slot::Host`] or [`Slot::Input`].
    pub slot: u32,
    /// Index into [`Entry::outputs`](crate::Entry::outputs).
    pub output: u32,
}

/// A kernel with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Index into [`VariantBody::kernels`](crate::VariantBody::kernels).
    pub kernel: u32,
    /// The buffers: the first words of the kernel's argument block, each an address.
    pub args: Vec<Arg>,
    /// The words after the buffers: symbol values, or sizes computed from them. On a processor one zero word, reserved
    /// for a barrier, follows.
    pub values: Vec<SizeExpr>,
    /// Length of the flattened parallel axis; the kernel is called on ranges of `0..chunks`. Zero does nothing.
    pub chunks: SizeExpr,
    /// Where chunks read what others write: so many make a step, and a chunk may run when those of all steps before have.
    /// Without it chunks are independent. Kept beside the other fields, as a step of another code ([`crate::wire`]).
    #[serde(skip)]
    pub step_chunks: Option<SizeExpr>,
    /// Blocks along x, y and z of a launch on a GPU, where `chunks` is their product; there is no block where one of them
    /// is zero. `None` on a processor. Kept beside the other fields, as `step_chunks` is.
    #[serde(skip)]
    pub grid: Option<[SizeExpr; 3]>,
    /// Memory that each thread gets for itself, 64-byte aligned, with unknown contents. On a GPU it is memory for the launch
    /// as a whole, whose address is the parameter behind the buffers unless this is the constant 0.
    pub scratch_bytes: SizeExpr,
}

/// A buffer argument of a [`Launch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arg {
    /// Index into [`Program::slots`].
    pub slot: u32,
    /// Where in the slot the buffer starts.
    pub offset_bytes: SizeExpr,
    /// What the kernel does with it.
    pub access: Access,
}

impl Arg {
    /// The kernel reads the slot.
    #[must_use]
    pub fn read(slot: u32) -> Self {
        Self { slot, offset_bytes: SizeExpr::constant(0), access: Access::Read }
    }

    /// The kernel writes the slot.
    #[must_use]
    pub fn write(slot: u32) -> Self {
        Self { slot, offset_bytes: SizeExpr::constant(0), access: Access::Write }
    }

    /// The kernel reads the slot and writes it.
    #[must_use]
    pub fn update(slot: u32) -> Self {
        Self { slot, offset_bytes: SizeExpr::constant(0), access: Access::ReadWrite }
    }

    /// The same buffer, starting further on.
    #[must_use]
    pub fn at(self, offset_bytes: SizeExpr) -> Self {
        Self { offset_bytes, ..self }
    }
}

/// What a kernel does with a buffer. The order of the variants is part of the file format.
#[derive(Clone, std::marker::Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Only reads.
    Read,
    /// Only writes.
    Write,
    /// Reads and writes.
    ReadWrite,
}

impl Access {
    /// True unless the buffer is only written.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// True unless the buffer is only read.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A copy of bytes from the start of one slot to the start of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// Index of the slot read.
    pub src: u32,
    /// Index of the slot written.
    pub dst: u32,
    /// How many bytes.
    pub size_bytes: SizeExpr,
}

/// A choice: the next `then_steps` steps run if the condition holds, else the `else_steps` steps behind those. Both may
/// contain choices of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct If {
    /// Index of the slot whose first byte is the condition: it holds unless that is zero.
    pub condition: u32,
    /// See the type.
    pub then_steps: u32,
    /// See the type.
    pub else_steps: u32,
}

/// What must hold of two sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Require {
    /// Two sizes.
    pub left: SizeExpr,
    /// See `left`.
    pub right: SizeExpr,
    /// Whether they must be equal, or must differ.
    pub equal: bool,
    /// What they are, for people.
    pub what: String,
}

/// Symbols of the entry that no input tells. A Program is planned in segments: sizes that depend on such symbols are
/// evaluated, and their memory is found, when this step is done. Each is bound by one such step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Which symbols, and where their values are.
    pub symbols: Vec<BindSymbol>,
}

/// A symbol with the place of its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindSymbol {
    /// Index into [`Entry::symbols`](crate::Entry::symbols).
    pub symbol: u32,
    /// Where its value is.
    pub from: BindFrom,
}

/// Where the value of a symbol is. The order of the variants is part of the file format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindFrom {
    /// The extent of an axis of what is in a [`Slot::Host`].
    Axis {
        /// Index of the slot.
        slot: u32,
        /// The axis.
        axis: u32,
    },
}

/// An ONNX operator with its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The operator: `NonMaxSuppression`.
    pub op_type: String,
    /// Its domain; empty for ONNX's own.
    pub domain: String,
    /// The version of the domain.
    pub opset: i64,
    /// Its attributes but for graphs.
    pub attributes: Attributes,
    /// The graphs that it holds. In the file they stand behind the other fields.
    #[serde(skip)]
    pub graphs: Subgraphs,
    /// Of a `Loop`, the entry that computes one step of it. In the file it stands behind all other fields.
    #[serde(skip)]
    pub body: Option<LoopBody>,
    /// Per input of the operator what it reads; `None` where it is left out. Then the values that its graphs take from
    /// around it.
    pub inputs: Vec<Option<HostArg>>,
    /// Per output the [`Slot::Host`] that keeps it; `None` where nobody reads it.
    pub outputs: Vec<Option<u32>>,
    /// The ONNX nodes that it stands for.
    pub origins: Vec<String>,
    /// Why no kernel computes it.
    pub reason: String,
}

/// The entry that computes one step of a `Loop`, which a runtime may run in the place of the loop's graph; both compute the same.
///
/// Its inputs are the number of the step (i64, no axes), whether the loop goes on (bool, no axes), the states, and what it reads
/// from around the loop; its outputs whether the loop goes on (bool, one element), the states, and what a step adds to the other
/// outputs of the loop. Extents of states may be others in each step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopBody {
    /// Index of the entry, which stands behind that of the Program.
    pub entry: u32,
    /// What it reads behind the states: positions in [`Host::inputs`].
    pub captures: Vec<u32>,
    /// How many states there are: the inputs of the operator behind the count and the condition.
    pub states: u32,
    /// Whether the loop may have to be evaluated by its graph: where extents are not what the entry takes for granted.
    pub may_fail: bool,
}

impl Host {
    /// As [`Subgraphs::innermost_operator`].
    #[must_use]
    pub fn innermost_operator(&self) -> &str {
        self.graphs.innermost_operator(&self.op_type)
    }
}

/// An operand of a [`Host`] step: dense and row-major, from the start of the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostArg {
    /// Index of the slot.
    pub slot: u32,
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<SizeExpr>,
}

impl Step {
    /// The slots the step touches, with what it does to them.
    pub fn accesses(&self) -> impl Iterator<Item = (u32, Access)> + '_ {
        let (args, copy, condition): (&[Arg], Option<&Copy>, Option<u32>) = match self {
            Step::Launch(launch) => (&launch.args, None, None),
            Step::Copy(copy) => (&[], Some(copy), None),
            Step::If(choice) => (&[], None, Some(choice.condition)),
            Step::Require(_) | Step::Bind(_) | Step::Host(_) | Step::Give(_) => (&[], None, None),
        };
        let host = if let Step::Host(host) = self { Some(host) } else { None };
        let read = host.into_iter().flat_map(|h| h.inputs.iter().flatten().map(|arg| (arg.slot, Access::Read)));
        let made = host.into_iter().flat_map(|h| h.outputs.iter().flatten().map(|&slot| (slot, Access::Write)));
        let bound = if let Step::Bind(bind) = self { &bind.symbols[..] } else { &[] };
        let bound = bound.iter().map(|b| (b.from.slot(), Access::Read));
        let given = if let Step::Give(give) = self { Some((give.slot, Access::Read)) } else { None };
        let condition = condition.into_iter().map(|slot| (slot, Access::Read));
        let copied = copy.into_iter().flat_map(|c| [(c.src, Access::Read), (c.dst, Access::Write)]);
        args.iter()
            .map(|arg| (arg.slot, arg.access))
            .chain(copied)
            .chain(condition)
            .chain(read)
            .chain(made)
            .chain(bound)
            .chain(given)
    }
}
