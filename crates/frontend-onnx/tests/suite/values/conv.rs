//! Convolutions.

use super::{Case, floats, halves};
use infc_ir::op::Op;

fn conv(x: &[usize], w: &[usize]) -> Case {
    Case::new("Conv", 11).data(floats(x)).constant(floats(w))
}

#[test]
fn one_two_and_three_axes() {
    conv(&[2, 3, 9], &[4, 3, 3]).dynamic(&[0, 2]).agrees();
    conv(&[2, 3, 6, 7], &[4, 3, 3, 2]).dynamic(&[0, 2, 3]).agrees();
    conv(&[1, 2, 4, 5, 3], &[3, 2, 2, 3, 1]).dynamic(&[0, 2]).agrees();
}

#[test]
fn strides_pads_dilations() {
    let case = || conv(&[1, 2, 9, 8], &[3, 2, 3, 3]);
    case().ints("strides", &[2, 3]).dynamic(&[2, 3]).agrees();
    case().ints("pads", &[1, 2, 0, 1]).dynamic(&[2, 3]).agrees();
    case().ints("dilations", &[2, 1]).dynamic(&[2, 3]).agrees();
    case().ints("strides", &[2, 2]).ints("pads", &[1, 1, 1, 1]).ints("dilations", &[2, 2]).dynamic(&[2, 3]).agrees();
    for auto_pad in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        case().text("auto_pad", auto_pad).ints("strides", &[2, 3]).dynamic(&[2, 3]).agrees();
    }
}

#[test]
fn groups() {
    let case = |w: &[usize], group: i64| conv(&[2, 6, 5, 5], w).int("group", group).ints("pads", &[1, 1, 1, 1]);
    case(&[4, 3, 3, 3], 2).dynamic(&[0]).agrees();
    case(&[6, 1, 3, 3], 6).dynamic(&[0]).agrees();
    case(&[12, 1, 3, 3], 6).agrees();
    case(&[3, 2, 3, 3], 3).agrees();
}

#[test]
fn bias_and_half_precision() {
    conv(&[1, 2, 5], &[3, 2, 3]).constant(floats(&[3])).agrees();
    conv(&[1, 2, 5], &[3, 2, 3]).data(floats(&[3])).agrees();
    Case::new("Conv", 11).data(halves(&[1, 2, 5])).constant(halves(&[3, 2, 3])).tolerance(4e-3).agrees();
}

/// The labels of the contraction, and how many views there are.
fn form(case: &Case) -> (Vec<u8>, Vec<u8>, Vec<u8>, usize) {
    let graph = case.agrees();
    let ops = || graph.order.iter().map(|&n| &graph.nodes[n].op);
    let contract = ops().find_map(|op| if let Op::Contract(c) = op { Some(c.clone()) } else { None });
    let contract = contract.expect("a convolution is a contraction");
    let views = ops().filter(|op| matches!(op, Op::View(_))).count();
    (contract.lhs, contract.rhs, contract.output, views)
}

#[test]
fn no_labels_without_use() {
    // n, m, c, p, q: a 1×1 convolution reads its input as it is.
    assert_eq!(form(&conv(&[1, 4, 5, 5], &[3, 4, 1, 1])), (vec![0, 2, 3, 4], vec![1, 2], vec![0, 1, 3, 4], 0));
    // n, c, r, s, p, q: a depthwise one has a single channel label.
    let depthwise = conv(&[1, 4, 5, 5], &[4, 1, 3, 3]).int("group", 4);
    assert_eq!(form(&depthwise), (vec![0, 1, 2, 3, 4, 5], vec![1, 2, 3], vec![0, 1, 4, 5], 1));
    // n, m, c, r, s, p, q.
    let plain = conv(&[1, 4, 5, 5], &[2, 4, 3, 3]).ints("pads", &[1, 1, 1, 1]);
    assert_eq!(form(&plain), (vec![0, 2, 3, 4, 5, 6], vec![1, 2, 3, 4], vec![0, 1, 5, 6], 1));
}

#[test]
fn transposed() {
    let case = |x: &[usize], w: &[usize]| Case::new("ConvTranspose", 11).data(floats(x)).constant(floats(w));
    case(&[1, 2, 5], &[2, 3, 3]).dynamic(&[0, 2]).agrees();
    case(&[2, 2, 3, 4], &[2, 3, 3, 2]).ints("strides", &[2, 3]).dynamic(&[2]).agrees();
    case(&[1, 2, 3, 4], &[2, 3, 3, 3]).ints("pads", &[1, 0, 1, 2]).agrees();
    case(&[1, 2, 3, 4], &[2, 3, 3, 3]).ints("strides", &[2, 2]).ints("output_padding", &[1, 1]).agrees();
    case(&[1, 2, 3, 4], &[2, 3, 2, 2]).ints("dilations", &[2, 2]).agrees();
    case(&[1, 4, 3, 4], &[4, 2, 3, 3]).int("group", 2).constant(floats(&[4])).agrees();
    case(&[1, 2, 3, 3], &[2, 3, 3, 3]).ints("strides", &[2, 2]).ints("output_shape", &[7, 6]).agrees();
    // Phases with as many taps, with fewer, with none; strides and dilations with and without a common divisor.
    case(&[1, 2, 3, 4], &[2, 3, 4, 4]).ints("strides", &[2, 2]).ints("pads", &[1, 1, 1, 1]).agrees();
    case(&[1, 2, 5], &[2, 3, 8]).ints("strides", &[4]).ints("pads", &[2, 2]).dynamic(&[0, 2]).agrees();
    case(&[1, 2, 3, 4], &[2, 3, 1, 2]).ints("strides", &[3, 5]).ints("output_padding", &[1, 2]).agrees();
    for (stride, dilation) in [(2, 3), (3, 2), (2, 2), (4, 6), (6, 4), (1, 3)] {
        case(&[1, 2, 5], &[2, 3, 5]).ints("strides", &[stride]).ints("dilations", &[dilation]).agrees();
        let padded = case(&[1, 2, 6], &[2, 1, 3]).ints("strides", &[stride]).ints("dilations", &[dilation]);
        padded.ints("pads", &[1, 2]).agrees();
    }
    for auto_pad in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        case(&[1, 2, 3, 3], &[2, 3, 3, 3]).ints("strides", &[2, 2]).text("auto_pad", auto_pad).agrees();
    }
}
