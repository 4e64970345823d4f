//! The search over the schedules of one kernel.

use crate::features::any_features;
use crate::model::{CostModel, sample};
use crate::random::Random;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::{AnyMachine, Decision, apply};
use std::collections::{HashSet, VecDeque};

/// Alternatives per decision that are tried alone, before anything is combined.
const ALONE: usize = 12;
/// Schedules that have descendants.
const PARENTS: usize = 8;
/// Descendants that turn out to be known already, after which the space counts as exhausted.
const PATIENCE: usize = 400;
/// Schedules drawn by lot that turn out to be known already, after which no more are drawn.
const LOTTERY: usize = 64;
/// Trials of a kernel, the likeliest by estimate, before the cost model has a say.
const ESTIMATED: usize = 8;
/// Schedules that are made anew before the cost model chooses among these and all that it has not chosen before.
const NEW: usize = 48;
/// How many are measured before others are made, and how many of those are chosen by lot.
const BATCH: usize = 8;
const LOTS: usize = 2;
/// How many that were not chosen are kept for the next time, those of which most is expected.
const POOL: usize = 256;

/// How schedules are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Every decision is drawn by lot; to compare with.
    Random,
    /// Those that differ from the default in one pick, then descendants of the quickest.
    Evolutionary,
    /// Of all of these, the ones of which the cost model expects most.
    #[default]
    Guided,
}

/// A schedule to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What was met and picked.
    pub decisions: Vec<Decision>,
    /// What follows from it.
    pub schedule: Schedule,
    /// What the cost model is told of it; empty if nobody asked.
    sample: Vec<f64>,
}

/// Proposes schedules of a kernel and learns how quick they are. The same answers lead to the same proposals.
pub struct Search<'k> {
    kernel: &'k Kernel,
    machine: &'k AnyMachine,
    allowed: ErrorClass,
    strategy: Strategy,
    random: Random,
    /// Features of the default choice.
    of_default: Vec<f64>,
    /// Of the decisions that it meets.
    alternatives: Vec<usize>,
    /// Whether hardly anything is new that is drawn by lot.
    is_drawn_out: bool,
    /// To be tried first: single picks that differ from the default.
    alone: VecDeque<Vec<usize>>,
    /// Picks that were looked at, and what followed from them.
    seen: HashSet<Vec<usize>>,
    known: HashSet<Schedule>,
    /// Made, and not measured yet.
    pool: Vec<Proposal>,
    /// Chosen of the pool, in order.
    batch: VecDeque<Proposal>,
    /// Measured, the quickest first: relative time, and what was decided.
    measured: Vec<(f64, Vec<Decision>)>,
}

impl<'k> Search<'k> {
    /// A search that has measured the default choice; that is the time 1 which others are relative to.
    #[must_use]
    pub fn new(
        kernel: &'k Kernel,
        machine: &'k AnyMachine,
        allowed: ErrorClass,
        strategy: Strategy,
        seed: u64,
    ) -> Self {
        let mut search = Self {
            kernel,
            machine,
            allowed,
            strategy,
            random: Random::new(seed),
            of_default: Vec::new(),
            alternatives: Vec::new(),
            is_drawn_out: false,
            alone: VecDeque::new(),
            seen: HashSet::new(),
            known: HashSet::new(),
            pool: Vec::new(),
            batch: VecDeque::new(),
            measured: Vec::new(),
        };
        if let Some((schedule, met)) = machine.decide(kernel, allowed, &[]) {
            search.of_default = search.features(&schedule);
            search.known.insert(schedule);
            search.alternatives = met.iter().map(|decision| decision.alternatives).collect();
            // The likelier alternatives of all decisions first.
            for pick in 1..=ALONE {
                let decisions = met.iter().enumerate().filter(|(_, d)| pick < d.alternatives);
                search.alone.extend(decisions.map(|(n, _)| [vec![0; n], vec![pick]].concat()));
            }
            search.measured.push((1.0, met));
        }
        search
    }

    /// A schedule need not be proposed any more.
    pub fn knows(&mut self, schedule: &Schedule) {
        self.known.insert(schedule.clone());
    }

    /// The next schedule to be measured; `None` if nothing new is found.
    pub fn propose(&mut self, model: &CostModel) -> Option<Proposal> {
        match self.strategy {
            Strategy::Random => self.drawn(),
            Strategy::Evolutionary => self.unguided(),
            Strategy::Guided => self.guided(model),
        }
    }

    /// Says how long a proposal takes, in times of the default; nothing needs to be said of what failed.
    pub fn tell(&mut self, model: &mut CostModel, proposal: &Proposal, relative_time: f64) {
        let place = self.measured.partition_point(|(time, _)| *time <= relative_time);
        self.measured.insert(place, (relative_time, proposal.decisions.clone()));
        if self.strategy == Strategy::Guided {
            let sample =
                if proposal.sample.is_empty() { self.sample(&proposal.schedule) } else { proposal.sample.clone() };
            model.learn(sample, relative_time);
        }
    }

