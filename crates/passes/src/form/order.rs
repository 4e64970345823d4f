//! The order of kernels, and which of them may write onto what they read.

use super::FormError;
use super::group::{Grouping, Home};
use super::layout::Placement;
use super::lower::Lowered;
use super::pack::is_at;
use super::plan::{BufferPlace, OperandSource, PlannedKernel};
use infc_ir::entity::{EntityId, OperandId, ValueId};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::scalar::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels in an order in which they can run: as the graph's, where what they read is ready.
pub(super) fn order(grouping: &Grouping<'_>, kernels: Vec<Lowered>) -> Result<Vec<Lowered>, FormError> {
    let kernel_of: BTreeMap<usize, usize> = kernels.iter().enumerate().map(|(n, k)| (k.group, n)).collect();
    let needs: Vec<BTreeSet<usize>> = kernels
        .iter()
        .map(|k| {
            let mut needs = BTreeSet::new();
            for (operand, value) in k.kernel.operands.iter().zip(&k.values) {
                if operand.kind == OperandKind::Input {
                    writers(grouping, *value, &kernel_of, &mut needs);
                }
            }
            if let Some(group) = &grouping.groups[k.group] {
                for (condition, _) in grouping.flat.path(grouping.guard(group)) {
                    writers(grouping, condition, &kernel_of, &mut needs);
                }
            }
            needs
        })
        .collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); kernels.len()];
    let mut waiting: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    for (n, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|&m| users[m].push(n));
    }
    let place = |n: usize| {
        let group = grouping.groups[kernels[n].group].as_ref();
        group.and_then(|g| g.nodes.iter().map(|&id| grouping.position(id)).max()).unwrap_or(0)
    };
    let mut ready: BTreeSet<(usize, usize)> =
        (0..kernels.len()).filter(|&n| waiting[n] == 0).map(|n| (place(n), n)).collect();
    let mut sequence = Vec::new();
    while let Some((_, n)) = ready.pop_first() {
        sequence.push(n);
        for &user in &users[n] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.insert((place(user), user));
            }
        }
    }
    if sequence.len() != kernels.len() {
        let what = "the kernels need each other's results in a circle".to_owned();
        return Err(FormError::Malformed { place: "the plan".to_owned(), what });
    }
    let mut kernels: Vec<Option<Lowered>> = kernels.into_iter().map(Some).collect();
    Ok(sequence.into_iter().filter_map(|n| kernels[n].take()).collect())
}

/// The kernels that must have run before a value can be read.
fn writers(grouping: &Grouping<'_>, value: ValueId, kernel_of: &BTreeMap<usize, usize>, into: &mut BTreeSet<usize>) {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        match grouping.home(value) {
            Some(Home::Group(group)) => into.extend(kernel_of.get(&group)),
            Some(Home::Whole(whole)) => work.extend(grouping.wholes[whole].parts.iter().map(|(part, _)| *part)),
            Some(Home::Input) | None => {}
        }
    }
}

/// Finds outputs that can take the place of an input: nobody reads it later, and this kernel reads each of its
/// elements only to write the one at the same place.
pub(super) fn mark_in_place(placement: &Placement, kernels: &mut [PlannedKernel]) {
    let mut last_use: BTreeMap<usize, usize> = BTreeMap::new();
    for (n, kernel) in kernels.iter().enumerate() {
        for value in kernel.operands.iter().filter_map(value_of) {
            last_use.insert(placement.values[&value].buffer, n);
        }
    }
    for (n, kernel) in kernels.iter_mut().enumerate() {
        let mut taken: BTreeSet<OperandId> = BTreeSet::new();
        let mut pairs = Vec::new();
        for (output, o) in kernel.kernel.operands.iter_enumerated().filter(|(_, o)| o.kind == OperandKind::Output) {
            let found = kernel.kernel.operands.iter_enumerated().find(|(input, i)| {
                let (Some(from), Some(to)) =
                    (value_of(&kernel.operands[input.index()]), value_of(&kernel.operands[output.index()]))
                else {
                    return false;
                };
                let (from, to) = (&placement.values[&from], &placement.values[&to]);
                let ours = |v: &super::plan::PlannedValue| {
                    v.part_of.is_none() && placement.buffers[v.buffer].place == BufferPlace::Arena
                };
                i.kind == OperandKind::Input
                    && !taken.contains(input)
                    && (i.dtype, &i.shape, &i.layout) == (o.dtype, &o.shape, &o.layout)
                    && ours(from)
                    && ours(to)
                    && last_use.get(&from.buffer) == Some(&n)
                    && reads_only_in_place(&kernel.kernel, *input, output)
            });
            if let Some((input, _)) = found {
                taken.insert(input);
                pairs.push((input, output));
            }
        }
        kernel.in_place = pairs;
    }
}

fn value_of(source: &OperandSource) -> Option<ValueId> {
    match source {
        OperandSource::Value(value) => Some(*value),
        OperandSource::Constant(_) => None,
    }
}

fn reads_only_in_place(kernel: &Kernel, input: OperandId, output: OperandId) -> bool {
    // The interior is written by the first output of the operand; others are its borders.
    let Some(written) = kernel.outputs.iter().find(|o| o.operand == output) else { return false };
    let mut in_place = true;
    for (id, stage) in kernel.stages.iter_enumerated() {
        stage.for_each_load(&mut |_, load| {
            if load.source == Source::Operand(input) {
                in_place &= id == written.stage && is_at(load, &written.index);
            }
        });
    }
    in_place
}
