//! The compiler on the model of the demo: what it promises besides right numbers.

mod here;

use here::load;
use infc::{CompileError, CompileOptions, DimChoice, Interpreter, Phase, Source};
use infc_runtime::{Model, SessionOptions, Tensor};
use std::path::{Path, PathBuf};

fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx")
}

fn compile(options: &CompileOptions) -> infc::Compilation {
    infc::compile(&Source::file(digits()), options, &mut ()).expect("the demo compiles")
}

fn images(count: usize) -> Tensor {
    let elements: Vec<f32> = (0..count * 64).map(|n| ((n * 37 + 11) % 17) as f32 / 16.0).collect();
    Tensor::from_elements(&[count, 1, 8, 8], &elements).expect("as many as the shape says")
}

#[test]
fn every_target_computes_what_the_plan_says() {
    let options = CompileOptions::default();
    let compilation = compile(&options);
    let bytes = compilation.to_bytes().expect("an artifact");
    let plan = compilation.plan.as_ref().expect("a plan");
    let mut ran = 0;
    for target in &options.targets {
        let Some(model) = load(&bytes, target, 1) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        // One session, several values of the symbolic batch.
        for count in [1, 3, 2] {
            let input = images(count);
            let expected =
                Interpreter::new(plan, &[count as i64], std::slice::from_ref(&input)).run().expect("a result");
            let found = session.run_owned(&[&input]).expect("a result");
            assert_eq!(expected[0].shape(), found[0].shape());
            for at in 0..found[0].len_elems() {
                let (a, b) = (found[0].get_f64(at).expect("a number"), expected[0].get_f64(at).expect("a number"));
                assert!((a - b).abs() <= 1e-5 + 1e-4 * b.abs(), "{target}, element {at}: {a}, expected {b}");
            }
        }
        ran += 1;
    }
    assert!(ran > 0, "this machine runs none of the targets");
}

/// Compares what every step leaves in its slots with the interpreter.
struct Layers {
    plan: infc::GraphPlan,
    input: Tensor,
    compared: std::sync::Mutex<(usize, Vec<String>)>,
}

impl infc_runtime::Observer for Layers {
    fn event(&self, event: &infc_runtime::Event<'_>) {
        let infc_runtime::Event::Step(step) = event else { return };
        let mut interpreter = Interpreter::new(&self.plan, &[2], std::slice::from_ref(&self.input));
        let mut expected = Vec::new();
        for n in 0..=step.step {
            expected = interpreter.step(n).expect("interpreted");
        }
        let mut compared = self.compared.lock().expect("nobody panics here");
        for (written, (value, expected)) in infc::layers::written_by(&self.plan, step.step).iter().zip(expected) {
            assert_eq!(written.value, value);
            let bytes = step.slot_bytes(written.slot).expect("a slot");
            let found = infc::layers::read_value(&self.plan, value, &[2], &bytes).expect("it lies in its slot");
            assert_eq!(found.shape(), expected.shape());
            compared.0 += 1;
            for at in 0..found.len_elems() {
                let (a, b) = (found.get_f64(at).expect("a number"), expected.get_f64(at).expect("a number"));
                if (a - b).abs() > 1e-5 + 1e-4 * b.abs() {
                    compared.1.push(format!("step {}, element {at}: {a}, expected {b}", step.step));
                }
            }
        }
    }
}

#[test]
fn every_layer_agrees_with_the_interpreter() {
    let compilation = compile(&CompileOptions::default());
    let bytes = compilation.to_bytes().expect("an artifact");
    let plan = compilation.plan.expect("a plan");
    let kernels = plan.kernels.len();
    let layers = std::sync::Arc::new(Layers { plan, input: images(2), compared: Default::default() });
    let model = Model::from_vec(bytes).expect("this machine runs one of the targets");
    let options = SessionOptions { observer: Some(layers.clone()), ..SessionOptions::default() };
    let mut session = model.session(&options).expect("a session");
    session.run_owned(&[&layers.input]).expect("a result");
    let compared = layers.compared.lock().expect("nobody panics here");
    assert_eq!(*compared, (kernels, Vec::new()));
}

#[test]
fn threads_do_not_change_a_bit() {
    let options = CompileOptions::default();
    let bytes = compile(&options).to_bytes().expect("an artifact");
    let input = images(64);
    for target in &options.targets {
        let run = |threads| {
            let model = load(&bytes, target, threads)?;
            let mut session = model.session(&SessionOptions::default()).expect("a session");
            Some(session.run_owned(&[&input]).expect("a result")[0].bytes().to_vec())
        };
        assert_eq!(run(1), run(2), "{target}");
    }
}

