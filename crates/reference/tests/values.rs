//! Sequences, optionals, and operators that hold graphs, by hand-worked cases.

mod support;

use infc_reference::{Attributes, Node, evaluate_with};
use infc_tensor::{DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs, Tensor};
use support::op;

fn floats(elements: &[f32]) -> Tensor {
    Tensor::from_elements(&[elements.len()], elements).unwrap()
}

fn sequence(parts: &[&[f32]]) -> Tensor {
    Tensor::sequence(parts.iter().map(|part| floats(part)).collect()).unwrap()
}

#[test]
fn positions_in_sequences() {
    let three = sequence(&[&[0.0], &[1.0], &[2.0]]);
    let at = |n: i64| op("SequenceAt", 11).try_all(&[Some(&three), Some(&Tensor::scalar(n))]);
    assert_eq!(at(-3).unwrap()[0], floats(&[0.0]));
    assert_eq!(at(2).unwrap()[0], floats(&[2.0]));
    assert!(at(3).is_err() && at(-4).is_err() && at(i64::MIN).is_err());
    let insert =
        |n: i64| op("SequenceInsert", 11).try_all(&[Some(&three), Some(&floats(&[9.0])), Some(&Tensor::scalar(n))]);
    assert_eq!(insert(3).unwrap()[0], sequence(&[&[0.0], &[1.0], &[2.0], &[9.0]]));
    assert_eq!(insert(-1).unwrap()[0], sequence(&[&[0.0], &[1.0], &[9.0], &[2.0]]));
    assert!(insert(4).is_err());
    let erased = op("SequenceErase", 11).try_all(&[Some(&three), None]).unwrap();
    assert_eq!(erased[0], sequence(&[&[0.0], &[1.0]]));
    let empty = op("SequenceEmpty", 11).try_all(&[]).unwrap();
    assert!(op("SequenceErase", 11).try_all(&[Some(&empty[0])]).is_err());
    let len = op("SequenceLength", 11).try_all(&[Some(&three)]).unwrap();
    assert_eq!(len[0], Tensor::scalar(3i64));
}

#[test]
fn tensors_into_sequences_and_back() {
    let x = floats(&[1.0, 2.0, 3.0]);
    let split = |lengths: Option<&Tensor>| op("SplitToSequence", 11).try_all(&[Some(&x), lengths]);
    assert_eq!(split(Some(&Tensor::scalar(2i64))).unwrap()[0], sequence(&[&[1.0, 2.0], &[3.0]]));
    let lengths = Tensor::from_elements(&[2], &[1i64, 2]).unwrap();
    let parts = split(Some(&lengths)).unwrap().remove(0);
    assert_eq!(parts, sequence(&[&[1.0], &[2.0, 3.0]]));
    assert!(split(Some(&Tensor::from_elements(&[1], &[4i64]).unwrap())).is_err());
    assert!(split(Some(&Tensor::scalar(0i64))).is_err());
    let scalars = op("SplitToSequence", 11).with("keepdims", 0i64).try_all(&[Some(&x)]).unwrap().remove(0);
    assert!(scalars.values().unwrap().iter().all(|value| value.rank() == 0));
    let back = op("ConcatFromSequence", 11).with("axis", 0i64).with("new_axis", 1i64).try_all(&[Some(&scalars)]);
    assert_eq!(back.unwrap()[0], x);
    let back = op("ConcatFromSequence", 11).with("axis", 0i64).try_all(&[Some(&parts)]);
    assert_eq!(back.unwrap()[0], x);
}

#[test]
fn optionals_hold_one_value_at_most() {
    let (some, none) = (Tensor::optional(Some(floats(&[1.0]))).unwrap(), Tensor::optional(None).unwrap());
    let has = |x: Option<&Tensor>| op("OptionalHasElement", 18).try_all(&[x]).unwrap().remove(0).bytes()[0];
    // An empty sequence is a value.
    assert_eq!([has(Some(&some)), has(Some(&none)), has(None), has(Some(&sequence(&[])))], [1, 0, 0, 1]);
    assert_eq!(op("OptionalGetElement", 18).try_all(&[Some(&some)]).unwrap()[0], floats(&[1.0]));
    assert!(op("OptionalGetElement", 18).try_all(&[Some(&none)]).is_err());
}

