//! The segments of a Program: the steps between those that bind symbols.
//!
//! What depends on a symbol has a size only when the symbol is bound. So a Program is planned segment by segment: the
//! first one when the inputs' shapes are known, each other one when the step is done that ends the one before it. A slot
//! of the arena belongs to the segment that touches it first, and keeps its place for all later ones.

use crate::{BindFrom, BindingSource, Entry, Program, SizeExpr, Slot, Step};
use std::ops::Range;

/// Which segment everything belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// The steps of each; together they are all steps, in order.
    pub steps: Vec<Range<usize>>,
    /// Per symbol, the first segment that knows its value; `None` if nothing binds it.
    pub of_symbol: Vec<Option<usize>>,
    /// Per slot, the segment in which it gets its place. Inputs and weights have theirs from the beginning, a slot that
    /// a host step fills belongs to the segment that knows all its extents.
    pub of_slot: Vec<usize>,
    /// Per output of the entry, the first segment that knows its shape.
    pub of_output: Vec<usize>,
}

impl Segments {
    /// The segments of a Program of an entry. Ids that refer to nothing are ignored.
    #[must_use]
    pub fn new(entry: &Entry, program: &Program) -> Self {
        let mut of_symbol: Vec<Option<usize>> = vec![None; entry.symbols.len()];
        for binding in &entry.bindings {
            if let Some(segment) = of_symbol.get_mut(binding.symbol as usize) {
                *segment = Some(0);
            }
        }
        let mut steps = Vec::new();
        let mut start = 0;
        for (index, step) in program.steps.iter().enumerate() {
            let Step::Bind(bind) = step else { continue };
            steps.push(start..index + 1);
            start = index + 1;
            for bound in &bind.symbols {
                if let Some(segment) = of_symbol.get_mut(bound.symbol as usize) {
                    *segment = Some(steps.len());
                }
            }
        }
        steps.push(start..program.steps.len());
        let mut this = Self { steps, of_symbol, of_slot: Vec::new(), of_output: Vec::new() };
        for binding in &entry.bindings {
            if let BindingSource::Computed(value) = &binding.source {
                let segment = this.knows([value]);
                if let Some(of_symbol) = this.of_symbol.get_mut(binding.symbol as usize) {
                    *of_symbol = Some(segment);
                }
            }
        }
        this.of_output = entry.outputs.iter().map(|port| this.knows(&port.shape)).collect();
        for slot in &program.slots {
            let segment = match slot {
                Slot::Input(_) | Slot::Weight(_) => 0,
                Slot::Output(output) => this.of_output.get(*output as usize).copied().unwrap_or(0),
                Slot::Arena(arena) => match arena.alias.and_then(|alias| this.of_slot.get(alias as usize)) {
                    Some(&root) => root,
                    None => this.of_step(arena.first_step as usize),
                },
                Slot::Host(host) => this.knows(&host.shape),
            };
            this.of_slot.push(segment);
        }
        this
    }

    /// The segment of a step.
    #[must_use]
    pub fn of_step(&self, step: usize) -> usize {
        self.steps.partition_point(|range| range.end <= step).min(self.steps.len() - 1)
    }

    /// The first segment that knows all symbols of these sizes; the last one if nothing ever binds one of them.
    #[must_use]
    pub fn knows<'s>(&self, sizes: impl IntoIterator<Item = &'s SizeExpr>) -> usize {
        let last = self.steps.len() - 1;
        let mut segment = 0;
        for size in sizes {
            size.for_each_symbol(&mut |symbol| {
                segment = segment.max(self.of_symbol.get(symbol as usize).copied().flatten().unwrap_or(last));
            });
        }
        segment
    }
}

impl BindFrom {
    /// The slot that is looked at.
    #[must_use]
    pub fn slot(&self) -> u32 {
        match self {
            Self::Axis { slot, .. } => *slot,
        }
    }
}
