//! `Scan` and `FlexAttention`, whose nodes hold graphs, by hand-worked cases.

use infc_reference::{Attribute, Attributes, EvalError, Node, evaluate_with};
use infc_tensor::{DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs, Tensor};

fn t(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_elements(shape, elements).unwrap()
}

fn inner(op_type: &str, inputs: &[&str], output: &str) -> SubgraphNode {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    SubgraphNode {
        op_type: op_type.to_owned(),
        domain: String::new(),
        opset: 16,
        attributes: Attributes::new(),
        graphs: Vec::new(),
        inputs: owned(inputs),
        outputs: owned(&[output]),
    }
}

fn graph(inputs: &[&str], nodes: Vec<SubgraphNode>, outputs: &[&str]) -> Subgraph {
    let output = |name: &&str| SubgraphOutput { name: (*name).to_owned(), dtype: DType::F32, shape: vec![2] };
    Subgraph {
        inputs: inputs.iter().map(|&n| n.to_owned()).collect(),
        constants: Vec::new(),
        nodes,
        outputs: outputs.iter().map(output).collect(),
    }
}

fn attributes(list: &[(&str, Attribute)]) -> Attributes {
    let mut attributes = Attributes::new();
    for (name, value) in list {
        attributes.insert(*name, value.clone());
    }
    attributes
}

/// Sums rows, and gives each sum times `w`, from around it.
fn scan(
    opset: i64,
    list: &[(&str, Attribute)],
    s: &Tensor,
    x: &Tensor,
    lens: Option<&Tensor>,
) -> Result<Vec<Tensor>, EvalError> {
    let nodes = vec![inner("Add", &["sum", "row"], "next"), inner("Mul", &["next", "w"], "scaled")];
    let body = graph(&["sum", "row"], nodes, &["next", "scaled"]);
    let held = Subgraphs { roots: vec![("body".to_owned(), 0)], captures: vec!["w".to_owned()], graphs: vec![body] };
    let attributes = attributes(&[&[("num_scan_inputs", Attribute::Int(1))], list].concat());
    let node = Node { op_type: "Scan", domain: "", opset, attributes: &attributes, num_outputs: 2 };
    let w = t(&[2], &[1.0, -1.0]);
    let inputs = [Some(s), Some(x), Some(&w)];
    if opset > 8 {
        evaluate_with(&node, &held, &inputs)
    } else {
        evaluate_with(&node, &held, &[&[lens], &inputs[..]].concat())
    }
}

const ROWS: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

#[test]
fn states_are_carried_and_results_stacked() {
    let (s, x) = (t(&[2], &[1.0, 10.0]), t(&[3, 2], &ROWS));
    let found = scan(16, &[], &s, &x, None).unwrap();
    assert_eq!(found, [t(&[2], &[7.0, 19.0]), t(&[3, 2], &[1.0, -11.0, 3.0, -14.0, 7.0, -19.0])]);
    // No step leaves the state as it is; the declared type says what nothing looks like.
    let found = scan(16, &[], &s, &t(&[0, 2], &[]), None).unwrap();
    assert_eq!(found, [s.clone(), t(&[0, 2], &[])]);
    let last = [("scan_output_axes", Attribute::Ints(vec![-1]))];
    let found = scan(16, &last, &s, &t(&[0, 2], &[]), None).unwrap();
    assert_eq!(found, [s.clone(), t(&[2, 0], &[])]);
}

#[test]
fn axes_and_directions() {
    let (s, x) = (t(&[2], &[0.0, 0.0]), t(&[3, 2], &ROWS));
    let one = |name: &'static str, n: i64| [(name, Attribute::Ints(vec![n]))];
    let scaled = |list: &[(&str, Attribute)], x: &Tensor| scan(16, list, &s, x, None).unwrap().remove(1);
    let back = scaled(&one("scan_input_directions", 1), &x);
    assert_eq!(back, t(&[3, 2], &[4.0, -5.0, 6.0, -8.0, 6.0, -9.0]));
    let back = scaled(&one("scan_output_directions", 1), &x);
    assert_eq!(back, t(&[3, 2], &[6.0, -9.0, 2.0, -4.0, 0.0, -1.0]));
    let last = scaled(&one("scan_output_axes", -1), &x);
    assert_eq!(last, t(&[2, 3], &[0.0, 2.0, 6.0, -1.0, -4.0, -9.0]));
    let columns = scaled(&one("scan_input_axes", 1), &t(&[2, 3], &ROWS));
    assert_eq!(columns, t(&[3, 2], &[0.0, -3.0, 1.0, -7.0, 3.0, -12.0]));
    let long = [("scan_input_axes", Attribute::Ints(vec![0, 0]))];
    assert!(scan(16, &long, &s, &x, None).is_err());
    assert!(scan(16, &one("num_scan_inputs", 1), &s, &x, None).is_err());
}

