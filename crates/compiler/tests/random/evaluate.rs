//! Evaluating drawn nodes by definition, with samples that show how much roundings matter.
//!
//! Every value has a nominal tensor, and others, for which the operands and results of every node that rounds were moved
//! by about a rounding, in random directions (Monte Carlo arithmetic, Parker 1997). Where the samples of a value differ,
//! it depends that much on rounding, and a compiler that rounds elsewhere may be off as much. Where integers or bools
//! differ, or floats by a lot, the value says nothing, and its node is not drawn.
//!
//! Moving operands suffices for what is backward stable: sums, products, and functions whose result is off by a rounding of
//! itself. What ONNX defines by steps between which more is lost is moved step by step ([`crate::definition`]).
//!
//! Random directions never meet 0, where `NonZero`, `Sign` or a remainder jump. So in the last sample everything is 0
//! that is 0 within what the others differ, or so small that its square is. And random directions may all lead to
//! one side of a tie, so a node is also evaluated with everything that is off going one way, and the other.

use crate::definition::{Beside, Definition};
use crate::random::{Random, cast, part_of};
use infc_reference::{Attributes, Node, evaluate, evaluate_with};
use infc_tensor::{AlignedBytes, DType, Subgraphs, Tensor};

/// The nominal tensor, those that are moved, and the one that is 0 where it may be.
pub(crate) const SAMPLES: usize = 6;

/// Larger results are not drawn: they would dominate everything that follows.
const LARGEST: f64 = 1e3;

/// An operator with its attributes.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) op_type: &'static str,
    /// Empty for ONNX's own.
    pub(crate) domain: &'static str,
    /// The graphs within; the last inputs are what these take from around the node.
    pub(crate) graphs: Subgraphs,
    pub(crate) attributes: Attributes,
    pub(crate) outputs: usize,
    /// Whether its results hold without any rounding.
    pub(crate) exact: bool,
    /// The steps that it is defined by, if what is rounded between them shows; else none.
    pub(crate) definition: Definition,
    /// What else it adds roundings of.
    pub(crate) beside: Option<Beside>,
}

/// About how far an operation may be off, relative to its operands: two roundings of halves, which are computed in f32;
/// sixteen of f32, as many as a sum of some hundreds of terms adds up (the root of their number, since they have either sign).
pub(crate) fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        DType::F32 => 1e-6,
        DType::F64 => 1e-13,
        _ => 0.0,
    }
}

/// Off by a rounding of every element, and one of something else of the given size.
pub(crate) fn moved(x: &Tensor, beside: f64, random: &mut Random) -> Tensor {
    moved_by(rounding(x.dtype()), x, beside, random)
}

/// The same by other than a rounding.
pub(crate) fn moved_by(by: f64, x: &Tensor, beside: f64, random: &mut Random) -> Tensor {
    if by == 0.0 {
        return x.clone();
    }
    let element = |n: usize| x.get_f64(n).expect("floats of whole bytes");
    let mut number = |n| element(n) * (1.0 + by * random.signed_unit()) + by * beside * random.signed_unit();
    let numbers: Vec<f64> = (0..x.len_elems()).map(&mut number).collect();
    cast(&Tensor::from_elements(x.shape(), &numbers).expect("the same shape"), x.dtype())
}

/// The last of the samples with 0 wherever the samples differ by as much as the nominal one is.
fn snap(samples: &mut [Tensor]) {
    let Some((last, others)) = samples.split_last_mut() else { return };
    let nominal = &others[0];
    if rounding(nominal.dtype()) == 0.0 || others.iter().any(|x| x.shape() != last.shape()) {
        return;
    }
    // Smaller types are computed in f32.
    let tiny = if nominal.dtype() == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }.sqrt();
    let element = |x: &Tensor, n: usize| x.get_f64(n).unwrap_or(0.0);
    let snapped = |n: usize| {
        let at = element(nominal, n);
        let spread = others.iter().map(|x| (element(x, n) - at).abs()).fold(0.0, f64::max);
        if at.abs() <= (2.0 * spread).max(tiny) { 0.0 } else { element(last, n) }
    };
    let numbers: Vec<f64> = (0..last.len_elems()).map(snapped).collect();
    *last = cast(&Tensor::from_elements(last.shape(), &numbers).expect("the same shape"), nominal.dtype());
}

