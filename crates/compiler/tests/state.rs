//! Outputs that are inputs of the next run, all the way: small models, and trained ones over many runs against what ONNX
//! Runtime made of them (`recorded/record.py`).
//!
//! A test whose model is missing says so and passes.

mod net;

use infc::{Compilation, CompileError, CompileOptions, DimChoice, Source};
use infc_runtime::{RunOptions, Session, Tensor, TensorView};
use infc_tensor::DType;
use net::{Attr, Net, session};
use std::path::{Path, PathBuf};

/// |a − b| ≤ ATOL + RTOL·|b|, as for models in general.
const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

fn floats(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_elements(shape, elements).expect("as many as the shape has")
}

fn with_states(states: &[(&str, &str)], dims: &[(&str, i64, Option<i64>)]) -> CompileOptions {
    CompileOptions {
        states: states.iter().map(|(output, input)| ((*output).to_owned(), (*input).to_owned())).collect(),
        dims: dims.iter().map(|&(name, min, max)| (name.to_owned(), DimChoice::Range(min, max))).collect(),
        ..CompileOptions::default()
    }
}

/// `y = x·2 + h`, and the next `h` is `h + x`.
fn sum() -> Net {
    Net::new(18)
        .input("x", DType::F32, &["3"])
        .input("h", DType::F32, &["3"])
        .node("Add", &["x", "h"], &["hn"], &[])
        .node("Add", &["x", "hn"], &["y"], &[])
        .output("y")
        .output("hn")
}

/// `present` is `past` with `new` behind it, `total` the sum over what is present; `tail` is what is past.
fn cache() -> Net {
    Net::new(18)
        .input("new", DType::F32, &["N", "S", "2"])
        .input("past", DType::F32, &["N", "P", "2"])
        .node("Add", &["new", "new"], &["twice"], &[])
        .node("Concat", &["past", "twice"], &["present"], &[("axis", Attr::Int(1))])
        .node("ReduceSum", &["present"], &["total"], &[])
        .node("Neg", &["past"], &["before"], &[])
        .output("total")
        .output("present")
        .output("before")
}

