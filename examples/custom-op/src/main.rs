//! Loads an artifact that calls an operator of this program's, and runs it: `custom-op MODEL.infa`.
//!
//! The model computes `Interleave(x + x, x · x)`: everything but the interleaving is native code. Compile it with
//! `infc compile model.onnx --custom-ops operators.toml`.

use infc_runtime::{CustomCall, CustomOpError, LoadOptions, Model, Runtime, SessionOptions, Tensor};
use std::error::Error;

/// The columns of `a` and `b` in turn.
fn interleave(call: &CustomCall<'_>) -> Result<Vec<Tensor>, CustomOpError> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let elements: Vec<f32> =
        a.elements::<f32>()?.iter().zip(b.elements::<f32>()?).flat_map(|(a, b)| [*a, *b]).collect();
    // The declaration says that there are two axes; what is returned is checked against it.
    let [n, c] = a.shape() else { return Err(CustomOpError::new("a matrix is needed")) };
    Ok(vec![Tensor::from_elements(&[*n, 2 * c], &elements)?])
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: custom-op MODEL.infa")?;

    // Without the operator the model cannot be loaded, and the error names it.
    let error = Model::open(&path).err().ok_or("the model needs no custom operator")?;
    println!("{}: {error}", error.code());

    let mut runtime = Runtime::new();
    runtime.register("my.domain::Interleave@1", interleave)?;
    let model = Model::open_with(&path, &LoadOptions { runtime, ..LoadOptions::default() })?;
    let mut session = model.session(&SessionOptions::default())?;

    let x = Tensor::from_elements(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let outputs = session.run_owned(&[&x])?;
    let expected = [2.0f32, 1.0, 4.0, 4.0, 6.0, 9.0, 8.0, 16.0, 10.0, 25.0, 12.0, 36.0];
    assert_eq!(outputs, [Tensor::from_elements(&[2, 6], &expected)?]);
    println!("{} from {}: {:?}", model.outputs()[0].name, model.selection().target, outputs[0].elements::<f32>()?);
    Ok(())
}
