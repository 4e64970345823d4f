//! Elementary functions against double precision, on dense samples and on all special values: in the interpreter and in
//! machine code with and without fused multiply-add.

#![expect(clippy::print_stderr, reason = "what is skipped is said aloud")]

mod support;

use infc_codegen_cpu::emit;
use infc_codegen_cpu::vir::interp::{AddressSpace, run};
use infc_codegen_cpu::vir::{Builder, Elem, Function, Memory, Type, Value};
use infc_ir::math::{self, Float};
use infc_testkit::functions::{SPECIAL, acosh, asinh, atanh, erf, samples, sigmoid, ulps_f32, ulps_f64};
use support::Executable;

const LANES: u16 = 16;

type Unary = fn(&mut Builder, Value) -> Value;

/// What a function is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Plain,
    /// Products are added without being rounded.
    Fused,
    /// And powers of two scale by an instruction.
    Scaled,
}

/// What a function gave for every element.
struct Outcome {
    by: &'static str,
    /// What may be added to the error, in units of the last place, for products and sums that round twice.
    slack: f64,
    results: Vec<u64>,
}

/// Evaluates a function of one or two operands for every element, in all ways there are: as made for targets that round
/// products before they are added, for those that do not, and for those that scale by powers of two by an instruction, also
/// where it has to be spelled out after all.
fn evaluate(elem: Elem, inputs: &[&[u64]], f: &dyn Fn(&mut Builder, &[Value]) -> Value) -> Vec<Outcome> {
    let machines = [
        (Made::Plain, "x86-64-v2", 1.0, support::has_sse42()),
        (Made::Plain, "x86-64-v3", 0.0, support::has_avx2()),
        (Made::Fused, "x86-64-v3", 0.0, support::has_avx2()),
        (Made::Scaled, "x86-64-v3", 0.0, support::has_avx2()),
        (Made::Scaled, "x86-64-v4", 0.0, support::has_avx512()),
    ];
    let mut outcomes = Vec::new();
    for (made, by) in [
        (Made::Plain, "the interpreter"),
        (Made::Fused, "the interpreter, fused"),
        (Made::Scaled, "the interpreter, scaling"),
    ] {
        let function = function(elem, inputs, f, made);
        outcomes.push(Outcome { by, slack: 0.0, results: interpreted(elem, inputs, &function) });
        for (_, by, slack, available) in machines.into_iter().filter(|machine| machine.0 == made) {
            if !available {
                eprintln!("skipped: this machine does not run {by}");
                continue;
            }
            let target = by.parse().expect("a known target");
            let compiled = emit(&function, &target).unwrap_or_else(|error| panic!("{by}: {error}"));
            let buffers: Vec<Vec<u8>> = inputs.iter().map(|input| padded(elem, input)).collect();
            let mut bytes = vec![0; buffers[0].len()];
            let args: Vec<u64> =
                buffers.iter().map(|buffer| buffer.as_ptr() as u64).chain([bytes.as_mut_ptr() as u64]).collect();
            Executable::new(&compiled.code).call(&args, 0, 0, &mut []);
            outcomes.push(Outcome { by, slack, results: results(elem, inputs, &bytes) });
        }
    }
    outcomes
}

/// A loop that evaluates a function for all elements.
fn function(elem: Elem, inputs: &[&[u64]], f: &dyn Fn(&mut Builder, &[Value]) -> Value, made: Made) -> Function {
    let ty = Type::vector(elem, LANES);
    let mut b = Builder::new("f").with_scale(made == Made::Scaled).with_fma(made != Made::Plain);
    let args = b.param(0);
    let buffers: Vec<Value> =
        (0..=inputs.len()).map(|n| b.load(Type::scalar(Elem::I64), args, 8 * n as i32, Memory::ReadOnly)).collect();
    let (zero, end) = (b.iconst(0), b.iconst(padded(elem, inputs[0]).len() as i64));
    let (at, _) = b.loop_open(zero, end, i64::from(ty.size_bytes()), true, &[]);
    let operands: Vec<Value> = buffers[..inputs.len()]
        .iter()
        .map(|&buffer| {
            let address = b.add(buffer, at);
            b.load(ty, address, 0, Memory::ReadOnly)
        })
        .collect();
    let result = f(&mut b, &operands);
    assert_eq!(b.ty(result), ty, "a function keeps the type");
    let address = b.add(buffers[inputs.len()], at);
    b.store(result, address, 0);
    b.loop_close(&[]);
    let function = b.finish();
    infc_codegen_cpu::vir::verify::check(&function).expect("well-formed");
    function
}

