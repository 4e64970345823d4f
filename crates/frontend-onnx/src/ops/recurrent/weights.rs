//! What inputs and states of a recurrent network are multiplied by: real numbers, or quantised ones.
//!
//! ONNX Runtime's `DynamicQuantizeLSTM` has integers, with a scale and a zero point for all of a direction or for each
//! row of `Wᵀ`. What they are multiplied by is quantised to bytes when the model runs, the input of all steps at once, a
//! state at each step, as `DynamicQuantizeLinear` does it; the integers are multiplied and summed exactly.

use super::super::matmul::product;
use super::super::quantize::{quantize_dynamically, require_integer};
use super::super::quantized_products::without_zero;
use super::{Cell, Variant};
use crate::build::{Builder, Result, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Const};
use infc_tensor::DType;

/// One direction's part of a value, computed in the given type.
pub(super) fn direction_of(build: &mut Builder, x: &Tracked, direction: usize, dtype: DType) -> Result<Tracked> {
    let part = part_of(build, x, direction)?;
    build.cast(&part, dtype)
}

/// One direction's part of a value.
fn part_of(build: &mut Builder, x: &Tracked, direction: usize) -> Result<Tracked> {
    let one = build.slice_axis(x, 0, Dim::constant(direction as i64), Dim::constant(1))?;
    build.reshape(&one, &one.shape()[1..])
}

/// A value `[directions, len]`, if it is one.
fn per_direction(build: &mut Builder, what: &'static str, x: &Tracked, len: Dim) -> Result<Tracked> {
    let directions = x.shape().first().cloned().unwrap_or_default();
    build.conform(what, x, &[directions, len])
}

/// What a vector is multiplied by, a row of weights for each element of the result.
#[derive(Clone)]
pub(super) enum Matrix {
    /// `[rows, n]`, in the type in which it is computed.
    Real(Tracked),
    /// Integers without their zero point.
    Quantized {
        /// `[n, rows]`
        q: Tracked,
        /// Their sums, `[rows]`, i32.
        sums: Tracked,
        /// One for all, or one per row; f32.
        scale: Tracked,
    },
}

impl Matrix {
    /// One direction of the weights in an input `[directions, rows, n]`.
    fn real(call: &mut Call<'_>, index: usize, direction: usize, dtype: DType) -> Result<Self> {
        let weights = call.input(index)?;
        Ok(Self::Real(direction_of(call.build, &weights, direction, dtype)?))
    }

    /// One direction of the weights in an input `[directions, n, rows]`, with the inputs `parameters` and the next for
    /// their scales and zero points, `[directions]` or `[directions, rows]`.
    fn quantized(call: &mut Call<'_>, index: usize, parameters: usize, direction: usize) -> Result<Self> {
        let (q, scale) = (call.input(index)?, call.input(parameters)?);
        require_integer(&q)?;
        if scale.dtype() != DType::F32 {
            return Err(Problem::UnsupportedType { expected: "f32", found: scale.dtype() });
        }
        let zero = call.optional(parameters + 1);
        let build = &mut *call.build;
        for parameter in [&scale].into_iter().chain(&zero) {
            if !(1..=2).contains(&parameter.rank()) {
                return Err(mismatch("one value per direction, or per direction and row", parameter.shape()));
            }
            build.assume_equal("directions of a scale or zero point", &q.shape()[0], &parameter.shape()[0])?;
        }
        // Were small constants computed now, passes could not see that they are quantised.
        let q = build.as_data(&q)?;
        let (q, scale) = (part_of(build, &q, direction)?, part_of(build, &scale, direction)?);
        let zero = zero.map(|zero| part_of(build, &zero, direction)).transpose()?;
        let q = without_zero(build, &q, zero)?;
        let sums = build.reduce(&[&q], &[0], Reducer::sum(DType::I32), |b, p| vec![b.cast(DType::I32, p[0])])?;
        Ok(Self::Quantized { q, sums: sums.into_iter().next().ok_or(Problem::MissingInput { index })?, scale })
    }

    /// How long the vectors are that are multiplied.
    pub(super) fn width(&self) -> &Dim {
        match self {
            Self::Real(weights) => &weights.shape()[1],
            Self::Quantized { q, .. } => &q.shape()[0],
        }
    }

    /// The weights of `len` rows from `start` on.
    pub(super) fn rows(&self, build: &mut Builder, start: &Dim, len: &Dim) -> Result<Self> {
        let mut part = |x: &Tracked, axis: usize| build.slice_axis(x, axis, start.clone(), len.clone());
        Ok(match self {
            Self::Real(weights) => Self::Real(part(weights, 0)?),
            Self::Quantized { q, sums, scale } => Self::Quantized {
                q: part(q, 1)?,
                sums: part(sums, 0)?,
                scale: if scale.rank() == 0 { scale.clone() } else { part(scale, 0)? },
            },
        })
    }

    /// The values that it is made of.
    pub(super) fn parts(&self) -> Vec<Tracked> {
        match self {
            Self::Real(weights) => vec![weights.clone()],
            Self::Quantized { q, sums, scale } => vec![q.clone(), sums.clone(), scale.clone()],
        }
    }

