//! Operands that are seen through padding: what is copied of them is part of them.

use crate::build::assert_close;
use infc_ir::graph::Graph;
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_passes::form::{FormOptions, GraphPlan, Interpreter, form};
use infc_tensor::Tensor;

fn ramp(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|n: usize| (n % 17) as f32 - 2.5).collect();
    Tensor::from_elements(shape, &values).expect("as many as the shape says")
}

/// The graph's plan, which computes what the graph does.
#[track_caller]
fn planned(text: &str, inputs: &[Tensor]) -> GraphPlan {
    planned_at(text, &[], inputs)
}

/// See [`planned`], at sizes that the run tells.
#[track_caller]
fn planned_at(text: &str, sizes: &[i64], inputs: &[Tensor]) -> GraphPlan {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let expected = run_graph(&graph, sizes, inputs).unwrap_or_else(|e| panic!("{e}"));
    let plan = form(&graph, &FormOptions::default()).expect("the graph is well formed");
    let found = Interpreter::new(&plan, sizes, inputs).run().unwrap_or_else(|e| panic!("{e}\n{plan}"));
    assert_close(&expected, &found);
    plan
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
    planned(text, &[ramp(&[6, 1, 6, 4]), ramp(&[4, 6, 3, 3])]);
}

/// What is mirrored, kept within its border or taken from its other end is copied with its padding, of which windows are
/// sums of coordinates: no point is there once per tap.
#[test]
fn windows_over_what_is_no_sum() {
    let mirrored =
        |e: &str, n: i64| format!("min(-max(-({e} - 1), {e} - 1) + {}, max(-({e} - 1), {e} - 1))", 2 * (n - 1));
    let kept = |e: &str, n: i64| format!("min(max({e} - 1, 0), {})", n - 1);
    let around = |e: &str, n: i64| format!("mod({e} + {}, {n})", n - 1);
    let repeated = |e: &str, n: i64| format!("div({e}, 2) if 0 <= {e} - 1 < {}", 2 * n);
    for (name, padded) in [
        ("mirrored", &mirrored as &dyn Fn(&str, i64) -> String),
        ("kept", &kept),
        ("around", &around),
        ("repeated", &repeated),
    ] {
        for stride in [1, 2] {
            let size = if name == "repeated" { [12, 14] } else { [6, 7] };
            let [rows, columns] = size.map(|extent: i64| (extent + stride - 1) / stride);
            let h = format!("i2 + {stride}*i4").replace("1*", "");
            let w = format!("i3 + {stride}*i5").replace("1*", "");
            let (mut h, mut w) = (padded(&h, 6), padded(&w, 7));
            let mut tested = String::new();
            if let (Some((at, of_h)), Some((of, of_w))) = (h.clone().split_once(" if "), w.clone().split_once(" if ")) {
                tested = format!(" if {of_h} and {of_w} else 0");
                (h, w) = (at.replace("i2 +", "i2 - 1 +"), of.replace("i3 +", "i3 - 1 +"));
            }
            let text = format!(
                "graph @padded(%x: f32[1, 8, 6, 7], %w: f32[4, 8, 3, 3]) -> (y: %2) {{
  %0 = map [x0 -> x0 * 2] %x : f32[1, 8, 6, 7]
  %1 = view [i0, i1, i2, i3, i4, i5 -> 0, i1, {h}, {w}{tested}] %0 : f32[1, 8, 3, 3, {rows}, {columns}]
  %2 = contract [a c d e f g, b c d e -> a b f g] %1, %w : f32[1, 4, {rows}, {columns}]
}}"
            );
            let plan = planned(&text, &[ramp(&[1, 8, 6, 7]), ramp(&[4, 8, 3, 3])]);
            let operands = || plan.kernels.iter().flat_map(|planned| planned.kernel.operands.iter());
            assert!(operands().all(|operand| operand.shape.len() <= 4), "{name}: {plan}");
        }
    }
}

/// What a convolution sees beyond both ends of a short sound is at most as wide as tiles are. Weights that the run tells may be
/// infinite, and no tap of them is left out: padding that is too wide is tested for.
#[test]
fn halos_have_an_end() {
    for (apart, of_constants, halo) in
        [(20, true, Some(40)), (50, true, Some(64)), (20, false, Some(40)), (50, false, None)]
    {
        let reach = 2 * apart;
        let (input, weights) = if of_constants { ("", "%3") } else { (", %w: f32[4, 1, 5]", "%w") };
        let elements = (0..20).map(|n| format!("{}.5", n % 7)).collect::<Vec<_>>().join(", ");
        let constant =
            if of_constants { format!("  %3 = const \"w\" : f32[4, 1, 5] = [{elements}]\n") } else { String::new() };
        let text = format!(
            "graph @wide(%x: f32[1, 4, 90]{input}) -> (y: %2) {{
{constant}  %0 = map [x0 -> x0 * 2] %x : f32[1, 4, 90]
  %1 = view [i0, i1, i2, i3 -> i0, i1, i3 + {apart}*i2 - {reach} if 0 <= i3 + {apart}*i2 - {reach} < 90 else 0] %0 : f32[1, 4, 5, 90]
  %2 = contract [a c d e, c b d -> a c e] %1, {weights} : f32[1, 4, 90]
}}"
        );
        let weights = if of_constants { Vec::new() } else { vec![ramp(&[4, 1, 5])] };
        let inputs: Vec<Tensor> = std::iter::once(ramp(&[1, 4, 90])).chain(weights).collect();
        let plan = planned(&text, &inputs);
        let operands = plan.kernels.iter().flat_map(|planned| planned.kernel.operands.iter());
        let widest = operands.flat_map(|o| o.layout.halo.iter().map(|h| h.0)).max().filter(|&h| h > 0);
        assert_eq!(widest, halo, "{plan}");
    }
}

/// By how much is mirrored may be told by the run, and then whether what is mirrored is there; the copy is of what is.
#[test]
fn windows_over_what_the_run_mirrors() {
    let at = "max(-(i3 + i2 - P), i3 + i2 - P)";
    let text = format!(
        "graph @told(%x: f32[1, 8, N], %w: f32[4, 8, 3]) -> (y: %2) where N in 0..=100, P in 0..=100 {{
  %0 = map [x0 -> x0 * 2] %x : f32[1, 8, N]
  %1 = view [i0, i1, i2, i3 -> 0, i1, min(-{at} + 2*N - 2, {at})] %0 : f32[1, 8, 3, N + 2*P - 2]
  %2 = contract [a c d e, b c d -> a b e] %1, %w : f32[1, 4, N + 2*P - 2]
}}"
    );
    for [size, padding] in [[9, 2], [5, 4], [3, 0]] {
        let plan = planned_at(&text, &[size, padding], &[ramp(&[1, 8, size as usize]), ramp(&[4, 8, 3])]);
        let operands = || plan.kernels.iter().flat_map(|planned| planned.kernel.operands.iter());
        assert!(operands().all(|operand| operand.shape.len() <= 3), "{plan}");
    }
}
