//! What this machine does at most, as far as code of infc gets: measured with small models made for it.
//!
//! A matrix product that fits the second cache is the fastest arithmetic there is, and copying or adding up rows the
//! fastest way through memory. The latter depends on how much there is: up to which cache it fits. So memory has several
//! ceilings, each for kernels that touch at most so many bytes. Arithmetic has one of 32-bit floats, and one of products in
//! tiles of 16-bit floats where the model has kernels that multiply so; products of bytes may exceed both.

use crate::failure::Failure;
use crate::gpu;
use crate::small_model::{SmallModel, pattern};
use crate::{quickest, tables};
use infc::{CompileOptions, Precision, Source};
use infc_artifact::KernelInfo;
use infc_frontend_onnx::proto::ModelProto;
use infc_runtime::{LoadOptions, Model, Pool};
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
/// The same for GPUs that are no hardware, whose seconds are instructions.
const PRODUCT_ON_GIVEN_GPU: [usize; 3] = [64, 64, 64];
const WORKING_SETS_ON_GIVEN_GPU: &[usize] = &[64 << 10];

/// The ceilings, of all threads together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ceilings {
    /// 10^9 operations per second; a multiply-add is two.
    pub(super) gflops: f64,
    /// The same of products in tiles ([`in_tiles`]); `None` if the model has none.
    pub(super) tile_gflops: Option<f64>,
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
    /// Measures with the code that a model's is for, where the model runs.
    pub(super) fn measure(model: &Model, pool: &Pool) -> Result<Self, Failure> {
        let selection = model.selection();
        let (target, is_on_gpu) = (selection.target.as_str(), selection.gpu.is_some());
        let ([rows, k, n], sets, threads) = match (is_on_gpu, gpu::for_model().is_some()) {
            (true, true) => (PRODUCT_ON_GIVEN_GPU, WORKING_SETS_ON_GIVEN_GPU, 1),
            (true, false) => (PRODUCT_ON_GPU, WORKING_SETS_ON_GPU, 1),
            (false, _) => (PRODUCT, WORKING_SETS, pool.threads()),
        };
        let m = rows * threads;
        let gflops = |precision| -> Result<f64, Failure> {
            Ok(2.0 * (m * k * n) as f64 / time(&product(m, k, n), &[m, k], precision, target, pool)? / 1e9)
        };
        let halves = if is_on_gpu { Precision::F16 } else { Precision::Bf16 };
        let has_tiles = model.variant().kernels.iter().any(in_tiles);
        let arithmetic = gflops(Precision::F32)?;
        let tile_gflops = has_tiles.then(|| gflops(halves)).transpose()?;
        let mut memory = Vec::new();
        for &bytes in sets {
            // Half is read and half written, or all of it read; rows of 4 KiB.
            let rows = |bytes: usize| [bytes / 4096, 1024];
            let seconds = |model: ModelProto, shape: &[usize]| time(&model, shape, Precision::F32, target, pool);
            let copied = seconds(unary("Neg", rows(bytes / 2), &[]), &rows(bytes / 2))?;
            let read = seconds(unary("ReduceMax", rows(bytes), &[("axes", &[1])]), &rows(bytes))?;
            memory.push(MemoryCeiling { bytes, gb_per_s: bytes as f64 / copied.min(read) / 1e9 });
        }
        // More never goes faster: a small set of many threads is bound by how soon they start.
        for n in (0..memory.len() - 1).rev() {
            memory[n].gb_per_s = memory[n].gb_per_s.max(memory[n + 1].gb_per_s);
        }
        Ok(Self { gflops: arithmetic, tile_gflops, memory })
    }

    /// Of arithmetic, for a kernel that multiplies in tiles or does not.
    fn arithmetic(&self, in_tiles: bool) -> f64 {
        self.tile_gflops.filter(|_| in_tiles).unwrap_or(self.gflops).max(self.gflops)
    }

    /// All of arithmetic, the lowest first.
    pub(super) fn of_arithmetic(&self) -> impl Iterator<Item = f64> {
        let tiles = self.tile_gflops.filter(|tiles| *tiles > self.gflops);
        std::iter::once(self.gflops).chain(tiles)
    }

    /// The highest of arithmetic.
    pub(super) fn highest(&self) -> f64 {
        self.of_arithmetic().fold(self.gflops, f64::max)
    }

    /// The least milliseconds of a launch, and what they follow from.
    pub(super) fn least(&self, macs: u64, bytes: u64, in_tiles: bool) -> (f64, Bound) {
        let arithmetic = 2.0 * macs as f64 / self.arithmetic(in_tiles) / 1e6;
        let ceiling = self.memory.iter().find(|ceiling| bytes <= ceiling.bytes as u64).or(self.memory.last());
        let memory = ceiling.map_or(0.0, |ceiling| bytes as f64 / ceiling.gb_per_s / 1e6);
        if arithmetic >= memory { (arithmetic, Bound::Arithmetic) } else { (memory, Bound::Memory) }
    }

    pub(super) fn text(&self) -> String {
        let memory: Vec<String> = (self.memory.iter())
            .map(|ceiling| format!("{:.0} GB/s up to {}", ceiling.gb_per_s, tables::bytes(ceiling.bytes as u64)))
            .collect();
        let tiles = self.tile_gflops.map_or_else(String::new, |rate| format!(" ({rate:.0} in tiles of 16-bit floats)"));
        format!("{:.0} GFLOP/s{tiles}, {}", self.gflops, memory.join(", "))
    }
}

/// Instructions that multiply tiles, or vectors of pairs, of 16-bit floats, or of TF32, half as many at a time.
const OF_HALVES: [&str; 5] = ["mma16", "wgmma16", "mma8", "tile2", "dot2"];

/// Whether a kernel's sums are those of such instructions.
pub(super) fn in_tiles(kernel: &KernelInfo) -> bool {
    let is_of_halves = |step: &str| OF_HALVES.iter().any(|name| step.ends_with(&format!(" to {name}")));
    kernel.schedule.split("; ").any(|step| step.starts_with("tensorize ") && is_of_halves(step))
}

/// Seconds of the quickest run.
fn time(model: &ModelProto, input: &[usize], precision: Precision, target: &str, pool: &Pool) -> Result<f64, Failure> {
    let options = CompileOptions { targets: vec![target.to_owned()], precision, ..CompileOptions::default() };
    let compilation = infc::compile(&Source::bytes(model.encode_to_vec()), &options, &mut ())?;
    let (target, pool) = (Some(target.to_owned()), Some(pool.clone()));
    let load = LoadOptions { target, pool, gpu: gpu::for_model(), ..LoadOptions::default() };
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
        let ceilings = Ceilings {
            gflops: 100.0,
            tile_gflops: Some(400.0),
            memory: vec![ceiling(1000, 50.0), ceiling(10_000, 10.0)],
        };
        // 10^9 multiply-adds at 10^11 operations a second.
        assert_eq!(ceilings.least(1_000_000_000, 0, false), (20.0, Bound::Arithmetic));
        assert_eq!(ceilings.least(1_000_000_000, 0, true), (5.0, Bound::Arithmetic));
        assert_eq!(ceilings.least(0, 1000, false), (1000.0 / 50e6, Bound::Memory));
        assert_eq!(ceilings.least(0, 1001, false), (1001.0 / 10e6, Bound::Memory));
        assert_eq!(ceilings.least(0, 1_000_000, false), (1e6 / 10e6, Bound::Memory));
    }
}
