//! `SVMRegressor` and `SVMClassifier`.
//!
//! Pairs of classes vote; probabilities of pairs are coupled as in Wu, Lin and Weng, "Probability Estimates for
//! Multi-class Classification by Pairwise Coupling", 2004, method 2.

use super::Rows;
use super::post::{Labels, Other, PostTransform, best};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::check_work;
use crate::numeric::write_f64_as;
use infc_tensor::{DType, Tensor};

/// Steps of the coupling at most, as libsvm has it.
const MAX_COUPLING_STEPS: usize = 100;

#[derive(Clone, Copy)]
enum Kernel {
    Linear,
    Poly,
    Rbf,
    Sigmoid,
}

struct Machine<'a> {
    kernel: Kernel,
    gamma: f64,
    coef0: f64,
    degree: f64,
    vectors: &'a [f32],
    coefficients: &'a [f32],
    rho: &'a [f32],
}

impl<'a> Machine<'a> {
    fn of(call: &Call<'a>) -> Result<Self> {
        let list = |name| -> Result<&'a [f32]> { Ok(call.node.attributes.floats(name)?.unwrap_or_default()) };
        let parameters = list("kernel_params")?;
        let parameter = |n: usize| parameters.get(n).copied().map_or(0.0, f64::from);
        let kernel = match call.string("kernel_type", "LINEAR")? {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Poly,
            "RBF" => Kernel::Rbf,
            "SIGMOID" => Kernel::Sigmoid,
            _ => return Err(EvalError::InvalidAttribute { name: "kernel_type", reason: "it is not known" }),
        };
        Ok(Self {
            kernel,
            gamma: parameter(0),
            coef0: parameter(1),
            degree: parameter(2),
            vectors: list("support_vectors")?,
            coefficients: list("coefficients")?,
            rho: list("rho")?,
        })
    }

    fn kernel(&self, x: &[f64], y: &[f32]) -> f64 {
        let product = || x.iter().zip(y).map(|(a, &b)| a * f64::from(b)).sum::<f64>();
        match self.kernel {
            Kernel::Linear => product(),
            Kernel::Poly => (self.gamma * product() + self.coef0).powf(self.degree),
            Kernel::Sigmoid => (self.gamma * product() + self.coef0).tanh(),
            Kernel::Rbf => {
                let distance: f64 = x.iter().zip(y).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
                (-self.gamma * distance).exp()
            }
        }
    }

    fn rho(&self, n: usize) -> Result<f64> {
        let bad = EvalError::InvalidAttribute { name: "rho", reason: "it is too short" };
        self.rho.get(n).copied().map(f64::from).ok_or(bad)
    }

    /// The kernel of a row with every support vector.
    fn kernels(&self, row: &[f64]) -> Vec<f64> {
        self.vectors.chunks_exact(row.len().max(1)).map(|vector| self.kernel(row, vector)).collect()
    }
}

/// `SVMRegressor`: `[rows, 1]`.
pub(crate) fn regress(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (rows, machine, post) = (Rows::of(call.input(0)?)?, Machine::of(call)?, PostTransform::of(call)?);
    let one_class = call.flag("one_class", false)?;
    let count = usize::try_from(call.int("n_supports", 0)?).unwrap_or(0);
    check_work([&rows.count, &rows.width, &count.max(1)])?;
    if count > 0 {
        super::long_enough(machine.vectors, count.saturating_mul(rows.width), "support_vectors")?;
        super::long_enough(machine.coefficients, count, "coefficients")?;
    } else {
        super::long_enough(machine.coefficients, rows.width, "coefficients")?;
    }
    let mut values = Vec::with_capacity(rows.count);
    for row in rows.iter() {
        let sum: f64 = if count > 0 {
            machine.kernels(row).iter().zip(machine.coefficients).map(|(k, &c)| k * f64::from(c)).sum()
        } else {
            machine.kernel(row, machine.coefficients)
        };
        let sum = sum + machine.rho(0)?;
        let mut value = [if one_class { if sum > 0.0 { 1.0 } else { -1.0 } } else { sum }];
        post.apply(&mut value);
        values.push(value[0]);
    }
    one(write_f64_as(DType::F32, &[rows.count, 1], values.into_iter())?)
}