#[test]
fn a_state_is_carried() {
    let mut session = session(&sum().compile(&with_states(&[("hn", "h")], &[])).expect("compiles"));
    assert_eq!(session.inputs().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(session.outputs().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["y"]);
    assert!(session.state("h").expect("known").is_none());
    let x = floats(&[3], &[1.0, 2.0, 3.0]);
    for run in 1..5u8 {
        let found = session.run_owned(&[&x]).expect("runs");
        let factor = f32::from(run);
        assert_eq!(found, [floats(&[3], &[1.0, 2.0, 3.0].map(|x| x + factor * x))]);
        let state = session.state("h").expect("known").expect("set").to_tensor().expect("small");
        assert_eq!(state, floats(&[3], &[1.0, 2.0, 3.0].map(|x| factor * x)));
    }
    session.reset_states();
    assert_eq!(session.run_owned(&[&x]).expect("runs"), [floats(&[3], &[2.0, 4.0, 6.0])]);

    let given = floats(&[3], &[10.0, 20.0, 30.0]);
    session.set_state("h", &TensorView::try_from(&given).expect("floats")).expect("fits");
    assert_eq!(session.run_owned(&[&x]).expect("runs"), [floats(&[3], &[12.0, 24.0, 36.0])]);
    // By name a state may be given, too, and all there is may be taken.
    let named = session.run_named(&[("h", &given), ("x", &x)], &RunOptions::default()).expect("runs");
    assert_eq!(named, [floats(&[3], &[12.0, 24.0, 36.0])]);
    let all = session.advance(&[Some(&x), None], &RunOptions::default()).expect("runs");
    assert_eq!(all, [floats(&[3], &[13.0, 26.0, 39.0]), floats(&[3], &[12.0, 24.0, 36.0])]);
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let mut session = session(&sum().compile(&with_states(&[("hn", "h")], &[])).expect("compiles"));
    let x = floats(&[3], &[1.0, 2.0, 3.0]);
    session.run_owned(&[&x]).expect("runs");
    let mut set = |name: &str, value: &Tensor| {
        let view = TensorView::try_from(value).expect("numbers");
        session.set_state(name, &view).map_err(|error| error.code())
    };
    assert_eq!(set("hn", &x), Err("runtime::unknown-state"));
    assert_eq!(set("h", &Tensor::from_elements(&[3], &[1i64, 2, 3]).expect("a vector")), Err("runtime::wrong-type"));
    assert_eq!(set("h", &floats(&[3, 1], &[1.0; 3])), Err("runtime::wrong-shape"));
    // Extents are looked at by the run, which leaves the session usable.
    assert_eq!(set("h", &floats(&[4], &[1.0; 4])), Ok(()));
    assert_eq!(session.run_owned(&[&x]).expect_err("four elements").code(), "runtime::wrong-shape");
    session.reset_states();
    assert_eq!(session.run_owned(&[&x]).expect("runs"), [floats(&[3], &[2.0, 4.0, 6.0])]);
}

/// A `*` stands for the same in both names; names that have one themselves are names.
#[test]
fn one_pair_of_names_stands_for_many_states() {
    let net = || {
        Net::new(18)
            .input("x", DType::F32, &["3"])
            .input("past.0.key", DType::F32, &["3"])
            .input("past.10.key", DType::F32, &["3"])
            .input("a*", DType::F32, &["3"])
            .node("Add", &["x", "past.0.key"], &["present.0.key"], &[])
            .node("Sub", &["x", "past.10.key"], &["present.10.key"], &[])
            .node("Mul", &["x", "a*"], &["b*"], &[])
            .output("present.0.key")
            .output("present.10.key")
            .output("b*")
    };
    let states = |pairs: &[(&str, &str)]| {
        let compilation = net().compile(&with_states(pairs, &[]));
        compilation.map(|c| c.plan.expect("a plan").states.iter().map(|s| (s.output, s.input)).collect::<Vec<_>>())
    };
    let found = states(&[("present.*.key", "past.*.key"), ("b*", "a*")]);
    assert_eq!(found.expect("compiles"), [(0, 1), (1, 2), (2, 3)]);
    let code = |pairs: &[(&str, &str)]| states(pairs).expect_err("it makes no sense").code();
    assert_eq!(code(&[("present.*.value", "past.*.value")]), "compile::unknown-state");
    assert_eq!(code(&[("present.*.key", "past.*.value")]), "compile::unknown-state");
    assert_eq!(code(&[("present.0.*", "past.0.key")]), "compile::unknown-state");
    assert_eq!(code(&[("present.*", "past.*"), ("present.0.key", "past.0.key")]), "compile::duplicate-state");
}

#[test]
fn pairs_that_make_no_sense_are_refused() {
    let code = |net: Net, states: &[(&str, &str)]| {
        net.compile(&with_states(states, &[]))
            .map(drop)
            .map_err(|error: CompileError| (error.code(), error.to_string()))
    };
    let refused = |net: Net, states: &[(&str, &str)], expected: &str, names: &[&str]| {
        let (code, message) = code(net, states).expect_err("it makes no sense");
        assert_eq!(code, expected);
        for name in names {
            assert!(message.contains(&format!("`{name}`")), "{message}");
        }
    };
    refused(sum(), &[("h", "h")], "compile::unknown-state", &["h", "y", "hn"]);
    refused(sum(), &[("hn", "hn")], "compile::unknown-state", &["hn", "x", "h"]);
    refused(sum(), &[("hn", "h"), ("y", "h")], "compile::duplicate-state", &["hn=h", "y=h"]);
    refused(sum(), &[("hn", "h"), ("hn", "x")], "compile::duplicate-state", &["hn=h", "hn=x"]);
    let net = |dtype, shape: &[&str]| {
        let net = Net::new(18).input("x", DType::F32, &["3"]).input("h", dtype, shape);
        net.node("Neg", &["x"], &["hn"], &[]).node("Identity", &["h"], &["y"], &[]).output("y").output("hn")
    };
    refused(net(DType::F64, &["3"]), &[("hn", "h")], "compile::state-mismatch", &["hn", "h"]);
    refused(net(DType::F32, &["3", "1"]), &[("hn", "h")], "compile::state-mismatch", &["hn", "h"]);
    refused(net(DType::F32, &["4"]), &[("hn", "h")], "compile::state-mismatch", &["hn", "h"]);
    assert_eq!(code(net(DType::F32, &["3"]), &[("hn", "h")]), Ok(()));
    assert_eq!(code(net(DType::F32, &["N"]), &[("hn", "h")]), Ok(()));
}

/// Runs a cache for some steps, of which each adds a few rows.
fn steps(session: &mut Session, rows: &[usize]) {
    let mut expected: Vec<f32> = Vec::new();
    for (step, &rows) in rows.iter().enumerate() {
        let new: Vec<f32> = (0..rows * 2).map(|n| (step * 10 + n) as f32).collect();
        let before = expected.clone();
        expected.extend(new.iter().map(|x| 2.0 * x));
        let found = session.run_owned(&[&floats(&[1, rows, 2], &new)]).unwrap_or_else(|e| panic!("step {step}: {e}"));
        assert_eq!(found[0], floats(&[1, 1, 1], &[expected.iter().sum()]), "step {step}");
        let negated: Vec<f32> = before.iter().map(|x| -x).collect();
        assert_eq!(found[1], floats(&[1, before.len() / 2, 2], &negated), "step {step}");
        let state = session.state("past").expect("known").expect("set").to_tensor().expect("small");
        assert_eq!(state, floats(&[1, expected.len() / 2, 2], &expected), "step {step}");
    }
}

/// The kernels of a compilation.
fn launches(compilation: &Compilation) -> usize {
    compilation.plan.as_ref().expect("a plan").kernels.len()
}

#[test]
fn a_cache_with_capacity_grows_in_place() {
    let states = [("present", "past")];
    let growing = cache().compile(&with_states(&states, &[("P", 0, Some(12))])).expect("compiles");
    let copying = cache().compile(&with_states(&states, &[])).expect("compiles");
    // Nothing is copied: what is past lies where what is present begins.
    let append = |compilation: &Compilation| compilation.plan.as_ref().expect("a plan").states[0].append;
    let place = append(&growing).expect("in place");
    assert_eq!((place.axis, place.capacity), (1, 12));
    assert_eq!(append(&copying), None);
    assert_eq!(launches(&growing) + 1, launches(&copying));

    for compilation in [&growing, &copying] {
        let mut session = session(compilation);
        steps(&mut session, &[1, 1, 3, 1, 2]);
        session.reset_states();
        steps(&mut session, &[4, 4, 4]);
    }
    let mut full = session(&growing);
    steps(&mut full, &[5, 5]);
    let three = floats(&[1, 3, 2], &[0.0; 6]);
    assert_eq!(full.run_owned(&[&three]).expect_err("13 of 12").code(), "runtime::assumption-failed");
    // The state is as it was; what is given has to fit as well.
    assert_eq!(full.state("past").expect("known").expect("set").shape(), [1, 10, 2]);
    full.run_owned(&[&floats(&[1, 2, 2], &[0.0; 4])]).expect("12 of 12");
    let long = floats(&[1, 13, 2], &[0.0; 26]);
    let view = TensorView::try_from(&long).expect("floats");
    assert_eq!(full.set_state("past", &view).expect_err("13 of 12").code(), "runtime::state-full");

    // Another batch begins anew; within one, batches cannot change.
    full.reset_states();
    steps(&mut full, &[3]);
    let two = |value: f32| floats(&[2, 1, 2], &[value, value, value + 1.0, value + 1.0]);
    assert_eq!(full.run_owned(&[&two(1.0)]).expect_err("another batch").code(), "runtime::wrong-shape");
    full.reset_states();
    full.run_owned(&[&two(1.0)]).expect("runs");
    let found = full.run_owned(&[&two(3.0)]).expect("runs");
    assert_eq!(found[0], floats(&[1, 1, 1], &[40.0]));
    let state = full.state("past").expect("known").expect("set").to_tensor().expect("small");
    assert_eq!(state, floats(&[2, 2, 2], &[2.0, 2.0, 6.0, 6.0, 4.0, 4.0, 8.0, 8.0]));
    // What comes out goes in again.
    let view = TensorView::try_from(&state).expect("floats");
    full.set_state("past", &view).expect("fits");
    assert_eq!(full.state("past").expect("known").expect("set").to_tensor().expect("small"), state);
    let found = full.run_owned(&[&two(0.0)]).expect("runs");
    assert_eq!(found[0], floats(&[1, 1, 1], &[44.0]));
}

/// `present` is `past` with rows of `new` from `at` on, per batch; `total` the sum over what is present. If it copies, `before`
/// is what is past.
fn rows(copies: bool) -> Net {
    let net = Net::new(24)
        .input("new", DType::F32, &["N", "S", "3"])
        .input("at", DType::I64, &["N"])
        .input("past", DType::F32, &["N", "T", "3"])
        .node("TensorScatter", &["past", "new", "at"], &["present"], &[("axis", Attr::Int(1))])
        .node("ReduceSum", &["present"], &["total"], &[])
        .output("total")
        .output("present");
    if copies { net.node("Neg", &["past"], &["before"], &[]).output("before") } else { net }
}

/// Rows of a state of one size are replaced where they are, whatever its size; with another reader of what was there both
/// have memory of their own. The same bits either way, for all levels.
#[test]
#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
fn rows_of_a_state_are_replaced_in_place() {
    let states = [("present", "past")];
    for target in ["x86-64-v4", "x86-64-v3", "x86-64-v2"] {
        let options = CompileOptions { targets: vec![target.parse().expect("known")], ..with_states(&states, &[]) };
        let compilations = [false, true].map(|copies| rows(copies).compile(&options).expect("compiles"));
        let place = |n: usize| compilations[n].plan.as_ref().expect("a plan").states[0].append;
        assert!(place(0).is_some() && place(1).is_none(), "{:?} {:?}", place(0), place(1));
        let Some(mut sessions) = sessions(&compilations) else {
            eprintln!("skipped: this machine is no {target}");
            continue;
        };
        let start: Vec<f32> = (0..2 * 9 * 3).map(|n| n as f32).collect();
        for session in &mut sessions {
            let given = floats(&[2, 9, 3], &start);
            session.set_state("past", &TensorView::try_from(&given).expect("floats")).expect("fits");
        }
        let mut expected = start;
        // Behind the end, and before the beginning, there is nothing to replace.
        for (run, at) in [[0i64, 3], [2, 8], [7, 7], [-1, 9], [8, i64::MIN], [i64::MAX, 1]].into_iter().enumerate() {
            let new: Vec<f32> = (0..2 * 2 * 3).map(|n| (100 * (run + 1) + n) as f32).collect();
            for (batch, at) in at.into_iter().enumerate() {
                for row in 0..2 {
                    let place = at.checked_add(row).and_then(|row| usize::try_from(row).ok()).filter(|&row| row < 9);
                    let Some(place) = place else { continue };
                    let from = (batch * 2 + row as usize) * 3;
                    expected[(batch * 9 + place) * 3..][..3].copy_from_slice(&new[from..from + 3]);
                }
            }
            let (new, at) = (floats(&[2, 2, 3], &new), Tensor::from_elements(&[2], &at).expect("two"));
            for session in &mut sessions {
                let found = session.run_owned(&[&new, &at]).unwrap_or_else(|e| panic!("{target}, run {run}: {e}"));
                assert_eq!(found[0], floats(&[1, 1, 1], &[expected.iter().sum()]), "{target}, run {run}");
                let state = session.state("past").expect("known").expect("set").to_tensor().expect("small");
                assert_eq!(state, floats(&[2, 9, 3], &expected), "{target}, run {run}");
            }
        }
        // Without a value it begins with zeros, of the extents that the run says.
        let one = (floats(&[1, 1, 3], &[1.0, 2.0, 3.0]), Tensor::from_elements(&[1], &[0i64]).expect("one"));
        sessions.iter_mut().for_each(|session| session.reset_states());
        let error = sessions[0].run_owned(&[&one.0, &one.1]).expect_err("how many rows there are").code();
        assert_eq!(error, sessions[1].run_owned(&[&one.0, &one.1]).expect_err("the same").code());
    }
}

/// Where a host step may fail when rows have been replaced, or the state is the output of a branch, it is copied.
#[test]
fn a_state_that_a_failing_run_would_spoil_is_copied() {
    let net = rows(false).node("Unique", &["present"], &["different"], &[]).output("different");
    let compilation = net.compile(&with_states(&[("present", "past")], &[])).expect("compiles");
    assert_eq!(compilation.plan.as_ref().expect("a plan").states[0].append, None);
}

/// One session each; `None` where this machine does not run them.
fn sessions(compilations: &[Compilation]) -> Option<Vec<Session>> {
    let session = |compilation: &Compilation| {
        let bytes = compilation.artifact.as_ref().expect("an artifact").to_vec().expect("small");
        match infc_runtime::Model::from_vec(bytes) {
            Ok(model) => Some(model.session(&infc_runtime::SessionOptions::default()).expect("a session")),
            Err(error) if error.code() == "artifact::wrong-target" => None,
            Err(error) => panic!("{error}"),
        }
    };
    compilations.iter().map(session).collect()
}

#[test]
fn what_the_host_makes_can_be_a_state() {
    // The values seen so far, each once: as many as there are.
    let net = Net::new(18)
        .input("x", DType::I64, &["S"])
        .input("seen", DType::I64, &["P"])
        .node("Concat", &["seen", "x"], &["all"], &[("axis", Attr::Int(0))])
        .node("Unique", &["all"], &["known"], &[])
        .node("Neg", &["known"], &["y"], &[])
        .output("y")
        .output("known");
    let mut session = session(&net.compile(&with_states(&[("known", "seen")], &[])).expect("compiles"));
    let ints = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a vector");
    for (x, expected) in [(vec![3, 1, 3], vec![-1, -3]), (vec![2], vec![-1, -2, -3]), (vec![1, 2], vec![-1, -2, -3])] {
        assert_eq!(session.run_owned(&[&ints(&x)]).expect("runs"), [ints(&expected)]);
    }
    let state = session.state("seen").expect("known").expect("set").to_tensor().expect("small");
    assert_eq!(state, ints(&[1, 2, 3]));
}

// ----------------------------------------------------------------------------------------------- trained models --

fn model(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models").join(name).join("model.onnx");
    if path.exists() {
        return Some(path);
    }
    let message = format!("skipped: there is no model {}\n", path.display());
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), message.as_bytes());
    None
}

fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(format!("{name}.txt"));
    std::fs::read_to_string(path).expect("a record")
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// As `record.py` has it: SplitMix64 of a number, in [0, 1).
fn noise(at: u64) -> f64 {
    let mut z = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / f64::from(1 << 24)
}

#[test]
fn llama_generates_the_tokens_of_onnx_runtime() {
    let Some(path) = model("llama260k_kvcache") else { return };
    let states: Vec<(String, String)> = (0..5)
        .flat_map(|n| {
            ["key", "value"].map(|kind| (format!("present.{n}.{kind}"), format!("past_key_values.{n}.{kind}")))
        })
        .collect();
    let expected = numbers(&recorded("llama260k_kvcache"));
    for capacity in [Some(211), None] {
        let dims = vec![("past_sequence_length".to_owned(), DimChoice::Range(0, capacity))];
        let options = CompileOptions { states: states.clone(), dims, deny_fallback: true, ..CompileOptions::default() };
        let compilation = infc::compile(&Source::file(&path), &options, &mut ()).expect("compiles");
        let planned = &compilation.plan.as_ref().expect("a plan").states;
        assert!(planned.iter().all(|state| state.append.is_some() == capacity.is_some()), "{planned:?}");
        let mut session = session(&compilation);
        let (mut given, mut length): (Vec<i64>, usize) = ((1..=12).collect(), 0);
        for (step, expected) in expected.iter().enumerate() {
            let end = length + given.len();
            let positions: Vec<i64> = (length..end).map(|n| n as i64).collect();
            let ids = Tensor::from_elements(&[1, given.len()], &given).expect("ids");
            let mask = Tensor::from_elements(&[1, end], &vec![1i64; end]).expect("a mask");
            let positions = Tensor::from_elements(&[1, given.len()], &positions).expect("positions");
            let found = session.run_owned(&[&ids, &mask, &positions]).unwrap_or_else(|e| panic!("step {step}: {e}"));
            let logits = found[0].elements::<f32>().expect("floats");
            let last = &logits[logits.len() - 512..];
            let best = (0..512).max_by(|&a, &b| last[a].total_cmp(&last[b]).then(b.cmp(&a))).expect("512 of them");
            assert_eq!(best as f64, *expected, "token {step}, capacity {capacity:?}");
            given = vec![best as i64];
            length = end;
        }
    }
}

