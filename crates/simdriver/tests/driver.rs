//! The runtime on a machine whose NVIDIA driver is the simulator: artifacts are loaded and run by the calls that a GPU gets.
//!
//! The runtime looks for the driver where the system's loader does, so each test starts its own executable once more with a
//! path on which the library is found as `libcuda.so.1`.

#![cfg(target_os = "linux")]

use infc::{Compilation, CompileOptions, Source};
use infc_codegen_ptx::PtxTarget;
use infc_hardware::device::Device;
use infc_hardware::instructions::Record;
use infc_hardware::kernels;
use infc_runtime::{LoadOptions, Model, RuntimeError, SessionOptions};
use infc_tensor::{DType, Tensor};
use infc_testkit::{assert_close, random_tensor};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where the driver is the simulator's.
const INSIDE: &str = "SIMDRIVER_INSIDE";

/// Runs `body` in a process that has the driver, on a machine that the variables describe.
#[track_caller]
fn on_machine(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        body();
        return;
    }
    let own = std::env::current_exe().expect("an executable");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(library(&own), folder.path().join("libcuda.so.1")).expect("a link");
    let mut child = Command::new(own);
    child.args([test, "--exact", "--nocapture"]).env("LD_LIBRARY_PATH", folder.path()).env(INSIDE, "1");
    let output = child.envs(variables.iter().copied()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let ran = said.contains("1 passed");
    assert!(output.status.success() && ran, "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// The library, which is built with its tests.
fn library(own: &Path) -> PathBuf {
    let name = "libinfc_simdriver.so";
    let folders = own.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file()).expect("the library is beside its tests")
}

fn compiled() -> Vec<u8> {
    compiled_for("cuda")
}

/// For GPUs as they are told, and for processors.
fn compiled_for(cuda: &str) -> Vec<u8> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    let targets = [cuda, "x86-64-v2"].map(str::to_owned).to_vec();
    let options = CompileOptions { targets, ..CompileOptions::default() };
    let compilation: Compilation =
        infc::compile(&Source::file(&model), &options, &mut ()).unwrap_or_else(|e| panic!("{e}"));
    compilation.to_bytes().expect("an artifact")
}

fn digits(count: usize, seed: u64) -> Tensor {
    random_tensor(DType::F32, vec![count, 1, 8, 8], seed)
}

/// What the processor makes of it.
fn expected(bytes: &[u8], input: &Tensor) -> Vec<Tensor> {
    let options = LoadOptions { target: Some("x86-64-v2".to_owned()), ..LoadOptions::default() };
    let model = Model::from_vec_with(bytes.to_vec(), &options).unwrap_or_else(|e| panic!("{e}"));
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    session.run_owned(&[input]).unwrap_or_else(|e| panic!("{e}"))
}

fn loaded(bytes: &[u8]) -> Result<Model, RuntimeError> {
    Model::from_vec(bytes.to_vec())
}

#[test]
fn runs_of_several_shapes() {
    on_machine("runs_of_several_shapes", &[], || {
        let bytes = compiled();
        let model = loaded(&bytes).unwrap_or_else(|e| panic!("{e}"));
        let gpu = model.selection().gpu.clone().expect("the driver has one");
        assert_eq!((gpu.name.as_str(), gpu.capability, gpu.is_machine_code), ("Simulated GPU", 90, false));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        // From the second run of a shape on by a graph, with inputs that were not there when it was recorded.
        for (n, count) in [2, 2, 2, 1, 1, 3, 2, 1].into_iter().enumerate() {
            let input = digits(count, n as u64);
            let found = session.run_owned(&[&input]).unwrap_or_else(|e| panic!("run {n}: {e}"));
            assert_close(&format!("run {n}"), &found, &expected(&bytes, &input), 1e-4, 1e-5);
        }
    });
}

