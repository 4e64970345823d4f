//! Outputs in the memory of an input: what stays what it was is not written.

use crate::support::{MACHINES, run_scheduled};
use infc_ir::entity::EntityId;
use infc_ir::interp::{run_kernel, run_nest};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_passes::ErrorClass;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{apply, choose};
use infc_tensor::Tensor;
use infc_testkit::{assert_same, buffers_of, outputs_in, to_physical};

const SIZES: [(usize, usize, usize); 7] =
    [(0, 3, 2), (4, 0, 2), (1, 1, 1), (7, 16, 3), (9, 17, 9), (20, 33, 4), (3, 5, 5)];

/// Rows `t` of `T`, replaced by `2·t` where the condition holds of `at` and `S`.
fn rows(condition: &str) -> Kernel {
    let text = format!(
        "kernel @rows(at: i64[B], x: f32[B, T, D]) -> (y: f32[B, T, D])
            where B in 0..=4, T in 0..=1000, D in 0..=1000, S in 0..=1000 {{
          stage o[b: B, t: T, d: D] = select({condition}, f32(index(2*t)), x[b, t, d])
          output y[b, t, d] = o[b, t, d] onto x
        }}"
    );
    normalise(text.parse().unwrap_or_else(|e| panic!("{e}\n{text}")))
}

fn inputs(b: usize, t: usize, d: usize, at: i64) -> Vec<Tensor> {
    let at: Vec<i64> = (0..b as i64).map(|n| at.saturating_add(n)).collect();
    let x: Vec<f32> = (0..b * t * d).map(|n| -1.0 - n as f32).collect();
    vec![Tensor::from_elements(&[b], &at).expect("all"), Tensor::from_elements(&[b, t, d], &x).expect("all")]
}

/// Where a row begins and how many there are, in the ways to say it.
const SPANS: [&str; 4] = [
    "index(t) - at[b] >= index(0) & index(t) - at[b] < index(S)",
    "index(-1) < index(t) - at[b] & index(t) - at[b] <= index(S - 1)",
    "at[b] - index(t) > index(-S) & at[b] - index(t) < index(1)",
    "index(0) >= at[b] - index(t) & index(-S) < at[b] - index(t) & at[b] - index(t) <= index(0)",
];

#[test]
fn rows_from_where_data_tells_are_all_that_is_written() {
    for condition in SPANS {
        let kernel = rows(condition);
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Exact);
            let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{condition}: {e}"));
            assert!(nest.to_string().contains("t_told"), "rows are asked one by one: {nest}");
            for (t, d, s) in SIZES {
                for at in [0, 2, -1, t as i64 - 1, t as i64 + 5, i64::MIN, i64::MAX] {
                    let (symbols, inputs) = ([2, t, d, s].map(|n| n as i64), inputs(2, t, d, at));
                    let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
                    let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &symbols, &inputs);
                    let what = format!("{condition} of {symbols:?} from {at} on {name}");
                    assert_same(&what, &found, &expected);
                    assert_untouched(&what, &kernel, &nest, &symbols, &inputs, &expected[0]);
                }
            }
        }
    }
}

/// Runs a nest on an output that does not hold what it should: what is replaced is written, the rest is as it was.
fn assert_untouched(
    what: &str,
    kernel: &Kernel,
    nest: &infc_ir::nest::LoopNest,
    symbols: &[i64],
    inputs: &[Tensor],
    expected: &Tensor,
) {
    let mut buffers = buffers_of(kernel, symbols, inputs);
    let (id, operand) =
        kernel.operands.iter_enumerated().find(|(_, o)| o.kind == OperandKind::Output).expect("an output");
    buffers[id.index()] = to_physical(operand, symbols, None);
    run_nest(nest, symbols, &mut buffers).unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = &outputs_in(kernel, symbols, &buffers)[0];
    for n in 0..found.len_elems() {
        let (found, expected) = (found.get_f64(n).expect("there"), expected.get_f64(n).expect("there"));
        let stays = expected < 0.0;
        assert!(found.is_nan() == stays && (stays || found == expected), "{what}: element {n} is {found}");
    }
}

#[test]
fn rows_are_asked_one_by_one_where_they_are_no_span() {
    // One bound alone, bounds of several numbers, of which some have no place in 64 bits, and bounds that move along with
    // other axes.
    for condition in [
        "at[b] <= index(t) & index(t) <= at[b] + index(S - 1)",
        "at[b] <= index(t) & at[b] - index(t) > index(-S)",
        "index(t) >= at[b] + index(1) & index(t) - index(4) <= at[b]",
        "index(t - b) - at[b] >= index(0) & index(t - b) - at[b] < index(S)",
        "index(t) - at[b] >= index(b) & index(t) - at[b] < index(S)",
        "at[b] < index(3)",
        "(index(t) - at[b]) % index(5) < index(2)",
        "index(t) >= at[b]",
        "index(t) - at[b] >= index(0) & index(t) < index(S)",
        "index(2*t) >= at[b] & index(2*t) < at[b] + index(S)",
        "index(t) >= at[b] | index(t) < at[b] + index(S)",
    ] {
        let kernel = rows(condition);
        for (name, machine) in &MACHINES {
            for (t, d, s) in SIZES {
                for at in [0, 2, -1, i64::MIN, i64::MAX] {
                    let (symbols, inputs) = ([2, t, d, s].map(|n| n as i64), inputs(2, t, d, at));
                    let expected = run_kernel(&kernel, &symbols, &inputs).expect("it runs");
                    let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &symbols, &inputs);
                    let what = format!("{condition} of {symbols:?} from {at} on {name}");
                    assert_same(&what, &found, &expected);
                    let nest = apply(&kernel, &choose(&kernel, machine, ErrorClass::Exact)).expect("it applies");
                    assert_untouched(&what, &kernel, &nest, &symbols, &inputs, &expected[0]);
                }
            }
        }
    }
}
