//! Reading between elements: grids, moved windows, regions.

use super::{Case, floats, floats_from, halves, integers, ints};
use infc_ir::op::Op;
use infc_tensor::Tensor;

#[test]
fn grids_in_all_modes() {
    let shapes: [(&[usize], &[usize]); 3] =
        [(&[2, 3, 5], &[2, 4, 1]), (&[2, 3, 4, 5], &[2, 3, 2, 2]), (&[1, 2, 3, 2, 4], &[1, 2, 3, 2, 3])];
    for (x, grid) in shapes {
        for mode in ["nearest", "linear", "cubic"] {
            for padding in ["zeros", "border", "reflection"] {
                for align in [0, 1] {
                    Case::new("GridSample", 22)
                        .data(floats(x))
                        .data(floats_from(grid, -1.6, 1.7))
                        .text("mode", mode)
                        .text("padding_mode", padding)
                        .int("align_corners", align)
                        .tolerance(1e-4)
                        .dynamic(&[0, 2])
                        .agrees();
                }
            }
        }
    }
}

#[test]
fn grids_of_other_types() {
    let grid = || floats_from(&[1, 2, 3, 2], -1.2, 1.2);
    Case::new("GridSample", 16)
        .data(halves(&[1, 2, 4, 3]))
        .data(grid())
        .text("mode", "bilinear")
        .tolerance(4e-3)
        .agrees();
    let bytes = integers::<u8>(&[1, 2, 4, 3], 0, 255);
    Case::new("GridSample", 22).data(bytes).data(grid()).text("mode", "nearest").agrees();
    let single = floats(&[1, 1, 1, 1]);
    for padding in ["zeros", "border", "reflection"] {
        let case = Case::new("GridSample", 22).data(single.clone()).data(grid()).int("align_corners", 1);
        case.text("padding_mode", padding).agrees();
    }
}

#[test]
fn grids_of_affine_maps() {
    for align in [0, 1] {
        for size in [[2, 3, 4, 5], [2, 1, 1, 3]] {
            Case::new("AffineGrid", 20)
                .data(floats(&[2, 2, 3]))
                .constant(ints(&size))
                .int("align_corners", align)
                .dynamic(&[0])
                .agrees();
        }
        let case = Case::new("AffineGrid", 20).data(floats(&[1, 3, 4])).constant(ints(&[1, 2, 2, 3, 4]));
        case.int("align_corners", align).agrees();
    }
}

#[test]
fn moved_windows() {
    let case = |channels: usize, group: usize, offsets: usize| {
        Case::new("DeformConv", 22)
            .data(floats(&[2, channels, 5, 6]))
            .constant(floats(&[4, channels / group, 3, 2]))
            .data(floats(&[2, offsets * 12, 3, 5]))
            .int("group", group as i64)
            .int("offset_group", offsets as i64)
            .tolerance(1e-4)
    };
    case(4, 1, 1).agrees();
    case(4, 2, 1).constant(floats(&[4])).agrees();
    case(4, 1, 2).absent().data(floats(&[2, 12, 3, 5])).agrees();
    case(4, 4, 4).dynamic(&[0]).agrees();
    let strided = Case::new("DeformConv", 19)
        .data(floats(&[1, 2, 7, 7]))
        .constant(floats(&[3, 2, 2, 2]))
        .data(floats(&[1, 8, 4, 3]))
        .ints("strides", &[2, 2])
        .ints("pads", &[1, 0, 1, 0])
        .ints("dilations", &[2, 2]);
    strided.tolerance(1e-4).agrees();
    let volume = Case::new("DeformConv", 22)
        .data(floats(&[1, 2, 3, 3, 3]))
        .constant(floats(&[2, 2, 2, 2, 2]))
        .data(floats(&[1, 24, 2, 2, 2]));
    volume.tolerance(1e-4).agrees();
}

fn boxes() -> Tensor {
    let corners = [0.0f32, 0.0, 9.0, 7.0, 2.5, 1.5, 4.0, 6.0, 5.0, 5.0, 14.0, 13.0, 3.0, 3.0, 2.0, 2.5];
    Tensor::from_elements(&[4, 4], &corners).expect("four boxes")
}

#[test]
fn aligned_regions() {
    let images = || Tensor::from_elements(&[4], &[0i64, 1, 1, 0]).expect("four");
    for (opset, transform) in [(10, ""), (16, "half_pixel"), (22, "output_half_pixel")] {
        for mode in ["avg", "max"] {
            let mut case = Case::new("RoiAlign", opset)
                .data(floats(&[2, 3, 6, 8]))
                .data(boxes())
                .data(images())
                .text("mode", mode)
                .int("output_height", 2)
                .int("output_width", 3)
                .int("sampling_ratio", 2)
                .float("spatial_scale", 0.5)
                .tolerance(1e-4);
            if !transform.is_empty() {
                case = case.text("coordinate_transformation_mode", transform);
            }
            case.agrees();
        }
    }
}

/// As many samples as a bin is long: long and short boxes, some of them empty, inside out, or outside of the image.
#[test]
fn regions_that_say_how_many_samples_they_have() {
    let rows: [[f32; 4]; 7] = [
        [1.0, 1.0, 14.0, 10.0],
        [0.0, 0.0, 4.0, 3.0],
        [-30.0, -9.0, 40.0, 31.0],
        [3.0, 2.0, 3.0, 2.0],
        [9.0, 8.0, 2.0, 1.0],
        [60.0, 50.0, 70.0, 60.0],
        [2.5, 1.25, 13.75, 3.0],
    ];
    let boxes = Tensor::from_elements(&[7, 4], &rows.concat()).expect("seven boxes");
    let images = || Tensor::from_elements(&[7], &[1i64, 0, 1, 0, 0, 1, 0]).expect("one per box");
    for (opset, transform) in [(10, ""), (16, "half_pixel"), (22, "output_half_pixel")] {
        for (height, width, scale) in [(2, 3, 0.5), (1, 1, 1.0), (7, 5, 0.25)] {
            for mode in ["avg", "max"] {
                let mut case = Case::new("RoiAlign", opset)
                    .data(floats(&[2, 3, 6, 8]))
                    .data(boxes.clone())
                    .data(images())
                    .text("mode", mode)
                    .int("output_height", height)
                    .int("output_width", width)
                    .float("spatial_scale", scale)
                    .tolerance(1e-4);
                if !transform.is_empty() {
                    case = case.text("coordinate_transformation_mode", transform);
                }
                let graph = case.dynamic(&[0]).agrees();
                let on_host = graph.nodes.iter().any(|node| matches!(node.op, Op::Host(_)));
                assert_eq!(on_host, mode == "max");
            }
        }
    }
}

#[test]
fn pooled_regions() {
    let rows = [0.0f32, 0.0, 0.0, 7.0, 5.0, 1.0, 2.0, 1.0, 4.0, 3.0, 1.0, 6.0, 4.0, 20.0, 20.0];
    let boxes = Tensor::from_elements(&[3, 5], &rows).expect("three boxes");
    Case::new("MaxRoiPool", 7)
        .data(floats(&[2, 2, 6, 8]))
        .data(boxes)
        .ints("pooled_shape", &[2, 3])
        .float("spatial_scale", 0.8)
        .agrees();
}
