//! Custom operators: what a file declares of operators that the program which runs a model brings itself.
//!
//! The import only needs the types of their outputs; the artifact names the operators, and the runtime is given functions
//! for them when it loads one. A file is TOML:
//!
//! ```toml
//! [[operator]]
//! domain = "my.domain"
//! name = "Upscale"
//! version = 1                      # the least opset of the domain that means this operator
//! types = { T = ["f32", "f16"] }   # element types that stand for each other
//! inputs = [
//!     { name = "x", type = "T", shape = ["N", "C", "H", "W"] },
//!     { name = "mask", type = "bool", shape = ["H", "W"], optional = true },
//! ]
//! outputs = [{ name = "y", type = "T", shape = ["N", "C", "H * @factor", "W * @factor"] }]
//! ```
//!
//! [`extent`] says what extents may be. Files come from outside: nothing in them can make this crate panic.

mod extent;

use crate::build::{Result as Built, mismatch};
use crate::error::{ImportError, Problem};
use crate::host::{self, Typing};
use crate::ops;
use extent::{Expr, is_name};
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::{DType, DTypeClass};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a file, operators in it, inputs or outputs of one, and axes of these.
const MAX_BYTES: usize = 1 << 20;
const MAX_OPERATORS: usize = 1 << 12;
const MAX_PORTS: usize = 64;
const MAX_AXES: usize = 16;

/// Operators that a model may use besides those that infc knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomOps {
    operators: Vec<CustomOp>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomOp {
    domain: String,
    name: String,
    pub(crate) version: i64,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Input {
    name: String,
    ty: ElementType,
    /// `None` for any.
    shape: Option<Vec<Pattern>>,
    optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Output {
    ty: ElementType,
    shape: Vec<Extent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ElementType {
    One(DType),
    /// The same wherever the name occurs.
    Variable {
        name: String,
        among: Vec<DType>,
    },
}

/// An extent of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Number(i64),
    Name(String),
    Any,
    AnyAxes,
}

/// An extent of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    Of(Expr),
    Unknown,
    AnyAxes,
}

/// The file as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    operator: Vec<Declaration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaration {
    domain: String,
    name: String,
    #[serde(default = "first_version")]
    version: i64,
    #[serde(default)]
    types: BTreeMap<String, Vec<String>>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    shape: Option<Vec<Axis>>,
    #[serde(default)]
    optional: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Axis {
    Number(i64),
    Text(String),
}

fn first_version() -> i64 {
    1
}

impl CustomOps {
    /// Reads declarations, in TOML.
    ///
    /// # Errors
    /// [`ImportError::CustomOpsSyntax`] and [`ImportError::InvalidCustomOp`].
    pub fn parse(text: &str) -> Result<Self, ImportError> {
        let syntax = |reason: String| ImportError::CustomOpsSyntax { reason };
        if text.len() > MAX_BYTES {
            return Err(syntax(format!("expected at most {MAX_BYTES} bytes, found {}", text.len())));
        }
        let file: File = toml::from_str(text).map_err(|error| syntax(error.to_string().trim_end().to_owned()))?;
        if file.operator.is_empty() || file.operator.len() > MAX_OPERATORS {
            return Err(syntax(format!("expected 1 to {MAX_OPERATORS} operators, found {}", file.operator.len())));
        }
        let mut operators = Self::default();
        for declaration in file.operator {
            operators.add(CustomOp::of(declaration)?)?;
        }
        Ok(operators)
    }

    /// These and others.
    ///
    /// # Errors
    /// [`ImportError::InvalidCustomOp`] if an operator is in both.
    pub fn and(mut self, others: Self) -> Result<Self, ImportError> {
        others.operators.into_iter().try_for_each(|operator| self.add(operator))?;
        Ok(self)
    }

    /// The names as the runtime wants them, `domain::Op@version`, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.operators.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    /// True if the operator of this version is declared.
    #[must_use]
    pub fn declares(&self, op_type: &str, domain: &str, version: i64) -> bool {
        self.find(op_type, domain, version).is_some_and(|operator| operator.version == version)
    }

    fn add(&mut self, operator: CustomOp) -> Result<(), ImportError> {
        if self.declares(&operator.name, &operator.domain, operator.version) {
            return Err(operator.invalid("its name", "an operator that is not declared yet", operator.to_string()));
        }
        self.operators.push(operator);
        Ok(())
    }

    /// The newest version of an operator that an opset of its domain has.
    pub(crate) fn find(&self, op_type: &str, domain: &str, opset: i64) -> Option<&CustomOp> {
        let named = self.operators.iter().filter(|o| o.name == op_type && o.domain == domain && o.version <= opset);
        named.max_by_key(|operator| operator.version)
    }

    /// Fails if one is among the operators that infc knows.
    pub(crate) fn check_unknown(&self) -> Result<(), ImportError> {
        let is_known = |o: &&CustomOp| {
            ops::find(&o.name, &o.domain, o.version).is_some() || host::defines(&o.name, &o.domain, o.version)
        };
        match self.operators.iter().find(is_known) {
            None => Ok(()),
            Some(known) => {
                let expected = "an operator that infc does not know";
                Err(known.invalid("its name", expected, known.to_string()))
            }
        }
    }
}

impl fmt::Display for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}@{}", self.domain, self.name, self.version)
    }
}

