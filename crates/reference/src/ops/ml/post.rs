//! What is done with the scores of a row: the attribute `post_transform`, and class labels.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::numeric::write_i64s;
use infc_tensor::Tensor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostTransform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl PostTransform {
    pub(crate) fn of(call: &Call<'_>) -> Result<Self> {
        Ok(match call.string("post_transform", "NONE")? {
            "NONE" => Self::None,
            "SOFTMAX" => Self::Softmax,
            "LOGISTIC" => Self::Logistic,
            "SOFTMAX_ZERO" => Self::SoftmaxZero,
            "PROBIT" => Self::Probit,
            _ => return Err(EvalError::InvalidAttribute { name: "post_transform", reason: "it is not known" }),
        })
    }

    /// As `TreeEnsemble` numbers them.
    pub(crate) fn from_number(number: i64) -> Result<Self> {
        Ok(match number {
            0 => Self::None,
            1 => Self::Softmax,
            2 => Self::Logistic,
            3 => Self::SoftmaxZero,
            4 => Self::Probit,
            _ => return Err(EvalError::InvalidAttribute { name: "post_transform", reason: "it is not known" }),
        })
    }

    pub(crate) fn apply(self, scores: &mut [f64]) {
        match self {
            Self::None => {}
            Self::Logistic => scores.iter_mut().for_each(|s| *s = logistic(*s)),
            Self::Probit => scores.iter_mut().for_each(|s| *s = probit(*s)),
            Self::Softmax | Self::SoftmaxZero => {
                let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                // Zeros stay with SOFTMAX_ZERO.
                let keeps = |s: f64| self == Self::SoftmaxZero && s == 0.0;
                let sum: f64 = scores.iter().filter(|s| !keeps(**s)).map(|s| (s - greatest).exp()).sum();
                for score in scores.iter_mut().filter(|s| !keeps(**s)) {
                    *score = (*score - greatest).exp() / sum;
                }
            }
        }
    }
}

/// What the score of the first of two classes is where there is one score, that of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// What is missing to 1.
    Complement,
    /// The opposite.
    Negative,
}

impl PostTransform {
    /// Of the score of the second of two classes those of both. ONNX does not say what they are; as in ONNX Runtime,
    /// SOFTMAX leaves them as they are.
    pub(crate) fn of_second(self, score: f64, other: Other) -> Vec<f64> {
        let first = match other {
            Other::Complement if self != Self::Logistic => 1.0 - score,
            _ => -score,
        };
        let mut both = vec![first, score];
        if matches!(self, Self::Logistic | Self::Probit) {
            self.apply(&mut both);
        }
        both
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The normal quantile function of `p`, by bisection of the complementary error function's relative.
fn probit(p: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return if p <= 0.0 {
            f64::NEG_INFINITY
        } else if p >= 1.0 {
            f64::INFINITY
        } else {
            f64::NAN
        };
    }
    let below = |x: f64| 0.5 * (1.0 + crate::ops::special::erf(x / std::f64::consts::SQRT_2));
    let (mut low, mut high) = (-40.0f64, 40.0f64);
    while high - low > 1e-15 * low.abs().max(high.abs()).max(1.0) {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The names of classes.
pub(crate) enum Labels<'a> {
    Ints(&'a [i64]),
    Strings(&'a [String]),
}

impl<'a> Labels<'a> {
    /// From the attributes of that name for integers, and `classlabels_strings`.
    pub(crate) fn of(call: &Call<'a>, ints: &str) -> Result<Self> {
        match (call.node.attributes.strings("classlabels_strings")?, call.ints(ints)?) {
            (Some(strings), _) if !strings.is_empty() => Ok(Self::Strings(strings)),
            (_, Some(ints)) if !ints.is_empty() => Ok(Self::Ints(ints)),
            _ => Err(EvalError::InvalidAttribute { name: "classlabels_strings", reason: "there are no labels" }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ints(labels) => labels.len(),
            Self::Strings(labels) => labels.len(),
        }
    }

    /// The label of each row's class.
    pub(crate) fn tensor(&self, classes: &[usize]) -> Result<Tensor> {
        let out_of_range = EvalError::InvalidAttribute { name: "classlabels_strings", reason: "a class has no label" };
        if classes.iter().any(|&class| class >= self.len()) {
            return Err(out_of_range);
        }
        match self {
            Self::Ints(labels) => {
                let found: Vec<i64> = classes.iter().map(|&class| labels[class]).collect();
                write_i64s(&[classes.len()], &found)
            }
            Self::Strings(labels) => {
                let found = classes.iter().map(|&class| labels[class].clone()).collect();
                Ok(Tensor::from_strings(&[classes.len()], found)?)
            }
        }
    }
}

/// The first of the greatest scores.
pub(crate) fn best(scores: &[f64]) -> usize {
    let mut best = 0;
    for (n, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = n;
        }
    }
    best
}
