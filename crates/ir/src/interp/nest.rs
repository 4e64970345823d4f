//! The meaning of a loop nest: statements in order on flat buffers, chunk by chunk, lane by lane.
//!
//! It is stricter than the machine, which is how wrong schedules are caught: an index outside of its buffer, an element
//! of a local buffer read before it is written, a loop variable outside of its declared range, a store to a read-only
//! operand, and two chunks that touch the same element without a barrier in between are all errors.
//!
//! What runs between two barriers runs one thread (or chunk) after the other; code that contains a barrier runs for all
//! of them statement by statement.

mod code;
mod memory;

use super::body::Registers;
use super::fold::Scratch;
use super::index_fn::{BoundFn, IndexFn};
use super::{InterpError, check_symbols};
use crate::entity::EntityId;
use crate::nest::{LoopKind, LoopNest};
use crate::scalar::Scalar;
use code::{Block, Code, compile, is_block_dim, is_thread_dim};
use infc_tensor::Tensor;
use memory::{Memory, Thread, View};

/// Runs all chunks of a nest.
///
/// `symbols` has one value per symbol, `buffers` one tensor per buffer argument with as many elements as the buffer.
///
/// # Errors
/// [`InterpError`] for buffers that do not fit and for everything that the module's header lists.
pub fn run_nest(nest: &LoopNest, symbols: &[i64], buffers: &mut [Tensor]) -> Result<(), InterpError> {
    check_symbols(&nest.symbols, symbols)?;
    let block = compile(nest, symbols)?;
    let (mut memory, thread) = Memory::new(nest, symbols, buffers)?;
    let mut machine = Machine { nest, registers: Registers::default(), scratch: Scratch::default(), value: Vec::new() };
    let chunks = match &nest.parallel {
        Some(parallel) => code::eval_dim(&nest.name, &parallel.chunks, symbols)?,
        None => 1,
    };
    let chunk = |machine: &Machine<'_>, n: i64| {
        let mut thread = thread.clone();
        thread.agent = n as u64;
        if let Some(parallel) = &nest.parallel {
            machine.set_var(&mut thread, parallel.var.index(), n)?;
        }
        Ok(thread)
    };
    if block.meets {
        let mut threads = (0..chunks).map(|n| chunk(&machine, n)).collect::<Result<Vec<_>, InterpError>>()?;
        machine.run_together(&block, Group::Chunks, &mut memory, &mut threads)?;
    } else {
        let step_chunks = nest.parallel.as_ref().and_then(|parallel| parallel.step_chunks.as_ref());
        let step = step_chunks.map(|dim| code::eval_dim(&nest.name, dim, symbols)).transpose()?;
        for n in 0..chunks {
            if step.is_some_and(|step| n % step.max(1) == 0) {
                // What the steps before wrote may be read.
                memory.meet();
            }
            let mut thread = chunk(&machine, n)?;
            machine.run_block(&block, &mut memory, &mut thread)?;
        }
    }
    memory.write_back(nest, buffers)
}

/// Who meets at a barrier.
#[derive(Clone, Copy, PartialEq)]
enum Group {
    /// All chunks of the nest.
    Chunks,
    /// The threads of one block.
    Block,
}

impl Group {
    /// True if the group must run this block statement by statement.
    fn meets_in(self, block: &Block) -> bool {
        block.meets || (self == Group::Block && block.threads_meet)
    }
}

/// What does not belong to one thread.
struct Machine<'a> {
    nest: &'a LoopNest,
    registers: Registers,
    scratch: Scratch,
    value: Vec<Scalar>,
}

