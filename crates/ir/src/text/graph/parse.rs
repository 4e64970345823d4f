//! The grammar of graphs.

use super::super::error::{ParseError, ParseErrorKind};
use super::super::index::Scope;
use super::super::kernel::parse_where;
use super::super::lexer::Kind;
use super::super::parser::{Mark, Parsed, Parser};
use super::super::scalar::{Env, parse_reducer};
use super::COMPOSITES;
use crate::access::AccessMap;
use crate::entity::{OriginId, ScalarId, ValueId};
use crate::graph::{Assumption, Definition, Graph, Port, Relation, Requirement, SymbolSource, TensorType};
use crate::index::Dim;
use crate::op::{
    CompositeOp, ConcatOp, ConstantOp, ContractOp, GatherOp, IfOp, MapOp, Op, RecurrenceOp, ReduceOp, ScanOp, ViewOp,
};
use crate::scalar::{Body, Const};
use crate::symbol::Symbols;
use infc_tensor::{DType, Tensor};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

/// The largest rank that text may speak of.
const MAX_RANK: usize = 64;

/// The last element of an input that a symbol may come from.
const MAX_ELEMENT: usize = 1 << 20;

/// The largest number of operands that text may speak of.
pub(super) const MAX_OPERANDS: usize = 1 << 16;

/// Parses one graph and nothing else; `resolve` gives the constants that are written as a hash. The result is not
/// verified; see [`crate::verify`].
///
/// # Errors
/// [`ParseError`] with the place of what is not understood.
pub fn parse_graph(text: &str, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Result<Graph, ParseError> {
    let mut p = Parser::new(text)?;
    let graph = p.graph(None, resolve)?;
    p.end()?;
    Ok(graph)
}

impl FromStr for Graph {
    type Err = ParseError;

    /// Parses a graph all of whose constants are written out.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_graph(text, &|_| None)
    }
}

/// What a graph knows while it is parsed.
struct Builder<'a> {
    graph: Graph,
    constants: &'a HashMap<String, i64>,
    values: HashMap<String, ValueId>,
    origins: HashMap<Vec<String>, OriginId>,
    resolve: &'a dyn Fn(&str) -> Option<Tensor>,
}

impl Builder<'_> {
    fn scope<'a>(&'a self, vars: &'a [String]) -> Scope<'a> {
        Scope { vars, symbols: &self.graph.symbols, constants: self.constants }
    }
}

/// The symbols and named numbers of the graph around a composite's body.
type Outside<'a> = Option<(&'a Symbols, &'a HashMap<String, i64>)>;

