//! One parallel region: chunks handed out by atomic counters.
//!
//! Each lane has a *share* of the chunks, side by side, and takes those first; when none is left it takes of the others'.
//! Of two kernels that walk the same rows, a lane so computes about the same ones, and finds in its own caches what it wrote
//! before.
//!
//! The word `state` of a share holds the number of the region and how many *claims* (runs of `grain` chunks) are left in
//! it. Taking a claim is one compare-and-swap of that word. It succeeds only if the region is still the one whose
//! parameters were read: they change only after all claims of the former region are finished, and by then the word has
//! changed too. The region number (44 bits) does not come round again in the life of a process.
//!
//! Chunks of a recurrence come in steps. A share has one claim of each step, always of the same place (as far as a step can be cut
//! into equal parts), so that a lane finds the weights of its place in its caches; kernels go through the places of odd steps
//! backwards, and so do claims. Lanes without a share have no part in such a region. A claim is
//! taken of the share that is behind the others, the lane's own one if none is, so that all claims of a step are taken before any
//! of the next, and those of all steps before are finished when as many claims are finished as there are in them; whoever has
//! taken a claim waits until then. Every claim that is waited for has been taken by a thread that is computing it, so nobody
//! waits for ever.

use super::Spin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Low bits of `state`: claims left.
const CLAIM_BITS: u32 = 20;
const CLAIM_MASK: u64 = (1 << CLAIM_BITS) - 1;
/// Claims per thread that a region is cut into: enough to even out threads of different speed, few enough that the
/// counters are not contended.
const CLAIMS_PER_LANE: u64 = 8;

/// Looks at a counter before other threads of the machine are let go first; a look takes 10 to 50 ns.
const SPINS_BEFORE_YIELD: u32 = 512;

/// The region in progress, shared by caller and workers.
#[derive(Debug)]
pub(super) struct Region {
    /// One per lane that there may be.
    shares: Box<[Share]>,
    chunks: AtomicU64,
    grain: AtomicU64,
    claims: AtomicU64,
    /// Lanes that are told of the region: those of the run.
    told: AtomicU64,
    /// Shares that the claims are in.
    lanes: AtomicU64,
    /// Chunks of a step; all of the region where chunks are independent.
    step_chunks: AtomicU64,
    /// Claims finished.
    done: AtomicU64,
}

/// A word in a cache line of its own (two of 64 bytes, which processors fetch together), since a lane that waits looks at
/// its own share only.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share {
    state: AtomicU64,
}

/// A lane's place in a region.
#[derive(Debug)]
pub(super) struct Seat {
    lane: usize,
    /// The last region in which nothing was left to take.
    empty: u64,
}

impl Seat {
    pub(super) fn of_lane(lane: usize) -> Self {
        Self { lane, empty: 0 }
    }
}

/// A range of chunks that the claiming thread must now compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    begin: u64,
    end: u64,
    /// Claims of the steps before.
    after: u64,
}

/// What was found in a share.
enum Taken {
    Claim(Claim),
    /// No claim of this region is left.
    Empty {
        region: u64,
    },
    NotOurs,
}

impl Region {
    /// A region of no chunks, for at most so many lanes.
    pub(super) fn new(lanes: usize) -> Self {
        let zero = AtomicU64::default;
        Self {
            shares: (0..lanes.max(1)).map(|_| Share::default()).collect(),
            chunks: zero(),
            grain: zero(),
            claims: zero(),
            told: zero(),
            lanes: zero(),
            step_chunks: zero(),
            done: zero(),
        }
    }

