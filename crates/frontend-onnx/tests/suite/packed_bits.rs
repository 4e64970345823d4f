//! Operators of `com.microsoft` whose numbers of a few bits are packed into bytes.

use crate::contrib::{MICROSOFT, microsoft, same};
use crate::support::{Builder, Value, node};
use crate::values::floats;
use infc_frontend_onnx::proto::OperatorSetIdProto;
use infc_tensor::Tensor;

/// Rows of a table that is quantised in blocks: what `DequantizeLinear` makes of the whole, looked up.
#[test]
fn look_ups_in_quantised_tables() {
    for (bits, has_zeros) in [(4usize, false), (4, true), (8, false), (8, true), (2, true)] {
        let (rows, columns, block) = (5usize, 32usize, 16usize);
        let pack = |numbers: &[u32], row: usize| -> Vec<u8> {
            let packed = numbers.chunks(row).flat_map(|row| {
                row.chunks(8 / bits).map(|part| part.iter().enumerate().map(|(i, n)| (n << (i * bits)) as u8).sum())
            });
            packed.collect()
        };
        let number = |i: usize| (i as u32 * 7 + 3) % (1 << bits);
        let numbers: Vec<u32> = (0..rows * columns).map(number).collect();
        let blocks = columns / block;
        let zeros: Vec<u32> = (0..rows * blocks).map(|i| number(i + 11)).collect();
        let zero = |row: usize, of: usize| if has_zeros { zeros[row * blocks + of] } else { 1 << (bits - 1) };
        let scales = floats(&[rows, blocks]);
        let steps = scales.elements::<f32>().expect("floats");
        let table: Vec<f32> = (0..rows * columns)
            .map(|i| {
                let (row, of) = (i / columns, i % columns / block);
                (numbers[i] as f32 - zero(row, of) as f32) * steps[row * blocks + of]
            })
            .collect();
        let bytes = pack(&numbers, columns);
        let packed = Tensor::from_elements(&[rows, bytes.len() / rows], &bytes).expect("all rows");
        let bytes = pack(&zeros, blocks);
        let zeros = Tensor::from_elements(&[rows, bytes.len() / rows], &bytes).expect("all blocks");
        let at = Tensor::from_elements(&[2, 3], &[4i64, 0, 2, 2, -1, 1]).expect("six");
        let inputs = [("b", packed), ("at", at), ("s", scales.clone()), ("z", zeros)];
        let names = ["b", "at", "s", "z"];
        let names = if has_zeros { &names[..] } else { &names[..3] };
        let [bits, block] = [bits, block].map(|n| Value::Int(n as i64));
        let attributes = [("bits", bits), ("block_size", block)];
        let fused = microsoft("GatherBlockQuantized", names, &["y"], &attributes);
        let table = Value::Tensor(Tensor::from_elements(&[rows, columns], &table).expect("all numbers"));
        let spelled_out = vec![
            node("Constant", &[], &["t"], &[("value", table)]),
            node("Gather", &["t", "at"], &["y"], &[("axis", Value::Int(0))]),
        ];
        same(&inputs, &["y"], fused, spelled_out);
    }
}

