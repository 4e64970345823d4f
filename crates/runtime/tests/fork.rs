//! A child process made by `fork` has none of the pool's threads: it notices and starts its own.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![expect(unsafe_code, reason = "fork is a C function")]

mod support;

use infc_runtime::{DType, Pool, Session, SessionOptions, Tensor};
use std::collections::BTreeSet;
use support::{lanes, model_on};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn alarm(seconds: u32) -> u32;
}

/// The largest number of threads that took part in one of many runs; on a busy machine a worker may often come too late.
fn most_threads(session: &mut Session) -> usize {
    let input = Tensor::zeros(DType::U8, &[64]).unwrap();
    let mut run = || {
        let outputs = session.run_owned(&[&input]).unwrap();
        outputs[0].elements::<u64>().unwrap().iter().collect::<BTreeSet<_>>().len()
    };
    (0..10_000).map(|_| run()).find(|&threads| threads > 1).unwrap_or(1)
}

#[test]
fn a_forked_child_restarts_the_pool() {
    let pool = Pool::builder().threads(2).build();
    let model = model_on(lanes(), pool.clone());
    let mut session = model.session(&SessionOptions::default()).unwrap();
    assert_eq!(most_threads(&mut session), 2);

    // SAFETY: the child only runs the session and leaves with `_exit`; the test process has no other threads whose
    // locks the child could need (the allocator's are handled by the C library).
    let child = unsafe { fork() };
    assert!(child >= 0);
    if child == 0 {
        // A child that hangs is ended by the alarm, which the parent sees in the status.
        // SAFETY: plain C calls.
        unsafe { alarm(60) };
        let threads = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let threads = most_threads(&mut session);
            drop((session, model, pool));
            threads
        }));
        // SAFETY: ends the child without running the test harness's exit code.
        unsafe { _exit(if threads.is_ok_and(|threads| threads == 2) { 42 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process, `status` outlives the call.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status >> 8, 42, "exit status of the child, wait status {status:#x}");
    assert_eq!(most_threads(&mut session), 2, "the parent's threads are still there");
}
