//! Operators as they were before opset 7: broadcasting along a given axis, and attributes that became inputs.

use super::{Case, code, floats, floats_from, halves, ints};
use infc_tensor::{DType, Tensor};

#[test]
fn second_operands_broadcast_along_a_given_axis() {
    for op in ["Add", "Sub", "Mul", "Div", "Less", "Greater"] {
        let case = |opset, shape: &[usize]| Case::new(op, opset).data(floats(&[2, 3, 4, 5])).data(floats(shape));
        for opset in [1, 6] {
            case(opset, &[2, 3, 4, 5]).dynamic(&[0]).agrees();
            case(opset, &[3, 4]).int("broadcast", 1).int("axis", 1).dynamic(&[0]).agrees();
            case(opset, &[2]).int("broadcast", 1).int("axis", 0).agrees();
            case(opset, &[4, 5]).int("broadcast", 1).agrees();
            case(opset, &[5]).int("broadcast", 1).int("axis", -1).agrees();
            case(opset, &[]).int("broadcast", 1).agrees();
            case(opset, &[1, 1]).int("broadcast", 1).agrees();
        }
        // From opset 7 on the attributes mean nothing.
        case(7, &[4, 5]).int("broadcast", 1).int("axis", 0).agrees();
    }
    Case::new("Pow", 1)
        .data(floats_from(&[2, 3], 0.1, 2.0))
        .data(floats(&[2]))
        .int("broadcast", 1)
        .int("axis", 0)
        .agrees();
    let bools = |shape: &[usize], values: &[bool]| Tensor::from_bools(shape, values).expect("as many as the shape has");
    for op in ["And", "Or", "Xor"] {
        let (a, b) = (bools(&[2, 2], &[true, false, true, false]), bools(&[2], &[true, false]));
        Case::new(op, 1).data(a).data(b).int("broadcast", 1).int("axis", 0).agrees();
    }
}

#[test]
fn elementwise_operators_of_the_first_opsets() {
    for op in
        ["Abs", "Ceil", "Floor", "Exp", "Neg", "Reciprocal", "Relu", "Sigmoid", "Tanh", "Elu", "LeakyRelu", "Selu"]
    {
        Case::new(op, 1).data(floats_from(&[2, 5], 0.5, 3.0)).ints("consumed_inputs", &[0]).agrees();
    }
    for op in ["Max", "Min", "Sum", "Mean"] {
        Case::new(op, 1).data(floats(&[2, 3])).data(floats_from(&[2, 3], 0.0, 1.0)).agrees();
    }
    Case::new("Selu", 1).data(floats(&[40])).tolerance(1e-6).agrees();
    Case::new("Clip", 1).data(floats(&[7])).float("max", 0.5).agrees();
    Case::new("PRelu", 6).data(floats(&[2, 3, 4])).data(floats(&[3])).dynamic(&[0, 2]).agrees();
    Case::new("PRelu", 1).data(floats(&[2, 3, 3])).data(floats(&[1])).agrees();
}

#[test]
fn types_are_named() {
    Case::new("Cast", 1).data(floats(&[5])).text("to", "FLOAT16").agrees();
    Case::new("Cast", 5).data(floats(&[5])).text("to", "INT64").agrees();
    Case::new("Cast", 6).data(floats(&[5])).int("to", code(DType::I32)).agrees();
}

