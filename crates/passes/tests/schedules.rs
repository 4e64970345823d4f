//! The untuned schedule keeps the meaning of every kernel file, on every kind of machine.

#[path = "schedules/brought.rs"]
mod brought;
#[path = "schedules/choices.rs"]
mod choices;
#[path = "schedules/costs.rs"]
mod costs;
#[path = "schedules/instructions.rs"]
mod instructions;
#[path = "schedules/interleaved.rs"]
mod interleaved;
#[path = "schedules/padding.rs"]
mod padding;
#[path = "schedules/recurrences.rs"]
mod recurrences;
#[path = "schedules/replaced.rs"]
mod replaced;
#[path = "schedules/rewritten.rs"]
mod rewritten;
#[path = "schedules/scattered.rs"]
mod scattered;
#[path = "schedules/short_rows.rs"]
mod short_rows;
#[path = "schedules/streams.rs"]
mod streams;
mod support;
#[path = "schedules/unknown_sizes.rs"]
mod unknown_sizes;
#[path = "schedules/windows.rs"]
mod windows;

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{DotCost, Machine, apply, choose};
use infc_tensor::DType;
use infc_testkit::{assert_close, assert_same, random_inputs, strategies};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::{MACHINES, run_scheduled};
use windows::depthwise;

/// Nothing that rounds is done in another order: not by formulations, not by schedules.
#[test]
fn exact_schedules_give_the_same_bits() {
    let mut reductions_moved = false;
    for (name, kernel) in infc_testkit::kernels() {
        for symbols in infc_testkit::symbol_choices(&kernel) {
            let inputs = infc_testkit::random_inputs(&kernel, &symbols, 11);
            let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
            let normalised = infc_passes::formulate::normalise(kernel.clone());
            for (machine_name, machine) in &MACHINES {
                let found = run_scheduled(&normalised, machine, ErrorClass::Exact, &symbols, &inputs);
                assert_same(&format!("{name} {symbols:?} on {machine_name}"), &found, &expected);
                if !reductions_moved {
                    let quick = run_scheduled(&normalised, machine, ErrorClass::Reassociating, &symbols, &inputs);
                    reductions_moved = quick.iter().zip(&expected).any(|(a, b)| a.bytes() != b.bytes());
                }
            }
        }
    }
    assert!(reductions_moved, "no kernel's sums depend on their order, so this test shows nothing");
}

/// A kernel for which no rule gives a legal schedule gets plain loops; none of ours may.
#[test]
fn no_kernel_falls_back_to_plain_loops() {
    for (name, kernel) in infc_testkit::kernels() {
        let normalised = infc_passes::formulate::normalise(kernel);
        for (machine_name, machine) in &MACHINES {
            let schedule = choose(&normalised, machine, ErrorClass::Reassociating);
            assert_ne!(schedule, infc_ir::schedule::Schedule::default(), "{name} on {machine_name}");
        }
    }
}

#[test]
fn scheduled_kernels_compute_what_the_kernels_say() {
    let kernels = infc_testkit::kernels();
    assert!(kernels.len() > 10);
    for (name, kernel) in kernels {
        for symbols in infc_testkit::symbol_choices(&kernel) {
            let inputs = infc_testkit::random_inputs(&kernel, &symbols, 7);
            let expected = run_kernel(&kernel, &symbols, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
            let normalised = infc_passes::formulate::normalise(kernel.clone());
            for (machine_name, machine) in &MACHINES {
                let found = run_scheduled(&normalised, machine, ErrorClass::Reassociating, &symbols, &inputs);
                let place = format!("{name} {symbols:?} on {machine_name}");
                let is_double = expected.iter().any(|t| t.dtype() == DType::F64);
                let tolerance = if is_double { 1e-12 } else { 1e-5 };
                assert_close(&place, &found, &expected, tolerance, tolerance);
            }
        }
    }
}

proptest! {
    // The same kernels every time, so that a change is judged by what it changes; fuzzing hunts for others.
    #![proptest_config(ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the kernel: the default choice applies, and gives the same bits where sums keep their order.
    #[test]
    fn random_kernels_keep_their_meaning(kernel in strategies::kernels(), seed: u64) {
        let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (seed % 4) as i64).collect();
        let inputs = random_inputs(&kernel, &symbols, seed);
        let expected = run_kernel(&kernel, &symbols, &inputs).expect("random kernels can be interpreted");
        let normalised = infc_passes::formulate::normalise(kernel.clone());
        for (name, machine) in &MACHINES {
            let found = run_scheduled(&normalised, machine, ErrorClass::Exact, &symbols, &inputs);
            assert_same(&format!("on {name}:\n{kernel}"), &found, &expected);
        }
    }
}

