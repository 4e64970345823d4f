//! Taps that a tile meets nothing but padding with.

use super::access::extent;
use super::chooser::Chooser;
use super::tile::Tile;
use crate::schedule::padding::{for_any, padded_by};
use crate::schedule::point::outside_halo;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::Source;
use infc_ir::schedule::Step as ScheduleStep;

/// The part of all turns that has to be left out to be worth asking at each.
const LEAST_SHARE: f64 = 1.0 / 16.0;

/// Cycles that have to be saved for each time that it is asked.
const LEAST_SAVED: f64 = 8.0;

/// The part that is worth more than rows and columns counted as one are.
const MUCH: f64 = 0.25;

/// Tiles and turns that are looked at for that.
const MOST_TURNS: i64 = 1 << 14;

/// Sizes that only the run tells are taken to be the first of these at which the axes that meet padding have
/// [`USUAL_POINTS`].
const SIZES: [i64; 4] = [64, 256, 1024, 4096];

/// See [`SIZES`].
const USUAL_POINTS: i64 = 32;

impl Chooser<'_> {
    /// Leaves out turns of reduction loops in which tiles meet nothing but padding, where these are more than few.
    pub(super) fn skip_padding(&mut self, id: StageId, tile: &Tile, reduction: &[String]) {
        let stage = &self.kernel.stages[id];
        let padded = padded_by(self.kernel, id);
        if padded.is_empty() {
            return;
        }
        let results = (tile.vectors * tile.rows.iter().map(|&(_, n)| n).product::<i64>()) as f64;
        for (axis, reduced) in stage.reduce_axes() {
            let Some(at) = reduction.iter().position(|name| *name == reduced.name) else { continue };
            let meets = |bound: &&Bound| bound.expr.uses_var(VarId::from_index(axis));
            let share = padded
                .iter()
                .filter(meets)
                .filter_map(|bound| share_of_padding(self.kernel, id, &|a| tile.points(a), axis, bound));
            let share = share.fold(0.0, f64::max);
            let is_of =
                |name: &str, inner: &str| inner.strip_prefix(name).is_some_and(|s| s.is_empty() || s.starts_with('_'));
            let is_inside = |name: &str| reduction[at + 1..].iter().any(|inner| is_of(name, inner));
            let inside = stage.reduce_axes().filter(|(n, a)| *n != axis && is_inside(&a.name));
            let points: f64 = inside.map(|(n, _)| extent(self.kernel, stage, n) as f64).product();
            let turn = results * points / self.points_at_once(id) as f64 / self.machine.arithmetic_per_cycle;
            let frees = padded.iter().filter(meets).any(|bound| self.frees_of_tests(id, tile, axis, bound));
            if frees || (share >= LEAST_SHARE && share * turn >= LEAST_SAVED) {
                self.steps.push(ScheduleStep::Skip { stage: stage.name.clone(), axis: reduced.name.clone() });
            }
        }
    }

    /// Whether a tile's reads are tested for a condition of the padding, which is wider than the halo, and would not be if turns
    /// that meet nothing else were left out.
    fn frees_of_tests(&self, id: StageId, tile: &Tile, axis: usize, bound: &Bound) -> bool {
        let stage = &self.kernel.stages[id];
        let ranges = stage.ranges(&self.kernel.symbols);
        let vars: Vec<IndexExpr> = (0..stage.axes.len()).map(|a| IndexExpr::var(VarId::from_index(a))).collect();
        let points = |a: usize| match stage.axes[a].kind {
            _ if a == axis => Some(1),
            AxisKind::Reduce => stage.axes[a].extent.as_const(),
            _ => Some(tile.points(a)),
        };
        let Some(met) = for_any(bound, &vars, &points) else { return false };
        let Some(span) = (bound.lo.clone() - met.lo).as_const() else { return false };
        let mut frees = false;
        stage.for_each_load(&mut |_, load| {
            let Source::Operand(operand) = load.source else { return };
            let operand = &self.kernel.operands[operand];
            let is_wide = |(index, &(before, after)): (&IndexExpr, &(i64, i64))| {
                *index == bound.expr && before >= span && after >= span
            };
            let is_enough = load.index.iter().zip(&operand.layout.halo).any(is_wide);
            frees |= is_enough && outside_halo(operand, load, &ranges).contains(bound);
        });
        frees
    }
}

