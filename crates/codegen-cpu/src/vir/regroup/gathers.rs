//! Gathers, made of loads.

use super::groups::{Pair, Part, Recipe, recipes};
use super::windows::{Window, chosen, covering};
use super::{Access, GROUP, Pass, Permutes, SIZE};
use crate::vir::{Block, Elem, Inst, Op, Type, Value};
use std::collections::{BTreeMap, HashMap};

/// What accesses share that can be made of the same joined groups: distances from group to group, and lanes that are on.
type Alike = (Vec<Option<i64>>, u64);

/// How a gather is made.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Of windows: the number of the set.
    Windows(usize),
    /// Of joined groups: the number of the set, and how its parts are shuffled.
    Groups(usize, Recipe),
}

/// Loads of four neighbours per group of lanes, and what is shuffled from them.
#[derive(Debug)]
struct Grouped {
    /// Bytes from the first group to each; `None` where all lanes are off.
    distances: Vec<Option<i64>>,
    /// Lanes that are on.
    on: u64,
    /// Places of the first group's lanes, of all results.
    first: Vec<[i64; GROUP]>,
    /// Of the first group.
    windows: Vec<Window>,
    pairs: Vec<(Pair, Option<Value>)>,
}

impl Grouped {
    /// Whether a group reads a window: all lanes that have elements of it are on, or none is. `None` if some are, or if
    /// the window reaches beyond what the lanes touch that are on.
    fn reads(&self, window: usize, group: usize) -> Option<bool> {
        let window = &self.windows[window];
        let lanes = || self.first.iter().flat_map(|first| first.iter().copied().zip(0..));
        let is_on = |lane: usize| self.on >> (group * GROUP + lane) & 1 == 1;
        let mut of_window = lanes().filter(|&(place, _)| window.contains(place)).map(|(_, lane)| is_on(lane));
        let reads = of_window.next()?;
        let touched = || lanes().filter(|&(_, lane)| is_on(lane)).map(|(place, _)| place);
        let end = window.start + window.len as i64 * SIZE;
        let inside = touched().min().is_some_and(|first| first <= window.start)
            && touched().max().is_some_and(|last| end <= last + SIZE);
        (of_window.all(|other| other == reads) && (inside || !reads)).then_some(reads)
    }

    /// Whether groups read each window as a whole or not at all.
    fn is_whole(&self) -> bool {
        (0..self.windows.len()).all(|n| (0..self.distances.len()).all(|group| self.reads(n, group).is_some()))
    }
}

/// What a block's gathers become.
#[derive(Default)]
pub(super) struct Plan {
    /// By number in the block.
    ways: HashMap<usize, (Access, Way)>,
    windows: Vec<Vec<Window>>,
    grouped: Vec<Grouped>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }
}

impl Pass {
    /// Gathers between two instructions that may write memory are planned together.
    pub(super) fn plan(&self, block: &Block) -> Plan {
        let mut plan = Plan::default();
        let mut line: BTreeMap<(Value, i64, u16, Elem), Vec<Access>> = BTreeMap::new();
        let mut end = |line: &mut BTreeMap<_, _>| {
            std::mem::take(line).into_values().for_each(|accesses| self.plan_line(accesses, &mut plan));
        };
        for (at, inst) in block.insts.iter().enumerate() {
            match inst {
                Inst::Op { result, op: Op::Gather { base, index, scale, disp, mask } } => {
                    if let Some(access) = self.access((at, *result), *base, (*index, *scale, *disp), *mask) {
                        let (base, ty, rest) = access.kind();
                        line.entry((base, rest, ty.lanes, ty.elem)).or_default().push(access);
                    }
                }
                Inst::Op { .. } | Inst::Prefetch { .. } => {}
                _ => end(&mut line),
            }
        }
        end(&mut line);
        plan
    }

