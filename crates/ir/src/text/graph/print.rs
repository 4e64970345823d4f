//! How graphs print.

use super::super::index::{Bounds, Index, Names};
use super::super::kernel::Where;
use super::super::names::{Name, Quoted, separated};
use super::super::scalar::{Block, FoldText, Printer, constant_text};
use super::constant::tensor_text;
use super::{COMPOSITES, label_name};
use crate::entity::{EntityId, OriginId, ScalarId, ValueId};
use crate::graph::{Graph, Node, Port, Relation, SymbolSource, TensorType};
use crate::index::Dim;
use crate::op::{CompositeOp, ContractOp, Op, RecurrenceOp, ViewOp};
use crate::scalar::Body;
use crate::symbol::Symbols;
use infc_tensor::DType;
use std::fmt;

/// How deep composites print inside each other.
const MAX_DEPTH: usize = 32;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GraphText { graph: self, symbols: &self.symbols, values: value_names(self), depth: 0 }.write(f)?;
        f.write_str("\n")
    }
}

struct GraphText<'a> {
    graph: &'a Graph,
    /// Those of the outermost graph.
    symbols: &'a Symbols,
    /// Per value.
    values: Vec<String>,
    depth: usize,
}

/// Inputs by name, the results of nodes by number.
fn value_names(graph: &Graph) -> Vec<String> {
    let mut names = vec![String::new(); graph.values.len()];
    for port in &graph.inputs {
        if let Some(name) = names.get_mut(port.value.index()) {
            *name = format!("%{}", Name(&port.name));
        }
    }
    let mut next = 0;
    for node in graph.order.iter().filter_map(|&id| graph.nodes.get(id)) {
        for output in &node.outputs {
            if let Some(name) = names.get_mut(output.index()) {
                *name = format!("%{next}");
            }
            next += 1;
        }
    }
    names
}

