//! What nests are counted to cost.

use crate::support::machine;
use infc_ir::kernel::Kernel;
use infc_passes::schedule::{NestCost, apply};

/// What a kernel costs by a schedule on vectors of 16 floats, where all symbols are 40.
fn cost(kernel: &str, schedule: &str) -> NestCost {
    let kernel: Kernel = kernel.parse().unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let schedule = schedule.parse().expect("a schedule");
    let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
    NestCost::of(&nest, &machine(64, 32), &|_| 40)
}

/// A product of so many rows.
fn product(rows: &str) -> NestCost {
    let symbols = if rows.parse::<i64>().is_ok() { String::new() } else { format!(" where {rows} in 1..=1000") };
    let kernel = format!(
        "kernel @product(a: f32[{rows}, 32], const b: f32[32, 64]) -> (y: f32[{rows}, 64]){symbols} {{
  stage c[m: {rows}, n: 64, reduce k: 32] = fold sum a[m, k] * b[k, n]
  stage g[m, n] = c[m, n]
  output y[m, n] = g[m, n]
}}"
    );
    let tiled = |stage: &str| format!("split {stage}.m by 8 -> mo, mi; split {stage}.n by 16 -> no, ni");
    let schedule = format!(
        "{}; reorder c: mo, no, k, mi, ni; unroll c.mi; vectorize c.ni; {}; reorder g: mo, no, mi, ni; unroll g.mi; \
         vectorize g.ni; compute c at g.no; store c in register; parallel g: mo",
        tiled("c"),
        tiled("g")
    );
    cost(&kernel, &schedule)
}

/// Rows that fill no tile are a branch of their own, which one turn takes.
#[test]
fn branches_count_as_often_as_they_are_taken() {
    let per_row = product("64").arithmetic / 64.0;
    for rows in [65, 67, 71] {
        let found = product(&rows.to_string()).arithmetic / f64::from(rows);
        assert!((found / per_row - 1.0).abs() < 0.02, "{rows} rows: {found} for one, {per_row} in whole tiles");
    }
    let [whole, ragged] = ["64", "65"].map(|rows| product(rows).beyond_l1);
    assert!(ragged < 1.3 * whole, "{ragged}, {whole}");
    // What a size of the run says decides how many turns there are.
    let found = product("M").arithmetic / 40.0;
    assert!((found / per_row - 1.0).abs() < 0.02, "{found} for one of 40 rows, {per_row} in whole tiles");
}

/// Turns that choose by their number have one side each, and what several of them compute is there once.
#[test]
fn unrolled_turns_share_what_is_alike() {
    let kernel = "kernel @choice(x: f32[64]) -> (y: f32[64, 4]) {
  stage o[m: 64, n: 4] = select(index(n) == 0, exp(x[m]), select(index(n) == 1, exp(x[m]) + 1, x[m] * 3))
  output y[m, n] = o[m, n]
}";
    let of = |schedule: &str| cost(kernel, schedule).arithmetic;
    let (rolled, unrolled) = (of(""), of("unroll o.n"));
    // An exponential, an addition and a product for all four, instead of all three and what chooses for each.
    assert!(unrolled < rolled / 3.0, "{unrolled} of {rolled}");
    assert!(unrolled >= 64.0 * 15.0, "{unrolled}: an exponential per row");
}
