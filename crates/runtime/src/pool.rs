//! The threads that kernels run on.
//!
//! A pool is a value; sessions share one by default. A run *enters* the pool and then executes many short parallel
//! regions, one per launch. Three rules keep a region's cost near a microsecond and its worst case near serial:
//!
//! - The caller takes part and may claim every chunk, so nobody ever waits for a thread to wake up.
//! - Workers spin from the start of a run to its end, then park: waking a parked thread costs tens of microseconds,
//!   handing work to a spinning one a tenth of one.
//! - A pool serves one run at a time. Whoever finds it busy runs its own chunks itself, which is what many sessions on
//!   few processors want: no queue, no deadlock, never more threads than stated.
//!
//! Which thread computes a chunk never influences its result; see the kernel ABI.

mod crew;
mod region;

pub(crate) use crew::{Entered, Task};

use crew::Crew;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

/// How workers wait for the next region while a run is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spin {
    /// Spin, and after some microseconds let other threads of the machine go first between looks. The default.
    #[default]
    Run,
    /// Let other threads of the machine go first from the beginning: for machines that do much else.
    Yield,
}

/// Threads for running kernels. Cloning gives another handle on the same threads.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    threads: usize,
    spin: Spin,
    first: Generation,
}

/// The threads of one process. After a fork the child has none of its parent's threads, and locks may be held by
/// threads that no longer exist, so it must not touch the old generation: it goes on to the next.
#[derive(Debug)]
struct Generation {
    process: u32,
    /// `None` until the first parallel run. Locked for the length of a run.
    crew: Mutex<Option<Crew>>,
    next: OnceLock<Box<Generation>>,
}

impl Generation {
    fn new(process: u32) -> Self {
        Self { process, crew: Mutex::new(None), next: OnceLock::new() }
    }

    /// The generation of this process.
    fn current(&self) -> &Self {
        let process = std::process::id();
        let mut generation = self;
        while generation.process != process {
            generation = generation.next.get_or_init(|| Box::new(Self::new(process)));
        }
        generation
    }
}

impl Pool {
    /// A pool to be configured.
    #[must_use]
    pub fn builder() -> PoolBuilder {
        PoolBuilder { threads: None, spin: Spin::default() }
    }

    /// The pool of the process, which sessions use unless told otherwise; sized as [`PoolBuilder::threads`] says.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: OnceLock<Pool> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().build()).clone()
    }

    /// How many threads take part in a run, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.inner.threads
    }

    /// Enters the pool for a run on at most `lanes` threads. `None` if the caller should do everything itself: the pool
    /// is busy, has one thread, or could not start any.
    pub(crate) fn enter(&self, task: &Arc<impl Task + 'static>, lanes: usize) -> Option<Entered<'_>> {
        let lanes = lanes.min(self.inner.threads);
        if lanes < 2 {
            return None;
        }
        let mut crew = match self.inner.first.current().crew.try_lock() {
            Ok(crew) => crew,
            // A run that panicked (in an observer) has ended its region and left the crew in order.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if crew.is_none() {
            *crew = Some(Crew::start(self.inner.threads - 1, self.inner.spin));
        }
        Entered::begin(crew, Arc::clone(task) as Arc<dyn Task>, lanes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Threads of a parent process are not ours to stop; their handles are leaked, once per fork.
        let process = std::process::id();
        let mut generation = Some(&mut self.first);
        while let Some(current) = generation {
            let crew = match current.crew.get_mut() {
                Ok(crew) => crew.take(),
                Err(poisoned) => poisoned.into_inner().take(),
            };
            if current.process != process {
                std::mem::forget(crew);
            }
            generation = current.next.get_mut().map(|next| &mut **next);
        }
    }
}

/// Settings of a [`Pool`].
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    threads: Option<NonZeroUsize>,
    spin: Spin,
}

