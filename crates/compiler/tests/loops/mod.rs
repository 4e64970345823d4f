//! Loops that only data ends, through the whole line: the host counts their steps, kernels compute them.

mod scans;

use super::net::{Attr, Net, port, session};
use super::truth;
use infc::{Compilation, CompileOptions, CustomOps, Source, Steps};
use infc_artifact::{Artifact, Host, Step};
use infc_frontend_onnx::proto::{GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto};
use infc_runtime::{Event, LoadOptions, Model, Observer, Pool, Runtime, Session, SessionOptions};
use infc_tensor::{DType, Tensor};
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn floats(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|n| (n % 13) as f32 * 0.25 - 1.0).collect();
    Tensor::from_elements(shape, &elements).expect("a tensor")
}

fn run(session: &mut Session, inputs: &[&Tensor]) -> Vec<Tensor> {
    session.run_owned(inputs).unwrap_or_else(|e| panic!("{e}"))
}

fn compiled(net: Net) -> Compilation {
    net.compile(&CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn steps(compilation: &Compilation) -> Vec<Option<Steps>> {
    compilation.report.on_host.iter().map(|host| host.steps).collect()
}

/// A value of a graph within, of which only the type and the number of axes are said.
fn value(name: &str, dtype: DType, rank: Option<usize>) -> ValueInfoProto {
    use infc_frontend_onnx::proto::tensor_shape_proto::dimension::Value;
    match rank {
        Some(rank) => port(name, dtype, (0..rank).map(|axis| Value::DimParam(format!("{name}{axis}"))).collect()),
        None => ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() },
    }
}

/// The graph of a loop with one state, of which `net` computes `next` and `more` behind the step's number `step` and `state`.
fn body(net: Net, rank: usize, outputs: &[&str]) -> GraphProto {
    let net = outputs.iter().fold(net.output("more").output("next"), |net, output| net.output(output));
    let mut graph = net.graph();
    let scalars = [value("step", DType::I64, Some(0)), value("on", DType::Bool, Some(0))];
    graph.input = scalars.into_iter().chain([value("state", DType::F32, Some(rank))]).collect();
    graph
}

/// `x` through a loop of steps up to the one of this number, `last`.
fn looped(x: &[&str], graph: &GraphProto, outputs: &[&str]) -> Net {
    let net = Net::new(19).input("x", DType::F32, x).input("last", DType::I64, &[]);
    let net =
        net.constant("true", &truth(true)).node("Loop", &["", "true", "x"], outputs, &[("body", Attr::Graph(graph))]);
    outputs.iter().fold(net, |net, output| net.output(output))
}

/// `state · w`, as long as the step comes before the last.
fn product() -> GraphProto {
    let net = Net::new(18).node("MatMul", &["state", "w"], &["m"], &[]).node("Tanh", &["m"], &["next"], &[]).node(
        "Less",
        &["step", "last"],
        &["more"],
        &[],
    );
    body(net, 2, &[])
}

fn expected(x: &Tensor, w: &Tensor, steps: usize) -> Vec<f64> {
    let (rows, n) = (x.shape()[0], w.shape()[0]);
    let w = w.elements::<f32>().expect("floats");
    let mut state: Vec<f64> = x.elements::<f32>().expect("floats").iter().map(|&x| f64::from(x)).collect();
    for _ in 0..steps {
        let at = |row: usize, column: usize| {
            (0..n).map(|k| state[row * n + k] * f64::from(w[k * n + column])).sum::<f64>().tanh()
        };
        state = (0..rows * n).map(|at_| at(at_ / n, at_ % n)).collect();
    }
    state
}

fn assert_near(found: &Tensor, expected: &[f64]) {
    let found = found.elements::<f32>().expect("floats");
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*found) - expected).abs() < 1e-4, "element {n}: {found}, not {expected}");
    }
}