    /// Chooses for gathers of one kind.
    fn plan_line(&self, accesses: Vec<Access>, plan: &mut Plan) {
        let lanes = usize::from(accesses[0].ty.lanes);
        let windows = covering(accesses.iter().flat_map(Access::on).collect(), lanes);
        let mut alike: BTreeMap<Alike, Vec<(Access, [i64; GROUP])>> = BTreeMap::new();
        let mut rest = Vec::new();
        for access in accesses {
            match access.grouped() {
                Some((distances, first)) => {
                    alike.entry((distances, access.on_bits())).or_default().push((access, first))
                }
                None => rest.push(access),
            }
        }
        for ((distances, on), mut members) in alike {
            members.sort_by_key(|&(_, first)| first);
            let picked: f64 = members.iter().map(|(access, _)| self.picking(access, &windows)).sum();
            let own = covering(members.iter().flat_map(|(_, first)| first.iter().copied()).collect(), GROUP);
            let element = |place: i64| {
                let n = own.iter().position(|window| window.contains(place)).expect("windows cover all places");
                (n, ((place - own[n].start) / SIZE) as u8)
            };
            let results: Vec<_> = members.iter().map(|(_, first)| first.map(element)).collect();
            let (recipes, pairs) = recipes(&results);
            let joined = own.len() as f64 * (1.5 * distances.len() as f64 - 1.0);
            let first: Vec<[i64; GROUP]> = members.iter().map(|&(_, first)| first).collect();
            let set = Grouped { distances, on, first, windows: own, pairs: Vec::new() };
            if joined + (pairs.len() + recipes.len()) as f64 >= picked || !set.is_whole() {
                rest.extend(members.into_iter().map(|(access, _)| access));
                continue;
            }
            let number = plan.grouped.len();
            for ((access, _), recipe) in members.into_iter().zip(recipes) {
                plan.ways.insert(access.at, (access, Way::Groups(number, recipe)));
            }
            let pairs = pairs.into_iter().map(|pair| (pair, None)).collect();
            plan.grouped.push(Grouped { pairs, ..set });
        }
        let set = plan.windows.len();
        let windows = covering(rest.iter().flat_map(Access::on).collect(), lanes);
        plan.windows.push(windows.clone());
        let mut apart: BTreeMap<i64, usize> = BTreeMap::new();
        for access in rest {
            // The other ways are loads of its own, and to load and insert elements one by one.
            let shared = self.picking(&access, &windows);
            let own: Vec<Window> = covering(access.on().collect(), lanes);
            let own: Vec<Window> = own.into_iter().map(|window| window.filled(lanes, &windows)).collect();
            let alone = own.len() as f64 * self.load_alone() + self.putting_together(own.len());
            if shared.min(alone) >= access.on().count() as f64 {
                continue;
            }
            let set = if alone < shared {
                *apart.entry(own[0].start).or_insert_with(|| {
                    plan.windows.push(own);
                    plan.windows.len() - 1
                })
            } else {
                set
            };
            plan.ways.insert(access.at, (access, Way::Windows(set)));
        }
    }

    /// Instructions for one result out of windows, which others share.
    fn picking(&self, access: &Access, windows: &[Window]) -> f64 {
        let n = chosen(access, windows).len();
        n as f64 / 2.0 + self.putting_together(n)
    }

    /// Instructions that bring lanes of `n` vectors together.
    pub(super) fn putting_together(&self, n: usize) -> f64 {
        let n = n as f64;
        match self.permutes {
            Permutes::OfTwo => (n - 1.0).max(1.0),
            // A permutation, its numbers and a blend for each.
            Permutes::OfOne => 2.5 * n - 1.0,
        }
    }

    /// Instructions that a load is worth which nobody shares: nearly all of 64 bytes lie across the end of a cache line, and
    /// those take the place of two.
    fn load_alone(&self) -> f64 {
        match self.permutes {
            Permutes::OfTwo => 2.0,
            Permutes::OfOne => 1.0,
        }
    }

