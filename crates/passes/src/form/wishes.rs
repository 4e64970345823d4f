//! Which axis of each value wants to lie innermost: votes of the contractions, weighed by work.
//!
//! The columns of the right operand and of the result are to be contiguous, and the left operand along what is summed.
//! Values without wishes follow what they are computed from or what is computed from them. A product with a constant may
//! do as well the other way round, and then goes with the others ([`Turned`]).

use super::choices::{Choices, Way, origins_of};
use super::contraction::{Contraction, contraction, uses};
use super::group::Grouping;
use super::layout::Families;
use super::lower::Lowered;
use super::pack::dot;
use infc_ir::entity::{EntityId, OperandId, StageId, ValueId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, OperandKind};
use infc_ir::scalar::{Load, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of fewer elements than this are not worth turning a value round for: what is summed is read one element at a
/// time, wherever it lies, and the image that a network begins with has its three channels in planes. Dot products read
/// several.
const SHORT_ROW: i64 = 8;

/// Points of what is computed that are tiles of vectors.
const LEAST_TURNED: i64 = 64;

/// The axis that each family wants innermost, by its root.
pub(super) fn inner_axes(
    grouping: &Grouping<'_>,
    families: &Families,
    fixed: &BTreeSet<ValueId>,
    kernels: &[Lowered],
    choices: &mut Choices,
) -> BTreeMap<ValueId, usize> {
    let graph = &grouping.flat.graph;
    let mut votes = Votes::default();
    let mut may_turn: Vec<(Turned, Votes)> = Vec::new();
    for lowered in kernels {
        for (id, stage) in lowered.kernel.stages.iter_enumerated() {
            let Some(c) = contraction(&lowered.kernel, stage) else { continue };
            let turned = Turned::of(lowered, id, &c);
            let mut own = Votes::default();
            let mut vote = |value: ValueId, axis: usize, weight: f64| {
                if !graph.ty(value).shape[axis].is_const(1) {
                    own.add(families.root(value), axis, weight, graph.ty(value).shape.len());
                }
            };
            let is_long = |operand: OperandId, axis: &usize| {
                lowered.kernel.operands[operand].shape[*axis].as_const().is_none_or(|len| len >= SHORT_ROW)
            };
            // What is made of constants has its groups along one axis; other constants are packed along any.
            let is_made = c.rhs_is_constant && matches!(c.rhs.source, Source::Stage(..));
            let grouped = || grouped_axis(&c);
            let lhs_axis = |operand: OperandId| {
                let first = is_made.then(grouped).flatten();
                first.or_else(|| c.lhs_inner_axis().filter(|axis| is_long(operand, axis))).or_else(grouped)
            };
            if let Source::Operand(operand) = c.lhs.source
                && let Some(axis) = lhs_axis(operand)
                && lowered.kernel.operands[operand].kind == OperandKind::Input
            {
                vote(lowered.values[operand.index()], axis, c.work());
            }
            if let Source::Operand(operand) = c.rhs.source
                && lowered.kernel.operands[operand].kind == OperandKind::Input
                && let Some(axis) = c.rhs_inner_axis(&lowered.kernel.operands[operand].shape)
            {
                vote(lowered.values[operand.index()], axis, c.work());
            }
            if lowered.space_stage == Some(id)
                && let Some(column) = c.columns().first()
                && let Some((value, index)) = lowered.first_output()
                && let Some(axis) = index.iter().position(|e| e.linear_in(*column).is_some_and(|(s, _)| s.is_const(1)))
            {
                vote(value, axis, c.work());
            }
            match turned.filter(|_| !own.are_row_major()) {
                Some(turned) => may_turn.push((turned, own)),
                None => votes.join(own),
            }
        }
    }
    let counted = |votes: &Votes, settled: &BTreeMap<ValueId, usize>| {
        let mut inner = votes.winners();
        inner.extend(settled);
        for root in fixed {
            let rank = graph.ty(*root).shape.len();
            if rank > 0 {
                inner.insert(*root, rank - 1);
            }
        }
        spread(families, fixed, kernels, &mut inner);
        inner
    };
    let none = BTreeMap::new();
    // What does as well either way goes with the others, if its own way would turn something. Who does not adds to what the
    // others see.
    while !may_turn.is_empty() {
        let (wanted, others) = (votes.winners(), counted(&votes, &none));
        let goes_along = |turned: &Turned| {
            // What nobody has a wish for is row-major.
            let rank = graph.ty(turned.from.0).shape.len();
            let from = others.get(&families.root(turned.from.0)).copied().unwrap_or(rank - 1);
            // Who reads the result wants it so, or would turn it.
            wanted.get(&families.root(turned.to.0)) == Some(&turned.to.1) && from == turned.from.1
        };
        let before = may_turn.len();
        let (along, apart): (Vec<_>, Vec<_>) = may_turn.into_iter().partition(|(turned, _)| goes_along(turned));
        apart.into_iter().for_each(|(_, own)| votes.join(own));
        may_turn = along;
        if may_turn.len() == before {
            break;
        }
    }
    let estimated = counted(&votes, &none);
    let settled = settled(grouping, families, fixed, kernels, &estimated, choices);
    if settled.is_empty() { estimated } else { counted(&votes, &settled) }
}

/// The axis of the left operand along which dot products take whole groups of what is summed, with what stands for elements that
/// there are not. Of several it is the last one where the right operand is made of constants, whose groups lie so
/// ([`super::pack`]).
fn grouped_axis(c: &Contraction<'_>) -> Option<usize> {
    let turns = dot(c)?.turns();
    let is_grouped = |e: &IndexExpr| {
        let summed = e.as_var().map(|var| &c.stage.axes[var.index()]).filter(|axis| axis.kind == AxisKind::Reduce);
        summed.and_then(|axis| axis.extent.as_const()).is_some_and(|extent| extent > 1 && extent % turns == 0)
    };
    match c.rhs.source {
        Source::Stage(..) => c.lhs.index.iter().rposition(is_grouped),
        _ => c.lhs.index.iter().position(is_grouped),
    }
}

/// What measuring has settled, by family: the axis that lies innermost. The first kernel that writes to a family asks.
fn settled(
    grouping: &Grouping<'_>,
    families: &Families,
    fixed: &BTreeSet<ValueId>,
    kernels: &[Lowered],
    estimated: &BTreeMap<ValueId, usize>,
    choices: &mut Choices,
) -> BTreeMap<ValueId, usize> {
    let mut settled = BTreeMap::new();
    let mut asked: BTreeSet<ValueId> = BTreeSet::new();
    if !choices.are_asked() {
        return settled;
    }
    for lowered in kernels {
        let Some((value, _)) = lowered.first_output() else { continue };
        let root = families.root(value);
        if fixed.contains(&root) || !asked.insert(root) {
            continue;
        }
        let shape = &grouping.flat.graph.ty(value).shape;
        let usual = estimated.get(&root).copied().or_else(|| shape.len().checked_sub(1));
        let way = |axis: usize| u8::try_from(axis).ok().map(Way::Innermost);
        let Some(taken) = usual.and_then(way) else { continue };
        let is_long = |axis: &usize| shape[*axis].as_const().is_none_or(|extent| extent >= SHORT_ROW);
        let ways: Vec<Way> =
            (0..shape.len()).filter(|axis| Some(*axis) == usual || is_long(axis)).filter_map(way).collect();
        let nodes = grouping.groups[lowered.group].as_ref().map_or(&[][..], |group| &group.nodes);
        let origins = origins_of(grouping.flat, nodes);
        // Who reads it has a say in the estimate, and what was quicker than another one is no answer.
        let question = || format!("layout\nby estimate {taken}\n{}", lowered.kernel);
        if let Some(Way::Innermost(axis)) = choices.answer(question, &ways, taken, &origins) {
            settled.insert(root, usize::from(axis));
        }
    }
    settled
}

/// Per family, by its root, how much work wants which axis innermost.
#[derive(Default)]
struct Votes(BTreeMap<ValueId, Vec<f64>>);

impl Votes {
    fn add(&mut self, root: ValueId, axis: usize, weight: f64, rank: usize) {
        self.0.entry(root).or_insert_with(|| vec![0.0; rank])[axis] += weight;
    }

    fn join(&mut self, other: Self) {
        for (root, weights) in other.0 {
            let own = self.0.entry(root).or_insert_with(|| vec![0.0; weights.len()]);
            own.iter_mut().zip(weights).for_each(|(own, weight)| *own += weight);
        }
    }

    /// Whether all want the last axis.
    fn are_row_major(&self) -> bool {
        self.0.values().all(|weights| weights.split_last().is_some_and(|(_, others)| others.iter().all(|&w| w == 0.0)))
    }

    fn winners(&self) -> BTreeMap<ValueId, usize> {
        let best = |weights: &Vec<f64>| {
            // The later axis wins a tie: that is row-major.
            let best = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(a.cmp(&b)));
            best.filter(|&b| weights[b] > 0.0)
        };
        self.0.iter().filter_map(|(root, weights)| Some((*root, best(weights)?))).collect()
    }
}

