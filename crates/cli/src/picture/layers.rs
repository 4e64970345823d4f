//! Where nodes are drawn: in layers, each below all that it reads.
//!
//! The method of Sugiyama, Tagawa and Toda (1981): longest paths give layers, edges over several layers get a bend in
//! each, sweeps order layers by the mean place of their neighbours, and places follow from least squares under that order.

/// The size of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Where everything is. Nodes by their centres, edges as the points that they go through.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) nodes: Vec<(f64, f64)>,
    pub(super) edges: Vec<Vec<(f64, f64)>>,
}

/// Space between neighbours in a layer, between layers, and around everything.
const GAP: f64 = 24.0;
const LAYER_GAP: f64 = 44.0;
const MARGIN: f64 = 24.0;
/// The width that an edge takes where it passes a layer.
const BEND_WIDTH: f64 = 12.0;
const SWEEPS: usize = 12;

/// A node, or the bend of an edge.
struct Item {
    layer: usize,
    size: Size,
    above: Vec<usize>,
    below: Vec<usize>,
    /// The centre.
    x: f64,
}

/// Places nodes of these sizes; an edge goes from a node to one behind it in the list.
pub(super) fn place(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
    let layer_of = layers(sizes.len(), edges);
    let mut items: Vec<Item> = sizes
        .iter()
        .zip(&layer_of)
        .map(|(&size, &layer)| Item { layer, size, above: Vec::new(), below: Vec::new(), x: 0.0 })
        .collect();
    let mut paths: Vec<Vec<usize>> = Vec::with_capacity(edges.len());
    for &(from, to) in edges {
        let mut path = vec![from];
        for layer in layer_of[from] + 1..layer_of[to] {
            let size = Size { width: BEND_WIDTH, height: 0.0 };
            items.push(Item { layer, size, above: Vec::new(), below: Vec::new(), x: 0.0 });
            path.push(items.len() - 1);
        }
        path.push(to);
        for pair in path.windows(2) {
            items[pair[0]].below.push(pair[1]);
            items[pair[1]].above.push(pair[0]);
        }
        paths.push(path);
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
    for (index, item) in items.iter().enumerate() {
        rows[item.layer].push(index);
    }
    for sweep in 0..SWEEPS {
        let downwards = sweep % 2 == 0;
        let order: Vec<usize> = if downwards { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for row in order {
            arrange(&mut rows[row], &mut items, downwards, sweep < SWEEPS / 2);
        }
    }
    finish(sizes.len(), &rows, items, &paths)
}

/// Layers by the longest path; what reads nothing moves down to its first reader.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0usize; count];
    // Edges lead to later nodes, so one pass in the order of their starts settles everything.
    let mut sorted: Vec<(usize, usize)> = edges.to_vec();
    sorted.sort_unstable();
    for &(from, to) in &sorted {
        layer[to] = layer[to].max(layer[from] + 1);
    }
    let mut has_operands = vec![false; count];
    edges.iter().for_each(|&(_, to)| has_operands[to] = true);
    for node in (0..count).filter(|&node| !has_operands[node]) {
        let readers = edges.iter().filter(|&&(from, _)| from == node).map(|&(_, to)| layer[to]);
        layer[node] = readers.min().map_or(0, |first| first.saturating_sub(1));
    }
    layer
}

/// Orders a layer by where its neighbours are, if it may change, and places it as close to them as it can be.
fn arrange(row: &mut [usize], items: &mut [Item], downwards: bool, reorder: bool) {
    let wanted = |index: usize| {
        let item = &items[index];
        let near = if downwards { &item.above } else { &item.below };
        let all = if near.is_empty() { if downwards { &item.below } else { &item.above } } else { near };
        if all.is_empty() { item.x } else { all.iter().map(|&n| items[n].x).sum::<f64>() / all.len() as f64 }
    };
    if reorder {
        row.sort_by(|&a, &b| wanted(a).total_cmp(&wanted(b)).then(a.cmp(&b)));
    }
    let goals: Vec<f64> = row.iter().map(|&index| wanted(index)).collect();
    let widths: Vec<f64> = row.iter().map(|&index| items[index].size.width).collect();
    for (&index, x) in row.iter().zip(spread(&goals, &widths)) {
        items[index].x = x;
    }
}

/// The centres nearest to the goals, in the sense of least squares, that keep order and distance: by pooling neighbours
/// that want to be closer than they may.
fn spread(goals: &[f64], widths: &[f64]) -> Vec<f64> {
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(goals.len());
    for (n, width) in widths.iter().enumerate() {
        if n > 0 {
            offset += f64::midpoint(widths[n - 1], *width) + GAP;
        }
        offsets.push(offset);
    }
    // Without distances: each is to be at least as far as the one before.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (goal, offset) in goals.iter().zip(&offsets) {
        let mut pool = (goal - offset, 1usize);
        while let Some(&(mean, count)) = pools.last()
            && mean >= pool.0
        {
            pools.pop();
            let both = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / both as f64, both);
        }
        pools.push(pool);
    }
    let places = pools.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    places.zip(offsets).map(|(place, offset)| place + offset).collect()
}

