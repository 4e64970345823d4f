//! Values with as many axes as a run tells, through the whole line.

use super::net::{Attr, Net, port, session};
use infc::{Compilation, CompileOptions, DimChoice};
use infc_frontend_onnx::proto::ValueInfoProto;
use infc_runtime::{RunOptions, Session, TensorView, TensorViewMut};
use infc_tensor::{DType, Tensor};

fn tensor(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|n| n as f32 - 2.5).collect();
    Tensor::from_elements(shape, &elements).expect("a tensor")
}

fn list(elements: &[i64]) -> Tensor {
    Tensor::from_elements(&[elements.len()], elements).expect("a list")
}

fn mapped(x: &Tensor, shape: &[usize], f: impl Fn(f32) -> f32) -> Tensor {
    let elements: Vec<f32> = x.elements::<f32>().expect("floats").iter().map(|&x| f(x)).collect();
    Tensor::from_elements(shape, &elements).expect("a tensor")
}

fn run(session: &mut Session, inputs: &[&Tensor]) -> Tensor {
    session.run_owned(inputs).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

fn compiled(net: Net) -> Compilation {
    net.compile(&CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The shape that a list of unknown length says, through operators that keep it, to one that is known.
#[test]
fn a_list_of_any_length_says_the_shape() {
    let net = |last: &[&str], shape: &Tensor| {
        Net::new(18)
            .input("x", DType::F32, &["N", "6"])
            .input("s", DType::I64, &["K"])
            .constant("flat", shape)
            .node("Reshape", &["x", "s"], &["y"], &[])
            .node("Relu", &["y"], &["z"], &[])
            .node("Add", &["z", "z"], &["w"], &[])
            .node(last[0], &["w", "flat"], &["o"], &[])
            .output("o")
    };
    let mut flat = net(&["Reshape"], &list(&[-1, 2])).session();
    let mut same = net(&["Mul"], &mapped(&tensor(&[1]), &[], |_| 0.5)).session();
    for n in [1, 3] {
        let x = tensor(&[n, 6]);
        for shape in [&[6 * n][..], &[2, 3 * n], &[n, 1, 3, 2], &[n, 1, 1, 1, 1, 6]] {
            let s = list(&shape.iter().map(|&extent| extent as i64).collect::<Vec<_>>());
            assert_eq!(run(&mut flat, &[&x, &s]), mapped(&x, &[3 * n, 2], |x| 2.0 * x.max(0.0)));
            assert_eq!(run(&mut same, &[&x, &s]), mapped(&x, shape, |x| x.max(0.0)));
        }
    }
    let error = flat.run_owned(&[&tensor(&[1, 6]), &list(&[5])]).expect_err("no such shape");
    assert_eq!(error.code(), "runtime::host-step-failed");
}

/// Where a node makes sense with one number of axes alone, it is a kernel, and a run with another one is refused.
#[test]
fn a_node_may_say_how_many_axes_there_are() {
    let weights = Tensor::from_elements(&[2, 3, 1, 1], &[1.0f32, 0.0, 0.0, 0.0, 0.0, 2.0]).expect("weights");
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "12"])
        .input("s", DType::I64, &["K"])
        .constant("w", &weights)
        .node("Reshape", &["x", "s"], &["y"], &[])
        .node("Conv", &["y", "w"], &["o"], &[])
        .output("o");
    let compilation = compiled(net);
    assert!(compilation.report.launches > 0, "the convolution is a kernel");
    let mut session = session(&compilation);
    let x = tensor(&[1, 12]);
    let found = run(&mut session, &[&x, &list(&[1, 3, 2, 2])]);
    let of = x.elements::<f32>().expect("floats");
    let expected: Vec<f32> = of[..4].iter().copied().chain(of[8..].iter().map(|x| 2.0 * x)).collect();
    assert_eq!(found, Tensor::from_elements(&[1, 2, 2, 2], &expected).expect("a tensor"));
    for other in [&[1, 3, 4][..], &[1, 3, 2, 2, 1]] {
        session.run_owned(&[&x, &list(other)]).expect_err("another number of axes");
    }
}

#[test]
fn inputs_and_outputs_have_any_number_of_axes() {
    let net = Net::new(18)
        .unranked_input("x", DType::F32)
        .unranked_input("z", DType::F32)
        .node("Add", &["x", "z"], &["y"], &[])
        .output("y");
    let compilation = compiled(net);
    assert_eq!(compilation.report.unranked, ["x", "z"]);
    let mut session = session(&compilation);
    let [input, output] = [&session.entry().inputs[0], &session.entry().outputs[0]].map(|port| port.type_text(&[]));
    assert_eq!((&*input, &*output), ("f32[..]", "f32[..]"));
    let one = Tensor::scalar(1.0f32);
    for shape in [&[][..], &[3], &[2, 3], &[0], &[2, 1, 4, 1, 2]] {
        let x = tensor(shape);
        assert_eq!(run(&mut session, &[&x, &one]), mapped(&x, shape, |x| x + 1.0));
        // The same with memory of the caller's.
        let views = [TensorView::try_from(&x).expect("a view"), TensorView::try_from(&one).expect("a view")];
        let mut found = Tensor::zeros(DType::F32, shape).expect("zeros");
        let mut outputs = [TensorViewMut::new(DType::F32, shape, found.bytes_mut()).expect("a view")];
        session.run(&views, &mut outputs, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found, mapped(&x, shape, |x| x + 1.0));
        let error = session.output_shapes_for(&views).expect_err("only a run tells");
        assert_eq!(error.code(), "runtime::late-shape");
        let kept = session.run_in_session(&views, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(kept.get(0).expect("an output").shape(), shape);
    }
    let x = tensor(&[2]);
    let views = [TensorView::try_from(&x).expect("a view"), TensorView::try_from(&one).expect("a view")];
    let mut other = Tensor::zeros(DType::F32, &[1, 2]).expect("zeros");
    let mut outputs = [TensorViewMut::new(DType::F32, &[1, 2], other.bytes_mut()).expect("a view")];
    let error = session.run(&views, &mut outputs, &RunOptions::default()).expect_err("another shape");
    assert_eq!(error.code(), "runtime::unexpected-result");
    let error = session.run_owned(&[&list(&[1]), &one]).expect_err("integers");
    assert_eq!(error.code(), "runtime::wrong-type");
}

/// The whole model may make sense with one number of axes alone: then the input has that many, and its dims have names.
#[test]
fn a_model_may_say_how_many_axes_an_input_has() {
    let net = || {
        Net::new(18)
            .unranked_input("x", DType::F32)
            .constant("w", &tensor(&[2, 3, 1, 1]))
            .node("Relu", &["x"], &["y"], &[])
            .node("Conv", &["y", "w"], &["o"], &[])
            .output("o")
    };
    let compilation = compiled(net());
    assert!(compilation.report.on_host.is_empty() && compilation.report.unranked.is_empty());
    assert_eq!(compilation.report.taken_ranks, [("x".to_owned(), 4)]);
    assert_eq!(session(&compilation).entry().inputs[0].shape.len(), 4);
    let limited = CompileOptions { dims: vec![("x[0]".to_owned(), DimChoice::Fixed(2))], ..CompileOptions::default() };
    let compilation = net().compile(&limited).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(session(&compilation).entry().inputs[0].shape[0].as_const(), Some(2));
    let special = CompileOptions { specialize: vec![("x[0]".to_owned(), vec![1])], ..CompileOptions::default() };
    let compilation = net().compile(&special).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(compilation.report.special_cases.len(), 1);
    let unknown = CompileOptions { dims: vec![("x[7]".to_owned(), DimChoice::Fixed(2))], ..CompileOptions::default() };
    assert_eq!(net().compile(&unknown).expect_err("no such axis").code(), "dim::unknown-name");
}

#[test]
fn branches_differ_in_rank() {
    let sum = Net::new(18).node("ReduceSum", &["y"], &["t"], &[("keepdims", Attr::Int(0))]).output("t").graph();
    let square = Net::new(18).node("Mul", &["y", "y"], &["e"], &[]).output("e").graph();
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "2"])
        .constant("limit", &Tensor::scalar(3.0f32))
        .node("Abs", &["x"], &["y"], &[])
        .node("ReduceMax", &["y"], &["most"], &[("keepdims", Attr::Int(0))])
        .node("Greater", &["most", "limit"], &["large"], &[])
        .node("If", &["large"], &["i"], &[("then_branch", Attr::Graph(&sum)), ("else_branch", Attr::Graph(&square))])
        .node("Neg", &["i"], &["o"], &[])
        .output("o");
    let mut session = net.session();
    let small = tensor(&[2, 2]);
    assert_eq!(run(&mut session, &[&small]), mapped(&small, &[2, 2], |x| -x * x));
    let large = tensor(&[4, 2]);
    let total: f32 = large.elements::<f32>().expect("floats").iter().map(|x| x.abs()).sum();
    assert_eq!(run(&mut session, &[&large]), Tensor::scalar(-total));
}

