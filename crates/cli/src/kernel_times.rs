//! Where the time of a run goes: `infc bench --kernels` and `infc profile`.
//!
//! Runs of their own, since an observed step costs two looks at the clock; per step the quickest run counts.

use crate::failure::Failure;
use crate::given::Given;
use crate::layers::symbol_values;
use crate::stats::millis;
use crate::tables::{self, Side, few, table, value};
use infc_artifact::{SizeExpr, Step};
use infc_runtime::{Event, Model, Observer, RunOptions, SessionOptions, TensorView};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Observed runs: at least so many, and for so long.
const MIN_RUNS: usize = 5;
const DURATION: Duration = Duration::from_millis(500);
const ORIGINS_SHOWN: usize = 3;

/// All launches of one kernel in a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KernelTime {
    pub(crate) name: String,
    pub(crate) emitter: String,
    pub(crate) launches: usize,
    /// Whether steps of a loop launch it, whose number the run tells: all of the quickest run are counted.
    pub(crate) in_loop: bool,
    pub(crate) ms: f64,
    /// Of the time of all kernels.
    pub(crate) share: f64,
    /// Two operations per multiply-accumulate; `None` if their number is not known.
    pub(crate) gflops: Option<f64>,
    /// Of the bytes that must be read and written.
    pub(crate) gb_per_s: Option<f64>,
    pub(crate) origins: Vec<String>,
}

/// Where the time of a model goes.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Those that take longest first.
    pub(crate) kernels: Vec<KernelTime>,
    /// By step of the Program, the quickest time; `None` of those that never ran.
    pub(crate) steps: Vec<Option<Duration>>,
    /// The quickest run.
    pub(crate) run: Run,
    /// How many runs there were.
    pub(crate) runs: usize,
    /// Index of the entry that ran: the default one, or a special case of it.
    pub(crate) entry: usize,
    /// The values of its symbols.
    pub(crate) symbols: Vec<i64>,
}

/// One run as it went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) took: Duration,
    /// Steps in the order in which they ended.
    pub(crate) steps: Vec<Ran>,
    /// How often kernels were launched by steps of loops, and how long they took together.
    in_loops: BTreeMap<usize, (usize, Duration)>,
}

/// A step of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) step: usize,
    /// Since the run began ([`infc_runtime::StepEvent::began`]).
    pub(crate) start: Duration,
    pub(crate) took: Duration,
    pub(crate) chunks: u64,
    pub(crate) threads: usize,
}

#[derive(Default)]
struct Watch {
    /// The entries that compute steps of loops.
    bodies: BTreeSet<usize>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    steps: Vec<Option<Duration>>,
    /// The run that is going on.
    current: Run,
    quickest: Option<Run>,
}

impl Watch {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let current = &mut self.seen().current;
        current.steps.clear();
        current.in_loops.clear();
    }
}

impl Observer for Watch {
    fn reads_slots(&self) -> bool {
        false
    }

    fn event(&self, event: &Event<'_>) {
        let mut seen = self.seen();
        match event {
            Event::Step(step) if self.bodies.contains(&step.entry) => {
                if let Some((kernel, _)) = step.kernel {
                    let (launches, took) = seen.current.in_loops.entry(kernel).or_default();
                    *launches += 1;
                    *took += step.took;
                }
            }
            Event::Step(step) => {
                let (start, took, chunks, threads) = (step.began, step.took, step.chunks, step.threads);
                seen.current.steps.push(Ran { step: step.step, start, took, chunks, threads });
            }
            Event::RunBeginsAnew => {
                seen.current.steps.clear();
                seen.current.in_loops.clear();
            }
            Event::RunFinished { took } => {
                let Seen { steps, current, .. } = &mut *seen;
                for ran in &current.steps {
                    if steps.len() <= ran.step {
                        steps.resize(ran.step + 1, None);
                    }
                    let known = &mut steps[ran.step];
                    *known = Some(known.map_or(ran.took, |known: Duration| known.min(ran.took)));
                }
                seen.current.took = *took;
                if seen.quickest.as_ref().is_none_or(|quickest| quickest.took > *took) {
                    seen.quickest = Some(seen.current.clone());
                }
            }
            _ => {}
        }
    }
}

