//! `RNN`, `GRU`, `LSTM`.
//!
//! Inputs are `X [steps, batch, input]` (batch first with `layout = 1`), `W [directions, gates · hidden, input]`,
//! `R [directions, gates · hidden, hidden]`, `B [directions, 2 · gates · hidden]`, sequence lengths, initial states and
//! peepholes. A sequence that is shorter than the rest gives zeros behind its end, and its last state is final.

use super::movement::permute;
use super::special::{sigmoid, softplus};
use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::Scalar;
use crate::shape;
use infc_tensor::Tensor;

/// An activation function with its parameters.
#[derive(Clone, Copy, Debug)]
struct Activation {
    function: fn(f64, f64, f64) -> f64,
    alpha: f64,
    beta: f64,
}

impl Activation {
    fn apply(&self, x: f64) -> f64 {
        (self.function)(x, self.alpha, self.beta)
    }

    /// The function of this name and its default parameters.
    fn named(name: &str) -> Result<Self> {
        let of = |function, alpha, beta| Ok(Activation { function, alpha, beta });
        match name.to_ascii_lowercase().as_str() {
            "relu" => of(|x, _, _| x.larger(0.0), 0.0, 0.0),
            "tanh" => of(|x, _, _| x.tanh(), 0.0, 0.0),
            "sigmoid" => of(|x, _, _| sigmoid(x), 0.0, 0.0),
            "affine" => of(|x, alpha, beta| alpha * x + beta, 1.0, 0.0),
            "leakyrelu" => of(|x, alpha, _| if x < 0.0 { alpha * x } else { x }, 0.01, 0.0),
            "thresholdedrelu" => of(|x, alpha, _| if x >= alpha { x } else { 0.0 }, 1.0, 0.0),
            "scaledtanh" => of(|x, alpha, beta| alpha * (beta * x).tanh(), 1.0, 1.0),
            "hardsigmoid" => of(|x, alpha, beta| (alpha * x + beta).clamp(0.0, 1.0), f64::from(0.2f32), 0.5),
            "elu" => of(|x, alpha, _| if x < 0.0 { alpha * x.exp_m1() } else { x }, 1.0, 0.0),
            "softsign" => of(|x, _, _| x / (1.0 + x.abs()), 0.0, 0.0),
            "softplus" => of(|x, _, _| softplus(x), 0.0, 0.0),
            _ => Err(EvalError::InvalidAttribute { name: "activations", reason: "there is no such function" }),
        }
    }
}

/// The activations of one direction, as the node gives them or by default.
fn activations(call: &Call<'_>, direction: usize, defaults: &[&str]) -> Result<Vec<Activation>> {
    let attributes = call.node.attributes;
    let Some(names) = attributes.strings("activations")? else {
        return defaults.iter().map(|name| Activation::named(name)).collect();
    };
    let first = direction * defaults.len();
    let Some(own) = names.get(first..first + defaults.len()) else {
        return Err(EvalError::InvalidAttribute { name: "activations", reason: "there are too few" });
    };
    let (alphas, betas) =
        (attributes.floats("activation_alpha")?.unwrap_or(&[]), attributes.floats("activation_beta")?.unwrap_or(&[]));
    own.iter()
        .enumerate()
        .map(|(i, name)| {
            let mut activation = Activation::named(name)?;
            activation.alpha = alphas.get(first + i).map_or(activation.alpha, |&v| f64::from(v));
            activation.beta = betas.get(first + i).map_or(activation.beta, |&v| f64::from(v));
            Ok(activation)
        })
        .collect()
}

/// What the three operators have in common: extents and inputs, read.
struct Recurrence {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    directions: usize,
    gates: usize,
    reversed: [bool; 2],
    batch_first: bool,
    clip: Option<f64>,
    x: Vec<f64>,
    w: Vec<f64>,
    r: Vec<f64>,
    b: Vec<f64>,
    lengths: Vec<usize>,
    initial_h: Vec<f64>,
}

