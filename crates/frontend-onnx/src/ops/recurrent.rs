//! `RNN`, `GRU`, `LSTM`.
//!
//! ONNX operators of these names: `X [steps, batch, input]`, `W [directions, gates·hidden, input]`,
//! `R [directions, gates·hidden, hidden]`, `B [directions, 2·gates·hidden]`, lengths, initial states and peepholes;
//! with `layout = 1` the batch comes first. What all steps need of the input, `X·Wᵀ` with the biases, is one product in
//! front; what is left is a recurrence over the hidden state. A sequence that is shorter than the rest keeps its state
//! behind its end, where the output is zero. `DynamicQuantizeLSTM` of `com.microsoft` is an `LSTM` with other weights.

mod activation;
mod weights;

use super::Operator;
use crate::build::{Builder, Result, Step, Steps, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
pub(super) use activation::Activation;
use infc_ir::access::Bound;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, ScalarOp};
use infc_tensor::DType;
use weights::{Matrix, Weights, direction_of};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("RNN", 1, |call| import(call, Cell::Rnn, false)),
    Operator::new("GRU", 1, |call| import(call, Cell::Gru, false)),
    Operator::new("LSTM", 1, |call| import(call, Cell::Lstm, false)),
];

/// `W [directions, input, 4·hidden]` and `R [directions, hidden, 4·hidden]` are integers, each with a scale and a zero
/// point behind the inputs of an `LSTM`.
pub(super) fn dynamic_quantize_lstm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?.dtype();
    if x != DType::F32 {
        return Err(Problem::UnsupportedType { expected: "f32", found: x });
    }
    import(call, Cell::Lstm, true)
}

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
}

impl Cell {
    /// Rows of the weights per hidden unit.
    fn gates(self) -> i64 {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// The activations of one direction where the node names none.
    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }

    fn states(self) -> usize {
        if self == Cell::Lstm { 2 } else { 1 }
    }
}

/// What the attributes say of one direction.
struct Variant {
    cell: Cell,
    activations: Vec<Activation>,
    clip: Option<f64>,
    /// Of a GRU: the reset gate applies to the product, not to the state before it.
    linear_before_reset: bool,
    /// Of an LSTM: the forget gate is one minus the input gate.
    coupled: bool,
    hidden: Dim,
}