/// A product with a constant whose lanes may run along the points of what is computed, instead of along the constant's
/// columns: where both that and the result have them innermost (what mixes tokens between layers that mix channels).
struct Turned {
    /// What is computed, and its axis of these points.
    from: (ValueId, usize),
    /// The result, and its axis.
    to: (ValueId, usize),
}

impl Turned {
    /// Of a sum whose operand has points enough for tiles of vectors, and is read at them as they are.
    fn of(lowered: &Lowered, stage: StageId, c: &Contraction<'_>) -> Option<Self> {
        let Source::Operand(operand) = c.lhs.source else { return None };
        let is_plain = c.rhs_is_constant && c.lhs.valid.is_empty() && c.lhs.gather.is_empty();
        let of_value = lowered.kernel.operands[operand].kind == OperandKind::Input;
        if lowered.space_stage != Some(stage) || !is_plain || !of_value {
            return None;
        }
        let vars: Vec<VarId> = c.lhs.index.iter().filter_map(IndexExpr::as_var).collect();
        let (value, index) = lowered.first_output()?;
        let axes = &c.stage.axes;
        let points = |v: &VarId| axes[v.index()].extent.as_const().unwrap_or(0);
        let is_free = |v: &VarId| axes[v.index()].kind == AxisKind::Parallel && !uses(c.rhs, *v);
        let along = vars.iter().copied().filter(|v| is_free(v) && points(v) >= LEAST_TURNED).max_by_key(points)?;
        let at = |index: &[IndexExpr]| index.iter().position(|e| e.as_var() == Some(along));
        let whole = c.lhs.index.iter().all(|e| e.as_var().is_some() || !e.uses_vars());
        whole.then_some(Self { from: (lowered.values[operand.index()], at(&c.lhs.index)?), to: (value, at(index)?) })
    }
}

