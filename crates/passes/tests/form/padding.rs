//! Operands that are seen through padding: what is copied of them is part of them.

use crate::build::assert_close;
use infc_ir::graph::Graph;
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_passes::form::{FormOptions, Interpreter, form};
use infc_tensor::Tensor;

fn ramp(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|n: usize| (n % 17) as f32 - 2.5).collect();
    Tensor::from_elements(shape, &values).expect("as many as the shape says")
}

/// Along an axis of one element, which was broadcast, every tap falls into the padding: a condition that nothing changes, of
/// which no window of the operand follows.
#[test]
fn a_condition_on_no_axis() {
    let text = r"
graph @outside(%x: f32[6, 1, 6, 4], %w: f32[4, 6, 3, 3]) -> (y: %1) {
  %0 = view [i0, i1, i2, i3, i4, i5, i6 -> i1, 0, 2*i2 + i5, i3 + 3*i6 - 1 if 0 <= -1 < 2 and 0 <= 2*i2 + i5 < 6 and 0 <= i3 + 3*i6 - 1 < 4 else 0] %x : f32[2, 6, 3, 3, 1, 3, 2]
  %1 = contract [a c d e f g h, b c d e -> a b f g h] %0, %w : f32[2, 4, 1, 3, 2]
}";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let inputs = [ramp(&[6, 1, 6, 4]), ramp(&[4, 6, 3, 3])];
    let expected = run_graph(&graph, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
    let plan = form(&graph, &FormOptions::default()).expect("the graph is well formed");
    let found = Interpreter::new(&plan, &[], &inputs).run().unwrap_or_else(|e| panic!("{e}\n{plan}"));
    assert_close(&expected, &found);
}