/// A constant from around the loop is a weight of the step's kernels, in the file once; no definition is needed to run it.
#[test]
fn steps_are_kernels() {
    let w = floats(&[48, 48]);
    let net = || looped(&["N", "48"], &product(), &["y"]).constant("w", &w);
    let compilation = compiled(net());
    assert_eq!(steps(&compilation), [Some(Steps::Compiled)]);
    let bytes = compilation.to_bytes().expect("an artifact");
    let artifact = Artifact::read(&bytes).expect("one that is read");
    assert_eq!(artifact.manifest().entries.len(), 2);
    assert_eq!(artifact.manifest().entries[0].outputs[0].type_text(&["N"]), "f32[N, 48]");
    // Beside it there is whether the loop begins.
    let weights = &artifact.manifest().weights;
    assert_eq!(weights.iter().filter(|weight| weight.name.starts_with('w')).count(), 1, "{weights:?}");
    for variant in 0..artifact.manifest().variants.len() {
        let body = artifact.variant(variant).expect("a variant");
        let hosts: Vec<&Host> = body.programs.iter().flat_map(|p| &p.steps).filter_map(host).collect();
        assert!(hosts.len() == 1 && hosts[0].graphs.is_empty() && hosts[0].body.is_some());
    }
    let denied = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
    net().compile(&denied).expect("kernels compute its steps");
    for target in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        let options = LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
        let Ok(model) = Model::from_vec_with(bytes.clone(), &options) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        for rows in [0, 1, 3] {
            let x = floats(&[rows, 48]);
            for last in [0i64, 1, 6] {
                let y = run(&mut session, &[&x, &Tensor::scalar(last)]).remove(0);
                assert_eq!(y.shape(), [rows, 48]);
                assert_near(&y, &expected(&x, &w, last as usize + 1));
            }
        }
    }
}

fn host(step: &Step) -> Option<&Host> {
    if let Step::Host(host) = step { Some(host) } else { None }
}

#[test]
fn threads_make_no_difference() {
    let w = floats(&[256, 256]);
    let compilation = compiled(looped(&["N", "256"], &product(), &["y"]).constant("w", &w));
    let bytes = compilation.to_bytes().expect("an artifact");
    let of = |threads: usize| {
        let pool = Pool::builder().threads(threads).build();
        let options = LoadOptions { pool: Some(pool), ..LoadOptions::default() };
        let model = Model::from_vec_with(bytes.clone(), &options).expect("a model");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        run(&mut session, &[&floats(&[64, 256]), &Tensor::scalar(3i64)]).remove(0)
    };
    assert_eq!(of(1), of(2));
}

/// A state that grows by the mean of its rows, and what each step adds to another output.
#[test]
fn states_may_grow() {
    let net = Net::new(18)
        .constant("rows", &Tensor::from_elements(&[1], &[0i64]).expect("one"))
        .node("ReduceSum", &["state", "rows"], &["sum"], &[])
        .node("Concat", &["state", "sum"], &["next"], &[("axis", Attr::Int(0))])
        .node("Less", &["step", "last"], &["more"], &[]);
    let graph = body(net, 2, &["sum"]);
    let compilation = compiled(looped(&["N", "2"], &graph, &["y", "sums"]));
    assert_eq!(steps(&compilation), [Some(Steps::Compiled)]);
    let mut session = session(&compilation);
    let x = Tensor::from_elements(&[1, 2], &[1.0f32, -3.0]).expect("two");
    for last in [3i64, 0, 1] {
        let made = run(&mut session, &[&x, &Tensor::scalar(last)]);
        let rows: Vec<f32> = (0..=last + 1).map(|row| if row == 0 { 1.0 } else { (1 << (row - 1)) as f32 }).collect();
        let y: Vec<f32> = rows.iter().flat_map(|&of| [of, -3.0 * of]).collect();
        assert_eq!(made[0], Tensor::from_elements(&[rows.len(), 2], &y).expect("as many"));
        assert_eq!(made[1], Tensor::from_elements(&[rows.len() - 1, 1, 2], &y[2..]).expect("as many"));
    }
}

