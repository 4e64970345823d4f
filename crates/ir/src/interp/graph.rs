//! The meaning of a graph: nodes in order, each operation naively.

mod contract;
mod ops;
mod ports;
mod recurrence;

pub use ports::{held, shown};

use super::array::Array;
use super::bind::update_late_symbols;
use super::host::{Host, NoHost, bind_produced, evaluate_host};
use super::{InterpError, check_symbols, eval_shape};
use crate::entity::{EntityId, ValueId};
use crate::graph::{Graph, Node, Requirement};
use crate::index::Dim;
use crate::op::{HostOp, Op};
use crate::scalar::Scalar;
use infc_tensor::{DType, Tensor};
use std::rc::Rc;

/// How deep composites may contain composites.
const MAX_DEPTH: usize = 32;

/// Computes a graph without host operations.
///
/// `symbols` has one value per symbol, `inputs` one tensor per input; the result has one per output.
///
/// # Errors
/// [`InterpError`] if the inputs do not fit, a type has no scalar arithmetic, or the graph is not valid.
pub fn run_graph(graph: &Graph, symbols: &[i64], inputs: &[Tensor]) -> Result<Vec<Tensor>, InterpError> {
    run_graph_with(graph, symbols, inputs, &NoHost)
}

/// As [`run_graph`], with somebody to evaluate host operations. What `symbols` says of symbols that such an operation
/// produces must lie in their ranges and counts for nothing else.
///
/// # Errors
/// As [`run_graph`], and [`InterpError::Host`].
pub fn run_graph_with(
    graph: &Graph,
    symbols: &[i64],
    inputs: &[Tensor],
    host: &dyn Host,
) -> Result<Vec<Tensor>, InterpError> {
    check_symbols(&graph.symbols, symbols)?;
    if inputs.len() != graph.inputs.len() {
        let (expected, found) = (graph.inputs.len(), inputs.len());
        return Err(InterpError::WrongCount { what: "inputs", expected, found });
    }
    let mut arrays = Vec::new();
    for (port, tensor) in graph.inputs.iter().zip(inputs) {
        let value = graph.values.get(port.value).ok_or_else(|| dangling(&port.name))?;
        let shape = eval_shape(&port.name, &value.ty.shape, symbols)?;
        let held = ports::held(graph, port, symbols, tensor)?;
        arrays.push(Rc::new(Array::from_tensor(&port.name, value.ty.dtype, shape, &held)?));
    }
    let outputs = run(graph, symbols, arrays, host, 0)?;
    graph.outputs.iter().zip(outputs).map(|(port, array)| ports::shown(port, symbols, array.to_tensor()?)).collect()
}

fn run(
    graph: &Graph,
    symbols: &[i64],
    inputs: Vec<Rc<Array>>,
    host: &dyn Host,
    depth: usize,
) -> Result<Vec<Rc<Array>>, InterpError> {
    if depth > MAX_DEPTH {
        let what = "composites nested too deeply";
        return Err(InterpError::Malformed { place: graph.name.clone(), what });
    }
    // Host operations add to them.
    let mut symbols = symbols.to_vec();
    let late = graph.late_symbols();
    let is_late = |r: &&Requirement| {
        let produced = |dim: &Dim| dim.symbols().iter().any(|s| late.get(s.index()) == Some(&true));
        produced(&r.left) || produced(&r.right)
    };
    graph.requires.iter().filter(|r| !is_late(r)).try_for_each(|r| check_requirement(graph, r, &symbols))?;
    let mut uses = vec![0u32; graph.values.len()];
    let nodes = graph.order.iter().filter_map(|&id| graph.nodes.get(id));
    let read = nodes.flat_map(|n| &n.inputs).chain(graph.outputs.iter().map(|p| &p.value));
    for value in read {
        *uses.get_mut(value.index()).ok_or_else(|| dangling(&graph.name))? += 1;
    }
    let mut values: Vec<Option<Rc<Array>>> = vec![None; graph.values.len()];
    for (port, array) in graph.inputs.iter().zip(inputs) {
        *values.get_mut(port.value.index()).ok_or_else(|| dangling(&port.name))? = Some(array);
    }
    for &id in &graph.order {
        let node = graph.nodes.get(id).ok_or_else(|| dangling(&graph.name))?;
        let place = describe(graph, node, id.index());
        let mut operands = Vec::new();
        for &input in &node.inputs {
            let array = values[input.index()].clone();
            operands.push(array.ok_or_else(|| InterpError::Malformed {
                place: place.clone(),
                what: "an operand that is not computed before",
            })?);
            // What nobody reads any more is let go.
            uses[input.index()] -= 1;
            if uses[input.index()] == 0 {
                values[input.index()] = None;
            }
        }
        let results = match &node.op {
            Op::Host(op) => host_op(op, &place, &operands, host, graph, &mut symbols)?,
            _ => evaluate(&Context { graph, symbols: &symbols, node, place: &place, host, depth }, &operands)?,
        };
        if results.len() != node.outputs.len() {
            let what = "another number of outputs than the operation has";
            return Err(InterpError::Malformed { place, what });
        }
        if let Op::If(branches) = &node.op {
            let extent = |output: usize, axis: usize| results.get(output)?.shape.get(axis).copied();
            bind_produced(&place, &branches.produces, &extent, &graph.symbols, &mut symbols)?;
            update_late_symbols(graph, &mut symbols);
        }
        for (&output, result) in node.outputs.iter().zip(results) {
            check_type(graph, &symbols, output, &result, &place)?;
            values[output.index()] = Some(result);
        }
    }
    graph.requires.iter().filter(is_late).try_for_each(|r| check_requirement(graph, r, &symbols))?;
    graph.outputs.iter().map(|port| values[port.value.index()].clone().ok_or_else(|| dangling(&port.name))).collect()
}

