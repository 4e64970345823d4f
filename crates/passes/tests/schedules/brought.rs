//! Factors that are stored as halves: converted once for many rows, or where they are read.

use crate::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, choose};
use infc_testkit::{assert_close, assert_same, random_inputs};

fn product(rows: &str, half: &str) -> Kernel {
    let text = format!(
        "kernel @p(x: f32[{rows}, 40], const w: {half}[40, 48]) -> (y: f32[{rows}, 48]) {{
          stage s[m: {rows}, n: 48, reduce k: 40] = fold sum x[m, k] * f32(w[k, n])
          stage o[m, n] = s[m, n] + 1
          output y[m, n] = o[m, n]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn many_rows_share_what_is_converted_once() {
    for half in ["f16", "bf16"] {
        for (rows, brought) in [("1", false), ("7", false), ("23", false), ("24", true), ("61", true)] {
            let kernel = product(rows, half);
            let inputs = random_inputs(&kernel, &[], 5);
            let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
            for (name, machine) in &MACHINES {
                let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
                let text = schedule.to_string();
                let is_brought = text.contains("bring w to s -> s_w") && text.contains("store s_w in scratch");
                assert_eq!(is_brought, brought, "{rows} rows on {name}: {text}");
                assert_eq!(text.parse(), Ok(schedule), "{text}");
                let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[], &inputs);
                assert_same(&format!("{rows} rows on {name}"), &found, &expected);
                let found = run_scheduled(&kernel, machine, ErrorClass::Reassociating, &[], &inputs);
                assert_close(name, &found, &expected, 1e-5, 1e-5);
            }
        }
    }
}

#[test]
fn what_is_brought_is_loaded_once_and_without_conditions() {
    let text = "kernel @p(x: f32[30, 8], const w: f16[8, 16], const v: f16[8]) -> (y: f32[30, 16]) {
      stage s[m: 30, n: 16, reduce k: 8] = fold sum x[m, k] * f32(w[k, n]) * f32(w[k, 0]) * f32(v[k])
      stage o[m, n] = s[m, n] + 1
      output y[m, n] = o[m, n]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let inputs = random_inputs(&kernel, &[], 7);
    let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
    for steps in ["bring v to s -> s_v", "bring x to s -> t; part t.m by 5 -> a, b", "bring x to s -> t; inline t"] {
        let found = run_by(&kernel, &steps.parse().expect("a schedule"), &[], &inputs);
        assert_same(steps, &found, &expected);
    }
    for (steps, reason) in [
        ("bring w to s -> t", "once"),
        ("bring u to s -> t", "once"),
        ("bring x to s -> o", "a name of its own"),
        ("bring x to q -> t", "`q`"),
        ("unroll s.n; bring x to s -> t", "before all other steps"),
    ] {
        let error = apply(&kernel, &steps.parse().expect("a schedule")).expect_err(steps).to_string();
        assert!(error.contains(reason), "{steps}: {error}");
    }
}

/// Chunks of rows go around columns where factors are brought: not where a row is summed, which each chunk of columns would do again.
#[test]
fn sums_of_rows_are_computed_once() {
    let text = "kernel @norm(x: f32[R, 768]) -> (y: f32[R, 768]) where R in 1..=1000 {
      stage total[r: R, reduce c: 768] = fold sum x[r, c]
      stage o[r: R, c: 768] = x[r, c] - total[r] / 768
      output y[r, c] = o[r, c]
    }";
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Reassociating).to_string();
        let order = schedule.split("; ").find(|step| step.starts_with("reorder o:")).unwrap_or("reorder o: r");
        assert!(order.starts_with("reorder o: r"), "{name}: {schedule}");
    }
}
