//! Host operations in text:
//!
//! ```text
//! host "NonMaxSuppression" opset 11 [in 11101, out 1, bind D = 0 axis 0] {center_point_box = int 1} "why"
//! ```
//!
//! A domain that is not ONNX's own stands in front of the operator, with a comma between them. Floats are written as
//! their bits.

use super::super::index::Scope;
use super::super::names::{Quoted, separated};
use super::super::parser::{Parsed, Parser};
use super::constant::tensor_text;
use super::parse::MAX_OPERANDS;
use crate::entity::SymbolId;
use crate::op::{HostOp, Produced};
use infc_tensor::{Attribute, Attributes, Subgraphs, Tensor};
use std::fmt;

/// What stands between `host` and the operands.
pub(super) fn write(f: &mut fmt::Formatter<'_>, host: &HostOp, symbol: &dyn Fn(SymbolId) -> String) -> fmt::Result {
    f.write_str(" ")?;
    if !host.domain.is_empty() {
        write!(f, "{}, ", Quoted(&host.domain))?;
    }
    let flags = |list: &[bool]| list.iter().map(|&set| if set { "1" } else { "0" }).collect::<Vec<_>>().join(" ");
    write!(
        f,
        "{} opset {} [in {}, out {}",
        Quoted(&host.op_type),
        host.opset,
        flags(&host.inputs),
        flags(&host.outputs)
    )?;
    for produced in &host.produces {
        write!(f, ", bind {} = {} axis {}", symbol(produced.symbol), produced.output, produced.axis)?;
    }
    f.write_str("] ")?;
    attributes(f, &host.attributes)?;
    if !host.graphs.is_empty() {
        super::subgraph::write(f, &host.graphs)?;
    }
    write!(f, " {}", Quoted(&host.reason))
}

/// `{"axis" = int 1}`
pub(super) fn attributes(f: &mut fmt::Formatter<'_>, attributes: &Attributes) -> fmt::Result {
    f.write_str("{")?;
    let attributes: Vec<(&str, &Attribute)> = attributes.iter().collect();
    separated(f, ", ", &attributes, |f, (name, value)| {
        write!(f, "{} = ", Quoted(name))?;
        attribute(f, value)
    })?;
    f.write_str("}")
}

fn attribute(f: &mut fmt::Formatter<'_>, value: &Attribute) -> fmt::Result {
    match value {
        Attribute::Int(value) => write!(f, "int {value}"),
        Attribute::Float(value) => write!(f, "float {:#x}", value.to_bits()),
        Attribute::String(value) => write!(f, "string {}", Quoted(value)),
        Attribute::Tensor(value) => tensor(f, value),
        Attribute::Ints(values) => list(f, "ints", values, |f, v| write!(f, "{v}")),
        Attribute::Floats(values) => list(f, "floats", values, |f, v| write!(f, "{:#x}", v.to_bits())),
        Attribute::Strings(values) => list(f, "strings", values, |f, v| write!(f, "{}", Quoted(v))),
        Attribute::Tensors(values) => list(f, "tensors", values, tensor),
        _ => f.write_str("?"),
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    items: &[T],
    item: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{kind} [")?;
    separated(f, ", ", items, item)?;
    f.write_str("]")
}

pub(super) fn tensor(f: &mut fmt::Formatter<'_>, tensor: &Tensor) -> fmt::Result {
    write!(f, "tensor {}{:?} {}", tensor.dtype(), tensor.shape(), tensor_text(tensor))
}

impl Parser<'_> {
    /// What [`write`] prints.
    pub(super) fn host(&mut self, scope: Scope<'_>, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Parsed<HostOp> {
        let mut op_type = self.name("an operator")?;
        let mut domain = String::new();
        if self.eat(",") {
            domain = std::mem::replace(&mut op_type, self.name("an operator")?);
        }
        self.expect_word("opset")?;
        let opset = self.signed()?;
        self.expect("[")?;
        self.expect_word("in")?;
        let inputs = self.flags()?;
        self.expect(",")?;
        self.expect_word("out")?;
        let outputs = self.flags()?;
        let mut produces = Vec::new();
        while self.eat(",") {
            produces.push(self.produced(scope)?);
        }
        self.expect("]")?;
        let attributes = self.attributes(resolve)?;
        let graphs = if self.eat_word("with") { self.subgraphs(resolve)? } else { Subgraphs::default() };
        let reason = self.name("a reason")?;
        Ok(HostOp { op_type, domain, opset, attributes, graphs, body: None, inputs, outputs, produces, reason })
    }

    /// What [`attributes`] prints.
    pub(super) fn attributes(&mut self, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Parsed<Attributes> {
        self.expect("{")?;
        let list = self.list("}", |p| {
            let name = p.name("the name of an attribute")?;
            p.expect("=")?;
            Ok((name, p.attribute(resolve)?))
        })?;
        Ok(list.into_iter().collect())
    }

    /// `bind D = 0 axis 1`
    pub(super) fn produced(&mut self, scope: Scope<'_>) -> Parsed<Produced> {
        self.expect_word("bind")?;
        let mark = self.mark();
        let dim = self.index_factor(scope)?;
        let Some(symbol) = dim.as_symbol() else { return Err(self.unknown(mark, "symbol", dim.to_string())) };
        self.expect("=")?;
        let output = self.count(MAX_OPERANDS)? as u32;
        self.expect_word("axis")?;
        Ok(Produced { output, axis: self.count(MAX_OPERANDS)? as u32, symbol })
    }

    fn flags(&mut self) -> Parsed<Vec<bool>> {
        let mut flags = Vec::new();
        while !self.is(",") && !self.is("]") {
            flags.push(self.count(1)? == 1);
        }
        Ok(flags)
    }

    fn float_bits(&mut self) -> Parsed<f32> {
        Ok(f32::from_bits(self.count(u32::MAX as usize)? as u32))
    }

    fn attribute(&mut self, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Parsed<Attribute> {
        let mark = self.mark();
        let kind = self.name("a kind of attribute")?;
        if matches!(&*kind, "ints" | "floats" | "strings" | "tensors") {
            self.expect("[")?;
        }
        Ok(match &*kind {
            "int" => Attribute::Int(self.signed()?),
            "float" => Attribute::Float(self.float_bits()?),
            "string" => Attribute::String(self.name("a text")?),
            "tensor" => Attribute::Tensor(self.typed_tensor(resolve)?),
            "ints" => Attribute::Ints(self.list("]", Self::signed)?),
            "floats" => Attribute::Floats(self.list("]", Self::float_bits)?),
            "strings" => Attribute::Strings(self.list("]", |p| p.name("a text"))?),
            "tensors" => Attribute::Tensors(self.list("]", |p| {
                p.expect_word("tensor")?;
                p.typed_tensor(resolve)
            })?),
            _ => return Err(self.unknown(mark, "kind of attribute", kind)),
        })
    }

    pub(super) fn typed_tensor(&mut self, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Parsed<Tensor> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let shape = self.list("]", |p| p.count(usize::MAX))?;
        self.tensor(dtype, shape, resolve)
    }
}