/// The samples of the results, per result; `None` if the operation does not make sense here, or says nothing.
pub(crate) fn samples(
    operation: &Operation,
    opset: i64,
    inputs: &[Option<&Vec<Tensor>>],
    random: &mut Random,
) -> Option<Vec<Vec<Tensor>>> {
    let (op_type, attributes, num_outputs) = (operation.op_type, &operation.attributes, operation.outputs);
    let node = Node { op_type, domain: operation.domain, opset, attributes, num_outputs };
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); num_outputs];
    for sample in 0..SAMPLES {
        let rounds = sample > 0 && !operation.exact;
        let operand = |x: &Option<&Vec<Tensor>>, random: &mut Random| {
            x.map(|x| if rounds { moved(&x[sample], 0.0, random) } else { x[sample].clone() })
        };
        let operands: Vec<Option<Tensor>> = inputs.iter().map(|x| operand(x, random)).collect();
        let operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
        let steps = rounds && !operation.definition.is_empty();
        let outputs = match operation.graphs.is_empty() {
            true if steps => vec![operation.definition.evaluate(opset, &operands, random)?],
            true => evaluate(&node, &operands).ok()?,
            false => evaluate_with(&node, &operation.graphs, &operands).ok()?,
        };
        if !is_defined(op_type, &operands, &outputs) || !is_within_range(&node, &operands) {
            return None;
        }
        let beside = operation.beside.map_or(0.0, |beside| beside(&operands));
        for (all, output) in results.iter_mut().zip(outputs) {
            all.push(if rounds { moved(&output, beside, random) } else { output });
        }
    }
    if !stays(operation, &node, inputs, &results) {
        return None;
    }
    if !operation.exact {
        results.iter_mut().for_each(|samples| snap(samples));
    }
    results.iter().all(|result| result.len() == SAMPLES && is_telling(result)).then_some(results)
}

/// Whether ONNX says what these results are: conversions of floats to integers that cannot hold them are left open, and so
/// are scans of nothing.
fn is_defined(op_type: &str, inputs: &[Option<&Tensor>], outputs: &[Tensor]) -> bool {
    let [output, ..] = outputs else { return false };
    // What no step makes has the extents that the graph within declares, which are those of the run it was drawn for.
    if op_type == "Scan" && inputs.get(1).copied().flatten().is_some_and(|x| x.len_elems() == 0) {
        return false;
    }
    let Some(input) = inputs.first().copied().flatten().filter(|_| matches!(op_type, "Cast" | "CastLike")) else {
        return true;
    };
    let fits = |n: usize| input.get_f64(n).is_some_and(|x| output.get_f64(n) == Some(x.trunc()));
    !input.dtype().is_float() || !output.dtype().is_int() || (0..input.len_elems()).all(fits)
}

/// Whether results stay what they are where floats they are made from are off as far as samples are, all in one direction:
/// samples in random directions may all be on one side of a tie, once in some thirty of them.
fn stays(operation: &Operation, node: &Node<'_>, inputs: &[Option<&Vec<Tensor>>], results: &[Vec<Tensor>]) -> bool {
    if inputs.iter().flatten().all(|samples| rounding(samples[0].dtype()) == 0.0) {
        return true;
    }
    [1.0, -1.0].into_iter().all(|direction| {
        let operands: Vec<Option<Tensor>> = inputs.iter().map(|x| x.map(|x| all_off(x, direction))).collect();
        let operands: Vec<Option<&Tensor>> = operands.iter().map(Option::as_ref).collect();
        let outputs = match operation.graphs.is_empty() {
            true => evaluate(node, &operands),
            false => evaluate_with(node, &operation.graphs, &operands),
        };
        outputs.is_ok_and(|outputs| results.iter().zip(&outputs).all(|(samples, output)| is_near(output, &samples[0])))
    })
}

/// The nominal one of some samples with every element off by twice what the samples differ, in one direction.
fn all_off(samples: &[Tensor], direction: f64) -> Tensor {
    let nominal = &samples[0];
    if rounding(nominal.dtype()) == 0.0 || samples.iter().any(|x| x.shape() != nominal.shape()) {
        return nominal.clone();
    }
    let element = |x: &Tensor, n: usize| x.get_f64(n).unwrap_or(0.0);
    let off = |n: usize| {
        let at = element(nominal, n);
        at + direction * 2.0 * samples.iter().map(|x| (element(x, n) - at).abs()).fold(0.0, f64::max)
    };
    let numbers: Vec<f64> = (0..nominal.len_elems()).map(off).collect();
    cast(&Tensor::from_elements(nominal.shape(), &numbers).expect("the same shape"), nominal.dtype())
}

/// Whether products of many numbers stay within the range of their type, whatever is multiplied first: what is too large
/// times zero is no number, and what is too small times a large number is gone.
fn is_within_range(node: &Node<'_>, inputs: &[Option<&Tensor>]) -> bool {
    let [Some(x), rest @ ..] = inputs else { return true };
    if !matches!(node.op_type, "ReduceProd" | "CumProd") || !x.dtype().is_float() {
        return true;
    }
    let products = |f: fn(f64) -> f64| {
        let numbers: Vec<f64> = (0..x.len_elems()).map(|n| x.get_f64(n).map_or(f64::NAN, f64::abs)).map(f).collect();
        let x = cast(&Tensor::from_elements(x.shape(), &numbers).ok()?, x.dtype());
        let inputs: Vec<Option<&Tensor>> = std::iter::once(Some(&x)).chain(rest.iter().copied()).collect();
        let result = evaluate(node, &inputs).ok()?.swap_remove(0);
        (0..result.len_elems()).map(|n| result.get_f64(n)).collect::<Option<Vec<f64>>>()
    };
    let largest = products(|x| x.max(1.0));
    let smallest = products(|x| if x == 0.0 { 1.0 } else { x.min(1.0) });
    largest.is_some_and(|all| all.iter().all(|x| x.is_finite()))
        && smallest.is_some_and(|all| all.iter().all(|&x| x >= f64::from(f32::MIN_POSITIVE)))
}

