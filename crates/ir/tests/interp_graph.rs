//! Graphs from text, interpreted: every operation once, with what is special about it.

use infc_ir::graph::Graph;
use infc_ir::interp::{Host, InterpError, run_graph, run_graph_with};
use infc_ir::op::HostOp;
use infc_ir::text::canonical::canonical_graph;
use infc_ir::verify::verify_graph;
use infc_tensor::Tensor;

/// Parses, verifies, prints and parses again.
fn graph(text: &str) -> Graph {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let printed = graph.to_string();
    let again: Graph = printed.parse().unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert!(again == graph, "{printed}\nand\n{again}");
    assert!(canonical_graph(&graph) == graph, "{printed}");
    graph
}

fn f32s(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_elements(shape, elements).expect("fits")
}

fn run(text: &str, symbols: &[i64], inputs: &[Tensor]) -> Vec<f32> {
    let outputs = run_graph(&graph(text), symbols, inputs).unwrap_or_else(|e| panic!("{e}"));
    outputs[0].elements::<f32>().expect("f32").to_vec()
}

/// Users see the one tensor in a sequence, of any number of axes.
#[test]
fn ports_may_have_any_rank() {
    let graph = graph("graph @g(%x: sequence[1] as f32[]) -> (y: %x as f32[], z: %x) { }");
    assert!(graph.is_unranked(&graph.inputs[0]) && !graph.is_unranked(&graph.outputs[1]));
    for x in [f32s(&[], &[1.0]), f32s(&[2, 1], &[1.0, 2.0]), f32s(&[0, 3], &[])] {
        let outputs = run_graph(&graph, &[], std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outputs, [x.clone(), Tensor::sequence(vec![x]).expect("a sequence")]);
    }
    let integers = Tensor::from_elements(&[1], &[1i64]).expect("fits");
    assert!(matches!(run_graph(&graph, &[], &[integers]), Err(InterpError::WrongType { .. })));
    for wrong in ["sequence[2] as f32[]", "sequence[1] as f32[3]", "sequence[1] as sequence[]"] {
        let graph: Graph = format!("graph @g(%x: {wrong}) -> () {{ }}").parse().unwrap_or_else(|e| panic!("{e}"));
        verify_graph(&graph).expect_err(wrong);
    }
}

#[test]
fn map_sees_elements_and_coordinates() {
    let text = "graph @g(%x: f32[N, 2]) -> (y: %0, z: %1) where N in 0..=4 {
        %0, %1 = map [x -> (x * 2 + f32(index(10*i0 + i1)), -x)] %x : f32[N, 2], f32[N, 2] from \"/a\", \"/b\"
    }";
    assert_eq!(run(text, &[2], &[f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]), [2.0, 5.0, 16.0, 19.0]);
    assert_eq!(run(text, &[0], &[f32s(&[0, 2], &[])]), []);
}

#[test]
fn view_moves_and_pads() {
    let text = "graph @g(%x: f32[2, 3]) -> (y: %0) {
        %0 = view [c, r -> r, c - 1 if 0 <= c - 1 < 3 else -7] %x : f32[4, 2]
    }";
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(run(text, &[], &[x]), [-7.0, -7.0, 1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn reduce_folds_tuples_in_order() {
    let text = "graph @g(%x: f32[2, 3]) -> (y: %0, at: %1) {
        %0, %1 = reduce [1] fold (v: f32 = -inf, at: i64 = 0) with (w, to) =>
            let better = w > v; (select(better, w, v), select(better, to, at))
            over [x -> (x, index(i1))] %x : f32[2], i64[2]
    }";
    let outputs = run_graph(&graph(text), &[], &[f32s(&[2, 3], &[1.0, 9.0, 9.0, 4.0, 3.0, 2.0])]).expect("runs");
    assert_eq!(outputs[0].elements::<f32>(), Ok(&[9.0f32, 4.0][..]));
    assert_eq!(outputs[1].elements::<i64>(), Ok(&[1i64, 0][..]));
}

#[test]
fn contract_sums_labels_that_the_output_lacks() {
    let text = "graph @g(%a: f32[2, 3], %b: f32[2, 3]) -> (y: %0) {
        %0 = contract [m k, n k -> n m] %a, %b : f32[2, 2]
    }";
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = f32s(&[2, 3], &[1.0, 0.0, 1.0, 0.0, 2.0, 0.0]);
    assert_eq!(run(text, &[], &[a, b]), [4.0, 10.0, 4.0, 10.0]);
    // Batched, and an outer product.
    let text = "graph @g(%a: f32[2, 2], %b: f32[2]) -> (y: %0) {
        %0 = contract [b m, n -> b m n] %a, %b : f32[2, 2, 2]
    }";
    let (a, b) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), f32s(&[2], &[1.0, 10.0]));
    assert_eq!(run(text, &[], &[a, b]), [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0]);
}

