//! The untuned schedule keeps the meaning of every kernel file, on every kind of machine.

#[path = "schedules/brought.rs"]
mod brought;
#[path = "schedules/choices.rs"]
mod choices;
#[path = "schedules/instructions.rs"]
mod instructions;
#[path = "schedules/interleaved.rs"]
mod interleaved;
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

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{DotCost, Machine, apply, choose};
use infc_tensor::DType;
use infc_testkit::{assert_close, assert_same, random_inputs, strategies};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::{MACHINES, run_by, run_scheduled};

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

/// A cross-shaped stencil over exponentials, of given size, that reads `up` rows above and `down` rows below.
fn stencil(rows: i64, columns: i64, up: i64, down: i64) -> Kernel {
    let text = format!(
        "kernel @stencil(x: f32[{rows}, {columns}]) -> (y: f32[{rows}, {columns}]) {{
          stage e[h: {rows}, w: {columns}] = exp(x[h, w])
          stage o[h, w] =
            let north = e[h - {up}, w] if 0 <= h - {up} < {rows} else 0;
            let south = e[h + {down}, w] if 0 <= h + {down} < {rows} else 0;
            let west = e[h, w - 1] if 0 <= w - 1 < {columns} else 0;
            e[h, w] + (north + south + west) * 0.125
          output y[h, w] = o[h, w]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn what_is_read_at_neighbours_is_computed_in_strips() {
    for (rows, columns, up, down) in [(150, 20, 1, 1), (129, 33, 1, 1), (131, 18, 0, 2), (300, 17, 2, 0)] {
        let kernel = stencil(rows, columns, up, down);
        let inputs = infc_testkit::random_inputs(&kernel, &[], 5);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
            assert!(schedule.contains("compute e at o.h_s"), "{schedule}");
            assert!(schedule.contains("prefetch o during e"), "{schedule}");
            assert!(schedule.contains("parallel o: h_s"), "{schedule}");
            let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[], &inputs);
            assert_same(&format!("{rows}x{columns} on {name}"), &found, &expected);
        }
    }
}

#[test]
fn strips_that_would_be_computed_several_times_over_are_left() {
    // Half of what a strip of so few rows needs belongs to its neighbours.
    let schedule = choose(&stencil(40, 20, 10, 10), &MACHINES[2].1, ErrorClass::Exact).to_string();
    assert!(!schedule.contains("compute e at"), "{schedule}");
}

