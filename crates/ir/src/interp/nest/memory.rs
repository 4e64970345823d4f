//! Buffers while a nest runs: what is written, by whom, and what is poison.

use super::super::InterpError;
use super::super::array::Array;
use super::super::body::Leaves;
use super::code::eval_dim;
use crate::entity::EntityId;
use crate::kernel::OperandKind;
use crate::nest::{BufferKind, LoopNest};
use crate::scalar::{Scalar, Source};
use crate::schedule::Scope;
use infc_tensor::Tensor;
use std::collections::VecDeque;

/// A local buffer.
#[derive(Clone)]
struct Local {
    array: Array,
    /// Which elements are written since the allocation.
    written: Vec<bool>,
    /// Allocated and not yet gone.
    live: bool,
}

/// A buffer that belongs to the caller.
struct Operand {
    array: Array,
    read_only: bool,
    /// Who wrote each element since the last barrier: `(epoch, agent)`.
    writers: Vec<(u64, u64)>,
}

enum Slot {
    Operand(Operand),
    /// Memory of a thread block.
    Shared(Local),
    /// Each thread has its own.
    PerThread,
}

/// Memory that threads share.
pub(super) struct Memory {
    slots: Vec<Slot>,
    epoch: u64,
}

type At = (usize, i64);

/// A copy that has not happened: to where, from where unless it is of zeros, and how many elements.
type Copy = (At, Option<At>, u32);

/// What belongs to one thread.
#[derive(Clone)]
pub(super) struct Thread {
    pub(super) vars: Vec<i64>,
    /// Who it is when chunks race.
    pub(super) agent: u64,
    locals: Vec<Option<Local>>,
    /// Groups of copies under way, the oldest first.
    copies: VecDeque<Vec<Copy>>,
    /// Copies of no group yet.
    open_copies: Vec<Copy>,
}

/// What a scalar expression sees.
pub(super) struct View<'a> {
    pub(super) memory: &'a Memory,
    pub(super) thread: &'a Thread,
}

impl Memory {
    /// The memory of a nest and a thread that has done nothing yet.
    pub(super) fn new(nest: &LoopNest, symbols: &[i64], buffers: &[Tensor]) -> Result<(Self, Thread), InterpError> {
        let arguments = nest.buffers.iter().filter(|b| matches!(b.kind, BufferKind::Operand { .. })).count();
        if arguments != buffers.len() {
            return Err(InterpError::WrongCount { what: "buffers", expected: arguments, found: buffers.len() });
        }
        let mut slots = Vec::new();
        let mut locals = Vec::new();
        for buffer in nest.buffers.iter() {
            let len = eval_dim(&buffer.name, &buffer.len_elems, symbols)?;
            let local = |array: Array| Local { written: vec![false; array.len()], array, live: false };
            let (slot, own) = match buffer.kind {
                BufferKind::Operand { argument, role, .. } => {
                    let tensor = buffers.get(argument as usize).ok_or_else(|| InterpError::Malformed {
                        place: buffer.name.clone(),
                        what: "an argument number beyond the number of arguments",
                    })?;
                    let flat = tensor.reshaped(&[tensor.len_elems()])?;
                    let array = Array::from_tensor(&buffer.name, buffer.dtype, vec![len], &flat)?;
                    let writers = vec![(0, 0); array.len()];
                    let read_only = role != OperandKind::Output;
                    (Slot::Operand(Operand { array, read_only, writers }), None)
                }
                BufferKind::Local(scope) => {
                    let array = Array::zeros(&buffer.name, buffer.dtype, vec![len])?;
                    match scope {
                        Scope::Shared => (Slot::Shared(local(array)), None),
                        Scope::Register | Scope::Stack | Scope::Scratch => (Slot::PerThread, Some(local(array))),
                    }
                }
            };
            slots.push(slot);
            locals.push(own);
        }
        let vars = vec![0; nest.vars.len()];
        Ok((
            Self { slots, epoch: 1 },
            Thread { vars, agent: 0, locals, copies: VecDeque::new(), open_copies: Vec::new() },
        ))
    }

