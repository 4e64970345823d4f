//! Products of halves and bytes by groups of four warps (`sm_90a`): whole and ragged shapes through the simulator, and faults planted
//! in them.

mod assembler;
mod compiled;
mod device;

use compiled::{Compiled, agrees};
use infc_codegen_ptx::{PtxTarget, emit};
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::{self, GpuMachine};

fn target() -> PtxTarget {
    "sm_90a".parse().expect("a listed target")
}

/// As for `sm_90a`, with few processors, so that small products have large tiles.
fn machine() -> GpuMachine {
    GpuMachine { busy_blocks: 1, ..GpuMachine::for_capability(90).with_groups() }
}

#[track_caller]
fn compile(kernel: &Kernel) -> Compiled {
    let compiled = compiled::compile_for(kernel, &machine(), ErrorClass::Reassociating);
    Compiled { module: emit(&compiled.nest, &target()), ..compiled }
}

/// `y = max(x·w + b, 0)` of so many rows, columns and terms; `w` in panels of 64 columns, or with terms as neighbours if it is `turned`.
fn product(dtype: &str, m: &str, n: i64, k: i64, turned: bool) -> Kernel {
    let (w, at) = match turned {
        true => (format!("{n}, {k}"), "n, k"),
        false => (format!("{}, {k}, 64", (n + 63) / 64), "div(n, 64), k, mod(n, 64)"),
    };
    let clause = if m == "M" { "where M in 1..=4096 " } else { "" };
    let text = format!(
        "kernel @product(x: {dtype}[{m}, {k}], const w: {dtype}[{w}], const b: f32[{n}]) -> (y: {dtype}[{m}, {n}]) {clause}{{
  stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum f32(x[m, k]) * f32(w[{at}])
  stage o[m, n] = {dtype}(max(s[m, n] + b[n], 0))
  output y[m, n] = o[m, n]
}}
"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn text(compiled: &Compiled) -> &str {
    &compiled.module.as_ref().unwrap_or_else(|e| panic!("{e}\n{}\n{}", compiled.schedule, compiled.nest)).text
}

/// A kernel that groups of warps multiply, and that agrees with the interpreter.
#[track_caller]
fn multiplies(kernel: &Kernel, symbols: &[i64], tolerance: f64) -> Compiled {
    let compiled = compile(kernel);
    let is_group = text(&compiled).contains("wgmma.mma_async") && !text(&compiled).contains("mma.sync");
    assert!(is_group, "{}\n{}\n{}", compiled.schedule, compiled.nest, text(&compiled));
    agrees(&format!("{} {symbols:?}", kernel.name), kernel, &compiled, symbols, tolerance);
    compiled
}

#[test]
fn whole_and_ragged_tiles() {
    for (dtype, m, n, k) in [("f16", "128", 256, 128), ("bf16", "130", 200, 184), ("f16", "100", 72, 120)] {
        for turned in [false, true] {
            multiplies(&product(dtype, m, n, k, turned), &[], 2e-3);
        }
    }
}

/// What is the same in all turns is computed in front of the loop: where pieces lie among swizzled rows, and quotients.
#[test]
fn places_of_copies_are_computed_once() {
    for kernel in [product("f16", "128", 256, 640, false), convolution(8, 8, 40, 128, 1)] {
        let compiled = compile(&kernel);
        let text = text(&compiled);
        let (before, turn) = text.rsplit_once("cp.async.wait_group").expect("a loop that copies ahead");
        let (turn, _) = turn.split_once("wgmma.wait_group").expect("its end");
        assert!(turn.contains("cp.async.cg") && !turn.contains("xor.b32") && before.contains("xor.b32"), "{turn}");
    }
}

#[test]
fn rows_that_only_a_run_tells() {
    let kernel = product("f16", "M", 128, 192, false);
    for rows in [1, 77, 129] {
        multiplies(&kernel, &[rows], 2e-3);
    }
}

/// Blocks of other sizes, and more or fewer tiles ahead, as a tuner tries them.
#[test]
fn other_picks() {
    let kernel = infc_passes::formulate::normalise(product("f16", "70", 136, 264, false));
    let mut seen = std::collections::BTreeSet::new();
    for picks in [[0, 1, 0], [0, 2, 0], [0, 3, 0], [0, 4, 0], [0, 4, 1], [0, 4, 2]] {
        let decided = gpu::decide(&kernel, &machine(), ErrorClass::Reassociating, &picks);
        let (schedule, _) = decided.expect("a block that groups have");
        let compiled = compiled::compile_by(kernel.clone(), &schedule);
        let compiled = Compiled { module: emit(&compiled.nest, &target()), ..compiled };
        let is_group = text(&compiled).contains("wgmma.mma_async");
        assert!(is_group && seen.insert(schedule.to_string()), "{schedule}\n{}\n{}", compiled.nest, text(&compiled));
        agrees("other picks", &kernel, &compiled, &[], 2e-3);
    }
}

