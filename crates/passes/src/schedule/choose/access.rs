//! How the loads of a stage move along its axes.

use crate::schedule::point::outside_halo;
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::index::{Atom, Dim, IndexExpr, Interval};
use infc_ir::kernel::{AxisKind, Kernel, Layout, Stage};
use infc_ir::scalar::{Body, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;

/// Weights lie in panels of this many columns; movement along an axis is looked at within one panel.
pub(super) const PANEL: i64 = 16;

/// Addresses this far apart share a set in the first-level caches of x86 processors.
const CACHE_SET_SPAN: i64 = 4096;

/// Bytes of a cache line.
pub(super) const CACHE_LINE: i64 = 64;

/// Sets of such a cache.
const CACHE_SETS: i64 = CACHE_SET_SPAN / CACHE_LINE;

/// Rows at least so many bytes apart are not fetched ahead: hardly two of them share a page, beyond which no prefetcher
/// looks. Rows of 1,280 bytes were read more slowly with hints than without.
const UNFORESEEN_STRIDE: i64 = 2048;

/// Movement of an address when a coordinate grows by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It stays.
    Zero,
    /// To the neighbouring element.
    One,
    /// By a constant number of elements, or a symbolic one.
    Far,
}

/// How stores move along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) step: Step,
    /// In elements, where it is the same everywhere and known.
    pub(super) stride: Option<i64>,
}

/// Movement along an axis that is two axes joined: by one distance within so many points, and by another from each to
/// the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) points: i64,
    /// Elements from a point to the next.
    pub(super) within: i64,
    /// Elements from a period to the next.
    pub(super) across: i64,
}

impl Period {
    /// Loads of whole vectors that have what so many lanes read from one on.
    pub(super) fn windows(self, first: i64, lanes: i64) -> i64 {
        let place = |at: i64| {
            let across = at.div_euclid(self.points).saturating_mul(self.across);
            across.saturating_add(at.rem_euclid(self.points).saturating_mul(self.within))
        };
        let mut places: Vec<i64> = (first..first + lanes).map(place).collect();
        places.sort_unstable();
        let (mut windows, mut covered) = (0, i64::MIN);
        for place in places {
            if place >= covered {
                (windows, covered) = (windows + 1, place.saturating_add(lanes));
            }
        }
        windows
    }

    /// Whether lanes read the same few neighbours again and again.
    fn is_repeated(self) -> bool {
        let fits = self.points <= PANEL / 2 && self.points.unsigned_abs().is_power_of_two();
        fits && self.within == 1 && self.across == 0
    }
}

/// A load as its stage sees it, with inlined stages looked through.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) elem_bytes: usize,
    /// The element's position in the axes of the stage.
    pub(super) flat: IndexExpr,
    /// Per axis of the stage.
    pub(super) steps: Vec<Step>,
    /// Per axis along which neighbours are adjacent only within a panel: its width.
    pub(super) panelled: Vec<Option<i64>>,
    /// Elements by which the address moves along each axis, where that is the same everywhere and known.
    pub(super) strides: Vec<Option<i64>>,
    /// Per axis: into how many sets of a first-level cache neighbours fall in turn.
    pub(super) cache_sets: Vec<i64>,
    /// Axes along which neighbours are not the same distance apart everywhere.
    pub(super) irregular: Vec<bool>,
    /// Per axis: how it moves where it is not the same everywhere, but again and again.
    pub(super) periods: Vec<Option<Period>>,
    pub(super) guards: Guards,
    /// A half that is a factor of a sum in a wider type: it is converted when it is loaded, not at each product.
    pub(super) widened: bool,
    /// The stage it reads, if it is not an operand.
    pub(super) stage: Option<StageId>,
    /// The operand it reads, if the stage does so itself, at known places.
    pub(super) operand: Option<OperandId>,
    /// Axes of the reader that each value axis of the read stage depends on, when it reads a stage: the reader's axis
    /// if it is plainly that, else `None`.
    pub(super) axes: Vec<Option<usize>>,
    /// As `axes`, where each point of the reader's axis has as many of the stage's to itself.
    pub(super) own: Vec<Option<usize>>,
    /// As `axes`, where the coordinate is the reader's plus a constant, which stands beside it.
    pub(super) near: Vec<Option<(usize, i64)>>,
}