impl CustomOp {
    fn invalid(&self, what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> ImportError {
        let (what, expected, found) = (what.into(), expected.into(), found.into());
        ImportError::InvalidCustomOp { operator: self.to_string(), what, expected, found }
    }

    fn of(declaration: Declaration) -> Result<Self, ImportError> {
        let Declaration { domain, name, version, types, inputs, outputs } = declaration;
        let mut operator = Self { domain, name, version, inputs: Vec::new(), outputs: Vec::new() };
        let is_domain = |text: &str| !text.is_empty() && text.split(['.', '-']).all(is_word);
        if !is_domain(&operator.domain) || operator.domain == "ai.onnx" {
            let found = format!("`{}`", operator.domain);
            return Err(operator.invalid("its domain", "words with dots between them, not ONNX's own", found));
        }
        if !is_word(&operator.name) {
            return Err(operator.invalid("its name", "a word", format!("`{}`", operator.name)));
        }
        if !(1..=i64::from(i32::MAX)).contains(&version) {
            return Err(operator.invalid("its version", "a positive number", version.to_string()));
        }
        for (what, ports) in [("inputs", &inputs), ("outputs", &outputs)] {
            if ports.len() > MAX_PORTS {
                return Err(operator.invalid(what, format!("at most {MAX_PORTS}"), ports.len().to_string()));
            }
        }
        if outputs.is_empty() {
            return Err(operator.invalid("outputs", "at least one", "none"));
        }
        let mut variables = BTreeMap::new();
        for (variable, names) in types {
            let among = names.iter().map(|name| operator.dtype(name)).collect::<Result<Vec<_>, _>>()?;
            if among.is_empty() || variable.parse::<DType>().is_ok() {
                let expected = "another name than that of an element type, and some element types";
                return Err(operator.invalid(format!("types `{variable}`"), expected, format!("{names:?}")));
            }
            variables.insert(variable, among);
        }
        let mut bound: Vec<String> = Vec::new();
        let mut bound_types: Vec<String> = Vec::new();
        let mut any_axes = false;
        for port in inputs {
            let input = operator.input(port, &variables)?;
            for pattern in input.shape.iter().flatten() {
                match pattern {
                    Pattern::Name(name) => bound.push(name.clone()),
                    Pattern::AnyAxes => any_axes = true,
                    Pattern::Number(_) | Pattern::Any => {}
                }
            }
            if let ElementType::Variable { name, .. } = &input.ty {
                bound_types.push(name.clone());
            }
            operator.inputs.push(input);
        }
        for port in outputs {
            let (what, ty) = (format!("output `{}`", port.name), port.ty.clone());
            let output = operator.output(port, &variables)?;
            for extent in &output.shape {
                match extent {
                    Extent::Of(expr) => {
                        let mut unbound = None;
                        expr.for_each_name(&mut |name| {
                            if bound.iter().all(|known| known != name) {
                                unbound = Some(name.to_owned());
                            }
                        });
                        if let Some(name) = unbound {
                            return Err(operator.invalid(what, "extents of inputs", format!("`{name}`")));
                        }
                    }
                    Extent::AnyAxes if !any_axes => {
                        return Err(operator.invalid(what, "axes that an input has", "`...`"));
                    }
                    Extent::AnyAxes | Extent::Unknown => {}
                }
            }
            if matches!(&output.ty, ElementType::Variable { name, .. } if !bound_types.contains(name)) {
                return Err(operator.invalid(what, "an element type that an input has", format!("`{ty}`")));
            }
            operator.outputs.push(output);
        }
        Ok(operator)
    }

    fn dtype(&self, name: &str) -> Result<DType, ImportError> {
        let dtype = name.parse::<DType>().ok().filter(|dtype| dtype.class() != DTypeClass::Value);
        dtype.ok_or_else(|| {
            let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
            self.invalid("an element type", format!("one of its types or {}", names.join(", ")), format!("`{name}`"))
        })
    }

    fn element_type(&self, name: String, variables: &BTreeMap<String, Vec<DType>>) -> Result<ElementType, ImportError> {
        match variables.get(&name) {
            Some(among) => Ok(ElementType::Variable { name, among: among.clone() }),
            None => self.dtype(&name).map(ElementType::One),
        }
    }

    fn input(&self, port: Port, variables: &BTreeMap<String, Vec<DType>>) -> Result<Input, ImportError> {
        let what = || format!("input `{}`", port.name);
        let pattern = |axis: &Axis| match axis {
            Axis::Number(value) if *value >= 0 => Ok(Pattern::Number(*value)),
            Axis::Text(text) if text == "?" => Ok(Pattern::Any),
            Axis::Text(text) if text == "..." => Ok(Pattern::AnyAxes),
            Axis::Text(text) if is_name(text) => Ok(Pattern::Name(text.clone())),
            Axis::Number(value) => Err(self.invalid(what(), "extents of at least 0", value.to_string())),
            Axis::Text(text) => {
                let expected = "extents that are numbers, names, `?` or `...`";
                Err(self.invalid(what(), expected, format!("`{text}`")))
            }
        };
        let shape = port.shape.as_ref().map(|shape| shape.iter().map(pattern).collect::<Result<Vec<_>, _>>());
        let shape = shape.transpose()?;
        if let Some(shape) = &shape {
            self.check_axes(what(), shape.len(), shape.iter().filter(|p| **p == Pattern::AnyAxes).count())?;
        }
        let ty = self.element_type(port.ty, variables)?;
        Ok(Input { name: port.name, ty, shape, optional: port.optional })
    }

    fn output(&self, port: Port, variables: &BTreeMap<String, Vec<DType>>) -> Result<Output, ImportError> {
        let what = || format!("output `{}`", port.name);
        let extent = |axis: &Axis| match axis {
            Axis::Number(value) if *value >= 0 => Ok(Extent::Of(Expr::Number(*value))),
            Axis::Number(value) => Err(self.invalid(what(), "extents of at least 0", value.to_string())),
            Axis::Text(text) if text == "?" => Ok(Extent::Unknown),
            Axis::Text(text) if text == "..." => Ok(Extent::AnyAxes),
            Axis::Text(text) => match Expr::parse(text) {
                Ok(expr) => Ok(Extent::Of(expr)),
                Err(expected) => {
                    let expected = expected.strip_prefix("expected ").unwrap_or(&expected).to_owned();
                    Err(self.invalid(what(), expected, format!("`{text}`")))
                }
            },
        };
        let shape = port.shape.as_ref().map(|shape| shape.iter().map(extent).collect::<Result<Vec<_>, _>>());
        let Some(shape) = shape.transpose()? else { return Err(self.invalid(what(), "a shape", "none")) };
        self.check_axes(what(), shape.len(), shape.iter().filter(|e| **e == Extent::AnyAxes).count())?;
        if port.optional {
            return Err(self.invalid(what(), "an output; each may be left out", "`optional`"));
        }
        Ok(Output { ty: self.element_type(port.ty, variables)?, shape })
    }

    fn check_axes(&self, what: String, axes: usize, any: usize) -> Result<(), ImportError> {
        if axes > MAX_AXES {
            return Err(self.invalid(what, format!("at most {MAX_AXES} axes"), axes.to_string()));
        }
        if any > 1 {
            return Err(self.invalid(what, "`...` at most once", any.to_string()));
        }
        Ok(())
    }
}

/// Letters, digits and underscores, at least one.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What the inputs of a node say.
#[derive(Default)]
struct Known<'o> {
    types: BTreeMap<&'o str, DType>,
    extents: BTreeMap<&'o str, Dim>,
    any_axes: Option<Vec<Dim>>,
}