/// As `record.py` has it.
fn audio(at: u64) -> f32 {
    let part = at / 8000;
    let loud = [0.0, 0.03, 0.25, 0.6, 0.1][(part % 5) as usize];
    let step = 150 + 37 * (part % 7);
    let saw = (at * step % 16000) as f64 / 16000.0 - 0.5;
    (loud * (saw + 0.25 * (noise(at) - 0.5))) as f32
}

#[test]
fn silero_listens_for_a_minute() {
    let Some(path) = model("silero_vad_v5") else { return };
    let options = with_states(&[("stateN", "state")], &[]);
    let compilation = infc::compile(&Source::file(path), &options, &mut ()).expect("compiles");
    let mut session = session(&compilation);
    let expected = numbers(&recorded("silero_vad_v5"));
    let samples: Vec<f32> = (0..64).map(|_| 0.0).chain((0..expected.len() as u64 * 512).map(audio)).collect();
    let rate = Tensor::scalar(16000i64);
    for (chunk, &expected) in expected.iter().enumerate() {
        let window = floats(&[1, 576], &samples[chunk * 512..chunk * 512 + 576]);
        let found = session.run_owned(&[&window, &rate]).unwrap_or_else(|e| panic!("chunk {chunk}: {e}"));
        let found = found[0].get_f64(0).expect("a probability");
        assert!((found - expected).abs() <= ATOL + RTOL * expected, "chunk {chunk}: {found} for {expected}");
    }
}