/// Values without wishes follow what they are computed from, or what is computed from them.
fn spread(families: &Families, fixed: &BTreeSet<ValueId>, kernels: &[Lowered], inner: &mut BTreeMap<ValueId, usize>) {
    // What a neighbour must have is not what it wishes.
    let known = |inner: &BTreeMap<ValueId, usize>, value: ValueId| {
        let root = families.root(value);
        inner.get(&root).copied().filter(|_| !fixed.contains(&root))
    };
    for _ in 0..4 {
        let mut changed = false;
        for forward in [true, false] {
            for n in 0..kernels.len() {
                let lowered = &kernels[if forward { n } else { kernels.len() - 1 - n }];
                let Some((output, index)) = lowered.first_output() else { continue };
                for (input, load) in lowered.space_loads() {
                    let same_var = |from: &[IndexExpr], axis: usize, to: &[IndexExpr]| {
                        let var = from.get(axis)?.as_var()?;
                        to.iter().position(|e| e.as_var() == Some(var))
                    };
                    let (from, to, axis) = if forward {
                        let Some(axis) = known(inner, input) else { continue };
                        (input, output, same_var(&load.index, axis, index))
                    } else {
                        let Some(axis) = known(inner, output) else { continue };
                        (output, input, same_var(index, axis, &load.index))
                    };
                    let to = families.root(to);
                    if families.root(from) == to {
                        continue;
                    }
                    if let Some(axis) = axis
                        && !inner.contains_key(&to)
                    {
                        inner.insert(to, axis);
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
}

impl Lowered {
    /// The first value written, with its coordinates over the axes of the stage that writes it.
    fn first_output(&self) -> Option<(ValueId, &[IndexExpr])> {
        let output = self.kernel.outputs.first()?;
        Some((self.values[output.operand.index()], &output.index))
    }

    /// The loads of values in stages that run over the kernel's own space.
    fn space_loads(&self) -> Vec<(ValueId, &Load)> {
        let last = self.kernel.outputs.first().map(|o| o.stage);
        let mut loads = Vec::new();
        for stage in [last, self.space_stage].into_iter().flatten() {
            for op in self.kernel.stages[stage].body.ops.iter() {
                if let infc_ir::scalar::ScalarOp::Load(load) = op
                    && let Source::Operand(operand) = load.source
                    && self.kernel.operands[operand].kind == OperandKind::Input
                {
                    loads.push((self.values[operand.index()], load));
                }
            }
        }
        loads
    }
}
