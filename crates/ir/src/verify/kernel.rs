//! What must hold of a kernel:
//!
//! - names are unique: symbols; operands and stages together; the axes of a stage;
//! - dims mention known symbols and no variables; no extent is certainly negative; no divisor certainly not positive;
//! - layouts have one stride and halo per axis, and halos are not negative;
//! - bodies are well typed (see `body.rs`), without parameters; index variables are axes of the stage;
//! - a stage has a reducer exactly if it has a reduction axis; its components, the elements and the fold's results agree
//!   in number and type;
//! - loads read inputs, constants and stages, with one index per axis, in their type;
//! - a stage that reads itself does so at a step that is shown to be earlier along its sequential axes, in their order;
//! - stages that are computed together because some read later ones ([`Kernel::recurrences`]) begin with a sequential
//!   axis of one extent, and read each other at steps of it that are shown to be computed by then;
//! - outputs go from stages without a reducer to output operands, with one index per axis, and every output operand is
//!   written. That the indices are injective and cover the operand is left to the interpreter;
//! - an input that an output is written onto lies as the output does, and only the element in whose place a result is
//!   written is read.

use super::body::Leaves;
use super::{Report, VerifyError, ViolationKind};
use crate::access::Bound;
use crate::entity::{EntityId, OperandId, StageId, VarId};
use crate::index::{IndexExpr, Proof, Ranges};
use crate::kernel::{AxisKind, Kernel, Operand, OperandKind, Output, Stage, stays};
use crate::scalar::{Load, Source, has_arithmetic};
use infc_tensor::DType;
use std::ops::Range;

/// Checks everything that the module's header lists.
///
/// # Errors
/// [`VerifyError`] with all violations.
pub fn verify_kernel(kernel: &Kernel) -> Result<(), VerifyError> {
    let mut report = Report::default();
    report.symbols(&kernel.symbols);
    report.at("names");
    report.unique(kernel.operands.iter().map(|o| &*o.name).chain(kernel.stages.iter().map(|s| &*s.name)));
    for operand in kernel.operands.iter() {
        check_operand(&mut report, kernel, operand);
    }
    for (id, stage) in kernel.stages.iter_enumerated() {
        check_stage(&mut report, kernel, id, stage);
    }
    for output in &kernel.outputs {
        check_output(&mut report, kernel, output);
    }
    report.at("outputs");
    for (id, operand) in kernel.operands.iter_enumerated() {
        if operand.kind == OperandKind::Output && kernel.outputs.iter().all(|o| o.operand != id) {
            report.push(ViolationKind::NeverWritten { name: operand.name.clone() });
        }
    }
    report.finish(format!("kernel `{}`", kernel.name))
}

fn check_operand(report: &mut Report, kernel: &Kernel, operand: &Operand) {
    report.at(format!("operand `{}`", operand.name));
    let ranges = Ranges::of_symbols(&kernel.symbols);
    let symbols = kernel.symbols.len();
    if !has_arithmetic(operand.dtype) {
        report.push(ViolationKind::UnsupportedType { op: "a kernel".to_owned(), dtype: operand.dtype });
    }
    for dim in &operand.shape {
        report.extent("an axis", dim, &ranges, symbols);
    }
    let layout = &operand.layout;
    report.count("strides", operand.shape.len(), layout.strides.len());
    report.count("halos", operand.shape.len(), layout.halo.len());
    for dim in layout.strides.iter().chain([&layout.offset, &layout.len_elems]) {
        report.dim(dim, &ranges, symbols);
    }
    if layout.halo.iter().any(|&(before, after)| before < 0 || after < 0) {
        report.push(ViolationKind::NotAllowed { what: "a negative halo" });
    }
}

/// The rules for the leaves of a stage's body.
struct StageLeaves<'a> {
    kernel: &'a Kernel,
    id: StageId,
    stage: &'a Stage,
    /// The recurrence it belongs to, or itself.
    run: Range<usize>,
    ranges: Ranges,
}

