//! Reductions, scans, softmax and normalizations.

mod support;

use infc_tensor::{DType, Tensor};
use support::{assert_close, floats, ints, iota, op, t, vector};

#[test]
fn axes_are_an_attribute_first_and_an_input_later() {
    let x = iota(&[2, 3]);
    let axes = vector(&[1i64]);
    assert_eq!(op("ReduceSum", 11).with("axes", vec![1i64]).run(&[&x]), t(&[2, 1], &[3.0f32, 12.0]));
    assert_eq!(op("ReduceSum", 13).with("keepdims", 0i64).run(&[&x, &axes]), t(&[2], &[3.0f32, 12.0]));
    assert_eq!(op("ReduceMax", 13).with("axes", vec![-1i64]).run(&[&x]), t(&[2, 1], &[2.0f32, 5.0]));
    assert_eq!(op("ReduceMax", 18).run(&[&x, &axes]), t(&[2, 1], &[2.0f32, 5.0]));
    assert_eq!(op("ReduceSum", 13).run(&[&x]), t(&[1, 1], &[15.0f32]));
    assert_eq!(op("ReduceSum", 13).with("noop_with_empty_axes", 1i64).run(&[&x]), x);
}

#[test]
fn reductions_match_their_formulas() {
    let x = vector(&[1.0f32, -2.0, 3.0]);
    let run = |name| floats(&op(name, 18).with("keepdims", 0i64).run(&[&x]))[0];
    assert_eq!(run("ReduceMean"), 2.0 / 3.0);
    assert_eq!(run("ReduceProd"), -6.0);
    assert_eq!(run("ReduceL1"), 6.0);
    assert_eq!(run("ReduceL2"), 14f32.sqrt());
    assert_eq!(run("ReduceSumSquare"), 14.0);
    assert_eq!(run("ReduceLogSum"), 2f32.ln());
    assert_eq!(run("ReduceLogSumExp"), (1f64.exp() + (-2f64).exp() + 3f64.exp()).ln() as f32);
    let large = vector(&[1000.0f32, 1000.0]);
    assert_close(&op("ReduceLogSumExp", 18).run(&[&large]), &[1], &[1_000.693_1]);
}

#[test]
fn nothing_reduces_to_the_neutral_element() {
    let nothing = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
    let run = |name| floats(&op(name, 20).with("keepdims", 0i64).run(&[&nothing, &vector(&[1i64])]));
    assert_eq!(run("ReduceSum"), [0.0, 0.0]);
    assert_eq!(run("ReduceProd"), [1.0, 1.0]);
    assert_eq!(run("ReduceMax"), [f32::NEG_INFINITY; 2]);
    assert_eq!(run("ReduceMin"), [f32::INFINITY; 2]);
    assert_eq!(run("ReduceLogSumExp"), [f32::NEG_INFINITY; 2]);
    let nothing = Tensor::zeros(DType::I8, &[0]).unwrap();
    assert_eq!(ints(&op("ReduceMax", 20).run(&[&nothing])), [-128]);
}

#[test]
fn sums_are_rounded_once() {
    // In f32 each of the ones would be lost beside 2^24.
    let x = vector(&[16_777_216.0f32, 1.0, 1.0]);
    assert_eq!(floats(&op("ReduceSum", 13).run(&[&x])), [16_777_218.0]);
}

#[test]
fn arg_max_takes_the_first_or_the_last_of_equals() {
    let x = t(&[2, 3], &[2.0f32, 2.0, 1.0, 3.0, 10.0, 10.0]);
    assert_eq!(op("ArgMax", 13).with("axis", 1i64).run(&[&x]), t(&[2, 1], &[0i64, 1]));
    let last = op("ArgMax", 13).with("axis", 1i64).with("select_last_index", 1i64).with("keepdims", 0i64);
    assert_eq!(last.run(&[&x]), t(&[2], &[1i64, 2]));
    assert_eq!(op("ArgMin", 13).run(&[&x]), t(&[1, 3], &[0i64, 0, 0]));
}

#[test]
fn cum_sum_can_exclude_and_reverse() {
    let x = vector(&[1.0f32, 2.0, 3.0]);
    let axis = Tensor::scalar(0i64);
    let run = |exclusive: i64, reverse: i64| {
        floats(&op("CumSum", 14).with("exclusive", exclusive).with("reverse", reverse).run(&[&x, &axis]))
    };
    assert_eq!(run(0, 0), [1.0, 3.0, 6.0]);
    assert_eq!(run(1, 0), [0.0, 1.0, 3.0]);
    assert_eq!(run(0, 1), [6.0, 5.0, 3.0]);
    assert_eq!(run(1, 1), [5.0, 3.0, 0.0]);
}

