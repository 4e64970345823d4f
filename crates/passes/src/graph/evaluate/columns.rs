//! The values of a body at many points, one operation after the other.

use super::read;
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::index::IndexExpr;
use infc_ir::op::MapOp;
use infc_ir::scalar::{BinaryOp, Scalar, ScalarOp, eval_binary, eval_bit_cast, eval_cast, eval_compare, eval_unary};
use infc_tensor::{DType, Tensor};

/// Points that are computed together.
const BLOCK: usize = 256;

/// A map at the points of its shape, in row-major order and in blocks.
pub(super) struct Columns<'a> {
    op: &'a MapOp,
    shape: &'a [usize],
    inputs: &'a [&'a Tensor],
    /// Per operation, its values in the block at hand.
    columns: Vec<Vec<Scalar>>,
    /// Per operation, its values for all values of a byte, if that is all that the map depends on: weights have millions.
    by_byte: Option<Vec<Vec<Scalar>>>,
}

impl<'a> Columns<'a> {
    /// The inputs have the shape, and there are scalar operations on all types.
    pub(super) fn new(op: &'a MapOp, shape: &'a [usize], inputs: &'a [&'a Tensor]) -> Self {
        let columns = vec![vec![Scalar::Int(0); BLOCK]; op.body.ops.len()];
        let mut this = Self { op, shape, inputs, columns, by_byte: None };
        this.by_byte = this.values_of_bytes();
        this
    }

    /// The values at all bytes, if the map reads nothing but one tensor of bytes that has more elements.
    fn values_of_bytes(&self) -> Option<Vec<Vec<Scalar>>> {
        let &[input] = self.inputs else { return None };
        let is_byte = matches!(input.dtype(), DType::I8 | DType::U8);
        if !is_byte || input.len_elems() <= BLOCK || self.op.body.reads_place() {
            return None;
        }
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let mut values = self.columns.clone();
        block(self.op, self.shape, &[(input.dtype(), &all)], 0, &mut values).then_some(values)
    }

    /// Calls `f` for every block with the values of the results; false if an operation has no value here.
    pub(super) fn for_each_block(&mut self, mut f: impl FnMut(usize, &[&[Scalar]])) -> bool {
        let len: usize = self.shape.iter().product();
        for start in (0..len).step_by(BLOCK) {
            let count = BLOCK.min(len - start);
            match &self.by_byte {
                Some(values) => {
                    let bytes = &self.inputs[0].bytes()[start..start + count];
                    for &result in &self.op.results {
                        let values = &values[result.index()];
                        let column = self.columns[result.index()].iter_mut().zip(bytes);
                        column.for_each(|(to, &byte)| *to = values[usize::from(byte)]);
                    }
                }
                None => {
                    let inputs: Vec<(DType, &[u8])> = self
                        .inputs
                        .iter()
                        .map(|tensor| {
                            let size = tensor.dtype().size_bytes().unwrap_or(1);
                            (tensor.dtype(), &tensor.bytes()[start * size..(start + count) * size])
                        })
                        .collect();
                    self.columns.iter_mut().for_each(|column| column.resize(count, Scalar::Int(0)));
                    if !block(self.op, self.shape, &inputs, start, &mut self.columns) {
                        return false;
                    }
                }
            }
            let results: Vec<&[Scalar]> =
                self.op.results.iter().map(|result| &self.columns[result.index()][..count]).collect();
            f(start, &results);
        }
        true
    }
}

fn single(x: f32) -> Scalar {
    Scalar::Float(x.into())
}

/// [`eval_binary`] element by element. For what weights are mostly folded by, what to do is asked once and not per element.
fn binary(f: BinaryOp, dtype: DType, a: &[Scalar], b: &[Scalar], out: &mut [Scalar]) {
    let pairs = out.iter_mut().zip(a.iter().zip(b));
    // Sums, products and quotients of singles are the same rounded from doubles.
    match (f, dtype) {
        (BinaryOp::Add, DType::F32) => pairs.for_each(|(o, (a, b))| *o = single((a.to_f64() + b.to_f64()) as f32)),
        (BinaryOp::Sub, DType::F32) => pairs.for_each(|(o, (a, b))| *o = single((a.to_f64() - b.to_f64()) as f32)),
        (BinaryOp::Mul, DType::F32) => pairs.for_each(|(o, (a, b))| *o = single((a.to_f64() * b.to_f64()) as f32)),
        (BinaryOp::Div, DType::F32) => pairs.for_each(|(o, (a, b))| *o = single((a.to_f64() / b.to_f64()) as f32)),
        _ => pairs.for_each(|(o, (&a, &b))| *o = eval_binary(f, dtype, a, b)),
    }
}

