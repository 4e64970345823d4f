//! Single kernels all the way to machine code, against the interpreter, on every level that this machine has: the
//! kernel files, and random ones.

use infc::{KernelOptions, SYMBOLS, Target, compile_kernel};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_passes::ErrorClass;
use infc_runtime::{LoadOptions, Model, Pool, SessionOptions, Tensor};
use infc_testkit::{assert_close, assert_same, buffers_of, outputs_in, random_inputs, strategies, symbol_choices};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const TARGETS: [&str; 7] = [
    "x86-64-v4+vnni+bf16+amx",
    "x86-64-v4+vnni+bf16",
    "x86-64-v4+vnni",
    "x86-64-v4",
    "x86-64-v3+avxvnni",
    "x86-64-v3",
    "x86-64-v2",
];

/// A kernel compiled for a target that this machine runs.
struct Native<'k> {
    kernel: &'k Kernel,
    model: Model,
    schedule: String,
}

impl<'k> Native<'k> {
    /// Compiles; `None` where code for the target cannot be run.
    fn new(kernel: &'k Kernel, target: &str, allowed: ErrorClass, threads: usize) -> Option<Self> {
        let target: Target = target.parse().expect("a known target");
        let single = compile_kernel(kernel, &KernelOptions { allowed, ..KernelOptions::new(target.clone()) })
            .unwrap_or_else(|e| panic!("{e} for {target}\n{kernel}"));
        let pool = Some(Pool::builder().threads(threads).build());
        let options = LoadOptions { pool, ..LoadOptions::default() };
        match Model::from_vec_with(single.artifact, &options) {
            Ok(model) => Some(Self { kernel, model, schedule: single.scheduled.schedule.to_string() }),
            Err(error) if error.code() == "artifact::wrong-target" => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn run(&self, symbols: &[i64], inputs: &[Tensor]) -> Vec<Tensor> {
        let mut buffers = buffers_of(self.kernel, symbols, inputs);
        let symbols_input = Tensor::from_elements(&[symbols.len()], symbols).expect("a vector");
        let ports = self.model.inputs().iter().map(|port| {
            match self.kernel.operands.iter().position(|o| o.name == port.name) {
                Some(operand) => &buffers[operand],
                None if port.name == SYMBOLS => &symbols_input,
                None => panic!("nothing is called {}", port.name),
            }
        });
        let mut session = self.model.session(&SessionOptions::default()).expect("a session");
        let found = session.run_owned(&ports.collect::<Vec<_>>());
        let mut found = found.unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.schedule, self.kernel)).into_iter();
        for (operand, buffer) in self.kernel.operands.iter().zip(&mut buffers) {
            if operand.kind == OperandKind::Output {
                *buffer = found.next().expect("an output per operand");
            }
        }
        outputs_in(self.kernel, symbols, &buffers)
    }
}

/// The kernel files: softmax, layer norm, Winograd, int8 convolutions with zero points, LSTM, online-softmax attention,
/// running sums and others, for every combination of symbols worth trying.
#[test]
fn kernel_files_compute_what_they_say() {
    let mut ran = 0;
    for (name, kernel) in infc_testkit::kernels() {
        for target in TARGETS {
            let Some(native) = Native::new(&kernel, target, ErrorClass::Reassociating, 1) else { continue };
            for symbols in symbol_choices(&kernel) {
                let inputs = random_inputs(&kernel, &symbols, 7);
                let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
                let found = native.run(&symbols, &inputs);
                assert_close(&format!("{name} {symbols:?} for {target}"), &found, &expected, 2e-5, 2e-5);
                ran += 1;
            }
        }
    }
    assert!(ran > 0, "this machine runs none of the targets");
}

/// Chunks are the schedule's, so the number of threads changes nothing.
#[test]
fn kernel_files_give_the_same_bits_for_any_number_of_threads() {
    for (name, kernel) in infc_testkit::kernels() {
        let symbols = symbol_choices(&kernel).pop().expect("at least one choice");
        let inputs = random_inputs(&kernel, &symbols, 3);
        for target in ["x86-64-v3", "x86-64-v2"] {
            let run = |threads| {
                let native = Native::new(&kernel, target, ErrorClass::Reassociating, threads)?;
                let outputs = native.run(&symbols, &inputs);
                Some(outputs.iter().map(|o| o.bytes().to_vec()).collect::<Vec<_>>())
            };
            assert!(run(1) == run(3), "{name} for {target}");
        }
    }
}

proptest! {
    // The same kernels every time, so that a change is judged by what it changes; fuzzing hunts for others.
    #![proptest_config(ProptestConfig {
        cases: 60,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Interpreter, wide emitter and Cranelift agree on every bit of kernels whose arithmetic leaves no choice.
    #[test]
    fn random_kernels_give_the_same_bits_on_every_level(kernel in strategies::exact_kernels(), seed: u64) {
        let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (seed % 4) as i64).collect();
        let inputs = random_inputs(&kernel, &symbols, seed);
        let expected = run_kernel(&kernel, &symbols, &inputs).expect("random kernels can be interpreted");
        for target in TARGETS {
            let Some(native) = Native::new(&kernel, target, ErrorClass::Exact, 2) else { continue };
            let found = native.run(&symbols, &inputs);
            assert_same(&format!("{target}, {}\n{kernel}", native.schedule), &found, &expected);
        }
    }
}