/// Whoever evaluates a loop does not mind that its state has an axis more after each step.
#[test]
fn a_state_gains_an_axis_in_each_step() {
    let scalar = |name: &str, dtype| port(name, dtype, Vec::new());
    let mut body = Net::new(18)
        .constant("first", &list(&[0]))
        .node("Identity", &["goes_on"], &["still"], &[])
        .node("Unsqueeze", &["before", "first"], &["after"], &[])
        .output("still")
        .output("after")
        .graph();
    let before = ValueInfoProto { name: Some("before".to_owned()), ..ValueInfoProto::default() };
    body.input = vec![scalar("step", DType::I64), scalar("goes_on", DType::Bool), before];
    let of = |net: Net| {
        net.input("count", DType::I64, &[])
            .node("Loop", &["count", "", "x"], &["l"], &[("body", Attr::Graph(&body))])
            .node("Neg", &["l"], &["o"], &[])
            .output("o")
            .session()
    };
    let x = tensor(&[2, 3]);
    for mut session in [
        of(Net::new(18).unranked_input("x", DType::F32)),
        of(Net::new(18).input("x", DType::F32, &["N", "3"])),
        of(Net::new(18).input("x", DType::F32, &["N", "M"])),
    ] {
        for count in 0..4 {
            let shape = [vec![1; count], vec![2, 3]].concat();
            assert_eq!(run(&mut session, &[&x, &Tensor::scalar(count as i64)]), mapped(&x, &shape, |x| -x));
        }
    }
}

