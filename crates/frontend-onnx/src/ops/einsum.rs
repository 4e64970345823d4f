//! Einsum: sums of products named by index letters, as contractions.
//!
//! Operands are multiplied from left to right; a letter is summed over as soon as nothing to the right and no axis of
//! the result has it.

use super::Operator;
use crate::build::{Builder, Result, compute_type, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::BinaryOp;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Einsum", 12, einsum)];

/// What an axis is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// An axis of `...`, counted from the last one; the first axes come first in order.
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// A value with the names of its axes, each once.
#[derive(Clone)]
struct Operand {
    value: Tracked,
    labels: Vec<Label>,
}

fn invalid(equation: &str, expected: &'static str) -> Problem {
    Problem::InvalidAttribute { attribute: "equation", expected, found: format!("`{equation}`") }
}

fn einsum(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let inputs = call.variadic()?;
    let equation: String = call.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != inputs.len() {
        return Err(invalid(&equation, "one term per input"));
    }
    let mut ellipsis = 0;
    let mut operands = Vec::new();
    for (term, value) in terms.iter().zip(&inputs) {
        let letters = term.replace("...", "").chars().count();
        let dots = value.rank().checked_sub(letters).ok_or_else(|| invalid(&equation, "a letter per axis"))?;
        ellipsis = ellipsis.max(dots);
        let labels = labels(&equation, term, dots)?;
        if labels.len() != value.rank() {
            return Err(invalid(&equation, "a letter per axis"));
        }
        operands.push(Operand { value: value.clone(), labels });
    }
    let result = match right {
        Some(term) => labels(&equation, term, ellipsis)?,
        None => implied(&operands),
    };
    let known = |l: &Label| operands.iter().any(|o| o.labels.contains(l));
    if !result.iter().all(known) || (1..result.len()).any(|n| result[..n].contains(&result[n])) {
        return Err(invalid(&equation, "letters of the inputs in the result, each once"));
    }
    let build = &mut *call.build;
    let extents = extents(build, &operands)?;
    let mut rest: Vec<Operand> = Vec::new();
    for operand in operands {
        rest.push(diagonal(build, operand, &extents)?);
    }
    let mut product = summed(build, rest.remove(0), &rest, &result)?;
    while !rest.is_empty() {
        let next = rest.remove(0);
        let mut both = rest.clone();
        both.push(product.clone());
        let next = summed(build, next, &both, &result)?;
        product = multiplied(build, &product, &next, &rest, &result)?;
    }
    Ok(vec![arranged(build, &product, &result, &extents)?])
}

/// The axes of one term, of which `dots` stand for the ellipsis.
fn labels(equation: &str, term: &str, dots: usize) -> Result<Vec<Label>> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let mut labels: Vec<Label> = before.chars().map(Label::Letter).collect();
    if let Some(after) = after {
        labels.extend((0..dots).rev().map(|n| Label::Ellipsis(std::cmp::Reverse(n))));
        labels.extend(after.chars().map(Label::Letter));
    }
    if labels.iter().any(|l| matches!(l, Label::Letter(c) if !c.is_alphabetic())) {
        return Err(invalid(equation, "letters, `,`, `...` and `->`"));
    }
    Ok(labels)
}

/// The result that no arrow says: the ellipsis, then the letters that occur once, in alphabetical order.
fn implied(operands: &[Operand]) -> Vec<Label> {
    let mut all: Vec<Label> = operands.iter().flat_map(|o| o.labels.iter().copied()).collect();
    all.sort_unstable();
    let once = |l: &Label| matches!(l, Label::Ellipsis(_)) || all.iter().filter(|o| *o == l).count() == 1;
    let mut result: Vec<Label> = all.iter().copied().filter(once).collect();
    result.dedup();
    result
}

/// The extent of every label; axes of extent 1 broadcast.
fn extents(build: &mut Builder, operands: &[Operand]) -> Result<Vec<(Label, Dim)>> {
    let mut extents: Vec<(Label, Dim)> = Vec::new();
    for (label, extent) in operands.iter().flat_map(|o| o.labels.iter().zip(o.value.shape())) {
        match extents.iter_mut().find(|(l, _)| l == label) {
            None => extents.push((*label, extent.clone())),
            Some((_, known)) if known.is_const(1) => *known = extent.clone(),
            Some((_, known)) if !extent.is_const(1) => {
                build.require_equal("the extents of axes with one letter", known, extent)?;
            }
            Some(_) => {}
        }
    }
    Ok(extents)
}

