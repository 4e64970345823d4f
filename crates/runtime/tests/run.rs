//! Running: results, shapes, buffers, and what is refused.

#![cfg(target_arch = "x86_64")]

mod support;

use infc_runtime::artifact::{
    Arg, Assumption, Binding, BindingSource, Copy, If, Relation, Require, SizeExpr, Slot, Step, SymbolSpec,
};
use infc_runtime::{
    DType, Model, RunOptions, RuntimeError, Session, SessionOptions, Tensor, TensorView, TensorViewMut,
};
use support::{add_twice, artifact, dynamic, fixed, launch, port, row_sums};

fn session(bytes: Vec<u8>) -> Session {
    Model::from_vec(bytes).unwrap().session(&SessionOptions::default()).unwrap()
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).unwrap()
}

fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| i as f32).collect()
}

#[test]
fn the_golden_artifact_runs() {
    let bytes = infc_runtime::include_artifact!("../../artifact/tests/golden/format-1.0.infa");
    let model = Model::from_static(bytes).unwrap();
    assert_eq!(model.inputs()[0].type_text(&[]), "f32[4]");
    let mut main = model.session(&SessionOptions::default()).unwrap();
    let outputs = main.run_owned(&[&tensor(&[10., 20., 30., 40.])]).unwrap();
    assert_eq!(outputs, [tensor(&[11., 22., 33., 44.])]);
    let entry = Some("pair".to_owned());
    let mut pair = model.session(&SessionOptions { entry, ..SessionOptions::default() }).unwrap();
    assert_eq!(pair.run_owned(&[&tensor(&[1., 2.]), &tensor(&[5., 7.])]).unwrap(), [tensor(&[11., 16.])]);
}

#[test]
fn any_length_including_none() {
    let mut session = session(add_twice());
    // More lengths than bindings are kept, and back again.
    for n in [5usize, 0, 1, 1000, 17, 33, 2, 3, 4, 6, 7, 8, 100_000, 5, 0] {
        let (a, b) = (ramp(n), vec![0.5; n]);
        let outputs = session.run_owned(&[&tensor(&a), &tensor(&b)]).unwrap();
        let expected: Vec<f32> = a.iter().map(|x| x + 1.0).collect();
        assert_eq!(outputs, [tensor(&expected)], "{n}");
    }
    assert_eq!(session.arena_bytes(), 400_000);
}

#[test]
fn values_and_scratch_reach_the_kernel() {
    let mut session = session(row_sums());
    let a = Tensor::from_elements(&[3, 10], &ramp(30)).unwrap();
    assert_eq!(session.run_owned(&[&a]).unwrap(), [tensor(&[45., 145., 245.])]);
}

#[test]
fn unaligned_buffers_are_used_in_place() {
    let mut session = session(add_twice());
    let a: Vec<u8> = [&[9u8][..], &1f32.to_le_bytes(), &2f32.to_le_bytes()].concat();
    let mut out = [0u8; 11];
    let view = TensorView::new(DType::F32, &[2], &a[1..]).unwrap();
    let mut outputs = [TensorViewMut::new(DType::F32, &[2], &mut out[3..]).unwrap()];
    session.run(&[view, view], &mut outputs, &RunOptions::default()).unwrap();
    assert_eq!(out[..3], [0; 3]);
    assert_eq!(out[3..], [3f32.to_le_bytes(), 6f32.to_le_bytes()].concat());
}

