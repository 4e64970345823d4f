//! Products of matrices in tile registers: what schedules ask for is what kernels say, by the interpreter of `vir` on every
//! machine and by the instructions where there are some.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::lower::lower;
use infc_codegen_cpu::vir::tile::{TileInst, TileProduct};
use infc_codegen_cpu::vir::{Builder, Function, I64, Inst, Memory, TileShape, TileShapes, interp, verify};
use infc_codegen_cpu::{Target, emit, listing};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_ir::schedule::Schedule;
use infc_passes::schedule::{apply, choose};
use infc_passes::{ErrorClass, schedule::Machine};
use infc_tensor::Tensor;
use infc_testkit::{assert_close, buffers_of, outputs_in, random_inputs, symbol_choices};
use support::Executable;

const TARGET: &str = "x86-64-v4+vnni+bf16+amx";
/// Steps of the interpreter that no kernel here needs.
const STEP_LIMIT: u64 = 50_000_000;

fn target(name: &str) -> Target {
    name.parse().expect("a known target")
}

/// The machine at hand, with tile registers.
fn machine() -> Machine {
    Machine { tile_registers: true, ..support::machine() }
}

fn parsed(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// `y = f(a · b)`, the right factor in panels of 16 columns and groups.
fn product(rows: &str, columns: i64, summed: i64, types: [&str; 3]) -> Kernel {
    let [left, right, sum] = types;
    let group = if sum == "i32" { 4 } else { 2 };
    let (panels, groups) = ((columns + 15) / 16, summed / group);
    let (symbol, rows) = if rows == "M" { (" where M in 1..", "M") } else { ("", rows) };
    parsed(&format!(
        "kernel @product(a: {left}[{rows}, {summed}], const b: {right}[{panels}, {groups}, 16, {group}], bias: {sum}[{columns}]) \
         -> (y: {sum}[{rows}, {columns}]){symbol} {{
           stage s[m: {rows}, n: {columns}, reduce k: {summed}] = \
             fold sum {sum}(a[m, k]) * {sum}(b[div(n, 16), div(k, {group}), mod(n, 16), mod(k, {group})])
           stage q[m, n] = s[m, n] + bias[n]
           output y[m, n] = q[m, n]
         }}"
    ))
}

const BYTES: [&str; 3] = ["u8", "i8", "i32"];
const TURNED: [&str; 3] = ["i8", "u8", "i32"];
const HALVES: [&str; 3] = ["bf16", "bf16", "f32"];

/// Whether a function multiplies in tile registers.
fn multiplies_tiles(function: &Function) -> bool {
    let mut found = false;
    function.body.for_each_inst(&mut |inst| found |= matches!(inst, Inst::Tile(TileInst::Multiply { .. })));
    found
}

fn number(dim: &infc_ir::index::Dim, symbols: &[i64]) -> i64 {
    dim.eval(&|s| symbols.get(infc_ir::entity::EntityId::index(s)).copied(), &|_| None)
        .expect("all symbols have values")
}

/// Runs the nest's code, interpreted and, where this machine can, for real; gives the outputs of both.
fn run(kernel: &Kernel, nest: &LoopNest, target: &Target, symbols: &[i64], inputs: &[Tensor]) -> Vec<Vec<Tensor>> {
    let lowered = lower(nest, target).unwrap_or_else(|e| panic!("{e}\n{nest}"));
    verify::check(&lowered.function).unwrap_or_else(|e| panic!("{e:?}\n{}", lowered.function));
    let chunks = nest.parallel.as_ref().map_or(1, |parallel| number(&parallel.chunks, symbols)).cast_unsigned();
    let scratch_bytes = number(&lowered.scratch_bytes, symbols) as usize;
    let mut results = Vec::new();

    let mut buffers = buffers_of(kernel, symbols, inputs);
    let mut memory = interp::AddressSpace::new();
    let places: Vec<u64> = buffers.iter().map(|buffer| memory.add(buffer.bytes().to_vec())).collect();
    let words = places.iter().copied().chain(symbols.iter().map(|s| s.cast_unsigned()));
    let args = memory.add(words.flat_map(u64::to_le_bytes).collect());
    let scratch = memory.add(vec![0x5a; scratch_bytes]);
    interp::run(&lowered.function, [args, 0, chunks, scratch], &mut memory, STEP_LIMIT)
        .unwrap_or_else(|e| panic!("{e}\n{}", lowered.function));
    for (buffer, place) in buffers.iter_mut().zip(&places) {
        buffer.bytes_mut().copy_from_slice(memory.region(*place));
    }
    results.push(outputs_in(kernel, symbols, &buffers));

    let compiled = emit(&lowered.function, target).unwrap_or_else(|e| panic!("{e}\n{}", lowered.function));
    if support::has_amx() {
        let mut buffers = buffers_of(kernel, symbols, inputs);
        let pointers = buffers.iter_mut().map(|buffer| buffer.bytes_mut().as_mut_ptr() as u64);
        let args: Vec<u64> = pointers.chain(symbols.iter().map(|s| s.cast_unsigned())).collect();
        let mut scratch = vec![0x5a; scratch_bytes + 64];
        let start = scratch.as_ptr().align_offset(64);
        Executable::new(&compiled.code).call(&args, 0, chunks, &mut scratch[start..]);
        results.push(outputs_in(kernel, symbols, &buffers));
    }
    results
}

