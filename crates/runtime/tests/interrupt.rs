//! Deadlines, cancellation and observers.

#![cfg(target_arch = "x86_64")]

mod support;

use infc_runtime::{Event, Model, Observer, RunOptions, SessionOptions, Tensor};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::add_twice;

/// Writes down what happens; cancels, or panics, after the first step if told to.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<String>>,
    cancel_after_step: AtomicBool,
    panic_after_step: AtomicBool,
    cancel: AtomicBool,
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        let text = match event {
            Event::Planned(plan) => format!("planned {:?}, {} bytes", plan.symbols, plan.arena_bytes),
            Event::Step(step) => {
                if self.cancel_after_step.load(Ordering::Relaxed) {
                    self.cancel.store(true, Ordering::Relaxed);
                }
                assert!(!self.panic_after_step.load(Ordering::Relaxed), "asked to");
                let sum = step.slot_bytes(2).unwrap();
                let name = step.kernel.unwrap().1;
                format!("step {} {name} {} chunks, slot 2 begins {:?}", step.step, step.chunks, &sum[..4])
            }
            Event::RunFinished { .. } => "finished".to_owned(),
            _ => return,
        };
        self.events.lock().unwrap().push(text);
    }
}

fn one() -> Tensor {
    Tensor::from_elements(&[1], &[1f32]).unwrap()
}

#[test]
fn an_observer_sees_plans_steps_and_runs() {
    let recorder = Arc::new(Recorder::default());
    let observer: Option<Arc<dyn Observer>> = Some(recorder.clone());
    let model = Model::from_vec(add_twice()).unwrap();
    let mut session = model.session(&SessionOptions { observer, ..SessionOptions::default() }).unwrap();
    session.run_owned(&[&one(), &one()]).unwrap();
    let events = std::mem::take(&mut *recorder.events.lock().unwrap());
    // 2.0f32 begins with [0, 0, 0, 64].
    let step = |i| format!("step {i} add 1 chunks, slot 2 begins [0, 0, 0, 64]");
    assert_eq!(events, ["planned [1], 64 bytes".to_owned(), step(0), step(1), "finished".to_owned()]);
    session.run_owned(&[&one(), &one()]).unwrap();
    assert_eq!(recorder.events.lock().unwrap().len(), 3, "the plan is kept");
}

#[test]
fn cancelled_between_steps() {
    let recorder = Arc::new(Recorder::default());
    let observer: Option<Arc<dyn Observer>> = Some(recorder.clone());
    let model = Model::from_vec(add_twice()).unwrap();
    let mut session = model.session(&SessionOptions { observer, ..SessionOptions::default() }).unwrap();
    recorder.cancel_after_step.store(true, Ordering::Relaxed);
    let options = RunOptions { cancel: Some(&recorder.cancel), ..RunOptions::default() };
    let error = session.run_owned_with(&[&one(), &one()], &options).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("runtime::cancelled", "the run was cancelled before step 1 of 2")
    );
    assert_eq!(recorder.events.lock().unwrap().len(), 2, "the plan and one step");
    // The session goes on.
    recorder.cancel_after_step.store(false, Ordering::Relaxed);
    recorder.cancel.store(false, Ordering::Relaxed);
    let outputs = session.run_owned_with(&[&one(), &one()], &options).unwrap();
    assert_eq!(outputs[0].elements::<f32>().unwrap(), [3.]);
}

#[test]
fn deadlines() {
    let model = Model::from_vec(add_twice()).unwrap();
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let by = |deadline| RunOptions { deadline: Some(deadline), ..RunOptions::default() };
    let error = session.run_owned_with(&[&one(), &one()], &by(Instant::now())).unwrap_err();
    assert_eq!(error.code(), "runtime::deadline-exceeded");
    let later = by(Instant::now() + Duration::from_secs(3600));
    assert!(session.run_owned_with(&[&one(), &one()], &later).is_ok());
}

#[test]
fn an_observer_that_panics_leaves_session_and_pool_in_order() {
    let recorder = Arc::new(Recorder::default());
    let observer: Option<Arc<dyn Observer>> = Some(recorder.clone());
    let pool = infc_runtime::Pool::builder().threads(2).build();
    let model = support::model_on(add_twice(), pool);
    let mut session = model.session(&SessionOptions { observer, ..SessionOptions::default() }).unwrap();
    let many = Tensor::from_elements(&[1000], &[1f32; 1000]).unwrap();
    for _ in 0..10 {
        recorder.panic_after_step.store(true, Ordering::Relaxed);
        let run = std::panic::AssertUnwindSafe(|| session.run_owned(&[&many, &many]));
        assert!(std::panic::catch_unwind(run).is_err());
        recorder.panic_after_step.store(false, Ordering::Relaxed);
        let outputs = session.run_owned(&[&many, &many]).unwrap();
        assert_eq!(outputs[0].elements::<f32>().unwrap(), [3.; 1000]);
    }
}
