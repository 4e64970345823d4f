//! Types that are stored and moved but not computed with: floats of at most a byte, integers narrower than one.

use super::{Case, code, floats, floats_from, integers, ints};
use infc_tensor::{AlignedBytes, DType, DTypeClass, Tensor, bf16, f16};

const SMALL_FLOATS: [DType; 6] =
    [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0, DType::F4E2M1];
const SMALL_INTEGERS: [DType; 4] = [DType::I4, DType::U4, DType::I2, DType::U2];

fn narrow() -> impl Iterator<Item = DType> {
    SMALL_FLOATS.into_iter().chain(SMALL_INTEGERS)
}

/// Every code of a type, some of them twice if they are few, so that their number is odd.
fn all_codes(dtype: DType) -> Tensor {
    let len = if dtype.size_bits() == 8 { 256 } else { 37 };
    let bytes: Vec<u8> = (0..dtype.storage_bytes(len).expect("a size") as u32).map(|n| (n * 0x35) as u8).collect();
    let mut bytes = if dtype.size_bits() == 8 { (0..=255).collect() } else { bytes };
    // No bits behind the last element.
    if dtype.size_bits() < 8 {
        let used = len * dtype.size_bits() % 8;
        *bytes.last_mut().expect("not empty") &= (1u8 << used) - 1;
    }
    of_bytes(dtype, &[len], &bytes)
}

fn of_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    Tensor::from_bytes(dtype, shape.to_vec(), AlignedBytes::from_slice(bytes)).expect("as many as the shape has")
}

/// Floats whose bits are spread over all exponents, and what lies around powers of two.
fn spread_floats() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let random = (0..6000).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f32::from_bits((state >> 16) as u32)
    });
    let powers = (-149..=127).flat_map(|e| {
        let power = 2f64.powi(e) as f32;
        [0i32, 1, 0x10_0000, 0x20_0000, 0x20_0001, 0x30_0000, 0x40_0000, 0x40_0001, 0x60_0000, 0x70_0000, 0x7f_ffff]
            .map(|more| f32::from_bits((power.to_bits() as i32 + more) as u32))
    });
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE];
    let positive: Vec<f32> = random.chain(powers).chain(special).collect();
    positive.iter().copied().chain(positive.iter().map(|&x| -x)).collect()
}

fn cast(x: Tensor, to: DType) -> Case {
    Case::new("Cast", 25).data(x).int("to", code(to)).tolerance(0.0)
}

#[test]
fn every_half_becomes_every_small_float() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let halves: Vec<f16> = bits.iter().map(|&b| f16::from_bits(b)).collect();
    let halves = Tensor::from_elements(&[1 << 16], &halves).expect("fits");
    let brains: Vec<bf16> = bits.iter().map(|&b| bf16::from_bits(b)).collect();
    let brains = Tensor::from_elements(&[1 << 16], &brains).expect("fits");
    for dtype in SMALL_FLOATS {
        for saturate in [0, 1] {
            cast(halves.clone(), dtype).int("saturate", saturate).agrees();
            cast(brains.clone(), dtype).int("saturate", saturate).agrees();
        }
    }
}

#[test]
fn singles_and_doubles_become_small_floats() {
    let singles = spread_floats();
    let doubles: Vec<f64> = singles.iter().map(|&x| f64::from(x) * (1.0 + 2f64.powi(-40))).collect();
    let singles = Tensor::from_elements(&[singles.len()], &singles).expect("fits");
    let doubles = Tensor::from_elements(&[doubles.len()], &doubles).expect("fits");
    for dtype in SMALL_FLOATS {
        for saturate in [0, 1] {
            cast(singles.clone(), dtype).int("saturate", saturate).agrees();
            // An exponent alone is rounded from f32.
            if dtype != DType::F8E8M0 {
                cast(doubles.clone(), dtype).int("saturate", saturate).agrees();
            }
        }
    }
}