/// Checks a kernel by a schedule for some symbols; gives whether all that it multiplies in tiles is in registers.
fn check(kernel: &Kernel, schedule: &Schedule, target_name: &str) -> bool {
    let nest = apply(kernel, schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{kernel}"));
    let target = target(target_name);
    for symbols in symbol_choices(kernel) {
        let inputs = random_inputs(kernel, &symbols, 5);
        let expected = run_kernel(kernel, &symbols, &inputs).expect("it can be interpreted");
        for found in run(kernel, &nest, &target, &symbols, &inputs) {
            assert_close(&format!("{symbols:?} {schedule}\n{kernel}"), &found, &expected, 1e-5, 1e-5);
        }
    }
    let lowered = lower(&nest, &target).expect("it was lowered");
    multiplies_tiles(&lowered.function) && lowered.tiles_in_memory == 0
}

fn say_if_skipped() {
    if !support::has_amx() {
        eprintln!("skipped: this machine has no tile registers, code was made and interpreted but not run");
    }
}

#[test]
fn products_of_all_sizes_are_what_the_kernel_says() {
    say_if_skipped();
    for types in [BYTES, TURNED, HALVES] {
        for (rows, columns, summed) in [
            ("16", 16, 64),
            ("32", 32, 128),
            ("33", 33, 64),
            ("17", 21, 96),
            ("48", 40, 24),
            ("15", 8, 512),
            ("64", 100, 12),
            ("31", 1, 100),
            ("100", 64, 256),
            ("M", 48, 64),
            ("M", 33, 40),
        ] {
            let kernel = product(rows, columns, summed, types);
            let schedule = choose(&kernel, &machine(), ErrorClass::Reassociating);
            let in_tiles = schedule.to_string().contains(" to tile");
            assert_eq!(check(&kernel, &schedule, TARGET), in_tiles, "{schedule}");
            let is_large = columns >= 16 && summed >= 64 && rows != "M";
            assert!(in_tiles || !is_large, "{rows}×{columns}×{summed} of {types:?}: {schedule}");
        }
    }
}

/// A schedule by hand: so many tiles of so many rows, and of columns.
fn by_hand(rows: i64, row_tiles: i64, column_tiles: i64, groups: i64, types: [&str; 3]) -> Schedule {
    let (turns, name) = if types == HALVES { (2, "tile2") } else { (4, "tile4") };
    let (block_rows, block_columns, step) = (rows * row_tiles, 16 * column_tiles, groups * turns);
    format!(
        "split q.m by {block_rows} -> m_o, m_i; split q.n by {block_columns} -> n_o, n_i; split q.n_i by 16 -> n_v, n_l; \
         unroll q.n_v; reorder q: m_o, n_o, m_i, n_v, n_l; vectorize q.n_l; compute s at q.n_o; store s in stack; \
         split s.m by {rows} -> m_b, m_t; split s.n by 16 -> n_b, n_t; split s.k by {step} -> k_o, k_i; \
         split s.k_i by {turns} -> k_g, k_q; reorder s: k_o, m_b, n_b, m_t, n_t, k_g, k_q; unroll s.m_b; unroll s.n_b; \
         tensorize s.k_q to {name}"
    )
    .parse()
    .expect("a schedule")
}

#[test]
fn tiles_of_all_sizes_and_numbers() {
    say_if_skipped();
    for types in [BYTES, HALVES] {
        for (rows, row_tiles, column_tiles, groups) in [
            (16, 2, 2, 16),
            (16, 1, 4, 16),
            (16, 3, 2, 16),
            (16, 2, 3, 8),
            (16, 4, 1, 4),
            (7, 2, 2, 16),
            (1, 1, 1, 1),
            (13, 1, 1, 5),
        ] {
            for (size, columns, summed) in [("32", 64, 128), ("37", 53, 160), ("M", 40, 64)] {
                let kernel = product(size, columns, summed, types);
                let schedule = by_hand(rows, row_tiles, column_tiles, groups, types);
                // A rest of what is summed is shorter than a tile, for which there may be no register left; beside six sums there
                // is none for a rest of rows or columns.
                let whole = summed % (groups * if types == HALVES { 2 } else { 4 }) == 0;
                let fits = whole && (row_tiles * column_tiles <= 4 || size == "32");
                assert!(check(&kernel, &schedule, TARGET) || !fits, "{schedule}");
            }
        }
    }
}

/// What does not fit runs over memory, and so does everything on machines without tile registers.
#[test]
fn what_does_not_fit_runs_over_memory() {
    say_if_skipped();
    let kernel = product("64", 64, 64, BYTES);
    // Eight sums leave no register for factors.
    assert!(!check(&kernel, &by_hand(16, 2, 4, 16, BYTES), TARGET));
    // Groups of what is summed that are no neighbours.
    let far = parsed(
        "kernel @far(a: u8[8, 2, 16, 4], const b: i8[8, 16, 4]) -> (y: i32[16, 16]) {
           stage s[m: 16, n: 16, reduce k: 32] = \
             fold sum i32(a[div(k, 4), 0, m, mod(k, 4)]) * i32(b[div(k, 4), n, mod(k, 4)])
           stage q[m, n] = s[m, n]
           output y[m, n] = q[m, n]
         }",
    );
    assert!(!check(&far, &by_hand(16, 1, 1, 8, BYTES), TARGET));
    for name in ["x86-64-v4+vnni+bf16", "x86-64-v3"] {
        let schedule = by_hand(16, 2, 2, 16, BYTES);
        let nest = apply(&kernel, &schedule).expect("it applies");
        let lowered = lower(&nest, &target(name)).expect("it is lowered");
        assert!(!multiplies_tiles(&lowered.function));
        emit(&lowered.function, &target(name)).expect("it compiles");
    }
}

