//! The grammar of kernels.

use super::super::ParseError;
use super::super::error::ParseErrorKind;
use super::super::index::Scope;
use super::super::lexer::Kind;
use super::super::parser::{Parsed, Parser};
use super::super::scalar::{Env, SourceRef, parse_reducer};
use super::layout::parse_layout;
use crate::entity::{EntityId, OperandId, StageId};
use crate::index::Dim;
use crate::kernel::{Axis, AxisKind, Kernel, Operand, OperandKind, Output, Stage};
use crate::symbol::{Symbol, Symbols};
use infc_tensor::DType;
use std::collections::HashMap;
use std::str::FromStr;

impl FromStr for Kernel {
    type Err = ParseError;

    /// Parses one kernel and nothing else. The result is not verified; see [`crate::verify`].
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut p = Parser::new(text)?;
        let kernel = p.kernel()?;
        p.end()?;
        Ok(kernel)
    }
}

/// Named numbers.
type Constants = HashMap<String, i64>;

/// `where N in 1..=64, M in 0.., C = 1000`, if it is next.
pub(in super::super) fn parse_where(p: &mut Parser<'_>) -> Parsed<(Symbols, Constants)> {
    let (mut symbols, mut constants) = (Symbols::new(), Constants::new());
    if !p.eat_word("where") {
        return Ok((symbols, constants));
    }
    loop {
        let mark = p.mark();
        let name = p.name("a symbol")?;
        if constants.contains_key(&name) || symbols.iter().any(|s| s.name == name) {
            return Err(p.error_at(mark, ParseErrorKind::Duplicate { name }));
        }
        if p.eat("=") {
            constants.insert(name, p.signed()?);
        } else {
            p.expect_word("in")?;
            let min = p.signed()?;
            let max = if p.eat("..=") {
                Some(p.signed()?)
            } else {
                p.expect("..")?;
                None
            };
            symbols.push(Symbol { name, min, max });
        }
        if !p.eat(",") {
            return Ok((symbols, constants));
        }
    }
}