impl StageLeaves<'_> {
    fn in_scope(&self, var: VarId) -> bool {
        var.index() < self.stage.axes.len()
    }
}

impl Leaves for StageLeaves<'_> {
    fn params(&self) -> &[DType] {
        &[]
    }

    fn index(&self, report: &mut Report, expr: &IndexExpr) {
        report.index(expr, &self.ranges, self.kernel.symbols.len(), &|v| self.in_scope(v));
    }

    fn bounds(&self, report: &mut Report, bounds: &[Bound]) {
        report.bounds(bounds, &self.ranges, self.kernel.symbols.len(), &|v| self.in_scope(v));
    }

    fn load(&self, report: &mut Report, load: &Load) {
        match load.source {
            Source::Operand(id) => {
                let Some(operand) = self.kernel.operands.get(id) else {
                    return report.push(ViolationKind::Dangling { what: "operand", id: id.to_string() });
                };
                if operand.kind == OperandKind::Output {
                    report.push(ViolationKind::NotAllowed { what: "reading an output operand" });
                }
                report.count("indices", operand.shape.len(), load.index.len());
                report.dtype("a load", operand.dtype, load.dtype);
            }
            Source::Stage(id, component) => {
                let Some(stage) = self.kernel.stages.get(id) else {
                    return report.push(ViolationKind::Dangling { what: "stage", id: id.to_string() });
                };
                report.count("indices", stage.value_axes().count(), load.index.len());
                match stage.results.get(usize::from(component)) {
                    Some(result) => report.dtype("a load", stage.body.dtype(*result), load.dtype),
                    None => {
                        let id = format!("{}.{component}", stage.name);
                        report.push(ViolationKind::Dangling { what: "component", id });
                    }
                }
                if id == self.id && !self.is_earlier(load) {
                    report.push(ViolationKind::ReadsItself);
                }
                if id != self.id && self.run.contains(&id.index()) && !self.is_computed(id, load) {
                    report.push(ViolationKind::OutOfOrder { id: format!("stage `{}`", stage.name) });
                }
            }
            Source::Buffer(_) => report.push(ViolationKind::NotAllowed { what: "a load from a buffer" }),
        }
    }
}

impl StageLeaves<'_> {
    /// Whether a read of the stage itself is at an earlier step: along some sequential axis it is strictly earlier, and
    /// along those before not later.
    fn is_earlier(&self, load: &Load) -> bool {
        for (position, (axis, kind)) in self.stage.value_axes().map(|(n, a)| (n, a.kind)).enumerate() {
            if kind != AxisKind::Sequential {
                continue;
            }
            let gathered = load.gather.iter().any(|(a, _, _)| usize::from(*a) == position);
            let Some(index) = load.index.get(position).filter(|_| !gathered) else { return false };
            let now = IndexExpr::var(VarId::from_index(axis));
            if self.ranges.lt(index, &now) == Proof::Yes {
                return true;
            }
            if self.ranges.le(index, &now) != Proof::Yes {
                return false;
            }
        }
        false
    }

    /// Whether another stage of the same recurrence is read at a step at which it is computed.
    fn is_computed(&self, source: StageId, load: &Load) -> bool {
        let gathered = load.gather.iter().any(|(axis, _, _)| *axis == 0);
        let Some(step) = load.index.first().filter(|_| !gathered) else { return false };
        let now = IndexExpr::var(VarId(0));
        let shown = if source > self.id { self.ranges.lt(step, &now) } else { self.ranges.le(step, &now) };
        shown == Proof::Yes
    }
}

