//! What scalar operations mean at the edges of their types.

use infc_ir::scalar::{BinaryOp, CompareOp, Const, Scalar, UnaryOp, eval_binary, eval_cast, eval_compare, eval_unary};
use infc_tensor::DType;

fn int(op: BinaryOp, dtype: DType, a: i64, b: i64) -> i64 {
    eval_binary(op, dtype, Scalar::Int(a), Scalar::Int(b)).to_i64()
}

fn float(op: BinaryOp, a: f64, b: f64) -> f64 {
    eval_binary(op, DType::F32, Scalar::Float(a), Scalar::Float(b)).to_f64()
}

#[test]
fn integers_wrap_and_never_trap() {
    assert_eq!(int(BinaryOp::Add, DType::I8, 127, 1), -128);
    assert_eq!(int(BinaryOp::Sub, DType::U8, 0, 1), 255);
    assert_eq!(int(BinaryOp::Mul, DType::I32, i64::from(i32::MAX), 2), -2);
    assert_eq!(int(BinaryOp::Div, DType::I32, 7, 0), 0);
    assert_eq!(int(BinaryOp::Div, DType::I64, i64::MIN, -1), i64::MIN);
    assert_eq!(int(BinaryOp::Div, DType::I32, -7, 2), -3);
    assert_eq!(int(BinaryOp::Div, DType::U64, -1, 2), i64::MAX);
    assert_eq!(eval_unary(UnaryOp::Abs, DType::I8, Scalar::Int(-128)), Scalar::Int(-128));
}

#[test]
fn remainders_have_the_sign_they_should() {
    for (a, b, modulo, rem) in
        [(7, 3, 1, 1), (-7, 3, 2, -1), (7, -3, -2, 1), (-7, -3, -1, -1), (6, 3, 0, 0), (5, 0, 0, 0)]
    {
        assert_eq!(int(BinaryOp::Mod, DType::I32, a, b), modulo, "{a} mod {b}");
        assert_eq!(int(BinaryOp::Rem, DType::I32, a, b), rem, "{a} rem {b}");
        if b != 0 {
            assert_eq!(float(BinaryOp::Mod, a as f64, b as f64), modulo as f64);
            assert_eq!(float(BinaryOp::Rem, a as f64, b as f64), rem as f64);
        }
    }
}

#[test]
fn extrema_propagate_nan_and_comparisons_do_not_hold() {
    for op in [BinaryOp::Min, BinaryOp::Max] {
        assert!(float(op, f64::NAN, 1.0).is_nan());
        assert!(float(op, 1.0, f64::NAN).is_nan());
    }
    for (op, holds) in [(CompareOp::Eq, 0), (CompareOp::Ne, 1), (CompareOp::Lt, 0), (CompareOp::Ge, 0)] {
        let nan = Scalar::Float(f64::NAN);
        assert_eq!(eval_compare(op, DType::F32, nan, nan), Scalar::Int(holds), "{op:?}");
    }
    assert_eq!(eval_compare(CompareOp::Gt, DType::U64, Scalar::Int(-1), Scalar::Int(1)), Scalar::Int(1));
}

#[test]
fn shifts_beyond_the_width_are_zero() {
    assert_eq!(int(BinaryOp::Shl, DType::U8, 1, 7), 128);
    assert_eq!(int(BinaryOp::Shl, DType::U8, 1, 8), 0);
    assert_eq!(int(BinaryOp::Shr, DType::I8, -128, 3), -16);
    assert_eq!(int(BinaryOp::Shr, DType::U64, -1, 63), 1);
}

#[test]
fn casts_truncate_wrap_or_saturate() {
    let cast = |to, saturating, x| eval_cast(DType::F32, to, saturating, Scalar::Float(x)).to_i64();
    assert_eq!(cast(DType::I32, false, -2.9), -2);
    for (x, expected) in [(2.5, 2), (3.5, 4), (-1.0, 0), (300.0, 255), (f64::NAN, 0), (f64::INFINITY, 255)] {
        assert_eq!(cast(DType::U8, true, x), expected, "{x}");
    }
    assert_eq!(cast(DType::I8, true, -1e9), -128);
    assert_eq!(cast(DType::U64, true, 1e30), -1, "the greatest u64");
    assert_eq!(cast(DType::U64, true, -1e30), 0);
    assert_eq!(cast(DType::Bool, false, 0.5), 1);
    let wide = Scalar::Int((1 << 24) + 1);
    assert_eq!(eval_cast(DType::I64, DType::F32, false, wide), Scalar::Float(16_777_216.0));
    assert_eq!(eval_cast(DType::U64, DType::F64, false, Scalar::Int(-1)), Scalar::Float(18_446_744_073_709_551_615.0));
    assert_eq!(eval_cast(DType::I32, DType::I8, false, Scalar::Int(200)), Scalar::Int(-56));
}

#[test]
fn every_operation_rounds_to_its_type() {
    assert_eq!(float(BinaryOp::Add, 16_777_216.0, 1.0), 16_777_216.0);
    let half = eval_binary(BinaryOp::Add, DType::F16, Scalar::Float(2048.0), Scalar::Float(1.0));
    assert_eq!(half, Scalar::Float(2048.0));
    assert_eq!(eval_unary(UnaryOp::Round, DType::F32, Scalar::Float(2.5)), Scalar::Float(2.0));
    assert_eq!(Const::from_f64(DType::BF16, 1.0 + 1.0 / 256.0), Const::from_f64(DType::BF16, 1.0));
}

#[test]
fn erf_is_accurate_to_double_precision() {
    // As the C library computes them; the implementation changes its series at 2.5.
    for (x, expected) in [
        (0.0, 0.0),
        (1e-10, 1.128_379_167_095_512_6e-10),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (2.499, 0.999_590_864_244_255_4),
        (2.501, 0.999_595_220_829_416_3),
        (3.0, 0.999_977_909_503_001_4),
        (7.0, 1.0),
    ] {
        for sign in [1.0, -1.0] {
            let found = eval_unary(UnaryOp::Erf, DType::F64, Scalar::Float(sign * x)).to_f64();
            assert!((found - sign * expected).abs() <= 5e-13 * expected, "erf({x}) = {found}, not {expected}");
        }
    }
}

#[test]
fn constants_of_every_type_keep_their_bits() {
    for dtype in DType::ALL {
        for bits in [0u64, 1, 0x38] {
            // As many bits as an element has; bools are 0 or 1.
            let held = match dtype.size_bits() {
                64.. => bits,
                _ if dtype == DType::Bool => u64::from(bits != 0),
                width => bits & ((1 << width) - 1),
            };
            let constant = Const { dtype, bits: held };
            assert_eq!(Scalar::from_const(constant).to_const(dtype), constant, "{dtype}");
        }
        // Whatever the value, it ends.
        assert_eq!(Scalar::Int(1).to_const(dtype).dtype, dtype);
        assert_eq!(Scalar::Float(1.5).to_const(dtype).dtype, dtype);
    }
}
