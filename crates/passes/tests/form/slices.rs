//! Which models compute every point of a batch by itself.

use infc_ir::graph::Graph;
use infc_passes::form::{FormOptions, form, slices};

/// The symbol along which a graph of `x: f32[B, 6]` can be run in slices.
fn symbol(nodes: &str, y: &str) -> Option<String> {
    of_range(nodes, y, "B in 0..=100")
}

fn of_range(nodes: &str, y: &str, ranges: &str) -> Option<String> {
    let text = format!("graph @g(%x: f32[B, 6], %w: f32[6, 6]) -> (y: {y}) where {ranges} {{\n{nodes}\n}}");
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let plan = form(&graph, &FormOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    slices(&plan).map(|symbol| plan.graph.symbols[symbol].name.clone())
}

#[test]
fn points_that_are_computed_by_themselves() {
    for (nodes, y) in [
        ("%0 = map [a -> a * 2] %x : f32[B, 6]", "%0"),
        ("%0 = contract [b k, k n -> b n] %x, %w : f32[B, 6]", "%0"),
        // Turned round and back.
        ("%0 = contract [b k, k n -> n b] %x, %w : f32[6, B]\n%1 = view [i, j -> j, i] %0 : f32[B, 6]", "%1"),
        (
            "%0 = reduce [1] fold sum [a -> a] %x : f32[B]\n%1 = view [i, j -> i] %0 : f32[B, 6]\n\
          %2 = map [a, b -> a / b] %x, %1 : f32[B, 6]",
            "%2",
        ),
        // Neighbours within a point, the same one beside each, and all of a point as a row.
        ("%0 = view [i, j -> i, j - 1 if 0 <= j - 1 < 6 else 0] %x : f32[B, 6]", "%0"),
        ("%0 = view [i, j -> j, 0] %w : f32[B, 6]\n%1 = map [a, b -> a + b] %x, %0 : f32[B, 6]", "%1"),
        ("%0 = view [i, j, k -> i, j * 3 + k] %x : f32[B, 2, 3]\n%1 = map [a -> a + 1] %0 : f32[B, 2, 3]", "%1"),
        // Merged with what is behind it, and apart again.
        (
            "%0 = view [i, j -> div(i, 2), mod(i, 2) * 3 + j] %x : f32[2*B, 3]\n\
          %1 = reduce [1] fold max [a -> a] %0 : f32[2*B]\n%2 = view [i, j -> i * 2 + j] %1 : f32[B, 2]",
            "%2",
        ),
        ("%0 = concat 1 %x, %x : f32[B, 12]", "%0"),
        ("%0 = scan 1 fold sum %x : f32[B, 6]", "%0"),
    ] {
        assert_eq!(symbol(nodes, y).as_deref(), Some("B"), "{nodes}");
    }
}

#[test]
fn points_that_depend_on_others() {
    for (nodes, y) in [
        // A sum over the batch, of as many points as there are.
        ("%0 = reduce [0] fold sum [a -> a] %x : f32[6]\n%1 = view [i, j -> j] %0 : f32[B, 6]", "%1"),
        ("%0 = map [a -> a * f32(index(B))] %x : f32[B, 6]", "%0"),
        ("%0 = map [a -> a * f32(index(i0))] %x : f32[B, 6]", "%0"),
        (
            "%0 = dim B : i64[]\n%1 = view [i, j -> ] %0 : i64[B, 6]\n%2 = map [a, b -> a * f32(b)] %x, %1 : f32[B, 6]",
            "%2",
        ),
        // Another point: the one before, the last, the first.
        ("%0 = view [i, j -> i - 1, j if 0 <= i - 1 < B else 0] %x : f32[B, 6]", "%0"),
        ("%0 = view [i, j -> B - 1 - i, j] %x : f32[B, 6]", "%0"),
        ("%0 = view [i, j -> 0, j if 0 <= 0 < B else 0] %x : f32[B, 6]", "%0"),
        // The same point, but for a condition on which it is.
        ("%0 = view [i, j -> i, j if 0 <= i < 3 else 0] %x : f32[B, 6]", "%0"),
        // A constant's row for each point.
        ("%0 = view [i, j -> mod(i, 6), j] %w : f32[B, 6]\n%1 = map [a, b -> a + b] %x, %0 : f32[B, 6]", "%1"),
        ("%0 = concat 0 %x, %x : f32[2*B, 6]\n%1 = view [i, j -> i, j] %0 : f32[B, 6]", "%1"),
        ("%0 = scan 0 fold sum %x : f32[B, 6]", "%0"),
        ("%0 = contract [b k, c k -> b c] %x, %x : f32[B, B]", "%0"),
        // Merged the other way round: half of a batch, then the other.
        (
            "%0 = view [i, j -> mod(i, B), div(i, B) * 3 + j] %x : f32[2*B, 3]\n\
          %1 = view [i, j -> i * 2 + j, 0] %0 : f32[B, 2]",
            "%1",
        ),
        // What is computed of another input would be computed for every slice.
        (
            "%0 = contract [a k, k b -> a b] %w, %w : f32[6, 6]\n%1 = contract [b k, k n -> b n] %x, %0 : f32[B, 6]",
            "%1",
        ),
        // Along another axis, or not at all.
        ("%0 = view [i, j -> j, i] %x : f32[6, B]", "%0"),
        ("%0 = map [a -> a + 1] %w : f32[6, 6]", "%0"),
    ] {
        assert_eq!(symbol(nodes, y), None, "{nodes}");
    }
    let plain = "%0 = map [a -> a * 2] %x : f32[B, 6]";
    assert_eq!(of_range(plain, "%0", "B in 2..=100"), None, "a slice may have one point");
    assert_eq!(of_range(&format!("require \"rows\" B == 4\n{plain}"), "%0", "B in 0..=100"), None);
}