#[test]
fn bytes() {
    for (a, b, m, n, k) in [("u8", "i8", "128", 256, 256), ("i8", "i8", "70", 120, 240), ("u8", "u8", "M", 128, 128)] {
        let clause = if m == "M" { "where M in 1..=256 " } else { "" };
        let text = format!(
            "kernel @bytes(x: {a}[{m}, {k}], const w: {b}[{n}, {k}]) -> (y: i32[{m}, {n}]) {clause}{{
  stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum i32(x[m, k]) * i32(w[n, k])
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let symbols: &[i64] = if m == "M" { &[133] } else { &[] };
        multiplies(&kernel, symbols, 0.0);
    }
}

/// A convolution of images, channels last, its weights in panels.
fn convolution(h: i64, w: i64, c: i64, k: i64, stride: i64) -> Kernel {
    let (p, q) = ((h - 1) / stride + 1, (w - 1) / stride + 1);
    let (row, column) = (format!("{stride}*p + r - 1"), format!("{stride}*q + s - 1"));
    let text = format!(
        "kernel @convolution(x: f16[2, {h}, {w}, {c}], const w: f16[{}, 3, 3, {c}, 64]) -> (y: f16[2, {p}, {q}, {k}]) {{
  stage a[n: 2, p: {p}, q: {q}, k: {k}, reduce r: 3, reduce s: 3, reduce c: {c}] = fold sum
    f32(x[n, {row}, {column}, c] if 0 <= {row} < {h} and 0 <= {column} < {w} else 0) * f32(w[div(k, 64), r, s, c, mod(k, 64)])
  stage o[n, p, q, k] = f16(max(a[n, p, q, k], 0))
  output y[n, p, q, k] = o[n, p, q, k]
}}
",
        (k + 63) / 64
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn convolutions_are_products() {
    multiplies(&convolution(8, 8, 40, 128, 1), &[], 2e-3);
    multiplies(&convolution(9, 7, 32, 72, 2), &[], 2e-3);
}

/// Products of a batch, both of whose factors are read as they were written; and a result that is an image with a border.
#[test]
fn batches_and_borders() {
    for (shape, at) in [("120, 72", "b, l, n"), ("72, 120", "b, n, l")] {
        let text = format!(
            "kernel @batch(x: f16[3, 80, 120], w: f16[3, {shape}]) -> (y: f32[3, 80, 72]) {{
  stage s[b: 3, m: 80, n: 72, reduce l: 120] = fold sum f32(x[b, m, l]) * f32(w[{at}])
  stage o[b, m, n] = s[b, m, n] * 0.5
  output y[b, m, n] = o[b, m, n]
}}
"
        );
        multiplies(&text.parse().unwrap_or_else(|e| panic!("{e}\n{text}")), &[], 2e-3);
    }
    let text = "kernel @bordered(x: f16[2, 7, 9, 56], const w: f16[1, 56, 64]) ->
  (y: f16[2, 7, 9, 64] layout(halo [0:0, 1:1, 1:0, 0:0])) {
  stage s[n: 2, p: 7, q: 9, k: 64, reduce c: 56] = fold sum f32(x[n, p, q, c]) * f32(w[div(k, 64), c, mod(k, 64)])
  stage o[n, p, q, k] = f16(max(s[n, p, q, k], 0))
  stage above[n: 2, a: 640] = f16(0)
  stage below[n, a] = f16(0)
  stage left[n, p: 7, k: 64] = f16(0)
  output y[n, p, q, k] = o[n, p, q, k]
  output y[n, -1, div(a, 64) - 1, mod(a, 64)] = above[n, a]
  output y[n, 7, div(a, 64) - 1, mod(a, 64)] = below[n, a]
  output y[n, p, -1, k] = left[n, p, k]
}
";
    multiplies(&text.parse().unwrap_or_else(|e| panic!("{e}")), &[], 2e-3);
}

