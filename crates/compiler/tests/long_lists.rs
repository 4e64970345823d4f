//! Operators whose definition takes the product of two sizes: sorting, scattering. As kernels they take about as many steps
//! as there are elements; what is sorted as a whole is left to the host where it is long.

mod net;

use infc::{Compilation, CompileOptions};
use infc_runtime::Tensor;
use infc_tensor::DType;
use net::{Attr, Net, session};
use std::cmp::Ordering;

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
    for (len, k, on_host) in [(1_000_000, 1000, 0), (100_000, 100_000, 1), (8400, 300, 0)] {
        let compilation = top_k(len, k);
        assert_eq!(compilation.report.on_host.len(), on_host, "{len}");
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
}

/// Equals in their order, both zeros equal, NaN above infinity, along any axis, of known and of symbolic lengths.
#[test]
fn few_of_many_are_selected() {
    let odd = |n: usize| match n % 11 {
        1 if n % 37 == 1 => f32::NAN,
        2 => f32::INFINITY,
        3 => f32::NEG_INFINITY,
        4 => -0.0,
        5 => 0.0,
        _ => ((n * 7919 % 1009) as f32 - 500.0) / 8.0,
    };
    for (shape, axis, k) in
        [([2, 1500, 3], 1, 700), ([1100, 2, 2], 0, 1), ([1, 3, 2048], 2, 1024), ([2, 3, 1024], 2, 0)]
    {
        let [a, b, c] = shape;
        let elements: Vec<f32> = (0..a * b * c).map(odd).collect();
        let x = Tensor::from_elements(&shape, &elements).expect("all");
        let inside: usize = shape[axis + 1..].iter().product();
        let at = |list: usize, n: usize| (list / inside * shape[axis] + n) * inside + list % inside;
        for (largest, symbolic) in [(1, false), (0, false), (1, true), (0, true)] {
            let before = |x: f32, y: f32| {
                let order =
                    |x: f32, y: f32| x.is_nan().cmp(&y.is_nan()).then(x.partial_cmp(&y).unwrap_or(Ordering::Equal));
                if largest == 1 { order(y, x) } else { order(x, y) }
            };
            let mut expected = vec![0i64; a * b * c / shape[axis] * k];
            for list in 0..a * b * c / shape[axis] {
                let mut order: Vec<usize> = (0..shape[axis]).collect();
                order.sort_by(|&m, &n| before(elements[at(list, m)], elements[at(list, n)]));
                for (n, &place) in order.iter().take(k).enumerate() {
                    expected[(list / inside * k + n) * inside + list % inside] = place as i64;
                }
            }
            let known = shape.map(|extent| extent.to_string());
            let dims = if symbolic { ["A", "B", "C"] } else { known.each_ref().map(String::as_str) };
            let count = Tensor::from_elements(&[1], &[k as i64]).expect("a number");
            let net = Net::new(18).input("x", DType::F32, &dims).constant("k", &count);
            let attrs = [("axis", Attr::Int(axis as i64)), ("largest", Attr::Int(largest))];
            let net = net.node("TopK", &["x", "k"], &["values", "places"], &attrs).output("values").output("places");
            let compilation = compile(net, &["x86-64-v2"]);
            assert!(compilation.report.on_host.is_empty());
            let found = session(&compilation).run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
            let place = format!("{k} of {shape:?} along {axis}, largest {largest}, symbolic {symbolic}");
            assert_eq!(found[1].elements::<i64>().expect("places"), expected, "{place}");
        }
    }
}