impl Recurrence {
    fn new(call: &Call<'_>, gates: usize) -> Result<Self> {
        let batch_first = call.flag("layout", false)?;
        let (x, w, r) = (call.input(0)?, call.input(1)?, call.input(2)?);
        let mismatch = |left: &Tensor, right: &Tensor| EvalError::ShapeMismatch {
            left: left.shape().to_vec(),
            right: right.shape().to_vec(),
            reason: "they do not fit a recurrent operator",
        };
        let (&[first, second, input], &[directions, rows, w_input], &[r_directions, r_rows, hidden]) =
            (x.shape(), w.shape(), r.shape())
        else {
            return Err(mismatch(x, w));
        };
        let (steps, batch) = if batch_first { (second, first) } else { (first, second) };
        let reversed = match call.string("direction", "forward")?.to_ascii_lowercase().as_str() {
            "forward" => [false, false],
            "reverse" => [true, false],
            "bidirectional" => [false, true],
            _ => return Err(EvalError::InvalidAttribute { name: "direction", reason: "it names no direction" }),
        };
        let wanted_directions = 1 + usize::from(reversed[1]);
        let fits = directions == wanted_directions
            && r_directions == directions
            && w_input == input
            && hidden.checked_mul(gates) == Some(rows)
            && r_rows == rows;
        if !fits {
            return Err(mismatch(w, r));
        }
        if call.int("hidden_size", hidden as i64)? != hidden as i64 {
            return Err(EvalError::InvalidAttribute { name: "hidden_size", reason: "it differs from the weights" });
        }
        check_work(&[steps, batch, directions, rows, input.saturating_add(hidden).saturating_add(1)])?;
        checked_len(x.dtype(), &[batch])?;
        checked_len(x.dtype(), &[steps, directions, batch])?;
        checked_len(x.dtype(), &[steps, directions, batch, hidden])?;
        checked_len(x.dtype(), &[directions, batch, rows])?;
        let clip = call.node.attributes.float("clip")?.map(f64::from);
        if clip.is_some_and(|clip| clip.is_nan() || clip < 0.0) {
            return Err(EvalError::InvalidAttribute { name: "clip", reason: "it must not be negative" });
        }
        let b = match call.optional(3) {
            Some(b) if b.shape() == [directions, 2 * rows] => f64::read(b)?,
            Some(b) => return Err(mismatch(b, w)),
            None => vec![0.0; 2 * directions * rows],
        };
        let lengths = match call.int_list(4)? {
            Some(list) if list.len() == batch && list.iter().all(|&l| l >= 0 && l as usize <= steps) => {
                list.into_iter().map(|l| l as usize).collect()
            }
            Some(_) => {
                return Err(EvalError::InvalidInput { index: 4, reason: "one length per batch entry is needed" });
            }
            None => vec![steps; batch],
        };
        let x = if batch_first { f64::read(&permute(x, &[1, 0, 2])?)? } else { f64::read(x)? };
        let mut recurrence = Self {
            steps,
            batch,
            input,
            hidden,
            directions,
            gates,
            reversed,
            batch_first,
            clip,
            x,
            w: f64::read(w)?,
            r: f64::read(r)?,
            b,
            lengths,
            initial_h: Vec::new(),
        };
        recurrence.initial_h = recurrence.initial_state(call, 5)?;
        Ok(recurrence)
    }

    /// An initial state as `[directions, batch, hidden]`, zeros if it was left out.
    fn initial_state(&self, call: &Call<'_>, index: usize) -> Result<Vec<f64>> {
        let shape = [self.directions, self.batch, self.hidden];
        let Some(state) = call.optional(index) else { return Ok(vec![0.0; shape.iter().product()]) };
        let state = if self.batch_first && state.rank() == 3 { permute(state, &[1, 0, 2])? } else { state.clone() };
        if state.shape() == shape {
            f64::read(&state)
        } else {
            Err(EvalError::InvalidInput { index, reason: "the state has the wrong shape" })
        }
    }

