//! Model-local functions: every call is replaced by the function's nodes, before anything else looks at the model.
//!
//! ONNX IR, `FunctionProto`: a call names the function by domain, name and overload. What the function calls its inputs and
//! outputs becomes what the call passes; all other names get a prefix of their own. Attributes that refer to one of the
//! function's get the call's value, or the function's default, or are left out. Nodes are named after the calls that lead
//! to them: `/block/attention/MatMul`. A function may import other opsets than the model; its nodes' domains then say
//! which (see [`domain_of_opset`]).

use crate::check;
use crate::error::{ImportError, NodeRef};
use crate::model::{canonical_domain, node_ref};
use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use prost::Message;
use std::collections::HashMap;

/// How deep calls may lead into calls.
const MAX_DEPTH: usize = 64;

/// How much inlining may add: so many times the size of the file, and this.
const MAX_GROWTH: usize = 4;
const MAX_ADDED_BYTES: usize = 1 << 26;

/// What stands between a domain and the version of it that a node means, if that is not the model's. No domain has it.
const VERSION_MARK: char = '\u{1}';

/// The domain of a node that means a version of its own.
fn domain_of_opset(domain: &str, version: i64) -> String {
    format!("{domain}{VERSION_MARK}{version}")
}

/// The domain alone, and the version that the node means if it is not the model's.
pub(crate) fn split_domain(domain: &str) -> (&str, Option<i64>) {
    match domain.split_once(VERSION_MARK) {
        Some((domain, version)) => (domain, version.parse().ok()),
        None => (domain, None),
    }
}

/// Whether, of the nodes of a model without calls, some mean opsets that the model does not import.
pub(crate) fn means_other_opsets(model: &ModelProto) -> bool {
    fn any(model: &ModelProto, graph: &GraphProto) -> bool {
        graph.node.iter().any(|node| {
            let marked = split_domain(node.domain()).1.is_some();
            let held = node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs));
            marked && !(is_copy(node) && check::opset(model, "").is_some()) || held.into_iter().any(|g| any(model, g))
        })
    }
    model.graph.as_ref().is_some_and(|graph| any(model, graph))
}

/// The same model with every domain as a file has it, given that no node means another opset than the model.
pub(crate) fn with_plain_domains(mut model: ModelProto) -> ModelProto {
    fn strip(graph: &mut GraphProto) {
        for node in &mut graph.node {
            if let (domain, Some(_)) = split_domain(node.domain()) {
                node.domain = Some(domain.to_owned());
            }
            let held = node.attribute.iter_mut().flat_map(|a| a.g.iter_mut().chain(&mut a.graphs));
            held.for_each(strip);
        }
    }
    model.graph.iter_mut().for_each(strip);
    model
}

/// Whether this copies an input of a function that is an output of it as well; any opset has that operator.
fn is_copy(node: &NodeProto) -> bool {
    node.op_type() == "Identity" && canonical_domain(node.domain()).is_empty()
}

/// Replaces all calls.
///
/// # Errors
/// [`ImportError`] if a function calls itself, takes less than it is given, or imports unknown opsets, and if the nodes
/// become too many.
pub(crate) fn inline(model: &mut ModelProto) -> Result<(), ImportError> {
    if model.functions.is_empty() {
        return Ok(());
    }
    let size = model.encoded_len();
    let functions = std::mem::take(&mut model.functions);
    let mut graph = model.graph.take().unwrap_or_default();
    let mut table = HashMap::new();
    for function in &functions {
        let key = (canonical_domain(function.domain()), function.name(), function.overload());
        if table.insert(key, function).is_some() {
            return Err(ImportError::DuplicateName { name: function.name().to_owned(), node: None });
        }
        for import in &function.opset_import {
            check::opset_version(import)?;
        }
    }
    let left = size.saturating_mul(MAX_GROWTH).saturating_add(MAX_ADDED_BYTES);
    let mut inliner = Inliner { model, functions: table, calls: Vec::new(), serial: 0, left };
    let result = inliner.graph(&mut graph);
    model.graph = Some(graph);
    result
}

struct Inliner<'a> {
    model: &'a ModelProto,
    functions: HashMap<(&'a str, &'a str, &'a str), &'a FunctionProto>,
    /// The functions that are being inlined, outermost first.
    calls: Vec<&'a FunctionProto>,
    /// How many calls there were.
    serial: usize,
    /// How many bytes may still be added.
    left: usize,
}

/// One call: what the names and attributes of the function become.
struct Instance<'a> {
    model: &'a ModelProto,
    function: &'a FunctionProto,
    call: &'a NodeProto,
    /// Formal inputs and outputs.
    names: HashMap<&'a str, String>,
    prefix: String,
    label: String,
}