#[test]
fn strided_inputs_are_made_dense() {
    let mut session = session(row_sums());
    // Columns of a [10, 3] matrix, and every second element of a longer one.
    let data = ramp(30);
    let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut run = |strides: &[isize], offset, bytes: &[u8]| -> Vec<f32> {
        let view = TensorView::strided(DType::F32, &[3, 10], strides, offset, bytes).unwrap();
        let outputs = session.run_in_session(&[view], &RunOptions::default()).unwrap();
        let out = outputs.get(0).unwrap();
        assert_eq!((outputs.len(), out.shape()), (1, &[3][..]));
        out.dense_bytes().unwrap().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    assert_eq!(run(&[1, 3], 0, &bytes), [135., 145., 155.]);
    assert_eq!(run(&[10, 1], 0, &bytes), [45., 145., 245.]);
    assert_eq!(run(&[-10, -1], 29, &bytes), [245., 145., 45.]);
    assert_eq!(run(&[0, 1], 20, &bytes), [245.; 3]);
}

#[test]
fn weights_copies_and_offsets() {
    // out0 = input, out1 = weight, out2[0..2] = weight[1..3] + input[0..2].
    let f32s = |name, len| port(name, DType::F32, [SizeExpr::constant(len)]);
    let copy = |src, dst, bytes| Step::Copy(Copy { src, dst, size_bytes: SizeExpr::constant(bytes) });
    let args = vec![Arg::read(1).at(SizeExpr::constant(4)), Arg::read(0), Arg::write(4)];
    let bytes = artifact(
        fixed(vec![f32s("in", 2)], vec![f32s("o0", 2), f32s("o1", 3), f32s("o2", 2)]),
        vec![Slot::Input(0), Slot::Weight(0), Slot::Output(0), Slot::Output(1), Slot::Output(2)],
        vec![copy(0, 2, 8), copy(1, 3, 12), Step::Launch(launch(0, args, SizeExpr::constant(2)))],
        &[&[1., 2., 3.]],
    );
    let outputs = session(bytes).run_owned(&[&tensor(&[10., 20.])]).unwrap();
    assert_eq!(outputs, [tensor(&[10., 20.]), tensor(&[1., 2., 3.]), tensor(&[12., 23.])]);
}

/// `out = c ? (d ? a : weight) : b`, where the steps of a branch lie behind each other.
#[test]
fn choices_inside_of_choices() {
    let f32s = |name| port(name, DType::F32, [SizeExpr::constant(2)]);
    let flag = |name| port(name, DType::U8, []);
    let copy = |src| Step::Copy(Copy { src, dst: 5, size_bytes: SizeExpr::constant(8) });
    let choice = |condition, then_steps, else_steps| Step::If(If { condition, then_steps, else_steps });
    let slots = (0..4).map(Slot::Input).chain([Slot::Weight(0), Slot::Output(0)]).collect();
    let bytes = artifact(
        fixed(vec![f32s("a"), f32s("b"), flag("c"), flag("d")], vec![f32s("out")]),
        slots,
        vec![choice(2, 3, 1), choice(3, 1, 1), copy(0), copy(4), copy(1)],
        &[&[7., 8.]],
    );
    let mut session = session(bytes);
    let (a, b) = (tensor(&[1., 2.]), tensor(&[3., 4.]));
    for (c, d, expected) in [(true, true, &a), (true, false, &tensor(&[7., 8.])), (false, true, &b)] {
        let outputs = session.run_owned(&[&a, &b, &Tensor::scalar(u8::from(c)), &Tensor::scalar(u8::from(d))]).unwrap();
        assert_eq!(outputs, std::slice::from_ref(expected), "{c} {d}");
    }
}

#[test]
fn requirements_are_checked_where_they_stand() {
    let n = SizeExpr::symbol(0);
    let require = |equal, right| {
        let right = SizeExpr::constant(right);
        Step::Require(Require { left: n.clone(), right, equal, what: "rows".to_owned() })
    };
    let copy = Step::Copy(Copy { src: 0, dst: 2, size_bytes: n.clone() * SizeExpr::constant(4) });
    let inputs = vec![port("a", DType::F32, [n.clone()]), port("c", DType::U8, [])];
    let bytes = artifact(
        dynamic(inputs, vec![port("out", DType::F32, [n.clone()])]),
        vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)],
        vec![
            require(false, 3),
            Step::If(If { condition: 1, then_steps: 2, else_steps: 1 }),
            require(true, 2),
            copy.clone(),
            copy,
        ],
        &[],
    );
    let mut session = session(bytes);
    let mut run =
        |values: &[f32], condition: bool| session.run_owned(&[&tensor(values), &Tensor::scalar(u8::from(condition))]);
    assert_eq!(run(&[1., 2.], true).unwrap(), [tensor(&[1., 2.])]);
    assert_eq!(run(&[1.], false).unwrap(), [tensor(&[1.])]);
    let error = run(&[1.], true).unwrap_err();
    assert_eq!(error.code(), "runtime::unmet-requirement");
    assert_eq!(error.to_string(), "rows are 1 and 2, which must be equal");
    assert_eq!(run(&[1., 2., 3.], false).unwrap_err().to_string(), "rows are 3 and 3, which must differ");
    assert_eq!(run(&[4.], false).unwrap(), [tensor(&[4.])], "a failed run leaves the session usable");
}

#[test]
fn scalars() {
    let f32s = |name| port(name, DType::F32, []);
    let bytes = artifact(
        fixed(vec![f32s("a"), f32s("b")], vec![f32s("out")]),
        vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)],
        vec![Step::Launch(launch(0, vec![Arg::read(0), Arg::read(1), Arg::write(2)], SizeExpr::constant(1)))],
        &[],
    );
    let outputs = session(bytes).run_owned(&[&Tensor::scalar(1.5f32), &Tensor::scalar(2f32)]).unwrap();
    assert_eq!(outputs, [Tensor::scalar(3.5f32)]);
}

