//! TopK and Hardmax.

use super::{Case, f32s, floats, halves, ints};
use infc_tensor::Tensor;

#[test]
fn largest_and_smallest() {
    for largest in [0, 1] {
        let case = |axis| Case::new("TopK", 11).int("largest", largest).int("axis", axis).outputs(2);
        case(-1).data(floats(&[3, 5])).constant(ints(&[2])).dynamic(&[0, 1]).agrees();
        case(0).data(floats(&[4, 3, 2])).constant(ints(&[4])).dynamic(&[1]).agrees();
        case(1).data(halves(&[2, 6])).constant(ints(&[3])).agrees();
        // Equal elements come in order, NaN is larger than everything.
        let x = f32s(&[2.0, f32::NAN, 2.0, f32::INFINITY, -0.0, 0.0, f32::NAN, f32::NEG_INFINITY, 2.0]);
        case(0).data(x).constant(ints(&[9])).agrees();
        let x = Tensor::from_elements(&[5], &[3i64, i64::MAX, 3, i64::MIN, 0]).expect("five");
        case(0).data(x).constant(ints(&[4])).agrees();
    }
    Case::new("TopK", 9).data(floats(&[3, 5])).int("k", 2).outputs(2).agrees();
    Case::new("TopK", 11).data(floats(&[3, 5])).constant(ints(&[0])).outputs(2).agrees();
}

#[test]
fn hardmax() {
    let ties = f32s(&[1.0, 3.0, 3.0, 2.0]);
    Case::new("Hardmax", 13).data(ties).agrees();
    for axis in [0, 1, -1] {
        Case::new("Hardmax", 13).data(floats(&[2, 3, 4])).int("axis", axis).dynamic(&[0, 1]).agrees();
        Case::new("Hardmax", 11).data(floats(&[2, 3, 4])).int("axis", axis).agrees();
    }
}
