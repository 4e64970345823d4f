//! Windows put back, determinants, caches.

use super::{Case, counting, floats, ints};
use infc_tensor::Tensor;

#[test]
fn blocks_added_up() {
    let case = |x: &[usize], image: &[i64], block: &[i64]| {
        Case::new("Col2Im", 18).data(floats(x)).constant(ints(image)).constant(ints(block))
    };
    case(&[1, 5, 5], &[5, 5], &[1, 5]).dynamic(&[0]).agrees();
    case(&[1, 5, 5], &[5, 5], &[1, 5]).is_of_kernels_at_run_time();
    case(&[2, 12, 6], &[4, 4], &[2, 3]).is_of_kernels_at_run_time();
    case(&[1, 9, 4], &[5, 5], &[3, 3]).ints("strides", &[2, 2]).is_of_kernels_at_run_time();
    // Blocks side by side, with gaps between them, and that overlap in part.
    case(&[2, 12, 4], &[4, 6], &[2, 3]).ints("strides", &[2, 3]).is_of_kernels_at_run_time();
    case(&[1, 4, 4], &[5, 6], &[2, 2]).ints("strides", &[3, 4]).is_of_kernels_at_run_time();
    case(&[1, 8, 9], &[8, 9], &[4, 2]).ints("strides", &[3, 4]).ints("pads", &[1, 1, 2, 0]).is_of_kernels_at_run_time();
    case(&[1, 5, 15], &[5, 5], &[1, 5]).ints("pads", &[0, 1, 0, 1]).is_of_kernels_at_run_time();
    case(&[1, 4, 5], &[6, 6], &[2, 2]).ints("dilations", &[1, 5]).is_of_kernels_at_run_time();
    case(&[1, 8, 8], &[3, 3, 3], &[2, 2, 2]).is_of_kernels_at_run_time();
    Case::new("Col2Im", 18).data(counting(&[1, 4, 9])).constant(ints(&[4, 4])).constant(ints(&[2, 2])).agrees();
}

#[test]
fn maxima_put_back() {
    for (shape, indices) in [([1, 1, 2, 2], [5i64, 7, 13, 15]), ([1, 1, 2, 2], [0, 3, 8, 10])] {
        let indices = Tensor::from_elements(&shape, &indices).expect("four");
        let case = || {
            Case::new("MaxUnpool", 11)
                .data(floats(&shape))
                .data(indices.clone())
                .ints("kernel_shape", &[2, 2])
                .ints("strides", &[2, 2])
        };
        case().agrees();
        case().constant(ints(&[1, 1, 5, 5])).agrees();
    }
}

#[test]
fn maxima_and_where_they_are() {
    for (pads, strides) in [([0, 0, 0, 0], [1, 1]), ([1, 1, 1, 1], [2, 2]), ([0, 1, 1, 0], [2, 1])] {
        for order in [0, 1] {
            Case::new("MaxPool", 12)
                .data(floats(&[2, 3, 5, 6]))
                .ints("kernel_shape", &[2, 3])
                .ints("pads", &pads)
                .ints("strides", &strides)
                .int("storage_order", order)
                .int("ceil_mode", order)
                .outputs(2)
                .dynamic(&[0])
                .agrees();
        }
    }
    // The first of equal ones.
    let equal = Tensor::from_elements(&[1, 1, 4], &[1i8, 1, 1, 1]).expect("four");
    Case::new("MaxPool", 12).data(equal).ints("kernel_shape", &[3]).ints("dilations", &[1]).outputs(2).agrees();
}

#[test]
fn determinants() {
    for shape in [vec![1, 1], vec![2, 2], vec![3, 3], vec![2, 3, 4, 4], vec![9, 9]] {
        Case::new("Det", 22).data(floats(&shape)).tolerance(1e-4).agrees();
    }
    let singular = Tensor::from_elements(&[3, 3], &[0.0f32, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0]).expect("nine");
    Case::new("Det", 11).data(singular).agrees();
    Case::new("Det", 11).data(floats(&[3, 2, 2])).dynamic(&[0]).agrees();
}

#[test]
fn caches_written_at_positions() {
    let starts = || Tensor::from_elements(&[2], &[1i64, 3]).expect("two");
    let case = |axis: i64| {
        let (cache, update) = if axis == 1 { ([2, 5, 3], [2, 2, 3]) } else { ([2, 3, 5], [2, 3, 2]) };
        Case::new("TensorScatter", 24).data(floats(&cache)).data(floats(&update)).int("axis", axis)
    };
    case(1).data(starts()).agrees();
    case(-1).data(starts()).dynamic(&[0]).agrees();
    case(1).agrees();
    let late = Tensor::from_elements(&[2], &[4i64, 8]).expect("two");
    case(1).data(late).text("mode", "circular").agrees();
}