fn import(call: &mut Call<'_>, cell: Cell, is_quantized: bool) -> Result<Vec<Tracked>> {
    let batch_first = call.int_or("layout", 0)? == 1;
    let dtype = call.input(0)?.dtype();
    if !dtype.is_float() {
        return Err(Problem::UnsupportedType { expected: "floating-point numbers", found: dtype });
    }
    let wide = compute_type(dtype);
    let x = call.input(0)?;
    let (w, r) = (call.input(1)?, call.input(2)?);
    for (value, axes) in [(&x, 3), (&w, 3), (&r, 3)] {
        if value.rank() != axes {
            return Err(mismatch(format!("{axes} axes"), value.shape()));
        }
    }
    let x = if batch_first { call.build.transpose(&x, &[1, 0, 2])? } else { x };
    let x = call.build.cast(&x, wide)?;
    // Quantised weights are transposed.
    let (width, row) = if is_quantized { (1, 2) } else { (2, 1) };
    let hidden = r.shape()[width].clone();
    let direction = call.string("direction", "forward")?.to_ascii_lowercase();
    let reversed: &[bool] = match direction.as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        _ => {
            return Err(Problem::InvalidAttribute {
                attribute: "direction",
                expected: "forward, reverse or bidirectional",
                found: direction,
            });
        }
    };
    let directions = Dim::constant(reversed.len() as i64);
    let rows = hidden.scale(cell.gates());
    call.build.assume_equal("directions of W", &directions, &w.shape()[0])?;
    call.build.assume_equal("directions of R", &directions, &r.shape()[0])?;
    call.build.assume_equal("rows of W", &rows, &w.shape()[row])?;
    call.build.assume_equal("rows of R", &rows, &r.shape()[row])?;
    let clip = call.float("clip")?;
    let activations = activation::of_directions(call, reversed.len(), cell.activations())?;
    let lengths = call.optional(4);
    let (steps, batch) = (x.shape()[0].clone(), x.shape()[1].clone());

    let mut sequences = Vec::new();
    let mut finals: Vec<Vec<Tracked>> = vec![Vec::new(); cell.states()];
    for (d, (&reversed, activations)) in reversed.iter().zip(activations).enumerate() {
        let variant = Variant {
            cell,
            activations,
            clip,
            linear_before_reset: call.flag("linear_before_reset", false)?,
            coupled: call.flag("input_forget", false)?,
            hidden: hidden.clone(),
        };
        let state_shape = [batch.clone(), hidden.clone()];
        let mut initial = Vec::new();
        for n in 0..cell.states() {
            initial.push(match call.optional(5 + n) {
                Some(state) => {
                    if state.rank() != 3 {
                        return Err(mismatch("3 axes", state.shape()));
                    }
                    let state = if batch_first { call.build.transpose(&state, &[1, 0, 2])? } else { state };
                    call.build.assume_equal("directions of a state", &directions, &state.shape()[0])?;
                    let state = direction_of(call.build, &state, d, wide)?;
                    call.build.conform("extents of an initial state", &state, &state_shape)?
                }
                None => {
                    let zero = call.build.scalar(wide, 0.0);
                    call.build.broadcast(&zero, &state_shape)?
                }
            });
        }
        let weights = Weights::of(call, (cell, is_quantized), d, wide, &rows)?;
        let mask = match &lengths {
            Some(lengths) => {
                let lengths = call.build.conform("lengths of sequences", lengths, std::slice::from_ref(&batch))?;
                Some(mask(call.build, &lengths, &steps, reversed)?)
            }
            None => None,
        };
        let input = weights.input_part(call.build, &variant, &x)?;
        let input = if reversed { call.build.flip(&input, 0)? } else { input };
        let histories = run(call.build, &variant, &steps, &initial, &input, mask.as_ref(), &weights)?;
        let mut sequence = histories[0].clone();
        if let Some(mask) = &mask {
            let mask = call.build.insert_axis(mask, 2)?;
            sequence = call.build.map(&[&mask, &sequence], |body, p| {
                let zero = body.constant(wide, 0.0);
                body.select(p[0], p[1], zero)
            })?;
        }
        if reversed {
            sequence = call.build.flip(&sequence, 0)?;
        }
        sequences.push(call.build.insert_axis(&sequence, 1)?);
        for ((history, initial), states) in histories.iter().zip(&initial).zip(&mut finals) {
            let last = last(call.build, history, initial, &steps)?;
            states.push(call.build.insert_axis(&last, 0)?);
        }
    }
    let all = call.build.concat(&sequences.iter().collect::<Vec<_>>(), 1)?;
    let all = if batch_first { call.build.transpose(&all, &[2, 0, 1, 3])? } else { all };
    let mut outputs = vec![call.build.cast(&all, dtype)?];
    for states in finals {
        let state = call.build.concat(&states.iter().collect::<Vec<_>>(), 0)?;
        let state = if batch_first { call.build.transpose(&state, &[1, 0, 2])? } else { state };
        outputs.push(call.build.cast(&state, dtype)?);
    }
    Ok(outputs)
}

/// Which steps of which sequences exist, in the order in which they are computed: `[steps, batch]`.
fn mask(build: &mut Builder, lengths: &Tracked, steps: &Dim, reversed: bool) -> Result<Tracked> {
    let batch = lengths.shape().first().cloned().ok_or_else(|| mismatch("a vector of lengths", lengths.shape()))?;
    let shape = vec![steps.clone(), batch];
    let lengths = build.cast(lengths, DType::I64)?;
    build.map_over(shape, &[&lengths], |body, p| {
        let step = if reversed { steps.clone() - 1 - var(0) } else { var(0) };
        let step = body.push(ScalarOp::Index(step));
        body.compare(CompareOp::Lt, step, p[0])
    })
}

/// The last row of a state's history, or what it began with if there is no step.
pub(super) fn last(build: &mut Builder, history: &Tracked, initial: &Tracked, steps: &Dim) -> Result<Tracked> {
    let shape = initial.shape().to_vec();
    let some = Bound { expr: IndexExpr::constant(0), lo: IndexExpr::constant(0), hi: steps.clone() };
    let mut index: Vec<IndexExpr> = vec![steps.clone() - 1];
    index.extend((0..shape.len()).map(var));
    if build.ranges().interval(steps).min.is_some_and(|min| min >= 1) {
        return build.view(history, index, shape);
    }
    let map = infc_ir::access::AccessMap { rank: shape.len(), index, valid: vec![some.clone()] };
    let zero = infc_ir::scalar::Const::zero(history.dtype());
    let row = build.view_or(history, map, shape, zero)?;
    build.map(&[&row, initial], |body, p| {
        let some = body.push(ScalarOp::InBounds(vec![some]));
        body.select(some, p[0], p[1])
    })
}