    /// What is told of a schedule to cost models.
    #[must_use]
    pub fn sample(&self, schedule: &Schedule) -> Vec<f64> {
        sample(&self.features(schedule), &self.of_default)
    }

    fn features(&self, schedule: &Schedule) -> Vec<f64> {
        apply(self.kernel, schedule).map_or_else(|_| self.of_default.clone(), |nest| any_features(&nest, self.machine))
    }

    /// The next of those that differ in one pick, or else a descendant.
    fn unguided(&mut self) -> Option<Proposal> {
        self.single().or_else(|| self.related())
    }

    /// The first few by estimate, then what the model expects most of, and some that it does not.
    fn guided(&mut self, model: &CostModel) -> Option<Proposal> {
        if self.measured.len() <= ESTIMATED {
            return self.unguided();
        }
        if !model.has_learned() {
            // It learns most of schedules of all kinds.
            return self.of_any_kind(self.measured.len());
        }
        if self.batch.is_empty() {
            self.fill_pool();
            self.choose_batch(model);
        }
        self.batch.pop_front()
    }

    fn fill_pool(&mut self) {
        for kind in 0..NEW {
            let Some(mut proposal) = self.of_any_kind(kind) else { break };
            proposal.sample = self.sample(&proposal.schedule);
            self.pool.push(proposal);
        }
    }

    /// In turn one that differs in a single pick, one drawn by lot, and a relative of the quickest, as long as there are such.
    fn of_any_kind(&mut self, turn: usize) -> Option<Proposal> {
        let first = match turn % 3 {
            0 => self.single(),
            1 => self.drawn(),
            _ => None,
        };
        first.or_else(|| self.related()).or_else(|| self.drawn()).or_else(|| self.single())
    }

    fn choose_batch(&mut self, model: &CostModel) {
        let expected = |proposal: &Proposal| model.predict(&proposal.sample).unwrap_or(0.0);
        let mut pool: Vec<(f64, Proposal)> = self.pool.drain(..).map(|p| (expected(&p), p)).collect();
        // Equal ones keep their order.
        pool.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut pool: Vec<Proposal> = pool.into_iter().map(|(_, proposal)| proposal).collect();
        self.batch.extend(pool.drain(..pool.len().min(BATCH - LOTS)));
        for _ in 0..LOTS.min(pool.len()) {
            let n = self.random.below(pool.len());
            self.batch.push_back(pool.remove(n));
        }
        pool.truncate(POOL);
        self.pool = pool;
    }

    /// The next that differs from the default in one pick.
    fn single(&mut self) -> Option<Proposal> {
        while let Some(picks) = self.alone.pop_front() {
            if let Some(proposal) = self.proposal(picks) {
                return Some(proposal);
            }
        }
        None
    }

    /// A new relative of the quickest.
    fn related(&mut self) -> Option<Proposal> {
        (0..PATIENCE).find_map(|_| {
            let picks = self.descendant()?;
            self.proposal(picks)
        })
    }

    fn proposal(&mut self, picks: Vec<usize>) -> Option<Proposal> {
        if !self.seen.insert(picks.clone()) {
            return None;
        }
        let (schedule, decisions) = self.machine.decide(self.kernel, self.allowed, &picks)?;
        let is_new = self.known.insert(schedule.clone());
        is_new.then_some(Proposal { decisions, schedule, sample: Vec::new() })
    }

    /// A new one by lot: all decisions that the default choice meets.
    fn drawn(&mut self) -> Option<Proposal> {
        if self.is_drawn_out {
            return None;
        }
        let drawn = (0..LOTTERY).find_map(|_| {
            let picks = self.alternatives.iter().map(|&alternatives| self.random.below(alternatives)).collect();
            self.proposal(picks)
        });
        self.is_drawn_out = drawn.is_none();
        drawn
    }

    /// A relative of one of the quickest: some decisions made otherwise, or taken from another.
    fn descendant(&mut self) -> Option<Vec<usize>> {
        let parents = self.measured.len().min(PARENTS);
        // The quicker of two is the likelier parent.
        let parent = self.random.below(parents).min(self.random.below(parents));
        let met = self.measured.get(parent)?.1.clone();
        let open: Vec<usize> = (0..met.len()).filter(|&n| met[n].alternatives > 1).collect();
        if open.is_empty() {
            return None;
        }
        let mut child: Vec<usize> = met.iter().map(|d| d.picked).collect();
        if self.random.below(3) == 0 {
            let other = self.random.below(parents);
            let other = self.measured[other].1.clone();
            for (pick, theirs) in child.iter_mut().zip(other) {
                if self.random.below(2) == 0 {
                    *pick = theirs.picked;
                }
            }
        }
        for _ in 0..=self.random.below(2) {
            let n = open[self.random.below(open.len())];
            child[n] = self.other(&met[n]);
        }
        Some(child)
    }