impl Parser<'_> {
    fn kernel(&mut self) -> Parsed<Kernel> {
        self.expect_word("kernel")?;
        self.expect("@")?;
        let name = self.name("a name")?;
        // The symbols come last but are needed first.
        let operands_at = self.mark();
        while !matches!(self.peek(), Kind::Ident("where") | Kind::Punct("{") | Kind::End) {
            if self.is("(") { self.skip_brackets()? } else { self.advance() }
        }
        let (symbols, constants) = parse_where(self)?;
        let body_at = self.mark();
        self.reset(operands_at);
        let mut kernel = Kernel { name, symbols, ..Kernel::default() };
        self.operands(&mut kernel, &constants, OperandKind::Input)?;
        if self.eat("->") {
            self.operands(&mut kernel, &constants, OperandKind::Output)?;
        }
        if !self.is_word("where") && !self.is("{") {
            return self.expected("`where` or `{`");
        }
        self.reset(body_at);
        self.expect("{")?;
        let declared = self.declared_types()?;
        let mut extents = HashMap::new();
        while !self.eat("}") {
            if self.eat_word("stage") {
                self.stage(&mut kernel, &constants, &declared, &mut extents)?;
            } else if self.eat_word("output") {
                self.output(&mut kernel, &constants)?;
            } else {
                return self.expected("`stage`, `output` or `}`");
            }
        }
        Ok(kernel)
    }

    /// `(x: f32[N], const w: f32[3])`
    fn operands(&mut self, kernel: &mut Kernel, constants: &Constants, default: OperandKind) -> Parsed<()> {
        self.expect("(")?;
        self.list(")", |p| {
            let kind = if p.eat_word("const") {
                OperandKind::Constant
            } else if p.eat_word("out") {
                OperandKind::Output
            } else {
                default
            };
            let mark = p.mark();
            let name = p.name("an operand")?;
            if kernel.operands.iter().any(|o| o.name == name) {
                return Err(p.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
            p.expect(":")?;
            let dtype = p.dtype()?;
            let scope = Scope { vars: &[], symbols: &kernel.symbols, constants };
            let shape = p.shape(scope)?;
            let layout = parse_layout(p, scope, &shape)?;
            kernel.operands.push(Operand { name, dtype, shape, kind, layout });
            Ok(())
        })?;
        Ok(())
    }

    /// The types that stages declare, by name, with their numbers: those that they or stages before them read.
    fn declared_types(&mut self) -> Parsed<HashMap<String, (StageId, Vec<DType>)>> {
        let start = self.mark();
        let mut declared = HashMap::new();
        let mut stages = 0;
        while !matches!(self.peek(), Kind::End) {
            if !self.eat_word("stage") {
                self.advance();
                continue;
            }
            if !matches!(self.peek(), Kind::Ident(_) | Kind::Str(_)) {
                continue;
            }
            let name = self.name("a stage")?;
            if !self.is("[") {
                continue;
            }
            self.skip_brackets()?;
            if self.eat(":") {
                declared.insert(name, (StageId::from_index(stages), self.component_types()?));
            }
            stages += 1;
        }
        self.reset(start);
        Ok(declared)
    }

    /// `NAME[r: R, reduce c: C]: f32 = fold sum x[r, c]`, behind the word `stage`.
    fn stage(
        &mut self,
        kernel: &mut Kernel,
        constants: &Constants,
        later: &HashMap<String, (StageId, Vec<DType>)>,
        extents: &mut HashMap<String, Dim>,
    ) -> Parsed<()> {
        let mark = self.mark();
        let name = self.name("a stage")?;
        if kernel.stages.iter().any(|s| s.name == name) || kernel.operands.iter().any(|o| o.name == name) {
            return Err(self.error_at(mark, ParseErrorKind::Duplicate { name }));
        }
        self.expect("[")?;
        let mut axes: Vec<Axis> = Vec::new();
        let scope = Scope { vars: &[], symbols: &kernel.symbols, constants };
        self.list("]", |p| {
            let kind = if p.eat_word("reduce") {
                AxisKind::Reduce
            } else if p.eat_word("seq") {
                AxisKind::Sequential
            } else {
                AxisKind::Parallel
            };
            let mark = p.mark();
            let name = p.name("an axis")?;
            if axes.iter().any(|a| a.name == name) {
                return Err(p.error_at(mark, ParseErrorKind::Duplicate { name }));
            }
            let extent = if p.eat(":") {
                let extent = p.index(scope)?;
                extents.insert(name.clone(), extent.clone());
                extent
            } else {
                match extents.get(&name) {
                    Some(extent) => extent.clone(),
                    None => return p.expected("`:` and an extent, as no earlier stage has this axis"),
                }
            };
            axes.push(Axis { name, extent, kind });
            Ok(())
        })?;

        let id = kernel.stages.next_id();
        let declared = if self.eat(":") { self.component_types()? } else { Vec::new() };
        self.expect("=")?;
        let vars: Vec<String> = axes.iter().map(|a| a.name.clone()).collect();
        let sources = |wanted: &str| {
            if wanted == name {
                return (!declared.is_empty()).then(|| SourceRef::Stage(id, declared.clone()));
            }
            let operand = kernel.operands.iter_enumerated().find(|(_, o)| o.name == wanted);
            let operand = operand.map(|(id, o)| SourceRef::Operand(id, o.dtype));
            let known = operand.or_else(|| {
                let (id, stage) = kernel.stages.iter_enumerated().find(|(_, s)| s.name == wanted)?;
                Some(SourceRef::Stage(id, stage.dtypes()))
            });
            known.or_else(|| later.get(wanted).map(|(id, types)| SourceRef::Stage(*id, types.clone())))
        };
        let env = Env { scope: Scope { vars: &vars, ..scope }, sources: &sources, params: &[] };
        let (body, results, reducer) = if self.eat_word("fold") {
            let no_sources = |_: &str| None;
            let combine = Env { scope, sources: &no_sources, params: &[] };
            let fold = parse_reducer(self, combine)?;
            let (body, results) = self.block(env, Some(fold.count()), &fold.expected())?;
            let reducer = fold.finish(self, &body, &results)?;
            (body, results, Some(reducer))
        } else {
            let (body, results) = self.block(env, None, &declared)?;
            (body, results, None)
        };
        kernel.stages.push(Stage { name, axes, body, results, reducer });
        Ok(())
    }

    /// `f32`, or `(f32, i64)`.
    fn component_types(&mut self) -> Parsed<Vec<DType>> {
        if self.eat("(") { self.list(")", Self::dtype) } else { Ok(vec![self.dtype()?]) }
    }

    /// The name of an operand of one kind.
    fn operand_named(&mut self, kernel: &Kernel, what: &'static str, kind: OperandKind) -> Parsed<OperandId> {
        let mark = self.mark();
        let name = self.name("an operand")?;
        let operand = kernel.operands.iter().position(|o| o.name == name && o.kind == kind);
        operand.map(OperandId::from_index).ok_or_else(|| self.unknown(mark, what, name))
    }

    /// `y[r, 2*c] = o.0[r, c]`, maybe with `onto x` behind it, behind the word `output`.
    fn output(&mut self, kernel: &mut Kernel, constants: &Constants) -> Parsed<()> {
        let operand = self.operand_named(kernel, "output operand", OperandKind::Output)?;
        // The index uses names that the right side introduces.
        let index_at = self.mark();
        if !self.is("[") {
            return self.expected("`[`");
        }
        self.skip_brackets()?;
        self.expect("=")?;
        let mark = self.mark();
        let stage_name = self.name("a stage")?;
        let Some((stage, found)) = kernel.stages.iter_enumerated().find(|(_, s)| s.name == stage_name) else {
            return Err(self.unknown(mark, "stage", stage_name));
        };
        let component = if self.eat(".") { self.count(usize::from(u8::MAX))? as u8 } else { 0 };
        self.expect("[")?;
        let mark = self.mark();
        let given = self.list("]", |p| p.name("an axis"))?;
        let value_axes: Vec<usize> = found.value_axes().map(|(n, _)| n).collect();
        if given.len() != value_axes.len() {
            let (expected, found) = (value_axes.len(), given.len());
            return Err(self.error_at(mark, ParseErrorKind::WrongCount { what: "axes", expected, found }));
        }
        let mut vars = vec![String::new(); found.axes.len()];
        for (axis, name) in value_axes.into_iter().zip(given) {
            vars[axis] = name;
        }
        let onto =
            if self.eat_word("onto") { Some(self.operand_named(kernel, "input", OperandKind::Input)?) } else { None };
        let end = self.mark();
        self.reset(index_at);
        self.expect("[")?;
        let scope = Scope { vars: &vars, symbols: &kernel.symbols, constants };
        let index = self.list("]", |p| p.index(scope))?;
        self.reset(end);
        kernel.outputs.push(Output { operand, stage, component, index, onto });
        Ok(())
    }
}