/// All states of all steps.
fn run(
    build: &mut Builder,
    variant: &Variant,
    steps: &Dim,
    initial: &[Tracked],
    input: &Tracked,
    mask: Option<&Tracked>,
    weights: &Weights,
) -> Result<Vec<Tracked>> {
    let mut slices = vec![input];
    slices.extend(mask);
    let hidden = &variant.hidden;
    let (mut matrices, mut vectors) = (Vec::new(), Vec::new());
    match variant.cell {
        // One product for all gates.
        Cell::Gru if variant.linear_before_reset => {
            matrices.push(weights.recurrent.clone());
            if let Some((_, bias)) = &weights.biases {
                vectors.push(build.slice_axis(bias, 0, hidden.scale(2), hidden.clone())?);
            }
        }
        // The last gate's factor is known when the others are.
        Cell::Gru => {
            let reset = hidden.scale(2);
            matrices.push(weights.recurrent.rows(build, &Dim::constant(0), &reset)?);
            matrices.push(weights.recurrent.rows(build, &reset, hidden)?);
        }
        Cell::Rnn | Cell::Lstm => {
            matrices.push(weights.recurrent.clone());
            vectors.extend(weights.peepholes.iter().flatten().cloned());
        }
    }
    let states: Vec<&Tracked> = initial.iter().collect();
    let parts: Vec<Tracked> = matrices.iter().flat_map(Matrix::parts).chain(vectors).collect();
    let shared: Vec<&Tracked> = parts.iter().collect();
    let of = Steps { steps: steps.clone(), states: &states, slices: &slices, shared: &shared };
    build.recurrence(&of, |build, step| {
        let mut given = step.shared.iter();
        let matrices = matrices.iter().map(|m| m.of_parts(&mut given)).collect::<Result<Vec<Matrix>>>()?;
        let vectors = given.as_slice();
        let mut next = match variant.cell {
            Cell::Rnn => rnn(build, variant, step, &matrices[0])?,
            Cell::Gru => gru(build, variant, step, &matrices, vectors.first())?,
            Cell::Lstm => lstm(build, variant, step, &matrices[0], vectors)?,
        };
        if let Some(mask) = step.slices.get(1) {
            let mask = build.insert_axis(mask, 1)?;
            for (next, before) in next.iter_mut().zip(&step.states) {
                *next = build.map(&[&mask, next, before], |body, p| body.select(p[0], p[1], p[2]))?;
            }
        }
        Ok(next)
    })
}

impl Variant {
    fn gate(&self, build: &mut Builder, of: &Tracked, n: i64) -> Result<Tracked> {
        build.slice_axis(of, 1, self.hidden.scale(n), self.hidden.clone())
    }

    /// The n-th activation of a sum, clipped.
    fn activate(&self, body: &mut Body, n: usize, x: ScalarId) -> ScalarId {
        let x = match self.clip {
            Some(clip) => {
                let (least, most) = (body.constant(body.dtype(x), -clip), body.constant(body.dtype(x), clip));
                let capped = body.binary(BinaryOp::Min, x, most);
                body.binary(BinaryOp::Max, capped, least)
            }
            None => x,
        };
        self.activations[n].apply(body, x)
    }
}

fn sum(body: &mut Body, terms: &[ScalarId]) -> ScalarId {
    let mut total = terms[0];
    for &term in &terms[1..] {
        total = body.binary(BinaryOp::Add, total, term);
    }
    total
}

/// `h' = f(x + h·Rᵀ)`
fn rnn(build: &mut Builder, variant: &Variant, step: &Step, r: &Matrix) -> Result<Vec<Tracked>> {
    let product = r.times(build, &step.states[0])?;
    let next = build.map(&[&step.slices[0], &product], |body, p| {
        let total = sum(body, p);
        variant.activate(body, 0, total)
    })?;
    Ok(vec![next])
}

