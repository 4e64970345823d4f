//! Takes away axes of one point, and conditions that always hold.
//!
//! Shapes of real models are full of extents of 1 (batch, 1×1 windows, kept reduction axes). Without them the other
//! rewrites and the schedule see what really moves. Error class: exact.

use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr, Proof, Ranges};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{Const, ScalarOp, Source};
use infc_tensor::DType;

/// Runs over all stages.
#[must_use]
pub fn run(mut kernel: Kernel) -> Kernel {
    let dropped: Vec<Vec<usize>> = kernel.stages.iter().map(unit_axes).collect();
    // Positions of dropped axes among the value axes, for readers.
    let dropped_values: Vec<Vec<usize>> = kernel
        .stages
        .iter()
        .zip(&dropped)
        .map(|(stage, drop)| {
            stage.value_axes().enumerate().filter(|(_, (axis, _))| drop.contains(axis)).map(|(p, _)| p).collect()
        })
        .collect();
    for id in kernel.stages.ids() {
        drop_axes(&mut kernel, id, &dropped[id.index()], &dropped_values);
    }
    kernel
}

/// The reverse for a result of one point: the kernel with an axis of one point at its stage, so that there is a loop for one
/// thread to be found by. `None` if it has a parallel axis, or if other stages read it.
pub(crate) fn single(kernel: &Kernel, id: StageId, name: &str) -> Option<Kernel> {
    let mut is_read = false;
    for stage in kernel.stages.iter() {
        stage.for_each_load(&mut |_, load| is_read |= matches!(load.source, Source::Stage(of, _) if of == id));
    }
    if is_read || kernel.stages[id].axes.iter().any(|axis| axis.kind == AxisKind::Parallel) {
        return None;
    }
    let mut kernel = kernel.clone();
    let extent = IndexExpr::constant(1);
    kernel.stages[id].axes.push(Axis { name: name.to_owned(), extent, kind: AxisKind::Parallel });
    Some(kernel)
}

/// Axes of extent 1. Sequential axes stay, and so does one reduction axis, which the reducer needs.
fn unit_axes(stage: &Stage) -> Vec<usize> {
    let unit: Vec<usize> = (0..stage.axes.len())
        .filter(|&a| stage.axes[a].extent.is_const(1) && stage.axes[a].kind != AxisKind::Sequential)
        .collect();
    let reduce = stage.reduce_axes().count();
    let dropped = unit.iter().filter(|&&a| stage.axes[a].kind == AxisKind::Reduce).count();
    if reduce > 0 && dropped == reduce {
        let keep = unit.iter().rposition(|&a| stage.axes[a].kind == AxisKind::Reduce);
        return unit.iter().enumerate().filter(|(n, _)| Some(*n) != keep).map(|(_, &a)| a).collect();
    }
    unit
}

fn drop_axes(kernel: &mut Kernel, id: StageId, dropped: &[usize], dropped_values: &[Vec<usize>]) {
    let symbols = kernel.symbols.clone();
    let stage = &mut kernel.stages[id];
    let mut by = Vec::new();
    let mut next = 0;
    for axis in 0..stage.axes.len() {
        if dropped.contains(&axis) {
            by.push(IndexExpr::constant(0));
        } else {
            by.push(IndexExpr::var(VarId::from_index(next)));
            next += 1;
        }
    }
    let mut axis = 0;
    stage.axes.retain(|_| {
        axis += 1;
        !dropped.contains(&(axis - 1))
    });
    let ranges = stage.ranges(&symbols);
    let replace = |e: &IndexExpr| {
        e.substitute(&|atom| match atom {
            Atom::Var(v) => by.get(v.index()).cloned(),
            _ => None,
        })
        .simplify(&ranges)
    };
    for op in stage.body.ops.iter_mut() {
        *op = simplified(op.map_indices(&replace), &ranges);
        if let ScalarOp::Load(load) = op
            && let Source::Stage(source, _) = load.source
        {
            let gone = &dropped_values[source.index()];
            // Along an axis of one point there is nothing to choose from.
            load.gather.retain(|(axis, _, _)| !gone.contains(&usize::from(*axis)));
            for (axis, _, _) in &mut load.gather {
                let before = gone.iter().filter(|&&g| g < usize::from(*axis)).count();
                *axis -= u8::try_from(before).expect("no more axes than a u8 counts");
            }
            let mut position = 0;
            load.index.retain(|_| {
                position += 1;
                !gone.contains(&(position - 1))
            });
        }
    }
    for output in kernel.outputs.iter_mut().filter(|o| o.stage == id) {
        output.index = output.index.iter().map(replace).collect();
    }
}

/// Without conditions that always hold.
fn simplified(op: ScalarOp, ranges: &Ranges) -> ScalarOp {
    match op {
        ScalarOp::Load(mut load) => {
            load.valid.retain(|b| b.proof(ranges) != Proof::Yes);
            ScalarOp::Load(load)
        }
        ScalarOp::InBounds(mut bounds) => {
            bounds.retain(|b| b.proof(ranges) != Proof::Yes);
            if bounds.is_empty() {
                return ScalarOp::Const(Const { dtype: DType::Bool, bits: 1 });
            }
            ScalarOp::InBounds(bounds)
        }
        other => other,
    }
}
