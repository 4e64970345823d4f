//! Operators that the runtime evaluates: the graph has them as they are, and what follows them sees their sizes.

use super::{Case, Definitions, compare, floats};
use crate::support::{Builder, Extent, Value, node, value_info};
use infc_frontend_onnx::dtype_to_onnx;
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::{AttributeProto, GraphProto, TypeProto, type_proto};
use infc_ir::interp::run_graph_with;
use infc_ir::op::Op;
use infc_tensor::{DType, Tensor};

fn bools(elements: &[bool]) -> Tensor {
    Tensor::from_bools(&[elements.len()], elements).expect("a vector")
}

#[test]
fn coordinates_of_what_is_not_zero() {
    let x = Tensor::from_elements(&[2, 3], &[0i64, 3, 0, -1, 0, 7]).expect("six");
    Case::new("NonZero", 13).data(x).dynamic(&[0]).agrees();
    Case::new("NonZero", 13).data(Tensor::from_elements(&[2, 2], &[0.0f32; 4]).expect("four")).agrees();
    Case::new("NonZero", 13).data(Tensor::scalar(1.5f32)).agrees();
}

#[test]
fn distinct_elements() {
    let x = Tensor::from_elements(&[3, 2], &[2i64, 1, 1, 3, 4, 3]).expect("six");
    for outputs in 1..=4 {
        Case::new("Unique", 11).data(x.clone()).outputs(outputs).dynamic(&[0]).agrees();
        Case::new("Unique", 11).data(x.clone()).int("sorted", 0).outputs(outputs).agrees();
    }
    let rows = Tensor::from_elements(&[3, 2], &[1.0f32, 0.0, 1.0, 0.0, 2.0, 3.0]).expect("six");
    Case::new("Unique", 11).data(rows).int("axis", -2).outputs(4).dynamic(&[0, 1]).agrees();
}

#[test]
fn what_a_condition_keeps() {
    let condition = bools(&[false, true, true]);
    Case::new("Compress", 11).data(floats(&[3, 4])).data(condition.clone()).int("axis", 0).dynamic(&[0]).agrees();
    Case::new("Compress", 11).data(floats(&[3, 4])).data(condition.clone()).dynamic(&[1]).agrees();
    let nothing = || Case::new("Compress", 11).data(floats(&[0, 4])).data(condition.clone());
    nothing().int("axis", 0).agrees();
    nothing().agrees();
}

/// A condition that is known says how many there are, whatever the extents: no host is asked.
#[test]
fn what_a_known_condition_keeps() {
    let native = |case: &Case| {
        let graph = case.agrees();
        assert!(graph.order.iter().all(|&id| !matches!(graph.nodes[id].op, Op::Host(_))), "{graph}");
    };
    for condition in [&[false, true, true][..], &[true, false, true], &[false], &[false, false, true, true], &[true; 3]]
    {
        let of = || Case::new("Compress", 11).data(floats(&[3, 4])).constant(bools(condition));
        native(&of().int("axis", 0));
        native(&of().int("axis", -1));
        native(&of());
        native(&of().int("axis", -1).dynamic(&[0]));
    }
    let of = || Case::new("Compress", 11).data(floats(&[3, 4])).constant(bools(&[true, false, true]));
    native(&of().int("axis", 0).dynamic(&[0]));
    native(&of().dynamic(&[0]));
}

#[test]
fn boxes_that_overlap() {
    let boxes = [0.0f32, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0, 0.0, 100.0, 1.0, 101.0];
    let scores = Tensor::from_elements(&[1, 1, 4], &[0.9f32, 0.75, 0.95, 0.3]).expect("four");
    for (most, overlap, least, centre) in
        [(3i64, 0.5f32, 0.0f32, 0), (2, 0.9, 0.4, 0), (3, 0.0, 0.0, 1), (0, 0.5, 0.0, 0)]
    {
        Case::new("NonMaxSuppression", 11)
            .data(Tensor::from_elements(&[1, 4, 4], &boxes).expect("boxes"))
            .data(scores.clone())
            .data(Tensor::from_elements(&[1], &[most]).expect("one"))
            .data(Tensor::from_elements(&[1], &[overlap]).expect("one"))
            .data(Tensor::from_elements(&[1], &[least]).expect("one"))
            .int("center_point_box", centre)
            .dynamic(&[1])
            .agrees();
    }
}

