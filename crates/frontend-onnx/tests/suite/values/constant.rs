//! Constants, shapes and ranges.

use super::{Case, code, counting, f32s, floats, ints};
use infc_tensor::{DType, Tensor};

#[test]
fn constants() {
    Case::new("Constant", 13).tensor("value", floats(&[2, 3])).agrees();
    Case::new("Constant", 13).int("value_int", 5).agrees();
    Case::new("Constant", 13).float("value_float", 0.5).agrees();
    Case::new("Constant", 13).ints("value_ints", &[5, 6]).agrees();
    Case::new("Constant", 13).floats("value_floats", &[0.5, 0.25]).agrees();
    Case::new("ConstantOfShape", 9).constant(ints(&[2, 3])).agrees();
    Case::new("ConstantOfShape", 9).constant(ints(&[2000, 3])).tensor("value", ints(&[7])).agrees();
    Case::new("ConstantOfShape", 9).constant(ints(&[])).tensor("value", f32s(&[7.5])).agrees();
}

#[test]
fn shapes_as_data() {
    Case::new("Shape", 13).data(floats(&[2, 3, 4])).dynamic(&[0, 2]).agrees();
    Case::new("Shape", 15).data(floats(&[2, 3, 4])).int("start", -2).int("end", 5).dynamic(&[0, 2]).agrees();
    Case::new("Size", 13).data(floats(&[2, 3, 4])).dynamic(&[0, 2]).agrees();
}

#[test]
fn ranges() {
    let integers = |a: i64, b: i64, c: i64| {
        let case = Case::new("Range", 11).constant(Tensor::scalar(a)).constant(Tensor::scalar(b));
        case.constant(Tensor::scalar(c))
    };
    integers(0, 5, 1).agrees();
    integers(10, -4, -3).agrees();
    integers(3, 3, 1).agrees();
    integers(0, 5000, 2).agrees();
    Case::new("Range", 11)
        .constant(Tensor::scalar(0.5f32))
        .constant(Tensor::scalar(3.0f32))
        .constant(Tensor::scalar(0.4f32))
        .agrees();
}

#[test]
fn one_hot_and_identity() {
    let values = f32s(&[0.25, 4.0]);
    for axis in [-1, 0, 1] {
        Case::new("OneHot", 11)
            .data(counting(&[2, 3]))
            .constant(Tensor::scalar(5i64))
            .constant(values.clone())
            .int("axis", axis)
            .dynamic(&[0])
            .agrees();
    }
    Case::new("OneHot", 11).data(ints(&[-1, 2])).constant(Tensor::scalar(4i64)).data(values).agrees();
    Case::new("EyeLike", 9).data(floats(&[3, 4])).agrees();
    Case::new("EyeLike", 9).data(floats(&[3, 4])).int("k", -1).int("dtype", code(DType::I32)).agrees();
}

#[test]
fn windows() {
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
        for periodic in [0, 1] {
            Case::new(op, 17).constant(Tensor::scalar(10i64)).int("periodic", periodic).agrees();
        }
        Case::new(op, 17).constant(Tensor::scalar(5i64)).int("output_datatype", code(DType::F64)).agrees();
    }
}
