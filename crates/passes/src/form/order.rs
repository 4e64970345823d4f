//! The order of kernels and host operations, and which of them may write onto what they read.

use super::FormError;
use super::group::{Grouping, Home};
use super::layout::Placement;
use super::lower::Lowered;
use super::pack::is_at;
use super::plan::{BufferPlace, OperandSource, PlannedKernel, PlannedStep};
use infc_ir::entity::{EntityId, NodeId, OperandId, SymbolId, ValueId};
use infc_ir::graph::SymbolSource;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::scalar::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels and host operations in an order in which they can run: as the graph's, where what they read is ready, and
/// the symbols that they are computed with are known.
pub(super) fn order(
    grouping: &Grouping<'_>,
    kernels: Vec<Lowered>,
) -> Result<(Vec<Lowered>, Vec<PlannedStep>), FormError> {
    let steps = Steps::new(grouping, &kernels);
    // Kernels first, then host operations, then choices that tell symbols.
    let others: Vec<NodeId> = grouping.hosts.iter().chain(&grouping.binds).copied().collect();
    let count = kernels.len() + others.len();
    let needs: Vec<BTreeSet<usize>> = (0..count)
        .map(|n| match kernels.get(n) {
            Some(kernel) => steps.of_kernel(kernel),
            None => steps.of_node(others[n - kernels.len()]),
        })
        .collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    for (n, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|&m| users[m].push(n));
    }
    let place = |n: usize| match kernels.get(n) {
        Some(kernel) => {
            let group = grouping.groups[kernel.group].as_ref();
            group.and_then(|g| g.nodes.iter().map(|&id| grouping.position(id)).max()).unwrap_or(0)
        }
        None => grouping.position(others[n - kernels.len()]),
    };
    let mut ready: BTreeSet<(usize, usize)> = (0..count).filter(|&n| waiting[n] == 0).map(|n| (place(n), n)).collect();
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
    if sequence.len() != count {
        let what = "the kernels need each other's results in a circle".to_owned();
        return Err(FormError::Malformed { place: "the plan".to_owned(), what });
    }
    let (first_host, first_bind) = (kernels.len(), kernels.len() + grouping.hosts.len());
    let mut waiting: Vec<Option<Lowered>> = kernels.into_iter().map(Some).collect();
    let (mut kernels, mut steps) = (Vec::new(), Vec::new());
    for n in sequence {
        match waiting.get_mut(n) {
            Some(kernel) => {
                steps.push(PlannedStep::Kernel(kernels.len()));
                kernels.extend(kernel.take());
            }
            None if n < first_bind => steps.push(PlannedStep::Host(n - first_host)),
            None => steps.push(PlannedStep::Bind(n - first_bind)),
        }
    }
    Ok((kernels, steps))
}

/// What has to be done before what.
struct Steps<'a> {
    grouping: &'a Grouping<'a>,
    /// By group.
    kernel_of: BTreeMap<usize, usize>,
    /// Which operations tell a symbol its value.
    producers_of: BTreeMap<SymbolId, BTreeSet<usize>>,
    /// Number of kernels.
    kernels: usize,
}

impl<'a> Steps<'a> {
    fn new(grouping: &'a Grouping<'a>, kernels: &[Lowered]) -> Self {
        let kernel_of = kernels.iter().enumerate().map(|(n, k)| (k.group, n)).collect();
        let mut producers_of: BTreeMap<SymbolId, BTreeSet<usize>> = BTreeMap::new();
        for (n, &id) in grouping.hosts.iter().chain(&grouping.binds).enumerate() {
            let produces = grouping.flat.graph.nodes[id].op.produces();
            producers_of.extend(produces.iter().map(|p| (p.symbol, BTreeSet::from([kernels.len() + n]))));
        }
        for (symbol, source) in &grouping.flat.graph.sources {
            let SymbolSource::Computed(value) = source else { continue };
            let of = |s: SymbolId| producers_of.get(&s).into_iter().flatten().copied().collect::<Vec<_>>();
            let producers: BTreeSet<usize> = value.symbols().into_iter().flat_map(of).collect();
            if !producers.is_empty() {
                producers_of.insert(*symbol, producers);
            }
        }
        Self { grouping, kernel_of, producers_of, kernels: kernels.len() }
    }