/// Slices of any number of axes, which are forwarded or computed with.
#[test]
fn steps_of_any_rank() {
    let bare = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    for (op, f) in [("Identity", (|x| x) as fn(f32) -> f32), ("Neg", |x| -x)] {
        let mut body = Net::new(18).node(op, &["slice"], &["part"], &[]).output("part").graph();
        body.input = vec![bare("slice")];
        let attrs = [("body", Attr::Graph(&body)), ("num_scan_inputs", Attr::Int(1))];
        let net = Net::new(18).unranked_input("x", DType::F32).node("Scan", &["x"], &["o"], &attrs).output("o");
        let mut session = net.session();
        for shape in [&[3][..], &[2, 3], &[4, 1, 2]] {
            let x = tensor(shape);
            assert_eq!(run(&mut session, &[&x]), mapped(&x, shape, f));
        }
    }
}

/// The window of a convolution is not known, but that it has as many axes as its input is.
#[test]
fn windows_may_have_any_size() {
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "C", "H", "W"])
        .input("w", DType::F32, &["O", "C", "K", "L"])
        .constant("bias", &tensor(&[1]))
        .node("Conv", &["x", "w", "bias"], &["y"], &[])
        .node("Neg", &["y"], &["o"], &[])
        .output("o");
    let mut session = net.session();
    let one = mapped(&tensor(&[1, 1, 1, 2]), &[1, 1, 1, 2], |_| 1.0);
    let x = tensor(&[1, 1, 2, 3]);
    let expected = Tensor::from_elements(&[1, 1, 2, 2], &[6.5f32, 4.5, 0.5, -1.5]).expect("a tensor");
    assert_eq!(run(&mut session, &[&x, &one]), expected);
}

