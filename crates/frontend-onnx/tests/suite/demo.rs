//! The demo's network, as a file: loading, importing, and running it.

use crate::values::floats_from;
use infc_frontend_onnx::{ImportOptions, LoadOptions, Model, decode_tensor, encode_tensor, import};
use infc_ir::entity::EntityId;
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use std::path::Path;

#[test]
fn the_digits_network_gives_ten_scores_per_image() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    let model = Model::load(&path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let graph = import(&model, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let batch = graph.ty(graph.inputs[0].value).shape[0].as_symbol().expect("the batch is dynamic");
    let symbols: Vec<i64> = graph.symbols.ids().map(|s| if s == batch { 3 } else { 1 }).collect();
    assert_eq!((batch.index(), symbols.len()), (0, 1));
    let images = floats_from(&[3, 1, 8, 8], 0.0, 1.0);
    // Through a file of test data and back.
    let images = decode_tensor(encode_tensor("x", &images).into()).unwrap_or_else(|e| panic!("{e}"));
    let all = run_graph(&graph, &symbols, std::slice::from_ref(&images)).unwrap_or_else(|e| panic!("{e}")).remove(0);
    assert_eq!(all.shape(), [3, 10]);
    // Images do not depend on each other.
    let first = images.elements::<f32>().expect("floats")[..64].to_vec();
    let first = infc_tensor::Tensor::from_elements(&[1, 1, 8, 8], &first).expect("one image");
    let alone = run_graph(&graph, &[1], &[first]).unwrap_or_else(|e| panic!("{e}")).remove(0);
    assert_eq!(alone.elements::<f32>().expect("floats"), &all.elements::<f32>().expect("floats")[..10]);
}
