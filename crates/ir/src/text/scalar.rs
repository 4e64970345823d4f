//! Scalar expressions, blocks (`let` bindings and results) and folds.
//!
//! Numbers are typed by what they meet: in `x[i] * 2` the 2 has the type of `x`. Where nothing says the type, it is
//! written as a conversion of the number: `f32(2)`.

mod expr;
mod fold;
mod grammar;
mod literal;
mod ops;
mod plan;
mod print;

pub(super) use fold::{FoldText, parse_reducer};
pub(super) use grammar::{Env, SourceRef};
pub(super) use literal::constant_text;
pub(super) use plan::ordered;
pub(super) use print::{Block, Printer};
