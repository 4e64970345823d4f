//! The graphs that a node holds, as those who evaluate it by its definition want them.

use crate::attributes::attribute_value;
use crate::check;
use crate::element::Element;
use crate::error::ImportError;
use crate::host;
use crate::model::{Model, canonical_domain};
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensor_proto;
use infc_tensor::{Attributes, DType, MAX_SUBGRAPHS, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs};

/// Names of attributes, and numbers of the graphs that they are.
type Roots = Vec<(String, u32)>;

/// The attributes of a node of the model, and apart from them the graphs that it holds, with the names that these take
/// from around it; `None` if something in them has no definition.
///
/// # Errors
/// [`ImportError`] about a tensor that is damaged.
pub fn node_graphs(model: &Model, node: &NodeProto) -> Result<Option<(Attributes, Subgraphs)>, ImportError> {
    let (mut attributes, mut held) = (Attributes::new(), Subgraphs::default());
    let Some(roots) = read_attributes(model, &node.attribute, &mut attributes, &mut held.graphs)? else {
        return Ok(None);
    };
    held.roots = roots;
    held.captures = captures(node);
    Ok(Some((attributes, held)))
}

/// The names that the graphs of a node take from around it.
pub(crate) fn captures(node: &NodeProto) -> Vec<String> {
    let own = node.input.iter().filter(|name| !name.is_empty()).count();
    let mut captures: Vec<String> = Vec::new();
    for name in check::reads(node).into_iter().skip(own) {
        if captures.iter().all(|known| known != name) {
            captures.push(name.to_owned());
        }
    }
    captures
}

/// The attributes of a node but for graphs, which go to the list of all; `None` if something in them cannot be
/// evaluated.
fn read_attributes(
    model: &Model,
    list: &[AttributeProto],
    attributes: &mut Attributes,
    all: &mut Vec<Subgraph>,
) -> Result<Option<Roots>, ImportError> {
    let mut roots = Roots::new();
    for proto in list {
        if let Some(held) = &proto.g {
            let Some(index) = graph(model, held, all)? else { return Ok(None) };
            roots.push((proto.name().to_owned(), index));
        } else if proto.tp.is_none() {
            let Some(value) = attribute_value(proto)? else { return Ok(None) };
            attributes.insert(proto.name(), value);
        }
    }
    Ok(Some(roots))
}

/// Puts a graph into the list, with those that its nodes hold behind it.
fn graph(model: &Model, proto: &GraphProto, all: &mut Vec<Subgraph>) -> Result<Option<u32>, ImportError> {
    let index = all.len();
    if index >= MAX_SUBGRAPHS || !proto.sparse_initializer.is_empty() {
        return Ok(None);
    }
    all.push(Subgraph { inputs: proto.input.iter().map(|i| i.name().to_owned()).collect(), ..Subgraph::default() });
    let mut constants = Vec::new();
    for tensor in &proto.initializer {
        constants.push((tensor.name().to_owned(), tensor_proto::read(tensor)?));
    }
    let mut nodes = Vec::new();
    for node in &proto.node {
        let (op_type, domain) = (node.op_type(), canonical_domain(node.domain()));
        let Some(opset) = model.opset(domain) else { return Ok(None) };
        if !host::defines(op_type, domain, opset) {
            return Ok(None);
        }
        let mut attributes = Attributes::new();
        let Some(graphs) = read_attributes(model, &node.attribute, &mut attributes, all)? else { return Ok(None) };
        nodes.push(SubgraphNode {
            op_type: op_type.to_owned(),
            domain: domain.to_owned(),
            opset,
            attributes,
            graphs,
            inputs: node.input.clone(),
            outputs: node.output.clone(),
        });
    }
    let mut outputs = Vec::new();
    for output in &proto.output {
        // What is not declared is only asked for where a loop takes no step.
        let declared = Element::of_declaration(output);
        let (dtype, shape) = declared.map_or((DType::F32, None), |e| (e.dtype, e.shape));
        let shape = shape.unwrap_or_default().iter().map(|extent| extent.unwrap_or(0) as u64).collect();
        outputs.push(SubgraphOutput { name: output.name().to_owned(), dtype, shape });
    }
    all[index].constants = constants;
    all[index].nodes = nodes;
    all[index].outputs = outputs;
    Ok(Some(index as u32))
}
