//! Graphs as text.
//!
//! Values are numbered in the order of nodes; inputs keep their names. Small constants print their elements, others a
//! hash that [`parse_graph`] resolves.

mod constant;
mod host;
mod parse;
mod print;
mod subgraph;

pub use constant::{constant_hash, constants_by_hash};
pub use parse::parse_graph;

use crate::op::CompositeKind;

/// The names of composites.
const COMPOSITES: [(&str, CompositeKind); 6] = [
    ("softmax", CompositeKind::Softmax),
    ("log_softmax", CompositeKind::LogSoftmax),
    ("layer_norm", CompositeKind::LayerNorm),
    ("gelu", CompositeKind::Gelu),
    ("attention", CompositeKind::Attention),
    ("block_product", CompositeKind::BlockProduct),
];

/// How the n-th label of a contraction prints: `a` to `z`, then `a1` and so on.
fn label_name(n: u8) -> String {
    let letter = char::from(b'a' + n % 26);
    match n / 26 {
        0 => letter.to_string(),
        more => format!("{letter}{more}"),
    }
}
