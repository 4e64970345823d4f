//! Whole models by way of PTX: all kernels of a plan as they are compiled for `cuda`, executed by the simulator one after
//! the other, against the interpreter of the model's graph before any pass.

mod artifacts;
mod assembled;
mod beside;
#[path = "../net/mod.rs"]
mod net;
mod networks;
mod ports;
mod precision;
mod simulated;
mod stretches;
mod times;

use infc_frontend_onnx::{ImportOptions, LoadOptions, Model, import};
use infc_ir::interp::{run_graph, symbol_values};
use infc_passes::ErrorClass;
use infc_passes::form::{FormOptions, GraphPlan, OperandSource, form};
use infc_passes::graph::{PassContext, PassOptions, optimize};
use infc_tensor::{DType, Tensor};
use infc_testkit::{assert_close, random_tensor};
use simulated::simulate;

/// Plans a model, and holds what the simulator makes of it to what its graph means, at several extents of its inputs.
#[track_caller]
fn agrees(model: &Model, shapes: &[Vec<Vec<usize>>]) -> GraphPlan {
    let mut graph = import(model, &ImportOptions::default()).expect("the model can be imported");
    let original = graph.clone();
    let options = PassOptions { allowed: ErrorClass::Reassociating, ..PassOptions::default() };
    optimize(&mut graph, &PassContext::new(options)).expect("passes run");
    let plan = form(&graph, &FormOptions { keeps_any_size: false, ..FormOptions::default() })
        .expect("the graph can be planned");
    assert!(plan.hosts.is_empty() && plan.kernels.len() > 1, "{plan}");
    for shapes in shapes {
        let inputs: Vec<Tensor> =
            (0..).zip(shapes).map(|(n, shape)| random_tensor(DType::F32, shape.clone(), 5 + n)).collect();
        let symbols = symbol_values(&original, &inputs).expect("the inputs fit");
        let expected = run_graph(&original, &symbols, &inputs).expect("the graph can be interpreted");
        let symbols = symbol_values(&plan.graph, &inputs).expect("the inputs fit");
        for seed in 0..2 {
            let found = simulate(&plan, &symbols, &inputs, seed);
            assert_close(&format!("{shapes:?}, seed {seed}"), &found, &expected, 1e-4, 1e-5);
        }
    }
    plan
}

fn built(net: net::Net) -> Model {
    Model::from_bytes(net.into_bytes(), None).expect("the model is well formed")
}

#[test]
fn the_demo_network() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    let model = Model::load(&path, &LoadOptions::default()).expect("the model can be read");
    agrees(&model, &[1, 2].map(|batch| vec![vec![batch, 1, 8, 8]]));
}

#[test]
fn a_residual_network() {
    agrees(&built(networks::residual()), &[1, 2].map(|batch| vec![vec![batch, 3, 13, 11]]));
}

/// Minimal filtering keeps the tiles of an image between its steps, for which a GPU's code has no memory if nobody knows how
/// many there are.
#[test]
fn images_of_any_size() {
    let model = built(networks::any_size());
    let mut graph = import(&model, &ImportOptions::default()).expect("the model can be imported");
    let options = PassOptions { allowed: ErrorClass::Reassociating, ..PassOptions::default() };
    optimize(&mut graph, &PassContext::new(options)).expect("passes run");
    let transformed = |keeps_any_size: bool| {
        let options = FormOptions { keeps_any_size, max_weight_growth: 4.0, ..FormOptions::default() };
        let plan = form(&graph, &options).expect("the graph can be planned");
        let is_transformed = |source: &OperandSource| match source {
            OperandSource::Constant(c) => c.packing.as_ref().is_some_and(|packing| packing.transform.is_some()),
            _ => false,
        };
        plan.kernels.iter().flat_map(|kernel| &kernel.operands).filter(|source| is_transformed(source)).count()
    };
    assert_eq!((transformed(false), transformed(true)), (0, 1));
    agrees(&model, &[(1, 9, 8), (2, 5, 3)].map(|(n, h, w)| vec![vec![n, 3, h, w]]));
}

#[test]
fn a_kernel_that_writes_onto_what_it_reads() {
    let plan = agrees(&built(networks::branches()), &[1, 5, 40].map(|rows| vec![vec![rows, 6]]));
    assert!(plan.kernels.iter().any(|kernel| !kernel.in_place.is_empty()), "{plan}");
}

#[test]
fn a_transformer() {
    agrees(&built(networks::transformer()), &[(1, 7), (2, 1), (2, 5)].map(|(n, s)| vec![vec![n, s, 16]]));
}

#[test]
fn a_detector() {
    agrees(&built(networks::detector()), &[1, 2].map(|batch| vec![vec![batch, 3, 12, 10]]));
}

#[test]
fn a_recurrent_network() {
    agrees(&built(networks::recurrent("2")), &[1, 4].map(|s| vec![vec![s, 2, 5]]));
}
