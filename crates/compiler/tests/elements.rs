//! Graphs of core ops all the way to machine code, against the interpreter, bit for bit, on every level that this
//! machine has: conversions, bits, powers of integers, ports that hold bytes, choices between branches.

mod here;

use infc::{CompileOptions, Phase, Source};
use infc_ir::interp::run_graph;
use infc_ir::text::parse_graph;
use infc_runtime::Tensor;
use infc_tensor::{AlignedBytes, DType, Element};

const TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

#[track_caller]
fn agrees(text: &str, symbols: &[i64], inputs: &[Tensor]) {
    let graph = parse_graph(text, &|_| None).expect("a graph");
    let expected = run_graph(&graph, symbols, inputs).expect("the interpreter runs it");
    let targets: Vec<String> = TARGETS.map(str::to_owned).to_vec();
    let options = CompileOptions { targets: targets.clone(), start_from: Some(Phase::Simplify), ..Default::default() };
    let compilation = infc::compile(&Source::bytes(text), &options, &mut ()).expect("it compiles");
    let bytes = compilation.to_bytes().expect("an artifact");
    here::on_each(&bytes, &targets, |target, session| {
        let found = session.run_owned(&inputs.iter().collect::<Vec<_>>()).expect("it runs");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{target}");
            let width = found.dtype().size_bytes().unwrap_or(1);
            for (n, (a, b)) in found.bytes().chunks(width).zip(expected.bytes().chunks(width)).enumerate() {
                let both_nan =
                    found.get_f64(n).is_some_and(f64::is_nan) && expected.get_f64(n).is_some_and(f64::is_nan);
                assert!(a == b || both_nan, "{target}, element {n}: {a:x?}, expected {b:x?}");
            }
        }
    });
}

fn vector<T: Element>(elements: &[T]) -> Tensor {
    Tensor::from_elements(&[elements.len()], elements).expect("a vector")
}

fn of_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    Tensor::from_bytes(dtype, shape.to_vec(), AlignedBytes::from_slice(bytes)).expect("as many as the shape has")
}

#[test]
fn bits_are_taken_as_other_types() {
    for (width, types) in [(1, "i8 u8"), (2, "i16 u16 f16 bf16"), (4, "i32 u32 f32"), (8, "i64 u64 f64")] {
        let types: Vec<DType> = types.split(' ').map(|t| t.parse().expect("a type")).collect();
        // An odd number, so that there are remainders; no NaN, which may change.
        let bytes: Vec<u8> = (0..37 * width).map(|n| (n * 83 + 5) as u8 & 0x3f).collect();
        for &from in &types {
            for &to in types.iter().filter(|&&to| to != from) {
                // What memory holds, and what is computed just before and after.
                let text = format!(
                    "graph @bits(%x: {from}[37]) -> (y: %0, z: %1) {{
                       %0 = map [x -> bits_{to}(x)] %x : {to}[37]
                       %1 = map [x -> bits_{from}(bits_{to}(x + 1) + 1) + 1] %x : {from}[37]
                     }}"
                );
                agrees(&text, &[], &[of_bytes(from, &[37], &bytes)]);
            }
        }
    }
}

/// Half of the range of u64 is beyond that of i64, which is what machines convert.
#[test]
fn numbers_from_2_to_the_63_on_are_converted() {
    let large = [
        u64::MAX,
        u64::MAX - 127,
        1 << 63,
        (1 << 63) - 1,
        (1 << 63) + (1 << 40),
        7,
        0,
        3 << 62,
        1 << 62,
        12345,
        // Beyond the middle of two f32 by what an f64 does not hold.
        (1 << 63) + (1 << 39) + 1,
        (1 << 62) + (1 << 38) + 1,
    ];
    // More than a vector, and a remainder.
    let numbers: Vec<u64> = large.iter().copied().cycle().take(37).collect();
    for float in ["f64", "f32", "bf16"] {
        let text = format!(
            "graph @from(%x: u64[37]) -> (y: %0, z: %1) {{
               %0 = map [x -> {float}(x)] %x : {float}[37]
               %1 = map [x -> {float}(x) * 0.5] %x : {float}[37]
             }}"
        );
        agrees(&text, &[], &[vector(&numbers)]);
    }
}

