//! Values between kernels of models in FP16 and BF16 are stored as halves, and every rounding of the model stays: bit for bit
//! on all levels, since all sums here are exact in f32.

mod here;
mod net;

use infc::{Compilation, CompileOptions};
use infc_passes::form::BufferPlace;
use infc_tensor::{DType, Element, Tensor, bf16, f16};
use net::{Attr, Net};

const TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

trait Half: Element {
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
}

impl Half for f16 {
    fn of(x: f64) -> Self {
        f16::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

impl Half for bf16 {
    fn of(x: f64) -> Self {
        bf16::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

/// `[N, C, H, W]`
type Shape = [usize; 4];

/// Multiples of `unit` up to 63 of them, of either sign, none zero.
fn numbers(count: usize, unit: f64, seed: usize) -> Vec<f64> {
    let number = |n: usize| {
        let mixed = (n + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(0x9e37_79b9)) >> 9;
        let size = (mixed % 63 + 1) as f64 * unit;
        if mixed & 64 == 0 { size } else { -size }
    };
    (0..count).map(number).collect()
}

fn tensor<T: Half>(shape: &[usize], numbers: &[f64]) -> Tensor {
    let elements: Vec<T> = numbers.iter().map(|&x| T::of(x)).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

/// Factors per channel, and filters of 3×3 points.
fn weights(channels: usize) -> [Vec<f64>; 2] {
    let eighths = |n: f64| (n / 8.0).round().clamp(-7.0, 7.0) + 0.5;
    [numbers(channels, 1.0 / 64.0, 5), numbers(channels * 9, 1.0, 7).into_iter().map(|n| eighths(n) / 8.0).collect()]
}

/// `a = x·s`, `b = a ∗ w`, `y = s·largest neighbour of b`, with steps of 2.
fn net<T: Half>([n, c, h, w]: [&str; 4], channels: usize) -> Net {
    let [factors, filters] = weights(channels);
    let (around, steps) = (("pads", Attr::Ints(&[1, 1, 1, 1])), ("strides", Attr::Ints(&[2, 2])));
    Net::new(17)
        .input("x", T::DTYPE, &[n, c, h, w])
        .constant("s", &tensor::<T>(&[channels, 1, 1], &factors))
        .constant("w", &tensor::<T>(&[channels, 1, 3, 3], &filters))
        .node("Mul", &["x", "s"], &["a"], &[])
        .node("Conv", &["a", "w"], &["b"], &[around, steps, ("group", Attr::Int(channels as i64))])
        .node("MaxPool", &["b"], &["m"], &[around, steps, ("kernel_shape", Attr::Ints(&[3, 3]))])
        .node("Mul", &["m", "s"], &["y"], &[])
        .output("y")
}

/// The shape of every second row and column.
fn halved([n, c, h, w]: Shape) -> Shape {
    [n, c, h.div_ceil(2), w.div_ceil(2)]
}

/// Per point of every second row and column: which taps of a window of 3×3 around it are there, and where.
fn windows([n, c, h, w]: Shape) -> impl Iterator<Item = (usize, Vec<(usize, usize)>)> {
    let [_, _, rows, columns] = halved([n, c, h, w]);
    (0..n * c * rows * columns).map(move |at| {
        let (image, row, column) = (at / (rows * columns), at / columns % rows * 2, at % columns * 2);
        let place = |tap: usize| {
            let (r, q) = (row + tap / 3, column + tap % 3);
            let inside = (1..=h).contains(&r) && (1..=w).contains(&q);
            inside.then(|| (tap, (image * h + r - 1) * w + q - 1))
        };
        (image % c, (0..9).filter_map(place).collect())
    })
}

/// What it means, with every value rounded once.
fn expected<T: Half>(x: &[f64], shape: Shape) -> Vec<f64> {
    let round = |x: f64| T::of(x).wide();
    let [factors, filters] = weights(shape[1]).map(|w| w.into_iter().map(round).collect::<Vec<f64>>());
    let area = shape[2] * shape[3];
    let a: Vec<f64> = x.iter().enumerate().map(|(at, x)| round(x * factors[at / area % shape[1]])).collect();
    let sum = |(channel, taps): (usize, Vec<(usize, usize)>)| {
        round(taps.into_iter().map(|(tap, from)| a[from] * filters[channel * 9 + tap]).sum())
    };
    let b: Vec<f64> = windows(shape).map(sum).collect();
    let largest = |p: f64, q: f64| if p.is_nan() || p > q { p } else { q };
    let extremum = |(channel, taps): (usize, Vec<(usize, usize)>)| {
        round(taps.into_iter().map(|(_, from)| b[from]).fold(f64::NEG_INFINITY, largest) * factors[channel])
    };
    windows(halved(shape)).map(extremum).collect()
}

fn compiled(net: Net) -> Compilation {
    let targets = TARGETS.map(str::to_owned).to_vec();
    net.compile(&CompileOptions { targets, ..CompileOptions::default() }).unwrap_or_else(|e| panic!("{e}"))
}

/// The model of these sizes, whose values are all halves in memory; of one channel neighbours lie along a row, of which
/// windows read every second.
fn model<T: Half>(dims: [&str; 4], channels: usize) -> Vec<u8> {
    let compilation = compiled(net::<T>(dims, channels));
    let plan = compilation.plan.as_ref().expect("a plan");
    let between: Vec<DType> = plan.buffers.iter().filter(|b| b.place == BufferPlace::Arena).map(|b| b.dtype).collect();
    let are_halves = between.len() >= 2 && between.iter().all(|&dtype| dtype == T::DTYPE);
    assert!(are_halves || channels == 1, "{channels}: {between:?}");
    compilation.to_bytes().expect("an artifact")
}

fn agrees<T: Half>(bytes: &[u8], x: &[f64], shape: Shape) {
    let input = tensor::<T>(&shape, x);
    let stored: Vec<f64> = input.elements::<T>().expect("halves").iter().map(|x| x.wide()).collect();
    let expected = expected::<T>(&stored, shape);
    here::on_each(bytes, &TARGETS, |target, session| {
        let found = session.run_owned(&[&input]).unwrap_or_else(|e| panic!("{e}")).remove(0);
        assert_eq!((found.dtype(), found.shape()), (T::DTYPE, &halved(halved(shape))[..]));
        let found = found.elements::<T>().expect("halves");
        for (at, (found, &wanted)) in found.iter().zip(&expected).enumerate() {
            let found = found.wide();
            let is_same = found == wanted || found.is_nan() && wanted.is_nan();
            assert!(is_same, "{shape:?} for {target} at {at}: {found}, not {wanted}");
        }
    });
}

fn ragged<T: Half>() {
    for shape in [[1, 1, 3, 4], [1, 3, 5, 7], [2, 8, 7, 9], [1, 15, 3, 4], [1, 17, 9, 15], [1, 33, 8, 16]] {
        let [n, c, h, w] = shape.map(|extent: usize| extent.to_string());
        let bytes = model::<T>([&n, &c, &h, &w], shape[1]);
        let count = shape.iter().product();
        // The second are subnormal in FP16, and so is what is computed of them.
        for unit in [1.0 / 8.0, 2f64.powi(-24)] {
            agrees::<T>(&bytes, &numbers(count, unit, count), shape);
        }
        let mut special = numbers(count, 1.0 / 8.0, 3);
        special[0] = f64::NAN;
        special[count / 2] = f64::INFINITY;
        special[count - 1] = f64::NEG_INFINITY;
        agrees::<T>(&bytes, &special, shape);
    }
}

#[test]
fn values_of_f16_lie_as_halves() {
    ragged::<f16>();
}

#[test]
fn values_of_bf16_lie_as_halves() {
    ragged::<bf16>();
}

#[test]
fn sizes_that_the_run_tells() {
    let bytes = model::<f16>(["N", "5", "H", "9"], 5);
    for shape in [[0, 5, 4, 9], [1, 5, 1, 9], [3, 5, 67, 9]] {
        agrees::<f16>(&bytes, &numbers(shape.iter().product(), 1.0 / 8.0, 1), shape);
    }
}

/// Windows with steps of 2 along the neighbours in memory: vectors are put together of elements that lie apart, which takes
/// ten times as long of halves.
#[test]
fn what_is_read_element_by_element_stays_wide() {
    let steps = [("strides", Attr::Ints(&[2, 2])), ("kernel_shape", Attr::Ints(&[3, 3]))];
    let net = Net::new(17)
        .input("x", DType::F32, &["1", "6", "41", "49"])
        .node("Sigmoid", &["x"], &["s"], &[])
        .node("Cast", &["s"], &["half"], &[("to", Attr::Int(10))])
        .node("Cast", &["half"], &["a"], &[("to", Attr::Int(1))])
        .node("MaxPool", &["a"], &["y"], &steps)
        .output("y");
    let compilation = compiled(net);
    let plan = compilation.plan.as_ref().expect("a plan");
    let between = plan.buffers.iter().filter(|b| b.place == BufferPlace::Arena);
    assert!(between.map(|b| b.dtype).eq([DType::F32]), "{plan}");
}
