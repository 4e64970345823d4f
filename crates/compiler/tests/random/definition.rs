//! The steps that ONNX defines some operators by, where what is rounded between them shows in the result: `1 + e^x` has
//! forgotten a small `e^x`, and a logarithm brings that back.
//!
//! A compiler may round every step, as a model does that is written in these steps. So the samples of such an operator
//! ([`crate::evaluate`]) are those of its steps, each off by a rounding, and how far the result may be off is as far as
//! the steps' condition makes it.

use crate::evaluate::{moved, moved_by, rounding};
use crate::random::{Random, cast};
use infc_reference::{Attributes, Node, evaluate};
use infc_tensor::{DType, Tensor};

/// What a step reads.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// An input of the operator.
    Input(usize),
    /// The result of an earlier step.
    Step(usize),
    /// A number of the operator's first input's type.
    Number(f64),
    /// A list of axes or extents.
    List(Vec<i64>),
}

/// An operator that rounds what it reads and what it makes.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    op_type: &'static str,
    inputs: Vec<Operand>,
    attributes: Attributes,
}

/// Steps, of which the last one is the result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definition(Vec<Step>);

impl Definition {
    fn step(&mut self, op_type: &'static str, inputs: &[Operand]) -> Operand {
        self.0.push(Step { op_type, inputs: inputs.to_vec(), attributes: Attributes::new() });
        Operand::Step(self.0.len() - 1)
    }

    /// `log(e^x + 1)`
    pub(crate) fn softplus() -> Self {
        let mut of = Self::default();
        of.add_softplus();
        of
    }

    fn add_softplus(&mut self) -> Operand {
        let power = self.step("Exp", &[Operand::Input(0)]);
        let sum = self.step("Add", &[power, Operand::Number(1.0)]);
        self.step("Log", &[sum])
    }

    /// `x · tanh(softplus(x))`
    pub(crate) fn mish() -> Self {
        let mut of = Self::default();
        let softplus = of.add_softplus();
        let tanh = of.step("Tanh", &[softplus]);
        of.step("Mul", &[Operand::Input(0), tanh]);
        of
    }

    /// `γ·(max(x, 0) + α·(e^(min(x, 0)/δ) − 1))`: `Elu`, `Selu` and `Celu`, which lose a small `x` in `e^x − 1`.
    pub(crate) fn exponential(alpha: f64, gamma: f64, divisor: f64) -> Self {
        let mut of = Self::default();
        let above = of.step("Max", &[Operand::Input(0), Operand::Number(0.0)]);
        let below = of.step("Min", &[Operand::Input(0), Operand::Number(0.0)]);
        let exponent = of.step("Div", &[below, Operand::Number(divisor)]);
        let power = of.step("Exp", &[exponent]);
        let less = of.step("Sub", &[power, Operand::Number(1.0)]);
        let scaled = of.step("Mul", &[less, Operand::Number(alpha)]);
        let sum = of.step("Add", &[above, scaled]);
        of.step("Mul", &[sum, Operand::Number(gamma)]);
        of
    }

    /// `x/2 · (1 + erf(x/√2))`, or `x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))`
    pub(crate) fn gelu(approximate: bool) -> Self {
        let mut of = Self::default();
        let x = || Operand::Input(0);
        let inner = if approximate {
            let cube = of.step("Pow", &[x(), Operand::Number(3.0)]);
            let cube = of.step("Mul", &[cube, Operand::Number(0.044_715)]);
            let sum = of.step("Add", &[x(), cube]);
            let scaled = of.step("Mul", &[sum, Operand::Number((2.0 / std::f64::consts::PI).sqrt())]);
            of.step("Tanh", &[scaled])
        } else {
            let scaled = of.step("Mul", &[x(), Operand::Number(std::f64::consts::FRAC_1_SQRT_2)]);
            of.step("Erf", &[scaled])
        };
        let sum = of.step("Add", &[inner, Operand::Number(1.0)]);
        let half = of.step("Mul", &[x(), Operand::Number(0.5)]);
        of.step("Mul", &[half, sum]);
        of
    }

