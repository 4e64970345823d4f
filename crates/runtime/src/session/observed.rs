//! What an observer is told of steps, and how long a GPU takes.
//!
//! A processor's steps are told one by one. So are a GPU's to an observer that looks at what they have written, which has it
//! waited for after each. Otherwise they follow each other as they would unobserved, with marks between them, and are told in the
//! end. What happens between two marks is the kernel then, as long as the host asks for kernels sooner than the GPU has done them;
//! of the first ones, and of very short ones, it is in part how long the host takes.

use super::{Session, SessionOptions};
use crate::binding::BoundStep;
use crate::error::RuntimeError;
use crate::gpu::GpuCode;
use crate::observer::{Event, StepEvent};
use std::time::{Duration, Instant};

/// What is known of a run's steps.
#[derive(Debug)]
pub(super) struct Observed {
    /// When the run began.
    begun: Option<Instant>,
    /// Whether runs are steps of a loop of another one.
    is_part: bool,
    /// Whether the observer looks at what steps have written.
    reads_slots: bool,
    /// Steps that are over or have been asked for, and have not been told.
    steps: Vec<Over>,
    /// When stretches of a GPU began, and how long they took.
    times: Vec<(Duration, Duration)>,
    /// How long all of this run have taken, if that is asked for.
    device: Option<Duration>,
}

/// A step that is over, or that a GPU has been asked for.
#[derive(Clone, Copy, Debug)]
struct Over {
    step: usize,
    kernel: Option<usize>,
    chunks: u64,
    threads: usize,
    /// By the host's clock.
    began: Duration,
    took: Duration,
    /// Its number among what the GPU has timed.
    timed: Option<usize>,
}

impl Observed {
    pub(super) fn new(options: &SessionOptions) -> Self {
        let reads_slots = options.observer.as_ref().is_none_or(|observer| observer.reads_slots());
        let device = options.device_time.then_some(Duration::ZERO);
        Self { begun: None, is_part: false, reads_slots, steps: Vec::new(), times: Vec::new(), device }
    }

    /// Says that the next runs of another session are parts of the run in progress.
    pub(super) fn begin_part(&self, part: &mut Self) {
        (part.is_part, part.begun) = (true, self.begun);
        part.device = part.device.map(|_| Duration::ZERO);
    }

    /// Takes in what the parts of a run took.
    pub(super) fn end_part(&mut self, part: &Self) {
        if let (Some(device), Some(took)) = (&mut self.device, part.device) {
            *device += took;
        }
    }

    /// Whether runs are parts of another one, whose end is told alone.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    pub(super) fn begin(&mut self, begun: Option<Instant>) {
        self.steps.clear();
        if !self.is_part {
            self.begun = begun;
            self.device = self.device.map(|_| Duration::ZERO);
        }
    }
}

fn is_on_gpu(step: &BoundStep) -> bool {
    matches!(step, BoundStep::Launch(_) | BoundStep::Copy { .. })
}

impl Session {
    /// What sessions of loops within runs of this one are made with.
    pub(super) fn options_of_loops(&self) -> SessionOptions {
        SessionOptions {
            max_threads: Some(self.max_threads),
            observer: self.observer.clone(),
            device_time: self.observed.device.is_some(),
            ..SessionOptions::default()
        }
    }

    /// How long the GPU took for what the last run asked of it, from the beginning to the end of every stretch of kernels and copies
    /// within its memory that no step of the host interrupts. `None` unless [`SessionOptions::device_time`] asks for it, and a GPU runs the model.
    #[must_use]
    pub fn device_time(&self) -> Option<Duration> {
        self.observed.device.filter(|_| self.on_gpu.is_some())
    }

    /// The time before a step, if anybody wants to know how long it takes.
    pub(super) fn watch(&mut self, step: &BoundStep, gpu: Option<&GpuCode>) -> Result<Option<Instant>, RuntimeError> {
        if self.observer.is_none() {
            return Ok(None);
        }
        if let Some(code) = gpu.filter(|_| !is_on_gpu(step)) {
            // What the GPU still has to do is not this step's time.
            self.wait_for_gpu(code)?;
        }
        Ok(Some(Instant::now()))
    }

    /// Notes that a step is over, or has been asked for, and tells of it if its time is known.
    pub(super) fn is_over(
        &mut self,
        (step, bound): (usize, &BoundStep),
        started: Instant,
        lanes: usize,
        gpu: Option<&GpuCode>,
    ) -> Result<(), RuntimeError> {
        let timed = match gpu.filter(|_| is_on_gpu(bound)) {
            Some(code) => self.start_on_gpu(code)?,
            None => None,
        };
        let (kernel, chunks, threads) = match bound {
            BoundStep::Launch(launch) => {
                (Some(launch.kernel), launch.chunks, if launch.is_parallel { lanes } else { 1 })
            }
            BoundStep::Copy { .. }
            | BoundStep::If { .. }
            | BoundStep::Require { .. }
            | BoundStep::Bind
            | BoundStep::Give { .. }
            | BoundStep::Host { .. }
            | BoundStep::Unfit => (None, 1, 1),
        };
        let began = self.observed.begun.map(|begun| started.saturating_duration_since(begun)).unwrap_or_default();
        let over = Over { step, kernel, chunks, threads, began, took: started.elapsed(), timed };
        self.observed.steps.push(over);
        if gpu.is_some() && !self.observed.reads_slots {
            return Ok(());
        }
        self.tell(gpu)
    }

    /// Tells what has not been told; the GPU has done all that it was asked for.
    pub(super) fn all_are_over(&mut self) -> Result<(), RuntimeError> {
        self.tell(None)
    }

    /// Tells of all steps that have not been told, and waits for them. Their slots can be read if a GPU is given, or there is none.
    fn tell(&mut self, gpu: Option<&GpuCode>) -> Result<(), RuntimeError> {
        let mut times = std::mem::take(&mut self.observed.times);
        let timed = self.times_on_gpu(&mut times);
        if timed.is_ok()
            && let Some(device) = &mut self.observed.device
        {
            *device += times.iter().map(|(_, took)| *took).sum::<Duration>();
        }
        let steps = std::mem::take(&mut self.observed.steps);
        if timed.is_ok() {
            self.tell_steps(&steps, &times, gpu);
        }
        // Kept for their memory.
        (self.observed.steps, self.observed.times) = (steps, times);
        self.observed.steps.clear();
        timed
    }

    fn tell_steps(&self, steps: &[Over], times: &[(Duration, Duration)], gpu: Option<&GpuCode>) {
        let Some(observer) = &self.observer else { return };
        // Both clocks show the beginning of what the GPU did first.
        let first = steps.iter().find(|over| over.timed.is_some()).map(|over| over.began).unwrap_or_default();
        let can_read = gpu.is_some() || self.on_gpu.is_none();
        for over in steps {
            let timed = over.timed.and_then(|n| times.get(n));
            let (began, took) = timed.map_or((over.began, over.took), |&(began, took)| (first + began, took));
            let Over { step, chunks, threads, .. } = *over;
            let kernel = over.kernel.map(|kernel| (kernel, self.model.body.kernels[kernel].name.as_str()));
            let slots = if can_read { self.slots.as_slice() } else { &[] };
            let (entry, device) = (self.form().entry, self.device_slots(gpu));
            observer.event(&Event::Step(StepEvent {
                entry,
                step,
                kernel,
                chunks,
                threads,
                began,
                took,
                slots,
                device,
            }));
        }
    }
}
