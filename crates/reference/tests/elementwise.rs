//! Functions of one element, arithmetic with broadcasting, comparisons, casts.

mod support;

use half::{bf16, f16};
use infc_reference::{EvalError, dtypes};
use infc_tensor::{DType, Tensor};
use support::{assert_close, floats, ints, op, t, vector};

#[test]
fn operands_broadcast() {
    let (a, b) = (t(&[2, 1], &[1.0f32, 2.0]), t(&[3], &[10.0f32, 20.0, 30.0]));
    assert_eq!(op("Add", 14).run(&[&a, &b]), t(&[2, 3], &[11.0f32, 21.0, 31.0, 12.0, 22.0, 32.0]));
    assert!(matches!(op("Add", 14).error(&[&t(&[2], &[0f32; 2]), &b]), EvalError::ShapeMismatch { .. }));
    assert!(matches!(op("Add", 14).error(&[&vector(&[1i64]), &b]), EvalError::TypeMismatch { .. }));
}

#[test]
fn before_opset_7_axes_are_aligned_by_attribute() {
    let (a, b) = (t(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]), vector(&[10.0f32, 20.0]));
    let node = op("Add", 6).with("broadcast", 1i64).with("axis", 0i64);
    assert_eq!(floats(&node.run(&[&a, &b])), [11.0, 12.0, 23.0, 24.0]);
}

#[test]
fn integers_wrap_and_divide_toward_zero() {
    assert_eq!(op("Sub", 14).run(&[&vector(&[3u8]), &vector(&[5u8])]), vector(&[254u8]));
    assert_eq!(op("Mul", 14).run(&[&vector(&[i64::MAX]), &vector(&[2i64])]), vector(&[-2i64]));
    assert_eq!(op("Div", 14).run(&[&vector(&[-7i32, 7]), &vector(&[2i32, -2])]), vector(&[-3i32, -3]));
    assert_eq!(op("Div", 14).run(&[&vector(&[i64::MIN]), &vector(&[-1i64])]), vector(&[i64::MIN]));
    assert_eq!(op("Div", 14).error(&[&vector(&[1i32]), &vector(&[0i32])]), EvalError::DivisionByZero);
}

#[test]
fn mod_follows_the_divisor_and_fmod_the_dividend() {
    let (a, b) = (vector(&[-4i32, 7, 5, 4, -7, 8]), vector(&[2i32, -3, 8, -2, 3, 5]));
    assert_eq!(ints(&op("Mod", 13).run(&[&a, &b])), [0, -2, 5, 0, 2, 3]);
    assert_eq!(ints(&op("Mod", 13).with("fmod", 1i64).run(&[&a, &b])), [0, 1, 5, 0, -1, 3]);
    let (a, b) = (vector(&[-4.3f32, 7.2]), vector(&[2.1f32, -3.4]));
    assert_close(&op("Mod", 13).with("fmod", 1i64).run(&[&a, &b]), &[2], &[-0.1, 0.4]);
}

#[test]
fn pow_keeps_the_type_of_the_base() {
    let base = vector(&[1i32, 2, 3]);
    assert_eq!(op("Pow", 15).run(&[&base, &vector(&[4.0f32, 5.0, 6.0])]), vector(&[1i32, 32, 729]));
    assert_eq!(op("Pow", 15).run(&[&base, &vector(&[4i64, 5, -1])]), vector(&[1i32, 32, 0]));
}

#[test]
fn half_precision_is_rounded_once() {
    let add = |a: f32, b: f32| op("Add", 14).run(&[&vector(&[f16::from_f32(a)]), &vector(&[f16::from_f32(b)])]);
    // 2048 + 1 is a tie between 2048 and 2050; the even one wins.
    assert_eq!(add(2048.0, 1.0), vector(&[f16::from_f32(2048.0)]));
    assert_eq!(add(65504.0, 65504.0), vector(&[f16::INFINITY]));
    // 1 + 2^-9 is a tie in bf16; anything above it, however little, rounds up even through f32.
    let just_above = vector(&[1.0f64 + 2f64.powi(-8) + 2f64.powi(-40)]);
    let cast = op("Cast", 21).with("to", dtypes::to_onnx(DType::BF16).unwrap());
    assert_eq!(cast.run(&[&just_above]), vector(&[bf16::from_bits(0x3f81)]));
    assert_eq!(cast.run(&[&vector(&[1.0f64 + 2f64.powi(-8)])]), vector(&[bf16::from_bits(0x3f80)]));
}

