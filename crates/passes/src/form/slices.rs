//! Batches that may be run in slices: models of which each point of a dim is computed by itself.
//!
//! What lies between kernels is as large as the batch. Beyond the caches it comes from memory, and a point of a large batch
//! then takes longer than one alone. If a model computes each point of its first axis of that point alone, a run may as well
//! be several runs, of as many points as fit; the runtime decides how many. That each point is by itself is shown here: of
//! every value, along which axis the points lie, and that its elements are computed of such of the same point.

use super::plan::GraphPlan;
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, SymbolId, ValueId, VarId};
use infc_ir::graph::{Graph, Node, Port, SymbolSource};
use infc_ir::index::{Atom, Dim, IndexExpr, Interval, Ranges};
use infc_ir::op::Op;
use infc_ir::scalar::{Body, ScalarOp};
use std::collections::BTreeMap;

/// How the points of the batch lie in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Points {
    axis: usize,
    /// Coordinates along the axis that one point has, side by side: batches are merged with what comes behind them.
    each: i64,
}

/// Where inputs and outputs have them.
const FIRST: Points = Points { axis: 0, each: 1 };

/// The symbol of the first axis of all inputs and outputs that depend on it, if the model computes every point along it by
/// itself.
#[must_use]
pub fn slices(plan: &GraphPlan) -> Option<SymbolId> {
    let graph = &plan.graph;
    let first = graph.ty(graph.outputs.first()?.value).shape.first()?.as_symbol()?;
    let is_first = matches!(graph.source(first), Some(SymbolSource::Axis { axis: 0, .. }));
    let range = graph.symbols.get(first)?;
    // Any number of points may be left for the last slice.
    if !is_first || range.min > 1 || !plan.hosts.is_empty() || !plan.binds.is_empty() || !plan.states.is_empty() {
        return None;
    }
    let required = plan.requires.iter().flat_map(|(_, r)| [&r.left, &r.right]);
    let assumed = graph.assumptions.iter().flat_map(|a| [&a.left, &a.right]);
    let computed = graph.symbols.ids().filter_map(|symbol| match graph.source(symbol) {
        Some(SymbolSource::Computed(value)) => Some(value),
        _ => None,
    });
    let computed: Vec<Dim> = computed.collect();
    if required.chain(assumed).chain(&computed).any(|dim| uses(dim, first)) {
        return None;
    }
    let analysis = Analysis { graph, batch: first, ranges: Ranges::of_symbols(&graph.symbols) };
    analysis.holds().then_some(first)
}

fn uses(e: &IndexExpr, symbol: SymbolId) -> bool {
    e.symbols().contains(&symbol)
}

struct Analysis<'a> {
    graph: &'a Graph,
    batch: SymbolId,
    ranges: Ranges,
}

