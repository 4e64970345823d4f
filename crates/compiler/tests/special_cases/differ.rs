//! Extents that are broadcast to each other and differ: a run that finds so begins anew, with less taken for granted.

use super::{bytes, case, compiled, floats};
use crate::net::{Attr, Net};
use infc::CompileOptions;
use infc_runtime::{Event, LoadOptions, Model, Observer, SessionOptions, Tensor};
use infc_tensor::DType;
use std::sync::{Arc, Mutex};

/// `(a + b)·a` and what of it is greater than 1, of what is positive in two inputs.
fn positive_ones() -> Net {
    let mut net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .input("y", DType::F32, &["M"])
        .constant("zero", &Tensor::scalar(0.0f32))
        .constant("one", &Tensor::scalar(1.0f32));
    for (x, chosen) in [("x", "a"), ("y", "b")] {
        let is_chosen = format!("{x} is chosen");
        net = net.node("Greater", &[x, "zero"], &[&is_chosen], &[]);
        net = net.node("Compress", &[x, &is_chosen], &[chosen], &[("axis", Attr::Int(0))]);
    }
    net.node("Add", &["a", "b"], &["sum"], &[])
        .node("Mul", &["sum", "a"], &["product"], &[])
        .node("Greater", &["product", "one"], &["is large"], &[])
        .node("Compress", &["product", "is large"], &["large"], &[("axis", Attr::Int(0))])
        .output("product")
        .output("large")
}

/// Extents that a run tells and that are broadcast to each other are taken to be equal; where they are not, the run begins anew.
#[test]
fn extents_that_a_run_tells_may_differ() {
    let compilation = compiled(positive_ones(), &CompileOptions::default());
    let file = bytes(&compilation);
    let values = |count: usize, from: f32| -> Vec<f32> { (0..count).map(|n| from + n as f32 * 0.25).collect() };
    // Before, between and behind what is chosen lies what is not.
    let given = |chosen: &[f32]| {
        let all: Vec<f32> = chosen.iter().flat_map(|&value| [-1.0, value]).chain([-2.0]).collect();
        Tensor::from_elements(&[all.len()], &all).expect("a row")
    };
    for target in infc::DEFAULT_TARGETS {
        let options = LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
        let Ok(model) = Model::from_vec_with(file.clone(), &options) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let less = "extents that differ";
        let counts =
            [(4, 4, ""), (1, 4, less), (4, 1, less), (1, 1, ""), (0, 1, less), (1, 0, less), (0, 0, ""), (35, 1, less)];
        for (left, right, expected) in counts.into_iter().chain([(3, 3, "")]) {
            let (a, b) = (values(left, 0.5), values(right, 0.25));
            let extent = if left == 1 { right } else { left };
            let at = |of: &[f32], n: usize| of[n.min(of.len() - 1)];
            let product: Vec<f32> = (0..extent).map(|n| (at(&a, n) + at(&b, n)) * at(&a, n)).collect();
            let large: Vec<f32> = product.iter().copied().filter(|&value| value > 1.0).collect();
            let found =
                session.run_owned(&[&given(&a), &given(&b)]).unwrap_or_else(|e| panic!("{left} and {right}: {e}"));
            assert_eq!(case(&session, &model), expected, "{target}: {left} and {right}");
            let elements: Vec<_> = found.iter().map(|tensor| tensor.elements::<f32>().expect("floats")).collect();
            assert_eq!(elements, [product, large], "{target}: {left} and {right}");
        }
        // Neither is 1.
        let error = session.run_owned(&[&given(&values(4, 0.5)), &given(&values(3, 0.5))]).expect_err("4 and 3");
        assert_eq!(error.code(), "runtime::assumption-failed", "{error}");
        session.run_owned(&[&given(&values(2, 0.5)), &given(&values(2, 0.5))]).expect("is usable");
    }
}

