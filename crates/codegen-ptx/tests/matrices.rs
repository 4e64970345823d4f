//! Products of halves by warps: whole and ragged shapes, convolutions, operands in either order, through the simulator; and
//! faults planted in them.

mod assembler;
mod compiled;
mod device;

use compiled::{Compiled, agrees, compile, compile_for, fault};
use infc_codegen_ptx::emit;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::GpuMachine;

fn kernel(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// `y = max(x·w + b, 0)` of so many rows, columns and terms; of `w` columns are neighbours, or terms if it is `turned`.
fn product(dtype: &str, m: &str, n: i64, k: &str, turned: bool) -> Kernel {
    let (w, at) = if turned { (format!("{n}, {k}"), "n, k") } else { (format!("{k}, {n}"), "k, n") };
    let symbols: Vec<&str> = [m, k].into_iter().filter(|s| s.starts_with(char::is_alphabetic)).collect();
    let clauses: Vec<String> = symbols.iter().map(|s| format!("{s} in 1..=4096")).collect();
    let wide = |load: String| if dtype == "f32" { load } else { format!("f32({load})") };
    let (x, y) = (wide("x[m, k]".to_owned()), wide(format!("w[{at}]")));
    let clause = if clauses.is_empty() { String::new() } else { format!("where {} ", clauses.join(", ")) };
    kernel(&format!(
        "kernel @product(x: {dtype}[{m}, {k}], const w: {dtype}[{w}], const b: f32[{n}]) -> (y: {dtype}[{m}, {n}]) {clause}{{
  stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum {x} * {y}
  stage o[m, n] = {dtype}(max(s[m, n] + b[n], 0))
  output y[m, n] = o[m, n]
}}
"
    ))
}

fn text(compiled: &Compiled) -> &str {
    &compiled.module.as_ref().unwrap_or_else(|e| panic!("{e}\n{}\n{}", compiled.schedule, compiled.nest)).text
}

/// A kernel that becomes a product of matrices, and agrees with the interpreter.
#[track_caller]
fn multiplies(kernel: &Kernel, symbols: &[i64], copied: bool) -> Compiled {
    let compiled = compile(kernel, ErrorClass::Reassociating);
    let text = text(&compiled);
    let context = || format!("{}\n{}\n{}", compiled.schedule, compiled.nest, text);
    assert!(text.contains("mma.sync") && text.contains("ldmatrix"), "{}", context());
    assert_eq!(text.contains("cp.async"), copied, "{}", context());
    agrees(&format!("{} {symbols:?}", kernel.name), kernel, &compiled, symbols, 2e-3);
    compiled
}

#[test]
fn whole_tiles() {
    for dtype in ["f16", "bf16"] {
        for turned in [false, true] {
            multiplies(&product(dtype, "64", 64, "96", turned), &[], true);
        }
    }
}

/// Products of f32 where these may be rounded to TF32: as the interpreter multiplies rounded factors.
#[track_caller]
fn multiplies_rounded(kernel: &Kernel, symbols: &[i64], copied: bool) {
    let machine = GpuMachine { rounds_to_tf32: true, ..GpuMachine::default() };
    let compiled = compile_for(kernel, &machine, ErrorClass::Reassociating);
    let text = text(&compiled);
    let context = || format!("{}\n{}\n{}", compiled.schedule, compiled.nest, text);
    assert!(text.contains("m16n8k8.row.col.f32.tf32.tf32.f32") && text.contains("cvt.rna.tf32"), "{}", context());
    assert_eq!(text.contains("cp.async"), copied, "{}", context());
    let place = format!("{} {symbols:?}", kernel.name);
    agrees(&place, &compiled.kernel, &compiled, symbols, 1e-5);
    // Each factor is off by 2⁻¹¹ of itself at most.
    agrees(&place, kernel, &compiled, symbols, 5e-3);
}

