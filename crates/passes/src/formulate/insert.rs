//! Puts a stage between those of a kernel.

use infc_ir::entity::{EntityId, StageId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Kernel, Stage};
use infc_ir::scalar::{Const, Load, ScalarOp, Source};
use infc_tensor::DType;

/// A load of what a stage has at a place.
pub(crate) fn load_of(stage: StageId, component: u8, index: Vec<IndexExpr>, dtype: DType) -> ScalarOp {
    let source = Source::Stage(stage, component);
    ScalarOp::Load(Load { source, index, gather: Vec::new(), valid: Vec::new(), otherwise: Const::zero(dtype), dtype })
}

/// Puts a stage in front of another; all that follow have other numbers afterwards.
pub(crate) fn insert(kernel: &mut Kernel, before: StageId, stage: Stage) {
    let moved = |id: StageId| if id >= before { StageId::from_index(id.index() + 1) } else { id };
    let mut stages: Vec<Stage> = kernel.stages.iter().cloned().collect();
    for stage in &mut stages {
        for op in stage.body.ops.iter_mut() {
            if let ScalarOp::Load(Load { source: Source::Stage(id, _), .. }) = op {
                *id = moved(*id);
            }
        }
    }
    // The new stage reads what comes before it alone.
    stages.insert(before.index(), stage);
    kernel.stages = stages.into_iter().collect();
    kernel.outputs.iter_mut().for_each(|output| output.stage = moved(output.stage));
}