    /// `Σ W[gate, row] · x` for one input vector.
    fn input_part(&self, direction: usize, row: usize, x: &[f64]) -> f64 {
        let start = (direction * self.gates * self.hidden + row) * self.input;
        self.w[start..start + self.input].iter().zip(x).map(|(w, x)| w * x).sum()
    }

    /// `Σ R[gate, row] · h` for one hidden vector.
    fn hidden_part(&self, direction: usize, row: usize, h: &[f64]) -> f64 {
        let start = (direction * self.gates * self.hidden + row) * self.hidden;
        self.r[start..start + self.hidden].iter().zip(h).map(|(r, h)| r * h).sum()
    }

    /// The biases of the input and of the hidden part for one row.
    fn biases(&self, direction: usize, row: usize) -> (f64, f64) {
        let rows = self.gates * self.hidden;
        let start = direction * 2 * rows;
        (self.b[start + row], self.b[start + rows + row])
    }

    fn clipped(&self, v: f64) -> f64 {
        self.clip.map_or(v, |clip| v.clamp(-clip, clip))
    }

    /// The clipped sum of everything that goes into a gate's activation, `extra` included.
    fn gate(&self, direction: usize, gate: usize, unit: usize, x: &[f64], h: &[f64], extra: f64) -> f64 {
        let row = gate * self.hidden + unit;
        let (w_bias, r_bias) = self.biases(direction, row);
        self.clipped(self.input_part(direction, row, x) + self.hidden_part(direction, row, h) + w_bias + r_bias + extra)
    }

    /// Runs `cell(direction, x, h, second state)` over all sequences, the cell updating both states.
    ///
    /// Returns the hidden states of all steps and the final values of both states.
    fn run(
        &self,
        mut second: Vec<f64>,
        mut cell: impl FnMut(usize, &[f64], &mut [f64], &mut [f64]),
    ) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let hidden = self.hidden;
        let mut all = vec![0.0; self.steps * self.directions * self.batch * hidden];
        let mut h = self.initial_h.clone();
        for d in 0..self.directions {
            for n in 0..self.batch {
                let state = (d * self.batch + n) * hidden..(d * self.batch + n + 1) * hidden;
                for step in 0..self.lengths[n] {
                    // A reversed direction begins at the end of its own sequence.
                    let t = if self.reversed[d] { self.lengths[n] - 1 - step } else { step };
                    let start = (t * self.batch + n) * self.input;
                    let x = &self.x[start..start + self.input];
                    cell(d, x, &mut h[state.clone()], &mut second[state.clone()]);
                    let target = ((t * self.directions + d) * self.batch + n) * hidden;
                    all[target..target + hidden].copy_from_slice(&h[state.clone()]);
                }
            }
        }
        (all, h, second)
    }

    /// The outputs: all hidden states, then the given final states.
    fn outputs(&self, like: &Tensor, all: Vec<f64>, finals: Vec<Vec<f64>>) -> Result<Vec<Tensor>> {
        let dtype = like.dtype();
        let all = f64::write(dtype, &[self.steps, self.directions, self.batch, self.hidden], all.into_iter())?;
        let mut outputs = vec![if self.batch_first { permute(&all, &[2, 0, 1, 3])? } else { all }];
        for state in finals {
            let state = f64::write(dtype, &[self.directions, self.batch, self.hidden], state.into_iter())?;
            outputs.push(if self.batch_first { permute(&state, &[1, 0, 2])? } else { state });
        }
        Ok(outputs)
    }
}

pub(crate) fn rnn(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let recurrence = Recurrence::new(call, 1)?;
    let functions = (0..recurrence.directions).map(|d| activations(call, d, &["Tanh"])).collect::<Result<Vec<_>>>()?;
    let unused = vec![0.0; recurrence.initial_h.len()];
    let (all, h, _) = recurrence.run(unused, |d, x, h, _| {
        let next: Vec<f64> =
            (0..recurrence.hidden).map(|u| functions[d][0].apply(recurrence.gate(d, 0, u, x, h, 0.0))).collect();
        h.copy_from_slice(&next);
    });
    recurrence.outputs(call.input(0)?, all, vec![h])
}

