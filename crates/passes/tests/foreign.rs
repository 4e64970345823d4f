//! Schedules that others made, of a file of records: what is too much code, or sums in another order than is allowed, is
//! refused, and what the default choice makes never is.

mod support;

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{apply, apply_within, choose};
use infc_testkit::{assert_same, random_inputs};
use support::MACHINES;

fn kernel(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Rows, folded along two axes.
fn folded(by: &str) -> Kernel {
    kernel(&format!(
        "kernel @folded(x: f32[5, 3, 8]) -> (y: f32[5]) {{
          stage s[r: 5, reduce a: 3, reduce b: 8] = fold {by} x[r, a, b]
          stage o[r: 5] = s[r]
          output y[r] = o[r]
        }}"
    ))
}

fn refusal(kernel: &Kernel, schedule: &str, allowed: ErrorClass) -> Option<String> {
    let schedule = schedule.parse().unwrap_or_else(|e| panic!("{e}\n{schedule}"));
    apply_within(kernel, &schedule, allowed).err().map(|error| error.to_string())
}

#[test]
fn sums_keep_their_order_where_that_is_asked_for() {
    let (sum, largest) = (folded("sum"), folded("max"));
    for (schedule, why) in [
        ("split s.b by 4 -> o, i; partial s.i", "accumulators of its own"),
        ("split s.b by 4 -> o, i; vectorize s.i; partial s.i", "accumulators of its own"),
        ("reorder s: b, a", "within one of a later axis"),
        ("split s.a by 3 -> o, i; reorder s: o, b, i", "within one of a later axis"),
        ("reorder s: b, r, a", "within one of a later axis"),
    ] {
        let refused = refusal(&sum, schedule, ErrorClass::Exact);
        assert!(refused.as_ref().is_some_and(|r| r.contains(why)), "{schedule}: {refused:?}");
        assert_eq!(refusal(&sum, schedule, ErrorClass::Reassociating), None, "{schedule}");
        assert_eq!(refusal(&largest, schedule, ErrorClass::Exact), None, "{schedule}");
    }
    for schedule in ["", "reorder s: a, b, r", "split s.b by 3 -> o, i; reorder s: a, o, r, i; unroll s.i"] {
        assert_eq!(refusal(&sum, schedule, ErrorClass::Exact), None, "{schedule}");
    }
    // One axis of both is folded row by row, whatever the memory's order.
    assert_eq!(refusal(&sum, "join s.a, b -> x", ErrorClass::Exact), None);
    assert!(refusal(&sum, "join s.b, a -> x", ErrorClass::Exact).is_some_and(|r| r.contains("next to the outer")));
}

#[test]
fn the_default_choice_keeps_to_what_is_allowed() {
    for (name, kernel) in infc_testkit::kernels() {
        let kernel = normalise(kernel);
        for (machine_name, machine) in &MACHINES {
            for allowed in [ErrorClass::Exact, ErrorClass::Reassociating] {
                let schedule = choose(&kernel, machine, allowed);
                let applied = apply_within(&kernel, &schedule, allowed);
                assert!(applied.is_ok(), "{name} on {machine_name}: {:?}\n{schedule}", applied.err());
            }
        }
    }
}

/// Formulation takes axes together that memory has in another order than the sum: not if that shows.
#[test]
fn sums_along_columns_are_not_joined() {
    let text = |by: &str| {
        format!(
            "kernel @columns(x: f32[8, 3]) -> (y: f32[1]) {{
              stage s[r: 1, reduce a: 3, reduce b: 8] = fold {by} x[b, a]
              stage o[r: 1] = s[r]
              output y[r] = o[r]
            }}"
        )
    };
    let axes = |kernel: &Kernel| kernel.stages.iter().next().expect("a stage").reduce_axes().count();
    let (sum, largest) = (kernel(&text("sum")), kernel(&text("max")));
    assert_eq!((axes(&normalise(sum.clone())), axes(&normalise(largest))), (2, 1));
    let inputs = random_inputs(&sum, &[], 5);
    let found = run_kernel(&normalise(sum.clone()), &[], &inputs).expect("it runs");
    assert_same("columns", &found, &run_kernel(&sum, &[], &inputs).expect("it runs"));
}

/// Steps that each make sense, together a million statements.
#[test]
fn straight_code_has_a_limit() {
    let copy = kernel(
        "kernel @copy(x: f32[1000000]) -> (y: f32[1000000]) {
          stage o[n: 1000000] = x[n]
          output y[n] = o[n]
        }",
    );
    let sum = kernel(
        "kernel @sum(x: f32[1000000]) -> (y: f32[1]) {
          stage s[r: 1, reduce k: 1000000] = fold sum x[k]
          stage o[r: 1] = s[r]
          output y[r] = o[r]
        }",
    );
    // Each split leaves a remainder, whose code is as long as that of all before it.
    let splits: Vec<String> = (0..40).map(|n| format!("split o.{} by 2 -> a{n}, b{n}", name(n))).collect();
    let many: Vec<String> = (0..500).map(|n| format!("split o.{} by 1 -> a{n}, b{n}", name(n))).collect();
    for (kernel, schedule, why) in [
        (&copy, "unroll o.n".to_owned(), "straight code"),
        (&copy, "split o.n by 1000 -> a, b; unroll o.a; unroll o.b".to_owned(), "straight code"),
        (&copy, many.join("; "), "at most 128 loops"),
        (&sum, "unroll s.k".to_owned(), "straight code"),
        (&sum, "split s.k by 500000 -> o, i; partial s.i".to_owned(), "straight code"),
        (&sum, "split s.k by 300000 -> o, i; unroll s.i".to_owned(), "straight code"),
    ] {
        let refused = refusal(kernel, &schedule, ErrorClass::Reassociating);
        assert!(refused.as_ref().is_some_and(|r| r.contains(why)), "{schedule}: {refused:?}");
    }
    // Tiles of powers of two leave a million over only now and then; that must end, whether it applies or not.
    let _ = refusal(&copy, &splits.join("; "), ErrorClass::Exact);
}

fn name(n: usize) -> String {
    n.checked_sub(1).map_or_else(|| "n".to_owned(), |before| format!("a{before}"))
}

/// Each stage reads the one before it twice.
#[test]
fn what_is_inlined_has_a_limit() {
    let stages: String = (1..60).map(|n| format!("stage s{n}[n: 4] = s{0}[n] * s{0}[3 - n]\n", n - 1)).collect();
    let text = format!(
        "kernel @doubling(x: f32[4]) -> (y: f32[4]) {{
          stage s0[n: 4] = x[n]
          {stages}
          output y[n] = s59[n]
        }}"
    );
    let steps: Vec<String> = (0..59).map(|n| format!("inline s{n}")).collect();
    let refused = refusal(&kernel(&text), &steps.join("; "), ErrorClass::Exact);
    assert!(refused.as_ref().is_some_and(|r| r.contains("straight code")), "{refused:?}");
}

/// Chunks of roots that run side by side know nothing of each other.
#[test]
fn parallel_roots_do_not_read_each_other() {
    let two = kernel(
        "kernel @two(x: f32[64]) -> (y: f32[64]) {
          stage a[n: 64] = x[n] * 2
          stage b[n: 64] = a[63 - n] + 1
          output y[n] = b[n]
        }",
    );
    let schedule = "parallel a: n; parallel b: n".parse().expect("it parses");
    let error = apply(&two, &schedule).expect_err("they would not wait for each other").to_string();
    assert!(error.contains("reads"), "{error}");
}
