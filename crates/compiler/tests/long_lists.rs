//! Operators that cost the product of two sizes as kernels: where that is too much, the host evaluates them.

mod net;

use infc::{Compilation, CompileOptions};
use infc_runtime::Tensor;
use infc_tensor::DType;
use net::{Attr, Net, session};

fn compile(net: Net, targets: &[&str]) -> Compilation {
    let targets = targets.iter().map(|&target| target.to_owned()).collect();
    net.compile(&CompileOptions { targets, ..CompileOptions::default() }).unwrap_or_else(|e| panic!("{e}"))
}

fn top_k(len: usize, k: usize) -> Compilation {
    let k = Tensor::from_elements(&[1], &[k as i64]).expect("a number");
    let net = Net::new(18).input("x", DType::F32, &[&len.to_string()]).constant("k", &k);
    compile(net.node("TopK", &["x", "k"], &["values", "places"], &[]).output("values").output("places"), &["x86-64-v2"])
}

/// Numbers in no order; none twice, since 7,919 and 2²⁴ have no common divisor.
fn shuffled(len: usize) -> Vec<f32> {
    (0..len as u64).map(|n| (n * 7919 % (1 << 24)) as f32).collect()
}

#[test]
fn long_lists_are_sorted() {
    for (len, k) in [(1_000_000, 1000), (100_000, 100_000)] {
        let compilation = top_k(len, k);
        assert_eq!(compilation.report.on_host.len(), 1, "{len}");
        let elements = shuffled(len);
        let x = Tensor::from_elements(&[len], &elements).expect("a list");
        let found = session(&compilation).run_owned(&[&x]).expect("runs");
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_by(|&a, &b| elements[b].total_cmp(&elements[a]));
        let places: Vec<i64> = order.iter().take(k).map(|&n| n as i64).collect();
        assert_eq!(found[1].elements::<i64>().expect("places"), places, "{len}");
        let values: Vec<f32> = order.iter().take(k).map(|&n| elements[n]).collect();
        assert_eq!(found[0].elements::<f32>().expect("values"), values, "{len}");
    }
    assert!(top_k(8400, 300).report.on_host.is_empty());
}

fn scatter(op: &str, len: usize, updates: usize, attrs: &[(&str, Attr<'_>)]) -> Compilation {
    let (len, updates) = (len.to_string(), updates.to_string());
    let places: &[&str] = if op == "ScatterND" { &[&updates, "1"] } else { &[&updates] };
    let net = Net::new(18).input("x", DType::F32, &[&len]).input("places", DType::I64, places);
    let net = net.input("updates", DType::F32, &[&updates]);
    compile(net.node(op, &["x", "places", "updates"], &["y"], attrs).output("y"), &["x86-64-v2"])
}

#[test]
fn many_updates_are_added() {
    const LEN: usize = 50_000;
    for op in ["ScatterElements", "ScatterND"] {
        let compilation = scatter(op, LEN, 2 * LEN, &[("reduction", Attr::Text("add"))]);
        assert_eq!(compilation.report.on_host.len(), 1, "{op}");
        let x = Tensor::from_elements(&[LEN], &vec![1.0f32; LEN]).expect("a list");
        let shape: &[usize] = if op == "ScatterND" { &[2 * LEN, 1] } else { &[2 * LEN] };
        let at: Vec<i64> = (0..2 * LEN as i64).map(|n| n * 3 % LEN as i64).collect();
        let places = Tensor::from_elements(shape, &at).expect("places");
        let updates = Tensor::from_elements(&[2 * LEN], &vec![2.0f32; 2 * LEN]).expect("updates");
        let found = session(&compilation).run_owned(&[&x, &places, &updates]).expect("runs");
        // Three does not divide the length, so every element is met twice.
        assert!(found[0].elements::<f32>().expect("floats").iter().all(|&y| y == 5.0), "{op}");
        assert!(scatter(op, 4000, 4000, &[]).report.on_host.is_empty(), "{op}");
    }
}