impl Analysis<'_> {
    fn holds(&self) -> bool {
        let graph = self.graph;
        // Who gives and takes slices needs to know where a point begins.
        let fits = |port: &Port, is_output: bool| {
            let ty = graph.port_type(port);
            let points = self.points_of_shape(&ty.shape);
            let fits = points == Some(Some(FIRST)) || points == Some(None) && !is_output;
            fits && ty.dtype.size_bytes().is_some()
        };
        let inputs = graph.inputs.iter().map(|port| (port, false));
        if !inputs.chain(graph.outputs.iter().map(|port| (port, true))).all(|(port, is_output)| fits(port, is_output)) {
            return false;
        }
        // Values without an entry are the same for all points.
        let mut points: BTreeMap<ValueId, Points> = BTreeMap::new();
        for port in &graph.inputs {
            match self.points_of_shape(&graph.ty(port.value).shape) {
                Some(None) => {}
                Some(Some(found)) if found == FIRST => drop(points.insert(port.value, found)),
                _ => return false,
            }
        }
        for &id in &graph.order {
            let node = &graph.nodes[id];
            let Some(found) = self.node(node, &points) else { return false };
            // What is the same for all points would be computed again for every slice: not if it is much.
            if found.is_none() && matches!(node.op, Op::Contract(_) | Op::Reduce(_) | Op::Scan(_)) {
                return false;
            }
            for &output in &node.outputs {
                // What is the same for all points has no axis for them, and the other way round.
                if self.points_of_shape(&graph.ty(output).shape) != Some(found) {
                    return false;
                }
                points.extend(found.map(|found| (output, found)));
            }
        }
        graph.outputs.iter().all(|port| points.get(&port.value) == Some(&FIRST))
    }

    /// The axis of a shape whose extent is that of the batch, times a number; `None` if something else follows from it.
    #[expect(clippy::option_option, reason = "nothing is known, or that there is no such axis")]
    fn points_of_shape(&self, shape: &[Dim]) -> Option<Option<Points>> {
        let mut found = None;
        for (axis, dim) in shape.iter().enumerate().filter(|(_, dim)| uses(dim, self.batch)) {
            let one = dim.substitute(&|atom| (*atom == Atom::Symbol(self.batch)).then(|| Dim::constant(1)));
            let each = one.as_const().filter(|&each| each > 0 && *dim == self.extent(each))?;
            if found.replace(Points { axis, each }).is_some() {
                return None;
            }
        }
        Some(found)
    }

    fn extent(&self, each: i64) -> Dim {
        Dim::symbol(self.batch).scale(each)
    }

    /// How the points lie in what a node gives; the outer `None` if it does not compute them by themselves.
    #[expect(clippy::option_option, reason = "not by themselves, or the same for all")]
    fn node(&self, node: &Node, points: &BTreeMap<ValueId, Points>) -> Option<Option<Points>> {
        let of = |n: usize| points.get(&node.inputs[n]).copied();
        let result = || self.points_of_shape(&self.graph.ty(*node.outputs.first()?).shape);
        match &node.op {
            Op::Constant(_) => Some(None),
            Op::DimValue(dim) => (!uses(dim, self.batch)).then_some(None),
            Op::Map(map) => {
                let result = result()?;
                let same = (0..node.inputs.len()).all(|n| of(n) == result);
                (same && self.is_alike(&map.body, result)).then_some(result)
            }
            Op::View(view) => self.view(&view.map, &view.shape, of(0)),
            Op::Reduce(reduce) => {
                let first = of(0);
                let same = (0..node.inputs.len()).all(|n| of(n) == first);
                let Some(found) = first else {
                    return (same && self.is_alike(&reduce.body, None)).then_some(None);
                };
                let kept = same && !reduce.axes.contains(&found.axis) && self.is_alike(&reduce.body, first);
                let before = reduce.axes.iter().filter(|&&axis| axis < found.axis).count();
                kept.then_some(Some(Points { axis: found.axis - before, ..found }))
            }
            Op::Contract(contract) => {
                let label = |n: usize, labels: &[u8]| of(n).map(|p| (labels[p.axis], p.each));
                let (lhs, rhs) = (label(0, &contract.lhs), label(1, &contract.rhs));
                let Some((label, each)) = lhs.or(rhs) else { return Some(None) };
                // The other one has the same axis, or does not move along it.
                let agrees = |other: Option<(u8, i64)>, labels: &[u8]| match other {
                    Some(other) => other == (label, each),
                    None => !labels.contains(&label),
                };
                let axis = contract.output.iter().position(|&l| l == label)?;
                (agrees(lhs, &contract.lhs) && agrees(rhs, &contract.rhs)).then_some(Some(Points { axis, each }))
            }
            Op::Gather(gather) => match (of(0), of(1)) {
                (None, None) => Some(None),
                (None, Some(found)) => Some(Some(Points { axis: gather.axis + found.axis, ..found })),
                (Some(found), None) if found.axis != gather.axis => {
                    let indices = self.graph.ty(node.inputs[1]).shape.len();
                    let axis = if found.axis < gather.axis { found.axis } else { found.axis + indices - 1 };
                    Some(Some(Points { axis, ..found }))
                }
                _ => None,
            },
            Op::Concat(concat) => {
                let first = of(0);
                let same = (0..node.inputs.len()).all(|n| of(n) == first);
                (same && first.is_none_or(|found| found.axis != concat.axis)).then_some(first)
            }
            Op::Scan(scan) => {
                let first = of(0);
                let same = (0..node.inputs.len()).all(|n| of(n) == first);
                (same && first.is_none_or(|found| found.axis != scan.axis)).then_some(first)
            }
            Op::Recurrence(_) | Op::If(_) | Op::Host(_) | Op::Composite(_) => None,
        }
    }

    /// Whether what is computed with elements asks neither for the point nor for how many there are.
    fn is_alike(&self, body: &Body, points: Option<Points>) -> bool {
        let plain =
            |e: &IndexExpr| !uses(e, self.batch) && points.is_none_or(|p| !e.uses_var(VarId::from_index(p.axis)));
        body.ops.iter().all(|op| match op {
            ScalarOp::Index(e) => plain(e),
            ScalarOp::InBounds(bounds) => bounds.iter().all(|b| plain(&b.expr) && plain(&b.lo) && plain(&b.hi)),
            ScalarOp::Load(_) => false,
            _ => true,
        })
    }

    /// A view reads, for a point, of the same point: coordinates that belong to one point there do so here.
    #[expect(clippy::option_option, reason = "not by themselves, or the same for all")]
    fn view(&self, map: &AccessMap, shape: &[Dim], from: Option<Points>) -> Option<Option<Points>> {
        let to = self.points_of_shape(shape)?;
        let mut ranges = self.ranges.clone();
        for (axis, extent) in shape.iter().enumerate() {
            let max = extent.as_const().map(|extent| extent - 1);
            ranges.set_var(VarId::from_index(axis), Interval { min: Some(0), max });
        }
        let rest = |e: &IndexExpr| !uses(e, self.batch) && to.is_none_or(|to| !tells(e, to, &ranges));
        let bounds = map.valid.iter().flat_map(|bound| [&bound.expr, &bound.lo, &bound.hi]);
        let along = from.map(|from| from.axis);
        let others = map.index.iter().enumerate().filter(|(axis, _)| Some(*axis) != along).map(|(_, e)| e);
        if !bounds.chain(others).all(rest) {
            return None;
        }
        let Some(from) = from else { return Some(to) };
        let (to, index) = (to?, &map.index[from.axis]);
        let point = |e: &IndexExpr, each: i64| e.floor_div(&Dim::constant(each)).simplify(&ranges);
        let coordinate = IndexExpr::var(VarId::from_index(to.axis));
        (!uses(index, self.batch) && point(index, from.each) == point(&coordinate, to.each)).then_some(Some(to))
    }
}

/// Whether an expression has other values at other points: it may use the coordinate within a point.
fn tells(e: &IndexExpr, to: Points, ranges: &Ranges) -> bool {
    let coordinate = VarId::from_index(to.axis);
    let moved = IndexExpr::var(coordinate) + IndexExpr::constant(to.each);
    // The same for a coordinate that is a whole point further.
    let further = e.substitute(&|atom| (*atom == Atom::Var(coordinate)).then(|| moved.clone()));
    e.uses_var(coordinate) && further.simplify(ranges) != e.simplify(ranges)
}
