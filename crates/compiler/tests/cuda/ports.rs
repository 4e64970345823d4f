//! Inputs and outputs that stay in the GPU's memory, from run to run and from model to model.

use crate::artifacts::{on, options};
use crate::net::{Attr, Net};
use infc_runtime::{GpuTensor, Model, RunInput, RunOptions, RunOutput, SessionOptions, TensorView, TensorViewMut};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use infc_testkit::random_tensor;
use std::sync::Arc;

fn loaded(net: Net, gpu: &Arc<Simulator>) -> Model {
    let compilation = net.compile(&options(&["cuda"])).unwrap_or_else(|e| panic!("{e}"));
    Model::from_vec_with(compilation.to_bytes().expect("an artifact"), &on(gpu)).unwrap_or_else(|e| panic!("{e}"))
}

/// `y = max(x·w, 0)` and the mean of each of its rows, of any number of rows.
fn product() -> Net {
    Net::new(17)
        .input("x", DType::F32, &["N", "4"])
        .input("scale", DType::F32, &["1"])
        .constant("w", &random_tensor(DType::F32, vec![4, 5], 1))
        .node("MatMul", &["x", "w"], &["p"], &[])
        .node("Relu", &["p"], &["q"], &[])
        .node("Mul", &["q", "scale"], &["y"], &[])
        .node("ReduceMean", &["y"], &["m"], &[("axes", Attr::Ints(&[1])), ("keepdims", Attr::Int(0))])
        .output("y")
        .output("m")
}

fn bytes(tensor: &Tensor) -> &[u8] {
    tensor.bytes()
}

