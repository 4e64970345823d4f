//! Remainders of floats, of and by infinities and zeros too, are what the kernel interpreter says on every level.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

mod support;

use infc_codegen_cpu::{Target, compile_nest};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_passes::schedule::apply;
use infc_tensor::{DType, Tensor};
use support::Executable;

const VALUES: [f64; 15] = [
    0.0,
    -0.0,
    1.5,
    -1.5,
    7.25,
    -7.25,
    0.625,
    -3.0,
    1e30,
    -1e30,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    1000.0,
];

/// All pairs whose quotient is small enough to have an exact integer part; see the lowering of remainders.
fn pairs() -> Vec<(f64, f64)> {
    let all = VALUES.iter().flat_map(|&a| VALUES.iter().map(move |&b| (a, b)));
    all.filter(|(a, b)| !(a / b).is_finite() || (a / b).abs() < 1e6).collect()
}

fn kernel(elem: &str, body: &str, len: usize) -> Kernel {
    let text = format!(
        "kernel @remainder(a: {elem}[{len}], b: {elem}[{len}]) -> (y: {elem}[{len}]) {{
          stage o[n: {len}] = {body}
          output y[n] = o[n]
        }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn tensor(dtype: DType, values: &[f64]) -> Tensor {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    let mut tensor = Tensor::zeros(dtype, &[values.len()]).expect("it is small");
    tensor.bytes_mut().copy_from_slice(&bytes);
    tensor
}

#[test]
fn remainders_of_and_by_infinities() {
    let pairs = pairs();
    assert!(pairs.iter().any(|(a, b)| a.is_finite() && b.is_infinite()));
    assert!(pairs.iter().any(|(a, b)| a.is_infinite() && b.is_finite()));
    for (target, lanes, available) in [
        ("x86-64-v4", 16, support::has_avx512()),
        ("x86-64-v3", 8, support::has_avx2()),
        ("x86-64-v2", 4, support::has_sse42()),
    ] {
        let parsed: Target = target.parse().expect("a known target");
        for (elem, dtype) in [("f32", DType::F32), ("f64", DType::F64)] {
            for body in ["rem(a[n], b[n])", "a[n] % b[n]"] {
                let kernel = kernel(elem, body, pairs.len());
                let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
                let inputs = [tensor(dtype, &a), tensor(dtype, &b)];
                let expected = run_kernel(&kernel, &[], &inputs).expect("it runs");
                // Vectors and their masked remainder.
                let schedule = format!("split o.n by {lanes} -> o, l; vectorize o.l").parse().expect("a schedule");
                let nest = apply(&kernel, &schedule).expect("it applies");
                let compiled = compile_nest(&nest, &parsed).unwrap_or_else(|error| panic!("{target}: {error}"));
                if !available {
                    eprintln!("skipped: this machine does not run {target}, code was made but not run");
                    continue;
                }
                let mut found = tensor(dtype, &vec![0.0; pairs.len()]);
                let args = [
                    inputs[0].bytes().as_ptr() as u64,
                    inputs[1].bytes().as_ptr() as u64,
                    found.bytes_mut().as_mut_ptr() as u64,
                ];
                Executable::new(&compiled.function.code).call(&args, 0, 1, &mut []);
                for (n, (x, y)) in pairs.iter().enumerate() {
                    let value = |tensor: &Tensor| tensor.get_f64(n).expect("a number");
                    let (found, expected) = (value(&found), value(&expected[0]));
                    let same = found == expected || (found.is_nan() && expected.is_nan());
                    assert!(same, "{body} of {x:e} and {y:e} in {elem} on {target} is {found:e}, not {expected:e}");
                }
            }
        }
    }
}