#[test]
fn half_types_are_summed_in_f32_and_bytes_in_the_output_type() {
    let text = "graph @g(%a: f16[4096]) -> (y: %1) {
        %0 = contract [k, k -> ] %a, %a : f16[]
        %1 = map [x -> f32(x)] %0 : f32[]
    }";
    let ones = Tensor::from_elements(&[4096], &vec![infc_tensor::f16::ONE; 4096]).expect("fits");
    // Summing in f16 would get stuck at 2048.
    assert_eq!(run(text, &[], &[ones]), [4096.0]);
    let text = "graph @g(%a: i8[2]) -> (y: %1) {
        %0 = contract [k, k -> ] %a, %a : i32[]
        %1 = map [x -> f32(x)] %0 : f32[]
    }";
    let a = Tensor::from_elements(&[2], &[-128i8, 100]).expect("fits");
    assert_eq!(run(text, &[], &[a]), [26384.0]);
}

#[test]
fn gather_wraps_and_clamps() {
    let text = "graph @g(%x: f32[2, 3], %at: i32[4]) -> (y: %0) {
        %0 = gather 1 %x, %at : f32[2, 4]
    }";
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let at = Tensor::from_elements(&[4], &[-1i32, 0, 7, -9]).expect("fits");
    assert_eq!(run(text, &[], &[x, at]), [3.0, 1.0, 3.0, 1.0, 6.0, 4.0, 6.0, 4.0]);
}

#[test]
fn concat_scan_constants_and_dims() {
    let text = "graph @g(%x: f32[N, 2]) -> (y: %3) where N in 0..=9 {
        %0 = const \"one\" : f32[1, 2] = [0.5, -inf]
        %1 = concat 0 %x, %0 : f32[N + 1, 2]
        %2 = dim 2*N : i64[]
        %3 = map [x -> max(x, -100)] %1 : f32[N + 1, 2]
    }";
    assert_eq!(run(text, &[1], &[f32s(&[1, 2], &[3.0, 4.0])]), [3.0, 4.0, 0.5, -100.0]);
    let scan = |how: &str| {
        let text = format!("graph @g(%x: f32[2, 3]) -> (y: %0) {{ %0 = scan 1 {how} fold sum %x : f32[2, 3] }}");
        run(&text, &[], &[f32s(&[2, 3], &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])])
    };
    assert_eq!(scan(""), [1.0, 3.0, 7.0, 8.0, 24.0, 56.0]);
    assert_eq!(scan("exclusive"), [0.0, 1.0, 3.0, 0.0, 8.0, 24.0]);
    assert_eq!(scan("reverse"), [7.0, 6.0, 4.0, 56.0, 48.0, 32.0]);
    assert_eq!(scan("reverse exclusive"), [6.0, 4.0, 0.0, 48.0, 32.0, 0.0]);
}

#[test]
fn a_general_scan_may_use_every_operator() {
    let text = "graph @g(%x: i32[3]) -> (y: %1) {
        %0 = scan 0 fold (a: i32 = 1) with (e) => a * 10 % e over %x : i32[3]
        %1 = map [x -> f32(x)] %0 : f32[3]
    }";
    let x = Tensor::from_elements(&[3], &[7i32, 100, 8]).expect("fits");
    assert_eq!(run(text, &[], &[x]), [3.0, 30.0, 4.0]);
}