impl Access {
    /// The part of the vectors along an axis, each of so many lanes, that lie across the end of a cache line, if the first
    /// element lies at the beginning of one: they take the place of two loads.
    pub(super) fn crossing(&self, vector_axis: usize, lanes: i64) -> f64 {
        let in_line = CACHE_LINE / self.elem_bytes.max(1) as i64;
        let strides = self.strides.iter().enumerate().filter(|&(axis, _)| axis != vector_axis);
        // Where vectors begin: at multiples of a power of two, since lines are one.
        let apart = strides.filter_map(|(_, &stride)| stride).fold(in_line.max(1), |apart, stride| {
            if stride == 0 { apart } else { apart.min(1 << stride.trailing_zeros().min(30)) }
        });
        let across = (0..in_line / apart).filter(|n| n * apart + lanes > in_line).count();
        across as f64 / (in_line / apart).max(1) as f64
    }

    /// Whether the rows at other points than along one axis lie so far apart that no prefetcher foresees the next one.
    pub(super) fn rows_are_far_apart(&self, vector_axis: usize) -> bool {
        // Taps of a window may lie closer together than its rows.
        let moves = |&n: &usize| n != vector_axis && self.steps[n] != Step::Zero;
        let strides = (0..self.steps.len()).filter(moves).filter_map(|n| self.strides[n]);
        let bytes = strides.map(|stride| stride.saturating_mul(self.elem_bytes as i64).saturating_abs()).min();
        bytes.unwrap_or(0) >= UNFORESEEN_STRIDE
    }

    /// Bytes of a first-level cache of so many that lines at other points than along one axis can take: those at distances
    /// with a large power of two in them meet in few sets.
    pub(super) fn room(&self, l1_bytes: u64, vector_axis: usize) -> i64 {
        let rows = (0..self.steps.len()).filter(|&n| n != vector_axis && self.steps[n] != Step::Zero);
        l1_bytes.cast_signed() / CACHE_SETS * rows.map(|n| self.cache_sets[n]).max().unwrap_or(CACHE_SETS)
    }
}

/// Conditions of a load, its own and those of stages looked through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guards {
    /// There are some.
    pub(super) any: bool,
    /// Some are tested when it runs: no zeros around the operand make that unnecessary.
    pub(super) tested: bool,
}

/// Loads of a stage.
pub(super) fn accesses(kernel: &Kernel, id: StageId, inlined: &[bool]) -> Vec<Access> {
    let stage = &kernel.stages[id];
    let identity: Vec<IndexExpr> = (0..stage.axes.len()).map(|i| IndexExpr::var(VarId::from_index(i))).collect();
    let mut found = Vec::new();
    collect(kernel, stage, id, &identity, inlined, Guards::default(), &mut found);
    found
}

fn collect(
    kernel: &Kernel,
    reader: &Stage,
    at: StageId,
    index: &[IndexExpr],
    inlined: &[bool],
    guards: Guards,
    found: &mut Vec<Access>,
) {
    for (load_id, op) in kernel.stages[at].body.ops.iter_enumerated() {
        let ScalarOp::Load(load) = op else { continue };
        if looks_up(kernel, &kernel.stages[at].body, load) {
            continue;
        }
        let through: Vec<IndexExpr> = load.index.iter().map(|e| e.substitute_vars(index)).collect();
        let guards = Guards {
            any: guards.any || !load.valid.is_empty(),
            tested: guards.tested || is_tested(kernel, reader, load, &through, index),
        };
        match load.source {
            Source::Stage(source, _) if source != at && inlined[source.index()] => {
                collect(kernel, reader, source, &through, inlined, guards, found);
            }
            _ => {
                let direct = std::ptr::eq(&kernel.stages[at], reader) && load.gather.is_empty();
                let operand = match load.source {
                    Source::Operand(operand) if direct => Some(operand),
                    _ => None,
                };
                let body = &kernel.stages[at].body;
                let widened = std::ptr::eq(&kernel.stages[at], reader)
                    && sums_products(reader)
                    && body
                        .ops
                        .iter()
                        .any(|op| widens(body, op) && matches!(op, ScalarOp::Cast(_, of) if *of == load_id));
                found.push(Access { operand, widened, ..access(kernel, reader, load, &through, guards) });
            }
        }
    }
}

