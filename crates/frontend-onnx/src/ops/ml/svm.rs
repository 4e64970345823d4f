//! Support vector machines: SVMRegressor and SVMClassifier.
//!
//! A function of each row and each support vector, and sums of these with coefficients: for each pair of classes one, which
//! votes. Probabilities, which are coupled step by step, are left to the host.

use super::post::{Labels, Other, PostTransform, with_numbers};
use super::tables::{MAX_TABLE, floats};
use super::{Operator, table};
use crate::build::{Builder, Result, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::matmul;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("SVMClassifier", 1, classify), Operator::new("SVMRegressor", 1, regress)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Linear,
    Poly,
    Rbf,
    Sigmoid,
}

/// What both operators have.
struct Machine {
    kernel: Kernel,
    gamma: f64,
    coef0: f64,
    degree: f64,
    vectors: Vec<f32>,
    coefficients: Vec<f32>,
    rho: Vec<f32>,
}

impl Machine {
    fn of(call: &Call<'_>) -> Result<Self> {
        let list = |name: &'static str| Ok(call.floats(name)?.unwrap_or_default().to_vec());
        let parameters: Vec<f32> = list("kernel_params")?;
        let parameter = |n: usize| parameters.get(n).copied().map_or(0.0, f64::from);
        let kernel = match call.string("kernel_type", "LINEAR")?.as_str() {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Poly,
            "RBF" => Kernel::Rbf,
            "SIGMOID" => Kernel::Sigmoid,
            other => {
                let expected = "LINEAR, POLY, RBF or SIGMOID";
                return Err(Problem::InvalidAttribute { attribute: "kernel_type", expected, found: other.to_owned() });
            }
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

    /// The function of each row `[rows, features]` and each of so many vectors, `[rows, vectors]`.
    fn kernels(&self, build: &mut Builder, x: &Tracked, vectors: &[f32], count: usize) -> Result<Tracked> {
        let features = vectors.len() / count.max(1);
        let attribute = "support_vectors";
        if features * count != vectors.len() || !x.shape()[1].is_const(features as i64) {
            let (expected, found) = ("as many as features and vectors together", vectors.len().to_string());
            return Err(Problem::UnsupportedAttribute { attribute, expected, found });
        }
        let dtype = x.dtype();
        let by_feature = (0..features).flat_map(|f| (0..count).map(move |n| n * features + f));
        let table = floats(build, attribute, dtype, &[features, count], by_feature.map(|at| f64::from(vectors[at])));
        if self.kernel == Kernel::Rbf {
            let shape = vec![x.shape()[0].clone(), Dim::constant(features as i64), Dim::constant(count as i64)];
            let rows = build.view(x, vec![var(0), var(1)], shape.clone())?;
            let vectors = build.view(&table, vec![var(1), var(2)], shape)?;
            let squares = build.reduce(&[&rows, &vectors], &[1], Reducer::sum(dtype), |body, p| {
                let apart = body.binary(BinaryOp::Sub, p[0], p[1]);
                vec![body.binary(BinaryOp::Mul, apart, apart)]
            })?;
            return build.map(&[&squares[0]], |body, p| {
                let gamma = body.constant(dtype, -self.gamma);
                let scaled = body.binary(BinaryOp::Mul, gamma, p[0]);
                body.unary(UnaryOp::Exp, scaled)
            });
        }
        let products = matmul::product(build, x, &table, dtype)?;
        if self.kernel == Kernel::Linear {
            return Ok(products);
        }
        build.map(&[&products], |body, p| {
            let [gamma, coef0, degree] = [self.gamma, self.coef0, self.degree].map(|n| body.constant(dtype, n));
            let scaled = body.binary(BinaryOp::Mul, gamma, p[0]);
            let moved = body.binary(BinaryOp::Add, scaled, coef0);
            match self.kernel {
                Kernel::Poly => body.binary(BinaryOp::Pow, moved, degree),
                _ => body.unary(UnaryOp::Tanh, moved),
            }
        })
    }

    fn rho(&self, count: usize) -> Result<Vec<f64>> {
        let few = || Problem::InvalidAttribute {
            attribute: "rho",
            expected: "a number for each score",
            found: self.rho.len().to_string(),
        };
        Ok(self.rho.get(..count).ok_or_else(few)?.iter().map(|&v| f64::from(v)).collect())
    }
}

/// `SVMRegressor`: `[rows, 1]`, of `f32`.
fn regress(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (machine, post, one_class) = (Machine::of(call)?, PostTransform::of(call)?, call.flag("one_class", false)?);
    let count = usize::try_from(call.int_or("n_supports", 0)?).unwrap_or(0);
    let x = call.input(0)?;
    let build = &mut *call.build;
    let x = table(build, &x)?;
    let sum = if count > 0 {
        let kernels = machine.kernels(build, &x, &machine.vectors, count)?;
        weighted(build, &kernels, &[count, 1], machine.coefficients.iter().map(|&c| f64::from(c)))?
    } else {
        machine.kernels(build, &x, &machine.coefficients, 1)?
    };
    let sum = with_numbers(build, &sum, "rho", machine.rho(1)?.into_iter())?;
    let value = build.map(&[&sum], |body, p| {
        if !one_class {
            return p[0];
        }
        let [zero, one, less] = [0.0, 1.0, -1.0].map(|n| body.constant(body.dtype(p[0]), n));
        let is_in = body.compare(CompareOp::Gt, p[0], zero);
        body.select(is_in, one, less)
    })?;
    let value = post.apply(build, &value)?;
    Ok(vec![build.cast(&value, DType::F32)?])
}

/// Sums of the columns of `[rows, columns]` with weights `[columns, sums]`.
fn weighted(
    build: &mut Builder,
    x: &Tracked,
    shape: &[usize; 2],
    weights: impl ExactSizeIterator<Item = f64>,
) -> Result<Tracked> {
    if weights.len() != shape[0] * shape[1] {
        let (expected, found) = ("as many as there are support vectors", weights.len().to_string());
        return Err(Problem::InvalidAttribute { attribute: "coefficients", expected, found });
    }
    let weights = floats(build, "coefficients", x.dtype(), shape, weights);
    matmul::product(build, x, &weights, x.dtype())
}

/// `SVMClassifier`: the label of each row, and scores of pairs of classes; of classes, if there are two or no vectors.
fn classify(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (machine, post) = (Machine::of(call)?, PostTransform::of(call)?);
    let labels = Labels::of(call, "classlabels_ints")?;
    if let Some(found) = call.floats("prob_a")?.filter(|list| !list.is_empty()) {
        let (attribute, expected) = ("prob_a", "none in a kernel");
        return Err(Problem::UnsupportedAttribute { attribute, expected, found: found.len().to_string() });
    }
    let per_class = call.ints("vectors_per_class")?.unwrap_or_default().to_vec();
    let classes = labels.len();
    let x = call.input(0)?;
    let build = &mut *call.build;
    let x = table(build, &x)?;
    let (found, scores) = if machine.vectors.is_empty() {
        let scores = machine.kernels(build, &x, &machine.coefficients, classes)?;
        let rho = machine.rho(1)?[0];
        let scores = with_numbers(build, &scores, "rho", vec![rho; classes].into_iter())?;
        (labels.of_best(build, &scores)?, post.apply(build, &scores)?)
    } else {
        let decisions = machine.decisions(build, &x, &per_class, classes)?;
        let votes = votes(build, &decisions, classes)?;
        let scores = if classes == 2 {
            let other = if post == PostTransform::None { Other::Negative } else { Other::Complement };
            post.apply_to_second(build, &decisions, other)?
        } else {
            post.apply(build, &decisions)?
        };
        (labels.of_best(build, &votes)?, scores)
    };
    Ok(vec![found, build.cast(&scores, DType::F32)?])
}

/// Pairs of classes, the lesser number first.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)))
}

impl Machine {
    /// What is said for the first class of each pair, `[rows, pairs]`.
    fn decisions(&self, build: &mut Builder, x: &Tracked, per_class: &[i64], classes: usize) -> Result<Tracked> {
        let refused = |found: String| Problem::InvalidAttribute {
            attribute: "vectors_per_class",
            expected: "how many vectors each class has, and as many coefficients for each other class",
            found,
        };
        let mut class_of: Vec<usize> = Vec::new();
        for (class, &count) in per_class.iter().enumerate() {
            // Vectors have a feature at least.
            let count = usize::try_from(count).ok().filter(|&n| n <= self.vectors.len() - class_of.len());
            let count = count.ok_or_else(|| refused(format!("{per_class:?}")))?;
            class_of.extend(std::iter::repeat_n(class, count));
        }
        let count = class_of.len();
        if classes < 2 || per_class.len() != classes || count.checked_mul(classes - 1) != Some(self.coefficients.len())
        {
            return Err(refused(format!("{per_class:?}")));
        }
        if classes.saturating_mul(classes).saturating_mul(count.max(classes)) > MAX_TABLE {
            let (attribute, expected) = ("vectors_per_class", "few classes in a kernel");
            return Err(Problem::UnsupportedAttribute { attribute, expected, found: classes.to_string() });
        }
        let kernels = self.kernels(build, x, &self.vectors, count)?;
        let all: Vec<(usize, usize)> = pairs(classes).collect();
        // Row j − 1 of the coefficients has what class i says against j, and row i what j says against i.
        let weight = |vector: usize, (i, j): (usize, usize)| match class_of[vector] {
            class if class == i => f64::from(self.coefficients[(j - 1) * count + vector]),
            class if class == j => f64::from(self.coefficients[i * count + vector]),
            _ => 0.0,
        };
        let weights: Vec<f64> = (0..count)
            .flat_map(|vector| all.iter().map(move |&pair| (vector, pair)))
            .map(|(v, p)| weight(v, p))
            .collect();
        let sums = weighted(build, &kernels, &[count, all.len()], weights.into_iter())?;
        with_numbers(build, &sums, "rho", self.rho(all.len())?.into_iter())
    }
}

/// How many pairs each class wins, `[rows, classes]`, of what is said for the first class of each.
fn votes(build: &mut Builder, decisions: &Tracked, classes: usize) -> Result<Tracked> {
    let dtype = decisions.dtype();
    let wins = build.map(&[decisions], |body, p| {
        let zero = body.constant(dtype, 0.0);
        let first = body.compare(CompareOp::Gt, p[0], zero);
        body.cast(dtype, first)
    })?;
    let of_pair = pairs(classes)
        .flat_map(|(i, j)| (0..classes).map(move |class| f64::from(i8::from(class == i) - i8::from(class == j))));
    let of_pair: Vec<f64> = of_pair.collect();
    let votes = weighted(build, &wins, &[of_pair.len() / classes, classes], of_pair.into_iter())?;
    // A pair that is not won by its first class is by its second.
    let second = (0..classes).map(|class| class as f64);
    with_numbers(build, &votes, "votes", second)
}
