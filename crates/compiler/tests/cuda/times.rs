//! What a GPU takes by its own clock: of runs, and of their steps, whether an observer looks at what these have written or not.
//! The simulator's clock counts instructions.

use crate::artifacts::{on, options};
use crate::net::{Attr, Net};
use infc_runtime::{Event, Model, Observer, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A step as an observer saw it.
#[derive(Clone, Debug)]
struct Seen {
    step: usize,
    is_kernel: bool,
    began: Duration,
    took: Duration,
    has_slots: bool,
    /// Launches that the GPU had had by then.
    launches: usize,
}

struct Recorder {
    gpu: Arc<Simulator>,
    reads_slots: bool,
    seen: Mutex<Vec<Seen>>,
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        let Event::Step(step) = event else { return };
        self.seen.lock().expect("nobody panicked").push(Seen {
            step: step.step,
            is_kernel: step.kernel.is_some(),
            began: step.began,
            took: step.took,
            has_slots: step.slot_bytes(0).is_some(),
            launches: self.gpu.launches(),
        });
    }

    fn reads_slots(&self) -> bool {
        self.reads_slots
    }
}

/// Kernels, a step of the host that makes a size, and kernels behind it.
fn model(gpu: &Arc<Simulator>) -> Model {
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .node("Mul", &["x", "x"], &["squares"], &[])
        .node("ReduceSum", &["squares"], &["total"], &[("keepdims", Attr::Int(1))])
        .node("Unique", &["squares"], &["some"], &[])
        .node("Sqrt", &["some"], &["roots"], &[])
        .node("Div", &["roots", "total"], &["y"], &[])
        .output("y");
    let compilation = net.compile(&options(&["cuda"])).unwrap_or_else(|e| panic!("{e}"));
    Model::from_vec_with(compilation.to_bytes().expect("an artifact"), &on(gpu)).unwrap_or_else(|e| panic!("{e}"))
}

fn observed(reads_slots: bool) -> (Vec<Vec<Seen>>, Vec<Duration>, Vec<u64>) {
    let gpu = Arc::new(Simulator::new(0));
    let model = model(&gpu);
    let recorder = Arc::new(Recorder { gpu: Arc::clone(&gpu), reads_slots, seen: Mutex::default() });
    let observer: Arc<dyn Observer> = recorder.clone();
    let options = SessionOptions { observer: Some(observer), device_time: true, ..SessionOptions::default() };
    let mut session = model.session(&options).expect("a session");
    let x = Tensor::from_elements(&[5], &[3.0f32, -1.0, 1.0, 2.0, -3.0]).expect("a vector");
    let (mut runs, mut times, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let before = gpu.steps();
        session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
        steps.push(gpu.steps() - before);
        times.push(session.device_time().expect("a GPU runs it"));
        runs.push(std::mem::take(&mut *recorder.seen.lock().expect("nobody panicked")));
    }
    drop((session, model));
    assert!(gpu.is_empty(), "marks are given back");
    (runs, times, steps)
}

#[test]
fn steps_are_told_with_the_times_of_the_gpu() {
    for reads_slots in [true, false] {
        let (runs, times, steps) = observed(reads_slots);
        for ((run, time), steps) in runs.iter().zip(times).zip(steps) {
            assert_eq!(time, Duration::from_nanos(steps), "all that it executed");
            let kernels: Vec<&Seen> = run.iter().filter(|seen| seen.is_kernel).collect();
            assert!(kernels.len() >= 3 && kernels.len() < run.len(), "{run:?}");
            assert_eq!(kernels.iter().map(|seen| seen.took).sum::<Duration>(), time, "{run:?}");
            assert!(kernels.iter().all(|seen| seen.took > Duration::ZERO), "{run:?}");
            assert!(run.is_sorted_by_key(|seen| seen.step), "{run:?}");
            assert!(run.iter().all(|seen| seen.has_slots == reads_slots), "{run:?}");
            if reads_slots {
                assert!(run.is_sorted_by_key(|seen| seen.began) && run[0].launches < run[run.len() - 1].launches);
            } else {
                // By the GPU's clock each begins when the one before it, of those, is over.
                let ends = kernels.windows(2).all(|pair| pair[1].began == pair[0].began + pair[0].took);
                assert!(ends, "{run:?}");
                assert!(run.iter().all(|seen| seen.launches == run[0].launches), "all in the end: {run:?}");
            }
        }
    }
}

/// Whoever does not ask is not told, and a graph is timed as what is in it.
#[test]
fn runs_are_timed_where_that_is_asked_for() {
    let gpu = Arc::new(Simulator::new(0));
    let model = model(&gpu);
    let x = Tensor::from_elements(&[3], &[1.0f32, 2.0, 2.0]).expect("a vector");
    let mut plain = model.session(&SessionOptions::default()).expect("a session");
    plain.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plain.device_time(), None);
    let mut timed =
        model.session(&SessionOptions { device_time: true, ..SessionOptions::default() }).expect("a session");
    for run in 0..4 {
        let (before, replays) = (gpu.steps(), gpu.replays());
        timed.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(timed.device_time(), Some(Duration::from_nanos(gpu.steps() - before)), "run {run}");
        assert_eq!(gpu.replays() > replays, run > 0, "run {run}");
    }
    // A run that fails gives its marks back with the next one.
    gpu.fail_after(1);
    timed.run_owned(&[&x]).expect_err("it fails");
    timed.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
    drop((plain, timed, model));
    assert!(gpu.is_empty());
}
