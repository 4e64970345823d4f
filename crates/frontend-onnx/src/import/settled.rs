//! Dims that a model leaves no choice, known from the start.
//!
//! A dim may turn out to be a number late in a model, after something else was taken for granted that contradicts it: that
//! an extent is equal to another one, say, where it is 1 and broadcasts. Then the import begins anew with that number.

use super::{DimChoice, ImportOptions};

/// What the user says of dims, and what earlier attempts have shown.
#[derive(Debug)]
pub(super) struct Settled {
    options: ImportOptions,
    /// Names of dims that earlier attempts have shown to be numbers.
    known: Vec<String>,
    grown: bool,
}

impl Settled {
    pub(super) fn new(options: &ImportOptions) -> Self {
        Self { options: options.clone(), known: Vec::new(), grown: false }
    }

    pub(super) fn options(&self) -> &ImportOptions {
        &self.options
    }

    /// Takes these dims to be numbers from the next attempt on.
    pub(super) fn settle(&mut self, dims: &[(String, i64)]) {
        for (name, value) in dims.iter().filter(|(_, value)| *value >= 0) {
            if !self.known.contains(name) {
                self.known.push(name.clone());
                self.options.dims.push((name.clone(), DimChoice::Fixed(*value)));
                self.grown = true;
            }
        }
    }

    /// True if another attempt knows more than the last one.
    pub(super) fn next(&mut self) -> bool {
        std::mem::take(&mut self.grown)
    }
}
