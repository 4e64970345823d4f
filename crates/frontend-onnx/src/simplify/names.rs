//! Names of values: which there are, and giving readers another one.

use crate::check;
use crate::proto::{GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// The names of the graph's outputs.
pub(super) fn outputs(graph: &GraphProto) -> HashSet<String> {
    graph.output.iter().map(|o| o.name().to_owned()).collect()
}

/// Removes inputs that an initializer gives a value: they are constants to all who compile the model.
pub(super) fn drop_defaults(graph: &mut GraphProto) {
    let constants: HashSet<&str> = graph.initializer.iter().map(|t| t.name()).collect();
    graph.input.retain(|input| !constants.contains(input.name()));
}

/// Every name that is in use, in graphs within as well.
pub(super) fn taken(graph: &GraphProto) -> HashSet<String> {
    fn add(graph: &GraphProto, all: &mut HashSet<String>) {
        let ports = graph.input.iter().chain(&graph.output).map(|p| p.name());
        all.extend(ports.chain(graph.initializer.iter().map(|t| t.name())).map(str::to_owned));
        for node in &graph.node {
            all.extend(node.input.iter().chain(&node.output).cloned());
            for attribute in &node.attribute {
                attribute.g.iter().chain(&attribute.graphs).for_each(|g| add(g, all));
            }
        }
    }
    let mut all = HashSet::new();
    add(graph, &mut all);
    all
}

/// A name that begins like this and that nothing has; from now on it is taken.
pub(super) fn fresh(base: &str, taken: &mut HashSet<String>) -> String {
    let mut name = base.to_owned();
    let mut serial = 1;
    while !taken.insert(name.clone()) {
        serial += 1;
        name = format!("{base}_{serial}");
    }
    name
}

/// Gives nodes that share a name, as those of a function that was called twice may, names of their own. `taken` has how often
/// each name came up.
pub(super) fn part(graph: &mut GraphProto, taken: &mut HashMap<String, usize>) {
    for node in &mut graph.node {
        let name = node.name().to_owned();
        let mut serial = if name.is_empty() { 1 } else { taken.get(&name).map_or(1, |times| times + 1) };
        if serial > 1 {
            while taken.contains_key(&format!("{name}_{serial}")) {
                serial += 1;
            }
            let own = format!("{name}_{serial}");
            taken.insert(own.clone(), 1);
            node.name = Some(own);
        }
        taken.insert(name, serial);
        for attribute in &mut node.attribute {
            attribute.g.iter_mut().chain(&mut attribute.graphs).for_each(|graph| part(graph, taken));
        }
    }
}

/// What a name stands for after all replacements: chains are followed to their end.
fn resolved<'a>(name: &'a str, map: &'a HashMap<String, String>) -> &'a str {
    let mut name = name;
    // No name comes twice: each is replaced by one that is defined before it.
    while let Some(next) = map.get(name) {
        name = next;
    }
    name
}

/// Lets every reader of a name read another one.
pub(super) fn rename_reads(graph: &mut GraphProto, map: &HashMap<String, String>) {
    if !map.is_empty() {
        graph.node.iter_mut().for_each(|node| rename_reads_of(node, map));
    }
}

fn rename_reads_of(node: &mut NodeProto, map: &HashMap<String, String>) {
    for name in &mut node.input {
        let new = resolved(name, map);
        if new != name {
            *name = new.to_owned();
        }
    }
    for attribute in &mut node.attribute {
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            let mut own: HashSet<&str> = graph.input.iter().map(|i| i.name()).collect();
            own.extend(graph.initializer.iter().map(|t| t.name()));
            own.extend(graph.node.iter().flat_map(|n| &n.output).map(String::as_str));
            // What the graph defines itself hides what is around it.
            let hidden = map.keys().any(|name| own.contains(name.as_str()));
            let visible: HashMap<String, String>;
            let map = if hidden {
                let seen = map.keys().filter(|name| !own.contains(name.as_str()));
                visible = seen.map(|name| (name.clone(), resolved(name, map).to_owned())).collect();
                &visible
            } else {
                map
            };
            rename_reads(graph, map);
            for output in &mut graph.output {
                let new = resolved(output.name(), map).to_owned();
                output.name = Some(new);
            }
        }
    }
}

/// Gives values of a graph other names, where they are defined as well as where they are read.
pub(super) fn rename(graph: &mut GraphProto, map: &HashMap<String, String>) {
    let replace = |name: &mut String| {
        if let Some(new) = map.get(name) {
            name.clone_from(new);
        }
    };
    graph.initializer.iter_mut().filter_map(|t| t.name.as_mut()).for_each(replace);
    graph.node.iter_mut().flat_map(|node| &mut node.output).for_each(replace);
    graph.output.iter_mut().filter_map(|o| o.name.as_mut()).for_each(replace);
    rename_reads(graph, map);
}

/// Lets the readers of each first name read the second one, which is the same and defined before. The name of an output
/// of the graph stays: the value that it is the same as gets it, if it may; else nothing happens. Returns whether
/// anything did.
pub(super) fn merge(graph: &mut GraphProto, pairs: Vec<(String, String)>) -> bool {
    let outputs = outputs(graph);
    let mut produced: HashSet<String> = graph.node.iter().flat_map(|n| n.output.iter().cloned()).collect();
    let mut map = HashMap::new();
    let mut moved = HashMap::new();
    for (name, same) in pairs {
        if !outputs.contains(&name) {
            map.insert(name, same);
            continue;
        }
        let alone =
            graph.node.iter().position(|n| n.output.contains(&name)).filter(|&n| graph.node[n].output.len() == 1);
        if let Some(index) = alone
            && produced.remove(&same)
            && !outputs.contains(&same)
            && !map.contains_key(&same)
        {
            graph.node.remove(index);
            moved.insert(same, name);
        }
    }
    let changed = !map.is_empty() || !moved.is_empty();
    rename_reads(graph, &map);
    if !moved.is_empty() {
        rename(graph, &moved);
    }
    changed
}

/// Everything that the nodes and outputs of a graph read.
pub(super) fn reads(graph: &GraphProto) -> HashSet<String> {
    let nodes = graph.node.iter().flat_map(check::reads).map(str::to_owned);
    nodes.chain(graph.output.iter().map(|o| o.name().to_owned())).collect()
}