/// Runs of one shape and of another, by graphs from the second on; what is said if one fails.
fn run_by_graphs(bytes: &[u8]) -> Result<(), RuntimeError> {
    let model = loaded(bytes)?;
    let mut session = model.session(&SessionOptions::default())?;
    for (count, seed) in [(3, 1), (3, 2), (5, 3), (5, 4), (2, 5), (4, 6)] {
        let input = digits(count, seed);
        let found = session.run_owned(&[&input])?;
        assert_close(&format!("run {seed}"), &found, &expected(bytes, &input), 1e-4, 1e-5);
    }
    Ok(())
}

#[test]
fn kernels_begin_before_the_last_one_ends() {
    on_machine("kernels_begin_before_the_last_one_ends", &[("SIMDRIVER_EARLY", "1")], || {
        run_by_graphs(&compiled_for("cuda:sm_90")).unwrap_or_else(|e| panic!("{e}"));
        // The driver asks for it, and those of older generations do not wait themselves.
        run_by_graphs(&compiled()).expect_err("nothing begins early");
    });
}

/// Then they follow each other in graphs as they always have.
#[test]
fn a_driver_that_lets_no_kernel_begin_early() {
    let variables = [("SIMDRIVER_VERSION", "12020"), ("SIMDRIVER_SINGLE", "24")];
    on_machine("a_driver_that_lets_no_kernel_begin_early", &variables, || {
        run_by_graphs(&compiled_for("cuda:sm_90")).unwrap_or_else(|e| panic!("{e}"));
    });
}

/// One driver, one stream, sessions of their own.
#[test]
fn sessions_of_several_threads() {
    on_machine("sessions_of_several_threads", &[], || {
        let bytes = compiled();
        let model = loaded(&bytes).unwrap_or_else(|e| panic!("{e}"));
        let inputs: Vec<Tensor> = (0..3).map(|n| digits(1 + n % 2, 10 + n as u64)).collect();
        let outputs: Vec<Vec<Tensor>> = inputs.iter().map(|input| expected(&bytes, input)).collect();
        std::thread::scope(|scope| {
            for (input, output) in inputs.iter().zip(&outputs) {
                let mut session = model.session(&SessionOptions::default()).expect("a session");
                scope.spawn(move || {
                    for _ in 0..4 {
                        let found = session.run_owned(&[input]).unwrap_or_else(|e| panic!("{e}"));
                        assert_close("a session", &found, output, 1e-4, 1e-5);
                    }
                });
            }
        });
    });
}

/// Events between what is started, by a graph or one by one, which come when their stream gets there.
#[test]
fn runs_are_timed() {
    on_machine("runs_are_timed", &[], || {
        let bytes = compiled();
        let model = loaded(&bytes).unwrap_or_else(|e| panic!("{e}"));
        let options = SessionOptions { device_time: true, ..SessionOptions::default() };
        let mut session = model.session(&options).expect("a session");
        let mut times = Vec::new();
        for n in 0..4 {
            session.run_owned(&[&digits(2, n)]).unwrap_or_else(|e| panic!("{e}"));
            times.push(session.device_time().expect("a GPU runs it"));
        }
        // The simulator's clock counts instructions, which are the same in every run; the driver tells them as floats.
        let most = times.iter().max().expect("some").as_secs_f64();
        assert!(most > 0.0 && times.iter().all(|time| (time.as_secs_f64() - most).abs() < 1e-3 * most), "{times:?}");
    });
}