/// One constant or none of it, beside what is chosen, is as much as both are: 1 beside nothing is nothing. What is spread over a shape
/// asks for as much as what is added.
#[test]
fn one_beside_nothing_is_nothing() {
    let integers = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a list");
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .input("k", DType::I64, &["1"])
        .constant("zero", &Tensor::scalar(0.0f32))
        .constant("seven", &Tensor::from_elements(&[1], &[7.0f32]).expect("one"))
        .constant("first", &integers(&[0]))
        .node("Greater", &["x", "zero"], &["is chosen"], &[])
        .node("Compress", &["x", "is chosen"], &["a"], &[("axis", Attr::Int(0))])
        .node("Slice", &["seven", "first", "k"], &["some"], &[])
        .node("Max", &["a", "some"], &["y"], &[])
        .node("Shape", &["a"], &["count"], &[])
        .node("Expand", &["some", "count"], &["spread"], &[])
        .output("y")
        .output("spread");
    let model = Model::from_vec(bytes(&compiled(net, &CompileOptions::default()))).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    for (chosen, some, expected) in [(3, 1, 3), (1, 0, 0), (0, 1, 0), (0, 0, 0), (1, 1, 1)] {
        let x: Vec<f32> = (0..4).map(|n| if n < chosen { 2.0 } else { -1.0 }).collect();
        let x = Tensor::from_elements(&[4], &x).expect("four");
        let found = session.run_owned(&[&x, &integers(&[some])]).unwrap_or_else(|e| panic!("{chosen} and {some}: {e}"));
        for tensor in &found {
            let found = tensor.elements::<f32>().expect("floats");
            assert_eq!(found, vec![7.0; expected], "{chosen} and {some}");
        }
    }
    let x = Tensor::from_elements(&[3], &[2.0f32; 3]).expect("three");
    session.run_owned(&[&x, &integers(&[0])]).expect_err("three and none");
}

/// The last `n` of a list are all of it where `n` is 0, as −0 counts from the start: a run with none begins anew.
#[test]
fn the_last_none_are_all() {
    let integers = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a list");
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .input("y", DType::F32, &["K"])
        .constant("zero", &Tensor::scalar(0.0f32))
        .constant("end", &integers(&[i64::MAX]))
        .node("Greater", &["y", "zero"], &["is chosen"], &[])
        .node("NonZero", &["is chosen"], &["chosen"], &[])
        .node("Shape", &["chosen"], &["extents"], &[("start", Attr::Int(1))])
        .node("Shape", &["y"], &["extent"], &[]);
    let behind = |net: Net, count: &str, y: &str| {
        let start = format!("{y} begins");
        let net = net.node("Neg", &[count], &[&start], &[]);
        net.node("Slice", &["x", &start, "end"], &[y], &[]).output(y)
    };
    let net = behind(behind(net, "extents", "as many as chosen"), "extent", "as many as there are");
    let model = Model::from_vec(bytes(&compiled(net, &CompileOptions::default()))).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let x = floats(&[6], 1);
    for y in [&[1.0f32, -1.0, 2.0][..], &[-1.0, -1.0], &[], &[3.0; 8], &[1.0]] {
        let given = Tensor::from_elements(&[y.len()], y).expect("a list");
        let found = session.run_owned(&[&x, &given]).unwrap_or_else(|e| panic!("{y:?}: {e}"));
        for (found, n) in found.iter().zip([y.iter().filter(|&&y| y > 0.0).count(), y.len()]) {
            let all = x.elements::<f32>().expect("floats");
            let from = if n == 0 { 0 } else { all.len().saturating_sub(n) };
            assert_eq!(found.elements::<f32>().expect("floats"), &all[from..], "{y:?}");
        }
    }
}

/// The last element of a list is none of an empty one, which is said before anything is read; a position that follows from dims may
/// count from the end.
#[test]
fn an_empty_axis_has_no_last_element() {
    let integers = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a list");
    let net = Net::new(17)
        .input("x", DType::F32, &["N", "M"])
        .constant("last", &integers(&[-1]))
        .constant("two", &integers(&[2]))
        .node("Gather", &["x", "last"], &["column"], &[("axis", Attr::Int(1))])
        .node("Shape", &["x"], &["rows"], &[("end", Attr::Int(1))])
        .node("Sub", &["rows", "two"], &["before"], &[])
        .node("Gather", &["x", "before"], &["row"], &[("axis", Attr::Int(0))])
        .output("column")
        .output("row");
    let file = bytes(&compiled(net, &CompileOptions::default()));
    for target in infc::DEFAULT_TARGETS {
        let options = LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
        let Ok(model) = Model::from_vec_with(file.clone(), &options) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        for empty in [[2, 0], [0, 2], [0, 0]] {
            let error = session.run_owned(&[&floats(&empty, 1)]).expect_err("there is none");
            assert!(error.to_string().contains("must be at least"), "{target}, {empty:?}: {error}");
        }
        // Row −1 of one row, rows 0 and 2 of two and four.
        for (n, row) in [(1, 0), (2, 0), (4, 2)] {
            let x = floats(&[n, 3], 1);
            let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{target}, {n}: {e}"));
            let elements = |tensor: &Tensor| tensor.elements::<f32>().expect("floats").to_vec();
            let x = elements(&x);
            assert_eq!(elements(&found[0]), (0..n).map(|row| x[row * 3 + 2]).collect::<Vec<_>>());
            assert_eq!(elements(&found[1]), x[row * 3..][..3]);
        }
    }
}

