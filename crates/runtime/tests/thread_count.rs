//! One thread means no thread, and a pool never makes more than it says. A file of its own: threads of other tests
//! would be counted too.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use infc_runtime::{DType, Pool, SessionOptions, Tensor};
use support::{lanes, model_on};

fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn threads_are_made_late_and_never_too_many() {
    let before = threads_of_this_process();
    let input = Tensor::zeros(DType::U8, &[64]).unwrap();
    let alone = model_on(lanes(), Pool::builder().threads(1).build());
    alone.session(&SessionOptions::default()).unwrap().run_owned(&[&input]).unwrap();
    assert_eq!(threads_of_this_process(), before, "one thread is the caller");

    let pool = Pool::builder().threads(3).build();
    let model = model_on(lanes(), pool.clone());
    let mut sessions: Vec<_> = (0..4).map(|_| model.session(&SessionOptions::default()).unwrap()).collect();
    assert_eq!(threads_of_this_process(), before, "threads start with the first run that can use them");
    for session in &mut sessions {
        session.run_owned(&[&input]).unwrap();
        assert_eq!(threads_of_this_process(), before + 2);
    }
    drop((sessions, model, pool));
    assert_eq!(threads_of_this_process(), before, "the last handle takes the threads with it");
}
