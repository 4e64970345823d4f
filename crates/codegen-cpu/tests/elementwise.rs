//! Elementwise loops with elementary functions: right up to stated errors, no spills, and (with `--ignored`) speed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "measurements are printed, and so is what is skipped")]

mod support;

use infc_codegen_cpu::vir::{Builder, Elem, Function, Memory, Type, Value, interp};
use infc_codegen_cpu::{Emitter, Target, emit};
use infc_ir::math;
use std::time::Instant;
use support::Executable;

type Map = fn(&mut Builder, Value) -> Value;

/// Vectors per turn, as in kernels.
const VECTORS: u16 = 8;

/// `y[i] = f(x[i])` for `i` from `begin` to `end`, some full vectors at a time.
fn map(lanes: u16, f: Map) -> Function {
    let vector = Type::vector(Elem::F32, lanes);
    let i64 = Type::scalar(Elem::I64);
    let mut b = Builder::new("map");
    let args = b.param(0);
    let x = b.load(i64, args, 0, Memory::ReadOnly);
    let y = b.load(i64, args, 8, Memory::ReadOnly);
    let (start, end) = (b.param(1), b.param(2));
    let (iv, _) = b.loop_open(start, end, i64::from(VECTORS * lanes), false, &[]);
    let four = b.iconst(4);
    let offset = b.mul(iv, four);
    let (from, to) = (b.add(x, offset), b.add(y, offset));
    for n in 0..VECTORS {
        let disp = i32::from(n * lanes) * 4;
        let value = b.load(vector, from, disp, Memory::ReadOnly);
        let value = f(&mut b, value);
        b.store(value, to, disp);
    }
    b.loop_close(&[]);
    b.finish()
}

