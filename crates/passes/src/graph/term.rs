//! Scalar terms across maps and views: patterns see one expression, however the nodes that compute it are cut.
//!
//! A [`Term`] is an operation in the body of a map node, or a value that is not computed by a map, together with the
//! coordinates at which it is read. Parameters are followed to the map that computes them, and through views, so that
//! `√(σ² + ε)` matches whether it is computed before or after it is spread, and `x − m` fused with `exp` matches as it
//! does in two nodes.

use super::map::as_map;
use super::movement::{canonical, composed, constant};
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, ScalarId, ValueId};
use infc_ir::graph::Graph;
use infc_ir::index::Dim;
use infc_ir::op::{Op, ReduceOp};
use infc_ir::scalar::{BinaryOp, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// An operation in the body of a map; never a parameter.
    Op(NodeId, ScalarId),
    /// A value that neither a map nor a view without conditions computes.
    Value(ValueId),
}

/// A point-wise quantity.
#[derive(Clone, Debug)]
pub struct Term {
    /// What is read.
    pub leaf: Leaf,
    /// From the coordinates of the pattern to those of what is read.
    pub map: AccessMap,
    /// The value that holds the term at the pattern's own coordinates, if one does.
    pub value: Option<ValueId>,
}

impl PartialEq for Term {
    /// Equal terms have the same value at every point.
    fn eq(&self, other: &Self) -> bool {
        self.leaf == other.leaf && self.map == other.map
    }
}

/// A factor of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// What is multiplied.
    pub term: Term,
    /// It divides.
    pub inverted: bool,
}

/// Terms over the coordinates of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The shape.
    pub shape: &'a [Dim],
}

impl<'a> Terms<'a> {
    /// The term that a value of the pattern's shape is.
    #[must_use]
    pub fn of_value(&self, value: ValueId) -> Term {
        let identity = AccessMap::identity(self.shape.len());
        self.resolve(value, canonical(&identity, self.shape, &self.graph.symbols), Some(value))
    }

    /// The term that an operation in the body of a map of the pattern's shape is.
    #[must_use]
    pub fn of_scalar(&self, node: NodeId, scalar: ScalarId) -> Term {
        let identity = AccessMap::identity(self.shape.len());
        let map = canonical(&identity, self.shape, &self.graph.symbols);
        self.operand(&Term { leaf: Leaf::Op(node, scalar), map, value: None }, node, scalar)
    }

    fn resolve(&self, value: ValueId, map: AccessMap, held_by: Option<ValueId>) -> Term {
        let (mut value, mut map) = (value, map);
        let leaf = loop {
            let Some((id, node)) = self.graph.producer(value) else { break Leaf::Value(value) };
            match &node.op {
                Op::View(view) if view.map.valid.is_empty() => {
                    let through = composed(&view.map, &map, self.shape, &self.graph.symbols);
                    let Some(through) = through else { break Leaf::Value(value) };
                    map = through;
                    value = node.inputs[0];
                }
                Op::Map(op) => {
                    let Some(n) = node.outputs.iter().position(|&o| o == value) else { break Leaf::Value(value) };
                    match op.body.ops[op.results[n]] {
                        ScalarOp::Param(p, _) => value = node.inputs[usize::from(p)],
                        _ => break Leaf::Op(id, op.results[n]),
                    }
                }
                _ => break Leaf::Value(value),
            }
        };
        Term { leaf, map, value: held_by }
    }

    /// The operand `scalar` of an operation of `node`, which is read as `user` says.
    fn operand(&self, user: &Term, node: NodeId, scalar: ScalarId) -> Term {
        let graph_node = &self.graph.nodes[node];
        let in_place = self.is_in_place(user);
        if let Some(map) = as_map(graph_node) {
            if let ScalarOp::Param(n, _) = map.body.ops[scalar] {
                let input = graph_node.inputs[usize::from(n)];
                let same_shape = self.graph.ty(input).shape == self.shape;
                return self.resolve(input, user.map.clone(), (in_place && same_shape).then_some(input));
            }
            if let Some(n) = map.results.iter().position(|&r| r == scalar) {
                let output = graph_node.outputs[n];
                let held_by = (in_place && self.graph.ty(output).shape == self.shape).then_some(output);
                return Term { leaf: Leaf::Op(node, scalar), map: user.map.clone(), value: held_by };
            }
        }
        Term { leaf: Leaf::Op(node, scalar), map: user.map.clone(), value: None }
    }

    /// True if the term is read at the pattern's own coordinates.
    #[must_use]
    pub fn is_in_place(&self, term: &Term) -> bool {
        term.map == canonical(&AccessMap::identity(self.shape.len()), self.shape, &self.graph.symbols)
    }

    /// The element type of a term.
    #[must_use]
    pub fn dtype(&self, term: &Term) -> Option<DType> {
        match term.leaf {
            Leaf::Value(value) => Some(self.graph.ty(value).dtype),
            Leaf::Op(node, scalar) => Some(as_map(&self.graph.nodes[node])?.body.dtype(scalar)),
        }
    }

