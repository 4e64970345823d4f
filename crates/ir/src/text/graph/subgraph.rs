//! The graphs that a host operation holds, behind its attributes:
//!
//! ```text
//! with ["x"] ["body" 0] {
//!   in ["i", "c"] const ["k" tensor i64[] …] nodes ["Add" "" 13 {} [] ["i", "k"] ["o"]] out ["o" i64 []]
//! }
//! ```
//!
//! First the names that they take from around the operation, then the attributes with numbers of graphs, then the graphs.
//! Of a node: operator, domain, opset, attributes, graphs, inputs, outputs.

use super::super::names::{Quoted, separated};
use super::super::parser::{Parsed, Parser};
use super::host::{attributes, tensor};
use infc_tensor::{MAX_SUBGRAPHS, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs, Tensor};
use std::fmt;

type Resolve<'a> = &'a dyn Fn(&str) -> Option<Tensor>;

pub(super) fn write(f: &mut fmt::Formatter<'_>, of: &Subgraphs) -> fmt::Result {
    f.write_str(" with ")?;
    names(f, &of.captures)?;
    f.write_str(" ")?;
    numbers(f, &of.roots)?;
    f.write_str(" {")?;
    separated(f, ", ", &of.graphs, |f, graph| {
        f.write_str("in ")?;
        names(f, &graph.inputs)?;
        f.write_str(" const [")?;
        separated(f, ", ", &graph.constants, |f, (name, value)| {
            write!(f, "{} ", Quoted(name))?;
            tensor(f, value)
        })?;
        f.write_str("] nodes [")?;
        separated(f, ", ", &graph.nodes, node)?;
        f.write_str("] out [")?;
        separated(f, ", ", &graph.outputs, |f, o| write!(f, "{} {} {:?}", Quoted(&o.name), o.dtype, o.shape))?;
        f.write_str("]")
    })?;
    f.write_str("}")
}

fn node(f: &mut fmt::Formatter<'_>, node: &SubgraphNode) -> fmt::Result {
    write!(f, "{} {} {} ", Quoted(&node.op_type), Quoted(&node.domain), node.opset)?;
    attributes(f, &node.attributes)?;
    f.write_str(" ")?;
    numbers(f, &node.graphs)?;
    f.write_str(" ")?;
    names(f, &node.inputs)?;
    f.write_str(" ")?;
    names(f, &node.outputs)
}

fn names(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    f.write_str("[")?;
    separated(f, ", ", names, |f, name| write!(f, "{}", Quoted(name)))?;
    f.write_str("]")
}

fn numbers(f: &mut fmt::Formatter<'_>, graphs: &[(String, u32)]) -> fmt::Result {
    f.write_str("[")?;
    separated(f, ", ", graphs, |f, (name, graph)| write!(f, "{} {graph}", Quoted(name)))?;
    f.write_str("]")
}

impl Parser<'_> {
    /// What [`write`] prints, behind `with`.
    pub(super) fn subgraphs(&mut self, resolve: Resolve<'_>) -> Parsed<Subgraphs> {
        let captures = self.subgraph_names()?;
        let roots = self.subgraph_numbers()?;
        self.expect("{")?;
        let graphs = self.list("}", |p| p.subgraph(resolve))?;
        Ok(Subgraphs { roots, captures, graphs })
    }

    fn subgraph(&mut self, resolve: Resolve<'_>) -> Parsed<Subgraph> {
        self.expect_word("in")?;
        let inputs = self.subgraph_names()?;
        self.expect_word("const")?;
        self.expect("[")?;
        let constants = self.list("]", |p| {
            let name = p.name("the name of a constant")?;
            p.expect_word("tensor")?;
            Ok((name, p.typed_tensor(resolve)?))
        })?;
        self.expect_word("nodes")?;
        self.expect("[")?;
        let nodes = self.list("]", |p| p.subgraph_node(resolve))?;
        self.expect_word("out")?;
        self.expect("[")?;
        let outputs = self.list("]", |p| {
            let (name, dtype) = (p.name("the name of an output")?, p.dtype()?);
            p.expect("[")?;
            Ok(SubgraphOutput { name, dtype, shape: p.list("]", |p| Ok(p.count(usize::MAX)? as u64))? })
        })?;
        Ok(Subgraph { inputs, constants, nodes, outputs })
    }

    fn subgraph_node(&mut self, resolve: Resolve<'_>) -> Parsed<SubgraphNode> {
        Ok(SubgraphNode {
            op_type: self.name("an operator")?,
            domain: self.name("a domain")?,
            opset: self.signed()?,
            attributes: self.attributes(resolve)?,
            graphs: self.subgraph_numbers()?,
            inputs: self.subgraph_names()?,
            outputs: self.subgraph_names()?,
        })
    }

    fn subgraph_names(&mut self) -> Parsed<Vec<String>> {
        self.expect("[")?;
        self.list("]", |p| p.name("a name"))
    }

    fn subgraph_numbers(&mut self) -> Parsed<Vec<(String, u32)>> {
        self.expect("[")?;
        self.list("]", |p| Ok((p.name("an attribute")?, p.count(MAX_SUBGRAPHS)? as u32)))
    }
}
