//! One parallel region: chunks handed out by an atomic counter.
//!
//! The word `state` holds the number of the region and how many *claims* (runs of `grain` chunks) are left in it.
//! Taking a claim is one compare-and-swap of that word. It succeeds only if the region is still the one whose
//! parameters were read: they change only after all claims of the former region are finished, and by then the word has
//! changed too. The region number (44 bits) does not come round again in the life of a process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Low bits of `state`: claims left.
const CLAIM_BITS: u32 = 20;
const CLAIM_MASK: u64 = (1 << CLAIM_BITS) - 1;
/// Claims per thread that a region is cut into: enough to even out threads of different speed, few enough that the
/// counter is not contended.
const CLAIMS_PER_LANE: u64 = 8;

/// The region in progress, shared by caller and workers.
#[derive(Debug, Default)]
pub(super) struct Region {
    state: AtomicU64,
    chunks: AtomicU64,
    grain: AtomicU64,
    claims: AtomicU64,
    /// Claims finished.
    done: AtomicU64,
}

/// A range of chunks that the claiming thread must now compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    begin: u64,
    end: u64,
}

impl Region {
    /// Opens a region of `chunks` chunks. Only for the thread that owns the run, after the former region is over.
    pub(super) fn open(&self, chunks: u64, lanes: usize) {
        let wanted = (lanes as u64).saturating_mul(CLAIMS_PER_LANE).clamp(1, CLAIM_MASK);
        let grain = chunks.div_ceil(wanted).max(1);
        let claims = chunks.div_ceil(grain);
        self.chunks.store(chunks, Ordering::Relaxed);
        self.grain.store(grain, Ordering::Relaxed);
        self.claims.store(claims, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let number = (self.state.load(Ordering::Relaxed) >> CLAIM_BITS) + 1;
        // Publishes the parameters above, and everything else the owner wrote for this region.
        self.state.store(number << CLAIM_BITS | claims, Ordering::Release);
    }

    /// Takes the next claim and has `compute` compute its chunks; false if there is none, or if `is_ours` does not hold
    /// for the region it belongs to.
    pub(super) fn compute_next(&self, is_ours: impl Fn() -> bool, compute: impl FnOnce(u64, u64)) -> bool {
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
        compute(claim.begin, claim.end);
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
            let grain = self.grain.load(Ordering::Relaxed);
            let claims = self.claims.load(Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let begin = (claims - left) * grain;
                    return Some(Claim { begin, end: begin + grain.min(chunks - begin) });
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
    pub(super) fn abandon(&self) {
        while self.compute_next(|| true, |_, _| ()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_cover_all_chunks_once() {
        let region = Region::default();
        for (chunks, lanes) in [(1, 1), (7, 2), (8, 1), (1000, 3), (u64::MAX, 2), (0, 4), (5, usize::MAX)] {
            region.open(chunks, lanes);
            let mut next = 0;
            while region.compute_next(
                || true,
                |begin, end| {
                    assert_eq!(begin, next);
                    assert!(end > begin);
                    next = end;
                },
            ) {}
            assert_eq!(next, chunks);
            assert!(region.is_over());
        }
    }

    #[test]
    fn a_foreign_region_is_left_alone() {
        let region = Region::default();
        region.open(4, 1);
        assert_eq!(region.claim(|| false), None);
        region.abandon();
        assert!(region.is_over());
    }
}