/// The types of a node's outputs.
pub(crate) fn types(t: &mut Typing<'_, '_>, operator: &CustomOp) -> Built<Vec<TensorType>> {
    let mut known = Known::default();
    let given = t.call.inputs.len();
    if given > operator.inputs.len() {
        let expected = format!("at most {} inputs", operator.inputs.len());
        return Err(Problem::ShapeMismatch { expected, found: given.to_string() });
    }
    for (index, declared) in operator.inputs.iter().enumerate() {
        let Some(input) = t.call.optional(index) else {
            if declared.optional {
                continue;
            }
            return Err(Problem::MissingInput { index });
        };
        let expected = match &declared.ty {
            ElementType::One(dtype) => *dtype,
            ElementType::Variable { name, among } => {
                let first = if among.contains(&input.dtype()) { input.dtype() } else { among[0] };
                *known.types.entry(name).or_insert(first)
            }
        };
        if input.dtype() != expected {
            let (input, found) = (declared.name.clone(), input.dtype());
            return Err(Problem::InputType { input, expected, found });
        }
        if let Some(patterns) = &declared.shape {
            known.bind(t, &declared.name, patterns, input.shape())?;
        }
    }
    let mut types = Vec::with_capacity(operator.outputs.len());
    for (output, declared) in operator.outputs.iter().enumerate() {
        let dtype = match &declared.ty {
            ElementType::One(dtype) => Some(*dtype),
            ElementType::Variable { name, .. } => known.types.get(name.as_str()).copied(),
        };
        let dtype = dtype.ok_or(Problem::DynamicValue { what: "the element type of an output" })?;
        let mut shape = Vec::with_capacity(declared.shape.len());
        for extent in &declared.shape {
            match extent {
                Extent::Of(expr) => {
                    let dim = expr.dim(&|name| known.look_up(t, name))?;
                    shape.push(t.call.build.size("an extent of a custom operator's output", &dim)?);
                }
                Extent::Unknown => shape.push(t.fresh(output, shape.len(), None)),
                Extent::AnyAxes => {
                    let axes = known.any_axes.clone();
                    shape.extend(axes.ok_or(Problem::DynamicValue { what: "the rank of an output" })?);
                }
            }
        }
        let ty = TensorType::new(dtype, shape);
        t.call.build.check_shape(&ty)?;
        types.push(ty);
    }
    Ok(types)
}

