//! What symbols stand for where a kernel is measured.

use infc_ir::entity::SymbolId;
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel};

/// Sizes of symbolic extents, within their ranges: the first is what the default choice takes for them, the others are for
/// kernels that cannot be measured so, or take too long.
pub(super) const TYPICAL: [i64; 4] = [64, 16, 4, 1];

/// Values of a kernel's symbols, each of this size where its range allows that, or else what is nearest, but not 0. A batch is
/// one: that is what most runs have, and large ones run in slices.
pub(super) fn typical(kernel: &Kernel, size: i64) -> Vec<i64> {
    let batch = batch(kernel);
    let of = |id: SymbolId| if Some(id) == batch { 1 } else { size };
    let symbols = kernel.symbols.iter_enumerated();
    symbols.map(|(id, symbol)| symbol.max.map_or(of(id), |max| max.min(of(id))).max(symbol.min).max(1)).collect()
}

/// The symbol that is probably a batch: that of the first axis of results with two more axes at least, or of rows in which
/// it stands together with what else is counted. A sequence alone looks like rows, too, so a symbol of a matrix is none.
fn batch(kernel: &Kernel) -> Option<SymbolId> {
    let steps: Vec<SymbolId> = kernel
        .stages
        .iter()
        .flat_map(|stage| &stage.axes)
        .filter(|axis| axis.kind == AxisKind::Sequential)
        .flat_map(|axis| axis.extent.symbols())
        .collect();
    let first = |shape: &[IndexExpr]| {
        let rows = shape.first()?;
        let is_sure = rows.as_symbol().is_none() || shape.len() > 2;
        // The model has its batch first.
        rows.symbols().into_iter().min().filter(|_| is_sure)
    };
    let of_outputs = kernel.outputs.iter().find_map(|output| first(&kernel.operands[output.operand].shape));
    of_outputs.filter(|symbol| !steps.contains(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(shape: &str, ranges: &str, size: i64) -> Vec<i64> {
        let axes: Vec<String> = shape.split(", ").enumerate().map(|(n, extent)| format!("a{n}: {extent}")).collect();
        let index: Vec<String> = (0..axes.len()).map(|n| format!("a{n}")).collect();
        let (axes, index) = (axes.join(", "), index.join(", "));
        let text = format!(
            "kernel @\"\"(x: f32[{shape}]) -> (y: f32[{shape}]) where {ranges} {{\n  stage o[{axes}] = x[{index}]\n  \
             output y[{index}] = o[{index}]\n}}\n"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        typical(&kernel, size)
    }

    /// A kernel of symbolic extents is measured for those that its default choice has in mind.
    #[test]
    fn typical_extents_lie_within_their_ranges() {
        let ranges = "N in 1.., M in 0..=16, K in 100..";
        assert_eq!(values("N", ranges, TYPICAL[0]), [64, 16, 100]);
        assert_eq!(values("N", ranges, TYPICAL[3]), [1, 1, 100]);
    }

    /// Most runs have a batch of one.
    #[test]
    fn batches_are_one() {
        let both = "B in 1.., S in 1..";
        for (shape, ranges, expected) in [
            // Images, sequences, rows of both, rows of a known sequence.
            ("B, 8, S, S", both, vec![1, 64]),
            ("B, S, 8", both, vec![1, 64]),
            ("B * S, 8", both, vec![1, 64]),
            ("197*B, 8", "B in 1..", vec![1]),
            ("B, 8, 8", "B in 3..", vec![3]),
            // Rows that may be a sequence.
            ("S, 8", "S in 1..", vec![64]),
        ] {
            assert_eq!(values(shape, ranges, 64), expected, "{shape}");
        }
    }

    /// The first axis of what is computed step by step is time.
    #[test]
    fn steps_are_no_batch() {
        let text = "kernel @\"\"(x: f32[T, 1, 8]) -> (y: f32[T, 1, 8]) where T in 1.. {\n  stage s[seq t: T, n: 1, c: 8]: f32 = \
                    (s[t - 1, n, c] if 1 <= t < T else 0) + x[t, n, c]\n  output y[t, n, c] = s[t, n, c]\n}\n";
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(typical(&kernel, 64), [64]);
    }
}
