//! Matrix products: `MatMul`, `Gemm`.
//!
//! Sums run in `f64` (or wrapping integers) and are rounded once, so every float kernel is less exact than this.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, with_scalar};
use crate::select::common_dtype;
use crate::shape::{self, Strided};
use infc_tensor::Tensor;

/// Extents of a batched matrix product `[batch…, M, K] · [batch…, K, N]`.
pub(super) struct Product {
    /// Extents of the batch axes after broadcasting.
    batch: Vec<usize>,
    left_batch: Vec<usize>,
    right_batch: Vec<usize>,
    m: usize,
    k: usize,
    n: usize,
    /// Extents of the result: an operand that was a vector leaves no axis.
    pub(super) out: Vec<usize>,
}

impl Product {
    pub(super) fn new(left: &[usize], right: &[usize]) -> Result<Self> {
        let mismatch = |reason| EvalError::ShapeMismatch { left: left.to_vec(), right: right.to_vec(), reason };
        let (left_batch, m, k) = match left {
            [] => return Err(mismatch("a scalar is no matrix")),
            [k] => (&[][..], 1, *k),
            [batch @ .., m, k] => (batch, *m, *k),
        };
        let (right_batch, right_k, n) = match right {
            [] => return Err(mismatch("a scalar is no matrix")),
            [k] => (&[][..], *k, 1),
            [batch @ .., k, n] => (batch, *k, *n),
        };
        if k != right_k {
            return Err(mismatch("the inner extents of a matrix product differ"));
        }
        let batch = shape::broadcast(&[left_batch, right_batch])?;
        let mut out = batch.clone();
        if left.len() > 1 {
            out.push(m);
        }
        if right.len() > 1 {
            out.push(n);
        }
        check_work(batch.iter().chain(&[m, n, k]))?;
        Ok(Self { batch, left_batch: left_batch.to_vec(), right_batch: right_batch.to_vec(), m, k, n, out })
    }

    /// The elements of the result. `out` must have passed [`checked_len`].
    pub(super) fn compute<T: Scalar>(&self, left: &[T], right: &[T]) -> Vec<T> {
        let (m, k, n) = (self.m, self.k, self.n);
        let mut out = vec![T::ZERO; shape::len(&self.batch).saturating_mul(m).saturating_mul(n)];
        if out.is_empty() {
            return out;
        }
        let batches =
            Strided::broadcast(&self.left_batch, &self.batch).zip(Strided::broadcast(&self.right_batch, &self.batch));
        for (block, (l, r)) in out.chunks_mut(m * n).zip(batches) {
            for (row, sums) in block.chunks_mut(n).enumerate() {
                for at in 0..k {
                    let factor = left[(l * m + row) * k + at];
                    let terms = &right[(r * k + at) * n..][..n];
                    sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = sum.plus(factor.times(term)));
                }
            }
        }
        out
    }
}

pub(crate) fn matmul(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let dtype = common_dtype(&[a, b])?;
    let product = Product::new(a.shape(), b.shape())?;
    checked_len(dtype, &product.out)?;
    with_scalar!(dtype, T => {
        let values = product.compute::<T>(&T::read(a)?, &T::read(b)?);
        one(T::write(dtype, &product.out, values.into_iter())?)
    })
}

/// `Gemm`: `alpha · A' · B' + beta · C`, with `A` and `B` transposed if asked for and `C` broadcast.
pub(crate) fn gemm(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let matrix = |index: usize, transposed: bool| -> Result<Tensor> {
        let tensor = call.input(index)?;
        match (tensor.rank(), transposed) {
            (2, true) => super::movement::permute(tensor, &[1, 0]),
            (2, false) => Ok(tensor.clone()),
            _ => Err(EvalError::InvalidInput { index, reason: "a matrix is needed" }),
        }
    };
    let (a, b) = (matrix(0, call.flag("transA", false)?)?, matrix(1, call.flag("transB", false)?)?);
    let dtype = common_dtype(&[&a, &b])?;
    let product = Product::new(a.shape(), b.shape())?;
    checked_len(dtype, &product.out)?;
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    if let Some(c) = call.optional(2)
        && shape::broadcast(&[c.shape(), &product.out])? != product.out
    {
        return Err(EvalError::ShapeMismatch {
            left: c.shape().to_vec(),
            right: product.out,
            reason: "the addend does not broadcast to the product",
        });
    }
    fn gemm_as<T: Scalar>(
        product: &Product,
        (a, b, c): (&Tensor, &Tensor, Option<&Tensor>),
        (alpha, beta): (f64, f64),
    ) -> Result<Vec<Tensor>> {
        // A factor of one is left out, so that integers stay exact.
        let scaled = |factor: f64, value: T| if factor == 1.0 { value } else { T::from_f64(factor * value.to_f64()) };
        let mut values = product.compute::<T>(&T::read(a)?, &T::read(b)?);
        values.iter_mut().for_each(|v| *v = scaled(alpha, *v));
        if let Some(c) = c {
            let addends = T::read(c)?;
            for (value, i) in values.iter_mut().zip(Strided::broadcast(c.shape(), &product.out)) {
                *value = value.plus(scaled(beta, addends[i]));
            }
        }
        one(T::write(a.dtype(), &product.out, values.into_iter())?)
    }
    with_scalar!(dtype, T => gemm_as::<T>(&product, (&a, &b, call.optional(2)), (alpha, beta)))
}