/// A convolution with zeros around its image, whose rows of tiles lie along two axes.
#[test]
fn windows_are_products_of_matrices() {
    say_if_skipped();
    for (size, channels, columns) in [(7, 64, 32), (14, 32, 48), (20, 16, 16)] {
        let padded = size + 2;
        let kernel = parsed(&format!(
            "kernel @windows(x: u8[{padded}, {padded}, {channels}], const w: i8[{}, 3, 3, {}, 16, 4]) -> (y: i32[{size}, {size}, {columns}]) {{
               stage s[h: {size}, w: {size}, c: {columns}, reduce i: 3, reduce j: 3, reduce k: {channels}] = \
                 fold sum i32(x[h + i, w + j, k]) * i32(w[div(c, 16), i, j, div(k, 4), mod(c, 16), mod(k, 4)])
               stage q[h, w, c] = max(s[h, w, c], 0)
               output y[h, w, c] = q[h, w, c]
             }}",
            columns / 16,
            channels / 4,
        ));
        let schedule = choose(&kernel, &machine(), ErrorClass::Exact);
        assert!(schedule.to_string().contains("to tile4"), "{schedule}");
        assert!(check(&kernel, &schedule, TARGET), "{schedule}");
    }
}

/// What the choice makes is never summed over memory: columns that do not lie innermost in the result, sums that are no groups, groups
/// that lie unevenly, and sums that are read in part.
#[test]
fn what_is_chosen_fits_the_registers() {
    say_if_skipped();
    let byte = |a: &str, b: &str| format!("fold sum i32(a[{a}]) * i32(b[{b}])");
    let panels = "div(n, 16), div(k, 4), mod(n, 16), mod(k, 4)";
    let kernels = [
        (
            "columns first",
            format!(
                "(a: u8[64, 64], const b: i8[4, 16, 16, 4]) -> (y: i32[64, 64]) {{
                   stage s[n: 64, m: 64, reduce k: 64] = {}
                   stage q[n, m] = s[n, m] + 1
                   output y[n, m] = q[n, m]",
                byte("m, k", panels)
            ),
            true,
        ),
        (
            "an image in planes",
            format!(
                "(a: u8[10, 10, 32], const b: i8[2, 3, 3, 8, 16, 4]) -> (y: f32[32, 8, 8]) {{
                   stage s[n: 32, h: 8, w: 8, reduce i: 3, reduce j: 3, reduce k: 32] = {}
                   stage q[n, h, w] = f32(s[n, h, w]) * 0.5
                   output y[n, h, w] = q[n, h, w]",
                byte("h + i, w + j, k", "div(n, 16), i, j, div(k, 4), mod(n, 16), mod(k, 4)")
            ),
            true,
        ),
        (
            "no whole groups",
            format!(
                "(a: u8[64, 30], const b: i8[2, 8, 16, 4]) -> (y: i32[64, 32]) {{
                   stage s[m: 64, n: 32, reduce k: 30] = {}
                   stage q[m, n] = s[m, n]
                   output y[m, n] = q[m, n]",
                byte("m, k", panels)
            ),
            false,
        ),
        (
            "heads side by side",
            format!(
                "(a: u8[2, 64, 32], const b: i8[2, 16, 16, 4]) -> (y: i32[64, 32]) {{
                   stage s[m: 64, n: 32, reduce k: 64] = {}
                   stage q[m, n] = s[m, n]
                   output y[m, n] = q[m, n]",
                byte("div(k, 32), m, mod(k, 32)", panels)
            ),
            true,
        ),
        (
            "taps behind channels",
            format!(
                "(a: u8[40, 3, 24], const b: i8[2, 6, 3, 16, 4]) -> (y: i32[40, 32]) {{
                   stage s[m: 40, n: 32, reduce k: 72] = {}
                   stage q[m, n] = s[m, n]
                   output y[m, n] = q[m, n]",
                byte("m, div(k, 24), mod(k, 24)", "div(n, 16), div(mod(k, 24), 4), div(k, 24), mod(n, 16), mod(k, 4)")
            ),
            true,
        ),
        (
            "read in part",
            format!(
                "(a: u8[64, 64], const b: i8[2, 16, 16, 4]) -> (y: i32[64, 40]) {{
                   stage s[m: 64, n: 32, reduce k: 64] = {}
                   stage q[m, c: 40] = s[m, c] if 0 <= c < 32 else 0
                   output y[m, c] = q[m, c]",
                byte("m, k", panels)
            ),
            false,
        ),
    ];
    for (what, text, is_tiled) in kernels {
        let kernel = parsed(&format!("kernel @k{text}\n}}\n"));
        let schedule = choose(&kernel, &machine(), ErrorClass::Exact);
        assert_eq!(schedule.to_string().contains("to tile4"), is_tiled, "{what}: {schedule}");
        assert_eq!(check(&kernel, &schedule, TARGET), is_tiled, "{what}: {schedule}");
    }
}