/// `GRU`, gates in the order update, reset, hidden.
pub(crate) fn gru(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let recurrence = Recurrence::new(call, 3)?;
    let functions =
        (0..recurrence.directions).map(|d| activations(call, d, &["Sigmoid", "Tanh"])).collect::<Result<Vec<_>>>()?;
    let linear_before_reset = call.flag("linear_before_reset", false)?;
    let hidden = recurrence.hidden;
    let unused = vec![0.0; recurrence.initial_h.len()];
    let (all, h, _) = recurrence.run(unused, |d, x, h, _| {
        let [f, g] = [functions[d][0], functions[d][1]];
        let update: Vec<f64> = (0..hidden).map(|u| f.apply(recurrence.gate(d, 0, u, x, h, 0.0))).collect();
        let reset: Vec<f64> = (0..hidden).map(|u| f.apply(recurrence.gate(d, 1, u, x, h, 0.0))).collect();
        let reset_h: Vec<f64> = reset.iter().zip(&*h).map(|(r, h)| r * h).collect();
        let candidate: Vec<f64> = (0..hidden)
            .map(|u| {
                let row = 2 * hidden + u;
                let (w_bias, r_bias) = recurrence.biases(d, row);
                let recurrent = if linear_before_reset {
                    reset[u] * (recurrence.hidden_part(d, row, h) + r_bias)
                } else {
                    recurrence.hidden_part(d, row, &reset_h) + r_bias
                };
                g.apply(recurrence.clipped(recurrence.input_part(d, row, x) + recurrent + w_bias))
            })
            .collect();
        for u in 0..hidden {
            h[u] = (1.0 - update[u]) * candidate[u] + update[u] * h[u];
        }
    });
    recurrence.outputs(call.input(0)?, all, vec![h])
}

/// `LSTM`, gates in the order input, output, forget, cell; peepholes in the order input, output, forget.
pub(crate) fn lstm(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let recurrence = Recurrence::new(call, 4)?;
    let hidden = recurrence.hidden;
    let functions = (0..recurrence.directions)
        .map(|d| activations(call, d, &["Sigmoid", "Tanh", "Tanh"]))
        .collect::<Result<Vec<_>>>()?;
    let coupled = call.flag("input_forget", false)?;
    let peepholes = match call.optional(7) {
        Some(p) if p.shape() == [recurrence.directions, 3 * hidden] => f64::read(p)?,
        Some(_) => return Err(EvalError::InvalidInput { index: 7, reason: "the peepholes have the wrong shape" }),
        None => vec![0.0; shape::len(&[recurrence.directions, 3, hidden])],
    };
    let initial_c = recurrence.initial_state(call, 6)?;
    let (all, h, c) = recurrence.run(initial_c, |d, x, h, c| {
        let [f, g, out] = [functions[d][0], functions[d][1], functions[d][2]];
        let peephole = |gate: usize, u: usize| peepholes[(d * 3 + gate) * hidden + u];
        let before = h.to_vec();
        for u in 0..hidden {
            let input = f.apply(recurrence.gate(d, 0, u, x, &before, peephole(0, u) * c[u]));
            let forget = if coupled {
                1.0 - input
            } else {
                f.apply(recurrence.gate(d, 2, u, x, &before, peephole(2, u) * c[u]))
            };
            let cell = g.apply(recurrence.gate(d, 3, u, x, &before, 0.0));
            c[u] = forget * c[u] + input * cell;
            let output = f.apply(recurrence.gate(d, 1, u, x, &before, peephole(1, u) * c[u]));
            h[u] = output * out.apply(c[u]);
        }
    });
    recurrence.outputs(call.input(0)?, all, vec![h, c])
}