/// All kernel files, some random kernels, and every instruction that is printed.
#[test]
fn kernels_by_the_drivers_calls() {
    on_machine("kernels_by_the_drivers_calls", &[], || {
        let device = Device::new(infc_runtime::installed_gpu().expect("the driver has one"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/kernel");
        let files = kernels::files(&device, &folder, PtxTarget::default());
        assert!(files.runs > 100 && files.failed.is_empty(), "{} runs, {:?}", files.runs, files.failed);
        let random = kernels::random(&device, 40, 5, PtxTarget::default());
        assert!(random.runs == 40 && random.failed.is_empty(), "{:?}", random.failed);
        let (record, failed) = Record::of(&device, String::new());
        assert!(failed.is_empty(), "{failed:?}");
        let simulator = Device::new(std::sync::Arc::new(infc_simgpu::Simulator::new(3)));
        let found = record.compare(&simulator);
        assert!(found.same > 200 && found.different.is_empty(), "{found:?}");
    });
}

/// More than goes through pinned memory at once, in both directions, and rings that begin again.
#[test]
fn large_inputs_and_outputs() {
    on_machine("large_inputs_and_outputs", &[], || {
        let options = CompileOptions { targets: vec!["cuda".to_owned()], ..CompileOptions::default() };
        let compilation =
            infc::compile(&Source::bytes(sum_of_three()), &options, &mut ()).unwrap_or_else(|e| panic!("{e}"));
        let model = loaded(&compilation.to_bytes().expect("an artifact")).unwrap_or_else(|e| panic!("{e}"));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        // 4.4 MB are more than the ring has; of 2 MB two fit, so that the third begins it again.
        for (n, len) in [1_100_000, 500_000, 500_000, 7].into_iter().enumerate() {
            let inputs = [1, 2, 3].map(|input| random_tensor(DType::F32, vec![len], (10 * n + input) as u64));
            let found = session.run_owned(&inputs.each_ref()).unwrap_or_else(|e| panic!("{e}"));
            let [a, b, c] = inputs.each_ref().map(|input| input.elements::<f32>().expect("floats"));
            let sums = found[0].elements::<f32>().expect("floats");
            let is_sum = |n: usize| (a[n] + b[n] + c[n] - sums[n]).abs() < 1e-5;
            assert!(sums.len() == len && (0..len).all(is_sum), "{len} elements");
        }
    });
}

#[test]
fn a_driver_that_is_too_old() {
    on_machine("a_driver_that_is_too_old", &[("SIMDRIVER_VERSION", "10020")], || {
        let error = loaded(&compiled()).expect_err("too old");
        assert_eq!(error.code(), "runtime::no-gpu");
        assert!(error.to_string().contains("driver 450 or newer"), "{error}");
        let options = LoadOptions { allow_cpu: true, ..LoadOptions::default() };
        let model = Model::from_vec_with(compiled(), &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(model.selection().target, "x86-64-v2");
    });
}

#[test]
fn a_driver_without_a_gpu() {
    on_machine("a_driver_without_a_gpu", &[("SIMDRIVER_DEVICES", "0")], || {
        let error = loaded(&compiled()).expect_err("no GPU");
        assert_eq!(error.code(), "runtime::no-gpu");
        assert!(error.to_string().contains("finds no GPU"), "{error}");
    });
}

#[test]
fn kernels_that_the_driver_refuses() {
    on_machine("kernels_that_the_driver_refuses", &[("SIMDRIVER_REFUSE", "1")], || {
        let error = loaded(&compiled()).expect_err("refused");
        assert_eq!(error.code(), "runtime::gpu-kernel");
        let said = error.to_string();
        assert!(said.contains("line 7; fatal   : refused on demand, by 1 threads"), "{said}");
        assert!(said.contains("Simulated GPU"), "{said}");
    });
}

/// What a driver that refuses everything says of how it was asked.
fn said_of_loading(test: &'static str, variables: &[(&str, &str)], expected: &str) {
    on_machine(test, &[&[("SIMDRIVER_REFUSE", "1")], variables].concat(), || {
        let said = loaded(&compiled()).expect_err("refused").to_string();
        assert!(said.contains(expected), "{said}");
    });
}

/// One that is too old to know how is not asked to.
#[test]
fn a_driver_that_translates_on_one_thread() {
    said_of_loading("a_driver_that_translates_on_one_thread", &[], "by 1 threads, with 0 unknown options before");
}

#[test]
fn a_driver_that_translates_on_several_threads() {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let expected = format!("by {threads} threads, with 0 unknown options before");
    said_of_loading("a_driver_that_translates_on_several_threads", &[("SIMDRIVER_VERSION", "12090")], &expected);
}

/// One that should know by its version and does not is asked again, for the module of all kernels and for the first alone.
#[test]
fn a_driver_that_should_translate_on_several_threads() {
    let variables = [("SIMDRIVER_VERSION", "12090"), ("SIMDRIVER_NO_SPLIT", "1")];
    let expected = "by 1 threads, with 2 unknown options before";
    said_of_loading("a_driver_that_should_translate_on_several_threads", &variables, expected);
}

/// One that takes each kernel and not all as one module: it runs them, and that it took longer is told.
#[test]
fn kernels_that_the_driver_refuses_together() {
    on_machine("kernels_that_the_driver_refuses_together", &[("SIMDRIVER_ALONE", "1")], || {
        let bytes = compiled();
        let model = loaded(&bytes).unwrap_or_else(|e| panic!("{e}"));
        let gpu = model.selection().gpu.as_ref().expect("it is on a GPU");
        assert!(gpu.refused_together.as_ref().is_some_and(|log| log.contains("one entry at a time")), "{gpu:?}");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let input = digits(1, 1);
        let found = session.run_owned(&[&input]).unwrap_or_else(|e| panic!("{e}"));
        assert_close("kernel by kernel", &found, &expected(&bytes, &input), 1e-4, 1e-5);
    });
}

#[test]
fn too_little_memory() {
    on_machine("too_little_memory", &[("SIMDRIVER_MEMORY", "1000")], || {
        let error = loaded(&compiled()).expect_err("weights need more");
        assert_eq!(error.code(), "runtime::gpu-memory");
        assert!(error.to_string().contains("1000 are free"), "{error}");
    });
}

/// A launch fails, and with it the context: an error, behind which the processor runs the model.
#[test]
fn a_device_that_is_lost() {
    on_machine("a_device_that_is_lost", &[("SIMDRIVER_FAILS_AT", "25")], || {
        let bytes = compiled();
        let model = loaded(&bytes).unwrap_or_else(|e| panic!("{e}"));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let input = digits(1, 1);
        let outcomes: Vec<_> = (0..4).map(|_| session.run_owned(&[&input]).map_err(|error| error.code())).collect();
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        assert_eq!(outcomes[3], Err("runtime::gpu-failed"));
        // Not that a kernel were at fault.
        let error = loaded(&bytes).map(drop).expect_err("nothing can be loaded any more");
        assert_eq!(error.code(), "runtime::gpu-failed", "{error}");
        drop((session, model));
        assert_eq!(expected(&bytes, &input).len(), 1);
        // Where that is allowed the processor steps in, and says why.
        let options = LoadOptions { allow_cpu: true, ..LoadOptions::default() };
        let model = Model::from_vec_with(bytes.clone(), &options).unwrap_or_else(|e| panic!("{e}"));
        let selection = model.selection();
        assert!(selection.target == "x86-64-v2" && selection.gpu.is_none(), "{selection:?}");
        assert!(selection.skipped[0].reason.contains("unspecified launch failure"), "{selection:?}");
        let named = LoadOptions { target: Some("cuda".to_owned()), ..options };
        let error = Model::from_vec_with(bytes, &named).map(drop).expect_err("it was asked for by name");
        assert_eq!(error.code(), "runtime::gpu-failed", "{error}");
    });
}

/// `y = a + b + c` of any number of elements, as the bytes of a model.
fn sum_of_three() -> Vec<u8> {
    // ModelProto by hand: field and wire type in front of each.
    let field = |number: u8, bytes: &[u8]| -> Vec<u8> {
        assert!(bytes.len() < 128, "lengths here are one byte");
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    };
    let dim = field(1, &field(2, b"N"));
    let tensor = field(1, &[[0x08, 1].to_vec(), field(2, &dim)].concat());
    let value = |name: &str| [field(1, name.as_bytes()), field(2, &tensor)].concat();
    let inputs = ["a", "b", "c"];
    let named = inputs.map(|name| field(1, name.as_bytes())).concat();
    let node = [named, field(2, b"y"), field(4, b"Sum")].concat();
    let declared = inputs.map(|name| field(11, &value(name))).concat();
    let graph = [field(1, &node), field(2, b"sum"), declared, field(12, &value("y"))].concat();
    let opset = [0x10, 17].to_vec();
    [[0x08, 8].to_vec(), field(7, &graph), field(8, &opset)].concat()
}