#[test]
fn inputs_by_name() {
    let mut session = session(add_twice());
    let (a, b) = (tensor(&[1.]), tensor(&[10.]));
    let options = RunOptions::default();
    assert_eq!(session.run_named(&[("b", &b), ("a", &a)], &options).unwrap(), [tensor(&[21.])]);
    let mut code = |inputs: &[(&str, &Tensor)]| session.run_named(inputs, &options).unwrap_err();
    let error = code(&[("x", &a), ("a", &a)]);
    assert_eq!(error.code(), "runtime::unknown-input");
    assert!(error.to_string().contains("`a`, `b`"), "{error}");
    assert_eq!(code(&[("a", &a)]).code(), "runtime::missing-input");
    assert_eq!(code(&[("a", &a), ("a", &b)]).code(), "runtime::duplicate-input");
}

#[test]
fn inputs_that_do_not_fit() {
    let mut session = session(add_twice());
    let refused = |session: &mut Session, inputs: &[&Tensor]| -> RuntimeError {
        let error = session.run_owned(inputs).unwrap_err();
        // The session goes on.
        assert_eq!(session.run_owned(&[&tensor(&[1.]), &tensor(&[2.])]).unwrap(), [tensor(&[5.])]);
        error
    };
    let a = tensor(&[1., 2.]);
    assert_eq!(refused(&mut session, &[&a]).code(), "runtime::input-count");
    assert_eq!(refused(&mut session, &[&a, &a, &a]).code(), "runtime::input-count");
    let ints = Tensor::from_elements(&[2], &[1i32, 2]).unwrap();
    let error = refused(&mut session, &[&a, &ints]);
    assert_eq!(error.to_string(), "input `b`: expected elements of type f32, found i32");
    assert_eq!(error.code(), "runtime::wrong-type");
    let error = refused(&mut session, &[&a, &tensor(&[1., 2., 3.])]);
    assert_eq!(error.to_string(), "input `b`: expected f32[N], here [2], found shape [3]");
    assert_eq!(error.code(), "runtime::wrong-shape");
    let square = Tensor::from_elements(&[1, 2], &[1f32, 2.]).unwrap();
    assert_eq!(refused(&mut session, &[&square, &a]).code(), "runtime::wrong-shape");
    assert_eq!(refused(&mut session, &[&a, &square]).code(), "runtime::wrong-shape");
    let long = tensor(&vec![0.; 100_001]);
    let error = refused(&mut session, &[&long, &long]);
    assert_eq!(error.to_string(), "symbol `N` (axis 0 of `a`): expected 0 to 100000, found 100001");
    assert_eq!(error.code(), "runtime::dim-out-of-range");
    let strings = Tensor::from_strings(&[2], vec![String::new(); 2]).unwrap();
    assert_eq!(refused(&mut session, &[&a, &strings]).code(), "runtime::wrong-type");
}

#[test]
fn what_was_taken_for_granted_is_checked_before_anything_runs() {
    // b's only axis is M, which the compiler took to be N + 1; c's tells it again.
    let (n, m) = (SizeExpr::symbol(0), SizeExpr::symbol(1));
    let f32s = |name, dim: &SizeExpr| port(name, DType::F32, [dim.clone()]);
    let next = n.clone() + SizeExpr::constant(1);
    let mut entry = dynamic(vec![f32s("a", &n), f32s("b", &next)], vec![f32s("out", &n)]);
    entry.symbols.push(SymbolSpec { name: "M".to_owned(), min: 0, max: None });
    entry.bindings.push(Binding { symbol: 1, source: BindingSource::Axis { input: 1, axis: 0 } });
    let (what, origins) = ("the rows".to_owned(), vec!["/Add".to_owned()]);
    entry.assumptions.push(Assumption { what, left: m, relation: Relation::Equal, right: next, origins });
    let least = SizeExpr::constant(2);
    let (what, origins) = ("the size".to_owned(), vec![]);
    entry.assumptions.push(Assumption { what, left: least, relation: Relation::AtMost, right: n.clone(), origins });
    let add = Step::Launch(launch(0, vec![Arg::read(0), Arg::read(1), Arg::write(2)], n));
    let bytes = artifact(entry, vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)], vec![add], &[]);
    let mut session = session(bytes);
    assert_eq!(session.run_owned(&[&tensor(&[1., 2.]), &tensor(&[3., 4., 5.])]).unwrap(), [tensor(&[4., 6.])]);
    let error = session.run_owned(&[&tensor(&[1., 2.]), &tensor(&[3., 4.])]).unwrap_err();
    assert_eq!(error.to_string(), "node `/Add`: the rows must be equal, found M = 2 and N + 1 = 3");
    assert_eq!(error.code(), "runtime::assumption-failed");
    let error = session.run_owned(&[&tensor(&[1.]), &tensor(&[3., 4.])]).unwrap_err();
    assert_eq!(error.to_string(), "entry `main`: the size must be at least 2, found N = 1");
}

