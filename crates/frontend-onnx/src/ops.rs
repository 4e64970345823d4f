//! The operators: what each is in core ops.
//!
//! One family per file. Each file lists its operators with the opsets in which they exist; an import takes a [`Call`]
//! and returns the node's outputs.

mod activation;
mod constant;
mod conv;
mod elementwise;
mod gather;
mod matmul;
mod movement;
mod norm;
mod pool;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod scan;
mod slice;
mod softmax;

use crate::build::Result;
use crate::call::Call;
use crate::tracked::Tracked;

/// How an operator is imported.
pub(crate) struct Operator {
    name: &'static str,
    /// The first opset that has it.
    since: i64,
    /// The first opset that no longer has it.
    until: i64,
    pub(crate) import: fn(&mut Call<'_>) -> Result<Vec<Tracked>>,
}

impl Operator {
    const fn new(name: &'static str, since: i64, import: fn(&mut Call<'_>) -> Result<Vec<Tracked>>) -> Self {
        Self { name, since, until: i64::MAX, import }
    }

    const fn until(self, until: i64) -> Self {
        Self { until, ..self }
    }
}

const FAMILIES: &[&[Operator]] = &[
    activation::OPERATORS,
    constant::OPERATORS,
    conv::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    matmul::OPERATORS,
    movement::OPERATORS,
    norm::OPERATORS,
    pool::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    scan::OPERATORS,
    slice::OPERATORS,
    softmax::OPERATORS,
];

/// The operator of ONNX's own domain (the empty one) with this name at this opset.
pub(crate) fn find(op_type: &str, domain: &str, opset: i64) -> Option<&'static Operator> {
    let named = |o: &&Operator| o.name == op_type && (o.since..o.until).contains(&opset);
    if domain.is_empty() { FAMILIES.iter().flat_map(|f| f.iter()).find(named) } else { None }
}

/// The names of all operators that can be imported, sorted.
#[must_use]
pub fn supported_operators() -> Vec<&'static str> {
    let mut names: Vec<&str> = FAMILIES.iter().flat_map(|f| f.iter()).map(|o| o.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