/// Without a step states stay what they are, and nothing is added.
#[test]
fn no_step_gives_what_there_was() {
    let net =
        Net::new(18).node("Add", &["state", "state"], &["next"], &[]).node("Less", &["step", "last"], &["more"], &[]);
    let graph = body(net, 2, &["next"]);
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "3"])
        .input("last", DType::I64, &[])
        .input("most", DType::I64, &[])
        .input("go", DType::Bool, &[])
        .node("Loop", &["most", "go", "x"], &["y", "all"], &[("body", Attr::Graph(&graph))])
        .output("y")
        .output("all");
    let compilation = compiled(net);
    let mut session = session(&compilation);
    let x = floats(&[2, 3]);
    let mut count = |most: i64, go: bool| {
        let made = run(&mut session, &[&x, &Tensor::scalar(100i64), &Tensor::scalar(most), &truth(go)]);
        let times = made[1].shape()[0];
        let of: Vec<f32> = x.elements::<f32>().expect("floats").iter().map(|x| x * (1u32 << times) as f32).collect();
        assert_eq!(made[0], Tensor::from_elements(&[2, 3], &of).expect("as many"));
        assert_eq!(made[1].shape()[1..], [2, 3]);
        times
    };
    assert_eq!([count(5, true), count(0, true), count(5, false), count(-1, true), count(1, true)], [5, 0, 0, 0, 1]);
}

/// That a state's extent is that of what it meets does not hold where either is 1: then the loop is evaluated.
#[test]
fn what_steps_take_for_granted_may_not_hold() {
    let net = Net::new(18).node("Add", &["state", "z"], &["next"], &[]).node("Less", &["step", "last"], &["more"], &[]);
    let graph = body(net, 1, &[]);
    let compilation = compiled(looped(&["N"], &graph, &["y"]).input("z", DType::F32, &["M"]));
    assert_eq!(steps(&compilation), [Some(Steps::CompiledOrEvaluated)]);
    let mut session = session(&compilation);
    for (n, m) in [(3, 3), (1, 4), (4, 1), (1, 1)] {
        let y = run(&mut session, &[&floats(&[n]), &Tensor::scalar(1i64), &floats(&[m])]).remove(0);
        let at = |tensor: &[usize], i: usize| floats(tensor).elements::<f32>().expect("floats")[i.min(tensor[0] - 1)];
        let sums: Vec<f32> = (0..n.max(m)).map(|i| at(&[n], i) + at(&[m], i) + at(&[m], i)).collect();
        assert_eq!(y, Tensor::from_elements(&[n.max(m)], &sums).expect("as many"), "{n} and {m}");
    }
}

/// What a failed attempt to expand a loop takes for granted of dims, the loop on the host does not.
#[test]
fn a_loop_in_a_loop_and_in_a_branch() {
    let less = |name: &str, limit: &str, more: &str| Net::new(18).node("Less", &[name, limit], &[more], &[]);
    let mut inner = less("inner", "step", "again").node("Sin", &["u"], &["v"], &[]).output("again").output("v").graph();
    inner.input =
        vec![value("inner", DType::I64, Some(0)), value("goes", DType::Bool, Some(0)), value("u", DType::F32, None)];
    let net = less("step", "last", "more").constant("yes", &truth(true)).node(
        "Loop",
        &["", "yes", "state"],
        &["next"],
        &[("body", Attr::Graph(&inner))],
    );
    let outer = body(net, 1, &[]);
    let taken = Net::new(18)
        .constant("true", &truth(true))
        .node("Loop", &["", "true", "x"], &["t"], &[("body", Attr::Graph(&outer))])
        .output("t")
        .graph();
    let other = Net::new(18).node("Neg", &["x"], &["e"], &[]).output("e").graph();
    let net = Net::new(18)
        .input("x", DType::F32, &["N"])
        .input("last", DType::I64, &[])
        .input("which", DType::Bool, &[])
        .node("If", &["which"], &["y"], &[("then_branch", Attr::Graph(&taken)), ("else_branch", Attr::Graph(&other))])
        .output("y");
    let compilation = compiled(net);
    assert_eq!(steps(&compilation), [Some(Steps::Compiled); 2]);
    let mut session = session(&compilation);
    let x = floats(&[5]);
    for last in [0i64, 2] {
        // Step i of the outer loop takes the sine i + 1 times.
        let times: i64 = (0..=last).map(|step| step + 1).sum();
        let sine = |x: &f32| (0..times).fold(f64::from(*x), |x, _| x.sin());
        let sines: Vec<f64> = x.elements::<f32>().expect("floats").iter().map(sine).collect();
        assert_near(&run(&mut session, &[&x, &Tensor::scalar(last), &truth(true)])[0], &sines);
        let negated: Vec<f64> = x.elements::<f32>().expect("floats").iter().map(|&x| f64::from(-x)).collect();
        assert_near(&run(&mut session, &[&x, &Tensor::scalar(last), &truth(false)])[0], &negated);
    }
}

