//! The kernels of `tests/filetests/kernel` on seeded inputs, against formulas written independently of the IR.

use infc_ir::entity::EntityId;
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_tensor::Tensor;
use infc_testkit::{default_symbols, kernel, operand_shape, random_inputs};
use std::cell::RefCell;

/// A kernel with inputs.
struct Case {
    kernel: Kernel,
    symbols: Vec<i64>,
    inputs: Vec<Tensor>,
}

impl Case {
    /// The value of a symbol.
    fn size(&self, symbol: &str) -> usize {
        let found = self.kernel.symbols.iter_enumerated().find(|(_, s)| s.name == symbol);
        self.symbols[found.expect("a symbol of the kernel").0.index()] as usize
    }

    /// An element of an input; zero outside.
    fn at(&self, name: &str, index: &[usize]) -> f64 {
        let inputs = self.kernel.operands.iter().filter(|o| o.kind != OperandKind::Output);
        let n = inputs.map(|o| &o.name).position(|n| n == name).expect("an input of the kernel");
        let shape = self.inputs[n].shape();
        let mut flat = 0;
        for (&i, &extent) in index.iter().zip(shape) {
            if i >= extent {
                return 0.0;
            }
            flat = flat * extent + i;
        }
        self.inputs[n].get_f64(flat).expect("within the input")
    }
}

