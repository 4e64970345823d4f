//! The steps of a host operation: its evaluation, and the symbols that are known after it.

use super::{Parts, WeightSlots, buffer_of};
use crate::CompileError;
use crate::bodies;
use crate::size::size;
use infc_artifact::{Bind, BindFrom, BindSymbol, Host, HostArg, LoopBody, Step};
use infc_ir::entity::{EntityId, SymbolId, ValueId};
use infc_ir::graph::TensorType;
use infc_passes::form::{GraphPlan, OperandSource, PlannedHost};
use infc_tensor::Subgraphs;

/// One step, or two if it tells symbols their values.
pub(super) fn steps(
    parts: &Parts<'_>,
    planned: &PlannedHost,
    weights: &mut WeightSlots<'_>,
) -> Result<Vec<Step>, CompileError> {
    let (plan, op) = (parts.plan, &planned.op);
    let body = bodies::body_of(parts.bodies, op).zip(op.body.as_ref());
    let body = body.map(|(body, of)| LoopBody {
        entry: (parts.first_body + body) as u32,
        captures: of.captures.clone(),
        states: of.states() as u32,
        may_fail: !of.is_whole(),
    });
    let graphs =
        if body.as_ref().is_some_and(|body| !body.may_fail) { Subgraphs::default() } else { op.graphs.clone() };
    let mut operands = planned.inputs.iter();
    let mut inputs = Vec::with_capacity(op.inputs.len());
    for (input, &is_given) in op.inputs.iter().enumerate() {
        let operand = if is_given { operands.next() } else { None };
        inputs.push(
            operand
                .filter(|_| bodies::is_read(parts.bodies, op, input))
                .map(|operand| argument(plan, operand, weights))
                .transpose()?,
        );
    }
    let mut made = planned.outputs.iter();
    let mut outputs = Vec::with_capacity(op.outputs.len());
    for &is_named in &op.outputs {
        let value = if is_named { made.next() } else { None };
        outputs.push(value.map(|&value| buffer_of(plan, value)).transpose()?);
    }
    let mut steps = vec![Step::Host(Host {
        op_type: op.op_type.clone(),
        domain: op.domain.clone(),
        opset: op.opset,
        attributes: op.attributes.clone(),
        graphs,
        body,
        inputs,
        outputs,
        origins: planned.origins.clone(),
        reason: op.reason.clone(),
    })];
    if !op.produces.is_empty() {
        let mut symbols = Vec::with_capacity(op.produces.len());
        for produced in &op.produces {
            let value = planned.outputs.get(produced.output as usize).copied();
            let nobody = || CompileError::Internal { what: "a symbol that nothing produces".to_owned() };
            symbols.push((produced.symbol, value.ok_or_else(nobody)?, produced.axis));
        }
        steps.push(bind(plan, symbols.into_iter())?);
    }
    Ok(steps)
}

/// The step that tells symbols their values: extents of what host operations have made.
pub(super) fn bind(
    plan: &GraphPlan,
    produced: impl Iterator<Item = (SymbolId, ValueId, u32)>,
) -> Result<Step, CompileError> {
    let mut symbols = Vec::new();
    for (symbol, value, axis) in produced {
        let from = BindFrom::Axis { slot: buffer_of(plan, value)?, axis };
        symbols.push(BindSymbol { symbol: symbol.index() as u32, from });
    }
    Ok(Step::Bind(Bind { symbols }))
}

fn argument(plan: &GraphPlan, operand: &OperandSource, weights: &mut WeightSlots<'_>) -> Result<HostArg, CompileError> {
    let slot = weights.slot(operand)?;
    let value = match operand {
        OperandSource::Value(value) => *value,
        OperandSource::Constant(constant) => constant.value,
    };
    let TensorType { dtype, shape } = plan.graph.ty(value);
    Ok(HostArg { slot, dtype: *dtype, shape: shape.iter().map(size).collect::<Result<_, _>>()? })
}
