//! Running folds along neighbours in memory, in blocks: `y[b·W + j] = fold(y[b·W − 1], fold over i ≤ j of x[b·W + i])`.
//!
//! Element after element, a running fold waits for the one before: for a sum of floats that takes ten times as long as reading
//! them, and on a GPU one thread has all of it. Folded within blocks first, each element is a short reduction of its own, which
//! vectors and threads share; what is left to do in order is a running fold of one element per block, which is done in blocks
//! again while it is known to be long (Blelloch, "Prefix Sums and Their Applications", 1990).
//!
//! It runs behind the pipeline, which would not know running sums of constants for what they are any more ([`count`](super::count)).
//! Floats are added up in another order, which [`ErrorClass::Reassociating`](crate::ErrorClass) allows; the longest chain of
//! roundings becomes shorter.

use super::Changed;
use super::movement::{canonical, var, view};
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{NodeId, ScalarId, ValueId};
use infc_ir::graph::{Graph, Node, TensorType};
use infc_ir::index::{Dim, IndexExpr, Proof, Ranges};
use infc_ir::op::{MapOp, Op, ScanOp};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp};
use std::sync::Arc;

/// What the elements of a block take: the widest vector.
const BLOCK_BYTES: usize = 64;

/// Shorter folds than so many blocks are as quick one element after the other.
const LEAST_BLOCKS: i64 = 4;

/// Where nobody knows before the run how many elements there are, there are blocks, but no blocks of these: mostly there are few,
/// and more levels are kernels that have nothing to do.
const LEVELS: u32 = 1;

/// Takes apart the running folds of a graph, and of the branches of its `If`s, that are along neighbours and long; those of
/// floats if `reassociates`.
pub fn run(graph: &mut Graph, reassociates: bool) -> Changed {
    let mut changed = Changed::No;
    for id in std::mem::take(&mut graph.order) {
        if let Op::If(branches) = &mut graph.nodes[id].op {
            for branch in [&mut branches.then, &mut branches.otherwise] {
                changed = changed.or(run(Arc::make_mut(branch), reassociates));
            }
        }
        changed = changed.or(take_apart(graph, id, reassociates, LEVELS));
        graph.order.push(id);
    }
    changed
}

/// Makes the node, which is not in the order yet, one that puts blocks together, if it is a running fold that is worth it; and
/// the one of blocks too, on so many levels in all if lengths are not known.
fn take_apart(graph: &mut Graph, id: NodeId, reassociates: bool, levels: u32) -> Changed {
    match Blocks::of(graph, id, reassociates).filter(|blocks| levels > 0 || blocks.len().as_const().is_some()) {
        Some(blocks) => {
            blocks.apply(graph, id, reassociates, levels.saturating_sub(1));
            Changed::Yes
        }
        None => Changed::No,
    }
}

/// A running fold that is done in blocks.
struct Blocks {
    op: ScanOp,
    node: Node,
    ty: TensorType,
    /// Elements of one.
    width: i64,
}

impl Blocks {
    fn of(graph: &Graph, id: NodeId, reassociates: bool) -> Option<Self> {
        let node = &graph.nodes[id];
        let Op::Scan(op) = &node.op else { return None };
        let ty = graph.ty(*node.outputs.first()?);
        let reducer = &op.reducer;
        // Of floats, products of a block may overflow where what they are multiplied by is small, or 0.
        let is_sum = reducer.as_binary() == Some(BinaryOp::Add) && ty.dtype.is_float();
        let associates = reducer.is_associative() || is_sum && reassociates;
        let size = ty.dtype.size_bytes().filter(|&size| size >= 4)?;
        let are_neighbours = ty.shape[op.axis + 1..].iter().all(|extent| extent.is_const(1));
        let width = (BLOCK_BYTES / size) as i64;
        let may_be_long = Ranges::of_symbols(&graph.symbols).interval(&ty.shape[op.axis]).max;
        let may_be_long = may_be_long.is_none_or(|most| most >= width * LEAST_BLOCKS);
        (associates && are_neighbours && may_be_long).then(|| Self {
            op: op.clone(),
            node: node.clone(),
            ty: ty.clone(),
            width,
        })
    }

    fn len(&self) -> &Dim {
        &self.ty.shape[self.op.axis]
    }

    fn init(&self) -> Const {
        self.op.reducer.init[0]
    }

    /// The shape before the axis, and these extents.
    fn shape(&self, further: &[Dim]) -> Vec<Dim> {
        self.ty.shape[..self.op.axis].iter().chain(further).cloned().collect()
    }

    /// The coordinates before the axis, and these.
    fn at(&self, further: &[IndexExpr]) -> Vec<IndexExpr> {
        (0..self.op.axis).map(var).chain(further.iter().cloned()).collect()
    }

    /// The n-th element from where the fold begins.
    fn element_at(&self, n: IndexExpr) -> IndexExpr {
        if self.op.reverse { self.len().clone() - 1 - n } else { n }
    }

