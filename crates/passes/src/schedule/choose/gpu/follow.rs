//! How the parts of stages that a point of a root needs follow the root's axes.

use super::super::access::Access;
use crate::schedule::reads::reads_neighbours;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::Kernel;

/// Per value axis of a stage: the root's axis that a point of it follows, or `None` if all of the axis is needed.
pub(super) type Follow = Vec<Option<usize>>;

/// What a root needs of each stage that has storage; `None` for stages that it does not read.
pub(super) fn follow(
    kernel: &Kernel,
    inlined: &[bool],
    accesses: &[Vec<Access>],
    root: StageId,
) -> Vec<Option<Follow>> {
    let mut found: Vec<Option<Follow>> = vec![None; kernel.stages.len()];
    found[root.index()] = Some((0..kernel.stages[root].axes.len()).map(Some).collect());
    for reader in kernel.stages.ids().rev() {
        if inlined[reader.index()] || reader > root {
            continue;
        }
        let Some(outer) = found[reader.index()].clone() else { continue };
        // The reader's axes, by the root's that they follow.
        let value: Vec<usize> = kernel.stages[reader].value_axes().map(|(n, _)| n).collect();
        let through = |axis: usize| -> Option<usize> {
            if reader == root {
                return Some(axis);
            }
            value.iter().position(|&v| v == axis).and_then(|p| outer.get(p).copied().flatten())
        };
        for access in &accesses[reader.index()] {
            let Some(source) = access.stage.filter(|&s| s != reader) else { continue };
            let own: Vec<usize> = kernel.stages[source].value_axes().map(|(n, _)| n).collect();
            let needed: Follow = access
                .axes
                .iter()
                .zip(&own)
                .map(|(a, &axis)| {
                    a.and_then(through).filter(|_| !reads_neighbours(kernel, source, VarId::from_index(axis)))
                })
                .collect();
            match &mut found[source.index()] {
                None => found[source.index()] = Some(needed),
                Some(known) => known.iter_mut().zip(needed).for_each(|(k, n)| {
                    if *k != n {
                        *k = None;
                    }
                }),
            }
        }
    }
    found
}