/// A list of what each step makes, of which nobody knows how long it gets.
#[test]
fn states_may_be_sequences() {
    let mut graph = Net::new(18)
        .node("Add", &["x", "x"], &["twice"], &[])
        .node("SequenceInsert", &["list", "twice"], &["longer"], &[])
        .node("Less", &["step", "last"], &["more"], &[])
        .output("more")
        .output("longer")
        .graph();
    graph.input =
        vec![value("step", DType::I64, Some(0)), value("on", DType::Bool, Some(0)), value("list", DType::F32, None)];
    let net = Net::new(18)
        .input("x", DType::F32, &["N", "2"])
        .input("last", DType::I64, &[])
        .constant("true", &truth(true))
        .node("SequenceEmpty", &[], &["none"], &[])
        .node("Loop", &["", "true", "none"], &["all"], &[("body", Attr::Graph(&graph))])
        .node("ConcatFromSequence", &["all"], &["y"], &[("axis", Attr::Int(0))])
        .output("y");
    let compilation = compiled(net);
    let of_loop = compilation.report.on_host.iter().find(|host| host.op_type == "Loop").expect("the host counts");
    assert_eq!(of_loop.steps, Some(Steps::Compiled));
    let mut session = session(&compilation);
    let x = floats(&[3, 2]);
    for last in [4i64, 0] {
        let doubled: Vec<f32> = x.elements::<f32>().expect("floats").iter().map(|x| x + x).collect();
        let all = doubled.repeat(last as usize + 1);
        let y = run(&mut session, &[&x, &Tensor::scalar(last)]).remove(0);
        assert_eq!(y, Tensor::from_elements(&[3 * (last as usize + 1), 2], &all).expect("as many"));
    }
}

const HALVE: &str = r#"
[[operator]]
domain = "my.domain"
name = "Halve"
version = 1
types = { T = ["f32"] }
inputs = [{ name = "x", type = "T", shape = ["N"] }]
outputs = [{ name = "y", type = "T", shape = ["N"] }]
"#;