/// A function with its name and what it is exactly.
type Named = (&'static str, Map, fn(f64) -> f64);

const MAPS: [Named; 5] = [
    ("exp", math::exp, f64::exp),
    ("log", math::log, f64::ln),
    ("tanh", math::tanh, f64::tanh),
    ("sigmoid", math::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
    ("square root", |b, x| b.sqrt(x), f64::sqrt),
];

fn targets() -> Vec<(Target, u16, bool)> {
    let parse = |text: &str| text.parse::<Target>().expect("a known target");
    vec![
        (parse("x86-64-v4"), 16, support::has_avx512()),
        (parse("x86-64-v3"), 8, support::has_avx2()),
        (parse("x86-64-v2"), 4, support::has_sse42()),
    ]
}

#[test]
fn elementary_functions_are_close() {
    let x: Vec<f32> = (0..4096).map(|n| (n as f32 - 2000.0) / 50.0).collect();
    for (target, lanes, available) in targets() {
        if !available {
            eprintln!("skipped: this machine does not run {target}");
            continue;
        }
        for (name, f, exact) in MAPS {
            let compiled = emit(&map(lanes, f), &target).unwrap_or_else(|error| panic!("{name} on {target}: {error}"));
            let roomy = compiled.emitter == Emitter::Wide;
            assert!(!roomy || compiled.stats.inner_loop_spills == 0, "{name} on {target}: {:?}", compiled.stats);
            let mut y = vec![0f32; x.len()];
            let args = [x.as_ptr() as u64, y.as_mut_ptr() as u64];
            Executable::new(&compiled.code).call(&args, 0, x.len() as u64, &mut []);
            for (&x, &y) in x.iter().zip(&y) {
                let want = exact(f64::from(x)) as f32;
                let close = (y - want).abs() <= want.abs() * 4.0 * f32::EPSILON || (y.is_nan() && want.is_nan());
                assert!(close || y == want, "{name}({x}) on {target} is {y}, not {want}");
            }
        }
    }
}

/// Conversions of short vectors read no more than these, though their instructions have wider forms.
#[test]
fn conversions_read_only_their_operands() {
    use infc_codegen_cpu::vir::Convert;
    // Of 2, 4, 6 … in either type.
    let halves = |n: u16| (1..=n).flat_map(|i| infc_tensor::f16::from_f32(f32::from(2 * i)).to_le_bytes()).collect();
    let shorts = |n: u16| (1..=n).flat_map(|i| (2 * i).to_le_bytes()).collect();
    let bytes = |n: u16| (1..=n).map(|i| 2 * i as u8).collect();
    type Elements<'a> = &'a dyn Fn(u16) -> Vec<u8>;
    let of: [(Elem, Elem, Convert, Elements<'_>); 3] = [
        (Elem::F16, Elem::F32, Convert::Float, &halves),
        (Elem::I16, Elem::I32, Convert::SignExtend, &shorts),
        (Elem::I8, Elem::I16, Convert::ZeroExtend, &bytes),
    ];
    for (target, widest, _) in targets().into_iter().filter(|&(.., available)| available) {
        for (from, to, kind, elements) in of {
            for lanes in [2, 4, 8, 16].into_iter().filter(|&lanes| lanes <= widest) {
                let mut b = Builder::new("convert");
                let args = b.param(0);
                let pointer = Type::scalar(Elem::I64);
                let (x, y) = (b.load(pointer, args, 0, Memory::ReadOnly), b.load(pointer, args, 8, Memory::ReadOnly));
                let value = b.load(Type::vector(from, lanes), x, 0, Memory::ReadOnly);
                let value = b.convert(kind, value, to);
                b.store(value, y, 0);
                let place = format!("{lanes} of {from:?} on {target}");
                let compiled = emit(&b.finish(), &target).unwrap_or_else(|error| panic!("{place}: {error}"));
                let input = support::AtEnd::new(&elements(lanes));
                let mut found = vec![0u8; usize::from(lanes) * to.size_bytes() as usize];
                let args = [input.address(), found.as_mut_ptr() as u64];
                Executable::new(&compiled.code).call(&args, 0, 1, &mut []);
                let expected: Vec<u8> = match to {
                    Elem::F32 => (1..=lanes).flat_map(|i| f32::from(2 * i).to_le_bytes()).collect(),
                    Elem::I32 => (1..=lanes).flat_map(|i| (2 * u32::from(i)).to_le_bytes()).collect(),
                    _ => shorts(lanes),
                };
                assert_eq!(found, expected, "{place}");
            }
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let x: Vec<f32> = (0..2048).map(|n| (n as f32 - 1000.0) / 50.0).collect();
    let mut y = vec![0f32; x.len()];
    for (target, lanes, _) in targets().into_iter().filter(|&(.., available)| available) {
        for (name, f, _) in MAPS {
            let compiled = emit(&map(lanes, f), &target).expect("it compiles");
            if let Ok(folder) = std::env::var("CODE_OUT") {
                std::fs::write(format!("{folder}/{name}-{target}.bin"), &compiled.code).expect("the folder is there");
            }
            let code = Executable::new(&compiled.code);
            let args = [x.as_ptr() as u64, y.as_mut_ptr() as u64];
            let mut best = f64::INFINITY;
            for _ in 0..2000 {
                let start = Instant::now();
                code.call(&args, 0, x.len() as u64, &mut []);
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("{name} on {target}: {:.3} ns per element, {:?}", best / x.len() as f64 * 1e9, compiled.stats);
        }
    }
}

/// `y[i] = table[x[i] & 255]`, a vector at a time; the table begins 16 bytes behind its address.
fn lookup(lanes: u16) -> Function {
    let pointer = Type::scalar(Elem::I64);
    let mut b = Builder::new("lookup");
    let args = b.param(0);
    let [x, y, table] = [0, 8, 16].map(|disp| b.load(pointer, args, disp, Memory::ReadOnly));
    let (start, end) = (b.param(1), b.param(2));
    let (iv, _) = b.loop_open(start, end, i64::from(lanes), false, &[]);
    let four = b.iconst(4);
    let offset = b.mul(iv, four);
    let from = b.add(x, offset);
    let index = b.load(Type::vector(Elem::I32, lanes), from, 0, Memory::ReadOnly);
    let found = b.lookup(table, 16, index);
    let to = b.add(y, iv);
    b.store(found, to, 0);
    b.loop_close(&[]);
    b.finish()
}

/// All 256 are found, in an order without a pattern, in vectors of every length, whatever lies above the byte; nothing behind
/// the table is read.
#[test]
fn functions_of_bytes_are_looked_up() {
    let index: Vec<u32> = (0..256u32).map(|n| (n.wrapping_mul(2_654_435_761) << 8) | ((n * 77 + 5) & 255)).collect();
    let table: Vec<u8> = (0..272u32).map(|n| (n * 89 % 251) as u8).collect();
    let expected: Vec<u8> = index.iter().map(|index| table[16 + (index & 255) as usize]).collect();
    for lanes in [2, 4, 8, 16, 32] {
        let mut memory = interp::AddressSpace::new();
        let x = memory.add(index.iter().flat_map(|index| index.to_le_bytes()).collect());
        let (y, t) = (memory.add(vec![0; 256]), memory.add(table.clone()));
        let args = memory.add([x, y, t].iter().flat_map(|a| a.to_le_bytes()).collect());
        interp::run(&lookup(lanes), [args, 0, 256, 0], &mut memory, 100_000).expect("it runs");
        assert_eq!(memory.region(y), expected, "{lanes} lanes");
    }
    let end = support::AtEnd::new(&table);
    for (target, _, available) in targets() {
        if !available {
            eprintln!("skipped: this machine does not run {target}");
            continue;
        }
        for lanes in [4, 8, 16, 32] {
            let place = format!("{lanes} lanes on {target}");
            let compiled = emit(&lookup(lanes), &target).unwrap_or_else(|error| panic!("{place}: {error}"));
            let mut y = vec![0u8; 256];
            let args = [index.as_ptr() as u64, y.as_mut_ptr() as u64, end.address()];
            Executable::new(&compiled.code).call(&args, 0, 256, &mut []);
            assert_eq!(y, expected, "{place}");
        }
    }
}