#[test]
fn bare_exponents_are_rounded_in_three_ways() {
    let values = spread_floats();
    let values = Tensor::from_elements(&[values.len()], &values).expect("fits");
    for mode in ["up", "down", "nearest"] {
        for saturate in [0, 1] {
            cast(values.clone(), DType::F8E8M0).int("saturate", saturate).text("round_mode", mode).agrees();
        }
    }
}

#[test]
fn every_code_becomes_wider_and_other_narrow_types() {
    let wide = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool];
    for from in narrow() {
        // What floats out of range become as integers is left open.
        let fits = |to: &DType| !to.is_int() || from.is_int() || from == DType::F4E2M1 && *to == DType::I32;
        for to in wide.into_iter().filter(fits) {
            cast(all_codes(from), to).agrees();
        }
        for to in narrow().filter(fits) {
            cast(all_codes(from), to).agrees();
        }
    }
}

#[test]
fn integers_become_narrow() {
    let bytes: Vec<i8> = (i8::MIN..=i8::MAX).collect();
    let bytes = Tensor::from_elements(&[256], &bytes).expect("fits");
    for to in narrow() {
        cast(bytes.clone(), to).agrees();
        cast(ints(&[-9, -8, 7, 8, 15, 16, 500_000, -3]), to).agrees();
        cast(floats_from(&[33], -20.0, 20.0), to).agrees();
        cast(Tensor::from_bools(&[3], &[true, false, true]).expect("fits"), to).agrees();
    }
}

#[test]
fn types_are_taken_from_other_tensors() {
    for like in narrow() {
        let case = Case::new("CastLike", 25).data(floats(&[7])).data(all_codes(like)).tolerance(0.0);
        case.int("saturate", 0).agrees();
    }
}

#[test]
fn narrow_elements_are_moved() {
    for dtype in narrow() {
        let len = if dtype.size_bits() == 8 { 15 } else { 15 * dtype.size_bits() / 8 + 1 };
        let bytes: Vec<u8> = (0..len as u8).map(|n| n.wrapping_mul(29)).collect();
        let mut bytes = bytes[..dtype.storage_bytes(15).expect("a size")].to_vec();
        if dtype.size_bits() < 8 {
            *bytes.last_mut().expect("not empty") &= (1u8 << (15 * dtype.size_bits() % 8)) - 1;
        }
        let x = of_bytes(dtype, &[3, 5], &bytes);
        let case = |op| Case::new(op, 25).data(x.clone()).dynamic(&[0]);
        case("Identity").agrees();
        case("Transpose").agrees();
        case("Flatten").agrees();
        case("Reshape").constant(ints(&[-1])).agrees();
        case("Unsqueeze").constant(ints(&[0])).agrees();
        case("Concat").data(x.clone()).int("axis", 0).agrees();
        case("Slice").constant(ints(&[1])).constant(ints(&[5])).constant(ints(&[1])).constant(ints(&[3])).agrees();
        case("Expand").constant(ints(&[2, 1, 5])).agrees();
        case("Gather").data(ints(&[2, 0])).agrees();
        case("Split").constant(ints(&[2, 3])).int("axis", 1).outputs(2).agrees();
        // An initializer is unpacked where it is read.
        Case::new("Transpose", 25).constant(x).agrees();
    }
}

