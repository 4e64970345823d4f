//! Shapes that follow from the values of inputs, all the way to machine code: one artifact for all of them, and errors
//! for values that make no sense.

mod branches;
mod filters;
mod loops;
mod net;
mod unranked;

use infc::CompileOptions;
use infc_runtime::{RunOptions, RuntimeError, Tensor};
use infc_tensor::{AlignedBytes, DType};
use net::{Attr, Net};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

fn counting(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product()).map(|n| n as f32).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

fn truth(holds: bool) -> Tensor {
    Tensor::from_bytes(DType::Bool, Vec::new(), AlignedBytes::from_slice(&[u8::from(holds)])).expect("a truth")
}

/// A model of one node over a `[N, 6]` of floats and vectors of integers, and integers that it takes.
fn nodes() -> Vec<(&'static str, Net, Vec<Tensor>)> {
    let x = || Net::new(18).input("x", DType::F32, &["N", "6"]);
    let vector = |net: Net, name: &str, len: usize| net.input(name, DType::I64, &[&len.to_string()]);
    let with = |lens: &[usize]| lens.iter().enumerate().fold(x(), |net, (n, &len)| vector(net, &format!("i{n}"), len));
    let one = |op: &'static str, lens: &[usize], attrs: &[(&str, Attr)]| {
        let names: Vec<String> = (0..lens.len()).map(|n| format!("i{n}")).collect();
        let inputs: Vec<&str> = std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
        with(lens).node(op, &inputs, &["y"], attrs).output("y")
    };
    let case = |op: &'static str, data: &[&[i64]], attrs: &[(&str, Attr)]| {
        let lens: Vec<usize> = data.iter().map(|d| d.len()).collect();
        (op, one(op, &lens, attrs), data.iter().map(|d| ints(d)).collect())
    };
    vec![
        case("Reshape", &[&[3, -1]], &[]),
        case("Expand", &[&[3, 1, 6]], &[]),
        case("Tile", &[&[2, 1]], &[]),
        case("Pad", &[&[1, 0, -1, 2]], &[]),
        case("Pad", &[&[1, 0, 0, 2]], &[("mode", Attr::Text("reflect"))]),
        case("Pad", &[&[1, 0, -1, 2]], &[("mode", Attr::Text("wrap"))]),
        case("Slice", &[&[1], &[5], &[-1], &[2]], &[]),
        case("ReduceSum", &[&[1]], &[]),
        case("ReduceMean", &[&[0, -1]], &[("keepdims", Attr::Int(0))]),
        case("CumSum", &[&[1]], &[]),
        case("Unsqueeze", &[&[2, 0]], &[]),
        case("CenterCropPad", &[&[2, 9]], &[]),
        ("TopK", vector(x(), "i0", 1).node("TopK", &["x", "i0"], &["y", "at"], &[]).output("y"), vec![ints(&[2])]),
        ("Split", halves(), vec![ints(&[2, 4])]),
        (
            "Resize",
            vector(x(), "i0", 2).node("Resize", &["x", "", "", "i0"], &["y"], &[]).output("y"),
            vec![ints(&[4, 3])],
        ),
        ("Trilu", scalar(x(), "Trilu", &["x", "i0"]), vec![Tensor::scalar(1i64)]),
        ("OneHot", scalar(classes(x()), "OneHot", &["c", "i0", "v"]), vec![Tensor::scalar(4i64)]),
        ("HannWindow", scalar(x(), "HannWindow", &["i0"]), vec![Tensor::scalar(5i64)]),
        ("Range", ranges(), [1i64, 9, 3].map(Tensor::scalar).to_vec()),
        ("ConstantOfShape", filled(), vec![ints(&[2, 3])]),
    ]
}

/// One node that takes a number.
fn scalar(net: Net, op: &str, inputs: &[&str]) -> Net {
    net.input("i0", DType::I64, &[]).node(op, inputs, &["y"], &[]).output("y")
}

fn classes(net: Net) -> Net {
    let values = Tensor::from_elements(&[2], &[0.0f32, 1.0]).expect("two");
    net.constant("c", &ints(&[0, 3, -1])).constant("v", &values)
}

fn halves() -> Net {
    let net = Net::new(18).input("x", DType::F32, &["N", "6"]).input("i0", DType::I64, &["2"]);
    net.node("Split", &["x", "i0"], &["y", "rest"], &[("axis", Attr::Int(1))]).output("y").output("rest")
}

