//! Attention that goes through keys in blocks: whole and ragged sizes, masks, through the simulator.

mod assembler;
mod compiled;
mod device;

use compiled::{Compiled, agrees, compile_for};
use infc_codegen_ptx::emit;
use infc_ir::kernel::Kernel;
use infc_passes::ErrorClass;
use infc_passes::schedule::gpu::GpuMachine;

/// Attention of some heads: so many queries, keys, columns of keys and of values. Keys lie in columns.
struct Shape<'s> {
    heads: i64,
    rows: &'s str,
    keys: &'s str,
    inner: i64,
    columns: i64,
    /// `SUM` is the sum of products, at `ROW` and `KEY`.
    score: &'s str,
    mask: &'s str,
}

const PLAIN: Shape<'_> =
    Shape { heads: 2, rows: "20", keys: "96", inner: 16, columns: 16, score: "SUM * 0.25", mask: "" };

fn kernel(shape: &Shape<'_>) -> Kernel {
    kernel_of("f32", shape)
}

/// Attention of numbers of a type: of halves, weights are rounded to such, too.
fn kernel_of(dtype: &str, shape: &Shape<'_>) -> Kernel {
    let number = |load: &str| if dtype == "f32" { load.to_owned() } else { format!("f32({load})") };
    let rounded = |x: String| if dtype == "f32" { x } else { format!("f32({dtype}({x}))") };
    let Shape { heads, rows, keys, inner, columns, score, mask } = shape;
    let symbols: Vec<String> = [rows, keys]
        .into_iter()
        .filter(|size| size.starts_with(char::is_alphabetic))
        .map(|name| format!("{name} in 1..=512"))
        .collect();
    let clause = if symbols.is_empty() { String::new() } else { format!("where {} ", symbols.join(", ")) };
    let at = |[c, h, w]: [&str; 3]| {
        score.replace("SUM", &format!("sum0[{c}, {h}, {w}]")).replace("ROW", h).replace("KEY", w)
    };
    let (q, v) = (heads * inner, heads * columns);
    let text = format!(
        "kernel @attention(q: {dtype}[{rows}, {q}], k: {dtype}[{heads}, {inner}, {keys}], v: {dtype}[{keys}, {v}]{mask}) -> (y: f32[{rows}, {v}]) {clause}{{
  stage sum0[c: {heads}, h: {rows}, w: {keys}, reduce k: {inner}] = fold sum {} * {}
  stage fold1[m: {heads}, n: {rows}, reduce r: {keys}] = fold max {}
  stage map2[c, h, w] = {}
  stage fold3[n, m, reduce r] = fold sum map2[m, n, r]
  stage sum4[h, c, e: {columns}, reduce l: {keys}] = fold sum map2[c, h, l] * {}
  stage out5[h, c, e] = sum4[h, c, e] / fold3[h, c]
  output y[h, {columns}*c + e] = out5[h, c, e]
}}
",
        number(&format!("q[h, {inner}*c + k]")),
        number("k[c, k, w]"),
        at(["m", "n", "r"]),
        rounded(format!("exp({} - fold1[c, h])", at(["c", "h", "w"]))),
        number(&format!("v[l, {columns}*c + e]"))
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn machine() -> GpuMachine {
    GpuMachine { rounds_to_tf32: true, ..GpuMachine::default() }
}

fn text(compiled: &Compiled) -> &str {
    let Compiled { module, schedule, nest, .. } = compiled;
    &module.as_ref().unwrap_or_else(|e| panic!("{e}\n{schedule}\n{nest}")).text
}

/// By tensor cores as the interpreter computes what was chosen, and about as it computes what was asked for; by each thread just as
/// it was asked for.
#[track_caller]
fn attends(shape: &Shape<'_>, symbols: &[i64]) {
    let kernel = kernel(shape);
    let compiled = compile_for(&kernel, &machine(), ErrorClass::Reassociating);
    assert!(compiled.schedule.contains("attended"), "{}", compiled.schedule);
    assert!(text(&compiled).matches("mma.sync").count() >= 2, "{}\n{}", compiled.schedule, compiled.nest);
    // Sums of scores in another order may turn the rounding of weights to their neighbours, 2⁻¹¹ of them away.
    agrees(&format!("{symbols:?}"), &compiled.kernel, &compiled, symbols, 1e-3);
    agrees(&format!("{symbols:?}, exact"), &kernel, &compiled, symbols, 5e-3);
    let compiled = compile_for(&kernel, &GpuMachine::default(), ErrorClass::Reassociating);
    assert!(compiled.schedule.contains("attended"), "{}", compiled.schedule);
    assert!(!text(&compiled).contains("mma.sync") && text(&compiled).contains("fma"), "{}", compiled.nest);
    agrees(&format!("{symbols:?}, in f32"), &kernel, &compiled, symbols, 1e-5);
}

