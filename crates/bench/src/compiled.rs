//! One kernel as an artifact, run by the runtime: what is measured is what models get.

use anyhow::{Context, Result, bail};
use infc::{KernelOptions, SingleKernel, Target};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::LoopNest;
use infc_runtime::{Model, RunOptions, Session, SessionOptions, TensorView, TensorViewMut};
use infc_tensor::{AlignedBytes, Tensor};
use std::time::Instant;

/// Seeded inputs of a kernel and memory for its outputs. Several targets share one, so that taking turns does not change
/// what caches hold.
pub(crate) struct Operands {
    inputs: Vec<Tensor>,
    outputs: Vec<AlignedBytes>,
}

/// A compiled kernel, ready to run.
pub(crate) struct Compiled {
    session: Session,
    /// Launches per run.
    repeats: usize,
    output_shapes: Vec<(infc_tensor::DType, Vec<usize>)>,
    /// The schedule it runs by.
    pub(crate) schedule: String,
    nest: LoopNest,
    /// Moves between registers and stack in innermost loops.
    pub(crate) inner_loop_spills: u32,
    /// Bytes of code.
    pub(crate) code_bytes: usize,
}

impl Operands {
    /// For a kernel without symbols.
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let logical = infc_testkit::random_inputs(kernel, &[], 1);
        let (inputs, outputs): (Vec<_>, Vec<_>) = kernel.operands.iter().partition(|o| o.kind != OperandKind::Output);
        let inputs = inputs.into_iter().zip(&logical).map(|(o, t)| infc_testkit::to_physical(o, &[], Some(t)));
        let bytes = |o: &infc_ir::kernel::Operand| {
            let elements = o.layout.len_elems.as_const().and_then(|n| usize::try_from(n).ok())?;
            o.dtype.storage_bytes(elements)
        };
        let outputs = outputs.into_iter().map(|o| AlignedBytes::zeroed(bytes(o).unwrap_or(0)));
        Self { inputs: inputs.collect(), outputs: outputs.collect() }
    }
}

impl Compiled {
    /// Compiles for one target; the schedule is the untuned default unless one is given. A run launches the kernel
    /// `repeats` times, so that of small kernels too the code is measured and not the call of a session.
    ///
    /// # Errors
    /// If the kernel has symbols, cannot be compiled, or the target does not run here.
    pub(crate) fn new(
        kernel: &Kernel,
        target: &Target,
        threads: usize,
        repeats: usize,
        schedule: Option<&str>,
    ) -> Result<Self> {
        if !kernel.symbols.is_empty() {
            bail!("{}: only static kernels are measured", kernel.name);
        }
        let schedule = schedule.map(|text| text.parse().map_err(|e| anyhow::anyhow!("schedule: {e}"))).transpose()?;
        let options = KernelOptions { schedule, launches: repeats, ..KernelOptions::new(target.clone()) };
        let SingleKernel { artifact, scheduled, code, inner_loop_spills } = infc::compile_kernel(kernel, &options)?;
        let output_shapes = kernel
            .operands
            .iter()
            .filter(|operand| operand.kind == OperandKind::Output)
            .map(|operand| {
                let len = operand.layout.len_elems.as_const().context("static kernels have constant sizes")?;
                Ok((operand.dtype, vec![usize::try_from(len)?]))
            })
            .collect::<Result<Vec<_>>>()?;
        let model = Model::from_vec(artifact)?;
        let session = model.session(&SessionOptions { max_threads: Some(threads), ..SessionOptions::default() })?;
        Ok(Self {
            session,
            repeats,
            output_shapes,
            schedule: scheduled.schedule.to_string(),
            nest: scheduled.nest,
            inner_loop_spills,
            code_bytes: code.len(),
        })
    }

    /// The code as text.
    ///
    /// # Errors
    /// If it cannot be made again.
    pub(crate) fn listing(&self, target: &Target) -> Result<String> {
        Ok(infc_codegen_cpu::list_nest(&self.nest, target)?)
    }

    /// Runs once; seconds per launch.
    ///
    /// # Errors
    /// What the runtime says.
    pub(crate) fn run(&mut self, operands: &mut Operands) -> Result<f64> {
        let views: Vec<TensorView<'_>> = operands.inputs.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
        let mut outputs: Vec<TensorViewMut<'_>> = operands
            .outputs
            .iter_mut()
            .zip(&self.output_shapes)
            .map(|(bytes, (dtype, shape))| TensorViewMut::new(*dtype, shape, bytes))
            .collect::<Result<_, _>>()?;
        let start = Instant::now();
        self.session.run(&views, &mut outputs, &RunOptions::default())?;
        Ok(start.elapsed().as_secs_f64() / self.repeats as f64)
    }
}