#[test]
fn ppocr_reads_images_of_any_width() {
    let Some(path) = model("ppocrv4_rec") else { return };
    let compilation = infc::compile(&Source::file(path), &CompileOptions::default(), &mut ()).expect("compiles");
    let mut session = session(&compilation);
    for line in recorded("ppocrv4_rec").lines() {
        let (width, expected) = line.split_once(' ').expect("a width");
        let width: usize = width.parse().expect("a number");
        let is_ink = |at: usize| {
            let (row, column) = (at / width % 48, at % width);
            let stroke = noise((row / 6 * 1000 + column / 4) as u64) > 0.45;
            (8..40).contains(&row) && column % 20 < 16 && stroke
        };
        let image: Vec<f32> = (0..3 * 48 * width).map(|at| if is_ink(at) { -1.0 } else { 1.0 }).collect();
        let found = session.run_owned(&[&floats(&[1, 3, 48, width], &image)]).expect("runs");
        let places: Vec<&str> = expected.split(' ').collect();
        assert_eq!(found[0].shape(), [1, places.len(), 6625], "width {width}");
        for (row, place) in found[0].elements::<f32>().expect("floats").chunks(6625).zip(places) {
            let (class, probability) = place.split_once(':').expect("a class and its probability");
            let (class, expected): (usize, f64) = (class.parse().expect("a class"), probability.parse().expect("one"));
            let found = f64::from(row[class]);
            assert!((found - expected).abs() <= ATOL + RTOL * expected, "width {width}: {found} for {expected}");
            assert!(row.iter().all(|&other| f64::from(other) <= found), "width {width}: another class than {class}");
        }
    }
}