/// The extremes of bytes, and of bfloat16 what is infinite, no number, or too small.
#[test]
fn extremes_are_multiplied_as_the_definition_says() {
    let shapes = TileShapes([TileShape { rows: 16, row_bytes: 64 }; 8]);
    let words = |values: &[u8]| -> Vec<u8> { (0..1024).map(|n| values[(n * 7 + n / 64) % values.len()]).collect() };
    let bytes = words(&[0, 1, 127, 128, 255, 200, 3]);
    let halves: Vec<u8> = {
        let numbers: [u16; 13] =
            [0, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x807f, 0x0080, 0x7f7f, 0x4049, 0x3e80, 0x2000, 0x1f80, 0xc2f7];
        (0..512).flat_map(|n: usize| numbers[(n * 5 + n / 32) % 13].to_le_bytes()).collect()
    };
    let odd: Vec<u8> = {
        let numbers: [u16; 5] = [0x7f80, 0xff80, 0x7fc0, 0x3f80, 0];
        (0..512).flat_map(|n: usize| numbers[if n % 32 == 3 { n / 32 % 3 } else { 3 + n % 2 }].to_le_bytes()).collect()
    };
    for (product, a, b) in [
        (TileProduct::UnsignedSigned, &bytes, &bytes),
        (TileProduct::SignedUnsigned, &bytes, &bytes),
        (TileProduct::Bf16, &halves, &halves),
        (TileProduct::Bf16, &odd, &halves),
    ] {
        let mut builder = Builder::new("tiles");
        builder.tile_shapes.push(shapes);
        let args = builder.param(0);
        let [x, y, z] = [0, 8, 16].map(|at| builder.load(I64, args, at, Memory::ReadOnly));
        let stride = builder.iconst(64);
        builder.tile_configure(0);
        builder.tile_load(0, z, 0, stride);
        builder.tile_load(4, x, 0, stride);
        builder.tile_load(6, y, 0, stride);
        builder.tile_multiply(product, 0, 4, 6);
        builder.tile_multiply(product, 0, 4, 6);
        builder.tile_store(0, z, 0, stride);
        let function = builder.finish();
        verify::check(&function).expect("it is well-formed");
        let start: Vec<u8> = (0..256u32).flat_map(|n| (n as f32 - 9.5).to_bits().to_le_bytes()).collect();

        let mut memory = interp::AddressSpace::new();
        let places = [memory.add(a.clone()), memory.add(b.clone()), memory.add(start.clone())];
        let args = memory.add(places.iter().flat_map(|p| p.to_le_bytes()).collect());
        interp::run(&function, [args, 0, 1, 0], &mut memory, 1000).expect("it runs");
        if product != TileProduct::Bf16 {
            assert_eq!(memory.region(places[2]), twice_summed(product, a, b, &start), "{product:?}");
        }
        let compiled = emit(&function, &target(TARGET)).expect("it compiles");
        if !support::has_amx() {
            say_if_skipped();
            continue;
        }
        let mut found = start.clone();
        let args = [a.as_ptr() as u64, b.as_ptr() as u64, found.as_mut_ptr() as u64];
        Executable::new(&compiled.code).call(&args, 0, 1, &mut []);
        let of = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect()
        };
        for (n, (found, expected)) in of(&found).into_iter().zip(of(memory.region(places[2]))).enumerate() {
            let both_nan = f32::from_bits(found).is_nan() && f32::from_bits(expected).is_nan();
            let same = found == expected || (product == TileProduct::Bf16 && both_nan);
            assert!(same, "{product:?} at {n}: {found:#x}, not {expected:#x}");
        }
    }
}

