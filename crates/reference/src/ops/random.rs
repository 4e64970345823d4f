//! Random numbers: `RandomUniform`, `RandomNormal`, their `Like` forms, `Bernoulli`, `Multinomial`, and the mask of
//! `Dropout` in training.
//!
//! ONNX leaves the generator open. With a seed, this is the Mersenne Twister seeded and read as numpy's `RandomState`
//! does it, which ONNX's reference implementation uses; without one, every evaluation has another seed.
//!
//! Source: Matsumoto and Nishimura, "Mersenne Twister: A 623-Dimensionally Equidistributed Uniform Pseudo-Random Number
//! Generator", 1998.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{read_as_f64, write_bools, write_f64_as, write_ints};
use crate::shape;
use infc_tensor::{DType, Tensor};
use std::hash::{BuildHasher, RandomState};

const LEN: usize = 624;
const SHIFT: usize = 397;

/// The Mersenne Twister MT19937.
struct Generator {
    state: [u32; LEN],
    next: usize,
    /// The second of two normal numbers that were made at once.
    spare: Option<f64>,
}

impl Generator {
    fn new(seed: u32) -> Self {
        let mut state = [seed; LEN];
        for n in 1..LEN {
            let before = state[n - 1];
            state[n] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(n as u32);
        }
        Self { state, next: LEN, spare: None }
    }

    /// As the attribute `seed` says.
    fn of(call: &Call<'_>) -> Result<Self> {
        Ok(Self::new(match call.node.attributes.float("seed")? {
            Some(seed) if seed.is_finite() => seed as i64 as u32,
            _ => RandomState::new().hash_one(0u8) as u32,
        }))
    }

    fn bits(&mut self) -> u32 {
        if self.next == LEN {
            for n in 0..LEN {
                let joined = (self.state[n] & 0x8000_0000) | (self.state[(n + 1) % LEN] & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[n] = self.state[(n + SHIFT) % LEN] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// In [0, 1), with 53 bits.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (f64::from(self.bits() >> 5), f64::from(self.bits() >> 6));
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// With mean 0 and variance 1, by the polar method.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(factor * x);
                return factor * y;
            }
        }
    }
}

/// A tensor of numbers drawn one after the other.
fn draw(dtype: DType, out: &[usize], mut number: impl FnMut() -> f64) -> Result<Vec<Tensor>> {
    if !dtype.is_float() {
        return Err(EvalError::UnsupportedType { dtype });
    }
    let len = checked_len(dtype, out)?;
    one(write_f64_as(dtype, out, (0..len).map(|_| number()))?)
}

fn given_shape(call: &Call<'_>) -> Result<Vec<usize>> {
    let given = call.ints("shape")?.ok_or(EvalError::InvalidAttribute { name: "shape", reason: "it is missing" })?;
    shape::dims(given)
}

fn like(call: &Call<'_>) -> Result<DType> {
    Ok(call.dtype("dtype")?.unwrap_or(call.input(0)?.dtype()))
}

fn draw_uniform(call: &Call<'_>, dtype: DType, out: &[usize]) -> Result<Vec<Tensor>> {
    let (low, high) = (call.float("low", 0.0)?, call.float("high", 1.0)?);
    let mut generator = Generator::of(call)?;
    draw(dtype, out, || low + (high - low) * generator.uniform())
}

fn draw_normal(call: &Call<'_>, dtype: DType, out: &[usize]) -> Result<Vec<Tensor>> {
    let (mean, scale) = (call.float("mean", 0.0)?, call.float("scale", 1.0)?);
    let mut generator = Generator::of(call)?;
    draw(dtype, out, || mean + scale * generator.normal())
}

pub(crate) fn uniform(call: &Call<'_>) -> Result<Vec<Tensor>> {
    draw_uniform(call, call.dtype("dtype")?.unwrap_or(DType::F32), &given_shape(call)?)
}

pub(crate) fn uniform_like(call: &Call<'_>) -> Result<Vec<Tensor>> {
    draw_uniform(call, like(call)?, call.input(0)?.shape())
}

pub(crate) fn normal(call: &Call<'_>) -> Result<Vec<Tensor>> {
    draw_normal(call, call.dtype("dtype")?.unwrap_or(DType::F32), &given_shape(call)?)
}

pub(crate) fn normal_like(call: &Call<'_>) -> Result<Vec<Tensor>> {
    draw_normal(call, like(call)?, call.input(0)?.shape())
}

/// `Bernoulli`: 1 with the probability that an element says, else 0.
pub(crate) fn bernoulli(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let dtype = like(call)?;
    let mut generator = Generator::of(call)?;
    let drawn: Vec<bool> = read_as_f64(x)?.into_iter().map(|p| generator.uniform() < p).collect();
    if dtype == DType::Bool {
        return one(write_bools(x.shape(), drawn.into_iter())?);
    }
    one(write_f64_as(dtype, x.shape(), drawn.into_iter().map(|hit| f64::from(u8::from(hit))))?)
}

/// `Multinomial`: per row, classes drawn with probabilities whose logarithms the row has, up to a constant.
pub(crate) fn multinomial(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let &[rows, classes] = x.shape() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a matrix is needed" });
    };
    let samples = call.int("sample_size", 1)?;
    let samples = usize::try_from(samples).map_err(|_| EvalError::NegativeExtent { extent: samples })?;
    let dtype = call.dtype("dtype")?.unwrap_or(DType::I32);
    if !dtype.is_int() {
        return Err(EvalError::UnsupportedType { dtype });
    }
    if classes == 0 && rows > 0 {
        return Err(EvalError::InvalidInput { index: 0, reason: "one class at least is needed" });
    }
    checked_len(dtype, &[rows, samples])?;
    check_work([&rows, &samples, &classes])?;
    let mut generator = Generator::of(call)?;
    let logits = read_as_f64(x)?;
    let mut drawn: Vec<i128> = Vec::with_capacity(rows * samples);
    for row in logits.chunks_exact(classes.max(1)).take(rows) {
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let sums: Vec<f64> = row
            .iter()
            .map(|logit| {
                sum += (logit - greatest).exp();
                sum
            })
            .collect();
        for _ in 0..samples {
            let at = generator.uniform() * sum;
            drawn.push(sums.iter().position(|&s| at < s).unwrap_or(classes - 1) as i128);
        }
    }
    one(write_ints(dtype, &[rows, samples], drawn.into_iter())?)
}

/// Which elements `Dropout` keeps in training, each with probability `1 − ratio`. Its seed is an integer.
pub(crate) fn kept_in_training(call: &Call<'_>, len: usize, ratio: f64) -> Result<Vec<bool>> {
    let mut generator = match call.node.attributes.int("seed")? {
        Some(seed) => Generator::new(seed as u32),
        None => Generator::new(RandomState::new().hash_one(0u8) as u32),
    };
    Ok((0..len).map(|_| generator.uniform() >= ratio).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of `numpy.random.RandomState(0)`.
    #[test]
    fn the_stream_is_numpys() {
        let mut generator = Generator::new(0);
        assert_eq!([generator.bits(), generator.bits()], [2_357_136_044, 2_546_248_239]);
        let mut generator = Generator::new(0);
        assert_eq!(generator.uniform(), 0.548_813_503_927_324_8);
        assert_eq!(generator.uniform(), 0.715_189_366_372_419_5);
        let mut generator = Generator::new(0);
        assert!((generator.normal() - 1.764_052_345_967_664).abs() < 1e-14);
        assert!((generator.normal() - 0.400_157_208_367_223_3).abs() < 1e-14);
    }
}
