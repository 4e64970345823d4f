//! Constants of contractions, arranged so that vectors of columns lie in the order in which they are used.
//!
//! The right operand of a contraction is read at `(columns, what is summed)`. Its packed form has panels of 16
//! neighbouring columns: `[ceil(N/16)][K…][16]`, padded with zeros, the summed axes in the order of the reduction. All
//! vector widths stream that form, so all feature levels share one copy. That holds too where the columns are shared with
//! the left operand (depthwise): rows of all columns would lie in a page each.
//!
//! Groups of few columns each, 2, 4 or 8, of which the left operand has what their sums read side by side, share panels
//! `[ceil(G·N/16)][K…][16]`, so that lanes may run along the columns of several groups (`choose::join`).
//!
//! Fewer than 8 columns, or none (a sum of products per row), would leave most lanes of a vector of columns empty, and
//! so may a few more. They lie one after the other, `[N][K…]`, so that vectors run along what is summed, if the left
//! operand is contiguous there.
//!
//! Bytes that are summed in 32 bits are grouped by four along the innermost summed axis, `[ceil(N/16)][K/4][16][4]`, and
//! bfloat16 numbers by two, if the left operand has its elements there in groups too: dot products take them so.
//!
//! Columns that are the gates of a recurrence, those of all units for one gate behind those for another, lie unit by unit if the
//! weights are more than caches near a core hold, `[U/16][K…][gates][16]`: a step reads those of some units from the first to the
//! last without a gap. Where they are grouped, too, groups are innermost.
//!
//! Columns that would leave lanes empty are taken apart into several sums ([`interleaved`]): panels of `16 / S` columns, in
//! which each has `S` neighbours along the innermost summed axis next to each other, `[ceil(S·N/16)][K/S][16/S][S]`, if the
//! left operand has its elements there in groups too.
//!
//! Three or six columns that are shared with the left operand are repeated ([`repeated`]), `[K…][48]`, so that lanes which run
//! along rows and columns have theirs in place.
//!
//! Plans for GPUs alone have panels of a whole line of memory ([`Packs::line_bytes`]), `[ceil(N/64)][K…][64]` of halves, or of a half or
//! a quarter of one where the last would waste much, so that threads which copy a row of one read a line together. Bytes lie there
//! one column after the other, `[N][K…]`, as the matrices do that warps multiply, if there are rows enough.
//!
//! What an operand is made of where it is read has panels of 16 as well, for all ([`decoded`]).

mod decoded;
pub(crate) mod interleaved;
mod repeated;

use super::contraction::{Contraction, contraction, uses};
use super::plan::Packing;
use crate::formulate::interleave;
use crate::schedule::choose::{Gates, gates, step_in_groups};
use crate::schedule::point::outside_halo;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{OperandId, ScalarId, StageId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{AxisKind, Kernel, Layout};
use infc_ir::scalar::{Load, ScalarOp, Source};
use infc_ir::schedule::Intrinsic;
use infc_tensor::DType;

/// Columns per panel.
const PANEL: i64 = 16;
/// Fewer columns than this are not worth a panel, and fewer summed points no vector.
const MIN_COLUMNS: i64 = 8;

/// Products that it takes as long as to fold the lanes of one sum (docs/perf-log.md).
const FOLD: i64 = 40;

/// Elements of the left operand that the groups of a panel read at one point of the sum, from the first to the last: what
/// one instruction puts lanes together of.
const MOST_SIDE_BY_SIDE: i64 = 32;

/// Bytes of the elements whose lanes can be moved.
const GROUPED_BYTES: usize = 4;

/// How many elements a packed constant may have beyond twice its own (padding at most doubles it).
const MAX_EXTRA: i64 = 1 << 14;

/// Weights of a recurrence up to which a step reads those of all gates at once as quickly as one after the other: what the caches
/// near a core hold. An LSTM of 64 units lost 11 % with the gates of a unit side by side, of 128 nothing, of 256 gained 9.
const MOST_STREAMS_BYTES: i64 = 256 << 10;

/// The part of a constant that wide panels may add to it.
const MOST_WASTE: i64 = 8;

/// In which order the elements of a constant lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    /// Panels of columns, in each all that is summed.
    Panels,
    /// All that is summed, next to each other, per column.
    Columns,
    /// All columns, several times, per summed point.
    Repeated,
}

