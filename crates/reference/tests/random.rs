//! Random numbers: with a seed they are those of numpy's `RandomState`, which ONNX's reference implementation draws.

mod support;

use infc_tensor::{DType, Tensor};
use support::op;

fn shape_and_seed(name: &'static str) -> support::Op {
    op(name, 1).with("shape", vec![2i64, 2]).with("seed", 0.0f32)
}

#[test]
fn seeded_numbers_are_numpys() {
    let uniform = shape_and_seed("RandomUniform").with("low", 1.0f32).with("high", 3.0f32).try_all(&[]).unwrap();
    let expected = [0.548_813_5f32, 0.715_189_4, 0.602_763_36, 0.544_883_2].map(|v| 1.0 + 2.0 * v);
    for (found, expected) in uniform[0].elements::<f32>().unwrap().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    let normal = shape_and_seed("RandomNormal").try_all(&[]).unwrap();
    for (found, expected) in
        normal[0].elements::<f32>().unwrap().iter().zip([1.764_052_3f32, 0.400_157_2, 0.978_738, 2.240_893_1])
    {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn without_a_seed_no_two_are_alike() {
    let draw = || op("RandomUniform", 1).with("shape", vec![8i64]).try_all(&[]).unwrap().remove(0);
    assert_ne!(draw(), draw());
}

#[test]
fn chances_and_classes() {
    let p = Tensor::from_elements(&[4], &[0.0f32, 1.0, 0.0, 1.0]).unwrap();
    let drawn = op("Bernoulli", 15).with("dtype", 6i64).try_all(&[Some(&p)]).unwrap();
    assert_eq!(drawn[0].elements::<i32>().unwrap(), [0, 1, 0, 1]);
    let drawn = op("Bernoulli", 15).try_all(&[Some(&p)]).unwrap();
    assert_eq!(drawn[0].elements::<f32>().unwrap(), [0.0, 1.0, 0.0, 1.0]);
    let logits = Tensor::from_elements(&[2, 3], &[-1e9f32, 0.0, -1e9, 0.0, -1e9, -1e9]).unwrap();
    let classes =
        op("Multinomial", 7).with("sample_size", 2i64).with("seed", 1.0f32).try_all(&[Some(&logits)]).unwrap();
    assert_eq!((classes[0].dtype(), classes[0].shape()), (DType::I32, &[2, 2][..]));
    assert_eq!(classes[0].elements::<i32>().unwrap(), [1, 1, 0, 0]);
}
