//! Contractions of one value that are added up become one, since what they multiply by can be added beforehand: blocks of
//! several branches as they are trained (RepVGG, MobileOne, ACNet), a depthwise convolution and the residual around it.
//!
//! One branch, the host, takes in another, the guest, if for every point of the result the guest reads what the host
//! reads at some of its taps: a 1×1 convolution reads what a 3×3 one reads in the middle, and the value itself is read
//! where the host's channel is the result's. There the guest's weights are added to the host's.

mod branch;
mod places;

use super::map::{as_map, compact};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::replace;
use super::weighted::{add_constant, combine};
use super::{Changed, PassContext, PassError};
use branch::{Branch, Weights};
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::graph::Graph;
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp};
use places::Search;

const RULES: &[Rule] = &[added_up];

/// Applies the rule.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

// Σ read(x)·w + Σ read'(x)·w' = Σ read(x)·(w + w'), w' taken where `read` reads what `read'` reads, within a map
fn added_up(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    sums(map).into_iter().find_map(|leaves| {
        let mut branches = branches(site, map, &leaves);
        // The host is a branch that sums over at least as much as any guest.
        branches.sort_by_key(|b| std::cmp::Reverse(b.taps.iter().map(|&e| i128::from(e)).sum::<i128>()));
        (0..branches.len()).find_map(|host| take_in(site, map, &branches, host))
    })
}

/// The terms of every sum of floats in a body that has more than one.
fn sums(map: &MapOp) -> Vec<Vec<ScalarId>> {
    let body = &map.body;
    let mut uses = vec![0u32; body.ops.len()];
    body.ops.iter().for_each(|op| op.for_each_operand(&mut |o| uses[o.index()] += 1));
    map.results.iter().for_each(|r| uses[r.index()] += 1);
    let is_sum =
        |id: ScalarId| matches!(body.ops[id], ScalarOp::Binary(BinaryOp::Add, ..)) && body.dtype(id).is_float();

    // Sums within sums come before those around them.
    let mut terms: Vec<Option<Vec<ScalarId>>> = vec![None; body.ops.len()];
    for (id, op) in body.ops.iter_enumerated() {
        let ScalarOp::Binary(BinaryOp::Add, a, b) = *op else { continue };
        if !is_sum(id) {
            continue;
        }
        let mut all = Vec::new();
        for operand in [a, b] {
            if uses[operand.index()] == 1 {
                all.extend(terms[operand.index()].take().unwrap_or_else(|| vec![operand]));
            }
        }
        terms[id.index()] = Some(all);
    }
    terms.into_iter().flatten().filter(|terms| terms.len() > 1).collect()
}

fn branches<'a>(site: &Site<'a>, map: &MapOp, leaves: &[ScalarId]) -> Vec<Branch<'a>> {
    let contracted: Vec<Branch<'a>> = leaves
        .iter()
        .filter_map(|&leaf| match map.body.ops[leaf] {
            ScalarOp::Param(n, _) => Branch::contraction(site, leaf, usize::from(n)),
            _ => None,
        })
        .collect();
    // Alone, points that are read as they are have no weights to be added to.
    let Some(Weights::Contracted(first)) = contracted.first().map(|b| &b.weights) else { return Vec::new() };
    let dtype = first.ty(site.graph).dtype;
    let others = leaves.iter().filter(|&&leaf| !contracted.iter().any(|b| b.leaf == leaf));
    let pointwise: Vec<Branch<'a>> = others.filter_map(|&leaf| Branch::pointwise(site, map, leaf, dtype)).collect();
    contracted.into_iter().chain(pointwise).collect()
}

/// The sum with all that one branch can take in.
fn take_in(site: &Site<'_>, map: &MapOp, branches: &[Branch<'_>], host: usize) -> Option<Replacement> {
    let Weights::Contracted(weighted) = &branches[host].weights else { return None };
    let ty = weighted.ty(site.graph);
    let rank = site.output_type(0).shape.len();
    let mut new = Replacement::new();
    let mut weights: Operand = weighted.weights().into();
    let mut gone = Vec::new();
    for (n, guest) in branches.iter().enumerate().filter(|(n, _)| *n != host) {
        let search = Search { site, host: &branches[host], guest, shape: guest.shape(site), rank };
        let Some(map) = search.places().and_then(|places| search.embedding(&places)) else {
            if branches[host].source == guest.source && matches!(guest.weights, Weights::Contracted(_)) {
                site.cx.note(site.id, "branches not added up: what one reads is not part of what the other reads");
            }
            continue;
        };
        let other = match &guest.weights {
            Weights::Contracted(other) if other.ty(site.graph).dtype != ty.dtype => continue,
            Weights::Contracted(other) => other.weights().into(),
            Weights::Factor(factor) => add_constant(&mut new, "factor", factor.clone()),
        };
        weights = combine(&mut new, (weights, ty), BinaryOp::Add, other, map);
        gone.push(n);
    }
    if gone.is_empty() {
        return None;
    }
    let sum = weighted.with_weights(site.graph, &mut new, weights);
    let (body, results) = without(map, gone.iter().map(|&n| branches[n].leaf).collect());
    let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&v| v.into()).collect();
    inputs[branches[host].operand] = sum;
    let (map, inputs) = compact(&body, &results, &inputs)?;
    let node = new.add_node(Op::Map(map), &inputs, site.output_types());
    new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
    gone.push(host);
    Some(gone.into_iter().fold(new, |new, n| match &branches[n].weights {
        Weights::Contracted(weighted) => new.absorbing(weighted.node),
        Weights::Factor(_) => new,
    }))
}

/// The body with these terms left out of sums.
fn without(map: &MapOp, leaves: Vec<ScalarId>) -> (Body, Vec<ScalarId>) {
    replace(&map.body, &map.results, &mut |body, id| {
        leaves.contains(&id).then(|| body.constant(map.body.dtype(id), 0.0))
    })
}
