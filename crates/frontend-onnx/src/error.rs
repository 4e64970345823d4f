//! What can be wrong with a model, told so that the reader can act on it.
//!
//! Every error has a stable [`ImportError::code`], says what was expected and found, and names the nodes concerned.
//! What goes wrong within one node is a [`Problem`]; the import adds the [`NodeRef`].

mod problem;

pub use problem::Problem;

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Which node of the model an error is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// The node's name, or that of its first output if it has none.
    pub name: String,
    /// The operator: `Conv`.
    pub op_type: String,
    /// The operator's domain; empty for ONNX's own.
    pub domain: String,
    /// The opset of that domain that the model imports; 0 if it imports none.
    pub opset: i64,
    /// Position in the model's list of nodes.
    pub index: usize,
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.domain.is_empty() {
            write!(f, "{}.", self.domain)?;
        }
        write!(f, "{} node `{}` (opset {})", self.op_type, self.name, self.opset)
    }
}

/// An operator that infc cannot import, with the nodes that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// The operator.
    pub op_type: String,
    /// Its domain; empty for ONNX's own.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
    /// The nodes, in the order of the model.
    pub nodes: Vec<NodeRef>,
}

impl fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.domain.is_empty() {
            write!(f, "{}.", self.domain)?;
        }
        write!(f, "{} (opset {}, {}×)", self.op_type, self.opset, self.nodes.len())
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Why a model cannot be loaded or imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ImportError {
    #[error("cannot read `{}`", path.display())]
    CannotRead { path: PathBuf, source: io::Error },
    #[error("the file is damaged or no ONNX model: its protobuf cannot be decoded")]
    Malformed { source: prost::DecodeError },
    #[error("the file is no ONNX model: {reason}")]
    NotAModel { reason: &'static str },
    #[error("the model has IR version {found}, expected 3 to {newest}")]
    IrVersion { found: i64, newest: i64 },
    #[error("the model uses opset {found} of domain `{domain}`, the newest supported is {newest}")]
    OpsetTooNew { domain: String, found: i64, newest: i64 },
    #[error("the model uses opset {found} of domain `{domain}`, the oldest supported is {oldest}")]
    OpsetTooOld { domain: String, found: i64, oldest: i64 },
    #[error("{node} belongs to domain `{}`, which the model does not import", node.domain)]
    OpsetMissing { node: Box<NodeRef> },
    #[error("{node} reads `{name}`, which nothing defines")]
    DanglingName { node: Box<NodeRef>, name: String },
    #[error("the graph's output `{name}` is defined by no node, input or initializer")]
    DanglingOutput { name: String },
    #[error("`{name}` is defined twice")]
    DuplicateName { name: String, node: Option<Box<NodeRef>> },
    #[error("the nodes form a cycle: {}", list(nodes))]
    Cycle { nodes: Vec<NodeRef> },
    #[error("{node} calls a function within itself, or too many within each other: {}", chain.join(" → "))]
    FunctionRecursion { node: Box<NodeRef>, chain: Vec<String> },
    #[error("{node} gives a function {found} {what}, expected at most {expected}")]
    FunctionCall { node: Box<NodeRef>, what: &'static str, expected: usize, found: usize },
    #[error("with its functions written out the model becomes too large, last by {node}: {}", chain.join(" → "))]
    FunctionsTooLarge { node: Box<NodeRef>, chain: Vec<String> },
    #[error("tensor `{tensor}`: {reason}, expected {expected}, found {found}")]
    InvalidTensor { tensor: String, reason: &'static str, expected: String, found: String },
    #[error("tensor `{tensor}` keeps its data in `{}`, which does not exist", path.display())]
    ExternalDataMissing { tensor: String, path: PathBuf },
    #[error("tensor `{tensor}` needs bytes up to {needed} of `{}`, which has {found}", path.display())]
    ExternalDataTooShort { tensor: String, path: PathBuf, needed: u64, found: u64 },
    #[error("tensor `{tensor}` keeps its data in `{location}`, which lies outside of the model's folder")]
    ExternalDataOutside { tensor: String, location: String },
    #[error("tensor `{tensor}`: external data entry `{key}` is `{found}`, expected {expected}")]
    ExternalDataInvalid { tensor: String, key: &'static str, expected: &'static str, found: String },
    #[error("`{value}` has shape [{shape}], which is more than fits in memory")]
    DimOverflow { value: String, shape: String },
    #[error("`{value}` is {found}, expected a tensor")]
    UnsupportedValueType { value: String, found: &'static str },
    #[error("the model has no input `{found}`, only {}", list(expected))]
    UnknownInput { found: String, expected: Vec<String> },
    #[error("the model has no dim `{found}`, only {}", if expected.is_empty() { "fixed ones".to_owned() } else { list(expected) })]
    UnknownDim { found: String, expected: Vec<String> },
    #[error("the range {min}..={} of dim `{dim}` is empty or negative", max.map_or_else(String::new, |m| m.to_string()))]
    InvalidRange { dim: String, min: i64, max: Option<i64> },
    #[error("{what} is {first} on one hand and {second} on the other")]
    Contradiction { what: String, first: String, second: String },
    #[error("the declarations of custom operators cannot be read: {reason}")]
    CustomOpsSyntax { reason: String },
    #[error("custom operator {operator}: {what}: expected {expected}, found {found}")]
    InvalidCustomOp { operator: String, what: String, expected: String, found: String },
    #[error("unsupported operators: {}", list(operators))]
    UnsupportedOperators { operators: Vec<UnsupportedOperator> },
    #[error("`{value}`: {problem}")]
    Value { value: String, problem: Problem },
    #[error("{node}: {problem}")]
    Node { node: Box<NodeRef>, problem: Problem },
    /// Several at once, of nodes that do not follow from each other; codes and help are those of the first.
    #[error("{}", several(first, others))]
    Several { first: Box<ImportError>, others: Vec<ImportError> },
}

/// Problems that are told of one model at most.
const TOLD: usize = 20;

/// A sentence for each, so many at most.
fn several(first: &ImportError, others: &[ImportError]) -> String {
    let more: String = others.iter().take(TOLD).map(|other| format!("\n  also: {other}")).collect();
    let left_out = others.len().saturating_sub(TOLD);
    let left_out = if left_out == 0 { String::new() } else { format!("\n  and {left_out} more") };
    format!("{first}{more}{left_out}")
}

impl ImportError {
    /// Says of which value a problem is.
    pub(crate) fn value(name: &str) -> impl Fn(Problem) -> Self + '_ {
        move |problem| Self::Value { value: name.to_owned(), problem }
    }

    /// The stable identifier of this kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::CannotRead { .. } => "onnx::cannot-read",
            Self::Malformed { .. } => "onnx::malformed",
            Self::NotAModel { .. } => "onnx::not-a-model",
            Self::IrVersion { .. } => "onnx::unsupported-ir-version",
            Self::OpsetTooNew { .. } => "onnx::opset-too-new",
            Self::OpsetTooOld { .. } => "onnx::opset-too-old",
            Self::OpsetMissing { .. } => "onnx::opset-missing",
            Self::DanglingName { .. } | Self::DanglingOutput { .. } => "onnx::dangling-name",
            Self::DuplicateName { .. } => "onnx::duplicate-name",
            Self::Cycle { .. } => "onnx::cycle",
            Self::FunctionRecursion { .. } => "onnx::recursive-function",
            Self::FunctionCall { .. } => "onnx::invalid-call",
            Self::FunctionsTooLarge { .. } => "onnx::functions-too-large",
            Self::InvalidTensor { .. } => "onnx::invalid-tensor",
            Self::ExternalDataMissing { .. } => "onnx::external-data-missing",
            Self::ExternalDataTooShort { .. } => "onnx::external-data-too-short",
            Self::ExternalDataOutside { .. } => "onnx::external-data-outside",
            Self::ExternalDataInvalid { .. } => "onnx::external-data-invalid",
            Self::DimOverflow { .. } => "dim::overflow",
            Self::UnsupportedValueType { .. } => "onnx::unsupported-value-type",
            Self::UnknownInput { .. } => "onnx::unknown-input",
            Self::UnknownDim { .. } => "dim::unknown-name",
            Self::InvalidRange { .. } => "dim::invalid-range",
            Self::Contradiction { .. } => "dim::contradiction",
            Self::CustomOpsSyntax { .. } => "onnx::custom-ops-syntax",
            Self::InvalidCustomOp { .. } => "onnx::invalid-custom-op",
            Self::UnsupportedOperators { .. } => "onnx::unsupported-operator",
            Self::Value { problem, .. } | Self::Node { problem, .. } => problem.code(),
            Self::Several { first, .. } => first.code(),
        }
    }

    /// The nodes that the error is about; none if it is about the file as a whole.
    #[must_use]
    pub fn nodes(&self) -> Vec<&NodeRef> {
        match self {
            Self::OpsetMissing { node }
            | Self::DanglingName { node, .. }
            | Self::FunctionRecursion { node, .. }
            | Self::FunctionCall { node, .. }
            | Self::FunctionsTooLarge { node, .. }
            | Self::Node { node, .. } => vec![node],
            Self::DuplicateName { node, .. } => node.iter().map(|n| &**n).collect(),
            Self::Cycle { nodes } => nodes.iter().collect(),
            Self::UnsupportedOperators { operators } => operators.iter().flat_map(|o| &o.nodes).collect(),
            Self::Several { first, others } => {
                first.nodes().into_iter().chain(others.iter().flat_map(Self::nodes)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What to try next.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::CannotRead { .. } => "check the path and that the file may be read",
            Self::Malformed { .. } => "the file may be truncated, or a Git LFS pointer; fetch or export it again",
            Self::NotAModel { .. } => "give a file written by `onnx.save` or an exporter",
            Self::IrVersion { .. } => "export the model again with a current ONNX version",
            Self::OpsetTooNew { .. } => "export the model again with an older opset",
            Self::OpsetTooOld { .. } => "opsets are counted from 1: export the model again",
            Self::OpsetMissing { .. } => "the exporter must list the domain in `opset_import`",
            Self::DanglingName { .. }
            | Self::DanglingOutput { .. }
            | Self::DuplicateName { .. }
            | Self::FunctionCall { .. }
            | Self::Cycle { .. } => "the model is invalid; `onnx.checker.check_model` says the same",
            Self::FunctionRecursion { .. } => {
                "functions of a model cannot call themselves; loops are written with `Loop`"
            }
            Self::FunctionsTooLarge { .. } => "write repeated calls as a `Loop` or `Scan`, or export without functions",
            Self::InvalidTensor { .. } => "the model is invalid; export it again",
            Self::ExternalDataMissing { .. } => "copy the data file beside the model",
            Self::ExternalDataTooShort { .. } => {
                "the data file is truncated or belongs to another model; copy it again"
            }
            Self::ExternalDataOutside { .. } => {
                "external data must lie in the model's folder, not behind links or `..`"
            }
            Self::ExternalDataInvalid { .. } => "the model is invalid; save it again with external data",
            Self::DimOverflow { .. } => "limit the dims of the inputs with --dim or --shape",
            Self::UnsupportedValueType { .. } => "sequences, maps, optionals and sparse tensors are not supported",
            Self::UnknownInput { .. } => "inputs are named as in the model",
            Self::UnknownDim { .. } => "dims without a name are called INPUT[AXIS]",
            Self::InvalidRange { .. } => "give A..B with 0 ≤ A ≤ B",
            Self::Contradiction { .. } => "give each dim one value",
            Self::CustomOpsSyntax { .. } => "declarations are TOML: a table [[operator]] for each",
            Self::InvalidCustomOp { .. } => "mend the operator's declaration",
            Self::UnsupportedOperators { operators } if operators.iter().any(|o| o.domain.ends_with(".nchwc")) => {
                "ONNX Runtime has optimised the model for one machine; save it with ORT_ENABLE_EXTENDED, or before that"
            }
            Self::UnsupportedOperators { .. } => {
                "export the model with operators of the supported list, or declare your own with --custom-ops"
            }
            Self::Value { problem, .. } | Self::Node { problem, .. } => return problem.help(),
            Self::Several { first, .. } => return first.help(),
        })
    }
}
