//! Softmax and what it weighs in blocks of keys: the same values, at whatever number of keys.

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::verify::verify_kernel;
use infc_passes::formulate::online::online;
use infc_tensor::Tensor;
use infc_testkit::{assert_close, random_inputs};

/// Attention of 3 heads, of as many columns as values have: scores are scaled and masked by what is given.
fn attention(rows: &str, keys: &str, score: &str, operands: &str) -> Kernel {
    let symbols: Vec<String> = [rows, keys]
        .into_iter()
        .filter(|size| size.starts_with(char::is_alphabetic))
        .map(|name| format!("{name} in 1..=128"))
        .collect();
    let clause = if symbols.is_empty() { String::new() } else { format!("where {} ", symbols.join(", ")) };
    let at = |axes: [&str; 3]| {
        let [c, h, w] = axes;
        score.replace("SUM", &format!("sum0[{c}, {h}, {w}]")).replace("ROW", h).replace("KEY", w)
    };
    let text = format!(
        "kernel @attention(q: f32[{rows}, 24], k: f32[3, 8, {keys}], v: f32[{keys}, 30]{operands}) -> (y: f32[{rows}, 30]) {clause}{{
  stage sum0[c: 3, h: {rows}, w: {keys}, reduce k: 8] = fold sum q[h, 8*c + k] * k[c, k, w]
  stage fold1[m: 3, n: {rows}, reduce r: {keys}] = fold max {}
  stage map2[c, h, w] = exp({} - fold1[c, h])
  stage fold3[n, m, reduce r] = fold sum map2[m, n, r]
  stage sum4[h, c, e: 10, reduce l: {keys}] = fold sum map2[c, h, l] * v[l, 10*c + e]
  stage out5[h, c, e] = sum4[h, c, e] / fold3[h, c] + 1
  output y[h, 10*c + e] = out5[h, c, e]
}}
",
        at(["m", "n", "r"]),
        at(["c", "h", "w"])
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[track_caller]
fn in_blocks(kernel: &Kernel, points: i64) -> Kernel {
    let new = online(kernel, points).unwrap_or_else(|| panic!("not rewritten\n{kernel}")).kernel;
    verify_kernel(&new).unwrap_or_else(|e| panic!("{e}\n{new}"));
    let again: Kernel = new.to_string().parse().unwrap_or_else(|e| panic!("{e}\n{new}"));
    assert_eq!(again.to_string(), new.to_string());
    new
}

#[track_caller]
fn agrees(kernel: &Kernel, symbols: &[i64], inputs: &[Tensor]) {
    agrees_within(1e-5, kernel, symbols, inputs);
}

#[track_caller]
fn agrees_within(bound: f64, kernel: &Kernel, symbols: &[i64], inputs: &[Tensor]) {
    for points in [1, 4, 16] {
        let new = in_blocks(kernel, points);
        let [expected, found] = [kernel, &new]
            .map(|kernel| run_kernel(kernel, symbols, inputs).unwrap_or_else(|e| panic!("{e}\n{kernel}")));
        assert_close(&format!("{points} keys at a time\n{new}"), &found, &expected, bound, bound);
    }
}

#[test]
fn whole_and_ragged_blocks() {
    for keys in ["16", "17", "3", "31"] {
        let kernel = attention("5", keys, "SUM * 0.35", "");
        agrees(&kernel, &[], &random_inputs(&kernel, &[], 3));
        let of_mask = format!(", mask: f32[{keys}]");
        let kernel = attention("4", keys, "SUM * 0.35 + mask[KEY]", &of_mask);
        agrees(&kernel, &[], &random_inputs(&kernel, &[], 4));
    }
}

#[test]
fn sizes_that_only_a_run_tells() {
    let kernel = attention("S", "L", "select(inbounds(0 <= ROW - KEY < 256), SUM, -3.4028235e38)", "");
    for (rows, keys) in [(1, 1), (5, 5), (40, 33), (2, 16)] {
        agrees(&kernel, &[rows, keys], &random_inputs(&kernel, &[rows, keys], 5));
    }
}

