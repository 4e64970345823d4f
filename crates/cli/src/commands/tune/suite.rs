//! Built-in kernels: what convolutional networks and transformers are made of, small enough to be measured in a moment.
//!
//! They are those of one model, so that layouts, halos and what is fused are as in models. Its parts have nothing to do
//! with each other. Of each, a kernel takes some tens to hundreds of microseconds on cores of the last years.

use crate::failure::Failure;
use crate::small_model::SmallModel;
use infc::{CompileOptions, Phase, Source, Task, VariantTarget};
use prost::Message;

/// The kernels of the suite.
pub(super) fn tasks(target: &VariantTarget, strict: bool) -> Result<Vec<Task>, Failure> {
    let options = CompileOptions {
        targets: vec![target.to_string()],
        byte_targets: Vec::new(),
        strict,
        stop_after: Some(Phase::Plan),
        ..CompileOptions::default()
    };
    let compilation = infc::compile(&Source::bytes(model().encode_to_vec()), &options, &mut ())?;
    Ok(infc::tasks(&compilation.plans()))
}

fn model() -> infc_frontend_onnx::proto::ModelProto {
    let mut model = SmallModel::default();
    stem(&mut model);
    bottleneck(&mut model);
    inverted(&mut model);
    transformer(&mut model);
    classifier(&mut model);
    model.finish()
}

/// A convolution with bias and whatever comes behind it; `[filters, channels / groups, side, side]`.
fn conv(
    model: &mut SmallModel,
    [from, to]: [&str; 2],
    filters: [usize; 4],
    [stride, groups]: [i64; 2],
    then: Option<&str>,
) {
    let (weight, bias, result) = (format!("{to}.w"), format!("{to}.b"), format!("{to}.c"));
    model.weight(&weight, &filters);
    model.weight(&bias, &filters[..1]);
    let pad = (filters[2] / 2) as i64;
    let result = if then.is_some() { result.as_str() } else { to };
    model.node(
        "Conv",
        &[from, &weight, &bias],
        result,
        &[("strides", &[stride, stride]), ("pads", &[pad, pad, pad, pad])],
    );
    model.with_integer("group", groups);
    if let Some(then) = then {
        model.node(then, &[result], to, &[]);
    }
}

/// An image's first convolution, and the maxima behind it.
fn stem(model: &mut SmallModel) {
    model.input("image", &[1, 3, 112, 112]);
    conv(model, ["image", "stem"], [32, 3, 3, 3], [2, 1], Some("Relu"));
    model.node(
        "MaxPool",
        &["stem"],
        "stem.pool",
        &[("kernel_shape", &[3, 3]), ("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])],
    );
    model.output("stem.pool");
}

/// A block of a residual network.
fn bottleneck(model: &mut SmallModel) {
    model.input("residual", &[1, 128, 28, 28]);
    conv(model, ["residual", "res.1"], [32, 128, 1, 1], [1, 1], Some("Relu"));
    conv(model, ["res.1", "res.2"], [32, 32, 3, 3], [1, 1], Some("Relu"));
    conv(model, ["res.2", "res.3"], [128, 32, 1, 1], [1, 1], None);
    model.node("Add", &["res.3", "residual"], "res.sum", &[]);
    model.node("Relu", &["res.sum"], "res.out", &[]);
    model.output("res.out");
}

/// A block of a light network, with a depthwise convolution.
fn inverted(model: &mut SmallModel) {
    model.input("light", &[1, 32, 28, 28]);
    conv(model, ["light", "light.1"], [192, 32, 1, 1], [1, 1], Some("HardSwish"));
    conv(model, ["light.1", "light.2"], [192, 1, 3, 3], [1, 192], Some("HardSwish"));
    conv(model, ["light.2", "light.3"], [32, 192, 1, 1], [1, 1], None);
    model.node("Add", &["light.3", "light"], "light.out", &[]);
    model.output("light.out");
}

/// A block of a transformer, 128 positions of 128 numbers, two heads.
fn transformer(model: &mut SmallModel) {
    model.input("words", &[128, 128]);
    for name in ["norm.scale", "norm.bias"] {
        model.weight(name, &[128]);
    }
    model.node("LayerNormalization", &["words", "norm.scale", "norm.bias"], "norm", &[]);
    model.integers("heads", &[128, 2, 64]);
    for (name, order) in [("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2])] {
        model.weight(&format!("{name}.w"), &[128, 128]);
        model.node("MatMul", &["norm", &format!("{name}.w")], &format!("{name}.all"), &[]);
        model.node("Reshape", &[&format!("{name}.all"), "heads"], &format!("{name}.heads"), &[]);
        model.node("Transpose", &[&format!("{name}.heads")], name, &[("perm", &order)]);
    }
    model.node("MatMul", &["q", "k"], "scores", &[]);
    model.node("Softmax", &["scores"], "shares", &[]);
    model.node("MatMul", &["shares", "v"], "mixed", &[]);
    model.node("Transpose", &["mixed"], "joined", &[("perm", &[1, 0, 2])]);
    model.integers("whole", &[128, 128]);
    model.node("Reshape", &["joined", "whole"], "rows", &[]);
    for (name, shape) in [("project.w", [128, 128]), ("wide.w", [128, 512]), ("narrow.w", [512, 128])] {
        model.weight(name, &shape);
    }
    model.node("MatMul", &["rows", "project.w"], "projected", &[]);
    model.node("Add", &["projected", "words"], "after", &[]);
    model.node("MatMul", &["after", "wide.w"], "wide", &[]);
    model.node("Tanh", &["wide"], "bent", &[]);
    model.node("MatMul", &["bent", "narrow.w"], "narrow", &[]);
    model.node("Add", &["narrow", "after"], "words.out", &[]);
    model.output("words.out");
}

/// The mean of an image's features, and a product with a vector.
fn classifier(model: &mut SmallModel) {
    model.input("features", &[1, 512, 7, 7]);
    model.node("GlobalAveragePool", &["features"], "mean", &[]);
    model.node("Flatten", &["mean"], "flat", &[]);
    model.weight("classes.w", &[512, 1000]);
    model.node("MatMul", &["flat", "classes.w"], "classes", &[]);
    model.output("classes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_has_kernels_of_all_kinds() {
        for strict in [false, true] {
            let tasks = tasks(&"x86-64-v3".parse().expect("a target"), strict).expect("it compiles");
            let of = |node: &str| tasks.iter().filter(|task| task.origins.iter().any(|origin| origin == node)).count();
            for node in ["stem.c", "stem.pool", "res.1.c", "res.2.c", "res.3", "light.2.c", "norm", "shares", "classes"]
            {
                assert!(of(node) > 0, "{node}");
            }
            assert!((15..40).contains(&tasks.len()), "{}", tasks.len());
        }
    }
}