#[test]
fn words_as_tf32() {
    for (m, n, k) in [("64", 64, "96"), ("33", 40, "72"), ("17", 33, "20")] {
        for turned in [false, true] {
            // Rows of 33 words are not aligned.
            multiplies_rounded(&product("f32", m, n, k, turned), &[], turned || n % 2 == 0);
        }
    }
    for rows in [1, 16, 77] {
        multiplies_rounded(&product("f32", "M", 48, "64", true), &[rows], true);
    }
}

#[test]
fn ragged_tiles() {
    // Pieces of 16, 8 and 4 bytes; rows that are not aligned.
    for (m, n, k, copied) in
        [("33", 40, "72", true), ("70", 36, "20", true), ("17", 50, "34", true), ("40", 33, "17", false)]
    {
        multiplies(&product("f16", m, n, k, false), &[], copied);
        multiplies(&product("f16", m, n, k, true), &[], copied);
    }
}

#[test]
fn sizes_that_only_a_run_tells() {
    for (m, k) in [(1, 1), (33, 40), (64, 100)] {
        multiplies(&product("f16", "M", 48, "K", false), &[m, k], false);
    }
    // How many rows there are decides about no alignment.
    for rows in [1, 16, 77] {
        multiplies(&product("f16", "M", 48, "64", true), &[rows], true);
    }
}

#[test]
fn large_blocks() {
    let machine = GpuMachine { busy_blocks: 1, ..GpuMachine::default() };
    for (m, n, k) in [("128", 128, "64"), ("130", 72, "96")] {
        let kernel = product("bf16", m, n, k, false);
        let compiled = compile_for(&kernel, &machine, ErrorClass::Reassociating);
        assert!(text(&compiled).matches("mma.sync").count() >= 32, "{}", compiled.schedule);
        agrees("large blocks", &kernel, &compiled, &[], 2e-3);
    }
}

/// A convolution of images, channels last: its weights in panels of 16 columns if they are `packed`.
fn convolution(h: i64, w: i64, c: i64, k: i64, stride: i64, halo: bool, packed: bool) -> Kernel {
    let layout = if halo { " layout(halo [0:0, 1:1, 1:1, 0:0])" } else { "" };
    let (p, q) = ((h - 1) / stride + 1, (w - 1) / stride + 1);
    let (shape, at) = match packed {
        true => {
            (format!("{}, {}, 16", (k + 15) / 16, 9 * c), format!("div(k, 16), {}*r + {c}*s + c, mod(k, 16)", 3 * c))
        }
        false => (format!("3, 3, {c}, {k}"), "r, s, c, k".to_owned()),
    };
    let (row, column) = (format!("{stride}*p + r - 1"), format!("{stride}*q + s - 1"));
    kernel(&format!(
        "kernel @convolution(x: f16[2, {h}, {w}, {c}]{layout}, const w: f16[{shape}]) -> (y: f16[2, {p}, {q}, {k}]) {{
  stage a[n: 2, p: {p}, q: {q}, k: {k}, reduce r: 3, reduce s: 3, reduce c: {c}] = fold sum
    f32(x[n, {row}, {column}, c] if 0 <= {row} < {h} and 0 <= {column} < {w} else 0) * f32(w[{at}])
  stage o[n, p, q, k] = f16(max(a[n, p, q, k], 0))
  output y[n, p, q, k] = o[n, p, q, k]
}}
"
    ))
}

#[test]
fn convolutions_are_products() {
    multiplies(&convolution(8, 8, 16, 32, 1, true, false), &[], true);
    multiplies(&convolution(7, 5, 8, 24, 1, true, true), &[], true);
    multiplies(&convolution(9, 7, 32, 20, 2, false, true), &[], true);
    // Pixels of three channels are not aligned.
    multiplies(&convolution(7, 7, 3, 16, 2, true, false), &[], false);
}

