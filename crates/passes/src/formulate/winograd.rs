//! Correlations by minimal filtering (Winograd).
//!
//! A filter of `r` taps that slides over an axis takes `m·r` products for `m` results. Brought to `n = m + r − 1`
//! points it takes `n`, along every axis: of 3×3 filters, `F(4, 3)` needs a quarter of the multiply-adds and `F(2, 3)`
//! less than half. The kernel becomes
//!
//! ```text
//! v[f…, t…, c]    = Bᵀ along every window of the input's tile t
//! m[f…, t…, k]    = Σ_c v[f…, t…, c]·u[f…, c, k]       u: the filter, transformed when compiling
//! o[(t, p)…, k]   = Aᵀ along every window
//! ```
//!
//! and who read the sum at `x` reads `o` at tile `x div m`, place `x mod m`. Tiles may reach beyond the result: such
//! places are never computed, and what they need of the input is zero.
//!
//! Error class: reassociating. The transforms add terms that cancel, so an error is relative to the largest input of a
//! tile rather than to each output, and an infinity or NaN in the input reaches all outputs of its tile.

mod algebra;
mod correlation;
mod cost;
mod filter;

pub(crate) use algebra::Filtering;
pub(crate) use correlation::Correlation;
pub(crate) use cost::{Typical, Work};
pub use filter::FilterTransform;

use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, IndexVec, OperandId, ScalarId, StageId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, Source};
use infc_tensor::DType;

/// A kernel after the rewrite.
#[derive(Clone, Debug)]
pub struct Filtered {
    /// Computes the same, given the transformed constant.
    pub kernel: Kernel,
    /// The constant that is to be transformed, and how.
    pub filter: (OperandId, FilterTransform),
}

/// Computes the first correlation of a kernel with `outputs` results per application along each window. `None` if it has
/// none, or no filtering of that size is known.
#[must_use]
pub fn run(kernel: &Kernel, outputs: usize) -> Option<Filtered> {
    let correlation = kernel.stages.ids().find_map(|stage| Correlation::of(kernel, stage))?;
    filtered(kernel, &correlation, outputs)
}

/// The same for a correlation that is known.
pub(crate) fn filtered(kernel: &Kernel, correlation: &Correlation, outputs: usize) -> Option<Filtered> {
    let taps = usize::try_from(correlation.windows.first()?.taps).ok()?;
    if correlation.windows.iter().any(|w| usize::try_from(w.taps) != Ok(taps)) {
        return None;
    }
    let filtering = Filtering::new(outputs, taps)?;
    let rewrite = Rewrite { kernel, c: correlation, filtering: &filtering, outputs: outputs as i64 };
    let axes = correlation.windows.iter().map(|w| w.filter_axis).collect();
    let filter = (correlation.filter_operand, FilterTransform { outputs, taps, axes });
    Some(Filtered { kernel: rewrite.run(), filter })
}

struct Rewrite<'a> {
    kernel: &'a Kernel,
    c: &'a Correlation,
    filtering: &'a Filtering,
    outputs: i64,
}

/// How a sum over a row of a matrix is arranged, so that rows share parts.
#[derive(Clone, Copy)]
enum Sharing {
    /// Terms of even and odd places apart: rows of ±p differ in the sign of one.
    Parity,
    /// Terms of neighbouring columns together: those of ±p have the same factor but for its sign.
    Pairs,
}

