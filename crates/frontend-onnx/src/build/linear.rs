//! Numbers that follow from where they stand: grids of positions, as exporters write assignments to slices.

use super::Builder;
use crate::known::Item;
use crate::tracked::{Contents, Tracked, static_len};
use infc_ir::entity::{EntityId, ScalarId, ValueId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp};
use infc_tensor::{DType, Tensor};
use std::cell::Cell;

/// Nodes and operations that are looked through for one element, each as often as it is come to.
const MAX_VISITS: usize = 256;

/// How many more may be looked through.
struct Visits(Cell<usize>);

impl Visits {
    fn another(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }
}

impl Builder {
    /// The element of a tensor of integers as an expression of its coordinates, if it is a known one everywhere: linear where
    /// numbers say so.
    pub(crate) fn element_at(&self, x: &Tracked) -> Option<IndexExpr> {
        let of_item = |item: &Item| match item {
            Item::Int(dim) => Some(dim.clone()),
            Item::Const(_) => None,
        };
        match x.contents() {
            Contents::Uniform(item) => return of_item(item),
            Contents::Items(items) => {
                let items: Vec<Dim> = items.iter().map(of_item).collect::<Option<_>>()?;
                return linear(x.shape(), |n| items.get(n).cloned());
            }
            Contents::Unknown => {}
        }
        match (x.constant(), x.value()) {
            (Some(constant), _) => of_tensor(&constant.tensor),
            (None, Some(value)) => self.element_of_value(value, &Visits(Cell::new(MAX_VISITS))),
            (None, None) => None,
        }
    }

    fn element_of_value(&self, value: ValueId, visits: &Visits) -> Option<IndexExpr> {
        visits.another()?;
        let (_, node) = self.graph.producer(value)?;
        match (&node.op, &node.inputs[..]) {
            (Op::Constant(constant), _) => of_tensor(&constant.tensor),
            (Op::DimValue(dim), _) => Some(dim.clone()),
            (Op::View(view), &[of]) => self.element_of_view(view, of, visits),
            (Op::Map(map), inputs) => {
                let known = |n: u8| self.element_of_value(*inputs.get(usize::from(n))?, visits);
                let &[result] = &map.results[..] else { return None };
                element_of_body(&map.body, result, &known, visits)
            }
            _ => None,
        }
    }

    /// Of parts that were put together, a view may see one alone.
    fn element_of_view(&self, view: &ViewOp, of: ValueId, visits: &Visits) -> Option<IndexExpr> {
        if !view.map.valid.is_empty() {
            return None;
        }
        let mut index = view.map.index.clone();
        let mut of = of;
        if let Some((_, node)) = self.graph.producer(of)
            && let Op::Concat(concat) = &node.op
        {
            let at = index[concat.axis].as_const()?;
            let mut before = 0;
            of = *node.inputs.iter().find(|&&part| {
                let len = self.graph.ty(part).shape[concat.axis].as_const().unwrap_or(i64::MAX / 2);
                let is_here = (before..before + len).contains(&at);
                before += if is_here { 0 } else { len };
                is_here
            })?;
            index[concat.axis] = Dim::constant(at - before);
        }
        Some(self.element_of_value(of, visits)?.substitute_vars(&index))
    }
}

/// The expression of an element of a body, where those of its parameters are known.
fn element_of_body(
    body: &Body,
    id: ScalarId,
    known: &dyn Fn(u8) -> Option<IndexExpr>,
    visits: &Visits,
) -> Option<IndexExpr> {
    visits.another()?;
    let is_number = |id: ScalarId| matches!(body.dtype(id), DType::I64 | DType::I32);
    let of = |id: ScalarId| element_of_body(body, id, known, visits);
    match &body.ops[id] {
        _ if !is_number(id) => None,
        ScalarOp::Const(value) => Some(Dim::constant(value.to_f64() as i64)).filter(|_| value.to_f64().abs() < 1e15),
        ScalarOp::Param(n, _) => known(*n),
        ScalarOp::Index(expr) => Some(expr.clone()),
        ScalarOp::Cast(_, of_cast) if is_number(*of_cast) => of(*of_cast),
        ScalarOp::Binary(BinaryOp::Add, a, b) => Some(of(*a)? + of(*b)?),
        ScalarOp::Binary(BinaryOp::Sub, a, b) => Some(of(*a)? - of(*b)?),
        ScalarOp::Binary(BinaryOp::Mul, a, b) => Some(of(*a)? * of(*b)?),
        _ => None,
    }
}

fn of_tensor(tensor: &Tensor) -> Option<IndexExpr> {
    if !matches!(tensor.dtype(), DType::I64 | DType::I32) {
        return None;
    }
    let numbers = tensor.to_i64_vec()?;
    let shape: Vec<Dim> = tensor.shape().iter().map(|&d| Dim::constant(d as i64)).collect();
    linear(&shape, |n| numbers.get(n).map(|&number| Dim::constant(number)))
}

/// `first + Σ step · coordinate` of all elements in row-major order, if they are that.
fn linear(shape: &[Dim], element: impl Fn(usize) -> Option<Dim>) -> Option<IndexExpr> {
    let count = static_len(shape)?;
    let extents: Vec<usize> = shape.iter().map(|d| d.as_const().map(|d| d as usize)).collect::<Option<_>>()?;
    let first = element(0)?;
    let strides: Vec<usize> = (0..extents.len()).map(|n| extents[n + 1..].iter().product()).collect();
    let step = |axis: usize| match extents[axis] {
        0 | 1 => Some(0),
        _ => (element(strides[axis])? - first.clone()).as_const(),
    };
    let steps: Vec<i64> = (0..extents.len()).map(step).collect::<Option<_>>()?;
    let expected = |n: usize| {
        let coordinate = |axis: usize| (n / strides[axis] % extents[axis]) as i64;
        (0..extents.len()).try_fold(0i64, |sum, axis| sum.checked_add(steps[axis].checked_mul(coordinate(axis))?))
    };
    let is_linear = |n: usize| Some((element(n)? - first.clone()).as_const()? == expected(n)?);
    if !(0..count).all(|n| is_linear(n) == Some(true)) {
        return None;
    }
    let terms = (0..extents.len()).map(|axis| IndexExpr::var(VarId::from_index(axis)).scale(steps[axis]));
    Some(first + terms.sum::<IndexExpr>())
}
