//! The steps of a run.

use super::loops::Looped;
use super::{Destination, RunOptions, Session};
use crate::arena::Span;
use crate::binding::{Binding, BoundCode, BoundLaunch, BoundStep, Place};
use crate::code::{FpScope, synchronize_instructions};
use crate::error::RuntimeError;
use crate::form::Form;
use crate::gpu::GpuCode;
use crate::pool::{Entered, Task};
use crate::state::Port;
use crate::symbols::{bind_late, skip_late};
use infc_artifact::Step;
use infc_tensor::{AlignedBytes, Tensor};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a run takes along from step to step.
struct Run<'r, 'd, 'v> {
    options: &'r RunOptions<'r>,
    /// What launches are done by, if not by the processor.
    gpu: Option<&'r GpuCode>,
    entered: Option<Entered<'r>>,
    /// Enters the pool again, which loops leave to their own sessions.
    enter: &'r dyn Fn() -> Option<Entered<'r>>,
    destination: &'r mut Destination<'d, 'v>,
}

impl Session {
    pub(super) fn run_steps(
        &mut self,
        options: &RunOptions<'_>,
        destination: &mut Destination<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let model = Arc::clone(&self.model);
        let gpu = model.gpu();
        self.begin_on_gpu();
        self.begin(0, destination)?;
        self.task.flush_denormals.store(options.flush_denormals, Ordering::Relaxed);
        let _fp = FpScope::enter(self.task.fp_mode());
        // Another thread may have loaded the code.
        synchronize_instructions();
        let lanes = options.max_threads.unwrap_or(usize::MAX).clamp(1, self.max_threads);
        // What later segments have to do, their last bindings tell.
        let is_wide = self.form().bindings.iter().any(|kept| kept.first().is_some_and(|binding| binding.is_wide));
        let (pool, task) = (self.pool.clone(), Arc::clone(&self.task));
        let enter = || if is_wide && gpu.is_none() { pool.enter(&task, lanes) } else { None };
        let steps = self.program().steps.len();
        self.run_range(0..steps, &mut Run { options, gpu, entered: enter(), enter: &enter, destination })?;
        gpu.map_or(Ok(()), |code| self.end_on_gpu(code))?;
        self.all_are_over()
    }

    /// Runs some steps: all, or those of a branch.
    fn run_range(&mut self, range: Range<usize>, run: &mut Run<'_, '_, '_>) -> Result<(), RuntimeError> {
        let steps = self.program().steps.len();
        let mut next = range.start;
        while next < range.end {
            if run.gpu.is_none() && self.observer.is_none() {
                next = self.launch_all(next..range.end, run)?;
                if next == range.end {
                    break;
                }
            }
            let index = next;
            next += 1;
            let form = self.form();
            let segment = form.segments.of_step(index);
            let binding = form.binding(segment);
            let step = binding.steps[index - binding.first_step].clone();
            check_interruption(run.options, index, steps)?;
            let started = self.watch(&step, run.gpu)?;
            if let Some(code) = run.gpu {
                self.bring(code, index)?;
            }
            let form = self.form();
            let binding = form.binding(segment);
            match &step {
                BoundStep::Launch(launch) => {
                    form.host.check_made(binding.args[launch.args.clone()].iter().map(|arg| arg.slot))?;
                    if let Some(code) = run.gpu {
                        self.launch_on_gpu(code, segment, launch);
                    }
                    let scratch = self.scratch.span();
                    let binding = self.form().binding(segment);
                    self.launch(binding, launch, run.entered.as_ref(), scratch);
                }
                BoundStep::Copy { src, dst, len_bytes } => {
                    form.host.check_made(std::iter::once(*src))?;
                    // Both lengths were checked when the sizes were bound.
                    if run.gpu.is_some() {
                        self.copy_on_gpu((*src, *dst), *len_bytes);
                    } else {
                        let copied = self.slots[*src].copy_to(self.slots[*dst], *len_bytes);
                        debug_assert!(copied, "checked by `Binding::new`");
                    }
                }
                BoundStep::If { condition, then, otherwise } => {
                    let middle = next + then;
                    next = middle + otherwise;
                    let (first, second) = (middle - then..middle, middle..next);
                    if self.slots[*condition].first_byte().is_some_and(|byte| byte != 0) {
                        self.run_range(first, run)?;
                        self.skip(second, run)?;
                    } else {
                        self.skip(first, run)?;
                        self.run_range(second, run)?;
                    }
                }
                BoundStep::Require { unmet: None } => {}
                BoundStep::Require { unmet: Some((left, right)) } => {
                    return Err(self.unmet(index, *left, *right));
                }
                BoundStep::Bind => self.bind_step(index, run.destination)?,
                BoundStep::Give { slot, output } => self.give(*slot, *output, run.destination)?,
                BoundStep::Host { inputs } => self.host_step((index, segment), inputs.clone(), run)?,
                BoundStep::Unfit => {
                    return Err(RuntimeError::BadProgram {
                        what: format!("step {index}"),
                        expected: "sizes that fit where its branch is taken".to_owned(),
                        found: "others".to_owned(),
                    });
                }
            }
            self.has_written(index);
            if let Some(started) = started {
                let lanes = run.entered.as_ref().map_or(1, Entered::lanes);
                self.is_over((index, &step), started, lanes, run.gpu)?;
            }
        }
        Ok(())
    }

