//! Steps that change axes and stages, which schedules for GPUs begin with: what they compute on the interpreter of loop nests, and
//! what they refuse. Steps that processors take have tests of their own.

use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_ir::verify::verify_kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, apply_within, rewritten};
use infc_testkit::{assert_close, assert_same, random_inputs, run_nest_of};

const PRODUCT: &str =
    "kernel @product(a: f32[M, K], const b: f32[K, 6]) -> (y: f32[M, 6]) where M in 1..=9, K in 1..=40 {
  stage s[m: M, n: 6, reduce k: K] = fold sum a[m, k] * b[k, n]
  stage o[m, n] = max(s[m, n], 0)
  output y[m, n] = o[m, n]
}";

fn parsed(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The kernel as steps leave it, and what its loops compute, for some extents.
fn changed(
    kernel: &Kernel,
    steps: &str,
    mut check: impl FnMut(&str, &[infc_tensor::Tensor], &[infc_tensor::Tensor]),
) -> Kernel {
    let schedule: Schedule = steps.parse().unwrap_or_else(|e| panic!("{e}\n{steps}"));
    let new = rewritten(kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    verify_kernel(&new).unwrap_or_else(|e| panic!("{e}\n{new}"));
    let nest = apply(kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{new}"));
    for symbols in infc_testkit::symbol_choices(kernel) {
        let inputs = random_inputs(kernel, &symbols, 5);
        let expected = run_kernel(kernel, &symbols, &inputs).expect("it runs");
        let found = run_nest_of(&new, &nest, &symbols, &inputs).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        check(&format!("{symbols:?}, {steps}\n{new}"), &found, &expected);
    }
    new
}

#[track_caller]
fn refused(kernel: &Kernel, steps: &str) -> String {
    apply(kernel, &steps.parse().expect("it parses")).expect_err(steps).to_string()
}

#[test]
fn reductions_are_folded_in_parts() {
    let kernel = parsed(PRODUCT);
    for parts in [1, 3, 8, 64] {
        let steps = format!("rfactor s.k by {parts} -> p, part");
        let new = changed(&kernel, &steps, |place, found, expected| assert_close(place, found, expected, 1e-5, 1e-5));
        assert_eq!(new.stages.iter().map(|stage| &*stage.name).collect::<Vec<_>>(), ["p", "s", "o"]);
        assert_eq!(new.stages.iter().map(|stage| stage.axes.len()).collect::<Vec<_>>(), [4, 3, 2]);
    }
    // Folded twice, and of a largest element nobody sees the order.
    let twice = "rfactor s.k by 8 -> p, part; rfactor s.part by 2 -> q, part2";
    changed(&kernel, twice, |place, found, expected| assert_close(place, found, expected, 1e-5, 1e-5));
    let largest = parsed(&PRODUCT.replace("fold sum", "fold max"));
    changed(&largest, "rfactor s.k by 8 -> p, part", |place, found, expected| assert_same(place, found, expected));

    let exact = |kernel: &Kernel| {
        apply_within(kernel, &"rfactor s.k by 8 -> p, part".parse().expect("it parses"), ErrorClass::Exact).map(drop)
    };
    assert!(exact(&largest).is_ok());
    assert!(exact(&kernel).expect_err("an order").to_string().contains("another order"));
    assert!(refused(&kernel, "rfactor s.m by 8 -> p, part").contains("must be reduced"));
    assert!(refused(&kernel, "rfactor s.k by 0 -> p, part").contains("must be 1 to"));
    assert!(refused(&kernel, "rfactor s.k by 100000 -> p, part").contains("must be 1 to"));
    assert!(refused(&kernel, "rfactor s.k by 8 -> o, part").contains("a name of its own"));
    assert!(refused(&kernel, "rfactor s.k by 8 -> p, m").contains("a name of its own"));
    assert!(refused(&infc_testkit::kernel("lstm"), "rfactor gates.k by 8 -> p, part").starts_with("step"));
}

#[test]
fn sums_of_products_end_in_zeros() {
    let kernel = parsed(PRODUCT);
    let new = changed(&kernel, "pad s.k to 16", |place, found, expected| assert_same(place, found, expected));
    assert!(new.to_string().contains("reduce k: 16*div(K + 15, 16)"), "{new}");
    assert!(refused(&kernel, "pad s.n to 16").contains("must sum products"));
    // Exponentials of nothing are ones; a factor that does not move along the axis may be infinite.
    let exponentials = parsed(&PRODUCT.replace("a[m, k] * b[k, n]", "exp(a[m, k]) * b[k, n]"));
    assert!(refused(&exponentials, "pad s.k to 16").contains("must sum products"));
    let still = parsed(&PRODUCT.replace("b[k, n]", "b[0, n]"));
    assert!(refused(&still, "pad s.k to 16").contains("move along it"));
    let largest = parsed(&PRODUCT.replace("fold sum", "fold max"));
    assert!(refused(&largest, "pad s.k to 16").contains("must sum products"));
}

#[test]
fn loads_become_stages() {
    let kernel = parsed(PRODUCT);
    let steps = "cache s load 1 -> right; cache s load 0 -> left";
    let new = changed(&kernel, steps, |place, found, expected| assert_same(place, found, expected));
    assert_eq!(new.stages.iter().map(|stage| &*stage.name).collect::<Vec<_>>(), ["right", "left", "s", "o"]);
    assert!(refused(&kernel, "cache s load 2 -> t").contains("no such load"));
    assert!(refused(&kernel, "cache s load 0 -> o").contains("a name of its own"));
    let rows = infc_testkit::kernel("embedding");
    let reader = &rows.stages.iter().next().expect("a stage").name;
    assert!((0..2).any(|n| {
        let steps = format!("cache {reader} load {n} -> t").parse().expect("it parses");
        apply(&rows, &steps).is_err_and(|error| error.to_string().contains("not where data says"))
    }));
}

#[test]
fn what_is_rounded_is_rounded_wherever_it_is_used() {
    let kernel = parsed(PRODUCT);
    let new = changed(&kernel, "round s load 0; round s load 1", |place, found, expected| {
        assert_close(place, found, expected, 5e-3, 5e-3);
    });
    assert_eq!(new.to_string().matches("tf32(").count(), 2, "{new}");
    let halves = parsed(&PRODUCT.replace("a: f32", "a: f16").replace("a[m, k]", "f32(a[m, k])"));
    assert!(refused(&halves, "round s load 0").contains("must be of f32"));
}

#[test]
fn results_of_one_point_get_a_loop() {
    let kernel = parsed(
        "kernel @total(x: f32[N]) -> (y: f32[1]) where N in 1..=40 {
  stage t[reduce k: N] = fold sum x[k]
  stage o[] = sqrt(abs(t[]))
  output y[0] = o[]
}",
    );
    changed(&kernel, "single o -> only; unroll o.only", |place, found, expected| assert_same(place, found, expected));
    assert!(refused(&kernel, "single t -> only").contains("nobody read it"));
    assert!(refused(&parsed(PRODUCT), "single o -> only").contains("no parallel axes"));
}

#[test]
fn attention_goes_through_keys_in_blocks() {
    let text =
        "kernel @attention(q: f32[20, 32], k: f32[2, 16, L], v: f32[L, 32]) -> (y: f32[20, 32]) where L in 1..=40 {
  stage sum0[c: 2, h: 20, w: L, reduce k: 16] = fold sum q[h, 16*c + k] * k[c, k, w]
  stage fold1[m: 2, n: 20, reduce r: L] = fold max sum0[m, n, r]
  stage map2[c, h, w] = exp(sum0[c, h, w] - fold1[c, h])
  stage fold3[n, m, reduce r] = fold sum map2[m, n, r]
  stage sum4[h, c, e: 16, reduce l: L] = fold sum map2[c, h, l] * v[l, 16*c + e]
  stage out5[h, c, e] = sum4[h, c, e] / fold3[h, c]
  output y[h, 16*c + e] = out5[h, c, e]
}";
    let kernel = parsed(text);
    for keys in [1, 8, 64] {
        let steps = format!("online by {keys}");
        changed(&kernel, &steps, |place, found, expected| assert_close(place, found, expected, 1e-5, 1e-5));
    }
    let online = "online by 8".parse().expect("it parses");
    assert!(apply_within(&kernel, &online, ErrorClass::Exact).is_err_and(|e| e.to_string().contains("another order")));
    assert!(refused(&parsed(PRODUCT), "online by 8").contains("does not begin with attention"));
    assert!(refused(&kernel, "online by 0").contains("must be 1 to"));
}

/// Whoever writes a schedule may fold what was folded again and again: indices stay numbers that there are.
#[test]
fn parts_of_parts_end() {
    let kernel = parsed(&PRODUCT.replace("K in 1..=40", "K in 1..=1000000000000"));
    for parts in [2, 1024] {
        let steps = format!("rfactor s.k by {parts} -> p, part; rfactor p.k by {parts} -> q, part2");
        assert!(refused(&kernel, &steps).contains("is so once"), "{steps}");
    }
    // As one part they may be once: what a thread sums, and a copy of it.
    apply(&kernel, &"rfactor s.k by 16 -> p, part; rfactor p.k by 1 -> q, part2".parse().expect("it parses"))
        .expect("a copy is no more parts");
    for again in ["rfactor p.part2 by 1 -> r, part3", "rfactor q.k by 1 -> r, part3", "rfactor q.k by 2 -> r, part3"] {
        let steps = format!("rfactor s.k by 16 -> p, part; rfactor p.k by 1 -> q, part2; {again}");
        assert!(refused(&kernel, &steps).contains("is so once"), "{steps}");
    }
    // What folds the parts may be folded again and again: there are no more of them than before.
    let mut steps = String::from("rfactor s.k by 1024 -> p, part");
    for n in 1..9 {
        let axis = if n == 1 { "part".to_owned() } else { format!("part{}", n - 1) };
        steps += &format!("; rfactor s.{axis} by 1024 -> q{n}, part{n}");
    }
    apply(&kernel, &steps.parse().expect("it parses")).expect("numbers stay small");
    let mut steps = String::from("pad s.k to 1024");
    for n in 1..9 {
        steps += &format!("; pad s.k to {}", 1024 - n);
    }
    apply(&kernel, &steps.parse().expect("it parses")).expect("lengths are added to, not multiplied");
}