/// Scores that are a stage of their own, which the maximum and the exponentials read.
#[test]
fn scores_apart() {
    let text = attention("5", "17", "SUM * 0.35", "").to_string();
    let text = text
        .replace(
            "  stage fold1",
            "  stage map1[c: 3, h: 5, w: 17] = sum0[c, h, w] / 2.5 - sum0[c, h, w] * 0.1\n  stage fold1",
        )
        .replace("fold max sum0[m, n, r] * 0.35", "fold max map1[m, n, r]")
        .replace("exp(sum0[c, h, w] * 0.35", "exp(map1[c, h, w]");
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(kernel.stages.len(), 7);
    agrees(&kernel, &[], &random_inputs(&kernel, &[], 7));
}

/// Exponentials of which those that are no normal numbers are 0: so they are in blocks, below each block's maximum.
#[test]
fn normal_weights() {
    let text = attention("5", "17", "SUM * 40", "").to_string();
    let exponent = "sum0[c, h, w] * 40 - fold1[c, h]";
    assert!(text.contains(&format!("exp({exponent})")), "{text}");
    let normal = |least: &str, bound: &str| {
        let bounded = format!(
            "
    let v0 = {exponent};
    let v1 = v0 < {least};
    select(v1, 0, exp(select(v1, {bound}, v0)))"
        );
        let text = text.replace(&format!("exp({exponent})"), &bounded);
        text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let kernel = normal("-87.5", "-87.5");
    agrees(&kernel, &[], &random_inputs(&kernel, &[], 9));
    assert!(in_blocks(&kernel, 4).to_string().contains("< -87.5"), "{}", in_blocks(&kernel, 4));
    // Of another number it would be something else.
    assert!(online(&normal("-87.5", "-80"), 4).is_none());
    // What shows must be held against the maximum of the row.
    assert!(online(&normal("-1", "-1"), 4).is_none());
}

/// Exponentials that are rounded to halves, which is another rounding for each block's maximum: they are kept as halves.
#[test]
fn rounded_weights() {
    for (half, bound) in [("f16", 1e-3), ("bf16", 1e-2)] {
        let text = attention("5", "17", "SUM * 0.35", "").to_string();
        let exponential = "exp(sum0[c, h, w] * 0.35 - fold1[c, h])";
        assert!(text.contains(exponential), "{text}");
        let text = text.replace(exponential, &format!("f32({half}({exponential}))"));
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        agrees_within(bound, &kernel, &[], &random_inputs(&kernel, &[], 8));
        let stored = format!(" = {half}(exp(");
        assert!(in_blocks(&kernel, 4).to_string().contains(&stored), "{}", in_blocks(&kernel, 4));
    }
}

/// Rows of which nothing, or nothing of a block, takes part; infinite and undefined scores.
#[test]
fn what_a_mask_leaves() {
    let kernel = attention("4", "9", "SUM + mask[ROW, KEY]", ", mask: f32[4, 9]");
    let mut inputs = random_inputs(&kernel, &[], 6);
    let mask = inputs[3].elements_mut::<f32>().expect("floats");
    let (no, lowest) = (f32::NEG_INFINITY, f32::MIN);
    mask.copy_from_slice(&[[no; 9], [no, no, no, no, no, 0.0, 0.0, no, no], [0.0; 9], [lowest; 9]].concat());
    (mask[20], mask[22]) = (f32::INFINITY, f32::NAN);
    agrees(&kernel, &[], &inputs);
}

/// What is no softmax, or more than one sum of it, stays.
#[test]
fn what_stays() {
    let kernel = attention("4", "9", "SUM", "");
    assert!(online(&kernel, 4).is_some());
    let text = kernel.to_string();
    for (from, to) in [
        ("fold max sum0[m, n, r]", "fold max sum0[m, n, r] * 2"),
        ("fold max", "fold min"),
        ("fold max", "fold max(0)"),
        ("exp(sum0[c, h, w] - fold1[c, h])", "exp(fold1[c, h] - sum0[c, h, w])"),
        ("/ fold3[h, c]", "/ fold3[h, 2 - c]"),
        ("/ fold3[h, c]", "/ fold3[h, c] + fold1[c, h]"),
        ("fold sum map2[m, n, r]", "fold sum map2[m, n, r] * map2[m, n, r]"),
    ] {
        assert!(text.contains(from), "{text}");
        let changed: Kernel = text.replace(from, to).parse().unwrap_or_else(|e| panic!("{e}"));
        assert!(online(&changed, 4).is_none(), "{changed}");
    }
}