/// Operators that ask something of elements, or put them where only the run says, compute with wider ones.
#[test]
fn narrow_elements_are_asked_and_placed() {
    for dtype in narrow() {
        let codes = all_codes(dtype);
        let x = of_bytes(dtype, &[4, 2], &codes.bytes()[..dtype.storage_bytes(8).expect("a size")]);
        let one = of_bytes(dtype, &[], &codes.bytes()[..1]);
        let case = |op, opset| Case::new(op, opset).data(x.clone()).tolerance(0.0);
        let one = match dtype.size_bits() {
            8 => one,
            bits => of_bytes(dtype, &[], &[codes.bytes()[0] & ((1u8 << bits) - 1)]),
        };
        case("Pad", 25).constant(ints(&[1, 0, 2, 1])).data(one).dynamic(&[0]).agrees();
        case("Trilu", 25).data(Tensor::scalar(1i64)).agrees();
        let update = of_bytes(dtype, &[2, 1, 2], &codes.bytes()[..dtype.storage_bytes(4).expect("a size")]);
        let past = of_bytes(dtype, &[2, 2, 2], x.bytes());
        let placed = Case::new("TensorScatter", 24).data(past).data(update).data(ints(&[1, 0]));
        placed.int("axis", 1).tolerance(0.0).agrees();
        if dtype.is_float() {
            Case::new("IsNaN", 20).data(codes.clone()).agrees();
            for positive in [0, 1] {
                Case::new("IsInf", 20).data(codes.clone()).int("detect_positive", positive).agrees();
            }
        }
    }
}

#[test]
fn texts_become_narrow_elements_and_back() {
    let texts = ["1", "0", "2", "-1"].map(str::to_owned);
    for dtype in narrow() {
        let signed = dtype.class() != DTypeClass::Unsigned && dtype != DType::F8E8M0;
        let count = if signed { 4 } else { 3 };
        let texts = Tensor::from_strings(&[count], texts[..count].to_vec()).expect("texts");
        cast(texts.clone(), dtype).agrees();
        Case::new("CastLike", 25).data(texts).data(all_codes(dtype)).agrees();
        cast(all_codes(dtype), DType::String).agrees();
    }
}

/// Floats of a byte are factors of a quantised product as they are, beside integers, too.
#[test]
fn products_of_small_floats_are_quantised_again() {
    for dtype in &SMALL_FLOATS[..4] {
        let small = |shape: &[usize], from: u8| {
            let len = shape.iter().product::<usize>();
            of_bytes(*dtype, shape, &(0..len as u8).map(|n| 0x28 + (n * 5 + from) % 16).collect::<Vec<_>>())
        };
        let zero = of_bytes(*dtype, &[], &[0]);
        let bytes = |shape: &[usize]| integers::<i8>(shape, -100, 100);
        let scale = |value: f32| Tensor::scalar(value);
        let of = |a: Tensor, a_zero: Tensor, b: Tensor, b_zero: Tensor, y_zero: Tensor| {
            let case = Case::new("QLinearMatMul", 21).data(a).constant(scale(0.5)).constant(a_zero);
            let case = case.data(b).constant(scale(0.25)).constant(b_zero).constant(scale(0.125)).constant(y_zero);
            case.agrees();
        };
        let whole = || Tensor::scalar(3i8);
        of(small(&[3, 4], 0), zero.clone(), small(&[4, 2], 3), zero.clone(), zero.clone());
        of(small(&[3, 4], 0), small(&[], 2), bytes(&[4, 2]), whole(), whole());
        of(bytes(&[3, 4]), whole(), small(&[4, 2], 1), zero.clone(), zero.clone());
        of(bytes(&[3, 4]), whole(), bytes(&[4, 2]), whole(), zero);
    }
}

#[test]
fn scales_may_be_integers() {
    let x = integers::<i32>(&[3, 5], -40, 40);
    for zero in [of_bytes(DType::I4, &[], &[0x01]), Tensor::scalar(2u8)] {
        Case::new("QuantizeLinear", 23).data(x.clone()).constant(Tensor::scalar(4i32)).constant(zero).agrees();
    }
}

#[test]
fn computing_with_narrow_elements_is_refused() {
    for op in ["Add", "Equal", "MatMul", "ReduceSum", "CumSum", "Relu"] {
        for dtype in narrow() {
            let x = all_codes(dtype);
            let case = Case::new(op, 25).data(x.clone());
            let case = match op {
                "CumSum" => case.constant(Tensor::scalar(0i64)),
                "Relu" | "ReduceSum" => case,
                _ => case.data(x),
            };
            assert_eq!(case.refused().code(), "onnx::unsupported-type", "{op} {dtype}");
        }
    }
}

