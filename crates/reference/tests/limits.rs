//! Hostile inputs are refused, not obeyed.

mod support;

use infc_reference::{Attribute, Attributes, EvalError, Node, evaluate, is_supported, registry};
use infc_tensor::{DType, Tensor};
use std::collections::HashSet;
use support::{iota, op, t, vector};

#[test]
fn huge_outputs_are_refused() {
    let huge = vector(&[1i64 << 40]);
    assert!(matches!(op("ConstantOfShape", 9).error(&[&huge]), EvalError::TooLarge { .. }));
    assert!(matches!(op("Expand", 13).error(&[&iota(&[1]), &huge]), EvalError::TooLarge { .. }));
    assert!(matches!(op("Tile", 13).error(&[&iota(&[1]), &huge]), EvalError::TooLarge { .. }));
    assert!(matches!(op("Pad", 13).error(&[&iota(&[1]), &vector(&[0i64, 1 << 40])]), EvalError::TooLarge { .. }));
    let range = [0i64, i64::MAX, 1].map(Tensor::scalar);
    assert!(matches!(op("Range", 11).error(&[&range[0], &range[1], &range[2]]), EvalError::TooLarge { .. }));
    let scales = vector(&[1e30f32]);
    let resize = op("Resize", 13).error(&[&iota(&[1]), &vector::<f32>(&[]), &scales]);
    assert!(matches!(resize, EvalError::TooLarge { .. }));
    let shape = [i64::MAX, i64::MAX];
    assert!(matches!(op("ConstantOfShape", 9).error(&[&vector(&shape)]), EvalError::TooLarge { .. }));
}

#[test]
fn huge_loops_are_refused() {
    let x = iota(&[1, 1, 9]);
    let node = op("MaxPool", 12)
        .with("kernel_shape", vec![1i64 << 28])
        .with("pads", vec![1i64 << 27, 1 << 28])
        .with("strides", vec![1i64]);
    assert!(matches!(node.error(&[&x]), EvalError::TooMuchWork { .. } | EvalError::TooLarge { .. }));
    let v = iota(&[4096]);
    let node = op("Einsum", 12).with("equation", "a,b,c->");
    assert!(matches!(node.error(&[&v, &v, &v]), EvalError::TooMuchWork { .. }));
}

#[test]
fn empty_tensors_with_long_axes_take_no_time() {
    let empty = Tensor::zeros(DType::F32, &[1 << 40, 0]).unwrap();
    for name in ["Relu", "Softmax", "Transpose", "Identity", "NonZero", "IsNaN"] {
        assert!(op(name, 13).try_all(&[Some(&empty)]).is_ok(), "{name}");
    }
    let cum = op("CumSum", 14).run(&[&empty, &Tensor::scalar(0i64)]);
    assert_eq!(cum.shape(), [1 << 40, 0]);
    let beyond = Tensor::zeros(DType::F32, &[usize::MAX, 0]).unwrap();
    assert!(matches!(op("Relu", 13).error(&[&beyond]), EvalError::TooLarge { .. }));
}

#[test]
fn missing_parts_are_named() {
    assert_eq!(op("Add", 13).error(&[&iota(&[1])]), EvalError::MissingInput { index: 1 });
    assert_eq!(op("Relu", 13).outputs(2).error(&[&iota(&[1])]), EvalError::TooManyOutputs { found: 2, available: 1 });
    assert!(matches!(op("Concat", 13).error(&[&iota(&[1])]), EvalError::InvalidAttribute { name: "axis", .. }));
    let wrong = op("Softmax", 13).with("axis", "one").error(&[&iota(&[1])]);
    assert_eq!(wrong.to_string(), "attribute `axis` is a string, expected an integer");
    assert!(matches!(op("Sqrt", 13).error(&[&vector(&[1i64])]), EvalError::UnsupportedType { dtype: DType::I64 }));
    let error = op("NoSuchOperator", 13).error(&[]);
    assert!(matches!(error, EvalError::Unsupported { .. }), "{error}");
}

#[test]
fn the_table_knows_opsets_and_domains() {
    assert!(is_supported("Conv", "") && is_supported("Conv", "ai.onnx"));
    assert!(!is_supported("Conv", "com.example") && !is_supported("NoSuchOperator", ""));
    assert!(registry::find("Gelu", "", 19).is_none() && registry::find("Gelu", "", 20).is_some());
    assert!(registry::find("Upsample", "", 9).is_some() && registry::find("Upsample", "", 10).is_none());
    let mut seen = HashSet::new();
    assert!(registry::OPERATORS.iter().all(|o| seen.insert((o.domain, o.name)) && o.since <= o.until));
}

#[test]
fn every_operator_survives_nonsense() {
    let tensors = [
        t(&[2, 3], &[f32::NAN, f32::INFINITY, -0.0, 1e30, -1.0, 3.0]),
        vector(&[i64::MIN, i64::MAX, -1]),
        Tensor::zeros(DType::Bool, &[0, 7]).unwrap(),
        Tensor::zeros(DType::U4, &[3]).unwrap(),
        Tensor::from_strings(&[1], vec!["x".to_owned()]).unwrap(),
        Tensor::scalar(2i64),
        iota(&[1, 2, 3, 2]),
    ];
    let attributes: Attributes = [
        ("axis", Attribute::Int(i64::MIN)),
        ("axes", Attribute::Ints(vec![i64::MAX, 0])),
        ("kernel_shape", Attribute::Ints(vec![i64::MAX, 2])),
        ("pads", Attribute::Ints(vec![i64::MIN; 4])),
        ("group", Attribute::Int(0)),
        ("to", Attribute::Int(-1)),
        ("blocksize", Attribute::Int(i64::MAX)),
        ("num_groups", Attribute::Int(i64::MAX)),
        ("equation", "..ij,->".into()),
    ]
    .into_iter()
    .collect();
    let none = Attributes::new();
    for operator in registry::OPERATORS {
        for attributes in [&none, &attributes] {
            for opset in [operator.since, 11, 13, 24] {
                for first in 0..tensors.len() {
                    let inputs: Vec<_> = tensors.iter().cycle().skip(first).take(4).map(Some).collect();
                    let node =
                        Node { op_type: operator.name, domain: operator.domain, opset, attributes, num_outputs: 1 };
                    // Whether it evaluates is not the point; that it returns is.
                    for count in 0..=inputs.len() {
                        let outcome = evaluate(&node, &inputs[..count]);
                        assert!(outcome.is_err() || outcome.is_ok_and(|outputs| outputs.len() == 1));
                    }
                }
            }
        }
    }
}
