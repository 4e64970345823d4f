//! The default choice for GPUs: every kernel file and random kernels, executed by the simulator, agree with the
//! interpreter. What has no PTX yet is refused, and listed here.

mod assembler;
mod compiled;
mod device;

use compiled::{agrees, compile, compile_by, compile_old, old};
use device::execute;
use infc_codegen_ptx::{PtxError, emit, link};
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::{self, GpuMachine};
use infc_tensor::DType;
use infc_testkit::{random_inputs, strategies};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

#[test]
fn kernel_files_agree() {
    for (name, kernel) in infc_testkit::kernels() {
        let compiled = compile(&kernel, ErrorClass::Reassociating);
        // f16 outputs differ by their own rounding, approximate functions by a few of f32.
        let half = kernel.operands.iter().any(|o| matches!(o.dtype, DType::F16 | DType::BF16));
        let tolerance = if half { 2e-3 } else { 2e-5 };
        for symbols in infc_testkit::symbol_choices(&kernel) {
            agrees(&format!("{name} {symbols:?}"), &kernel, &compiled, &symbols, tolerance);
        }
    }
}

/// What a tuner may try: schedules by other picks than the default's, drawn by lot, compute the same, and their text is all that
/// they are.
#[test]
fn schedules_by_other_picks_agree() {
    let wide = "kernel @wide(a: f16[N, 96], const b: f16[96, 144]) -> (y: f32[N, 144]) where N in 1..=512 {
  stage sum0[m: N, n: 144, reduce k: 96] = fold sum f32(a[m, k]) * f32(b[k, n])
  stage out1[m, n] = max(sum0[m, n], 0)
  output y[m, n] = out1[m, n]
}
";
    let long = "kernel @long(a: f32[3, 700]) -> (y: f32[3]) {
  stage sum0[m: 3, reduce k: 700] = fold sum a[m, k] * a[m, k]
  stage out1[m] = sqrt(sum0[m])
  output y[m] = out1[m]
}
";
    let attention = "kernel @attention(q: f32[20, 32], k: f32[2, 16, 96], v: f32[96, 32]) -> (y: f32[20, 32]) {
  stage sum0[c: 2, h: 20, w: 96, reduce k: 16] = fold sum q[h, 16*c + k] * k[c, k, w]
  stage fold1[m: 2, n: 20, reduce r: 96] = fold max sum0[m, n, r] * 0.25
  stage map2[c, h, w] = exp(sum0[c, h, w] * 0.25 - fold1[c, h])
  stage fold3[n, m, reduce r] = fold sum map2[m, n, r]
  stage sum4[h, c, e: 16, reduce l: 96] = fold sum map2[c, h, l] * v[l, 16*c + e]
  stage out5[h, c, e] = sum4[h, c, e] / fold3[h, c]
  output y[h, 16*c + e] = out5[h, c, e]
}
";
    let plain = "kernel @plain(a: f32[24, 64], b: f32[64]) -> (y: f32[24, 64]) {
  stage out0[m: 24, n: 64] = exp(a[m, n]) + b[n]
  output y[m, n] = out0[m, n]
}
";
    let given = [wide, long, attention, plain].map(|text| text.parse::<Kernel>().expect("well formed"));
    let machine = GpuMachine::default();
    let mut met = std::collections::BTreeSet::new();
    let mut compared = 0;
    for (name, kernel) in infc_testkit::kernels().into_iter().chain(given.map(|k| (k.name.clone(), k))) {
        let normalised = infc_passes::formulate::normalise(kernel.clone());
        // Not the largest: some picks compute the same again and again.
        let choices = infc_testkit::symbol_choices(&kernel);
        let symbols = &choices[1.min(choices.len() - 1)];
        let mut seen = vec![gpu::choose(&normalised, &machine, ErrorClass::Reassociating)];
        let by_default = gpu::decide(&normalised, &machine, ErrorClass::Reassociating, &[]);
        assert_eq!(by_default.map(|(schedule, _)| schedule).as_ref(), seen.first(), "{name}");
        for n in 1..9usize {
            let mut picks: Vec<usize> = (0..4).map(|at| ((n * 0x9e37_79b9) >> (16 + 4 * at)) % 5).collect();
            // Half of them by the usual kind of schedule.
            picks[0] *= n % 2;
            let decided = gpu::decide(&normalised, &machine, ErrorClass::Reassociating, &picks);
            let Some((schedule, decisions)) = decided else { continue };
            met.extend(decisions.iter().filter(|decision| decision.picked > 0).map(|decision| decision.what));
            if seen.contains(&schedule) {
                continue;
            }
            assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule));
            let compiled = compile_by(normalised.clone(), &schedule);
            let half = kernel.operands.iter().any(|o| matches!(o.dtype, DType::F16 | DType::BF16));
            agrees(&name, &kernel, &compiled, symbols, if half { 2e-3 } else { 2e-5 });
            compared += 1;
            seen.push(schedule);
        }
    }
    let all = [
        "block",
        "bytes of a step",
        "depth",
        "keys",
        "kind",
        "neighbours of a thread",
        "points of a thread",
        "rows side by side",
        "threads",
        "tiles ahead",
    ];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), all);
    assert!(compared > 60, "{compared}");
}