#[test]
fn floats_from_2_to_the_63_on_become_integers() {
    let limit = 2f64.powi(63);
    // Either side of 2⁶³, and up to the largest f64 and f32 below 2⁶⁴.
    let wide =
        [limit, limit - 1024.0, limit + 2048.0, 1.5 * limit, 2.0 * limit - 2048.0, 0.0, 0.75, 12345.6, limit / 2.0];
    let step = 2f64.powi(40);
    let narrow =
        [limit, limit - step / 2.0, limit + step, 1.5 * limit, 2.0 * limit - step, 0.0, 0.75, 12345.6, limit / 2.0];
    // More than a vector, and a remainder.
    let numbers = |of: &[f64; 9]| of.iter().copied().cycle().take(37).collect::<Vec<f64>>();
    let wide = vector(&numbers(&wide));
    let narrow = vector(&numbers(&narrow).iter().map(|&x| x as f32).collect::<Vec<f32>>());
    for x in [wide, narrow] {
        let text = format!(
            "graph @to(%x: {}[37]) -> (y: %0, z: %1) {{
               %0 = map [x -> u64(x)] %x : u64[37]
               %1 = map [x -> u64(x * 0.5)] %x : u64[37]
             }}",
            x.dtype()
        );
        agrees(&text, &[], std::slice::from_ref(&x));
        // The interpreter is held to what Rust defines.
        let graph = parse_graph(&text, &|_| None).expect("a graph");
        let found = run_graph(&graph, &[], std::slice::from_ref(&x)).expect("it runs").swap_remove(0);
        let expected: Vec<u64> = (0..37).map(|n| x.get_f64(n).expect("a float") as u64).collect();
        assert_eq!(found.elements::<u64>().expect("numbers"), expected);
    }
}

#[test]
fn integers_of_words_and_more_saturate() {
    let mut numbers = vec![0.0, 0.5, 1.5, -0.5, -1.5, 12345.6, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30];
    for bits in [31, 32, 63, 64] {
        let limit = 2f64.powi(bits);
        for number in [limit, limit * 0.999_999_9, limit * 1.000_000_1, limit - 1.0] {
            numbers.extend([number, -number]);
        }
    }
    let narrow: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
    for x in [vector(&numbers), vector(&narrow)] {
        for to in ["i32", "u32", "i64", "u64"] {
            let (from, count) = (x.dtype(), x.len_elems());
            let text = format!(
                "graph @to(%x: {from}[{count}]) -> (y: %0) {{
                   %0 = map [x -> sat_{to}(x)] %x : {to}[{count}]
                 }}"
            );
            agrees(&text, &[], std::slice::from_ref(&x));
        }
    }
}

#[test]
fn powers_of_integers_wrap() {
    fn powers<T: Element>(base: &[T], exponent: &[T]) {
        let dtype = T::DTYPE;
        let (b, e) = (base.len(), exponent.len());
        let text = format!(
            "graph @powers(%x: {dtype}[{b}, 1], %e: {dtype}[{e}]) -> (y: %2) {{
               %0 = view [i, j -> i, 0] %x : {dtype}[{b}, {e}]
               %1 = view [i, j -> j] %e : {dtype}[{b}, {e}]
               %2 = map [x, e -> pow(x, e)] %0, %1 : {dtype}[{b}, {e}]
             }}"
        );
        let base = vector(base).reshaped(&[b, 1]).expect("a column");
        agrees(&text, &[], &[base, vector(exponent)]);
    }
    powers::<i32>(&[-3, -2, -1, 0, 1, 2, 3, 46341, i32::MIN], &[-3, -2, -1, 0, 1, 2, 5, 31, 32, i32::MAX, i32::MIN]);
    powers::<i64>(&[-3, -1, 0, 1, 2, 7, i64::MIN], &[-2, -1, 0, 1, 3, 22, 63, 64, i64::MAX]);
    powers::<u8>(&[0, 1, 2, 3, 16, 255], &[0, 1, 2, 7, 8, 200, 255]);
    powers::<i8>(&[-128, -2, -1, 0, 1, 3, 127], &[-128, -1, 0, 1, 7, 8, 127]);
    powers::<u64>(&[0, 1, 3, u64::MAX], &[0, 1, 41, u64::MAX]);
}

#[test]
fn ports_hold_bytes_of_types_without_arithmetic() {
    let small = "graph @small(%x: u8[N] as f8e5m2[N]) -> (y: %0 as f8e4m3fn[N]) where N in 0..=9 {
                   %0 = map [x -> x ^ 255] %x : u8[N]
                 }";
    agrees(small, &[5], &[of_bytes(DType::F8E5M2, &[5], &[1, 2, 0x80, 0xff, 7])]);
    let packed = "graph @packed(%x: u8[div(3*N + 1, 2)] as i4[N, 3]) -> (y: %0 as u4[N, 3]) where N in 0..=9 {
                    %0 = map [x -> x ^ 85] %x : u8[div(3*N + 1, 2)]
                  }";
    agrees(packed, &[3], &[of_bytes(DType::I4, &[3, 3], &[0x21, 0x43, 0x65, 0x87, 0x09])]);
    agrees(packed, &[0], &[of_bytes(DType::I4, &[0, 3], &[])]);
}

