//! Scatters, made of stores.

use super::groups::{Element, Part, recipes};
use super::{Access, GROUP, Pass, SIZE};
use crate::vir::{Block, Inst, Op, Type, Value};
use std::collections::{BTreeMap, HashMap};

/// Runs shorter than this are not worth a store of their own.
const SHORTEST_RUN: usize = 4;

/// What memory holds: where, and which access's lane it is.
type Written = (i64, (usize, usize));

impl Pass {
    /// What stands in the place of scatters, by number in the block.
    pub(super) fn stores(&mut self, block: &Block) -> HashMap<usize, Vec<Inst>> {
        let mut instead = HashMap::new();
        let mut line: Vec<Access> = Vec::new();
        for (at, inst) in block.insts.iter().enumerate() {
            match inst {
                Inst::Scatter { value, base, index, scale, disp, mask } => {
                    match self.access((at, *value), *base, (*index, *scale, *disp), *mask) {
                        Some(access) => line.push(access),
                        None => self.store_line(&mut line, &mut instead),
                    }
                }
                // What may read what was stored keeps its place between stores.
                Inst::Op { op, .. } if !op.reads_memory() || op.is_invariant_load() => {}
                Inst::Prefetch { .. } => {}
                _ => self.store_line(&mut line, &mut instead),
            }
        }
        self.store_line(&mut line, &mut instead);
        instead
    }

    fn store_line(&mut self, line: &mut Vec<Access>, instead: &mut HashMap<usize, Vec<Inst>>) {
        // Stores of different kinds may meet: their order is kept.
        while let Some(first) = line.first() {
            let kind = first.kind();
            let len = line.iter().take_while(|access| access.kind() == kind).count();
            let accesses: Vec<Access> = line.drain(..len).collect();
            if let Some(insts) = self.whole_stores(&accesses) {
                accesses.iter().for_each(|access| _ = instead.insert(access.at, Vec::new()));
                instead.insert(accesses[len - 1].at, insts);
            }
        }
    }

    /// Whole stores for scatters that fill memory without holes.
    fn whole_stores(&mut self, accesses: &[Access]) -> Option<Vec<Inst>> {
        let mut written: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
        for (n, access) in accesses.iter().enumerate() {
            for (lane, place) in access.places.iter().enumerate() {
                if let Some(place) = *place
                    && written.insert(place, (n, lane)).is_some()
                {
                    return None;
                }
            }
        }
        let written: Vec<Written> = written.into_iter().collect();
        let runs: Vec<&[Written]> = written.chunk_by(|a, b| a.0 + SIZE == b.0).collect();
        if runs.iter().any(|run| run.len() < SHORTEST_RUN) {
            return None;
        }
        let vectors: Vec<&[Written]> =
            runs.iter().flat_map(|run| parts(run, usize::from(accesses[0].ty.lanes))).collect();
        let apart: f64 = vectors.iter().map(|part| 1.0 + self.putting_together(makers(part).len())).sum();
        let mut out = Vec::new();
        if !self.store_groups(accesses, apart, &mut out) {
            vectors.iter().for_each(|part| self.store_part(accesses, part, &mut out));
        }
        Some(out)
    }

    /// One store of at most a vector's lanes.
    fn store_part(&mut self, accesses: &[Access], part: &[Written], out: &mut Vec<Inst>) {
        let Access { ty, base, .. } = accesses[0];
        let makers = makers(part);
        let number = |n: usize| makers.iter().position(|&maker| maker == n).expect("all are among them");
        let mut from: Vec<_> = part.iter().map(|&(_, (n, lane))| Some((number(n), lane))).collect();
        from.resize(usize::from(ty.lanes), None);
        let values: Vec<Value> = makers.iter().map(|&n| accesses[n].value).collect();
        let value = self.together(ty, &values, &from, None, out);
        let whole = part.len() == usize::from(ty.lanes);
        let mask = (!whole).then(|| self.constant(ty.mask(), vec![(1 << part.len()) - 1]));
        out.push(Inst::Store { value, base, disp: displacement(part[0].0), mask });
    }

    /// Stores of four elements, where groups of four lanes of all accesses fill memory alike; if that is cheaper.
    fn store_groups(&mut self, accesses: &[Access], limit: f64, out: &mut Vec<Inst>) -> bool {
        let Access { ty, base, .. } = accesses[0];
        let whole = |access: &Access| access.grouped().filter(|_| access.all_on());
        let grouped: Option<Vec<_>> = accesses.iter().map(whole).collect();
        let Some(grouped) = grouped else { return false };
        let distances = &grouped[0].0;
        let mut first: Vec<(i64, Element)> = Vec::new();
        for (n, (own, places)) in grouped.iter().enumerate() {
            if own != distances {
                return false;
            }
            first.extend(places.iter().zip(0..).map(|(&place, lane)| (place, (n, lane))));
        }
        first.sort_unstable();
        let results: Vec<&[(i64, Element)]> = first.chunks(GROUP).collect();
        if results.iter().any(|four| four.windows(2).any(|pair| pair[0].0 + SIZE != pair[1].0)) {
            return false;
        }
        let elements: Vec<[Element; GROUP]> =
            results.iter().map(|four| std::array::from_fn(|lane| four[lane].1)).collect();
        let (recipes, pairs) = recipes(&elements);
        // Beside each store but the first of a vector, what takes the group out.
        let stores = recipes.len() as f64 * (2.0 * distances.len() as f64 - 1.0);
        if (pairs.len() + recipes.len()) as f64 + stores >= limit {
            return false;
        }
        let pairs: Vec<Value> = pairs
            .iter()
            .map(|pair| {
                let [a, b] = pair.sources.map(|n| accesses[n].value);
                self.make(ty, Op::Shuffle(a, b, pair.lanes()), out)
            })
            .collect();
        for (recipe, four) in recipes.iter().zip(results) {
            let [a, b] = recipe.parts.map(|part| match part {
                Part::Source(n) => accesses[n].value,
                Part::Pair(n) => pairs[n],
            });
            let value = self.make(ty, Op::Shuffle(a, b, recipe.lanes), out);
            for (n, distance) in distances.iter().enumerate() {
                let value = self.quarter(value, ty, n, out);
                let disp = displacement(four[0].0 + distance.unwrap_or(0));
                out.push(Inst::Store { value, base, disp, mask: None });
            }
        }
        true
    }

    /// The n-th group of four lanes.
    fn quarter(&mut self, mut value: Value, mut ty: Type, mut n: usize, out: &mut Vec<Inst>) -> Value {
        while usize::from(ty.lanes) > GROUP {
            ty.lanes /= 2;
            let half = usize::from(ty.lanes) / GROUP;
            let op = if n >= half { Op::HighHalf(value) } else { Op::LowHalf(value) };
            value = self.make(ty, op, out);
            n %= half;
        }
        value
    }
}

/// A run cut into vectors; the last one begins earlier if there is room, and writes some elements again.
fn parts(run: &[Written], lanes: usize) -> impl Iterator<Item = &[Written]> {
    (0..run.len()).step_by(lanes).map(move |start| {
        let start = start.min(run.len().saturating_sub(lanes));
        &run[start..run.len().min(start + lanes)]
    })
}

/// The accesses whose lanes are there.
fn makers(part: &[Written]) -> Vec<usize> {
    let mut makers: Vec<usize> = part.iter().map(|&(_, (n, _))| n).collect();
    makers.sort_unstable();
    makers.dedup();
    makers
}

fn displacement(place: i64) -> i32 {
    i32::try_from(place).expect("places fit displacements")
}