#[test]
fn quantising_to_narrow_types() {
    for dtype in narrow().filter(|&d| d != DType::F8E8M0) {
        let bytes = vec![0u8; dtype.storage_bytes(3).expect("a size")];
        let zero = of_bytes(dtype, &[3], &bytes);
        let scale = floats_from(&[3], 0.1, 0.5);
        let x = floats_from(&[3, 8], -60.0, 60.0);
        let case = Case::new("QuantizeLinear", 25).data(x.clone()).data(scale.clone()).tolerance(0.0);
        case.data(zero.clone()).int("axis", 0).dynamic(&[1]).agrees();
        let one = Tensor::scalar(0.25f32);
        let case = Case::new("QuantizeLinear", 25).data(x).data(one.clone()).tolerance(0.0);
        case.clone().int("output_dtype", code(dtype)).agrees();
        if dtype.is_float() {
            case.int("output_dtype", code(dtype)).int("saturate", 0).agrees();
        }
        let q = all_codes(dtype);
        Case::new("DequantizeLinear", 25).data(q).data(one).agrees();
    }
    // Zero points that are not zero.
    let zero = of_bytes(DType::I4, &[1], &[0x0d]);
    let scale = Tensor::scalar(0.25f32);
    let x = floats(&[33]);
    let case = Case::new("QuantizeLinear", 25).data(x).data(scale.clone());
    case.data(zero.reshaped(&[]).expect("one element")).agrees();
    let case = Case::new("DequantizeLinear", 25).data(all_codes(DType::I4)).data(scale);
    case.data(zero.reshaped(&[]).expect("one element")).agrees();
}

#[test]
fn bits_are_taken_as_other_types() {
    let by_width: [&[DType]; 6] = [
        &[DType::I2, DType::U2],
        &[DType::I4, DType::U4, DType::F4E2M1],
        &[DType::I8, DType::U8, DType::F8E4M3FN, DType::F8E5M2, DType::F8E8M0],
        &[DType::I16, DType::U16, DType::F16, DType::BF16],
        &[DType::I32, DType::U32, DType::F32],
        &[DType::I64, DType::U64, DType::F64],
    ];
    for types in by_width {
        for &from in types {
            let bytes: Vec<u8> = (0..from.storage_bytes(24).expect("a size")).map(|n| (n * 83 + 5) as u8).collect();
            for &to in types {
                let case = Case::new("BitCast", 26).data(of_bytes(from, &[4, 6], &bytes)).int("to", code(to));
                case.tolerance(0.0).dynamic(&[0]).agrees();
            }
        }
    }
    let bools = Tensor::from_bools(&[2], &[true, false]).expect("fits");
    Case::new("BitCast", 26).data(bools).int("to", code(DType::U8)).agrees();
    let bytes = Tensor::from_elements(&[3], &[0u8, 1, 7]).expect("fits");
    Case::new("BitCast", 26).data(bytes).int("to", code(DType::Bool)).agrees();
    let wider = Case::new("BitCast", 26).data(floats(&[2])).int("to", code(DType::F64)).refused();
    assert_eq!(wider.code(), "onnx::invalid-attribute");
}

/// Where there are no elements, all of them are known, whatever their type.
#[test]
fn nothing_of_a_narrow_type_is_moved() {
    for dtype in narrow() {
        let none = |shape: &[usize]| of_bytes(dtype, shape, &[]);
        Case::new("Concat", 13).data(none(&[0, 2])).data(none(&[0, 3])).int("axis", 1).agrees();
        Case::new("Transpose", 13).data(none(&[3, 0, 2])).agrees();
        Case::new("Gather", 13).data(none(&[3, 0])).constant(ints(&[2, -1])).agrees();
        let one = Case::new("Cast", 25).data(floats(&[4, 1, 1])).int("to", code(dtype)).expected().swap_remove(0);
        let pads = ints(&[1, -1, 1, 0, 0, 2]);
        Case::new("Pad", 19).data(one).constant(pads).text("mode", "wrap").agrees();
    }
}