#[test]
fn shapes_are_attributes() {
    Case::new("Reshape", 1).data(floats(&[2, 6])).ints("shape", &[0, 3, -1]).dynamic(&[0]).agrees();
    Case::new("Pad", 1).data(floats(&[2, 3])).ints("paddings", &[0, 1, 2, 0]).float("value", 1.5).agrees();
    Case::new("Concat", 1).data(floats(&[2, 3])).data(floats(&[2, 2])).agrees();
    Case::new("Tile", 1).data(floats(&[2, 3])).constant(Tensor::scalar(2i64)).constant(Tensor::scalar(1i64)).agrees();
    Case::new("Tile", 5).data(floats(&[2, 3])).constant(ints(&[3])).constant(ints(&[-2])).dynamic(&[0]).agrees();
    Case::new("Upsample", 1).data(floats(&[1, 2, 2, 3])).float("height_scale", 2.0).float("width_scale", 3.0).agrees();
    Case::new("Split", 1).data(floats(&[5, 2])).constant(ints(&[2, 3])).int("axis", 0).outputs(2).agrees();
    Case::new("Split", 1).data(floats(&[2, 5])).ints("split", &[1, 4]).int("axis", 1).outputs(2).agrees();
    Case::new("Split", 2).data(floats(&[4, 2])).outputs(2).agrees();
}

#[test]
fn masks_of_dropout_have_the_type_of_the_data() {
    for opset in [1, 6, 7] {
        Case::new("Dropout", opset).data(floats(&[3])).outputs(2).agrees();
        Case::new("Dropout", opset).data(halves(&[3])).int("is_test", 1).outputs(2).agrees();
    }
}

#[test]
fn exponents_of_norms_are_floats() {
    for op in ["LpPool", "GlobalLpPool"] {
        let case = Case::new(op, 1).data(floats(&[1, 2, 4, 4])).float("p", 3.0);
        if op == "LpPool" {
            case.ints("kernel_shape", &[2, 2]).agrees()
        } else {
            case.agrees()
        };
    }
}

#[test]
fn contractions_pools_and_norms() {
    let gemm = Case::new("Gemm", 6).data(floats(&[2, 3])).data(floats(&[3, 4])).data(floats(&[4]));
    gemm.int("broadcast", 1).float("beta", 0.5).dynamic(&[0]).agrees();
    Case::new("AveragePool", 1).data(floats(&[1, 2, 5])).ints("kernel_shape", &[2]).ints("pads", &[1, 0]).agrees();
    Case::new("InstanceNormalization", 1).data(floats(&[2, 3, 4])).data(floats(&[3])).data(floats(&[3])).agrees();
    let parameters = |case: Case, shape: &[usize], constant: bool| {
        let all = [floats(shape), floats(shape), floats(shape), floats_from(shape, 0.5, 2.0)];
        all.into_iter().fold(case, |case, t| if constant { case.constant(t) } else { case.data(t) })
    };
    for opset in [1, 6, 8] {
        for constant in [true, false] {
            let case = || Case::new("BatchNormalization", opset).data(floats(&[2, 3, 4])).int("is_test", 1);
            parameters(case(), &[3], constant).dynamic(&[0, 2]).agrees();
            parameters(case().int("spatial", 0), &[3, 4], constant).agrees();
        }
    }
}

#[test]
fn batch_normalisation_in_training() {
    for (shape, dynamic) in [(vec![4, 3, 5], vec![0]), (vec![6, 2], vec![0]), (vec![2, 3, 2, 2], vec![2])] {
        let channels = [shape[1]];
        let case = Case::new("BatchNormalization", 15).data(floats(&shape));
        let case = case.data(floats(&channels)).data(floats(&channels)).data(floats(&channels));
        let case = case.data(floats_from(&channels, 0.5, 2.0)).int("training_mode", 1).float("momentum", 0.7);
        case.dynamic(&dynamic).outputs(3).agrees();
    }
}

#[test]
fn recurrences_of_the_first_opset() {
    let case = |op, gates: usize| {
        let case = Case::new(op, 1).data(floats(&[3, 2, 4])).constant(floats(&[1, gates * 5, 4]));
        case.constant(floats(&[1, gates * 5, 5])).int("hidden_size", 5).int("output_sequence", 1)
    };
    case("RNN", 1).outputs(2).agrees();
    case("GRU", 3).outputs(2).agrees();
    case("LSTM", 4).outputs(3).agrees();
}
