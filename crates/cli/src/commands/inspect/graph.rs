//! `--graph OUT`: the fused graph as a file for a browser, a viewer of ONNX, or Graphviz.

use super::report::{choose, symbol_values};
use crate::console::{Console, Style};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::picture::{Picture, dot, onnx, svg};
use crate::special_case;
use infc_artifact::{Artifact, ArtifactError, Program};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file and its format, which its name says.
#[derive(Clone, Debug)]
pub(super) struct Target {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Svg,
    Onnx,
    Dot,
}

impl Target {
    /// For the argument parser.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Format::Svg,
            Some("onnx") => Format::Onnx,
            Some("dot") => Format::Dot,
            _ => return Err("expected a file that ends in .svg, .onnx or .dot".to_owned()),
        };
        Ok(Self { path, format })
    }

    /// Draws a variant of an artifact.
    pub(super) fn write(
        &self,
        artifact_path: &Path,
        artifact: &Artifact<'_>,
        target: Option<&str>,
        dims: &[String],
        console: &Console,
    ) -> Result<(), Failure> {
        let manifest = artifact.manifest();
        let variant = choose(artifact, target)?;
        let (Some(variant), Some(entry)) = (variant, manifest.entries.first()) else {
            return Err(ArtifactError::NoSuchTarget { wanted: "any".to_owned(), available: "none".to_owned() }.into());
        };
        let body = artifact.variant(variant)?;
        let symbols = symbol_values(Some(entry), dims)?;
        let (index, symbols) = special_case::chosen(manifest, &symbols);
        let entry = manifest.entries.get(index).unwrap_or(entry);
        let empty = Program::default();
        let program = body.programs.get(index).unwrap_or(&empty);
        let picture = Picture::new(entry, program, &body, &manifest.weights, &symbols, None);
        let target = &manifest.variants[variant].target;
        let title = format!("{} for {target}", artifact_path.display());
        let bytes = match self.format {
            Format::Svg => svg::file(&picture, &title).into_bytes(),
            Format::Dot => dot::file(&picture, &title).into_bytes(),
            Format::Onnx => onnx::file(&picture, entry, program, &symbols),
        };
        let mut file = OutputFile::create(&self.path)?;
        file.write_all(&bytes).map_err(|source| file.error(source))?;
        file.commit()?;
        let (nodes, edges) = (picture.nodes.len(), picture.edges.len());
        if console.is_json() {
            return console.json(&json!({
                "schema": "infc.inspect/1",
                "artifact": artifact_path.display().to_string(),
                "target": target,
                "graph": self.path.display().to_string(),
                "nodes": nodes,
                "edges": edges,
            }));
        }
        let label = console.paint(Style::Label, "done     ");
        console.line(format!("  {label} {}: {nodes} nodes and {edges} edges, for {target}", self.path.display()))
    }
}