/// Computes the columns of as many points from `start` as they are long, of operands that begin there; false if an operation
/// has no value here.
fn block(op: &MapOp, shape: &[usize], inputs: &[(DType, &[u8])], start: usize, columns: &mut [Vec<Scalar>]) -> bool {
    for (id, operation) in op.body.ops.iter_enumerated() {
        let (before, rest) = columns.split_at_mut(id.index());
        let out = &mut rest[0][..];
        let column = |s: &ScalarId| &before[s.index()][..];
        match operation {
            ScalarOp::Const(c) => out.fill(Scalar::from_const(*c)),
            ScalarOp::Param(n, dtype) => {
                let Some((_, bytes)) = inputs.get(usize::from(*n)).filter(|(own, _)| own == dtype) else {
                    return false;
                };
                match *dtype {
                    DType::F32 => {
                        out.iter_mut().zip(bytes.as_chunks().0).for_each(|(o, e)| *o = single(f32::from_le_bytes(*e)))
                    }
                    dtype => {
                        let elements = bytes.chunks_exact(dtype.size_bytes().unwrap_or(1));
                        out.iter_mut().zip(elements).for_each(|(o, e)| *o = Scalar::from_const(read(dtype, e)));
                    }
                }
            }
            ScalarOp::Index(expr) => {
                for (k, o) in out.iter_mut().enumerate() {
                    let Some(value) = at_point(expr, shape, start + k) else { return false };
                    *o = Scalar::Int(value);
                }
            }
            ScalarOp::InBounds(bounds) => {
                for (k, o) in out.iter_mut().enumerate() {
                    let mut all = true;
                    for bound in bounds {
                        let [e, lo, hi] = [&bound.expr, &bound.lo, &bound.hi].map(|e| at_point(e, shape, start + k));
                        let (Some(e), Some(lo), Some(hi)) = (e, lo, hi) else { return false };
                        all &= lo <= e && e < hi;
                    }
                    *o = Scalar::Int(i64::from(all));
                }
            }
            ScalarOp::Load(_) => return false,
            ScalarOp::Unary(f, a) => {
                let dtype = op.body.dtype(*a);
                out.iter_mut().zip(column(a)).for_each(|(o, &a)| *o = eval_unary(*f, dtype, a));
            }
            ScalarOp::Binary(f, a, b) => {
                binary(*f, op.body.dtype(*a), column(a), column(b), out);
            }
            ScalarOp::Compare(f, a, b) => {
                let dtype = op.body.dtype(*a);
                let pairs = column(a).iter().zip(column(b));
                out.iter_mut().zip(pairs).for_each(|(o, (&a, &b))| *o = eval_compare(*f, dtype, a, b));
            }
            ScalarOp::Select(c, a, b) => {
                let choices = column(c).iter().zip(column(a).iter().zip(column(b)));
                out.iter_mut().zip(choices).for_each(|(o, (c, (&a, &b)))| *o = if c.is_true() { a } else { b });
            }
            ScalarOp::Cast(to, a) | ScalarOp::CastSaturating(to, a) => {
                let (from, saturating) = (op.body.dtype(*a), matches!(operation, ScalarOp::CastSaturating(..)));
                out.iter_mut().zip(column(a)).for_each(|(o, &a)| *o = eval_cast(from, *to, saturating, a));
            }
            ScalarOp::BitCast(to, a) => {
                let from = op.body.dtype(*a);
                out.iter_mut().zip(column(a)).for_each(|(o, &a)| *o = eval_bit_cast(from, *to, a));
            }
        }
    }
    true
}

/// An index expression at a point given by its row-major number.
fn at_point(expr: &IndexExpr, shape: &[usize], flat: usize) -> Option<i64> {
    expr.eval(&|_| None, &|var| {
        let below: usize = shape.get(var.index() + 1..)?.iter().product();
        let extent = *shape.get(var.index())?;
        Some((flat / below.max(1) % extent.max(1)) as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::scalar::Body;

    #[test]
    fn columns_of_singles_are_what_their_elements_are() {
        let values = [0.0, -0.0, 1.0, -3.5, 1e-40, 3.4e38, f32::INFINITY, f32::NAN, 0.1, f32::MIN_POSITIVE].map(single);
        for f in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Max] {
            for a in values {
                let mut out = [Scalar::Int(0); 10];
                binary(f, DType::F32, &[a; 10], &values, &mut out);
                for (found, b) in out.into_iter().zip(values) {
                    let expected = eval_binary(f, DType::F32, a, b);
                    assert_eq!(
                        found.to_const(DType::F32).bits,
                        expected.to_const(DType::F32).bits,
                        "{f:?} {a:?} {b:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn values_of_bytes_are_looked_up() {
        // (b − 3)·0.1 of more bytes than there are, and of a few, which are computed.
        let mut body = Body::default();
        let byte = body.param(0, DType::I8);
        let number = body.cast(DType::F32, byte);
        let [three, tenth] = [3.0, 0.1].map(|c| body.constant(DType::F32, c));
        let shifted = body.binary(BinaryOp::Sub, number, three);
        let result = body.binary(BinaryOp::Mul, shifted, tenth);
        let op = MapOp { body, results: vec![result, byte] };
        for len in [700, 256, 5] {
            let bytes: Vec<i8> = (0..len).map(|n| (n * 77) as u8 as i8).collect();
            let tensor = Tensor::from_elements(&[len], &bytes).expect("fits");
            let (inputs, shape) = ([&tensor], [len]);
            let mut columns = Columns::new(&op, &shape, &inputs);
            assert_eq!(columns.by_byte.is_some(), len == 700);
            let mut found = Vec::new();
            assert!(columns.for_each_block(|start, results| {
                assert_eq!(start, found.len());
                found.extend(results[0].iter().zip(results[1]).map(|(a, b)| (a.to_f64() as f32, b.to_i64())));
            }));
            let expected: Vec<_> = bytes.iter().map(|&b| ((f32::from(b) - 3.0) * 0.1, i64::from(b))).collect();
            assert_eq!(found, expected);
        }
    }
}
