//! Rows with sums of their own that leave lanes empty have lanes across them.

use crate::support::{MACHINES, run_by};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::choose;
use infc_testkit::{assert_close, random_inputs};

/// A softmax over rows of so many points.
fn softmax(rows: &str, points: i64) -> Kernel {
    let text = format!(
        "kernel @softmax(x: f32[M, R]) -> (y: f32[M, R]) where M {rows}, R = {points} {{\n  \
           stage top[m: M, reduce r: R] = fold max x[m, r]\n  \
           stage e[m, r] = exp(x[m, r] - top[m])\n  \
           stage sum[m, reduce r] = fold sum e[m, r]\n  \
           stage o[m, r] = e[m, r] / sum[m]\n  \
           output y[m, r] = o[m, r]\n}}\n"
    );
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn short_rows_have_lanes_across_them() {
    for (machine_name, machine) in &MACHINES {
        let lanes = machine.lanes(4);
        for points in 2..=2 * lanes + 1 {
            for rows in [1, lanes - 1, lanes, 3 * lanes + 5] {
                let kernel = softmax(&format!("= {rows}"), points);
                let schedule = choose(&kernel, machine, ErrorClass::Reassociating);
                let across = schedule.to_string().contains("vectorize o.m_l");
                let leaves_lanes_empty = points < 2 * lanes && points % lanes != 0;
                let place = format!("{rows}x{points} on {machine_name}: {schedule}");
                if rows >= lanes {
                    assert_eq!(across, leaves_lanes_empty, "{place}");
                } else {
                    assert!(!across, "{place}");
                }
                let inputs = random_inputs(&kernel, &[], 5);
                let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_close(&place, &run_by(&kernel, &schedule, &[], &inputs), &expected, 1e-5, 1e-5);
            }
        }
    }
}

/// A batch that may be anything is mostly one row, for which lanes across rows would be empty but for one.
#[test]
fn a_batch_is_no_rows() {
    for (machine_name, machine) in &MACHINES {
        let schedule = choose(&softmax("in 0..", 10), machine, ErrorClass::Reassociating);
        assert!(!schedule.to_string().contains("vectorize o.m_l"), "{machine_name}: {schedule}");
    }
}

/// Panels hold columns, and rows, that the product does not have: folds in registers may read them where lanes are left over, and
/// nothing of them shows.
#[test]
fn what_panels_hold_beyond_a_product() {
    for (columns, terms) in [(21, 5), (17, 8), (33, 3), (48, 7)] {
        let text = format!(
            "kernel @panels(x: f32[3, {terms}], const w: f32[4, 8, 16]) -> (y: f32[3, {columns}]) {{
  stage s[m: 3, n: {columns}, reduce k: {terms}] = fold sum x[m, k] * w[div(n, 16), k, mod(n, 16)]
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let mut inputs = random_inputs(&kernel, &[], 6);
        for (at, element) in inputs[1].elements_mut::<f32>().expect("floats").iter_mut().enumerate() {
            let (panel, term, column) = (at / 128, at / 16 % 8, at % 16);
            if 16 * panel + column >= columns || term >= terms {
                *element = f32::NAN;
            }
        }
        let expected = run_kernel(&kernel, &[], &inputs).unwrap_or_else(|error| panic!("{error}"));
        assert!(expected[0].elements::<f32>().expect("floats").iter().all(|y| y.is_finite()));
        for (machine_name, machine) in &MACHINES {
            for class in [ErrorClass::Exact, ErrorClass::Reassociating] {
                let schedule = choose(&kernel, machine, class);
                let place = format!("{terms} terms, {columns} columns on {machine_name}: {schedule}");
                assert_close(&place, &run_by(&kernel, &schedule, &[], &inputs), &expected, 1e-5, 1e-5);
            }
        }
    }
}
