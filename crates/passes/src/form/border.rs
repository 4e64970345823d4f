//! What lies around values with a halo, written by the kernel that writes the value.

use infc_ir::entity::{OperandId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel, OperandKind, Output, Stage};
use infc_ir::scalar::{Body, Const, ScalarOp};

/// Adds a stage per face of every output that has a halo. No element is written twice.
pub(super) fn write_borders(kernel: &mut Kernel) {
    let outputs: Vec<OperandId> = kernel
        .operands
        .iter_enumerated()
        .filter(|(_, o)| o.kind == OperandKind::Output && o.layout.has_halo())
        .map(|(id, _)| id)
        .collect();
    for operand in outputs {
        let o = kernel.operands[operand].clone();
        let rank = o.shape.len();
        for axis in 0..rank {
            let (before, after) = o.layout.halo[axis];
            let faces = [(IndexExpr::constant(-before), before), (o.shape[axis].clone(), after)];
            for (start, depth) in faces.into_iter().filter(|(_, depth)| *depth > 0) {
                // Axes before this one go over the interior only, so that no corner belongs to two faces.
                let extents: Vec<(IndexExpr, Dim)> = (0..rank)
                    .map(|other| {
                        let (b, a) = o.layout.halo[other];
                        match other.cmp(&axis) {
                            std::cmp::Ordering::Less => (IndexExpr::constant(0), o.shape[other].clone()),
                            std::cmp::Ordering::Equal => (start.clone(), Dim::constant(depth)),
                            std::cmp::Ordering::Greater => (IndexExpr::constant(-b), o.shape[other].clone() + (a + b)),
                        }
                    })
                    .collect();
                face(kernel, operand, &extents);
            }
        }
    }
}

fn face(kernel: &mut Kernel, operand: OperandId, extents: &[(IndexExpr, Dim)]) {
    let o = &kernel.operands[operand];
    // The fastest axis last, as the loops of the stage run.
    let mut order: Vec<usize> = (0..extents.len()).filter(|&n| !extents[n].1.is_const(1)).collect();
    order.sort_by_key(|&n| std::cmp::Reverse(o.layout.strides[n].as_const().unwrap_or(i64::MAX)));
    let mut index: Vec<IndexExpr> = extents.iter().map(|(start, _)| start.clone()).collect();
    let mut axes = Vec::new();
    for axis in order {
        index[axis] = index[axis].clone() + IndexExpr::var(VarId(axes.len() as u32));
        axes.push(Axis { name: format!("a{axis}"), extent: extents[axis].1.clone(), kind: AxisKind::Parallel });
    }
    let mut body = Body::default();
    let fill = body.push(ScalarOp::Const(Const { dtype: o.dtype, bits: o.layout.fill }));
    let name = format!("border{}", kernel.stages.len());
    let stage = kernel.stages.push(Stage { name, axes, body, results: vec![fill], reducer: None });
    kernel.outputs.push(Output { operand, stage, component: 0, index, onto: None });
}
