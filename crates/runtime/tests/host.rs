//! Host steps: operators that are evaluated, and sizes that are known only then.

#![cfg(target_arch = "x86_64")]

mod support;

use infc_runtime::artifact::{
    Arg, Bind, BindFrom, BindSymbol, Copy, Entry, Host, HostArg, HostSlot, If, Require, SizeExpr, Slot, Step,
    SymbolSpec,
};
use infc_runtime::{DType, Model, SessionOptions, Tensor};
use infc_tensor::{Attributes, Subgraphs};
use support::{arena, artifact, dynamic, launch, port};

const F32: SizeExpr = SizeExpr::constant(4);

fn n() -> SizeExpr {
    SizeExpr::symbol(0)
}

/// How many elements are kept, at most `max` of them.
fn d() -> SizeExpr {
    SizeExpr::symbol(1)
}

/// `y = x where keep`, over x f32[N], keep bool[N], into slot `to`.
fn compress(to: u32) -> Step {
    let operand = |slot, dtype| Some(HostArg { slot, dtype, shape: vec![n()] });
    Step::Host(Host {
        op_type: "Compress".to_owned(),
        domain: String::new(),
        opset: 11,
        attributes: Attributes::new(),
        graphs: Subgraphs::default(),
        body: None,
        inputs: vec![operand(0, DType::F32), operand(1, DType::Bool)],
        outputs: vec![Some(to)],
        origins: vec!["/select".to_owned()],
        reason: "its size depends on data".to_owned(),
    })
}

fn bind(slot: u32) -> Step {
    Step::Bind(Bind { symbols: vec![BindSymbol { symbol: 1, from: BindFrom::Axis { slot, axis: 0 } }] })
}

fn entry(max: i64) -> Entry {
    let inputs = vec![port("x", DType::F32, [n()]), port("keep", DType::Bool, [n()])];
    let mut entry = dynamic(inputs, vec![port("y", DType::F32, [d()])]);
    entry.symbols.push(SymbolSpec { name: "D".to_owned(), min: 0, max: Some(max) });
    entry
}

/// `y = 3·compress(x, keep)` through the arena: what is kept plus itself, plus what is kept.
fn tripled(max: i64) -> Vec<u8> {
    let slots = vec![
        Slot::Input(0),
        Slot::Input(1),
        Slot::Host(HostSlot { dtype: DType::F32, shape: vec![d()] }),
        arena(d() * F32, 2, 3),
        Slot::Output(0),
    ];
    let steps = vec![
        compress(2),
        bind(2),
        Step::Launch(launch(0, vec![Arg::read(2), Arg::read(2), Arg::write(3)], d())),
        Step::Launch(launch(0, vec![Arg::read(3), Arg::read(2), Arg::write(4)], d())),
    ];
    artifact(entry(max), slots, steps, &[])
}

#[cfg(not(feature = "host-ops"))]
#[test]
fn without_definitions_the_operators_are_named() {
    let error = Model::from_vec(tripled(100)).unwrap_err();
    assert_eq!(error.code(), "runtime::no-host-op");
    let message = error.to_string();
    assert!(message.contains("ai.onnx.Compress (opset 11)") && message.contains("host-ops"), "{message}");
}

/// `y = x`, as long as `len` (an i64 in a vector) says, which a step tells that makes nothing.
fn shortened() -> Vec<u8> {
    let told = vec![d(), SizeExpr::constant(0)];
    let shaping = Step::Host(Host {
        op_type: "ConstantOfShape".to_owned(),
        domain: String::new(),
        opset: 9,
        attributes: Attributes::new(),
        graphs: Subgraphs::default(),
        body: None,
        inputs: vec![Some(HostArg { slot: 1, dtype: DType::I64, shape: vec![SizeExpr::constant(2)] })],
        outputs: vec![Some(2)],
        origins: vec!["/shorten".to_owned()],
        reason: "kernels compute how long it is".to_owned(),
    });
    let inputs = vec![port("x", DType::F32, [n()]), port("extents", DType::I64, [SizeExpr::constant(2)])];
    let mut entry = dynamic(inputs, vec![port("y", DType::F32, [d()])]);
    entry.symbols.push(SymbolSpec { name: "D".to_owned(), min: 0, max: Some(3) });
    let slots =
        vec![Slot::Input(0), Slot::Input(1), Slot::Host(HostSlot { dtype: DType::F32, shape: told }), Slot::Output(0)];
    let copy = Step::Copy(Copy { src: 0, dst: 3, size_bytes: d() * F32 });
    artifact(entry, slots, vec![shaping, bind(2), copy], &[])
}