/// Interprets a kernel on two seeds and compares every output with a formula of its coordinates.
fn check(name: &str, tolerance: f64, formula: impl Fn(&Case, usize, &[usize]) -> f64) {
    let kernel = kernel(name);
    let symbols = default_symbols(&kernel);
    for seed in [1, 2] {
        let inputs = random_inputs(&kernel, &symbols, seed);
        let case = Case { kernel: kernel.clone(), symbols: symbols.clone(), inputs };
        let outputs = run_kernel(&case.kernel, &case.symbols, &case.inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let operands = case.kernel.operands.iter().filter(|o| o.kind == OperandKind::Output);
        for (n, (operand, output)) in operands.zip(&outputs).enumerate() {
            let shape = operand_shape(operand, &symbols);
            assert!(output.len_elems() > 1, "{name}: an output worth looking at");
            for flat in 0..output.len_elems() {
                let mut rest = flat;
                let mut index: Vec<usize> = shape.iter().rev().map(|&d| (rest % d, rest /= d).0).collect();
                index.reverse();
                let (found, expected) = (output.get_f64(flat).expect("a number"), formula(&case, n, &index));
                let apart = (found - expected).abs();
                assert!(apart <= tolerance * (1.0 + expected.abs()), "{name} at {index:?}: {found}, not {expected}");
            }
        }
    }
}

fn sum(n: usize, f: impl Fn(usize) -> f64) -> f64 {
    (0..n).map(f).sum()
}

fn largest(n: usize, f: impl Fn(usize) -> f64) -> f64 {
    (0..n).map(f).fold(f64::NEG_INFINITY, f64::max)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn softmax() {
    check("softmax", 1e-6, |case, _, i| {
        let x = |c| case.at("x", &[i[0], c]).exp();
        x(i[1]) / sum(case.size("C"), x)
    });
}

#[test]
fn guarded_registers() {
    check("guarded_registers", 1e-6, |case, _, i| if i[0] == 0 { sum(3, |n| case.at("x", &[n, 0])) } else { 1.125 });
}

#[test]
fn layer_norm() {
    check("layer_norm", 1e-5, |case, _, i| {
        let c = case.size("C");
        let x = |c| case.at("x", &[i[0], c]);
        let mean = sum(c, x) / c as f64;
        let variance = sum(c, |c| (x(c) - mean).powi(2)) / c as f64;
        (x(i[1]) - mean) / (variance + 1e-5).sqrt() * case.at("scale", &i[1..]) + case.at("shift", &i[1..])
    });
}

/// A 3×3 convolution of the last three axes, with padding 1 and a stride; `f` gives the product at input and filter
/// coordinates that exist.
fn window(h: usize, w: usize, stride: usize, size: [usize; 2], f: impl Fn(usize, usize, usize, usize) -> f64) -> f64 {
    sum(9, |tap| {
        let (r, s) = (tap / 3, tap % 3);
        let (h, w) = ((stride * h + r).wrapping_sub(1), (stride * w + s).wrapping_sub(1));
        if h < size[0] && w < size[1] { f(h, w, r, s) } else { 0.0 }
    })
}

#[test]
fn winograd_equals_direct_convolution() {
    check("winograd", 1e-5, |case, _, i| {
        window(i[0], i[1], 1, [6, 4], |h, w, r, s| {
            sum(3, |c| case.at("x", &[h, w, c]) * case.at("w", &[r, s, c, i[2]]))
        })
    });
}

#[test]
fn int8_convolution() {
    check("int8_conv", 0.0, |case, _, i| {
        let k = i[3];
        let accumulator = window(i[1], i[2], 1, [5, 7], |h, w, r, s| {
            sum(4, |c| {
                let x = case.at("x", &[i[0], h, w, c]) - 128.0;
                x * (case.at("w", &[r, s, c, k]) - case.at("wz", &[k]))
            })
        }) + case.at("bias", &[k]);
        let scaled = accumulator as f32 * case.at("scale", &[k]) as f32;
        f64::from((scaled.round_ties_even() + 7.0).clamp(0.0, 255.0))
    });
}

#[test]
fn byte_product() {
    check("byte_product", 0.0, |case, _, i| {
        sum(12, |k| case.at("a", &[i[0], k]) * case.at("b", &[i[1] / 16, k / 4, i[1] % 16, k % 4]))
    });
}

#[test]
fn block_product() {
    check("block_product", 1e-5, |case, _, i| {
        let (m, n) = (i[0], i[1]);
        sum(3, |b| {
            let products = sum(16, |k| {
                let (g, p, c) = (k / 8, k / 4 % 2, k % 4);
                let byte = case.at("w", &[n / 16, 2 * b + g, n % 16, c]) as u8;
                case.at("x", &[m, b, g, p, c]) * f64::from(byte >> (4 * p) & 15)
            });
            (products - case.at("zero", &[m, b])) * case.at("most", &[m, b]) * case.at("scale", &[n / 16, b, n % 16])
        })
    });
}

#[test]
fn depthwise_convolution_of_bytes() {
    check("byte_depthwise", 0.0, |case, _, i| {
        let (h, w, c) = (i[0], i[1], i[2]);
        let tap = |t: usize| {
            let (y, x) = ((h + t / 5).wrapping_sub(1), (w + t % 5).wrapping_sub(2));
            if y < 6 && x < 9 { case.at("x", &[y, x, c]) * case.at("w", &[t / 5, t % 5, c]) } else { 0.0 }
        };
        let total = sum(15, tap);
        let scaled = total as f32 * case.at("scale", &[c]) as f32;
        (f64::from(scaled.round_ties_even()) + 7.0).clamp(0.0, 255.0) * 7.0 - total
    });
}

#[test]
fn pool_of_bytes() {
    check("byte_pool", 0.0, |case, _, i| {
        let (p, c) = (i[0], i[1]);
        let row = |r: usize| (2 * p + r).wrapping_sub(2);
        let of_row = |r: usize| if row(r) < case.size("H") { case.at("x", &[row(r), 2 * c + 1]) } else { -128.0 };
        largest(5, of_row).min(case.at("cap", &[c]).max(3.0)) * 3.0
    });
}

#[test]
fn tables_of_functions_of_bytes() {
    check("byte_table", 0.0, |case, output, i| {
        if output == 1 {
            return case.at("g", &[case.at("x", &[i[0], i[1]]).rem_euclid(256.0) as usize + 7]);
        }
        let total = sum(12, |k| case.at("a", &[i[0], k]) * case.at("b", &[i[1] / 16, k / 4, i[1] % 16, k % 4]));
        let byte = (total as f32 * 0.25 + 128.0).round_ties_even().clamp(0.0, 255.0);
        case.at("f", &[byte as usize])
    });
}

#[test]
fn bf16_product() {
    check("bf16_product", 1e-6, |case, _, i| {
        let product = |k| case.at("a", &[i[0], k]) * case.at("b", &[i[1] / 16, k / 2, i[1] % 16, k % 2]);
        sum(14, product).max(0.0)
    });
}

#[test]
fn columns_apart() {
    check("columns_apart", 1e-6, |case, _, i| {
        let (h, q, n) = (i[0], i[1], i[2]);
        let taps = (0..3).filter(|t| (1..=9).contains(&(q + t)));
        let tap =
            |t: usize| sum(12, |c| case.at("x", &[h, q + t - 1, c]) * case.at("w", &[n / 8, t, c / 2, n % 8, c % 2]));
        (taps.map(tap).sum::<f64>() + case.at("b", &[n])).max(0.0)
    });
}

#[test]
fn convolution_with_a_halo() {
    check("halo_conv", 1e-6, |case, _, i| {
        let a = window(i[1], i[2], 1, [4, 3], |h, w, r, s| {
            sum(8, |c| case.at("x", &[i[0], h, w, c]) * case.at("w", &[r, s, c, i[3]]))
        });
        a.max(0.0)
    });
}

#[test]
fn dilated_convolution() {
    check("dilated_conv", 1e-6, |case, _, i| {
        let a = sum(9, |tap| {
            let (r, s) = (tap / 3, tap % 3);
            let (h, w) = ((i[1] + 5 * r).wrapping_sub(5), (i[2] + 5 * s).wrapping_sub(5));
            let product = |c| case.at("x", &[i[0], h, w, c]) * case.at("w", &[r, s, c, i[3]]);
            if h < 11 && w < 9 { sum(6, product) } else { 0.0 }
        });
        a.max(0.0)
    });
}

#[test]
fn padding_wider_than_the_halo() {
    check("wide_padding", 1e-6, |case, _, i| {
        let tap = |t: usize| match (i[0] + 20 * t).checked_sub(40) {
            Some(l) if l < case.size("L") => case.at("x", &[l, i[1]]) * case.at("w", &[t, i[1]]),
            _ => 0.0,
        };
        sum(5, tap).max(0.0)
    });
}

#[test]
fn product_stored_by_columns() {
    check("turned_product", 1e-6, |case, _, i| {
        sum(19, |k| case.at("x", &[i[1], k]) * case.at("w", &[k, i[0]])) + case.at("b", &[i[0]])
    });
}

#[test]
fn convolution_of_any_size() {
    check("any_size_conv", 1e-6, |case, _, i| {
        let a = window(i[0], i[1], 1, [case.size("H"), case.size("W")], |h, w, r, s| {
            sum(5, |c| case.at("x", &[h, w, c]) * case.at("w", &[r, s, c, i[2]]))
        });
        a.max(0.0)
    });
}

#[test]
fn convolution_of_halves() {
    check("half_conv", 1e-3, |case, _, i| {
        let k = i[3];
        let a = window(i[1], i[2], 2, [9, 7], |h, w, r, s| {
            sum(8, |c| case.at("x", &[i[0], h, w, c]) * case.at("w", &[k / 16, 24 * r + 8 * s + c, k % 16]))
        });
        (a + case.at("b", &[k])).max(0.0)
    });
}

#[test]
fn depthwise_convolution() {
    check("depthwise_conv", 1e-6, |case, _, i| {
        let a =
            window(i[1], i[2], 2, [7, 8], |h, w, r, s| case.at("x", &[i[0], h, w, i[3]]) * case.at("w", &[r, s, i[3]]));
        (a + case.at("b", &[i[3]])).clamp(0.0, 6.0)
    });
}

#[test]
fn convolution_of_three_channels() {
    check("three_channels", 1e-6, |case, _, i| {
        let lane = i[2] + 3 * (i[1] % 16);
        let a = window(i[0], i[1], 1, [5, 19], |h, w, r, s| case.at("x", &[h, w, i[2]]) * case.at("w", &[r, s, lane]));
        (a + case.at("b", &[i[2]])).max(0.0)
    });
}

#[test]
fn grouped_convolution() {
    check("grouped_conv", 1e-6, |case, _, i| {
        let k = i[3];
        let a = window(i[1], i[2], 1, [3, 17], |h, w, r, s| {
            sum(4, |c| case.at("x", &[i[0], h, w, k / 4 * 4 + c]) * case.at("w", &[k / 16, r, s, c, k % 16]))
        });
        (a + case.at("b", &[k])).max(0.0)
    });
}

#[test]
fn max_pool() {
    check("max_pool", 0.0, |case, _, i| {
        largest(9, |tap| {
            let (h, w) = ((2 * i[2] + tap / 3).wrapping_sub(1), (2 * i[3] + tap % 3).wrapping_sub(1));
            if h < 5 && w < 6 { case.at("x", &[i[0], i[1], h, w]) } else { f64::NEG_INFINITY }
        })
    });
}

#[test]
fn lstm() {
    check("lstm", 1e-5, |case, _, index| {
        let (inputs, units) = (case.size("I"), case.size("U"));
        let n = index[1];
        let (mut hidden, mut cell) = (vec![0.0; units], vec![0.0; units]);
        for t in 0..=index[0] {
            let gate = |g: usize, u: usize, hidden: &[f64]| {
                sum(inputs, |i| case.at("x", &[t, n, i]) * case.at("w", &[g, u, i]))
                    + sum(units, |k| hidden[k] * case.at("r", &[g, u, k]))
                    + case.at("b", &[g, u])
            };
            let before = hidden.clone();
            for u in 0..units {
                let (i, o) = (sigmoid(gate(0, u, &before)), sigmoid(gate(1, u, &before)));
                cell[u] = sigmoid(gate(2, u, &before)) * cell[u] + i * gate(3, u, &before).tanh();
                hidden[u] = o * cell[u].tanh();
            }
        }
        hidden[index[2]]
    });
}

#[test]
fn lstm_steps() {
    check("lstm_steps", 1e-5, |case, output, index| {
        let units = case.size("U");
        let n = index[1];
        let mut hidden: Vec<f64> = (0..units).map(|u| case.at("h0", &[n, u])).collect();
        let mut cell: Vec<f64> = (0..units).map(|u| case.at("c0", &[n, u])).collect();
        for t in 0..=index[0] {
            let before = hidden.clone();
            let gate = |g: usize, u: usize| {
                let row = g * units + u;
                sum(units, |k| before[k] * case.at("r", &[row, k])) + case.at("x", &[t, n, row])
            };
            for u in 0..units {
                let (i, o) = (sigmoid(gate(0, u)), sigmoid(gate(1, u)));
                cell[u] = sigmoid(gate(2, u)) * cell[u] + i * gate(3, u).tanh();
                hidden[u] = o * cell[u].tanh();
            }
        }
        if output == 0 { hidden[index[2]] } else { cell[index[2]] }
    });
}

#[test]
fn lstm_gates() {
    const UNITS: usize = 128;
    // Hidden values and cells of all steps and rows, of the case with this first input.
    let known: RefCell<(f64, Vec<Vec<[f64; 2]>>)> = RefCell::new((f64::NAN, Vec::new()));
    check("lstm_gates", 1e-5, |case, output, index| {
        let (steps, rows) = (case.size("T"), case.size("N"));
        let first = case.at("x", &[0, 0, 0]);
        let mut known = known.borrow_mut();
        if known.0 != first {
            let mut states: Vec<Vec<[f64; 2]>> = Vec::new();
            for place in 0..steps * rows {
                let (t, n) = (place / rows, place % rows);
                let before = if t > 0 { states[place - rows].clone() } else { vec![[0.0; 2]; UNITS] };
                let gate = |g: usize| {
                    sum(UNITS, |k| before[k][0] * case.at("w", &[g / 16, k, g % 16])) + case.at("x", &[t, n, g])
                };
                let state = (0..UNITS).map(|u| {
                    let forgotten = sigmoid(gate(u + 2 * UNITS)) * before[u][1];
                    let cell = forgotten + sigmoid(gate(u)) * gate(u + 3 * UNITS).tanh();
                    [sigmoid(gate(u + UNITS)) * cell.tanh(), cell]
                });
                states.push(state.collect());
            }
            *known = (first, states);
        }
        known.1[index[0] * rows + index[1]][index[2]][output]
    });
}

/// Bytes, which are what they are however products are summed.
#[test]
fn byte_steps() {
    const UNITS: usize = 64;
    fn state(case: &Case, t: usize, n: usize) -> Vec<f64> {
        let before = if t > 0 { state(case, t - 1, n) } else { vec![77.0; UNITS] };
        let of_unit = |u: usize| {
            let sum = sum(UNITS, |k| before[k] * case.at("w", &[u / 16, k / 4, u % 16, k % 4]));
            ((sum / 128.0 + case.at("x", &[t, n, u]) * 50.0).round_ties_even() + 100.0).clamp(0.0, 255.0)
        };
        (0..UNITS).map(of_unit).collect()
    }
    check("byte_steps", 0.0, |case, _, index| state(case, index[0], index[1])[index[2]]);
}

/// A GRU whose reset gate acts on the state before its product.
fn gru(case: &Case, units: usize, index: &[usize]) -> f64 {
    let n = index[1];
    let mut hidden: Vec<f64> = (0..units).map(|u| case.at("h0", &[n, u])).collect();
    for t in 0..=index[0] {
        let x = |g: usize, u: usize| case.at("x", &[t, n, g * units + u]);
        let gate =
            |g: usize, u: usize| sigmoid(x(g, u) + sum(units, |k| hidden[k] * case.at("rg", &[g * units + u, k])));
        let reset: Vec<f64> = (0..units).map(|k| gate(1, k) * hidden[k]).collect();
        let next = |u: usize| {
            let kept = sum(units, |k| reset[k] * case.at("rc", &[u, k]));
            let z = gate(0, u);
            (1.0 - z) * (x(2, u) + kept).tanh() + z * hidden[u]
        };
        hidden = (0..units).map(next).collect();
    }
    hidden[index[2]]
}

#[test]
fn gru_of_any_size_and_of_one_row() {
    check("gru_steps", 1e-5, |case, _, index| gru(case, case.size("U"), index));
    check("gru_one_row", 1e-5, |case, _, index| gru(case, 5, index));
}

#[test]
fn online_attention_equals_attention() {
    check("online_attention", 1e-5, |case, _, i| {
        let (l, d) = (case.size("L"), case.size("D"));
        let weight = |l| {
            let dot = sum(d, |d| case.at("q", &[i[0], i[1], d]) * case.at("k", &[i[0], l, d]));
            (dot / (d as f64).sqrt()).exp()
        };
        sum(l, |l| weight(l) * case.at("v", &[i[0], l, i[2]])) / sum(l, weight)
    });
}

#[test]
fn cumsum() {
    check("cumsum", 1e-6, |case, _, i| sum(i[1] + 1, |t| case.at("x", &[i[0], t])));
}

/// Each step adds all of `x` and, once per element, the step before: a geometric series.
#[test]
fn cumulated_sums() {
    check("cumulated_sums", 1e-5, |case, _, i| {
        let total = sum(case.size("K"), |k| case.at("x", &[k]));
        sum(i[0] + 1, |t| total * (case.size("K") as f64).powi(t as i32))
    });
}

/// What neighbours had in steps before: a running sum to the right.
#[test]
fn shifted_steps() {
    check("shifted_steps", 1e-6, |case, _, i| sum(i[1] + 1, |t| case.at("x", &[i[0] + t])));
}

/// To eleven significant bits, of two neighbours the one further from zero.
fn tf32(x: f64) -> f64 {
    if x == 0.0 {
        return x;
    }
    let unit = 2f64.powi(x.abs().log2().floor() as i32 - 10);
    (x / unit).round() * unit
}

#[test]
fn tf32_product() {
    check("tf32_product", 1e-6, |case, _, i| {
        sum(40, |k| tf32(case.at("x", &[i[0], k])) * tf32(case.at("w", &[k, i[1]]))).max(0.0)
    });
}

#[test]
fn min_plus_product() {
    check("min_plus", 1e-6, |case, _, i| {
        -largest(case.size("K"), |k| -(case.at("a", &[i[0], k]) + case.at("b", &[k, i[1]])))
    });
}

#[test]
fn l1_distances() {
    check("l1_distance", 1e-6, |case, _, i| {
        sum(case.size("K"), |k| (case.at("a", &[i[0], k]) - case.at("b", &[i[1], k])).abs())
    });
}

#[test]
fn stencil_of_exponentials() {
    check("stencil_exp", 1e-6, |case, _, i| {
        let (height, width) = (case.size("H"), case.size("W"));
        let e = |h: usize, w: usize| if h < height && w < width { case.at("x", &[h, w]).exp() } else { 0.0 };
        let (h, w) = (i[0], i[1]);
        let around = e(h.wrapping_sub(1), w) + e(h + 1, w) + e(h, w.wrapping_sub(1)) + e(h, w + 1);
        0.5 * e(h, w) + 0.125 * around
    });
}

#[test]
fn embedding() {
    check("embedding", 0.0, |case, _, i| case.at("table", &[case.at("ids", &i[..2]) as usize, i[2]]));
}

#[test]
fn scattered_sum() {
    check("scattered_sum", 1e-6, |case, _, i| {
        let meant = |m: usize| case.at("at", &[m]) == i[0] as f64;
        let updates = sum(case.size("M"), |m| if meant(m) { case.at("u", &[m, i[1]]) } else { 0.0 });
        case.at("x", i) + updates
    });
}

#[test]
fn cache_rows() {
    check("cache_rows", 0.0, |case, _, i| {
        let at = i[2] as f64 - case.at("start", &i[..1]);
        let is_new = (0.0..case.size("S") as f64).contains(&at);
        if is_new { case.at("new", &[i[0], i[1], at as usize, i[3]]) } else { case.at("past", i) }
    });
}

#[test]
fn rows_that_stay() {
    check("rows_that_stay", 0.0, |case, _, i| {
        if case.at("stays", &i[..1]) >= 0.0 { case.at("x", i) } else { 2.0 * case.at("factor", &i[1..]) }
    });
}

#[test]
fn argmax() {
    check("argmax", 0.0, |case, _, i| {
        let x = |c: usize| case.at("x", &[i[0], c]);
        let best = largest(case.size("C"), x);
        (0..case.size("C")).position(|c| x(c) == best).expect("the largest is one of them") as f64
    });
}

#[test]
fn welford() {
    check("welford", 1e-5, |case, output, i| {
        let c = case.size("C");
        let x = |c: usize| case.at("x", &[i[0], c]);
        let mean = sum(c, x) / c as f64;
        if output == 0 { mean } else { sum(c, |c| (x(c) - mean).powi(2)) / c as f64 }
    });
}

#[test]
fn norm_of_a_whole_image() {
    check("whole_norm", 2e-5, |case, _, i| {
        let (height, width) = (case.size("H"), case.size("W"));
        let all = |f: &dyn Fn(f64) -> f64| sum(height, |h| sum(width, |w| f(case.at("x", &[h, w]))));
        let n = (height * width) as f64;
        let mean = all(&|x| x) / n;
        let variance = all(&|x| (x - mean).powi(2)) / n;
        if i[1] == 0 { 0.0 } else { (case.at("x", &[i[0], i[1] - 1]) - mean) / (variance + 1e-5).sqrt() }
    });
}

#[test]
fn matmul_with_gelu() {
    check("matmul", 2e-3, |case, _, i| {
        let x = sum(case.size("K"), |k| case.at("a", &[i[0], k]) * case.at("b", &[k, i[1]])) + case.at("bias", &i[1..]);
        // GELU through its tanh form, which is within the tolerance.
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
    });
}

#[test]
fn large_u64() {
    check("large_u64", 1e-6, |case, _, i| case.at("x", i) * 2f64.powi(62) + 2f64.powi(63));
}

#[test]
fn every_kernel_file_has_a_formula() {
    let source = include_str!("kernel_formulas.rs");
    for (name, _) in infc_testkit::kernels() {
        assert!(source.contains(&format!("check(\"{name}\"")), "{name} has no formula");
    }
}