    /// Passes over steps of a branch that is not taken: the segments that begin in it begin all the same.
    fn skip(&mut self, range: Range<usize>, run: &mut Run<'_, '_, '_>) -> Result<(), RuntimeError> {
        if self.form().bindings.len() == 1 {
            return Ok(());
        }
        let model = Arc::clone(&self.model);
        for index in range {
            let form = self.forms.current_mut();
            if let Step::Bind(bind) = &model.body.programs[form.entry].steps[index] {
                let segment = form.segments.of_step(index) + 1;
                let entry = &model.manifest.entries[form.entry];
                skip_late(entry, bind, (&form.segments, segment), &mut form.symbols);
                self.begin(segment, run.destination)?;
            }
        }
        Ok(())
    }

    /// Gives symbols their values and begins the segment that knows them.
    fn bind_step(&mut self, index: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        let model = Arc::clone(&self.model);
        let Form { entry, segments, host, symbols, .. } = self.forms.current_mut();
        let Step::Bind(bind) = &model.body.programs[*entry].steps[index] else { return Ok(()) };
        let (entry, segment) = (&model.manifest.entries[*entry], segments.of_step(index) + 1);
        let host = &*host;
        bind_late(entry, bind, (&*segments, segment), |slot| host.shape(slot), symbols)?;
        self.begin(segment, destination)
    }

