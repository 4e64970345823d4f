//! Turns that only meet padding.

use super::support::{MACHINES, run_by, run_scheduled};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, choose};
use infc_testkit::{assert_same, random_inputs};

/// A dilated convolution of `k` by `k` taps, channels last, whose padding the layout has if `halo` says so.
fn dilated(size: [i64; 2], k: i64, apart: i64, stride: i64, halo: bool) -> Kernel {
    let [h, w] = size;
    let pad = apart * (k / 2);
    let (oh, ow) = ((h - 1) / stride + 1, (w - 1) / stride + 1);
    let halo = if halo { format!("layout(halo [{pad}:{pad}, {pad}:{pad}, 0:0])") } else { String::new() };
    let (y, x) = (format!("{stride}*p + {apart}*r - {pad}"), format!("{stride}*q + {apart}*s - {pad}"));
    let text = format!(
        "kernel @dilated(x: f32[{h}, {w}, 7] {halo}, const w: f32[{k}, {k}, 7, 18]) -> (y: f32[{oh}, {ow}, 18]) {{
          stage a[p: {oh}, q: {ow}, n: 18, reduce r: {k}, reduce s: {k}, reduce c: 7] =
            fold sum (x[{y}, {x}, c] if 0 <= {y} < {h} and 0 <= {x} < {w} else 0) * w[r, s, c, n]
          stage o[p, q, n] = max(a[p, q, n], 0)
          output y[p, q, n] = o[p, q, n]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn taps_far_apart_are_left_out_where_tiles_meet_only_padding() {
    for (size, k, apart, stride) in
        [([14, 14], 3, 12, 1), ([14, 13], 3, 6, 1), ([17, 5], 5, 4, 1), ([19, 19], 3, 9, 2), ([1, 31], 3, 29, 1)]
    {
        for halo in [true, false] {
            let kernel = dilated(size, k, apart, stride, halo);
            let inputs = random_inputs(&kernel, &[], 3);
            let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
            for (name, machine) in &MACHINES {
                let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
                if halo {
                    assert!(schedule.contains("skip a."), "{schedule}");
                    let nest = apply(&kernel, &schedule.parse().expect("it parses")).expect("it applies").to_string();
                    assert!(nest.contains("if "), "{nest}");
                }
                let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[], &inputs);
                assert_same(&format!("{size:?} {k} taps {apart} apart by {stride} on {name}"), &found, &expected);
            }
        }
    }
}

/// What a tile meets is asked at the sizes of a run as well.
#[test]
fn taps_are_left_out_of_images_of_any_size() {
    for halo in ["layout(halo [12:12, 12:12, 0:0])", ""] {
        let text = format!(
            "kernel @any(x: f32[H, W, 24] {halo}, const w: f32[3, 3, 24, 9]) -> (y: f32[H, W, 9])
                 where H in 0..=1000, W in 0..=1000 {{
              stage a[p: H, q: W, n: 9, reduce r: 3, reduce s: 3, reduce c: 24] =
                fold sum (x[p + 12*r - 12, q + 12*s - 12, c] if 0 <= p + 12*r - 12 < H and 0 <= q + 12*s - 12 < W else 0)
                  * w[r, s, c, n]
              stage o[p, q, n] = max(a[p, q, n], 0)
              output y[p, q, n] = o[p, q, n]
            }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
            assert!(schedule.contains("skip a.r"), "{schedule}");
            for sizes in [[14, 9], [1, 40], [33, 2], [0, 3], [25, 26]] {
                let inputs = random_inputs(&kernel, &sizes, 8);
                let expected = run_kernel(&kernel, &sizes, &inputs).expect("it runs");
                let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &sizes, &inputs);
                assert_same(&format!("{sizes:?} {halo} on {name}"), &found, &expected);
            }
        }
    }
}

/// Padding that is wider than the halo is asked for however little of it there is: then what a tile reads is there, and no element
/// is tested.
#[test]
fn taps_beyond_the_halo_are_asked_for_once_a_tile() {
    for size in ["900", "L"] {
        let text = format!(
            "kernel @wide(x: f32[{size}, 18] layout(halo [64:64, 0:0]), const w: f32[3, 18]) -> (y: f32[{size}, 18])
                 where L in 0..=1000 {{
              stage a[l: {size}, c: 18, reduce t: 3] =
                fold sum (x[l + 70*t - 70, c] if 0 <= l + 70*t - 70 < {size} else 0) * w[t, c]
              stage o[l, c] = max(a[l, c], 0)
              output y[l, c] = o[l, c]
            }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        for (name, machine) in &MACHINES {
            let schedule = choose(&kernel, machine, ErrorClass::Exact).to_string();
            assert!(schedule.contains("skip a.t"), "{name}: {schedule}");
            let nest = apply(&kernel, &schedule.parse().expect("it parses")).expect("it applies").to_string();
            let mut folds = nest.lines().filter(|line| line.contains("fold sum"));
            assert!(folds.all(|fold| !fold.contains(" if ")), "{name}: {nest}");
            for length in [900, 64, 7, 0] {
                let inputs = random_inputs(&kernel, &[length], 5);
                let expected = run_kernel(&kernel, &[length], &inputs).expect("it runs");
                let found = run_scheduled(&kernel, machine, ErrorClass::Exact, &[length], &inputs);
                assert_same(&format!("{size} of {length} on {name}"), &found, &expected);
            }
        }
    }
}

#[test]
fn taps_that_hardly_meet_padding_are_not_asked() {
    let schedule = choose(&dilated([56, 56], 3, 1, 1, true), &MACHINES[2].1, ErrorClass::Reassociating).to_string();
    assert!(!schedule.contains("skip"), "{schedule}");
}

/// What is left out has to be zero: products with padding, by numbers that are known.
#[test]
fn what_may_be_more_than_padding_is_summed() {
    let kernel = |summed: &str, weights: &str| -> Kernel {
        let text = format!(
            "kernel @k(x: f32[8], {weights} w: f32[3]) -> (y: f32[8]) {{
              stage a[i: 8, reduce t: 3] = fold {summed}
              stage o[i] = a[i]
              output y[i] = o[i]
            }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let padded = "(x[i + 7*t - 7] if 0 <= i + 7*t - 7 < 8 else 0)";
    let other = "(x[i + 7*t - 7] if 0 <= i + 7*t - 7 < 8 else 1)";
    let skip =
        |kernel: &Kernel| apply(kernel, &"compute a at o.i; store a in register; skip a.t".parse().expect("steps"));
    for (summed, weights, why) in [
        (format!("sum {padded} * w[t]"), "", "weights that a run tells"),
        (format!("max {padded} * w[t]"), "const", "an extreme"),
        (format!("sum {padded} + w[t]"), "const", "no product"),
        (format!("sum {other} * w[t]"), "const", "padding with ones"),
        ("sum x[i] * w[t]".to_owned(), "const", "no padding"),
    ] {
        let error = skip(&kernel(&summed, weights)).expect_err(why).to_string();
        assert!(error.contains("`a` sums no products of weights and padding along `t`"), "{why}: {error}");
    }
    let plain = kernel(&format!("sum {padded} * w[t]"), "const");
    skip(&plain).expect("products of weights and padding");
    let lanes =
        "compute a at o.i; store a in register; split a.t by 4 -> to, tl; skip a.tl; partial a.tl; vectorize a.tl";
    let error = apply(&plain, &lanes.parse().expect("steps")).expect_err("lanes").to_string();
    assert!(error.contains("leaves out turns, so it has to run turn by turn"), "{error}");
}

/// Where padding ends with the point of the tile, a tile of several has no end of its own.
#[test]
fn ends_that_move_along_are_not_asked() {
    let text = "kernel @k(x: f32[8], const w: f32[8]) -> (y: f32[8]) {
          stage a[i: 8, reduce t: 8] = fold sum (x[t] if 0 <= t < i + 1 else 0) * w[t]
          stage o[i] = a[i]
          output y[i] = o[i]
        }";
    let kernel: Kernel = text.parse().expect("a kernel");
    let inputs = random_inputs(&kernel, &[], 6);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    for steps in ["reorder a: t, i; skip a.t", "compute a at o.i; skip a.t"] {
        assert_same(steps, &run_by(&kernel, &steps.parse().expect("steps"), &[], &inputs), &expected);
    }
    assert!(!choose(&kernel, &MACHINES[2].1, ErrorClass::Exact).to_string().contains("skip"));
}

/// Turns that are left out compute nothing that is asked for elsewhere.
#[test]
fn outputs_are_not_computed_in_turns_that_may_be_left_out() {
    let text = "kernel @k(x: f32[8], const w: f32[3]) -> (y: f32[8], z: f32[8]) {
          stage b[j: 8] = x[j] * 2
          stage a[i: 8, reduce t: 3] = fold sum (b[i + 100*t + 100] if 0 <= i + 100*t + 100 < 8 else 0) * w[t]
          stage o[i] = a[i]
          output y[i] = o[i]
          output z[j] = b[j]
        }";
    let kernel: Kernel = text.parse().expect("a kernel");
    let steps = "compute a at o.i; compute b at a.t; skip a.t";
    let error = apply(&kernel, &steps.parse().expect("steps")).expect_err("an output").to_string();
    assert!(error.contains("it is computed inside of loop `t`, which leaves out turns"), "{error}");
}

/// By hand, also where a loop over taps is cut, or turns are written out.
#[test]
fn loops_of_all_kinds_leave_turns_out() {
    let kernel = dilated([12, 10], 3, 8, 1, false);
    let inputs = random_inputs(&kernel, &[], 4);
    let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
    for steps in [
        "skip a.r; skip a.s",
        "split o.p by 5 -> po, pi; compute a at o.po; skip a.r",
        "split a.r by 2 -> ro, ri; skip a.ro; skip a.ri",
        "unroll a.r; skip a.r; skip a.s",
        "reorder a: r, s, p, q, n, c; skip a.r; skip a.s",
    ] {
        let found = run_by(&kernel, &steps.parse().expect("steps"), &[], &inputs);
        assert_same(steps, &found, &expected);
    }
}