fn interpreted(elem: Elem, inputs: &[&[u64]], function: &Function) -> Vec<u64> {
    let mut memory = AddressSpace::new();
    let mut addresses: Vec<u64> = inputs.iter().map(|input| memory.add(padded(elem, input))).collect();
    let out = memory.add(vec![0; padded(elem, inputs[0]).len()]);
    addresses.push(out);
    let args = memory.add(addresses.iter().flat_map(|address| address.to_le_bytes()).collect());
    run(function, [args, 0, 0, 0], &mut memory, u64::MAX).expect("runs");
    results(elem, inputs, memory.region(out))
}

/// The bytes of elements, and zeros up to whole vectors.
fn padded(elem: Elem, input: &[u64]) -> Vec<u8> {
    let size = elem.size_bytes() as usize;
    let mut bytes = vec![0; input.len().next_multiple_of(usize::from(LANES)) * size];
    for (chunk, bits) in bytes.chunks_mut(size).zip(input) {
        chunk.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    bytes
}

/// As many elements as there are inputs, from their bytes.
fn results(elem: Elem, inputs: &[&[u64]], bytes: &[u8]) -> Vec<u64> {
    let lanes = bytes.chunks(elem.size_bytes() as usize).take(inputs[0].len());
    lanes.map(|lane| lane.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))).collect()
}