impl Rewrite<'_> {
    fn run(&self) -> Kernel {
        let mut new = Kernel { stages: IndexVec::new(), ..self.kernel.clone() };
        let operand = &mut new.operands[self.c.filter_operand];
        for w in &self.c.windows {
            operand.shape[w.filter_axis] = Dim::constant(self.filtering.points() as i64);
        }
        operand.layout = Layout::dense(&operand.shape);
        let mut renamed: Vec<StageId> = Vec::new();
        for (id, stage) in self.kernel.stages.iter_enumerated() {
            if id == self.c.stage {
                let v = new.stages.push(self.input_stage());
                let m = new.stages.push(self.product_stage(v));
                renamed.push(new.stages.push(self.output_stage(m)));
                continue;
            }
            let mut stage = stage.clone();
            let ranges = stage.ranges(&self.kernel.symbols);
            for op in stage.body.ops.iter_mut() {
                let ScalarOp::Load(load) = op else { continue };
                let Source::Stage(source, component) = load.source else { continue };
                if source == self.c.stage {
                    load.index = self.tiled(&load.index).into_iter().map(|e| e.simplify(&ranges)).collect();
                }
                // A stage that reads later ones belongs to a recurrence, which has no correlation before them.
                let id = renamed.get(source.index()).copied().unwrap_or(StageId::from_index(source.index() + 2));
                load.source = Source::Stage(id, component);
            }
            renamed.push(new.stages.push(stage));
        }
        for output in &mut new.outputs {
            output.stage = renamed[output.stage.index()];
        }
        new
    }

    fn axes(&self) -> &[Axis] {
        &self.kernel.stages[self.c.stage].axes
    }

    fn rank(&self) -> usize {
        self.c.windows.len()
    }

    fn axis(&self, name: String, extent: Dim, kind: AxisKind) -> Axis {
        Axis { name, extent, kind }
    }

    /// Axes over the points of the filtering, one per window.
    fn point_axes(&self) -> Vec<Axis> {
        let extent = Dim::constant(self.filtering.points() as i64);
        let name = |axis: usize| format!("{}_f", self.axes()[axis].name);
        self.c.windows.iter().map(|w| self.axis(name(w.axis), extent.clone(), AxisKind::Parallel)).collect()
    }

    /// The other axes, then one over tiles per window.
    fn tile_axes(&self) -> Vec<Axis> {
        let others = self.c.others.iter().map(|&axis| self.axes()[axis].clone());
        let tiles = self.c.windows.iter().map(|w| {
            let count = w.extent.ceil_div(&Dim::constant(self.outputs));
            self.axis(format!("{}_t", self.axes()[w.axis].name), count, AxisKind::Parallel)
        });
        others.chain(tiles).collect()
    }

    fn stage(&self, suffix: &str, axes: Vec<Axis>, body: Body, result: ScalarId, reducer: Option<Reducer>) -> Stage {
        let name = format!("{}{suffix}", self.kernel.stages[self.c.stage].name);
        Stage { name, axes, body, results: vec![result], reducer }
    }

    /// `v[f…, others…, t…, c]`
    fn input_stage(&self) -> Stage {
        let mut axes = self.point_axes();
        axes.extend(self.tile_axes());
        let channel = &self.axes()[self.c.channel];
        axes.push(self.axis(channel.name.clone(), channel.extent.clone(), AxisKind::Parallel));

        let mut at = vec![IndexExpr::constant(0); self.axes().len()];
        let first_other = self.rank();
        for (n, &axis) in self.c.others.iter().enumerate() {
            at[axis] = var(first_other + n);
        }
        at[self.c.channel] = var(axes.len() - 1);
        let first_tile = first_other + self.c.others.len();
        let Source::Operand(operand) = self.c.input.source else { unreachable!("a correlation's input is an operand") };
        let shape = &self.kernel.operands[operand].shape;
        let mut body = Body::default();
        let mut values = Vec::new();
        for_each_place(self.filtering.points(), self.rank(), &mut |place| {
            let mut index: Vec<IndexExpr> = self.c.input.index.iter().map(|e| e.substitute_vars(&at)).collect();
            let mut valid = Vec::new();
            for (n, (w, &p)) in self.c.windows.iter().zip(place).enumerate() {
                let e = var(first_tile + n).scale(self.outputs) + w.shift + p as i64;
                index[w.input_axis] = e.clone();
                valid.push(Bound { expr: e, lo: IndexExpr::constant(0), hi: shape[w.input_axis].clone() });
            }
            values.push(body.push(ScalarOp::Load(Load { index, valid, ..self.c.input.clone() })));
        });
        let points: Vec<IndexExpr> = (0..self.rank()).map(var).collect();
        let result = transform(&mut body, &self.filtering.input, Sharing::Parity, values, &points);
        self.stage("_v", axes, body, result, None)
    }

    /// `m[f…, others…, t…, k] = Σ_c v·u`
    fn product_stage(&self, v: StageId) -> Stage {
        let mut axes = self.point_axes();
        axes.extend(self.tile_axes());
        let column = axes.len();
        axes.push(self.axes()[self.c.column].clone());
        axes.push(self.axes()[self.c.channel].clone());
        let mut body = Body::default();
        let mut index: Vec<IndexExpr> = (0..column).map(var).collect();
        index.push(var(column + 1));
        let x = body.push(ScalarOp::Load(load_of(Source::Stage(v, 0), index)));
        let mut at = vec![IndexExpr::constant(0); self.axes().len()];
        for (n, w) in self.c.windows.iter().enumerate() {
            at[w.tap] = var(n);
        }
        at[self.c.column] = var(column);
        at[self.c.channel] = var(column + 1);
        let index = self.c.filter.index.iter().map(|e| e.substitute_vars(&at)).collect();
        let u = body.push(ScalarOp::Load(Load { index, ..self.c.filter.clone() }));
        let product = body.binary(BinaryOp::Mul, x, u);
        self.stage("_m", axes, body, product, Some(Reducer::sum(DType::F32)))
    }

    /// `o[others…, (t, p)…, k]`: where it is stored, it lies as the results do.
    fn output_stage(&self, m: StageId) -> Stage {
        let mut axes = self.tile_axes();
        let first_tile = self.c.others.len();
        let tiles = axes.split_off(first_tile);
        for (tile, w) in tiles.into_iter().zip(&self.c.windows) {
            let name = format!("{}_p", self.axes()[w.axis].name);
            axes.extend([tile, self.axis(name, Dim::constant(self.outputs), AxisKind::Parallel)]);
        }
        axes.push(self.axes()[self.c.column].clone());
        let column = axes.len() - 1;
        let tile = |window: usize| var(first_tile + 2 * window);
        let places: Vec<IndexExpr> = (0..self.rank()).map(|window| var(first_tile + 2 * window + 1)).collect();
        let mut body = Body::default();
        let mut values = Vec::new();
        for_each_place(self.filtering.points(), self.rank(), &mut |place| {
            let points = place.iter().map(|&p| IndexExpr::constant(p as i64));
            let at = (0..first_tile).map(var).chain((0..self.rank()).map(tile));
            let index = points.chain(at).chain([var(column)]).collect();
            values.push(body.push(ScalarOp::Load(load_of(Source::Stage(m, 0), index))));
        });
        let result = transform(&mut body, &self.filtering.output, Sharing::Pairs, values, &places);
        self.stage("_o", axes, body, result, None)
    }

    /// Coordinates of the sum as those of `o`.
    fn tiled(&self, index: &[IndexExpr]) -> Vec<IndexExpr> {
        let stage = &self.kernel.stages[self.c.stage];
        let at = |axis: usize| {
            let position = stage.value_axes().position(|(n, _)| n == axis);
            position.map(|p| index[p].clone()).unwrap_or_default()
        };
        let size = IndexExpr::constant(self.outputs);
        let others = self.c.others.iter().map(|&axis| at(axis));
        let tiles = self.c.windows.iter().flat_map(|w| [at(w.axis).floor_div(&size), at(w.axis).modulo(&size)]);
        others.chain(tiles).chain([at(self.c.column)]).collect()
    }
}

