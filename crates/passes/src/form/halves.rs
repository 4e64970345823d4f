//! Values between kernels whose numbers are all halves lie in memory as halves.
//!
//! Half types are computed in f32 (ARCHITECTURE.md D11): a kernel of a model in FP16 ends in `f32(f16(x))`, as the conversion
//! of who reads the result is fused with it. Of such a value the inner half is written, and whoever reads it converts
//! what is loaded. The numbers are the same, in half of the memory and of the traffic.

use super::group::{Grouping, Home};
use super::layout::Placement;
use super::lower::Lowered;
use super::narrow;
use crate::fits::Fits;
use infc_ir::entity::{EntityId, OperandId, ScalarId, ValueId, VarId};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::{Kernel, OperandKind, Output};
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp, Source};
use infc_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// How often a kernel may read, and so convert, each element. Windows of 3×3 with stride 2 and the tiles of minimal filtering
/// read it 2.25 times, of small images somewhat more; depthwise convolutions of 3×3 that read it 9 times took up to 1.5 times as long with halves, and
/// pools of 2×2 that read it 4 times take 8 times as long on x86-64-v2, which has no instruction that converts.
const MOST_READS: f64 = 3.5;

/// Stands for sizes that only the run tells.
const TYPICAL_EXTENT: i64 = 64;

/// The types in which values lie that are halves; of all other values it is that of the graph.
pub(super) type Types = BTreeMap<ValueId, DType>;

/// The half type of every value between kernels that is stored so; `placement` is where values lie without that.
pub(super) fn stored(grouping: &Grouping<'_>, placement: &Placement, kernels: &[Lowered]) -> Types {
    let known = fitting(grouping, kernels);
    let fixed = fixed(grouping);
    let mut types = Types::new();
    let mut family_of: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let families = families(grouping, kernels);
    for (&family, values) in families.iter().filter(|(_, values)| fixed.is_disjoint(values)) {
        let fits = values.iter().fold(Fits::ALL, |all, value| all.and(known.get(value).copied().unwrap_or(Fits::NONE)));
        if let Some(dtype) = fits.dtype().filter(|_| fits.was_half) {
            types.extend(values.iter().map(|&value| (value, dtype)));
            family_of.extend(values.iter().map(|&value| (value, family)));
        }
    }
    for lowered in kernels {
        for (id, operand) in lowered.kernel.operands.iter_enumerated() {
            let value = lowered.values[id.index()];
            let Some(&dtype) = types.get(&value).filter(|_| operand.kind != OperandKind::Output) else { continue };
            if !bears(&lowered.kernel, id, dtype) || turns(placement, lowered, id) {
                for value in &families[&family_of[&value]] {
                    types.remove(value);
                }
            }
        }
    }
    types
}

/// Makes kernels write and read values in the types in which they are stored.
pub(super) fn narrow(kernels: &mut [Lowered], types: &Types) {
    for Lowered { kernel, values, .. } in kernels {
        for operand in kernel.operands.ids().collect::<Vec<_>>() {
            let Some(&dtype) = types.get(&values[operand.index()]) else { continue };
            if kernel.operands[operand].kind == OperandKind::Output {
                write(kernel, operand, dtype);
            } else {
                narrow::read(kernel, operand, dtype);
            }
        }
    }
}

/// Makes a kernel write an operand in a narrower type that holds its numbers.
fn write(kernel: &mut Kernel, operand: OperandId, dtype: DType) {
    kernel.operands[operand].dtype = dtype;
    for output in kernel.outputs.iter().filter(|output| output.operand == operand) {
        let stage = &mut kernel.stages[output.stage];
        let result = &mut stage.results[usize::from(output.component)];
        *result = match stage.body.ops[*result] {
            ScalarOp::Cast(DType::F32, inner) if stage.body.dtype(inner) == dtype => inner,
            _ => stage.body.cast(dtype, *result),
        };
        // What is no longer needed would look like work to whoever counts.
        let mut clean = Body::default();
        stage.results = clean.import(&stage.body, &stage.results, &mut |_, _| None);
        stage.body = clean;
    }
}

