//! What is asked for before it is read or written: hints, which change no result.

mod support;

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{Machine, apply, choose};
use infc_testkit::{assert_same, random_inputs};
use support::{MACHINES, run_scheduled};

/// A depthwise 3×3 convolution without padding, channels last.
fn depthwise(side: i64, channels: i64) -> Kernel {
    let out = side - 2;
    let text = format!(
        "kernel @depthwise(x: f32[{side}, {side}, {channels}], k: f32[3, 3, {channels}])
             -> (y: f32[{out}, {out}, {channels}]) {{
           stage s[h: {out}, w: {out}, c: {channels}, reduce i: 3, reduce j: 3] =
             fold sum x[h + i, w + j, c] * k[i, j, c]
           stage o[h, w, c] = max(s[h, w, c], 0)
           output y[h, w, c] = o[h, w, c]
         }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A product with a constant in panels of 16 columns.
fn product(rows: i64, columns: i64, points: i64) -> Kernel {
    let panels = (columns + 15) / 16;
    let text = format!(
        "kernel @product(x: f32[{rows}, {points}], const w: f32[{panels}, {points}, 16]) -> (y: f32[{rows}, {columns}]) {{
           stage s[m: {rows}, n: {columns}, reduce k: {points}] = fold sum x[m, k] * w[div(n, 16), k, mod(n, 16)]
           stage o[m, n] = max(s[m, n], 0)
           output y[m, n] = o[m, n]
         }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn panels_that_stream_by_are_asked_for_a_page_ahead() {
    for (name, machine) in &MACHINES[1..] {
        let machine = &Machine { l3_bytes_per_cycle: 32.0, ..*machine };
        let schedule = choose(&product(196, 2048, 1024), machine, ErrorClass::Exact);
        // A point of the sum is a cache line of 16 columns.
        assert!(schedule.to_string().contains("fetch w during s.k by 64"), "{name}: {schedule}");
        let nest = apply(&product(196, 2048, 1024), &schedule).expect("it applies").to_string();
        assert!(nest.contains("prefetch w["), "{nest}");
        // What the second cache holds comes in time.
        let small = choose(&product(196, 128, 128), machine, ErrorClass::Exact).to_string();
        assert!(!small.contains("fetch"), "{name}: {small}");
        // One row uses weights more quickly than they come.
        let row = choose(&product(1, 2048, 1024), machine, ErrorClass::Exact).to_string();
        assert!(!row.contains("fetch"), "{name}: {row}");
    }
}

#[test]
fn rows_far_apart_are_asked_for_before_their_next_vectors() {
    for (name, machine) in &MACHINES[1..] {
        let schedule = choose(&depthwise(45, 1000), machine, ErrorClass::Exact).to_string();
        assert!(schedule.contains("fetch x during s.c by "), "{name}: {schedule}");
        assert!(schedule.contains("fetch y during o.c by "), "{name}: {schedule}");
        assert!(!schedule.contains("fetch k"), "{name}: {schedule}");
        // Neighbouring pixels lie in the same page.
        let narrow = choose(&depthwise(300, 40), machine, ErrorClass::Exact).to_string();
        assert!(!narrow.contains("fetch"), "{name}: {narrow}");
    }
}

#[test]
fn hints_keep_the_meaning_also_at_the_edges() {
    for kernel in [depthwise(9, 600), product(7, 41, 37)] {
        let inputs = random_inputs(&kernel, &[], 3);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
        for (name, machine) in &MACHINES[1..] {
            // A machine with next to no second cache, so that all of it comes from beyond.
            let machine = Machine { l2_bytes: 1024, l3_bytes_per_cycle: 64.0, ..*machine };
            let schedule = choose(&kernel, &machine, ErrorClass::Exact).to_string();
            assert!(schedule.contains("fetch "), "{name}: {schedule}");
            let found = run_scheduled(&kernel, &machine, ErrorClass::Exact, &[], &inputs);
            assert_same(name, &found, &expected);
        }
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let error = |text: &str| {
        let schedule = text.parse().expect("it parses");
        apply(&depthwise(9, 40), &schedule).expect_err(text).to_string()
    };
    assert!(error("fetch x during z.c by 16").contains("no stage `z`"));
    assert!(error("fetch z during s.c by 16").contains("does not read or write an operand `z`"));
    assert!(error("fetch x during o.c by 16").contains("does not read or write an operand `x`"));
    assert!(error("fetch x during s.z by 16").contains("has no axis `z`"));
}
