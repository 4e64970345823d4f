//! What can be wrong within one node.

use infc_ir::symbol::Symbols;
use infc_tensor::DType;

/// Why a node cannot be imported. [`super::ImportError::Node`] says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Problem {
    #[error("input {index} is missing")]
    MissingInput { index: usize },
    #[error("output {index} is asked for, the operator is supported with {supported}")]
    UnsupportedOutput { index: usize, supported: usize },
    #[error("attribute `{attribute}` is {found}, supported is {expected}")]
    UnsupportedAttribute { attribute: &'static str, expected: &'static str, found: String },
    #[error("attribute `{attribute}` is {found}, expected {expected}")]
    InvalidAttribute { attribute: &'static str, expected: &'static str, found: String },
    #[error("elements of type {found} are not supported here, expected {expected}")]
    UnsupportedType { expected: &'static str, found: DType },
    #[error("inputs of one type are needed, found {left} and {right}")]
    TypeMismatch { left: DType, right: DType },
    #[error("input `{input}` has elements of type {found}, expected {expected}")]
    InputType { input: String, expected: DType, found: DType },
    #[error("expected {expected}, found {found}")]
    ShapeMismatch { expected: String, found: String },
    #[error("{what} is only known when the model runs, expected it to follow from constants and dims")]
    DynamicValue { what: &'static str },
    #[error("a kernel that computes all steps of a loop calls no custom operator")]
    CustomInStep,
    #[error("{what} would take {work} steps as a kernel, at most {limit} are bearable")]
    TooMuchWork { what: &'static str, work: i64, limit: i64 },
    #[error("the result would have shape [{shape}], which is more than fits in memory")]
    DimOverflow { shape: String },
    #[error("the result would have {found} axes, expected at most {limit}")]
    RankTooLarge { found: usize, limit: usize },
    #[error("the size expression `{expression}` is too long")]
    DimTooComplex { expression: String },
}

impl Problem {
    /// The stable identifier of this kind of problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingInput { .. } => "onnx::missing-input",
            Self::UnsupportedOutput { .. } => "onnx::unsupported-output",
            Self::UnsupportedAttribute { .. } => "onnx::unsupported-attribute",
            Self::InvalidAttribute { .. } => "onnx::invalid-attribute",
            Self::UnsupportedType { .. } => "onnx::unsupported-type",
            Self::TypeMismatch { .. } | Self::InputType { .. } => "onnx::type-mismatch",
            Self::ShapeMismatch { .. } => "onnx::shape-mismatch",
            Self::DynamicValue { .. } => "onnx::dynamic-value",
            Self::CustomInStep => "onnx::unsupported-operator",
            Self::TooMuchWork { .. } => "onnx::too-much-work",
            Self::DimOverflow { .. } => "dim::overflow",
            Self::RankTooLarge { .. } => "dim::rank-too-large",
            Self::DimTooComplex { .. } => "dim::too-complex",
        }
    }

    /// True if a node cannot be what it is said to be; not if it is infc that cannot import it.
    pub(crate) fn is_contradiction(&self) -> bool {
        matches!(
            self,
            Self::ShapeMismatch { .. }
                | Self::InvalidAttribute { .. }
                | Self::MissingInput { .. }
                | Self::TypeMismatch { .. }
        )
    }

    /// The problem with the names of symbols in the place of their numbers (`$0`).
    pub(crate) fn named(self, symbols: &Symbols) -> Self {
        match self {
            Self::ShapeMismatch { expected, found } => {
                Self::ShapeMismatch { expected: with_names(&expected, symbols), found: with_names(&found, symbols) }
            }
            Self::DimOverflow { shape } => Self::DimOverflow { shape: with_names(&shape, symbols) },
            Self::DimTooComplex { expression } => Self::DimTooComplex { expression: with_names(&expression, symbols) },
            other => other,
        }
    }

    /// What to try next.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::MissingInput { .. } | Self::InvalidAttribute { .. } | Self::TypeMismatch { .. } => {
                "the model is invalid; `onnx.checker.check_model` says the same"
            }
            Self::InputType { .. } => "declare the operator for that type too, or cast the input",
            Self::UnsupportedOutput { .. } => "leave the output out when exporting",
            Self::UnsupportedAttribute { .. } => "export the model again with a supported value",
            Self::UnsupportedType { .. } => "convert the model to another element type",
            Self::ShapeMismatch { .. } => "check the shapes of the inputs, also those given with --shape",
            Self::DynamicValue { .. } => "fix the dims it depends on with --dim, or simplify the model before",
            Self::CustomInStep => {
                "use a Loop, take it out of the Scan, or let a constant give the number of steps, at most 64"
            }
            Self::TooMuchWork { .. } => "let the host evaluate it, which sorts: without --deny-fallback",
            Self::DimOverflow { .. } => "limit the dims of the inputs with --dim or --shape",
            Self::RankTooLarge { .. } => "merge axes before exporting",
            Self::DimTooComplex { .. } => "fix some dims with --dim",
        })
    }
}

fn with_names(text: &str, symbols: &Symbols) -> String {
    let mut parts = text.split('$');
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let symbol = part[..digits].parse().ok().and_then(|number| symbols.iter().nth(number));
        match symbol {
            Some(symbol) => named.push_str(&symbol.name),
            None => {
                named.push('$');
                named.push_str(&part[..digits]);
            }
        }
        named.push_str(&part[digits..]);
    }
    named
}