/// Whether a load has conditions that its operand's halo does not make unnecessary.
fn is_tested(kernel: &Kernel, reader: &Stage, load: &Load, through: &[IndexExpr], index: &[IndexExpr]) -> bool {
    let Source::Operand(operand) = load.source else { return !load.valid.is_empty() };
    let valid = load.valid.iter().map(|bound| bound.map(|e| e.substitute_vars(index))).collect();
    let load = Load { index: through.to_vec(), valid, ..load.clone() };
    !outside_halo(&kernel.operands[operand], &load, &reader.ranges(&kernel.symbols)).is_empty()
}

fn access(kernel: &Kernel, reader: &Stage, load: &Load, index: &[IndexExpr], guards: Guards) -> Access {
    let (flat, stage) = match load.source {
        Source::Operand(operand) => (kernel.operands[operand].layout.flat(index), None),
        Source::Stage(source, _) => (Layout::dense(&kernel.stages[source].value_shape()).flat(index), Some(source)),
        Source::Buffer(_) => (IndexExpr::constant(0), None),
    };
    let flat = flat.simplify(&reader.ranges(&kernel.symbols));
    // Of elements in groups for dot products, the next group is the neighbour.
    let unit = super::dot::of(kernel, reader).map_or(1, |dot| dot.intrinsic.turns());
    let mut steps: Vec<Step> = (0..reader.axes.len()).map(|axis| step_of(kernel, reader, &flat, axis, unit)).collect();
    if !load.gather.is_empty() {
        // Positions read from data may depend on any axis that the position does; contiguous reads stay contiguous.
        for (axis, step) in steps.iter_mut().enumerate() {
            let var = VarId::from_index(axis);
            if *step == Step::Zero && load.gather.iter().any(|_| body_uses(&reader.body, var)) {
                *step = Step::Far;
            }
        }
    }
    let is_panelled = |axis: usize| steps[axis] == Step::One && flat.linear_in(VarId::from_index(axis)).is_none();
    let panelled = (0..reader.axes.len()).map(|axis| is_panelled(axis).then(|| panel_width(&flat, axis))).collect();
    let elem_bytes = load.dtype.size_bytes().unwrap_or(1);
    let strides: Vec<Option<i64>> = (0..reader.axes.len()).map(|axis| stride_of(&flat, axis)).collect();
    let cache_sets = strides
        .iter()
        .map(|stride| {
            let bytes = stride.unwrap_or(0).saturating_mul(elem_bytes as i64).unsigned_abs();
            // Addresses come back to the same set after as many steps as make a multiple of the span.
            let back = 1 << bytes.trailing_zeros().min(CACHE_SET_SPAN.trailing_zeros());
            if bytes == 0 { CACHE_SETS } else { CACHE_SET_SPAN / CACHE_LINE.max(back) }
        })
        .collect();
    let mut irregular: Vec<bool> = (0..reader.axes.len())
        .map(|axis| steps[axis] == Step::Far && flat.linear_in(VarId::from_index(axis)).is_none())
        .collect();
    let axes = index.iter().map(|e| e.as_var().map(EntityId::index)).collect();
    let own = |(position, e)| stage.and_then(|source| axis_of_own_points(kernel, reader, source, position, e));
    let own = index.iter().enumerate().map(own).collect();
    let near = |e: &IndexExpr| {
        let distance = e.constant_part();
        (e.clone() - distance).as_var().map(|var| (var.index(), distance))
    };
    let near = index.iter().map(|e| near(e).filter(|_| load.gather.is_empty())).collect();
    let mut periods: Vec<Option<Period>> = (0..reader.axes.len())
        .map(|axis| if irregular[axis] { period_of(kernel, reader, &flat, axis) } else { None })
        .collect();
    for axis in 0..reader.axes.len() {
        // A few neighbours that come again and again are one load for all lanes, as a single element is.
        if periods[axis].is_some_and(Period::is_repeated) && load.gather.is_empty() && !guards.tested {
            (steps[axis], irregular[axis], periods[axis]) = (Step::Zero, false, None);
        }
    }
    Access {
        elem_bytes,
        flat,
        steps,
        panelled,
        strides,
        cache_sets,
        irregular,
        periods,
        guards,
        widened: false,
        stage,
        operand: None,
        axes,
        own,
        near,
    }
}

