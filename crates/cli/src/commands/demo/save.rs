//! `infc demo --save DIR`: the network and its data as files.

use crate::console::Console;
use crate::digits::{self, HeldOut};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::onnx_eval::OnnxEvaluator;
use crate::output_file;
use infc_frontend_onnx::{Model, encode_tensor};
use serde_json::json;
use std::fs;
use std::path::Path;

/// Writes the files. The expected outputs are those of the model evaluated by definition, not what the compiler makes
/// of it.
pub(super) fn run(folder: &Path, console: &Console) -> Result<Exit, Failure> {
    let evaluator = OnnxEvaluator::new(Model::from_bytes(digits::MODEL, None)?)?;
    let held_out = HeldOut::read();
    let images = held_out.images(0..held_out.len());
    let outputs = evaluator.run(std::slice::from_ref(&images))?;

    let data_set = folder.join("test_data_set_0");
    fs::create_dir_all(&data_set).map_err(|source| CliError::CannotWrite { path: data_set.clone(), source })?;
    let mut files = vec![
        (folder.join("digits.onnx"), digits::MODEL.to_vec()),
        (folder.join("labels.npy"), digits::LABELS.to_vec()),
        (data_set.join("input_0.pb"), encode_tensor(evaluator.input_names()[0], &images)),
    ];
    for (index, (name, output)) in evaluator.output_names().into_iter().zip(&outputs).enumerate() {
        files.push((data_set.join(format!("output_{index}.pb")), encode_tensor(name, output)));
    }
    for (path, bytes) in &files {
        output_file::write(path, bytes)?;
    }
    if console.is_json() {
        let files: Vec<_> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        console.json(&json!({"schema": "infc.demo/1", "files": files}))?;
    } else {
        for (path, bytes) in &files {
            console.line(format!("  saved     {}  {}", path.display(), crate::tables::bytes(bytes.len() as u64)))?;
        }
        let model = folder.join("digits.onnx");
        console.line(format!("  next      infc compile {}", model.display()))?;
        console.line(format!("            infc compare digits.infa --data {}", folder.display()))?;
    }
    Ok(Exit::Done)
}