    fn op(&self, term: &Term) -> Option<(NodeId, &'a ScalarOp)> {
        let Leaf::Op(node, scalar) = term.leaf else { return None };
        Some((node, &as_map(&self.graph.nodes[node])?.body.ops[scalar]))
    }

    /// The operand, if the term is this function of it.
    #[must_use]
    pub fn unary(&self, term: &Term, op: UnaryOp) -> Option<Term> {
        match self.op(term)? {
            (node, ScalarOp::Unary(f, a)) if *f == op => Some(self.operand(term, node, *a)),
            _ => None,
        }
    }

    /// The operands, if the term is this function of them.
    #[must_use]
    pub fn binary(&self, term: &Term, op: BinaryOp) -> Option<(Term, Term)> {
        match self.op(term)? {
            (node, ScalarOp::Binary(f, a, b)) if *f == op => {
                Some((self.operand(term, node, *a), self.operand(term, node, *b)))
            }
            _ => None,
        }
    }

    /// The operands of a commutative function, in both orders.
    #[must_use]
    pub fn either(&self, term: &Term, op: BinaryOp) -> Vec<(Term, Term)> {
        self.binary(term, op).map_or_else(Vec::new, |(a, b)| vec![(a.clone(), b.clone()), (b, a)])
    }

    /// The operand, if the term is its square.
    #[must_use]
    pub fn square(&self, term: &Term) -> Option<Term> {
        if let Some((a, b)) = self.binary(term, BinaryOp::Mul) {
            return (a == b).then_some(a);
        }
        let (base, exponent) = self.binary(term, BinaryOp::Pow)?;
        (self.number(&exponent)? == 2.0).then_some(base)
    }

    /// The operand, if the term is its square root.
    #[must_use]
    pub fn root(&self, term: &Term) -> Option<Term> {
        if let Some(x) = self.unary(term, UnaryOp::Sqrt) {
            return Some(x);
        }
        let (base, exponent) = self.binary(term, BinaryOp::Pow)?;
        (self.number(&exponent)? == 0.5).then_some(base)
    }

    /// The number that the term is everywhere.
    #[must_use]
    pub fn number(&self, term: &Term) -> Option<f64> {
        match term.leaf {
            Leaf::Value(value) => super::evaluate::splat(&constant(self.graph, value)?.tensor).map(Const::to_f64),
            Leaf::Op(..) => match self.op(term)?.1 {
                ScalarOp::Const(c) => Some(c.to_f64()),
                _ => None,
            },
        }
    }

    /// The factors of a product: `a·b/c` is `a`, `b`, and `c` inverted.
    #[must_use]
    pub fn factors(&self, term: &Term) -> Vec<Factor> {
        let mut factors = Vec::new();
        let mut work = vec![Factor { term: term.clone(), inverted: false }];
        while let Some(Factor { term, inverted }) = work.pop() {
            if let Some((a, b)) = self.binary(&term, BinaryOp::Mul) {
                work.push(Factor { term: b, inverted });
                work.push(Factor { term: a, inverted });
            } else if let Some((a, b)) = self.binary(&term, BinaryOp::Div) {
                work.push(Factor { term: b, inverted: !inverted });
                work.push(Factor { term: a, inverted });
            } else if let Some(a) = self.unary(&term, UnaryOp::Reciprocal) {
                work.push(Factor { term: a, inverted: !inverted });
            } else {
                factors.push(Factor { term, inverted });
            }
            // Products that are squared again and again have more factors than any pattern.
            if factors.len() + work.len() > 16 {
                return Vec::new();
            }
        }
        factors
    }

    /// The factors of a product that are no numbers, and the product of the numbers.
    #[must_use]
    pub fn scaled(&self, term: &Term) -> (Vec<Factor>, f64) {
        self.without_numbers(self.factors(term))
    }

    /// Those of the factors that are no numbers, and the product of the numbers.
    #[must_use]
    pub fn without_numbers(&self, factors: Vec<Factor>) -> (Vec<Factor>, f64) {
        let mut by = 1.0;
        let mut rest = factors;
        rest.retain(|f| match self.number(&f.term) {
            Some(n) => {
                by *= if f.inverted { 1.0 / n } else { n };
                false
            }
            None => true,
        });
        (rest, by)
    }

    /// The reduction that the term spreads back over the axes that it folded: the node's input and operation.
    #[must_use]
    pub fn spread_reduction(&self, term: &Term) -> Option<(ValueId, &'a ReduceOp)> {
        let Leaf::Value(value) = term.leaf else { return None };
        let (_, node) = self.graph.producer(value)?;
        let Op::Reduce(op) = &node.op else { return None };
        let [input] = node.inputs[..] else { return None };
        let rest = (0..self.shape.len()).filter(|a| !op.axes.contains(a));
        let index = rest.map(super::movement::var).collect();
        let back = AccessMap { rank: self.shape.len(), index, valid: Vec::new() };
        let same_shape = self.graph.ty(input).shape == self.shape;
        (same_shape && canonical(&back, self.shape, &self.graph.symbols) == term.map).then_some((input, op))
    }
}
