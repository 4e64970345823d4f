//! What trees ask, as intervals of columns.

use infc_reference::{Branch, Test};
use infc_tensor::DType;
use std::collections::HashMap;

/// The features that are asked, each as often as missing values differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// The feature, and whether a missing value is less than all others there; else no test holds of it.
    pub(super) all: Vec<(usize, bool)>,
    numbers: HashMap<(usize, bool), usize>,
}

impl Columns {
    /// The number of a column.
    pub(super) fn number(&mut self, feature: usize, missing_is_least: bool) -> usize {
        let (key, all) = ((feature, missing_is_least), &mut self.all);
        *self.numbers.entry(key).or_insert_with(|| {
            all.push(key);
            all.len() - 1
        })
    }
}

/// The question of a branch: whether `least ≤ x ≤ most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// Number of the column.
    pub(super) column: usize,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Whether those within go where those go that fail the branch's own test.
    pub(super) swapped: bool,
}

impl Interval {
    /// Whether it takes two comparisons.
    pub(super) fn has_least(&self) -> bool {
        self.least != f64::NEG_INFINITY
    }

    /// The question of a branch to features that are numbers of this type. A missing value is `−∞` or NaN where the columns say so,
    /// and goes where the branch wants it. `None` if it is no interval.
    pub(super) fn of(branch: &Branch, dtype: DType, columns: &mut Columns) -> Option<Self> {
        let missing_passes = branch.missing_passes;
        let least = f64::NEG_INFINITY;
        // The ends, whether the ways are swapped, and whether a missing value is to be less than all others.
        let (least, most, swapped, missing_is_least) = match branch.test {
            Test::AtMost(split) | Test::Less(split) | Test::AtLeast(split) | Test::Greater(split) if split.is_nan() => {
                return None;
            }
            Test::AtMost(split) => (least, at_most(split, dtype), false, missing_passes),
            Test::Less(split) => (least, below(split, dtype), false, missing_passes),
            // A missing value fails these, unless it passes anyway.
            Test::AtLeast(split) => (least, below(split, dtype), true, !missing_passes),
            Test::Greater(split) => (least, at_most(split, dtype), true, !missing_passes),
            Test::Equal(split) if !missing_passes => (only(split, dtype), only(split, dtype), false, false),
            Test::Differs(split) => (only(split, dtype), only(split, dtype), true, false),
            Test::Equal(_) | Test::Among(_) => return None,
        };
        // Less than all numbers a missing value cannot be.
        let is_possible = !(missing_is_least && most.is_nan());
        is_possible.then(|| Self { column: columns.number(branch.feature, missing_is_least), least, most, swapped })
    }
}

/// The greatest number of the type that is no greater.
fn at_most(x: f64, dtype: DType) -> f64 {
    if dtype == DType::F64 {
        return x;
    }
    let near = x as f32;
    f64::from(if f64::from(near) > x { near.next_down() } else { near })
}

/// The greatest number of the type that is less; NaN, which nothing is less than, if there is none.
fn below(x: f64, dtype: DType) -> f64 {
    let near = at_most(x, dtype);
    if near < x {
        near
    } else if x == f64::NEG_INFINITY {
        f64::NAN
    } else if dtype == DType::F64 {
        x.next_down()
    } else {
        f64::from((x as f32).next_down())
    }
}

/// A number if it is one of the type, else NaN, which none is equal to.
fn only(x: f64, dtype: DType) -> f64 {
    if at_most(x, dtype) == x { x } else { f64::NAN }
}
