//! Decisions of the default choice that were worth a measurement (docs/perf-log.md, 2026-11-25).

use super::loops_of;
use super::support::MACHINES;
use super::windows::depthwise;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::choose;

/// `y[M, N] = max(x[M, K] · w[K, N] + b[N], 0)`, the constant as given.
fn product(m: i64, n: i64, k: i64, w: &str, at: &str) -> Kernel {
    let text = format!(
        "kernel @product(x: f32[{m}, {k}], const w: f32[{w}], b: f32[{n}]) -> (y: f32[{m}, {n}]) {{
          stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum x[m, k] * w[{at}]
          stage o[m, n] = max(s[m, n] + b[n], 0)
          output y[m, n] = o[m, n]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Where a row of the image leaves the first cache, all loops over rows go inside of that over channels, so that what
/// windows share is read again from it; where it stays, rows are walked through as they lie.
#[test]
fn rows_go_inside_of_channels_where_a_row_leaves_the_first_cache() {
    for (channels, inside) in [(144, true), (40, false)] {
        let schedule = choose(&depthwise(22, channels, 3, 1), &MACHINES[1].1, ErrorClass::Exact).to_string();
        let loops = loops_of(&schedule, "o");
        assert_eq!(loops[0] == "c_o", inside, "{channels} channels: {schedule}");
        assert!(loops.iter().any(|name| name.starts_with('h')), "{channels} channels: {schedule}");
    }
}

/// Of two tiles that the second cache bounds alike, the one whose windows pass by in registers.
#[test]
fn windows_pass_by_where_lines_take_as_long_as_arithmetic() {
    let schedule = choose(&depthwise(29, 144, 3, 2), &MACHINES[2].1, ErrorClass::Exact).to_string();
    assert!(schedule.contains("unroll s.i") || schedule.contains("unroll s.j"), "{schedule}");
}

/// Three columns: rows of results are neighbours in memory, four of which fold their lanes together, so that lanes that
/// sum take less than transposing what is read.
#[test]
fn results_side_by_side_fold_their_lanes_together() {
    let kernel = product(784, 3, 24, "3, 24", "n, k");
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
        assert!(schedule.contains("partial s.k_l"), "{name}: {schedule}");
        assert!(schedule.contains("unroll s.n") && schedule.contains("unroll s.m_i"), "{name}: {schedule}");
        // A tile's results make whole vectors of four.
        let rows = schedule.split("split s.m by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
        assert_eq!(rows.map(|rows| rows * 3 % 4), Some(0), "{name}: {schedule}");
        let exact = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(!exact.contains("partial"), "{name}: {exact}");
    }
}

/// Three columns and three points: rows are lanes, whose elements change places with AVX2 by more units than multiply.
#[test]
fn rows_of_three_are_lanes() {
    for rows in [197, 784] {
        let schedule = choose(&product(rows, 3, 3, "3, 3", "k, n"), &MACHINES[1].1, ErrorClass::Exact).to_string();
        assert!(schedule.contains("vectorize s.m_l"), "{rows} rows: {schedule}");
    }
}

/// A sum of a few points is unrolled as a whole, whatever its tile; a longer one only in small bodies.
#[test]
fn short_sums_are_unrolled_as_a_whole() {
    for (points, whole) in [(3, true), (8, false)] {
        let panels = format!("1, {points}, 16");
        let kernel = product(280, 8, points, &panels, "div(n, 16), k, mod(n, 16)");
        let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string();
        assert_eq!(schedule.contains("unroll s.k;"), whole, "{points} points: {schedule}");
    }
}

/// Between two tiles of long vectors an element that an instruction of its own spreads takes time that a short sum does not
/// hide, and none where multiply-adds spread it: a tile of a single vector.
#[test]
fn short_sums_of_long_vectors_take_one_at_a_time() {
    let vectors = |points: i64, machine: usize| {
        let kernel = product(392, 96, points, &format!("6, {points}, 16"), "div(n, 16), k, mod(n, 16)");
        let schedule = choose(&kernel, &MACHINES[machine].1, ErrorClass::Exact).to_string();
        if schedule.contains("unroll s.n_v") { 2 } else { 1 }
    };
    assert_eq!([8, 16, 24].map(|points| vectors(points, 2)), [1; 3]);
    assert_eq!(vectors(192, 2), 2, "weights are read half as often");
    assert_eq!(vectors(16, 1), 2, "without such multiply-adds");
}

/// Of a tile of more than sixteen sums a function would be computed while no sums are; what takes two instructions is not worth
/// smaller tiles.
#[test]
fn sums_with_a_function_behind_them_have_smaller_tiles() {
    let accumulators = |finish: &str, terms: i64| {
        let text = format!(
            "kernel @behind(x: f32[28, 28, {terms}], const w: f32[15, {terms}, 16], b: f32[240]) -> (y: f32[28, 28, 240]) {{
               stage s[p: 28, q: 28, n: 240, reduce k: {terms}] =
                 fold sum x[p, q, k] * w[div(n, 16), k, mod(n, 16)]
               stage o[p, q, n] = {finish}
               output y[p, q, n] = o[p, q, n]
             }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let schedule = choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string();
        let split = |axis: &str| {
            let rest = schedule.split(&format!("split s.{axis} by ")).nth(1)?;
            rest.split(' ').next()?.parse::<i64>().ok()
        };
        ["p", "q"].map(|axis| split(axis).unwrap_or(1)).iter().product::<i64>()
            * split("n").map_or(1, |columns| columns / 16)
    };
    let silu = "(s[p, q, n] + b[n]) * sigmoid(s[p, q, n] + b[n])";
    let relu = "max(s[p, q, n] + b[n], 0)";
    for terms in [24, 40] {
        let [with_function, without] = [silu, relu].map(|finish| accumulators(finish, terms));
        assert!(with_function <= 16 && without >= 24, "{with_function} and {without} sums of {terms} terms");
    }
}

/// Where several sums of a few turns each have lanes along them, no loop is left; one sum alone keeps its loop.
#[test]
fn short_sums_along_lanes_are_unrolled_as_a_whole() {
    let few = choose(&product(784, 3, 24, "3, 24", "n, k"), &MACHINES[2].1, ErrorClass::Reassociating).to_string();
    assert!(few.contains("unroll s.k_o"), "{few}");
    let text = "kernel @one(x: f32[64, 64]) -> (y: f32[64]) {
                  stage s[m: 64, reduce k: 64] = fold sum x[m, k]
                  stage o[m] = s[m] * 2
                  output y[m] = o[m]
                }";
    let one: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let one = choose(&one, &MACHINES[2].1, ErrorClass::Reassociating).to_string();
    assert!(one.contains("partial s.k_l") && !one.contains("unroll s.k_o"), "{one}");
}

/// Three channels whose weights are stored again and again: lanes run along pixels and channels, and tiles begin with a first
/// channel, both for the weights and for a bias that is not stored so.
#[test]
fn tiles_begin_with_the_first_of_channels_that_are_repeated() {
    for (side, machine) in [(13, 1), (13, 2), (14, 1), (45, 1), (45, 2), (56, 2)] {
        let text = format!(
            "kernel @three(x: f32[{side}, {side}, 3] layout(halo [1:1, 1:1, 0:0]), const w: f32[3, 3, 48], const b: f32[3])
               -> (y: f32[{side}, {side}, 3]) {{
               stage s[p: {side}, q: {side}, c: 3, reduce i: 3, reduce j: 3] =
                 fold sum (x[p + i - 1, q + j - 1, c] if 0 <= p + i - 1 < {side} and 0 <= q + j - 1 < {side} else 0)
                   * w[i, j, c + 3*mod(q, 16)]
               stage o[p, q, c] = max(s[p, q, c] + b[c], 0)
               output y[p, q, c] = o[p, q, c]
             }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (name, machine) = &MACHINES[machine];
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("join s.q, c -> qc"), "{side} pixels, {name}: {schedule}");
        let width =
            schedule.split("split s.qc by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
        let begins = width.is_some_and(|width| width % 3 == 0 || width >= 3 * side);
        assert!(begins, "{side} pixels, {name}: {schedule}");
    }
}

/// Weights of depthwise convolutions in panels do not hinder tiles that are narrower: all that is read moves along.
#[test]
fn tiles_may_be_parts_of_panels_that_move_with_all_else() {
    let kernel = |side: i64, taps: i64| -> Kernel {
        let out = side - taps + 1;
        let text = format!(
            "kernel @depthwise(x: f32[{side}, {side}, 72], const w: f32[5, {taps}, {taps}, 16]) -> (y: f32[{out}, {out}, 72]) {{
              stage s[h: {out}, w: {out}, c: 72, reduce i: {taps}, reduce j: {taps}] =
                fold sum x[h + i, w + j, c] * w[div(c, 16), i, j, mod(c, 16)]
              stage o[h, w, c] = max(s[h, w, c], 0)
              output y[h, w, c] = o[h, w, c]
            }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let sizes = [(9, 3), (16, 3), (29, 3), (18, 5), (31, 5), (33, 7)];
    let schedules =
        sizes.map(|(side, taps)| choose(&kernel(side, taps), &MACHINES[1].1, ErrorClass::Exact).to_string());
    let narrow = schedules.iter().filter(|schedule| schedule.contains("split s.c by 8 -> c_o, c_l")).count();
    assert!(narrow > 0, "{}", schedules.join("\n"));
}
