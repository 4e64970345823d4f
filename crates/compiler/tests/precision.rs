//! Models compiled with `Precision::Bf16` and `F16`, on every level that this machine has: against formulas with rounded factors,
//! and against the interpreter on the rounded graph.

mod net;

use infc::{Compilation, CompileOptions, Precision};
use infc_ir::interp::run_graph;
use infc_ir::kernel::OperandKind;
use infc_ir::op::Op;
use infc_runtime::{Model, SessionOptions};
use infc_tensor::{DType, Tensor};
use net::{Attr, Net};

const TARGETS: [&str; 5] = ["x86-64-v4+vnni+bf16+amx", "x86-64-v4+vnni+bf16", "x86-64-v4", "x86-64-v3", "x86-64-v2"];

fn options(target: &str) -> CompileOptions {
    in_halves(target, Precision::Bf16)
}

fn in_halves(target: &str, precision: Precision) -> CompileOptions {
    CompileOptions { targets: vec![target.to_owned()], precision, ..CompileOptions::default() }
}

/// What a compiled model computes; `None` where this machine does not run it.
fn run(compilation: &Compilation, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    let model = match Model::from_vec(compilation.to_bytes().expect("an artifact")) {
        Ok(model) => model,
        Err(error) if error.code() == "artifact::wrong-target" => return None,
        Err(error) => panic!("{error}"),
    };
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    Some(session.run_owned(inputs).unwrap_or_else(|e| panic!("{e}")))
}

/// Numbers that look random, from −1 to 1.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let number = |n: usize| {
        let mixed = (n + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(0x9e37_79b9)) >> 7;
        (mixed & 0xffff) as f32 / 32768.0 - 1.0
    };
    let elements: Vec<f32> = (0..shape.iter().product()).map(number).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape says")
}

fn floats(tensor: &Tensor) -> &[f32] {
    tensor.elements().expect("f32")
}

/// The nearest number of the precision's, half to even, written independently of the compiler's.
fn rounded(x: f32, precision: Precision) -> f64 {
    if x.is_nan() || x.is_infinite() {
        return f64::from(x);
    }
    let (digits, lowest) = if precision == Precision::F16 { (10, -14.0) } else { (7, -126.0) };
    let unit = 2f64.powi(f64::from(x).abs().log2().floor().max(lowest) as i32 - digits);
    let units = (f64::from(x) / unit).round_ties_even();
    if x == 0.0 { 0.0 } else { units * unit }
}

fn product(m: &str, k: usize, n: usize) -> Net {
    Net::new(17)
        .input("x", DType::F32, &[m, &k.to_string()])
        .constant("w", &numbers(&[k, n], 3))
        .node("MatMul", &["x", "w"], &["y"], &[])
        .output("y")
}

/// `Σ round(x)·round(w)` of a row and a column, and the sum of the sizes of its products.
fn formula(x: &[f32], w: &[f32], n: usize, column: usize, precision: Precision) -> (f64, f64) {
    let terms = x.iter().enumerate().map(|(k, &x)| rounded(x, precision) * rounded(w[k * n + column], precision));
    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
}

/// One row, primes, a vector's width and one more or less; sums of an odd number of products.
#[test]
fn products_round_their_factors_and_nothing_else() {
    let mut ran = 0;
    for (m, k, n) in [
        (1, 8, 8),
        (1, 64, 1000),
        (3, 9, 15),
        (7, 13, 16),
        (5, 31, 17),
        (2, 33, 31),
        (13, 62, 33),
        (31, 17, 48),
        (64, 127, 64),
    ] {
        let (x, w) = (numbers(&[m, k], m), numbers(&[k, n], 3));
        for (target, precision) in TARGETS.map(|t| [(t, Precision::Bf16), (t, Precision::F16)]).concat() {
            let options = in_halves(target, precision);
            let compilation = product(&m.to_string(), k, n).compile(&options).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(compilation.report.rounded_contractions, 1, "{m}×{k}×{n}");
            let Some(found) = run(&compilation, &[&x]) else { continue };
            for (at, &found) in floats(&found[0]).iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let (sum, size) = formula(&floats(&x)[row * k..][..k], floats(&w), n, column, precision);
                // Sums of f32 in any order; rounding factors elsewhere, or not at all, would show in the third place.
                let apart = (f64::from(found) - sum).abs();
                assert!(
                    apart <= size * 2e-6 + 1e-30,
                    "{m}×{k}×{n} in {precision} for {target} at {row}, {column}: {found}, not {sum}"
                );
            }
            ran += 1;
        }
    }
    assert!(ran > 0, "this machine runs none of the targets");
}

