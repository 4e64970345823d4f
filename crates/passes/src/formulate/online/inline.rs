//! Scores that are a stage of their own are computed where they are read, so that a maximum and its exponentials read products.

use super::found::{exponential, reads, stage_load};
use infc_ir::entity::{EntityId, StageId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp, Source};

/// Removes all such stages.
pub(super) fn inline_scores(kernel: &mut Kernel) {
    while let Some(id) = kernel.stages.ids().find(|&id| is_score(kernel, id)) {
        compute_in_readers(kernel, id);
    }
}

/// Whether a stage only maps what it reads, and is read by a maximum, or by exponentials, without conditions.
fn is_score(kernel: &Kernel, id: StageId) -> bool {
    let stage = &kernel.stages[id];
    let mut readers = kernel.stages.ids().filter(|&reader| reads(&kernel.stages[reader], id)).peekable();
    let is_map = stage.reducer.is_none()
        && stage.results.len() == 1
        && stage.axes.iter().all(|axis| axis.kind == AxisKind::Parallel)
        && kernel.outputs.iter().all(|output| output.stage != id);
    is_map
        && readers.peek().is_some()
        && readers.all(|reader| {
            let reader = &kernel.stages[reader];
            let is_plain = |op: &ScalarOp| match op {
                ScalarOp::Load(load) if load.source == Source::Stage(id, 0) => stage_load(op).is_some(),
                _ => true,
            };
            let folds_maximum = reader.reducer.as_ref().is_some_and(|r| r.as_binary() == Some(BinaryOp::Max));
            (folds_maximum || exponential(reader).is_some()) && reader.body.ops.iter().all(is_plain)
        })
}

/// Removes a stage whose readers compute what it does.
fn compute_in_readers(kernel: &mut Kernel, id: StageId) {
    let gone = kernel.stages[id].clone();
    let moved = |stage: StageId| StageId::from_index(stage.index() - usize::from(stage > id));
    let mut stages = Vec::new();
    for (_, stage) in kernel.stages.iter_enumerated().filter(|(own, _)| *own != id) {
        let mut new = Stage { body: Body::default(), ..stage.clone() };
        let ranges = stage.ranges(&kernel.symbols);
        let mut body = Body::default();
        new.results = body.import(&stage.body, &stage.results, &mut |body, op| match op {
            ScalarOp::Load(load) if load.source == Source::Stage(id, 0) => {
                let at = |e: &IndexExpr| e.substitute_vars(&load.index).simplify(&ranges);
                let value =
                    body.import(&gone.body, &gone.results, &mut |body, op| Some(body.push(op.map_indices(&at))));
                Some(value[0])
            }
            _ => None,
        });
        for op in body.ops.iter_mut() {
            if let ScalarOp::Load(Load { source: Source::Stage(source, _), .. }) = op {
                *source = moved(*source);
            }
        }
        new.body = body;
        stages.push(new);
    }
    kernel.stages = stages.into_iter().collect();
    kernel.outputs.iter_mut().for_each(|output| output.stage = moved(output.stage));
}
