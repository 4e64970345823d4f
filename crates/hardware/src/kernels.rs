//! Kernels as the compiler makes them, on a GPU, against the interpreter.

use crate::device::{Buffer, Code, Device};
use anyhow::{Context, Result, bail};
use infc_codegen_ptx::{Param, PtxModule, PtxTarget, emit};
use infc_ir::entity::EntityId;
use infc_ir::index::Dim;
use infc_ir::interp::run_kernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::{BufferKind, LoopNest};
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, gpu};
use infc_runtime::GpuImage;
use infc_runtime::artifact::DeviceKernel;
use infc_tensor::{AlignedBytes, DType, Tensor};
use infc_testkit::strategies;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::path::Path;

/// A kernel as it is compiled without records.
#[derive(Debug)]
pub struct Compiled {
    /// With the stages that its schedule needs.
    kernel: Kernel,
    nest: LoopNest,
    module: PtxModule,
}

/// A kernel with all that a launch takes.
#[derive(Debug)]
pub struct Ready {
    /// How it is launched.
    pub grid: [u32; 3],
    /// What it takes.
    pub parameters: Vec<u64>,
    /// The code.
    pub code: Code,
    /// Of its operands, and behind them the launch's own memory.
    buffers: Vec<Buffer>,
}

fn size(dim: &Dim, symbols: &[i64]) -> Result<i64> {
    dim.eval(&|s| symbols.get(s.index()).copied(), &|_| None).context("a size without a value")
}

impl Compiled {
    /// Compiles a kernel for a generation.
    ///
    /// # Errors
    /// There is no schedule for it, or no PTX.
    pub fn new(kernel: &Kernel, allowed: ErrorClass, target: PtxTarget) -> Result<Self> {
        Self::by(
            kernel,
            allowed,
            target,
            &gpu::GpuMachine::for_target(target.capability(), target.multiplies_in_groups()),
        )
    }

    /// The same by a schedule that has a machine in mind.
    ///
    /// # Errors
    /// As [`Compiled::new`].
    pub fn by(kernel: &Kernel, allowed: ErrorClass, target: PtxTarget, machine: &gpu::GpuMachine) -> Result<Self> {
        let kernel = infc_passes::formulate::normalise(kernel.clone());
        let schedule = gpu::choose(&kernel, machine, allowed);
        Self::scheduled(kernel, &schedule, target)
    }

    /// The same by a schedule of a kernel as it is.
    ///
    /// # Errors
    /// The schedule does not apply, or there is no PTX.
    pub fn scheduled(kernel: Kernel, schedule: &Schedule, target: PtxTarget) -> Result<Self> {
        let nest = apply(&kernel, schedule)?;
        let module = emit(&nest, &target)?;
        Ok(Self { kernel, nest, module })
    }

    /// The text of its module.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.module.text
    }

    /// Puts buffers of its operands and its code onto a GPU.
    ///
    /// # Errors
    /// The GPU's, or a size that is none.
    pub fn ready(&self, device: &Device, symbols: &[i64], operands: &[Tensor]) -> Result<Ready> {
        let code = self.load(device, GpuImage::Ptx(&self.module.text))?;
        let mut buffers: Vec<Buffer> =
            operands.iter().map(|tensor| device.buffer(tensor.bytes())).collect::<Result<_>>()?;
        let scratch = usize::try_from(size(&self.module.scratch_bytes, symbols)?)?;
        buffers.push(device.buffer(&vec![0xff; scratch])?);
        let (grid, parameters) = self.launch(symbols, &buffers)?;
        Ok(Ready { grid, parameters, code, buffers })
    }

    /// Its code on a GPU, by an image of its module.
    ///
    /// # Errors
    /// The GPU's.
    pub fn load(&self, device: &Device, image: GpuImage<'_>) -> Result<Code> {
        let module = &self.module;
        let kernel = DeviceKernel {
            entry: module.entry.clone(),
            block: module.launch.block,
            dynamic_shared_bytes: if module.dynamic_shared { u32::try_from(module.shared_bytes)? } else { 0 },
            waits: module.waits,
        };
        device.load(image, kernel)
    }

    /// The grid and the parameters of a launch, with buffers of its operands, and behind them one of the launch's own memory if it
    /// has some.
    ///
    /// # Errors
    /// A size is none, or there is a parameter that no buffer is for.
    pub fn launch(&self, symbols: &[i64], buffers: &[Buffer]) -> Result<([u32; 3], Vec<u64>)> {
        let module = &self.module;
        let mut grid = [0; 3];
        for (blocks, dim) in grid.iter_mut().zip(&module.launch.grid) {
            *blocks = u32::try_from(size(dim, symbols)?)?;
        }
        let mut parameters = Vec::new();
        for param in &module.params {
            let buffer = |n: usize| buffers.get(n).map(Buffer::address).context("a buffer that is not there");
            parameters.push(match param {
                Param::Buffer(id) => match self.nest.buffers[*id].kind {
                    BufferKind::Operand { operand, .. } => buffer(operand.index())?,
                    BufferKind::Local(_) => bail!("a parameter that is no operand"),
                },
                Param::Scratch => buffer(self.kernel.operands.len())?,
                Param::Symbol(s) => symbols[s.index()].cast_unsigned(),
            });
        }
        Ok((grid, parameters))
    }

    /// What a GPU makes of inputs.
    ///
    /// # Errors
    /// As of [`Compiled::ready`], and of the launch.
    pub fn run(&self, device: &Device, symbols: &[i64], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        // What is not written shows.
        let mut tensors = infc_testkit::buffers_of(&self.kernel, symbols, inputs);
        let ready = self.ready(device, symbols, &tensors)?;
        device.launch(&ready.code, ready.grid, &ready.parameters)?;
        for ((operand, tensor), buffer) in self.kernel.operands.iter().zip(&mut tensors).zip(&ready.buffers) {
            if operand.kind == OperandKind::Output {
                let bytes = AlignedBytes::from_slice(&buffer.read()?);
                *tensor = Tensor::from_bytes(tensor.dtype(), tensor.shape().to_vec(), bytes)?;
            }
        }
        Ok(infc_testkit::outputs_in(&self.kernel, symbols, &tensors))
    }
}

