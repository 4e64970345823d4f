//! One parallel region: chunks handed out by an atomic counter.
//!
//! The word `state` holds the number of the region and how many *claims* (runs of `grain` chunks) are left in it.
//! Taking a claim is one compare-and-swap of that word. It succeeds only if the region is still the one whose
//! parameters were read: they change only after all claims of the former region are finished, and by then the word has
//! changed too. The region number (44 bits) does not come round again in the life of a process.
//!
//! Chunks of a recurrence come in steps. A claim lies within one step, and claims are taken in order, so that those of all
//! steps before are finished when as many claims are finished as there are in them; whoever has taken a claim waits until
//! then. Every claim that is waited for has been taken by a thread that is computing it, so nobody waits for ever.

use super::Spin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Low bits of `state`: claims left.
const CLAIM_BITS: u32 = 20;
const CLAIM_MASK: u64 = (1 << CLAIM_BITS) - 1;
/// Claims per thread that a region is cut into: enough to even out threads of different speed, few enough that the
/// counter is not contended.
const CLAIMS_PER_LANE: u64 = 8;

/// Looks at a counter before other threads of the machine are let go first; a look takes 10 to 50 ns.
const SPINS_BEFORE_YIELD: u32 = 512;

/// The region in progress, shared by caller and workers.
#[derive(Debug, Default)]
pub(super) struct Region {
    state: AtomicU64,
    chunks: AtomicU64,
    grain: AtomicU64,
    claims: AtomicU64,
    /// Chunks of a step; all of the region where chunks are independent.
    step_chunks: AtomicU64,
    /// Claims finished.
    done: AtomicU64,
}

/// A range of chunks that the claiming thread must now compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    begin: u64,
    end: u64,
    /// Claims of the steps before.
    after: u64,
}

impl Region {
    /// Opens a region of `chunks` chunks, in steps if that is said. Only for the thread that owns the run, after the former
    /// region is over.
    pub(super) fn open(&self, chunks: u64, step_chunks: Option<u64>, lanes: usize) {
        let lanes = lanes as u64;
        let (step, wanted) = match step_chunks {
            // A step is short: each thread takes part once.
            Some(step) => (step.clamp(1, chunks.max(1)), lanes),
            None => (chunks.max(1), lanes.saturating_mul(CLAIMS_PER_LANE)),
        };
        let most = CLAIM_MASK / chunks.div_ceil(step).max(1);
        // Of more steps than claims can be counted, one thread computes all.
        let (step, most) = if most == 0 { (chunks, 1) } else { (step, most) };
        let grain = step.div_ceil(wanted.clamp(1, most));
        let claims = chunks.div_ceil(step) * step.div_ceil(grain);
        self.chunks.store(chunks, Ordering::Relaxed);
        self.step_chunks.store(step, Ordering::Relaxed);
        self.grain.store(grain, Ordering::Relaxed);
        self.claims.store(claims, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let number = (self.state.load(Ordering::Relaxed) >> CLAIM_BITS) + 1;
        // Publishes the parameters above, and everything else the owner wrote for this region.
        self.state.store(number << CLAIM_BITS | claims, Ordering::Release);
    }

    /// Takes the next claim and has `compute` compute its chunks when their turn has come; false if there is none, or if
    /// `is_ours` does not hold for the region it belongs to.
    pub(super) fn compute_next(&self, is_ours: impl Fn() -> bool, spin: Spin, compute: impl FnOnce(u64, u64)) -> bool {
        /// Reports the claim as over also when `compute` unwinds: the owner waits for every claim.
        struct Finish<'a>(&'a Region);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.done.fetch_add(1, Ordering::Release);
            }
        }
        let Some(claim) = self.claim(is_ours) else {
            return false;
        };
        let _finish = Finish(self);
        let mut idle = 0;
        // What the steps before wrote is visible then.
        while self.done.load(Ordering::Acquire) < claim.after {
            relax(&mut idle, spin);
        }
        if claim.begin < claim.end {
            compute(claim.begin, claim.end);
        }
        true
    }

    /// Takes the next claim if there is one and `is_ours` holds for the region it belongs to.
    fn claim(&self, is_ours: impl Fn() -> bool) -> Option<Claim> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let left = state & CLAIM_MASK;
            if left == 0 || !is_ours() {
                return None;
            }
            let chunks = self.chunks.load(Ordering::Relaxed);
            let step = self.step_chunks.load(Ordering::Relaxed);
            let grain = self.grain.load(Ordering::Relaxed);
            let claims = self.claims.load(Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let number = claims - left;
                    let per_step = step.div_ceil(grain);
                    let first = number / per_step * step;
                    let step_end = first + step.min(chunks - first);
                    let begin = step_end.min(first + number % per_step * grain);
                    let end = begin + grain.min(step_end - begin);
                    return Some(Claim { begin, end, after: number - number % per_step });
                }
                Err(now) => state = now,
            }
        }
    }

    /// True when every claim is computed; what the workers wrote is visible then.
    pub(super) fn is_over(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.claims.load(Ordering::Relaxed)
    }

    /// Takes all claims that nobody has taken yet without computing them, so that the region can end.
    pub(super) fn abandon(&self, spin: Spin) {
        while self.compute_next(|| true, spin, |_, _| ()) {}
    }
}

/// Waits a moment.
pub(super) fn relax(idle: &mut u32, spin: Spin) {
    *idle = idle.saturating_add(1);
    if spin == Spin::Yield || *idle > SPINS_BEFORE_YIELD {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Spin = Spin::Run;

    #[test]
    fn claims_cover_all_chunks_once() {
        let region = Region::default();
        let sizes = [(1, 1), (7, 2), (8, 1), (1000, 3), (u64::MAX, 2), (0, 4), (5, usize::MAX)];
        let steps = [None, Some(0), Some(1), Some(3), Some(8), Some(1001), Some(u64::MAX)];
        for ((chunks, lanes), step) in sizes.into_iter().flat_map(|size| steps.map(|step| (size, step))) {
            region.open(chunks, step, lanes);
            let mut next = 0;
            let mut compute = |begin, end| {
                assert_eq!(begin, next);
                assert!(end > begin);
                next = end;
            };
            while region.compute_next(|| true, SPIN, &mut compute) {}
            assert_eq!(next, chunks, "{step:?} for {lanes}");
            assert!(region.is_over());
        }
    }

    /// A claim lies within one step and knows how many claims the steps before have.
    #[test]
    fn claims_wait_for_steps_before() {
        let region = Region::default();
        region.open(10, Some(4), 3);
        let claims: Vec<Claim> = std::iter::from_fn(|| region.claim(|| true)).collect();
        let expected = [(0, 2, 0), (2, 4, 0), (4, 6, 2), (6, 8, 2), (8, 10, 4), (10, 10, 4)];
        assert_eq!(claims, expected.map(|(begin, end, after)| Claim { begin, end, after }));
    }

    #[test]
    fn a_foreign_region_is_left_alone() {
        let region = Region::default();
        region.open(4, None, 1);
        assert_eq!(region.claim(|| false), None);
        region.abandon(SPIN);
        assert!(region.is_over());
    }
}
