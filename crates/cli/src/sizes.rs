//! Sizes of dynamic dims that nobody has said.

use infc_artifact::{Assumption, Entry, Relation, SizeExpr};

/// A dim that would have to be larger is left at its minimum: then the run says what it needs.
const LARGEST: i64 = 1 << 12;

/// The value of each symbol of an entry: what is said, else its minimum, at least 1, or that doubled until what the compiler took
/// for granted of it holds (an audio frame that is padded by reflection has to be longer than the padding). What no doubling makes
/// hold is left to the run, which names it.
pub(crate) fn least(entry: &Entry, said: &[Option<i64>]) -> Vec<i64> {
    let said = |symbol: usize| said.get(symbol).copied().flatten();
    let minimum: Vec<i64> =
        entry.symbols.iter().enumerate().map(|(n, symbol)| said(n).unwrap_or_else(|| symbol.min.max(1))).collect();
    let mut values = minimum.clone();
    while let Some(too_small) = entry.assumptions.iter().find_map(|assumption| too_small(assumption, &values)) {
        let mut grown = false;
        too_small.for_each_symbol(&mut |symbol| {
            let symbol = symbol as usize;
            let Some((value, spec)) = values.get_mut(symbol).zip(entry.symbols.get(symbol)) else { return };
            let doubled = value.saturating_mul(2).min(spec.max.unwrap_or(LARGEST)).min(LARGEST);
            if said(symbol).is_none() && doubled > *value {
                *value = doubled;
                grown = true;
            }
        });
        if !grown {
            return minimum;
        }
    }
    values
}

/// The side of an assumption that does not hold which has to grow. One that cannot be evaluated yet is about what a run tells.
fn too_small<'a>(assumption: &'a Assumption, values: &[i64]) -> Option<&'a SizeExpr> {
    let (left, right) = (assumption.left.eval(values).ok()?, assumption.right.eval(values).ok()?);
    match assumption.relation {
        Relation::Equal if left < right => Some(&assumption.left),
        Relation::Equal | Relation::AtMost if left > right => Some(&assumption.right),
        Relation::Equal | Relation::AtMost => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_artifact::SymbolSpec;

    /// An entry with the dims N and L, of which so much is taken for granted.
    fn entry(assumptions: Vec<(SizeExpr, Relation, SizeExpr)>) -> Entry {
        let spec = |name: &str, max| SymbolSpec { name: name.to_owned(), min: 0, max };
        let assumption =
            |(left, relation, right)| Assumption { what: String::new(), left, relation, right, origins: Vec::new() };
        Entry {
            name: "main".to_owned(),
            inputs: vec![],
            outputs: vec![],
            symbols: vec![spec("N", None), spec("L", Some(1000))],
            bindings: vec![],
            state: vec![],
            assumptions: assumptions.into_iter().map(assumption).collect(),
            specializes: None,
            slices: None,
        }
    }

    fn at_least(least: i64) -> (SizeExpr, Relation, SizeExpr) {
        (SizeExpr::constant(least), Relation::AtMost, SizeExpr::symbol(1))
    }

    #[test]
    fn dims_are_as_small_as_the_model_takes() {
        assert_eq!(least(&entry(vec![]), &[None, None]), [1, 1]);
        assert_eq!(least(&entry(vec![at_least(65)]), &[None, None]), [1, 128], "only the dim that it is about");
        // A whole number of blocks.
        let blocks = SizeExpr::symbol(1).floor_div(SizeExpr::constant(48));
        let one_block = (blocks, Relation::Equal, SizeExpr::constant(1));
        assert_eq!(least(&entry(vec![one_block]), &[None, None]), [1, 64]);
    }

    /// Of two dims the one that is too small grows, and no hostile number overflows.
    #[test]
    fn only_the_smaller_side_grows() {
        let order = (SizeExpr::symbol(0), Relation::AtMost, SizeExpr::symbol(1));
        assert_eq!(least(&entry(vec![order.clone()]), &[Some(5), None]), [5, 8]);
        assert_eq!(least(&entry(vec![order]), &[Some(i64::MAX), None]), [i64::MAX, 1]);
        let mut huge = entry(vec![(SizeExpr::symbol(1), Relation::AtMost, SizeExpr::symbol(0))]);
        (huge.symbols[0].min, huge.symbols[1].min, huge.symbols[1].max) = (i64::MAX - 1, i64::MAX, None);
        assert_eq!(least(&huge, &[None, None]), [i64::MAX - 1, i64::MAX]);
    }

    #[test]
    fn what_is_said_stays() {
        assert_eq!(least(&entry(vec![at_least(65)]), &[Some(3), Some(7)]), [3, 7]);
        assert_eq!(least(&entry(vec![at_least(65)]), &[Some(3), None]), [3, 128]);
    }

    #[test]
    fn what_cannot_hold_is_left_to_the_run() {
        for impossible in [at_least(1001), at_least(1 << 40)] {
            assert_eq!(least(&entry(vec![impossible]), &[None, None]), [1, 1]);
        }
        let never = (SizeExpr::constant(2), Relation::Equal, SizeExpr::constant(3));
        assert_eq!(least(&entry(vec![never]), &[None, None]), [1, 1]);
    }
}
