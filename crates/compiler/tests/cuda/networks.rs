//! Networks of the kinds that models are made of, small enough for the simulator. Weights are drawn.

use crate::net::{Attr, Net};
use infc_tensor::{DType, Tensor};
use infc_testkit::random_tensor;

/// Values of about unit size after a sum of `fan_in` products.
fn weight(shape: &[usize], fan_in: usize, seed: u64) -> Tensor {
    let drawn = random_tensor(DType::F32, shape.to_vec(), seed);
    let scale = (3.0 / fan_in as f32).sqrt();
    let scaled: Vec<f32> = drawn.elements::<f32>().expect("floats").iter().map(|x| x * scale).collect();
    Tensor::from_elements(shape, &scaled).expect("as many")
}

/// Positive values around one, as variances are.
fn positive(len: usize, seed: u64) -> Tensor {
    let drawn = random_tensor(DType::F32, vec![len], seed);
    let values: Vec<f32> = drawn.elements::<f32>().expect("floats").iter().map(|x| 1.0 + 0.5 * x).collect();
    Tensor::from_elements(&[len], &values).expect("as many")
}

fn integers(values: &[i64]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("as many")
}

/// A convolution of 3×3 with padding, and the normalisation behind it.
fn convolution(net: Net, from: &str, to: &str, channels: (usize, usize), stride: i64, seed: u64) -> Net {
    let name = |what: &str| format!("{to}.{what}");
    let (w, mean, var) = (name("w"), name("mean"), name("var"));
    let (scale, bias, out) = (name("scale"), name("bias"), name("conv"));
    net.constant(&w, &weight(&[channels.1, channels.0, 3, 3], 9 * channels.0, seed))
        .constant(&scale, &positive(channels.1, seed + 1))
        .constant(&bias, &weight(&[channels.1], 12, seed + 2))
        .constant(&mean, &weight(&[channels.1], 12, seed + 3))
        .constant(&var, &positive(channels.1, seed + 4))
        .node(
            "Conv",
            &[from, &w],
            &[&out],
            &[("pads", Attr::Ints(&[1, 1, 1, 1])), ("strides", Attr::Ints(&[stride; 2]))],
        )
        .node("BatchNormalization", &[&out, &scale, &bias, &mean, &var], &[to], &[])
}

/// Convolutions of as many channels as make minimal filtering worth it, over images of any size.
pub(crate) fn any_size() -> Net {
    let net = Net::new(17).input("x", DType::F32, &["N", "3", "H", "W"]);
    let net = convolution(net, "x", "stem", (3, 24), 2, 1).node("Relu", &["stem"], &["stem.relu"], &[]);
    let net = convolution(net, "stem.relu", "wide", (24, 24), 1, 10).node("Relu", &["wide"], &["wide.relu"], &[]);
    // Its result is row-major, which tiles of images do not write well.
    convolution(net, "wide.relu", "last", (24, 4), 1, 20).output("last")
}

/// Convolutions with normalisation, a branch around two of them, pooling of both kinds, and a product at the end.
pub(crate) fn residual() -> Net {
    let net = Net::new(17).input("x", DType::F32, &["N", "3", "13", "11"]);
    let net = convolution(net, "x", "stem", (3, 8), 2, 1).node("Relu", &["stem"], &["stem.relu"], &[]).node(
        "MaxPool",
        &["stem.relu"],
        &["pooled"],
        &[("kernel_shape", Attr::Ints(&[3, 3])), ("strides", Attr::Ints(&[2, 2])), ("pads", Attr::Ints(&[1, 1, 1, 1]))],
    );
    let net = convolution(net, "pooled", "a", (8, 8), 1, 10).node("Relu", &["a"], &["a.relu"], &[]);
    let net = convolution(net, "a.relu", "b", (8, 8), 1, 20).node("Add", &["b", "pooled"], &["sum"], &[]).node(
        "Relu",
        &["sum"],
        &["block"],
        &[],
    );
    net.constant("fc.w", &weight(&[8, 5], 8, 30))
        .constant("fc.b", &weight(&[5], 12, 31))
        .node("GlobalAveragePool", &["block"], &["mean"], &[])
        .node("Flatten", &["mean"], &["flat"], &[])
        .node("Gemm", &["flat", "fc.w", "fc.b"], &["y"], &[])
        .output("y")
}

