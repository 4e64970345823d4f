//! Outputs in the memory of an input, most of which stay what they were.
//!
//! `y[i] = select(c[i], new[i], x[i])` in the memory of `x` need be written only where `c` holds. Nests ask that once in
//! front of all loops on which `c` does not depend, so that a row of a cache that nobody replaces costs a comparison; where
//! `c` says between which coordinates an axis is replaced, they walk these alone.

use super::{Kernel, Output, Stage};
use crate::entity::{EntityId, OperandId, ScalarId, StageId, VarId};
use crate::index::IndexExpr;
use crate::scalar::{BinaryOp, CompareOp, Load, ScalarOp, Source};
use infc_tensor::DType;

/// When an element of an output in the memory of an input is another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// A condition of the stage's body.
    pub condition: ScalarId,
    /// What the condition is where the element is replaced.
    pub when: bool,
}

impl Kernel {
    /// When the elements of a stage that is written onto an input, and nowhere else, are replaced; `None` if the stage does
    /// not say so.
    #[must_use]
    pub fn replaced(&self, stage: StageId) -> Option<Replaced> {
        let mut outputs = self.outputs.iter().filter(|output| output.stage == stage);
        let (Some(output), None) = (outputs.next(), outputs.next()) else { return None };
        let (stage, onto) = (&self.stages[stage], output.onto?);
        let result = *stage.results.get(usize::from(output.component))?;
        let ScalarOp::Select(condition, then, otherwise) = stage.body.ops[result] else { return None };
        let is_old = |id: ScalarId| matches!(&stage.body.ops[id], ScalarOp::Load(load) if stays(output, onto, load));
        match (is_old(then), is_old(otherwise)) {
            (false, true) => Some(Replaced { condition, when: true }),
            (true, false) => Some(Replaced { condition, when: false }),
            _ => None,
        }
    }
}

/// Whether a load of the output's stage reads the element in whose place the result is written.
pub(crate) fn stays(output: &Output, onto: OperandId, load: &Load) -> bool {
    load.source == Source::Operand(onto)
        && load.index == output.index
        && load.gather.is_empty()
        && load.valid.is_empty()
}

/// How deep a condition is looked into: a body may use an operation many times, and a walk comes by each time.
const MAX_DEPTH: u32 = 4;

/// A coordinate that data tells: what operations of a stage's body give, if one is named, and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Of type `i64`.
    pub value: Option<ScalarId>,
    /// What is added to it.
    pub offset: IndexExpr,
}

/// The coordinates along an axis from the largest of some on and below the least of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins; the largest counts.
    pub from: Vec<Told>,
    /// Where it ends; the least counts.
    pub to: Vec<Told>,
}

impl Stage {
    /// The coordinates along an axis for which a condition of the body holds, if it is that one number, the coordinate and
    /// what does not depend on the axis, lies between others, such as `0 <= i - start & i - start < count`.
    #[must_use]
    pub fn span(&self, condition: ScalarId, axis: usize) -> Option<Span> {
        let mut bounds = Vec::new();
        self.bounds(condition, MAX_DEPTH, &mut bounds)?;
        let (number, _) = *bounds.first()?;
        let mut terms = Vec::new();
        let place = self.linear(number, 1, MAX_DEPTH, &mut terms);
        let (step, rest) = place.linear_in(VarId::from_index(axis))?;
        let step = step.as_const().filter(|step| step.abs() == 1)?;
        let value = match terms[..] {
            [] => None,
            [(value, times)] if times == -step && !self.axes_of(value)[axis] => Some(value),
            _ => return None,
        };
        let mut span = Span::default();
        for (other, bound) in bounds {
            let beyond = bound.number().clone() - rest.clone();
            if other != number || beyond.uses_vars() {
                return None;
            }
            // `step·i − step·value` compared with `beyond`: `i` compared with `value + step·beyond`.
            let told = |more: i64| Told { value, offset: beyond.scale(step) + more };
            match (bound, step) {
                (Side::AtLeast(_), 1) => span.from.push(told(0)),
                (Side::AtLeast(_), _) => span.to.push(told(1)),
                (Side::Below(_), 1) => span.to.push(told(0)),
                (Side::Below(_), _) => span.from.push(told(1)),
            }
        }
        // Where a difference has no place in 64 bits, what is computed is far from one of the bounds, as the difference is from
        // the other.
        (!span.from.is_empty() && !span.to.is_empty()).then_some(span)
    }

    /// The bounds that a condition is made of: which number, and of which side; whole numbers alone.
    fn bounds(&self, condition: ScalarId, depth: u32, bounds: &mut Vec<(ScalarId, Side)>) -> Option<()> {
        match self.body.ops[condition] {
            ScalarOp::Binary(BinaryOp::And, a, b) => {
                let depth = depth.checked_sub(1)?;
                self.bounds(a, depth, bounds)?;
                self.bounds(b, depth, bounds)
            }
            ScalarOp::Compare(op, a, b) if self.body.dtype(a) == DType::I64 => {
                let plain = |id: ScalarId| match &self.body.ops[id] {
                    ScalarOp::Index(e) if !e.uses_vars() => Some(e.clone()),
                    _ => None,
                };
                bounds.push(match (op, plain(a), plain(b)) {
                    (CompareOp::Ge, None, Some(n)) => (a, Side::AtLeast(n)),
                    (CompareOp::Gt, None, Some(n)) => (a, Side::AtLeast(n + 1)),
                    (CompareOp::Lt, None, Some(n)) => (a, Side::Below(n)),
                    (CompareOp::Le, None, Some(n)) => (a, Side::Below(n + 1)),
                    (CompareOp::Le, Some(n), None) => (b, Side::AtLeast(n)),
                    (CompareOp::Lt, Some(n), None) => (b, Side::AtLeast(n + 1)),
                    (CompareOp::Gt, Some(n), None) => (b, Side::Below(n)),
                    (CompareOp::Ge, Some(n), None) => (b, Side::Below(n + 1)),
                    _ => return None,
                });
                Some(())
            }
            _ => None,
        }
    }

    /// The part of a sum of `i64` that coordinates tell, times `sign`; the other terms, with theirs, go to `terms`.
    fn linear(&self, id: ScalarId, sign: i64, depth: u32, terms: &mut Vec<(ScalarId, i64)>) -> IndexExpr {
        let deeper = depth.checked_sub(1);
        match (&self.body.ops[id], deeper) {
            (ScalarOp::Index(e), _) => e.scale(sign),
            (ScalarOp::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b), Some(depth)) => {
                let second = if *op == BinaryOp::Add { sign } else { -sign };
                self.linear(*a, sign, depth, terms) + self.linear(*b, second, depth, terms)
            }
            _ => {
                terms.push((id, sign));
                IndexExpr::constant(0)
            }
        }
    }
}

/// A bound of a number, which no coordinate tells.
enum Side {
    AtLeast(IndexExpr),
    Below(IndexExpr),
}

impl Side {
    fn number(&self) -> &IndexExpr {
        match self {
            Self::AtLeast(number) | Self::Below(number) => number,
        }
    }
}
