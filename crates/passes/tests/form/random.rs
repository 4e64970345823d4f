//! Random small networks.

use crate::build::{Net, c, i, within};
use crate::run::check;
use crate::shape::{conv, depthwise};
use infc_ir::entity::ValueId;
use infc_ir::index::IndexExpr;
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_passes::graph::{PassContext, optimize};
use proptest::prelude::*;

/// One step: what to add, and to which of the values so far (modulo their number).
#[derive(Clone, Copy, Debug)]
struct Growth {
    kind: u8,
    a: usize,
    b: usize,
    seed: u32,
}

fn growth() -> impl Strategy<Value = Growth> {
    (0u8..15, any::<usize>(), any::<usize>(), any::<u32>()).prop_map(|(kind, a, b, seed)| Growth { kind, a, b, seed })
}

const CHANNELS: i64 = 8;
const SIZE: i64 = 4;

/// A graph over `[1, 8, 4, 4]` values, so that any two fit, with detours through other shapes.
fn grow(steps: &[Growth]) -> Net {
    let mut net = Net::new();
    let shape = [1, CHANNELS, SIZE, SIZE];
    let mut values: Vec<ValueId> = vec![net.input(&shape), net.input(&shape)];
    for step in steps {
        let (a, b) = (values[step.a % values.len()], values[step.b % values.len()]);
        let seed = step.seed % 1000;
        let new = match step.kind {
            0 => conv(&mut net, a, 8, 1, 1, seed),
            1 => conv(&mut net, a, 8, 3, 1, seed),
            2 => depthwise(&mut net, a, seed),
            3 => net.binary([BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max][seed as usize % 3], a, b),
            4 => net.unary([UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Abs][seed as usize % 3], a),
            5 => {
                // Two halves put together: in place where they are computed.
                let both = net.concat(&[a, b], 1);
                conv(&mut net, both, 8, 1, 1, seed)
            }
            6 => {
                let both = net.concat(&[a, b], 1);
                let start = i64::from(seed % 9);
                net.view(both, &[i(0), i(1) + start, i(2), i(3)], &shape)
            }
            7 => {
                // As a matrix, and back.
                let flat = net.view(a, &[c(0), i(0), i(1).floor_div(&c(4)), i(1).modulo(&c(4))], &[8, 16]);
                let w = net.weights(&[16, 16], seed);
                let y = net.contract("mk,kn->mn", flat, w);
                net.view(y, &[i(1), i(2).scale(4) + i(3)], &shape)
            }
            8 => {
                // Channel shuffle.
                let split = net.view(a, &[i(0), i(1).scale(4) + i(2), i(3), i(4)], &[1, 2, 4, 4, 4]);
                let swapped = net.transpose(split, &[0, 2, 1, 3, 4]);
                net.view(swapped, &[i(0), i(1).floor_div(&c(2)), i(1).modulo(&c(2)), i(2), i(3)], &shape)
            }
            9 => {
                let (h, w) = (i(2) + i(4) - 1, i(3) + i(5) - 1);
                let valid = vec![within(h.clone(), SIZE), within(w.clone(), SIZE)];
                let window = net.view_or(a, &[i(0), i(1), h, w], valid, f64::from(seed % 2), &[1, 8, 4, 4, 3, 3]);
                let pooled = net.reduce(window, 5, BinaryOp::Add, 0.0);
                let pooled = net.reduce(pooled, 4, BinaryOp::Add, 0.0);
                net.view(pooled, &[i(0), i(1), i(2), i(3), c(0), c(0)], &shape)
            }
            10 => {
                // Squeeze and excite.
                let mean = net.mean(a, 3);
                let mean = net.mean(mean, 2);
                let gate = net.unary(UnaryOp::Sigmoid, mean);
                let gate = net.spread(gate, &shape);
                net.binary(BinaryOp::Mul, a, gate)
            }
            11 => {
                // Soft maximum along the channels.
                let top = net.reduce(a, 1, BinaryOp::Max, f64::NEG_INFINITY);
                let top = net.spread(top, &shape);
                let shifted = net.binary(BinaryOp::Sub, a, top);
                let e = net.unary(UnaryOp::Exp, shifted);
                let sum = net.reduce(e, 1, BinaryOp::Add, 0.0);
                let sum = net.spread(sum, &shape);
                net.binary(BinaryOp::Div, e, sum)
            }
            12 => {
                let moved = i(2) - 1;
                net.view_or(
                    a,
                    &[i(0), i(1), moved.clone(), i(3)],
                    vec![within(moved, SIZE)],
                    f64::from(seed % 3),
                    &shape,
                )
            }
            13 => {
                // Padded by mirroring, by the border, or from the other end.
                let padded = |e: IndexExpr| match seed % 3 {
                    0 => (e.clone() - 1).maximum(&(c(1) - e.clone())).minimum(&(c(2 * SIZE - 1) - e)),
                    1 => (e - 1).maximum(&c(0)).minimum(&c(SIZE - 1)),
                    _ => (e + SIZE - 1).modulo(&c(SIZE)),
                };
                let index = [i(0), i(1), padded(i(2) + i(4)), padded(i(3) + i(5))];
                let window = net.view(a, &index, &[1, CHANNELS, SIZE, SIZE, 3, 3]);
                let weights = net.weights(&[8, CHANNELS as usize, 3, 3], seed);
                net.contract("nchwrs,kcrs->nkhw", window, weights)
            }
            _ => net.transpose(a, &[0, 1, 3, 2]),
        };
        // What is kept bounded stays comparable.
        let new = if matches!(step.kind, 0..=2 | 5 | 7 | 9 | 13) { net.unary(UnaryOp::Tanh, new) } else { new };
        values.push(new);
    }
    for n in 0..2.min(values.len()) {
        net.output(values[values.len() - 1 - n]);
    }
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn plans_compute_what_graphs_compute(steps in prop::collection::vec(growth(), 1..9)) {
        check(&grow(&steps));
    }

    #[test]
    fn so_they_do_after_graph_passes(steps in prop::collection::vec(growth(), 1..9)) {
        let mut net = grow(&steps);
        optimize(&mut net.graph, &PassContext::default()).expect("the passes succeed");
        check(&net);
    }
}