/// A generation without products of matrices, asynchronous copies, extremes that keep NaN and conversions to bfloat16.
#[test]
fn kernel_files_agree_before_ampere() {
    let newer = ["mma.", "cp.async", "max.NaN", "min.NaN", "cvt.rn.bf16", "ldmatrix"];
    let mut replaced = std::collections::BTreeSet::<&str>::new();
    for (name, kernel) in infc_testkit::kernels() {
        let compiled = compile_old(&kernel, ErrorClass::Reassociating);
        let text = &compiled.module.as_ref().unwrap_or_else(|e| panic!("{name}: {e}")).text;
        assert!(text.starts_with(".version 6.3\n.target sm_75\n"), "{text}");
        assert!(!newer.iter().any(|instruction| text.contains(instruction)), "{name}: {text}");
        let ampere = compile(&kernel, ErrorClass::Reassociating);
        // Schedules for later ones copy asynchronously.
        let refused = matches!(emit(&ampere.nest, &old()), Err(PtxError::Generation { .. }));
        let ampere = &ampere.module.as_ref().unwrap_or_else(|e| panic!("{name}: {e}")).text;
        assert_eq!(refused, ampere.contains("cp.async"), "{name}");
        replaced.extend(newer.iter().filter(|instruction| ampere.contains(**instruction)));
        let half = kernel.operands.iter().any(|o| matches!(o.dtype, DType::F16 | DType::BF16));
        let tolerance = if half { 2e-3 } else { 2e-5 };
        for symbols in infc_testkit::symbol_choices(&kernel) {
            agrees(&format!("{name} {symbols:?}"), &kernel, &compiled, &symbols, tolerance);
        }
    }
    // Conversions to bfloat16 have a test of their own.
    assert_eq!(replaced.len(), 5, "the kernel files show what there is instead of {newer:?}: {replaced:?}");
}

/// Bit by bit: ties, what is rounded up to infinity, numbers too small, no numbers.
#[test]
fn bfloat16_without_an_instruction() {
    let text = "kernel @rounded(x: f32[512]) -> (y: bf16[512], z: f32[512]) {
  stage o[n: 512] = bf16(x[n])
  stage m[n: 512] = max(x[n], x[511 - n])
  output y[n] = o[n]
  output z[n] = m[n]
}
";
    let kernel: Kernel = text.parse().expect("well formed");
    let compiled = compile_old(&kernel, ErrorClass::Exact);
    let numbers = [0x3f80_8000u32, 0x3f81_8000, 0x3f80_8001, 0x3f80_7fff, 0x7f7f_ffff, 0x7f7f_8000, 1, 0x8000_0001]
        .into_iter()
        .chain([0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x7f80_0001, 0xffff_ffff, 0, 0x8000_0000, 0x0000_8000])
        .chain((0..496).map(|n: u32| n.wrapping_mul(0x9e37_79b9)));
    let numbers: Vec<f32> = numbers.map(f32::from_bits).collect();
    let input = infc_tensor::Tensor::from_elements(&[512], &numbers).expect("512 numbers");
    let expected = infc_ir::interp::run_kernel(&kernel, &[], std::slice::from_ref(&input)).expect("it runs");
    let module = compiled.module.as_ref().expect("it has PTX");
    let found = execute(&compiled.kernel, &compiled.nest, module, &module.text, &[], &[input], 1).expect("no fault");
    infc_testkit::assert_same("rounded", &found, &expected);
}