fn check_requirement(graph: &Graph, requirement: &Requirement, symbols: &[i64]) -> Result<(), InterpError> {
    let dims: [Dim; 2] = [requirement.left.clone(), requirement.right.clone()];
    let values = eval_shape(&graph.name, &dims, symbols)?;
    let (left, right) = (values[0], values[1]);
    if (left == right) == requirement.equal {
        return Ok(());
    }
    Err(InterpError::Unmet { what: requirement.what.clone(), left, right })
}

/// Computes a host operation, which may tell symbols their values.
fn host_op(
    op: &HostOp,
    place: &str,
    operands: &[Rc<Array>],
    host: &dyn Host,
    graph: &Graph,
    symbols: &mut [i64],
) -> Result<Vec<Rc<Array>>, InterpError> {
    let operands = operands.iter().map(|array| array.to_tensor()).collect::<Result<Vec<_>, _>>()?;
    let results = evaluate_host(op, &operands, host, &graph.symbols, symbols)?;
    update_late_symbols(graph, symbols);
    let array = |tensor: &Tensor| {
        let shape = tensor.shape().iter().map(|&d| d as i64).collect();
        Ok(Rc::new(Array::from_tensor(place, tensor.dtype(), shape, tensor)?))
    };
    results.iter().map(array).collect()
}

/// What an operation sees of its surroundings.
struct Context<'a> {
    graph: &'a Graph,
    symbols: &'a [i64],
    node: &'a Node,
    place: &'a str,
    host: &'a dyn Host,
    depth: usize,
}

impl Context<'_> {
    fn malformed(&self, what: &'static str) -> InterpError {
        InterpError::Malformed { place: self.place.to_owned(), what }
    }

    /// The declared shape of the n-th output.
    fn output_shape(&self, n: usize) -> Result<Vec<i64>, InterpError> {
        let value = self.node.outputs.get(n).and_then(|&v| self.graph.values.get(v));
        let value = value.ok_or_else(|| self.malformed("an output that does not exist"))?;
        eval_shape(self.place, &value.ty.shape, self.symbols)
    }
}

/// Computes one node.
fn evaluate(cx: &Context<'_>, operands: &[Rc<Array>]) -> Result<Vec<Rc<Array>>, InterpError> {
    let one = |array: Array| Ok(vec![Rc::new(array)]);
    let operand = |n: usize| operands.get(n).ok_or_else(|| cx.malformed("a missing operand"));
    match &cx.node.op {
        Op::Constant(constant) => {
            let shape = constant.tensor.shape().iter().map(|&d| d as i64).collect();
            one(Array::from_tensor(&constant.name, constant.tensor.dtype(), shape, &constant.tensor)?)
        }
        Op::Map(map) => ops::map(cx, map, operands),
        Op::View(view) => one(ops::view(cx, view, operand(0)?)?),
        Op::Reduce(reduce) => ops::reduce(cx, reduce, operands),
        Op::Contract(contract) => one(contract::contract(cx, contract, operand(0)?, operand(1)?)?),
        Op::Gather(gather) => one(ops::gather(cx, gather.axis, operand(0)?, operand(1)?)?),
        Op::Concat(concat) => one(ops::concat(cx, concat.axis, operands)?),
        Op::Scan(scan) => one(ops::scan(cx, scan, operand(0)?)?),
        Op::Recurrence(recurrence) => recurrence::recurrence(cx, recurrence, operands),
        Op::If(branches) => {
            let (condition, inputs) = operands.split_first().ok_or_else(|| cx.malformed("a missing condition"))?;
            let holds = condition.dtype == DType::Bool && condition.len() == 1 && condition.get(0) == Scalar::Int(1);
            let body = if holds { &branches.then } else { &branches.otherwise };
            if body.inputs.len() != inputs.len() {
                return Err(cx.malformed("a branch that does not fit its inputs"));
            }
            run(body, cx.symbols, inputs.to_vec(), cx.host, cx.depth + 1)
        }
        Op::DimValue(dim) => one(ops::dim_value(cx, dim)?),
        Op::Host(_) => Err(cx.malformed("a host operation where symbols are fixed")),
        Op::Composite(composite) => {
            let body = &composite.body;
            if body.inputs.len() != operands.len() {
                return Err(cx.malformed("a composite that does not fit its body"));
            }
            run(body, cx.symbols, operands.to_vec(), cx.host, cx.depth + 1)
        }
    }
}

/// Declared and computed types must agree.
fn check_type(graph: &Graph, symbols: &[i64], value: ValueId, array: &Array, place: &str) -> Result<(), InterpError> {
    let ty = &graph.values.get(value).ok_or_else(|| dangling(place))?.ty;
    let expected = eval_shape(place, &ty.shape, symbols)?;
    if expected != array.shape {
        let found = array.shape.iter().map(|&d| d as usize).collect();
        return Err(InterpError::WrongShape { name: place.to_owned(), expected, found });
    }
    if ty.dtype != array.dtype {
        let name = place.to_owned();
        return Err(InterpError::WrongType { name, expected: ty.dtype, found: array.dtype });
    }
    Ok(())
}

fn dangling(place: &str) -> InterpError {
    InterpError::Malformed { place: place.to_owned(), what: "a value or node that does not exist" }
}

/// The node with the ONNX nodes it stands for.
fn describe(graph: &Graph, node: &Node, index: usize) -> String {
    let names = graph.origins.get(node.origin).map(|names| names.join(", ")).unwrap_or_default();
    format!("n{index} {} {names}", node.op.name()).trim_end().to_owned()
}