impl Machine<'_> {
    /// Runs a block that contains no barrier, or whose barriers concern this thread alone.
    fn run_block(&mut self, block: &Block, memory: &mut Memory, thread: &mut Thread) -> Result<(), InterpError> {
        for code in &block.code {
            self.run(code, memory, thread)?;
        }
        memory.free(thread, &block.allocs);
        Ok(())
    }

    fn run(&mut self, code: &Code, memory: &mut Memory, thread: &mut Thread) -> Result<(), InterpError> {
        match code {
            Code::For { kind, body, .. } if is_thread_dim(*kind) && (body.meets || body.threads_meet) => {
                self.run_threads(code, memory, std::slice::from_ref(thread))
            }
            Code::For { var, extent, kind, body } => {
                let extent = self.extent(extent, *kind, thread)?;
                let agent = thread.agent;
                for turn in 0..extent {
                    if is_block_dim(*kind) {
                        thread.agent = agent.wrapping_mul(extent as u64).wrapping_add(turn as u64);
                    }
                    self.set_var(thread, *var, turn)?;
                    self.run_block(body, memory, thread)?;
                }
                thread.agent = agent;
                Ok(())
            }
            Code::Let { var, value } => {
                let value = self.eval(value, thread)?;
                self.set_var(thread, *var, value)
            }
            Code::LetValue { var, value } => {
                value
                    .run(&thread.vars, &[], &View { memory, thread }, &mut self.registers, &mut self.value)
                    .map_err(|e| self.locate(e, thread))?;
                let value = self.value[0].to_i64();
                self.set_var(thread, *var, value)
            }
            Code::If { cond, then, otherwise } => {
                let holds = self.hold(cond, thread)?;
                self.run_block(if holds { then } else { otherwise }, memory, thread)
            }
            Code::Alloc(buffer) => {
                memory.alloc(thread, *buffer);
                Ok(())
            }
            Code::Store { targets, value, valid } => {
                if !self.hold(valid, thread)? {
                    return Ok(());
                }
                value
                    .run(&thread.vars, &[], &View { memory, thread }, &mut self.registers, &mut self.value)
                    .map_err(|e| self.locate(e, thread))?;
                for (n, place) in targets.iter().enumerate() {
                    let at = self.eval(&place.index, thread)?;
                    let written = memory.write(thread, place.buffer, at, self.value[n]);
                    written.map_err(|e| self.locate(e, thread))?;
                }
                Ok(())
            }
            Code::Reduce { targets, value, fold, valid } => {
                if !self.hold(valid, thread)? {
                    return Ok(());
                }
                let mut accumulator = Vec::with_capacity(targets.len());
                let mut places = Vec::with_capacity(targets.len());
                for place in targets {
                    let at = self.eval(&place.index, thread)?;
                    places.push(at);
                    let view = View { memory, thread };
                    accumulator.push(view.read(place.buffer, at).map_err(|e| self.locate(e, thread))?);
                }
                value
                    .run(&thread.vars, &[], &View { memory, thread }, &mut self.registers, &mut self.value)
                    .map_err(|e| self.locate(e, thread))?;
                fold.fold(&self.nest.name, &mut self.scratch, &mut accumulator, &self.value)?;
                for (n, place) in targets.iter().enumerate() {
                    let written = memory.write(thread, place.buffer, places[n], accumulator[n]);
                    written.map_err(|e| self.locate(e, thread))?;
                }
                Ok(())
            }
            // A lone thread meets only itself.
            Code::Barrier => Ok(()),
            Code::AsyncCopy { target, source, len, valid } => {
                let to = self.eval(&target.index, thread)?;
                let from = match self.hold(valid, thread)? {
                    true => Some((source.buffer, self.eval(&source.index, thread)?)),
                    false => None,
                };
                let copied = memory.start_copy(thread, (target.buffer, to), from, *len);
                copied.map_err(|e| self.locate(e, thread))
            }
            Code::AsyncCommit => {
                memory.commit(thread);
                Ok(())
            }
            Code::AsyncWait { pending } => memory.wait(thread, *pending).map_err(|e| self.locate(e, thread)),
        }
    }

    /// Runs a loop over the threads of a block, once per given thread, all of them together.
    fn run_threads(&mut self, code: &Code, memory: &mut Memory, threads: &[Thread]) -> Result<(), InterpError> {
        let Code::For { var, extent, kind, body } = code else { return Ok(()) };
        let mut all = Vec::new();
        for thread in threads {
            for turn in 0..self.extent(extent, *kind, thread)? {
                let mut thread = thread.clone();
                self.set_var(&mut thread, *var, turn)?;
                all.push(thread);
            }
        }
        self.run_together(body, Group::Block, memory, &mut all)
    }

    /// Runs a block for all threads, statement by statement where there are barriers.
    fn run_together(
        &mut self,
        block: &Block,
        group: Group,
        memory: &mut Memory,
        threads: &mut [Thread],
    ) -> Result<(), InterpError> {
        for code in &block.code {
            match code {
                Code::Barrier if group == Group::Chunks => memory.meet(),
                Code::Barrier => {}
                Code::Alloc(buffer) if memory.is_shared(*buffer) => {
                    if let Some(first) = threads.first_mut() {
                        memory.alloc(first, *buffer);
                    }
                }
                Code::For { kind, body, .. } if is_thread_dim(*kind) && group.meets_in(body) => {
                    self.run_threads(code, memory, threads)?;
                }
                Code::For { var, extent, kind, body } if group.meets_in(body) => {
                    let turns = self.agree(threads, |machine, thread| machine.extent(extent, *kind, thread))?;
                    let agents: Vec<u64> = threads.iter().map(|t| t.agent).collect();
                    for turn in 0..turns {
                        for (thread, &agent) in threads.iter_mut().zip(&agents) {
                            if is_block_dim(*kind) {
                                thread.agent = agent.wrapping_mul(turns as u64).wrapping_add(turn as u64);
                            }
                            self.set_var(thread, *var, turn)?;
                        }
                        self.run_together(body, group, memory, threads)?;
                    }
                    for (thread, agent) in threads.iter_mut().zip(agents) {
                        thread.agent = agent;
                    }
                }
                Code::If { cond, then, otherwise } if group.meets_in(then) || group.meets_in(otherwise) => {
                    let holds = self.agree(threads, |machine, thread| machine.hold(cond, thread).map(i64::from))?;
                    self.run_together(if holds == 1 { then } else { otherwise }, group, memory, threads)?;
                }
                code => {
                    for thread in threads.iter_mut() {
                        self.run(code, memory, thread)?;
                    }
                }
            }
        }
        for thread in threads {
            memory.free(thread, &block.allocs);
        }
        Ok(())
    }

    /// A value that must be the same for all threads, as a barrier depends on it.
    fn agree(
        &self,
        threads: &[Thread],
        f: impl Fn(&Self, &Thread) -> Result<i64, InterpError>,
    ) -> Result<i64, InterpError> {
        let Some(first) = threads.first() else { return Ok(0) };
        let value = f(self, first)?;
        for thread in &threads[1..] {
            if f(self, thread)? != value {
                let what = "a barrier that not all threads reach";
                return Err(InterpError::Malformed { place: self.place(thread), what });
            }
        }
        Ok(value)
    }

    fn extent(&self, extent: &IndexFn, kind: LoopKind, thread: &Thread) -> Result<i64, InterpError> {
        let extent = self.eval(extent, thread)?;
        if let LoopKind::Vector { lanes } = kind
            && extent > i64::from(lanes)
        {
            let what = "a vector loop longer than its lanes";
            return Err(InterpError::Malformed { place: self.place(thread), what });
        }
        Ok(extent)
    }

    fn eval(&self, f: &IndexFn, thread: &Thread) -> Result<i64, InterpError> {
        f.eval(&thread.vars)
            .ok_or_else(|| InterpError::UndefinedIndex { place: self.place(thread), expr: f.source.to_string() })
    }

    fn hold(&self, bounds: &[BoundFn], thread: &Thread) -> Result<bool, InterpError> {
        BoundFn::all(bounds, &thread.vars).ok_or_else(|| InterpError::Malformed {
            place: self.place(thread),
            what: "a condition that overflows or divides by zero",
        })
    }

    fn set_var(&self, thread: &mut Thread, var: usize, value: i64) -> Result<(), InterpError> {
        let known = self.nest.vars.iter().nth(var).filter(|_| var < thread.vars.len());
        let Some(known) = known else {
            let what = "a loop variable that does not exist";
            return Err(InterpError::Malformed { place: self.nest.name.clone(), what });
        };
        let (min, max) = known.range;
        if min.is_some_and(|min| value < min) || max.is_some_and(|max| value > max) {
            let place = self.place(thread);
            return Err(InterpError::VariableOutOfRange { place, name: known.name.clone(), value, min, max });
        }
        thread.vars[var] = value;
        Ok(())
    }

    /// The nest and the values of its loop variables.
    fn place(&self, thread: &Thread) -> String {
        let mut place = self.nest.name.clone();
        for (n, var) in self.nest.vars.iter().enumerate() {
            place.push_str(if n == 0 { " at " } else { ", " });
            place.push_str(&format!("{}={}", var.name, thread.vars[n]));
        }
        place
    }

    /// Says where a memory error happened.
    fn locate(&self, mut error: InterpError, thread: &Thread) -> InterpError {
        match &mut error {
            InterpError::ReadOutOfBounds { reader: place, .. }
            | InterpError::WriteOutOfBounds { writer: place, .. }
            | InterpError::NotYetComputed { reader: place, .. }
            | InterpError::Race { place, .. }
            | InterpError::Malformed { place, .. } => *place = self.place(thread),
            _ => {}
        }
        error
    }
}
