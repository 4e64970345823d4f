//! Compiles the model. The artifact goes to the build's own folder, from where `main.rs` includes it.

use infc::{CompileOptions, DimChoice, Source};
use std::path::Path;
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    println!("cargo::rerun-if-changed={}", model.display());

    let options = CompileOptions {
        // One image at a time.
        dims: vec![("N".to_owned(), DimChoice::Fixed(1))],
        ..CompileOptions::default()
    };
    let compilation = infc::compile(&Source::file(model), &options, &mut ())?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("digits.infa"), compilation.to_bytes()?)?;
    Ok(())
}