#[test]
fn nothing_is_copied_that_stays() {
    let gpu = Arc::new(Simulator::new(1));
    let model = loaded(product(), &gpu);
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let scale = Tensor::from_elements(&[1], &[0.5f32]).expect("one");
    for rows in [3, 7, 3] {
        let x = random_tensor(DType::F32, vec![rows, 4], rows as u64);
        let expected = session.run_owned(&[&x, &scale]).expect("it runs");
        let on = model.gpu().expect("a GPU runs it");
        let (x, scale) = (TensorView::try_from(&x).expect("dense"), TensorView::try_from(&scale).expect("dense"));
        let held = GpuTensor::from_view(on, &x).expect("there is room");
        let mut y = GpuTensor::zeros(on, DType::F32, &[rows, 5]).expect("there is room");
        let before = gpu.copied();
        let mut means = vec![0f32; rows];
        let shape = [rows];
        for _ in 0..3 {
            let m = TensorViewMut::from_slice(&shape, &mut means).expect("as many");
            let mut outputs = [RunOutput::Gpu(&mut y), RunOutput::Host(m)];
            let inputs = [RunInput::Gpu(&held), RunInput::Host(scale)];
            session.run_on_gpu(&inputs, &mut outputs, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        }
        let after = gpu.copied();
        assert_eq!(after.there - before.there, 3 * 4, "the scale alone");
        assert_eq!(after.back - before.back, 3 * 4 * rows, "the means alone");
        assert_eq!(bytes(&y.read().expect("it can be read")), bytes(&expected[0]), "{rows} rows");
        let means = Tensor::from_elements(&[rows], &means).expect("as many");
        assert_eq!(bytes(&means), bytes(&expected[1]), "{rows} rows");
    }
    assert!(gpu.replays() > 0, "runs with the same tensors are started as one");
    drop((session, model));
    assert!(gpu.is_empty(), "nothing is left on the GPU");
}

/// What one model makes, another reads; and the run afterwards has its inputs on the host again.
#[test]
fn from_model_to_model() {
    let gpu = Arc::new(Simulator::new(2));
    let second = Net::new(17)
        .input("y", DType::F32, &["N", "5"])
        .node("Softmax", &["y"], &["z"], &[("axis", Attr::Int(-1))])
        .output("z");
    let (first, second) = (loaded(product(), &gpu), loaded(second, &gpu));
    let options = SessionOptions::default();
    let (mut a, mut b) = (first.session(&options).expect("a session"), second.session(&options).expect("a session"));
    let (x, scale) = (random_tensor(DType::F32, vec![6, 4], 1), Tensor::from_elements(&[1], &[2.0f32]).expect("one"));
    let between = a.run_owned(&[&x, &scale]).expect("it runs");
    let expected = b.run_owned(&[&between[0]]).expect("it runs");

    let on = first.gpu().expect("a GPU runs it");
    let mut y = GpuTensor::zeros(on, DType::F32, &[6, 5]).expect("there is room");
    let mut m = GpuTensor::zeros(on, DType::F32, &[6]).expect("there is room");
    let mut z = GpuTensor::zeros(on, DType::F32, &[6, 5]).expect("there is room");
    let inputs = [&x, &scale].map(|tensor| RunInput::Host(TensorView::try_from(tensor).expect("dense")));
    let run = RunOptions::default();
    a.run_on_gpu(&inputs, &mut [RunOutput::Gpu(&mut y), RunOutput::Gpu(&mut m)], &run).expect("it runs");
    b.run_on_gpu(&[RunInput::Gpu(&y)], &mut [RunOutput::Gpu(&mut z)], &run).expect("it runs");
    assert_eq!(bytes(&z.read().expect("it can be read")), bytes(&expected[0]));
    assert_eq!(bytes(&b.run_owned(&[&between[0]]).expect("it runs")[0]), bytes(&expected[0]));
}

#[test]
fn what_cannot_be_used() {
    let gpu = Arc::new(Simulator::new(1));
    let other: Arc<dyn infc_runtime::Gpu> = Arc::new(Simulator::new(1));
    let model = loaded(product(), &gpu);
    let on = model.gpu().expect("a GPU runs it");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let scale = Tensor::from_elements(&[1], &[0.5f32]).expect("one");
    let scale = RunInput::Host(TensorView::try_from(&scale).expect("dense"));
    let zeros = |gpu, shape: &[usize]| GpuTensor::zeros(gpu, DType::F32, shape).expect("there is room");
    let mut code = |x: &GpuTensor, y: &mut GpuTensor| {
        let mut m = zeros(on, &[2]);
        let mut outputs = [RunOutput::Gpu(y), RunOutput::Gpu(&mut m)];
        let done = session.run_on_gpu(&[RunInput::Gpu(x), scale], &mut outputs, &RunOptions::default());
        done.map_err(|error| (error.code(), error.to_string()))
    };
    let (x, mut y) = (zeros(on, &[2, 4]), zeros(on, &[2, 5]));
    let (found, text) = code(&zeros(&other, &[2, 4]), &mut y).expect_err("another GPU");
    assert!(found == "runtime::gpu-tensor" && text.contains("input `x`"), "{text}");
    let (found, text) = code(&x, &mut zeros(&other, &[2, 5])).expect_err("another GPU");
    assert!(found == "runtime::gpu-tensor" && text.contains("output `y`"), "{text}");
    assert_eq!(code(&x, &mut zeros(on, &[3, 5])).expect_err("another shape").0, "runtime::wrong-shape");
    assert_eq!(code(&zeros(on, &[2, 3]), &mut y).expect_err("another shape").0, "runtime::wrong-shape");
    assert_eq!(code(&x, &mut y), Ok(()));
    let nine = vec![0f32; 9];
    let view = TensorView::from_slice(&[9], &nine).expect("as many");
    assert_eq!(y.write(&view).expect_err("another shape").code(), "runtime::gpu-tensor");

    // The input's values are sizes.
    let sized = Net::new(17)
        .input("shape", DType::I64, &["1"])
        .input("x", DType::F32, &["1"])
        .node("Expand", &["x", "shape"], &["wide"], &[])
        .node("Sqrt", &["wide"], &["y"], &[])
        .output("y");
    let model = loaded(sized, &gpu);
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let shape = GpuTensor::zeros(on, DType::I64, &[1]).expect("there is room");
    let (x, mut y) = (zeros(on, &[1]), zeros(on, &[3]));
    let inputs = [RunInput::Gpu(&shape), RunInput::Gpu(&x)];
    let done = session.run_on_gpu(&inputs, &mut [RunOutput::Gpu(&mut y)], &RunOptions::default());
    let error = done.expect_err("nobody has seen the size");
    assert!(error.code() == "runtime::gpu-tensor" && error.to_string().contains("`shape`"), "{error}");

    // A step on the host needs the input.
    let host = Net::new(17)
        .input("x", DType::F32, &["N"])
        .node("Unique", &["x"], &["some"], &[])
        .node("Sqrt", &["some"], &["y"], &[])
        .output("y");
    let model = loaded(host, &gpu);
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let x = zeros(on, &[3]);
    let mut y = vec![0f32; 1];
    let y = TensorViewMut::from_slice(&[1], &mut y).expect("as many");
    let done = session.run_on_gpu(&[RunInput::Gpu(&x)], &mut [RunOutput::Host(y)], &RunOptions::default());
    assert_eq!(done.expect_err("it is read on the host").code(), "runtime::gpu-tensor");

    // What has any number of axes, the host takes apart.
    let any = Net::new(17).unranked_input("x", DType::F32).node("Sqrt", &["x"], &["y"], &[]).output("y");
    let model = loaded(any, &gpu);
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let (x, mut on_gpu) = (zeros(on, &[3]), zeros(on, &[3]));
    let given = Tensor::from_elements(&[3], &[1f32, 4.0, 9.0]).expect("three");
    let given = TensorView::try_from(&given).expect("dense");
    let mut y = vec![0f32; 3];
    let mut run = |input: RunInput<'_>, output: RunOutput<'_>| {
        session.run_on_gpu(&[input], &mut [output], &RunOptions::default()).map_err(|error| error.code())
    };
    fn on_host(y: &mut [f32]) -> RunOutput<'_> {
        RunOutput::Host(TensorViewMut::from_slice(&[3], y).expect("as many"))
    }
    assert_eq!(run(RunInput::Gpu(&x), on_host(&mut y)), Err("runtime::gpu-tensor"));
    assert_eq!(run(RunInput::Host(given), RunOutput::Gpu(&mut on_gpu)), Err("runtime::gpu-tensor"));
    let mut roots = vec![0f32; 3];
    assert_eq!(run(RunInput::Host(given), on_host(&mut roots)), Ok(()));
    assert_eq!(roots, [1.0, 2.0, 3.0]);
}

