//! Trees as lists of nodes, through which every row takes its way, all ways equally long.
//!
//! At each level a row looks up what its node asks, and where it leads; a leaf leads to itself. That takes as many levels as the
//! longest way has, but no more than one node of each tree at each.

use super::interval::{Columns, Interval};
use super::tables::{self, Ends, Reached, numbers};
use crate::build::{Builder, Result, index, product, var};
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::BinaryOp;
use infc_reference::{Forest, Next};
use infc_tensor::DType;
use std::collections::VecDeque;

/// Forests with longer ways than this have words, or are left to the host.
const MAX_DEPTH: usize = 64;

/// A node that leads on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork {
    pub(super) interval: Interval,
    /// The node where it holds.
    pub(super) held: usize,
    /// The node where it does not.
    pub(super) missed: usize,
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Fork(Fork),
    /// A leaf, by its number in the forest.
    Leaf(usize),
}

/// The nodes of a forest, tree by tree, each from the root on level by level.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    pub(super) nodes: Vec<Node>,
    /// The first node of each tree.
    pub(super) roots: Vec<usize>,
    /// Nodes that lead on, on the longest way.
    pub(super) depth: usize,
}

impl Walk {
    /// The nodes of a forest whose features are numbers of this type; `None` if it has a test that is no interval, more than so
    /// many nodes, or a way that is too long.
    pub(super) fn of(forest: &Forest, dtype: DType, most_nodes: usize, columns: &mut Columns) -> Option<Self> {
        let mut walk = Self::default();
        for &root in &forest.roots {
            walk.roots.push(walk.nodes.len());
            // What waits has the numbers behind those that are there.
            let mut waiting = VecDeque::from([(root, 0)]);
            while let Some((next, depth)) = waiting.pop_front() {
                if walk.nodes.len() >= most_nodes || depth > MAX_DEPTH {
                    return None;
                }
                let node = match next {
                    Next::Leaf(leaf) => Node::Leaf(leaf),
                    Next::Node(branch) => {
                        let branch = &forest.branches[branch];
                        walk.depth = walk.depth.max(depth + 1);
                        let interval = Interval::of(branch, dtype, columns)?;
                        let then = walk.nodes.len() + waiting.len() + 1;
                        let otherwise = then + 1;
                        waiting.extend([(branch.then, depth + 1), (branch.otherwise, depth + 1)]);
                        let (held, missed) = if interval.swapped { (otherwise, then) } else { (then, otherwise) };
                        Node::Fork(Fork { interval, held, missed })
                    }
                };
                walk.nodes.push(node);
            }
        }
        Some(walk)
    }
}

/// Which leaves rows come to, of features `[columns, rows]`, in trees in this order; `None` is one without leaves.
pub(super) fn reached(build: &mut Builder, columns: &Tracked, walk: &Walk, order: &[Option<usize>]) -> Result<Reached> {
    // Behind all nodes one that is the tree without leaves.
    let nodes: Vec<Option<Node>> = walk.nodes.iter().copied().map(Some).chain([None]).collect();
    let (last, count) = (walk.nodes.len(), [nodes.len()]);
    let fork = |node: &Option<Node>| match node {
        Some(Node::Fork(fork)) => Some(*fork),
        _ => None,
    };
    let forks: Vec<Option<Fork>> = nodes.iter().map(fork).collect();
    let asked = forks.iter().map(|fork| fork.map_or(0, |fork| fork.interval.column as i32));
    let asked = numbers(build, "columns of nodes", &count, asked);
    let intervals = forks.iter().map(|fork| fork.as_ref().map(|fork| &fork.interval));
    let ends = Ends::of(build, columns.dtype(), &count, intervals);
    let next = forks.iter().enumerate().flat_map(|(n, fork)| {
        let [held, missed] = fork.map_or([n, n], |fork| [fork.held, fork.missed]);
        [held as i32, missed as i32]
    });
    let next = numbers(build, "next nodes", &[2 * nodes.len()], next);
    let roots = order.iter().map(|n| n.map_or(last, |n| walk.roots[n]) as i32);
    let roots = numbers(build, "roots", &[order.len()], roots);
    let rows = columns.shape()[1].clone();
    let shape = vec![Dim::constant(order.len() as i64), rows.clone()];
    let all = product(columns.shape())?;
    let column_major = build.reshape(columns, std::slice::from_ref(&all))?;
    let is_short = all.as_const().is_some_and(|all| all <= i64::from(i32::MAX));
    let position = if is_short { DType::I32 } else { DType::I64 };
    let mut places = build.view(&roots, vec![var(0)], shape)?;
    for _ in 0..walk.depth {
        let column = build.gather(&asked, &places, 0)?;
        let place = build.map(&[&column], |body, p| {
            let (rows, row) = (index(body, rows.clone()), index(body, var(1)));
            let [column, rows, row] = [p[0], rows, row].map(|n| body.cast(position, n));
            let first = body.binary(BinaryOp::Mul, column, rows);
            body.binary(BinaryOp::Add, first, row)
        })?;
        let mut inputs = vec![build.gather(&column_major, &place, 0)?, build.gather(&ends.most, &places, 0)?];
        inputs.push(places.clone());
        if let Some(least) = &ends.least {
            inputs.push(build.gather(least, &places, 0)?);
        }
        let inputs: Vec<&Tracked> = inputs.iter().collect();
        let place = build.map(&inputs, |body, p| {
            let holds = tables::holds(body, p[0], p[1], p.get(3).copied());
            let (zero, one) = (body.constant(DType::I32, 0.0), body.constant(DType::I32, 1.0));
            let way = body.select(holds, zero, one);
            let pair = body.binary(BinaryOp::Add, p[2], p[2]);
            body.binary(BinaryOp::Add, pair, way)
        })?;
        places = build.gather(&next, &place, 0)?;
    }
    let leaf = |node: &Option<Node>| match node {
        Some(Node::Leaf(leaf)) => Some(*leaf),
        _ => None,
    };
    Ok(Reached { places, exists: None, leaves: nodes.iter().map(leaf).collect() })
}