    /// Makes an output what a slot holds.
    fn give(&mut self, slot: usize, output: usize, destination: &mut Destination<'_, '_>) -> Result<(), RuntimeError> {
        let form = self.form();
        form.host.check_made(std::iter::once(slot))?;
        let port = &self.entry().outputs[output];
        let place = form.output_place(output).map(|(shape, _)| shape.to_vec()).unwrap_or_default();
        let tensor = match form.host.tensor(slot) {
            Some(tensor) => tensor.clone(),
            None => Tensor::from_bytes(port.dtype, place.clone(), AlignedBytes::from_slice(self.slots[slot].bytes()))?,
        };
        if tensor.dtype() != port.dtype || tensor.shape() != place.as_slice() {
            return Err(RuntimeError::UnexpectedResult {
                expected: format!("{}{place:?}", port.dtype),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
        let tensor = match port.unranked {
            Some(_) => tensor.values()?.first().cloned().unwrap_or(tensor),
            None => tensor,
        };
        if port.unranked.is_some_and(|dtype| dtype != tensor.dtype()) {
            return Err(RuntimeError::UnexpectedResult {
                expected: port.type_text(&[]),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
        match (self.states.output(output), destination) {
            (Port::Caller(n), Destination::Caller(outputs)) if outputs[n].shape() != tensor.shape() => {
                return Err(RuntimeError::UnexpectedResult {
                    expected: format!("{}{:?}", outputs[n].dtype(), outputs[n].shape()),
                    found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
                });
            }
            // Compared with the output's shape when its segment began; what has no bytes has no views.
            (Port::Caller(n), Destination::Caller(outputs)) => {
                let to = outputs[n].bytes_mut();
                if to.len() == tensor.bytes().len() {
                    to.copy_from_slice(tensor.bytes());
                }
            }
            (Port::Caller(_), Destination::Session | Destination::Spans(_)) => self.given[output] = Some(tensor),
            (Port::State(state), _) => self.states.give(state, &place, tensor.bytes())?,
        }
        Ok(())
    }

    /// Does what a step on the host is: evaluates an operator, or runs a loop of which an entry computes each step. Either ends
    /// between two nodes, or two steps, if the run is to end.
    fn host_step(
        &mut self,
        (index, segment): (usize, usize),
        inputs: Range<usize>,
        run: &mut Run<'_, '_, '_>,
    ) -> Result<(), RuntimeError> {
        let options = run.options;
        let steps = self.program().steps.len();
        let own = self.options_of_loops();
        let Form { entry, segments, bindings, host, .. } = self.forms.current_mut();
        let Step::Host(step) = &self.model.body.programs[*entry].steps[index] else { return Ok(()) };
        let interruption = || check_interruption(options, index + 1, steps);
        let (shapes, numbers) = (&bindings[segment][0].shapes, inputs);
        let mut made = Ok(None);
        if let Some(body) = &step.body {
            let operand = |n: usize| {
                let arg = step.inputs.get(n)?.as_ref()?;
                Some(host.operand(arg, shapes.get(numbers.start + n), &self.slots))
            };
            let looped = Looped { step, body, operand: &operand, options, interruption: &interruption };
            // Its steps enter the pool themselves.
            let had_entered = run.entered.take().is_some();
            made = self.loops.session(&self.model, body, own).and_then(|session| {
                self.observed.begin_part(&mut session.observed);
                let made = looped.run(session);
                self.observed.end_part(&session.observed);
                made
            });
            run.entered = if had_entered { (run.enter)() } else { None };
        }
        let done = made.and_then(|made| match made {
            Some(outputs) => {
                host.put(step, outputs);
                Ok(())
            }
            None => host.evaluate(&self.model, step, (shapes, numbers), &self.slots, &|| interruption().is_ok()),
        });
        done.or_else(|error| interruption().and(Err(error)))?;
        for &slot in step.outputs.iter().flatten() {
            let begins = segments.of_slot[slot as usize];
            if begins > segment {
                continue;
            }
            let binding = &bindings[begins][0];
            if let Some(Some(Place::Host { dtype, shape })) = binding.slots.get(slot as usize)
                && let Some(span) = host.accept(slot as usize, *dtype, binding.shapes.get(*shape))?
            {
                self.slots[slot as usize] = span;
            }
        }
        Ok(())
    }

    /// The error about a requirement that these dims do not meet.
    pub(super) fn unmet(&self, step: usize, left: i64, right: i64) -> RuntimeError {
        let (what, equal) = match &self.program().steps[step] {
            Step::Require(require) => (require.what.clone(), require.equal),
            _ => (String::new(), true),
        };
        RuntimeError::UnmetRequirement { what, left, right, equal }
    }

    /// Runs launches that follow each other, and tells the index of the first step that is none. What stays the same is
    /// looked up once, so that little happens between two kernels.
    fn launch_all(&mut self, steps: Range<usize>, run: &Run<'_, '_, '_>) -> Result<usize, RuntimeError> {
        let segment = self.form().segments.of_step(steps.start);
        let len = self.program().steps.len();
        for index in steps.clone() {
            let scratch = self.scratch.span();
            let form = self.form();
            let binding = form.binding(segment);
            let Some(BoundStep::Launch(launch)) = binding.steps.get(index - binding.first_step) else {
                return Ok(index);
            };
            check_interruption(run.options, index, len)?;
            form.host.check_made(binding.args[launch.args.clone()].iter().map(|arg| arg.slot))?;
            self.launch(binding, launch, run.entered.as_ref(), scratch);
        }
        Ok(steps.end)
    }

    /// Runs one kernel over all its chunks.
    fn launch(&self, binding: &Binding, launch: &BoundLaunch, entered: Option<&Entered<'_>>, scratch: Span) {
        let BoundCode::Cpu(entry) = launch.code else { return };
        if launch.chunks == 0 {
            return;
        }
        let call = &self.task.call;
        let mut word = 0;
        for arg in &binding.args[launch.args.clone()] {
            let slot = self.slots[arg.slot];
            // Checked when the sizes were bound.
            let span = slot.get(arg.offset_bytes..slot.len_bytes()).unwrap_or(Span::EMPTY);
            call.set_address(word, span);
            word += 1;
        }
        for &value in &binding.values[launch.values.clone()] {
            call.set_value(word, value);
            word += 1;
        }
        // Reserved for kernels that meet inside; none do: the pool lets steps of a recurrence follow each other.
        call.set_value(word, 0);
        call.set_kernel(entry, scratch, binding.scratch_bytes);
        match entered {
            Some(entered) if launch.is_parallel => entered.region(launch.chunks, launch.step_chunks),
            _ => call.run_chunks(0, launch.chunks, 0),
        }
    }
}

pub(super) fn check_interruption(options: &RunOptions<'_>, step: usize, steps: usize) -> Result<(), RuntimeError> {
    if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
        return Err(RuntimeError::Cancelled { step, steps });
    }
    if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(RuntimeError::DeadlineExceeded { step, steps });
    }
    Ok(())
}
