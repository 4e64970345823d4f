//! What a line of code reads passes by in the order of memory.
//!
//! Where the taps of a window are unrolled, a line goes through them one after the other, and what several taps meet
//! stays in a register from the first to the last of them. That is nearly all of the window, beside the accumulators.
//! Element after element instead, each with all taps that meet it, it is the weights of one row of taps that stay. Every
//! sum has its operands in the same order in both: along the window, taps and elements go up together. Parts of a line
//! whose sums share nothing of it (vectors of other channels) come one after the other.

use super::line::{Line, Walk};
use super::{Inst, Op, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A place behind all of memory's.
const NOTHING_READ: i64 = i64::MIN;

/// An order in which fewer vectors are in registers at once, if they are too many in the order that the line has.
pub(super) fn order(insts: &[Inst], line: &Line, registers: usize) -> Option<Vec<usize>> {
    let mut as_it_is = Walk::new(line);
    as_it_is.finish();
    let mut least = as_it_is.most[0];
    if least <= registers {
        return None;
    }
    // Vectors with several readers, by the address that they are relative to.
    let mut read: BTreeMap<_, Vec<(usize, i64)>> = BTreeMap::new();
    let mut line = line.clone();
    for n in 0..insts.len() {
        if line.readers[n] > 1
            && let Some(element) = element(insts, &line, n)
        {
            // What is converted comes right before what needs it, as what is loaded does.
            element.conversions.iter().for_each(|&conversion| line.lazy[conversion] = true);
            read.entry(element.base).or_default().push((n, element.disp));
        }
    }
    let line = &line;
    let mut best = None;
    for loads in read.values().filter(|loads| loads.len() > 1) {
        let passes: BTreeSet<usize> = loads.iter().map(|&(load, _)| load).collect();
        let parts = parts(line, |maker| !line.lazy[maker] || passes.contains(&maker));
        let mut place = vec![NOTHING_READ; insts.len()];
        for &(load, at) in loads {
            for &reader in &line.after[load] {
                place[reader] = place[reader].max(at);
            }
        }
        let mut walk = Walk::new(line);
        while let Some(&next) = walk.ready.iter().min_by_key(|&&n| (parts[n], place[n], n)) {
            walk.ready.remove(&next);
            walk.emit(next);
            walk.release(next, 0);
        }
        let order = walk.finish();
        if walk.most[0] < least {
            least = walk.most[0];
            best = Some(order);
        }
    }
    best
}

/// A vector that is read of memory, and maybe converted.
struct Element {
    base: Value,
    disp: i64,
    conversions: Vec<usize>,
}

/// What instruction `n` reads, if that is all that it and what only it needs do.
fn element(insts: &[Inst], line: &Line, mut n: usize) -> Option<Element> {
    let mut conversions = Vec::new();
    loop {
        match &insts[n] {
            Inst::Op { op: Op::Load { base, disp, .. }, .. } => {
                return Some(Element { base: *base, disp: i64::from(*disp), conversions });
            }
            Inst::Op { op: Op::Convert(..), .. } => {
                conversions.push(n);
                let [maker] = line.uses[n][..] else { return None };
                if line.readers[maker] > 1 {
                    return None;
                }
                n = maker;
            }
            _ => return None,
        }
    }
}

/// Per instruction the first one that it is joined to by a vector that either makes, by way of others too; only vectors
/// of makers that count join.
fn parts(line: &Line, counts: impl Fn(usize) -> bool) -> Vec<usize> {
    fn root(parts: &mut [usize], mut n: usize) -> usize {
        while parts[n] != n {
            parts[n] = parts[parts[n]];
            n = parts[n];
        }
        n
    }
    let mut parts: Vec<usize> = (0..line.uses.len()).collect();
    for (n, uses) in line.uses.iter().enumerate() {
        for &maker in uses.iter().filter(|&&maker| counts(maker)) {
            let (a, b) = (root(&mut parts, maker), root(&mut parts, n));
            parts[a.max(b)] = a.min(b);
        }
    }
    (0..parts.len()).map(|n| root(&mut parts, n)).collect()
}
