//! For which extents a schedule is proven that was measured for one.

use infc_ir::kernel::Kernel;

/// Extents that leave remainders of all tiles there are, or none; beside a kernel's least and greatest.
const RAGGED: [i64; 13] = [1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 64, 67];
/// So many sets of values at most.
const SETS: usize = 12;

/// Values of a kernel's symbols to prove schedules for; none if it has no symbols.
pub(super) fn ragged(kernel: &Kernel) -> Vec<Vec<i64>> {
    let values: Vec<Vec<i64>> = kernel
        .symbols
        .iter()
        .map(|symbol| {
            let is_possible = |value: &i64| symbol.min <= *value && symbol.max.is_none_or(|max| *value <= max);
            let mut values: Vec<i64> = RAGGED.into_iter().filter(is_possible).collect();
            // Ranges that lie beyond: their beginning.
            values.extend((symbol.min..symbol.min.saturating_add(4)).filter(is_possible));
            values.sort_unstable();
            values.dedup();
            values
        })
        .collect();
    if values.is_empty() || values.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let most = values.iter().map(Vec::len).max().unwrap_or(0);
    let mut sets: Vec<Vec<i64>> = Vec::new();
    // Symbols step through their values by different strides, so that large ones of some meet small ones of others.
    for n in 0..most {
        let set =
            values.iter().enumerate().map(|(symbol, values)| values[(n * (2 * symbol + 1) + symbol) % values.len()]);
        let set: Vec<i64> = set.collect();
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    // The largest ones are there in any case.
    let skip = sets.len().div_ceil(SETS).max(1);
    sets.into_iter().rev().step_by(skip).collect()
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

    #[test]
    fn remainders_of_all_kinds_within_the_range() {
        let all = of("N in 1..");
        assert!(all.len() <= SETS && [1, 17, 67].iter().any(|&n| all.contains(&vec![n])), "{all:?}");
        assert!(all.contains(&vec![67]), "{all:?}");
        let few = of("N in 0..=5");
        assert!(few.contains(&vec![0]) && few.iter().flatten().all(|n| (0..=5).contains(n)), "{few:?}");
        assert_eq!(of("N in 100..=102"), [[102], [101], [100]]);
        let fixed = "kernel @\"\"(x: f32[4]) -> (y: f32[4]) { stage o[n: 4] = x[n] output y[n] = o[n] }";
        assert!(ragged(&fixed.parse().unwrap()).is_empty());
    }
}