/// Two products, one of which is only added to what follows from the other: the sum can lie where that one does.
pub(crate) fn branches() -> Net {
    Net::new(17)
        .input("x", DType::F32, &["N", "6"])
        .constant("w0", &weight(&[6, 9], 6, 1))
        .constant("w1", &weight(&[6, 7], 6, 2))
        .constant("w2", &weight(&[7, 9], 7, 3))
        .constant("w3", &weight(&[9, 4], 9, 4))
        .node("MatMul", &["x", "w0"], &["a"], &[])
        .node("MatMul", &["x", "w1"], &["b"], &[])
        .node("MatMul", &["b", "w2"], &["c"], &[])
        .node("Add", &["c", "a"], &["sum"], &[])
        .node("Relu", &["sum"], &["s"], &[])
        .node("MatMul", &["s", "w3"], &["y"], &[])
        .output("y")
}

/// A layer of an encoder: attention of two heads, and two products with an activation in between; both behind a
/// normalisation and beside a branch around them.
pub(crate) fn transformer() -> Net {
    const WIDTH: usize = 16;
    let linear = |net: Net, from: &str, to: &str, shape: [usize; 2], seed: u64| {
        let (w, b, product) = (format!("{to}.w"), format!("{to}.b"), format!("{to}.product"));
        net.constant(&w, &weight(&shape, shape[0], seed))
            .constant(&b, &weight(&shape[1..], 12, seed + 1))
            .node("MatMul", &[from, &w], &[&product], &[])
            .node("Add", &[&product, &b], &[to], &[])
    };
    let norm = |net: Net, from: &str, to: &str, seed: u64| {
        let (scale, bias) = (format!("{to}.scale"), format!("{to}.bias"));
        net.constant(&scale, &positive(WIDTH, seed)).constant(&bias, &weight(&[WIDTH], 12, seed + 1)).node(
            "LayerNormalization",
            &[from, &scale, &bias],
            &[to],
            &[],
        )
    };
    let mut net = Net::new(17)
        .input("x", DType::F32, &["N", "S", "16"])
        .constant("heads", &integers(&[0, 0, 2, 8]))
        .constant("whole", &integers(&[0, 0, 16]))
        .constant("root", &Tensor::from_elements(&[], &[8f32.sqrt()]).expect("one"))
        .constant("two", &Tensor::from_elements(&[], &[2f32.sqrt()]).expect("one"))
        .constant("one", &Tensor::from_elements(&[], &[1f32]).expect("one"))
        .constant("half", &Tensor::from_elements(&[], &[0.5f32]).expect("one"));
    net = norm(net, "x", "normed", 1);
    for (n, part) in (0u64..).zip(["q", "k", "v"]) {
        net = linear(net, "normed", part, [WIDTH, WIDTH], 10 + 2 * n);
        let (split, turned) = (format!("{part}.split"), format!("{part}.turned"));
        let order: &[i64] = if part == "k" { &[0, 2, 3, 1] } else { &[0, 2, 1, 3] };
        net = net.node("Reshape", &[part, "heads"], &[&split], &[]).node(
            "Transpose",
            &[&split],
            &[&turned],
            &[("perm", Attr::Ints(order))],
        );
    }
    net = net
        .node("MatMul", &["q.turned", "k.turned"], &["scores"], &[])
        .node("Div", &["scores", "root"], &["scaled"], &[])
        .node("Softmax", &["scaled"], &["weights"], &[("axis", Attr::Int(-1))])
        .node("MatMul", &["weights", "v.turned"], &["heads.out"], &[])
        .node("Transpose", &["heads.out"], &["joined"], &[("perm", Attr::Ints(&[0, 2, 1, 3]))])
        .node("Reshape", &["joined", "whole"], &["attended"], &[]);
    net = linear(net, "attended", "mixed", [WIDTH, WIDTH], 20).node("Add", &["mixed", "x"], &["first"], &[]);
    net = norm(net, "first", "normed2", 30);
    net = linear(net, "normed2", "wide", [WIDTH, 2 * WIDTH], 40)
        .node("Div", &["wide", "two"], &["wide.scaled"], &[])
        .node("Erf", &["wide.scaled"], &["wide.erf"], &[])
        .node("Add", &["wide.erf", "one"], &["wide.one"], &[])
        .node("Mul", &["wide", "wide.one"], &["wide.both"], &[])
        .node("Mul", &["wide.both", "half"], &["active"], &[]);
    linear(net, "active", "narrow", [2 * WIDTH, WIDTH], 50).node("Add", &["narrow", "first"], &["y"], &[]).output("y")
}

