//! Recurrent networks, and graphs within nodes: `If`, `Loop`.

use super::Drawer;
use crate::definition::gates_left_over;
use crate::draft::{Candidate, Draft, Id};
use crate::random::cast;
use infc_tensor::{Attributes, DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[network, network, network, choice, steps, scan];

/// Small weights: what grows with every step says nothing in the end.
fn small(d: &mut Draft, dtype: DType, shape: &[usize]) -> Id {
    let tensor = d.random.tensor(DType::F64, shape);
    let numbers: Vec<f64> = (0..tensor.len_elems()).map(|n| tensor.get_f64(n).unwrap_or(0.0) / 4.0).collect();
    d.constant(&cast(&Tensor::from_elements(shape, &numbers).expect("the same shape"), dtype))
}

fn network(d: &mut Draft) -> Option<Candidate> {
    // What is large saturates at once, and says nothing of what follows.
    let is_small = |x: &Tensor| (0..x.len_elems()).all(|n| x.get_f64(n).is_some_and(|x| x.abs() <= 4.0));
    let x = d.float_of_rank(3, 3).filter(|&x| is_small(d.at(x)))?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let (op, gates) = *d.random.pick(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
    let layout = if d.random.one_in(4) { 1 } else { 0 };
    let (steps, batch) = (shape[layout], shape[1 - layout]);
    let hidden = d.random.between(1, 5) as usize;
    let direction = *d.random.pick(&["forward", "reverse", "bidirectional"]);
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let weights = small(d, dtype, &[directions, gates * hidden, shape[2]]);
    let recurrence = small(d, dtype, &[directions, gates * hidden, hidden]);
    let bias = d.random.one_in(2).then(|| small(d, dtype, &[directions, 2 * gates * hidden]));
    let lengths = d.random.one_in(3).then(|| {
        let numbers: Vec<i32> = (0..batch).map(|_| d.random.between(1, steps as i64) as i32).collect();
        d.constant(&Tensor::from_elements(&[batch], &numbers).expect("a vector"))
    });
    let state = if layout == 1 { [batch, directions, hidden] } else { [directions, batch, hidden] };
    let mut states = Vec::new();
    for _ in 0..if op == "LSTM" { 2 } else { 1 } {
        states.push(d.random.one_in(2).then(|| small(d, dtype, &state)));
    }
    let mut candidate = Candidate::new(op, &[x, weights, recurrence]).input(bias).input(lengths);
    for state in states {
        candidate = candidate.input(state);
    }
    if op == "LSTM" && d.random.one_in(3) {
        let peepholes = small(d, dtype, &[directions, 3 * hidden]);
        candidate = candidate.input(Some(peepholes));
    }
    if op == "GRU" {
        let reset = d.random.flag();
        candidate = candidate.with("linear_before_reset", reset);
    }
    candidate = candidate.with("hidden_size", hidden as i64).with("direction", direction);
    let outputs = d.random.between(1, if op == "LSTM" { 3 } else { 2 }) as usize;
    let candidate = candidate.with("layout", layout as i64).outputs(outputs);
    Some(if op == "GRU" { candidate.beside(gates_left_over) } else { candidate })
}

fn node(op_type: &str, inputs: &[&str], output: &str, opset: i64) -> SubgraphNode {
    SubgraphNode {
        op_type: op_type.to_owned(),
        domain: String::new(),
        opset,
        attributes: Attributes::new(),
        graphs: Vec::new(),
        inputs: inputs.iter().map(|&name| name.to_owned()).collect(),
        outputs: vec![output.to_owned()],
    }
}

fn output(name: &str, like: &Tensor) -> SubgraphOutput {
    let shape = like.shape().iter().map(|&d| d as u64).collect();
    SubgraphOutput { name: name.to_owned(), dtype: like.dtype(), shape }
}

/// A choice between two functions of a value around it. One of them may read a tensor of the value's shape, too, which is all that
/// says what the extents are in that branch.
fn choice(d: &mut Draft) -> Option<Candidate> {
    let x = d.float()?;
    let condition = d.any(|t| t.dtype() == DType::Bool && t.rank() == 0);
    let condition = match condition {
        Some(condition) => condition,
        None => d.weight(DType::Bool, &[]),
    };
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let beside = (d.random.flag() == 1).then(|| d.weight(dtype, &shape));
    let (one, two) = (*d.random.pick(&["Abs", "Neg", "Relu"]), *d.random.pick(&["Identity", "Sigmoid", "Sin"]));
    let both = *d.random.pick(&["Add", "Max", "Mul"]);
    let branch = |op: &str, inputs: &[&str]| Subgraph {
        nodes: vec![node(op, inputs, "y", d.opset)],
        outputs: vec![output("y", d.at(x))],
        ..Subgraph::default()
    };
    let first = if beside.is_some() { branch(both, &["x", "w"]) } else { branch(one, &["x"]) };
    let captures = ["x", "w"][..1 + usize::from(beside.is_some())].iter().map(|&name| name.to_owned()).collect();
    let roots = vec![("then_branch".to_owned(), 0), ("else_branch".to_owned(), 1)];
    let graphs = Subgraphs { roots, captures, graphs: vec![first, branch(two, &["x"])] };
    let captured: Vec<_> = [Some(x), beside].into_iter().flatten().collect();
    Some(Candidate::new("If", &[condition]).holding(graphs, &captured))
}

/// So many steps, each of which changes a state by a value around the loop, and gives a part of a result. Some loops end where
/// data says, and before they have taken as many.
fn steps(d: &mut Draft) -> Option<Candidate> {
    let state = d.float()?;
    let (dtype, shape) = (d.dtype(state), d.shape(state));
    let beside = d.weight(dtype, &shape[shape.len() / 2..]);
    // Of no steps, a result has the extents that the graph declares, which are those of this run.
    let count = d.random.between(1, 4);
    let ends_on_data = d.random.flag() == 1;
    let limit = d.int(count);
    let count = if ends_on_data { d.constant(&Tensor::scalar(i64::MAX)) } else { limit };
    let opset = d.opset;
    let [change, give] = [*d.random.pick(&["Add", "Sub", "Max"]), *d.random.pick(&["Abs", "Tanh", "Identity"])];
    let body = Subgraph {
        inputs: ["n", "before", "x"].map(str::to_owned).to_vec(),
        nodes: [
            going_on(ends_on_data, opset),
            vec![node(change, &["x", "w"], "next", opset), node(give, &["next"], "part", opset)],
        ]
        .concat(),
        outputs: vec![
            SubgraphOutput { name: "after".to_owned(), dtype: DType::Bool, shape: Vec::new() },
            output("next", d.at(state)),
            output("part", d.at(state)),
        ],
        ..Subgraph::default()
    };
    let on = d.constant(&cast(&Tensor::scalar(1i64), DType::Bool));
    let candidate = Candidate::new("Loop", &[count, on, state]).outputs(2);
    let captured = if ends_on_data { vec![beside, limit] } else { vec![beside] };
    let captures = ["w", "limit"][..captured.len()].iter().map(|&name| name.to_owned()).collect();
    let graphs = Subgraphs { roots: vec![("body".to_owned(), 0)], captures, graphs: vec![body] };
    Some(candidate.holding(graphs, &captured))
}

/// Whether another step comes: always, or if data says so and there have been fewer than `limit`.
fn going_on(ends_on_data: bool, opset: i64) -> Vec<SubgraphNode> {
    if !ends_on_data {
        return vec![node("Identity", &["before"], "after", opset)];
    }
    // A sum that is a number is equal to itself.
    let mut sum = node("ReduceSum", &["x"], "sum", opset);
    sum.attributes = Attributes::from_iter([("keepdims", 0i64)]);
    let mut cast = node("Cast", &["sum"], "float", opset);
    cast.attributes = Attributes::from_iter([("to", 1i64)]);
    vec![
        sum,
        cast,
        node("Equal", &["float", "float"], "is_number", opset),
        node("Less", &["n", "limit"], "fewer", opset),
        node("And", &["fewer", "is_number"], "after", opset),
    ]
}

/// A state that every slice along an axis changes, and a result per slice, from either end.
fn scan(d: &mut Draft) -> Option<Candidate> {
    let x = d.float_of_rank(1, 4)?;
    let (dtype, mut shape, axis) = (d.dtype(x), d.shape(x), d.axis(x)?);
    shape.remove(axis.rem_euclid(shape.len() as i64) as usize);
    let state = d.weight(dtype, &shape);
    let beside = d.weight(dtype, &shape[shape.len() / 2..]);
    let opset = d.opset;
    let [change, give] = [*d.random.pick(&["Add", "Sub", "Max"]), *d.random.pick(&["Abs", "Tanh", "Mul"])];
    let given = if give == "Mul" { vec!["next", "w"] } else { vec!["next"] };
    let body = Subgraph {
        inputs: ["before", "x"].map(str::to_owned).to_vec(),
        nodes: vec![node(change, &["before", "x"], "next", opset), node(give, &given, "part", opset)],
        outputs: vec![output("next", d.at(state)), output("part", d.at(state))],
        ..Subgraph::default()
    };
    let graphs = Subgraphs { roots: vec![("body".to_owned(), 0)], captures: vec!["w".to_owned()], graphs: vec![body] };
    let (backwards, turned) = (d.random.flag(), d.random.flag());
    let rank = shape.len() as i64 + 1;
    let along = d.random.between(-rank, rank - 1);
    let candidate = Candidate::new("Scan", &[state, x]).outputs(2).with("num_scan_inputs", 1i64);
    let candidate = candidate.with("scan_input_axes", vec![axis]).with("scan_input_directions", vec![backwards]);
    let candidate = candidate.with("scan_output_axes", vec![along]).with("scan_output_directions", vec![turned]);
    Some(candidate.holding(graphs, &[beside]))
}
