//! Threads: the same bits on any number of them, limits kept, many sessions at once, fork.

#![cfg(target_arch = "x86_64")]

mod support;

use infc_runtime::{DType, Model, Pool, RunOptions, Session, SessionOptions, Spin, Tensor, TensorView};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::{lanes, model_on, mxcsr, row_sums};

fn pool(threads: usize) -> Pool {
    Pool::builder().threads(threads).build()
}

fn session(model: &Model) -> Session {
    model.session(&SessionOptions::default()).unwrap()
}

/// The scratch address each of `chunks` chunks was computed with.
fn scratches(session: &mut Session, chunks: usize, options: &RunOptions<'_>) -> Vec<u64> {
    let input = Tensor::zeros(DType::U8, &[chunks]).unwrap();
    let outputs = session.run_owned_with(&[&input], options).unwrap();
    outputs[0].elements::<u64>().unwrap().to_vec()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let values: Vec<f32> = (0..50_000).map(|i| (i as f32).sin()).collect();
    let input = Tensor::from_elements(&[5000, 10], &values).unwrap();
    let expected = session(&model_on(row_sums(), pool(1))).run_owned(&[&input]).unwrap();
    for threads in [2, 3, 8] {
        for spin in [Spin::Run, Spin::Yield] {
            let pool = Pool::builder().threads(threads).spin(spin).build();
            assert_eq!(pool.threads(), threads);
            let mut session = session(&model_on(row_sums(), pool));
            for _ in 0..20 {
                assert_eq!(session.run_owned(&[&input]).unwrap(), expected);
            }
        }
    }
}

#[test]
fn every_thread_has_its_own_scratch_and_limits_are_kept() {
    let model = model_on(lanes(), pool(3));
    let mut session = session(&model);
    let mut most = 0;
    let patience = Instant::now() + Duration::from_secs(20);
    let mut rounds = 0;
    // On a busy machine workers may come too late for many a run; some time they come in time.
    while rounds < 20 || (most < 2 && Instant::now() < patience) {
        rounds += 1;
        let all: BTreeSet<u64> = scratches(&mut session, 64, &RunOptions::default()).into_iter().collect();
        assert!(all.len() <= 3 && all.iter().all(|address| address % 64 == 0));
        assert!(all.iter().zip(all.iter().skip(1)).all(|(a, b)| b - a >= 128));
        most = most.max(all.len());
        let two = RunOptions { max_threads: Some(2), ..RunOptions::default() };
        let two: BTreeSet<u64> = scratches(&mut session, 64, &two).into_iter().collect();
        assert!(two.len() <= 2);
        let one = RunOptions { max_threads: Some(1), ..RunOptions::default() };
        let one: BTreeSet<u64> = scratches(&mut session, 64, &one).into_iter().collect();
        assert_eq!(one.len(), 1);
    }
    assert!(most > 1, "workers never took part");
    let mut limited = model.session(&SessionOptions { max_threads: Some(1), ..SessionOptions::default() }).unwrap();
    let more = RunOptions { max_threads: Some(9), ..RunOptions::default() };
    assert_eq!(scratches(&mut limited, 64, &more).into_iter().collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn eight_sessions_on_one_pool_of_two() {
    let model = model_on(row_sums(), pool(2));
    let slow = model_on(lanes(), pool(2));
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (model, slow) = (&model, &slow);
            scope.spawn(move || {
                let (mut session, mut slow) = (session(model), session(slow));
                for round in 0..30usize {
                    let n = 100 * (caller + 1) + round;
                    let input = Tensor::from_elements(&[n, 10], &vec![caller as f32; n * 10]).unwrap();
                    let outputs = session.run_owned(&[&input]).unwrap();
                    assert!(outputs[0].elements::<f32>().unwrap().iter().all(|&sum| sum == 10.0 * caller as f32));
                    let threads: BTreeSet<u64> = scratches(&mut slow, 16, &RunOptions::default()).into_iter().collect();
                    assert!((1..=2).contains(&threads.len()));
                }
            });
        }
    });
}

#[test]
fn kernels_see_the_stated_float_state_on_every_thread() {
    const DEFAULT: u32 = 0x1f80;
    let mut session = session(&model_on(mxcsr(), pool(2)));
    let shape = [4000];
    let input = vec![0u8; 4000];
    let mut states = |flush_denormals| -> BTreeSet<u32> {
        let view = TensorView::new(DType::U8, &shape, &input).unwrap();
        let options = RunOptions { flush_denormals, ..RunOptions::default() };
        let outputs = session.run_in_session(&[view], &options).unwrap();
        let bytes = outputs.get(0).unwrap().dense_bytes().unwrap();
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    for _ in 0..50 {
        assert_eq!(states(false), [DEFAULT].into());
        assert_eq!(states(true), [0x9fc0].into());
    }
    // Back in Rust, denormals are what they were.
    let tiny = std::hint::black_box(f32::MIN_POSITIVE);
    assert!(tiny / std::hint::black_box(2.0) > 0.0);
}

#[test]
fn models_are_shared_and_sessions_move() {
    fn shared<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    shared::<Model>();
    shared::<Pool>();
    moves::<Session>();
}

#[test]
fn pools_come_and_go() {
    for threads in [1, 2, 5] {
        for _ in 0..20 {
            let model = model_on(lanes(), pool(threads));
            let mut session = session(&model);
            drop(model);
            scratches(&mut session, 8, &RunOptions::default());
        }
    }
    assert!(Pool::shared().threads() >= 1);
    assert_eq!(Pool::shared().threads(), Pool::builder().threads(0).build().threads());
}