#[test]
fn a_composite_is_its_body() {
    let text = "graph @g(%x: f32[N, 3]) -> (y: %0) where N in 1..=4 {
        %0 = composite softmax %x : f32[N, 3] = graph @softmax(%x: f32[N, 3]) -> (y: %4) {
            %0 = reduce [1] fold max [x -> x] %x : f32[N]
            %1 = view [r, c -> r] %0 : f32[N, 3]
            %2 = map [x, m -> exp(x - m)] %x, %1 : f32[N, 3]
            %3 = contract [r c, r c -> r] %2, %2 : f32[N]
            %4 = view [r, c -> r] %3 : f32[N, 3]
        } from \"/softmax\"
    }";
    let y = run(text, &[1], &[f32s(&[1, 3], &[0.0, 0.0, 0.0])]);
    assert_eq!(y, [3.0, 3.0, 3.0]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let g = graph("graph @g(%x: f32[N]) -> (y: %x) where N in 1..=2 {}");
    let three = f32s(&[3], &[1.0, 2.0, 3.0]);
    assert!(matches!(run_graph(&g, &[3], std::slice::from_ref(&three)), Err(InterpError::SymbolOutOfRange { .. })));
    assert!(matches!(run_graph(&g, &[2], &[three]), Err(InterpError::WrongShape { .. })));
    assert!(matches!(run_graph(&g, &[2], &[]), Err(InterpError::WrongCount { .. })));
}

#[test]
fn strings_pass_through() {
    let text = Tensor::from_strings(&[1], vec!["a".to_owned()]).expect("fits");
    let g = graph("graph @g(%x: string[1]) -> (y: %x) {}");
    let given = run_graph(&g, &[], std::slice::from_ref(&text)).expect("it runs");
    assert_eq!(given, [text]);
}

/// Keeps the first value.
struct Takes;

impl Host for Takes {
    fn evaluate(&self, op: &HostOp, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        assert_eq!((op.op_type.as_str(), op.graphs.graphs.len()), ("Take", 2));
        let values = inputs[0].expect("given").values().map_err(|error| error.to_string())?;
        Ok(vec![Tensor::sequence(values[..1].to_vec()).map_err(|error| error.to_string())?])
    }
}

#[test]
fn host_operations_hold_graphs_and_read_sequences() {
    let text = r#"graph @g(%x: sequence[N]) -> (y: %0) where N in 0..=4, M in 0..=4 {
        %0 = host "Take" opset 17 [in 1, out 1, bind M = 0 axis 0] {"n" = int 1} with ["z"] ["body" 0] {
            in ["e"] const ["k" tensor f32[1] [1]] nodes ["If" "" 17 {} ["then_branch" 1] ["e", ""] ["o"]]
            out ["o" f32 [0, 3]],
            in [] const [] nodes [] out ["k" sequence [0]]
        } "its values are sequences" %x : sequence[M]
    }"#;
    let graph = graph(text);
    let x = Tensor::sequence(vec![f32s(&[1], &[1.0]), f32s(&[2], &[2.0, 3.0])]).expect("two values");
    let outputs = run_graph_with(&graph, &[2, 0], &[x], &Takes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outputs[0], Tensor::sequence(vec![f32s(&[1], &[1.0])]).expect("one value"));
}

#[test]
fn branches_may_tell_sizes() {
    let text = "graph @g(%c: bool[], %x: f32[4]) -> (y: %0, n: %1) where D in 0..=3 {
        %0 = if [bind D = 0 axis 0] %c, %x : f32[D] = graph @a(%x: f32[4]) -> (y: %0) {
            %0 = view [i -> i + 1] %x : f32[3]
        } else graph @b(%x: f32[4]) -> (y: %0) {
            %0 = view [i -> i] %x : f32[2]
        }
        %1 = dim D : i64[]
    }";
    let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    for (holds, expected) in [(true, &[2.0f32, 3.0, 4.0][..]), (false, &[1.0, 2.0])] {
        let condition = Tensor::from_bools(&[], &[holds]).expect("one");
        let outputs = run_graph(&graph(text), &[0], &[condition, x.clone()]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outputs[0].elements::<f32>(), Ok(expected));
        assert_eq!(outputs[1], Tensor::scalar(expected.len() as i64));
    }
}
