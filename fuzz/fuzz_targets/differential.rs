//! Whatever the kernel: the interpreter, the wide emitter for AVX2 and AVX-512, and Cranelift agree on every bit.
//!
//! The bytes are the choices that make the kernel, as in the property test of the same law
//! (`crates/compiler/tests/kernels.rs`): floats are added, compared, rounded and converted, which leaves no machine a choice.

#![no_main]

use infc::{KernelOptions, SYMBOLS, Target, compile_kernel};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_passes::ErrorClass;
use infc_runtime::{LoadOptions, Model, Pool, SessionOptions, Tensor};
use infc_testkit::{assert_same, buffers_of, outputs_in, random_inputs, strategies};
use libfuzzer_sys::fuzz_target;

const TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

fuzz_target!(|bytes: &[u8]| {
    let numbers: Vec<u16> = bytes.chunks_exact(2).take(400).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    let seed = u64::from(numbers.first().copied().unwrap_or(0));
    let kernel = strategies::exact_kernel(numbers);
    let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (seed % 4) as i64).collect();
    let inputs = random_inputs(&kernel, &symbols, seed);
    let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    for target in TARGETS {
        if let Some(found) = run(&kernel, target, &symbols, &inputs) {
            assert_same(&format!("{target}\n{kernel}"), &found, &expected);
        }
    }
});

/// What the kernel's code computes; `None` where this machine does not run it.
fn run(kernel: &Kernel, target: &str, symbols: &[i64], inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let target: Target = target.parse().expect("a known target");
    let options = KernelOptions { allowed: ErrorClass::Exact, ..KernelOptions::new(target) };
    let single = compile_kernel(kernel, &options).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let load = LoadOptions { pool: Some(Pool::builder().threads(1).build()), ..LoadOptions::default() };
    let model = Model::from_vec_with(single.artifact, &load).ok()?;
    let mut buffers = buffers_of(kernel, symbols, inputs);
    let symbols_input = Tensor::from_elements(&[symbols.len()], symbols).expect("a vector");
    let ports: Vec<&Tensor> = model
        .inputs()
        .iter()
        .map(|port| match kernel.operands.iter().position(|o| o.name == port.name) {
            Some(operand) => &buffers[operand],
            None if port.name == SYMBOLS => &symbols_input,
            None => panic!("nothing is called {}", port.name),
        })
        .collect();
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let mut found = session.run_owned(&ports).unwrap_or_else(|e| panic!("{e}\n{kernel}")).into_iter();
    for (operand, buffer) in kernel.operands.iter().zip(&mut buffers) {
        if operand.kind == OperandKind::Output {
            *buffer = found.next().expect("an output per operand");
        }
    }
    Some(outputs_in(kernel, symbols, &buffers))
}
