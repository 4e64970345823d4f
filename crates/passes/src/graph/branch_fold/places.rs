//! Whether one branch reads, for every point of the result, what another reads at some of its taps, and at which.

use super::branch::{Branch, Coordinate};
use crate::graph::movement::{canonical, ranges, var};
use crate::graph::rewrite::Site;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::VarId;
use infc_ir::index::{Dim, IndexExpr};

/// Longer axes are not the taps of a window: what reads one point of them is not looked for.
const MAX_TAPS: i64 = 128;

/// Where along one of its taps a host reads what a guest reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this tap of the guest's, plus an offset.
    Guest(usize, i64),
    /// At this axis of the result.
    Result(usize),
    /// Here alone.
    Fixed(i64),
}

/// Looks for the places of a guest's points among a host's.
pub(super) struct Search<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) host: &'a Branch<'a>,
    pub(super) guest: &'a Branch<'a>,
    /// The extents of the guest's coordinates.
    pub(super) shape: Vec<Dim>,
    /// Axes of the result.
    pub(super) rank: usize,
}

impl Search<'_> {
    /// A place for each of the host's taps, so that every tap of the guest's is somewhere.
    pub(super) fn places(&self) -> Option<Vec<Place>> {
        let alike = self.host.source == self.guest.source && self.host.read.index.len() == self.guest.read.index.len();
        let mut places = Vec::new();
        (alike && self.extend(&mut places)).then_some(places)
    }

    fn extend(&self, places: &mut Vec<Place>) -> bool {
        let tap = places.len();
        let Some(&extent) = self.host.taps.get(tap) else {
            let complete =
                (0..self.guest.taps.len()).all(|g| places.iter().any(|p| matches!(p, Place::Guest(n, _) if *n == g)));
            return complete && self.agrees(places);
        };
        self.candidates(places, extent).into_iter().any(|place| {
            places.push(place);
            let found = self.agrees_so_far(places) && self.extend(places);
            if !found {
                places.pop();
            }
            found
        })
    }

    fn candidates(&self, before: &[Place], extent: i64) -> Vec<Place> {
        let mut found = Vec::new();
        for (tap, &width) in self.guest.taps.iter().enumerate() {
            if !before.iter().any(|p| matches!(p, Place::Guest(n, _) if *n == tap)) && extent - width < MAX_TAPS {
                found.extend((0..=extent - width).map(|offset| Place::Guest(tap, offset)));
            }
        }
        let tap = Coordinate::Tap(before.len());
        let same =
            |axis: &usize| self.shape[*axis].is_const(extent) && self.host.axis(Coordinate::Result(*axis)).is_some();
        if self.host.axis(tap).is_some() {
            found.extend((0..self.rank).filter(same).map(Place::Result));
        }
        if extent <= MAX_TAPS {
            found.extend((0..extent).map(Place::Fixed));
        }
        found
    }

    /// The host's coordinates as the guest's, as far as they are placed.
    fn host_by_guest(&self, places: &[Place]) -> Vec<IndexExpr> {
        let place = |place: &Place| match *place {
            Place::Guest(tap, offset) => var(self.rank + tap) + offset,
            Place::Result(axis) => var(axis),
            Place::Fixed(at) => IndexExpr::constant(at),
        };
        (0..self.rank).map(var).chain(places.iter().map(place)).collect()
    }

    /// Whether the source's axes on which only placed taps have a say are read where the guest reads them.
    fn agrees_so_far(&self, places: &[Place]) -> bool {
        let by = self.host_by_guest(places);
        let ranges = ranges(&self.site.graph.symbols, &self.shape);
        let open = |e: &IndexExpr| (by.len()..self.rank + self.host.taps.len()).any(|v| e.uses_var(VarId(v as u32)));
        let mut both = self.host.read.index.iter().zip(&self.guest.read.index);
        both.all(|(host, guest)| open(host) || host.substitute_vars(&by).simplify(&ranges) == *guest)
    }

    /// Whether the same points are read, under the same conditions.
    fn agrees(&self, places: &[Place]) -> bool {
        let through = AccessMap { rank: self.shape.len(), index: self.host_by_guest(places), valid: Vec::new() };
        let host = canonical(&self.host.read.compose(&through), &self.shape, &self.site.graph.symbols);
        let guest = &self.guest.read;
        let same_bounds = host.valid.len() == guest.valid.len() && host.valid.iter().all(|b| guest.valid.contains(b));
        let padded_alike = host.valid.is_empty() || self.host.otherwise == self.guest.otherwise;
        host.index == guest.index && same_bounds && padded_alike
    }

    /// From the coordinates of the host's weights to the guest's, valid where the guest's are added.
    pub(super) fn embedding(&self, places: &[Place]) -> Option<AccessMap> {
        let mut valid = Vec::new();
        for (tap, (place, &extent)) in places.iter().zip(&self.host.taps).enumerate() {
            let at = var(self.host.axis(Coordinate::Tap(tap))?);
            let (expr, width) = match *place {
                Place::Guest(guest, offset) if self.guest.taps[guest] < extent => (at - offset, self.guest.taps[guest]),
                Place::Guest(..) => continue,
                Place::Result(axis) => (at - var(self.host.axis(Coordinate::Result(axis))?), 1),
                Place::Fixed(fixed) => (at - fixed, 1),
            };
            valid.push(Bound { expr, lo: IndexExpr::constant(0), hi: IndexExpr::constant(width) });
        }
        let index = self.guest.axes.iter().map(|coordinate| match *coordinate {
            Coordinate::Nothing => Some(IndexExpr::constant(0)),
            Coordinate::Result(axis) => self.host.axis(Coordinate::Result(axis)).map(var),
            Coordinate::Tap(tap) => places.iter().enumerate().find_map(|(n, place)| match *place {
                Place::Guest(guest, offset) if guest == tap => Some(var(self.host.axis(Coordinate::Tap(n))?) - offset),
                _ => None,
            }),
        });
        let index = index.collect::<Option<_>>()?;
        Some(AccessMap { rank: self.host.axes.len(), index, valid })
    }
}
