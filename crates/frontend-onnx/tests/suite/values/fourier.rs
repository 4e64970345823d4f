//! Fourier transforms.

use super::{Case, floats, floats_from, ints};
use infc_tensor::Tensor;

fn at(axis: i64) -> Tensor {
    Tensor::scalar(axis)
}

#[test]
fn transforms_along_any_axis() {
    for parts in [1, 2] {
        for axis in [0, 1, -2] {
            for (inverse, one_sided) in [(0, 0), (1, 0), (0, 1)] {
                Case::new("DFT", 20)
                    .data(floats(&[3, 6, 5, parts]))
                    .absent()
                    .constant(at(axis))
                    .int("inverse", inverse)
                    .int("onesided", one_sided)
                    .tolerance(1e-4)
                    .agrees();
            }
        }
    }
    Case::new("DFT", 17).data(floats(&[2, 7, 1])).int("axis", 1).dynamic(&[1]).tolerance(1e-4).agrees();
    for length in [4, 9] {
        let case = Case::new("DFT", 20).data(floats(&[2, 6, 2])).constant(Tensor::scalar(length as i64));
        case.tolerance(1e-4).agrees();
    }
}

#[test]
fn real_signals_from_half_of_their_bins() {
    for (bins, length) in [(4, None), (4, Some(7)), (5, Some(6)), (3, Some(8))] {
        let case = Case::new("DFT", 20).data(floats(&[2, bins, 2])).int("inverse", 1).int("onesided", 1);
        let case = match length {
            Some(length) => case.constant(Tensor::scalar(length as i64)),
            None => case,
        };
        case.tolerance(1e-4).agrees();
    }
}

#[test]
fn long_transforms_are_taken_apart() {
    // Two factors, three, and a prime.
    for length in [96, 4096, 67] {
        for parts in [1, 2] {
            for inverse in [0, 1] {
                let x = floats(&[1, length, parts]);
                Case::new("DFT", 20).data(x).int("inverse", inverse).tolerance(2e-3).agrees();
            }
        }
    }
}

#[test]
fn transforms_of_frames() {
    let case = |parts: usize| Case::new("STFT", 17).data(floats(&[2, 20, parts])).constant(at(3));
    case(1).absent().constant(at(8)).tolerance(1e-4).agrees();
    case(1).data(floats_from(&[7], 0.0, 1.0)).tolerance(1e-4).agrees();
    case(2).data(floats_from(&[6], 0.0, 1.0)).constant(at(6)).int("onesided", 0).tolerance(1e-4).agrees();
    case(1).constant(floats_from(&[5], 0.0, 1.0)).dynamic(&[0, 1]).tolerance(1e-4).agrees();
}

#[test]
fn mel_bands() {
    for (bands, length) in [(8, 16), (4, 33)] {
        Case::new("MelWeightMatrix", 17)
            .constant(ints(&[bands]))
            .constant(ints(&[length]))
            .constant(ints(&[8192]))
            .constant(Tensor::scalar(0.0f32))
            .constant(Tensor::scalar(4096.0f32))
            .agrees();
    }
}