impl<'o> Known<'o> {
    /// Gives names the extents of an input, or sees to it that they are those that they have already.
    fn bind(&mut self, t: &mut Typing<'_, '_>, input: &str, patterns: &'o [Pattern], shape: &[Dim]) -> Built<()> {
        let any = patterns.iter().position(|pattern| *pattern == Pattern::AnyAxes);
        let fixed = patterns.len() - usize::from(any.is_some());
        let free = shape.len().checked_sub(fixed).filter(|&free| any.is_some() || free == 0);
        let Some(free) = free else {
            let least = if any.is_some() { "at least " } else { "" };
            return Err(mismatch(format!("{least}{fixed} axes of input `{input}`"), shape));
        };
        let mut axes = shape.iter();
        for pattern in patterns {
            if *pattern == Pattern::AnyAxes {
                let axes: Vec<Dim> = axes.by_ref().take(free).cloned().collect();
                let before = self.any_axes.get_or_insert_with(|| axes.clone()).clone();
                if before.len() != axes.len() {
                    return Err(mismatch(format!("as many axes of input `{input}` as of those before it"), shape));
                }
                for (left, right) in before.iter().zip(&axes) {
                    t.call.build.require_equal("extents of a custom operator's inputs", left, right)?;
                }
                continue;
            }
            let Some(extent) = axes.next() else { break };
            let expected = match pattern {
                Pattern::Number(value) => Dim::constant(*value),
                Pattern::Name(name) => self.extents.entry(name).or_insert_with(|| extent.clone()).clone(),
                Pattern::Any | Pattern::AnyAxes => continue,
            };
            t.call.build.require_equal("extents of a custom operator's inputs", &expected, extent)?;
        }
        Ok(())
    }

    fn look_up(&self, t: &Typing<'_, '_>, name: &Expr) -> Built<Dim> {
        match name {
            Expr::Attribute(name) => match t.attributes.int(name) {
                Ok(Some(value)) => Ok(Dim::constant(value)),
                _ => {
                    let expected = format!("an integer for attribute `{name}`");
                    Err(Problem::ShapeMismatch { expected, found: "none".to_owned() })
                }
            },
            Expr::Name(name) => {
                let extent = self.extents.get(name.as_str()).cloned();
                extent.ok_or(Problem::DynamicValue { what: "an extent of an input that is left out" })
            }
            Expr::Number(_) | Expr::Operation(..) => Err(Problem::DynamicValue { what: "an extent" }),
        }
    }
}
