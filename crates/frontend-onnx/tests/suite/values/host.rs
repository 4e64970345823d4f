//! Operators that the runtime evaluates: the graph has them as they are, and what follows them sees their sizes.

use super::{Case, Definitions, compare, floats};
use crate::support::{Builder, Extent, node};
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
    Case::new("Compress", 11).data(floats(&[3, 4])).data(condition).dynamic(&[1]).agrees();
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