/// A recurrence of both directions, and what its last step gives.
pub(crate) fn recurrent(batch: &str) -> Net {
    const HIDDEN: usize = 6;
    Net::new(17)
        .input("x", DType::F32, &["S", batch, "5"])
        .constant("w", &weight(&[2, 4 * HIDDEN, 5], 5, 1))
        .constant("r", &weight(&[2, 4 * HIDDEN, HIDDEN], HIDDEN, 2))
        .constant("b", &weight(&[2, 8 * HIDDEN], 12, 3))
        .node(
            "LSTM",
            &["x", "w", "r", "b"],
            &["y", "last", ""],
            &[("hidden_size", Attr::Int(HIDDEN as i64)), ("direction", Attr::Text("bidirectional"))],
        )
        .output("y")
        .output("last")
}

/// Images to boxes at two scales: a head for classes and one for sizes on each, put together, and sizes that grow exponentially
/// around the points of a grid.
pub(crate) fn detector() -> Net {
    const BOXES: usize = 6 * 5 + 3 * 3;
    let net = Net::new(17).input("x", DType::F32, &["N", "3", "12", "10"]);
    let net = convolution(net, "x", "stem", (3, 8), 2, 1).node("LeakyRelu", &["stem"], &["fine"], &[]);
    let mut net = convolution(net, "fine", "deep", (8, 8), 2, 10)
        .node("LeakyRelu", &["deep"], &["coarse"], &[])
        .constant("columns", &integers(&[0, -1, 4]))
        .constant("classes", &integers(&[0, -1, 2]));
    for (n, scale) in (0u64..).zip(["fine", "coarse"]) {
        for (m, (head, width)) in (0u64..).zip([("columns", 4), ("classes", 2)]) {
            let name = |what: &str| format!("{scale}.{head}.{what}");
            let (w, map, last, list) = (name("w"), name("map"), name("last"), name("list"));
            net = net
                .constant(&w, &weight(&[width, 8, 1, 1], 8, 30 + 2 * n + m))
                .node("Conv", &[scale, &w], &[&map], &[])
                .node("Transpose", &[&map], &[&last], &[("perm", Attr::Ints(&[0, 2, 3, 1]))])
                .node("Reshape", &[&last, head], &[&list], &[]);
        }
    }
    let last = [("axis", Attr::Int(-1))];
    net.constant("grid", &weight(&[1, BOXES, 2], 3, 50))
        .constant("halves", &integers(&[2, 2]))
        .node("Concat", &["fine.columns.list", "coarse.columns.list"], &["sizes"], &[("axis", Attr::Int(1))])
        .node("Concat", &["fine.classes.list", "coarse.classes.list"], &["logits"], &[("axis", Attr::Int(1))])
        .node("Split", &["sizes", "halves"], &["offsets", "extents"], &last)
        .node("Add", &["offsets", "grid"], &["centres"], &[])
        .node("Exp", &["extents"], &["widths"], &[])
        .node("Concat", &["centres", "widths"], &["boxes"], &last)
        .node("Sigmoid", &["logits"], &["scores"], &[])
        .output("boxes")
        .output("scores")
}