fn check_stage(report: &mut Report, kernel: &Kernel, id: StageId, stage: &Stage) {
    report.at(format!("stage `{}`", stage.name));
    report.unique(stage.axes.iter().map(|a| &*a.name));
    let ranges = stage.ranges(&kernel.symbols);
    for axis in &stage.axes {
        report.extent(&format!("axis `{}`", axis.name), &axis.extent, &ranges, kernel.symbols.len());
    }
    let run = kernel.recurrence_of(id).unwrap_or(id.index()..id.index() + 1);
    if run.len() > 1 {
        let steps =
            |stage: &Stage| stage.axes.first().filter(|a| a.kind == AxisKind::Sequential).map(|a| a.extent.clone());
        let first = kernel.stages.iter().nth(run.start).and_then(steps);
        if first.is_none() || steps(stage) != first {
            report.push(ViolationKind::Missing { what: "the sequential axis of a recurrence in front" });
        }
    }
    let leaves = StageLeaves { kernel, id, stage, run, ranges };
    let dtypes = report.body(&stage.body, &stage.results, &leaves);
    if stage.results.len() > usize::from(u8::MAX) {
        report.push(ViolationKind::NotAllowed { what: "more than 255 components" });
    }
    let reduces = stage.reduce_axes().next().is_some();
    match &stage.reducer {
        Some(reducer) => {
            if !reduces {
                report.push(ViolationKind::NotAllowed { what: "a reducer without a reduction axis" });
            }
            report.reducer(reducer, &dtypes);
        }
        None if reduces => report.push(ViolationKind::Missing { what: "the reducer of a reduction axis" }),
        None => {}
    }
}

fn check_output(report: &mut Report, kernel: &Kernel, output: &Output) {
    report.at(format!("output {}", output.operand));
    let Some(operand) = kernel.operands.get(output.operand) else {
        return report.push(ViolationKind::Dangling { what: "operand", id: output.operand.to_string() });
    };
    report.at(format!("output `{}`", operand.name));
    if operand.kind != OperandKind::Output {
        report.push(ViolationKind::NotAllowed { what: "writing an operand that is not an output" });
    }
    let Some(stage) = kernel.stages.get(output.stage) else {
        return report.push(ViolationKind::Dangling { what: "stage", id: output.stage.to_string() });
    };
    if stage.reducer.is_some() {
        report.push(ViolationKind::NotAllowed { what: "writing from a stage with a reducer" });
    }
    match stage.results.get(usize::from(output.component)) {
        None => {
            let id = format!("{}.{}", stage.name, output.component);
            report.push(ViolationKind::Dangling { what: "component", id });
        }
        Some(result) => report.dtype("the value written", operand.dtype, stage.body.dtype(*result)),
    }
    if let Some(onto) = output.onto {
        check_onto(report, kernel, output, onto);
    }
    report.count("indices", operand.shape.len(), output.index.len());
    let ranges = stage.ranges(&kernel.symbols);
    for expr in &output.index {
        report.index(expr, &ranges, kernel.symbols.len(), &|v| {
            stage.axes.get(v.index()).is_some_and(|a| a.kind != AxisKind::Reduce)
        });
    }
}

/// An output in the memory of an input: both lie alike, and only the element in whose place a result is written is read.
fn check_onto(report: &mut Report, kernel: &Kernel, output: &Output, onto: OperandId) {
    let Some(old) = kernel.operands.get(onto) else {
        return report.push(ViolationKind::Dangling { what: "operand", id: onto.to_string() });
    };
    let new = &kernel.operands[output.operand];
    let lie_alike = old.dtype == new.dtype && old.shape == new.shape && old.layout == new.layout;
    if old.kind != OperandKind::Input || !lie_alike {
        report.push(ViolationKind::NotAllowed { what: "writing onto what is no input, or lies in another way" });
    }
    let is_shared = |other: &Output| other != output && (other.onto == Some(onto) || other.operand == output.operand);
    if kernel.outputs.iter().any(is_shared) {
        report.push(ViolationKind::NotAllowed { what: "writing several outputs onto an input" });
    }
    let mut apart = false;
    for (id, stage) in kernel.stages.iter_enumerated() {
        stage.for_each_load(&mut |_, load| {
            apart |= load.source == Source::Operand(onto) && (id != output.stage || !stays(output, onto, load));
        });
    }
    if apart {
        report.push(ViolationKind::NotAllowed { what: "reading elsewhere what is written onto" });
    }
}
