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
