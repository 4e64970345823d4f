//! Arithmetic, comparison, logic, conversion.

use super::{Case, code, counting, f32s, floats, floats_from, halves, ints};
use infc_tensor::{DType, Tensor, bf16};

#[test]
fn binary_operators_broadcast() {
    for op in ["Add", "Sub", "Mul", "Div"] {
        Case::new(op, 14).data(floats(&[2, 3, 4])).data(floats(&[3, 1])).dynamic(&[0, 1, 2]).agrees();
        Case::new(op, 14).data(floats(&[4])).data(floats(&[2, 1, 4])).agrees();
        Case::new(op, 14).data(floats(&[2, 3])).constant(Tensor::scalar(1.5f32)).dynamic(&[0]).agrees();
        Case::new(op, 14).data(halves(&[5])).data(halves(&[5])).tolerance(0.0).agrees();
    }
}

#[test]
fn integer_division_truncates() {
    let (a, b) = (ints(&[7, -7, 7, -7]), ints(&[2, 2, -2, -2]));
    Case::new("Div", 14).data(a.clone()).data(b.clone()).agrees();
    Case::new("Mod", 13).data(a.clone()).data(b.clone()).agrees();
    Case::new("Mod", 13).data(a).data(b).int("fmod", 1).agrees();
    Case::new("Mod", 13).data(floats(&[6])).data(floats(&[1])).int("fmod", 1).agrees();
}

#[test]
fn powers() {
    Case::new("Pow", 15).data(floats_from(&[7], 0.1, 3.0)).data(floats(&[7])).agrees();
    Case::new("Pow", 15).data(floats(&[7])).constant(Tensor::scalar(2.0f32)).agrees();
    Case::new("Pow", 15).data(floats(&[7])).constant(Tensor::scalar(3i64)).agrees();
    Case::new("Pow", 15).data(ints(&[1, 2, 3])).data(ints(&[4, 5, 6])).agrees();
}

#[test]
fn comparisons_and_logic() {
    for op in ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"] {
        Case::new(op, 16).data(counting(&[2, 3])).data(ints(&[2, 1, 4])).agrees();
        Case::new(op, 16).data(f32s(&[1.0, f32::NAN, 2.0])).data(f32s(&[1.0, f32::NAN, 1.0])).agrees();
    }
    let (a, b) = ([true, true, false, false], [true, false, true, false]);
    let bools = |v: &[bool]| Tensor::from_bools(&[4], v).expect("a vector");
    for op in ["And", "Or", "Xor"] {
        Case::new(op, 7).data(bools(&a)).data(bools(&b)).agrees();
    }
    Case::new("Not", 7).data(bools(&a)).agrees();
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"] {
        Case::new(op, 18).data(ints(&[12, -1])).data(ints(&[10, 5])).agrees();
    }
    Case::new("BitwiseNot", 18).data(ints(&[12, -1])).agrees();
    let bytes = Tensor::from_elements(&[2], &[1u8, 200]).expect("a vector");
    let by = Tensor::from_elements(&[2], &[3u8, 1]).expect("a vector");
    Case::new("BitShift", 11).data(bytes.clone()).data(by.clone()).text("direction", "LEFT").agrees();
    Case::new("BitShift", 11).data(bytes).data(by).text("direction", "RIGHT").agrees();
}

#[test]
fn shifts_by_the_width_or_more_leave_the_sign() {
    let vector = |elements: &[i8]| Tensor::from_elements(&[elements.len()], elements).expect("a vector");
    for direction in ["LEFT", "RIGHT"] {
        let shift = |a: Tensor, b: Tensor| Case::new("BitShift", 28).data(a).data(b).text("direction", direction);
        let (a, by) = ([-100, 100, -1, -100, 100, -100, -128], [7, 7, 8, 127, 127, -1, -128]);
        shift(vector(&a), vector(&by)).agrees();
        shift(ints(&[-5, 5, -5, 5, -5]), ints(&[63, 64, 64, -1, -1])).agrees();
    }
}

