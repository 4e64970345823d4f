//! Random graphs keep their meaning under every pass alone and under all of them.

use super::build::{Net, assert_close, c, i, within};
use infc_ir::entity::ValueId;
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_passes::graph::{PIPELINE, PassContext, PassOptions, run_pass};
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
    (0u8..14, any::<usize>(), any::<usize>(), any::<u32>()).prop_map(|(kind, a, b, seed)| Growth { kind, a, b, seed })
}

const UNARY: [UnaryOp; 6] = [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Erf, UnaryOp::Floor];
const BINARY: [BinaryOp; 5] = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min];
const NUMBERS: [f32; 8] = [0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -0.25, 0.7];

/// A graph over `[3, 4]` values, so that any two fit, with detours through other shapes.
fn grow(steps: &[Growth]) -> Net {
    let mut net = Net::new();
    let shape = [3, 4];
    let mut values: Vec<ValueId> = vec![net.input(&shape), net.input(&shape)];
    for step in steps {
        let (a, b) = (values[step.a % values.len()], values[step.b % values.len()]);
        let seed = step.seed as usize;
        let number = NUMBERS[seed % NUMBERS.len()];
        let new = match step.kind {
            0 => net.unary(UNARY[seed % UNARY.len()], a),
            1 => net.binary(BINARY[seed % BINARY.len()], a, b),
            2 => net.with_number(BINARY[seed % BINARY.len()], a, number),
            3 => {
                let w = net.weights(&[4], step.seed % 3);
                net.binary(BINARY[seed % BINARY.len()], a, w)
            }
            4 => {
                let w = net.weights(&[3, 1], step.seed % 3);
                net.binary(BINARY[seed % BINARY.len()], a, w)
            }
            5 => {
                let t = net.transpose(a, &[1, 0]);
                let t = net.unary(UNARY[seed % UNARY.len()], t);
                net.transpose(t, &[1, 0])
            }
            6 => {
                let w = net.weights(&[4, 4], step.seed % 5);
                net.contract("mk,kn->mn", a, w)
            }
            7 => {
                let w = net.weights(&[3, 3], step.seed % 5);
                net.contract("mk,nm->nk", a, w)
            }
            8 => {
                let scores = net.contract("md,nd->mn", a, b);
                net.contract("mn,nd->md", scores, a)
            }
            9 => {
                let sum = net.reduce(a, seed % 2, BINARY[seed % 2 * 3], -0.5 * (seed % 2) as f64);
                net.binary(BinaryOp::Sub, a, sum)
            }
            10 => {
                let flat = net.view(a, &[i(0).floor_div(&c(4)), i(0).modulo(&c(4))], &[12]);
                let flat = net.with_number(BinaryOp::Mul, flat, number);
                net.view(flat, &[i(0).scale(4) + i(1)], &shape)
            }
            11 => {
                // Shifted by one with padding.
                let moved = i(1) - 1;
                net.view_or(a, &[i(0), moved.clone()], vec![within(moved, 4)], f64::from(number), &shape)
            }
            12 => {
                let both = net.concat(&[a, b], 0);
                net.view(both, &[i(0) + (seed % 4) as i64, i(1)], &shape)
            }
            _ => {
                // A sliding window of three along the rows, contracted with weights, padded.
                let x = net.with_number(BinaryOp::Mul, a, number);
                let at = i(0) + i(2) - 1;
                let window = net.view_or(x, &[at.clone(), i(1)], vec![within(at, 3)], 0.0, &[3, 4, 3]);
                let w = net.weights(&[4, 4, 3], step.seed % 5);
                net.contract("mky,nky->mn", window, w)
            }
        };
        values.push(new);
    }
    for n in 0..2.min(values.len()) {
        net.output(values[values.len() - 1 - n]);
    }
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_pass_keeps_the_meaning(steps in prop::collection::vec(growth(), 1..10)) {
        let net = grow(&steps);
        let before = net.outputs();
        for pass in PIPELINE {
            let mut net = net.clone();
            let cx = PassContext::new(PassOptions { horizontal: true, ..PassOptions::default() });
            run_pass(pass, &mut net.graph, &cx).expect("the pass succeeds");
            assert_close(&before, &net.outputs());
        }
    }

    #[test]
    fn the_pipeline_keeps_the_meaning_and_ends(steps in prop::collection::vec(growth(), 1..16)) {
        grow(&steps).optimize();
    }
}
