//! Quantisation, and products of quantised operands.

use super::{Case, code, f32s, floats, floats_from, halves, integers};
use infc_ir::op::Op;
use infc_tensor::{AlignedBytes, DType, Tensor, f16};

/// A scale or zero point.
fn scalar<T: infc_tensor::Element>(value: T) -> Tensor {
    Tensor::scalar(value)
}

fn u8s(shape: &[usize]) -> Tensor {
    integers(shape, 0u8, u8::MAX)
}

fn i8s(shape: &[usize]) -> Tensor {
    integers(shape, i8::MIN, i8::MAX)
}

fn of<T: infc_tensor::Element>(values: &[T]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

fn packed(dtype: DType, shape: &[usize]) -> Tensor {
    let len = dtype.storage_bytes(shape.iter().product()).expect("small");
    let bytes: Vec<u8> = (0..len).map(|n| (n * 37 + 11) as u8).collect();
    Tensor::from_bytes(dtype, shape.to_vec(), AlignedBytes::from_slice(&bytes)).expect("fits")
}

#[test]
fn to_every_integer_type() {
    // Beyond both ends of every type, ties included.
    let x = f32s(&[-1e9, -40000.5, -129.5, -128.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 127.5, 255.5, 300.0, 70000.0, 1e30]);
    let case = |zero: Tensor| Case::new("QuantizeLinear", 21).data(x.clone()).constant(scalar(1f32)).constant(zero);
    case(scalar(0u8)).agrees();
    case(scalar(3u8)).agrees();
    case(scalar(255u8)).dynamic(&[0]).agrees();
    case(scalar(-128i8)).agrees();
    case(scalar(127i8)).agrees();
    case(scalar(1000u16)).agrees();
    case(scalar(-5i16)).agrees();
    Case::new("QuantizeLinear", 13).data(floats(&[2, 3])).data(scalar(0.0173f32)).agrees();
    // 0 says nothing, and ONNX Runtime writes it out.
    Case::new("QuantizeLinear", 21).data(x.clone()).data(scalar(0.3f32)).int("output_dtype", 0).agrees();
    Case::new("QuantizeLinear", 21).data(x).data(scalar(0.3f32)).int("output_dtype", code(DType::I8)).agrees();
}

#[test]
fn granularity() {
    let scales = f32s(&[0.01, 0.5, 0.03]);
    let case = || Case::new("QuantizeLinear", 13).data(floats(&[2, 3, 4]));
    case().constant(scales.clone()).constant(of(&[1u8, 128, 255])).dynamic(&[0]).agrees();
    let tall = || Case::new("QuantizeLinear", 13).data(floats(&[4, 3])).int("axis", -1);
    tall().data(scales.clone()).data(of(&[-3i8, 0, 7])).agrees();
    let back = || Case::new("DequantizeLinear", 13).data(u8s(&[2, 3, 4]));
    back().constant(scales.clone()).constant(of(&[1u8, 128, 255])).dynamic(&[0, 2]).agrees();
    back().constant(scales).agrees();
    back().data(scalar(0.25f32)).data(scalar(7u8)).agrees();
    // Blocks, the last of them shorter.
    let blocks = |len: usize| floats_from(&[2, len, 3], 0.01, 0.1);
    let case =
        |len: usize| Case::new("DequantizeLinear", 21).data(i8s(&[2, 5, 3])).constant(blocks(len)).int("axis", 1);
    case(3).int("block_size", 2).agrees();
    case(2).constant(i8s(&[2, 2, 3])).int("block_size", 3).agrees();
    let case = Case::new("QuantizeLinear", 21).data(floats(&[2, 5, 3])).constant(blocks(3));
    case.constant(u8s(&[2, 3, 3])).int("axis", 1).int("block_size", 2).agrees();
}

#[test]
fn from_narrow_constants() {
    for dtype in [DType::I4, DType::U4, DType::I2, DType::U2] {
        let case = Case::new("DequantizeLinear", 25).constant(packed(dtype, &[3, 5])).constant(scalar(0.125f32));
        case.constant(packed(dtype, &[])).agrees();
    }
    for dtype in [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1] {
        let case = Case::new("DequantizeLinear", 25).constant(packed(dtype, &[40])).constant(scalar(0.37f32));
        case.agrees();
    }
    let scales = packed(DType::F8E8M0, &[2, 2, 3]);
    let case = Case::new("DequantizeLinear", 25).constant(packed(DType::F4E2M1, &[2, 6, 3])).constant(scales);
    case.int("axis", 1).int("block_size", 3).int("output_dtype", code(DType::F32)).agrees();
}

#[test]
fn wide_integers_and_halves() {
    let sums = integers(&[3, 4], -100_000i32, 100_000);
    Case::new("DequantizeLinear", 13).data(sums).constant(scalar(3e-5f32)).agrees();
    let words = || integers(&[3, 4], i16::MIN, i16::MAX);
    Case::new("DequantizeLinear", 21).data(words()).constant(scalar(0.01f32)).constant(scalar(-300i16)).agrees();
    let half = |x: f32| scalar(f16::from_f32(x));
    let case = Case::new("DequantizeLinear", 21).data(u8s(&[3, 4])).constant(half(0.3)).constant(scalar(130u8));
    case.tolerance(1e-3).agrees();
    Case::new("QuantizeLinear", 21).data(halves(&[50])).constant(half(0.013)).constant(scalar(130u8)).agrees();
    let case = Case::new("QuantizeLinear", 23).data(halves(&[50])).constant(half(0.013)).constant(scalar(1u8));
    case.int("precision", code(DType::F32)).agrees();
}

#[test]
fn dynamically() {
    let case = |x: Tensor| Case::new("DynamicQuantizeLinear", 11).data(x).outputs(3);
    case(floats(&[3, 5])).dynamic(&[0, 1]).agrees();
    case(floats_from(&[7], 1.0, 3.0)).agrees();
    case(floats_from(&[7], -9.0, -3.0)).agrees();
    case(f32s(&[0.0, 0.0])).agrees();
    case(scalar(2.5f32)).agrees();
}

#[test]
fn integer_products() {
    let case = |a: Tensor, b: Tensor| Case::new("MatMulInteger", 10).data(a).data(b);
    case(u8s(&[3, 4]), i8s(&[4, 5])).dynamic(&[0, 1]).agrees();
    case(u8s(&[2, 3, 4]), u8s(&[4, 5])).data(scalar(255u8)).data(scalar(1u8)).agrees();
    case(i8s(&[3, 4]), i8s(&[4, 5])).data(of(&[-128i8, 0, 127])).constant(of(&[1i8, 2, 3, -4, -128])).agrees();
    case(i8s(&[4]), u8s(&[4, 5])).data(scalar(3i8)).agrees();
    case(u8s(&[2, 3, 4]), i8s(&[2, 4, 5])).data(u8s(&[2, 3, 1])).data(i8s(&[2, 1, 5])).agrees();
    let words = Case::new("MatMulInteger", 10).data(u8s(&[3, 40])).constant(i8s(&[40, 5])).data(scalar(128u8));
    words.absent().agrees();
}

#[test]
fn a_product_without_zero_points_reads_narrow_operands() {
    let case = Case::new("MatMulInteger", 10).data(u8s(&[3, 4])).constant(i8s(&[4, 5])).absent();
    let graph = case.constant(of(&[0i8; 5])).agrees();
    let ops: Vec<&str> = graph.order.iter().map(|&n| graph.nodes[n].op.name()).collect();
    assert_eq!(ops, ["const", "contract"]);
    let contract = graph.order.iter().find(|&&n| matches!(graph.nodes[n].op, Op::Contract(_))).expect("there is one");
    let types: Vec<DType> = graph.nodes[*contract].inputs.iter().map(|&v| graph.ty(v).dtype).collect();
    assert_eq!(types, [DType::U8, DType::I8]);
}

#[test]
fn integer_convolutions() {
    let case = || Case::new("ConvInteger", 10).data(u8s(&[2, 4, 6, 7])).constant(i8s(&[6, 2, 3, 3])).int("group", 2);
    case().ints("pads", &[1, 0, 1, 2]).dynamic(&[0, 2]).agrees();
    case().constant(scalar(130u8)).ints("pads", &[1, 1, 1, 1]).agrees();
    case().data(scalar(3u8)).constant(of(&[1i8, -2, 3, 0, 127, -128])).ints("strides", &[2, 1]).agrees();
}

#[test]
fn requantised_products() {
    let case = |rows: Tensor, row_zeros: Tensor, columns: Tensor, column_zeros: Tensor| {
        let case = Case::new("QLinearMatMul", 21).data(u8s(&[3, 4])).data(rows).data(row_zeros);
        case.constant(i8s(&[4, 5])).constant(columns).constant(column_zeros)
    };
    let plain = || case(scalar(0.02f32), scalar(120u8), scalar(0.011f32), scalar(0i8));
    plain().constant(scalar(0.043f32)).constant(scalar(131u8)).agrees();
    plain().data(scalar(0.09f32)).data(scalar(-4i8)).dynamic(&[0]).agrees();
    let columns = || (floats_from(&[5], 0.005, 0.02), of(&[1i8, 0, -1, 5, 127]));
    let rows = floats_from(&[3, 1], 0.01, 0.03);
    case(rows, u8s(&[3, 1]), columns().0, columns().1).constant(scalar(0.07f32)).constant(scalar(99u8)).agrees();
}

#[test]
fn requantised_convolutions() {
    let case = |zero: u8, scales: Tensor, zeros: Tensor| {
        let case = Case::new("QLinearConv", 10).data(u8s(&[1, 3, 6, 5])).data(scalar(0.02f32)).constant(scalar(zero));
        let case = case.constant(i8s(&[4, 3, 3, 3])).constant(scales).constant(zeros);
        case.constant(scalar(0.13f32)).constant(scalar(117u8)).ints("pads", &[1, 1, 1, 1])
    };
    case(0, scalar(0.011f32), scalar(0i8)).agrees();
    case(128, scalar(0.011f32), scalar(0i8)).constant(integers(&[4], -5000i32, 5000)).agrees();
    let scales = floats_from(&[4], 0.005, 0.02);
    case(7, scales.clone(), of(&[0i8; 4])).constant(integers(&[4], -5000i32, 5000)).dynamic(&[2, 3]).agrees();
    case(200, scales, of(&[3i8, -128, 0, 127])).agrees();
}

/// Operands of `QLinear*`: numbers, scale, zero point.
fn with(case: Case, shape: &[usize], scale: f32, zero: u8) -> Case {
    case.data(u8s(shape)).constant(scalar(scale)).constant(scalar(zero))
}

#[test]
fn elementwise_of_onnx_runtime() {
    for op in ["QLinearAdd", "QLinearMul"] {
        let case = with(with(Case::microsoft(op), &[2, 3, 4], 0.031, 120), &[3, 1], 0.017, 3);
        case.constant(scalar(0.063f32)).constant(scalar(90u8)).dynamic(&[2]).agrees();
    }
    for op in ["QLinearSigmoid", "QLinearLeakyRelu"] {
        let case = with(Case::microsoft(op), &[2, 50], 0.04, 128);
        case.constant(scalar(0.0039f32)).constant(scalar(10u8)).dynamic(&[0]).agrees();
    }
    let case = Case::microsoft("QLinearLeakyRelu").data(i8s(&[100])).data(scalar(0.1013f32)).data(scalar(-3i8));
    case.data(scalar(0.0711f32)).data(scalar(5i8)).float("alpha", 0.25).agrees();
}

#[test]
fn pools_and_concatenations_of_onnx_runtime() {
    let case = with(Case::microsoft("QLinearAveragePool"), &[1, 2, 6, 6], 0.0517, 99);
    let case = case.constant(scalar(0.04311f32)).constant(scalar(101u8)).ints("kernel_shape", &[3, 2]);
    case.ints("pads", &[1, 0, 1, 1]).ints("strides", &[2, 1]).agrees();
    let case = with(Case::microsoft("QLinearGlobalAveragePool"), &[2, 3, 5, 4], 0.05, 99);
    case.constant(scalar(0.013f32)).constant(scalar(101u8)).dynamic(&[0]).agrees();
    let case = Case::microsoft("QLinearConcat").constant(scalar(0.021f32)).constant(scalar(127u8)).int("axis", 1);
    with(with(case, &[2, 3], 0.03, 120), &[2, 5], 0.019, 4).dynamic(&[0]).agrees();
}

#[test]
fn products_of_onnx_runtime() {
    let case = || Case::microsoft("MatMulIntegerToFloat").data(u8s(&[3, 4])).constant(i8s(&[4, 5]));
    case().data(scalar(0.02f32)).constant(scalar(0.01f32)).dynamic(&[0]).agrees();
    let columns = floats_from(&[5], 0.01, 0.03);
    let full =
        case().data(scalar(0.02f32)).constant(columns.clone()).data(scalar(7u8)).constant(of(&[1i8, 0, 2, 3, 4]));
    full.constant(floats(&[5])).agrees();
    let case = || Case::microsoft("DynamicQuantizeMatMul").data(floats(&[3, 4])).constant(i8s(&[4, 5]));
    case().constant(scalar(0.01f32)).dynamic(&[0]).agrees();
    case().constant(columns).constant(of(&[1i8, 0, 2, 3, 4])).constant(floats(&[5])).agrees();
}

#[test]
fn matrix_products_with_a_bias_in_steps() {
    let case = |m: [usize; 2], n: [usize; 2]| {
        let case = Case::microsoft("QGemm").data(u8s(&m)).data(scalar(0.02f32)).constant(scalar(120u8));
        case.constant(i8s(&n))
    };
    let bias = || integers(&[5], -900i32, 900);
    let plain = |case: Case| case.constant(scalar(0.011f32)).constant(scalar(3i8));
    let to = |case: Case| case.constant(scalar(0.07f32)).constant(scalar(101u8));
    to(plain(case([3, 4], [4, 5])).constant(bias())).dynamic(&[0]).agrees();
    to(plain(case([3, 4], [4, 5])).absent()).float("alpha", 0.5).agrees();
    // Without a scale of the result that is a real number; scales may belong to columns.
    let columns = case([4, 3], [5, 4]).constant(floats_from(&[5], 0.01, 0.03)).constant(of(&[1i8, 0, 2, 3, 4]));
    columns.constant(bias()).int("transA", 1).int("transB", 1).float("alpha", 2.0).agrees();
}

#[test]
fn choices_of_onnx_runtime() {
    let condition = Tensor::from_bools(&[4], &[true, false, false, true]).expect("four");
    let case = with(Case::microsoft("QLinearWhere").data(condition), &[3, 4], 0.02, 7);
    with(case, &[3, 1], 0.05, 200).constant(scalar(0.043f32)).constant(scalar(90u8)).agrees();
}

#[test]
fn products_with_packed_weights() {
    let case = |bits: i64, k: usize, block: usize| {
        let blocks = k.div_ceil(block);
        let case = Case::microsoft("MatMulNBits").data(floats(&[2, 3, k]));
        let case = case.constant(u8s(&[5, blocks, block * bits as usize / 8]));
        let case = case.constant(floats_from(&[5 * blocks], 0.01, 0.05)).int("bits", bits).int("N", 5);
        (case.int("K", k as i64).int("block_size", block as i64).tolerance(1e-4), blocks)
    };
    for (bits, k, block) in [(4, 32, 16), (4, 40, 16), (8, 32, 16), (2, 32, 16)] {
        case(bits, k, block).0.agrees();
        let (zeroed, blocks) = case(bits, k, block);
        let row = (blocks * bits as usize).div_ceil(8);
        zeroed.constant(u8s(&[5 * row])).absent().constant(floats(&[5])).agrees();
    }
    let (in_floats, blocks) = case(4, 32, 16);
    in_floats.constant(floats_from(&[5, blocks], 0.0, 15.0)).dynamic(&[0]).agrees();
    // The left operand in bytes, too; of the last one a block is not full.
    for (bits, k, block) in [(4, 64, 32), (8, 32, 16), (2, 32, 16), (4, 40, 16)] {
        let (in_bytes, blocks) = case(bits, k, block);
        in_bytes.int("accuracy_level", 4).agrees();
        let (zeroed, _) = case(bits, k, block);
        let row = (blocks * bits as usize).div_ceil(8);
        let zeroed = zeroed.int("accuracy_level", 4).constant(u8s(&[5 * row])).absent().constant(floats(&[5]));
        zeroed.dynamic(&[0]).agrees();
    }
    let (in_bytes, blocks) = case(4, 32, 16);
    in_bytes.int("accuracy_level", 4).constant(floats_from(&[5, blocks], 0.0, 15.0)).agrees();
}
