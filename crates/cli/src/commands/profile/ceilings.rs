//! What this machine does at most, as far as code of infc gets: measured with small models made for it.
//!
//! A matrix product that fits the second cache is the fastest arithmetic there is, and copying or adding up rows the
//! fastest way through memory. The latter depends on how much there is: up to which cache it fits. So memory has several
//! ceilings, each for kernels that touch at most so many bytes. They are of 32-bit floats: products of bytes may exceed
//! the one for arithmetic.

use crate::failure::Failure;
use crate::small_model::{SmallModel, pattern};
use crate::{quickest, tables};
use infc::{CompileOptions, Source};
use infc_frontend_onnx::proto::ModelProto;
use infc_runtime::{LoadOptions, Model, Pool, Selection};
use prost::Message;
use serde::Serialize;

/// The product that is timed, `[M, K] × [K, N]`, with so many rows for each thread. A run takes a fraction of a
/// millisecond, so that the quickest of many was left alone by whatever else the machine does.
const PRODUCT: [usize; 3] = [96, 256, 256];
/// Bytes that are gone through: of second caches, of third ones, of memory.
const WORKING_SETS: &[usize] = &[256 << 10, 2 << 20, 12 << 20, 96 << 20];
/// The same for GPUs, whose processors a small product would leave idle, and whose caches are larger.
const PRODUCT_ON_GPU: [usize; 3] = [2048, 2048, 2048];
const WORKING_SETS_ON_GPU: &[usize] = &[4 << 20, 32 << 20, 512 << 20];
/// The ceilings, of all threads together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ceilings {
    /// 10^9 operations per second; a multiply-add is two.
    pub(super) gflops: f64,
    /// By size, ascending.
    pub(super) memory: Vec<MemoryCeiling>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct MemoryCeiling {
    /// For kernels that read and write at most so much; the last one for all.
    pub(super) bytes: usize,
    pub(super) gb_per_s: f64,
}

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Bound {
    Arithmetic,
    Memory,
}

impl Bound {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        }
    }
}

impl Ceilings {
    /// Measures with the code that a model's is for.
    pub(super) fn measure(selection: &Selection, pool: &Pool) -> Result<Self, Failure> {
        let target = selection.target.as_str();
        let ([rows, k, n], sets, threads) = match selection.gpu {
            Some(_) => (PRODUCT_ON_GPU, WORKING_SETS_ON_GPU, 1),
            None => (PRODUCT, WORKING_SETS, pool.threads()),
        };
        let m = rows * threads;
        let seconds = time(&product(m, k, n), &[m, k], target, pool)?;
        let gflops = 2.0 * (m * k * n) as f64 / seconds / 1e9;
        let mut memory = Vec::new();
        for &bytes in sets {
            // Half is read and half written, or all of it read; rows of 4 KiB.
            let rows = |bytes: usize| [bytes / 4096, 1024];
            let copied = time(&unary("Neg", rows(bytes / 2), &[]), &rows(bytes / 2), target, pool)?;
            let read = time(&unary("ReduceMax", rows(bytes), &[("axes", &[1])]), &rows(bytes), target, pool)?;
            memory.push(MemoryCeiling { bytes, gb_per_s: bytes as f64 / copied.min(read) / 1e9 });
        }
        // More never goes faster: a small set of many threads is bound by how soon they start.
        for n in (0..memory.len() - 1).rev() {
            memory[n].gb_per_s = memory[n].gb_per_s.max(memory[n + 1].gb_per_s);
        }
        Ok(Self { gflops, memory })
    }

    /// The least milliseconds of a launch, and what they follow from.
    pub(super) fn least(&self, macs: u64, bytes: u64) -> (f64, Bound) {
        let arithmetic = 2.0 * macs as f64 / self.gflops / 1e6;
        let ceiling = self.memory.iter().find(|ceiling| bytes <= ceiling.bytes as u64).or(self.memory.last());
        let memory = ceiling.map_or(0.0, |ceiling| bytes as f64 / ceiling.gb_per_s / 1e6);
        if arithmetic >= memory { (arithmetic, Bound::Arithmetic) } else { (memory, Bound::Memory) }
    }

    pub(super) fn text(&self) -> String {
        let memory: Vec<String> = (self.memory.iter())
            .map(|ceiling| format!("{:.0} GB/s up to {}", ceiling.gb_per_s, tables::bytes(ceiling.bytes as u64)))
            .collect();
        format!("{:.0} GFLOP/s, {}", self.gflops, memory.join(", "))
    }
}

/// Seconds of the quickest run.
fn time(model: &ModelProto, input: &[usize], target: &str, pool: &Pool) -> Result<f64, Failure> {
    let options = CompileOptions { targets: vec![target.to_owned()], ..CompileOptions::default() };
    let compilation = infc::compile(&Source::bytes(model.encode_to_vec()), &options, &mut ())?;
    let load = LoadOptions { target: Some(target.to_owned()), pool: Some(pool.clone()), ..LoadOptions::default() };
    let model = Model::from_vec_with(compilation.to_bytes()?, &load)?;
    quickest::run_seconds(&model, &[pattern(input)])
}

fn product(m: usize, k: usize, n: usize) -> ModelProto {
    let mut model = SmallModel::default();
    model.input("x", &[m, k]);
    model.weight("w", &[k, n]);
    model.node("MatMul", &["x", "w"], "y", &[]);
    model.output("y");
    model.finish()
}

fn unary(op_type: &str, shape: [usize; 2], attributes: &[(&str, &[i64])]) -> ModelProto {
    let mut model = SmallModel::default();
    model.input("x", &shape);
    model.node(op_type, &["x"], "y", attributes);
    model.output("y");
    model.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_bounds() {
        let ceiling = |bytes, gb_per_s| MemoryCeiling { bytes, gb_per_s };
        let ceilings = Ceilings { gflops: 100.0, memory: vec![ceiling(1000, 50.0), ceiling(10_000, 10.0)] };
        // 10^9 multiply-adds at 10^11 operations a second.
        assert_eq!(ceilings.least(1_000_000_000, 0), (20.0, Bound::Arithmetic));
        assert_eq!(ceilings.least(0, 1000), (1000.0 / 50e6, Bound::Memory));
        assert_eq!(ceilings.least(0, 1001), (1001.0 / 10e6, Bound::Memory));
        assert_eq!(ceilings.least(0, 1_000_000), (1e6 / 10e6, Bound::Memory));
    }
}