/// An operator that the program defines, in each step of a loop whose number of steps only the run tells.
#[test]
fn steps_may_call_custom_operators() {
    let net = Net::new(18).node("Halve", &["state"], &["half"], &[]).node("Add", &["half", "x"], &["next"], &[]).node(
        "Identity",
        &["on"],
        &["more"],
        &[],
    );
    let mut graph = body(net, 1, &[]);
    graph.node[0].domain = Some("my.domain".to_owned());
    let net = Net::new(18)
        .input("x", DType::F32, &["N"])
        .input("count", DType::I64, &[])
        .node("Loop", &["count", "", "x"], &["y"], &[("body", Attr::Graph(&graph))])
        .output("y");
    let mut model = ModelProto::decode(&*net.into_bytes()).expect("a model");
    model.opset_import.push(OperatorSetIdProto { domain: Some("my.domain".to_owned()), version: Some(1) });
    let custom_ops = CustomOps::parse(HALVE).expect("a declaration");
    let options = CompileOptions { custom_ops, deny_fallback: true, ..CompileOptions::default() };
    let compilation = infc::compile(&Source::bytes(model.encode_to_vec()), &options, &mut ());
    let compilation = compilation.unwrap_or_else(|e| panic!("{e}"));
    let mut runtime = Runtime::new();
    let registered = runtime.register("my.domain::Halve@1", |call| {
        let x = call.input(0)?;
        let halves: Vec<f32> = x.elements::<f32>()?.iter().map(|x| x / 2.0).collect();
        Ok(vec![Tensor::from_elements(x.shape(), &halves)?])
    });
    registered.expect("a name");
    let bytes = compilation.to_bytes().expect("an artifact");
    let options = LoadOptions { runtime, ..LoadOptions::default() };
    let model = Model::from_vec_with(bytes, &options).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let x = Tensor::from_elements(&[2], &[1.0f32, -4.0]).expect("two");
    for (count, times) in [(0i64, 1.0f32), (1, 1.5), (2, 1.75)] {
        let y = run(&mut session, &[&x, &Tensor::scalar(count)]).remove(0);
        assert_eq!(y, Tensor::from_elements(&[2], &[times, -4.0 * times]).expect("two"));
    }
}

/// What was observed of a run.
#[derive(Default)]
struct Seen {
    /// Entries of steps that launched a kernel.
    entries: Mutex<Vec<usize>>,
    runs: AtomicUsize,
}