#[test]
fn nan_propagates_through_min_max_relu_and_clip() {
    let x = vector(&[f32::NAN, -1.0, 2.0]);
    let zeros = vector(&[0.0f32; 3]);
    for result in [
        op("Max", 13).run(&[&x, &zeros]),
        op("Max", 13).run(&[&zeros, &x]),
        op("Min", 13).run(&[&zeros, &x]),
        op("Relu", 14).run(&[&x]),
        op("Clip", 13).run(&[&x, &Tensor::scalar(0f32), &Tensor::scalar(1f32)]),
    ] {
        let values = floats(&result);
        assert!(values[0].is_nan() && !values[1].is_nan() && !values[2].is_nan(), "{values:?}");
    }
}

#[test]
fn clip_takes_bounds_from_where_the_opset_has_them() {
    let x = vector(&[-2.0f32, 0.5, 2.0]);
    assert_eq!(floats(&op("Clip", 6).with("min", -1.0f32).with("max", 1.0f32).run(&[&x])), [-1.0, 0.5, 1.0]);
    let (low, high) = (Tensor::scalar(-1f32), Tensor::scalar(1f32));
    assert_eq!(floats(&op("Clip", 11).run(&[&x, &low, &high])), [-1.0, 0.5, 1.0]);
    assert_eq!(floats(&op("Clip", 13).try_all(&[Some(&x), None, Some(&high)]).unwrap()[0]), [-2.0, 0.5, 1.0]);
    // Where the bounds cross, the upper one wins.
    assert_eq!(floats(&op("Clip", 13).run(&[&x, &high, &low])), [-1.0, -1.0, -1.0]);
}

#[test]
fn round_goes_to_even() {
    let x = vector(&[0.5f32, 1.5, 2.5, -0.5, -1.5, -2.5]);
    assert_eq!(floats(&op("Round", 11).run(&[&x])), [0.0, 2.0, 2.0, 0.0, -2.0, -2.0]);
}

#[test]
fn activations_match_their_formulas() {
    let x = vector(&[-1.0f32, 0.0, 1.0]);
    let run = |node: support::Op| node.run(&[&x]);
    assert_close(&run(op("Elu", 6).with("alpha", 2.0f32)), &[3], &[-1.264_241_1, 0.0, 1.0]);
    assert_close(&run(op("Selu", 6).with("alpha", 2.0f32).with("gamma", 3.0f32)), &[3], &[-3.792_723_4, 0.0, 3.0]);
    assert_close(&run(op("LeakyRelu", 16).with("alpha", 0.1f32)), &[3], &[-0.1, 0.0, 1.0]);
    assert_close(&run(op("HardSigmoid", 6).with("alpha", 0.5f32).with("beta", 0.6f32)), &[3], &[0.1, 0.6, 1.0]);
    assert_close(&run(op("HardSwish", 14)), &[3], &[-1.0 / 3.0, 0.0, 2.0 / 3.0]);
    assert_close(&run(op("Softplus", 1)), &[3], &[0.313_261_7, std::f32::consts::LN_2, 1.313_261_7]);
    assert_close(&run(op("Softsign", 1)), &[3], &[-0.5, 0.0, 0.5]);
    assert_close(&run(op("Gelu", 20)), &[3], &[-0.158_655_26, 0.0, 0.841_344_7]);
    assert_close(&run(op("Gelu", 20).with("approximate", "tanh")), &[3], &[-0.158_808, 0.0, 0.841_192]);
    assert_close(&run(op("Erf", 13)), &[3], &[-0.842_700_8, 0.0, 0.842_700_8]);
    assert_close(&run(op("Mish", 18)), &[3], &[-0.303_401_5, 0.0, 0.865_098_4]);
}

#[test]
fn comparisons_and_where() {
    let (a, b) = (vector(&[1.0f32, 2.0, f32::NAN]), vector(&[1.0f32, 3.0, 0.0]));
    assert_eq!(op("Equal", 13).run(&[&a, &b]).bytes(), [1, 0, 0]);
    assert_eq!(op("Less", 13).run(&[&a, &b]).bytes(), [0, 1, 0]);
    assert_eq!(op("GreaterOrEqual", 16).run(&[&a, &b]).bytes(), [1, 0, 0]);
    let words = |w: [&str; 2]| Tensor::from_strings(&[2], w.map(str::to_owned).to_vec()).unwrap();
    assert_eq!(op("Equal", 19).run(&[&words(["a", "b"]), &words(["a", "c"])]).bytes(), [1, 0]);
    let condition = Tensor::from_bools(&[2], &[true, false]).unwrap();
    assert_eq!(op("Where", 16).run(&[&condition, &words(["x", "y"]), &words(["p", "q"])]), words(["x", "q"]));
}