#[test]
fn the_first_version_has_a_batch_of_sequences_that_may_end_early() {
    let s = t(&[2, 2], &[0.0, 0.0, 100.0, 100.0]);
    let x = t(&[2, 2, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let found = scan(8, &[], &s, &x, None).unwrap();
    assert_eq!(found[0], t(&[2, 2], &[2.0, 4.0, 110.0, 112.0]));
    assert_eq!(found[1], t(&[2, 2, 2], &[0.0, -1.0, 2.0, -4.0, 104.0, -105.0, 110.0, -112.0]));
    let lens = Tensor::from_elements(&[2], &[2i64, 1]).unwrap();
    let found = scan(8, &[], &s, &x, Some(&lens)).unwrap();
    assert_eq!(found[0], t(&[2, 2], &[2.0, 4.0, 104.0, 105.0]));
    assert_eq!(found[1], t(&[2, 2, 2], &[0.0, -1.0, 2.0, -4.0, 104.0, -105.0, 0.0, 0.0]));
    for wrong in [vec![3i64, 1], vec![-1, 1], vec![1]] {
        let lens = Tensor::from_elements(&[wrong.len()], &wrong).unwrap();
        assert!(scan(8, &[], &s, &x, Some(&lens)).is_err(), "{wrong:?}");
    }
}

fn flex(graphs: Vec<Subgraph>, names: &[&str]) -> Result<Vec<Tensor>, EvalError> {
    let roots = names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), n as u32)).collect();
    let held = Subgraphs { roots, captures: vec!["far".to_owned()], graphs };
    let attributes = attributes(&[("scale", Attribute::Float(1.0))]);
    let node =
        Node { op_type: "FlexAttention", domain: "ai.onnx.preview", opset: 1, attributes: &attributes, num_outputs: 1 };
    // Two query heads share one of keys: scores [0, ln 3] for both.
    let q = t(&[1, 2, 1, 1], &[1.0, 1.0]);
    let k = t(&[1, 1, 2, 1], &[0.0, 3f32.ln()]);
    let v = t(&[1, 1, 2, 1], &[8.0, 16.0]);
    let far = t(&[1], &[f32::NEG_INFINITY]);
    evaluate_with(&node, &held, &[Some(&q), Some(&k), Some(&v), Some(&far)])
}

#[test]
fn graphs_change_scores_and_weights() {
    let near = |found: &[Tensor], expected: f32| {
        let found = found[0].elements::<f32>().unwrap();
        assert!(found.len() == 2 && found.iter().all(|x| (x - expected).abs() < 1e-5), "{found:?} is not {expected}");
    };
    near(&flex(vec![], &[]).unwrap(), 14.0);
    let twice = || graph(&["x"], vec![inner("Add", &["x", "x"], "y")], &["y"]);
    near(&flex(vec![twice()], &["score_mod"]).unwrap(), (8.0 + 9.0 * 16.0) / 10.0);
    near(&flex(vec![twice()], &["prob_mod"]).unwrap(), 28.0);
    let hidden = graph(&["x"], vec![inner("Add", &["x", "far"], "y")], &["y"]);
    let nothing_left = flex(vec![hidden], &["score_mod"]).unwrap();
    assert!(nothing_left[0].elements::<f32>().unwrap().iter().all(|x| x.is_nan()));
    let flat = graph(&["x"], vec![inner("Squeeze", &["x"], "y")], &["y"]);
    assert!(flex(vec![flat], &["score_mod"]).is_err());
    assert!(flex(vec![graph(&[], vec![], &["far"])], &["prob_mod"]).is_err());
}
