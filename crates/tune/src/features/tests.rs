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

/// Features for a GPU by name.
fn of_gpu(text: &str, schedule: &str) -> impl Fn(&str) -> f64 + use<> {
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let nest = apply(&kernel, &schedule.parse().expect("a schedule")).unwrap_or_else(|e| panic!("{e}"));
    let all = gpu_features(&nest, &infc_passes::schedule::gpu::GpuMachine::default());
    assert_eq!(all.len(), GPU_FEATURE_NAMES.len());
    assert!(all.iter().all(|feature| feature.is_finite()), "{all:?}");
    move |name: &str| all[GPU_FEATURE_NAMES.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}"))]
}

#[test]
fn warps_ask_for_sectors() {
    let twice = |step: u32| {
        format!(
            "kernel @twice(x: f32[{}]) -> (y: f32[4096]) {{
  stage o[n: 4096] = x[{step}*n] + x[{step}*n]
  output y[n] = o[n]
}}",
            step * 4096
        )
    };
    let spread = "split o.n by 128 -> b, t; bind o.b to block.x; bind o.t to thread.x";
    let near = of_gpu(&twice(1), spread);
    assert_eq!((count(near("blocks")), count(near("threads of a block"))), (32.0, 128.0));
    // A load, whose value is used twice, and a store, of 32 neighbours of four bytes each.
    assert_eq!(
        ["memory accesses of a thread", "sectors of a warp's access"].map(|name| count(near(name)).round()),
        [2.0, 4.0]
    );
    assert!((count(near("bytes of all sectors")) - 2.0 * 4.0 * 32.0 * 128.0).abs() < 1.0);
    let far = of_gpu(&twice(8), spread);
    assert_eq!(count(far("sectors of a warp's access")).round(), 18.0);
}

#[test]
fn blocks_share_memory_and_meet() {
    let kernel: Kernel = PRODUCT.parse().expect("a kernel");
    let machine = infc_passes::schedule::gpu::GpuMachine::default();
    let schedule = infc_passes::schedule::gpu::choose(&kernel, &machine, infc_passes::ErrorClass::Reassociating);
    let of = of_gpu(PRODUCT, &schedule.to_string());
    assert!(count(of("shared bytes")).round() >= 2.0 * 16.0 * 64.0 * 4.0, "{schedule}");
    assert!(count(of("barriers")) >= 2.0 && count(of("shared accesses of a thread")) > 16.0, "{schedule}");
    assert!((count(of("arithmetic of all")) / (64.0 * 64.0 * 32.0) - 1.0).abs() < 0.5, "{schedule}");
    assert_eq!(count(of("matrix instructions of all")), 0.0);

    let halves = "kernel @p(a: f16[64, 64], const b: f16[64, 64]) -> (y: f32[64, 64]) {
  stage c[m: 64, n: 64, reduce k: 64] = fold sum f32(a[m, k]) * f32(b[k, n])
  stage g[m, n] = c[m, n]
  output y[m, n] = g[m, n]
}";
    let kernel: Kernel = halves.parse().expect("a kernel");
    let schedule = infc_passes::schedule::gpu::choose(&kernel, &machine, infc_passes::ErrorClass::Reassociating);
    let of = of_gpu(halves, &schedule.to_string());
    // 16×8 points and 16 of the sum each.
    assert_eq!(count(of("matrix instructions of all")).round(), 64.0 * 64.0 * 64.0 / (16.0 * 8.0 * 16.0), "{schedule}");
    assert!(count(of("copies of a thread")) > 0.0 && count(of("bytes of a copy")) >= 8.0, "{schedule}");
}
