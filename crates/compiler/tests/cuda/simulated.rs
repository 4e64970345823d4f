//! A plan on PTX kernels: each launched by the simulator on the buffers of the plan, of which no byte may be read before
//! it is written. Outputs take the memory of inputs where the plan allows it.

use infc_codegen_ptx::{PtxModule, PtxTarget, emit};
use infc_ir::entity::EntityId;
use infc_ir::index::Dim;
use infc_ir::nest::LoopNest;
use infc_passes::form::{BufferPlace, GraphPlan, OperandSource, PlannedKernel};
use infc_passes::schedule::{apply, gpu};
use infc_passes::{ErrorClass, formulate};
use infc_ptxsim::Buffer;
use infc_simgpu::launch;
use infc_tensor::{AlignedBytes, Tensor};

fn size(dim: &Dim, symbols: &[i64]) -> usize {
    let value = dim.eval(&|s| symbols.get(s.index()).copied(), &|_| None);
    value.and_then(|v| usize::try_from(v).ok()).expect("a size")
}

/// The outputs of the plan.
pub(crate) fn simulate(plan: &GraphPlan, symbols: &[i64], inputs: &[Tensor], seed: u64) -> Vec<Tensor> {
    let mut memory: Vec<Buffer> = plan
        .buffers
        .iter()
        .map(|buffer| match buffer.place {
            BufferPlace::Input(n) => Buffer::input(inputs[n].bytes().to_vec()),
            _ => Buffer::output(size(&buffer.len_elems, symbols) * buffer.dtype.size_bytes().expect("whole bytes")),
        })
        .collect();
    let of_plan = memory.len();
    let mut place_of: Vec<usize> = (0..of_plan).collect();
    for planned in &plan.kernels {
        assert!(planned.guard.is_empty(), "branches are not simulated");
        let (nest, module) = compiled(planned);
        let buffer = |operand: infc_ir::entity::OperandId| match &planned.operands[operand.index()] {
            OperandSource::Value(value) => plan.values[value].buffer,
            OperandSource::Constant(_) => panic!("constants stay where they are"),
        };
        for &(input, output) in &planned.in_place {
            place_of[buffer(output)] = place_of[buffer(input)];
        }
        let places: Vec<usize> = planned
            .operands
            .iter()
            .map(|source| match source {
                OperandSource::Value(value) => place_of[plan.values[value].buffer],
                OperandSource::Constant(constant) => {
                    memory.push(Buffer::input(constant.tensor().expect("the packing fits").bytes().to_vec()));
                    memory.len() - 1
                }
            })
            .collect();
        launch(&nest, &module, &module.text, symbols, &mut memory, &places, seed)
            .unwrap_or_else(|e| panic!("{e}\n{nest}\n{}", module.text));
        memory.truncate(of_plan);
    }
    let outputs = plan.graph.outputs.iter().map(|port| {
        let ty = plan.graph.ty(port.value);
        let buffer = &memory[place_of[plan.values[&port.value].buffer]];
        assert!(buffer.initialised.iter().all(|&i| i), "all of an output is written");
        let shape = ty.shape.iter().map(|d| size(d, symbols)).collect();
        Tensor::from_bytes(ty.dtype, shape, AlignedBytes::from_slice(&buffer.bytes)).expect("as long as it says")
    });
    outputs.collect()
}

fn compiled(planned: &PlannedKernel) -> (LoopNest, PtxModule) {
    let normalised = formulate::normalise(planned.kernel.clone());
    let schedule = gpu::choose(&normalised, &gpu::GpuMachine::default(), ErrorClass::Reassociating);
    let nest = apply(&normalised, &schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{normalised}"));
    let module = emit(&nest, &PtxTarget::default()).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{normalised}\n{nest}"));
    (nest, module)
}
