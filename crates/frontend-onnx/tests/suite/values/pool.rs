//! Pools.

use super::{Case, floats, halves};
use infc_tensor::Tensor;

fn pool(op: &'static str, x: &[usize], kernel: &[i64]) -> Case {
    Case::new(op, 19).data(floats(x)).ints("kernel_shape", kernel)
}

#[test]
fn windows_of_all_kinds() {
    for op in ["MaxPool", "AveragePool", "LpPool"] {
        pool(op, &[2, 3, 9], &[3]).dynamic(&[0, 2]).agrees();
        pool(op, &[1, 2, 7, 8], &[2, 3]).ints("strides", &[2, 2]).dynamic(&[2, 3]).agrees();
        pool(op, &[1, 2, 7, 8], &[3, 3]).ints("pads", &[1, 0, 1, 2]).dynamic(&[2, 3]).agrees();
        pool(op, &[1, 2, 7, 8], &[3, 3]).ints("strides", &[2, 2]).int("ceil_mode", 1).dynamic(&[2, 3]).agrees();
        pool(op, &[1, 2, 7, 8], &[2, 2]).ints("dilations", &[2, 3]).agrees();
        pool(op, &[1, 1, 4, 4, 5], &[2, 2, 2]).agrees();
        pool(op, &[1, 2, 5, 5], &[1, 1]).ints("strides", &[2, 2]).agrees();
        for auto_pad in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
            pool(op, &[1, 2, 7, 8], &[3, 2]).ints("strides", &[2, 2]).text("auto_pad", auto_pad).agrees();
        }
    }
}

#[test]
fn averages_may_count_padding() {
    let case = || pool("AveragePool", &[1, 2, 6, 7], &[3, 3]).int("count_include_pad", 1);
    case().ints("pads", &[1, 1, 1, 1]).agrees();
    case().ints("pads", &[1, 1, 1, 1]).ints("strides", &[2, 2]).int("ceil_mode", 1).agrees();
    pool("AveragePool", &[1, 2, 9], &[3]).ints("dilations", &[2]).ints("pads", &[2, 1]).agrees();
    Case::new("AveragePool", 11).data(halves(&[1, 2, 8])).ints("kernel_shape", &[3]).tolerance(2e-3).agrees();
}

#[test]
fn integers_have_maxima() {
    let bytes: Vec<i8> = (0..16).map(|n| (n * 37 % 256) as u8 as i8).collect();
    let x = Tensor::from_elements(&[1, 1, 4, 4], &bytes).expect("16 bytes");
    Case::new("MaxPool", 12).data(x).ints("kernel_shape", &[2, 2]).ints("pads", &[1, 1, 1, 1]).agrees();
}

#[test]
fn global_pools() {
    for op in ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"] {
        Case::new(op, 11).data(floats(&[2, 3, 4, 5])).dynamic(&[0, 2, 3]).agrees();
        Case::new(op, 11).data(floats(&[2, 3, 7])).agrees();
    }
}

#[test]
fn lp_pools_have_other_powers() {
    pool("LpPool", &[1, 2, 7], &[3]).int("p", 1).agrees();
    pool("LpPool", &[1, 2, 7], &[3]).int("p", 3).agrees();
}

/// As [`large_windows_have_maxima`], with as many elements as count.
#[test]
fn large_windows_have_means() {
    let case = |kernel: &[i64]| pool("AveragePool", &[1, 2, 11, 12], kernel);
    for include in [0, 1] {
        let case = |kernel: &[i64]| case(kernel).int("count_include_pad", include);
        case(&[5, 5]).ints("pads", &[2, 2, 2, 2]).dynamic(&[2, 3]).agrees();
        case(&[5, 7]).ints("strides", &[1, 3]).ints("pads", &[0, 3, 4, 1]).int("ceil_mode", 1).agrees();
        case(&[4, 4]).ints("dilations", &[2, 3]).text("auto_pad", "SAME_UPPER").agrees();
        // A single window has nothing to share.
        case(&[11, 12]).agrees();
    }
}

/// Windows of so many elements that they are folded along one axis after the other.
#[test]
fn large_windows_have_maxima() {
    let case = |kernel: &[i64]| pool("MaxPool", &[1, 2, 11, 12], kernel);
    case(&[5, 5]).ints("pads", &[2, 2, 2, 2]).dynamic(&[2, 3]).agrees();
    case(&[5, 7]).ints("strides", &[1, 3]).ints("pads", &[0, 3, 4, 1]).int("ceil_mode", 1).agrees();
    case(&[4, 4]).ints("dilations", &[2, 3]).text("auto_pad", "SAME_UPPER").agrees();
    pool("MaxPool", &[1, 1, 6, 7, 8], &[3, 3, 3]).ints("pads", &[1; 6]).agrees();
    case(&[5, 5]).ints("pads", &[2, 2, 2, 2]).outputs(2).agrees();
    let odd: Vec<f32> = (0..64).map(|n| if n % 23 == 5 { f32::NAN } else { -(n as f32) }).collect();
    let odd = Tensor::from_elements(&[1, 1, 8, 8], &odd).expect("64 numbers");
    Case::new("MaxPool", 19).data(odd).ints("kernel_shape", &[5, 5]).ints("pads", &[2, 2, 2, 2]).agrees();
}