/// What does not agree, with why.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many runs there were.
    pub runs: usize,
    /// What of them failed.
    pub failed: Vec<String>,
}

impl Outcome {
    fn note(&mut self, name: &str, result: Result<Option<String>>) {
        self.runs += 1;
        match result {
            Ok(None) => {}
            Ok(Some(difference)) => self.failed.push(format!("{name}: {difference}")),
            Err(error) => self.failed.push(format!("{name}: {error:#}")),
        }
    }
}

/// How a GPU's results differ from the interpreter's, if they do.
fn difference(
    device: &Device,
    kernel: &Kernel,
    allowed: ErrorClass,
    (symbols, tolerance): (&[i64], f64),
    target: PtxTarget,
) -> Result<Option<String>> {
    let inputs = infc_testkit::random_inputs(kernel, symbols, 7);
    let expected = run_kernel(kernel, symbols, &inputs)?;
    let found = Compiled::new(kernel, allowed, target)?.run(device, symbols, &inputs)?;
    Ok(infc_testkit::difference(&found, &expected, tolerance, tolerance))
}

/// Every kernel file in a folder, whose symbols take several values each.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(device: &Device, folder: &Path, target: PtxTarget) -> Outcome {
    let mut outcome = Outcome::default();
    for test in infc_testkit::filetests_in(folder) {
        let kernel = test.kernel();
        let half = kernel.operands.iter().any(|o| matches!(o.dtype, DType::F16 | DType::BF16));
        let tolerance = if half { 2e-3 } else { 2e-5 };
        for symbols in infc_testkit::symbol_choices(&kernel) {
            let how = (&symbols[..], tolerance);
            let found = difference(device, &kernel, ErrorClass::Reassociating, how, target);
            outcome.note(&format!("{} {symbols:?}", test.name), found);
        }
    }
    outcome
}

/// Products of halves and of bytes, whole and ragged, in the largest blocks that there are; `small` ones for a simulator.
#[must_use]
pub fn products(device: &Device, target: PtxTarget, small: bool) -> Outcome {
    const SHAPES: [[u64; 3]; 4] = [[128, 256, 128], [150, 264, 200], [64, 64, 320], [129, 136, 264]];
    const SMALL_SHAPES: [[u64; 3]; 4] = [[16, 16, 32], [33, 24, 40], [17, 40, 72], [64, 32, 64]];
    let machine = gpu::GpuMachine {
        busy_blocks: 1,
        ..gpu::GpuMachine::for_target(target.capability(), target.multiplies_in_groups())
    };
    let mut outcome = Outcome::default();
    for [m, n, k] in if small { SMALL_SHAPES } else { SHAPES } {
        for (a, b, sum, turned) in [
            ("f16", "f16", "f32", false),
            ("bf16", "bf16", "f32", false),
            ("f16", "f16", "f32", true),
            ("i8", "i8", "i32", true),
            ("u8", "i8", "i32", true),
        ] {
            let k = if sum == "i32" { k.next_multiple_of(16) } else { k };
            let (shape, at) = match turned {
                true => (format!("{n}, {k}"), "n, k"),
                false => (format!("{}, {k}, 64", n.div_ceil(64)), "div(n, 64), k, mod(n, 64)"),
            };
            let text = format!(
                "kernel @product(x: {a}[{m}, {k}], const w: {b}[{shape}]) -> (y: {sum}[{m}, {n}]) {{
  stage s[m: {m}, n: {n}, reduce k: {k}]: {sum} = fold sum {sum}(x[m, k]) * {sum}(w[{at}])
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
            );
            let run = || {
                let kernel: Kernel = text.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
                let inputs = infc_testkit::random_inputs(&kernel, &[], 7);
                let expected = run_kernel(&kernel, &[], &inputs)?;
                let compiled = Compiled::by(&kernel, ErrorClass::Reassociating, target, &machine)?;
                let found = compiled.run(device, &[], &inputs)?;
                let tolerance = if sum == "i32" { 0.0 } else { 1e-4 };
                Ok(infc_testkit::difference(&found, &expected, tolerance, tolerance))
            };
            outcome.note(
                &format!("product {m}×{n}×{k} {a} {b}, {}", if turned { "terms side by side" } else { "panels" }),
                run(),
            );
        }
    }
    outcome
}

/// So many random kernels.
///
/// # Panics
/// If none can be drawn.
#[must_use]
pub fn random(device: &Device, count: usize, seed: u64, target: PtxTarget) -> Outcome {
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let mut outcome = Outcome::default();
    for n in 0..count {
        let kernel = strategies::kernels().new_tree(&mut runner).expect("a kernel can be drawn").current();
        let symbols: Vec<i64> = kernel.symbols.iter().map(|_| 1 + (n / 2 % 4) as i64).collect();
        let allowed = if n % 2 == 0 { ErrorClass::Exact } else { ErrorClass::Reassociating };
        let found = difference(device, &kernel, allowed, (&symbols, 1e-4), target);
        outcome.note(&format!("random kernel {n} of seed {seed}\n{kernel}"), found);
    }
    outcome
}
