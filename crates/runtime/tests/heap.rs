//! After warm-up a run makes no heap call, on any thread. A file of its own: the allocator counts for the process.

#![cfg(target_arch = "x86_64")]
#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

mod support;

use infc_runtime::{DType, Pool, RunOptions, SessionOptions, TensorView, TensorViewMut};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{model_on, row_sums, row_sums_with_a_case};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_heap_calls_after_warm_up() {
    let model = model_on(row_sums(), Pool::builder().threads(2).build());
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let data = vec![0u8; 4000 * 10 * 4];
    let mut out = vec![0u8; 4000 * 4];
    let mut round = || {
        // Several bindings in turn, dense and strided inputs, outputs of the caller and of the session.
        for n in [4000usize, 1, 0, 77] {
            let (shape, out_shape) = ([n, 10], [n]);
            let dense = TensorView::new(DType::F32, &shape, &data[..n * 40]).unwrap();
            let strides = [1, n as isize];
            let strided = TensorView::strided(DType::F32, &shape, &strides, 0, &data[..n * 40]).unwrap();
            for view in [dense, strided] {
                let mut outputs = [TensorViewMut::new(DType::F32, &out_shape, &mut out[..n * 4]).unwrap()];
                session.run(&[view], &mut outputs, &RunOptions::default()).unwrap();
                let kept = session.run_in_session(&[view], &RunOptions::default()).unwrap();
                assert_eq!(kept.get(0).unwrap().shape(), out_shape);
            }
        }
    };
    round();
    // The pool's thread has started, but the little that a new thread allocates may come a moment later.
    std::thread::sleep(std::time::Duration::from_millis(200));
    round();
    let before = CALLS.load(Ordering::Relaxed);
    for _ in 0..100 {
        round();
    }
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 0);
    sizes_that_change_with_every_run();
    cases_that_change_with_every_run();
}

/// As above: what is a special case and what is not share their memory.
fn cases_that_change_with_every_run() {
    let model = model_on(row_sums_with_a_case(), Pool::builder().threads(1).build());
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let data: Vec<u8> = (0..4000 * 10).flat_map(|n: u32| (n as f32).to_le_bytes()).collect();
    let mut run = |n: usize| {
        let shape = [n, 10];
        let view = TensorView::new(DType::F32, &shape, &data[..n * 40]).unwrap();
        let outputs = session.run_in_session(&[view], &RunOptions::default()).unwrap();
        let found = outputs.get(0).unwrap();
        assert_eq!(found.shape(), [n]);
        // Ten consecutive numbers each.
        let last = &found.dense_bytes().unwrap()[n * 4 - 4..];
        assert_eq!(f32::from_le_bytes(last.try_into().unwrap()), (n as f32 - 1.0) * 100.0 + 45.0);
        assert_eq!(session.entry_in_use(), usize::from(n == 77));
    };
    let mut round = || [400, 77, 1, 77, 78].into_iter().for_each(&mut run);
    round();
    let before = CALLS.load(Ordering::Relaxed);
    (0..50).for_each(|_| round());
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 0);
}

/// Part of the one test, since the count is that of the process.
fn sizes_that_change_with_every_run() {
    let model = model_on(row_sums(), Pool::builder().threads(1).build());
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let data = vec![0u8; 4000 * 10 * 4];
    let mut run = |n: usize| {
        let shape = [n, 10];
        let view = TensorView::new(DType::F32, &shape, &data[..n * 40]).unwrap();
        assert_eq!(session.run_in_session(&[view], &RunOptions::default()).unwrap().get(0).unwrap().shape(), [n]);
    };
    // The largest first; and more than the session keeps the sizes of.
    (0..20).for_each(|n| run(4000 - n));
    let before = CALLS.load(Ordering::Relaxed);
    (0..500).for_each(|n| run(3900 - 7 * n));
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 0);
}