/// The axis of a reader of which each point reads points of its own, as many, of an axis of another stage: `s·x + c` with
/// `c < s`, where that axis is `s` times as long.
fn axis_of_own_points(
    kernel: &Kernel,
    reader: &Stage,
    source: StageId,
    position: usize,
    e: &IndexExpr,
) -> Option<usize> {
    let (_, axis) = kernel.stages[source].value_axes().nth(position)?;
    (0..reader.axes.len()).find(|&own| {
        let points = points_per_point(&axis.extent, &reader.axes[own].extent);
        let Some((step, rest)) = e.linear_in(VarId::from_index(own)) else { return false };
        let within = |points| rest.as_const().is_some_and(|c| (0..points).contains(&c));
        points.is_some_and(|points| step.is_const(points) && within(points))
    })
}

/// How many times as long one extent is as another, if it is more than once and known.
pub(super) fn points_per_point(long: &Dim, short: &Dim) -> Option<i64> {
    let (long, short) = (long.as_const()?, short.as_const()?);
    (short > 0 && long > short && long % short == 0).then(|| long / short)
}

fn body_uses(body: &Body, var: VarId) -> bool {
    body.ops.iter().any(|op| match op {
        ScalarOp::Load(load) => load.gather.is_empty() && load.index.iter().any(|e| e.uses_var(var)),
        _ => false,
    })
}

/// Elements by which a flat index moves along an axis, if that is the same everywhere and known.
pub(super) fn stride_of(flat: &IndexExpr, axis: usize) -> Option<i64> {
    flat.linear_in(VarId::from_index(axis)).and_then(|(by, _)| by.as_const())
}

/// The width of panels along an axis: the largest number that its coordinate is taken apart by.
fn panel_width(flat: &IndexExpr, axis: usize) -> i64 {
    let mut width = PANEL;
    flat.for_each_atom(&mut |atom| {
        if let Atom::FloorDiv(parts) | Atom::Mod(parts) = atom
            && parts.0.as_var() == Some(VarId::from_index(axis))
        {
            width = width.max(parts.1.as_const().unwrap_or(PANEL));
        }
    });
    width
}

/// The period of a flat index along an axis, if its coordinate is only taken apart by one number.
fn period_of(kernel: &Kernel, stage: &Stage, flat: &IndexExpr, axis: usize) -> Option<Period> {
    let var = VarId::from_index(axis);
    let mut points = None;
    flat.for_each_atom(&mut |atom| {
        if let Atom::FloorDiv(parts) | Atom::Mod(parts) = atom
            && parts.0.as_var() == Some(var)
        {
            points = points.or(parts.1.as_const());
        }
    });
    let points = points.filter(|&n| n > 1)?;
    let (outer, inner) = (VarId::from_index(stage.axes.len()), VarId::from_index(stage.axes.len() + 1));
    let mut ranges = stage.ranges(&kernel.symbols);
    ranges.set_var(inner, Interval::new(0, points - 1));
    ranges.set_var(outer, Interval { min: Some(0), max: None });
    let apart = |atom: &Atom| match atom {
        Atom::Var(v) if *v == var => Some(IndexExpr::var(outer).scale(points) + IndexExpr::var(inner)),
        _ => None,
    };
    let flat = flat.substitute(&apart).simplify(&ranges);
    let (across, rest) = flat.linear_in(outer)?;
    let (within, _) = rest.linear_in(inner)?;
    Some(Period { points, within: within.as_const()?, across: across.as_const()? })
}

/// The movement of a flat index along an axis of a stage.
pub(super) fn step(kernel: &Kernel, stage: &Stage, flat: &IndexExpr, axis: usize) -> Step {
    step_of(kernel, stage, flat, axis, 1)
}

/// As [`step`], where neighbours are `unit` elements apart.
pub(super) fn step_of(kernel: &Kernel, stage: &Stage, flat: &IndexExpr, axis: usize, unit: i64) -> Step {
    let var = VarId::from_index(axis);
    if !flat.uses_var(var) {
        return Step::Zero;
    }
    // Within a panel: the coordinate as 16·a + b.
    let (outer, inner) = (VarId::from_index(stage.axes.len()), VarId::from_index(stage.axes.len() + 1));
    let mut ranges = stage.ranges(&kernel.symbols);
    // A short axis may be part of a panel.
    let points = stage.axes[axis].extent.as_const().map_or(PANEL, |extent| extent.clamp(1, PANEL));
    ranges.set_var(inner, Interval::new(0, points - 1));
    ranges.set_var(outer, Interval { min: Some(0), max: None });
    let split = flat
        .substitute(&|atom| match atom {
            Atom::Var(v) if *v == var => Some(IndexExpr::var(outer).scale(PANEL) + IndexExpr::var(inner)),
            _ => None,
        })
        .simplify(&ranges);
    match split.linear_in(inner) {
        Some((c, _)) if c.is_const(unit) => Step::One,
        Some((c, _)) if c.is_const(0) => Step::Zero,
        _ => Step::Far,
    }
}