/// Gates in the order update `z`, reset `r`, hidden: `h' = (1 − z)·g(…) + z·h`. There is one matrix for all gates and the bias of
/// the last one, where it is reset with the product; or a matrix for the first two, and one for the last.
fn gru(
    build: &mut Builder,
    variant: &Variant,
    step: &Step,
    matrices: &[Matrix],
    bias: Option<&Tracked>,
) -> Result<Vec<Tracked>> {
    let (h, x) = (&step.states[0], &step.slices[0]);
    let early = matrices[0].times(build, h)?;
    let gate = |build: &mut Builder, n: i64| {
        let (of_input, of_state) = (variant.gate(build, x, n)?, variant.gate(build, &early, n)?);
        build.map(&[&of_input, &of_state], |body, p| {
            let total = sum(body, p);
            variant.activate(body, 0, total)
        })
    };
    let update = gate(build, 0)?;
    let reset = gate(build, 1)?;
    let late = match matrices.get(1) {
        None => {
            let product = variant.gate(build, &early, 2)?;
            let product = match bias {
                Some(bias) => build.map(&[&product, bias], sum)?,
                None => product,
            };
            build.map(&[&reset, &product], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?
        }
        Some(late) => {
            let kept = build.map(&[&reset, h], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?;
            late.times(build, &kept)?
        }
    };
    let of_input = variant.gate(build, x, 2)?;
    let next = build.map(&[&of_input, &late, &update, h], |body, p| {
        let total = sum(body, &p[..2]);
        let candidate = variant.activate(body, 1, total);
        let one = body.constant(body.dtype(p[2]), 1.0);
        let rest = body.binary(BinaryOp::Sub, one, p[2]);
        let new = body.binary(BinaryOp::Mul, rest, candidate);
        let old = body.binary(BinaryOp::Mul, p[2], p[3]);
        body.binary(BinaryOp::Add, new, old)
    })?;
    Ok(vec![next])
}

/// Gates in the order input, output, forget, cell; peepholes in the order input, output, forget.
fn lstm(
    build: &mut Builder,
    variant: &Variant,
    step: &Step,
    r: &Matrix,
    peepholes: &[Tracked],
) -> Result<Vec<Tracked>> {
    let (h, c, x) = (&step.states[0], &step.states[1], &step.slices[0]);
    let product = r.times(build, h)?;
    // What goes into a gate: its sums, and the cell through its peephole.
    let gate = |build: &mut Builder, n: i64, activation: usize, seen: Option<(&Tracked, usize)>| {
        let (of_input, of_state) = (variant.gate(build, x, n)?, variant.gate(build, &product, n)?);
        let mut inputs = vec![&of_input, &of_state];
        let peephole = seen.and_then(|(cell, p)| Some((cell, peepholes.get(p)?)));
        if let Some((cell, peephole)) = peephole {
            inputs.extend([cell, peephole]);
        }
        build.map(&inputs, |body, p| {
            let mut total = sum(body, &p[..2]);
            if let [_, _, cell, peephole] = *p {
                let seen = body.binary(BinaryOp::Mul, cell, peephole);
                total = sum(body, &[total, seen]);
            }
            variant.activate(body, activation, total)
        })
    };
    let input = gate(build, 0, 0, Some((c, 0)))?;
    let forget = if variant.coupled {
        build.map(&[&input], |body, p| {
            let one = body.constant(body.dtype(p[0]), 1.0);
            body.binary(BinaryOp::Sub, one, p[0])
        })?
    } else {
        gate(build, 2, 0, Some((c, 2)))?
    };
    let candidate = gate(build, 3, 1, None)?;
    let cell = build.map(&[&forget, c, &input, &candidate], |body, p| {
        let old = body.binary(BinaryOp::Mul, p[0], p[1]);
        let new = body.binary(BinaryOp::Mul, p[2], p[3]);
        body.binary(BinaryOp::Add, old, new)
    })?;
    let output = gate(build, 1, 0, Some((&cell, 1)))?;
    let hidden = build.map(&[&output, &cell], |body, p| {
        let shown = variant.activations[2].apply(body, p[1]);
        body.binary(BinaryOp::Mul, p[0], shown)
    })?;
    Ok(vec![hidden, cell])
}
