//! For which extents a schedule is proven that was measured for one.

use infc_ir::kernel::Kernel;

/// Extents that leave remainders of all tiles there are, or none; beside a symbol's least and greatest.
const RAGGED: [i64; 13] = [1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 64, 67];
/// Ranges that end beyond this are not proven at their end: a run would take long, and many bytes.
const LARGEST: i64 = 256;
/// So many sets of values at most.
const SETS: usize = 12;

/// Values of a kernel's symbols to prove schedules for: all the least, which are 0 where that is allowed, all the greatest, and
/// of what lies between an even choice. None if it has no symbols.
pub(super) fn ragged(kernel: &Kernel) -> Vec<Vec<i64>> {
    let values: Vec<Vec<i64>> = kernel
        .symbols
        .iter()
        .map(|symbol| {
            let is_possible = |value: &i64| symbol.min <= *value && symbol.max.is_none_or(|max| *value <= max);
            let mut values: Vec<i64> = RAGGED.into_iter().filter(is_possible).collect();
            // Ranges that lie beyond: their beginning.
            values.extend((symbol.min..symbol.min.saturating_add(4)).filter(is_possible));
            values.extend(symbol.max.filter(|max| is_possible(max) && *max <= LARGEST));
            values.sort_unstable();
            values.dedup();
            values
        })
        .collect();
    if values.is_empty() || values.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let ends = |at: fn(&[i64]) -> i64| values.iter().map(|values| at(values)).collect::<Vec<i64>>();
    let mut sets = vec![ends(|values| values[0])];
    let add = |set: Vec<i64>, to: &mut Vec<Vec<i64>>| {
        if !to.contains(&set) {
            to.push(set);
        }
    };
    add(ends(|values| values[values.len() - 1]), &mut sets);
    let most = values.iter().map(Vec::len).max().unwrap_or(0);
    let mut between: Vec<Vec<i64>> = Vec::new();
    // Symbols step through their values by different strides, so that large ones of some meet small ones of others.
    for n in 0..most {
        let set =
            values.iter().enumerate().map(|(symbol, values)| values[(n * (2 * symbol + 1) + symbol) % values.len()]);
        let set: Vec<i64> = set.collect();
        if !sets.contains(&set) {
            add(set, &mut between);
        }
    }
    let left = (SETS - sets.len()).min(between.len());
    sets.extend((0..left).map(|n| between[n * between.len() / left].clone()));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(symbols: &str) -> Vec<Vec<i64>> {
        let text = format!(
            "kernel @\"\"(x: f32[N]) -> (y: f32[N]) where {symbols} {{\n  stage o[n: N] = x[n]\n  output y[n] = o[n]\n}}\n"
        );
        ragged(&text.parse().unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// The ends of ranges are there in any case, and remainders of tiles of all kinds.
    #[test]
    fn ends_and_remainders_within_the_range() {
        let all = of("N in 1..");
        assert_eq!((all.len(), &all[..2]), (SETS, &[vec![1], vec![67]][..]));
        for (what, tile) in [("four rows", 4), ("a vector", 8), ("two vectors", 16)] {
            assert!(all.iter().any(|n| n[0] > tile && n[0] % tile != 0), "{what}: {all:?}");
            assert!(all.iter().any(|n| n[0] > 0 && n[0] % tile == 0), "{what}: {all:?}");
        }
        assert_eq!(of("N in 0..=5"), [[0], [5], [1], [2], [3]]);
        assert_eq!(of("N in 100..=102"), [[100], [102], [101]]);
        assert_eq!(of("N in 1..=200")[..2], [[1], [200]]);
        let long = of("N in 1..=1000000");
        assert!(long.iter().flatten().all(|&n| n <= 67), "{long:?}");
        let fixed = "kernel @\"\"(x: f32[4]) -> (y: f32[4]) { stage o[n: 4] = x[n] output y[n] = o[n] }";
        assert!(ragged(&fixed.parse().unwrap()).is_empty());
    }

    /// Of two symbols both ends meet, and large ones of each with small ones of the other.
    #[test]
    fn symbols_differ_from_each_other() {
        let all = of("N in 0..=40, M in 1..");
        assert!(all.len() <= SETS && all[..2] == [[0, 1], [40, 67]], "{all:?}");
        assert!(all.iter().any(|set| set[0] > 16 && set[1] < 8), "{all:?}");
        assert!(all.iter().any(|set| set[0] < 8 && set[1] > 16), "{all:?}");
    }
}