#[test]
fn variadic_operators() {
    for op in ["Min", "Max", "Sum", "Mean"] {
        Case::new(op, 13).data(floats(&[2, 3])).agrees();
        Case::new(op, 13).data(floats(&[2, 3])).data(floats(&[3])).data(floats(&[2, 1])).agrees();
        let many = (0..20).fold(Case::new(op, 13), |case, n| case.data(floats(&[1 + n % 2])));
        many.agrees();
    }
    Case::new("Max", 13).data(f32s(&[1.0, f32::NAN])).data(f32s(&[f32::NAN, 2.0])).agrees();
}

#[test]
fn functions_of_floats() {
    for op in [
        "Abs", "Neg", "Sign", "Exp", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Asinh", "Atan", "Tanh", "Sigmoid", "Erf",
        "Floor", "Ceil", "Round",
    ] {
        Case::new(op, 13).data(floats(&[3, 5])).dynamic(&[0]).agrees();
        Case::new(op, 13).data(f32s(&[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.5, 1.5, 2.5])).agrees();
    }
    for op in ["Sqrt", "Log", "Reciprocal", "Acosh"] {
        Case::new(op, 13).data(floats_from(&[9], 1.0, 4.0)).agrees();
    }
    for op in ["Asin", "Acos", "Atanh"] {
        Case::new(op, 13).data(floats_from(&[9], -0.9, 0.9)).agrees();
    }
    Case::new("Abs", 13).data(ints(&[-3, 0, 4])).agrees();
    Case::new("Neg", 13).data(ints(&[-3, 0, 4])).agrees();
    Case::new("Exp", 13).data(halves(&[6])).tolerance(1e-3).agrees();
}

#[test]
fn not_a_number() {
    let special = f32s(&[0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    Case::new("IsNaN", 13).data(special.clone()).agrees();
    Case::new("IsInf", 10).data(special.clone()).agrees();
    Case::new("IsInf", 10).data(special.clone()).int("detect_negative", 0).agrees();
    Case::new("IsInf", 10).data(special.clone()).int("detect_positive", 0).agrees();
    Case::new("IsInf", 10).data(special).int("detect_positive", 0).int("detect_negative", 0).agrees();
}

#[test]
fn clips() {
    let x = || floats(&[4, 5]);
    Case::new("Clip", 7).data(x()).float("min", -0.5).float("max", 1.0).agrees();
    let (lo, hi) = (Tensor::scalar(-0.5f32), Tensor::scalar(1.0f32));
    Case::new("Clip", 13).data(x()).constant(lo.clone()).constant(hi.clone()).agrees();
    Case::new("Clip", 13).data(x()).data(lo).data(hi.clone()).agrees();
    Case::new("Clip", 13).data(x()).absent().constant(hi).agrees();
    Case::new("Clip", 13).data(x()).agrees();
}

#[test]
fn casts() {
    let types = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];
    for to in types {
        Case::new("Cast", 13).data(floats_from(&[7], 0.0, 9.0)).int("to", code(to)).agrees();
        Case::new("Cast", 13).data(counting(&[7])).int("to", code(to)).agrees();
    }
    Case::new("CastLike", 15).data(floats(&[3])).data(ints(&[1])).agrees();
    let halves = Tensor::from_elements(&[2], &[bf16::from_f32(1.5), bf16::from_f32(-2.5)]).expect("a vector");
    Case::new("Cast", 13).data(halves).int("to", code(DType::F32)).agrees();
}

#[test]
fn where_selects() {
    let mask = Tensor::from_bools(&[2, 1], &[true, false]).expect("a matrix");
    Case::new("Where", 16).data(mask.clone()).data(floats(&[2, 3])).data(floats(&[3])).agrees();
    Case::new("Where", 16).constant(mask).data(floats(&[2, 3])).data(floats(&[3])).agrees();
    Case::new("Where", 16)
        .constant(Tensor::from_bools(&[], &[true]).expect("a scalar"))
        .data(floats(&[3]))
        .data(floats(&[2, 3]))
        .agrees();
}