#[test]
fn branches_may_read_nothing() {
    let text = "graph @choice(%c: bool[]) -> (y: %0, z: %1) {
                  %0, %1 = if %c : f32[5], f32[2]
                    = graph @then() -> (y0: %0, y1: %1) {
                        %0 = map [-> f32(index(i0))] : f32[5]
                        %1 = map [-> f32(1.5)] : f32[2]
                      }
                    else graph @otherwise() -> (y0: %0, y1: %1) {
                        %0 = map [-> f32(index(4 - i0))] : f32[5]
                        %1 = map [-> f32(2.5)] : f32[2]
                      }
                }";
    for holds in [true, false] {
        agrees(text, &[], &[Tensor::from_bools(&[], &[holds]).expect("one")]);
    }
}

/// One operation after the other, in one map and in many: no pass, and no emitter, goes as deep as they are long.
#[test]
fn chains_are_as_long_as_models_make_them() {
    let operation = |n: usize| ["* 3", "^ 85", "+ 7"][n % 3];
    let body: Vec<String> = (0..4000).map(|n| format!("let v{} = v{n} {};", n + 1, operation(n))).collect();
    let (body, last) = (body.concat(), body.len());
    let maps = |shape: &str| {
        let map = |n: usize| {
            let from = if n == 0 { "%x".to_owned() } else { format!("%{}", n - 1) };
            format!("%{n} = map [x -> x {}] {from} : i32[{shape}]\n", operation(n))
        };
        (0..2000).map(map).collect::<String>()
    };
    for (shape, extents) in [("", &[][..]), ("N", &[5])] {
        let len = extents.iter().product::<usize>();
        let input = vector(&(0..len as i32).collect::<Vec<_>>()).reshaped(extents).expect("as many");
        let symbols: &[i64] = if shape == "N" { &[5] } else { &[] };
        let bounds = if shape == "N" { " where N in 0..=9" } else { "" };
        let one = format!(
            "graph @one(%x: i32[{shape}]) -> (y: %0){bounds} {{ %0 = map [v0 -> {body} v{last}] %x : i32[{shape}] }}"
        );
        agrees(&one, symbols, std::slice::from_ref(&input));
        let many = format!("graph @many(%x: i32[{shape}]) -> (y: %1999){bounds} {{ {} }}", maps(shape));
        agrees(&many, symbols, &[input]);
    }
}

/// Where exponentials are lost they are 0, not nearly, and NaN stays NaN; what is chosen instead of 0 may be computed with it.
#[test]
fn exponentials_end_in_zero() {
    let text = "graph @g(%x: f32[n], %z: f64[n]) -> (y: %0, w: %1) where n in 0..=1000 {
  %0 = map [x0 -> exp(x0)] %x : f32[n]
  %1 = map [x0 -> exp(x0)] %z : f64[n]
}";
    let odd =
        [f32::NEG_INFINITY, f32::MIN, -1e4, -200.0, -150.5, -150.0, -104.5, -103.5, -100.0, -88.0, -87.0, -1.0, -0.0];
    let odd = odd.into_iter().chain([0.0, 1.0, 88.5, 89.0, 1e4, f32::MAX, f32::INFINITY, f32::NAN, -f32::NAN]);
    let x: Vec<f32> = odd.clone().chain(odd).collect();
    let z: Vec<f64> = x.iter().map(|&x| f64::from(x) * 7.2).collect();
    let targets: Vec<String> = TARGETS.map(str::to_owned).to_vec();
    let options = CompileOptions { targets: targets.clone(), start_from: Some(Phase::Simplify), ..Default::default() };
    let compilation = infc::compile(&Source::bytes(text), &options, &mut ()).expect("it compiles");
    here::on_each(&compilation.to_bytes().expect("an artifact"), &targets, |target, session| {
        let found = session.run_owned(&[&vector(&x), &vector(&z)]).expect("it runs");
        for (n, &y) in found[0].elements::<f32>().expect("floats").iter().enumerate() {
            let expected = f64::from(x[n]).exp() as f32;
            let near = (f64::from(y) - f64::from(expected)).abs() <= 3e-7 * f64::from(expected).abs() + 2e-45;
            assert!(y == expected || near || y.is_nan() && expected.is_nan(), "{target}, e^{}: {y:e}", x[n]);
            assert!(x[n] > -104.0 || x[n].is_nan() || y.to_bits() == 0, "{target}, e^{}: {y:e}", x[n]);
        }
        for (n, &w) in found[1].elements::<f64>().expect("floats").iter().enumerate() {
            let expected = z[n].exp();
            let near = (w - expected).abs() <= 1e-15 * expected.abs() + 1e-323;
            assert!(w == expected || near || w.is_nan() && expected.is_nan(), "{target}, e^{}: {w:e}", z[n]);
        }
    });
}
