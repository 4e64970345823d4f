//! Rounds what a stage loads to TF32, which warps of GPUs multiply. It changes results, and is done where it was asked for.

use infc_ir::entity::{ScalarId, StageId};
use infc_ir::kernel::Kernel;
use infc_ir::scalar::{Body, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// The kernel with a load of a stage rounded wherever the stage uses it; `None` if it is no load of f32.
pub(crate) fn round(kernel: &Kernel, id: StageId, load: ScalarId) -> Option<Kernel> {
    let mut kernel = kernel.clone();
    let stage = &mut kernel.stages[id];
    let factor = match stage.body.ops.get(load)? {
        op @ ScalarOp::Load(what) if what.dtype == DType::F32 => op.clone(),
        _ => return None,
    };
    let mut body = Body::default();
    stage.results = body.import(&stage.body, &stage.results, &mut |body, op| {
        (*op == factor).then(|| {
            let load = body.push(op.clone());
            body.push(ScalarOp::Unary(UnaryOp::Tf32, load))
        })
    });
    stage.body = body;
    Some(kernel)
}
