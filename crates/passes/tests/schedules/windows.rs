//! What slides: stencils, convolutions and their channels.

use super::loops_of;
use super::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{Machine, apply, choose};
use infc_testkit::assert_same;

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
pub(crate) fn depthwise(side: i64, channels: i64, taps: i64, stride: i64) -> Kernel {
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