    /// Makes the gather that is number `at` of its block, if there is a plan for it.
    pub(super) fn gather(&mut self, at: usize, plan: &mut Plan, out: &mut Vec<Inst>) -> bool {
        let Some((access, way)) = plan.ways.remove(&at) else { return false };
        match way {
            Way::Windows(set) => self.pick(&access, &mut plan.windows[set], out),
            Way::Groups(set, recipe) => {
                let set = &mut plan.grouped[set];
                let [a, b] = recipe.parts.map(|part| self.part(&access, set, part, out));
                out.push(Inst::Op { result: access.value, op: Op::Shuffle(a, b, recipe.lanes) });
            }
        }
        true
    }

    /// One result out of windows.
    fn pick(&mut self, access: &Access, windows: &mut [Window], out: &mut Vec<Inst>) {
        let mut parts: Vec<(Value, Window)> = Vec::new();
        for n in chosen(access, windows) {
            let window = windows[n].clone();
            let value = match window.value {
                Some(value) => value,
                None => self.load(access.ty, access.base, window.start, window.len, out),
            };
            windows[n].value = Some(value);
            parts.push((value, window));
        }
        let from: Vec<Option<(usize, usize)>> = access
            .places
            .iter()
            .map(|place| {
                let place = (*place)?;
                let part = parts.iter().position(|(_, window)| window.contains(place))?;
                Some((part, ((place - parts[part].1.start) / SIZE) as usize))
            })
            .collect();
        let values: Vec<Value> = parts.iter().map(|&(value, _)| value).collect();
        let result = if access.all_on() { access.value } else { self.fresh(access.ty) };
        self.together(access.ty, &values, &from, Some(result), out);
        if !access.all_on() {
            // Lanes that are off are zero.
            let (mask, zero) =
                (self.constant(access.ty.mask(), vec![access.on_bits()]), self.constant(access.ty, vec![0]));
            out.push(Inst::Op { result: access.value, op: Op::Select(mask, result, zero) });
        }
    }

    /// A vector that results are shuffled from.
    fn part(&mut self, access: &Access, set: &mut Grouped, part: Part, out: &mut Vec<Inst>) -> Value {
        match part {
            Part::Source(n) => {
                if let Some(value) = set.windows[n].value {
                    return value;
                }
                let Window { start, len, .. } = set.windows[n];
                let mut ty = Type::vector(access.ty.elem, GROUP as u16);
                let mut parts = Vec::with_capacity(set.distances.len());
                for (group, distance) in set.distances.iter().enumerate() {
                    parts.push(match distance.filter(|_| set.reads(n, group) == Some(true)) {
                        Some(distance) => self.load(ty, access.base, start + distance, len, out),
                        None => self.constant(ty, vec![0]),
                    });
                }
                while parts.len() > 1 {
                    ty.lanes *= 2;
                    parts = parts.chunks(2).map(|pair| self.make(ty, Op::Join(pair[0], pair[1]), out)).collect();
                }
                set.windows[n].value = Some(parts[0]);
                parts[0]
            }
            Part::Pair(n) => {
                if let Some(value) = set.pairs[n].1 {
                    return value;
                }
                let sources = set.pairs[n].0.sources;
                let [a, b] = sources.map(|source| self.part(access, set, Part::Source(source), out));
                // All pairs of two sources, which then need no registers.
                for (pair, value) in set.pairs.iter_mut().filter(|(pair, _)| pair.sources == sources) {
                    *value = Some(self.make(access.ty, Op::Shuffle(a, b, pair.lanes()), out));
                }
                set.pairs[n].1.expect("it is one of them")
            }
        }
    }

    /// The first elements of a vector, or all of it.
    fn load(&mut self, ty: Type, base: Value, start: i64, len: usize, out: &mut Vec<Inst>) -> Value {
        let disp = i32::try_from(start).expect("places fit displacements");
        if len >= usize::from(ty.lanes) {
            return self.make(ty, Op::Load { base, disp, invariant: false }, out);
        }
        let mask = self.constant(ty.mask(), vec![(1 << len) - 1]);
        self.make(ty, Op::LoadMasked { base, disp, mask }, out)
    }
}