/// Whether a load is a function of a byte, which is no access to neighbours of anything ([`Load::looks_up`]).
fn looks_up(kernel: &Kernel, body: &Body, load: &Load) -> bool {
    let Source::Operand(operand) = load.source else { return false };
    load.looks_up(body, &kernel.operands[operand].layout.len_elems)
}

/// Vector instructions that a body takes per point, loads not counted; expensive functions weigh more.
pub(super) fn cost(stage: &Stage) -> f64 {
    let mut cost = 0.0;
    let multiplies_into_sum = sums_products(stage);
    for op in stage.body.ops.iter() {
        // See `Access::widened`.
        cost += if multiplies_into_sum && widens(&stage.body, op) { 0.0 } else { operation_cost(op) };
    }
    if let Some(reducer) = &stage.reducer {
        let combine: f64 = reducer.combine.ops.iter().map(operation_cost).sum();
        // A product that is summed is one multiply-add.
        cost += if multiplies_into_sum { 0.0 } else { combine };
    }
    cost.max(0.5)
}

/// Whether a stage sums products.
fn sums_products(stage: &Stage) -> bool {
    let sums = stage.reducer.as_ref().is_some_and(|r| r.as_binary() == Some(infc_ir::scalar::BinaryOp::Add));
    let is_product = |root| matches!(stage.body.ops[root], ScalarOp::Binary(infc_ir::scalar::BinaryOp::Mul, _, _));
    sums && matches!(stage.results[..], [root] if is_product(root))
}

/// Whether an operation converts a half that is loaded.
fn widens(body: &Body, op: &ScalarOp) -> bool {
    let is_half = |of| matches!(&body.ops[of], ScalarOp::Load(load) if matches!(load.dtype, DType::F16 | DType::BF16));
    matches!(op, ScalarOp::Cast(DType::F32, of) if is_half(*of))
}

/// Vector instructions of a function of a byte that is a table.
const LOOK_UP: f64 = 10.0;

/// Vector instructions that an operation takes, about; none for what is a constant or is loaded.
#[must_use]
pub fn operation_cost(op: &ScalarOp) -> f64 {
    match op {
        // What finds its place in data is a function, if it is not an embedding.
        ScalarOp::Load(load) if !load.gather.is_empty() && load.dtype.size_bytes() == Some(1) => LOOK_UP,
        ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Load(_) | ScalarOp::Index(_) => 0.0,
        ScalarOp::Unary(op, _) => match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc => 1.0,
            UnaryOp::Sqrt | UnaryOp::Reciprocal => 8.0,
            UnaryOp::Sign | UnaryOp::Round | UnaryOp::Tf32 | UnaryOp::IsNan | UnaryOp::IsInf => 2.0,
            _ => 14.0,
        },
        ScalarOp::Binary(infc_ir::scalar::BinaryOp::Div | infc_ir::scalar::BinaryOp::Mod, ..) => 8.0,
        ScalarOp::Binary(infc_ir::scalar::BinaryOp::Pow, ..) => 30.0,
        _ => 1.0,
    }
}

/// The extent of an axis, or a guess where it is symbolic.
pub(super) fn extent(kernel: &Kernel, stage: &Stage, axis: usize) -> i64 {
    let e = &stage.axes[axis].extent;
    e.as_const().unwrap_or_else(|| {
        let interval = infc_ir::index::Ranges::of_symbols(&kernel.symbols).interval(e);
        interval.max.map_or(64, |m| m.min(64)).max(interval.min.unwrap_or(1)).max(1)
    })
}

/// Points of the reduction axes together.
pub(super) fn reduction_points(kernel: &Kernel, stage: &Stage) -> f64 {
    let axes = (0..stage.axes.len()).filter(|&a| stage.axes[a].kind == AxisKind::Reduce);
    axes.map(|a| extent(kernel, stage, a) as f64).product()
}
