//! Caches that hold a window of what has passed by (`sliding_window_cache` of GroupQueryAttention).
//!
//! A cache of `C` rows holds the last positions of `T` in order, from row 0 on: all of them up to `C`, and of more at least the
//! window `W`. What is dropped is dropped `G = C − W + 1` positions at a time, so that what a cache holds follows from `T` alone:
//! `L(T) = T − G·⌈(T − C) / G⌉`. Queries see what the cache held before, and what is new.

use crate::build::{Builder, Result, index, mismatch, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Body, CompareOp};

/// How far each sequence is, and how long caches and windows are.
pub(super) struct Windowed {
    /// Positions after this step, one number per sequence.
    total: Tracked,
    /// Rows of a cache.
    capacity: Dim,
    /// Queries of a sequence; those behind its end are padding.
    queries: Dim,
    window: i64,
}

/// What keys and values are for this step, and what is kept.
pub(super) struct Kept {
    /// What was in the cache and what is new: `[B, N, C + S, H]`.
    pub(super) seen: Tracked,
    /// The cache afterwards: `[B, N, C, H]`.
    pub(super) kept: Tracked,
}

impl Windowed {
    /// Fails if a cache is shorter than the window.
    pub(super) fn new(build: &mut Builder, total: Tracked, capacity: &Dim, queries: &Dim, window: i64) -> Result<Self> {
        build.require_at_least("the rows of a cache that holds a window", capacity, &Dim::constant(window))?;
        Ok(Self { total, capacity: capacity.clone(), queries: queries.clone(), window })
    }

    /// Positions of a sequence before this step, given those after it.
    fn before(&self, body: &mut Body, total: ScalarId) -> ScalarId {
        let queries = index(body, self.queries.clone());
        let new = body.binary(BinaryOp::Min, queries, total);
        body.binary(BinaryOp::Sub, total, new)
    }

    /// The first position that the cache holds after so many.
    fn first(&self, body: &mut Body, total: ScalarId) -> ScalarId {
        let dropped = self.capacity.clone() - self.window + 1;
        let (capacity, dropped) = (index(body, self.capacity.clone()), index(body, dropped));
        let (zero, one) = (index(body, Dim::constant(0)), index(body, Dim::constant(1)));
        let beyond = body.binary(BinaryOp::Sub, total, capacity);
        let beyond = body.binary(BinaryOp::Max, beyond, zero);
        let rounded = body.binary(BinaryOp::Add, beyond, dropped);
        let rounded = body.binary(BinaryOp::Sub, rounded, one);
        let times = body.binary(BinaryOp::Div, rounded, dropped);
        body.binary(BinaryOp::Mul, times, dropped)
    }

    /// Which keys each query sees: `[B, 1, S, C + S]`.
    pub(super) fn mask(&self, build: &mut Builder) -> Result<Tracked> {
        let batch = self.total.shape()[0].clone();
        let keys = self.capacity.clone() + self.queries.clone();
        let shape = vec![batch, Dim::constant(1), self.queries.clone(), keys];
        let total = build.view(&self.total, vec![var(0)], shape)?;
        build.map(&[&total], |body, p| {
            let before = self.before(body, p[0]);
            let first = self.first(body, before);
            let (key, capacity) = (index(body, var(3)), index(body, self.capacity.clone()));
            let is_old = body.compare(CompareOp::Lt, key, capacity);
            // What was there lies from the cache's first position on, what is new behind all positions before.
            let old = body.binary(BinaryOp::Add, first, key);
            let new = body.binary(BinaryOp::Sub, key, capacity);
            let new = body.binary(BinaryOp::Add, before, new);
            let position = body.select(is_old, old, new);
            let end = body.select(is_old, before, p[0]);
            let exists = body.compare(CompareOp::Lt, position, end);
            let query = index(body, var(2));
            let query = body.binary(BinaryOp::Add, before, query);
            let follows = body.compare(CompareOp::Le, position, query);
            let window = index(body, Dim::constant(self.window));
            let left = body.binary(BinaryOp::Sub, query, window);
            let near = body.compare(CompareOp::Gt, position, left);
            let seen = body.binary(BinaryOp::And, exists, follows);
            body.binary(BinaryOp::And, seen, near)
        })
    }

    /// Keys or values with the new ones.
    pub(super) fn grown(&self, build: &mut Builder, past: &Tracked, new: &Tracked) -> Result<Kept> {
        let [batch, heads, _, size] = new.shape() else { return Err(mismatch("4 axes", new.shape())) };
        let (batch, heads, size) = (batch.clone(), heads.clone(), size.clone());
        if past.rank() != 4 {
            return Err(mismatch("4 axes of a cache", past.shape()));
        }
        for (axis, mine) in [(0, &batch), (1, &heads), (2, &self.capacity), (3, &size)] {
            build.require_equal("the extents of a cache", &past.shape()[axis], mine)?;
        }
        let seen = build.concat(&[past, new], 2)?;
        let rows = self.capacity.clone() + self.queries.clone();
        let shape = vec![batch.clone(), heads.clone(), self.capacity.clone()];
        let total = build.view(&self.total, vec![var(0)], shape)?;
        let places = build.map(&[&total], |body, p| {
            let before = self.before(body, p[0]);
            let (was, is) = (self.first(body, before), self.first(body, p[0]));
            let row = index(body, var(2));
            let position = body.binary(BinaryOp::Add, is, row);
            let is_old = body.compare(CompareOp::Lt, position, before);
            let old = body.binary(BinaryOp::Sub, position, was);
            let capacity = index(body, self.capacity.clone());
            let new = body.binary(BinaryOp::Sub, position, before);
            let new = body.binary(BinaryOp::Add, new, capacity);
            // Rows behind the last position may hold anything.
            let last = index(body, rows.clone() - 1);
            let place = body.select(is_old, old, new);
            body.binary(BinaryOp::Min, place, last)
        })?;
        let kept = super::rows_at(build, &seen, &places)?;
        Ok(Kept { seen, kept })
    }
}