    /// Opens a region of `chunks` chunks, in steps if that is said, for the first `lanes` lanes. Only for the thread that
    /// owns the run, after the former region is over.
    pub(super) fn open(&self, chunks: u64, step_chunks: Option<u64>, lanes: usize) {
        let lanes = lanes.clamp(1, self.shares.len()) as u64;
        let (step, wanted) = match step_chunks {
            // A step is short: each thread takes part once.
            Some(step) => (step.clamp(1, chunks.max(1)), lanes),
            None => (chunks.max(1), lanes.saturating_mul(CLAIMS_PER_LANE)),
        };
        let most = CLAIM_MASK / chunks.div_ceil(step).max(1);
        // Of more steps than claims can be counted, one thread computes all.
        let (step, most) = if most == 0 { (chunks, 1) } else { (step, most) };
        let grain = step.div_ceil(wanted.clamp(1, most));
        let per_step = step.div_ceil(grain);
        let claims = chunks.div_ceil(step) * per_step;
        let shares = if step < chunks { per_step } else { lanes };
        self.chunks.store(chunks, Ordering::Relaxed);
        self.step_chunks.store(step, Ordering::Relaxed);
        self.grain.store(grain, Ordering::Relaxed);
        self.claims.store(claims, Ordering::Relaxed);
        self.told.store(lanes, Ordering::Relaxed);
        self.lanes.store(shares, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let number = (self.shares[0].state.load(Ordering::Relaxed) >> CLAIM_BITS) + 1;
        // Every lane of the run is told the number, also where its share is empty: it waits for that.
        for (lane, share) in self.shares[..lanes as usize].iter().enumerate() {
            let (first, end) = share_of(lane as u64, shares, claims);
            // Publishes the parameters above, and everything else the owner wrote for this region.
            share.state.store(number << CLAIM_BITS | (end - first), Ordering::Release);
        }
    }

    /// Takes the next claim and has `compute` compute its chunks when their turn has come; false if there is none, or if
    /// `is_ours` does not hold for the region it belongs to.
    pub(super) fn compute_next(
        &self,
        seat: &mut Seat,
        is_ours: impl Fn() -> bool,
        spin: Spin,
        compute: impl FnOnce(u64, u64),
    ) -> bool {
        /// Reports the claim as over also when `compute` unwinds: the owner waits for every claim.
        struct Finish<'a>(&'a Region);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.done.fetch_add(1, Ordering::Release);
            }
        }
        let Some(claim) = self.claim(seat, is_ours) else {
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

    /// Takes the next claim, of the lane's own share first, or where steps have an order of the share that is behind, if there is one
    /// and `is_ours` holds for the region it belongs to.
    fn claim(&self, seat: &mut Seat, is_ours: impl Fn() -> bool) -> Option<Claim> {
        let own = &self.shares[seat.lane];
        let number = own.state.load(Ordering::Acquire) >> CLAIM_BITS;
        if number == seat.empty {
            return None;
        }
        // At least as new as the number: what was told before it.
        let told = self.shares.len().min(self.told.load(Ordering::Relaxed) as usize);
        if seat.lane >= told {
            return None;
        }
        if self.is_in_steps() {
            if seat.lane as u64 >= self.lanes.load(Ordering::Relaxed) {
                // It has no place in a step, and would take those of others.
                seat.empty = number;
                return None;
            }
            return self.claim_of_step(seat, number, told, &is_ours);
        }
        let mut all_empty = true;
        for lane in (seat.lane..told).chain(0..seat.lane) {
            match self.claim_in(lane, &is_ours) {
                Taken::Claim(claim) => return Some(claim),
                Taken::Empty { region } => all_empty &= region >= number,
                Taken::NotOurs => return None,
            }
        }
        // A share that has not been told of the region yet may have something.
        if all_empty {
            seat.empty = number;
        }
        None
    }

    /// Whether claims have an order.
    fn is_in_steps(&self) -> bool {
        self.step_chunks.load(Ordering::Relaxed) < self.chunks.load(Ordering::Relaxed)
    }

    /// Takes the next claim of region `number`, whose chunks come in steps.
    fn claim_of_step(&self, seat: &mut Seat, number: u64, told: usize, is_ours: impl Fn() -> bool) -> Option<Claim> {
        loop {
            let mut behind = (0, 0);
            for lane in (seat.lane..told).chain(0..seat.lane) {
                let state = self.shares[lane].state.load(Ordering::Acquire);
                if state >> CLAIM_BITS != number {
                    // The lane has not been told yet, or another region has begun.
                    return None;
                }
                if state & CLAIM_MASK > behind.1 & CLAIM_MASK {
                    behind = (lane, state);
                }
            }
            let (lane, state) = behind;
            if state & CLAIM_MASK == 0 {
                seat.empty = number;
                return None;
            }
            if !is_ours() {
                return None;
            }
            let chunks = self.chunks.load(Ordering::Relaxed);
            let step = self.step_chunks.load(Ordering::Relaxed);
            let grain = self.grain.load(Ordering::Relaxed);
            let share = &self.shares[lane].state;
            if share.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                let per_step = step.div_ceil(grain);
                let number = chunks.div_ceil(step) - (state & CLAIM_MASK);
                let place = if number.is_multiple_of(2) { lane as u64 } else { per_step - 1 - lane as u64 };
                let first = number * step;
                let step_end = first + step.min(chunks - first);
                let begin = step_end.min(first + place * grain);
                let end = begin + grain.min(step_end - begin);
                return Some(Claim { begin, end, after: number * per_step });
            }
        }
    }

    fn claim_in(&self, lane: usize, is_ours: impl Fn() -> bool) -> Taken {
        let share = &self.shares[lane];
        let mut state = share.state.load(Ordering::Acquire);
        loop {
            let left = state & CLAIM_MASK;
            if left == 0 {
                return Taken::Empty { region: state >> CLAIM_BITS };
            }
            if !is_ours() {
                return Taken::NotOurs;
            }
            if self.is_in_steps() {
                // Of a region that has begun meanwhile.
                return Taken::NotOurs;
            }
            let chunks = self.chunks.load(Ordering::Relaxed);
            let grain = self.grain.load(Ordering::Relaxed);
            let claims = self.claims.load(Ordering::Relaxed);
            let lanes = self.lanes.load(Ordering::Relaxed);
            match share.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let number = share_of(lane as u64, lanes, claims).1 - left;
                    let begin = chunks.min(number * grain);
                    let end = begin + grain.min(chunks - begin);
                    return Taken::Claim(Claim { begin, end, after: 0 });
                }
                Err(now) => state = now,
            }
        }
    }

    /// True when every claim is computed; what the workers wrote is visible then.
    pub(super) fn is_over(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.claims.load(Ordering::Relaxed)
    }

    /// Takes all claims that nobody has taken yet without computing them, so that the region can end. Only for the owner.
    pub(super) fn abandon(&self, spin: Spin) {
        let mut seat = Seat::of_lane(0);
        while self.compute_next(&mut seat, || true, spin, |_, _| ()) {}
    }
}