/// A sum is computed in front of the loop over an axis that has one point or none, where it must not be read.
#[test]
fn axes_of_at_most_one_point_may_be_empty() {
    let text = "kernel @sums(x: f32[M, N, 5]) -> (y: f32[M, N]) where M in 0..=1, N in 0..=100 {
          stage s[n: N, m: M, reduce r: 5] = fold sum x[m, n, r]
          stage o[n, m] = s[n, m]
          output y[m, n] = o[n, m]
        }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for symbols in [[0, 7], [1, 7], [1, 0]] {
        let inputs = infc_testkit::random_inputs(&kernel, &symbols, 5);
        let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
        for (name, machine) in &MACHINES {
            let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &symbols, &inputs);
            assert_same(&format!("{symbols:?} on {name}"), &found, &expected);
        }
    }
}

/// Formulation takes the axis away, and the choice along it.
#[test]
fn look_ups_along_an_axis_of_one_point() {
    let text = "kernel @look_up(x: f32[1, 5], i: i64[9]) -> (y: f32[9]) {
      stage s[a: 1, b: 5] = x[a, b] * 2
      stage o[j: 9] = s[{i[j] * 0}, {max(min(i[j], 4), 0)}]
      output y[j] = o[j]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let inputs = random_inputs(&kernel, &[], 3);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    let normalised = infc_passes::formulate::normalise(kernel);
    for (name, machine) in &MACHINES {
        let found = run_scheduled(&normalised, machine, ErrorClass::Exact, &[], &inputs);
        assert_same(name, &found, &expected);
    }
}

/// The reader's tile has no lanes then, and the reduction's must not have any along the reader's axes.
#[test]
fn lanes_along_a_reduction_stay_there() {
    let text = "kernel @product(x: u8[1200, 64], w: i8[6, 64]) -> (y: f32[1200, 6]) {
      stage s[m: 1200, n: 6, reduce k: 64] = fold sum i32(x[m, k]) * i32(w[n, k])
      stage o[m, n] = f32(s[m, n]) * 0.5
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let inputs = infc_testkit::random_inputs(&kernel, &[], 3);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    let apart = DotCost { cost: 2.5, operand_cost: 1.5, latency_cycles: 4.0 };
    for byte_dot in [DotCost::of_instruction(4.0), apart] {
        for (name, machine) in &MACHINES {
            let machine = Machine { byte_dot, ..*machine };
            let found = run_scheduled(&kernel, &machine, ErrorClass::Exact, &[], &inputs);
            assert_same(name, &found, &expected);
        }
    }
}

/// Lanes that gather leave neighbours in their cache lines, which the next turns take, before other vectors gather.
#[test]
fn copies_run_along_the_lines_they_gather() {
    let text = "kernel @turn(x: f32[500, 40]) -> (y: f32[40, 500]) {
      stage o[i: 40, j: 500] = x[j, i]
      output y[i, j] = o[i, j]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("reorder o: j_o, i_o, j_v, i_i, j_l"), "{name}: {schedule}");
        assert!(schedule.contains("split o.i by 16 -> i_o, i_i") && !schedule.contains("unroll"), "{name}: {schedule}");
    }
}

/// Sums whose points are lanes leave scalars; what is dear to compute of them is computed in vectors of several.
#[test]
fn functions_of_sums_in_lanes_are_vectors() {
    let text = "kernel @dots(x: f32[60, 40], const w: f32[40]) -> (y: f32[60]) {
      stage s[m: 60, reduce k: 40] = fold sum x[m, k] * w[k]
      stage o[m] = sigmoid(s[m])
      output y[m] = o[m]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
        assert!(schedule.contains("partial s.k") && schedule.contains("vectorize o.m"), "{name}: {schedule}");
    }
}

