//! Runs plans: kernel by kernel, and nest by nest on the buffers of the plan.

use crate::build::{Net, assert_close, noise};
use crate::support::machine;
use infc_ir::index::Dim;
use infc_ir::interp::run_nest;
use infc_ir::kernel::{Kernel, Layout};
use infc_ir::verify::{verify_kernel, verify_nest};
use infc_passes::form::{BufferPlace, FormOptions, GraphPlan, Interpreter, OperandSource, form};
use infc_passes::formulate;
use infc_passes::schedule;
use infc_tensor::{AlignedBytes, Tensor};

/// Plans a net and checks that the plan computes the same.
pub(crate) fn check(net: &Net) -> GraphPlan {
    check_with(net, &FormOptions::default())
}

/// The same, of another plan.
pub(crate) fn check_with(net: &Net, options: &FormOptions) -> GraphPlan {
    let expected = net.outputs();
    let plan = form(&net.graph, options).expect("the graph is well formed");
    for planned in &plan.kernels {
        if let Err(error) = verify_kernel(&planned.kernel) {
            panic!("{error}\n{}", planned.kernel);
        }
    }
    let inputs = inputs(net);
    let found = Interpreter::new(&plan, &[], &inputs).run().unwrap_or_else(|e| panic!("{e}\n{plan}"));
    assert_close(&expected, &found);
    for formulated in [false, true] {
        let found = run_in_memory(&plan, &inputs, formulated);
        assert_close(&expected, &found);
    }
    plan
}

fn inputs(net: &Net) -> Vec<Tensor> {
    let shapes = net.graph.inputs.iter().map(|port| net.shape(port.value));
    shapes
        .enumerate()
        .map(|(n, shape)| noise(&shape.iter().map(|&d| d as usize).collect::<Vec<_>>(), 1000 + n as u32))
        .collect()
}

fn number(dim: &Dim) -> usize {
    usize::try_from(dim.as_const().expect("these plans are static")).expect("sizes are not negative")
}

/// Runs the nests of all kernels on flat buffers. What nobody wrote is NaN.
fn run_in_memory(plan: &GraphPlan, inputs: &[Tensor], formulated: bool) -> Vec<Tensor> {
    let mut memory: Vec<Tensor> = plan
        .buffers
        .iter()
        .map(|buffer| match buffer.place {
            BufferPlace::Input(n) => flat(&inputs[n]),
            _ => {
                let len = number(&buffer.len_elems);
                match buffer.dtype.size_bytes() {
                    Some(size) => {
                        let garbage = vec![0xffu8; len * size];
                        let bytes = AlignedBytes::from_slice(&garbage);
                        Tensor::from_bytes(buffer.dtype, vec![len], bytes).expect("as long as it says")
                    }
                    None => panic!("{} has no whole bytes", buffer.dtype),
                }
            }
        })
        .collect();
    for planned in &plan.kernels {
        let kernel = if formulated { formulate::normalise(planned.kernel.clone()) } else { planned.kernel.clone() };
        let schedule = if formulated {
            schedule::choose(&kernel, &machine(32, 16), infc_passes::ErrorClass::Reassociating)
        } else {
            schedule::plain(&kernel)
        };
        let nest = schedule::apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
        let place = |source: &OperandSource| match source {
            OperandSource::Value(value) => Some(plan.values[value].buffer),
            OperandSource::Constant(_) => None,
        };
        let mut buffers: Vec<Tensor> = planned
            .operands
            .iter()
            .map(|source| match source {
                OperandSource::Value(_) => memory[place(source).expect("a value")].clone(),
                OperandSource::Constant(constant) => flat(&constant.tensor().expect("the packing fits")),
            })
            .collect();
        run_nest(&nest, &[], &mut buffers).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{}\n{nest}", text(&kernel)));
        for (source, buffer) in planned.operands.iter().zip(buffers) {
            if let Some(at) = place(source) {
                memory[at] = buffer;
            }
        }
    }
    plan.graph
        .outputs
        .iter()
        .map(|port| {
            let planned = &plan.values[&port.value];
            let shape: Vec<usize> = plan.graph.ty(port.value).shape.iter().map(number).collect();
            let layout = &planned.layout;
            assert_eq!(layout.strides, Layout::dense(&plan.graph.ty(port.value).shape).strides);
            memory[planned.buffer].reshaped(&shape).expect("outputs are dense")
        })
        .collect()
}

fn flat(tensor: &Tensor) -> Tensor {
    tensor.reshaped(&[tensor.len_elems()]).expect("as many elements")
}

fn text(kernel: &Kernel) -> String {
    kernel.to_string()
}
