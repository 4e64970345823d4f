//! What the rules look for: maps of `(q − zero)·scale`, directly or through a view.

use super::super::map::as_map;
use super::super::movement;
use super::super::rewrite::{Operand, Replacement};
use super::super::scalar::simplify;
use infc_ir::access::AccessMap;
use infc_ir::entity::ValueId;
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp};
use infc_tensor::DType;

/// A zero point or scale: a number, or an operand of the map, of the map's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Parameter {
    Number(Const),
    Value(ValueId),
}

/// A map that computes `(q − zero)·scale`, or without a scale `q − zero`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dequantized {
    /// Integers, of the map's shape.
    pub(super) q: ValueId,
    pub(super) zero: Option<Parameter>,
    pub(super) scale: Option<Parameter>,
    /// The type of the result.
    pub(super) dtype: DType,
}

/// An operand of a contraction: a dequantised value, perhaps seen through a view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'g> {
    pub(super) view: Option<&'g ViewOp>,
    pub(super) map: Dequantized,
}

impl Dequantized {
    /// Looks at the map that makes a value.
    pub(super) fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let (_, node) = graph.producer(value)?;
        let map = as_map(node).filter(|m| m.results.len() == 1)?;
        let (body, results) = simplify(&map.body, &map.results);
        Self::match_body(&body, results[0], &node.inputs)
    }

    /// Looks at a simplified body over the given inputs.
    pub(super) fn match_body(body: &Body, root: infc_ir::entity::ScalarId, inputs: &[ValueId]) -> Option<Self> {
        let dtype = body.dtype(root);
        let parameter = |id| match body.ops[id] {
            ScalarOp::Const(c) => Some(Parameter::Number(c)),
            ScalarOp::Param(n, _) => inputs.get(usize::from(n)).map(|&v| Parameter::Value(v)),
            _ => None,
        };
        let through_cast = |id| match body.ops[id] {
            ScalarOp::Cast(_, inner) => inner,
            _ => id,
        };
        let (steps, scale) = match body.ops[root] {
            ScalarOp::Binary(BinaryOp::Mul, a, b) if dtype == DType::F32 => match (parameter(a), parameter(b)) {
                (_, Some(scale)) if matches!(body.ops[a], ScalarOp::Cast(..)) => (a, Some(scale)),
                (Some(scale), _) if matches!(body.ops[b], ScalarOp::Cast(..)) => (b, Some(scale)),
                _ => return None,
            },
            _ => (root, None),
        };
        // Between the steps and the scale lies a conversion to f32.
        let steps = match body.ops[steps] {
            ScalarOp::Cast(to, inner) if to == dtype => inner,
            ScalarOp::Binary(BinaryOp::Sub, ..) if dtype == DType::I32 => steps,
            _ => return None,
        };
        let (q, zero) = match body.ops[steps] {
            ScalarOp::Binary(BinaryOp::Sub, q, zero) if body.dtype(q) == DType::I32 => {
                (through_cast(q), Some(parameter(through_cast(zero))?))
            }
            _ => (steps, None),
        };
        let Some(Parameter::Value(value)) = parameter(q) else { return None };
        let is_narrow = body.dtype(q).is_int() && body.dtype(q).size_bits() <= 32;
        (is_narrow && matches!(dtype, DType::F32 | DType::I32)).then_some(Self { q: value, zero, scale, dtype })
    }

    /// The greatest `|q − zero|`.
    pub(super) fn greatest(&self, graph: &Graph) -> i64 {
        let (low, high) = range(graph.ty(self.q).dtype);
        match self.zero {
            None => high.max(-low),
            Some(Parameter::Number(zero)) => (high - zero.to_f64() as i64).max(zero.to_f64() as i64 - low),
            Some(Parameter::Value(_)) => high - low,
        }
    }
}

impl<'g> Seen<'g> {
    /// Looks at a value, through a view that pads with zero or not at all.
    pub(super) fn of(graph: &'g Graph, value: ValueId) -> Option<Self> {
        if let Some((_, node)) = graph.producer(value)
            && let Op::View(view) = &node.op
        {
            let pads_with_zero = view.map.valid.is_empty() || view.otherwise.bits == 0;
            let map = Dequantized::of(graph, node.inputs[0]).filter(|_| pads_with_zero)?;
            return Some(Self { view: Some(view), map });
        }
        Some(Self { view: None, map: Dequantized::of(graph, value)? })
    }

    /// The view of another value of the map's shape, with the given padding.
    pub(super) fn look_at(&self, new: &mut Replacement, value: Operand, dtype: DType, padding: Const) -> Operand {
        let Some(view) = self.view else { return value };
        let op = ViewOp { otherwise: padding, ..view.clone() };
        new.add(Op::View(op), &[value], TensorType::new(dtype, view.shape.clone()))
    }

    /// A parameter of the map over the output of a contraction, where this operand has the given labels. `None` if it
    /// varies along a label that is summed.
    pub(super) fn spread(
        &self,
        graph: &Graph,
        value: ValueId,
        (labels, output): (&[u8], &[u8]),
        shape: &[Dim],
        new: &mut Replacement,
    ) -> Option<Operand> {
        let rank = graph.ty(value).shape.len();
        let (base, map) = match graph.producer(value) {
            Some((_, node)) if matches!(&node.op, Op::View(v) if v.map.valid.is_empty()) => {
                let Op::View(view) = &node.op else { return None };
                (node.inputs[0], view.map.clone())
            }
            _ => (value, AccessMap::identity(rank)),
        };
        let through: Vec<IndexExpr> = match self.view {
            Some(view) => view.map.index.clone(),
            None => (0..rank).map(movement::var).collect(),
        };
        let at: Vec<Option<IndexExpr>> =
            labels.iter().map(|l| output.iter().position(|o| o == l).map(movement::var)).collect();
        let known = |e: &IndexExpr| (0..labels.len()).all(|n| at[n].is_some() || !e.uses_var(var_id(n)));
        let by: Vec<IndexExpr> = at.iter().map(|e| e.clone().unwrap_or_default()).collect();
        let mut index = Vec::with_capacity(map.index.len());
        for e in &map.index {
            let seen = e.substitute_vars(&through);
            // An axis of extent 1 is at 0 whatever the coordinate says.
            let seen = seen.simplify(&movement::ranges(&graph.symbols, self.shape(graph)));
            if !known(&seen) {
                return None;
            }
            index.push(seen.substitute_vars(&by));
        }
        let map = AccessMap { rank: shape.len(), index, valid: Vec::new() };
        let dtype = graph.ty(base).dtype;
        let op = movement::view(map, shape, Const::zero(dtype));
        Some(new.add(op, &[base.into()], TensorType::new(dtype, shape.to_vec())))
    }

    /// The shape that the contraction sees.
    fn shape<'s>(&self, graph: &'s Graph) -> &'s [Dim]
    where
        'g: 's,
    {
        match self.view {
            Some(view) => &view.shape,
            None => &graph.ty(self.map.q).shape,
        }
    }
}

fn var_id(n: usize) -> infc_ir::entity::VarId {
    infc_ir::entity::VarId(n as u32)
}

/// The least and the greatest value of an integer type of at most 32 bits.
pub(super) fn range(dtype: DType) -> (i64, i64) {
    let bits = dtype.size_bits().min(32) as u32;
    match dtype.class() {
        infc_tensor::DTypeClass::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}
