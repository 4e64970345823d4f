//! Every invariant of graphs, broken once.

use infc_ir::entity::{NodeId, OriginId, ValueId};
use infc_ir::graph::{Definition, Graph};
use infc_ir::verify::{ViolationKind, verify_graph};

fn violations(graph: &Graph) -> Vec<ViolationKind> {
    verify_graph(graph).expect_err("invalid").violations.into_iter().map(|v| v.kind).collect()
}

/// The violations of a graph with an input and one node.
fn broken(node: &str) -> Vec<ViolationKind> {
    let text = format!("graph @g(%x: f32[N, 3], %n: i32[3]) -> () where N in 4..=8 {{ {node} }}");
    violations(&text.parse().unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn shapes_follow_from_the_operation() {
    for node in [
        "%0 = map [x, n -> x] %x, %n : f32[N, 3]",
        "%0 = map [x -> x] %x : f32[N]",
        "%0 = reduce [1] fold sum [x -> x] %x : f32[N, 3]",
        "%0 = contract [a b, b -> a b] %x, %n : f32[N]",
        "%0 = gather 0 %x, %n : f32[3]",
        "%0 = concat 1 %x, %n : f32[N, 6]",
        "%0 = dim N : i64[1]",
        "%0 = view [i -> i] %x : f32[3]",
    ] {
        let found = broken(node);
        let counts = found.iter().any(|v| matches!(v, ViolationKind::WrongCount { .. }));
        assert!(counts, "{node}: {found:?}");
    }
    for node in [
        "%0 = concat 1 %x, %x : f32[N, 7]",
        "%0 = concat 0 %x, %x : f32[3, 3]",
        "%0 = map [x -> x] %x : f32[3, 3]",
        "%0 = contract [a b, c a -> b c] %x, %x : f32[3, 3]",
        "%0 = gather 0 %x, %n : f32[N, 3]",
        "%0 = scan 0 fold sum %x : f32[N, 4]",
    ] {
        let found = broken(node);
        let extents = found.iter().all(|v| matches!(v, ViolationKind::WrongExtent { .. }));
        assert!(extents && !found.is_empty(), "{node}: {found:?}");
    }
}

#[test]
fn types_follow_from_the_operation() {
    for node in [
        "%0 = map [x -> i32(x)] %x : f32[N, 3]",
        "%0 = view [i -> i] %n : f32[3]",
        "%0 = concat 0 %n, %n : i64[6]",
        "%0 = dim N : i32[]",
        "%0 = gather 0 %x, %n : f64[3, 3]",
        "%0 = reduce [0] fold (a: f64 = 0) with (e) => a + e over [x -> x] %x : f64[3]",
    ] {
        let found = broken(node);
        let types = found.iter().all(|v| matches!(v, ViolationKind::WrongType { .. }));
        assert!(types && !found.is_empty(), "{node}: {found:?}");
    }
    let found = broken("%0 = gather 0 %n, %x : i32[N, 3]");
    assert!(matches!(found[..], [ViolationKind::UnsupportedType { .. }]), "{found:?}");
}

#[test]
fn axes_and_labels_must_make_sense() {
    let axis = broken("%0 = concat 5 %x : f32[N, 3]");
    assert!(matches!(axis[..], [ViolationKind::Dangling { what: "axis", .. }]), "{axis:?}");
    let order = broken("%0 = reduce [1, 0] fold sum [x -> x] %x : f32[]");
    assert!(matches!(order[..], [ViolationKind::NotAllowed { .. }]), "{order:?}");
    let twice = broken("%0 = contract [a, a a -> a] %n, %x : f32[3]");
    assert!(twice.iter().any(|v| matches!(v, ViolationKind::NotAllowed { .. })), "{twice:?}");
    let unknown = broken("%0 = contract [a b, c -> d] %x, %n : f32[3]");
    assert!(matches!(unknown[..], [ViolationKind::NotAllowed { .. }]), "{unknown:?}");
}

#[test]
fn structure_is_checked_without_panic() {
    let text = "graph @g(%x: f32[3]) -> (y: %1) { %0 = map [x -> -x] %x : f32[3] %1 = map [x -> -x] %0 : f32[3] }";
    let good: Graph = text.parse().expect("parses");
    assert_eq!(verify_graph(&good), Ok(()));

    let mut unordered = good.clone();
    unordered.order.reverse();
    assert!(violations(&unordered).iter().any(|v| matches!(v, ViolationKind::OutOfOrder { .. })));

    let mut repeated = good.clone();
    repeated.order.push(NodeId(0));
    assert!(violations(&repeated).iter().any(|v| matches!(v, ViolationKind::BoundTwice { .. })));

    let mut dangling = good.clone();
    dangling.order.push(NodeId(7));
    dangling.outputs[0].value = ValueId(9);
    dangling.nodes[NodeId(0)].origin = OriginId(3);
    dangling.nodes[NodeId(1)].inputs = vec![ValueId(8)];
    let found = violations(&dangling);
    assert_eq!(found.iter().filter(|v| matches!(v, ViolationKind::Dangling { .. })).count(), 4, "{found:?}");
    // Printing survives it, too.
    assert!(dangling.to_string().contains("%?8"));

    let mut forgetful = good.clone();
    forgetful.values[ValueId(1)].definition = Definition::Input(0);
    assert!(matches!(violations(&forgetful)[..], [ViolationKind::NotAllowed { .. }]));

    let mut unnamed = good;
    unnamed.outputs.push(unnamed.outputs[0].clone());
    assert!(matches!(violations(&unnamed)[..], [ViolationKind::DuplicateName { .. }]));
}

#[test]
fn the_body_of_a_composite_is_checked() {
    let found = broken(
        "%0 = composite gelu %n : i32[3] = graph @b(%x: f32[3]) -> (y: %0) { %0 = map [x -> i32(x)] %x : f32[3] }",
    );
    // The input's type, and the map in the body; the output has the wrong type as well.
    assert_eq!(found.iter().filter(|v| matches!(v, ViolationKind::WrongType { .. })).count(), 3, "{found:?}");
}
