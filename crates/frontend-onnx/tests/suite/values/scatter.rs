//! ScatterElements, ScatterND and their reductions.

use super::{Case, floats, halves};
use infc_tensor::Tensor;

const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

fn indices(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_elements(shape, values).expect("as many as the shape has")
}

#[test]
fn elements() {
    for reduction in REDUCTIONS {
        let at = || indices(&[2, 3], &[1, 0, -1, 2, -3, 3]);
        let case = |axis| Case::new("ScatterElements", 18).int("axis", axis).text("reduction", reduction);
        case(0).data(floats(&[4, 3])).data(at()).data(floats(&[2, 3])).dynamic(&[0]).agrees();
        case(1).data(floats(&[2, 4])).data(at()).data(floats(&[2, 3])).agrees();
        // Fewer updates than the data has rows.
        case(1).data(floats(&[3, 4])).data(at()).data(floats(&[2, 3])).dynamic(&[0, 1]).agrees();
    }
    let at = indices(&[1, 2], &[1, 3]);
    Case::new("Scatter", 9).data(floats(&[1, 5])).data(at).data(floats(&[1, 2])).int("axis", 1).agrees();
}

#[test]
fn updates_for_one_element_combine() {
    for reduction in &REDUCTIONS[1..] {
        let case = |op| Case::new(op, 18).text("reduction", reduction);
        let at = indices(&[3], &[1, 1, 1]);
        case("ScatterElements").data(floats(&[4])).data(at).data(floats(&[3])).agrees();
        let rows = indices(&[3, 1], &[2, 2, -2]);
        case("ScatterND").data(floats(&[4, 2])).data(rows).data(floats(&[3, 2])).agrees();
    }
    let rows = indices(&[2, 1], &[0, 0]);
    Case::new("ScatterND", 18)
        .text("reduction", "add")
        .data(halves(&[2, 3]))
        .data(rows)
        .data(halves(&[2, 3]))
        .tolerance(2e-3)
        .agrees();
}

#[test]
fn slices_by_tuples() {
    for reduction in REDUCTIONS {
        let case = || Case::new("ScatterND", 18).text("reduction", reduction);
        let x = || floats(&[4, 3, 2]);
        case().data(x()).data(indices(&[2, 1], &[3, 1])).data(floats(&[2, 3, 2])).dynamic(&[0, 1]).agrees();
        case().data(x()).constant(indices(&[2, 2], &[0, 2, -1, 0])).data(floats(&[2, 2])).dynamic(&[0]).agrees();
        case().data(x()).data(indices(&[1, 2, 3], &[0, 2, 1, 3, 0, -2])).data(floats(&[1, 2])).agrees();
    }
}
