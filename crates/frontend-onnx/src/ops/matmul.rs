//! Matrix products: contractions over labelled axes.

use super::Operator;
use crate::build::{Builder, Result, compute_type};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::scalar::BinaryOp;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("MatMul", 1, matmul), Operator::new("Gemm", 1, gemm)];

fn needs_axes(x: &Tracked, expected: &str) -> Problem {
    let found = format!("{} axes", x.rank());
    Problem::ShapeMismatch { expected: expected.to_owned(), found }
}

fn matmul(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    Ok(vec![product_of(call.build, &a, &b)?])
}

/// The product of two values of one type, summed in the computing type.
pub(super) fn product_of(build: &mut Builder, a: &Tracked, b: &Tracked) -> Result<Tracked> {
    if a.dtype() != b.dtype() {
        return Err(Problem::TypeMismatch { left: a.dtype(), right: b.dtype() });
    }
    let (dtype, wide) = (a.dtype(), compute_type(a.dtype()));
    let (a, b) = (build.cast(a, wide)?, build.cast(b, wide)?);
    let product = product(build, &a, &b, wide)?;
    build.cast(&product, dtype)
}

/// NumPy's matmul, summed in the given type (the operands may have others): vectors are matrices with one row or
/// column, which disappears again; leading axes broadcast.
///
/// A batch axis of extent 1 has no label on that side, so that broadcasting costs nothing.
pub(super) fn product(build: &mut Builder, a: &Tracked, b: &Tracked, dtype: DType) -> Result<Tracked> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(needs_axes(if a.rank() == 0 { a } else { b }, "at least one axis"));
    }
    let (a_batch, b_batch) = (a.rank().saturating_sub(2), b.rank().saturating_sub(2));
    let batch = a_batch.max(b_batch);
    // Labels: 0…batch−1 for batch axes, then m, k, n.
    let (m, k, n) = (batch as u8, batch as u8 + 1, batch as u8 + 2);
    let mut a_labels: Vec<Option<u8>> = (batch - a_batch..batch).map(|l| Some(l as u8)).collect();
    let mut b_labels: Vec<Option<u8>> = (batch - b_batch..batch).map(|l| Some(l as u8)).collect();
    let mut output: Vec<u8> = (0..batch as u8).collect();
    for axis in batch.saturating_sub(a_batch.min(b_batch))..batch {
        let (i, j) = (axis - (batch - a_batch), axis - (batch - b_batch));
        match (a.shape()[i].is_const(1), b.shape()[j].is_const(1)) {
            (true, false) => a_labels[i] = None,
            (_, true) => b_labels[j] = None,
            // The contraction checks that both agree.
            (false, false) => {}
        }
    }
    if a.rank() > 1 {
        a_labels.push(Some(m));
        output.push(m);
    }
    a_labels.push(Some(k));
    b_labels.push(Some(k));
    if b.rank() > 1 {
        b_labels.push(Some(n));
        output.push(n);
    }
    let (a, a_labels) = without_unlabelled(build, a, &a_labels)?;
    let (b, b_labels) = without_unlabelled(build, b, &b_labels)?;
    build.contract_in(dtype, (&a, &a_labels), (&b, &b_labels), &output)
}

/// Drops the axes (of extent 1) that have no label.
fn without_unlabelled(build: &mut Builder, x: &Tracked, labels: &[Option<u8>]) -> Result<(Tracked, Vec<u8>)> {
    let kept: Vec<_> = x.shape().iter().zip(labels).filter(|(_, l)| l.is_some()).map(|(d, _)| d.clone()).collect();
    Ok((build.reshape(x, &kept)?, labels.iter().copied().flatten().collect()))
}

/// `alpha·A·B + beta·C`, A and B maybe transposed.
pub(super) fn gemm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if let Some(x) = [&a, &b].into_iter().find(|x| x.rank() != 2) {
        return Err(needs_axes(x, "a matrix"));
    }
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    const M: u8 = 0;
    const N: u8 = 1;
    const K: u8 = 2;
    let a_labels = if call.flag("transA", false)? { [K, M] } else { [M, K] };
    let b_labels = if call.flag("transB", false)? { [N, K] } else { [K, N] };
    let mut result = call.build.contract((&a, &a_labels), (&b, &b_labels), &[M, N])?;
    let c = call.optional(2).filter(|_| beta != 0.0);
    if alpha != 1.0 || c.is_some() {
        let shape = result.shape().to_vec();
        let mut inputs = vec![&result];
        inputs.extend(&c);
        // C broadcasts to the product, not the other way.
        result = call.build.compute_over(shape, &inputs, |body, p| {
            let scaled = |body: &mut infc_ir::scalar::Body, x, by: f64| {
                if by == 1.0 {
                    return x;
                }
                let by = body.constant(body.dtype(x), by);
                body.binary(BinaryOp::Mul, x, by)
            };
            let product = scaled(body, p[0], alpha);
            match p.get(1) {
                Some(&c) => {
                    let c = scaled(body, c, beta);
                    body.binary(BinaryOp::Add, product, c)
                }
                None => product,
            }
        })?;
    }
    Ok(vec![result])
}
