//! Folds a reduction in two, so that parts of it can be folded side by side (`rfactor`: Suriana, Adams and Kamil, "Parallel
//! Associative Reductions in Halide", 2017). Error class: reassociating, if the order of folding shows.

use super::insert::{insert, load_of};
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{IndexExpr, Proof};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{Body, Const, ScalarOp};

/// The kernel with a stage that folds the parts of each of its points, and one in front of it, of the given name, that folds
/// every `parts`-th point of an axis, over one more axis of the name `part`. `None` if the stage folds nothing along the axis, or
/// steps of a recurrence go through it.
pub(crate) fn rfactor(
    kernel: &Kernel,
    id: StageId,
    axis: usize,
    parts: i64,
    [into, part]: [&str; 2],
) -> Option<Kernel> {
    let old = &kernel.stages[id];
    let reducer = old.reducer.as_ref()?;
    let is_stepped = old.axes.iter().any(|axis| axis.kind == AxisKind::Sequential);
    if old.axes[axis].kind != AxisKind::Reduce || is_stepped || kernel.recurrence_of(id).is_some() || parts < 1 {
        return None;
    }
    let whole = old.axes[axis].extent.clone();
    let rank = old.axes.len();
    let parts_extent = IndexExpr::constant(parts);

    let mut first = old.clone();
    into.clone_into(&mut first.name);
    first.axes[axis].extent = whole.ceil_div(&parts_extent);
    first.axes.push(Axis { name: part.to_owned(), extent: parts_extent.clone(), kind: AxisKind::Parallel });
    let at = IndexExpr::var(VarId::from_index(axis)).scale(parts) + IndexExpr::var(VarId::from_index(rank));
    let mut place: Vec<IndexExpr> = (0..=rank).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    place[axis] = at.clone();
    let ranges = first.ranges(&kernel.symbols);
    let within = Bound { expr: at, lo: IndexExpr::constant(0), hi: whole };
    let open = (within.proof(&ranges) != Proof::Yes).then_some(within);
    let mut body = Body::default();
    let results = body.import(&old.body, &old.results, &mut |body, op| {
        let mut op = op.map_indices(&|e| e.substitute_vars(&place).simplify(&ranges));
        if let ScalarOp::Load(load) = &mut op {
            load.valid.extend(open.clone());
        }
        Some(body.push(op))
    });
    first.results = match &open {
        None => results,
        Some(within) => {
            let holds = body.push(ScalarOp::InBounds(vec![within.clone()]));
            let neutral = |body: &mut Body, c: &Const| body.push(ScalarOp::Const(*c));
            results
                .iter()
                .zip(&reducer.init)
                .map(|(&value, init)| {
                    let init = neutral(&mut body, init);
                    body.select(holds, value, init)
                })
                .collect()
        }
    };
    first.body = body;

    // The parts of a point, folded.
    let mut second = Stage { axes: Vec::new(), body: Body::default(), results: Vec::new(), ..old.clone() };
    second.axes = old.value_axes().map(|(_, a)| a.clone()).collect();
    let value_rank = second.axes.len();
    second.axes.push(Axis { name: part.to_owned(), extent: parts_extent, kind: AxisKind::Reduce });
    let index: Vec<IndexExpr> = (0..=value_rank).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    for (component, dtype) in old.dtypes().into_iter().enumerate() {
        let load = load_of(id, component as u8, index.clone(), dtype);
        second.results.push(second.body.push(load));
    }
    let mut kernel = kernel.clone();
    insert(&mut kernel, id, first);
    kernel.stages[StageId::from_index(id.index() + 1)] = second;
    Some(kernel)
}