fn ranges() -> Net {
    let ends = ["i0", "i1", "i2"];
    let net =
        ends.iter().fold(Net::new(18).input("x", DType::F32, &["N", "6"]), |net, end| net.input(end, DType::I64, &[]));
    net.node("Range", &ends, &["y"], &[]).output("y")
}

fn filled() -> Net {
    let net = Net::new(18).input("x", DType::F32, &["N", "6"]).input("i0", DType::I64, &["2"]);
    net.node("ConstantOfShape", &["i0"], &["y"], &[]).output("y")
}

#[test]
fn values_that_make_no_sense_are_refused() {
    const EXTREMES: [i64; 8] = [i64::MIN, i64::MAX, -1, 0, 1 << 33, 1 << 41, (1 << 62) + 1, -(1 << 33)];
    const CODES: [&str; 3] = ["runtime::value-out-of-range", "runtime::assumption-failed", "runtime::out-of-memory"];
    for (op, net, numbers) in nodes() {
        let mut session = net.session();
        let mut run = |rows: usize, numbers: &[Tensor]| {
            let x = counting(&[rows, 6]);
            let inputs: Vec<&Tensor> = std::iter::once(&x).chain(numbers).collect();
            session.run_owned(&inputs)
        };
        let first = run(3, &numbers).unwrap_or_else(|e| panic!("{op}: {e}"));
        let mut refused = 0;
        for n in 0..numbers.len() {
            for (at, extreme) in (0..numbers[n].len_elems()).flat_map(|at| EXTREMES.map(|e| (at, e))) {
                let mut numbers = numbers.clone();
                numbers[n].elements_mut::<i64>().expect("integers")[at] = extreme;
                for rows in [0, 1, 3] {
                    if let Err(error) = run(rows, &numbers) {
                        assert!(CODES.contains(&error.code()), "{op} of {rows} rows with {extreme}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        // A diagonal may be as far away as there are numbers.
        assert!(refused > 0 || op == "Trilu", "{op} takes everything");
        // A run that fails leaves the session usable.
        assert_eq!(run(3, &numbers).expect("as before"), first, "{op}");
    }
}

#[test]
fn one_artifact_takes_every_target_shape() {
    let net = Net::new(18).input("x", DType::F32, &["N", "6"]).input("shape", DType::I64, &["2"]);
    let mut session = net.node("Reshape", &["x", "shape"], &["y"], &[]).output("y").session();
    let x = counting(&[4, 6]);
    for (shape, expected) in [([3, 8], [3, 8]), ([-1, 2], [12, 2]), ([0, -1], [4, 6]), ([24, 1], [24, 1])] {
        let y = session.run_owned(&[&x, &ints(&shape)]).expect("it fits").swap_remove(0);
        assert_eq!(y.shape(), expected);
        assert_eq!(y.elements::<f32>().expect("floats"), x.elements::<f32>().expect("floats"));
    }
    for shape in [[5, 5], [-1, -1], [-1, 5], [-2, -12]] {
        assert!(session.run_owned(&[&x, &ints(&shape)]).is_err(), "{shape:?}");
    }
}

#[test]
fn shapes_are_asked_for_with_the_inputs() {
    let net = Net::new(18).input("x", DType::F32, &["N", "6"]).input("shape", DType::I64, &["2"]);
    let mut session = net.node("Reshape", &["x", "shape"], &["y"], &[]).output("y").session();
    let error = session.output_shapes(&[&[4, 6], &[2]]).expect_err("shapes alone do not tell");
    assert!(matches!(error, RuntimeError::ValueNeeded { .. }), "{error}");
    let (x, shape) = (counting(&[4, 6]), ints(&[8, 3]));
    let views = [&x, &shape].map(|t| infc_runtime::TensorView::try_from(t).expect("a view"));
    assert_eq!(session.output_shapes_for(&views).expect("they do"), [[8, 3]]);
    // Elements of inputs that are not dense.
    let strided = [9i64, 24, 9, 1];
    let bytes: Vec<u8> = strided.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = infc_runtime::TensorView::strided(DType::I64, &[2], &[2], 1, &bytes).expect("a view");
    assert_eq!(session.output_shapes_for(&[views[0], shape]).expect("they do"), [[24, 1]]);
}

/// "To the end", as exporters write it, may be a number of the run.
#[test]
fn positions_of_slices_may_be_far_away() {
    const FAR: i64 = i64::MAX;
    let parts = ["starts", "ends", "axes", "steps"];
    let net = Net::new(18).input("x", DType::F32, &["N", "6"]);
    let net = parts.iter().fold(net, |net, part| net.input(part, DType::I64, &["1"]));
    let inputs = ["x", "starts", "ends", "axes", "steps"];
    let mut session = net.node("Slice", &inputs, &["y"], &[]).output("y").session();
    let x = counting(&[1, 6]);
    let cases: [([i64; 3], &[f32]); 8] = [
        ([1, FAR, 1], &[1.0, 2.0, 3.0, 4.0, 5.0]),
        ([i64::MIN, FAR, 2], &[0.0, 2.0, 4.0]),
        ([FAR, i64::MIN, -1], &[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]),
        ([3, i64::MIN, -2], &[3.0, 1.0]),
        ([FAR, FAR, 1], &[]),
        ([i64::MIN, i64::MIN, 1], &[]),
        ([2, FAR, FAR], &[2.0]),
        ([4, i64::MIN, i64::MIN], &[4.0]),
    ];
    for ([start, end, step], expected) in cases {
        let y = session.run_owned(&[&x, &ints(&[start]), &ints(&[end]), &ints(&[1]), &ints(&[step])]);
        let y = y.unwrap_or_else(|e| panic!("{start} to {end} by {step}: {e}")).swap_remove(0);
        assert_eq!(y.elements::<f32>().expect("floats"), expected, "{start} to {end} by {step}");
    }
}

/// Axes that turn out to have one element at most, or none, are lanes of vectors as others are.
#[test]
fn slices_of_single_elements_may_be_empty() {
    const FAR: i64 = i64::MAX;
    let net = Net::new(18).input("x", DType::F32, &["1", "2", "1", "3"]).input("starts", DType::I64, &["4"]);
    let net = net.constant("ends", &ints(&[-1, FAR, 1, 1])).constant("axes", &ints(&[3, 1, 2, 0]));
    let mut session = net.node("Slice", &["x", "starts", "ends", "axes"], &["y"], &[]).output("y").session();
    let x = counting(&[1, 2, 1, 3]);
    let cases: [([i64; 4], [usize; 4], &[f32]); 5] = [
        ([0, 0, 0, 0], [1, 2, 1, 2], &[0.0, 1.0, 3.0, 4.0]),
        ([1, 1, 0, -1], [1, 1, 1, 1], &[4.0]),
        ([2, 1, 0, 0], [1, 1, 1, 0], &[]),
        ([0, 0, 1, 0], [1, 2, 0, 2], &[]),
        ([0, 0, 1, 1], [0, 2, 0, 2], &[]),
    ];
    for (starts, shape, expected) in cases {
        let y = session.run_owned(&[&x, &ints(&starts)]).unwrap_or_else(|e| panic!("{starts:?}: {e}")).swap_remove(0);
        assert_eq!((y.shape(), y.elements::<f32>().expect("floats")), (&shape[..], expected), "{starts:?}");
    }
}

/// Axes of the run make a choice of every extent; products of five of them stay short.
#[test]
fn many_axes_may_be_told_by_the_run() {
    let net =
        |last: &str| Net::new(18).input("x", DType::F32, &["2", "3", "2", "3", last]).input("axes", DType::I64, &["3"]);
    let attrs = [("keepdims", Attr::Int(0))];
    let mut sessions =
        ["N", "2"].map(|last| net(last).node("ReduceSum", &["x", "axes"], &["y"], &attrs).output("y").session());
    let shape = [2, 3, 2, 3, 2];
    let x = counting(&shape);
    let elements = x.elements::<f32>().expect("floats");
    for axes in [[0, 1, 2], [-1, 0, 2], [4, 3, -4]] {
        let folded = axes.map(|axis: i64| axis.rem_euclid(5) as usize);
        let kept: Vec<usize> = (0..5).filter(|axis| !folded.contains(axis)).collect();
        let mut expected = vec![0.0; kept.iter().map(|&axis| shape[axis]).product()];
        for (n, element) in elements.iter().enumerate() {
            let coordinate = |axis: usize| n / shape[axis + 1..].iter().product::<usize>() % shape[axis];
            expected[coordinate(kept[0]) * shape[kept[1]] + coordinate(kept[1])] += element;
        }
        for session in &mut sessions {
            let y = session.run_owned(&[&x, &ints(&axes)]).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
            assert_eq!(y.shape(), [shape[kept[0]], shape[kept[1]]]);
            assert_eq!(y.elements::<f32>().expect("floats"), expected);
        }
    }
}

/// The steps of a network lie in a whole whose extents are only known later than the network's own.
#[test]
fn steps_lie_in_what_the_run_tells_the_size_of() {
    let one = Tensor::from_elements(&[1, 1, 1], &[0.5f32]).expect("one");
    let net = Net::new(18).input("x", DType::F32, &["2", "1", "1"]).input("k", DType::I64, &["1"]);
    let net = net.constant("w", &one).constant("r", &one).constant("axes", &ints(&[1, 2]));
    let net = net.node("RNN", &["x", "w", "r"], &["h"], &[("hidden_size", Attr::Int(1))]);
    let net = net.node("Squeeze", &["h", "axes"], &["s"], &[]).node("TopK", &["s", "k"], &["t", "at"], &[]);
    let mut session = net.node("Concat", &["t", "s"], &["y"], &[("axis", Attr::Int(0))]).output("y").session();
    let y = session.run_owned(&[&counting(&[2, 1, 1]), &ints(&[1])]).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
    let found = y.elements::<f32>().expect("floats");
    assert_eq!((y.shape(), &found[..2]), (&[4, 1][..], &found[2..]));
    assert!((found[1] - 0.5f32.tanh()).abs() < 1e-6, "{found:?}");
}

/// The steps of a network lie behind rows that data tells the number of, which is taken to be what they meet. The network
/// behind that knows it, too.
#[test]
fn steps_lie_behind_what_data_tells_the_size_of() {
    let one = Tensor::from_elements(&[1, 1, 1], &[0.5f32]).expect("one");
    let net = Net::new(18).input("x", DType::F32, &["2", "1", "1"]).input("m", DType::Bool, &["4"]);
    let net = net.input("c", DType::F32, &["4", "1"]).constant("b", &counting(&[2, 1]));
    let net = net.constant("w", &one).constant("r", &one).constant("axes", &ints(&[1, 2]));
    let recurrence = |net: Net, h: &str, s: &str| {
        let net = net.node("RNN", &["x", "w", "r"], &[h], &[("hidden_size", Attr::Int(1))]);
        net.node("Squeeze", &[h, "axes"], &[s], &[])
    };
    let net = recurrence(net, "h", "s").node("Compress", &["c", "m"], &["z"], &[("axis", Attr::Int(0))]);
    let net = recurrence(net.node("Add", &["z", "b"], &["q"], &[]), "h2", "s2");
    let net = net.node("Concat", &["z", "s"], &["y"], &[("axis", Attr::Int(0))]).node("Neg", &["s2"], &["n"], &[]);
    let mut session = net.output("y").output("q").output("n").session();
    let m = Tensor::from_bools(&[4], &[false, true, false, true]).expect("four");
    let found = session.run_owned(&[&counting(&[2, 1, 1]), &m, &counting(&[4, 1])]).unwrap_or_else(|e| panic!("{e}"));
    let [y, q, n] = [0, 1, 2].map(|at| found[at].elements::<f32>().expect("floats").to_vec());
    assert_eq!((&y[..2], &q[..]), (&[1.0, 3.0][..], &[1.0, 4.0][..]));
    assert_eq!(y[2..].iter().map(|x| -x).collect::<Vec<_>>(), n);
    assert!((y[3] - 0.5f32.tanh()).abs() < 1e-6, "{y:?}");
}

/// What a part is taken to be as wide as may be a number, though its own width is an expression: here there is nothing.
#[test]
fn parts_are_as_wide_as_the_whole() {
    for parts in [["none", "part"], ["part", "none"]] {
        let net = Net::new(20).input("x", DType::Bool, &["6", "1"]).input("none", DType::Bool, &["6", "0"]);
        let net =
            net.input("axes", DType::I64, &["1"]).input("steps", DType::I64, &["1"]).constant("zero", &ints(&[0]));
        let net = net.node("Slice", &["x", "zero", "zero", "axes", "steps"], &["part"], &[]);
        let mut session = net.node("Concat", &parts, &["y"], &[("axis", Attr::Int(0))]).output("y").session();
        let bools = |shape: &[usize]| Tensor::from_bools(shape, &vec![true; shape.iter().product()]).expect("as many");
        let mut run = |axis| session.run_owned(&[&bools(&[6, 1]), &bools(&[6, 0]), &ints(&[axis]), &ints(&[1])]);
        assert_eq!(run(1).unwrap_or_else(|e| panic!("{e}"))[0].shape(), [12, 0]);
        assert!(run(0).is_err(), "one column beside none");
    }
}

/// A size that follows from the number of windows is out of range where none fits, but it is the window that is to blame.
#[test]
fn windows_that_do_not_fit_are_told_as_such() {
    let image = || Net::new(18).input("x", DType::F32, &["1", "1", "N"]).input("i0", DType::I64, &["3"]);
    let weights = counting(&[1, 1, 2]);
    for net in [
        image().node("MaxPool", &["x"], &["p"], &[("kernel_shape", Attr::Ints(&[4]))]),
        image().constant("w", &weights).node("ConvTranspose", &["x", "w"], &["p"], &[("pads", Attr::Ints(&[2, 2]))]),
    ] {
        let mut session = net.node("Reshape", &["p", "i0"], &["y"], &[]).output("y").session();
        let mut run = |extent: usize| session.run_owned(&[&counting(&[1, 1, extent]), &ints(&[1, -1, 1])]);
        assert_eq!(run(7).expect("it fits")[0].shape(), [1, 4, 1]);
        let error = run(1).expect_err("it does not");
        assert_eq!(error.code(), "runtime::assumption-failed", "{error}");
        assert_eq!(run(5).expect("as before")[0].shape(), [1, 2, 1]);
    }
}

/// `x` doubled as long as `go`, which no step changes: without end, on the host.
fn endless(has_nodes: bool) -> Net {
    let body = Net::new(18).input("step", DType::I64, &[]).input("on", DType::Bool, &[]).input("s", DType::F32, &["2"]);
    let body = if has_nodes {
        let body = body.node("Identity", &["on"], &["again"], &[]).node("Add", &["s", "s"], &["next"], &[]);
        body.output("again").output("next")
    } else {
        body.output("on").output("s")
    };
    Net::new(18)
        .input("x", DType::F32, &["2"])
        .input("go", DType::Bool, &[])
        .node("Loop", &["", "go", "x"], &["y"], &[("body", Attr::Graph(&body.graph()))])
        .output("y")
}

#[test]
fn a_loop_without_end_ends_with_the_run() {
    let x = Tensor::from_elements(&[2], &[1.0f32, 2.0]).expect("two elements");
    for has_nodes in [true, false] {
        let mut session = endless(has_nodes).session();
        let deadline = Some(Instant::now() + Duration::from_millis(20));
        let options = RunOptions { deadline, ..RunOptions::default() };
        let error = session.run_owned_with(&[&x, &truth(true)], &options).expect_err("the deadline passes");
        assert_eq!(error.code(), "runtime::deadline-exceeded", "{error}");

        let cancel = AtomicBool::new(false);
        let options = RunOptions { cancel: Some(&cancel), ..RunOptions::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                cancel.store(true, Ordering::Relaxed);
            });
            let error = session.run_owned_with(&[&x, &truth(true)], &options).expect_err("it is cancelled");
            assert_eq!(error.code(), "runtime::cancelled", "{error}");
        });
        // The session goes on.
        assert_eq!(session.run_owned(&[&x, &truth(false)]).expect("no step"), std::slice::from_ref(&x));
    }
}

/// As many as are taken of one are at most one, and so cannot be as many as what has at least two.
#[test]
fn what_has_at_most_one_repeats() {
    let x = Net::new(18).input("x", DType::F32, &["3", "2"]).input("z", DType::F32, &["1", "1"]);
    let net = x.input("k", DType::I64, &["1"]).input("l", DType::I64, &["1"]);
    let net = net.constant("pads", &ints(&[0, 2, 0, 0])).node("TopK", &["x", "k"], &["t", "at"], &[]);
    let net = net.node("Pad", &["t", "pads"], &["p"], &[]).node("TopK", &["z", "l"], &["u", "there"], &[]);
    let mut session = net.node("Add", &["p", "u"], &["y"], &[]).output("y").session();
    let z = Tensor::from_elements(&[1, 1], &[10.0f32]).expect("one");
    for k in [0i64, 1, 2] {
        let inputs = [counting(&[3, 2]), z.clone(), ints(&[k]), ints(&[1])];
        let y = session.run_owned(&inputs.each_ref()).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
        let found: Vec<f64> = (0..y.len_elems()).map(|n| y.get_f64(n).expect("a number")).collect();
        let row = |n: i64| {
            let largest = [2 * n + 1, 2 * n].map(|v| v as f64 + 10.0);
            [10.0, 10.0].into_iter().chain(largest.into_iter().take(k as usize)).collect::<Vec<f64>>()
        };
        assert_eq!((y.shape(), found), (&[3, 2 + k as usize][..], (0..3).flat_map(row).collect()), "{k} taken");
    }
}

/// Where a constant is read from may be a number of the run, so that it cannot lie in panels.
#[test]
fn constants_that_begin_where_the_run_says() {
    let weight = |k: usize, n: usize| ((k * 24 + n) % 11) as f32 - 5.0;
    let w: Vec<f32> = (0..40 * 24).map(|at| weight(at / 24, at % 24)).collect();
    let net = Net::new(18).input("x", DType::F32, &["3", "8"]).input("start", DType::I64, &["1"]);
    let net = net.constant("w", &Tensor::from_elements(&[40, 24], &w).expect("all")).constant("eight", &ints(&[8]));
    let net = net.node("Add", &["start", "eight"], &["end"], &[]).node("Slice", &["w", "start", "end"], &["part"], &[]);
    let mut session = net.node("MatMul", &["x", "part"], &["y"], &[]).output("y").session();
    for start in [0, 5, 32] {
        let x = counting(&[3, 8]);
        let y = session.run_owned(&[&x, &ints(&[start])]).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
        let at = |m: usize, n: usize| (0..8).map(|k| (m * 8 + k) as f32 * weight(start as usize + k, n)).sum::<f32>();
        let expected: Vec<f32> = (0..3 * 24).map(|n| at(n / 24, n % 24)).collect();
        assert_eq!(y, Tensor::from_elements(&[3, 24], &expected).expect("all"), "from {start} on");
    }
}

/// Two sizes that meet are equal, or one is 1, and a run that has them otherwise is told so: not that one is beyond what the
/// other may be.
#[test]
fn sizes_that_meet_and_differ_are_told_as_such() {
    // One is known only behind a step of the host.
    let late = Net::new(18).input("c", DType::Bool, &["2"]).input("n", DType::I64, &[]);
    let late = late.constant("zero", &Tensor::scalar(0i64)).constant("one", &Tensor::scalar(1i64));
    let late = late.node("Compress", &["c", "c"], &["some"], &[]);
    let late = late.node("Range", &["zero", "n", "one"], &["r"], &[]);
    let late = late.node("Where", &["some", "r", "zero"], &["y"], &[]).output("y");
    let c = Tensor::from_bools(&[2], &[true, true]).expect("two");
    // Both are known from the start, one of them is reduced along axes of the run.
    let early = Net::new(18).input("a", DType::F32, &["5", "3"]).input("axes", DType::I64, &["1"]);
    let early = early.input("b", DType::F32, &["4", "3"]).input("pads", DType::I64, &["4"]);
    let early = early.node("ReduceSum", &["a", "axes"], &["s"], &[("keepdims", Attr::Int(1))]);
    let early = early.node("Pad", &["b", "pads"], &["p"], &[]).node("Add", &["p", "s"], &["y"], &[]).output("y");
    let early_inputs = vec![counting(&[5, 3]), ints(&[1]), counting(&[4, 3]), ints(&[1, 0, 2, 0])];
    for (net, inputs, fits) in
        [(late, vec![c, Tensor::scalar(5i64)], Tensor::scalar(2i64)), (early, early_inputs, ints(&[0, 0, 1, -2]))]
    {
        let mut session = net.session();
        let mut run = |inputs: &[Tensor]| session.run_owned(&inputs.iter().collect::<Vec<_>>());
        let error = run(&inputs).expect_err("they differ");
        assert_eq!(error.code(), "runtime::assumption-failed", "{error}");
        assert!(error.to_string().contains("node `y`: broadcast extents"), "{error}");
        let mut inputs = inputs;
        *inputs.last_mut().expect("a size") = fits;
        run(&inputs).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The lengths of what is written at once.
#[derive(Default)]
struct Calls(Vec<usize>);

impl std::io::Write for Calls {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Of a table of which a run looks up rows, not all becomes resident: it is written in small pieces, unless something else reads it.
#[test]
fn tables_are_written_in_pieces() {
    let table = counting(&[4000, 32]);
    let weights = counting(&[32, 3000]);
    let net = || {
        let net = Net::new(18).input("i", DType::I64, &["N"]).constant("t", &table).constant("w", &weights);
        net.node("Gather", &["t", "i"], &["rows"], &[]).node("MatMul", &["rows", "w"], &["y"], &[]).output("y")
    };
    let written = |net: Net| {
        let compilation = net.compile(&CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut calls = Calls::default();
        compilation.write_to(&mut calls).expect("nothing fails");
        calls.0
    };
    let (table_bytes, weight_bytes) = (4000 * 32 * 4, 32 * 3008 * 4);
    let calls = written(net());
    assert!(calls.contains(&weight_bytes) && !calls.contains(&table_bytes), "{calls:?}");
    assert!(calls.iter().filter(|&&len| len == 1 << 16).count() >= table_bytes >> 16, "{calls:?}");
    let calls =
        written(net().node("ReduceSum", &["t"], &["all"], &[]).node("Add", &["y", "all"], &["z"], &[]).output("z"));
    // A constant's sum is folded, so that this reads the table itself.
    assert!(!calls.contains(&table_bytes), "{calls:?}");
    let turned = net().input("v", DType::F32, &["32"]).node("MatMul", &["t", "v"], &["all"], &[]).output("all");
    let calls = written(turned);
    assert!(calls.contains(&table_bytes), "{calls:?}");
}

fn scaled_to_six_by_nine() -> Net {
    let net = Net::new(13).input("x", DType::F32, &["1", "3", "H", "W"]);
    let net = net.constant("from", &ints(&[2])).constant("to", &ints(&[4]));
    let net = net.constant("target", &Tensor::from_elements(&[2], &[6.0f32, 9.0]).expect("two"));
    let net = net.constant("ones", &Tensor::from_elements(&[2], &[1.0f32, 1.0]).expect("two"));
    let net = net.node("Shape", &["x"], &["shape"], &[]).node("Slice", &["shape", "from", "to"], &["size"], &[]);
    let net = net.node("Cast", &["size"], &["floats"], &[("to", Attr::Int(1))]);
    let net = net.node("Div", &["target", "floats"], &["scale"], &[]);
    let net = net.node("Concat", &["ones", "scale"], &["scales"], &[("axis", Attr::Int(0))]);
    let attrs = [("mode", Attr::Text("nearest")), ("coordinate_transformation_mode", Attr::Text("asymmetric"))];
    net.node("Resize", &["x", "", "scales"], &["y"], &attrs).output("y")
}

/// Scales that follow from extents, as other frameworks' exporters write them: the channels stay a number, nothing of the
/// result is computed on the host, and one artifact takes all sizes.
#[test]
fn scales_may_follow_from_extents() {
    let deny = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
    let report = scaled_to_six_by_nine().compile(&deny).unwrap_or_else(|e| panic!("{e}")).report;
    assert!(report.on_host.is_empty() && report.told_sizes.len() == 1, "{:?}", report.told_sizes);
    let mut session = scaled_to_six_by_nine().session();
    assert_eq!(session.entry().outputs[0].shape[1].as_const(), Some(3));
    for (height, width) in [(3, 3), (2, 9), (12, 4), (1, 1)] {
        let x = counting(&[1, 3, height, width]);
        let y = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{height}×{width}: {e}")).swap_remove(0);
        let (rows, columns) = ((height as f32 * (6.0 / height as f32)), (width as f32 * (9.0 / width as f32)));
        let (rows, columns) = (rows.floor() as usize, columns.floor() as usize);
        assert_eq!(y.shape(), [1, 3, rows, columns]);
        let place = |at: usize, extent: usize, size: f32| {
            // `round_prefer_floor`
            let at = at as f32 / (size / extent as f32);
            ((at - 0.5).ceil().max(0.0) as usize).min(extent - 1)
        };
        let expected: Vec<f32> = (0..3 * rows * columns)
            .map(|n| {
                let (channel, row, column) = (n / (rows * columns), n / columns % rows, n % columns);
                ((channel * height + place(row, height, 6.0)) * width + place(column, width, 9.0)) as f32
            })
            .collect();
        assert_eq!(y.elements::<f32>().expect("floats"), expected, "{height}×{width}");
    }
}

/// What is no scale, or too much, is an ordinary error, and where a scale is 1 nothing changes, whatever the numbers are.
#[test]
fn scales_that_make_no_sense_are_refused() {
    let net = Net::new(13).input("x", DType::F32, &["N", "4"]).input("scales", DType::F32, &["2"]);
    let net = net.node("Resize", &["x", "", "scales"], &["y"], &[("mode", Attr::Text("linear"))]);
    let mut session = net.output("y").session();
    let mut run = |x: &Tensor, scales: [f32; 2]| {
        let scales = Tensor::from_elements(&[2], &scales).expect("two");
        session.run_owned(&[x, &scales]).map(|mut outputs| outputs.swap_remove(0))
    };
    let mut x = counting(&[2, 4]);
    x.elements_mut::<f32>().expect("floats")[1] = f32::INFINITY;
    assert_eq!(run(&x, [1.0, 1.0]).expect("as it is"), x);
    for bad in [f32::NAN, -1.0, 0.0, f32::NEG_INFINITY, f32::INFINITY, 1e30] {
        for scales in [[1.0, bad], [bad, 1.0], [bad, bad]] {
            let error = run(&x, scales).expect_err("no scale");
            assert_eq!(error.code(), "runtime::dim-out-of-range", "{scales:?}: {error}");
        }
    }
    assert_eq!(run(&counting(&[0, 4]), [2.0, 0.5]).expect("nothing of nothing").shape(), [0, 2]);
    assert_eq!(run(&x, [1.0, 1.0]).expect("as it is"), x);
}

/// Counts of floats are refused where they never end, or are no number.
#[test]
fn ranges_that_never_end_are_refused() {
    let ends = ["start", "limit", "delta"];
    let net = ends.iter().fold(Net::new(18), |net, end| net.input(end, DType::F32, &[]));
    let mut session = net.node("Range", &ends, &["y"], &[]).output("y").session();
    let mut run = |ends: [f32; 3]| {
        let ends = ends.map(Tensor::scalar);
        session.run_owned(&ends.each_ref()).map(|mut outputs| outputs.swap_remove(0))
    };
    for ends in [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3e9, 1.0], [0.0, f32::INFINITY, 1.0]] {
        let error = run(ends).expect_err("no end");
        assert_eq!(error.code(), "runtime::dim-out-of-range", "{ends:?}: {error}");
    }
    assert!(run([f32::NAN, 1.0, 1.0]).is_err());
    assert_eq!(run([1.0, 0.0, 1.0]).expect("nothing").shape(), [0]);
    assert_eq!(run([1.0, 0.0, -0.5]).expect("two").elements::<f32>().expect("floats"), [1.0, 0.5]);
}

/// Scales of which each is known while how many there are is not.
#[test]
fn scales_of_a_symbolic_number_are_read() {
    let ones = Tensor::from_elements(&[2], &[1.0f32, 1.0]).expect("two");
    let net =
        Net::new(13).input("x", DType::F32, &["2", "4"]).input("none", DType::F32, &["K"]).constant("ones", &ones);
    let net = net.node("Concat", &["ones", "none"], &["scales"], &[("axis", Attr::Int(0))]);
    let mut session = net.node("Resize", &["x", "", "scales"], &["y"], &[]).output("y").session();
    let (x, none) = (counting(&[2, 4]), Tensor::from_elements::<f32>(&[0], &[]).expect("none"));
    assert_eq!(session.run_owned(&[&x, &none]).unwrap_or_else(|e| panic!("{e}")), std::slice::from_ref(&x));
    assert!(session.run_owned(&[&x, &Tensor::from_elements(&[1], &[1.0f32]).expect("one")]).is_err());
}

/// What an operation of the host reads is kept for it, also where something of its kind and size follows from it.
#[test]
fn what_the_host_reads_is_kept() {
    let net =
        Net::new(17).input("x", DType::F32, &["4"]).node("Abs", &["x"], &["a"], &[]).node("Neg", &["a"], &["n"], &[]);
    let net = net.node("Unique", &["n"], &["u"], &[]).node("Unique", &["a"], &["v"], &[]);
    let mut session = net.output("u").output("v").session();
    let x = Tensor::from_elements(&[4], &[3.0f32, -1.0, 2.0, -3.0]).expect("four");
    let outputs = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outputs[0].elements::<f32>().expect("floats"), [-3.0, -2.0, -1.0]);
    assert_eq!(outputs[1].elements::<f32>().expect("floats"), [1.0, 2.0, 3.0]);
}
