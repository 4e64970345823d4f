//! The operators: what each is in core ops.
//!
//! One family per file. Each file lists its operators with the opsets in which they exist; an import takes a [`Call`]
//! and returns the node's outputs.

mod activation;
pub(crate) mod attention;
mod axes;
mod compress;
mod constant;
mod conv;
mod cumulative;
mod deform_conv;
mod det;
mod einsum;
mod elementwise;
mod fourier;
mod gather;
mod gather_elements;
mod grid_sample;
mod linear_attention;
mod loss;
mod matmul;
mod microsoft;
mod ml;
mod movement;
mod norm;
mod pad;
mod pool;
mod quadratic;
mod quantize;
mod quantized_products;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod roi;
mod rotary;
mod sample;
mod scatter;
mod select;
mod slice;
mod softmax;
mod top_k;
mod training;
mod unpool;

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
    attention::OPERATORS,
    constant::OPERATORS,
    conv::OPERATORS,
    cumulative::OPERATORS,
    deform_conv::OPERATORS,
    det::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    fourier::OPERATORS,
    compress::OPERATORS,
    gather::OPERATORS,
    gather_elements::OPERATORS,
    grid_sample::OPERATORS,
    linear_attention::OPERATORS,
    loss::OPERATORS,
    matmul::OPERATORS,
    movement::OPERATORS,
    norm::OPERATORS,
    pad::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    quantized_products::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    roi::OPERATORS,
    rotary::OPERATORS,
    scatter::OPERATORS,
    slice::OPERATORS,
    softmax::OPERATORS,
    top_k::OPERATORS,
    unpool::OPERATORS,
];

/// Operators that hold graphs, which [`crate::import`] takes up itself, and the opsets since which it does.
const WITH_GRAPHS: &[(&str, &str, i64)] =
    &[("", "If", 1), ("", "Loop", 1), ("", "Scan", 8), ("ai.onnx.preview", "FlexAttention", 1)];

/// Those of a domain.
fn with_graphs(domain: &str) -> impl Iterator<Item = (&'static str, i64)> {
    WITH_GRAPHS.iter().filter(move |(of, ..)| *of == domain).map(|&(_, name, since)| (name, since))
}

/// The newest opset of `ai.onnx.ml`, that of ONNX 1.16 and later.
const NEWEST_ML_OPSET: i64 = 5;

/// All operators of a domain; ONNX's own is the empty one.
fn operators(domain: &str) -> impl Iterator<Item = &'static Operator> {
    let families = match domain {
        "" => FAMILIES,
        "com.microsoft" => microsoft::OPERATORS,
        "ai.onnx.ml" => ml::OPERATORS,
        "ai.onnx.preview.training" => &[training::OPERATORS],
        _ => &[],
    };
    families.iter().flat_map(|f| f.iter())
}

/// The operator of a domain with this name at this opset.
pub(crate) fn find(op_type: &str, domain: &str, opset: i64) -> Option<&'static Operator> {
    let unofficial = if domain.is_empty() { norm::UNOFFICIAL } else { &[] };
    operators(domain).chain(unofficial).find(|o| o.name == op_type && (o.since..o.until).contains(&opset))
}

/// The names of all operators of a domain (ONNX's own is the empty one) that can be imported, sorted.
#[must_use]
pub fn supported_operators(domain: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = operators(domain).map(|o| o.name).chain(with_graphs(domain).map(|o| o.0)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The newest opset of a domain.
fn newest_opset(domain: &str) -> i64 {
    match domain {
        "ai.onnx.ml" => NEWEST_ML_OPSET,
        _ => crate::NEWEST_OPSET,
    }
}

/// The opsets of a domain in which an operator can be imported: first and last of each span, in order. The last of a
/// span that is open is the newest opset of the domain.
#[must_use]
pub fn operator_opsets(domain: &str, name: &str) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = operators(domain)
        .filter(|o| o.name == name)
        .map(|o| (o.since, (o.until - 1).min(newest_opset(domain))))
        .chain(with_graphs(domain).filter(|o| o.0 == name).map(|o| (o.1, crate::NEWEST_OPSET)))
        .collect();
    spans.sort_unstable();
    // Spans that differ only in how they are imported are one.
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in spans {
        match joined.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}