/// How constants are packed.
#[derive(Clone, Copy, Debug)]
pub struct Packs {
    /// For dot products where sums may be folded in another order for that.
    pub reorders: bool,
    /// Bytes of a row of a panel, if rows are to be lines of memory, for GPUs; else it has 16 columns, which vectors of all widths
    /// take.
    pub line_bytes: Option<i64>,
}

impl Packs {
    /// Columns of a panel of so many that take `size` bytes each: a line, or the part of one of which the last panel wastes
    /// little.
    fn width(self, columns: i64, size: i64) -> i64 {
        let Some(line) = self.line_bytes else { return PANEL };
        let widths = std::iter::successors(Some(line / size), |width| Some(width / 2)).take_while(|&w| w > PANEL);
        let padded = |width: i64| (columns + width - 1) / width * width;
        widths.into_iter().find(|&width| padded(width) - columns <= columns / MOST_WASTE).unwrap_or(PANEL)
    }
}

/// How an operand's load changes.
struct Change {
    /// The stage with the load.
    stage: StageId,
    operand: OperandId,
    load: ScalarId,
    index: Vec<IndexExpr>,
    packing: Packing,
}

/// Packs the constants of a kernel's contractions, as far as `admits` says, and rewrites their loads. Axes must have their final
/// order.
pub fn pack(
    kernel: &mut Kernel,
    packs: Packs,
    admits: &mut dyn FnMut(OperandId, &Packing) -> bool,
) -> Vec<(OperandId, Packing)> {
    let mut packed = Vec::new();
    for stage in kernel.stages.ids().collect::<Vec<_>>() {
        let changes = match change(kernel, stage, packs) {
            Some(change) => vec![change],
            None => decoded::changes(kernel, stage, packs),
        };
        let before = packed.len();
        apply(kernel, changes, &mut packed, admits);
        if packed.len() > before {
            let beside = decoded::beside(kernel, stage);
            apply(kernel, beside, &mut packed, admits);
        }
    }
    packed
}

/// Makes the changes that are admitted, each operand's first.
fn apply(
    kernel: &mut Kernel,
    changes: Vec<Change>,
    packed: &mut Vec<(OperandId, Packing)>,
    admits: &mut dyn FnMut(OperandId, &Packing) -> bool,
) {
    for Change { stage, operand, load, index, packing } in changes {
        if packed.iter().any(|(o, _)| *o == operand) || !admits(operand, &packing) {
            continue;
        }
        let o = &mut kernel.operands[operand];
        o.shape.clone_from(&packing.shape);
        o.layout = Layout::dense(&packing.shape);
        if let ScalarOp::Load(l) = &mut kernel.stages[stage].body.ops[load] {
            l.index = index;
        }
        packed.push((operand, packing));
    }
}

/// Lanes of multiply-adds that a row of sums takes in vectors of columns, some of which may stay empty.
fn lanes_along_columns(columns: i64, points: i64) -> i64 {
    whole_vectors(columns).saturating_mul(points)
}

/// Lanes of multiply-adds that a row of sums takes in vectors along `points` summed points, `innermost` of them next to
/// each other, with what folding the lanes takes in the end.
fn lanes_along_sums(columns: i64, points: i64, innermost: i64) -> i64 {
    let along = (points / innermost.max(1)).saturating_mul(whole_vectors(innermost)).saturating_add(FOLD);
    along.saturating_mul(columns)
}

fn whole_vectors(n: i64) -> i64 {
    (n + PANEL - 1) / PANEL * PANEL
}

/// Whether columns lie one after the other, if the left operand lets them: where there are few, or where vectors of
/// columns cost clearly more.
fn are_few(columns: i64, points: i64, innermost: i64) -> bool {
    let empty = || lanes_along_sums(columns, points, innermost) / 3 < lanes_along_columns(columns, points) / 4;
    innermost >= MIN_COLUMNS && (columns < MIN_COLUMNS || (columns > MIN_COLUMNS && columns < PANEL && empty()))
}

