//! Stages that slide a filter over their input: what minimal filtering applies to.

use crate::form::contraction::{Contraction, contraction};
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::{Load, Source};
use infc_tensor::DType;

/// `y[…, x, …, k] = Σ_{t, c} d[…, x + t + shift, …, c]·g[t, …, c, k]` along one or more axes `x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Correlation {
    pub(crate) stage: StageId,
    /// What is filtered.
    pub(crate) input: Load,
    /// The filter: a constant, read at plain axes.
    pub(crate) filter: Load,
    pub(crate) filter_operand: OperandId,
    /// Along which axes it slides.
    pub(crate) windows: Vec<Window>,
    /// The axis summed over beside the taps.
    pub(crate) channel: usize,
    /// The axis of the result along which filters differ.
    pub(crate) column: usize,
    /// The other axes of the result.
    pub(crate) others: Vec<usize>,
}

/// One axis along which a filter slides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The axis of the result.
    pub(crate) axis: usize,
    /// The axis over the taps.
    pub(crate) tap: usize,
    /// Number of taps.
    pub(crate) taps: i64,
    /// Number of results.
    pub(crate) extent: Dim,
    /// The input is read at `axis + tap + shift` …
    pub(crate) shift: i64,
    /// … along this axis of it.
    pub(crate) input_axis: usize,
    /// The axis of the filter that holds its taps.
    pub(crate) filter_axis: usize,
}

/// Along three axes a tile has 216 points, and transforms of it that fit no registers: 3×3×3 of 32 channels took 50 times as
/// long as the sum as it stands.
const MOST_WINDOWS: usize = 2;

impl Correlation {
    /// The stage as a correlation in `f32` with a constant filter, if it is one: neighbouring taps, neighbouring
    /// results, zeros outside of the input, one summed axis beside the taps.
    pub(crate) fn of(kernel: &Kernel, stage: StageId) -> Option<Self> {
        let s = &kernel.stages[stage];
        let c: Contraction<'_> = contraction(kernel, s)?;
        let (Source::Operand(_), Source::Operand(filter_operand)) = (c.lhs.source, c.rhs.source) else { return None };
        let all_f32 = [c.lhs.dtype, c.rhs.dtype, s.dtypes()[0]].iter().all(|&d| d == DType::F32);
        let plain_filter = c.rhs_is_constant && c.rhs.valid.is_empty() && c.rhs.gather.is_empty();
        if !all_f32 || !plain_filter || !c.lhs.gather.is_empty() || c.lhs.otherwise.bits != 0 {
            return None;
        }
        let filter_axis_of = |axis: usize| {
            let var = VarId::from_index(axis);
            let mut users = c.rhs.index.iter().enumerate().filter(|(_, e)| e.uses_var(var));
            let (n, e) = users.next()?;
            (users.next().is_none() && e.as_var() == Some(var)).then_some(n)
        };
        let in_input = |axis: usize| c.lhs.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
        let of_kind = |kind: AxisKind| (0..s.axes.len()).filter(move |&n| s.axes[n].kind == kind);

        let mut windows = Vec::new();
        let mut channels = Vec::new();
        for axis in of_kind(AxisKind::Reduce) {
            let filter_axis = filter_axis_of(axis)?;
            match window(&c, axis, filter_axis)? {
                Along::Channel => channels.push(axis),
                Along::Window(window) => windows.push(window),
            }
        }
        let windowed = |axis: usize| windows.iter().any(|w| w.axis == axis);
        let columns: Vec<usize> = of_kind(AxisKind::Parallel).filter(|&a| filter_axis_of(a).is_some()).collect();
        let others: Vec<usize> =
            of_kind(AxisKind::Parallel).filter(|&a| !columns.contains(&a) && !windowed(a)).collect();
        let ([channel], [column]) = (&channels[..], &columns[..]) else { return None };
        if !(1..=MOST_WINDOWS).contains(&windows.len())
            || in_input(*column)
            || windowed(*column)
            || of_kind(AxisKind::Sequential).count() > 0
        {
            return None;
        }
        // Conditions may only say that the windows stay inside.
        let extents = &kernel.operands[operand_of(c.lhs)?].shape;
        let known = c.lhs.valid.iter().all(|bound| {
            windows.iter().any(|w| {
                let axis = w.input_axis;
                bound.expr == c.lhs.index[axis] && bound.lo.is_const(0) && bound.hi == extents[axis]
            })
        });
        known.then(|| Self {
            stage,
            input: c.lhs.clone(),
            filter: c.rhs.clone(),
            filter_operand,
            windows,
            channel: *channel,
            column: *column,
            others,
        })
    }
}

/// How a summed axis moves through the input.
enum Along {
    Channel,
    Window(Window),
}

fn window(c: &Contraction<'_>, tap: usize, filter_axis: usize) -> Option<Along> {
    let var = VarId::from_index(tap);
    let mut users = c.lhs.index.iter().enumerate().filter(|(_, e)| e.uses_var(var));
    let (input_axis, e) = users.next()?;
    if users.next().is_some() {
        return None;
    }
    if e.as_var() == Some(var) {
        return Some(Along::Channel);
    }
    // tap + axis + shift
    let (step, rest) = e.linear_in(var)?;
    let axis = rest.without_constant().as_var()?;
    let s = c.stage;
    let is_result = s.axes[axis.index()].kind == AxisKind::Parallel;
    let elsewhere = c.lhs.index.iter().enumerate().any(|(n, e)| n != input_axis && e.uses_var(axis));
    let in_filter = c.rhs.index.iter().any(|e: &IndexExpr| e.uses_var(axis));
    let taps = s.axes[tap].extent.as_const()?;
    (step.is_const(1) && is_result && !elsewhere && !in_filter).then_some(Along::Window(Window {
        axis: axis.index(),
        tap,
        taps,
        extent: s.axes[axis.index()].extent.clone(),
        shift: rest.constant_part(),
        input_axis,
        filter_axis,
    }))
}

fn operand_of(load: &Load) -> Option<OperandId> {
    match load.source {
        Source::Operand(operand) => Some(operand),
        Source::Stage(..) | Source::Buffer(_) => None,
    }
}