#[test]
fn outputs_that_do_not_fit() {
    let mut session = session(add_twice());
    assert_eq!(session.output_shapes(&[&[3], &[3]]).unwrap(), [[3]]);
    let data = [1f32; 3];
    let view = TensorView::from_slice(&[3], &data).unwrap();
    let mut refused = |outputs: &mut [TensorViewMut<'_>]| {
        session.run(&[view, view], outputs, &RunOptions::default()).map_or_else(|e| e.code(), |()| "accepted")
    };
    let (mut three, mut four, mut ints) = ([0f32; 3], [0f32; 4], [0i32; 3]);
    assert_eq!(refused(&mut []), "runtime::output-count");
    assert_eq!(refused(&mut [TensorViewMut::from_slice(&[4], &mut four).unwrap()]), "runtime::wrong-shape");
    assert_eq!(refused(&mut [TensorViewMut::from_slice(&[3, 1], &mut three).unwrap()]), "runtime::wrong-shape");
    assert_eq!(refused(&mut [TensorViewMut::from_slice(&[3], &mut ints).unwrap()]), "runtime::wrong-type");
    assert_eq!(refused(&mut [TensorViewMut::from_slice(&[3], &mut three).unwrap()]), "accepted");
    assert_eq!((three, four), ([3.; 3], [0.; 4]));
}

#[test]
fn sizes_beyond_memory_are_an_error_not_the_end() {
    // The output has N * 2^40 elements.
    let n = SizeExpr::symbol(0);
    let huge = port("out", DType::F32, [n.clone() * SizeExpr::constant(1 << 40)]);
    let bytes = artifact(
        support::dynamic(vec![port("a", DType::F32, [n])], vec![huge]),
        vec![Slot::Input(0), Slot::Output(0)],
        vec![Step::Copy(Copy { src: 0, dst: 1, size_bytes: SizeExpr::constant(0) })],
        &[],
    );
    let mut session = session(bytes);
    assert!(session.run_owned(&[&tensor(&[])]).is_ok());
    let error = session.run_owned(&[&tensor(&vec![0.; 4096])]).unwrap_err();
    assert_eq!(error.code(), "runtime::out-of-memory");
    let error = session.run_owned(&[&tensor(&vec![0.; 100_000])]).unwrap_err();
    assert_eq!(error.code(), "runtime::out-of-memory");
    assert!(session.run_owned(&[&tensor(&[])]).is_ok());
}

#[test]
fn faults_of_the_artifact_show_before_any_kernel_runs() {
    let run = |slots: Vec<Slot>, step: Step| {
        let n = SizeExpr::symbol(0);
        let entry = support::dynamic(vec![port("a", DType::F32, [n.clone()])], vec![port("out", DType::F32, [n])]);
        session(artifact(entry, slots, vec![step], &[])).run_owned(&[&tensor(&[1., 2.])]).unwrap_err().code()
    };
    let n = SizeExpr::symbol(0);
    let slots = || vec![Slot::Input(0), Slot::Output(0)];
    let add = |offset: SizeExpr, chunks: SizeExpr| {
        Step::Launch(launch(0, vec![Arg::read(0).at(offset), Arg::read(0), Arg::write(1)], chunks))
    };
    let copy = |size_bytes| Step::Copy(Copy { src: 0, dst: 1, size_bytes });
    assert_eq!(run(slots(), copy(SizeExpr::constant(9))), "runtime::bad-program");
    assert_eq!(run(slots(), copy(n.clone() - SizeExpr::constant(3))), "runtime::bad-size");
    assert_eq!(run(slots(), add(SizeExpr::constant(9), n.clone())), "runtime::bad-program");
    assert_eq!(run(slots(), add(SizeExpr::constant(-1), n.clone())), "runtime::bad-size");
    assert_eq!(run(slots(), add(SizeExpr::constant(0), n.clone() * SizeExpr::constant(-1))), "runtime::bad-size");
    let mut scratch = launch(0, vec![Arg::write(1)], n.clone());
    scratch.scratch_bytes = SizeExpr::constant(i64::MAX - 200);
    assert_eq!(run(slots(), Step::Launch(scratch)), "runtime::out-of-memory");
    let arena = support::arena(n.clone() * SizeExpr::constant(1 << 60), 0, 0);
    let step = Step::Launch(launch(0, vec![Arg::read(0), Arg::write(2), Arg::write(1)], n));
    assert_eq!(run(vec![Slot::Input(0), Slot::Output(0), arena], step), "runtime::out-of-memory");
}

#[test]
fn entries_are_found_by_name() {
    let model = Model::from_vec(add_twice()).unwrap();
    let entry = Some("decode".to_owned());
    let error = model.session(&SessionOptions { entry, ..SessionOptions::default() }).unwrap_err();
    assert_eq!(error.code(), "runtime::unknown-entry");
    assert!(error.to_string().contains("`main`"), "{error}");
}