/// No rows; and numbers that are none.
#[test]
fn empty_and_special_operands() {
    for (target, precision) in TARGETS.map(|t| [(t, Precision::Bf16), (t, Precision::F16)]).concat() {
        let options = in_halves(target, precision);
        let compilation = product("N", 32, 24).compile(&options).unwrap_or_else(|e| panic!("{e}"));
        let Some(found) = run(&compilation, &[&numbers(&[0, 32], 1)]) else { continue };
        assert_eq!(found[0].shape(), [0, 24]);
        let mut x = numbers(&[3, 32], 1);
        let elements = x.elements_mut::<f32>().expect("f32");
        (elements[5], elements[40], elements[69]) = (f32::NAN, f32::INFINITY, f32::MAX);
        let found = run(&compilation, &[&x]).expect("it ran before");
        let of_row = |row: usize| &floats(&found[0])[row * 24..][..24];
        assert!(of_row(0).iter().all(|y| y.is_nan()), "{target}: {:?}", of_row(0));
        // Infinity, and what is beyond the largest number of 16 bits, times weights that are no zeros.
        for row in 1..3 {
            assert!(of_row(row).iter().all(|y| y.is_infinite()), "{target}: {:?}", of_row(row));
        }
    }
}

/// What a model does not read changes nothing, also where sums get one product more.
#[test]
fn what_lies_behind_the_last_factor_is_not_read() {
    let (mut x, w, filters) = (numbers(&[5, 16], 1), numbers(&[9, 24], 2), numbers(&[16, 3, 3, 3], 3));
    x.elements_mut::<f32>()
        .expect("f32")
        .iter_mut()
        .enumerate()
        .filter(|(n, _)| n % 16 > 8)
        .for_each(|(_, x)| *x = f32::NAN);
    let mut image = numbers(&[1, 3, 8, 8], 4);
    image.elements_mut::<f32>().expect("f32")[8 * 3 + 7] = f32::INFINITY;
    for target in TARGETS {
        let product = Net::new(17)
            .input("x", DType::F32, &["5", "16"])
            .constant("w", &w)
            .constant("from", &Tensor::from_elements(&[1], &[0i64]).expect("one"))
            .constant("to", &Tensor::from_elements(&[1], &[9i64]).expect("one"))
            .constant("axis", &Tensor::from_elements(&[1], &[1i64]).expect("one"))
            .node("Slice", &["x", "from", "to", "axis"], &["s"], &[])
            .node("MatMul", &["s", "w"], &["y"], &[])
            .output("y");
        let product = product.compile(&options(target)).unwrap_or_else(|e| panic!("{e}"));
        let Some(found) = run(&product, &[&x]) else { continue };
        assert!(floats(&found[0]).iter().all(|y| y.is_finite()), "{target}: {found:?}");
        let convolution = Net::new(17)
            .input("x", DType::F32, &["1", "3", "8", "8"])
            .constant("w", &filters)
            .node("Conv", &["x", "w"], &["y"], &[])
            .output("y");
        let convolution = convolution.compile(&options(target)).unwrap_or_else(|e| panic!("{e}"));
        let found = run(&convolution, &[&image]).expect("it ran before");
        // Of 6×6 results those of the last column and rows 1 to 3 see the pixel.
        for (n, y) in floats(&found[0]).iter().enumerate() {
            let (row, column) = (n / 6 % 6, n % 6);
            assert_eq!(y.is_finite(), column < 5 || !(1..4).contains(&row), "{target}: {y} at {row}, {column}");
        }
    }
}

/// Inputs that are put together are read as they are by whoever is no factor.
#[test]
fn inputs_keep_their_numbers() {
    for target in TARGETS {
        let model = Net::new(17)
            .input("x", DType::F32, &["1", "16"])
            .input("z", DType::F32, &["1", "16"])
            .constant("w", &numbers(&[16, 24], 2))
            .node("MatMul", &["x", "w"], &["y0"], &[])
            .node("MatMul", &["z", "w"], &["y1"], &[])
            .node("Concat", &["x", "z"], &["both"], &[("axis", Attr::Int(1))])
            .node("Cast", &["both"], &["whole"], &[("to", Attr::Int(7))])
            .output("y0")
            .output("y1")
            .output("whole");
        let model = model.compile(&options(target)).unwrap_or_else(|e| panic!("{e}"));
        let x = Tensor::from_elements(&[1, 16], &[1001f32; 16]).expect("sixteen");
        let Some(found) = run(&model, &[&x, &x]) else { continue };
        assert_eq!(found[2].elements::<i64>().expect("integers"), [1001; 32], "{target}");
    }
}