/// Values that lie in one memory, by what they lie in.
fn families(grouping: &Grouping<'_>, kernels: &[Lowered]) -> BTreeMap<ValueId, BTreeSet<ValueId>> {
    let mut wholes: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for whole in &grouping.wholes {
        wholes.extend(whole.parts.iter().map(|(part, _)| (*part, whole.value)));
    }
    wholes.extend(grouping.reshaped.iter().copied());
    let mut families: BTreeMap<ValueId, BTreeSet<ValueId>> = BTreeMap::new();
    let mut add = |value: ValueId| {
        let mut chain = vec![value];
        while let Some(&whole) = chain.last().and_then(|last| wholes.get(last)) {
            chain.push(whole);
        }
        families.entry(chain[chain.len() - 1]).or_default().extend(chain);
    };
    for lowered in kernels {
        for (operand, &value) in lowered.kernel.operands.iter().zip(&lowered.values) {
            if operand.kind != OperandKind::Constant {
                add(value);
            }
        }
    }
    grouping.wholes.iter().flat_map(|whole| &whole.parts).for_each(|(part, _)| add(*part));
    grouping.reshaped.iter().for_each(|&(value, _)| add(value));
    families
}

/// The values whose memory others than kernels see.
fn fixed(grouping: &Grouping<'_>) -> BTreeSet<ValueId> {
    let graph = &grouping.flat.graph;
    let ports = graph.inputs.iter().chain(&graph.outputs).map(|port| port.value);
    let hosts = grouping.hosts.iter().map(|&id| &graph.nodes[id]);
    ports.chain(hosts.flat_map(|node| node.inputs.iter().chain(&node.outputs).copied())).collect()
}

/// Per value that a kernel writes, or that is put together of such, what its numbers fit.
fn fitting(grouping: &Grouping<'_>, kernels: &[Lowered]) -> BTreeMap<ValueId, Fits> {
    let mut known: BTreeMap<ValueId, Fits> = BTreeMap::new();
    for lowered in kernels {
        let of_operands: Vec<Fits> = lowered.values.iter().map(|&value| of_value(grouping, &known, value)).collect();
        let of_stages = of_stages(&lowered.kernel, &of_operands);
        for output in &lowered.kernel.outputs {
            let is_alone = !is_read_again(&lowered.kernel, output);
            let fits =
                if is_alone { of_stages[output.stage.index()][usize::from(output.component)] } else { Fits::NONE };
            let value = lowered.values[output.operand.index()];
            let all = known.get(&value).map_or(fits, |others| others.and(fits));
            known.insert(value, all);
        }
    }
    for whole in &grouping.wholes {
        let all = of_value(grouping, &known, whole.value);
        known.insert(whole.value, all);
    }
    for &(value, root) in &grouping.reshaped {
        known.insert(value, of_value(grouping, &known, root));
    }
    known
}

/// Whether a kernel reads what it writes, or writes it to several places.
fn is_read_again(kernel: &Kernel, output: &Output) -> bool {
    let source = Source::Stage(output.stage, output.component);
    let mut is_read = false;
    kernel.stages.iter().for_each(|stage| stage.for_each_load(&mut |_, load| is_read |= load.source == source));
    let is_same = |other: &&Output| (other.stage, other.component) == (output.stage, output.component);
    is_read || kernel.outputs.iter().filter(is_same).count() > 1
}

fn of_value(grouping: &Grouping<'_>, known: &BTreeMap<ValueId, Fits>, value: ValueId) -> Fits {
    let mut open = vec![value];
    let mut all = Fits::ALL;
    while let Some(value) = open.pop() {
        match grouping.home(value) {
            Some(Home::Whole(whole)) => open.extend(grouping.wholes[whole].parts.iter().map(|(part, _)| *part)),
            Some(Home::Reshaped(root)) => open.push(root),
            _ => all = all.and(known.get(&value).copied().unwrap_or(Fits::NONE)),
        }
    }
    all
}

