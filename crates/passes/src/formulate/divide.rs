//! Splits axes that loads take apart.
//!
//! A copy that writes rows of 56 elements one behind the other has one axis for all of them, and reads at its `n div 56` and
//! `n mod 56`. A vector along it would lie in two rows every now and then, and be gathered lane by lane: rows are loops of their
//! own, with vectors that end where they do. Error class: exact.

use super::collapse::make_names_unique;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{ScalarOp, Source};
use std::collections::BTreeSet;

/// Lanes of the longest vectors: rows of fewer elements are better taken together, and multiples of it are never taken apart.
const LANES: i64 = 16;

/// Splits as many axes as possible.
#[must_use]
pub fn run(mut kernel: Kernel) -> Kernel {
    // Each split takes divisions away, so this ends.
    while let Some((stage, axis, row)) = find(&kernel) {
        split(&mut kernel, stage, axis, row);
    }
    kernel
}

/// An axis of a stage that nothing but outputs reads, and the rows in which what is read of memory lies apart. Other stages are read
/// along whole axes.
fn find(kernel: &Kernel) -> Option<(StageId, usize, i64)> {
    let mut is_read = vec![false; kernel.stages.len()];
    for stage in kernel.stages.iter() {
        stage.for_each_load(&mut |_, load| {
            if let Source::Stage(of, _) = load.source {
                is_read[of.index()] = true;
            }
        });
    }
    kernel.stages.iter_enumerated().filter(|(id, stage)| !is_read[id.index()] && stage.reducer.is_none()).find_map(
        |(id, stage)| (0..stage.axes.len()).find_map(|axis| Some((id, axis, rows_along(kernel, stage, axis)?))),
    )
}

/// The length of the rows in which loads see an axis of a stage.
fn rows_along(kernel: &Kernel, stage: &Stage, axis: usize) -> Option<i64> {
    let Axis { extent, kind, .. } = &stage.axes[axis];
    let ranges = stage.ranges(&kernel.symbols);
    let (mut divisors, mut is_of_stages) = (BTreeSet::new(), false);
    stage.for_each_load(&mut |_, load| match load.source {
        // Rows that lie one behind the other are no rows in memory.
        Source::Operand(operand) => {
            let flat = kernel.operands[operand].layout.flat(&load.index).simplify(&ranges);
            divisors_of(&flat, axis, &mut divisors);
        }
        Source::Stage(..) | Source::Buffer(_) => {
            is_of_stages |= load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
        }
    });
    let row = divisors.first().copied().filter(|row| divisors.len() == 1 && *row > LANES && row % LANES != 0)?;
    let is_whole = extent.is_multiple_of(row) && extent.as_const() != Some(row);
    (*kind == AxisKind::Parallel && !is_of_stages && is_whole).then_some(row)
}

/// What an axis is divided by within an expression.
fn divisors_of(e: &IndexExpr, axis: usize, found: &mut BTreeSet<i64>) {
    e.for_each_atom(&mut |atom| {
        if let Atom::FloorDiv(pair) | Atom::Mod(pair) = atom
            && pair.0.as_var() == Some(VarId::from_index(axis))
            && let Some(divisor) = pair.1.as_const()
        {
            found.insert(divisor);
        }
    });
}

fn split(kernel: &mut Kernel, id: StageId, axis: usize, row: i64) {
    let symbols = kernel.symbols.clone();
    let stage = &mut kernel.stages[id];
    let var = |n: usize| IndexExpr::var(VarId::from_index(n));
    let by: Vec<IndexExpr> = (0..stage.axes.len())
        .map(|a| match a {
            _ if a == axis => var(a).scale(row) + var(a + 1),
            _ => var(if a > axis { a + 1 } else { a }),
        })
        .collect();
    let whole = stage.axes[axis].clone();
    stage.axes[axis].extent = whole.extent.floor_div(&row.into());
    stage.axes.insert(axis + 1, Axis { extent: row.into(), ..whole });
    make_names_unique(&mut stage.axes, axis + 1);
    let ranges = stage.ranges(&symbols);
    let replace = |e: &IndexExpr| e.substitute_vars(&by).simplify(&ranges);
    stage.body.ops.iter_mut().for_each(|op: &mut ScalarOp| *op = op.map_indices(&replace));
    for output in kernel.outputs.iter_mut().filter(|output| output.stage == id) {
        output.index = output.index.iter().map(replace).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::interp::run_kernel;
    use infc_testkit::{assert_same, random_inputs};

    /// Images of `rows` rows whose channels and rows change places, written one row behind the other.
    fn copy(rows: &str, columns: i64) -> Kernel {
        let text = format!(
            "kernel @copy(x: f32[{rows}, 3, {columns}], b: f32[{columns}*{rows}]) -> (y: f32[3, {columns}*{rows}]) where R in 0..=9 {{
              stage o[c: 3, n: {columns}*{rows}] = x[div(n, {columns}), c, mod(n, {columns})] + b[n]
              output y[c, n] = o[c, n]
            }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn rows_that_loads_see_are_loops() {
        for (rows, columns, is_split) in [("5", 19, true), ("R", 56, true), ("5", 32, false), ("5", 9, false)] {
            let kernel = copy(rows, columns);
            let divided = run(kernel.clone());
            let axes = &divided.stages[StageId::from_index(0)].axes;
            assert_eq!(axes.len(), if is_split { 3 } else { 2 }, "{rows} of {columns}: {divided}");
            assert!(!is_split || !divided.to_string().contains("div("), "{divided}");
            for size in [5, 0, 1] {
                let inputs = random_inputs(&kernel, &[size], 2);
                let expected = run_kernel(&kernel, &[size], &inputs).expect("it runs");
                let found = run_kernel(&divided, &[size], &inputs).expect("it runs");
                assert_same(&format!("{rows} of {columns} at {size}"), &found, &expected);
            }
        }
    }

    /// What other stages read has the axes that they know it by, and so has what reads them; two ways to see an axis are one too
    /// many; and rows that lie one behind the other are none.
    #[test]
    fn other_axes_stay() {
        for text in [
            "kernel @read(x: f32[4, 2, 19]) -> (y: f32[76]) {
              stage a[n: 76] = x[div(n, 19), 1, mod(n, 19)]
              stage o[n: 76] = a[n] * 2
              output y[n] = o[n]
            }",
            "kernel @two(x: f32[6, 2, 19], z: f32[3, 2, 38]) -> (y: f32[114]) {
              stage o[n: 114] = x[div(n, 19), 1, mod(n, 19)] + z[div(n, 38), 1, mod(n, 38)]
              output y[n] = o[n]
            }",
            "kernel @sum(x: f32[38, 3], r: f32[2, 5, 19]) -> (y: f32[38]) {
              stage a[m: 38, reduce k: 3] = fold sum x[m, k]
              stage o[m: 38] = a[m] + r[div(m, 19), 2, mod(m, 19)]
              output y[m] = o[m]
            }",
            "kernel @behind(x: f32[4, 19]) -> (y: f32[76]) {
              stage o[n: 76] = x[div(n, 19), mod(n, 19)] * 2
              output y[n] = o[n]
            }",
        ] {
            let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(run(kernel.clone()), kernel);
        }
    }
}
