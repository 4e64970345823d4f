//! Every operator with inputs of every rank: what does not fit is refused, and nothing panics.

use crate::support::{Builder, Extent, Value, node};
use infc_frontend_onnx::{operator_opsets, supported_operators};
use infc_ir::verify::verify_graph;
use infc_tensor::DType;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// More inputs than this are those of operators with any number, or of quantised ones with parameters at the end.
const MOST_INPUTS: usize = 8;
/// Of all inputs but one, and of that one.
const RANKS: [usize; 4] = [0, 2, 3, 4];
const OTHER_RANKS: [usize; 3] = [0, 1, 3];

/// Attributes without which an operator is refused before it looks at its inputs.
fn required(op: &str) -> Vec<(&'static str, Value)> {
    match op {
        "MaxPool" | "AveragePool" | "LpPool" | "MaxUnpool" => vec![("kernel_shape", Value::Ints(vec![2, 2]))],
        "Einsum" => vec![("equation", Value::Text("...ij,...jk->...ik".to_owned()))],
        "Cast" => vec![("to", Value::Int(1))],
        "RNN" | "GRU" | "LSTM" => vec![("hidden_size", Value::Int(3))],
        "DepthToSpace" | "SpaceToDepth" => vec![("blocksize", Value::Int(2))],
        "Attention" | "MultiHeadAttention" => {
            vec![("num_heads", Value::Int(2)), ("q_num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(2))]
        }
        "GroupQueryAttention" => vec![("num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(1))],
        "GroupNormalization" | "GroupNorm" => vec![("num_groups", Value::Int(2))],
        _ => Vec::new(),
    }
}

/// The operator over inputs of these ranks, every extent a symbol of its own, so that none contradicts another.
fn with_inputs(domain: &str, op: &str, opset: i64, ranks: &[usize], dtypes: &dyn Fn(usize) -> DType) -> Builder {
    let inputs: Vec<String> = (0..ranks.len()).map(|n| format!("x{n}")).collect();
    let mut builder =
        if domain.is_empty() { Builder::new(opset) } else { Builder::new(21).import_opset(domain, opset) };
    for (n, (name, &rank)) in inputs.iter().zip(ranks).enumerate() {
        let symbols: Vec<String> = (0..rank).map(|axis| format!("s{n}_{axis}")).collect();
        let shape: Vec<Extent<'_>> = symbols.iter().map(|s| Extent::Named(s)).collect();
        builder = builder.input(name, dtypes(n), &shape);
    }
    let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let mut node = node(op, &names, &["y"], &required(op));
    node.domain = Some(domain.to_owned());
    builder.node(node).output("y")
}

/// The panics of an operator, and how many of the models are imported.
fn tried(domain: &str, op: &str) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let mut imported = 0;
    let floats = |_: usize| DType::F32;
    let indices = |n: usize| if n == 0 { DType::F32 } else { DType::I64 };
    let bytes = |n: usize| if n % 2 == 1 { DType::F32 } else { DType::U8 };
    let kinds: [&dyn Fn(usize) -> DType; 3] = [&floats, &indices, &bytes];
    let newest = operator_opsets(domain, op).last().map_or(1, |span| span.1);
    for (dtypes, count) in kinds.iter().flat_map(|&dtypes| (1..=MOST_INPUTS).map(move |count| (dtypes, count))) {
        let others = (0..count).flat_map(|n| OTHER_RANKS.map(|rank| (n, rank)));
        for (base, (changed, rank)) in RANKS.into_iter().flat_map(|base| others.clone().map(move |other| (base, other)))
        {
            let mut ranks = vec![base; count];
            ranks[changed] = rank;
            let model = with_inputs(domain, op, newest, &ranks, dtypes);
            match catch_unwind(AssertUnwindSafe(|| model.import())) {
                Err(_) => faults.push(format!("{op} {newest} of {ranks:?}")),
                Ok(Ok(graph)) => {
                    imported += 1;
                    if let Err(error) = verify_graph(&graph) {
                        faults.push(format!("{op} {newest} of {ranks:?}: {error}"));
                    }
                }
                Ok(Err(_)) => {}
            }
        }
    }
    (faults, imported)
}

#[test]
fn no_type_of_an_input_makes_a_graph_that_is_not_valid() {
    let types = [DType::F8E4M3FN, DType::U4, DType::I2, DType::BF16, DType::Bool, DType::I8, DType::U64, DType::F64];
    let mut faults = Vec::new();
    for (op, opset) in supported_operators("").into_iter().flat_map(|op| {
        let spans = operator_opsets("", op);
        spans.into_iter().flat_map(|(first, last)| [first, last]).map(move |opset| (op, opset))
    }) {
        for (count, (dtype, rank)) in
            (1..=4).flat_map(|n| types.into_iter().flat_map(|t| [0, 2, 4].map(|r| (t, r))).map(move |x| (n, x)))
        {
            for first in [dtype, DType::F32] {
                let of = |n: usize| if n == 0 { first } else { dtype };
                let Ok(graph) = with_inputs("", op, opset, &vec![rank; count], &of).import() else { continue };
                if let Err(error) = verify_graph(&graph) {
                    faults.push(format!("{op} {opset} of {count} inputs, {first} and {dtype}, rank {rank}: {error}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn no_rank_of_an_input_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut faults = Vec::new();
    let mut imported = 0;
    for domain in ["", "ai.onnx.ml", "com.microsoft"] {
        for op in supported_operators(domain) {
            let (of_op, some) = tried(domain, op);
            imported += some;
            // One of each is enough to begin with.
            faults.extend(of_op.into_iter().take(1));
        }
    }
    std::panic::set_hook(hook);
    assert!(faults.is_empty(), "{} operators:\n{}", faults.len(), faults.join("\n"));
    assert!(imported > 1000, "only {imported} models are imported");
}