/// Which axes are squeezed, extents say that are computed.
#[test]
fn extents_that_are_computed_are_squeezed() {
    let net = Net::new(18)
        .input("x", DType::F32, &["3"])
        .node("NonZero", &["x"], &["where"], &[])
        .node("Squeeze", &["where"], &["o"], &[])
        .output("o");
    let mut session = net.session();
    for (x, expected) in
        [([0.0f32, 1.0, 2.0], list(&[1, 2])), ([0.0, 0.0, 2.0], Tensor::scalar(2i64)), ([0.0, 0.0, 0.0], list(&[]))]
    {
        assert_eq!(run(&mut session, &[&Tensor::from_elements(&[3], &x).expect("a vector")]), expected);
    }
}

/// Axes that only the run tells, of a tensor with many, once took minutes to import.
#[test]
fn axes_may_be_computed_of_many() {
    let net = Net::new(18)
        .input("x", DType::F32, &["a", "b", "c", "d", "e", "f"])
        .input("v", DType::F32, &["N"])
        .constant("one", &Tensor::scalar(1i64))
        .constant("back", &list(&[-2, -1]))
        .node("NonZero", &["v"], &["where"], &[])
        .node("Shape", &["where"], &["shape"], &[])
        .node("Gather", &["shape", "one"], &["count"], &[])
        .node("Add", &["count", "back"], &["axes"], &[])
        .node("ReduceMean", &["x", "axes"], &["o"], &[])
        .output("o");
    let mut session = net.session();
    let x = tensor(&[1, 2, 1, 3, 2, 2]);
    let ones = |count: usize| mapped(&tensor(&[count]), &[count], |_| 1.0);
    let of = |groups: usize, shape: &[usize]| {
        let parts = x.elements::<f32>().expect("floats").chunks(24 / groups);
        let means: Vec<f32> = parts.map(|part| part.iter().sum::<f32>() / part.len() as f32).collect();
        Tensor::from_elements(shape, &means).expect("a tensor")
    };
    assert_eq!(run(&mut session, &[&x, &ones(6)]), of(6, &[1, 2, 1, 3, 1, 1]));
    assert_eq!(run(&mut session, &[&x, &ones(2)]), of_first_two(&x));
}

/// The means along the first two axes of `[1, 2, 1, 3, 2, 2]`.
fn of_first_two(x: &Tensor) -> Tensor {
    let x = x.elements::<f32>().expect("floats");
    let means: Vec<f32> = (0..12).map(|n| (x[n] + x[n + 12]) / 2.0).collect();
    Tensor::from_elements(&[1, 1, 1, 3, 2, 2], &means).expect("a tensor")
}

/// What has any number of axes in general, and a known one where a list's length is: that is no case of the other.
#[test]
fn cases_have_as_many_axes_as_the_model() {
    let net = || {
        Net::new(18)
            .input("s", DType::I64, &["N"])
            .input("x", DType::F32, &["N", "3"])
            .node("ConstantOfShape", &["s"], &["y"], &[])
            .node("Squeeze", &["x"], &["z"], &[])
            .output("y")
            .output("z")
    };
    // `Squeeze` would have a case for one row.
    assert!(compiled(net()).special_plans.is_empty());
    let mut session = net().session();
    let y = session.run_owned(&[&list(&[2, 3]), &tensor(&[2, 3])]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((y[0].shape(), y[1].shape()), (&[2, 3][..], &[2, 3][..]));
    let asked = CompileOptions { specialize: vec![("N".to_owned(), vec![1])], ..CompileOptions::default() };
    let error = net().compile(&asked).expect_err("it is told");
    assert_eq!(error.code(), "compile::bad-special-case");
    assert!(error.to_string().contains("output `y`"), "{error}");
}
