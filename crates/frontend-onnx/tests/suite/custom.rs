//! Custom operators: declarations, and the types that follow from them.

use crate::steps::body;
use crate::support::{Builder, Extent, Value, node};
use infc_frontend_onnx::proto::NodeProto;
use infc_frontend_onnx::{CustomOps, ImportError, ImportOptions};
use infc_ir::graph::Graph;
use infc_ir::op::{HostOp, Op};
use infc_ir::verify::verify_graph;
use infc_tensor::DType;
use std::sync::Arc;

const UPSCALE: &str = r#"
[[operator]]
domain = "my.domain"
name = "Upscale"
version = 2
types = { T = ["f32", "f16"] }
inputs = [
    { name = "x", type = "T", shape = ["...", "H", "W"] },
    { name = "mask", type = "bool", shape = ["H", 1, "?"], optional = true },
]
outputs = [
    { name = "y", type = "T", shape = ["...", "H * @factor", "max(W, 4) / 2"] },
    { name = "kept", type = "i64", shape = ["?", 2] },
]
"#;

fn declared(text: &str) -> CustomOps {
    CustomOps::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn upscale(inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> NodeProto {
    NodeProto { domain: Some("my.domain".to_owned()), ..node("Upscale", inputs, outputs, attributes) }
}

fn model(x: DType, mask: &[Extent<'_>], opset: i64, node: NodeProto) -> Builder {
    let outputs: Vec<String> = node.output.iter().filter(|name| !name.is_empty()).cloned().collect();
    let shape = ["N", "C", "H", "W"].map(Extent::Named);
    let model = Builder::new(21).import_opset("my.domain", opset).input("x", x, &shape);
    let model = model.input("mask", DType::Bool, mask).node(node);
    outputs.iter().fold(model, |model, name| model.output(name))
}

fn import(model: &Builder) -> Result<Graph, ImportError> {
    import_with(model, UPSCALE)
}

fn import_with(model: &Builder, text: &str) -> Result<Graph, ImportError> {
    let graph = model.import_with(&ImportOptions { custom_ops: declared(text), ..ImportOptions::default() })?;
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    Ok(graph)
}

/// Of the first output.
fn type_of(graph: &Graph) -> String {
    let ty = graph.ty(graph.outputs[0].value);
    let shape: Vec<String> = ty.shape.iter().map(ToString::to_string).collect();
    format!("{}[{}]", ty.dtype, shape.join(", "))
}

fn factor() -> [(&'static str, Value); 1] {
    [("factor", Value::Int(3))]
}

const MASK: [Extent<'static>; 3] = [Extent::Named("H"), Extent::Number(1), Extent::Number(5)];

/// Steps of a loop that call one are graphs of their own, which the host runs one after the other.
#[test]
fn a_step_of_a_loop_calls_one() {
    let step = vec![upscale(&["state"], &["next", ""], &factor()), node("Identity", &["c"], &["on"], &[])];
    let graph = body(&["n", "c", "state"], step, &["on", "next"]);
    let model = Builder::new(21)
        .import_opset("my.domain", 5)
        .input("count", DType::I64, &[])
        .input("x", DType::F32, &["N", "C", "H", "W"].map(Extent::Named))
        .node(node("Loop", &["count", "", "x"], &["y"], &[("body", graph)]))
        .output("y");
    let graph = import(&model).unwrap();
    let hosts = |graph: &Graph| -> Vec<Arc<HostOp>> {
        let ops = graph.order.iter().map(|&id| &graph.nodes[id].op);
        ops.filter_map(|op| if let Op::Host(host) = op { Some(Arc::clone(host)) } else { None }).collect()
    };
    let [looped] = &hosts(&graph)[..] else { panic!("{graph}") };
    let body = looped.body.as_ref().expect("its steps are compiled");
    assert!(body.is_whole() && looped.graphs.is_empty() && body.captures.is_empty());
    // The operator makes rows three times as many, and says nothing of the columns.
    assert_eq!([0, 1, 2, 3].map(|axis| body.keeps(0, axis)), [true, true, false, false]);
    assert_eq!(hosts(&body.graph)[0].domain, "my.domain");
}

/// A scan has kernels alone.
#[test]
fn a_step_of_a_scan_calls_none() {
    let step = vec![upscale(&["slice"], &["part", ""], &factor())];
    let graph = body(&["slice"], step, &["part"]);
    let model = Builder::new(21)
        .import_opset("my.domain", 5)
        .input("x", DType::F32, &["T", "N", "C", "H", "W"].map(Extent::Named))
        .node(node("Scan", &["x"], &["y"], &[("body", graph), ("num_scan_inputs", Value::Int(1))]))
        .output("y");
    let error = import(&model).expect_err("it is refused");
    assert_eq!(error.code(), "onnx::unsupported-operator");
    assert!(error.to_string().contains("calls no custom operator"), "{error}");
}

#[test]
fn types_follow_from_the_declaration() {
    for (dtype, inputs) in [(DType::F32, &["x", "mask"][..]), (DType::F16, &["x"]), (DType::F16, &["x", ""])] {
        let graph = import(&model(dtype, &MASK, 5, upscale(inputs, &["y", "kept"], &factor()))).unwrap();
        assert_eq!(type_of(&graph), format!("{dtype}[$0, $1, 3*$2, div(max(4, $3), 2)]"));
        let host = graph.order.iter().find_map(|&id| match &graph.nodes[id].op {
            Op::Host(host) => Some(host),
            _ => None,
        });
        let host = host.expect("an operation of the host");
        // The version is the declared one, whatever opset the model imports; the run tells the one extent.
        assert_eq!((host.domain.as_str(), host.opset, host.produces.len()), ("my.domain", 2, 1));
    }
}

#[test]
fn nodes_that_do_not_fit_are_refused() {
    let code = |model: &Builder| import(model).unwrap_err().code();
    let with = |inputs: &[&str], attributes: &[(&str, Value)]| {
        model(DType::F32, &MASK, 2, upscale(inputs, &["y"], attributes))
    };
    assert_eq!(code(&with(&["", "mask"], &factor())), "onnx::missing-input");
    assert_eq!(code(&with(&["mask"], &factor())), "onnx::type-mismatch");
    assert_eq!(code(&with(&["x"], &[])), "onnx::shape-mismatch");
    assert_eq!(code(&with(&["x", "mask", "x"], &factor())), "onnx::shape-mismatch");
    let wrong = [Extent::Named("H"), Extent::Number(2), Extent::Number(5)];
    assert_eq!(code(&model(DType::F32, &wrong, 2, upscale(&["x", "mask"], &["y"], &factor()))), "onnx::shape-mismatch");
    assert_eq!(
        code(&model(DType::F32, &wrong[1..], 2, upscale(&["x", "mask"], &["y"], &factor()))),
        "onnx::shape-mismatch"
    );
    // An opset before the declared version does not have it.
    assert_eq!(code(&model(DType::F32, &MASK, 1, upscale(&["x"], &["y"], &factor()))), "onnx::unsupported-operator");
    let three = upscale(&["x"], &["y", "", "z"], &factor());
    assert_eq!(code(&model(DType::F32, &MASK, 2, three)), "onnx::unsupported-output");
}

#[test]
fn the_newest_version_that_the_opset_has() {
    let simple = |version: i64, extent: i64| {
        format!(
            "[[operator]]\ndomain = \"my.domain\"\nname = \"Upscale\"\nversion = {version}\n\
             inputs = [{{ name = \"x\", type = \"f32\" }}]\n\
             outputs = [{{ name = \"y\", type = \"f32\", shape = [{extent}] }}]\n"
        )
    };
    let both = simple(1, 10) + &simple(3, 30);
    for (opset, expected) in [(1, "f32[10]"), (2, "f32[10]"), (3, "f32[30]"), (9, "f32[30]")] {
        let graph = import_with(&model(DType::F32, &MASK, opset, upscale(&["x"], &["y"], &[])), &both).unwrap();
        assert_eq!(type_of(&graph), expected);
    }
    assert_eq!(declared(&both).names(), ["my.domain::Upscale@1", "my.domain::Upscale@3"]);
    assert!(
        declared(&both).and(declared(&simple(3, 1))).is_err() && declared(&both).and(declared(&simple(4, 1))).is_ok()
    );
}

#[test]
fn declarations_that_make_no_sense_are_refused() {
    let code = |text: &str| CustomOps::parse(text).unwrap_err().code();
    assert_eq!(code(""), "onnx::custom-ops-syntax");
    assert_eq!(code("[[operator]]\nname = 3"), "onnx::custom-ops-syntax");
    assert_eq!(code(&UPSCALE.replace("version", "vrsion")), "onnx::custom-ops-syntax");
    assert_eq!(code(&"[".repeat(100_000)), "onnx::custom-ops-syntax");
    assert_eq!(code(&format!("x = {}", "[".repeat(100_000))), "onnx::custom-ops-syntax");
    assert_eq!(code(&UPSCALE.repeat(2)), "onnx::invalid-custom-op");
    for (found, instead) in [
        ("\"my.domain\"", "\"\""),
        ("\"my.domain\"", "\"ai.onnx\""),
        ("\"my.domain\"", "\"a::b\""),
        ("\"Upscale\"", "\"Up@scale\""),
        ("version = 2", "version = 0"),
        ("\"f16\"", "\"f17\""),
        ("\"f16\"", "\"sequence\""),
        ("T = [", "f32 = ["),
        ("[\"f32\", \"f16\"]", "[]"),
        ("\"...\", \"H\", \"W\"]", "\"...\", \"H\", \"...\"]"),
        ("shape = [\"H\", 1, \"?\"]", "shape = [\"2*H\"]"),
        ("shape = [\"H\", 1, \"?\"]", "shape = [-1]"),
        ("\"H * @factor\"", "\"K\""),
        ("\"H * @factor\"", "\"H / W\""),
        ("\"H * @factor\"", "-1"),
        ("[\"?\", 2]", "[\"?\", \"...\", \"...\"]"),
        ("name = \"kept\", type = \"i64\"", "name = \"kept\", type = \"S\""),
        ("shape = [\"?\", 2] }", "shape = [\"?\", 2], optional = true }"),
        (", shape = [\"?\", 2]", ""),
    ] {
        let text = UPSCALE.replace(found, instead);
        assert_ne!(text, UPSCALE, "{found}");
        assert_eq!(code(&text), "onnx::invalid-custom-op", "{instead} for {found}");
    }
    let known = "[[operator]]\ndomain = \"com.microsoft\"\nname = \"Gelu\"\ninputs = []\n\
                 outputs = [{ name = \"y\", type = \"f32\", shape = [] }]";
    let error = import_with(&model(DType::F32, &MASK, 2, upscale(&["x"], &["y"], &factor())), known).unwrap_err();
    assert_eq!(error.code(), "onnx::invalid-custom-op");
}

/// Every file that one damaged byte makes of a good one is read or refused.
#[test]
fn damaged_declarations_do_not_panic() {
    let text = UPSCALE.as_bytes();
    for at in 0..text.len() {
        for byte in [b'"', b'[', b'9', b'-', b' ', b'@', b'.', 0] {
            let mut damaged = text.to_vec();
            damaged[at] = byte;
            if let Ok(operators) = CustomOps::parse(&String::from_utf8_lossy(&damaged)) {
                let options = ImportOptions { custom_ops: operators, ..ImportOptions::default() };
                let model = model(DType::F32, &MASK, 2, upscale(&["x", "mask"], &["y", "kept"], &factor()));
                let _ = model.import_with(&options);
            }
        }
    }
}
