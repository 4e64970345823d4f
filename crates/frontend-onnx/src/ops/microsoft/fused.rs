//! Operators with what follows them: `FusedConv` and `FusedGemm` of `com.microsoft`, as ONNX Runtime's optimiser writes
//! them.
//!
//! What is named is an activation of a recurrent operator, or `Clip`. Formation fuses what follows a product anyway.

use crate::build::{Result, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::conv::conv;
use crate::ops::matmul::gemm;
use crate::ops::recurrent::Activation;
use crate::tracked::Tracked;
use infc_ir::scalar::BinaryOp;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("FusedConv", 1, fused_conv), Operator::new("FusedGemm", 1, fused_gemm)];

/// `activation(conv(X, W) + B + Z)`, with the parameters in `activation_params`.
fn fused_conv(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let mut y = only(conv(call)?)?;
    if let Some(z) = call.optional(3) {
        let shape = y.shape().to_vec();
        if z.rank() != shape.len() {
            return Err(mismatch("as many axes as the convolution gives", z.shape()));
        }
        y = call.build.compute_over(shape, &[&y, &z], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
    }
    let parameters = call.floats("activation_params")?.unwrap_or_default().to_vec();
    activated(call, &y, &parameters)
}

/// `activation(alpha·A·B + beta·C)`, with the parameters in `activation_alpha` and `activation_beta`.
fn fused_gemm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let y = only(gemm(call)?)?;
    let given = [call.float("activation_alpha")?, call.float("activation_beta")?];
    let parameters: Vec<f32> = given.iter().map_while(|p| p.map(|p| p as f32)).collect();
    activated(call, &y, &parameters)
}

fn only(outputs: Vec<Tracked>) -> Result<Tracked> {
    outputs.into_iter().next().ok_or(Problem::UnsupportedOutput { index: 0, supported: 0 })
}

/// The function that the node names, if it names one.
fn activated(call: &mut Call<'_>, y: &Tracked, parameters: &[f32]) -> Result<Vec<Tracked>> {
    let name = call.string("activation", "")?;
    if name.is_empty() {
        return Ok(vec![y.clone()]);
    }
    if name == "Clip" {
        let bound = |n: usize, none: f64| parameters.get(n).map_or(none, |&bound| f64::from(bound));
        let (least, most) = (bound(0, f64::NEG_INFINITY), bound(1, f64::INFINITY));
        return Ok(vec![call.build.compute(&[y], |body, p| {
            let (least, most) = (body.constant(body.dtype(p[0]), least), body.constant(body.dtype(p[0]), most));
            let raised = body.binary(BinaryOp::Max, p[0], least);
            body.binary(BinaryOp::Min, raised, most)
        })?]);
    }
    let activation = Activation::named(&name, parameters).ok_or(Problem::InvalidAttribute {
        attribute: "activation",
        expected: "Clip, or an activation of a recurrent operator",
        found: name,
    })?;
    Ok(vec![call.build.compute(&[y], |body, p| activation.apply(body, p[0]))?])
}
