//! Elementary functions as PTX, executed by the simulator: as exact as the expansions promise, on samples of all sizes,
//! signed zeros, subnormal and huge numbers, infinities and NaN.

mod assembler;
mod device;

use device::execute;
use infc_codegen_ptx::{PtxTarget, emit};
use infc_ir::kernel::Kernel;
use infc_ir::math::Float;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, gpu};
use infc_tensor::{DType, Tensor};
use infc_testkit::functions::{SPECIAL, acosh, asinh, atanh, erf, samples, sigmoid, ulps_f32, ulps_f64};

fn kernel(dtype: &str, expression: &str) -> Kernel {
    let text = format!(
        "kernel @f(x: {dtype}[N], y: {dtype}[N]) -> (z: {dtype}[N]) where N in 1.. {{\n  stage f[n: N] = {expression}\n  output z[n] = f[n]\n}}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// What a kernel makes of each element, of which there are `y` too.
fn map(dtype: &str, expression: &str, x: &Tensor, y: &Tensor) -> Tensor {
    let kernel = kernel(dtype, expression);
    let schedule = gpu::choose(&kernel, &gpu::GpuMachine::default(), ErrorClass::Exact);
    let nest = apply(&kernel, &schedule).expect("a legal schedule");
    let module = emit(&nest, &PtxTarget::default()).unwrap_or_else(|e| panic!("{expression} on {dtype}: {e}"));
    let symbols = [x.shape()[0] as i64];
    let outputs = execute(&kernel, &nest, &module, &module.text, &symbols, &[x.clone(), y.clone()], 0);
    outputs.unwrap_or_else(|e| panic!("{expression} on {dtype}: {e}\n{}", module.text)).remove(0)
}

/// All of them together, for every generation.
#[test]
fn the_assembler_takes_them() {
    let unary = [
        "exp", "log", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh",
    ];
    let mut expressions: Vec<String> = unary.iter().map(|name| format!("{name}(x[n])")).collect();
    expressions.extend(["pow(x[n], y[n])", "rem(x[n], y[n])", "max(x[n], y[n])"].map(str::to_owned));
    let kernels: Vec<Kernel> =
        ["f32", "f64"].iter().flat_map(|dtype| expressions.iter().map(|e| kernel(dtype, e))).collect();
    assembler::assemble(|target| {
        let made = kernels.iter().map(|kernel| {
            let schedule = gpu::choose(kernel, &gpu::GpuMachine::default(), ErrorClass::Exact);
            emit(&apply(kernel, &schedule).expect("a legal schedule"), target).expect("all have PTX")
        });
        made.collect()
    });
}

fn tensor(float: Float, values: &[f64]) -> Tensor {
    let single: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let made = match float {
        Float::F32 => Tensor::from_elements(&[values.len()], &single),
        Float::F64 => Tensor::from_elements(&[values.len()], values),
    };
    made.expect("as many as it says")
}

fn values(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F32 => tensor.elements::<f32>().expect("floats").iter().map(|&x| f64::from(x)).collect(),
        _ => tensor.elements::<f64>().expect("floats").to_vec(),
    }
}

/// Holds `expression` to at most so many units of the last place, for pairs of arguments.
fn check(float: Float, expression: &str, pairs: &[(f64, f64)], limit: f64, exact: impl Fn(f64, f64) -> f64) {
    let dtype = if float == Float::F32 { "f32" } else { "f64" };
    let x = tensor(float, &pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let y = tensor(float, &pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let found = values(&map(dtype, expression, &x, &y));
    let (mut worst, mut at) = (0.0, (0.0, 0.0));
    for ((&x, &y), &z) in values(&x).iter().zip(&values(&y)).zip(&found) {
        let expected = exact(x, y);
        let error = if float == Float::F32 { ulps_f32(z as f32, expected) } else { ulps_f64(z, expected) };
        if error > worst {
            (worst, at) = (error, (x, y));
        }
    }
    assert!(worst <= limit, "{expression} of {dtype}: {worst} ulp at {at:?}, allowed {limit}");
}

type Range = (f64, f64);

/// Every function with its exact values, where it is sampled, and how far off it may be.
fn unary(float: Float, name: &str, exact: fn(f64) -> f64, range: Range, limit: f64) {
    let inside = |x: &f64| !x.is_finite() || (range.0..=range.1).contains(x);
    let points: Vec<(f64, f64)> =
        samples(range.0, range.1, 2000, float).into_iter().filter(inside).map(|x| (x, 0.0)).collect();
    check(float, &format!("{name}(x[n])"), &points, limit, |x, _| exact(x));
}

const ALL_F32: Range = (-3.4e38, 3.4e38);
const ALL: Range = (f64::MIN, f64::MAX);

#[test]
fn functions_of_f32() {
    let of = |name: &str, exact: fn(f64) -> f64, near: Range, limit: f64| {
        for range in [near, ALL_F32] {
            unary(Float::F32, name, exact, range, limit);
        }
    };
    of("exp", f64::exp, (-105.0, 90.0), 1.0);
    of("log", f64::ln, (0.0, 4.0), 1.0);
    of("sigmoid", sigmoid, (-105.0, 105.0), 2.0);
    of("erf", erf, (-5.0, 5.0), 1.5);
    of("sin", f64::sin, (-1000.0, 1000.0), 2.0);
    of("cos", f64::cos, (-1000.0, 1000.0), 2.0);
    of("tan", f64::tan, (-1000.0, 1000.0), 5.0);
    of("asin", f64::asin, (-1.0, 1.0), 2.5);
    of("acos", f64::acos, (-1.0, 1.0), 2.5);
    of("atan", f64::atan, (-4.0, 4.0), 2.0);
    of("sinh", f64::sinh, (-91.0, 91.0), 2.0);
    of("cosh", f64::cosh, (-91.0, 91.0), 2.0);
    of("tanh", f64::tanh, (-12.0, 12.0), 2.0);
    of("asinh", asinh, (-2.0, 2.0), 4.0);
    of("acosh", acosh, (1.0, 4.0), 4.0);
    of("atanh", atanh, (-1.0, 1.0), 4.0);
}

#[test]
fn functions_of_f64() {
    let of = |name: &str, exact: fn(f64) -> f64, ranges: &[Range], limit: f64| {
        for &range in ranges {
            unary(Float::F64, name, exact, range, limit);
        }
    };
    of("exp", f64::exp, &[(-746.0, 711.0), ALL], 1.0);
    of("log", f64::ln, &[(0.0, 4.0), ALL], 1.0);
    of("sigmoid", sigmoid, &[(-750.0, 750.0)], 3.0);
    of("erf", erf, &[(-6.5, 6.5)], 6.0);
    of("sin", f64::sin, &[(-1e6, 1e6)], 1.0);
    of("cos", f64::cos, &[(-1e6, 1e6)], 1.0);
    of("asin", f64::asin, &[(-1.0, 1.0)], 2.0);
    of("acos", f64::acos, &[(-1.0, 1.0)], 2.0);
    of("atan", f64::atan, &[(-4.0, 4.0), ALL], 2.0);
    of("sinh", f64::sinh, &[(-712.0, 712.0), ALL], 2.0);
    of("cosh", f64::cosh, &[(-712.0, 712.0), ALL], 2.0);
    of("tanh", f64::tanh, &[(-25.0, 25.0), ALL], 2.0);
    of("asinh", asinh, &[(-2.0, 2.0), ALL], 4.0);
    of("acosh", acosh, &[(1.0, 4.0), ALL], 4.0);
    of("atanh", atanh, &[(-1.0, 1.0)], 4.0);
}

/// Every sampled base with every exponent.
fn pairs(float: Float, bases: u32, each: usize) -> Vec<(f64, f64)> {
    let bases = samples(-20.0, 20.0, bases, float);
    let mut exponents: Vec<f64> = SPECIAL.to_vec();
    exponents.extend((-10..=10).map(|n| f64::from(n) * 0.75));
    bases.iter().step_by(each).flat_map(|&x| exponents.iter().map(move |&y| (x, y))).collect()
}

#[test]
fn powers() {
    check(Float::F32, "pow(x[n], y[n])", &pairs(Float::F32, 300, 7), 1.0, f64::powf);
    check(Float::F64, "pow(x[n], y[n])", &pairs(Float::F64, 100, 53), 16.0, f64::powf);
    let bases: Vec<(f64, f64)> = samples(-20.0, 20.0, 300, Float::F32).into_iter().map(|x| (x, 0.0)).collect();
    for exponent in [0.0, 1.0, -1.0, 2.0, 3.0, 0.5] {
        check(Float::F32, &format!("pow(x[n], {exponent:?})"), &bases, 1.5, |x, _| x.powf(exponent));
    }
}

/// C's `fmod`, and Python's `%`, where quotients are small enough for an exact remainder; NaN from either operand.
#[test]
fn remainders_and_extremes() {
    let small = [-7.5, -3.0, -0.0, 0.0, 0.25, 1.0, 2.0, 5.5, 1e6, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let all: Vec<(f64, f64)> = small.iter().flat_map(|&x| small.iter().map(move |&y| (x, y))).collect();
    let finite: Vec<(f64, f64)> =
        all.iter().copied().filter(|(x, y)| x.abs() < 1e3 && y.abs() > 0.0 && !y.is_nan() && *x != 0.0).collect();
    let modulo = |x: f64, y: f64| {
        let rest = x % y;
        if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest.abs().copysign(rest) }
    };
    let extreme = |larger: bool| {
        move |x: f64, y: f64| {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else if larger {
                x.max(y)
            } else {
                x.min(y)
            }
        }
    };
    for float in [Float::F32, Float::F64] {
        check(float, "abs(rem(x[n], y[n]))", &finite, 0.0, |x, y| (x % y).abs());
        check(float, "x[n] % y[n] + 0.0", &finite, 0.0, |x, y| modulo(x, y) + 0.0);
        check(float, "abs(max(x[n], y[n]))", &all, 0.0, |x, y| extreme(true)(x, y).abs());
        check(float, "abs(min(x[n], y[n]))", &all, 0.0, |x, y| extreme(false)(x, y).abs());
    }
}

/// Powers of integers wrap; under a negative exponent all but 1 and −1 vanish.
#[test]
fn integer_powers() {
    let x = [-3i64, -1, 0, 1, 2, 3, 7, 10, -2, 5];
    let y = [5i64, -3, 0, -7, 62, 40, 22, 19, -1, 1];
    let tensor = |values: &[i64]| Tensor::from_elements(&[values.len()], values).expect("as many as it says");
    let found = map("i64", "pow(x[n], y[n])", &tensor(&x), &tensor(&y));
    let expected: Vec<i64> = x
        .iter()
        .zip(&y)
        .map(|(&x, &y)| match (x, y) {
            (1, _) => 1,
            (-1, y) => 1 - 2 * (y & 1),
            (_, ..0) => 0,
            (x, y) => x.wrapping_pow(y as u32),
        })
        .collect();
    assert_eq!(found.elements::<i64>().expect("integers"), &expected[..]);
}