/// Lanes of multiply-adds per row of a contraction whose left operand has `innermost` summed points next to each other.
/// Columns stay together in it: where vectors of 8 are filled, as on x86-64-v3, taking them apart gains nothing.
pub(crate) fn lanes_per_row(columns: i64, points: i64, innermost: i64) -> i64 {
    match are_few(columns, points, innermost) {
        true => lanes_along_sums(columns, points, innermost),
        false => lanes_along_columns(columns, points),
    }
}

/// How often the kernel reads an operand.
fn read_count(kernel: &Kernel, operand: OperandId) -> usize {
    let mut count = 0;
    for stage in kernel.stages.iter() {
        stage.for_each_load(&mut |_, l| count += usize::from(l.source == Source::Operand(operand)));
    }
    count
}

fn change(kernel: &Kernel, stage: StageId, packs: Packs) -> Option<Change> {
    let Packs { reorders, line_bytes } = packs;
    let c = contraction(kernel, &kernel.stages[stage])?;
    let Source::Operand(operand) = c.rhs.source else { return None };
    // Where a constant begins may be a number of the run, which packing cannot know.
    let is_known = c.rhs.index.iter().all(|e| e.symbols().is_empty());
    let plain = c.rhs.valid.is_empty() && c.rhs.gather.is_empty() && is_known;
    if !c.rhs_is_constant || !plain || read_count(kernel, operand) != 1 {
        return None;
    }
    let axes = &kernel.stages[stage].axes;
    let extent = |v: VarId| axes[v.0 as usize].extent.as_const();
    let column = c.columns().into_iter().next();
    let n = column.map_or(Some(1), extent)?;
    let used: Vec<VarId> = (0..axes.len() as u32).map(VarId).filter(|&v| uses(c.rhs, v)).collect();
    let of_kind = |reduce: bool| -> Vec<VarId> {
        let is_reduce = |v: VarId| axes[v.0 as usize].kind == AxisKind::Reduce;
        used.iter().copied().filter(|&v| Some(v) != column && is_reduce(v) == reduce).collect()
    };
    let (mut outer, summed) = (of_kind(false), of_kind(true));
    let is_shared = column.is_some_and(|column| uses(c.lhs, column));
    let points = summed.iter().try_fold(1i64, |points, &v| points.checked_mul(extent(v)?))?;
    let innermost = summed.last().copied().filter(|_| !is_shared);
    let is_adjacent = |load: &Load, v: VarId| {
        let Source::Operand(operand) = load.source else { return false };
        let flat = kernel.operands[operand].layout.flat(&load.index);
        flat.linear_in(v).is_some_and(|(step, _)| step.is_const(1))
    };
    let few = |&v: &VarId| is_adjacent(c.lhs, v) && extent(v).is_some_and(|len| are_few(n, points, len));
    let groups = column.and_then(|column| groups_side_by_side(kernel, &c, column, &outer));
    // Sums of columns taken apart.
    let may_part = reorders
        && line_bytes.is_none()
        && groups.is_none()
        && c.rhs.dtype == DType::F32
        && interleave::is_possible(kernel, stage);
    let apart = innermost.filter(|_| may_part).and_then(|v| {
        let sums = interleaved::sums(n, points, extent(v)?)?;
        is_grouped(kernel, &c, v, sums).then_some((v, sums))
    });
    // Bytes as warps multiply matrices of them.
    let is_byte = |dtype| matches!(dtype, DType::I8 | DType::U8);
    let are_bytes = is_byte(c.lhs.dtype) && is_byte(c.rhs.dtype) && c.stage.dtypes()[..] == [DType::I32];
    // Few rows are no matrix.
    let own = |v: &VarId| axes[v.0 as usize].kind != AxisKind::Reduce && uses(c.lhs, *v) && !uses(c.rhs, *v);
    let rows = (0..axes.len() as u32).map(VarId).filter(own).try_fold(1i64, |n, v| n.checked_mul(extent(v)?));
    let are_bytes = are_bytes && rows.is_none_or(|rows| rows >= PANEL);
    let as_matrices = |v: &VarId| line_bytes.is_some() && are_bytes && is_adjacent(c.lhs, *v) && column.is_some();
    let as_matrices = innermost.filter(|v| as_matrices(v) && groups.is_none());
    let summed_in_lanes = as_matrices.or(innermost.filter(|v| few(v) && apart.is_none()));
    let repeated = column.filter(|_| is_shared && groups.is_none());
    let repeated = repeated.and_then(|column| repeated::rows(kernel, &c, column));
    let arrangement = match summed_in_lanes {
        // They lie so already.
        Some(v) if is_adjacent(c.rhs, v) && n < MIN_COLUMNS => return None,
        Some(_) => Arrangement::Columns,
        None if repeated.is_some() => Arrangement::Repeated,
        None if n < MIN_COLUMNS && groups.is_none() && !is_shared => return None,
        None => Arrangement::Panels,
    };
    let in_panels = arrangement == Arrangement::Panels;
    let group =
        dot(&c).filter(|dot| in_panels && line_bytes.is_none() && (dot.is_exact() || reorders)).map(Intrinsic::turns);
    let in_groups = |&(v, group): &(VarId, i64)| {
        // Rows may be in parts, such as the heads of attention, if groups lie whole in one.
        let lies_so = step_in_groups(kernel, c.stage, c.lhs, v.0 as usize, group) == Some(1);
        lies_so && has_whole_groups(kernel, &c, v, group)
    };
    let grouped = summed.last().copied().zip(group).filter(in_groups).or(apart);

    // Packed axes, each with its extent, the reader's coordinate, and a name.
    let var = IndexExpr::var;
    // Columns of a panel.
    let width = match repeated {
        Some((_, times)) => n.checked_mul(times)?,
        None => apart.map_or(packs.width(n, c.rhs.dtype.size_bytes()? as i64), |(_, sums)| PANEL / sums),
    };
    let wide = IndexExpr::constant(width);
    let mut of_column = column.map_or(IndexExpr::constant(0), var);
    if let Some((rows, times)) = repeated {
        of_column = of_column + var(rows).modulo(&times.into()).scale(n);
    }
    let (in_group, mut n) = (n, n);
    let groups = groups.filter(|_| in_panels && grouped.is_none());
    if let Some(group) = groups {
        outer.retain(|&v| v != group);
        of_column = of_column + var(group).scale(n);
        n = n.checked_mul(extent(group)?)?;
    }
    let is_plain = in_panels && apart.is_none() && groups.is_none() && line_bytes.is_none();
    let bytes = in_group.saturating_mul(points).saturating_mul(c.rhs.dtype.size_bytes()? as i64);
    let gates = gates(kernel, stage).filter(|gates| is_plain && column == Some(VarId(gates.axis as u32)));
    let gates = gates.filter(|_| bytes > MOST_STREAMS_BYTES);
    if let Some(Gates { units, .. }) = gates {
        of_column = of_column.modulo(&units.into());
        n = units;
    }
    let panels = (n + width - 1) / width;
    let mut packed: Vec<(i64, IndexExpr, String)> = Vec::new();
    for &v in &outer {
        packed.push((extent(v)?, var(v), axes[v.0 as usize].name.clone()));
    }
    let column_at = packed.len();
    match arrangement {
        Arrangement::Panels => packed.push((panels, of_column.floor_div(&wide), format!("N/{width}"))),
        Arrangement::Columns => packed.push((n, of_column.clone(), "N".to_owned())),
        Arrangement::Repeated => {}
    }
    let first_summed = packed.len();
    for &v in &summed {
        let name = axes[v.0 as usize].name.clone();
        packed.push(match grouped {
            Some((g, group)) if g == v => {
                (extent(v)? / group, var(v).floor_div(&IndexExpr::constant(group)), format!("{name}/{group}"))
            }
            _ => (extent(v)?, var(v), name),
        });
    }
    if let Some((Gates { units, .. }, column)) = gates.zip(column) {
        packed.push((in_group / units, var(column).floor_div(&units.into()), "gates".to_owned()));
    }
    let lane_at = packed.len();
    match arrangement {
        Arrangement::Panels => packed.push((width, of_column.modulo(&wide), width.to_string())),
        Arrangement::Columns => {}
        Arrangement::Repeated => packed.push((width, of_column.clone(), width.to_string())),
    }
    if let Some((v, group)) = grouped {
        packed.push((group, var(v).modulo(&IndexExpr::constant(group)), group.to_string()));
    }

    // A window over a constant would be written out in full; such a constant stays as it is.
    let product = |extents: Vec<Option<i64>>| extents.into_iter().try_fold(1i64, |n, e| n.checked_mul(e?));
    let original = product(kernel.operands[operand].shape.iter().map(Dim::as_const).collect())?;
    let padded = product(packed.iter().map(|(extent, _, _)| Some(*extent)).collect())?;
    if padded > original.saturating_mul(2).saturating_add(MAX_EXTRA) {
        return None;
    }

    // Back from packed coordinates to those of the load's variables.
    let at = |n: usize| IndexExpr::var(VarId(n as u32));
    let mut variables = vec![IndexExpr::constant(0); axes.len()];
    for (n, &v) in outer.iter().enumerate() {
        variables[v.0 as usize] = at(n);
    }
    for (n, &v) in summed.iter().enumerate() {
        let coordinate = at(first_summed + n);
        let group = grouped.filter(|&(g, _)| g == v);
        variables[v.0 as usize] = match group {
            Some((_, group)) => coordinate.scale(group) + at(lane_at + 1),
            None => coordinate,
        };
    }
    let columns = match arrangement {
        Arrangement::Panels => at(column_at).scale(width) + at(lane_at),
        Arrangement::Columns => at(column_at),
        Arrangement::Repeated => at(lane_at).modulo(&in_group.into()),
    };
    if let Some(column) = column {
        variables[column.0 as usize] = match (groups, gates) {
            (Some(_), _) => columns.modulo(&IndexExpr::constant(in_group)),
            (None, Some(Gates { units, .. })) => at(lane_at - 1).scale(units) + columns.clone(),
            (None, None) => columns.clone(),
        };
    }
    if let Some(group) = groups {
        variables[group.0 as usize] = columns.floor_div(&IndexExpr::constant(in_group));
    }
    let index = c.rhs.index.iter().map(|e| e.substitute_vars(&variables)).collect();
    let valid = if n % width == 0 || !in_panels {
        Vec::new()
    } else {
        vec![Bound { expr: columns, lo: IndexExpr::constant(0), hi: IndexExpr::constant(n) }]
    };
    let shape: Vec<Dim> = packed.iter().map(|(e, _, _)| Dim::constant(*e)).collect();
    let names: Vec<String> = packed.iter().map(|(_, _, name)| format!("[{name}]")).collect();
    let kind = match arrangement {
        Arrangement::Panels => "panels",
        Arrangement::Columns => "columns",
        Arrangement::Repeated => "repeated",
    };
    Some(Change {
        stage,
        operand,
        load: c.rhs_id,
        index: packed.iter().map(|(_, e, _)| e.clone()).collect(),
        packing: Packing {
            transform: None,
            map: AccessMap { rank: shape.len(), index, valid },
            shape,
            narrow: None,
            layout: format!("{kind}{}", names.concat()),
        },
    })
}

