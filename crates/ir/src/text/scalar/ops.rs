//! How scalar operations are called.

use crate::scalar::{BinaryOp, CompareOp, UnaryOp};

/// Functions of one argument. `neg` and `not` are also written `-` and `!`.
const UNARY: [(&str, UnaryOp); 30] = [
    ("neg", UnaryOp::Neg),
    ("abs", UnaryOp::Abs),
    ("sign", UnaryOp::Sign),
    ("not", UnaryOp::Not),
    ("sqrt", UnaryOp::Sqrt),
    ("recip", UnaryOp::Reciprocal),
    ("exp", UnaryOp::Exp),
    ("log", UnaryOp::Log),
    ("sin", UnaryOp::Sin),
    ("cos", UnaryOp::Cos),
    ("tan", UnaryOp::Tan),
    ("asin", UnaryOp::Asin),
    ("acos", UnaryOp::Acos),
    ("atan", UnaryOp::Atan),
    ("sinh", UnaryOp::Sinh),
    ("cosh", UnaryOp::Cosh),
    ("asinh", UnaryOp::Asinh),
    ("acosh", UnaryOp::Acosh),
    ("atanh", UnaryOp::Atanh),
    ("tanh", UnaryOp::Tanh),
    ("sigmoid", UnaryOp::Sigmoid),
    ("erf", UnaryOp::Erf),
    ("floor", UnaryOp::Floor),
    ("ceil", UnaryOp::Ceil),
    ("trunc", UnaryOp::Trunc),
    ("round", UnaryOp::Round),
    ("tf32", UnaryOp::Tf32),
    ("is_nan", UnaryOp::IsNan),
    ("is_inf", UnaryOp::IsInf),
    // The mathematician's name, understood but never printed.
    ("ln", UnaryOp::Log),
];

/// Functions of two arguments; the other binary operations are operators.
const BINARY: [(&str, BinaryOp); 4] =
    [("min", BinaryOp::Min), ("max", BinaryOp::Max), ("rem", BinaryOp::Rem), ("pow", BinaryOp::Pow)];

/// An operator between two operands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Infix {
    Binary(BinaryOp),
    Compare(CompareOp),
}

/// Operators with their binding strength.
const INFIX: [(&str, Infix, u8); 16] = [
    ("==", Infix::Compare(CompareOp::Eq), 4),
    ("!=", Infix::Compare(CompareOp::Ne), 4),
    ("<", Infix::Compare(CompareOp::Lt), 4),
    ("<=", Infix::Compare(CompareOp::Le), 4),
    (">", Infix::Compare(CompareOp::Gt), 4),
    (">=", Infix::Compare(CompareOp::Ge), 4),
    ("|", Infix::Binary(BinaryOp::Or), 1),
    ("^", Infix::Binary(BinaryOp::Xor), 2),
    ("&", Infix::Binary(BinaryOp::And), 3),
    ("<<", Infix::Binary(BinaryOp::Shl), 5),
    (">>", Infix::Binary(BinaryOp::Shr), 5),
    ("+", Infix::Binary(BinaryOp::Add), 6),
    ("-", Infix::Binary(BinaryOp::Sub), 6),
    ("*", Infix::Binary(BinaryOp::Mul), 7),
    ("/", Infix::Binary(BinaryOp::Div), 7),
    ("%", Infix::Binary(BinaryOp::Mod), 7),
];

/// Binding strength of `-x` and `!x`.
pub(super) const PREFIX_LEVEL: u8 = 8;

pub(super) fn unary_named(name: &str) -> Option<UnaryOp> {
    UNARY.iter().find(|(n, _)| *n == name).map(|(_, op)| *op)
}

pub(super) fn unary_name(op: UnaryOp) -> &'static str {
    UNARY.iter().find(|(_, o)| *o == op).expect("every operation has a name").0
}

pub(super) fn binary_named(name: &str) -> Option<BinaryOp> {
    BINARY.iter().find(|(n, _)| *n == name).map(|(_, op)| *op)
}

pub(super) fn infix_named(text: &str) -> Option<(Infix, u8)> {
    INFIX.iter().find(|(t, _, _)| *t == text).map(|(_, op, level)| (*op, *level))
}

/// How a binary operation prints: as an operator with a binding strength, or as a function.
pub(super) fn binary_text(op: BinaryOp) -> (&'static str, Option<u8>) {
    match INFIX.iter().find(|(_, o, _)| *o == Infix::Binary(op)) {
        Some((text, _, level)) => (text, Some(*level)),
        None => (BINARY.iter().find(|(_, o)| *o == op).expect("every operation has a name").0, None),
    }
}

pub(super) fn compare_text(op: CompareOp) -> (&'static str, u8) {
    let (text, _, level) =
        INFIX.iter().find(|(_, o, _)| *o == Infix::Compare(op)).expect("every comparison has a name");
    (text, *level)
}