/// Whether more than a few turns over taps would be left out of tiles with one point along each of some axes.
pub(super) fn meets_much_padding(kernel: &Kernel, id: StageId, axes: &[usize]) -> bool {
    let stage = &kernel.stages[id];
    let uses = |bound: &Bound, axis: usize| bound.expr.uses_var(VarId::from_index(axis));
    padded_by(kernel, id).iter().filter(|bound| axes.iter().any(|&axis| uses(bound, axis))).any(|bound| {
        let mut taps = stage.reduce_axes().map(|(axis, _)| axis).filter(|&axis| uses(bound, axis));
        taps.any(|axis| share_of_padding(kernel, id, &|_| 1, axis, bound).is_some_and(|share| share >= MUCH))
    })
}

/// Of the turns over a reduction axis in all tiles of so many points per axis, the part in which a condition of the padding fails
/// for the whole tile, at usual sizes where they are not known; `None` if that cannot be told.
fn share_of_padding(
    kernel: &Kernel,
    id: StageId,
    tile: &dyn Fn(usize) -> i64,
    axis: usize,
    bound: &Bound,
) -> Option<f64> {
    let stage = &kernel.stages[id];
    let moving: Vec<usize> = (0..stage.axes.len()).filter(|&a| bound.expr.uses_var(VarId::from_index(a))).collect();
    let is_usual = |&size: &i64| {
        let points = |&a: &usize| stage.axes[a].extent.at_size(&kernel.symbols, size).unwrap_or(0);
        moving.iter().filter(|&&a| stage.axes[a].kind == AxisKind::Parallel).all(|a| points(a) >= USUAL_POINTS)
    };
    let size = SIZES.into_iter().find(is_usual).unwrap_or(SIZES[0]);
    let number = |e: &IndexExpr| e.at_size(&kernel.symbols, size);
    let extents: Vec<i64> = moving.iter().map(|&a| number(&stage.axes[a].extent)).collect::<Option<_>>()?;
    // What else is summed is taken to be inside of the loop.
    let points = |(&a, &extent): (&usize, &i64)| match stage.axes[a].kind {
        _ if a == axis => 1,
        AxisKind::Reduce => extent.max(1),
        _ => tile(a),
    };
    let points: Vec<i64> = moving.iter().zip(&extents).map(points).collect();
    let turns = |(extent, points): (&i64, &i64)| Some(extent.checked_add(points - 1)? / points);
    let turns: Vec<i64> = extents.iter().zip(&points).map(turns).collect::<Option<_>>()?;
    let all = turns.iter().try_fold(1i64, |n, &turns| n.checked_mul(turns));
    let all = all.filter(|n| (1..=MOST_TURNS).contains(n))?;
    let is_padding = |turn: i64| {
        let (mut base, mut sizes) = (vec![0; stage.axes.len()], vec![1; stage.axes.len()]);
        let mut rest = turn;
        for (n, &a) in moving.iter().enumerate() {
            base[a] = rest % turns[n] * points[n];
            sizes[a] = points[n].min(extents[n] - base[a]);
            rest /= turns[n];
        }
        let base: Vec<IndexExpr> = base.into_iter().map(IndexExpr::constant).collect();
        let Bound { expr, lo, hi } = for_any(bound, &base, &|a| Some(sizes[a]))?;
        Some(!(number(&lo)?..number(&hi)?).contains(&number(&expr)?))
    };
    let padding = (0..all).map(is_padding).try_fold(0, |sum, is| is.map(|is| sum + i64::from(is)))?;
    Some(padding as f64 / all as f64)
}
