//! Trained models, all the way: compiled, loaded, run, and compared with what ONNX Runtime computed.
//!
//! The models are not part of this repository. They lie in `shared/models` beside it; a test whose model is missing says
//! so and passes.

use infc::{CompileOptions, ShapeDim, Source};
use infc_runtime::{LoadOptions, Model, Pool, SessionOptions, Tensor};
use std::path::{Path, PathBuf};

/// Models of which every node becomes a kernel.
const KERNELS_ALONE: [&str; 7] = [
    "g1_policy_mlp",
    "super_resolution",
    "ultraface_rfb320",
    "yolox_nano",
    "dnsmos_extdata",
    "magika_v3_3",
    "basic_pitch",
];

/// |a − b| ≤ ATOL + RTOL·|b|.
const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

fn folder(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models").join(name);
    if path.join("model.onnx").exists() {
        return Some(path);
    }
    let mut stderr = std::io::stderr().lock();
    let _ = std::io::Write::write_all(
        &mut stderr,
        format!("skipped: there is no model in {}\n", path.display()).as_bytes(),
    );
    None
}

fn read(path: &Path) -> Option<Tensor> {
    let bytes = std::fs::read(path).ok()?;
    Some(infc_frontend_onnx::decode_tensor(bytes.into()).expect("a stored tensor"))
}

fn tensors(set: &Path, kind: &str) -> Vec<Tensor> {
    (0..).map_while(|n| read(&set.join(format!("{kind}_{n}.pb")))).collect()
}

/// Whether this machine runs code of a target.
fn runs_here(bytes: &[u8], target: &str) -> Option<Model> {
    let options = LoadOptions {
        target: Some(target.to_owned()),
        pool: Some(Pool::builder().threads(1).build()),
        ..LoadOptions::default()
    };
    Model::from_vec_with(bytes.to_vec(), &options).ok()
}

/// What a model's outputs are held to.
type Agreement = fn(&str, &[Tensor], &[Tensor]);

/// Compiles a model and compares it with its recorded data; gives the artifact, unless there is no such model here.
fn check(name: &str, agree: Agreement) -> Option<Vec<u8>> {
    let folder = folder(name)?;
    let deny_fallback = KERNELS_ALONE.contains(&name);
    let options = CompileOptions { deny_fallback, ..CompileOptions::default() };
    let source = Source::file(folder.join("model.onnx"));
    let compilation = infc::compile(&source, &options, &mut ()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let bytes = compilation.to_bytes().expect("an artifact");
    let mut ran = 0;
    for target in options.byte_targets.iter().chain(&options.targets) {
        let Some(model) = runs_here(&bytes, target) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        for n in 0.. {
            let set = folder.join(format!("test_data_set_{n}"));
            if !set.exists() {
                break;
            }
            let inputs = tensors(&set, "input");
            let found = session.run_owned(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let expected = tensors(&set, "output");
            assert_eq!(expected.len(), found.len(), "{name}: outputs");
            agree(&format!("{name} for {target}, set {n}"), &expected, &found);
            ran += 1;
        }
    }
    assert!(ran > 0, "{name}: this machine runs none of the targets");
    Some(bytes)
}

/// Every element of every output agrees.
fn closely(place: &str, expected: &[Tensor], found: &[Tensor]) {
    infc_testkit::assert_close(place, found, expected, RTOL, ATOL);
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.len_elems()).map(|at| tensor.get_f64(at).expect("numbers")).collect()
}

/// No element of any output differs by more than a part of the largest expected one.
///
/// Small types magnify roundings, so that elements one by one say little. How far ONNX Runtime with its optimisations is
/// from itself without them stands in each quantised model's SOURCE.md; twice that is allowed here.
fn within(place: &str, bound: f64, expected: &[Tensor], found: &[Tensor]) {
    for (output, (expected, found)) in expected.iter().zip(found).enumerate() {
        assert_eq!((expected.dtype(), expected.shape()), (found.dtype(), found.shape()), "{place}, output {output}");
        let (b, a) = (numbers(expected), numbers(found));
        let largest = b.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let worst =
            a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0f64, |m, d| if d.is_nan() { d } else { m.max(d) });
        assert!(
            worst <= bound * largest,
            "{place}, output {output}: off by {worst:e} of {largest}, {:e}",
            worst / largest
        );
    }
}

fn argmax(row: &[f64]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a row has elements")
}