#[test]
fn operators_on_tensors_take_no_values() {
    let x = sequence(&[&[1.0]]);
    for name in ["Relu", "Reshape", "Shape", "Cast"] {
        let error = op(name, 13).with("to", 1i64).try_all(&[Some(&x), Some(&x)]).unwrap_err();
        assert!(error.to_string().contains("sequence"), "{name}: {error}");
    }
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

/// A loop that adds `y`, from around it, and collects the sums, while they are less than `limit`.
fn sums() -> Subgraphs {
    let output = |name: &str, dtype| SubgraphOutput { name: name.to_owned(), dtype, shape: vec![2] };
    let body = Subgraph {
        inputs: ["step", "go", "sum"].map(str::to_owned).to_vec(),
        constants: vec![("limit".to_owned(), floats(&[5.0]))],
        nodes: vec![
            inner("Add", &["sum", "y"], "next"),
            inner("ReduceMax", &["next"], "greatest"),
            inner("Squeeze", &["greatest"], "scalar"),
            inner("Squeeze", &["limit"], "most"),
            inner("Less", &["scalar", "most"], "again"),
            inner("Identity", &["next"], "kept"),
        ],
        outputs: vec![output("again", DType::Bool), output("next", DType::F32), output("kept", DType::F32)],
    };
    Subgraphs { roots: vec![("body".to_owned(), 0)], captures: vec!["y".to_owned()], graphs: vec![body] }
}

fn looped(graphs: &Subgraphs, most: Option<i64>) -> Result<Vec<Tensor>, infc_reference::EvalError> {
    let (attributes, most) = (Attributes::new(), most.map(Tensor::scalar));
    let node = Node { op_type: "Loop", domain: "", opset: 16, attributes: &attributes, num_outputs: 2 };
    let (start, y) = (floats(&[0.0, 1.0]), floats(&[1.0, 2.0]));
    evaluate_with(&node, graphs, &[most.as_ref(), None, Some(&start), Some(&y)])
}

#[test]
fn loops_run_their_graphs() {
    let outputs = looped(&sums(), None).unwrap();
    assert_eq!(outputs[0], floats(&[2.0, 5.0]));
    assert_eq!(outputs[1], Tensor::from_elements(&[2, 2], &[1.0f32, 3.0, 2.0, 5.0]).unwrap());
    assert_eq!(looped(&sums(), Some(1)).unwrap()[0], floats(&[1.0, 3.0]));
    let outputs = looped(&sums(), Some(0)).unwrap();
    assert_eq!((&outputs[0], outputs[1].shape()), (&floats(&[0.0, 1.0]), &[0, 2][..]));
}

#[test]
fn graphs_that_refer_to_themselves_are_refused() {
    let mut graphs = sums();
    graphs.graphs[0].nodes[0].graphs.push(("body".to_owned(), 0));
    assert!(looped(&graphs, None).is_err());
    let mut graphs = sums();
    graphs.roots[0].1 = 1;
    assert!(looped(&graphs, None).is_err());
    let mut graphs = sums();
    graphs.graphs[0].nodes[0].inputs[0] = "nobody".to_owned();
    assert!(looped(&graphs, None).is_err());
}

#[test]
fn pixels_of_an_image() {
    // Two pixels, in the plainest of formats.
    let encoded = Tensor::from_elements(&[17], b"P6\n2 1\n255\n\xff\x00\x00\x0a\x14\x1e").unwrap();
    let decode = |format: &str| op("ImageDecoder", 20).with("pixel_format", format).try_all(&[Some(&encoded)]).unwrap();
    assert_eq!(decode("RGB")[0], Tensor::from_elements(&[1, 2, 3], &[255u8, 0, 0, 10, 20, 30]).unwrap());
    assert_eq!(decode("BGR")[0].bytes(), [0, 0, 255, 30, 20, 10]);
    assert_eq!(decode("Grayscale")[0], Tensor::from_elements(&[1, 2, 1], &[76u8, 18]).unwrap());
    let damaged = Tensor::from_elements(&[3], b"P6\n").unwrap();
    assert!(op("ImageDecoder", 20).try_all(&[Some(&damaged)]).is_err());
}
