//! Features of schedules by hand, whose counts are known.

use super::*;
use infc_ir::kernel::Kernel;
use infc_passes::schedule::apply;

const PRODUCT: &str =
    "kernel @product(a: f32[M, K], const b: f32[K, N]) -> (y: f32[M, N]) where M = 64, N = 64, K = 32 {
  stage c[m: M, n: N, reduce k: K] = fold sum a[m, k] * b[k, n]
  stage g[m, n] = c[m, n]
  output y[m, n] = g[m, n]
}";

fn machine() -> Machine {
    infc::schedule_machine(&"x86-64-v4".parse().expect("a target"))
}

/// Features by name.
fn of(schedule: &str) -> impl Fn(&str) -> f64 + use<> {
    let kernel: Kernel = PRODUCT.parse().expect("a kernel");
    let schedule = schedule.parse().expect("a schedule");
    let nest = apply(&kernel, &schedule).expect("it applies");
    let all = features(&nest, &machine());
    assert_eq!(all.len(), FEATURE_NAMES.len());
    assert!(all.iter().all(|feature| feature.is_finite()), "{all:?}");
    move |name: &str| all[FEATURE_NAMES.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}"))]
}

/// What a logarithm stands for.
fn count(log: f64) -> f64 {
    log.exp2() - 1.0
}

#[test]
fn lanes_divide_arithmetic() {
    let plain = of("");
    let lanes = of("split c.n by 16 -> no, ni; reorder c: m, no, k, ni; vectorize c.ni");
    let (slow, quick) = (count(plain("arithmetic")), count(lanes("arithmetic")));
    // A multiply-add per point, and the copy to the output, which counts a tenth.
    assert!((slow - 64.0 * 64.0 * 32.0).abs() < 3000.0, "{slow}");
    assert!((quick - slow / 16.0).abs() < 600.0, "{quick}");
    assert!(count(lanes("broadcasts")) > 64.0 * 4.0 * 32.0 - 1.0 && plain("gathered lanes") == 0.0);
    assert!((lanes("lanes in use") - 1.0).abs() < 0.1 && plain("lanes in use") < 0.1);
}

#[test]
fn tiles_share_loads_and_break_chains() {
    let tile = |rows: u32| {
        let tiled = |stage: &str| format!("split {stage}.m by {rows} -> mo, mi; split {stage}.n by 16 -> no, ni");
        of(&format!(
            "{}; reorder c: mo, no, k, mi, ni; unroll c.mi; vectorize c.ni; {}; reorder g: mo, no, mi, ni; unroll g.mi; \
             vectorize g.ni; compute c at g.no; store c in register",
            tiled("c"),
            tiled("g")
        ))
    };
    let (one, eight, forty) = (tile(1), tile(8), tile(40));
    assert_eq!((one("accumulators"), eight("accumulators"), forty("accumulators")), (1.0, 8.0, 40.0));
    assert!(count(eight("loads")) < 0.7 * count(one("loads")), "{} {}", count(eight("loads")), count(one("loads")));
    assert!(count(eight("chain cycles")) < count(one("chain cycles")) / 7.0);
    assert!(eight("registers beyond those there are") == 0.0 && forty("registers beyond those there are") >= 8.0);
    assert!(eight("spilled work") == 0.0 && forty("spilled work") > 0.0);
}

/// All of a product that fits a cache is brought in once; if not even a row of it fits, again and again.
#[test]
fn caches_bound_traffic() {
    let kernel: Kernel = PRODUCT.parse().expect("a kernel");
    let nest = apply(&kernel, &Default::default()).expect("it applies");
    let beyond_l1 = |l1_bytes: u64| {
        let all = features(&nest, &Machine { l1_bytes, ..machine() });
        count(all[FEATURE_NAMES.iter().position(|n| *n == "bytes beyond L1").expect("a feature")])
    };
    let whole = 64.0 * 32.0 * 4.0 + 32.0 * 64.0 * 4.0 + 64.0 * 64.0 * 4.0;
    assert!(beyond_l1(1 << 20) <= 2.1 * whole, "{} of {whole}", beyond_l1(1 << 20));
    assert!(beyond_l1(4 << 10) > 4.0 * beyond_l1(1 << 20), "{}", beyond_l1(4 << 10));
}
