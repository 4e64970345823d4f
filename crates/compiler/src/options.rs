//! What can be asked of a compilation.

use crate::{DimChoice, Phase, ShapeDim};
use std::path::PathBuf;

/// What artifacts are compiled for unless somebody says otherwise: best first.
pub const DEFAULT_TARGETS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];

/// How a model is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// The processors to make code for, best first, such as `x86-64-v4+vnni`.
    pub targets: Vec<String>,
    /// Values and ranges of symbolic dims, by name.
    pub dims: Vec<(String, DimChoice)>,
    /// Shapes of inputs, by name.
    pub shapes: Vec<(String, Vec<ShapeDim>)>,
    /// Forbids rewrites that reassociate floating-point operations.
    pub strict: bool,
    /// Writes what each phase made into this folder.
    pub dump_phases: Option<PathBuf>,
    /// Ends after this phase; there is no artifact then unless it is the last one.
    pub stop_after: Option<Phase>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            targets: DEFAULT_TARGETS.map(str::to_owned).to_vec(),
            dims: Vec::new(),
            shapes: Vec::new(),
            strict: false,
            dump_phases: None,
            stop_after: None,
        }
    }
}

impl CompileOptions {
    /// The flags that change the result, in one order, for the artifact's provenance.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("target={}", self.targets.join(","))];
        let mut dims: Vec<String> = self
            .dims
            .iter()
            .map(|(name, choice)| match choice {
                DimChoice::Fixed(value) => format!("dim={name}={value}"),
                DimChoice::Range(min, Some(max)) => format!("dim={name}={min}..{max}"),
                DimChoice::Range(min, None) => format!("dim={name}={min}.."),
            })
            .collect();
        let shape_dim = |dim: &ShapeDim| match dim {
            ShapeDim::Fixed(value) => value.to_string(),
            ShapeDim::Dynamic => "?".to_owned(),
        };
        dims.extend(self.shapes.iter().map(|(name, shape)| {
            let extents: Vec<String> = shape.iter().map(shape_dim).collect();
            format!("shape={name}={}", if extents.is_empty() { "scalar".to_owned() } else { extents.join("x") })
        }));
        dims.sort();
        flags.extend(dims);
        if self.strict {
            flags.push("strict".to_owned());
        }
        flags
    }
}
