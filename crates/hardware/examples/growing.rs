//! Times runs of a decoder whose cache is one longer each time, and of one whose cache stays: `growing ARTIFACT [gpu]`.
use infc_runtime::{LoadOptions, Model, SessionOptions};
use infc_tensor::Tensor;
use std::time::Instant;

fn main() {
    let path = std::env::args().nth(1).expect("an artifact");
    let model =
        Model::from_vec_with(std::fs::read(path).unwrap(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let mut run = |past: usize| {
        let one = Tensor::from_elements(&[1, 1], &[1i64]).unwrap();
        let mask = Tensor::from_elements(&[1, past + 1], &vec![1i64; past + 1]).unwrap();
        let at = Tensor::from_elements(&[1, 1], &[past as i64]).unwrap();
        let cache = Tensor::from_elements(&[1, 4, past, 8], &vec![0.1f32; 32 * past]).unwrap();
        let mut inputs = vec![&one, &mask, &at];
        inputs.extend(std::iter::repeat_n(&cache, 10));
        let begun = Instant::now();
        let out = session.run_owned(&inputs).unwrap_or_else(|e| panic!("{e}"));
        let t = begun.elapsed().as_secs_f64();
        assert!(out[0].elements::<f32>().unwrap()[0].is_finite());
        t
    };
    run(400);
    let median = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2] * 1e3
    };
    for round in 0..3 {
        let grows = median((100..300).map(&mut run).collect());
        let shrinks = median((100..300).rev().map(&mut run).collect());
        let stays = median((0..200).map(|_| run(200)).collect());
        println!("round {round}: growing {grows:.3} ms, shrinking {shrinks:.3} ms, of 200 {stays:.3} ms");
    }
}