/// With half a cache line per vector, the other half is used while the line is there.
#[test]
fn halves_of_cache_lines_are_read_together() {
    let text = "kernel @depthwise(x: f32[34, 34, 32], const w: f32[3, 3, 32]) -> (y: f32[32, 32, 32]) {
      stage s[h: 32, w: 32, c: 32, reduce p: 3, reduce q: 3] = fold sum x[h + p, w + q, c] * w[p, q, c]
      stage o[h, w, c] = s[h, w, c] + 1
      output y[h, w, c] = o[h, w, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        let order = schedule.split("reorder o: ").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
        let place = |axis: &str| order.split(", ").position(|name| name.starts_with(axis));
        let whole = machine.vector_bytes >= 64 || schedule.contains("unroll o.c_v");
        assert_eq!(place("c_o") < place("w_o"), whole, "{name}: {schedule}");
    }
}

/// Minima of floats are watched for NaN, which takes two vector registers more where comparisons have no masks: rows of a
/// tile that take the last register spill in every turn.
#[test]
fn watched_extrema_leave_registers() {
    let text = "kernel @min_plus(a: f32[512, 512], b: f32[512, 512]) -> (y: f32[512, 512]) {
      stage d[m: 512, n: 512, reduce k: 512] = fold min a[m, k] + b[k, n]
      stage o[m, n] = d[m, n]
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        let width = |axis: &str| -> i64 {
            let split = schedule.split(&format!("split d.{axis} by ")).nth(1).and_then(|rest| rest.split(' ').next());
            split.and_then(|width| width.parse().ok()).unwrap_or(1)
        };
        let (rows, vectors) = (width("m"), width("n") / machine.lanes(4));
        // Accumulators, a row of `b`, an element of `a`, the sum that waits and the one at hand, and what was seen.
        let watch = if machine.mask_registers { 0 } else { 2 };
        let registers = rows * vectors + vectors + 3 + watch;
        assert!(rows * vectors >= 8 && registers <= i64::from(machine.vector_registers), "{name}: {schedule}");
    }
}

/// The loops of a stage by its schedule, from outermost to innermost.
fn loops_of<'a>(schedule: &'a str, stage: &str) -> Vec<&'a str> {
    let reorder = format!("reorder {stage}: ");
    let order = schedule.split(reorder.as_str()).nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    order.split(", ").collect()
}

/// Rows of a large image lie pages apart, so that walking across them meets one unforeseen line after the other. What
/// the second cache holds may be walked through in any order.
#[test]
fn large_images_are_walked_through_as_they_lie() {
    for (side, across) in [(12, true), (40, false)] {
        let kernel = depthwise(side, 1000, 3, 1);
        for (name, machine) in &MACHINES[1..] {
            let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
            let loops = loops_of(&schedule, "o");
            let place = |axis: &str| loops.iter().position(|name| name.starts_with(axis));
            assert_eq!(place("c_o") < place("w"), across, "{name}, side {side}: {schedule}");
        }
    }
}

/// Weights that do not fit the second cache are read once, panel by panel, where they would not arrive in time.
#[test]
fn panels_of_large_weights_go_around_rows() {
    let text = "kernel @product(x: f32[168, 768], const w: f32[192, 768, 16]) -> (y: f32[168, 3072]) {
      stage s[m: 168, n: 3072, reduce k: 768] = fold sum x[m, k] * w[div(n, 16), k, mod(n, 16)]
      stage o[m, n] = s[m, n] + 1
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let schedule = choose(&kernel, &MACHINES[1].1, ErrorClass::Exact).to_string();
    assert_eq!(loops_of(&schedule, "o")[..2], ["n_o", "m_o"], "{schedule}");
}

