//! Reductions by blocks that have several rows side by side: whole and ragged sizes through the simulator, what a warp reads, and
//! barriers without which it is not right.

mod assembler;
mod compiled;
mod device;

use compiled::{Compiled, agrees, compile};
use device::execute;
use infc_codegen_ptx::emit;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_testkit::random_inputs;

fn parse(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A product with one row on the left, whose weights lie row by row.
fn one_row(depth: i64, columns: i64) -> Kernel {
    parse(&format!(
        "kernel @one_row(x: f32[1, {depth}], const w: f32[{depth}, {columns}], const b: f32[{columns}]) -> (y: f32[1, {columns}]) {{
  stage s[m: 1, n: {columns}, reduce k: {depth}] = fold sum x[m, k] * w[k, n]
  stage res[m, n] = max(s[m, n] + b[n], 0)
  output y[m, n] = res[m, n]
}}
"
    ))
}

/// The same with halves in panels.
fn panels(depth: i64, columns: i64) -> Kernel {
    let panels = (columns + 15) / 16;
    parse(&format!(
        "kernel @panels(x: f16[1, {depth}], const w: f16[{panels}, {depth}, 16]) -> (y: f32[1, {columns}]) {{
  stage s[m: 1, n: {columns}, reduce k: {depth}] = fold sum f32(x[m, k]) * f32(w[div(n, 16), k, mod(n, 16)])
  stage res[m, n] = s[m, n]
  output y[m, n] = res[m, n]
}}
"
    ))
}

/// The largest of each channel's places, and a function of the channels at every place.
fn channels(places: i64, channels: i64) -> Kernel {
    parse(&format!(
        "kernel @channels(x: f32[N, {places}, {channels}]) -> (y: f32[N, {channels}]) where N in 1..=8 {{
  stage s[n: N, c: {channels}, reduce p: {places}] = fold max x[n, p, c]
  stage res[n, c] = s[n, c]
  output y[n, c] = res[n, c]
}}
"
    ))
}

/// A softmax whose axis is not the last: threads of a block share the sums of their columns.
fn across(classes: i64, places: i64) -> Kernel {
    parse(&format!(
        "kernel @across(x: f32[{classes}, {places}]) -> (y: f32[{classes}, {places}]) {{
  stage most[p: {places}, reduce c: {classes}] = fold max x[c, p]
  stage s[p: {places}, reduce c: {classes}] = fold sum exp(x[c, p] - most[p])
  stage res[c: {classes}, p: {places}] = exp(x[c, p] - most[p]) / s[p]
  output y[c, p] = res[c, p]
}}
"
    ))
}

fn text(compiled: &Compiled) -> &str {
    &compiled.module.as_ref().unwrap_or_else(|e| panic!("{e}\n{}\n{}", compiled.schedule, compiled.nest)).text
}

/// The points along an axis that a block has, by its schedule.
fn has_tile(compiled: &Compiled, root: &str, axis: &str, points: i64) -> bool {
    compiled.schedule.contains(&format!("split {root}.{axis} by {points} -> {axis}_b, {axis}_i"))
}

#[test]
fn columns_side_by_side_are_one_blocks() {
    // As many columns as 128 bytes hold if blocks are enough, else 32 bytes.
    for (columns, tile) in [(8192, 32), (2304, 16), (768, 8), (200, 8)] {
        let compiled = compile(&one_row(64, columns), ErrorClass::Reassociating);
        assert!(has_tile(&compiled, "res", "n", tile), "{columns}: {}", compiled.schedule);
    }
    for (depth, columns) in [(64, 200), (7, 33), (1, 9), (131, 40), (300, 17), (2048, 8), (520, 51)] {
        let kernel = one_row(depth, columns);
        let compiled = compile(&kernel, ErrorClass::Reassociating);
        agrees(&format!("{depth} x {columns}"), &kernel, &compiled, &[], 1e-5);
        let kernel = panels(depth, columns);
        let compiled = compile(&kernel, ErrorClass::Reassociating);
        agrees(&format!("panels, {depth} x {columns}"), &kernel, &compiled, &[], 1e-4);
    }
}

#[test]
fn channels_and_classes_are_threads_side_by_side() {
    for (places, width) in [(49, 96), (64, 40), (200, 33), (9, 8), (1, 20)] {
        let kernel = channels(places, width);
        let compiled = compile(&kernel, ErrorClass::Exact);
        for batch in [1, 3] {
            agrees(&format!("{places} places, {width} channels, {batch}"), &kernel, &compiled, &[batch], 0.0);
        }
        let kernel = across(places, width);
        let compiled = compile(&kernel, ErrorClass::Reassociating);
        assert!(places == 1 || has_tile(&compiled, "res", "p", 8), "{}", compiled.schedule);
        agrees(&format!("{places} classes at {width}"), &kernel, &compiled, &[], 1e-5);
    }
}

/// Columns of the last panel that there are none of are read where it has them, and never written: vectors without conditions.
#[test]
fn columns_that_end_within_a_panel() {
    let kernel = panels(768, 51);
    let compiled = compile(&kernel, ErrorClass::Reassociating);
    let loads: Vec<&str> = text(&compiled).lines().filter(|line| line.contains("ld.global.nc")).collect();
    assert!(!loads.is_empty(), "{}", compiled.schedule);
    assert!(loads.iter().all(|line| line.trim_start().starts_with("ld.global.nc.v4.b16")), "{loads:?}");
}

/// What lies along the sum has a warp for itself, as before.
#[test]
fn sums_along_memory_have_a_row_a_block() {
    let kernel = parse(
        "kernel @rows(x: f32[40, 300]) -> (y: f32[40]) {
  stage s[n: 40, reduce k: 300] = fold sum x[n, k] * x[n, k]
  stage res[n] = s[n]
  output y[n] = res[n]
}
",
    );
    let compiled = compile(&kernel, ErrorClass::Reassociating);
    assert!(
        compiled.schedule.contains("n_b to block.x") && !compiled.schedule.contains("n_i"),
        "{}",
        compiled.schedule
    );
    agrees("rows", &kernel, &compiled, &[], 1e-5);
}

/// Behind the parts of a reduction, which other threads fold, and behind what other threads read of it. Where a column's own
/// thread reads what it has folded, a barrier could be missing.
#[test]
fn barriers_that_are_removed_are_missed() {
    for (original, expected) in [(one_row(300, 24), 2), (across(300, 24), 5)] {
        let compiled = compile(&original, ErrorClass::Reassociating);
        let module = compiled.module.as_ref().expect("it has PTX");
        let inputs = random_inputs(&original, &[], 7);
        let lines: Vec<&str> = text(&compiled).lines().collect();
        let barriers: Vec<usize> = (0..lines.len()).filter(|&n| lines[n].contains("bar.sync")).collect();
        let found = barriers.iter().filter(|&&barrier| {
            let without: Vec<&str> = (0..lines.len()).filter(|n| *n != barrier).map(|n| lines[n]).collect();
            execute(&compiled.kernel, &compiled.nest, module, &without.join("\n"), &[], &inputs, 1).is_err()
        });
        assert_eq!(found.count(), expected, "{} barriers of {}", barriers.len(), original.name);
    }
}

#[test]
fn the_assembler_takes_reductions() {
    let kernels = [one_row(2048, 1000), panels(768, 3072), channels(49, 1280), across(21, 4096)];
    let nests: Vec<_> = kernels.iter().map(|kernel| compile(kernel, ErrorClass::Reassociating).nest).collect();
    assembler::assemble(|target| nests.iter().map(|n| emit(n, target).expect("it has PTX")).collect());
}