/// Where the processor runs the model, its memory is the host's.
#[test]
#[expect(clippy::print_stderr, reason = "a test says that it was skipped")]
fn on_the_processor() {
    let gpu: Arc<dyn infc_runtime::Gpu> = Arc::new(Simulator::new(1));
    let compilation = product().compile(&options(&["x86-64-v2"])).unwrap_or_else(|e| panic!("{e}"));
    let Ok(model) = Model::from_vec(compilation.to_bytes().expect("an artifact")) else {
        eprintln!("skipped: this machine runs no x86-64-v2");
        return;
    };
    assert!(model.gpu().is_none());
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let (x, scale) = (random_tensor(DType::F32, vec![2, 4], 1), Tensor::from_elements(&[1], &[2.0f32]).expect("one"));
    let expected = session.run_owned(&[&x, &scale]).expect("it runs");
    let inputs = [&x, &scale].map(|tensor| RunInput::Host(TensorView::try_from(tensor).expect("dense")));
    let (mut y, mut m) = (vec![0f32; 10], vec![0f32; 2]);
    let mut outputs = [
        RunOutput::Host(TensorViewMut::from_slice(&[2, 5], &mut y).expect("as many")),
        RunOutput::Host(TensorViewMut::from_slice(&[2], &mut m).expect("as many")),
    ];
    session.run_on_gpu(&inputs, &mut outputs, &RunOptions::default()).expect("it runs");
    assert_eq!(bytes(&Tensor::from_elements(&[2, 5], &y).expect("as many")), bytes(&expected[0]));
    let held = GpuTensor::zeros(&gpu, DType::F32, &[2, 4]).expect("there is room");
    let inputs = [RunInput::Gpu(&held), inputs[1]];
    let mut outputs = [
        RunOutput::Host(TensorViewMut::from_slice(&[2, 5], &mut y).expect("as many")),
        RunOutput::Host(TensorViewMut::from_slice(&[2], &mut m).expect("as many")),
    ];
    let done = session.run_on_gpu(&inputs, &mut outputs, &RunOptions::default());
    assert_eq!(done.expect_err("the processor runs it").code(), "runtime::gpu-tensor");
}
