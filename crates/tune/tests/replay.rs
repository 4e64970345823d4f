//! A search that was measured once, repeated without measuring: the same answers lead to the same search.
//!
//! `replay/*.jsonl` is what `infc tune --log` wrote. Where rules of the default choice change, schedules have other texts, and
//! the log is to be renewed on any machine that runs the target: `replay/README.md` tells how.

use infc::{KernelKey, Task, recorded_kernel, schedule_machine};
use infc_passes::ErrorClass;
use infc_tune::{CostModel, Logged, Measure, Outcome, Replay, ReplayError, Rules, Strategy, Tournament, Verdict};
use std::path::Path;

/// As the log was made: `--seed` and `--trials`.
const SEED: u64 = 7;
const TRIALS: usize = 80;

fn log() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/digits.jsonl");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The kernels of a log, and the target that they were compiled for.
fn tasks(log: &str) -> (Vec<Task>, infc::Target) {
    let mut found = Vec::new();
    let mut for_target = None;
    for line in log.lines() {
        if let Logged::Kernel { name, target, launches, text, .. } = serde_json::from_str(line).unwrap() {
            for_target = Some(target.parse().unwrap());
            let kernel = infc_ir::kernel::Kernel { name, ..recorded_kernel(&text).unwrap() };
            found.push(Task { key: KernelKey::of_text(&text), kernel, text, origins: Vec::new(), launches });
        }
    }
    (found, for_target.expect("a kernel"))
}

/// What a search did: kernel, outcome and best time of each trial.
fn search<'t, M: Measure<'t>>(
    tasks: &'t [Task],
    rules: Rules<'t>,
    measure: &mut M,
    trials: usize,
) -> Result<Vec<(String, Outcome, f64)>, M::Error> {
    let mut tournament = Tournament::new(tasks, rules, CostModel::default(), measure, |_| ())?;
    let mut steps = Vec::new();
    while steps.len() < trials {
        let Some((contest, outcome)) = tournament.advance(measure)? else { break };
        steps.push((contest.task.kernel.name.clone(), outcome, contest.relative()));
    }
    Ok(steps)
}

#[test]
fn a_search_is_repeated_without_measuring() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: SEED };
    let mut replay = Replay::parse(&log).unwrap();
    let asked = replay.unasked();
    let steps = search(&tasks, rules, &mut replay, TRIALS)
        .unwrap_or_else(|error| panic!("{error}: if schedules were to change, renew the log (tests/replay/README.md)"));
    assert_eq!(steps.len(), TRIALS);
    assert_eq!(replay.unasked(), 0, "of {asked} answers");
    // All of it happened: wins, losses, and what the model chose after it had learned something.
    assert!(steps.iter().any(|(_, outcome, _)| *outcome == Outcome::Win), "{steps:?}");
    assert!(steps.iter().any(|(_, outcome, _)| *outcome == Outcome::Loss), "{steps:?}");
    let again = search(&tasks, rules, &mut Replay::parse(&log).unwrap(), TRIALS).unwrap();
    assert_eq!(steps, again);
    // Another seed asks for what nobody measured.
    let other = search(&tasks, Rules { seed: SEED + 1, ..rules }, &mut Replay::parse(&log).unwrap(), TRIALS);
    assert!(matches!(other, Err(ReplayError::NotLogged { .. })), "{other:?}");
    // Without the model the search is another one.
    let unguided = Rules { strategy: Strategy::Evolutionary, ..rules };
    assert!(search(&tasks, unguided, &mut Replay::parse(&log).unwrap(), TRIALS).is_err());
}

/// A bench on which a candidate fails now and then, and one kernel cannot be measured: neither is tried for ever.
struct Broken {
    asked: usize,
}

impl<'t> Measure<'t> for Broken {
    type Error = std::convert::Infallible;

    fn default_seconds(&mut self, task: &'t Task) -> Result<Option<f64>, Self::Error> {
        Ok((!task.kernel.name.starts_with("k0")).then_some(1e-6))
    }

    fn compare(
        &mut self,
        task: &'t Task,
        _: &infc_ir::schedule::Schedule,
        _: Option<&infc_ir::schedule::Schedule>,
    ) -> Result<Option<Verdict>, Self::Error> {
        assert!(!task.kernel.name.starts_with("k0"), "it has no default to be compared with");
        self.asked += 1;
        Ok((!self.asked.is_multiple_of(3)).then_some(Verdict { ratio: 1.5, at_most: 1.6 }))
    }

    fn proves(&mut self, _: &'t Task, _: &infc_ir::schedule::Schedule) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

#[test]
fn what_fails_is_counted_and_not_tried_again() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: 1 };
    let mut bench = Broken { asked: 0 };
    let mut tournament = Tournament::new(&tasks, rules, CostModel::default(), &mut bench, |_| ()).unwrap();
    let before = tournament.total_seconds();
    for _ in 0..200 {
        if tournament.advance(&mut bench).unwrap().is_none() {
            break;
        }
    }
    let (trials, failed) =
        tournament.contests().iter().fold((0, 0), |(t, f), contest| (t + contest.trials, f + contest.failed));
    assert_eq!((trials as usize, failed as usize), (bench.asked, bench.asked / 3));
    assert!(tournament.contests().iter().all(|contest| contest.found.is_none()));
    assert_eq!(tournament.total_seconds(), before);
}

