//! Minimal filtering computes what correlations say: interpreted, and scheduled for every kind of machine.

mod support;

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::verify::verify_kernel;
use infc_passes::ErrorClass;
use infc_passes::formulate::{self, winograd};
use infc_passes::schedule::{Machine, apply, choose, plain};
use infc_tensor::Tensor;
use support::{MACHINES, machine, run_by};

/// Sizes of a convolution with a 3×3 filter, channels last.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: i64,
    h: i64,
    w: i64,
    channels: i64,
    columns: i64,
    /// Zeros around the input; whether its memory has them, or conditions make them.
    pad: i64,
    halo: i64,
}

/// With a bias, a residual and a ramp behind it.
fn convolution(s: Sizes) -> Kernel {
    of_image(s, &s.h.to_string(), &s.w.to_string(), "")
}

/// The same for images of which only the run tells how large they are.
fn of_any_size(s: Sizes) -> Kernel {
    of_image(s, "H", "W", " where H in 0..=1000, W in 0..=1000")
}

fn of_image(s: Sizes, h: &str, w: &str, symbols: &str) -> Kernel {
    let Sizes { batch, channels, columns, pad, halo, .. } = s;
    let grown = |extent: &str| if pad > 0 { format!("{extent} + {}", 2 * pad - 2) } else { format!("{extent} - 2") };
    let (oh, ow) = (grown(h), grown(w));
    let (y, x) = (format!("h + r - {pad}"), format!("w + s - {pad}"));
    let valid = if pad > 0 { format!(" if 0 <= {y} < {h} and 0 <= {x} < {w} else 0") } else { String::new() };
    let text = format!(
        "kernel @conv(x: f32[{batch}, {h}, {w}, {channels}] layout(order [0, 1, 2, 3], halo [0:0, {halo}:{halo}, {halo}:{halo}, 0:0]), \
         const g: f32[{columns}, {channels}, 3, 3], const b: f32[{columns}], z: f32[{batch}, {oh}, {ow}, {columns}]) \
         -> (y: f32[{batch}, {oh}, {ow}, {columns}]){symbols} {{\n\
         stage sum[n: {batch}, h: {oh}, w: {ow}, k: {columns}, reduce r: 3, reduce s: 3, reduce c: {channels}] = \
         fold sum (x[n, {y}, {x}, c]{valid}) * g[k, c, r, s]\n\
         stage out[n, h, w, k] = max(sum[n, h, w, k] + b[k] + z[n, h, w, k], 0)\n\
         output y[n, h, w, k] = out[n, h, w, k]\n}}\n"
    );
    let kernel = text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify_kernel(&kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
    kernel
}

fn assert_close(found: &[Tensor], expected: &[Tensor], place: &str) {
    infc_testkit::assert_close(place, found, expected, 1e-5, 1e-5);
}

fn check(s: Sizes, outputs: usize, machines: &[Machine]) {
    check_kernel(&convolution(s), s, &[], outputs, machines);
}

fn check_kernel(kernel: &Kernel, s: Sizes, symbols: &[i64], outputs: usize, machines: &[Machine]) {
    let inputs = infc_testkit::random_inputs(kernel, symbols, 5);
    let expected = run_kernel(kernel, symbols, &inputs).expect("small enough");
    let filtered = winograd::run(kernel, outputs).unwrap_or_else(|| panic!("{s:?}: no correlation"));
    verify_kernel(&filtered.kernel).unwrap_or_else(|e| panic!("{e}\n{}", filtered.kernel));
    let (operand, transform) = &filtered.filter;
    let mut inputs = inputs;
    inputs[operand.0 as usize] = transform.apply(&inputs[operand.0 as usize]).expect("the filter fits");
    let found = run_kernel(&filtered.kernel, symbols, &inputs).expect("small enough");
    assert_close(&found, &expected, &format!("{s:?} F({outputs}, 3) interpreted"));
    let found = run_by(&filtered.kernel, &plain(&filtered.kernel), symbols, &inputs);
    assert_close(&found, &expected, &format!("{s:?} F({outputs}, 3) in plain loops"));
    let normalised = formulate::normalise(filtered.kernel);
    for machine in machines {
        let schedule = choose(&normalised, machine, ErrorClass::Reassociating);
        assert_ne!(schedule, plain(&normalised), "{s:?} F({outputs}, 3)");
        let found = run_by(&normalised, &schedule, symbols, &inputs);
        assert_close(&found, &expected, &format!("{s:?} F({outputs}, 3): {schedule}"));
    }
}

const SMALL: Sizes = Sizes { batch: 1, h: 5, w: 6, channels: 3, columns: 5, pad: 1, halo: 0 };

#[test]
fn tiles_that_do_not_divide_the_image() {
    // One row, a tile and one more or less, primes.
    for (h, w) in [(1, 1), (1, 4), (3, 5), (4, 4), (5, 3), (7, 8), (8, 13), (17, 2)] {
        for outputs in [2, 4] {
            check(Sizes { h, w, ..SMALL }, outputs, &[machine(64, 32)]);
        }
    }
}

#[test]
fn all_machines_batches_and_paddings() {
    let machines = MACHINES.map(|(_, machine)| machine);
    check(Sizes { batch: 3, ..SMALL }, 4, &machines);
    check(Sizes { channels: 17, columns: 33, ..SMALL }, 4, &machines);
    check(Sizes { channels: 16, columns: 16, ..SMALL }, 2, &machines);
    check(Sizes { pad: 0, ..SMALL }, 4, &machines);
    check(Sizes { pad: 0, ..SMALL }, 2, &machines);
    // Padding wider than the filter.
    check(Sizes { pad: 4, h: 2, w: 3, ..SMALL }, 4, &machines[2..]);
}

#[test]
fn halos_make_conditions_unnecessary() {
    for halo in [1, 2, 4] {
        check(Sizes { halo, h: 9, w: 6, ..SMALL }, 4, &[machine(64, 32)]);
    }
    let wide = winograd::run(&convolution(Sizes { halo: 4, ..SMALL }), 4).expect("a correlation").kernel;
    let nest = apply(&wide, &choose(&wide, &machine(64, 32), ErrorClass::Reassociating)).expect("a schedule");
    assert!(!nest.to_string().contains(" if "), "{nest}");
    // Beside the question which block it is, and how many rows are left, nothing is asked.
    let any = winograd::run(&of_any_size(Sizes { halo: 4, ..SMALL }), 4).expect("a correlation").kernel;
    let nest = apply(&any, &choose(&any, &machine(64, 32), ErrorClass::Reassociating)).expect("a schedule").to_string();
    assert!(nest.lines().any(|line| line.contains("\"sum_v.")), "{nest}");
    for line in nest.lines().filter(|line| line.contains(" x[")) {
        assert!(!line.contains(" if "), "{line}");
    }
}

/// Blocks smaller than the image: the second cache holds next to nothing.
#[test]
fn blocks_and_their_remainders() {
    let small_cache = Machine { l2_bytes: 8 << 10, l1_bytes: 1 << 10, ..machine(32, 16) };
    check(Sizes { h: 19, w: 22, channels: 16, columns: 24, ..SMALL }, 4, &[small_cache]);
    check(Sizes { h: 11, w: 26, channels: 16, columns: 24, batch: 2, ..SMALL }, 2, &[small_cache]);
}

/// A block of a large image would be read and written in memory: what lies between its stages is at most what a core has of the
/// last cache.
#[test]
fn blocks_of_large_images_stay_in_cache() {
    let s = Sizes { batch: 1, h: 900, w: 161, channels: 128, columns: 64, pad: 1, halo: 1 };
    let kernel = winograd::run(&convolution(s), 4).expect("a correlation").kernel;
    let machine = machine(64, 32);
    let nest = apply(&kernel, &choose(&kernel, &machine, ErrorClass::Reassociating)).expect("a schedule");
    let chunks = nest.parallel.as_ref().and_then(|axis| axis.chunks.as_const()).expect("several chunks");
    // Of each tile the 36 points of all channels and columns.
    let all_bytes = 225 * 41 * 36 * (128 + 64) * 4;
    assert!(all_bytes / chunks <= machine.l3_bytes.cast_signed(), "{chunks}: {nest}");
}

/// Few columns of a small image would fit one block, which one thread would compute.
#[test]
fn small_images_are_several_chunks() {
    for (h, channels, several) in [(14, 128, true), (28, 128, true), (14, 8, false)] {
        let s = Sizes { batch: 1, h, w: h, channels, columns: 32, pad: 1, halo: 1 };
        let kernel = winograd::run(&convolution(s), 2).expect("a correlation").kernel;
        let machine = machine(64, 32);
        let nest = apply(&kernel, &choose(&kernel, &machine, ErrorClass::Reassociating)).expect("a schedule");
        let chunks = nest.parallel.as_ref().map_or(Some(1), |axis| axis.chunks.as_const());
        assert_eq!(chunks > Some(1), several, "{h} of {channels}: {nest}");
    }
}

/// The 36 planes of a transformed tile would share one set of the first cache, were they 4 KiB apart: of 16 tiles with 64
/// channels each they are a line more, after one for each row of tiles.
#[test]
fn planes_do_not_meet_in_the_cache() {
    let s = Sizes { h: 16, w: 16, channels: 64, columns: 64, halo: 1, ..SMALL };
    let kernel = winograd::run(&convolution(s), 4).expect("a correlation").kernel;
    let nest =
        apply(&kernel, &choose(&kernel, &machine(64, 32), ErrorClass::Reassociating)).expect("a schedule").to_string();
    assert!(nest.contains("1088*\"sum_v.w_f\""), "{nest}");
}

/// What a block leaves over is as large as the run says; so is a tile at the edge of the image.
#[test]
fn images_of_any_size() {
    let small_cache = Machine { l2_bytes: 8 << 10, l1_bytes: 1 << 10, ..machine(32, 16) };
    let s = Sizes { channels: 16, columns: 24, halo: 1, ..SMALL };
    for (h, w) in [(0, 3), (1, 1), (3, 5), (4, 8), (9, 17), (19, 22)] {
        for outputs in [2, 4] {
            check_kernel(&of_any_size(s), s, &[h, w], outputs, &[small_cache, machine(64, 32)]);
        }
    }
}

#[test]
fn what_is_no_plain_correlation_is_left_alone() {
    let parse = |text: &str| text.parse::<Kernel>().expect("well formed");
    let refused = [
        // A stride.
        "kernel @k(x: f32[9, 9, 4], const g: f32[4, 3, 3, 4]) -> (y: f32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3, reduce c: 4] = fold sum x[2*h + r, 2*w + s, c] * g[k, r, s, c]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
        // Dilated.
        "kernel @k(x: f32[8, 8, 4], const g: f32[4, 3, 3, 4]) -> (y: f32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3, reduce c: 4] = fold sum x[h + 2*r, w + 2*s, c] * g[k, r, s, c]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
        // Per channel.
        "kernel @k(x: f32[6, 6, 4], const g: f32[3, 3, 4]) -> (y: f32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3] = fold sum x[h + r, w + s, k] * g[r, s, k]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
        // The filter is no constant.
        "kernel @k(x: f32[6, 6, 4], g: f32[4, 3, 3, 4]) -> (y: f32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3, reduce c: 4] = fold sum x[h + r, w + s, c] * g[k, r, s, c]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
        // Ones outside of the image.
        "kernel @k(x: f32[4, 4, 4], const g: f32[4, 3, 3, 4]) -> (y: f32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3, reduce c: 4] =
             fold sum (x[h + r - 1, w + s - 1, c] if 0 <= h + r - 1 < 4 and 0 <= w + s - 1 < 4 else 1) * g[k, r, s, c]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
        // Integers.
        "kernel @k(x: i32[6, 6, 4], const g: i32[4, 3, 3, 4]) -> (y: i32[4, 4, 4]) {
           stage sum[h: 4, w: 4, k: 4, reduce r: 3, reduce s: 3, reduce c: 4] = fold sum x[h + r, w + s, c] * g[k, r, s, c]
           stage out[h, w, k] = sum[h, w, k]
           output y[h, w, k] = out[h, w, k]
         }",
    ];
    for text in refused {
        assert!(winograd::run(&parse(text), 4).is_none(), "{text}");
    }
    // Filters of five taps need more points than F(4, 5) is known for.
    let kernel = parse(&refused[3].replace("g: f32", "const g: f32"));
    assert!(winograd::run(&kernel, 4).is_some());
    assert!(winograd::run(&kernel, 8).is_none());
}
