//! How far rewrites may move results: what `--strict` restricts.

/// How far the result of a rewrite, a formulation or a schedule may differ from the original's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// Not at all: the same bits.
    Exact,
    /// By another order of floating-point operations, and by what is too small for a sum to show it.
    Reassociating,
}