    /// `e^d / Σ e^d` of `d = x − max x`. The evaluator adds bf16 up as ONNX's own does, with a rounding each time, which ends at
    /// 256 terms.
    pub(crate) fn softmax(axes: &[i64]) -> Self {
        let mut of = Self::default();
        let [_, power, sum] = of.add_powers(axes);
        of.step("Div", &[power, sum]);
        of
    }

    /// `d − log Σ e^d` of `d = x − max x`
    pub(crate) fn log_softmax(axes: &[i64]) -> Self {
        let mut of = Self::default();
        let [below, _, sum] = of.add_powers(axes);
        let log = of.step("Log", &[sum]);
        of.step("Sub", &[below, log]);
        of
    }

    /// `d`, `e^d` and `Σ e^d` of `d = x − max x`.
    fn add_powers(&mut self, axes: &[i64]) -> [Operand; 3] {
        let (x, axes) = (Operand::Input(0), Operand::List(axes.to_vec()));
        let largest = self.step("ReduceMax", &[x.clone(), axes.clone()]);
        let below = self.step("Sub", &[x, largest]);
        let power = self.step("Exp", std::slice::from_ref(&below));
        let sum = self.step("ReduceSum", &[power.clone(), axes]);
        [below, power, sum]
    }

    /// `d` and `E(d²)` of `d = x − E(x)`.
    ///
    /// The mean's rounding is as large as `x` is, and in `d` that may be much, but no operand shows it: where all are off
    /// by something, their mean is as well, and of two numbers `d / √E(d²)` is 1 and −1 wherever they are.
    fn add_deviation(&mut self, axes: &[i64]) -> [Operand; 2] {
        let axes = Operand::List(axes.to_vec());
        let mean = self.step("ReduceMean", &[Operand::Input(0), axes.clone()]);
        let deviation = self.step("Sub", &[Operand::Input(0), mean]);
        let square = self.step("Mul", &[deviation.clone(), deviation.clone()]);
        [deviation, self.step("ReduceMean", &[square, axes])]
    }

    /// `d / (√E(d²) + 1e-9)` of `d = x − E(x)`. ONNX's function has `E(x²) − E(x)²` there, which loses more.
    pub(crate) fn mean_variance(axes: &[i64]) -> Self {
        let mut of = Self::default();
        let [deviation, variance] = of.add_deviation(axes);
        let root = of.step("Sqrt", &[variance]);
        let divisor = of.step("Add", &[root, Operand::Number(1e-9)]);
        of.step("Div", &[deviation, divisor]);
        of
    }

    /// `d / √(E(d²) + ε) · scale + bias` of `d = x − E(x)`, where input 1 is the scale and input 2 the bias, if there is
    /// one, in this shape.
    pub(crate) fn normalized(axes: &[i64], epsilon: f64, parameters: &[usize], has_bias: bool) -> Self {
        let mut of = Self::default();
        let [deviation, variance] = of.add_deviation(axes);
        let sum = of.step("Add", &[variance, Operand::Number(epsilon)]);
        let root = of.step("Sqrt", &[sum]);
        let mut result = of.step("Div", &[deviation, root]);
        let shape = Operand::List(parameters.iter().map(|&extent| extent as i64).collect());
        for (input, op_type) in [(1, "Mul"), (2, "Add")].into_iter().take(1 + usize::from(has_bias)) {
            let parameter = of.step("Reshape", &[Operand::Input(input), shape.clone()]);
            result = of.step(op_type, &[result, parameter]);
        }
        of
    }

    /// The negative logarithm of the likelihood of classes, of what [`Definition::log_softmax`] gives.
    pub(crate) fn cross_entropy(inputs: usize, attributes: &Attributes) -> Self {
        let mut of = Self::log_softmax(&[1]);
        let scores = Operand::Step(of.0.len() - 1);
        let inputs: Vec<Operand> = std::iter::once(scores).chain((1..inputs).map(Operand::Input)).collect();
        of.step("NegativeLogLikelihoodLoss", &inputs);
        if let Some(last) = of.0.last_mut() {
            last.attributes = attributes.clone();
        }
        of
    }

