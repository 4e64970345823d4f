//! Recurrences by blocks whose threads share the points of a step: whole and ragged sizes through the simulator, batches over
//! blocks, and barriers without which it is not right.

mod assembler;
mod compiled;
mod device;

use compiled::{Compiled, agrees, compile};
use device::execute;
use infc_codegen_ptx::emit;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_testkit::random_inputs;

/// An LSTM or a GRU of so many units, any number of steps and rows; those of the kernel files have symbols for all.
fn cell(file: &str, units: i64) -> Kernel {
    let found = infc_testkit::kernels().into_iter().find(|(name, _)| *name == file);
    let text = found.unwrap_or_else(|| panic!("there is no {file}")).1.to_string();
    let text = text.replace(", U in 1..=16", "").replace("4*U", &(4 * units).to_string());
    let text = text.replace("3*U", &(3 * units).to_string()).replace("2*U", &(2 * units).to_string());
    // What is left of the symbol, which is a letter of no other name.
    let text = text.replace("U", &units.to_string());
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn text(compiled: &Compiled) -> &str {
    &compiled.module.as_ref().unwrap_or_else(|e| panic!("{e}\n{}\n{}", compiled.schedule, compiled.nest)).text
}

#[test]
fn steps_are_shared_by_threads_and_rows_by_blocks() {
    for file in ["lstm_steps", "gru_steps"] {
        for units in [2, 7, 32, 100, 300] {
            let kernel = cell(file, units);
            let compiled = compile(&kernel, ErrorClass::Exact);
            let module = compiled.module.as_ref().unwrap_or_else(|e| panic!("{e}"));
            assert!(compiled.schedule.contains(".n to block.x"), "{}", compiled.schedule);
            let threads: u32 = module.launch.block.iter().product();
            assert!(i64::from(threads) >= units.min(256) && text(&compiled).contains("bar.sync"), "{threads} threads");
            for symbols in [[1, 1], [3, 2], [5, 1]] {
                // A GRU sums as many functions, each of them off by an ulp or two, as there are units.
                let tolerance = 1e-5 + 4e-7 * units as f64;
                agrees(&format!("{file}, {units} units, {symbols:?}"), &kernel, &compiled, &symbols, tolerance);
            }
        }
    }
}

/// A state that every row of a batch adds to: no row has a block of its own.
#[test]
fn rows_that_steps_mix_are_in_one_block() {
    let text = "kernel @mixed(x: f32[T, 6, 40], const r: f32[40, 40]) -> (y: f32[T, 6, 40]) where T in 1..=32 {
  stage h[seq t: T, n: 6, u: 40] = out[t - 1, 5 - n, u] if 1 <= t < T else 0
  stage s[seq t, n, u, reduce k: 40] = fold sum h[t, n, k] * r[u, k]
  stage out[seq t, n, u]: f32 = tanh(s[t, n, u] + x[t, n, u])
  output y[t, n, u] = out[t, n, u]
}
";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let compiled = compile(&kernel, ErrorClass::Exact);
    assert!(compiled.schedule.contains("thread.x") && !compiled.schedule.contains("block.x"), "{}", compiled.schedule);
    for steps in [1, 2, 7] {
        agrees(&format!("{steps} steps"), &kernel, &compiled, &[steps], 1e-5);
    }
}

/// Behind the state and behind the sums of the gates, which other threads read. What a unit's own thread alone reads has
/// barriers that could be missing.
#[test]
fn barriers_that_are_removed_are_missed() {
    for file in ["lstm_steps", "gru_steps"] {
        let original = cell(file, 70);
        let compiled = compile(&original, ErrorClass::Exact);
        let module = compiled.module.as_ref().expect("it has PTX");
        let inputs = random_inputs(&original, &[4, 2], 7);
        let lines: Vec<&str> = module.text.lines().collect();
        let barriers: Vec<usize> = (0..lines.len()).filter(|&n| lines[n].contains("bar.sync")).collect();
        let found = barriers.iter().filter(|&&barrier| {
            let without: Vec<&str> = (0..lines.len()).filter(|n| *n != barrier).map(|n| lines[n]).collect();
            execute(&compiled.kernel, &compiled.nest, module, &without.join("\n"), &[4, 2], &inputs, 1).is_err()
        });
        assert_eq!(found.count(), 2, "{file}: {} barriers", barriers.len());
    }
}

#[test]
fn the_assembler_takes_recurrences() {
    let kernels = [cell("lstm_steps", 256), cell("gru_steps", 134), cell("lstm_steps", 33)];
    let nests: Vec<_> = kernels.iter().map(|kernel| compile(kernel, ErrorClass::Exact).nest).collect();
    assembler::assemble(|target| nests.iter().map(|n| emit(n, target).expect("it has PTX")).collect());
}
