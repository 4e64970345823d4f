//! Columns that leave lanes empty: taken apart into several sums.

use crate::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, apply_within, choose};
use infc_testkit::{assert_close, assert_same, random_inputs};

/// A product whose constant has `sums` neighbours along the `points` that are summed next to each other for every column.
fn product(rows: &str, columns: i64, points: i64, sums: i64) -> Kernel {
    let width = 16 / sums;
    let (panels, groups) = ((columns + width - 1) / width, points / sums);
    let text = format!(
        "kernel @p(x: f32[{rows}, {points}], const w: f32[{panels}, {groups}, {width}, {sums}], const b: f32[{columns}])
            -> (y: f32[{rows}, {columns}]) {{
          stage s[m: {rows}, n: {columns}, reduce k: {points}] =
            fold sum x[m, k] * w[div(n, {width}), div(k, {sums}), mod(n, {width}), mod(k, {sums})]
          stage o[m, n] = max(s[m, n] + b[n], 0)
          output y[m, n] = o[m, n]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn sums_of_columns_are_taken_apart_where_constants_lie_so() {
    let cases = [(24, 48, 2), (8, 40, 2), (40, 128, 2), (12, 480, 4), (20, 480, 4)];
    for (columns, points, sums) in cases {
        for rows in ["1", "2", "13", "48"] {
            let kernel = product(rows, columns, points, sums);
            let what = format!("{rows} rows of {columns} columns, {sums} sums");
            let inputs = random_inputs(&kernel, &[], 5);
            let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
            for (name, machine) in &MACHINES {
                let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
                let text = schedule.to_string();
                assert_eq!(text.parse(), Ok(schedule), "{text}");
                let is_apart = text.starts_with(&format!("interleave s.k by {sums} with n -> nk"));
                assert!(is_apart, "{what} on {name}: {text}");
                let found = run_scheduled(&kernel, machine, ErrorClass::Reassociating, &[], &inputs);
                assert_close(&format!("{what} on {name}: {text}"), &found, &expected, 1e-5, 1e-5);
                let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[], &inputs);
                assert_same(&format!("{what} on {name}, exactly"), &found, &expected);
            }
        }
    }
}

/// Rows of two, four or eight numbers lie as such constants do, and are none.
#[test]
fn short_rows_are_no_sums_apart() {
    for (columns, points) in [(7, 8), (4, 8), (5, 4), (6, 2), (24, 2)] {
        let text = format!(
            "kernel @p(x: f32[64, {points}], const w: f32[{columns}, {points}]) -> (y: f32[64, {columns}]) {{
              stage s[m: 64, n: {columns}, reduce k: {points}] = fold sum x[m, k] * w[n, k]
              stage o[m, n] = max(s[m, n], 0)
              output y[m, n] = o[m, n]
            }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
            assert!(!schedule.contains("interleave"), "{columns} rows of {points} on {name}: {schedule}");
        }
    }
}

/// Lanes and rows as where columns stay together: sums of a tile stay in registers until they are added up.
#[test]
fn a_tile_of_sums_apart_is_as_large_as_another() {
    for (name, machine) in MACHINES.iter().filter(|(_, machine)| machine.vector_registers == 32) {
        let schedule = choose(&product("48", 24, 48, 2), machine, ErrorClass::Reassociating).to_string();
        let of_sums = |step: &str| schedule.split("; ").any(|found| found.starts_with(step));
        assert!(
            of_sums("vectorize s.nk_l") && of_sums("unroll s.m_i") && of_sums("store s in stack"),
            "{name}: {schedule}"
        );
    }
}

#[test]
fn only_sums_that_are_read_plainly_are_taken_apart() {
    let text = "kernel @p(x: f32[6, 8], const w: f32[8, 4]) -> (y: f32[6, 4], z: f32[6, 4]) {
      stage s[m: 6, n: 4, reduce k: 8] = fold sum x[m, k] * w[k, n]
      stage t[m: 6, n: 4, reduce k: 8] = fold max x[m, k] * w[k, n]
      stage o[m: 6, n: 4] = s[m, n] * s[5 - m, n] + t[m, n]
      stage u[m: 6, n: 4] = s[m, 0] if 1 <= m < 6 else 0
      output y[m, n] = o[m, n]
      output z[m, n] = u[m, n]
    }";
    let guarded: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let plain: Kernel = text.replace(" if 1 <= m < 6 else 0", "").parse().unwrap_or_else(|e| panic!("{e}"));
    let inputs = random_inputs(&plain, &[], 7);
    let expected = run_kernel(&plain, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
    for steps in ["interleave s.k by 2 with n -> nk", "interleave s.k by 8 with m -> a; part s.a by 8 -> b, c"] {
        let found = run_by(&plain, &steps.parse().expect("a schedule"), &[], &inputs);
        assert_close(steps, &found, &expected, 1e-5, 1e-5);
    }
    for (kernel, steps, reason) in [
        (&guarded, "interleave s.k by 2 with n -> nk", "without conditions"),
        (&plain, "interleave s.k by 3 with n -> nk", "a multiple"),
        (&plain, "interleave s.k by 32 with n -> nk", "a multiple"),
        (&plain, "interleave s.n by 2 with m -> nk", "be reduced"),
        (&plain, "interleave t.k by 2 with n -> nk", "must sum"),
        (&plain, "interleave o.m by 2 with n -> nk", "no output"),
        (&plain, "interleave s.k by 2 with n -> m", "a name of its own"),
        (&plain, "interleave q.k by 2 with n -> nk", "`q`"),
        (&plain, "unroll s.m; interleave s.k by 2 with n -> nk", "before all other steps"),
    ] {
        let error = apply(kernel, &steps.parse().expect("a schedule")).expect_err(steps).to_string();
        assert!(error.contains(reason), "{steps}: {error}");
    }
    let steps = "interleave s.k by 2 with n -> nk".parse().expect("a schedule");
    let error = apply_within(&plain, &steps, ErrorClass::Exact).expect_err("another order").to_string();
    assert!(error.contains("another order"), "{error}");
}