    /// The operand read at the n-th elements that are folded, neutral ones behind the last.
    fn elements(&self, graph: &mut Graph, n: IndexExpr, further: &[Dim]) -> ValueId {
        let mut index = self.at(&[self.element_at(n.clone())]);
        index.resize(self.ty.shape.len(), IndexExpr::constant(0));
        let width = Dim::constant(self.width);
        let is_whole = Ranges::of_symbols(&graph.symbols).eq(&self.len().modulo(&width), &Dim::constant(0));
        let valid = match is_whole {
            Proof::Yes => Vec::new(),
            _ => vec![Bound { expr: n, lo: Dim::constant(0), hi: self.len().clone() }],
        };
        self.view(graph, self.node.inputs[0], index, valid, further)
    }

    fn view(
        &self,
        graph: &mut Graph,
        of: ValueId,
        index: Vec<IndexExpr>,
        valid: Vec<Bound>,
        further: &[Dim],
    ) -> ValueId {
        let shape = self.shape(further);
        let map = AccessMap { rank: shape.len(), index, valid };
        // Views of views are one where one value says what is beyond both.
        let (from, map, otherwise) = match graph.producer(of) {
            Some((_, Node { op: Op::View(inner), inputs, .. })) if map.valid.is_empty() => {
                (inputs[0], inner.map.compose(&map), inner.otherwise)
            }
            Some((_, Node { op: Op::View(inner), inputs, .. })) if inner.map.valid.is_empty() => {
                (inputs[0], inner.map.compose(&map), self.init())
            }
            _ => (of, map, self.init()),
        };
        let map = canonical(&map, &shape, &graph.symbols);
        let op = view(map, &shape, otherwise);
        graph.add(op, &[from], TensorType::new(self.ty.dtype, shape), self.node.origin)
    }

    fn combine(&self) -> Op {
        let reducer = &self.op.reducer;
        Op::Map(MapOp { body: reducer.combine.clone(), results: reducer.results.clone() })
    }

    fn apply(self, graph: &mut Graph, id: NodeId, reassociates: bool, levels: u32) {
        let (axis, origin, dtype) = (self.op.axis, self.node.origin, self.ty.dtype);
        let width = Dim::constant(self.width);
        let count = self.len().ceil_div(&width);
        let counted = std::slice::from_ref(&count);
        let typed = |shape: Vec<Dim>| TensorType::new(dtype, shape);
        // Over blocks, places of results and places of elements.
        let block = var(axis);
        // Spread over the places of results; each element is an operand of its own, so that which count is known.
        let elements: Vec<ValueId> = (0..self.width)
            .map(|n| self.elements(graph, block.scale(self.width) + n, &[count.clone(), width.clone()]))
            .collect();
        let within = graph.add(self.within(), &elements, typed(self.shape(&[count.clone(), width.clone()])), origin);
        let last = self.width - 1;
        let mut whole = self.view(graph, within, self.at(&[block.clone(), IndexExpr::constant(last)]), vec![], counted);
        if self.op.exclusive {
            let own = self.elements(graph, block.scale(self.width) + last, counted);
            whole = graph.add(self.combine(), &[whole, own], typed(self.shape(counted)), origin);
        }
        let before = ScanOp { reverse: false, exclusive: true, ..self.op.clone() };
        let before = graph.add(Op::Scan(before), &[whole], typed(self.shape(counted)), origin);
        if let Some(scan) = graph.order.pop() {
            take_apart(graph, scan, reassociates, levels);
            graph.order.push(scan);
        }
        let n = self.element_at(var(axis));
        let (block, place) = (n.floor_div(&width), n.modulo(&width));
        let further = &self.ty.shape[axis..];
        let before = self.view(graph, before, self.at(std::slice::from_ref(&block)), vec![], further);
        let within = self.view(graph, within, self.at(&[block, place]), vec![], further);
        graph.nodes[id].op = self.combine();
        graph.nodes[id].inputs = vec![before, within];
    }

    /// The fold of a block's elements up to each of its places, neighbours first.
    fn within(&self) -> Op {
        let reducer = &self.op.reducer;
        let mut body = Body::default();
        let place = body.push(ScalarOp::Index(var(self.op.axis + 1)));
        let nothing = body.push(ScalarOp::Const(self.init()));
        let counts = if self.op.exclusive { CompareOp::Lt } else { CompareOp::Le };
        let counted = |body: &mut Body, n: u8| {
            let x = body.param(n, self.ty.dtype);
            let nth = body.push(ScalarOp::Index(IndexExpr::constant(n.into())));
            let counts = body.compare(counts, nth, place);
            body.select(counts, x, nothing)
        };
        let mut terms: Vec<ScalarId> = (0..self.width as u8).map(|n| counted(&mut body, n)).collect();
        while terms.len() > 1 {
            let folded = |pair: &[ScalarId]| {
                let operand = |_: &mut Body, op: &ScalarOp| match op {
                    ScalarOp::Param(n, _) => pair.get(usize::from(*n)).copied(),
                    _ => None,
                };
                if let [last] = *pair {
                    last
                } else {
                    body.import(&reducer.combine, &reducer.results, &mut { operand })[0]
                }
            };
            terms = terms.chunks(2).map(folded).collect();
        }
        Op::Map(MapOp { body, results: terms })
    }
}