/// `SVMClassifier`: the class of each row, and scores: of classes, or of pairs of more than two.
pub(crate) fn classify(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (rows, machine, post) = (Rows::of(call.input(0)?)?, Machine::of(call)?, PostTransform::of(call)?);
    let labels = Labels::of(call, "classlabels_ints")?;
    let list = |name| -> Result<&[f32]> { Ok(call.node.attributes.floats(name)?.unwrap_or_default()) };
    let (prob_a, prob_b) = (list("prob_a")?, list("prob_b")?);
    let per_class: Vec<usize> = crate::shape::dims(call.ints("vectors_per_class")?.unwrap_or_default())?;
    let classes = labels.len();
    check_work([&rows.count, &rows.width, &machine.vectors.len().max(1)])?;
    check_work([&rows.count, &classes, &classes, &MAX_COUPLING_STEPS])?;
    if machine.vectors.is_empty() {
        return classify_linear(&rows, &machine, &labels, post);
    }
    super::long_enough(&per_class, classes, "vectors_per_class")?;
    let count = per_class.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    let count = count.ok_or(EvalError::TooMuchWork { limit: u64::MAX })?;
    super::long_enough(machine.vectors, count.saturating_mul(rows.width), "support_vectors")?;
    super::long_enough(machine.coefficients, count.saturating_mul(classes.saturating_sub(1)), "coefficients")?;
    let starts: Vec<usize> = per_class.iter().scan(0, |at, &n| Some(std::mem::replace(at, *at + n))).collect();
    let pairs = classes * classes.saturating_sub(1) / 2;
    let with_probabilities = !prob_a.is_empty();
    if with_probabilities {
        super::long_enough(prob_a, pairs, "prob_a")?;
        super::long_enough(prob_b, pairs, "prob_b")?;
    }
    let width = if with_probabilities || classes == 2 { classes } else { pairs };
    let (mut found, mut all) = (Vec::with_capacity(rows.count), Vec::new());
    for row in rows.iter() {
        let kernels = machine.kernels(row);
        let mut decisions = Vec::with_capacity(pairs);
        let mut votes = vec![0.0; classes];
        for i in 0..classes {
            for j in i + 1..classes {
                // Row j − 1 of the coefficients has what class i says against j, and row i what j says against i.
                let part = |class: usize, against: usize| {
                    let range = starts[class]..starts[class] + per_class[class];
                    let coefficients = &machine.coefficients[against * count..(against + 1) * count];
                    range.map(|n| f64::from(coefficients[n]) * kernels[n]).sum::<f64>()
                };
                let sum = part(i, j - 1) + part(j, i) + machine.rho(decisions.len())?;
                votes[if sum > 0.0 { i } else { j }] += 1.0;
                decisions.push(sum);
            }
        }
        let mut scores = if with_probabilities {
            let pairwise: Vec<f64> = decisions
                .iter()
                .enumerate()
                .map(|(n, d)| {
                    let exponent = d * f64::from(prob_a[n]) + f64::from(prob_b[n]);
                    (1.0 / (1.0 + exponent.exp())).clamp(1e-7, 1.0 - 1e-7)
                })
                .collect();
            couple(classes, &pairwise)
        } else {
            decisions
        };
        // Votes decide, as in libsvm, also where another class is the more probable.
        found.push(best(&votes));
        if classes == 2 && !with_probabilities {
            let other = if post == PostTransform::None { Other::Negative } else { Other::Complement };
            scores = post.of_second(scores[0], other);
        } else {
            post.apply(&mut scores);
        }
        all.extend(scores);
    }
    Ok(vec![labels.tensor(&found)?, write_f64_as(DType::F32, &[rows.count, width], all.into_iter())?])
}

/// A linear machine: a score per class.
fn classify_linear(
    rows: &Rows,
    machine: &Machine<'_>,
    labels: &Labels<'_>,
    post: PostTransform,
) -> Result<Vec<Tensor>> {
    let classes = labels.len();
    super::long_enough(machine.coefficients, classes.saturating_mul(rows.width), "coefficients")?;
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for row in rows.iter() {
        let weights = machine.coefficients.chunks_exact(rows.width.max(1));
        let mut scores = Vec::with_capacity(classes);
        for weights in weights {
            scores.push(machine.kernel(row, weights) + machine.rho(0)?);
        }
        scores.resize(classes, machine.rho(0)?);
        found.push(best(&scores));
        post.apply(&mut scores);
        all.extend(scores);
    }
    Ok(vec![labels.tensor(&found)?, write_f64_as(DType::F32, &[rows.count, classes], all.into_iter())?])
}

/// Probabilities of classes from those of pairs, `pairwise` in the order (0, 1), (0, 2), …, (1, 2), …
fn couple(classes: usize, pairwise: &[f64]) -> Vec<f64> {
    let mut r = vec![vec![0.0; classes]; classes];
    let pairs = (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j)));
    for ((i, j), p) in pairs.zip(pairwise.iter().copied().chain(std::iter::repeat(0.5))) {
        (r[i][j], r[j][i]) = (p, 1.0 - p);
    }
    let mut q = vec![vec![0.0; classes]; classes];
    for t in 0..classes {
        for j in 0..classes {
            if j != t {
                q[t][t] += r[j][t] * r[j][t];
                q[t][j] = -r[j][t] * r[t][j];
            }
        }
    }
    let mut p = vec![1.0 / classes as f64; classes];
    for _ in 0..MAX_COUPLING_STEPS.max(classes) {
        let mut qp: Vec<f64> = (0..classes).map(|t| (0..classes).map(|j| q[t][j] * p[j]).sum()).collect();
        let mut pqp: f64 = (0..classes).map(|t| p[t] * qp[t]).sum();
        let worst = qp.iter().map(|v| (v - pqp).abs()).fold(0.0, f64::max);
        if worst < 0.005 / classes as f64 {
            break;
        }
        for t in 0..classes {
            let step = (pqp - qp[t]) / q[t][t];
            p[t] += step;
            pqp = (pqp + step * (step * q[t][t] + 2.0 * qp[t])) / ((1.0 + step) * (1.0 + step));
            for j in 0..classes {
                qp[j] = (qp[j] + step * q[t][j]) / (1.0 + step);
                p[j] /= 1.0 + step;
            }
        }
    }
    p
}