/// A product whose result is an image with a border, which further results fill: they do not keep it from being one.
#[test]
fn borders_beside_products() {
    let bordered = |dtype: &str, image: [i64; 2], c: i64, k: i64| {
        let [h, w] = image;
        kernel(&format!(
            "kernel @bordered(x: {dtype}[2, {h}, {w}, {c}], const w: {dtype}[{c}, {k}]) ->
  (y: {dtype}[2, {h}, {w}, {k}] layout(halo [0:0, 1:1, 1:0, 0:0])) {{
  stage s[n: 2, p: {h}, q: {w}, k: {k}, reduce c: {c}] = fold sum f32(x[n, p, q, c]) * f32(w[c, k])
  stage o[n, p, q, k] = {dtype}(max(s[n, p, q, k], 0))
  stage above[n: 2, a: {row}] = {dtype}(0)
  stage below[n, a] = {dtype}(0)
  stage left[n, p: {h}, k: {k}] = {dtype}(0)
  output y[n, p, q, k] = o[n, p, q, k]
  output y[n, -1, div(a, {k}) - 1, mod(a, {k})] = above[n, a]
  output y[n, {h}, div(a, {k}) - 1, mod(a, {k})] = below[n, a]
  output y[n, p, -1, k] = left[n, p, k]
}}
",
            row = (w + 1) * k
        ))
    };
    for (image, c, k) in [([6, 5], 16, 24), ([8, 8], 32, 16), ([1, 17], 8, 33)] {
        multiplies(&bordered("f16", image, c, k), &[], k % 2 == 0);
        let kernel = bordered("f32", image, c, k);
        let compiled = compile(&kernel, ErrorClass::Exact);
        assert!(compiled.schedule.contains("_tile in shared"), "{}", compiled.schedule);
        agrees("borders", &kernel, &compiled, &[], 1e-5);
    }
}

/// Bytes are summed exactly, so in any order.
#[test]
fn bytes() {
    for (a, b, m, n, k) in [("u8", "i8", "40", 32, "64"), ("i8", "i8", "33", 20, "48"), ("u8", "u8", "M", 24, "100")] {
        let clause = if m == "M" { "where M in 1..=64 " } else { "" };
        let kernel = kernel(&format!(
            "kernel @bytes(x: {a}[{m}, {k}], const w: {b}[{n}, {k}]) -> (y: i32[{m}, {n}]) {clause}{{
  stage s[m: {m}, n: {n}, reduce k: {k}] = fold sum i32(x[m, k]) * i32(w[n, k])
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
        ));
        let compiled = compile(&kernel, ErrorClass::Exact);
        let sums = format!("m16n8k32.row.col.s32.{}.{}.s32", a.replace('i', "s"), b.replace('i', "s"));
        assert!(text(&compiled).contains(&sums), "{}\n{}\n{}", compiled.schedule, compiled.nest, text(&compiled));
        let symbols: &[i64] = if m == "M" { &[37] } else { &[] };
        agrees("bytes", &kernel, &compiled, symbols, 0.0);
    }
}

/// What is asked for in strict order, and what is too small, is no product of matrices.
#[test]
fn not_everything() {
    let is_product = |kernel: &Kernel, allowed| compile(kernel, allowed).module.expect("PTX").text.contains("mma.sync");
    let large = product("f16", "64", 64, "64", false);
    assert!(is_product(&large, ErrorClass::Reassociating) && !is_product(&large, ErrorClass::Exact));
    assert!(!is_product(&product("f16", "4", 64, "64", false), ErrorClass::Reassociating));
    assert!(!is_product(&product("f32", "64", 64, "64", false), ErrorClass::Reassociating));
}

/// What changes of lines lead to in a ragged product of several turns.
fn mutants(wanted: &str, change: impl Fn(&str) -> String) -> Vec<Option<&'static str>> {
    let original = product("f16", "40", 40, "136", false);
    compiled::mutants(&compile(&original, ErrorClass::Reassociating), &original, wanted, change)
}