/// Twice the product of two matrices of bytes, 16 by 64 and 64 by 16 in groups of four, and what was there: as one writes it down.
fn twice_summed(product: TileProduct, a: &[u8], b: &[u8], start: &[u8]) -> Vec<u8> {
    let signed = |byte: u8| i32::from(byte.cast_signed());
    let mut sums = Vec::new();
    for (at, word) in start.chunks(4).enumerate() {
        let (m, n) = (at / 16, at % 16);
        let first = i32::from_le_bytes(word.try_into().expect("four"));
        let products = (0..64).map(|k| {
            let (x, y) = (a[64 * m + k], b[64 * (k / 4) + 4 * n + k % 4]);
            match product {
                TileProduct::UnsignedSigned => i32::from(x) * signed(y),
                _ => signed(x) * i32::from(y),
            }
        });
        sums.extend(first.wrapping_add(2 * products.sum::<i32>()).to_le_bytes());
    }
    sums
}

/// Sizes are told once, however often a block comes, and registers are given back.
#[test]
fn sizes_are_told_once() {
    let kernel = product("64", 64, 64, BYTES);
    let nest = apply(&kernel, &by_hand(16, 2, 2, 16, BYTES)).expect("it applies");
    let lowered = lower(&nest, &target(TARGET)).expect("it is lowered");
    assert_eq!(lowered.function.tile_shapes.len(), 1, "{}", lowered.function);
    let text = listing(&lowered.function, &target(TARGET)).expect("it compiles");
    let count = |name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert_eq!((count("ldtilecfg"), count("tilerelease")), (1, 1), "{text}");
    assert_eq!((count("tdpbusd"), count("tileloadd"), count("tilestored")), (4, 4, 4), "{text}");
}
