//! Runs the network that `build.rs` has compiled: the program holds machine code for it, and no ONNX is read any more.

use infc_runtime::{Model, RuntimeError, SessionOptions, Tensor, include_artifact};

/// A one, ink from 0 to 16: an image of the held-out set of `demo/`.
#[rustfmt::skip]
const ONE: [u8; 64] = [
     0,  0,  3,  8, 11, 11,  1,  0,
     0,  0,  3, 16, 16, 12,  0,  0,
     0,  0,  2, 15, 16, 12,  0,  0,
     0,  0,  0, 16, 16,  7,  0,  0,
     0,  0,  1, 15, 16, 10,  0,  0,
     0,  0,  1, 16, 16,  6,  0,  0,
     0,  0,  3, 16, 16,  5,  0,  0,
     0,  0,  2, 15, 16,  6,  0,  0,
];

fn main() -> Result<(), RuntimeError> {
    let model = Model::from_static(include_artifact!(concat!(env!("OUT_DIR"), "/digits.infa")))?;
    let mut session = model.session(&SessionOptions::default())?;

    let pixels = ONE.map(|ink| f32::from(ink) / 16.0);
    let image = Tensor::from_elements(&[1, 1, 8, 8], &pixels)?;
    let outputs = session.run_owned(&[&image])?;

    let probabilities: &[f32] = outputs[0].elements()?;
    let (digit, probability) = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("ten digits");
    println!("it is a {digit} ({:.1} %)", probability * 100.0);
    assert_eq!(digit, 1);
    Ok(())
}
