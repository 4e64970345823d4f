//! Facts about shapes: limits, equality, broadcasting, products.

use super::{Builder, Result, check_storable};
use crate::error::Problem;
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::graph::{Assumption, BROADCAST_EXTENTS, REPEATED_EXTENT, Relation, Requirement, TensorType};
use infc_ir::index::{Atom, Dim, IndexExpr, Proof};

/// The most axes a value may have.
pub(crate) const MAX_RANK: usize = 32;

/// The most bytes a value may have: 2^46 is more than any machine's memory, and far from where `i64` ends.
const MAX_BYTES: i64 = 1 << 46;

/// The most atoms in a size expression; models in earnest have a handful.
const MAX_ATOMS: usize = 64;

/// Expressions of more atoms become symbols where they can.
const LONG: usize = 24;

/// A shape as messages show it: `2, $0, 3`.
pub(crate) fn show(shape: &[Dim]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The problem of a shape that is not as it should be.
pub(crate) fn mismatch(expected: impl Into<String>, found: &[Dim]) -> Problem {
    Problem::ShapeMismatch { expected: expected.into(), found: format!("shape [{}]", show(found)) }
}

impl Builder {
    /// Checks that a value of this type can exist.
    pub(crate) fn check(&self, ty: &TensorType) -> Result<()> {
        check_storable(ty.dtype)?;
        self.check_shape(ty)
    }

    /// Checks that a value of this shape can exist.
    pub(crate) fn check_shape(&self, ty: &TensorType) -> Result<()> {
        if ty.shape.len() > MAX_RANK {
            return Err(Problem::RankTooLarge { found: ty.shape.len(), limit: MAX_RANK });
        }
        let ranges = self.ranges();
        let mut bits = ty.dtype.size_bits().max(8) as i64;
        let mut too_large = false;
        let mut empty = false;
        for dim in &ty.shape {
            check_complexity(dim)?;
            let interval = ranges.interval(dim);
            if interval.max.is_some_and(|max| max < 0) {
                return Err(mismatch("extents of at least 0", &ty.shape));
            }
            empty |= interval.max == Some(0);
            // The least value: what symbols make of it is checked when the model runs.
            let extent = interval.min.unwrap_or(1).max(1);
            bits = bits.saturating_mul(extent);
            too_large |= bits / 8 > MAX_BYTES;
        }
        if too_large && !empty { Err(Problem::DimOverflow { shape: show(&ty.shape) }) } else { Ok(()) }
    }

    /// Sees to it that two extents are equal: fails if they certainly are not, and takes for granted what cannot be
    /// proven, to be checked before the model runs.
    pub(crate) fn require_equal(&mut self, what: &'static str, left: &Dim, right: &Dim) -> Result<()> {
        match self.ranges().eq(&self.facts.apply(left), &self.facts.apply(right)) {
            Proof::Yes => Ok(()),
            Proof::No => Err(Problem::ShapeMismatch {
                expected: format!("{what} to be equal"),
                found: format!("{left} and {right}"),
            }),
            Proof::Unknown if self.facts.equal(left, right) => Ok(()),
            Proof::Unknown => {
                self.facts.take_equal(left, right, &self.ranges());
                self.assume(what, left, Relation::Equal, right);
                Ok(())
            }
        }
    }

    /// Extents that must be equal, or the model cannot run: where that is not provable, it is checked when it runs.
    pub(crate) fn assume_equal(&mut self, what: &'static str, left: &Dim, right: &Dim) -> Result<()> {
        match self.ranges().eq(left, right) {
            Proof::Unknown => {
                let (left, right) = (left.clone(), right.clone());
                self.graph.require(Requirement { left, right, equal: true, what: what.to_owned() });
                Ok(())
            }
            _ => self.require_equal(what, left, right),
        }
    }

    /// The axes of extent 1, where no other extent may be 1: the rank of what is left depends on it. What inputs tell is
    /// required to be something else; of what is computed, nothing is known.
    pub(crate) fn ones(&mut self, shape: &[Dim]) -> Result<Vec<usize>> {
        let one = Dim::constant(1);
        let mut ones = Vec::new();
        for (axis, extent) in shape.iter().enumerate() {
            let known = self.facts.apply(extent);
            match self.ranges().eq(&known, &one) {
                Proof::Yes => ones.push(axis),
                Proof::No => {}
                // An extent of 0 would be an empty tensor, which nobody squeezes.
                Proof::Unknown if self.ranges().interval(&known).max == Some(1) => ones.push(axis),
                Proof::Unknown if self.may_use_host && (self.is_trial || self.facts.is_late(&known)) => {
                    return Err(Problem::DynamicValue { what: "the number of axes" });
                }
                Proof::Unknown => {
                    let node = self.graph.origins[self.origin].first().map_or("", String::as_str);
                    let what = format!("the extent of axis {axis}, which `{node}` would squeeze, and 1");
                    self.graph.require(Requirement { left: extent.clone(), right: one.clone(), equal: false, what });
                }
            }
        }
        Ok(ones)
    }

    /// The value under a shape that its extents are assumed to equal.
    pub(crate) fn conform(&mut self, what: &'static str, x: &Tracked, shape: &[Dim]) -> Result<Tracked> {
        if x.rank() != shape.len() {
            return Err(mismatch(format!("{} axes", shape.len()), x.shape()));
        }
        for (found, expected) in x.shape().iter().zip(shape) {
            self.assume_equal(what, found, expected)?;
        }
        self.view(x, (0..shape.len()).map(super::var).collect(), shape.to_vec())
    }

    /// Takes note that these dims, if they are dims of inputs, are 1 in most runs.
    pub(crate) fn one_is_usual(&mut self, dims: &[&Dim]) {
        for symbol in dims.iter().filter_map(|dim| dim.as_symbol()) {
            let usual = (self.graph.symbols[symbol].name.clone(), 1);
            if !self.graph.usual.contains(&usual) {
                self.graph.usual.push(usual);
            }
        }
    }

    /// Sees to it that `least ≤ size`, as [`Builder::require_equal`] does for equality.
    pub(crate) fn require_at_least(&mut self, what: &'static str, size: &Dim, least: &Dim) -> Result<()> {
        match self.ranges().le(&self.facts.apply(least), &self.facts.apply(size)) {
            Proof::Yes => Ok(()),
            Proof::No => Err(Problem::ShapeMismatch {
                expected: format!("{what} to be at least {least}"),
                found: size.to_string(),
            }),
            Proof::Unknown if self.facts.at_least(size, least) => Ok(()),
            Proof::Unknown => {
                self.facts.take_at_least(size, least);
                self.assume(what, least, Relation::AtMost, size);
                Ok(())
            }
        }
    }

    /// Dims as they are with everything that is taken for granted.
    pub(crate) fn restated(&self, shape: &[Dim]) -> Vec<Dim> {
        let ranges = self.ranges();
        shape.iter().map(|d| self.facts.apply(d).simplify(&ranges)).collect()
    }

    fn assume(&mut self, what: &str, left: &Dim, relation: Relation, right: &Dim) {
        let (left, right) = (left.clone(), right.clone());
        let assumption = Assumption { what: what.to_owned(), left, relation, right, origin: self.origin };
        if !self.graph.assumptions.contains(&assumption) {
            self.graph.assumptions.push(assumption);
        }
    }

    /// True for an extent of 1 or none that meets one that may be anything: the first rows of a batch that may be empty,
    /// `min(N, 1)` of them. It repeats, as an extent of 1 does.
    pub(super) fn may_repeat(&self, extent: &Dim, target: &Dim) -> bool {
        if self.extents_differ {
            return false;
        }
        let ranges = self.ranges();
        let is_thin = |dim: &Dim| {
            let interval = ranges.interval_of_difference(&self.facts.apply(dim));
            interval.max == Some(1) && interval.min.is_some_and(|min| min >= 0)
        };
        extent.as_const().is_none() && is_thin(extent) && !is_thin(target)
    }

    /// True for an extent that the run tells, and that is the other one or 1.
    pub(super) fn is_folded(&self, extent: &Dim, target: &Dim) -> bool {
        let whole = extent.as_symbol().and_then(|symbol| self.folded.get(&symbol));
        let is_target =
            |whole: &Dim| self.ranges().eq(&self.facts.apply(whole), &self.facts.apply(target)) == Proof::Yes;
        whole.is_some_and(is_target)
    }

    /// True for an extent that repeats if it is anything the model can run with: it cannot be as large as the one that it
    /// meets.
    fn must_repeat(&self, extent: &Dim, target: &Dim) -> bool {
        // Of what repeats by its range that is known already.
        if self.may_repeat(extent, target) {
            return false;
        }
        let ranges = self.ranges();
        let [extent, target] = [extent, target].map(|dim| self.facts.apply(dim));
        let one = Dim::constant(1);
        let is_never = ranges.eq(&extent, &target) == Proof::No && ranges.eq(&target, &one) == Proof::No;
        extent.as_const().is_none()
            && ranges.eq(&extent, &one) == Proof::Unknown
            && (is_never || (!self.extents_differ && self.is_one_where_they_differ(&extent, &target)))
    }

    /// Whether an extent that follows from the same dim as another one is not that at any size of some, but 1 at one: every 384th
    /// element of a mask beside as many keys as the mask has elements. That the dim is 1 is not what the model means.
    fn is_one_where_they_differ(&self, extent: &Dim, target: &Dim) -> bool {
        const SIZES: [i64; 12] = [2, 3, 4, 5, 7, 8, 16, 31, 64, 100, 1000, 4096];
        let symbols = target.symbols();
        let at = |dim: &Dim, size: i64| dim.at_size(&self.graph.symbols, size);
        let differs = |&size: &i64| at(target, size).is_some_and(|n| n != 1 && at(extent, size).is_some_and(|m| m < n));
        symbols.len() == 1
            && extent.symbols() == symbols
            && SIZES.iter().all(differs)
            && SIZES.iter().any(|&size| at(extent, size) == Some(1))
    }

    /// Whether two extents that are broadcast to each other may be equal or not, and neither is taken for granted.
    pub(super) fn may_differ(&self, left: &Dim, right: &Dim) -> bool {
        let [known_left, known_right] = [left, right].map(|dim| self.facts.apply(dim));
        let is_unknown = || self.ranges().eq(&known_left, &known_right) == Proof::Unknown;
        self.extents_differ && is_unknown() && !self.facts.equal(left, right)
    }

    /// Whether an extent is 1 wherever it is broadcast to another one, which is seen to here: not all that is broadcast is read along
    /// its axes.
    fn repeats(&mut self, thin: &Dim, wide: &Dim) -> Result<bool> {
        if self.facts.apply(thin).is_const(1) {
            return Ok(true);
        }
        let repeats = self.may_repeat(thin, wide) || self.is_folded(thin, wide);
        if repeats {
            self.require_at_least(REPEATED_EXTENT, thin, &wide.minimum(&Dim::constant(1)))?;
        }
        Ok(repeats)
    }

    /// What two extents broadcast to, of which neither is known to be 1.
    pub(super) fn broadcast_extent(&mut self, left: &Dim, right: &Dim) -> Result<Dim> {
        // Of two ways to say the same, the number is better.
        let number = right.as_const().is_some() && left.as_const().is_none();
        if !self.may_differ(left, right) {
            self.require_equal(BROADCAST_EXTENTS, left, right)?;
            return Ok(if number { right } else { left }.clone());
        }
        let extent = match left.as_const() {
            None if number => right.clone(),
            None => {
                let either = truth::either(&truth::equal(left, &Dim::constant(1)), right, left);
                self.named_extent("an extent that is broadcast", &either)
            }
            Some(_) => left.clone(),
        };
        [left, right].into_iter().try_for_each(|own| self.require_repeated(own, &extent))?;
        Ok(extent)
    }

    /// Sees to it that an extent is that of a result or 1, as the run will tell.
    fn require_repeated(&mut self, extent: &Dim, result: &Dim) -> Result<()> {
        let repeated = truth::either(&truth::equal(extent, &Dim::constant(1)), result, extent);
        match self.ranges().eq(&self.facts.apply(&repeated), &self.facts.apply(result)) {
            Proof::Yes => {}
            Proof::No => return Err(mismatch(format!("an extent of 1 or {result}"), std::slice::from_ref(extent))),
            // Nothing is known of either by that.
            Proof::Unknown => self.assume(BROADCAST_EXTENTS, &repeated, Relation::Equal, result),
        }
        Ok(())
    }

    /// The coordinate that is read where an extent is that of a result or 1, as the run will tell.
    pub(crate) fn repeated(&mut self, extent: &Dim, result: &Dim, at: IndexExpr) -> Result<IndexExpr> {
        self.require_repeated(extent, result)?;
        Ok(at.minimum(&(extent.clone() - 1)))
    }

    /// The shape that all the given ones broadcast to.
    pub(crate) fn broadcast_shape(&mut self, shapes: &[&[Dim]]) -> Result<Vec<Dim>> {
        let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
        let mut result = vec![Dim::constant(1); rank];
        for shape in shapes {
            let missing = rank - shape.len();
            for (n, extent) in shape.iter().enumerate() {
                let slot = &mut result[missing + n];
                for (thin, wide) in [(&*slot, extent), (extent, &*slot)] {
                    if self.must_repeat(thin, wide) {
                        self.require_equal("an extent that is repeated and 1", thin, &Dim::constant(1))?;
                    }
                }
                if self.repeats(slot, extent)? {
                    *slot = extent.clone();
                } else if !self.repeats(extent, slot)? {
                    *slot = self.broadcast_extent(slot, extent)?;
                }
            }
        }
        Ok(result)
    }
}

/// True if a shape has no elements where an extent is 0: the shape has an extent of 0, or a multiple of every factor of
/// the other.
pub(super) fn is_empty_with(shape: &[Dim], extent: &Dim) -> bool {
    let single = |d: &Dim| match (d.terms(), d.constant_part()) {
        ([term], 0) => Some(term.atoms.clone()),
        _ => None,
    };
    let products: Vec<_> = shape.iter().filter_map(single).collect();
    let is_shared = |atom: &Atom| products.iter().any(|atoms| atoms.contains(atom));
    let extent = single(extent);
    shape.iter().any(|d| d.is_const(0)) || extent.is_some_and(|atoms| atoms.iter().all(is_shared))
}

/// The number of atoms in a size expression.
fn atoms(dim: &Dim) -> usize {
    let mut atoms = 0;
    dim.for_each_atom(&mut |_| atoms += 1);
    atoms
}

/// True for an expression that is better a symbol of its own.
pub(crate) fn is_long(dim: &Dim) -> bool {
    atoms(dim) > LONG
}

/// Fails if an expression is so long that working with it could take forever.
pub(crate) fn check_complexity(dim: &Dim) -> Result<()> {
    if atoms(dim) > MAX_ATOMS {
        let mut expression = dim.to_string();
        expression.truncate(expression.char_indices().nth(80).map_or(expression.len(), |(at, _)| at));
        return Err(Problem::DimTooComplex { expression });
    }
    Ok(())
}

/// The product of extents.
pub(crate) fn product(dims: &[Dim]) -> Result<Dim> {
    let mut product = Dim::constant(1);
    for dim in dims {
        product = product * dim.clone();
        check_complexity(&product)?;
        if product.as_const().is_some_and(|p| p > MAX_BYTES) {
            return Err(Problem::DimOverflow { shape: show(dims) });
        }
    }
    Ok(product)
}

/// Both lists without the factors that they share. Sums do not divide as polynomials, so this comes before products.
pub(crate) fn without_common(left: &[Dim], right: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
    let mut left = left.to_vec();
    let mut rest = Vec::new();
    for dim in right {
        match left.iter().position(|l| l == dim) {
            Some(at) => {
                left.remove(at);
            }
            None => rest.push(dim.clone()),
        }
    }
    (left, rest)
}

/// `Π numerator / Π denominator`, rounded down, and whether it is known to go without remainder; `None` for division
/// by what is not positive.
pub(crate) fn quotient(numerator: &[Dim], denominator: &[Dim]) -> Result<Option<(Dim, bool)>> {
    let (left, right) = without_common(numerator, denominator);
    let (top, bottom) = (product(&left)?, product(&right)?);
    if bottom.as_const().is_some_and(|d| d <= 0) {
        return Ok(None);
    }
    Ok(Some((top.floor_div(&bottom), top.modulo(&bottom).is_const(0))))
}

/// `Π numerator / Π denominator` without remainder; `None` if that cannot be shown.
pub(crate) fn exact_quotient(numerator: &[Dim], denominator: &[Dim]) -> Result<Option<Dim>> {
    Ok(quotient(numerator, denominator)?.filter(|(_, exact)| *exact).map(|(quotient, _)| quotient))
}
