//! What becomes of the scores of a row: the attribute `post_transform`, and class labels.

use crate::build::{Builder, Result};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::reduce::first_extremum;
use crate::ops::softmax;
use crate::tracked::Tracked;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::UnaryOp;
use infc_tensor::Tensor;

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

/// The names of classes, numbers.
pub(super) struct Labels(Vec<i64>);

impl Labels {
    /// From the attribute of that name.
    pub(super) fn of(call: &Call<'_>, ints: &'static str) -> Result<Self> {
        let attribute = "classlabels_strings";
        let strings = call.strings(attribute)?.unwrap_or_default();
        if let Some(first) = strings.first() {
            let expected = "labels that are numbers in a kernel";
            return Err(Problem::UnsupportedAttribute { attribute, expected, found: format!("`{first}`") });
        }
        match call.ints(ints)? {
            Some(labels) if !labels.is_empty() => Ok(Self(labels.to_vec())),
            _ => Err(Problem::InvalidAttribute { attribute: ints, expected: "labels", found: "none".to_owned() }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The label of the first class with the greatest score, of scores `[rows, classes]`.
    pub(super) fn of_best(&self, build: &mut Builder, scores: &Tracked) -> Result<Tracked> {
        let best = first_extremum(build, scores, 1)?;
        self.of_numbers(build, &best)
    }

    /// The labels of classes that are given by number, from 0 on.
    pub(super) fn of_numbers(&self, build: &mut Builder, classes: &Tracked) -> Result<Tracked> {
        if self.0.iter().enumerate().all(|(n, &label)| label == n as i64) {
            return build.cast(classes, infc_tensor::DType::I64);
        }
        let labels = Tensor::from_elements(&[self.len()], &self.0);
        let labels = build.constant("labels", labels.expect("as many as the shape says"));
        build.gather(&labels, classes, 0)
    }
}
