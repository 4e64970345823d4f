//! GatherElements, GatherND, ReverseSequence.

use super::{Case, counting, floats, ints};
use infc_tensor::Tensor;

fn indices(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_elements(shape, values).expect("as many as the shape has")
}

#[test]
fn elements() {
    let at = || indices(&[2, 3], &[1, 0, -1, 2, -3, 0]);
    Case::new("GatherElements", 13).data(floats(&[2, 3])).data(at()).int("axis", 1).dynamic(&[0, 1]).agrees();
    Case::new("GatherElements", 13).data(floats(&[4, 3])).data(at()).int("axis", 0).agrees();
    Case::new("GatherElements", 11).data(floats(&[4, 5])).constant(at()).int("axis", 0).dynamic(&[0]).agrees();
    let narrow = Tensor::from_elements(&[2], &[1i32, -2]).expect("two");
    Case::new("GatherElements", 13).data(counting(&[5])).data(narrow).agrees();
}

#[test]
fn tuples() {
    let x = || floats(&[2, 3, 4]);
    Case::new("GatherND", 12).data(x()).data(indices(&[2, 2], &[0, 1, 1, -1])).dynamic(&[0]).agrees();
    Case::new("GatherND", 12).data(x()).data(indices(&[2, 3], &[0, 1, 2, 1, 2, -4])).agrees();
    Case::new("GatherND", 12).data(x()).data(indices(&[3, 1, 1], &[1, 0, -1])).agrees();
    Case::new("GatherND", 12).data(x()).data(indices(&[2, 1], &[2, 0])).int("batch_dims", 1).agrees();
    let at = indices(&[2, 3, 1], &[2, 0, 1, 3, 3, -2]);
    Case::new("GatherND", 12).data(x()).constant(at).int("batch_dims", 2).dynamic(&[0]).agrees();
}

#[test]
fn sequences_in_reverse() {
    let lengths = || ints(&[1, 3, 2]);
    let by_time = Case::new("ReverseSequence", 10).data(floats(&[4, 3, 2])).data(lengths());
    by_time.dynamic(&[0]).agrees();
    let by_batch = Case::new("ReverseSequence", 10).data(floats(&[3, 4])).data(lengths());
    by_batch.int("time_axis", 1).int("batch_axis", 0).dynamic(&[0]).agrees();
}
