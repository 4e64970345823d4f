//! Values without elements, constants among them, all the way to machine code.

mod net;

use infc_runtime::Tensor;
use infc_tensor::DType;
use net::{Attr, Net};

fn empty<T: infc_tensor::Element>(shape: &[usize]) -> Tensor {
    Tensor::from_elements::<T>(shape, &[]).expect("no elements")
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

#[track_caller]
fn check(net: Net, inputs: &[&Tensor], shape: &[usize], expected: &[f64]) {
    let y = net.output("y").session().run_owned(inputs).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
    let found: Vec<f64> = (0..y.len_elems()).map(|n| y.get_f64(n).expect("a number")).collect();
    assert_eq!((y.shape(), &found[..]), (shape, expected));
}

#[test]
fn products_of_nothing_are_zero() {
    let a = empty::<u8>(&[2, 0]);
    let net = |k: &str| {
        let net = Net::new(18).input("a", DType::U8, &["M", k]).constant("b", &empty::<i8>(&[0, 19]));
        let net = net.constant("x", &Tensor::scalar(3u8)).constant("z", &Tensor::scalar(-3i8));
        net.node("MatMulInteger", &["a", "b", "x", "z"], &["y"], &[])
    };
    for k in ["0", "K"] {
        check(net(k), &[&a], &[2, 19], &[0.0; 38]);
    }
    let a = empty::<f32>(&[2, 0]);
    let net = Net::new(18).input("a", DType::F32, &["M", "K"]).constant("b", &empty::<f32>(&[0, 19]));
    let net = net.constant("c", &Tensor::scalar(0.5f32));
    check(net.node("Gemm", &["a", "b", "c"], &["y"], &[]), &[&a], &[2, 19], &[0.5; 38]);
}

#[test]
fn the_shape_of_a_scalar_is_computed_with() {
    let x = Tensor::scalar(1.0f32);
    let net = Net::new(18).input("x", DType::F32, &[]).constant("axes", &ints(&[-1]));
    let net = net.node("Shape", &["x"], &["s"], &[]).node("Unsqueeze", &["s", "axes"], &["u"], &[]);
    let net = net.node("Relu", &["u"], &["r"], &[]).node("Neg", &["u"], &["n"], &[]);
    check(net.node("Sub", &["r", "n"], &["y"], &[]), &[&x], &[0, 1], &[]);
}

#[test]
fn sequences_and_classes_may_be_none() {
    let x = empty::<f32>(&[5, 0, 2]);
    for extent in ["0", "B"] {
        let net = Net::new(18).input("x", DType::F32, &["5", extent, "2"]).constant("lens", &empty::<i64>(&[0]));
        let axes = [("batch_axis", Attr::Int(1)), ("time_axis", Attr::Int(0))];
        check(net.node("ReverseSequence", &["x", "lens"], &["y"], &axes), &[&x], &[5, 0, 2], &[]);
        let classes = empty::<i64>(&[1, 0]);
        let net = Net::new(18).input("x", DType::I64, &["1", extent]).constant("depth", &Tensor::scalar(4i64));
        let net = net.constant("values", &Tensor::from_elements(&[2], &[-3i32, 2]).expect("two"));
        check(
            net.node("OneHot", &["x", "depth", "values"], &["y"], &[("axis", Attr::Int(1))]),
            &[&classes],
            &[1, 4, 0],
            &[],
        );
    }
}

#[test]
fn windows_over_nothing_are_none() {
    let x = empty::<f32>(&[0, 2, 5]);
    let weights = Tensor::from_elements(&[3, 2, 3], &[1.0f32; 18]).expect("18");
    let net = Net::new(18).input("x", DType::F32, &["N", "2", "5"]).constant("w", &weights);
    let strides = [("strides", Attr::Ints(&[2]))];
    check(net.node("Conv", &["x", "w"], &["y"], &strides), &[&x], &[0, 3, 2], &[]);
}

/// What is taken of extents may be that one is 0.
#[test]
fn slices_that_the_run_tells_may_leave_nothing() {
    let x = Tensor::from_elements(&[3, 1], &[1.0f32, 2.0, 3.0]).expect("three");
    let net = Net::new(18).input("x", DType::F32, &["N", "1"]).input("ends", DType::I64, &["2"]);
    let net =
        net.constant("starts", &ints(&[3, -1])).constant("axes", &ints(&[0, 1])).constant("steps", &ints(&[-1, 1]));
    let net =
        net.node("Slice", &["x", "starts", "ends", "axes", "steps"], &["s"], &[]).constant("lens", &empty::<i64>(&[0]));
    let axes = [("batch_axis", Attr::Int(1)), ("time_axis", Attr::Int(0))];
    let net = net.node("ReverseSequence", &["s", "lens"], &["y"], &axes);
    check(net, &[&x, &ints(&[i64::MIN, 0])], &[3, 0], &[]);
}

/// An extent that meets none is none, and what is added to it is all there is.
#[test]
fn extents_that_meet_none_are_none() {
    let x = empty::<f32>(&[0]);
    let net = Net::new(18).input("x", DType::F32, &["N"]).constant("none", &empty::<f32>(&[0]));
    let net = net.constant("one", &Tensor::from_elements(&[1], &[2.5f32]).expect("one")).constant("two", &ints(&[2]));
    let net = net.node("Add", &["x", "none"], &["a"], &[]);
    let net = net.node("Concat", &["x", "one"], &["c"], &[("axis", Attr::Int(0))]);
    let net = net.node("Expand", &["c", "two"], &["e"], &[]);
    check(net.node("Concat", &["a", "e"], &["y"], &[("axis", Attr::Int(0))]), &[&x], &[2], &[2.5, 2.5]);
}
