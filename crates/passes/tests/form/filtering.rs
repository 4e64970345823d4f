//! Which convolutions are computed by minimal filtering: those whose gain is worth the larger filter.

use crate::build::{Net, i, noise, within};
use crate::shape::conv;
use infc_ir::interp::run_graph;
use infc_ir::scalar::UnaryOp;
use infc_passes::ErrorClass;
use infc_passes::form::{FormOptions, GraphPlan, Interpreter, OperandSource, form};

/// Per kernel that reads a filter, the results per application of the filtering; 0 where there is none.
fn filterings(plan: &GraphPlan) -> Vec<usize> {
    let constants = |kernel: &infc_passes::form::PlannedKernel| {
        let packed = kernel.operands.iter().filter_map(|source| match source {
            OperandSource::Constant(constant) if constant.constant.tensor.rank() >= 4 => Some(constant),
            _ => None,
        });
        packed
            .map(|c| c.packing.as_ref().and_then(|p| p.transform.as_ref()).map_or(0, |t| t.outputs))
            .collect::<Vec<_>>()
    };
    plan.kernels.iter().flat_map(constants).collect()
}

/// Three channels, many, a stride, a filter of one tap.
fn net(side: i64, channels: usize) -> Net {
    let mut net = Net::new();
    let x = net.input(&[1, 3, side, side]);
    let a = conv(&mut net, x, channels, 3, 1, 1);
    let b = conv(&mut net, a, channels, 3, 1, 3);
    let c = conv(&mut net, b, channels, 3, 2, 5);
    let d = conv(&mut net, c, channels, 1, 1, 7);
    net.output(d);
    net
}

#[test]
fn only_what_slides_over_many_channels_is_filtered() {
    let plan = form(&net(56, 64).graph, &FormOptions::default()).expect("well formed");
    assert_eq!(filterings(&plan), [0, 4, 0, 0], "{plan}");
}

/// An output of the model is row-major: its neighbours are those along a row, which tiles cut, unless a copy turns it round.
#[test]
fn what_is_written_row_by_row_is_not_filtered() {
    let of = |ends_with_product: bool, turns: bool| {
        let mut net = Net::new();
        let x = net.input(&[1, 3, 56, 56]);
        let a = conv(&mut net, x, 64, 3, 1, 1);
        let b = conv(&mut net, a, 64, 3, 1, 3);
        let y = if ends_with_product { conv(&mut net, b, 64, 1, 1, 7) } else { b };
        net.output(y);
        filterings(&form(&net.graph, &FormOptions { turns, ..FormOptions::default() }).expect("well formed"))
    };
    assert_eq!(of(false, false), [0, 0]);
    assert_eq!(of(false, true), [0, 4]);
    assert_eq!(of(true, false), [0, 4, 0]);
}

/// Taps along an axis that is not the neighbours': nothing is cut there, but what is transformed for all columns would be
/// transformed for each.
#[test]
fn what_has_other_neighbours_than_columns_is_not_filtered() {
    let of = |ends_with_product: bool| {
        let mut net = Net::new();
        let x = net.input(&[1, 3, 40, 48]);
        let a = conv(&mut net, x, 64, 1, 1, 1);
        let w = net.weights(&[64, 64, 3], 3);
        let rows = i(2) + i(3) - 1;
        let window =
            net.view_or(a, &[i(0), i(1), rows.clone(), i(4)], vec![within(rows, 40)], 0.0, &[1, 64, 40, 3, 48]);
        let b = net.contract("ncyrx,krc->nkyx", window, w);
        let y = if ends_with_product { conv(&mut net, b, 64, 1, 1, 7) } else { b };
        net.output(y);
        let plan = form(&net.graph, &FormOptions { turns: false, ..FormOptions::default() }).expect("well formed");
        plan.kernels.iter().flat_map(|kernel| &kernel.operands).any(|source| match source {
            OperandSource::Constant(c) => c.packing.as_ref().is_some_and(|p| p.transform.is_some()),
            OperandSource::Value(_) => false,
        })
    };
    assert!(!of(false) && of(true));
}

/// Along three axes a tile has more points than transforms can bear: the sum stays as it is.
#[test]
fn volumes_are_not_filtered() {
    let mut net = Net::new();
    let x = net.input(&[1, 32, 16, 32, 32]);
    let a = net.unary(UnaryOp::Abs, x);
    let w = net.weights(&[32, 32, 3, 3, 3], 3);
    let at = [i(2) + i(5) - 1, i(3) + i(6) - 1, i(4) + i(7) - 1];
    let valid = at.iter().zip([16, 32, 32]).map(|(e, extent)| within(e.clone(), extent)).collect();
    let index: Vec<_> = [i(0), i(1)].into_iter().chain(at).collect();
    let window = net.view_or(a, &index, valid, 0.0, &[1, 32, 16, 32, 32, 3, 3, 3]);
    let y = net.contract("ncdhwqrs,kcqrs->nkdhw", window, w);
    let y = net.unary(UnaryOp::Abs, y);
    net.output(y);
    let plan = form(&net.graph, &FormOptions::default()).expect("well formed");
    assert_eq!(filterings(&plan), [0], "{plan}");
}

/// Transforms round relative to the largest value of a tile.
#[test]
fn filtered_plans_compute_the_same() {
    let net = net(16, 32);
    let plan = form(&net.graph, &FormOptions::default()).expect("well formed");
    assert!(filterings(&plan).iter().any(|&outputs| outputs > 0), "{plan}");
    let input = noise(&[1, 3, 16, 16], 1);
    let expected = run_graph(&net.graph, &[], std::slice::from_ref(&input)).expect("it runs");
    let found = Interpreter::new(&plan, &[], &[input]).run().expect("it runs");
    let largest =
        (0..expected[0].len_elems()).filter_map(|n| expected[0].get_f64(n)).fold(0.0, |m: f64, x| m.max(x.abs()));
    infc_testkit::assert_close("the network", &found, &expected, 0.0, 1e-5 * largest);
}

/// A filter of 64 to 64 channels takes 147 KiB as it is, 1.8 times that for two results, 4 times for four: nothing to speak of.
/// One of 512 to 512 takes 9 MiB, half of its network's constants.
#[test]
fn the_limit_on_constants_decides_how_far_it_goes() {
    let (small, large) = (net(56, 64), net(56, 512));
    let with = |net: &Net, options: FormOptions| filterings(&form(&net.graph, &options).expect("well formed"));
    for (net, max_weight_growth, expected) in
        [(&small, 1.0, 0), (&small, 1.01, 4), (&large, 1.0, 0), (&large, 1.2, 0), (&large, 1.5, 2), (&large, 3.0, 4)]
    {
        let found = with(net, FormOptions { max_weight_growth, ..FormOptions::default() });
        assert_eq!(found, [0, expected, 0, 0], "{max_weight_growth}");
    }
    assert_eq!(with(&small, FormOptions { allowed: ErrorClass::Exact, ..FormOptions::default() }), [0, 0, 0, 0]);
}
