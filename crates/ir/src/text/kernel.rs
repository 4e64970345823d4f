//! Kernels as text.

mod layout;
mod parse;
mod print;

pub(super) use parse::parse_where;
pub(super) use print::Where;
