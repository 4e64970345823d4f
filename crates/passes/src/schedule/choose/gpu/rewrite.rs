//! Stages that a schedule for a GPU adds to a kernel.

use crate::formulate::insert::insert;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Proof};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source, UnaryOp};

fn fresh_name(kernel: &Kernel, wanted: &str) -> String {
    let taken = |name: &str| kernel.stages.iter().any(|s| s.name == name);
    let numbered = (1..).map(|n| if n == 1 { wanted.to_owned() } else { format!("{wanted}{n}") });
    numbered.into_iter().find(|name| !taken(name)).unwrap_or_default()
}

pub(super) fn fresh_axis(stage: &Stage, wanted: &str) -> String {
    let taken = |name: &str| stage.axes.iter().any(|a| a.name == name);
    let numbered = (1..).map(|n| if n == 1 { wanted.to_owned() } else { format!("{wanted}{n}") });
    numbered.into_iter().find(|name| !taken(name)).unwrap_or_default()
}

fn load_of(stage: StageId, component: u8, index: Vec<IndexExpr>, dtype: infc_tensor::DType) -> ScalarOp {
    let source = Source::Stage(stage, component);
    ScalarOp::Load(Load { source, index, gather: Vec::new(), valid: Vec::new(), otherwise: Const::zero(dtype), dtype })
}

/// Folds a reduction in two: `parts` sums of every `parts`-th point, which are a stage of their own in front, and their
/// sum. `axis` is one that is reduced. Another order of folding: reassociating, if that shows.
///
/// Gives the id of the new stage; the old one follows it.
pub(super) fn in_parts(kernel: &mut Kernel, id: StageId, axis: usize, parts: i64) -> StageId {
    let old = kernel.stages[id].clone();
    let reducer = old.reducer.clone().expect("what is folded in parts is folded");
    let part = fresh_axis(&old, "part");
    let whole = old.axes[axis].extent.clone();
    let rank = old.axes.len();
    let parts_extent = IndexExpr::constant(parts);

    let mut first = old.clone();
    first.name = fresh_name(kernel, &format!("{}_parts", old.name));
    first.axes[axis].extent = whole.ceil_div(&parts_extent);
    first.axes.push(Axis { name: part.clone(), extent: parts_extent.clone(), kind: AxisKind::Parallel });
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
    second.axes.push(Axis { name: part, extent: parts_extent, kind: AxisKind::Reduce });
    let index: Vec<IndexExpr> = (0..=value_rank).map(|n| IndexExpr::var(VarId::from_index(n))).collect();
    for (component, dtype) in old.dtypes().into_iter().enumerate() {
        let load = load_of(id, component as u8, index.clone(), dtype);
        second.results.push(second.body.push(load));
    }
    insert(kernel, id, first);
    kernel.stages[StageId::from_index(id.index() + 1)] = second;
    id
}

/// Makes a reduced axis as long as the next multiple of a number: what lies beyond its end is 0 in all that the stage reads,
/// so that a sum of products stays what it is. False, and nothing is done, if something is read that does not move along the
/// axis (it may be infinite) or has another padding of its own.
pub(super) fn padded(kernel: &mut Kernel, id: StageId, axis: usize, to: i64) -> bool {
    let whole = kernel.stages[id].axes[axis].extent.clone();
    let ranges = kernel.stages[id].ranges(&kernel.symbols);
    if whole.modulo(&IndexExpr::constant(to)).simplify(&ranges).is_const(0) {
        return true;
    }
    let stage = &mut kernel.stages[id];
    let var = VarId::from_index(axis);
    let can_end =
        |load: &Load| load.index.iter().any(|e| e.uses_var(var)) && (load.valid.is_empty() || load.otherwise.bits == 0);
    if !stage.body.ops.iter().all(|op| !matches!(op, ScalarOp::Load(load) if !can_end(load))) {
        return false;
    }
    stage.axes[axis].extent = whole.ceil_div(&IndexExpr::constant(to)).scale(to);
    for op in stage.body.ops.iter_mut() {
        if let ScalarOp::Load(load) = op {
            let at = IndexExpr::var(var);
            load.valid.push(Bound { expr: at, lo: IndexExpr::constant(0), hi: whole.clone() });
            load.otherwise = Const::zero(load.dtype);
        }
    }
    true
}

/// Rounds some of the loads of a stage to TF32 wherever they are read.
pub(super) fn rounded(kernel: &mut Kernel, id: StageId, loads: &[ScalarId]) {
    let stage = &mut kernel.stages[id];
    let factors: Vec<ScalarOp> = loads.iter().map(|&load| stage.body.ops[load].clone()).collect();
    let mut body = Body::default();
    stage.results = body.import(&stage.body, &stage.results, &mut |body, op| {
        factors.contains(op).then(|| {
            let load = body.push(op.clone());
            body.push(ScalarOp::Unary(UnaryOp::Tf32, load))
        })
    });
    stage.body = body;
}

/// The operation of a stage that is a load of another form of it.
pub(super) fn same_load(old: &Stage, load: ScalarId, new: &Stage) -> Option<ScalarId> {
    new.body.ops.iter_enumerated().find(|(_, op)| **op == old.body.ops[load]).map(|(id, _)| id)
}

/// Makes a load of a stage a stage of its own in front, over those axes that it moves along. Gives the axes, by their
/// number in the reader, in the order of the new stage's.
pub(super) fn load_apart(kernel: &mut Kernel, id: StageId, load: ScalarId) -> Vec<usize> {
    let reader = kernel.stages[id].clone();
    let ScalarOp::Load(what) = &reader.body.ops[load] else { unreachable!("only loads are taken apart") };
    let axes = axes_of(&reader, what);
    let mut place = vec![IndexExpr::constant(0); reader.axes.len()];
    for (n, &axis) in axes.iter().enumerate() {
        place[axis] = IndexExpr::var(VarId::from_index(n));
    }
    let mut stage = Stage {
        name: fresh_name(kernel, &format!("{}_tile", reader.name)),
        axes: axes.iter().map(|&a| Axis { kind: AxisKind::Parallel, ..reader.axes[a].clone() }).collect(),
        body: Body::default(),
        results: Vec::new(),
        reducer: None,
    };
    let moved = ScalarOp::Load(what.clone()).map_indices(&|e| e.substitute_vars(&place));
    stage.results.push(stage.body.push(moved));
    let index = axes.iter().map(|&a| IndexExpr::var(VarId::from_index(a))).collect();
    let read = load_of(id, 0, index, what.dtype);
    insert(kernel, id, stage);
    kernel.stages[StageId::from_index(id.index() + 1)].body.ops[load] = read;
    axes
}

/// The axes of a stage that a load of it moves along, or whose coordinates decide whether it happens.
pub(super) fn axes_of(stage: &Stage, load: &Load) -> Vec<usize> {
    let uses = |axis: usize| {
        let var = VarId::from_index(axis);
        load.index.iter().any(|e| e.uses_var(var))
            || load.valid.iter().any(|b| [&b.expr, &b.lo, &b.hi].iter().any(|e| e.uses_var(var)))
    };
    (0..stage.axes.len()).filter(|&axis| uses(axis)).collect()
}
