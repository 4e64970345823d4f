//! Access maps: which operand element a coordinate reads.
//!
//! Transpose, reshape, slice, pad, broadcast, nearest resize and a convolution's sliding window are all the same thing:
//! arithmetic from the reader's coordinates to the operand's, with a condition under which the element exists.
//! Composing two maps is substitution, which is how movement operators fuse away.

use crate::entity::VarId;
use crate::index::{IndexExpr, Proof, Ranges};

/// A condition `lo ≤ expr < hi`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// What is bounded.
    pub expr: IndexExpr,
    /// Least value.
    pub lo: IndexExpr,
    /// One past the greatest value.
    pub hi: IndexExpr,
}

impl Bound {
    /// The condition with variables replaced.
    #[must_use]
    pub fn map(&self, f: impl Fn(&IndexExpr) -> IndexExpr) -> Self {
        Self { expr: f(&self.expr), lo: f(&self.lo), hi: f(&self.hi) }
    }

    /// Whether it always holds.
    #[must_use]
    pub fn proof(&self, ranges: &Ranges) -> Proof {
        match (ranges.le(&self.lo, &self.expr), ranges.lt(&self.expr, &self.hi)) {
            (Proof::Yes, Proof::Yes) => Proof::Yes,
            (Proof::No, _) | (_, Proof::No) => Proof::No,
            _ => Proof::Unknown,
        }
    }
}

/// From `rank` coordinates (variables `i0 … i(rank−1)`) to an operand's coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessMap {
    /// Number of coordinates it takes.
    pub rank: usize,
    /// One expression per operand axis.
    pub index: Vec<IndexExpr>,
    /// The element is read only if all of these hold; else the reader's `otherwise` value stands for it.
    pub valid: Vec<Bound>,
}

impl AccessMap {
    /// The map that changes nothing.
    #[must_use]
    pub fn identity(rank: usize) -> Self {
        let index = (0..rank).map(|i| IndexExpr::var(VarId(i as u32))).collect();
        Self { rank, index, valid: Vec::new() }
    }

    /// `self` after `inner`: takes `inner`'s coordinates, gives `self`'s operand coordinates.
    ///
    /// `self.rank` must be the number of coordinates `inner` gives.
    #[must_use]
    pub fn compose(&self, inner: &AccessMap) -> Self {
        debug_assert_eq!(self.rank, inner.index.len());
        let through = |e: &IndexExpr| e.substitute_vars(&inner.index);
        Self {
            rank: inner.rank,
            index: self.index.iter().map(through).collect(),
            valid: inner.valid.iter().cloned().chain(self.valid.iter().map(|b| b.map(through))).collect(),
        }
    }

    /// The map with its expressions simplified, conditions that always hold dropped, and no condition twice.
    #[must_use]
    pub fn simplify(&self, ranges: &Ranges) -> Self {
        let mut valid: Vec<Bound> = Vec::new();
        for bound in &self.valid {
            let bound = bound.map(|e| e.simplify(ranges));
            if bound.proof(ranges) != Proof::Yes && !valid.contains(&bound) {
                valid.push(bound);
            }
        }
        // Nothing is read where a condition does not hold.
        let given = if valid.is_empty() { None } else { Some(ranges.given(&valid)) };
        let ranges = given.as_ref().unwrap_or(ranges);
        Self { rank: self.rank, index: self.index.iter().map(|e| e.simplify(ranges)).collect(), valid }
    }
}