fn var(n: usize) -> IndexExpr {
    IndexExpr::var(VarId::from_index(n))
}

fn load_of(source: Source, index: Vec<IndexExpr>) -> Load {
    let (gather, valid) = (Vec::new(), Vec::new());
    Load { source, index, gather, valid, otherwise: Const::zero(DType::F32), dtype: DType::F32 }
}

/// All places of a cube with that many along each axis, the last one fastest.
fn for_each_place(points: usize, rank: usize, f: &mut dyn FnMut(&[usize])) {
    let mut place = vec![0; rank];
    loop {
        f(&place);
        let Some(axis) = (0..rank).rposition(|n| place[n] + 1 < points) else { return };
        place[axis] += 1;
        place[axis + 1..].fill(0);
    }
}

/// A matrix applied along every axis of a cube of values, at the rows that `at` says.
///
/// Which row is a question of coordinates only: where those are unrolled, what is not needed disappears and what
/// neighbours share is computed once.
fn transform(
    body: &mut Body,
    matrix: &[Vec<f64>],
    sharing: Sharing,
    mut values: Vec<ScalarId>,
    at: &[IndexExpr],
) -> ScalarId {
    let columns = matrix[0].len();
    for coordinate in at {
        let inner = values.len() / columns;
        values = (0..inner)
            .map(|n| {
                let along: Vec<ScalarId> = (0..columns).map(|c| values[c * inner + n]).collect();
                let rows: Vec<ScalarId> = matrix.iter().map(|row| sum(body, row, sharing, &along)).collect();
                pick(body, coordinate, &rows)
            })
            .collect();
    }
    values[0]
}

