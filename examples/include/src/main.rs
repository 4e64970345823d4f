//! A network that is part of the program: `include_artifact!` embeds the file, aligned, and its weights are used where
//! they lie.
//!
//! `digits.infa` beside this file was made by
//!
//! ```text
//! infc compile demo/digits.onnx --dim N=1 -o examples/include/src/digits.infa
//! ```

use infc_runtime::{Model, RuntimeError, SessionOptions, Tensor, include_artifact};

/// A seven, ink from 0 to 16: an image of the held-out set of `demo/`.
#[rustfmt::skip]
const SEVEN: [u8; 64] = [
     0,  0,  2, 13, 16,  9,  0,  0,
     0,  0, 12, 12,  7, 16,  3,  0,
     0,  1, 14,  3,  0, 16,  4,  0,
     0,  0,  0,  4, 10, 16,  6,  0,
     0,  0,  0, 13, 16, 16,  9,  0,
     0,  0,  0,  5, 13,  1,  0,  0,
     0,  0,  0, 11,  9,  0,  0,  0,
     0,  0,  1, 16,  4,  0,  0,  0,
];

fn main() -> Result<(), RuntimeError> {
    let model = Model::from_static(include_artifact!("digits.infa"))?;
    let mut session = model.session(&SessionOptions::default())?;

    let pixels = SEVEN.map(|ink| f32::from(ink) / 16.0);
    let image = Tensor::from_elements(&[1, 1, 8, 8], &pixels)?;
    let outputs = session.run_owned(&[&image])?;

    let probabilities: &[f32] = outputs[0].elements()?;
    let (digit, probability) = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("ten digits");
    println!("it is a {digit} ({:.1} %)", probability * 100.0);
    assert_eq!(digit, 7);
    Ok(())
}
