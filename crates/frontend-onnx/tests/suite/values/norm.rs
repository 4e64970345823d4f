//! Normalisations.

use super::{Case, floats, floats_from, halves};

#[test]
fn batch_norm_with_constant_and_given_statistics() {
    let x = || Case::new("BatchNormalization", 15).data(floats(&[2, 3, 4, 5]));
    let variance = || floats_from(&[3], 0.5, 2.0);
    x().constant(floats(&[3]))
        .constant(floats_from(&[3], 0.0, 1.0))
        .constant(floats_from(&[3], -1.0, 1.0))
        .constant(variance())
        .dynamic(&[0, 2])
        .agrees();
    x().data(floats(&[3])).data(floats(&[3])).data(floats(&[3])).data(variance()).float("epsilon", 0.01).agrees();
}

#[test]
fn layer_norm_over_trailing_axes() {
    let case = |axis: i64, parameters: &[usize]| {
        let case = Case::new("LayerNormalization", 17).data(floats(&[2, 3, 4])).constant(floats(parameters));
        case.int("axis", axis)
    };
    case(-1, &[4]).dynamic(&[0, 1]).agrees();
    case(-1, &[4]).constant(floats(&[4])).agrees();
    case(1, &[3, 4]).constant(floats(&[3, 4])).agrees();
    case(0, &[2, 3, 4]).agrees();
    case(-1, &[4]).constant(floats(&[4])).outputs(3).agrees();
    Case::new("LayerNormalization", 17).data(halves(&[3, 8])).constant(halves(&[8])).tolerance(4e-3).agrees();
}

#[test]
fn other_norms() {
    Case::new("RMSNormalization", 23).data(floats(&[2, 3, 4])).constant(floats(&[4])).agrees();
    Case::new("InstanceNormalization", 17)
        .data(floats(&[2, 3, 4, 5]))
        .constant(floats(&[3]))
        .constant(floats(&[3]))
        .dynamic(&[0, 2])
        .agrees();
    Case::new("GroupNormalization", 21)
        .data(floats(&[2, 6, 4, 5]))
        .constant(floats(&[6]))
        .constant(floats(&[6]))
        .int("num_groups", 3)
        .agrees();
    Case::new("GroupNormalization", 18)
        .data(floats(&[2, 6, 4]))
        .constant(floats(&[2]))
        .constant(floats(&[2]))
        .int("num_groups", 2)
        .agrees();
    for p in [1, 2] {
        Case::new("LpNormalization", 17).data(floats(&[3, 4])).int("axis", 0).int("p", p).agrees();
    }
    Case::new("MeanVarianceNormalization", 13).data(floats(&[2, 3, 4, 5])).agrees();
    Case::new("LRN", 13).data(floats(&[2, 5, 3])).int("size", 3).float("alpha", 0.1).agrees();
    Case::new("LRN", 13).data(floats(&[2, 5, 3, 2])).int("size", 4).float("beta", 0.5).float("bias", 2.0).agrees();
}