/// Two boxes' common area as a part of what they cover together; corners are `[left, top, right, bottom]`.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let area = |[left, top, right, bottom]: [f64; 4]| (right - left).max(0.0) * (bottom - top).max(0.0);
    let common = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    common / (area(*a) + area(*b) - common)
}

/// The same places hold objects, in boxes that overlap by 99 % at least.
fn same_boxes(place: &str, expected: &[(usize, [f64; 4])], found: &[(usize, [f64; 4])]) {
    let places = |objects: &[(usize, [f64; 4])]| objects.iter().map(|(n, _)| *n).collect::<Vec<usize>>();
    assert!(!expected.is_empty(), "{place}: the data shows an object");
    assert_eq!(places(found), places(expected), "{place}: where objects are");
    for ((at, expected), (_, found)) in expected.iter().zip(found) {
        let overlap = overlap(expected, found);
        assert!(overlap >= 0.99, "{place}: the box at {at} is {found:?}, expected {expected:?}: {overlap}");
    }
}

/// Rows of the centre and size of a box, one objectness, and scores of classes. The last quantisation is of boxes in
/// pixels, of which a step is 1.4, so that an objectness or a score from a half on is that step.
fn detects(place: &str, expected: &[Tensor], found: &[Tensor]) {
    within(place, 2.0 * 4.1e-3, expected, found);
    let (b, a) = (numbers(&expected[0]), numbers(&found[0]));
    let objects = |rows: &[f64]| -> Vec<(usize, [f64; 4])> {
        let object = |(n, row): (usize, &[f64])| {
            let (x, y, w, h) = (row[0], row[1], row[2] / 2.0, row[3] / 2.0);
            (row[4] > 0.5).then_some((n, [x - w, y - h, x + w, y + h]))
        };
        rows.chunks(85).enumerate().filter_map(object).collect()
    };
    let expected = objects(&b);
    same_boxes(place, &expected, &objects(&a));
    for (cell, _) in expected {
        let scores = |rows: &[f64]| argmax(&rows[cell * 85 + 5..][..80]);
        assert_eq!(scores(&a), scores(&b), "{place}: the class of cell {cell}");
    }
}

/// The integers are exactly those of ONNX Runtime, so the floats after them agree as those of other models do; faces
/// are at the same places.
fn finds_faces(place: &str, expected: &[Tensor], found: &[Tensor]) {
    closely(place, expected, found);
    let faces = |of: &[Tensor]| -> Vec<(usize, [f64; 4])> {
        let (scores, boxes) = (numbers(&of[0]), numbers(&of[1]));
        let corners = |n: usize| [0, 1, 2, 3].map(|at| boxes[n * 4 + at]);
        (0..scores.len() / 2).filter(|&n| scores[n * 2 + 1] > 0.7).map(|n| (n, corners(n))).collect()
    };
    same_boxes(place, &faces(expected), &faces(found));
}

/// Halves have 11 bits, and are rounded after every layer.
fn classifies_in_halves(place: &str, expected: &[Tensor], found: &[Tensor]) {
    within(place, 1e-2, expected, found);
    assert_eq!(argmax(&numbers(&found[0])), argmax(&numbers(&expected[0])), "{place}: the class");
}

/// Tokens' vectors; a sentence's is their mean, and what counts is its direction.
///
/// Activations are quantised by the range that each run finds. Where an element lies halfway between two integers (in
/// the first data set one is 4e-7 of a step away from that), the last bit of a sum decides, and a step more or less
/// moves all ranges behind it. So no bound on elements holds for all orders of addition; that of the orders as they are is
/// twice the 6.3e-3 of the largest element that SOURCE.md has between two ways to run ONNX Runtime (x86-64-v3 is 7.3e-3
/// away, -v4 and -v2 less than 1e-6).
fn embeds(place: &str, expected: &[Tensor], found: &[Tensor]) {
    within(place, 1.26e-2, expected, found);
    let [rows, tokens, width] = *expected[0].shape() else { panic!("{place}: three axes") };
    let (b, a) = (numbers(&expected[0]), numbers(&found[0]));
    let sentence = |values: &[f64], row: usize| -> Vec<f64> {
        (0..width).map(|n| (0..tokens).map(|t| values[(row * tokens + t) * width + n]).sum()).collect()
    };
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    for row in 0..rows {
        let (a, b) = (sentence(&a, row), sentence(&b, row));
        let cosine = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
        assert!(cosine > 0.99, "{place}: sentence {row} points elsewhere, the cosine is {cosine}");
    }
}

macro_rules! models {
    ($($name:ident: $agree:expr),* $(,)?) => {
        $(#[test]
        fn $name() {
            drop(check(stringify!($name), $agree));
        })*
    };
}

