//! Steps on the host beside those of the GPU: what the artifact gives on the simulator is what it gives on the processor.

use crate::artifacts::{on, options};
use crate::net::{Attr, Net};
use infc::Compilation;
use infc_runtime::{LoadOptions, Model, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use infc_testkit::assert_close;
use std::sync::Arc;

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}

/// Runs an artifact for both on several inputs, one session each; launches of the GPU are counted.
#[track_caller]
fn agrees(net: Net, runs: &[Vec<Tensor>]) -> (Compilation, usize) {
    let compilation = net.compile(&options(&["x86-64-v2", "cuda"])).unwrap_or_else(|e| panic!("{e}"));
    let bytes = compilation.to_bytes().expect("an artifact");
    let cpu = LoadOptions { target: Some("x86-64-v2".to_owned()), ..LoadOptions::default() };
    let Ok(cpu) = Model::from_vec_with(bytes.clone(), &cpu) else { return (compilation, 0) };
    let mut launches = 0;
    for seed in 0..2 {
        let gpu = Arc::new(Simulator::new(seed));
        let model = Model::from_vec_with(bytes.clone(), &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(model.selection().target, "cuda:sm_80");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let mut other = cpu.session(&SessionOptions::default()).expect("a session");
        for (n, inputs) in runs.iter().enumerate() {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            let found = session.run_owned(&inputs).unwrap_or_else(|e| panic!("run {n}: {e}"));
            let expected = other.run_owned(&inputs).unwrap_or_else(|e| panic!("run {n}: {e}"));
            assert_close(&format!("run {n}, seed {seed}"), &found, &expected, 1e-5, 1e-6);
        }
        launches = gpu.launches();
        drop((session, model));
        assert!(gpu.is_empty(), "nothing of the model is left on the GPU");
    }
    (compilation, launches)
}

/// Kernels before a host step, and behind it on what it made, of a size that only the run tells; a value that the GPU has
/// computed before is read there again.
#[test]
fn between_kernels() {
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .node("Mul", &["x", "x"], &["squares"], &[])
        .node("Unique", &["squares"], &["some"], &[])
        .node("Sqrt", &["some"], &["roots"], &[])
        .node("ReduceSum", &["squares"], &["total"], &[])
        .node("Div", &["roots", "total"], &["y"], &[])
        .output("y")
        .output("squares");
    let runs = [
        vec![floats(&[3.0, -1.0, 1.0, 2.0, -3.0])],
        vec![floats(&[1.0, 1.0])],
        vec![floats(&[4.0, 2.0, 0.5, 0.25, 8.0, -8.0, 7.0])],
    ];
    let (compilation, launches) = agrees(net, &runs);
    assert!(launches >= 9, "{launches} launches");
    let report = compilation.report;
    assert_eq!(report.on_host.len(), 1);
    let cuda = report.variants.iter().find(|variant| variant.target == "cuda:sm_80").expect("a variant");
    let to_host = cuda.crossings.iter().filter(|c| c.to == infc_runtime::artifact::Side::Host).count();
    assert_eq!((to_host, cuda.crossings.len()), (1, 2), "{:?}", cuda.crossings);
    assert!(report.variants.iter().filter(|v| v.target != "cuda:sm_80").all(|v| v.crossings.is_empty()));
}

/// What only host steps make, of inputs and of what kernels compute: nothing of it need be on the GPU.
#[test]
fn outputs_of_host_steps() {
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .node("Unique", &["x"], &["first", "at"], &[])
        .node("Neg", &["x"], &["minus"], &[])
        .node("NonZero", &["minus"], &["where"], &[])
        .output("first")
        .output("at")
        .output("where");
    agrees(net, &[vec![floats(&[2.0, 0.0, 2.0])], vec![floats(&[0.0])], vec![floats(&[1.0, -1.0, 5.0, 0.0])]]);
}

/// `chosen`: one branch where the sum of a value (`sum`) is positive, which a kernel computes, the other where it is not.
fn chosen_by_sum(net: Net, of: &str, then: Net, otherwise: Net) -> Net {
    let (then, otherwise) = (then.graph(), otherwise.graph());
    net.constant("none", &Tensor::scalar(0f32))
        .node("ReduceSum", &[of], &["sum"], &[("keepdims", Attr::Int(0))])
        .node("Greater", &["sum", "none"], &["positive"], &[])
        .node(
            "If",
            &["positive"],
            &["chosen"],
            &[("then_branch", Attr::Graph(&then)), ("else_branch", Attr::Graph(&otherwise))],
        )
}

/// Runs that take either branch.
fn either() -> [Vec<Tensor>; 3] {
    [[1.0, 2.0, 3.0], [-1.0, -2.0, -2.0], [0.5, 0.25, 0.125]].map(|x| vec![floats(&x)])
}

/// Kernels and host steps under a computed condition, and what follows reads the result of either.
#[test]
fn computed_conditions() {
    let then =
        Net::new(17).node("Exp", &["x"], &["large"], &[]).node("Mul", &["large", "twice"], &["a"], &[]).output("a");
    let otherwise = Net::new(17)
        .node("Unique", &["x"], &["few"], &[])
        .node("ReduceMax", &["few"], &["most"], &[])
        .node("Sub", &["twice", "most"], &["b"], &[])
        .output("b");
    let net = Net::new(17).input("x", DType::F32, &["N"]).node("Add", &["x", "x"], &["twice"], &[]);
    let net = chosen_by_sum(net, "twice", then, otherwise);
    agrees(net.node("Add", &["chosen", "twice"], &["y"], &[]).output("y"), &either());
}

/// Branches whose results differ in size: kernels copy the one that is taken, the host only reads how long it is.
#[test]
fn branches_of_several_sizes() {
    let then = Net::new(17).node("Slice", &["x", "zero", "two"], &["part"], &[]).node("Neg", &["part"], &["a"], &[]);
    let otherwise = Net::new(17).node("Concat", &["x", "x"], &["b"], &[("axis", Attr::Int(0))]);
    let net = Net::new(17)
        .input("x", DType::F32, &["N"])
        .constant("zero", &Tensor::from_elements(&[1], &[0i64]).unwrap())
        .constant("two", &Tensor::from_elements(&[1], &[2i64]).unwrap());
    let net = chosen_by_sum(net, "x", then.output("a"), otherwise.output("b"));
    let (compilation, _) = agrees(net.node("Add", &["chosen", "sum"], &["y"], &[]).output("y"), &either());
    let report = &compilation.report;
    assert!(report.on_host.is_empty() && !report.told_sizes.is_empty(), "{:?}", report.on_host);
}