/// What follows sees the size: as a dim, as data, and in a broadcast with itself.
#[test]
fn the_size_of_what_is_found() {
    let model = Builder::new(13)
        .input("x", DType::I64, &[Extent::Number(6)])
        .node(node("NonZero", &["x"], &["places"], &[]))
        .node(node("Transpose", &["places"], &["rows"], &[]))
        .node(node("GatherND", &["x", "rows"], &["values"], &[]))
        .node(node("Add", &["values", "values"], &["doubled"], &[]))
        .node(node("Shape", &["doubled"], &["count"], &[]))
        .output("doubled")
        .output("count");
    let graph = model.import().expect("a graph");
    assert_eq!(graph.order.iter().filter(|&&id| matches!(graph.nodes[id].op, Op::Host(_))).count(), 1);
    let x = Tensor::from_elements(&[6], &[0i64, 5, 0, 0, -2, 9]).expect("six");
    let found = run_graph_with(&graph, &[0], &[x], &Definitions).expect("values");
    compare("doubled", &found[0], &Tensor::from_elements(&[3], &[10i64, -4, 18]).expect("three"), 0.0);
    compare("count", &found[1], &Tensor::from_elements(&[1], &[3i64]).expect("one"), 0.0);
    let none = run_graph_with(&graph, &[0], &[Tensor::zeros(DType::I64, &[6]).expect("six")], &Definitions);
    assert_eq!(none.expect("nothing")[0].shape(), [0]);
}

/// A node that can be expanded is, and one that cannot says why.
#[test]
fn the_host_is_asked_last() {
    let native = Case::new("Expand", 13)
        .data(floats(&[3, 1]))
        .constant(Tensor::from_elements(&[2], &[3i64, 4]).expect("two"))
        .agrees();
    assert!(native.order.iter().all(|&id| !matches!(native.nodes[id].op, Op::Host(_))));
}

fn sequence_of(dtype: DType) -> type_proto::Value {
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(dtype)), shape: None };
    let element = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
    type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: Some(Box::new(element)) }))
}

/// What is put into a sequence comes out of it with its type, and lengths are dims.
#[test]
fn through_a_sequence() {
    let model = Builder::new(13)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3)])
        .input("y", DType::F32, &[Extent::Number(2), Extent::Number(3)])
        .initializer("last", &Tensor::scalar(-1i64))
        .node(node("SequenceConstruct", &["x", "y"], &["two"], &[]))
        .node(node("SequenceInsert", &["two", "x"], &["three"], &[]))
        .node(node("SequenceErase", &["three", "last"], &["left"], &[]))
        .node(node("SequenceLength", &["left"], &["count"], &[]))
        .node(node("SequenceAt", &["left", "last"], &["z"], &[]))
        .node(node("Relu", &["z"], &["r"], &[]))
        .output("r")
        .output("count");
    let graph = model.import().expect("a graph");
    let (x, y) = (floats(&[4, 3]), floats(&[2, 3]));
    let found = run_graph_with(&graph, &[4, 0], &[x, y.clone()], &Definitions).expect("values");
    assert_eq!(found[0].shape(), y.shape());
    compare("count", &found[1], &Tensor::scalar(2i64), 0.0);
}

/// A model whose input is a sequence, with a graph per value that reads a value from around it.
#[test]
fn a_graph_per_value() {
    let mut model = Builder::new(17)
        .input("s", DType::F32, &[])
        .input("bias", DType::F32, &[Extent::Number(1)])
        .node(node("SequenceMap", &["s"], &["t"], &[]))
        .node(node("ConcatFromSequence", &["t"], &["y"], &[("axis", Value::Int(0))]))
        .output("y");
    let graph = model.graph();
    graph.input[0].r#type = Some(TypeProto { denotation: None, value: Some(sequence_of(DType::F32)) });
    let body = GraphProto {
        name: Some("body".into()),
        input: vec![value_info("e", DType::F32, Some(&[Extent::Named("n")]))],
        output: vec![value_info("o", DType::F32, Some(&[Extent::Named("n")]))],
        node: vec![node("Add", &["e", "bias"], &["o"], &[])],
        ..GraphProto::default()
    };
    graph.node[0].attribute.push(AttributeProto {
        name: Some("body".into()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(body),
        ..AttributeProto::default()
    });
    let graph = model.import().expect("a graph");
    let s = Tensor::sequence(vec![floats(&[2]), floats(&[1])]).expect("two values");
    let bias = Tensor::from_elements(&[1], &[10.0f32]).expect("one");
    let expected: Vec<f32> =
        s.values().expect("two").iter().flat_map(|v| v.elements::<f32>().expect("f32")).map(|v| v + 10.0).collect();
    let symbols = vec![2; graph.symbols.len()];
    let found = run_graph_with(&graph, &symbols, &[s, bias], &Definitions).expect("values");
    compare("y", &found[0], &Tensor::from_elements(&[3], &expected).expect("three"), 0.0);
}