/// A depthwise convolution without padding: channels last, `taps` in both directions.
fn depthwise(side: i64, channels: i64, taps: i64, stride: i64) -> Kernel {
    let out = (side - taps) / stride + 1;
    let text = format!(
        "kernel @depthwise(x: f32[{side}, {side}, {channels}], k: f32[{taps}, {taps}, {channels}])
             -> (y: f32[{out}, {out}, {channels}]) {{
          stage s[h: {out}, w: {out}, c: {channels}, reduce i: {taps}, reduce j: {taps}] =
            fold sum x[h * {stride} + i, w * {stride} + j, c] * k[i, j, c]
          stage o[h, w, c] = max(s[h, w, c], 0)
          output y[h, w, c] = o[h, w, c]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn rows_of_sliding_windows_share_what_they_read() {
    for (side, channels, taps, stride) in [(9, 40, 3, 1), (23, 17, 3, 2), (16, 33, 5, 1), (19, 24, 5, 2), (8, 16, 2, 2)]
    {
        let kernel = depthwise(side, channels, taps, stride);
        let inputs = infc_testkit::random_inputs(&kernel, &[], 9);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
        for (name, machine) in &MACHINES {
            let place = format!("{side}x{side}x{channels} {taps}/{stride} on {name}");
            let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[], &inputs);
            assert_same(&place, &found, &expected);
        }
        // With registers enough, taps are unrolled with the rows; where windows do not overlap, nothing is shared.
        let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string();
        assert_eq!(
            schedule.contains("unroll s.j"),
            stride < taps,
            "{side}x{side}x{channels} {taps}/{stride}: {schedule}"
        );
        // The weights of a vector of channels serve all columns before the next vector's turn.
        let order = schedule.split("reorder o: ").nth(1).expect("loops are reordered");
        let place = |axis: &str| order.find(axis).unwrap_or(usize::MAX);
        assert!(place("c_o") < place("w_o") || !schedule.contains("w_o"), "{schedule}");
    }
}

/// A convolution over a padded image of 9×9 points; what its sums go through reads `read`.
fn windows(read: &str) -> Kernel {
    let text = format!(
        "kernel @windows(x: f32[9, 9, 4], const w: f32[3, 3, 4, 16]) -> (y: f32[7, 7, 16]) {{
           stage acc[p: 7, q: 7, f: 16, reduce r: 3, reduce s: 3, reduce c: 4] =
             fold sum x[p + r, q + s, c] * w[r, s, c, f]
           stage o[p: 7, q: 7, f: 16] = {read} * 0.5
           output y[p, q, f] = o[p, q, f]
         }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn joined_axes_keep_the_meaning() {
    let kernel = windows("acc[p, q, f]");
    let inputs = infc_testkit::random_inputs(&kernel, &[], 3);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    // 49 points: nine tiles of 5 that cross from row to row, and one of 4; named by either stage.
    for stage in ["o", "acc"] {
        let text = format!(
            "join {stage}.p, q -> pq; split o.pq by 5 -> pqo, pqi; reorder o: pqo, f, pqi; unroll o.pqi;
             compute acc at o.pqo; store acc in stack; split acc.pq by 5 -> pqo, pqi; parallel o: pqo"
        );
        let found = run_by(&kernel, &text.parse().expect("it parses"), &[], &inputs);
        assert_same(stage, &found, &expected);
    }
}

/// Tiles of 4 and 3 rows leave too few accumulators; 32 registers have room for whole rows.
#[test]
fn rows_with_bad_remainders_are_joined() {
    let kernel = windows("acc[p, q, f]");
    for ((name, machine), joins) in MACHINES[1..].iter().zip([true, false]) {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert_eq!(schedule.starts_with("join acc.p, q -> pq; "), joins, "{name}: {schedule}");
    }
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let error = |kernel: &Kernel, text: &str| {
        let schedule = text.parse().expect("it parses");
        apply(kernel, &schedule).expect_err(text).to_string()
    };
    let plain = windows("acc[p, q, f]");
    assert!(error(&plain, "join acc.p, z -> x").contains("no loop `z`"));
    assert!(error(&plain, "join z.p, q -> x").contains("no stage `z`"));
    assert!(error(&plain, "join acc.p, p -> x").contains("with itself"));
    assert!(error(&plain, "join acc.p, q -> f").contains("a name of its own"));
    assert!(error(&plain, "join acc.q, r -> x").contains("both axes must be parallel"));
    assert!(error(&plain, "unroll acc.f; join acc.p, q -> x").contains("before all other steps"));
    // The reader's neighbours along one axis are not neighbours along both.
    let edge = windows("acc[p, mod(q + 1, 7), f]");
    assert!(error(&edge, "join acc.p, q -> x").contains("at the same place"));
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

/// Taps and channels are one axis of neighbours where zeros stand around the image: 33 elements leave less over than 11.
#[test]
fn sums_over_rows_of_taps_are_joined() {
    let text = "kernel @taps(x: f32[9, 7, 11] layout(halo [1:1, 1:1, 0:0]), const w: f32[3, 3, 11]) -> (y: f32[9, 7]) {
      stage s[h: 9, w: 7, reduce p: 3, reduce q: 3, reduce k: 11] =
        fold sum (x[h + p - 1, w + q - 1, k] if 0 <= h + p - 1 < 9 and 0 <= w + q - 1 < 7 else 0) * w[p, q, k]
      stage o[h, w] = s[h, w] + 1
      output y[h, w] = o[h, w]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let inputs = infc_testkit::random_inputs(&kernel, &[], 3);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    let joined = infc_passes::formulate::normalise(kernel.clone());
    let extents = |kernel: &Kernel| -> Vec<Option<i64>> {
        kernel.stages.iter().next().expect("a stage").reduce_axes().map(|(_, a)| a.extent.as_const()).collect()
    };
    assert_eq!(extents(&joined), [Some(3), Some(33)], "{joined}");
    let found = run_kernel(&joined, &[], &inputs).expect("it runs");
    for i in 0..expected[0].len_elems() {
        assert_eq!(found[0].get_f64(i), expected[0].get_f64(i), "element {i}");
    }
    // Without zeros around it, conditions are tested per tap.
    let bare: Kernel = text.replace(" layout(halo [1:1, 1:1, 0:0])", "").parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(extents(&infc_passes::formulate::normalise(bare)), [Some(3), Some(3), Some(11)]);
    // Whole vectors of channels leave nothing over.
    let whole = text.replace("11", "16");
    let whole: Kernel = whole.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(extents(&infc_passes::formulate::normalise(whole)), [Some(3), Some(3), Some(16)]);
    // Nor are columns of a panel neighbours.
    let panel = text
        .replace("w: f32[3, 3, 11]", "w: f32[3, 3, 11, 16]")
        .replace("y: f32[9, 7]", "y: f32[9, 7, 16]")
        .replace("w: 7, reduce p", "w: 7, n: 16, reduce p")
        .replace("w[p, q, k]", "w[p, q, k, n]")
        .replace("o[h, w] = s[h, w]", "o[h, w, n] = s[h, w, n]")
        .replace("y[h, w] = o[h, w]", "y[h, w, n] = o[h, w, n]");
    let panel: Kernel = panel.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(extents(&infc_passes::formulate::normalise(panel)), [Some(3), Some(3), Some(11)]);
}

/// Three columns of a convolution of so many channels, whose lanes lie along what is summed.
fn few_columns(channels: i64, stride: i64) -> Kernel {
    let text = format!(
        "kernel @few(x: f32[9, 13, {channels}] layout(halo [1:1, 1:1, 0:0]), const w: f32[3, 3, 3, {channels}])
            -> (y: f32[{rows}, {pixels}, 3]) {{
          stage s[p: {rows}, q: {pixels}, f: 3, reduce i: 3, reduce j: 3, reduce c: {channels}] =
            fold sum (x[p * {stride} + i - 1, q * {stride} + j - 1, c]
                if 0 <= p * {stride} + i - 1 < 9 and 0 <= q * {stride} + j - 1 < 13 else 0) * w[f, i, j, c]
          stage o[p, q, f] = s[p, q, f] + 1
          output y[p, q, f] = o[p, q, f]
        }}",
        rows = (9 + stride - 1) / stride,
        pixels = (13 + stride - 1) / stride,
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Three taps of 24 channels are 72 neighbours: five vectors of 16 lanes instead of six, where lanes lie along them. Vectors of
/// eight lanes are whole as they are, and an order of summing that has to be kept leaves no lanes along a sum.
#[test]
fn channels_that_leave_lanes_empty_are_joined_with_taps() {
    let schedule = |allowed: ErrorClass, machine: &Machine| choose(&few_columns(24, 2), machine, allowed).to_string();
    let (v3, v4) = (&MACHINES[1].1, &MACHINES[2].1);
    let joined = schedule(ErrorClass::Reassociating, v4);
    assert!(joined.contains("join s.j, c -> jc"), "{joined}");
    let whole = schedule(ErrorClass::Reassociating, v3);
    assert!(!whole.contains("join s.j, c"), "{whole}");
    let strict = schedule(ErrorClass::Exact, v4);
    assert!(!strict.contains("join s.j, c"), "{strict}");
    for (channels, stride) in [(8, 1), (15, 2), (17, 1), (24, 1), (24, 2), (40, 2)] {
        let kernel = few_columns(channels, stride);
        let inputs = infc_testkit::random_inputs(&kernel, &[], 5);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
        for (name, machine) in &MACHINES {
            let found = run_scheduled(&kernel, machine, ErrorClass::Reassociating, &[], &inputs);
            for i in 0..expected[0].len_elems() {
                let [found, expected] = [&found[0], &expected[0]].map(|t| t.get_f64(i).expect("an element"));
                let close = (found - expected).abs() <= 1e-4 * (1.0 + expected.abs());
                assert!(close, "{name}, {channels} channels, stride {stride}, element {i}: {found}, not {expected}");
            }
        }
    }
}

/// Lanes that gather leave neighbours in their cache lines, which the next turns take.
#[test]
fn copies_run_along_the_lines_they_gather() {
    let text = "kernel @turn(x: f32[500, 40]) -> (y: f32[40, 500]) {
      stage o[i: 40, j: 500] = x[j, i]
      output y[i, j] = o[i, j]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("reorder o: j_o, i, "), "{name}: {schedule}");
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
    assert!(schedule.contains("vectorize s.f"), "{schedule}");
}

/// Pixels and channels of a depthwise convolution of three channels are one axis, whose tiles are whole pixels.
#[test]
fn few_channels_are_joined_with_pixels() {
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&depthwise(56, 3, 5, 1), machine, ErrorClass::Reassociating).to_string();
        assert!(schedule.starts_with("join "), "{name}: {schedule}");
        let width = 3 * machine.lanes(4);
        assert!(schedule.contains(&format!("by {width} ->")), "{name}: {schedule}");
    }
}

/// Pixels that are joined with their channels share nothing along a row, but windows slide down: where sums may be folded in
/// another order, the taps along which they do are innermost and unrolled.
#[test]
fn windows_slide_down_joined_rows() {
    let kernel = depthwise(56, 3, 5, 1);
    for (name, machine) in &MACHINES[1..] {
        let taps = |allowed: ErrorClass| {
            let schedule = choose(&kernel, machine, allowed).to_string();
            let loops = loops_of(&schedule, "s");
            let place = |axis: &str| loops.iter().position(|name| *name == axis);
            (place("i") > place("j"), schedule.contains("unroll s.i"), schedule)
        };
        let (down, unrolled, schedule) = taps(ErrorClass::Reassociating);
        assert!(down && unrolled, "{name}: {schedule}");
        let (down, unrolled, schedule) = taps(ErrorClass::Exact);
        assert!(!down && !unrolled, "{name}: {schedule}");
    }
}

/// A 3x3 convolution of 16 groups of so many channels over rows of an image, its weights in panels of several groups.
fn grouped(channels: i64, stride: i64) -> Kernel {
    let (all, out) = (16 * channels, 28 / stride);
    let panels = (all + 15) / 16;
    let of = format!("{channels} * g + k");
    let text = format!(
        "kernel @grouped(x: f32[28, 28, {all}] layout(halo [1:1, 1:1, 0:0]), const w: f32[{panels}, 3, 3, {channels}, 16])
            -> (y: f32[{out}, {out}, {all}]) {{
          stage s[p: {out}, q: {out}, g: 16, k: {channels}, reduce i: 3, reduce j: 3, reduce c: {channels}] =
            fold sum x[p * {stride} + i - 1, q * {stride} + j - 1, {channels} * g + c]
              * w[div({of}, 16), i, j, c, mod({of}, 16)]
          stage o[p, q, g, k] = s[p, q, g, k] + 1
          output y[p, q, {of}] = o[p, q, g, k]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Groups that have fewer columns than vectors have lanes share vectors, whose operands are put together once for all taps
/// that meet them; of whole loads, since all points that a group reads side by side are unrolled.
#[test]
fn groups_of_few_columns_share_vectors() {
    let wide = &MACHINES[2].1;
    for (channels, stride) in [(2, 1), (4, 1), (8, 1), (4, 2), (8, 2)] {
        let schedule = choose(&grouped(channels, stride), wide, ErrorClass::Reassociating).to_string();
        for part in ["join s.g, k -> gk", "split s.gk by 16", "unroll s.j", "unroll s.c", "split s.q by"] {
            assert!(schedule.contains(part), "{channels} by {stride}, {part}: {schedule}");
        }
        // What lies side by side is read one after the other.
        let loops = loops_of(&schedule, "o");
        let place = |axis: &str| loops.iter().position(|name| name.starts_with(axis));
        assert!(place("q_o") < place("gk_o"), "{channels} by {stride}: {schedule}");
    }
    // Those that fill a vector need not.
    for (channels, machine) in [(8, &MACHINES[1].1), (16, wide)] {
        let schedule = choose(&grouped(channels, 1), machine, ErrorClass::Reassociating).to_string();
        assert!(!schedule.contains("join ") && schedule.contains("vectorize s.k"), "{channels}: {schedule}");
    }
}

/// With 16 registers, element after element of a window passes by, and what does not find a register is read again: no
/// fewer accumulators than with 32 registers, which hold all of the window.
#[test]
fn windows_need_not_stay_in_registers() {
    for channels in [24, 40, 112] {
        for (name, machine) in &MACHINES[1..] {
            let schedule = choose(&depthwise(33, channels, 7, 1), machine, ErrorClass::Exact).to_string();
            assert!(schedule.contains("unroll s.j"), "{name}, {channels}: {schedule}");
            let tile = |axis: &str| {
                let (_, rest) = schedule.split_once(&format!("split s.{axis} by "))?;
                rest.split(' ').next()?.parse::<i64>().ok()
            };
            let rows = tile("h").unwrap_or(1) * tile("w").unwrap_or(1);
            let vectors = if schedule.contains("unroll s.c_v") { 2 } else { 1 };
            assert!(rows * vectors >= 8, "{name}, {channels}: {schedule}");
        }
    }
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

/// Where a step of a recurrence is enough work, its units are chunks that wait for the steps before; what is computed for a
/// unit is computed in its chunk, of the gates that lie behind each other too.
#[test]
fn recurrences_share_steps() {
    let kernel = infc_testkit::kernels().into_iter().find(|(name, _)| name.contains("lstm_gates"));
    let (_, kernel) = kernel.expect("a kernel file");
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        let text = schedule.to_string();
        assert!(text.starts_with("part \"sum\".g by 128") || text.starts_with("part sum.g by 128"), "{name}: {text}");
        assert!(text.contains("compute \"sum\" at o.u_") || text.contains("compute sum at o.u_"), "{name}: {text}");
        assert!(text.contains("parallel o: t, u_"), "{name}: {text}");
        let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
        let steps = nest.parallel.and_then(|parallel| parallel.step_chunks);
        assert_eq!(steps, Some(8.into()), "{name}");
    }
}

/// What is read at other steps has to be in outputs, and a step cannot be shared where sums need all of it.
#[test]
fn recurrences_that_cannot_share_steps() {
    let chain = |outputs: &str, read: &[&str]| -> Kernel {
        let read: Vec<String> = read.iter().map(|s| format!("({s}[t - 1, k] if 1 <= t < 4 else 0)")).collect();
        let read = read.join(" + ");
        let text = format!(
            "kernel @chain(x: f32[4, 256], const w: f32[256, 256]) -> (y: f32[4, 256]) {{
               stage h[seq t: 4, k: 256] = select(inbounds(1 <= t < 4), {read}, 0)
               stage sum[seq t, n: 256, reduce k: 256] = fold sum h[t, k] * w[k, n]
               stage all[seq t, n]: f32 = tanh(sum[t, n])
               stage next[seq t, n, reduce k: 256] = fold sum all[t, k] * w[k, n]
               stage o[seq t, n]: f32 = {outputs} + x[t, n]
               output y[t, n] = o[t, n]
             }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    };
    for (name, machine) in &MACHINES {
        // The second sum needs the first one of all units.
        let schedule = choose(&chain("next[t, n]", &["o"]), machine, ErrorClass::Reassociating);
        assert!(!schedule.to_string().contains("parallel"), "{name}: {schedule}");
        // `all` is read a step later, and is no output.
        let kernel = chain("all[t, n]", &["all", "o"]);
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
        assert!(!schedule.to_string().contains("parallel"), "{name}: {schedule}");
        let mut forced = schedule;
        forced.steps.push(infc_ir::schedule::Step::Parallel { stage: "o".to_owned(), axes: vec!["t".to_owned()] });
        let error = apply(&kernel, &forced).expect_err("not in memory of all threads").to_string();
        assert!(error.contains("`all`") && error.contains("other steps"), "{error}");
    }
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