/// The axis of groups whose columns share panels: several groups' columns fill a panel without a rest, and the left operand
/// has what the sums of these groups read side by side, in as many lanes, or a few more.
fn groups_side_by_side(kernel: &Kernel, c: &Contraction<'_>, column: VarId, outer: &[VarId]) -> Option<VarId> {
    let &group = outer.last()?;
    let axes = &c.stage.axes;
    let extent = |v: VarId| axes[v.0 as usize].extent.as_const().filter(|&n| n > 1);
    let (n, _) = extent(column).zip(extent(group))?;
    let Source::Operand(lhs) = c.lhs.source else { return None };
    let flat = kernel.operands[lhs].layout.flat(&c.lhs.index);
    let apart = flat.linear_in(group)?.0.as_const()?;
    let near = apart > 0 && apart.checked_mul(PANEL / n)? <= MOST_SIDE_BY_SIDE;
    let few = n < PANEL && PANEL % n == 0 && c.rhs.dtype.size_bytes() == Some(GROUPED_BYTES);
    (few && near && !uses(c.lhs, column)).then_some(group)
}

/// What sums the products of a contraction several at a time.
pub(super) fn dot(c: &Contraction<'_>) -> Option<Intrinsic> {
    let &[sum] = &c.stage.dtypes()[..] else { return None };
    Intrinsic::of(sum, [c.lhs.dtype, c.rhs.dtype])
}