/// The alternative whose number a coordinate gives.
fn pick(body: &mut Body, coordinate: &IndexExpr, alternatives: &[ScalarId]) -> ScalarId {
    let (&last, others) = alternatives.split_last().expect("a matrix has rows");
    others.iter().enumerate().rev().fold(last, |rest, (n, &value)| {
        let index = body.push(ScalarOp::Index(coordinate.clone()));
        let number = body.push(ScalarOp::Const(Const::from_i64(DType::I64, n as i64)));
        let is_it = body.compare(CompareOp::Eq, index, number);
        body.select(is_it, value, rest)
    })
}

/// `Σ row[n]·x[n]`
fn sum(body: &mut Body, row: &[f64], sharing: Sharing, x: &[ScalarId]) -> ScalarId {
    let terms: Vec<(usize, f64)> = row.iter().copied().enumerate().filter(|(_, c)| *c != 0.0).collect();
    // Groups of terms with a factor of their own.
    let mut groups: Vec<(f64, Vec<(usize, f64)>)> = Vec::new();
    match sharing {
        Sharing::Parity => {
            for parity in [0, 1] {
                let group: Vec<(usize, f64)> = terms.iter().copied().filter(|(n, _)| n % 2 == parity).collect();
                if let Some(&(_, first)) = group.last() {
                    let sign = first.signum();
                    groups.push((sign, group.into_iter().map(|(n, c)| (n, c * sign)).collect()));
                }
            }
        }
        Sharing::Pairs => {
            // The points are 0, then pairs.
            let pair = |n: usize| n.div_ceil(2);
            for &(n, c) in &terms {
                match groups.last_mut() {
                    Some((factor, group)) if pair(group[0].0) == pair(n) => group.push((n, c / *factor)),
                    _ => groups.push((c, vec![(n, 1.0)])),
                }
            }
        }
    }
    let groups: Vec<(f64, ScalarId)> = groups
        .into_iter()
        .map(|(factor, group)| {
            let terms = group.into_iter().map(|(n, c)| (c, x[n])).collect();
            (factor, signed_sum(body, terms))
        })
        .collect();
    signed_sum(body, groups)
}

/// `Σ c·x`, beginning with a positive term if there is one.
fn signed_sum(body: &mut Body, mut terms: Vec<(f64, ScalarId)>) -> ScalarId {
    terms.sort_by_key(|(c, _)| *c < 0.0);
    let mut total: Option<ScalarId> = None;
    for (c, x) in terms {
        let scaled = |body: &mut Body, by: f64| {
            if by == 1.0 {
                return x;
            }
            let factor = body.constant(DType::F32, by);
            body.binary(BinaryOp::Mul, factor, x)
        };
        total = Some(match total {
            None => scaled(body, c),
            Some(sum) => {
                let term = scaled(body, c.abs());
                body.binary(if c < 0.0 { BinaryOp::Sub } else { BinaryOp::Add }, sum, term)
            }
        });
    }
    total.unwrap_or_else(|| body.constant(DType::F32, 0.0))
}