    /// The same of other values, the first of those that are left, in the order of [`Matrix::parts`].
    pub(super) fn of_parts(&self, given: &mut std::slice::Iter<'_, Tracked>) -> Result<Self> {
        let mut next = || given.next().cloned().ok_or(Problem::MissingInput { index: 0 });
        Ok(match self {
            Self::Real(_) => Self::Real(next()?),
            Self::Quantized { .. } => Self::Quantized { q: next()?, sums: next()?, scale: next()? },
        })
    }

    /// `x·Wᵀ`, of `[…, n]` with two or three axes: `[…, rows]`.
    pub(super) fn times(&self, build: &mut Builder, x: &Tracked) -> Result<Tracked> {
        let (q, sums, scale) = match self {
            Self::Real(weights) if x.rank() == 3 => {
                return build.contract((x, &[0, 1, 2]), (weights, &[3, 2]), &[0, 1, 3]);
            }
            Self::Real(weights) => return build.contract((x, &[0, 1]), (weights, &[2, 1]), &[0, 2]),
            Self::Quantized { q, sums, scale } => (q, sums, scale),
        };
        let (x, x_scale, x_zero) = quantize_dynamically(build, x)?;
        let products = product(build, &x, q, DType::I32)?;
        // Σ (x − zero)·w = Σ x·w − zero·Σ w
        let inputs = [&products, sums, &x_zero, &x_scale, scale];
        build.map_over(products.shape().to_vec(), &inputs, |body, p| {
            let zero = body.cast(DType::I32, p[2]);
            let shift = body.binary(BinaryOp::Mul, zero, p[1]);
            let sum = body.binary(BinaryOp::Sub, p[0], shift);
            let (sum, scale) = (body.cast(DType::F32, sum), body.binary(BinaryOp::Mul, p[3], p[4]));
            body.binary(BinaryOp::Mul, sum, scale)
        })
    }
}

/// The weights of one direction, in the type in which it is computed.
pub(super) struct Weights {
    input: Matrix,
    pub(super) recurrent: Matrix,
    /// Of the input part and the recurrent part, `[rows]` each.
    pub(super) biases: Option<(Tracked, Tracked)>,
    /// Input, output and forget gate, `[hidden]` each.
    pub(super) peepholes: Option<Vec<Tracked>>,
}

impl Weights {
    pub(super) fn of(
        call: &mut Call<'_>,
        (cell, is_quantized): (Cell, bool),
        direction: usize,
        dtype: DType,
        rows: &Dim,
    ) -> Result<Self> {
        let (input, recurrent) = if is_quantized {
            (Matrix::quantized(call, 1, 8, direction)?, Matrix::quantized(call, 2, 10, direction)?)
        } else {
            (Matrix::real(call, 1, direction, dtype)?, Matrix::real(call, 2, direction, dtype)?)
        };
        let biases = match call.optional(3) {
            None => None,
            Some(b) => {
                let b = per_direction(call.build, "biases", &b, rows.scale(2))?;
                let both = direction_of(call.build, &b, direction, dtype)?;
                let first = call.build.slice_axis(&both, 0, Dim::constant(0), rows.clone())?;
                let second = call.build.slice_axis(&both, 0, rows.clone(), rows.clone())?;
                Some((first, second))
            }
        };
        let peepholes = match call.optional(7).filter(|_| cell == Cell::Lstm) {
            None => None,
            Some(p) => {
                let hidden = recurrent.width().clone();
                let p = per_direction(call.build, "peepholes", &p, hidden.scale(3))?;
                let all = direction_of(call.build, &p, direction, dtype)?;
                let part = |n: i64, build: &mut Builder| build.slice_axis(&all, 0, hidden.scale(n), hidden.clone());
                Some(vec![part(0, call.build)?, part(1, call.build)?, part(2, call.build)?])
            }
        };
        Ok(Self { input, recurrent, biases, peepholes })
    }

    /// `x·Wᵀ` and those biases that are added to it, for all steps: `[steps, batch, rows]`.
    pub(super) fn input_part(&self, build: &mut Builder, variant: &Variant, x: &Tracked) -> Result<Tracked> {
        let product = self.input.times(build, x)?;
        let Some((of_input, of_recurrent)) = &self.biases else { return Ok(product) };
        let product = build.map(&[&product, of_input], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
        if !variant.linear_before_reset || variant.cell != Cell::Gru {
            return build.map(&[&product, of_recurrent], |body, p| body.binary(BinaryOp::Add, p[0], p[1]));
        }
        // The recurrent bias of the last gate is reset with its product.
        let reset = variant.hidden.scale(2);
        let early = build.slice_axis(of_recurrent, 0, Dim::constant(0), reset.clone())?;
        let early = build.view_or(
            &early,
            AccessMap {
                rank: 1,
                index: vec![var(0)],
                valid: vec![Bound { expr: var(0), lo: IndexExpr::constant(0), hi: reset }],
            },
            of_recurrent.shape().to_vec(),
            Const::zero(of_recurrent.dtype()),
        )?;
        build.map(&[&product, &early], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))
    }
}