#[test]
fn the_place_of_the_model_does_not_matter() {
    let (a, b) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let artifact = |folder: &Path| {
        let path = folder.join("model.onnx");
        std::fs::copy(digits(), &path).expect("copied");
        let compilation =
            infc::compile(&Source::file(&path), &CompileOptions::default(), &mut ()).expect("it compiles");
        compilation.to_bytes().expect("an artifact")
    };
    let from_memory = std::fs::read(digits()).expect("the demo's model");
    let from_memory =
        infc::compile(&Source::bytes(from_memory), &CompileOptions::default(), &mut ()).expect("compiles");
    let bytes = artifact(a.path());
    assert!(bytes == artifact(b.path()), "two folders, two artifacts");
    assert!(bytes == from_memory.to_bytes().expect("an artifact"), "file and memory, two artifacts");
}

#[test]
fn three_targets_share_their_weights() {
    let all = compile(&CompileOptions::default()).report;
    let one = compile(&CompileOptions { targets: vec!["x86-64-v4".to_owned()], ..CompileOptions::default() }).report;
    assert_eq!(all.weight_bytes, one.weight_bytes);
    assert_eq!(all.variants.len(), 3);
}

#[test]
fn fixed_dims_give_a_finished_memory_plan() {
    let dims = vec![("N".to_owned(), DimChoice::Fixed(4))];
    let compilation = compile(&CompileOptions { dims, ..CompileOptions::default() });
    assert!(compilation.report.arena_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(compile(&CompileOptions::default()).report.arena_bytes, None);
}

#[test]
fn phases_are_dumped_and_can_be_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump_phases = Some(folder.path().join("dump"));
    for (n, phase) in Phase::ALL.into_iter().enumerate() {
        let options =
            CompileOptions { stop_after: Some(phase), dump_phases: dump_phases.clone(), ..Default::default() };
        let compilation = compile(&options);
        assert_eq!(compilation.report.phases.len(), n + 1);
        assert_eq!(compilation.artifact.is_some(), phase == Phase::Artifact);
        assert_eq!(phase.name().parse(), Ok(phase));
    }
    for name in ["01-import.txt", "02-simplify.txt", "03-plan.txt", "04-formulate.txt", "05-schedule.txt"] {
        let text = std::fs::read_to_string(folder.path().join("dump").join(name)).expect("a dump");
        assert!(!text.is_empty(), "{name}");
    }
}

#[test]
fn each_kernel_is_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CompileOptions { dump_phases: Some(folder.path().to_owned()), ..CompileOptions::default() };
    let report = compile(&options).report;
    for variant in &report.variants {
        let code = folder.path().join("06-codegen").join(&variant.target);
        for kernel in &variant.kernels {
            let listing = std::fs::read_to_string(code.join(format!("{}.s", kernel.name))).expect("a listing");
            assert!(
                listing.split_whitespace().any(|word| matches!(word, "ret" | "retq")),
                "{}:\n{listing}",
                kernel.name
            );
            let widest = if variant.target == "x86-64-v4" { "zmm" } else { "xmm" };
            assert!(kernel.vector_bits < 512 || listing.contains(widest), "{}:\n{listing}", kernel.name);
        }
        assert_eq!(std::fs::read_dir(code).expect("a folder").count(), variant.kernels.len());
    }
}

#[test]
fn a_compilation_starts_from_a_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = CompileOptions { dump_phases: Some(folder.path().to_owned()), ..CompileOptions::default() };
    let whole = compile(&whole);
    let code = |compilation: &infc::Compilation| {
        let kernels = compilation.report.variants.iter().flat_map(|v| &v.kernels);
        kernels.map(|k| (k.name.clone(), k.schedule.clone(), k.code_bytes)).collect::<Vec<_>>()
    };
    for (phase, name) in [(Phase::Simplify, "01-import.txt"), (Phase::Plan, "02-simplify.txt")] {
        let options = CompileOptions { start_from: Some(phase), ..CompileOptions::default() };
        let source = Source::file(folder.path().join(name));
        let again = infc::compile(&source, &options, &mut ()).expect("the dump compiles");
        assert_eq!(again.report.phases.first().map(|p| p.0), Some(phase));
        assert_eq!(code(&again), code(&whole));
        let run = |compilation: &infc::Compilation| {
            let model = Model::from_vec(compilation.to_bytes().expect("an artifact")).expect("it loads");
            let mut session = model.session(&SessionOptions::default()).expect("a session");
            session.run_owned(&[&images(3)]).expect("a result")[0].bytes().to_vec()
        };
        assert!(run(&again) == run(&whole), "other numbers from {name}");
    }

    let code = |phase, source: &Source| {
        let options = CompileOptions { start_from: Some(phase), ..CompileOptions::default() };
        infc::compile(source, &options, &mut ()).map(|_| ()).map_err(|e| e.code())
    };
    let dump = Source::file(folder.path().join("02-simplify.txt"));
    assert_eq!(code(Phase::Codegen, &dump), Err("compile::cannot-start"));
    assert_eq!(code(Phase::Plan, &Source::bytes(*b"graph @g(")), Err("compile::bad-dump"));
    assert_eq!(code(Phase::Plan, &Source::file(folder.path().join("03-plan.txt"))), Err("compile::bad-dump"));
    // A constant that is not what its name says is none.
    for constant in std::fs::read_dir(folder.path().join("constants")).expect("a folder") {
        let path = constant.expect("a file").path();
        let mut bytes = std::fs::read(&path).expect("a constant");
        *bytes.last_mut().expect("not empty") ^= 1;
        std::fs::write(&path, bytes).expect("written");
    }
    assert_eq!(code(Phase::Simplify, &Source::file(folder.path().join("01-import.txt"))), Err("compile::bad-dump"));
}