/// The operand with every label once: a letter that occurs twice walks the diagonal, and axes that broadcast go.
fn diagonal(build: &mut Builder, operand: Operand, extents: &[(Label, Dim)]) -> Result<Operand> {
    let Operand { value, labels } = operand;
    let broadcasts =
        |n: usize| value.shape()[n].is_const(1) && extents.iter().any(|(l, e)| *l == labels[n] && !e.is_const(1));
    let mut kept: Vec<Label> = Vec::new();
    let mut shape: Vec<Dim> = Vec::new();
    let mut index: Vec<IndexExpr> = Vec::new();
    for (n, label) in labels.iter().enumerate() {
        if broadcasts(n) {
            index.push(IndexExpr::constant(0));
            continue;
        }
        let at = kept.iter().position(|l| l == label).unwrap_or_else(|| {
            kept.push(*label);
            shape.push(value.shape()[n].clone());
            kept.len() - 1
        });
        index.push(var(at));
    }
    Ok(Operand { value: build.view(&value, index, shape)?, labels: kept })
}

/// The operand without the axes that neither the others nor the result have.
fn summed(build: &mut Builder, operand: Operand, others: &[Operand], result: &[Label]) -> Result<Operand> {
    let needed = |l: &Label| result.contains(l) || others.iter().any(|o| o.labels.contains(l));
    let axes: Vec<usize> = (0..operand.labels.len()).filter(|&n| !needed(&operand.labels[n])).collect();
    if axes.is_empty() {
        return Ok(operand);
    }
    let dtype = operand.value.dtype();
    let wide = compute_type(dtype);
    let sum = build.reduce(&[&operand.value], &axes, Reducer::sum(wide), |body, p| vec![body.cast(wide, p[0])])?;
    let labels = operand.labels.into_iter().filter(needed).collect();
    Ok(Operand { value: build.cast(&sum[0], dtype)?, labels })
}

/// The product of two operands, summed over what nothing else needs.
fn multiplied(build: &mut Builder, a: &Operand, b: &Operand, others: &[Operand], result: &[Label]) -> Result<Operand> {
    let mut all: Vec<Label> = a.labels.clone();
    all.extend(b.labels.iter().filter(|l| !a.labels.contains(l)));
    let number = |l: &Label| all.iter().position(|o| o == l).map_or(0, |n| n as u8);
    let numbers = |labels: &[Label]| labels.iter().map(number).collect::<Vec<u8>>();
    let needed = |l: &&Label| result.contains(l) || others.iter().any(|o| o.labels.contains(l));
    let labels: Vec<Label> = all.iter().filter(needed).copied().collect();
    if labels.len() == all.len() {
        // Nothing is summed: a product of elements.
        let spread = |build: &mut Builder, o: &Operand| -> Result<Tracked> {
            let index = o.labels.iter().map(|l| var(usize::from(number(l)))).collect();
            let extent = |l: &Label| {
                let of = |o: &Operand| o.labels.iter().position(|m| m == l).map(|n| o.value.shape()[n].clone());
                of(a).or_else(|| of(b)).unwrap_or_default()
            };
            build.view(&o.value, index, all.iter().map(extent).collect())
        };
        let (x, y) = (spread(build, a)?, spread(build, b)?);
        let value = build.compute(&[&x, &y], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?;
        return Ok(Operand { value, labels });
    }
    let value = build.contract((&a.value, &numbers(&a.labels)), (&b.value, &numbers(&b.labels)), &numbers(&labels))?;
    Ok(Operand { value, labels })
}

/// The axes in the order of the result.
fn arranged(build: &mut Builder, x: &Operand, result: &[Label], extents: &[(Label, Dim)]) -> Result<Tracked> {
    let position = |l: &Label| result.iter().position(|r| r == l).map_or_else(IndexExpr::default, var);
    let index = x.labels.iter().map(position).collect();
    let extent = |l: &Label| extents.iter().find(|(m, _)| m == l).map_or_else(Dim::default, |(_, e)| e.clone());
    build.view(&x.value, index, result.iter().map(extent).collect())
}