    /// Another alternative of a decision: near what it was, or near the first.
    fn other(&mut self, decision: &Decision) -> usize {
        let last = decision.alternatives - 1;
        let step = 1 + self.random.below(3);
        match self.random.below(3) {
            0 => (decision.picked + step).min(last),
            1 => decision.picked.saturating_sub(step),
            _ => self.random.below(decision.alternatives).min(self.random.below(decision.alternatives)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> AnyMachine {
        infc::schedule_machine(&"x86-64-v3".parse().expect("a target")).into()
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

    fn run(strategy: Strategy, seed: u64, trials: usize) -> (f64, Vec<Proposal>) {
        let (kernel, machine) = (kernel(), machine());
        let mut search = Search::new(&kernel, &machine, ErrorClass::Reassociating, strategy, seed);
        let mut model = CostModel::default();
        let mut best = 1.0f64;
        let mut all = Vec::new();
        for _ in 0..trials {
            let Some(proposal) = search.propose(&model) else { break };
            let relative = time(&proposal.schedule);
            best = best.min(relative);
            search.tell(&mut model, &proposal, relative);
            all.push(proposal);
        }
        (best, all)
    }

    const ALL: [Strategy; 3] = [Strategy::Random, Strategy::Evolutionary, Strategy::Guided];

    #[test]
    fn nothing_is_proposed_twice_and_all_can_be_applied() {
        for strategy in ALL {
            let (_, all) = run(strategy, 1, 100);
            let kernel = kernel();
            let mut seen = HashSet::new();
            for proposal in &all {
                assert!(seen.insert(proposal.schedule.clone()), "{}", proposal.schedule);
                infc_passes::schedule::apply(&kernel, &proposal.schedule).expect("it applies");
            }
            assert!(all.len() > 70, "{strategy:?}: {}", all.len());
        }
    }

    #[test]
    fn answers_and_seed_decide_everything() {
        for strategy in ALL {
            assert_eq!(run(strategy, 3, 40).1, run(strategy, 3, 40).1);
            // Without draws all begins with the same single picks.
            let trials = if strategy == Strategy::Evolutionary { 150 } else { 60 };
            assert_ne!(run(strategy, 3, trials).1, run(strategy, 4, trials).1);
        }
    }

    #[test]
    fn good_parents_have_better_children() {
        let (few, _) = run(Strategy::Evolutionary, 2, 20);
        let (many, _) = run(Strategy::Evolutionary, 2, 250);
        assert!(many < few, "{few} after 20 trials, {many} after 250");
    }

    #[test]
    fn what_is_never_chosen_does_not_pile_up() {
        let (kernel, machine) = (kernel(), machine());
        let mut search = Search::new(&kernel, &machine, ErrorClass::Reassociating, Strategy::Guided, 1);
        search.fill_pool();
        search.pool = search.pool.iter().cycle().take(POOL + NEW).cloned().collect();
        search.choose_batch(&CostModel::default());
        assert_eq!((search.batch.len(), search.pool.len()), (BATCH, POOL));
    }

    /// A machine whose times follow from the loop nest: the model finds the quickest of many with few trials.
    #[test]
    fn the_model_needs_fewer_trials() {
        let (kernel, machine) = (kernel(), machine());
        let time = |proposal: &Proposal| {
            let nest = apply(&kernel, &proposal.schedule).expect("it applies");
            let of = any_features(&nest, &machine);
            let named = |name| of[crate::FEATURE_NAMES.iter().position(|n| *n == name).expect("a feature")];
            let cost = 0.7 * named("chain cycles") + 0.3 * named("broadcasts");
            (cost + 0.2 * named("straight-line operations")).exp2()
        };
        let best_of = |strategy, seed| {
            let mut search = Search::new(&kernel, &machine, ErrorClass::Reassociating, strategy, seed);
            let (default, _) = machine.decide(&kernel, ErrorClass::Reassociating, &[]).expect("a default");
            let default = Proposal { decisions: Vec::new(), schedule: default, sample: Vec::new() };
            let unit = time(&default);
            let (mut model, mut best) = (CostModel::default(), 1.0f64);
            for _ in 0..80 {
                let Some(proposal) = search.propose(&model) else { break };
                let relative = time(&proposal) / unit;
                best = best.min(relative);
                search.tell(&mut model, &proposal, relative);
            }
            best.ln()
        };
        let mean = |strategy| (0..4).map(|seed| best_of(strategy, seed)).sum::<f64>() / 4.0;
        let (random, guided) = (mean(Strategy::Random), mean(Strategy::Guided));
        assert!(guided < random, "{guided} with a model, {random} by lot");
    }
}
