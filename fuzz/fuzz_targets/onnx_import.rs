//! Whatever the bytes, loading and importing a model ends in a valid graph or an error.

#![no_main]

use infc_frontend_onnx::{ImportOptions, Model, import};
use infc_ir::verify::verify_graph;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Without a folder there is no external data, so nothing outside of the bytes is read.
    let Ok(model) = Model::from_bytes(bytes.to_vec(), None) else { return };
    let Ok(graph) = import(&model, &ImportOptions::default()) else { return };
    if let Err(error) = verify_graph(&graph) {
        panic!("the imported graph is not valid: {error}\n{graph}");
    }
});