/// Axes without points: nothing is written along them, and a sum over one is zero.
#[test]
fn empty_tensors_are_computed_too() {
    let text = "graph @empty(%x: f32[2, 3, 32], %p: f32[2, 0], %q: f32[0, 3]) -> (y: %1, z: %2) {
  %0 = view [i0, i1, i2, i3 -> i0, i1, 8*i2 + i3 + 8] %x : f32[2, 3, 4, 0]
  %1 = map [x0 -> x0 * 2] %0 : f32[2, 3, 4, 0]
  %2 = contract [a b, b c -> a c] %p, %q : f32[2, 3]
}
";
    let options = CompileOptions { start_from: Some(Phase::Simplify), ..CompileOptions::default() };
    let compilation = infc::compile(&Source::bytes(text), &options, &mut ()).expect("it compiles");
    let bytes = compilation.to_bytes().expect("an artifact");
    let inputs = [&[2, 3, 32][..], &[2, 0], &[0, 3]].map(|shape| Tensor::zeros(infc_runtime::DType::F32, shape));
    let inputs: Vec<Tensor> = inputs.into_iter().map(|tensor| tensor.expect("a tensor")).collect();
    for target in &options.targets {
        let Some(model) = load(&bytes, target, 1) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let outputs = session.run_owned(&inputs.iter().collect::<Vec<_>>()).expect("a result");
        assert_eq!((outputs[0].shape(), outputs[0].len_elems()), (&[2, 3, 4, 0][..], 0), "{target}");
        assert_eq!(outputs[1].elements::<f32>().expect("floats"), [0.0; 6], "{target}");
    }
}

#[test]
fn weights_grow_no_more_than_they_may() {
    let stored = |max_weight_growth| {
        let compilation = compile(&CompileOptions { max_weight_growth, ..CompileOptions::default() });
        (compilation.report.weight_bytes, compilation.report.original_weight_bytes)
    };
    let (free, original) = stored(100.0);
    assert!(free >= original);
    // Growth of 64 KiB is never refused, and of 4 MiB only where there may be none.
    for (limit, free) in [(1.0, 0), (1.3, 4 << 20)] {
        let (stored, original) = stored(limit);
        let growth = (original as f64 * (limit - 1.0)).max(f64::from(free));
        assert!((stored - original) as f64 <= growth + 65536.0, "{stored} of {original} under {limit}");
    }
}

#[test]
fn wrong_requests_are_told_by_code() {
    let code = |source: &Source, options: &CompileOptions| {
        infc::compile(source, options, &mut ()).map(|_| ()).map_err(|e: CompileError| e.code())
    };
    let targets = |names: &[&str]| CompileOptions {
        targets: names.iter().map(|&n| n.to_owned()).collect(),
        ..CompileOptions::default()
    };
    let model = Source::file(digits());
    assert_eq!(code(&model, &targets(&["x86-64-v9"])), Err("compile::unknown-target"));
    assert_eq!(code(&model, &targets(&["x86-64-v3", "x86-64-v3"])), Err("compile::duplicate-target"));
    assert_eq!(code(&model, &targets(&[])), Err("compile::no-targets"));
    // Processors have no TF32 numbers.
    let tf32 = CompileOptions { precision: infc::Precision::Tf32, ..CompileOptions::default() };
    assert_eq!(code(&model, &tf32), Err("compile::precision"));
    assert_eq!(code(&model, &CompileOptions { targets: vec!["x86-64-v3".into(), "cuda".into()], ..tf32 }), Ok(()));
    let dims = vec![("M".to_owned(), DimChoice::Fixed(4))];
    let unknown = CompileOptions { dims, ..CompileOptions::default() };
    assert_eq!(code(&model, &unknown), Err("dim::unknown-name"));
    assert_eq!(code(&Source::bytes(*b"not a model"), &CompileOptions::default()), Err("onnx::malformed"));
    assert_eq!(code(&Source::file("no/such/model.onnx"), &CompileOptions::default()), Err("onnx::cannot-read"));
}
