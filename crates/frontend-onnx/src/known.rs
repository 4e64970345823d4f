//! Elements whose values are known during import: numbers, and integers that follow from dims.
//!
//! Exporters compute shapes with ordinary operators (`Shape → Gather → Concat → Reshape`). Because the import tracks
//! small tensors element by element, such chains end as dims and leave no nodes behind.

mod dims;

pub(crate) use dims::Folding;

use crate::truth;
use infc_ir::entity::{IndexVec, ScalarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{
    Body, CompareOp, Const, Scalar, ScalarOp, UnaryOp, eval_binary, eval_bit_cast, eval_cast, eval_compare, eval_unary,
    is_computable,
};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// The most elements that are tracked one by one.
pub(crate) const MAX_ITEMS: usize = 1024;

/// Floats of 32 bits are all integers up to here.
const MOST_EXACT: f64 = 16_777_216.0;

/// One known element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// An integer or bool (0 or 1), maybe depending on symbols; or, depending on some, a float that is such an integer.
    Int(Dim),
    /// A float.
    Const(Const),
}

impl Item {
    pub(crate) fn int(value: i64) -> Self {
        Item::Int(Dim::constant(value))
    }

    pub(crate) fn from_scalar(dtype: DType, value: Scalar) -> Self {
        match value {
            Scalar::Int(x) if !dtype.is_float() => Item::int(x),
            _ => Item::Const(value.to_const(dtype)),
        }
    }

    pub(crate) fn from_const(value: Const) -> Self {
        Self::from_scalar(value.dtype, Scalar::from_const(value))
    }

    /// The value, if it depends on no symbol.
    pub(crate) fn scalar(&self) -> Option<Scalar> {
        match self {
            Item::Int(dim) => dim.as_const().map(Scalar::Int),
            Item::Const(c) => Some(Scalar::from_const(*c)),
        }
    }

    pub(crate) fn dim(&self) -> Option<&Dim> {
        match self {
            Item::Int(dim) => Some(dim),
            Item::Const(_) => None,
        }
    }

    /// The value if it is an integer, of a float too.
    fn integer(&self) -> Option<Dim> {
        match self {
            Item::Int(dim) => Some(dim.clone()),
            Item::Const(c) => {
                let value = Scalar::from_const(*c).to_f64();
                #[expect(clippy::cast_possible_truncation, reason = "an integer that is not large")]
                (value.fract() == 0.0 && value.abs() < MOST_EXACT).then(|| Dim::constant(value as i64))
            }
        }
    }

    /// The element as a leaf of a scalar expression of the given type.
    pub(crate) fn push(&self, body: &mut Body, dtype: DType) -> ScalarId {
        match (self, self.scalar()) {
            (_, Some(value)) => body.push(ScalarOp::Const(value.to_const(dtype))),
            (Item::Int(dim), None) => {
                let index = body.push(ScalarOp::Index(dim.clone()));
                body.cast(dtype, index)
            }
            (Item::Const(c), None) => body.push(ScalarOp::Const(*c)),
        }
    }
}

/// The elements of a small tensor; `None` if it is large or of a type that is not computed with.
pub(crate) fn items_of(tensor: &Tensor) -> Option<Vec<Item>> {
    let dtype = tensor.dtype();
    if tensor.len_elems() > MAX_ITEMS || !is_computable(dtype) {
        return None;
    }
    let size = dtype.size_bytes()?;
    let items = tensor.bytes().chunks_exact(size).map(|raw| {
        let bits = raw.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        Item::from_const(Const { dtype, bits })
    });
    Some(items.collect())
}

