//! Resizing.

use super::{Case, f32s, floats, halves, integers, ints};
use infc_ir::op::Op;
use infc_tensor::Tensor;

const TRANSFORMS: [&str; 5] =
    ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"];

fn resize(opset: i64, shape: &[usize], mode: &str, transform: &str) -> Case {
    Case::new("Resize", opset).data(floats(shape)).text("mode", mode).text("coordinate_transformation_mode", transform)
}

/// Many elements weighed are rounded, as ONNX Runtime does; two are rounded towards zero.
#[test]
fn integers_between_integers() {
    for (mode, antialias) in [("linear", 0), ("linear", 1), ("cubic", 1)] {
        let case = Case::new("Resize", 18).data(integers::<u8>(&[1, 1, 9, 8], 0, 255)).absent().absent();
        case.constant(ints(&[1, 1, 5, 3])).text("mode", mode).int("antialias", antialias).tolerance(0.0).agrees();
    }
}

#[test]
fn by_scales() {
    for mode in ["nearest", "linear", "cubic"] {
        for transform in TRANSFORMS {
            for scales in [[2.0, 3.0], [0.5, 0.6], [1.0, 1.7], [2.5, 0.8]] {
                let scales = f32s(&[1.0, 1.0, scales[0], scales[1]]);
                resize(19, &[1, 2, 6, 5], mode, transform).absent().constant(scales).agrees();
            }
        }
    }
}

#[test]
fn by_sizes() {
    for mode in ["nearest", "linear", "cubic"] {
        for transform in TRANSFORMS {
            for sizes in [[12, 10], [3, 2], [7, 9], [1, 1]] {
                let sizes = ints(&[1, 2, sizes[0], sizes[1]]);
                resize(19, &[1, 2, 6, 5], mode, transform).absent().absent().constant(sizes).agrees();
            }
        }
    }
}

/// Kernels compute the extents, and positions and weights from scales that are data.
#[test]
fn by_scales_of_the_run() {
    for mode in ["nearest", "linear", "cubic"] {
        for transform in TRANSFORMS {
            for scales in [[2.0, 3.0], [0.5, 0.6], [1.0, 1.7], [2.5, 0.8]] {
                let case =
                    resize(19, &[2, 6, 5], mode, transform).absent().constant(f32s(&[1.0, scales[0], scales[1]]));
                case.dynamic(&[1]).is_of_kernels_at_run_time();
            }
        }
    }
    for mode in ["linear", "cubic"] {
        for scales in [[0.4, 0.6], [1.5, 0.7]] {
            let case = resize(18, &[1, 6, 5], mode, "half_pixel").ints("axes", &[2, 1]).int("antialias", 1);
            case.absent().constant(f32s(&scales)).is_of_kernels_at_run_time();
        }
    }
    for (op, opset) in [("Resize", 10), ("Upsample", 9)] {
        for mode in ["nearest", "linear"] {
            let case = Case::new(op, opset).data(floats(&[1, 2, 4, 5])).constant(f32s(&[1.0, 1.0, 2.0, 1.5]));
            case.text("mode", mode).is_of_kernels_at_run_time();
        }
    }
}

#[test]
fn by_sizes_of_the_run_at_a_fixed_aspect() {
    for policy in ["not_larger", "not_smaller"] {
        for (mode, sizes) in [("linear", [9, 9]), ("nearest", [3, 8]), ("cubic", [6, 5]), ("linear", [1, 2])] {
            let case = resize(18, &[1, 2, 6, 5], mode, "half_pixel").ints("axes", &[2, 3]).absent().absent();
            let case = case.constant(ints(&sizes)).text("keep_aspect_ratio_policy", policy);
            case.dynamic(&[3]).is_of_kernels_at_run_time();
        }
    }
}

#[test]
fn nearest_rounds_in_four_ways() {
    for rounding in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] {
        for transform in TRANSFORMS {
            for scale in [2.0, 3.0, 1.5, 0.5] {
                resize(13, &[1, 1, 7], "nearest", transform)
                    .text("nearest_mode", rounding)
                    .absent()
                    .constant(f32s(&[1.0, 1.0, scale]))
                    .agrees();
            }
        }
    }
}

#[test]
fn some_axes_and_fixed_aspect() {
    let case = || resize(18, &[1, 2, 6, 5], "linear", "half_pixel").ints("axes", &[2, 3]).absent().absent();
    case().constant(ints(&[9, 4])).agrees();
    for policy in ["stretch", "not_larger", "not_smaller"] {
        case().constant(ints(&[9, 9])).text("keep_aspect_ratio_policy", policy).agrees();
    }
    resize(13, &[1, 1, 6, 5], "cubic", "half_pixel")
        .int("exclude_outside", 1)
        .float("cubic_coeff_a", -0.5)
        .absent()
        .constant(f32s(&[1.0, 1.0, 1.7, 0.8]))
        .agrees();
}

