//! Numbers that follow from where they stand: grids of positions, as exporters write assignments to slices.

use super::{Builder, check_complexity};
use crate::known::Item;
use crate::tracked::{Contents, Tracked};
use infc_ir::entity::{EntityId, ScalarId, ValueId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp};
use infc_tensor::{DType, Tensor};
use std::cell::Cell;

/// Nodes and operations that are looked through for one element, each as often as it is come to.
const MAX_VISITS: usize = 256;
/// Elements of a tensor that are looked at in the time of a visit, or nearly.
const ELEMENTS_PER_VISIT: usize = 1 << 20;

/// How many more may be looked through.
struct Visits(Cell<usize>);

impl Visits {
    fn another(&self) -> Option<()> {
        self.some(1)
    }

    fn some(&self, count: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(count)?);
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
                let first = items.first()?.clone();
                let apart = |item: &Dim| (item.clone() - first.clone()).as_const();
                let extents: Vec<usize> =
                    x.shape().iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<_>>()?;
                let apart: Vec<i64> = items.iter().map(apart).collect::<Option<_>>()?;
                return Some(first.clone() + linear(&extents, &apart)?);
            }
            Contents::Unknown => {}
        }
        let visits = Visits(Cell::new(MAX_VISITS));
        match (x.constant(), x.value()) {
            (Some(constant), _) => of_tensor(&constant.tensor, &[], &visits),
            (None, Some(value)) => self.element_of_value(value, &visits),
            (None, None) => None,
        }
    }

    fn element_of_value(&self, value: ValueId, visits: &Visits) -> Option<IndexExpr> {
        visits.another()?;
        let (_, node) = self.graph.producer(value)?;
        match (&node.op, &node.inputs[..]) {
            (Op::Constant(constant), _) => of_tensor(&constant.tensor, &[], visits),
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
            let (part, at) = self.part_at(&node.inputs, concat.axis, index[concat.axis].as_const()?)?;
            (of, index[concat.axis]) = (part, Dim::constant(at));
        }
        let element = match self.graph.producer(of).map(|(_, node)| &node.op) {
            Some(Op::Constant(constant)) => of_tensor(&constant.tensor, &index, visits)?,
            _ => self.element_of_value(of, visits)?,
        };
        not_too_long(element.substitute_vars(&index))
    }

    /// The part that has a position along an axis of what parts make, and the position in it; `None` behind one whose
    /// length only the run tells.
    pub(super) fn part_at(&self, parts: &[ValueId], axis: usize, at: i64) -> Option<(ValueId, i64)> {
        let mut before = 0;
        for &part in parts {
            let len = self.graph.ty(part).shape[axis].as_const()?;
            if (before..before + len).contains(&at) {
                return Some((part, at - before));
            }
            before += len;
        }
        None
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
        ScalarOp::Index(expr) => not_too_long(expr.clone()),
        ScalarOp::Cast(_, of_cast) if is_number(*of_cast) => of(*of_cast),
        ScalarOp::Binary(BinaryOp::Add, a, b) => not_too_long(of(*a)? + of(*b)?),
        ScalarOp::Binary(BinaryOp::Sub, a, b) => not_too_long(of(*a)? - of(*b)?),
        ScalarOp::Binary(BinaryOp::Mul, a, b) => {
            let (a, b) = (of(*a)?, of(*b)?);
            // A product of coordinates is no grid, and might grow without a bound where these are replaced.
            if a.uses_vars() && b.uses_vars() { None } else { not_too_long(a * b) }
        }
        _ => None,
    }
}

/// An expression unless working with it could take forever.
fn not_too_long(expr: IndexExpr) -> Option<IndexExpr> {
    check_complexity(&expr).is_ok().then_some(expr)
}

/// The element of a tensor as an expression of its coordinates, where those that are numbers in `index` have only these.
fn of_tensor(tensor: &Tensor, index: &[IndexExpr], visits: &Visits) -> Option<IndexExpr> {
    if !matches!(tensor.dtype(), DType::I64 | DType::I32) {
        return None;
    }
    visits.some(tensor.len_elems() / ELEMENTS_PER_VISIT)?;
    let mut numbers = tensor.to_i64_vec().filter(|numbers| !numbers.is_empty())?;
    let mut extents = tensor.shape().to_vec();
    let mut inner = 1;
    for axis in (0..extents.len()).rev() {
        if let Some(at) = index.get(axis).and_then(IndexExpr::as_const) {
            let at = usize::try_from(at).ok().filter(|&at| at < extents[axis])?;
            let rows = numbers.chunks_exact(inner * extents[axis]);
            numbers = rows.flat_map(|row| &row[at * inner..(at + 1) * inner]).copied().collect();
            extents[axis] = 1;
        }
        inner *= extents[axis];
    }
    let &first = numbers.first()?;
    let apart: Vec<i64> = numbers.iter().map(|number| number.checked_sub(first)).collect::<Option<_>>()?;
    Some(linear(&extents, &apart)? + first)
}

/// `Σ step · coordinate`, if that is what all elements are in row-major order.
fn linear(extents: &[usize], elements: &[i64]) -> Option<IndexExpr> {
    let mut steps = vec![0; extents.len()];
    let mut stride = 1;
    for axis in (0..extents.len()).rev() {
        if extents[axis] > 1 {
            steps[axis] = *elements.get(stride)?;
        }
        stride *= extents[axis];
    }
    if elements.len() != stride {
        return None;
    }
    // What the coordinates say, which are counted up from the last one on.
    let (mut at, mut expected) = (vec![0; extents.len()], 0i64);
    for &element in elements {
        if element != expected {
            return None;
        }
        for axis in (0..extents.len()).rev() {
            at[axis] += 1;
            if at[axis] < extents[axis] {
                expected = expected.checked_add(steps[axis])?;
                break;
            }
            expected = expected.checked_sub(steps[axis].checked_mul(extents[axis] as i64 - 1)?)?;
            at[axis] = 0;
        }
    }
    let terms = (0..extents.len()).map(|axis| IndexExpr::var(VarId::from_index(axis)).scale(steps[axis]));
    Some(terms.sum::<IndexExpr>())
}