/// Per stage and component, what its numbers fit.
fn of_stages(kernel: &Kernel, operands: &[Fits]) -> Vec<Vec<Fits>> {
    let mut stages: Vec<Vec<Fits>> = Vec::new();
    for stage in kernel.stages.iter() {
        let of_leaf = |op: &ScalarOp| {
            let ScalarOp::Load(Load { source, dtype: DType::F32, valid, otherwise, .. }) = op else {
                return Fits::NONE;
            };
            let read = match source {
                Source::Operand(operand) => operands[operand.index()],
                // Of a later step there is no knowledge yet.
                Source::Stage(id, component) => {
                    let stage = stages.get(id.index());
                    stage.and_then(|s| s.get(usize::from(*component))).copied().unwrap_or(Fits::NONE)
                }
                Source::Buffer(_) => Fits::NONE,
            };
            if valid.is_empty() { read } else { read.and(Fits::of_const(*otherwise)) }
        };
        let ops = Fits::of_ops(&stage.body, &of_leaf);
        let result = |(n, result): (usize, &ScalarId)| {
            let fits = ops[result.index()];
            match &stage.reducer {
                None => fits,
                Some(reducer) => match reducer.as_binary() {
                    Some(BinaryOp::Min | BinaryOp::Max) => fits.and(Fits::of_const(reducer.init[n])),
                    _ => Fits::NONE,
                },
            }
        };
        let results = stage.results.iter().enumerate().map(result).collect();
        stages.push(results);
    }
    stages
}

/// Whether a kernel can read an operand in a half type, and loses nothing by it.
///
/// A vector is converted by one instruction as it is loaded. So it is in maps, and where a reduction reads other elements
/// for each of its results. Of what several results share, the factors of products, each number is converted for all lanes
/// by three instructions, or again for every tile of rows; and windows that read an element for each of many taps convert
/// it as often.
fn bears(kernel: &Kernel, operand: OperandId, dtype: DType) -> bool {
    let mut bears = true;
    let mut reads = 0.0;
    for stage in kernel.stages.iter() {
        stage.for_each_load(&mut |_, load| {
            if load.source != Source::Operand(operand) {
                return;
            }
            let moves = |axis: usize| load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
            let is_own = stage.reducer.is_none() || stage.value_axes().all(|(axis, _)| moves(axis));
            let is_same = load.valid.is_empty() || Fits::of_const(load.otherwise).holds(dtype);
            bears &= is_own && is_same && load.dtype == DType::F32;
            let moved = stage.axes.iter().enumerate().filter(|(axis, _)| moves(*axis));
            reads += moved.map(|(_, axis)| about(&axis.extent)).product::<f64>();
        });
    }
    let elements: f64 = kernel.operands[operand].shape.iter().map(about).product();
    bears && reads <= MOST_READS * elements
}

/// Whether a stage reads an operand at places that are not next to each other where the results are that follow from them:
/// vectors of it are put together by shuffles of 32 bits (`codegen_cpu::vir::regroup`), and of halves element by element.
fn turns(placement: &Placement, lowered: &Lowered, operand: OperandId) -> bool {
    let kernel = &lowered.kernel;
    let flat = |operand: OperandId, index: &[IndexExpr]| {
        placement.values.get(&lowered.values[operand.index()]).map(|planned| planned.layout.flat(index))
    };
    let step = |flat: &IndexExpr, axis| flat.linear_in(axis).and_then(|(step, _)| step.as_const());
    // The axes of stages along which results lie next to each other.
    let mut lanes: Vec<Option<VarId>> = vec![None; kernel.stages.len()];
    for output in &kernel.outputs {
        let axes = 0..kernel.stages[output.stage].axes.len();
        let written = flat(output.operand, &output.index);
        lanes[output.stage.index()] =
            written.and_then(|at| axes.map(VarId::from_index).find(|&axis| step(&at, axis) == Some(1)));
    }
    let mut any = false;
    for (id, stage) in kernel.stages.iter_enumerated().collect::<Vec<_>>().into_iter().rev() {
        let Some(along) = lanes[id.index()] else { continue };
        stage.for_each_load(&mut |_, load| match load.source {
            Source::Stage(source, _) => {
                let position = load.index.iter().position(|e| e.uses_var(along));
                let axis = position.and_then(|n| kernel.stages[source].value_axes().nth(n));
                let place = &mut lanes[source.index()];
                *place = place.or(axis.map(|(axis, _)| VarId::from_index(axis)));
            }
            Source::Operand(read) if read == operand && load.index.iter().any(|e| e.uses_var(along)) => {
                any |= flat(operand, &load.index).is_none_or(|at| step(&at, along) != Some(1));
            }
            Source::Operand(_) | Source::Buffer(_) => {}
        });
    }
    any
}

/// An extent, where symbols that only the run knows are not small.
fn about(extent: &Dim) -> f64 {
    extent.eval(&|_| Some(TYPICAL_EXTENT), &|_| None).map_or(TYPICAL_EXTENT as f64, |n| n.max(0) as f64)
}