/// Scales and zero points that are not those of the table's blocks, and what is no table.
#[test]
fn tables_that_do_not_fit_are_refused() {
    use infc_tensor::DType;
    let refused = |shapes: [&[usize]; 3], types: [DType; 2], attributes: &[(&str, i64)]| {
        let mut model = Builder::new(21);
        let version = OperatorSetIdProto { domain: Some(MICROSOFT.to_owned()), version: Some(1) };
        model.model.opset_import.push(version);
        let [table, zeros] = types;
        let inputs = [("b", table, shapes[0]), ("s", DType::F32, shapes[1]), ("z", zeros, shapes[2])];
        for (name, dtype, shape) in inputs.into_iter().chain([("at", DType::I64, &[3usize][..])]) {
            let shape: Vec<_> = shape.iter().map(|&d| crate::support::Extent::Number(d as i64)).collect();
            model = model.input(name, dtype, &shape);
        }
        let attributes: Vec<(&str, Value)> = attributes.iter().map(|&(name, n)| (name, Value::Int(n))).collect();
        let node = microsoft("GatherBlockQuantized", &["b", "at", "s", "z"], &["y"], &attributes);
        model.node(node).output("y").import().err().map(|e| e.to_string())
    };
    let blocks = [("block_size", 16)];
    let bytes = [DType::U8; 2];
    assert_eq!(refused([&[10, 32], &[10, 4], &[10, 2]], bytes, &blocks), None);
    let wrong: [[&[usize]; 3]; 6] = [
        [&[10, 32], &[10, 4], &[10, 1]],
        [&[10, 32], &[10, 4], &[]],
        [&[10, 32], &[10, 4], &[2]],
        [&[10, 32], &[1, 4], &[10, 2]],
        [&[10, 32], &[10, 5], &[10, 2]],
        [&[10, 32], &[4], &[10, 2]],
    ];
    for shapes in wrong {
        assert!(refused(shapes, bytes, &blocks).is_some(), "{shapes:?}");
    }
    let three: [&[usize]; 3] = [&[10, 8, 16], &[10, 1, 2], &[10, 8, 1]];
    assert!(refused(three, bytes, &[("block_size", 16), ("quantize_axis", 2)]).is_some());
    let fitting: [&[usize]; 3] = [&[10, 32], &[10, 4], &[10, 2]];
    for types in [[DType::F32, DType::F32], [DType::U8, DType::F32]] {
        assert!(refused(fitting, types, &blocks).is_some(), "{types:?}");
    }
    for attributes in [("block_size", 0), ("block_size", i64::MAX), ("bits", 9), ("gather_axis", 1), ("gather_axis", 7)]
    {
        assert!(refused(fitting, bytes, &[attributes]).is_some(), "{attributes:?}");
    }
    // Elements of four bits, looked up along the last axis.
    let turned: [&[usize]; 3] = [&[64, 10], &[4, 10], &[4, 10]];
    let axes = [("block_size", 16), ("gather_axis", 1), ("quantize_axis", 0)];
    assert_eq!(refused(turned, [DType::U4; 2], &axes), None);
    // A block of no whole bytes of eight bits each, of which fewer are stored than it has.
    let short = |block: i64, bytes: usize| {
        let mut model = Builder::new(21);
        let version = OperatorSetIdProto { domain: Some(MICROSOFT.to_owned()), version: Some(1) };
        model.model.opset_import.push(version);
        let shapes: [(&str, DType, &[usize]); 3] =
            [("x", DType::F32, &[2, 12]), ("b", DType::U8, &[1, 1, bytes]), ("s", DType::F32, &[1])];
        for (name, dtype, shape) in shapes {
            let shape: Vec<_> = shape.iter().map(|&d| crate::support::Extent::Number(d as i64)).collect();
            model = model.input(name, dtype, &shape);
        }
        let attributes = [("bits", 8), ("block_size", block), ("K", 12), ("N", 1), ("accuracy_level", 4)];
        let attributes = attributes.map(|(name, n)| (name, Value::Int(n)));
        model.node(microsoft("MatMulNBits", &["x", "b", "s"], &["y"], &attributes)).output("y").import().is_err()
    };
    assert!(short(12, 8) && short(4, 0) && !short(12, 12));
}

#[test]
fn packed_bytes_of_every_width() {
    // Numbers of three bits straddle bytes: 0b…_010_111_001 is 1, 7, 2, …
    for bits in [2usize, 3, 4, 5, 8] {
        let (n, k, block) = (3usize, 32usize, 16usize);
        let numbers: Vec<u32> = (0..n * k).map(|i| (i as u32 * 7 + 3) % (1 << bits)).collect();
        let mut bytes = vec![0u8; n * k * bits / 8];
        for (i, number) in numbers.iter().enumerate() {
            for bit in 0..bits {
                bytes[(i * bits + bit) / 8] |= ((number >> bit & 1) as u8) << ((i * bits + bit) % 8);
            }
        }
        let packed = Tensor::from_elements(&[n, k / block, block * bits / 8], &bytes).expect("all blocks");
        let scales = floats(&[n, k / block]);
        let weights: Vec<f32> = (0..n * k)
            .map(|i| {
                let scale = scales.elements::<f32>().expect("floats")[i / block];
                (numbers[i] as f32 - (1u32 << (bits - 1)) as f32) * scale
            })
            .collect();
        let weights = Tensor::from_elements(&[n, k], &weights).expect("all weights");
        let inputs = [("x", floats(&[2, k])), ("b", packed), ("s", scales)];
        let attributes = [
            ("bits", Value::Int(bits as i64)),
            ("block_size", Value::Int(block as i64)),
            ("K", Value::Int(k as i64)),
            ("N", Value::Int(n as i64)),
        ];
        let fused = microsoft("MatMulNBits", &["x", "b", "s"], &["y"], &attributes);
        let spelled_out = vec![
            node("Constant", &[], &["w"], &[("value", Value::Tensor(weights))]),
            node("Gemm", &["x", "w"], &["y"], &[("transB", Value::Int(1))]),
        ];
        same(&inputs, &["y"], fused, spelled_out);
    }
}