fn finish(count: usize, rows: &[Vec<usize>], items: Vec<Item>, paths: &[Vec<usize>]) -> Layout {
    let left = items.iter().map(|item| item.x - item.size.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = items.iter().map(|item| item.x + item.size.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    if items.is_empty() {
        return Layout { width: 2.0 * MARGIN, height: 2.0 * MARGIN, ..Layout::default() };
    }
    let mut middles = Vec::with_capacity(rows.len());
    let mut top = MARGIN;
    let mut heights = Vec::with_capacity(rows.len());
    for row in rows {
        let height = row.iter().map(|&index| items[index].size.height).fold(0.0, f64::max);
        middles.push(top + height / 2.0);
        heights.push(height);
        top += height + LAYER_GAP;
    }
    let x = |index: usize| items[index].x - left + MARGIN;
    let edges = paths.iter().map(|path| {
        let mut points = Vec::with_capacity(2 * path.len());
        for (n, &index) in path.iter().enumerate() {
            let item = &items[index];
            let (middle, half) = (middles[item.layer], heights[item.layer] / 2.0);
            match n {
                0 => points.push((x(index), middle + item.size.height / 2.0)),
                _ if n + 1 == path.len() => points.push((x(index), middle - item.size.height / 2.0)),
                // Straight through the layer.
                _ => points.extend([(x(index), middle - half), (x(index), middle + half)]),
            }
        }
        points
    });
    Layout {
        width: right - left + 2.0 * MARGIN,
        height: top - LAYER_GAP + MARGIN,
        nodes: (0..count).map(|index| (x(index), middles[items[index].layer])).collect(),
        edges: edges.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: usize) -> Vec<Size> {
        vec![Size { width: 100.0, height: 40.0 }; count]
    }

    #[test]
    fn readers_are_below_and_nothing_overlaps() {
        // A residual block: 0 → 1 → 2 → 3, 0 → 3, and an input 4 that only 3 reads; 5 reads all.
        let edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 5), (4, 5), (0, 5)];
        let layout = place(&sizes(6), &edges);
        for &(from, to) in &edges {
            assert!(layout.nodes[from].1 < layout.nodes[to].1, "{from} → {to}");
        }
        for a in 0..6 {
            for b in a + 1..6 {
                let ((ax, ay), (bx, by)) = (layout.nodes[a], layout.nodes[b]);
                assert!((ax - bx).abs() >= 100.0 || (ay - by).abs() >= 40.0, "{a} and {b}");
            }
        }
        let inside = |&(x, y): &(f64, f64)| (0.0..=layout.width).contains(&x) && (0.0..=layout.height).contains(&y);
        assert!(layout.edges.iter().flatten().all(inside));
        assert_eq!(layout.nodes[3].1, layout.nodes[4].1, "an input is just above its reader");
    }

    #[test]
    fn a_chain_is_straight() {
        let layout = place(&sizes(4), &[(0, 1), (1, 2), (2, 3)]);
        assert!(layout.nodes.iter().all(|&(x, _)| x == layout.nodes[0].0));
        assert_eq!(place(&[], &[]).nodes, []);
    }

    #[test]
    fn places_are_the_nearest_that_keep_distance() {
        assert_eq!(spread(&[0.0, 0.0], &[10.0, 10.0]), [-17.0, 17.0]);
        assert_eq!(spread(&[0.0, 100.0], &[10.0, 10.0]), [0.0, 100.0]);
    }
}
