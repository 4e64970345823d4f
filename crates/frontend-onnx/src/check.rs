//! The checks that make a decoded message a graph: versions, names, order, tensor data.

use crate::error::ImportError;
use crate::functions::split_domain;
use crate::model::{NEWEST_IR_VERSION, NEWEST_OPSET, OLDEST_OPSET, canonical_domain, node_ref};
use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use crate::tensor_proto;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// The opset that a node's domain means: that of the function it comes from, or what the model imports.
pub(crate) fn opset(model: &ModelProto, domain: &str) -> Option<i64> {
    if let (_, Some(version)) = split_domain(domain) {
        return Some(version);
    }
    let domain = canonical_domain(domain);
    model.opset_import.iter().find(|o| canonical_domain(o.domain()) == domain).map(|o| o.version())
}

/// Is this a model, and of versions that are read?
pub(crate) fn versions(model: &ModelProto) -> Result<(), ImportError> {
    let Some(graph) = &model.graph else {
        return Err(ImportError::NotAModel { reason: "it has no graph" });
    };
    if model.ir_version.is_none() {
        return Err(ImportError::NotAModel { reason: "it has no IR version" });
    }
    if graph.output.is_empty() {
        return Err(ImportError::NotAModel { reason: "its graph has no outputs" });
    }
    let found = model.ir_version();
    if !(3..=NEWEST_IR_VERSION).contains(&found) {
        return Err(ImportError::IrVersion { found, newest: NEWEST_IR_VERSION });
    }
    if model.opset_import.is_empty() {
        return Err(ImportError::NotAModel { reason: "it imports no opset" });
    }
    model.opset_import.iter().try_for_each(opset_version)
}

/// Is this a version that is read?
pub(crate) fn opset_version(import: &OperatorSetIdProto) -> Result<(), ImportError> {
    let found = import.version();
    let named = || match import.domain() {
        "" => "ai.onnx".to_owned(),
        domain => domain.to_owned(),
    };
    if canonical_domain(import.domain()).is_empty() && found > NEWEST_OPSET {
        return Err(ImportError::OpsetTooNew { domain: named(), found, newest: NEWEST_OPSET });
    }
    if found < OLDEST_OPSET {
        return Err(ImportError::OpsetTooOld { domain: named(), found, oldest: OLDEST_OPSET });
    }
    Ok(())
}

/// Checks names and tensor data; returns the nodes' positions with operands before users.
///
/// ONNX asks for that order in the file. Files that lack it are read all the same if there is one.
pub(crate) fn graph(model: &ModelProto) -> Result<Vec<usize>, ImportError> {
    let graph = model.graph.as_ref().ok_or(ImportError::NotAModel { reason: "it has no graph" })?;
    graph.initializer.iter().try_for_each(tensor_proto::check)?;

    let mut defined: HashSet<&str> = HashSet::new();
    for input in &graph.input {
        if !defined.insert(input.name()) {
            return Err(ImportError::DuplicateName { name: input.name().to_owned(), node: None });
        }
    }
    let mut initializers: HashSet<&str> = HashSet::new();
    for name in initializer_names(graph) {
        // An initializer may give an input its value, but not another initializer.
        if !initializers.insert(name) {
            return Err(ImportError::DuplicateName { name: name.to_owned(), node: None });
        }
    }
    defined.extend(&initializers);

    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        if opset(model, node.domain()).is_none() {
            return Err(ImportError::OpsetMissing { node: Box::new(node_ref(model, node, index)) });
        }
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if defined.contains(output.as_str()) || producers.insert(output, index).is_some() {
                let node = Some(Box::new(node_ref(model, node, index)));
                return Err(ImportError::DuplicateName { name: output.clone(), node });
            }
        }
    }
    let reads: Vec<Vec<&str>> = graph.node.iter().map(reads).collect();
    for (index, names) in reads.iter().enumerate() {
        let dangling = names.iter().find(|n| !defined.contains(**n) && !producers.contains_key(**n));
        if let Some(name) = dangling {
            let node = Box::new(node_ref(model, &graph.node[index], index));
            return Err(ImportError::DanglingName { node, name: (*name).to_owned() });
        }
    }
    for output in &graph.output {
        if !defined.contains(output.name()) && !producers.contains_key(output.name()) {
            return Err(ImportError::DanglingOutput { name: output.name().to_owned() });
        }
    }

    // Operands by position, without repetition.
    let operands: Vec<Vec<usize>> = reads
        .iter()
        .map(|names| {
            let mut operands: Vec<usize> = names.iter().filter_map(|n| producers.get(n).copied()).collect();
            operands.sort_unstable();
            operands.dedup();
            operands
        })
        .collect();
    sort(&operands).map_err(|cycle| {
        let nodes = cycle.into_iter().map(|index| node_ref(model, &graph.node[index], index)).collect();
        ImportError::Cycle { nodes }
    })
}

fn initializer_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let sparse = graph.sparse_initializer.iter().map(|s| s.values.as_ref().map_or("", |v| v.name()));
    graph.initializer.iter().map(|t| t.name()).chain(sparse)
}

/// The names that a node reads, those that its subgraphs capture included.
pub(crate) fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
    for attribute in &node.attribute {
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            captures(graph, &mut names);
        }
    }
    names
}

/// The names that a subgraph takes from around it.
fn captures<'a>(graph: &'a GraphProto, names: &mut Vec<&'a str>) {
    let mut own: HashSet<&str> = graph.input.iter().map(|i| i.name()).collect();
    own.extend(initializer_names(graph));
    own.extend(graph.node.iter().flat_map(|n| &n.output).map(String::as_str));
    let outputs = graph.output.iter().map(|o| o.name());
    names.extend(graph.node.iter().flat_map(reads).chain(outputs).filter(|n| !own.contains(n)));
}

/// Sorts topologically, keeping the given order where possible; or a cycle.
fn sort(operands: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); operands.len()];
    let mut waiting: Vec<usize> = operands.iter().map(Vec::len).collect();
    for (node, operands) in operands.iter().enumerate() {
        for &operand in operands {
            users[operand].push(node);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..operands.len()).filter(|&n| waiting[n] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(operands.len());
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &user in &users[node] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    if order.len() == operands.len() {
        return Ok(order);
    }
    // Every node left waits for one that is left: going from one to the next must come around.
    let left = |node: usize| waiting[node] > 0;
    let next = |node: usize| operands[node].iter().copied().find(|&o| left(o)).expect("a waiting node has an operand");
    let mut path = vec![(0..operands.len()).find(|&n| left(n)).expect("a node is left")];
    let mut position: HashMap<usize, usize> = HashMap::from([(path[0], 0)]);
    loop {
        let node = next(path[path.len() - 1]);
        if let Some(&start) = position.get(&node) {
            let mut cycle = path.split_off(start);
            cycle.reverse();
            return Err(cycle);
        }
        position.insert(node, path.len());
        path.push(node);
    }
}