/// A residual network: a first convolution of three channels, one by one, depthwise, grouped, with strides and padding.
fn network() -> Net {
    let w = |shape: &[usize], seed: usize| numbers(shape, seed);
    let pads = ("pads", Attr::Ints(&[1, 1, 1, 1]));
    Net::new(17)
        .input("x", DType::F32, &["N", "3", "18", "18"])
        .constant("w0", &w(&[24, 3, 3, 3], 1))
        .constant("w1", &w(&[32, 24, 1, 1], 2))
        .constant("wd", &w(&[32, 1, 3, 3], 3))
        .constant("w2", &w(&[24, 32, 1, 1], 4))
        .constant("wg", &w(&[32, 12, 3, 3], 5))
        .constant("wf", &w(&[64, 10], 6))
        .node("Conv", &["x", "w0"], &["c0"], &[pads, ("strides", Attr::Ints(&[2, 2]))])
        .node("Relu", &["c0"], &["r0"], &[])
        .node("Conv", &["r0", "w1"], &["c1"], &[])
        .node("Relu", &["c1"], &["r1"], &[])
        .node("Conv", &["r1", "wd"], &["cd"], &[pads, ("group", Attr::Int(32))])
        .node("Sigmoid", &["cd"], &["rd"], &[])
        .node("Conv", &["rd", "w2"], &["c2"], &[])
        .node("Add", &["c2", "r0"], &["a"], &[])
        .node("Conv", &["a", "wg"], &["cg"], &[pads, ("group", Attr::Int(2))])
        .node("MaxPool", &["cg"], &["p"], &[("kernel_shape", Attr::Ints(&[3, 3])), ("strides", Attr::Ints(&[2, 2]))])
        .node("Concat", &["p", "p"], &["pp"], &[("axis", Attr::Int(1))])
        .node("GlobalAveragePool", &["pp"], &["g"], &[])
        .node("Flatten", &["g"], &["f"], &[])
        .node("MatMul", &["f", "wf"], &["y"], &[])
        .output("y")
        .output("a")
}

#[test]
fn networks_compute_what_the_rounded_graph_says() {
    for n in [1, 3] {
        let x = numbers(&[n, 3, 18, 18], 9);
        for (target, precision) in TARGETS.map(|t| [(t, Precision::Bf16), (t, Precision::F16)]).concat() {
            let options = in_halves(target, precision);
            let compilation = network().compile(&options).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(compilation.report.rounded_contractions, 5, "all but the depthwise convolution");
            let graph = &compilation.plan.as_ref().expect("a plan").graph;
            let expected = run_graph(graph, &[n as i64], std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
            let Some(found) = run(&compilation, &[&x]) else { continue };
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.dtype(), DType::F32, "outputs keep their types");
                let largest = floats(expected).iter().fold(0f32, |most, x| most.max(x.abs()));
                for (a, b) in floats(found).iter().zip(floats(expected)) {
                    // Sums in another order may round to the neighbour: one part in 256 of a few of many terms.
                    assert!((a - b).abs() <= largest * 2e-3, "{target}, {precision}, {n} images: {a}, not {b}");
                }
            }
        }
    }
}

/// Between kernels lie bfloat16 numbers wherever contractions read them, and nothing is stored twice.
#[test]
fn factors_are_stored_in_half() {
    let compilation = network().compile(&options(TARGETS[0])).unwrap_or_else(|e| panic!("{e}"));
    let plan = compilation.plan.as_ref().expect("a plan");
    let of_contractions = plan.graph.order.iter().map(|&id| &plan.graph.nodes[id]).filter(|node| {
        matches!(node.op, Op::Contract(_)) && node.inputs.iter().all(|&value| plan.graph.ty(value).dtype == DType::BF16)
    });
    assert_eq!(of_contractions.count(), 5);
    let f32_plan = network().compile(&CompileOptions::default()).expect("it compiles").plan.expect("a plan");
    // The input is rounded by a kernel of its own, and what is an output, too, is written twice.
    assert!(plan.kernels.len() <= f32_plan.kernels.len() + 2, "{plan}");
    assert!(f32_plan.graph.values.iter().all(|value| value.ty.dtype != DType::BF16), "f32 means f32");
}

