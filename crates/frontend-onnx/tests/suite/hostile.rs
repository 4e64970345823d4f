//! Damaged models: whatever the bytes are, loading and importing ends in a graph or an error, soon and without panic.

use crate::support::{Builder, Extent, Value, ints, node};
use infc_frontend_onnx::{ImportOptions, Model, import};
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

/// Changes bytes of the model and tries to import what comes out; `true` if something could still be imported.
pub(crate) fn survives(model: &Builder, rounds: u64) -> bool {
    let bytes = model.bytes();
    let mut imported = false;
    for round in 0..rounds {
        let mut random = Random(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ bytes.len() as u64 | 1);
        let mut damaged = bytes.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(damaged.len());
            match random.below(4) {
                0 => damaged[at] = random.next() as u8,
                1 => damaged[at] ^= 1 << random.below(8),
                // The values that break arithmetic.
                2 => damaged[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                _ => {
                    let byte = damaged[random.below(bytes.len())];
                    damaged[at] = byte;
                }
            }
        }
        if let Ok(model) = Model::from_bytes(damaged, None)
            && let Ok(graph) = import(&model, &ImportOptions::default())
        {
            imported = true;
            if let Err(error) = verify_graph(&graph) {
                panic!("round {round} imports a graph that is not valid: {error}");
            }
        }
    }
    imported
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
}

#[test]
fn a_model_with_everything_survives() {
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(4), Extent::Number(8), Extent::Number(8)])
        .initializer("w", &Tensor::zeros(DType::F32, &[6, 2, 3, 3]).expect("small"))
        .initializer("target", &ints(&[0, 3, -1]))
        .initializer("starts", &ints(&[1]))
        .initializer("ends", &ints(&[-1]))
        .initializer("axes", &ints(&[2]))
        .node(node(
            "Conv",
            &["x", "w"],
            &["c"],
            &[
                ("group", Value::Int(2)),
                ("pads", Value::Ints(vec![1, 1, 1, 1])),
                ("strides", Value::Ints(vec![2, 2])),
                ("kernel_shape", Value::Ints(vec![3, 3])),
            ],
        ))
        .node(node("MaxPool", &["c"], &["p"], &[("kernel_shape", Value::Ints(vec![2, 2]))]))
        .node(node("Shape", &["p"], &["s"], &[]))
        .node(node("Reshape", &["p", "target"], &["r"], &[]))
        .node(node("Slice", &["r", "starts", "ends", "axes"], &["t"], &[]))
        .node(node("Softmax", &["t"], &["u"], &[("axis", Value::Int(1))]))
        .node(node("Split", &["u"], &["a", "b"], &[("axis", Value::Int(2))]))
        .node(node("Concat", &["a", "b", "a"], &["v"], &[("axis", Value::Int(-1))]))
        .output("v")
        .output("s");
    model.import().expect("undamaged, it is valid");
    assert!(survives(&model, 20_000), "some damage does not matter");
}

#[test]
fn random_bytes_are_no_model() {
    for round in 1..2000u64 {
        let mut random = Random(round);
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        assert!(Model::from_bytes(bytes, None).is_err(), "round {round}");
    }
}