/// What the instruction does not take is multiplied as elsewhere: words, columns of bytes, three channels, what has to be exact.
#[test]
fn not_everything() {
    let in_groups = |kernel: &Kernel, allowed| {
        let compiled = compiled::compile_for(kernel, &machine(), allowed);
        emit(&compiled.nest, &target()).expect("PTX").text.contains("wgmma")
    };
    let large = product("f16", "128", 128, 128, false);
    assert!(in_groups(&large, ErrorClass::Reassociating) && !in_groups(&large, ErrorClass::Exact));
    assert!(!in_groups(&product("f32", "128", 128, 128, false), ErrorClass::Reassociating));
    assert!(!in_groups(&product("f16", "128", 128, 124, true), ErrorClass::Reassociating));
    // A third of the line would be zeros.
    assert!(!in_groups(&product("f16", "128", 128, 96, false), ErrorClass::Reassociating));
    // Every other GPU does what the loops say.
    let compiled = compile(&large);
    let plain = emit(&compiled.nest, &PtxTarget::default()).expect("PTX").text;
    assert!(!plain.contains("wgmma") && !plain.contains("fence.proxy"));
    agrees(
        "elsewhere",
        &large,
        &Compiled { module: emit(&compiled.nest, &PtxTarget::default()), ..compiled },
        &[],
        2e-3,
    );
}

/// What changes of lines lead to in a ragged product of several turns, by blocks of one group.
fn mutants(wanted: &str, change: impl Fn(&str) -> String) -> Vec<Option<&'static str>> {
    let original = product("f16", "64", 104, 328, false);
    let kernel = infc_passes::formulate::normalise(original.clone());
    let decided = gpu::decide(&kernel, &machine(), ErrorClass::Reassociating, &[0, 3]);
    let (schedule, _) = decided.expect("a block of 64 rows and 128 columns");
    let compiled = compiled::compile_by(kernel, &schedule);
    let compiled = Compiled { module: emit(&compiled.nest, &target()), ..compiled };
    assert!(text(&compiled).contains("m64n128k16"), "{schedule}");
    compiled::mutants(&compiled, &original, wanted, change)
}

#[test]
fn planted_faults_are_found() {
    for (wanted, codes) in [
        ("bar.sync", &["ptxsim::race"][..]),
        ("cp.async.wait_group", &["ptxsim::pending-copy"]),
        ("wgmma.fence", &["ptxsim::unfenced-register"]),
        ("fence.proxy", &["ptxsim::unfenced"]),
        ("wgmma.wait_group", &["wrong numbers", "ptxsim::busy-register"]),
    ] {
        let found = mutants(wanted, |_| String::new());
        assert!(found.iter().all(|code| code.is_some_and(|code| codes.contains(&code))), "{wanted}: {found:?}");
    }
    let found = mutants("wgmma.commit_group", |_| String::new());
    assert!(found.iter().all(Option::is_some), "{found:?}");
    // Columns for rows, a panel that lies elsewhere, a slice that is not moved on, a line that is not swizzled.
    let turned = |l: &str| l.replace(", 0, 1;", ", 0, 0;");
    assert!(mutants("wgmma.mma_async", turned).iter().all(Option::is_some));
    let moved = |by: i64| {
        move |l: &str| {
            let (head, number) = l.trim_end_matches(';').rsplit_once(' ').expect("a number");
            format!("{head} {};", number.parse::<i64>().expect("a number") ^ by)
        }
    };
    // Only the right factor has panels.
    let found = mutants("or.b64", moved(1 << 16));
    assert!(found.iter().any(Option::is_some), "{found:?}");
    let found = mutants("or.b64", moved(1 << 32));
    assert!(found.iter().all(Option::is_some), "{found:?}");
    for by in [1 << 62, 1 << 50] {
        let found = mutants("or.b64", moved(by));
        assert!(found.iter().all(|code| *code == Some("ptxsim::group")), "{by:#x}: {found:?}");
    }
    let found = mutants("xor.b32", |l| l.replace("xor.b32", "or.b32"));
    assert!(found.iter().all(Option::is_some), "{found:?}");
}

#[test]
fn the_assembler_takes_products() {
    let kernels = [
        product("f16", "4096", 4096, 4096, false),
        product("bf16", "1024", 2048, 520, true),
        product("f16", "M", 512, 192, false),
        convolution(56, 56, 64, 128, 1),
    ];
    let nests: Vec<_> = kernels.iter().map(|k| compile(k).nest).collect();
    assembler::assemble_for(&["sm_90a"], nests.len(), |target| {
        infc_codegen_ptx::link(
            &nests
                .iter()
                .enumerate()
                .map(|(n, nest)| {
                    let module = emit(nest, target).expect("it has PTX");
                    let text = module.text.replace(&module.entry, &format!("{}_{n}", module.entry));
                    infc_codegen_ptx::PtxModule { text, ..module }
                })
                .collect::<Vec<_>>(),
            *target,
        )
    });
}