/// What only makes sizes known is no operator that would need a definition.
#[test]
fn sizes_are_read_without_definitions() {
    let mut session = Model::from_vec(shortened()).unwrap().session(&SessionOptions::default()).unwrap();
    let x = Tensor::from_elements(&[3], &[1.0f32, 2.0, 3.0]).unwrap();
    let mut run = |extents: [i64; 2]| {
        let extents = Tensor::from_elements(&[2], &extents).unwrap();
        session.run_owned(&[&x, &extents])
    };
    assert_eq!(run([2, 0]).unwrap(), [Tensor::from_elements(&[2], &[1.0f32, 2.0]).unwrap()]);
    assert_eq!(run([0, 0]).unwrap()[0].shape(), [0]);
    assert_eq!(run([4, 0]).unwrap_err().code(), "runtime::dim-out-of-range");
    for wrong in [[2, 1], [-1, 0], [i64::MIN, 0], [i64::MAX, 2]] {
        let code = run(wrong).unwrap_err().code();
        assert!(["runtime::unexpected-result", "runtime::host-step-failed"].contains(&code), "{wrong:?}: {code}");
    }
    assert_eq!(run([1, 0]).unwrap()[0].shape(), [1]);
}

#[cfg(feature = "host-ops")]
mod evaluated {
    use super::*;
    use infc_runtime::{RunOptions, Session, TensorView, TensorViewMut};

    fn session(bytes: Vec<u8>) -> Session {
        Model::from_vec(bytes).unwrap().session(&SessionOptions::default()).unwrap()
    }