impl PoolBuilder {
    /// How many threads take part in a run, the caller included; 1 makes no thread. Zero, and the default, is what the
    /// process may use: its processor affinity and, on Linux, its cgroup's quota.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: NonZeroUsize::new(threads), ..self }
    }

    /// How workers wait during a run.
    #[must_use]
    pub fn spin(self, spin: Spin) -> Self {
        Self { spin, ..self }
    }

    /// The pool. Its threads start with the first run that can use them.
    #[must_use]
    pub fn build(self) -> Pool {
        // The standard library's answer takes affinity and cgroup quota into account.
        let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self.threads.map_or_else(available, NonZeroUsize::get);
        Pool { inner: Arc::new(Inner { threads, spin: self.spin, first: Generation::new(std::process::id()) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::FpMode;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts how often each chunk is computed; panics at one of them if told to.
    struct Count {
        chunks: Vec<AtomicU64>,
        panic_at: AtomicU64,
        panic_in_lane: usize,
    }

    impl Count {
        fn new(chunks: usize, panic_in_lane: usize) -> Arc<Self> {
            let chunks = (0..chunks).map(|_| AtomicU64::new(0)).collect();
            Arc::new(Self { chunks, panic_at: AtomicU64::new(u64::MAX), panic_in_lane })
        }
    }

    impl Task for Count {
        fn run_chunks(&self, begin: u64, end: u64, lane: usize) {
            for chunk in begin..end {
                let asked = lane == self.panic_in_lane && chunk >= self.panic_at.load(Ordering::Relaxed);
                assert!(!asked, "asked to");
                self.chunks[chunk as usize].fetch_add(1, Ordering::Relaxed);
            }
        }

        fn fp_mode(&self) -> FpMode {
            FpMode::KeepDenormals
        }
    }

    #[test]
    fn every_chunk_of_every_region_once() {
        for threads in [2, 3, 7] {
            let pool = Pool::builder().threads(threads).build();
            for run in 0..50 {
                let task = Count::new(1000, usize::MAX);
                let entered = pool.enter(&task, threads).expect("nobody else uses this pool");
                let mut expected = vec![0; 1000];
                for region in 0..40u64 {
                    let chunks = (run * 31 + region * 97) % 1001;
                    entered.region(chunks, None);
                    expected[..chunks as usize].iter_mut().for_each(|count| *count += 1);
                    // All are visible as soon as the region is over.
                    let found: Vec<u64> = task.chunks.iter().map(|c| c.load(Ordering::Relaxed)).collect();
                    assert_eq!(found, expected, "region of {chunks} chunks");
                }
            }
        }
    }

    /// Per chunk the largest number that any chunk of the steps before has been given, plus one: a step's chunks all get
    /// the step's number if no chunk runs before its turn.
    struct Chain {
        numbers: Vec<AtomicU64>,
        step_chunks: usize,
    }

    impl Task for Chain {
        fn run_chunks(&self, begin: u64, end: u64, _lane: usize) {
            for chunk in begin as usize..end as usize {
                let before = &self.numbers[..chunk / self.step_chunks * self.step_chunks];
                let last = &before[before.len().saturating_sub(self.step_chunks)..];
                let least = last.iter().map(|n| n.load(Ordering::Relaxed)).min().unwrap_or(0);
                self.numbers[chunk].store(least + 1, Ordering::Relaxed);
            }
        }

        fn fp_mode(&self) -> FpMode {
            FpMode::KeepDenormals
        }
    }

    #[test]
    fn steps_follow_each_other() {
        for threads in [2, 3, 7] {
            let pool = Pool::builder().threads(threads).build();
            for step_chunks in [1, 2, 5, 8] {
                let numbers = (0..2003).map(|_| AtomicU64::new(0)).collect();
                let task = Arc::new(Chain { numbers, step_chunks });
                let entered = pool.enter(&task, threads).expect("nobody else uses this pool");
                entered.region(2003, Some(step_chunks as u64));
                for (chunk, number) in task.numbers.iter().enumerate() {
                    assert_eq!(number.load(Ordering::Relaxed), (chunk / step_chunks) as u64 + 1, "chunk {chunk}");
                }
            }
        }
    }

    #[test]
    fn a_busy_pool_is_left_alone() {
        let pool = Pool::builder().threads(2).build();
        let task = Count::new(1, usize::MAX);
        let first = pool.enter(&task, 2).expect("free");
        assert!(pool.enter(&task, 2).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(pool.enter(&task, 2).is_none()));
        });
        drop(first);
        assert!(pool.enter(&task, 2).is_some());
        assert!(pool.enter(&task, 1).is_none(), "one lane is the caller");
    }

    #[test]
    fn a_panic_of_the_caller_ends_the_region() {
        let pool = Pool::builder().threads(2).build();
        for _ in 0..20 {
            let task = Count::new(100, 0);
            task.panic_at.store(0, Ordering::Relaxed);
            let run = || pool.enter(&task, 2).expect("free").region(100, None);
            // The caller takes the first claim or, if the worker was faster with all of them, none.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            task.panic_at.store(u64::MAX, Ordering::Relaxed);
            let before: Vec<u64> = task.chunks.iter().map(|c| c.load(Ordering::Relaxed)).collect();
            pool.enter(&task, 2).expect("free").region(100, None);
            let after = task.chunks.iter().map(|c| c.load(Ordering::Relaxed));
            assert!(before.iter().zip(after).all(|(before, after)| *before + 1 == after));
        }
    }
}