/// Halves are multiplied as they are, whatever may be rounded.
#[track_caller]
fn attends_halves(shape: &Shape<'_>, symbols: &[i64]) {
    for (dtype, step) in [("f16", 1e-3), ("bf16", 8e-3)] {
        let kernel = kernel_of(dtype, shape);
        let compiled = compile_for(&kernel, &GpuMachine::default(), ErrorClass::Reassociating);
        let instruction = format!("mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32");
        let multiplies = text(&compiled).matches(&instruction).count();
        assert!(multiplies >= 2, "{dtype}: {}\n{}", compiled.schedule, compiled.nest);
        agrees(&format!("{dtype}, {symbols:?}"), &compiled.kernel, &compiled, symbols, step);
        // Each block has a maximum of its own, and so other roundings.
        agrees(&format!("{dtype}, {symbols:?}, as it was"), &kernel, &compiled, symbols, 2.0 * step);
        let old = compiled::compile_old(&kernel, ErrorClass::Reassociating);
        assert!(!text(&old).contains("mma.sync"));
        agrees(&format!("{dtype}, {symbols:?}, sm_75"), &kernel, &old, symbols, 2.0 * step);
    }
}

#[test]
fn halves() {
    attends_halves(&Shape { rows: "32", keys: "128", ..PLAIN }, &[]);
    for (rows, keys, inner, columns) in
        [("20", "96", 16, 16), ("17", "37", 24, 20), ("64", "64", 40, 64), ("9", "5", 8, 33)]
    {
        attends_halves(&Shape { rows, keys, inner, columns, ..PLAIN }, &[]);
    }
    let score = "SUM * 0.25 + mask[KEY]";
    attends_halves(&Shape { keys: "70", score, mask: ", mask: f32[70]", ..PLAIN }, &[]);
    for symbols in [[1, 1], [20, 70], [33, 128]] {
        attends_halves(&Shape { rows: "S", keys: "L", ..PLAIN }, &symbols);
    }
}

/// Values alone in halves: there is no instruction for two types, and a thread multiplies by itself.
#[test]
fn factors_of_two_types() {
    let text_of = kernel(&PLAIN).to_string();
    let mixed = text_of.replace("v: f32", "v: f16").replace("* v[l, 16*c + e]", "* f32(v[l, 16*c + e])");
    assert_ne!(mixed, text_of);
    let kernel: Kernel = mixed.parse().unwrap_or_else(|e| panic!("{e}\n{mixed}"));
    for machine in [machine(), GpuMachine::default()] {
        let compiled = compile_for(&kernel, &machine, ErrorClass::Reassociating);
        assert!(!text(&compiled).contains("mma.sync"), "{}", compiled.schedule);
        agrees("values in halves", &kernel, &compiled, &[], 1e-5);
    }
}

#[test]
fn whole_blocks_of_keys() {
    attends(&Shape { rows: "32", keys: "128", ..PLAIN }, &[]);
}

#[test]
fn ragged_rows_keys_and_columns() {
    for (rows, keys, inner, columns) in
        [("20", "96", 16, 16), ("17", "37", 24, 20), ("64", "64", 40, 64), ("9", "5", 8, 33)]
    {
        attends(&Shape { rows, keys, inner, columns, ..PLAIN }, &[]);
    }
}

#[test]
fn masks() {
    let score = "SUM * 0.25 + mask[KEY]";
    attends(&Shape { keys: "70", score, mask: ", mask: f32[70]", ..PLAIN }, &[]);
    let score = "select(inbounds(0 <= ROW - KEY < 256), SUM, -3.4028235e38)";
    attends(&Shape { rows: "70", keys: "70", score, ..PLAIN }, &[]);
}

#[test]
fn sizes_that_only_a_run_tells() {
    let shape = Shape { rows: "S", keys: "L", ..PLAIN };
    for symbols in [[1, 1], [20, 70], [33, 128]] {
        attends(&shape, &symbols);
    }
}

#[test]
fn many_blocks() {
    // As many rows as make the largest blocks worthwhile.
    let machine = GpuMachine { busy_blocks: 2, ..machine() };
    for (keys, rounds_to_tf32, rows) in [("50", true, 64), ("50", false, 64), ("80", true, 32), ("80", false, 64)] {
        let kernel = kernel(&Shape { rows: "128", keys, columns: 32, ..PLAIN });
        let compiled = compile_for(&kernel, &GpuMachine { rounds_to_tf32, ..machine }, ErrorClass::Reassociating);
        assert!(compiled.schedule.contains(&format!("out5.h by {rows}")), "{}", compiled.schedule);
        // A weight of fifty that is rounded otherwise, as its exponential is off by a rounding, is a hundred thousandth.
        agrees("many rows", &compiled.kernel, &compiled, &[], if rounds_to_tf32 { 1e-4 } else { 1e-5 });
    }
}

