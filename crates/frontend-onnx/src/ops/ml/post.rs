//! What becomes of the scores of a row: the attribute `post_transform`, and class labels.

use super::tables::floats;
use crate::build::{Builder, Result, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::reduce::first_extremum;
use crate::ops::softmax;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{CompositeKind, HostOp};
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::{Attributes, DType, Subgraphs, Tensor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostTransform {
    None,
    Softmax,
    Logistic,
}

impl PostTransform {
    /// By the name that the attribute of the older operators is.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        match call.string("post_transform", "NONE")?.as_str() {
            "NONE" => Ok(Self::None),
            "SOFTMAX" => Ok(Self::Softmax),
            "LOGISTIC" => Ok(Self::Logistic),
            other => Err(Self::unsupported(other)),
        }
    }

    /// By the number that it is for `TreeEnsemble`.
    pub(super) fn of_number(call: &Call<'_>) -> Result<Self> {
        match call.int_or("post_transform", 0)? {
            0 => Ok(Self::None),
            1 => Ok(Self::Softmax),
            2 => Ok(Self::Logistic),
            other => Err(Self::unsupported(&other.to_string())),
        }
    }

    fn unsupported(found: &str) -> Problem {
        let expected = "none, softmax or logistic in a kernel";
        Problem::UnsupportedAttribute { attribute: "post_transform", expected, found: found.to_owned() }
    }

    /// Of scores `[rows, targets]`.
    pub(super) fn apply(self, build: &mut Builder, scores: &Tracked) -> Result<Tracked> {
        match self {
            Self::None => Ok(scores.clone()),
            Self::Logistic => build.map(&[scores], |body, p| body.unary(UnaryOp::Sigmoid, p[0])),
            Self::Softmax => {
                let kind = CompositeKind::Softmax;
                build.composite(kind, &[scores], |build, x| softmax::softmax(build, &x[0], &[1], kind, false))
            }
        }
    }
}

/// What the score of the first of two classes is where there is one score, that of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// What is missing to 1.
    Complement,
    /// The opposite.
    Negative,
}

impl PostTransform {
    /// Of the score of the second of two classes, `[rows, 1]`, those of both, `[rows, 2]`, as ONNX Runtime has them:
    /// SOFTMAX leaves them as they are.
    pub(super) fn apply_to_second(self, build: &mut Builder, score: &Tracked, other: Other) -> Result<Tracked> {
        let is_odds = self == Self::Logistic;
        let first = build.map(&[score], |body, p| match other {
            Other::Complement if !is_odds => {
                let one = body.constant(body.dtype(p[0]), 1.0);
                body.binary(BinaryOp::Sub, one, p[0])
            }
            _ => body.unary(UnaryOp::Neg, p[0]),
        })?;
        let both = build.concat(&[&first, score], 1)?;
        if is_odds { self.apply(build, &both) } else { Ok(both) }
    }
}

/// Adds a number to each score of `[rows, scores]`, if there are any.
pub(super) fn with_numbers(
    build: &mut Builder,
    scores: &Tracked,
    attribute: &'static str,
    numbers: impl ExactSizeIterator<Item = f64>,
) -> Result<Tracked> {
    let count = numbers.len();
    if count == 0 {
        return Ok(scores.clone());
    }
    if !scores.shape()[1].is_const(count as i64) {
        let (expected, found) = ("as many as there are scores", count.to_string());
        return Err(Problem::InvalidAttribute { attribute, expected, found });
    }
    let numbers = floats(build, attribute, scores.dtype(), &[count], numbers);
    build.map(&[scores, &numbers], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))
}

/// The names of classes.
pub(super) enum Labels {
    Numbers(Vec<i64>),
    /// Texts, which no kernel looks up: the host does.
    Texts(Vec<String>),
}

impl Labels {
    /// From the attribute of that name, or `classlabels_strings`.
    pub(super) fn of(call: &Call<'_>, ints: &'static str) -> Result<Self> {
        match (call.strings("classlabels_strings")?, call.ints(ints)?) {
            (Some(labels), _) if !labels.is_empty() => Ok(Self::Texts(labels)),
            (_, Some(labels)) if !labels.is_empty() => Ok(Self::Numbers(labels.to_vec())),
            _ => Err(Problem::InvalidAttribute { attribute: ints, expected: "labels", found: "none".to_owned() }),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(labels) => labels.len(),
            Self::Texts(labels) => labels.len(),
        }
    }

    /// The label of the first class that no other one exceeds among those behind it, of scores `[rows, classes]`: a first
    /// score that is no number is not exceeded.
    pub(super) fn of_best(&self, build: &mut Builder, scores: &Tracked) -> Result<Tracked> {
        let best = first_extremum(build, scores, 1)?;
        let first = build.view(scores, vec![var(0), Dim::constant(0)], scores.shape()[..1].to_vec())?;
        let best = build.map(&[&best, &first], |body, p| {
            let is_nan = body.unary(UnaryOp::IsNan, p[1]);
            let zero = body.constant(body.dtype(p[0]), 0.0);
            body.select(is_nan, zero, p[0])
        })?;
        self.of_numbers(build, &best)
    }

    /// The labels of rows of which one score, `[rows, 1]`, says by exceeding a bound that it is the second class.
    pub(super) fn of_second(&self, build: &mut Builder, score: &Tracked, bound: f64) -> Result<Tracked> {
        let row = build.reshape(score, &score.shape()[..1])?;
        let found = build.map(&[&row], |body, p| {
            let bound = body.constant(body.dtype(p[0]), bound);
            let second = body.compare(CompareOp::Gt, p[0], bound);
            body.cast(DType::I64, second)
        })?;
        self.of_numbers(build, &found)
    }

    /// The labels of classes that are given by number, from 0 on.
    pub(super) fn of_numbers(&self, build: &mut Builder, classes: &Tracked) -> Result<Tracked> {
        let labels = match self {
            Self::Numbers(labels) if labels.iter().enumerate().all(|(n, &label)| label == n as i64) => {
                return build.cast(classes, DType::I64);
            }
            Self::Numbers(labels) => Tensor::from_elements(&[labels.len()], labels),
            Self::Texts(labels) => Tensor::from_strings(&[labels.len()], labels.clone()),
        };
        let labels = build.constant("labels", labels.expect("as many as there are"));
        if matches!(self, Self::Numbers(_)) {
            return build.gather(&labels, classes, 0);
        }
        let op = HostOp {
            op_type: "Gather".to_owned(),
            domain: String::new(),
            opset: 13,
            attributes: Attributes::new(),
            graphs: Subgraphs::default(),
            body: None,
            inputs: vec![true, true],
            outputs: vec![true],
            produces: Vec::new(),
            reason: "labels are strings".to_owned(),
        };
        let ty = TensorType::new(DType::String, classes.shape().to_vec());
        Ok(build.host(op, &[&labels, classes], vec![ty])?.remove(0))
    }
}
