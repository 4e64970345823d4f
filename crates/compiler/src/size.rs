//! Dims as the artifact's size expressions.

use crate::CompileError;
use infc_artifact::SizeExpr;
use infc_ir::entity::EntityId;
use infc_ir::index::{Atom, Dim};

/// The size that a dim is, symbols by their number.
///
/// # Errors
/// [`CompileError::Size`] if it has index variables (which no dim has) or exceeds the format's limits.
pub(crate) fn size(dim: &Dim) -> Result<SizeExpr, CompileError> {
    convert(dim, 0).ok_or_else(|| CompileError::Size { expr: dim.to_string() })
}

/// A dim in units of `bytes` each.
pub(crate) fn size_bytes(dim: &Dim, bytes: usize) -> Result<SizeExpr, CompileError> {
    size(&dim.scale(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

const MAX_DEPTH: usize = 64;

fn convert(dim: &Dim, depth: usize) -> Option<SizeExpr> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut sum = SizeExpr::constant(dim.constant_part());
    for term in dim.terms() {
        let mut product = SizeExpr::constant(term.coefficient);
        for atom in &term.atoms {
            product = product * convert_atom(atom, depth)?;
        }
        sum = sum + product;
    }
    // What the format cannot hold is refused here, with a name, rather than when the file is put together.
    SizeExpr::from_ops(&sum.ops())
}

fn convert_atom(atom: &Atom, depth: usize) -> Option<SizeExpr> {
    let both = |p: &(Dim, Dim)| Some((convert(&p.0, depth + 1)?, convert(&p.1, depth + 1)?));
    Some(match atom {
        Atom::Symbol(symbol) => SizeExpr::symbol(u32::try_from(symbol.index()).ok()?),
        Atom::Var(_) => return None,
        Atom::FloorDiv(p) => both(p).map(|(a, b)| a.floor_div(b))?,
        Atom::Mod(p) => both(p).map(|(a, b)| a.modulo(b))?,
        Atom::Min(p) => both(p).map(|(a, b)| a.min(b))?,
        Atom::Max(p) => both(p).map(|(a, b)| a.max(b))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::entity::SymbolId;

    #[test]
    fn sizes_have_the_values_of_their_dims() {
        let (n, m) = (Dim::symbol(SymbolId(0)), Dim::symbol(SymbolId(1)));
        let dim = (n.clone() * m.clone() + 7).floor_div(&Dim::constant(3)) + n.clone().maximum(&m).scale(-2) + 100;
        let size = size(&dim).expect("a size");
        for (a, b) in [(0, 1), (5, 9), (12, 3)] {
            let expected = dim.eval(&|s| Some([a, b][s.index()]), &|_| None);
            assert_eq!(size.eval(&[a, b]).ok(), expected);
        }
    }
}
