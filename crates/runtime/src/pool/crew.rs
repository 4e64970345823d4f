//! The worker threads of one process, and a run that has entered them.

use super::Spin;
use super::region::{Region, Seat, relax};
use crate::code::{FpMode, FpScope, synchronize_instructions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The number of no run.
const NO_RUN: u64 = 0;

/// What the threads of a run share.
pub(crate) trait Task: Send + Sync {
    /// Computes chunks `begin..end` of the open region; `lane` is this thread's own during the run.
    fn run_chunks(&self, begin: u64, end: u64, lane: usize);

    /// The floating-point state the run wants on every thread.
    fn fp_mode(&self) -> FpMode;
}

/// A run that workers may join.
struct Run {
    number: u64,
    /// Threads that may take part; the caller is lane 0.
    lanes: usize,
    task: Arc<dyn Task>,
}

/// What caller and workers share.
struct Shared {
    region: Region,
    /// The number of the run in progress, or [`NO_RUN`].
    run: AtomicU64,
    /// The same run, for workers that wake up. Held only for an instant.
    current: Mutex<Option<Run>>,
    shutdown: AtomicBool,
    spin: Spin,
}

impl Shared {
    fn current(&self) -> MutexGuard<'_, Option<Run>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The workers. Dropping it stops and joins them.
pub(super) struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    last_run: u64,
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crew({} workers)", self.workers.len())
    }
}

impl Crew {
    /// Starts `count` workers, or as many as the system lets.
    pub(super) fn start(count: usize, spin: Spin) -> Self {
        let shared = Arc::new(Shared {
            region: Region::new(count + 1),
            run: AtomicU64::new(NO_RUN),
            current: Mutex::new(None),
            shutdown: AtomicBool::new(false),
            spin,
        });
        let start = |lane: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("infc-{lane}")).spawn(move || work(&shared, lane)).ok()
        };
        let workers = (1..=count).map_while(start).collect();
        Self { shared, workers, last_run: NO_RUN }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.shutdown.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // Workers do not panic; if one did, there is nothing left to do about it.
            let _ = worker.join();
        }
    }
}

/// A worker's life: join the run in progress, or park until there is one.
fn work(shared: &Shared, lane: usize) {
    while !shared.shutdown.load(Ordering::Acquire) {
        let joined = match &*shared.current() {
            Some(run) if lane < run.lanes => Some((run.number, Arc::clone(&run.task))),
            _ => None,
        };
        match joined {
            Some((number, task)) => take_part(shared, number, &*task, lane),
            // A run that begins after the look above has unparked this thread, so `park` returns at once.
            None => std::thread::park(),
        }
    }
}

/// Computes chunks of the regions of run `number` until it ends.
fn take_part(shared: &Shared, number: u64, task: &dyn Task, lane: usize) {
    let _fp = FpScope::enter(task.fp_mode());
    synchronize_instructions();
    let is_ours = || shared.run.load(Ordering::Acquire) == number;
    let (mut seat, mut idle) = (Seat::of_lane(lane), 0);
    loop {
        if shared.region.compute_next(&mut seat, is_ours, shared.spin, |begin, end| task.run_chunks(begin, end, lane)) {
            idle = 0;
        } else if is_ours() {
            relax(&mut idle, shared.spin);
        } else {
            return;
        }
    }
}

/// A run inside the pool; ends when dropped.
pub(crate) struct Entered<'a> {
    /// Always `Some`; locked for the length of the run.
    crew: MutexGuard<'a, Option<Crew>>,
    shared: Arc<Shared>,
    task: Arc<dyn Task>,
    lanes: usize,
}

impl<'a> Entered<'a> {
    /// Lets workers join. `None` if there are none.
    pub(super) fn begin(mut crew: MutexGuard<'a, Option<Crew>>, task: Arc<dyn Task>, lanes: usize) -> Option<Self> {
        let members = crew.as_mut()?;
        let lanes = lanes.min(members.workers.len() + 1);
        if lanes < 2 {
            return None;
        }
        members.last_run += 1;
        let number = members.last_run;
        let shared = Arc::clone(&members.shared);
        *shared.current() = Some(Run { number, lanes, task: Arc::clone(&task) });
        shared.run.store(number, Ordering::Release);
        for worker in &members.workers[..lanes - 1] {
            worker.thread().unpark();
        }
        Some(Self { crew, shared, task, lanes })
    }

    /// How many threads may take part, the caller included.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Computes chunks `0..chunks` on all threads of the run, and returns when they are all computed. Of steps of so many
    /// chunks, none is begun before all steps before it are computed.
    pub(crate) fn region(&self, chunks: u64, step_chunks: Option<u64>) {
        // Also when unwinding (no kernel unwinds, but a task in a test may): nobody may be inside the region any more
        // when the buffers it writes are given back.
        struct Close<'a>(&'a Shared);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.region.abandon(self.0.spin);
                let mut idle = 0;
                while !self.0.region.is_over() {
                    relax(&mut idle, self.0.spin);
                }
            }
        }
        self.shared.region.open(chunks, step_chunks, self.lanes);
        let _close = Close(&self.shared);
        let (mut seat, spin) = (Seat::of_lane(0), self.shared.spin);
        let region = &self.shared.region;
        while region.compute_next(&mut seat, || true, spin, |begin, end| self.task.run_chunks(begin, end, 0)) {}
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.shared.run.store(NO_RUN, Ordering::Release);
        *self.shared.current() = None;
        debug_assert!(self.crew.is_some(), "a crew once started stays");
    }
}