/// Extents that meet in turns, of which one is bounded: each may be 1.
#[test]
fn extents_meet_one_after_the_other() {
    let integers = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a list");
    let net = Net::new(17)
        .input("x", DType::F32, &["A"])
        .input("y", DType::F32, &["B"])
        .input("z", DType::F32, &["C"])
        .constant("none", &integers(&[0]))
        .constant("two", &integers(&[2]))
        .node("Slice", &["x", "none", "two"], &["few"], &[])
        .node("Add", &["few", "y"], &["sum"], &[])
        .node("Mul", &["sum", "z"], &["product"], &[])
        .output("product");
    let model = Model::from_vec(bytes(&compiled(net, &CompileOptions::default()))).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    for [x, y, z] in [[3, 2, 2], [1, 4, 4], [1, 1, 5], [3, 1, 1], [2, 2, 1], [1, 3, 1], [0, 1, 1]] {
        let found = session.run_owned(&[&floats(&[x], 1), &floats(&[y], 1), &floats(&[z], 1)]);
        let found = found.unwrap_or_else(|e| panic!("{x}, {y}, {z}: {e}"));
        let extents = [x.min(2), y, z];
        let extent = extents.into_iter().find(|&extent| extent != 1).unwrap_or(1);
        let of = |extent: usize, n: usize| floats(&[extent], 1).elements::<f32>().expect("floats")[n.min(extent - 1)];
        let expected: Vec<f32> =
            (0..extent).map(|n| (of(x, if extents[0] == 1 { 0 } else { n }) + of(y, n)) * of(z, n)).collect();
        assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{x}, {y}, {z}");
    }
}

/// What is taken for granted may bound how many elements data chooses; a run with more begins anew.
#[test]
fn more_may_be_chosen_than_would_fit() {
    let integers = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("a list");
    let net = Net::new(17)
        .input("x", DType::F32, &["3"])
        .input("start", DType::I64, &["1"])
        .constant("zero", &Tensor::scalar(0.0f32))
        .constant("two", &integers(&[2]))
        .node("Greater", &["x", "zero"], &["is chosen"], &[])
        .node("Compress", &["x", "is chosen"], &["a"], &[("axis", Attr::Int(0))])
        .node("Slice", &["a", "start", "two"], &["some"], &[])
        .node("Add", &["a", "some"], &["y"], &[])
        .output("y");
    let model = Model::from_vec(bytes(&compiled(net, &CompileOptions::default()))).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let row = |values: &[f32]| Tensor::from_elements(&[values.len()], values).expect("a row");
    for (x, start, expected) in [
        ([1.0, 2.0, 3.0], 1, vec![3.0, 4.0, 5.0]),
        ([1.0, -2.0, 3.0], 0, vec![2.0, 6.0]),
        ([1.0, 2.0, -3.0], 1, vec![3.0, 4.0]),
    ] {
        let found = session.run_owned(&[&row(&x), &integers(&[start])]).unwrap_or_else(|e| panic!("{x:?}: {e}"));
        assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{x:?} from {start}");
    }
}