#[test]
fn softmax_flattened_before_opset_13() {
    let x = Tensor::zeros(DType::F32, &[2, 2, 2]).unwrap();
    assert_eq!(floats(&op("Softmax", 11).run(&[&x])), [0.25; 8]);
    assert_eq!(floats(&op("Softmax", 13).run(&[&x])), [0.5; 8]);
    let x = vector(&[-1.0f32, 0.0, 1.0]);
    assert_close(&op("Softmax", 13).run(&[&x]), &[3], &[0.090_030_57, 0.244_728_48, 0.665_240_94]);
    assert_close(&op("LogSoftmax", 13).run(&[&x]), &[3], &[-2.407_606, -1.407_605_9, -0.407_605_93]);
    let large = vector(&[10_000.0f32, 10_001.0]);
    assert_close(&op("Softmax", 13).run(&[&large]), &[2], &[0.268_941_43, 0.731_058_6]);
    assert_eq!(floats(&op("Hardmax", 13).run(&[&vector(&[0.0f32, 3.0, 3.0])])), [0.0, 1.0, 0.0]);
}

#[test]
fn layer_normalization_returns_its_statistics() {
    let x = t(&[1, 2], &[1.0f32, 3.0]);
    let node = op("LayerNormalization", 17).with("epsilon", 0.0f32).outputs(3);
    let outputs = node.all(&[&x, &vector(&[2.0f32, 2.0]), &vector(&[1.0f32, 1.0])]);
    assert_eq!(outputs, [t(&[1, 2], &[-1.0f32, 3.0]), t(&[1, 1], &[2.0f32]), t(&[1, 1], &[1.0f32])]);
}

#[test]
fn batch_normalization_in_inference_and_training() {
    let x = t(&[2, 1, 1], &[1.0f32, 3.0]);
    let one = vector(&[1.0f32]);
    let zero = vector(&[0.0f32]);
    let inputs = [&x, &one, &zero, &one, &vector(&[4.0f32])];
    let inference = op("BatchNormalization", 15).with("epsilon", 0.0f32);
    assert_eq!(floats(&inference.run(&inputs)), [0.0, 1.0]);
    let training = op("BatchNormalization", 15).with("epsilon", 0.0f32).with("training_mode", 1i64).outputs(3);
    let outputs = training.all(&inputs);
    assert_eq!(floats(&outputs[0]), [-1.0, 1.0]);
    // running = running · 0.9 + batch · 0.1
    assert_close(&outputs[1], &[1], &[1.1]);
    assert_close(&outputs[2], &[1], &[3.7]);
}

#[test]
fn group_normalization_changed_its_parameters() {
    let x = t(&[1, 4, 1], &[0.0f32, 2.0, 10.0, 14.0]);
    let node = |opset| op("GroupNormalization", opset).with("num_groups", 2i64).with("epsilon", 0.0f32);
    let per_group = [&x, &vector(&[1.0f32, 2.0]), &vector(&[0.0f32, 5.0])];
    assert_eq!(floats(&node(18).run(&per_group)), [-1.0, 1.0, 3.0, 7.0]);
    let per_channel = [&x, &vector(&[1.0f32, 2.0, 3.0, 4.0]), &vector(&[0.0f32; 4])];
    assert_eq!(floats(&node(21).run(&per_channel)), [-1.0, 2.0, -3.0, 4.0]);
}

#[test]
fn other_normalizations() {
    let x = t(&[1, 1, 2], &[1.0f32, 3.0]);
    let one = vector(&[1.0f32]);
    let instance = op("InstanceNormalization", 6).with("epsilon", 0.0f32);
    assert_eq!(floats(&instance.run(&[&x, &one, &one])), [0.0, 2.0]);
    assert_close(&op("LpNormalization", 22).run(&[&vector(&[3.0f32, 4.0])]), &[2], &[0.6, 0.8]);
    assert_eq!(floats(&op("LpNormalization", 22).run(&[&vector(&[0.0f32, 0.0])])), [0.0, 0.0]);
    let lrn = op("LRN", 13).with("size", 3i64).with("alpha", 3.0f32).with("beta", 1.0f32);
    // x / (1 + Σ x²) over up to three channels.
    assert_close(&lrn.run(&[&t(&[1, 2, 1], &[1.0f32, 2.0])]), &[1, 2, 1], &[1.0 / 6.0, 2.0 / 6.0]);
}