/// A recurrent layer of 32 units behind one input of 24 numbers a step, and a product behind it.
fn recurrent(operator: &str, gates: usize, attributes: &[(&str, Attr<'_>)]) -> Net {
    let attributes = [&[("hidden_size", Attr::Int(32))], attributes].concat();
    let scaled = |shape: &[usize], seed: usize| {
        let mut tensor = numbers(shape, seed);
        tensor.elements_mut::<f32>().expect("f32").iter_mut().for_each(|x| *x *= 0.4);
        tensor
    };
    Net::new(17)
        .input("x", DType::F32, &["6", "N", "24"])
        .constant("w", &scaled(&[1, gates * 32, 24], 1))
        .constant("r", &scaled(&[1, gates * 32, 32], 2))
        .constant("b", &scaled(&[1, 2 * gates * 32], 3))
        .constant("wo", &numbers(&[32, 16], 4))
        .node(operator, &["x", "w", "r", "b"], &["h", "last"], &attributes)
        .node("MatMul", &["h", "wo"], &["y"], &[])
        .output("y")
        .output("last")
}

/// A state that is multiplied in each step is rounded once a step; what the caller gets of it is not. The reset gate of a GRU
/// makes a factor within the step, or comes behind the product.
#[test]
fn steps_multiply_rounded_states() {
    let late = [("linear_before_reset", Attr::Int(1))];
    for (operator, gates, attributes, inside) in
        [("RNN", 1, &[][..], 1), ("LSTM", 4, &[], 1), ("GRU", 3, &[], 2), ("GRU", 3, &late, 1)]
    {
        for (n, (target, precision)) in [1, 3]
            .into_iter()
            .flat_map(|n| TARGETS.map(|t| [(n, (t, Precision::Bf16)), (n, (t, Precision::F16))]).concat())
        {
            let compile = |options: &CompileOptions| {
                recurrent(operator, gates, attributes).compile(options).unwrap_or_else(|e| panic!("{e}"))
            };
            let options = in_halves(target, precision);
            let compilation = compile(&options);
            assert_eq!(compilation.report.rounded_contractions, 2 + inside, "{operator}");
            let x = numbers(&[6, n, 24], 9);
            let interpret = |compilation: &Compilation| {
                let graph = &compilation.plan.as_ref().expect("a plan").graph;
                run_graph(graph, &[n as i64], std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"))
            };
            let expected = interpret(&compilation);
            let whole = CompileOptions { precision: Precision::F32, ..options };
            let exact = interpret(&compile(&whole));
            let Some(found) = run(&compilation, &[&x]) else { continue };
            for ((found, expected), exact) in found.iter().zip(&expected).zip(&exact) {
                let apart = |a: &Tensor, b: &Tensor| {
                    let largest = floats(b).iter().fold(0f32, |most, x| most.max(x.abs()));
                    floats(a).iter().zip(floats(b)).map(|(a, b)| (a - b).abs() / largest).fold(0f32, f32::max)
                };
                let place = format!("{operator} {attributes:?} in {precision} for {target}, {n} rows");
                // A state may round to the neighbour, and all that follows from it with it.
                assert!(apart(found, expected) <= 4e-3, "{place}: {}", apart(found, expected));
                let rounding = apart(expected, exact);
                assert!((1e-5..2e-2).contains(&rounding), "{place}: {rounding}");
            }
        }
    }
}

/// In memory a step finds its state and its weights in pairs, and multiplies them so.
#[test]
fn steps_multiply_pairs() {
    for (operator, gates) in [("LSTM", 4), ("GRU", 3)] {
        for target in TARGETS {
            let compilation =
                recurrent(operator, gates, &[]).compile(&options(target)).unwrap_or_else(|e| panic!("{e}"));
            let kernels = &compilation.report.variants[0].kernels;
            let steps = kernels.iter().find(|kernel| kernel.name.contains("recurrence")).expect("a recurrence");
            let products = steps.schedule.matches("to dot2").count();
            assert_eq!(products, if operator == "GRU" { 2 } else { 1 }, "{operator} for {target}: {}", steps.schedule);
        }
    }
}

/// Where nothing but factors is made of them, point by point, parts of a concatenation are stored in half, and so is a sum
/// that waits for another one; what something else reads, or the caller, is not.
#[test]
fn what_is_on_the_way_to_factors_is_stored_in_half() {
    let w = |shape: &[usize], seed: usize| numbers(shape, seed);
    let net = |outputs: &[&str]| {
        let net = Net::new(17)
            .input("x", DType::F32, &["1", "16", "9", "11"])
            .constant("w1", &w(&[16, 16, 1, 1], 1))
            .constant("w2", &w(&[24, 16, 1, 1], 2))
            .constant("scale", &w(&[40, 1, 1], 3))
            .constant("w3", &w(&[32, 40, 1, 1], 4))
            .constant("w4", &w(&[32, 16, 1, 1], 5))
            .constant("w5", &w(&[8, 32, 3, 3], 6))
            .node("Conv", &["x", "w1"], &["a"], &[])
            .node("Conv", &["a", "w2"], &["b"], &[])
            .node("Concat", &["a", "b"], &["ab"], &[("axis", Attr::Int(1))])
            .node("Mul", &["ab", "scale"], &["scaled"], &[])
            .node("Relu", &["scaled"], &["r"], &[])
            .node("Conv", &["x", "w4"], &["branch"], &[])
            .node("Conv", &["r", "w3"], &["main"], &[])
            .node("Add", &["main", "branch"], &["sum"], &[])
            .node("Relu", &["sum"], &["s"], &[])
            .node("Conv", &["s", "w5"], &["y"], &[])
            .output("y");
        outputs.iter().fold(net, |net, output| net.output(output))
    };
    let x = numbers(&[1, 16, 9, 11], 7);
    for (outputs, concatenated, summed) in [(&[][..], 1, 4), (&["ab"], 0, 2), (&["branch"], 1, 3)] {
        for target in TARGETS {
            let compilation = net(outputs).compile(&options(target)).unwrap_or_else(|e| panic!("{e}"));
            let graph = &compilation.plan.as_ref().expect("a plan").graph;
            let nodes = || graph.order.iter().map(|&id| &graph.nodes[id]);
            let is_half = |value: infc_ir::entity::ValueId| graph.ty(value).dtype == DType::BF16;
            let halves = nodes().filter(|node| matches!(node.op, Op::Concat(_)) && is_half(node.outputs[0]));
            assert_eq!(halves.count(), concatenated, "{outputs:?}: {graph}");
            // Kernels of sums that write factors, or what is on the way to one: all but that of `y`. What is an output as well
            // is written for that, and rounded by another kernel.
            let plan = compilation.plan.as_ref().expect("a plan");
            let written = plan.kernels.iter().filter(|kernel| {
                let of_output = |o: &infc_ir::kernel::Operand| o.kind == OperandKind::Output && o.dtype == DType::BF16;
                kernel.kernel.stages.iter().any(|stage| stage.reducer.is_some())
                    && kernel.kernel.operands.iter().any(of_output)
            });
            assert_eq!(written.count(), summed, "{outputs:?}: {plan}");
            let expected = run_graph(graph, &[], std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
            let Some(found) = run(&compilation, &[&x]) else { continue };
            for (found, expected) in found.iter().zip(&expected) {
                let largest = floats(expected).iter().fold(0f32, |most, x| most.max(x.abs()));
                for (a, b) in floats(found).iter().zip(floats(expected)) {
                    assert!((a - b).abs() <= largest * 4e-3, "{target}, {outputs:?}: {a}, not {b}");
                }
            }
        }
    }
}

/// The target with the instruction comes in front of its level, if sums may be reordered and there are such products.
#[test]
fn targets_with_the_instruction_come_first() {
    let targets = |options: CompileOptions| -> Vec<String> {
        let compilation = product("4", 32, 32).compile(&options).unwrap_or_else(|e| panic!("{e}"));
        compilation.report.variants.into_iter().map(|variant| variant.target).collect()
    };
    let bf16 = CompileOptions { precision: Precision::Bf16, ..CompileOptions::default() };
    let all = ["x86-64-v4+vnni+bf16+amx", "x86-64-v4+vnni+bf16", "x86-64-v4", "x86-64-v3", "x86-64-v2"];
    assert_eq!(targets(bf16.clone()), all);
    assert_eq!(targets(CompileOptions { strict: true, ..bf16 }), ["x86-64-v4", "x86-64-v3", "x86-64-v2"]);
    assert_eq!(targets(CompileOptions::default()), ["x86-64-v4", "x86-64-v3", "x86-64-v2"]);
}
