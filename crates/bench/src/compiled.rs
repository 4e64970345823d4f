//! One kernel as an artifact, run by the runtime: what is measured is what models get.

use anyhow::{Context, Result, bail};
use infc_artifact::{Arg, ArtifactBuilder, Entry, KernelInfo, Launch, MemoryPlan, PortSpec, Program, Provenance};
use infc_artifact::{SizeExpr, Slot, Step, VariantBuilder, features};
use infc_codegen_cpu::Target;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::LoopNest;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, choose};
use infc_runtime::{Model, RunOptions, Session, SessionOptions, TensorView, TensorViewMut};
use infc_tensor::{AlignedBytes, Tensor};
use std::time::Instant;

/// A compiled kernel with seeded inputs, ready to run.
pub(crate) struct Compiled {
    session: Session,
    inputs: Vec<Tensor>,
    /// Launches per run.
    repeats: usize,
    outputs: Vec<AlignedBytes>,
    output_shapes: Vec<(infc_tensor::DType, Vec<usize>)>,
    /// The schedule it runs by.
    pub(crate) schedule: String,
    nest: LoopNest,
    /// Moves between registers and stack in innermost loops.
    pub(crate) inner_loop_spills: u32,
    /// Bytes of code.
    pub(crate) code_bytes: usize,
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
        let inputs = physical_inputs(kernel);
        let kernel = infc_passes::formulate::normalise(kernel.clone());
        let schedule = match schedule {
            Some(text) => text.parse().map_err(|e| anyhow::anyhow!("schedule: {e}"))?,
            None => choose(&kernel, &infc::schedule_machine(target), ErrorClass::Reassociating),
        };
        let nest = apply(&kernel, &schedule)?;
        let compiled = infc_codegen_cpu::compile_nest(&nest, target)?;
        let constant = |d: &infc_ir::index::Dim| d.as_const().context("static kernels have constant sizes");

        let mut entry = Entry { name: "main".to_owned(), ..empty_entry() };
        let mut program = Program::default();
        let mut launch_args = Vec::new();
        let mut output_shapes = Vec::new();
        for operand in kernel.operands.iter() {
            let len = constant(&operand.layout.len_elems)?;
            let port =
                PortSpec { name: operand.name.clone(), dtype: operand.dtype, shape: vec![SizeExpr::constant(len)] };
            let slot = u32::try_from(program.slots.len())?;
            if operand.kind == OperandKind::Output {
                program.slots.push(Slot::Output(u32::try_from(entry.outputs.len())?));
                output_shapes.push((operand.dtype, vec![usize::try_from(len)?]));
                entry.outputs.push(port);
                launch_args.push(Arg::write(slot));
            } else {
                program.slots.push(Slot::Input(u32::try_from(entry.inputs.len())?));
                entry.inputs.push(port);
                launch_args.push(Arg::read(slot));
            }
        }
        let chunks = nest.parallel.as_ref().map_or(Ok(1), |p| constant(&p.chunks))?;
        let launch = Step::Launch(Launch {
            kernel: 0,
            args: launch_args,
            values: Vec::new(),
            chunks: SizeExpr::constant(chunks),
            scratch_bytes: SizeExpr::constant(constant(&compiled.scratch_bytes)?),
        });
        program.steps = vec![launch; repeats];
        program.static_plan = Some(MemoryPlan::new(&program, &[])?);

        let mut builder = ArtifactBuilder::new(Provenance::default());
        builder.entry(entry);
        let name = target.to_string();
        let required = features::required_by(&name).context("a known target")?;
        let mut variant = VariantBuilder::new(name, &required);
        let info = KernelInfo { name: kernel.name.clone(), ..KernelInfo::default() };
        variant.kernel(info, &compiled.function.code);
        variant.program(program);
        builder.variant(variant);
        let bytes = builder.finish()?.to_vec()?;
        let model = Model::from_vec(bytes)?;
        let session = model.session(&SessionOptions { max_threads: Some(threads), ..SessionOptions::default() })?;
        let outputs = output_shapes
            .iter()
            .map(|(dtype, shape)| AlignedBytes::zeroed(dtype.storage_bytes(shape[0]).unwrap_or(0)))
            .collect();
        Ok(Self {
            session,
            inputs,
            repeats,
            outputs,
            output_shapes,
            schedule: schedule.to_string(),
            nest,
            inner_loop_spills: compiled.function.stats.inner_loop_spills,
            code_bytes: compiled.function.code.len(),
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
    pub(crate) fn run(&mut self) -> Result<f64> {
        let views: Vec<TensorView<'_>> = self.inputs.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
        let mut outputs: Vec<TensorViewMut<'_>> = self
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

fn empty_entry() -> Entry {
    Entry {
        name: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        symbols: Vec::new(),
        bindings: Vec::new(),
        state: Vec::new(),
        assumptions: Vec::new(),
    }
}

/// Seeded inputs, laid out.
fn physical_inputs(kernel: &Kernel) -> Vec<Tensor> {
    let logical = infc_testkit::random_inputs(kernel, &[], 1);
    let operands = kernel.operands.iter().filter(|o| o.kind != OperandKind::Output);
    operands.zip(&logical).map(|(o, t)| infc_testkit::to_physical(o, &[], Some(t))).collect()
}
