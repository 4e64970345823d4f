//! Operators that compute element by element.

use super::Drawer;
use crate::definition::Definition;
use crate::draft::{Candidate, Draft, is_float};
use infc_tensor::DType;

pub(super) const DRAWERS: &[Drawer] = &[
    function,
    activation,
    exact_function,
    arithmetic,
    arithmetic,
    compare,
    logic,
    bits,
    shift,
    choose,
    clip,
    variadic,
    swiglu,
];

fn function(d: &mut Draft) -> Option<Candidate> {
    let of =
        ["Exp", "Log", "Sqrt", "Erf", "Tanh", "Sigmoid", "Softplus", "Softsign", "Mish", "HardSwish", "Reciprocal"];
    let more = ["Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"];
    let op = *d.random.pick(&[of, more].concat());
    let x = d.float()?;
    let candidate = Candidate::new(op, &[x]);
    Some(match op {
        "Softplus" => candidate.defined_by(Definition::softplus()),
        "Mish" => candidate.defined_by(Definition::mish()),
        _ => candidate,
    })
}

fn activation(d: &mut Draft) -> Option<Candidate> {
    let x = d.float()?;
    let number = |d: &mut Draft| d.random.between(1, 8) as f32 / 4.0;
    let op = *d.random.pick(&["LeakyRelu", "HardSigmoid", "Elu", "Celu", "Selu", "ThresholdedRelu", "Shrink", "Gelu"]);
    let candidate = Candidate::new(op, &[x]);
    Some(match op {
        "HardSigmoid" => candidate.with("alpha", number(d)).with("beta", number(d)),
        "Selu" => {
            let (alpha, gamma) = (number(d), number(d));
            let definition = Definition::exponential(alpha.into(), gamma.into(), 1.0);
            candidate.with("alpha", alpha).with("gamma", gamma).defined_by(definition)
        }
        "Elu" | "Celu" => {
            let alpha = number(d);
            let divisor = if op == "Celu" { alpha.into() } else { 1.0 };
            candidate.with("alpha", alpha).defined_by(Definition::exponential(alpha.into(), 1.0, divisor))
        }
        "Shrink" => candidate.with("lambd", number(d)).with("bias", number(d)),
        "Gelu" => {
            let approximate = d.random.one_in(2);
            let candidate = candidate.with("approximate", if approximate { "tanh" } else { "none" });
            candidate.defined_by(Definition::gelu(approximate))
        }
        _ => candidate.with("alpha", number(d)),
    })
}

fn exact_function(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Relu", "IsNaN", "IsInf", "Identity"]);
    let fits = |dtype: DType| match op {
        "Identity" => true,
        "Neg" => is_float(dtype) || matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64),
        "Floor" | "Ceil" | "Round" | "IsNaN" | "IsInf" => is_float(dtype),
        _ => dtype != DType::Bool,
    };
    let x = d.any(|t| fits(t.dtype()))?;
    Some(Candidate::new(op, &[x]).exact())
}

fn arithmetic(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mod"]);
    let a = d.any(|t| t.dtype() != DType::Bool)?;
    let b = d.partner(a);
    let (a, b) = if d.random.one_in(2) && op != "PRelu" { (b, a) } else { (a, b) };
    let float = is_float(d.dtype(a));
    let candidate = Candidate::new(op, &[a, b]);
    let candidate = if op == "Mod" && (float || d.random.one_in(3)) { candidate.with("fmod", 1i64) } else { candidate };
    Some(if float && !matches!(op, "Max" | "Min" | "Mod") { candidate } else { candidate.exact() })
}

fn compare(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]);
    let a = d.any(|t| t.dtype() != DType::Bool || op == "Equal")?;
    let b = d.partner(a);
    Some(Candidate::new(op, &[a, b]).exact())
}

fn logic(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|t| t.dtype() == DType::Bool)?;
    if d.random.one_in(4) {
        return Some(Candidate::new("Not", &[a]).exact());
    }
    let op = *d.random.pick(&["And", "Or", "Xor"]);
    let b = d.partner(a);
    Some(Candidate::new(op, &[a, b]).exact())
}

fn bits(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|t| t.dtype().is_int())?;
    if d.random.one_in(4) {
        return Some(Candidate::new("BitwiseNot", &[a]).exact());
    }
    let op = *d.random.pick(&["BitwiseAnd", "BitwiseOr", "BitwiseXor"]);
    let b = d.partner(a);
    Some(Candidate::new(op, &[a, b]).exact())
}

fn shift(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|t| matches!(t.dtype(), DType::U8 | DType::U16 | DType::U32 | DType::U64))?;
    let b = d.partner(a);
    let direction = *d.random.pick(&["LEFT", "RIGHT"]);
    Some(Candidate::new("BitShift", &[a, b]).with("direction", direction).exact())
}

fn choose(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|_| true)?;
    let b = d.partner(a);
    let shape = d.shape(a);
    let fits = |t: &[usize]| t.iter().rev().zip(shape.iter().rev()).all(|(x, y)| x == y || *x == 1 || *y == 1);
    let condition = d.any(|t| t.dtype() == DType::Bool && fits(t.shape()));
    let condition = condition.unwrap_or_else(|| d.weight(DType::Bool, &shape));
    Some(Candidate::new("Where", &[condition, a, b]).exact())
}

fn clip(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() != DType::Bool)?;
    let bound = |d: &mut Draft| {
        let dtype = d.dtype(x);
        (!d.random.one_in(3)).then(|| d.weight(dtype, &[]))
    };
    let (low, high) = (bound(d), bound(d));
    Some(Candidate::new("Clip", &[x]).input(low).input(high).exact())
}

fn variadic(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["Sum", "Mean", "Max", "Min"]);
    let a = d.float()?;
    let (b, c) = (d.partner(a), d.partner(a));
    Some(Candidate::new(op, &[a, b, c]))
}

fn swiglu(d: &mut Draft) -> Option<Candidate> {
    let gate = d.float().filter(|_| d.opset >= 28)?;
    let (dtype, shape) = (d.dtype(gate), d.shape(gate));
    let value = d.any(|t| t.dtype() == dtype && t.shape() == shape)?;
    let candidate = Candidate::new("SwiGLU", &[gate, value]);
    let alpha = d.random.between(1, 8) as f32 / 4.0;
    Some(if d.random.one_in(2) { candidate.with("alpha", alpha) } else { candidate })
}
