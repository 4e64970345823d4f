//! What a loop reads is copied ahead of it.

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::verify::verify_nest;
use infc_passes::schedule::apply;
use infc_testkit::{assert_close, random_inputs, run_nest_of};

/// A product whose left factor comes by way of a tile.
pub(crate) fn tiled() -> Kernel {
    let text = "kernel @tiled(x: f16[6, 32], w: f16[32, 5]) -> (y: f32[6, 5]) {
          stage t[m: 6, k: 32] = x[m, k]
          stage s[m: 6, n: 5, reduce k: 32] = fold sum f32(t[m, k]) * f32(w[k, n])
          stage o[m, n] = s[m, n]
          output y[m, n] = o[m, n]
        }";
    text.parse().expect("well formed")
}

const STREAMED: &str = "split s.k by 8 -> ko, ki; reorder s: ko, m, n, ki; compute t at s.ko; store t in shared; \
     split t.k by 8 -> kp, kv; vectorize t.kv; stream t by 2";

#[test]
fn tiles_are_copied_ahead() {
    let kernel = tiled();
    // One turn ahead of four, two, and more than there are.
    for ahead in [1, 2, 5] {
        let steps = STREAMED.replace("by 2", &format!("by {ahead}"));
        let nest = apply(&kernel, &steps.parse().expect("it parses")).expect("it applies");
        verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        let text = nest.to_string();
        assert!(text.contains("copy 8 from x") && text.contains(&format!("wait {}\n", ahead - 1)), "{text}");
        assert_eq!(text.matches("commit").count(), ahead + 1, "{text}");
        let inputs = random_inputs(&kernel, &[], 3);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it can be interpreted");
        let found = run_nest_of(&kernel, &nest, &[], &inputs).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        assert_close("tiled", &found, &expected, 1e-6, 1e-6);
    }
}

/// The rows that a turn reads are known better for a turn that is a number: copies and readers still mean the same place.
#[test]
fn tiles_that_begin_at_quotients_are_copied_to_where_they_are_read() {
    let text = "kernel @tiled(x: f32[8, 8], w: f32[40, 4]) -> (y: f32[8, 4]) {
          stage t[j: 8, n: 8] = x[j, n]
          stage s[n: 8, m: 4, reduce k: 40] = fold sum t[div(k, 5), n] * w[k, m]
          stage o[n, m] = s[n, m]
          output y[n, m] = o[n, m]
        }";
    let kernel: Kernel = text.parse().expect("well formed");
    for ahead in [1, 2, 3] {
        let steps = format!(
            "split s.k by 8 -> ko, ki; reorder s: ko, n, m, ki; compute t at s.ko; store t in shared; \
             split t.n by 4 -> np, nv; vectorize t.nv; stream t by {ahead}"
        );
        let nest = apply(&kernel, &steps.parse().expect("it parses")).expect("it applies");
        verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        let inputs = random_inputs(&kernel, &[], 3);
        let expected = run_kernel(&kernel, &[], &inputs).expect("it can be interpreted");
        let found = run_nest_of(&kernel, &nest, &[], &inputs).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        assert_close("tiled", &found, &expected, 1e-6, 1e-6);
    }
}

#[test]
fn what_cannot_be_copied_ahead_is_refused() {
    let kernel = tiled();
    for (from, to, why) in [
        ("stream t by 2", "stream t by 0", "1 to 8 turns ahead"),
        ("stream t by 2", "stream t by 9", "1 to 8 turns ahead"),
        ("split s.k by 8", "split s.k by 12", "without a remainder"),
        ("store t in shared", "store t in scratch", "in shared memory"),
        ("vectorize t.kv; ", "", "aligned pieces"),
        ("split t.k by 8", "split t.k by 1", "aligned pieces"),
        ("compute t at s.ko", "compute t at s.m", "a reduction's serial loop"),
        ("compute t at s.ko; store t in shared; ", "", "at a loop of its reader"),
    ] {
        let steps = STREAMED.replace(from, to);
        let steps = if to.ends_with("s.m") {
            steps.replace("reorder s: ko, m, n, ki", "reorder s: m, ko, n, ki")
        } else {
            steps
        };
        let error = apply(&kernel, &steps.parse().expect("it parses")).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
}