#[test]
fn planted_faults_are_found() {
    // Removed: the barrier, the wait, the end of a group.
    for wanted in ["bar.sync", "cp.async.wait_group"] {
        assert!(mutants(wanted, |_| String::new()).iter().all(Option::is_some), "{wanted}");
    }
    // A group that is missing in the loop; the last of those before it is one that the first turns wait for.
    assert!(mutants("cp.async.commit_group", |_| String::new()).iter().any(Option::is_some));
    // One group too few is waited for.
    let one_more = |line: &str| {
        let (head, number) = line.trim_end_matches(';').rsplit_once(' ').expect("a number");
        format!("{head} {};", number.parse::<u32>().expect("a number") + 1)
    };
    let codes = mutants("cp.async.wait_group", one_more);
    assert!(codes.iter().all(|code| *code == Some("ptxsim::pending-copy")), "{codes:?}");
    // What does not exist is read.
    for code in
        mutants("cp.async.cg", |l| l.rsplit_once(", ").map_or(l.to_owned(), |(head, _)| format!("{head}, %r0;")))
    {
        assert!(code.is_some());
    }
    // Columns for rows, and the other way round.
    let turned = |l: &str| match l.contains(".trans") {
        true => l.replace(".trans", ""),
        false => l.replace(".shared", ".trans.shared"),
    };
    assert!(mutants("ldmatrix", turned).iter().all(Option::is_some));
    // A thread that reads another's matrix; a row that lies elsewhere for who reads than for who wrote.
    for (wanted, replaced) in [("and.b32", "or.b32"), ("mad.lo.s32", "mad.hi.s32")] {
        let found = mutants(wanted, |l| l.replace(wanted, replaced));
        assert!(found.iter().any(Option::is_some), "{wanted}");
    }
}

/// The same of products that are rounded, whose words come by `ldmatrix` on one side and one by one on the other.
#[test]
fn faults_of_rounded_products_are_found() {
    let original = product("f32", "40", 40, "72", false);
    let machine = GpuMachine { rounds_to_tf32: true, ..GpuMachine::default() };
    let compiled = compile_for(&original, &machine, ErrorClass::Reassociating);
    let mutants =
        |wanted: &str, change: &dyn Fn(&str) -> String| compiled::mutants(&compiled, &original, wanted, change);
    for wanted in ["bar.sync", "cp.async.wait_group"] {
        assert!(mutants(wanted, &|_| String::new()).iter().all(Option::is_some), "{wanted}");
    }
    // A word of another row, and one that was not rounded: registers that nobody wrote.
    assert!(mutants("ld.shared.f32", &|l| l.replace("]", "+4]").replace("+4+4]", "+8]")).iter().any(Option::is_some));
    assert!(mutants("cvt.rna.tf32", &|_| String::new()).iter().all(Option::is_some));
    assert!(mutants("ldmatrix", &|l| l.replace(".shared", ".trans.shared")).iter().all(Option::is_some));
}

/// Conditions on rows, columns and terms: with all of them wider by one, something is read or written that is not there.
#[test]
fn bounds_that_are_too_wide_are_found() {
    let original = product("f16", "40", 40, "136", false);
    let compiled = compile(&original, ErrorClass::Reassociating);
    let wider = text(&compiled).replace("setp.lt.s32", "setp.le.s32");
    assert!(fault(&compiled, &original, &wider).is_some());
}

#[test]
fn the_assembler_takes_products() {
    let kernels = [
        product("f16", "64", 64, "96", false),
        product("bf16", "33", 40, "72", true),
        product("f16", "M", 48, "K", false),
        product("f16", "2048", 2048, "512", false),
        convolution(8, 8, 16, 32, 1, true, true),
    ];
    let nests: Vec<LoopNest> = kernels.iter().map(|k| compile(k, ErrorClass::Reassociating).nest).collect();
    assembler::assemble(|target| nests.iter().map(|n| emit(n, target).expect("it has PTX")).collect());
}
