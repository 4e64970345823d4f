//! Layer norm: `(x − μ)/√(σ² + ε)` with `μ = mean x` and `σ² = mean (x − μ)²` over the same axes.
//!
//! Also in the form that batch-norm style exporters make of scale and shift: `x·a + (β − μ·a)` with `a = γ/√(σ² + ε)`
//! becomes `norm(x)·γ + β`.

use super::{Found, close};
use crate::graph::composites::{count_of, layer_norm as composite};
use crate::graph::term::{Factor, Term, Terms};
use infc_ir::graph::TensorType;
use infc_ir::scalar::{BinaryOp, ScalarOp};

/// What a centred term is centred by.
struct Centered {
    x: Term,
    axes: Vec<usize>,
}

/// Matches a product with a centred factor and the inverse of its deviation, and nothing else.
pub(super) fn layer_norm(terms: &Terms<'_>, term: &Term) -> Option<Found> {
    let factors = terms.factors(term);
    let [a, b] = &factors[..] else { return None };
    let (centered, deviation) = match (a.inverted, b.inverted) {
        (false, true) => (&a.term, &b.term),
        (true, false) => (&b.term, &a.term),
        _ => return None,
    };
    let centered = centre(terms, centered)?;
    let epsilon = deviation_of(terms, deviation, &centered)?;
    found(terms, centered, epsilon)
}

fn found(terms: &Terms<'_>, centered: Centered, epsilon: f64) -> Option<Found> {
    let count = count_of(terms.shape, &centered.axes)?;
    let ty = TensorType::new(terms.dtype(&centered.x)?, terms.shape.to_vec());
    let composite = composite(&terms.graph.symbols, &ty, &centered.axes, count, epsilon);
    Some(Found::alone(composite, centered.x))
}

/// Matches `x·a + (β − μ·a)` with `a = γ/√(σ² + ε)`, which is `norm(x)·γ + β`.
pub(super) fn spread_norm(terms: &Terms<'_>, term: &Term) -> Option<Found> {
    terms.either(term, BinaryOp::Add).into_iter().find_map(|(product, rest)| {
        let (beta, shift) = terms.binary(&rest, BinaryOp::Sub)?;
        let factors = terms.factors(&product);
        let shifts = terms.factors(&shift);
        // Without what both have, x is left of the product, and of the shift the mean in its place: a sum and numbers.
        let x = single(&factors, &shifts)?;
        let mean: Vec<Factor> = shifts.iter().filter(|f| !factors.contains(f)).cloned().collect();
        if shifts.len() - mean.len() != factors.len() - 1 {
            return None;
        }
        let average = Averaged::of_factors(terms, mean)?;
        if !matches!(&average.what, What::Itself(y) if *y == x.term) {
            return None;
        }
        let centered = Centered { x: x.term.clone(), axes: average.axes };
        let (at, epsilon) = factors.iter().enumerate().find_map(|(n, f)| {
            let epsilon = f.inverted.then(|| deviation_of(terms, &f.term, &centered))??;
            Some((n, epsilon))
        })?;
        let gamma: Vec<&Factor> =
            factors.iter().enumerate().filter(|(n, f)| *n != at && *f != x).map(|(_, f)| f).collect();
        if gamma.iter().any(|f| f.inverted) {
            return None;
        }
        let gamma = gamma.into_iter().map(|f| f.term.clone()).collect();
        Some(Found { times: gamma, plus: Some(beta), ..found(terms, centered, epsilon)? })
    })
}

/// The only factor of `a` that `b` does not have; it must not divide.
fn single<'f>(a: &'f [Factor], b: &[Factor]) -> Option<&'f Factor> {
    let mut only = a.iter().filter(|f| !b.contains(f));
    match (only.next(), only.next()) {
        (Some(f), None) if !f.inverted => Some(f),
        _ => None,
    }
}

fn centre(terms: &Terms<'_>, term: &Term) -> Option<Centered> {
    let (x, mean) = terms.binary(term, BinaryOp::Sub)?;
    let axes = mean_of(terms, &mean, &x)?;
    Some(Centered { x, axes })
}

/// ε, if the term is `√(mean (x − μ)² + ε)`.
fn deviation_of(terms: &Terms<'_>, term: &Term, centered: &Centered) -> Option<f64> {
    let radicand = terms.root(term)?;
    terms.either(&radicand, BinaryOp::Add).into_iter().find_map(|(variance, epsilon)| {
        let epsilon = terms.number(&epsilon)?;
        let square = Averaged::of(terms, &variance)?;
        if square.axes != centered.axes {
            return None;
        }
        let same = match square.what {
            What::Square(term) => is_centered(terms, &term, centered),
            What::Itself(term) => is_centered(terms, &terms.square(&term)?, centered),
        };
        same.then_some(epsilon)
    })
}

fn is_centered(terms: &Terms<'_>, term: &Term, centered: &Centered) -> bool {
    terms
        .binary(term, BinaryOp::Sub)
        .is_some_and(|(x, mean)| x == centered.x && mean_of(terms, &mean, &x).as_ref() == Some(&centered.axes))
}

/// The axes, if the term is the mean of `x` over them.
fn mean_of(terms: &Terms<'_>, term: &Term, x: &Term) -> Option<Vec<usize>> {
    let average = Averaged::of(terms, term)?;
    matches!(average.what, What::Itself(y) if y == *x).then_some(average.axes)
}

enum What {
    Itself(Term),
    Square(Term),
}

/// A mean, spread back over the axes that it was taken over.
struct Averaged {
    what: What,
    axes: Vec<usize>,
}

impl Averaged {
    fn of(terms: &Terms<'_>, term: &Term) -> Option<Self> {
        Self::of_factors(terms, terms.factors(term))
    }

    fn of_factors(terms: &Terms<'_>, factors: Vec<Factor>) -> Option<Self> {
        let (factors, by) = terms.without_numbers(factors);
        let [Factor { term: sum, inverted: false }] = &factors[..] else { return None };
        let (input, reduce) = terms.spread_reduction(sum)?;
        if reduce.reducer.as_binary() != Some(BinaryOp::Add) {
            return None;
        }
        let [element] = reduce.elements[..] else { return None };
        // Importers may scale or square on the way into the sum.
        let number = |id| match reduce.body.ops[id] {
            ScalarOp::Const(c) => Some(c.to_f64()),
            _ => None,
        };
        let (element, inner) = match reduce.body.ops[element] {
            ScalarOp::Binary(BinaryOp::Mul, a, b) if number(b).is_some() => (a, number(b)?),
            ScalarOp::Binary(BinaryOp::Div, a, b) if number(b).is_some() => (a, 1.0 / number(b)?),
            _ => (element, 1.0),
        };
        let of = terms.of_value(input);
        let what = match reduce.body.ops[element] {
            ScalarOp::Param(0, _) => What::Itself(of),
            ScalarOp::Binary(BinaryOp::Mul, a, b) if a == b && matches!(reduce.body.ops[a], ScalarOp::Param(0, _)) => {
                What::Square(of)
            }
            _ => return None,
        };
        let count = count_of(terms.shape, &reduce.axes)?;
        close(by * inner * count as f64, 1.0).then(|| Self { what, axes: reduce.axes.clone() })
    }
}
