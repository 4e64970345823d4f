//! Reductions that fold each point where data says.

use crate::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{apply, choose};
use infc_tensor::Tensor;
use infc_testkit::assert_same;

/// Updates of rows, combined as `fold` says, beside what is there.
fn rows(fold: &str, neutral: &str) -> Kernel {
    let text = format!(
        "kernel @rows(x: f32[R, D], at: i64[M], u: f32[M, D]) -> (y: f32[R, D])
            where R in 0..=1000, D in 0..=1000, M in 0..=1000 {{
          stage s[r: R, d: D, reduce m: M] = fold {fold} select(at[m] == index(r), u[m, d], {neutral})
          stage o[r, d] = x[r, d] - s[r, d]
          output y[r, d] = o[r, d]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Every row several times, positions that are nowhere, numbers that are none.
fn inputs(r: usize, d: usize, m: usize) -> Vec<Tensor> {
    let number = |n: usize| match n % 41 {
        7 => f32::NAN,
        13 => f32::INFINITY,
        19 => -0.0,
        n => n as f32 - 20.0,
    };
    let floats = |shape: [usize; 2]| {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(number).collect();
        Tensor::from_elements(&shape, &values).expect("all")
    };
    let at =
        |n: usize| [(n * 7 % (r + 1)) as i64, -1, i64::MIN, i64::MAX, r as i64][if n % 5 == 4 { 1 + n % 4 } else { 0 }];
    let places: Vec<i64> = (0..m).map(at).collect();
    vec![floats([r, d]), Tensor::from_elements(&[m], &places).expect("all"), floats([m, d])]
}

const SIZES: [(usize, usize, usize); 9] =
    [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (5, 1, 30), (7, 16, 31), (9, 17, 12), (40, 33, 100), (2, 200, 9)];

#[test]
fn each_update_goes_where_it_belongs() {
    let schedules = [
        "reorder s: m, r, d; scatter s.r",
        "reorder s: m, r, d; scatter s.r; split s.d by 8 -> d_o, d_l; vectorize s.d_l",
        "reorder s: m, r, d; scatter s.r; split s.m by 4 -> m_o, m_i; unroll s.m_i; split s.d by 4 -> d_o, d_l; vectorize s.d_l",
        "split o.d by 16 -> d_o, d_i; reorder o: d_o, r, d_i; parallel o: d_o; compute s at o.d_o; reorder s: m, r, d; \
         scatter s.r; split s.d by 8 -> d_v, d_l; vectorize s.d_l",
    ];
    for (fold, neutral) in [("sum", "0"), ("prod", "1"), ("max", "-inf"), ("min", "inf")] {
        let kernel = rows(fold, neutral);
        for schedule in schedules {
            let by: Schedule = schedule.parse().unwrap_or_else(|e| panic!("{e}"));
            let nest = apply(&kernel, &by).unwrap_or_else(|e| panic!("{fold}: {e}"));
            assert!(!nest.to_string().contains("select"), "{nest}");
            for (r, d, m) in SIZES {
                let (symbols, inputs) = ([r, d, m].map(|n| n as i64), inputs(r, d, m));
                let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
                let found = run_by(&kernel, &by, &symbols, &inputs);
                assert_same(&format!("{fold} of {symbols:?} by {schedule}"), &found, &expected);
            }
        }
    }
}

#[test]
fn the_default_choice_scatters() {
    let kernel = normalise(rows("sum", "0"));
    for (name, machine) in &MACHINES {
        let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("scatter s."), "{name}: {schedule}");
        for (r, d, m) in SIZES {
            let (symbols, inputs) = ([r, d, m].map(|n| n as i64), inputs(r, d, m));
            let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
            let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &symbols, &inputs);
            assert_same(&format!("{symbols:?} on {name}"), &found, &expected);
        }
    }
}

#[test]
fn what_is_folded_elsewhere_too_is_not_scattered() {
    let refused = |text: &str, schedule: &str| {
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let schedule: Schedule = schedule.parse().unwrap_or_else(|e| panic!("{e}"));
        apply(&kernel, &schedule).expect_err("it makes no sense").to_string()
    };
    let kernel = |fold: &str, value: &str| {
        format!(
            "kernel @h(at: i64[M], u: f32[M]) -> (y: f32[R]) where R in 0..=1000, M in 0..=1000 {{
              stage s[r: R, reduce m: M] = fold {fold} {value}
              stage o[r] = s[r]
              output y[r] = o[r]
            }}"
        )
    };
    let by = "reorder s: m, r; scatter s.r";
    let somewhere = "folds something at more than one point";
    for (fold, value) in [
        // One for each point that it is not meant for, another comparison, a target that moves along.
        ("sum", "select(at[m] == index(r), u[m], 1)"),
        ("sum", "select(at[m] < index(r), u[m], 0)"),
        ("sum", "select(at[m] + index(r) == index(r), u[m], 0)"),
        ("max", "select(at[m] == index(r), u[m], 0)"),
        ("sum", "u[m]"),
    ] {
        let error = refused(&kernel(fold, value), by);
        assert!(error.contains(somewhere), "{value}: {error}");
    }
    let plain = kernel("sum", "select(at[m] == index(r), u[m], 0)");
    let error = refused(&plain, "scatter s.r");
    assert!(error.contains("runs around `m`"), "{error}");
    let error = refused(&plain, "split s.r by 4 -> r_o, r_i; reorder s: m, r_o, r_i; scatter s.r_o");
    assert!(error.contains("one loop without a mode"), "{error}");
    let error = refused(&plain, &format!("{by}; store s in register"));
    assert!(error.contains("no place that only data tells"), "{error}");
}