impl<'a> Inliner<'a> {
    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), ImportError> {
        let nodes = std::mem::take(&mut graph.node);
        nodes.into_iter().enumerate().try_for_each(|(index, node)| self.node(node, index, &mut graph.node))
    }

    fn node(&mut self, mut node: NodeProto, index: usize, into: &mut Vec<NodeProto>) -> Result<(), ImportError> {
        for attribute in &mut node.attribute {
            attribute.g.iter_mut().chain(&mut attribute.graphs).try_for_each(|graph| self.graph(graph))?;
        }
        let key = (canonical_domain(node.domain()), node.op_type(), node.overload());
        match self.functions.get(&key).copied() {
            Some(function) => self.call(&node, index, function, into),
            None => {
                into.push(node);
                Ok(())
            }
        }
    }

    /// The nodes of a function in the place of a call.
    fn call(
        &mut self,
        call: &NodeProto,
        index: usize,
        function: &'a FunctionProto,
        into: &mut Vec<NodeProto>,
    ) -> Result<(), ImportError> {
        let node = || Box::new(node_ref(self.model, call, index));
        if self.calls.iter().any(|&f| std::ptr::eq(f, function)) || self.calls.len() == MAX_DEPTH {
            let chain = self.calls.iter().chain([&function]).map(|f| f.name().to_owned()).collect();
            return Err(ImportError::FunctionRecursion { node: node(), chain });
        }
        let taken =
            [("inputs", function.input.len(), call.input.len()), ("outputs", function.output.len(), call.output.len())];
        if let Some(&(what, expected, found)) = taken.iter().find(|(_, takes, given)| given > takes) {
            return Err(ImportError::FunctionCall { node: node(), what, expected, found });
        }
        self.serial += 1;
        let NodeRef { name: label, .. } = *node();
        let mut instance = Instance {
            model: self.model,
            function,
            call,
            names: HashMap::new(),
            prefix: format!("{}#{}/", function.name(), self.serial),
            label,
        };
        for (n, formal) in function.input.iter().enumerate() {
            instance.names.insert(formal, call.input.get(n).cloned().unwrap_or_default());
        }
        // An output that is an input as well is a copy of it.
        let mut copies = Vec::new();
        for (formal, actual) in function.output.iter().zip(&call.output).filter(|(_, actual)| !actual.is_empty()) {
            match instance.names.get(formal.as_str()) {
                Some(same) => copies.push((same.clone(), actual.clone())),
                None => drop(instance.names.insert(formal, actual.clone())),
            }
        }
        self.calls.push(function);
        for (index, inner) in function.node.iter().enumerate() {
            let added = inner.encoded_len() + instance.prefix.len() * (inner.input.len() + inner.output.len() + 1);
            self.left = self.left.checked_sub(added + instance.label.len()).ok_or_else(|| {
                let chain = self.calls.iter().map(|f| f.name().to_owned()).collect();
                ImportError::FunctionsTooLarge { node: Box::new(node_ref(self.model, call, index)), chain }
            })?;
            let mut inner = inner.clone();
            instance.node(&mut inner, index)?;
            self.node(inner, index, into)?;
        }
        self.calls.pop();
        into.extend(copies.into_iter().map(|(from, to)| NodeProto {
            op_type: Some("Identity".to_owned()),
            domain: Some(domain_of_opset("", 1)),
            name: Some(format!("{}/{to}", instance.label)),
            input: vec![from],
            output: vec![to],
            ..NodeProto::default()
        }));
        Ok(())
    }
}

impl Instance<'_> {
    /// Makes a node of the function one of the call.
    fn node(&self, node: &mut NodeProto, index: usize) -> Result<(), ImportError> {
        self.names(&mut node.input);
        self.names(&mut node.output);
        let name = if node.name().is_empty() { node.op_type() } else { node.name() };
        node.name = Some(format!("{}/{name}", self.label));
        let domain = canonical_domain(node.domain()).to_owned();
        let own = self.function.opset_import.iter().find(|o| canonical_domain(o.domain()) == domain);
        let Some(own) = own else {
            let node = Box::new(node_ref(self.model, node, index));
            return Err(ImportError::OpsetMissing { node });
        };
        if check::opset(self.model, &domain) != Some(own.version()) {
            node.domain = Some(domain_of_opset(&domain, own.version()));
        }
        node.attribute = std::mem::take(&mut node.attribute).into_iter().filter_map(|a| self.attribute(a)).collect();
        for attribute in &mut node.attribute {
            attribute.g.iter_mut().chain(&mut attribute.graphs).try_for_each(|graph| self.graph(graph))?;
        }
        Ok(())
    }

    /// The attribute with the value that the call gives it; `None` if neither call nor function have one.
    fn attribute(&self, attribute: AttributeProto) -> Option<AttributeProto> {
        if attribute.ref_attr_name().is_empty() {
            return Some(attribute);
        }
        let named = |a: &&AttributeProto| a.name() == attribute.ref_attr_name();
        let given =
            self.call.attribute.iter().find(named).or_else(|| self.function.attribute_proto.iter().find(named))?;
        Some(AttributeProto { name: attribute.name, ref_attr_name: None, ..given.clone() })
    }

    fn graph(&self, graph: &mut GraphProto) -> Result<(), ImportError> {
        for port in graph.input.iter_mut().chain(&mut graph.output) {
            self.name(port.name.get_or_insert_default());
        }
        for tensor in &mut graph.initializer {
            self.name(tensor.name.get_or_insert_default());
        }
        for tensor in graph.sparse_initializer.iter_mut().filter_map(|s| s.values.as_mut()) {
            self.name(tensor.name.get_or_insert_default());
        }
        graph.value_info.clear();
        graph.node.iter_mut().enumerate().try_for_each(|(index, node)| self.node(node, index))
    }

    fn names(&self, names: &mut [String]) {
        names.iter_mut().for_each(|name| self.name(name));
    }

    fn name(&self, name: &mut String) {
        if name.is_empty() {
            return;
        }
        *name = match self.names.get(name.as_str()) {
            Some(actual) => actual.clone(),
            None => format!("{}{name}", self.prefix),
        };
    }
}