/// The tensor of elements that are all numbers; `None` if any depends on a symbol.
pub(crate) fn tensor_of(dtype: DType, shape: &[usize], items: &[Item]) -> Option<Tensor> {
    let size = dtype.size_bytes()?;
    let mut bytes = AlignedBytes::zeroed(items.len() * size);
    for (to, item) in bytes.chunks_exact_mut(size).zip(items) {
        let bits = item.scalar()?.to_const(dtype).bits;
        to.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    Tensor::from_bytes(dtype, shape.to_vec(), bytes).ok()
}

/// The values of a scalar expression for known arguments, at a coordinate; `None` where they cannot be known.
pub(crate) fn eval(
    body: &Body,
    results: &[ScalarId],
    params: &[Item],
    coordinate: &[IndexExpr],
    folding: Folding<'_>,
) -> Option<Vec<Item>> {
    let mut values: IndexVec<ScalarId, Option<Item>> = IndexVec::new();
    for (id, op) in body.ops.iter_enumerated() {
        let value = eval_op(body, id, op, &values, params, coordinate, folding);
        values.push(value);
    }
    results.iter().map(|&r| values[r].clone()).collect()
}

fn eval_op(
    body: &Body,
    id: ScalarId,
    op: &ScalarOp,
    values: &IndexVec<ScalarId, Option<Item>>,
    params: &[Item],
    coordinate: &[IndexExpr],
    folding: Folding<'_>,
) -> Option<Item> {
    let dtype = body.dtype(id);
    let value = |id: &ScalarId| values[*id].as_ref();
    match op {
        ScalarOp::Const(c) => Some(Item::from_const(*c)),
        ScalarOp::Param(n, _) => params.get(usize::from(*n)).cloned(),
        ScalarOp::Index(e) => {
            let e = e.substitute_vars(coordinate);
            (!e.uses_vars()).then(|| Item::Int(e.simplify(folding.ranges)))
        }
        ScalarOp::InBounds(_) | ScalarOp::Load(_) => None,
        ScalarOp::Unary(op, a) => {
            let of = body.dtype(*a);
            match (value(a)?.scalar(), value(a)?) {
                (Some(x), _) => Some(Item::from_scalar(dtype, eval_unary(*op, of, x))),
                (None, Item::Int(x)) if is_dim_type(of) => folding.unary(*op, x).map(Item::Int),
                (None, Item::Int(x)) if of == DType::Bool && *op == UnaryOp::Not && folding.choices => {
                    Some(Item::Int(truth::not(x)))
                }
                _ => None,
            }
        }
        ScalarOp::Binary(op, a, b) => {
            let (a, b) = (value(a)?, value(b)?);
            match (a.scalar(), b.scalar()) {
                (Some(x), Some(y)) => Some(Item::from_scalar(dtype, eval_binary(*op, dtype, x, y))),
                _ if is_dim_type(dtype) => folding.binary(*op, a.dim()?, b.dim()?).map(Item::Int),
                _ if dtype == DType::Bool => folding.logic(*op, a.dim()?, b.dim()?).map(Item::Int),
                _ => None,
            }
        }
        ScalarOp::Compare(op, a, b) => {
            let of = body.dtype(*a);
            let (a, b) = (value(a)?, value(b)?);
            match (a.scalar(), b.scalar()) {
                (Some(x), Some(y)) => Some(Item::from_scalar(DType::Bool, eval_compare(*op, of, x, y))),
                _ if is_dim_type(of) => folding.compare(*op, a.dim()?, b.dim()?).map(Item::Int),
                // Floats round large dims, which shows where both are some, not beside a number that is exact.
                (x, y) if matches!(of, DType::F32 | DType::F64) && (x.is_some() || y.is_some()) => {
                    folding.compare(*op, &a.integer()?, &b.integer()?).map(Item::Int)
                }
                _ => None,
            }
        }
        ScalarOp::Select(c, a, b) => {
            let condition = value(c)?;
            let Some(known) = condition.scalar() else {
                let (a, b) = (value(a)?.dim()?, value(b)?.dim()?);
                return folding.select(condition.dim()?, a, b).filter(|_| is_dim_type(dtype)).map(Item::Int);
            };
            value(if known.is_true() { a } else { b }).cloned()
        }
        ScalarOp::Cast(to, a) | ScalarOp::CastSaturating(to, a) => {
            let from = body.dtype(*a);
            let saturating = matches!(op, ScalarOp::CastSaturating(..));
            match (value(a)?.scalar(), value(a)?) {
                (Some(x), _) => Some(Item::from_scalar(*to, eval_cast(from, *to, saturating, x))),
                // Extents fit every integer type they are put into, or they would not be extents; of floats it is to be seen.
                (None, Item::Int(x)) if is_dim_type(from) && (is_dim_type(*to) || to.is_float()) => {
                    Some(Item::Int(x.clone()))
                }
                (None, Item::Int(x)) if from == DType::Bool && is_dim_type(*to) => Some(Item::Int(x.clone())),
                (None, Item::Int(x)) if is_dim_type(from) && *to == DType::Bool => {
                    folding.compare(CompareOp::Ne, x, &Dim::constant(0)).map(Item::Int)
                }
                _ => None,
            }
        }
        ScalarOp::BitCast(to, a) => {
            Some(Item::from_scalar(*to, eval_bit_cast(body.dtype(*a), *to, value(a)?.scalar()?)))
        }
    }
}

fn is_dim_type(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::I32)
}
