//! Models in FP16 and BF16: weights lie in the artifact as halves, on every level that this machine has the results are
//! those of f32 rounded once.

mod net;

use infc::{Compilation, CompileOptions};
use infc_runtime::{Model, SessionOptions};
use infc_tensor::{DType, Element, Tensor, bf16, f16};
use net::Net;

const TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

trait Half: Element {
    /// Bits of the significand.
    const PRECISION: i32;
    fn of(x: f32) -> Self;
    fn wide(self) -> f64;
}

impl Half for f16 {
    const PRECISION: i32 = 11;
    fn of(x: f32) -> Self {
        f16::from_f32(x)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

impl Half for bf16 {
    const PRECISION: i32 = 8;
    fn of(x: f32) -> Self {
        bf16::from_f32(x)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

/// Numbers that look random, from −1 to 1, some of them small enough to be subnormal halves.
fn numbers<T: Half>(shape: &[usize], seed: usize) -> Tensor {
    let number = |n: usize| {
        let mixed = (n + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(0x9e37_79b9)) >> 7;
        let x = (mixed & 0xffff) as f32 / 32768.0 - 1.0;
        T::of(if mixed.is_multiple_of(11) { x * 6e-8 } else { x })
    };
    let elements: Vec<T> = (0..shape.iter().product()).map(number).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

fn compiled(net: Net, target: &str) -> Compilation {
    let options = CompileOptions { targets: vec![target.to_owned()], ..CompileOptions::default() };
    net.compile(&options).unwrap_or_else(|e| panic!("{e}"))
}

/// What a compiled model computes; `None` where this machine does not run it.
fn run(compilation: &Compilation, input: &Tensor) -> Option<Tensor> {
    let model = match Model::from_vec(compilation.to_bytes().expect("an artifact")) {
        Ok(model) => model,
        Err(error) if error.code() == "artifact::wrong-target" => return None,
        Err(error) => panic!("{error}"),
    };
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    Some(session.run_owned(&[input]).unwrap_or_else(|e| panic!("{e}")).remove(0))
}

fn product<T: Half>(m: &str, w: &Tensor) -> Net {
    let k = w.shape()[0].to_string();
    Net::new(17).input("x", T::DTYPE, &[m, &k]).constant("w", w).node("MatMul", &["x", "w"], &["y"], &[]).output("y")
}

/// The result is that of one rounding of a sum that is off by no more than sums of f32 may be.
fn agrees<T: Half>(x: &Tensor, w: &Tensor, y: &Tensor, what: &str) {
    let ([k, n], all) = ([w.shape()[0], w.shape()[1]], |t: &Tensor| -> Vec<f64> {
        t.elements::<T>().expect("halves").iter().map(|&x| x.wide()).collect()
    });
    assert_eq!((y.dtype(), y.shape()), (T::DTYPE, &[x.shape()[0], n][..]), "{what}");
    let (x, w, y) = (all(x), all(w), all(y));
    for (at, &found) in y.iter().enumerate() {
        let terms = (0..k).map(|i| x[at / n * k + i] * w[i * n + at % n]);
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + f64::abs(t)));
        let step = 2f64.powi(sum.abs().max(1e-30).log2().floor() as i32 + 1 - T::PRECISION).max(2f64.powi(-24));
        let apart = (found - sum).abs();
        assert!(apart <= step * 0.501 + size * 2e-6, "{what} at {at}: {found}, not {sum}");
    }
}

fn ragged<T: Half>() {
    let mut ran = 0;
    for (m, k, n) in
        [(1, 8, 8), (1, 64, 1000), (3, 9, 15), (7, 13, 16), (5, 31, 17), (13, 62, 33), (31, 17, 48), (64, 127, 64)]
    {
        let (x, w) = (numbers::<T>(&[m, k], m), numbers::<T>(&[k, n], 3));
        for target in TARGETS {
            let compilation = compiled(product::<T>(&m.to_string(), &w), target);
            // In panels of 16 columns.
            let bytes = compilation.report.weight_bytes;
            assert!(bytes as usize <= k * n.next_multiple_of(16) * 2, "{m}×{k}×{n}: {bytes} bytes");
            let Some(y) = run(&compilation, &x) else { continue };
            agrees::<T>(&x, &w, &y, &format!("{m}×{k}×{n} for {target}"));
            ran += 1;
        }
    }
    assert!(ran > 0, "this machine runs none of the targets");
}

#[test]
fn products_of_f16_read_weights_of_two_bytes() {
    ragged::<f16>();
}

#[test]
fn products_of_bf16_read_weights_of_two_bytes() {
    ragged::<bf16>();
}

/// No rows; some, of a number that only the run tells; and numbers that are none.
#[test]
fn empty_and_special_operands() {
    let w = numbers::<f16>(&[32, 24], 3);
    for target in TARGETS {
        let compilation = compiled(product::<f16>("N", &w), target);
        let Some(none) = run(&compilation, &numbers::<f16>(&[0, 32], 1)) else { continue };
        assert_eq!(none.shape(), [0, 24]);
        let mut x = numbers::<f16>(&[19, 32], 1);
        let elements = x.elements_mut::<f16>().expect("halves");
        elements[5] = f16::NAN;
        elements[40] = f16::INFINITY;
        let y = run(&compilation, &x).expect("it ran before");
        let y: Vec<f16> = y.elements::<f16>().expect("halves").to_vec();
        let column_is_zero = |n: usize| w.elements::<f16>().expect("halves")[8 * 24 + n] == f16::ZERO;
        assert!(y[..24].iter().all(|y| y.is_nan()), "{target}: {y:?}");
        assert!((0..24).all(|n| y[24 + n].is_infinite() || column_is_zero(n)), "{target}: {y:?}");
        assert!(y[48..].iter().all(|y| y.is_finite()), "{target}: {y:?}");
    }
}

#[test]
fn a_convolution_reads_weights_of_two_bytes() {
    let (x, w) = (numbers::<f16>(&[1, 32, 9, 11], 1), numbers::<f16>(&[24, 32, 1, 1], 5));
    for target in TARGETS {
        let net = Net::new(17).input("x", DType::F16, &["1", "32", "9", "11"]).constant("w", &w);
        let compilation = compiled(net.node("Conv", &["x", "w"], &["y"], &[]).output("y"), target);
        assert!(compilation.report.weight_bytes <= 32 * 32 * 2, "{} bytes", compilation.report.weight_bytes);
        let Some(y) = run(&compilation, &x) else { continue };
        let at = |t: &Tensor, n: usize| t.elements::<f16>().expect("halves")[n].to_f64();
        for (n, found) in y.elements::<f16>().expect("halves").iter().enumerate() {
            let (channel, point) = (n / 99, n % 99);
            let sum: f64 = (0..32).map(|c| at(&x, c * 99 + point) * at(&w, channel * 32 + c)).sum();
            assert!((found.to_f64() - sum).abs() <= 2e-3, "{target} at {n}: {found}, not {sum}");
        }
    }
}

/// What stands for elements of a weight that are not there is no half, though its elements are.
#[test]
fn padding_of_weights_is_not_rounded() {
    let whole: Vec<f32> = (0..32 * 64).map(|n| (n % 7) as f32 - 3.0).collect();
    let weights = Tensor::from_elements(&[32, 64], &whole).expect("as many as the shape says");
    let pads = Tensor::from_elements(&[4], &[96i64, 0, 0, 0]).expect("four");
    let value = Tensor::from_elements(&[], &[1.0e6f32]).expect("one");
    for target in TARGETS {
        let net = Net::new(18)
            .input("x", DType::F32, &["30", "128"])
            .constant("w", &weights)
            .constant("pads", &pads)
            .constant("value", &value)
            .node("Pad", &["w", "pads", "value"], &["padded"], &[])
            .node("MatMul", &["x", "padded"], &["y"], &[])
            .output("y");
        let ones = Tensor::from_elements(&[30, 128], &vec![1.0f32; 30 * 128]).expect("as many as the shape says");
        let Some(found) = run(&compiled(net, target), &ones) else { continue };
        for (n, &y) in found.elements::<f32>().expect("floats").iter().enumerate() {
            let expected = 96.0e6 + (0..32).map(|row| whole[row * 64 + n % 64]).sum::<f32>();
            assert!((y - expected).abs() <= 16.0, "{target}: {y} for {expected}");
        }
    }
}