fn check_f32(name: &str, f: Unary, reference: fn(f64) -> f64, range: (f64, f64), limit: f64) {
    let inputs: Vec<u64> =
        samples(range.0, range.1, 60_000, Float::F32).iter().map(|&x| u64::from((x as f32).to_bits())).collect();
    for Outcome { by, slack, results } in evaluate(Elem::F32, &[&inputs], &|b, x| f(b, x[0])) {
        let (mut worst, mut at) = (0.0, 0.0);
        for (&x, &y) in inputs.iter().zip(&results) {
            let x = f32::from_bits(x as u32);
            if !x.is_finite() || (range.0..=range.1).contains(&f64::from(x)) || range.1 > 1e30 {
                let error = ulps_f32(f32::from_bits(y as u32), reference(f64::from(x)));
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
        }
        assert!(worst <= limit + slack, "{name} by {by}: {worst} ulp at {at:e}, allowed {limit} + {slack}");
    }
}

fn check_f64(name: &str, f: Unary, reference: fn(f64) -> f64, range: (f64, f64), limit: f64) {
    let inputs: Vec<u64> = samples(range.0, range.1, 30_000, Float::F64).iter().map(|x| x.to_bits()).collect();
    for Outcome { by, slack, results } in evaluate(Elem::F64, &[&inputs], &|b, x| f(b, x[0])) {
        let (mut worst, mut at) = (0.0, 0.0);
        for (&x, &y) in inputs.iter().zip(&results) {
            let x = f64::from_bits(x);
            if !x.is_finite() || (range.0..=range.1).contains(&x) || range.1 > 1e300 {
                let error = ulps_f64(f64::from_bits(y), reference(x));
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
        }
        assert!(worst <= limit + slack, "{name} by {by}: {worst} ulp at {at:e}, allowed {limit} + {slack}");
    }
}

const ALL: (f64, f64) = (f64::MIN, f64::MAX);

/// As [`check_f32`], quarter by quarter of a range, so that the worst are among what is tried.
fn check_f32_densely(name: &str, f: Unary, reference: fn(f64) -> f64, quarters: std::ops::Range<i32>, limit: f64) {
    for quarter in quarters {
        let start = f64::from(quarter) * 0.25;
        check_f32(name, f, reference, (start, start + 0.25), limit);
    }
}

#[test]
fn exp_f32() {
    check_f32("exp", math::exp, f64::exp, (-105.0, 90.0), 1.0);
    check_f32_densely("exp", math::exp, f64::exp, -12..12, 1.0);
}

#[test]
fn log_f32() {
    check_f32("log", math::log, f64::ln, (0.0, 4.0), 1.0);
    check_f32("log", math::log, f64::ln, ALL, 1.0);
}

#[test]
fn sin_and_cos_f32() {
    for range in [(-4.0, 4.0), (-1000.0, 1000.0), (-2e8, 2e8), (-1e12, 1e12), ALL] {
        check_f32("sin", math::sin, f64::sin, range, 2.0);
        check_f32("cos", math::cos, f64::cos, range, 2.0);
    }
}

#[test]
fn sines_of_huge_f64_are_bounded() {
    let inputs: Vec<u64> = (20..1024).map(|n| (2f64.powi(n) * 1.234_567).to_bits()).collect();
    for f in [math::sin as Unary, math::cos] {
        for Outcome { by, results, .. } in evaluate(Elem::F64, &[&inputs], &|b, x| f(b, x[0])) {
            let found: Vec<f64> = results.into_iter().map(f64::from_bits).collect();
            assert!(found.iter().all(|y| y.abs() <= 1.0 + 1e-15), "by {by}: {found:?}");
        }
    }
}

#[test]
fn tanh_f32() {
    check_f32("tanh", math::tanh, f64::tanh, (-12.0, 12.0), 2.0);
    check_f32("tanh", math::tanh, f64::tanh, ALL, 2.0);
    check_f32_densely("tanh", math::tanh, f64::tanh, 0..16, 2.0);
}

#[test]
fn sigmoid_f32() {
    check_f32("sigmoid", math::sigmoid, sigmoid, (-105.0, 105.0), 3.0);
    check_f32("sigmoid", math::sigmoid, sigmoid, ALL, 3.0);
    check_f32_densely("sigmoid", math::sigmoid, sigmoid, -70..8, 3.0);
}

#[test]
fn erf_f32() {
    check_f32("erf", math::erf, erf, (-5.0, 5.0), 1.5);
    check_f32("erf", math::erf, erf, ALL, 1.5);
    check_f32_densely("erf", math::erf, erf, 0..8, 1.5);
}

#[test]
fn inverse_circular_f32() {
    for range in [(-1.0, 1.0), ALL] {
        check_f32("asin", math::asin, f64::asin, range, 2.5);
        check_f32("acos", math::acos, f64::acos, range, 2.5);
    }
    for range in [(-4.0, 4.0), ALL] {
        check_f32("atan", math::atan, f64::atan, range, 2.0);
    }
}

#[test]
fn hyperbolic_f32() {
    for range in [(-91.0, 91.0), (-2.0, 2.0), ALL] {
        check_f32("sinh", math::sinh, f64::sinh, range, 2.0);
        check_f32("cosh", math::cosh, f64::cosh, range, 2.0);
        check_f32("asinh", math::asinh, asinh, range, 4.0);
        check_f32("acosh", math::acosh, acosh, range, 4.0);
    }
    for range in [(-1.0, 1.0), ALL] {
        check_f32("atanh", math::atanh, atanh, range, 4.0);
    }
}

#[test]
fn inverse_and_hyperbolic_f64() {
    check_f64("asin", math::asin, f64::asin, (-1.0, 1.0), 2.0);
    check_f64("acos", math::acos, f64::acos, (-1.0, 1.0), 2.0);
    for range in [(-4.0, 4.0), ALL] {
        check_f64("atan", math::atan, f64::atan, range, 2.0);
    }
    for range in [(-712.0, 712.0), (-2.0, 2.0), ALL] {
        check_f64("sinh", math::sinh, f64::sinh, range, 2.0);
        check_f64("cosh", math::cosh, f64::cosh, range, 2.0);
        check_f64("asinh", math::asinh, asinh, range, 4.0);
        check_f64("acosh", math::acosh, acosh, range, 4.0);
    }
    check_f64("atanh", math::atanh, atanh, (-1.0, 1.0), 4.0);
}

#[test]
fn f64_functions() {
    check_f64("exp", math::exp, f64::exp, (-746.0, 711.0), 1.0);
    check_f64("log", math::log, f64::ln, (0.0, 4.0), 1.0);
    check_f64("log", math::log, f64::ln, ALL, 1.0);
    check_f64("sin", math::sin, f64::sin, (-1e6, 1e6), 1.0);
    check_f64("cos", math::cos, f64::cos, (-1e6, 1e6), 1.0);
    check_f64("tanh", math::tanh, f64::tanh, (-25.0, 25.0), 2.0);
    check_f64("tanh", math::tanh, f64::tanh, ALL, 2.0);
    // The sums above are themselves off by up to three units.
    check_f64("erf", math::erf, erf, (-6.5, 6.5), 6.0);
}

#[test]
fn pow_f32() {
    let bases = samples(-20.0, 20.0, 300, Float::F32);
    let mut exponents: Vec<f64> = SPECIAL.to_vec();
    exponents.extend((-40..=40).map(|n| f64::from(n) * 0.75));
    let pairs: Vec<(f32, f32)> =
        bases.iter().flat_map(|&x| exponents.iter().map(move |&y| (x as f32, y as f32))).collect();
    let x: Vec<u64> = pairs.iter().map(|pair| u64::from(pair.0.to_bits())).collect();
    let y: Vec<u64> = pairs.iter().map(|pair| u64::from(pair.1.to_bits())).collect();
    for Outcome { by, slack, results } in evaluate(Elem::F32, &[&x, &y], &|b, v| math::pow(b, v[0], v[1])) {
        for (&(x, y), found) in pairs.iter().zip(results) {
            let expected = f64::from(x).powf(f64::from(y));
            let error = ulps_f32(f32::from_bits(found as u32), expected);
            assert!(error <= 1.0 + slack, "{x:e} to {y:e} by {by}: {error} ulp");
        }
    }
}

#[test]
fn pow_f64() {
    let bases = samples(-20.0, 20.0, 100, Float::F64);
    let mut exponents: Vec<f64> = SPECIAL.to_vec();
    exponents.extend((-40..=40).map(|n| f64::from(n) * 0.75));
    let pairs: Vec<(f64, f64)> =
        bases.iter().step_by(7).flat_map(|&x| exponents.iter().map(move |&y| (x, y))).collect();
    let x: Vec<u64> = pairs.iter().map(|pair| pair.0.to_bits()).collect();
    let y: Vec<u64> = pairs.iter().map(|pair| pair.1.to_bits()).collect();
    for Outcome { by, slack, results } in evaluate(Elem::F64, &[&x, &y], &|b, v| math::pow(b, v[0], v[1])) {
        // Without fused operations there is no second word of the logarithm.
        let limit = if slack > 0.0 { 1000.0 } else { 16.0 };
        for (&(x, y), found) in pairs.iter().zip(results) {
            let error = ulps_f64(f64::from_bits(found), x.powf(y));
            assert!(error <= limit, "{x:e} to {y:e} by {by}: {error} ulp");
        }
    }
}

#[test]
fn constant_powers_are_exact_special_cases() {
    let xs: Vec<f32> = samples(-20.0, 20.0, 300, Float::F32).iter().map(|&x| x as f32).collect();
    let bits: Vec<u64> = xs.iter().map(|x| u64::from(x.to_bits())).collect();
    for exponent in [0.0, 1.0, -1.0, 2.0, 3.0, 0.5] {
        let outcomes = evaluate(Elem::F32, &[&bits], &|b, v| {
            let y = b.fconst(b.ty(v[0]), exponent);
            math::pow(b, v[0], y)
        });
        for Outcome { by, results, .. } in outcomes {
            for (&x, &found) in xs.iter().zip(&results) {
                let error = ulps_f32(f32::from_bits(found as u32), f64::from(x).powf(exponent));
                assert!(error <= 1.5, "{x:e} to {exponent} by {by}: {error} ulp");
            }
        }
    }
}