/// Integers of all widths and `f64`, a few and many of them; those of 64 bits differ beyond the bits of a float.
#[test]
fn elements_of_all_types_are_selected() {
    const LEN: usize = 900;
    let numbers = || (0..LEN as i64).map(|n| (n * 7919 % 641) - 320);
    let far = |n: i64| (n << 40) + n % 3;
    let lists = [
        Tensor::from_elements(&[LEN], &numbers().map(|n| n as i8).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(|n| n as u8).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(|n| n as i32).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(|n| n as u32).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(far).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(|n| far(n) as u64).collect::<Vec<_>>()),
        Tensor::from_elements(&[LEN], &numbers().map(|n| n as f64 + 1e-9 * (n % 2) as f64).collect::<Vec<_>>()),
    ];
    for x in lists.map(|list| list.expect("a list")) {
        let key = |n: usize| match x.dtype() {
            DType::U64 => i128::from(x.elements::<u64>().expect("numbers")[n]),
            DType::I64 => i128::from(x.elements::<i64>().expect("numbers")[n]),
            _ => (x.get_f64(n).expect("a number") * 1e12) as i128,
        };
        let keys: Vec<i128> = (0..LEN).map(key).collect();
        for (k, largest) in [(5, 1), (5, 0), (400, 1), (400, 0)] {
            let count = Tensor::from_elements(&[1], &[k as i64]).expect("a number");
            let net = Net::new(18).input("x", x.dtype(), &[&LEN.to_string()]).constant("k", &count);
            let attrs = [("largest", Attr::Int(largest))];
            let net = net.node("TopK", &["x", "k"], &["values", "places"], &attrs).output("places");
            let compilation = compile(net, &["x86-64-v2"]);
            assert!(compilation.report.on_host.is_empty());
            let found = session(&compilation).run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
            let mut order: Vec<usize> = (0..LEN).collect();
            order.sort_by_key(|&n| if largest == 1 { -keys[n] } else { keys[n] });
            let expected: Vec<i64> = order.iter().take(k).map(|&n| n as i64).collect();
            assert_eq!(found[0].elements::<i64>().expect("places"), expected, "{k} of {}, {largest}", x.dtype());
        }
    }
}

/// Short lists are scattered, long ones searched; none, some and all are chosen.
#[test]
fn what_is_not_zero_is_found() {
    for (shape, step) in [
        ([3, 100], 7),
        ([3, 100], 1),
        ([3, 100], 1000),
        ([300, 300], 11),
        ([300, 300], 1),
        ([300, 300], 100_000),
        ([0, 5], 1),
    ] {
        let [rows, columns]: [usize; 2] = shape;
        let x: Vec<f32> = (0..rows * columns).map(|n| if n % step == step - 1 { -0.5 } else { 0.0 }).collect();
        let x = Tensor::from_elements(&shape, &x).expect("all");
        let chosen: Vec<usize> = (0..rows * columns).filter(|n| n % step == step - 1).collect();
        for dims in [[rows.to_string(), columns.to_string()], ["R".to_owned(), columns.to_string()]] {
            let net = Net::new(18).input("x", DType::F32, &dims.each_ref().map(String::as_str));
            let net = net.node("NonZero", &["x"], &["places"], &[]);
            let net = net.node("Cast", &["x"], &["some"], &[("to", Attr::Int(9))]);
            let flat = Tensor::from_elements(&[1], &[-1i64]).expect("a number");
            let net = net.constant("flat", &flat).node("Reshape", &["some", "flat"], &["condition"], &[]);
            let net = net.node("Compress", &["x", "condition"], &["values"], &[]);
            let compilation = compile(net.output("places").output("values"), &["x86-64-v2"]);
            assert!(compilation.report.on_host.is_empty(), "{:?}", compilation.report.on_host);
            let found = session(&compilation).run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
            let places = chosen.iter().map(|n| n / columns).chain(chosen.iter().map(|n| n % columns));
            assert_eq!(found[0].shape(), [2, chosen.len()]);
            assert_eq!(found[0].elements::<i64>().expect("places"), places.map(|n| n as i64).collect::<Vec<_>>());
            assert_eq!(found[1].elements::<f32>().expect("values"), vec![-0.5; chosen.len()]);
        }
    }
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
        assert!(compilation.report.on_host.is_empty(), "{op}");
        let x = Tensor::from_elements(&[LEN], &vec![1.0f32; LEN]).expect("a list");
        let shape: &[usize] = if op == "ScatterND" { &[2 * LEN, 1] } else { &[2 * LEN] };
        let at: Vec<i64> = (0..2 * LEN as i64).map(|n| n * 3 % LEN as i64).collect();
        let places = Tensor::from_elements(shape, &at).expect("places");
        let updates = Tensor::from_elements(&[2 * LEN], &vec![2.0f32; 2 * LEN]).expect("updates");
        let found = session(&compilation).run_owned(&[&x, &places, &updates]).expect("runs");
        // Three does not divide the length, so every element is met twice.
        assert!(found[0].elements::<f32>().expect("floats").iter().all(|&y| y == 5.0), "{op}");
    }
}