    fn of_kernel(&self, lowered: &Lowered) -> BTreeSet<usize> {
        let mut needs = BTreeSet::new();
        for (operand, value) in lowered.kernel.operands.iter().zip(&lowered.values) {
            if operand.kind == OperandKind::Input {
                self.writers(*value, &mut needs);
            }
        }
        if let Some(group) = &self.grouping.groups[lowered.group] {
            self.guards(self.grouping.guard(group), &mut needs);
        }
        if !self.producers_of.is_empty() {
            let symbols = lowered.kernel.used_symbols();
            needs.extend(symbols.iter().filter_map(|symbol| self.producers_of.get(symbol)).flatten());
            let operands = lowered.kernel.operands.iter().zip(&lowered.values);
            let written = operands.filter(|(operand, _)| operand.kind == OperandKind::Output);
            written.for_each(|(_, value)| self.sizes(*value, &mut needs));
        }
        needs
    }

    /// Of a host operation, or of a choice, whose inputs are the results of both branches.
    fn of_node(&self, id: NodeId) -> BTreeSet<usize> {
        let mut needs = BTreeSet::new();
        for &value in &self.grouping.flat.graph.nodes[id].inputs {
            self.writers(value, &mut needs);
        }
        self.guards(self.grouping.flat.guard(id), &mut needs);
        needs
    }

    /// What tells the sizes of the values that a value lies in, and where in them it begins.
    fn sizes(&self, value: ValueId, into: &mut BTreeSet<usize>) {
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            let shape = &self.grouping.flat.graph.ty(value).shape;
            let within = self.grouping.wholes.iter().filter_map(|whole| {
                let (_, start) = whole.parts.iter().find(|(part, _)| *part == value)?;
                work.push(whole.value);
                Some(start)
            });
            let symbols = shape.iter().chain(within).flat_map(|dim| dim.symbols());
            into.extend(symbols.filter_map(|symbol| self.producers_of.get(&symbol)).flatten());
        }
    }

    fn guards(&self, guard: Option<usize>, needs: &mut BTreeSet<usize>) {
        for (condition, _) in self.grouping.flat.path(guard) {
            self.writers(condition, needs);
        }
    }

    /// What must have run before a value can be read.
    fn writers(&self, value: ValueId, into: &mut BTreeSet<usize>) {
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            match self.grouping.home(value) {
                Some(Home::Group(group)) => into.extend(self.kernel_of.get(&group)),
                Some(Home::Whole(whole)) => {
                    work.extend(self.grouping.wholes[whole].parts.iter().map(|(part, _)| *part));
                }
                Some(Home::Host(host)) => {
                    into.insert(self.kernels + host);
                }
                Some(Home::Reshaped(root)) => work.push(root),
                Some(Home::Input) | None => {}
            }
        }
    }
}

/// Finds outputs that can take the place of an input: nobody reads it later, and this kernel reads each of its
/// elements only to write the one at the same place. Conditions and what host operations read stay: steps between kernels ask for
/// them.
pub(super) fn mark_in_place(grouping: &Grouping<'_>, placement: &Placement, kernels: &mut [PlannedKernel]) {
    let graph = &grouping.flat.graph;
    let conditions = grouping.flat.guards.iter().map(|guard| guard.condition);
    let asked = grouping.hosts.iter().chain(&grouping.binds).flat_map(|&id| graph.nodes[id].inputs.iter().copied());
    let asked = conditions.chain(asked).filter_map(|value| placement.values.get(&value));
    let asked: BTreeSet<usize> = asked.map(|planned| planned.buffer).collect();
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
            let is_alone = |buffer: usize| {
                let lies_there =
                    |source: &&OperandSource| value_of(source).is_some_and(|v| placement.values[&v].buffer == buffer);
                kernel.operands.iter().filter(lies_there).count() == 1
            };
            let found = kernel.kernel.operands.iter_enumerated().find(|(input, i)| {
                let (Some(from), Some(to)) =
                    (value_of(&kernel.operands[input.index()]), value_of(&kernel.operands[output.index()]))
                else {
                    return false;
                };
                let (from, to) = (&placement.values[&from], &placement.values[&to]);
                let ours = |v: &super::plan::PlannedValue| {
                    v.owns_its_buffer() && placement.buffers[v.buffer].place == BufferPlace::Arena
                };
                i.kind == OperandKind::Input
                    && !taken.contains(input)
                    && (i.dtype, &i.shape, &i.layout) == (o.dtype, &o.shape, &o.layout)
                    && ours(from)
                    && ours(to)
                    && last_use.get(&from.buffer) == Some(&n)
                    && !asked.contains(&from.buffer)
                    && is_alone(from.buffer)
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
