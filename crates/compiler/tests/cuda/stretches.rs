//! Launches that follow each other: recorded when they come again, and started as one from then on.

use crate::artifacts::{on, options};
use crate::net::{Attr, Net};
use infc_runtime::{Model, Session, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use std::sync::Arc;

fn loaded(net: Net, gpu: &Arc<Simulator>) -> Session {
    let compilation = net.compile(&options(&["cuda"])).unwrap_or_else(|e| panic!("{e}"));
    let bytes = compilation.to_bytes().expect("an artifact");
    let model = Model::from_vec_with(bytes, &on(gpu)).unwrap_or_else(|e| panic!("{e}"));
    model.session(&SessionOptions::default()).expect("a session")
}

/// `total = Σ x² + y`, in three kernels at least, of which the last alone reads `y`.
fn squares() -> Net {
    Net::new(18)
        .input("x", DType::F32, &["N", "64"])
        .input("y", DType::F32, &["1", "1"])
        .node("Mul", &["x", "x"], &["squares"], &[])
        .node("Softmax", &["squares"], &["shares"], &[])
        .node("MatMul", &["shares", "turned"], &["products"], &[])
        .node("Softmax", &["products"], &["others"], &[])
        .node("ReduceSum", &["others"], &["sum"], &[("keepdims", Attr::Int(1))])
        .node("Add", &["sum", "y"], &["total"], &[])
        .constant("turned", &infc_testkit::random_tensor(DType::F32, vec![64, 64], 3))
        .output("total")
}

/// Runs `squares` on so many rows: every row of shares sums to 1.
#[track_caller]
fn check(session: &mut Session, rows: usize, y: f32) {
    let x = infc_testkit::random_tensor(DType::F32, vec![rows, 64], rows as u64);
    let y_tensor = Tensor::from_elements(&[1, 1], &[y]).expect("one");
    let found = session.run_owned(&[&x, &y_tensor]).unwrap_or_else(|e| panic!("{e}"));
    let total = found[0].elements::<f32>().expect("floats")[0];
    assert!((total - rows as f32 - y).abs() < 1e-3, "{total} for {rows} rows and {y}");
}

#[test]
fn what_comes_again_is_recorded() {
    let gpu = Arc::new(Simulator::new(0));
    let mut session = loaded(squares(), &gpu);
    // The first run of all is started kernel by kernel, all others as one, whatever the inputs hold. Three rows get a graph of
    // their own; memory that grows for forty moves, and what was recorded with its addresses is changed.
    let runs =
        [(5, 0), (5, 0), (3, 0), (3, 0), (5, 0), (3, 0), (40, 1), (5, 2), (5, 2), (3, 3), (40, 3), (5, 3), (3, 3)];
    for (n, (rows, changes)) in runs.into_iter().enumerate() {
        let launches = gpu.launches();
        check(&mut session, rows, n as f32);
        assert_eq!(gpu.replays(), n, "run {n}: an input that the last kernel reads does not cut the stretch");
        assert_eq!(gpu.changes(), changes, "run {n}");
        assert!(gpu.launches() >= launches + 3, "run {n}");
    }
    drop(session);
    assert!(gpu.is_empty(), "graphs are given back");
}

/// What the largest run has reserved is enough for all that are no larger, whether graphs are started or kernels.
#[test]
fn runs_allocate_nothing_once_there_is_enough() {
    for graphs in [true, false] {
        let simulator = Simulator::new(4);
        let gpu = Arc::new(if graphs { simulator } else { simulator.without_graphs() });
        let mut session = loaded(squares(), &gpu);
        check(&mut session, 20, 0.0);
        let reserved = gpu.allocations();
        for rows in [20, 3, 20, 1, 13, 3] {
            check(&mut session, rows, 1.0);
        }
        assert_eq!(gpu.allocations(), reserved, "graphs: {graphs}");
        check(&mut session, 40, 2.0);
        let more = gpu.allocations();
        assert!(more > reserved, "graphs: {graphs}");
        for rows in [40, 20, 39, 1] {
            check(&mut session, rows, 3.0);
        }
        assert_eq!(gpu.allocations(), more, "graphs: {graphs}");
    }
}

/// More shapes than a session keeps graphs of, each once, twice, and in turns.
#[test]
fn shapes_that_never_come_again() {
    let gpu = Arc::new(Simulator::new(1));
    let mut session = loaded(squares(), &gpu);
    // The largest first, so that memory stays where it is.
    for rows in (1..=20).rev() {
        check(&mut session, rows, 0.5);
    }
    assert_eq!((gpu.replays(), gpu.changes()), (19, 17), "two graphs, changed from the fourth on");
    // What was changed to another one is remembered: it gets a graph of its own when it comes again.
    for _ in 0..2 {
        (5..=12).for_each(|rows| check(&mut session, rows, 1.5));
    }
    assert_eq!((gpu.replays(), gpu.changes()), (35, 17));
    for rows in (1..=20).chain(1..=20) {
        check(&mut session, rows, 2.5);
    }
    // Of more shapes than there are graphs one is changed for each that comes again.
    assert_eq!(gpu.replays(), 75);
    assert!(gpu.changes() > 17 + 20, "{}", gpu.changes());
    drop(session);
    assert!(gpu.is_empty(), "graphs that were given up are given back");
}

/// A GPU that makes no graphs; one that makes some and cannot change them.
#[test]
fn graphs_that_are_not_made() {
    let gpu = Arc::new(Simulator::new(1).without_graphs());
    let mut session = loaded(squares(), &gpu);
    (0..4).for_each(|n| check(&mut session, 4 - n % 2, n as f32));
    assert_eq!(gpu.replays(), 0);

    let gpu = Arc::new(Simulator::new(1).without_changes());
    let mut session = loaded(squares(), &gpu);
    let mut replays = Vec::new();
    for rows in [9, 8, 7, 6, 5, 7, 5, 5, 4, 4, 4] {
        check(&mut session, rows, 1.0);
        replays.push(gpu.replays());
    }
    // The third graph is none, and takes one with it; from then on only what comes again is recorded.
    assert_eq!((replays, gpu.changes()), (vec![0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7], 1));
    drop(session);
    assert!(gpu.is_empty());
}

/// What fails within a graph is the run's error, and the next run is none the worse.
#[test]
fn a_launch_within_a_graph_fails() {
    let gpu = Arc::new(Simulator::new(0));
    let mut session = loaded(squares(), &gpu);
    (0..2).for_each(|n| check(&mut session, 2, n as f32));
    gpu.fail_after(2);
    let x = infc_testkit::random_tensor(DType::F32, vec![2, 64], 1);
    let y = Tensor::from_elements(&[1, 1], &[0.0f32]).expect("one");
    assert_eq!(session.run_owned(&[&x, &y]).expect_err("it fails").code(), "runtime::gpu-failed");
    check(&mut session, 2, 7.0);
}

/// Steps on the host cut a run in stretches, each of which is recorded.
#[test]
fn host_steps_are_between() {
    let net = squares()
        .node("Softmax", &["others"], &["again"], &[])
        .node("NonZero", &["again"], &["places"], &[])
        .node("Cast", &["places"], &["numbers"], &[("to", Attr::Int(1))])
        .node("ReduceMax", &["numbers"], &["largest"], &[("keepdims", Attr::Int(0))])
        .output("largest");
    let gpu = Arc::new(Simulator::new(0));
    let mut session = loaded(net, &gpu);
    let x = infc_testkit::random_tensor(DType::F32, vec![3, 64], 1);
    let y = Tensor::from_elements(&[1, 1], &[1.0f32]).expect("one");
    let mut replays = Vec::new();
    for _ in 0..4 {
        let found = session.run_owned(&[&x, &y]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found[1].elements::<f32>().expect("floats"), [63.0], "no share is zero");
        replays.push(gpu.replays());
    }
    assert!(replays[0] == 0 && replays[1] > 0 && replays[3] - replays[2] == replays[1], "{replays:?}");
}