impl GraphText<'_> {
    fn value(&self, id: ValueId) -> String {
        match self.values.get(id.index()) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("%?{}", id.index()),
        }
    }

    fn names<'a>(&'a self, vars: &'a [String]) -> Names<'a> {
        Names { vars, symbols: self.symbols }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = self.graph;
        write!(f, "graph @{}(", Name(&graph.name))?;
        separated(f, ", ", &graph.inputs, |f, port| {
            write!(f, "{}", self.value(port.value))?;
            match graph.values.get(port.value) {
                Some(value) => write!(f, ": {}", self.ty(&value.ty))?,
                None => return Ok(()),
            }
            self.declared(f, port)
        })?;
        f.write_str(") -> (")?;
        separated(f, ", ", &graph.outputs, |f, port| {
            write!(f, "{}: {}", Name(&port.name), self.value(port.value))?;
            self.declared(f, port)
        })?;
        f.write_str(")")?;
        if self.depth == 0 {
            write!(f, "{}", Where(self.symbols))?;
        }
        f.write_str(" {\n")?;
        if self.depth == 0 {
            self.facts(f)?;
        }
        for r in &graph.requires {
            let (left, right) = (Index(&r.left, self.names(&[])), Index(&r.right, self.names(&[])));
            let relation = if r.equal { "==" } else { "!=" };
            write!(f, "{:1$}", "", 2 * self.depth + 2)?;
            writeln!(f, "require {} {left} {relation} {right}", Quoted(&r.what))?;
        }
        for node in graph.order.iter().filter_map(|&id| graph.nodes.get(id)) {
            self.node(f, node)?;
        }
        write!(f, "{:1$}}}", "", 2 * self.depth)
    }

    /// `as i4[N, 3]`, behind an input or output that users see like this.
    fn declared(&self, f: &mut fmt::Formatter<'_>, port: &Port) -> fmt::Result {
        port.declared.as_ref().map_or(Ok(()), |ty| write!(f, " as {}", self.ty(ty)))
    }

    /// `bind T = %mask axis 1`, `bind K = %k element 0`, `bind E = %ends nearest 0`, `bind D = 2*K + 1` and `assume P + S == T "broadcast extents" from "/Add"`
    fn facts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |d: &Dim| Index(d, self.names(&[])).to_string();
        let input = |n: u32| self.graph.inputs.get(n as usize).map_or_else(String::new, |p| self.value(p.value));
        for (symbol, source) in &self.graph.sources {
            let symbol = dim(&Dim::symbol(*symbol));
            match source {
                SymbolSource::Axis { input: n, axis } => writeln!(f, "  bind {symbol} = {} axis {axis}", input(*n))?,
                SymbolSource::Element { input: n, index } => {
                    writeln!(f, "  bind {symbol} = {} element {index}", input(*n))?
                }
                SymbolSource::Nearest { input: n, index } => {
                    writeln!(f, "  bind {symbol} = {} nearest {index}", input(*n))?
                }
                SymbolSource::Computed(value) => writeln!(f, "  bind {symbol} = {}", dim(value))?,
                // What an operation produces, that operation says.
                SymbolSource::Produced { .. } => {}
            }
        }
        for assumption in &self.graph.assumptions {
            let relation = match assumption.relation {
                Relation::Equal => "==",
                Relation::AtMost => "<=",
            };
            let (left, right) = (dim(&assumption.left), dim(&assumption.right));
            write!(f, "  assume {left} {relation} {right} {}", Quoted(&assumption.what))?;
            self.origin(f, assumption.origin)?;
        }
        Ok(())
    }

    /// ` from "/relu"` and the end of the line.
    fn origin(&self, f: &mut fmt::Formatter<'_>, origin: OriginId) -> fmt::Result {
        let names = self.graph.origins.get(origin).map_or(&[][..], |names| names);
        if !names.is_empty() {
            f.write_str(" from ")?;
            separated(f, ", ", names, |f, name| write!(f, "{}", Quoted(name)))?;
        }
        f.write_str("\n")
    }

    fn ty(&self, ty: &TensorType) -> String {
        let shape: Vec<String> = ty.shape.iter().map(|d| Index(d, self.names(&[])).to_string()).collect();
        format!("{}[{}]", ty.dtype, shape.join(", "))
    }

    fn node(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * self.depth + 2)?;
        separated(f, ", ", &node.outputs, |f, &v| f.write_str(&self.value(v)))?;
        write!(f, " = {}", node.op.name())?;
        self.op(f, node)?;
        separated(f, ",", &node.inputs, |f, &v| write!(f, " {}", self.value(v)))?;
        f.write_str(" : ")?;
        separated(f, ", ", &node.outputs, |f, &v| match self.graph.values.get(v) {
            Some(value) => f.write_str(&self.ty(&value.ty)),
            None => f.write_str("?"),
        })?;
        match &node.op {
            Op::Constant(c) => write!(f, " = {}", tensor_text(&c.tensor))?,
            Op::Composite(CompositeOp { body, .. }) | Op::Recurrence(RecurrenceOp { body, .. })
                if self.depth < MAX_DEPTH =>
            {
                let values = value_names(body);
                f.write_str(" = ")?;
                let depth = self.depth + 1;
                GraphText { graph: body, symbols: self.symbols, values, depth }.write(f)?;
            }
            Op::If(branches) if self.depth < MAX_DEPTH => {
                for (word, graph) in [(" = ", &branches.then), (" else ", &branches.otherwise)] {
                    f.write_str(word)?;
                    let (values, depth) = (value_names(graph), self.depth + 1);
                    GraphText { graph, symbols: self.symbols, values, depth }.write(f)?;
                }
            }
            _ => {}
        }
        self.origin(f, node.origin)
    }

    /// What stands between the name of the operation and its operands.
    fn op(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        match &node.op {
            Op::Constant(c) => write!(f, " {}", Quoted(&c.name)),
            Op::Map(map) => self.lambda(f, node, &map.body, &map.results, &[]),
            Op::View(view) => self.view(f, view),
            Op::Reduce(reduce) => {
                let fold = FoldText(&reduce.reducer, self.symbols);
                write!(f, " {:?} {fold}", reduce.axes)?;
                self.lambda(f, node, &reduce.body, &reduce.elements, &fold.expected())
            }
            Op::Contract(contract) => write_contract(f, contract),
            Op::Gather(gather) => write!(f, " {}", gather.axis),
            Op::Concat(concat) => write!(f, " {}", concat.axis),
            Op::Scan(scan) => {
                let reverse = if scan.reverse { " reverse" } else { "" };
                let exclusive = if scan.exclusive { " exclusive" } else { "" };
                write!(f, " {}{reverse}{exclusive} {}", scan.axis, FoldText(&scan.reducer, self.symbols))
            }
            Op::Recurrence(recurrence) => {
                let steps = Index(&recurrence.steps, self.names(&[]));
                write!(f, " {} {} over {steps}", recurrence.states, recurrence.slices)
            }
            Op::If(branches) if branches.produces.is_empty() => Ok(()),
            Op::If(branches) => {
                f.write_str(" [")?;
                separated(f, ", ", &branches.produces, |f, p| {
                    let symbol = Dim::symbol(p.symbol);
                    write!(f, "bind {} = {} axis {}", Index(&symbol, self.names(&[])), p.output, p.axis)
                })?;
                f.write_str("]")
            }
            Op::DimValue(dim) => write!(f, " {}", Index(dim, self.names(&[]))),
            Op::Host(host) => {
                super::host::write(f, host, &|symbol| Index(&Dim::symbol(symbol), self.names(&[])).to_string())
            }
            Op::Composite(composite) => {
                let name = COMPOSITES.iter().find(|(_, kind)| *kind == composite.kind);
                write!(f, " {}", name.map_or("?", |(name, _)| name))
            }
        }
    }

    /// ` [a, b -> a + b]`
    fn lambda(
        &self,
        f: &mut fmt::Formatter<'_>,
        node: &Node,
        body: &Body,
        roots: &[ScalarId],
        expected: &[DType],
    ) -> fmt::Result {
        let params: Vec<String> = (0..node.inputs.len()).map(|n| format!("x{n}")).collect();
        let rank = node.inputs.iter().chain(&node.outputs).filter_map(|&v| self.graph.values.get(v));
        let rank = rank.map(|v| v.ty.shape.len()).max().unwrap_or(0);
        let vars = coordinates(rank);
        let printer = Printer { names: self.names(&vars), source: &|s| format!("{s:?}"), params: &params };
        let block = Block { printer, body, roots, expected, separator: "; " };
        let arrow = if params.is_empty() { "->" } else { " ->" };
        write!(f, " [{}{arrow} {block}]", params.join(", "))
    }

    /// ` [i0, i1 -> i1, i0 if 0 <= i0 < N else 0]`
    fn view(&self, f: &mut fmt::Formatter<'_>, view: &ViewOp) -> fmt::Result {
        let vars = coordinates(view.map.rank);
        let names = self.names(&vars);
        let index: Vec<String> = view.map.index.iter().map(|e| Index(e, names).to_string()).collect();
        write!(f, " [{} -> {}", vars.join(", "), index.join(", "))?;
        if !view.map.valid.is_empty() {
            write!(f, " if {} else {}", Bounds(&view.map.valid, names), constant_text(view.otherwise))?;
        }
        f.write_str("]")
    }
}

/// The names of coordinates.
fn coordinates(rank: usize) -> Vec<String> {
    (0..rank).map(|n| format!("i{n}")).collect()
}

/// ` [a b, c b -> a c]`
fn write_contract(f: &mut fmt::Formatter<'_>, contract: &ContractOp) -> fmt::Result {
    let labels = |list: &[u8]| list.iter().map(|&l| label_name(l)).collect::<Vec<_>>().join(" ");
    write!(f, " [{}, {} -> {}]", labels(&contract.lhs), labels(&contract.rhs), labels(&contract.output))
}
