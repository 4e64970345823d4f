//! The terms of a sum that one contraction may compute: contractions of a value, and the value times a constant.

use crate::graph::hoist::{axes_of, const_params, varies};
use crate::graph::movement::{canonical, var};
use crate::graph::rewrite::Site;
use crate::graph::scale_fold::{evaluate_small, trailing_factor};
use crate::graph::weighted::Weighted;
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, ScalarId, ValueId};
use infc_ir::graph::{Graph, Node};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{Const, ScalarOp};
use infc_tensor::{DType, Tensor};

/// What an axis of a branch's weights runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coordinate {
    /// An axis of the result.
    Result(usize),
    /// An axis that is summed over, by number.
    Tap(usize),
    /// Nothing: its extent is 1, and only the weights have it.
    Nothing,
}

/// What a branch multiplies by.
pub(super) enum Weights<'a> {
    /// The constant operand of a contraction.
    Contracted(Weighted<'a>),
    /// A factor per point of the result, over some of its axes.
    Factor(Tensor),
}

/// A term `Σ read(x)·w` of a sum; the sum may be over no axis at all.
pub(super) struct Branch<'a> {
    /// The term in the body of the map that adds up.
    pub(super) leaf: ScalarId,
    /// The operand of that map which it comes from.
    pub(super) operand: usize,
    /// What is read.
    pub(super) source: ValueId,
    /// Where, from the axes of the result and the taps behind them; and what stands for points outside.
    pub(super) read: AccessMap,
    pub(super) otherwise: Const,
    /// Extents of the axes that are summed over.
    pub(super) taps: Vec<i64>,
    pub(super) weights: Weights<'a>,
    /// What every axis of the weights runs along.
    pub(super) axes: Vec<Coordinate>,
}

/// The value that an operand reads, through a view if there is one.
fn source_of(graph: &Graph, value: ValueId) -> (ValueId, AccessMap, Const) {
    let ty = graph.ty(value);
    match graph.producer(value) {
        Some((_, Node { op: Op::View(view), inputs, .. })) => (inputs[0], view.map.clone(), view.otherwise),
        _ => (value, AccessMap::identity(ty.shape.len()), Const::zero(ty.dtype)),
    }
}

impl<'a> Branch<'a> {
    /// A term that is a contraction with a constant, which nothing else reads.
    pub(super) fn contraction(site: &Site<'a>, leaf: ScalarId, operand: usize) -> Option<Self> {
        let value = site.node().inputs[operand];
        let node = site.producer(value).filter(|_| site.is_only_use(value))?;
        let weighted = Weighted::new(site, node)?;
        let output = &weighted.op.output;
        let rank = output.len();
        let data = node.inputs[1 - weighted.side];
        let data_shape = &site.graph.ty(data).shape;
        let dtype = weighted.ty(site.graph).dtype;
        // The sum of weights in halves would be rounded to one.
        if !matches!(dtype, DType::F32 | DType::F64) || site.graph.ty(data).dtype != dtype {
            return None;
        }

        let mut summed: Vec<u8> = Vec::new();
        let mut taps = Vec::new();
        for (&label, extent) in weighted.other_labels().iter().zip(data_shape) {
            if !output.contains(&label) && !summed.contains(&label) {
                summed.push(label);
                taps.push(extent.as_const()?);
            }
        }
        let coordinate = |label: &u8| match output.iter().position(|l| l == label) {
            Some(axis) => Some(Coordinate::Result(axis)),
            None => summed.iter().position(|l| l == label).map(Coordinate::Tap),
        };
        let weights_shape = &weighted.ty(site.graph).shape;
        let of_weights = |(label, extent): (&u8, &Dim)| {
            coordinate(label).or_else(|| extent.is_const(1).then_some(Coordinate::Nothing))
        };
        let axes: Vec<Coordinate> =
            weighted.labels().iter().zip(weights_shape).map(of_weights).collect::<Option<_>>()?;
        if (1..axes.len()).any(|n| axes[n] != Coordinate::Nothing && axes[..n].contains(&axes[n])) {
            return None;
        }
        let (source, map, otherwise) = source_of(site.graph, data);
        let by: Vec<IndexExpr> = weighted
            .other_labels()
            .iter()
            .map(|label| match coordinate(label)? {
                Coordinate::Result(axis) => Some(var(axis)),
                Coordinate::Tap(tap) => Some(var(rank + tap)),
                Coordinate::Nothing => None,
            })
            .collect::<Option<_>>()?;
        let through = AccessMap { rank: rank + taps.len(), index: by, valid: Vec::new() };
        let mut branch = Self {
            leaf,
            operand,
            source,
            read: map.compose(&through),
            otherwise,
            taps,
            weights: Weights::Contracted(weighted),
            axes,
        };
        branch.read = canonical(&branch.read, &branch.shape(site), &site.graph.symbols);
        Some(branch)
    }

    /// A term that is an operand as it is, or times a constant.
    pub(super) fn pointwise(site: &Site<'a>, map: &MapOp, leaf: ScalarId, dtype: DType) -> Option<Self> {
        let shape = &site.output_type(0).shape;
        let params = const_params(site.graph, &site.node().inputs, shape);
        let varies = varies(&map.body, &params);
        let (rest, factor) = trailing_factor(&map.body, leaf, &varies).map_or((leaf, None), |(t, a)| (t, Some(a)));
        let ScalarOp::Param(operand, _) = map.body.ops[rest] else { return None };
        if !varies[rest.index()] || map.body.dtype(rest) != dtype {
            return None;
        }
        let (axes, factor) = match factor.and_then(|a| a.factor.map(|factor| (a.body, factor))) {
            None if dtype == DType::F64 => (Vec::new(), Tensor::scalar(1.0f64)),
            None => (Vec::new(), Tensor::scalar(1.0f32)),
            Some((body, factor)) => {
                let axes = axes_of(&body, factor, &params);
                let value = evaluate_small(site, &body, factor, &params, &axes, shape)?;
                (axes, value)
            }
        };
        let operand = usize::from(operand);
        let (source, read, otherwise) = source_of(site.graph, site.node().inputs[operand]);
        Some(Self {
            leaf,
            operand,
            source,
            read: canonical(&read, shape, &site.graph.symbols),
            otherwise,
            taps: Vec::new(),
            weights: Weights::Factor(factor),
            axes: axes.into_iter().map(Coordinate::Result).collect(),
        })
    }

    /// The extents of the coordinates that `read` takes.
    pub(super) fn shape(&self, site: &Site<'_>) -> Vec<Dim> {
        let taps = self.taps.iter().map(|&extent| Dim::constant(extent));
        site.output_type(0).shape.iter().cloned().chain(taps).collect()
    }

    /// The axis of the weights that runs along a coordinate.
    pub(super) fn axis(&self, coordinate: Coordinate) -> Option<usize> {
        self.axes.iter().position(|&c| c == coordinate)
    }
}
