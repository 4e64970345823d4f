//! GELU: `x/2·(1 + erf(x/√2))` and `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, factors in any order and grouping.

use super::{Found, close};
use crate::graph::composites::{GELU_CUBIC, GeluForm, gelu as composite};
use crate::graph::term::{Factor, Term, Terms};
use infc_ir::graph::TensorType;
use infc_ir::scalar::{BinaryOp, UnaryOp};

/// Matches a product of x, ½ and one plus the function.
pub(super) fn gelu(terms: &Terms<'_>, term: &Term) -> Option<Found> {
    let (factors, by) = terms.scaled(term);
    if !close(by, 0.5) {
        return None;
    }
    let [a, b] = &factors[..] else { return None };
    if a.inverted || b.inverted {
        return None;
    }
    let try_both = [(&a.term, &b.term), (&b.term, &a.term)];
    let (x, form) = try_both.into_iter().find_map(|(x, sum)| Some((x, form_of(terms, x, sum)?)))?;
    let ty = TensorType::new(terms.dtype(x)?, terms.shape.to_vec());
    Some(Found::alone(composite(&terms.graph.symbols, &ty, form), x.clone()))
}

/// The form, if the term is one plus GELU's function of x.
fn form_of(terms: &Terms<'_>, x: &Term, sum: &Term) -> Option<GeluForm> {
    terms.either(sum, BinaryOp::Add).into_iter().find_map(|(function, one)| {
        if terms.number(&one)? != 1.0 {
            return None;
        }
        if let Some(argument) = terms.unary(&function, UnaryOp::Erf) {
            let (factors, by) = terms.scaled(&argument);
            return (is_product_of(&factors, &[x]) && close(by, std::f64::consts::FRAC_1_SQRT_2))
                .then_some(GeluForm::Erf);
        }
        let argument = terms.unary(&function, UnaryOp::Tanh)?;
        is_tanh_argument(terms, &argument, x).then_some(GeluForm::Tanh)
    })
}

/// `√(2/π)·(x + c·x³)`, or `√(2/π)·x·(1 + c·x²)`.
fn is_tanh_argument(terms: &Terms<'_>, argument: &Term, x: &Term) -> bool {
    let (factors, by) = terms.scaled(argument);
    if !close(by, (2.0 / std::f64::consts::PI).sqrt()) {
        return false;
    }
    match &factors[..] {
        [Factor { term: sum, inverted: false }] => terms
            .either(sum, BinaryOp::Add)
            .into_iter()
            .any(|(linear, cubic)| linear == *x && is_power(terms, &cubic, x, 3)),
        [a, b] if !a.inverted && !b.inverted => [(a, b), (b, a)].into_iter().any(|(first, sum)| {
            first.term == *x
                && terms
                    .either(&sum.term, BinaryOp::Add)
                    .into_iter()
                    .any(|(one, square)| terms.number(&one) == Some(1.0) && is_power(terms, &square, x, 2))
        }),
        _ => false,
    }
}

/// `0.044715·xⁿ`, as a product or a power.
fn is_power(terms: &Terms<'_>, term: &Term, x: &Term, n: usize) -> bool {
    let (factors, by) = terms.scaled(term);
    if !close(by, GELU_CUBIC) {
        return false;
    }
    let power = match &factors[..] {
        [Factor { term, inverted: false }] => terms
            .binary(term, BinaryOp::Pow)
            .is_some_and(|(base, exponent)| base == *x && terms.number(&exponent) == Some(n as f64)),
        _ => false,
    };
    power || is_product_of(&factors, &vec![x; n])
}

fn is_product_of(factors: &[Factor], terms: &[&Term]) -> bool {
    factors.len() == terms.len() && factors.iter().zip(terms).all(|(f, t)| !f.inverted && f.term == **t)
}