#[test]
fn damaged_logs_are_told() {
    assert!(matches!(Replay::parse("{}\n"), Err(ReplayError::BadLine { line: 1, .. })));
    assert!(matches!(Replay::parse("nonsense"), Err(ReplayError::BadLine { line: 1, .. })));
    assert_eq!(Replay::parse("").unwrap().unasked(), 0);
}

/// A bench on which everything takes as long as everything else, but for one schedule if there is to be a win.
struct Even {
    asked: usize,
    has_win: bool,
}

impl<'t> Measure<'t> for Even {
    type Error = std::convert::Infallible;

    fn default_seconds(&mut self, _: &'t Task) -> Result<Option<f64>, Self::Error> {
        Ok(Some(1e-6))
    }

    fn compare(
        &mut self,
        _: &'t Task,
        _: &infc_ir::schedule::Schedule,
        _: Option<&infc_ir::schedule::Schedule>,
    ) -> Result<Option<Verdict>, Self::Error> {
        self.asked += 1;
        // A win is measured twice.
        let ratio = if self.has_win && (40..42).contains(&self.asked) { 0.9 } else { 1.0 };
        Ok(Some(Verdict { ratio, at_most: ratio }))
    }

    fn proves(&mut self, _: &'t Task, _: &infc_ir::schedule::Schedule) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A search that wins nothing is worth less and less, until it is not worth a trial; one that has won is worth more.
#[test]
fn searches_end_when_little_is_to_be_expected() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let tasks = &tasks[..4];
    let strategy = Strategy::Evolutionary;
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy, seed: 1 };
    let ended = |has_win: bool| {
        let mut bench = Even { asked: 0, has_win };
        let mut tournament = Tournament::new(tasks, rules, CostModel::default(), &mut bench, |_| ()).unwrap();
        assert!((tournament.expected_gain() - 0.1).abs() < 1e-9 && tournament.is_worth_more());
        let foreseen = tournament.trials_to_come();
        let (mut trials, mut expected) = (0, vec![tournament.expected_gain()]);
        while tournament.is_worth_more() {
            if tournament.advance(&mut bench).unwrap().is_none() {
                break;
            }
            trials += 1;
            expected.push(tournament.expected_gain());
        }
        assert!(expected.last().is_some_and(|&last| last < 0.01), "{expected:?}");
        assert_eq!(tournament.trials_to_come(), 0);
        (foreseen, trials, expected)
    };
    let (foreseen, trials, expected) = ended(false);
    assert!(expected.windows(2).all(|pair| pair[1] <= pair[0]), "{expected:?}");
    // At most as many as if kernels that gain nothing did not count, and so many that each had its turns: they share the time.
    assert!((40 * tasks.len()..=foreseen as usize).contains(&trials), "{trials} of {foreseen} foreseen");
    let (_, _, with_win) = ended(true);
    assert!(with_win[..40] == expected[..40] && with_win[40] > with_win[39], "{with_win:?}");
}

/// What was quicker, but computes something else for other extents, is no win.
#[test]
fn what_is_disproven_is_not_found() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: SEED };
    let first_win = |log: &str| {
        let mut replay = Replay::parse(log).unwrap();
        let mut tournament = Tournament::new(&tasks, rules, CostModel::default(), &mut replay, |_| ()).unwrap();
        for _ in 0..TRIALS {
            match tournament.advance(&mut replay).unwrap() {
                Some((contest, Outcome::Win)) => return Some((contest.task, contest.found.clone().unwrap().0)),
                Some((_, Outcome::Failed)) if log.contains("infc.proof/1") => return None,
                _ => {}
            }
        }
        None
    };
    let (task, schedule) = first_win(&log).expect("a win");
    assert!(first_win(&format!("{log}{}", Logged::proof(task, &schedule, true).to_line())).is_some());
    assert!(first_win(&format!("{log}{}", Logged::proof(task, &schedule, false).to_line())).is_none());
}

/// What an earlier run has measured is known from the beginning, from its log and from its records, and changes what is tried.
#[test]
fn models_learn_from_earlier_runs() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let lessons = infc_tune::lessons(&log, None, 1);
    let trials: usize = lessons.iter().map(|lesson| lesson.trials.len()).sum();
    // What wins is measured more than once, what fails tells nothing.
    assert!(lessons.len() == tasks.len() && (TRIALS / 2..=TRIALS).contains(&trials), "{trials}");
    let learned = CostModel::of(&lessons);
    assert!(learned.has_learned() && !CostModel::of(&lessons[..0]).has_learned());
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: SEED };
    let tried = |model: CostModel| {
        let mut bench = Noted::default();
        let mut tournament = Tournament::new(&tasks[..1], rules, model, &mut bench, |_| ()).unwrap();
        // The first few are the likeliest by estimate in any case.
        for _ in 0..30 {
            tournament.advance(&mut bench).unwrap();
        }
        bench.asked
    };
    let (once, again, anew) = (tried(learned.clone()), tried(learned), tried(CostModel::default()));
    assert!(once == again && once[..8] == anew[..8] && once != anew);
    // Damage is left out.
    assert!(infc_tune::lessons("garbage\n{}\n", None, 1).is_empty());
    let damaged = log.replace("stage", "stag");
    assert!(infc_tune::lessons(&damaged, None, 1).is_empty());
}