fn is_telling(samples: &[Tensor]) -> bool {
    let nominal = &samples[0];
    let is_small = |n: usize| nominal.get_f64(n).is_some_and(|at| at.abs() <= LARGEST);
    samples.iter().all(|sample| is_near(sample, nominal))
        && (rounding(nominal.dtype()) == 0.0 || (0..nominal.len_elems()).all(is_small))
}

/// Whether a result says the same as another one: it is nearly so, if it rounds.
fn is_near(found: &Tensor, nominal: &Tensor) -> bool {
    if (found.dtype(), found.shape()) != (nominal.dtype(), nominal.shape()) {
        return false;
    }
    let rounding = rounding(nominal.dtype());
    if rounding == 0.0 {
        return is_same(found, nominal);
    }
    let spread = rounding.max(1e-6) * 3e3;
    let element = |t: &Tensor, n: usize| t.get_f64(n).unwrap_or(f64::NAN);
    (0..nominal.len_elems()).all(|n| {
        let at = element(nominal, n);
        (element(found, n) - at).abs() <= spread * (1.0 + at.abs())
    })
}

/// What is wrong with a tensor that should be the first of some samples.
pub(crate) fn difference(found: &Tensor, samples: &[Tensor]) -> Option<String> {
    let expected = &samples[0];
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        let (found, expected) = [found, expected].map(|t| format!("{}{:?}", t.dtype(), t.shape())).into();
        return Some(format!("it is {found}, expected {expected}"));
    }
    if expected.dtype().is_float() && expected.dtype().size_bits() <= 8 {
        // A zero may have either sign.
        let [found, expected] = [found, expected].map(|t| cast(t, DType::F32));
        let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        let at = |t: &Tensor, n| t.get_f64(n).unwrap_or(f64::NAN);
        let wrong = !(0..expected.len_elems()).all(|n| same(at(&found, n), at(&expected, n)));
        return wrong.then(|| format!("it is {}, expected {}", show(&found), show(&expected)));
    }
    if !(expected.dtype().is_float() && expected.dtype().size_bits() > 8) {
        return (!is_same(found, expected)).then(|| format!("it is {}, expected {}", show(found), show(expected)));
    }
    let element = |t: &Tensor, n: usize| t.get_f64(n).unwrap_or(f64::NAN);
    let count = expected.len_elems();
    let off: Vec<f64> = (0..count)
        .map(|n| samples.iter().map(|s| (element(s, n) - element(expected, n)).abs()).fold(0.0, f64::max))
        .collect();
    // Of sums of many roundings five samples are all less than a sixteenth of their deviation once in some three million
    // elements. One rounding may happen not to show in some place at all, so the tensor's mean counts as well.
    let mean = off.iter().sum::<f64>() / count.max(1) as f64;
    let rounding = rounding(expected.dtype());
    (0..count).find_map(|n| {
        let (a, b) = (element(found, n), element(expected, n));
        let allowed = 16.0 * off[n] + 4.0 * mean + 4.0 * rounding * b.abs() + 1e-3 * rounding;
        let agrees = (a - b).abs() <= allowed;
        (!agrees).then(|| {
            format!("element {n} is {a:?}, expected {b:?} within {allowed:.1e}; {} for {}", show(found), show(expected))
        })
    })
}

/// Whether all elements are the same, to the bit or the letter.
fn is_same(a: &Tensor, b: &Tensor) -> bool {
    a.bytes() == b.bytes() && a.strings().ok() == b.strings().ok()
}

pub(crate) fn show(x: &Tensor) -> String {
    if let Ok(words) = x.strings() {
        return format!("{}{:?} {:?}", x.dtype(), x.shape(), &words[..words.len().min(24)]);
    }
    if let Some(part) = part_of(x.dtype()) {
        let shape = [x.shape(), &[2]].concat();
        let parts = Tensor::from_bytes(part, shape, AlignedBytes::from_slice(x.bytes())).expect("two parts each");
        return format!("{} of {}", x.dtype(), show(&parts));
    }
    let some: Vec<f64> = (0..x.len_elems().min(24)).map(|n| x.get_f64(n).unwrap_or(f64::NAN)).collect();
    format!("{}{:?} {some:?}", x.dtype(), x.shape())
}
