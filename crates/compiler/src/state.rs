//! States: outputs that are inputs of the next run, as they were asked for by name.

use crate::CompileError;
use infc_ir::graph::{Assumption, Graph, Port, Relation};
use infc_ir::index::{Proof, Ranges};

/// The numbers of the output and the input of each state. What of their extents cannot be proven to be equal is taken
/// for granted by the graph where the input's is a number.
///
/// # Errors
/// `compile::unknown-state`, `compile::duplicate-state`, `compile::state-mismatch`.
pub(crate) fn resolve(graph: &mut Graph, names: &[(String, String)]) -> Result<Vec<(usize, usize)>, CompileError> {
    let names = &spelled_out(graph, names);
    let mut states: Vec<(usize, usize)> = Vec::with_capacity(names.len());
    for (output, input) in names {
        let pair = (find(&graph.outputs, "output", output)?, find(&graph.inputs, "input", input)?);
        if let Some(n) = states.iter().position(|state| state.0 == pair.0 || state.1 == pair.1) {
            let text = |(output, input): &(String, String)| format!("{output}={input}");
            let (first, second) = (text(&names[n]), format!("{output}={input}"));
            return Err(CompileError::DuplicateState { first, second });
        }
        check(graph, pair)?;
        states.push(pair);
    }
    Ok(states)
}

/// The numbers of the output and the input of each state of a special case, whose general case has them: what the next
/// run makes of a state, another case may.
pub(crate) fn of_special_case(graph: &Graph, names: &[(String, String)]) -> Result<Vec<(usize, usize)>, CompileError> {
    let pair = |(output, input): &(String, String)| {
        Ok((find(&graph.outputs, "output", output)?, find(&graph.inputs, "input", input)?))
    };
    spelled_out(graph, names).iter().map(pair).collect()
}

/// Pairs of names of which an output's has a `*`, once per output that is so called, with what the `*` stands for in the
/// input's. One that stands for no output is left as it is, and is none of the model's.
fn spelled_out(graph: &Graph, names: &[(String, String)]) -> Vec<(String, String)> {
    let is_port = |name: &str| graph.outputs.iter().any(|port| port.name == name);
    let mut all = Vec::with_capacity(names.len());
    for (output, input) in names {
        let pattern = output.split_once('*').filter(|_| input.contains('*') && !is_port(output));
        let part = |port: &Port| {
            let (before, after) = pattern?;
            Some(port.name.strip_prefix(before)?.strip_suffix(after)?.to_owned())
        };
        let pairs: Vec<(String, String)> = graph
            .outputs
            .iter()
            .filter_map(|port| Some((port.name.clone(), input.replacen('*', &part(port)?, 1))))
            .collect();
        if pairs.is_empty() {
            all.push((output.clone(), input.clone()));
        }
        all.extend(pairs);
    }
    all
}

fn find(ports: &[Port], kind: &'static str, name: &str) -> Result<usize, CompileError> {
    ports.iter().position(|port| port.name == name).ok_or_else(|| CompileError::UnknownState {
        kind,
        name: name.to_owned(),
        known: ports.iter().map(|port| format!("`{}`", port.name)).collect(),
    })
}

/// Whether a run can read what the one before has written.
fn check(graph: &mut Graph, (output, input): (usize, usize)) -> Result<(), CompileError> {
    let (to, from) = (&graph.outputs[output], &graph.inputs[input]);
    let (written, read) = (graph.port_type(to).clone(), graph.port_type(from).clone());
    let mismatch = |what: &'static str| CompileError::StateMismatch {
        output: to.name.clone(),
        output_type: format!("{}{}", written.dtype, shape_text(graph, &written.shape)),
        input: from.name.clone(),
        input_type: format!("{}{}", read.dtype, shape_text(graph, &read.shape)),
        what,
    };
    if written.dtype != read.dtype {
        return Err(mismatch("the element types differ"));
    }
    if !read.dtype.has_bytes() {
        return Err(mismatch("only numbers can be carried"));
    }
    if written.shape.len() != read.shape.len() {
        return Err(mismatch("the ranks differ"));
    }
    let ranges = Ranges::of_symbols(&graph.symbols);
    let apart = |(a, b)| {
        let (a, b) = (ranges.interval(a), ranges.interval(b));
        let below = |max: Option<i64>, min: Option<i64>| max.zip(min).is_some_and(|(max, min)| max < min);
        below(a.max, b.min) || below(b.max, a.min)
    };
    if written.shape.iter().zip(&read.shape).any(apart) {
        return Err(mismatch("an extent that the output has is none that the input may have"));
    }
    let what = format!("the extents of state `{}`", from.name);
    let origin = graph.producer(to.value).map(|(_, node)| node.origin);
    for (left, right) in written.shape.into_iter().zip(read.shape) {
        if right.as_const().is_some() && ranges.eq(&left, &right) != Proof::Yes {
            let origin = origin.unwrap_or_else(|| graph.origins.push(Vec::new()));
            let (what, relation) = (what.clone(), Relation::Equal);
            graph.assumptions.push(Assumption { what, left, relation, right, origin });
        }
    }
    Ok(())
}

/// `[N, 4, past, 8]`.
fn shape_text(graph: &Graph, shape: &[infc_ir::index::Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(|dim| dim_text(graph, dim)).collect();
    format!("[{}]", dims.join(", "))
}

fn dim_text(graph: &Graph, dim: &infc_ir::index::Dim) -> String {
    dim.as_symbol().and_then(|symbol| graph.symbols.get(symbol)).map_or_else(|| dim.to_string(), |s| s.name.clone())
}