#[test]
fn older_forms() {
    for mode in ["nearest", "linear"] {
        Case::new("Resize", 10)
            .data(floats(&[1, 2, 4, 5]))
            .constant(f32s(&[1.0, 1.0, 2.0, 1.5]))
            .text("mode", mode)
            .agrees();
        Case::new("Upsample", 9)
            .data(floats(&[1, 2, 4, 5]))
            .constant(f32s(&[1.0, 1.0, 2.0, 3.0]))
            .text("mode", mode)
            .agrees();
        Case::new("Upsample", 7)
            .data(floats(&[1, 2, 4, 5]))
            .floats("scales", &[1.0, 1.0, 2.0, 3.0])
            .text("mode", mode)
            .agrees();
    }
}

#[test]
fn doubling_is_one_view_of_any_extent() {
    let case = resize(13, &[1, 2, 4, 5], "nearest", "asymmetric")
        .text("nearest_mode", "floor")
        .absent()
        .constant(f32s(&[1.0, 1.0, 2.0, 2.0]))
        .dynamic(&[2, 3]);
    let graph = case.agrees();
    assert!(graph.order.iter().all(|&n| matches!(graph.nodes[n].op, Op::View(_))));
    resize(13, &[1, 2, 4, 5], "nearest", "half_pixel")
        .absent()
        .constant(f32s(&[1.0, 1.0, 2.0, 3.0]))
        .dynamic(&[2, 3])
        .agrees();
}

#[test]
fn by_positions_that_are_computed() {
    for mode in ["nearest", "linear", "cubic"] {
        for transform in TRANSFORMS {
            let case = || resize(19, &[1, 2, 6, 5], mode, transform).dynamic(&[2, 3]).tolerance(1e-4);
            for scales in [[2.5, 3.0], [0.5, 0.6], [1.0, 1.7]] {
                case().absent().constant(f32s(&[1.0, 1.0, scales[0], scales[1]])).agrees();
            }
            case().absent().absent().constant(ints(&[1, 2, 9, 4])).agrees();
        }
    }
    let case = resize(13, &[1, 1, 6, 5], "cubic", "half_pixel").int("exclude_outside", 1).dynamic(&[2]);
    case.absent().constant(f32s(&[1.0, 1.0, 1.7, 0.8])).tolerance(1e-4).agrees();
}

#[test]
fn with_means_over_what_is_covered() {
    for mode in ["linear", "cubic"] {
        for scales in [[0.3, 0.5], [0.6, 1.0], [1.5, 0.7]] {
            for exclude in [0, 1] {
                resize(18, &[1, 2, 11, 10], mode, "half_pixel")
                    .int("antialias", 1)
                    .int("exclude_outside", exclude)
                    .absent()
                    .constant(f32s(&[1.0, 1.0, scales[0], scales[1]]))
                    .dynamic(&[2])
                    .tolerance(1e-4)
                    .agrees();
            }
        }
        // Long axes: the elements that count are few beside all.
        for exclude in [0, 1] {
            for scale in [0.4, 0.5, 0.95] {
                resize(18, &[1, 1, 3, 170], mode, "half_pixel")
                    .int("antialias", 1)
                    .int("exclude_outside", exclude)
                    .absent()
                    .constant(f32s(&[1.0, 1.0, 1.0, scale]))
                    .tolerance(1e-4)
                    .agrees();
            }
        }
        let case = resize(19, &[1, 1, 9, 8], mode, "half_pixel").int("antialias", 1).absent().absent();
        case.constant(ints(&[1, 1, 4, 3])).dynamic(&[2, 3]).tolerance(1e-4).agrees();
    }
}

#[test]
fn of_regions() {
    let regions = [[0.2f32, 0.4, 0.7, 0.8], [-0.3, 0.1, 1.2, 0.6], [0.9, 0.5, 0.1, 0.5]];
    for mode in ["nearest", "linear", "cubic"] {
        for region in regions {
            for sizes in [[3, 4], [1, 7]] {
                let case = |roi: Case| roi.absent().constant(ints(&sizes)).float("extrapolation_value", 9.5);
                let crop = || resize(19, &[1, 2, 6, 5], mode, "tf_crop_and_resize").ints("axes", &[2, 3]);
                case(crop().constant(f32s(&region))).tolerance(1e-4).agrees();
                case(crop().data(f32s(&region))).tolerance(1e-4).agrees();
            }
        }
    }
    let roi = f32s(&[0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 0.9, 0.7]);
    let case = resize(13, &[1, 1, 6, 7], "linear", "tf_crop_and_resize").constant(roi);
    case.constant(f32s(&[1.0, 1.0, 1.5, 9.0])).agrees();
}

#[test]
fn of_integers_and_halves() {
    for mode in ["linear", "cubic"] {
        let case = |x: Tensor| Case::new("Resize", 19).data(x).text("mode", mode).absent();
        case(integers::<u8>(&[1, 1, 4, 5], 0, 255)).constant(f32s(&[1.0, 1.0, 1.5, 2.0])).agrees();
        case(integers::<i32>(&[1, 1, 4, 5], -90, 90)).constant(f32s(&[1.0, 1.0, 0.5, 2.0])).agrees();
        case(halves(&[1, 1, 4, 5])).constant(f32s(&[1.0, 1.0, 1.5, 2.0])).tolerance(2e-3).agrees();
    }
}