#[test]
fn the_assembler_takes_what_is_chosen_before_ampere() {
    let kernels = infc_testkit::kernels();
    assembler::assemble_for(&["sm_75", "sm_80"], kernels.len(), |_| {
        let modules = kernels
            .iter()
            .map(|(_, kernel)| compile_old(kernel, ErrorClass::Reassociating).module.unwrap_or_else(|e| panic!("{e}")));
        link(modules, old())
    });
}

/// What a step keeps has no elements, and an address all the same.
#[test]
fn memory_without_elements() {
    let text = "kernel @no_columns(x: f32[R, 0]) -> (y: f32[R, 0]) where R in 0..=64 {
  stage s[r: R, seq c: 0]: f32 = (s[r, c - 1] if 0 <= c - 1 < 0 else 0) + x[r, c]
  stage turned[c: 0, r] = s[r, c]
  output y[r, c] = turned[c, r]
}
";
    let kernel: Kernel = text.parse().expect("well formed");
    let compiled = compile(&kernel, ErrorClass::Exact);
    agrees("no columns", &kernel, &compiled, &[3], 0.0);
    assert!(compiled.module.expect("it has PTX").text.contains("locals"), "the step keeps nothing at all");
}

/// A length fits in 32 bits; the position of the run that it follows from need not.
#[test]
fn lengths_that_far_positions_give() {
    let text = "kernel @from_far(x: f32[7, 1]) -> (y: f32[7]) where P in -1099511627776..=1099511627776 {
  stage s[r: 7, reduce c: -min(0, max(-1, P))] = fold sum x[r, c]
  stage o[r] = s[r]
  output y[r] = o[r]
}
";
    let kernel: Kernel = text.parse().expect("well formed");
    let compiled = compile(&kernel, ErrorClass::Exact);
    for far in [-1 << 40, 1 - (1 << 40), -1 << 32, -1, 0, 1 << 31, 1 << 40] {
        agrees(&format!("from {far}"), &kernel, &compiled, &[far], 0.0);
    }
}

/// What a thread folds for its point, at an index that is the thread's only because of its bounds.
#[test]
fn one_point_at_an_index_that_is_clamped() {
    let text = "kernel @clamped(x: f32[2, 4]) -> (y: f32[3]) {
  stage s[a: 2, reduce b: 4] = fold max x[a, b]
  stage o[a: 3] = (s[max(-9, a)] if 0 <= max(-9, a) < 2 else 4) + 1
  output y[a] = o[a]
}
";
    let kernel: Kernel = text.parse().expect("well formed");
    let compiled = compile(&kernel, ErrorClass::Exact);
    agrees("clamped", &kernel, &compiled, &[], 0.0);
}

/// Whatever the kernel: there is a schedule, and PTX that computes the same.
#[test]
fn random_kernels_agree() {
    // The same kernels every time, so that a change is judged by what it changes.
    let config = ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let drawn = TestRunner::new(config).run(&(strategies::kernels(), any::<u64>()), |(kernel, seed)| {
        let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (seed % 4) as i64).collect();
        let allowed = if seed % 2 == 0 { ErrorClass::Exact } else { ErrorClass::Reassociating };
        let compiled = compile(&kernel, allowed);
        agrees("random", &kernel, &compiled, &symbols, 1e-4);
        Ok(())
    });
    drawn.unwrap_or_else(|e| panic!("{e}"));
}