models! {
    g1_policy_mlp: closely,
    super_resolution: closely,
    ultraface_rfb320: closely,
    yolox_nano: closely,
    dnsmos_extdata: closely,
    magika_v3_3: closely,
    minilm_l6_int8: embeds,
    basic_pitch: closely,
    fastestdet_int8_qdq: detects,
    fastestdet_nms: closely,
    nsnet2_plc: closely,
    silero_vad_v5: closely,
    ultraface_slim_int8_qop: finds_faces,
    squeezenet_fp16: classifies_in_halves,
    ppocrv4_rec: closely,
}

/// For windows of one length only one of the two networks within makes sense: the rate that chooses the other is refused.
#[test]
fn silero_vad_v5_of_one_length() {
    let Some(folder) = folder("silero_vad_v5") else { return };
    let shapes = vec![("input".to_owned(), vec![ShapeDim::Fixed(1), ShapeDim::Fixed(576)])];
    let options = CompileOptions { shapes, deny_fallback: true, ..CompileOptions::default() };
    let compilation = infc::compile(&Source::file(folder.join("model.onnx")), &options, &mut ()).expect("it compiles");
    let bytes = compilation.to_bytes().expect("an artifact");
    let model = options.targets.iter().find_map(|target| runs_here(&bytes, target)).expect("one of the targets");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    for n in 0..2 {
        let set = folder.join(format!("test_data_set_{n}"));
        let inputs = tensors(&set, "input");
        let found = session.run_owned(&inputs.iter().collect::<Vec<_>>()).expect("a window at 16 kHz");
        closely(&format!("set {n}"), &tensors(&set, "output"), &found);
        let slow = Tensor::from_elements(&[], &[8000i64]).expect("a number");
        let error = session.run_owned(&[&inputs[0], &inputs[1], &slow]).expect_err("a window of 16 kHz");
        assert_eq!(error.code(), "runtime::unmet-requirement", "{error}");
    }
}

/// The model's inputs for some tokens after those in the cache.
fn step(tokens: &[i64], cache: &[Tensor]) -> Vec<Tensor> {
    let past = cache[0].shape()[2];
    let row = |values: Vec<i64>| Tensor::from_elements(&[1, values.len()], &values).expect("as many");
    let total = past + tokens.len();
    let mut inputs = vec![row(tokens.to_vec()), row(vec![1; total]), row((past as i64..total as i64).collect())];
    inputs.extend(cache.iter().cloned());
    inputs
}

fn last_logits(logits: &Tensor) -> Vec<f64> {
    let len = logits.len_elems();
    (len - logits.shape()[2]..len).map(|at| logits.get_f64(at).expect("a number")).collect()
}

/// One artifact serves the prompt and every step: tokens chosen with a growing cache are those that the whole text
/// gives, and sizes that do not fit each other are refused by the node that needs them.
#[test]
fn llama260k_kvcache() {
    let Some(bytes) = check("llama260k_kvcache", closely) else { return };
    let target = CompileOptions::default().targets.into_iter().find(|t| runs_here(&bytes, t).is_some());
    let model = runs_here(&bytes, &target.expect("checked")).expect("it runs here");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let mut run = |inputs: &[Tensor]| session.run_owned(&inputs.iter().collect::<Vec<_>>());
    let empty = || vec![Tensor::from_elements::<f32>(&[1, 4, 0, 8], &[]).expect("no elements"); 10];
    let (mut text, mut new, mut cache) = (vec![1i64, 403, 407], vec![1i64, 403, 407], empty());
    for _ in 0..5 {
        let outputs = run(&step(&new, &cache)).expect("a step");
        let logits = last_logits(&outputs[0]);
        let whole = last_logits(&run(&step(&text, &empty())).expect("the whole text")[0]);
        for (a, b) in logits.iter().zip(&whole) {
            assert!((a - b).abs() <= ATOL + RTOL * b.abs(), "{a} with a cache, {b} without");
        }
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("some token");
        (new, cache) = (vec![best as i64], outputs[1..].to_vec());
        text.push(best as i64);
    }
    let mut inputs = step(&new, &cache);
    inputs[1] = Tensor::from_elements(&[1, 5], &[1i64; 5]).expect("five");
    let error = run(&inputs).expect_err("the mask is too short");
    assert_eq!(error.code(), "runtime::assumption-failed", "{error}");
    assert!(error.to_string().contains("total_sequence_length = 5"), "{error}");
}