    /// A function of real numbers between quantized ones: scales and zero points are inputs 1 and 2, 3 and 4.
    pub(crate) fn between_bytes(op_type: &'static str, attributes: &Attributes) -> Self {
        let mut of = Self::default();
        let [x, x_scale, x_zero, y_scale, y_zero] = [0, 1, 2, 3, 4].map(Operand::Input);
        let real = of.step("DequantizeLinear", &[x, x_scale, x_zero]);
        let result = of.step(op_type, &[real]);
        if let Some(step) = of.0.last_mut() {
            step.attributes = attributes.clone();
        }
        of.step("QuantizeLinear", &[result, y_scale, y_zero]);
        of
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The result where every step is off by a rounding; `None` where a step makes no sense.
    pub(crate) fn evaluate(&self, opset: i64, inputs: &[Option<&Tensor>], random: &mut Random) -> Option<Tensor> {
        let dtype = inputs.first().copied().flatten()?.dtype();
        let mut results: Vec<Tensor> = Vec::new();
        for Step { op_type, inputs: reads, attributes } in &self.0 {
            let mut operands = Vec::new();
            for operand in reads {
                operands.push(match operand {
                    Operand::Input(n) => inputs.get(*n).copied().flatten().cloned(),
                    Operand::Step(n) => Some(results[*n].clone()),
                    Operand::Number(x) => Some(number(*x, dtype)),
                    Operand::List(list) => Some(Tensor::from_elements(&[list.len()], list).ok()?),
                });
            }
            let operands: Vec<Option<Tensor>> =
                operands.into_iter().map(|x| x.map(|x| moved(&x, 0.0, random))).collect();
            let operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
            // Before that, reductions have their axes as an attribute.
            let opset = if op_type.starts_with("Reduce") { opset.max(18) } else { opset };
            let node = Node { op_type, domain: "", opset, attributes, num_outputs: 1 };
            let result = evaluate(&node, &operands).ok()?.swap_remove(0);
            // Which integer stands for no number (the mean of nothing) is left open.
            if result.dtype().is_int() && operands.first().copied().flatten().is_some_and(has_nan) {
                return None;
            }
            let beside =
                if matches!(*op_type, "ReduceSum" | "ReduceMean") { long_sum(operands[0], &result) } else { 0.0 };
            results.push(moved_by(rounding(result.dtype()) + beside, &result, 0.0, random));
        }
        results.pop()
    }
}

/// How much more than by a rounding a sum is off: the terms that it has are equal now and then, so that one after the other is
/// rounded the same way, by half a unit at most, where `--strict` adds them one after the other. What is allowed of a rounding
/// is enough for some hundreds. Halves are summed as f32.
fn long_sum(x: Option<&Tensor>, sums: &Tensor) -> f64 {
    let terms = x.map_or(0, Tensor::len_elems) / sums.len_elems().max(1);
    let by = rounding(if sums.dtype() == DType::F64 { DType::F64 } else { DType::F32 });
    by * (terms as f64 / 512.0 - 1.0).max(0.0)
}

fn has_nan(x: &Tensor) -> bool {
    (0..x.len_elems()).any(|n| x.get_f64(n).is_some_and(f64::is_nan))
}

fn number(x: f64, dtype: DType) -> Tensor {
    cast(&Tensor::scalar(x), dtype)
}

/// How large the numbers are, for these operands, whose roundings an operator adds to its results besides.
pub(crate) type Beside = fn(&[Option<&Tensor>]) -> f64;

/// Of `GRU`: `1 − z` of a gate `z` that is nearly 1 is off by a rounding of 1. It is the weight of a state of at most 1, and
/// later gates, which are at most 1, add up what the steps are off by.
pub(crate) fn gates_left_over(inputs: &[Option<&Tensor>]) -> f64 {
    let steps = inputs.first().copied().flatten().map_or(0, |x| x.shape().iter().take(2).copied().max().unwrap_or(0));
    steps as f64
}