/// Batches of matrices, too, without a step on the host.
#[test]
fn batches_of_matrices_may_differ() {
    let mut net = Net::new(17).constant("zero", &Tensor::scalar(0.0f32)).constant("w", &floats(&[1, 6], 1));
    net = net.constant("rows", &Tensor::from_elements(&[3], &[-1i64, 2, 3]).expect("three"));
    net = net.constant("columns", &Tensor::from_elements(&[3], &[-1i64, 3, 2]).expect("three"));
    for (x, shape) in [("x", "rows"), ("y", "columns")] {
        let (is_chosen, chosen, product, matrices) =
            (format!("{x}1"), format!("{x}2"), format!("{x}3"), format!("{x}4"));
        net = net.input(x, DType::F32, &[&x.to_uppercase(), "1"]).node("Greater", &[x, "zero"], &[&is_chosen], &[]);
        let flat = format!("{x}5");
        net = net.node("Reshape", &[&is_chosen, "flat"], &[&flat], &[]);
        net = net.node("Compress", &[x, &flat], &[&chosen], &[("axis", Attr::Int(0))]);
        net = net.node("MatMul", &[&chosen, "w"], &[&product], &[]);
        net = net.node("Reshape", &[&product, shape], &[&matrices], &[]);
    }
    net = net.constant("flat", &Tensor::from_elements(&[1], &[-1i64]).expect("one"));
    let compilation = compiled(net.node("MatMul", &["x4", "y4"], &["o"], &[]).output("o"), &CompileOptions::default());
    assert!(compilation.report.on_host.is_empty(), "{:?}", compilation.report.on_host);
    let model = Model::from_vec(bytes(&compilation)).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let given = |chosen: &[f32]| Tensor::from_elements(&[chosen.len(), 1], chosen).expect("a column");
    let w = floats(&[1, 6], 1);
    let w = w.elements::<f32>().expect("floats");
    for (a, b, expected) in [(3, 3, ""), (1, 4, "extents that differ"), (4, 1, "extents that differ")] {
        let of = |count: usize, from: f32| (0..count).map(|n| from + n as f32).collect::<Vec<f32>>();
        let (left, right) = (of(a, 1.0), of(b, 2.0));
        let found = session.run_owned(&[&given(&left), &given(&right)]).unwrap_or_else(|e| panic!("{a} and {b}: {e}"));
        assert_eq!(case(&session, &model), expected, "{a} and {b}");
        assert_eq!(found[0].shape(), [a.max(b), 2, 2]);
        let found = found[0].elements::<f32>().expect("floats");
        for (at, found) in found.iter().enumerate() {
            let (n, row, column) = (at / 4, at / 2 % 2, at % 2);
            let (l, r) = (left[n.min(a - 1)], right[n.min(b - 1)]);
            let sum: f32 = (0..3).map(|k| w[3 * row + k] * l * w[2 * k + column] * r).sum();
            assert!((sum - found).abs() < 1e-3, "{a} and {b}, {at}: {found}, not {sum}");
        }
    }
}

/// Who observes a run that begins anew is told so before the steps that count.
#[test]
fn a_run_that_begins_anew_is_observed() {
    #[derive(Default)]
    struct Told(Mutex<Vec<Option<usize>>>);
    impl Observer for Told {
        fn event(&self, event: &Event<'_>) {
            let mut told = self.0.lock().expect("nobody panics");
            match event {
                Event::Step(step) => told.push(Some(step.entry)),
                Event::RunBeginsAnew => told.push(None),
                _ => {}
            }
        }
    }
    let model = Model::from_vec(bytes(&compiled(positive_ones(), &CompileOptions::default()))).expect("a model");
    let told = Arc::new(Told::default());
    let observer: Arc<dyn Observer> = told.clone();
    let mut session =
        model.session(&SessionOptions { observer: Some(observer), ..SessionOptions::default() }).expect("a session");
    let row = |values: &[f32]| Tensor::from_elements(&[values.len()], values).expect("a row");
    session.run_owned(&[&row(&[1.0, 2.0]), &row(&[3.0])]).expect("runs");
    let told = std::mem::take(&mut *told.0.lock().expect("nobody panics"));
    let anew = told.iter().position(Option::is_none).expect("it is told");
    let less = session.entry_in_use();
    assert!(less > 0 && anew > 0 && told[..anew].iter().all(|entry| *entry == Some(0)), "{told:?}");
    assert!(told.len() > anew + 1 && told[anew + 1..].iter().all(|entry| *entry == Some(less)), "{told:?}");
}

#[test]
fn large_models_have_no_code_for_extents_that_differ() {
    let mut net = positive_ones();
    for n in 0..100 {
        net = net.node("Relu", &["x"], &[&format!("x{n}")], &[]);
    }
    assert!(compiled(net, &CompileOptions::default()).report.special_cases.is_empty());
}
