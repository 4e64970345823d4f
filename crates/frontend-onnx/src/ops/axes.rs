//! Axes that only the run will tell.
//!
//! Which axis is meant is then a number like others, and what depends on it a choice between extents: of
//! `[A, B]` summed along axis `k`, `k` from 0 to 1, extent 0 of the result is `k = 0 ? 1 : A`. Everything that keeps the
//! row-major order, or walks along one axis, or folds, can be said that way with as many axes as the operand has.

use crate::build::{Builder, Result, var};
use crate::call::axes;
use crate::error::Problem;
use crate::truth;
use infc_ir::index::{Dim, IndexExpr};

/// Axes of a value, each once.
#[derive(Clone, Debug)]
pub(super) enum Axes {
    /// Ascending.
    Known(Vec<usize>),
    Chosen(ChosenAxes),
}

/// Axes that the run tells, in the order in which they are given.
#[derive(Clone, Debug)]
pub(super) struct ChosenAxes {
    /// Counted from the start.
    positions: Vec<Dim>,
    /// Per axis of the value, 1 where it is among them, else 0.
    chosen: Vec<Dim>,
}

impl Axes {
    /// Axes of a value of the given rank; negative ones count from the end.
    pub(super) fn of(build: &mut Builder, given: &[Dim], rank: usize) -> Result<Self> {
        match given.iter().map(Dim::as_const).collect::<Option<Vec<i64>>>() {
            Some(known) => Ok(Self::Known(axes(&known, rank)?)),
            None => Ok(Self::Chosen(ChosenAxes::of(build, given, rank)?)),
        }
    }
}

/// An axis of a value of the given rank, counted from the start, that may only be known when the model runs.
pub(super) fn position(build: &mut Builder, given: &Dim, rank: usize) -> Result<Dim> {
    let signed = rank as i64;
    let given = build.number("an axis", given, -signed, signed - 1)?;
    let position = given.clone() + truth::negative(&given).scale(signed);
    build.number("an axis counted from the start", &position, 0, signed - 1)
}

impl ChosenAxes {
    pub(super) fn of(build: &mut Builder, given: &[Dim], rank: usize) -> Result<Self> {
        if given.len() > rank {
            return Err(Problem::ShapeMismatch {
                expected: format!("at most {rank} axes, each once"),
                found: format!("{} axes", given.len()),
            });
        }
        let positions = given.iter().map(|d| position(build, d, rank)).collect::<Result<Vec<_>>>()?;
        let chosen = (0..rank as i64)
            .map(|axis| {
                let times = positions.iter().map(|p| truth::equal(p, &Dim::constant(axis))).sum();
                // Twice is out of range.
                build.number("how often an axis is given", &times, 0, 1)
            })
            .collect::<Result<_>>()?;
        Ok(Self { positions, chosen })
    }

    /// The value given for an axis beside the list of axes, `otherwise` for axes that are not given.
    pub(super) fn value_for(&self, axis: usize, values: &[Dim], otherwise: &Dim) -> Dim {
        let here = |p: &Dim| truth::equal(p, &Dim::constant(axis as i64));
        let given: Dim = self.positions.iter().zip(values).map(|(p, value)| here(p) * value.clone()).sum();
        given + truth::not(&self.chosen[axis]) * otherwise.clone()
    }

    /// The shape with 1 in the place of these axes' extents.
    pub(super) fn ones(&self, build: &mut Builder, shape: &[Dim]) -> Result<Vec<Dim>> {
        self.pick(build, shape, true)
    }

    /// The shape with 1 in the place of the other axes' extents.
    pub(super) fn others_ones(&self, build: &mut Builder, shape: &[Dim]) -> Result<Vec<Dim>> {
        self.pick(build, shape, false)
    }

    /// Where an element of the shape lies in one with 1 in the place of these axes' extents.
    pub(super) fn at_ones(&self) -> Vec<IndexExpr> {
        self.chosen.iter().enumerate().map(|(n, chosen)| var(n) * truth::not(chosen)).collect()
    }

    fn pick(&self, build: &mut Builder, shape: &[Dim], replaced: bool) -> Result<Vec<Dim>> {
        let one = Dim::constant(1);
        let of = |(chosen, extent): (&Dim, &Dim)| {
            let (then, otherwise) = if replaced { (&one, extent) } else { (extent, &one) };
            build.named_size("an extent", &truth::either(chosen, then, otherwise))
        };
        self.chosen.iter().zip(shape).map(of).collect()
    }

    /// The shape without these axes.
    pub(super) fn removed(&self, build: &mut Builder, shape: &[Dim]) -> Result<Vec<Dim>> {
        let mut before = Dim::constant(0);
        let mut places = Vec::new();
        for chosen in &self.chosen {
            places.push(before.clone());
            before = build.number("how many axes are kept", &(before + truth::not(chosen)), 0, shape.len() as i64)?;
        }
        (0..shape.len() - self.positions.len())
            .map(|n| {
                let extents = places.iter().zip(&self.chosen).zip(shape).map(|((place, chosen), extent)| {
                    truth::equal(place, &Dim::constant(n as i64)) * truth::not(chosen) * extent.clone()
                });
                build.named_size("an extent", &extents.sum())
            })
            .collect()
    }

    /// The shape with an axis of extent 1 in each of these places.
    pub(super) fn inserted(&self, build: &mut Builder, shape: &[Dim]) -> Result<Vec<Dim>> {
        let mut place = Dim::constant(0);
        let mut inserted = Vec::new();
        for chosen in &self.chosen {
            let extents = (0..).zip(shape).map(|(n, extent)| truth::equal(&place, &Dim::constant(n)) * extent.clone());
            let extent = build.size("an extent", &extents.sum())?;
            inserted.push(build.named_size("an extent", &truth::either(chosen, &Dim::constant(1), &extent))?);
            place = build.number("how many axes come before", &(place + truth::not(chosen)), 0, shape.len() as i64)?;
        }
        Ok(inserted)
    }
}

/// A shape as three extents: before an axis, along it, and behind it.
pub(super) fn around(build: &mut Builder, shape: &[Dim], axis: &Dim) -> Result<[Dim; 3]> {
    let one = Dim::constant(1);
    let along = (0..).zip(shape).map(|(n, d)| truth::equal(axis, &Dim::constant(n)) * d.clone()).sum();
    let mut sides = [one.clone(), one.clone()];
    for (n, extent) in (0..).zip(shape) {
        let n = Dim::constant(n);
        for (side, beside) in sides.iter_mut().zip([truth::less(&n, axis), truth::less(axis, &n)]) {
            let factor = truth::either(&beside, extent, &one);
            *side = build.size("the extents on one side of an axis", &(side.clone() * factor))?;
        }
    }
    let along = build.size("the extent of an axis", &along)?;
    let [before, behind] = sides;
    Ok([before, along, behind])
}
