//! Softmax: `exp(x − max x) / Σ exp(x − max x)`.

use super::Found;
use crate::graph::composites::{folds_input_itself, softmax as composite};
use crate::graph::term::{Term, Terms};
use infc_ir::graph::TensorType;
use infc_ir::scalar::{BinaryOp, UnaryOp};

/// Matches a quotient, or a product with a reciprocal.
pub(super) fn softmax(terms: &Terms<'_>, term: &Term) -> Option<Found> {
    let factors = terms.factors(term);
    let (exp, sum) = match &factors[..] {
        [a, b] if !a.inverted && b.inverted => (&a.term, &b.term),
        [a, b] if a.inverted && !b.inverted => (&b.term, &a.term),
        _ => return None,
    };
    let (input, reduce) = terms.spread_reduction(sum)?;
    if reduce.reducer.as_binary() != Some(BinaryOp::Add) || !folds_input_itself(reduce) {
        return None;
    }
    // The sum is over the same exponentials, whether the same node computes them or another.
    let (x, axes) = shifted_exp(terms, exp)?;
    let (y, summed) = shifted_exp(terms, &terms.of_value(input))?;
    if x != y || axes != reduce.axes || summed != axes {
        return None;
    }
    let dtype = terms.graph.ty(input).dtype;
    let ty = TensorType::new(dtype, terms.shape.to_vec());
    Some(Found::alone(composite(&terms.graph.symbols, &ty, &axes), x))
}

/// `x` and the axes, if the term is `exp(x − max x)`.
fn shifted_exp(terms: &Terms<'_>, term: &Term) -> Option<(Term, Vec<usize>)> {
    let (x, max) = terms.binary(&terms.unary(term, UnaryOp::Exp)?, BinaryOp::Sub)?;
    let (input, reduce) = terms.spread_reduction(&max)?;
    let folds_max = reduce.reducer.as_binary() == Some(BinaryOp::Max) && folds_input_itself(reduce);
    (folds_max && terms.of_value(input) == x).then(|| (x, reduce.axes.clone()))
}
