//! What a session tells whoever wants to know: the runtime itself prints nothing.

use crate::arena::Span;
use crate::session::DeviceSlots;
use std::borrow::Cow;
use std::time::Duration;

/// Receives events of a session, on the thread that runs it. Without an observer nothing is measured.
pub trait Observer: Send + Sync {
    /// Called when something has happened. What it does takes time from the run.
    fn event(&self, event: &Event<'_>);

    /// Whether it looks at what steps have written ([`StepEvent::slot_bytes`]). If it does not, steps of a GPU follow each other as
    /// they do without an observer, and the events of all steps come when the last one is over; of a run that fails none do.
    fn reads_slots(&self) -> bool {
        true
    }
}

/// Something that has happened in a session.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A memory plan was made for a new binding of the symbols.
    Planned(Planned<'a>),
    /// A step of the Program is over.
    Step(StepEvent<'a>),
    /// The run in progress begins anew, by the Program of another entry, since something did not hold that the one before took for
    /// granted: what was told of its steps is of no run.
    RunBeginsAnew,
    /// A run succeeded. Those of entries that compute a step of a loop are parts of it.
    RunFinished {
        /// From the check of the inputs to the last step.
        took: Duration,
    },
}

/// See [`Event::Planned`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Planned<'a> {
    pub entry: usize,
    pub symbols: &'a [i64],
    pub arena_bytes: usize,
    pub took: Duration,
}

/// See [`Event::Step`].
#[derive(Debug)]
pub struct StepEvent<'a> {
    /// Index of the entry whose Program runs: the session's, a special case of it, or one that computes a step of a loop.
    pub entry: usize,
    /// Index of the step in the Program.
    pub step: usize,
    /// The kernel launched, as an index into the variant's kernels, and its name; `None` for other steps.
    pub kernel: Option<(usize, &'a str)>,
    /// Length of the parallel axis.
    pub chunks: u64,
    /// How many threads could take part.
    pub threads: usize,
    /// Since the run began. Where steps of a GPU are told together, by its clock from the first of them on.
    pub began: Duration,
    /// From launch to the last chunk; of kernels and copies of a GPU, by its clock.
    pub took: Duration,
    pub(crate) slots: &'a [Span],
    /// What a GPU has, if one runs the Program.
    pub(crate) device: Option<DeviceSlots<'a>>,
}

impl StepEvent<'_> {
    /// The bytes of a slot of the Program as they are now, copied from the GPU if they are only there; `None` if there is no
    /// such slot, the GPU cannot be read, or one runs the model and the observer has said that it does not ask
    /// ([`Observer::reads_slots`]).
    #[must_use]
    pub fn slot_bytes(&self, slot: usize) -> Option<Cow<'_, [u8]>> {
        let host = self.slots.get(slot)?;
        match self.device.filter(|device| device.alone_has(slot)) {
            Some(device) => device.read(slot).map(Cow::Owned),
            None => Some(Cow::Borrowed(host.bytes())),
        }
    }
}