/// True if the left operand has all elements along the axis next to each other, in whole groups and without conditions.
fn is_grouped(kernel: &Kernel, c: &Contraction<'_>, axis: VarId, group: i64) -> bool {
    let Source::Operand(lhs) = c.lhs.source else { return false };
    let flat = kernel.operands[lhs].layout.flat(&c.lhs.index);
    let adjacent = flat.linear_in(axis).is_some_and(|(step, _)| step.is_const(1));
    adjacent && has_whole_groups(kernel, c, axis, group)
}

/// True if the left operand is read in whole groups of so many elements along the axis, without conditions.
fn has_whole_groups(kernel: &Kernel, c: &Contraction<'_>, axis: VarId, group: i64) -> bool {
    let whole = c.stage.axes[axis.0 as usize].extent.as_const().is_some_and(|n| n % group == 0);
    let tested = match c.lhs.source {
        Source::Operand(lhs) => outside_halo(&kernel.operands[lhs], c.lhs, &c.stage.ranges(&kernel.symbols)),
        Source::Stage(..) | Source::Buffer(_) => c.lhs.valid.clone(),
    };
    let unguarded = tested.iter().all(|b| !b.expr.uses_var(axis));
    whole && unguarded
}

/// True if the load is at exactly the coordinates at which an output is written.
pub(super) fn is_at(load: &Load, index: &[IndexExpr]) -> bool {
    load.index == index && load.gather.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For GPUs a line, or the part of one that wastes at most an eighth; for processors 16 columns.
    #[test]
    fn panels_are_lines() {
        let gpus = Packs { reorders: true, line_bytes: Some(128) };
        let widths = [768, 1000, 144, 96, 72, 24, 8].map(|columns| gpus.width(columns, 2));
        assert_eq!(widths, [64, 64, 32, 32, 16, 16, 16]);
        assert_eq!((gpus.width(768, 4), gpus.width(80, 4)), (32, 16));
        assert_eq!(Packs { line_bytes: None, ..gpus }.width(768, 2), 16);
    }

    /// Bytes lie as warps multiply them where there are rows enough for that.
    #[test]
    fn bytes_of_matrices_lie_by_columns() {
        let layout = |rows: i64, packs: Packs| {
            let text = format!(
                "kernel @k(a: u8[{rows}, 256], const w: i8[256, 96]) -> (y: i32[{rows}, 96]) {{
  stage s[m: {rows}, n: 96, reduce k: 256]: i32 = fold sum i32(a[m, k]) * i32(w[k, n])
  output y[m, n] = s[m, n]
}}
"
            );
            let mut kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
            let packed = pack(&mut kernel, packs, &mut |_, _| true);
            packed.into_iter().map(|(_, packing)| packing.layout).collect::<Vec<_>>()
        };
        let gpus = Packs { reorders: true, line_bytes: Some(128) };
        assert_eq!(layout(64, gpus), ["columns[N][k]"]);
        assert_eq!(layout(1, gpus), ["panels[N/32][k][32]"]);
        assert_eq!(layout(64, Packs { line_bytes: None, ..gpus }), ["panels[N/16][k/4][16][4]"]);
    }
}