/// Before Ampere no matrices are multiplied, and nothing is copied ahead. Where sums keep their order there are no blocks of keys.
#[test]
fn older_gpus_and_strict_sums() {
    let kernel = kernel(&PLAIN);
    let compiled = compiled::compile_old(&kernel, ErrorClass::Reassociating);
    assert!(compiled.schedule.contains("attended"), "{}", compiled.schedule);
    assert!(!text(&compiled).contains("mma.sync") && !text(&compiled).contains("cp.async"));
    agrees("sm_75", &kernel, &compiled, &[], 1e-5);
    let compiled = compile_for(&kernel, &machine(), ErrorClass::Exact);
    assert!(!compiled.schedule.contains("attended"), "{}", compiled.schedule);
    agrees("strict", &kernel, &compiled, &[], 1e-5);
}

/// Shapes by lot, a few of them unless `INFC_ATTENTION_SHAPES` says how many.
#[test]
fn shapes_by_lot() {
    let many = std::env::var("INFC_ATTENTION_SHAPES").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut state = 12345u64;
    let mut draw = |least: i64, most: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + ((state >> 33) % (most - least + 1) as u64) as i64
    };
    let scores = ["SUM", "SUM * 0.25 + mask[KEY]", "select(inbounds(0 <= ROW - KEY < 32), SUM, -3.4028235e38)"];
    for _ in 0..many {
        let (rows, keys) = (draw(9, 90), draw(2, 150));
        let score = draw(0, 2) as usize;
        let unknown = draw(0, 2);
        let (of_rows, of_keys) = (rows.to_string(), keys.to_string());
        let mask = if score == 1 {
            format!(", mask: f32[{}]", if unknown == 2 { "L" } else { &*of_keys })
        } else {
            String::new()
        };
        let shape = Shape {
            heads: draw(1, 3),
            rows: if unknown == 0 { &of_rows } else { "S" },
            keys: if unknown == 2 { "L" } else { &of_keys },
            inner: draw(2, 48),
            columns: draw(2, 80),
            score: scores[score],
            mask: &mask,
        };
        let symbols: Vec<i64> =
            [rows, keys].into_iter().skip(usize::from(unknown == 0)).take(unknown as usize).collect();
        attends(&shape, &symbols);
    }
}

/// Without a barrier or a wait between what is copied, scored, folded and weighed, something is read too early, or written too soon.
#[test]
fn planted_faults_are_found() {
    let shape = Shape { rows: "20", keys: "136", ..PLAIN };
    let cases = [("f32", machine()), ("f32", GpuMachine::default()), ("f16", GpuMachine::default())];
    for (dtype, machine) in cases {
        let kernel = kernel_of(dtype, &shape);
        let compiled = compile_for(&kernel, &machine, ErrorClass::Reassociating);
        let without = |wanted: &str| compiled::mutants(&compiled, &kernel, wanted, |_| String::new());
        assert!(without("cp.async.wait_group").iter().all(Option::is_some));
        // What ends a loop over tiles, or that over blocks of keys, meets another barrier before anything is written.
        let found = without("bar.sync");
        assert!(found.iter().filter(|code| code.is_none()).count() <= 3 && found.len() >= 10, "{found:?}");
        let wider = text(&compiled).replace("setp.lt.s32", "setp.le.s32");
        assert!(compiled::fault(&compiled, &kernel, &wider).is_some());
    }
}

/// The assembler of the toolkit takes them, where it is installed.
#[test]
fn the_assembler_takes_attention() {
    let shapes = [PLAIN, Shape { rows: "128", keys: "128", inner: 64, columns: 64, ..PLAIN }];
    let machines = [machine(), GpuMachine::default()];
    let all = [(machines[0], "f32"), (machines[1], "f32"), (machines[1], "f16"), (machines[1], "bf16")];
    let both = |shape| all.iter().map(move |(machine, dtype)| (kernel_of(dtype, shape), machine));
    let nests: Vec<_> = shapes
        .iter()
        .flat_map(both)
        .map(|(kernel, machine)| compile_for(&kernel, machine, ErrorClass::Reassociating).nest)
        .collect();
    assembler::assemble(|target| nests.iter().map(|nest| emit(nest, target).expect("it suits a GPU")).collect());
}
