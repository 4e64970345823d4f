//! Softmax and the sum that it weighs in one pass over the keys, some of them at a time (online softmax: Milakov and
//! Gimelshein, arXiv:1805.02867; in blocks: Dao et al., FlashAttention, arXiv:2205.14135).
//!
//! ```text
//! m = max_l e_l;  p_l = exp(e_l − m);  z = Σ_l p_l;  a = Σ_l p_l·v_l
//! ```
//!
//! becomes, for blocks `j` of keys `l = j·B + i`,
//!
//! ```text
//! m_j = max_i e_ji;  p_ji = exp(e_ji − m_j);  z_j = Σ_i p_ji;  a_j = Σ_i p_ji·v_ji
//! (m, z, a) = fold over j:  k = max(m, m_j);  (k, exp(m − k)·z + exp(m_j − k)·z_j, exp(m − k)·a + exp(m_j − k)·a_j)
//! ```
//!
//! so that nothing has to be kept per key, but of one block. What lies behind the last key is −∞, of weight 0. The maximum
//! of a row is the lowest finite number at least, so that no infinity is subtracted from another: where all of a row is −∞
//! the quotient of the sums is 0/0, as it was. Error class: reassociating.

mod found;
mod inline;
mod rewrite;

use found::Found;
use infc_ir::entity::StageId;
use infc_ir::kernel::Kernel;

/// A kernel that goes through keys in blocks: its first stages, in this order, and a fold over blocks of keys.
#[derive(Clone, Debug)]
pub struct Online {
    /// The kernel.
    pub kernel: Kernel,
    /// Per axis that goes over rows, or over rows of several heads, its number in the product, the weights and the values.
    pub rows: Vec<Row>,
    /// The axis of keys within a block, in the product.
    pub product_key: usize,
}

/// An axis by its numbers in stages of an [`Online`] kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// In [`PRODUCT`].
    pub product: usize,
    /// In [`SCORES`] and [`WEIGHTS`].
    pub weights: usize,
    /// In [`WEIGHTED`] and [`FOLDED`].
    pub folded: usize,
}

/// The sum of products that scores are made of.
pub const PRODUCT: StageId = StageId(0);
/// Scores.
pub const SCORES: StageId = StageId(1);
/// The largest of a row's scores in a block.
pub const MAXIMUM: StageId = StageId(2);
/// Exponentials of scores below that.
pub const WEIGHTS: StageId = StageId(3);
/// The sum of a row's weights in a block.
pub const TOTAL: StageId = StageId(4);
/// The sum of what they weigh.
pub const WEIGHTED: StageId = StageId(5);
/// What all blocks come to: the largest score, the sum of weights, and that of what they weigh.
pub const FOLDED: StageId = StageId(6);
/// The axis of blocks of keys, in all of these.
pub const BLOCK: &str = "block";
/// The axis of keys within one.
pub const KEY: &str = "key";
/// Stages that these replace. They come first in a kernel.
const GONE: usize = 5;

/// The kernel with blocks of so many keys; `None` if it does not begin with such stages.
#[must_use]
pub fn online(kernel: &Kernel, points: i64) -> Option<Online> {
    let mut kernel = kernel.clone();
    inline::inline_scores(&mut kernel);
    Found::of(&kernel)?.rewrite(points)
}