impl Parser<'_> {
    fn graph(&mut self, outside: Outside<'_>, resolve: &dyn Fn(&str) -> Option<Tensor>) -> Parsed<Graph> {
        self.expect_word("graph")?;
        self.expect("@")?;
        let name = self.name("a name")?;
        let header = self.mark();
        while !matches!(self.peek(), Kind::Ident("where") | Kind::Punct("{") | Kind::End) {
            if self.is("(") { self.skip_brackets()? } else { self.advance() }
        }
        let (symbols, constants) = match outside {
            Some((symbols, constants)) => (symbols.clone(), constants.clone()),
            None => parse_where(self)?,
        };
        let body = self.mark();
        self.reset(header);
        let mut builder = Builder {
            graph: Graph { name, symbols, ..Graph::default() },
            constants: &constants,
            values: HashMap::new(),
            origins: HashMap::new(),
            resolve,
        };
        self.expect("(")?;
        self.list(")", |p| p.input(&mut builder))?;
        let outputs = self.mark();
        self.expect("->")?;
        if !self.is("(") {
            return self.expected("`(`");
        }
        self.skip_brackets()?;
        if outside.is_some() && !self.is("{") || !self.is_word("where") && !self.is("{") {
            return self.expected("`{`");
        }
        self.reset(body);
        self.expect("{")?;
        while outside.is_none() && (self.is_word("bind") || self.is_word("assume")) {
            if self.is_word("bind") { self.binding(&mut builder)? } else { self.assumption(&mut builder)? }
        }
        while !self.eat("}") {
            if self.eat_word("require") {
                self.requirement(&mut builder)?;
            } else {
                self.node(&mut builder)?;
            }
        }
        // The outputs name values, which exist only now.
        let end = self.mark();
        self.reset(outputs);
        self.expect("->")?;
        self.expect("(")?;
        let ports = self.list(")", |p| {
            let name = p.name("the name of an output")?;
            p.expect(":")?;
            let port = Port::new(&name, p.value(&builder)?);
            Ok(Port { declared: p.declared(&builder)?, ..port })
        })?;
        self.reset(end);
        builder.graph.outputs = ports;
        Ok(builder.graph)
    }

    /// `"batches" N == M`, behind the word `require`.
    fn requirement(&mut self, builder: &mut Builder<'_>) -> Parsed<()> {
        let what = self.name("what must hold")?;
        let left = self.index(builder.scope(&[]))?;
        let equal = self.eat("==");
        if !equal {
            self.expect("!=")?;
        }
        let right = self.index(builder.scope(&[]))?;
        builder.graph.requires.push(Requirement { left, right, equal, what });
        Ok(())
    }

    /// `as i4[N, 3]`, if it is there.
    fn declared(&mut self, builder: &Builder<'_>) -> Parsed<Option<TensorType>> {
        if self.eat_word("as") { self.tensor_type(builder).map(Some) } else { Ok(None) }
    }

    /// `%x: f32[N, 3]`
    fn input(&mut self, builder: &mut Builder<'_>) -> Parsed<()> {
        self.expect("%")?;
        let mark = self.mark();
        let name = self.name("the name of an input")?;
        self.expect(":")?;
        let ty = self.tensor_type(builder)?;
        let value = builder.graph.add_input(&name, ty);
        let declared = self.declared(builder)?;
        if let Some(port) = builder.graph.inputs.last_mut() {
            port.declared = declared;
        }
        match builder.values.insert(name.clone(), value) {
            None => Ok(()),
            Some(_) => Err(self.error_at(mark, ParseErrorKind::Duplicate { name })),
        }
    }

    fn tensor_type(&mut self, builder: &Builder<'_>) -> Parsed<TensorType> {
        let dtype = self.dtype()?;
        let shape = self.shape(builder.scope(&[]))?;
        if shape.len() > MAX_RANK {
            return Err(self.error(ParseErrorKind::TooMany { what: "axes", limit: MAX_RANK }));
        }
        Ok(TensorType { dtype, shape })
    }

    /// The key of a value: inputs by name, results by number (which no name can be, as names are not numbers).
    fn value_key(&mut self) -> Parsed<(String, bool)> {
        self.expect("%")?;
        if let Kind::Int(_) = self.peek() {
            return Ok((self.unsigned()?.to_string(), true));
        }
        Ok((self.name("a value")?, false))
    }

    fn value(&mut self, builder: &Builder<'_>) -> Parsed<ValueId> {
        let mark = self.mark();
        let (key, number) = self.value_key()?;
        let key = if number { format!("%{key}") } else { key };
        builder.values.get(&key).copied().ok_or_else(|| self.unknown(mark, "value", key))
    }

    /// `bind T = %mask axis 1`, `bind K = %k element 0`, `bind E = %ends nearest 0` or `bind D = 2*K + 1`
    fn binding(&mut self, builder: &mut Builder<'_>) -> Parsed<()> {
        self.expect_word("bind")?;
        let mark = self.mark();
        let dim = self.index_factor(builder.scope(&[]))?;
        let Some(symbol) = dim.as_symbol() else { return Err(self.unknown(mark, "symbol", dim.to_string())) };
        self.expect("=")?;
        let mark = self.mark();
        let source = if self.is("%") {
            let value = self.value(builder)?;
            let Some(Definition::Input(input)) = builder.graph.values.get(value).map(|v| v.definition) else {
                return Err(self.unknown(mark, "input", value.to_string()));
            };
            if self.eat_word("element") {
                SymbolSource::Element { input, index: self.count(MAX_ELEMENT)? as u32 }
            } else if self.eat_word("nearest") {
                SymbolSource::Nearest { input, index: self.count(MAX_ELEMENT)? as u32 }
            } else {
                self.expect_word("axis")?;
                SymbolSource::Axis { input, axis: self.count(MAX_RANK)? as u32 }
            }
        } else {
            SymbolSource::Computed(self.index(builder.scope(&[]))?)
        };
        builder.graph.sources.push((symbol, source));
        Ok(())
    }

    /// `assume P + S == T "broadcast extents" from "/Add"`
    fn assumption(&mut self, builder: &mut Builder<'_>) -> Parsed<()> {
        self.expect_word("assume")?;
        let left = self.index(builder.scope(&[]))?;
        let relation = if self.eat("<=") {
            Relation::AtMost
        } else {
            self.expect("==")?;
            Relation::Equal
        };
        let right = self.index(builder.scope(&[]))?;
        let what = self.name("what is assumed")?;
        let origin = self.origin(builder)?;
        builder.graph.assumptions.push(Assumption { what, left, relation, right, origin });
        Ok(())
    }

    /// `from "/relu"`, if it is there.
    fn origin(&mut self, builder: &mut Builder<'_>) -> Parsed<OriginId> {
        let mut names = Vec::new();
        if self.eat_word("from") {
            loop {
                names.push(self.name("the name of an ONNX node")?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        let origins = &mut builder.graph.origins;
        Ok(*builder.origins.entry(names.clone()).or_insert_with(|| origins.push(names)))
    }

    /// `%2 = map [x -> max(x, 0)] %1 : f32[N] from "/relu"`
    fn node(&mut self, builder: &mut Builder<'_>) -> Parsed<()> {
        let start = self.mark();
        let mut results = Vec::new();
        loop {
            let mark = self.mark();
            let (name, number) = self.value_key()?;
            if !number {
                return Err(self.unknown(mark, "number of a result", name));
            }
            results.push((mark, format!("%{name}")));
            if !self.eat(",") {
                break;
            }
        }
        self.expect("=")?;
        // Types and operands come after the operation, but its parts depend on them.
        let op_at = self.mark();
        let (inputs_at, types_at) = self.find_operands()?;
        self.reset(types_at);
        self.expect(":")?;
        let mut types = vec![self.tensor_type(builder)?];
        while self.eat(",") {
            types.push(self.tensor_type(builder)?);
        }
        let types_end = self.mark();
        if types.len() != results.len() {
            return Err(self.wrong_count(start, "types", results.len(), types.len()));
        }
        self.reset(inputs_at);
        let mut inputs = Vec::new();
        while self.is("%") {
            inputs.push(self.value(builder)?);
            if !self.eat(",") {
                break;
            }
        }
        if !self.is(":") {
            return self.expected("`:` and a type");
        }
        self.reset(op_at);
        let op = self.operation(builder, &inputs, &types)?;
        if self.mark() != inputs_at {
            return self.expected("the operands");
        }
        self.reset(types_end);
        let op = match op {
            Parsing::Done(op) => op,
            Parsing::Constant(name) => self.constant_op(builder, name, &types[0])?,
            Parsing::Composite(kind) => {
                self.expect("=")?;
                let outside = Some((&builder.graph.symbols, builder.constants));
                let body = self.nested(|p| p.graph(outside, builder.resolve))?;
                Op::Composite(CompositeOp { kind, body: Arc::new(body) })
            }
            Parsing::Recurrence { steps, states, slices } => {
                self.expect("=")?;
                let outside = Some((&builder.graph.symbols, builder.constants));
                let body = self.nested(|p| p.graph(outside, builder.resolve))?;
                Op::Recurrence(RecurrenceOp { steps, states, slices, body: Arc::new(body) })
            }
            Parsing::If { produces } => {
                self.expect("=")?;
                let outside = Some((&builder.graph.symbols, builder.constants));
                let then = self.nested(|p| p.graph(outside, builder.resolve))?;
                self.expect_word("else")?;
                let otherwise = self.nested(|p| p.graph(outside, builder.resolve))?;
                Op::If(IfOp { then: Arc::new(then), otherwise: Arc::new(otherwise), produces })
            }
        };
        let origin = self.origin(builder)?;
        let values = builder.graph.add_node(op, &inputs, types, origin);
        for ((mark, name), value) in results.into_iter().zip(values) {
            if builder.values.insert(name.clone(), value).is_some() {
                return Err(self.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
        }
        Ok(())
    }

    /// Where the operands and the types of a node begin: the first `:` outside of brackets, and the values in front.
    fn find_operands(&mut self) -> Parsed<(Mark, Mark)> {
        loop {
            match self.peek() {
                Kind::Punct(":") => {
                    let types_at = self.mark();
                    return Ok((self.values_before(types_at), types_at));
                }
                Kind::Punct("(" | "[" | "{") => self.skip_brackets()?,
                Kind::End | Kind::Punct("}") => return self.expected("`:` and a type"),
                _ => self.advance(),
            }
        }
    }

    fn constant_op(&mut self, builder: &Builder<'_>, name: String, ty: &TensorType) -> Parsed<Op> {
        let mark = self.mark();
        let shape = ty.shape.iter().map(|d| d.as_const().and_then(|d| usize::try_from(d).ok()));
        let Some(shape) = shape.collect::<Option<Vec<usize>>>() else {
            return Err(self.unknown(mark, "shape of a constant", format!("{:?}", ty.shape)));
        };
        self.expect("=")?;
        let tensor = self.tensor(ty.dtype, shape, builder.resolve)?;
        Ok(Op::Constant(Arc::new(ConstantOp { name, tensor })))
    }

    /// The name of the operation and what stands in front of the operands.
    fn operation(&mut self, builder: &Builder<'_>, inputs: &[ValueId], types: &[TensorType]) -> Parsed<Parsing> {
        let mark = self.mark();
        let name = self.name("an operation")?;
        let dtypes: Vec<DType> = inputs.iter().map(|&v| builder.graph.ty(v).dtype).collect();
        let ranks = inputs.iter().map(|&v| builder.graph.ty(v).shape.len());
        let rank = ranks.chain(types.iter().map(|t| t.shape.len())).max().unwrap_or(0);
        Ok(Parsing::Done(match &*name {
            "const" => return Ok(Parsing::Constant(self.name("the name of a constant")?)),
            "composite" => {
                let mark = self.mark();
                let kind = self.name("a kind of composite")?;
                let known = COMPOSITES.iter().find(|(name, _)| *name == kind);
                let (_, kind) = known.ok_or_else(|| self.unknown(mark, "composite", kind))?;
                return Ok(Parsing::Composite(*kind));
            }
            "map" => {
                let (body, results) = self.lambda(builder, &dtypes, rank, Some(types.len()), &[])?;
                Op::Map(MapOp { body, results })
            }
            "view" => Op::View(self.view(builder, &types[0])?),
            "reduce" => {
                self.expect("[")?;
                let axes = self.list("]", |p| p.count(MAX_RANK))?;
                self.expect_word("fold")?;
                let fold = parse_reducer(self, no_sources(builder.scope(&[])))?;
                let (body, elements) = self.lambda(builder, &dtypes, rank, Some(fold.count()), &fold.expected())?;
                let reducer = fold.finish(self, &body, &elements)?;
                Op::Reduce(ReduceOp { axes, body, elements, reducer })
            }
            "contract" => Op::Contract(self.contract()?),
            "gather" => Op::Gather(GatherOp { axis: self.count(MAX_RANK)? }),
            "concat" => Op::Concat(ConcatOp { axis: self.count(MAX_RANK)? }),
            "scan" => {
                let axis = self.count(MAX_RANK)?;
                let reverse = self.eat_word("reverse");
                let exclusive = self.eat_word("exclusive");
                self.expect_word("fold")?;
                let fold = parse_reducer(self, no_sources(builder.scope(&[])))?;
                let mut element = Body::default();
                let param = element.param(0, dtypes.first().copied().unwrap_or(DType::F32));
                let reducer = fold.finish(self, &element, &[param])?;
                Op::Scan(ScanOp { axis, reverse, exclusive, reducer })
            }
            "recurrence" => {
                let (states, slices) = (self.count(MAX_OPERANDS)?, self.count(MAX_OPERANDS)?);
                self.expect_word("over")?;
                return Ok(Parsing::Recurrence { steps: self.index(builder.scope(&[]))?, states, slices });
            }
            "if" => {
                let mut produces = Vec::new();
                if self.eat("[") {
                    produces = self.list("]", |p| p.produced(builder.scope(&[])))?;
                }
                return Ok(Parsing::If { produces });
            }
            "host" => Op::Host(Arc::new(self.host(builder.scope(&[]), builder.resolve)?)),
            "dim" => Op::DimValue(self.index(builder.scope(&[]))?),
            _ => return Err(self.unknown(mark, "operation", name)),
        }))
    }

    /// `[a, b -> a + b]`
    fn lambda(
        &mut self,
        builder: &Builder<'_>,
        dtypes: &[DType],
        rank: usize,
        count: Option<usize>,
        expected: &[DType],
    ) -> Parsed<(Body, Vec<ScalarId>)> {
        self.expect("[")?;
        let mark = self.mark();
        let mut params: Vec<(String, DType)> = Vec::new();
        while !self.eat("->") {
            if !params.is_empty() {
                self.expect(",")?;
            }
            let mark = self.mark();
            let name = self.name("a name")?;
            if params.iter().any(|(n, _)| *n == name) {
                return Err(self.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
            params.push((name, dtypes.get(params.len()).copied().unwrap_or(DType::F32)));
        }
        if params.len() != dtypes.len() || params.len() > usize::from(u8::MAX) {
            return Err(self.wrong_count(mark, "parameters", dtypes.len(), params.len()));
        }
        let vars: Vec<String> = (0..rank).map(|n| format!("i{n}")).collect();
        let env = Env { params: &params, ..no_sources(builder.scope(&vars)) };
        let block = self.block(env, count, expected)?;
        self.expect("]")?;
        Ok(block)
    }

    /// `[i, j -> j, i if 0 <= i < N else 0]`
    fn view(&mut self, builder: &Builder<'_>, ty: &TensorType) -> Parsed<ViewOp> {
        self.expect("[")?;
        let mut vars: Vec<String> = Vec::new();
        while !self.eat("->") {
            if !vars.is_empty() {
                self.expect(",")?;
            }
            let mark = self.mark();
            let name = self.name("a coordinate")?;
            if vars.contains(&name) {
                return Err(self.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
            vars.push(name);
        }
        let scope = builder.scope(&vars);
        let mut index = Vec::new();
        while !self.is_word("if") && !self.is("]") {
            if !index.is_empty() {
                self.expect(",")?;
            }
            index.push(self.index(scope)?);
        }
        let (mut valid, mut otherwise) = (Vec::new(), Const::zero(ty.dtype));
        if self.eat_word("if") {
            valid = self.bounds(scope)?;
            self.expect_word("else")?;
            otherwise = self.constant(ty.dtype)?;
        }
        self.expect("]")?;
        Ok(ViewOp { map: AccessMap { rank: vars.len(), index, valid }, shape: ty.shape.clone(), otherwise })
    }

    /// `[n k, m k -> n m]`; labels are numbered by first appearance.
    fn contract(&mut self) -> Parsed<ContractOp> {
        self.expect("[")?;
        let mut names: Vec<String> = Vec::new();
        let lhs = self.labels(&mut names)?;
        self.expect(",")?;
        let rhs = self.labels(&mut names)?;
        self.expect("->")?;
        let output = self.labels(&mut names)?;
        self.expect("]")?;
        Ok(ContractOp { lhs, rhs, output })
    }

    fn labels(&mut self, names: &mut Vec<String>) -> Parsed<Vec<u8>> {
        let mut labels = Vec::new();
        while let Kind::Ident(_) = self.peek() {
            let name = self.name("a label")?;
            let known = names.iter().position(|n| *n == name);
            let label = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let limit = usize::from(u8::MAX);
            let too_many = || self.error(ParseErrorKind::TooMany { what: "labels", limit });
            labels.push(u8::try_from(label).map_err(|_| too_many())?);
        }
        Ok(labels)
    }
}

/// An operation, as far as it can be parsed in front of its operands.
enum Parsing {
    Done(Op),
    Constant(String),
    Composite(crate::op::CompositeKind),
    Recurrence { steps: Dim, states: usize, slices: usize },
    If { produces: Vec<crate::op::Produced> },
}

/// Scalar expressions without loads.
fn no_sources(scope: Scope<'_>) -> Env<'_> {
    Env { scope, sources: &|_| None, params: &[] }
}