/// The claims, first and behind the last, of a lane's share where so many lanes share so many.
fn share_of(lane: u64, lanes: u64, claims: u64) -> (u64, u64) {
    // Neither factor has more than 20 bits, or there is one lane.
    let at = |lane: u64| lane.min(lanes) * claims / lanes;
    (at(lane), at(lane + 1))
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
        let sizes = [(1, 1), (7, 2), (8, 1), (1000, 3), (u64::MAX, 2), (0, 4), (5, 100)];
        let steps = [None, Some(0), Some(1), Some(3), Some(8), Some(1001), Some(u64::MAX)];
        for ((chunks, lanes), step) in sizes.into_iter().flat_map(|size| steps.map(|step| (size, step))) {
            let region = Region::new(lanes);
            region.open(chunks, step, lanes);
            let mut seen: Vec<(u64, u64)> = Vec::new();
            let mut seat = Seat::of_lane(0);
            while region.compute_next(&mut seat, || true, SPIN, |begin, end| seen.push((begin, end))) {}
            seen.sort_unstable();
            let mut next = 0;
            for (begin, end) in seen {
                assert_eq!(begin, next, "{step:?} for {lanes}");
                assert!(end > begin);
                next = end;
            }
            assert_eq!(next, chunks, "{step:?} for {lanes}");
            assert!(region.is_over());
        }
    }

    fn ranges(region: &Region, lane: usize) -> Vec<(u64, u64)> {
        let mut seat = Seat::of_lane(lane);
        std::iter::from_fn(|| region.claim(&mut seat, || true)).map(|claim| (claim.begin, claim.end)).collect()
    }

    /// A lane begins where its share does, goes on with the others', and leaves nothing.
    #[test]
    fn lanes_take_their_own_share_first() {
        let region = Region::new(3);
        region.open(3, None, 3);
        assert_eq!(ranges(&region, 1), [(1, 2), (2, 3), (0, 1)]);
        region.open(100, None, 2);
        let mut seats = [0, 1].map(Seat::of_lane);
        let mut begin = |lane: usize| region.claim(&mut seats[lane], || true).map(|claim| claim.begin);
        assert_eq!((begin(0), begin(1), begin(0)), (Some(0), Some(49), Some(7)));
        // A lane that does not take part is told nothing.
        assert_eq!(ranges(&region, 2), []);
        assert_eq!(ranges(&region, 1).len() + 3, 15);
        assert_eq!(begin(0), None);
    }

    /// A claim lies within one step and knows how many claims the steps before have.
    #[test]
    fn claims_wait_for_steps_before() {
        let region = Region::new(3);
        region.open(10, Some(4), 3);
        // A lane without a place has nothing to do.
        assert_eq!(region.claim(&mut Seat::of_lane(2), || true), None);
        let mut seat = Seat::of_lane(1);
        let claims: Vec<Claim> = std::iter::from_fn(|| region.claim(&mut seat, || true)).collect();
        // Two claims a step, its own first; odd steps backwards.
        let expected = [(2, 4, 0), (0, 2, 0), (4, 6, 2), (6, 8, 2), (10, 10, 4), (8, 10, 4)];
        assert_eq!(claims, expected.map(|(begin, end, after)| Claim { begin, end, after }));
    }

    /// A lane has one place in all steps, counted from the other end in odd ones, and takes what another has not begun before it
    /// goes on to the next step.
    #[test]
    fn lanes_keep_their_places_in_steps() {
        let region = Region::new(2);
        region.open(12, Some(4), 2);
        let mut seats = [0, 1].map(Seat::of_lane);
        let mut begin = |lane: usize| region.claim(&mut seats[lane], || true).map(|claim| claim.begin);
        assert_eq!([begin(0), begin(1), begin(1), begin(0)], [Some(0), Some(2), Some(4), Some(6)]);
        assert_eq!([begin(1), begin(1), begin(0)], [Some(10), Some(8), None]);
        // As if it had been told of a region, and the other lane had not.
        region.shares[0].state.fetch_add(1 << CLAIM_BITS | 1, Ordering::Relaxed);
        assert_eq!(region.claim(&mut Seat::of_lane(0), || true), None);
    }

    #[test]
    fn a_foreign_region_is_left_alone() {
        let region = Region::new(1);
        region.open(4, None, 1);
        let mut seat = Seat::of_lane(0);
        assert_eq!(region.claim(&mut seat, || false), None);
        // It has not been found to be empty.
        assert!(region.claim(&mut seat, || true).is_some());
        region.abandon(SPIN);
        assert_eq!(region.done.load(Ordering::Relaxed), 3);
    }
}