/// The kinds of schedules that the kernel files must show, or the tests above show less than they seem to.
#[test]
fn kinds_of_schedules() {
    let of = |name: &str| compile(&infc_testkit::kernel(name), ErrorClass::Reassociating);
    let matmul = of("matmul");
    assert!(
        matmul.schedule.contains("_tile in shared") && matmul.schedule.contains("store c in register"),
        "{}",
        matmul.schedule
    );
    let text = &matmul.module.as_ref().expect("it has PTX").text;
    assert!(text.contains("bar.sync 0") && text.matches("fma.rn.f32").count() >= 16, "{text}");
    // No bound is tested where factors are read from shared memory.
    assert!(!text.lines().any(|l| l.contains("ld.shared") && l.trim_start().starts_with('@')), "{text}");
    let softmax = of("softmax");
    assert!(softmax.schedule.contains("store m_parts in shared"), "{}", softmax.schedule);
    let strict = compile(&infc_testkit::kernel("softmax"), ErrorClass::Exact);
    assert!(!strict.schedule.contains("s_parts"), "{}", strict.schedule);
    let threads = |name: &str| of(name).module.expect("it has PTX").launch.block.iter().product::<u32>();
    assert!(threads("stencil_exp") >= 128 && threads("max_pool") >= 128 && threads("embedding") >= 128);
}

/// Four neighbouring words go as one where they are aligned, from global memory, to shared memory and back.
#[test]
fn aligned_words_are_vectors() {
    let product = |columns: i64| -> Kernel {
        let text = format!(
            "kernel @words(x: f32[40, 24], const w: f32[24, {columns}]) -> (y: f32[40, {columns}]) {{
  stage s[m: 40, n: {columns}, reduce k: 24] = fold sum x[m, k] * w[k, n]
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
        );
        text.parse().expect("well formed")
    };
    for (columns, aligned) in [(64, true), (50, false)] {
        let kernel = product(columns);
        let compiled = compile(&kernel, ErrorClass::Reassociating);
        agrees(&format!("{columns} columns"), &kernel, &compiled, &[], 1e-5);
        let text = compiled.module.expect("it has PTX").text;
        for vector in ["ld.global.nc.v4.f32", "st.shared.v4.f32", "ld.shared.v4.f32", "st.global.v4.f32"] {
            assert_eq!(text.contains(vector), aligned, "{columns} {vector}\n{}\n{text}", compiled.schedule);
        }
    }
}

/// Faults planted in what is chosen for a product and a softmax are found.
#[test]
fn planted_faults_are_found() {
    for (name, symbols) in [("matmul", vec![33, 20, 70]), ("softmax", vec![2, 70]), ("layer_norm", vec![1, 100])] {
        let original = infc_testkit::kernel(name);
        let compiled = compile(&original, ErrorClass::Reassociating);
        let module = compiled.module.as_ref().expect("it has PTX");
        let inputs = random_inputs(&original, &symbols, 1);
        let run = |text: &str| execute(&compiled.kernel, &compiled.nest, module, text, &symbols, &inputs, 0);
        run(&module.text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let lines: Vec<&str> = module.text.lines().collect();
        let mut barriers = 0;
        for n in (0..lines.len()).filter(|&n| lines[n].contains("bar.sync")) {
            let mut without = lines.clone();
            without.remove(n);
            // A barrier in a part that these extents do not reach is not missed.
            barriers += usize::from(run(&without.join("\n")).is_err());
        }
        assert!(barriers >= 2, "{name}: {barriers} barriers are missed");
        let code = run(&module.text.replace("setp.lt.s64", "setp.le.s64").replace("setp.lt.s32", "setp.le.s32"));
        assert!(code.is_err(), "{name}: wider bounds are not found");
    }
}

#[test]
fn the_assembler_takes_what_is_chosen() {
    let nests: Vec<LoopNest> =
        infc_testkit::kernels().iter().map(|(_, k)| compile(k, ErrorClass::Reassociating).nest).collect();
    assembler::assemble(|target| nests.iter().map(|n| emit(n, target).expect("the kernel files have PTX")).collect());
}

/// Extents of which only their ranges tell that they are 0: there is nothing to be shared among threads, and the choice does not
/// divide by it.
#[test]
fn what_has_no_points_gets_a_schedule() {
    let text = "kernel @none(x: i64[3, N]) -> (y: i64[3, max(N - 1, 0)]) where N in 0..=1 {
  stage o[a: 3, b: max(N - 1, 0)] = x[a, b + 1] + 1
  output y[a, b] = o[a, b]
}
";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(&kernel, ErrorClass::Exact);
    for n in [0, 1] {
        agrees(&format!("N = {n}"), &kernel, &compiled, &[n], 0.0);
    }
}