#[test]
fn casts_of_long_integers_round_once() {
    // Beyond the middle of two f32 by what an f64 does not hold.
    let cast = |x: &Tensor| op("Cast", 13).with("to", dtypes::to_onnx(DType::F32).unwrap()).run(&[x]);
    let signed = [(1i64 << 62) + (1 << 38) + 1, -(1i64 << 62) - (1 << 38) - 1, 7];
    let found = cast(&Tensor::from_elements(&[3], &signed).unwrap());
    assert_eq!(found.elements::<f32>().unwrap(), signed.map(|x| x as f32));
    let unsigned = [(1u64 << 63) + (1 << 39) + 1, u64::MAX, 0];
    let found = cast(&Tensor::from_elements(&[3], &unsigned).unwrap());
    assert_eq!(found.elements::<f32>().unwrap(), unsigned.map(|x| x as f32));
}

#[test]
fn casts_between_kinds() {
    let cast = |x: &Tensor, to: DType| op("Cast", 24).with("to", dtypes::to_onnx(to).unwrap()).run(&[x]);
    assert_eq!(cast(&vector(&[1.9f32, -1.9, 0.0]), DType::I32), vector(&[1i32, -1, 0]));
    assert_eq!(cast(&vector(&[200i16, -1]), DType::I8), vector(&[-56i8, -1]));
    assert_eq!(cast(&vector(&[0.0f32, -0.5, f32::NAN]), DType::Bool).bytes(), [0, 1, 1]);
    assert_eq!(
        cast(&vector(&[1.5f32, 1e-7, f32::INFINITY]), DType::String).strings().unwrap(),
        ["1.5", "1e-07", "INF"]
    );
    let words = Tensor::from_strings(&[3], ["1e3", "-INF", "NaN"].map(str::to_owned).to_vec()).unwrap();
    let parsed = floats(&cast(&words, DType::F32));
    assert_eq!(&parsed[..2], [1000.0, f32::NEG_INFINITY]);
    assert!(parsed[2].is_nan());
    let words = Tensor::from_strings(&[1], vec!["one".to_owned()]).unwrap();
    assert!(matches!(op("Cast", 13).with("to", 1i64).error(&[&words]), EvalError::InvalidInput { .. }));
}

#[test]
fn casts_to_byte_floats_round_and_saturate() {
    let cast = |x: &[f32], to: DType, saturate: i64| {
        let node = op("Cast", 21).with("to", dtypes::to_onnx(to).unwrap()).with("saturate", saturate);
        node.run(&[&vector(x)]).bytes().to_vec()
    };
    // 448 is the largest value of E4M3FN; 464 is half a step above and ties to the even 448.
    assert_eq!(cast(&[448.0, 464.0, 465.0, -1e9], DType::F8E4M3FN, 1), [0x7e, 0x7e, 0x7e, 0xfe]);
    assert_eq!(cast(&[448.0, 464.0, 465.0, -1e9], DType::F8E4M3FN, 0), [0x7e, 0x7e, 0x7f, 0xff]);
    // 2^-9 is the smallest subnormal of E4M3FN; half of it ties to zero.
    assert_eq!(cast(&[0.001_953_125, 0.000_976_562_5, 1.0], DType::F8E4M3FN, 1), [0x01, 0x00, 0x38]);
    assert_eq!(cast(&[f32::INFINITY, 57344.0], DType::F8E5M2, 0), [0x7c, 0x7b]);
    assert_eq!(cast(&[-0.0, f32::NAN], DType::F8E4M3FNUZ, 1), [0x00, 0x80]);
    // Two per byte, low bits first: 0.5 is code 1, 6 is code 7.
    assert_eq!(cast(&[0.5, 100.0, -6.0], DType::F4E2M1, 1), [0x71, 0x0f]);
}

#[test]
fn every_byte_float_survives_a_round_trip() {
    for dtype in [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0] {
        let codes: Vec<u8> = (0..=255).collect();
        let all = Tensor::from_bytes(dtype, vec![256], infc_tensor::AlignedBytes::from_slice(&codes)).unwrap();
        let wide = op("Cast", 24).with("to", 1i64).run(&[&all]);
        let node = op("Cast", 24).with("to", dtypes::to_onnx(dtype).unwrap()).with("saturate", 0i64);
        let back = node.run(&[&wide]);
        let values = floats(&wide);
        for (code, (value, back)) in codes.iter().zip(values.iter().zip(back.bytes())) {
            assert!(value.is_nan() || back == code, "{dtype} code {code:#x}");
        }
    }
}

#[test]
fn bit_shifts_leave_only_the_sign_at_the_width() {
    let shift =
        |direction: &str, x: &Tensor, by: &Tensor| op("BitShift", 28).with("direction", direction).run(&[x, by]);
    assert_eq!(shift("LEFT", &vector(&[1u8, 255]), &vector(&[7u8, 8])), vector(&[128u8, 0]));
    assert_eq!(shift("RIGHT", &vector(&[-8i8, 4]), &vector(&[1i8, 9])), vector(&[-4i8, 0]));
    assert_eq!(shift("RIGHT", &vector(&[-8i8]), &vector(&[-1i8])), vector(&[-1i8]));
}