/// Where lanes sum, all rows of a tile are vectors; many long ones arrive too slowly from the second cache.
#[test]
fn long_rows_are_not_summed_in_lanes_for_few_columns() {
    let text = "kernel @few(x: f32[14, 14, 1000] layout(halo [3:3, 3:3, 0:0]), const w: f32[7, 7, 1000, 16])
        -> (y: f32[7, 7, 8]) {
      stage s[p: 7, q: 7, f: 8, reduce i: 7, reduce j: 7, reduce c: 1000] =
        fold sum (x[p * 2 + i - 3, q * 2 + j - 3, c] if 0 <= p * 2 + i - 3 < 14 and 0 <= q * 2 + j - 3 < 14 else 0)
          * w[i, j, c, f]
      stage o[p, q, f] = s[p, q, f] + 1
      output y[p, q, f] = o[p, q, f]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let machine = Machine { l2_bytes_per_cycle: 24.0, ..MACHINES[2].1 };
    let schedule = choose(&kernel, &machine, ErrorClass::Reassociating).to_string();
    // Two columns of points and eight of filters: lanes read two elements, however far apart.
    assert!(schedule.contains("vectorize s.f") || schedule.contains("vectorize s.qf"), "{schedule}");
}

/// Fewer points of a sum than lanes: what lies beyond them is not read either, though nothing beyond them is folded.
#[test]
fn lanes_beyond_a_short_sum_read_nothing() {
    let text = "kernel @sum(x: i32[3, 24, 32]) -> (y: i32[24, 32]) {
      stage s[m: 24, n: 32, reduce k: 3] = fold sum x[k, m, n]
      stage o[m, n] = s[m, n]
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let schedule = "reorder o: m, n; compute s at o.n; store s in register; split s.k by 4 -> k_o, k_l; partial s.k_l;
      reorder s: m, n, k_o, k_l; vectorize s.k_l; parallel o: m";
    let schedule = schedule.parse().unwrap_or_else(|e| panic!("{e}"));
    let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{e}")).to_string();
    let fold = nest.lines().find(|line| line.contains("fold sum x[") || line.contains("fold sum (x["));
    let fold = fold.unwrap_or_else(|| panic!("{nest}"));
    assert!(fold.contains("if 0 <= \"s.k_l\" < 3"), "{fold}");
    let inputs = random_inputs(&kernel, &[], 3);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    assert_same("lanes", &support::run_by(&kernel, &schedule, &[], &inputs), &expected);
}

/// Axes are taken apart only where that is a box of coordinates for whoever reads.
#[test]
fn parts_that_are_not_possible() {
    let text = "kernel @p(x: f32[8, 6]) -> (y: f32[8, 3]) {
      stage s[m: 8, n: 6] = x[m, n] * 2
      stage o[m, n: 3] = s[m, n] + s[m, n + 3]
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let apply_text = |steps: &str| apply(&kernel, &steps.parse().expect("a schedule")).map_err(|e| e.to_string());
    assert!(apply_text("part s.n by 3 -> g, u").is_ok());
    for (steps, reason) in [
        ("part s.n by 4 -> g, u", "a multiple of the points"),
        ("part o.n by 3 -> g, u", "no output"),
        ("part s.n by 3 -> u, u", "a name of its own"),
        ("part s.n by 3 -> m, u", "a name of its own"),
        ("part s.k by 3 -> g, u", "`k`"),
        ("unroll s.n; part s.n by 3 -> g, u", "before all other steps"),
    ] {
        let error = apply_text(steps).expect_err(steps);
        assert!(error.contains(reason), "{steps}: {error}");
    }
}

/// What windows of a row share with those of the next stays in the second cache if tiles of the row go outermost; where it
/// stays anyway, rows do.
#[test]
fn rows_that_leave_the_cache_are_cut_into_bands() {
    for (name, machine) in &MACHINES[1..] {
        for (channels, in_bands) in [(1000, true), (64, false)] {
            let schedule = choose(&depthwise(56, channels, 3, 1), machine, ErrorClass::Reassociating).to_string();
            let tiles_first = schedule.contains("reorder o: w_o, h");
            assert_eq!(tiles_first, in_bands, "{name}, {channels} channels: {schedule}");
        }
    }
}

/// Roots of one kernel share the chunk numbers: next to no work is one chunk, not as many as it has rows.
#[test]
fn small_roots_beside_large_ones_are_few_chunks() {
    let text = "kernel @beside(x: f32[96, 256], const w: f32[256, 64]) -> (y: f32[96, 64], z: f32[96, 8]) {
      stage s[m: 96, n: 64, reduce k: 256] = fold sum x[m, k] * w[k, n]
      stage o[m, n] = s[m, n] * 2
      stage b[m, n: 8] = x[m, n] + 1
      output y[m, n] = o[m, n]
      output z[m, n] = b[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        assert!(schedule.to_string().contains("split b.m by 96 -> m_c, m_r; parallel b: m_c"), "{name}: {schedule}");
        let inputs = random_inputs(&kernel, &[], 3);
        let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = run_scheduled(&kernel, machine, ErrorClass::Reassociating, &[], &inputs);
        assert_close(name, &found, &expected, 1e-4, 1e-4);
    }
}
