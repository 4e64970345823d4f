//! The search over the schedules of one kernel.

use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::{Decision, Machine, decide};
use std::collections::{HashSet, VecDeque};

/// Alternatives per decision that are tried alone, before anything is combined.
const ALONE: usize = 12;
/// Schedules that have descendants.
const PARENTS: usize = 8;
/// Descendants that turn out to be known already, after which the space counts as exhausted.
const PATIENCE: usize = 400;

/// A schedule to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What was met and picked.
    pub decisions: Vec<Decision>,
    /// What follows from it.
    pub schedule: Schedule,
}

/// Proposes schedules of a kernel and learns how quick they are. The same answers lead to the same proposals.
pub struct Search<'k> {
    kernel: &'k Kernel,
    machine: &'k Machine,
    allowed: ErrorClass,
    state: u64,
    /// To be tried first: single picks that differ from the default.
    alone: VecDeque<Vec<usize>>,
    /// Picks that were looked at, and what followed from them.
    seen: HashSet<Vec<usize>>,
    known: HashSet<Schedule>,
    /// Measured, the quickest first: relative time, and what was decided.
    measured: Vec<(f64, Vec<Decision>)>,
}

impl<'k> Search<'k> {
    /// A search that has measured the default choice; that is the time 1 which others are relative to.
    #[must_use]
    pub fn new(kernel: &'k Kernel, machine: &'k Machine, allowed: ErrorClass, seed: u64) -> Self {
        let mut search = Self {
            kernel,
            machine,
            allowed,
            state: seed,
            alone: VecDeque::new(),
            seen: HashSet::new(),
            known: HashSet::new(),
            measured: Vec::new(),
        };
        if let Some((schedule, met)) = decide(kernel, machine, allowed, &[]) {
            search.known.insert(schedule);
            // The likelier alternatives of all decisions first.
            for pick in 1..=ALONE {
                let decisions = met.iter().enumerate().filter(|(_, d)| pick < d.alternatives);
                search.alone.extend(decisions.map(|(n, _)| [vec![0; n], vec![pick]].concat()));
            }
            search.measured.push((1.0, met));
        }
        search
    }

    /// The next schedule to be measured; `None` if nothing new is found.
    pub fn propose(&mut self) -> Option<Proposal> {
        while let Some(picks) = self.alone.pop_front() {
            if let Some(proposal) = self.proposal(picks) {
                return Some(proposal);
            }
        }
        (0..PATIENCE).find_map(|_| {
            let picks = self.descendant()?;
            self.proposal(picks)
        })
    }

    /// Says how long a proposal takes, in times of the default; nothing needs to be said of what failed.
    pub fn tell(&mut self, proposal: &Proposal, relative_time: f64) {
        let place = self.measured.partition_point(|(time, _)| *time <= relative_time);
        self.measured.insert(place, (relative_time, proposal.decisions.clone()));
    }

    fn proposal(&mut self, picks: Vec<usize>) -> Option<Proposal> {
        if !self.seen.insert(picks.clone()) {
            return None;
        }
        let (schedule, decisions) = decide(self.kernel, self.machine, self.allowed, &picks)?;
        self.known.insert(schedule.clone()).then_some(Proposal { decisions, schedule })
    }

    /// A relative of one of the quickest: some decisions made otherwise, or taken from another.
    fn descendant(&mut self) -> Option<Vec<usize>> {
        let parents = self.measured.len().min(PARENTS);
        // The quicker of two is the likelier parent.
        let parent = self.below(parents).min(self.below(parents));
        let met = self.measured.get(parent)?.1.clone();
        let open: Vec<usize> = (0..met.len()).filter(|&n| met[n].alternatives > 1).collect();
        if open.is_empty() {
            return None;
        }
        let mut child: Vec<usize> = met.iter().map(|d| d.picked).collect();
        if self.below(3) == 0 {
            let other = self.below(parents);
            let other = self.measured[other].1.clone();
            for (pick, theirs) in child.iter_mut().zip(other) {
                if self.below(2) == 0 {
                    *pick = theirs.picked;
                }
            }
        }
        for _ in 0..=self.below(2) {
            let n = open[self.below(open.len())];
            child[n] = self.other(&met[n]);
        }
        Some(child)
    }

    /// Another alternative of a decision: near what it was, or near the first.
    fn other(&mut self, decision: &Decision) -> usize {
        let last = decision.alternatives - 1;
        let step = 1 + self.below(3);
        match self.below(3) {
            0 => (decision.picked + step).min(last),
            1 => decision.picked.saturating_sub(step),
            _ => self.below(decision.alternatives).min(self.below(decision.alternatives)),
        }
    }

    /// A number below `n`: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        infc::schedule_machine(&"x86-64-v3".parse().expect("a target"))
    }

    fn kernel() -> Kernel {
        infc_passes::formulate::normalise(infc_testkit::kernel("matmul"))
    }

    /// The times of a made-up machine that likes one tile and one order.
    fn time(schedule: &Schedule) -> f64 {
        let text = schedule.to_string();
        let likes = |what: &str, gain: f64| if text.contains(what) { gain } else { 1.0 };
        likes("by 3 ->", 0.7) * likes("by 2 ->", 0.8) * (1.0 + text.len() as f64 * 1e-4)
    }

    fn run(seed: u64, trials: usize) -> (f64, Vec<Proposal>) {
        let (kernel, machine) = (kernel(), machine());
        let mut search = Search::new(&kernel, &machine, ErrorClass::Reassociating, seed);
        let mut best = 1.0f64;
        let mut all = Vec::new();
        for _ in 0..trials {
            let Some(proposal) = search.propose() else { break };
            let relative = time(&proposal.schedule);
            best = best.min(relative);
            search.tell(&proposal, relative);
            all.push(proposal);
        }
        (best, all)
    }

    #[test]
    fn nothing_is_proposed_twice_and_all_can_be_applied() {
        let (_, all) = run(1, 200);
        let kernel = kernel();
        let mut seen = HashSet::new();
        for proposal in &all {
            assert!(seen.insert(proposal.schedule.clone()), "{}", proposal.schedule);
            infc_passes::schedule::apply(&kernel, &proposal.schedule).expect("it applies");
        }
        assert!(all.len() > 100, "{}", all.len());
    }

    #[test]
    fn answers_and_seed_decide_everything() {
        assert_eq!(run(3, 80).1, run(3, 80).1);
        assert_ne!(run(3, 150).1, run(4, 150).1);
    }

    #[test]
    fn good_parents_have_better_children() {
        let (few, _) = run(2, 20);
        let (many, _) = run(2, 250);
        assert!(many < few, "{few} after 20 trials, {many} after 250");
    }
}