/// Writes down what is asked, and beside what; nothing is quicker, but what is asked first may be.
struct Noted {
    first: f64,
    proves: bool,
    asked: Vec<(String, Option<String>)>,
}

impl Default for Noted {
    fn default() -> Self {
        Self { first: 1.5, proves: true, asked: Vec::new() }
    }
}

impl<'t> Measure<'t> for Noted {
    type Error = std::convert::Infallible;

    fn default_seconds(&mut self, _: &'t Task) -> Result<Option<f64>, Self::Error> {
        Ok(Some(1e-6))
    }

    fn compare(
        &mut self,
        _: &'t Task,
        candidate: &infc_ir::schedule::Schedule,
        incumbent: Option<&infc_ir::schedule::Schedule>,
    ) -> Result<Option<Verdict>, Self::Error> {
        self.asked.push((candidate.to_string(), incumbent.map(ToString::to_string)));
        let ratio = if self.asked.len() == 1 { self.first } else { 1.5 };
        Ok(Some(Verdict { ratio, at_most: ratio * 1.01 }))
    }

    fn proves(&mut self, _: &'t Task, _: &infc_ir::schedule::Schedule) -> Result<bool, Self::Error> {
        Ok(self.proves)
    }
}

/// A bench on which all candidates are quicker or none can be measured, and in the first case all compute something else.
struct Disproving {
    measures: bool,
    proposed: Vec<String>,
}

impl<'t> Measure<'t> for Disproving {
    type Error = std::convert::Infallible;

    fn default_seconds(&mut self, _: &'t Task) -> Result<Option<f64>, Self::Error> {
        Ok(Some(1e-6))
    }

    fn compare(
        &mut self,
        _: &'t Task,
        candidate: &infc_ir::schedule::Schedule,
        _: Option<&infc_ir::schedule::Schedule>,
    ) -> Result<Option<Verdict>, Self::Error> {
        self.proposed.push(candidate.to_string());
        // Of each candidate another ratio, or else there is nothing to be learned.
        let ratio = 0.1 + 0.8 * (candidate.to_string().len() % 16) as f64 / 16.0;
        Ok(self.measures.then_some(Verdict { ratio, at_most: ratio + 0.05 }))
    }

    fn proves(&mut self, _: &'t Task, _: &infc_ir::schedule::Schedule) -> Result<bool, Self::Error> {
        Ok(false)
    }
}

/// The search goes on as if what is disproven could not have been measured.
#[test]
fn nothing_is_learned_from_what_is_disproven() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: 1 };
    let proposed = |measures: bool| {
        let mut bench = Disproving { measures, proposed: Vec::new() };
        let steps = search(&tasks, rules, &mut bench, 120).unwrap();
        assert!(steps.iter().all(|(_, outcome, _)| *outcome == Outcome::Failed), "{steps:?}");
        // What is quicker is measured twice.
        bench.proposed.dedup();
        bench.proposed
    };
    assert_eq!(proposed(true), proposed(false));
}

/// What was found before is measured anew; if it still is quicker, others have to beat it, and it is not proposed again.
#[test]
fn searches_go_on_where_others_ended() {
    let log = log();
    let (tasks, target) = tasks(&log);
    let machine = schedule_machine(&target).into();
    let rules = Rules { machine: &machine, allowed: ErrorClass::Reassociating, strategy: Strategy::Guided, seed: SEED };
    let tasks = &tasks[..1];
    // The first that a search proposes.
    let mut bench = Noted::default();
    search(tasks, rules, &mut bench, 1).unwrap();
    let known: infc_ir::schedule::Schedule = bench.asked[0].0.parse().unwrap();
    for (ratio, proves, holds) in [(0.8, true, true), (0.8, false, false), (1.0, true, false)] {
        let mut bench = Noted { first: ratio, proves, asked: Vec::new() };
        let mut tournament = Tournament::new(tasks, rules, CostModel::default(), &mut bench, |_| ()).unwrap();
        let mut kept = Vec::new();
        let keep = |contest: &infc_tune::Contest<'_>| {
            kept.push(contest.relative());
            Ok(())
        };
        tournament.resume(|_| Some(known.clone()), &mut bench, keep).unwrap();
        assert_eq!(kept, if holds { vec![ratio] } else { Vec::new() });
        for _ in 0..10 {
            tournament.advance(&mut bench).unwrap();
        }
        let incumbent = holds.then(|| known.to_string());
        assert_eq!(bench.asked[0], (known.to_string(), None));
        assert!(bench.asked[1..].iter().all(|(candidate, _)| *candidate != known.to_string()));
        assert!(bench.asked[1..].iter().all(|(_, beside)| *beside == incumbent), "{:?}", bench.asked);
    }
}