impl Observer for Seen {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Step(step) if step.kernel.is_some() => self.entries.lock().expect("no panic").push(step.entry),
            Event::RunFinished { .. } => drop(self.runs.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

/// Observers are told of the kernels of each step, and of one run.
#[test]
fn steps_are_observed() {
    let w = floats(&[48, 48]);
    let compilation = compiled(looped(&["N", "48"], &product(), &["y"]).constant("w", &w));
    let model = Model::from_vec(compilation.to_bytes().expect("an artifact")).expect("a model");
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn Observer> = seen.clone();
    let options = SessionOptions { observer: Some(observer), ..SessionOptions::default() };
    let mut session = model.session(&options).expect("a session");
    let mut launched = |last: i64| {
        run(&mut session, &[&floats(&[2, 48]), &Tensor::scalar(last)]);
        std::mem::take(&mut *seen.entries.lock().expect("no panic")).iter().filter(|&&entry| entry == 1).count()
    };
    let each = launched(0);
    assert!(each > 0);
    assert_eq!([launched(1), launched(6)], [2 * each, 7 * each]);
    assert_eq!(seen.runs.load(Ordering::Relaxed), 3);
}

/// `x` through as many steps as `count` says.
fn counted(graph: &GraphProto, outputs: &[&str]) -> Net {
    let net = Net::new(18).input("x", DType::F32, &["N"]).input("count", DType::I64, &[]);
    let net = net.node("Loop", &["count", "", "x"], outputs, &[("body", Attr::Graph(graph))]);
    outputs.iter().fold(net, |net, output| net.output(output))
}

/// What `count` steps make of `x`, in a session of the loop over this graph.
fn after_steps(graph: &GraphProto, x: &[f32], counts: [i64; 3]) -> [Vec<f32>; 3] {
    let mut session = counted(graph, &["y"]).session();
    let x = Tensor::from_elements(&[x.len()], x).expect("as many");
    counts.map(|count| {
        let y = run(&mut session, &[&x, &Tensor::scalar(count)]).remove(0);
        y.elements::<f32>().expect("floats").to_vec()
    })
}

/// One value may be the next of two states.
#[test]
fn a_value_may_be_two_results() {
    let mut graph = Net::new(18)
        .node("Less", &["step", "last"], &["more"], &[])
        .node("Neg", &["q"], &["r"], &[])
        .output("more")
        .output("r")
        .output("r")
        .graph();
    let states = [value("p", DType::F32, Some(1)), value("q", DType::F32, Some(1))];
    let scalars = [value("step", DType::I64, Some(0)), value("on", DType::Bool, Some(0))];
    graph.input = scalars.into_iter().chain(states).collect();
    let net = Net::new(18)
        .input("x", DType::F32, &["N"])
        .input("w", DType::F32, &["M"])
        .input("last", DType::I64, &[])
        .constant("true", &truth(true))
        .node("Loop", &["", "true", "x", "w"], &["a", "b"], &[("body", Attr::Graph(&graph))])
        .output("a")
        .output("b");
    let w = Tensor::from_elements(&[3], &[1.0f32, 2.0, 3.0]).expect("three");
    let made = run(&mut net.session(), &[&floats(&[2]), &w, &Tensor::scalar(0i64)]);
    let negated = Tensor::from_elements(&[3], &[-1.0f32, -2.0, -3.0]).expect("three");
    assert_eq!(made, [negated.clone(), negated]);
}

/// What no kernel computes, a step on the host does, and kernels the rest.
#[test]
fn steps_may_have_what_no_kernel_computes() {
    let net = Net::new(18)
        .node("Unique", &["state"], &["once"], &[])
        .constant("two", &Tensor::scalar(2.0f32))
        .node("Div", &["once", "two"], &["half"], &[])
        .node("Floor", &["half"], &["next"], &[])
        .node("Identity", &["on"], &["more"], &[]);
    let found = after_steps(&body(net, 1, &[]), &[9.0, 4.0, 8.0, 9.0, 5.0], [0, 1, 2]);
    assert_eq!(found, [vec![9.0, 4.0, 8.0, 9.0, 5.0], vec![2.0, 2.0, 4.0, 4.0], vec![1.0, 2.0]]);
}

/// Branches of a step may give a state other extents.
#[test]
fn a_branch_may_change_an_extent() {
    let longer = Net::new(18).node("Concat", &["state", "x"], &["t"], &[("axis", Attr::Int(0))]).output("t").graph();
    let negated = Net::new(18).node("Neg", &["state"], &["e"], &[]).output("e").graph();
    let net = Net::new(18)
        .constant("two", &Tensor::scalar(2i64))
        .constant("none", &Tensor::scalar(0i64))
        .node("Mod", &["step", "two"], &["rest"], &[])
        .node("Equal", &["rest", "none"], &["even"], &[])
        .node(
            "If",
            &["even"],
            &["next"],
            &[("then_branch", Attr::Graph(&longer)), ("else_branch", Attr::Graph(&negated))],
        )
        .node("Identity", &["on"], &["more"], &[]);
    let found = after_steps(&body(net, 1, &[]), &[1.0, -2.0], [1, 2, 3]);
    let [x, y] = [1.0, -2.0];
    assert_eq!(found, [vec![x, y, x, y], vec![-x, -y, -x, -y], vec![-x, -y, -x, -y, x, y]]);
}

/// A loop within a step, whose state grows, or which stands in a branch.
#[test]
fn loops_within_steps() {
    let with_inputs = |net: Net, rank| {
        let mut graph = net.output("still").output("after").graph();
        let inputs = [value("turn", DType::I64, Some(0)), value("goes", DType::Bool, Some(0))];
        graph.input = inputs.into_iter().chain([value("before", DType::F32, rank)]).collect();
        graph
    };
    let growing = Net::new(18).node("Less", &["turn", "step"], &["still"], &[]).node(
        "Concat",
        &["before", "x"],
        &["after"],
        &[("axis", Attr::Int(0))],
    );
    let net = Net::new(18)
        .constant("yes", &truth(true))
        .node("Loop", &["count", "yes", "x"], &["all"], &[("body", Attr::Graph(&with_inputs(growing, Some(1))))])
        .node("ReduceSum", &["all"], &["sum"], &[("keepdims", Attr::Int(0))])
        .node("Add", &["state", "sum"], &["next"], &[])
        .node("Identity", &["on"], &["more"], &[]);
    // Step i sums `x` i + 2 times, but not more often than there are steps, and once.
    let found = after_steps(&body(net, 1, &[]), &[1.0, 2.0], [0, 1, 3]);
    assert_eq!(found, [vec![1.0, 2.0], vec![7.0, 8.0], vec![1.0 + 27.0, 2.0 + 27.0]]);

    let subtracting =
        Net::new(18).node("Identity", &["goes"], &["still"], &[]).node("Sub", &["before", "x"], &["after"], &[]);
    let looped = Net::new(18)
        .node("Loop", &["count", "", "state"], &["t"], &[("body", Attr::Graph(&with_inputs(subtracting, Some(1))))])
        .output("t")
        .graph();
    let negated = Net::new(18).node("Neg", &["state"], &["e"], &[]).output("e").graph();
    let net = Net::new(18)
        .constant("limit", &Tensor::scalar(0.5f32))
        .node("ReduceMax", &["state"], &["most"], &[("keepdims", Attr::Int(0))])
        .node("Greater", &["most", "limit"], &["large"], &[])
        .node(
            "If",
            &["large"],
            &["next"],
            &[("then_branch", Attr::Graph(&looped)), ("else_branch", Attr::Graph(&negated))],
        )
        .node("Identity", &["on"], &["more"], &[]);
    let found = after_steps(&body(net, 1, &[]), &[1.0, 2.0], [1, 2, 3]);
    assert_eq!(found, [vec![0.0, 0.0], vec![1.0, 2.0], vec![-1.0, -2.0]]);
}

/// States that are lists of nothing, which each step changes round: what is within says ever another thing.
#[test]
fn what_is_thought_of_states_settles() {
    let mut graph = Net::new(18)
        .node("Less", &["step", "last"], &["more"], &[])
        .node("Identity", &["q"], &["p1"], &[])
        .node("Identity", &["p"], &["q1"], &[])
        .output("more")
        .output("p1")
        .output("q1")
        .graph();
    let states = [value("p", DType::F32, None), value("q", DType::F32, None)];
    let scalars = [value("step", DType::I64, Some(0)), value("on", DType::Bool, Some(0))];
    graph.input = scalars.into_iter().chain(states).collect();
    let net = Net::new(18)
        .input("last", DType::I64, &[])
        .constant("true", &truth(true))
        .constant("first", &floats(&[2]))
        .constant("second", &floats(&[3]))
        .node("SequenceConstruct", &["first"], &["one"], &[])
        .node("SequenceErase", &["one"], &["none"], &[])
        .node("SequenceConstruct", &["second"], &["other"], &[])
        .node("SequenceErase", &["other"], &["nothing"], &[])
        .node("Loop", &["", "true", "none", "nothing"], &["a", "b"], &[("body", Attr::Graph(&graph))])
        .node("SequenceLength", &["a"], &["y"], &[])
        .output("y");
    assert_eq!(run(&mut net.session(), &[&Tensor::scalar(3i64)]), [Tensor::scalar(0i64)]);
}

/// Elements that are held as others are not taken for these.
#[test]
fn small_floats_are_not_taken_for_bytes() {
    let net = Net::new(19)
        .node("Cast", &["state"], &["small"], &[("to", Attr::Int(17))])
        .node("Neg", &["state"], &["next"], &[])
        .node("Less", &["step", "last"], &["more"], &[]);
    let graph = body(net, 1, &["small"]);
    let net = looped(&["N"], &graph, &["y", "all"]).node("Cast", &["all"], &["z"], &[("to", Attr::Int(1))]).output("z");
    let error =
        net.compile(&CompileOptions::default()).expect_err("it would be evaluated, which has bytes in its place");
    assert_eq!(error.code(), "onnx::dynamic-value", "{error}");
}