    fn inputs(len: usize, keep: impl Fn(usize) -> bool) -> (Tensor, Tensor) {
        let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
        let keep: Vec<bool> = (0..len).map(keep).collect();
        (Tensor::from_elements(&[len], &x).unwrap(), Tensor::from_bools(&[len], &keep).unwrap())
    }

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::from_elements(&[values.len()], values).unwrap()
    }

    #[test]
    fn memory_is_found_when_sizes_are_known() {
        let mut session = session(tripled(100_000));
        for (len, every) in [(10usize, 3usize), (0, 1), (50_000, 2), (7, 9), (50_000, 1), (10, 3)] {
            let (x, keep) = inputs(len, |i| i % every == 1 % every);
            let expected: Vec<f32> = (0..len).filter(|i| i % every == 1 % every).map(|i| 3.0 * i as f32).collect();
            assert_eq!(session.run_owned(&[&x, &keep]).unwrap(), [tensor(&expected)], "{len} {every}");
        }
        assert_eq!(session.arena_bytes(), 4 * 50_000_usize.next_multiple_of(16));
    }

    #[test]
    fn buffers_of_the_caller_must_have_the_shape_that_is_computed() {
        let mut session = session(tripled(100));
        let (x, keep) = inputs(5, |i| i > 2);
        let views = [TensorView::try_from(&x).unwrap(), TensorView::try_from(&keep).unwrap()];
        let mut run = |len: usize| {
            let (shape, mut found) = ([len], vec![0.0f32; len]);
            let mut outputs = [TensorViewMut::from_slice(&shape, &mut found).unwrap()];
            session.run(&views, &mut outputs, &RunOptions::default()).map(|()| found).map_err(|error| error.code())
        };
        assert_eq!(run(2), Ok(vec![9.0, 12.0]));
        assert_eq!(run(3), Err("runtime::wrong-shape"));
        assert_eq!(run(2), Ok(vec![9.0, 12.0]));
        assert_eq!(session.output_shapes(&[&[5], &[5]]).unwrap_err().code(), "runtime::late-shape");
    }

    #[test]
    fn a_size_outside_of_its_range_is_an_ordinary_error() {
        let mut session = session(tripled(2));
        let (x, all) = inputs(3, |_| true);
        assert_eq!(session.run_owned(&[&x, &all]).unwrap_err().code(), "runtime::dim-out-of-range");
        let (_, some) = inputs(3, |i| i != 1);
        assert_eq!(session.run_owned(&[&x, &some]).unwrap(), [tensor(&[0.0, 6.0])]);
    }

    #[test]
    fn what_an_operator_refuses_names_the_node() {
        let Step::Host(mut host) = compress(2) else { unreachable!("it is a host step") };
        host.attributes.insert("axis", 7i64);
        let slots = vec![
            Slot::Input(0),
            Slot::Input(1),
            Slot::Host(HostSlot { dtype: DType::F32, shape: vec![d()] }),
            Slot::Output(0),
        ];
        let copy = Step::Copy(Copy { src: 2, dst: 3, size_bytes: d() * F32 });
        let mut session = session(artifact(entry(9), slots, vec![Step::Host(host), bind(2), copy], &[]));
        let (x, keep) = inputs(3, |_| true);
        let error = session.run_owned(&[&x, &keep]).unwrap_err();
        assert_eq!(error.code(), "runtime::host-step-failed");
        assert!(error.to_string().contains("Compress node `/select`"), "{error}");
    }

    #[test]
    fn results_are_compared_with_what_the_artifact_says() {
        let slots = |dtype, extent: SizeExpr| {
            let host = Slot::Host(HostSlot { dtype, shape: vec![extent] });
            vec![Slot::Input(0), Slot::Input(1), host, Slot::Output(0)]
        };
        // The output is as long as x; three of three elements are kept, or two.
        let run = |slots: Vec<Slot>, kept: usize| {
            let inputs_of = vec![port("x", DType::F32, [n()]), port("keep", DType::Bool, [n()])];
            let entry = dynamic(inputs_of, vec![port("y", DType::F32, [n()])]);
            let copy = Step::Copy(Copy { src: 2, dst: 3, size_bytes: n() * F32 });
            let mut session = session(artifact(entry, slots, vec![compress(2), copy], &[]));
            let (x, keep) = inputs(3, |i| i < kept);
            session.run_owned(&[&x, &keep]).map_err(|error| error.code())
        };
        assert_eq!(run(slots(DType::F32, n()), 3), Ok(vec![tensor(&[0.0, 1.0, 2.0])]));
        assert_eq!(run(slots(DType::F32, n()), 2), Err("runtime::unexpected-result"));
        assert_eq!(run(slots(DType::I32, n()), 3), Err("runtime::unexpected-result"));
    }

    /// Sizes that are bound in a branch that is not taken have some value, and nothing that needs them runs.
    #[test]
    fn a_branch_that_is_not_taken_binds_nothing() {
        let mut entry = entry(100);
        entry.inputs.push(port("which", DType::Bool, []));
        entry.outputs = vec![port("y", DType::F32, [n()])];
        let slots = vec![
            Slot::Input(0),
            Slot::Input(1),
            Slot::Host(HostSlot { dtype: DType::F32, shape: vec![d()] }),
            Slot::Output(0),
            Slot::Input(2),
            arena(d() * F32, 3, 3),
        ];
        let steps = vec![
            Step::If(If { condition: 4, then_steps: 4, else_steps: 1 }),
            compress(2),
            bind(2),
            Step::Launch(launch(0, vec![Arg::read(2), Arg::read(2), Arg::write(5)], d())),
            Step::Require(Require { left: d(), right: n(), equal: true, what: "all".to_owned() }),
            Step::Copy(Copy { src: 0, dst: 3, size_bytes: n() * F32 }),
            Step::Copy(Copy { src: 0, dst: 3, size_bytes: n() * F32 }),
        ];
        let mut session = session(artifact(entry, slots, steps, &[]));
        let (x, keep) = inputs(3, |i| i < 2);
        let which = |holds| Tensor::from_bools(&[], &[holds]).unwrap();
        assert_eq!(session.run_owned(&[&x, &keep, &which(false)]).unwrap(), std::slice::from_ref(&x));
        assert_eq!(session.run_owned(&[&x, &keep, &which(true)]).unwrap_err().code(), "runtime::unmet-requirement");
        let (_, all) = inputs(3, |_| true);
        assert_eq!(session.run_owned(&[&x, &all, &which(true)]).unwrap(), std::slice::from_ref(&x));
    }
}