/// Measures the kernels of a model.
pub(crate) fn measure(model: &Model, given: &Given, options: &RunOptions<'_>) -> Result<Times, Failure> {
    let bodies = model.variant().programs.iter().flat_map(|program| &program.steps).filter_map(|step| match step {
        Step::Host(host) => Some(host.body.as_ref()?.entry as usize),
        _ => None,
    });
    let watch = Arc::new(Watch { bodies: bodies.collect(), ..Watch::default() });
    let observer: Arc<dyn Observer> = watch.clone();
    let mut session = model.session(&SessionOptions { observer: Some(observer), ..SessionOptions::default() })?;
    let views = given.inputs.iter().map(TensorView::try_from).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let mut runs = 0;
    while runs < MIN_RUNS || begun.elapsed() < DURATION {
        given.rewind(&mut session)?;
        watch.begin();
        session.run_in_session(&views, options)?;
        runs += 1;
    }
    let entry = session.entry_in_use();
    let symbols = symbol_values(&model.manifest().entries[entry], &given.all(session.entry()));
    let mut seen = watch.seen();
    let run = seen.quickest.take().unwrap_or_default();
    let steps = std::mem::take(&mut seen.steps);
    let variant = model.variant();
    let mut times: Vec<KernelTime> = Vec::new();
    for (index, kernel) in variant.kernels.iter().enumerate() {
        let program = variant.programs.get(entry).map(|program| program.steps.as_slice()).unwrap_or_default();
        let launched = program
            .iter()
            .zip(&steps)
            .filter(|(step, _)| matches!(step, Step::Launch(launch) if launch.kernel as usize == index))
            .filter_map(|(_, took)| *took);
        let in_loops = run.in_loops.get(&index).copied();
        let none = (0, Duration::ZERO);
        let (launches, took) = launched.fold(in_loops.unwrap_or(none), |(n, sum), took| (n + 1, sum + took));
        let in_loop = in_loops.is_some();
        if launches == 0 {
            continue;
        }
        let per_second = |each: Option<u64>| Some(each? as f64 * launches as f64 / took.as_secs_f64().max(1e-9));
        let count = |size: &Option<SizeExpr>| count(size.as_ref()?, in_loop, &symbols);
        times.push(KernelTime {
            name: kernel.name.clone(),
            emitter: kernel.emitter.clone(),
            launches,
            in_loop,
            ms: millis(took),
            share: 0.0,
            gflops: per_second(count(&kernel.macs)).map(|rate| 2.0 * rate / 1e9),
            gb_per_s: per_second(count(&kernel.bytes)).map(|rate| rate / 1e9),
            origins: kernel.origins.clone(),
        });
    }
    let total: f64 = times.iter().map(|time| time.ms).sum();
    for time in &mut times {
        time.share = if total > 0.0 { time.ms / total } else { 0.0 };
    }
    times.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(Times { kernels: times, steps, run, runs, entry, symbols })
}

/// How much a kernel computes or moves. The sizes of a loop's steps are not those of the entry.
pub(crate) fn count(size: &SizeExpr, in_loop: bool, symbols: &[i64]) -> Option<u64> {
    if in_loop { size.as_const().and_then(|size| u64::try_from(size).ok()) } else { value(size, symbols) }
}

/// The table for people.
pub(crate) fn text(times: &[KernelTime]) -> String {
    let columns = [
        ("kernel", Side::Left),
        ("emitter", Side::Left),
        ("runs", Side::Right),
        ("time", Side::Right),
        ("", Side::Right),
        ("GFLOP/s", Side::Right),
        ("GB/s", Side::Right),
        ("from", Side::Left),
    ];
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let rows = times.iter().map(|time| {
        vec![
            time.name.clone(),
            time.emitter.clone(),
            time.launches.to_string(),
            tables::millis(time.ms),
            format!("{:.1} %", time.share * 100.0),
            rate(time.gflops),
            rate(time.gb_per_s),
            few(&time.origins, ORIGINS_SHOWN),
        ]
    });
    table(&columns, rows)
}
