//! The committed Rust types are what `proto/onnx.proto` generates; `INFC_BLESS=1` writes them anew.

use std::path::Path;

#[test]
fn the_committed_types_match_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([root.join("proto/onnx.proto")], [root.join("proto")]).expect("the file parses");
    let folder = tempfile::tempdir().expect("a temporary folder");
    prost_build::Config::new()
        // Tensor data stays where it is in the mapped file.
        .bytes(["."])
        .disable_comments(["."])
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .expect("code is generated");
    let generated = std::fs::read_to_string(folder.path().join("onnx.rs")).expect("one package");

    let committed = root.join("src/generated/onnx.rs");
    if std::env::var_os("INFC_BLESS").is_some() {
        std::fs::write(&committed, &generated).expect("the source tree is writable");
    }
    let found = std::fs::read_to_string(&committed).expect("the file is committed");
    assert!(found == generated, "src/generated/onnx.rs is stale: run this test with INFC_BLESS=1");
}
