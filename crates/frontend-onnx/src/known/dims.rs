//! Arithmetic on known integers that depend on symbols.

use crate::build::check_complexity;
use crate::truth;
use infc_ir::index::{Dim, Proof, Ranges};
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};

/// How far the arithmetic goes.
#[derive(Clone, Copy)]
pub(crate) struct Folding<'a> {
    /// What is known of symbols.
    pub(crate) ranges: &'a Ranges,
    /// Also what needs choices, which make long expressions: worth it only for what ends in a shape.
    pub(crate) choices: bool,
}

impl Folding<'_> {
    fn at_least(self, dim: &Dim, value: i64) -> bool {
        self.ranges.interval(dim).min.is_some_and(|min| min >= value)
    }

    pub(super) fn unary(self, op: UnaryOp, a: &Dim) -> Option<Dim> {
        match op {
            UnaryOp::Neg => Some(a.scale(-1)),
            UnaryOp::Abs if self.at_least(a, 0) => Some(a.clone()),
            UnaryOp::Sign if self.at_least(a, 1) => Some(Dim::constant(1)),
            UnaryOp::Abs if self.choices => self.limited(&truth::magnitude(a)),
            UnaryOp::Sign if self.choices => self.limited(&truth::sign(a)),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => Some(a.clone()),
            _ => None,
        }
    }

    /// `None` also if the expression would grow beyond what is worked with.
    pub(super) fn binary(self, op: BinaryOp, a: &Dim, b: &Dim) -> Option<Dim> {
        self.binary_unlimited(op, a, b).filter(|d| check_complexity(d).is_ok())
    }

    fn binary_unlimited(self, op: BinaryOp, a: &Dim, b: &Dim) -> Option<Dim> {
        // A divisor that turns out to be 0 makes a size without value, which is an error before anything runs.
        let divisor = self.at_least(b, 0) && !b.is_const(0);
        let whole = self.at_least(a, 0);
        match op {
            BinaryOp::Add => Some(a.clone() + b.clone()),
            BinaryOp::Sub => Some(a.clone() - b.clone()),
            BinaryOp::Mul => Some(a.clone() * b.clone()),
            // Truncation is flooring only for numbers that are not negative.
            BinaryOp::Div if divisor && whole => Some(a.floor_div(b)),
            BinaryOp::Mod if divisor && (whole || self.choices) => Some(a.modulo(b)),
            BinaryOp::Rem if divisor && whole => Some(a.modulo(b)),
            BinaryOp::Div if divisor && self.choices => Some(truncated(a, b)),
            BinaryOp::Rem if divisor && self.choices => Some(a.clone() - truncated(a, b) * b.clone()),
            BinaryOp::Min => Some(a.minimum(b).simplify(self.ranges)),
            BinaryOp::Max => Some(a.maximum(b).simplify(self.ranges)),
            _ => None,
        }
    }

    pub(super) fn compare(self, op: CompareOp, a: &Dim, b: &Dim) -> Option<Dim> {
        let decided = match op {
            CompareOp::Eq | CompareOp::Ne => self.ranges.eq(a, b),
            CompareOp::Lt | CompareOp::Ge => self.ranges.lt(a, b),
            CompareOp::Gt | CompareOp::Le => self.ranges.lt(b, a),
        };
        let truth = match (decided, op) {
            (Proof::Yes, _) => Dim::constant(1),
            (Proof::No, _) => Dim::constant(0),
            (Proof::Unknown, _) if !self.choices => return None,
            (Proof::Unknown, CompareOp::Eq | CompareOp::Ne) => truth::equal(a, b),
            (Proof::Unknown, CompareOp::Lt | CompareOp::Ge) => truth::less(a, b),
            (Proof::Unknown, CompareOp::Gt | CompareOp::Le) => truth::less(b, a),
        };
        let negated = matches!(op, CompareOp::Ne | CompareOp::Ge | CompareOp::Le);
        self.limited(&if negated { truth::not(&truth) } else { truth })
    }

    /// `a` where a truth holds, else `b`.
    pub(super) fn select(self, truth: &Dim, a: &Dim, b: &Dim) -> Option<Dim> {
        if self.choices { self.limited(&truth::either(truth, a, b)) } else { None }
    }

    /// Of two truths.
    pub(super) fn logic(self, op: BinaryOp, a: &Dim, b: &Dim) -> Option<Dim> {
        if !self.choices {
            return None;
        }
        match op {
            BinaryOp::And => self.limited(&(a.clone() * b.clone())),
            BinaryOp::Or => self.limited(&a.maximum(b)),
            BinaryOp::Xor => self.limited(&truth::magnitude(&(a.clone() - b.clone()))),
            _ => None,
        }
    }

    fn limited(self, dim: &Dim) -> Option<Dim> {
        let dim = dim.simplify(self.ranges);
        check_complexity(&dim).is_ok().then_some(dim)
    }
}

/// The quotient rounded toward zero, by a positive divisor.
fn truncated(a: &Dim, b: &Dim) -> Dim {
    let zero = Dim::constant(0);
    a.maximum(&zero).floor_div(b) - a.scale(-1).maximum(&zero).floor_div(b)
}