    /// Copies the operands back to the caller.
    pub(super) fn write_back(&self, nest: &LoopNest, buffers: &mut [Tensor]) -> Result<(), InterpError> {
        for (slot, buffer) in self.slots.iter().zip(nest.buffers.iter()) {
            if let (Slot::Operand(operand), BufferKind::Operand { argument, .. }) = (slot, buffer.kind)
                && !operand.read_only
            {
                let target = &mut buffers[argument as usize];
                let shape = target.shape().to_vec();
                *target = operand.array.to_tensor()?.reshaped(&shape)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_shared(&self, buffer: usize) -> bool {
        matches!(self.slots[buffer], Slot::Shared(_))
    }

    /// All threads meet: what was written before is visible to all.
    pub(super) fn meet(&mut self) {
        self.epoch += 1;
    }

    pub(super) fn alloc(&mut self, thread: &mut Thread, buffer: usize) {
        if let Some(local) = self.local_mut(thread, buffer) {
            local.live = true;
            local.written.fill(false);
        }
    }

    pub(super) fn free(&mut self, thread: &mut Thread, buffers: &[usize]) {
        for &buffer in buffers {
            if let Some(local) = self.local_mut(thread, buffer) {
                local.live = false;
            }
        }
    }

    fn local_mut<'a>(&'a mut self, thread: &'a mut Thread, buffer: usize) -> Option<&'a mut Local> {
        match &mut self.slots[buffer] {
            Slot::Operand(_) => None,
            Slot::Shared(local) => Some(local),
            Slot::PerThread => thread.locals[buffer].as_mut(),
        }
    }

    /// Writes an element.
    pub(super) fn write(
        &mut self,
        thread: &mut Thread,
        buffer: usize,
        at: i64,
        value: Scalar,
    ) -> Result<(), InterpError> {
        let epoch = self.epoch;
        let agent = thread.agent;
        if let Slot::Operand(operand) = &mut self.slots[buffer] {
            let position = position(&operand.array, at, Access::Write)?;
            let name = &operand.array.name;
            if operand.read_only {
                return Err(InterpError::WriteToReadOnly { name: name.clone() });
            }
            let (when, who) = operand.writers[position];
            if when == epoch && who != agent {
                return Err(InterpError::Race { place: String::new(), name: name.clone(), index: at });
            }
            operand.writers[position] = (epoch, agent);
            operand.array.set(position, value);
            return Ok(());
        }
        let local = self.local_mut(thread, buffer).expect("not an operand");
        let position = position(&local.array, at, Access::Write)?;
        if !local.live {
            return Err(not_allocated(&local.array));
        }
        local.written[position] = true;
        local.array.set(position, value);
        Ok(())
    }

    /// Starts a copy; until it is waited for, the elements it will write are poison.
    pub(super) fn start_copy(
        &mut self,
        thread: &mut Thread,
        target: At,
        source: Option<At>,
        len: u32,
    ) -> Result<(), InterpError> {
        for n in 0..i64::from(len) {
            let local = self.local_mut(thread, target.0).ok_or_else(|| InterpError::Malformed {
                place: String::new(),
                what: "an asynchronous copy to an operand",
            })?;
            let position = position(&local.array, target.1.saturating_add(n), Access::Write)?;
            local.written[position] = false;
        }
        thread.open_copies.push((target, source, len));
        Ok(())
    }

    /// The copies started since the last group become one.
    pub(super) fn commit(&mut self, thread: &mut Thread) {
        let group = std::mem::take(&mut thread.open_copies);
        thread.copies.push_back(group);
    }

    /// Finishes groups of copies until at most `pending` are under way.
    pub(super) fn wait(&mut self, thread: &mut Thread, pending: u32) -> Result<(), InterpError> {
        while thread.copies.len() > pending as usize {
            let Some(group) = thread.copies.pop_front() else { break };
            for (target, source, len) in group {
                for n in 0..i64::from(len) {
                    let value = match source {
                        Some((buffer, at)) => View { memory: self, thread }.read(buffer, at.saturating_add(n))?,
                        None => Scalar::Int(0),
                    };
                    self.write(thread, target.0, target.1.saturating_add(n), value)?;
                }
            }
        }
        Ok(())
    }
}

impl View<'_> {
    /// Reads an element.
    pub(super) fn read(&self, buffer: usize, at: i64) -> Result<Scalar, InterpError> {
        let local = match &self.memory.slots[buffer] {
            Slot::Operand(operand) => {
                let position = position(&operand.array, at, Access::Read)?;
                let (when, who) = operand.writers[position];
                if when == self.memory.epoch && who != self.thread.agent {
                    let name = operand.array.name.clone();
                    return Err(InterpError::Race { place: String::new(), name, index: at });
                }
                return Ok(operand.array.get(position));
            }
            Slot::Shared(local) => local,
            Slot::PerThread => self.thread.locals[buffer].as_ref().expect("made for every local buffer"),
        };
        let position = position(&local.array, at, Access::Read)?;
        if !local.live {
            return Err(not_allocated(&local.array));
        }
        if !local.written[position] {
            let name = local.array.name.clone();
            return Err(InterpError::NotYetComputed { reader: String::new(), name, index: vec![at] });
        }
        Ok(local.array.get(position))
    }
}

impl Leaves for View<'_> {
    fn load(&self, source: Source, index: &[i64]) -> Result<Scalar, InterpError> {
        let malformed = |what| InterpError::Malformed { place: String::new(), what };
        let Source::Buffer(buffer) = source else { return Err(malformed("a load from something other than a buffer")) };
        let [at] = *index else { return Err(malformed("a load with other than one index")) };
        if buffer.index() >= self.memory.slots.len() {
            return Err(malformed("a buffer that does not exist"));
        }
        self.read(buffer.index(), at)
    }
}

enum Access {
    Read,
    Write,
}

/// Checks an index. The place is filled in by who knows it.
fn position(array: &Array, at: i64, access: Access) -> Result<usize, InterpError> {
    array.position(&[at]).ok_or_else(|| {
        let (name, index, shape) = (array.name.clone(), vec![at], array.shape.clone());
        match access {
            Access::Read => InterpError::ReadOutOfBounds { reader: String::new(), name, index, shape },
            Access::Write => InterpError::WriteOutOfBounds { writer: String::new(), name, index, shape },
        }
    })
}

fn not_allocated(array: &Array) -> InterpError {
    InterpError::NotAllocated { name: array.name.clone() }
}
